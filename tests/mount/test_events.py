#!/usr/bin/python3 -B
# SPDX-License-Identifier: MIT
"""Following what happens: @as=events.jsonl."""

import contextlib
import errno
import functools
import json
import os
import select
import signal
import sqlite3
import subprocess
import sys
import threading
import time

import harness
from harness import HANG, TABLE, append, errno_of, eventually, read, same, tool, write

STREAM = "@as=events.jsonl"
MEMBERS = ["seq", "time", "session", "key", "path", "what", "first", "count", "items", "size", "by"]


class Follower:
    """Somebody who reads a stream, whenever he is asked what he was told."""

    def __init__(self, path, since=None):
        name = STREAM if since is None else f"@as=events,since={since}.jsonl"
        self.fd = os.open(os.path.join(path, name), os.O_RDONLY | os.O_NONBLOCK)
        self.data = b""
        self.events = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.close(self.fd)

    def take(self):
        while True:
            try:
                data = os.read(self.fd, 1 << 16)
            except BlockingIOError:
                return
            assert data, "a stream has no end"
            self.data += data
            *lines, self.data = self.data.split(b"\n")
            for line in lines:
                event = json.loads(line)
                same([name for name in event if name != "from"], MEMBERS, "members")
                assert not self.events or event["seq"] > self.events[-1]["seq"], "rising numbers"
                self.events.append(event)

    def has(self, count):
        self.take()
        return len(self.events) >= count

    def until(self, count, what="events"):
        try:
            eventually(lambda: self.has(count), what)
        except AssertionError as error:
            raise AssertionError(f"{error}: {self.events}")
        return self.events

    def short(self, count):
        """So many, and no more: ["append demo/a.jsonl 0+1=1 8", "rename b<a", ...]."""
        self.until(count)
        time.sleep(0.1)
        self.take()
        told, self.events = self.events, []
        return [short(event) for event in told]


def short(event):
    words = event["what"] + " " + str(event["path"])
    if "from" in event:
        words += "<" + event["from"]
    if event["first"] is not None:
        words += f" {event['first']}+{event['count']}"
    if event["items"] is not None:
        words += f"={event['items']}"
    if event["size"] is not None:
        words += f" {event['size']}"
    if event["by"] != "mount":
        words += f" by {event['by']}"
    return words


# What is told


def test_a_line_says_what_has_happened(box):
    mount, session = box.session("demo")
    append(os.path.join(session, "messages.jsonl"), b"[1]\n")
    before = time.time()
    with Follower(mount.path) as follower:
        append(os.path.join(session, "messages.jsonl"), b"[2]\n[3]\n")
        event = follower.until(1)[0]
    stamp = time.strptime(event.pop("time")[:19], "%Y-%m-%dT%H:%M:%S")
    assert abs(time.mktime(stamp) - time.timezone - before) < 60, "the time is that of the change"
    assert 0 < event.pop("seq") < 1 << 53, "a number that doubles have exactly"
    expected = {"session": "demo", "key": "messages", "path": "demo/messages.jsonl"}
    expected |= {"what": "append", "first": 1, "count": 2, "items": 3, "size": 12, "by": "mount"}
    same(event, expected, "the event")


def test_appends_in_every_way(box):
    mount, session = box.session()
    path = os.path.join(session, "l.jsonl")
    with Follower(session) as follower:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.write(fd, b"[1]\n")
        os.write(fd, b"[2]\n[3")
        os.write(fd, b"]\n")
        os.write(fd, b"no json\n")
        os.write(fd, b"[4")
        same(
            follower.short(5),
            [
                "save s/l.jsonl=0 0",
                "append s/l.jsonl 0+1=1 4",
                "append s/l.jsonl 1+1=2 8",
                "append s/l.jsonl 2+1=3 12",
                "append s/l.jsonl 3+0=3 20",
            ],
            "what is whole",
        )
        os.close(fd)
        same(follower.short(1), ["append s/l.jsonl 3+0=3 22"], "at the close")
        append(path, b"]\n")
        same(follower.short(1), ["append s/l.jsonl 3+1=4 24"], "what completes a line")
        append(path, b"[5]")
        append(path, b"\n")
        same(
            follower.short(2),
            ["append s/l.jsonl 4+1=5 27", "append s/l.jsonl 4+1=5 28"],
            "the newline of a row",
        )
        again = os.path.join(session, "k.jsonl")
        append(again, b"[1]\n")
        write(again, read(again) + b"[2]\n")
        same(follower.short(3)[2], "append s/k.jsonl 1+1=2 8", "a save that only adds")


