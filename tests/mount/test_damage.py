#!/usr/bin/python3 -B
# SPDX-License-Identifier: MIT
"""Damaged stores: check says so, --repair rescues what is whole, a mount serves what it can.

SESSFS_DAMAGES=N damages a store in N ways (make soak-damage: thousands), SESSFS_TEST_SEED=N sets
where the random ones begin; a case that fails names its number and way, and
SESSFS_DAMAGE_CASE=NUMBER tries that one alone."""

import collections
import contextlib
import errno
import fcntl
import os
import random
import shutil
import signal
import stat
import subprocess
import sys
import termios
import time

import damage
import harness
from harness import (
    INSERT,
    SANITIZER_REPORT,
    TABLE,
    append,
    errno_of,
    eventually,
    main,
    read,
    same,
    same_trees,
    tool,
    tree,
    write,
)

SEED = int(os.environ.get("SESSFS_TEST_SEED", "20240611"))
DAMAGES = harness.rounds("SESSFS_DAMAGES", 14, 52)
ALONE = os.environ.get("SESSFS_DAMAGE_CASE")
SESSIONS = 220


WRITTEN = set()  # every row that there ever was: the session, the data


def line(chance, session, number, size):
    text = "".join(chance.choices("abcdefghijklmnopqrstuvwxyz ", k=size)).encode()
    row = b'{"n": %d, "of": "%s", "text": "%s"}' % (number, session.encode(), text)
    WRITTEN.add((session.encode(), row))
    return row + b"\n"


def fill_session(chance, path, session):
    os.mkdir(path)
    count = chance.choice((1, 2, 3, 8))
    sizes = [chance.choice((20, 60, 200)) for _ in range(count)]
    if session.endswith("7"):
        sizes += [5000, 30000]
    lines = b"".join(line(chance, session, i, size) for i, size in enumerate(sizes))
    write(f"{path}/messages.jsonl", lines)
    write(f"{path}/state.json", line(chance, session, -1, 40).strip())
    if session.endswith("3"):
        write(f"{path}/state.hash", b"0123abcd" + session.encode())
        WRITTEN.add((session.encode(), b"0123abcd" + session.encode()))
        os.mkdir(f"{path}/sub")
        write(f"{path}/sub/torn.jsonl", lines[:-5] + b"\nnot JSON\n")
        append(f"{path}/sub/torn.jsonl", line(chance, session, 50, 30))
    if session.endswith("5"):
        write(f"{path}/notes.txt", chance.randbytes(chance.choice((10, 3000, 40000))))
        os.setxattr(f"{path}/notes.txt", "user.of", session.encode())
    if session.endswith("9"):
        write(f"{path}/draft.json", b'{"half": ' + session.encode())


def change_session(chance, path, session):
    append(f"{path}/messages.jsonl", line(chance, session, 1000, 100))
    if session.endswith("2"):
        write(f"{path}/state.json", line(chance, session, -2, 300).strip())
    if session.endswith("4"):
        shutil.rmtree(path)
    if session.endswith("8"):
        write(f"{path}/new.jsonl", b"".join(line(chance, session, i, 90) for i in range(9)))


def build(box):
    """A store of some hundred sessions, of which the last changes are in the log only."""
    chance = random.Random(SEED)
    mount = box.mount(options=["pause=0"])
    names = [f"session {i}" for i in range(SESSIONS)]
    for name in names:
        fill_session(chance, mount.at(name), name)
    write(mount.at("at the root"), b"ordinary\n" * 99)
    os.symlink("nowhere", mount.at(names[0], "link"))
    mount.stop()
    mount.start()
    folder = box.new_folder("base")
    path = os.path.join(folder, "store.db")
    # Who reads an old state keeps what comes later in the log.
    with contextlib.closing(damage.connect(mount.store)) as reader:
        reader.execute("BEGIN")
        reader.execute(f"SELECT count(*) FROM {TABLE}").fetchall()
        for name in names[::3]:
            change_session(chance, mount.at(name), name)
        time.sleep(0.5)  # rows of what was unlinked go
        shutil.copyfile(mount.store, path)
        shutil.copyfile(mount.store + "-wal", path + "-wal")
    mount.stop()
    store = damage.Store(path, folder)
    assert len(store.interior) >= 1 and len(store.frames.offset) > 20, "the store is too simple"
    return store


