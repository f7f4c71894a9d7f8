#!/usr/bin/python3 -B
# SPDX-License-Identifier: MIT
"""Mounts of one store on a server that sleep for longer than their lease while others go on; and
what several mounts count and append under locks."""

import contextlib
import errno
import fcntl
import os
import signal
import sqlite3
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import servers  # noqa: E402
from foreign import ServerError  # noqa: E402
from servers import harness  # noqa: E402
from harness import append, errno_of, read, same, soak, write  # noqa: E402
from test_mapped import add, connect, count, refused  # noqa: E402
from test_stores import own, start  # noqa: E402

LEASE = 15  # seconds
MOUNTS = 8
COUNTS = harness.rounds("SESSFS_COUNTS", 2, 6)


def count_in(file):
    value = int(os.pread(file, 32, 0))
    os.pwrite(file, b"%d" % (value + 1), 0)


@contextlib.contextmanager
def nobody_joins(base, kind):
    """For some seconds, which requests wait for."""
    table = "sessfs_store" if kind == "mysql" else "agentscope.sessfs_store"
    with base.connect() as admin:
        admin.query("BEGIN")
        admin.query(f"SELECT 1 FROM {table} FOR UPDATE")
        let = threading.Timer(5, admin.query, ["ROLLBACK"])
        let.start()
        yield
        let.join()


def locks(box, kind, lock):
    """Holds a lock, and what it has read under it, over the end of the lease."""
    base = start(box, kind).database()
    sleeper, other = box.mount(store=base.url), box.mount(store=base.url)
    os.mkdir(sleeper.at("s"))
    for name in ("n.json", "n.txt", "free.json"):
        write(sleeper.at("s", name), b"1")
    append(sleeper.at("s", "l.jsonl"), b"1\n")
    held = {}
    for name in ("n.json", "n.txt", "l.jsonl"):
        held[name] = os.open(sleeper.at("s", name), os.O_RDWR)
        lock(held[name], fcntl.LOCK_EX)
    free = os.open(sleeper.at("s", "free.json"), os.O_WRONLY | os.O_TRUNC)
    tail = os.open(sleeper.at("s", "l.jsonl"), os.O_RDONLY)
    same(os.read(tail, 100), b"1\n", "the list")
    same(sorted(os.listdir(sleeper.at("s"))), ["free.json", "l.jsonl", "n.json", "n.txt"], "names")
    values = {name: os.pread(file, 32, 0) for name, file in held.items()}
    os.kill(sleeper.pid, signal.SIGSTOP)
    try:
        begun = time.monotonic()
        for name in ("n.json", "n.txt"):
            with open(other.at("s", name), "r+b", buffering=0) as file:
                lock(file, fcntl.LOCK_EX)  # granted when the lease has ended
                file.write(b"7")
        assert time.monotonic() - begun > LEASE / 2, "it was granted too early"
        os.rename(other.at("s"), other.at("t"))
        for i in range(200):  # so many notes that some are taken away
            append(other.at("t", "l.jsonl"), b"%d\n" % (i + 2))
        os.unlink(other.at("t", "free.json"))
        write(other.at("t", "free.json"), b"8")
        write(other.at("t", "new.json"), b"9")
        with nobody_joins(base, kind):
            os.kill(sleeper.pid, signal.SIGCONT)
            same(read(sleeper.at("t", "new.json")), b"9", "what it sees when it is there again")
    finally:
        os.kill(sleeper.pid, signal.SIGCONT)
    # What was read under the lock is written back, and refused: nothing of the other is lost.
    for name in ("n.json", "n.txt"):
        error = errno_of(os.pwrite, held[name], b"%d" % (int(values[name]) + 1), 0)
        error = error or errno_of(os.fsync, held[name])
        same(error, errno.EIO, f"what writing to {name} says")
    os.write(free, b"5")  # who had no lock is published
    os.close(free)
    same(errno_of(os.stat, sleeper.at("s")), errno.ENOENT, "the old name")
    for name, data in (("n.json", b"7"), ("n.txt", b"7"), ("new.json", b"9")):
        same(read(sleeper.at("t", name)), data, name)
    lines = b"".join(b"%d\n" % (i + 1) for i in range(201))
    same(read(sleeper.at("t", "l.jsonl")), lines, "the list, read by its name")
    rest = b""
    while more := os.read(tail, 4096):
        rest += more
    same(rest, lines[2:], "the list, read on")
    for file in (*held.values(), tail):
        errno_of(os.close, file)
    # New ones exclude each other again, and numbers are not given twice.
    with open(sleeper.at("t", "n.json"), "r+b", buffering=0) as file:
        lock(file, fcntl.LOCK_EX)
        with open(other.at("t", "n.json"), "r+b", buffering=0) as another:
            refused = errno_of(lock, another, fcntl.LOCK_EX | fcntl.LOCK_NB)
            same(refused, errno.EAGAIN, "a lock that is held")
        file.write(b"8")
    same(read(other.at("t", "n.json")), b"8", "what was written under a new lock")
    for i in range(20):
        for number, mount in enumerate((sleeper, other)):
            write(mount.at("t", f"{number}-{i}.txt"), b"x")
    found = [os.stat(other.at("t", name)).st_ino for name in os.listdir(other.at("t"))]
    same(len(set(found)), len(found), "inode numbers")
    harness.eventually(
        lambda: harness.tree(sleeper.path) == harness.tree(other.path), "the mounts are alike"
    )
    sleeper.check()


