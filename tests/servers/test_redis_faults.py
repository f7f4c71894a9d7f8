#!/usr/bin/python3 -B
# SPDX-License-Identifier: MIT
"""Redis that dies, is cut off, or sleeps: nothing acknowledged is lost with appendfsync always, and
nothing is there twice."""

import glob
import json
import os
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import resp  # noqa: E402
import servers  # noqa: E402
import test_histories  # noqa: E402
from servers import harness  # noqa: E402
from harness import append, errno_of, eventually, read, rounds, write  # noqa: E402
from histories import Histories  # noqa: E402
from test_redis import PREFIX, comes_to, keys_of, same  # noqa: E402


class Store(test_histories.Server):
    """As SQLite in histories.py."""

    def __init__(self, box, kind="redis"):
        self.server = resp.start(box, kind, durable=True)
        self.proxy = servers.proxy(box, self.server)
        self.name = self.server.url(**self.proxy.words)

    PUT = """
        for i = 1, #ARGV, 5 do
            local place, set, key, index, data = unpack(ARGV, i, i + 4)
            if key == 'k' then
                redis.call('SET', place, data)
            elseif tonumber(index) == redis.call('LLEN', place .. ':list') then
                redis.call('RPUSH', place .. ':list', data)
            else
                redis.call('LSET', place .. ':list', index, data)
            end
            redis.call('SADD', set, key == 'k' and key or key .. ':list')
        end
    """

    def put(self, rows):
        """Items of a list, and a document.  What is in doubt is said again, which does no harm."""
        words = []
        for session, key, index, data in rows:
            words += [f"{PREFIX}{session}:{key}", f"{PREFIX}{session}:_keys", key, index, data]
        while True:
            try:
                with self.server.connect() as client:
                    client("EVAL", self.PUT, 0, *words)
                return
            except (OSError, resp.ServerError):
                time.sleep(0.05)

    def rows(self, mount):
        found = {}
        with self.server.connect() as client:
            for name, value in keys_of(client).items():
                session, _, key = name.partition(":")
                if key == "_keys" or key.endswith(":ver"):
                    continue
                if key.endswith(":list:_hash"):
                    key = key[: -len(":list:_hash")] + ":_hash"
                elif key.endswith(":list"):
                    key = key[: -len(":list")]
                items = value if isinstance(value, list) else [value]
                found[session, key] = list(enumerate(items))
        return {key: found[key] for key in sorted(found)}


def play(box, count):
    histories = Histories(box, test_histories.SEED, count, Store(box))
    for _ in range(test_histories.ROUNDS):
        histories.run()
    calls = sum(histories.returned.values())
    box.note(f"seed {test_histories.SEED}: {calls} calls of writers, {histories.turns} notes, "
             f"{histories.troubles_made}")


def test_a_history_of_two_mounts_on_redis(box):
    play(box, 2)


@harness.soak
def test_a_history_of_four_mounts_on_redis(box):
    play(box, 4)


def test_a_server_that_is_killed_loses_nothing_of_what_was_acknowledged(box):
    server = resp.start(box, durable=True)
    mount = box.mount(store=server.url())
    os.mkdir(mount.at("s"))
    path = mount.at("s", "l.jsonl")
    told = 0
    for turn in range(rounds("SESSFS_STEPS", 3, 20)):
        for _ in range(20):
            append(path, b"%d\n" % told)
            told += 1
        server.kill()
        cut_tail(server, turn * 29 % 200)
        server.start()
    same([int(line) for line in read(path).splitlines()][:told], list(range(told)))
    same(len(read(path).splitlines()), told)


def last_log(server):
    paths = glob.glob(f"{server.path}/appendonlydir/*.incr.aof")
    return max(paths, key=lambda path: int(path.split(".")[-3]))


def cut_tail(server, size):
    """The log ends in the middle of a script, as that of a server that died in it: what is cut off
    was written behind all that was acknowledged."""
    if not size:
        return
    with open(last_log(server), "ab") as file:
        torn = b"*1\r\n$5\r\nMULTI\r\n"
        for number in range(9):
            torn += b"*3\r\n$5\r\nRPUSH\r\n$4\r\ntorn\r\n$1\r\n%d\r\n" % number
        file.write(torn[:-size] if size < len(torn) - 15 else torn[:-20])


