#!/usr/bin/python3 -B
# SPDX-License-Identifier: MIT
"""Several processes at random work on one tree, which is the same after mounting again.

Environment:
  SESSFS_TEST_SEED   what the random numbers begin with; it is printed
  SESSFS_STRESS_OPS  operations of each process
"""

import ctypes
import errno
import os
import random
import re
import stat

import harness
from crowd import run_together
from harness import append, errno_of, eventually, same, same_trees, tool, write

SEED = int(os.environ.get("SESSFS_TEST_SEED") or int.from_bytes(os.urandom(4), "big"))
OPS = harness.rounds("SESSFS_STRESS_OPS", 80, 250)
PROCESSES = 4
LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64]
AT_FDCWD, EXCHANGE = -100, 2
KEEP_SIZE, PUNCH_HOLE, ZERO_RANGE = 1, 2, 16

# Few names, so that processes meet: ordinary files and state files.
FILES = ("a", "b", "c", "doc.json", "list.jsonl", "more.jsonl", "side.hash")
FOLDERS = ("", "x", "y", "x/z")

# What two processes may do to each other's names.  ESTALE, EIO, EBUSY and so on are none of it.
MEETING = {
    errno.ENOENT,
    errno.EEXIST,
    errno.ENOTEMPTY,
    errno.ENOTDIR,
    errno.EISDIR,
    errno.EINVAL,  # a folder into itself; a link that is no link
    errno.EPERM,  # a second name of a state file
    errno.ENODATA,
    errno.ENXIO,  # a fifo without a reader
    errno.EPIPE,
    errno.EAGAIN,
    errno.ESPIPE,
    errno.ELOOP,
    errno.EOPNOTSUPP,
}
# What a daemon says that has no troubles.
EXPECTED = re.compile(r"is mounted on|WAL-reset bug|not JSON: |may lose commits when its machine")


def called(result):
    if result != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def text(rng):
    """Lines, some of which are not JSON; sometimes large."""
    lines = [
        rng.choice((b'{"n": %d}' % rng.randrange(100), b"[1, 2]", b"torn", b"", b"\xff\0"))
        for _ in range(rng.choice((1, 1, 3, 20, 3000)))
    ]
    return b"\n".join(lines) + rng.choice((b"", b"\n"))


class Worker:
    """Random operations below a folder that others work in, too."""

    def __init__(self, root, seed, meeting=frozenset(MEETING)):
        self.root = root
        self.rng = random.Random(seed)
        self.meeting = meeting
        self.done = 0

    def name(self):
        return os.path.join(self.root, self.rng.choice(FOLDERS), self.rng.choice(FILES))

    def folder(self):
        return os.path.join(self.root, self.rng.choice(FOLDERS[1:]))

    def with_open(self, flags, function):
        """Without O_NONBLOCK a fifo would wait for another process."""
        fd = os.open(self.name(), flags | os.O_NONBLOCK | os.O_NOFOLLOW, 0o644)
        try:
            function(fd)
        finally:
            os.close(fd)

    def step(self):
        operation = self.rng.choice(OPERATIONS)
        try:
            operation(self)
            self.done += 1
        except OSError as error:
            if error.errno not in self.meeting:
                raise AssertionError(f"{operation.__name__}: {error}") from error

    def save(self):
        with_text = text(self.rng)
        self.with_open(os.O_WRONLY | os.O_CREAT | os.O_TRUNC, lambda fd: harness.put(fd, with_text))

    def save_by_rename(self):
        path = os.path.join(self.root, f"tmp{os.getpid()}")
        write(path, text(self.rng))
        try:
            os.rename(path, self.name())
        except OSError:
            os.unlink(path)
            raise

    def append(self):
        lines = text(self.rng)
        self.with_open(os.O_WRONLY | os.O_CREAT | os.O_APPEND, lambda fd: harness.put(fd, lines))

    def write_inside(self):
        place = self.rng.randrange(100_000)
        bytes_ = text(self.rng)
        self.with_open(os.O_RDWR, lambda fd: os.pwrite(fd, bytes_, place))

    def read(self):
        self.with_open(os.O_RDONLY, lambda fd: os.read(fd, 1 << 20))

    def copy_range(self):
        def copy(source):
            flags = os.O_WRONLY | os.O_CREAT
            self.with_open(flags, lambda fd: os.copy_file_range(source, fd, 50_000))

        self.with_open(os.O_RDONLY, copy)

    def allocate(self):
        mode = self.rng.choice((0, KEEP_SIZE, PUNCH_HOLE | KEEP_SIZE, ZERO_RANGE))
        place, size = self.rng.randrange(80_000), 1 + self.rng.randrange(80_000)
        self.with_open(os.O_RDWR, lambda fd: called(LIBC.fallocate(fd, mode, place, size)))

    def sync(self):
        self.with_open(os.O_WRONLY, os.fsync)

    def truncate(self):
        path = self.name()
        if not stat.S_ISFIFO(os.lstat(path).st_mode):
            os.truncate(path, self.rng.choice((0, 1, 1000, 40_000)))

    def make_folder(self):
        os.mkdir(self.folder())

    def remove_folder(self):
        os.rmdir(self.folder())

    def list(self):
        for entry in os.scandir(os.path.dirname(self.name())):
            errno_of(entry.stat, follow_symlinks=False)

    def unlink(self):
        os.unlink(self.name())

    def rename(self):
        os.rename(self.name(), self.name())

    def rename_folder(self):
        os.rename(self.folder(), self.folder())

    def exchange(self):
        paths = [os.fsencode(self.name()) for _ in range(2)]
        called(LIBC.renameat2(AT_FDCWD, paths[0], AT_FDCWD, paths[1], EXCHANGE))

    def link(self):
        os.link(self.name(), self.name(), follow_symlinks=False)

    def symlink(self):
        os.symlink(self.rng.choice(FILES) + "x", self.name())

    def fifo(self):
        os.mkfifo(self.name())

    def chmod(self):
        os.chmod(self.name(), self.rng.choice((0o600, 0o640, 0o755)))

    def set_times(self):
        when = self.rng.randrange(1 << 60)
        os.utime(self.name(), ns=(when, when), follow_symlinks=False)

    def set_attribute(self):
        os.setxattr(self.name(), "user.x", b"%d" % self.rng.randrange(100))

    def remove_attribute(self):
        os.removexattr(self.name(), "user.x")


