#!/usr/bin/python3 -B
# SPDX-License-Identifier: MIT
"""Which path is which session, in stores that have another layout than sessions at the root."""

import contextlib
import errno
import json
import os
import random
import shutil
import sqlite3
import stat
import sys
import tarfile
import time

import agentscope
import harness
from agentscope import FileStore
from harness import TABLE, append, errno_of, eventually, read, same, same_trees, tool, tree, write
from test_config import config, not_mounted
from test_keep import do, refuses

UUID = "6f0d27b1-6f3c-4d0c-9a39-0d4ce2ffb0a9"


def layout(name):
    return [f"layout={name}"]


def keys(mount):
    return [(session.decode(), key.decode()) for session, key in mount.keys()]


def files_below(root):
    return {name: {**entry, "owner": None, "mode": None} for name, entry in tree(root).items()
            if name}


def bytes_below(root, part="."):
    return {name: entry["bytes"] for name, entry in tree(root).items()
            if entry["type"] == "file" and part in name}


# AgentScope 2.x


def play(box, user, steps):
    mount = box.mount(options=layout("agentscope2"))
    base = mount.connect()
    table = agentscope.Table("sqlite", lambda sql, *values: base.execute(sql, values).fetchall())
    stores = [FileStore(mount.path, user), agentscope.DatabaseStore(table, user)]
    agentscope.play(box, stores, agentscope.steps(steps))
    mount.check()
    return mount


def test_agentscope_2_finds_the_same_in_files_and_rows(box):
    play(box, "alice", harness.rounds("SESSFS_STEPS", 100, 400))


def test_agentscope_2_finds_the_same_of_a_user_who_is_no_name(box):
    mount = play(box, "bob@example.com", 100)
    FileStore(mount.path, "bob@example.com").save_single("s3", "k", 1)
    same(mount.rows("bob@example.com:s3", "k"), [b"1"], "the row")


def test_paths_of_agentscope_2_meet_its_rows(box):
    mount = box.mount(options=layout("agentscope2"))
    client = FileStore(mount.path, "alice")
    client.save_single("s1", "agent_state", {"a": 1})
    client.save_list("s1", "memory_messages", [{"n": 1}, {"n": 2}])
    same(keys(mount), [("alice:s1", "agent_state"), ("alice:s1", "memory_messages"),
                       ("alice:s1", "memory_messages:_hash")], "keys")
    for session, key in (("alice:s1", "more"), ("__anon__:s1", "agent_state"), ("plain", "x"),
                         ("carol:a/b", "k"), (":s", "k"), ("", "k"), ("../x:..", "k")):
        mount.insert(session, key, 0, '{"sql":1}')
    expected = ["%/%/k.json", "%/..%2Fx:../k.json", "%/:s/k.json", "%/carol:a%2Fb/k.json",
                "%/plain/x.json", "__anon__/s1/agent_state.json", "alice/s1/agent_state.json",
                "alice/s1/memory_messages.hash", "alice/s1/memory_messages.jsonl",
                "alice/s1/more.json"]
    eventually(lambda: sorted(bytes_below(mount.path)) == expected, "paths of the rows")
    # Rows of files at these paths are theirs.
    for path in expected:
        if path.endswith(".json"):
            write(mount.at(path), b'{"file":1}')
    for session, key in (("alice:s1", "more"), ("plain", "x"), ("", "k"), ("../x:..", "k")):
        same(mount.rows(session, key), [b'{"file":1}'], f"{session}, {key}")
    mount.check()
    mount.stop()
    mount.start()
    same(sorted(bytes_below(mount.path)), expected, "after mounting anew")


def test_trees_of_clients_come_and_go_as_they_are(box):
    folder = box.new_folder("data")
    with tarfile.open(os.path.join(harness.TOP, "tests", "data", "clients.tar")) as packed:
        packed.extractall(folder)
    for name, data in (("agentscope2", "agentscope-2"), ("strands", "strands")):
        source = os.path.join(folder, "clients", data)
        mount = box.mount(options=layout(name))
        do(box, "import", mount.store, source)
        same_trees(files_below(source), files_below(mount.path))
        mount.check()
        copy = box.new_path("copy")
        do(box, "export", mount.store, copy)
        same_trees(files_below(source), files_below(copy))
        mount.stop()


def test_older_sessions_get_the_paths_of_their_ids(box):
    mount = box.mount(options=layout("agentscope2"))
    folder = box.new_folder("older")
    for name in ("alice:s1", "plain"):
        write(os.path.join(folder, name + ".json"), b'{"agent":{"a":1},"memory":[1,2]}')
    do(box, "import", "--layout=agentscope-files", mount.store, folder)
    same(keys(mount), [("alice:s1", "agent"), ("alice:s1", "memory"), ("plain", "agent"),
                       ("plain", "memory")], "keys")
    same(sorted(bytes_below(mount.path)), ["%/plain/agent.json", "%/plain/memory.jsonl",
                                           "alice/s1/agent.json", "alice/s1/memory.jsonl"], "files")
    copy = box.new_path("copy")
    do(box, "export", mount.store, copy, "alice")
    same(sorted(bytes_below(copy)), ["alice/s1/agent.json", "alice/s1/memory.jsonl"], "exported")
    for session, path in (("alice:s1", "alice/s1"), ("plain", "%/plain")):
        copy = box.new_path("copy")
        do(box, "export", mount.store, copy, session)
        wanted = [path + "/agent.json", path + "/memory.jsonl"]
        same(sorted(bytes_below(copy)), wanted, f"exported by the id {session}")
    same(box.sessfs("export", mount.store, box.new_path("copy"), "alice:s2").returncode, 1, "none")
    mount.check()


# What is no session


def test_what_the_layout_does_not_know_is_ordinary(box):
    mount = box.mount(options=layout("agentscope2"))
    os.makedirs(mount.at("alice", "s1", "sub"))
    for path in ("top.json", "alice/user.jsonl", "alice/s1/sub/k.json", "alice/s1/notes.txt"):
        write(mount.at(path), b"[1]\n")
    same(keys(mount), [("alice:s1", "sub/k")], "keys")
    same(read(mount.at("top.json")), b"[1]\n", "an ordinary file")
    mount.check()


def test_a_file_that_is_moved_becomes_what_its_path_says(box):
    mount = box.mount(options=layout("agentscope2"))
    os.makedirs(mount.at("alice", "s1"))
    os.makedirs(mount.at("bob", "s1"))
    write(mount.at("alice/s1/l.jsonl"), b"[1]\n[2]\n")
    os.rename(mount.at("alice/s1/l.jsonl"), mount.at("bob/s1/l.jsonl"))
    same(keys(mount), [("bob:s1", "l")], "to another session")
    os.rename(mount.at("bob/s1/l.jsonl"), mount.at("bob/l.jsonl"))
    same((keys(mount), read(mount.at("bob/l.jsonl"))), ([], b"[1]\n[2]\n"), "to none")
    os.rename(mount.at("bob/l.jsonl"), mount.at("alice/s1/l.jsonl"))
    same(mount.rows("alice:s1", "l"), [b"[1]", b"[2]"], "and back")
    mount.check()


