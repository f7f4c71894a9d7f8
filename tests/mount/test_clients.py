#!/usr/bin/python3 -B
# SPDX-License-Identifier: MIT
"""Real clients see on a mount what they see on a local filesystem."""

import json
import os
import time

import clients
import harness
from harness import need_tool, read, same, same_lists, same_trees, shell, tool, tree

LONG = "0123456789abcdef" * 1250  # 20,000 bytes: two cuts in the middle of a line


def beside(box, play):
    """Plays on a plain folder and on a mount, and compares what was seen and what is left."""
    plain = box.new_folder("plain")
    mount = box.mount()
    expected = play(plain)
    seen = play(mount.path)
    same_lists(expected.seen, seen.seen, "on the mount")
    same_trees(tree_below(plain), tree_below(mount.path))
    return mount


def tree_below(root):
    found = tree(root)
    found.pop("")
    return found


def messages(count, pad=""):
    return [{"role": "user", "n": n, "text": f"message {n} 会 {pad}"} for n in range(count)]


def line(value):
    return json.dumps(value, ensure_ascii=False).encode()


# AgentScope Java 1.x


def test_agentscope_1_saves_singles_and_lists(box):
    def play(root):
        client = clients.AgentScope1(root)
        client.save_single("user123", "agent_meta", {"name": "a", "pad": LONG})
        client.save_single("user123", "agent_meta", {"name": "b"})
        client.save_single("user123", "sub/key", {"deep": True})
        client.save_single("a/b: c", "k", {"id": "needs base64"})
        client.save_list("user123", "empty", [])
        client.save_list("user123", "memory_messages", messages(3))
        client.save_list("user123", "memory_messages", messages(5, LONG))
        client.save_list("user123", "memory_messages", messages(9, LONG))
        client.list_sessions()
        return client

    mount = beside(box, play)
    same(mount.rows("user123", "agent_meta"), [line({"name": "b"})], "the single")
    same(mount.indexes("user123", "agent_meta"), [0], "a single is index 0")
    same(mount.rows("user123", "sub/key"), [line({"deep": True})], "a key with a folder")
    same(mount.rows("user123", "empty"), [], "an empty list")
    same(mount.rows("user123", "empty:_hash"), [b"empty:0"], "the hash of an empty list")
    expected = messages(3) + messages(5, LONG)[3:] + messages(9, LONG)[5:]
    same(mount.rows("user123", "memory_messages"), [line(m) for m in expected], "the list")
    same(mount.indexes("user123", "memory_messages"), list(range(9)), "indexes")
    hashes = mount.rows("user123", "memory_messages:_hash")
    same(len(hashes[0]) if hashes else None, 8, "the hash row")
    mount.check()


def test_agentscope_1_appends_make_as_many_rows_as_items(box):
    def play(root):
        client = clients.AgentScope1(root)
        for count in range(1, 40):
            client.save_list("s", "memory_messages", messages(count, "x" * 400))
        return client

    mount = beside(box, play)
    same(mount.indexes("s", "memory_messages"), list(range(39)), "indexes")


def test_agentscope_1_save_after_a_reload_changes_only_the_new_rows(box):
    mount = box.mount()
    first = clients.AgentScope1(mount.path)
    first.save_list("s", "memory_messages", messages(30, LONG))
    before = mount.stamps("s", "memory_messages")
    time.sleep(1.1)  # the stamps count seconds
    second = clients.AgentScope1(mount.path)
    same(second.load_list("s", "memory_messages"), messages(30, LONG), "what is loaded")
    second.save_list("s", "memory_messages", messages(31, LONG))
    after = mount.stamps("s", "memory_messages")
    same(after[:30], before, "stamps of the unchanged rows")
    assert after[30][1] > before[0][1], "created_at of the new row"
    same(len(mount.rows("s", "memory_messages:_hash")), 1, "the hash row")
    mount.check()


def test_agentscope_1_reloads_and_rewrites_as_on_a_local_filesystem(box):
    def play(root):
        client = clients.AgentScope1(root)
        client.save_list("s", "m", messages(4, LONG))
        for count in (5, 3, 3, 8):
            client = clients.AgentScope1(root)
            client.load_list("s", "m")
            client.save_list("s", "m", messages(count, LONG[: 100 * count]))
        return client

    mount = beside(box, play)
    same(mount.rows("s", "m"), [line(m) for m in messages(8, LONG[:800])], "rows")


