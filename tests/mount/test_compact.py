#!/usr/bin/python3 -B
# SPDX-License-Identifier: MIT
"""Compaction: what is saved through a view takes the place of the items that it shows.

  SESSFS_COMPACT_SECONDS  how long appenders, compactors and readers work at once; default 3
"""

import contextlib
import errno
import fcntl
import json
import os
import subprocess
import sys
import time

import harness
from harness import append, errno_of, eventually, read, same, tool, write

SECONDS = harness.rounds("SESSFS_COMPACT_SECONDS", 1.0, 3.0)
VERSION = "user.sessfs.version"


def lines(*numbers):
    return b"".join(b'{"n": %d}\n' % number for number in numbers)


def view(path, question):
    """The path of a file, seen through a question in its directory."""
    return os.path.join(os.path.dirname(path), "@" + question, os.path.basename(path))


def list_of(box, count, **named):
    mount, session = box.session(**named)
    path = os.path.join(session, "l.jsonl")
    append(path, lines(*range(count)))
    return mount, path


def version(path):
    return os.getxattr(path, VERSION).decode()


def begin(path, question, data):
    """A file that has read what the view shows, and written this in its place."""
    file = open(view(path, question), "r+b", buffering=0)
    file.readall()
    file.seek(0)
    file.truncate()
    file.write(data)
    return file


def compact(path, question, data):
    begin(path, question, data).close()


def created(mount):
    """The day on which each row was made."""
    days = [made[:10] for _, made, _ in mount.stamps("s", "l")]
    return dict(zip(mount.rows("s", "l"), days))


def test_what_comes_meanwhile_stays_behind(box):
    mount, path = list_of(box, 4)
    for index in range(4):
        made = (f"2020-01-0{index + 1}", index)
        mount.sql(f"UPDATE {harness.TABLE} SET created_at = ? WHERE item_index = ?", made)
    eventually(lambda: read(path) == lines(0, 1, 2, 3), "the list")
    file = begin(path, "first=3", lines(0, 12))
    append(path, lines(4))
    append(view(path, "last=0"), lines(5))
    same(read(path), lines(0, 1, 2, 3, 4, 5), "nobody sees it yet")
    same(os.fstat(file.fileno()).st_size, len(lines(0, 12)), "but its writer")
    same(os.pread(file.fileno(), 99, 0), lines(0, 12), "and reads it")
    file.close()
    same(read(path), lines(0, 12, 3, 4, 5), "the list")
    same(os.stat(path).st_size, len(lines(0, 12, 3, 4, 5)), "its size")
    when = created(mount)
    same(when[b'{"n": 0}'], b"2020-01-01", "what was saved as it was")
    same(when[b'{"n": 3}'], b"2020-01-04", "what stands behind")
    same(mount.indexes("s", "l"), [0, 1, 2, 3, 4], "the items")


def test_one_message_is_redacted(box):
    mount, path = list_of(box, 10)
    compact(path, "items=7-7", b'{"n": 7, "redacted": true}\n')
    rest = b'{"n": 7, "redacted": true}\n' + lines(8, 9)
    same(read(path), lines(*range(7)) + rest, "the list")
    compact(path, "items=7-7", b"")
    same(read(path), lines(*range(7), 8, 9), "it is gone")
    same(mount.indexes("s", "l"), list(range(9)), "the items")


def test_the_kernel_has_nothing_older(box):
    mount, path = list_of(box, 40000)
    size = os.stat(path).st_size
    with open(path, "rb") as before:
        same(len(before.read(1000)), 1000, "the start, by who reads on")
        compact(path, "items=1-39998", lines(7))
        same(read(path), lines(0, 7, 39999), "the list")
        same(1000 + len(before.read()), size, "the version of the reader")
    same(tool("cp", path, mount.path + "/copy").returncode, 0, "cp")
    same(read(mount.path + "/copy"), lines(0, 7, 39999), "a copy")


def test_errors_come_when_it_is_published(box):
    _, path = list_of(box, 4)
    for bad in (b"{", b"1\n2", b"1\n\n", b"1\nx\n", b"\0\n"):
        file = begin(path, "first=2", bad)
        same(errno_of(os.fsync, file.fileno()), errno.EINVAL, "fsync")
        same(errno_of(file.close), errno.EINVAL, "close")
    file = begin(path, "first=2", lines(7))
    write(path, lines(0, 1, 2, 4))
    same(errno_of(os.fsync, file.fileno()), errno.ESTALE, "fsync of another list")
    same(errno_of(file.close), errno.ESTALE, "close")
    file = begin(path, "first=2", lines(7))
    os.unlink(path)
    same(errno_of(file.close), errno.ESTALE, "of one that is gone")


