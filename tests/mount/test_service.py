#!/usr/bin/python3 -B
# SPDX-License-Identifier: MIT
"""A mount as a service: what its manager and the journal are told, and how it is stopped."""

import contextlib
import os
import re
import signal
import socket
import struct
import subprocess

import harness
from harness import append, eventually, mounts_below, put, read, same, write


class Manager:
    """Listens where a service manager would."""

    def __init__(self, name):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        self.socket.bind(b"\0" + os.fsencode(name[1:]) if name[0] == "@" else name)
        os.environ["NOTIFY_SOCKET"] = name

    def hear(self):
        """The lines of the next message, and who has sent it."""
        self.socket.setblocking(True)
        data, extra, _, _ = self.socket.recvmsg(65536, socket.CMSG_SPACE(12))
        return data.decode().split("\n"), struct.unpack("3i", extra[0][2])[0]

    def hears_nothing(self):
        self.socket.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            raise AssertionError(f"told: {self.socket.recv(65536)}")


def names_of(box):
    return (box.new_path("notify"), "@" + box.new_path("notify"))


# What a manager is told


def test_a_manager_is_told_when_the_mount_answers_and_when_it_ends(box):
    for name in names_of(box):
        manager = Manager(name)
        mount = harness.Mount(box, box.new_path("store") + ".db", box.new_folder("mnt"))
        log = open(box.new_path("log"), "w+b")
        daemon = subprocess.Popen(mount.command(), stderr=log, start_new_session=True)
        try:
            lines, sender = manager.hear()
            same(lines[0], "READY=1", f"the first message to {name}")
            same(sender, daemon.pid, "who says so")
            # No waiting here: who is told uses it at once.
            os.mkdir(mount.at("s"))
            append(mount.at("s", "l.jsonl"), b"1\n")
            same(mount.rows("s", "l"), [b"1"], "rows")
            manager.hears_nothing()
            daemon.send_signal(signal.SIGTERM)
            lines, sender = manager.hear()
            same(lines[0], "STOPPING=1", "the last message")
            same(sender, daemon.pid, "who says so")
            same(daemon.wait(), 0, "status")
            manager.hears_nothing()
        finally:
            daemon.kill()
            daemon.wait()
            log.close()


def test_a_manager_is_told_of_the_end_when_somebody_unmounts(box):
    manager = Manager(box.new_path("notify"))
    mount = box.mount()
    same(manager.hear()[0][0], "READY=1", "the first message")
    mount.stop()
    same(manager.hear()[0][0], "STOPPING=1", "the last message")


def test_a_mount_that_is_refused_is_never_ready(box):
    manager = Manager(box.new_path("notify"))
    store = box.new_path("text")
    write(store, b"just text\n" * 1000)
    same(box.sessfs("mount", "-f", store, box.new_folder("mnt")).returncode, 1, "status")
    manager.hears_nothing()


def test_a_newline_in_a_path_forges_no_line_of_a_message(box):
    manager = Manager(box.new_path("notify"))
    mount = box.mount(path=box.new_path("mnt") + "\nMAINPID=1\nREADY=0")
    lines, _ = manager.hear()
    same([line.split("=")[0] for line in lines], ["READY", "STATUS"], "lines")
    mount.stop()
    lines, _ = manager.hear()
    same([line.split("=")[0] for line in lines], ["STOPPING", "STATUS"], "lines")


def test_a_manager_that_cannot_be_reached_keeps_nobody_from_mounting(box):
    missing = box.new_path("missing")
    for name in (missing, "relative", "@", "/" + "n" * 200):
        os.environ["NOTIFY_SOCKET"] = name
        mount = box.mount()
        os.mkdir(mount.at("s"))
        same("cannot reach the service manager" in mount.log(), True, f"a warning about {name}")
        mount.stop()


# What the journal is told


def said_by(box, arguments, journal, until=None):
    """The lines that a command writes to a pipe; journal: what $JOURNAL_STREAM says of it."""
    reading, writing = os.pipe()
    status = os.fstat(writing)
    environment = dict(os.environ, JOURNAL_STREAM=journal % (status.st_dev, status.st_ino))
    process = subprocess.Popen([box.program, *arguments], stderr=writing, env=environment)
    os.close(writing)
    with os.fdopen(reading) as lines:
        said = []
        for line in lines:
            said.append(line)
            if until and until in line:
                process.terminate()
    process.wait()
    return said


def test_lines_for_the_journal_begin_with_their_level(box):
    store, folder = box.new_path("store") + ".db", box.new_folder("mnt")
    command = ("mount", "-f", store, folder)
    said = said_by(box, command, "%d:%d", until="is mounted on")
    same([line for line in said if not re.match("<[3-6]>[^<]", line)], [], "lines without a level")
    assert any(line.startswith(f"<6>{store} is mounted") for line in said), said
    said = said_by(box, ("mount", "-f", folder, folder), "%d:%d")
    same([line[:3] for line in said], ["<3>"], f"levels of {said}")


def test_lines_for_anybody_else_begin_with_the_name_of_the_program(box):
    folder = box.new_folder("mnt")
    for journal in ("%d:%d7", "7%d:%d", "%d:%dx", "%d", "", "x:y"):
        journal = journal if journal.count("%") == 2 else journal.replace("%d", "1") + "%.0s%.0s"
        said = said_by(box, ("mount", "-f", folder, folder), journal)
        same([line[:8] for line in said], ["sessfs: "], f"with {journal!r}: {said}")


# How it is stopped


def test_a_mount_that_is_in_use_ends_well_when_a_manager_stops_it(box):
    """A manager signals every process of the service, and does not wait for who uses the mount."""
    mount, session = box.session()
    write(os.path.join(session, "k.json"), b"1")
    lines = os.open(os.path.join(session, "l.jsonl"), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    put(lines, b'{"n": 1}\n{"n": ')
    note = os.open(os.path.join(session, "note.txt"), os.O_WRONLY | os.O_CREAT)
    for _ in range(50):
        put(note, b"small ")
    save = os.open(os.path.join(session, "k.json"), os.O_WRONLY | os.O_TRUNC)
    put(save, b"[2")
    try:
        [aide] = [
            pid
            for pid in map(int, filter(str.isdigit, os.listdir("/proc")))
            if parent_of(pid) == mount.pid
        ]
        for pid in (mount.pid, aide):
            os.kill(pid, signal.SIGTERM)
        same(mount.wait_for_end(), 0, "status")
        same(mounts_below(mount.path), [], "mounts")
        eventually(lambda: not harness.alive(aide), "the aide ends")
    finally:
        for fd in (lines, note, save):
            with contextlib.suppress(OSError):
                os.close(fd)
    mount.forget()
    same(mount.rows("s", "k"), [b"1"], "the row of a save that was not finished")
    same(mount.rows("s", "l"), [b'{"n": 1}'], "rows of whole lines")
    mount.check()
    mount.start()
    same(read(os.path.join(session, "note.txt")), b"small " * 50, "an ordinary file")


def parent_of(pid):
    with contextlib.suppress(OSError):
        with open(f"/proc/{pid}/stat") as status:
            return int(status.read().rsplit(")", 1)[1].split()[1])
    return 0


if __name__ == "__main__":
    harness.main(globals())
