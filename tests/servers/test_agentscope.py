#!/usr/bin/python3 -B
# SPDX-License-Identifier: MIT
"""Services of AgentScope beside mounts, on MariaDB and PostgreSQL: its own statements on its own
table, and its file stores on the mounts."""

import datetime
import os
import statistics
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import servers  # noqa: E402
from servers import harness  # noqa: E402
import agentscope  # noqa: E402
import swapped  # noqa: E402
from agentscope import DatabaseStore, FileStore, FileStore1  # noqa: E402
from harness import append, errno_of, eventually, read, same, write  # noqa: E402
from test_stores import own, refused, start  # noqa: E402

SOON = 0.2  # seconds within which others see a change
HALF_AN_HOUR = 1800  # seconds, which are less than any zone differs
STEPS = harness.rounds("SESSFS_STEPS", 25, 100)
MORE_STEPS = harness.rounds("SESSFS_STEPS", 60, 100)  # so that saves are refused, and are not


def service(server, **named):
    """The database, and the table as a service finds or makes it."""
    base = server.database()
    return base, agentscope.Table(server.kind, base.connect().query, **named)


def plays_2(box, kind, versions):
    base, table = service(start(box, kind), versions=versions)
    table.create()
    mount = box.mount(store=base.url, options=["layout=agentscope2"])
    stores = [FileStore(mount.path, "alice"), DatabaseStore(table, "alice")]
    game = agentscope.play(box, stores, MORE_STEPS if versions else STEPS)
    mount.check()
    if versions:
        same(all(game.claimed), True, f"some were refused, and some were not: {game.claimed}")


def test_agentscope_2_has_the_same_in_files_and_on_mariadb(box):
    plays_2(box, "mysql", False)


def test_agentscope_2_has_the_same_in_files_and_on_postgresql(box):
    plays_2(box, "postgresql", False)


def test_agentscope_2_with_versions_has_the_same_in_files_and_on_mariadb(box):
    plays_2(box, "mysql", True)


def test_agentscope_2_with_versions_has_the_same_in_files_and_on_postgresql(box):
    plays_2(box, "postgresql", True)


def plays_1(box, kind):
    """Two mounts and a service."""
    base, table = service(start(box, kind))
    table.create()
    mounts = [box.mount(store=base.url) for _ in range(2)]
    stores = [FileStore1(mount.path) for mount in mounts] + [DatabaseStore(table)]
    agentscope.play(box, stores, STEPS)
    mounts[0].check()


def test_agentscope_1_has_the_same_on_two_mounts_and_on_mariadb(box):
    plays_1(box, "mysql")


def test_agentscope_1_has_the_same_on_two_mounts_and_on_postgresql(box):
    plays_1(box, "postgresql")


def shows(box, kind):
    """What a service saves is on two mounts within a fifth of a second."""
    base, table = service(start(box, kind))
    table.create()
    mounts = [box.mount(store=base.url) for _ in range(2)]
    took = []
    for number in range(harness.rounds("SESSFS_ROUNDS", 10, 30)):
        table.put("s", "l", number, f'{{"n": {number}}}')
        line = b'{"n": %d}\n' % number
        for mount in mounts:
            path = mount.at("s", "l.jsonl" if number else "l.json")
            found = lambda p=path: os.path.exists(p) and line in read(p) + b"\n"  # noqa: E731
            took.append(eventually(found, f"line {number}"))
    median = statistics.median(took)
    box.note(f"after {median * 1000:.0f} ms (median), {max(took) * 1000:.0f} ms at the most")
    if harness.SOAK:  # where nothing else keeps the machine busy
        same(median < SOON, True, f"half of them within {SOON} s")


def test_what_a_service_saves_on_mariadb_is_soon_on_both_mounts(box):
    shows(box, "mysql")


def test_what_a_service_saves_on_postgresql_is_soon_on_both_mounts(box):
    shows(box, "postgresql")


def appends(box, kind):
    base, table = service(start(box, kind))
    table.create()
    mounts = [box.mount(store=base.url) for _ in range(2)]
    os.mkdir(mounts[0].at("s"))
    expected = []
    for number in range(40):
        expected.append(b'{"n": %d}' % number)
        append(mounts[number % 2].at("s/l.jsonl"), expected[-1] + b"\n")
        same(table.rows("s", "l"), expected, "rows when write has returned")


