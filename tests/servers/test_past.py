#!/usr/bin/python3 -B
# SPDX-License-Identifier: MIT
"""What was overwritten in a store on a server: seen as it was, put back, forked, forgotten.  The
game is played on a SQLite file, too.

  SESSFS_PAST_STEPS  changes in random order; 16, and 200 in a soak
  SESSFS_SEED        what the random numbers begin with
"""

import contextlib
import itertools
import os
import random
import re
import sqlite3
import sys
import time
import types

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import servers  # noqa: E402
from servers import harness  # noqa: E402
from harness import append, eventually, read, same, write  # noqa: E402
from test_stores import start  # noqa: E402

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "mount"))
from test_history import LINES, changes, do, moment, tree_of  # noqa: E402

ROW = "INSERT INTO agentscope_sessions (session_id, state_key, item_index, state_data) VALUES "
SEED = int(os.environ.get("SESSFS_SEED") or "1")
STEPS = harness.rounds("SESSFS_PAST_STEPS", 16, 200)
PAUSE = 0.15  # what SQL does within that counts as one change on MariaDB


class File:
    """A SQLite store, as a database on a server."""

    def __init__(self, box):
        self.url = box.new_path("store")

    @contextlib.contextmanager
    def connect(self):
        with contextlib.closing(
            sqlite3.connect(self.url, timeout=harness.HANG, isolation_level=None)
        ) as base:
            yield types.SimpleNamespace(query=base.execute)


def begin(box, kind, count=1):
    base = File(box) if kind == "sqlite" else start(box, kind).database()
    mounts = [box.mount(store=base.url) for _ in range(count)]
    os.mkdir(mounts[0].at("demo"))
    return base, mounts


def then(mount, at, *names):
    return os.path.join(mount.at("demo"), f"@at={at}", *names)


def comes_back(box, kind):
    base, [mount] = begin(box, kind)
    write(mount.at("demo/messages.jsonl"), b"".join(LINES[:3]))
    write(mount.at("demo/state.json"), b'{"a": 1}')
    first = moment()
    write(mount.at("demo/messages.jsonl"), LINES[0] + LINES[5])
    append(mount.at("demo/messages.jsonl"), LINES[6])
    write(mount.at("demo/state.json"), b'{"a": 2}')
    now = tree_of(mount.at("demo"))
    old = {"messages.jsonl": b"".join(LINES[:3]), "state.json": b'{"a": 1}'}
    same(tree_of(then(mount, first)), old, "then")
    time.sleep(PAUSE)
    do(box, "undo", f"--to={first}", base.url, "demo")
    eventually(lambda: tree_of(mount.at("demo")) == old, "it is back")
    time.sleep(PAUSE)
    do(box, "undo", base.url, "demo")
    eventually(lambda: tree_of(mount.at("demo")) == now, "the undo is undone")
    same(changes(box, base.url)[0]["what"], "undo", "the log")
    do(box, "fork", f"--at={first}", base.url, "demo", "old")
    eventually(lambda: os.path.exists(mount.at("old")), "the fork")
    same(tree_of(mount.at("old")), old, "a fork")
    do(box, "forget", "--items=0", base.url, "demo/messages")
    eventually(lambda: read(mount.at("demo/messages.jsonl")) == LINES[5] + LINES[6], "forgotten")
    with base.connect() as client:
        same(client.query("SELECT COUNT(*) FROM sessfs_past WHERE ino = 0 AND session_id = 'demo' "
                          "AND state_key = 'messages'"), [(b"0",)], "what is kept of it")
    os.unlink(mount.at("demo/state.json"))
    eventually(lambda: "state.json" in os.listdir(then(mount, first)), "a removed name")
    same(read(then(mount, first, "state.json")), b'{"a": 1}', "of then")
    do(box, "forget", base.url, "demo")
    eventually(lambda: not os.path.exists(mount.at("demo")), "all is gone")
    do(box, "check", base.url)


def test_what_was_overwritten_on_mariadb_comes_back(box):
    comes_back(box, "mysql")


def test_what_was_overwritten_on_postgresql_comes_back(box):
    comes_back(box, "postgresql")


def service(client, count, number):
    """As AgentScope saves a list."""
    client.query("BEGIN")
    client.query("DELETE FROM agentscope_sessions WHERE session_id = 'demo' AND state_key = 'a'")
    for i in range(count):
        client.query(ROW + f"('demo', 'a', {i}, '{{\"s\": {number + i}}}')")
    client.query("COMMIT")