def test_a_torn_log_takes_nothing_that_comes_after_it(box):
    server = resp.start(box, durable=True)
    mount = box.mount(store=server.url())
    os.mkdir(mount.at("s"))
    path = mount.at("s", "l.jsonl")
    told = 0
    for size in range(1, 200, rounds("SESSFS_STEPS", 66, 7)):
        append(path, b"%d\n" % told)
        told += 1
        server.kill()
        cut_tail(server, size)
        server.start()
        append(path, b"%d\n" % told)
        told += 1
        server.kill()
        server.start()
        same([int(line) for line in read(path).splitlines()], list(range(told)))


def test_a_log_that_is_cut_loses_only_what_was_cut_off(box):
    """A server and its mount die together: the last script is there whole or not at all."""
    server = resp.start(box, durable=True)
    mount = box.mount(store=server.url())
    os.mkdir(mount.at("s"))
    told = []
    for size in range(1, 201, rounds("SESSFS_STEPS", 66, 1)):
        append(mount.at("s", "l.jsonl"), b"%d\n" % size)
        told.append(size)
        safe = os.path.getsize(last_log(server))
        append(mount.at("s", "l.jsonl"), b"-%d\n" % size)
        mount.kill9()
        server.kill()
        log = last_log(server)
        assert os.path.getsize(log) - size > safe, "more than the last script would be cut off"
        os.truncate(log, os.path.getsize(log) - size)
        server.start()
        mount.start()
        seen = [int(line) for line in read(mount.at("s", "l.jsonl")).splitlines()]
        same(seen[: len(told)], told)
        assert seen[len(told) :] in ([], [-size]), (size, seen[len(told) :])
        told = seen
    mount.check()


def test_without_a_new_log_what_comes_after_a_torn_one_is_lost(box):
    """The control: a bare client on the same server."""
    server = resp.start(box, durable=True)
    with server.connect() as client:
        client("RPUSH", "l", "before")
    server.kill()
    cut_tail(server, 5)
    server.start()
    with server.connect() as client:
        same(client("RPUSH", "l", "after"), 2)
    server.kill()
    server.start()
    with server.connect() as client:
        same(client("LRANGE", "l", 0, -1), [b"before"])


def test_a_commit_that_is_cut_anywhere_is_done_once(box):
    server = resp.start(box)
    proxy = servers.proxy(box, server)
    mount = box.mount(store=server.url(**proxy.words))
    other = box.mount(store=server.url())
    os.mkdir(mount.at("s"))
    told = []
    for when in ("before", "during", "after"):
        for number in range(1, rounds("SESSFS_STEPS", 4, 40)):
            proxy(f"cut {when} 1")
            append(mount.at("s", "l.jsonl"), b'"%s%d"\n' % (when.encode(), number))
            told.append(f"{when}{number}")
    for step in range(0, 60, rounds("SESSFS_STEPS", 7, 1)):
        proxy(f"cut answer {step} COMMIT")
        append(mount.at("s", "l.jsonl"), b'"answer%d"\n' % step)
        proxy("go")
        told.append(f"answer{step}")
    assert proxy.counts()["answers"] > 0, proxy.counts()
    for one in (mount, other):
        same([json.loads(line) for line in read(one.at("s", "l.jsonl")).splitlines()], told)
    mount.check()


def test_blind_retry_doubles_what_was_cut(box):
    """The control: a client that sends again what was not answered."""
    server = resp.start(box)
    proxy = servers.proxy(box, server)
    done = []
    for _ in range(2):
        client = resp.Client(proxy.words["socket"])
        if not done:
            proxy("cut answer 0 RPUSH")
        try:
            done.append(client("RPUSH", "l", "1"))
        except (OSError, ConnectionError):
            done.append(None)
        client.close()
    same(done, [None, 2])


def test_a_mount_that_sleeps_longer_than_its_lease_comes_back(box):
    server = resp.start(box)
    one, two = (box.mount(store=server.url()) for _ in range(2))
    os.mkdir(one.at("s"))
    append(one.at("s", "l.jsonl"), b"1\n")
    os.kill(one.pid, signal.SIGSTOP)
    try:
        eventually(lambda: is_ended(server), "the other one ends it")
        append(two.at("s", "l.jsonl"), b"2\n")
    finally:
        os.kill(one.pid, signal.SIGCONT)
    append(one.at("s", "l.jsonl"), b"3\n")
    for mount in (one, two):
        same(read(mount.at("s", "l.jsonl")), b"1\n2\n3\n")
    assert "did not hear from this mount" in one.log(), one.log()


