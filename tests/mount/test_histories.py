#!/usr/bin/python3 -B
# SPDX-License-Identifier: MIT
"""Histories of 2, 4 and 8 mounts of one store: nothing that was acknowledged on any of them is lost
or there twice, and all show the same in the end.

  SESSFS_HISTORY_ROUNDS  rounds with each number of mounts; 1, and 3 in a soak
  SESSFS_SEED            what the random numbers begin with
"""

import contextlib
import copy
import os
import shutil
import sqlite3

import harness
import rivals
from harness import TABLE, same, write
from histories import Histories, SQLite, unlike
from manifest import look
from writer import Dead

ROUNDS = harness.rounds("SESSFS_HISTORY_ROUNDS", 1, 3)
SEED = int(os.environ.get("SESSFS_SEED") or "1")


def play(box, count):
    histories = Histories(box, SEED, count)
    for _ in range(ROUNDS):
        histories.run()
    calls = sum(histories.returned.values())
    box.note(f"seed {SEED}: {calls} calls of writers, {histories.turns} notes of rivals")


def test_a_history_of_two_mounts(box):
    play(box, 2)


# Of more mounts as a soak: they take long, and now and then find what is known and not mended yet
# (doc/limits.md).
if "SESSFS_HISTORY_ROUNDS" in os.environ:

    def test_a_history_of_four_mounts(box):
        play(box, 4)

    def test_a_history_of_eight_mounts(box):
        play(box, 8)


# What judges them


def told(box):
    """What rivals on a disk have noted, one after the other, and what is there then."""
    folder, store = box.new_folder("r"), box.new_path("store")
    with contextlib.closing(sqlite3.connect(store)) as base:
        base.execute(
            f"CREATE TABLE {TABLE} (session_id, state_key, item_index, state_data,"
            " PRIMARY KEY (session_id, state_key, item_index))"
        )
    rivals.prepare(folder)
    notes = {}
    for job in rivals.EVERYWHERE * 2 + rivals.ALONE:
        name, log = f"{job.__name__}{len(notes)}", box.new_path("log")
        turns = iter(range(40))
        over = lambda turns=turns: next(turns, None) is None
        rival = rivals.Rival(name, folder, folder, SQLite(store), log, len(notes), over)
        with contextlib.suppress(Dead):
            job(rival)
        notes[name] = rivals.read_notes(log)
    found = look(folder)
    with contextlib.closing(sqlite3.connect(store)) as base:
        rows = base.execute(f"SELECT state_key, state_data FROM {TABLE} ORDER BY item_index")
        for key, data in rows.fetchall():
            path = {"k": "-sql/k.json", "l": "-sql/l.jsonl"}[key]
            line = data.encode() + (b"\n" if key == "l" else b"")
            found.setdefault(path, {"data": b""})["data"] += line
    same(rivals.judge(notes, found), [], "what is wrong with a disk")
    return notes, found


def lines(path, function):
    """Changes the lines of a file."""

    def damage(notes, found):
        changed = function(found[path]["data"].splitlines(True))
        found[path]["data"] = b"".join(changed)

    return damage


def a_file(found):
    return next(path for path in found if os.path.basename(path).startswith("f-"))


def noted(notes, what, field):
    return next(n[field] for rival in notes.values() for n in rival if n["what"] == what)


def count_to(name, more):
    return lines(name, lambda data: [b"%d" % (int(data[0]) + more)])


# What happens to what is there.  Each must be noticed.
DAMAGES = {
    "a line is lost": lines("appended.jsonl", lambda all: all[:5] + all[6:]),
    "the last line is lost": lines("appended.jsonl", lambda all: all[:-1]),
    "a line is there twice": lines("appended.jsonl", lambda all: all[:5] + all[4:]),
    "lines have changed places": lines("appended.jsonl", lambda all: all[1::-1] + all[2:]),
    "a line is torn": lines("appended.jsonl", lambda all: [all[0][:9] + b"\n"] + all[1:]),
    "two lines are glued": lines("appended.jsonl", lambda all: [all[0][:-1]] + all[1:]),
    "a line that nobody wrote": lines("appended.jsonl", lambda all: [b"{}\n"] + all),
    "a mode is another": lambda notes, found: found["appended.jsonl"].update(mode=0o777),
    "a line of a save is lost": lines("saved.jsonl", lambda all: all[:-1]),
    "a line of a save is there twice": lines("saved.jsonl", lambda all: all[-1:] + all),
    "a line that was dropped is back": lines(
        "saved.jsonl", lambda all: [all[-1].replace(b'"n": 40', b'"n": 1')] + all
    ),
    "something was not counted": count_to("flock.txt", -1),
    "something was counted twice": count_to("close.txt", 1),
    "a counter is empty": lines("unlock.txt", lambda all: []),
    "a file is lost": lambda notes, found: found.pop(a_file(found)),
    "a file is empty": lambda notes, found: found[a_file(found)].update(data=b""),
    "a directory is lost": lambda notes, found: [
        found.pop(path) for path in list(found) if os.path.basename(path) == "d0"
    ],
    "a file is there twice": lambda notes, found: found.update(
        {"moved/again/" + os.path.basename(a_file(found)): found[a_file(found)]}
    ),
    "a file that was unlinked is back": lambda notes, found: found.update(
        {"moved/" + noted(notes, "done unlink", "name"): {"data": b"1"}}
    ),
    "a file is too many": lambda notes, found: found.update({"moved/f-more": {"data": b"1"}}),
    "a file that was open is back": lambda notes, found: found.update(
        {noted(notes, "gone", "name"): {"data": b""}}
    ),
    "a row of SQL is lost": lines("-sql/l.jsonl", lambda all: all[:-1]),
    "a row of SQL is there twice": lines("-sql/l.jsonl", lambda all: all + all[-1:]),
    "a document of SQL is old": lines("-sql/k.json", lambda all: [b'{"n": 1}']),
}


def test_what_is_lost_doubled_torn_or_back_is_noticed(box):
    notes, found = told(box)
    missed = []
    for name, damage in DAMAGES.items():
        damaged = copy.deepcopy(found)
        damage(notes, damaged)
        assert damaged != found, f"{name}: no damage"
        if not rivals.judge(notes, damaged):
            missed.append(name)
    same(missed, [], "damage that was not noticed")


def test_folders_that_are_not_alike_are_noticed(box):
    folders = [box.new_folder() for _ in range(2)]
    for folder in folders:
        write(f"{folder}/k.json", b"1")
        os.utime(f"{folder}/k.json", (1, 1))
    roots = dict(zip("ab", folders))
    same(unlike(roots, waits=False), [], "folders that are alike")
    for change in (
        lambda path: os.chmod(path, 0o600),
        lambda path: os.utime(path, (2, 2)),
        lambda path: os.link(path, path + "2"),
        lambda path: os.setxattr(path, "user.a", b"1"),
        lambda path: write(path, b"2"),
        os.unlink,
    ):
        change(f"{folders[1]}/k.json")
        assert unlike(roots, waits=False), "it was not noticed"
        for folder in folders:
            shutil.rmtree(folder)
            os.mkdir(folder)
            write(f"{folder}/k.json", b"1")
            os.utime(f"{folder}/k.json", (1, 1))
        same(unlike(roots, waits=False), [], "folders that are alike")


if __name__ == "__main__":
    harness.main(globals())
