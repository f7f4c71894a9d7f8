#!/usr/bin/python3 -B
# SPDX-License-Identifier: MIT
"""Servers that are away for longer than a mount waits for them (timeout=): its calls fail in time,
and when the server is back everything that was acknowledged is there once, and what was in doubt
at most once."""

import errno
import json
import os
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import servers  # noqa: E402
from servers import harness  # noqa: E402
from harness import errno_of, read, same  # noqa: E402
from test_stores import lines_of, own, start  # noqa: E402

TIMEOUT = 2  # seconds
LATE = 1.8  # less than to wait once more
WAKES = 10  # and so many times as long as a sleeper of ours was woken late
APPENDERS = 6

# How a server is away, and comes back
WAYS = {
    "killed": (lambda server, proxy: server.kill(), lambda server, proxy: server.start()),
    "frozen": (lambda server, proxy: server.freeze(), lambda server, proxy: server.thaw()),
    "cut off": (lambda server, proxy: proxy("hold"), lambda server, proxy: proxy("go")),
    "refusing": (
        lambda server, proxy: (proxy("refuse"), proxy("cut")),
        lambda server, proxy: proxy("go"),
    ),
    # It has committed, and nobody hears of it.
    "silent": (
        lambda server, proxy: (proxy("hold after"), proxy("wait"), proxy("hold")),
        lambda server, proxy: proxy("go"),
    ),
}

# Where there is no time for all on both servers.
QUICK = {"mysql": ("killed", "silent"), "postgresql": ("frozen", "cut off", "refusing")}


class Appender:
    """Appends numbered lines to the list of all, and keeps what was said of each."""

    def __init__(self, number, path, clock):
        self.number = number
        self.fd = os.open(path, os.O_WRONLY | os.O_APPEND)
        self.clock = clock
        self.acknowledged, self.doubtful = [], []
        self.begun = 0  # the number of the line that is or was written last
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        n = 0
        while not self.over.is_set():
            self.begun = n = n + 1
            line = b'{"by": %d, "n": %d}\n' % (self.number, n)
            error = self.clock.call(os.write, self.fd, line)
            (self.doubtful if error else self.acknowledged).append(n)
            time.sleep(0.002)

    def goes_on(self):
        """Waits until a line that is begun from now on is written, and tells its number."""
        begun = self.begun
        harness.eventually(lambda: self.last() > begun, f"{self.number} appends again")
        return self.last()

    def last(self):
        return self.acknowledged[-1] if self.acknowledged else 0

    def end(self):
        self.over.set()
        self.thread.join()
        os.close(self.fd)

    def judge(self, lines):
        got = [line["n"] for line in lines if line["by"] == self.number]
        same(got, sorted(set(got)), f"lines of {self.number} are in order, and each is there once")
        lost = sorted(set(self.acknowledged) - set(got))
        same(lost, [], f"acknowledged lines of {self.number} that are lost")
        foreign = sorted(set(got) - set(self.acknowledged) - set(self.doubtful))
        same(foreign, [], f"lines of {self.number} that it has not written")


class Sleeper:
    """Sleeps, and keeps how late it was woken at the worst."""

    def __init__(self):
        self.late = 0
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        while not self.over.is_set():
            begun = time.monotonic()
            time.sleep(0.02)
            self.late = max(self.late, time.monotonic() - begun - 0.02)

    def end(self):
        self.over.set()
        self.thread.join()


class Clock:
    """How long calls take, and with which errors they fail."""

    def __init__(self):
        self.longest = 0
        self.errors = set()
        self.failed = 0

    def call(self, call, *arguments):
        begun = time.monotonic()
        error = errno_of(call, *arguments)
        self.longest = max(self.longest, time.monotonic() - begun)
        self.failed += error != 0
        self.errors.add(error)
        return error


def names(mount, clock):
    """One of each kind of call while the server is away."""
    calls = [
        (os.mkdir, mount.at("t")),
        (os.stat, mount.at("s", "none")),
        (os.listdir, mount.at("s")),
        (os.rename, mount.at("s", "a.json"), mount.at("s", "b.json")),
        (harness.append, mount.at("s", "l.jsonl"), b'{"by": -1}\n'),
        (harness.write, mount.at("s", "c.json"), b"1"),
        (os.setxattr, mount.at("s"), "user.a", b"1"),
    ]
    return {call[0].__name__: clock.call(*call) for call in calls}


