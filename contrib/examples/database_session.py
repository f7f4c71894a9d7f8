# SPDX-License-Identifier: MIT
"""A service that keeps the same sessions by SQL, with nothing but Python's own sqlite3.

    sessions = DatabaseSession("~/.local/share/sessfs/store.db")
    sessions.save_list("demo", "messages", [{"role": "user", "content": "hello"}])
    sessions.get_list("demo", "messages")

It has the operations of AgentScope's database session on the table of the rows in a store, so that
an agent with files and a service with SQL share one session: what the service saves is in the files
within a tenth of a second, what the agent writes is in the rows when its call returns.
(AgentScope's own MysqlSession speaks the dialect of MySQL and cannot open a store.)

A program that keeps a list in memory must load it again before it changes and saves it, or the last
save wins; update() does both in one transaction.
"""

import json
import os
import sqlite3
from contextlib import closing, contextmanager
from zlib import crc32

KEY = "session_id = ? AND state_key = ?"
LIST = f"SELECT state_data FROM agentscope_sessions WHERE {KEY} ORDER BY item_index"
CUT = f"DELETE FROM agentscope_sessions WHERE {KEY} AND item_index >= ?"
PUT = """
    INSERT INTO agentscope_sessions (session_id, state_key, item_index, state_data)
    VALUES (?, ?, ?, ?)
    ON CONFLICT DO UPDATE SET state_data = excluded.state_data
    WHERE state_data IS NOT excluded.state_data
"""


class DatabaseSession:
    def __init__(self, store):
        self.store = os.path.expanduser(store)

    @contextmanager
    def transaction(self):
        """One transaction that may write from its start, as BEGIN IMMEDIATE makes sure."""
        with closing(sqlite3.connect(self.store, timeout=20, isolation_level=None)) as base:
            base.execute("BEGIN IMMEDIATE")
            try:
                yield base
                base.execute("COMMIT")
            except BaseException:
                base.execute("ROLLBACK")
                raise

    def read(self, query, values):
        with closing(sqlite3.connect(self.store, timeout=20)) as base:
            return [row[0] for row in base.execute(query, values)]

    def save(self, session, key, value):
        """A single state: the row with index 0, in a mount the file KEY.json."""
        with self.transaction() as base:
            base.execute(PUT, (session, key, 0, json.dumps(value, ensure_ascii=False)))

    def save_list(self, session, key, items):
        """A list: one row an item, in a mount KEY.jsonl.  Rows that do not differ stay."""
        with self.transaction() as base:
            self._put_list(base, session, key, items)

    def update(self, session, key, change):
        """Loads a list, changes it, and saves it; nobody else writes in between."""
        with self.transaction() as base:
            items = [json.loads(text) for text in self._texts(base, session, key)]
            change(items)
            self._put_list(base, session, key, items)

    @staticmethod
    def _texts(base, session, key):
        return [row[0] for row in base.execute(LIST, (session, key))]

    def _put_list(self, base, session, key, items):
        """An item that means the same as before keeps its text, as another program wrote it."""
        texts = self._texts(base, session, key)
        for index, item in enumerate(items):
            if index >= len(texts) or json.loads(texts[index]) != item:
                text = json.dumps(item, ensure_ascii=False)
                base.execute(PUT, (session, key, index, text))
        base.execute(CUT, (session, key, len(items)))
        # It says that this is a list even when it has one item only.  AgentScope computes another
        # hash, sees that the list is not as it left it, and saves all of it the next time.
        base.execute(PUT, (session, key + ":_hash", 0, "%08x" % crc32(repr(items).encode())))

    def get(self, session, key):
        query = f"SELECT state_data FROM agentscope_sessions WHERE {KEY} AND item_index = 0"
        found = self.read(query, (session, key))
        return json.loads(found[0]) if found else None

    def get_list(self, session, key):
        return [json.loads(text) for text in self.read(LIST, (session, key))]

    def sessions(self):
        return self.read("SELECT DISTINCT session_id FROM agentscope_sessions ORDER BY 1", ())

    def delete(self, session):
        with self.transaction() as base:
            base.execute("DELETE FROM agentscope_sessions WHERE session_id = ?", (session,))
