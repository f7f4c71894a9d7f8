#!/usr/bin/python3 -B
# SPDX-License-Identifier: MIT
"""What was overwritten: seen as it was, put back, forked, forgotten."""

import contextlib
import errno
import glob
import json
import os
import random
import shutil
import sqlite3
import subprocess
import time

import harness
from harness import TABLE, append, errno_of, eventually, main, read, same, write
from test_files import EXCHANGE, renameat2

PAUSE = 0.15  # what SQL does within that counts as one change
LINES = [b'{"n": %d}\n' % n for n in range(8)]


def do(box, *arguments, status=0, **named):
    done = box.sessfs(*arguments, **named)
    same(done.returncode, status, f"{arguments} (it says {done.stderr!r})")
    return done


def moment():
    """A time behind all that was done, and before all that will be: rows have milliseconds."""
    start = time.time_ns() // 10**6
    while time.time_ns() // 10**6 <= start:
        time.sleep(0.0002)
    now = time.time_ns() // 10**6
    while time.time_ns() // 10**6 <= now:
        time.sleep(0.0002)
    stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now // 1000))
    return f"{stamp}.{now % 1000:03}Z"


def then(mount, at, *names):
    return os.path.join(mount.path, "demo", f"@at={at}", *names)


def changes(box, store, what="demo"):
    return json.loads(do(box, "log", "--json", store, what).stdout)


def tree_of(folder):
    return {name: read(os.path.join(folder, name)) for name in sorted(os.listdir(folder))}


def test_a_store_that_keeps_nothing_shows_no_present_as_the_past(box):
    mount = box.mount("memory:")
    os.mkdir(mount.at("s"))
    append(mount.at("s", "a.jsonl"), b'{"n": 1}\n')
    assert errno_of(os.listdir, mount.at("s", "@at=1h")) == errno.ENOENT
    assert errno_of(os.stat, mount.at("@last=1,at=1h")) == errno.ENOENT
    eventually(lambda: "@at=1h: this kind of store keeps no history" in mount.log(), "the sentence")
    assert os.listdir(mount.at("s", "@last=1")) == ["a.jsonl"]
    folder = box.new_path("mnt")
    os.mkdir(folder)
    done = box.sessfs("mount", "-o", "view=at=1h", "memory:", folder)
    assert done.returncode == 1 and b"'at=1h': this kind of store keeps no history" in done.stderr


def test_what_is_forgotten_is_not_read_by_who_has_it_open(box):
    mount, session = box.session("demo")
    path = os.path.join(session, "l.jsonl")
    append(path, b"".join(b'{"n": %d}\n' % n for n in range(20000)))
    data = read(path)
    at = moment()
    mount.sql(f"UPDATE {TABLE} SET state_data = '0' WHERE item_index % 1000 = 7")
    fd = os.open(os.path.join(then(mount, at), "l.jsonl"), os.O_RDONLY)
    same(os.pread(fd, 100, 100000), data[100000:100100], "as of then")
    same(os.fstat(fd).st_size, len(data), "the size")
    do(box, "forget", mount.store, "demo/l")
    same(errno_of(os.pread, fd, 100, 0), errno.ESTALE, "what is forgotten")
    os.close(fd)


def test_what_was_overwritten_is_seen_and_comes_back(box):
    mount, path = box.session("demo")
    messages, state = os.path.join(path, "messages.jsonl"), os.path.join(path, "state.json")
    write(messages, b"".join(LINES[:3]))
    write(state, b'{"a": 1}\n')
    first = moment()
    write(messages, LINES[0] + LINES[5])
    append(messages, LINES[6])
    write(state, b'{"a": 2}')
    write(os.path.join(path, "later.json"), b"[]")
    second = moment()
    same(tree_of(then(mount, first)), {"messages.jsonl": b"".join(LINES[:3]),
                                       "state.json": b'{"a": 1}\n'}, "then")
    same(tree_of(then(mount, second)), tree_of(path), "at the second")
    same(read(os.path.join(path, f"@at={first},last=1", "messages.jsonl")), LINES[2], "its end")
    same(read(os.path.join(mount.path, f"@at={first}", "demo/state.json")), b'{"a": 1}\n', "above")
    same(errno_of(open, then(mount, first, "messages.jsonl"), "ab"), errno.EROFS, "an append")
    same(errno_of(open, then(mount, first, "state.json"), "wb"), errno.EROFS, "a save")
    do(box, "undo", "--to", first, mount.store, "demo")
    eventually(lambda: read(messages) == b"".join(LINES[:3]) and
               read(state) == b'{"a": 1}\n', "it is back")
    eventually(lambda: sorted(os.listdir(path)) == ["messages.jsonl", "state.json"], "names")
    do(box, "undo", mount.store, "demo")
    eventually(lambda: read(messages) == LINES[0] + LINES[5] + LINES[6] and
               read(state) == b'{"a": 2}', "undone")
    mount.check()


