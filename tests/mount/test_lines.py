#!/usr/bin/python3 -B
# SPDX-License-Identifier: MIT
"""Lines and saves: torn lines, unfinished pieces, drafts, strict mode, long-lived writers."""

import errno
import os
import signal
import subprocess
import sys

import harness
from harness import append, errno_of, eventually, put, read, same, shell, tool, write

HOLD = """
import os, sys, time
fd = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
os.write(fd, sys.argv[2].encode())
print("written", flush=True)
time.sleep(600)
"""


def list_of(box, data=b"", **named):
    mount, session = box.session(**named)
    path = os.path.join(session, "l.jsonl")
    if data:
        append(path, data)
    return mount, path


# Torn lines


def test_a_torn_line_of_a_dead_writer_does_not_swallow_the_next_one(box):
    mount, path = list_of(box, b'{"n": 1}\n{"n": 2, "te')
    append(path, b'{"n": 3}\n')
    same(read(path), b'{"n": 1}\n{"n": 2, "te\n{"n": 3}\n', "the file")
    same(mount.rows("s", "l"), [b'{"n": 1}', b'{"n": 3}'], "rows")


def test_a_line_that_is_completed_by_the_next_append_is_glued(box):
    mount, path = list_of(box, b'{"n": 1}\n{"n": 2, "te')
    append(path, b'xt": true}\n{"n": 3}\n')
    same(read(path), b'{"n": 1}\n{"n": 2, "text": true}\n{"n": 3}\n', "the file")
    same(mount.rows("s", "l"), [b'{"n": 1}', b'{"n": 2, "text": true}', b'{"n": 3}'], "rows")


def test_glued_lines_that_are_json_either_way_are_glued(box):
    # given: "1" is a row without a newline, and "2" is JSON, and so is "12"
    mount, path = list_of(box, b"1")
    append(path, b"2\n")
    same(read(path), b"12\n", "the file")
    same(mount.rows("s", "l"), [b"12"], "rows")


def test_the_option_exact_never_closes_a_torn_line_off(box):
    mount, path = list_of(box, b'{"n": 1}\n{"n": 2, "te', options=["exact"])
    append(path, b'{"n": 3}\n{"n": 4}\n')
    same(read(path), b'{"n": 1}\n{"n": 2, "te{"n": 3}\n{"n": 4}\n', "the file")
    same(mount.rows("s", "l"), [b'{"n": 1}', b'{"n": 4}'], "rows")


def test_a_torn_line_stays_torn_over_mounts_until_the_next_append(box):
    mount, path = list_of(box, b'{"n": 1}\n{"n": ')
    mount.remount()
    same(read(path), b'{"n": 1}\n{"n": ', "after mounting again")
    append(path, b'{"n": 3}\n')
    same(mount.rows("s", "l"), [b'{"n": 1}', b'{"n": 3}'], "rows")


def test_a_missing_last_newline_stays_missing_and_the_row_counts(box):
    mount, path = list_of(box, b'{"n": 1}\n{"n": 2}')
    same(mount.rows("s", "l"), [b'{"n": 1}', b'{"n": 2}'], "rows")
    mount.remount()
    same(read(path), b'{"n": 1}\n{"n": 2}', "the file")
    append(path, b"\n")
    same(read(path), b'{"n": 1}\n{"n": 2}\n', "after the newline came")
    same(mount.indexes("s", "l"), [0, 1], "indexes")


# Unfinished pieces


def test_the_unfinished_piece_of_a_line_belongs_to_its_writer(box):
    mount, path = list_of(box, b'{"n": 0}\n')
    first = os.open(path, os.O_WRONLY | os.O_APPEND)
    second = os.open(path, os.O_WRONLY | os.O_APPEND)
    os.write(first, b'{"first": ')
    os.write(second, b'{"second": [1, ')
    same(read(path), b'{"n": 0}\n', "while both are unfinished")
    same(tool("stat", "-c", "%s", path).stdout, b"9\n", "its size to others")
    os.write(second, b"2]}\n")
    same(read(path), b'{"n": 0}\n{"second": [1, 2]}\n', "after the second has finished")
    os.write(first, b'1}\n{"next": ')
    same(mount.rows("s", "l"), [b'{"n": 0}', b'{"second": [1, 2]}', b'{"first": 1}'], "rows")
    os.close(second)
    os.close(first)
    same(read(path)[-10:], b'\n{"next": ', "a piece joins the file at close")


