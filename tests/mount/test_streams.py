#!/usr/bin/python3 -B
# SPDX-License-Identifier: MIT
"""Programs that were started without some of their standard streams."""

import contextlib
import itertools
import os
import sqlite3
import subprocess

import harness
from harness import HANG, TABLE, Skip, need_root, read, same, tool, write
from places import Place
from test_library import session_program

CLOSED = [
    numbers for count in (1, 2, 3) for numbers in itertools.combinations((0, 1, 2), count)
]
CLOSE = {0: "<&-", 1: ">&-", 2: "2>&-"}
LIST = b'{"n": 1}\n{"n": 2}\n'

# A name, the words behind it, and whether it prints what it was asked for.
VERBS = (
    ("ls", ("STORE",), True),
    ("ls", ("STORE", "nosuch"), False),
    ("ls", ("-l", "--json", "STORE", "s"), True),
    ("cat", ("STORE", "s/l.jsonl"), True),
    ("cat", ("STORE", "s/nosuch.json"), False),
    ("append", ("STORE", "s/more.jsonl"), False),
    ("put", ("STORE", "s/put.json"), False),
    ("rm", ("STORE", "s/nosuch.json"), False),
    ("rm", ("STORE", "t/gone.json"), False),
    ("sessions", ("STORE",), True),
    ("stats", ("STORE",), True),
    ("mounts", (), False),
    ("check", ("STORE",), False),
    ("import", ("STORE", "FOLDER"), False),
    ("import", ("STORE", "-"), False),
    ("export", ("STORE", "-"), True),
    ("export", ("STORE", "EMPTY"), False),
    ("backup", ("STORE", "BACKUP"), True),
    ("backup", ("STORE", "STORE"), False),
    ("restore", ("BACKUP", "STORE"), False),
    ("restore", ("--force", "NOSUCH", "STORE"), False),
    ("gc", ("--older-than", "1h", "-n", "STORE"), False),
    ("config", ("STORE",), True),
    ("config", ("STORE", "ttl=1d", "nosuch"), False),
    ("umount", ("EMPTY",), False),
    ("mount", ("STORE", "NOSUCH"), False),
    ("nosuch", ("STORE",), False),
    ("help", (), True),
    ("--version", (), True),
)

LIBRARY = (
    ("STORE", "save", "s", "k", "[1]"),
    ("STORE", "save", "s", "k", "no JSON"),
    ("STORE", "list", "s", "l", '{"n": 1}', '{"n": 2}'),
    ("STORE", "get", "s", "k"),
    ("STORE", "get", "s", "nosuch"),
    ("STORE", "show", "s", "l"),
    ("STORE", "sessions"),
    ("STORE", "forget", "t", "gone"),
)


def without(closed, *command, **named):
    """Runs a program to its end without these streams."""
    ends = " ".join(CLOSE[number] for number in closed)
    return tool("sh", "-c", f'exec "$@" {ends}', "sh", *command, check=False, **named)


class Streams(Place):
    """A store with known rows, and a folder with nothing else."""

    def __init__(self, box, mounted):
        super().__init__(box, True)
        folder = self.mount.at("s")
        os.mkdir(folder)
        write(os.path.join(folder, "k.json"), b"[1]")
        write(os.path.join(folder, "l.jsonl"), LIST)
        if not mounted:
            self.mount.stop()
        self.what = "mounted" if mounted else "alone"
        folder = box.new_folder()
        write(os.path.join(folder, "known.json"), b"{}")
        self.names = {"STORE": self.store, "FOLDER": folder, "NOSUCH": box.new_path("nosuch")}

    def words(self, words):
        """The words, with names for what stands for one; a new one where it is made."""
        made = {"BACKUP": self.box.new_path("backup"), "EMPTY": self.box.new_path("empty")}
        return [{**self.names, **made}.get(word, word) for word in words]

    def is_whole(self, what):
        what = f"{self.what}: {what}"
        same(read(self.store)[:16], b"SQLite format 3\0", f"{what}: the first bytes of the store")
        with contextlib.closing(sqlite3.connect(self.store, timeout=HANG)) as base:
            same(base.execute("PRAGMA integrity_check").fetchall(), [("ok",)], what)
            rows = base.execute(
                f"SELECT state_data FROM {TABLE} WHERE session_id = 's' AND state_key IN"
                " ('k', 'l') ORDER BY state_key, item_index"
            ).fetchall()
        same(rows, [("[1]",), ('{"n": 1}',), ('{"n": 2}',)], f"{what}: rows")

    def no_message_in_a_file(self, program):
        for folder, _, names in os.walk(self.box.folder):
            if folder.startswith(self.mount.path):
                continue
            for name in names:
                path = os.path.join(folder, name)
                if name.startswith("log"):
                    continue
                assert f"{program}: ".encode() not in read(path), f"a message is in {path}"