def test_a_log_gives_times_that_undo_takes(box):
    mount, path = box.session("demo")
    messages = os.path.join(path, "messages.jsonl")
    seen = []
    for count in range(1, 5):
        write(messages, b"".join(LINES[count:2 * count]))
        moment()
        found = changes(box, mount.store)
        seen.append((found[0]["time"], read(messages)))
    same([item["what"] for item in changes(box, mount.store)][:3], ["save"] * 3, "what")
    same(changes(box, mount.store)[0]["by"], mount.pid, "who")
    for at, content in seen:
        same(read(then(mount, at, "messages.jsonl")), content, f"at {at}")
        do(box, "undo", "--to", at, mount.store, "demo/messages.jsonl")
        eventually(lambda: read(messages) == content, f"undone to {at}")
    same(changes(box, mount.store)[0]["what"], "undo", "an undo")
    done = do(box, "undo", "--dry-run", "--json", "--to", seen[0][0], mount.store, "demo")
    same(json.loads(done.stdout)[0]["key"], "messages", "a dry run")
    same(read(messages), seen[-1][1], "nothing has changed")
    do(box, "undo", mount.store, "nobody", status=1)
    for bad in (seen[0][0][:-1] + "xyz", "2026-13-01", "2h30", "9999"):
        done = do(box, "undo", "--to", bad, mount.store, "demo", status=2)
        assert f"'{bad}' is not a time".encode() in done.stderr, done.stderr
    same("several" in do(box, "log", mount.store, "demo").stdout.decode(), False, "a log")


def test_a_log_says_what_sql_has_appended(box):
    """The table's own times of such rows have seconds alone."""
    mount, path = box.session("demo")
    append(os.path.join(path, "messages.jsonl"), b"".join(LINES[:4]))
    insert = f"INSERT INTO {TABLE} (session_id, state_key, item_index, state_data) VALUES "
    for items in ((4, 5, 6), (7,), (-1,), (8,), None, (2,)):
        time.sleep(2 * PAUSE)
        if items:
            mount.sql(insert + ", ".join(f"('demo', 'messages', {item}, '{{}}')" for item in items))
        else:
            mount.sql(f"DELETE FROM {TABLE} WHERE item_index = 2")
    time.sleep(2 * PAUSE)
    append(os.path.join(path, "messages.jsonl"), LINES[0])
    found = changes(box, mount.store)
    same([(item["what"], item["items"], item["added"], item.get("by")) for item in found],
         [("append", 0, 1, None), ("append", 0, 1, "sql"), ("save", 1, 0, "sql"),
          *[("append", 0, 1, "sql")] * 3, ("append", 0, 3, "sql"), ("append", 0, 3, None)],
         "changes")


def goes_on(box, mount, *statements):
    """Another program changes the columns of the table: no statement fails, and the past stays."""
    messages = mount.at("demo/messages.jsonl")
    write(messages, b"".join(LINES[:3]))
    moments = [(moment(), read(messages))]
    append(messages, LINES[3])
    for number, statement in enumerate(statements):
        for mounted in (True, False):
            time.sleep(PAUSE)
            if not mounted:
                mount.stop()
            with contextlib.closing(sqlite3.connect(mount.store, isolation_level=None)) as base:
                # Of these only their times tell that they came behind the last moment.
                base.execute(f"UPDATE {TABLE} SET state_data = '0' WHERE item_index = 3")
                base.execute(f"DELETE FROM {TABLE} WHERE item_index > 3")
                if mounted:
                    base.execute(statement)
                base.execute(f"UPDATE {TABLE} SET state_data = ? WHERE item_index = 1",
                             (f"[{number}, {int(mounted)}]",))
                base.execute(f"INSERT OR REPLACE INTO {TABLE} (session_id, state_key, item_index, "
                             "state_data) VALUES ('demo', 'messages', 0, ?)", (f"[{number}]",))
            if not mounted:
                mount.start()
            eventually(lambda n=number, m=mounted: b"[%d, %d]\n" % (n, m) in read(messages), "SQL")
            append(messages, LINES[4])
            moments.append((moment(), read(messages)))
            append(messages, LINES[5])
            for at, content in moments:
                same(read(then(mount, at, "messages.jsonl")), content, f"{statement}: at {at}")
    do(box, "undo", "--to", moments[0][0], mount.store, "demo")
    eventually(lambda: read(messages) == moments[0][1], "it is back")
    mount.check()


def test_columns_that_other_programs_drop_and_add_leave_the_past(box):
    goes_on(box, box.session("demo")[0], *(f"ALTER TABLE {TABLE} {words}" for words in (
        "DROP COLUMN created_at", "DROP COLUMN version", "ADD COLUMN created_at TEXT",
        "DROP COLUMN created_at", "ADD COLUMN version BIGINT NOT NULL DEFAULT 0")))


def test_columns_that_other_programs_add_to_their_table_leave_the_past(box):
    store = box.new_store()
    with contextlib.closing(sqlite3.connect(store)) as base:
        base.execute(f"""CREATE TABLE {TABLE} (session_id TEXT, state_key TEXT, item_index INTEGER,
            state_data TEXT NOT NULL, PRIMARY KEY (session_id, state_key, item_index))""")
    goes_on(box, box.session("demo", store=store)[0], *(
        f"ALTER TABLE {TABLE} ADD COLUMN {column}" for column in ("created_at", "updated_at")))


