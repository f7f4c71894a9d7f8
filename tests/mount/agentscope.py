# SPDX-License-Identifier: MIT
"""AgentScope's two stores of sessions, in files and in a database, played on the same sessions.

The statements are its own.  It knows nothing of a mount; a store of files is that of its Java
versions (clients.py), and what each has saved, the other has to find.

    table = agentscope.Table("mysql", ask)       # ask(sql, values...) returns rows
    table.create()                               # as the service does when it starts
    agentscope.play(box, [FileStore(mount.path, "alice"), DatabaseStore(table, "alice")], 400)
"""

import contextlib
import json
import os
import random
import shutil

import clients
from harness import TABLE, eventually, read, same

COLUMNS = "session_id, state_key, item_index, state_data"
WHERE = "WHERE session_id = ? AND state_key = ?"
hash_of = clients.AgentScope1.hash_of


def steps(count):
    return int(os.environ.get("SESSFS_STEPS", count))


# The table


class Table:
    """What the service says to a database; kind: sqlite, mysql or postgresql."""

    CREATE = {
        "mysql": [
            """CREATE TABLE IF NOT EXISTS {0} (session_id VARCHAR(255) NOT NULL,
            state_key VARCHAR(255) NOT NULL, item_index INT NOT NULL DEFAULT 0,
            state_data LONGTEXT NOT NULL, created_at DATETIME DEFAULT CURRENT_TIMESTAMP,
            updated_at DATETIME DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,
            PRIMARY KEY (session_id, state_key, item_index))
            DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_ci"""
        ],
        "postgresql": [
            "CREATE SCHEMA IF NOT EXISTS agentscope",
            """CREATE TABLE IF NOT EXISTS {0} (session_id TEXT NOT NULL,
            state_key TEXT NOT NULL, item_index INT NOT NULL DEFAULT 0, state_data TEXT NOT NULL,
            created_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP,
            updated_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP,
            PRIMARY KEY (session_id, state_key, item_index))""",
        ],
    }
    PUT = {
        "sqlite": "ON CONFLICT (session_id, state_key, item_index) DO UPDATE SET"
                  " state_data = excluded.state_data",
        "mysql": "ON DUPLICATE KEY UPDATE state_data = VALUES(state_data)",
        "postgresql": "ON CONFLICT (session_id, state_key, item_index) DO UPDATE SET"
                      " state_data = EXCLUDED.state_data, updated_at = CURRENT_TIMESTAMP",
    }
    BEGIN = {"sqlite": "BEGIN IMMEDIATE", "mysql": "START TRANSACTION", "postgresql": "BEGIN"}

    def __init__(self, kind, ask, name=TABLE, versions=False):
        self.kind = kind
        self.name = f"agentscope.{name}" if kind == "postgresql" else name
        self.versions = versions  # the main branch of 2.x has a number for each single
        self.answer = ask

    def ask(self, sql, *values):
        sql = sql.replace("{0}", self.name)
        if self.kind == "postgresql":
            for number in range(len(values)):
                sql = sql.replace("?", f"${number + 1}", 1)
        return self.answer(sql, *values)

    def create(self):
        for statement in self.CREATE[self.kind]:
            self.ask(statement)
        if self.versions:
            self.ask("ALTER TABLE {0} ADD COLUMN version BIGINT NOT NULL DEFAULT 0")

    def put(self, session, key, index, data):
        self.ask(f"INSERT INTO {{0}} ({COLUMNS}) VALUES (?, ?, ?, ?) {self.PUT[self.kind]}",
                 session, key, index, data)

    def rows(self, session, key):
        return [row[0] for row in self.ask(
            f"SELECT state_data FROM {{0}} {WHERE} ORDER BY item_index", session, key)]


def as_bytes(value):
    return value if isinstance(value, bytes) else str(value).encode()


# The stores


