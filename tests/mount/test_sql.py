#!/usr/bin/python3 -B
# SPDX-License-Identifier: MIT
"""What SQL changes shows in the files, and what files change shows in SQL."""

import contextlib
import errno
import hashlib
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import threading
import time

import crowd
import harness
from harness import (
    INSERT,
    TABLE,
    append,
    errno_of,
    eventually,
    need_tool,
    read,
    rounds,
    same,
    shell,
    tool,
    write,
)

FOREIGN = f"""
CREATE TABLE {TABLE} (
  session_id VARCHAR(255) NOT NULL,
  state_key VARCHAR(255) NOT NULL,
  item_index INT NOT NULL DEFAULT 0,
  state_data LONGTEXT,
  created_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP,
  updated_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP,
  PRIMARY KEY (session_id, state_key, item_index));
CREATE TABLE somebody_elses (id INTEGER PRIMARY KEY, note TEXT);
INSERT INTO somebody_elses (note) VALUES ('mine');
INSERT INTO {TABLE} VALUES
  ('user123', 'agent_meta', 0, '{{"name": "a"}}', '2020-01-02 03:04:05', '2021-01-02 03:04:05'),
  ('user123', 'memory_messages', 0, '{{"n": 0}}', '2020-01-02 03:04:05', '2020-01-02 03:04:05'),
  ('user123', 'memory_messages', 1, '{{"n": 1}}', '2020-01-02 03:04:05', '2020-01-02 03:04:05'),
  ('user123', 'memory_messages:_hash', 0, 'deadbeef', '2020-01-02 03:04:05', '2020-01-02 03:04:05'),
  ('other', 'one', 0, '1', '2020-01-02 03:04:05', '2020-01-02 03:04:05');
"""


def sqlite_shell(mount, script):
    need_tool("sqlite3")
    tool("sqlite3", "-cmd", ".timeout 20000", mount.store, stdin=script.encode())


def shows(box, path, data):
    """The file has exactly these bytes within the bound, and stat agrees."""

    def agrees():
        try:
            return read(path) == data and os.stat(path).st_size == len(data)
        except FileNotFoundError:
            return False

    took = eventually(agrees, f"{os.path.basename(path)} shows {harness.shorten(data)}")
    box.seen("a change by SQL is seen", took)


def gone(box, path):
    took = eventually(lambda: not os.path.lexists(path), f"{os.path.basename(path)} vanishes")
    box.seen("a deletion by SQL is seen", took)


def listed(box, folder, names):
    took = eventually(lambda: sorted(os.listdir(folder)) == sorted(names), f"{names} are listed")
    box.seen("a new name is listed", took)


# From SQL to files


def test_what_the_sqlite_shell_inserts_updates_and_deletes_shows_in_cat_and_ls(box):
    mount = box.mount()
    sqlite_shell(
        mount, f"INSERT INTO {TABLE} (session_id, state_key, state_data) VALUES ('s', 'k', '[1]');"
    )
    shows(box, mount.at("s", "k.json"), b"[1]")
    sqlite_shell(mount, f"UPDATE {TABLE} SET state_data = '[1, 2, 3]' WHERE session_id = 's';")
    shows(box, mount.at("s", "k.json"), b"[1, 2, 3]")
    same(tool("cat", mount.at("s", "k.json")).stdout, b"[1, 2, 3]", "cat")
    line = tool("ls", "-l", mount.at("s")).stdout.decode().splitlines()[-1].split()
    same((line[4], line[-1]), ("9", "k.json"), "ls -l")
    sqlite_shell(mount, f"DELETE FROM {TABLE} WHERE session_id = 's';")
    gone(box, mount.at("s", "k.json"))


def test_what_sql_does_to_a_file_that_was_just_removed_holds_up_nothing_else(box):
    """Its rows are there for a moment, and whatever happens to them in it is taken in."""
    mount = box.mount()
    os.mkdir(mount.at("s"))
    os.mkdir(mount.at("t"))
    write(mount.at("t", "other.json"), b"{}")
    changes = (
        "DELETE FROM {t} WHERE session_id = 's'",
        "DELETE FROM {t} WHERE session_id = 's' AND item_index > 3",
        "UPDATE {t} SET state_data = '[7]' WHERE session_id = 's' AND item_index = 0",
        "UPDATE {t} SET state_key = 'moved' WHERE session_id = 's'",
        "UPDATE {t} SET session_id = 'u' WHERE session_id = 's'",
        "INSERT INTO {t} (session_id, state_key, item_index, state_data) "
        "VALUES ('s', 'k', 900, '8')",
    )
    contents = {
        "k.json": b"[1, 2, 3]",
        "k.jsonl": b"".join(b'{"n": %d}\n' % n for n in range(800)) + b"torn",
        "k.hash": b"deadbeef",
    }
    for name, data in contents.items():
        for change in changes:
            for way in (os.unlink, lambda path: os.rename(path, path + ".old")):
                path = mount.at("s", name)
                os.makedirs(mount.at("s"), exist_ok=True)
                write(path, data)
                with open(path, "rb", buffering=0) as opened:
                    same(opened.read(4), data[:4], name)
                    way(path)
                    mount.sql(change.format(t=TABLE))
                    same(read(mount.at("t", "other.json")), b"{}", f"{name}: {change}")
                    write(mount.at("t", "another.json"), b"[]")
                    opened.read()
                mount.sql(f"DELETE FROM {TABLE} WHERE session_id <> 't'")

                def all_is_gone():
                    return sorted(os.listdir(mount.path)) in (["t"], ["s", "t"])

                eventually(all_is_gone, f"{name}: {change}")
                shutil.rmtree(mount.at("s"), ignore_errors=True)
    same(mount.log().count("cannot process"), 0, "what the log says")
    mount.check()


