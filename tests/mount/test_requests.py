#!/usr/bin/python3 -B
# SPDX-License-Identifier: MIT
"""How many requests the kernel sends for what clients do most, as -o debug shows them.

Each costs a change to the daemon and back, whatever it does.  The kernel may have dropped something
of its caches meanwhile, so the least of several tries counts.  What it sends in nobody's name, when
a file is closed or forgotten, is left out.
"""

import os
import re

import harness
from harness import eventually, read, same, write

TRIES = 6


def is_released(log):
    """Whether the file that was closed last is closed for the daemon, too."""
    found = re.findall(r"unique: (\d+), opcode: RELEASE ", log)
    return found and f"unique: {found[-1]}, success" in log


def requests(mount, action):
    """Those of this process meanwhile, and the notices to the kernel."""
    begin = len(mount.log())
    action()
    eventually(lambda: is_released(mount.log()[begin:]), "the file is released")
    pattern = rf"opcode: (\w+) .*pid: {os.getpid()}\n|(NOTIFY)"
    return [name or notice for name, notice in re.findall(pattern, mount.log()[begin:])]


def check_requests(mount, what, action, expected):
    tries = [requests(mount, action) for _ in range(TRIES)]
    same(min(tries, key=len), expected.split(), f"requests of {what}")


def write_by(path, flags, *parts):
    fd = os.open(path, flags, 0o644)
    for part in parts:
        os.write(fd, part)
    os.close(fd)


# A save is followed by a notice, since the attributes are others.  The kernel asks for the
# capabilities of a file before the first write by a descriptor (GETXATTR).


def test_a_save_in_place_takes_one_lookup_more_than_its_calls(box):
    mount, session = box.session(options=("debug",))
    for name in ("k.json", "l.jsonl", "m.hash"):
        path = os.path.join(session, name)
        write(path, b"[1]")
        flags = os.O_WRONLY | os.O_TRUNC
        check_requests(
            mount,
            f"a save of {name}",
            lambda: write_by(path, flags, b'{"a": ', b"1}"),
            "LOOKUP OPEN GETXATTR WRITE WRITE FLUSH NOTIFY",
        )


# A directory that has changed is asked for by the next call that goes through it.  What nobody has
# is looked up, and so is what was saved a moment ago.


def test_a_new_file_takes_a_lookup_and_the_attributes_of_its_directory(box):
    mount, session = box.session(options=("debug",))
    numbers = iter(range(100))
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    write(os.path.join(session, "k.json"), b"[1]")
    check_requests(
        mount,
        "a new document",
        lambda: write_by(os.path.join(session, f"{next(numbers)}.json"), flags, b'{"a": 1}'),
        "GETATTR LOOKUP CREATE WRITE FLUSH",
    )


def test_a_removal_takes_a_lookup_and_the_attributes_of_the_directory(box):
    mount, session = box.session(options=("debug",))
    for number in range(TRIES):
        write(os.path.join(session, f"{number}.json"), b"[1]")
    pattern = rf"opcode: (\w+) .*pid: {os.getpid()}\n"
    tries = []
    for number in range(TRIES):
        begin = len(mount.log())
        os.unlink(os.path.join(session, f"{number}.json"))
        tries.append(re.findall(pattern, mount.log()[begin:]))
    same(min(tries, key=len), ["GETATTR", "LOOKUP", "UNLINK"], "requests of a removal")


def test_a_save_by_rename_takes_two_lookups_and_the_attributes_of_the_directory(box):
    mount, session = box.session(options=("debug",))
    path = os.path.join(session, "k.json")
    write(path, b"[1]")

    def save():
        write_by(f"{path}.tmp", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, b'{"a": 1}')
        os.rename(f"{path}.tmp", path)

    check_requests(
        mount,
        "a save by rename",
        save,
        "GETATTR LOOKUP CREATE GETXATTR WRITE FLUSH GETATTR LOOKUP RENAME",
    )


def test_an_append_takes_no_request_but_those_of_its_calls(box):
    mount, session = box.session(options=("debug",))
    path = os.path.join(session, "l.jsonl")
    write(path, b"1\n")
    check_requests(
        mount,
        "appends",
        lambda: write_by(path, os.O_WRONLY | os.O_APPEND, b"2\n", b"3\n"),
        "OPEN WRITE WRITE FLUSH",
    )


def test_a_read_takes_no_request_but_those_of_its_calls(box):
    mount, session = box.session(options=("debug",))
    for name in ("k.json", "l.jsonl"):
        path = os.path.join(session, name)
        write(path, b"[1]\n")

        def look():
            os.stat(path)
            fd = os.open(path, os.O_RDONLY)
            os.fstat(fd)
            os.pread(fd, 100, 0)
            os.close(fd)

        look()
        # Python asks for the time of the last read, too, which the kernel does not know then.
        check_requests(mount, f"a read of {name}", look, "GETATTR OPEN READ")
        same(read(path), b"[1]\n", "its bytes")


def test_what_is_cached_and_unchanged_is_not_read_again(box):
    mount, session = box.session(options=("debug",))
    for beside in (False, True):
        if beside:
            box.mount(store=mount.store)
        for name, text in (("o.txt", b"text\n"), ("l.jsonl", b"1\n" * 1_000_000)):
            path = os.path.join(session, name)
            write(path, text)

            def look():
                fd = os.open(path, os.O_RDONLY)
                os.pread(fd, 4096, 0)
                os.close(fd)

            look()
            # Beside another mount the kernel may look the name up again.
            reads = [requests(mount, look).count("READ") for _ in range(TRIES)]
            same(min(reads), 0, f"reads of {name} {'beside another mount' if beside else 'alone'}")
            same(read(path), text, "its bytes")


harness.main(globals())
