#!/usr/bin/python3 -B
# SPDX-License-Identifier: MIT
"""Several mounts of one store, each with a daemon of its own.

What is closed on one is seen by who opens it on another; what is acknowledged on one is there when
it is killed; locks hold across them.

  SESSFS_ROUNDS  how often each race is run; default 60
  SESSFS_VISITS  how often a mount comes and goes; default 10
  SESSFS_SEED    of the random operations
  SESSFS_LOAD_SECONDS  how long two mounts work at full load in a soak; default 600
"""

import collections
import contextlib
import ctypes
import errno
import fcntl
import json
import mmap
import os
import random
import signal
import socket
import sqlite3
import stat
import subprocess
import sys
import threading
import time

import harness
from harness import (
    HANG,
    append,
    errno_of,
    eventually,
    mounts_below,
    read,
    same,
    same_trees,
    split_lines,
    tree,
    write,
)

ROUNDS = harness.rounds("SESSFS_ROUNDS", 12, 60)
ORDERS = "user.sessfs.orders"
PUNCH = 3  # FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE
TRASH = b"trash %d %d s" % (2**63 - 1, 7 * 86400 * 10**9)  # whenever it has changed
LOAD_SECONDS = harness.rounds("SESSFS_LOAD_SECONDS", 20, 600)
VISITS = harness.rounds("SESSFS_VISITS", 3, 10)
SEED = int(os.environ.get("SESSFS_SEED") or time.time_ns() % 1_000_000)


def several(box, count, **named):
    """So many mounts of a new store, with the session "s"."""
    first, _ = box.session(**named)
    return [first] + [box.mount(store=first.store, **named) for _ in range(count - 1)]


def at_rest(mounts):
    """All show the same tree, and the store is clean."""
    expected = tree(mounts[0].path)
    for mount in mounts[1:]:
        with contextlib.suppress(AssertionError):
            eventually(lambda at=mount.path: tree(at) == expected, "the same tree")
        same_trees(expected, tree(mount.path))
    mounts[0].check()


def run_each(count, code, *arguments):
    """Runs a Python program so many times at once; its first argument is its number."""
    procs = [
        subprocess.Popen([sys.executable, "-c", code, str(i), *map(str, arguments)])
        for i in range(count)
    ]
    same([proc.wait() for proc in procs], [0] * count, "exit statuses")


def save_in_place(path, data):
    write(path, data)


def save_by_rename(path, data):
    write(path + ".tmp", data)
    os.rename(path + ".tmp", path)


def save_by_unlink(path, data):
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    write(path, data)


SAVES = [save_in_place, save_by_rename, save_by_unlink]


def test_what_is_closed_on_one_is_seen_by_who_opens_it_on_another(box):
    mounts = several(box, 3)
    for number in range(ROUNDS):
        writer, reader = random.sample(mounts, 2)
        document = json.dumps({"number": number}).encode()
        save = SAVES[number % 2]
        for name in ("k.json", "note.txt"):
            save(writer.at("s", name), document)
            eventually(lambda at=reader.at("s", name): read(at) == document, name)
        save_in_place(writer.at("s", "k.json"), document + b" ")
        same(read(reader.at("s", "k.json")), document + b" ", "saved in place")
        append(writer.at("s", "l.jsonl"), document + b"\n")
        same(split_lines(read(reader.at("s", "l.jsonl")))[-1], document, "the last line")
        same(read(reader.at("s", "l.jsonl")).count(b"\n"), number + 1, "lines")
        new = f"new{number}.json"
        same(errno_of(os.stat, reader.at("s", new)), errno.ENOENT, "before it is there")
        write(writer.at("s", new), b"{}")
        same(read(reader.at("s", new)), b"{}", "a new file")
    at_rest(mounts)


def test_what_is_open_elsewhere_is_seen_within_the_tenth_of_a_second(box):
    one, two = several(box, 2)
    append(one.at("s", "l.jsonl"), b"0\n")
    with open(two.at("s", "l.jsonl"), "rb") as reader:
        reader.read()
        for number in range(1, 20):
            append(one.at("s", "l.jsonl"), b"%d\n" % number)
            seen = b""

            def more():
                nonlocal seen
                seen += reader.read()
                return seen == b"%d\n" % number

            box.seen("a line by tail -f", eventually(more, "the line"))
    same(len(os.listdir(two.at("s"))), 1, "files")


def test_an_ordinary_file_is_added_to_where_others_have_moved_its_end(box):
    """The kernel takes the end for where it was, and so puts the bytes into other pages."""
    one, two = several(box, 2)
    data = b"".join(b"%07d\n" % number for number in range(5000))
    for name, move in (
        ("longer", lambda path: append(path, b"b" * 50)),
        ("shorter", lambda path: os.truncate(path, 30)),
    ):
        path, there = one.at("s", name), two.at("s", name)
        log = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND)
        os.write(log, b"a" * 100)
        same(read(there), b"a" * 100, "there")
        move(there)
        expected = read(there) + data
        # Who opens anything has been told.
        write(one.at("s", "beside"), b"")
        os.write(log, data)
        eventually(lambda: os.pread(log, len(expected) + 1, 0) == expected, f"{name}: in its place")
        os.close(log)
        same(read(path), expected, f"{name}: by another descriptor")


def test_what_another_mount_writes_over_is_seen_by_who_wrote_it_himself(box):
    """Who only writes has pages in the kernel all the same, again after each change elsewhere."""
    one, two = several(box, 2)
    path, there = one.at("s", "f"), two.at("s", "f")
    write(path, b"")
    for flags in (os.O_WRONLY, os.O_RDWR):
        mine = os.open(path, flags)
        os.truncate(there, 100)
        os.pwrite(mine, b"a" * 8192, 0)
        other = os.open(there, os.O_WRONLY)
        os.pwrite(other, b"b" * 8192, 0)
        os.close(other)
        same(read(path), b"b" * 8192, "what was written elsewhere")
        os.close(mine)


def follow(reader, path, seen, by):
    """Whether it comes to have read all of a file, and asked its size."""
    whole = read(path)

    def caught_up():
        seen.extend(os.read(reader, 1 << 16))
        return bytes(seen) == whole and os.fstat(reader).st_size == len(whole)

    eventually(caught_up, by)


