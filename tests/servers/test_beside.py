#!/usr/bin/python3 -B
# SPDX-License-Identifier: MIT
"""Mounts of a store on a server, other programs beside them, and what goes wrong on the way."""

import json
import os
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import servers  # noqa: E402
from servers import harness  # noqa: E402
from test_stores import own, start  # noqa: E402
from test_tables import TABLES  # noqa: E402

ROW = "INSERT INTO agentscope_sessions (session_id, state_key, item_index, state_data) VALUES "


def read(path):
    with open(path, "rb") as file:
        return file.read()


def append(path, line):
    with open(path, "ab") as file:
        file.write(line)


def shows(box, kind):
    base = start(box, kind).database()
    one, two = box.mount(store=base.url), box.mount(store=base.url)
    os.mkdir(one.at("s"))
    append(one.at("s/l.jsonl"), b'{"n":1}\n')
    append(two.at("s/l.jsonl"), b'{"n":2}\n')
    harness.same(read(one.at("s/l.jsonl")), b'{"n":1}\n{"n":2}\n', "the list")
    with open(one.at("s/t.tmp"), "wb") as file:
        file.write(b'{"a":1}\n')
    os.rename(one.at("s/t.tmp"), one.at("s/d.json"))
    harness.same(read(two.at("s/d.json")), b'{"a":1}\n', "what was renamed")
    os.unlink(two.at("s/d.json"))
    harness.same(os.listdir(one.at("s")), ["l.jsonl"], "what is left")
    with base.connect() as client:
        rows = client.query("SELECT state_data FROM agentscope_sessions WHERE state_key = 'l' "
                            "ORDER BY item_index")
    harness.same(rows, [(b'{"n":1}',), (b'{"n":2}',)], "rows")


def test_what_one_mount_does_on_mariadb_the_other_sees_at_once(box):
    shows(box, "mysql")


def test_what_one_mount_does_on_postgresql_the_other_sees_at_once(box):
    shows(box, "postgresql")


def hears(box, kind):
    base = start(box, kind).database()
    with base.connect() as client:
        statement, words = TABLES[kind]
        client.query(statement.format(**words))
        client.query(ROW + "('old', 'memory', 0, '{\"a\": 1}'), ('old', 'memory', 1, '1')")
        mounts = [box.mount(store=base.url), box.mount(store=base.url)]
        for mount in mounts:
            harness.same(read(mount.at("old/memory.jsonl")), b'{"a": 1}\n1\n', "what was there")
        for i in range(2, 6):
            client.query(ROW + f"('old', 'memory', {i}, '{i}')")
            for mount in mounts:
                def line(m=mount):
                    return read(m.at("old/memory.jsonl")).endswith(b"%d\n" % i)

                box.seen("a row of a service", harness.eventually(line, f"line {i}"))
        client.query(ROW + "('new', 'state', 0, '{}')")
        for mount in mounts:
            def listed(m=mount):
                return os.path.exists(m.at("new/state.json"))

            box.seen("a session of a service", harness.eventually(listed, "the new session"))


def test_what_a_service_saves_on_mariadb_soon_shows_on_both_mounts(box):
    hears(box, "mysql")


def test_what_a_service_saves_on_postgresql_soon_shows_on_both_mounts(box):
    hears(box, "postgresql")


# Appends numbered lines until its standard input ends; then says how many were acknowledged.
WRITE = """
import os, select, sys
file, count = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND | os.O_CREAT), 0
while not select.select([0], [], [], 0)[0]:
    os.write(file, b'{"n":%d}\\n' % count)
    count += 1
print(count)
"""


class Writer:
    """A process of its own: one that starts others closes what it has open in them, which waits for
    a write that is under way."""

    def __init__(self, path, base):
        self.base = base
        self.process = subprocess.Popen([sys.executable, "-c", WRITE, path], text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        said, self.error = self.process.communicate()
        self.acknowledged = int(said or 0)

    def lines(self):
        query = "SELECT state_data FROM agentscope_sessions WHERE state_key = 'l' ORDER BY "
        with self.base.connect() as client:
            rows = client.query(query + "item_index")
        return [json.loads(row[0])["n"] for row in rows]

    def go_on(self, more):
        """Waits until there are so many lines more."""
        least = len(self.lines()) + more
        harness.eventually(lambda: len(self.lines()) >= least, f"{more} lines more")

    def check(self):
        """Nothing is lost, doubled, or out of order."""
        assert not self.error, self.error
        harness.same(self.lines(), list(range(self.acknowledged)), "lines")


def survives_cuts(box, kind):
    server = start(box, kind)
    base, proxy = server.database(), servers.proxy(box, server)
    mount = box.mount(store=proxy.url(base))
    os.mkdir(mount.at("s"))
    with Writer(mount.at("s/l.jsonl"), base) as writer:
        for i in range(45):
            proxy(f"cut {('before', 'during', 'after')[i % 3]} {1 + i % 5}")
            time.sleep(0.1)
        proxy("go")
        writer.go_on(50)
    writer.check()


def test_connections_to_mariadb_that_are_cut_lose_nothing_and_double_nothing(box):
    survives_cuts(box, "mysql")


def test_connections_to_postgresql_that_are_cut_lose_nothing_and_double_nothing(box):
    survives_cuts(box, "postgresql")


def survives_kills(box, kind):
    server = own(box, kind, durable=True)
    base = server.database()
    mount = box.mount(store=base.url)
    os.mkdir(mount.at("s"))
    with Writer(mount.at("s/l.jsonl"), base) as writer:
        for _ in range(4):
            time.sleep(0.5)
            server.kill()
            server.start()
            writer.go_on(5)
    writer.check()


def test_a_mariadb_that_is_killed_loses_nothing_and_doubles_nothing(box):
    survives_kills(box, "mysql")


def test_a_postgresql_that_is_killed_loses_nothing_and_doubles_nothing(box):
    survives_kills(box, "postgresql")


if __name__ == "__main__":
    servers.main(globals())