def test_what_an_agent_appends_is_on_mariadb_when_write_returns(box):
    appends(box, "mysql")


def test_what_an_agent_appends_is_on_postgresql_when_write_returns(box):
    appends(box, "postgresql")


# Versions of single states


def rises(box, kind):
    base, table = service(start(box, kind), versions=True)
    table.create()
    mount = box.mount(store=base.url)
    row = swapped.rises(box, mount, table)
    swapped.lists_have_none(mount, table)
    swapped.services_of_both_kinds(mount, table)
    same(row.claim(row.version()), True, "a save of what the service has read last")
    both = swapped.Row(mount, table, "both")
    write(both.path, both.text())
    before = both.version()
    os.unlink(both.path)
    undo = "gc", "--undo", base.url, "both/k.json"
    eventually(lambda: box.sessfs(*undo).returncode == 0, "it comes back")
    same((both.version() > before, both.claim(before)), (True, False), "what has come back")
    mount.check()


def test_each_write_of_a_single_raises_the_version_of_its_row_on_mariadb(box):
    rises(box, "mysql")


def test_each_write_of_a_single_raises_the_version_of_its_row_on_postgresql(box):
    rises(box, "postgresql")


def makes(box, kind):
    """The table that we make has the column."""
    base, table = service(start(box, kind), versions=True)
    mount = box.mount(store=base.url)
    row = swapped.Row(mount, table)
    os.mkdir(mount.at("s"))
    write(row.path, row.text())
    append(mount.at("s/l.jsonl"), b"[1]\n")
    same(row.version(), 1, "in a table that we have made")
    write(row.path, row.text())
    same(row.version(), 2, "behind a save")
    mount.stop()
    saved = box.new_path("saved")
    box.sessfs("backup", base.url, saved, check=True)
    box.sessfs("restore", "--force", saved, base.url, check=True)
    rows = table.ask("SELECT version FROM {0} ORDER BY state_key")
    same((int(rows[0][0]) > 2, int(rows[1][0])), (True, 0), "of what a backup has brought back")


def test_tables_that_sessfs_has_made_on_mariadb_have_versions(box):
    makes(box, "mysql")


def test_tables_that_sessfs_has_made_on_postgresql_have_versions(box):
    makes(box, "postgresql")


def comes(box, kind):
    base, table = service(start(box, kind))
    table.create()
    mount = box.mount(store=base.url)
    swapped.comes_and_goes(mount, table)
    mount.check()


def test_a_version_that_comes_or_goes_on_mariadb_is_noticed_before_the_next_save(box):
    comes(box, "mysql")


def test_a_version_that_comes_or_goes_on_postgresql_is_noticed_before_the_next_save(box):
    comes(box, "postgresql")


def goes_on(box, kind):
    base, table = service(start(box, kind))
    table.create()
    mounts = [box.mount(store=base.url) for _ in range(2)]
    swapped.storm(mounts, table, harness.rounds("SESSFS_ROUNDS", 20, 200))
    mounts[0].check()


@harness.soak
def test_saves_go_on_beside_a_column_that_comes_and_goes_on_mariadb(box):
    goes_on(box, "mysql")


@harness.soak
def test_saves_go_on_beside_a_column_that_comes_and_goes_on_postgresql(box):
    goes_on(box, "postgresql")


# The table is the service's


def shape(table):
    """Whatever a service could notice of its table."""
    if table.kind == "mysql":
        return table.ask("SHOW CREATE TABLE {0}")
    name = table.name.split(".")[1].strip('"')
    return [table.ask("SELECT column_name, data_type, column_default, is_nullable, collation_name "
                      "FROM information_schema.columns WHERE table_name = ? ORDER BY 1", name),
            table.ask("SELECT indexdef FROM pg_indexes WHERE tablename = ? ORDER BY 1", name),
            table.ask("SELECT conname, contype FROM pg_constraint WHERE conrelid = "
                      f"'{table.name}'::regclass ORDER BY 1")]


