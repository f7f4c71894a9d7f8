#!/usr/bin/python3 -B
# SPDX-License-Identifier: MIT
"""Stores on real servers, by their URLs: what a mount and the verbs do, and what keeps a daemon
going when the server was away although it has given up its rights."""

import contextlib
import errno
import io
import json
import os
import random
import shutil
import sys
import tarfile
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import servers  # noqa: E402
from servers import harness  # noqa: E402
from harness import append, errno_of, read, same, soak, write  # noqa: E402
import test_quota  # noqa: E402
from test_guard import NOBODY, unguarded, use  # noqa: E402

TABLE = harness.TABLE
ROUNDS = harness.rounds("SESSFS_ROUNDS", 30, 100)


def need(box, kind):
    folder = os.environ.get("SESSFS_PLUGINS", "")
    if not os.access(os.path.join(folder, f"sessfs-{kind}.so"), os.R_OK):
        raise harness.Skip(f"sessfs-{kind}.so is not built")
    os.environ["HOME"] = box.new_folder("home")


def start(box, kind):
    """Databases on the server of the run, for a store."""
    need(box, kind)
    return servers.start(box, kind)


def own(box, kind, **named):
    """A private server for a store."""
    need(box, kind)
    return servers.own(box, kind, **named)


def run(box, *words, **named):
    return box.sessfs(*words, check=True, **named).stdout


def refused(box, url, *parts):
    done = box.sessfs("mount", url, box.new_folder("mnt"))
    said = done.stderr.decode()
    same(done.returncode, 1, f"status of {url}: {said}")
    for part in parts:
        assert part in said, f"{url}: {part!r} is not in {said!r}"


def lines_of(base):
    """The rows of s/l, as a foreign client sees them."""
    query = f"SELECT state_data FROM {TABLE} WHERE session_id = 's' AND state_key = 'l' ORDER BY "
    with base.connect() as client:
        return [row[0] for row in client.query(query + "item_index")]


def keeps(box, base):
    mount = box.mount(store=base.url)
    os.mkdir(mount.at("s"))
    append(mount.at("s", "l.jsonl"), b'{"n": 1}\n{"n": 2}\n')
    write(mount.at("s", "a.json"), b'{"a": [1]}')
    write(mount.at("plain.txt"), bytes(range(256)) * 1000)
    os.symlink("plain.txt", mount.at("link"))
    same(lines_of(base), [b'{"n": 1}', b'{"n": 2}'], "rows when write has returned")
    expected = harness.tree(mount.path, times=True)
    mount.remount()
    harness.same_trees(expected, harness.tree(mount.path, times=True))
    mount.remount(["ro"])
    harness.same_trees(expected, harness.tree(mount.path, times=True))
    same(errno_of(append, mount.at("s", "l.jsonl"), b"{}\n"), 30, "an append with -o ro")


def test_what_a_mount_has_written_is_on_mariadb_and_there_for_the_next(box):
    keeps(box, start(box, "mysql").database())


def test_what_a_mount_has_written_is_on_postgresql_and_there_for_the_next(box):
    keeps(box, start(box, "postgresql").database())


def takes_older(box, kind):
    """A table with one row a session becomes sessions of a store, read where it lies."""
    base = start(box, kind).database()
    query = base.connect().query
    place, stamp, marks = "", "TIMESTAMP NULL", ("?", "?")
    query("SET time_zone = '+00:00'" if kind == "mysql" else "SET timezone = 'UTC'")
    if kind == "postgresql":
        place, stamp, marks = "agentscope.", "TIMESTAMPTZ", ("$1", "$2")
        query("CREATE SCHEMA IF NOT EXISTS agentscope")
    for table in (TABLE, "old"):
        query(
            f"CREATE TABLE {place}{table} (session_id VARCHAR(255) PRIMARY KEY, "
            f"state_data TEXT, updated_at {stamp})"
        )
    insert = "INSERT INTO {} VALUES (%s, %s, '2025-02-03 04:05:06')" % marks
    ids = ["s1", "a/b", "", "\u65e5 it's"]
    for name in ids:
        query(insert.format(place + TABLE), name, '{"k": "\u65e5 it\'s", "l": [1, {"b": 2}]}')
    query(insert.format(place + TABLE), "bad", "{")
    query(insert.format(place + "old"), "old", '{"k": 1}')
    mount = box.mount()

    def take(*operands):
        done = box.sessfs("import", "--layout=agentscope-rows", *operands)
        return done.returncode, done.stderr.decode()

    status, said = take(mount.store, base.url)
    same(status, 1, said)
    assert "session 'bad': line 1, byte 1" in said and said.count("\n") == 1, said
    for name in ids:
        same(mount.rows(name, "k"), ['"\u65e5 it\'s"'.encode()], f"the single of {name!r}")
        same(mount.rows(name, "l"), [b"1", b'{"b":2}'], f"the list of {name!r}")
    same(os.stat(mount.at("s1/k.json")).st_mtime, 1738555506, "the time")
    same(take(mount.store, base.url_with(table="old")), (0, ""), "a table that the URL names")
    same(read(mount.at("old/k.json")), b"1", "its session")
    same(take("--from-table=old", mount.store, base.url), (0, ""), "one that an option names")
    status, said = take("--from-table=none", mount.store, base.url)
    assert status == 1 and "there is no table none in" in said, said
    query(f"DROP TABLE {place}{TABLE}")
    box.mount(store=base.url).stop()
    status, said = take(mount.store, base.url)
    assert status == 1 and "the layout of a store" in said, said