def test_changes_by_sql_show_in_files_that_are_cached_open_or_never_looked_at(box):
    mount = box.mount()
    for key in ("cached", "opened", "unseen"):
        for index in range(3):
            mount.insert("s", key, index, json.dumps({"n": index}))
    lines = b'{"n": 0}\n{"n": 1}\n{"n": 2}\n'
    shows(box, mount.at("s", "cached.jsonl"), lines)
    eventually(lambda: os.path.exists(mount.at("s", "opened.jsonl")), "the file is there")
    with open(mount.at("s", "opened.jsonl"), "rb", buffering=0) as opened:
        same(opened.read(), lines, "before")
        for round_number in range(5):
            value = json.dumps({"round": round_number, "pad": "x" * 100 * round_number})
            mount.sql(f"UPDATE {TABLE} SET state_data = ? WHERE item_index = 1", (value,))
            changed = b'{"n": 0}\n' + value.encode() + b'\n{"n": 2}\n'
            shows(box, mount.at("s", "cached.jsonl"), changed)

            def reads():
                opened.seek(0)
                size = os.fstat(opened.fileno()).st_size
                return opened.read() == changed and size == len(changed)

            box.seen("a change by SQL is seen in an open file", eventually(reads, "open file"))
    shows(box, mount.at("s", "unseen.jsonl"), changed)


def test_rows_that_sql_adds_to_a_list_show_in_an_open_file_behind_what_was_read(box):
    mount, session = box.session()
    path = os.path.join(session, "log.jsonl")
    append(path, b'{"n": 0}\n')
    with open(path, "rb", buffering=0) as opened:
        same(opened.read(), b'{"n": 0}\n', "before")
        for index in range(1, 20):
            mount.insert("s", "log", index, '{"n": %d}' % index)
            seen = b""

            def next_line():
                nonlocal seen
                seen += opened.read() or b""
                return seen == b'{"n": %d}\n' % index

            box.seen("a row is seen behind what was read", eventually(next_line, f"row {index}"))


def test_tail_f_shows_rows_that_sql_inserts(box):
    mount, session = box.session()
    path = os.path.join(session, "log.jsonl")
    append(path, b'{"n": 0}\n')
    output = box.new_path("tail")
    with open(output, "wb") as file:
        tail = subprocess.Popen(["tail", "-n", "+1", "-s", "0.01", "-f", path], stdout=file)
    try:
        expected = b'{"n": 0}\n'
        eventually(lambda: read(output) == expected, "tail has begun")
        for index in range(1, 10):
            mount.insert("s", "log", index, '{"n": %d}' % index)
            expected += b'{"n": %d}\n' % index
            took = eventually(lambda: read(output) == expected, f"tail -f shows row {index}")
            box.seen("tail -f shows a row", took)
    finally:
        tail.kill()
        tail.wait()


def test_new_sessions_and_keys_are_listed_and_found_by_name(box):
    mount = box.mount()
    same(os.listdir(mount.path), [], "an empty store")
    assert not os.path.exists(mount.at("new"))
    mount.insert("new", "a", 0, "1")
    listed(box, mount.path, ["new"])
    listed(box, mount.at("new"), ["a.json"])
    assert not os.path.exists(mount.at("new", "b", "c.json"))
    mount.insert("new", "b/c", 0, "2")
    took = eventually(lambda: os.path.exists(mount.at("new", "b", "c.json")), "found by name")
    box.seen("a new name is found", took)
    listed(box, mount.at("new"), ["a.json", "b"])
    same(read(mount.at("new", "b", "c.json")), b"2", "the new file")


def test_deleted_keys_vanish_and_others_stay(box):
    mount = box.mount()
    for key in ("a", "b", "list"):
        mount.insert("s", key, 0, "1")
    mount.insert("s", "list", 1, "2")
    listed(box, mount.at("s"), ["a.json", "b.json", "list.jsonl"])
    mount.sql(f"DELETE FROM {TABLE} WHERE state_key = 'a'")
    listed(box, mount.at("s"), ["b.json", "list.jsonl"])
    gone(box, mount.at("s", "a.json"))
    mount.sql(f"DELETE FROM {TABLE} WHERE state_key = 'list'")
    gone(box, mount.at("s", "list.jsonl"))
    same(read(mount.at("s", "b.json")), b"1", "what was not deleted")


def test_rows_deleted_at_the_end_or_the_start_of_a_list_leave_the_file(box):
    mount, session = box.session()
    path = os.path.join(session, "l.jsonl")
    append(path, b"0\n1\n2\n3\n4\n")
    mount.sql(f"DELETE FROM {TABLE} WHERE item_index = 4")
    shows(box, path, b"0\n1\n2\n3\n")
    mount.sql(f"DELETE FROM {TABLE} WHERE item_index = 0")
    shows(box, path, b"1\n2\n3\n")
    append(path, b'"next"\n')
    same(read(path), b'1\n2\n3\n"next"\n', "after an append")
    same(mount.rows("s", "l"), [b"1", b"2", b"3", b'"next"'], "rows after an append")


def test_a_single_becomes_a_list_when_sql_adds_index_1(box):
    mount = box.mount()
    mount.insert("s", "k", 0, '{"n": 0}')
    listed(box, mount.at("s"), ["k.json"])
    mount.insert("s", "k", 1, '{"n": 1}')
    listed(box, mount.at("s"), ["k.jsonl"])
    shows(box, mount.at("s", "k.jsonl"), b'{"n": 0}\n{"n": 1}\n')
    gone(box, mount.at("s", "k.json"))