def test_saves_in_every_way(box):
    mount, session = box.session()
    list_, single = os.path.join(session, "l.jsonl"), os.path.join(session, "d.json")
    other = os.path.join(session, "t.tmp")
    write(list_, b"[1]\n[2]\n")
    write(single, b"[1]")
    with Follower(session) as follower:
        write(list_, b"[3]\n")
        write(single, b"[12]")
        same(follower.short(2), ["save s/l.jsonl=1 4", "save s/d.json 4"], "by truncating")
        with open(single, "r+b") as file:
            file.write(b"[3")
        os.truncate(list_, 0)
        same(follower.short(2), ["save s/d.json 4", "save s/l.jsonl=0 0"], "in place")
        write(other, b"[7]\n[8]\n")
        os.rename(other, list_)
        same(
            follower.short(3),
            ["save s/t.tmp 0", "append s/t.tmp 8", "save s/l.jsonl<s/t.tmp=2 8"],
            "by a rename over it",
        )
        os.unlink(single)
        write(single, b"[123]")
        told = follower.short(3)
        same(told[0], "remove s/d.json", "unlinked")
        same(told[-1], "save s/d.json 5", "and written again")
        write(os.path.join(session, "new.json"), b"{}")
        same(follower.short(2), ["save s/new.json 0", "save s/new.json 2"], "made")
        version = os.getxattr(list_, "user.sessfs.version").decode()
        write(os.path.join(session, f"@first=1,if={version}", "l.jsonl"), b"[70]\n[71]\n")
        with open(os.path.join(session, "@items=0-0", "l.jsonl"), "r+b") as file:
            file.read()
            os.pwrite(file.fileno(), b"[99]\n", 0)
            os.fsync(file.fileno())
            same(
                follower.short(2),
                ["save s/l.jsonl=3 14", "save s/l.jsonl=3 14"],
                "through views, by a close and a sync",
            )
        if errno_of(os.open, session, os.O_TMPFILE | os.O_WRONLY) != errno.EOPNOTSUPP:
            fd = os.open(session, os.O_TMPFILE | os.O_WRONLY)
            os.write(fd, b"[1]\n")
            os.link(f"/proc/self/fd/{fd}", os.path.join(session, "n.jsonl"))
            os.close(fd)
            same(follower.short(1), ["save s/n.jsonl=1 4"], "made without a name")


def test_names_of_all_kinds(box):
    mount, session = box.session()
    sub = os.path.join(session, "sub")
    with Follower(mount.path) as follower:
        os.mkdir(mount.at("two"))
        os.mkdir(sub)
        append(os.path.join(sub, "l.jsonl"), b"[1]\n")
        os.symlink("nowhere", os.path.join(session, "link"))
        os.mkfifo(os.path.join(session, "fifo"))
        told = follower.short(6)
        same(told[:2], ["save two", "save s/sub"], "directories")
        same(told[3:], ["append s/sub/l.jsonl 0+1=1 4", "save s/link", "save s/fifo"], "others")
        os.rename(sub, os.path.join(session, "sub2"))
        os.rename(session, mount.at("three"))
        same(follower.short(2), ["rename s/sub2<s/sub", "rename three<s"], "one event a rename")
        append(mount.at("three", "sub2", "l.jsonl"), b"[1]\n")
        same(follower.short(1), ["append three/sub2/l.jsonl 1+1=2 8"], "by the new path")
        os.rename(mount.at("three", "sub2", "l.jsonl"), mount.at("two", "k.jsonl"))
        same(follower.short(1), ["rename two/k.jsonl<three/sub2/l.jsonl=2 8"], "to elsewhere")
        tool("rm", "-r", mount.at("three"))
        same(
            sorted(follower.short(4)),
            ["remove three", "remove three/fifo", "remove three/link", "remove three/sub2"],
            "rm -r",
        )
        write(mount.at("two", "a.txt"), b"a")
        os.link(mount.at("two", "a.txt"), mount.at("two", "b.txt"))
        same(follower.short(3)[-1], "save two/b.txt 1", "one more name")


def test_ordinary_files_and_attributes(box):
    mount, session = box.session()
    path, state = os.path.join(session, "a.txt"), os.path.join(session, "l.jsonl")
    append(state, b"[1]\n")
    with Follower(mount.path) as follower:
        write(path, b"one")
        append(path, b"two")
        append(path, b"three")
        write(path, b"four")
        os.truncate(path, 1)
        same(
            follower.short(7),
            [
                "save s/a.txt 0",
                "append s/a.txt 3",
                "append s/a.txt 6",
                "append s/a.txt 11",
                "save s/a.txt 0",
                "append s/a.txt 4",
                "save s/a.txt 1",
            ],
            "content",
        )
        os.chmod(path, 0o600)
        os.utime(state, (1, 2))
        os.setxattr(session, "user.x", b"1")
        os.removexattr(session, "user.x")
        os.chmod(mount.path, 0o711)
        same(
            follower.short(5),
            ["attr s/a.txt 1", "attr s/l.jsonl=1 4", "attr s", "attr s", "attr "],
            "attributes",
        )
        event = [follower.events, append(path, b"x"), follower.until(1)][0][0]
        same((event["session"], event["key"]), ("s", None), "of an ordinary file in a session")