def test_a_directory_that_is_moved_takes_its_sessions_along(box):
    mount = box.mount(options=layout("agentscope2"))
    for path in ("alice/s1/sub", "alice/s2", "bob/s1"):
        os.makedirs(mount.at(path))
    for path in ("alice/s1/k.json", "alice/s1/sub/k.json", "alice/s2/k.json", "bob/s1/k.json"):
        write(mount.at(path), json.dumps(path).encode())
    os.rename(mount.at("alice"), mount.at("carol"))
    same(keys(mount), [("bob:s1", "k"), ("carol:s1", "k"), ("carol:s1", "sub/k"),
                       ("carol:s2", "k")], "of a user")
    os.rename(mount.at("carol/s2"), mount.at("bob/s2"))
    os.rename(mount.at("carol/s1/sub"), mount.at("carol/s3"))
    same(keys(mount), [("bob:s1", "k"), ("bob:s2", "k"), ("carol:s1", "k"), ("carol:s3", "k")],
         "of a session, and what lay in one")
    tool("python3", "-c", """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
if libc.renameat2(-100, sys.argv[1].encode(), -100, sys.argv[2].encode(), 2):
    sys.exit(os.strerror(ctypes.get_errno()))
""", mount.at("bob"), mount.at("carol"))
    same(bytes_below(mount.path),
         {"bob/s1/k.json": b'"alice/s1/k.json"', "bob/s3/k.json": b'"alice/s1/sub/k.json"',
          "carol/s1/k.json": b'"bob/s1/k.json"', "carol/s2/k.json": b'"alice/s2/k.json"'},
         "files of two users who are exchanged")
    same(keys(mount), [("bob:s1", "k"), ("bob:s3", "k"), ("carol:s1", "k"), ("carol:s2", "k")],
         "keys of two users who are exchanged")
    same(mount.rows("carol:s2", "k"), [b'"alice/s2/k.json"'], "rows")
    mount.check()


def test_a_directory_whose_files_would_become_something_else_is_copied(box):
    mount = box.mount(options=layout("agentscope2"))
    os.makedirs(mount.at("alice/s1"))
    write(mount.at("alice/s1/k.json"), b"1")
    same(errno_of(os.rename, mount.at("alice/s1"), mount.at("bob")), errno.EXDEV, "a session")
    same(errno_of(os.rename, mount.at("alice"), mount.at("alice2/s1")), errno.ENOENT, "no place")
    os.mkdir(mount.at("bob"))
    same(errno_of(os.rename, mount.at("alice"), mount.at("bob/s1")), errno.EXDEV, "a user")
    same(keys(mount), [("alice:s1", "k")], "keys")
    tool("mv", mount.at("alice/s1"), mount.at("carol"))
    same((keys(mount), read(mount.at("carol/k.json"))), ([], b"1"), "what mv(1) does")
    tool("mv", mount.at("carol"), mount.at("bob/s2"))
    same(mount.rows("bob:s2", "k"), [b"1"], "and back")
    # What is empty can be anything.
    os.rename(mount.at("alice"), mount.at("bob/s3"))
    write(mount.at("bob/s3/k.json"), b"2")
    same(mount.rows("bob:s3", "k"), [b"2"], "in a directory that was above sessions")
    mount.check()


# Any moves, on two mounts


def key_of(path):
    """What agentscope2+pi makes of a path of these tests, or None."""
    names = path.split("/")
    stem, dot, suffix = names[-1].rpartition(".")
    if not stem or suffix not in ("json", "jsonl"):
        return None
    if names[:2] == ["pi", "sessions"]:
        return (f"pi:{names[2]}:{stem}", "transcript") if len(names) == 4 and suffix == "jsonl" \
            else None
    if len(names) < 3:
        return None
    session = names[1] if names[0] == "%" else ":".join(names[:2])
    return session, "/".join(names[2:-1] + [stem])


def sessions_at(mount):
    """The ids of all directories that are sessions by their paths."""
    names = [name.split("/") for name, entry in tree(mount.path).items()
             if entry["type"] == "directory" and name.count("/") == 1]
    return sorted(name[1] if name[0] == "%" else ":".join(name)
                  for name in names if name != ["pi", "sessions"])


def sessions_in(mount):
    rows = mount.sql("SELECT CAST(session_id AS TEXT) FROM sessfs_node"
                     " WHERE kind = 1 AND nlink > 0 ORDER BY 1")
    return [row[0].decode() for row in rows]


class Moves:
    def __init__(self, mounts, seed):
        self.mounts = mounts
        self.random = random.Random(seed)
        self.count = 0
        self.refused = 0
        self.moved = [0, 0, 0, 0]  # directories with files, by their depth

    def path(self, depth):
        names = [self.random.choice(("a", "b", "c", "d", "pi")),
                 self.random.choice(("s", "t", "sessions")), self.random.choice(("d", "e", "f")),
                 self.random.choice(("d", "e"))]
        return "/".join(names[:depth])

    def file(self):
        name = self.random.choice(("k.json", "l.jsonl", "m.jsonl", "n.txt", "o.json"))
        return self.path(self.random.randrange(0, 5)) + "/" + name

    def step(self):
        at = self.random.choice(self.mounts).at
        what = self.random.choice((self.save, self.save, self.make, self.move, self.move, self.move,
                                   self.remove, self.move_dir, self.move_dir, self.remove_dir,
                                   self.insert, self.delete))
        try:
            what(at)
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.EEXIST, errno.ENOTEMPTY, errno.EXDEV,
                                   errno.EINVAL, errno.ENOTDIR, errno.EISDIR, errno.ESTALE):
                raise
            self.refused += error.errno == errno.EXDEV

    def save(self, at):
        self.count += 1
        path = at(self.file().lstrip("/"))
        os.makedirs(os.path.dirname(path), exist_ok=True)
        write(path, b'{"n":%d}\n' % self.count)

    def make(self, at):
        os.makedirs(at(self.path(self.random.randrange(1, 5))))

    def move(self, at):
        path = at(self.file().lstrip("/"))
        os.makedirs(os.path.dirname(path), exist_ok=True)
        os.rename(at(self.file().lstrip("/")), path)

    def remove(self, at):
        os.unlink(at(self.file().lstrip("/")))

    def move_dir(self, at):
        # Mostly one that is there, to where none is.
        found = [name for name, entry in tree(at()).items()
                 if name and entry["type"] == "directory"]
        path = self.random.choice(found or ["a"])
        depth = path.count("/") + 1
        path_to = self.path(depth if self.random.random() < 0.5 else self.random.randrange(1, 5))
        if os.path.exists(at(path_to)) and self.random.random() < 0.5:
            path_to += "2"
        if not os.path.exists(at(os.path.dirname(path_to))):
            path_to = os.path.dirname(path) + "/other"
        had = bool(bytes_below(at(path), ""))
        os.rename(at(path), at(path_to.lstrip("/")))
        self.moved[min(depth, 3)] += had and path != path_to

    def insert(self, _):
        session, key = self.random.choice((("a:s", "q"), ("b:new", "d/q"), ("plain", "q"),
                                           ("pi:d:sql", "transcript"), ("pi:d:sql", "other")))
        self.count += 1
        with contextlib.suppress(sqlite3.IntegrityError):
            self.mounts[0].insert(session, key, 0, '{"n":%d}' % self.count)

    def delete(self, _):
        session, key = self.random.choice(keys(self.mounts[0]) or [("a:s", "q")])
        self.mounts[0].sql(f"DELETE FROM {TABLE} WHERE session_id = ? AND state_key = ?",
                           (session, key))

    def remove_dir(self, at):
        if self.random.random() < 0.4:
            shutil.rmtree(at(self.path(self.random.randrange(1, 4))))