def test_a_mount_of_mariadb_that_sleeps_beyond_its_lease_loses_its_locks_and_nothing_else(box):
    locks(box, "mysql", fcntl.flock)


@soak
def test_a_mount_of_postgresql_that_sleeps_beyond_its_lease_loses_its_locks_and_nothing_else(box):
    locks(box, "postgresql", fcntl.lockf)


class Stale:
    """A program with a database open, in the middle of a transaction; then it goes on with it.  It
    shares memory with the other mount's programs no more, so it may also be ended (SIGBUS)."""

    def __init__(self, path):
        self.begun, begun = os.pipe()
        going, self.go = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            ended = 2
            try:
                os.close(self.go)
                ended = self.run(path, begun, going)
            finally:
                os._exit(ended)
        os.close(begun)
        os.close(going)
        same(os.read(self.begun, 1), b"1", "it is in the middle")

    def run(self, path, begun, going):
        with contextlib.closing(connect(path)) as base:
            base.execute("PRAGMA busy_timeout = 0")
            add(base)
            base.execute("BEGIN IMMEDIATE")
            base.execute("INSERT INTO message (data) VALUES ('stale')")
            os.write(begun, b"1")
            os.read(going, 1)
            for command in ("COMMIT", "ROLLBACK", "SELECT * FROM message", "BEGIN IMMEDIATE"):
                try:
                    base.execute(command).fetchall()
                    if command != "ROLLBACK":
                        return 1  # it says nothing
                except sqlite3.Error:
                    pass
        return 0

    def goes_on(self):
        os.close(self.go)
        os.close(self.begun)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def memory(box, kind):
    """A database with a log, in the middle of a transaction, over the end of the lease."""
    base = start(box, kind).database()
    sleeper, other = box.mount(store=base.url), box.mount(store=base.url)
    os.mkdir(sleeper.at("s"))
    here, there = sleeper.at("s", "agent.db"), other.at("s", "agent.db")
    stale = Stale(here)
    assert refused(there), "it is used on two mounts"
    os.kill(sleeper.pid, signal.SIGSTOP)
    try:
        harness.eventually(lambda: not refused(there), "the lease has ended")
        with contextlib.closing(connect(there)) as fresh:
            for _ in range(20):
                add(fresh)
            os.kill(sleeper.pid, signal.SIGCONT)
            ended = stale.goes_on()
            assert ended in (0, -signal.SIGBUS), f"the stale program ended with {ended}"
            add(fresh)
            same(count(fresh), 22, "rows")
    finally:
        os.kill(sleeper.pid, signal.SIGCONT)
    with contextlib.closing(connect(here)) as again:
        same(count(again), 22, "rows on the mount that slept")
        add(again)
    harness.eventually(lambda: not refused(there), "it is free")
    with contextlib.closing(connect(there)) as fresh:
        same(count(fresh), 23, "rows in the end")
    sleeper.check()