def test_what_was_not_read_is_not_replaced(box):
    mount, path = list_of(box, 4)
    seen = view(path, "first=2")
    same(errno_of(open, seen, "wb"), errno.EINVAL, "O_TRUNC")
    same(errno_of(os.open, seen, os.O_WRONLY), errno.EINVAL, "O_WRONLY")
    same(errno_of(os.truncate, seen, 0), errno.EINVAL, "truncate")
    with open(seen, "r+b", buffering=0) as file:
        file.read(5)
        file.truncate(0)
        same(errno_of(os.fsync, file.fileno()), errno.EINVAL, "half of it was read")
        with contextlib.suppress(OSError):
            file.close()
    same(read(path), lines(0, 1, 2, 3), "the list")
    same("read all of it" in mount.log(), True, "the log says so")


def test_another_name_does_not_come_in_its_place(box):
    mount, path = list_of(box, 4)
    write(mount.at("s", "new"), lines(7))
    for question in ("first=2", "first=2,if=" + version(path)):
        same(errno_of(os.rename, mount.at("s", "new"), view(path, question)), errno.EROFS, "rename")


def test_a_shell_names_the_version(box):
    _, path = list_of(box, 4)
    script = """
        { echo '{"n": 7}'; sh -c 'echo "{\\"n\\": 8}"'; sleep 0.2; echo '{"n": 9}'; } > "$1"
    """
    word = version(path)
    seen = view(path, "first=2,if=" + word)
    same(tool("sh", "-c", script, "sh", seen).returncode, 0, "a shell")
    same(read(path), lines(7, 8, 9, 2, 3), "the list")
    same(tool("sh", "-c", script, "sh", seen, check=False).returncode != 0, True, "again")
    same(read(path), lines(7, 8, 9, 2, 3), "the list")
    seen = view(path, "items=1-2,if=" + version(path))
    os.truncate(seen, 0)
    same(read(path), lines(7, 2, 3), "truncate(2)")
    same(version(path) != word, True, "its version")


def test_the_version_of_what_was_saved_is_told(box):
    _, path = list_of(box, 4)
    with begin(path, "first=2", lines(7)) as file:
        os.fsync(file.fileno())
        mine = os.getxattr(file.fileno(), VERSION).decode()
        append(path, lines(4))
        same(version(path), mine, "an append does not move it")
        write(path, lines(1))
        same(os.getxattr(file.fileno(), VERSION).decode(), mine, "of what was saved")
        same(version(path) != mine, True, "of the list")


def test_a_writer_that_dies_replaces_nothing_else(box):
    mount, path = list_of(box, 4)
    file = begin(path, "first=2", lines(7))
    mount.kill9()
    with contextlib.suppress(OSError):
        file.close()
    mount.remount()
    same(read(path), lines(0, 1, 2, 3), "the list")


def test_a_draft_is_left_alone(box):
    _, path = list_of(box, 2)
    write(path, lines(0, 1) + b'{"half')
    file = begin(path, "first=1", lines(7))
    same(errno_of(file.close), errno.EINVAL, "close")
    same(read(path), lines(0, 1) + b'{"half', "the list")


def test_other_programs_at_the_rows(box):
    mount, path = list_of(box, 4)
    file = begin(path, "first=2", lines(7))
    mount.insert("s", "l", 4, '{"n": 4}')
    file.close()
    same(read(path), lines(7, 2, 3, 4), "it has added a row")
    file = begin(path, "first=2", lines(8))
    mount.sql(f"UPDATE {harness.TABLE} SET state_data = '{{}}' WHERE item_index = 3")
    same(errno_of(file.close), errno.ESTALE, "it has changed one")
    same(mount.rows("s", "l"), [b'{"n": 7}', b'{"n": 2}', b'{"n": 3}', b"{}"], "the rows")


