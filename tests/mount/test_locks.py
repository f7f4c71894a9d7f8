#!/usr/bin/python3 -B
# SPDX-License-Identifier: MIT
"""Locks: those of flock(2), of processes and of open files (fcntl(2)), and what they protect."""

import contextlib
import errno
import fcntl
import json
import os
import platform
import random
import select
import signal
import struct
import subprocess

import harness
from harness import errno_of, eventually, need_tool
from harness import put, read, same, tool, write

NAMES = ("doc.json", "list.jsonl", "plain.txt")
CONTENT = b'{"count": 0}\n'
FLOCK = struct.Struct("hhqqi0q")
OFD_GETLK, OFD_SETLK, OFD_SETLKW = 36, 37, 38
SET = {"process": (fcntl.F_SETLK, fcntl.F_SETLKW), "file": (OFD_SETLK, OFD_SETLKW)}
SH, EX, UN, NB = fcntl.LOCK_SH, fcntl.LOCK_EX, fcntl.LOCK_UN, fcntl.LOCK_NB
TYPES = {SH: fcntl.F_RDLCK, EX: fcntl.F_WRLCK, UN: fcntl.F_UNLCK}
KINDS = ("whole", "process", "file")
# Numbers of flock and fcntl, by which a process tells that it waits.
LOCK_CALLS = {"x86_64": ("73", "72"), "aarch64": ("32", "25")}.get(platform.machine())


class Interrupted(Exception):
    pass


def interrupt(number, frame):
    raise Interrupted


class Client:
    """A process that opens and locks files as it is told.  Its descriptors have names."""

    def __init__(self):
        commands, self.commands = os.pipe()
        self.results, results = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            # What others are told by, too: they end when it is closed.
            for fd in map(int, os.listdir("/proc/self/fd")):
                if fd > 2 and fd not in (commands, results):
                    with contextlib.suppress(OSError):
                        os.close(fd)
            self.serve(commands, results)
            os._exit(0)
        os.close(commands)
        os.close(results)
        self.results = os.fdopen(self.results, "rb")

    # In the process

    def serve(self, commands, results):
        signal.signal(signal.SIGUSR1, interrupt)
        self.fd = {}
        for line in os.fdopen(commands, "rb"):
            name, *arguments = json.loads(line)
            try:
                answer = [0, getattr(self, "do_" + name)(*arguments)]
            except Interrupted:
                answer = ["interrupted", None]
            except OSError as error:
                answer = [error.errno, None]
            put(results, json.dumps(answer).encode() + b"\n")

    def do_open(self, name, path, flags):
        self.fd[name] = os.open(path, flags)

    def do_close(self, name):
        os.close(self.fd.pop(name))

    def do_dup(self, name, other):
        self.fd[other] = os.dup(self.fd[name])

    def do_fork(self, kind=None, name=None, operation=None):
        """A child that has inherited everything does this, and exits."""
        child = os.fork()
        if child == 0:
            number = errno_of(self.do_lock, kind, name, operation) if kind else 0
            os._exit(number)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    def do_lock(self, kind, name, operation, start=0, length=0):
        """operation is that of flock(2), for all kinds."""
        if kind == "whole":
            fcntl.flock(self.fd[name], operation)
            return
        call = SET[kind][not operation & NB]
        kind_of_lock = TYPES[operation & ~NB]
        lock = FLOCK.pack(kind_of_lock, os.SEEK_SET, start, length, 0)
        fcntl.fcntl(self.fd[name], call, lock)

    def do_test(self, kind, name, operation, start=0, length=0):
        """What is in the way: type, start, length, pid; None when nothing is."""
        lock = FLOCK.pack(TYPES[operation], os.SEEK_SET, start, length, 0)
        call = fcntl.F_GETLK if kind == "process" else OFD_GETLK
        kind_of_lock, _, start, length, pid = FLOCK.unpack(fcntl.fcntl(self.fd[name], call, lock))
        return None if kind_of_lock == fcntl.F_UNLCK else [kind_of_lock, start, length, pid]

    def do_write(self, name, text):
        os.ftruncate(self.fd[name], 0)
        os.pwrite(self.fd[name], text.encode(), 0)

    def do_patch(self, name, text, offset):
        os.pwrite(self.fd[name], text.encode(), offset)

    def do_read(self, name, size, offset):
        return os.pread(self.fd[name], size, offset).decode()

    # In the test

    def start(self, *command):
        os.write(self.commands, json.dumps(command).encode() + b"\n")

    def result(self):
        return json.loads(self.results.readline())

    def call(self, *command):
        """Fails when the process cannot do it."""
        self.start(*command)
        error, value = self.result()
        same(error, 0, f"error of {command}")
        return value

    def error(self, *command):
        """0, or the name of the error."""
        self.start(*command)
        error = self.result()[0]
        return errno.errorcode.get(error, error)

    def starts_to_wait(self, *command):
        self.start(*command)
        eventually(self.waits, f"{command} waits")

    def waits(self):
        with open(f"/proc/{self.pid}/syscall") as file:
            return not LOCK_CALLS or file.read().split()[0] in LOCK_CALLS

    def end(self):
        """The process exits without unlocking or closing anything."""
        os.close(self.commands)
        os.waitpid(self.pid, 0)

    def kill(self):
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)


