# SPDX-License-Identifier: MIT
"""Processes on several mounts of one store that work on the same files, and what must come of it.

Each is a Rival: it notes what it is about to do and what was acknowledged, in a log outside of the
mounts.  When all have ended, or have died with their mount, judge() compares the notes with what a
mount shows.  It works on what was seen only, so that it can be tried with things that are wrong.
"""

import contextlib
import errno
import fcntl
import json
import os
import random
import re
import time

import harness
from harness import split_lines
from manifest import DEAD
from writer import Dead

DIRS = [f"d{number}" for number in range(6)]
COUNTERS = ["flock.txt", "flock.json", "close.txt", "unlock.txt"]  # by the way they are locked
RENAMED = [
    errno.ENOENT, errno.EEXIST, errno.ENOTEMPTY, errno.EINVAL, errno.ESTALE, errno.ELOOP
]


class Rival:
    """at and beside: the folder on the mount of this one, and on another mount; store: where put()
    writes rows, as another program; over: whether to end."""

    def __init__(self, name, at, beside, store, log, seed, over):
        self.name = name
        self.at = at
        self.beside = beside
        self.store = store
        self.log = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self.rng = random.Random(seed)
        self.over = over
        self.count = 0

    def note(self, what, **more):
        os.write(self.log, json.dumps({"what": what, **more}).encode() + b"\n")

    def call(self, job):
        """One turn of a job.  Dead: its mount is, or it is to end."""
        if self.over():
            raise Dead()
        self.count += 1
        try:
            job(self)
        except OSError as error:
            if error.errno not in DEAD:
                raise AssertionError(f"turn {self.count} of {self.name}: {error}") from error
            self.note("dead")
            raise Dead() from error

    def drop(self):
        os.close(self.log)

    def line(self):
        return b'{"by": "%s", "n": %d}\n' % (self.name.encode(), self.count)

    def append(self, path, data):
        self.note("append", n=self.count)
        with open(path, "ab", buffering=0) as file:
            file.write(data)
            self.note("appended", n=self.count)


def turns(job):
    def run(rival):
        while True:
            rival.call(job)

    run.__name__ = job.__name__
    return run


@turns
def counts(rival):
    """Lock, read, add, write back, unlock: in each of the ways in which programs do it."""
    name = rival.rng.choice(COUNTERS)
    lock = fcntl.flock if name.startswith("flock") else fcntl.lockf
    with open(f"{rival.at}/{name}", "r+b", buffering=0) as file:
        lock(file, fcntl.LOCK_EX)
        rival.note("count", name=name)
        value = int(file.read())
        file.seek(0)
        file.write(b"%d" % (value + 1))
        if not name.startswith("close"):
            lock(file, fcntl.LOCK_UN)
    rival.note("counted", name=name)


@turns
def appends(rival):
    """Beside a chmod of the file, and lines of others."""
    rival.append(f"{rival.at}/appended.jsonl", rival.line())


@turns
def chmods(rival):
    mode = rival.rng.choice([0o600, 0o640, 0o644, 0o664])
    rival.note("chmod", mode=mode)
    os.chmod(f"{rival.at}/appended.jsonl", mode)
    rival.note("chmoded", mode=mode)


@turns
def appends_to_saved(rival):
    """A list that somebody else saves, who may never have read the line."""
    with contextlib.suppress(FileNotFoundError):
        rival.append(f"{rival.at}/saved.jsonl", rival.line())


@turns
def saves(rival):
    """The whole list again, with one line more; of its own only the last three."""
    path, own = f"{rival.at}/saved.jsonl", b'"by": "%s"' % rival.name.encode()
    try:
        lines = harness.read(path).splitlines(True)
    except FileNotFoundError:
        lines = []
    mine = [line for line in lines if own in line][-2:]
    lines = [line for line in lines if own not in line or line in mine] + [rival.line()]
    way = rival.rng.choice(["in place", "rename", "unlink"])
    rival.note("save", n=rival.count)
    if way == "unlink":
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
    harness.write(path if way != "rename" else path + ".tmp", b"".join(lines))
    if way == "rename":
        os.rename(path + ".tmp", path)
    rival.note("saved", n=rival.count)