def rewrite(mount, dice, line):
    lines = read(mount.at("demo/a.jsonl")).splitlines(True)
    lines[dice.randrange(len(lines))] = line
    write(mount.at("demo/a.jsonl"), b"".join(lines[: 1 + dice.randrange(6)]) + line)


def save_by_rename(mount, number):
    write(mount.at("demo/b.json.tmp"), b"%d" % number)
    os.rename(mount.at("demo/b.json.tmp"), mount.at("demo/b.json"))


def save_anew(mount, line):
    os.unlink(mount.at("demo/a.jsonl"))
    write(mount.at("demo/a.jsonl"), line + line)


def there_and_back(mount):
    """The history goes with the name."""
    for name in ("a.jsonl", "b.json"):
        os.rename(mount.at("demo", name), mount.at("demo", f"other-{name}"))
        os.rename(mount.at("demo", f"other-{name}"), mount.at("demo", name))


def compact(mount, line):
    with open(mount.at("demo/@items=0-1/a.jsonl"), "r+b") as file:
        file.read()
        file.seek(0)
        file.truncate()
        file.write(line)


def by_sql(client, mounts, number, *statements):
    """The last statement leaves the number in the list."""
    for statement in statements:
        client.query(statement)
    time.sleep(PAUSE)
    for mount in mounts:
        eventually(lambda m=mount: b'"s": %d' % number in read(m.at("demo/a.jsonl")), "its rows")


def fork(box, base, mount, moments, number):
    """As of a moment, or of now."""
    at, content = moments[number % len(moments)] if moments else (None, tree_of(mount.at("demo")))
    words = [f"--at={at}"] if at else []
    do(box, "fork", *words, base.url, "demo", f"f{number}")
    eventually(lambda: os.path.exists(mount.at(f"f{number}")), "the fork")
    same(tree_of(mount.at(f"f{number}")), content, f"the fork as of {at}")


def bring(box, base, mount, number):
    """Rows with times of their own, from before all that there is here."""
    folder = box.new_folder("from")
    os.mkdir(f"{folder}/i{number}")
    before = moment()
    write(f"{folder}/i{number}/m.jsonl", LINES[0] + LINES[1])
    os.utime(f"{folder}/i{number}/m.jsonl", (1000000000, 1000000000))
    do(box, "import", base.url, folder)
    eventually(lambda: os.path.exists(mount.at(f"i{number}/m.jsonl")), "the import")
    same(os.path.exists(mount.at(f"i{number}/@at={before}/m.jsonl")), False, "before it came")
    same(read(mount.at(f"i{number}/@at={moment()}/m.jsonl")), LINES[0] + LINES[1], "and then")


def plays(box, kind, count):
    base, mounts = begin(box, kind, count)
    dice = random.Random(SEED + count)
    moments, number = [], 0
    write(mounts[0].at("demo/a.jsonl"), LINES[0])
    write(mounts[0].at("demo/b.json"), b"0")
    box.note(f"seed {SEED}")
    with base.connect() as client:
        deeds = [
            lambda m, n: append(m.at("demo/a.jsonl"), b'{"i": %d}\n' % n),
            lambda m, n: rewrite(m, dice, b'{"i": %d}\n' % n),
            save_by_rename,
            lambda m, n: save_anew(m, b'{"i": %d}\n' % n),
            lambda m, n: there_and_back(m),
            lambda m, n: compact(m, b'{"i": %d}\n' % n),
            lambda m, n: (service(client, 2 + dice.randrange(4), n), by_sql(client, mounts, n)),
            lambda m, n: by_sql(client, mounts, n, "UPDATE agentscope_sessions SET state_data = "
                                f"'{{\"s\": {n}}}' WHERE session_id = 'demo' AND state_key = 'a' "
                                f"AND item_index {dice.choice(['= 0', '>= 0'])}"),
            lambda m, n: fork(box, base, m, moments, n),
            lambda m, n: bring(box, base, m, n),
        ]
        for _ in range(STEPS):
            number += 10
            dice.choice(deeds)(dice.choice(mounts), number)
            for other in mounts:
                eventually(lambda o=other: tree_of(o.at("demo")) == tree_of(mounts[0].at("demo")),
                           "mounts agree")
            moments.append((moment(), tree_of(mounts[0].at("demo"))))
        for at, content in moments:
            same(tree_of(then(mounts[-1], at)), content, f"{kind}, {count} mounts, at {at}")
    for at, content in dice.sample(moments, 2):
        before = tree_of(mounts[0].at("demo"))
        if before == content:
            continue
        do(box, "undo", f"--to={at}", base.url, "demo")
        eventually(lambda: tree_of(mounts[0].at("demo")) == content, f"undone to {at}")
        time.sleep(PAUSE)
        do(box, "undo", base.url, "demo")
        eventually(lambda: tree_of(mounts[0].at("demo")) == before, "the undo undone")
        time.sleep(PAUSE)
    do(box, "check", base.url)


