# SPDX-License-Identifier: MIT
"""Runs tests against a real mount.

A test is a function test_a_sentence(box) in a module that ends with harness.main(globals()).  Each
one runs in a process of its own; box makes mounts and temporary folders, and whatever the test
leaves behind (mounts, daemons, other processes) is a failure and is cleaned up, also when the test
hangs or is killed.

A test waits for what is to happen, however long a busy machine takes: there is one limit, for a
test that hangs.

Environment:
  SESSFS           the program; otherwise sessfs here, or build/sessfs below the top folder
  SESSFS_SOAK      1: the cases marked @soak run as well, and rounds() gives the full numbers
  SESSFS_HANG      seconds after which a test hangs; default 600, and 3600 in a soak
  TMPDIR           where temporary folders are made
"""

import argparse
import contextlib
import ctypes
import json
import os
import re
import shutil
import signal
import sqlite3
import stat
import statistics
import subprocess
import sys
import tempfile
import time
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(os.path.dirname(HERE))
TABLE = "agentscope_sessions"
INSERT = f"INSERT INTO {TABLE} (session_id, state_key, item_index, state_data) VALUES (?, ?, ?, ?)"
HANG = 600  # seconds, which no load reaches: what takes as long hangs
SOAK_HANG = 3600
ENDING = min(60, float(os.environ.get("SESSFS_HANG", 60)))  # seconds, for what ends by itself
SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER

SANITIZER_REPORT = re.compile(
    r"(ERROR|WARNING): \w*Sanitizer|runtime error:|SUMMARY: \w*Sanitizer"
    r"|ERROR SUMMARY: [1-9]|definitely lost: [1-9]"
)


SOAK = os.environ.get("SESSFS_SOAK") == "1"


def rounds(name, quick, full):
    """How often a case repeats: the variable's value, else full in a soak, else quick."""
    return type(full)(os.environ.get(name) or (full if SOAK else quick))


def soak(function):
    """Marks a case that runs in a soak only (make soak-daily), or when -k names it."""
    function.soak = True
    return function


def is_sanitized(binary):
    with open(binary, "rb") as file:
        data = file.read()
    return b"__asan_init" in data or b"__tsan_init" in data


class Skip(Exception):
    """The machine lacks what the test needs."""


def hang(function):
    """Seconds after which a test is taken for one that hangs."""
    named = os.environ.get("SESSFS_HANG")
    return int(named or (SOAK_HANG if SOAK or getattr(function, "soak", False) else HANG))


def program():
    named = os.environ.get("SESSFS")
    candidates = [named] if named else ["sessfs", os.path.join(TOP, "build", "sessfs")]
    for candidate in candidates:
        if os.access(candidate, os.X_OK):
            return os.path.abspath(candidate)
    return None


def library():
    """The version of libfuse that the program was built with."""
    said = subprocess.run([program(), "--version"], capture_output=True, check=True)
    found = re.search(rb"^libfuse \S+, built with (\d+)\.(\d+)", said.stdout, re.MULTILINE)
    assert found, f"--version does not name libfuse: {said.stdout}"
    return int(found[1]), int(found[2])


def need_tool(name):
    if not shutil.which(name):
        raise Skip(f"{name} is not installed")


def need_namespace():
    """A test makes mounts of its own that nobody else sees, for which / must be a mount."""
    need_tool("unshare")
    if "/" not in mounts_below(""):
        raise Skip("the root directory is no mount, so no namespace can keep mounts apart")


def need_root():
    if os.geteuid() != 0:
        raise Skip("needs root")


def complaints(done):
    """What a mount has said; where it logs is no complaint."""
    lines = done.stderr.splitlines(keepends=True)
    return b"".join(line for line in lines if b": there is no system log here" not in line)


# Mounts of the system


def mounts_below(folder):
    """Mount points at or below a folder (without symlinks in its path), innermost first.

    Only the table is read: whatever looks at the folder itself may hang with its daemon."""
    found = []
    with open("/proc/self/mountinfo", "rb") as table:
        for line in table:
            point = line.split()[4]
            point = re.sub(rb"\\([0-7]{3})", lambda m: bytes([int(m[1], 8)]), point)
            point = os.fsdecode(point)
            if point == folder or point.startswith(folder + "/"):
                found.append(point)
    return sorted(found, reverse=True)


