#!/usr/bin/python3 -B
# SPDX-License-Identifier: MIT
"""The verbs on a store, beside a mount or not: ls, cat, append, put, rm, sessions, stats ..."""

import contextlib
import ctypes
import hashlib
import json
import os
import pty
import re
import shutil
import signal
import sqlite3
import subprocess
import tempfile
import time

import harness
import places
from harness import (
    INSERT,
    TABLE,
    TOP,
    eventually,
    is_sanitized,
    need_namespace,
    need_root,
    need_tool,
    read,
    same,
    tool,
    write,
)
from places import Terminal

VERBS = ("ls", "cat", "append", "put", "rm", "sessions", "stats", "mounts")
VERBS += ("backup", "restore", "gc", "config")
READS = (("ls",), ("ls", "-l", "--json"), ("sessions",), ("sessions", "--json"), ("stats",))


class Place(places.Place):
    """With the verbs on it."""

    def do(self, verb, *arguments, status=0, **named):
        said = super().do(verb, *split(arguments, self.store), status=status, **named)
        if status:
            assert said.startswith("sessfs: ") and said.endswith("\n"), said
        return said

    def json(self, verb, *arguments):
        return json.loads(self.do(verb, "--json", *arguments))

    def names(self, *path):
        return sorted(entry["name"] for entry in self.json("ls", *path))

    def start(self, verb, *arguments):
        process = subprocess.Popen(
            [self.box.program, verb, self.store, *arguments],
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        return process


def split(arguments, store):
    """Options stand before the store, paths behind it; "--" comes between them."""
    if "--" in arguments:
        count = arguments.index("--") + 1
    else:
        count = sum(word.startswith("-") for word in arguments)
    return [*arguments[:count], store, *arguments[count:]]


everywhere = places.everywhere(Place)


def feed(process, data):
    process.stdin.write(data)
    process.stdin.flush()


def rows_of(place, session, key):
    return place.mount.rows(session, key)


# What takes long


@everywhere
def test_what_takes_long_shows_on_a_terminal_how_far_it_is(place):
    with place.mounted() as mount:
        os.mkdir(mount.at("s"))
        write(mount.at("s/l.jsonl"), b"1\n2\n")
    lines = os.path.join(place.box.new_folder("lines"), "lines")
    write(lines, b"1\n" * 1000)
    new = place.box.new_path
    steps = [
        (("sessions", place.store), {"sessions": rb"\d sessions?  \S+ of \S+"}),
        (("stats", place.store), {"stats": rb"\d sessions?  \S+ of \S+"}),
        (("check", place.store), {"check": rb"\d+ files?  \S+ of \S+"}),
        (("gc", place.store), {"look": rb"\d( of \d)? sessions?", "gc": rb"0 sessions?"}),
        (("backup", place.store, new("db")), {"backup": b"", "check": rb"\d+ files?  \S+ of"}),
        (("put", place.store, "s/n.jsonl", lines), {"put": rb"\d+ rows?  2\.0K of 2\.0K"}),
        (("append", place.store, "s/n.jsonl", lines), {"append": rb"2\.0K of 2\.0K"}),
        (("rm", "-r", place.store, "s"), {"rm": rb"2 files"}),
    ]
    if place.what == "alone":
        repair = ("check", "--repair", place.store, new("db"))
        steps += [(repair, {"repair": rb"\d+ records?  \S+", "check": rb"\d+ files?"})]
    for command, words in steps:
        shown = Terminal(place.box, *command).end()
        for word, line in words.items():
            line = rb"\r%s\b[^\r]*%s" % (word.encode(), line)
            assert re.search(line, shown), (place.what, command, word, shown)
        assert re.search(rb"\r *\r([^\r]*\r\n)?$", shown), ("it is not taken away", shown)


@everywhere
def test_who_types_is_not_shown_how_far_it_is(place):
    for number, verb in enumerate(("put", "append")):
        path = f"s/l{number}.jsonl"
        typed, keyboard = pty.openpty()
        terminal = Terminal(place.box, verb, place.store, path, stdin=keyboard)
        os.close(keyboard)
        os.write(typed, b"1\n\x04")
        same(terminal.end(), b"", f"{place.what}: what {verb} shows")
        os.close(typed)
        same(place.do("cat", "--", path), b"1\n", f"{place.what}: what {verb} has taken")


# Bytes in, bytes out: path, the inputs of append (or one of put), the file, its rows

LINES = [b'{"a":1}\n', b'[2]\n"three"\n']
TOO_LONG_TO_HOLD = b"x" * (5 << 20)
ROUND_TRIPS = [
    ("append", "s/l.jsonl", LINES, b'{"a":1}\n[2]\n"three"\n', [b'{"a":1}', b"[2]", b'"three"']),
    ("append", "s/l.jsonl", [b"1\n2"], b"1\n2", [b"1", b"2"]),
    ("append", "s/l.jsonl", [b"1\r\n", b"", b"oops\n", b"2\n"], b"1\r\noops\n2\n", [b"1\r", b"2"]),
    ("append", "s/a/b/l.jsonl", [b"1\n"], b"1\n", [b"1"]),
    ("append", "s/notes.txt", [b"one\n", b"two"], b"one\ntwo", []),
    ("append", "s/blob", [TOO_LONG_TO_HOLD, b"\0\xff"], TOO_LONG_TO_HOLD + b"\0\xff", []),
    ("append", "top.txt", [b""], b"", []),
    ("put", "s/k.json", [b"{}", b'{"b": 2}\n'], b'{"b": 2}\n', [b'{"b": 2}\n']),
    ("put", "s/l.jsonl", [b"1\n2\n3\n", b"1\n3\n"], b"1\n3\n", [b"1", b"3"]),
    ("put", "s/k.hash", [b"abc"], b"abc", []),
    ("put", "s//./x/notes.txt", [b"one", b""], b"", []),
    ("put", "top.txt", [b"one"], b"one", []),
]


@everywhere
def test_what_is_written_is_read_back_and_lines_are_rows(place):
    for verb, path, inputs, expected, rows in ROUND_TRIPS:
        for data in inputs:
            place.do(verb, path, stdin=data)
        same(place.do("cat", path), expected, f"{place.what}: {verb} {path}")
        session, _, file = path.partition("/")
        key = re.sub(r"\.jsonl?$", "", file)
        same(rows_of(place, session, key), rows, f"{place.what}: rows of {verb} {path}")
        if place.mount.pid:
            same(read(place.mount.at(path.rstrip("/"))), expected, "the file on the mount")
        place.do("rm", "-r", path.split("/")[0])
    same(place.names(), [], f"{place.what}: what is left")
    place.mount.check()


@everywhere
def test_a_file_is_taken_from_another_file_too(place):
    source = place.box.new_path("source")
    write(source, b"1\n")
    place.do("append", "s/l.jsonl", source)
    place.do("put", "s/k.json", source)
    same(place.do("cat", "s/l.jsonl", "s/k.json"), b"1\n1\n", place.what)


def test_a_file_is_not_appended_to_itself(box):
    place = Place(box, True)
    for path, data in (("s/l.jsonl", b"1\n" * 100000), ("s/x.txt", b"text\n")):
        place.do("put", path, stdin=data)
        itself, other = place.mount.at(path), path + ".copy"
        said = place.do("append", path, itself, status=1)
        assert f"{path}: a file cannot be appended to itself" in said, said
        place.do("append", other, itself)
        same(place.do("cat", path, other), data * 2, "both files")


@everywhere
def test_a_path_that_ends_as_a_directory_s_is_no_file(place):
    place.do("put", "s/l.jsonl", stdin=b"1\n")
    for end in ("/", "/."):
        for verb in ("put", "append"):
            assert "is a directory" in place.do(verb, f"s/new{end}", status=1), verb
            assert "Not a directory" in place.do(verb, f"s/l.jsonl{end}", status=1), verb
        for verb in ("cat", "rm", "ls"):
            assert "Not a directory" in place.do(verb, f"s/l.jsonl{end}", status=1), verb
        same(place.names(f"s{end}"), ["l.jsonl"], f"{place.what}: names")
    same(place.do("cat", "s/l.jsonl"), b"1\n", f"{place.what}: the file")


@everywhere
def test_put_leaves_rows_that_stay_the_same_and_mode_and_owner(place):
    place.do("put", "s/l.jsonl", stdin=b"1\n2\n3\n")
    before = place.mount.stamps("s", "l")
    with place.mounted() as mount:
        os.chmod(mount.at("s/l.jsonl"), 0o640)
        if os.geteuid() == 0:
            os.chown(mount.at("s/l.jsonl"), 65534, 65534)
        owner = os.stat(mount.at("s/l.jsonl")).st_uid
    time.sleep(0.01)
    place.do("put", "s/l.jsonl", stdin=b"1\n2\n4\n5\n")
    same(place.mount.stamps("s", "l")[:2], before[:2], f"{place.what}: times of equal rows")
    same(place.json("ls", "-l", "s")[0]["mode"], "0640", f"{place.what}: mode")
    same(place.names("s"), ["l.jsonl"], f"{place.what}: names")
    with place.mounted() as mount:
        same(os.stat(mount.at("s/l.jsonl")).st_uid, owner, f"{place.what}: owner")


@everywhere
def test_a_put_that_is_ended_by_a_signal_leaves_nothing(place):
    place.do("put", "s/k.json", stdin=b'{"old": 1}')
    for path in ("s/k.json", "new/deep/k.json"):
        for number in (signal.SIGINT, signal.SIGTERM):
            process, beside = begin_put(place, path, b'{"half": ')
            same(place.do("cat", "s/k.json"), b'{"old": 1}', f"{place.what}: while it is read")
            if path == "s/k.json" and beside:
                modes = [entry["mode"] for entry in place.json("ls", "-l", "s")]
                same(sorted(modes), ["0600", "0644"], f"{place.what}: modes meanwhile")
            process.send_signal(number)
            same(process.wait(), -number, f"{place.what}: the end of put")
            same(all_names(place), ["s", "s/k.json"], f"{place.what}: names after it")
            process.stdin.close()
    same(rows_of(place, "s", "k"), [b'{"old": 1}'], f"{place.what}: rows")
    place.mount.check()


@everywhere
def test_a_put_that_is_killed_leaves_nothing_to_the_next_one(place):
    place.do("put", "s/k.json", stdin=b'{"old": 1}')
    for path in ("s/k.json", "s/new.json", "s/o.txt"):
        process, _ = begin_put(place, path, b'{"half": ')
        process.kill()
        process.wait()
        process.stdin.close()
        same(place.do("cat", "s/k.json"), b'{"old": 1}', f"{place.what}: afterwards")
    others = [begin_put(place, f"s/{number}.txt", b"%d" % number)[0] for number in range(3)]
    if place.what == "mounted":
        same(len(all_names(place)), 5, f"{place.what}: what is locked stays, the rest has gone")
    place.do("put", "s/k.json", stdin=b'{"new": 1}')
    for number, process in enumerate(others):
        process.stdin.close()
        same(process.wait(), 0, f"{place.what}: the end of put")
        same(place.do("cat", f"s/{number}.txt"), b"%d" % number, f"{place.what}: what it put")
    same(place.do("cat", "s/k.json"), b'{"new": 1}', f"{place.what}: in the end")
    names = ["s", "s/0.txt", "s/1.txt", "s/2.txt", "s/k.json"]
    same(all_names(place), names, f"{place.what}: names")
    place.mount.check()


def begin_put(place, path, data):
    """One that writes, and whether the file is seen beside the one that it is to replace."""
    seen = place.what == "mounted"

    def beside():
        if not seen:
            return set(place.mount.sql("SELECT ino FROM sessfs_node WHERE nlink = 0"))
        found = set()
        for folder, _, names in os.walk(place.mount.path):
            for name in names:
                with contextlib.suppress(FileNotFoundError):  # what was left may go meanwhile
                    if name.startswith(".sessfs-put-"):
                        found.add(os.lstat(os.path.join(folder, name)).st_ino)
        return found

    before = beside()
    process = place.start("put", path)
    feed(process, data)
    eventually(lambda: beside() - before, "it writes")
    return process, seen


def states_of(pid):
    """Of its threads."""
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/stat", encoding="ascii") as file:
            yield file.read().rpartition(")")[2].split()[0]


def test_a_signal_ends_a_verb_that_waits_for_a_daemon_that_is_stopped(box):
    place = Place(box, True)
    place.do("put", "s/k.json", stdin=b"1")
    os.kill(place.mount.pid, signal.SIGSTOP)
    try:
        # A thread that still reads a request has it, and then no signal ends the one who waits.
        eventually(lambda: set(states_of(place.mount.pid)) == {"T"}, "all threads have stopped")
        for number in (signal.SIGINT, signal.SIGTERM):
            process = place.start("cat", "s/k.json")
            time.sleep(0.2)  # it waits, most likely; before that, a signal ends it at once
            process.send_signal(number)
            same(process.wait(), -number, "the end of cat")
            process.stdin.close()
    finally:
        os.kill(place.mount.pid, signal.SIGCONT)
    same(place.do("cat", "s/k.json"), b"1", "afterwards")


def all_names(place, path=""):
    names = []
    for entry in place.json("ls", path) if path else place.json("ls"):
        name = os.path.join(path, entry["name"])
        names += [name, *(all_names(place, name) if entry["type"] == "directory" else [])]
    return sorted(names)


@everywhere
def test_append_makes_rows_as_lines_come_and_a_signal_leaves_no_half_line(place):
    for rows in ([b"1", b"2"], [b"1", b"2", b"1", b"2"]):
        process = place.start("append", "s/l.jsonl")
        # The second time, more than it would hold back of a file without lines.
        feed(process, b'1\n2\n{"half":' + b" " * (len(rows) - 2) * (4 << 20))
        eventually(lambda: rows_of(place, "s", "l") == rows, "two rows")
        process.send_signal(signal.SIGINT)
        same(process.wait(), -signal.SIGINT, f"{place.what}: the end of append")
        process.stdin.close()
        same(place.do("cat", "s/l.jsonl"), b"1\n2\n" * (len(rows) // 2), f"{place.what}: the list")


def blocked_by(pid, task):
    with open(f"/proc/{pid}/task/{task}/status", encoding="ascii") as file:
        mask = next(line.split()[1] for line in file if line.startswith("SigBlk:"))
    return {number for number in signal.valid_signals() if int(mask, 16) >> (number - 1) & 1}


def test_only_the_first_thread_of_a_verb_takes_signals(box):
    """In another one a handler would interrupt nothing, and the verb would go on to wait."""
    place = Place(box, False)
    process = place.start("append", "s/l.jsonl")
    feed(process, b"1\n")
    eventually(lambda: rows_of(place, "s", "l") == [b"1"], "a row")
    numbers = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
    tasks = os.listdir(f"/proc/{process.pid}/task")
    taking = [task for task in tasks if numbers - blocked_by(process.pid, task)]
    process.stdin.close()
    same(process.wait(), 0, "the end of append")
    assert len(tasks) > 2, tasks
    same([task for task in taking if task != str(process.pid)], [], "other threads")


@everywhere
def test_many_appenders_at_once_lose_nothing(place):
    processes = [place.start("append", "s/l.jsonl") for _ in range(12)]
    for i, process in enumerate(processes):
        process.stdin.write(b"%d\n" % i)
        process.stdin.close()
    same([process.wait() for process in processes], [0] * 12, f"{place.what}: statuses")
    lines = place.do("cat", "s/l.jsonl").split()
    same(sorted(map(int, lines)), list(range(12)), f"{place.what}: lines")


@everywhere
def test_rm_removes_what_it_is_told_and_nothing_else(place):
    for path in ("s/k.json", "s/l.jsonl", "s/a/b/x.txt", "t/k.json", "top.txt"):
        place.do("put", path, stdin=b"1\n")
    for arguments, status, left in [
        (["s"], 1, ["s", "t", "top.txt"]),
        (["s/none"], 1, ["s", "t", "top.txt"]),
        (["-r", "/"], 1, ["s", "t", "top.txt"]),
        (["-r", "s/../t"], 1, ["s", "t", "top.txt"]),
        (["none", "top.txt"], 1, ["s", "t"]),
        (["s/k.json"], 0, ["s", "t"]),
        (["-r", "s"], 0, ["t"]),
        (["-r", "t", "t"], 1, []),
    ]:
        place.do("rm", *arguments, status=status)
        same(place.names(), left, f"{place.what}: after rm {arguments}")
    same(eventually_no_rows(place), [], f"{place.what}: rows")


def eventually_no_rows(place):
    with contextlib.suppress(AssertionError):
        eventually(lambda: not place.mount.keys(), "no rows")
    return place.mount.keys()


@everywhere
def test_a_directory_with_many_files_and_levels_goes(place):
    deep = "/".join(["d"] * 40)
    place.do("put", f"s/{deep}/x.json", stdin=b"1")
    with contextlib.closing(place.mount.connect()) as base:
        base.execute("BEGIN")
        base.executemany(INSERT, ((("s", f"k{i}", 0, "1")) for i in range(300)))
        base.execute("COMMIT")
    eventually(lambda: len(place.names("s")) == 301, "the rows have files")
    place.do("rm", "-r", "s")
    same(place.names(), [], place.what)


# Names

ODD_IDS = ["a/b", "..", "", "new\nline", "%2F", "50%", "ü", " ", "-l", "x" * 300]


@everywhere
def test_names_that_ls_and_sessions_print_are_paths(place):
    with contextlib.closing(place.mount.connect()) as base:
        base.executemany(INSERT, [(odd, "k", 0, json.dumps(odd)) for odd in ODD_IDS])
    listed = eventually_listed(place, len(ODD_IDS))
    same(sorted(session["id"] for session in listed), sorted(ODD_IDS), f"{place.what}: ids")
    for session in listed:
        seen = place.do("cat", "--", session["name"] + "/k.json")
        same(json.loads(seen), session["id"], f"{place.what}: {session['name']!r}")
    same(sorted(place.names()), sorted(session["name"] for session in listed), place.what)


def eventually_listed(place, count):
    eventually(lambda: len(place.names()) == count, "the sessions have names")
    return place.json("sessions")


@everywhere
def test_ls_tells_what_the_mount_does(place):
    place.do("put", "s/k.json", stdin=b"{}")
    place.do("put", "s/a/notes.txt", stdin=b"12345")
    by_name = {entry["name"]: entry for entry in place.json("ls", "-l", "s")}
    same(sorted(by_name), ["a", "k.json"], place.what)
    same([by_name[name]["type"] for name in ("a", "k.json")], ["directory", "file"], place.what)
    same(place.json("ls", "-l", "s/a/notes.txt")[0]["size"], 5, place.what)
    assert abs(by_name["k.json"]["changed"] - time.time()) < 120, by_name
    same(place.do("ls", "s"), b"k.json\na/\n", place.what)
    line = place.do("ls", "-l", "s/k.json").decode()
    shown = r"-rw-[r-]--[r-]-- +2  \d{4}-\d\d-\d\d \d\d:\d\d  k\.json\n"
    assert re.fullmatch(shown, line), line


@everywhere
def test_symbolic_links_are_not_followed(place):
    place.do("put", "s/k.json", stdin=b"1")
    with place.mounted() as mount:
        os.symlink("k.json", mount.at("s/link"))
        os.symlink("s", mount.at("t"))
        os.mkfifo(mount.at("s/fifo"))
    for verb in ("cat", "put", "append"):
        for path in ("s/link", "t/k.json", "s/fifo", "s", "/", "../x", "x" * 256 + "/k"):
            place.do(verb, path, status=1, stdin=b"2")
    same(all_names(place), ["s", "s/fifo", "s/k.json", "s/link", "t"], place.what)
    place.do("rm", "t")
    same(place.do("cat", "s/k.json"), b"1", place.what)


# Lists and sums


# Session, items, bytes of each, hours since they were made
FILLED = [("old", 1, 100, 960), ("big", 3, 5000, 48), ("new", 9, 10, 1)]


def fill(place):
    ago = "datetime('now', '-%d hours')"
    with contextlib.closing(place.mount.connect()) as base:
        for name, items, size, age in FILLED:
            data = json.dumps("x" * (size - 2))
            base.executemany(INSERT, [(name, "l", i, data) for i in range(items)])
            base.execute(
                f"UPDATE {TABLE} SET created_at = {ago % age}, updated_at = {ago % age}"
                " WHERE session_id = ?",
                (name,),
            )
        base.execute(
            f"UPDATE {TABLE} SET state_key = 'k' WHERE session_id = 'new' AND item_index = 0"
        )


SELECTIONS = [
    ([], ["big", "empty", "new", "old"]),
    (["--sort=id"], ["big", "empty", "new", "old"]),
    (["--sort=age"], ["old", "big", "new", "empty"]),
    (["--sort=size"], ["big", "old", "new", "empty"]),
    (["--sort=items"], ["new", "big", "old", "empty"]),
    (["--older-than=30d"], ["old"]),
    (["--older-than=1d", "--sort=items"], ["big", "old"]),
    (["--newer-than=5w"], ["big", "empty", "new"]),
    (["--newer-than=12h", "--larger-than=50"], ["new"]),
    (["--larger-than=14K"], ["big"]),
    (["--larger-than=0"], ["big", "new", "old"]),
    (["--name=[no]*"], ["new", "old"]),
    (["--name=none"], []),
]


@everywhere
def test_sessions_are_selected_and_sorted(place):
    place.do("put", "empty/notes.txt", stdin=b"ordinary")
    fill(place)
    for options, expected in SELECTIONS:
        listed = place.json("sessions", *options)
        same([session["name"] for session in listed], expected, f"{place.what}: {options}")
        lines = place.do("sessions", *options).decode().splitlines()
        same([line.split()[-1] for line in lines], expected, f"{place.what}: lines of {options}")
    sums = {session["name"]: session for session in place.json("sessions")}
    for name, expected in {"big": (1, 3, 15000), "new": (2, 9, 90), "empty": (0, 0, 0)}.items():
        same(tuple(sums[name][field] for field in ("keys", "items", "bytes")), expected, name)
    assert 39 < (time.time() - sums["old"]["changed"]) / 86400 < 41, sums["old"]


@everywhere
def test_stats_add_up_and_fit_the_terminal(place):
    fill(place)
    stats = place.json("stats")
    sums = [stats[name] for name in ("sessions", "keys", "items", "bytes")]
    same(sums, [3, 4, 13, 15190], "sums")
    same(sum(size["sessions"] for size in stats["sizes"]), 3, "sessions of all sizes")
    same([day["items"] for day in stats["days"]], [1, 3, 9], "items of the days")
    for columns in (50, 120):
        lines = place.do("stats", env={"COLUMNS": str(columns)}).decode().splitlines()
        same(max(map(len, lines)), columns, f"the longest of the lines at {columns} columns")


def test_many_sessions_are_listed_in_seconds_and_little_memory(box):
    place = Place(box, False)
    count = harness.rounds("SESSFS_SESSIONS", 20000, 100000)
    with contextlib.closing(place.mount.connect()) as base:
        base.execute(
            f"WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {count})"
            f" INSERT INTO {TABLE} (session_id, state_key, item_index, state_data)"
            " SELECT 'session-' || i, 'messages', j, '\"' || hex(zeroblob(300)) || '\"'"
            " FROM n, (SELECT 0 AS j UNION SELECT 1)"
        )
    for arguments, megabytes in (("sessions", 16), ("sessions --sort=age", 32), ("stats", 16)):
        start = time.monotonic()
        done = tool(*frugally(megabytes), box.program, *arguments.split(), place.store)
        took = time.monotonic() - start
        box.note(f"{arguments}: {took:.2f} s")
        lines = done.stdout.count(b"\n")
        same(lines == count, arguments != "stats", f"{arguments}: {lines} lines")
        if harness.SOAK and not is_sanitized(harness.program()):  # a promise for a quiet machine
            assert took < 5, f"{arguments} took {took:.1f} s"


def frugally(megabytes):
    """Runs a command with so much memory; sanitizers, which need more, with all."""
    if is_sanitized(harness.program()):
        return []
    return ["sh", "-c", f'ulimit -d {megabytes * 1024} && exec "$@"', "sh"]


# Stores that are not there, not ours, damaged, or somebody else's


def fingerprint(folder):
    """Every file below a folder."""
    return {
        name: hashlib.sha256(read(os.path.join(folder, name))).hexdigest()
        for name in sorted(os.listdir(folder))
    }


def unusable_stores(box):
    """What is wrong, a store, whether put would make one there, and words of the sentence."""
    good = Place(box, False)
    good.do("put", "s/k.json", stdin=b"1")

    def made(make):
        store = os.path.join(box.new_folder("bad"), "store.db")
        make(store)
        return store

    def foreign(store):
        with contextlib.closing(sqlite3.connect(store)) as base:
            base.execute("CREATE TABLE other (x)")

    def newer(store):
        shutil.copy(good.store, store)
        with contextlib.closing(sqlite3.connect(store)) as base:
            base.execute("PRAGMA user_version = 99")

    def older(store):
        shutil.copy(good.store, store)
        with contextlib.closing(sqlite3.connect(store, isolation_level=None)) as base:
            base.execute("UPDATE sessfs_meta SET value = 3 WHERE key = 'schema_version'")
            base.execute("PRAGMA user_version = 3")

    def truncated(store):
        shutil.copy(good.store, store)
        os.truncate(store, 5000)

    yield "missing", made(lambda store: None), True, "there is no store"
    yield "empty", made(lambda store: write(store, b"")), True, "not a store"
    yield "no database", made(lambda store: write(store, b"text" * 500)), False, "not a store"
    yield "foreign", made(foreign), False, "belongs to another program"
    yield "newer", made(newer), False, "newer sessfs"
    yield "older", made(older), False, "older sessfs"
    yield "truncated", made(truncated), False, ""
    yield "directory", made(os.mkdir), False, "directory"
    yield "memory", "memory:", False, ""
    yield "nowhere", made(lambda store: None) + "/below/it", False, ""


def test_stores_that_cannot_be_used_are_refused_and_left_alone(box):
    reads = [*READS, ("cat", "s/k.json"), ("rm", "s/k.json")]
    makers = [("put", "s/k.json"), ("append", "s/l.jsonl")]
    kept = ("missing", "foreign", "older", "truncated")
    for what, store, makes, word in unusable_stores(box):
        folder = os.path.dirname(store) if what in kept else None
        before = folder and fingerprint(folder)
        for verb, *rest in reads if makes else reads + makers:
            done = box.sessfs(verb, *split(rest, store), stdin=b"1\n")
            said = done.stderr.decode()
            same(done.returncode, 1, f"{what}: {verb} says {said!r}")
            assert said.startswith("sessfs: ") and word in said, f"{what}: {verb} says {said!r}"
        same(folder and fingerprint(folder), before, f"{what}: files")
        if makes:
            same(box.sessfs("put", store, "s/k.json", stdin=b"1").returncode, 0, f"{what}: put")


def test_reading_changes_no_byte_and_takes_in_what_others_wrote(box):
    place = Place(box, False)
    place.do("put", "s/k.json", stdin=b"1")
    before = read(place.store)
    for verb, *rest in [*READS, ("cat", "s/k.json")]:
        place.do(verb, *rest)
        same(read(place.store), before, f"the store after {verb}")
    place.mount.insert("sql", "k", 0, "2")
    same(place.names(), ["s", "sql"], "sessions")
    same(place.do("cat", "sql/k.json"), b"2", "the row")


def test_another_programs_rows_are_read_without_a_trace_and_adopted_by_a_write(box):
    store = box.new_path("theirs") + ".db"
    with contextlib.closing(sqlite3.connect(store)) as base:
        base.execute(
            "CREATE TABLE states (session_id TEXT NOT NULL, state_key TEXT NOT NULL,"
            " item_index INTEGER NOT NULL DEFAULT 0, state_data TEXT NOT NULL,"
            " PRIMARY KEY (session_id, state_key, item_index))"
        )
        base.execute("INSERT INTO states VALUES ('s', 'k', 0, '{}')")
        base.commit()
    before = read(store)
    table = ["-o", "table=states"]
    for verb, *rest in [*READS, ("cat", "s/k.json")]:
        options = [word for word in rest if word.startswith("-")]
        box.sessfs(verb, *table, *options, store, *rest[len(options) :], check=True)
        same(read(store), before, f"the database after {verb}")
    session = json.loads(box.sessfs("sessions", "--json", *table, store, check=True).stdout)[0]
    same((session["items"], session["changed"]), (1, None), "a session without times")
    box.sessfs("append", *table, store, "s/l.jsonl", stdin=b"1\n", check=True)
    same(box.sessfs("cat", store, "s/l.jsonl", "s/k.json", check=True).stdout, b"1\n{}", "files")


def test_beside_a_read_only_mount_it_is_read_and_not_written(box):
    place = Place(box, False)
    place.do("put", "s/k.json", stdin=b"1")
    place.mount.options = ["ro"]
    place.mount.start()
    same(place.do("cat", "s/k.json"), b"1", "the file")
    for verb, *rest in (("put", "s/k.json"), ("append", "s/l.jsonl"), ("rm", "s/k.json")):
        said = place.do(verb, *rest, status=1)
        assert "read-only" in said and place.mount.path in said, said
    same(place.names("s"), ["k.json"], "names")


def test_where_the_mount_is_out_of_reach_only_one_that_wants_the_store_alone_is_in_the_way(box):
    place = Place(box, True)
    place.do("put", "s/k.json", stdin=b"1")
    place.part()
    place.do("put", "s/k.json", stdin=b"2")
    same(read(place.mount.at("s/k.json")), b"2", "the file")
    place.mount.remount(["exclusive"])
    same(place.do("cat", "s/k.json"), b"2", "the file")
    for verb, *rest in (("put", "s/k.json"), ("append", "s/l.jsonl"), ("rm", "s/k.json"), ("gc",)):
        said = place.do(verb, *rest, status=1, stdin=b"3")
        for word in (f"process {place.mount.pid}", place.mount.path, "cannot be reached"):
            assert word in said, said
    same(read(place.mount.at("s/k.json")), b"2", "the file")


def test_a_mount_that_only_claims_to_show_the_store_is_not_believed(box):
    need_root()
    place = Place(box, True)
    folder = box.new_folder("liar")
    device = os.open("/dev/fuse", os.O_RDWR)
    options = f"fd={device},rootmode=40000,user_id=65534,group_id=65534"
    libc = ctypes.CDLL(None, use_errno=True)
    words = [os.fsencode(word) for word in (place.store, folder, "fuse.sessfs")]
    same(libc.mount(*words, 0, os.fsencode(options)), 0, "mount(2)")
    try:
        place.do("put", "s/k.json", stdin=b"1")
        same(place.do("cat", "s/k.json"), b"1", "the file")
    finally:
        os.close(device)
        harness.detach(folder)
    same(read(place.mount.at("s/k.json")), b"1", "the file on the mount")


def test_a_mount_whose_daemon_was_killed_stands_in_nobodys_way(box):
    place = Place(box, True)
    place.do("put", "s/k.json", stdin=b"1")
    place.mount.kill_only()
    try:
        place.do("append", "s/l.jsonl", stdin=b"1\n")
        same(place.do("cat", "s/k.json", "s/l.jsonl"), b"11\n", "files")
        same([entry["process"] for entry in mounts_of(place)], [None], "processes")
    finally:
        harness.detach(place.mount.path)


def mounts_of(place):
    listed = json.loads(place.box.sessfs("mounts", "--json", check=True).stdout)
    return [entry for entry in listed if entry["store"] == place.store]


def test_mounts_are_listed_with_their_processes(box):
    place = Place(box, True)
    found = mounts_of(place)
    same([entry["directory"] for entry in found], [place.mount.path], "directories")
    same([entry["process"] for entry in found], [place.mount.pid], "processes")
    same([entry["read_only"] for entry in found], [False], "read-only")
    line = box.sessfs("mounts", check=True).stdout.decode()
    assert f"{place.mount.pid}  rw  {place.store}  {place.mount.path}\n" in line, line
    place.mount.remount(["ro"])
    same([entry["read_only"] for entry in mounts_of(place)], [True], "read-only")
    place.mount.stop()
    same(mounts_of(place), [], "mounts")


def test_a_mount_comes_while_a_verb_works_unless_it_wants_the_store_alone(box):
    place = Place(box, False)
    place.do("put", "s/l.txt", stdin=b"x" * (1 << 20))
    reader = subprocess.Popen(
        [box.program, "cat", place.store, "s/l.txt"], stdout=subprocess.PIPE
    )
    same(len(reader.stdout.read(10)), 10, "the beginning")
    place.mount.options = ["exclusive"]
    place.mount.start()
    same(len(reader.stdout.read()), (1 << 20) - 10, "the rest")
    same(reader.wait(), 0, "cat")
    place.mount.stop()
    writer = place.start("append", "s/k.jsonl")
    feed(writer, b"1\n")
    eventually(lambda: rows_of(place, "s", "k") == [b"1"], "a row")
    refused = box.sessfs("mount", "-f", "-o", "exclusive", place.store, place.mount.path)
    same(refused.returncode, 1, "mount")
    assert f"process {writer.pid}" in refused.stderr.decode(), refused.stderr
    place.mount.options = []
    place.mount.start()
    with open(place.mount.at("s/k.jsonl"), "ab", buffering=0) as file:
        file.write(b"2\n")
        feed(writer, b"3\n4")
        eventually(lambda: read(place.mount.at("s/k.jsonl")) == b"1\n2\n3\n", "lines")
        file.write(b"5\n")
    writer.stdin.close()
    same(writer.wait(), 0, "append")
    same(read(place.mount.at("s/k.jsonl")), b"1\n2\n3\n5\n4", "the list")


# The command line

WRONG = [
    *(((verb,), verb) for verb in VERBS if verb != "mounts"),
    *(((verb, "--nonsense", "x.db", "y"), verb) for verb in VERBS),
    *(((verb, "x.db"), verb) for verb in ("cat", "append", "put", "rm")),
    *(((verb, "x.db", "a", "b", "c"), verb) for verb in ("ls", "append", "put", "stats")),
    (("mounts", "x.db"), "mounts"),
    (("ls", "-o", "x.db"), "ls"),
    *(
        (("sessions", option, "x.db"), "sessions")
        for option in (
            "--sort=nonsense",
            "--older-than=7",
            "--newer-than=d",
            "--older-than=-1d",
            "--older-than=999999999999y",
            "--larger-than=1X",
            "--larger-than=",
            "--name",
        )
    ),
]


def test_wrong_command_lines_are_refused_with_a_sentence(box):
    for arguments, verb in WRONG:
        done = box.sessfs(*arguments, cwd=box.folder)
        said = done.stderr.decode()
        same((done.returncode, done.stdout), (2, b""), f"{arguments} (it says {said!r})")
        same(said.count("\n"), 1, f"lines of {said!r}")
        assert f"sessfs help {verb}" in said, said
    assert not os.path.exists(os.path.join(box.folder, "x.db")), "a store was made"


def test_a_word_that_is_no_command_is_called_so_and_makes_no_store(box):
    folder = box.new_folder()
    place = Place(box, False)
    for arguments in (["lst", place.store], ["lst", "-l", place.store], ["lst", folder],
                      ["lst"], ["lst", place.store, "s"]):
        done = box.sessfs(*arguments, cwd=folder)
        same((done.returncode, done.stdout), (2, b""), f"{arguments}")
        assert b"there is no command 'lst'" in done.stderr, f"{arguments}: {done.stderr}"
    same(os.listdir(folder), [], "what was made")
    same(harness.mounts_below(folder), [], "what is mounted")


def test_input_that_cannot_be_read_changes_nothing(box):
    place = Place(box, False)
    place.do("put", "s/k.json", stdin=b"1")
    for source in (box.new_path("none"), box.folder):
        for verb, path in (("put", "s/k.json"), ("append", "t/l.jsonl")):
            assert source in place.do(verb, path, source, status=1), source
    same(all_names(place), ["s", "s/k.json"], "names")
    same(place.do("cat", "s/k.json"), b"1", "the file")


def test_an_output_that_is_full_is_an_error_and_the_only_one_that_is_told(box):
    place, folder = Place(box, False), box.new_folder()
    for number in range(300):  # more than a buffer of each listing
        os.mkdir(os.path.join(folder, f"session {number}"))
        write(os.path.join(folder, f"session {number}", "l.jsonl"), b'{"n": 1}\n' * 10)
    for shift in range(1, 9):  # a buffer ends in another place
        os.mkdir(os.path.join(folder, f"d{shift}"))
        for number in range(100):
            write(os.path.join(folder, f"d{shift}", f"{number:03}{'x' * shift}"), b"")
    place.do("import", folder)
    listings = [("ls", "-l", "--json", f"d{shift}") for shift in range(1, 9)]
    cat = ("cat", *(f"session {number}/l.jsonl" for number in range(300)))
    for verb, *rest in [*READS, *listings, cat, ("export",)]:
        arguments = [verb, *split(rest, place.store), *["-"] * (verb == "export")]
        with open("/dev/full", "wb") as full:
            done = subprocess.run([box.program, *arguments], stdout=full, stderr=subprocess.PIPE)
        same((done.returncode, done.stderr.count(b"\n")), (1, 1), f"{arguments}: {done.stderr}")
        assert b"No space left on device" in done.stderr, f"{arguments}: {done.stderr}"
    read_fd, write_fd = os.pipe()
    os.close(read_fd)
    done = subprocess.run([box.program, "export", place.store, "-"], stdout=write_fd,
                          stderr=subprocess.PIPE)
    os.close(write_fd)
    same((done.returncode, done.stderr), (1, b""), "for a reader that is gone")


def test_what_a_reader_that_was_killed_has_left_goes_with_the_next_one(box):
    place = Place(box, False)
    place.do("append", "s/l.jsonl", stdin=b'{"n": 1}\n' * 50000)
    folder, name = os.path.split(place.store)
    before = {other for other in os.listdir(folder) if other.startswith(name)}
    reader = subprocess.Popen([box.program, "cat", place.store, "s/l.jsonl"],
                              stdout=subprocess.PIPE)
    reader.stdout.read(1)  # it waits with the rest
    reader.kill()
    reader.wait()
    reader.stdout.close()
    same(os.path.exists(place.store + "-wal"), True, "it has left its log")
    place.do("ls")
    same({other for other in os.listdir(folder) if other.startswith(name)}, before, "files")


def test_strict_refuses_what_is_not_json(box):
    place = Place(box, False)
    place.do("put", "s/k.json", stdin=b"1")
    done = box.sessfs("put", "-o", "strict", place.store, "s/k.json", stdin=b"{half")
    same(done.returncode, 1, "put")
    assert "not JSON" in done.stderr.decode(), done.stderr
    same(place.do("cat", "s/k.json"), b"1", "the file")
    same(place.names("s"), ["k.json"], "names")


def words_of(text):
    """Commands, long options, or those of a mount that a help text has at the head of a line."""
    found = re.findall(r"^  (?:(?:-\w, |    )(--[\w-]+)|([a-z]\w+))\b", text, re.M)
    return [option or word for option, word in found]


def test_help_manual_and_completions_name_every_command_and_option(box):
    overview = box.sessfs("help", check=True).stdout.decode()
    commands = words_of(overview)
    same(sorted(set(VERBS) - set(commands)), [], "commands that the help does not name")
    texts = {name: open(os.path.join(TOP, name)).read() for name in DESCRIPTIONS}
    for command in commands:
        names = [command]
        if command != "help":
            said = box.sessfs(command, "--help", check=True).stdout.decode()
            same(box.sessfs("help", command, check=True).stdout.decode(), said, command)
            assert f"usage: sessfs {command}" in said and "exit status" in said, said
            names += [word for word in words_of(said) if word.startswith("--")]
            names += words_of(said) if command == "mount" else []
        for file, text in texts.items():
            for name in names:
                assert DESCRIPTIONS[file](name) in text, f"{file} does not name {name} of {command}"


def read_until(fd, mark, seen=b""):
    while mark not in seen:
        seen += os.read(fd, 1 << 16)
    return seen


def shell_environment():
    folder = os.path.dirname(os.path.abspath(harness.program()))
    return {
        **os.environ,
        **{"PATH": f"{folder}:{os.environ['PATH']}", "PS1": "> ", "TERM": "dumb"},
        **{"INPUTRC": "/dev/null", "COLUMNS": "500", "HISTFILE": ""},
    }


def typed(shell, first, line, end):
    """What a shell shows, up to an end, when a line is typed behind a first one."""
    need_tool(shell[0])
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        shell,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=shell_environment(),
        start_new_session=True,
    ) as process:
        try:
            os.close(theirs)
            os.write(ours, f"{first}; echo rea''dy\n".encode())
            read_until(ours, b"> ", read_until(ours, b"ready\r\n").partition(b"ready\r\n")[2])
            os.write(ours, line)
            seen = read_until(ours, end)
        finally:
            process.kill()
            os.close(ours)
    return seen.decode().replace("\a", "")


def completed_by_bash(line):
    """What becomes of a line when the key is pressed that completes it."""
    script = f"source {TOP}/contrib/completion/sessfs.bash"
    shell = ["bash", "--norc", "--noprofile", "-i"]
    return typed(shell, script, f"{line}\t #\n".encode(), b" #\r\n").rpartition(" #")[0]


def completed_by_zsh(line):
    show = "show() { print -r -- \"<<$BUFFER>>\"; }; zle -N show; bindkey '^X' show"
    load = f"fpath=({TOP}/contrib/completion $fpath); autoload -Uz compinit; compinit -u -D"
    seen = typed(["zsh", "-f", "-i"], f"{load}; {show}", f"{line}\t\x18".encode(), b">>")
    return seen.partition("<<")[2].partition(">>")[0]


def completed_by_fish(line):
    need_tool("fish")
    script = f"source {TOP}/contrib/completion/sessfs.fish; complete -C $argv[1]"
    shell = ["fish", "--no-config", "-c", script, line]
    with tempfile.TemporaryDirectory() as folder:  # behind "=" it may also be a file there
        named = {"env": shell_environment(), "cwd": folder, "check": True}
        done = subprocess.run(shell, stdout=subprocess.PIPE, **named)
    return line.rpartition(" ")[0] + " " + (done.stdout.decode().split() or [line.split()[-1]])[0]


def complete_names(box, completed):
    store = box.new_path("store")
    box.sessfs("put", store, "demo/messages.jsonl", stdin=b"1\n2\n", check=True)
    box.sessfs("put", store, "demo/a:b=c.json", stdin=b"1", check=True)
    for path, whole in (
        ("demo/mess", "demo/messages.jsonl"),
        ("demo/@last=1/mess", "demo/@last=1/messages.jsonl"),
        ("@role=user,last=1/demo/m", "@role=user,last=1/demo/messages.jsonl"),
        ("demo/@as=items/messages/1", "demo/@as=items/messages/1.json"),
        ("demo/a:b=", "demo/a:b=c.json"),
        ("demo/@last=1/none", "demo/@last=1/none"),
    ):
        line = f"sessfs cat -o table=agentscope_sessions {store} {path}"
        same(completed(line).split()[-1], whole, path)


def test_bash_completes_names_also_below_views(box):
    complete_names(box, completed_by_bash)


def test_zsh_completes_names_also_below_views(box):
    complete_names(box, completed_by_zsh)


def test_fish_completes_names_also_below_views(box):
    complete_names(box, completed_by_fish)


def test_no_verb_goes_from_a_mount_into_another_one(box):
    need_root()
    need_namespace()
    mount, session = box.session()
    other = box.new_path("other")
    write(other, b"another filesystem")
    write(os.path.join(session, "a.txt"), b"its own")
    script = 'mount --bind "$1" "$2" && shift 2 && "$@"'
    inside = ["unshare", "-m", "sh", "-c", script, "sh", other, os.path.join(session, "a.txt")]
    done = tool(*inside, box.program, "cat", mount.store, "s/a.txt", check=False)
    same((done.returncode, done.stdout), (1, b""), "cat")
    done = tool(*inside, box.program, "put", mount.store, "s/a.txt", stdin=b"1", check=False)
    same((done.returncode, read(other)), (1, b"another filesystem"), "put")
    same(read(os.path.join(session, "a.txt")), b"its own", "the file")


def in_manual(name):
    return f"Fl Fl {name[2:]}" if name.startswith("--") else f" {name}"


def in_fish(name):
    return f"-l {name[2:]}" if name.startswith("--") else name


DESCRIPTIONS = {
    "contrib/completion/sessfs.bash": str,
    "contrib/completion/_sessfs": str,
    "contrib/completion/sessfs.fish": in_fish,
    "doc/sessfs.1": in_manual,
}


def test_a_verb_leaves_nothing_beside_a_store_that_nobody_has_open(box):
    """Who only read left an empty log, with its index."""
    folder = box.new_folder()
    store, out = os.path.join(folder, "store.db"), box.new_path("out")
    box.sessfs("put", store, "s/k.json", stdin=b"1", check=True)
    before = sorted(os.listdir(folder))
    for arguments in (
        ["ls", store],
        ["cat", store, "s/k.json"],
        ["check", store],
        ["sessions", store],
        ["stats", store],
        ["gc", "-n", "--older-than=1d", store],
        ["export", store, out],
        ["backup", store, box.new_path("copy")],
        ["cat", store, "s/none"],
    ):
        done = box.sessfs(*arguments)
        same(done.returncode, 1 if arguments[-1] == "s/none" else 0, f"{arguments}: {done.stderr}")
        same(sorted(os.listdir(folder)), before, f"beside the store after {arguments[0]}")
    # What somebody has open is his.
    with contextlib.closing(sqlite3.connect(store)) as other:
        other.execute("SELECT count(*) FROM agentscope_sessions").fetchall()
        box.sessfs("ls", store, check=True)
        other.execute(INSERT, ("t", "k", 0, "2"))
        other.commit()
        same(box.sessfs("cat", store, "t/k.json", check=True).stdout, b"2", "what SQL has written")
        same(other.execute("SELECT count(*) FROM agentscope_sessions").fetchone(), (2,), "rows")


def test_times_in_json_have_three_decimals_at_the_most(box):
    store = box.new_path("store")
    box.sessfs("put", store, "s/k.json", stdin=b"1", check=True)
    for arguments in (["ls", "-l", "--json", store, "s"], ["sessions", "--json", store]):
        told = box.sessfs(*arguments, check=True).stdout.decode()
        times = re.findall(r'"(?:changed|created)":([0-9.]+)', told)
        assert times and all(len(time.partition(".")[2]) <= 3 for time in times), told


if __name__ == "__main__":
    harness.main(globals())
