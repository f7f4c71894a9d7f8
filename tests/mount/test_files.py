#!/usr/bin/python3 -B
# SPDX-License-Identifier: MIT
"""Ordinary file behaviour: the same operations on a local filesystem and on a mount."""

import ctypes
import ctypes.util
import errno
import fcntl
import mmap
import os
import random
import shutil
import socket
import stat
import struct
import subprocess
import sys

import harness
from harness import (
    Skip,
    append,
    errno_of,
    eventually,
    need_root,
    put,
    read,
    same,
    same_lists,
    same_trees,
    shell,
    tool,
    tree,
    write,
)

LIBC = ctypes.CDLL(None, use_errno=True)
NOREPLACE, EXCHANGE, WHITEOUT = 1, 2, 4
AT_FDCWD = -100
NAMES = ("plain", "doc.json", "list.jsonl", "side.hash")
CONTENT = {
    "plain": b"any bytes \0 \xff\n",
    "doc.json": b'{"a": 1}\n',
    "list.jsonl": b'{"n": 1}\n{"n": 2}\n',
    "side.hash": b"deadbeef",
}


def renameat2(source, target, flags):
    paths = os.fsencode(source), os.fsencode(target)
    if LIBC.renameat2(AT_FDCWD, paths[0], AT_FDCWD, paths[1], flags) != 0:
        raise OSError(ctypes.get_errno(), "renameat2")


def fallocate(fd, mode, offset, size):
    LIBC.fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64]
    if LIBC.fallocate(fd, mode, offset, size) != 0:
        raise OSError(ctypes.get_errno(), "fallocate")


class Script:
    """Operations below a folder, and what they said."""

    def __init__(self, root):
        self.root = root
        self.seen = []

    def at(self, *names):
        return os.path.join(self.root, *names)

    def see(self, label, *values):
        self.seen.append((label, *values))

    def do(self, function, *names, **named):
        """Calls with paths below the root ("/x" is x there), and notes the result or the error."""
        arguments = [
            self.at(name[1:]) if isinstance(name, str) and name.startswith("/") else name
            for name in names
        ]
        label = f"{function.__name__} {harness.shorten(names, 80)}"
        try:
            result = function(*arguments, **named)
        except OSError as error:
            self.see(label, errno.errorcode[error.errno])
            return None
        self.see(label, result if isinstance(result, (int, bytes, str, type(None))) else "done")
        return result

    def stat(self, name):
        try:
            status = os.lstat(self.at(name))
        except OSError as error:
            self.see(f"stat {name}", errno.errorcode[error.errno])
            return
        size = status.st_size if not stat.S_ISDIR(status.st_mode) else None
        self.see(f"stat {name}", oct(status.st_mode), status.st_nlink, size)

    def list(self, name=""):
        self.see(f"list {name!r}", sorted(os.listdir(self.at(name) if name else self.root)))

    def open(self, name, flags, mode=0o644):
        return os.open(self.at(name), flags, mode)


def beside(box, play, tables=True):
    """Plays on a plain folder and on a session, compares, mounts again and compares again."""
    plain = Script(box.new_folder("plain"))
    mount, session = box.session()
    play(plain)
    real = Script(session)
    play(real)
    same_lists(plain.seen, real.seen, "on the mount")
    expected = tree(plain.root)
    same_trees(expected, tree(session), "at the end: ")
    if tables:
        mount.remount()
        same_trees(expected, tree(session), "after mounting again: ")
        mount.check()
    return mount


# Names


def test_folders_are_made_and_removed_with_the_same_errors(box):
    def play(script):
        script.do(os.mkdir, "/a")
        script.do(os.mkdir, "/a")
        script.do(os.mkdir, "/a/b")
        script.do(os.mkdir, "/none/b")
        script.do(os.rmdir, "/a")
        script.do(os.rmdir, "/none")
        script.do(write, "/a/b/k.json", b"1")
        script.do(os.rmdir, "/a/b")
        script.do(os.rmdir, "/a/b/k.json")
        script.do(os.unlink, "/a/b")
        script.do(os.mkdir, "/a/b/k.json")
        script.do(os.mkdir, "/a/b/k.json/x")
        script.do(os.listdir, "/a/b/k.json")
        script.do(os.unlink, "/a/b/k.json/x")
        script.stat("a")
        script.stat("a/b")
        script.do(os.mkdir, "/a/dir.json")
        script.do(os.mkdir, "/a/dir.jsonl")
        script.do(write, "/a/dir.json/k.json", b"2")
        script.do(write, "/a/dir.jsonl", b"2")
        script.do(os.unlink, "/a/b/k.json")
        script.do(os.unlink, "/a/b/k.json")
        script.do(os.rmdir, "/a/b")
        script.do(os.rmdir, "/a/.")
        script.do(os.rmdir, "/a/..")
        script.stat("a")

    beside(box, play)


def test_names_that_are_too_long_are_refused_and_the_longest_work(box):
    def play(script):
        for end in ("", ".json", ".jsonl", ".hash"):
            longest = "x" * (255 - len(end)) + end
            script.do(write, "/" + longest, b"1\n")
            script.do(write, "/x" + longest, b"1\n")
            script.do(os.mkdir, "/d" + longest)
            script.do(os.stat, "/s" + longest)
            script.do(os.rename, "/" + longest, "/r" + longest)
            script.do(os.symlink, "t", "/l" + longest)
            script.do(read, "/" + longest)
        wide = "会" * 83 + "x.json"
        script.do(write, "/" + wide, b"2")
        script.do(os.mkdir, "/" + "d" * 255)
        script.do(write, "/" + "d" * 255 + "/" + "e" * 250 + ".json", b"3")
        script.list()

    beside(box, play)


def test_names_of_any_bytes_are_kept(box):
    names = [b"\xff\xfe.json", b"a\nb.jsonl", b"100%.json", b"%41.json", b"%2F", b" .json"]
    names += [b"-.hash", b"\x01", b"a:_hash.json", b"~.json", b"....json", b"a..json"]
    names += [b".json.json", b"%.json"]
    plain = box.new_folder("plain")
    mount, session = box.session()
    for root in (plain, session):
        for number, name in enumerate(names):
            write(os.path.join(os.fsencode(root), name), b"%d\n" % number)
    same_trees(tree(plain), tree(session))
    mount.remount()
    same_trees(tree(plain), tree(session), "after mounting again: ")
    mount.check()


