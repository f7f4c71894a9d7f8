#!/usr/bin/python3 -B
# SPDX-License-Identifier: MIT
"""The recipes in contrib/examples do what they say."""

import contextlib
import importlib.machinery
import importlib.util
import json
import multiprocessing
import os
import shutil
import stat
import subprocess
import sys

import clients
import harness
from harness import (
    TOP,
    Skip,
    append,
    eventually,
    need_root,
    need_tool,
    read,
    same,
    same_trees,
    tool,
    tree,
    write,
)
from test_transcripts import FOLDERS, Home

EXAMPLES = os.path.join(TOP, "contrib", "examples")
DATA = os.path.join(TOP, "tests", "data", "agents")
sys.dont_write_bytecode = True


def example(name):
    return os.path.join(EXAMPLES, name)


def module_of(name, folder=EXAMPLES):
    """A Python program among the recipes, as a module."""
    path = os.path.join(folder, name)
    loader = importlib.machinery.SourceFileLoader(name.replace("-", "_"), path)
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


def said_of(done):
    return (done.stdout + done.stderr).decode("utf-8", "replace")


def refused(done, *words):
    same(done.returncode, 1, f"exit status (it says {said_of(done)!r})")
    for word in words:
        assert word in said_of(done), f"{said_of(done)!r} does not say {word!r}"


def plain_tree(root):
    """What a backup has to bring back: not the times of the folder itself."""
    found = tree(root)
    found.pop("")
    return found


# One session, with files and with SQL


def test_a_service_with_sql_and_an_agent_with_files_share_a_session(box):
    mount = box.mount()
    service = module_of("database_session.py").DatabaseSession(mount.store)
    agent = clients.AgentScope1(mount.path)
    agent.save_list("demo", "memory_messages", [{"n": 0}, {"n": 1}])
    same(service.get_list("demo", "memory_messages"), [{"n": 0}, {"n": 1}], "what the service sees")
    path = mount.at("demo", "memory_messages.jsonl")
    append(path, b'{"n":1.50}\n')  # as Python would not write it
    texts = mount.rows("demo", "memory_messages")
    before = mount.stamps("demo", "memory_messages")

    service.update("demo", "memory_messages", lambda items: items.append({"n": 2}))
    eventually(lambda: len(read(path).splitlines()) == 4, "the agent sees what the service added")
    same(mount.stamps("demo", "memory_messages")[:3], before, "stamps of the other rows")
    same(mount.rows("demo", "memory_messages")[:3], texts, "texts of the other rows")

    agent = clients.AgentScope1(mount.path)
    items = agent.load_list("demo", "memory_messages")
    agent.save_list("demo", "memory_messages", items + [{"n": 3}])
    expected = [{"n": n} for n in (0, 1, 1.5, 2, 3)]
    same(service.get_list("demo", "memory_messages"), expected, "what the service sees then")
    service.save_list("demo", "memory_messages", expected[:1])
    eventually(lambda: read(path) == b'{"n": 0}\n', "the list is short for the agent, too")


def test_a_list_of_one_item_that_a_service_begins_is_a_list_for_the_agent(box):
    mount = box.mount()
    service = module_of("database_session.py").DatabaseSession(mount.store)
    service.save_list("demo", "memory_messages", [{"n": 0}])
    service.save("demo", "agent_meta", {"name": "a"})
    names = ["agent_meta.json", "memory_messages.hash", "memory_messages.jsonl"]
    eventually(lambda: sorted(os.listdir(mount.at("demo"))) == names, "the files appear")
    agent = clients.AgentScope1(mount.path)
    same(agent.load_list("demo", "memory_messages"), [{"n": 0}], "what the agent loads")
    agent.save_list("demo", "memory_messages", [{"n": 0}, {"n": 1}])
    same(service.get_list("demo", "memory_messages"), [{"n": 0}, {"n": 1}], "what it has saved")
    same(service.get("demo", "agent_meta"), {"name": "a"}, "the document")
    same(service.sessions(), ["demo"], "sessions")
    service.delete("demo")
    eventually(lambda: not os.path.exists(mount.at("demo", "agent_meta.json")), "they are gone")