def run(box, what, *arguments):
    """A command on a damaged store ends in time, with a status that it knows, and says why."""
    start = time.monotonic()
    done = tool(box.program, *arguments, check=False)
    text = (done.stdout + done.stderr).decode("utf-8", "replace")
    report = SANITIZER_REPORT.search(text)
    if report or done.returncode not in (0, 1, 2):
        begin = report.start() if report else -2000
        raise AssertionError(f"{what} ended with {done.returncode}: {text[begin:][:3000]}")
    assert done.returncode == 0 or len(text.strip()) > 10, f"{what} does not say what is wrong"
    box.seen(what, time.monotonic() - start)
    return done.returncode, text


class Tally(collections.Counter):
    def __str__(self):
        return ", ".join(f"{self[name]} {name}" for name in sorted(self))


def strip_time(table, row):
    """Without what a repair may change of a node: that a file has holes now; times of a directory
    into which something was put back."""
    if table != "sessfs_node":
        return row
    row = list(row)
    row[2] &= ~8
    if stat.S_ISDIR(row[3]):
        row[8] = row[9] = None
    return tuple(row)


def compare_lists(store, base, spoilt, tally, way):
    """The rows: all of the pages that nothing has happened to, in their order, and no others."""
    rows = sorted(damage.read_rows(base, TABLE), key=lambda row: row[:3])
    seen = {(row[0], row[1], row[3]) for row in rows}
    hurt = 0
    for row, pages in zip(store.rows[TABLE], store.places[TABLE]):
        whole = not pages & spoilt
        hurt += not whole
        there = (row[0], row[1], row[3]) in seen
        tally["rows rescued"] += there
        tally["rows lost"] += not there
        assert there or not whole, f"{row[:3]} on the pages {pages} is lost"
    strange = [row for row in rows if (row[0], row[3]) not in WRITTEN]
    tally["rows altered"] += len(strange)
    allowed = 0 if way in damage.CLEAN else hurt
    assert len(strange) <= allowed, f"{len(strange)} rows are invented: {strange[0]}"
    last = {}
    for session, key, index, *_ in rows:
        same(index, last.get((session, key), -1) + 1, f"the next index of {session} {key}")
        last[session, key] = index
    order = {(row[0], row[1], row[3]): row[2] for row in store.rows[TABLE]}
    at = {}
    for session, key, _, data, *_ in rows:
        place = order.get((session, key, data), -1)
        if place >= 0:
            assert at.get((session, key), -1) < place, f"{session} {key} is out of order"
            at[session, key] = place


def compare_table(store, base, table, spoilt, tally, way):
    """Of the other tables: what is whole is there as it was."""
    seen = {strip_time(table, row) for row in damage.read_rows(base, table)}
    short = {row[0] for row in seen}
    for row, pages in zip(store.rows[table], store.places[table]):
        there = strip_time(table, row) in seen
        tally["other records rescued"] += there
        tally["other records lost"] += not there
        if there or pages & spoilt:
            continue
        if table == "sessfs_entry":  # its node is on another page
            continue
        if table == "sessfs_piece":  # moves with the rows of its list
            moved = {(piece[0], piece[3]) for piece in seen}
            assert (row[0], row[3]) in moved, f"the piece {row[:3]} is lost"
            continue
        if table == "sessfs_node" and row[11] is not None and row[12] is not None:
            # A state without rows goes; its rows may be on other pages.
            assert row[0] in short or spoilt, f"the node {row[0]} is lost"
            continue
        if table == "sessfs_node" and row[1] == 0 and row[11] is not None:
            # A session in the trash of which only the name from before is left is one again.
            assert row[0] in short and spoilt, f"the node {row[0]} is lost"
            continue
        raise AssertionError(f"{table}: {row[:3]} on the pages {pages} is lost")


