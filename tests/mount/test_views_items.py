#!/usr/bin/python3 -B
# SPDX-License-Identifier: MIT
"""Views that show a list as documents."""

import errno
import json
import mmap
import os
import random
import subprocess
import sys

import asked
import harness
from harness import append, errno_of, eventually, need_tool, read, same, tool, write
from test_views import line_of, lines, list_of, random_question, view


def items(path, question="as=items"):
    """The directory of a list's items, seen through a question in the list's directory."""
    return view(path, question).removesuffix(".jsonl")


def documents(folder):
    """What a directory of items has, by index."""
    names = {name.removesuffix(".json"): name for name in os.listdir(folder)}
    return {int(number): read(os.path.join(folder, name)) for number, name in names.items()}


def all_of(*numbers):
    return {number: lines(number) for number in numbers}


# What is there


def test_each_line_is_a_document(box):
    mount, path = list_of(box, 12)
    same(documents(items(path)), all_of(*range(12)), "all of them")
    same(os.listdir(items(path)), [f"{number}.json" for number in range(12)], "in their order")
    same(read(mount.at("@as=items", "s", "l", "7.json")), lines(7), "by a question at the root")
    absent = ("12.json", "07.json", "-1.json", "+1.json", "7", "7.jsonl", ".json")
    for name in (*absent, "9" * 20 + ".json"):
        same(errno_of(os.stat, os.path.join(items(path), name)), errno.ENOENT, name)


def test_sessions_that_are_files_are_listed_as_what_they_are_shown_as(box):
    mount = box.mount(options=["layout=pi+opencode"])
    folder, ordinary = mount.at("pi", "sessions", "p"), mount.at("other")
    for place in (folder, ordinary):
        os.makedirs(os.path.join(place, "d.jsonl"))
        write(os.path.join(place, "x.jsonl"), lines(0, 1))
        write(os.path.join(place, "x.hash"), b"abc")
    for question, names in (
        ("as=items", {"d.jsonl": True, "x": True, "x.hash": False}),
        ("as=text", {"d.jsonl": True, "x.txt": False, "x.hash": False}),
        ("last=1", {"d.jsonl": True, "x.jsonl": False, "x.hash": False}),
    ):
        with os.scandir(os.path.join(folder, "@" + question)) as entries:
            listed = {each.name: each.is_dir() for each in entries}
        same(listed, names, question)
        for name, is_dir in listed.items():
            same(os.path.isdir(os.path.join(folder, "@" + question, name)), is_dir, name)
        seen = os.listdir(os.path.join(ordinary, "@" + question))
        same(sorted(seen), ["d.jsonl", "x.hash", "x.jsonl"], "where nothing is a state")
    same(documents(os.path.join(folder, "@as=items", "x")), all_of(0, 1), "the items")


def test_the_other_clauses_say_which_items(box):
    _, path = list_of(box, 20)
    same(documents(items(path, "as=items,last=3")), all_of(17, 18, 19), "the last ones")
    same(documents(items(path, "first=2,as=items")), all_of(0, 1), "the first ones")
    same(documents(items(path, "as=items,items=5-6")), all_of(5, 6), "by index")
    same(documents(items(path, "as=items,bytes=25")), all_of(18, 19), "by bytes")
    same(documents(items(path, "as=items,first=5,bytes=20")), all_of(3, 4), "of the first ones")
    same(documents(items(path, "as=items,.n=3+7")), all_of(3, 7), "by a member")
    same(documents(items(path, "as=items,last=0")), {}, "none")
    other = os.path.join(items(path, "as=items,last=3"), "16.json")
    same(errno_of(read, other), errno.ENOENT, "one that is not among them")


def test_bytes_that_are_no_row_are_no_document(box):
    mount, path = list_of(box, 2)
    append(path, b'\ngarbage\n{"n":\t2}')
    same(documents(items(path)), {**all_of(0, 1), 2: b'{"n":\t2}\n'}, "with a newline behind each")
    mount.insert("s", "l", 3, '{\n  "n": 3\n}')
    eventually(lambda: 3 in documents(items(path)), "a row by SQL")
    same(documents(items(path))[3], b'{   "n": 3 }\n', "on one line, as in the list")


def test_holes_stay_holes(box):
    mount, path = list_of(box, 3)
    mount.insert("s", "l", 2**40, "1")
    mount.insert("s", "l", -1, "2")
    eventually(lambda: 2**40 in documents(items(path)), "a row by SQL")
    same(sorted(documents(items(path))), [0, 1, 2, 2**40], "by their indices")


