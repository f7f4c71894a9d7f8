#!/usr/bin/python3 -B
# SPDX-License-Identifier: MIT
"""Savers at once, beside readers of every sort: nobody ever sees anything but one whole save.

  SESSFS_SAVES  how often each of the eight savers saves; default 12
  SESSFS_SEED   of the sizes
"""

import hashlib
import json
import os
import random
import sqlite3
import subprocess
import sys
import threading
import time

import crowd
import harness
from harness import HANG, INSERT, TABLE, eventually, put, read, same, write

SAVES = harness.rounds("SESSFS_SAVES", 4, 12)
SEED = int(os.environ.get("SESSFS_SEED") or time.time_ns() % 1_000_000)
SAVERS = 8
BUFFER = 8192


# What is saved: each version proves by itself that it is whole.


def document(writer, number):
    rng = random.Random(f"{SEED} {writer} {number}")
    fill = "%02d" % writer * rng.randrange(150_000, 250_000)
    head = f'{{"writer": {writer}, "number": {number}, "sum": "'
    return (head + hashlib.sha256(fill.encode()).hexdigest() + f'", "fill": "{fill}"}}').encode()


def judge_document(data):
    value = json.loads(data)
    if hashlib.sha256(value["fill"].encode()).hexdigest() != value["sum"]:
        raise AssertionError(f"a mixture of {len(data)} bytes")


def items(writer, number):
    rng = random.Random(f"{SEED} {writer} {number}")
    count = rng.randrange(1800, 2200)
    return b"".join(
        b'{"writer": %d, "number": %d, "line": %d, "of": %d, "pad": "%s"}\n'
        % (writer, number, line, count, b"x" * rng.randrange(120))
        for line in range(count)
    )


def judge_lines(lines):
    values = [json.loads(line) for line in lines]
    first = values[0]
    for line, value in enumerate(values):
        same_save = all(value[name] == first[name] for name in ("writer", "number", "of"))
        if not same_save or value["line"] != line:
            raise AssertionError(f"line {line}: {value} in a save that begins with {first}")
    if len(values) != first["of"]:
        raise AssertionError(f"{len(values)} lines of {first['of']}")


def judge_list(data):
    if not data.endswith(b"\n"):
        raise AssertionError(f"{len(data)} bytes end in {data[-40:]!r}")
    judge_lines(data.splitlines())


# Who saves


def save_in_place(mount, path, make, writer):
    for number in range(SAVES):
        with open(path, "wb", buffering=BUFFER) as file:
            data = make(writer, number)
            for start in range(0, len(data), 5000):
                file.write(data[start : start + 5000])


def save_by_rename(mount, path, make, writer):
    folder, name = os.path.split(path)
    for number in range(SAVES):
        temporary = os.path.join(folder, f".{name}.{writer}.tmp")
        write(temporary, make(writer, number))
        os.rename(temporary, path)


def save_by_sql(mount, path, make, writer):
    """As a service does that knows nothing of files: all rows at once."""
    single = path.endswith(".json")
    with sqlite3.connect(mount.store, timeout=HANG, isolation_level=None) as database:
        for number in range(SAVES):
            data = make(writer, number).decode()
            rows = [data] if single else data.splitlines()
            begun = time.monotonic()
            database.execute("BEGIN IMMEDIATE")
            database.execute(f"DELETE FROM {TABLE} WHERE session_id = 's' AND state_key = 'k'")
            database.executemany(INSERT, [("s", "k", *row) for row in enumerate(rows)])
            database.execute("COMMIT")
            crowd.rest(begun)


# Who looks


def look(way, path, judge, go_on):
    while go_on():
        data = way(path)
        try:
            judge(data)
        except (AssertionError, ValueError, KeyError) as error:
            raise AssertionError(f"{way.__name__}: {error}") from error


def look_in_sql(store, judge, go_on):
    with sqlite3.connect(store, timeout=HANG) as database:
        while go_on():
            rows = database.execute(
                f"SELECT state_data FROM {TABLE} WHERE session_id = 's' AND state_key = 'k'"
                " ORDER BY item_index"
            ).fetchall()
            judge([row[0] for row in rows])


def crowd_saves(box, suffix, save, make, judge, ways, judge_rows):
    print(f"# seed {SEED}")
    # A saver that has to wait for a processor shall not count as one that pauses.
    mount, session = box.session(options=("pause=0",))
    path = os.path.join(session, "k" + suffix)
    write(path, make(0, 0))
    crowd.run_together(
        [(save, mount, path, make, writer) for writer in range(SAVERS)],
        [(look, way, path, judge) for way in ways] + [(look_in_sql, mount.store, judge_rows)],
    )
    judge(read(path))
    mount.check()


def judge_row(rows):
    same(len(rows), 1, "rows of a document")
    judge_document(rows[0])


