#!/usr/bin/python3 -B
# SPDX-License-Identifier: MIT
"""Many processes at once: nothing is torn, lost or mixed, and the daemon's memory is in order.

  SESSFS_TSAN  a program that was built with --enable-tsan: the load runs on it too
"""

import json
import os
import random
import shutil
import sqlite3
import time

import harness
from crowd import run_together
from harness import HANG, INSERT, TABLE, Skip, append, need_tool, put, read, same, write


# What the processes do


def record(writer, number, size):
    return b'{"writer": %d, "n": %d, "pad": "%s"}\n' % (writer, number, b"%d" % writer * size)


def append_lines(path, writer, count, cut):
    """Lines through a buffer of cut bytes, as stdio writes them: cut anywhere in a line."""
    rng = random.Random(writer)
    data = b"".join(record(writer, n, rng.randrange(600)) for n in range(count))
    fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    for start in range(0, len(data), cut):
        put(fd, data[start : start + cut])
    os.close(fd)


def append_each(path, writer, count):
    """Open, write, close a line."""
    for number in range(count):
        append(path, record(writer, number, number % 50))


def document(version, size):
    return json.dumps({"v": version, "pad": [version] * size}).encode()


def save_by_truncate(path, count, writer):
    for number in range(count):
        write(path, document(writer * 10**6 + number, (number * 131) % 4000))


def save_by_rename(path, count, writer):
    for number in range(count):
        write(f"{path}.{writer}.tmp", document(writer * 10**6 + number, (number * 97) % 4000))
        os.rename(f"{path}.{writer}.tmp", path)


def read_documents(path, count):
    for _ in range(count):
        try:
            data = read(path)
        except FileNotFoundError:
            continue
        value = json.loads(data)
        assert set(value["pad"]) <= {value["v"]}, "two versions are mixed"


def read_lists(path, count):
    """Whole lines only, never shrinking, no zeros."""
    last = 0
    for number in range(count):
        try:
            data = read(path)
        except FileNotFoundError:
            time.sleep(0.01)
            continue
        assert b"\0" not in data, "zeros in a list"
        assert len(data) >= last, f"the list has shrunk from {last} to {len(data)}"
        last = len(data)
        for line in data.splitlines():
            value = json.loads(line)
            assert set(value["pad"]) <= set(str(value["writer"])), "lines are mixed"
        if number % 4 == 0:
            copy_and_check(path)


def copy_and_check(path):
    with open(path, "rb") as source, open(os.devnull, "wb") as sink:
        shutil.copyfileobj(source, sink)


def list_and_change_names(folder, count):
    """Folders and files come and go; what must be there is there."""
    for number in range(count):
        own = os.path.join(folder, f"d{os.getpid()}")
        os.mkdir(own)
        write(os.path.join(own, "k.json"), b"%d" % number)
        os.rename(os.path.join(own, "k.json"), os.path.join(own, "l.jsonl"))
        names = {entry.name for entry in os.scandir(folder)}
        assert os.path.basename(own) in names, "a new folder is not listed"
        for name in names:
            try:
                os.stat(os.path.join(folder, name))
            except FileNotFoundError:
                pass
        moved = own + "x"
        os.rename(own, moved)
        same(read(os.path.join(moved, "l.jsonl")), b"%d" % number, "a moved file")
        os.unlink(os.path.join(moved, "l.jsonl"))
        os.rmdir(moved)


def use_sql(store, count):
    """Another client of the store, that reads the rows and writes a list of its own."""
    base = sqlite3.connect(store, timeout=HANG, isolation_level=None)
    for number in range(count):
        base.execute(INSERT, ("s", "sql", number, json.dumps({"n": number})))
        bad = base.execute(
            f"SELECT count(*) FROM {TABLE} WHERE NOT json_valid(state_data)"
        ).fetchone()
        same(bad, (0,), "rows that are not JSON")
        time.sleep(0.002)
    base.close()


def mixed_load(mount, scale):
    """Eight processes; afterwards every line is there once and in its writer's order."""
    session = mount.at("s")
    os.mkdir(session)
    shared = os.path.join(session, "shared.jsonl")
    doc = os.path.join(session, "doc.json")
    write(doc, document(1, 10))
    run_together(
        [
            (append_lines, shared, 1, 40 * scale, 777),
            (append_lines, shared, 2, 40 * scale, 8192),
            (append_each, shared, 3, 10 * scale),
            (save_by_truncate, doc, 4 * scale, 1),
            (save_by_rename, doc, 4 * scale, 2),
            (read_documents, doc, 10 * scale),
            (read_lists, shared, 2 * scale),
            (list_and_change_names, session, 3 * scale),
            (use_sql, mount.store, 4 * scale),
        ]
    )
    lines = read(shared).splitlines()
    counts = {1: 40 * scale, 2: 40 * scale, 3: 10 * scale}
    for writer, count in counts.items():
        own = [v["n"] for v in map(json.loads, lines) if v["writer"] == writer]
        same(own, list(range(count)), f"lines of writer {writer}")
    same(mount.rows("s", "shared"), lines, "rows")
    same(len(mount.rows("s", "sql")), 4 * scale, "rows that SQL has inserted")
    sql = b"".join(b'{"n": %d}\n' % n for n in range(4 * scale))
    harness.eventually(
        lambda: read(os.path.join(session, "sql.jsonl")) == sql, "the list of SQL"
    )
    same(sorted(os.listdir(session)), ["doc.json", "shared.jsonl", "sql.jsonl"], "names")
    mount.stop()
    mount.check()


