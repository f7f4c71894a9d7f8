# SPDX-License-Identifier: MIT
"""Scripts of two who share an open file, made by combination: how it is opened, how the other one
comes by it and holds it, what the other one does, and who closes first.

A script is a list of steps (who, what, argument ...), done one after the other and each to many
files at once: a file of each kind, new and with old content, on a disk and on a mount.  "one" has
opened the files by name; "other" is another process or thread, which does what it is told through
a line.  A step returns what was seen, or the number of the error.
"""

import ctypes
import errno
import fcntl
import mmap
import multiprocessing
import os
import signal
import socket
import threading
import traceback

from test_files import fallocate

OPENS = {
    "<": os.O_RDONLY,
    "in place": os.O_WRONLY,
    ">": os.O_WRONLY | os.O_TRUNC,
    ">>": os.O_WRONLY | os.O_APPEND,
    "<>": os.O_RDWR,
    "+>": os.O_RDWR | os.O_TRUNC,
    "+>>": os.O_RDWR | os.O_APPEND,
}

# What one, other, one and other write, in this order.
WORDS = {
    "a document": (b"[1, ", b"2, ", b"3, ", b"4]"),
    "lines": (b'{"a": 1}\n', b"[2]\n", b"3\n", b"4\n"),
    "torn lines": (b"[1]\n[2", b"]\n[3", b", 4]\n", b"[5]"),
    "text": (b"one", b"\n\n{\n", b'two"', b"\n\nthree\n"),
    "nothing first": (b"", b"[1,\n2]", b"\n", b"[3]\n"),
}

# What other does; "2" stands for the second word.
DEEDS = {
    "writes": [("write", "2")],
    "writes twice, one between": [("write", "2"), ("one", "write", b"7"), ("write", b"8")],
    "syncs between": [("write", "2"), ("sync",), ("write", b" ")],
    "leaves a gap": [("pwrite", "2", 60)],
    "writes over": [("pwrite", "2", 1), ("end",), ("write", b" ")],
    "moves the offset of both": [("seek", 2), ("one", "write", b"7"), ("write", "2")],
    "cuts, then writes": [("cut", 3), ("write", "2")],
    "cuts the path": [("write", "2"), ("cut path", 3), ("look",), ("write", b" ")],
    "lengthens": [("cut", 30), ("look",), ("end",), ("write", "2")],
    "lengthens the path": [("cut path", 30), ("look",), ("write", "2")],
    "empties": [("write", "2"), ("cut", 0), ("write", "2")],
    "reads again": [("write", "2"), ("read again",)],
    "writes by another": [("again", os.O_WRONLY, "2"), ("look",), ("write", b" ")],
    "appends by another": [("again", os.O_RDWR | os.O_APPEND, "2"), ("look",), ("write", b" ")],
    "empties by another": [("again", os.O_RDWR | os.O_TRUNC, "2"), ("look",), ("write", b" ")],
    "reads by O_PATH": [("write", "2"), ("by path", os.O_RDONLY, b"")],
    "writes by O_PATH": [("by path", os.O_RDWR, "2"), ("write", b" ")],
    "empties by O_PATH": [("write", "2"), ("by path", os.O_WRONLY | os.O_TRUNC, "2")],
    "cuts by O_PATH": [("write", "2"), ("cut by path", 3), ("look",), ("write", b" ")],
    "gives a second name": [("write", "2"), ("link",), ("write", b" ")],
    "appends from now on": [("appends", True), ("seek", 1), ("write", "2"), ("one", "write", b"7")],
    "appends for a while": [("appends", True), ("appends", False), ("pwrite", "2", 1)],
    "appends once": [("append once", "2"), ("look",), ("write", b" ")],
    "maps": [("write", "2"), ("map",)],
    "watches a mapping": [("map held",), ("one", "pwrite", b"7", 1), ("map seen",)],
    "changes a mapping": [("write", "2"), ("map changed", b"7", 1), ("write", b" ")],
    "sends": [("write", "2"), ("send",), ("write", b" ")],
    "is sent to": [("sent", "2"), ("write", b" ")],
    "splices": [("splice", "2"), ("write", b" ")],
    "copies out": [("write", "2"), ("copy out",), ("write", b" ")],
    "copies within": [("write", "2"), ("copy within", 0, 8, 4), ("write", b" ")],
    "puts a duplicate over it": [("write", "2"), ("dup over",), ("write", b" ")],
    "puts another over it": [("write", "2"), ("open over", os.O_RDWR), ("write", b"8")],
    "allocates": [("write", "2"), ("allocate", 0, 40), ("look",), ("write", b" ")],
    "makes a hole": [("write", "2"), ("hole", 1, 2), ("look",), ("write", b" ")],
    "makes zeros": [("write", "2"), ("zeros", 2, 20), ("look",), ("write", b" ")],
    "locks": [("lock",), ("write", "2"), ("unlock",), ("write", b" ")],
    "renames": [("write", "2"), ("rename",), ("look",), ("write", b" ")],
    "unlinks": [("write", "2"), ("unlink",), ("look",), ("write", b" ")],
    "is renamed meanwhile": [("write", "2"), ("one", "rename"), ("write", b" "), ("look",)],
}