def test_updated_at_goes_once_its_trigger_is_dropped(box):
    """SQLite drops no column that a trigger sets; all is as it was then."""
    mount, path = box.session("demo")
    state = os.path.join(path, "state.json")
    write(state, b"1")
    drop = f"ALTER TABLE {TABLE} DROP COLUMN updated_at"
    with contextlib.closing(mount.connect()) as base:
        try:
            base.execute(drop)
            said = "nothing"
        except sqlite3.OperationalError as error:
            said = str(error)
    assert "sessfs_row_updated_at" in said, said
    first = moment()
    mount.sql("DROP TRIGGER sessfs_row_updated_at")
    mount.sql(drop)
    mount.sql(f"UPDATE {TABLE} SET state_data = '2'")
    eventually(lambda: read(state) == b"2", "SQL")
    write(state, b"3")
    mount.remount()
    same(read(then(mount, first, "state.json")), b"1", "then")
    mount.check()
    goes_on(box, mount, f"ALTER TABLE {TABLE} ADD COLUMN updated_at TIMESTAMP",
            f"ALTER TABLE {TABLE} DROP COLUMN updated_at")


def test_what_sql_overwrites_is_kept(box):
    mount, path = box.session("demo")
    messages = os.path.join(path, "messages.jsonl")
    write(messages, b"".join(LINES[:3]))
    first = moment()
    insert = f"INSERT INTO {TABLE} (session_id, state_key, item_index, state_data) VALUES"
    with contextlib.closing(mount.connect()) as base:
        base.execute(f"DELETE FROM {TABLE} WHERE session_id = 'demo'")
        for index in range(5):
            base.execute(f"{insert} ('demo', 'messages', ?, ?)", (index, '{"new": %d}' % index))
        base.commit()
    second = moment()
    time.sleep(0.15)  # what SQL does within that counts as one change
    with contextlib.closing(mount.connect()) as base:
        base.execute(f"INSERT OR REPLACE INTO {TABLE} (session_id, state_key, item_index, "
                     "state_data) VALUES ('demo', 'messages', 1, '1')")
        base.execute(f"{insert} ('demo', 'messages', 2, '2') ON CONFLICT (session_id, state_key, "
                     "item_index) DO UPDATE SET state_data = excluded.state_data")
        base.execute(f"UPDATE {TABLE} SET item_index = 5 WHERE item_index = 3")
        base.execute(f"UPDATE {TABLE} SET item_index = 3 WHERE item_index = 4")
        base.execute(f"UPDATE {TABLE} SET item_index = 4 WHERE item_index = 5")
        base.commit()
    new = [b'{"new": %d}\n' % index for index in range(5)]
    eventually(lambda: read(messages) == new[0] + b"1\n2\n" + new[4] + new[3], "SQL's")
    same(read(then(mount, first, "messages.jsonl")), b"".join(LINES[:3]), "before SQL")
    same(read(then(mount, second, "messages.jsonl")), b"".join(new), "in between")
    do(box, "undo", "--to", second, mount.store, "demo")
    eventually(lambda: read(messages) == b"".join(new), "the last changes are undone")
    do(box, "undo", "--to", first, mount.store, "demo")
    eventually(lambda: read(messages) == b"".join(LINES[:3]), "before SQL again")
    mount.check()


def test_a_compaction_is_one_change(box):
    mount, path = box.session("demo")
    messages = os.path.join(path, "messages.jsonl")
    write(messages, b"".join(LINES))
    first = moment()
    version = os.getxattr(messages, "user.sessfs.version").decode()
    do(box, "compact", "--first=6", f"--if={version}", mount.store, "demo/messages.jsonl",
       stdin=b'{"sum": 1}\n')
    same(read(messages), b'{"sum": 1}\n' + LINES[6] + LINES[7], "compacted")
    same(read(then(mount, first, "messages.jsonl")), b"".join(LINES), "as it was")
    same(changes(box, mount.store)[0]["what"], "compact", "what")
    append(messages, LINES[0])
    do(box, "undo", "--to", first, mount.store, "demo")
    eventually(lambda: read(messages) == b"".join(LINES), "undone")
    mount.check()