# Whole lines, also such as are not JSON; parts of lines that become one or two, or make another
# item of the last one.
PARTS = [
    *(b'{"a":1}\n', b"plain\n", b"\n", b'{"b"', b":2}\n", b'{"c":3}', b"\n", b"half", b" a\n"),
    *(b"1", b"2", b" \n", b'{"d":', b'{"e":5}\n', b'{"f":6}', b" no more\n", b"12", b"x", b"\n7\n"),
]


def test_whatever_is_added_elsewhere_is_seen_by_who_has_the_list_open(box):
    one, two = several(box, 2)
    path = one.at("s", "l.jsonl")
    write(path, b"")
    reader, often = (os.open(two.at("s", "l.jsonl"), os.O_RDONLY) for _ in range(2))
    writer, seen = os.open(path, os.O_WRONLY | os.O_APPEND), bytearray()
    for number, part in enumerate(PARTS * 6):
        if number % 3 == 0:  # by somebody who goes on, and syncs the part of a line
            os.write(writer, part)
            os.fsync(writer)
        else:
            append(path, part)
        follow(reader, path, seen, repr(part))
        if number % 4 == 0:
            os.pread(often, 10, 0)
        if number % 7 == 0:
            os.setxattr(path, "user.mine", b"%d" % number)
    for number in range(20):  # of which it hears at once
        append(path, PARTS[number % 5])
    follow(reader, path, seen, "several")
    follow(often, path, bytearray(), "who has read the beginning")
    with open(path, "rb+") as file:  # a save that only adds
        whole = file.read()
        file.write(b'{"saved":1}\nnot JSON\n')
    follow(reader, path, seen, "a save that adds")
    same(read(path), whole + b'{"saved":1}\nnot JSON\n', "what was saved")
    for fd in (reader, often, writer):
        os.close(fd)
    at_rest([one, two])


def test_who_was_stopped_or_has_lost_the_other_sees_what_was_added(box):
    """By read, mmap and sendfile on the descriptor that it has."""
    one, two = several(box, 2)
    path, there = one.at("s", "l.jsonl"), two.at("s", "l.jsonl")
    write(path, b"plain\n")
    with open(there, "rb", buffering=0) as file:
        reader, seen = file.fileno(), bytearray()
        follow(reader, path, seen, "what there was")
        os.kill(two.pid, signal.SIGSTOP)
        for part in PARTS:
            append(path, part)
        os.kill(two.pid, signal.SIGCONT)
        follow(reader, path, seen, "after it goes on")
        writer = os.open(path, os.O_WRONLY | os.O_APPEND)
        os.write(writer, b"torn")
        os.fsync(writer)
        os.write(writer, b" no more\nkept back")
        one.kill9()
        with contextlib.suppress(OSError):
            os.close(writer)
        append(there, b"8\n")
        follow(reader, there, seen, "behind who was killed")
        assert seen.endswith(b"torn no more\n8\n"), seen[-40:]
        with mmap.mmap(reader, 0, prot=mmap.PROT_READ) as pages:
            same(pages[:], bytes(seen), "mmap")
        ours, theirs = socket.socketpair()
        os.sendfile(ours.fileno(), reader, 0, len(seen))
        same(theirs.recv(len(seen), socket.MSG_WAITALL), bytes(seen), "sendfile")
        ours.close()
        theirs.close()
    two.check()


def test_an_attribute_that_is_set_elsewhere_changes_no_content(box):
    one, two = several(box, 2)
    path, there = one.at("s", "l.jsonl"), two.at("s", "l.jsonl")
    write(path, b"1\n2\n")
    reader, writer = os.open(there, os.O_RDONLY), os.open(there, os.O_WRONLY | os.O_TRUNC)
    same(os.read(reader, 1), b"1", "what was there")
    os.setxattr(path, "user.mine", b"1")
    eventually(lambda: os.listxattr(there) == ["user.mine"], "it is set there, too")
    os.close(writer)
    same((read(there), read(path)), (b"", b""), "what was emptied")
    append(path, b"3\n")
    eventually(lambda: read(there) == b"3\n", "a line behind it")
    os.close(reader)
    at_rest([one, two])


def test_who_reads_what_is_saved_elsewhere_goes_on_with_all_of_what_was_there(box):
    one, two = several(box, 2)
    path, there = one.at("s", "l.jsonl"), two.at("s", "l.jsonl")
    for old, new in ((b"1\n2\n", b"3\n4"), (b"5\n6", b"7\n8\n"), (b"torn", b"9\n"), (b"9\n", b"x")):
        write(path, old)
        eventually(lambda o=old: read(there) == o, "it is there")
        reader = os.open(there, os.O_RDONLY | os.O_DIRECT)
        seen = os.read(reader, 1)
        write(path, new)
        eventually(lambda n=new: read(there) == n, "the other sees it")
        same(seen + os.read(reader, 100), old, "what was there")
        os.close(reader)
    for _ in range(20):  # at once behind a line that is added, and a mode that is set
        write(path, b'{"a":1}\n{"b":2}\n')
        eventually(lambda: read(there) == b'{"a":1}\n{"b":2}\n', "it is there")
        reader = os.open(there, os.O_RDONLY | os.O_DIRECT)
        seen = os.read(reader, 1)
        append(path, b'{"c":3}')
        os.chmod(path, 0o600)
        write(path, b"[]\n")
        eventually(lambda: read(there) == b"[]\n", "the other sees it")
        rest = os.read(reader, 100)
        good = (b'{"a":1}\n{"b":2}\n', b'{"a":1}\n{"b":2}\n{"c":3}')
        assert seen + rest in good, seen + rest
        os.close(reader)
    at_rest([one, two])


def test_what_is_done_elsewhere_to_another_file_ends_no_save(box):
    one, two = several(box, 2)
    path, flags = one.at("s", "l.jsonl"), os.O_WRONLY | os.O_TRUNC | os.O_APPEND
    for other in (one, two):
        write(path, b"old\n")
        writer = os.open(path, flags)
        os.fsync(writer)
        write(other.at("s", "k.json"), b"1")
        os.write(writer, b"1\n")
        same((read(path), read(two.at("s", "l.jsonl"))), (b"", b""), "before it is closed")
        os.close(writer)
        same((read(path), read(two.at("s", "l.jsonl"))), (b"1\n", b"1\n"), "what was saved")
    at_rest([one, two])


