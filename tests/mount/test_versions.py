#!/usr/bin/python3 -B
# SPDX-License-Identifier: MIT
"""Every way to save beside every way to read, of states from 79 bytes to 200 KB: who opens a file
sees one save of it, whole, and is never killed for a look at it.

  SESSFS_READS  how often each reader reads, in each case
  SESSFS_SEED   of the sizes
"""

import collections
import contextlib
import mmap
import os
import random
import sqlite3
import time

import crowd
import harness
from harness import INSERT, TABLE, eventually, read, rounds, same, shell, tool, write

# A million beside savers by files; a list costs five times as much as a document.
READS = {".json": rounds("SESSFS_READS", 45, 9_600), ".jsonl": rounds("SESSFS_READS", 45, 2_000)}
SQL_READS = rounds("SESSFS_READS", 45, 20_000)  # of which one in 100,000 may be wrong
SEED = int(os.environ.get("SESSFS_SEED") or time.time_ns() % 1_000_000)
SAVERS = 2
SIZES = (79, 200, 4095, 4096, 4097, 10_000, 65_536, 131_072, 200_000)
PATIENT = 0.0005  # seconds that some readers leave between two steps


# What is saved: every version is known by its first bytes.


def size_of(writer, number):
    rng = random.Random(f"{SEED} {writer} {number}")
    return rng.choice(SIZES) if rng.random() < 0.5 else rng.randrange(79, 200_000)