def add_by_sql(store, who, count):
    service = module_of("database_session.py").DatabaseSession(store)
    for n in range(count):
        service.update("demo", "messages", lambda items: items.append({"who": who, "n": n}))


def test_services_and_an_agent_that_append_at_once_lose_nothing(box):
    mount, session = box.session("demo")
    path = os.path.join(session, "messages.jsonl")
    append(path, b'{"who": "agent", "n": 0}\n')
    with multiprocessing.get_context("fork").Pool(2) as pool:
        waiting = [pool.apply_async(add_by_sql, (mount.store, f"sql{i}", 20)) for i in range(2)]
        for n in range(1, 40):
            append(path, b'{"who": "agent", "n": %d}\n' % n)
        for one in waiting:
            one.get()
    service = module_of("database_session.py").DatabaseSession(mount.store)
    items = service.get_list("demo", "messages")
    for who, count in (("agent", 40), ("sql0", 20), ("sql1", 20)):
        same([i["n"] for i in items if i["who"] == who], list(range(count)), f"items of {who}")
    eventually(lambda: len(read(path).splitlines()) == 80, "the file has all of them")
    mount.check()


def test_a_document_a_session_in_a_folder_is_a_row_as_agentscope_for_python_writes_it(box):
    mount = box.mount()
    folder = mount.at("agentscope")  # the save_dir of agentscope_sessions.py
    for turns in (1, 2):
        os.makedirs(folder, exist_ok=True)
        state = {"agent": {"turns": turns, "said": ["日本"] * turns}}
        with open(os.path.join(folder, "demo.json"), "w", encoding="utf-8") as file:
            file.write(json.dumps(state, ensure_ascii=False))
    rows = [json.loads(row) for row in mount.rows("agentscope", "demo")]
    same(rows, [{"agent": {"turns": 2, "said": ["日本", "日本"]}}], "rows")


@contextlib.contextmanager
def package_of_python(name):
    """The package is in no distribution; where somebody has it, its recipe is run for real."""
    if tool("python3", "-c", f"import {name}", check=False).returncode != 0:
        raise Skip(f"the package {name} is not installed (Debian does not have it)")
    yield


def test_the_program_for_agentscope_goes_on_with_its_session(box):
    with package_of_python("agentscope.session"):
        mount = box.mount()
        for _ in range(2):
            tool("python3", "-B", example("agentscope_sessions.py"), mount.path, "demo", "hello")
        rows = [json.loads(row) for row in mount.rows("agentscope", "demo")]
        same(rows, [{"agent": {"turns": 2, "said": ["hello", "hello"]}}], "rows")


def test_the_program_for_strands_goes_on_with_its_session(box):
    with package_of_python("strands.session.file_session_manager"):
        mount = box.mount()
        for _ in range(2):
            tool("python3", "-B", example("strands_sessions.py"), mount.path, "demo", "hello")
        keys = [key for session, key in mount.keys() if session == b"session_demo"]
        same(b"agents/agent_example/messages/message_1" in keys, True, f"a message in {keys}")


# Transcripts


# Questions


def expected_answers():
    """Roles, tools and tokens, counted by hand here."""
    return {
        "roles": [
            "claude|assistant|16",
            "claude|user|22",
            "codex|assistant|2",
            "codex|user|6",
            "gemini|assistant|5",
            "gemini|user|5",
            "scope|assistant|1",
            "scope|user|1",
            "session_s|assistant|1",
        ],
        "tools": [
            "TodoWrite|4",
            "apply_patch|2",
            "read_file|2",
            "weather|2",
            "Bash|1",
            "Edit|1",
            "FailingTool|1",
            "MultiEdit|1",
            "exec_command|1",
            "run_command|1",
            "shell_command|1",
            "write_stdin|1",
        ],
        "tokens": ["2024-01-01|3860|680", "2025-06-14|1293|893", "2025-07-01|10|7"],
    }