def test_names_that_were_removed_are_seen(box):
    mount, path = box.session("demo")
    os.mkdir(os.path.join(path, "deep"))
    write(os.path.join(path, "messages.jsonl"), LINES[0])
    write(os.path.join(path, "messages.jsonl"), LINES[1])
    write(os.path.join(path, "deep/note.txt"), b"text")
    write(os.path.join(path, "secret.json"), b'"s"')
    os.chmod(os.path.join(path, "secret.json"), 0o600)
    write(os.path.join(path, "stays.json"), b"1")
    first = moment()
    shutil.rmtree(os.path.join(path, "deep"))
    os.unlink(os.path.join(path, "messages.jsonl"))
    os.unlink(os.path.join(path, "secret.json"))
    for key in ("messages", "secret"):
        eventually(lambda: not mount.rows("demo", key), "the rows go")
    same(sorted(os.listdir(then(mount, first))),
         ["deep", "messages.jsonl", "secret.json", "stays.json"], "names")
    same(read(then(mount, first, "messages.jsonl")), LINES[1], "a list")
    same(read(then(mount, first, "deep/note.txt")), b"text", "an ordinary file")
    same(os.stat(then(mount, first, "secret.json")).st_mode & 0o777, 0o600, "its mode")
    second = moment()
    write(os.path.join(path, "messages.jsonl"), LINES[2])
    same(read(then(mount, first, "messages.jsonl")), LINES[1], "the one of then")
    same(os.path.exists(then(mount, second, "messages.jsonl")), False, "it was not there")
    os.unlink(os.path.join(path, "messages.jsonl"))
    do(box, "gc", "--undo", mount.store, "demo/deep")
    same(sorted(os.listdir(path)), ["deep", "stays.json"], "what is back")
    same(read(os.path.join(path, "deep/note.txt")), b"text", "an ordinary file is back")
    mount.check()


def test_tools_copy_the_past_back(box):
    mount, path = box.session("demo")
    write(os.path.join(path, "messages.jsonl"), b"".join(LINES[:4]))
    write(os.path.join(path, "messages.hash"), b"one")
    write(os.path.join(path, "state.json"), b'{"a": 1}')
    first = moment()
    before = tree_of(path)
    write(os.path.join(path, "messages.jsonl"), LINES[7])
    write(os.path.join(path, "messages.hash"), b"two")
    write(os.path.join(path, "state.json"), b'{"a": 2}')
    new = os.path.join(mount.path, "new")
    os.mkdir(new)
    harness.tool("cp", "-a", then(mount, first, "."), new)
    same(tree_of(new), before, "a fork by files")
    same(harness.tool("diff", "-r", then(mount, first), new).stdout, b"", "diff")
    harness.tool("cp", "-a", then(mount, first, "."), path)
    same(tree_of(path), before, "put back by files")
    mount.check()


def test_a_fork_has_what_the_session_had(box):
    mount, path = box.session("demo")
    write(os.path.join(path, "messages.jsonl"), b"".join(LINES[:2]))
    write(os.path.join(path, "state.json"), b'{"a": 1}')
    write(os.path.join(path, "note.txt"), b"text" * 20000)
    first = moment()
    write(os.path.join(path, "messages.jsonl"), LINES[4])
    append(os.path.join(path, "messages.jsonl"), LINES[5])
    append(os.path.join(path, "messages.jsonl"), b"no json\n")
    append(os.path.join(path, "messages.jsonl"), LINES[6].strip())
    write(os.path.join(path, "draft.json"), b'{"a": ')
    for name in ("", "messages.jsonl", "note.txt"):
        os.setxattr(os.path.join(path, name), "user.what", b"it is " + name.encode())
    do(box, "fork", mount.store, "demo", "copy")
    do(box, "fork", f"--at={first}", mount.store, "demo", "old")
    do(box, "fork", "--items=1-1", "--key=messages", mount.store, "demo", "part")
    copy, old, part = (os.path.join(mount.path, name) for name in ("copy", "old", "part"))
    same(tree_of(copy), tree_of(path), "now")
    for name in ("", "messages.jsonl", "note.txt"):
        same(os.getxattr(os.path.join(copy, name), "user.what"), b"it is " + name.encode(), name)
    same(read(os.path.join(old, "messages.jsonl")), b"".join(LINES[:2]), "then")
    same(read(os.path.join(part, "messages.jsonl")), LINES[5], "some items")
    times = f"SELECT created_at FROM {TABLE} WHERE session_id = ? ORDER BY 1"
    same(mount.sql(times, ("copy",)), mount.sql(times, ("demo",)), "times of rows")
    append(os.path.join(old, "messages.jsonl"), LINES[7])
    same(read(os.path.join(old, "messages.jsonl")), b"".join(LINES[:2]) + LINES[7], "it goes on")
    same(os.path.exists(os.path.join(mount.path, f"@at={first}", "copy/state.json")), False,
         "it was not there then")
    do(box, "fork", mount.store, "demo", "copy", status=1)
    do(box, "fork", mount.store, "nobody", "other", status=1)
    mount.check()


def test_a_fork_in_a_layout_has_a_path_and_an_id_of_its_own(box):
    store = box.new_store()
    do(box, "config", store, "layout=claude")
    mount = box.mount(store)
    one, two = "11111111-2222-4333-8444-555555555555", "99999999-2222-4333-8444-555555555555"
    folder = mount.at("claude", "projects", "-home-me")
    os.makedirs(folder)
    line = '{"type":"user","sessionId":"%s","message":{"role":"user","content":"hi"}}\n'
    write(os.path.join(folder, one + ".jsonl"), (line % one).encode())
    session = mount.sql(f"SELECT DISTINCT session_id FROM {TABLE}")[0][0]
    do(box, "fork", mount.store, session, two)
    do(box, "fork", "--rewrite-id", mount.store, session, two.replace("9", "8"))
    same(sorted(os.listdir(folder)),
         sorted(name + ".jsonl" for name in (one, two, two.replace("9", "8"))), "paths")
    same(read(os.path.join(folder, two + ".jsonl")), (line % one).encode(), "as it was")
    same(read(os.path.join(folder, two.replace("9", "8") + ".jsonl")),
         (line % two.replace("9", "8")).encode(), "with its id")
    do(box, "fork", "--rewrite-id", mount.store, session, "x", status=2)
    mount.check()