def detach(point):
    """Gets rid of a mount whatever its state."""
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "timeout": HANG}
    for command in ("fusermount3 -u", "fusermount3 -uz", "umount -l"):
        subprocess.run(command.split() + [point], **quiet)
        if point in mounts_below(point):
            # Who waits for an answer that never comes could not be killed, and keeps the daemon.
            ctypes.CDLL(None).umount2(os.fsencode(point), 1)  # MNT_FORCE
        if point not in mounts_below(point):
            return True
    return False


def alive(pid):
    """Whether any thread of it is: what the process has open is closed by the last."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as status:
            ended = status.read().rsplit(b")", 1)[1].split()[0] in (b"Z", b"X")
        return not ended or len(os.listdir(f"/proc/{pid}/task")) > 1
    except (FileNotFoundError, ProcessLookupError):
        return False


def processor_time(pid):
    """Seconds of a processor that a process has used."""
    with open(f"/proc/{pid}/stat", "rb") as file:
        fields = file.read().rsplit(b")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def comm(pid):
    with open(f"/proc/{pid}/comm") as name:
        return name.read().strip()


def processes_of(binary, argument):
    """Processes of a program that were started with this argument, without their aides."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError):
                with open(f"/proc/{name}/cmdline", "rb") as line:
                    fits = os.fsencode(argument) in line.read().split(b"\0")
                fits = fits and comm(name) != "sessfs-aide"
                if fits and os.path.samefile(f"/proc/{name}/exe", binary):
                    found.append(int(name))
    return found


def children(pid):
    found = []
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children") as line:
                found += map(int, line.read().split())
    return found


def below(pids):
    """The processes and all that are below them."""
    found = list(pids)
    for pid in found:
        found += children(pid)
    return found


class Household:
    """The processes that tests have started.  Whatever loses its parent, as daemons do, becomes a
    child of the process that runs the tests; those that it has started itself are not counted."""

    def __init__(self):
        self.runner = os.getpid()
        self.own = set(children(self.runner))
        ctypes.CDLL(None).prctl(SUBREAPER, 1, 0, 0, 0)

    def children(self):
        return [pid for pid in children(self.runner) if pid not in self.own]

    def members(self):
        return below(self.children())

    def reap(self):
        """Children that have ended, and their statuses."""
        found = {}
        for pid in self.children():
            with contextlib.suppress(ChildProcessError):
                ended, status = os.waitpid(pid, os.WNOHANG)
                if ended:
                    found[pid] = status
        return found

    def is_empty(self):
        self.reap()
        return not self.children()

    def end(self):
        """Ends all; false when one does not end."""

        def ended():
            kill(self.members())
            return self.is_empty()

        return holds_soon(ended)


def kill(pids):
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def named(pids):
    """The names of processes, for a message."""
    found = set()
    for pid in pids:
        with contextlib.suppress(OSError):
            found.add(comm(pid))
    return ", ".join(sorted(found))


# Files


def read(path):
    with open(path, "rb", buffering=0) as file:
        return file.readall()