def append_often(fd, times):
    """To an open list, so often that other mounts are told its times now and then."""
    for number in range(times):
        os.write(fd, b"%d\n" % number)


def test_times_of_appends_are_told_soon_and_by_a_close_or_an_unlock(box):
    one, two = several(box, 2)
    write(one.at("s", "l.jsonl"), b"")

    def told():
        return os.stat(one.at("s", "l.jsonl")).st_mtime_ns == os.stat(seen).st_mtime_ns

    seen = two.at("s", "l.jsonl")
    fd = os.open(one.at("s", "l.jsonl"), os.O_WRONLY | os.O_APPEND)
    append_often(fd, 100)
    eventually(told, "the time of the last append")
    fcntl.lockf(fd, fcntl.LOCK_EX)
    append_often(fd, 100)
    fcntl.lockf(fd, fcntl.LOCK_UN)
    with open(seen, "rb"):
        same(told(), True, "the time behind an unlock")
    append_often(fd, 100)
    os.close(fd)
    with open(seen, "rb"):
        same(told(), True, "the time behind a close")
    at_rest([one, two])


def test_times_that_one_sets_outlive_appends_of_another_before(box):
    one, two = several(box, 2)
    path = one.at("s", "l.jsonl")
    write(path, b"")
    for _ in range(10):
        fd = os.open(path, os.O_WRONLY | os.O_APPEND)
        append_often(fd, 40)
        os.utime(two.at("s", "l.jsonl"), ns=(10**9, 10**9))
        os.close(fd)
        with open(path, "rb"):
            same(os.stat(path).st_mtime_ns, 10**9, "the time that was set")
    at_rest([one, two])


def test_eight_appenders_on_eight_mounts_lose_and_mix_nothing(box):
    mounts = several(box, 8)
    code = """
import os, sys
number, lines, path = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3].split(":")
fd = os.open(path[number], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
for n in range(lines):
    os.write(fd, b'{"writer": %d, "n": %d}\\n' % (number, n))
os.close(fd)
"""
    run_each(8, code, 100, ":".join(mount.at("s", "l.jsonl") for mount in mounts))
    lines = [json.loads(line) for line in split_lines(read(mounts[3].at("s", "l.jsonl")))]
    for number in range(8):
        same(
            [line["n"] for line in lines if line["writer"] == number],
            list(range(100)),
            f"lines of writer {number}",
        )
    same(mounts[0].indexes("s", "l"), list(range(800)), "indexes")
    at_rest(mounts)


COUNTER = """
import fcntl, os, sys
number, rounds, paths, how = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3].split(":"), sys.argv[4]
for _ in range(rounds):
    with open(paths[number], "r+") as file:
        (fcntl.flock if how == "flock" else fcntl.lockf)(file, fcntl.LOCK_EX)
        value = int(file.read())
        file.seek(0)
        file.write(str(value + 1))
        file.flush()
        if how == "unlock":
            fcntl.lockf(file, fcntl.LOCK_UN)
"""


def test_what_is_added_to_an_ordinary_file_in_one_call_stays_together(box):
    mounts = several(box, 2)
    write(mounts[0].at("s", "log"), b"")
    code = """
import os, sys
path = sys.argv[2].split(":")[int(sys.argv[1])]
for _ in range(300):
    fd = os.open(path, os.O_WRONLY | os.O_APPEND)
    os.write(fd, sys.argv[1].encode() * 5000 + b"\\n")
    os.close(fd)
"""
    run_each(2, code, ":".join(mount.at("s", "log") for mount in mounts))
    for mount in mounts:
        lines = collections.Counter(split_lines(read(mount.at("s", "log"))))
        same(lines, {b"0" * 5000: 300, b"1" * 5000: 300}, "lines")


def test_a_counter_under_a_lock_is_exact(box):
    mounts, turns = several(box, 8), harness.rounds("SESSFS_TURNS", 8, 25)
    for how in ("flock", "close", "unlock"):
        for name in ("count.txt", "count.json"):
            write(mounts[0].at("s", name), b"0")
            paths = ":".join(mount.at("s", name) for mount in mounts)
            run_each(8, COUNTER, turns, paths, how)
            same(read(mounts[1].at("s", name)), b"%d" % (8 * turns), f"{name} with {how}")
    at_rest(mounts)


@contextlib.contextmanager
def untold(mount, folder):
    """Another mount has moved a directory, and nobody can find out where to."""
    node = os.stat(folder).st_ino
    with contextlib.closing(sqlite3.connect(mount.store, timeout=HANG)) as base:
        with base:
            base.execute("ALTER TABLE sessfs_entry RENAME TO elsewhere")
            base.execute("UPDATE sessfs_node SET entry = entry + 1 WHERE ino = ?", (node,))
            base.execute(
                "INSERT INTO sessfs_feed (n, mount, what, ino, flags, first_index)"
                " SELECT max(n) + 1, 0, 0, ?, 1, 0 FROM sessfs_feed",
                (node,),
            )
        yield
        with base:
            base.execute("ALTER TABLE elsewhere RENAME TO sessfs_entry")
            base.execute("UPDATE sessfs_node SET entry = entry - 1 WHERE ino = ?", (node,))


def test_who_cannot_know_what_others_have_changed_opens_and_locks_nothing(box):
    one, two = several(box, 2)
    path = two.at("s", "l.jsonl")
    os.mkdir(one.at("s", "d"))
    append(one.at("s", "l.jsonl"), b"1\n")
    same(read(path), b"1\n", "before")
    with open(path, "r+b") as file, open(path, "rb") as other:
        with untold(one, two.at("s", "d")):
            same(errno_of(open, path, "rb"), errno.EIO, "to open it")
            same(errno_of(os.chmod, path, 0o600), errno.EIO, "to change its mode")
            for lock in (fcntl.flock, fcntl.lockf):
                same(errno_of(lock, file, fcntl.LOCK_EX), errno.EIO, "to lock it")
                same(errno_of(lock, other, fcntl.LOCK_SH), errno.EIO, "to lock it shared")
        append(one.at("s", "l.jsonl"), b"2\n")
        for lock in (fcntl.flock, fcntl.lockf):
            lock(other, fcntl.LOCK_SH | fcntl.LOCK_NB)
            lock(other, fcntl.LOCK_UN)
            lock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        same(file.read(), b"1\n2\n", "afterwards")
    at_rest([one, two])