def test_what_is_no_list_is_shown_as_it_is_beside_items(box):
    mount, path = list_of(box, 1)
    write(mount.at("s", "agent.json"), b'{"a": 1}')
    write(mount.at("s", "l.hash"), b"abc")
    write(mount.at("s", "notes.txt"), b"text")
    write(mount.at("root.jsonl"), b"1\n")
    os.makedirs(mount.at("s", "d", "x.jsonl"))
    append(mount.at("s", "d", "k.jsonl"), lines(5))
    same(sorted(os.listdir(mount.at("@as=items"))), ["root.jsonl", "s"], "the root")
    same(read(mount.at("@as=items", "root.jsonl")), b"1\n", "an ordinary file")
    same(sorted(os.listdir(mount.at("s", "@as=items"))), ["agent.json", "d", "l", "notes.txt"], "s")
    same(sorted(os.listdir(mount.at("s", "@as=items", "d"))), ["k", "x.jsonl"], "a directory")
    same(os.listdir(mount.at("s", "@as=items", "d", "x.jsonl")), [], "one that is called so")
    same(documents(mount.at("s", "@as=items", "d", "k")), {0: lines(5)}, "a list in it")
    same(errno_of(os.stat, mount.at("s", "@as=items", "agent")), errno.ENOENT, "no list")


def test_what_has_the_name_already_is_shown(box):
    mount, path = list_of(box, 2)
    os.mkdir(mount.at("s", "l"))
    write(mount.at("s", "l", "x.txt"), b"x")
    seen = mount.at("s", "@as=items")
    same(sorted(os.listdir(seen)), ["l", "l.jsonl"], "both")
    same(os.listdir(os.path.join(seen, "l")), ["x.txt"], "the directory")
    same(documents(os.path.join(seen, "l.jsonl")), all_of(0, 1), "the list by its own name")
    tool("rm", "-r", mount.at("s", "l"))
    same(os.listdir(seen), ["l"], "the list alone")
    same(documents(os.path.join(seen, "l")), all_of(0, 1), "by its name as a directory")
    same(documents(os.path.join(seen, "l.jsonl")), all_of(0, 1), "and still by its own")


def test_many_names_are_listed_whole(box):
    mount, session = box.session()
    names = [f"k{number}" for number in range(400)]
    for number, name in enumerate(names):
        append(os.path.join(session, name + (".jsonl" if number % 3 else ".json")), b"1\n")
    seen = sorted(os.listdir(mount.at("s", "@as=items")))
    same(seen, sorted(n + ("" if i % 3 else ".json") for i, n in enumerate(names)), "the names")


# As files