def put(fd, data):
    """Writes all of it; a short write is continued as real writers do."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def write(path, data):
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    try:
        put(fd, data)
    finally:
        os.close(fd)


def append(path, data):
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        put(fd, data)
    finally:
        os.close(fd)


def kind_of(mode):
    for test, name in (
        (stat.S_ISREG, "file"),
        (stat.S_ISDIR, "directory"),
        (stat.S_ISLNK, "symlink"),
        (stat.S_ISFIFO, "fifo"),
        (stat.S_ISSOCK, "socket"),
    ):
        if test(mode):
            return name
    return "special"


def tree(root, times=False):
    """What a tree holds: path -> what lstat and read say, to be compared with another tree."""
    found = {}
    root = os.fsencode(root)

    def look(path):
        status = os.lstat(path)
        kind = kind_of(status.st_mode)
        entry = {"type": kind, "mode": oct(stat.S_IMODE(status.st_mode))}
        entry["owner"] = (status.st_uid, status.st_gid)
        if kind in ("file", "symlink"):
            entry["size"] = status.st_size
        if kind == "file":
            entry["bytes"] = read(path)
            entry["links"] = status.st_nlink
        if kind == "symlink":
            entry["target"] = os.readlink(path)
        if times:
            entry["mtime"] = status.st_mtime_ns
        found[path[len(root) + 1 :].decode("utf-8", "surrogateescape")] = entry
        if kind == "directory":
            for name in os.listdir(path):
                look(os.path.join(path, name))

    look(root)
    return found


def shorten(value, room=160):
    text = repr(value)
    return text if len(text) <= room else text[: room // 2] + " … " + text[-room // 2 :]


def same_trees(expected, seen, hint=""):
    """Fails with the first differences between two results of tree()."""
    wrong = []
    for path in sorted(expected.keys() | seen.keys()):
        if path not in seen:
            wrong.append(f"{path!r} is missing")
        elif path not in expected:
            wrong.append(f"{path!r} is too many")
        else:
            for field in expected[path].keys() | seen[path].keys():
                want, got = expected[path].get(field), seen[path].get(field)
                if want != got:
                    wrong.append(f"{path!r} {field}: expected {shorten(want)}, got {shorten(got)}")
    if wrong:
        more = f" (and {len(wrong) - 4} more)" if len(wrong) > 4 else ""
        raise AssertionError(hint + "; ".join(wrong[:4]) + more)


def same(seen, expected, what):
    if seen != expected:
        raise AssertionError(f"{what}: expected {shorten(expected)}, got {shorten(seen)}")


def same_lists(expected, seen, what):
    """Fails with the first difference between two lists of (label, value)."""
    for place, (want, got) in enumerate(zip(expected, seen)):
        same(got, want, f"{what}: step {place}")
    same(len(seen), len(expected), f"{what}: number of steps")


def errno_of(function, *arguments, **named):
    """0, or the number of the error that the call raised."""
    try:
        function(*arguments, **named)
    except OSError as error:
        return error.errno
    return 0


def steps(seconds):
    """Pauses between looks at something, longer and longer; the seconds since the first look."""
    start = time.monotonic()
    waited = 0
    while waited < seconds:
        yield waited
        time.sleep(min(0.02, 0.002 + waited / 16))
        waited = time.monotonic() - start


def eventually(condition, what):
    """Waits till the condition holds; returns the seconds that it took."""
    waited = 0
    with contextlib.suppress(TimeoutError):
        # Before the case itself hangs, so that it can say what it has seen.
        for waited in steps((SOAK_HANG if SOAK else HANG) * 3 / 4):
            if condition():
                return waited
    raise AssertionError(f"not within {waited:.0f} s: {what}")


def holds_soon(condition):
    """Whether the condition holds, now or when what ends has come to its end."""
    return any(condition() for _ in steps(ENDING))


def tool(*command, check=True, stdin=b"", **named):
    """Runs a program to its end; returns the finished process with its output as bytes."""
    done = subprocess.run(
        command,
        input=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "LC_ALL": "C.UTF-8", **named.pop("env", {})},
        **named,
    )
    if check and done.returncode != 0:
        output = (done.stdout + done.stderr).decode("utf-8", "replace").strip()
        line = " ".join(map(str, command))
        raise AssertionError(f"{line} ended with {done.returncode}: {output}")
    return done


def shell(script, *arguments, **named):
    return tool("sh", "-c", script, "sh", *arguments, **named)


# JSON, by the letter of RFC 8259


def refuse(constant):
    raise ValueError(f"{constant} is not JSON")


def is_json(data):
    try:
        text = data.decode("utf-8", "strict")
        json.loads(text, parse_constant=refuse, parse_int=str, parse_float=str)
    except (ValueError, RecursionError):
        return False
    return True


def split_lines(data):
    """Lines without their newline; the last one counts when it is not empty."""
    lines = data.split(b"\n")
    return lines if lines[-1] else lines[:-1]


def valid_lines(data):
    return [line for line in split_lines(data) if is_json(line)]


# Mounts of ours


class Mount:
    """A store, mounted.  In the foreground (as a child) unless background is set."""

    def __init__(self, box, store, path, options=(), background=False, wrap=(), binary=None):
        self.box = box
        self.store = store
        self.path = path
        self.options = list(options)
        self.background = background
        self.wrap = list(wrap)
        self.binary = binary or box.program
        self.process = None
        self.pid = None
        self.output = b""

    def at(self, *names):
        return os.path.join(self.path, *names)

    def command(self):
        command = self.wrap + [self.binary, "mount"]
        if not self.background:
            command.append("-f")
        for option in self.options:
            command += ["-o", option]
        return command + [self.store, self.path]

    def environment(self):
        names = {"ASAN_OPTIONS": "", "UBSAN_OPTIONS": "print_stacktrace=1", "TSAN_OPTIONS": ""}
        report = os.path.join(self.box.folder, "sanitizer") if self.background else "stderr"
        result = dict(os.environ)
        for name, extra in names.items():
            parts = [os.environ.get(name, ""), extra, "exitcode=99", f"log_path={report}"]
            result[name] = ":".join(part for part in parts if part)
        return result

    def start(self):
        if not mounts_below(self.path):  # there may be one whose daemon was killed
            os.makedirs(self.path, exist_ok=True)
        if self.background:
            done = subprocess.run(
                self.command(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=self.environment(),
            )
            if done.returncode != 0:
                raise AssertionError(f"mount ended with {done.returncode}: {shorten(done.stderr)}")
            # The aide may not have got its name yet.
            eventually(lambda: len(processes_of(self.binary, self.path)) == 1, "one daemon")
            self.pid = processes_of(self.binary, self.path)[0]
        else:
            self.log_file = open(self.box.new_path("log"), "w+b")
            self.process = subprocess.Popen(
                self.command(),
                stdin=subprocess.DEVNULL,
                stdout=self.log_file,
                stderr=self.log_file,
                env=self.environment(),
                start_new_session=True,
            )
            self.pid = self.process.pid
            self.wait_until_it_answers()
        return self

    def wait_until_it_answers(self):
        def answers():
            if self.process.poll() is not None:
                status = self.process.returncode
                raise AssertionError(f"mount ended with {status}: {self.log()}")
            return "is mounted on" in self.log() and not errno_of(os.statvfs, self.path)

        eventually(answers, "it is mounted")

    def log(self):
        """What the daemon has said so far (in the foreground only)."""
        if self.process is None and not self.output:
            return ""
        if self.process is not None:
            # pread: the descriptor's offset is shared with the daemon.
            size = os.fstat(self.log_file.fileno()).st_size
            self.output = os.pread(self.log_file.fileno(), size, 0)
        return self.output.decode("utf-8", "replace")

    def stop(self):
        """Unmounts, and fails when the daemon did not end well."""
        if self.pid is None:
            return
        # libfuse keeps an interrupt that came behind the answer until the next request comes, and
        # does not free it at the end.
        with contextlib.suppress(OSError):
            os.statvfs(self.path)
        try:
            self.unmount()
            status = self.wait_for_end()
        finally:
            text = self.forget()
        report = SANITIZER_REPORT.search(text)
        if report:
            raise AssertionError(f"the daemon reports: {text[report.start() :][:3000]}")
        if status not in (0, None):
            raise AssertionError(f"the daemon ended with {status}: {text[-2000:]}")

    def unmount(self):
        def unmounted():
            return not mounts_below(self.path) or tool(
                "fusermount3", "-u", self.path, check=False).returncode == 0

        eventually(unmounted, f"it can be unmounted ({os.path.basename(self.path)})")

    def wait_for_end(self, seconds=None):
        """The daemon's exit status; None when it is not our child."""
        if self.process is not None:
            return self.process.wait()
        eventually(lambda: not alive(self.pid), "the daemon ends after unmounting")
        return None

    def forget(self):
        text = self.log()
        if self.process is not None:
            self.log_file.close()
        self.process = self.pid = None
        return text

    def kill9(self):
        """Kills the daemon, and clears away the dead mount."""
        self.kill_only()
        while mounts_below(self.path):
            if not detach(self.path):
                raise AssertionError("cannot detach the dead mount")

    def kill_only(self):
        os.kill(self.pid, signal.SIGKILL)
        self.wait_for_end()
        self.forget()

    def remount(self, options=None):
        self.stop()
        if options is not None:
            self.options = list(options)
        return self.start()

    # SQL, as any other client of the store would use it

    def connect(self):
        base = sqlite3.connect(self.store, timeout=HANG, isolation_level=None)
        base.text_factory = bytes
        return base

    def sql(self, query, parameters=()):
        with contextlib.closing(self.connect()) as base:
            return base.execute(query, parameters).fetchall()

    def rows(self, session, key):
        """The rows of a key in order, as bytes."""
        query = f"SELECT CAST(state_data AS BLOB) FROM {TABLE}"
        query += " WHERE session_id = ? AND state_key = ? ORDER BY item_index"
        return [row[0] for row in self.sql(query, (session, key))]

    def indexes(self, session, key):
        query = f"SELECT item_index FROM {TABLE} WHERE session_id = ? AND state_key = ? ORDER BY 1"
        return [row[0] for row in self.sql(query, (session, key))]

    def stamps(self, session, key):
        query = "SELECT item_index, CAST(created_at AS TEXT), CAST(updated_at AS TEXT)"
        query += f" FROM {TABLE} WHERE session_id = ? AND state_key = ? ORDER BY 1"
        return self.sql(query, (session, key))

    def insert(self, session, key, index, data):
        self.sql(INSERT, (session, key, index, data))

    def keys(self):
        return self.sql(f"SELECT DISTINCT session_id, state_key FROM {TABLE} ORDER BY 1, 2")

    def check(self):
        """sessfs check finds nothing broken; returns what it prints."""
        done = tool(self.binary, "check", self.store, check=False)
        text = (done.stdout + done.stderr).decode("utf-8", "replace")
        if done.returncode != 0:
            text = text if len(text) < 4000 else f"{text[:2000]} … {text[-2000:]}"
            raise AssertionError(f"sessfs check ended with {done.returncode}: {text}")
        if SANITIZER_REPORT.search(text):
            raise AssertionError(f"sessfs check reports: {text[-3000:]}")
        return text