def test_a_hash_row_beside_a_key_of_one_row_makes_it_a_list(box):
    mount = box.mount()
    mount.insert("s", "one", 0, '{"n": 0}')
    mount.insert("s", "one:_hash", 0, "deadbeef")
    listed(box, mount.at("s"), ["one.jsonl", "one.hash"])
    shows(box, mount.at("s", "one.jsonl"), b'{"n": 0}\n')
    shows(box, mount.at("s", "one.hash"), b"deadbeef")


def test_a_file_that_a_client_made_keeps_its_name_when_sql_changes_its_rows(box):
    mount, session = box.session()
    path = os.path.join(session, "l.jsonl")
    write(path, b'{"n": 0}\n')
    number = os.stat(path).st_ino
    mount.sql(f"UPDATE {TABLE} SET state_data = '[7]' WHERE state_key = 'l'")
    shows(box, path, b"[7]\n")
    same(os.listdir(session), ["l.jsonl"], "names")
    same(os.stat(path).st_ino, number, "inode number")


def test_a_change_by_sql_moves_the_modification_time(box):
    mount, session = box.session()
    path = os.path.join(session, "k.json")
    write(path, b"[1]")
    os.utime(path, ns=(10**18, 10**18))
    mount.sql(f"UPDATE {TABLE} SET state_data = '[2]' WHERE state_key = 'k'")
    shows(box, path, b"[2]")
    assert os.stat(path).st_mtime_ns > 10**18, "the time did not move"


def test_sql_can_replace_a_list_of_many_rows_in_one_transaction(box):
    mount, session = box.session()
    path = os.path.join(session, "l.jsonl")
    write(path, b"".join(b'{"old": %d}\n' % n for n in range(5000)))
    base = mount.connect()
    with contextlib.closing(base):
        base.execute("BEGIN IMMEDIATE")
        base.execute(f"DELETE FROM {TABLE}")
        base.executemany(INSERT, (("s", "l", n, '{"new": %d}' % n) for n in range(7000)))
        same(read(path)[:11], b'{"old": 0}\n', "before the commit")
        base.execute("COMMIT")
    shows(box, path, b"".join(b'{"new": %d}\n' % n for n in range(7000)))


# From files to SQL


def test_a_line_that_echo_appends_is_selected_as_soon_as_echo_has_returned(box):
    mount, session = box.session()
    for number in range(50):
        shell('echo "$2" >> "$1"', os.path.join(session, "log.jsonl"), '{"a":%d}' % number)
        same(mount.rows("s", "log")[-1], b'{"a":%d}' % number, "the last row")
    same(mount.indexes("s", "log"), list(range(50)), "indexes")


def test_a_document_is_selected_as_soon_as_its_writer_has_closed_it(box):
    mount, session = box.session()
    path = os.path.join(session, "k.json")
    for number in range(20):
        write(path, b'{"n": %d}' % number)
        same(mount.rows("s", "k"), [b'{"n": %d}' % number], "the row")
    os.unlink(path)
    eventually(lambda: mount.rows("s", "k") == [], "the row of a deleted file goes")


def test_text_is_kept_exactly_and_never_encoded_again(box):
    mount, session = box.session()
    data = ' {"z" : 1e5 , "a":"\\u00e9é\U0001f600\\/" ,"z":-0}\t\n\n'.encode()
    write(os.path.join(session, "k.json"), data)
    same(mount.rows("s", "k"), [data], "the row")
    kind = mount.sql(f"SELECT typeof(state_data), typeof(item_index) FROM {TABLE}")
    same(kind, [(b"text", b"integer")], "types")


def test_a_writer_in_the_middle_of_a_save_is_not_seen_by_others(box):
    mount, session = box.session()
    path = os.path.join(session, "k.json")
    write(path, b'{"version": 1}')
    fd = os.open(path, os.O_WRONLY | os.O_TRUNC)
    try:
        os.write(fd, b'{"version": ')
        same(read(path), b'{"version": 1}', "what another reader sees")
        same(mount.rows("s", "k"), [b'{"version": 1}'], "what SQL sees")
        os.write(fd, b"2}")
    finally:
        os.close(fd)
    same(read(path), b'{"version": 2}', "after close")
    same(mount.rows("s", "k"), [b'{"version": 2}'], "the row after close")


def test_sql_keeps_the_last_valid_state_while_the_file_is_a_draft(box):
    mount, session = box.session()
    path = os.path.join(session, "k.json")
    write(path, b'{"good": 1}')
    for draft in (b"", b'{"half": ', b'{"a": 1} // comment', b"NaN", b'\xff{"a": 1}'):
        write(path, draft)
        same(read(path), draft, "the draft")
        same(os.stat(path).st_size, len(draft), "size of the draft")
        same(mount.rows("s", "k"), [b'{"good": 1}'], "the last valid state")
    mount.remount()
    same(read(path), b'\xff{"a": 1}', "the draft after mounting again")
    write(path, b'{"good": 2}')
    same(mount.rows("s", "k"), [b'{"good": 2}'], "the next valid state")


def test_a_save_of_a_draft_goes_on_when_the_last_valid_state_is_deleted(box):
    mount, session = box.session()
    path = os.path.join(session, "k.json")
    for data in (b"", b"{"):
        write(path, b'{"a": 1}')
        write(path, b"half")
        with open(path, "r+b", buffering=0) as file:
            file.truncate(0)
            file.write(data)
            mount.sql(f"DELETE FROM {TABLE} WHERE state_key = 'k'")
            mount.insert("s", f"then{len(data)}", 0, "1")
            shows(box, os.path.join(session, f"then{len(data)}.json"), b"1")
            same(read(path), b"half", "the draft stays")
        same(read(path), data, "what was saved")