def test_beside_another_mount(box):
    mount, path = list_of(box, 4)
    other = box.mount(store=mount.store)
    there = other.at("s", "l.jsonl")
    file = begin(path, "first=2", lines(7))
    append(there, lines(4))
    file.close()
    for seen in (path, there):
        same(read(seen), lines(7, 2, 3, 4), "the list")
    file = begin(path, "first=2", lines(8))
    compact(there, "items=1-1", lines(9))
    same(errno_of(file.close), errno.ESTALE, "it was compacted there")
    for seen in (path, there):
        same(read(seen), lines(7, 9, 3, 4), "the list")
    same(version(path), version(there), "its version")


def replace(path, data):
    """As compact(), by the path that a mount which is a view has for the list."""
    with open(path, "r+b", buffering=0) as file:
        seen = file.readall()
        file.seek(0)
        file.truncate()
        file.write(data)
    return seen


def test_through_a_mount_that_is_a_view(box):
    mount, path = list_of(box, 6)
    front = box.mount(store=mount.store, options=["view=first=3"])
    middle = box.mount(store=mount.store, options=["view=items=1-2"])
    there = front.at("s", "l.jsonl")
    same(replace(there, lines(12)), lines(0, 1, 2), "what is at the front")
    same(read(path), lines(12, 3, 4, 5), "the list")
    same(read(there), lines(12, 3, 4), "the view")
    inside = middle.at("s", "l.jsonl")
    same(read(inside), lines(3, 4), "what is in the middle")
    file = open(inside, "r+b", buffering=0)
    same(file.readall(), lines(3, 4), "who has read it")
    append(there, lines(6))
    file.truncate(0)
    same(os.pwrite(file.fileno(), lines(34), 0), len(lines(34)), "writes")
    file.close()
    same(read(path), lines(12, 34, 5, 6), "the list")
    same(version(there), version(path), "its version")
    same(read(there), lines(12, 34, 5), "the view")
    file = open(inside, "r+b", buffering=0)
    file.readall()
    replace(there, lines(1))
    same(file.write(lines(9)), len(lines(9)), "a write")
    same(errno_of(file.close), errno.ESTALE, "it was compacted by another mount")
    same(read(path), lines(1, 6), "the list")
    for what, deed in {
        "by who has not read it": lambda: write(there, lines(9)),
        "truncate": lambda: os.truncate(there, 0),
    }.items():
        same(errno_of(deed), errno.EINVAL, what)
    same(errno_of(os.rename, front.at("s", "l.jsonl"), front.at("s", "m.jsonl")), errno.EROFS, "mv")
    middle.stop()
    mount.remount(options=["view=items=1-"])
    same(replace(path, lines(6, 7)), lines(6), "the rest, by the only mount of its name")
    same(read(there), lines(1, 6, 7), "by the other")
    word = version(path)
    words = ("--first=2", f"--if={word}", mount.store, "s/l.jsonl")
    same(box.sessfs("compact", *words, stdin=lines(16)).returncode, 0, "the verb goes past it")
    same(read(there), lines(16, 7), "the list")
    mount.check()


def test_a_lock_is_given_up_after_it_is_published(box):
    _, path = list_of(box, 4)
    with begin(path, "first=2", lines(7)) as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        fcntl.flock(file, fcntl.LOCK_UN)
        same(read(path), lines(7, 2, 3), "the list")


OPENERS = """
import os, select, sys

print("ready", flush=True)
sys.stdin.readline()
count = 0
while not select.select([sys.stdin], [], [], 0)[0]:
    fd = os.open(sys.argv[1], os.O_RDWR if sys.argv[2] == "writes" else os.O_RDONLY)
    data = os.read(fd, 4096)
    if os.fstat(fd).st_size != len(data):
        sys.exit("its size is another one")
    if sys.argv[2] == "writes":
        os.pwrite(fd, b" " + data[:-1] + b" \\n", 0)
        if os.fstat(fd).st_size != len(data) + 2:
            sys.exit("its size is not what its writer has made of it")
        os.pwrite(fd, data, 0)
        os.ftruncate(fd, len(data))
    os.close(fd)
    count += 1
    if count == 20:
        print("has opened it", flush=True)
"""


