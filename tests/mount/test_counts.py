#!/usr/bin/python3 -B
# SPDX-License-Identifier: MIT
"""sessions and stats: what they say is what the rows are.
SESSFS_COUNTS_STEPS: how many changes are tried, SESSFS_SEED: which."""

import calendar
import collections
import contextlib
import json
import os
import random
import re
import shutil
import sqlite3
import time

import harness
from harness import HANG, TABLE, append, eventually, need_root, read, same, tool, write
from places import Place

STEPS = harness.rounds("SESSFS_COUNTS_STEPS", 15, 60)
SEED = os.environ.get("SESSFS_SEED", "20261126")
ENOUGH = 3000
INSERT = (f"INSERT INTO {TABLE} (session_id, state_key, item_index, state_data, created_at, "
          "updated_at) VALUES (?, ?, ?, ?, ?, ?)")
NOW = "2026-11-26 10:00:00.123"
TIMES = (NOW, NOW, "2020-02-03T04:05:06Z", "1969-12-30 01:02:03", 1234567890, 1234567890.25, None,
         "soon", "2020-02-03 04:05:06.5")


def nanoseconds(stamp):
    """Of what is in TIMES, and what sessfs and SQLite write."""
    if isinstance(stamp, (int, float)):
        return int(stamp * 1000000) * 1000
    found = re.fullmatch(r"(\d+-\d+-\d+)[ T](\d+:\d+:\d+)(\.\d+)?Z?", stamp or "")
    if not found:
        return 0
    seconds = calendar.timegm(time.strptime(" ".join(found.groups()[:2]), "%Y-%m-%d %H:%M:%S"))
    return seconds * 10**9 + int(float(found[3] or 0) * 1000 + 0.5) * 10**6


def earliest(times):
    return min((time for time in times if time), default=0)