def test_sessions_of_any_name_hold_their_files(box):
    names = [b"\xff\xfe", b"a\nb", b"100%", b"%41", b"%2F", b" ", b"-", b"...", b"s.json"]
    names += [b"x" * 255]
    plain = box.new_folder("plain")
    mount = box.mount()
    for root in (plain, mount.path):
        for name in names:
            os.mkdir(os.path.join(os.fsencode(root), name))
            write(os.path.join(os.fsencode(root), name, b"k.json"), b"1")
    same(sorted(os.listdir(mount.path)), sorted(os.listdir(plain)), "names")
    mount.remount()
    expected, seen = tree(plain), tree(mount.path)
    expected.pop(""), seen.pop("")
    same_trees(expected, seen, "after mounting again: ")
    same(len({row[0] for row in mount.keys()}), len(names), "sessions in the store")


def test_suffixes_alone_are_ordinary_files(box):
    def play(script):
        for name in (".json", ".jsonl", ".hash"):
            script.do(write, "/" + name, b"not json \xff")
            script.do(os.link, "/" + name, f"/other{name[1:]}")
            script.stat(name)
            script.do(os.mkdir, f"/d{name[1:]}")
            script.do(write, f"/d{name[1:]}/{name}", b"{")

    mount = beside(box, play)
    same(mount.keys(), [], "keys in the store")


def test_names_whose_keys_collide_both_work_and_deleting_one_leaves_the_other(box):
    mount, session = box.session()
    for first, second in (("k.json", "k.jsonl"), ("l.jsonl", "l.json")):
        stem = first.split(".")[0]
        sidecar = os.path.join(session, stem + ".hash")
        paths = os.path.join(session, first), os.path.join(session, second)
        write(paths[0], b'{"first": 1}\n')
        write(sidecar, b"deadbeef")
        write(paths[1], b'{"second": 2}\n')
        same(read(paths[0]), b'{"first": 1}\n', first)
        same(read(paths[1]), b'{"second": 2}\n', second)
        row = mount.rows("s", stem)[0].strip()
        same(row, b'{"first": 1}', "the key without a suffix")
        row = mount.rows("s", second)[0].strip()
        same(row, b'{"second": 2}', "the key of the second file is its full name")
        mount.remount()
        same(read(paths[0]), b'{"first": 1}\n', first)
        os.unlink(paths[1])
        same(read(paths[0]), b'{"first": 1}\n', first)
        same(read(sidecar), b"deadbeef", "the sidecar")
        eventually(lambda: mount.rows("s", second) == [], "the rows of the deleted file go")
        write(paths[1], b'{"again": 3}\n')
        os.unlink(paths[0])
        same(read(paths[1]), b'{"again": 3}\n', second)
        same(read(sidecar), b"deadbeef", "the sidecar")
        append(paths[1], b'{"more": 4}\n')
        mount.remount()
        same(read(paths[1]), b'{"again": 3}\n{"more": 4}\n', second)
    same(sorted(os.listdir(session)), ["k.hash", "k.jsonl", "l.hash", "l.json"], "names")
    mount.check()


# Renames


def test_renames_behave_as_on_a_local_filesystem(box):
    def play(script):
        for name, data in CONTENT.items():
            script.do(write, "/" + name, data)
        script.do(os.mkdir, "/a")
        script.do(os.mkdir, "/a/b")
        script.do(os.mkdir, "/full")
        script.do(write, "/full/k.json", b"7")
        script.do(os.rename, "/a", "/a/b/c")
        script.do(os.rename, "/a", "/full")
        script.do(os.rename, "/full", "/a")
        script.do(os.rename, "/plain", "/a")
        script.do(os.rename, "/a", "/plain")
        script.do(os.rename, "/none", "/plain")
        script.do(os.rename, "/plain", "/none/x")
        script.do(os.rename, "/doc.json", "/doc.json")
        script.do(os.rename, "/doc.json", "/moved.json")
        script.do(os.rename, "/list.jsonl", "/a/b/list.jsonl")
        script.do(os.rename, "/side.hash", "/a/list.hash")
        script.do(os.rename, "/full", "/a/b/empty")
        script.do(os.mkdir, "/onto")
        script.do(os.rename, "/a/b", "/onto")
        script.list("onto")
        script.list("a")
        script.do(read, "/onto/list.jsonl")
        script.do(read, "/onto/empty/k.json")
        script.do(os.rename, "/moved.json", "/onto/empty/k.json")
        script.do(read, "/onto/empty/k.json")
        for name in ("a", "onto", "onto/empty", "onto/list.jsonl"):
            script.stat(name)

    beside(box, play)


def test_renaming_a_session_or_a_folder_moves_the_keys_of_its_rows(box):
    mount = box.mount()
    os.makedirs(mount.at("old", "a", "b"))
    write(mount.at("old", "k.json"), b"1")
    write(mount.at("old", "a", "b", "l.jsonl"), b"1\nbad\n2\n")
    write(mount.at("old", "a", "b", "l.hash"), b"deadbeef")
    write(mount.at("old", "a", "note.txt"), b"ordinary")
    stamps = mount.stamps("old", "a/b/l")
    os.rename(mount.at("old"), mount.at("new"))
    keys = [(b"new", b"a/b/l"), (b"new", b"a/b/l:_hash"), (b"new", b"k")]
    same(mount.keys(), keys, "keys after renaming the session")
    same(mount.stamps("new", "a/b/l"), stamps, "stamps")
    os.rename(mount.at("new", "a"), mount.at("new", "c"))
    keys = [(b"new", b"c/b/l"), (b"new", b"c/b/l:_hash"), (b"new", b"k")]
    same(mount.keys(), keys, "keys after renaming the folder")
    os.mkdir(mount.at("other"))
    os.rename(mount.at("new", "c", "b"), mount.at("other", "b"))
    keys = [(b"new", b"k"), (b"other", b"b/l"), (b"other", b"b/l:_hash")]
    same(mount.keys(), keys, "keys after moving a folder to another session")
    same(read(mount.at("other", "b", "l.jsonl")), b"1\nbad\n2\n", "the list")
    same(read(mount.at("new", "c", "note.txt")), b"ordinary", "the note")
    mount.remount()
    same(read(mount.at("other", "b", "l.jsonl")), b"1\nbad\n2\n", "after mounting again")
    append(mount.at("other", "b", "l.jsonl"), b"3\n")
    same(mount.rows("other", "b/l"), [b"1", b"2", b"3"], "rows")
    mount.check()