def test_a_lock_from_before_another_mount_came_keeps_it_out(box):
    one, session = box.session()
    path = os.path.join(session, "lock")
    write(path, b"")
    with open(path, "r+") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        two = box.mount(store=one.store)
        with open(two.at("s", "lock"), "r+") as other:
            same(errno_of(fcntl.flock, other, fcntl.LOCK_EX | fcntl.LOCK_NB), errno.EAGAIN, "flock")
            waiter = threading.Thread(target=fcntl.flock, args=(other, fcntl.LOCK_EX))
            waiter.start()
            time.sleep(0.2)
            assert waiter.is_alive(), "it has got a lock that another one holds"
            fcntl.flock(held, fcntl.LOCK_UN)
            waiter.join()
            assert not waiter.is_alive(), "it waits for a lock that nobody holds"
            same(errno_of(fcntl.flock, held, fcntl.LOCK_SH | fcntl.LOCK_NB), errno.EAGAIN, "back")


def test_the_lock_of_a_mount_that_was_killed_ends(box):
    one, two = several(box, 2)
    write(one.at("s", "lock"), b"")
    with open(two.at("s", "lock"), "r+") as other:
        held = open(one.at("s", "lock"), "r+")
        fcntl.lockf(held, fcntl.LOCK_EX)
        same(errno_of(fcntl.lockf, other, fcntl.LOCK_EX | fcntl.LOCK_NB), errno.EAGAIN, "alive")
        one.kill_only()
        fcntl.lockf(other, fcntl.LOCK_EX)
        with contextlib.suppress(OSError):
            held.close()
    while mounts_below(one.path):
        harness.detach(one.path)


def both(first, second):
    """Two calls at once; what each has raised."""
    seen = [0, 0]

    def run(number, call):
        seen[number] = errno_of(*call)

    threads = [
        threading.Thread(target=run, args=(number, call))
        for number, call in enumerate((first, second))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return seen


def test_races_of_names_have_one_winner(box):
    one, two = several(box, 2)
    for number in range(ROUNDS):
        base = f"s/{number}"
        for name in ("", "/a", "/b", "/c", "/d"):
            os.mkdir(one.at(base + name))
        write(one.at(base, "f"), b"text")
        eventually(lambda at=two.at(base): len(os.listdir(at)) == 5, "the names")
        seen = both(
            (os.rename, one.at(base, "a"), one.at(base, "b", "a")),
            (os.rename, two.at(base, "b"), two.at(base, "a", "b")),
        )
        assert sorted(map(bool, seen)) == [False, True], f"into each other: {seen}"
        seen = both((os.rmdir, one.at(base, "c")), (write, two.at(base, "c", "k.json"), b"{}"))
        assert sorted(map(bool, seen)) == [False, True], f"rmdir beside create: {seen}"
        seen = both((os.mkdir, one.at(base, "e")), (os.mkdir, two.at(base, "e")))
        same(sorted(seen), [0, errno.EEXIST], "mkdir twice")
        seen = both((os.chmod, one.at(base, "f"), 0o600), (append, two.at(base, "f"), b"!"))
        same(seen, [0, 0], "chmod beside an append")
        same((read(one.at(base, "f")), os.stat(two.at(base, "d")).st_nlink), (b"text!", 2), base)
        same(os.stat(one.at(base, "f")).st_mode & 0o777, 0o600, "mode")
        open_beside_unlink(one.at(base, "f"), two.at(base, "f"), b"text!")
        append_beside_rewriting(one.at("s", "l.jsonl"), two.at("s", "l.jsonl"), number)
        count = len(split_lines(read(two.at("s", "l.jsonl"))))
        same(one.indexes("s", "l"), list(range(count)), "indexes")
    at_rest([one, two])


def open_beside_unlink(path, beside, data):
    """Who has opened it reads it to its end; and it does not come back."""
    found = []
    seen = both((lambda: found.append(read(path)),), (os.unlink, beside))
    assert seen[1] == 0 and seen[0] in (0, errno.ENOENT), f"open beside unlink: {seen}"
    same(found, [] if seen[0] else [data], "what was read")
    eventually(lambda: errno_of(os.stat, path) == errno.ENOENT, "it is gone")
    same(errno_of(os.stat, beside), errno.ENOENT, "it is gone")


def append_beside_rewriting(path, beside, number):
    """The last lines stay, as when a list is compacted; a line that is appended meanwhile stands
    behind them, unless it was dropped as it had not been read."""
    append(path, b"%d\n" % number)
    lines = split_lines(read(path))
    kept = b"".join(line + b"\n" for line in lines[-3:])
    line = b'{"meanwhile": %d}\n' % number
    seen = both((append, path, line), (save_by_rename, beside, kept))
    same(seen, [0, 0], "an append beside rewriting")
    for at in (path, beside):
        eventually(lambda at=at: read(at) in (kept, kept + line), "the list")
    same(read(path), read(beside), "the list on both")


def test_a_name_that_was_moved_elsewhere_and_made_anew_leads_to_the_new_file(box):
    """Of two names of one file the kernel takes it that a rename has nothing to do."""
    one, two, three = several(box, 3)
    moves = [
        ("k.json.tmp", "k.json", os.rename, "k.json"),
        ("l.json", "k.json", os.rename, "k.json"),
        ("n.txt", "o.txt", os.rename, "o.txt"),
        ("n.txt", "o.txt", os.link, "p.txt"),
    ]
    for number in range(60):
        for old, new, move, to in moves:
            write(one.at("s", old), b'"old"')
            os.stat(three.at("s", old))
            os.rename(two.at("s", old), two.at("s", new))
            written = b'"%d"' % number
            write(one.at("s", old), written)
            move(three.at("s", old), three.at("s", to))
            same(read(one.at("s", to)), written, f"{to}, {move.__name__}")
            if move is os.link:
                os.unlink(one.at("s", old))
                os.unlink(one.at("s", to))
    at_rest([one, two, three])


def test_a_file_that_is_renamed_elsewhere_is_changed_by_who_has_it_open(box):
    one, two = several(box, 2)
    for old, new in (("k.json", "l.json"), ("n.txt", "o.txt")):
        write(one.at("s", old), b"1\n")
        os.stat(two.at("s", old))
        fd = os.open(one.at("s", old), os.O_RDWR)
        os.rename(two.at("s", old), two.at("s", new))
        os.fchmod(fd, 0o600)
        os.fchown(fd, os.getuid(), -1)
        os.setxattr(fd, "user.a", b"1")
        os.ftruncate(fd, 2)
        os.utime(fd, (1, 1))
        same(os.fstat(fd).st_mode & 0o777, 0o600, new)
        os.close(fd)
        eventually(lambda at=two.at("s", new): os.stat(at).st_mtime == 1, new)


def test_a_file_that_is_renamed_elsewhere_is_linked_by_who_has_it_open(box):
    one, two = several(box, 2)
    with open(one.at("s", "a"), "wb"):
        os.rename(two.at("s", "a"), two.at("s", "b"))
        eventually(lambda: os.listdir(one.at("s")) == ["b"], "the new name")
        os.link(one.at("s", "b"), one.at("s", "c"))
    same(sorted(os.listdir(two.at("s"))), ["b", "c"], "names")


def test_room_is_punched_by_who_has_a_file_open_that_is_renamed_elsewhere(box):
    """To the kernel it is another file by its new name."""
    one, two = several(box, 2)
    path = one.at("s", "b")
    punch = ctypes.CDLL(None, use_errno=True).fallocate
    punch.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_long, ctypes.c_long]
    with open(one.at("s", "a"), "wb", buffering=0) as file:
        file.write(b"a" * 8192)
        os.rename(two.at("s", "a"), two.at("s", "b"))
        eventually(lambda: os.listdir(one.at("s")) == ["b"], "the new name")
        same(read(path), b"a" * 8192, "by the new name")
        same(punch(file.fileno(), PUNCH, 0, 4096), 0, "fallocate")
        same(read(path), bytes(4096) + b"a" * 4096, "what is left")
        same(punch(file.fileno(), 0, 8192, 100), 0, "fallocate")
        same(os.path.getsize(path), 8292, "size")
        same(read(path)[8192:], bytes(100), "what is added")