def test_rows_follow_paths_whatever_is_moved(box):
    seed = int(os.environ.get("SESSFS_SEED", "20260101"))
    mount = box.mount(options=layout("agentscope2+pi"))
    mounts = [mount, box.mount(mount.store)]
    moves = Moves(mounts, seed)
    for step in range(harness.rounds("SESSFS_STEPS", 200, 1200)):
        moves.step()
        if step % 40 != 39:
            continue
        # An unlinked file leaves its rows for a moment, and what SQL does is seen in a moment.
        hint = f"seed {seed}, step {step}"
        files, expected = {}, {}

        def agrees():
            with contextlib.suppress(FileNotFoundError):
                files.clear()
                files.update(bytes_below(mount.path, ""))
            expected.clear()
            expected.update({key_of(path): data for path, data in files.items() if key_of(path)})
            return keys(mount) == sorted(expected)

        eventually(agrees, f"{hint}: keys")
        same(len(expected), sum(key_of(path) is not None for path in files), "keys of files")
        same(sessions_in(mount), sessions_at(mount), f"{hint}: sessions")
        for (session, key), data in expected.items():
            rows = [row.strip() for row in mount.rows(session, key)]
            same(rows, [data.strip()], f"{hint}: {session}, {key}")
        eventually(lambda want=files: bytes_below(mounts[1].path, "") == want, f"{hint}: files")
        mount.check()
    box.note(f"moved directories: {moves.moved[1:]}, refused: {moves.refused}")
    if step >= 1000:
        same(all(moves.moved[1:]), True, "users, sessions and what is in them have moved")


def test_a_layout_is_added_and_what_is_of_it_is_placed_anew(box):
    mount = box.mount(options=layout("codex+strands"))
    os.makedirs(mount.at("codex/archived_sessions"))
    append(mount.at("codex/archived_sessions/x.jsonl"), b"1\n")
    os.makedirs(mount.at("session_kimi:p:x"))
    append(mount.at("session_kimi:p:x/k.json"), b"1")
    mount.stop()
    do(box, "config", mount.store, "layout=codex+strands+qwen")
    # The id of this session is one of this client's, so it has another place.
    said = do(box, "config", mount.store, "layout=codex+strands+qwen+kimi").stderr.decode()
    same("1 file has a new path" in said, True, said)
    mount = box.mount(store=mount.store)
    os.makedirs(mount.at("kimi/sessions/w/s"))
    append(mount.at("kimi/sessions/w/s/state.json"), b"1")
    same(keys(mount), [("codex:archived:x", "transcript"), ("kimi:p:x", "k"),
                       ("kimi:w:s", "state")], "keys")
    mount.check()


# Transcripts


def test_each_transcript_is_a_session(box):
    mount = box.mount(options=layout("claude+codex+gemini+opencode+pi+qwen+kimi+copilot+cline"
                                     "+harness"))
    files = {
        f"claude/projects/-home-me/{UUID}.jsonl": (f"claude:-home-me:{UUID}", "transcript"),
        f"claude/projects/-home-me/{UUID}/subagents/agent-1.jsonl":
            (f"claude:-home-me:{UUID}", "subagents/agent-1"),
        "codex/sessions/2026/01/02/rollout-x.jsonl": ("codex:2026/01/02:rollout-x", "transcript"),
        "gemini/tmp/0a/chats/session-x.json": ("gemini:0a:session-x", "transcript"),
        "opencode/storage/session/0a/ses_1.json": ("opencode:ses_1", "session/0a"),
        "opencode/storage/message/ses_1/msg_1.json": ("opencode:ses_1", "msg_1"),
        "pi/sessions/--home--/t_x.jsonl": ("pi:--home--:t_x", "transcript"),
        f"qwen/projects/-home-me/chats/{UUID}.jsonl": (f"qwen:-home-me:{UUID}", "transcript"),
        f"kimi/sessions/wd_0a/session_{UUID}/agents/main/wire.jsonl":
            (f"kimi:wd_0a:session_{UUID}", "agents/main/wire"),
        f"copilot/session-state/{UUID}/events.jsonl": (f"copilot:{UUID}", "events"),
        "cline/sessions/1_a/1_a.messages.json": ("cline:1_a", "1_a.messages"),
        "agents/a/sessions/s1.log.jsonl": ("harness:a:s1", "log"),
        "kimi/sessions/.index-cache/scan.json": None,
        "claude/projects/-home-me/memory/notes.json": None,
        "claude/settings.json": None,
        "gemini/tmp/0a/logs.json": None,
    }
    for path in files:
        os.makedirs(os.path.dirname(mount.at(path)), exist_ok=True)
        append(mount.at(path), b'{"n":1}\n')
    same(keys(mount), sorted(key for key in files.values() if key), "keys")
    same(bytes_below(mount.path),
         {path: b'{"n":1}\n' for path in files}, "files")
    # A save by another name, and a transcript that is archived.
    write(mount.at("codex/sessions/2026/01/02/rollout-x.jsonl.tmp"), b'{"n":1}\n{"n":2}\n')
    os.rename(mount.at("codex/sessions/2026/01/02/rollout-x.jsonl.tmp"),
              mount.at("codex/sessions/2026/01/02/rollout-x.jsonl"))
    same(mount.rows("codex:2026/01/02:rollout-x", "transcript"), [b'{"n":1}', b'{"n":2}'], "rows")
    os.mkdir(mount.at("codex/archived_sessions"))
    os.rename(mount.at("codex/sessions/2026/01/02/rollout-x.jsonl"),
              mount.at("codex/archived_sessions/rollout-x.jsonl"))
    same(mount.rows("codex:archived:rollout-x", "transcript"), [b'{"n":1}', b'{"n":2}'], "archived")
    os.unlink(mount.at("codex/archived_sessions/rollout-x.jsonl"))
    eventually(lambda: ("codex:archived:rollout-x", "transcript") not in keys(mount), "it is gone")
    # What SQL writes has these paths.
    mount.insert("pi:--home--:other", "transcript", 0, "[1]")
    mount.insert("pi:--home--:other", "transcript", 1, "[2]")
    mount.insert("pi:--home--:other", "extra", 0, "[3]")
    eventually(lambda: os.path.exists(mount.at("pi/sessions/--home--/other.jsonl")), "a transcript")
    same(read(mount.at("pi/sessions/--home--/other.jsonl")), b"[1]\n[2]\n", "its lines")
    eventually(lambda: os.path.exists(mount.at("%/pi:--home--:other/extra.json")), "another key")
    os.rename(mount.at("pi/sessions/--home--"), mount.at("pi/sessions/--work--"))
    same(mount.rows("pi:--work--:other", "transcript"), [b"[1]", b"[2]"], "of another project")
    mount.check()