def test_only_what_is_at_or_below_the_directory(box):
    mount, session = box.session()
    for name in ("s/a", "s/b", "s/ab", "t"):
        os.mkdir(mount.at(*name.split("/")))
    with Follower(mount.at("s", "a")) as follower:
        for name in ("s/b/l.jsonl", "s/ab/l.jsonl", "s/l.jsonl", "t/l.jsonl", "s/a/l.jsonl"):
            append(mount.at(*name.split("/")), b"[1]\n")
        told = follower.short(2)
        same(told, ["save s/a/l.jsonl=0 0", "append s/a/l.jsonl 0+1=1 4"], "below")
        os.chmod(mount.at("s", "a"), 0o700)
        os.rename(mount.at("s", "a", "l.jsonl"), mount.at("t", "k.jsonl"))
        os.rename(mount.at("s", "b", "l.jsonl"), mount.at("s", "a", "m.jsonl"))
        same(
            follower.short(3),
            [
                "attr s/a",
                "rename t/k.jsonl<s/a/l.jsonl=1 4",
                "rename s/a/m.jsonl<s/b/l.jsonl=1 4",
            ],
            "at it, out of it and into it",
        )
        os.rename(session, mount.at("u"))
        append(mount.at("u", "a", "m.jsonl"), b"[2]\n")
        same(follower.short(2), ["rename u<s", "append u/a/m.jsonl 1+1=2 8"], "it moves")
        os.mkdir(mount.at("s"))
        os.mkdir(mount.at("s", "a"))
        os.rename(mount.at("t"), mount.at("u", "a", "t"))
        same(follower.short(1), ["rename u/a/t<t"], "not what has its old path")


def test_whatever_a_name_holds(box):
    mount, session = box.session()
    with Follower(mount.path) as follower:
        for name in (b'"\\\n', b"\xff\xfe", "ü€😀".encode()):
            append(os.path.join(os.fsencode(session), name), b"x")
            os.unlink(os.path.join(os.fsencode(session), name))
        told = [event["path"] for event in follower.until(9)[2::3]]
    same(told, ['s/"\\\n', "s/%FF%FE", "s/ü€😀"], "paths")


# What the writer of the next test does: the kernel knows each name before it comes, and before it
# goes.
WRITER = """
import os, sys
session, rounds = sys.argv[1], int(sys.argv[2])
sys.stdin.read()
fd = os.open(session + "/l.jsonl", os.O_WRONLY | os.O_APPEND)
for number in range(rounds):
    name = f"{session}/n-{number}"
    os.path.exists(name)
    os.mkdir(name)
    os.write(fd, b"[%d]\\n" % number)
    os.chmod(name, 0o700)
    with open(f"{session}/a-{number % 7}.txt", "ab", buffering=0) as file:
        file.write(b"x" * 100)
    if number % 2:
        os.stat(f"{session}/m-{number - 1}")
        os.rmdir(f"{session}/m-{number - 1}")
    else:
        os.rename(name, f"{session}/m-{number}")
"""


def follow(mount, fd, rounds):
    """What is told of the writer and is not true."""
    wrong = []
    last = ""
    # Who waits is told some milliseconds later; so nobody does, and each line is looked at alone.
    while last != f"s/n-{rounds - 2}":
        try:
            lines = os.read(fd, 65536).splitlines()
        except BlockingIOError:
            continue
        for event in map(json.loads, lines):
            if not is_true(mount, event):
                wrong.append(event)
            if event["what"] == "rename":
                last = event["from"]
    return wrong


def test_what_is_told_can_be_read(box):
    mount, session = box.session()
    path = os.path.join(session, "l.jsonl")
    rounds = 400
    append(path, b"")
    fd = os.open(os.path.join(session, STREAM), os.O_RDONLY | os.O_NONBLOCK)
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, session, str(rounds)], stdin=subprocess.DEVNULL
    )
    wrong = follow(mount, fd, rounds)
    os.close(fd)
    same(writer.wait(), 0, "the writer")
    same(wrong[:3], [], "what was told and not there")


def test_what_is_told_can_be_read_before_its_request_returns(box):
    processors = sorted(os.sched_getaffinity(0))
    if len(processors) < 2:
        raise harness.Skip("needs two processors")
    mount, session = box.session()
    append(os.path.join(session, "l.jsonl"), b"")
    fd = os.open(os.path.join(session, STREAM), os.O_RDONLY | os.O_NONBLOCK)
    # The writer hears late of what it has done: another process has its processor.
    slow = ["taskset", "-c", str(processors[0])]
    rounds = 20
    writer = subprocess.Popen(
        slow + ["nice", "-n", "15", sys.executable, "-c", WRITER, session, str(rounds)],
        stdin=subprocess.PIPE,
    )
    time.sleep(0.5)
    hog = subprocess.Popen(slow + [sys.executable, "-c", "while True: pass"])
    writer.stdin.close()
    os.sched_setaffinity(0, processors[1:])
    try:
        same(follow(mount, fd, rounds)[:3], [], "what was told and not there")
        same(writer.wait(), 0, "the writer")
    finally:
        hog.kill()
        hog.wait()
        os.close(fd)