def clients(count, path, flags=os.O_RDWR):
    """Processes that each have opened a file as "f"."""
    made = [Client() for _ in range(count)]
    for client in made:
        client.call("open", "f", path, flags)
    return made


def files(session):
    for name in NAMES:
        path = os.path.join(session, name)
        write(path, CONTENT)
        yield path


# Who excludes whom


def test_locks_of_two_opens_exclude_each_other(box):
    mount, session = box.session()
    for path in files(session):
        for kind in KINDS:
            a, b = clients(2, path)
            what = f"{kind} of {os.path.basename(path)}"
            a.call("lock", kind, "f", EX)
            same(b.error("lock", kind, "f", EX | NB), "EAGAIN", f"exclusive twice: {what}")
            same(b.error("lock", kind, "f", SH | NB), "EAGAIN", f"shared, too: {what}")
            a.call("lock", kind, "f", SH)
            same(b.error("lock", kind, "f", EX | NB), "EAGAIN", f"exclusive, too: {what}")
            same(b.error("lock", kind, "f", SH | NB), 0, f"shared twice: {what}")
            b.call("lock", kind, "f", UN)
            a.call("lock", kind, "f", UN)
            same(b.error("lock", kind, "f", EX | NB), 0, f"after unlocking: {what}")
            a.end(), b.end()


def test_ranges_exclude_where_they_overlap(box):
    mount, session = box.session()
    for path in files(session):
        a, b = clients(2, path)
        a.call("lock", "process", "f", EX, 10, 10)
        a.call("lock", "process", "f", SH, 100)
        same(b.error("lock", "process", "f", EX | NB, 0, 10), 0, "before")
        same(b.error("lock", "file", "f", EX | NB, 19, 1), "EAGAIN", "its end")
        same(b.error("lock", "file", "f", EX | NB, 20, 80), 0, "behind")
        same(b.error("lock", "file", "f", SH | NB, 1 << 60, 1), 0, "shared")
        same(b.error("lock", "process", "f", EX | NB, (1 << 63) - 1), "EAGAIN", "the last byte")
        same(b.call("test", "process", "f", EX, 5, 10), [fcntl.F_WRLCK, 10, 10, a.pid], "F_GETLK")
        same(b.call("test", "file", "f", EX, 100, 10)[:3], [fcntl.F_RDLCK, 100, 0], "to the end")
        same(b.call("test", "process", "f", SH, 100, 10), None, "what may be shared")
        a.call("lock", "process", "f", UN, 12, 3)
        same(b.call("test", "process", "f", EX, 12, 9), [fcntl.F_WRLCK, 15, 5, a.pid], "the rest")
        a.end(), b.end()


OPENS = {"both": os.O_RDWR, "reader": os.O_RDONLY, "writer": os.O_WRONLY}


def random_command(rng):
    """A command that needs not wait, and whether its value can be compared."""
    name, kind = rng.choice(list(OPENS)), rng.choice(KINDS)
    dice = rng.random()
    if dice < 0.12:
        return ["close", name], True
    if dice < 0.125:
        return ["fork"], True
    operation = rng.choice((SH, EX, UN))
    if kind == "whole":
        return ["lock", kind, name, operation | NB], True
    place = [rng.randrange(12), rng.randrange(5)]
    if dice < 0.4:
        return ["test", kind, name, rng.choice((SH, EX))] + place, False
    return ["lock", kind, name, operation | NB] + place, True


