#!/usr/bin/python3 -B
# SPDX-License-Identifier: MIT
"""What was overwritten in a store on a server: seen as it was, put back, forked, forgotten."""

import os
import random
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import servers  # noqa: E402
from servers import harness  # noqa: E402
from harness import append, eventually, read, same, write  # noqa: E402
from test_stores import start  # noqa: E402

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "mount"))
from test_history import LINES, changes, do, moment, tree_of  # noqa: E402

ROW = "INSERT INTO agentscope_sessions (session_id, state_key, item_index, state_data) VALUES "
PAUSE = 0.15  # what SQL does within that counts as one change on MariaDB


def begin(box, kind, count=1):
    base = start(box, kind).database()
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


def plays(box, kind, count):
    base, mounts = begin(box, kind, count)
    dice = random.Random(count)
    moments, number = [], 0
    write(mounts[0].at("demo/a.jsonl"), LINES[0])
    write(mounts[0].at("demo/b.json"), b"0")
    with base.connect() as client:
        for step in range(12):
            mount = dice.choice(mounts)
            number += 10
            line = b'{"i": %d}\n' % number
            act = dice.randrange(5)
            if act == 0:
                append(mount.at("demo/a.jsonl"), line)
            elif act == 1:
                lines = read(mount.at("demo/a.jsonl")).splitlines(True)
                lines[dice.randrange(len(lines))] = line
                write(mount.at("demo/a.jsonl"), b"".join(lines[: 1 + dice.randrange(6)]) + line)
            elif act == 2:
                write(mount.at("demo/b.json.tmp"), b"%d" % number)
                os.rename(mount.at("demo/b.json.tmp"), mount.at("demo/b.json"))
            elif act == 3:
                os.unlink(mount.at("demo/a.jsonl"))
                write(mount.at("demo/a.jsonl"), line + line)
            else:
                service(client, 2 + dice.randrange(4), number)
                time.sleep(PAUSE)
                eventually(lambda m=mounts[0]: b'"s": %d' % number in read(m.at("demo/a.jsonl")),
                           "the service's rows")
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


def test_random_changes_on_mariadb_are_seen_at_each_moment(box):
    plays(box, "mysql", 1)
    plays(box, "mysql", 2)


def test_random_changes_on_postgresql_are_seen_at_each_moment(box):
    plays(box, "postgresql", 1)
    plays(box, "postgresql", 2)


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