def test_fsync_brings_an_unfinished_piece_into_the_file(box):
    mount, path = list_of(box, b'{"n": 0}\n')
    fd = os.open(path, os.O_WRONLY | os.O_APPEND)
    os.write(fd, b'{"half": ')
    os.fsync(fd)
    same(read(path), b'{"n": 0}\n{"half": ', "after fsync")
    os.write(fd, b"1}\n")
    os.close(fd)
    same(read(path), b'{"n": 0}\n{"half": 1}\n', "after the rest")
    same(mount.rows("s", "l"), [b'{"n": 0}', b'{"half": 1}'], "rows")


def test_the_piece_of_a_killed_writer_joins_the_file(box):
    mount, path = list_of(box, b'{"n": 0}\n')
    writer = subprocess.Popen(
        [sys.executable, "-c", HOLD, path, '{"n": 1}\n{"torn": '], stdout=subprocess.PIPE
    )
    writer.stdout.readline()
    same(mount.rows("s", "l"), [b'{"n": 0}', b'{"n": 1}'], "rows while it holds the file")
    writer.send_signal(signal.SIGKILL)
    writer.wait()
    writer.stdout.close()
    eventually(lambda: read(path) == b'{"n": 0}\n{"n": 1}\n{"torn": ', "the piece is in the file")
    append(path, b'{"n": 2}\n')
    same(mount.rows("s", "l"), [b'{"n": 0}', b'{"n": 1}', b'{"n": 2}'], "rows")


def test_an_appender_reads_its_own_pieces(box):
    mount, path = list_of(box)
    fd = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT)
    os.write(fd, b'{"n": 1}\n')
    same(os.pread(fd, 100, 0), b'{"n": 1}\n', "a whole line")
    os.close(fd)


# Saves


def test_a_save_is_published_whole_by_close_of_the_last_writer(box):
    mount, session = box.session()
    path = os.path.join(session, "k.json")
    write(path, b'{"v": 0}')
    first = os.open(path, os.O_WRONLY | os.O_TRUNC)
    second = os.open(path, os.O_WRONLY | os.O_TRUNC)
    os.write(first, b'{"v": 1, "long": "')
    os.write(second, b'{"v": 2')
    os.write(first, b'xxxxxxxxxxxxxxxx"}')
    os.write(second, b"}")
    same(read(path), b'{"v": 0}', "before any close")
    os.close(second)
    same(read(path), b'{"v": 2}', "after the first close")
    os.close(first)
    same(read(path), b'{"v": 1, "long": "xxxxxxxxxxxxxxxx"}', "after the last close")
    same(mount.rows("s", "k"), [read(path)], "the row")


def test_a_writer_in_place_is_not_seen_by_readers_until_it_closes(box):
    mount, session = box.session()
    for name in ("k.json", "l.jsonl"):
        path = os.path.join(session, name)
        write(path, b'["old"]\n')
        reader = os.open(path, os.O_RDONLY)
        same(os.pread(reader, 100, 0), b'["old"]\n', f"{name} before")
        writer = os.open(path, os.O_WRONLY)
        for _ in range(3):
            os.write(writer, b'["' + b"n" * 8187 + b'"]\n')
            same(read(path), b'["old"]\n', f"{name} for a new reader")
            same(os.pread(reader, 10000, 0), b'["old"]\n', f"{name} for a reader that is there")
            # Another process: the writer itself sees the size of what it has written.
            same(tool("stat", "-c", "%s", path).stdout, b"8\n", f"size of {name}")
        os.close(writer)
        same(len(read(path)), 3 * 8192, f"size of {name} after close")
        os.close(reader)


def test_the_writer_of_a_save_sees_its_own_size_and_bytes(box):
    mount, session = box.session()
    for name in ("k.json", "l.jsonl", "plain"):
        path = os.path.join(session, name)
        write(path, b"[1]\n[2]\n[3]\n")
        fd = os.open(path, os.O_RDWR)
        os.ftruncate(fd, 4)
        same(os.fstat(fd).st_size, 4, f"size of {name} after ftruncate")
        same(os.lseek(fd, 0, os.SEEK_END), 4, f"end of {name} after ftruncate")
        os.write(fd, b"[4]\n[5]\n")
        same(os.fstat(fd).st_size, 12, f"size of {name} after write")
        same(os.pread(fd, 100, 0), b"[1]\n[4]\n[5]\n", f"{name} by its writer")
        os.close(fd)
        same(read(path), b"[1]\n[4]\n[5]\n", f"{name} after close")