def answer(client, command, comparable):
    client.start(*command)
    error, value = client.result()
    return [error, value if comparable else value is None]


def test_random_locks_are_those_of_a_local_file(box):
    mount, session = box.session()
    local = box.new_folder()
    seed = int(os.environ.get("SESSFS_TEST_SEED", "20240611"), 0)
    rng = random.Random(seed)
    box.note(f"SESSFS_TEST_SEED={seed}")
    paths = [os.path.join(folder, "doc.json") for folder in (session, local)]
    for path in paths:
        write(path, CONTENT)
        # From the first lock on, each close of a reader is told.
        tool("flock", path, "true")
    teams = [[Client() for _ in range(3)] for _ in paths]
    for team, path in zip(teams, paths):
        for client in team:
            for name, flags in OPENS.items():
                client.call("open", name, path, flags)
    refused = 0
    for step in range(600):
        who = rng.randrange(3)
        command, comparable = random_command(rng)
        ours, theirs = (answer(team[who], command, comparable) for team in teams)
        if command[0] == "test" and ours != theirs:
            # A lock may be told of that has just gone with its file.
            ask = lambda: answer(teams[0][who], command, comparable)
            eventually(lambda: ask() == theirs, f"step {step}: {ours} becomes {theirs}")
            ours = theirs
        same(ours, theirs, f"step {step}, process {who}: {command}")
        for team, path in zip(teams, paths):
            if command[0] == "close":
                team[who].call("open", command[1], path, OPENS[command[1]])
        refused += theirs[0] == errno.EAGAIN
    assert refused > 60, f"only {refused} were refused"
    for client in teams[0] + teams[1]:
        client.end()


def test_directories_can_be_locked(box):
    mount, session = box.session()
    a, b = clients(2, session, os.O_RDONLY)
    a.call("lock", "whole", "f", EX)
    same(b.error("lock", "whole", "f", EX | NB), "EAGAIN", "a directory that is locked")
    a.end()
    b.call("lock", "whole", "f", EX)
    b.call("lock", "process", "f", SH)
    b.end()


def test_locks_work_on_a_mount_that_is_read_only(box):
    mount, session = box.session()
    for path in files(session):
        pass
    mount.remount(["ro"])
    for name in NAMES:
        a, b = clients(2, os.path.join(session, name), os.O_RDONLY)
        a.call("lock", "whole", "f", EX)
        same(b.error("lock", "whole", "f", SH | NB), "EAGAIN", name)
        same(b.error("lock", "process", "f", SH | NB), 0, name)
        same(b.error("lock", "process", "f", EX | NB), "EBADF", name)
        a.end(), b.end()


def test_a_lock_through_a_reader_excludes_one_through_a_writer(box):
    mount, session = box.session()
    for path in files(session):
        for kind in KINDS:
            reader, writer = clients(1, path, os.O_RDONLY) + clients(1, path, os.O_WRONLY)
            reader.call("lock", kind, "f", SH)
            same(writer.error("lock", kind, "f", EX | NB), "EAGAIN", kind)
            writer.starts_to_wait("lock", kind, "f", EX)
            reader.call("lock", kind, "f", UN)
            same(writer.result(), [0, None], f"{kind} after the reader has unlocked")
            same(reader.error("lock", kind, "f", SH | NB), "EAGAIN", kind)
            reader.end(), writer.end()


# Waiting


def release_by_unlock(client, kind):
    client.call("lock", kind, "f", UN)
    client.end()


def release_by_close(client, kind):
    client.call("close", "f")
    client.end()


def release_by_exit(client, kind):
    client.end()


def release_by_kill(client, kind):
    client.kill()


RELEASES = (release_by_unlock, release_by_close, release_by_exit, release_by_kill)


def test_who_waits_is_granted_the_lock_when_it_is_given_up(box):
    mount, session = box.session()
    for path in files(session):
        for kind in KINDS:
            for release in RELEASES:
                what = f"{kind}, {os.path.basename(path)}, {release.__name__}"
                a, b, c = clients(3, path)
                a.call("lock", kind, "f", EX)
                b.starts_to_wait("lock", kind, "f", SH)
                c.starts_to_wait("lock", kind, "f", SH)
                release(a, kind)
                same(b.result(), [0, None], f"the first: {what}")
                same(c.result(), [0, None], f"the second: {what}")
                b.end(), c.end()