def test_agentscope_1_deletes_a_session_file_by_file(box):
    def play(root):
        client = clients.AgentScope1(root)
        client.save_single("gone", "agent_meta", {"a": 1})
        client.save_single("gone", "sub/key", {"a": 1})
        client.save_list("gone", "l", messages(3))
        client.save_list("gone", "empty", [])
        client.save_single("stays", "agent_meta", {"a": 1})
        client.delete_session("gone")
        client.list_sessions()
        return client

    mount = beside(box, play)
    left = [(b"stays", b"agent_meta")]
    harness.eventually(lambda: mount.keys() == left, "the rows of the session go")


# AgentScope Java 2.x


def test_agentscope_2_saves_by_rename_one_level_deeper(box):
    def play(root):
        client = clients.AgentScope2(root, "alice")
        client.save_single("s1", "agent_state", {"name": "a", "pad": LONG})
        client.save_single("s1", "agent_state", {"name": "b"})
        client.save_list("s1", "memory_messages", messages(3, LONG))
        client.save_list("s1", "memory_messages", messages(6, LONG))
        client.load_list("s1", "memory_messages")
        client.save_list("s1", "memory_messages", messages(7, LONG))
        nobody = clients.AgentScope2(root)
        nobody.save_single("s1", "agent_state", {"anonymous": True})
        client.names(client.at("alice", "s1"))
        return client

    mount = beside(box, play)
    same(mount.rows("alice", "s1/agent_state"), [line({"name": "b"})], "the single")
    expected = [line(m) for m in messages(7, LONG)]
    same(mount.rows("alice", "s1/memory_messages"), expected, "the list")
    same(len(mount.rows("alice", "s1/memory_messages:_hash")), 1, "the hash row")
    same(mount.rows("__anon__", "s1/agent_state"), [line({"anonymous": True})], "no user")
    mount.check()


def test_agentscope_2_rewrite_by_rename_keeps_the_stamps_of_unchanged_rows(box):
    mount = box.mount()
    client = clients.AgentScope2(mount.path, "alice")
    client.save_list("s", "m", messages(20, LONG))
    before = mount.stamps("alice", "s/m")
    time.sleep(1.1)  # the stamps count seconds
    client.load_list("s", "m")
    client.save_list("s", "m", messages(21, LONG))
    after = mount.stamps("alice", "s/m")
    same((len(before), after[:20]), (20, before), "stamps of the unchanged rows")
    same(len(after), 21, "rows")
    assert after[20][1] > before[0][1], "created_at of the new row"


# Strands


def test_strands_saves_lists_and_reads_documents(box):
    def play(root):
        client = clients.Strands(root)
        for session in ("e", "a b", "..", "日本", "line\nbreak", "x" * 200):
            client.create_session(session)
        client.create_agent("e", "a")
        for number in (0, 1, 2, 10, 9, 100, -1):
            path = client.message("e", "a", number)
            client.save_document(path, {"message": number, "pad": LONG})
        client.save_document(client.message("e", "a", 2), {"message": "again"}, cut=102400)
        client.save_document(client.message("e", "a", 3), {"pad": LONG * 12}, cut=102400)
        client.list_messages("e", "a")
        client.names(client.folder("e"))
        client.names(os.path.join(client.folder("e"), "multi_agents"))
        return client

    mount = beside(box, play)
    rows = mount.rows("session_e", "agents/agent_a/messages/message_2")
    same([json.loads(row) for row in rows], [{"message": "again"}], "a message")
    for session in ("session_..", "session_line\nbreak", "session_日本"):
        same(len(mount.rows(session, "session")), 1, f"the document of {session!r}")
    mount.check()


def test_strands_writes_nan_and_reads_it_back(box):
    def play(root):
        client = clients.Strands(root)
        client.create_session("n")
        path = os.path.join(client.folder("n"), "session.json")
        client.save_document(path, {"score": 1})
        client.save_document(path, {"score": float("nan")})
        client.load_document(path)
        return client

    mount = beside(box, play)
    rows = [json.loads(row) for row in mount.rows("session_n", "session")]
    same(rows, [{"score": 1}], "SQL keeps the last valid state")