def is_true(mount, event):
    what, name = event["what"], mount.at(event["path"])
    if what == "rename" and os.path.exists(mount.at(event["from"])):
        return False
    if what == "append" and name.endswith(".txt"):
        return True  # the kernel has the size when the write has returned
    if what == "append":
        return min(os.stat(name).st_size, len(read(name))) >= event["size"]
    if what == "attr":
        try:
            return oct(os.stat(name).st_mode) == oct(0o40700)
        except FileNotFoundError:
            return moved_on(name)
    if what == "remove":
        return not os.path.exists(name)
    return os.path.exists(name) or moved_on(name)


def moved_on(name):
    """What is even is renamed, and removed then."""
    time.sleep(0.01)
    number = int(name.rsplit("-", 1)[1].partition(".")[0])
    return number % 2 == 0 and not os.path.exists(name)


# What others do


def test_changes_by_sql(box):
    mount, session = box.session()
    append(os.path.join(session, "l.jsonl"), b"[1]\n")
    with Follower(mount.path) as follower:
        mount.insert("s", "l", 1, "[2]")
        same(follower.short(1), ["append s/l.jsonl 1+1=2 8 by sql"], "to a file that is known")
        mount.insert("q", "l", 0, "[1]")
        same(follower.short(2), ["save q by sql", "save q/l.json by sql"], "to none")
        mount.insert("q", "l", 1, "[2]")
        told = "save q/l.jsonl<q/l.json=2 8 by sql"
        same(follower.short(1), [told], "what becomes a list")
        mount.insert("q", "l", 2, "[3]")
        same(follower.short(1), ["append q/l.jsonl 2+1=3 12 by sql"], "that nobody has read")
        mount.sql(f"UPDATE {TABLE} SET state_data = '[12]' WHERE item_index = 1")
        same(
            sorted(follower.short(2)),
            ["save q/l.jsonl=3 13 by sql", "save s/l.jsonl=2 9 by sql"],
            "updates",
        )
        mount.sql(f"DELETE FROM {TABLE} WHERE session_id = 'q' AND item_index = 2")
        same(follower.short(1), ["save q/l.jsonl=2 9 by sql"], "a row is deleted")
        mount.sql(f"DELETE FROM {TABLE} WHERE session_id = 'q'")
        same(follower.short(2), ["remove q/l.jsonl by sql", "remove q by sql"], "all are")
        mount.insert("r", "a/b/d", 0, "{}")
        told = ["save r by sql", "save r/a by sql", "save r/a/b by sql", "save r/a/b/d.json by sql"]
        same(follower.short(4), told, "with directories")
        read(mount.at("r", "a", "b", "d.json"))
        mount.sql(f"UPDATE {TABLE} SET state_data = '[3]' WHERE session_id = 'r'")
        same(follower.short(1), ["save r/a/b/d.json 3 by sql"], "a document")
        event = [mount.insert("r", "a/b/k", 5, "{}"), follower.until(1)][1][0]
        same((event["session"], event["key"], event["items"]), ("r", "a/b/k", 6), "names")


def test_changes_by_another_mount(box):
    two, session = box.session()
    one = box.mount(two.store)
    path, single = os.path.join(session, "l.jsonl"), os.path.join(session, "d.json")
    other = os.path.join(session, "a.txt")
    append(path, b"[1]\n")
    with Follower(one.path) as follower:

        def told(count, expected, what):
            same(follower.short(count), [line + " by other mount" for line in expected], what)

        append(path, b"[2]\n[3]\n")
        told(1, ["append s/l.jsonl 1+2=3"], "an append")
        append(path, b"no json\n")
        told(1, ["save s/l.jsonl"], "what is no row")
        write(path, b"[4]\n")
        told(1, ["save s/l.jsonl=1"], "a save")
        write(single, b"[1]")
        told(2, ["save s/d.json", "save s/d.json"], "made and written")
        write(other, b"one")
        told(2, ["save s/a.txt", "save s/a.txt"], "an ordinary file")
        os.truncate(other, 9)
        told(1, ["save s/a.txt"], "with zeros behind it")
        os.truncate(other, 3)
        told(1, ["save s/a.txt"], "and without them")
        os.rename(other, single)
        told(1, ["save s/d.json<s/a.txt"], "a save by a rename")
        os.rename(single, os.path.join(session, "e.json"))
        told(1, ["rename s/e.json<s/d.json"], "a rename")
        os.mkdir(os.path.join(session, "sub"))
        os.rename(path, os.path.join(session, "sub", "l.jsonl"))
        told(2, ["save s/sub", "rename s/sub/l.jsonl<s/l.jsonl=1"], "into a directory")
        os.rename(session, two.at("t"))
        told(1, ["rename t<s"], "of a directory: one event")
        os.chmod(two.at("t", "e.json"), 0o600)
        os.utime(two.at("t", "e.json"), (1, 1))
        os.setxattr(two.at("t"), "user.x", b"1")
        told(3, ["attr t/e.json", "attr t/e.json", "attr t"], "attributes")
        os.unlink(two.at("t", "e.json"))
        told(1, ["remove t/e.json"], "unlinked")
        tool("rm", "-r", two.at("t"))
        told(3, ["remove t/sub/l.jsonl", "remove t/sub", "remove t"], "rm -r")
        append(one.at("own"), b"x")
        same(follower.short(2)[0], "save own 0", "beside its own")


