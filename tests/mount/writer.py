# SPDX-License-Identifier: MIT
"""Processes that write until the daemon dies, with a note of each call and of its return.

A job is a function of a Writer that never ends by itself.  It knows its part of the mount from
writer.tree, which it keeps as it goes.
"""

import contextlib
import json
import os
import random
import time

from harness import put
from manifest import Call, Notes

FLAGS = {
    "w": os.O_WRONLY | os.O_CREAT | os.O_TRUNC,
    "a": os.O_WRONLY | os.O_CREAT | os.O_APPEND,
    "r+": os.O_RDWR,
}


class Dead(Exception):
    """A call was not acknowledged: the writer is to end."""


class Writer:
    """prefix: of the names at the root that are the writer's own; shared: a list of several.

    number: makes lines and some names unlike those of another writer with the same prefix."""

    def __init__(self, root, prefix, tree, log, number, seed, shared=None):
        self.root = root
        self.prefix = prefix
        self.shared = shared
        self.tree = tree
        self.notes = Notes(log)
        self.number = number
        self.rng = random.Random(seed)
        self.count = 0
        self.numbers = 0
        self.fds = {}
        self.limit = None  # how many calls there may be still
        self.short = False  # the last write: then the daemon must have died in its middle

    def at(self, path):
        return os.path.join(self.root, path)

    def call(self, *words):
        """Notes and makes a call; Dead when it fails or is one too many."""
        if self.limit is not None:
            self.limit -= 1
            if self.limit < 0:
                raise Dead()
        call = Call(list(words), time.monotonic())
        self.notes.note(call=words)
        try:
            value = getattr(self, "make_" + words[0])(*words[1:])
        except OSError as error:
            self.notes.note(no=error.errno)
            raise Dead() from error
        self.notes.note(ok=value)
        call.succeed(value, time.monotonic())
        self.tree.play(call)
        assert not self.short or words[0] == "close", f"a write was short, then went on: {words}"
        self.short |= value is not None and value < len(words[2])

    def make_open(self, number, path, how):
        self.fds[number] = os.open(self.at(path), FLAGS[how], 0o644)

    def make_write(self, number, text, place=None):
        data = text.encode("latin-1")
        fd = self.fds[number]
        return os.write(fd, data) if place is None else os.pwrite(fd, data, place)

    make_append = make_write

    def make_fsync(self, number):
        os.fsync(self.fds[number])

    def make_close(self, number):
        os.close(self.fds.pop(number))

    def make_truncate(self, path, size):
        os.truncate(self.at(path), size)

    def make_mkdir(self, path):
        os.mkdir(self.at(path))

    def make_rmdir(self, path):
        os.rmdir(self.at(path))

    def make_symlink(self, target, path):
        os.symlink(target, self.at(path))

    def make_link(self, path, another):
        os.link(self.at(path), self.at(another))

    def make_unlink(self, path):
        os.unlink(self.at(path))

    def make_rename(self, path, another):
        os.rename(self.at(path), self.at(another))

    def make_chmod(self, path, mode):
        os.chmod(self.at(path), mode)

    def make_setxattr(self, path, name, value):
        os.setxattr(self.at(path), name, value.encode("latin-1"))

    def make_removexattr(self, path, name):
        os.removexattr(self.at(path), name)

    def make_utime(self, path, when):
        os.utime(self.at(path), ns=(when, when))

    def drop(self):
        """Closes what is the writer's; the daemon is dead, or another process works."""
        for fd in [self.notes.fd, *self.fds.values()]:
            with contextlib.suppress(OSError):
                os.close(fd)

    # What jobs are made of

    def open(self, path, how):
        self.numbers += 1
        self.call("open", self.numbers, path, how)
        return self.numbers

    def write_whole(self, path, text, how="w", cuts=0):
        """Opens, writes in cuts + 1 pieces and closes."""
        number = self.open(path, how)
        self.write_cut(number, text, cuts)
        self.call("close", number)

    def write_cut(self, number, text, cuts):
        """In pieces that never end at the end of a line, where a save could look whole."""
        places = {place for place in self.rng.sample(range(1, len(text)), min(cuts, len(text) - 1))}
        places = [place for place in sorted(places) if text[place - 1] not in "}\n"]
        for start, end in zip([0, *places], [*places, len(text)]):
            self.call("write", number, text[start:end])

    def line(self, size=None):
        """A line that is like no other."""
        self.count += 1
        size = self.rng.choice((0, 20, 150, 700)) if size is None else size
        value = {"by": self.prefix, "writer": self.number, "n": self.count, "pad": "x" * size}
        return json.dumps(value) + "\n"

    def lines(self, count):
        return "".join(self.line() for _ in range(count))

    def document(self):
        size = self.rng.choice((3, 50, 400, 6000))
        return json.dumps({"is": self.line(0), "list": [self.count] * size}, indent=1)

    def own(self, *names):
        return "/".join((self.prefix, *names))

    def have_session(self):
        if self.prefix not in self.tree.nodes:
            self.call("mkdir", self.prefix)