def test_an_older_table_on_mariadb_becomes_sessions(box):
    takes_older(box, "mysql")


def test_an_older_table_on_postgresql_becomes_sessions(box):
    takes_older(box, "postgresql")


# What an administrator has set for all clients is for other programs.


def test_settings_of_mariadb_for_all_are_not_for_mounts(box):
    server = own(box, "mysql")
    for settings in (
        {"autocommit": 0, "sql_safe_updates": 1, "completion_type": 1},
        {"sql_select_limit": 2, "max_join_size": 1},
    ):
        base = server.database()
        with base.admin() as client:
            for key, value in settings.items():
                client.query(f"SET GLOBAL {key} = {value}")
        keeps(box, base)
        with base.admin() as client:
            for key in settings:
                client.query(f"SET GLOBAL {key} = DEFAULT")


def waits_longer(box, base, locks):
    """Than the second that the administrator gives a statement."""
    mount = box.mount(store=base.url)
    os.mkdir(mount.at("s"))
    append(mount.at("s", "l.jsonl"), b"[1]\n")
    with base.connect() as client:
        for sql in locks:
            client.query(sql)
        appending = threading.Thread(target=append, args=(mount.at("s", "l.jsonl"), b"[2]\n"))
        appending.start()
        time.sleep(6)
    appending.join()
    same(lines_of(base), [b"[1]", b"[2]"], "rows")


def test_the_time_that_mariadb_gives_statements_is_not_for_mounts(box):
    base = own(box, "mysql").database()
    with base.admin() as client:
        client.query("SET GLOBAL max_statement_time = 1")
    waits_longer(box, base, ["SET max_statement_time = 0", f"LOCK TABLES {TABLE} WRITE"])


@soak
def test_the_time_that_postgresql_gives_statements_is_not_for_mounts(box):
    base = start(box, "postgresql").database()
    with base.admin() as client:
        client.query(f"ALTER DATABASE {base.name} SET statement_timeout = 1000")
    waits_longer(box, base, ["SET statement_timeout = 0", "BEGIN", f"LOCK TABLE {TABLE}"])


def brings_back(box, kind):
    """What either of two mounts has removed."""
    base = start(box, kind).database()
    mounts = [box.mount(store=base.url) for _ in range(2)]
    one, two = mounts
    os.makedirs(one.at("s/deep"))
    append(one.at("s/l.jsonl"), b'{"n": 1}\nno json\n{"n": 2}\n')
    write(one.at("s/draft.json"), b'{"a": ')
    write(one.at("s/deep/plain.txt"), bytes(range(256)) * 1000)
    os.symlink("deep/plain.txt", one.at("s/link"))
    expected, rows = harness.tree(one.path), lines_of(base)
    gone = ["s", "s/deep", "s/deep/plain.txt", "s/draft.json", "s/l.jsonl", "s/link"]

    def listed():
        found = json.loads(run(box, "gc", "--json", "--list", base.url))
        return sorted(item["name"] for item in found)

    for mount in mounts:
        harness.eventually(lambda: harness.tree(mount.path) == expected, "it is seen")
        shutil.rmtree(mount.at("s"))
        harness.eventually(lambda: listed() == gone, "all is in the trash")
        same(lines_of(base), [], "rows that SQL sees")
        run(box, "check", base.url)
        run(box, "gc", "--undo", base.url, "s")
        harness.same_trees(expected, harness.tree(one.path))
        same(lines_of(base), rows, "rows")
    harness.eventually(lambda: harness.tree(two.path) == expected, "the other sees it")
    same(listed(), [], "the trash")
    run(box, "check", base.url)


def test_what_was_removed_comes_back_on_mariadb(box):
    brings_back(box, "mysql")


def test_what_was_removed_comes_back_on_postgresql(box):
    brings_back(box, "postgresql")