def test_a_file_that_is_unlinked_elsewhere_goes_on_for_who_has_it_open(box):
    one, two = several(box, 2)
    for number in range(20):
        for name in ("note.txt", "k.json", "l.jsonl"):
            write(one.at("s", name), b'{"n": %d}\n' % number)
            with open(two.at("s", name), "rb") as file:
                os.unlink(one.at("s", name))
                if number % 2:
                    time.sleep(0.4)
                same(file.read(), b'{"n": %d}\n' % number, name)
            eventually(lambda at=two.at("s", name): errno_of(os.stat, at), "it is gone")
    for mount in (one, two):
        same(os.listdir(mount.at("s")), [], "names")
    eventually(
        lambda: one.sql("SELECT count(*) FROM sessfs_node WHERE nlink = 0") == [(0,)],
        "files without a name go",
    )
    one.check()


def test_a_secret_that_one_unlinks_stays_one_when_sql_touches_it(box):
    """Whichever mount is the first to take in what SQL has changed."""
    mounts = several(box, 3)
    for number in range(15):
        name = f"l{number}.jsonl"
        write(mounts[0].at("s", name), b'{"secret": 0}\n{"secret": 1}\n')
        os.chmod(mounts[0].at("s", name), 0o600)
        os.unlink(mounts[0].at("s", name))
        mounts[0].sql(
            f"UPDATE {harness.TABLE} SET state_data = '[]' WHERE state_key = ? AND item_index = 1",
            (f"l{number}",),
        )
        for mount in reversed(mounts):
            with contextlib.suppress(FileNotFoundError):
                same(oct(os.stat(mount.at("s", name)).st_mode & 0o777), "0o600", f"mode of {name}")
    at_rest(mounts)


def test_a_mount_that_is_killed_loses_nothing_that_was_acknowledged(box):
    mounts = several(box, 3)
    for number in range(6):
        victim = mounts[number % 3]
        done, stop = [], threading.Event()

        def work(mount=victim, done=done, stop=stop, number=number):
            with contextlib.suppress(OSError):
                for n in range(10_000):
                    if stop.is_set():
                        return
                    append(mount.at("s", "l.jsonl"), b"[%d, %d]\n" % (number, n))
                    done.append(n)

        thread = threading.Thread(target=work)
        thread.start()
        eventually(lambda done=done: len(done) > 20, "lines")
        victim.kill_only()
        stop.set()
        thread.join()
        while mounts_below(victim.path):
            harness.detach(victim.path)
        for mount in mounts:
            if mount is victim:
                continue
            seen = [json.loads(line) for line in split_lines(read(mount.at("s", "l.jsonl")))]
            seen = [n for which, n in seen if which == number]
            same(seen[: len(done)], done, "acknowledged lines")
            assert len(seen) <= len(done) + 1, "more than were written"
        victim.start()
    at_rest(mounts)


# Opens and reads a file as often as it can while its standard input is open, and says when it has
# begun; then prints what was wrong.
READER = """
import select, sys
path, size, wrong, count = sys.argv[1], int(sys.argv[2]), [], 0
while not select.select([sys.stdin], [], [], 0)[0]:
    try:
        with open(path, "rb", buffering=0) as file:
            data = file.read()
        if len(data) != size or len(set(data)) > 9:
            wrong.append(f"{len(data)} bytes")
    except OSError as error:
        wrong.append(str(error))
    count += 1
    if count == 1:
        print("begun", flush=True)
print(wrong[:3])
"""