def define(suffix, make, judge, judge_rows, kind):
    halves = (crowd.WAYS[::2], crowd.WAYS[1::2])
    for save in (save_in_place, save_by_rename, save_by_sql):
        for half, ways in enumerate(halves):
            names = " ".join(way.__name__ for way in ways)

            def test(box, save=save, ways=ways):
                crowd_saves(box, suffix, save, make, judge, ways, judge_rows)

            how = save.__name__.removeprefix("save_").replace("_", " ")
            text = f"test_{kind} saved {how} are read whole {names}".replace(" ", "_")
            test.__name__ = text
            # Readers are overtaken by commits of SQL for as long as those come: a quick machine is
            # needed to see the end of it.
            if save is save_by_sql:
                test = harness.soak(test)
            globals()[text] = test


define(".json", document, judge_document, judge_row, "documents")
define(".jsonl", items, judge_list, judge_lines, "lists")


# Beside much that waits to be taken in


def come_and_go(mount):
    """Keys by the ten thousand, which others' statements make and remove."""
    with sqlite3.connect(mount.store, timeout=HANG, isolation_level=None) as database:
        for number in range(3):
            database.execute(
                "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)"
                f" INSERT INTO {TABLE} (session_id, state_key, item_index, state_data)"
                " SELECT ?, 'k' || i, 0, '[]' FROM n",
                (f"x{number}",),
            )
            time.sleep(0.5)
            database.execute(f"DELETE FROM {TABLE} WHERE session_id = ?", (f"x{number}",))
            time.sleep(0.5)


@harness.soak
def test_documents_are_read_whole_while_much_of_others_waits(box):
    mount, session = box.session(options=("pause=0",))
    path = os.path.join(session, "k.json")
    write(path, document(0, 0))
    savers = [(save_by_sql, mount, path, document, writer) for writer in range(SAVERS)]
    looks = [(look, way, path, judge_document) for way in crowd.WAYS[1::2]]
    crowd.run_together(
        [(come_and_go, mount), *savers], [*looks, (look_in_sql, mount.store, judge_row)]
    )
    judge_document(read(path))
    mount.check()


# Rewriting


def test_a_client_that_rewrites_ten_thousand_messages_to_add_one_inserts_one_row(box):
    mount, session = box.session()
    path = os.path.join(session, "messages.jsonl")
    lines = [b'{"role": "user", "content": "message %d"}\n' % n for n in range(10_000)]

    def in_place(data):
        write(path, data)

    def over_it(data):
        write(path + ".tmp", data)
        os.rename(path + ".tmp", path)

    def unlinked_first(data):
        os.unlink(path)
        write(path, data)

    in_place(b"".join(lines))
    for count, rewrite in enumerate((in_place, over_it, unlinked_first), 10_000):
        mount.sql(f"UPDATE {TABLE} SET created_at = 'then', updated_at = 'then'")
        eventually(lambda: read(path) == b"".join(lines), "the list is as it was")
        lines.append(b'{"role": "assistant", "content": "%d more"}\n' % count)
        rewrite(b"".join(lines))
        same(mount.rows("s", "messages") == [line[:-1] for line in lines], True, "the rows")
        kept = mount.sql(
            f"SELECT count(*), max(item_index) FROM {TABLE}"
            " WHERE created_at = 'then' AND updated_at = 'then'"
        )
        same(kept, [(count, count - 1)], f"rows that a rewrite {rewrite.__name__} left alone")


# One reader in the middle


def test_who_is_in_the_middle_of_a_file_finishes_that_version(box):
    mount, session = box.session()
    for suffix, make in ((".json", document), (".jsonl", items)):
        path = os.path.join(session, "m" + suffix)
        old, new = make(1, 0), make(2, 0)
        write(path, old)
        with open(path, "rb", buffering=0) as reader:
            begin = reader.read(50_000)
            write(path, new)
            same(read(path), new, f"the {suffix} to others")
            same(os.stat(path).st_size, len(new), "its size")
            rest = b"".join(iter(lambda: reader.read(50_000), b""))
            same(begin + rest == old, True, f"the {suffix} to who was in the middle")
            reader.seek(0)
            again = b"".join(iter(lambda: reader.read(50_000), b""))
            same(again == new, True, f"the {suffix} from its start")


def test_who_is_in_the_middle_of_rows_that_others_remove_reads_them_to_their_end(box):
    mount, session = box.session()
    write(os.path.join(session, "stays"), b"the folder")
    for name, data in (("k.json", document(0, 0)), ("l.jsonl", items(0, 0))):
        path = os.path.join(session, name)
        for begun in (0, 8192):
            write(path, data)
            with open(path, "rb", buffering=0) as file:
                size = os.fstat(file.fileno()).st_size
                parts = [file.read(begun)] if begun else []
                mount.sql(f"DELETE FROM {TABLE} WHERE state_key = '{name[0]}'")
                eventually(lambda path=path: not os.path.exists(path), "the file is gone")
                parts += iter(lambda file=file: file.read(8192), b"")
            same(b"".join(parts) == data, True, f"{name} from {begun} on")
            same(size, len(data), "its size")