def bounds(box, kind):
    """A session that has a quota, on two mounts."""
    base = start(box, kind).database()
    one, two = (box.mount(store=base.url) for _ in range(2))
    line, limit = b'{"text": "%s"}\n' % (b"x" * 900), b"12K"
    paths = [mount.at("s", "l.jsonl") for mount in (one, two)]
    os.mkdir(one.at("s"))
    os.setxattr(one.at("s"), "user.sessfs.quota", limit)

    def held(mount):
        return int(os.getxattr(mount.at("s"), "user.sessfs.used"))

    harness.eventually(lambda: test_quota.is_bound(paths[1], line * 20), "it is bound")
    append(paths[1], line * 12)
    same(lines_of(base), [line.rstrip()] * 12, "rows of what there was room for")
    harness.eventually(lambda: held(one) == 12 * len(line), "it is counted on the other mount")
    for path in paths:
        same(errno_of(append, path, line * 3), errno.ENOSPC, "more than there is room for")
    same(lines_of(base), [line.rstrip()] * 12, "rows")
    same(os.statvfs(two.at("s")).f_blocks * os.statvfs(two.at("s")).f_frsize, 12288, "df")
    os.unlink(paths[0])
    harness.eventually(lambda: held(two) == 0, "nothing is held")
    append(paths[1], line * 10)
    run(box, "check", base.url)


def test_a_session_has_a_quota_on_mariadb(box):
    bounds(box, "mysql")


def test_a_session_has_a_quota_on_postgresql(box):
    bounds(box, "postgresql")


def refuses(box, kind, setting):
    """With durable, a server that says of itself that it may lose commits."""
    careless = start(box, kind).database()
    done = box.sessfs("mount", "-o", "durable", careless.url, box.new_folder("mnt"))
    said = done.stderr.decode()
    same(done.returncode, 1, f"status: {said}")
    assert setting in said, said
    box.mount(store=careless.url).unmount()
    careful = own(box, kind, durable=True).database()
    mount = box.mount(store=careful.url, options=["durable"])
    write(mount.at("a.txt"), b"a")


def test_durable_refuses_mariadb_that_may_lose_commits(box):
    refuses(box, "mysql", "innodb_flush_method=nosync")


def test_durable_refuses_postgresql_that_may_lose_commits(box):
    refuses(box, "postgresql", "fsync=off")


def play_verbs(box, url, session):
    """Every verb that takes a store, whether or not it is mounted."""
    path = f"{session}/l.jsonl"
    run(box, "append", url, path, stdin=b'{"n": 1}\n')
    run(box, "append", url, path, stdin=b'{"n": 2}\n')
    run(box, "put", url, f"{session}/a.json", stdin=b'{"a": 1}')
    run(box, "put", url, f"{session}/note.txt", stdin=b"text\n")
    same(run(box, "cat", url, path), b'{"n": 1}\n{"n": 2}\n', "cat")
    names = run(box, "ls", url, session).split()
    same(sorted(names), [b"a.json", b"l.jsonl", b"note.txt"], "ls")
    found = json.loads(run(box, "sessions", "--json", url))
    same([(s["id"], s["keys"], s["items"]) for s in found], [(session, 2, 3)], "sessions")
    stats = json.loads(run(box, "stats", "--json", url))
    same((stats["sessions"], stats["items"]), (1, 3), "stats")
    same(b"/a.json\n" in run(box, "ls", "-l", url, session).replace(b" ", b"/"), True, "ls -l")
    version = run(box, "compact", url, path).decode().strip()
    words = ["--first=2", f"--if={version}", url, path]
    run(box, "compact", *words, stdin=b'{"n": "1 to 2"}\n')
    same(run(box, "cat", url, path), b'{"n": "1 to 2"}\n', "compacted")
    folder = box.new_folder()
    run(box, "export", url, folder)
    same(read(os.path.join(folder, path)), b'{"n": "1 to 2"}\n', "exported")
    with tarfile.open(fileobj=io.BytesIO(run(box, "export", url, "-"))) as tar:
        assert f"{session}/note.txt" in tar.getnames(), tar.getnames()
    write(os.path.join(folder, session, "b.json"), b"[]")
    run(box, "import", url, folder)
    same(run(box, "cat", url, f"{session}/b.json"), b"[]", "imported")
    run(box, "config", url, "ttl=30d")
    assert b"ttl=30d\n" in run(box, "config", url), "config"
    run(box, "config", url, "ttl=")
    assert b"clean" in box.sessfs("check", url, check=True).stderr, "check"
    run(box, "rm", "-r", url, session)
    same(run(box, "ls", url), b"", "ls after rm")
    run(box, "put", url, f"{session}/a.json", stdin=b"1")
    run(box, "gc", "--older-than=0s", url)
    same(run(box, "ls", url), b"", "ls after gc")
    assert session.encode() in run(box, "gc", "--list", url), "gc --list"
    run(box, "gc", "--undo", url, session)
    same(run(box, "cat", url, f"{session}/a.json"), b"1", "brought back")
    run(box, "rm", "-r", url, session)


def obeys(box, kind):
    base = start(box, kind).database()
    play_verbs(box, base.url, "alone")