def test_a_file_that_is_replaced_all_the_time_is_opened_and_whole(box):
    one, two = several(box, 2)
    for name in ("k.json", "l.jsonl", "o.txt"):
        path = one.at("s", name)

        def save(number):
            text = b'{"v": "' + b"abc"[number % 3 : number % 3 + 1] * 3000 + b'"}\n'
            write(path + ".tmp", text)
            os.rename(path + ".tmp", path)
            return len(text)

        size = save(0)
        same(len(read(two.at("s", name))), size, name)
        command = [sys.executable, "-c", READER, two.at("s", name), str(size)]
        readers = [
            subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            for _ in range(2)
        ]
        for reader in readers:
            same(reader.stdout.readline(), b"begun\n", "a reader has begun")
        for number in range(harness.rounds("SESSFS_ROUNDS", 300, 3000)):
            save(number)
        for reader in readers:
            reader.stdin.close()
            same(reader.stdout.read(), b"[]\n", f"what was wrong with {name}")
            same(reader.wait(), 0, "the reader's end")
    at_rest([one, two])


# Saves documents and adds a line for each, for some seconds; then prints how many.
SAVER = """
import os, sys, time
number, seconds, size = int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])
session = sys.argv[4 + number % 2]
lines = os.open(os.path.join(session, f"l{number}.jsonl"), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
until, count = time.monotonic() + seconds, 0
while time.monotonic() < until:
    with open(os.path.join(session, f"d{number}-{count % 8}.json"), "w") as file:
        file.write('["%s", %d]' % (str(count % 10) * size, count))
    os.write(lines, b"[%d]\\n" % count)
    count += 1
print(count)
"""


@harness.soak
def test_two_mounts_at_full_load_keep_the_log_small_and_lose_nothing(box):
    mounts = several(box, 2)
    paths = [mount.at("s") for mount in mounts]
    size, log = 400_000, mounts[0].store + "-wal"
    savers = [
        subprocess.Popen(
            [sys.executable, "-c", SAVER, str(i), str(LOAD_SECONDS), str(size), *paths],
            stdout=subprocess.PIPE,
        )
        for i in range(4)
    ]
    sizes, began, before = [], 0, 0
    while any(saver.poll() is None for saver in savers):
        with open(log, "rb") as file:
            head = file.read(24)[12:]
        began += head != before
        before = head
        sizes.append(os.path.getsize(log))
        time.sleep(0.05)
    counts = [int(saver.communicate()[0]) for saver in savers]
    box.note(f"{counts} saves; the log: {max(sizes) >> 20} MB, begun {began} times")
    assert max(sizes) < 256 << 20, f"the log had {max(sizes)} bytes"
    for i, count in enumerate(counts):
        lines = b"".join(b"[%d]\n" % line for line in range(count))
        same(read(os.path.join(paths[1 - i % 2], f"l{i}.jsonl")) == lines, True, f"lines of {i}")
        for last in range(max(count - 8, 0), count):
            text = b'["%s", %d]' % (b"%d" % (last % 10) * size, last)
            same(read(os.path.join(paths[0], f"d{i}-{last % 8}.json")) == text, True, f"{i} {last}")
    at_rest(mounts)


def test_a_mount_that_is_stopped_holds_up_nobody_and_catches_up(box):
    one, two, three = several(box, 3)
    write(three.at("s", "k.json"), b"0")
    os.kill(three.pid, signal.SIGSTOP)
    try:
        for number in range(200):
            append(one.at("s", "l.jsonl"), b"%d\n" % number)
            write(two.at("s", "k.json"), b"%d" % number)
        os.mkdir(two.at("s", "d"))
        same(read(one.at("s", "k.json")), b"199", "the document")
    finally:
        os.kill(three.pid, signal.SIGCONT)
    same(read(three.at("s", "k.json")), b"199", "the document, afterwards")
    same(len(split_lines(read(three.at("s", "l.jsonl")))), 200, "lines, afterwards")
    at_rest([one, two, three])


def test_mounts_come_and_go_while_one_works(box):
    one, session = box.session()
    path = os.path.join(session, "l.jsonl")
    written, stop = [], threading.Event()

    def work():
        while not stop.is_set():
            append(path, b"%d\n" % len(written))
            written.append(None)
            time.sleep(0.002)

    worker = threading.Thread(target=work)
    worker.start()
    try:
        for number in range(VISITS):
            same(errno_of(os.stat, one.at("s", f"n{number}")), errno.ENOENT, "not there yet")
            with contextlib.closing(Visit(box, one.store)) as visit:
                before = len(written)
                seen = split_lines(read(visit.mount.at("s", "l.jsonl")))
                assert len(seen) >= before, "a line is missing"
                write(visit.mount.at("s", f"n{number}"), b"text")
                same(read(one.at("s", f"n{number}")), b"text", "of who came")
            eventually(lambda n=number: f"n{n}" in os.listdir(session), "it is listed")
    finally:
        stop.set()
        worker.join()
    same(split_lines(read(path)), [b"%d" % n for n in range(len(written))], "lines")
    last = one.sql("SELECT max(n) FROM sessfs_feed")
    for _ in range(20):
        append(path, b"{}\n")
    same(one.sql("SELECT max(n) FROM sessfs_feed"), last, "notes for nobody")
    one.check()


def test_a_session_that_one_puts_into_the_trash_is_gone_on_all_and_comes_back(box):
    mounts = several(box, 3)
    for mount in mounts:
        os.mkdir(mount.at("s", os.path.basename(mount.path)))
        append(mount.at("s", "l.jsonl"), b"1\n")
    expected = tree(mounts[0].path)
    open_elsewhere = [open(mount.at("s", "l.jsonl"), "rb") for mount in mounts]
    for file in open_elsewhere:
        same(file.read(), b"1\n" * 3, "the list")
        file.close()
    inside = os.open(mounts[0].at("s"), os.O_RDONLY | os.O_DIRECTORY)
    for _ in range(3):
        box.sessfs("gc", "--older-than=0s", mounts[0].store, check=True)
        for mount in mounts:
            eventually(lambda at=mount.path: os.listdir(at) == [], "it is gone")
            same(errno_of(read, mount.at("s", "l.jsonl")), errno.ENOENT, "a file of it")
        box.sessfs("gc", "--undo", mounts[0].store, check=True)
        for mount in mounts:
            with contextlib.suppress(AssertionError):
                eventually(lambda at=mount.path: tree(at) == expected, "it is back")
            same_trees(expected, tree(mount.path))
        same(sorted(os.listdir(inside)), sorted(os.listdir(mounts[1].at("s"))), "names in it")
    os.close(inside)
    at_rest(mounts)