def test_a_signal_ends_waiting(box):
    mount, session = box.session()
    for path in files(session):
        for kind in KINDS:
            a, b, c = clients(3, path)
            a.call("lock", kind, "f", EX)
            b.starts_to_wait("lock", kind, "f", EX)
            os.kill(b.pid, signal.SIGUSR1)
            same(b.result()[0], "interrupted", f"{kind} of {os.path.basename(path)}")
            a.call("lock", kind, "f", UN)
            same(c.error("lock", kind, "f", EX | NB), 0, "the lock that nobody waits for any more")
            a.end(), b.end(), c.end()


def test_processes_that_wait_for_each_other_are_told(box):
    mount, session = box.session()
    for path in files(session):
        a, b = clients(2, path)
        a.call("lock", "process", "f", EX, 0, 1)
        b.call("lock", "process", "f", EX, 1, 1)
        a.starts_to_wait("lock", "process", "f", EX, 1, 1)
        b.start("lock", "process", "f", EX, 0, 1)
        # The one that comes second, whichever that is.
        ready = select.select([a.results, b.results], [], [])[0]
        told, other = (a, b) if a.results in ready else (b, a)
        same(told.result()[0], errno.EDEADLK, "who closes the circle")
        told.end()
        same(other.result(), [0, None], "the other one")
        other.end()


# What a lock belongs to


def test_a_lock_of_an_open_file_lives_as_long_as_its_last_descriptor(box):
    mount, session = box.session()
    for path in files(session):
        for kind in ("whole", "file"):
            a, b = clients(2, path)
            a.call("dup", "f", "g")
            a.call("open", "h", path, os.O_RDWR)
            a.call("lock", kind, "f", EX)
            same(a.error("lock", kind, "g", EX | NB), 0, f"{kind} by a duplicate")
            same(a.error("lock", kind, "h", EX | NB), "EAGAIN", f"{kind} by another open")
            same(a.call("fork", kind, "f", EX | NB), 0, f"{kind} by a child")
            same(a.call("fork"), 0, "a child that exits")
            a.call("close", "h")
            a.call("close", "f")
            same(b.error("lock", kind, "f", EX | NB), "EAGAIN", f"{kind} with a duplicate left")
            a.call("close", "g")
            same(b.error("lock", kind, "f", EX | NB), 0, f"{kind} without")
            a.end(), b.end()


def test_a_lock_of_a_process_ends_when_that_closes_any_descriptor(box):
    mount, session = box.session()
    for path in files(session):
        a, b = clients(2, path)
        a.call("open", "h", path, os.O_RDONLY)
        a.call("lock", "process", "f", EX)
        same(a.error("lock", "process", "h", SH | NB), 0, "by another open of the process")
        a.call("lock", "process", "f", EX)
        same(a.call("fork", "process", "f", EX | NB), errno.EAGAIN, "by a child")
        same(a.call("fork", "process", "f", UN), 0, "a child that unlocks")
        same(b.error("lock", "process", "f", SH | NB), "EAGAIN", "after the child")
        a.call("dup", "f", "g")
        a.call("close", "g")
        same(b.error("lock", "process", "f", EX | NB), 0, "after closing a duplicate")
        b.call("lock", "process", "f", UN)
        a.call("lock", "process", "f", EX)
        a.call("open", "i", path, os.O_RDONLY)
        a.call("close", "i")
        same(b.error("lock", "process", "f", EX | NB), 0, "after closing another open")
        a.end(), b.end()


def test_shared_and_exclusive_locks_become_each_other(box):
    mount, session = box.session()
    for path in files(session):
        for kind in KINDS:
            a, b, c = clients(3, path)
            a.call("lock", kind, "f", SH)
            b.call("lock", kind, "f", SH)
            a.starts_to_wait("lock", kind, "f", EX)
            b.call("lock", kind, "f", UN)
            same(a.result(), [0, None], f"{kind}: alone")
            same(b.error("lock", kind, "f", SH | NB), "EAGAIN", kind)
            b.starts_to_wait("lock", kind, "f", SH)
            a.call("lock", kind, "f", SH)
            same(b.result(), [0, None], f"{kind}: shared again")
            a.end(), b.end(), c.end()


def lock_and_close(path, flags):
    fd = os.open(path, flags)
    try:
        fcntl.flock(fd, EX | NB)
    finally:
        os.close(fd)