def test_a_database_on_mariadb_is_taken_over_when_its_mount_sleeps_beyond_its_lease(box):
    memory(box, "mysql")


@soak
def test_a_database_on_postgresql_is_taken_over_when_its_mount_sleeps_beyond_its_lease(box):
    memory(box, "postgresql")


def outage(box, kind):
    """A server that was away for longer than a lease ends nobody's."""
    server = own(box, kind)
    base = server.database()
    one, two = box.mount(store=base.url), box.mount(store=base.url)
    write(one.at("n.txt"), b"1")
    with open(one.at("n.txt"), "r+b", buffering=0) as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        server.freeze()
        time.sleep(LEASE + 4)
        server.thaw()
        time.sleep(1)
        with open(two.at("n.txt"), "r+b", buffering=0) as another:
            refused = errno_of(fcntl.flock, another, fcntl.LOCK_EX | fcntl.LOCK_NB)
        same(refused, errno.EAGAIN, "a lock that is held still")
        file.write(b"2")
    same(read(two.at("n.txt")), b"2", "what was written under it")


@soak
def test_mariadb_that_is_away_for_longer_than_a_lease_ends_no_lock(box):
    outage(box, "mysql")


def test_postgresql_that_is_away_for_longer_than_a_lease_ends_no_lock(box):
    outage(box, "postgresql")


def summer_comes(box, kind):
    """When the clocks of the server's zone are put forward, nobody was silent for an hour."""
    begins = time.gmtime(time.time() + LEASE + 12)
    day = begins.tm_yday - (begins.tm_yday > 59 and begins.tm_year % 4 == 0)
    zone = f"STD0SUM,J{day}/{time.strftime('%H:%M:%S', begins)},J{(day + 180) % 365 + 1}"
    base = own(box, kind, zone=zone).database()
    one, two = box.mount(store=base.url), box.mount(store=base.url)
    write(one.at("n.txt"), b"1")
    write(two.at("m.txt"), b"1")
    with open(one.at("n.txt"), "r+b", buffering=0) as file:
        with open(two.at("m.txt"), "r+b", buffering=0) as another:
            fcntl.flock(file, fcntl.LOCK_EX)
            fcntl.flock(another, fcntl.LOCK_EX)
            time.sleep(max(time.mktime(begins) - time.mktime(time.gmtime()), 0) + 5)
            file.write(b"2")
            another.write(b"2")
    with base.connect() as client:
        hour = client.query("SELECT HOUR(TIMEDIFF(CURRENT_TIMESTAMP, UTC_TIMESTAMP))")[0][0]
    same(hour, b"1", "it is summer")
    same((read(two.at("n.txt")), read(one.at("m.txt"))), (b"2", b"2"), "what both have written")


@soak
def test_no_lease_of_mariadb_ends_when_clocks_are_put_forward(box):
    summer_comes(box, "mysql")


def is_locked(client, schema):
    """Whether somebody is in the middle of a transaction that changes something."""
    client.query("BEGIN")
    try:
        client.query(f"SELECT n FROM {schema}sessfs_store WHERE id = 1 FOR UPDATE NOWAIT")
        return False
    except ServerError:
        return True
    finally:
        client.query("ROLLBACK")