# Jobs


def append_lines(writer):
    """Whole lines through a descriptor that stays open."""
    number = writer.open(writer.shared, "a")
    while True:
        writer.call("write", number, writer.line())


def append_cut_lines(writer):
    number = writer.open(writer.shared, "a")
    while True:
        writer.write_cut(number, writer.line(), writer.rng.choice((1, 1, 2, 5)))


def append_batches(writer):
    """Many lines in one write, whole or cut where a buffer ends."""
    number = writer.open(writer.shared, "a")
    while True:
        if writer.rng.random() < 0.5:
            writer.call("write", number, writer.lines(writer.rng.randrange(2, 60)))
            continue
        text = writer.lines(40)
        for start in range(0, len(text), 4096):
            writer.call("write", number, text[start : start + 4096])


def append_and_close(writer):
    while True:
        writer.write_whole(writer.shared, writer.lines(writer.rng.choice((1, 1, 3))), "a")


def append_torn_lines(writer):
    """A list of its own, left with unfinished lines that the next writer closes off."""
    writer.have_session()
    path = writer.own("torn.jsonl")
    while True:
        number = writer.open(path, "a")
        for _ in range(writer.rng.randrange(1, 6)):
            writer.call("write", number, writer.lines(writer.rng.choice((1, 4))))
        if writer.rng.random() < 0.5:
            line = writer.line()
            middle = writer.rng.randrange(1, len(line) - 2)
            writer.call("write", number, line[:middle])
            if writer.rng.random() < 0.3:
                writer.call("fsync", number)
                writer.call("write", number, line[middle:])
        writer.call("close", number)


def save_by_truncating(writer):
    writer.have_session()
    while True:
        path = writer.own(f"doc{writer.rng.randrange(3)}.json")
        writer.write_whole(path, writer.document(), cuts=writer.rng.choice((0, 1, 4)))


def save(writer, path, text):
    """One of the ways in which clients replace a file, except by truncating it."""
    way = writer.rng.choice(("plain", "state", "below", "unlink"))
    cuts = writer.rng.choice((0, 1, 4))
    if way == "unlink":
        if path in writer.tree.nodes:
            writer.call("unlink", path)
        writer.write_whole(path, text, cuts=cuts)
        return
    stem, _, ending = path.rpartition(".")
    names = {"plain": path + ".tmp", "state": f"{stem}.new.{ending}", "below": writer.own("tmp")}
    writer.write_whole(names[way], text, cuts=cuts)
    writer.call("rename", names[way], path)


def save_by_replacing(writer):
    writer.have_session()
    while True:
        save(writer, writer.own(f"doc{writer.rng.randrange(3)}.json"), writer.document())


def next_list(writer, path):
    """The list of a client that adds some lines and saves the whole of it."""
    node = writer.tree.nodes.get(path)
    lines = node.data.decode().splitlines(True) if node else []
    if len(lines) < 100 or len(lines) > 400:
        return writer.lines(150)
    chance = writer.rng.random()
    if chance < 0.2:
        lines[writer.rng.randrange(len(lines))] = writer.line()
    elif chance < 0.4:
        del lines[writer.rng.randrange(len(lines)) :]
        lines += [writer.line() for _ in range(100 - len(lines))]
    else:
        lines += [writer.line() for _ in range(writer.rng.choice((1, 1, 2, 40)))]
    return "".join(lines)


def save_lists(writer):
    writer.have_session()
    while True:
        path = writer.own(f"list{writer.rng.randrange(2)}.jsonl")
        text = next_list(writer, path)
        if writer.rng.random() < 0.5:
            writer.write_whole(path, text, cuts=writer.rng.choice((0, 3, 8)))
        else:
            save(writer, path, text)