# What is done to sessions


def trashed(box, store):
    lines = do(box, "gc", "--list", store).stdout.decode().splitlines()
    return [line.split("  ")[-1] for line in lines]


def listed(box, store):
    return sorted(line.split("  ")[-1]
                  for line in do(box, "sessions", store).stdout.decode().splitlines())


def test_sessions_of_all_session_managers_of_strands_are_sessions(box):
    mount = box.mount(options=layout("strands"))
    files = {
        "session/s1/scopes/agent/a/snapshots/snapshot_latest.json":
            ("session:s1", "scopes/agent/a/snapshots/snapshot_latest"),
        "s1/scopes/agent/a/snapshots/snapshot_latest.json":
            ("scopes:s1", "agent/a/snapshots/snapshot_latest"),
        "session_s1/session.json": ("s1", "session"),
    }
    for path in files:
        os.makedirs(os.path.dirname(mount.at(path)))
        write(mount.at(path) + ".tmp", b"{}")
        os.rename(mount.at(path) + ".tmp", mount.at(path))
    same(keys(mount), sorted(files.values()), "keys")
    same(listed(box, mount.store), ["s1/scopes", "session/s1", "session_s1"], "sessions")
    mount.check()


# Packed transcripts

ROLLOUT = "codex/sessions/2026/11/29/rollout-2026-11-29T10-16-00-x.jsonl"
PACKED_ID = "codex:2026/11/29:rollout-2026-11-29T10-16-00-x"
TALK = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "layouts", "codex")


def packed(box, mount):
    """As Codex packs one: by another name, with the time of the plain one."""
    harness.need_tool("zstd")
    path = mount.at(ROLLOUT) + ".zst"
    os.makedirs(os.path.dirname(path))
    tool("zstd", "-q", os.path.join(TALK, "transcript.jsonl"), "-o", path + ".tmp")
    os.rename(path + ".tmp", path)
    old = time.time() - 8 * 86400
    os.utime(path, (old, old))
    return path


def test_a_packed_transcript_is_its_session(box):
    mount = box.mount(options=layout("codex"))
    path = packed(box, mount)
    same(keys(mount), [], "rows")
    same(listed(box, mount.store), [ROLLOUT + ".zst"], "sessions")
    talk = read(os.path.join(TALK, "talk"))
    for name in (ROLLOUT + ".zst", ROLLOUT, PACKED_ID):
        same(do(box, "show", mount.store, name).stdout, talk, f"show {name}")
    view = os.path.join(os.path.dirname(path), "@role=user", os.path.basename(path))
    same([json.loads(line)["payload"]["content"][0]["text"] for line in read(view).splitlines()],
         ["first question-amber, please run-amber", "second question-birch"], "by role")
    same(errno_of(append, view, b"{}\n"), errno.EROFS, "it is not written through a view")
    for mounted in (True, False):
        if not mounted:
            mount.stop()
        found = json.loads(do(box, "search", "--json", mount.store, "birch").stdout)
        same(sorted((hit["path"], hit["item"], hit["role"]) for hit in found),
             [(ROLLOUT + ".zst", n, r) for n, r in ((26, "user"), (29, "assistant"))], "found")
        titles = json.loads(do(box, "sessions", "--json", "--titles", mount.store).stdout)
        same([one["title"] for one in titles], ["first question-amber, please run-amber"], "title")
    mount = box.mount(store=mount.store)
    os.setxattr(mount.at(ROLLOUT) + ".zst", "user.sessfs.ttl", b"never")
    do(box, "gc", "--older-than=7d", mount.store)
    same(listed(box, mount.store), [ROLLOUT + ".zst"], "its ttl keeps it")
    os.setxattr(mount.at(ROLLOUT) + ".zst", "user.sessfs.ttl", b"7d")
    do(box, "gc", mount.store)
    same(listed(box, mount.store), [], "its ttl was over")
    same(json.loads(do(box, "search", "--json", mount.store, "birch").stdout), [], "not found")
    do(box, "gc", "--undo", mount.store)
    same(listed(box, mount.store), [ROLLOUT + ".zst"], "it is back")
    same(do(box, "show", mount.store, PACKED_ID).stdout, talk, "what it says")
    mount.check()


def test_a_transcript_that_is_made_plain_again_keeps_the_times_of_its_records(box):
    mount = box.mount(options=layout("codex"))
    path = packed(box, mount)
    write(mount.at("codex/sessions/2026/11/29/.tmpAbC"),
          read(os.path.join(TALK, "transcript.jsonl")))
    os.rename(mount.at("codex/sessions/2026/11/29/.tmpAbC"), mount.at(ROLLOUT))
    same(listed(box, mount.store), [ROLLOUT], "both are one session")
    os.unlink(path)
    same(listed(box, mount.store), [ROLLOUT], "sessions")
    made = [str(row[0], "ascii")[:10] for row in mount.sql(f"SELECT created_at FROM {TABLE}")]
    same(set(made), {"2026-11-29"}, "days of the rows")
    mount.check()