def test_a_folder_that_is_moved_to_the_root_is_a_session_and_back(box):
    mount = box.mount()
    os.makedirs(mount.at("s", "inner"))
    write(mount.at("s", "inner", "k.json"), b"1")
    write(mount.at("s", "inner", "l.jsonl"), b"1\n2\n")
    os.rename(mount.at("s", "inner"), mount.at("outer"))
    same(mount.keys(), [(b"outer", b"k"), (b"outer", b"l")], "keys at the root")
    os.rename(mount.at("outer"), mount.at("s", "again"))
    same(mount.keys(), [(b"s", b"again/k"), (b"s", b"again/l")], "keys below the session")
    same(read(mount.at("s", "again", "l.jsonl")), b"1\n2\n", "the list")
    mount.check()


def test_state_files_become_ordinary_and_ordinary_files_become_state_by_rename(box):
    mount, session = box.session()

    def at(name):
        return os.path.join(session, name)

    data = b'{"n": 1}\nbad\n{"n": 2}'
    write(at("note.txt"), data)
    number = os.stat(at("note.txt")).st_ino
    os.rename(at("note.txt"), at("l.jsonl"))
    same(mount.rows("s", "l"), [b'{"n": 1}', b'{"n": 2}'], "as a list")
    os.rename(at("l.jsonl"), at("l.json"))
    same(read(at("l.json")), data, "as a document")
    os.rename(at("l.json"), at("l.hash"))
    same(mount.rows("s", "l:_hash"), [data], "as a sidecar")
    os.rename(at("l.hash"), at("l.txt"))
    same(mount.keys(), [], "as an ordinary file")
    os.rename(at("l.txt"), mount.at("root.json"))
    same(mount.keys(), [], "a file at the root")
    os.rename(mount.at("root.json"), at("k.json"))
    same(read(at("k.json")), data, "as a document again")
    same(os.stat(at("k.json")).st_ino, number, "inode number")
    write(at("k.json"), b"[1]")
    os.rename(at("k.json"), at("k.jsonl"))
    same((read(at("k.jsonl")), mount.rows("s", "k")), (b"[1]", [b"[1]"]), "a list of one row")
    append(at("k.jsonl"), b"\n[2]\n")
    same(mount.rows("s", "k"), [b"[1]", b"[2]"], "after an append")
    mount.remount()
    same(read(at("k.jsonl")), b"[1]\n[2]\n", "after mounting again")
    mount.check()


def test_a_folder_with_state_files_moved_below_an_ordinary_place_keeps_their_bytes(box):
    mount, session = box.session()
    os.mkdir(os.path.join(session, "d"))
    write(os.path.join(session, "d", "l.jsonl"), b"1\nbad\n2")
    for target in ("d.json", "x.jsonl", "d"):
        names = [name for name in os.listdir(session)]
        os.rename(os.path.join(session, names[0]), os.path.join(session, target))
        same(read(os.path.join(session, target, "l.jsonl")), b"1\nbad\n2", f"in {target}")
    mount.check()


def test_a_rename_can_leave_a_whiteout(box):
    """As an overlay asks for: a device of the number 0 stands where the name was."""
    mount, session = box.session()
    other = box.mount(mount.store)
    bytes_of = {"plain": b"p", "doc.json": b"{}", "list.jsonl": b"[1]\n"}

    def whiteouts(folder):
        return {name for name in os.listdir(folder)
                if stat.S_ISCHR(os.lstat(os.path.join(folder, name)).st_mode)
                and os.lstat(os.path.join(folder, name)).st_rdev == 0}

    for name, data in bytes_of.items():
        write(os.path.join(session, name), data)
        write(os.path.join(session, "over " + name), b"1\n")
        os.mkdir(os.path.join(session, "dir " + name))
        renameat2(os.path.join(session, name), os.path.join(session, "over " + name), WHITEOUT)
        renameat2(os.path.join(session, "dir " + name), os.path.join(session, "to " + name),
                  WHITEOUT | NOREPLACE)
        same(read(os.path.join(session, "over " + name)), data, "what was moved")
        same(errno_of(renameat2, os.path.join(session, "over " + name),
                      os.path.join(session, "x"), WHITEOUT | EXCHANGE), errno.EINVAL, "both")
    left = {*bytes_of, *("dir " + name for name in bytes_of)}
    same(whiteouts(session), left, "whiteouts")
    same(whiteouts(other.at("s")), left, "whiteouts on another mount")
    same([key for _, key in mount.keys()], [b"over doc", b"over list"], "keys")
    for mounted in (mount, other):
        mounted.stop()
    mount.start()
    same(whiteouts(session), left, "whiteouts after mounting again")
    os.unlink(os.path.join(session, "doc.json"))
    write(os.path.join(session, "doc.json"), b"[]")
    same(mount.rows("s", "doc"), [b"[]"], "the rows of a file in the place of one")
    mount.stop()
    mount.check()


def test_an_overlay_writes_into_a_mount(box):
    need_root()
    mount = box.mount()
    below, shown = box.new_folder("below"), box.new_folder("shown")
    for name in ("kept", "changed", "removed", "renamed"):
        write(os.path.join(below, name), name.encode())
    for name in ("upper", "work"):
        os.mkdir(mount.at(name))
    layers = f"lowerdir={below},upperdir={mount.at('upper')},workdir={mount.at('work')},userxattr"
    done = tool("mount", "-t", "overlay", "-o", layers, "overlay", shown, check=False)
    if b"unknown filesystem type" in done.stderr:
        raise Skip("the kernel has no overlay")
    same(done.returncode, 0, f"mounting it (it says {done.stderr})")
    try:
        append(os.path.join(shown, "changed"), b" since")
        os.unlink(os.path.join(shown, "removed"))
        os.rename(os.path.join(shown, "renamed"), os.path.join(shown, "new"))
        write(os.path.join(shown, "doc.json"), b"{}")
        same({name: read(os.path.join(shown, name)) for name in os.listdir(shown)},
             {"kept": b"kept", "changed": b"changed since", "new": b"renamed", "doc.json": b"{}"},
             "the files")
    finally:
        tool("umount", shown)
    same(mount.rows("upper", "doc"), [b"{}"], "a document of the upper layer")
    same(sorted(os.listdir(mount.at("upper"))),
         ["changed", "doc.json", "new", "removed", "renamed"], "the upper layer")


