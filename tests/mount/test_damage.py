#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: MIT
"""Damaged stores: check says so, --repair rescues what is whole, a mount serves what it can.

SESSFS_DAMAGES=N damages a store in N ways (make soak-damage: thousands), SESSFS_TEST_SEED=N sets
where the random ones begin; a case that fails names its number and way, and
SESSFS_DAMAGE_CASE=NUMBER tries that one alone."""

import collections
import contextlib
import errno
import os
import random
import shutil
import stat
import subprocess
import time

import damage
from harness import (
    PATIENCE,
    SANITIZER_REPORT,
    TABLE,
    append,
    limit,
    main,
    read,
    same,
    tool,
    write,
)

SEED = int(os.environ.get("SESSFS_TEST_SEED", "20240611"))
DAMAGES = int(os.environ.get("SESSFS_DAMAGES", "52"))
ALONE = os.environ.get("SESSFS_DAMAGE_CASE")
SESSIONS = 220
BOUND = 60  # seconds that a command may take


WRITTEN = set()  # every row that there ever was: the session, the data


def line(chance, session, number, size):
    text = "".join(chance.choices("abcdefghijklmnopqrstuvwxyz ", k=size)).encode()
    row = b'{"n": %d, "of": "%s", "text": "%s"}' % (number, session.encode(), text)
    WRITTEN.add((session.encode(), row))
    return row + b"\n"


def fill_session(chance, path, session):
    os.mkdir(path)
    count = chance.choice((1, 2, 3, 8))
    sizes = [chance.choice((20, 60, 200)) for _ in range(count)]
    if session.endswith("7"):
        sizes += [5000, 30000]
    lines = b"".join(line(chance, session, i, size) for i, size in enumerate(sizes))
    write(f"{path}/messages.jsonl", lines)
    write(f"{path}/state.json", line(chance, session, -1, 40).strip())
    if session.endswith("3"):
        write(f"{path}/state.hash", b"0123abcd" + session.encode())
        WRITTEN.add((session.encode(), b"0123abcd" + session.encode()))
        os.mkdir(f"{path}/sub")
        write(f"{path}/sub/torn.jsonl", lines[:-5] + b"\nnot JSON\n")
        append(f"{path}/sub/torn.jsonl", line(chance, session, 50, 30))
    if session.endswith("5"):
        write(f"{path}/notes.txt", chance.randbytes(chance.choice((10, 3000, 40000))))
        os.setxattr(f"{path}/notes.txt", "user.of", session.encode())
    if session.endswith("9"):
        write(f"{path}/draft.json", b'{"half": ' + session.encode())


def change_session(chance, path, session):
    append(f"{path}/messages.jsonl", line(chance, session, 1000, 100))
    if session.endswith("2"):
        write(f"{path}/state.json", line(chance, session, -2, 300).strip())
    if session.endswith("4"):
        shutil.rmtree(path)
    if session.endswith("8"):
        write(f"{path}/new.jsonl", b"".join(line(chance, session, i, 90) for i in range(9)))


def build(box):
    """A store of some hundred sessions, of which the last changes are in the log only."""
    chance = random.Random(SEED)
    mount = box.mount(options=["pause=0"])
    names = [f"session {i}" for i in range(SESSIONS)]
    for name in names:
        fill_session(chance, mount.at(name), name)
    write(mount.at("at the root"), b"ordinary\n" * 99)
    os.symlink("nowhere", mount.at(names[0], "link"))
    mount.stop()
    mount.start()
    folder = box.new_folder("base")
    path = os.path.join(folder, "store.db")
    # Who reads an old state keeps what comes later in the log.
    with contextlib.closing(damage.connect(mount.store)) as reader:
        reader.execute("BEGIN")
        reader.execute(f"SELECT count(*) FROM {TABLE}").fetchall()
        for name in names[::3]:
            change_session(chance, mount.at(name), name)
        time.sleep(0.5)  # rows of what was unlinked go
        shutil.copyfile(mount.store, path)
        shutil.copyfile(mount.store + "-wal", path + "-wal")
    mount.stop()
    store = damage.Store(path, folder)
    assert len(store.interior) >= 1 and len(store.frames.offset) > 20, "the store is too simple"
    return store


def run(box, what, *arguments):
    """A command on a damaged store ends in time, with a status that it knows, and says why."""
    start = time.monotonic()
    try:
        done = tool(box.program, *arguments, check=False, seconds=BOUND)
    except subprocess.TimeoutExpired:
        raise AssertionError(f"{what} does not end") from None
    text = (done.stdout + done.stderr).decode("utf-8", "replace")
    report = SANITIZER_REPORT.search(text)
    if report or done.returncode not in (0, 1, 2):
        begin = report.start() if report else -2000
        raise AssertionError(f"{what} ended with {done.returncode}: {text[begin:][:3000]}")
    assert done.returncode == 0 or len(text.strip()) > 10, f"{what} does not say what is wrong"
    box.seen(what, time.monotonic() - start)
    return done.returncode, text


class Tally(collections.Counter):
    def __str__(self):
        return ", ".join(f"{self[name]} {name}" for name in sorted(self))


