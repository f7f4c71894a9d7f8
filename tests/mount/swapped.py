# SPDX-License-Identifier: MIT
"""How a service of AgentScope that compares versions fares beside files.

It saves a single state if the row has the version that it has read, and 0 is of no row at all.  So
whatever writes a single has to raise the version of its row, in whatever way.

    swapped.rises(box, mount, table)   # table: agentscope.Table, with versions
"""

import concurrent.futures
import ctypes
import os
import threading

from agentscope import WHERE
from harness import append, read, same, write

SESSION, KEY = "s", "k"
EXCHANGE = 2  # RENAME_EXCHANGE


class Row:
    """A single state as the service and as the mount see it."""

    def __init__(self, mount, table, session=SESSION, key=KEY):
        self.mount = mount
        self.table = table
        self.place = session, key
        self.path = mount.at(session, key + ".json")
        self.count = 0

    def version(self):
        rows = self.table.ask(f"SELECT version FROM {{0}} {WHERE} AND item_index = 0", *self.place)
        return int(rows[0][0]) if rows else None

    def data(self):
        rows = self.table.rows(*self.place)
        return rows[0] if isinstance(rows[0], bytes) else rows[0].encode()

    def text(self):
        self.count += 1
        return b'{"n": %d}' % self.count

    def claim(self, version):
        """Whether a save of the service that has read this version is one."""
        text = '{"by": "service"}'
        self.table.ask("UPDATE {0} SET state_data = ?, version = ? "
                       f"{WHERE} AND item_index = 0 AND version = ?", text, version + 1,
                       *self.place, version)
        return self.data() == text.encode()

    def upsert(self, text):
        """What it saves without a comparison."""
        if self.version() is None:
            self.table.ask("INSERT INTO {0} (session_id, state_key, item_index, state_data, "
                           "version) VALUES (?, ?, 0, ?, 1)", *self.place, text)
        else:
            self.table.ask(f"UPDATE {{0}} SET state_data = ?, version = version + 1 {WHERE} AND "
                           "item_index = 0", text, *self.place)

    def rises(self, what, change, *arguments):
        """Every version that the service may have read is one of the past after a change."""
        seen = set()
        for _ in range(2):
            if os.path.exists(self.path):
                seen.add(self.version())
            change(self, *arguments)
            same(self.data(), read(self.path), f"{what}: what SQL has")
            same(self.version() not in seen | {None, 0}, True,
                 f"{what}: {self.version()} is none of {seen}")
            for version in seen:
                same(self.claim(version), False, f"{what}: a save of {version}")


def rename_over(row):
    write(row.path + ".tmp", row.text())
    os.rename(row.path + ".tmp", row.path)


def in_place(row):
    write(row.path, row.text())


def in_place_large(row):
    """Above what a store keeps in memory several times."""
    write(row.path, row.text() + b" " * (3 << 20))


def edit(row):
    with open(row.path, "r+b") as file:
        file.write(row.text())
        file.truncate()


def add_blank(row):
    append(row.path, b"\n")


def cut(row):
    os.truncate(row.path, os.path.getsize(row.path) - 1)


def another_over(row):
    other = row.mount.at(SESSION, "other.json")
    write(other, row.text())
    os.rename(other, row.path)


def away_and_another(row):
    """Two files of the same version: only one of them is what the service has read."""
    other, old = row.mount.at(SESSION, "other.json"), row.mount.at(SESSION, "old.json")
    for _ in range(min(row.version(), 20)):
        write(other, row.text())
    os.rename(row.path, old)
    os.rename(other, row.path)


def exchange(row, name):
    other = row.mount.at(SESSION, name)
    write(other, row.text())
    libc = ctypes.CDLL(None, use_errno=True)
    done = libc.renameat2(-100, os.fsencode(other), -100, os.fsencode(row.path), EXCHANGE)
    same(done, 0, f"exchange with {name}")


def other_session(row):
    old, new = row.mount.at("old"), row.mount.at("new")
    os.mkdir(new)
    for _ in range(4):
        write(os.path.join(new, KEY + ".json"), row.text())
    os.rename(row.mount.at(SESSION), old)
    os.rename(new, row.mount.at(SESSION))
    for name in os.listdir(old):
        os.unlink(os.path.join(old, name))
    os.rmdir(old)