UUIDS = ("01a226cd-f194-7221-a303-774c89965d55", "01a226ce-0a11-7d02-b3f4-5d21f6a8c0de")
# What each client writes, with its id of the session as {0} (and the first eight digits of it), in
# the path and the records.
FORKED = {
    "claude": (UUIDS, {"claude/projects/-w/{0}.jsonl": '{{"sessionId":"{0}"}}\n',
                       "claude/projects/-w/{0}/subagents/a.jsonl": '{{"sessionId":"{0}"}}\n'}),
    "codex": (UUIDS, {"codex/sessions/2026/11/29/rollout-2026-11-29T10-16-00-{0}.jsonl":
                      '{{"payload":{{"id":"{0}"}}}}\n'}),
    "gemini": ((UUIDS[0], "f1a226ce" + UUIDS[0][8:]),
               {"gemini/tmp/w/chats/session-2026-11-29T10-{1}.jsonl": '{{"sessionId":"{0}"}}\n'}),
    "pi": (UUIDS, {"pi/sessions/--w--/2026-11-29T10-15-52-032Z_{0}.jsonl":
                   '{{"type":"session","id":"{0}"}}\n'}),
    "qwen": (UUIDS, {"qwen/projects/-w/chats/{0}.jsonl": '{{"sessionId":"{0}"}}\n'}),
    "kimi": (["session_" + one for one in UUIDS],
             {"kimi/sessions/wd_w_c1787e9d18f3/{0}/state.json": '{{"id":"{0}"}}',
              "kimi/sessions/wd_w_c1787e9d18f3/{0}/agents/main/wire.jsonl": '{{"type":"a"}}\n'}),
    "copilot": (UUIDS, {"copilot/session-state/{0}/events.jsonl": '{{"sessionId":"{0}"}}\n',
                        "copilot/session-state/{0}/workspace.yaml": "id: {0}\ncwd: /w\n"}),
    "cline": (("1795951234310_xxzdu", "1795951234311_yyzdu"),
              {"cline/sessions/{0}/{0}.json": '{{"session_id":"{0}"}}',
               "cline/sessions/{0}/{0}.messages.json": '{{"sessionId":"{0}","messages":[]}}'}),
    "opencode": (("ses_5f1c0a2b3ffe", "ses_5f1c0a2b4ffe"),
                 {"opencode/storage/session/p/{0}.json": '{{"id":"{0}"}}',
                  "opencode/storage/message/{0}/msg_1.json": '{{"id":"msg_1","sessionID":"{0}"}}'}),
    "strands": (("conversation-a", "conversation-b"),
                {"session_{0}/session.json": '{{"session_id":"{0}"}}',
                 "session_{0}/agents/agent_x/messages/message_0.json": '{{"message_id":0}}'}),
    "strands+pi": (("conversation-a", "conversation-b"),
                   {"session/{0}/scopes/agent/x/snapshots/snapshot_latest.json": "{{}}"}),
    "strands+claude": (("conversation-a", "conversation-b"),
                       {"{0}/scopes/agent/x/snapshots/snapshot_latest.json":
                        '{{"scope":{{"sessionId":"{0}"}}}}'}),
    "harness": (("conversation-a", "conversation-b"),
                {"agents/x/sessions/{0}.jsonl": '{{"role":"user"}}\n',
                 "agents/x/sessions/{0}.log.jsonl": '{{"sessionId":"{0}"}}\n'}),
    "agentscope2": (("conversation-a", "conversation-b"),
                    {"user/{0}/agent_state.json": '{{"sessionId":"{0}"}}'}),
}