def use_plain_file(writer, path):
    """A call or some on an ordinary file."""
    rng = writer.rng
    there = path in writer.tree.nodes
    way = rng.choice(("write", "append", "at", "truncate", "rename", "unlink"))
    if way == "write" or not there:
        writer.write_whole(path, writer.lines(rng.choice((1, 30, 200))), cuts=rng.choice((0, 3)))
    elif way == "append":
        number = writer.open(path, "a")
        for _ in range(rng.randrange(1, 4)):
            writer.call("append", number, writer.lines(rng.choice((1, 20))))
        writer.call("close", number)
    elif way == "at":
        number = writer.open(path, "r+")
        for _ in range(rng.randrange(1, 4)):
            place = rng.choice((0, 5, 4090, 32760, 40000))
            writer.call("write", number, writer.line(), place)
        writer.call("close", number)
    elif way == "truncate":
        writer.call("truncate", path, rng.choice((0, 10, 4096, 33000)))
    elif way == "rename":
        writer.call("rename", path, writer.own(f"file{rng.randrange(4)}.txt"))
    else:
        writer.call("unlink", path)


def use_plain_files(writer):
    writer.have_session()
    while True:
        number = writer.rng.randrange(5)
        # One of them is at the root, where no file is a state.
        name = writer.own(f"file{number}.txt") if number < 4 else writer.prefix + "-file.json"
        use_plain_file(writer, name)


def use_names(writer):
    """Directories with files in them come, are changed, move and go."""
    rng = writer.rng
    writer.have_session()
    while True:
        writer.numbers += 1
        folder = rng.choice((writer.own, lambda name: f"{writer.prefix}-{name}"))(
            f"d{writer.number}n{writer.numbers}"
        )
        make_names(writer, folder)
        moved = folder + "moved"
        if rng.random() < 0.8:
            writer.call("rename", folder, moved)
            folder = moved
        if rng.random() < 0.8:
            remove_names(writer, folder)


def make_names(writer, folder):
    rng = writer.rng
    note, state = f"{folder}/note", f"{folder}/k.json"
    writer.call("mkdir", folder)
    writer.write_whole(note, "note\n")
    writer.write_whole(state, writer.document())
    writer.write_whole(f"{folder}/l.jsonl", writer.lines(3))
    writer.call("symlink", "../note", f"{folder}/link")
    writer.call("link", note, f"{folder}/another")
    for path in (note, state, folder):
        modes = (0o711, 0o750, 0o755, 0o700) if path == folder else (0o600, 0o640, 0o755, 0o700)
        writer.call("chmod", path, rng.choice(modes))
        writer.call("setxattr", path, "user.mark", writer.line())
    writer.call("mkdir", f"{folder}/below")
    writer.call("rename", state, f"{folder}/below/k2.json")
    writer.call("utime", note, rng.randrange(2 * 10**18))
    writer.call("utime", f"{folder}/l.jsonl", rng.randrange(2 * 10**18))
    if rng.random() < 0.5:
        writer.call("removexattr", folder, "user.mark")
    if rng.random() < 0.5:
        writer.call("rename", f"{folder}/l.jsonl", f"{folder}/below/l.jsonl")


def remove_names(writer, folder):
    below = [path for path in writer.tree.nodes if path.startswith(folder + "/")]
    for path in sorted(below, reverse=True) + [folder]:
        is_folder = writer.tree.nodes[path].kind == "directory"
        writer.call("rmdir" if is_folder else "unlink", path)


# The jobs of a load: name -> function, and whether it writes to the shared list.
JOBS = {
    "lines": (append_lines, True),
    "cuts": (append_cut_lines, True),
    "batches": (append_batches, True),
    "closes": (append_and_close, True),
    "torn": (append_torn_lines, False),
    "truncates": (save_by_truncating, False),
    "replaces": (save_by_replacing, False),
    "lists": (save_lists, False),
    "plain": (use_plain_files, False),
    "names": (use_names, False),
}


# Processes


def start(job, writer, ready):
    """Lets a job run in a process of its own, which ends with 0 when the daemon dies; its pid.

    ready: a pipe that gets one byte when the first call has returned, or all that went wrong."""
    child = os.fork()
    if child:
        return child
    status = 0
    try:
        first = writer.call

        def call(*words):
            first(*words)
            writer.call = first
            put(ready, b".")

        writer.call = call
        job(writer)
    except Dead:
        pass
    except BaseException as error:
        put(ready, f"{job.__name__}: {error!r}\n".encode())
        status = 1
    os._exit(status)


def run_calls(job, writer, calls):
    """As many calls of a job in this process, which may leave files open: see drop()."""
    writer.limit = calls
    with contextlib.suppress(Dead):
        job(writer)