def test_a_file_that_is_open_does_not_keep_others_from_emptying_the_log(box):
    mount, session = box.session()
    path = os.path.join(session, "k.json")
    write(path, document(0, 0))
    with open(path, "rb", buffering=0) as file, sqlite3.connect(
        mount.store, timeout=HANG, isolation_level=None
    ) as database:
        file.read(1)
        database.execute("CREATE TABLE mine (x)")
        for _ in range(1100):
            database.execute("INSERT INTO mine VALUES (randomblob(200000))")
            time.sleep(0.005)
        size = os.path.getsize(mount.store + "-wal")
        assert size < 192 << 20, f"the log has {size} bytes"
        busy = database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
        same(busy, 0, "readers in the way")
        same(file.read(), document(0, 0)[1:], "the rest")


def test_a_copy_in_the_middle_of_a_file_finishes_that_version(box):
    mount, session = box.session()
    for suffix, make in ((".json", document), (".jsonl", items)):
        path = os.path.join(session, "c" + suffix)
        old, new = make(1, 0), make(2, 0)
        copied = box.new_path("copy")
        write(path, old)
        with open(path, "rb") as source, open(copied, "wb") as target:
            size = os.fstat(source.fileno()).st_size
            done = os.sendfile(target.fileno(), source.fileno(), 0, 40_000)
            write(path, new)
            same(os.fstat(source.fileno()).st_size, size, "the size to who copies")
            while True:
                part = os.sendfile(target.fileno(), source.fileno(), done, 100_000)
                if not part:
                    break
                done += part
        same(read(copied) == old, True, f"the copy of the {suffix}")
        same(crowd.by_copy(path) == new, True, f"the next copy of the {suffix}")


def rounds_beside_a_save(mount, path, text):
    """How often a directory is made and removed while a list is saved."""
    fd = os.open(path, os.O_WRONLY | os.O_TRUNC)
    put(fd, text)
    neighbour = mount.at("other")
    saver = threading.Thread(target=os.close, args=(fd,))
    rounds = 0
    saver.start()
    while saver.is_alive():
        os.mkdir(neighbour)
        os.rmdir(neighbour)
        rounds += 1
    saver.join()
    return rounds


def test_neighbours_go_on_while_a_large_save_is_looked_through(box):
    mount, session = box.session()
    path = os.path.join(session, "l.jsonl")
    size = 64 << 20
    text = b'{"text": "%s"}\n' % (b"x" * 1000) * (size // 1000)
    write(path, text)
    # If they were held up it would never be more than two; who gets the processor is chance.
    most = 0
    for _ in range(20):
        text = text[:-1]
        most = max(most, rounds_beside_a_save(mount, path, text))
        same(os.stat(path).st_size, len(text), "bytes of the list")
        if most >= 5:
            break
    box.note(f"{most} rounds")
    assert most >= 5, f"{most} directories were made while a list was saved"


SAVE_BY_ONE_NAME = r"""
import json, os, sys
path, word, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
torn = 0
for i in range(count):
    text = json.dumps({"by": word, "text": word * (9000 if i % 2 else 20)})
    try:
        with open(path + ".tmp", "w") as file:
            file.write(text)
            file.flush()
            if i % 3 == 0:
                os.fsync(file.fileno())
            if i % 5 == 0:
                os.replace(path + ".tmp", path)
        if i % 5:
            os.replace(path + ".tmp", path)
    except FileNotFoundError:
        pass
    try:
        json.load(open(path))
    except ValueError:
        torn += 1
sys.exit(f"{torn} of {count} were torn" if torn else 0)
"""


# Another process, that comes by the name all the time: it gets no error, and nothing but whole
# documents.
READ_BY_NAME = r"""
import json, os, sys
count = 0
while os.read(0, 65536):
    for i in range(50):
        with open(sys.argv[1], "rb") as file:
            data = file.read()
        document = json.loads(data)
        if set(document["text"]) != set(document["by"]):
            sys.exit(f"a mixture of {len(data)} bytes")
        count += 1
print(count)
"""


def ask_until(savers, reader):
    """Have a reader read until the savers have ended; returns how often it did."""
    while any(saver.poll() is None for saver in savers):
        reader.stdin.write(b"x")
        reader.stdin.flush()
        time.sleep(0.01)
    said = reader.communicate(timeout=180)[0]
    assert not reader.returncode, "a reader failed"
    return int(said)


def test_two_processes_that_save_by_one_temporary_name_never_tear_the_document(box):
    _, session = box.session()
    path = os.path.join(session, "agent.json")
    count = str(harness.rounds("SESSFS_TEMPORARY_SAVES", 60, 2000))
    write(path, b'{"by": "", "text": ""}')
    savers = [
        subprocess.Popen(
            [sys.executable, "-c", SAVE_BY_ONE_NAME, path, word, count], stderr=subprocess.PIPE
        )
        for word in "ab"
    ]
    reader = subprocess.Popen(
        [sys.executable, "-c", READ_BY_NAME, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    box.note(f"{ask_until(savers, reader)} reads")
    for saver in savers:
        _, said = saver.communicate(timeout=180)
        assert not saver.returncode, said.decode()
    assert json.loads(read(path))["by"] in ("a", "b")


harness.main(globals())
