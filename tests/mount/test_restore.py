#!/usr/bin/python3 -B
# SPDX-License-Identifier: MIT
"""A restore that fails or is killed: the store is the old one with all of it, or the new one."""

import contextlib
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import time

import harness
from harness import HANG, INSERT, TABLE, Skip, append, eventually, need_root, read, same, tool, \
    write
from places import Place

ROUNDS = harness.rounds("SESSFS_KILL_ROUNDS", 5, 25)


class Left(Place):
    """A store that a killed mount has left, with a log, and a backup of an older state."""

    def __init__(self, box):
        super().__init__(box, True)
        os.mkdir(self.mount.at("s"))
        append(self.mount.at("s", "l.jsonl"), b"1\n")
        self.saved = box.new_path("saved")
        self.do("backup", self.store, self.saved)
        for number in range(2, 20):
            append(self.mount.at("s", "l.jsonl"), b"%d\n" % number)
        self.mount.kill9()
        assert os.path.getsize(self.store + "-wal") > 0, "there is no log"

    def rows(self):
        with contextlib.closing(sqlite3.connect(self.store, timeout=HANG)) as base:
            same(base.execute("PRAGMA integrity_check").fetchall(), [("ok",)], "integrity_check")
            found = base.execute(f"SELECT state_data FROM {TABLE} ORDER BY item_index").fetchall()
        return [int(row[0]) for row in found]


OLD, NEW = list(range(1, 20)), [1]


def test_one_that_cannot_replace_a_file_leaves_all_that_was_saved_in_it(box):
    need_root()
    harness.need_namespace()
    place = Left(box)
    script = 'mount --bind "$1" "$1" && "$2" restore --force "$3" "$1"'
    words = (place.store, box.program, place.saved)
    done = tool("unshare", "-m", "sh", "-c", script, "sh", *words, check=False)
    if b"permission" in done.stderr.lower():
        raise Skip("no mount namespace can be made here")
    same(done.returncode, 1, f"restore (it says {done.stderr})")
    assert b"mount of that single file" in done.stderr, done.stderr
    same(place.rows(), OLD, "rows")


def test_one_that_succeeds_leaves_nothing_of_the_old_store(box):
    place = Left(box)
    place.do("restore", "--force", place.saved, place.store)
    same([end for end in ("-wal", "-shm", "-held") if os.path.exists(place.store + end)], [], "")
    same(place.rows(), NEW, "rows")


def test_one_is_refused_while_another_program_writes(box):
    place = Left(box)
    with contextlib.closing(sqlite3.connect(place.store, timeout=HANG)) as base, base:
        base.execute(INSERT, ("s", "l", 19, "20"))
        place.do("restore", "--force", place.saved, place.store, status=1)
    same(place.rows(), [*OLD, 20], "rows of a store that somebody was writing to")


def test_one_that_is_killed_leaves_the_old_store_or_the_new_one(box):
    place = Left(box)
    kept = box.new_folder("kept")
    ends = ("", "-wal", "-shm", "-held", "-reserve")
    there = [end for end in ends if os.path.exists(place.store + end)]
    for end in there:
        shutil.copy(place.store + end, os.path.join(kept, "store" + end))
    begun = time.monotonic()
    place.do("restore", "--force", place.saved, place.store)
    takes = time.monotonic() - begun
    seen = set()
    for _ in range(ROUNDS):
        for end in ends:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(place.store + end)
        for end in there:
            shutil.copy(os.path.join(kept, "store" + end), place.store + end)
        command = [box.program, "restore", "--force", place.saved, place.store]
        process = subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        time.sleep(random.uniform(0, takes * 1.3))
        process.send_signal(signal.SIGKILL)
        process.wait()
        rows = place.rows()
        assert rows in (OLD, NEW), f"neither: {rows}"
        seen.add(len(rows))
    box.note(f"of {ROUNDS} kills both were seen" if len(seen) == 2 else f"only {seen} rows seen")


NUMBERS = ("application_id", "user_version", "auto_vacuum", "page_size")
ODD = [("s", "below", -5), (b"s", "k", 0), ("s", b"k", 0), ("s", "k", "first"), ("s", "k", 1.5)]


def test_rows_that_no_file_would_have_made_keep_no_store_from_being_backed_up(box):
    place = Left(box)
    with contextlib.closing(sqlite3.connect(place.store, timeout=HANG)) as base, base:
        base.executemany(INSERT, [(*row, "1") for row in ODD])
    copy, again = box.new_path("copy"), box.new_path("again")
    place.do("backup", place.store, copy)
    place.do("restore", copy, again)
    told = b"rows have a session_id or state_key that is not text"
    for store in (place.store, copy, again):
        with contextlib.closing(sqlite3.connect(store, timeout=HANG)) as base:
            count = base.execute(f"SELECT count(*) FROM {TABLE}").fetchone()[0]
        same(count, len(OLD) + len(ODD), "rows")
        done = box.sessfs("check", store)
        assert done.returncode == 1 and told in done.stdout, (store, done)


def numbers_of(store):
    with contextlib.closing(sqlite3.connect(store)) as base:
        return [base.execute(f"PRAGMA {name}").fetchone()[0] for name in NUMBERS]


def test_a_store_that_was_copied_as_sql_text_is_one_of_ours_and_shrinks(box):
    mount, session = box.session()
    write(os.path.join(session, "large"), os.urandom(4 << 20))
    append(os.path.join(session, "l.jsonl"), b"[1]\ntorn")
    mount.stop()
    copy = box.new_store()
    with contextlib.closing(sqlite3.connect(mount.store)) as base, \
            contextlib.closing(sqlite3.connect(copy)) as other:
        other.executescript("\n".join(base.iterdump()))
    mount = box.mount(copy, options=["history=0"])
    same(numbers_of(copy), numbers_of(box.mounts[0].store), f"{NUMBERS}")
    same(read(mount.at("s", "l.jsonl")), b"[1]\ntorn", "its bytes")
    before = os.stat(copy).st_size
    os.unlink(mount.at("s", "large"))
    eventually(lambda: os.stat(copy).st_size < before // 4, "what was deleted is given back")
    mount.stop()
    mount.check()


if __name__ == "__main__":
    harness.main(globals())
