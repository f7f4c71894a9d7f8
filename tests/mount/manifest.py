# SPDX-License-Identifier: MIT
"""What writers were told, kept outside the mount, and what has to be there after it.

A writer notes each call before it makes it and each return after it (Notes).  The names that it
touches are its own and it makes one call at a time, so the calls that have returned say what its
part of the mount holds; the last one, if it did not return, is there whole or not at all.

A Tree is such a part: play() does what the contract says that a call does, differences() compares
with what look() has found.  Only what writers here do is played: one open file of a name, lists and
documents that are whole when they are closed, unless they are appended to.
"""

import copy
import errno
import json
import os
import stat
import time

import harness
from harness import is_json, kind_of, read, shorten

GHOST = 0.29  # seconds for which an unlinked state file surely waits to be written again
PAUSE = 0.95  # seconds for which a writer surely does not count as pausing
PAGE = 4096  # where the kernel may cut a write to an ordinary file

# What calls answer when the daemon is gone.  EIO: it died while it read the request.
DEAD = (errno.ENOTCONN, errno.ECONNABORTED, errno.EIO)


# The log


class Notes:
    """A log of calls: {"call": [name, arguments]}, then {"ok": value} or {"no": errno}.

    The value of a write is how much was written.  "at" is the time of a monotonic clock."""

    def __init__(self, path):
        self.fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def note(self, **what):
        what["at"] = time.monotonic()
        os.write(self.fd, json.dumps(what).encode() + b"\n")


class Call:
    """One call of a log.  returned: it was acknowledged; after is the time of that."""

    def __init__(self, words, before):
        self.words = words
        self.before = before
        self.after = None
        self.returned = False
        self.failed = 0
        self.rest = b""  # of a write that was short: its next request was in flight

    def __str__(self):
        return shorten(self.words, 100)

    def succeed(self, value, after):
        self.returned = True
        self.after = after
        if value is not None:  # a write may be short
            self.rest = self.words[2][value:].encode("latin-1")
            self.words = [*self.words[:2], self.words[2][:value], *self.words[3:]]


def read_log(path):
    calls = []
    for line in read(path).splitlines():
        note = json.loads(line)
        if "call" in note:
            calls.append(Call(note["call"], note["at"]))
        elif "ok" in note:
            calls[-1].succeed(note["ok"], note["at"])
        else:
            calls[-1].failed, calls[-1].after = note["no"], note["at"]
    return calls


# Names and bytes


def kind_of_state(path):
    """json, jsonl or hash for a file of a session that is kept in rows; otherwise nothing."""
    name = os.path.basename(path)
    stem, _, ending = name.rpartition(".")
    return ending if "/" in path and stem and ending in ("json", "jsonl", "hash") else ""


def key_of(path):
    """The session and the key of a state file."""
    session, _, rest = path.partition("/")
    return session, rest.rpartition(".")[0]


def rows_of(path, data):
    """What SQL has to see of a file's bytes."""
    if kind_of_state(path) == "jsonl":
        return harness.valid_lines(data)
    return [data] if data else []


def whole_lines(data):
    return data[: data.rfind(b"\n") + 1]


def glue(data, lines):
    """Append to a list: a torn line is closed off before one that is valid without it."""
    torn = data[len(whole_lines(data)) :]
    first = lines.partition(b"\n")[0]
    if torn and is_json(first) and not is_json(torn + first):
        return data + b"\n" + lines
    return data + lines


def cuts(place, data):
    """Where the requests for a write end that the kernel may make."""
    return [*range(PAGE - place % PAGE, len(data), PAGE), len(data)]


def overwrite(old, place, data):
    old = old.ljust(place, b"\0")
    return old[:place] + data + old[place + len(data) :]


# The tree


class Node:
    """A file, a symlink (data is where it leads) or a directory."""

    def __init__(self, kind, data=b"", mode=0o644):
        self.kind = kind
        self.data = data
        self.other = []  # what its content may be as well
        self.before = b""  # of an ordinary file: its content when all was put into the store
        self.writes = []  # since then: place and bytes of each
        self.mode = mode
        self.xattrs = {}
        self.mtime = None  # once it was set and nothing written since
        self.links = 1


class Handle:
    """An open file.  keeps: what of the writes is published before the close.

    all     an ordinary file
    lines   whole lines, the rest is the piece
    nothing the stage is published by the close"""

    def __init__(self, path, node, keeps):
        self.path = path
        self.node = node
        self.keeps = keeps
        self.place = 0
        self.piece = b""
        self.owns_tail = False
        self.stage = b""
        self.written = 0
        self.inherits = None  # maybe: whether the name's rows were there still is not known