def test_a_fork_has_the_names_and_the_records_that_its_client_looks_for(box):
    for client, ((one, two), files) in FORKED.items():
        mount = box.mount(options=[f"layout={client}"])

        def expected(name, files=files):
            return {path.format(name, name[:8]): data.format(name).encode()
                    for path, data in files.items()}

        for path, data in expected(one).items():
            os.makedirs(os.path.dirname(mount.at(path)), exist_ok=True)
            write(mount.at(path), data)
        # A database is nobody's to rewrite.
        place = os.path.dirname(mount.at(sorted(expected(one))[0]))
        if client == "copilot":
            write(os.path.join(place, "session.db"), b"SQLite\0" + one.encode())
        (session,) = {name for name, in mount.sql(f"SELECT DISTINCT session_id FROM {TABLE}")}
        do(box, "fork", "--rewrite-id", mount.store, session,
           two[:8] if client == "gemini" else two)
        for name in (one, two):
            for path, data in expected(name).items():
                same(read(mount.at(path)), data, f"{client}: {path}")
        if client == "copilot":
            same(read(os.path.join(place.replace(one, two), "session.db")),
                 b"SQLite\0" + one.encode(), "a database")
        same(mount.sql(f"SELECT COUNT(DISTINCT session_id) FROM {TABLE}"), [(2,)], client)
        any_id = client not in ("claude", "codex", "copilot", "gemini", "pi")
        do(box, "fork", mount.store, session, "x", status=0 if any_id else 1)
        do(box, "gc", "--name=*", "--older-than=0s", mount.store)
        harness.eventually(lambda: not any(os.path.exists(mount.at(path)) for name in (one, two)
                                           for path in expected(name)), f"{client}: all of it goes")
        mount.check()
        mount.stop()


def test_a_fork_of_snapshots_in_the_store_itself_has_a_folder_of_its_own(box):
    mount = box.mount(options=["layout=strands"])
    below = "scopes/agent/op/snapshots/snapshot_latest.json"

    def has(name, data):
        same(read(mount.at(name, below)), data, name)

    for name in ("op", "scopes", "a b"):
        os.makedirs(os.path.dirname(mount.at(name, below)), mode=0o700)
        write(mount.at(name, below), b'{"is": "old"}')
    os.chmod(mount.at("op"), 0o711)
    write(mount.at("op/note.txt"), b"no part of it")
    first = moment()
    write(mount.at("op", below), b'{"is": "new"}')
    do(box, "fork", mount.store, "scopes:op", "new")
    do(box, "fork", f"--at={first}", mount.store, "scopes:op", "scopes:old")
    do(box, "fork", mount.store, "scopes:scopes", "other")
    do(box, "fork", mount.store, "scopes:a b", "b c")
    for name in ("op", "new"):
        has(name, b'{"is": "new"}')
        same(os.stat(mount.at(name)).st_mode & 0o777, 0o711, f"mode of {name}")
    for name in ("old", "scopes", "other", "a b", "b c"):
        has(name, b'{"is": "old"}')
    same(os.listdir(mount.at("new")), ["scopes"], "all of it")
    ids = sorted(name for name, in mount.sql(f"SELECT DISTINCT session_id FROM {TABLE}"))
    same(ids, [b"scopes:" + name for name in
               (b"a b", b"b c", b"new", b"old", b"op", b"other", b"scopes")], "sessions")
    # What is there is not replaced, and what would be another kind of session is none.
    for name in ("new", "session_x"):
        do(box, "fork", mount.store, "scopes:op", name, status=1)
    os.mkdir(mount.at("empty"))
    do(box, "fork", mount.store, "scopes:op", "empty")
    has("empty", b'{"is": "new"}')
    same(sorted(os.listdir(mount.path)),
         ["a b", "b c", "empty", "new", "old", "op", "other", "scopes"], "at the root")
    mount.check()


def bytes_of(store):
    return b"".join(read(name) for name in glob.glob(store + "*"))


def test_what_is_forgotten_is_nowhere(box):
    mount, path = box.session("demo")
    messages = os.path.join(path, "messages.jsonl")
    secret = b"the-secret-word"
    big = b'{"s": "%s", "fill": "%s"}\n' % (secret, b"x" * 30000)
    write(messages, LINES[0] + big + LINES[1])
    write(messages, LINES[0] + big.replace(b"fill", b"full") + LINES[1])
    write(os.path.join(path, "gone.json"), b'"%s"' % secret)
    os.unlink(os.path.join(path, "gone.json"))
    eventually(lambda: not mount.rows("demo", "gone"), "the rows go")
    do(box, "search", mount.store, "secret")
    same(secret in bytes_of(mount.store), True, "before")
    do(box, "forget", "--items=1", mount.store, "demo/messages")
    eventually(lambda: read(messages) == LINES[0] + LINES[1], "the item is gone")
    do(box, "forget", mount.store, "demo")
    mount.stop()
    same(secret in bytes_of(mount.store), False, "after")
    do(box, "check", mount.store)


def unseen_when_replaced(box, replace, name, kept=False):
    """By a file of another user's."""
    harness.need_root()
    mount = box.mount(options=("allow_other",))
    path = os.path.join(mount.path, "demo")
    mine, theirs = os.path.join(path, "a.json"), os.path.join(path, name)
    os.mkdir(path)
    write(mine, b'"mine"')
    os.chmod(mine, 0o600)
    write(theirs, b'"before"')
    first = moment()
    write(theirs, b'"theirs"')
    os.chown(theirs, 65534, 65534)
    replace(theirs, mine)
    same(read(mine), b'"theirs"', "replaced")
    past = then(mount, first, "a.json")
    same(read(past) if os.path.exists(past) else None, b'"before"' if kept else None, "the past")


def exchange(path, path_to):
    renameat2(path, path_to, EXCHANGE)


def test_nobody_sees_what_another_user_has_replaced(box):
    unseen_when_replaced(box, os.rename, "b.json.tmp")


