#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: MIT
"""Large files: memory stays small however large a file is, and limits are told before they hurt.

SESSFS_LARGE_MB says how large (make soak-large: 4096).  With sanitizers, whose own memory is not
what is meant, files are smaller and only what they hold is looked at."""

import errno
import hashlib
import itertools
import os

from harness import (
    TABLE,
    errno_of,
    limit,
    main,
    put,
    read,
    same,
    tool,
    write,
)

PEAK = 128 << 20
LARGE = int(os.environ.get("SESSFS_LARGE_MB", "0"))
LINE = 400 if LARGE else 100  # ids and times take room beside each
BLOCK = 10000  # lines
SECONDS = 90 + LARGE


def is_sanitized(box):
    with open(box.program, "rb") as file:
        return b"__asan_init" in (text := file.read()) or b"__tsan_init" in text


def size_of(box):
    return (LARGE or (12 if is_sanitized(box) else 96)) << 20


def blocks(size, mark=b"a", changed=None):
    """A list of about that size in blocks; the line with the number changed is another one."""
    rest = b'%s"}\n' % (mark * (LINE - 22))
    for start in range(0, size // LINE, BLOCK):
        lines = [b'{"n":%08d,"t":"' % (n + 10000000) + rest for n in range(start, start + BLOCK)]
        if changed is not None and start <= changed < start + BLOCK:
            lines[changed - start] = lines[changed - start].replace(mark, b"!", 1)
        yield b"".join(lines)


class Peak:
    """The most memory that a daemon has, from here on."""

    def __init__(self, box, mount):
        self.box = box
        self.pid = mount.pid
        with open(f"/proc/{self.pid}/clear_refs", "w") as file:
            file.write("5")

    def check(self, what):
        with open(f"/proc/{self.pid}/status") as file:
            found = [int(line.split()[1]) << 10 for line in file if line.startswith("VmHWM:")]
        self.box.note(f"{what}: {found[0] / (1 << 20):.0f} MiB")
        if not is_sanitized(self.box):
            assert found[0] < PEAK, f"{what}: {found[0] >> 20} MiB of memory"


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


@limit(SECONDS * 4)
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


@limit(SECONDS * 2)
def test_a_large_ordinary_file_is_copied_in_little_memory(box):
    mount, session = box.session()
    source = box.new_path("source")
    save(source, blocks(size_of(box)))
    peak = Peak(box, mount)
    tool("cp", source, os.path.join(session, "copy"), seconds=SECONDS)
    tool("cmp", source, os.path.join(session, "copy"), seconds=SECONDS)
    peak.check("copied")


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
    fd = os.open(path, os.O_WRONLY)
    os.ftruncate(fd, (1 << 30) + 100)
    same(errno_of(os.close, fd), errno.EFBIG, "the close")
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
