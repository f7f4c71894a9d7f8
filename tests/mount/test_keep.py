#!/usr/bin/python3 -B
# SPDX-License-Identifier: MIT
"""Keeping and letting go: backup, restore, gc, ttl, umount."""

import contextlib
import errno
import fcntl
import json
import os
import resource
import shutil
import signal
import sqlite3
import stat
import subprocess
import threading
import time

import harness
from harness import (
    INSERT,
    TABLE,
    alive,
    append,
    errno_of,
    eventually,
    mounts_below,
    put,
    read,
    same,
    same_trees,
    tree,
    write,
)

DAY = 86400


def said(done):
    return done.stderr.decode("utf-8", "replace")


def do(box, *arguments, status=0, **named):
    done = box.sessfs(*arguments, **named)
    same(done.returncode, status, f"{arguments} (it says {said(done)!r})")
    return done


def told(box, *arguments):
    return json.loads(do(box, *arguments).stdout)


def refuses(box, word, *arguments):
    done = do(box, *arguments, status=1)
    assert word in said(done), (arguments, said(done))


def check(box, store):
    done = box.sessfs("check", store)
    same(done.returncode, 0, f"check of {store}: {done.stdout} {done.stderr}")


def leftovers(path):
    """What lies beside a file that is not a name of its own."""
    folder, name = os.path.split(path)
    return sorted(n for n in os.listdir(folder) if n != name and name in n)


def kill(mount, *fds):
    """Kills the daemon under open files; the mount is gone then."""
    mount.kill_only()
    for fd in fds:
        errno_of(os.close, fd)
    harness.detach(mount.path)


def shown(box, store):
    """The files of a store, from a mount of its own."""
    mount = box.mount(store=store)
    files = tree(mount.path)
    mount.stop()
    return files


# What a session may hold


def fill(folder):
    os.makedirs(os.path.join(folder, "deep", "er"))
    write(f"{folder}/agent.json", b'{"turns": 1}\n')
    write(f"{folder}/messages.jsonl", b'{"n": 0}\n{"n": 1}\noops\n{"n": 2}')
    write(f"{folder}/draft.json", b'{"a": 1}')
    write(f"{folder}/draft.json", b'{"a": ')
    write(f"{folder}/messages.hash", b"abc")
    write(f"{folder}/deep/er/x.jsonl", b"1\n2\n")
    write(f"{folder}/notes.txt", b"n" * 70000)
    write(f"{folder}/k.json", b"1")
    write(f"{folder}/k.jsonl", b"2\n")
    write(f"{folder}/empty.jsonl", b"")
    os.symlink("notes.txt", f"{folder}/link")
    os.link(f"{folder}/notes.txt", f"{folder}/second-name")
    os.chmod(f"{folder}/agent.json", 0o640)
    os.setxattr(f"{folder}/notes.txt", "user.kind", b"text")
    os.setxattr(folder, "user.kind", b"session")


ROWS = "SELECT session_id, state_key, item_index, state_data, created_at, updated_at "
ROWS += f"FROM {TABLE}"


def rows(mount):
    return sorted(mount.sql(ROWS))


def inodes(root):
    found = {}
    for folder, _, names in os.walk(root):
        for name in [".", *names]:
            path = os.path.normpath(os.path.join(folder, name))
            found[os.path.relpath(path, root)] = os.lstat(path).st_ino
    return found


def age(mount, session, days, files=True):
    """Nothing in a session has changed for so long.  The store must not be mounted."""
    when = time.time() - days * DAY
    text = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(when))
    below = """WITH RECURSIVE below (ino) AS (
        SELECT ino FROM sessfs_node WHERE kind = 1 AND session_id = ?1
        UNION SELECT e.ino FROM sessfs_entry e JOIN below ON e.parent = below.ino)"""
    # Times alone: no trigger fires, as when another program sets them.
    mount.sql(f"UPDATE {TABLE} SET created_at = ?2, updated_at = ?2 WHERE session_id = ?1",
              (session, text))
    if files:
        mount.sql(
            f"{below} UPDATE sessfs_node SET mtime = ?2, ctime = ?2 "
            "WHERE ino IN (SELECT ino FROM below)",
            (session, int(when * 1e9)),
        )


# Backup and restore


def test_a_backup_holds_everything_and_is_a_store(box):
    mount, session = box.session()
    fill(os.path.join(mount.path, "full"))
    os.setxattr(session, "user.sessfs.ttl", b"30d")
    file = box.new_path("backup")
    result = told(box, "backup", "--json", mount.store, file)
    same((result["sessions"], result["items"]), (2, len(rows(mount))), "what it tells")
    same(result["bytes"], os.stat(file).st_size, "its size")
    same(stat.S_IMODE(os.stat(file).st_mode), 0o600, "its mode")
    same(leftovers(file), [], "beside it")
    expected = tree(mount.path)
    before = rows(mount)
    check(box, file)
    same(leftovers(file), [], "beside it after a check")
    copy = box.mount(store=file)
    same_trees(expected, tree(copy.path))
    same(os.getxattr(copy.at("s"), "user.sessfs.ttl"), b"30d", "the ttl")
    same(rows(copy), before, "rows with their times")
    append(copy.at("full/messages.jsonl"), b"\n3\n")
    copy.stop()
    same_trees(expected, tree(mount.path), "the store itself: ")


