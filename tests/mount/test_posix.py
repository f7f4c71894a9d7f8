#!/usr/bin/python3 -B
# SPDX-License-Identifier: MIT
"""What POSIX and Linux say of files beyond the everyday: limits, users, times, sparse files."""

import ctypes
import errno
import json
import mmap
import os
import random
import resource
import signal
import stat
import tempfile
import threading

import harness
from harness import (
    append,
    errno_of,
    eventually,
    need_root,
    put,
    read,
    same,
    same_lists,
    same_trees,
    tool,
    tree,
    write,
)
from test_files import (
    AT_FDCWD,
    CONTENT,
    EXCHANGE,
    LIBC,
    NAMES,
    NOREPLACE,
    Script,
    fallocate,
    renameat2,
)
from users import users

NOBODY = 65534
KEEP_SIZE, PUNCH_HOLE, COLLAPSE, ZERO_RANGE, INSERT = 1, 2, 8, 16, 32
SECOND = 10**9

LIBC.opendir.restype = ctypes.c_void_p
LIBC.opendir.argtypes = [ctypes.c_char_p]
LIBC.closedir.argtypes = [ctypes.c_void_p]
LIBC.telldir.restype = ctypes.c_long
LIBC.telldir.argtypes = [ctypes.c_void_p]
LIBC.seekdir.argtypes = [ctypes.c_void_p, ctypes.c_long]
LIBC.rewinddir.argtypes = [ctypes.c_void_p]
LIBC.readdir.argtypes = [ctypes.c_void_p]


class Dirent(ctypes.Structure):
    _fields_ = [
        ("ino", ctypes.c_uint64),
        ("off", ctypes.c_int64),
        ("reclen", ctypes.c_uint16),
        ("type", ctypes.c_uint8),
        ("name", ctypes.c_char * 256),
    ]


LIBC.readdir.restype = ctypes.POINTER(Dirent)


class Dir:
    """A directory as readdir(3) shows it."""

    def __init__(self, path):
        self.stream = LIBC.opendir(os.fsencode(path))
        assert self.stream, "opendir has failed"

    def next(self):
        """The next name but dots; None at the end."""
        while True:
            entry = LIBC.readdir(self.stream)
            if not entry:
                return None
            if entry.contents.name not in (b".", b".."):
                return os.fsdecode(entry.contents.name)

    def rest(self):
        return list(iter(self.next, None))

    def tell(self):
        return LIBC.telldir(self.stream)

    def seek(self, place):
        LIBC.seekdir(self.stream, place)

    def rewind(self):
        LIBC.rewinddir(self.stream)

    def close(self):
        LIBC.closedir(self.stream)


def on_both(box, play):
    """Plays on a plain folder and on a session that all may use, and compares what they saw."""
    os.chmod(box.folder, 0o755)
    plain = Script(box.new_folder("plain"))
    mount, session = box.session(options=["allow_other"] if os.geteuid() == 0 else [])
    real = Script(session)
    play(plain)
    play(real)
    same_lists(plain.seen, real.seen, "on the mount")
    return mount, plain, real


