#!/usr/bin/python3 -B
# SPDX-License-Identifier: MIT
"""What sessfs(5) says of a store and its rows, and the examples of sessfs-views(7)."""

import contextlib
import errno
import os
import re
import sqlite3
import subprocess

import harness
from harness import (
    TABLE,
    append,
    errno_of,
    eventually,
    read,
    same,
    write,
)

def page_of(name):
    with open(os.path.join(harness.TOP, "doc", name)) as file:
        return file.read()


PAGE = page_of("sessfs.5")


def section(title, page=PAGE):
    """The text of a section, as it stands in the page."""
    found = re.search(rf"^\.S[hs] {re.escape(title)}\n(.*?)(?=^\.S[hs] |\Z)", page, re.M | re.S)
    assert found, f"the page has no section {title}"
    return found[1]


def example(title):
    return re.search(r"^\.Bd -literal.*?\n(.*?)^\.Ed", section(title), re.M | re.S)[1]


def run_example(mount, title, **words):
    with contextlib.closing(mount.connect()) as base:
        return base.execute(example(title), words).fetchall()


def test_the_statements_do_what_they_are_for(box):
    mount = box.mount()
    at = {"session": "s", "key": "l"}
    for number in range(3):
        run_example(mount, "Appending", data='{"n": %d}' % number, **at)
    run_example(mount, "Replacing", session="s", key="d", data='{"a": 1}')
    path, document = mount.at("s", "l.jsonl"), mount.at("s", "d.json")
    lines = b'{"n": 0}\n{"n": 1}\n{"n": 2}\n'
    eventually(lambda: os.path.exists(path) and read(path) == lines, "the list")
    eventually(lambda: os.path.exists(document) and read(document) == b'{"a": 1}', "the document")
    append(path, b"3\n")
    same(mount.indexes("s", "l"), [0, 1, 2, 3], "indexes")
    rows = [(b'{"n": 0}',), (b'{"n": 1}',), (b'{"n": 2}',), (b"3",)]
    same(run_example(mount, "Reading", **at), rows, "what is read")
    run_example(mount, "Replacing", data="[0]", **at)
    eventually(lambda: read(path) == b'[0]\n{"n": 1}\n{"n": 2}\n3\n', "an item was replaced")
    run_example(mount, "Deleting", **at)
    eventually(lambda: os.listdir(mount.at("s")) == ["d.json"], "the list has gone")
    mount.check()


def test_the_numbers_and_tables_are_those_of_a_store(box):
    mount = box.mount()
    numbers = {
        name: mount.sql(f"PRAGMA {name}")[0][0] for name in ("application_id", "user_version")
    }
    said = section("DESCRIPTION")
    same(re.findall(r"is (\d+), and its", said), [str(numbers["application_id"])], "id")
    same(re.findall(r"tables, (\d+)\.", said), [str(numbers["user_version"])], "version")
    # One table is made when it is first needed.
    os.mkdir(mount.at("removed"))
    write(mount.at("removed", "k.json"), b"{}")

    def removed():
        box.sessfs("gc", "--older-than=1s", mount.store, check=True)
        return not os.path.exists(mount.at("removed"))

    eventually(removed, "a session is in the trash")
    tables = {}
    for (name,) in mount.sql("SELECT name FROM sqlite_schema WHERE type = 'table'"):
        columns = mount.sql("SELECT name FROM pragma_table_info(?)", (name.decode(),))
        tables[name.decode()] = [column.decode() for (column,) in columns]
    rows = tables.pop(TABLE)
    found = {}
    for item in section("TABLES OF SESSFS").split("\n.It Li ")[1:]:
        name, text = item.split("\n", 1)
        words = " ".join(re.match(r"(?:\.Va .*\n)+", text)[0].replace(".Va ", "").split())
        found[name] = words.replace(" ,", "").rstrip(" :").split()
    same(found, tables, "tables")
    named = " ".join(re.findall(r"^\.It Va (.*)", section("THE ROWS"), re.M))
    same(named.replace(" ,", "").split(), rows, "columns of the rows")


def test_a_document_becomes_a_list_when_sql_adds_an_item_and_keeps_its_name_otherwise(box):
    mount, session = box.session()
    for key in ("grows", "changes", "gets-a-hash"):
        write(os.path.join(session, key + ".json"), b"1")
    mount.insert("s", "gets-a-hash:_hash", 0, "abc")
    run_example(mount, "Replacing", session="s", key="changes", data="2")
    run_example(mount, "Appending", session="s", key="grows", data="2")
    names = ["changes.json", "gets-a-hash.hash", "gets-a-hash.json", "grows.jsonl"]
    eventually(lambda: sorted(os.listdir(session)) == names, "the names")
    same(read(os.path.join(session, "grows.jsonl")), b"1\n2\n", "the list")


