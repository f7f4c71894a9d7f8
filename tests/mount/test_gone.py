#!/usr/bin/python3 -B
# SPDX-License-Identifier: MIT
"""The ground goes from under a store: its file is deleted, replaced or moved, the size of files is
limited, there are no inodes.

Nothing that was lost is called durable, no process of ours dies of it, nothing of another store is
touched, and the sentence says what it is."""

import contextlib
import errno
import os
import sqlite3
import subprocess

from harness import (
    INSERT,
    TABLE,
    append,
    errno_of,
    eventually,
    main,
    mounts_below,
    need_root,
    need_tool,
    read,
    same,
    tool,
    write,
)

LINE = b'{"n": 1}\n'
TOLD = "was removed, moved or replaced while it was open"


def started(box):
    """A mount whose first line is durable, and what an fsync of its list says."""
    mount, session = box.session()
    append(session + "/l.jsonl", LINE)

    def sync():
        fd = os.open(session + "/l.jsonl", os.O_RDONLY)
        try:
            return errno_of(os.fsync, fd)
        finally:
            os.close(fd)

    same(sync(), 0, "fsync while all is well")
    return mount, session, sync


def said_once(mount):
    eventually(lambda: TOLD in mount.log(), "the log tells")
    same(mount.log().count(TOLD), 1, "times that it is told")


def test_a_store_that_was_deleted_takes_nothing_more(box):
    mount, session, sync = started(box)
    os.unlink(mount.store)
    same(sync(), errno.EIO, "fsync")
    same(sync(), errno.EIO, "a second one")
    same(errno_of(append, session + "/l.jsonl", LINE), errno.EIO, "an append")
    same(read(session + "/l.jsonl"), LINE, "what was there is read")
    said_once(mount)


def test_a_store_that_was_deleted_is_told_without_a_write(box):
    mount, _, _ = started(box)
    os.unlink(mount.store)
    said_once(mount)


def test_umount_tells_that_the_last_changes_may_be_lost(box):
    for ending, by_store in (("", False), ("", True), ("-wal", False)):
        mount, session, _ = started(box)
        append(session + "/l.jsonl", LINE)
        os.unlink(mount.store + ending)
        done = box.sessfs("umount", mount.store if by_store else mount.path)
        said = done.stderr.decode()
        same(done.returncode, 1, f"the status without STORE{ending}: {said!r}")
        assert f"last changes may not be in the store {mount.store}: " in said, said
        same(said.count("\n"), 1, f"sentences: {said!r}")
        same(mounts_below(mount.path), [], "mounts")
        mount.wait_for_end()
        mount.forget()


def test_umount_of_a_dead_mount_asks_nothing_of_it(box):
    mount, _, _ = started(box)
    mount.kill_only()
    done = box.sessfs("umount", mount.path)
    same((done.returncode, done.stderr), (0, b""), "umount of a dead mount")
    same(mounts_below(mount.path), [], "mounts")


def test_a_store_whose_log_was_deleted_takes_nothing_durable(box):
    mount, _, sync = started(box)
    os.unlink(mount.store + "-wal")
    same(sync(), errno.EIO, "fsync")
    same(sync(), errno.EIO, "a second one")
    said_once(mount)


def test_a_store_that_comes_back_is_written_again(box):
    mount, session, sync = started(box)
    for ending in ("", "-wal", "-shm"):
        os.rename(mount.store + ending, mount.store + ".away" + ending)
    same(sync(), errno.EIO, "fsync of a store that is elsewhere")
    for ending in ("", "-wal", "-shm"):
        os.rename(mount.store + ".away" + ending, mount.store + ending)
    append(session + "/l.jsonl", LINE)
    same(sync(), 0, "fsync of a store that is back")
    same(mount.rows("s", "l"), [LINE[:-1]] * 2, "rows")
    mount.remount()
    same(read(session + "/l.jsonl"), LINE * 2, "lines")