def obeys_mounted(box, kind):
    base = start(box, kind).database()
    mount = box.mount(store=base.url)
    play_verbs(box, base.url, "mounted")
    same(os.listdir(mount.path), [], "what the mount shows afterwards")
    mounts = json.loads(run(box, "mounts", "--json"))
    found = [one for one in mounts if one["directory"] == mount.path]
    same(len(found), 1, "lines of mounts")
    same(found[0]["store"].partition("?")[0], base.url.partition("?")[0], "its store")
    assert "passfile" not in found[0]["store"], found
    run(box, "umount", base.url)
    mount.forget()


def refuses_verbs(box, kind):
    """What a store on a server cannot do is told in a sentence."""
    base = start(box, kind).database()
    run(box, "put", base.url, "s/a.json", stdin=b"1")
    for words, status, part in (
        (["check", "--repair", base.url], 2, b"is not a file"),
        (["config", base.url, "max_size=1G"], 1, b"max_size is for stores in files"),
        (["config", base.url, "table=other"], 1, b"table= in the URL"),
        (["mount", "-o", "max_size=1G", base.url, box.new_folder("mnt")], 1,
         b"max_size is for stores in files"),
    ):
        done = box.sessfs(*words)
        same(done.returncode, status, f"status of {words}: {done.stderr}")
        assert part in done.stderr, done.stderr


def test_what_mariadb_cannot_do_is_told(box):
    refuses_verbs(box, "mysql")


def test_what_postgresql_cannot_do_is_told(box):
    refuses_verbs(box, "postgresql")


def limited(base, setup):
    """The URL of a user with the rights that are printed by setup, and no others."""
    user = f"{base.name}_limited"
    with base.admin() as admin:
        if base.server.kind == "mysql":
            name = f"{user}@'localhost'"
            admin.query(f"CREATE USER {name} IDENTIFIED BY '{base.password}'")
        else:
            name = user
            admin.query(f"CREATE ROLE {name} LOGIN PASSWORD '{base.password}'")
        for line in setup.decode().splitlines():
            if line.startswith("GRANT "):
                admin.query(line.rstrip(";").replace("USER", name))
    return base.url.replace(f"{base.user}@", f"{user}@")


def set_up(box, kind):
    """An administrator makes the store; who may make nothing mounts it, and hears of others."""
    base = start(box, kind).database()
    printed = run(box, "setup", "--dry-run", base.url)
    assert b"sessfs_row_insert" in printed and b"-- GRANT" in printed, printed
    done = box.sessfs("ls", base.url)
    same(done.returncode, 1, "status of ls: nothing was made")
    rights = run(box, "setup", base.url)
    same(run(box, "setup", base.url), rights, "what it prints when it is said again")
    url = limited(base, rights)
    mount = box.mount(store=url)
    assert "triggers" not in mount.log(), mount.log()
    os.mkdir(mount.at("s"))
    append(mount.at("s", "l.jsonl"), b"1\n")
    with base.connect() as client:
        client.query(
            f"INSERT INTO {TABLE} (session_id, state_key, item_index, state_data) "
            "VALUES ('s', 'l', 1, '2')"
        )
    harness.eventually(lambda: read(mount.at("s", "l.jsonl")) == b"1\n2\n", "it hears of SQL")
    mount.unmount()
    # Without the triggers it says what it does not see, and each mount begins with what there is.
    with base.connect() as client:
        table = f" ON {TABLE}" if kind == "postgresql" else ""
        client.query(f"DROP TRIGGER sessfs_row_delete{table}")
    for index in (2, 3):
        with base.connect() as client:
            client.query("SET @sessfs = 1" if not table else "SET sessfs.own = '1'")
            client.query(
                f"INSERT INTO {TABLE} (session_id, state_key, item_index, state_data) "
                f"VALUES ('s', 'l', {index}, '{index + 1}')"
            )
        mount = box.mount(store=url)
        assert "sessfs setup" in mount.log(), mount.log()
        expected = b"".join(b"%d\n" % (i + 1) for i in range(index + 1))
        same(read(mount.at("s", "l.jsonl")), expected, "what was changed before the mount")
        mount.unmount()
    # One of another format, which setup does not touch either.
    schema = "agentscope." if kind == "postgresql" else ""
    for version, word in ((1, "an older sessfs"), (99, "a newer sessfs")):
        with base.connect() as client:
            client.query(f"UPDATE {schema}sessfs_store SET version = {version}")
        refused(box, url, f"has the format {version}, and this sessfs knows the format 6 alone")
        refused(box, base.url, word)
        done = box.sessfs("setup", base.url)
        same((done.returncode, done.stdout), (1, b""), "setup")
        assert word.encode() in done.stderr, done.stderr


def test_who_may_make_nothing_mounts_what_setup_has_made_on_mariadb(box):
    set_up(box, "mysql")


def test_who_may_make_nothing_mounts_what_setup_has_made_on_postgresql(box):
    set_up(box, "postgresql")


def test_who_may_make_nothing_is_told_of_setup(box):
    base = start(box, "mysql").database()
    url = limited(base, f"GRANT SELECT ON {base.name}.* TO USER;".encode())
    refused(box, url, "sessfs setup")