def filled_store(box):
    mount, home = box.mount(), Home(box)
    # Two lines of one answer, which count once, and the count of a turn of Codex.
    usage = {"input_tokens": 4, "output_tokens": 2}
    answer = {"id": "msg_twice", "usage": usage}
    line = {"type": "assistant", "timestamp": "2025-07-01T00:00:00Z", "message": answer}
    twice = home.at(".claude", "projects", "-home-me-project", "twice.jsonl")
    for _ in range(2):
        append(twice, json.dumps(line).encode() + b"\n")
    info = {"last_token_usage": {"input_tokens": 6, "output_tokens": 5}}
    line = {"type": "event_msg", "timestamp": "2025-07-01T00:00:00Z"}
    line["payload"] = {"type": "token_count", "info": info}
    turn = home.at(".codex", "sessions", "2024", "01", "01", "turn.jsonl")
    append(turn, json.dumps(line).encode() + b"\n")
    for place in FOLDERS:
        client, folder = place[1:].split("/")
        shutil.copytree(home.at(place), mount.at(client, folder))

    agent = clients.AgentScope1(mount.path)
    call = {"type": "tool_use", "name": "weather"}
    said = [{"role": "USER", "content": [{"type": "text", "text": "A Word"}]}]
    agent.save_list("scope", "memory", said + [{"role": "assistant", "content": [call]}])
    strands = clients.Strands(mount.path)
    strands.create_session("s")
    strands.create_agent("s", "a")
    message = {"role": "assistant", "content": [{"toolUse": {"name": "weather"}}]}
    strands.save_document(strands.message("s", "a", 0), {"message": message, "message_id": 0})
    write(mount.at("scope", "draft.json"), b'{"role": "user", "content": "never')
    return mount


def answers_of_sql(store, *arguments):
    with open(example("queries.sql"), "rb") as queries:
        done = tool("sqlite3", "-readonly", *arguments, store, stdin=queries.read())
    answers = {}
    for line in done.stdout.decode().splitlines():
        if "|" not in line:
            answers[line] = asked = []
        else:
            asked.append(line)
    return answers


def test_questions_in_sql_are_answered(box):
    need_tool("sqlite3")
    mount = filled_store(box)
    word = ("-cmd", ".parameter set @word 'DECORATOR'")

    def ask():
        answers = answers_of_sql(mount.store, *word)
        for title, name in (
            ("Messages of each role", "roles"),
            ("Tool calls by name", "tools"),
            ("Tokens of each day", "tokens"),
        ):
            same(answers[title], expected_answers()[name], title)
        found = answers["What was said with @word in it"]
        same(len(found), 6, f"places with the word in {found}")
        same(all("ecorator" in line for line in found), True, f"the word in {found}")
        last = answers["The last three items of each list"]
        key = "claude|projects/-home-me-project/edge_cases|"
        places = [int(line[len(key) :].split("|")[0]) for line in last if line.startswith(key)]
        same(places, [16, 17, 18], "the last items of a list")
        sessions = answers["Sessions, the one used last first"]
        names = sorted(line.split("|")[0] for line in sessions)
        same(names, ["claude", "codex", "gemini", "scope", "session_s"], "sessions")

    ask()
    before = mount.sql("SELECT count(*), group_concat(name) FROM sqlite_schema")
    mount.stop()
    ask()
    same(mount.sql("SELECT count(*), group_concat(name) FROM sqlite_schema"), before, "the schema")


def test_questions_to_jq_have_the_same_answers(box):
    need_tool("jq")
    mount = filled_store(box)

    def ask(*question):
        done = tool(example("queries-jq"), mount.path, *question)
        return done.stdout.decode().splitlines()

    for question, expected in expected_answers().items():
        same(ask(question), expected, question)
    found = ask("word", "DECORATOR")
    same(len(found), 6, f"places with the word in {found}")
    same(tool(example("queries-jq"), mount.path, "x", check=False).returncode, 2, "no question")