def test_a_ttl_of_a_session_stays_when_its_transcript_is_packed_and_made_plain_again(box):
    harness.need_tool("zstd")
    mount = box.mount(options=layout("codex"))
    path = mount.at(ROLLOUT)
    os.makedirs(os.path.dirname(path))
    shutil.copyfile(os.path.join(TALK, "transcript.jsonl"), path)
    os.setxattr(path, "user.sessfs.ttl", b"never")
    tool("zstd", "-q", path, "-o", path + ".tmp")
    os.rename(path + ".tmp", path + ".zst")
    os.unlink(path)
    same(os.getxattr(path + ".zst", "user.sessfs.ttl"), b"never", "of the packed one")
    do(box, "gc", "--older-than=0s", mount.store)
    same(listed(box, mount.store), [ROLLOUT + ".zst"], "it stays")
    tool("zstd", "-qd", path + ".zst", "-o", path + ".tmp")
    os.rename(path + ".tmp", path)
    os.unlink(path + ".zst")
    same(os.getxattr(path, "user.sessfs.ttl"), b"never", "of the plain one")
    other = mount.at(ROLLOUT.replace("-x", "-y")) + ".zst"
    tool("zstd", "-q", path, "-o", path + ".tmp")
    os.rename(path + ".tmp", other)
    same(errno_of(os.getxattr, other, "user.sessfs.ttl"), errno.ENODATA, "of another session")
    mount.check()


