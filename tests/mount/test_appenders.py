#!/usr/bin/python3 -B
# SPDX-License-Identifier: MIT
"""Appenders at once, with buffers of any size, beside readers of every sort and a SQL client.

Every line arrives once, whole, in its writer's order, as a row and in the file; no reader ever sees
a mixed line, a NUL, or a size that is not the end of a line.

  SESSFS_LINES  how many lines each of the eight appenders writes; default 150
  SESSFS_SEED   of the lines
"""

import json
import os
import random
import sqlite3
import time

import crowd
import harness
from harness import HANG, INSERT, TABLE, put, read, same, write

LINES = harness.rounds("SESSFS_LINES", 25, 150)
SEED = int(os.environ.get("SESSFS_SEED") or time.time_ns() % 1_000_000)

# The size of the buffer of each writer, and how it opens the file.
WRITERS = [(1, "held"), (100, "held"), (8192, "held"), (524288, "held")]
WRITERS += [(100, "held"), (8192, "again"), (524288, "again"), (8192, "held")]
SQL_WRITER = 99
TINY_LINES = 20  # of a writer that writes byte for byte


def line_of(writer, number, tiny=False):
    """50 bytes to 1 MB, most of them short."""
    rng = random.Random(f"{SEED} {writer} {number}")
    if tiny:
        size = 60
    elif rng.random() < 0.002:
        size = 1_000_000
    else:
        size = int(50 * (2 ** rng.uniform(0, 8)) if rng.random() < 0.1 else rng.randrange(50, 300))
    head = b'{"writer": %d, "number": %d, "pad": "' % (writer, number)
    return head + b"%02d" % (writer % 100) * max(0, (size - len(head) - 3) // 2) + b'"}\n'


def count_of(cut):
    return min(LINES, TINY_LINES) if cut == 1 else LINES


def append_lines(path, writer, cut, how):
    """Lines through a buffer, as stdio writes them; again: a new descriptor for some lines."""
    held = how == "held"
    fd, buffer = -1, b""
    for number in range(count_of(cut)):
        if fd < 0:
            fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        buffer += line_of(writer, number, tiny=cut == 1)
        while len(buffer) >= cut:
            put(fd, buffer[:cut])
            buffer = buffer[cut:]
        if not held and number % 10 == 9:
            put(fd, buffer)
            os.close(fd)
            fd, buffer = -1, b""
    if fd >= 0:
        put(fd, buffer)
        os.close(fd)


def append_by_sql(store, longest, go_on):
    """A SQL client that adds to the same list; nobody makes it wait for more than a while."""
    number = 0
    with sqlite3.connect(store, timeout=HANG, isolation_level=None) as database:
        while go_on():
            begin = time.monotonic()
            database.execute("BEGIN IMMEDIATE")
            index = database.execute(
                f"SELECT coalesce(max(item_index), -1) + 1 FROM {TABLE}"
                " WHERE session_id = 's' AND state_key = 'k'"
            ).fetchone()[0]
            line = line_of(SQL_WRITER, number, tiny=True).decode().rstrip("\n")
            database.execute(INSERT, ("s", "k", index, line))
            database.execute("COMMIT")
            number += 1
            note_longest(longest, time.monotonic() - begin)
            crowd.rest(begin)
    write(longest + ".count", b"%d" % number)


def note_longest(path, seconds):
    before = float(read(path)) if os.path.exists(path) else 0
    if seconds > before:
        write(path, b"%f" % seconds)


# Who looks


def judge(data):
    """Whole lines of one writer each, in each writer's order."""
    if data and not data.endswith(b"\n"):
        raise AssertionError(f"{len(data)} bytes end in {data[-60:]!r}")
    last = {}
    for line in data.splitlines():
        value = json.loads(line)
        writer, number = value["writer"], value["number"]
        if value["pad"].strip("%02d" % (writer % 100)):
            raise AssertionError(f"a mixed line of writer {writer}")
        if number != last.get(writer, -1) + 1:
            raise AssertionError(f"line {number} of writer {writer} after {last.get(writer)}")
        last[writer] = number
    return last


def look(way, path, go_on):
    while go_on():
        data = way(path)
        try:
            judge(data)
        except (AssertionError, ValueError, KeyError) as error:
            zeros = data.count(b"\0")
            raise AssertionError(
                f"{way.__name__}, {len(data)} bytes, {zeros} NULs: {error}"
            ) from error


def look_at_size(path, go_on):
    """The size is the end of a line whenever one looks."""
    with open(path, "rb", buffering=0) as file:
        while go_on():
            size = os.stat(path).st_size
            last = os.pread(file.fileno(), 1, size - 1) if size else b"\n"
            if last != b"\n":
                raise AssertionError(f"byte {size} is {last!r}, not the end of a line")


def crowd_appends(box, ways):
    print(f"# seed {SEED}")
    mount, session = box.session()
    path = os.path.join(session, "k.jsonl")
    write(path, b"")
    longest = box.new_path("longest")
    copy = box.new_path("tail")
    with crowd.tail_follows(path, copy):
        crowd.run_together(
            [(append_lines, path, n, *how) for n, how in enumerate(WRITERS)],
            [(look, way, path) for way in ways]
            + [(append_by_sql, mount.store, longest), (look_at_size, path)],
        )
    last = judge(read(path))
    expected = {n: count_of(cut) - 1 for n, (cut, _) in enumerate(WRITERS)}
    expected[SQL_WRITER] = int(read(longest + ".count")) - 1
    same({n: last.get(n, -1) for n in expected}, expected, "the last line of each writer")
    same(mount.rows("s", "k") == read(path).splitlines(), True, "rows are the lines")
    same(mount.indexes("s", "k"), list(range(len(read(path).splitlines()))), "their numbers")
    same(read(copy) == read(path), True, "what tail -f has seen")
    mount.check()
    box.note(f"a SQL client waited for {float(read(longest)) * 1000:.0f} ms at most")


def test_appenders_beside_readers_by_read_mmap_and_copy(box):
    crowd_appends(box, crowd.WAYS[::2])


def test_appenders_beside_readers_by_small_reads_private_mmap_and_cp(box):
    crowd_appends(box, crowd.WAYS[1::2])


# Clients cut the end of a transcript when they resume: to its last newline, or to its own size.


def append_and_note(path, log, writer):
    """Lines, each a write of its own; notes when each began and was answered."""
    with open(log, "w") as notes:
        for number in range(LINES):
            begun = time.monotonic()
            with open(path, "ab", buffering=0) as file:
                file.write(line_of(writer, number, tiny=True))
            print(number, begun, time.monotonic(), file=notes)
            time.sleep(0.001 * (number % 4))


def cut_and_note(path, log, go_on):
    """Cuts that take nothing away; notes when each began and ended."""
    rng = random.Random(f"{SEED} cutter")
    with open(log, "w") as notes:
        while go_on():
            begun = time.monotonic()
            fd = os.open(path, os.O_RDWR)
            size = os.fstat(fd).st_size
            if rng.random() < 0.5:
                data = os.pread(fd, 4096, max(0, size - 4096))
                size = max(0, size - 4096) + data.rfind(b"\n") + 1
            os.ftruncate(fd, size)
            time.sleep(rng.choice([0, 0.001, 0.01]))
            os.close(fd)
            print(begun, time.monotonic(), file=notes)
            time.sleep(rng.choice([0.001, 0.02, 0.05]))


def notes_of(log):
    with open(log) as notes:
        return [[float(word) for word in line.split()] for line in notes]


def test_a_tail_that_is_repaired_again_and_again_takes_no_line_of_others_along(box):
    _, session = box.session()
    path = os.path.join(session, "l.jsonl")
    logs = [box.new_path("log") for _ in range(3)]
    write(path, line_of(0, 0, tiny=True))
    crowd.run_together(
        [(append_and_note, path, logs[writer - 1], writer) for writer in (1, 2)],
        [(cut_and_note, path, logs[2])],
    )
    lines = read(path).splitlines(keepends=True)
    same(len(lines), len(set(lines)), "lines, each once")
    cuts = notes_of(logs[2])
    sure = 0
    for writer in (1, 2):
        for number, begun, answered in notes_of(logs[writer - 1]):
            # What was written in the middle of a cut may have been in what was cut.
            if any(first <= answered and last >= begun for first, last in cuts):
                continue
            sure += 1
            assert line_of(writer, int(number), tiny=True) in lines, (writer, number)
    box.note(f"{len(cuts)} cuts, {sure} lines outside of them")


harness.main(globals())
