#!/usr/bin/python3 -B
# SPDX-License-Identifier: MIT
"""Servers that answer, but not as they should: they take no writes or no more connections, have
lost a table, end statements.  Calls fail with a sentence, or do not fail."""

import errno
import os
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import servers  # noqa: E402
from servers import harness  # noqa: E402
from harness import append, errno_of, eventually, read, same, write  # noqa: E402
from test_stores import own, start  # noqa: E402

AWAY = "the server was away"
SCHEMA = {"mysql": "", "postgresql": "agentscope."}


def says(mount, error, call, *arguments):
    """The call fails so, and the log has a sentence more."""
    before = len(mount.log())
    same(errno.errorcode.get(errno_of(call, *arguments)), errno.errorcode[error], call.__name__)
    said = mount.log()[before:]
    assert said.strip(), f"{call.__name__}: {errno.errorcode[error]} without a sentence"
    assert AWAY not in said, said
    return said


def bar(server, base, on):
    """The server takes no writes from now on, or takes them again."""
    with server.connect() as admin:
        if server.kind == "mysql":
            admin.query(f"SET GLOBAL read_only = {int(on)}")
            return
        admin.query(f"ALTER DATABASE {base.name} SET default_transaction_read_only = "
                    + ("on" if on else "off"))
        admin.query("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE "
                    f"datname = '{base.name}' ")


def is_read_only(box, kind):
    server = own(box, kind)
    base = server.database()
    one, two = box.mount(store=base.url_with(timeout=5)), box.mount(store=base.url_with(timeout=5))
    os.mkdir(one.at("s"))
    files = {"a.json": b"{}", "l.jsonl": b"1\n2\n", "o.txt": b"text"}
    for name, data in files.items():
        write(one.at("s", name), data)
    same(read(two.at("s/a.json")), b"{}", "before")
    with base.connect() as client:
        # Which can perhaps not be taken in any more.
        client.query(f"INSERT INTO {SCHEMA[kind]}agentscope_sessions (session_id, state_key, "
                     "item_index, state_data) VALUES ('late', 'k', 0, '1')")
    bar(server, base, True)
    if kind == "postgresql":
        # The connection was ended: where that is met by the append, nobody knows of this one.
        error = errno_of(append, one.at("s/l.jsonl"), b"3\n")
        assert error in (errno.EIO, errno.EROFS), errno.errorcode.get(error)
    says(one, errno.EROFS, append, one.at("s/l.jsonl"), b"3\n")
    says(one, errno.EROFS, os.mkdir, one.at("t"))
    says(one, errno.EROFS, write, one.at("s/a.json"), b"[]")
    for mount in (one, two):
        same(sorted(os.listdir(mount.at("s"))), sorted(files), "names")
        for name, data in files.items():
            same(read(mount.at("s", name)), data, name)
        same(errno_of(os.stat, mount.at("s/none")), errno.ENOENT, "what is not there")
    read_by_a_verb = box.sessfs("cat", base.url, "s/l.jsonl")
    same(read_by_a_verb.stdout, b"1\n2\n", f"by a command: {read_by_a_verb.stderr}")
    bar(server, base, False)
    eventually(lambda: errno_of(os.mkdir, one.at("t")) == 0, "it takes writes again")
    append(one.at("s/l.jsonl"), b"3\n")
    same(read(two.at("s/l.jsonl")), b"1\n2\n3\n", "on the other mount")
    one.check()


def test_a_mount_reads_on_while_mariadb_takes_no_writes(box):
    is_read_only(box, "mysql")


def test_a_mount_reads_on_while_postgresql_takes_no_writes(box):
    is_read_only(box, "postgresql")


def loses_its_table(box, kind):
    base = start(box, kind).database()
    mount = box.mount(store=base.url)
    os.mkdir(mount.at("s"))
    write(mount.at("s/a.json"), b"{}")
    write(mount.at("s/l.jsonl"), b"1\n")
    mount.remount()
    with base.connect() as client:
        client.query(f"DROP TABLE {SCHEMA[kind]}agentscope_sessions")
    says(mount, errno.EIO, read, mount.at("s/a.json"))
    says(mount, errno.EIO, append, mount.at("s/l.jsonl"), b"2\n")
    says(mount, errno.EIO, write, mount.at("s/new.json"), b"2")


def test_a_table_that_is_gone_from_mariadb_is_no_missing_file(box):
    loses_its_table(box, "mysql")


def test_a_table_that_is_gone_from_postgresql_is_no_missing_file(box):
    loses_its_table(box, "postgresql")


