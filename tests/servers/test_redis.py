#!/usr/bin/python3 -B
# SPDX-License-Identifier: MIT
"""Mounts of a store on Redis, and AgentScope's services beside them: what they write themselves is
byte for byte what these would."""

import errno
import itertools
import json
import os
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import resp  # noqa: E402
import servers  # noqa: E402
import test_moves  # noqa: E402
from servers import harness  # noqa: E402
from harness import append, errno_of, eventually, read, rounds, write  # noqa: E402

PREFIX = "agentscope:session:"


def without_times(told):
    """What test_moves.told() says, but for times, which rows on Redis have not."""
    for numbers in told[0] + [told[1]]:
        for name in ("created", "changed", "days"):
            numbers.pop(name, None)
    return told


def same(seen, expected):
    harness.same(seen, expected, "what is there")


def comes_to(pair):
    """What it is, and what it becomes."""
    def holds():
        try:
            seen, expected = pair()
        except FileNotFoundError:
            return False
        return seen == expected

    eventually(holds, pair)



class Service:
    """What AgentScope's stores send, a command after the other; versions: as from 2.0.3 on."""

    SAVE = """
        local now = tonumber(redis.call('GET', KEYS[2]) or '0')
        local expected = tonumber(ARGV[2])
        if expected >= 0 and expected ~= now then return -1 end
        redis.call('SET', KEYS[1], ARGV[1])
        redis.call('SET', KEYS[2], string.format('%.0f', now + 1))
        redis.call('SADD', KEYS[3], ARGV[3])
        return now + 1
    """

    def __init__(self, client, prefix=PREFIX):
        self.client = client
        self.prefix = prefix

    def key(self, *words):
        return self.prefix + ":".join(words)

    def save(self, session, key, data):
        self.client("SET", self.key(session, key), data)
        self.client("SADD", self.key(session, "_keys"), key)

    def save_if(self, session, key, data, expected=-1):
        place = self.key(session, key)
        return self.client("EVAL", self.SAVE, 3, place, place + ":ver",
                           self.key(session, "_keys"), data, expected, key)

    @staticmethod
    def digest(items):
        """Sampled as AgentScope does; only that it differs counts here."""
        n = len(items)
        places = range(n) if n <= 5 else [0, n // 4, n // 2, 3 * n // 4, n - 1]
        return f"{n}:" + "-".join(f"{hash(items[i]) & 0xffffffff:x}" for i in places)

    def save_list(self, session, key, items):
        place = self.key(session, key, "list")
        self.client("GET", place + ":_hash")
        there = self.client("LLEN", place)
        kept = self.client("LRANGE", place, 0, -1)
        if there > len(items) or kept != [item.encode() for item in items[:there]]:
            self.client("DEL", place)
            there = 0
        for item in items[there:]:
            self.client("RPUSH", place, item)
        self.client("SET", place + ":_hash", self.digest(items))
        self.client("SADD", self.key(session, "_keys"), key + ":list")

    def delete(self, session):
        keys = self.key(session, "_keys")
        for member in self.client("SMEMBERS", keys):
            self.client("DEL", self.key(session, member.decode()))
            self.client("DEL", self.key(session, member.decode() + ":_hash"))
            self.client("DEL", self.key(session, member.decode() + ":ver"))
        self.client("DEL", keys)


def keys_of(client, prefix=PREFIX):
    """All of the services', each with what it holds."""
    found = {}
    for key in sorted(client("KEYS", prefix + "*")):
        kind = client("TYPE", key)
        name = key.decode()[len(prefix):]
        found[name] = (client("GET", key) if kind == b"string" else
                       client("LRANGE", key, 0, -1) if kind == b"list" else
                       sorted(client("SMEMBERS", key)))
    return found


def test_files_are_the_keys_that_a_service_would_write(box):
    server = resp.start(box)
    client = server.connect()
    mount = box.mount(store=server.url())
    os.mkdir(mount.at("s"))
    write(mount.at("s", "agent.json"), b'{"a": 1}')
    write(mount.at("s", "memory.jsonl"), b'{"n": 1}\n{"n": 2}\n')
    append(mount.at("s", "memory.jsonl"), b'{"n": 3}\n')
    write(mount.at("s", "memory.hash"), b"abc")
    write(mount.at("s", "notes.txt"), b"plain\n")
    same(keys_of(client), {
        "s:_keys": [b"agent", b"memory:list"],
        "s:agent": b'{"a": 1}',
        "s:memory:list": [b'{"n": 1}', b'{"n": 2}', b'{"n": 3}'],
        "s:memory:list:_hash": b"abc",
    })
    mount.remount()
    same(read(mount.at("s", "memory.jsonl")), b'{"n": 1}\n{"n": 2}\n{"n": 3}\n')
    same(read(mount.at("s", "agent.json")), b'{"a": 1}')
    same(read(mount.at("s", "notes.txt")), b"plain\n")
    same(sorted(os.listdir(mount.at("s"))),
         ["agent.json", "memory.hash", "memory.jsonl", "notes.txt"])
    os.unlink(mount.at("s", "memory.hash"))
    os.unlink(mount.at("s", "memory.jsonl"))
    os.unlink(mount.at("s", "agent.json"))
    comes_to(lambda: (keys_of(client), {}))
    mount.check()


def test_what_a_service_had_is_shown_and_what_it_does_is_seen(box):
    server = resp.start(box)
    client = server.connect()
    service = Service(client)
    service.save("s", "agent", '{"v": 1}')
    service.save_list("s", "memory", ['{"n": 1}', '{"n": 2}'])
    service.save_list("alice/t", "log", ['{"one": 1}'])
    mount = box.mount(store=server.url())
    same(sorted(os.listdir(mount.path)), ["alice%2Ft", "s"])
    same(read(mount.at("s", "agent.json")), b'{"v": 1}')
    same(read(mount.at("s", "memory.jsonl")), b'{"n": 1}\n{"n": 2}\n')
    same(read(mount.at("alice%2Ft", "log.jsonl")), b'{"one": 1}\n')
    same(read(mount.at("s", "memory.hash")).decode(), service.digest(['{"n": 1}', '{"n": 2}']))
    service.save("s", "agent", '{"v": 2}')
    comes_to(lambda: (read(mount.at("s", "agent.json")), b'{"v": 2}'))
    service.save_list("s", "memory", ['{"n": 1}', '{"n": 2}', '{"n": 3}'])
    comes_to(lambda: (read(mount.at("s", "memory.jsonl")).count(b"\n"), 3))
    service.save_list("s", "memory", ['{"n": 9}', '{"n": 2}', '{"n": 3}'])
    comes_to(lambda: (read(mount.at("s", "memory.jsonl")),
                            b'{"n": 9}\n{"n": 2}\n{"n": 3}\n'))
    append(mount.at("s", "memory.jsonl"), b'{"n": 4}\n')
    same(client("LRANGE", PREFIX + "s:memory:list", 0, -1)[-1], b'{"n": 4}')
    service.save("new", "agent", "7")
    comes_to(lambda: (read(mount.at("new", "agent.json")), b"7"))
    service.delete("s")
    comes_to(lambda: (os.path.exists(mount.at("s", "agent.json")), False))
    mount.check()


def test_a_key_that_a_service_names_late_is_seen(box):
    server = resp.start(box)
    client = server.connect()
    mount = box.mount(store=server.url())
    os.mkdir(mount.at("s"))
    client("RPUSH", PREFIX + "s:memory:list", "[1]")
    client("SET", PREFIX + "s:agent", "2")
    time.sleep(0.5)  # for what is looked at as soon as it is told
    same(os.listdir(mount.at("s")), [])
    client("SADD", PREFIX + "s:_keys", "memory:list", "agent")
    comes_to(lambda: (read(mount.at("s", "memory.jsonl")), b"[1]\n"))
    comes_to(lambda: (read(mount.at("s", "agent.json")), b"2"))
    client("DEL", PREFIX + "s:_keys")
    client("SET", PREFIX + "s:_keys", "no set")
    client("RPUSH", PREFIX + "t:_keys", "no set either")
    service = Service(client)
    service.save("u", "agent", "3")
    comes_to(lambda: (read(mount.at("u", "agent.json")), b"3"))
    same(read(mount.at("s", "agent.json")), b"2")
    client("DEL", PREFIX + "s:_keys", PREFIX + "t:_keys")
    client("SADD", PREFIX + "s:_keys", "memory:list", "agent")
    mount.check()


def test_what_a_service_did_while_nobody_was_there_is_seen(box):
    server = resp.start(box)
    service = Service(server.connect())
    mount = box.mount(store=server.url())
    service.save("s", "agent", '{"v": 1}')
    service.save_list("s", "memory", ["1", "2"])
    service.save_list("t", "memory", ["1", "2"])
    comes_to(lambda: (read(mount.at("s", "memory.jsonl")), b"1\n2\n"))
    comes_to(lambda: (read(mount.at("t", "memory.jsonl")), b"1\n2\n"))
    comes_to(lambda: (read(mount.at("s", "agent.json")), b'{"v": 1}'))
    mount.unmount()
    service.save("s", "agent", '{"v": 2}')
    service.save_list("s", "memory", ["3", "2"])
    service.delete("t")
    service.save("u", "agent", "5")
    mount.start()
    comes_to(lambda: (read(mount.at("s", "agent.json")), b'{"v": 2}'))
    comes_to(lambda: (read(mount.at("s", "memory.jsonl")), b"3\n2\n"))
    comes_to(lambda: (os.path.exists(mount.at("t", "memory.jsonl")), False))
    comes_to(lambda: (read(mount.at("u", "agent.json")), b"5"))


def test_versions_rise_with_what_a_mount_writes(box):
    server = resp.start(box)
    client = server.connect()
    service = Service(client)
    same(service.save_if("u/s", "agent", '{"v": 1}', 0), 1)
    mount = box.mount(store=server.url())
    same(read(mount.at("u%2Fs", "agent.json")), b'{"v": 1}')
    write(mount.at("u%2Fs", "agent.json"), b'{"v": 2}')
    same(client("GET", PREFIX + "u/s:agent:ver"), b"2")
    same(service.save_if("u/s", "agent", '{"v": 9}', 1), -1)
    same(service.save_if("u/s", "agent", '{"v": 3}', 2), 3)
    comes_to(lambda: (read(mount.at("u%2Fs", "agent.json")), b'{"v": 3}'))
    client("SET", PREFIX + "u/s:agent:ver", str(2**53 + 8))
    write(mount.at("u%2Fs", "agent.json"), b'{"v": 4}')
    same(client("GET", PREFIX + "u/s:agent:ver"), str(2**53 + 9).encode())


def test_sessions_of_the_older_layout_are_imported(box):
    server = resp.start(box)
    client = server.connect()
    service = Service(client)
    service.save("new", "agent", "1")
    service.save_if("new", "raised", "2")
    service.save_list("new", "memory", ["1", "2"])
    older = {"old": '{"agent":{"v":1},"memory":[1,{"n":2}]}', "user:s": '{"agent": 5}'}
    for session, data in older.items():
        client("SET", PREFIX + session, data)
    there = keys_of(client)
    store = server.url(database=1)
    words = ["import", "--layout=agentscope-rows", store]
    done = box.sessfs(*words, server.url())
    assert done.returncode == 0, done.stderr
    same(keys_of(client), there)
    mount = box.mount(store=store)
    same(sorted(os.listdir(mount.at())), ["old", "user:s"])
    same(read(mount.at("old", "agent.json")), b'{"v":1}')
    same(read(mount.at("old", "memory.jsonl")), b'1\n{"n":2}\n')
    same(read(mount.at("user:s", "agent.json")), b"5")
    done = box.sessfs(*words, server.url(prefix="other:"))
    assert done.returncode and b"no sessions of the older layouts" in done.stderr, done.stderr


def test_sessions_of_python_are_imported(box):
    server = resp.start(box)
    client = server.connect()
    record = "agentscope:user:%s:session:%s"
    client("SET", PREFIX + "first:state", '{"agent": {"v": 1}}')
    client("SET", "user_id:ann:session:second:state", '{"agent": {"v": 2}, "toolkit": {}}')
    client("SET", record % ("ann", "third"), '{"id": "third", "state": {"n": [1]} }')
    client("RPUSH", record % ("ann", "third") + ":messages", '{"role": "user"}', '{"role": "x"}')
    client("SET", record % ("bob", "empty"), "{}")
    client("RPUSH", record % ("bob", "empty") + ":messages", '"only"')
    client("SET", record % ("bob", "quiet"), '{"id": "quiet"}')
    client("SET", record % ("a:session:b", "c"), '{"id": "whose"}')
    client("SET", "agentscope:user:ann:agent:third:session", "third")
    client("SADD", "agentscope:user:ann:agent:third:sessions", "third")
    there = sorted(client("KEYS", "*"))
    store = server.url(database=1)
    done = box.sessfs("import", "--layout=agentscope-rows", store, server.url())
    assert done.returncode == 0, done.stderr
    assert b"is that of two sessions" in done.stderr, done.stderr
    same(sorted(client("KEYS", "*")), there)
    mount = box.mount(store=store)
    same(sorted(os.listdir(mount.at())),
         ["ann%2Fsecond", "ann%2Fthird", "bob%2Fempty", "bob%2Fquiet", "first"])
    same(read(mount.at("first", "agent.json")), b'{"v":1}')
    same(read(mount.at("ann%2Fsecond", "agent.json")), b'{"v":2}')
    same(read(mount.at("ann%2Fthird", "state.json")), b'{"n":[1]}')
    same(read(mount.at("ann%2Fthird", "messages.jsonl")), b'{"role":"user"}\n{"role":"x"}\n')
    same(read(mount.at("bob%2Fempty", "messages.jsonl")), b'"only"\n')
    same(os.listdir(mount.at("bob%2Fquiet")), ["id.json"])


def test_a_store_moves_to_redis_and_back(box):
    server = resp.start(box)
    store, _, number = test_moves.make_source(box)
    mount = box.mount(store=store)
    os.mkdir(mount.at("alone"))
    write(mount.at("alone", "lone.hash"), b"0")  # of nothing that is there
    expected = test_moves.seen(mount)
    mount.unmount()
    known = test_moves.told(box, store)
    test_moves.run(box, "restore", store, server.url())
    test_moves.compare(box, expected, server.url())
    same(without_times(test_moves.told(box, server.url())), without_times(known))
    back = box.new_path("back.db")
    test_moves.run(box, "backup", server.url(), back)
    test_moves.compare(box, expected, back)
    test_moves.run(box, "restore", back, server.url(prefix="again:"))
    test_moves.compare(box, expected, server.url(prefix="again:"))
    mount = box.mount(store=server.url())
    write(mount.at("new"), b"")
    assert os.stat(mount.at("new")).st_ino > number, "a new number"


def test_a_key_of_two_sessions_is_refused_and_others_suffer_nothing(box):
    server = resp.start(box)
    client = server.connect()
    service = Service(client)
    service.save("s", "x:agent", "1")
    client("SADD", PREFIX + "s:x:_keys", "agent")
    service.save("s", "fine", "2")
    service.save("s:x", "other", "3")
    mount = box.mount(store=server.url())
    same(sorted(os.listdir(mount.path)), ["s", "s:x"])
    same(read(mount.at("s", "fine.json")), b"2")
    same(read(mount.at("s:x", "other.json")), b"3")
    same(os.listdir(mount.at("s")), ["fine.json"])
    same(os.listdir(mount.at("s:x")), ["other.json"])
    assert "two sessions" in mount.log(), mount.log()
    same(client("GET", PREFIX + "s:x:agent"), b"1")


def test_two_mounts_append_to_one_list_and_none_is_lost_or_doubled(box):
    server = resp.start(box)
    mounts = [box.mount(store=server.url()) for _ in range(2)]
    os.mkdir(mounts[0].at("s"))
    write(mounts[0].at("s", "l.jsonl"), b"")
    count = rounds("SESSFS_STEPS", 100, 1000)

    def write_lines(number):
        with open(mounts[number].at("s", "l.jsonl"), "ab", buffering=0) as file:
            for i in range(count):
                file.write(b'"%d.%d"\n' % (number, i))

    threads = [threading.Thread(target=write_lines, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    wanted = sorted(f"{number}.{i}" for number in range(2) for i in range(count))
    for mount in mounts:
        lines = [json.loads(line) for line in read(mount.at("s", "l.jsonl")).splitlines()]
        same(sorted(lines), wanted)
    with server.connect() as client:
        same(client("LLEN", PREFIX + "s:l:list"), 2 * count)


def test_two_mounts_see_each_other(box):
    server = resp.start(box)
    one, two = (box.mount(store=server.url()) for _ in range(2))
    os.mkdir(one.at("s"))
    write(one.at("s", "a.json"), b"[1]")
    same(read(two.at("s", "a.json")), b"[1]")
    write(two.at("s", "a.json"), b"[2]")
    same(read(one.at("s", "a.json")), b"[2]")
    os.rename(one.at("s"), one.at("t"))
    same(read(two.at("t", "a.json")), b"[2]")
    comes_to(lambda: (errno_of(os.stat, two.at("s")), errno.ENOENT))
    write(two.at("t", "b.tmp"), b"x" * 100000)
    os.rename(two.at("t", "b.tmp"), two.at("t", "c.txt"))
    same(read(one.at("t", "c.txt")), b"x" * 100000)
    os.unlink(one.at("t", "c.txt"))
    comes_to(lambda: (errno_of(os.stat, two.at("t", "c.txt")), errno.ENOENT))
    one.check()


def saves_beside(box, count):
    """A service saves a list again and again, two mounts read it and append to another one."""
    server = resp.start(box)
    service = Service(server.connect())
    service.save_list("s", "m", ['"old"'] * 20)
    mounts = [box.mount(store=server.url()) for _ in range(2)]
    for mount in mounts:
        same(read(mount.at("s", "m.jsonl")), b'"old"\n' * 20)
    for i in range(count):
        service.save_list("s", "m", [f'"{i}"'] * 20)
        append(mounts[i % 2].at("s", "log.jsonl"), b"%d\n" % i)
    for mount in mounts:
        comes_to(lambda: (read(mount.at("s", "m.jsonl")), b'"%d"\n' % (count - 1) * 20))
        same(read(mount.at("s", "log.jsonl")), b"".join(b"%d\n" % i for i in range(count)))
    same(server.connect()("SMEMBERS", PREFIX + "s:_keys").sort(), None)


def test_a_service_saves_beside_two_mounts(box):
    saves_beside(box, rounds("SESSFS_STEPS", 10, 100))


def test_files_of_another_user_are_replaced(box):
    """Which forgets a history, where there is one."""
    harness.need_root()
    mount = box.mount(store=resp.start(box).url())
    os.mkdir(mount.at("s"))
    for name in ("k.json", "l.jsonl"):
        for replace in ("rename", "unlink"):
            write(mount.at(f"s/{name}"), b"1\n")
            os.chown(mount.at(f"s/{name}"), 1000, 1000)
            write(mount.at("s/new"), b"2\n")
            if replace == "unlink":
                os.unlink(mount.at(f"s/{name}"))
            os.rename(mount.at("s/new"), mount.at(f"s/{name}"))
            harness.same(read(mount.at(f"s/{name}")), b"2\n", f"{name}, {replace}")
            os.unlink(mount.at(f"s/{name}"))
    mount.check()


def test_a_mount_begins_while_others_write(box):
    """What it reads first changes under it all the time: the node of the root, among others."""
    server = resp.start(box)
    first = box.mount(store=server.url())
    done = threading.Event()

    def change(number):
        service = Service(server.connect())
        for i in itertools.count():
            if done.is_set():
                break
            if number:
                service.save_list(f"s{i % 50}", "m", [f'"{i}"'])
            else:
                os.mkdir(first.at(f"d{i}"))
                os.rmdir(first.at(f"d{i}"))

    threads = [threading.Thread(target=change, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(rounds("SESSFS_STEPS", 6, 60)):
            box.mount(store=server.url()).unmount()
    finally:
        done.set()
        for thread in threads:
            thread.join()


def test_what_asks_for_many_sessions_answers_beside_writers(box):
    """There is no moment in which nothing that such a command reads is changed."""
    server = resp.start(box)
    service = Service(server.connect())
    for i in range(50):
        service.save_list(f"s{i}", "m", ['"word"'])
    mount = box.mount(store=server.url())
    done = threading.Event()

    def change():
        for i in itertools.count():
            if done.is_set():
                break
            service.save_list(f"s{i % 50}", "m", ['"word"'] * (i % 7 + 1))
            time.sleep(0.005)

    thread = threading.Thread(target=change)
    thread.start()
    try:
        for words in (["sessions", "--titles"], ["stats"], ["search", "-n", "1"],
                      ["gc", "--dry-run", "--older-than=1d"]):
            result = box.sessfs(words[0], *words[1:], server.url(),
                                *(["word"] if words[0] == "search" else []))
            same((words, result.returncode, result.stderr), (words, 0, b""))
        folder = os.path.join(box.new_folder(), "out")
        box.sessfs("export", server.url(), folder, check=True)
        same(sorted(os.listdir(folder)), sorted(f"s{i}" for i in range(50)))
    finally:
        done.set()
        thread.join()
    mount.check()


def test_sums_are_told_beside_who_replaces_a_list_of_several_pages(box):
    server = resp.start(box)
    service = Service(server.connect())
    wide = "x" * 10000
    service.save_list("s", "m", [f'"word {wide}"'] * 150)
    box.mount(store=server.url())
    done = threading.Event()

    def change():
        for i in itertools.count():
            if done.is_set():
                break
            service.save_list("s", "m", [f'"word {i} {wide}"'] * (150 + i % 3))

    thread = threading.Thread(target=change)
    thread.start()
    try:
        for _ in range(rounds("SESSFS_STEPS", 6, 60)):
            for words in (["sessions", server.url()], ["stats", server.url()],
                          ["search", server.url(), "word"]):
                result = box.sessfs(*words)
                same((words[0], result.returncode, result.stderr), (words[0], 0, b""))
    finally:
        done.set()
        thread.join()


def test_a_full_server_takes_nothing_and_lets_go(box):
    server = resp.start(box, extra=["--maxmemory", "8mb", "--maxmemory-policy", "noeviction"])
    mount = box.mount(store=server.url())
    os.mkdir(mount.at("s"))
    write(mount.at("s", "a.jsonl"), b"1\n")
    error = 0
    for i in range(40):
        error = errno_of(write, mount.at("s", f"{i}.txt"), os.urandom(1 << 20))
        if error:
            break
    same(error, errno.ENOSPC)
    same(read(mount.at("s", "a.jsonl")), b"1\n")
    os.unlink(mount.at("s", "0.txt"))


def test_a_server_that_cannot_hold_a_store_is_refused_with_a_sentence(box):
    server = resp.start(box, extra=["--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"])
    result = box.sessfs("mount", server.url(), box.new_folder())
    assert result.returncode != 0 and b"deletes keys when it is full" in result.stderr, result
    result = box.sessfs("mount", "-o", "durable", server.url(evict="allowed"), box.new_folder())
    assert result.returncode != 0 and b"-o durable refuses" in result.stderr, result


def test_a_password_and_a_user_are_needed(box):
    server = resp.start(box)
    with server.connect() as client:
        said = box.sessfs("setup", "--dry-run", server.url(), check=True).stdout.decode()
        words = said.split("ACL SETUSER USER ")[1].split(";")[0].split()
        client("ACL", "SETUSER", "agent", "on", ">secret", *words)
        client("ACL", "SETUSER", "default", "resetpass", "on", ">other")
    passfile = os.path.join(server.path, "pass")
    write(passfile, b"secret\n")
    os.chmod(passfile, 0o600)
    result = box.sessfs("mount", server.url(), box.new_folder())
    assert result.returncode != 0 and b"password" in result.stderr, result
    mount = box.mount(store=server.url(user="agent", passfile=passfile))
    os.mkdir(mount.at("s"))
    write(mount.at("s", "a.json"), b"1")
    same(read(mount.at("s", "a.json")), b"1")
    other = box.mount(store=server.url(user="agent", passfile=passfile))
    append(other.at("s", "l.jsonl"), b"1\n")
    same(read(mount.at("s", "l.jsonl")), b"1\n")
    assert "NOPERM" not in mount.log() + other.log(), mount.log()


def test_tls_is_verified(box):
    server = resp.start(box, tls=True)
    place = f"rediss://127.0.0.1:{server.tls_port}/0"
    result = box.sessfs("mount", place, box.new_folder())
    assert result.returncode != 0 and b"not trusted" in result.stderr, result
    mount = box.mount(store=f"{place}?ca={server.ca}")
    os.mkdir(mount.at("s"))
    write(mount.at("s", "a.jsonl"), b"1\n" * 100000)
    same(read(mount.at("s", "a.jsonl")), b"1\n" * 100000)


# A program that does not ignore SIGPIPE, and uses the library.
PROGRAM = """
import ctypes, signal, sys
signal.signal(signal.SIGPIPE, signal.SIG_DFL)
library, store = ctypes.CDLL(sys.argv[1]), ctypes.c_void_p()
assert library.sessfs_open(sys.argv[2].encode(), None, 1, ctypes.byref(store)) == 0
assert library.sessfs_save(store, b"s", b"a", b"1", 1) == 0
print("saved", flush=True)
sys.stdin.readline()
print(-library.sessfs_save(store, b"s", b"a", b"2", 1))
library.sessfs_close(store)
"""


def test_a_server_with_tls_that_dies_does_not_end_a_program_of_the_library(box):
    server = resp.start(box, tls=True)
    library = os.path.join(os.environ["top_builddir"], ".libs", "libsessfs.so")
    if b"__asan_init" in read(library):
        raise harness.Skip("a program without sanitizers cannot load a library with them")
    place = f"rediss://127.0.0.1:{server.tls_port}/0?ca={server.ca}&timeout=1"
    program = subprocess.Popen([sys.executable, "-c", PROGRAM, library, place], text=True,
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    same(program.stdout.readline(), "saved\n")
    server.kill()
    said, _ = program.communicate("\n")
    same((program.returncode, said), (0, f"{errno.EIO}\n"))


def test_a_cluster_and_a_replica_are_refused(box):
    cluster = resp.start(box, extra=["--cluster-enabled", "yes"])
    result = box.sessfs("mount", cluster.url(), box.new_folder())
    assert result.returncode != 0 and b"is a cluster" in result.stderr, result
    master = resp.start(box, tcp=True)
    replica = resp.start(box, extra=["--replicaof", f"127.0.0.1 {master.port}"])
    result = box.sessfs("mount", replica.url(), box.new_folder())
    assert result.returncode != 0 and b"is a replica" in result.stderr, result


def test_a_sentinel_tells_where_the_server_is(box):
    server = resp.start(box, tcp=True)
    port = servers.free_port()
    path = os.path.join(server.path, "sentinel.conf")
    write(path, f"port {port}\nbind 127.0.0.1\nsentinel monitor agents 127.0.0.1 {server.port} 1\n"
          .encode())
    os.chmod(path, 0o666)
    os.chmod(server.path, 0o777)
    sentinel = resp.Sentinel(path, port)
    box.mounts.append(sentinel)
    place = f"redis://127.0.0.1:{port}/0?sentinel="
    result = box.sessfs("mount", place + "nobody", box.new_folder())
    assert result.returncode != 0 and b"does not know" in result.stderr, result
    mount = box.mount(store=place + "agents")
    os.mkdir(mount.at("s"))
    append(mount.at("s", "l.jsonl"), b"1\n")
    with server.connect() as client:
        same(client("LRANGE", PREFIX + "s:l:list", 0, -1), [b"1"])


def test_a_call_takes_one_round_trip(box):
    server = resp.start(box)
    proxy = servers.proxy(box, server)
    mount = box.mount(store=server.url(**proxy.words))
    os.mkdir(mount.at("s"))
    write(mount.at("s", "a.json"), b"[1]")
    with open(mount.at("s", "l.jsonl"), "ab", buffering=0) as file:
        file.write(b"0\n")
        with server.connect() as client:
            client("CONFIG", "RESETSTAT")
            for number in range(20):
                file.write(b"%d\n" % number)
            calls = resp.calls(client)
    assert calls <= 20 + 10, f"{calls} calls for 20 lines"  # and those of the mount's own threads
    for _ in range(3):
        read(mount.at("s", "a.json"))
    with server.connect() as client:
        client("CONFIG", "RESETSTAT")
        for _ in range(20):
            same(read(mount.at("s", "a.json")), b"[1]")
        calls = resp.calls(client)
    assert calls <= 20 + 10, f"{calls} calls for 20 reads"


def test_valkey_holds_a_store_as_well(box):
    server = resp.start(box, "valkey")
    mount = box.mount(store=server.url())
    os.mkdir(mount.at("s"))
    append(mount.at("s", "l.jsonl"), b"1\n")
    same(read(mount.at("s", "l.jsonl")), b"1\n")


if __name__ == "__main__":
    servers.main(globals())