ENDS = {
    "one closes first": [("one", "close"), ("other", "write", "4"), ("other", "close")],
    "other closes first": [("other", "close"), ("one", "write", "3"), ("one", "close")],
    "other closes, one syncs": [("other", "close"), ("one", "write", "3"), ("one", "sync")],
    "other is killed": [("other", "killed"), ("one", "write", "3"), ("one", "close")],
    "other ends last": [("one", "close"), ("other", "write", "4"), ("other", "ends")],
    "other is killed last": [("one", "close"), ("other", "write", "4"), ("other", "killed")],
}


# One file, as one of the two holds it


class Hand:
    def __init__(self, path, fd):
        self.path = path
        self.fd = fd
        self.more = []
        self.view = None

    def close(self):
        if self.view:
            self.view.close()
        for fd in (self.fd, *self.more):
            os.close(fd)
        self.fd, self.more, self.view = -1, [], None


def again(fd, flags):
    return os.open(f"/proc/self/fd/{fd}", flags)


def attempt(function, *arguments):
    try:
        return function(*arguments)
    except OSError as error:
        return errno.errorcode[error.errno]


def whole(fd):
    return os.pread(fd, 4096, 0)


def look(hand):
    status = os.fstat(hand.fd)
    offset = attempt(os.lseek, hand.fd, 0, os.SEEK_CUR)
    return status.st_size, status.st_nlink, offset, attempt(whole, hand.fd)


def used(fd, data):
    """Writes to a descriptor of its own, if it has something to write, looks, and closes it."""
    try:
        if data:
            os.write(fd, data)
        return os.fstat(fd).st_size, attempt(whole, fd)
    finally:
        os.close(fd)


def by_path(hand, flags, data):
    path = again(hand.fd, os.O_PATH)
    try:
        before = os.fstat(path).st_size
        seen = attempt(used, again(path, flags), data)
        return before, seen, os.fstat(path).st_size
    finally:
        os.close(path)


def cut_by_path(hand, size):
    path = again(hand.fd, os.O_PATH)
    try:
        os.truncate(f"/proc/self/fd/{path}", size)
        return os.fstat(path).st_size
    finally:
        os.close(path)


def link(hand):
    """linkat(2) with AT_SYMLINK_FOLLOW, which os.link() gives only with a directory."""
    name = hand.path + ".link"
    os.link(f"/proc/self/fd/{hand.fd}", name, src_dir_fd=hand.fd)
    seen = os.stat(name).st_size, os.fstat(hand.fd).st_nlink
    os.unlink(name)
    return seen


def rename(hand):
    folder, name = os.path.split(hand.path)
    os.rename(hand.path, os.path.join(folder, "moved-" + name))


def appends(hand, on):
    flags = fcntl.fcntl(hand.fd, fcntl.F_GETFL)
    fcntl.fcntl(hand.fd, fcntl.F_SETFL, flags | os.O_APPEND if on else flags & ~os.O_APPEND)


def mapped(hand, *how):
    size = os.fstat(hand.fd).st_size
    return mmap.mmap(hand.fd, size, *how) if size else None


def map_whole(hand):
    view = mapped(hand, mmap.MAP_PRIVATE, mmap.PROT_READ)
    return view and view[:]


def map_held(hand):
    hand.view = mapped(hand, mmap.MAP_SHARED, mmap.PROT_READ)
    return hand.view and hand.view[:]


def map_changed(hand, data, at):
    view = mapped(hand, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)
    if not view or len(view) < at + len(data):
        return None
    with view:
        view[at : at + len(data)] = data
        view.flush()
    return attempt(whole, hand.fd)


def send(hand):
    """By sendfile(2), which reads through the page cache."""
    into = os.memfd_create("sent")
    try:
        done = os.sendfile(into, hand.fd, 0, 4096)
        return done, whole(into)
    finally:
        os.close(into)