@harness.soak
def test_a_server_that_is_busy_longer_than_the_lease_has_heard_of_all(box):
    server = resp.start(box)
    one, two = (box.mount(store=server.url()) for _ in range(2))
    os.mkdir(one.at("s"))
    time.sleep(20)  # one that was heard for as long judges the others
    for _ in range(2):
        server.freeze()
        time.sleep(20)
        server.thaw()
        for number, mount in enumerate((one, two)):
            append(mount.at("s", "l.jsonl"), b"%d\n" % number)
    time.sleep(20)
    for mount in (one, two):
        same(read(mount.at("s", "l.jsonl")), b"0\n1\n" * 2)
        assert "did not hear" not in mount.log(), mount.log()


def is_ended(server):
    with server.connect() as client:
        return client("HGET", "sessfs:" + PREFIX[:-1] + ":m", "mounts") == b"1"


def test_a_store_that_is_deleted_is_noticed_and_nothing_of_it_comes_back(box):
    server = resp.start(box)
    client = server.connect()
    old = box.mount(store=server.url())
    os.mkdir(old.at("s"))
    append(old.at("s", "l.jsonl"), b"1\n")
    client("FLUSHALL")
    same(errno_of(append, old.at("s", "l.jsonl"), b"2\n"), 5)
    same(errno_of(os.mkdir, old.at("t")), 5)
    assert "was deleted by another program" in old.log(), old.log()
    # A heartbeat of before may still have come.
    same([key for key in client("KEYS", "*") if b":hb:" not in key], [])
    new = box.mount(store=server.url())
    os.mkdir(new.at("s"))
    append(new.at("s", "l.jsonl"), b"3\n")
    same(errno_of(append, old.at("s", "l.jsonl"), b"4\n"), 5)
    same(errno_of(os.mkdir, old.at("t")), 5)
    same(read(new.at("s", "l.jsonl")), b"3\n")
    same(os.listdir(new.at()), ["s"])
    new.check()


def test_a_server_that_has_forgotten_what_it_acknowledged_is_shown_as_it_is(box):
    """As one that syncs now and then may, when it starts again."""
    server = resp.start(box, durable=True)
    mounts = [box.mount(store=server.url()) for _ in range(2)]
    os.mkdir(mounts[0].at("s"))
    paths = [mount.at("s", "l.jsonl") for mount in mounts]

    def set_back(*words):
        server.kill()
        subprocess.run(words, cwd=server.path, check=True)
        server.start()

    append(paths[0], b"1\n")
    set_back("cp", "-a", "appendonlydir", "kept")
    append(paths[0], b"2\n")
    append(paths[1], b"3\n")
    for path in paths:
        same(read(path), b"1\n2\n3\n")
    set_back("sh", "-c", "rm -r appendonlydir && mv kept appendonlydir")
    for path in paths:
        comes_to(lambda: (read(path), b"1\n"))
    append(paths[1], b"4\n")
    append(paths[0], b"5\n")
    for path in paths:
        same(read(path), b"1\n4\n5\n")
    mounts[0].check()


def test_a_server_that_is_away_is_waited_for_and_then_an_error(box):
    server = resp.start(box, durable=True)
    mount = box.mount(store=server.url(timeout=2))
    os.mkdir(mount.at("s"))
    write(mount.at("s", "a.json"), b"[1]")
    append(mount.at("s", "l.jsonl"), b"1\n")
    server.kill()
    same(errno_of(append, mount.at("s", "l.jsonl"), b"2\n"), 5)
    assert "does not answer" in mount.log(), mount.log()
    server.start()
    append(mount.at("s", "l.jsonl"), b"3\n")
    same(read(mount.at("s", "l.jsonl")), b"1\n3\n")


def test_a_mount_that_was_away_has_let_go_of_a_removed_file(box):
    server = resp.start(box)
    proxy = servers.proxy(box, server)
    one = box.mount(store=server.url(timeout=2, **proxy.words))
    two = box.mount(store=server.url())
    os.mkdir(two.at("s"))
    write(two.at("s", "o.txt"), b"text")
    eventually(lambda: errno_of(os.stat, one.at("s", "o.txt")) == 0, "it is there")
    file = os.open(one.at("s", "o.txt"), os.O_RDONLY)
    os.unlink(two.at("s", "o.txt"))
    eventually(lambda: errno_of(os.stat, one.at("s", "o.txt")), "it is gone")
    proxy("refuse")
    proxy("cut")
    os.close(file)
    time.sleep(4)
    proxy("go")
    with server.connect() as client:
        order = "sessfs:" + PREFIX[:-1] + ":o"
        eventually(
            lambda: client("ZRANGEBYLEX", order, "[O", "(P") == [], "what nobody has open goes"
        )


if __name__ == "__main__":
    servers.main(globals())