def test_fsync_publishes_a_save_before_close(box):
    mount, session = box.session()
    for name in ("k.json", "k2.jsonl"):
        path = os.path.join(session, name)
        write(path, b'{"v": 0}\n')
        fd = os.open(path, os.O_WRONLY | os.O_TRUNC)
        os.write(fd, b'{"v": 1}\n')
        os.fsync(fd)
        same(read(path), b'{"v": 1}\n', f"{name} after fsync")
        same(mount.rows("s", name.split(".")[0])[0].strip(), b'{"v": 1}', "the row")
        os.write(fd, b" ")
        os.close(fd)
        same(read(path), b'{"v": 1}\n ', f"{name} after close")


def test_a_reader_in_the_middle_of_a_file_finishes_the_version_that_it_began(box):
    mount, session = box.session()
    for name in ("k.json", "l.jsonl"):
        path = os.path.join(session, name)
        old = b'["' + b"a" * 300000 + b'"]\n'
        new = b'["' + b"b" * 300000 + b'"]\n'
        write(path, old)
        fd = os.open(path, os.O_RDONLY)
        data = os.read(fd, 4096)
        write(path + ".tmp", new)
        os.rename(path + ".tmp", path)
        write(path, new)
        while True:
            piece = os.read(fd, 4096)
            if not piece:
                break
            data += piece
        same(data == old, True, f"{name} is the old version, whole")
        os.close(fd)
        same(read(path) == new, True, f"{name} is the new version for a new reader")


def test_a_long_lived_writer_that_truncated_a_list_is_published_when_it_pauses(box):
    mount, session = box.session()
    path = os.path.join(session, "l.jsonl")
    write(path, b'{"old": 1}\n{"old": 2}\n')
    fd = os.open(path, os.O_WRONLY | os.O_TRUNC)
    os.write(fd, b'{"new": 1}\n')
    took = eventually(lambda: read(path) == b'{"new": 1}\n', "the new lines are seen")
    box.seen("a pausing writer of a list is published", took)
    same(mount.rows("s", "l"), [b'{"new": 1}'], "rows")
    os.write(fd, b'{"new": 2}\n')
    eventually(lambda: len(mount.rows("s", "l")) == 2, "the next line is a row")
    os.close(fd)
    same(read(path), b'{"new": 1}\n{"new": 2}\n', "after close")


def test_a_document_is_published_when_its_writer_pauses_on_valid_json(box):
    mount, session = box.session()
    path = os.path.join(session, "k.json")
    write(path, b'{"v": 0}')
    fd = os.open(path, os.O_WRONLY | os.O_TRUNC)
    os.write(fd, b'{"v": 1}')
    took = eventually(lambda: read(path) == b'{"v": 1}', "the new document is seen")
    box.seen("a pausing writer of a document is published", took)
    os.close(fd)
    same(mount.rows("s", "k"), [b'{"v": 1}'], "the row")


def test_a_new_list_is_streamed_while_its_writer_holds_it_open(box):
    mount, session = box.session()
    for name, flags in (("new", os.O_CREAT), ("cut", os.O_CREAT | os.O_TRUNC)):
        path = os.path.join(session, name + ".jsonl")
        fd = os.open(path, os.O_WRONLY | flags, 0o644)
        for number in range(10):
            os.write(fd, b'{"n": %d}\n' % number)
            same(len(mount.rows("s", name)), number + 1, f"rows of {name}")
            same(os.stat(path).st_size, 9 * (number + 1), f"size of {name}")
        os.close(fd)


def test_who_makes_a_list_to_append_to_it_loses_no_save_of_others(box):
    """Also where it was unlinked a moment ago, and who unlinked it saves it again."""
    mount = box.mount()
    os.mkdir(mount.at("s"))
    path = mount.at("s/l.jsonl")
    write(path, b"1\n2\n")
    os.unlink(path)
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    shell(f"echo 3 > {path}")
    os.write(fd, b"4\n")
    os.close(fd)
    same(read(path), b"3\n4\n", "the list")