def test_strands_removes_a_session_with_rmtree(box):
    def play(root):
        client = clients.Strands(root)
        for session in ("gone", "stays"):
            client.create_session(session)
            client.create_agent(session, "a")
            for number in range(50):
                client.save_document(client.message(session, "a", number), {"n": number})
        client.delete_session("gone")
        client.names(client.root)
        return client

    mount = beside(box, play)
    left = {b"session_stays"}
    harness.eventually(
        lambda: {row[0] for row in mount.keys()} == left, "the rows go"
    )


# Coding agents


def test_claude_code_appends_with_fsync_and_rewrites_the_tail(box):
    def play(root):
        client = clients.ClaudeCode(root)
        path = client.at("-home-me-project", "0b5d.jsonl")
        for number in range(6):
            client.append(path, {"type": "user", "n": number})
        client.append(path, {"type": "result", "pad": "会" * 400000})
        client.append(path, {"type": "user", "n": 7})
        client.rewrite_tail(path, [{"type": "summary"}])
        client.append(path, {"type": "user", "n": 8})
        side = client.at("-home-me-project", "0b5d", "subagents", "agent-1.jsonl")
        client.append(side, {"type": "side"})
        client.names(client.at("-home-me-project"))
        return client

    mount = beside(box, play)
    rows = [json.loads(row) for row in mount.rows("-home-me-project", "0b5d")]
    kinds = [row["type"] for row in rows]
    same(kinds, ["user"] * 6 + ["result", "summary", "user"], "rows")
    same(len(mount.rows("-home-me-project", "0b5d/subagents/agent-1")), 1, "the side list")
    mount.check()


def test_codex_holds_one_descriptor_and_every_record_is_a_row_at_once(box):
    def play(root):
        client = clients.Codex(root)
        client.start(("2025", "01", "31"), "rollout-2025-01-31T10-00-00-0b5d")
        for number in range(100):
            client.record({"n": number, "pad": "y" * (37 * number)})
        client.end()
        return client

    mount = beside(box, play)
    same(mount.indexes("2025", "01/31/rollout-2025-01-31T10-00-00-0b5d"), list(range(100)), "rows")
    client = clients.Codex(mount.path)
    client.start(("2025", "02", "01"), "rollout")
    for number in range(20):
        client.record({"n": number})
        same(len(mount.rows("2025", "02/01/rollout")), number + 1, "rows while it is open")
    client.end()


def test_gemini_appends_records_and_repairs_by_rename(box):
    def play(root):
        client = clients.Gemini(root)
        path = client.at("hash", "chats", "session-2025-01-31-0b5d.jsonl")
        for number in range(5):
            client.record(path, {"n": number})
        client.save(path, b'{"torn": \n', flags=os.O_APPEND)
        client.record(path, {"n": 5})
        client.repair(path)
        client.record(path, {"n": 6})
        client.names(os.path.dirname(path))
        return client

    mount = beside(box, play)
    rows = mount.rows("hash", "chats/session-2025-01-31-0b5d")
    same([json.loads(row)["n"] for row in rows], list(range(7)), "rows")
    same(len(mount.keys()), 1, "keys in the store")


# Editors and tools


def test_an_editor_like_vim_saves_by_backup_and_rename_and_in_place(box):
    def play(root):
        client = clients.Client(root)
        os.mkdir(client.at("s"))
        client.save(client.at("s", "k.json"), b'{"a": 1}\n')
        client.save(client.at("s", "l.jsonl"), b'{"n": 1}\n{"n": 2}\n')
        os.chmod(client.at("s", "k.json"), 0o600)
        clients.vim_write(client, client.at("s", "k.json"), b'{"a": 2}\n')
        clients.vim_write(client, client.at("s", "k.json"), b'{"a": 3}\n', backup_copy=True)
        clients.vim_write(client, client.at("s", "l.jsonl"), b'{"n": 1}\n{"n": 3}\n')
        clients.vim_write(client, client.at("s", "l.jsonl"), b'{"n": 4}\n', backup_copy=True)
        return client

    mount = beside(box, play)
    same(mount.rows("s", "k"), [b'{"a": 3}\n'], "the document")
    same(mount.rows("s", "l"), [b'{"n": 4}'], "the list")
    mount.check()


