# SPDX-License-Identifier: MIT
"""Damage to a store, and what must be left of it.

Which row lies on which page is found out without the code under test: SQLite's dbstat tells the
pages of each tree and the overflow pages of each cell, and in a tree the rows stand in the order of
their rowids, or where there are none of their keys."""

import contextlib
import os
import sqlite3
import struct

from harness import TABLE

# Each table with what a row of it is known by.
TABLES = {
    TABLE: "session_id, state_key, item_index, CAST(state_data AS BLOB), created_at, updated_at",
    "sessfs_node": "ino, kind, flags, mode, uid, gid, rdev, size, atime, mtime, btime,"
    " session_id, state_key, target",
    "sessfs_entry": "parent, name, ino",
    "sessfs_xattr": "ino, name, value",
    "sessfs_chunk": "ino, chunk, data",
    "sessfs_piece": "ino, item_index, seq, data",
}
ORDER = {
    TABLE: "rowid",
    "sessfs_node": "ino",
    "sessfs_entry": "parent, id",
    "sessfs_xattr": "ino, name",
    "sessfs_chunk": "rowid",
    "sessfs_piece": "ino, item_index, seq",
}


def connect(path):
    base = sqlite3.connect(path, isolation_level=None)
    base.text_factory = bytes
    return base


def read_rows(base, table):
    return base.execute(f"SELECT {TABLES[table]} FROM {table} ORDER BY {ORDER[table]}").fetchall()


def pages_of_rows(base, table):
    """The set of pages for each row, in the order of the keys."""
    query = "SELECT path, pageno, pagetype, ncell FROM dbstat WHERE name = ?"
    found = {path.decode(): rest for path, *rest in base.execute(query, (table,))}
    overflow = {}
    for path, (page, kind, _) in found.items():
        if kind == b"overflow":
            overflow.setdefault(path[: path.index("+")], set()).add(page)
    by_index = base.execute("SELECT sql FROM sqlite_schema WHERE name = ?", (table,))
    with_interior = b"WITHOUT ROWID" in by_index.fetchone()[0].upper()
    rows = []

    def walk(path):
        page, kind, cells = found[path]
        for cell in range(cells + (kind == b"internal")):
            place = f"{path}{cell:03x}"
            if kind == b"internal":
                walk(place + "/")
            if cell < cells and (kind == b"leaf" or with_interior):
                rows.append({page} | overflow.get(place, set()))

    walk("/")
    return rows


class Frames:
    """The frames of a log that nothing has happened to."""

    def __init__(self, data, page):
        self.offset = {}  # of a page: where its newest frame begins
        self.of = {}  # the frame at an offset
        self.commits = []
        self.size = page + 24
        pending = []
        salt = data[16:24]
        for at in range(32, len(data) - self.size + 1, self.size):
            number, commit = struct.unpack(">II", data[at : at + 8])
            if data[at + 8 : at + 16] != salt:
                break
            pending.append((number, at))
            if commit:
                self.commits.append(at)
                self.offset.update(pending)
                self.of.update((at, number) for number, at in pending)
                pending = []


class Store:
    """A store as it is before anything happens to it: bytes, rows, and where they lie."""

    def __init__(self, path, scratch):
        with open(path, "rb") as file:
            self.file = file.read()
        self.log = b""
        with contextlib.suppress(FileNotFoundError), open(path + "-wal", "rb") as file:
            self.log = file.read()
        self.page = struct.unpack(">H", self.file[16:18])[0]
        self.page = 65536 if self.page == 1 else self.page
        self.frames = Frames(self.log, self.page)
        copy = os.path.join(scratch, "copy.db")
        self.put(copy, self.file, self.log)
        with contextlib.closing(connect(copy)) as base:
            self.pages = base.execute("PRAGMA page_count").fetchone()[0]
            self.rows = {table: read_rows(base, table) for table in TABLES}
            self.places = {table: pages_of_rows(base, table) for table in TABLES}
            query = "SELECT pageno FROM dbstat WHERE pagetype = 'internal' AND name = ?"
            self.interior = [page for (page,) in base.execute(query, (TABLE,))]
            self.leaves = [
                page
                for (page,) in base.execute(
                    "SELECT pageno FROM dbstat WHERE pagetype = 'leaf' AND name = ?", (TABLE,)
                )
            ]
        for table in TABLES:
            assert len(self.rows[table]) == len(self.places[table]), table

    @staticmethod
    def put(path, file, log):
        for name, data in ((path, file), (path + "-wal", log)):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(name)
            if data or name == path:
                with open(name, "wb") as out:
                    out.write(data)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path + "-shm")

    def damaged_pages(self, file, log):
        """Pages whose present version is not all there any more."""
        spoilt = set()
        size = self.page
        frames = self.frames
        broken = set()
        for at in range(32, len(self.log) - frames.size + 1, frames.size):
            if log[at : at + frames.size] != self.log[at : at + frames.size]:
                broken.add(at)
        # Behind a frame of which neither the sum nor what it sums up is left, the next cannot be
        # judged; nor can the first, without the header.
        unjudged = set()
        for at in broken:
            body = log[at : at + 8] + log[at + 24 : at + frames.size]
            whole = self.log[at : at + 8] + self.log[at + 24 : at + frames.size]
            if log[at + 16 : at + 24] != self.log[at + 16 : at + 24] and body != whole:
                unjudged.add(at + frames.size)
            if log[at + 8 : at + 16] != self.log[at + 8 : at + 16]:
                unjudged.add(at)
        if log[:32] != self.log[:32]:
            unjudged |= {32, 32 + frames.size}
        last = max((at for at in frames.commits if at not in broken | unjudged), default=0)
        for number in range(1, self.pages + 1):
            at = frames.offset.get(number)
            if at is None:
                begin = (number - 1) * size
                if file[begin : begin + size] != self.file[begin : begin + size]:
                    spoilt.add(number)
            elif at in broken or at in unjudged or at > last:
                spoilt.add(number)
        return spoilt