def test_what_cannot_be_told_of_another_mount_is_lost(box):
    store = box.new_path("store") + ".db"
    with contextlib.closing(sqlite3.connect(store)) as base:
        base.execute("PRAGMA encoding = 'UTF-16'")
        base.execute(
            f"CREATE TABLE {TABLE} (session_id TEXT, state_key TEXT, item_index INTEGER,"
            " state_data TEXT, created_at TEXT, updated_at TEXT,"
            " PRIMARY KEY (session_id, state_key, item_index))"
        )
    for two, what in ((box.mount(), "deep"), (box.mount(store), "in another encoding")):
        one = box.mount(two.store)
        os.mkdir(two.at("s"))
        eventually(lambda: os.path.isdir(one.at("s")), "the session")
        path = two.at(*["s"] + ["d"] * 70)
        os.makedirs(path)
        same(os.listdir(one.at(*["s"] + ["d"] * 70)), [], "the directory")
        with Follower(one.path) as follower, Follower(one.at("s")) as below:
            write(os.path.join(path, "a.txt"), b"1")
            same({event["what"] for event in follower.until(1)}, {"lost"}, what)
            same({event["what"] for event in below.until(1)}, {"lost"}, what)
    with Follower(one.path) as follower:
        os.chmod(two.path, 0o711)
        same(follower.short(1), ["attr  by other mount"], "of the root")


def test_what_other_mounts_and_sql_append_is_told_once_and_in_order(box):
    two, session = box.session()
    one = box.mount(two.store)
    three = box.mount(two.store)
    path, count = os.path.join(session, "l.jsonl"), 200
    append(path, b"")
    append(os.path.join(session, "k.jsonl"), b"")
    with Follower(one.path) as follower:
        other = threading.Thread(
            target=lambda: [append(three.at("s", "k.jsonl"), b"[2]\n") for _ in range(count)]
        )
        other.start()
        for _ in range(count):
            append(path, b"[1]\n")
        other.join()
        for index in range(count, count + 100):
            two.insert("s", "l", index, "[3]")
        eventually(lambda: lasts(follower) == {"l": count + 100, "k": count}, "all are told")
        for key in "lk":
            mine = [event for event in follower.events if event["key"] == key]
            same({event["what"] for event in mine}, {"append"}, key)
            ends = [event["first"] + event["count"] for event in mine]
            same([event["first"] for event in mine], [0] + ends[:-1], f"{key}: no gap")


def lasts(follower):
    follower.take()
    return {event["key"]: event["items"] for event in follower.events if event["key"]}


def test_what_the_verbs_do(box):
    mount, session = box.session()
    append(os.path.join(session, "l.jsonl"), b"[1]\n")
    with Follower(mount.path) as follower:
        box.sessfs("append", mount.store, "s/l.jsonl", stdin=b"[2]\n", check=True)
        same(follower.short(1), ["append s/l.jsonl 1+1=2 8"], "append")
        box.sessfs("rm", "-r", mount.store, "s", check=True)
        same(follower.short(2), ["remove s/l.jsonl", "remove s"], "rm")
        box.sessfs("gc", "--undo", mount.store, check=True)
        same(follower.short(2), ["save s", "save s/l.jsonl=2 8"], "gc --undo of that")
        box.sessfs("rm", "-r", mount.store, "s", check=True)
        same(follower.short(2), ["remove s/l.jsonl", "remove s"], "rm")
        append(mount.at("t.txt"), b"x")
        os.mkdir(mount.at("u"))
        append(mount.at("u", "l.jsonl"), b"[1]\n")
        follower.short(5)
        box.sessfs("gc", "--older-than=0s", mount.store, check=True)
        same(follower.short(1), ["remove u"], "gc")
        box.sessfs("gc", "--undo", mount.store, "u", check=True)
        same(follower.short(1), ["save u"], "gc --undo")


POKED = "s/poked.jsonl"