class Box:
    """What one test may use."""

    def __init__(self, folder, binary, household):
        self.folder = folder
        self.program = binary
        self.household = household
        self.mounts = []
        self.notes = []
        self.times = {}
        self.count = 0

    def new_path(self, name):
        self.count += 1
        return os.path.join(self.folder, f"{name}{self.count}")

    def new_folder(self, name="folder"):
        path = self.new_path(name)
        os.mkdir(path)
        return path

    def mount(self, store=None, path=None, options=(), **named):
        """Mounts a store (a new one unless given) and waits till it answers."""
        store = store or self.new_store()
        mount = Mount(self, store, path or self.new_path("mnt"), options, **named)
        self.mounts.append(mount)
        return mount.start()

    def new_store(self):
        return self.new_path("store") + ".db"

    def session(self, name="s", **named):
        """A mount with one session; returns the mount and the path of the session."""
        mount = self.mount(**named)
        os.mkdir(mount.at(name))
        return mount, mount.at(name)

    def sessfs(self, *arguments, check=False, **named):
        """Runs a command of the program that ends by itself."""
        return tool(self.program, *arguments, check=check, **named)

    def note(self, text):
        self.notes.append(text)

    def seen(self, what, seconds):
        self.times.setdefault(what, []).append(seconds)

    def daemons(self):
        return [mount.pid for mount in self.mounts if mount.pid is not None]

    def strangers(self):
        """Processes of the test that are no daemons of its mounts, and not below those."""
        known = {os.getpid(), *below(self.daemons())}
        return [pid for pid in self.household.members() if pid not in known and alive(pid)]

    def let_go(self):
        """Ends the processes, and closes the files of the mounts, that a failed test has left."""
        kill(self.strangers())
        for fd in map(int, os.listdir("/proc/self/fd")):
            with contextlib.suppress(OSError):
                target = os.readlink(f"/proc/self/fd/{fd}")
                if any(target.startswith(mount.path + "/") for mount in self.mounts):
                    os.close(fd)

    def finish(self):
        """Ends all mounts; returns what went wrong."""
        wrong = []
        if not holds_soon(lambda: not self.strangers()):
            wrong.append(f"left processes: {named(self.strangers())}")
            kill(self.strangers())
        for mount in reversed(self.mounts):
            try:
                mount.stop()
            except Exception as error:
                wrong.append(str(error))
        for name in sorted(os.listdir(self.folder)):
            if name.startswith("sanitizer."):
                with open(os.path.join(self.folder, name), errors="replace") as report:
                    wrong.append(f"the daemon reports: {report.read(3000)}")
        for what, times in self.times.items():
            self.note(f"{what}: median {statistics.median(times) * 1000:.0f} ms of {len(times)}")
        return wrong