def test_files_and_directories_go_with_the_last_row(box):
    mount = box.mount()
    for session, key in (("all", "k"), ("all", "a/b/k"), ("some", "k")):
        run_example(mount, "Replacing", session=session, key=key, data="1")
    eventually(lambda: len(os.listdir(mount.path)) == 2, "the sessions")
    eventually(lambda: os.path.exists(mount.at("all", "a", "b", "k.json")), "the files")
    write(mount.at("some", "note.txt"), b"ordinary")
    run_example(mount, "Deleting", session="all", key="a/b/k")
    eventually(lambda: os.listdir(mount.at("all")) == ["k.json"], "the directories are gone")
    run_example(mount, "Deleting", session="all", key="k")
    run_example(mount, "Deleting", session="some", key="k")
    eventually(lambda: os.listdir(mount.path) == ["some"], "the session is gone")
    eventually(lambda: os.listdir(mount.at("some")) == ["note.txt"], "the ordinary file stays")


def test_items_behind_a_deleted_one_keep_their_indexes_until_the_next_save(box):
    mount, session = box.session()
    path = os.path.join(session, "l.jsonl")
    write(path, b"0\n1\n2\n3\n")
    mount.sql(f"DELETE FROM {TABLE} WHERE item_index = 1")
    eventually(lambda: read(path) == b"0\n2\n3\n", "the file")
    append(path, b"4\n")
    same(mount.indexes("s", "l"), [0, 2, 3, 4], "after an append")
    write(path, b"0\n2\n3\n4\n")
    same(mount.indexes("s", "l"), [0, 1, 2, 3], "after a save")


def test_what_is_said_to_do_no_harm_does_none_while_it_is_mounted(box):
    mount, session = box.session()
    path = os.path.join(session, "l.jsonl")
    write(path, b"0\n")
    with contextlib.closing(mount.connect()) as base:
        base.execute("VACUUM")
        base.execute(f"ALTER TABLE {TABLE} ADD COLUMN mine TEXT")
        base.execute(f"CREATE INDEX mine ON {TABLE} (updated_at)")
        try:
            base.execute("PRAGMA journal_mode = DELETE")
            raise AssertionError("the journal mode can be changed")
        except sqlite3.OperationalError as error:
            assert "locked" in str(error), error
    append(path, b"1\n")
    run_example(mount, "Appending", session="s", key="l", data="2")
    eventually(lambda: read(path) == b"0\n1\n2\n", "the list")
    mount.check()


def test_triggers_that_are_missing_are_made_again(box):
    mount, session = box.session()
    names = "SELECT name FROM sqlite_schema WHERE type = 'trigger' ORDER BY 1"
    before = mount.sql(names)
    assert before, "there are none"
    mount.stop()
    for (name,) in before:
        mount.sql(f"DROP TRIGGER {name.decode()}")
    mount.insert("s", "k", 0, "1")
    mount.start()
    same(read(os.path.join(session, "k.json")), b"1", "the document")
    same(mount.sql(names), before, "triggers")


def test_the_times_of_rows_move_as_it_is_said(box):
    mount = box.mount()
    run_example(mount, "Replacing", session="s", key="k", data="1")
    old = "2020-01-02 03:04:05"
    mount.sql(f"UPDATE {TABLE} SET created_at = ?, updated_at = ?", (old, old))
    run_example(mount, "Replacing", session="s", key="k", data="2")
    [(_, created, updated)] = mount.stamps("s", "k")
    same(created, old.encode(), "created_at of a row that was replaced")
    assert updated > old.encode(), updated
    insert = f"INSERT OR REPLACE INTO {TABLE} (session_id, state_key, state_data) VALUES "
    mount.sql(insert + "('s', 'k', '3')")
    [(_, created, _)] = mount.stamps("s", "k")
    assert created > old.encode(), f"created_at after INSERT OR REPLACE: {created}"


def test_a_copy_of_a_mounted_store_is_a_store(box):
    mount, session = box.session()
    append(os.path.join(session, "l.jsonl"), b"1\nbad\n2\n")
    write(os.path.join(session, "k.json"), b'{"dra')
    copy = box.new_path("copy") + ".db"
    mount.sql("VACUUM INTO ?", (copy,))
    other = box.mount(store=copy)
    same(read(other.at("s", "l.jsonl")), b"1\nbad\n2\n", "the list")
    same(read(other.at("s", "k.json")), b'{"dra', "the draft")
    other.check()


def test_one_mount_writes_and_others_read(box):
    mount, session = box.session()
    write(os.path.join(session, "k.json"), b"1")
    other = box.mount(store=mount.store, options=["ro"])
    same(read(other.at("s", "k.json")), b"1", "the document")
    same(errno_of(write, other.at("s", "k.json"), b"2"), errno.EROFS, "a write")


def test_the_examples_of_views_show_what_the_page_says(box):
    for name in ("jq", "grep", "wc"):
        harness.need_tool(name)
    mount = box.mount()
    examples = section("EXAMPLES", page_of("sessfs-views.7"))
    blocks = re.findall(r"^\.Bd -literal\n(.*?)^\.Ed", examples, re.M | re.S)
    commands = re.findall(r"^\$ (.*)\n((?:[^$].*\n)*)", "".join(blocks), re.M)
    same(len(commands) > 12, True, "they are found")
    for command, shown in commands:
        done = subprocess.run(
            ["sh", "-c", command], cwd=mount.path, capture_output=True, text=True
        )
        same((done.stdout, done.stderr), (shown, ""), command)


if __name__ == "__main__":
    harness.main(globals())