def test_renameat2_keeps_what_is_there_and_exchanges(box):
    def play(script):
        for name, data in CONTENT.items():
            script.do(write, "/" + name, data)
        script.do(os.mkdir, "/d")
        script.do(write, "/d/k.json", b"5")
        script.do(renameat2, "/plain", "/doc.json", NOREPLACE)
        script.do(renameat2, "/doc.json", "/list.jsonl", NOREPLACE)
        script.do(renameat2, "/doc.json", "/new.json", NOREPLACE)
        script.do(renameat2, "/new.json", "/none", EXCHANGE)
        script.do(renameat2, "/new.json", "/d/k.json", EXCHANGE)
        script.do(read, "/new.json")
        script.do(read, "/d/k.json")
        script.do(renameat2, "/plain", "/new.json", EXCHANGE)
        script.do(read, "/plain")
        script.do(renameat2, "/d", "/list.jsonl", EXCHANGE)
        script.do(read, "/d")
        script.do(read, "/list.jsonl/k.json")
        script.do(renameat2, "/list.jsonl", "/side.hash", EXCHANGE)
        script.do(renameat2, "/plain", "/new.json", EXCHANGE | NOREPLACE)
        script.stat("d")
        script.list()

    beside(box, play)


def test_exchanging_two_sessions_exchanges_their_rows(box):
    mount = box.mount()
    for name in ("a", "b"):
        os.mkdir(mount.at(name))
        write(mount.at(name, "k.json"), b'"%s"' % name.encode())
        write(mount.at(name, name + ".jsonl"), b"1\n2\n")
    renameat2(mount.at("a"), mount.at("b"), EXCHANGE)
    same(mount.rows("a", "k"), [b'"b"'], "rows of a")
    same(mount.rows("b", "k"), [b'"a"'], "rows of b")
    same((mount.rows("a", "a"), mount.rows("b", "a")), ([], [b"1", b"2"]), "lists")
    mount.remount()
    same(read(mount.at("a", "k.json")), b'"b"', "after mounting again")
    mount.check()


# Links and special files


def test_hard_links_work_between_ordinary_files_and_are_refused_for_state(box):
    mount, session = box.session()

    def at(name):
        return os.path.join(session, name)

    write(at("a"), b"one")
    os.link(at("a"), at("b"))
    os.mkdir(at("d"))
    os.link(at("a"), at("d/c"))
    same(os.stat(at("b")).st_nlink, 3, "links")
    same(os.stat(at("d/c")).st_ino, os.stat(at("a")).st_ino, "inode number")
    write(at("b"), b"two")
    same(read(at("d/c")), b"two", "by another name")
    for name in ("k.json", "l.jsonl", "h.hash"):
        write(at(name), b"1\n")
        same(errno_of(os.link, at(name), at("link-" + name)), errno.EPERM, f"a link to {name}")
        same(errno_of(os.link, at(name), at("plain-link")), errno.EPERM, f"a link to {name}")
        same(errno_of(os.link, at("a"), at("as-" + name)), errno.EPERM, f"a link named {name}")
        same(os.stat(at(name)).st_nlink, 1, f"links of {name}")
    same(errno_of(os.link, at("a"), at("b")), errno.EEXIST, "a link over a file")
    same(errno_of(os.link, at("d"), at("dd")), errno.EPERM, "a link to a folder")
    os.rename(at("a"), at("b"))  # the same file: nothing happens
    same(sorted(os.listdir(session)), ["a", "b", "d", "h.hash", "k.json", "l.jsonl"], "names")
    os.unlink(at("a"))
    same(os.stat(at("b")).st_nlink, 2, "links after unlink")
    mount.remount()
    same(os.stat(at("b")).st_ino, os.stat(at("d/c")).st_ino, "inode after mounting again")
    same(read(at("d/c")), b"two", "after mounting again")
    mount.check()


def test_a_file_with_two_names_does_not_become_state(box):
    mount, session = box.session()
    write(os.path.join(session, "a"), b"1")
    os.link(os.path.join(session, "a"), os.path.join(session, "b"))
    error = errno_of(os.rename, os.path.join(session, "a"), os.path.join(session, "a.json"))
    # Refused, or both names still lead to the same bytes.
    if error == 0:
        same(read(os.path.join(session, "a.json")), b"1", "the renamed file")
    else:
        same(read(os.path.join(session, "a")), b"1", "the file that kept its name")
    same(read(os.path.join(session, "b")), b"1", "the other name")
    mount.check()


def test_symlinks_fifos_and_sockets_behave_as_on_a_local_filesystem(box):
    def play(script):
        script.do(write, "/k.json", b"1")
        script.do(os.symlink, "k.json", "/link")
        script.do(os.symlink, "k.json", "/link.json")
        script.do(os.symlink, "x" * 4000, "/long")
        script.do(os.symlink, "../../..", "/up")
        script.do(os.symlink, "", "/empty")
        script.do(os.symlink, "k.json", "/link")
        script.do(os.symlink, "loop", "/loop")
        script.do(read, "/loop")
        for name in ("link", "link.json", "long", "up"):
            script.do(os.readlink, "/" + name)
            script.stat(name)
        script.do(read, "/link")
        script.do(read, "/link.json")
        script.do(write, "/link.json", b"[2]")
        script.do(read, "/k.json")
        script.do(os.readlink, "/k.json")
        script.do(os.mkfifo, "/fifo", 0o640)
        script.do(os.mkfifo, "/fifo.json", 0o600)
        script.do(os.mknod, "/file", 0o100640)
        script.do(os.mknod, "/file.json", 0o100600)
        here = os.getcwd()
        os.chdir(script.root)
        with socket.socket(socket.AF_UNIX) as server, socket.socket(socket.AF_UNIX) as client:
            server.bind("socket")
            server.listen(1)
            client.connect("socket")
            connection = server.accept()[0]
            client.send(b"hello")
            script.see("socket", connection.recv(5))
            connection.close()
        os.chdir(here)
        reader = os.open(script.at("fifo"), os.O_RDONLY | os.O_NONBLOCK)
        writer = os.open(script.at("fifo"), os.O_WRONLY)
        os.write(writer, b"through")
        script.see("fifo", os.read(reader, 100))
        os.close(reader)
        os.close(writer)
        for name in ("fifo", "fifo.json", "socket", "file", "file.json"):
            script.stat(name)
        script.do(os.rename, "/fifo.json", "/fifo2.jsonl")
        script.do(os.rename, "/link.json", "/link.jsonl")
        script.do(os.unlink, "/link")

    mount = beside(box, play)
    same(mount.keys(), [(b"s", b"k")], "keys in the store")