def test_a_save_that_ends_in_a_torn_line_is_a_draft_until_it_is_completed(box):
    mount, path = list_of(box, b'{"v": 0}\n')
    write(path, b'{"v": 1}\n{"v": ')
    same(read(path), b'{"v": 1}\n{"v": ', "the draft")
    same(mount.rows("s", "l"), [b'{"v": 0}'], "SQL sees the last valid state")
    append(path, b"2}\n")
    same(read(path), b'{"v": 1}\n{"v": 2}\n', "after it was completed")
    same(mount.rows("s", "l"), [b'{"v": 1}', b'{"v": 2}'], "rows")
    mount.check()


# Strict mode


def test_strict_refuses_a_line_that_is_not_json_and_keeps_those_before_it(box):
    mount, session = box.session(options=["strict"])
    path = os.path.join(session, "l.jsonl")
    fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    data = b'{"n": 1}\n{"n": 2}\nnot json\n{"n": 3}\n'
    count = os.write(fd, data)
    same(count, 18, "bytes that were taken")
    same(errno_of(os.write, fd, data[count:]), errno.EINVAL, "the line that is not JSON")
    os.write(fd, b'{"n": 4}\n')
    os.close(fd)
    same(read(path), b'{"n": 1}\n{"n": 2}\n{"n": 4}\n', "the file")
    same(mount.rows("s", "l"), [b'{"n": 1}', b'{"n": 2}', b'{"n": 4}'], "rows")


def test_strict_refuses_a_document_that_is_not_json_at_fsync_and_close(box):
    mount, session = box.session(options=["strict"])
    path = os.path.join(session, "k.json")
    write(path, b'{"v": 0}')
    fd = os.open(path, os.O_WRONLY | os.O_TRUNC)
    os.write(fd, b'{"v": ')
    same(errno_of(os.fsync, fd), errno.EINVAL, "fsync")
    os.write(fd, b"1}")
    os.fsync(fd)
    os.write(fd, b" and more")
    same(errno_of(os.close, fd), errno.EINVAL, "close")
    same(read(path), b'{"v": 1} and more', "the refused bytes are the draft")
    same(mount.rows("s", "k"), [b'{"v": 1}'], "the last valid state")
    write(os.path.join(session, "note.txt"), b"not json")
    write(path, b'{"v": 2}')
    same(mount.rows("s", "k"), [b'{"v": 2}'], "the next valid state")


# Bad input


def test_the_log_says_where_and_why_a_line_is_not_json(box):
    mount, session = box.session()
    append(os.path.join(session, "noted.jsonl"), b'{"n": 1}\n{"n": tru}\n')
    eventually(lambda: "noted" in mount.log(), "the log names the key")
    line = next(line for line in mount.log().splitlines() if "noted" in line)
    assert "2" in line, f"the line number is missing: {line}"


def test_names_cannot_forge_a_line_of_the_log(box):
    mount, session = box.session()
    append(os.path.join(session, "a\nforged: all is well.jsonl"), b"bad\n")
    eventually(lambda: "forged" in mount.log(), "the log names the key")
    for line in mount.log().splitlines():
        assert not line.startswith("forged"), line


def test_a_shared_writable_mapping_of_a_state_file_works_or_is_refused_with_enodev(box):
    import mmap

    mount, session = box.session()
    for name in ("k.json", "l.jsonl"):
        path = os.path.join(session, name)
        write(path, b"[1]\n")
        with open(path, "r+b") as file:
            error = errno_of(mmap.mmap, file.fileno(), 4)
        assert error in (0, errno.ENODEV), f"{name}: error {error}"


def test_a_line_above_the_limit_of_the_store_is_refused_before_it_is_taken(box):
    # SQLite holds at most 1,000,000,000 bytes in a value; a hole costs nothing to write.
    mount, path = list_of(box, b'{"n": 1}\n')
    document = os.path.join(os.path.dirname(path), "k.json")
    write(document, b"[1]")
    error = errno_of(os.truncate, document, 1_500_000_000)
    same(error, errno.EFBIG, "a document above the limit")
    same(read(document), b"[1]", "the document")
    same(mount.rows("s", "k"), [b"[1]"], "the row")


def test_many_small_writes_make_the_same_file_as_one(box):
    mount, session = box.session()
    data = b"".join(b'{"n": %d}\n' % n for n in range(300)) + b"torn"
    for name in ("a.jsonl", "b.json", "c"):
        path = os.path.join(session, name)
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        for place in range(0, len(data), 7):
            put(fd, data[place : place + 7])
        os.close(fd)
        same(read(path), data, name)
    same(len(mount.rows("s", "a")), 300, "rows")


if __name__ == "__main__":
    harness.main(globals())