def test_a_packed_transcript_that_is_damaged_is_read_as_far_as_it_goes(box):
    mount = box.mount(options=layout("codex"))
    path = packed(box, mount)
    whole = read(path)
    write(path, whole[: len(whole) // 2])
    do(box, "show", mount.store, PACKED_ID)
    do(box, "search", mount.store, "birch")
    write(path, b"no zstd at all")
    do(box, "show", mount.store, PACKED_ID)
    same(read(path), b"no zstd at all", "its bytes")
    mount.check()


# The peak of a child that began in a small process.
MEMORY = """import resource, subprocess, sys
status = subprocess.call(sys.argv[1:])
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, file=sys.stderr)
sys.exit(status)
"""


def test_a_packed_transcript_with_a_line_without_end_is_read_up_to_it_in_little_memory(box):
    mount = box.mount(options=layout("codex"))
    path = packed(box, mount)
    pack = "{ cat %s; head -c 1G /dev/zero | tr '\\0' x; } | zstd -q > %s"
    tool("sh", "-c", pack % (os.path.join(TALK, "transcript.jsonl"), path))
    mount.stop()
    for verb in (["show", mount.store, PACKED_ID], ["search", mount.store, "birch"],
                 ["sessions", "--titles", mount.store]):
        done = tool(sys.executable, "-c", MEMORY, box.program, *verb)
        same(b"birch" in done.stdout or b"amber" in done.stdout, True, f"{verb}: {done.stdout}")
        if not harness.is_sanitized(box.program):
            same(int(done.stderr.split()[-1]) < 256 << 10, True, f"{verb}: {done.stderr}")


def test_sessions_are_listed_removed_and_brought_back_by_their_paths(box):
    mount = box.mount(options=layout("agentscope2"))
    for path in ("alice/s1/sub", "alice/s2", "bob/s1"):
        os.makedirs(mount.at(path))
    for path in ("alice/s1/k.json", "alice/s1/sub/l.jsonl", "alice/s2/k.json", "bob/s1/k.json"):
        write(mount.at(path), b"[1]\n")
    write(mount.at("alice/s1/notes.txt"), b"text")
    before = tree(mount.path, times=True)
    same(listed(box, mount.store), ["alice/s1", "alice/s2", "bob/s1"], "sessions")
    found = json.loads(do(box, "sessions", "--json", mount.store).stdout)
    same([(row["name"], row["id"]) for row in found][:1], [("alice/s1", "alice:s1")], "ids")
    do(box, "gc", "--older-than", "0s", "--name", "alice/*", mount.store, check=False)
    time.sleep(1.1)
    do(box, "gc", "--older-than", "1s", "--name", "alice/*", mount.store)
    same((keys(mount), os.listdir(mount.at("alice"))), ([("bob:s1", "k")], []), "what is left")
    same(sorted(trashed(box, mount.store)), ["alice/s1", "alice/s2"], "in the trash")
    os.rmdir(mount.at("alice"))
    do(box, "gc", "--undo", mount.store, "alice/s1")
    same(keys(mount), [("alice:s1", "k"), ("alice:s1", "sub/l"), ("bob:s1", "k")], "what is back")
    do(box, "gc", "--undo", mount.store)
    after = tree(mount.path, times=True)
    same_trees({name: entry for name, entry in before.items() if "." in name},
               {name: entry for name, entry in after.items() if "." in name})
    mount.check()


def test_a_ttl_ends_each_session_by_itself(box):
    mount = box.mount(options=["layout=agentscope2+pi", "ttl=2s"])
    for path in ("alice/s1/k.json", "alice/s2/k.json", "pi/sessions/p/x.jsonl",
                 "pi/sessions/p/y.jsonl"):
        os.makedirs(os.path.dirname(mount.at(path)), exist_ok=True)
        write(mount.at(path), b"1")
    for path in ("alice/s2", "pi/sessions/p/y.jsonl"):
        os.setxattr(mount.at(path), "user.sessfs.ttl", b"never")
    same(errno_of(os.setxattr, mount.at("alice"), "user.sessfs.ttl", b"1d"), errno.EOPNOTSUPP,
         "of a user")
    same(errno_of(os.setxattr, mount.at("alice/s2/k.json"), "user.sessfs.ttl", b"1d"),
         errno.EOPNOTSUPP, "of a file of a session")
    eventually(lambda: not os.path.exists(mount.at("alice/s1")) and
               not os.path.exists(mount.at("pi/sessions/p/x.jsonl")), "two are gone")
    same(sorted(bytes_below(mount.path)), ["alice/s2/k.json", "pi/sessions/p/y.jsonl"], "files")
    same(keys(mount), [("alice:s2", "k"), ("pi:p:y", "transcript")], "keys")
    same(sorted(trashed(box, mount.store)), ["alice/s1", "pi/sessions/p/x.jsonl"], "in the trash")


def test_a_transcript_goes_and_comes_back_with_what_lies_beside_it(box):
    mount = box.mount(options=layout("claude+opencode"))
    files = {
        f"claude/projects/p/{UUID}.jsonl": b"[1]\nnot json\n[2]\n",
        f"claude/projects/p/{UUID}/subagents/agent-1.jsonl": b"[3]\n",
        f"claude/projects/p/{UUID}/tool-results/x.txt": b"text",
        "claude/projects/p/other.jsonl": b"[4]\n",
        "opencode/storage/session/p/ses_1.json": b"5",
        "opencode/storage/message/ses_1/msg_1.json": b"6",
        "opencode/storage/message/ses_1/msg_2.json": b"7",
    }
    for path, data in files.items():
        os.makedirs(os.path.dirname(mount.at(path)), exist_ok=True)
        write(mount.at(path), data)
    os.makedirs(mount.at("claude/projects/empty"))
    write(mount.at("claude/projects/empty/e.jsonl"), b"")
    before, had = bytes_below(mount.path), keys(mount)
    same(listed(box, mount.store), [f"claude/projects/p/{UUID}", "claude/projects/p/other.jsonl",
                                    "opencode/storage/message/ses_1"], "sessions")
    time.sleep(1.1)
    with open(mount.at(f"claude/projects/p/{UUID}.jsonl"), "rb"):
        do(box, "gc", "--older-than", "1s", "--name", f"*{UUID}*", mount.store)
        same(bytes_below(mount.path), before, "one of whose files is open")
    do(box, "gc", "--older-than", "1s", mount.store)
    same((bytes_below(mount.path), keys(mount)), ({}, []), "all that is left")
    mount.check()
    mount.stop()
    mount.start()
    mount.check()
    do(box, "gc", "--undo", mount.store, f"claude/projects/p/{UUID}.jsonl")
    same(sorted(bytes_below(mount.path)), sorted(path for path in files if UUID in path),
         "a session is back whole")
    do(box, "gc", "--undo", mount.store)
    same((bytes_below(mount.path), keys(mount)), (before, had), "all of them")
    mount.check()
    time.sleep(1.1)
    do(box, "gc", "--older-than", "1s", "--grace", "0", mount.store)
    same(trashed(box, mount.store), [], "in the trash")
    same(mount.sql("SELECT count(*) FROM sessfs_trash"), [(0,)], "rows in the trash")
    mount.check()


def test_a_session_comes_back_by_its_id(box):
    mount = box.mount(options=layout("claude+opencode+agentscope2"))
    claude = f"claude/projects/p/{UUID}"
    homes = {
        "alice:s1": ["alice/s1"],
        f"claude:p:{UUID}": [claude, f"{claude}.jsonl"],
        "claude:p:other": ["claude/projects/p/other.jsonl"],
        "opencode:ses_1": ["opencode/storage/message/ses_1",
                           "opencode/storage/session/p/ses_1.json"],
    }
    for path in ("alice/s1/k.json", "alice/s1/sub/l.jsonl", f"{claude}/subagents/agent-1.jsonl",
                 f"{claude}/tool-results/x.txt", "opencode/storage/message/ses_1/msg_1.json",
                 *(home for of in homes.values() for home in of if "." in home)):
        os.makedirs(os.path.dirname(mount.at(path)), exist_ok=True)
        write(mount.at(path), b"[1]\n")
    before, had = bytes_below(mount.path), keys(mount)
    same(sorted({session for session, _ in had}), sorted(homes), "ids")

    def by_gc(id):
        pattern = "*" + os.path.splitext(os.path.basename(homes[id][0]))[0] + "*"
        do(box, "gc", "--older-than", "1s", "--name", pattern, mount.store)

    def by_rm(id):
        tool("rm", "-r", *map(mount.at, homes[id]))

    for remove in (by_gc, by_rm):
        time.sleep(1.1)
        for id in homes:
            remove(id)
            eventually(lambda: id not in dict(keys(mount)), "its rows go")
            do(box, "gc", "--undo", mount.store, id)
            same(bytes_below(mount.path), before, f"files, after {remove.__name__} of {id}")
            same(keys(mount), had, "keys")
            same(trashed(box, mount.store), [], "in the trash")
            mount.check()
    # What was removed before its directory was made is that of another session.
    by_rm(f"claude:p:{UUID}")
    eventually(lambda: f"{claude}.jsonl" in trashed(box, mount.store), "it is in the trash")
    os.mkdir(mount.at(claude))
    write(mount.at(claude, "new.jsonl"), b"[2]\n")
    shutil.rmtree(mount.at(claude))
    do(box, "gc", "--undo", mount.store, f"claude:p:{UUID}")
    same(bytes_below(mount.path, UUID), {f"{claude}/new.jsonl": b"[2]\n"}, "of two")
    do(box, "gc", "--undo", mount.store, "claude:p:unknown", status=1)


def test_a_repaired_store_has_its_layout(box):
    mount = box.mount(options=layout("agentscope2+pi"))
    for path in ("alice/s1/sub/k.json", "alice/s1/l.jsonl", "alice/top.json",
                 "pi/sessions/p/x.jsonl", "pi/sessions/p/x.txt"):
        os.makedirs(os.path.dirname(mount.at(path)), exist_ok=True)
        write(mount.at(path), b"[1]\n")
    before, files, had = tree(mount.path, times=True), bytes_below(mount.path), keys(mount)
    mount.stop()
    rescued = box.new_path("rescued") + ".db"
    do(box, "check", "--repair", mount.store, rescued)
    with contextlib.closing(mount.connect()) as base:
        base.execute("DELETE FROM sessfs_entry WHERE CAST(name AS TEXT) IN ('s1', 'x.jsonl')")
    worse = box.new_path("rescued") + ".db"
    box.sessfs("check", "--repair", mount.store, worse)
    for store in (rescued, worse):
        other = box.mount(store)
        same(bytes_below(other.path), files, "files")
        same(keys(other), had, "keys")
        if store == rescued:
            same_trees(before, tree(other.path, times=True))
        other.check()


def test_events_name_the_session_of_the_layout(box):
    mount = box.mount(options=layout("agentscope2+pi"))
    other = box.mount(mount.store)
    os.makedirs(mount.at("alice/s1/sub"))
    os.makedirs(mount.at("pi/sessions/p"))
    read_fd = os.open(other.at("@as=events.jsonl"), os.O_RDONLY | os.O_NONBLOCK)
    wanted = {
        "alice/s1/k.json": ("alice:s1", "k"),
        "alice/s1/sub/notes.txt": ("alice:s1", None),
        "alice/notes.txt": (None, None),
        "pi/sessions/p/x.jsonl": ("pi:p:x", "transcript"),
    }
    found = {}

    def told():
        with contextlib.suppress(BlockingIOError):
            for line in os.read(read_fd, 1 << 20).splitlines():
                event = json.loads(line)
                if event.get("path") in wanted:
                    found[event["path"]] = (event["session"], event["key"])
        return found == wanted

    for path in wanted:
        write(mount.at(path), b"[1]\n")
    eventually(told, f"events: {found}")
    os.close(read_fd)


# The setting


def test_a_layout_is_given_to_a_new_store_and_to_no_other(box):
    mount = box.mount(options=layout("agentscope2"))
    same(config(box, mount.store, "layout"), "layout=agentscope2\n", "what the store says")
    not_mounted(box, "which is layout=agentscope2", mount.store, "layout=claude")
    not_mounted(box, "which is layout=agentscope2", mount.store, "layout=agentscope")
    second = box.mount(mount.store, options=layout("agentscope2"))
    os.makedirs(second.at("alice/s1"))
    write(second.at("alice/s1/k.json"), b"1")
    same(mount.rows("alice:s1", "k"), [b"1"], "of a second mount")
    second.stop()
    mount.remount(options=["ro"])
    mount.sql(f"INSERT INTO {TABLE} (session_id, state_key, state_data) VALUES ('bob:s','k','2')")
    eventually(lambda: os.path.exists(mount.at("bob/s/k.json")), "what SQL wrote, read-only")
    mount.stop()
    other = box.mount()
    os.mkdir(other.at("s"))
    other.stop()
    not_mounted(box, "which is layout=agentscope;", other.store, "layout=agentscope2")
    for words in (["mount", "-olayout=foo", other.store, other.path],
                  ["config", other.store, "layout=foo"]):
        done = box.sessfs(*words)
        same((done.returncode, b"not understood" in done.stderr), (2, True), "an unknown one")
    memory = box.new_folder("mnt")
    box.mount("memory:", memory, options=layout("strands"))
    os.mkdir(os.path.join(memory, "session_a"))
    write(os.path.join(memory, "session_a", "k.json"), b"1")
    same(read(os.path.join(memory, "session_a", "k.json")), b"1", "in memory")


def test_another_layout_leaves_paths_and_bytes_as_they_are(box):
    mount = box.mount()
    files = {
        "alice/s1/k.json": (b'{"a":1}', ("alice:s1", "k")),
        "alice/s1/l.jsonl": (b"[1]\nnot json\n[2]", ("alice:s1", "l")),
        "alice/s1/draft.json": (b'{"a":', None),
        "alice/s1/sub/k.json": (b"2", ("alice:s1", "sub/k")),
        "alice/s1/notes.txt": (b"text", None),
        "__anon__/s1/k.json": (b"3", ("__anon__:s1", "k")),
        "top.json": (b"4", None),
    }
    for path, (data, _) in files.items():
        os.makedirs(os.path.dirname(mount.at(path)), exist_ok=True)
        write(mount.at(path), data)
        os.chmod(mount.at(path), 0o640)
        os.utime(mount.at(path), (5, 5))
    os.setxattr(mount.at("alice/s1/k.json"), "user.x", b"y")
    before = tree(mount.path, times=True)
    expected = sorted(key for _, key in files.values() if key)
    refuses(box, "while nothing else uses the store", "config", mount.store, "layout=agentscope2")
    for name, wanted in (("agentscope2", expected), ("agentscope", None),
                         ("agentscope2", expected)):
        mount.stop()
        config(box, mount.store, f"layout={name}")
        mount.start()
        now = tree(mount.path, times=True)
        same_trees({name: entry for name, entry in before.items() if "." in name},
                   {name: entry for name, entry in now.items() if "." in name})
        if wanted:
            same(keys(mount), wanted, "keys")
        else:
            same(mount.rows("alice", "s1/k"), [b'{"a":1}'], "as before")
        same(os.getxattr(mount.at("alice/s1/k.json"), "user.x"), b"y", "the attribute")
        mount.check()


def test_rows_of_others_keep_their_ids_when_the_layout_changes(box):
    mount = box.mount()
    for session, key in (("alice:s1", "k"), ("bob", "k"), ("bob", "s1/k")):
        mount.insert(session, key, 0, f'"{session} {key}"')
    eventually(lambda: os.path.exists(mount.at("bob/s1/k.json")), "files")
    os.mkdir(mount.at("mine"))
    write(mount.at("mine/k.jsonl"), b"[1]\ntorn")
    before = keys(mount)
    mount.stop()
    config(box, mount.store, "layout=agentscope2")
    mount.start()
    same(keys(mount), before, "keys")
    same(bytes_below(mount.path),
         {"alice/s1/k.json": b'"alice:s1 k"', "%/bob/k.json": b'"bob k"',
          "%/bob/s1/k.json": b'"bob s1/k"', "%/mine/k.jsonl": b"[1]\ntorn"}, "files")
    same(sorted(os.listdir(mount.path)), ["%", "alice"], "directories")
    mount.check()
    mount.stop()
    config(box, mount.store, "layout=")
    mount.start()
    same(read(mount.at("alice:s1/k.json")), b'"alice:s1 k"', "back at the root")
    mount.check()


def test_a_session_that_moves_stays_what_it_was(box):
    harness.need_root()
    mount = box.mount()
    for key in ("k", "sub/k"):
        mount.insert("mine", key, 0, "1")
        eventually(lambda key=key: os.path.exists(mount.at(f"mine/{key}.json")), "a file")
    for name, value in (("ttl", b"never"), ("quota", b"1")):  # it has more already
        os.setxattr(mount.at("mine"), "user.sessfs." + name, value)
    os.setxattr(mount.at("mine/sub"), "user.x", b"y")
    os.chmod(mount.at("mine/sub"), 0o750)
    os.chmod(mount.at("mine"), 0o700)
    os.chown(mount.at("mine"), 7, 8)
    number = os.stat(mount.at("mine/sub")).st_ino
    mount.stop()
    for name in (b"user.sessfs.ttl", b"user.sessfs.quota"):  # which mean nothing there
        mount.sql("INSERT INTO sessfs_xattr (ino, name, value) VALUES (?, ?, ?)",
                  (number, name, b"rubbish"))
    config(box, mount.store, "ttl=1h")
    for layout, moved in (("agentscope2", "%/mine"), ("strands", "session_mine"), ("", "mine")):
        config(box, mount.store, "layout=" + layout)
        mount.start()
        same(sorted(bytes_below(mount.path)), [moved + "/k.json", moved + "/sub/k.json"], "files")
        st = os.stat(mount.at(moved))
        same((stat.S_IMODE(st.st_mode), st.st_uid, st.st_gid), (0o700, 7, 8), "the directory")
        same(stat.S_IMODE(os.stat(mount.at(moved + "/sub")).st_mode), 0o750, "the one below it")
        same({name: os.getxattr(mount.at(moved), "user.sessfs." + name)
              for name in ("ttl", "quota")}, {"ttl": b"never", "quota": b"1"}, "attributes")
        same(os.listxattr(mount.at(moved + "/sub")), ["user.x"], "those of the one below it")
        same(stat.S_IMODE(os.stat(os.path.dirname(mount.at(moved))).st_mode), 0o755, "above")
        mount.check()
        mount.stop()
    mount.start()


def test_a_quota_holds_up_no_change_of_the_layout(box):
    mount = box.mount()
    mount.insert("bob", "k", 0, '"%s"' % ("x" * 3000))
    eventually(lambda: os.path.exists(mount.at("bob/k.json")), "the file")
    mount.stop()
    config(box, mount.store, "quota=1K")
    config(box, mount.store, "layout=agentscope2")
    mount.start()
    same(os.path.getsize(mount.at("%/bob/k.json")), 3002, "its size")
    same(harness.errno_of(write, mount.at("%/bob/l.json"), b"1"), errno.ENOSPC, "one more")


def test_transcripts_of_one_session_become_sessions(box):
    mount = box.mount()
    files = {
        f"claude/projects/p/{UUID}.jsonl": (b"[1]\ntorn\n[2]", f"claude:p:{UUID}", "transcript"),
        f"claude/projects/p/{UUID}/a/b.jsonl": (b"[3]\n", f"claude:p:{UUID}", "a/b"),
        "codex/sessions/2026/01/02/r.jsonl": (b"[4]\n", "codex:2026/01/02:r", "transcript"),
        "codex/sessions/2026/01/02/r.jsonl.bak": (b"[4]\n", None, None),
        "notes/todo.txt": (b"text", None, None),
    }
    for path, (data, _, _) in files.items():
        os.makedirs(os.path.dirname(mount.at(path)), exist_ok=True)
        write(mount.at(path), data)
    expected = sorted((session, key) for _, session, key in files.values() if session)
    mount.stop()
    # What is ordinary by the one layout is a state by the next.
    for name, wanted in (("pi", []), ("claude+codex", expected)):
        if name == "pi":
            mount.start()
            for path in files:
                os.rename(mount.at(path), mount.at(path) + ".away")
            mount.stop()
        config(box, mount.store, f"layout={name}")
        mount.start()
        for path in files:
            with contextlib.suppress(FileNotFoundError):
                os.rename(mount.at(path) + ".away", mount.at(path))
        same(bytes_below(mount.path, ""), {path: data for path, (data, _, _) in files.items()},
             "files")
        same(keys(mount), wanted, f"keys with {name}")
        mount.check()
        mount.stop()
    mount.start()
    same(mount.rows(f"claude:p:{UUID}", "transcript"), [b"[1]", b"[2]"], "rows")


def test_several_names_of_a_file_keep_it_ordinary(box):
    mount = box.mount(options=layout("pi"))
    os.makedirs(mount.at("alice/s1"))
    write(mount.at("alice/s1/k.json"), b"1")
    os.link(mount.at("alice/s1/k.json"), mount.at("alice/s1/other.json"))
    mount.stop()
    config(box, mount.store, "layout=agentscope2")
    mount.remount(options=[])
    same((keys(mount), read(mount.at("alice/s1/k.json"))), ([], b"1"), "an ordinary file")
    mount.check()


def test_a_transcript_that_was_unlinked_a_moment_ago_is_no_session(box):
    mount = box.mount(options=layout("pi"))
    os.makedirs(mount.at("pi/sessions/p"))

    def listed():
        told = json.loads(do(box, "sessions", "--json", mount.store).stdout)
        return [session["name"] for session in told]

    mount.insert("new", "k", 0, "1")
    write(mount.at("pi/sessions/p/x.jsonl"), b"[1]\n")
    same(len(listed()), 2, "the sessions")

    def waits():
        """The rows wait for a file that is written again, and will go with the next mount."""
        if mount.pid is None:
            mount.start()
        write(mount.at("pi/sessions/p/x.jsonl"), b"[1]\n")
        os.unlink(mount.at("pi/sessions/p/x.jsonl"))
        mount.kill9()
        return mount.sql("SELECT 1 FROM sessfs_node WHERE nlink = 0")

    eventually(waits, "it is killed soon enough")
    same(mount.rows("pi:p:x", "transcript"), [b"[1]"], "its rows")
    same(listed(), ["%/new"], "what SQL has written is there, and nothing else")


def test_a_change_of_the_layout_that_was_killed_goes_on(box):
    mount = box.mount()
    for user in range(20):
        for session in range(20):
            os.makedirs(mount.at(f"u{user}/s{session}"))
            write(mount.at(f"u{user}/s{session}/k.json"), b"1")
    before = files_below(mount.path)
    mount.stop()
    wait, moving = 0.02, []
    while not moving and wait < 5:
        done = tool("timeout", "-s", "KILL", str(wait), box.program, "config", mount.store,
                    "layout=agentscope2", check=False)
        moving = mount.sql("SELECT 1 FROM sessfs_meta WHERE key = 'setting:layout_moving'")
        wait *= 1.2
    same((bool(moving), done.returncode != 0), (True, True), "it was killed on the way")
    box.note(f"killed after {wait / 1.2:.2f} s")
    not_mounted(box, "is not complete", mount.store)
    config(box, mount.store, "layout=agentscope2")
    mount.start()
    same_trees(before, files_below(mount.path))
    same(keys(mount), sorted((f"u{user}:s{session}", "k") for user in range(20)
                             for session in range(20)), "keys")
    mount.check()


def stop_at(mount, where):
    """No file or directory that this holds for can be written any more: its index has no value."""
    least = "-9223372036854775808"
    mount.sql(f"CREATE INDEX stop ON sessfs_node (abs(iif({where}, {least}, 0)))")


def test_a_change_of_the_layout_that_stopped_anywhere_is_no_damage(box):
    mount = box.mount()
    for user in range(3):
        for session in range(3):
            os.makedirs(mount.at(f"u{user}/s{session}/sub"))
            write(mount.at(f"u{user}/s{session}/k.json"), b"1")
            append(mount.at(f"u{user}/s{session}/sub/l.jsonl"), b"[2]\ntorn")
            write(mount.at(f"u{user}/s{session}/notes.txt"), b"3")
    before = tree(mount.path)
    numbers = {name: os.stat(mount.at(name)).st_ino
               for name in ("u1", "u1/s1", "u1/s1/k.json", "u2/s0/sub/l.jsonl")}
    mount.stop()
    had = keys(mount)
    placed = sorted((f"{session}:{key.split('/')[0]}", key.split("/", 1)[1])
                    for session, key in had)
    stops = [f"ino = {numbers[name]} AND {change}" for name, change in (
        ("u1", "kind = 0"), ("u1/s1", "kind = 1"), ("u1/s1/k.json", "session_id <> 'u1'"),
        ("u2/s0/sub/l.jsonl", "session_id <> 'u2'"))]
    for stop in stops:
        store = box.new_store()
        shutil.copy(mount.store, store)
        there = harness.Mount(box, store, box.new_path("mnt"))
        stop_at(there, stop)
        refuses(box, "", "config", store, "layout=agentscope2")
        there.sql("DROP INDEX stop")
        not_mounted(box, "is not complete", store)
        same("continues it" in there.check(), True, f"{stop}: it is told what goes on with it")
        copy, rescued = box.new_path("copy") + ".db", box.new_path("rescued") + ".db"
        do(box, "backup", store, copy)
        do(box, "check", "--repair", store, rescued)
        for name in (store, copy, rescued):
            not_mounted(box, "is not complete", name)
            config(box, name, "layout=agentscope2")
            other = box.mount(name)
            same_trees(before, tree(other.path), f"{stop}: ")
            same(keys(other), placed, f"{stop}: keys")
            other.check()
            other.stop()


if __name__ == "__main__":
    harness.main(globals())