def as_user(function, *arguments, user=NOBODY, group=NOBODY, groups=()):
    """Calls it in a process of that user; returns its result, or the name of its error."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgroups(groups)
            os.setresgid(group, group, group)
            os.setresuid(user, user, user)
            result = function(*arguments)
        except OSError as error:
            result = errno.errorcode[error.errno]
        except BaseException as error:
            result = repr(error)
        put(writing, json.dumps(result).encode())
        os._exit(0)
    os.close(writing)
    with open(reading, "rb") as pipe:
        data = pipe.read()
    os.waitpid(child, 0)
    return json.loads(data)


def made(path, data=b"x", mode=0o644, owner=None):
    write(path, data)
    if owner is not None:
        os.chown(path, *owner)
    os.chmod(path, mode)


def mode_of(path):
    return oct(os.lstat(path).st_mode)


# Links


def test_links_to_files_of_every_kind_count_and_share_an_inode(box):
    def play(script):
        script.do(write, "/file", b"1")
        script.do(os.symlink, "file", "/soft")
        script.do(os.mkfifo, "/fifo")
        script.do(os.mkdir, "/d")
        for name in ("file", "soft", "fifo"):
            script.do(os.link, "/" + name, f"/d/{name}", follow_symlinks=False)
            script.stat(name)
            script.stat("d/" + name)
            numbers = [os.lstat(script.at(*path)).st_ino for path in ((name,), ("d", name))]
            script.see("one inode", numbers[0] == numbers[1])
        script.do(os.link, "/soft", "/followed", follow_symlinks=True)
        script.stat("followed")
        script.do(os.link, "/d/", "/e")
        script.do(os.link, "/file", "/none/x")
        script.do(os.link, "/none", "/x")
        script.do(os.link, "/file", "/slash/")
        script.do(os.link, "/file", "/" + "x" * 256)
        script.do(os.readlink, "/d/soft")
        script.do(os.unlink, "/soft")
        script.do(os.readlink, "/d/soft")
        script.do(os.rename, "/file", "/d/file")
        script.list()
        fd = script.open("gone", os.O_RDWR | os.O_CREAT)
        os.unlink(script.at("gone"))
        source = f"/proc/self/fd/{fd}"
        error = errno_of(os.link, source, script.at("back"), follow_symlinks=True)
        script.see("a link to what has no name", errno.errorcode[error])
        os.close(fd)

    on_both(box, play)


def test_whichever_of_its_names_goes_a_store_with_links_is_sound(box):
    mount, session = box.session()
    rng = random.Random(15)
    names = [os.path.join(session, name) for name in "abcdef"]
    os.mkdir(os.path.join(session, "folder"))
    names += [os.path.join(session, "folder", name) for name in "gh"]
    for step in range(60):
        one, other = rng.sample(names, 2)
        action = rng.randrange(5)
        if not os.path.exists(one):
            write(one, b"%d" % step)
        elif action < 2 and not os.path.exists(other):
            os.link(one, other)
        elif action == 2:
            os.unlink(one)
        elif action == 3:
            os.rename(one, other)
        elif os.path.exists(other):
            renameat2(one, other, EXCHANGE)
        if step % 10 == 9:
            mount.check()
    before = tree(session)
    mount.remount()
    same_trees(before, tree(session), "after mounting again: ")
    mount.check()


def test_500_links_to_one_file_are_counted_down_to_none(box):
    mount, session = box.session()
    first = os.path.join(session, "0")
    write(first, b"shared")
    fd = os.open(first, os.O_RDWR)
    for number in range(1, 500):
        os.link(first, os.path.join(session, f"{number}"))
    same(os.fstat(fd).st_nlink, 500, "links")
    for number in range(500):
        os.unlink(os.path.join(session, f"{number}"))
    same(os.fstat(fd).st_nlink, 0, "links after all are gone")
    same(os.pread(fd, 10, 0), b"shared", "what is open")
    os.close(fd)
    os.rmdir(session)
    mount.check()


def test_symlinks_of_every_length_are_followed_as_far_as_40(box):
    def play(script):
        script.do(write, "/file", b"1")
        for length in (1, 255, 256, 1023, 4094, 4095, 4096):
            script.do(os.symlink, "x" * length, f"/s{length}")
            script.stat(f"s{length}")
        script.do(os.symlink, "./" * 2045 + "file", "/long")
        script.do(read, "/long")
        before = "file"
        for number in range(42):
            script.do(os.symlink, before, f"/chain{number}")
            before = f"chain{number}"
        script.do(read, "/chain39")
        script.do(read, "/chain40")
        script.do(os.open, "/chain0", os.O_RDONLY | os.O_NOFOLLOW)
        script.do(os.open, "/chain0", os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        script.do(os.rename, "/chain0", "/file")
        script.stat("file")
        script.do(read, "/chain1")
        script.do(os.readlink, "/chain1")
        script.do(os.chmod, "/none", 0o600)
        script.do(os.rmdir, "/chain1")
        script.do(os.mkdir, "/d")
        script.do(os.symlink, "d", "/to-d")
        script.do(os.rmdir, "/to-d/")
        script.do(os.mkdir, "/to-d/e")
        script.do(os.rename, "/d", "/to-d")
        script.list("d")

    on_both(box, play)


# Opening and unlinking


EXCLUSIVE = 30


def test_of_many_that_create_a_file_exclusively_one_wins(box):
    mount, session = box.session()
    for name in ("plain", "k.json", "l.jsonl"):
        won = []
        for round_ in range(EXCLUSIVE):
            path = os.path.join(session, f"{round_}-{name}")
            barrier = threading.Barrier(4)

            def create(path=path, barrier=barrier):
                barrier.wait()
                flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY
                error = errno_of(lambda: os.close(os.open(path, flags)))
                won.append({0: 1, errno.EEXIST: 0}.get(error, error * 1000))

            threads = [threading.Thread(target=create) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        same((len(won), sum(won)), (4 * EXCLUSIVE, EXCLUSIVE), f"who created {name}")


# Whether libfuse has the operation: the tests of either case are skipped with the other.
def need_nameless(wanted):
    if (harness.library() >= (3, 17)) != wanted:
        raise harness.Skip(f"is for a libfuse {'with' if wanted else 'without'} O_TMPFILE")


def name_it(fd, path):
    # Only with a descriptor of a folder does Python follow the link, which is an absolute one.
    os.link(f"/proc/self/fd/{fd}", path, src_dir_fd=fd, follow_symlinks=True)


def test_a_file_without_a_name_is_refused_cleanly_by_an_old_library(box):
    need_nameless(False)
    mount, session = box.session()
    for flags in (os.O_RDWR, os.O_WRONLY | os.O_EXCL):
        error = errno_of(os.open, session, os.O_TMPFILE | flags, 0o600)
        same(errno.errorcode[error], "ENOTSUP", "O_TMPFILE")


def test_a_file_without_a_name_is_one_of_a_local_file_system(box):
    need_nameless(True)

    def play(script):
        flags = os.O_TMPFILE | os.O_RDWR
        os.mkdir(script.at("d"))
        os.chmod(script.at("d"), 0o2750)
        os.chown(script.at("d"), 0, 1234)
        before = os.stat(script.at("d"))
        for mode in (0o600, 0o4711, 0o2770):
            fd = script.open("d", flags, mode)
            status = os.fstat(fd)
            script.see("made", oct(status.st_mode), status.st_nlink, status.st_size, status.st_gid)
            os.close(fd)
        fd = script.open("d", flags, 0o640)
        put(fd, b"0123456789" * 10000)
        script.do(os.pread, fd, 10, 99990)
        script.do(os.ftruncate, fd, 50005)
        script.do(os.setxattr, fd, "user.x", b"1")
        same_time = os.stat(script.at("d")).st_mtime_ns == before.st_mtime_ns
        script.see(os.listdir(script.at("d")), same_time)
        os.mkdir(script.at("taken"))
        script.see("taken", errno_of(name_it, fd, script.at("taken")))
        script.do(name_it, fd, "/d/named")
        script.do(name_it, fd, "/second")
        script.see(os.fstat(fd).st_nlink, os.stat(script.at("second")).st_size)
        os.unlink(script.at("d/named"))
        os.unlink(script.at("second"))
        script.see("unlinked", os.fstat(fd).st_nlink, errno_of(name_it, fd, script.at("third")))
        script.do(os.pread, fd, 10, 50000)
        os.close(fd)
        fd = script.open("d", flags | os.O_EXCL, 0o640)
        script.see("O_EXCL", errno_of(name_it, fd, script.at("never")))
        os.close(fd)
        fd = script.open(".", os.O_TMPFILE | os.O_WRONLY, 0o640)
        put(fd, b"kept")
        script.do(name_it, fd, "/kept")
        put(fd, b" more")
        os.close(fd)
        script.list()

    mount, _, _ = on_both(box, play)
    mount.remount()
    mount.check()


def test_the_first_name_of_a_file_makes_it_a_state_file_with_all_its_bytes(box):
    need_nameless(True)
    mount, session = box.session()
    for name, data in (("k.json", b'{"a": 1}'), ("l.jsonl", b"1\n2\n3\n")):
        path = os.path.join(session, name)
        fd = os.open(session, os.O_TMPFILE | os.O_WRONLY, 0o600)
        put(fd, data)
        same(mount.rows("s", name[0]), [], "rows of a file without a name")
        name_it(fd, path)
        same(read(path), data, name)
        same(mount.rows("s", name[0]), data.splitlines(), f"rows of {name}")
        same(errno.errorcode[errno_of(name_it, fd, path + "x")], "EPERM", "a second name")
        put(fd, b"\n4\n")
        os.close(fd)
        same(read(path), data + b"\n4\n", f"{name} when its maker has written more")
        same(os.stat(path).st_nlink, 1, "links")
        write(path, b"[2]")
        same(mount.rows("s", name[0]), [b"[2]"], "rows after a save")
    mount.remount()
    same(sorted(os.listdir(session)), ["k.json", "l.jsonl"], "names")
    mount.check()


def test_a_file_without_a_name_is_gone_after_a_kill(box):
    need_nameless(True)
    mount, session = box.session()
    fd = os.open(session, os.O_TMPFILE | os.O_RDWR, 0o600)
    put(fd, b"x" * 100000)
    os.fsync(fd)
    mount.kill9()
    same(errno.errorcode[errno_of(os.close, fd)], "ENOTCONN", "close")
    same(mount.sql("SELECT count(*) FROM sessfs_node WHERE nlink = 0"), [(1,)], "nodes left")
    mount.start()
    same(os.listdir(session), [], "names")
    mount.stop()
    same(mount.sql("SELECT count(*) FROM sessfs_node WHERE nlink = 0"), [(0,)], "nodes left")
    mount.check()


def test_programs_make_files_without_names(box):
    mount, session = box.session()
    with tempfile.TemporaryFile(dir=session) as file:
        file.write(b"hello" * 10000)
        file.seek(5)
        same(file.read(5), b"hello", "a temporary file")
        same(os.listdir(session), [], "names")


def test_what_is_unlinked_and_open_is_still_a_whole_file(box):
    def play(script):
        fd = script.open("f", os.O_RDWR | os.O_CREAT)
        other = script.open("f", os.O_RDONLY)
        put(fd, b"0123456789" * 10000)
        os.unlink(script.at("f"))
        script.do(os.fchmod, fd, 0o4711)
        script.do(os.utime, fd, ns=(5, 6))
        script.do(os.ftruncate, fd, 50005)
        script.do(os.pwrite, fd, b"end", 70000)
        script.do(fallocate, fd, PUNCH_HOLE | KEEP_SIZE, 100, 40000)
        status = os.fstat(other)
        script.see("stat", oct(status.st_mode), status.st_nlink, status.st_size)
        script.do(os.pread, other, 80000, 0)
        script.do(os.setxattr, fd, "user.x", b"1")
        script.do(os.getxattr, other, "user.x")
        with mmap.mmap(fd, 70003) as view:
            view[0:4] = b"MMAP"
            view.flush()
        script.do(os.pread, other, 6, 0)
        again = os.open(f"/proc/self/fd/{other}", os.O_RDWR)
        script.do(os.pwrite, again, b"again", 0)
        script.do(os.pread, fd, 8, 0)
        script.do(os.fsync, again)
        os.close(again)
        with open(f"/proc/self/fd/{fd}", "wb") as file:
            file.write(b"short")
        script.do(os.pread, fd, 100, 0)
        os.close(fd)
        script.do(os.pread, other, 100, 0)
        os.close(other)
        script.list()

    mount, _, _ = on_both(box, play)
    mount.remount()
    mount.check()


def test_a_folder_that_is_removed_while_open_is_empty_and_takes_nothing(box):
    def play(script):
        script.do(os.mkdir, "/d")
        fd = script.open("d", os.O_RDONLY | os.O_DIRECTORY)
        here = os.getcwd()
        os.chdir(script.at("d"))
        try:
            os.rmdir(script.at("d"))
            status = os.fstat(fd)
            script.see("mode", oct(status.st_mode), status.st_nlink)
            script.see("names", os.listdir(fd), os.listdir("."))
            for call in (
                lambda: os.open("f", os.O_WRONLY | os.O_CREAT, dir_fd=fd),
                lambda: os.open("k.json", os.O_WRONLY | os.O_CREAT),
                lambda: os.mkdir("e", dir_fd=fd),
                lambda: os.symlink("a", "b"),
                lambda: os.mkfifo("b"),
                lambda: os.stat(".."),
                lambda: os.stat("f"),
                lambda: os.rename(script.at("file"), "f"),
                lambda: os.link(script.at("file"), "f"),
                lambda: os.chmod(".", 0o700),
                os.getcwd,
            ):
                script.see("call", errno.errorcode.get(errno_of(call), 0))
            script.do(write, "/file", b"1")
            script.see("rename", errno.errorcode[errno_of(os.rename, script.at("file"), "f")])
            script.see("link", errno.errorcode[errno_of(os.link, script.at("file"), "f")])
        finally:
            os.chdir(here)
            os.close(fd)
        script.do(os.mkdir, "/d")
        script.list("d")

    mount, _, _ = on_both(box, play)
    mount.check()


def test_renames_that_make_no_sense_are_refused_with_the_same_errors(box):
    def play(script):
        for name in ("a", "a/b", "a/b/c", "full", "empty"):
            script.do(os.mkdir, "/" + name)
        script.do(write, "/full/x", b"1")
        script.do(write, "/f", b"2")
        script.do(os.symlink, "f", "/s")
        for flags in (0, NOREPLACE, EXCHANGE):
            for source, target in (
                ("/a", "/a/b"),
                ("/a", "/a/b/c/d"),
                ("/a/b", "/a"),
                ("/a/b/c", "/a"),
                ("/a", "/a"),
                ("/f", "/f"),
                ("/a/.", "/x"),
                ("/a/..", "/x"),
                ("/a", "/full/."),
                ("/f", "/x/"),
                ("/f/", "/x"),
                ("/f", "/full"),
                ("/full", "/f"),
                ("/full", "/a"),
                ("/none", "/a"),
                ("/f", "/none/x"),
                ("/f", "/s/x"),
                ("/f", "/" + "x" * 256),
                ("/s", "/f"),
            ):
                script.do(renameat2, source, target, flags)
        script.do(renameat2, "/a", "/y", NOREPLACE | EXCHANGE)
        script.do(renameat2, "/a", "/y", 8)
        script.do(os.rename, "/a", "/moved/")
        script.do(os.rename, "/moved", "/empty")
        for name in ("empty", "empty/b", "full", "f", "s"):
            script.stat(name)
        script.list()

    on_both(box, play)


# Names and paths at their limits


def test_paths_reach_path_max_and_trees_go_deeper(box):
    def play(script):
        # The longest path that a call takes has 4,095 bytes.
        fd = os.open(script.root, os.O_RDONLY)
        path = script.root
        while len(path) + 201 < 4095 - 60:
            path += "/" + "d" * 200
            os.mkdir(path)
        for length in (4094, 4095, 4096):
            longest = path + "/" + "f" * (length - len(path) - 1)
            label = f"of {length} bytes"
            for call in (
                lambda: write(longest, b"deep"),
                lambda: read(longest),
                lambda: os.truncate(longest, 2),
                lambda: os.link(longest, script.at("hard")),
                lambda: os.unlink(script.at("hard")),
                lambda: os.rename(longest, script.at("moved")),
                lambda: os.rename(script.at("moved"), longest),
                lambda: os.unlink(longest),
                lambda: os.symlink("x", longest),
                lambda: os.readlink(longest),
                lambda: os.unlink(longest),
                lambda: os.mkfifo(longest),
                lambda: os.unlink(longest),
                lambda: os.mkdir(longest),
                lambda: os.listdir(longest),
                lambda: os.rmdir(longest),
            ):
                script.see(label, errno.errorcode.get(errno_of(call), 0))
        os.close(fd)
        # A tree has no limit.
        here = os.getcwd()
        os.chdir(path)
        for _ in range(30):
            os.mkdir("e" * 255)
            os.chdir("e" * 255)
        write("k.json", b"1")
        script.see("deep", read("k.json"), len(os.listdir(".")))
        script.see("its place", len(os.getcwd()) - len(script.root))
        os.rename("k.json", "plain")
        os.chdir(here)
        os.rename(script.at("d" * 200), script.at("renamed"))
        script.see("after a rename of the top", os.listdir(script.root))

    mount, plain, real = on_both(box, play)
    mount.remount()
    for script in (plain, real):
        harness.tool("rm", "-r", script.at("renamed"))
    mount.check()


def test_a_key_may_be_as_long_as_a_path(box):
    mount, session = box.session()
    folder = session
    while len(folder) + 201 < 4095 - 200:
        folder = os.path.join(folder, "k" * 200)
        os.mkdir(folder)
    path = os.path.join(folder, "n" * (4095 - len(folder) - 1 - len(".json")) + ".json")
    same(len(path), 4095, "length of the path")
    write(path, b"[1]")
    key = os.path.relpath(path, session)[: -len(".json")]
    same(mount.rows("s", key), [b"[1]"], "the row")
    mount.remount()
    same(read(path), b"[1]", "after mounting again")
    mount.check()


# Users


def may(path):
    """What the caller may do with a file, by trying."""
    result = []
    for flags in (os.O_RDONLY, os.O_WRONLY, os.O_RDWR):
        error = errno_of(lambda flags=flags: os.close(os.open(path, flags)))
        result.append(errno.errorcode.get(error, 0))
    return result + [errno.errorcode.get(errno_of(os.chmod, path, 0o777), 0)]


def test_modes_and_supplementary_groups_decide_who_may(box):
    need_root()

    def play(script):
        os.chmod(script.root, 0o777)
        people = ((1001, 1001, ()), (1002, 1002, ()), (1003, 1003, (7, 1001)), (1002, 1001, ()))
        for name in NAMES:
            path = script.at(name)
            for mode in (0o000, 0o640, 0o060, 0o606):
                made(path, CONTENT[name], mode, (1001, 1001))
                for user, group, groups in people[1:] + people[:1]:
                    seen = as_user(may, path, user=user, group=group, groups=groups)
                    script.see(f"{name} {mode:o} for {user} in {group} {groups}", seen)
        script.do(os.mkdir, "/d")
        write(script.at("d/f"), b"1")
        os.chown(script.at("d"), 0, 1001)
        for mode in (0o710, 0o740, 0o770, 0o730):
            os.chmod(script.at("d"), mode)
            for user, group, groups in people:
                seen = [
                    as_user(call, user=user, group=group, groups=groups)
                    for call in (
                        lambda: sorted(os.listdir(script.at("d"))),
                        lambda: os.stat(script.at("d/f")).st_size,
                        lambda: write(script.at(f"d/{mode:o}-{user}"), b"1"),
                    )
                ]
                script.see(f"folder {mode:o} for {user} in {group} {groups}", seen)

    on_both(box, play)


def test_who_owns_a_file_may_give_it_to_a_group_of_theirs_only(box):
    need_root()

    def play(script):
        os.chmod(script.root, 0o777)
        for name in NAMES:
            path = script.at(name)
            for mode in (0o6755, 0o2644, 0o2755, 0o4755):
                for group in (1001, 7, 8):
                    made(path, CONTENT[name], mode, (1001, 1001))
                    seen = as_user(os.chown, path, -1, group, user=1001, group=1001, groups=(7,))
                    script.see(f"{name} {mode:o} to {group}", seen, mode_of(path))
                made(path, CONTENT[name], mode, (1001, 1001))
                seen = as_user(os.chown, path, 1002, -1, user=1001, group=1001)
                script.see(f"{name} {mode:o} given away", seen, mode_of(path))
                os.chown(path, 1002, 7)
                script.see(f"{name} {mode:o} after root gave it", mode_of(path))
            made(path, CONTENT[name], 0o644, (1001, 8))
            seen = as_user(os.chmod, path, 0o6755, user=1001, group=1001, groups=(7,))
            script.see(f"{name} of another group", seen, mode_of(path))

    on_both(box, play)


def test_a_setgid_folder_gives_its_group_and_a_sticky_one_protects(box):
    need_root()

    def play(script):
        os.chmod(script.root, 0o777)
        script.do(os.mkdir, "/g")
        os.chown(script.at("g"), 0, 77)
        os.chmod(script.at("g"), 0o2777)
        for user in (0, 1001):
            for name in NAMES:
                as_user(write, script.at("g", f"{user}-{name}"), CONTENT[name], user=user)
            as_user(os.mkdir, script.at("g", f"{user}-d"), 0o755, user=user)
            as_user(os.mkdir, script.at("g", f"{user}-sticky"), 0o1755, user=user)
            as_user(os.mkfifo, script.at("g", f"{user}-p"), user=user)
            as_user(os.symlink, "x", script.at("g", f"{user}-s"), user=user)
            with_group = (script.at("g", f"{user}-x"), os.O_CREAT | os.O_WRONLY, 0o2755)
            as_user(os.open, *with_group, user=user, group=user)
        for name in sorted(os.listdir(script.at("g"))):
            status = os.lstat(script.at("g", name))
            script.see(name, oct(status.st_mode), status.st_uid, status.st_gid)
        script.do(os.mkdir, "/t")
        os.chmod(script.at("t"), 0o1777)
        for name in ("plain", "list.jsonl", "d"):
            for call in (
                lambda name=name: os.rename(script.at("t", name), script.at("t/moved")),
                lambda name=name: os.rename(script.at("t/mine"), script.at("t", name)),
                lambda name=name: renameat2(script.at("t/mine"), script.at("t", name), EXCHANGE),
                lambda name=name: os.unlink(script.at("t", name)),
                lambda name=name: os.rmdir(script.at("t", name)),
            ):
                if name == "d":
                    os.makedirs(script.at("t/d"), exist_ok=True)
                else:
                    made(script.at("t", name), CONTENT[name], 0o666, (1001, 1001))
                made(script.at("t/mine"), b"1", 0o666, (1002, 1002))
                for user in (1002, 1001):
                    script.see(f"{user} {name}", as_user(call, user=user, group=user))
                    script.list("t")

    on_both(box, play)


def test_writing_takes_setuid_and_setgid_away_unless_root_writes(box):
    need_root()

    def rewrite(path, flags, data):
        fd = os.open(path, flags)
        try:
            return os.write(fd, data)
        finally:
            os.close(fd)

    def by_mapping(path):
        with open(path, "r+b") as file, mmap.mmap(file.fileno(), 0) as view:
            view[0:1] = b"1"

    def allocate(path):
        fd = os.open(path, os.O_RDWR)
        fallocate(fd, 0, 0, 5000)
        os.close(fd)

    def inside(path):
        with open(path, "r+b") as file:
            return os.copy_file_range(file.fileno(), file.fileno(), 2, 0, 4)

    calls = {
        "write": lambda path: rewrite(path, os.O_WRONLY, b"7\n"),
        "append": lambda path: rewrite(path, os.O_WRONLY | os.O_APPEND, b"7\n"),
        "open with O_TRUNC": lambda path: rewrite(path, os.O_WRONLY | os.O_TRUNC, b"7\n"),
        "only O_TRUNC": lambda path: rewrite(path, os.O_WRONLY | os.O_TRUNC, b""),
        "truncate": lambda path: os.truncate(path, 2),
        "nothing written": lambda path: rewrite(path, os.O_WRONLY, b""),
        "copy_file_range": inside,
        "fallocate": allocate,
        "mapping": by_mapping,
        "chmod": lambda path: os.chmod(path, 0o7777),
        "read": lambda path: len(read(path)),
    }

    def play(script):
        os.chmod(script.root, 0o777)
        for name in NAMES:
            for label, call in calls.items():
                if label in ("mapping", "fallocate") and name != "plain":
                    continue  # the mode does not tell of them on every kernel
                for user, mode in ((1001, 0o6777), (1001, 0o2767), (0, 0o6755)):
                    path = script.at(name)
                    made(path, CONTENT[name], mode, (1001, 1001))
                    as_user(call, path, user=user, group=user)
                    script.see(f"{label} {name} {mode:o} by {user}", mode_of(path))
                    os.unlink(path)

    on_both(box, play)


def test_fallocate_takes_setgid_from_who_is_not_in_the_group(box):
    need_root()

    def play(script):
        for name, group in (("others", 0), ("own", NOBODY), ("supplementary", 1234)):
            for mode in (0o6666, 0o6676, 0o6766, 0o2660):
                path = script.at(f"{name}-{mode:o}")
                made(path, owner=(NOBODY, group), mode=mode)

                def allocate(path=path):
                    file = os.open(path, os.O_RDWR)
                    fallocate(file, 0, 0, 100)
                    os.close(file)

                as_user(allocate, groups=(1234,))
                script.see(f"{name} {mode:o}", mode_of(path))

    on_both(box, play)


def test_attributes_have_the_limits_and_the_guards_of_linux(box):
    def play(script):
        write(script.at("f"), b"1")
        os.symlink("f", script.at("s"))
        os.mkfifo(script.at("p"))
        os.mkdir(script.at("d"))
        for name in ("f", "d", "s", "p"):
            script.do(os.setxattr, "/" + name, "user.a", b"1", follow_symlinks=False)
            script.do(os.getxattr, "/" + name, "user.a", follow_symlinks=False)
            script.do(os.removexattr, "/" + name, "user.b", follow_symlinks=False)
            script.see(f"list {name}", os.listxattr(script.at(name), follow_symlinks=False))
        for key in ("a", "user.", "none.a", "user." + "x" * 250, "user." + "x" * 251, ""):
            script.do(os.setxattr, "/f", key, b"2")
            script.do(os.getxattr, "/f", key)
        script.do(os.setxattr, "/f", "user.large", bytes(65537))
        if os.geteuid() == 0:
            os.chmod(script.root, 0o777)
            os.chmod(script.at("f"), 0o644)
            script.do(os.setxattr, "/f", "trusted.a", b"3")
            script.do(os.getxattr, "/f", "trusted.a")
            for key in ("trusted.a", "user.a", "security.capability"):
                script.see(f"{key} set by a user", as_user(os.setxattr, script.at("f"), key, b"4"))
            script.see("user.a read", as_user(lambda: os.getxattr(script.at("f"), "user.a")[0]))
            script.see("trusted.a read", as_user(os.getxattr, script.at("f"), "trusted.a"))
            script.see("names for a user", as_user(os.listxattr, script.at("f")))

    mount, _, real = on_both(box, play)
    if os.geteuid() == 0:
        label = "security.selinux"
        same(errno_of(os.getxattr, real.at("f"), label), errno.EOPNOTSUPP, "no label")
        os.setxattr(real.at("f"), label, b"a:b:c")
        same(os.getxattr(real.at("f"), label), b"a:b:c", "a label")
    values = {f"user.{number}": bytes([number]) * 65536 for number in range(5)}
    for key, value in values.items():
        os.setxattr(real.at("d"), key, value)
    small = ctypes.create_string_buffer(10)
    path = os.fsencode(real.at("d"))
    same(LIBC.getxattr(path, b"user.0", small, 10), -1, "a value in a small buffer")
    same(ctypes.get_errno(), errno.ERANGE, "its error")
    same(LIBC.getxattr(path, b"user.0", None, 0), 65536, "the room that it needs")
    mount.remount()
    for key, value in values.items():
        same(os.getxattr(real.at("d"), key) == value, True, f"{key} after mounting again")
    mount.check()


# Times


def moved(function, *paths):
    """Which of mtime and ctime of some paths a call moves."""
    old = 10**18
    before = {}
    for path in paths:
        os.utime(path, ns=(old, old), follow_symlinks=False)
        before[path] = os.lstat(path)
    function()
    result = []
    for path in paths:
        status = os.lstat(path)
        result.append((status.st_mtime_ns != old, status.st_ctime_ns != before[path].st_ctime_ns))
    return result


def test_every_call_moves_the_times_that_posix_says(box):
    def play(script):
        a, d, e = script.at("a"), script.at("d"), script.at("d/e")
        os.mkdir(d)
        write(a, b"hello")
        fd = os.open(a, os.O_RDWR)
        steps = (
            ("chmod", lambda: os.chmod(a, 0o600), (a, script.root)),
            ("chmod to the same", lambda: os.chmod(a, 0o600), (a,)),
            ("chown", lambda: os.chown(a, os.getuid(), os.getgid()), (a,)),
            ("link", lambda: os.link(a, e), (a, d, script.root)),
            ("rename over the same", lambda: os.rename(a, e), (a, d, script.root)),
            ("unlink one of two", lambda: os.unlink(e), (a, d, script.root)),
            ("rename", lambda: os.rename(a, e), (d, script.root)),
            ("rename back", lambda: os.rename(e, a), (d, script.root)),
            ("mkdir", lambda: os.mkdir(e), (d, script.root)),
            ("rename of a folder", lambda: os.rename(e, script.at("e")), (d, script.root)),
            ("rename back", lambda: os.rename(script.at("e"), e), (d, script.root)),
            ("exchange", lambda: renameat2(e, a, EXCHANGE), (d, script.root)),
            ("exchange", lambda: renameat2(e, a, EXCHANGE), (d, script.root)),
            ("rmdir", lambda: os.rmdir(e), (d, script.root)),
            ("symlink", lambda: os.symlink("x", e), (d, script.root)),
            ("unlink", lambda: os.unlink(e), (d, script.root)),
            ("mkfifo", lambda: os.mkfifo(e), (d, script.root)),
            ("rename over", lambda: os.rename(e, script.at("p")), (d, script.root)),
            ("open with O_CREAT", lambda: os.close(os.open(a, os.O_CREAT | os.O_WRONLY)), (a, d)),
            ("read", lambda: read(a), (a, script.root)),
            ("write", lambda: os.pwrite(fd, b"x", 0), (a, script.root)),
            ("write of nothing", lambda: os.pwrite(fd, b"", 0), (a,)),
            ("truncate to the same", lambda: os.truncate(a, 5), (a,)),
            ("truncate", lambda: os.truncate(a, 4), (a,)),
            ("ftruncate", lambda: os.ftruncate(fd, 3), (a,)),
            ("ftruncate to the same", lambda: os.ftruncate(fd, 3), (a,)),
            ("fallocate", lambda: fallocate(fd, 0, 0, 100), (a,)),
            ("O_TRUNC", lambda: os.close(os.open(a, os.O_TRUNC | os.O_WRONLY)), (a,)),
            ("O_TRUNC when empty", lambda: os.close(os.open(a, os.O_TRUNC | os.O_WRONLY)), (a,)),
            ("setxattr", lambda: os.setxattr(a, "user.x", b"1"), (a,)),
            ("removexattr", lambda: os.removexattr(a, "user.x"), (a,)),
            ("lookup", lambda: os.stat(a), (a, script.root)),
            ("listing", lambda: os.listdir(d), (d, script.root)),
            ("fsync", lambda: os.fsync(fd), (a,)),
        )
        for label, call, paths in steps:
            try:
                script.see(label, moved(call, *paths))
            except OSError as error:
                script.see(label, errno.errorcode[error.errno])
        os.close(fd)

    on_both(box, play)


def test_times_are_set_as_asked_from_the_first_to_the_last_that_a_disk_can_hold(box):
    now, omit = (1 << 30) - 1, (1 << 30) - 2
    # ext4 ends in 2446 and other filesystems elsewhere: what is common is compared.
    moments = (0, 1, -1, -SECOND, -SECOND - 1, 999_999_999, -(2**31) * SECOND)
    moments += (2**31 * SECOND, 2**32 * SECOND + 5, 4_294_967_296_123_456_789)

    class Timespec(ctypes.Structure):
        _fields_ = [("sec", ctypes.c_int64), ("nsec", ctypes.c_int64)]

    def utimensat(path, atime, mtime, flags=0):
        times = (Timespec * 2)(Timespec(*atime), Timespec(*mtime))
        if LIBC.utimensat(-100, os.fsencode(path), times, flags) != 0:
            raise OSError(ctypes.get_errno(), "utimensat")

    def play(script):
        for name in (*NAMES, "d"):
            path = script.at(name)
            os.mkdir(path) if name == "d" else write(path, CONTENT[name])
            for moment in moments:
                os.utime(path, ns=(moment, -moment if abs(moment) < 2**31 else moment))
                status = os.stat(path)
                script.see(f"{name} {moment}", status.st_atime_ns, status.st_mtime_ns)
            utimensat(path, (5, 6), (7, 8))
            utimensat(path, (0, omit), (9, 10))
            utimensat(path, (11, 12), (0, omit))
            utimensat(path, (0, omit), (0, omit))
            status = os.stat(path)
            script.see(f"{name} omitted", status.st_atime_ns, status.st_mtime_ns)
            script.do(utimensat, "/" + name, (0, 10**9), (0, 0))
            utimensat(path, (0, now), (1, 2))
            status = os.stat(path)
            script.see(f"{name} now", status.st_atime_ns > 10**18, status.st_mtime_ns)
        os.symlink("none", script.at("soft"))
        utimensat(script.at("soft"), (5, 6), (7, 8), 0x100)
        script.see("symlink", os.lstat(script.at("soft")).st_mtime_ns)

    mount, _, real = on_both(box, play)
    path = real.at("plain")
    # Nanoseconds in 64 bits reach from 1677 to 2262; what lies beyond is cut, never wrapped.
    for second in (2**40, -(2**40)):
        first, last = sorted((second, 9_000_000_000 if second > 0 else -9_000_000_000))
        os.utime(path, (second, second))
        assert first <= os.stat(path).st_mtime <= last, (second, os.stat(path).st_mtime)


def test_times_of_what_happens_never_go_back(box):
    mount, session = box.session()
    last = 0
    for number in range(200):
        path = os.path.join(session, f"f{number % 7}")
        write(path, b"x" * number)
        if number % 3 == 0:
            os.rename(path, path + ".new")
            os.rename(path + ".new", path)
        now = os.stat(path).st_ctime_ns
        assert now >= last, f"the time of change went back by {last - now} ns"
        last = now


# Bytes


def errors(function, *arguments):
    return errno.errorcode.get(errno_of(function, *arguments), 0)


def test_space_cannot_be_allocated_where_it_makes_no_sense(box):
    def play(script):
        fd = script.open("f", os.O_RDWR | os.O_CREAT)
        put(fd, b"x" * 10000)
        for mode in (0, KEEP_SIZE, PUNCH_HOLE | KEEP_SIZE):
            for place in ((-1, 10), (0, -1), (0, 0), (10, 2**63 - 10), (2**63 - 1, 1)):
                script.see(f"mode {mode} {place}", errors(fallocate, fd, mode, *place))
        for mode in (PUNCH_HOLE, PUNCH_HOLE | ZERO_RANGE | KEEP_SIZE, 1 << 14):
            script.see(f"mode {mode}", errors(fallocate, fd, mode, 0, 4096))
        reader = script.open("f", os.O_RDONLY)
        script.see("a reader", errors(fallocate, reader, 0, 0, 100))
        script.see("a reader", errors(fallocate, reader, PUNCH_HOLE | KEEP_SIZE, 0, 100))
        os.close(reader)
        folder = os.open(script.root, os.O_RDONLY)
        script.see("a folder", errors(fallocate, folder, 0, 0, 100))
        os.close(folder)
        os.mkfifo(script.at("p"))
        pipe = script.open("p", os.O_RDWR)
        script.see("a pipe", errors(fallocate, pipe, 0, 0, 100))
        os.close(pipe)
        end = script.open("f", os.O_WRONLY | os.O_APPEND)
        script.see("behind the end", errors(fallocate, end, KEEP_SIZE, 20000, 100000))
        os.write(end, b"end")
        os.close(end)
        script.see("size", os.fstat(fd).st_size)
        script.see("far behind", errors(fallocate, fd, PUNCH_HOLE | KEEP_SIZE, 10**9, 10**9))
        script.see("over the end", errors(fallocate, fd, PUNCH_HOLE | KEEP_SIZE, 5000, 10**9))
        script.see("size", os.fstat(fd).st_size)
        script.do(os.pread, fd, 20000, 0)
        os.close(fd)

    mount, _, real = on_both(box, play)
    fd = real.open("f", os.O_RDWR)
    for mode in (COLLAPSE, INSERT):
        same(errors(fallocate, fd, mode, 0, 4096), "ENOTSUP", "moving what follows")
    os.close(fd)
    mount.check()


def test_more_than_there_is_cannot_be_allocated(box):
    mount, session = box.session(options=["max_size=100M"])
    path = os.path.join(session, "f")
    with open(path, "wb") as file:
        for mode in (0, KEEP_SIZE, ZERO_RANGE):
            error = errors(fallocate, file.fileno(), mode, 0, 1 << 40)
            same(error, "ENOSPC", f"a terabyte, mode {mode}")
        same(os.fstat(file.fileno()).st_size, 0, "size")
        fallocate(file.fileno(), 0, 0, 1 << 20)
        same(os.fstat(file.fileno()).st_size, 1 << 20, "size")
    os.truncate(path, 1 << 40)
    with open(path, "r+b") as file:
        fallocate(file.fileno(), 0, 0, 1 << 20)
        fallocate(file.fileno(), PUNCH_HOLE | KEEP_SIZE, 0, 1 << 40)
    mount.check()


def test_holes_are_found_from_everywhere(box):
    mount, session = box.session()
    path = os.path.join(session, "f")
    block = 1 << 20
    data = [(0, 1), (3 * block, block), (7 * block + 5, 10), (20 * block - 1, 1)]
    model = bytearray(20 * block)
    fd = os.open(path, os.O_RDWR | os.O_CREAT)
    for offset, size in data:
        model[offset : offset + size] = b"d" * size
        os.pwrite(fd, b"d" * size, offset)
    rng = random.Random(11)
    for _ in range(200):
        place = rng.randrange(20 * block)
        hole = os.lseek(fd, place, os.SEEK_HOLE)
        assert place <= hole <= len(model), (place, hole)
        found = os.lseek(fd, place, os.SEEK_DATA)
        assert place <= found, (place, found)
        same(model.find(b"d", place, found), -1, f"data that was passed over from {place}")
    for whence in (os.SEEK_DATA, os.SEEK_HOLE):
        for place in (-1, len(model), len(model) + 1):
            same(errors(os.lseek, fd, place, whence), "ENXIO", f"from {place}")
    os.ftruncate(fd, 30 * block)
    same(errors(os.lseek, fd, 21 * block, os.SEEK_DATA), "ENXIO", "data in the last hole")
    same(os.lseek(fd, 21 * block, os.SEEK_HOLE), 21 * block, "a hole in the last hole")
    fallocate(fd, PUNCH_HOLE | KEEP_SIZE, 3 * block, block)
    same(os.lseek(fd, 2 * block, os.SEEK_DATA) > 4 * block, True, "data that was punched")
    os.close(fd)
    mount.remount()
    same(read(path)[: 3 * block], bytes(model[: 3 * block]), "after mounting again")
    mount.check()


def test_ranges_are_copied_as_on_a_local_filesystem(box):
    outside = box.new_path("outside")
    write(outside, b"o" * 100000)

    def copy(source, target, size, start, to):
        return os.copy_file_range(source, target, size, start, to)

    def play(script):
        data = random.Random(12).randbytes(200_000)
        write(script.at("a"), data)
        source = script.open("a", os.O_RDWR)
        target = script.open("b", os.O_RDWR | os.O_CREAT)
        for size, start, to in (
            (1000, 0, 0),
            (70000, 100, 50000),
            (10**6, 190_000, 10),
            (10, 200_000, 0),
            (10, 300_000, 0),
            (0, 0, 0),
            (5000, 7, 400_000),
        ):
            copied = 0
            while True:
                count = copy(source, target, size - copied, start + copied, to + copied)
                copied += count
                if not count or copied == size:
                    break
            script.see(f"{size} from {start} to {to}", copied, os.fstat(target).st_size)
        script.see("the copy", read(script.at("b")))
        script.see("over itself", errors(copy, source, source, 1000, 0, 500))
        script.see("in itself", copy(source, source, 1000, 0, 100_000))
        script.see("the file", read(script.at("a")))
        reader = script.open("a", os.O_RDONLY)
        end = script.open("b", os.O_WRONLY | os.O_APPEND)
        folder = os.open(script.root, os.O_RDONLY)
        script.see("into a reader", errors(copy, source, reader, 10, 0, 0))
        script.see("at the end only", errors(copy, source, end, 10, 0, 0))
        script.see("from a folder", errors(copy, folder, target, 10, 0, 0))
        for fd in (source, target, reader, end, folder):
            os.close(fd)

    mount, _, real = on_both(box, play)
    with open(outside, "rb") as source, open(real.at("c"), "wb") as target:
        error = errno_of(os.copy_file_range, source.fileno(), target.fileno(), 1000)
        assert error in (0, errno.EXDEV), "between filesystems"
    mount.check()


def test_files_end_where_offsets_end(box):
    def over_limit(path):
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))
        fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        result = [os.pwrite(fd, b"x" * 4000, 3000)]
        for call in (
            lambda: os.pwrite(fd, b"x", 5000),
            lambda: os.ftruncate(fd, 5001),
            lambda: os.truncate(path, 5001),
            lambda: fallocate(fd, 0, 4000, 2000),
            lambda: os.ftruncate(fd, 5000),
        ):
            result.append(errors(call))
        return result + [os.fstat(fd).st_size]

    def play(script):
        script.see("limit", as_user(over_limit, script.at("limited"), user=0, group=0))
        os.unlink(script.at("limited"))
        fd = script.open("f", os.O_RDWR | os.O_CREAT)
        script.see("a negative place", errors(os.pwrite, fd, b"x", -1))
        script.see("a negative size", errors(os.ftruncate, fd, -1))
        script.see("before the start", errors(os.lseek, fd, -1, os.SEEK_SET))
        script.do(os.lseek, fd, 1 << 40, os.SEEK_SET)
        script.do(os.read, fd, 10)
        script.do(os.ftruncate, fd, (1 << 43))
        script.do(os.pread, fd, 10, (1 << 43) - 5)
        script.do(os.pwrite, fd, b"far", (1 << 43) - 3)
        script.do(os.pread, fd, 10, (1 << 43) - 5)
        script.do(os.ftruncate, fd, 3)
        script.see("size", os.fstat(fd).st_size)
        os.close(fd)

    need_root()
    mount, _, real = on_both(box, play)
    fd = real.open("f", os.O_RDWR)
    last = 2**63 - 1
    os.ftruncate(fd, last)
    same(os.fstat(fd).st_size, last, "the largest size")
    same(os.pread(fd, 1, last - 1), b"\0", "its last byte")
    assert os.fstat(fd).st_blocks < 1000, "blocks"
    os.ftruncate(fd, 0)
    os.close(fd)
    mount.check()


def read_by(pid):
    with open(f"/proc/{pid}/io") as file:
        return int(dict(line.split(": ") for line in file)["rchar"])


def test_a_sparse_file_is_measured_without_reading_it(box):
    mount, session = box.session()
    path = os.path.join(session, "f")
    with open(path, "wb", buffering=0) as file:
        file.truncate(1 << 30)
        for number in range(40):
            file.write(bytes(range(256)) * 4096)
        before = read_by(mount.pid)
        for number in range(50):
            os.pwrite(file.fileno(), b"x", number << 18)
            blocks = os.fstat(file.fileno()).st_blocks
            os.lseek(file.fileno(), number << 18, os.SEEK_HOLE)
        count = read_by(mount.pid) - before
    assert (40 << 20) <= blocks * 512 < (44 << 20), f"{blocks} blocks for 40 MiB"
    assert count < 200 << 20, f"{count} bytes were read for 50 questions"


def test_the_blocks_of_a_sparse_file_are_counted_through_every_change(box):
    mount, session = box.session()
    path = os.path.join(session, "f")
    rng = random.Random(14)
    fd = os.open(path, os.O_RDWR | os.O_CREAT)
    os.ftruncate(fd, 1 << 20)

    def change():
        place, size = rng.randrange(1 << 20), rng.randrange(1, 100_000)
        action = rng.randrange(6)
        if action < 3:
            os.pwrite(fd, b"w" * size, place)
        elif action < 5:
            mode = rng.choice((PUNCH_HOLE | KEEP_SIZE, ZERO_RANGE, ZERO_RANGE | KEEP_SIZE, 0))
            fallocate(fd, mode, place, size)
        else:
            os.ftruncate(fd, place)

    for step in range(60):
        change()
        counted = os.stat(path).st_blocks
        if step % 20 == 19:
            os.close(fd)
            mount.remount()
            same(counted, os.stat(path).st_blocks, f"blocks counted anew after step {step}")
            fd = os.open(path, os.O_RDWR)
            os.stat(path)
    os.close(fd)
    for name in ("l.jsonl", "k.json", "back"):
        os.rename(path, os.path.join(session, name))
        path = os.path.join(session, name)
        os.stat(path)
    size = os.stat(path).st_size
    os.truncate(path, size + (1 << 20))
    same(os.stat(path).st_blocks, (size + 511) // 512, "blocks after the file was state")
    mount.check()


# Mappings


def test_mappings_of_two_processes_and_plain_calls_see_each_other(box):
    def play(script):
        path = script.at("f")
        write(path, bytes(20000))
        fd = os.open(path, os.O_RDWR)
        view = mmap.mmap(fd, 20000)

        def other():
            with open(path, "r+b") as file, mmap.mmap(file.fileno(), 20000) as mine:
                before = bytes(mine[100:105]).decode()
                mine[8000:8005] = b"other"
                return before

        view[100:105] = b"first"
        script.see("by the other", as_user(other, user=os.getuid(), group=os.getgid()))
        script.see("by the first", view[8000:8005])
        script.do(os.pread, fd, 5, 8000)
        os.pwrite(fd, b"plain", 12000)
        script.see("what was written", view[12000:12005])
        with open(path, "rb") as file:
            file.seek(100)
            script.see("what was mapped", file.read(5))
        os.ftruncate(fd, 12003)
        os.ftruncate(fd, 20000)
        script.see("cut and grown again", view[11999:12006])
        os.unlink(path)
        view[0:4] = b"gone"
        view.flush()
        script.do(os.pread, fd, 4, 0)
        view.close()
        os.close(fd)

    on_both(box, play)


def test_a_mapping_ends_with_the_file(box):
    def touch(path, place):
        with open(path, "r+b") as file:
            view = mmap.mmap(file.fileno(), 0)
            os.truncate(path, 10)
            return view[place]

    def killed_by(function, *arguments):
        child = os.fork()
        if child == 0:
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            try:
                function(*arguments)
            finally:
                os._exit(0)
        return os.WTERMSIG(os.waitpid(child, 0)[1])

    def play(script):
        for name in ("a", "b"):
            write(script.at(name), b"x" * 20000)
        script.see("behind the end", killed_by(touch, script.at("a"), 15000))
        script.see("in the last page", killed_by(touch, script.at("b"), 4000))
        write(script.at("r"), b"x")
        with open(script.at("r"), "rb") as file:
            script.see("by a reader", errors(lambda: mmap.mmap(file.fileno(), 1)))

    on_both(box, play)


def test_writing_by_a_mapping_moves_the_times_and_survives(box):
    mount, session = box.session()
    path = os.path.join(session, "f")
    write(path, bytes(100_000))
    os.utime(path, ns=(10**18, 10**18))
    with open(path, "r+b") as file, mmap.mmap(file.fileno(), 0) as view:
        for place in range(0, 100_000, 4096):
            view[place] = 65
        view.flush()
        os.fsync(file.fileno())
    assert os.stat(path).st_mtime_ns > 10**18, "mtime"
    mount.remount()
    same(read(path)[::4096], b"A" * 25, "after mounting again")


# Directories


def test_a_place_in_a_folder_stays_while_its_entries_change(box):
    mount, session = box.session()
    names = [f"{number:04}" for number in range(1500)]
    for name in names:
        os.close(os.open(os.path.join(session, name), os.O_WRONLY | os.O_CREAT))
    listing = Dir(session)
    order, places = [], []
    while True:
        place = listing.tell()
        name = listing.next()
        if name is None:
            break
        order.append(name)
        places.append(place)
    end = listing.tell()
    same(sorted(order), names, "names")
    rng = random.Random(13)
    for at in (0, 1, 127, 128, 129, 700, 1499):
        listing.seek(places[at])
        same(listing.rest(), order[at:], f"from place {at}")
    gone = set(rng.sample(range(1500), 500))
    for at in gone:
        os.unlink(os.path.join(session, order[at]))
    left = [name for at, name in enumerate(order) if at not in gone]
    for number in range(300):
        os.close(os.open(os.path.join(session, f"new{number}"), os.O_WRONLY | os.O_CREAT))
    moved_name = left[3]
    os.rename(os.path.join(session, moved_name), os.path.join(session, moved_name + "-moved"))
    for at in (0, 128, 500, 1400):
        listing.seek(places[at])
        seen = [name for name in listing.rest() if name.isdigit()]
        wanted = [name for place, name in enumerate(order) if place >= at and place not in gone]
        same(seen, [name for name in wanted if name != moved_name], f"from place {at} afterwards")
    listing.rewind()
    seen = listing.rest()
    same(len(seen), len(set(seen)), "names seen once")
    same(set(seen), set(os.listdir(session)), "names after rewinding")
    listing.seek(end)
    same([name for name in listing.rest() if name.isdigit()], [], "old names behind the end")
    listing.close()
    mount.check()


def test_folders_tell_the_kinds_and_numbers_of_their_entries(box):
    kinds = {stat.S_IFREG: 8, stat.S_IFDIR: 4, stat.S_IFLNK: 10, stat.S_IFIFO: 1}
    mount, session = box.session()
    for name in NAMES:
        write(os.path.join(session, name), CONTENT[name])
    os.mkdir(os.path.join(session, "d"))
    os.symlink("x", os.path.join(session, "l"))
    os.mkfifo(os.path.join(session, "p"))
    stream = LIBC.opendir(os.fsencode(session))
    seen = {}
    while True:
        entry = LIBC.readdir(stream)
        if not entry:
            break
        seen[os.fsdecode(entry.contents.name)] = (entry.contents.ino, entry.contents.type)
    LIBC.closedir(stream)
    same(len(seen), len(NAMES) + 5, "entries with dots")
    for name, (ino, kind) in seen.items():
        status = os.lstat(os.path.join(session, name))
        same((ino, kind), (status.st_ino, kinds[stat.S_IFMT(status.st_mode)]), name)


class Renamer(threading.Thread):
    """Renames by the given function until it is left."""

    def __init__(self, step):
        super().__init__()
        self.step, self.done, self.count = step, False, 0

    def run(self):
        while not self.done:
            self.step(self.count)
            self.count += 1

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *error):
        self.done = True
        self.join()


def test_a_listing_beside_endless_renames_ends(box):
    _mount, session = box.session()
    folder = os.path.join(session, "d")
    os.mkdir(folder)
    for i in range(300):
        made(os.path.join(folder, f"f{i}"))

    def rename(count):
        name = os.path.join(folder, f"f{count % 300}")
        os.rename(name, name + ".moved")
        os.rename(name + ".moved", name)

    with Renamer(rename) as renamer:
        for _ in range(harness.rounds("SESSFS_ROUNDS", 2, 20)):
            stream = Dir(folder)
            before = renamer.count
            # One entry at a time, with as many renames between two.
            names = []
            for name in iter(stream.next, None):
                names.append(name)
                if len(names) % 50 == 0:
                    eventually(lambda: renamer.count > before + 300, "there are renames")
                    before = renamer.count
                assert len(names) < 3000, "the listing does not end"
            stream.close()


def test_a_listing_never_misses_a_name_that_is_replaced(box):
    _mount, session = box.session()
    names = [f"{i}.{kind}" for i in range(300) for kind in ("json", "jsonl", "txt")]
    for name in names:
        made(os.path.join(session, name), b"1\n")
    stream = Dir(session)
    # The rest of the first block is known already, but that is a part of them all.
    listed = [stream.next()]
    for name in names:
        made(os.path.join(session, "new"), b"2\n")
        os.rename(os.path.join(session, "new"), os.path.join(session, name))
    same(sorted(listed + stream.rest()), sorted(names), "names")
    stream.close()


# The mount as a whole


def test_devices_and_setuid_programs_have_no_power(box):
    need_root()
    mount, session = box.session(options=["allow_other"])
    os.chmod(box.folder, 0o755)
    flags = os.statvfs(session).f_flag
    same(flags & (os.ST_NOSUID | os.ST_NODEV), os.ST_NOSUID | os.ST_NODEV, "flags of the mount")
    null = os.path.join(session, "null")
    os.mknod(null, stat.S_IFCHR | 0o666, os.makedev(1, 3))
    same(errors(os.open, null, os.O_RDONLY), "EACCES", "opening a device")
    program = os.path.join(session, "id")
    harness.tool("cp", "/usr/bin/id", program)
    os.chmod(program, 0o6755)
    os.chown(session, NOBODY, NOBODY)
    run = lambda: harness.tool(program, "-u").stdout.decode().strip()
    same(as_user(run), str(NOBODY), "who a setuid program runs as")
    node = lambda: os.mknod(os.path.join(session, "mine"), stat.S_IFCHR | 0o666, os.makedev(1, 3))
    same(as_user(node), "EPERM", "a device made by a user")


def test_root_may_allow_devices_and_setuid(box):
    need_root()
    for options, wanted, missing in (
        ([], ("nosuid", "nodev"), ()),
        (["allow_dev", "allow_suid"], (), ("nosuid", "nodev")),
        (["nosuid", "allow_suid", "allow_dev"], ("nosuid",), ("nodev",)),
    ):
        mount = box.mount(options=options)
        with open("/proc/self/mountinfo") as table:
            flags = next(line for line in table if f" {mount.path} " in line).split()[5].split(",")
        for flag in wanted:
            assert flag in flags, f"{options}: {flags}"
        for flag in missing:
            assert flag not in flags, f"{options}: {flags}"
        if "allow_dev" in options:
            path = os.path.join(mount.path, "zero")
            os.mknod(path, 0o666 | stat.S_IFCHR, os.makedev(1, 5))
            with open(path, "rb") as zero:
                same(zero.read(10), bytes(10), "/dev/zero")
        mount.unmount()


def test_root_may_change_the_flags_of_a_mount(box):
    need_root()
    mount, session = box.session()
    path = os.path.join(session, "k.json")
    made(path, b"1")
    with open(path, "r+b", buffering=0) as file:
        again = box.sessfs(mount.store, mount.path, "-o", "remount,ro")
        same(again.returncode, 1, "while somebody writes")
        file.write(b"2")
    for option, wanted in (("ro", errno.EROFS), ("rw", 0), ("ro", errno.EROFS), ("rw,noexec", 0)):
        tool(box.program, mount.store, mount.path, "-o", f"remount,{option}")
        same(errno_of(made, path, b"3"), wanted, option)
    again = box.sessfs(mount.store, box.new_folder("other"), "-o", "remount,ro")
    assert b"is not a mount of sessfs" in again.stderr, again.stderr


def test_a_user_may_not_allow_devices(box):
    with users(box) as space:
        for option in ("allow_dev", "allow_suid", "remount"):
            os.makedirs(os.path.join(space.home, "m"), exist_ok=True)
            result = space.as_nobody(box.program, "mount", "-o", option, "x.db", "m")
            same(result.returncode, 1, option)
            assert f"only root may mount with -o {option}" .encode() in result.stderr, result.stderr


class FileHandle(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_uint),
        ("type", ctypes.c_int),
        ("bytes", ctypes.c_ubyte * 128),
    ]


def file_handle(path):
    handle = FileHandle(size=128)
    mount_id = ctypes.c_int()
    arguments = (os.fsencode(path), ctypes.byref(handle), ctypes.byref(mount_id), 0)
    if LIBC.name_to_handle_at(AT_FDCWD, *arguments) < 0:
        raise OSError(ctypes.get_errno(), "name_to_handle_at")
    return handle


def open_by_handle(folder, handle, flags):
    mount = os.open(folder, os.O_RDONLY)
    opened = LIBC.open_by_handle_at(mount, ctypes.byref(handle), flags)
    error = ctypes.get_errno()
    os.close(mount)
    if opened < 0:
        raise OSError(error, "open_by_handle_at")
    return opened


def read_by_handle(folder, handle):
    with open(open_by_handle(folder, handle, os.O_RDONLY), "rb") as file:
        return file.read()


def test_a_file_is_opened_by_its_handle_after_a_remount(box):
    need_root()
    mount, session = box.session()
    names = ("k.json", "l.jsonl", "f.txt", "gone.txt")
    for name in names:
        made(os.path.join(session, name), f'"{name}"\n'.encode())
    folder = os.path.join(session, "d")
    os.mkdir(folder)
    made(os.path.join(folder, "in.json"), b"1")
    handles = {name: file_handle(os.path.join(session, name)) for name in names}
    handles["d"] = file_handle(folder)
    os.unlink(os.path.join(session, "gone.txt"))
    mount.remount()
    for name in names[:-1]:
        same(read_by_handle(mount.path, handles[name]), f'"{name}"\n'.encode(), name)
    by_handle = open_by_handle(mount.path, handles["d"], os.O_RDONLY | os.O_DIRECTORY)
    same(os.listdir(by_handle), ["in.json"], "the directory")
    same(os.readlink(f"/proc/self/fd/{by_handle}"), folder, "its path")
    os.close(by_handle)
    gone = errno_of(read_by_handle, mount.path, handles["gone.txt"])
    same(gone, errno.ESTALE, "what is gone")


def test_a_handle_that_was_taken_beside_a_writer_opens_the_file(box):
    need_root()
    mount, session = box.session()
    for name in ("k.json", "l.jsonl", "m.hash", "f.txt"):
        path = os.path.join(session, name)
        made(path, b"1\n")
        handles = [file_handle(path)]
        with open(path, "wb", buffering=0) as file:
            file.write(b"[2")
            handles.append(file_handle(path))
            file.write(b"]\n")
        same(read(path), b"[2]\n", name)
        for number, handle in enumerate(handles):
            same(read_by_handle(mount.path, handle), b"[2]\n", f"{name} by handle {number}")
    mount.remount()
    same(read_by_handle(mount.path, handles[-1]), b"[2]\n", "after a remount")


def test_statvfs_is_the_same_everywhere_and_follows_what_is_written(box):
    mount, session = box.session(options=["max_size=64M"])
    path = os.path.join(session, "f")
    write(path, b"x")
    fd = os.open(path, os.O_RDONLY)
    values = []
    for where in (mount.path, session, path, fd):
        status = os.statvfs(where)
        values.append((status.f_bsize, status.f_frsize, status.f_blocks, status.f_namemax))
        assert status.f_bavail <= status.f_bfree <= status.f_blocks, status
        assert status.f_ffree <= status.f_files, status
    os.close(fd)
    same(len(set(values)), 1, f"different answers in {values}")
    same(values[0][2] * values[0][1], 64 << 20, "total")
    before = os.statvfs(session).f_bavail
    write(path, b"x" * (8 << 20))
    after = os.statvfs(session)
    taken = (before - after.f_bavail) * after.f_frsize
    assert (7 << 20) < taken < (24 << 20), f"8 MiB took {taken} bytes"


def descriptors(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


def test_a_thousand_files_cost_the_daemon_no_descriptor(box):
    mount, session = box.session()

    def use(count):
        for number in range(count):
            path = os.path.join(session, f"{number}{('', '.json', '.jsonl')[number % 3]}")
            write(path, b"1\n")
            os.stat(path)
        held = [os.open(os.path.join(session, f"{n * 3}"), os.O_RDWR) for n in range(count // 10)]
        for fd in held:
            os.pwrite(fd, b"2", 0)
        seen = descriptors(mount.pid)
        for fd in held:
            os.close(fd)
        return seen

    first = use(100)
    last = use(1000)
    assert last <= first + 8, f"{first} descriptors with 100 files, {last} with 1,000"


if __name__ == "__main__":
    harness.main(globals())