def stands_beside(box, kind):
    """A mount that only reads, beside one that writes, whoever comes first."""
    base = start(box, kind).database()
    writer = box.mount(store=base.url)
    os.mkdir(writer.at("s"))
    reader = box.mount(store=base.url, options=["ro"])
    append(writer.at("s", "l.jsonl"), b"1\n")
    same(read(reader.at("s", "l.jsonl")), b"1\n", "what the other one shows")
    writer.unmount()
    writer = box.mount(store=base.url)
    append(writer.at("s", "l.jsonl"), b"2\n")
    same(read(reader.at("s", "l.jsonl")), b"1\n2\n", "and of one that came later")
    done = box.sessfs("mount", "-o", "exclusive", base.url, box.new_folder("mnt"))
    same(done.returncode, 1, "status of one that wants it alone")
    assert b"already mounted by process" in done.stderr, done.stderr
    same(done.stderr.count(b"may lose"), 0, "warnings about a server that is not used")


def test_a_mount_that_only_reads_stands_beside_others_on_mariadb(box):
    stands_beside(box, "mysql")


def test_a_mount_that_only_reads_stands_beside_others_on_postgresql(box):
    stands_beside(box, "postgresql")


def copied(base):
    """A database with all that another one holds, for the same user."""
    copy = base.server.database()
    copy.user, copy.passfile, copy.password = base.user, base.passfile, base.password
    with base.server.connect() as admin:
        if base.server.kind == "postgresql":
            admin.query(f"DROP DATABASE {copy.name}")
            admin.query(f"CREATE DATABASE {copy.name} TEMPLATE {base.name} OWNER {base.user}")
            return copy
        for host in ("localhost", "%"):
            admin.query(f"GRANT ALL ON {copy.name}.* TO {base.user}@'{host}'")
        for row in admin.query("SELECT table_name FROM information_schema.tables WHERE "
                               f"table_schema = '{base.name}'"):
            table = row[0].decode()
            admin.query(f"CREATE TABLE {copy.name}.{table} LIKE {base.name}.{table}")
            admin.query(f"INSERT INTO {copy.name}.{table} SELECT * FROM {base.name}.{table}")
    return copy


def nobody_has(base):
    with base.server.connect() as admin:
        return not admin.query("SELECT 1 FROM pg_stat_activity WHERE datname = $1", base.name)


def knows_its_own(box, kind):
    """A copy of a database has none of the mounts that the other one has."""
    base = start(box, kind).database()
    mount = box.mount(store=base.url)
    os.mkdir(mount.at("s"))
    append(mount.at("s", "l.jsonl"), b"1\n")
    mount.kill9()  # and has not said that it is gone
    if kind == "postgresql":
        harness.eventually(lambda: nobody_has(base), "the server has noticed that it has ended")
    copy = copied(base)
    alone = box.mount(store=copy.url, options=["exclusive"])
    same(read(alone.at("s", "l.jsonl")), b"1\n", "what was copied")
    append(alone.at("s", "l.jsonl"), b"2\n")
    done = box.sessfs("mount", "-o", "exclusive", copy.url, box.new_folder("mnt"))
    same((done.returncode, b"already mounted by process" in done.stderr), (1, True),
         f"a second one: {done.stderr}")
    alone.stop()
    with copy.connect() as client:
        same(client.query("SELECT COUNT(*) FROM " + MOUNTS[kind])[0][0], b"0", "mounts")


MOUNTS = {"mysql": "sessfs_mount", "postgresql": "agentscope.sessfs_mount"}


def test_a_copy_of_a_mounted_database_is_mounted_by_nobody_on_mariadb(box):
    knows_its_own(box, "mysql")


def test_a_copy_of_a_mounted_database_is_mounted_by_nobody_on_postgresql(box):
    knows_its_own(box, "postgresql")


@soak
def test_every_verb_works_on_mariadb(box):
    obeys(box, "mysql")


def test_every_verb_works_on_postgresql(box):
    obeys(box, "postgresql")


def test_every_verb_works_on_mariadb_when_it_is_mounted(box):
    obeys_mounted(box, "mysql")


@soak
def test_every_verb_works_on_postgresql_when_it_is_mounted(box):
    obeys_mounted(box, "postgresql")


def goes_on(box, kind):
    """The server is killed and comes back; each daemon has to find it, log in, and go on."""
    server = own(box, kind, tcp=True)
    served = {}
    for host in (None, "127.0.0.1", "localhost"):
        base = server.database()
        at = {"host": host, "port": server.port} if host else {}
        mount = box.mount(store=base.url_with(**at))
        use(mount)
        append(mount.at("l.txt"), b"1\n")
        served[host] = (base, mount)
    for i in range(3):
        if i == 1:
            for base, _ in served.values():
                os.unlink(base.passfile)  # it was read long ago
        server.kill()
        server.start()
        for host, (base, mount) in served.items():
            append(mount.at("s", "l.jsonl"), b'{"n": %d}\n' % i)
            same(lines_of(base)[-1], b'{"n": %d}' % i, f"the row after it was away, by {host}")
    if os.geteuid() == 0:
        for host, (_, mount) in served.items():
            same(unguarded(mount.pid), [], f"threads with rights, by {host}")


