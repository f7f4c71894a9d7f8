#!/usr/bin/python3 -B
# SPDX-License-Identifier: MIT
"""Files that processes map to share memory, and databases that need such memory, on two mounts of
one store: one mount at a time has them."""

import contextlib
import errno
import fcntl
import mmap
import os
import signal
import sqlite3
import subprocess
import sys

import harness
from harness import (
    HANG,
    detach,
    errno_of,
    eventually,
    mounts_below,
    read,
    same,
    write,
)

PAGE = mmap.PAGESIZE
JOURNALS = ("WAL", "DELETE") + (("TRUNCATE", "PERSIST") if harness.SOAK else ())
TURNS = harness.rounds("SESSFS_TURNS", 10, 100)


def two_mounts(box):
    """Two mounts of a new store, with a session "s"."""
    one, _ = box.session()
    return one, box.mount(store=one.store)


@contextlib.contextmanager
def mapping(path):
    """The file is mapped, shared and writable, and by no descriptor any more."""
    with open(path, "r+b") as file:
        memory = mmap.mmap(file.fileno(), PAGE)
    with contextlib.closing(memory):
        yield memory


def put(memory, data):
    memory[: len(data)] = data
    memory.flush()


def is_mapped(path):
    """Whether it can be opened, mapped and written."""
    try:
        with mapping(path) as memory:
            put(memory, b"new")
        return True
    except OSError as error:
        same(error.errno, errno.ENODEV, "why it is not")
        return False


def locks_of(path):
    """What each way to lock a file says."""
    with open(path, "rb") as reader:
        said = [
            errno_of(fcntl.flock, reader, fcntl.LOCK_SH | fcntl.LOCK_NB),
            errno_of(fcntl.lockf, reader, fcntl.LOCK_SH | fcntl.LOCK_NB, 10, 5),
        ]
    with open(path, "ab") as writer:
        return said + [
            errno_of(fcntl.flock, writer, fcntl.LOCK_EX | fcntl.LOCK_NB),
            errno_of(fcntl.lockf, writer, fcntl.LOCK_EX),
        ]


def test_a_file_is_mapped_for_writing_on_one_mount_at_a_time(box):
    one, two = two_mounts(box)
    here, there = one.at("s", "memory"), two.at("s", "memory")
    write(here, bytes(PAGE))
    with mapping(here) as memory:
        put(memory, b"one")
        with mapping(here) as again:  # another open file of this mount
            put(again, b"two")
        same(is_mapped(there), False, "while it is mapped elsewhere")
        same(locks_of(there), [errno.ENOLCK] * 4, "locks of it")
        same(locks_of(here), [0] * 4, "locks where it is mapped")
        same(read(there)[:3], b"two", "which can be read")
        with open(there, "ab") as file:
            file.write(b"!")
        same(read(here)[PAGE:], b"!", "and written")
        put(memory, b"six")
        os.truncate(there, PAGE)
    eventually(lambda: is_mapped(there), "it can be mapped when no mapping is left")
    same(locks_of(there), [0] * 4, "locks of it then")
    same(read(here)[:3], b"new", "what was written there")
    assert "is mapped as shared memory on another mount" in two.log(), two.log()
    one.check()


def test_pages_of_two_mounts_never_mix(box):
    one, two = two_mounts(box)
    write(one.at("s", "memory"), b"-" * PAGE)
    with mapping(one.at("s", "memory")) as first, mapping(two.at("s", "memory")) as second:
        put(first, b"first")
        same(errno_of(put, second, b"second"), errno.EIO, "to write it back")
        same(read(one.at("s", "memory")), b"first".ljust(PAGE, b"-"), "the file")
        put(first, b"third")
    same(read(two.at("s", "memory")), b"third".ljust(PAGE, b"-"), "the file in the end")
    one.check()