def test_saves_of_drafts_on_two_mounts_go_on_when_the_last_valid_states_are_deleted(box):
    """One mount takes the deletion in, and the other hears of it."""
    mount, session = box.session()
    mounts = [mount, box.mount(mount.store)]
    for round_ in range(4):
        paths = [at.at("s", f"k{number}.json") for number, at in enumerate(mounts)]
        for path in paths:
            write(path, b'{"a": 1}')
            write(path, b"half")
        files = [open(path, "r+b", buffering=0) for path in paths]
        for file in files:
            file.truncate(0)
        mount.sql(f"DELETE FROM {TABLE} WHERE state_key IN ('k0', 'k1')")
        mount.insert("s", f"then{round_}", 0, "1")
        for at in mounts:
            shows(box, at.at("s", f"then{round_}.json"), b"1")
        for path, file in zip(paths, files):
            file.close()
            same(read(path), b"", "what was saved")


def test_a_saved_list_changes_only_the_rows_that_differ(box):
    mount, session = box.session()
    path = os.path.join(session, "l.jsonl")
    lines = [b'{"n": %d}\n' % n for n in range(10)]
    write(path, b"".join(lines))
    before = mount.stamps("s", "l")
    time.sleep(1.1)  # the stamps count seconds
    lines[4] = b'{"changed": true}\n'
    write(path, b"".join(lines + [b'{"n": 10}\n']))
    after = mount.stamps("s", "l")
    same(len(after), 11, "rows")
    for index in range(10):
        if index != 4:
            same(after[index], before[index], f"row {index}")
    same(after[4][1], before[4][1], "created_at of the changed row")
    assert after[4][2] > before[4][2], "updated_at of the changed row"
    os.unlink(path)
    write(path, b"".join(lines))
    same(mount.stamps("s", "l"), after[:10], "after unlink and rewrite")
    write(path + ".tmp", b"".join(lines))
    os.rename(path + ".tmp", path)
    same(mount.stamps("s", "l"), after[:10], "after rename over")


# Ids that are not file names

AWKWARD = [
    "../../etc",
    "..",
    ".",
    "",
    "a/b",
    "/",
    "/abs/olute",
    "a//b",
    "trailing/",
    "a/../../b",
    "x" * 255,
    "x" * 256,
    "y" * 4000,
    "y" * 3999 + "z",
    "\n\t\x01\x1f\x7f",
    "%",
    "%%",
    "%2F",
    "%2f",
    "%00",
    "100%",
    "%~",
    "a\0b",
    "\0",
    "\U0001f600",
    "会" * 300,
    "会" * 85,
    "é" * 128,
    "e\u0301",
    " leading and trailing ",
    "-rf",
    "a\\b",
    "*?[",
    "$(id)",
    "a.json",
    ".json",
    "k:_hash",
    "sessfs",
    "CASE",
    "case",
]


def test_ids_of_sessions_that_are_not_file_names_are_shown_encoded_and_are_writable(box):
    mount = box.mount()
    for number, session in enumerate(AWKWARD):
        mount.insert(session, "k", 0, json.dumps({"id": number}))
    eventually(lambda: len(os.listdir(mount.path)) == len(AWKWARD), "all sessions are listed")
    found = {}
    for name in os.listdir(os.fsencode(mount.path)):
        assert name not in (b".", b"..") and b"/" not in name and len(name) <= 255, name
        path = os.path.join(os.fsencode(mount.path), name)
        same(os.listdir(path), [b"k.json"], f"files of {name!r}")
        number = json.loads(read(os.path.join(path, b"k.json")))["id"]
        found[AWKWARD[number]] = path
    same(len(found), len(AWKWARD), "different sessions")
    for number, (session, path) in enumerate(found.items()):
        write(os.path.join(path, b"k.json"), b'{"written": %d}' % number)
        append(os.path.join(path, b"new.jsonl"), b'"line %d"\n' % number)
        same(mount.rows(session, "k"), [b'{"written": %d}' % number], f"row of {session[:40]!r}")
        same(mount.rows(session, "new"), [b'"line %d"' % number], f"list of {session[:40]!r}")
    same(len({row[0] for row in mount.keys()}), len(AWKWARD), "sessions in the store")
    names = sorted(os.listdir(mount.path))
    mount.remount()
    same(sorted(os.listdir(mount.path)), names, "names after mounting again")
    mount.check()


def test_names_of_sessions_decode_to_the_same_id_after_the_rows_are_gone(box):
    mount = box.mount()
    short = [name for name in AWKWARD if len(name.encode()) < 80]
    for number, session in enumerate(short):
        mount.insert(session, "k", 0, str(number))
    eventually(lambda: len(os.listdir(mount.path)) == len(short), "all sessions are listed")
    names = {int(read(mount.at(name, "k.json"))): name for name in os.listdir(mount.path)}
    other = box.mount()
    for number, session in enumerate(short):
        os.mkdir(other.at(names[number]))
        write(other.at(names[number], "k.json"), b"true")
        same(other.rows(session, "k"), [b"true"], f"the row of {session!r} by its name")


def test_keys_that_are_not_file_names_are_shown_inside_their_session(box):
    mount = box.mount()
    outside = sorted(os.listdir(box.folder))
    keys = AWKWARD
    for number, key in enumerate(keys):
        mount.insert("s", key, 0, json.dumps({"id": number}))
    same(len(mount.keys()), len(keys), "keys in the store")

    def files():
        return [
            os.path.join(top, name)
            for top, _, names in os.walk(os.fsencode(mount.at("s")))
            for name in names
        ]

    eventually(lambda: len(files()) == len(keys), "all keys are listed")
    same(os.listdir(mount.path), ["s"], "the root")
    found = {}
    for path in files():
        found[keys[json.loads(read(path))["id"]]] = path
    same(len(found), len(keys), "different keys")
    for number, (key, path) in enumerate(found.items()):
        write(path, b'{"written": %d}' % number)
        same(mount.rows("s", key), [b'{"written": %d}' % number], f"row of {key[:40]!r}")
    same(len(mount.keys()), len(keys), "keys in the store after writing")
    same(sorted(os.listdir(box.folder)), outside, "files outside of the mount")
    before = sorted(files())
    mount.remount()
    same(sorted(files()), before, "names after mounting again")
    mount.check()