class Command:
    """sessfs events, which follows by now: it has a stream of the mount open, or, where there is
    no mount, it tells of the file to which poke() appends."""

    def __init__(self, box, *arguments, poke=None):
        self.process = subprocess.Popen(
            [box.program, "events", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        if not poke:
            eventually(self.has_a_stream, "it follows")
            return
        while not select.select([self.process.stdout], [], [], 0.1)[0]:
            poke()

    def has_a_stream(self):
        folder = f"/proc/{self.process.pid}/fd"
        with contextlib.suppress(FileNotFoundError):
            return any("/@as=events" in os.readlink(f"{folder}/{fd}") for fd in os.listdir(folder))
        return False

    def lines(self, count):
        events = []
        while len(events) < count:
            line = self.process.stdout.readline()
            if not line:
                raise AssertionError(f"it has ended: {events} {self.process.communicate()}")
            event = json.loads(line)
            if event["path"] != POKED:
                events.append(event)
        return events

    def end(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        said = self.process.communicate()[1]
        return self.process.returncode, said


def test_the_command_prints_the_same(box):
    mount, session = box.session()
    os.mkdir(mount.at("t"))
    path = os.path.join(session, "l.jsonl")
    with Follower(mount.path) as follower:
        command, below = Command(box, mount.store), Command(box, mount.store, "s/")
        append(mount.at("t", "l.jsonl"), b"[1]\n")
        append(path, b"[1]\n")
        told = follower.until(4)
        same(command.lines(4), told, "all of it")
        same(below.lines(2), told[2:], "of a directory")
        since = Command(box, f"--since={told[1]['seq']}", mount.store)
        same(since.lines(2), told[2:], "from an event on")
        for each, number in ((command, signal.SIGINT), (below, signal.SIGTERM), (since, 9)):
            same(each.end(number), (-number, b""), "ended by a signal")
    for arguments in (["--since=x", mount.store], ["--since=-1", mount.store], []):
        done = box.sessfs("events", *arguments)
        same((done.returncode, done.stderr.count(b"--since takes")), (2, len(arguments) // 2),
             arguments)
    for path in ("nowhere", "s/l.jsonl"):
        same(box.sessfs("events", mount.store, path).returncode, 1, path)
    command = Command(box, mount.store)
    os.kill(mount.pid, signal.SIGTERM)
    same(command.process.wait(), 1, "the mount has ended")
    assert b"the mount has ended" in command.process.stderr.read()
    command.process.communicate()
    mount.wait_for_end()
    mount.forget()


def test_the_command_without_a_mount(box):
    mount, session = box.session()
    append(os.path.join(session, "l.jsonl"), b"[1]\n")
    append(mount.at(POKED), b"")
    mount.stop()
    poke = functools.partial(box.sessfs, "append", mount.store, POKED, stdin=b"[]\n")
    command = Command(box, mount.store, poke=poke)
    box.sessfs("append", mount.store, "s/l.jsonl", stdin=b"[2]\n", check=True)
    same(short(command.lines(1)[0]), "append s/l.jsonl 1+1=2 by other mount", "by a verb")
    mount.insert("s", "l", 2, "[3]")
    same(short(command.lines(1)[0])[:24], "append s/l.jsonl 2+1=3 1", "by SQL")
    mount.start()
    append(mount.at("s", "l.jsonl"), b"[4]\n")
    same(short(command.lines(1)[0]), "append s/l.jsonl 3+1=4 by other mount", "by a mount")
    same(command.end(), (-signal.SIGTERM, b""), "ended by a signal")
    command = Command(box, mount.store)
    command.process.stdout.close()
    same(command.process.wait(), 0, "nobody reads what it prints")
    command.process.stderr.close()


# Reading


def test_it_is_a_file_of_its_directorys_owner_and_is_not_listed(box):
    mount, session = box.session()
    status = os.stat(mount.at(STREAM))
    same(oct(status.st_mode), oct(0o100400), "mode")
    same(status.st_size, 0, "size")
    same(STREAM in os.listdir(mount.path), False, "listed")
    path = os.path.join(session, STREAM)
    for flags in (os.O_WRONLY, os.O_RDWR, os.O_WRONLY | os.O_APPEND, os.O_RDONLY | os.O_TRUNC):
        number = errno_of(os.open, path, flags)
        assert number in (errno.EROFS, errno.EACCES), f"flags {flags:o}: {number}"
    for call in (os.unlink, os.rmdir):
        assert errno_of(call, path) in (errno.EROFS, errno.ENOENT, errno.ENOTDIR), call
    assert errno_of(os.chmod, path, 0o644) in (errno.EROFS, errno.EPERM)
    assert errno_of(os.truncate, path, 0) in (errno.EROFS, errno.EACCES)
    with open(path, "rb", buffering=0) as file:
        same(errno_of(os.lseek, file.fileno(), 1, os.SEEK_SET), errno.ESPIPE, "seeking")
        same(errno_of(os.pread, file.fileno(), 1, 0), errno.ESPIPE, "pread")


def test_questions_that_are_wrong_or_within_others_are_not_there(box):
    mount, session = box.session()
    for name in (
        "@as=events",
        "@as=events,since=2026-01-01.jsonl",
        "@as=events,since=7d.jsonl",
        "@as=events,last=5.jsonl",
        "@last=5/@as=events.jsonl",
    ):
        same(errno_of(os.stat, os.path.join(session, *name.split("/"))), errno.ENOENT, name)


def is_reading(pid):
    """Whether the program has opened the stream, or has got it as its input, and waits."""
    with contextlib.suppress(OSError):
        streams = [os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")]
        with open(f"/proc/{pid}/wchan") as place:
            waits = place.read() in ("request_wait_answer", "0")
        return waits and any(STREAM in stream for stream in streams)
    return False


def test_a_read_waits_and_others_go_on(box):
    mount, session = box.session()
    command = ["head", "-n", "1"]
    many = []
    for _ in range(100):  # more than the daemon has threads
        with open(os.path.join(session, STREAM), "rb", buffering=0) as file:
            many.append(subprocess.Popen(command, stdin=file, stdout=subprocess.PIPE))
    for reader in many:
        eventually(lambda pid=reader.pid: is_reading(pid), "it reads")
    append(os.path.join(session, "l.jsonl"), b"[1]\n")
    same(read(os.path.join(session, "l.jsonl")), b"[1]\n", "read beside them")
    for reader in many:
        line = reader.communicate()[0].split(b"\n")[0]
        same(json.loads(line)["path"], "s/l.jsonl", "told")


def test_a_blocked_read_ends_with_a_signal(box):
    mount, session = box.session()
    path = os.path.join(session, STREAM)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGKILL):
        reader = subprocess.Popen(["cat", path], stdout=subprocess.DEVNULL)
        eventually(lambda: is_reading(reader.pid), "it reads")
        reader.send_signal(number)
        same(reader.wait(), -number, "ended")
    heard = []
    signal.signal(signal.SIGUSR1, lambda *_: heard.append(1) or interrupt())

    def interrupt():
        raise InterruptedError

    fd = os.open(path, os.O_RDONLY)
    try:
        threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGUSR1)).start()
        os.read(fd, 100)
    except InterruptedError:
        heard.append(2)
    same(heard, [1, 2], "the handler ran in the middle of the read")
    append(os.path.join(session, "l.jsonl"), b"[1]\n")
    same(json.loads(os.read(fd, 9999).split(b"\n")[0])["what"], "save", "and it goes on")
    os.close(fd)


def test_a_blocked_read_ends_with_the_mount(box):
    mount, session = box.session()
    reader = subprocess.Popen(
        ["cat", os.path.join(session, STREAM)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    poller = select.poll()
    fd = os.open(os.path.join(session, STREAM), os.O_RDONLY)
    poller.register(fd, select.POLLIN)
    eventually(lambda: is_reading(reader.pid), "it reads")
    os.kill(mount.pid, signal.SIGTERM)
    said = reader.communicate()[1]
    same(reader.returncode, 1, "cat fails")
    # The kernel says the second where the mount ends before it has begun with the read.
    ends = [os.strerror(error).encode() for error in (errno.ENOTCONN, errno.ECONNABORTED)]
    assert any(words in said for words in ends), said
    assert poller.poll(HANG * 1000), "who polls is told"
    os.close(fd)
    mount.wait_for_end()
    mount.forget()


def test_without_waiting(box):
    mount, session = box.session()
    with Follower(session) as follower:
        same(errno_of(os.read, follower.fd, 100), errno.EAGAIN, "nothing yet")
        append(os.path.join(session, "l.jsonl"), b"[1]\n")
        follower.until(2)
        same(errno_of(os.read, follower.fd, 100), errno.EAGAIN, "nothing more")


def test_who_polls_selects_or_uses_epoll_is_woken(box):
    mount, session = box.session()
    path = os.path.join(session, "l.jsonl")
    append(path, b"[0]\n")
    fd = os.open(os.path.join(session, STREAM), os.O_RDONLY)
    poll, epoll, edge = select.poll(), select.epoll(), select.epoll()
    poll.register(fd, select.POLLIN)
    epoll.register(fd, select.EPOLLIN)
    edge.register(fd, select.EPOLLIN | select.EPOLLET)
    waits = {
        "poll": lambda seconds: poll.poll(seconds * 1000),
        "epoll": epoll.poll,
        "epoll, by edges": edge.poll,
        "select": lambda seconds: select.select([fd], [], [], seconds)[0],
    }
    for name, wait in waits.items():
        wait(0)
        same(wait(0.05), [], f"{name}: nothing yet")
        timer = threading.Timer(0.1, append, (path, b"[1]\n"))
        timer.start()
        assert wait(HANG), f"{name}: not woken"
        timer.join()
        same(os.read(fd, 9999).count(b"\n"), 1, f"{name}: what is told")
    os.close(fd)


def test_reads_of_any_size(box):
    mount, session = box.session()
    path = os.path.join(session, "l.jsonl")
    small = os.open(os.path.join(session, STREAM), os.O_RDONLY | os.O_NONBLOCK)
    with Follower(session) as follower:
        for number in range(20):
            append(path, b"[%d]\n" % number)
        follower.until(21)
        data = b""
        while select.select([small], [], [], 0)[0]:
            data += os.read(small, 7)
        same([json.loads(line) for line in data.splitlines()], follower.events, "in parts")
    os.close(small)
    lines = []
    script = "while read -r line; do echo \"$line\"; done"
    reader = subprocess.Popen(
        ["sh", "-c", script], stdin=open(os.path.join(session, STREAM)), stdout=subprocess.PIPE
    )
    append(path, b"[1]\n")
    lines.append(json.loads(reader.stdout.readline()))
    reader.kill()
    reader.communicate()
    same(lines[0]["items"], 21, "by a shell")


# Going on


def test_who_names_an_event_goes_on_behind_it(box):
    mount, session = box.session()
    path = os.path.join(session, "l.jsonl")
    with Follower(session) as follower:
        for number in range(5):
            append(path, b"[%d]\n" % number)
        told = list(follower.until(6))
    append(path, b"[5]\n")
    with Follower(session, told[3]["seq"]) as follower:
        again = follower.until(3)
        same(again[:2], told[4:], "the same as before")
        same(short(again[2]), "append s/l.jsonl 5+1=6 24", "and what nobody has read")


def test_a_number_of_nobody_or_of_another_mount_is_lost(box):
    mount, session = box.session()
    path = os.path.join(session, "l.jsonl")
    with Follower(session) as follower:
        append(path, b"[1]\n")
        last = follower.until(2)[-1]["seq"]
    for since in (0, 1, last - 1000000, last + 1, (1 << 63) - 1):
        with Follower(session, since) as follower:
            same(short(follower.until(1)[0]), "lost None by None", f"since {since}")
    two = box.mount(mount.store)
    with Follower(two.at("s"), last) as follower:
        same(follower.until(1)[0]["what"], "lost", "of another mount")
    two.stop()
    mount.remount()
    with Follower(session, last) as follower:
        lost = follower.until(1)[0]
        same(lost["what"], "lost", "of an earlier one")
    append(path, b"[2]\n")
    with Follower(session, lost["seq"]) as follower:
        same(follower.short(1), ["append s/l.jsonl 1+1=2 8"], "behind that")


@harness.soak
def test_who_is_too_slow_loses_what_is_not_kept(box):
    mount, session = box.session()
    path = os.path.join(session, "l.jsonl")
    append(path, b"")
    with Follower(session) as slow, Follower(session) as quick:
        fd = os.open(path, os.O_WRONLY | os.O_APPEND)
        for number in range(66000):
            os.write(fd, b"[]\n")
            if number % 1000 == 0:
                quick.take()
        quick.until(66000)
        same({event["what"] for event in quick.events}, {"append"}, "who reads in time")
        slow.until(65537)
        same([event["what"] for event in slow.events[:2]], ["lost", "append"], "who does not")
        same(slow.events[1:], quick.events[-65536:], "goes on with what is kept")
        os.write(fd, b"[]\n")
        same(slow.until(65538)[-1], quick.until(66001)[-1], "and with what follows")
        os.close(fd)


# Many


def test_ten_readers_are_told_every_append_once_and_in_order(box):
    mount, session = box.session()
    writers, each, readers = 4, 400, 10
    paths = [os.path.join(session, f"l{number}.jsonl") for number in range(writers)]
    for path in paths:
        append(path, b"")
    told = [[] for _ in range(readers)]

    def follow(number):
        data = b""
        fd = fds[number]
        while sum(event["count"] for event in told[number]) < writers * each:
            data += os.read(fd, 4096)
            *lines, data = data.split(b"\n")
            told[number] += [json.loads(line) for line in lines]

    def work(path):
        fd = os.open(path, os.O_WRONLY | os.O_APPEND)
        for number in range(each // 2):
            os.write(fd, b"[%d]\n" % number)
        for number in range(each // 8):
            os.write(fd, b"[]\n" * 4)
        os.close(fd)

    fds = [os.open(os.path.join(session, STREAM), os.O_RDONLY) for _ in range(readers)]
    threads = [threading.Thread(target=follow, args=(n,), daemon=True) for n in range(readers)]
    for thread in threads:
        thread.start()
    processes = [threading.Thread(target=work, args=(path,)) for path in paths]
    for process in processes:
        process.start()
    for thread in processes + threads:
        thread.join()
        assert not thread.is_alive(), [sum(e["count"] for e in t) for t in told]
    for events in told:
        same(events, told[0], "each is told the same")
    for path in paths:
        mine = [event for event in told[0] if mount.at(event["path"]) == path]
        same([e["first"] for e in mine], [*range(each // 2), *range(each // 2, each, 4)], "first")
        same([e["count"] for e in mine], [1] * (each // 2) + [4] * (each // 8), "count")
        same(mine[-1]["size"], os.stat(path).st_size, "size")
    for fd in fds:
        os.close(fd)


def test_a_killed_reader_leaves_nothing(box):
    mount, session = box.session()

    def threads():
        return len(os.listdir(f"/proc/{mount.pid}/task"))

    append(os.path.join(session, "l.jsonl"), b"[1]\n")
    before = threads()
    for _ in range(3):
        readers = [
            subprocess.Popen(["cat", os.path.join(session, STREAM)], stdout=subprocess.DEVNULL)
            for _ in range(40)
        ]
        for reader in readers:
            eventually(lambda pid=reader.pid: is_reading(pid), "it reads")
        append(os.path.join(session, "l.jsonl"), b"[1]\n")
        for reader in readers:
            reader.kill()
        for reader in readers:
            reader.wait()
    append(os.path.join(session, "l.jsonl"), b"[1]\n")
    eventually(lambda: threads() <= before + 8, "threads end")
    mount.unmount()
    mount.wait_for_end()


if __name__ == "__main__":
    harness.main(globals())