def test_nobody_sees_what_another_user_has_exchanged(box):
    unseen_when_replaced(box, exchange, "b.json.tmp")


def test_a_document_that_is_exchanged_keeps_its_own_past(box):
    unseen_when_replaced(box, exchange, "b.json", kept=True)


def reads(user, path):
    rights = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"]
    return harness.tool(*rights, "--", "cat", path, check=False).stdout


def test_what_was_removed_is_its_owners_whoever_has_its_directory_now(box):
    """The one that it was in was closed to others, and went with it."""
    harness.need_root()
    harness.need_tool("setpriv")
    os.chmod(box.folder, 0o755)
    mount = box.mount(options=["allow_other"])
    owner, other = 1000, 65534
    files = {"a.jsonl": LINES[0], "d.json": b'"d"', "note.txt": b"text", "inner/b.json": b'"b"'}
    closed, older = mount.at("closed"), mount.at("older")
    for path in (closed, older):
        os.makedirs(os.path.join(path, "inner"))
    for name, data in files.items():
        write(os.path.join(closed, name), data)
    for folder, folders, names in os.walk(closed):
        for name in [""] + folders + names:
            os.chown(os.path.join(folder, name), owner, owner)
    os.chmod(closed, 0o700)
    first = moment()
    same([reads(other, os.path.join(closed, name)) for name in files], [b""] * 4, "closed")
    shutil.rmtree(closed)

    def judge(what):
        past = mount.at("closed", f"@at={first}")
        for name, data in files.items():
            path = os.path.join(past, name)
            eventually(lambda path=path: os.path.exists(path), f"{what}: {name}")
            same(reads(other, path), b"", f"{what}: {name}, another user")
            same(reads(owner, path), data, f"{what}: {name}, its owner")
            same(read(path), data, f"{what}: {name}, root")

    os.makedirs(os.path.join(closed, "inner"))
    os.chown(closed, other, other)
    judge("made anew by another user")
    shutil.rmtree(closed)
    os.rename(older, closed)
    judge("an older one in its place")
    os.chown(closed, owner, owner)
    os.chmod(closed, 0o755)
    judge("its owner's, open to all")


def test_a_store_of_the_format_before_is_brought_forward(box):
    mount, path = box.session("demo")
    write(os.path.join(path, "gone.json"), b'"g"')
    write(os.path.join(path, "messages.jsonl"), LINES[0])
    os.unlink(os.path.join(path, "gone.json"))
    eventually(lambda: not mount.rows("demo", "gone"), "the rows go")
    mount.stop()
    with contextlib.closing(sqlite3.connect(mount.store)) as base:
        base.executescript(
            "DROP TRIGGER sessfs_row_replace; DROP TABLE sessfs_past; PRAGMA user_version = 5;"
            "UPDATE sessfs_meta SET value = '5' WHERE key = 'schema_version';"
            "INSERT INTO sessfs_meta (key, value) VALUES ('setting:trash', '86400')")
        for name in ("before", "insert", "delete", "update"):
            base.execute(f"DROP TRIGGER sessfs_row_{name}")
            base.execute(f"CREATE TRIGGER sessfs_row_{name} AFTER DELETE ON {TABLE} "
                         "BEGIN SELECT 1; END")
    mount.start()
    do(box, "gc", "--undo", mount.store, "demo/gone.json")
    same(read(os.path.join(path, "gone.json")), b'"g"', "what was in the trash")
    same("history=1d" in do(box, "config", mount.store).stdout.decode(), True, "the setting")
    first = moment()
    write(os.path.join(path, "messages.jsonl"), LINES[1])
    same(read(then(mount, first, "messages.jsonl")), LINES[0], "it keeps")
    mount.check()


def test_without_a_history_nothing_is_kept(box):
    mount = box.mount(options=("history=0",))
    os.mkdir(os.path.join(mount.path, "demo"))
    write(os.path.join(mount.path, "demo/messages.jsonl"), LINES[0])
    write(os.path.join(mount.path, "demo/messages.jsonl"), LINES[1])
    same(mount.sql("SELECT count(*) FROM sessfs_past"), [(0,)], "what is kept")
    do(box, "config", mount.store, "history=0")
    mount.sql(f"DELETE FROM {TABLE}")
    same(mount.sql("SELECT count(*) FROM sessfs_past"), [(0,)], "of SQL")


def rows_of(mount, key):
    what = "substr(state_data, 3, 3)"
    return mount.sql(f"SELECT count(*), min({what}), max({what}) FROM {TABLE} "
                     "WHERE session_id = 'demo' AND state_key = ?", (key,))


