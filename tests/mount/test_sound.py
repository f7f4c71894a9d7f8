#!/usr/bin/python3 -B
# SPDX-License-Identifier: MIT
"""Stores that hold what no program of ours writes: check finds it, every verb says what it cannot
hand out, nothing crashes, and a repair makes a store that can be mounted."""

import contextlib
import errno
import os
import shutil

import damage
from harness import TABLE, append, errno_of, main, read, same, write

LAST = (1 << 63) - 1


def prepared(box):
    """An unmounted store with two sessions, and a file of each kind."""
    mount, session = box.session()
    os.makedirs(session + "/dir/deep")
    write(session + "/dir/deep/k.json", b"1")
    append(session + "/l.jsonl", b'{"n": 1}\n' * 3)
    write(session + "/plain", b"text")
    os.symlink("plain", session + "/link")
    os.mkdir(mount.at("other"))
    write(mount.at("other", "k.json"), b"2")
    mount.stop()
    return mount.store


def ino_of(name):
    return f"(SELECT ino FROM sessfs_entry WHERE name = CAST('{name}' AS BLOB))"


def rename(name, to):
    return f"UPDATE sessfs_entry SET name = {to} WHERE name = CAST('{name}' AS BLOB)"


def node(name, change):
    return f"UPDATE sessfs_node SET {change} WHERE ino = {ino_of(name)}"


# What is wrong, and whether a listing has to tell of it.
NAMES = {
    "a name '..'": (rename("plain", "x'2e2e'"), True),
    "a name '.'": (rename("dir", "x'2e'"), True),
    "a name with a slash": (rename("plain", "x'612f62'"), True),
    "an empty name": (rename("dir", "x''"), True),
    "a name with NUL": (rename("plain", "x'610062'"), True),
    "a name that is too long": (rename("plain", "CAST(printf('%.*c', 256, 'n') AS BLOB)"), True),
    "a name that is text": (rename("plain", "'plain'"), True),
}
NODES = {
    "an unknown kind": (node("plain", "kind = 9"), True),
    "no type of file": (node("plain", "mode = 420"), True),
    "a state that is a directory": (node("l.jsonl", "mode = 16877"), True),
    "a state without a key": (node("l.jsonl", "state_key = NULL"), True),
    "a session without an id": (node("other", "session_id = NULL"), True),
    "a negative size": (node("plain", "size = -5"), True),
    "a link to nothing": (node("link", "target = x''"), True),
    "a link with NUL": (node("link", "target = x'610062'"), True),
    "a directory in itself": (
        f"INSERT INTO sessfs_entry VALUES ({ino_of('deep')}, 9999, x'63', {ino_of('dir')})",
        False,
    ),
    "a directory elsewhere": (node("deep", "parent = 1, entry = 9999"), False),
    "the root in a directory": (
        f"INSERT INTO sessfs_entry VALUES ({ino_of('s')}, 9999, x'63', 1)",
        True,
    ),
    "an entry in a file": (
        f"INSERT INTO sessfs_entry VALUES ({ino_of('plain')}, 9999, x'63', {ino_of('link')})",
        False,
    ),
    "an entry to nothing": (
        f"INSERT INTO sessfs_entry VALUES ({ino_of('s')}, 9999, x'63', 777)",
        False,
    ),
    "a node that nothing leads to": ("DELETE FROM sessfs_entry WHERE name = x'6c696e6b'", False),
    "a state in another session": (node("l.jsonl", "session_id = 'other'"), False),
    "a size that is text": (node("plain", "size = 'large'"), False),
    "an inode number at its end": (
        f"UPDATE sessfs_entry SET ino = {LAST} WHERE name = CAST('plain' AS BLOB);"
        f"UPDATE sessfs_node SET ino = {LAST} WHERE ino NOT IN (SELECT ino FROM sessfs_entry)"
        " AND ino > 1",
        False,
    ),
    "an id of an entry at its end": (
        f"UPDATE sessfs_node SET entry = {LAST} WHERE ino = {ino_of('plain')};"
        f"UPDATE sessfs_entry SET id = {LAST} WHERE name = CAST('plain' AS BLOB)",
        False,
    ),
    "a root without links": ("UPDATE sessfs_node SET nlink = 0 WHERE ino = 1", False),
    "a large chunk": ("UPDATE sessfs_chunk SET data = zeroblob(40000)", False),
    "an attribute without a name": ("INSERT INTO sessfs_xattr VALUES (1, x'', x'61')", False),
}
SCHEMA = {
    "no table of changes": ("DROP TABLE sessfs_change", False),
    "no table of marks": ("DROP TABLE sessfs_mark", False),
    "a table with other columns": ("ALTER TABLE sessfs_node RENAME COLUMN mtime TO time", False),
    "no index of keys": ("DROP INDEX sessfs_node_key", False),
    "no trigger": ("DROP TRIGGER sessfs_row_insert", False),
    "a stamp at its end": (f"UPDATE sessfs_meta SET value = {LAST} WHERE key = 'stamp'", False),
    "no stamp": ("DELETE FROM sessfs_meta WHERE key = 'stamp'", False),
    "a last inode number at its end": (
        f"INSERT OR REPLACE INTO sessfs_meta (key, value) VALUES ('last_ino', {LAST})",
        False,
    ),
    "no root": ("DELETE FROM sessfs_node WHERE ino = 1", False),
}