def document(writer, number):
    head = b'{"writer":"%02d","number":"%06d","fill":"' % (writer, number)
    return head + b"%02d" % writer * ((size_of(writer, number) - len(head) - 2) // 2) + b'"}'


def items(writer, number):
    lines = size_of(writer, number) // 79 or 1
    line = b'{"writer":"%02d","number":"%06d","fill":"' % (writer, number)
    return (line + b"x" * (79 - len(line) - 3) + b'"}\n') * lines


def judge(data, make):
    try:
        writer, number = int(data[11:13]), int(data[25:31])
    except ValueError:
        raise AssertionError(f"{len(data)} bytes that begin with {data[:40]!r}") from None
    whole = make(writer, number)
    if data != whole:
        at = len(os.path.commonprefix([data, whole]))
        raise AssertionError(
            f"{len(data)} bytes, of a save of {len(whole)}; from {at} on {data[at:][:40]!r}"
        )


# Who saves, until the readers have read


def in_place(mount, path, data):
    write(path, data)


def by_pages(mount, path, data):
    """Cut, then written by 4 KB."""
    with open(path, "wb", buffering=0) as file:
        for start in range(0, len(data), 4096):
            file.write(data[start : start + 4096])


def emptied_first(mount, path, data):
    """By its name, which is a save of its own."""
    with contextlib.suppress(FileNotFoundError):
        os.truncate(path, 0)
    write(path, data)


def over_it(mount, path, data):
    """Written over what was there, and cut to what is new."""
    with contextlib.suppress(FileNotFoundError), open(path, "r+b", buffering=0) as file:
        file.write(data)
        file.truncate()


def by_rename(mount, path, data):
    temporary = f"{path}.{os.getpid()}.new"
    write(temporary, data)
    os.rename(temporary, path)


def unlinked_first(mount, path, data):
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    write(path, data)


def by_update(mount, path, data):
    """A SQL client, as a service is one."""
    rows = data.splitlines() if path.endswith("l") else [data]
    with sqlite3.connect(mount.store, timeout=60, isolation_level=None) as base:
        base.execute("BEGIN IMMEDIATE")
        key = "session_id = 's' AND state_key = 'k'"
        base.execute(f"DELETE FROM {TABLE} WHERE {key} AND item_index >= {len(rows)}")
        base.executemany(
            INSERT + " ON CONFLICT DO UPDATE SET state_data = excluded.state_data",
            [("s", "k", index, row.decode()) for index, row in enumerate(rows)],
        )
        base.execute("COMMIT")
    base.close()
    time.sleep(0.002)


FILES = (in_place, by_pages, emptied_first, over_it, by_rename, unlinked_first)


def save(mount, path, ways, make, writer, go_on):
    number = 1
    while go_on():
        ways[number % len(ways)](mount, path, make(writer, number))
        number += 1


# Who reads: all of it, by one descriptor


def by_sendfile(fd):
    return send(fd, lambda: None)


def by_fstat_and_sendfile(fd):
    return send(fd, lambda: os.fstat(fd))


def by_patient_sendfile(fd):
    return send(fd, lambda: time.sleep(PATIENT), 16_384)


def send(fd, before, most=crowd.BLOCK):
    copy = os.memfd_create("copy")
    try:
        before()
        while os.sendfile(copy, fd, None, most):
            if most != crowd.BLOCK:
                before()
        return os.pread(copy, os.fstat(copy).st_size, 0)
    finally:
        os.close(copy)


def by_splice(fd):
    reading, writing = os.pipe()
    parts = []
    try:
        while size := os.splice(fd, writing, 65536):
            parts.append(os.read(reading, size))
    finally:
        os.close(reading)
        os.close(writing)
    return b"".join(parts)


def by_mapping(fd, flags=mmap.MAP_SHARED, wait=0.0):
    size = os.fstat(fd).st_size
    if not size:
        return b""
    with mmap.mmap(fd, size, flags, mmap.PROT_READ) as mapping:
        time.sleep(wait)
        half = size // 2
        end = mapping[half:]
        return mapping[:half] + end


def by_private_mapping(fd):
    return by_mapping(fd, mmap.MAP_PRIVATE)


def by_patient_mapping(fd):
    return by_mapping(fd, wait=PATIENT)


def by_read(fd):
    return b"".join(iter(lambda: os.read(fd, crowd.BLOCK), b""))


def by_small_reads(fd):
    return b"".join(iter(lambda: os.read(fd, 4096), b""))


def by_end_and_pread(fd):
    size = os.lseek(fd, 0, os.SEEK_END)
    return os.pread(fd, size, 0)


def by_fstat_and_pread(fd):
    size = os.fstat(fd).st_size
    half = os.pread(fd, size // 2, 0)
    return half + os.pread(fd, size - len(half), len(half))


def shown(data):
    """Enough of it to tell one version from another, and where it is torn."""
    return len(data), hash(data), data[:34], data[-24:]


def by_mapping_and_sendfile(fd):
    """Both show what the descriptor was opened on."""
    mapped = by_mapping(fd)
    sent = by_sendfile(fd) if mapped else mapped
    same(shown(sent), shown(mapped), "what is mapped is what is sent")
    return mapped


def by_read_and_mapping(fd):
    """A mapping shows what the descriptor was opened on, also behind the first read."""
    begun = by_read(fd)
    mapped = by_mapping(fd) if begun else begun
    same(shown(mapped), shown(begun), "what is mapped is what was read first")
    return mapped


WAYS = (
    by_sendfile,
    by_fstat_and_sendfile,
    by_patient_sendfile,
    by_splice,
    by_mapping,
    by_private_mapping,
    by_patient_mapping,
    by_mapping_and_sendfile,
    by_read,
    by_small_reads,
    by_end_and_pread,
    by_fstat_and_pread,
    by_read_and_mapping,
)


def opened(path):
    while True:
        try:
            return os.open(path, os.O_RDONLY)
        except FileNotFoundError:  # unlinked and about to be written again
            time.sleep(0.0001)


def look(path, way, expected):
    fd = opened(path)
    try:
        data = way(fd)
        if data or not expected.may_be_empty:
            judge(data, expected.make)
    finally:
        os.close(fd)


def look_often(path, way, expected, say):
    for count in range(expected.reads):
        try:
            look(path, way, expected)
        except (AssertionError, OSError, ValueError) as error:
            say(f"{way.__name__}: read {count}: {harness.describe(error)}\n".encode())


def readers(path, ways, expected):
    reading, writing = os.pipe()
    children = {}
    for way in ways:
        child = os.fork()
        if child == 0:
            look_often(path, way, expected, lambda line: os.write(writing, line))
            os._exit(0)
        children[child] = way
    os.close(writing)
    with os.fdopen(reading) as said:
        wrong = said.read().splitlines()
    for child, way in children.items():
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        same(status, 0, f"the end of {way.__name__}")
    if len(wrong) > expected.allowed:
        counts = collections.Counter(line.split(":")[0] for line in wrong)
        raise AssertionError(f"of {expected.reads} reads {dict(counts)}: {wrong[:3]}")


Expected = collections.namedtuple("Expected", "make may_be_empty allowed reads")


def storm(box, suffix, make, ways, allowed=0, reads=None, session=harness.Box.session):
    print(f"# seed {SEED}")
    # A saver that has to wait for a processor shall not count as one that pauses.
    mount, folder = session(box, options=("pause=0",))
    path = os.path.join(folder, "k" + suffix)
    write(path, make(0, 0))
    reads = reads or READS[suffix]
    expected = Expected(make, {emptied_first, unlinked_first} & set(ways), allowed, reads)
    half = len(WAYS) // 2
    for some in (WAYS[:half], WAYS[half:]):
        crowd.run_together(
            [(readers, path, some, expected)],
            [(save, mount, path, ways, make, writer) for writer in range(1, 1 + SAVERS)],
        )
    judge(read(path), make)
    mount.check()


def define(name, function):
    text = name.replace(" ", "_")
    function.__name__ = text
    globals()[text] = function


# A list that is empty is written by appends, so whoever empties it first shows it as it grows.
SAVES = {
    ".json": FILES,
    ".jsonl": tuple(way for way in FILES if way not in (emptied_first, unlinked_first)),
}

for kind, suffix, make in (("documents", ".json", document), ("lists", ".jsonl", items)):
    for way in SAVES[suffix]:
        define(
            f"test_{kind} saved {way.__name__} are seen whole by every way to read",
            lambda box, suffix=suffix, make=make, way=way: storm(box, suffix, make, (way,)),
        )
    define(
        f"test_{kind} saved in all of these ways at once are seen whole by every way to read",
        lambda box, suffix=suffix, make=make: storm(box, suffix, make, SAVES[suffix]),
    )
    define(
        f"test_{kind} saved by SQL are seen whole by every way to read",
        lambda box, suffix=suffix, make=make: storm(
            box,
            suffix,
            make,
            (by_update,),
            allowed=SQL_READS * len(WAYS) // 2 // 100_000,
            reads=SQL_READS,
        ),
    )


# Where the daemon sees nobody's process


def elsewhere(box, **named):
    """The session of a daemon in a pid namespace of its own, as in another container."""
    harness.need_root()
    harness.need_tool("unshare")
    return box.session(wrap=("unshare", "--pid", "--fork", "--kill-child"), **named)


def seen_by_others(path, data, when):
    """By processes that have inherited, and closed, all that is open here."""
    same(tool("cat", path).stdout, data, f"{path} {when}")
    same(tool("stat", "-c", "%s", path).stdout, b"%d\n" % len(data), f"its size {when}")


def test_processes_that_the_daemon_cannot_see_see_no_half_of_a_save(box):
    # A save that pauses for a second, as the machine may make it, would be published.
    mount, session = elsewhere(box, options=["pause=0"])
    for name, old, new in (
        ("k.json", b'{"v": 1}\n', b'{"v": 2, "more": 3}\n'),
        ("l.jsonl", b"1\n2\n", b"3\n4\n5\n"),
        ("k.hash", b"abc", b"defg"),
    ):
        path = os.path.join(session, name)
        write(path, old)
        for how in ("emptied by the open", "written over", "emptied"):
            fd = os.open(path, os.O_WRONLY | (os.O_TRUNC if "open" in how else 0))
            seen_by_others(path, old, "when it was opened")
            if how == "emptied":
                os.ftruncate(fd, 0)
                seen_by_others(path, old, "when it was emptied")
            os.write(fd, new[:3])
            seen_by_others(path, old, "half written")
            os.write(fd, new[3:])
            os.ftruncate(fd, len(new))
            seen_by_others(path, old, "before the close")
            os.close(fd)
            seen_by_others(path, new, "after the close")
            old, new = new, old
        os.truncate(path, 0)
        eventually(lambda path=path: read(path) == b"", "it is emptied by its name")


def test_a_line_that_is_not_finished_is_its_writer_s_where_the_daemon_cannot_see_it(box):
    mount, session = elsewhere(box)
    path = os.path.join(session, "l.jsonl")
    write(path, b"1\n")
    fd = os.open(path, os.O_WRONLY | os.O_APPEND)
    os.write(fd, b'2\n{"half": ')
    seen_by_others(path, b"1\n2\n", "with a piece of a line")
    harness.append(path, b"3\n")
    os.write(fd, b"4}\n")
    os.close(fd)
    seen_by_others(path, b'1\n2\n3\n{"half": 4}\n', "in the end")
    same(mount.rows("s", "l"), [b"1", b"2", b"3", b'{"half": 4}'], "rows")


def test_what_a_shell_and_its_children_write_is_all_there_where_the_daemon_cannot_see_them(box):
    mount, session = elsewhere(box)
    path = os.path.join(session, "l.jsonl")
    write(path, b"0\n")
    script = "{ echo 1; sh -c 'echo 2'; cat; echo 4 >>/dev/stdout; } >\"$1\""
    shell(script, path, stdin=b"3\n")
    eventually(lambda: read(path) == b"1\n2\n3\n4\n", "all that was written")


for kind, suffix, make in (("documents", ".json", document), ("lists", ".jsonl", items)):
    define(
        f"test_{kind} are seen whole where the daemon sees nobody",
        lambda box, suffix=suffix, make=make: storm(
            box, suffix, make, (in_place, by_pages, over_it, by_rename), session=elsewhere
        ),
    )


if __name__ == "__main__":
    harness.main(globals())
