#!/usr/bin/python3 -B
# SPDX-License-Identifier: MIT
"""Round trips that a call of a program costs a mount, counted at the wire; tests/unit/trips.c has
what the tree asks a store for.

The mount asks by itself now and then what is new, which a call may meet: so each call is made
several times, and the fewest trips count."""

import os
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import servers  # noqa: E402
from servers import harness  # noqa: E402
from harness import append, read, same, write  # noqa: E402
from test_stores import start  # noqa: E402

TIMES = 8
INTO = f"{harness.TABLE} (session_id, state_key, item_index, state_data)"


class Trips:
    def __init__(self, box, kind):
        server = start(box, kind)
        self.proxy = servers.proxy(box, server)
        self.base = server.database()
        self.mount = box.mount(store=self.proxy.url(self.base))
        os.mkdir(self.mount.at("s"))

    def at(self, name):
        return self.mount.at("s", name)

    def of(self, call, times=TIMES):
        """The fewest of call(i)."""
        found = []
        for i in range(times):
            before = self.proxy.counts()["trips"]
            call(i)
            found.append(self.proxy.counts()["trips"] - before)
        return min(found)

    def settle(self):
        """What was unlinked goes in the background."""
        time.sleep(0.5)

    def expect(self, what, most, call, **named):
        found = self.of(call, **named)
        assert 0 < found <= most or found == most, f"{what}: {found} trips, {most} at the most"

    def cold(self):
        """Nothing is known but the directory."""
        self.mount.remount()
        os.stat(self.mount.at("s"))


def makes_few_trips(box, kind):
    trips = Trips(box, kind)
    held = os.open(trips.at("l.jsonl"), os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    trips.expect("an append", 1, lambda i: os.write(held, b'{"n": %d}\n' % i))
    os.close(held)
    write(trips.at("d.json"), b"{}")
    trips.expect("a save in place", 3, lambda i: write(trips.at("d.json"), b"[%d]" % i))
    trips.expect("making a directory", 2, lambda i: os.mkdir(trips.at(f"x{i}")))
    trips.expect("removing one", 2, lambda i: os.rmdir(trips.at(f"x{i}")))
    # The name is looked up and made; closing it publishes what was written.
    trips.expect("making a file", 2, lambda i: os.mknod(trips.at(f"m{i}")))
    trips.expect("writing a new file", 3, lambda i: write(trips.at(f"c{i}.json"), b"[%d]" % i))
    trips.settle()
    trips.expect("unlinking a file", 2, lambda i: os.unlink(trips.at(f"c{i}.json")))
    trips.settle()

    def replace(i):
        write(trips.at("t.tmp"), b"[%d, %d]" % (i, i))
        os.rename(trips.at("t.tmp"), trips.at("d.json"))

    # And the name that it comes to, which the kernel has forgotten when it was replaced last.
    trips.expect("a temporary name that is renamed over", 6, replace)
    same(read(trips.at("d.json")), b"[%d, %d]" % (TIMES - 1, TIMES - 1), "what came of it")


def reads_in_few_trips(box, kind):
    trips = Trips(box, kind)
    rows = ", ".join(f"('s', 'k{i}', 0, '[{i}]')" for i in range(1000))
    append(trips.at("l.jsonl"), b"1\n2\n")
    with trips.base.connect() as client:
        client.query(f"INSERT INTO {INTO} VALUES {rows}")
    while len(os.listdir(trips.at("."))) < 1001:
        time.sleep(0.01)
    found = []
    for _ in range(3):
        trips.cold()
        before = trips.proxy.counts()["trips"]
        with os.scandir(trips.at(".")) as entries:
            sizes = {entry.name: entry.stat().st_size for entry in entries}
        found.append(trips.proxy.counts()["trips"] - before)
        same((len(sizes), sizes["l.jsonl"]), (1001, 4), "files, and bytes of one")
    assert 0 < min(found) <= 5, f"a cold listing of 1,000 files with sizes: {found} trips"
    names = sorted(sizes)
    trips.cold()
    trips.expect("reading a document", 2, lambda i: read(trips.at(names[i])))
    trips.expect("reading it again", 0, lambda i: read(trips.at(names[i % 4])))


def test_calls_that_change_something_make_few_trips_to_mariadb(box):
    makes_few_trips(box, "mysql")


def test_calls_that_change_something_make_few_trips_to_postgresql(box):
    makes_few_trips(box, "postgresql")


def test_calls_that_read_make_few_trips_to_mariadb(box):
    reads_in_few_trips(box, "mysql")


def test_calls_that_read_make_few_trips_to_postgresql(box):
    reads_in_few_trips(box, "postgresql")


if __name__ == "__main__":
    servers.main(globals())
