#!/usr/bin/python3 -B
# SPDX-License-Identifier: MIT
"""Services of AgentScope that compare versions of single states, in a store that is a file."""

import contextlib
import json
import os
import shutil
import sqlite3

import agentscope
import harness
import swapped
from harness import TABLE, eventually, main, read, same, write

ROUNDS = harness.rounds("SESSFS_ROUNDS", 20, 1000)
COLUMN = "version BIGINT NOT NULL DEFAULT 0"
SERVICE = f"""CREATE TABLE {TABLE} (session_id TEXT NOT NULL, state_key TEXT NOT NULL,
    item_index INTEGER NOT NULL DEFAULT 0, state_data TEXT NOT NULL, {{0}}
    created_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP, updated_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP,
    PRIMARY KEY (session_id, state_key, item_index))"""


def table(store, **named):
    base = sqlite3.connect(store, timeout=60, isolation_level=None)
    base.text_factory = bytes
    return agentscope.Table("sqlite", lambda sql, *values: base.execute(sql, values).fetchall(),
                            versions=True, **named)


def made(box, column):
    """A database as a service makes it."""
    store = box.new_store()
    with contextlib.closing(sqlite3.connect(store, isolation_level=None)) as base:
        base.execute(SERVICE.format(column))
    return store


def test_each_write_of_a_single_raises_the_version_of_its_row(box):
    mount = box.mount()
    service = table(mount.store)
    row = swapped.rises(box, mount, service)
    swapped.lists_have_none(mount, service)
    swapped.services_of_both_kinds(mount, service)
    same(row.claim(row.version()), True, "a save of what the service has read last")
    eventually(lambda: read(row.path) == row.data(), "it is in the file")
    mount.check()


def test_each_write_raises_the_version_in_a_table_of_a_service(box):
    mount = box.mount(store=made(box, COLUMN + ","))
    service = table(mount.store)
    swapped.rises(box, mount, service)
    swapped.lists_have_none(mount, service)
    mount.check()


def test_a_column_that_comes_or_goes_is_noticed_before_the_next_save(box):
    store = made(box, "")
    mount = box.mount(store=store)
    swapped.comes_and_goes(mount, table(store))
    mount.check()


def test_saves_go_on_beside_a_column_that_comes_and_goes(box):
    store = made(box, "")
    mounts = [box.mount(store=store) for _ in range(2)]
    swapped.storm(mounts, table(store), ROUNDS)
    mounts[0].check()


def test_a_time_that_goes_is_noticed_before_the_next_save(box):
    mount, session = box.session(store=made(box, ""))
    path = os.path.join(session, "k.json")
    write(path, b"1")
    mount.sql(f"ALTER TABLE {TABLE} DROP COLUMN created_at")
    write(path, b"2")
    same((read(path), mount.rows("s", "k")), (b"2", [b"2"]), "after the column")
    same(os.listdir(session), ["k.json"], "what is listed")
    mount.check()


def test_each_of_two_mounts_notices_a_column_before_its_next_save(box):
    store = made(box, "")
    service = table(store)
    mounts = [box.mount(store=store) for _ in range(2)]
    rows = [swapped.Row(mount, service, f"s{number}") for number, mount in enumerate(mounts)]
    for row in rows:
        os.mkdir(os.path.dirname(row.path))
        write(row.path, row.text())
    service.ask(f"ALTER TABLE {{0}} ADD COLUMN {COLUMN}")
    for row in rows:
        write(row.path, row.text())
    same([row.version() for row in rows], [1, 1], "versions")


def test_a_column_of_that_name_that_counts_nothing_stays_as_it_is(box):
    """It is another program's, and says what it says."""
    store = made(box, "version TEXT NOT NULL DEFAULT 'draft',")
    mount = box.mount(store=store)
    os.mkdir(mount.at("s"))
    for text in (b"1", b"2"):
        write(mount.at("s/k.json"), text)
    same(mount.sql(f"SELECT state_data, version FROM {TABLE}"), [(b"2", b"draft")], "the row")