def test_device_nodes_are_kept(box):
    need_root()

    def play(script):
        script.do(os.mknod, "/null", stat.S_IFCHR | 0o666, os.makedev(1, 3))
        script.do(os.mknod, "/block", stat.S_IFBLK | 0o600, os.makedev(7, 0))
        for name in ("null", "block"):
            status = os.lstat(script.at(name))
            script.see(name, oct(status.st_mode), status.st_rdev)

    plain, mount = Script(box.new_folder("plain")), box.session()
    play(plain)
    real = Script(mount[1])
    play(real)
    same_lists(plain.seen, real.seen, "on the mount")


# Metadata


def lasting(status):
    """What lstat says, without the device."""
    times = (status.st_atime_ns, status.st_mtime_ns, status.st_ctime_ns)
    return (oct(status.st_mode), status.st_ino, *tuple(status)[3:7], *times)


def test_modes_owners_times_and_attributes_survive_mounting_again(box):
    mount, session = box.session()
    root = os.geteuid() == 0
    expected = {}
    for number, name in enumerate((*NAMES, "dir", "link", "fifo")):
        path = os.path.join(session, name)
        if name == "dir":
            os.mkdir(path)
        elif name == "link":
            os.symlink("plain", path)
        elif name == "fifo":
            os.mkfifo(path)
        else:
            write(path, CONTENT[name])
            os.setxattr(path, "user.empty", b"")
            os.setxattr(path, "user.bytes", bytes(range(256)))
            os.setxattr(path, "user.gone", b"x")
            os.removexattr(path, "user.gone")
            same(errno_of(os.getxattr, path, "user.gone"), errno.ENODATA, "a removed attribute")
            again = errno_of(os.setxattr, path, "user.empty", b"", os.XATTR_CREATE)
            same(again, errno.EEXIST, "an attribute that is there")
            again = errno_of(os.setxattr, path, "user.none", b"", os.XATTR_REPLACE)
            same(again, errno.ENODATA, "an attribute that is not there")
        if root:
            os.chown(path, 1234 + number, 4321, follow_symlinks=False)
        if name != "link":
            os.chmod(path, 0o604 + number)
        # Before 1970, and behind 2038 and 2106.
        moment = (-1_000_000_001 * number, 2**33 * 10**9 + 123_456_789 + number)
        os.utime(path, ns=moment, follow_symlinks=False)
        status = os.lstat(path)
        same((status.st_atime_ns, status.st_mtime_ns), moment, f"times of {name}")
        expected[name] = lasting(status)
    os.chmod(session, 0o2751)
    os.utime(session, ns=(7, 8))
    mount.remount()
    for name, before in expected.items():
        path = os.path.join(session, name)
        status = os.lstat(path)
        same(lasting(status), before, f"lstat of {name}")
        if name in NAMES:
            same(sorted(os.listxattr(path)), ["user.bytes", "user.empty"], f"attributes of {name}")
            same(os.getxattr(path, "user.bytes"), bytes(range(256)), "an attribute")
            same(read(path), CONTENT[name], name)
    status = os.stat(session)
    seen = (oct(status.st_mode), status.st_atime_ns, status.st_mtime_ns)
    same(seen, ("0o42751", 7, 8), "the session")
    mount.check()


def test_the_attributes_of_a_file_stay_with_it_through_saves_and_renames(box):
    mount, session = box.session()
    for name in NAMES:
        path = os.path.join(session, name)
        write(path, CONTENT[name])
        os.setxattr(path, "user.mark", b"x")
        os.chmod(path, 0o600)
        number = os.stat(path).st_ino
        write(path, CONTENT[name] * 2)
        moved = os.path.join(session, "moved-" + name)
        os.rename(path, moved)
        same(os.getxattr(moved, "user.mark"), b"x", f"attribute of {name}")
        same(oct(os.stat(moved).st_mode), "0o100600", f"mode of {name}")
        same(os.stat(moved).st_ino, number, f"inode number of {name}")
        os.unlink(moved)
        write(moved, CONTENT[name])
        same(os.listxattr(moved), [], f"attributes of a new {name}")


def test_explicit_times_and_modes_on_an_open_file_survive_its_close(box):
    mount, session = box.session()
    for name in NAMES:
        path = os.path.join(session, name)
        for again in range(2):
            fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
            os.write(fd, CONTENT[name])
            os.utime(fd, ns=(10**18, 10**18 + 1 + again))
            os.fchmod(fd, 0o600 + again)
            os.close(fd)
            status = os.stat(path)
            same(status.st_mtime_ns, 10**18 + 1 + again, f"mtime of {name}")
            same(oct(status.st_mode), oct(0o100600 + again), f"mode of {name}")
    mount.remount()
    for name in NAMES:
        same(os.stat(os.path.join(session, name)).st_mtime_ns, 10**18 + 2, f"mtime of {name}")


def test_writing_moves_mtime_and_ctime_and_reading_does_not_move_atime(box):
    mount, session = box.session()
    for name in NAMES:
        path = os.path.join(session, name)
        write(path, CONTENT[name])
        os.utime(path, ns=(10**18, 10**18))
        read(path)
        same(os.stat(path).st_atime_ns, 10**18, f"atime of {name} after reading")
        same(os.stat(path).st_mtime_ns, 10**18, f"mtime of {name} after reading")
        before = os.stat(path).st_ctime_ns
        append(path, b"\n")
        after = os.stat(path)
        assert after.st_mtime_ns > 10**18, f"mtime of {name} after an append"
        assert after.st_ctime_ns >= before, f"ctime of {name} after an append"
    os.utime(session, ns=(10**18, 10**18))
    write(os.path.join(session, "new.json"), b"1")
    assert os.stat(session).st_mtime_ns > 10**18, "mtime of the folder after a create"
    os.utime(session, ns=(10**18, 10**18))
    os.unlink(os.path.join(session, "new.json"))
    assert os.stat(session).st_mtime_ns > 10**18, "mtime of the folder after an unlink"


def test_inode_numbers_are_different_and_stay_over_mounts(box):
    mount, session = box.session()
    paths = [session]
    for number in range(200):
        paths.append(os.path.join(session, f"{number}.{('json', 'jsonl', 'txt')[number % 3]}"))
        write(paths[-1], b"1\n")
    for number in range(20):
        paths.append(os.path.join(session, f"d{number}"))
        os.mkdir(paths[-1])
    numbers = {path: os.stat(path).st_ino for path in paths}
    same(len(set(numbers.values())), len(paths), "different numbers")
    for entry in os.scandir(session):
        same(entry.inode(), numbers[entry.path], "d_ino")
    for path in paths[1:50]:
        write(path, b"2\n")
    mount.remount()
    same({path: os.stat(path).st_ino for path in paths}, numbers, "numbers after mounting again")