class FileStore(clients.AgentScope2):
    """The file store of AgentScope Java 2.x, for one user."""

    def __init__(self, root, user):
        super().__init__(root, self.folder_of(user))

    def place(self, session):
        return self.at(self.user, self.folder_of(session))

    def load_single(self, session, key):
        try:
            return json.loads(read(os.path.join(self.place(session), key + ".json")))
        except FileNotFoundError:
            return None

    def load_all(self, session, key):
        try:
            data = self.read_to_size(os.path.join(self.place(session), key + ".jsonl"))
        except FileNotFoundError:
            return []
        return [json.loads(line) for line in data.splitlines() if line.strip()]

    def load_hash(self, session, key):
        try:
            return read(os.path.join(self.place(session), key + ".hash"))
        except FileNotFoundError:
            return None

    def rewrite_list(self, session, key, items):
        self.loaded.add(os.path.join(self.place(session), key + ".jsonl"))
        self.save_list(session, key, items)

    def sessions(self):
        try:
            return sorted(os.listdir(self.at(self.user)))
        except FileNotFoundError:
            return []

    def delete_session(self, session):
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(self.place(session))


class FileStore1(FileStore):
    """That of 1.x: no users, and saves in place."""

    def __init__(self, root):
        clients.AgentScope1.__init__(self, root)

    def place(self, session):
        return self.at(self.folder_of(session))

    def sessions(self):
        return sorted(os.listdir(self.root))

    open_session = clients.AgentScope1.open_session
    save = clients.AgentScope1.save
    save_list = clients.AgentScope1.save_list
    delete_session = clients.AgentScope1.delete_session


class DatabaseStore:
    """The database store on the same rows, for one user; without one it is that of 1.x."""

    def __init__(self, table, user=None):
        self.table = table
        self.start = f"{user}:" if user else ""

    def id_of(self, session):
        return self.start + session

    def save_single(self, session, key, value):
        data = json.dumps(value, ensure_ascii=False)
        version = self.version_of(session, key) if self.table.versions else None
        if version is None:
            self.table.put(self.id_of(session), key, 0, data)
        else:
            same(self.save_if(session, key, value, version), True, "a save, nobody else saves")

    def version_of(self, session, key):
        rows = self.table.ask(f"SELECT version FROM {{0}} {WHERE} AND item_index = 0",
                              self.id_of(session), key)
        return int(rows[0][0]) if rows else None

    def save_if(self, session, key, value, version):
        """Whether the single has this version, and so was saved."""
        data = json.dumps(value, ensure_ascii=False)
        self.table.ask("UPDATE {0} SET state_data = ?, version = version + 1 "
                       f"{WHERE} AND item_index = 0 AND version = ?", data, self.id_of(session),
                       key, version)
        return self.load_single(session, key) == value

    def save_list(self, session, key, items):
        if not items:
            return
        place = self.id_of(session), key
        self.table.ask(self.table.BEGIN[self.table.kind])
        hashes = self.table.rows(place[0], key + ":_hash")
        count = self.table.ask(f"SELECT MAX(item_index) FROM {{0}} {WHERE}", *place)[0][0]
        count = 0 if count is None else int(count) + 1
        known = as_bytes(hashes[0]) if hashes else None
        if count > len(items) or (count and known != hash_of(items[:count])):
            self.table.ask(f"DELETE FROM {{0}} {WHERE}", *place)
            count = 0
        for index in range(count, len(items)):
            self.table.ask(f"INSERT INTO {{0}} ({COLUMNS}) VALUES (?, ?, ?, ?)", *place, index,
                           json.dumps(items[index], ensure_ascii=False))
        self.table.put(place[0], key + ":_hash", 0, hash_of(items).decode())
        self.table.ask("COMMIT")

    rewrite_list = save_list

    def load_single(self, session, key):
        rows = self.table.ask(f"SELECT state_data FROM {{0}} {WHERE} AND item_index = 0",
                              self.id_of(session), key)
        return json.loads(rows[0][0]) if rows else None

    def load_all(self, session, key):
        return [json.loads(data) for data in self.table.rows(self.id_of(session), key)]

    def load_hash(self, session, key):
        rows = self.table.rows(self.id_of(session), key + ":_hash")
        return as_bytes(rows[0]) if rows else None

    def sessions(self):
        rows = self.table.ask("SELECT DISTINCT session_id FROM {0}")
        found = [as_bytes(row[0]).decode() for row in rows]
        return sorted(name[len(self.start):] for name in found if name.startswith(self.start))

    def delete_session(self, session):
        self.table.ask("DELETE FROM {0} WHERE session_id = ?", self.id_of(session))


# The play


SINGLES = "agent_state", "planNotebook_state"
LISTS = "memory_messages", "sub/events"
SESSIONS = "s1", "s2"