def sent(hand, data):
    source = os.memfd_create("source")
    try:
        os.write(source, data)
        return os.sendfile(hand.fd, source, 0, len(data))
    finally:
        os.close(source)


def splice(hand, data):
    out, into = os.pipe()
    try:
        os.write(into, data)
        return os.splice(out, hand.fd, len(data))
    finally:
        os.close(out)
        os.close(into)


def copy_out(hand):
    """To a file beside it: between filesystems there is no copying."""
    name = hand.path + ".copy"
    into = os.open(name, os.O_RDWR | os.O_CREAT)
    try:
        done = os.copy_file_range(hand.fd, into, 4096, 0, 0)
        return done, whole(into)
    finally:
        os.close(into)
        os.unlink(name)


def copy_within(hand, at, to, size):
    return os.copy_file_range(hand.fd, hand.fd, size, at, to), attempt(whole, hand.fd)


def put_over(hand, new):
    try:
        os.dup2(new, hand.fd)
    finally:
        os.close(new)


KEEP_SIZE, PUNCH_HOLE, ZERO_RANGE = 1, 2, 16
NEW_MOUNTS, NEW_USERS, NEW_PIDS = 0x20000, 0x10000000, 0x20000000
RECURSIVE, PRIVATE = 0x4000, 0x40000
library = ctypes.CDLL(None, use_errno=True)


def called(result):
    if result < 0:
        raise OSError(ctypes.get_errno(), "a call of the library")


STEPS = {
    "look": look,
    "by name": lambda hand: used(os.open(hand.path, os.O_RDONLY), b""),
    "write": lambda hand, data: os.write(hand.fd, data),
    "pwrite": lambda hand, data, at: os.pwrite(hand.fd, data, at),
    "sync": lambda hand: os.fsync(hand.fd),
    "seek": lambda hand, at: os.lseek(hand.fd, at, os.SEEK_SET),
    "end": lambda hand: os.lseek(hand.fd, 0, os.SEEK_END),
    "cut": lambda hand, size: os.ftruncate(hand.fd, size),
    "cut path": lambda hand, size: os.truncate(f"/proc/self/fd/{hand.fd}", size),
    "cut by path": cut_by_path,
    "read again": lambda hand: used(again(hand.fd, os.O_RDONLY), b""),
    "again": lambda hand, flags, data: used(again(hand.fd, flags), data),
    "by path": by_path,
    "link": link,
    "rename": rename,
    "unlink": lambda hand: os.unlink(hand.path),
    "appends": appends,
    "append once": lambda hand, data: os.pwritev(hand.fd, [data], 0, os.RWF_APPEND),
    "map": map_whole,
    "map held": map_held,
    "map seen": lambda hand: hand.view and hand.view[:],
    "map changed": map_changed,
    "send": send,
    "sent": sent,
    "splice": splice,
    "copy out": copy_out,
    "copy within": copy_within,
    "dup over": lambda hand: put_over(hand, os.dup(hand.fd)),
    "open over": lambda hand, flags: put_over(hand, again(hand.fd, flags)),
    "allocate": lambda hand, at, size: os.posix_fallocate(hand.fd, at, size),
    "hole": lambda hand, at, size: fallocate(hand.fd, PUNCH_HOLE | KEEP_SIZE, at, size),
    "zeros": lambda hand, at, size: fallocate(hand.fd, ZERO_RANGE, at, size),
    "lock": lambda hand: fcntl.flock(hand.fd, fcntl.LOCK_EX | fcntl.LOCK_NB),
    "unlock": lambda hand: fcntl.flock(hand.fd, fcntl.LOCK_UN),
    "close": Hand.close,
}


def act(hands, step):
    return [attempt(STEPS[step[0]], hand, *step[1:]) for hand in hands]


# How other holds a file that it has come by


def hold_same(hand):
    pass


def hold_beside(hand):
    hand.more, hand.fd = [hand.fd], again(hand.fd, os.O_RDWR)


def hold_instead(hand):
    hold_beside(hand)
    os.close(hand.more.pop())


def hold_by_path(hand):
    path = again(hand.fd, os.O_PATH)
    os.close(hand.fd)
    hand.fd = again(path, os.O_RDWR)
    hand.more = [path]


HOLDS = {
    "as it is": hold_same,
    "and one of its own": hold_beside,
    "by one of its own": hold_instead,
    "by O_PATH": hold_by_path,
}


def serve(hands, hold, line):
    for hand in hands:
        hold(hand)
    line.send("ready")
    while (step := line.recv()) is not None:
        line.send(act(hands, step))


# How other comes by the files: a function of the hands that returns the number of its process