# Backups


class Backup:
    def __init__(self, box, name):
        need_tool(name)
        self.box = box
        self.name = name
        self.repository = box.new_path("repository")
        programs = box.new_folder("bin")
        os.symlink(box.program, os.path.join(programs, "sessfs"))
        self.environment = {
            "PATH": programs + os.pathsep + os.environ["PATH"],
            "HOME": box.new_folder("home"),
            "RESTIC_PASSWORD": "secret",
            "BORG_PASSPHRASE": "secret",
        }

    def run(self, source, check=True):
        command = (example("nightly-backup"), self.name, source, self.repository)
        return tool(*command, check=check, env=self.environment, cwd=self.box.folder)

    def listed(self):
        command = {"restic": "restic -q -r $1 snapshots --json", "borg": "borg list $1"}[self.name]
        done = tool("sh", "-c", command, "sh", self.repository, env=self.environment)
        return done.stdout.decode()

    def restored(self):
        """The last backup, brought back into a new folder by the commands of backups.md."""
        folder = self.box.new_folder("restored")
        command = {
            "restic": 'restic -q -r "$1" restore latest --target "$2"',
            "borg": 'cd "$2" && borg extract "$1::$(borg list --last 1 --format {archive} "$1")"',
            "rsync": 'rsync -aHX "$1/latest/" "$2/"',
        }[self.name]
        tool("sh", "-c", command, "sh", self.repository, folder, env=self.environment)
        return folder


def files_of(box, name):
    backup = Backup(box, name)
    mount = filled_store(box)
    os.setxattr(mount.at("scope", "memory.jsonl"), "user.kind", b"memory")
    os.symlink("memory.jsonl", mount.at("scope", "link"))
    backup.run(mount.path)
    first = plain_tree(mount.path)
    same_trees(first, plain_tree(backup.restored()), f"the first night, {name}: ")

    # Another store in the same repository, between two nights of this one: neither drives the
    # other out.  (Of one series, the tools would keep the last and the oldest.)
    if name != "rsync":
        other = box.mount()
        write(other.at("note"), b"other")
        backup.run(other.path)
    append(mount.at("scope", "memory.jsonl"), b'{"role": "user", "content": "late"}\n')
    os.unlink(mount.at("scope", "draft.json"))
    backup.run(mount.path)
    folder = backup.restored()
    same_trees(plain_tree(mount.path), plain_tree(folder), f"the second night, {name}: ")
    if name != "rsync":
        label = other.path if name == "restic" else other.path.replace("/", "-")
        same(label in backup.listed(), True, f"a backup of the other store, {name}")

    # And into a store again.
    fresh = box.mount()
    tool("cp", "-a", folder + "/.", fresh.path)
    same_trees(plain_tree(mount.path), plain_tree(fresh.path), f"in a new store, {name}: ")
    query = "SELECT session_id, state_key, item_index, state_data FROM agentscope_sessions"
    same(sorted(fresh.sql(query)), sorted(mount.sql(query)), "rows")

    mount.stop()
    refused(backup.run(mount.path, check=False), "no store is mounted")


@harness.soak
def test_restic_backs_the_files_of_a_mount_up(box):
    files_of(box, "restic")


@harness.soak
def test_borg_backs_the_files_of_a_mount_up(box):
    files_of(box, "borg")


def test_rsync_backs_the_files_of_a_mount_up(box):
    files_of(box, "rsync")


