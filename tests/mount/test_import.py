#!/usr/bin/python3 -B
# SPDX-License-Identifier: MIT
"""import and export: trees, older layouts, tar streams; whole, resumable, the same both ways."""

import contextlib
import fcntl
import io
import json
import os
import pty
import re
import resource
import shutil
import signal
import socket
import sqlite3
import stat
import subprocess
import tarfile
import time

import harness
import places
from harness import (
    TABLE,
    TOP,
    Skip,
    append,
    eventually,
    need_namespace,
    need_root,
    read,
    same,
    same_trees,
    tool,
    write,
)
from places import Terminal
from users import let_all_run, users

DATA = os.path.join(TOP, "tests", "data")
LARGE = 8 << 30  # bytes of a sparse file that nobody reads to its end in a test


class Place(places.Place):
    """With what is asked of it here."""

    def take(self, *arguments, layout="tree", **named):
        return self.do("import", f"--layout={layout}", self.store, *arguments, **named)

    def counts(self, *arguments):
        """What an import tells, without the zeros."""
        told = json.loads(self.do("import", "--json", *arguments[:-1], self.store, arguments[-1]))
        return {name: count for name, count in told.items() if count and name != "bytes"}

    def plan(self, *arguments):
        """What a dry run would do: path -> action."""
        listed = json.loads(self.do("import", "-n", "--json", self.store, *arguments))
        return {entry["path"]: entry["action"] for entry in listed}

    def tree(self):
        with self.mounted() as mount:
            return look(mount.path)

    def all_rows(self):
        return self.mount.sql(f"SELECT * FROM {TABLE} ORDER BY session_id, state_key, item_index")


everywhere = places.everywhere(Place)


def look(path):
    """A tree with times and attributes, but for its root; sizes of directories differ."""
    found = harness.tree(path, times=True)
    found.pop("")
    for name, entry in found.items():
        entry["xattrs"] = xattrs(os.path.join(os.fsencode(path), os.fsencode(name)))
    return found


def xattrs(path):
    if not stat.S_ISREG(os.lstat(path).st_mode) and not stat.S_ISDIR(os.lstat(path).st_mode):
        return {}
    return {name: os.getxattr(path, name) for name in os.listxattr(path) if "user." in name}


def make_folders(box, files):
    """A folder with files: path -> bytes."""
    folder = box.new_folder("source")
    for path, data in files.items():
        os.makedirs(os.path.dirname(os.path.join(folder, path)), exist_ok=True)
        write(os.path.join(folder, path), data)
    return folder


def make_slow(path):
    """A list that takes long, as its holes are read: each might be a part of a line."""
    with open(path, "wb") as file:
        for offset in range(0, LARGE, 1 << 30):
            file.seek(offset)
            file.write(b"x")
        file.truncate(LARGE)


def make_tree(box):
    """One of everything that a store takes in."""
    folder = make_folders(
        box,
        {
            "s/k.json": b'{"a": 1}',
            "s/l.jsonl": b'1\n{"b": 2}\n',
            "s/l.hash": b"0badcafe",
            "s/draft.json": b"{not yet",
            "s/torn.jsonl": b'1\n2\n{"c": ',
            "s/mixed.jsonl": b"1\r\noops\n\n\0\xff\n2",
            "s/empty.json": b"",
            "s/empty.jsonl": b"",
            "s/both.json": b"1",
            "s/both.jsonl": b"1\n2\n",
            "s/a/b/deep.json": b"[]",
            "s/notes.txt": b"ordinary\n" * 9000,
            "s/%2F.json": b"1",
            "s/100%/x.json": b"2",
            "s/\u65e5\u672c.json": b'"\xe6\x97\xa5"',
            "s/" + "x" * 249 + ".json": b"3",
            "..t/k.json": b"4",
            "top.json": b"at the root",
            "s/.json": b"no key",
        },
    )
    at = lambda *names: os.path.join(folder, *names)
    os.mkdir(at("nothing"))
    write(os.path.join(os.fsencode(at("s")), b"\xff\xfe.txt"), b"no UTF-8")
    os.link(at("s/notes.txt"), at("s/a/again.txt"))
    os.symlink("../nowhere", at("s/link"))
    os.symlink("k.json", at("s/other"))
    os.mkfifo(at("s/fifo"), 0o640)
    with contextlib.closing(socket.socket(socket.AF_UNIX)) as server:
        here = os.getcwd()
        os.chdir(at("s"))
        server.bind("socket")
        os.chdir(here)
    for name in ("s/k.json", "s/a", "s/notes.txt"):
        os.setxattr(at(name), "user.note", name.encode() + b"\0\xff")
    for name, mode in (("s/k.json", 0o600), ("s/a", 0o2750), ("s/notes.txt", 0o444), ("s", 0o711)):
        os.chmod(at(name), mode)
    for number, name in enumerate(("s/a/b", "s/a", "s/link", "s/k.json", "s/l.jsonl", "s")):
        moment = 1_000_000_000_123_456_789 + number * 10**12
        os.utime(at(name), ns=(moment, moment), follow_symlinks=False)
    if os.geteuid() == 0:
        os.chown(at("s/l.jsonl"), 65534, 65534)
        os.chown(at("s/link"), 65534, 65534, follow_symlinks=False)
    return folder


# Trees