class Tree:
    def __init__(self):
        self.nodes = {}
        self.handles = {}
        self.ghosts = {}  # path -> content and time of an unlinked state file

    # What calls do.  before and after are the times of the call.

    def play(self, call):
        self.before = call.before
        self.after = call.after
        getattr(self, "play_" + call.words[0])(*call.words[1:])
        if call.rest:
            handle = self.handles[call.words[1]]
            self.may_hold(handle.node, handle.place, call.rest)

    def play_open(self, number, path, how):
        """how: "w" or "a" as fopen(3) has them, or "r+"."""
        node = self.nodes.get(path)
        ghost = None
        if node is None:
            node = self.nodes[path] = Node("file")
            ghost = self.ghosts.pop(path, None)
        state = kind_of_state(path)
        handle = self.handles[number] = Handle(path, node, "all")
        if not state:
            if how == "w":
                self.change(node, b"")
            return
        if how == "a" or (state == "jsonl" and not node.data and not ghost):
            handle.keeps = "lines"
        else:
            handle.keeps = "nothing"
        if ghost:
            content, since = ghost
            node.data = content
            if self.after is None or self.after - since > GHOST:
                handle.inherits = "maybe"
                node.other = [b""]

    def change(self, node, data):
        node.data = data
        node.writes = []
        node.mtime = None

    def play_write(self, number, text, place=None):
        handle = self.handles[number]
        data = text.encode("latin-1")
        node = handle.node
        node.mtime = None
        handle.written = self.before
        if handle.keeps == "all":
            self.write_at(handle, handle.place if place is None else place, data)
        elif handle.keeps == "lines":
            self.write_lines(handle, data)
        else:
            handle.stage += data
            if handle.inherits:
                streams = kind_of_state(handle.path) == "jsonl"
                node.other = [whole_lines(handle.stage) if streams else b""]

    def write_at(self, handle, place, data):
        node = handle.node
        if self.after is None:
            self.may_hold(node, place, data)
        if not node.writes:
            node.before = node.data
        node.writes.append((place, data))
        node.data = overwrite(node.data, place, data)
        handle.place = place + len(data)

    def may_hold(self, node, place, data):
        """A write to an ordinary file is in flight, perhaps in several requests."""
        node.other += [overwrite(node.data, place, data[:cut]) for cut in cuts(place, data)]

    def write_lines(self, handle, data):
        lines = whole_lines(handle.piece + data)
        rest = (handle.piece + data)[len(lines) :]
        if lines:
            node = handle.node
            node.data = node.data + lines if handle.owns_tail else glue(node.data, lines)
            handle.owns_tail = False
        handle.piece = rest

    def play_append(self, number, text):
        """A write to an ordinary file that was opened with O_APPEND."""
        handle = self.handles[number]
        self.play_write(number, text, len(handle.node.data))

    def flush(self, handle):
        node = handle.node
        node.writes = []
        if handle.keeps == "nothing":
            self.change(node, handle.stage)
            node.other = []
        elif handle.piece:
            piece, handle.piece = handle.piece, b""
            node.data = node.data + piece if handle.owns_tail else glue(node.data, piece)
            handle.owns_tail = True

    def play_fsync(self, number):
        self.flush(self.handles[number])

    def play_close(self, number):
        self.flush(self.handles.pop(number))

    def play_truncate(self, path, size):
        node = self.nodes[path]
        self.change(node, node.data[:size].ljust(size, b"\0"))

    def play_mkdir(self, path):
        self.nodes[path] = Node("directory", mode=0o755)

    def play_rmdir(self, path):
        del self.nodes[path]

    def play_symlink(self, target, path):
        self.nodes[path] = Node("symlink", target.encode(), 0o777)

    def play_link(self, path, another):
        self.nodes[another] = self.nodes[path]
        self.nodes[path].links += 1

    def play_unlink(self, path):
        node = self.nodes.pop(path)
        node.links -= 1
        if kind_of_state(path):
            self.ghosts[path] = (node.data, self.before)

    def play_rename(self, path, another):
        replaced = self.nodes.get(another)
        if replaced is self.nodes[path]:
            return
        if replaced:
            replaced.links -= 1
        if kind_of_state(path) != kind_of_state(another):
            self.nodes[path].mtime = None
        self.ghosts.pop(another, None)
        for old in [p for p in self.nodes if p == path or p.startswith(path + "/")]:
            self.nodes[another + old[len(path) :]] = self.nodes.pop(old)

    def play_chmod(self, path, mode):
        self.nodes[path].mode = mode

    def play_setxattr(self, path, name, value):
        self.nodes[path].xattrs[name] = value

    def play_removexattr(self, path, name):
        del self.nodes[path].xattrs[name]

    def play_utime(self, path, when):
        self.nodes[path].mtime = when

    # Looking at it

    def contents(self, path, died):
        """What the bytes of a file may be when the daemon died at that time.

        Small writes to an ordinary file go into the store together, in their order."""
        node = self.nodes[path]
        right = [node.data] + node.other
        content = node.before
        for place, data in node.writes:
            right += [overwrite(content, place, data[:cut]) for cut in (0, *cuts(place, data))]
            content = overwrite(content, place, data)
        for handle in self.handles.values():
            paused = handle.keeps == "nothing" and died - handle.written > PAUSE
            if handle.node is node and paused and is_whole(path, handle.stage):
                right.append(handle.stage)
        return right

    def differences(self, found, died):
        """Sentences about what look() has found and what should be there."""
        wrong = [f"{path} is too many" for path in sorted(found.keys() - self.nodes.keys())]
        for path, node in sorted(self.nodes.items()):
            if path not in found:
                wrong.append(f"{path} is lost")
                continue
            seen = found[path]
            right = self.contents(path, died)
            if seen["data"] not in right:
                wrong.append(f"{path}: {describe(right[0], seen['data'])}")
            expected = {"kind": node.kind, "mode": node.mode, "xattrs": node.xattrs}
            if node.kind == "file":
                expected["links"] = node.links
            if node.mtime is not None:
                expected["mtime"] = node.mtime
            for what, value in expected.items():
                if seen.get(what, value) != value:
                    wrong.append(f"{path}: {what} is {seen[what]!r}, not {value!r}")
        return wrong

    def settle(self, found):
        """The daemon has died: what was open is gone, what was found is so from now on."""
        for path, node in self.nodes.items():
            node.data = found[path]["data"]
            node.other, node.writes = [], []
        self.handles = {}
        self.ghosts = {}