def test_rsync_keeps_as_many_nights_as_it_is_told_and_links_what_is_the_same(box):
    backup = Backup(box, "rsync")
    mount, session = box.session()
    write(os.path.join(session, "same.json"), b"{}")
    backup.environment["SESSFS_NIGHTS"] = "2"
    for night in range(4):
        write(os.path.join(session, "other.json"), b"%d" % night)  # of the same size
        backup.run(mount.path)
    nights = sorted(n for n in os.listdir(backup.repository) if n.startswith("20"))
    same(len(nights), 2, "nights")
    same(os.readlink(os.path.join(backup.repository, "latest")), nights[-1], "the latest")
    for night, expected in zip(nights, (b"2", b"3")):
        path = os.path.join(backup.repository, night, "s")
        same(read(os.path.join(path, "other.json")), expected, f"of {night}")
        same(os.stat(os.path.join(path, "same.json")).st_nlink, 2, f"links of {night}")


def store_of(box, name, nights=1):
    backup = Backup(box, name)
    mount = filled_store(box)
    query = "SELECT session_id, state_key, item_index, state_data, updated_at"
    query += " FROM agentscope_sessions ORDER BY 1, 2, 3"
    for night in range(nights):
        append(mount.at("scope", "memory.jsonl"), b'{"night": %d}\n' % night)
        backup.run(mount.store)
        same(os.path.exists(mount.store + ".nightly"), False, "something is left")
        store = box.new_path("store") + ".db"
        copy = os.path.join(backup.restored(), "store.db")
        same(box.sessfs("restore", copy, store).returncode, 0, "restoring")
        restored = box.mount(store=store)
        same(restored.sql(query), mount.sql(query), f"rows, {name}")
        same_trees(plain_tree(mount.path), plain_tree(restored.path), f"files, {name}: ")
        restored.stop()


def test_restic_backs_a_store_up(box):
    store_of(box, "restic")


@harness.soak
def test_borg_backs_a_store_up(box):
    store_of(box, "borg")


def test_rsync_backs_a_store_up(box):
    store_of(box, "rsync", nights=2)


def test_a_store_with_a_row_that_is_not_json_is_backed_up(box):
    backup = Backup(box, "rsync")
    mount = filled_store(box)
    mount.insert("scope", "bad", 0, "no JSON")
    backup.run(mount.store)
    restored = box.mount(store=os.path.join(backup.restored(), "store.db"))
    same(restored.rows("scope", "bad"), [b"no JSON"], "the row")


def test_only_one_backup_of_a_store_runs_at_once(box):
    backup = Backup(box, "rsync")
    mount = box.mount()
    os.mkdir(mount.store + ".nightly")
    refused(backup.run(mount.store, check=False), "another backup")
    same(os.path.exists(backup.repository), False, "a backup")
    os.rmdir(mount.store + ".nightly")