def reference(place):
    """What sessions and stats have to say, by the rows and the directories."""
    with contextlib.closing(sqlite3.connect(place.store, timeout=HANG)) as base:
        base.execute("BEGIN")
        rows = base.execute(f"SELECT session_id, state_key, length(CAST(state_data AS BLOB)), "
                            f"created_at, updated_at FROM {TABLE}").fetchall()
        dirs = base.execute("SELECT session_id, mtime FROM sessfs_node WHERE kind = 1 AND "
                            "nlink > 0").fetchall()
    keys, days = collections.defaultdict(list), collections.defaultdict(lambda: [0, 0])
    known = {stamp: nanoseconds(stamp) for stamp in {stamp for row in rows for stamp in row[3:]}}
    for session, key, size, created, updated in rows:
        keys[session, key].append((size, known[created], known[updated]))
        if known[created]:
            day = days[known[created] // (86400 * 10**9)]
            day[0] += 1
            day[1] += size
    found = {session: [0, 0, 0, None, mtime] for session, mtime in dirs}
    for session in {session for session, _ in keys}:
        found[session] = [0, 0, 0, None, 0]
    for (session, _), items in keys.items():
        sizes, created, updated = zip(*items)
        entry, oldest = found[session], earliest(created)
        entry[3] = oldest if entry[3] is None else min(entry[3], oldest)
        entry[:3] = entry[0] + 1, entry[1] + len(sizes), entry[2] + sum(sizes)
        entry[4] = max(entry[4], *updated)
    return found, dict(days)


def seconds_of(nanosecond):
    """As they are printed."""
    return float("%.13g" % (nanosecond / 1e9)) if nanosecond else None


def day_of(text):
    return calendar.timegm(time.strptime(text, "%Y-%m-%d")) // 86400


def told(place, verb):
    return json.loads(place.do(verb, "--json", place.store))


def compare(place, what):
    """What they say is what there is; a mount may just be about to write."""
    for _ in range(100):
        before = reference(place)
        listed, stats = told(place, "sessions"), told(place, "stats")
        found, days = reference(place)
        if before == (found, days):
            break
    same(before, (found, days), f"{what}: it keeps changing")
    wanted = [(session, *entry[:3], seconds_of(entry[3]), seconds_of(entry[4]))
              for session, entry in sorted(found.items(), key=lambda item: item[0].encode())]
    names = ("id", "keys", "items", "bytes", "created", "changed")
    same([tuple(row[name] for name in names) for row in listed], wanted, f"{what}: sessions")
    same({day_of(day["day"]): [day["items"], day["bytes"]] for day in stats["days"]}, days,
         f"{what}: days")
    sums = [sum(entry[at] for entry in found.values()) for at in range(3)]
    same([stats[name] for name in ("sessions", "keys", "items", "bytes")], [len(found), *sums],
         f"{what}: stats")
    times = (earliest(entry[3] for entry in found.values()),
             max((entry[4] for entry in found.values()), default=0))
    same((stats["created"], stats["changed"]), tuple(map(seconds_of, times)), f"{what}: times")


def large(box, mounted=False, count=ENOUGH):
    """A place that has enough rows."""
    place = Place(box, mounted)
    place.do("put", place.store, "base/l.jsonl",
             stdin=b"".join(b'{"n": %d}\n' % number for number in range(count)))
    return place


# Whatever changes


class Changes:
    def __init__(self, place, random_):
        self.place, self.random = place, random_

    def some(self):
        return json.dumps({"x": "é" * self.random.randrange(30)}).encode()

    def lines(self):
        return b"".join(self.some() + b"\n" for _ in range(self.random.randrange(1, 5)))

    def session(self):
        return self.random.choice(("a", "b", "c", "zé", "base"))

    def key(self):
        return self.random.choice(("l", "l", "m", "k"))

    def path(self):
        key = self.key()
        return f"{self.session()}/{key}.json" + ("" if key == "k" else "l")

    # By SQL

    def sql(self, *statements):
        with contextlib.closing(sqlite3.connect(self.place.store, timeout=HANG)) as base:
            with base:
                for statement, *parameters in statements:
                    base.execute(statement, parameters)

    def row(self, session, key, index):
        return (INSERT, session, key, index, self.some().decode(), self.random.choice(TIMES),
                self.random.choice(TIMES))

    def sql_append(self):
        session, key = self.session(), self.key()
        with contextlib.closing(sqlite3.connect(self.place.store, timeout=HANG)) as base:
            last, = base.execute(f"SELECT max(item_index) FROM {TABLE} WHERE session_id = ? AND "
                                 "state_key = ?", (session, key)).fetchone()
        first = 0 if last is None else last + 1
        self.sql(*(self.row(session, key, first + number) for number in range(3)))

    def sql_update(self):
        self.sql((f"UPDATE {TABLE} SET state_data = ? WHERE session_id = ? AND item_index % 3 = 1",
                  self.some().decode(), self.session()))

    def sql_delete(self):
        self.sql((f"DELETE FROM {TABLE} WHERE session_id = ? AND state_key = ? AND item_index "
                  "BETWEEN 2 AND 4", self.session(), self.key()))

    def sql_replace(self):
        session, key = self.session(), self.random.choice(("m", "k"))
        self.sql((f"DELETE FROM {TABLE} WHERE session_id = ? AND state_key = ?", session, key),
                 *(self.row(session, key, number) for number in range(self.random.randrange(3))))

    def sql_hash(self):
        self.sql((INSERT.replace("INSERT", "INSERT OR REPLACE"), self.session(), "l:_hash", 0,
                  "%x" % self.random.randrange(1 << 40), NOW, NOW))

    def sql_times(self):
        """Of whole keys: who changes times alone is not heard of, but by the last row."""
        self.sql((f"UPDATE {TABLE} SET created_at = ?, updated_at = ? WHERE session_id = ? AND "
                  "state_key <> 'l'", *self.random.choices(TIMES, k=2), self.session()))

    # By verbs

    def verb_put(self):
        path = self.path()
        self.place.do("put", self.place.store, path,
                      stdin=self.lines() if path.endswith("l") else self.some())

    # SQL may have removed the session a moment ago.

    def verb_append(self):
        path = f"{self.session()}/l.jsonl"
        self.place.box.sessfs("append", self.place.store, path, stdin=self.lines())

    def verb_rm(self):
        self.place.box.sessfs("rm", self.place.store, self.path())

    # By a mount, of what may not be there, or go with its last row

    def mount_append(self, mount):
        path = mount.at(self.session(), "l.jsonl")
        append(path, self.lines())

    def mount_torn(self, mount):
        path = mount.at(self.session(), "l.jsonl")
        append(path, self.random.choice((b"1", b"2\n", b"no\n", self.some())))

    def mount_make(self, mount):
        os.makedirs(mount.at(self.session()), exist_ok=True)

    def mount_save(self, mount):
        path = mount.at(self.path())
        write(path, self.random.choice((b"{no JSON", self.some(), self.lines(), b"")))

    def mount_replace(self, mount):
        path = mount.at(self.path())
        write(path + ".tmp", self.lines())
        os.replace(path + ".tmp", path)

    def mount_truncate(self, mount):
        path = mount.at(self.path())
        os.truncate(path, self.random.randrange(os.stat(path).st_size + 1))

    def mount_rename(self, mount):
        names = [name for name in os.listdir(mount.path) if name != "base"]
        if names:
            os.rename(mount.at(self.random.choice(names)), mount.at(f"r{time.monotonic_ns()}"))

    def mount_rename_key(self, mount):
        session = self.session()
        os.rename(mount.at(session, "l.jsonl"), mount.at(session, "m.jsonl"))

    def mount_move(self, mount):
        os.rename(mount.at(self.session(), "l.jsonl"), mount.at(self.session(), "l.jsonl"))

    def mount_unlink(self, mount):
        os.unlink(mount.at(self.path()))

    def mount_rmtree(self, mount):
        names = [name for name in os.listdir(mount.path) if name != "base"]
        if names:
            shutil.rmtree(mount.at(self.random.choice(names)))

    def step(self, mounts):
        """One change; its name."""
        names = [name for name in dir(self) if name.startswith(("sql_", "verb_", "mount_"))
                 and (mounts or not name.startswith("mount_"))]
        name = self.random.choice(names)
        some = [self.random.choice(mounts)] if name.startswith("mount_") else []
        with contextlib.suppress(FileNotFoundError):
            getattr(self, name)(*some)
        return name


def test_whatever_changes_is_counted(box):
    random_ = random.Random(SEED)
    box.note(f"SESSFS_SEED={SEED}")
    for mounted in (False, True):
        place = large(box, mounted)
        second = box.mount(place.store) if mounted else None
        mounts = [place.mount, second] if mounted else []
        changes = Changes(place, random_)
        compare(place, "at first")
        for number in range(STEPS):
            done = [changes.step(mounts) for _ in range(random_.randrange(1, 4))]
            compare(place, f"{place.what}: {number}: {done}")
            if mounted and random_.randrange(20) == 0:
                second.stop()
                second.start()


def test_what_is_in_the_trash_is_not_counted(box):
    place = large(box)
    for name in ("a", "b"):
        place.do("put", place.store, f"{name}/l.jsonl", stdin=b"1\n2\n")
    compare(place, "before")
    time.sleep(1.1)
    place.do("gc", "--older-than=1s", "--name=[ab]", place.store)
    same([row["id"] for row in told(place, "sessions")], ["base"], "what is left")
    compare(place, "gone")
    place.do("gc", "--undo", place.store, "a")
    place.do("put", place.store, "b/l.jsonl", stdin=b"3\n")
    compare(place, "one is back, one is another")


def test_sessions_of_a_layout_are_counted(box):
    mount = box.mount(options=["layout=agentscope2+pi"])
    folder = mount.at("pi", "sessions", "p")
    os.makedirs(folder)
    path = os.path.join(folder, "x.jsonl")
    write(path, b"".join(b'{"n": %d}\n' % number for number in range(ENOUGH)))
    place = Place(box, False)
    place.store = mount.store
    compare(place, "a file")
    append(path, b"{}\n")
    compare(place, "more")
    write(os.path.join(folder, "y.jsonl"), b"1\n")
    os.makedirs(mount.at("alice", "s1", "sub"))
    write(mount.at("alice", "s1", "sub", "l.jsonl"), b"1\n")
    compare(place, "two more")
    os.unlink(path)
    # It is listed no more, but its rows stay for a moment, as a new file may take them.
    eventually(lambda: "pi:p:x" not in reference(place)[0], "its rows go")
    compare(place, "another")
    mount.stop()
    compare(place, "not mounted")


def test_changes_that_cannot_be_taken_in_are_counted_each_time(box):
    place = large(box)
    compare(place, "before")
    changes = Changes(place, random.Random(SEED))
    for index in (3, 4):
        changes.sql((f"UPDATE {TABLE} SET state_data = ? WHERE session_id = 'base' AND "
                     "item_index = 3", "1" * index))
        compare(place, "an item in the middle")
    changes.sql(changes.row("new", "k", 0), changes.row("base", "l", -1))
    compare(place, "a new key")
    with place.mounted():
        compare(place, "taken in")
    compare(place, "after that")
    changes.sql(("DROP TRIGGER sessfs_row_update",),
                (f"UPDATE {TABLE} SET state_data = '7' WHERE session_id = 'base' AND "
                 "item_index = 5",))
    compare(place, "without being told")
    changes.sql(*((INSERT, f"s{number}", "k", 0, "1", NOW, NOW) for number in range(1200)))
    compare(place, "more than are remembered")


def test_tables_without_times_and_in_utf_16_are_counted(box):
    for number, first in enumerate(("PRAGMA encoding = 'UTF-16le'", "PRAGMA encoding = 'UTF-8'")):
        place = Place(box, False)
        place.store = box.new_store()
        times = ", created_at, updated_at" if number == 0 else ""
        with contextlib.closing(sqlite3.connect(place.store)) as base:
            base.execute(first)
            base.execute(f"CREATE TABLE {TABLE} (session_id TEXT NOT NULL, state_key TEXT NOT "
                         "NULL, item_index INTEGER NOT NULL DEFAULT 0, state_data TEXT NOT NULL"
                         f"{times}, PRIMARY KEY (session_id, state_key, item_index))")
            with base:
                base.executemany(f"INSERT INTO {TABLE} (session_id, state_key, item_index, "
                                 "state_data) VALUES (?, ?, ?, ?)",
                                 ((f"s{row % 3}", "l", row // 3, '"é"') for row in range(20000)))
        sizes = 6 if number == 0 else 4
        for what in ("another program's", "adopted", "known"):
            stats = told(place, "stats")
            same((stats["items"], stats["bytes"]), (20000, 20000 * sizes), f"{first}: {what}")
            if what == "another program's":
                mount = box.mount(place.store)
                mount.stop()
        old = read(place.store)
        for text in ("a", "bcd"):
            write(place.store, old)
            place.do("append", place.store, "s1/l.jsonl", stdin=f'"{text}"\n'.encode())
            stats = told(place, "stats")
            more = (len(text) + 2) * (2 if number == 0 else 1)
            same((stats["items"], stats["bytes"]), (20001, 20000 * sizes + more), f"{first}: more")


def test_items_before_the_last_one_are_counted_when_they_change(box):
    place = large(box, True)
    lines = [b'{"n": %d}\n' % number for number in range(ENOUGH)]
    compare(place, "before")
    lines[7] = b"7777\n"
    place.do("put", place.store, "base/l.jsonl", stdin=b"".join(lines))
    compare(place, "saved")
    version = place.do("compact", place.store, "base/l.jsonl").decode().strip()
    place.do("compact", "--items=3-5", f"--if={version}", place.store, "base/l.jsonl",
             stdin=b"3\n4\n5\n")
    compare(place, "compacted")
    path = place.mount.at("base", "l.jsonl")
    with open(path, "rb"):
        changes = Changes(place, random.Random(SEED))
        changes.sql((f"UPDATE {TABLE} SET state_data = '99' WHERE session_id = 'base' AND "
                     "item_index = 9",))
        eventually(lambda: b"\n99\n" in read(path), "it is taken in")
    compare(place, "by SQL")
    append(path, b"1")
    compare(place, "torn")
    append(path, b"2\n3\n")
    compare(place, "and whole")


def test_a_store_that_nobody_may_write_beside(box):
    need_root()
    place = large(box)
    folder = box.new_folder("read-only")
    changes = Changes(place, random.Random(SEED))
    changes.sql(changes.row("base", "l", 3 + ENOUGH), changes.row("b", "k", 0))
    shutil.copy(place.store, os.path.join(folder, "s.db"))
    tool("mount", "--bind", folder, folder)
    try:
        tool("mount", "-o", "remount,ro,bind", folder)
        wanted = reference(place)[0]
        place.store = os.path.join(folder, "s.db")
        for _ in range(2):
            seen = {row["id"]: row["items"] for row in told(place, "sessions")}
            same(seen, {session: entry[1] for session, entry in wanted.items()}, "what is told")
    finally:
        tool("umount", folder)


if __name__ == "__main__":
    harness.main(globals())