def test_random_changes_in_a_file_are_seen_at_each_moment(box):
    plays(box, "sqlite", 1)
    plays(box, "sqlite", 2)


def test_random_changes_on_mariadb_are_seen_at_each_moment(box):
    plays(box, "mysql", 1)
    plays(box, "mysql", 2)


def test_random_changes_on_postgresql_are_seen_at_each_moment(box):
    plays(box, "postgresql", 1)
    plays(box, "postgresql", 2)


UPSERT = {
    "sqlite": "ON CONFLICT DO UPDATE SET state_data = excluded.state_data",
    "mysql": "ON DUPLICATE KEY UPDATE state_data = VALUES(state_data)",
    "postgresql": "ON CONFLICT (session_id, state_key, item_index) DO UPDATE SET state_data = "
                  "excluded.state_data",
}


def inserts_many(box, kind):
    """Statements of many rows, which say of themselves that they were made long ago."""
    base, [mount] = begin(box, kind)
    number = itertools.count()

    def insert(*places, behind=""):
        return ("INSERT INTO agentscope_sessions (session_id, state_key, item_index, state_data, "
                "created_at) VALUES " + ", ".join(
                    f"('demo', '{key}', {index}, '{{\"n\": {next(number)}}}', "
                    "'2001-02-03 04:05:06')" for key, index in places) + f" {behind}")

    def of_a(*indexes, **named):
        return insert(*(("a", index) for index in indexes), **named)

    remove = "DELETE FROM agentscope_sessions WHERE session_id = 'demo' AND state_key = 'a'"
    changes_ = [
        [of_a(0, 1, 2)],
        [insert(("a", 3), ("b", 0), ("a", 4), ("b", 1))],
        [of_a(6, 5, 7)],
        [f"{remove} AND item_index = 1", of_a(1, 8)],
        [f"{remove} AND item_index IN (1, 2)", of_a(1, 2)],
        ["BEGIN", of_a(9), "ROLLBACK", of_a(9, 10)],
        ["BEGIN", "SAVEPOINT one", of_a(11), "ROLLBACK TO SAVEPOINT one", of_a(11, 12), "COMMIT"],
        [of_a(13, 12, 14, behind=UPSERT[kind])],
        [of_a(15), f"{remove} AND item_index = 15", of_a(15, 16)],
        ["BEGIN", remove, of_a(*range(20)), "COMMIT"],
        [remove, of_a(0, 1)],
    ]
    moments = []
    with base.connect() as client:
        for statements in changes_:
            for statement in statements:
                client.query(statement)
            time.sleep(PAUSE)
            last = re.findall(r'{"n": \d+}', " ".join(statements))[-1].encode()
            eventually(lambda c=last: any(c in content for content in
                                          tree_of(mount.at("demo")).values()), "the rows")
            moments.append((moment(), tree_of(mount.at("demo"))))
    for at, content in moments:
        same(tree_of(then(mount, at)), content, f"{kind}, at {at}")
    do(box, "check", base.url)


def test_rows_of_one_statement_in_a_file_are_seen_from_when_they_came(box):
    inserts_many(box, "sqlite")


def test_rows_of_one_statement_on_mariadb_are_seen_from_when_they_came(box):
    inserts_many(box, "mysql")


def test_rows_of_one_statement_on_postgresql_are_seen_from_when_they_came(box):
    inserts_many(box, "postgresql")