@everywhere
def test_a_tree_is_taken_in_as_it_is_and_a_second_run_changes_nothing(place):
    source = make_tree(place.box)
    expected = look(source)
    count = sum(entry["type"] != "directory" for entry in expected.values())
    same(place.counts(source), {"created": count, "invalid": 4}, f"{place.what}: the first run")
    same_trees(expected, place.tree(), f"{place.what}: ")
    before = place.all_rows()
    same(place.counts(source), {"unchanged": count}, f"{place.what}: the second run")
    same(place.counts("--checksum", source), {"unchanged": count}, f"{place.what}: all bytes")
    same(place.all_rows(), before, f"{place.what}: rows after it")
    same(place.mount.rows("s", "l"), [b"1", b'{"b": 2}'], f"{place.what}: rows of a list")
    same(place.mount.rows("s", "draft"), [], f"{place.what}: rows of a draft")
    same_trees(expected, place.tree(), f"{place.what}: after the second run: ")
    place.mount.check()


@everywhere
def test_what_has_changed_is_replaced_and_a_list_that_has_grown_gets_its_new_rows(place):
    lines = [b'{"n": %d, "text": "%s"}\n' % (n, b"x" * 100) for n in range(12000)]
    files = {
        "s/grown.jsonl": b"1\n2\n",
        "s/much.jsonl": b"".join(lines[:60]),
        "s/edited.jsonl": b"1\n2\n3\n",
        "s/same.json": b"1",
        "s/other.json": b"1",
        "s/touched.json": b"1",
        "s/text.txt": b"a\n",
    }
    source = make_folders(place.box, files)
    at = lambda name: os.path.join(source, name)
    place.take(source)
    place.do("put", place.store, "s/own.json", stdin=b"7")
    before = {key: place.mount.stamps("s", key) for key in ("grown", "much", "edited")}
    time.sleep(0.01)
    append(at("s/grown.jsonl"), b"3\n4")
    append(at("s/much.jsonl"), b"".join(lines[60:]))
    write(at("s/edited.jsonl"), b"1\nx2\n3\n")
    write(at("s/other.json"), b"2")
    os.chmod(at("s/touched.json"), 0o600)
    append(at("s/text.txt"), b"b\n")
    write(at("s/new.json"), b"0")
    expected = {
        "s/edited.jsonl": "replace",
        "s/grown.jsonl": "append",
        "s/much.jsonl": "append",
        "s/new.json": "create",
        "s/other.json": "replace",
        "s/same.json": "unchanged",
        "s/text.txt": "replace",
        "s/touched.json": "attributes",
    }
    whole = place.all_rows()
    same(place.plan(source), expected, f"{place.what}: the dry run")
    same(place.all_rows(), whole, f"{place.what}: rows after the dry run")
    told = {"created": 1, "replaced": 3, "appended": 2, "attributes": 1, "unchanged": 1}
    told["invalid"] = 1
    same(place.counts(source), told, f"{place.what}: what was done")
    for key, count in (("grown", 2), ("much", 60), ("edited", 1)):
        same(
            place.mount.stamps("s", key)[:count],
            before[key][:count],
            f"{place.what}: times of the rows of {key} that stayed the same",
        )
    same(place.mount.rows("s", "grown"), [b"1", b"2", b"3", b"4"], "rows of the grown list")
    same(len(place.mount.rows("s", "much")), 12000, "rows of the list that has grown much")
    found = place.tree()
    same(found.pop("s/own.json")["bytes"], b"7", f"{place.what}: what only the store has")
    for entry in (found, wanted := look(source)):
        entry.pop("s")
    same_trees(wanted, found, f"{place.what}: ")


@everywhere
def test_kinds_that_differ_are_replaced_but_no_directory_and_nothing_in_one(place):
    files = {"s/a.txt": b"1", "s/b.txt": b"2", "s/dir/x": b"3", "s/f": b"4"}
    source = make_folders(place.box, files)
    place.take(source)
    for name in ("s/a.txt", "s/b.txt", "s/f"):
        os.unlink(os.path.join(source, name))
    shutil.rmtree(os.path.join(source, "s/dir"))
    os.symlink("b.txt", os.path.join(source, "s/a.txt"))
    os.mkfifo(os.path.join(source, "s/b.txt"))
    write(os.path.join(source, "s/dir"), b"a file now")
    os.mkdir(os.path.join(source, "s/f"))
    write(os.path.join(source, "s/f/lost"), b"5")
    said = place.take(source, status=1)
    assert "s/dir: it is a directory" in said, said
    assert "s/f: a file has the name of this directory" in said, said
    found = place.tree()
    same(found["s/a.txt"]["target"], b"b.txt", f"{place.what}: the link")
    same(found["s/b.txt"]["type"], "fifo", f"{place.what}: the FIFO")
    same(found["s/dir/x"]["bytes"], b"3", f"{place.what}: what is in the directory")
    same(found["s/f"]["bytes"], b"4", f"{place.what}: the file")