def test_guarded_daemons_find_mariadb_again_by_its_socket_an_address_and_a_name(box):
    goes_on(box, "mysql")


def test_guarded_daemons_find_postgresql_again_by_its_socket_an_address_and_a_name(box):
    goes_on(box, "postgresql")


def judges(box, kind):
    """TLS: who is trusted."""
    server = own(box, kind, tls=True)
    base = server.database()
    at = {"host": "127.0.0.1", "port": server.port}
    for words in ({"tls": "verify", "ca": server.ca}, {"tls": "required"}, {"tls": "off"}):
        mount = box.mount(store=base.url_with(**at, **words))
        server.kill()
        server.start()
        write(mount.at("a.txt"), b"x")
        mount.stop()
    by_name = {"host": "localhost", "port": server.port, "tls": "verify", "ca": server.ca}
    box.mount(store=base.url_with(**by_name)).stop()
    refused(box, base.url_with(**at, tls="verify"), "certificate")
    other = {**at, "host": "127.0.0.2", "tls": "verify", "ca": server.ca}
    refused(box, base.url_with(**other), "certificate")
    plain = start(box, kind)
    at = {"host": "127.0.0.1", "port": plain.port}
    for tls in ("verify", "required"):
        refused(box, plain.database().url_with(**at, tls=tls), "server does not support")


def test_mariadb_is_trusted_by_its_certificate(box):
    judges(box, "mysql")


def test_postgresql_is_trusted_by_its_certificate(box):
    judges(box, "postgresql")


def explains(box, kind):
    server = start(box, kind)
    base = server.database()
    plain = base.url
    wrong = box.new_path("wrong")
    write(wrong, b"wrong\n")
    os.chmod(wrong, 0o600)
    refused(box, plain.replace(base.passfile, wrong), base.user)
    refused(box, plain.replace(f"/{base.name}?", "/other?"), "other")
    refused(box, base.url_with(host="127.0.0.1", port=servers.free_port()), "127.0.0.1")
    refused(box, plain.replace(f"socket={server.home}", "socket=/nowhere"), "/nowhere")


def test_why_mariadb_cannot_be_used_is_told(box):
    explains(box, "mysql")


def test_why_postgresql_cannot_be_used_is_told(box):
    explains(box, "postgresql")


def test_which_databases_of_postgresql_cannot_be_used_is_told(box):
    server = own(box, "postgresql")
    base = server.database()
    with base.admin() as admin:
        admin.query(
            f"CREATE DATABASE other OWNER {base.user} ENCODING 'LATIN1' LOCALE 'C' "
            "TEMPLATE template0"
        )
    refused(box, base.url.replace(f"/{base.name}?", "/other?"), "LATIN1", "UTF8")
    server.end()
    write(os.path.join(server.path, "data", "standby.signal"), b"")
    server.start()
    refused(box, base.url, "replica")


def becomes(box, kind):
    harness.need_root()
    base = start(box, kind).database()
    os.chmod(box.folder, 0o755)
    point = box.new_folder("mnt")
    os.chown(point, NOBODY, NOBODY)
    mount = box.mount(store=base.url, path=point)
    use(mount)
    same(unguarded(mount.pid, NOBODY), [], "threads")
    same(os.stat(mount.path).st_uid, NOBODY, "owner of the root")


def test_root_serves_mariadb_as_the_owner_of_the_mount_point(box):
    becomes(box, "mysql")


def test_root_serves_postgresql_as_the_owner_of_the_mount_point(box):
    becomes(box, "postgresql")


def test_a_line_of_half_a_packet_of_mariadb_goes_behind_others(box):
    mount = box.mount(store=start(box, "mysql").database().url)
    os.mkdir(mount.at("s"))
    # All of it is to be escaped, so it takes 16 MiB, less what other words take.
    largest = b'"' + b"\\" * (8323072 - 100) + b'"\n'
    lines = b'{"text":"%s"}\n' % (b"a" * 180) * 2500
    for name, data in (("a", largest), ("b", lines + largest), ("c", lines + largest + lines)):
        write(mount.at("s", "new"), data)
        os.rename(mount.at("s", "new"), mount.at("s", name + ".jsonl"))
        same(read(mount.at("s", name + ".jsonl")) == data, True, name)