def test_an_undo_and_a_fork_that_are_killed_are_whole_or_absent(box):
    mount, path = box.session("demo")
    keys = ("a", "b", "c")
    for key in keys:
        lines = b"".join(b'{"old": %d}\n' % n for n in range(3000))
        write(os.path.join(path, key + ".jsonl"), lines)
    first = moment()
    for key in keys:
        lines = b"".join(b'{"new": %d}\n' % n for n in range(2000))
        write(os.path.join(path, key + ".jsonl"), lines)
    mount.stop()
    old, new = {(3000, b"old", b"old")}, {(2000, b"new", b"new")}

    def state():
        return {rows_of(mount, key)[0] for key in keys}

    same(state(), new, "before")
    seen = 0
    for delay in (0.0, 0.01, 0.02, 0.03, 0.05, 0.08, 0.12, 0.2):
        process = subprocess.Popen([box.program, "undo", f"--to={first}", mount.store, "demo"],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(delay)
        process.kill()
        process.wait()
        assert state() in (old, new), f"half of an undo: {state()}"
        seen += state() == old
        if state() == old:
            do(box, "undo", mount.store, "demo")
            same(state(), new, "undone")
        name = f"fork{delay}"
        process = subprocess.Popen([box.program, "fork", mount.store, "demo", name],
                                   stderr=subprocess.DEVNULL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(delay)
        process.kill()
        process.wait()
        found = mount.sql(f"SELECT count(*) FROM {TABLE} WHERE session_id = ?", (name,))[0][0]
        assert found in (0, 6000), f"half of a fork: {found}"
    mount.start()
    mount.check()


class Model:
    """What is seen of a session at each moment, whatever changes it."""

    def __init__(self, box, seed, mounts):
        self.box = box
        self.random = random.Random(seed)
        self.mount, self.path = box.session("demo")
        self.paths = [self.path]
        for _ in range(mounts - 1):
            self.paths.append(os.path.join(box.mount(store=self.mount.store).path, "demo"))
        self.number = 0
        self.moments = []
        write(os.path.join(self.path, "a.jsonl"), LINES[0])
        write(os.path.join(self.path, "b.json"), b"0")

    def line(self):
        self.number += 1
        return b'{"i": %d}\n' % self.number

    def file(self, name):
        return os.path.join(self.random.choice(self.paths), name)

    def append(self):
        append(self.file("a.jsonl"), self.line())

    def save(self):
        lines = read(self.file("a.jsonl")).splitlines(True)
        for _ in range(self.random.randrange(3)):
            if lines:
                lines[self.random.randrange(len(lines))] = self.line()
        write(self.file("a.jsonl"), b"".join(lines[:self.random.randrange(8)]) + self.line())

    def save_by_rename(self):
        name = self.file("b.json")
        write(name + ".tmp", b"%d" % self.random.randrange(10**6))
        os.rename(name + ".tmp", name)

    def save_again(self):
        name = self.file("a.jsonl")
        os.unlink(name)
        write(name, self.line() + self.line())

    def compact(self):
        name = self.file("a.jsonl")
        if read(name).count(b"\n") < 4:
            return
        version = os.getxattr(name, "user.sessfs.version").decode()
        do(self.box, "compact", "--first=3", f"--if={version}", self.mount.store, "demo/a.jsonl",
           stdin=self.line())

    def sql(self):
        with contextlib.closing(self.mount.connect()) as base:
            count = f"SELECT count(*) FROM {TABLE} WHERE state_key = 'a'"
            count = base.execute(count).fetchone()[0]
            base.execute(f"DELETE FROM {TABLE} WHERE session_id = 'demo' AND state_key = 'a'")
            base.executemany(f"INSERT INTO {TABLE} (session_id, state_key, item_index, state_data) "
                             "VALUES ('demo', 'a', ?, ?)",
                             [(i, self.line().decode().strip()) for i in range(count + 1)])
            base.commit()
        time.sleep(0.12)

    def step(self):
        self.random.choice((self.append, self.append, self.save, self.save_by_rename,
                            self.save_again, self.compact, self.sql))()
        for path in self.paths:
            eventually(lambda path=path: tree_of(path) == tree_of(self.paths[0]), "mounts agree")
        self.moments.append((moment(), tree_of(self.path)))


def play(box, steps, mounts, seed):
    model = Model(box, seed, mounts)
    for _ in range(steps):
        model.step()
    for at, content in model.moments:
        for path in model.paths:
            same(tree_of(os.path.join(path, f"@at={at}")), content, f"seed {seed}, at {at}")
    for at, content in model.random.sample(model.moments, 4):
        before = tree_of(model.path)
        if content == before:
            continue
        do(box, "undo", f"--to={at}", model.mount.store, "demo")
        eventually(lambda: tree_of(model.path) == content, f"seed {seed}, undone to {at}")
        time.sleep(0.12)
        do(box, "undo", model.mount.store, "demo")
        eventually(lambda: tree_of(model.path) == before, f"seed {seed}, the undo undone")
        time.sleep(0.12)
    model.mount.check()


def test_random_changes_are_seen_at_each_moment_of_one_mount(box):
    play(box, 200 if os.environ.get("SESSFS_SOAK") else 25, 1, 1)


def test_random_changes_are_seen_at_each_moment_of_two_mounts(box):
    play(box, 200 if os.environ.get("SESSFS_SOAK") else 15, 2, 2)


if __name__ == "__main__":
    main(globals())