def is_whole(path, data):
    if kind_of_state(path) != "jsonl":
        return is_json(data)
    tail = data[len(whole_lines(data)) :]
    return not tail or is_json(tail)


def describe(right, seen):
    """Where two contents begin to differ."""
    place = len(os.path.commonprefix([right, seen]))
    return (
        f"{len(seen)} bytes instead of {len(right)}, at byte {place}"
        f" {shorten(seen[place:], 60)} instead of {shorten(right[place:], 60)}"
    )


def look(root):
    """path -> what the mount shows there."""
    found = {}

    def visit(path):
        whole = os.path.join(root, path)
        status = os.lstat(whole)
        seen = {"kind": kind_of(status.st_mode), "mode": stat.S_IMODE(status.st_mode)}
        seen.update(mtime=status.st_mtime_ns, links=status.st_nlink, xattrs={}, data=b"")
        seen["size"] = status.st_size
        if seen["kind"] == "symlink":
            seen["data"] = os.fsencode(os.readlink(whole))
        else:
            for name in os.listxattr(whole):
                if not name.startswith("user.sessfs."):
                    seen["xattrs"][name] = os.getxattr(whole, name).decode("latin-1")
        if seen["kind"] == "file":
            seen["data"] = read(whole)
        if path:
            found[path] = seen
        if seen["kind"] == "directory":
            for name in os.listdir(whole):
                visit(os.path.join(path, name))

    visit("")
    return found


# Judging a log


class Judgement:
    def __init__(self):
        self.wrong = []
        self.returned = 0
        self.tree = None
        self.in_flight = None  # the call that did not return
        self.happened = False  # whether it is there


def judge(tree, calls, found, died):
    """Plays the calls of a writer and compares; .tree is what its part holds now."""
    result = Judgement()
    for place, call in enumerate(calls):
        if call.returned:
            result.returned += 1
            tree.play(call)
            continue
        if call.failed and (call.failed not in DEAD or call.after < died):
            when = f"{call.after - died:+.6f} s from the kill"
            result.wrong.append(f"{call} failed: {os.strerror(call.failed)}, {when}")
        if place != len(calls) - 1:
            result.wrong.append(f"the writer went on behind {call}, which had not returned")
        result.in_flight = call
    after = None
    if result.in_flight:
        after = copy.deepcopy(tree)
        result.in_flight.after = None
        after.play(result.in_flight)
    wrong = tree.differences(found, died)
    if wrong and after and not after.differences(found, died):
        tree, wrong, result.happened = after, [], True
    result.wrong += wrong
    if wrong and result.in_flight:
        result.wrong[-1] += f"; in flight was {result.in_flight}"
    result.tree = tree
    if not result.wrong:
        tree.settle(found)
    return result