def test_statvfs_tells_the_room_of_the_medium(box):
    mount = box.mount()
    ours, below = os.statvfs(mount.path), os.statvfs(box.folder)
    same(ours.f_namemax, 255, "f_namemax")
    total = ours.f_blocks * ours.f_frsize
    assert 0 < total <= below.f_blocks * below.f_frsize, "total"
    difference = abs(ours.f_bavail * ours.f_frsize - below.f_bavail * below.f_frsize)
    assert difference < 512 << 20, f"free bytes differ by {difference}"


# Content


def test_open_flags_and_errors_are_those_of_a_local_filesystem(box):
    def play(script):
        script.do(os.mkdir, "/d")
        script.do(os.symlink, "none", "/dangling")
        for name in NAMES:
            path = "/" + name
            script.do(os.open, path, os.O_RDONLY)
            os.close(script.open(name, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o640))
            script.do(os.open, path, os.O_CREAT | os.O_EXCL | os.O_WRONLY)
            script.stat(name)
            script.do(write, path, CONTENT[name])
            script.do(os.listdir, path)
            script.do(os.open, path + "/x", os.O_RDONLY)
            script.do(os.open, path, os.O_DIRECTORY | os.O_RDONLY)
            script.do(os.truncate, path, -1)
            fd = script.open(name, os.O_RDONLY)
            script.do(os.write, fd, b"x")
            script.do(os.ftruncate, fd, 0)
            script.do(os.pread, fd, 5, 0)
            script.do(os.pread, fd, 5, 10**6)
            os.close(fd)
            fd = script.open(name, os.O_WRONLY)
            script.do(os.read, fd, 1)
            os.close(fd)
            script.do(os.access, path, os.R_OK | os.W_OK)
            script.do(os.access, path, os.X_OK)
        script.do(os.open, "/d", os.O_WRONLY)
        script.do(os.open, "/d", os.O_CREAT | os.O_RDWR)
        script.do(os.open, "/dangling", os.O_CREAT | os.O_EXCL | os.O_WRONLY)
        script.do(os.open, "/none", os.O_RDONLY)
        script.do(os.open, "/none/x", os.O_CREAT | os.O_WRONLY)
        script.do(os.truncate, "/none", 0)
        script.do(os.truncate, "/d", 0)
        script.do(os.rmdir, "/dangling")

    beside(box, play)


def test_a_file_is_written_at_offsets_truncated_and_extended(box):
    def play(script):
        for name in NAMES:
            path = "/" + name
            fd = script.open(name, os.O_RDWR | os.O_CREAT)
            script.do(os.pwrite, fd, b"[1, 2, 3]\n", 0)
            script.do(os.pwrite, fd, b"9", 1)
            script.do(os.pread, fd, 100, 0)
            script.do(os.pwrite, fd, b"end", 5000)
            script.do(os.fsync, fd)
            script.see("size", os.fstat(fd).st_size)
            script.do(os.pread, fd, 6000, 0)
            script.do(os.ftruncate, fd, 10)
            script.see("end", os.lseek(fd, 0, os.SEEK_END))
            script.do(os.write, fd, b"[4]\n")
            os.close(fd)
            script.do(read, path)
            script.stat(name)
            script.do(os.truncate, path, 4)
            script.do(read, path)
            script.do(os.truncate, path, 70000)
            script.do(read, path)
            script.do(os.truncate, path, 0)
            script.stat(name)
            script.do(write, path, CONTENT[name])
            fd = script.open(name, os.O_RDWR | os.O_APPEND)
            script.do(os.write, fd, b"[5]\n")
            script.do(os.pread, fd, 100, 0)
            script.do(os.lseek, fd, 0, os.SEEK_SET)
            script.do(os.write, fd, b"[6]\n")
            os.close(fd)
            script.do(read, path)

    beside(box, play)


def random_operations(script, name, seed, count, sized=65536):
    """Random calls on one file through a changing set of descriptors."""
    rng = random.Random(seed)
    lines = [b'{"n": %d, "pad": "%s"}\n' % (n, b"z" * (n * 37 % 900)) for n in range(40)]
    for _ in range(count):
        action = rng.randrange(10)
        if action <= 3:
            data = b"".join(rng.choice(lines) for _ in range(rng.randrange(1, 12)))
            if rng.random() < 0.2:
                data = data[: rng.randrange(1, len(data))]
            script.do(append, "/" + name, data)
        elif action == 4:
            data = b"".join(rng.choice(lines) for _ in range(rng.randrange(0, 60)))
            script.do(write, "/" + name, data)
        elif action == 5:
            script.do(os.truncate, "/" + name, rng.randrange(sized)) if script.seen else None
        elif action in (6, 7):
            fd = script.open(name, os.O_RDWR | os.O_CREAT)
            for _ in range(rng.randrange(1, 4)):
                data = rng.choice((rng.randbytes(rng.randrange(1, 3000)), rng.choice(lines)))
                script.do(os.pwrite, fd, data, rng.randrange(sized))
                script.do(os.pread, fd, rng.randrange(1, 9000), rng.randrange(sized))
            os.close(fd)
        elif action == 8:
            script.do(os.rename, "/" + name, "/" + name + ".tmp")
            script.do(os.rename, "/" + name + ".tmp", "/" + name)
        else:
            data = b"".join(rng.choice(lines) for _ in range(rng.randrange(0, 60)))
            script.do(write, "/new", data)
            script.do(os.rename, "/new", "/" + name)
        script.stat(name)
        script.do(read, "/" + name)


def test_random_operations_on_an_ordinary_file_equal_those_on_a_local_filesystem(box):
    beside(box, lambda script: random_operations(script, "plain", 1, 250))


def test_random_operations_on_a_document_equal_those_on_a_local_filesystem(box):
    beside(box, lambda script: random_operations(script, "doc.json", 2, 250))


def random_list_operations(script):
    for seed in range(3, 7):
        random_operations(script, f"l{seed}.jsonl", seed, 100)


def test_random_operations_on_lists_equal_those_on_a_local_filesystem(box):
    # The last line of a dead writer is closed off by the next append unless exact is set.
    plain = Script(box.new_folder("plain"))
    mount = box.mount(options=["exact"])
    os.mkdir(mount.at("s"))
    real = Script(mount.at("s"))
    random_list_operations(plain)
    random_list_operations(real)
    same_lists(plain.seen, real.seen, "on the mount")
    mount.remount()
    same_trees(tree(plain.root), tree(real.root), "after mounting again: ")
    for seed in range(3, 7):
        rows = mount.rows("s", f"l{seed}")
        same(all(harness.is_json(row) for row in rows), True, "rows are JSON")
    mount.check()


