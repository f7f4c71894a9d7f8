#!/usr/bin/python3 -B
# SPDX-License-Identifier: MIT
"""Large files: memory stays small however large a file is, and limits are told before they hurt.

SESSFS_LARGE_MB says how large (make soak-large: 4096).  With sanitizers, whose own memory is not
what is meant, files are smaller and only what they hold is looked at."""

import contextlib
import errno
import hashlib
import itertools
import os
import resource
import sqlite3
import subprocess
import time

import harness
from harness import TABLE, errno_of, main, put, read, same, tool, write

LARGE = int(os.environ.get("SESSFS_LARGE_MB", "0"))
PEAK = (128 if LARGE else 64) << 20
LINE = 400 if LARGE else 100  # ids and times take room beside each
BLOCK = 10000  # lines
KEYS, KEYS_PEAK = 15000, 28 << 20  # their names alone are 11 MiB, and as much again in files


def is_sanitized(box):
    with open(box.program, "rb") as file:
        return b"__asan_init" in (text := file.read()) or b"__tsan_init" in text


def size_of(box):
    return (LARGE or (12 if is_sanitized(box) else 48)) << 20


def blocks(size, mark=b"a", changed=None):
    """A list of about that size in blocks; the line with the number changed is another one."""
    rest = b'%s"}\n' % (mark * (LINE - 22))
    for start in range(0, size // LINE, BLOCK):
        lines = [b'{"n":%08d,"t":"' % (n + 10000000) + rest for n in range(start, start + BLOCK)]
        if changed is not None and start <= changed < start + BLOCK:
            lines[changed - start] = lines[changed - start].replace(mark, b"!", 1)
        yield b"".join(lines)


def peak_of(pid):
    with open(f"/proc/{pid}/status") as file:
        return sum(int(line.split()[1]) << 10 for line in file if line.startswith("VmHWM:"))


class Peak:
    """The most memory that a daemon has, from here on."""

    def __init__(self, box, mount):
        self.box = box
        self.pid = mount.pid
        with open(f"/proc/{self.pid}/clear_refs", "w") as file:
            file.write("5")

    def check(self, what):
        found = peak_of(self.pid)
        self.box.note(f"{what}: {found / (1 << 20):.0f} MiB")
        if not is_sanitized(self.box):
            assert found < PEAK, f"{what}: {found >> 20} MiB of memory"


def save(path, data):
    """Truncates and writes; returns the digest of what was written.

    A list of nothing, or of whole lines, is published when its writer pauses for a second, as it
    may on a busy machine.  So the first block is at hand before, and each write but the last ends
    within a line."""
    digest = hashlib.blake2b()
    rest = b""
    data = itertools.chain([next(data)], data)
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    try:
        for block in data:
            digest.update(block)
            block = rest + block
            put(fd, block[:-50])
            rest = block[-50:]
        put(fd, rest)
    finally:
        os.close(fd)
    return digest.hexdigest()


def digest_of(path):
    digest = hashlib.blake2b()
    with open(path, "rb", buffering=0) as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def count(mount, condition="1"):
    return mount.sql(f"SELECT count(*) FROM {TABLE} WHERE {condition}")[0][0]


def test_a_large_list_is_streamed_and_saved_again_in_little_memory(box):
    mount, session = box.session()
    path = os.path.join(session, "l.jsonl")
    size = size_of(box)
    peak = Peak(box, mount)
    digest = save(path, blocks(size))
    peak.check("streamed")
    rows = count(mount)
    assert rows * LINE >= size - LINE, f"only {rows} rows"
    peak = Peak(box, mount)
    same(digest_of(path), digest, "the bytes of the list")
    peak.check("read")
    peak = Peak(box, mount)
    digest = save(path, blocks(size, changed=rows // 2))
    peak.check("saved with one line changed")
    same(digest_of(path), digest, "the bytes of the list that was saved again")
    same(count(mount), rows, "rows")
    same(count(mount, "updated_at <> created_at"), 1, "rows that were touched")
    if LARGE:
        return
    peak = Peak(box, mount)
    digest = save(path, blocks(size, b"b"))
    peak.check("saved with every line changed")
    same(digest_of(path), digest, "the bytes of the list that was replaced")
    same(count(mount), rows, "rows")


def test_a_large_ordinary_file_is_copied_in_little_memory(box):
    mount, session = box.session()
    source = box.new_path("source")
    save(source, blocks(size_of(box)))
    peak = Peak(box, mount)
    tool("cp", source, os.path.join(session, "copy"))
    tool("cmp", source, os.path.join(session, "copy"))
    peak.check("copied")


MANY = 300  # files of a megabyte: more than the memory that all of them may have
FEW = 64  # descriptors of the daemon


def open_saves(session):
    """Documents that are not whole yet, with what they hold in the end."""
    text = b'"' + b"x" * (1 << 20)
    for i in range(MANY):
        path = os.path.join(session, f"{i}.json")
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        put(fd, text)
        yield path, fd, text + b'"'


def unfinished_lines(session):
    text = b'{"text": "' + b"x" * (1 << 20)
    for i in range(MANY):
        path = os.path.join(session, f"{i}.jsonl")
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        put(fd, text)
        yield path, fd, text + b'"}\n'


def close_all(files):
    for _, fd, content in files:
        put(fd, content[os.fstat(fd).st_size :])
        os.close(fd)
    for path, _, content in files:
        same(read(path), content, path)


def many_descriptors():
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


@harness.soak
def test_saves_and_lines_that_are_not_finished_share_a_little_memory_and_few_descriptors(box):
    many_descriptors()
    mount = box.mount(wrap=("prlimit", f"--nofile={FEW}"))
    for begin in (open_saves, unfinished_lines):
        session = mount.at(begin.__name__)
        os.mkdir(session)
        peak = Peak(box, mount)
        close_all(list(begin(session)))
        peak.check(begin.__name__)


@harness.soak
def test_slow_readers_of_what_was_replaced_share_a_little_memory_and_few_descriptors(box):
    many_descriptors()
    mount = box.mount(wrap=("prlimit", f"--nofile={FEW}"))
    session = mount.at("s")
    os.mkdir(session)
    before = (b'"' + b"x" * 97 + b'"\n') * ((1 << 20) // 100)
    paths = [os.path.join(session, f"{i}.jsonl") for i in range(MANY)]
    peak = Peak(box, mount)
    readers = []
    for path in paths:
        write(path, before)
        readers.append(os.open(path, os.O_RDONLY))
        same(os.read(readers[-1], 100), before[:100], "the first line")
        write(path, b"1\n")
    for fd in readers:
        with open(fd, "rb", buffering=0) as file:
            same(file.readall(), before[100:], "the rest of the version that was being read")
    peak.check("slow readers")


def test_rows_of_many_keys_that_sql_has_written_are_taken_in_in_little_memory(box):
    store = box.new_path("store.db")
    box.sessfs("put", store, "s/k.json", stdin=b"1", check=True)
    names = [f"{'x' * 240}/{'y' * 240}/{'z' * 240}/{number}" for number in range(KEYS)]
    with contextlib.closing(sqlite3.connect(store)) as base, base:
        base.executemany(f"INSERT INTO {TABLE} (session_id, state_key, item_index, state_data) "
                         "VALUES ('s', ?, 0, '1')", ((name,) for name in names))
    peak = 0
    with subprocess.Popen([box.program, "ls", store], stdout=subprocess.DEVNULL) as command:
        while command.poll() is None:
            peak = max(peak, peak_of(command.pid))
            time.sleep(0.005)
    same(command.returncode, 0, "the command's status")
    box.note(f"{peak >> 20} MiB")
    if not is_sanitized(box):
        assert peak < KEYS_PEAK, f"{peak >> 20} MiB of memory"
    same(box.sessfs("cat", store, f"s/{names[-1]}.json", check=True).stdout, b"1", "the last one")


def test_a_document_above_the_limit_is_refused_before_anything_is_taken(box):
    mount, session = box.session()
    path = os.path.join(session, "k.json")
    write(path, b"[1]")
    fd = os.open(path, os.O_WRONLY | os.O_TRUNC)
    put(fd, b"[2")
    same(errno_of(os.pwrite, fd, b"]", 1 << 30), errno.EFBIG, "a write behind the limit")
    same(errno_of(os.close, fd), errno.EFBIG, "the close of what is not whole")
    same(errno_of(os.truncate, path, 1 << 30), errno.EFBIG, "a truncation to more")
    same(read(path), b"[1]", "the document")
    same(mount.rows("s", "k"), [b"[1]"], "its row")


def test_a_line_above_the_limit_is_refused_and_the_list_stays(box):
    mount, session = box.session()
    path = os.path.join(session, "l.jsonl")
    write(path, b"[1]\n[2]\n")
    for size in ((1 << 30) + 100, 20 << 30):
        fd = os.open(path, os.O_WRONLY)
        same(errno_of(os.ftruncate, fd, size), errno.EFBIG, "a truncation to zeros")
        same(errno_of(os.posix_fallocate, fd, 0, size), errno.EFBIG, "room for zeros")
        os.close(fd)
        same(errno_of(os.truncate, path, size), errno.EFBIG, "a truncation by the name")
        fd = os.open(path, os.O_WRONLY)
        os.pwrite(fd, b"[0]", 0)
        same(errno_of(os.pwrite, fd, b"[3]\n", size), errno.EFBIG, "a write behind zeros")
        same(errno_of(os.close, fd), errno.EFBIG, "the close of what is not whole")
        with open(os.path.join(session, "sparse"), "wb") as file:
            file.truncate(size)
        same(errno_of(os.rename, file.name, path), errno.EFBIG, "zeros become a list")
    same(read(path), b"[1]\n[2]\n", "the list")
    same(mount.rows("s", "l"), [b"[1]", b"[2]"], "its rows")


def test_a_writer_that_repairs_what_was_refused_saves(box):
    mount, session = box.session()
    path = os.path.join(session, "k.json")
    write(path, b"[1]")
    fd = os.open(path, os.O_WRONLY | os.O_TRUNC)
    put(fd, b"[2")
    same(errno_of(os.pwrite, fd, b"]", 1 << 30), errno.EFBIG, "a write behind the limit")
    os.ftruncate(fd, 2)
    put(fd, b"]")
    os.close(fd)
    same(read(path), b"[2]", "the document")
    same(mount.rows("s", "k"), [b"[2]"], "its row")


main(globals())