def holds_up(box, kind):
    """A mount that stops in the middle of a transaction, or whose machine has gone without a word:
    the others wait for a moment, and it goes on later as if nothing had happened."""
    server = start(box, kind)
    proxy, base = servers.proxy(box, server), server.database()
    schema = {"mysql": "", "postgresql": "agentscope."}[kind]
    stopped, other = box.mount(store=proxy.url(base)), box.mount(store=base.url)
    os.mkdir(other.at("s"))
    write(other.at("s", "small.json"), b"1")
    data = b"".join(b'"%06d%s"\n' % (i, b"x" * 1000) for i in range(12000))
    job = threading.Thread(target=write, args=(stopped.at("s", "large.jsonl"), data))
    proxy("delay 20000")
    with base.connect() as client:
        job.start()
        held = False
        while not held and job.is_alive():
            if is_locked(client, schema):
                proxy("hold")
                time.sleep(0.2)
                held = is_locked(client, schema)
                if not held:
                    proxy("go")
            time.sleep(0.005)
    same(held, True, "it is in the middle of a transaction")
    proxy("delay 0")
    begun = time.monotonic()
    write(other.at("s", "small.json"), b"2")
    box.note(f"{kind}: the other one waited for {time.monotonic() - begun:.1f} s")
    proxy("go")
    job.join()
    same(read(other.at("s", "large.jsonl")) == data, True, "what was written meanwhile")
    same(read(stopped.at("s", "small.json")), b"2", "what the other one has written")
    stopped.check()


def test_a_mount_of_mariadb_that_stops_within_a_transaction_holds_up_nobody_for_long(box):
    holds_up(box, "mysql")


@soak
def test_a_mount_of_postgresql_that_stops_within_a_transaction_holds_up_nobody_for_long(box):
    holds_up(box, "postgresql")


def in_processes(jobs):
    """Runs each in a process of its own; all have to end well."""
    children = []
    for job in jobs:
        child = os.fork()
        if child == 0:
            status = 1
            try:
                job()
                status = 0
            finally:
                os._exit(status)
        children.append(child)
    return [os.waitpid(child, 0)[1] for child in children]


def counts(mount, number):
    for i in range(COUNTS):
        name = ("n.json", "n.txt")[i % 2]
        with open(mount.at("s", name), "r+b", buffering=0) as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            value = int(file.read())
            file.seek(0)
            file.write(b"%d" % (value + 1))
            fcntl.flock(file, fcntl.LOCK_UN)
    for i in range(COUNTS):
        append(mount.at("s", "l.jsonl"), b"[%d,%d]\n" % (number, i))


def exact(box, kind):
    base = start(box, kind).database()
    mounts = [box.mount(store=base.url) for _ in range(MOUNTS)]
    os.mkdir(mounts[0].at("s"))
    for name, data in (("n.json", b"0"), ("n.txt", b"0"), ("l.jsonl", b"")):
        write(mounts[0].at("s", name), data)
    jobs = [lambda m=mount, n=number: counts(m, n) for number, mount in enumerate(mounts)]
    begun = time.monotonic()
    same(in_processes(jobs), [0] * MOUNTS, "statuses of those who count")
    box.note(f"{kind}: {MOUNTS * COUNTS * 2} turns, {time.monotonic() - begun:.1f} s")
    for mount in mounts:
        for name in ("n.json", "n.txt"):
            same(int(read(mount.at("s", name))), MOUNTS * COUNTS // 2, f"{name} on {mount.path}")
        lines = [eval(line) for line in read(mount.at("s", "l.jsonl")).splitlines()]
        for number in range(MOUNTS):
            own = [i for by, i in lines if by == number]
            same(own, list(range(COUNTS)), f"lines of {number}")
        same(len(lines), MOUNTS * COUNTS, "lines")
    mounts[0].check()


@soak
def test_8_mounts_of_mariadb_count_under_locks_and_append_to_one_list(box):
    exact(box, "mysql")


def test_8_mounts_of_postgresql_count_under_locks_and_append_to_one_list(box):
    exact(box, "postgresql")


if __name__ == "__main__":
    servers.main(globals())