def survives(box, kind):
    """The way to the server breaks before, during and after commits, by a seed."""
    server = start(box, kind)
    base = server.database()
    proxy = servers.proxy(box, server)
    mount = box.mount(store=proxy.url(base))
    os.mkdir(mount.at("s"))
    seed = int(os.environ.get("SESSFS_SEED", "1"))
    chance = random.Random(seed)
    box.note(f"seed {seed}")
    ways = ("cut before", "cut during", "cut after", "cut", "")
    for i in range(ROUNDS):
        way = chance.choice(ways)
        if way:
            proxy(f"{way} {chance.randint(1, 2)}" if " " in way else way)
        append(mount.at("s", "l.jsonl"), b'{"n": %d}\n' % i)
    proxy("go")
    same(lines_of(base), [b'{"n": %d}' % i for i in range(ROUNDS)], "rows, each once")
    same(len(read(mount.at("s", "l.jsonl")).splitlines()), ROUNDS, "lines of the file")
    # The control: who tries again without asking has it twice.
    with base.connect() as client:
        client.query("CREATE TABLE blind (n INT)")
    for way in ("cut after", None):
        if way:
            proxy(way)
        with proxy.connect(base) as client:
            client.query("BEGIN")
            client.query("INSERT INTO blind VALUES (1)")
            with contextlib.suppress(servers.foreign.ServerError):
                client.query("COMMIT")
    with base.connect() as client:
        same(client.query("SELECT COUNT(*) FROM blind"), [(b"2",)], "rows of the control")


def test_nothing_is_lost_or_doubled_when_the_way_to_mariadb_breaks(box):
    survives(box, "mysql")


def test_nothing_is_lost_or_doubled_when_the_way_to_postgresql_breaks(box):
    survives(box, "postgresql")


def serves_programs(box, kind):
    """libsessfs opens URLs, too; a mount sees what it saves."""
    program = os.path.join(os.environ.get("top_builddir", ""), "tests/lib/session")
    if not os.access(program, os.X_OK):
        raise harness.Skip(f"{program} is not built")
    base = start(box, kind).database()
    items = ['{"n": 1}', '{"n": 2}', '{"n": 3}']
    harness.tool(program, base.url, "list", "s", "l", *items[:2])
    mount = box.mount(store=base.url)
    same(read(mount.at("s", "l.jsonl")), b'{"n": 1}\n{"n": 2}\n', "saved before the mount")
    harness.tool(program, base.url, "list", "s", "l", *items)
    expected = "".join(item + "\n" for item in items).encode()
    found = lambda: read(mount.at("s", "l.jsonl")) == expected  # noqa: E731
    harness.eventually(found, "the mount shows what the library has saved")
    append(mount.at("s", "l.jsonl"), b'{"n": 4}\n')
    done = harness.tool(program, base.url, "show", "s", "l")
    same(done.stdout, expected + b'{"n": 4}\n', "what the library shows")
    other = base.url.replace(f"/{base.name}?", "/other?")
    failed = harness.tool(program, other, "show", "s", "l", check=False)
    told = box.sessfs("ls", other).stderr.partition(b": ")[2].strip()
    assert failed.returncode != 0 and told, "there is no such database"
    assert told in failed.stderr, f"the library says {failed.stderr!r}, the program {told!r}"


def test_the_library_opens_mariadb_by_its_url(box):
    serves_programs(box, "mysql")


def test_the_library_opens_postgresql_by_its_url(box):
    serves_programs(box, "postgresql")


def is_named_by_its_mount(box, kind):
    """With the password and all that its URL says."""
    base = start(box, kind).database()
    mount = box.mount(store=base.url)
    os.mkdir(mount.at("s"))
    append(mount.at("s", "l.jsonl"), b"1\n")
    same(run(box, "ls", mount.path), b"s/\n", "names")
    same(run(box, "cat", mount.path, "s/l.jsonl"), b"1\n", "a list")
    for words in (["check"], ["sessions"], ["stats"], ["config"], ["gc"]):
        run(box, *words, mount.path)


def test_a_store_on_mariadb_may_be_named_by_its_mount(box):
    is_named_by_its_mount(box, "mysql")


def test_a_store_on_postgresql_may_be_named_by_its_mount(box):
    is_named_by_its_mount(box, "postgresql")


def is_had_by_one_that_is_not_here(box, kind):
    base = start(box, kind).database()
    box.mount(store=base.url).stop()
    now = {"mysql": "UTC_TIMESTAMP(6)", "postgresql": "clock_timestamp()"}[kind]
    with base.connect() as client:
        client.query(f"INSERT INTO {TABLE.replace('agentscope_sessions', 'sessfs_mount')} (number, "
                     f"guest, owner, seen_at, format) VALUES (99, 0, 'somebody', {now}, 6)")
    done = box.sessfs("mount", "-o", "exclusive", base.url, box.new_folder("mnt"))
    said = done.stderr.decode()
    assert "already mounted by somebody; no mount here has this URL" in said, said
    assert "sessfs umount" not in said, f"a command that cannot do it: {said}"


def test_who_has_mariadb_elsewhere_is_to_be_unmounted_there(box):
    is_had_by_one_that_is_not_here(box, "mysql")


def test_who_has_postgresql_elsewhere_is_to_be_unmounted_there(box):
    is_had_by_one_that_is_not_here(box, "postgresql")