def saves(box, row):
    """Every way to save, beside a service that has read what was there."""
    row.rises("a rename over it", rename_over)
    row.rises("one of a large one", in_place_large)
    row.rises("a save in place", in_place)
    row.rises("an edit", edit)
    row.rises("more at the end", add_blank)
    row.rises("a cut", cut)
    row.rises("another state over it", another_over)
    row.rises("another state under its name", away_and_another)
    row.rises("an exchange with a state", exchange, "other.json")
    row.rises("an exchange with an ordinary file", exchange, "other.txt")
    row.rises("an exchange of sessions", other_session)
    row.rises("put", lambda row: box.sessfs("put", row.mount.store, "s/k.json", stdin=row.text(),
                                            check=True))


def rises(box, mount, table):
    row = Row(mount, table)
    os.mkdir(mount.at(SESSION))
    write(row.path, row.text())
    same(row.version(), 1, "of a new one")
    saves(box, row)
    version = row.version()
    write(row.path, read(row.path))
    same(row.version() in (version, version + 1), True, "an equal save")
    row.upsert('{"by": "service"}')
    same(row.version() > version, True, "the service goes on from there")
    return row


def lists_have_none(mount, table):
    """Nor has what is beside them: a service compares singles alone."""
    path = mount.at(SESSION, "l.jsonl")
    append(path, b"[1]\n")
    append(path, b"".join(b"[%d]\n" % number for number in range(40)))
    write(path, b"[2]\n[3]\n")
    write(mount.at(SESSION, "l.hash"), b"0a")
    os.rename(path, mount.at(SESSION, "m.jsonl"))
    rows = table.ask("SELECT DISTINCT version FROM {0} WHERE state_key <> ?", KEY)
    same([int(row[0]) for row in rows], [0], "versions of lists")


def services_of_both_kinds(mount, table):
    """One that knows nothing of versions leaves them as they are."""
    row = Row(mount, table, "both")
    table.put("both", KEY, 0, '{"by": 1}')
    same(row.version(), 0, "of a row of an older service")
    same(read(row.path), b'{"by": 1}', "as a file")
    write(row.path, row.text())
    same(row.version(), 1, "once it was saved as a file")
    table.put("both", KEY, 0, '{"by": 2}')
    same(row.version(), 1, "behind an older service")
    same(row.claim(1), True, "so a newer one does not notice that")


def comes_and_goes(mount, table):
    """Another program gives the table the column, and takes it away, while it is mounted."""
    row = Row(mount, table)
    os.mkdir(mount.at(SESSION))
    write(row.path, row.text())
    for least in (1, 0):
        table.ask(f"ALTER TABLE {{0}} ADD COLUMN version BIGINT NOT NULL DEFAULT {least}")
        write(row.path, row.text())
        same(row.version(), least + 1, "the first save behind it")
        write(mount.at(SESSION, f"new{least}.json"), b"1")
        same(Row(mount, table, SESSION, f"new{least}").version(), 1, "of a new one")
        table.ask("ALTER TABLE {0} DROP COLUMN version")
        write(row.path, row.text())
        same(row.data(), read(row.path), "behind the column's end")
        rename_over(row)
        same(row.data(), read(row.path), "what was renamed behind it")


def storm(mounts, table, rounds):
    """The column comes and goes whatever the mounts do: no save fails, and none is lost."""
    os.mkdir(mounts[0].at(SESSION))
    stop = threading.Event()

    def save(mount, row):
        while not stop.is_set():
            in_place(row)
            rename_over(row)
            same(read(row.path), b'{"n": %d}' % row.count, "what was saved last")
        return row.count

    with concurrent.futures.ThreadPoolExecutor() as pool:
        saving = [pool.submit(save, mount, Row(mount, table, key=f"k{number}"))
                  for number, mount in enumerate(mounts)]
        try:
            for _ in range(rounds):
                table.ask("ALTER TABLE {0} ADD COLUMN version BIGINT NOT NULL DEFAULT 0")
                table.ask("ALTER TABLE {0} DROP COLUMN version")
        finally:
            stop.set()
        for number, done in enumerate(saving):
            text = b'{"n": %d}' % done.result()
            same(Row(mounts[0], table, key=f"k{number}").data(), text, "what SQL has")