def by_tools(box, *script):
    def play(root):
        client = clients.Client(root)
        os.mkdir(client.at("s"))
        client.save(client.at("s", "k.json"), b'{"a": 1, "b": [1, 2]}\n')
        client.save(client.at("s", "l.jsonl"), b'{"n": 1}\n{"n": 2}\n{"n": 3}\n')
        for step in script:
            shell("cd \"$1\" && " + step, client.at("s"))
            client.read_to_size(client.at("s", "k.json"))
            client.read_to_size(client.at("s", "l.jsonl"))
        client.names(client.at("s"))
        return client

    return beside(box, play)


def test_sed_i_edits_documents_and_lists(box):
    mount = by_tools(box, 's=k.json; sed -i "s/1/7/" $s', 'sed -i "2d" l.jsonl')
    same(mount.rows("s", "k"), [b'{"a": 7, "b": [1, 2]}\n'], "the document")
    same(mount.rows("s", "l"), [b'{"n": 1}', b'{"n": 3}'], "the list")


def test_jq_and_mv_replace_a_document(box):
    need_tool("jq")
    mount = by_tools(
        box, "jq -c '.a = 9' k.json > t && mv t k.json", "jq -c . l.jsonl > t && mv t l.jsonl"
    )
    same(mount.rows("s", "k"), [b'{"a":9,"b":[1,2]}\n'], "the document")
    same(mount.rows("s", "l"), [b'{"n":1}', b'{"n":2}', b'{"n":3}'], "the list")


def test_shell_redirections_append_and_replace(box):
    mount = by_tools(
        box,
        "echo '{\"n\": 4}' >> l.jsonl",
        "cat l.jsonl l.jsonl > copy.jsonl && cp copy.jsonl l.jsonl && rm copy.jsonl",
        "printf '%s' '[]' > k.json",
        "head -n 3 l.jsonl | tee l2.jsonl > /dev/null; mv -f l2.jsonl l.jsonl",
        "truncate -s 0 k.json; echo 5 > k.json",
        "dd if=k.json of=d.json bs=1 conv=notrunc status=none; rm d.json",
    )
    same(mount.rows("s", "l"), [b'{"n": 1}', b'{"n": 2}', b'{"n": 3}'], "the list")
    same(mount.rows("s", "k"), [b"5\n"], "the document")


def test_the_real_vim_saves_a_document(box):
    need_tool("vim")
    mount, session = box.session()
    path = os.path.join(session, "k.json")
    harness.write(path, b'{"a": 1}\n')
    for number, extra in enumerate(("", "set backupcopy=yes |", "set backupcopy=no backup |")):
        edit = f"{extra} %s/1/1{number}/ | wq"
        tool("vim", "-es", "-u", "NONE", "-N", "-c", edit, path, check=False)
        same(read(path).count(b"%d" % number) >= 1, True, f"edit {number}")
        same(mount.rows("s", "k"), [read(path)], "the row")


def test_git_keeps_a_repository_in_a_session(box):
    need_tool("git")
    mount, session = box.session()
    harness.write(os.path.join(session, "l.jsonl"), b"1\n2\n")
    identity = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    tool("git", "init", "-q", session)
    tool("git", "-C", session, "add", ".")
    tool("git", "-C", session, *identity, "commit", "-q", "-m", "one")
    harness.append(os.path.join(session, "l.jsonl"), b"3\n")
    status = tool("git", "-C", session, "status", "--porcelain").stdout
    same(status, b" M l.jsonl\n", "status")
    tool("git", "-C", session, "checkout", "-q", ".")
    same(mount.rows("s", "l"), [b"1", b"2"], "rows after a checkout")
    tool("git", "-C", session, "fsck", "--strict")
    mount.remount()
    same(tool("git", "-C", session, "status", "--porcelain").stdout, b"", "status")


def test_older_layouts_at_the_root_are_ordinary_files(box):
    def play(root):
        client = clients.Client(root)
        clients.old_layout(client, "session1", b'{"agent": {"memory": []}}')
        clients.old_layout(client, "alice_session1", b'{"name": "caf\xe9"}')
        client.names(root)
        return client

    mount = beside(box, play)
    same(mount.keys(), [], "keys in the store")


if __name__ == "__main__":
    harness.main(globals())