def spoilt(box, store, sql):
    path = os.path.join(box.new_folder("spoilt"), "s.db")
    shutil.copyfile(store, path)
    with contextlib.closing(damage.connect(path)) as base:
        base.executescript(sql)
    return path


def ends_well(done, what):
    assert done.returncode in (0, 1, 2), f"{what} ended with {done.returncode}: {done.stderr}"
    assert b"Sanitizer" not in done.stderr, f"{what}: {done.stderr}"
    return done


def try_verbs(box, path, what, listed):
    """They end, and say what they cannot hand out."""
    out = box.new_folder("out")
    for command in (["ls", path, "s"], ["export", path, out], ["export", path, "-"]):
        done = ends_well(box.sessfs(*command), f"{what}: {command}")
        if listed and command[0] == "export":
            same(done.returncode, 1, f"{what}: the status of {command}")
            assert done.stderr, f"{what}: no sentence"
    for command in (
        ["cat", path, "s/l.jsonl", "s/plain", "s/dir/deep/k.json"],
        ["sessions", path],
        ["stats", path],
        ["gc", "-n", path],
        ["import", box.new_path("new") + ".db", path],
        ["backup", path, box.new_path("copy") + ".db"],
    ):
        ends_well(box.sessfs(*command), f"{what}: {command}")


def try_mount(box, path, what):
    try:
        mount = box.mount(store=path)
    except AssertionError as error:
        assert "mount ended with 1" in str(error), f"{what}: {error}"
        box.mounts.pop().forget()
        return
    for folder, _, names in os.walk(mount.path):
        for name in names:
            error = errno_of(read, os.path.join(folder, name))
            assert error in (0, errno.EIO, errno.ELOOP, errno.ENOENT), f"{what}: {name}: {error}"
    if what not in ("a session without an id", "no root"):
        same(read(mount.at("other", "k.json")), b"2", f"{what}: another session")
    errno_of(write, mount.at("other", "new.json"), b"3")
    mount.stop()


def try_repair(box, path, what):
    done = ends_well(box.sessfs("check", "--repair", path), what)
    assert done.returncode in (0, 1), f"{what}: a repair ended with {done.stderr}"
    mount = box.mount(store=path + ".repaired")
    write(mount.at("after.txt"), b"4")
    os.makedirs(mount.at("after"), exist_ok=True)
    write(mount.at("after", "k.json"), b"5")
    mount.stop()
    mount.check()
    with contextlib.closing(damage.connect(path + ".repaired")) as base:
        rows = base.execute(f"SELECT count(*) FROM {TABLE}").fetchone()[0]
        same(rows, 6, f"{what}: the rows, and one more")


def try_all(box, cases):
    store = prepared(box)
    same(box.sessfs("check", store).returncode, 0, "the status of check, as it is")
    for what, (sql, listed) in cases.items():
        done = box.sessfs("check", spoilt(box, store, sql))
        same(done.returncode, 1, f"{what}: the status of check: {done.stdout} {done.stderr}")
        try_verbs(box, spoilt(box, store, sql), what, listed)
        try_mount(box, spoilt(box, store, sql), what)
        try_repair(box, spoilt(box, store, sql), what)


def test_names_that_no_file_can_have_are_found_and_repaired(box):
    try_all(box, NAMES)


def test_nodes_that_do_not_fit_are_found_and_repaired(box):
    try_all(box, NODES)


def test_a_schema_that_is_another_is_found_and_repaired(box):
    try_all(box, SCHEMA)


def test_a_root_without_links_is_no_orphan(box):
    path = spoilt(box, prepared(box), NODES["a root without links"][0])
    done = box.sessfs("check", path)
    assert b"next mount deletes it" not in done.stdout + done.stderr, done
    mount = box.mount(store=path)
    for _ in range(2):
        same(read(mount.at("other", "k.json")), b"2", "a file")
        mount.remount()
    same(read(mount.at("s", "plain")), b"text", "another")
    mount.stop()


main(globals())
