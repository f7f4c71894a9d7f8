#!/usr/bin/python3 -B
# SPDX-License-Identifier: MIT
"""Views that show the documents of a directory as a list."""

import errno
import json
import mmap
import os
import random
import re
import stat
import subprocess
import sys
import tarfile

import asked
import harness
from harness import (
    TABLE,
    TOP,
    append,
    errno_of,
    eventually,
    need_root,
    need_tool,
    read,
    same,
    tool,
    write,
)
from test_views import ROLES, line_of, random_question


def as_list(folder, question="as=list"):
    return os.path.join(folder, f"@{question}.jsonl")


def folder_of(box, documents):
    mount, session = box.session()
    folder = os.path.join(session, "messages")
    os.mkdir(folder)
    for name, data in documents.items():
        write(os.path.join(folder, name), data)
    return mount, folder


def numbered(*numbers, prefix="message_"):
    return {f"{prefix}{number}.json": b'{\n  "n": %d\n}' % number for number in numbers}


def compact(*numbers):
    return b"".join(b'{"n":%d}\n' % number for number in numbers)


# What is there


def test_documents_are_lines_in_the_order_of_their_numbers(box):
    mount, folder = folder_of(box, numbered(10, 9, 100, 2, 0, 1))
    same(read(as_list(folder)), compact(0, 1, 2, 9, 10, 100), "all of them")
    same(read(as_list(mount.at("s"))), b"", "a directory without any")
    same(read(as_list(mount.path)), b"", "the root")


def test_what_is_spelled_stays_as_it_is_spelled(box):
    _, folder = folder_of(
        box,
        {
            "1.json": b'{\r\n\t"b": 1.50, "a": [1E+2, -0, 12345678901234567890123],\n"b": null }\n',
            "2.json": b'" a \\" \\\\" ',
            "3.json": '["\u00a0 \u2028", "\\u0020"]'.encode(),
            "4.json": b"  7",
        },
    )
    expected = (
        b'{"b":1.50,"a":[1E+2,-0,12345678901234567890123],"b":null}\n'
        b'" a \\" \\\\"\n' + '["\u00a0 \u2028","\\u0020"]\n'.encode() + b"7\n"
    )
    same(read(as_list(folder)), expected, "the lines")


def test_which_documents_count(box):
    mount, folder = folder_of(
        box,
        {
            **numbered(3, prefix=""),
            **numbered(2, prefix="b-"),
            **numbered(1, prefix="a b\n"),
            "message_.json": b"1",
            "message.json": b"1",
            "4x.json": b"1",
            "5.json.tmp": b"1",
            "6.jsonl": b"1\n",
            "7.hash": b"1",
            "8.txt": b"1",
            "9223372036854775808.json": b"1",
        },
    )
    os.mkdir(os.path.join(folder, "11.json"))
    os.symlink("3.json", os.path.join(folder, "12.json"))
    same(read(as_list(folder)), compact(1, 2, 3), "three of them")
    write(os.path.join(folder, "c09223372036854775807.json"), b"[ 9 ]")
    same(read(as_list(folder, "as=list,last=1")), b"[9]\n", "the largest number")


def test_equal_numbers_are_in_the_order_of_the_listing(box):
    names = ["b_7.json", "a_7.json", "007.json", "7.json", "z_6.json", "a_8.json"]
    _, folder = folder_of(box, {name: json.dumps(name).encode() for name in names})
    expected = ["z_6.json", "b_7.json", "a_7.json", "007.json", "7.json", "a_8.json"]
    same(read(as_list(folder)).split(), [json.dumps(name).encode() for name in expected], "made so")
    listed = [name for name in os.listdir(folder) if "7" in name]
    same(listed, expected[1:5], "the listing")


def test_what_is_not_valid_is_shown_as_it_was(box):
    _, folder = folder_of(box, numbered(1, 2, 3))
    write(os.path.join(folder, "message_2.json"), b'{"n": ')
    write(os.path.join(folder, "message_4.json"), b"")
    write(os.path.join(folder, "message_5.json"), b"garbage")
    same(read(as_list(folder)), compact(1, 2, 3), "the second is as it was")
    write(os.path.join(folder, "message_5.json"), b"[ 5 ]")
    same(read(as_list(folder)), compact(1, 2, 3) + b"[5]\n", "and valid again")


