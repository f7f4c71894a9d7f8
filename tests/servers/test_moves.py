#!/usr/bin/python3 -B
# SPDX-License-Identifier: MIT
"""Stores that move between SQLite, MariaDB and PostgreSQL by backup and restore."""

import json
import os
import sqlite3
import stat
import sys
import threading

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import servers  # noqa: E402
from servers import harness  # noqa: E402
from harness import append, read, same, soak, write  # noqa: E402
from test_stores import run, start  # noqa: E402

TABLE = harness.TABLE
LINES = harness.rounds("SESSFS_LINES", 5000, 20000)


def attributes(root):
    """path -> extended attributes that somebody has set."""
    found = {}
    for folder, names, files in os.walk(os.fsencode(root)):
        for path in [folder] + [os.path.join(folder, name) for name in names + files]:
            values = {
                name: os.getxattr(path, name, follow_symlinks=False)
                for name in os.listxattr(path, follow_symlinks=False)
                if not name.startswith("user.sessfs.") or name == "user.sessfs.ttl"
            }
            if values:
                found[path[len(root) :]] = values
    return found


def seen(mount):
    return harness.tree(mount.path, times=True), attributes(mount.path)


def fill(mount):
    """One of everything that a store can hold."""
    for name in ("s", "empty", "s/deep", "s/deep/er", "ünï😀", "a%2Fb"):
        os.mkdir(mount.at(name))
    append(mount.at("s", "l.jsonl"), b'{"n": 1}\n{"n": "\xc3\xa9\\u0000"}\n')
    append(mount.at("s", "torn.jsonl"), b'{"n": 1}\nno json\n\xff\xfe\n{"n": 2}\n{"n')
    append(mount.at("s", "long.jsonl"), b"".join(b'{"line": %d}\n' % i for i in range(LINES)))
    write(mount.at("s", "none.jsonl"), b"")
    write(mount.at("s", "a.json"), b'{"a": [1]}\n')
    write(mount.at("s", "draft.json"), b'{"a": ')
    write(mount.at("s", "a.hash"), b"0123")
    write(mount.at("s", "deep", "er", "b.json"), b"{}")
    write(mount.at("ünï😀", "a.json"), b'"\xf0\x9f\x98\x80"')
    write(mount.at("plain.bin"), bytes(range(256)) * 1000)
    write(mount.at("void"), b"")
    with open(mount.at("holes"), "wb") as file:
        file.seek(10_000_000)
        file.write(b"end")
    os.symlink("plain.bin", mount.at("link"))
    os.symlink("x" * 3000, mount.at("s", "far"))
    for name in ("two", "s/three"):
        os.link(mount.at("plain.bin"), mount.at(name))
    os.mkfifo(mount.at("fifo"), 0o640)
    os.setxattr(mount.at("s"), "user.sessfs.ttl", b"300d")
    os.setxattr(mount.at("s", "a.json"), "user.empty", b"")
    os.setxattr(mount.at("plain.bin"), "user.bytes", bytes(range(256)))
    os.setxattr(mount.path, "user.root", b"of the root")
    os.chmod(mount.at("s", "a.json"), 0o600)
    os.chmod(mount.at("empty"), 0o711)
    if os.geteuid() == 0:
        os.chown(mount.at("s", "a.json"), 12, 34)
        os.chown(mount.at("empty"), 56, 78)
    for name, second in (("s/a.json", -5), ("plain.bin", 10**9), ("empty", 1)):
        os.utime(mount.at(name), ns=(second * 10**9 + 1, second * 10**9 + 123456789))


def make_source(box):
    """A store of SQLite, which is not mounted, and what it shows."""
    store = box.new_path("store.db")
    mount = box.mount(store=store)
    fill(mount)
    os.mkdir(mount.at("old"))
    append(mount.at("old", "seldom.jsonl"), b"1\n2\n")
    mount.unmount()
    with sqlite3.connect(store) as base:
        base.execute(
            f"UPDATE {TABLE} SET created_at = '2020-02-03 04:05:06', "
            "updated_at = '2021-02-03 04:05:06' WHERE state_key = 'seldom'"
        )
    run(box, "config", store, "ttl=30000d", "pause=3")
    run(box, "put", store, "gone/a.json", stdin=b"1")
    mount = box.mount(store=store)
    write(mount.at("brief"), b"")
    number = os.stat(mount.at("brief")).st_ino
    os.unlink(mount.at("brief"))
    found = seen(mount)
    mount.unmount()
    return store, found, number