def try_all(place, program, commands):
    name = os.path.basename(program)
    for words, prints in commands:
        usual = without((), program, *place.words(words)).returncode
        for closed in CLOSED:
            what = f"{name} {words} without {closed}"
            status = without(closed, program, *place.words(words)).returncode
            assert status in (0, 1, 2), f"{what}: {status}"
            if prints and 1 in closed:
                assert status != 0, f"{what}: nobody has its output, and it says 0"
            elif 0 not in closed and 1 not in closed:
                same(status, usual, what)
        place.is_whole(f"{name} {words}")
    place.no_message_in_a_file(name)


def verbs():
    return [((verb, *words), prints) for verb, words, prints in VERBS]


def test_no_verb_writes_into_a_store_that_it_has_as_a_standard_stream(box):
    try_all(Streams(box, False), box.program, verbs())


def test_nor_beside_a_mount(box):
    try_all(Streams(box, True), box.program, verbs())


def test_nor_does_a_program_of_the_library(box):
    for mounted in (False, True):
        place = Streams(box, mounted)
        try_all(place, session_program(), [(words, False) for words in LIBRARY])
        place.mount.stop()


def test_an_input_that_is_not_there_is_no_empty_one(box):
    place = Streams(box, False)
    for verb in ("put", "append"):
        done = without((0,), box.program, verb, place.store, "s/k.json")
        same(done.returncode, 1, verb)
        assert b"standard input" in done.stderr, done.stderr
    place.is_whole("an input that is not there")


def test_a_full_device_is_called_full_and_an_output_that_is_not_there_fails(box):
    for mounted in (False, True):
        place = Streams(box, mounted)
        for words, prints in verbs():
            if not prints:
                continue
            words = place.words(words)
            with open("/dev/full", "wb") as full:
                done = subprocess.run([box.program, *words], stdout=full, stderr=subprocess.PIPE)
            same(done.returncode, 1, f"{words} > /dev/full (it says {done.stderr})")
            assert b"No space left on device" in done.stderr, f"{words}: {done.stderr}"
        place.mount.stop()


def test_a_mount_that_is_started_without_any_serves_and_ends(box):
    place = Streams(box, False)
    same(without((0, 1, 2), box.program, "mount", place.store, place.mount.path).returncode, 0, "")
    try:
        same(read(place.mount.at("s", "l.jsonl")), LIST, "a list")
        write(place.mount.at("s", "n.json"), b"{}")
        place.is_whole("mounted without streams")
    finally:
        done = without((0, 1, 2), box.program, "umount", place.mount.path)
    same(done.returncode, 0, "umount")
    place.is_whole("unmounted without streams")


def test_nor_where_there_is_no_dev_null(box):
    """In a system whose /dev is empty."""
    need_root()
    place = Streams(box, False)
    bare = ("unshare", "-m", "sh", "-c", 'mount -t tmpfs none /dev && exec "$@"', "sh")
    if tool(*bare, "true", check=False).returncode:
        raise Skip("no mount namespace can be made here")
    for program, commands in ((box.program, verbs()), (session_program(), None)):
        for words, _ in commands or [(words, False) for words in LIBRARY]:
            if words[0] in ("mount", "umount"):
                continue
            for closed in ((2,), (0, 1, 2)):
                ends = " ".join(CLOSE[number] for number in closed)
                inside = ("sh", "-c", f'exec "$@" {ends}', "sh", program, *place.words(words))
                status = tool(*bare, *inside, check=False).returncode
                assert status in (0, 1, 2), f"{words} without {closed}: {status}"
            place.is_whole(f"{words} without /dev/null")
    place.no_message_in_a_file("sessfs")
    place.no_message_in_a_file("session")


if __name__ == "__main__":
    harness.main(globals())