def test_a_store_that_took_the_place_is_left_alone(box):
    other = box.new_path("other") + ".db"
    box.sessfs("put", other, "t/k.json", stdin=b"{}", check=True)
    mount, session, sync = started(box)
    for ending in ("", "-wal", "-shm"):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(mount.store + ending)
    os.rename(other, mount.store)
    with contextlib.closing(sqlite3.connect(mount.store, isolation_level=None)) as base:
        # What only its log has.
        base.execute("PRAGMA journal_mode = WAL")
        base.execute(INSERT, ("t", "l", 0, "1"))
        same(sync(), errno.EIO, "fsync")
        same(errno_of(append, session + "/l.jsonl", LINE), errno.EIO, "an append")
        # More readers at once than have been so far.
        for _ in range(40):
            same(os.listdir(mount.path), ["s"], "the sessions of the old one")
        said_once(mount)
        mount.stop()
        same(os.path.exists(mount.store + "-wal"), True, "the log of the new one")
        rows = base.execute(f"SELECT count(*) FROM {TABLE}").fetchone()[0]
        same(rows, 2, "rows of the new one")
    same(box.sessfs("cat", mount.store, "t/l.json", check=True).stdout, b"1", "its row")


def limited(kib):
    return ["sh", "-c", f'ulimit -f {kib * 2}; exec "$@"', "sh"]


def test_a_limit_on_the_size_of_files_fails_a_write_and_not_the_daemon(box):
    mount, session = box.session(wrap=limited(2048))
    text = b'"' + b"x" * (3 << 20) + b'"'
    write(session + "/d.json", b'"old"')
    error = errno_of(write, session + "/d.json", text)
    assert error in (errno.EFBIG, errno.ENOSPC), f"a document above the limit: {error}"
    same(read(session + "/d.json"), b'"old"', "what is there")
    plain = session + "/plain"
    fill = 0
    while not (error := errno_of(append, plain, b"b" * 65536)) and fill < 64:
        fill += 1
    assert error in (errno.EFBIG, errno.ENOSPC) and fill, f"{fill} blocks, then {error}"
    same(read(plain)[: fill << 16], b"b" * (fill << 16), "the bytes of the file")
    os.unlink(plain)
    eventually(lambda: not errno_of(append, session + "/l.jsonl", LINE), "it goes on")
    same(errno_of(os.listdir, session), 0, "the daemon answers")


def test_a_limit_on_the_size_of_files_fails_a_verb_with_a_sentence(box):
    store = box.new_path("store") + ".db"
    text = b'"' + b"x" * (3 << 20) + b'"'
    wrap = limited(1024)
    done = tool(*wrap, box.program, "put", store, "s/k.json", stdin=text, check=False)
    same(done.returncode, 1, "the status of put")
    assert b"File too large" in done.stderr, done.stderr
    box.sessfs("put", store, "s/k.json", stdin=text, check=True)
    for command in ("export", "backup"):
        to = [box.new_path("copy")]
        done = tool(*wrap, box.program, command, store, *to, check=False)
        same(done.returncode, 1, f"the status of {command}")
        assert b"File too large" in done.stderr, done.stderr
        same(os.path.exists(to[0]) and os.path.isfile(to[0]), False, "a half copy")


def test_a_reader_that_has_seen_enough_ends_a_verb_without_a_word(box):
    store = box.new_path("store") + ".db"
    for i in range(3):
        box.sessfs("append", store, f"s{i}/l.jsonl", stdin=LINE * 20000, check=True)
    for command in (["cat", store, "s0/l.jsonl"], ["ls", store], ["sessions", store], ["--help"]):
        reading, writing = os.pipe()
        os.close(reading)
        done = subprocess.run(
            [box.program, *command], stdout=writing, stderr=subprocess.PIPE
        )
        os.close(writing)
        same((done.returncode, done.stderr), (1, b""), f"{command[0]} to a closed pipe")


def test_a_filesystem_without_free_inodes_is_called_full(box):
    need_root()
    need_tool("mount")
    folder = box.new_folder("disk")
    tool("mount", "-t", "tmpfs", "-o", "size=64m,nr_inodes=12", "tmpfs", folder)
    try:
        store = folder + "/s.db"
        box.sessfs("append", store, "s/l.jsonl", stdin=LINE, check=True)
        made = 0
        while not errno_of(write, f"{folder}/f{made}", b""):
            made += 1
        for left in (0, 1):
            for command in (["ls", store], ["append", store, "s/l.jsonl"], ["check", store]):
                done = box.sessfs(*command, stdin=LINE)
                assert done.returncode, f"{command[0]} with {left} inodes says 0"
                assert b"no room for one more file" in done.stderr, done.stderr
                assert b"is full" in done.stderr and b"damaged" not in done.stderr, done.stderr
            os.unlink(f"{folder}/f{made - 1 - left}")
        os.unlink(f"{folder}/f{made - 3}")
        same(box.sessfs("cat", store, "s/l.jsonl", check=True).stdout, LINE, "the line")
    finally:
        tool("umount", folder)


main(globals())