def test_a_key_that_is_a_file_and_a_folder_of_another_key_shows_both(box):
    mount = box.mount()
    mount.insert("s", "a.json", 0, "1")
    mount.insert("s", "a", 0, "2")
    mount.insert("s", "a.json/b", 0, "3")
    mount.insert("s", "a/b", 0, "4")
    mount.insert("s", "a/b/c", 0, "5")

    def values():
        return sorted(
            read(os.path.join(top, name))
            for top, _, names in os.walk(mount.at("s"))
            for name in names
        )

    eventually(lambda: values() == [b"1", b"2", b"3", b"4", b"5"], "every key has a file")


def test_a_session_name_with_percent_that_a_user_chose_means_itself(box):
    mount = box.mount()
    for name in ("100%", "a%zz", "a%41", "50%25"):
        os.mkdir(mount.at(name))
        write(mount.at(name, "k.json"), b"1")
        assert name in os.listdir(mount.path), name
    same(len({row[0] for row in mount.keys()}), 4, "sessions in the store")
    for name in ("100%", "a%zz", "a%41"):
        same(mount.rows(name, "k"), [b"1"], f"row of {name!r}")


# Rows that files would not have made


def test_rows_that_are_not_json_are_shown_as_they_are(box):
    mount = box.mount()
    values = {"text": "no json", "empty": "", "blob": b"\0\xff\n\xfe", "quote": "it's\r\n\0ok"}
    for key, value in values.items():
        mount.insert("s", key, 0, value)
    listed(box, mount.at("s"), [key + ".json" for key in values])
    for key, value in values.items():
        data = value if isinstance(value, bytes) else value.encode()
        shows(box, mount.at("s", key + ".json"), data)


def test_rows_with_newlines_inside_stay_one_line_of_a_list(box):
    mount = box.mount()
    mount.insert("s", "l", 0, '{"a":\n1}')
    mount.insert("s", "l", 1, "\n\n[\n]\n")
    mount.insert("s", "l", 2, "not\njson")
    mount.insert("s", "single", 0, '{"a":\n1}\n')
    eventually(lambda: os.path.exists(mount.at("s", "l.jsonl")), "the list is there")
    shows(box, mount.at("s", "l.jsonl"), b'{"a": 1}\n  [ ] \nnot json\n')
    shows(box, mount.at("s", "single.json"), b'{"a":\n1}\n')
    same(mount.rows("s", "l")[0], b'{"a":\n1}', "the row itself")
    append(mount.at("s", "l.jsonl"), b"3\n")
    same(mount.rows("s", "l"), [b'{"a":\n1}', b"\n\n[\n]\n", b"not\njson", b"3"], "after append")
    same(read(mount.at("s", "l.jsonl")), b'{"a": 1}\n  [ ] \nnot json\n3\n', "after append")


def test_numbers_and_nulls_of_a_foreign_table_are_shown(box):
    store = box.new_path("foreign") + ".db"
    with contextlib.closing(sqlite3.connect(store)) as base:
        base.execute(
            f"CREATE TABLE {TABLE} (session_id, state_key, item_index, state_data, created_at,"
            " updated_at, PRIMARY KEY (session_id, state_key, item_index))"
        )
        values = [("n", 0, 7), ("n", 1, -1.5), ("n", 2, None), ("n", 3, "[4]"), ("null", 0, None)]
        base.executemany(f"INSERT INTO {TABLE} VALUES ('s', ?, ?, ?, NULL, 'nonsense')", values)
        base.commit()
    mount = box.mount(store=store)
    lines = read(mount.at("s", "n.jsonl")).split(b"\n")
    same((lines[0], lines[1], lines[3], lines[4]), (b"7", b"-1.5", b"[4]", b""), "lines")
    same(os.stat(mount.at("s", "n.jsonl")).st_size, len(read(mount.at("s", "n.jsonl"))), "size")
    assert read(mount.at("s", "null.json")) in (b"", b"null"), "a NULL"


def test_holes_and_negative_indexes_are_shown_in_order_and_appends_come_last(box):
    mount = box.mount()
    for index in (5, 0, -3, 100, 2**40):
        mount.insert("s", "l", index, '{"at": %d}' % index)
    lines = [b'{"at": %d}\n' % index for index in (-3, 0, 5, 100, 2**40)]
    eventually(lambda: os.path.exists(mount.at("s", "l.jsonl")), "the list is there")
    shows(box, mount.at("s", "l.jsonl"), b"".join(lines))
    append(mount.at("s", "l.jsonl"), b'"last"\n')
    same(read(mount.at("s", "l.jsonl")), b"".join(lines) + b'"last"\n', "after an append")
    same(mount.rows("s", "l")[-1], b'"last"', "the last row")
    write(mount.at("s", "l.jsonl"), b"1\n2\n")
    same(mount.rows("s", "l"), [b"1", b"2"], "rows after a save")
    same(read(mount.at("s", "l.jsonl")), b"1\n2\n", "file after a save")


def test_a_row_at_the_highest_index_does_not_break_an_append(box):
    mount = box.mount()
    mount.insert("s", "l", 0, "0")
    mount.insert("s", "l", 2**63 - 1, "1")
    eventually(lambda: os.path.exists(mount.at("s", "l.jsonl")), "the list is there")
    shows(box, mount.at("s", "l.jsonl"), b"0\n1\n")
    errno_of(append, mount.at("s", "l.jsonl"), b"2\n")
    assert read(mount.at("s", "l.jsonl")).startswith(b"0\n1\n"), "the list is damaged"
    mount.check()