def try_case(box, store, folder, number, tally):
    chance = random.Random(SEED * 1000003 + number)
    names = list(damage.WAYS)
    way = names[number % len(names)]
    file, log = bytearray(store.file), bytearray(store.log)
    damage.WAYS[way](store, file, log, chance)
    path = os.path.join(folder, "store.db")
    new = os.path.join(folder, "new.db")
    file, log = bytes(file), bytes(log)
    spoilt = store.damaged_pages(file, log)
    store.put(path, file, log)
    for name in (new, new + "-wal", new + "-shm"):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)
    try:
        if number % 3 == 0:
            status, _ = run(box, "check", "check", path)
            tally[f"check said {status}"] += 1
            # SQLite makes its files beside the store, and takes an empty log away.
            store.put(path, file, log)
        status, text = run(box, "repair", "check", "--repair", path, new)
        same(read(path) == file, True, "the damaged store is as it was")
        if log or os.path.exists(path + "-wal"):
            same(read(path + "-wal") == log, True, "its log is as it was")
        same(os.path.exists(path + "-shm"), False, "something is made beside it")
        tally[f"repair said {status}"] += 1
        if status == 2:
            same(os.path.exists(new), False, "there is a new store in spite of it")
            assert len(spoilt) > store.pages // 2, f"nothing was rescued: {text}"
            return
        same(os.stat(new).st_mode & 0o777, 0o600, "the mode of the new store")
        with contextlib.closing(damage.connect(new)) as base:
            compare_lists(store, base, spoilt, tally, way)
            for table in list(damage.TABLES)[1:]:
                compare_table(store, base, table, spoilt, tally, way)
        if number % 5 == 0:
            clean, text = run(box, "check of the new store", "check", new)
            same((clean, text if clean else ""), (0, ""), "the new store is sound")
    except AssertionError as error:
        raise AssertionError(f"case {number} ({way}), seed {SEED}: {error}") from None


def test_what_is_whole_of_a_damaged_store_is_rescued(box):
    box.note(f"SESSFS_TEST_SEED={SEED}")
    store = build(box)
    folder = box.new_folder("damaged")
    tally = Tally()
    for number in [int(ALONE)] if ALONE else range(DAMAGES):
        try_case(box, store, folder, number, tally)
    box.note(str(tally))


# That this notices what a repair does wrong.


WRONG = {
    "is lost": f"DELETE FROM {TABLE} WHERE state_key = 'state'",
    "invented": f"INSERT INTO {TABLE} (session_id, state_key, state_data) VALUES ('x', 'y', 0)",
    "next index": f"UPDATE {TABLE} SET item_index = 9999 WHERE state_key = 'messages' AND "
    "item_index = 0",
    "sessfs_chunk": "DELETE FROM sessfs_chunk WHERE chunk = 0",
    "sessfs_xattr": "UPDATE sessfs_xattr SET value = x'00'",
    "the piece": "DELETE FROM sessfs_piece",
}


def test_a_repair_that_loses_or_invents_is_noticed(box):
    store = build(box)
    folder = box.new_folder("wrong")
    path, new = os.path.join(folder, "store.db"), os.path.join(folder, "new.db")
    store.put(path, store.file, store.log)
    same(run(box, "repair", "check", "--repair", path, new)[0], 0, "a sound store")
    for word, sql in WRONG.items():
        copy = os.path.join(folder, "copy.db")
        shutil.copyfile(new, copy)
        with contextlib.closing(damage.connect(copy)) as base:
            for trigger in ("insert", "update", "delete", "updated_at"):
                base.execute(f"DROP TRIGGER sessfs_row_{trigger}")
            base.execute(sql)
            assert base.execute("SELECT changes()").fetchone()[0], sql
            said = ""
            try:
                compare_lists(store, base, set(), Tally(), "")
                for table in list(damage.TABLES)[1:]:
                    compare_table(store, base, table, set(), Tally(), "")
            except AssertionError as error:
                said = str(error)
        assert word in said, f"{sql}: {said or 'nothing was noticed'}"


# Mounts


def small_store(box):
    """A store of some sessions without a log; returns its path and what is in its files."""
    chance = random.Random(SEED)
    mount = box.mount(options=["pause=0"])
    for i in range(40):
        fill_session(chance, mount.at(f"session {i}"), f"session {i}")
    content = {}
    for folder, _, names in os.walk(mount.path):
        for name in names:
            path = os.path.join(folder, name)
            content[os.path.relpath(path, mount.path)] = read(path)
    mount.stop()
    return mount.store, content


def overwrite(path, at, data):
    with open(path, "r+b") as file:
        file.seek(at)
        file.write(data)


