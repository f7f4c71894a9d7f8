#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: MIT
"""Mounts of a store on MariaDB, other programs beside them, and what goes wrong on the way."""

import json
import os
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import servers  # noqa: E402
from servers import harness  # noqa: E402

# As AgentScope makes it.
TABLE = """CREATE TABLE agentscope_sessions (session_id VARCHAR(255) NOT NULL,
state_key VARCHAR(255) NOT NULL, item_index INT NOT NULL DEFAULT 0, state_data LONGTEXT NOT NULL,
created_at DATETIME DEFAULT CURRENT_TIMESTAMP,
updated_at DATETIME DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,
PRIMARY KEY (session_id, state_key, item_index))
DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_ci"""
ROW = "INSERT INTO agentscope_sessions (session_id, state_key, item_index, state_data) VALUES "


def wait_for(what, seconds, said):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            if what():
                return
        except OSError:
            pass
        time.sleep(0.005)
    raise AssertionError(f"not within {seconds} s: {said}")


def read(path):
    with open(path, "rb") as file:
        return file.read()


def append(path, line):
    with open(path, "ab") as file:
        file.write(line)


def test_what_one_mount_does_the_other_sees_at_once(box):
    base = servers.start(box, "mysql").database()
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


def test_what_a_service_saves_shows_on_both_mounts_within_200_ms(box):
    base = servers.start(box, "mysql").database()
    with base.connect() as client:
        client.query(TABLE)
        client.query(ROW + "('old', 'memory', 0, '{\"a\": 1}'), ('old', 'memory', 1, '1')")
        mounts = [box.mount(store=base.url), box.mount(store=base.url)]
        for mount in mounts:
            harness.same(read(mount.at("old/memory.jsonl")), b'{"a": 1}\n1\n', "what was there")
        for i in range(2, 6):
            client.query(ROW + f"('old', 'memory', {i}, '{i}')")
            for mount in mounts:
                wait_for(lambda m=mount: read(m.at("old/memory.jsonl")).endswith(b"%d\n" % i),
                         0.2, f"line {i}")
        client.query(ROW + "('new', 'state', 0, '{}')")
        for mount in mounts:
            wait_for(lambda m=mount: os.listdir(m.at("new")), 0.2, "the new session")


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

    def check(self, least):
        """Nothing is lost, doubled, or out of order."""
        query = "SELECT state_data FROM agentscope_sessions WHERE state_key = 'l' ORDER BY "
        with self.base.connect() as client:
            rows = client.query(query + "item_index")
        assert not self.error, self.error
        harness.same([json.loads(row[0])["n"] for row in rows], list(range(self.acknowledged)),
                     "lines")
        assert self.acknowledged >= least, self.acknowledged


def test_connections_that_are_cut_lose_nothing_and_double_nothing(box):
    server = servers.start(box, "mysql")
    base, proxy = server.database(), servers.proxy(box, server)
    mount = box.mount(store=proxy.url(base))
    os.mkdir(mount.at("s"))
    with Writer(mount.at("s/l.jsonl"), base) as writer:
        for i in range(45):
            proxy(f"cut {('before', 'during', 'after')[i % 3]} {1 + i % 5}")
            time.sleep(0.1)
        proxy("go")
    writer.check(100)


def test_a_server_that_is_killed_loses_nothing_and_doubles_nothing(box):
    server = servers.start(box, "mysql", durable=True)
    base = server.database()
    mount = box.mount(store=base.url)
    os.mkdir(mount.at("s"))
    with Writer(mount.at("s/l.jsonl"), base) as writer:
        for _ in range(4):
            time.sleep(0.5)
            server.kill()
            server.start()
    writer.check(100)


if __name__ == "__main__":
    harness.main(globals())