def forked(function, *arguments):
    pid = os.fork()
    if pid == 0:
        try:
            function(*arguments)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(0)
    return pid


def own_hands(hands):
    return [Hand(hand.path, hand.fd) for hand in hands]


def by_fork(hands, hold, line):
    return forked(serve, own_hands(hands), hold, line)


def by_socket(hands, hold, line):
    """Sent to a process that was there before the files were opened, as far as it knows."""
    ours, theirs = socket.socketpair()

    def receive():
        for hand in hands:
            os.close(hand.fd)
        fds = socket.recv_fds(theirs, 1, len(hands))[1]
        serve([Hand(hand.path, fd) for hand, fd in zip(hands, fds)], hold, line)

    pid = forked(receive)
    socket.send_fds(ours, [b"."], [hand.fd for hand in hands])
    ours.close()
    theirs.close()
    return pid


def by_thread(hands, hold, line):
    copies = [Hand(hand.path, os.dup(hand.fd)) for hand in hands]
    threading.Thread(target=serve, args=(copies, hold, line)).start()


def leave_namespaces(flags):
    called(library.unshare(flags | (NEW_USERS if os.geteuid() else 0)))


def own_proc():
    called(library.mount(b"none", b"/", None, RECURSIVE | PRIVATE, None))
    called(library.mount(b"proc", b"/proc", b"proc", 0, None))


def in_namespace(hands, hold, line, also=0, prepare=lambda: None):
    """A process that goes between makes the namespace, and waits for the one in it."""
    ours, theirs = os.pipe()

    def inside():
        prepare()
        serve(own_hands(hands), hold, line)

    def between():
        leave_namespaces(NEW_PIDS | also)
        pid = forked(inside)
        for hand in hands:
            os.close(hand.fd)
        line.close()
        os.write(theirs, str(pid).encode())
        os.waitpid(pid, 0)

    waiting = forked(between)
    os.close(theirs)
    pid = int(os.read(ours, 20))
    os.close(ours)
    return waiting, pid


def in_own_proc(hands, hold, line):
    return in_namespace(hands, hold, line, NEW_MOUNTS, own_proc)


SHARES = {
    "a child": by_fork,
    "a process that is sent it": by_socket,
    "a thread": by_thread,
    "another pid namespace": in_namespace,
    "another pid namespace with its /proc": in_own_proc,
}


class Other:
    def __init__(self, hands, share, hold):
        self.line, theirs = multiprocessing.Pipe()
        shared = SHARES[share](hands, HOLDS[hold], theirs)
        self.waiting, self.pid = shared if isinstance(shared, tuple) else (shared, shared)
        if self.pid:
            theirs.close()
        self.line.recv()

    def act(self, step):
        self.line.send(step)
        return self.line.recv()

    def end(self, kill=False):
        if self.line.closed:
            return
        if kill:
            os.kill(self.pid, signal.SIGKILL)
        else:
            self.line.send(None)
        if self.waiting:
            os.waitpid(self.waiting, 0)
        self.line.close()


def namespaces_work():
    """Whether processes here may have a pid namespace and a /proc of their own."""

    def inside():
        leave_namespaces(NEW_PIDS | NEW_MOUNTS)
        probe = os.fork()
        if probe == 0:
            own_proc()
            os._exit(9)
        os._exit(os.waitstatus_to_exitcode(os.waitpid(probe, 0)[1]))

    return os.waitstatus_to_exitcode(os.waitpid(forked(inside), 0)[1]) == 9


# Playing


def script(words, deed, end):
    """The steps in their order, with the words in their places."""
    steps = [("one", "write", "1"), ("other", "look")]
    steps += [step if step[0] == "one" else ("other", *step) for step in DEEDS[deed]]
    steps += [("one", "look"), ("other", "look"), ("one", "by name"), *ENDS[end]]
    word = lambda part: WORDS[words][int(part) - 1] if isinstance(part, str) else part
    return [(*step[:2], *map(word, step[2:])) for step in steps]


def play(paths, way, share, hold, steps, watch):
    """Returns what was seen at each step; watch is called after each."""
    hands = [Hand(path, os.open(path, OPENS[way] | os.O_CREAT, 0o644)) for path in paths]
    watch()
    other = Other(hands, share, hold)
    seen = []
    for who, *step in steps:
        if who == "one":
            seen.append(act(hands, step))
        elif step[0] in ("ends", "killed"):
            other.end(kill=step == ["killed"])
            seen.append([None] * len(hands))
        else:
            seen.append(other.act(step))
        watch()
    other.end()
    act(hands, ("close",))
    watch()
    return seen