def test_what_was_locked_can_be_locked_as_soon_as_it_is_closed(box):
    # The kernel tells of the end of an open file only after close(2) has returned; several at once
    # make it likely that the next request overtakes that.
    mount, session = box.session()
    children = []
    for number in range(8):
        path = os.path.join(session, f"{number}{NAMES[number % 3]}")
        write(path, CONTENT)
        child = os.fork()
        if child == 0:
            flags = (os.O_RDWR, os.O_RDONLY)[number // 4]
            os._exit(any(errno_of(lock_and_close, path, flags) for _ in range(700)))
        children.append(child)
    statuses = [os.waitpid(child, 0)[1] for child in children]
    same(statuses, [0] * 8, "processes that lock, close, open and lock again")


def test_the_command_flock_runs_one_at_a_time(box):
    need_tool("flock")
    mount, session = box.session()
    for path in files(session):
        (a,) = clients(1, path)
        a.call("lock", "whole", "f", EX)
        same(tool("flock", "-n", path, "true", check=False).returncode, 1, "while it is held")
        a.end()
        tool("flock", "-n", path, "true")
    script = 'n=$(cat "$1"); echo $((n + 1)) >"$1"'
    path = os.path.join(session, "plain.txt")
    write(path, b"0\n")
    loop = 'for i in 1 2 3 4 5 6 7 8 9 10; do flock "$0.lock" sh -c "$1" sh "$0"; done'
    running = [subprocess.Popen(["sh", "-c", loop, path, script]) for _ in range(4)]
    same([process.wait() for process in running], [0] * 4, "the commands")
    same(read(path), b"40\n", "the sum")


# What a lock protects


def count_up(path, lock, count):
    """Lock, read, change, write back, with a descriptor that stays open."""
    fd = os.open(path, os.O_RDWR)
    for _ in range(count):
        lock(fd, EX)
        value = json.loads(os.pread(fd, 1000, 0))
        value["count"] += 1
        os.lseek(fd, 0, os.SEEK_SET)
        os.ftruncate(fd, 0)
        put(fd, json.dumps(value).encode() + b"\n")
        lock(fd, UN)
    os.close(fd)


def count_together(box, options=()):
    mount, session = box.session(options=options)
    for path in files(session):
        for number, lock in enumerate((fcntl.flock, fcntl.lockf)):
            children = []
            for _ in range(4):
                child = os.fork()
                if child == 0:
                    os._exit(errno_of(count_up, path, lock, 50))
                children.append(child)
            statuses = [os.waitpid(child, 0)[1] for child in children]
            same(statuses, [0] * 4, f"processes that count in {os.path.basename(path)}")
            expected = {"count": 200 * (number + 1)}
            same(json.loads(read(path)), expected, os.path.basename(path))
    for key in ("doc", "list"):
        same([json.loads(row) for row in mount.rows("s", key)], [{"count": 400}], f"rows of {key}")


def test_lock_read_change_write_back_and_unlock_loses_no_update(box):
    count_together(box)


def test_a_single_thread_of_the_daemon_loses_no_update_either(box):
    count_together(box, ["threads=1"])


def test_unlocking_publishes_what_is_whole(box):
    mount, session = box.session()
    path = os.path.join(session, "doc.json")
    write(path, b'{"v": 1}')
    for number, kind in enumerate(KINDS):
        a, b = clients(2, path)
        before, now = '{"v": %d}' % (number + 1), '{"v": %d}' % (number + 2)
        a.call("lock", kind, "f", EX)
        a.call("write", "f", '{"v": ')
        a.call("lock", kind, "f", UN)
        same(b.call("read", "f", 100, 0), before, f"{kind}: a half document")
        a.call("lock", kind, "f", EX)
        a.call("write", "f", now)
        a.call("lock", kind, "f", SH)
        same(b.call("read", "f", 100, 0), now, f"{kind}: exclusive to shared")
        same(mount.rows("s", "doc"), [now.encode()], f"{kind}: the row")
        a.end(), b.end()


def test_unlocking_a_list_publishes_whole_lines(box):
    mount, session = box.session(options=["strict"])
    path = os.path.join(session, "list.jsonl")
    write(path, b"1\n")
    a, b = clients(2, path)
    for text, expected in (("2\n{", "1\n"), ("3\noops\n4\n", "1\n"), ("5\n\n6", "5\n\n6")):
        a.call("lock", "whole", "f", EX)
        a.call("write", "f", text)
        a.call("lock", "whole", "f", UN)
        same(b.call("read", "f", 100, 0), expected, f"after {text!r}")
    a.end(), b.end()


def test_unlocking_what_is_not_locked_publishes_nothing(box):
    mount, session = box.session()
    path = os.path.join(session, "doc.json")
    write(path, b"1")
    a, b = clients(2, path)
    a.call("write", "f", "2")
    a.call("lock", "whole", "f", UN)
    a.call("lock", "process", "f", UN)
    same(b.call("read", "f", 100, 0), "1", "what others see")
    a.call("close", "f")
    same(b.call("read", "f", 100, 0), "2", "after closing")
    a.end(), b.end()


def test_who_gets_a_lock_reads_what_is_newest_anywhere(box):
    mount, session = box.session()
    for name in NAMES:
        path = os.path.join(session, name)
        for flags in (os.O_RDONLY, os.O_RDWR):
            write(path, b'"aaaaaaaa"\n')
            (a,) = clients(1, path, flags)
            same(a.call("read", "f", 3, 0), '"aa', "before")
            write(path, b'"bbbbbbbb"\n')
            a.call("lock", "whole", "f", SH)
            same(a.call("read", "f", 3, 4), "bbb", f"the middle of {name}")
            a.end()


def read_after_write(box, options=()):
    mount, session = box.session(options=options)
    for path in files(session):
        (a,) = clients(1, path, os.O_RDONLY)
        (b,) = clients(1, path)
        for turn in range(100):
            text = '"%04d"\n' % turn
            b.call("lock", "whole", "f", EX)
            b.call("write", "f", text)
            # Now the kernel has pages of what was before.
            a.call("read", "f", 100, 0)
            a.start("lock", "whole", "f", SH)
            b.call("lock", "whole", "f", UN)
            same(a.result(), [0, None], "a shared lock")
            same(a.call("read", "f", 100, 0), text, f"turn {turn} of {os.path.basename(path)}")
            a.call("lock", "whole", "f", UN)
        a.end(), b.end()


def test_who_gets_a_lock_reads_what_was_written_under_the_last_one(box):
    read_after_write(box)


def test_who_gets_a_lock_of_a_single_thread_reads_that_as_well(box):
    read_after_write(box, ["threads=1"])


def test_who_gets_a_lock_changes_what_is_newest(box):
    mount, session = box.session()
    path = os.path.join(session, "doc.json")
    write(path, b'"----"')
    a, b = clients(2, path)
    for turn, (client, place) in enumerate(((a, 1), (b, 2), (a, 3), (b, 4))):
        client.call("lock", "whole", "f", EX)
        client.call("patch", "f", "abcd"[turn], place)
        client.call("lock", "whole", "f", UN)
    same(read(path), b'"abcd"', "a letter of each turn")
    a.end(), b.end()


# The end of a mount


def test_a_mount_is_busy_while_a_process_waits(box):
    mount, session = box.session()
    path = os.path.join(session, "doc.json")
    write(path, CONTENT)
    for kind in KINDS:
        a, b = clients(2, path)
        a.call("lock", kind, "f", EX)
        b.starts_to_wait("lock", kind, "f", EX)
        done = tool(box.program, "umount", mount.path, check=False)
        assert done.returncode != 0, f"{kind}: unmounted while somebody waits"
        assert b"busy" in done.stdout + done.stderr, done.stderr
        b.kill()
        done = tool(box.program, "umount", mount.path, check=False)
        assert done.returncode != 0, f"{kind}: unmounted while somebody holds a lock"
        a.kill()
    mount.unmount()


def test_the_end_of_the_daemon_ends_waiting(box):
    mount, session = box.session()
    path = os.path.join(session, "doc.json")
    write(path, CONTENT)
    a, b = clients(2, path)
    a.call("lock", "whole", "f", EX)
    b.starts_to_wait("lock", "whole", "f", EX)
    os.kill(mount.pid, signal.SIGTERM)
    error = b.result()[0]
    assert error in (errno.ENOTCONN, errno.ECONNABORTED), f"told {error}"
    a.end(), b.end()
    same(mount.wait_for_end(), 0, "exit status")


if __name__ == "__main__":
    harness.main(globals())