def test_ids_that_are_not_text_do_no_harm(box):
    mount = box.mount()
    mount.sql(
        f"INSERT INTO {TABLE} (session_id, state_key, state_data) VALUES"
        " (x'6162', 'k', '1'), (7, 'k', '2'), (CAST(x'ff61' AS TEXT), 'k', '3'),"
        " ('ok', x'00ff', '4'), ('ok', 9, '5'), ('ok', 'k', '6')"
    )
    shows(box, mount.at("ok", "k.json"), b"6")
    for top, _, names in os.walk(os.fsencode(mount.path)):
        for name in names:
            assert read(os.path.join(top, name)) in b"123456", "what a file holds"
    write(mount.at("ok", "k.json"), b"7")
    same(mount.rows("ok", "k"), [b"7"], "the row")


def test_indices_columns_and_checks_of_json_do_no_harm(box):
    mount, session = box.session()
    append(f"{session}/l.jsonl", b'{"role": "a"}\n')
    extract = "json_extract(state_data, '$.role')"
    mount.sql(f"CREATE INDEX roles ON {TABLE} ({extract})")
    append(f"{session}/l.jsonl", b'{"role": "b"}\n')
    mount.sql(f"ALTER TABLE {TABLE} ADD COLUMN role AS (state_data ->> '$.role')")
    append(f"{session}/l.jsonl", b'{"role": "c"}\n')
    same(mount.sql(f"SELECT role FROM {TABLE} WHERE {extract} = 'c'"), [(b"c",)], "by the index")
    mount.check()
    mount.remount()
    same(read(f"{session}/l.jsonl").count(b"role"), 3, "the lines of a new mount")
    store = box.new_path("checked") + ".db"
    with contextlib.closing(sqlite3.connect(store)) as base:
        base.executescript(FOREIGN.replace("LONGTEXT", "LONGTEXT CHECK (json_valid(state_data))")
                           .replace("'deadbeef'", "'1'"))
    other = box.mount(store=store)
    append(other.at("user123", "memory_messages.jsonl"), b'{"n": 2}\n')
    same(other.rows("user123", "memory_messages")[2:], [b'{"n": 2}'], "the row")
    same(box.sessfs("backup", store, box.new_path("backup")).returncode, 0, "a backup")


def test_ids_in_utf_16_that_are_no_text_in_utf_8_do_no_harm(box):
    """Halves of surrogate pairs, and the two numbers that are no characters."""
    store = box.new_path("utf16") + ".db"
    odd = ("x'00d8'", "x'00dc6100'", "x'feff'", "x'ffff'")
    into = f"INSERT INTO {TABLE} (session_id, state_key, item_index, state_data) VALUES "
    with contextlib.closing(sqlite3.connect(store)) as base:
        base.executescript("PRAGMA encoding = 'UTF-16le';" + FOREIGN)
        for text in odd:
            base.execute(into + f"(CAST({text} AS TEXT), 'k', 0, '1')")
            base.execute(into + f"('other', CAST({text} AS TEXT), 0, '1')")
        base.execute(into + "('other', char(65279) || 'mark', 0, '2')")
        base.commit()
    mount = box.mount(store=store)
    eventually(lambda: sorted(os.listdir(mount.path)) == ["other", "user123"], "sessions")
    same(sorted(os.listdir(mount.at("other"))), ["one.json", "\ufeffmark.json"], "keys")
    mount.sql(into + ", ".join(f"('other', CAST({text} AS TEXT), 1, '3')" for text in odd))
    mount.sql(f"UPDATE {TABLE} SET state_data = '5' WHERE state_key = 'one'")
    shows(box, mount.at("other", "one.json"), b"5")
    # A change that nothing has to be written for may stay in the log until its file is written.
    write(mount.at("other", "one.json"), b"6")
    eventually(lambda: not mount.sql("SELECT 1 FROM sessfs_change"), "changes are taken in")
    same(len(mount.sql(f"SELECT 1 FROM {TABLE} WHERE state_data = '3'")), len(odd), "the rows")


# Stores that others made


def foreign_store(box):
    path = box.new_path("foreign") + ".db"
    with contextlib.closing(sqlite3.connect(path)) as base:
        base.executescript(FOREIGN)
    return path


def dump(path):
    with contextlib.closing(sqlite3.connect(path)) as base:
        rows = base.execute(f"SELECT * FROM {TABLE} ORDER BY 1, 2, 3").fetchall()
        other = base.execute("SELECT * FROM somebody_elses").fetchall()
        return rows, other


def schema(path):
    with contextlib.closing(sqlite3.connect(path)) as base:
        return base.execute("SELECT type, name, sql FROM sqlite_schema ORDER BY 1, 2").fetchall()


def test_a_foreign_database_with_the_table_is_adopted_and_its_rows_are_untouched(box):
    store = foreign_store(box)
    before, tables = dump(store), schema(store)
    mount = box.mount(store=store)
    same(sorted(os.listdir(mount.path)), ["other", "user123"], "sessions")
    same(
        sorted(os.listdir(mount.at("user123"))),
        ["agent_meta.json", "memory_messages.hash", "memory_messages.jsonl"],
        "files",
    )
    same(read(mount.at("user123", "memory_messages.jsonl")), b'{"n": 0}\n{"n": 1}\n', "list")
    same(read(mount.at("user123", "memory_messages.hash")), b"deadbeef", "hash")
    changed = os.stat(mount.at("user123", "agent_meta.json")).st_mtime
    same(changed, 1609556645.0, "mtime is updated_at, in UTC")
    mount.check()
    mount.stop()
    same(dump(store), before, "rows")
    added = [entry for entry in schema(store) if entry not in tables]
    assert added and all("sessfs_" in entry[1] for entry in added), added
    same([entry for entry in tables if entry not in schema(store)], [], "what was there")
    mount.start()
    append(mount.at("user123", "memory_messages.jsonl"), b'{"n": 2}\n')
    same(mount.indexes("user123", "memory_messages"), [0, 1, 2], "indexes after an append")
    stamp = mount.stamps("user123", "memory_messages")[2][1]
    assert stamp and stamp > b"2024", "created_at of a new row"


