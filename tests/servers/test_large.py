#!/usr/bin/python3 -B
# SPDX-License-Identifier: MIT
"""Tables that services have filled for years, when they are mounted for the first time."""

import json
import os
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import servers  # noqa: E402
from servers import harness  # noqa: E402
from harness import append, eventually, read, same, soak, write  # noqa: E402
import agentscope  # noqa: E402
from test_stores import start  # noqa: E402

SESSIONS = int(os.environ.get("SESSFS_SESSIONS", "2000"))
ROWS = int(os.environ.get("SESSFS_SESSION_ROWS", "3"))
MEMORY_MB = 128
BATCH = 20000

FILL = {
    "mysql": "INSERT INTO {0} (session_id, state_key, item_index, state_data) SELECT "
             "CONCAT('%s', LPAD(s.seq, 8, '0')), 'm', r.seq, r.seq FROM seq_%d_to_%d s "
             "JOIN seq_0_to_%d r ORDER BY 1, 3",
    "postgresql": "INSERT INTO {0} (session_id, state_key, item_index, state_data) SELECT "
                  "'%s' || lpad(s::text, 8, '0'), 'm', r, r::text FROM "
                  "generate_series(%d, %d) s, generate_series(0, %d) r",
}


def fill(table, prefix="s", sessions=None):
    sessions = sessions or SESSIONS
    for first in range(0, sessions, BATCH):
        last = min(first + BATCH, sessions) - 1
        table.ask(FILL[table.kind] % (prefix, first, last, ROWS - 1))


def name(number):
    return f"s{number:08}"


LINES = b"".join(b"%d\n" % row for row in range(ROWS))


class Found:
    """A table that is there before the store."""

    def __init__(self, box, kind, prefix="s"):
        self.server = start(box, kind)
        self.base = self.server.database()
        self.table = agentscope.Table(kind, self.base.connect().query)
        self.table.create()
        fill(self.table, prefix)

    def count(self, what="sessfs_node"):
        schema = "agentscope." if self.table.kind == "postgresql" else ""
        return int(self.table.ask(f"SELECT COUNT(*) FROM {schema}{what}")[0][0])

    def is_through(self):
        return self.count("sessfs_setting WHERE name = 'unadopted'") == 0

    def is_on_the_way(self, what):
        """The walk goes on beside the test, and may be through where the machine is busy."""
        if harness.SOAK:
            same(self.is_through(), False, what)


def memory_of(pid):
    with open(f"/proc/{pid}/status") as status:
        words = dict(line.split(":", 1) for line in status)
    return int(words["VmHWM"].split()[0]) / 1024