def compare(box, expected, store):
    mount = box.mount(store=store)
    trees, values = seen(mount)
    harness.same_trees(expected[0], trees, f"{store}: ")
    same(values, expected[1], "attributes")
    mount.unmount()


def told(box, store):
    """What the verbs say of a store that does not depend on what it is kept in."""
    sessions = json.loads(run(box, "sessions", "--json", store))
    stats = json.loads(run(box, "stats", "--json", store))
    for numbers in sessions + [stats]:
        for name in ("created", "changed"):
            numbers[name] = numbers[name] and round(numbers[name], 3)
    del stats["store_bytes"]
    return sessions, stats, run(box, "config", store)


def moves(box, kind):
    base = start(box, kind).database()
    store, expected, number = make_source(box)
    known = told(box, store)
    run(box, "restore", store, base.url)
    compare(box, expected, base.url)
    same(told(box, base.url), known, "what the verbs say")
    back = box.new_path("back.db")
    run(box, "backup", base.url, back)
    same(stat.S_IMODE(os.stat(back).st_mode), 0o600, "mode")
    folder = os.path.dirname(back)
    same([n for n in os.listdir(folder) if ".sessfs-" in n], [], "what is left beside")
    compare(box, expected, back)
    same(told(box, back), known, "what the verbs say of what came back")
    streamed = box.new_path("stream.db")
    write(streamed, run(box, "backup", base.url, "-"))
    compare(box, expected, streamed)
    # The number of a file that was there is not given again.
    for there in (base.url, back):
        mount = box.mount(store=there)
        write(mount.at("new"), b"")
        assert os.stat(mount.at("new")).st_ino > number, "a new number"
        mount.unmount()


def test_a_store_moves_to_mariadb_and_back(box):
    moves(box, "mysql")


def test_a_store_moves_to_postgresql_and_back(box):
    moves(box, "postgresql")


def test_a_store_moves_from_mariadb_to_postgresql(box):
    one, two = (start(box, kind).database() for kind in ("mysql", "postgresql"))
    mount = box.mount(store=one.url)
    fill(mount)
    expected = seen(mount)
    mount.unmount()
    run(box, "restore", one.url, two.url)
    compare(box, expected, two.url)


def replaces(box, kind):
    server = start(box, kind)
    base = server.database()
    store = box.new_path("small.db")
    run(box, "put", store, "new/a.json", stdin=b"1")
    mount = box.mount(store=base.url)
    fill(mount)
    done = box.sessfs("restore", store, base.url)
    same(done.returncode, 1, "status while it is mounted")
    assert b"mounted" in done.stderr, done.stderr
    mount.unmount()
    run(box, "gc", "--older-than=0s", base.url)  # some of it is in the trash
    run(box, "put", base.url, "old/a.json", stdin=b"1")
    done = box.sessfs("restore", store, base.url)
    same(done.returncode, 1, "status when it is not empty")
    assert b"--force" in done.stderr, done.stderr
    assert b"old" in run(box, "ls", base.url), "it is as it was"
    run(box, "restore", "--force", store, base.url)
    same(run(box, "ls", base.url), b"new/\n", "what is there now")
    same(run(box, "sessions", base.url).count(b"\n"), 1, "lines about one session")
    assert b"clean" in box.sessfs("check", base.url, check=True).stderr, "check"
    with base.connect() as client:
        same(client.query("SELECT COUNT(*) FROM sessfs_trash"), [(b"0",)], "trash")
        same(client.query("SELECT COUNT(*) FROM sessfs_xattr"), [(b"0",)], "attributes")


def test_what_mariadb_has_is_replaced_only_when_it_is_said_so(box):
    replaces(box, "mysql")


def test_what_postgresql_has_is_replaced_only_when_it_is_said_so(box):
    replaces(box, "postgresql")


