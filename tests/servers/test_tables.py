#!/usr/bin/python3 -B
# SPDX-License-Identifier: MIT
"""Tables as services may have made and filled them: rows at the limits of columns, ids that the
server takes for one, bytes that it cannot hold.  Each has a plain answer, and nothing is lost."""

import errno
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import servers  # noqa: E402
from servers import harness  # noqa: E402
from harness import append, errno_of, eventually, read, same, same_trees  # noqa: E402
from harness import soak, tree, write  # noqa: E402
from test_stores import own, refused as refuses_url, start  # noqa: E402

COLUMNS = """session_id VARCHAR(255) NOT NULL, state_key VARCHAR(255) NOT NULL,
item_index INT NOT NULL DEFAULT 0, state_data {data}, created_at {time} DEFAULT CURRENT_TIMESTAMP,
updated_at {time} DEFAULT CURRENT_TIMESTAMP{update},
PRIMARY KEY (session_id, state_key, item_index)"""
# As AgentScope makes it.
TABLES = {
    "mysql": (f"CREATE TABLE agentscope_sessions ({COLUMNS}) "
              "DEFAULT CHARACTER SET {text}",
              {"data": "LONGTEXT NOT NULL", "time": "DATETIME",
               "update": " ON UPDATE CURRENT_TIMESTAMP",
               "text": "utf8mb4 COLLATE utf8mb4_unicode_ci"}),
    "postgresql": (f"CREATE SCHEMA agentscope; CREATE TABLE agentscope.agentscope_sessions "
                   f"({COLUMNS})",
                   {"data": "TEXT NOT NULL", "time": "TIMESTAMP", "update": ""}),
}
VALUES = {"mysql": "(?, ?, ?, ?)", "postgresql": "($1, $2, $3, $4)"}
LONGEST = "n" * 255


class Table:
    def __init__(self, box, kind, **changes):
        self.kind = kind
        self.server = start(box, kind)
        self.base = self.server.database()
        statement, words = TABLES[kind]
        with self.base.connect() as client:
            client.query(statement.format(**{**words, **changes}))

    def put(self, *rows):
        with self.base.connect() as client:
            for row in rows:
                client.query("INSERT INTO agentscope_sessions (session_id, state_key, item_index, "
                             "state_data) VALUES " + VALUES[self.kind], *row)

    def rows(self):
        with self.base.connect() as client:
            return client.query("SELECT session_id, state_key, item_index, state_data FROM "
                                "agentscope_sessions ORDER BY 1, 2, 3")


def stays(mount):
    """The tree is the same when it is mounted again."""
    before = tree(mount.path)
    mount.remount()
    same_trees(before, tree(mount.path), "mounted again: ")


def has_rows_at_its_limits(box, kind):
    table = Table(box, kind)
    last = 2**31 - 1
    table.put(("s", "l", -(2**31), "1"), ("s", "l", last, "2"), ("s", "gap", 5, "1"),
              ("s", "gap", 9, "2"), (LONGEST, "k", 0, "{}"), ("s", LONGEST, 0, "[0]"),
              ("é" * 255, "k", 0, "{}"), ("", "k", 0, "{}"), ("s", "", 0, "[1]"),
              ("..", "k", 0, "{}"), ("x/y", "k", 0, "3"), ("s", "text", 0, "no JSON\nat all"),
              ("s", "none", 0, ""), ("s", "lines", 0, "[1,\n2]"), ("s", "lines", 1, "3"))
    before = table.rows()
    mount = box.mount(store=table.base.url)
    names = ["%", "%2E%2E", LONGEST, "s", "x%2Fy"]
    found = os.listdir(mount.path)
    same(sorted(set(found) & set(names)), names, "sessions")
    same(len(found), 6, "of which one cannot be named by its letters")
    same(read(mount.at("s/l.jsonl")), b"1\n2\n", "from the first index to the last")
    same(read(mount.at("s/gap.jsonl")), b"1\n2\n", "with a gap")
    same(read(mount.at("s/text.json")), b"no JSON\nat all", "what is no JSON")
    same(read(mount.at("s/none.json")), b"", "an empty row")
    same(read(mount.at("s/lines.jsonl")), b"[1, 2]\n3\n", "a row of two lines")
    same(read(mount.at("s/%.json")), b"[1]", "a key without letters")
    same(read(mount.at("x%2Fy/k.json")), b"3", "a session with a slash")
    same(errno_of(append, mount.at("s/l.jsonl"), b"3\n"), errno.EFBIG, "behind the last index")
    same(read(mount.at("s/l.jsonl")), b"1\n2\n", "which changes nothing")
    same(table.rows(), before, "rows that were only read")
    append(mount.at("s/gap.jsonl"), b"3\n")
    same(read(mount.at("s/gap.jsonl")), b"1\n2\n3\n", "with a gap, appended to")
    os.makedirs(mount.at("s", "d" * 200, "e" * 200))
    same(errno_of(write, mount.at("s", "d" * 200, "e" * 200, "k.json"), b"1"),
         errno.ENAMETOOLONG, "a key that is too long")
    same(len(table.rows()), len(before) + 1, "rows")
    stays(mount)