def test_a_store_that_is_damaged_is_not_backed_up(box):
    backup = Backup(box, "rsync")
    mount = filled_store(box)
    mount.stop()
    with open(mount.store, "r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * 8192)
    refused(backup.run(mount.store, check=False), mount.store)
    same(os.path.exists(backup.repository), False, "a backup")


def test_the_units_for_nightly_backups_are_valid(box):
    need_tool("systemd-analyze")
    home = box.new_folder("home")
    program = os.path.join(home, ".local", "bin", "nightly-backup")
    os.makedirs(os.path.dirname(program))
    shutil.copy(example("nightly-backup"), program)
    for name in ("sessfs-backup.service", "sessfs-backup.timer"):
        text = read(example(name)).decode().replace("%h", home)
        write(os.path.join(home, name), text.encode())
    units = [os.path.join(home, n) for n in ("sessfs-backup.service", "sessfs-backup.timer")]
    done = tool("systemd-analyze", "verify", *units, check=False)
    complaints = [line for line in said_of(done).splitlines() if "sessfs-backup" in line]
    same(complaints, [], "complaints")


# Several users

TEAM, ALICE, BOB, EVE = 60000, 60001, 60002, 60003


def as_user(user, script, *arguments, group=TEAM):
    who = ["--reuid", str(user), "--regid", str(user)]
    who += ["--groups", str(group)] if group else ["--clear-groups"]
    command = ["setpriv", *who, "--", "sh", "-c", script, "sh", *arguments]
    return tool(*command, check=False)


def test_users_of_a_group_share_sessions_and_nobody_else_does(box):
    need_root()
    need_tool("setpriv")
    os.chmod(box.folder, 0o755)
    mount = box.mount(options=["allow_other"])
    tool(example("shared-mount"), mount.path, str(TEAM), "team")
    tool(example("shared-mount"), mount.path, f"{ALICE}:", "diary")
    tool(example("shared-mount"), mount.path, str(TEAM), "team")  # again: nothing changes
    team, diary = mount.at("team"), mount.at("diary")
    status = os.stat(team)
    same((stat.S_IMODE(status.st_mode), status.st_gid), (0o2770, TEAM), "the shared session")
    status = os.stat(diary)
    same((stat.S_IMODE(status.st_mode), status.st_uid), (0o700, ALICE), "the session of one user")

    def works(user, script, path, **named):
        done = as_user(user, script, path, **named)
        same(done.returncode, 0, f"{user}: {script} (it says {said_of(done)!r})")
        return done.stdout

    # Files and folders that one makes belong to the group, and the other writes them.
    works(ALICE, "umask 007; cd $1; mkdir sub; echo '1' >l.jsonl; echo '{}' >sub/k.json", team)
    for path, mode in (("l.jsonl", 0o660), ("sub", 0o2770), ("sub/k.json", 0o660)):
        status = os.stat(os.path.join(team, path))
        same((stat.S_IMODE(status.st_mode), status.st_gid), (mode, TEAM), f"mode of {path}")
        same(status.st_uid, ALICE, f"owner of {path}")
    works(BOB, "umask 007; cd $1; echo '2' >>l.jsonl; echo '[1]' >sub/k.json", team)
    same(mount.rows("team", "l"), [b"1", b"2"], "rows of both")
    same(works(ALICE, "cat $1/sub/k.json", team), b"[1]\n", "what the other has saved")
    # An editor's save: another file is renamed over the first.
    works(BOB, "umask 007; cd $1; echo '{\"b\": 1}' >t && mv t sub/k.json", team)
    works(ALICE, "umask 007; cd $1; echo '{\"a\": 1}' >>sub/list.jsonl; echo 3 >sub/k.json", team)

    for user, group, path in ((EVE, None, team), (EVE, None, diary), (BOB, TEAM, diary)):
        for script in ("ls $1", "cat $1/l.jsonl", "echo 1 >$1/new.jsonl"):
            same(as_user(user, script, path, group=group).returncode != 0, True, f"{user} {script}")
    works(ALICE, "echo '1' >$1/d.jsonl", diary)
    same(as_user(EVE, "mkdir $1/eve", mount.path, group=None).returncode != 0, True, "a session")

    # Without the umask, the other may read but not write.
    works(ALICE, "umask 022; echo 1 >$1/mine.jsonl", team)
    same(as_user(BOB, "echo 2 >>$1/mine.jsonl", team).returncode != 0, True, "a write")
    mount.remount()
    status = os.stat(team)
    same((stat.S_IMODE(status.st_mode), status.st_gid), (0o2770, TEAM), "after a remount")


APPEND = 'umask 007; for n in $(seq 50); do echo "{\\"u\\": $2, \\"n\\": $n}" >>$1/l.jsonl; done'


def test_users_that_append_at_once_never_mix_their_lines(box):
    need_root()
    need_tool("setpriv")
    os.chmod(box.folder, 0o755)
    mount = box.mount(options=["allow_other"])
    tool(example("shared-mount"), mount.path, str(TEAM), "team")
    with contextlib.ExitStack() as stack:
        writers = []
        for user in (ALICE, BOB):
            who = ["--reuid", str(user), "--regid", str(user), "--groups", str(TEAM)]
            command = ["setpriv", *who, "--", "sh", "-c", APPEND, "sh", mount.at("team"), str(user)]
            writers.append(stack.enter_context(subprocess.Popen(command)))
        for writer in writers:
            same(writer.wait(), 0, "exit status")
    rows = [json.loads(row) for row in mount.rows("team", "l")]
    for user in (ALICE, BOB):
        same([row["n"] for row in rows if row["u"] == user], list(range(1, 51)), f"of {user}")


def test_a_mount_for_its_owner_alone_is_not_called_shared(box):
    mount = box.mount()
    done = tool(example("shared-mount"), mount.path, "0", "team", check=False)
    refused(done, "-o allow_other")
    done = tool(example("shared-mount"), box.new_folder("no-mount"), "0", "team", check=False)
    refused(done, "no store is mounted")


def test_a_mount_with_a_blank_in_its_path_is_found(box):
    harness.need_allow_other()
    mount = box.mount(path=box.new_folder("a b\\c"), options=["allow_other"])
    tool(example("shared-mount"), mount.path, "0", "team")
    same(os.listdir(mount.path), ["team"], "the session")
    for path, status in ((mount.path, 0), (box.new_folder("a b\\d"), 1)):
        script = '. "$0" >/dev/null; is_mounted "$DIR"'
        command = ("sh", "-c", script, os.path.join(TOP, "bootstrap"), "help")
        done = tool(*command, check=False, env={"DIR": path})
        same(done.returncode, status, f"bootstrap: {path}")


# The tour


def tour_tools():
    for name in ("bash", "sqlite3", "jq", "getfattr"):
        need_tool(name)
    return module_of("record-tour", os.path.join(TOP, "doc"))


def test_the_recorded_tour_is_what_its_commands_print(box):
    recorder = tour_tools()
    os.environ["SESSFS_TOUR_MB"] = "3"
    text = read(os.path.join(TOP, "doc", "tour.txt")).decode()
    steps = recorder.steps_of(text)
    same(recorder.text_of(steps), text, "the tour, as it is read")
    same(recorder.differences(steps, recorder.record(steps, box.program)), [], "differences")
    cast = [json.loads(line) for line in recorder.cast_of(steps).splitlines()]
    shown = "".join(event[2] for event in cast[1:]).replace("\r\n", "\n")
    same(shown, text, "what the cast shows")


# What stands for a checkout and a build in a home.
CHECKOUT = """
mkdir -p build && ln -s "$(command -v sessfs)" build/sessfs
printf '%s\\n' 'mkdir -p sessions ~/.local/share/sessfs' \
    'exec sessfs mount ~/.local/share/sessfs/store.db sessions' >bootstrap && chmod +x bootstrap
"""


def steps_of_section(recorder, file, title):
    text = read(os.path.join(TOP, file)).decode()
    text = text.split(f"\n## {title}\n")[1].split("\n## ")[0]
    blocks = [part.split("```")[0] for part in text.split("```console\n")[1:]]
    # A command that goes on is indented there; a comment behind one is not typed.
    steps = []
    for command, printed in recorder.steps_of("".join(blocks)):
        while printed and command.count('"') % 2:
            command += "\n" + printed.pop(0)
        steps.append([command, printed])
    return steps


def prints_what_it_says(box, file, title, commands):
    recorder = tour_tools()
    steps = steps_of_section(recorder, file, title)
    same(len(steps), commands, f"commands in {file}")
    steps.insert(-1, ["wait", []])  # for what runs in the background: a person has read meanwhile
    seen = recorder.record(steps, box.program, prepare=[CHECKOUT])
    for (command, expected), (_, printed) in zip(steps, seen):
        if expected:
            same(" ".join(printed).split(), " ".join(expected).split(), command)


def test_the_readme_prints_what_it_says(box):
    prints_what_it_says(box, "README.md", "What it looks like", 9)


def test_the_tour_of_the_guide_prints_what_the_guide_says(box):
    prints_what_it_says(box, "doc/guide.md", "A tour", 17)


if __name__ == "__main__":
    harness.main(globals())