def leaves(box, kind, versions):
    """Its table, which may have another name, stays as it is."""
    quoted = {"mysql": "`my-sessions_2`", "postgresql": '"my-sessions_2"'}[kind]
    base, table = service(start(box, kind), name=quoted, versions=versions)
    table.create()
    table.put("old", "k", 0, '{"old": 1}')
    before = shape(table)
    mount = box.mount(store=base.url_with(table="my-sessions_2"))
    same(read(mount.at("old/k.json")), b'{"old": 1}', "what was there")
    os.mkdir(mount.at("s"))
    append(mount.at("s/l.jsonl"), b"[1]\n[2]\n")
    write(mount.at("old/k.json"), b"[3]")
    os.rename(mount.at("s"), mount.at("t"))
    same((table.rows("t", "l"), table.rows("old", "k")), ([b"[1]", b"[2]"], [b"[3]"]), "rows")
    mount.stop()
    refused(box, base.url_with(table="another"), "in the table my-sessions_2")
    mount.store = base.url
    mount.start()
    table.put("t", "l", 2, "[4]")
    eventually(lambda: read(mount.at("t/l.jsonl")) == b"[1]\n[2]\n[4]\n", "from the service")
    mount.stop()
    same(shape(table), before, "the table")


def test_a_table_of_any_name_stays_as_it_is_on_mariadb(box):
    leaves(box, "mysql", False)


def test_a_table_of_any_name_stays_as_it_is_on_postgresql(box):
    leaves(box, "postgresql", True)


def tells_times(box, kind, *extra):
    """Times without a zone are those of the server's, here half past five before UTC."""
    base, table = service(own(box, kind, extra=extra))
    table.create()
    table.put("new", "k", 0, "1")
    table.ask("INSERT INTO {0} (session_id, state_key, item_index, state_data, created_at, "
              "updated_at) VALUES ('old', 'k', 0, '1', '2026-03-04 05:06:07', "
              "'2026-03-04 05:06:08')")
    mount = box.mount(store=base.url)
    age = time.time() - os.stat(mount.at("new/k.json")).st_mtime
    same(abs(age) < HALF_AN_HOUR, True, f"a new one is {age} s old")
    expected = datetime.datetime(2026, 3, 3, 23, 36, 8, tzinfo=datetime.timezone.utc).timestamp()
    same(os.stat(mount.at("old/k.json")).st_mtime, expected, "mtime of what was there")
    append(mount.at("new/l.jsonl"), b"[1]\n")
    seconds = {"mysql": "TIMESTAMPDIFF(SECOND, updated_at, NOW())",
               "postgresql": "EXTRACT(EPOCH FROM LOCALTIMESTAMP - updated_at)"}[kind]
    age = float(table.ask(f"SELECT {seconds} FROM {{0}} WHERE state_key = 'l'")[0][0])
    same(abs(age) < HALF_AN_HOUR, True, f"a row of ours is {age} s old to the service")


def test_times_of_mariadb_are_those_of_its_zone(box):
    tells_times(box, "mysql", "--default-time-zone=+05:30")


def test_times_of_postgresql_are_those_of_its_zone(box):
    tells_times(box, "postgresql", "-c", "timezone=Asia/Kolkata")


def test_two_spellings_that_a_service_takes_for_one_are_one(box):
    """In its collation demo, Demo and demo with a blank are one id."""
    base, table = service(start(box, "mysql"))
    table.create()
    table.put("demo", "k", 0, '{"a": 1}')
    mount = box.mount(store=base.url)
    for name in ("Demo", "demo ", "d\u00e9mo"):
        os.mkdir(mount.at(name))
        same(errno_of(write, mount.at(name, "k.json"), b"2"), 17, f"{name}/k.json")
        same(read(mount.at("demo/k.json")), b'{"a": 1}', f"the first spelling, beside {name}")
    table.put("DEMO", "K", 0, '{"a": 2}')
    eventually(lambda: read(mount.at("demo/k.json")) == b'{"a": 2}', "a save by another spelling")
    same(table.ask("SELECT session_id, state_key FROM {0}"), [(b"demo", b"k")], "ids")
    write(mount.at("other.txt"), b"x")
    mount.check()


if __name__ == "__main__":
    servers.main(globals())
