#!/usr/bin/python3 -B
# SPDX-License-Identifier: MIT
"""Answers of verbs that come at the same time on a store that is not mounted: all of it, or no."""

import contextlib
import os
import sqlite3
import subprocess
import threading
import time

import harness
from harness import HANG, INSERT, same
from places import Place


COLUMNS = """session_id TEXT NOT NULL, state_key TEXT NOT NULL, item_index INTEGER NOT NULL,
    state_data TEXT NOT NULL, created_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP,
    updated_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP,
    PRIMARY KEY (session_id, state_key, item_index)"""


class Alone(Place):
    """A store without a mount, and SQL on it."""

    def __init__(self, box):
        super().__init__(box, False)

    def insert(self, sessions, key="k"):
        with contextlib.closing(sqlite3.connect(self.store, timeout=HANG)) as base, base:
            base.executemany(INSERT, [(session, key, 0, "1") for session in sessions])

    def at_once(self, *commands):
        """Runs them together; what each has printed.  All must succeed."""
        started = [
            subprocess.Popen(
                [self.box.program, *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE
            )
            for command in commands
        ]
        ended = [(process, *process.communicate()) for process in started]
        for command, (process, _, said) in zip(commands, ended):
            same(process.returncode, 0, f"{command} (it says {said})")
        return [printed for _, printed, _ in ended]


def test_a_verb_finds_what_sql_has_saved_while_another_takes_it_in(box):
    place = Alone(box)
    for number in range(25):
        session = f"s{number}"
        place.insert([session])
        cat = ("cat", place.store, f"{session}/k.json")
        same(place.at_once(cat, cat), [b"1", b"1"], "cat")


def test_listings_and_exports_that_come_together_are_each_whole(box):
    place = Alone(box)
    names = []
    for number in range(harness.rounds("SESSFS_ROUNDS", 1, 3)):
        more = [f"r{number}-{n}" for n in range(1000)]
        place.insert(more)
        names += more
        folders = [box.new_path("export") for _ in range(2)]
        commands = [("export", place.store, folder) for folder in folders]
        listing = place.at_once(*commands, ("ls", place.store), ("ls", place.store))[2:]
        for folder in folders:
            same(sorted(os.listdir(folder)), sorted(names), "sessions that were exported")
        for printed in listing:
            listed = [name.rstrip("/") for name in printed.decode().split()]
            same(sorted(listed), sorted(names), "sessions that were listed")


def test_who_may_not_take_in_what_sql_has_saved_gives_no_part_of_an_answer(box):
    harness.need_root()
    place = Alone(box)
    place.insert(["s"])
    os.chmod(box.folder, 0o755)
    os.chmod(place.store, 0o644)
    done = harness.tool(
        "setpriv", "--reuid=65534", "--clear-groups", box.program, "ls", place.store, check=False
    )
    same(done.returncode, 1, f"ls by another user (it says {done.stderr})")
    assert b"this command cannot make them" in done.stderr, done.stderr


def test_a_restore_waits_for_verbs_that_read(box):
    place = Alone(box)
    place.insert(["s"])
    saved = box.new_path("saved")
    place.do("backup", place.store, saved)
    stop = threading.Event()
    wrong = []
    sql = threading.Lock()  # what SQL writes into a file that is replaced harms the new one

    def read():
        while not stop.is_set():
            with sql:
                place.insert(["t"], f"k{threading.get_ident()}")
            done = box.sessfs("ls", place.store)
            if b"s/" not in done.stdout.split() and b"while it was open" not in done.stderr:
                wrong.append(done)
            stop.wait(0.05)

    def insist():
        with contextlib.suppress(sqlite3.Error):
            read()

    readers = [threading.Thread(target=insist) for _ in range(3)]
    for reader in readers:
        reader.start()
    try:
        for _ in range(5):
            with sql:
                place.do("restore", "--force", saved, place.store)
    finally:
        stop.set()
        for reader in readers:
            reader.join()
    same(wrong, [], "answers that were not whole")


def test_an_export_tells_of_rows_of_which_no_file_can_be_made(box):
    place = Alone(box)
    place.insert(["s"], "good")
    place.do("ls", place.store)
    with contextlib.closing(sqlite3.connect(place.store, timeout=HANG)) as base, base:
        base.execute(
            "CREATE UNIQUE INDEX one ON sessfs_node (state_key)"
            " WHERE state_key = 'bad' AND kind >= 2"
        )
    place.insert(["s", "t"], "bad")
    time.sleep(4)  # what is younger than an export need not be in it
    place.do("ls", place.store)
    for sessions, status in ([], 1), (["s"], 0), (["t"], 1):
        done = box.sessfs("export", place.store, box.new_path("export"), *sessions)
        same(done.returncode, status, f"the status for {sessions}: {done.stderr}")
        same(b"session t, key bad" in done.stderr, status == 1, f"the sentence: {done.stderr}")
    same(box.sessfs("check", place.store).returncode, 0, "the status of check")
    foreign = box.new_path("foreign.db")
    with contextlib.closing(sqlite3.connect(foreign)) as base, base:
        base.execute(f"CREATE TABLE {harness.TABLE} ({COLUMNS})")
        base.execute(INSERT, ("s", "k", 0, "1"))
    time.sleep(4)
    done = box.sessfs("export", foreign, box.new_path("export"))
    same(done.returncode, 0, f"the status for another program's database: {done.stderr}")


if __name__ == "__main__":
    harness.main(globals())