def test_the_other_clauses_say_which_documents(box):
    _, folder = folder_of(box, numbered(1, 2, 5, 6, 9, 10))
    same(read(as_list(folder, "as=list,last=3")), compact(6, 9, 10), "the last ones")
    same(read(as_list(folder, "first=2,as=list")), compact(1, 2), "the first ones")
    same(read(as_list(folder, "as=list,items=2-6")), compact(2, 5, 6), "by number")
    same(read(as_list(folder, "as=list,items=6-,first=2")), compact(6, 9), "from a number on")
    same(read(as_list(folder, "as=list,bytes=20")), compact(9, 10), "by bytes")
    same(read(as_list(folder, "as=list,first=4,bytes=17")), compact(5, 6), "of the first ones")
    same(read(as_list(folder, "as=list,.n=5+9")), compact(5, 9), "by a member")
    same(read(as_list(folder, "as=list,last=0")), b"", "none")
    same(read(as_list(folder, "as=list,items=7-8")), b"", "nor here")
    for wrong in ("@as=list", "@as=list.json", "@as=list,last=x.jsonl", "@as=lists.jsonl"):
        same(errno_of(os.stat, os.path.join(folder, wrong)), errno.ENOENT, wrong)
    there = os.path.join(folder, "..", "@last=1", "messages", "@as=list.jsonl")
    same(errno_of(os.stat, there), errno.ENOENT, "they do not nest")


def test_documents_by_when_they_were_made(box):
    mount, folder = folder_of(box, numbered(0, 1, 2))
    for number in range(3):
        mount.sql(
            f"UPDATE {TABLE} SET created_at = ? WHERE state_key = ?",
            (f"2020-01-0{number + 1} 00:00:00", f"messages/message_{number}"),
        )
    since = as_list(folder, "as=list,since=2020-01-02")
    eventually(lambda: read(since) == compact(1, 2), "since")
    same(read(as_list(folder, "as=list,before=2020-01-02")), compact(0), "before")
    write(os.path.join(folder, "message_3.json"), b'{"n": 3}')
    same(read(as_list(folder, "as=list,since=1h")), compact(3), "an age")
    same(read(as_list(folder, "as=list,since=2020-01-02,last=1")), compact(3), "with a limit")


def test_the_messages_of_a_real_client(box):
    mount = box.mount()
    place = "clients/strands/session_e/"
    with tarfile.open(os.path.join(TOP, "tests", "data", "clients.tar")) as tar:
        members = [m for m in tar.getmembers() if m.isfile() and m.name.startswith(place)]
        for member in members:
            path = mount.at("session_e", member.name.removeprefix(place))
            os.makedirs(os.path.dirname(path), exist_ok=True)
            write(path, tar.extractfile(member).read())
    folder = mount.at("session_e", "agents", "agent_a", "messages")
    files = {}
    for name in os.listdir(folder):
        if found := re.fullmatch(r".*?(\d+)\.json", name):
            files.setdefault(int(found[1]), []).append(json.loads(read(os.path.join(folder, name))))
    expected = [document for number in sorted(files) for document in files[number]]
    seen = read(as_list(folder)).splitlines()
    same(len(seen), 6, "as many as there are")
    same([json.loads(line) for line in seen], expected, "the documents")
    numbers = [json.loads(line)["message_id"] for line in seen]
    same(numbers, [-1, 1, 2, 9, 10, 100], "in their order")
    users = read(as_list(folder, "as=list,role=user,last=2")).splitlines()
    same([json.loads(line)["message_id"] for line in users], [10, 100], "the last of the user")


# As a file


def test_sizes_of_lists_of_documents_are_those_of_what_is_read(box):
    _, folder = folder_of(box, numbered(*range(40)))
    write(os.path.join(folder, "99.json"), json.dumps(["x" * 200000]).encode())
    for question in ("as=list", "as=list,items=1-30", "as=list,since=1h", "as=list,bytes=300"):
        name = as_list(folder, question)
        status = os.stat(name)
        with open(name, "rb") as file:
            here = os.fstat(file.fileno())
            same((here.st_size, here.st_ino), (status.st_size, status.st_ino), f"{question}: fstat")
            data = file.read()
            if data:
                mapped = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
                same(bytes(mapped), data, "a mapping")
                mapped.close()
            same(os.lseek(file.fileno(), 0, os.SEEK_END), len(data), "its end")
        same((status.st_size, status.st_nlink), (len(data), 1), f"{question}: stat")
        same(data.count(b"\n"), len(data.splitlines()), "whole lines")


def test_owner_and_mode_are_those_of_the_directory(box):
    harness.need_root()
    _, folder = folder_of(box, numbered(1))
    os.chmod(folder, 0o750)
    os.chown(folder, 12, 34)
    one = os.stat(as_list(folder))
    same((one.st_mode, one.st_uid, one.st_gid), (0o100640, 12, 34), "without the right to search")