# The runner


def describe(error):
    """The reason of a failure, with the line of the test that it came from."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if os.path.dirname(os.path.abspath(frame.filename)) == HERE]
    frames = [frame for frame in ours if os.path.basename(frame.filename) != "harness.py"] or ours
    place = f"{os.path.basename(frames[-1].filename)}:{frames[-1].lineno}: " if frames else ""
    text = str(error) or repr(error)
    if not isinstance(error, AssertionError):
        text = f"{type(error).__name__}: {text}"
    elif not str(error) and frames:
        text = frames[-1].line
    return place + text


def too_late(number, frame):
    signal.alarm(30)  # it may be caught, and something else hang
    raise TimeoutError("the test takes too long")


def run_inside(function, box, seconds):
    """In the test's own process: the test, its unmounting, its result."""
    signal.signal(signal.SIGALRM, too_late)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    result = {"status": "ok", "reason": ""}
    try:
        signal.alarm(seconds)
        function(box)
    except Skip as skip:
        result = {"status": "skip", "reason": str(skip)}
    except BaseException as error:
        logs = "".join(mount.log() for mount in box.mounts)
        tail = f"\n  log of the daemon: {logs[-1500:].strip()}" if logs.strip() else ""
        result = {"status": "not ok", "reason": describe(error) + tail}
    signal.alarm(seconds)
    if result["status"] != "ok":
        box.let_go()
    try:
        wrong = box.finish()
    except BaseException as error:
        wrong = [describe(error)]
    if wrong:
        reasons = [result["reason"]] if result["status"] == "not ok" else []
        result = {"status": "not ok", "reason": "\n  ".join(reasons + wrong)}
    result["notes"] = box.notes
    return result