def test_who_saves_comes_to_the_view_however_many_open_it(box):
    _, path = list_of(box, 4)
    words = [sys.executable, "-c", OPENERS, view(path, "first=2")]
    procs = [
        subprocess.Popen(words + [role], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        for role in ["reads"] * 4 + ["writes"] * 3
    ]
    for proc in procs:
        same(proc.stdout.readline(), b"ready\n", "a process")
    for proc in procs:
        proc.stdin.write(b"\n")
        proc.stdin.flush()
    # Nobody stops before all have come to it.
    for proc in procs:
        same(proc.stdout.readline(), b"has opened it\n", "each, time and again")
    for proc in procs:
        proc.communicate()
        same(proc.returncode, 0, "without an error")
    same(read(path), lines(0, 1, 2, 3), "the list")


# The verb


def test_a_verb_compacts_by_the_mount_or_without_one(box):
    mount, _ = list_of(box, 4)
    place = (mount.store, "s/l.jsonl")

    def does(*words, stdin=b""):
        return box.sessfs("compact", *words, *place, stdin=stdin)

    for where in ("by the mount", "without one"):
        box.sessfs("put", *place, stdin=lines(0, 1, 2, 3), check=True)
        before = does().stdout.decode().strip()
        done = does("--first=2", f"--if={before}", stdin=lines(7))
        same(done.returncode, 0, f"compact {where}")
        after = done.stdout.decode().strip()
        same(does().stdout.decode().strip(), after, "the version that it has made")
        same(box.sessfs("cat", *place).stdout, lines(7, 2, 3), "the list")
        same(does("--first=2", f"--if={before}", stdin=lines(8)).returncode, 1, "again")
        for bad in (b"{\n", b"1", b"\n"):
            same(does("--first=2", f"--if={after}", stdin=bad).returncode, 1, "no lines of JSON")
        same(does().stdout.decode().strip(), after, "nothing was changed")
        done = does("--items=1-2", f"--if={after}")
        same(done.returncode, 0, "of nothing")
        same(box.sessfs("cat", *place).stdout, lines(7), "the list")
        mount.stop()
    for words in (
        ("--first=2",),
        ("--if=1",),
        ("--first=2", "--items=1-2", "--if=1"),
        ("--first=1,last=1", "--if=1"),
        ("--items=5", "--if=1"),
        ("--items=5-", "--if=1"),
        ("--items=3-1", "--if=1"),
        ("--items=1-2-3", "--if=1"),
        ("--first=2", "--if=../x"),
    ):
        same(does(*words).returncode, 2, " ".join(words))


def test_a_verb_that_is_killed_replaces_nothing(box):
    mount, path = list_of(box, 4)
    words = ("--first=2", "--if=" + version(path), mount.store, "s/l.jsonl")
    with subprocess.Popen([box.program, "compact", *words], stdin=subprocess.PIPE) as proc:
        proc.stdin.write(lines(7))
        proc.stdin.flush()
        time.sleep(0.3)
        proc.kill()
    same(read(path), lines(0, 1, 2, 3), "the list")


# All at once.  A line is {"w": writer, "n": number}, or the sum of some: {"sum": {writer: [first
# number, last number]}}.  Of each writer the numbers stand in their order and none is missing, in
# any part of the list at any time.

CROWD = '''
import errno, json, os, random, sys, time

number, role, path = int(sys.argv[1]), sys.argv[2], sys.argv[3]
print("ready", flush=True)
sys.stdin.readline()
end = time.time() + float(sys.argv[4])
folder, name = os.path.split(path)
random.seed(number)


def view(question):
    return os.path.join(folder, "@" + question, name)


def add(sums, line):
    ranges = line.get("sum") or {str(line["w"]): [line["n"], line["n"]]}
    for writer, (first, last) in ranges.items():
        if writer in sums and sums[writer][1] + 1 != first:
            raise SystemExit(f"writer {writer}: {first} behind {sums[writer]}")
        sums[writer] = [sums[writer][0] if writer in sums else first, last]


def summed(data):
    if data and not data.endswith(b"\\n"):
        raise SystemExit(f"half a line: {data[-80:]}")
    sums, parts = {}, data.splitlines()
    for part in parts:
        add(sums, json.loads(part))
    return sums, len(parts)


def append():
    fd = os.open(path, os.O_WRONLY | os.O_APPEND)
    n = 0
    while time.time() < end:
        count = random.choice((1, 1, 1, 5))
        out = b"".join(b'{"w": %d, "n": %d}\\n' % (number, n + i) for i in range(count))
        if os.write(fd, out) != len(out):
            raise SystemExit("a short write")
        n += count
        time.sleep(random.random() * 0.004)
    os.close(fd)
    print(n)


def part():
    if random.random() < 0.5:
        return "first=%d" % random.choice((3, 20, 100))
    first = random.randrange(20)
    return "items=%d-%d" % (first, first + random.choice((0, 1, 7)))


def by_reading(question):
    fd = os.open(view(question), os.O_RDWR)
    try:
        data = b""
        while piece := os.read(fd, 4096):
            data += piece
        replace(fd, data)
    finally:
        os.close(fd)


def by_version(question):
    word = os.getxattr(path, "user.sessfs.version").decode()
    with open(view(f"{question},if={word}"), "rb") as file:
        data = file.read()
    count = len(data.splitlines())
    if not count:
        return
    if question.startswith("first="):
        question = f"first={count}"
    else:
        first = int(question[6:].split("-")[0])
        question = f"items={first}-{first + count - 1}"
    fd = os.open(view(f"{question},if={word}"), os.O_WRONLY | os.O_TRUNC)
    try:
        replace(fd, data)
    finally:
        os.close(fd)


def replace(fd, data):
    sums, count = summed(data)
    if not count:
        return
    out = (json.dumps({"sum": sums}) + "\\n").encode()
    os.ftruncate(fd, 0)
    half = random.randrange(len(out))
    os.pwrite(fd, out[:half], 0)
    os.pwrite(fd, out[half:], half)
    os.fsync(fd)


def compact():
    done = stale = 0
    while time.time() < end:
        try:
            (by_reading if random.random() < 0.5 else by_version)(part())
            done += 1
        except OSError as error:
            if error.errno != errno.ESTALE:
                raise
            stale += 1
        time.sleep(random.random() * 0.01)
    print(done, stale)


def look():
    count = 0
    while time.time() < end:
        question = random.choice(("last=5", "last=100", "first=10", "items=3-9", "bytes=2K"))
        with open(view(question), "rb") as file:
            data = file.read()
            if os.fstat(file.fileno()).st_size != len(data):
                raise SystemExit("its size is another one")
            summed(data)
            file.seek(0)
            if file.read() != data:
                raise SystemExit("an open window has changed")
        count += 1
    print(count)


{"append": append, "compact": compact, "look": look}[role]()
'''


def crowd(paths):
    """Works on a list by several paths; what each of the processes has printed."""
    roles = ["append"] * 8 + ["compact"] * 4 + ["look"] * 8
    procs = [
        subprocess.Popen(
            [sys.executable, "-c", CROWD, str(i), role, paths[i % len(paths)], str(SECONDS)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        for i, role in enumerate(roles)
    ]
    for proc in procs:
        same(proc.stdout.readline(), b"ready\n", "a process")
    for proc in procs:
        proc.stdin.write(b"go\n")
        proc.stdin.flush()
    told = [proc.communicate() for proc in procs]
    for proc, role, (_, error) in zip(procs, roles, told):
        same((proc.returncode, error[-2000:]), (0, b""), role)
    return [tuple(map(int, out.split())) for out, _ in told]


def expect_all(paths, told):
    sums = {str(i): -1 for i in range(8)}
    for part in read(paths[0]).splitlines():
        line = json.loads(part)
        ranges = line.get("sum") or {str(line["w"]): [line["n"], line["n"]]}
        for writer, (first, last) in ranges.items():
            same(first, sums[writer] + 1, f"the next of writer {writer}")
            sums[writer] = last
    same(sums, {str(i): n - 1 for i, (n,) in enumerate(told[:8])}, "the last of each writer")
    for path in paths[1:]:
        same(read(path), read(paths[0]), "by another mount")


def work_together(box, paths):
    told = crowd(paths)
    expect_all(paths, told)
    done = sum(numbers[0] for numbers in told[8:12])
    stale = sum(numbers[1] for numbers in told[8:12])
    box.note(
        f"{sum(n for n, in told[:8])} lines, {done} compactions and {stale} in vain, "
        f"{sum(n for n, in told[12:])} looks"
    )
    same(done > 0, True, "compactions")


def test_appenders_compactors_and_readers_at_once(box):
    mount, path = list_of(box, 0)
    work_together(box, [path])
    mount.check()


def test_appenders_compactors_and_readers_of_two_mounts_at_once(box):
    mount, path = list_of(box, 0)
    other = box.mount(store=mount.store)
    work_together(box, [path, other.at("s", "l.jsonl")])
    mount.check()


if __name__ == "__main__":
    harness.main(globals())