def comes_back(box, kind):
    server = own(box, kind)
    proxy = servers.proxy(box, server)
    for way in WAYS if harness.SOAK else QUICK[kind]:
        go, come = WAYS[way]
        base = server.database()
        mount = box.mount(store=proxy.url(base, timeout=TIMEOUT))
        beside = box.mount(store=base.url)
        os.mkdir(mount.at("s"))
        harness.write(mount.at("s", "l.jsonl"), b"")
        harness.write(mount.at("s", "a.json"), b"{}")
        clock, others, sleeper = Clock(), Clock(), Sleeper()
        appenders = [Appender(i, mount.at("s", "l.jsonl"), clock) for i in range(APPENDERS)]
        try:
            time.sleep(0.2)
            go(server, proxy)
            failed = names(mount, others)
            time.sleep(TIMEOUT)
            come(server, proxy)
            harness.eventually(lambda: errno_of(os.stat, mount.at("s")) == 0, "it serves again")
            back = [appender.goes_on() for appender in appenders]
            time.sleep(0.3)
            late = [n for own, last in zip(appenders, back) for n in own.doubtful if n > last]
            same(late, [], f"{way}: lines that fail when the server is back")
        finally:
            for appender in appenders:
                appender.end()
            sleeper.end()
        assert clock.failed, f"{way}: no call has failed"
        assert errno.EIO in failed.values(), f"{way}: {failed}"
        same(clock.errors | others.errors <= {0, errno.EIO, errno.ENOENT}, True, "honest errors")
        longest = max(clock.longest, others.longest)
        box.note(f"{kind}, {way}: the longest call took {longest:.2f} s, {clock.failed} failed")
        if harness.SOAK:
            most = TIMEOUT + LATE + WAKES * sleeper.late
            assert longest < most, f"{way}: a call took {longest:.2f} s of {most:.2f}"
        data = read(mount.at("s", "l.jsonl"))
        lines = [json.loads(line) for line in data.splitlines()]
        for appender in appenders:
            appender.judge(lines)
        same(data.splitlines(), lines_of(base), f"{way}: rows of the list")
        harness.eventually(
            lambda: harness.tree(mount.path) == harness.tree(beside.path), f"{way}: alike"
        )
        mount.stop()
        beside.stop()
        mount.check()


def test_a_mount_outlives_mariadb_that_is_away_for_longer_than_it_waits(box):
    comes_back(box, "mysql")


def test_a_mount_outlives_postgresql_that_is_away_for_longer_than_it_waits(box):
    comes_back(box, "postgresql")


def lets_go(box, kind):
    """Of a removed file, while the server is away for longer than the mount waits."""
    server = start(box, kind)
    proxy, base = servers.proxy(box, server), server.database()
    schema = {"mysql": "", "postgresql": "agentscope."}[kind]
    one, two = box.mount(store=proxy.url(base, timeout=TIMEOUT)), box.mount(store=base.url)
    os.mkdir(two.at("s"))
    harness.write(two.at("s", "o.txt"), b"text")
    harness.eventually(lambda: errno_of(os.stat, one.at("s", "o.txt")) == 0, "it is there")
    file = os.open(one.at("s", "o.txt"), os.O_RDONLY)
    os.unlink(two.at("s", "o.txt"))
    harness.eventually(lambda: errno_of(os.stat, one.at("s", "o.txt")), "it is gone")
    proxy("refuse")
    proxy("cut")
    os.close(file)
    time.sleep(2 * TIMEOUT)
    proxy("go")
    query = f"SELECT COUNT(*) FROM {schema}sessfs_node WHERE nlink = 0"
    with base.connect() as client:
        harness.eventually(
            lambda: int(client.query(query)[0][0]) == 0, "what nobody has open goes"
        )


def test_a_mount_of_mariadb_that_was_away_has_let_go_of_a_removed_file(box):
    lets_go(box, "mysql")


def test_a_mount_of_postgresql_that_was_away_has_let_go_of_a_removed_file(box):
    lets_go(box, "postgresql")


def waits_for_a_turn(box, kind):
    """Another mount alone may commit for a while, and the connection is lost meanwhile."""
    server = start(box, kind)
    proxy, base = servers.proxy(box, server), server.database()
    schema = {"mysql": "", "postgresql": "agentscope."}[kind]
    box.mount(store=base.url)  # which has the number 1
    mount = box.mount(store=proxy.url(base))
    clock, over = Clock(), threading.Event()
    with base.connect() as client:
        client.query(f"UPDATE {schema}sessfs_store SET turn = 1 WHERE id = 1")
    writing = threading.Thread(
        target=lambda: (clock.call(os.mkdir, mount.at("s")), over.set())
    )
    writing.start()
    proxy("delay 10000")  # so that each question of the round is met
    for i in range(24):
        time.sleep(0.08 + 0.005 * (i % 8))
        proxy("cut")
    proxy("delay 0")
    over.wait()  # as the turn of who does not use it ends
    writing.join()
    same(clock.errors, {0}, "errors")
    same(errno_of(os.stat, mount.at("s")), 0, "what was made")
    mount.check()


def test_a_mount_that_waits_for_a_turn_outlives_its_connections_to_mariadb(box):
    waits_for_a_turn(box, "mysql")


def test_a_mount_that_waits_for_a_turn_outlives_its_connections_to_postgresql(box):
    waits_for_a_turn(box, "postgresql")


if __name__ == "__main__":
    servers.main(globals())