# All of these are blocked while tests run, and taken one by one: no cleaning up is cut short.
STOPS = {signal.SIGTERM, signal.SIGINT}
SIGNALS = {signal.SIGCHLD, *STOPS}


def wait_for(child, household, seconds):
    """Till the test's process has ended, at most so long; whether tests are to go on."""
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        taken = signal.sigtimedwait(SIGNALS, left)
        if taken and taken.si_signo in STOPS:
            return False
        if child in household.reap():
            break
    return True


def clean_up(folder, household, has_ended):
    """Ends what a test has left behind; returns what it was."""
    left = [f"left a mount at {os.path.basename(point)}" for point in mounts_below(folder)]
    if has_ended and not left and not holds_soon(household.is_empty):
        left.append(f"left processes: {named(household.members())}")
    kill(household.members())
    for point in mounts_below(folder):
        if not detach(point):
            left.append(f"cannot detach {point}")
    if not household.end():
        left.append(f"cannot end {named(household.members())}")
    if not mounts_below(folder):
        shutil.rmtree(folder, ignore_errors=True)
        if os.path.lexists(folder):
            left.append(f"cannot remove {folder}")
    return left


def run_test(function, binary, household):
    """The result, and whether tests are to go on."""
    seconds = hang(function)
    folder = os.path.realpath(tempfile.mkdtemp(prefix="sessfs-test-"))
    said = os.memfd_create("result")
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        os.setsid()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
        result = run_inside(function, Box(folder, binary, household), seconds)
        put(said, json.dumps(result).encode())
        os._exit(0)
    goes_on = wait_for(child, household, 2.1 * seconds)
    with open(said, "rb") as file:
        file.seek(0)
        data = file.read()
    try:
        result = json.loads(data)
    except ValueError:
        result = {"status": "not ok", "reason": "the test died or hung", "notes": []}
    left = clean_up(folder, household, bool(data))
    if left:
        result["reason"] = "; ".join(filter(None, [result["reason"], *left]))
        result["status"] = "not ok"
    return result, goes_on