class Play:
    """Stores in random turns, and what all of them must have."""

    def __init__(self, stores, seed):
        self.stores = stores
        self.random = random.Random(seed)
        self.has = {}  # key: value, of each session
        self.hash = {}  # of each session and list
        self.read = {}  # version and value of singles, as a service has saved them
        self.claimed = [0, 0]  # that were refused, and that were not
        self.count = 0

    def item(self):
        self.count += 1
        return {"n": self.count, "text": "会 " + "x" * self.random.choice((1, 30, 9000))}

    def step(self):
        store = self.random.choice(self.stores)
        session = self.random.choice(("s1", "s1", "s1", "s2"))
        what = self.random.choice((self.single, self.longer, self.longer, self.other, self.shorter,
                                   self.deleted))
        if what == self.deleted and self.random.random() < 0.7:
            what = self.single
        what(store, session)
        return f"{type(store).__name__} {what.__name__} {session}"

    def single(self, store, session):
        key = self.random.choice(SINGLES)
        value = self.item()
        versions = isinstance(store, DatabaseStore) and store.table.versions
        if versions and (session, key) in self.read:
            self.claim(store, session, key)
        store.save_single(session, key, value)
        self.has.setdefault(session, {})[key] = value
        if versions:
            self.read[session, key] = store.version_of(session, key), value

    def claim(self, store, session, key):
        """Who saves what he has read, and somebody else has saved meanwhile, saves nothing."""
        version, value = self.read[session, key]
        saved = store.save_if(session, key, self.item(), version)
        same(saved, value == self.has.get(session, {}).get(key), "a save of what was read")
        self.claimed[saved] += 1

    def save(self, store, session, change, save):
        key = self.random.choice(LISTS)
        items = change(list(self.has.get(session, {}).get(key, [])))
        if items and isinstance(store, FileStore):
            place = os.path.join(store.open_session(session), key)
            os.makedirs(os.path.dirname(place), exist_ok=True)
        if items:
            getattr(store, save)(session, key, items)
            self.has.setdefault(session, {})[key] = items
            self.hash[session, key] = hash_of(items)

    def longer(self, store, session):
        more = [self.item() for _ in range(self.random.randrange(1, 4))]
        self.save(store, session, lambda items: items + more,
                  self.random.choice(("save_list", "rewrite_list")))

    def other(self, store, session):
        """One that the hash is made of: no other difference would be noticed."""
        def change(items):
            if items:
                items[self.random.choice(clients.AgentScope1.sampled(len(items)))] = self.item()
            return items
        self.save(store, session, change, "rewrite_list")

    def shorter(self, store, session):
        self.save(store, session, lambda items: items[:len(items) // 2], "rewrite_list")

    def deleted(self, store, session):
        store.delete_session(session)
        self.has.pop(session, None)
        for key in SINGLES:
            self.read.pop((session, key), None)  # a new one begins with version 0 again
        for key in LISTS:
            self.hash.pop((session, key), None)

    def differs(self):
        """What one of the stores has otherwise, or None."""
        for number, store in enumerate(self.stores):
            name = f"{type(store).__name__} {number}"
            if store.sessions() != sorted(self.has):
                return name, "sessions", store.sessions(), sorted(self.has)
            for session in SESSIONS:
                values = self.has.get(session, {})
                for key in SINGLES:
                    if store.load_single(session, key) != values.get(key):
                        return name, session, key
                for key in LISTS:
                    if store.load_all(session, key) != values.get(key, []):
                        return name, session, key
                    if store.load_hash(session, key) != self.hash.get((session, key)):
                        return name, session, key, "hash"
        return None


def play(box, stores, count):
    """Steps of a play, each of which all stores have to show."""
    seed = int(os.environ.get("SESSFS_SEED", "20260101"))
    box.note(f"seed {seed}, {count} steps")
    game = Play(stores, seed)
    # What SQL has changed is seen a moment later, and a file that it deletes may be empty before.
    for step in range(count):
        found = []
        said = "before anything"

        def agrees():
            try:
                found[:] = [game.differs()]
            except ValueError as error:
                found[:] = [error]
            return found == [None]

        try:
            said = game.step()
            eventually(agrees, "all have the same")
        except (AssertionError, OSError) as error:
            raise AssertionError(f"seed {seed}, step {step}, {said}: {found} {error}") from error
    return game