def test_a_version_that_cannot_rise_begins_anew(box):
    store = made(box, "version BIGINT,")
    mount = box.mount(store=store)
    row = swapped.Row(mount, table(store))
    os.mkdir(mount.at("s"))
    for version in (None, 0, -1, -2**63, 2**63 - 1, 1e300, b"\xff", b"text"):
        write(row.path, row.text())
        row.table.ask("UPDATE {0} SET version = ?", version)
        write(row.path, row.text())
        same(row.version(), 1, f"behind {version}")


def gc(box, *arguments):
    return json.loads(box.sessfs("gc", "--json", *arguments, check=True).stdout)


def test_what_comes_back_from_the_trash_is_none_of_what_was_read_before(box):
    mount = box.mount()
    service = table(mount.store)
    row = swapped.Row(mount, service)
    os.mkdir(mount.at("s"))
    write(mount.at("s/l.jsonl"), b"[1]\n[2]\n")
    read_before = set()
    for _ in range(3):
        write(row.path, row.text())
        read_before.add(row.version())
    for what in ("s/k.json", "s"):
        text = read(row.path)
        if what == "s":
            shutil.rmtree(mount.at("s"))
        else:
            os.unlink(row.path)
        eventually(lambda name=what: [item for item in gc(box, "--list", mount.store)
                                      if item["name"].startswith(name)], f"{what} is in the trash")
        gc(box, "--undo", mount.store, what)
        same((read(row.path), row.data()), (text, text), f"{what} is back")
        same(row.version() not in read_before | {0}, True, f"{what}: {row.version()} is new")
        read_before.add(row.version())
    rows = service.ask("SELECT DISTINCT version FROM {0} WHERE state_key = 'l'")
    same(rows, [(0,)], "versions of the list")
    mount.check()


def test_another_layout_raises_the_version_of_a_row_that_gets_another_key(box):
    mount = box.mount()
    os.makedirs(mount.at("alice/one"))
    write(mount.at("alice/one/k.json"), b"1")
    same(mount.sql(f"SELECT session_id, state_key, version FROM {TABLE}"),
         [(b"alice", b"one/k", 1)], "before")
    mount.stop()
    box.sessfs("config", mount.store, "layout=agentscope2", check=True)
    session, key, version = mount.sql(f"SELECT session_id, state_key, version FROM {TABLE}")[0]
    same((session, key, version > 1), (b"alice:one", b"k", True), f"after ({version})")


def test_what_is_imported_begins_with_one_and_raises_what_is_there(box):
    mount = box.mount()
    row = swapped.Row(mount, table(mount.store))
    folder = box.new_folder()
    os.mkdir(os.path.join(folder, "s"))
    for expected in (1, 2):
        write(os.path.join(folder, "s/k.json"), row.text())
        box.sessfs("import", "-c", mount.store, folder, check=True)
        same((row.data(), row.version()), (b'{"n": %d}' % expected, expected), "the row")


def test_what_a_backup_or_a_repair_brings_back_is_none_of_what_was_read_before(box):
    mount = box.mount()
    row = swapped.Row(mount, table(mount.store))
    os.mkdir(mount.at("s"))
    write(mount.at("s/l.jsonl"), b"[1]\n")
    write(row.path, row.text())
    backup, repaired = box.new_path("backup"), box.new_path("repaired")
    box.sessfs("backup", mount.store, backup, check=True)
    read_before = {row.version()}
    for _ in range(3):
        write(row.path, row.text())
        read_before.add(row.version())
    mount.stop()
    box.sessfs("restore", "--force", backup, mount.store, check=True)
    box.sessfs("check", "--repair", mount.store, repaired, check=True)
    for store in (mount.store, repaired):
        row.table = table(store)
        same(row.data(), b'{"n": 1}', f"the row in {store}")
        same(row.version() not in read_before | {0}, True, f"{row.version()} is new in {store}")
        read_before.add(row.version())
        rows = row.table.ask("SELECT version FROM {0} WHERE state_key = 'l'")
        same(rows, [(0,)], "version of the list")


if __name__ == "__main__":
    main(globals())