def run_tests(namespace, pattern):
    binary = program()
    missing = None
    if not binary:
        missing = "the program is not built (set SESSFS)"
    elif not os.access("/dev/fuse", os.R_OK | os.W_OK):
        missing = "/dev/fuse is not usable here"
    elif not shutil.which("fusermount3"):
        missing = "fusermount3 is not installed"
    counts = {"ok": 0, "not ok": 0, "skip": 0}
    household = Household()
    goes_on = True
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    for name, function in list(namespace.items()):
        if not name.startswith("test_") or not callable(function):
            continue
        sentence = name[len("test_") :].replace("_", " ")
        if pattern and pattern not in name and pattern not in sentence:
            continue
        if getattr(function, "soak", False) and not (SOAK or pattern):
            continue
        begun = time.monotonic()
        if missing:
            result = {"status": "skip", "reason": missing, "notes": []}
        else:
            result, goes_on = run_test(function, binary, household)
        counts[result["status"]] += 1
        if result["status"] == "skip":
            print(f"ok - {sentence} # SKIP {result['reason']}")
        else:
            print(f"{result['status']} - {sentence} ({time.monotonic() - begun:.2f} s)")
        if result["status"] == "not ok":
            print("  " + result["reason"])
        for note in result["notes"]:
            print(f"  # {note}")
        sys.stdout.flush()
        if not goes_on:
            print("stopped by a signal")
            break
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
    skipped = f", {counts['skip']} skipped" if counts["skip"] else ""
    print(f"{counts['ok']} passed, {counts['not ok']} failed{skipped}")
    if counts["not ok"] or not goes_on:
        return 1
    return 77 if counts["skip"] and not counts["ok"] else 0


PRIVATE_DEVICE = """
set -e
mkdir "$1/dev"
mount -t tmpfs -o mode=755,dev tmpfs "$1/dev"
mknod -m 666 "$1/dev/fuse" c 10 229
mount --bind "$1/dev/fuse" /dev/fuse
shift
exec "$@"
"""

AS_NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--"]


def in_private_namespace(folder, command):
    """The command with mounts of its own and a /dev/fuse that every user may open."""
    need_namespace()
    inside = ["sh", "-c", PRIVATE_DEVICE, "sh", folder]
    return ["unshare", "-m", "--propagation", "private"] + inside + command


def entering(pid):
    """What runs a command in the mount namespace of a process, also below a root of its own."""
    return ["nsenter", f"--mount=/proc/{pid}/ns/mnt", f"--root=/proc/{pid}/root"]


def need_allow_other():
    """A user may let others in only where the system's administrator says so."""
    with contextlib.suppress(OSError), open("/etc/fuse.conf", encoding="utf-8") as file:
        if re.search(r"^user_allow_other\s*$", file.read(), re.MULTILINE):
            return
    need_root()


def run_as_user(arguments):
    """Starts the module again as nobody."""
    if os.geteuid() != 0:
        sys.exit("--as-user must be started by root")
    try:
        need_namespace()
    except Skip as reason:
        print(f"ok - everything # SKIP {reason}\n0 passed, 0 failed, 1 skipped")
        return 77
    folder = tempfile.mkdtemp(prefix="sessfs-user-")
    os.chmod(folder, 0o755)
    home = os.path.join(folder, "tmp")
    os.mkdir(home)
    os.chown(home, 65534, 65534)
    environment = {**os.environ, "TMPDIR": home, "HOME": home}
    if program():
        environment["SESSFS"] = program()
    python = sys.executable
    if tool(*AS_NOBODY, "test", "-x", python, check=False).returncode != 0:
        python = "/usr/bin/python3"
    command = AS_NOBODY + [python, "-B", os.path.abspath(sys.argv[0])] + arguments
    household = Household()
    try:
        inside = subprocess.Popen(in_private_namespace(folder, command), env=environment)
        for number in STOPS:
            signal.signal(number, lambda number, frame: inside.terminate())
        return inside.wait()
    finally:
        household.end()
        shutil.rmtree(folder, ignore_errors=True)


def main(namespace):
    parser = argparse.ArgumentParser()
    parser.add_argument("-k", metavar="TEXT", help="only tests whose name holds TEXT")
    parser.add_argument("--as-user", action="store_true", help="run as nobody (needs root)")
    options = parser.parse_args()
    os.umask(0o022)
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(1))
    if options.as_user:
        sys.exit(run_as_user(["-k", options.k] if options.k else []))
    sys.exit(run_tests(namespace, options.k))