def fails(box, kind):
    """What cannot be kept there leaves the target empty, and is told."""
    base = start(box, kind).database()
    store = box.new_path("store.db")
    run(box, "put", store, "a/a.json", stdin=b"1")
    with sqlite3.connect(store) as rows:
        bad = b"\xff" if kind == "postgresql" else b'"\xff"'
        rows.execute(f"INSERT INTO {TABLE} (session_id, state_key, item_index, state_data) "
                     "VALUES ('z', 'bad', 0, CAST(? AS TEXT))", [bad])
    done = box.sessfs("restore", store, base.url)
    same(done.returncode, 1, "status")
    assert b"session z, key bad" in done.stderr, done.stderr
    same(run(box, "ls", base.url), b"", "what is there")
    with sqlite3.connect(store) as rows:
        rows.execute(f"DELETE FROM {TABLE} WHERE session_id = 'z'")
    run(box, "restore", store, base.url)
    same(run(box, "ls", base.url), b"a/\n", "what is there at last")


def test_what_mariadb_cannot_keep_is_told(box):
    fails(box, "mysql")


def test_what_postgresql_cannot_keep_is_told(box):
    fails(box, "postgresql")


def incomplete(box, kind):
    """A copy that was given up in the middle is taken for none."""
    base = start(box, kind).database()
    run(box, "put", base.url, "a/a.json", stdin=b"1")
    with base.connect() as client:
        word = "'incomplete', '1'"
        if kind == "postgresql":
            word = "'incomplete'::bytea, '1'::bytea"
        client.query(f"INSERT INTO sessfs_setting (name, value) VALUES ({word})")
    for words in (["ls"], ["mount"], ["backup"]):
        more = [box.new_folder() if words == ["mount"] else box.new_path("x.db")]
        done = box.sessfs(*words, base.url, *(more if words != ["ls"] else []))
        same(done.returncode, 1, f"status of {words}")
        assert b"not complete" in done.stderr, done.stderr
    store = box.new_path("store.db")
    run(box, "put", store, "b/a.json", stdin=b"1")
    same(box.sessfs("restore", store, base.url).returncode, 1, "status without --force")
    run(box, "restore", "--force", store, base.url)
    same(run(box, "ls", base.url), b"b/\n", "what is there then")


def test_half_a_copy_on_mariadb_is_taken_for_none(box):
    incomplete(box, "mysql")


def test_half_a_copy_on_postgresql_is_taken_for_none(box):
    incomplete(box, "postgresql")


def at_an_instant(box, kind):
    """While it is written to, also by SQL: two lists that always have the same length."""
    base = start(box, kind).database()
    mount = box.mount(store=base.url)
    os.mkdir(mount.at("s"))
    ended = threading.Event()

    def work():
        with base.connect() as client:
            n = 0
            while not ended.is_set():
                client.query("BEGIN")
                for key in ("one", "two"):
                    client.query(
                        f"INSERT INTO {TABLE} (session_id, state_key, item_index, state_data) "
                        f"VALUES ('q', '{key}', {n}, '{n}')"
                    )
                client.query("COMMIT")
                append(mount.at("s", "l.jsonl"), b'{"n": %d}\n' % n)
                n += 1

    copies = [box.new_path("copy.db") for _ in range(5)]
    thread = threading.Thread(target=work)
    thread.start()
    try:
        harness.eventually(lambda: os.path.exists(mount.at("q")), "somebody writes by SQL")
        for copy in copies:
            run(box, "backup", base.url, copy)
    finally:
        ended.set()
        thread.join()
    for copy in copies:
        run(box, "check", copy)
        one, two = (run(box, "cat", copy, f"q/{key}.jsonl") for key in ("one", "two"))
        same(one, two, "two lists that were changed together")
        assert one, "there is something in them"
    assert read(mount.at("s", "l.jsonl")), "lines"


@soak
def test_a_backup_of_mariadb_is_of_one_instant(box):
    at_an_instant(box, "mysql")


def test_a_backup_of_postgresql_is_of_one_instant(box):
    at_an_instant(box, "postgresql")


if __name__ == "__main__":
    servers.main(globals())