def test_a_backup_has_all_that_was_answered_before_it(box):
    """Small writes of ordinary files are held back by the daemon."""
    mount, session = box.session()
    notes = os.open(f"{session}/notes.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for i in range(200):
        put(notes, b"line %d\n" % i)
    expected = read(f"{session}/notes.txt")
    first = box.new_path("backup")
    do(box, "backup", mount.store, first)
    os.close(notes)
    same(do(box, "cat", first, "s/notes.txt").stdout, expected, "what it has")


def test_what_other_programs_have_put_there_or_taken_away_keeps_nobody_from_a_backup(box):
    mount, session = box.session()
    mount.insert("s", "l", -1, "1")
    mount.insert("s", "l", 0, "2")
    eventually(lambda: os.path.exists(f"{session}/l.jsonl"), "the list is there")
    check(box, mount.store)
    mount.sql(INSERT, (b"blob", "k", 0, "3"))
    mount.sql(INSERT, ("s", "l", 1.5, "4"))
    mount.stop()
    mount.sql("DROP TRIGGER sessfs_row_insert")
    file = box.new_path("backup")
    do(box, "backup", mount.store, file)
    do(box, "restore", file, box.new_path("again") + ".db")
    same(do(box, "cat", file, "s/l.jsonl").stdout, b"1\n2\n", "the list")
    done = do(box, "check", mount.store, status=1)
    same(len(done.stdout.splitlines()) >= 3, True, f"what check says: {done.stdout}")


def test_an_unfinished_save_and_line_are_not_in_a_backup(box):
    mount, session = box.session(options=["pause=0"])
    write(f"{session}/k.json", b'{"old": 1}')
    write(f"{session}/l.jsonl", b"1\n")
    saving = os.open(f"{session}/k.json", os.O_WRONLY | os.O_TRUNC)
    adding = os.open(f"{session}/l.jsonl", os.O_WRONLY | os.O_APPEND)
    put(saving, b'{"new": ')
    put(adding, b'2\n{"half": ')
    file = box.new_path("backup")
    do(box, "backup", mount.store, file)
    os.close(saving)
    os.close(adding)
    same(do(box, "cat", file, "s/k.json").stdout, b'{"old": 1}', "the save")
    same(do(box, "cat", file, "s/l.jsonl").stdout, b"1\n2\n", "the list")


class Load:
    """Writers in several sessions.  Each line has a number from one counter for all, and whoever
    takes one keeps the counter until the write was answered: of two lines in any two sessions the
    one with the lower number was there before the other one began."""

    def __init__(self, mount, count):
        self.mount = mount
        self.count = count
        self.next = 0
        self.done = 0
        self.lock = threading.Lock()
        self.stop = threading.Event()
        self.failed = None
        self.threads = [threading.Thread(target=self.run, args=(i,)) for i in range(count)]
        self.threads += [threading.Thread(target=self.disturb, args=(i,)) for i in range(2)]
        for i in range(count):
            os.mkdir(mount.at(f"w{i}"))

    def turn(self, i, fd):
        with self.lock:  # one after the other, so numbers tell what came before what
            number = self.next
            self.next += 1
            put(fd, b'{"n": %d}\n' % number)
            if number % 7 == 0:
                write(self.mount.at(f"w{i}/state.json"), b'{"n": %d}' % number)
            if number % 5 == 0:
                append(self.mount.at(f"w{i}/notes.txt"), b"%d\n" % number)
            self.done = number + 1

    def run(self, i):
        try:
            fd = os.open(self.mount.at(f"w{i}/log.jsonl"), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            while not self.stop.is_set():
                self.turn(i, fd)
            os.close(fd)
        except BaseException as error:
            self.failed = error

    def disturb(self, i):
        """Writes beside the others, so that the store changes at any moment."""
        try:
            os.mkdir(self.mount.at(f"noise{i}"))
            while not self.stop.is_set():
                append(self.mount.at(f"noise{i}/log.jsonl"), b'"%s"\n' % (b"x" * 3000))
        except BaseException as error:
            self.failed = error

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.stop.set()
        for thread in self.threads:
            thread.join()
        if self.failed:
            raise self.failed


def cut_of(box, store, writers):
    """The numbers in a copy: those of all lists, those of the states, those of the notes."""
    mount = box.mount(store=store)
    lines, states, notes = [], {}, {}
    for i in range(writers):
        if os.path.exists(mount.at(f"w{i}/log.jsonl")):
            text = read(mount.at(f"w{i}/log.jsonl"))
            own = [json.loads(line)["n"] for line in text.split(b"\n")[:-1]]
            same(own, sorted(own), f"the order in w{i}")
            lines += own
        if os.path.exists(mount.at(f"w{i}/state.json")):
            text = read(mount.at(f"w{i}/state.json"))
            states[i] = json.loads(text)["n"] if text else -1
        if os.path.exists(mount.at(f"w{i}/notes.txt")):
            notes[i] = [int(n) for n in read(mount.at(f"w{i}/notes.txt")).split()]
    mount.stop()
    return sorted(lines), states, notes


def judge_cut(box, store, load, least):
    lines, states, notes = cut_of(box, store, load.count)
    # One instant: the numbers of all sessions together have no hole, and none that was answered
    # before the backup began is missing.
    same(lines, list(range(len(lines))), "numbers of all sessions")
    assert len(lines) >= least, f"{len(lines)} lines, and {least} were answered before"
    last = len(lines) - 1
    # What came after a line that is missing is missing, too: at most the last turn is half there.
    for i, number in states.items():
        assert number <= last, f"state {number} of w{i} without line {number}"
    for i, numbers in notes.items():
        assert not numbers or numbers[-1] <= last, f"note {numbers[-1]} without its line"
    present = sorted(n for numbers in notes.values() for n in numbers)
    expected = [n for n in range(0, last + 1, 5)]
    assert present in (expected, expected[:-1]), f"notes {present[-3:]} of {expected[-3:]}"
    return len(lines)


def test_a_backup_under_load_is_one_instant(box):
    mount = box.mount()
    seen = []
    with Load(mount, 4) as load:
        for _ in range(3):
            eventually(lambda: load.done > (seen[-1][1] if seen else 0) + 50, "they write")
            file = box.new_path("backup")
            least = load.done
            do(box, "backup", mount.store, file)
            seen.append((file, load.done, least))
    assert seen[-1][1] > seen[-1][2], "nobody wrote during the backup"
    for file, most, least in seen:
        store = box.new_path("restored")
        do(box, "restore", file, store)
        check(box, store)
        count = judge_cut(box, store, load, least)
        assert count <= most + 1, (count, most)
        same(leftovers(file), [], "beside the backup")
    box.note(f"{load.done} turns; in the backups {[s[1] for s in seen]}")


def test_a_copy_of_the_file_alone_would_not_be_one_instant(box):
    """That the check above can fail: what a copy of the file without its log holds."""
    mount = box.mount()
    with Load(mount, 4) as load:
        eventually(lambda: load.done > 60, "they write")
        least = load.done
        file = box.new_path("copy")
        shutil.copy(mount.store, file)
    try:
        judge_cut(box, file, load, least)
    except AssertionError:
        return
    raise AssertionError("the file alone has all that was answered; then this test shows nothing")


def test_a_backup_that_is_interrupted_leaves_nothing(box):
    mount, session = box.session()
    with contextlib.closing(mount.connect()) as base:
        base.execute("BEGIN")
        base.executemany(INSERT, (("s", "l", i, json.dumps("x" * 100000)) for i in range(400)))
        base.execute("COMMIT")
    file = box.new_path("backup")
    os.makedirs(os.path.dirname(file) + "/into")
    file = os.path.join(os.path.dirname(file), "into", "backup")
    for number in (signal.SIGINT, signal.SIGTERM):
        process = subprocess.Popen([box.program, "backup", mount.store, file],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        eventually(lambda: os.listdir(os.path.dirname(file)), "it writes")
        process.send_signal(number)
        process.communicate()
        same(process.returncode, -number, "the end")
        same(os.listdir(os.path.dirname(file)), [], "what is left")
    check(box, mount.store)


def test_what_is_there_is_not_replaced_without_force(box):
    mount, session = box.session()
    write(f"{session}/k.json", b"1")
    file = box.new_path("backup")
    do(box, "backup", mount.store, file)
    before = read(file)
    write(f"{session}/k.json", b"2")
    refuses(box, "--force", "backup", mount.store, file)
    same(read(file), before, "the backup that was there")
    do(box, "backup", "--force", mount.store, file)
    same(do(box, "cat", file, "s/k.json").stdout, b"2", "the one that replaced it")
    refuses(box, "--force", "restore", file, mount.store)
    refuses(box, "unmount", "restore", "--force", file, mount.store)
    refuses(box, "unmount", "backup", "--force", file, mount.store)
    refuses(box, "no store", "backup", box.new_path("none"), box.new_path("x"))
    refuses(box, "is a directory", "backup", "--force", mount.store, box.new_folder())
    refuses(box, "no store", "restore", box.new_path("none"), box.new_path("x"))
    same(do(box, "cat", mount.store, "s/k.json").stdout, b"2", "the store")


def test_a_restore_takes_the_place_of_a_store_with_all_that_lay_beside_it(box):
    mount = box.mount()
    fill(mount.at("full"))
    expected = tree(mount.path)
    file = box.new_path("backup")
    do(box, "backup", mount.store, file)
    write(mount.at("full/agent.json"), b'{"later": 1}')
    kill(mount)
    os.chmod(mount.store, 0o640)
    for ending in ("-wal", "-reserve"):
        assert os.path.exists(mount.store + ending), f"there is no {ending}"
    do(box, "restore", "--force", file, mount.store)
    same(leftovers(mount.store), [], "beside the store")
    same(stat.S_IMODE(os.stat(mount.store).st_mode), 0o640, "its mode")
    check(box, mount.store)
    same_trees(expected, shown(box, mount.store))


def test_a_log_that_a_deleted_store_has_left_does_not_get_into_a_restored_one(box):
    mount, session = box.session()
    write(f"{session}/k.json", b"1")
    file = box.new_path("backup")
    do(box, "backup", mount.store, file)
    for i in range(50):
        append(f"{session}/l.jsonl", b"%d\n" % i)
    kill(mount)
    assert os.path.getsize(mount.store + "-wal") > 0, "there is no log"
    os.unlink(mount.store)
    do(box, "restore", file, mount.store)
    check(box, mount.store)
    same(sorted(shown(box, mount.store)), ["", "s", "s/k.json"], "files")


def damage(path):
    with open(path, "r+b") as file:
        size = os.fstat(file.fileno()).st_size
        file.seek(size // 2)
        file.write(os.urandom(4096) * 8)


def test_a_damaged_backup_is_not_restored(box):
    mount, session = box.session()
    fill(mount.at("full"))
    write(f"{session}/big.txt", b"x" * 500000)
    file = box.new_path("backup")
    do(box, "backup", mount.store, file)
    mount.stop()
    before = read(mount.store)
    for spoil in (lambda: os.truncate(file, 20000), lambda: damage(file)):
        do(box, "backup", "--force", mount.store, file)
        with contextlib.closing(sqlite3.connect(file)) as base:
            root = base.execute(
                "SELECT rootpage FROM sqlite_schema WHERE name = 'sessfs_node'").fetchone()[0]
            size = base.execute("PRAGMA page_size").fetchone()[0]
        with open(file, "r+b") as pages:
            pages.seek((root - 1) * size + 8)
            pages.write(b"\xff" * 64)
        new = box.new_path("new")
        done = do(box, "restore", file, new, status=1)
        assert said(done).startswith("sessfs: "), said(done)
        assert not os.path.exists(new), "a store was made of it"
        same(leftovers(new), [], "what is left")
        do(box, "restore", "--force", file, mount.store, status=1)
        same(read(mount.store), before, "the store that was to be replaced")


def test_findings_that_the_store_has_do_not_keep_it_from_being_saved(box):
    mount, session = box.session()
    mount.insert("s", "k", 0, "no JSON")
    mount.stop()
    file = box.new_path("backup")
    done = do(box, "backup", "--json", mount.store, file)
    same(json.loads(done.stdout)["findings"], 1, "findings")
    assert "check" in said(done), said(done)


def test_another_programs_database_is_saved_as_it_is(box):
    store = box.new_path("theirs") + ".db"
    with contextlib.closing(sqlite3.connect(store, isolation_level=None)) as base:
        base.execute(f"CREATE TABLE {TABLE} (session_id TEXT, state_key TEXT, item_index INTEGER, "
                     "state_data TEXT, PRIMARY KEY (session_id, state_key, item_index))")
        base.execute("CREATE TABLE more (x)")
        base.execute(INSERT, ("s", "k", 0, "{}"))
        base.execute("INSERT INTO more VALUES ('kept')")
    before = read(store)
    file = box.new_path("backup")
    do(box, "backup", store, file)
    same(read(store), before, "their database")
    with contextlib.closing(sqlite3.connect(file)) as base:
        same(base.execute("SELECT * FROM more").fetchall(), [("kept",)], "their table")
        ours = "SELECT count(*) FROM sqlite_schema WHERE name LIKE 'sessfs%'"
        same(base.execute(ours).fetchone(), (0,), "tables of ours")


# gc


class Place:
    """A store with some sessions, mounted again when they have their ages."""

    def __init__(self, box, mounted, ages, options=(), filled=fill):
        self.box = box
        self.what = "mounted" if mounted else "alone"
        self.mounted = mounted
        self.mount = box.mount(options=options)
        self.store = self.mount.store
        for name in ages:
            filled(self.mount.at(name))
        self.expected = tree(self.mount.path)
        self.numbers = inodes(self.mount.path)
        self.mount.stop()
        for name, days in ages.items():
            age(self.mount, name, days)
        self.rows = rows(self.mount)
        if mounted:
            self.mount.start()

    def gc(self, *arguments, status=0):
        words = [a for a in arguments if a.startswith("-")]
        names = [a for a in arguments if not a.startswith("-")]
        done = do(self.box, "gc", "--json", *words, self.store, *names, status=status)
        return [(e["name"], e["action"]) for e in json.loads(done.stdout or "[]")]

    def names(self):
        if self.mounted:
            return sorted(os.listdir(self.mount.path))
        listed = json.loads(do(self.box, "ls", "--json", self.store).stdout)
        return sorted(entry["name"] for entry in listed)


    def keep_nothing_else(self):
        """What is removed through the mount is gone."""
        do(self.box, "config", self.store, "history=0")


def both(test):
    def run(box):
        for mounted in (False, True):
            test(box, mounted)

    return run


@both
def test_gc_removes_what_is_old_and_undo_brings_it_back_as_it_was(box, mounted):
    place = Place(box, mounted, {"old": 40, "mid": 20, "new": 1})
    same(place.gc("--older-than=30d", "--dry-run"), [("old", "remove")], "dry run")
    same(place.names(), ["mid", "new", "old"], f"{place.what}: after the dry run")
    same(place.gc("--older-than=30d"), [("old", "remove")], "gc")
    same(place.names(), ["mid", "new"], f"{place.what}: names")
    sessions = json.loads(do(box, "sessions", "--json", place.store).stdout)
    same([s["name"] for s in sessions], ["mid", "new"], "sessions")
    same(place.mount.sql(f"SELECT count(*) FROM {TABLE} WHERE session_id = 'old'")[0][0], 0, "rows")
    same(place.mount.sql(f"SELECT DISTINCT session_id FROM {TABLE} ORDER BY 1"),
         [(b"mid",), (b"new",)], "ids in the rows")
    check(box, place.store)
    same(place.gc("--older-than=30d"), [], "again")
    same(place.gc("--list"), [("old", "trash")], "the trash")
    same(place.gc("--undo", "old"), [("old", "undo")], "undo")
    same(place.rows, rows(place.mount), f"{place.what}: rows with their times")
    check(box, place.store)
    # It was brought back just now: it is not old.
    same(place.gc("--older-than=30d"), [], "after undo")
    if not mounted:
        place.mount.start()
    same_trees(place.expected, tree(place.mount.path), f"{place.what}: ")
    same(inodes(place.mount.path), place.numbers, "inode numbers")
    for path, attribute in (("old", b"session"), ("old/notes.txt", b"text")):
        same(os.getxattr(place.mount.at(path), "user.kind"), attribute, path)
    append(place.mount.at("old/deep/er/x.jsonl"), b"3\n")
    same(place.mount.rows("old", "deep/er/x"), [b"1", b"2", b"3"], "it goes on")
    place.mount.stop()
    check(box, place.store)


def processor_time_of(box, *arguments):
    """Seconds of a processor that a command needs, and the lines that it prints."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    lines = do(box, *arguments).stdout.count(b"\n")
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before, lines


@harness.soak
def test_four_times_as_many_take_four_times_as_long(box):
    """With a search through all for each of them it would be sixteen times."""
    took = {}
    for count in (15000, 60000):
        store = box.new_store()
        do(box, "append", store, "first/x.jsonl", stdin=b"{}\n")
        with contextlib.closing(sqlite3.connect(store)) as base, base:
            base.executemany(INSERT, ((f"s{i}", "m", 0, '"fox"') for i in range(count)))
        do(box, "search", "-n1", store, "fox")
        took["search", count], lines = processor_time_of(box, "search", f"-n{count}", "--json",
                                                         store, "fox")
        assert lines > count, lines
        do(box, "gc", "--older-than=0s", store)
        took["undo", count], lines = processor_time_of(box, "gc", "--undo", "-n", store)
        same(lines, count + 1, "what came back")
    box.note(f"seconds of a processor: {took}")
    for what in ("search", "undo"):
        assert took[what, 60000] < 8 * took[what, 15000] + 0.2, what


CRITERIA = [
    (["--older-than=30d"], ["old"]),
    (["--older-than=10d"], ["mid", "old"]),
    (["--older-than=10d", "--keep-last=3"], ["old"]),
    (["--keep-last=1"], ["big", "mid", "old"]),
    (["--keep-last=1", "--name=[bm]*"], ["big", "mid"]),
    (["--larger-than=100K"], ["big"]),
    (["--larger-than=100K", "--older-than=10d"], []),
    (["--name=mid"], ["mid"]),
    (["--older-than=0s"], ["big", "mid", "new", "old"]),
    ([], []),
]


def test_what_goes_fits_all_that_was_asked_for(box):
    def small(folder):
        os.mkdir(folder)
        write(f"{folder}/k.json", b"1")
        if folder.endswith("big"):
            write(f"{folder}/blob", b"x" * 200000)

    place = Place(box, False, {"old": 40, "mid": 20, "big": 5, "new": 0}, filled=small)
    for arguments, expected in CRITERIA:
        gone = place.gc("--dry-run", *arguments)
        same(sorted(name for name, _ in gone), expected, str(arguments))
        same({action for _, action in gone} - {"remove"}, set(), str(arguments))


@both
def test_every_kind_of_change_makes_a_session_young(box, mounted):
    """Rows of SQL, ordinary files alone, lines that are no rows: each counts."""
    names = ("sql", "plain", "invalid", "draft", "quiet")
    place = Place(box, True, {name: 40 for name in names})
    place.mount.sql(INSERT, ("sql", "added", 0, "1"))
    write(place.mount.at("plain/deep/more.txt"), b"x")
    append(place.mount.at("invalid/messages.jsonl"), b"\nstill no JSON\n")
    write(place.mount.at("draft/draft.json"), b'{"b": ')
    eventually(lambda: os.path.exists(place.mount.at("sql/added.json")), "the row has a file")
    if not mounted:
        place.mount.stop()
        place.mounted = False
    same(place.gc("--older-than=30d"), [("quiet", "remove")], place.what)


@both
def test_without_grace_nothing_is_left(box, mounted):
    place = Place(box, mounted, {"old": 40, "new": 1})
    place.keep_nothing_else()
    tables = ("node", "entry", "xattr", "chunk", "piece", "mark", "trash")
    same(place.gc("--older-than=30d", "--grace=0"), [("old", "remove"), ("old", "purge")], "gc")
    if mounted:
        place.mount.stop()
    counts = {t: place.mount.sql(f"SELECT count(*) FROM sessfs_{t}")[0][0] for t in tables}
    same(counts["trash"], 0, "rows in the trash")
    check(box, place.store)
    place.mount.start()
    shutil.rmtree(place.mount.at("new"))
    place.mount.stop()
    left = {t: place.mount.sql(f"SELECT count(*) FROM sessfs_{t}")[0][0] for t in tables}
    same(left, {**dict.fromkeys(tables, 0), "node": 2}, "the root and the trash alone")


@both
def test_what_is_past_its_grace_goes_for_good(box, mounted):
    place = Place(box, False, {"old": 40, "older": 50})
    place.gc("--older-than=30d")
    # As if the grace of one had been over for a second.
    place.mount.sql("UPDATE sessfs_entry SET name = CAST('5 7 older' AS BLOB) WHERE parent = 0 "
                    "AND CAST(name AS TEXT) LIKE '% older'")
    if mounted:  # a mount does it by itself
        place.mount.start()
        place.mounted = True
        eventually(lambda: place.gc("--list") == [("old", "trash")], "it is purged")
    else:
        same(place.gc("--dry-run"), [("older", "purge")], "dry run")
        same(place.gc(), [("older", "purge")], "gc")
    same(place.gc("--undo", status=0), [("old", "undo")], "what can come back")
    check(box, place.store)


@both
def test_a_purge_that_was_interrupted_goes_on_and_brings_nothing_back(box, mounted):
    place = Place(box, mounted, {"old": 40})
    place.gc("--older-than=30d")
    place.mount.sql("UPDATE sessfs_entry SET name = CAST('5 0 old' AS BLOB) WHERE parent = 0")
    same(place.gc("--undo"), [], "undo")
    refuses(box, "nothing of that name", "gc", "--undo", place.store, "old")
    if mounted:
        entry = place.mount.sql("SELECT id FROM sessfs_entry WHERE parent = 0")[0][0]
        order = [os.setxattr, place.mount.path, "user.sessfs.orders", b"undo %d" % entry]
        same(errno_of(*order), 2, "an order to bring it back")
    same(place.gc(), [("old", "purge")], "gc")
    same(place.mount.sql("SELECT count(*) FROM sessfs_trash")[0][0], 0, "rows")
    check(box, place.store)


@both
def test_undo_does_not_replace_a_session_that_has_come_since(box, mounted):
    place = Place(box, mounted, {"old": 40})
    place.keep_nothing_else()
    place.gc("--older-than=30d")
    do(box, "put", place.store, "old/k.json", stdin=b'"new"')
    place.gc("--undo", "old", status=1)
    same(do(box, "cat", place.store, "old/k.json").stdout, b'"new"', "the new one")
    do(box, "rm", "-r", place.store, "old")
    eventually(lambda: not place.mount.rows("old", "k"), "its rows go")
    same(place.gc("--undo", "old"), [("old", "undo")], "undo")
    same(place.rows, rows(place.mount), "rows")


def test_of_several_with_one_name_the_last_one_comes_back(box):
    place = Place(box, False, {"s": 40})
    place.gc("--older-than=30d")
    do(box, "put", place.store, "s/k.json", stdin=b'"second"')
    place.gc("--older-than=0s")
    same(place.gc("--list"), [("s", "trash"), ("s", "trash")], "the trash")
    same(place.gc("--undo", "s"), [("s", "undo")], "undo")
    same(do(box, "cat", place.store, "s/k.json").stdout, b'"second"', "the one that came back")


def test_a_session_in_use_is_not_removed(box):
    place = Place(box, True, {"a": 40, "b": 40, "c": 40})
    with open(place.mount.at("a/notes.txt")), open(place.mount.at("b/messages.jsonl"), "ab"):
        same(sorted(place.gc("--older-than=30d")),
             [("a", "keep"), ("b", "keep"), ("c", "remove")], "while files are open")
    eventually(lambda: len(place.gc("--older-than=30d", "--dry-run")) == 2, "they are closed")
    with open(place.mount.at("a/notes.txt"), "ab") as notes:
        notes.write(b"x")
    same(place.gc("--older-than=30d"), [("b", "remove")], "what was written just now stays")
    # Asked for by size, what is young stays.
    same(place.gc("--larger-than=1"), [], "young ones")


def test_a_mount_forgets_what_was_removed_and_knows_what_came_back(box):
    place = Place(box, True, {"old": 40}, options=["history=0"])
    path = place.mount.at("old/agent.json")
    same(read(path), b'{"turns": 1}\n', "before")
    os.stat(place.mount.at("old/deep/er"))
    inside = os.open(place.mount.at("old/deep"), os.O_RDONLY | os.O_DIRECTORY)
    eventually(lambda: place.gc("--older-than=30d") == [("old", "remove")], "it is closed")
    # The kernel, which holds the root for the order, hears of it after that.
    eventually(lambda: not os.path.lexists(place.mount.at("old")), "it goes")
    for name in ("old/agent.json", "old/deep/er/x.jsonl"):
        assert not os.path.lexists(place.mount.at(name)), f"{name} is still there"
    assert errno_of(os.open, "new.json", os.O_WRONLY | os.O_CREAT, dir_fd=inside), "made inside"
    same(os.listdir(place.mount.path), [], "names")
    os.mkdir(place.mount.at("old"))
    write(place.mount.at("old/agent.json"), b"2")
    same(read(path), b"2", "another one of that name")
    shutil.rmtree(place.mount.at("old"))
    eventually(lambda: not place.mount.rows("old", "agent"), "its rows go")
    same(place.gc("--undo", "old"), [("old", "undo")], "undo")
    same(read(path), b'{"turns": 1}\n', "after")
    same_trees(place.expected, tree(place.mount.path))
    same(os.listdir(inside), ["er"], "a directory that was open meanwhile")
    os.close(inside)
    os.utime(path, (5, 5))
    os.unlink(place.mount.at("old/k.json"))
    place.mount.stop()
    check(box, place.store)


def test_a_name_of_a_file_outside_the_session_stays(box):
    place = Place(box, True, {"old": 40, "new": 0})
    os.link(place.mount.at("old/notes.txt"), place.mount.at("new/kept.txt"))
    same(os.stat(place.mount.at("new/kept.txt")).st_nlink, 3, "links")
    place.mount.stop()
    age(place.mount, "old", 40)
    place.mount.start()
    place.gc("--older-than=30d", "--grace=0")
    same(read(place.mount.at("new/kept.txt")), b"n" * 70000, "the file")
    same(os.stat(place.mount.at("new/kept.txt")).st_nlink, 1, "links")
    place.mount.remount()
    same(read(place.mount.at("new/kept.txt")), b"n" * 70000, "the file after remounting")
    place.mount.stop()
    check(box, place.store)


def test_a_kill_during_gc_removes_whole_sessions_only(box):
    names = [f"s{i:02}" for i in range(20)]

    def some(folder):
        os.mkdir(folder)
        for i in range(4):
            write(f"{folder}/k{i}.json", b"1")

    place = Place(box, True, {name: 40 for name in names}, filled=some)
    process = subprocess.Popen([box.program, "gc", "--older-than=30d", place.store],
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    eventually(lambda: len(os.listdir(place.mount.path)) < len(names), "one has gone")
    kill(place.mount)
    process.communicate()
    check(box, place.store)
    place.mounted = False
    left = place.names()
    trashed = sorted(name for name, _ in place.gc("--list"))
    same(sorted(left + trashed), names, "sessions here and there")
    for name in left:
        same(len(place.mount.sql(f"SELECT 1 FROM {TABLE} WHERE session_id = ?", (name,))), 4, name)
    place.gc("--undo")
    same(place.rows, rows(place.mount), "all are back")
    box.note(f"{len(trashed)} of {len(names)} were removed when the daemon was killed")


def test_a_repaired_store_has_its_trash(box):
    place = Place(box, False, {"old": 40, "new": 1})
    place.gc("--older-than=30d")
    new = box.new_path("repaired")
    same(box.sessfs("check", "--repair", place.store, new).returncode, 0, "all was whole")
    check(box, new)
    do(box, "gc", "--undo", new)
    check(box, new)
    same_trees(place.expected, shown(box, new))
    with contextlib.closing(sqlite3.connect(new)) as base:
        base.text_factory = bytes
        same(sorted(base.execute(ROWS).fetchall()), place.rows, "rows")


def test_only_who_may_write_to_the_root_orders(box):
    mount, session = box.session()
    same(os.getxattr(mount.path, "user.sessfs.orders"), b"1", "orders are understood")
    same(errno_of(os.setxattr, mount.path, "user.sessfs.orders", b"trash x"), 22, "nonsense")
    same(errno_of(os.setxattr, mount.path, "user.sessfs.orders", b"undo 99"), 2, "no such id")
    assert "user.sessfs.orders" not in os.listxattr(mount.path)
    # Who orders says since when nothing may have changed; it is judged again.
    write(f"{session}/k.json", b"1")

    def ordered():
        return errno_of(os.setxattr, mount.path, "user.sessfs.orders", b"trash 5 0 s")

    # The kernel lets go of a file some time after its close; until then it is in use.
    eventually(lambda: ordered() != errno.EBUSY, "it is closed")
    same(ordered(), errno.ECANCELED, "changed")
    same(os.listdir(mount.path), ["s"], "names")
    mount.remount(options=["ro"])
    assert errno_of(os.setxattr, mount.path, "user.sessfs.orders", b"undo 99") in (1, 30), "ro"
    refuses(box, "read-only", "gc", "--older-than=1d", mount.store)


def test_gc_takes_in_another_programs_rows_and_believes_their_times(box):
    store = box.new_path("theirs") + ".db"
    with contextlib.closing(sqlite3.connect(store, isolation_level=None)) as base:
        base.execute(f"CREATE TABLE {TABLE} (session_id TEXT, state_key TEXT, item_index INTEGER, "
                     "state_data TEXT, created_at TIMESTAMP, updated_at TIMESTAMP, "
                     "PRIMARY KEY (session_id, state_key, item_index))")
        for name, days in (("old", 40), ("new", 0)):
            base.execute(f"INSERT INTO {TABLE} VALUES (?, 'k', 0, '1', datetime('now', ?), "
                         "datetime('now', ?))", (name, f"-{days} days", f"-{days} days"))
        before = base.execute(f"SELECT * FROM {TABLE} ORDER BY 1").fetchall()
    same(told(box, "gc", "--json", "--older-than=30d", store)[0]["name"], "old", "gc")
    do(box, "gc", "--undo", store)
    with contextlib.closing(sqlite3.connect(store)) as base:
        same(base.execute(f"SELECT * FROM {TABLE} ORDER BY 1").fetchall(), before, "their rows")


# ttl


def test_a_ttl_is_an_attribute_that_travels(box):
    mount, session = box.session()
    for value in (b"3600", b"30d", b"2h", b"90m", b"1w", b"1y", b"0", b"never"):
        os.setxattr(session, "user.sessfs.ttl", value)
        same(os.getxattr(session, "user.sessfs.ttl"), value, "what was set")
    for value in (b"", b"x", b"30 d", b"-1", b"1.5h", b"30dd", b"9" * 30, b"99999999999y", b"d"):
        same(errno_of(os.setxattr, session, "user.sessfs.ttl", value), 22, repr(value))
    same(os.getxattr(session, "user.sessfs.ttl"), b"never", "after refusals")
    write(f"{session}/k.json", b"1")
    same(told(box, "sessions", "--json", mount.store)[0]["ttl"], "never", "sessions")
    os.mkdir(mount.at("t"))
    same([s["ttl"] for s in told(box, "sessions", "--json", "--sort=age", mount.store)
          if s["name"] == "t"], [None], "none")
    other = box.mount()
    for command in (
        f"tar --xattrs --xattrs-include='user.*' -C {mount.path} -cf - s | "
        f"tar --xattrs --xattrs-include='user.*' -C {other.path} -xf -",
        f"rsync -aX {session}/ {other.path}/r/",
    ):
        if shutil.which(command.split()[0]):
            harness.shell(command)
    for name in os.listdir(other.path):
        same(os.getxattr(other.at(name), "user.sessfs.ttl"), b"never", name)


def test_a_session_goes_when_its_ttl_has_run_out(box):
    place = Place(box, True, {"own": 3, "kept": 3, "long": 3, "none": 3})
    for name, value in (("own", b"2d"), ("kept", b"never"), ("long", b"5d")):
        os.setxattr(place.mount.at(name), "user.sessfs.ttl", value)
    # The daemon looks by itself, a few seconds after a ttl was set.
    eventually(lambda: place.names() == ["kept", "long", "none"], "the daemon removes it")
    eventually(lambda: "session own was removed" in place.mount.log(), "it says so")
    same(place.mount.log().count("was removed"), 1, "lines in the log")
    same(place.gc("--undo", "own"), [("own", "undo")], "undo")
    place.mount.stop()
    place.mounted = False
    same(place.gc(), [], "gc, after its return")
    for name in ("long", "kept", "none"):
        age(place.mount, name, 10)
    same(place.gc("--dry-run"), [("long", "remove")], "gc without options")
    same(sorted(place.gc("--older-than=1d")), [("long", "remove"), ("none", "remove")],
         "gc for all that are old")


def test_a_grace_below_an_hour_is_told_in_seconds(box):
    place = Place(box, False, {"old": 40, "new": 1})
    place.mount.options = ["ttl=30d", "grace=90s"]
    place.mount.start()
    eventually(lambda: "can restore it for 90 s" in place.mount.log(), "it says so")
    same(place.gc("--undo"), [("old", "undo")], "undo")
    place.mount.stop()
    box.sessfs("config", place.mount.store, "grace=20m", check=True)
    shown = box.sessfs("config", place.mount.store, check=True).stdout
    same(b"20m" in shown, True, shown)


def test_a_mount_with_a_ttl_removes_what_is_old(box):
    place = Place(box, False, {"old": 40, "kept": 40, "new": 1, "open": 40})
    place.mount.start()
    os.setxattr(place.mount.at("kept"), "user.sessfs.ttl", b"0")
    place.mount.stop()
    place.mount.options = ["ttl=30d", "grace=1h"]
    place.mount.start()
    place.mounted = True
    # The first look comes with the mount.
    eventually(lambda: place.names() == ["kept", "new"], "they go")
    item = told(box, "gc", "--json", "--list", place.store)[0]
    assert 3500 < item["until"] - item["removed"] < 3700, item
    os.removexattr(place.mount.at("kept"), "user.sessfs.ttl")
    eventually(lambda: place.names() == ["new"], "that goes, too")
    wanted = [("kept", "undo"), ("old", "undo"), ("open", "undo")]
    same(sorted(place.gc("--undo")), wanted, "undo")
    place.mount.stop()
    check(box, place.store)
    same(place.rows, rows(place.mount), "rows")


def test_a_mount_for_reading_and_a_verb_remove_nothing(box):
    place = Place(box, False, {"old": 40})
    place.mount.start()
    os.setxattr(place.mount.at("old"), "user.sessfs.ttl", b"never")
    place.mount.stop()
    # As if it had been set elsewhere.
    place.mount.sql("UPDATE sessfs_xattr SET value = CAST('1d' AS BLOB) "
                    "WHERE name = CAST('user.sessfs.ttl' AS BLOB)")
    do(box, "put", place.store, "x/k.json", stdin=b"1")
    place.mount.options = ["ro", "ttl=1d"]
    place.mount.start()
    same(sorted(os.listdir(place.mount.path)), ["old", "x"], "names")
    place.mount.remount(options=[])
    eventually(lambda: os.listdir(place.mount.path) == ["x"], "a mount that writes removes it")


def test_wrong_options_are_refused(box):
    for argument in ("--older-than=x", "--keep-last=x", "--grace=1x", "--larger-than="):
        same(box.sessfs("gc", argument, "store").returncode, 2, argument)
    same(box.sessfs("gc", "store", "session").returncode, 2, "a session without --undo")
    same(box.sessfs("backup", "store").returncode, 2, "no file")
    same(box.sessfs("restore", "store").returncode, 2, "no store")
    for option in ("ttl=x", "ttl", "grace=1.5h"):
        same(box.sessfs("mount", "-o", option, "store", box.folder).returncode, 2, option)


# umount


def test_umount_tells_who_holds_a_mount(box):
    mount, session = box.session()
    holder = subprocess.Popen(["sleep", "60"], cwd=session)
    with open(f"{session}/notes.txt", "wb"):
        done = do(box, "umount", mount.path, status=1)
        for word in ("busy", f"sleep ({holder.pid}) works in it", f"({os.getpid()}) has a file"):
            assert word in said(done), (word, said(done))
    holder.kill()
    holder.wait()
    do(box, "umount", mount.path)
    same(mount.wait_for_end(), 0, "the daemon's end")
    mount.forget()


def test_umount_takes_several_and_stores(box):
    one, two, three = (box.mount(background=True) for _ in range(3))
    reader = box.mount(store=three.store, options=["ro"], background=True)
    pids = [one.pid, two.pid, three.pid, reader.pid]
    done = do(box, "umount", one.path, box.folder + "/none", two.store, three.store, status=1)
    assert "nothing is mounted on" in said(done), said(done)
    # It has waited for the ends: nothing needs to be waited for here.
    same([alive(pid) for pid in pids], [False] * 4, "daemons")
    same([mounts_below(m.path) for m in (one, two, three, reader)], [[]] * 4, "mounts")
    same([os.path.exists(m.store + "-wal") for m in (one, two, three)], [False] * 3, "logs")
    for mount in (one, two, three, reader):
        mount.forget()
    refuses(box, f"the store {one.store} is not mounted", "umount", one.store)


def test_a_lazy_umount_lets_go_of_the_name_at_once(box):
    mount, session = box.session(background=True)
    with open(f"{session}/notes.txt", "wb", buffering=0) as notes:
        do(box, "umount", mount.path, status=1)
        do(box, "umount", "-l", mount.path)
        same(mounts_below(mount.path), [], "mounts")
        assert alive(mount.pid), "the daemon has ended under an open file"
        notes.write(b"still written")
    mount.wait_for_end()
    mount.forget()
    same(do(box, "cat", mount.store, "s/notes.txt").stdout, b"still written", "the file")


def test_what_killed_backups_have_left_goes_with_the_next_one(box):
    folder = box.new_folder()
    store, copy = box.new_path("store"), os.path.join(folder, "copy[1].db")
    box.sessfs("put", store, "s/k.json", stdin=b"1", check=True)

    def temporary(name, end):
        return os.path.join(folder, f".{name}.sessfs-{end}")

    empty, half, whole = (temporary(name, "aaaaaa") for name in ("copy[1].db", "b*.db", "c.db"))
    write(empty, b"")
    write(half, bytes(1 << 16))
    write(half + "-wal", b"")
    shutil.copyfile(store, whole)
    alive = [temporary(name, "bbbbbb") for name in ("copy[1].db", "b*.db")]
    others = [temporary("c.db", "cccccc"), temporary("c.db", "x"), os.path.join(folder, ".c.db")]
    for name in alive:
        write(name, b"")
    for name in others:
        write(name, b"no database")
    shutil.copyfile(store, os.path.join(folder, "c.db.sessfs-aaaaaa"))
    others.append(os.path.join(folder, "c.db.sessfs-aaaaaa"))
    used = box.mount(store=temporary("used.db", "dddddd"))
    with contextlib.ExitStack() as held:
        for name in alive:
            fcntl.flock(held.enter_context(open(name)), fcntl.LOCK_EX)
        box.sessfs("backup", store, copy, check=True)
    names = {os.path.basename(name) for name in (*alive, *others, copy)}
    same({n for n in os.listdir(folder) if "used" not in n}, names, "what is there")
    os.mkdir(used.at("t"))
    used.stop()
    box.sessfs("restore", used.store, os.path.join(folder, "restored.db"), check=True)
    same(do(box, "ls", os.path.join(folder, "restored.db")).stdout, b"t/\n", "a copy of a copy")
    same(os.path.exists(used.store), True, "the file that was restored")


if __name__ == "__main__":
    harness.main(globals())