def test_sparse_files_tell_where_their_data_is(box):
    mount, session = box.session()
    path = os.path.join(session, "sparse")
    fd = os.open(path, os.O_RDWR | os.O_CREAT)
    size = 5 << 30
    os.pwrite(fd, b"start", 0)
    os.pwrite(fd, b"middle", 1 << 30)
    os.ftruncate(fd, size)
    same(os.fstat(fd).st_size, size, "size")
    same(os.pread(fd, 6, 1 << 30), b"middle", "data")
    same(os.pread(fd, 4, size - 4), bytes(4), "a hole")
    places = []
    place = 0
    while place < size:
        try:
            place = os.lseek(fd, place, os.SEEK_DATA)
        except OSError as error:
            same(error.errno, errno.ENXIO, "behind the last data")
            break
        end = os.lseek(fd, place, os.SEEK_HOLE)
        assert end > place, (place, end)
        places.append((place, end))
        place = end
    covered = [any(a <= at < b for a, b in places) for at in (0, 4, 1 << 30, (1 << 30) + 5)]
    same(covered, [True] * 4, "data is in what SEEK_DATA tells")
    os.close(fd)
    assert os.stat(path).st_blocks * 512 < 1 << 30, "blocks of a sparse file"
    mount.remount()
    same(os.stat(path).st_size, size, "size after mounting again")
    with open(path, "rb") as file:
        file.seek(1 << 30)
        same(file.read(7), b"middle\0", "after mounting again")
    mount.check()


def test_space_is_allocated_and_punched_as_on_a_local_filesystem(box):
    keep_size, punch_hole, zero_range = 1, 2, 16
    refused = []

    def zero(fd, offset, size):
        try:
            fallocate(fd, zero_range, offset, size)
        except OSError as error:  # tmpfs, where the plain folder may be, cannot
            refused.append(os.fstat(fd).st_dev)
            same(error.errno, errno.ENOTSUP, "the error")
            os.pwrite(fd, bytes(size), offset)

    def play(script):
        fd = script.open("plain", os.O_RDWR | os.O_CREAT)
        put(fd, bytes(range(256)) * 512)
        script.do(fallocate, fd, 0, 200000, 5000)
        script.see("size", os.fstat(fd).st_size)
        script.do(fallocate, fd, keep_size, 300000, 5000)
        script.see("size", os.fstat(fd).st_size)
        script.do(fallocate, fd, punch_hole | keep_size, 1000, 50000)
        script.do(os.pread, fd, 60000, 0)
        script.do(zero, fd, 90000, 10)
        script.do(os.pread, fd, 100, 89950)
        script.do(fallocate, fd, punch_hole, 0, 10)
        script.do(fallocate, fd, 0, 0, 0)
        os.close(fd)

    beside(box, play)
    plain = os.stat(box.folder).st_dev
    same([device for device in refused if device != plain], [], "mounts that refuse to zero")


def test_files_that_were_unlinked_or_replaced_while_open_stay_readable(box):
    mount, session = box.session()
    for name in NAMES:
        path = os.path.join(session, name)
        write(path, CONTENT[name])
        fd = os.open(path, os.O_RDWR)
        os.unlink(path)
        same(os.fstat(fd).st_nlink, 0, f"links of {name}")
        same(os.pread(fd, 100, 0), CONTENT[name], f"{name} after unlink")
        os.pwrite(fd, b"X", 0)
        same(os.pread(fd, 1, 0), b"X", f"{name} written after unlink")
        write(path, b"7\n")
        same(os.pread(fd, 1, 0), b"X", f"{name} beside a new file of the name")
        same(read(path), b"7\n", f"the new {name}")
        os.close(fd)
        same(read(path), b"7\n", f"the new {name} after closing the old one")
        reader = os.open(path, os.O_RDONLY)
        write(path + ".new", b"8\n")
        os.rename(path + ".new", path)
        same(os.pread(reader, 100, 0), b"7\n", f"{name} open while it was replaced")
        os.close(reader)
        same(read(path), b"8\n", f"the {name} that replaced it")
    mount.remount()
    same(sorted(os.listdir(session)), sorted(NAMES), "names")
    mount.check()


def test_mapped_files_are_read_and_ordinary_ones_written(box):
    mount, session = box.session()
    for name in NAMES:
        path = os.path.join(session, name)
        data = CONTENT[name] * 1000
        write(path, data)
        # A document is mapped privately only: its readers see one version each.
        if not name.endswith((".json", ".hash")):
            with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as view:
                same(view[:], data, f"{name} mapped")
        with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY) as view:
            view[0:1] = b"X"
            same(view[1:], data[1:], f"{name} mapped privately")
        same(read(path), data, f"{name} after a private change")
    path = os.path.join(session, "plain")
    with open(path, "r+b") as file, mmap.mmap(file.fileno(), 0) as view:
        view[5:10] = b"HELLO"
        view.flush()
    same(read(path)[5:10], b"HELLO", "after writing through the mapping")
    mount.remount()
    same(read(path)[5:10], b"HELLO", "after mounting again")


LOCK_RANGE = """
import fcntl, sys
fcntl.lockf(open(sys.argv[1], "r+b"), fcntl.LOCK_EX | fcntl.LOCK_NB, 4, 0)
"""


def test_locks_of_two_processes_exclude_each_other(box):
    mount, session = box.session()
    for name in NAMES:
        path = os.path.join(session, name)
        write(path, CONTENT[name])
        with open(path, "r+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            done = tool("flock", "-n", path, "true", check=False)
            same(done.returncode, 1, f"flock on {name} while it is held")
            fcntl.flock(file, fcntl.LOCK_UN)
            tool("flock", "-n", path, "true")
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 4, 0)
            done = tool(sys.executable, "-c", LOCK_RANGE, path, check=False)
            assert done.returncode != 0, f"a range of {name} was locked twice"