def leaf_of_rows(path):
    """A page in the middle of the rows' table, and its size."""
    with contextlib.closing(damage.connect(path)) as base:
        query = "SELECT pageno FROM dbstat WHERE name = ? AND pagetype = 'leaf' ORDER BY path"
        leaves = base.execute(query, (TABLE,)).fetchall()
        return leaves[len(leaves) // 2][0], base.execute("PRAGMA page_size").fetchone()[0]


def look_at_all(root):
    """Reads all that there is; what could be read, and how many files could not."""
    content, failed = {}, 0
    for folder, _, names in os.walk(root):
        for name in names:
            path = os.path.join(folder, name)
            try:
                content[os.path.relpath(path, root)] = read(path)
            except OSError as error:
                assert error.errno == errno.EIO, error
                failed += 1
    return content, failed


def test_a_mount_of_a_damaged_store_serves_the_rest_and_writes_nothing(box):
    store, content = small_store(box)
    page, size = leaf_of_rows(store)
    overwrite(store, (page - 1) * size, bytes(size))
    mount = box.mount(store=store)
    seen, failed = look_at_all(mount.path)
    assert failed, "no file is on the page"
    assert len(seen) > len(content) // 2, "too much is lost"
    for name, data in seen.items():
        same(data, content[name], f"the bytes of {name}")
    assert "malformed" in mount.log(), "SQLite's message is not in the log"
    assert "damaged and now read-only" in mount.log(), "the log does not say what follows"
    name = next(iter(seen))
    for call in (
        lambda: append(mount.at("session 0", "new.jsonl"), b"{}\n"),
        lambda: os.mkdir(mount.at("a new session")),
        lambda: os.unlink(mount.at(name)),
    ):
        same(errno_of(call), errno.EROFS, "a change of a damaged store")
    same(read(mount.at(name)), content[name], "what was to be deleted")
    mount.stop()
    status, text = run(box, "check", "check", store)
    same((status, "--repair" in text), (1, True), f"check, and what it advises: {text}")
    same(run(box, "repair", "check", "--repair", store)[0], 1, "the status of a repair")
    again = box.mount(store=store + ".repaired")
    assert len(look_at_all(again.path)[0]) > len(content) // 2
    append(again.at("session 0", "new.jsonl"), b"{}\n")
    again.stop()
    again.check()


def test_a_page_that_is_garbage_is_damage_and_keeps_no_check_from_ending(box):
    store, _ = small_store(box)
    whole, chance = read(store), random.Random(SEED)
    size = int.from_bytes(whole[16:18], "big")
    with contextlib.closing(damage.connect(store)) as base:
        roots = base.execute("SELECT rootpage FROM sqlite_schema WHERE name IN "
                             "('sessfs_node', 'sessfs_entry', 'sessfs_piece', ?)", (TABLE,))
        pages = [page for (page,) in roots] + [leaf_of_rows(store)[0]]
        # Without these it cannot even be opened.
        pages += [page for (page,) in base.execute(
            "SELECT rootpage FROM sqlite_schema WHERE name = 'sessfs_meta' UNION "
            "SELECT pageno FROM dbstat WHERE name = 'sqlite_schema' AND pageno > 1")]
    for page in pages:
        garbage = chance.randbytes(size)
        write(store, whole[:(page - 1) * size] + garbage + whole[page * size:])
        status, text = run(box, "check", "check", store)
        same((status, "--repair" in text), (1, True), f"page {page} is garbage: {text}")


def test_a_store_that_cannot_be_opened_is_refused_with_a_sentence(box):
    store, _ = small_store(box)
    with open(store, "rb") as file:
        whole = file.read()
    ways = {
        "no header": (2, bytes(100) + whole[100:]),
        "half": (1, whole[: len(whole) // 2]),
        "a beginning": (1, whole[:50]),
        "noise in the schema": (
            1,
            whole[:100] + random.Random(SEED).randbytes(8092) + whole[8192:],
        ),
        "a page size that is none": (1, whole[:16] + b"\x12\x34" + whole[18:]),
    }
    for what, (checked, data) in ways.items():
        folder = box.new_folder("mnt")
        with open(store, "wb") as file:
            file.write(data)
        for command in (["mount", store, folder], ["mount", "-o", "ro", store, folder]):
            done = box.sessfs(*command)
            same(done.returncode, 1, f"{what}: the status of {command}: {done.stderr}")
            assert b"--repair" in done.stderr, f"{what}: {done.stderr}"
        same(run(box, "check", "check", store)[0], checked, f"{what}: the status of a check")
        same(read(store) == data, True, f"{what}: the store is as it was")


def test_directories_that_lead_in_a_circle_are_an_error_and_no_crash(box):
    mount, session = box.session()
    os.makedirs(session + "/a/b")
    write(session + "/a/b/k.json", b"1")
    mount.stop()
    with contextlib.closing(damage.connect(mount.store)) as base:
        ((a, entry),) = base.execute("SELECT ino, id FROM sessfs_entry WHERE name = x'61'")
        ((b,),) = base.execute("SELECT ino FROM sessfs_entry WHERE name = x'62'")
        base.execute("INSERT INTO sessfs_entry VALUES (?, 9999, x'63', ?)", (b, a))
        base.execute("UPDATE sessfs_node SET parent = ?, entry = 9999 WHERE ino = ?", (b, a))
    same(run(box, "check", "check", mount.store)[0], 1, "the status of a check")
    mount.start()
    errors = {errno_of(os.listdir, session + path) for path in ("/a", "/a/b", "/a/b/c/b/c/b")}
    assert errors <= {0, errno.EIO, errno.ENOENT, errno.ELOOP}, errors
    same(os.listdir(mount.path), ["s"], "the sessions")
    mount.stop()
    run(box, "repair", "check", "--repair", mount.store)
    again = box.mount(store=mount.store + ".repaired")
    same(read(again.at("s", "a", "b", "k.json")), b"1", "the file")


def test_mounts_of_stores_that_are_damaged_anywhere_end_well(box):
    box.note(f"SESSFS_TEST_SEED={SEED}")
    store, content = small_store(box)
    with open(store, "rb") as file:
        whole = file.read()
    mounted = 0
    for number in range(DAMAGES // 8):
        chance = random.Random(SEED * 31 + number)
        data = bytearray(whole)
        for _ in range(chance.choice((1, 2, 5))):
            fill = chance.choice((damage.zeros, damage.ones, damage.noise))
            damage.overwrite(data, chance, chance.choice((1, 16, 512, 4096)), fill)
        path = os.path.join(box.new_folder("any"), "store.db")
        with open(path, "wb") as file:
            file.write(data)
        try:
            mount = box.mount(store=path)
        except AssertionError as error:
            assert "mount ended with 1" in str(error), f"case {number}: {error}"
            box.mounts.pop().forget()
            continue
        mounted += 1
        look_at_all(mount.path)
        errno_of(append, mount.at("session 0", "new.jsonl"), b"{}\n")
        mount.stop()
    box.note(f"{mounted} of {DAMAGES // 8} could be mounted")


def test_whole_rows_of_a_page_that_is_mostly_zeros_are_rescued(box):
    mount, session = box.session()
    append(session + "/l.jsonl", b"".join(b'{"n": %d}\n' % i for i in range(1000)))
    mount.stop()
    page, size = leaf_of_rows(mount.store)
    # Cells lie at the end of a page, the places where they begin at its beginning.
    overwrite(mount.store, (page - 1) * size + size * 2 // 5, bytes(size * 3 // 5))
    with contextlib.closing(damage.connect(mount.store)) as base:
        query = f"SELECT state_data FROM {TABLE} NOT INDEXED WHERE typeof(state_data) = 'text'"
        whole = sorted(row[0] for row in base.execute(query + " AND json_valid(state_data)"))
    assert len(whole) < 1000, "nothing is damaged"
    same(run(box, "repair", "check", "--repair", mount.store)[0], 1, "the status of a repair")
    with contextlib.closing(damage.connect(mount.store + ".repaired")) as base:
        rescued = sorted(row[0] for row in base.execute(f"SELECT state_data FROM {TABLE}"))
    same(len(set(whole) - set(rescued)), 0, f"whole rows of {len(whole)} that are lost")


def test_rows_in_the_trash_of_a_state_that_is_not_there_are_its_rows_again(box):
    mount, session = box.session("s")
    files = {"k.json": b'{"a": 1}', "l.jsonl": b"1\n2\n", "other.json": b"3"}
    for name, text in files.items():
        write(os.path.join(session, name), text)
    expected = tree(mount.path)
    write(session + "/gone.json", b"4")
    os.unlink(session + "/gone.json")
    mount.stop()
    # As if the page with their nodes had come back from before they were removed.
    with contextlib.closing(damage.connect(mount.store)) as base:
        columns = "item_index, state_data, created_at, updated_at"
        base.execute(
            f"INSERT INTO sessfs_trash (ino, {columns}) SELECT ino, {columns} FROM {TABLE} t"
            " JOIN sessfs_node n ON n.session_id = t.session_id AND n.state_key = t.state_key"
            " WHERE t.state_key IN ('k', 'l')"
        )
        base.execute(f"DELETE FROM {TABLE} WHERE state_key IN ('k', 'l')")
        base.execute("DELETE FROM sessfs_change")
        base.commit()
    run(box, "repair", "check", "--repair", mount.store)
    mount = box.mount(store=mount.store + ".repaired")
    same_trees(expected, tree(mount.path))
    same(mount.check().count("clean"), 1, "the new store is clean")


def by_another_program(box, rows):
    """A store that is another program's database, with a table of its own."""
    store = box.new_path("foreign") + ".db"
    with contextlib.closing(damage.connect(store)) as base:
        base.execute(
            "CREATE TABLE chats (session_id TEXT NOT NULL, state_key TEXT NOT NULL, item_index"
            " INTEGER NOT NULL, state_data BLOB, UNIQUE (session_id, state_key, item_index))"
        )
        base.executemany("INSERT INTO chats VALUES (?, ?, ?, ?)", rows)
    mount = box.mount(store=store, options=["table=chats"])
    expected = tree(mount.path)
    mount.stop()
    return store, expected


def test_rows_as_only_another_program_writes_them_are_rescued(box):
    """Numbers, bytes and indexes below 0; rows that are NULL are none in a store of ours."""
    data = (7, b'{"n": 1}', 2.5, '"text"', -(2**62))
    rows = [("s", "list", i - 3, data[i % 5]) for i in range(40)]
    rows += [("s", f"k{i}", 0, i) for i in range(40)]
    rows += [("s", "gaps", i, i) for i in (-(2**40), -1, 0, 1, 2, 7, 2**40)]
    store, expected = by_another_program(box, rows)
    with contextlib.closing(damage.connect(store)) as base:
        null = "INSERT INTO chats VALUES ('s', 'null', ?, NULL)"
        base.executemany(null, [(i,) for i in range(99)])
    status, said = run(box, "repair", "check", "--repair", store)
    same(status, 1, f"the status of a repair, for what is NULL: {said}")
    mount = box.mount(store=store + ".repaired")
    same_trees(expected, tree(mount.path))
    same(mount.check().count("clean"), 1, "the new store is clean")
    with contextlib.closing(damage.connect(store + ".repaired")) as base:
        query = "SELECT item_index FROM chats WHERE state_key = 'gaps' ORDER BY 1"
        same([row[0] for row in base.execute(query)], list(range(7)), "indexes")


def test_a_repair_never_overwrites(box):
    store, _ = small_store(box)
    for name in (".repaired", ".repaired-wal"):
        write(store + name, b"mine")
        same(run(box, "repair", "check", "--repair", store)[0], 2, f"with {name}")
        same(read(store + name), b"mine", "what was there")
        os.unlink(store + name)
    same(run(box, "repair", "check", "--repair", store)[0], 0, "the status")
    same(os.stat(store + ".repaired").st_mode & 0o777, 0o600, "the mode")
    write(store + ".text", b"This is no store at all.\n" * 1000)
    same(run(box, "repair", "check", "--repair", store + ".text")[0], 2, "of a text")
    same(os.path.exists(store + ".text.repaired"), False, "something was made of it")


def queued(pipe):
    """How many bytes wait in it."""
    return int.from_bytes(fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)), sys.byteorder)


def test_a_repair_that_is_stopped_leaves_no_store_that_looks_whole(box):
    """What it has found does not go into the pipe, so it waits in the middle."""
    place, rows = box.new_folder("place"), [("s", "l", i, "no JSON") for i in range(4000)]
    store = os.path.join(place, "store.db")
    box.sessfs("append", store, "s/good.jsonl", stdin=b"[1]\n" * 4000, check=True)
    with contextlib.closing(damage.connect(store)) as base:
        base.execute("BEGIN")
        base.executemany(INSERT, rows)
        base.execute("COMMIT")
    before = set(os.listdir(place))
    for number in (signal.SIGKILL, signal.SIGTERM):
        process = subprocess.Popen([box.program, "check", "--repair", store],
                                   stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        filled = fcntl.fcntl(process.stdout, fcntl.F_GETPIPE_SZ)
        eventually(lambda: queued(process.stdout) >= filled - 4096, "it waits")
        same(os.path.exists(store + ".repaired"), False, "a store that is not whole has its name")
        process.send_signal(number)
        process.stdout.read()
        same(process.wait(), -number, "how it ended")
        same(os.path.exists(store + ".repaired"), False, "it has its name after the end")
        if number == signal.SIGTERM:
            same(set(os.listdir(place)), before, "what both have left")
    same(run(box, "repair", "check", "--repair", store)[0], 1, "the status")
    same(set(os.listdir(place)) - before, {"store.db.repaired"}, "what is new")
    with contextlib.closing(damage.connect(store + ".repaired")) as base:
        count = base.execute(f"SELECT state_key, count(*) FROM {TABLE} GROUP BY 1").fetchall()
    same(count, [(b"good", 4000)], "rows")


main(globals())