# Ways to damage: each takes the two files as bytearrays and a source of chance.


def any_place(data, chance, size):
    return chance.randrange(max(len(data) - size, 1)) if data else 0


def overwrite(data, chance, size, fill):
    at = any_place(data, chance, size)
    end = min(at + size, len(data))
    data[at:end] = fill(chance, end - at)


def zeros(chance, size):
    return bytes(size)


def ones(chance, size):
    return b"\xff" * size


def noise(chance, size):
    return chance.randbytes(size)


def flip(data, chance):
    if data:
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)


def in_file(size, fill, count=1):
    def damage(store, file, log, chance):
        for _ in range(count):
            overwrite(file, chance, size, fill)

    return damage


def in_log(size, fill, count=1):
    def damage(store, file, log, chance):
        for _ in range(count):
            overwrite(log, chance, size, fill)

    return damage


def flip_file(store, file, log, chance):
    for _ in range(chance.choice((1, 1, 3, 30))):
        flip(file, chance)


def flip_log(store, file, log, chance):
    for _ in range(chance.choice((1, 1, 3, 30))):
        flip(log, chance)


def cut_file(store, file, log, chance):
    del file[chance.randrange(len(file)) :]


def cut_file_at_a_page(store, file, log, chance):
    del file[store.page * chance.randrange(1, len(file) // store.page) :]


def cut_log(store, file, log, chance):
    del log[chance.randrange(len(log)) :]


def drop_log(store, file, log, chance):
    log.clear()


def zero_header(store, file, log, chance):
    file[: chance.choice((16, 100))] = bytes(chance.choice((16, 100)))[:100]


def zero_first_page(store, file, log, chance):
    file[: store.page] = bytes(store.page)


def zero_log_header(store, file, log, chance):
    log[:32] = bytes(32)


def swap_pages(store, file, log, chance):
    size = store.page
    a, b = chance.sample(range(1, len(file) // size), 2)
    a, b = a * size, b * size
    file[a : a + size], file[b : b + size] = file[b : b + size], file[a : a + size]


def page_place(store, page):
    """Which of the files has a page, and where."""
    at = store.frames.offset.get(page)
    return (False, (page - 1) * store.page) if at is None else (True, at + 24)


def spoil_page(store, file, log, chance, page, size, fill):
    in_the_log, at = page_place(store, page)
    data = log if in_the_log else file
    begin = at + (0 if size >= store.page else chance.choice((0, 8, 100)))
    data[begin : begin + size] = fill(chance, size)


def interior_page(size, fill):
    def damage(store, file, log, chance):
        spoil_page(store, file, log, chance, chance.choice(store.interior), size, fill)

    return damage


def leaf_page(size, fill):
    def damage(store, file, log, chance):
        spoil_page(store, file, log, chance, chance.choice(store.leaves), size, fill)

    return damage


WAYS = {
    "flip file": flip_file,
    "flip log": flip_log,
    "zeros 1": in_file(1, zeros),
    "ones 16": in_file(16, ones),
    "noise 16": in_file(16, noise),
    "zeros 512": in_file(512, zeros),
    "noise 512": in_file(512, noise),
    "ones 4096": in_file(4096, ones),
    "zeros 4096": in_file(4096, zeros),
    "noise 4096": in_file(4096, noise),
    "noise 4096, five times": in_file(4096, noise, 5),
    "log: noise 16": in_log(16, noise),
    "log: zeros 512": in_log(512, zeros),
    "log: noise 4096, three times": in_log(4096, noise, 3),
    "cut file": cut_file,
    "cut file at a page": cut_file_at_a_page,
    "cut log": cut_log,
    "drop log": drop_log,
    "zero header": zero_header,
    "zero first page": zero_first_page,
    "zero log header": zero_log_header,
    "swap pages": swap_pages,
    "interior: zeros": interior_page(4096, zeros),
    "interior: noise 16": interior_page(16, noise),
    "leaf: noise 16": leaf_page(16, noise),
    "leaf: zeros 512": leaf_page(512, zeros),
}
# Nothing but what was written can come out of these: no byte of a row is changed in its place.
CLEAN = {"cut file at a page", "cut log", "drop log", "zero header", "zero log header"}