MANY = (Worker.save, Worker.append, Worker.unlink, Worker.rename, Worker.link, Worker.make_folder)
OPERATIONS = 2 * MANY + (
    Worker.save_by_rename,
    Worker.write_inside,
    Worker.read,
    Worker.copy_range,
    Worker.allocate,
    Worker.sync,
    Worker.truncate,
    Worker.remove_folder,
    Worker.list,
    Worker.rename_folder,
    Worker.exchange,
    Worker.symlink,
    Worker.fifo,
    Worker.chmod,
    Worker.set_times,
    Worker.set_attribute,
    Worker.remove_attribute,
)


def work(root, seed, meeting=frozenset(MEETING)):
    worker = Worker(root, seed, meeting)
    for _ in range(OPS):
        worker.step()
    assert worker.done, f"none of {OPS} operations was any"


def manifest(root, times):
    """All that a tree holds, with numbers, attributes and all times if they are wanted."""
    found = harness.tree(root, times=times)
    for path, entry in found.items():
        whole = os.path.join(root, path)
        status = os.lstat(whole)
        entry["number"] = status.st_ino
        if times:
            entry["ctime"] = status.st_ctime_ns
        if entry["type"] in ("file", "directory"):
            entry["attributes"] = {name: os.getxattr(whole, name) for name in os.listxattr(whole)}
    return found


def descriptors(mount):
    return len(os.listdir(f"/proc/{mount.pid}/fd"))


def said(mount):
    return [line for line in mount.log().splitlines() if not EXPECTED.search(line)]


def work_and_compare(box, again, times):
    """again: ends the daemon and mounts once more."""
    box.note(f"SESSFS_TEST_SEED={SEED}, {OPS} operations of each of {PROCESSES} processes")
    mount, session = box.session()
    before = descriptors(mount)
    run_together([(work, session, f"{SEED} {number}") for number in range(PROCESSES)])
    assert descriptors(mount) - before < 32, f"{before} descriptors, then {descriptors(mount)}"
    same(said(mount), [], "what the daemon says")
    expected = manifest(session, times)
    assert len(expected) > 5, f"only {sorted(expected)} are there"
    again(mount)
    same_trees(expected, manifest(session, times), "after mounting again: ")
    same(said(mount), [], "what the daemon says when it is mounted again")
    mount.stop()
    mount.check()


def test_a_tree_is_the_same_after_mounting_again(box):
    work_and_compare(box, lambda mount: mount.remount(), True)