def strip_time(table, row):
    """Without what a repair may change of a node: that a file has holes now; times of a directory
    into which something was put back."""
    if table != "sessfs_node":
        return row
    row = list(row)
    row[2] &= ~8
    if stat.S_ISDIR(row[3]):
        row[8] = row[9] = None
    return tuple(row)


def compare_lists(store, base, spoilt, tally, way):
    """The rows: all of the pages that nothing has happened to, in their order, and no others."""
    rows = damage.read_rows(base, TABLE)
    seen = {(row[0], row[1], row[3]) for row in rows}
    hurt = 0
    for row, pages in zip(store.rows[TABLE], store.places[TABLE]):
        whole = not pages & spoilt
        hurt += not whole
        there = (row[0], row[1], row[3]) in seen
        tally["rows rescued"] += there
        tally["rows lost"] += not there
        assert there or not whole, f"{row[:3]} on the pages {pages} is lost"
    strange = [row for row in rows if (row[0], row[3]) not in WRITTEN]
    tally["rows altered"] += len(strange)
    allowed = 0 if way in damage.CLEAN else hurt
    assert len(strange) <= allowed, f"{len(strange)} rows are invented: {strange[0]}"
    last = {}
    for session, key, index, *_ in rows:
        same(index, last.get((session, key), -1) + 1, f"the next index of {session} {key}")
        last[session, key] = index
    order = {(row[0], row[1], row[3]): row[2] for row in store.rows[TABLE]}
    at = {}
    for session, key, _, data, *_ in rows:
        place = order.get((session, key, data), -1)
        if place >= 0:
            assert at.get((session, key), -1) < place, f"{session} {key} is out of order"
            at[session, key] = place


def compare_table(store, base, table, spoilt, tally, way):
    """Of the other tables: what is whole is there as it was."""
    seen = {strip_time(table, row) for row in damage.read_rows(base, table)}
    short = {row[0] for row in seen}
    for row, pages in zip(store.rows[table], store.places[table]):
        there = strip_time(table, row) in seen
        tally["other records rescued"] += there
        tally["other records lost"] += not there
        if there or pages & spoilt:
            continue
        if table == "sessfs_entry":  # its node is on another page
            continue
        if table == "sessfs_piece":  # moves with the rows of its list
            moved = {(piece[0], piece[3]) for piece in seen}
            assert (row[0], row[3]) in moved, f"the piece {row[:3]} is lost"
            continue
        if table == "sessfs_node" and row[11] is not None and row[12] is not None:
            # A state without rows goes; its rows may be on other pages.
            assert row[0] in short or spoilt, f"the node {row[0]} is lost"
            continue
        raise AssertionError(f"{table}: {row[:3]} on the pages {pages} is lost")


def try_case(box, store, folder, number, tally):
    chance = random.Random(SEED * 1000003 + number)
    names = list(damage.WAYS)
    way = names[number % len(names)]
    file, log = bytearray(store.file), bytearray(store.log)
    damage.WAYS[way](store, file, log, chance)
    path = os.path.join(folder, "store.db")
    new = os.path.join(folder, "new.db")
    file, log = bytes(file), bytes(log)
    spoilt = store.damaged_pages(file, log)
    store.put(path, file, log)
    for name in (new, new + "-wal", new + "-shm"):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)
    try:
        if number % 3 == 0:
            status, _ = run(box, "check", "check", path)
            tally[f"check said {status}"] += 1
            # SQLite makes its files beside the store, and takes an empty log away.
            store.put(path, file, log)
        status, text = run(box, "repair", "check", "--repair", path, new)
        same(read(path) == file, True, "the damaged store is as it was")
        if log or os.path.exists(path + "-wal"):
            same(read(path + "-wal") == log, True, "its log is as it was")
        same(os.path.exists(path + "-shm"), False, "something is made beside it")
        tally[f"repair said {status}"] += 1
        if status == 2:
            same(os.path.exists(new), False, "there is a new store in spite of it")
            assert len(spoilt) > store.pages // 2, f"nothing was rescued: {text}"
            return
        same(os.stat(new).st_mode & 0o777, 0o600, "the mode of the new store")
        with contextlib.closing(damage.connect(new)) as base:
            compare_lists(store, base, spoilt, tally, way)
            for table in list(damage.TABLES)[1:]:
                compare_table(store, base, table, spoilt, tally, way)
        if number % 5 == 0:
            clean, text = run(box, "check of the new store", "check", new)
            same((clean, text if clean else ""), (0, ""), "the new store is sound")
    except AssertionError as error:
        raise AssertionError(f"case {number} ({way}), seed {SEED}: {error}") from None


@limit(1200 if DAMAGES < 1000 else 36000)
def test_what_is_whole_of_a_damaged_store_is_rescued(box):
    box.note(f"SESSFS_TEST_SEED={SEED}")
    store = build(box)
    folder = box.new_folder("damaged")
    tally = Tally()
    for number in [int(ALONE)] if ALONE else range(DAMAGES):
        try_case(box, store, folder, number, tally)
    box.note(str(tally))


main(globals())