def is_shown_at_once(box, kind):
    """A mount reads what it is asked for, and the rest by and by."""
    found = Found(box, kind)
    begun = time.monotonic()
    mount = box.mount(store=found.base.url)
    box.note(f"{SESSIONS} sessions of {ROWS} rows, mounted in {time.monotonic() - begun:.2f} s")
    last = name(SESSIONS - 1)
    same(os.stat(mount.at(last)).st_mode & 0o170000, 0o040000, "the last session")
    same(read(mount.at(last, "m.jsonl")), LINES, "what is in it")
    same(os.listdir(mount.at(name(SESSIONS // 2))), ["m.jsonl"], "one in the middle is listed")
    same(os.path.exists(mount.at("s")), False, "one that is not there")
    found.is_on_the_way("most is still to be looked at")
    begun, first, names = time.monotonic(), None, set()
    with os.scandir(mount.path) as entries:
        for entry in entries:
            if first is None:
                first = time.monotonic() - begun
                box.note(f"the first name after {first:.2f} s, of {found.count()} nodes")
            same(entry.name in names, False, f"{entry.name} was listed before")
            names.add(entry.name)
    box.note(f"all names after {time.monotonic() - begun:.1f} s; "
             f"{memory_of(mount.pid):.0f} MiB of memory at the most")
    same(names == {name(number) for number in range(SESSIONS)}, True, "all are listed, once")
    same(memory_of(mount.pid) < MEMORY_MB or "libasan" in open(f"/proc/{mount.pid}/maps").read(),
         True, f"{memory_of(mount.pid):.0f} MiB of memory")
    eventually(found.is_through, "the store is like any other")
    append(mount.at(last, "m.jsonl"), b"[1]\n")
    same(found.table.rows(last, "m")[ROWS:], [b"[1]"], "a row is added")
    mount.remount()
    same(len(os.listdir(mount.path)), SESSIONS, "sessions after mounting anew")
    if SESSIONS < 5000:
        mount.check()


def test_a_table_of_mariadb_is_shown_at_once_however_large(box):
    is_shown_at_once(box, "mysql")


@soak
def test_a_table_of_postgresql_is_shown_at_once_however_large(box):
    is_shown_at_once(box, "postgresql")


def remount(mount, trips):
    """And wait until it has looked, by itself, which sessions have a ttl."""
    mount.remount()
    while True:
        before = trips()
        time.sleep(0.3)
        if trips() - before < 20:
            return


def asks_little(box, kind):
    """What a call costs does not grow with the table; the fewest trips of several count, as the
    mount asks by itself now and then what is new."""
    found = Found(box, kind)
    proxy = servers.proxy(box, found.server)
    trips = lambda: proxy.counts()["trips"]
    mount = box.mount(store=proxy.url(found.base))
    same(len(os.listdir(mount.path)), SESSIONS, "sessions")
    eventually(found.is_through, "the store is like any other")
    remount(mount, trips)
    seen = {}
    for what, call in (
        ("stat", lambda i: os.stat(mount.at(name(i)))),
        ("cat", lambda i: read(mount.at(name(SESSIONS - 1 - i), "m.jsonl"))),
    ):
        costs = []
        for i in range(12):
            before = trips()
            call(i)
            costs.append(trips() - before)
        same(1 <= min(costs) <= 5, True, f"{what} of one session: {costs} trips")
        seen[what] = min(costs)
    costs = []
    for _ in range(3):
        remount(mount, trips)
        before = trips()
        with os.scandir(mount.path) as entries:
            next(entries)
            costs.append(trips() - before)
            same(sum(1 for _ in entries), SESSIONS - 1, "the other names")
    same(min(costs) <= 5, True, f"the first name: {costs} trips")
    box.note(f"{seen}, the first name {min(costs)} trips")


@soak
def test_one_session_of_a_large_table_of_mariadb_costs_few_trips(box):
    asks_little(box, "mysql")


@soak
def test_one_session_of_a_large_table_of_postgresql_costs_few_trips(box):
    asks_little(box, "postgresql")


def goes_on(box, kind):
    """The walk is killed on the way, and two mounts go on together, beside a service."""
    found = Found(box, kind)
    mount = box.mount(store=found.base.url)
    eventually(lambda: found.count() > 100, "some files")
    mount.kill9()
    found.is_on_the_way("it was killed on the way")
    mounts = [mount.start(), box.mount(store=found.base.url)]
    found.table.ask("DELETE FROM {0} WHERE session_id = ?", name(SESSIONS - 2))
    found.table.put(name(SESSIONS - 3), "k", 0, "{}")
    found.table.put("another", "k", 0, "{}")
    write(mounts[1].at(name(SESSIONS - 4), "k.json"), b"1")
    os.unlink(mounts[0].at(name(SESSIONS - 5), "m.jsonl"))
    os.rmdir(mounts[0].at(name(SESSIONS - 5)))
    os.rename(mounts[0].at(name(SESSIONS - 6)), mounts[0].at("moved"))
    expected = {name(number) for number in range(SESSIONS)} | {"another", "moved"}
    expected -= {name(SESSIONS - gone) for gone in (2, 5, 6)}
    for one in mounts:
        eventually(lambda p=one.path: set(os.listdir(p)) == expected, "all sessions")
    for one in mounts:
        same(sorted(os.listdir(one.at(name(SESSIONS - 3)))), ["k.json", "m.jsonl"], "a new key")
        same(sorted(os.listdir(one.at(name(SESSIONS - 4)))), ["k.json", "m.jsonl"], "ours")
        same(read(one.at("moved", "m.jsonl")), LINES, "what was moved")
    eventually(found.is_through, "the store is like any other")


@soak
def test_two_mounts_and_a_service_have_a_large_table_of_mariadb(box):
    goes_on(box, "mysql")


@soak
def test_two_mounts_and_a_service_have_a_large_table_of_postgresql(box):
    goes_on(box, "postgresql")


def test_nobody_reads_all_of_a_table_of_postgresql_to_show_one_session(box):
    """A server that avoids that wherever it can never does."""
    found = Found(box, "postgresql")
    session = name(SESSIONS // 2)
    for key in ("a", "b"):
        found.table.put(session, key, 0, "{}")
    mount = box.mount(store=found.base.url)
    same(len(os.listdir(mount.path)), SESSIONS, "sessions")
    eventually(found.is_through, "the store is like any other")
    mount.stop()
    found.table.ask(f"ALTER DATABASE {found.base.name} SET enable_seqscan = off")

    def read_through():
        """Connections say what they did when they end; the test's own is told to."""
        found.table.ask("SELECT pg_stat_force_next_flush()")
        others = "SELECT COUNT(*) FROM pg_stat_activity WHERE usename = current_user"
        eventually(lambda: int(found.table.ask(others)[0][0]) == 1, "connections have ended")
        return int(found.table.ask("SELECT seq_scan FROM pg_stat_all_tables WHERE relid = "
                                   "'agentscope.agentscope_sessions'::regclass")[0][0])

    before = read_through()
    mount.start()
    with os.scandir(mount.at(session)) as entries:
        same(sorted((entry.name, entry.stat().st_size) for entry in entries),
             [("a.json", 2), ("b.json", 2), ("m.jsonl", len(LINES))], "what is in it")
    mount.remount()
    for key in ("a.json", "m.jsonl"):
        read(mount.at(session, key))
    append(mount.at(session, "m.jsonl"), b"1\n")
    found.table.put(session, "m", ROWS + 1, "2")
    eventually(lambda: read(mount.at(session, "m.jsonl")).endswith(b"1\n2\n"), "it is taken in")
    mount.stop()
    same(read_through() - before, 0, "how often all rows were read")
    with found.base.connect() as client:
        client.query("SELECT COUNT(*) FROM agentscope.agentscope_sessions WHERE state_data = 'x'")
    same(read_through() - before, 1, "once by who does so")


def test_sessions_that_are_one_to_mariadb_are_found_by_name(box):
    found = Found(box, "mysql")
    for session, key in (("zz", "b"), ("ZZ", "a"), ("Zz", "c")):
        for i in range(70):
            found.table.put(session, f"{key}{i:02}", 0, "1")
    mount = box.mount(store=found.base.url)
    for session, key in (("zz", "b"), ("Zz", "c"), ("ZZ", "a")):
        same(read(mount.at(session, f"{key}69.json")), b"1", f"in {session}")
        same(sorted(os.listdir(mount.at(session))), [f"{key}{i:02}.json" for i in range(70)],
             session)
    same(os.path.exists(mount.at("zZ")), False, "one that is not there")
    found.is_on_the_way("the rest is still to be looked at")


def test_what_was_there_before_is_no_event(box):
    found = Found(box, "mysql")
    mount = box.mount(store=found.base.url)
    with open(mount.at("@as=events.jsonl"), "rb", buffering=0) as events:
        os.listdir(mount.path)
        found.table.put("another", "k", 0, "{}")
        told = json.loads(events.read(4096).splitlines()[0])
    same(told["path"].split("/")[0], "another", "the first event")


@soak
def test_who_reads_a_store_once_reads_all_of_it(box):
    found = Found(box, "mysql")
    mount = box.mount(store=found.base.url)
    mount.kill9()
    found.is_on_the_way("it was killed on the way")
    done = box.sessfs("cat", found.base.url, f"{name(SESSIONS - 1)}/m.jsonl", check=True)
    same(done.stdout, LINES, "what cat shows")
    same(len(box.sessfs("ls", found.base.url, check=True).stdout.split()), SESSIONS, "ls")


@soak
def test_a_mount_that_only_reads_shows_all_of_it(box):
    found = Found(box, "mysql")
    mount = box.mount(store=found.base.url)
    mount.stop()
    found.is_on_the_way("it was ended on the way")
    mount.options = ["ro"]
    mount.start()
    same(read(mount.at(name(SESSIONS - 1), "m.jsonl")), LINES, "the last session")
    same(len(os.listdir(mount.path)), SESSIONS, "sessions")


@soak
def test_a_table_of_agentscope_2_is_shown_by_its_users_at_once(box):
    found = Found(box, "mysql", prefix="bob:s")
    fill(found.table, "alice:s", 10)
    found.table.put("plain", "k", 0, "1")
    found.table.put("carol:a/b", "k", 0, "1")
    mount = box.mount(store=found.base.url, options=["layout=agentscope2"])
    same(read(mount.at("bob", name(SESSIONS - 1), "m.jsonl")), LINES, "one of many")
    found.is_on_the_way("most is still to be looked at")
    same(os.path.exists(mount.at("dora")), False, "a user who is not there")
    same(read(mount.at("%", "plain", "k.json")), b"1", "one without a user")
    same(sorted(os.listdir(mount.at("alice"))), [name(number) for number in range(10)], "of one")
    same(sorted(os.listdir(mount.path)), ["%", "alice", "bob"], "users")
    same(len(os.listdir(mount.at("bob"))), SESSIONS, "sessions of one")
    same(sorted(os.listdir(mount.at("%"))), ["carol:a%2Fb", "plain"], "of none")
    mount.check()


if __name__ == "__main__":
    servers.main(globals())