@everywhere
def test_rows_have_the_time_of_their_record_or_else_that_of_the_file(place):
    record = b'{"timestamp": "2024-01-02T03:04:05.678Z"}'
    source = make_folders(
        place.box,
        {
            "s/l.jsonl": record + b'\n{"n": 1}\n{"time": {"created": 1700000000123}}\ntorn\n',
            "s/k.json": b'{"startTime": "2024-01-02T03:04:05Z"}',
            "s/l.hash": b"0badcafe",
            "s/d/plain.json": b"1",
        },
    )
    at = lambda name: os.path.join(source, name)
    old = 1_600_000_000 * 10**9 + 250_000_000
    told, named = "2020-09-13 12:26:40.250", "2024-01-02 03:04:05.678"
    fell = "2023-11-14 22:13:20.123"
    for name in ("s/l.jsonl", "s/k.json", "s/l.hash", "s/d/plain.json"):
        os.utime(at(name), ns=(old, old))
    place.take(source)
    stamps = lambda key: [
        tuple(stamp.decode() for stamp in row[1:]) for row in place.mount.stamps("s", key)
    ]
    same(stamps("l"), [(named, named), (told, told), (fell, fell)], f"{place.what}: the list")
    same(stamps("k"), [("2024-01-02 03:04:05.000",) * 2], f"{place.what}: a state")
    same(stamps("l:_hash"), [(told, told)], f"{place.what}: a sidecar")
    same(stamps("d/plain"), [(told, told)], f"{place.what}: a state without a time")
    # What is appended by a second run, and by somebody else after it.
    append(at("s/l.jsonl"), record + b'\n{"n": 2}\n')
    os.utime(at("s/l.jsonl"), ns=(old + 10**9, old + 10**9))
    place.take(source)
    place.do("append", place.store, "s/l.jsonl", stdin=record + b"\n")
    same(stamps("l")[3:5], [(named, named), ("2020-09-13 12:26:41.250",) * 2], "what is new")
    assert stamps("l")[5][0] > "2026", f"{place.what}: {stamps('l')[5]}"
    attributes = [name for entry in place.tree().values() for name in entry["xattrs"]]
    same(attributes, [], f"{place.what}: attributes")
    listed = json.loads(place.do("sessions", "--json", place.store))[0]
    same(int(listed["created"]), old // 10**9, f"{place.what}: the session")


def test_a_dry_run_makes_no_store(box):
    source = make_tree(box)
    store = box.new_path("none")
    done = box.sessfs("import", "--dry-run", store, source, check=True)
    lines = done.stdout.decode("utf-8", "replace").splitlines()
    same({line[:10].strip() for line in lines[:-1]}, {"create"}, "what it would do")
    assert any(line.endswith("  s/k.json") for line in lines), lines
    assert not [name for name in os.listdir(box.folder) if name.startswith("none")], "a store"


@everywhere
def test_what_cannot_be_taken_in_is_told_and_the_rest_is(place):
    need_root()
    source = make_folders(place.box, {"s/a.json": b"1", "s/z.json": b"2"})
    try:
        os.mknod(os.path.join(source, "s/null"), stat.S_IFCHR | 0o600, os.makedev(1, 3))
    except PermissionError as error:
        raise Skip("devices cannot be made here") from error
    said = place.take(source, place.box.new_path("missing"), status=1)
    assert "s/null is a device" in said and "missing" in said, said
    same(sorted(place.tree()), ["s", "s/a.json", "s/z.json"], f"{place.what}: names")


@everywhere
def test_what_has_the_name_of_a_view_changes_nothing_of_what_the_view_shows(place):
    names = ["@first=2/l.jsonl", "@last=3", "@other=x,y.json", "l.jsonl", "z.json", "@types/a.json"]
    place.take(make_folders(place.box, {"s/l.jsonl": b"1\n2\n3\n"}))
    with place.mounted() as mount:
        os.setxattr(mount.at("s"), "user.note", b"kept")
    source = make_folders(place.box, {f"s/{name}": b"1\n2\n3\n4\n" for name in names})
    os.setxattr(os.path.join(source, "s"), "user.note", b"kept")
    said = place.take(source, status=1)
    for name in ("s/@first=2", "s/@last=3"):
        assert f"{name} has the name of a view" in said, (place.what, said)
    with place.mounted() as mount:
        same(read(mount.at("s/l.jsonl")), b"1\n2\n3\n4\n", f"{place.what}: the list")
        same(os.getxattr(mount.at("s"), "user.note"), b"kept", f"{place.what}: the attribute")
        there = sorted(os.listdir(mount.at("s")))
        same(there, ["@other=x,y.json", "@types", "l.jsonl", "z.json"], f"{place.what}: names")
    said = place.take(os.path.join(source, "s/@first=2"), "--to=s/@first=2", status=1)
    with place.mounted() as mount:
        same(read(mount.at("s/l.jsonl")), b"1\n2\n3\n4\n", f"{place.what}: into a view")


def test_a_file_and_a_folder_go_where_they_are_told(box):
    place = Place(box, False)
    source = make_folders(box, {"k.json": b"1", "sub/l.jsonl": b"1\n", "alone.json": b"2"})
    place.do("import", "--to=deep/er", place.store, os.path.join(source, "sub"))
    place.do("import", "--to=s", place.store, os.path.join(source, "k.json"))
    place.do("import", place.store, os.path.join(source, "alone.json"))
    names = ["alone.json", "deep", "deep/er", "deep/er/l.jsonl", "s", "s/k.json"]
    same(sorted(place.tree()), names, "names")
    same(place.mount.rows("deep", "er/l"), [b"1"], "rows of the list")
    said = place.do("import", "--to=../x", place.store, source, status=1)
    assert "leads out of the store" in said, said


@everywhere
def test_holes_stay_holes_and_what_can_never_be_rows_is_refused_at_once(place):
    source = make_folders(place.box, {"s/k.json": b"1", "s/few.jsonl": b"1\n"})
    at = lambda name: os.path.join(source, name)
    size = 40 << 30
    with open(at("s/disk.img"), "wb") as file:
        for offset in (1 << 20, 10 << 30, size - (1 << 20)):
            file.seek(offset)
            file.write(b"data" * 1000)
        file.truncate(size)
    for name in ("s/empty.img", "s/never.jsonl", "s/never.json", "s/never.hash"):
        write(at(name), b"")
        os.truncate(at(name), size)
    os.truncate(at("s/few.jsonl"), 1 << 20)
    said = place.take(source, status=1)
    same(said.count("never."), 3, f"{place.what}: what is refused: {said}")
    with place.mounted() as mount:
        for name in ("s/disk.img", "s/empty.img"):
            there = os.stat(mount.at(name))
            same(there.st_size, size, f"{place.what}: the size of {name}")
            assert there.st_blocks * 512 < 1 << 20, (place.what, name, there)
        with open(mount.at("s/disk.img"), "rb") as file:
            file.seek(10 << 30)
            same(file.read(4004), b"data" * 1000 + bytes(4), f"{place.what}: behind a hole")
        same(read(mount.at("s/few.jsonl")), b"1\n" + bytes((1 << 20) - 2), "a list with a hole")


def test_a_store_in_the_folder_is_left_out(box):
    source = make_folders(box, {"s/k.json": b"1"})
    store = os.path.join(source, "store.db")
    # As a mount writes where there is no system log.
    write(store + ".log", b"store.db is mounted on mnt\n")
    for _ in range(2):
        box.sessfs("import", store, source, check=True)
        box.sessfs("search", store, "word", check=True)
    os.symlink(store, box.new_path("link"))
    box.sessfs("import", os.path.join(box.folder, "link"), source, check=True)
    done = box.sessfs("ls", store, check=True)
    same(done.stdout, b"s/\n", "what is in the store")


def test_what_a_mount_of_the_store_shows_is_not_taken_into_it(box):
    need_root()
    place = Place(box, False)
    source = make_folders(box, {"s/k.json": b"1", "t/sub/keep.txt": b"2"})
    place.take(source)
    os.mkdir(os.path.join(source, "t/sub/again"))
    os.mkdir(os.path.join(source, "mnt"))
    write(os.path.join(source, "t/one.json"), b"3")
    mount = box.mount(store=place.store, path=os.path.join(source, "mnt"))
    before, again = look(mount.path), os.path.join(source, "t/sub/again")
    tool("mount", "--bind", mount.at("s"), again)
    try:
        done = box.sessfs("import", "--json", place.store, source, check=True)
    finally:
        tool("umount", again)
    said = done.stderr.decode()
    same(json.loads(done.stdout)["left_out"], 2, f"what was left out: {said}")
    assert "/mnt is part of a mount of" in said and "/again is part of" in said, said
    new = set(look(mount.path)) - set(before)
    same(sorted(new), ["t/one.json"], "what is new")
    for inside in (mount.path, mount.at("s"), mount.at("s/k.json")):
        done = box.sessfs("import", place.store, inside)
        same(done.returncode, 1, f"import of {inside}")
        assert b"part of a mount of" in done.stderr, done.stderr


def test_what_is_exported_into_the_store_leaves_itself_out(box):
    place = Place(box, False)
    source = make_folders(box, {"s/k.json": b"1", "t/sub/keep.txt": b"2"})
    place.take(source)
    link = os.path.join(box.folder, "link.db")
    os.symlink(place.store, link)
    mount = box.mount(store=place.store)
    os.mkdir(mount.at("t/bak"))
    for store, status in ((place.store, 1), (link, 1)):
        done = box.sessfs("export", "-f", store, mount.at("t/bak"))
        same(done.returncode, status, "the status")
        assert b"t/bak: the export goes there" in done.stderr, done.stderr
        names = sorted(harness.tree(mount.at("t/bak")))
        same(names, ["", "s", "s/k.json", "t", "t/sub", "t/sub/keep.txt"], "what is there")
    with open(mount.at("s/all.tar"), "wb") as out:
        done = subprocess.run(
            [box.program, "export", place.store, "-"], stdout=out, stderr=subprocess.PIPE
        )
    same(done.returncode, 1, "the status of a stream into the mount")
    with tarfile.open(mount.at("s/all.tar")) as archive:
        assert "s/all.tar" not in archive.getnames(), archive.getnames()
    done = box.sessfs("export", "-f", place.store, mount.path)
    same(done.returncode, 1, "the status for the mount itself")
    assert b"is mounted; name another" in done.stderr, done.stderr


def descend(folder, depth, make=False):
    fd = os.open(folder, os.O_RDONLY)
    for _ in range(depth):
        if make:
            os.mkdir("d", dir_fd=fd)
        fd, above = os.open("d", os.O_RDONLY, dir_fd=fd), fd
        os.close(above)
    return fd


def test_depth_costs_neither_descriptors_nor_stack(box):
    depth, place = harness.rounds("SESSFS_DEPTH", 1200, 2500), Place(box, False)
    source, out = box.new_folder("deep"), box.new_path("out")
    fd = descend(source, depth, make=True)
    os.close(os.open("f.json", os.O_WRONLY | os.O_CREAT, dir_fd=fd))
    os.close(fd)
    limits = lambda: (
        resource.setrlimit(resource.RLIMIT_NOFILE, (128, 128)),
        resource.setrlimit(resource.RLIMIT_STACK, (1 << 19, 1 << 19)),
    )
    try:
        for arguments in (("import", place.store, source), ("export", place.store, out)):
            done = box.sessfs(*arguments, check=True, preexec_fn=limits)
            assert b"1 created" in done.stdout or b"1 exported" in done.stdout, done
        fd = descend(out, depth)
        same(os.listdir(fd), ["f.json"], "what is at the bottom")
        os.close(fd)
        box.sessfs("rm", "-r", place.store, "d", check=True, preexec_fn=limits)
        same(box.sessfs("ls", place.store, check=True).stdout, b"", "what is left")
    finally:
        tool("rm", "-rf", source, out)


def test_what_cannot_be_listed_does_not_lead_its_neighbours_astray(box):
    need_root()
    place = Place(box, False)
    place.take(make_folders(box, {"s/a/x.json": b"1", "s/b.json": b"2", "s/c/y.json": b"3"}))
    out = box.new_folder("out")
    os.chmod(out, 0o777)
    os.chmod(place.store, 0o666)
    os.chmod(box.folder, 0o755)
    let_all_run(box, box.new_folder("program"))
    mount = box.mount(store=place.store, options=["allow_other"])
    os.chmod(mount.at("s/a"), 0)
    done = box.sessfs("export", place.store, out, user=65534)
    same(done.returncode, 1, "the status")
    assert b"s/a: Permission denied" in done.stderr, done.stderr
    names = sorted(harness.tree(out))
    same(names, ["", "s", "s/a", "s/b.json", "s/c", "s/c/y.json"], "what was exported")


# Interruptions


def interrupted(place, source, ready):
    """Starts an import, ends it by a signal when it is ready."""
    process = subprocess.Popen(
        [place.box.program, "import", place.store, source],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    eventually(ready, "the import is under way")
    process.send_signal(signal.SIGINT)
    same(process.wait(), -signal.SIGINT, f"{place.what}: the end of the import")
    told = process.stdout.read().decode()
    assert "unchanged" in told and "not imported" not in told, told
    return process.stderr.read().decode()


@everywhere
def test_who_is_interrupted_leaves_whole_files_and_goes_on(place):
    source = make_folders(place.box, {"s/a.json": b"1", "s/l.jsonl": b"1\n", "s/z.jsonl": b"9\n"})
    at = lambda name: os.path.join(source, "s", name)
    place.take(source)
    for name, old in (("l.jsonl", b"1\n"), ("m.jsonl", None)):
        write(at("a.json"), name.encode().join([b'"'] * 2))
        write(at("zz.json"), b"3")
        make_slow(at(name))
        now = read(at("a.json"))
        said = interrupted(place, source, lambda: place.mount.rows("s", "a") == [now])
        assert "imports the rest" in said, said
        found = place.tree()
        assert not [path for path in found if "sessfs-put" in path], (place.what, sorted(found))
        same("s/zz.json" in found, False, f"{place.what}: what comes behind it")
        same(found.get(f"s/{name}", {}).get("bytes"), old, f"{place.what}: {name}")
        write(at(name), b"1\n2\n")
        told = place.counts(source)
        same(told["unchanged"], 2 if old else 3, f"{place.what}: what was there already")
        same(place.mount.rows("s", name[0]), [b"1", b"2"], f"{place.what}: rows in the end")
        os.unlink(at("zz.json"))
        place.do("rm", place.store, "s/zz.json")
    place.mount.check()


# Progress


def test_a_terminal_shows_how_far_it_is_and_nothing_else_does(box):
    source = make_folders(box, {"s/a.json": b"1"})
    make_slow(os.path.join(source, "s/big.jsonl"))
    for columns in (100, 20):
        terminal = Terminal(box, "import", box.new_path("db"), source, columns=columns)
        seen = terminal.read_until(rb"\rimport  1 of 2 [^\r]*\r")
        terminal.process.send_signal(signal.SIGINT)
        shown = terminal.end(status=-signal.SIGINT)
        lines = [line.rstrip() for line in re.split(rb"[\r\n]+", seen) if line.strip()]
        for line in lines:
            assert len(line) < columns, (columns, line)
        if columns == 100:
            assert re.match(rb"import  1 of 2 files  \S+ of 8\.0G", lines[-1]), lines
        shown = shown.split(b"sessfs: ")[0]
        assert re.search(rb"\r *\r$", shown), ("the line is not taken away", shown[-200:])
    quick = make_folders(box, {"s/a.json": b"1"})
    terminal = Terminal(box, "import", box.new_path("db"), quick, delay=100000)
    same(terminal.end(), b"", "what one shows that is quick")
    done = box.sessfs("import", box.new_path("db"), quick, env={"SESSFS_PROGRESS_DELAY": "0"})
    same(done.stderr, b"", "what is shown where there is no terminal")


# Older layouts

STATES = {
    "agent": b'{"name": "A", "memory": {"content": [1, 2.50]}}',
    "memory": b'[{"role": "user", "content": "a, ] b"},\n'
    b' [1 , 2], "\\u00e9", 12345678901234567890]',
    "none": b"[]",
    "sub/key": b'"text"',
    "..": b"null",
    "a b": b"true",
}
ROWS = {
    "agent": [b'{"name":"A","memory":{"content":[1,2.50]}}'],
    "memory": [
        b'{"role":"user","content":"a, ] b"}',
        b"[1,2]",
        b'"\\u00e9"',
        b"12345678901234567890",
    ],
    "sub/key": [b'"text"'],
    "..": [b"null"],
    "a b": [b"true"],
}
MEMBERS = [b'"%s": %s' % (key.encode(), value) for key, value in STATES.items()]
SESSION = b"{\n  " + b",\n  ".join(MEMBERS) + b"}\n"
BAD = [
    (b'{"k": 1,\n "l": [1,}', "line 2, byte 18: expected a value"),
    (b"[1]", "line 1, byte 0: expected an object"),
    (b'{"k": NaN}', "line 1, byte 6"),
    (b"", "line 1, byte 0"),
    (b'{"k": "\xff"}', "line 1, byte 7: invalid UTF-8"),
    (b'{"k": 1} x', "line 1, byte 9"),
]


def rows_of(place, session):
    found = {}
    for key, data in place.mount.sql(
        f"SELECT state_key, state_data FROM {TABLE} WHERE session_id = ?"
        " ORDER BY state_key, item_index",
        (session,),
    ):
        found.setdefault(key.decode() if isinstance(key, bytes) else key, []).append(
            data if isinstance(data, bytes) else data.encode()
        )
    return found


@everywhere
def test_files_with_a_whole_session_become_sessions(place):
    names = ["s1", "user_s1", "a%2Fb", "..x", "\u65e5", "%"]
    files = {f"{name}.json": SESSION for name in names}
    bad = {f"bad{number}.json": text for number, (text, _) in enumerate(BAD)}
    lone = {"lone.json": b'{"k": "a\xed\xa0\xbdb", "twice": 1, "twice": [2]}'}
    rest = {"notes.txt": b"x", "sub/s9.json": SESSION, ".json": b"x"}
    views = {"@last=2.json": SESSION, "asked.json": b'{"a": 1, "@last=3/x": 2}'}
    source = make_folders(place.box, {**files, **bad, **lone, **rest, **views})
    said = place.take(source, layout="agentscope-files", status=1)
    for name in views:
        assert f"{name}: the id, or a key in it, is the name of a view" in said, said
    for number, (_, sentence) in enumerate(BAD):
        assert re.search(rf"bad{number}\.json: {re.escape(sentence)}", said), (sentence, said)
    for name in names:
        same(rows_of(place, name), ROWS, f"{place.what}: rows of {name}")
    same(rows_of(place, "lone"), {"k": [b'"a\\ud83db"'], "twice": [b"2"]}, "a lone surrogate")
    shown = ["s1", "user_s1", "a%252Fb", "..x", "\u65e5", "%25", "lone"]
    with place.mounted() as mount:
        same(sorted(os.listdir(mount.path)), sorted(shown), "sessions")
        same(read(mount.at("s1/none.jsonl")), b"", "an empty list")
        state = os.stat(mount.at("s1/agent.json"))
        origin = os.stat(os.path.join(source, "s1.json"))
        same((state.st_mtime_ns, state.st_mode), (origin.st_mtime_ns, origin.st_mode), "time, mode")
    before = place.all_rows()
    for name in (*bad, *views):
        os.unlink(os.path.join(source, name))
    same(
        place.counts("--layout=agentscope-files", source),
        {"unchanged": 6 * 6 + 2, "left_out": 3},
        f"{place.what}: the second run",
    )
    same(place.all_rows(), before, f"{place.what}: rows after it")


IDS = ["s1", "a/b", "..", "", "new\nline", "x" * 255, "\u65e5"]


def older_table(box, rows, table=TABLE, columns="session_id TEXT PRIMARY KEY, state_data JSON"):
    path = box.new_path("older") + ".db"
    with contextlib.closing(sqlite3.connect(path)) as base:
        base.execute(f"CREATE TABLE {table} ({columns}, created_at TEXT, updated_at TEXT)")
        base.executemany(f"INSERT INTO {table} VALUES (?, ?, NULL, ?)", rows)
        base.commit()
    return path


@everywhere
def test_an_older_table_in_sqlite_becomes_sessions(place):
    box = place.box
    rows = [(name, SESSION.decode(), "2025-02-03 04:05:06.5") for name in IDS]
    rows += [("x" * 256, '{"k": 1}', None), ("key", '{"%s": 1, "k": 2}' % ("y" * 256), None)]
    older = older_table(box, [*rows, ("bad", '{"k": 1,\n}', None), ("blob", b'{"k": 1}', None)])
    said = place.take(older, layout="agentscope-rows", status=1)
    assert "session 'bad': line 2, byte 9: expected a key" in said, said
    same(said.count("too long for the name of a file"), 2, f"sentences of {said!r}")
    same(said.count("\n"), 3, f"sentences of {said!r}")
    for name in ("x" * 256, "key"):
        same(rows_of(place, name), {}, f"{place.what}: what is too long")
    for name in IDS:
        same(rows_of(place, name), ROWS, f"{place.what}: rows of {name!r}")
    same(rows_of(place, "blob"), {"k": [b"1"]}, "a state that is a blob")
    same(rows_of(place, "bad"), {}, "a state that is no JSON")
    with place.mounted() as mount:
        same(os.stat(mount.at("s1/agent.json")).st_mtime_ns, 1738555506500000000, "the time")
    named = older_table(box, [("named", '{"k": 2}', None)], "old_sessions")
    assert "no table" in place.take(named, layout="agentscope-rows", status=1)
    place.take("--from-table=old_sessions", named, layout="agentscope-rows")
    same(rows_of(place, "named"), {"k": [b"2"]}, "a table of another name")
    said = place.take(place.store, layout="agentscope-rows", status=1)
    assert "the layout of a store" in said, said


def test_a_dump_is_no_database(box):
    place = Place(box, False)
    dump = b"INSERT INTO agentscope_sessions VALUES ('s','{}',NULL,NULL);\n"
    for name, named in ((box.new_path("dump") + ".sql", {}), ("-", {"stdin": dump})):
        if name != "-":
            write(name, dump)
        said = place.take(name, layout="agentscope-rows", status=1, **named)
        assert "is not a database; name one by its URL" in said and said.count("\n") == 1, said
    same(place.all_rows(), [], "rows")


# Export


def rows_without_times(place):
    return place.mount.sql(
        f"SELECT session_id, state_key, item_index, state_data FROM {TABLE}"
        " ORDER BY session_id, state_key, item_index"
    )


@everywhere
def test_what_is_exported_and_imported_is_the_same(place):
    source = make_tree(place.box)
    place.take(source)
    with place.mounted() as mount:
        os.setxattr(mount.at("s"), "user.sessfs.ttl", b"never")
        os.setxattr(mount.at("s"), "user.sessfs.quota", b"100M")
    expected = place.tree()
    folder = place.box.new_path("export")
    place.do("export", place.store, folder)
    same_trees(expected, look(folder), f"{place.what}: the folder: ")
    other = Place(place.box, bool(place.mount.pid))
    other.take(folder)
    same_trees(expected, other.tree(), f"{place.what}: another store: ")
    same(rows_without_times(other), rows_without_times(place), f"{place.what}: rows")
    # What the source has none of stays: it was set here.
    for name in ("user.sessfs.ttl", "user.sessfs.quota"):
        os.removexattr(os.path.join(folder, "s"), name)
    other.take(folder)
    same_trees(expected, other.tree(), f"{place.what}: once more: ")
    other.mount.check()


@everywhere
def test_a_session_alone_is_exported_and_a_folder_in_use_is_refused_without_force(place):
    source = make_folders(place.box, {"s/k.json": b"1", "t/k.json": b"2", "u/l.jsonl": b"3\n"})
    place.take(source)
    folder = place.box.new_path("export")
    place.do("export", place.store, folder, "s", "u")
    same(sorted(look(folder)), ["s", "s/k.json", "u", "u/l.jsonl"], f"{place.what}: names")
    write(os.path.join(folder, "s/own"), b"own")
    write(os.path.join(folder, "s/k.json"), b"changed")
    said = place.do("export", place.store, folder, status=1)
    assert "is not empty; with --force" in said, said
    same(read(os.path.join(folder, "s/k.json")), b"changed", "the file after a refusal")
    told = json.loads(place.do("export", "--force", "--json", place.store, folder))
    same((told["exported"], told["unchanged"]), (2, 1), f"{place.what}: what was done")
    same(read(os.path.join(folder, "s/k.json")), b"1", f"{place.what}: the file")
    same(read(os.path.join(folder, "s/own")), b"own", f"{place.what}: another file")
    said = place.do("export", place.store, place.box.new_path("export"), "x", "s/x", status=1)
    assert "x: there is no such file or session" in said and "'s/x' is a path" in said, said


@everywhere
def test_holes_are_holes_in_the_folder_too(place):
    source, size = make_folders(place.box, {"s/k.json": b"1"}), 100 << 20
    with open(os.path.join(source, "s/disk.img"), "wb") as file:
        for offset in (3, 10 << 20, (10 << 20) + 100000, size - 5):
            file.seek(offset)
            file.write(b"data")
        file.truncate(size)
    place.take(source)
    folder = place.box.new_path("export")
    place.do("export", place.store, folder)
    copy = os.path.join(folder, "s/disk.img")
    assert os.stat(copy).st_blocks * 512 < 1 << 20, (place.what, os.stat(copy))
    tool("cmp", os.path.join(source, "s/disk.img"), copy)


def test_what_a_killed_export_has_left_goes_with_the_next_one(box):
    place = Place(box, False)
    place.take(make_folders(box, {"s/k.json": b"1", "t/k.json": b"2", "u/k.json": b"3"}))
    folder = make_folders(box, {"s/.sessfs-put-0": b"", "t/.sessfs-put-0": b"half"})
    os.mkdir(os.path.join(folder, "u"))
    outside, link = box.new_path("outside"), os.path.join(folder, "u/.sessfs-put-0")
    os.symlink(outside, link)
    alive = os.path.join(folder, "s/.sessfs-put-0")
    with open(alive) as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        place.do("export", "--force", place.store, folder)
    same(read(alive), b"", "the file of an export that is alive")
    assert os.path.islink(link) and not os.path.exists(outside), "a link is not followed, and stays"
    os.unlink(alive)
    os.unlink(link)
    same(sorted(look(folder)), sorted(place.tree()), "what is there in the end")


@everywhere
def test_a_file_that_is_called_as_what_an_export_leaves_is_exported(place):
    names = [".sessfs-put-0", ".sessfs-put-1", "a.txt", "b.txt"]
    source = make_folders(place.box, {f"s/{name}": name.encode() for name in names})
    os.link(os.path.join(source, "s/a.txt"), os.path.join(source, "s/.sessfs-put-2"))
    os.mkfifo(os.path.join(source, "s/fifo"))
    place.take(source)
    folder = place.box.new_path("export")
    for _ in range(2):
        place.do("export", "--force", place.store, folder)
        same_trees(look(source), look(folder))


def test_no_link_in_the_folder_is_followed(box):
    place = Place(box, False)
    place.take(make_folders(box, {"s/k.json": b"1", "t/k.json": b"2"}))
    folder, outside = box.new_folder("export"), box.new_folder("outside")
    os.symlink(outside, os.path.join(folder, "s"))
    said = place.do("export", "-f", place.store, folder, status=1)
    assert "s: " in said, said
    same(os.listdir(outside), [], "what is outside")
    same(read(os.path.join(folder, "t/k.json")), b"2", "the rest")


def test_a_full_disk_leaves_no_half_file(box):
    need_root()
    place = Place(box, False)
    place.take(make_folders(box, {"s/a.json": b"1", "s/b.bin": os.urandom(2 << 20)}))
    folder = box.new_folder("small")
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", folder]).returncode:
        raise Skip("no tmpfs can be mounted")
    try:
        said = place.do("export", place.store, folder, status=1)
        assert "there is no space left" in said, said
        same(sorted(harness.tree(folder)), ["", "s", "s/a.json"], "what is there")
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


def test_a_store_of_another_user_gives_root_no_set_id_bits(box):
    need_root()
    place = Place(box, False)
    source = make_folders(box, {"s/tool": b"x"})
    os.chmod(os.path.join(source, "s/tool"), 0o6755)
    place.take(source)
    for owner, mode in ((0, 0o6755), (65534, 0o755)):
        os.chown(place.store, owner, -1)
        folder = box.new_path("export")
        place.do("export", place.store, folder)
        same(stat.S_IMODE(os.stat(os.path.join(folder, "s/tool")).st_mode), mode, f"of {owner}")


def tar_of(place, *sessions):
    done = place.box.sessfs("export", place.store, "-", *sessions)
    if b"without libarchive" in done.stderr:
        raise Skip("this sessfs makes no tar streams")
    same(done.returncode, 0, f"export - (it says {done.stderr!r})")
    return done.stdout


@everywhere
def test_a_tar_stream_has_all_of_it_in_the_same_order_each_time(place):
    source = make_tree(place.box)
    count = harness.rounds("SESSFS_LINES", 100000, 500000)
    large = b"".join(b'{"line": %d}\n' % n for n in range(count))
    write(os.path.join(source, "s/large.jsonl"), large)
    os.unlink(os.path.join(source, "s/socket"))
    place.take(source)
    stream = tar_of(place)
    assert stream == tar_of(place), f"{place.what}: two streams differ"
    expected = look(source)
    with tarfile.open(fileobj=io.BytesIO(stream), errors="surrogateescape") as archive:
        members = archive.getmembers()
        found = {member.name: member for member in members}
        same(sorted(found), sorted(expected), f"{place.what}: names")
        for name, entry in expected.items():
            member = found[name]
            same(oct(member.mode), entry["mode"], f"mode of {name}")
            same((member.uid, member.gid), entry["owner"], f"owner of {name}")
            if not member.islnk():
                seconds = float(member.pax_headers.get("mtime", member.mtime))
                assert abs(seconds - entry["mtime"] / 1e9) < 1e-5, f"time of {name}"
                for key, value in entry["xattrs"].items():
                    held = member.pax_headers[f"SCHILY.xattr.{key}"]
                    same(held.encode("utf-8", "surrogateescape"), value, f"{key} of {name}")
            if entry["type"] == "file":
                same(archive.extractfile(member).read(), entry["bytes"], f"bytes of {name}")
        same(sum(member.islnk() for member in members), 1, "hard links")
    with tarfile.open(fileobj=io.BytesIO(tar_of(place, "..t"))) as archive:
        same(archive.getnames(), ["..t", "..t/k.json"], "one session alone")


def test_without_libarchive_there_is_no_tar_stream_and_all_else_goes_on(box):
    need_root()
    need_namespace()
    place = Place(box, False)
    place.take(make_folders(box, {"s/k.json": b"1"}))
    tar_of(place)
    hide = "PATH=$PATH:/sbin; "
    hide += 'ldconfig -p | sed -n "s/.*libarchive.so.13.* => //p" | while read -r library; do '
    hide += 'mount --bind /dev/null "$library"; done; exec "$@"'
    without = ["unshare", "-m", "sh", "-c", hide, "sh", box.program]
    done = tool(*without, "export", place.store, "-", check=False)
    same(done.returncode, 1, "exit status")
    same(done.stdout, b"", "the stream")
    assert b"cannot load libarchive" in done.stderr, done.stderr
    folder = box.new_path("export")
    tool(*without, "export", place.store, folder)
    same(read(os.path.join(folder, "s/k.json")), b"1", "the file")


def test_a_tar_stream_does_not_go_to_a_terminal(box):
    place = Place(box, False)
    tar_of(place)
    ours, theirs = pty.openpty()
    done = subprocess.run(
        [box.program, "export", place.store, "-"], stdout=theirs, stderr=subprocess.PIPE
    )
    os.close(theirs)
    os.close(ours)
    same(done.returncode, 1, "exit status")
    assert b"terminal" in done.stderr, done.stderr


def test_a_user_imports_what_nobody_may_write_with_its_attributes(box):
    with users(box) as space:
        folder, source, store = (os.path.join(space.home, x) for x in ("mnt", "source", "x.db"))
        space.as_nobody("mkdir", "-p", folder, source + "/s")
        for value in ("one", "two"):
            script = """
                cd "$1"/s && touch f && chmod 644 f && echo "$2" > f &&
                    setfattr -n user.note -v "$2" f && chmod 444 f
                """
            done = space.as_nobody("sh", "-c", script, "sh", source, value)
            same((done.returncode, done.stderr), (0, b""), "the source")
            if value == "one":
                done = space.as_nobody(box.program, "mount", store, folder)
                same(done.returncode, 0, f"mount ({done.stderr})")
            done = space.as_nobody(box.program, "import", "--layout=tree", store, source)
            same(done.returncode, 0, f"import ({done.stderr})")
            shown = space.as_nobody("getfattr", "--only-values", "-n", "user.note", folder + "/s/f")
            same(shown.stdout.decode(), value, f"attribute ({shown.stderr})")
            shown = space.as_nobody("stat", "-c", "%a", folder + "/s/f").stdout
            same(shown, b"444\n", "mode")
        same(space.as_nobody(box.program, "umount", folder).returncode, 0, "umount")
        eventually(lambda: not harness.processes_of(box.program, folder), "the daemon ends")


WRONG = [
    (("import", "x.db"), "import"),
    (("import", "--layout=nonsense", "x.db", "."), "import"),
    (("import", "--to=x", "--layout=agentscope-files", "x.db", "."), "import"),
    (("import", "--nonsense", "x.db", "."), "import"),
    (("export", "x.db"), "export"),
    (("export", "--nonsense", "x.db", "y"), "export"),
]


def test_wrong_command_lines_are_refused_with_a_sentence(box):
    for arguments, verb in WRONG:
        done = box.sessfs(*arguments, cwd=box.folder)
        said = done.stderr.decode()
        same((done.returncode, done.stdout), (2, b""), f"{arguments} (it says {said!r})")
        assert f"sessfs help {verb}" in said, said
    assert not os.path.exists(os.path.join(box.folder, "x.db")), "a store was made"


if __name__ == "__main__":
    harness.main(globals())