def test_tools_that_copy_inside_of_the_kernel_copy_every_byte(box):
    mount, session = box.session()
    line = b'{"pad": "' + b"p" * 1000 + b'"}\n'
    files = {"a.jsonl": line * 3000, "a.json": b'"' + b"q" * 3_000_000 + b'"', "a": line * 3000}
    for name, data in files.items():
        path = os.path.join(session, name)
        write(path, data)
        for reflink in ("auto", "never"):
            copy = os.path.join(session, f"copy-{reflink}-{name}")
            tool("cp", f"--reflink={reflink}", path, copy)
            same(read(copy) == data, True, f"cp --reflink={reflink} of {name}")
        target = os.path.join(session, "range-" + name)
        with open(path, "rb") as source, open(target, "wb") as sink:
            left = len(data)
            while left:
                count = os.copy_file_range(source.fileno(), sink.fileno(), left)
                assert count > 0, "copy_file_range has stopped"
                left -= count
        same(read(target) == data, True, f"copy_file_range of {name}")
        outside = box.new_path("outside")
        shutil.copyfile(path, outside)
        same(read(outside) == data, True, f"sendfile of {name}")
    same(len(mount.rows("s", "copy-auto-a")), 3000, "rows of a copy")
    mount.check()


GROWS = harness.rounds("SESSFS_GROWS", 3000, 8000)
GROW = """
import os, sys
fd = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
cut, lines = int(sys.argv[2]), int(sys.argv[3])
data = b"".join(b'{"n": %d, "pad": "%s"}\\n' % (n, b"x" * (n % 300)) for n in range(lines))
pieces = [data[i : i + cut] for i in range(0, len(data), cut)] if cut else data.splitlines(True)
for piece in pieces:
    os.write(fd, piece)
os.close(fd)
"""


def grow_under_a_reader(path, cut):
    writer = subprocess.Popen([sys.executable, "-c", GROW, path, str(cut), str(GROWS)])
    try:
        seen = 0
        while writer.poll() is None:
            if os.path.exists(path):
                data = read(path)
                assert b"\0" not in data, f"zeros at {data.index(0)} of {len(data)} bytes"
                assert len(data) >= seen, "the list has shrunk"
                seen = len(data)
                with open(path, "rb") as file:
                    size = os.fstat(file.fileno()).st_size
                    assert size == 0 or os.pread(file.fileno(), 1, size - 1) == b"\n", "a torn line"
    finally:
        writer.kill()
        writer.wait()


def test_lists_grow_under_a_reader_without_zeros(box):
    mount, session = box.session()
    for cut in (0, 777, 8192):
        for before in (0, 1):
            name = f"l{cut}-{before}"
            path = os.path.join(session, name + ".jsonl")
            if before:
                write(path, b'{"before": 1}\n')
            grow_under_a_reader(path, cut)
            same(mount.rows("s", name), read(path).splitlines(), "rows")
            same(len(mount.indexes("s", name)), GROWS + before, "rows")


# Size


def test_a_line_of_100_megabytes_comes_back_the_same(box):
    mount, session = box.session()
    path = os.path.join(session, "huge.jsonl")
    source = box.new_path("huge")
    with open(source, "wb") as file:
        file.write(b'{"first": 1}\n{"pad": "')
        for _ in range(100):
            file.write(b"0123456789abcdef" * 65536)
        file.write(b'"}\n{"last": 1}\n')
    tool("cp", source, path)
    tool("cmp", source, path)
    query = f"SELECT item_index, length(state_data) FROM {harness.TABLE} ORDER BY 1"
    same(mount.sql(query), [(0, 12), (1, (100 << 20) + 11), (2, 11)], "rows")
    mount.remount()
    tool("cmp", source, path)
    append(path, b'{"more": 1}\n')
    same(mount.indexes("s", "huge"), [0, 1, 2, 3], "indexes")
    mount.check()


def test_a_large_folder_is_listed_once_each_while_it_changes(box):
    mount, session = box.session()
    many = harness.rounds("SESSFS_ENTRIES", 2000, 10000)
    kept = {f"{number:05}.{('json', 'jsonl', 'txt')[number % 3]}" for number in range(many)}
    for name in kept:
        os.close(os.open(os.path.join(session, name), os.O_WRONLY | os.O_CREAT, 0o644))
    same(set(os.listdir(session)), kept, "names")
    for name in list(kept)[:20]:
        assert os.path.exists(os.path.join(session, name))
    found = []
    with os.scandir(session) as entries:
        for number, entry in enumerate(entries):
            found.append(entry.name)
            if number % (many // 20) == 0:
                write(os.path.join(session, f"new-{number}.json"), b"1")
                os.unlink(os.path.join(session, f"new-{number}.json"))
    old = [name for name in found if not name.startswith("new")]
    same(sorted(old), sorted(kept), "names seen while the folder changed")
    mount.remount()
    same(set(os.listdir(session)), kept, "names after mounting again")
    shutil.rmtree(session)
    same(os.listdir(mount.path), [], "the root")
    mount.check()


def test_removing_entries_while_listing_removes_all(box):
    mount, session = box.session()
    for number in range(1500):
        os.close(os.open(os.path.join(session, f"{number}.json"), os.O_WRONLY | os.O_CREAT))
    with os.scandir(session) as entries:
        for entry in entries:
            os.unlink(entry.path)
    same(os.listdir(session), [], "names that are left")
    shell('rm -r "$1"', session)
    same(os.listdir(mount.path), [], "the root")


def test_everything_at_the_root_that_is_not_a_folder_is_an_ordinary_file(box):
    mount = box.mount()
    for name in ("k.json", "l.jsonl", "h.hash", "note"):
        write(mount.at(name), b"not \xff json")
        os.link(mount.at(name), mount.at("link-" + name))
    os.symlink("k.json", mount.at("link"))
    os.mkfifo(mount.at("fifo"))
    same(mount.keys(), [], "keys in the store")
    mount.remount()
    same(read(mount.at("k.json")), b"not \xff json", "after mounting again")
    same(len(os.listdir(mount.path)), 10, "names")
    mount.check()


def test_nothing_but_sessions_is_listed_at_the_root(box):
    mount = box.mount()
    same(os.listdir(mount.path), [], "a new store")
    os.mkdir(mount.at("s"))
    same(os.listdir(mount.path), ["s"], "with one session")
    same(os.stat(mount.path).st_nlink in (1, 3), True, "links of the root")
    os.rmdir(mount.at("s"))
    same(os.listdir(mount.path), [], "after removing it")
    os.mkdir(mount.at("empty"))
    mount.remount()
    same(os.listdir(mount.path), ["empty"], "an empty session after mounting again")


def test_ioctl_numbers_that_nobody_knows_are_refused(box):
    mount, session = box.session()
    path = os.path.join(session, "k.json")
    write(path, b"1")
    with open(path, "rb") as file:
        error = errno_of(fcntl.ioctl, file, 0x5413, struct.pack("4H", 0, 0, 0, 0))
    same(error, errno.ENOTTY, "a terminal's ioctl")


if __name__ == "__main__":
    harness.main(globals())