def test_rows_at_the_limits_of_columns_of_mariadb(box):
    has_rows_at_its_limits(box, "mysql")


def test_rows_at_the_limits_of_columns_of_postgresql(box):
    has_rows_at_its_limits(box, "postgresql")


def keeps_bytes(box, kind):
    """What is no text is kept beside the rows, and the rows are what can be one."""
    table = Table(box, kind)
    mount = box.mount(store=table.base.url)
    os.mkdir(mount.at("s"))
    wrong = {"k.json": b'"\xff"', "n.json": b'"\0"', "h.hash": b"\xff\0",
             "l.jsonl": b'"\xff"\n"\\ud800"\n"\\u0000"\n"\0"\n1\n'}
    for name, data in wrong.items():
        write(mount.at("s", name), data)
    root = os.fsencode(mount.path)
    os.mkdir(root + b"/\xff\xfe")
    write(root + b"/\xff\xfe/k.json", b"1")
    write(root + b"/s/\xff.json", b"2")
    append(root + b"/s/\xff.jsonl", b"3\n")
    for _ in range(2):
        for name, data in wrong.items():
            same(read(mount.at("s", name)), data, name)
        same(read(root + b"/\xff\xfe/k.json"), b"1", "in a session whose name is no text")
        same(read(root + b"/s/\xff.json") + read(root + b"/s/\xff.jsonl"), b"23\n", "keys")
        stays(mount)
    rows = [row[3] for row in table.rows() if row[:2] == (b"s", b"l")]
    same(rows, [b'"\\ud800"', b'"\\u0000"', b"1"], "rows of the list")
    for verb in ("sessions", "stats", "check"):
        done = box.sessfs(verb, table.base.url)
        same(done.returncode, 0, f"{verb}: {done.stderr.decode()}")


def test_what_is_no_text_is_kept_on_mariadb(box):
    keeps_bytes(box, "mysql")


def test_what_is_no_text_is_kept_on_postgresql(box):
    keeps_bytes(box, "postgresql")


def has_nulls(box, kind, data):
    table = Table(box, kind, data=data)
    table.put(("s", "k", 0, None), ("s", "l", 0, "1"), ("s", "l", 1, None), ("s", "l", 2, "3"))
    mount = box.mount(store=table.base.url)
    same((read(mount.at("s/k.json")), read(mount.at("s/l.jsonl"))), (b"", b"1\n\n3\n"), "NULL")
    append(mount.at("s/l.jsonl"), b"4\n")
    write(mount.at("s/k.json"), b"5")
    same((read(mount.at("s/k.json")), read(mount.at("s/l.jsonl"))), (b"5", b"1\n\n3\n4\n"), "then")
    stays(mount)


def test_a_row_of_mariadb_that_is_null_is_empty(box):
    has_nulls(box, "mysql", "LONGTEXT")


def test_a_row_of_postgresql_that_is_null_is_empty(box):
    has_nulls(box, "postgresql", "TEXT")


def has_room_for_little(box, kind, data):
    table = Table(box, kind, data=data)
    mount = box.mount(store=table.base.url)
    os.mkdir(mount.at("s"))
    large = b'"' + b"x" * 70000 + b'"'
    append(mount.at("s/l.jsonl"), b"1\n")
    write(mount.at("s/k.json"), b"1")
    same(errno_of(append, mount.at("s/l.jsonl"), large + b"\n"), errno.EFBIG, "a line")
    same(errno_of(write, mount.at("s/k.json"), large), errno.EFBIG, "a document")
    same((read(mount.at("s/l.jsonl")), read(mount.at("s/k.json"))), (b"1\n", b"1"), "files")
    append(mount.at("s/l.jsonl"), b"2\n")
    write(mount.at("s/plain.txt"), large)
    stays(mount)


def test_what_a_column_of_mariadb_has_no_room_for_is_too_large(box):
    has_room_for_little(box, "mysql", "TEXT NOT NULL")


def test_what_a_column_of_postgresql_has_no_room_for_is_too_large(box):
    has_room_for_little(box, "postgresql", "VARCHAR(1000) NOT NULL")


def refused(box, table, *parts):
    for _ in range(2):
        done = box.sessfs("mount", table.base.url, box.new_folder("mnt"))
        said = done.stderr.decode()
        same(done.returncode, 1, f"status: {said}")
        for part in parts:
            assert part in said, f"{part!r} is not in {said!r}"
    with table.base.connect() as client:
        tables = client.query("SELECT table_name FROM information_schema.tables WHERE "
                              "table_name LIKE 'sessfs%'")
    same(tables, [], "what a mount that was refused has made")