def stays_open(box, kind):
    """A list of 20,000 lines as of a time, while SQL changes and inserts rows, and two mounts
    append."""
    base, mounts = begin(box, kind, 2)
    path = mounts[0].at("demo/l.jsonl")
    append(path, b"".join(b'{"n": %d, "text": "%060d"}\n' % (n, n) for n in range(20000)))
    copy, at = read(path), moment()
    time.sleep(PAUSE)
    where = "WHERE session_id = 'demo' AND state_key = 'l' AND item_index"
    with base.connect() as client:
        client.query(f"UPDATE agentscope_sessions SET state_data = '0' {where} % 1000 = 7")
        eventually(lambda: len(read(path)) < len(copy), "the rows are changed")
        fds = [os.open(then(mount, at, "l.jsonl"), os.O_RDONLY) for mount in mounts]
        middle = len(copy) // 2
        for step in range(4):
            for number, fd in enumerate(fds):
                same(os.fstat(fd).st_size, len(copy), "the size")
                for start in (middle + step * 40000, 0, len(copy) - 100):
                    same(os.pread(fd, 5000, start), copy[start : start + 5000],
                         f"step {step}, mount {number}, at {start}")
            if step == 0:
                for mount in mounts:
                    append(mount.at("demo/l.jsonl"), LINES[0])
            elif step == 1:
                client.query(ROW + "('demo', 'l', 20002, '1')")
                eventually(lambda: read(path).endswith(LINES[0] + b"1\n"), "the row")
            elif step == 2:
                client.query(f"UPDATE agentscope_sessions SET state_data = '22' {where} % 900 = 8")
                client.query(f"DELETE FROM agentscope_sessions {where} > 19990")
                eventually(lambda: not read(path).endswith(b"1\n"), "the rows are deleted")
        for fd in fds:
            with open(fd, "rb") as file:
                same(file.read(), copy, "all of it")
    same(read(then(mounts[1], at, "l.jsonl")), copy, "opened anew")


def test_a_long_list_as_of_a_time_on_mariadb_stays_as_it_was(box):
    stays_open(box, "mysql")


def test_a_long_list_as_of_a_time_on_postgresql_stays_as_it_was(box):
    stays_open(box, "postgresql")


def keeps_columns(box, kind):
    """Another program drops columns, and adds them: none of its statements fails, mounted or not,
    and the past stays."""
    base, [mount] = begin(box, kind)
    messages = mount.at("demo/messages.jsonl")
    write(messages, b"".join(LINES[:3]))
    moments = [(moment(), read(messages))]
    append(messages, LINES[3])
    add = "TIMESTAMP NULL" if kind == "mysql" else "TIMESTAMPTZ"
    alters = [f"ALTER TABLE agentscope_sessions {words}" for words in (
        "DROP COLUMN created_at", "DROP COLUMN updated_at, DROP COLUMN version",
        f"ADD COLUMN created_at {add}", f"ADD COLUMN updated_at {add}",
        "ADD COLUMN version BIGINT NOT NULL DEFAULT 0")]
    where = "WHERE session_id = 'demo' AND state_key = 'messages' AND item_index"
    with base.connect() as client:
        for number, alter in enumerate(alters):
            for mounted in (False, True):
                if not mounted:
                    mount.stop()
                time.sleep(PAUSE)
                # Of these only their times tell that they came behind the last moment.
                client.query(f"UPDATE agentscope_sessions SET state_data = '0' {where} = 3")
                client.query(f"DELETE FROM agentscope_sessions {where} > 3")
                if not mounted:
                    client.query(alter)
                text = f"[{number}, {int(mounted)}]"
                client.query(f"UPDATE agentscope_sessions SET state_data = '{text}' {where} = 1")
                client.query(f"DELETE FROM agentscope_sessions {where} = 0")
                client.query(ROW + f"('demo', 'messages', 0, '{text}')")
                if not mounted:
                    mount.start()
                eventually(lambda line=text.encode(): read(messages).startswith(
                    line + b"\n" + line + b"\n"), f"{alter}: rows")
                append(messages, LINES[4])
                moments.append((moment(), read(messages)))
                append(messages, LINES[5])
                for at, content in moments:
                    same(read(then(mount, at, "messages.jsonl")), content, f"{alter}: {at}")
    time.sleep(PAUSE)
    do(box, "undo", f"--to={moments[0][0]}", base.url, "demo")
    eventually(lambda: read(messages) == moments[0][1], "it is back")
    do(box, "check", base.url)
    mount.stop()
    with base.connect() as client:
        client.query("ALTER TABLE agentscope_sessions DROP COLUMN updated_at")
        client.query("ALTER TABLE agentscope_sessions ADD COLUMN updated_at VARCHAR(9) DEFAULT 'x'")
        client.query(f"UPDATE agentscope_sessions SET state_data = '1' {where} = 1")
        client.query(f"DELETE FROM agentscope_sessions {where} = 1")


def test_columns_that_are_dropped_and_added_on_mariadb_leave_the_past(box):
    keeps_columns(box, "mysql")


def test_columns_that_are_dropped_and_added_on_postgresql_leave_the_past(box):
    keeps_columns(box, "postgresql")


if __name__ == "__main__":
    servers.main(globals())