def refuses(box, url, *words, between=lambda: None):
    """A mount, and a command, fail long before the timeout with these words."""
    for command in (["mount", "-f", url, box.new_folder()], ["ls", url]):
        between()
        begun = time.monotonic()
        done = box.sessfs(*command)
        said = done.stderr.decode()
        assert done.returncode, f"{command[0]} succeeds"
        for word in words:
            assert word in said, f"{command[0]}: {said}"
        assert AWAY not in said, f"{command[0]}: {said}"
        assert time.monotonic() - begun < 300, f"{command[0]}: it takes as long as the timeout"


NEEDED = 8  # connections that a mount needs, as sessfs-servers(7) says


def is_full(box, kind):
    """A user may have as many connections as there are."""
    server = start(box, kind)
    base = server.database()
    listed, limited = {
        "mysql": (
            "SELECT COUNT(*) FROM information_schema.processlist WHERE user = ?",
            f"GRANT USAGE ON *.* TO {base.user}@localhost WITH MAX_USER_CONNECTIONS {NEEDED}",
        ),
        "postgresql": (
            "SELECT COUNT(*) FROM pg_stat_activity WHERE usename = $1",
            f"ALTER ROLE {base.user} CONNECTION LIMIT {NEEDED}",
        ),
    }[kind]
    clients = []
    box.mount(store=base.url).stop()
    with server.connect() as admin:

        def settles():
            # The server counts a connection until its process or thread has ended.
            counts = lambda: int(admin.query(listed, base.user)[0][0]) == len(clients)
            eventually(counts, f"{len(clients)} connections are left")

        settles()
        admin.query(limited)
        clients += [base.connect() for _ in range(NEEDED - 1)]
        refuses(box, base.url_with(timeout=600), "accepts no second connection", between=settles)
        settles()
        clients.append(base.connect())
        limit = "connections" if kind == "postgresql" else "max_user"
        refuses(box, base.url_with(timeout=600), limit, between=settles)
        while clients:
            clients.pop().close()
        settles()
    mount = box.mount(store=base.url_with(timeout=600))
    os.mkdir(mount.at("s"))
    same(os.listdir(mount.path), ["s"], "with as many as it needs")


def test_a_limit_of_connections_of_mariadb_is_told_at_once(box):
    is_full(box, "mysql")


def test_a_limit_of_connections_of_postgresql_is_told_at_once(box):
    is_full(box, "postgresql")


def takes_one(box, kind):
    """As servers that are a library in some other process: who is one more is hung up on."""
    server = start(box, kind)
    proxy, base = servers.proxy(box, server), server.database()
    proxy("most 1")
    refuses(box, proxy.url(base, timeout=600), "accepts no second connection")


def test_a_server_that_takes_one_connection_is_refused_at_once_as_mariadb(box):
    takes_one(box, "mysql")


def test_a_server_that_takes_one_connection_is_refused_at_once_as_postgresql(box):
    takes_one(box, "postgresql")


# A lock that a reader waits for; who waits, and how an administrator ends his statement.
LOCKS = {
    "mysql": ("LOCK TABLES agentscope_sessions WRITE", "UNLOCK TABLES",
              "SELECT id FROM information_schema.processlist WHERE db = ? AND state LIKE "
              "'Waiting for table%'", "KILL QUERY {}"),
    "postgresql": ("BEGIN; LOCK TABLE agentscope.agentscope_sessions", "ROLLBACK",
                   "SELECT pid FROM pg_stat_activity WHERE datname = $1 AND "
                   "wait_event_type = 'Lock'", "SELECT pg_cancel_backend({})"),
}


def ends_statements(box, kind):
    lock, unlock, waiting, end = LOCKS[kind]
    server = start(box, kind)
    base = server.database()
    mount = box.mount(store=base.url)
    os.mkdir(mount.at("s"))
    write(mount.at("s/l.jsonl"), b"1\n2\n")
    mount.remount()
    seen = []
    reading = threading.Thread(target=lambda: seen.append(read(mount.at("s/l.jsonl"))))
    with base.connect() as client, server.connect() as admin:
        client.query(lock)
        reading.start()
        eventually(lambda: admin.query(waiting, base.name), "it waits")
        for (one,) in admin.query(waiting, base.name):
            admin.query(end.format(one.decode()))
        client.query(unlock)
        reading.join()
    same(seen, [b"1\n2\n"], "the list")


def test_statements_that_are_ended_on_mariadb_are_said_again(box):
    ends_statements(box, "mysql")


def test_statements_that_are_ended_on_postgresql_are_said_again(box):
    ends_statements(box, "postgresql")


if __name__ == "__main__":
    servers.main(globals())