def test_sizes_of_items_are_those_of_what_is_read(box):
    _, path = list_of(box, 3)
    append(path, json.dumps("x" * 200000).encode() + b"\n")
    for number in range(4):
        name = os.path.join(items(path), f"{number}.json")
        with open(name, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            mapped = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
            same(bytes(mapped), file.read(), f"{number}: a mapping")
            mapped.close()
            same(os.lseek(file.fileno(), 0, os.SEEK_END), size, "its end")
        same(os.stat(name).st_size, size, "stat")
        same(len(read(name)), size, "the bytes")
        same(os.stat(name).st_ino, os.stat(name).st_ino, "the number stays")
        json.loads(read(name))


def test_owner_and_mode_are_those_of_the_list(box):
    harness.need_root()
    _, path = list_of(box, 1)
    os.chmod(path, 0o640)
    os.chown(path, 12, 34)
    folder, one = os.stat(items(path)), os.stat(os.path.join(items(path), "0.json"))
    same((one.st_mode, one.st_uid, one.st_gid), (0o100640, 12, 34), "a document")
    same((folder.st_mode, folder.st_uid, folder.st_gid), (0o040750, 12, 34), "the directory")


def test_nothing_is_written_to_items(box):
    mount, path = list_of(box, 3)
    folder = items(path)
    inside = os.path.join(folder, "1.json")
    for deed in (
        lambda: write(inside, b"1\n"),
        lambda: append(inside, b"1\n"),
        lambda: write(os.path.join(folder, "3.json"), b"2\n"),
        lambda: append(os.path.join(mount.at("s", "@as=items"), "new.jsonl"), b"2\n"),
        lambda: os.truncate(inside, 0),
        lambda: os.unlink(inside),
        lambda: os.rmdir(folder),
        lambda: os.mkdir(os.path.join(folder, "d")),
        lambda: os.rename(inside, os.path.join(folder, "5.json")),
        lambda: os.rename(inside, mount.at("s", "m.json")),
        lambda: os.rename(path, os.path.join(folder, "m.jsonl")),
        lambda: os.rename(folder, mount.at("s", "m")),
        lambda: os.chmod(inside, 0o600),
        lambda: os.chmod(folder, 0o700),
        lambda: os.utime(inside),
        lambda: os.link(inside, mount.at("s", "m.json")),
        lambda: os.setxattr(inside, "user.a", b"1"),
        lambda: os.close(os.open(inside, os.O_RDWR)),
    ):
        same(errno_of(deed) in (errno.EROFS, errno.EXDEV), True, "a deed")
    same(read(path), lines(0, 1, 2), "the list")
    same(os.listdir(mount.at("s")), ["l.jsonl"], "the names")


def test_tools_work_in_it_and_never_meet_it_outside(box):
    need_tool("rsync")
    need_tool("jq")
    mount, path = list_of(box, 30)
    read(os.path.join(items(path), "1.json"))
    found = tool("find", ".", cwd=mount.path).stdout.split()
    same(sorted(found), [b".", b"./s", b"./s/l.jsonl"], "find outside")
    found = tool("find", items(path), "-type", "f", "-size", "-2").stdout.split()
    same(len(found), 30, "find inside")
    copies = box.new_folder("copies")
    for command in (
        ("cp", "-r", items(path) + "/.", copies),
        ("rsync", "-a", items(path) + "/", copies),
    ):
        tool(*command)
        same(documents(copies), all_of(*range(30)), command[0])
        tool("find", copies, "-name", "*.json", "-delete")
    tool("tar", "-C", items(path), "-cf", os.path.join(box.folder, "t.tar"), ".")
    tool("tar", "-C", copies, "-xf", os.path.join(box.folder, "t.tar"))
    same(documents(copies), all_of(*range(30)), "tar")
    same(tool("jq", ".n", os.path.join(items(path), "7.json")).stdout, b"7\n", "jq")
    same(tool("tail", "-c", "4", os.path.join(items(path), "7.json")).stdout, b" 7}\n", "tail")
    found = tool("grep", "-rlw", "12", items(path)).stdout.split()
    same([os.path.basename(name) for name in found], [b"12.json"], "grep -r")
    outside = box.new_folder("outside")
    tool("rsync", "-a", mount.path + "/", outside)
    same(sorted(os.listdir(os.path.join(outside, "s"))), ["l.jsonl"], "rsync outside")
    tool("rm", "-r", mount.at("s"))
    same(os.listdir(mount.path), [], "rm -r")


# Against a reference


def test_random_items_are_shown_as_a_reference_says(box):
    seed = int(os.environ.get("SESSFS_SEED", "1"))
    random_ = random.Random(seed)
    all_lines = [line_of(random_, number) for number in range(200)]
    lines_ = [asked.facts(line) for line in all_lines]
    _, session = box.session()
    path = os.path.join(session, "l.jsonl")
    append(path, b"\n".join(all_lines) + b"\n")
    for _ in range(60):
        question = random_question(lines_, random_, placed=False)
        if len(question) > 240:
            continue
        shown = asked.asked(question, lines_).splitlines(keepends=True)
        expected = {json.loads(line)["n"]: line for line in shown}
        clauses = question.split(",") if question else []
        clauses.insert(random_.randrange(len(clauses) + 1), "as=items")
        folder = items(path, ",".join(clauses))
        same(documents(folder), expected, f"seed {seed}: {question}")
        absent = os.path.join(folder, f"{random_.randrange(200)}.json")
        number = int(os.path.basename(absent).removesuffix(".json"))
        same(os.path.exists(absent), number in expected, f"seed {seed}: {question}: {number}")


# What changes meanwhile


def test_an_open_document_shows_what_it_showed(box):
    _, path = list_of(box, 3)
    append(path, json.dumps("x" * 100000).encode() + b"\n")
    for number in (1, 3):
        name = os.path.join(items(path), f"{number}.json")
        before = read(name)
        with open(name, "rb", buffering=0) as file:
            same(file.read(4), before[:4], "its beginning")
            write(path, lines(*range(10, 20)))
            same(file.read(), before[4:], "the rest")
            same(os.fstat(file.fileno()).st_size, len(before), "its size")
        same(read(name), lines(10 + number), "the next one")
        write(path, lines(0, 1, 2) + before)


def test_a_directory_of_items_follows_its_list(box):
    mount, path = list_of(box, 3)
    folder = os.open(items(path, "as=items,last=2"), os.O_RDONLY)
    there = f"/proc/self/fd/{folder}"
    try:
        same(documents(there), all_of(1, 2), "at first")
        append(path, lines(3))
        same(documents(there), all_of(2, 3), "a line more")
        write(path + ".tmp", lines(7, 8, 9))
        os.rename(path + ".tmp", path)
        same(documents(there), {1: lines(8), 2: lines(9)}, "another list of that name")
        os.unlink(path)
        gone = errno_of(os.stat, os.path.join(there, "1.json"))
        same(gone in (errno.ENOENT, errno.ESTALE), True, "none")
        append(path, lines(5))
        same(documents(there), {0: lines(5)}, "and again one")
    finally:
        os.close(folder)


LIST = """
import os, sys
folder, count = sys.argv[1], int(sys.argv[2])
for _ in range(count):
    numbers = [int(name[:-5]) for name in os.listdir(folder)]
    assert numbers == sorted(set(numbers)), numbers
    for number in numbers[-3:]:
        try:
            data = open(f"{folder}/{number}.json", "rb").read()
        except FileNotFoundError:
            continue
        assert data.startswith(b'{"n": ') and data.endswith(b"}\\n"), data
"""


def test_listings_beside_who_appends_and_saves_are_whole(box):
    _, path = list_of(box, 100)
    readers = [
        subprocess.Popen([sys.executable, "-c", LIST, items(path, question), "200"])
        for question in ("as=items,last=20", "as=items")
    ]
    number = 100
    while any(reader.poll() is None for reader in readers):
        append(path, lines(number))
        number += 1
        if number % 5 == 0:
            write(path + ".tmp", lines(*range(number - 50, number)))
            os.rename(path + ".tmp", path)
    same([reader.wait() for reader in readers], [0, 0], "the readers")


def test_items_on_two_mounts(box):
    one, path = list_of(box, 3)
    two = box.mount(store=one.store)
    there = two.at("s", "@as=items,last=2", "l")
    same(documents(there), all_of(1, 2), "before")
    append(path, lines(3))
    same(documents(there), all_of(2, 3), "at once")
    write(path, lines(9))
    same(documents(there), {0: lines(9)}, "a save")
    os.unlink(path)
    same(errno_of(os.listdir, there), errno.ENOENT, "an end")


def test_a_mount_that_shows_lists_as_documents(box):
    mount, path = list_of(box, 5)
    seen = box.mount(store=mount.store, options=[r"view=as=items\,last=3"])
    there = seen.at("s", "l")
    same(os.listdir(seen.at("s")), ["l"], "the list")
    same(documents(there), all_of(2, 3, 4), "the last three")
    append(path, lines(5))
    same(documents(there), all_of(3, 4, 5), "one more")
    same(errno_of(write, os.path.join(there, "6.json"), b"1"), errno.EROFS, "a document")


def test_a_version_opens_no_documents_of_another(box):
    _, path = list_of(box, 3)
    word = os.getxattr(path, "user.sessfs.version").decode()
    name = os.path.join(items(path, f"as=items,if={word}"), "1.json")
    same(read(name), lines(1), "of this one")
    append(path, lines(3))
    same(read(name), lines(1), "still")
    write(path, lines(7, 8))
    same(errno_of(read, name), errno.ESTALE, "of another")


def test_more_documents_than_there_are_windows(box):
    _, path = list_of(box, 12000)
    out = tool("ls", "-lU", ".", cwd=items(path)).stdout.splitlines()[1:]
    sizes = [(line.split()[-1], int(line.split()[4])) for line in out]
    expected = [(b"%d.json" % number, len(lines(number))) for number in range(12000)]
    harness.same_lists(expected, sizes, "each with its size")


def test_verbs_take_paths_of_items(box):
    mount, path = list_of(box, 300)
    for place in ("by the mount", "without one"):
        out = box.sessfs("cat", mount.store, "s/@as=items/l/7.json", check=True).stdout
        same(out, lines(7), f"cat {place}")
        out = box.sessfs("ls", mount.store, "s/@as=items,last=200/l", check=True).stdout
        same(sorted(out.split()), sorted(b"%d.json" % n for n in range(100, 300)), f"ls {place}")
        out = box.sessfs("ls", "-l", mount.store, "s/@as=items,items=9-10/l", check=True).stdout
        sizes = {line.split()[-1]: line.split()[1] for line in out.splitlines()}
        same(sizes, {b"9.json": b"9", b"10.json": b"10"}, f"ls -l {place}")
        same(box.sessfs("rm", mount.store, "s/@as=items/l/7.json").returncode, 1, f"rm {place}")
        mount.stop()


if __name__ == "__main__":
    harness.main(globals())
