#!/usr/bin/python3 -B
# SPDX-License-Identifier: MIT
"""Programs that use the library beside a mount of the same store, before it and after it.

  SESSFS_SESSION  the example program; otherwise tests/lib/session beside the program
"""

import errno
import json
import os
import threading

import harness
from harness import (
    Skip,
    append,
    errno_of,
    eventually,
    read,
    same,
    same_lists,
    split_lines,
    tool,
    write,
)
from test_sql import gone, listed, shows


def session_program():
    where = os.path.join(os.path.dirname(harness.program()), "tests", "lib", "session")
    example = os.environ.get("SESSFS_SESSION", where)
    if not os.access(example, os.X_OK):
        raise Skip(f"{example} is not there")
    return example


def session(store, *words):
    """Runs contrib/examples/session.c on the store."""
    return tool(session_program(), store, *words).stdout


def numbers(count, first=0):
    return [json.dumps({"n": n}) for n in range(first, first + count)]


def lines(texts):
    return "".join(text + "\n" for text in texts).encode()


def test_what_the_library_saves_shows_in_files_that_are_cached_and_open(box):
    mount = box.mount()
    session(mount.store, "list", "s", "l", *numbers(3))
    shows(box, mount.at("s", "l.jsonl"), lines(numbers(3)))
    listed(box, mount.at("s"), ["l.hash", "l.jsonl"])
    with open(mount.at("s", "l.jsonl"), "rb", buffering=0) as opened:
        same(opened.read(), lines(numbers(3)), "an open file")
        session(mount.store, "list", "s", "l", *numbers(5))
        shows(box, mount.at("s", "l.jsonl"), lines(numbers(5)))
        same(opened.read(), lines(numbers(2, 3)), "what has come since")
    session(mount.store, "list", "s", "l", *numbers(2, 7))
    shows(box, mount.at("s", "l.jsonl"), lines(numbers(2, 7)))
    session(mount.store, "save", "s", "k", "[1]")
    shows(box, mount.at("s", "k.json"), b"[1]")
    session(mount.store, "save", "s", "k", "[1, 2]")
    shows(box, mount.at("s", "k.json"), b"[1, 2]")


def test_what_files_save_the_library_gets(box):
    mount, folder = box.session()
    write(os.path.join(folder, "k.json"), b'{"a": 1}')
    append(os.path.join(folder, "l.jsonl"), lines(numbers(3)))
    same(session(mount.store, "get", "s", "k"), b'{"a": 1}\n', "get")
    same(session(mount.store, "show", "s", "l"), lines(numbers(3)), "show")
    same(session(mount.store, "sessions"), b"s\n", "sessions")


def test_what_the_library_deletes_goes_from_the_mount(box):
    mount = box.mount()
    session(mount.store, "list", "s", "l", *numbers(3))
    session(mount.store, "save", "s", "k", "1")
    session(mount.store, "save", "t", "k", "2")
    shows(box, mount.at("t", "k.json"), b"2")
    session(mount.store, "forget", "s", "l")
    gone(box, mount.at("s", "l.jsonl"))
    listed(box, mount.at("s"), ["k.json"])
    session(mount.store, "forget", "s")
    gone(box, mount.at("s"))
    listed(box, mount.at(), ["t"])


def test_one_more_in_a_list_of_10000_is_one_new_row_beside_a_mount(box):
    mount = box.mount()
    session(mount.store, "list", "s", "l", *numbers(10000))
    shows(box, mount.at("s", "l.jsonl"), lines(numbers(10000)))
    before = mount.stamps("s", "l")
    session(mount.store, "list", "s", "l", *numbers(10001))
    shows(box, mount.at("s", "l.jsonl"), lines(numbers(10001)))
    after = mount.stamps("s", "l")
    same(len(after), 10001, "rows")
    same_lists(before, after[:10000], "the times of the rows that were there")


def test_what_was_saved_while_nothing_was_mounted_shows_at_the_next_mount(box):
    mount, folder = box.session()
    path = os.path.join(folder, "l.jsonl")
    # Marks, pieces and a draft of the mount, which the library knows nothing of.
    append(path, b"no JSON\n" + lines(numbers(2000)) + b'{"torn')
    write(os.path.join(folder, "k.json"), b"{")
    write(os.path.join(folder, "gone.json"), b"1")
    mount.unmount()

    changed = numbers(1500)
    changed[1] = json.dumps({"a longer": "line " * 20})
    session(mount.store, "list", "s", "l", *changed)
    session(mount.store, "save", "s", "k", "{}")
    session(mount.store, "forget", "s", "gone")
    session(mount.store, "list", "new", "empty")

    mount.remount()
    seen = read(path)
    same(os.stat(path).st_size, len(seen), "the size")
    same_lists(
        lines(changed).splitlines(),
        [line for line in split_lines(seen) if harness.is_json(line)],
        "lines that are rows",
    )
    same(read(os.path.join(folder, "k.json")), b"{}", "a draft yields to what is newer")
    same(os.path.exists(os.path.join(folder, "gone.json")), False, "the file of a deleted key")
    same(os.listdir(mount.at("new")), ["empty.hash"], "the sidecar of an empty list")
    mount.check()


def test_what_the_library_saves_beyond_a_quota_counts_for_files(box):
    mount, folder = box.session(options=["quota=1K"])
    other = mount.at("t")
    os.mkdir(other)
    os.setxattr(other, "user.sessfs.quota", b"2K")
    for path, id, size in ((folder, os.path.basename(folder), 1500), (other, "t", 3000)):
        write(os.path.join(path, "note"), b"text")
        session(mount.store, "save", id, "k", json.dumps("x" * size))
        shows(box, os.path.join(path, "k.json"), json.dumps("x" * size).encode())
        eventually(
            lambda: int(os.getxattr(path, "user.sessfs.used")) == size + 6, "it is counted"
        )
        same(errno_of(append, os.path.join(path, "note"), b"more"), errno.ENOSPC, "a write")
        session(mount.store, "save", id, "k", "1")
        shows(box, os.path.join(path, "k.json"), b"1")
        append(os.path.join(path, "note"), b"more")
    mount.check()


def test_the_library_and_the_mount_write_at_once(box):
    mount, folder = box.session()
    rounds = 15

    def save_by_library():
        for number in range(rounds):
            session(mount.store, "list", "s", "library", *numbers(number + 1))
            session(mount.store, "list", "s", "both", *numbers(40, 100))

    worker = threading.Thread(target=save_by_library)
    worker.start()
    for number in range(rounds * 4):
        append(os.path.join(folder, "mount.jsonl"), lines(numbers(1, number)))
        write(os.path.join(folder, "both.jsonl"), lines(numbers(50, 200)))
        last = read(os.path.join(folder, "both.jsonl"))
        same(last in (lines(numbers(40, 100)), lines(numbers(50, 200))), True, "a whole list")
    worker.join()
    shows(box, os.path.join(folder, "library.jsonl"), lines(numbers(rounds)))
    same(read(os.path.join(folder, "mount.jsonl")), lines(numbers(rounds * 4)), "the appender's")
    same_lists(
        split_lines(read(os.path.join(folder, "both.jsonl"))),
        split_lines(session(mount.store, "show", "s", "both")),
        "both's list, as a file and in the library",
    )
    mount.unmount()
    mount.check()


if __name__ == "__main__":
    harness.main(globals())