@turns
def reads_on(rival):
    """A file that is unlinked on another mount while it is open."""
    name = f"{rival.name}-{rival.count}.{rival.rng.choice(['txt', 'json', 'jsonl'])}"
    data = b"[%s]\n" % b",".join(b"%d" % n for n in range(rival.rng.choice([10, 5000, 50000])))
    rival.note("open", name=name)
    harness.write(f"{rival.at}/{name}", data)
    with open(f"{rival.at}/{name}", "rb", buffering=0) as file:
        begun = file.read(10)
        os.unlink(f"{rival.beside}/{name}")
        begun += file.read(len(data) // 2)
        rest = b"".join(iter(lambda: file.read(1 << 17), b""))
    if begun + rest != data:
        raise AssertionError(f"{name} of {len(data)} bytes, read on: {len(begun + rest)} bytes")
    rival.note("gone", name=name)


@turns
def moves(rival):
    """Directories into each other; files that are made and unlinked in them."""
    below = sorted(path for path, _, _ in os.walk(f"{rival.at}/moved", onerror=unless_renamed))
    way = rival.rng.choice(["move", "move", "make", "make", "unlink", "folder"])
    if way == "move":
        move(rival, below)
    elif way == "make":
        name = f"f-{rival.name}-{rival.count}{rival.rng.choice(['.json', '.txt', ''])}"
        attempt(rival, "make", name, make_file, f"{rival.rng.choice(below)}/{name}")
    elif way == "unlink":
        paths = [entry.path for path in below for entry in listed(path) if entry.is_file()]
        if paths:
            path = rival.rng.choice(paths)
            attempt(rival, "unlink", os.path.basename(path), os.unlink, path)
    else:
        name = f"e-{rival.name}-{rival.count}"
        path = f"{rival.rng.choice(below)}/{name}"
        if attempt(rival, "make", name, os.mkdir, path):
            attempt(rival, "unlink", name, os.rmdir, path)


def unless_renamed(error):
    if error.errno not in RENAMED:
        raise error


def listed(path):
    try:
        with os.scandir(path) as entries:
            return list(entries)
    except OSError as error:
        unless_renamed(error)
        return []


def move(rival, below):
    path, to = rival.rng.choice(below), rival.rng.choice(below)
    if path != below[0]:
        attempt(rival, "move", None, os.rename, path, f"{to}/{os.path.basename(path)}")


def make_file(path):
    with open(path, "xb", buffering=0) as file:
        file.write(b"1")


def attempt(rival, what, name, call, *paths):
    """Somebody else may have moved what it is about."""
    rival.note(what, name=name)
    try:
        call(*paths)
    except OSError as error:
        unless_renamed(error)
        rival.note(f"no {what}", name=name)
        return False
    rival.note(f"done {what}", name=name)
    return True


@turns
def inserts(rival):
    """SQL beside the mounts: rows of a session of its own, and a document."""
    session, n = os.path.basename(rival.at) + "-sql", 2 * rival.count
    rows = [(session, "l", index, '{"n": %d}' % index) for index in (n - 2, n - 1)]
    rival.store.put([*rows, (session, "k", 0, '{"n": %d}' % n)])
    rival.note("inserted", n=n)
    time.sleep(rival.store.pause)


def prepare(folder):
    os.makedirs(f"{folder}/moved")
    for name in DIRS:
        os.mkdir(f"{folder}/moved/{name}")
    for name in COUNTERS:
        harness.write(f"{folder}/{name}", b"0")
    for name in ("appended.jsonl", "saved.jsonl"):
        harness.write(f"{folder}/{name}", b"")


# The jobs; several of them everywhere, or one alone
EVERYWHERE = [counts, appends, appends_to_saved, reads_on, moves]
ALONE = [chmods, saves, inserts]


# Judging


def read_notes(path):
    return [json.loads(line) for line in harness.read(path).splitlines()]


class Judge:
    """notes: name of a rival -> what it has noted; found: path in the folder, and in that of SQL ->
    what look() of manifest.py says."""

    def __init__(self, notes, found):
        self.notes = notes
        self.found = found
        self.wrong = []

    def data(self, path):
        return self.found[path]["data"] if path in self.found else None

    def numbers(self, rival, what, field="n"):
        return [note[field] for note in self.notes[rival] if note["what"] == what]

    def expect(self, is_right, sentence):
        if not is_right:
            self.wrong.append(sentence)

    def counters(self):
        for name in COUNTERS:
            begun = sum(self.numbers(rival, "count", "name").count(name) for rival in self.notes)
            done = sum(self.numbers(rival, "counted", "name").count(name) for rival in self.notes)
            value = int(self.data(name) or -1)
            self.expect(done <= value <= begun, f"{name} is {value}, of {done} to {begun}")

    def lines(self, path):
        """Who wrote which lines, by name; None: nobody did."""
        lines = {}
        for line in split_lines(self.data(path) or b""):
            match = re.fullmatch(rb'{"by": "(\w+)", "n": (\d+)}', line)
            name, number = (match[1].decode(), int(match[2])) if match else (None, line)
            lines.setdefault(name, []).append(number)
        foreign = [name for name in lines if name not in self.notes]
        self.expect(not foreign, f"{path} holds what nobody wrote: {foreign}, {lines.get(None)}")
        return lines

    def appended(self):
        lines = self.lines("appended.jsonl")
        for rival in self.notes:
            if not re.fullmatch(r"appends\d+", rival):
                continue
            begun, done = self.numbers(rival, "append"), self.numbers(rival, "appended")
            got = lines.get(rival, [])
            self.expect(
                got in (done, begun), f"lines of {rival}: {harness.shorten(got)}, {len(done)} done"
            )

    def modes(self):
        for rival in self.notes:
            modes = self.numbers(rival, "chmod", "mode")
            if modes:
                done = len(self.numbers(rival, "chmoded", "mode"))
                right = [0o644, *modes][done:]
                mode = self.found["appended.jsonl"]["mode"]
                self.expect(mode in right, f"the mode is {mode:o}, not {right}")

    def saved(self):
        """Lines of others may be dropped by who has not read them; none comes back, none twice."""
        lines = self.lines("saved.jsonl")
        for rival, numbers in lines.items():
            self.expect(numbers == sorted(set(numbers)), f"saved.jsonl: {rival}: {numbers}")
            if rival in self.notes and rival.startswith("saves"):
                begun, done = self.numbers(rival, "save"), self.numbers(rival, "saved")
                right = [done[-3:], begun[-3:]] + [[]] * (len(begun) > len(done))
                self.expect(numbers in right, f"saved.jsonl: {numbers}, not {right}")

    def unlinked(self):
        for rival in self.notes:
            begun = self.numbers(rival, "open", "name")
            left = [path for path in self.found if path.startswith(f"{rival}-")]
            done = len(self.numbers(rival, "gone", "name"))
            self.expect(set(left) <= set(begun[done:]), f"{left} are there again")

    def moved(self):
        made, maybe, gone, content = set(DIRS), set(), set(), {}
        for path, seen in self.found.items():
            if path.startswith("moved/"):
                content.setdefault(os.path.basename(path), []).append(seen["data"])
        for rival, notes in self.notes.items():
            made |= set(self.numbers(rival, "done make", "name"))
            gone |= set(self.numbers(rival, "done unlink", "name"))
            last = [note for note in notes if note["what"] != "dead"][-1:]
            maybe |= {note["name"] for note in last if note["what"] in ("make", "unlink")}
        names = set(content)
        self.expect(made - gone - maybe <= names, f"lost: {sorted(made - gone - maybe - names)}")
        self.expect(names <= (made - gone) | maybe, f"too many: {sorted(names - made - maybe)}")
        self.expect(not names & gone, f"there again: {sorted(names & gone)}")
        for name, several in content.items():
            self.expect(len(several) == 1, f"{name} is there {len(several)} times")
            is_whole = several[0] == (b"1" if name.startswith("f") else b"") or name in maybe
            self.expect(is_whole, f"{name} holds {several[0]!r}")

    def sql(self):
        for rival in self.notes:
            done = self.numbers(rival, "inserted")
            if not done:
                continue
            expected = b"".join(b'{"n": %d}\n' % n for n in range(done[-1]))
            self.expect(self.data("-sql/l.jsonl") == expected, f"rows by SQL, {done[-1]} of them")
            document = b'{"n": %d}' % done[-1]
            self.expect(self.data("-sql/k.json") == document, "the document of SQL")


def judge(notes, found):
    """All that is wrong."""
    judging = Judge(notes, found)
    for part in ("counters", "appended", "modes", "saved", "unlinked", "moved", "sql"):
        getattr(judging, part)()
    return judging.wrong