def test_who_may_not_read_a_document_may_not_read_it_in_a_list(box):
    _, folder = folder_of(box, numbered(1, 2, 3))
    one, two, three = (os.path.join(folder, f"message_{number}.json") for number in (1, 2, 3))
    texts = os.path.join(folder, "@as=text.txt")

    def mode(more=""):
        return stat.S_IMODE(os.stat(as_list(folder, "as=list" + more)).st_mode)

    def modes():
        return mode(), mode(",last=1"), mode(",first=2"), mode(",items=2-2")

    os.chmod(folder, 0o755)
    same(modes(), (0o644,) * 4, "all may")
    os.chmod(three, 0o640)
    same(modes(), (0o640, 0o640, 0o644, 0o644), "the group")
    os.chmod(two, 0o600)
    same(modes(), (0o600, 0o640, 0o600, 0o600), "the owner")
    same(stat.S_IMODE(os.stat(texts).st_mode), 0o600, "as text")
    with open(as_list(folder), "rb") as file:
        os.chmod(two, 0o644)
        same(modes(), (0o640, 0o640, 0o644, 0o644), "again")
        same(os.fstat(file.fileno()).st_mode, 0o100600, "of one that is open")
    need_root()
    os.chmod(three, 0o644)
    os.chown(one, 12, -1)
    same(modes(), (0o644,) * 4, "somebody else's that all may read")
    os.chmod(one, 0o600)
    same(modes(), (0o200, 0o644, 0o200, 0o644), "that nobody else may")


def test_nothing_is_written_to_a_list_of_documents(box):
    mount, folder = folder_of(box, numbered(1))
    name = as_list(folder)
    for deed in (
        lambda: write(name, b"1\n"),
        lambda: append(name, b"1\n"),
        lambda: os.close(os.open(name, os.O_RDWR)),
        lambda: os.truncate(name, 0),
        lambda: os.unlink(name),
        lambda: os.rename(name, mount.at("s", "m.jsonl")),
        lambda: os.link(name, mount.at("s", "m.jsonl")),
        lambda: os.chmod(name, 0o600),
        lambda: os.utime(name),
        lambda: os.setxattr(name, "user.a", b"1"),
    ):
        same(errno_of(deed) in (errno.EROFS, errno.EXDEV), True, "a deed")
    same(errno_of(os.mkdir, name), errno.EEXIST, "a directory of that name")
    same(os.listdir(folder), ["message_1.json"], "the names")
    write(os.path.join(folder, "x"), b"real")
    os.rename(os.path.join(folder, "x"), name)
    same(read(name), b"real", "what is real wins")


def test_tools_read_it_and_never_meet_it(box):
    need_tool("rsync")
    need_tool("jq")
    mount, folder = folder_of(box, numbered(*range(12)))
    name = as_list(folder)
    same(tool("cat", name).stdout, compact(*range(12)), "cat")
    same(tool("jq", "-c", "[.n]", name).stdout.split(), [b"[%d]" % n for n in range(12)], "jq")
    same(tool("tail", "-n", "2", name).stdout, compact(10, 11), "tail")
    same(tool("grep", "-c", "1", name).stdout, b"3\n", "grep")
    for command in ("cp", "rsync"):
        copy = os.path.join(box.folder, command)
        tool(command, as_list(folder, "as=list,since=1h"), copy)
        same(read(copy), compact(*range(12)), command)
    found = tool("find", mount.path, "-name", "@*").stdout
    same(found, b"", "find")
    same(tool("grep", "-rl", '"n":5', mount.path, check=False).stdout, b"", "grep -r")
    outside = box.new_folder("outside")
    tool("rsync", "-a", mount.path + "/", outside)
    same(len(os.listdir(os.path.join(outside, "s", "messages"))), 12, "rsync")
    tool("rm", "-r", mount.at("s"))
    same(os.listdir(mount.path), [], "rm -r")


# Against a reference