def test_a_mount_that_is_read_only_adds_nothing_to_a_foreign_database(box):
    store = foreign_store(box)
    tables, digest = schema(store), hashlib.sha256(read(store)).hexdigest()
    mount = box.mount(store=store, options=["ro"])
    same(sorted(os.listdir(mount.path)), ["other", "user123"], "sessions")
    same(read(mount.at("user123", "agent_meta.json")), b'{"name": "a"}', "a document")
    for call in (
        lambda: write(mount.at("user123", "agent_meta.json"), b"1"),
        lambda: append(mount.at("user123", "memory_messages.jsonl"), b"1\n"),
        lambda: write(mount.at("user123", "new.json"), b"1"),
        lambda: os.mkdir(mount.at("new")),
        lambda: os.unlink(mount.at("other", "one.json")),
        lambda: os.rename(mount.at("other"), mount.at("another")),
        lambda: os.chmod(mount.at("other"), 0o700),
        lambda: os.setxattr(mount.at("other"), "user.a", b"b"),
    ):
        same(errno_of(call), errno.EROFS, "error of a change")
    mount.stop()
    same(hashlib.sha256(read(store)).hexdigest(), digest, "the bytes of the database")
    same(schema(store), tables, "the schema")


def test_a_read_only_mount_of_a_store_of_ours_changes_nothing(box):
    mount, session = box.session()
    write(os.path.join(session, "l.jsonl"), b"1\nbad\n2\n")
    write(os.path.join(session, "note.txt"), b"ordinary")
    mount.stop()
    digest = hashlib.sha256(read(mount.store)).hexdigest()
    mount.options = ["ro"]
    mount.start()
    same(read(os.path.join(session, "l.jsonl")), b"1\nbad\n2\n", "the list")
    same(read(os.path.join(session, "note.txt")), b"ordinary", "the note")
    same(errno_of(write, os.path.join(session, "note.txt"), b"x"), errno.EROFS, "a write")
    mount.stop()
    same(hashlib.sha256(read(mount.store)).hexdigest(), digest, "the bytes of the store")


def test_the_older_table_without_item_index_is_refused_with_a_hint(box):
    store = box.new_path("old") + ".db"
    with contextlib.closing(sqlite3.connect(store)) as base:
        base.execute(f"CREATE TABLE {TABLE} (session_id TEXT PRIMARY KEY, state_data TEXT)")
    done = box.sessfs("mount", "-f", store, box.new_folder("mnt"))
    same(done.returncode, 1, "exit status")
    assert b"sessfs import" in done.stderr, done.stderr


def test_the_name_of_the_table_is_an_option(box):
    mount = box.mount(options=["table=my_sessions"])
    os.mkdir(mount.at("s"))
    write(mount.at("s", "k.json"), b"1")
    same(mount.sql("SELECT session_id, state_data FROM my_sessions"), [(b"s", b"1")], "rows")


def test_sql_and_files_may_append_to_the_same_list_in_turns(box):
    mount, session = box.session()
    path = os.path.join(session, "l.jsonl")
    base = mount.connect()
    with contextlib.closing(base):
        for number in range(100):
            append(path, b'{"file": %d}\n' % number)
            base.execute(
                f"INSERT INTO {TABLE} (session_id, state_key, item_index, state_data)"
                f" SELECT 's', 'l', MAX(item_index) + 1, ? FROM {TABLE} WHERE state_key = 'l'",
                ('{"sql": %d}' % number,),
            )
    lines = b"".join(b'{"file": %d}\n{"sql": %d}\n' % (n, n) for n in range(100))
    shows(box, path, lines)
    same(mount.rows("s", "l"), lines.splitlines(), "rows")
    same(mount.indexes("s", "l"), list(range(200)), "indexes")


def look_again_and_again(mount, over):
    while not over.is_set():
        harness.tree(mount.path)
        read(mount.at("s", "l.jsonl"))
        time.sleep(0.01)


def test_transactions_that_read_before_they_write_bear_a_mount_on_which_nobody_writes(box):
    """SQLite refuses what such a transaction writes if anybody has committed since it has read: as
    the mount would, because of what another service has just committed."""
    own, foreign = box.mount(), foreign_store(box)
    for mount in (own, box.mount(store=foreign)):
        base, service, over = mount.connect(), mount.connect(), threading.Event()
        for key in ("d", "l", "l:_hash"):
            service.execute(INSERT, ("s", key, 0, "[0]"))
        eventually(lambda m=mount: len(os.listdir(m.at("s"))) == 3, "the files are there")
        reader = threading.Thread(target=look_again_and_again, args=(mount, over))
        reader.start()
        try:
            for number in range(1, rounds("SESSFS_DEFERRED", 40, 2000) + 1):
                update = f"UPDATE {TABLE} SET state_data = ? WHERE state_key = "
                service.execute(update + "'d'", (number,))
                base.execute("BEGIN")
                base.execute(f"SELECT count(*) FROM {TABLE}").fetchall()
                time.sleep(number % 8 * 0.01)
                base.execute(INSERT, ("s", "l", number, f"[{number}]"))
                base.execute(update + "'l:_hash'", (number,))
                base.execute("COMMIT")
        finally:
            over.set()
            reader.join()
            base.close()
            service.close()
        lines = b"".join(b"[%d]\n" % n for n in range(number + 1))
        shows(box, mount.at("s", "l.jsonl"), lines)
        append(mount.at("s", "l.jsonl"), b"1\n")
        write(mount.at("s", "d.json"), b"2")
        same(mount.rows("s", "l"), lines.splitlines() + [b"1"], "rows of the list")
        same(mount.rows("s", "d"), [b"2"], "row of the document")