def test_tables_of_mariadb_that_cannot_hold_all_text_are_refused(box):
    for text in ("latin1", "utf8mb3"):
        refused(box, Table(box, "mysql", text=text), "agentscope_sessions", text, "utf8mb4")


def test_a_table_of_postgresql_whose_rows_are_no_text_is_refused(box):
    refused(box, Table(box, "postgresql", data="JSONB NOT NULL"), "state_data", "jsonb")


def test_databases_of_postgresql_in_other_encodings_are_refused(box):
    server = start(box, "postgresql")
    for encoding in ("LATIN1", "SQL_ASCII"):
        base = server.database()
        with server.connect() as admin:
            admin.query(f"DROP DATABASE {base.name}")
            admin.query(f"CREATE DATABASE {base.name} OWNER {base.user} ENCODING '{encoding}' "
                        "TEMPLATE template0 LOCALE 'C'")
        done = box.sessfs("mount", base.url, box.new_folder("mnt"))
        said = done.stderr.decode()
        same(done.returncode, 1, f"status: {said}")
        assert encoding in said and "UTF8" in said, said


def test_of_ids_that_are_one_to_mariadb_each_has_its_rows(box):
    table = Table(box, "mysql")
    table.put(("s", "l", 0, "1"), ("s", "l", 1, "2"), ("s", "L", 7, '"other"'), ("S", "l", 9, "[]"),
              ("s", "doc", 0, "1"))
    mount = box.mount(store=table.base.url)
    expected = {"s/l.jsonl": b"1\n2\n", "s/L.jsonl": b'"other"\n', "S/l.jsonl": b"[]\n"}
    for name, data in expected.items():
        same((read(mount.at(name)), os.stat(mount.at(name)).st_size), (data, len(data)), name)
    before = table.rows()
    os.mkdir(mount.at("ś"))
    for name in ("s/l .jsonl", "s/ĺ.jsonl", "ś/l.jsonl"):
        same(errno_of(append, mount.at(name), b"3\n"), errno.EEXIST, name)
        same(read(mount.at(name)), b"", f"what {name} has then")
    same(errno_of(write, mount.at("ś/doc.json"), b"3"), errno.EEXIST, "a document")
    same(table.rows(), before, "rows")
    stays(mount)


def test_a_list_above_what_mariadb_takes_at_once_is_saved(box):
    base = own(box, "mysql", extra=["--max-allowed-packet=1M"]).database()
    mount = box.mount(store=base.url_with(timeout=3))
    os.mkdir(mount.at("s"))
    data = b"".join(b'"%06d%s"\n' % (i, b"x" * 1000) for i in range(3000))
    write(mount.at("s/l.jsonl"), data)
    stays(mount)
    same(read(mount.at("s/l.jsonl")) == data, True, "the list")


@soak
def test_rows_of_more_numbers_than_mariadb_takes_at_once_are_taken_in(box):
    base = own(box, "mysql", extra=["--max-allowed-packet=1M"]).database()
    mount = box.mount(store=base.url_with(timeout=3))
    os.mkdir(mount.at("s"))
    write(mount.at("s/l.jsonl"), b"0\n")
    base.connect().query(
        "INSERT INTO agentscope_sessions (session_id, state_key, item_index, state_data) "
        "SELECT 's', 'l', seq, seq FROM seq_1_to_200000"
    )
    data = b"".join(b"%d\n" % i for i in range(200001))
    eventually(lambda: read(mount.at("s/l.jsonl")) == data, "the rows are there")
    stays(mount)
    waiting = base.connect().query("SELECT COUNT(*) FROM sessfs_change")
    same(int(waiting[0][0]), 0, "nothing waits")


TRIGGERS = {
    "mysql": "DROP TRIGGER sessfs_row_insert",
    "postgresql": "DROP TRIGGER sessfs_row_insert ON agentscope_sessions",
}
SWAPS = {
    "mysql": ("CREATE TABLE other LIKE agentscope_sessions",
              "RENAME TABLE agentscope_sessions TO old, other TO agentscope_sessions"),
    "postgresql": ("CREATE TABLE agentscope.other (LIKE agentscope.agentscope_sessions INCLUDING "
                   "ALL)",
                   "BEGIN; ALTER TABLE agentscope.agentscope_sessions RENAME TO old; ALTER TABLE "
                   "agentscope.other RENAME TO agentscope_sessions; COMMIT"),
}


def names(mount):
    return sorted(os.path.join(os.path.basename(folder), name)
                  for folder, _, found in os.walk(mount.path) for name in found)