def test_random_documents_are_shown_as_a_reference_says(box):
    seed = int(os.environ.get("SESSFS_SEED", "1"))
    random_ = random.Random(seed)
    shown = {}
    _, folder = folder_of(box, {})
    for number in random_.sample(range(2000), 200):
        value = json.loads(line_of(random_, number))
        indent = random_.choice((None, 1, "\t"))
        prefix = random_.choice(("", "m_", "message-", "0"))
        text = json.dumps(value, indent=indent)
        write(os.path.join(folder, f"{prefix}{number}.json"), text.encode())
        shown[number] = json.dumps(value, separators=(",", ":")).encode()
    for _ in range(60):
        lines_ = [asked.facts(shown[n]) for n in sorted(shown)]
        question = random_question(lines_, random_, placed=False)
        if len(question) > 200:
            continue
        lowest, highest = 0, 2000
        clauses = question.split(",") if question else []
        if random_.random() < 0.3:
            lowest, highest = sorted(random_.sample(range(2000), 2))
            clauses.append(f"items={lowest}-{highest}")
        chosen = [asked.facts(shown[n]) for n in sorted(shown) if lowest <= n <= highest]
        clauses.insert(random_.randrange(len(clauses) + 1), "as=list")
        name = as_list(folder, ",".join(clauses))
        expected = asked.asked(question, chosen)
        same(read(name), expected, f"seed {seed}: {name}")
        same(os.stat(name).st_size, len(expected), f"seed {seed}: {name}")
        if random_.random() < 0.5:
            number = random_.choice(sorted(shown))
            value = {"role": random_.choice(ROLES), "n": number}
            (path,) = (
                os.path.join(folder, name)
                for name in os.listdir(folder)
                if re.fullmatch(rf"(|m_|message-|0){number}\.json", name)
            )
            write(path, json.dumps(value).encode())
            shown[number] = json.dumps(value, separators=(",", ":")).encode()


# What changes meanwhile


def test_an_open_list_of_documents_shows_what_it_showed(box):
    for size in (10, 100000):
        _, folder = folder_of(box, numbered(1))
        write(os.path.join(folder, "2.json"), json.dumps("x" * size).encode())
        before = read(as_list(folder))
        with open(as_list(folder), "rb", buffering=0) as file:
            same(file.read(4), before[:4], "its beginning")
            write(os.path.join(folder, "2.json"), b"0")
            os.unlink(os.path.join(folder, "message_1.json"))
            same(file.read(), before[4:], "the rest")
            same(os.fstat(file.fileno()).st_size, len(before), "its size")
        same(read(as_list(folder)), b"0\n", "the next one")


READ = """
import json, os, sys
name, count = sys.argv[1], int(sys.argv[2])
for _ in range(count):
    data = open(name, "rb").read()
    values = [json.loads(line) for line in data.splitlines()]
    assert data.endswith(b"}\\n"), data
    numbers = [value["n"] for value in values]
    assert numbers == sorted(set(numbers)), numbers
    assert all(set(value) == {"n", "x"} for value in values), values
"""


def test_lists_of_documents_beside_who_saves_are_whole(box):
    _, folder = folder_of(box, {})

    def save(number, size):
        path = os.path.join(folder, f"{number}.json")
        write(path + ".tmp", json.dumps({"n": number, "x": "y" * size}, indent=2).encode())
        os.rename(path + ".tmp", path)

    for number in range(20):
        save(number, 10)
    readers = [
        subprocess.Popen([sys.executable, "-c", READ, as_list(folder, question), "150"])
        for question in ("as=list", "as=list,last=5")
    ]
    number = 20
    while any(reader.poll() is None for reader in readers):
        save(number % 40, number % 700)
        if number % 7 == 0:
            os.unlink(os.path.join(folder, f"{number % 40}.json"))
        number += 1
    same([reader.wait() for reader in readers], [0, 0], "the readers")


def test_documents_of_two_mounts_and_of_sql(box):
    one, folder = folder_of(box, numbered(1, 2))
    two = box.mount(store=one.store)
    there = as_list(two.at("s", "messages"))
    same(read(there), compact(1, 2), "before")
    write(os.path.join(folder, "message_0.json"), b'{"n": 0}')
    same(read(there), compact(0, 1, 2), "one more")
    write(os.path.join(folder, "message_2.json"), b'{"n": 22}')
    same(read(there), compact(0, 1, 22), "another one")
    os.rename(os.path.join(folder, "message_1.json"), os.path.join(folder, "message_3.json"))
    same(read(there), compact(0, 22, 1), "another number")
    os.unlink(os.path.join(folder, "message_2.json"))
    same(read(there), compact(0, 1), "one less")
    two.insert("s", "messages/message_5", 0, '{\n "n": 5 }')
    eventually(lambda: read(there) == compact(0, 1, 5), "a row by SQL")
    two.insert("s", "messages/message_6", 0, "no JSON\n")
    eventually(lambda: len(os.listdir(folder)) == 4, "a row that is not JSON")
    same(read(there), compact(0, 1, 5), "is not shown")


def test_verbs_take_lists_of_documents(box):
    mount, _ = folder_of(box, numbered(*range(12)))
    for place in ("by the mount", "without one"):
        name = "s/messages/@as=list,last=2.jsonl"
        out = box.sessfs("cat", mount.store, name, check=True).stdout
        same(out, compact(10, 11), f"cat {place}")
        same(box.sessfs("rm", mount.store, name).returncode, 1, f"rm {place}")
        mount.stop()


if __name__ == "__main__":
    harness.main(globals())