# Tests


def test_eight_processes_at_once_tear_nothing(box):
    mixed_load(box.mount(), 25)


def test_appenders_with_any_buffering_never_mix_their_lines(box):
    mount, session = box.session()
    path = os.path.join(session, "l.jsonl")
    cuts = (100, 777, 4096, 8192, 524288, 1)
    counts = [5 if cut == 1 else 400 for cut in cuts]
    writers = [(append_lines, path, n, counts[n], cut) for n, cut in enumerate(cuts)]
    run_together(writers + [(read_lists, path, 30)] * 2)
    values = [json.loads(line) for line in read(path).splitlines()]
    for writer, cut in enumerate(cuts):
        own = [value["n"] for value in values if value["writer"] == writer]
        same(own, list(range(counts[writer])), f"lines of the writer of {cut} bytes")
    same(mount.rows("s", "l"), read(path).splitlines(), "rows")


def test_two_savers_at_once_never_interleave(box):
    mount, session = box.session()
    path = os.path.join(session, "doc.json")
    write(path, document(0, 5))
    savers = [(save_by_truncate, path, 100, n) for n in (1, 2)]
    savers += [(save_by_rename, path, 100, n) for n in (3, 4)]
    run_together(savers + [(read_documents, path, 300)] * 3)
    value = json.loads(read(path))
    assert value["v"] % 10**6 == 99, f"the last save is {value['v']}"
    same(mount.rows("s", "doc"), [read(path)], "the row")


def count_up(path, count):
    """Lock, read, change, write back."""
    import fcntl

    for _ in range(count):
        with open(path, "r+b", buffering=0) as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            value = json.loads(file.read())
            file.seek(0)
            file.truncate()
            file.write(json.dumps({"count": value["count"] + 1}).encode())
            file.flush()
            os.fsync(file.fileno())
            fcntl.flock(file, fcntl.LOCK_UN)


def test_lock_read_change_write_back_loses_no_update(box):
    mount, session = box.session()
    path = os.path.join(session, "k.json")
    write(path, b'{"count": 0}')
    run_together([(count_up, path, 50)] * 4)
    same(json.loads(read(path)), {"count": 200}, "the file")
    same([json.loads(row) for row in mount.rows("s", "k")], [{"count": 200}], "the row")


def use_own_files(folder, writer, count):
    """Ordinary work in a folder of its own: what was written is what is read."""
    own = os.path.join(folder, f"w{writer}")
    os.mkdir(own)
    rng = random.Random(writer)
    for number in range(count):
        name = os.path.join(own, rng.choice(("a.txt", "b.json", "c.jsonl", "d.hash")))
        data = b'{"n": %d, "pad": "%s"}\n' % (number, b"p" * rng.randrange(20000))
        write(name, data)
        same(read(name) == data, True, f"{os.path.basename(name)} of writer {writer}")
        same(os.stat(name).st_size, len(data), "size")
        if rng.random() < 0.3:
            os.unlink(name)


def test_processes_with_files_of_their_own_see_their_own_writes(box):
    mount, session = box.session()
    run_together([(use_own_files, session, writer, 100) for writer in range(8)])
    mount.stop()
    mount.check()


def has_sanitizer(binary):
    data = read(binary)
    return b"__asan_init" in data or b"__tsan_init" in data


def test_valgrind_finds_no_error_under_a_mixed_load(box):
    need_tool("valgrind")
    if has_sanitizer(box.program):
        raise Skip("the program is built with sanitizers")
    wrap = ["valgrind", "--quiet", "--error-exitcode=99", "--leak-check=full"]
    wrap += ["--errors-for-leak-kinds=definite", "--show-leak-kinds=definite"]
    wrap += ["--child-silent-after-fork=yes", "--num-callers=30"]
    mixed_load(box.mount(wrap=wrap), 3)


def test_the_thread_sanitizer_finds_no_race_under_a_mixed_load(box):
    binary = os.environ.get("SESSFS_TSAN")
    if not binary:
        raise Skip("SESSFS_TSAN names no program")
    binary = os.path.abspath(binary)
    if not os.access(binary, os.X_OK):
        raise AssertionError(f"SESSFS_TSAN: {binary} is not executable")
    if b"__tsan_init" not in read(binary):
        raise AssertionError(f"SESSFS_TSAN: {binary} is not built with the thread sanitizer")
    mixed_load(box.mount(binary=binary), 8)


if __name__ == "__main__":
    harness.main(globals())