def test_a_session_stays_as_long_as_a_file_of_it_is_open_on_any_mount(box):
    mounts = several(box, 3)
    names = ("l.jsonl", "note.txt")
    expected = b""

    def collects(action):
        done = box.sessfs("gc", "--older-than=0s", mounts[0].store, check=True)
        return done.stdout.split()[:1] == [action]

    for number, mount in enumerate(mounts):
        with contextlib.ExitStack() as stack:
            files = [stack.enter_context(open(mount.at("s", n), "ab", 0)) for n in names]
            assert collects(b"keep"), f"it was removed under mount {number}"
            for file in files:
                file.write(b"%d\n" % number)
            expected += b"%d\n" % number
    for mount in mounts:
        same([read(mount.at("s", n)) for n in names], [expected] * 2, "what was written")
    with open(mounts[1].at("s", "note.txt"), "rb"):
        os.kill(mounts[1].pid, signal.SIGSTOP)
        try:
            assert collects(b"keep"), "it was removed under a mount that is stopped"
        finally:
            os.kill(mounts[1].pid, signal.SIGCONT)
    with open(mounts[2].at("s", "note.txt"), "rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
    assert collects(b"keep"), "it was removed under a mapping"
    same(mapped[:], expected, "what is mapped")
    mapped.close()
    eventually(lambda: collects(b"remove"), "it is removed")
    box.sessfs("gc", "--undo", mounts[0].store, check=True)
    for mount in mounts:
        eventually(lambda at=mount.path: os.listdir(at) == ["s"], "it is back")
        same([read(mount.at("s", n)) for n in names], [expected] * 2, "what is back")
    at_rest(mounts)


def test_no_line_is_lost_when_its_session_goes_and_comes_back(box):
    mounts = several(box, 3)
    names = ("l.jsonl", "note.txt", "d/k.jsonl", "d/o")
    writers, removed = 2 * len(names), 0
    written, failed, stop = [[] for _ in range(writers)], [], threading.Event()
    os.mkdir(mounts[0].at("s", "d"))
    for name in names:
        write(mounts[0].at("s", name), b"")

    def work(number, done):
        path = mounts[number % len(mounts)].at("s", names[number % len(names)])
        took = 0
        while not stop.is_set():
            # On a slow machine, too, there are moments in which none has its file open.
            time.sleep(random.random() * (0.02 + 10 * took))
            began = time.monotonic()
            try:
                with os.fdopen(os.open(path, os.O_WRONLY | os.O_APPEND), "wb", 0) as file:
                    for _ in range(random.randrange(1, 4)):
                        file.write(b"[%d,%d]\n" % (number, len(done)))
                        done.append(b"[%d,%d]" % (number, len(done)))
            except OSError as error:  # it is not there
                if error.errno not in (errno.ENOENT, errno.ESTALE):
                    failed.append(error)
            took = time.monotonic() - began

    threads = [threading.Thread(target=work, args=each) for each in enumerate(written)]
    for thread in threads:
        thread.start()
    try:
        while removed < ROUNDS // 2:
            if errno_of(os.setxattr, random.choice(mounts).path, ORDERS, TRASH) == 0:
                removed += 1
                box.sessfs("gc", "--undo", mounts[0].store, check=True)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    same(failed, [], "errors")
    for number, done in enumerate(written):
        lines = split_lines(read(mounts[0].at("s", names[number % len(names)])))
        same([n for n in lines if n.startswith(b"[%d," % number)], done, "what was acknowledged")
    at_rest(mounts)


def test_of_sessions_of_one_name_the_one_that_was_removed_last_comes_back(box):
    one, two = several(box, 2)
    write(two.at("s", "k.json"), b"0")
    eventually(lambda: errno_of(os.setxattr, two.path, ORDERS, TRASH) == 0, "it goes")
    eventually(lambda: errno_of(os.mkdir, one.at("s")) == 0, "there is another one")
    write(one.at("s", "k.json"), b"1")
    eventually(lambda: errno_of(os.setxattr, one.path, ORDERS, TRASH) == 0, "it goes")
    box.sessfs("gc", "--undo", one.store, "s", check=True)
    same(read(one.at("s", "k.json")), b"1", "what came back")
    at_rest([one, two])


class Visit:
    """A mount for a while."""

    def __init__(self, box, store):
        self.mount = box.mount(store=store)

    def close(self):
        self.mount.stop()


def test_sql_beside_several_mounts_is_taken_in_once(box):
    mounts = several(box, 3)
    write(mounts[1].at("s", "l.jsonl"), b"{}\n")
    for number in range(1, 20):
        mounts[0].insert("s", "l", number, '{"sql": %d}' % number)
        mounts[0].insert(f"t{number}", "k", 0, "{}")
        for mount in mounts:
            same(len(split_lines(read(mount.at("s", "l.jsonl")))), number + 1, "lines")
            same(read(mount.at(f"t{number}", "k.json")), b"{}", "a new session")
    at_rest(mounts)


class Model:
    """The same operations on a mount and in a directory of the machine's own."""

    dirs = ["s", "t", "s/d", "s/d/e", "t/d"]
    files = ["k.json", "l.jsonl", "note.txt"]

    def __init__(self, mounts, beside):
        self.rng = random.Random(SEED)
        self.mounts = mounts
        self.beside = beside

    def a_dir(self):
        return self.rng.choice(self.dirs)

    def a_file(self):
        return self.a_dir() + "/" + self.rng.choice(self.files)

    def an_operation(self):
        kind = self.rng.randrange(9)
        number = self.rng.randrange(1000)
        if kind < 3:
            return append, (self.a_file(),), (b"[%d]\n" % number,)
        if kind == 3:
            return self.rng.choice(SAVES), (self.a_file(),), (b'{"n": %d}\n' % number,)
        if kind == 4:
            return os.mkdir, (self.a_dir(),), ()
        if kind == 5:
            return os.rmdir, (self.a_dir(),), ()
        if kind == 6:
            return os.unlink, (self.a_file(),), ()
        if kind == 7:
            return os.chmod, (self.a_file(),), (self.rng.choice([0o600, 0o644]),)
        pick = self.a_file if self.rng.random() < 0.7 else self.a_dir
        return os.rename, (pick(), pick()), ()

    def step(self):
        call, paths, rest = self.an_operation()
        mount = self.rng.choice(self.mounts)
        there = errno_of(call, *(mount.at(path) for path in paths), *rest)
        here = errno_of(call, *(os.path.join(self.beside, path) for path in paths), *rest)
        same(there, here, f"{call.__name__} {paths}, seed {SEED}")
        # Names that were moved or removed elsewhere are known a little later.
        for path in paths:
            wanted = self.look(os.path.join(self.beside, path))
            for at in (mount.at(path) for mount in self.mounts):
                eventually(lambda at=at: self.look(at) == wanted, f"{path}, seed {SEED}")

    def look(self, path):
        try:
            mode = os.lstat(path).st_mode
            return mode, read(path) if stat.S_ISREG(mode) else None
        except FileNotFoundError:
            return None


def test_random_operations_on_any_of_four_are_as_on_a_disk(box):
    mounts = several(box, 4)
    beside = box.new_folder()
    os.mkdir(os.path.join(beside, "s"))
    box.note(f"seed {SEED}")
    model = Model(mounts, beside)
    for number in range(ROUNDS * 5):
        model.step()
        if number % 50 == 49:
            expected = {
                path: (entry["type"], entry["mode"], entry.get("bytes"))
                for path, entry in tree(beside).items()
                if path
            }
            for mount in mounts:

                def shown(mount=mount):
                    return {
                        path: (entry["type"], entry["mode"], entry.get("bytes"))
                        for path, entry in tree(mount.path).items()
                        if path
                    }

                eventually(lambda: shown() == expected, f"the tree, seed {SEED}")
    at_rest(mounts)


def test_mounts_that_come_at_once_find_each_other(box):
    """One makes the store; on one folder there is one mount."""
    for _ in range(3):
        store = box.new_path("store") + ".db"
        folders = [box.new_folder("mnt") for _ in range(5)]
        places = [*folders, folders[0]]
        racers = [
            subprocess.Popen([box.program, "mount", store, place], stderr=subprocess.DEVNULL)
            for place in places
        ]
        ended = [racer.wait() for racer in racers]
        try:
            same(ended[1:5], [0] * 4, "exit statuses")
            same(sorted((ended[0], ended[5])), [0, 1], "on one folder")
            same([len(mounts_below(folder)) for folder in folders], [1] * 5, "mounts")
            os.mkdir(os.path.join(folders[0], "s"))
            for number, folder in enumerate(folders):
                append(os.path.join(folder, "s", "l.jsonl"), b"%d\n" % number)
            for folder in folders:
                same(read(os.path.join(folder, "s", "l.jsonl")), b"0\n1\n2\n3\n4\n", folder)
        finally:
            for folder in folders:
                box.sessfs("umount", folder)
        same(box.sessfs("check", store).returncode, 0, "check")
        same(os.path.exists(store + "-mounts"), False, "the file of who is there")


def test_a_mount_that_cannot_find_the_others_is_refused(box):
    one, _ = box.session()
    os.rename(one.store + "-mounts", one.store + "-other")
    done = box.sessfs("mount", one.store, box.new_folder("mnt"))
    same(done.returncode, 1, "exit status")
    assert b"in use" in done.stderr, done.stderr
    os.rename(one.store + "-other", one.store + "-mounts")
    box.mount(store=one.store)


def test_who_wants_a_store_alone_is_refused_and_keeps_others_out(box):
    one, _ = box.session()
    done = box.sessfs("mount", "-o", "exclusive", one.store, box.new_folder("mnt"))
    same(done.returncode, 1, "exit status beside another mount")
    assert b"in use" in done.stderr, done.stderr
    hard = box.new_path("hard")
    os.link(one.store, hard)
    done = box.sessfs("mount", hard, box.new_folder("mnt"))
    same(done.returncode, 1, "exit status under another name")
    assert b"in use" in done.stderr, done.stderr
    one.stop()
    os.unlink(hard)
    one.options = ["exclusive"]
    one.start()
    done = box.sessfs("mount", one.store, box.new_folder("mnt"))
    same(done.returncode, 1, "exit status beside one that is alone")
    assert b"in use" in done.stderr, done.stderr


def test_files_that_another_mount_replaces_can_always_be_opened(box):
    """It is replaced, unlinked and made again all the time: whoever opens it finds one or none."""
    mount, session = box.session()
    other = box.mount(mount.store)
    path, there = os.path.join(session, "l.jsonl"), other.at("s", "l.jsonl")
    over = threading.Event()
    counts, wrong = collections.Counter(), []

    def again_and_again(what, deed):
        while not over.is_set():
            try:
                deed()
                counts[what] += 1
            except FileNotFoundError:
                pass
            except OSError as error:
                wrong.append(f"{what}: {error}")

    opens = {"appends": lambda: append(there, b"[0]\n"), "reads": lambda: read(there)}
    threads = [threading.Thread(target=again_and_again, args=item) for item in opens.items()]
    for thread in threads:
        thread.start()
    for number in range(harness.rounds("SESSFS_SAVES", 200, 600)):
        write(path, b"[%d]\n" % number)
        os.unlink(path)
        write(path, b"[%d]\n" % number)
        write(path + ".tmp", b"[%d]\n" % number)
        os.rename(path + ".tmp", path)
    over.set()
    for thread in threads:
        thread.join()
    same(wrong, [], f"none of {dict(counts)} has failed")
    same(min(counts.values()) > 20, True, f"there are enough of each: {dict(counts)}")


if __name__ == "__main__":
    harness.main(globals())