# Times of appends are in memory for a second.
def test_a_tree_is_the_same_after_the_daemon_was_killed(box):
    def kill(mount):
        mount.kill9()
        mount.start()

    work_and_compare(box, kill, False)


# Linux cannot follow what another mount has just moved or removed.
BESIDE = frozenset(MEETING | {errno.ESTALE})


def test_two_mounts_show_the_same_tree_after_work_on_both(box):
    box.note(f"SESSFS_TEST_SEED={SEED}, {OPS} operations of each of {PROCESSES} processes")
    one, session = box.session()
    two = box.mount(store=one.store)
    roots = [session, two.at(os.path.basename(session))]
    jobs = [(work, roots[number % 2], f"{SEED} {number}", BESIDE) for number in range(PROCESSES)]
    run_together(jobs)
    expected = manifest(roots[0], False)
    assert len(expected) > 5, f"only {sorted(expected)} are there"
    eventually(lambda: manifest(roots[0], False) == manifest(roots[1], False), "the same tree")
    two.stop()
    one.remount()
    same_trees(expected, manifest(roots[0], False), "after mounting again: ")
    one.stop()
    one.check()


DAMAGES = {
    "bytes": lambda path: write(path, b"b"),
    "mode": lambda path: os.chmod(path, 0o600),
    "mtime": lambda path: os.utime(path, ns=(1, 1)),
    "attributes": lambda path: os.setxattr(path, "user.y", b"1"),
    "links": lambda path: os.link(path, path + "-too"),
    "number": lambda path: os.rename(path + "-other", path),
    "name": lambda path: os.unlink(path),
}


def test_the_comparison_notices_what_has_changed(box):
    _, session = box.session()
    for name, damage in DAMAGES.items():
        path = os.path.join(session, name)
        write(path, b"a")
        write(path + "-other", b"a")
        expected = manifest(session, True)
        same_trees(expected, manifest(session, True))
        damage(path)
        found = manifest(session, True)
        field = found.get(name, {}).get(name)
        assert field != expected[name].get(name, ""), f"{name} is the same"
        try:
            same_trees(expected, found)
        except AssertionError:
            continue
        raise AssertionError(f"{name} has changed, and nothing is said")


def test_a_file_of_blank_lines_is_quickly_read(box):
    """Not a piece of the store for each line."""
    mount, session = box.session()
    blank = b"\n" * 1_000_000
    path = os.path.join(session, "list.jsonl")
    for how in (write, append):
        write(path, b"{}\n" if how is append else b"")
        how(path, blank)
        pieces = mount.sql("SELECT count(*) FROM sessfs_piece")[0][0]
        assert pieces < 100, f"{how.__name__}: {pieces} pieces"
        same(harness.read(path)[-len(blank) :], blank, how.__name__)


def test_who_writes_an_ordinary_file_goes_on_when_it_becomes_a_state(box):
    """Its writes go through the kernel's pages, which nobody may wait for meanwhile."""
    mount, session = box.session()
    plain, path = os.path.join(session, "a"), os.path.join(session, "list.jsonl")

    def write_on():
        fd = os.open(plain, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.write(fd, b"1\n")
        os.rename(plain, path)
        for number in range(2, 50):
            os.write(fd, b"%d\n" % number)
        os.close(fd)

    # A process of its own, so that an unanswered write does not hold the test up.
    child = os.fork()
    if child == 0:
        write_on()
        os._exit(0)
    try:
        eventually(lambda: os.waitpid(child, os.WNOHANG)[0] == child, "all is written")
    except AssertionError:
        tool("umount", "-f", mount.path, check=False)
        raise
    same(harness.read(path), b"".join(b"%d\n" % number for number in range(1, 50)), "the list")


def test_space_that_is_not_there_is_not_allocated(box):
    _, session = box.session(options=["max_size=100M"])
    path = os.path.join(session, "a")
    write(path, b"a")
    with open(path, "r+b") as file:
        for mode in (0, KEEP_SIZE):
            call = lambda: called(LIBC.fallocate(file.fileno(), mode, 0, 1 << 30))
            same(errno_of(call), errno.ENOSPC, f"fallocate of 1 GB with mode {mode}")
        called(LIBC.fallocate(file.fileno(), 0, 0, 1 << 20))
    same(os.path.getsize(path), 1 << 20, "the size")


if __name__ == "__main__":
    harness.main(globals())