# The time of the table of mounts, and now.
TIMES = {
    "mysql": ("DATETIME(6)", "UTC_TIMESTAMP(6)"),
    "postgresql": ("TIMESTAMPTZ", "clock_timestamp()"),
}


def make_older(client, kind, prefix):
    """As one of the formats before left it: there were no gates, and what mounts told was numbered
    otherwise."""
    for table in ("mount", "feed", "known", "gate"):
        client.query(f"DROP TABLE {prefix}sessfs_{table}")
    client.query(f"CREATE TABLE {prefix}sessfs_mount (number BIGINT NOT NULL PRIMARY KEY, guest "
                 f"INT NOT NULL, owner VARCHAR(255), seen_at {TIMES[kind][0]} NOT NULL, lane "
                 "BIGINT NOT NULL DEFAULT 0, known BIGINT NOT NULL)")
    client.query(f"CREATE TABLE {prefix}sessfs_feed (n BIGINT NOT NULL PRIMARY KEY, mount BIGINT)")
    client.query(f"UPDATE {prefix}sessfs_store SET version = 2")
    client.query(f"INSERT INTO {prefix}sessfs_mount (number, guest, owner, seen_at, known) VALUES "
                 f"(99, 0, 'somebody', {TIMES[kind][1]}, 0)")


def is_brought_up_to_date(box, kind):
    base = start(box, kind).database()
    prefix = TABLE.replace("agentscope_sessions", "")
    lines = b"".join(b'{"line":%d}\n' % n for n in range(300))
    run(box, "put", base.url, "s/l.jsonl", stdin=lines)
    with base.connect() as client:
        make_older(client, kind, prefix)
        refused(box, base.url, "is mounted by an older sessfs; unmount it")
        client.query(f"UPDATE {prefix}sessfs_mount SET seen_at = seen_at - INTERVAL '20' SECOND")
    done = box.sessfs("check", base.url)
    same(done.returncode, 2, "status of what may not write")
    assert b"is a store of an older sessfs; mount it once for writing" in done.stderr, done.stderr
    mount = box.mount(store=base.url)
    same(read(mount.at("s", "l.jsonl")), lines, "what was there before")
    with open(mount.at("s", "l.jsonl"), "ab") as file:
        file.write(b'{"line":300}\n')
    other = box.mount(store=base.url)
    same(read(other.at("s", "l.jsonl")), lines + b'{"line":300}\n', "elsewhere")
    run(box, "check", base.url)


# How the program of the format before comes to a store, again if it was stopped for long.
JOINS = ("INSERT INTO {0}sessfs_mount (number, guest, owner, seen_at) SELECT mount + 1, 0, "
         "'somebody', {1} FROM {0}sessfs_store WHERE id = 1")


def keeps_the_program_before_out(box, kind):
    base = start(box, kind).database()
    prefix = TABLE.replace("agentscope_sessions", "")
    run(box, "put", base.url, "s/l.jsonl", stdin=b'{"line":0}\n')
    joins = JOINS.format(prefix, TIMES[kind][1])
    with base.connect() as client:
        client.query(f"ALTER TABLE {prefix}sessfs_mount DROP COLUMN format")
        client.query(f"CREATE TABLE {prefix}sessfs_claim (ino BIGINT NOT NULL PRIMARY KEY, mount "
                     "BIGINT NOT NULL, lane BIGINT NOT NULL, n BIGINT NOT NULL)")
        client.query(f"UPDATE {prefix}sessfs_store SET version = 5")
        client.query(joins)
        refused(box, base.url, "is mounted by an older sessfs; unmount it")
        client.query(f"UPDATE {prefix}sessfs_mount SET seen_at = seen_at - INTERVAL '20' SECOND")
        run(box, "put", base.url, "s/m.jsonl", stdin=b'{"line":1}\n')
        left = client.query(f"SELECT COUNT(*) FROM {prefix}sessfs_mount")
        same(int(left[0][0]), 0, "mounts that are left")
        if kind == "mysql":
            client.query("SET SESSION sql_mode = 'STRICT_ALL_TABLES'")
        try:
            client.query(joins)
        except Exception as error:
            assert "format" in str(error), error
        else:
            raise AssertionError("it joins again")
    same(run(box, "cat", base.url, "s/l.jsonl"), b'{"line":0}\n', "what was there before")
    run(box, "check", base.url)


def test_the_program_of_the_format_before_does_not_come_back_on_mariadb(box):
    keeps_the_program_before_out(box, "mysql")


def test_the_program_of_the_format_before_does_not_come_back_on_postgresql(box):
    keeps_the_program_before_out(box, "postgresql")


def test_a_store_of_the_format_before_is_brought_up_to_date_on_mariadb(box):
    is_brought_up_to_date(box, "mysql")


def test_a_store_of_the_format_before_is_brought_up_to_date_on_postgresql(box):
    is_brought_up_to_date(box, "postgresql")


if __name__ == "__main__":
    servers.main(globals())