def test_a_mapping_goes_on_when_the_one_that_was_written_first_has_ended(box):
    one, two = two_mounts(box)
    here, there = one.at("s", "memory"), two.at("s", "memory")
    write(here, bytes(PAGE))
    with mapping(here) as memory:
        with mapping(here) as again:
            put(again, b"one")
        same(is_mapped(there), False, "while the other mapping is left")
        put(memory, b"two")
    same(read(there)[:3], b"two", "what was written last")


def test_a_mapping_from_before_another_mount_came_keeps_it_out(box):
    one, session = box.session()
    write(os.path.join(session, "memory"), bytes(PAGE))
    with mapping(os.path.join(session, "memory")) as memory:
        put(memory, b"one")
        two = box.mount(store=one.store)
        eventually(lambda: not is_mapped(two.at("s", "memory")), "it is kept out")
        put(memory, b"two")
    same(read(two.at("s", "memory"))[:3], b"two", "what was written")


def test_memory_is_known_by_its_name_before_a_page_is_written(box):
    one, two = two_mounts(box)
    for name in ("x.db-shm", "lock.mdb"):
        here, there = one.at("s", name), two.at("s", name)
        write(here, bytes(PAGE))
        with open(here, "r+b") as file:
            fcntl.lockf(file, fcntl.LOCK_SH, 1, 128)
            fcntl.lockf(file, fcntl.LOCK_UN, 1, 128)
            same(is_mapped(there), False, f"{name} elsewhere")
            same(locks_of(there), [errno.ENOLCK] * 4, f"locks of {name} elsewhere")
            same(locks_of(here), [0] * 4, f"locks of {name} here")
        eventually(lambda there=there: locks_of(there) == [0] * 4, f"{name} is free again")


# Databases.

TABLES = "CREATE TABLE IF NOT EXISTS message (id INTEGER PRIMARY KEY, data TEXT NOT NULL)"


def connect(path, journal="WAL"):
    base = sqlite3.connect(path, timeout=HANG, isolation_level=None)
    with contextlib.ExitStack() as stack:
        stack.callback(base.close)
        base.execute(f"PRAGMA journal_mode = {journal}")
        base.execute("PRAGMA synchronous = FULL")
        base.execute(TABLES)
        stack.pop_all()
    return base


def add(base, data="x" * 300):
    base.execute("BEGIN IMMEDIATE")
    base.execute("INSERT INTO message (data) VALUES (?)", (data,))
    base.execute("COMMIT")


def count(base):
    same(base.execute("PRAGMA integrity_check").fetchall(), [("ok",)], "integrity")
    return base.execute("SELECT count(*) FROM message").fetchone()[0]


def refused(path):
    """What opening the database and asking it says, without waiting for a lock."""
    try:
        with contextlib.closing(sqlite3.connect(path, timeout=0)) as base:
            base.execute("SELECT count(*) FROM message").fetchone()
    except sqlite3.Error as error:
        return str(error)
    return None


def test_a_database_with_a_log_belongs_to_one_mount_at_a_time(box):
    one, two = two_mounts(box)
    for name in ("opencode.db", "state_5.sqlite"):
        here, there = one.at("s", name), two.at("s", name)
        with contextlib.closing(connect(here)) as base:
            for _ in range(TURNS):
                add(base)
                assert refused(there), "it is used on two mounts"
            with contextlib.closing(connect(here)) as again:
                same(count(again), TURNS, "rows to another connection")
            add(base)
        eventually(lambda there=there: not refused(there), "it is free")
        with contextlib.closing(connect(there)) as base:
            same(count(base), TURNS + 1, "rows, read elsewhere")
            add(base)
            assert refused(here), "it is used on two mounts"
        eventually(lambda here=here: not refused(here), "it is free again")
        with contextlib.closing(connect(here)) as base:
            same(count(base), TURNS + 2, "rows in the end")
    one.check()