def test_what_a_mount_has_seen_and_not_committed_is_there_for_verbs_and_after_a_kill(box):
    mount, session = box.session()
    path = os.path.join(session, "l.jsonl")
    environment = {**os.environ, "XDG_CACHE_HOME": box.new_path("cache")}
    write(path, b'{"content": "begin"}\n')
    for number, word in enumerate(("badger", "walrus"), 1):
        mount.insert("s", "l", number, '{"role": "user", "content": "%s"}' % word)
        shows(box, path, b"".join(row + b"\n" for row in mount.rows("s", "l")))
        same(mount.sql("SELECT count(*) FROM sessfs_change"), [(1,)], "the log has it still")
        done = tool(mount.binary, "search", "--json", mount.store, word, env=environment)
        same(len(json.loads(done.stdout)), 1, f"hits of {word}")
        mount.check()
    before = read(path)
    mount.kill9()
    mount.insert("s", "l", 3, "3")
    mount.start()
    same(read(path), before + b"3\n", "after the kill")
    append(path, b"4\n")
    same(mount.indexes("s", "l"), [0, 1, 2, 3, 4], "indexes")
    mount.check()


LIST = f"SELECT item_index, state_data FROM {TABLE} WHERE session_id = 's' AND state_key = ?"


def read_twice(mount, key, going):
    """A snapshot is one state of a list, and stays that, whatever is committed and checkpointed
    meanwhile."""
    base = mount.connect()
    with contextlib.closing(base):
        base.execute("PRAGMA cache_size = 0")  # what is read again is read from the files
        while going():
            base.execute("BEGIN")
            first = base.execute(LIST, (key,)).fetchall()
            same([index for index, _ in first], list(range(len(first))), "indexes")
            time.sleep(0.05)
            same(base.execute(LIST, (key,)).fetchall() == first, True, "the snapshot is as it was")
            base.execute("COMMIT")


def insert_rows(mount, key, count):
    base = mount.connect()
    with contextlib.closing(base):
        for number in range(count):
            base.execute(INSERT, ("s", key, number, '{"sql": %d}' % number))
            if number % 20 == 0:
                base.execute("DELETE FROM scratch")
            base.execute("INSERT INTO scratch VALUES (zeroblob(20000))")


def empty_log(mount, how, going):
    """As far as that goes without waiting for readers: who waits for them lets nobody write."""
    base = mount.connect()
    with contextlib.closing(base):
        base.execute("PRAGMA busy_timeout = 0").fetchall()
        while going():
            with contextlib.suppress(sqlite3.OperationalError):
                base.execute(f"PRAGMA wal_checkpoint({how})").fetchall()
            time.sleep(0.01)


def append_lines(path, count):
    with open(path, "ab", buffering=0) as file:
        for number in range(count):
            file.write(b'{"file": %d, "text": "%s"}\n' % (number, b"x" * (number % 7 * 500)))


def test_appends_come_in_between_the_transactions_of_a_program_that_makes_no_pause(box):
    """1000 transactions of 3 ms each: who looks ten times a second finds the store free by luck."""
    mount = box.mount()
    os.mkdir(mount.at("s"))
    begin, done = box.new_path("begin"), box.new_path("done")
    program = f"""
import os, sqlite3, time
base = sqlite3.connect({mount.store!r}, timeout=30, isolation_level=None)
done = os.open({done!r}, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
while not os.path.exists({begin!r}):
    time.sleep(0.01)
for number in range(1000):
    base.execute("BEGIN IMMEDIATE")
    base.execute({INSERT!r}, ("sql", "l", number, "0"))
    time.sleep(0.003)
    base.execute("COMMIT")
    os.write(done, b".")
"""
    waits, last = [], 0
    with subprocess.Popen([sys.executable, "-c", program]) as process:
        eventually(lambda: os.path.exists(done), "the program runs")
        write(begin, b"")
        while last < 1000 and process.poll() is None:
            append(mount.at("s/l.jsonl"), b"%d\n" % len(waits))
            now = os.path.getsize(done)
            waits.append(now - last)
            last = now
    same((process.returncode, last), (0, 1000), "the program's status and transactions")
    assert max(waits) < 900, f"an append has waited for {max(waits)} transactions of 1000"
    box.note(f"{len(waits)} appends, the slowest waited for {max(waits)} transactions")


def test_snapshots_of_other_programs_hold_while_all_write_and_empty_the_log(box):
    mount, session = box.session()
    write(os.path.join(session, "a.jsonl"), b"")
    mount.sql("CREATE TABLE scratch (data)")
    lines = harness.rounds("SESSFS_LINES", 600, 2000)
    paths = [os.path.join(session, name) for name in ("a.jsonl", "b.jsonl")]
    crowd.run_together(
        [(append_lines, path, lines) for path in paths] + [(insert_rows, mount, "c", 200)],
        [(read_twice, mount, key) for key in "abc"]
        + [(empty_log, mount, how) for how in ("PASSIVE", "RESTART", "TRUNCATE")],
    )
    same(mount.sql("PRAGMA integrity_check"), [(b"ok",)], "the database")
    for key in "ab":
        rows = [json.loads(row)["file"] for row in mount.rows("s", key)]
        same(rows, list(range(lines)), f"rows of {key}")
    same(mount.rows("s", "c"), [b'{"sql": %d}' % n for n in range(200)], "rows of c")
    mount.unmount()
    mount.check()


if __name__ == "__main__":
    harness.main(globals())