def shows(mount, expected, what):
    eventually(lambda: names(mount) == sorted(expected), f"{what}: {expected}")


WAITING = {
    "mysql": "SELECT COUNT(*) FROM information_schema.processlist WHERE db = DATABASE() AND "
             "(state LIKE 'Waiting for % metadata lock' OR state = 'User lock')",
    "postgresql": "SELECT COUNT(*) FROM pg_stat_activity WHERE datname = current_database() AND "
                  "wait_event_type = 'Lock'",
}


def have_one_maker(box, kind):
    """Triggers that are gone: two mounts find that at once."""
    table = Table(box, kind)
    mounts = [box.mount(store=table.base.url) for _ in range(2)]
    for round_ in range(3):
        with table.base.connect() as holder, table.base.admin() as other:
            other.query(TRIGGERS[kind].replace(" ON agent", " ON agentscope.agent"))
            holder.query("BEGIN")
            holder.query("SELECT COUNT(*) FROM agentscope_sessions")
            eventually(lambda: int(other.query(WAITING[kind])[0][0]) >= 2, "both are about to")
            holder.query("COMMIT")
        # What comes while there is none is shown, too.
        table.put(("s", f"k{round_}", 0, "1"))
        for mount in mounts:
            shows(mount, [f"s/k{i}.json" for i in range(round_ + 1)], "shown")
    table.put(("s", "last", 0, "1"))
    for mount in mounts:
        shows(mount, ["s/k0.json", "s/k1.json", "s/k2.json", "s/last.json"], "and later ones")
        assert "after the next mount" not in mount.log(), mount.log()
        mount.stop()


def test_triggers_that_two_mounts_make_on_mariadb_are_made_once(box):
    have_one_maker(box, "mysql")


def test_triggers_that_two_mounts_make_on_postgresql_are_made_once(box):
    have_one_maker(box, "postgresql")


@soak
def test_what_mariadb_locks_for_long_is_not_made(box):
    """By somebody else who makes tables."""
    table = Table(box, "mysql")
    with table.base.connect() as holder:
        holder.query("SELECT GET_LOCK(CONCAT('sessfs', MD5(DATABASE())), 0)")
        refuses_url(box, table.base.url, "for twenty seconds")
        found = holder.query("SHOW TABLES")
        same([row[0] for row in found], [b"agentscope_sessions"], "tables")
    box.mount(store=table.base.url).stop()


def is_changed_as_a_whole(box, kind):
    """By statements of which no row tells."""
    table = Table(box, kind)
    table.put(("s", "a", 0, "1"), ("t", "b", 0, "2"))
    mount = box.mount(store=table.base.url)
    shows(mount, ["s/a.json", "t/b.json"], "before")
    with table.base.connect() as client:
        client.query("TRUNCATE TABLE agentscope_sessions")
        table.put(("s", "c", 0, "3"))
        shows(mount, ["s/c.json"], "emptied, and filled again")
        client.query("TRUNCATE TABLE agentscope_sessions")
        shows(mount, [], "emptied")
        client.query(TRIGGERS[kind])
        table.put(("s", "d", 0, "4"))
        shows(mount, ["s/d.json"], "without a trigger")
        table.put(("s", "e", 0, "5"))
        shows(mount, ["s/d.json", "s/e.json"], "with the trigger again")
        client.query(SWAPS[kind][0])
        client.query("INSERT INTO other (session_id, state_key, item_index, state_data) VALUES "
                     "('u', 'f', 0, '6')")
        client.query(SWAPS[kind][1])
        shows(mount, ["u/f.json"], "another table")
        table.put(("u", "g", 0, "7"))
        shows(mount, ["u/f.json", "u/g.json"], "and what is added to it")
        mount.stop()
        client.query("TRUNCATE TABLE agentscope_sessions")
        mount.start()
        shows(mount, [], "emptied while there was no mount")
    mount.check()


def test_a_table_of_mariadb_may_be_changed_as_a_whole(box):
    is_changed_as_a_whole(box, "mysql")


def test_a_table_of_postgresql_may_be_changed_as_a_whole(box):
    is_changed_as_a_whole(box, "postgresql")


def test_tables_of_mariadb_without_transactions_are_refused(box):
    server = start(box, "mysql")
    statement, words = TABLES["mysql"]
    for engine in ("MyISAM", "Aria"):
        base = server.database()
        with base.connect() as client:
            client.query((statement.format(**words) + f" ENGINE = {engine}").replace("255", "80"))
            refuses_url(box, base.url, f"engine {engine}", "ENGINE = InnoDB")
            same(client.query("SHOW TABLES"), [(b"agentscope_sessions",)], "tables")
            client.query("ALTER TABLE agentscope_sessions ENGINE = InnoDB")
        box.mount(store=base.url)


if __name__ == "__main__":
    servers.main(globals())