WRITER = """
import sqlite3, sys, time
done = failed = 0
while done < int(sys.argv[2]):
    try:
        base = sqlite3.connect(sys.argv[1], timeout=60, isolation_level=None)
        for _ in range(3):
            base.execute("BEGIN IMMEDIATE")
            base.execute("INSERT INTO message (data) VALUES (?)", ("y" * (done * 97 % 2000),))
            base.execute("COMMIT")
            done += 1
        print(done, flush=True)
        base.close()
    except sqlite3.Error as error:
        if "malformed" in str(error) or "not a database" in str(error):
            raise
        base.close()
        time.sleep(0.01)
"""


def start_writer(path, rows):
    """Adds so many rows and three at the most more; says after each three how many."""
    command = [sys.executable, "-c", WRITER, path, str(rows)]
    return subprocess.Popen(command, stdout=subprocess.PIPE)


def test_writers_on_two_mounts_lose_no_row(box):
    one, two = two_mounts(box)
    for journal in JOURNALS:
        name = f"{journal}.db"
        connect(one.at("s", name), journal).close()
        writers = [start_writer(mount.at("s", name), TURNS) for mount in (one, two, one, two)]
        done = [writer.communicate()[0].split()[-1] for writer in writers]
        same([writer.returncode for writer in writers], [0] * 4, f"exit statuses with {journal}")
        rows = sum(map(int, done))
        for mount in (one, two):
            eventually(lambda at=mount.at("s", name): not refused(at), "nobody is left")
            with contextlib.closing(connect(mount.at("s", name), journal)) as base:
                same(count(base), rows, f"rows with {journal}")
    one.check()


def test_verbs_neither_take_a_database_nor_are_kept_from_it(box):
    one, two = two_mounts(box)
    folder = box.new_folder()
    write(one.at("s", "l.jsonl"), b'{"role": "user", "content": "hello"}\n')
    store, rows = one.store, 0
    verbs = [
        ("ls", store, "s"),
        ("cat", store, "s/agent.db"),
        ("cat", store, "s/agent.db-shm"),
        ("append", store, "s/l.jsonl"),
        ("put", store, "s/n.json"),
        ("rm", store, "s/n.json"),
        ("sessions", store),
        ("stats", store),
        ("search", store, "hello"),
        ("show", store, "s"),
        ("check", store),
        ("mounts",),
        ("config", store),
        ("gc", "-n", store),
        ("export", store, os.path.join(folder, "out")),
        ("export", two.path, os.path.join(folder, "other")),
        ("backup", store, os.path.join(folder, "backup.db")),
    ]
    with contextlib.closing(connect(one.at("s", "agent.db"))) as base:
        for verb in verbs:
            stdin = b"{}\n" if verb[0] in ("append", "put") else b""
            with subprocess.Popen(
                [box.program, *verb],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
            ) as done:
                done.stdin.write(stdin)
                done.stdin.close()
                while done.poll() is None:
                    add(base)
                    rows += 1
                same(done.returncode, 0, f"{verb}: {done.stderr.read()}")
            add(base)
            rows += 1
        assert refused(two.at("s", "agent.db")), "it is used on two mounts"
        same(count(base), rows, "rows")
    one.check()


def test_a_database_of_a_process_or_a_mount_that_was_killed_goes_on_elsewhere(box):
    one, two = two_mounts(box)
    rows = 0
    connect(one.at("s", "agent.db")).close()
    for end in ("the process", "the mount"):
        with start_writer(one.at("s", "agent.db"), sys.maxsize) as writer:
            told = [int(writer.stdout.readline()) for _ in range(TURNS)][-1]
            if end == "the mount":
                one.kill_only()
            writer.kill()
        eventually(lambda: not refused(two.at("s", "agent.db")), f"it is free of {end}")
        with contextlib.closing(connect(two.at("s", "agent.db"))) as base:
            found = count(base)
        assert found >= rows + told, f"{found} rows, {rows} and {told} of {end} were committed"
        rows = found
    while mounts_below(one.path):
        detach(one.path)
    two.check()


if __name__ == "__main__":
    harness.main(globals())
