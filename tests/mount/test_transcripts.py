#!/usr/bin/python3 -B
# SPDX-License-Identifier: MIT
"""keep: transcripts of coding agents move into a store, and the clients go on in it."""

import contextlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import time

import clients
import harness
from harness import TOP, append, eventually, need_root, read, same, same_trees, tool, tree, write

DATA = os.path.join(TOP, "tests", "data", "agents")
# By the variable that names its folder: the client, and where its sessions are in that.
PLACE_OF = {
    "CLAUDE_CONFIG_DIR": ("claude", "projects"),
    "CLINE_DATA_DIR": ("cline", "sessions"),
    "CODEX_HOME": ("codex", "sessions"),
    "COPILOT_HOME": ("copilot", "session-state"),
    "GEMINI_CLI_HOME": ("gemini", ".gemini/tmp"),
    "KIMI_CODE_HOME": ("kimi", "sessions"),
    "PI_CODING_AGENT_DIR": ("pi", "sessions"),
    "QWEN_HOME": ("qwen", "projects"),
    "XDG_DATA_HOME": ("opencode", "opencode/storage"),
}
EVERYBODY = [client for client, _ in PLACE_OF.values()]
LAYOUT = "layout=" + "+".join(EVERYBODY)
PLACES = {
    "claude-code": (".claude", "projects", "-home-me-project"),
    "codex": (".codex", "sessions", "2024", "01", "01"),
    "gemini": (".gemini", "tmp", "0b5d", "chats"),
}
FOLDERS = (".claude/projects", ".codex/sessions", ".gemini/tmp")


def said(done):
    return (done.stdout + done.stderr).decode()


def refused(done, *words):
    same(done.returncode, 1, f"status, saying {said(done)!r}")
    for word in words:
        assert word in said(done), (word, said(done))


class Home:
    """A home with transcripts of three clients."""

    def __init__(self, box):
        self.box = box
        self.path = box.new_folder("home")
        for agent, place in PLACES.items():
            shutil.copytree(os.path.join(DATA, agent), os.path.join(self.path, *place))
        os.chmod(self.at(".claude", "projects"), 0o700)
        os.utime(self.at(".codex", "sessions", "2024", "01", "01", "fc_stdin.jsonl"), (5, 5))
        self.before = self.trees()

    def at(self, *names):
        return os.path.join(self.path, *names)

    def trees(self):
        found = {}
        for place in FOLDERS:
            for path, entry in tree(self.at(place) + "/.", times=True).items():
                found[os.path.join(place, path)] = entry
        return found

    def environment(self, **more):
        return {"HOME": self.path, **dict.fromkeys(PLACE_OF, ""), **more}

    def keep(self, *arguments, status=0, **more):
        done = self.box.sessfs("keep", *arguments, env=self.environment(**more))
        same(done.returncode, status, f"keep {arguments}, saying {said(done)!r}")
        return done

    def keep_status(self, path):
        return self.box.sessfs("keep", "claude", path, env=self.environment()).returncode


def kept(box):
    return box.mount(options=[LAYOUT]), Home(box)


def ids(box, mount):
    listed = json.loads(box.sessfs("sessions", "--json", mount.store, check=True).stdout)
    return {session["id"] for session in listed}


def test_the_store_may_be_left_out(box):
    mount, home = kept(box)
    home.keep("claude", status=2)
    home.keep("claude", "pi", SESSFS_STORE=mount.store)
    listed = home.keep("--status", SESSFS_STORE=mount.path).stdout
    same(listed.count(b" is kept in "), 2, "what is kept")
    home.keep("--undo", "claude", "-", SESSFS_STORE=mount.path)
    home.keep("--undo", "pi", SESSFS_STORE=mount.store)
    same_trees(home.before, home.trees())
    home.keep(SESSFS_STORE=mount.store, status=2)


def test_each_transcript_is_a_session_and_comes_back_byte_for_byte(box):
    mount, home = kept(box)
    home.keep(*EVERYBODY, mount.path)
    for client, place in (("claude", ".claude/projects"), ("gemini", ".gemini/tmp")):
        target = os.path.join(mount.path, client, os.path.basename(place))
        same(os.readlink(home.at(place)), target, f"the link of {client}")
    same_trees(home.before, home.trees(), "through the links: ")
    rows = mount.rows("claude:-home-me-project:valid_session", "transcript")
    expected = read(os.path.join(DATA, "claude-code", "valid_session.jsonl")).splitlines()
    same(rows, expected, "rows of a transcript")
    found = ids(box, mount)
    for session in ("claude:-home-me-project:valid_session", "codex:2024/01/01:fc_stdin"):
        assert session in found, (session, found)
    mount.check()

    folders = len(EVERYBODY) + 1  # Codex has two
    same(said(home.keep(*EVERYBODY, mount.path)).count("already"), folders,
         "folders kept already")
    for name in (mount.path, mount.store):
        known = said(home.keep("--status", name))
        same(known.count(" is kept in "), folders, f"folders, of {name}")
        known = said(home.keep("--status", "-", SESSFS_STORE=name))
        same(known.count(" is kept in "), folders, f"folders, of {name} in the environment")

    home.keep("--undo", *EVERYBODY, mount.path)
    same(os.path.islink(home.at(".claude", "projects")), False, "still a link")
    same_trees(home.before, home.trees(), "after undoing: ")
    assert "is not kept" in said(home.keep("--undo", "claude", mount.path))
    refused(home.keep("claude", mount.path, status=1), "not empty")
    same_trees(home.before, home.trees(), "refused: ")


def test_clients_go_on_in_transcripts_that_are_kept(box):
    mount, home = kept(box)
    home.keep("claude", "codex", mount.path)
    claude = clients.ClaudeCode(home.at(".claude", "projects"))
    claude.append(claude.at("-home-me-project", "valid_session.jsonl"), {"type": "user", "n": 1})
    claude.append(claude.at("-home-me-other", "new.jsonl"), {"type": "user", "n": 2})
    rows = mount.rows("claude:-home-me-project:valid_session", "transcript")
    same(json.loads(rows[-1]), {"type": "user", "n": 1}, "the row of an appended message")
    rows = mount.rows("claude:-home-me-other:new", "transcript")
    same(len(rows), 1, "rows of a new transcript")

    codex = clients.Codex(home.at(".codex", "sessions"))
    codex.start(("2024", "01", "02"), "rollout-1")
    codex.record({"n": 1})
    codex.end()
    # It archives by renaming, which works between two folders of one mount only.
    os.rename(codex.path, home.at(".codex", "archived_sessions", "rollout-1.jsonl"))
    rows = mount.rows("codex:archived:rollout-1", "transcript")
    same(len(rows), 1, "rows of the archived one")

    home.keep("--undo", "claude", "codex", mount.path)
    lines = read(home.at(".claude", "projects", "-home-me-project", "valid_session.jsonl"))
    same(json.loads(lines.splitlines()[-1]), {"type": "user", "n": 1}, "the message comes back")
    archived = home.at(".codex", "archived_sessions", "rollout-1.jsonl")
    same(read(archived), b'{"n": 1}\n', "the archived transcript comes back")


def test_folders_are_where_the_variables_of_the_clients_say(box):
    mount, home = box.mount(options=[LAYOUT]), Home(box)
    for variable, (client, below) in PLACE_OF.items():
        base = home.at("elsewhere", client)
        os.makedirs(os.path.join(base, os.path.dirname(below)))
        home.keep(client, mount.path, **{variable: base})
        link = os.readlink(os.path.join(base, below))
        same(link, mount.at(client, os.path.basename(below)), variable)
    same_trees(home.before, home.trees(), "those of the home: ")


def test_transcripts_that_are_open_are_not_touched(box):
    mount, home = kept(box)
    path = home.at(".codex", "sessions", "2024", "01", "01", "fc_stdin.jsonl")
    with open(path, "ab"):
        refused(home.keep("codex", mount.path, status=1), f"process {os.getpid()}", path)
        same_trees(home.before, home.trees(), "refused: ")
        same(os.listdir(mount.path), [], "the store")
    home.keep("codex", mount.path)
    with open(path, "ab"):
        done = home.keep("--undo", "codex", mount.path, status=1)
        refused(done, f"process {os.getpid()}")
        same(os.path.islink(home.at(".codex", "sessions")), True, "still a link")


def test_what_cannot_be_kept_is_said_and_nothing_changes(box):
    home, folder = Home(box), box.new_folder("no-mount")
    store = box.new_path("store") + ".db"
    for name, word in ((folder, "is not mounted"), (store, "is not mounted")):
        refused(home.keep("claude", name, status=1), word)
    same(os.listdir(folder), [], "the folder")

    mount = box.mount(store=store)
    done = home.keep("claude", "codex", mount.path, status=1)
    refused(done, f"sessfs config {store} layout=claude+codex")
    same(os.listdir(mount.path), [], "the store")
    mount.unmount()
    box.sessfs("config", store, "layout=claude+codex", check=True)
    mount = box.mount(store=store)
    refused(home.keep("pi", mount.path, status=1), "layout=claude+codex+pi")
    home.keep("claude", mount.path)

    mount = box.mount(options=[LAYOUT])
    elsewhere = box.new_folder("elsewhere")
    shutil.rmtree(home.at(".gemini", "tmp"))
    os.symlink(elsewhere, home.at(".gemini", "tmp"))
    refused(home.keep("gemini", mount.path, status=1), "is a link to")
    same(os.readlink(home.at(".gemini", "tmp")), elsewhere, "the link")
    same(home.keep("emacs", mount.path, status=2).returncode, 2, "a client of no name")
    same(home.keep(mount.path, status=2).returncode, 2, "without a client")


def test_without_room_the_folder_stays_and_another_run_goes_on(box):
    mount, home = box.mount(options=[LAYOUT]), busy_home(box)
    long = home.at(".claude", "projects", "-home-me-project", "valid_session.jsonl")
    many = {f"user.n{i:03}{'x' * 200}": b"v" for i in range(15)}
    for name, value in many.items():
        os.setxattr(long, name, value)
    box.sessfs("config", mount.store, "max_size=600K", check=True)
    refused(home.keep("claude", mount.path, status=1), "No space left")
    same(os.path.islink(home.at(".claude", "projects")), False, "a link")
    same_trees(home.before, home.trees(), "refused: ")
    box.sessfs("config", mount.store, "max_size=100M", check=True)
    eventually(lambda: home.keep_status(mount.path) == 0, "there is room")
    same(os.path.islink(home.at(".claude", "projects")), True, "no link")
    same_trees(home.before, home.trees(), "through the link: ")
    for name, value in many.items():
        same(os.getxattr(long, name), value, "an attribute")
    mount.check()


# A client that opens its transcripts anew for each message, as Claude Code does.
CLIENT = """
import os, sys, time
folder, number = sys.argv[1], 0
while not os.path.exists(sys.argv[2]):
    for name in "late", "later-%d" % (number // 50):
        with open(os.path.join(folder, name + ".jsonl"), "ab", buffering=0) as file:
            file.write(b'{"n": %d}\\n' % number)
    number += 1
    time.sleep(0.01)
print(number)
"""


def busy_home(box):
    """So much that a run takes a while."""
    home = Home(box)
    for i in range(300):
        write(home.at(".claude", "projects", "-home-me-project", f"more-{i}.jsonl"),
              b'{"n": 0, "text": "%s"}\n' % (b"x" * 200) * 50)
    home.before = home.trees()
    return home


def test_what_a_client_appends_while_transcripts_move_is_brought_over(box):
    mount, home = box.mount(options=[LAYOUT]), busy_home(box)
    folder = home.at(".claude", "projects", "-home-me-project")
    end = box.new_path("end")
    client = subprocess.Popen(["python3", "-c", CLIENT, folder, end], stdout=subprocess.PIPE)
    try:
        while not os.path.exists(os.path.join(folder, "later-1.jsonl")):
            time.sleep(0.01)
        # It may be seen in the middle of a file; then another run goes on.
        for _ in range(200):
            done = box.sessfs("keep", "claude", mount.path, env=home.environment())
            if "run this again" not in said(done):
                break
    finally:
        write(end, b"")
        count = int(client.communicate()[0])
    expected = [b'{"n": %d}' % n for n in range(count)]
    rows = mount.rows("claude:-home-me-project:late", "transcript")
    if done.returncode:
        # It had gone on behind the link before the last lines of an old file were there: both stay.
        refused(done, "compare the two")
    if "/late.jsonl" in said(done):
        old = read(home.at(".claude", "projects.before", "-home-me-project", "late.jsonl"))
        rows = old.splitlines() + [row for row in rows if row not in old.splitlines()]
    same(rows, expected, "the lines of a client that went on")
    later = [name for name in os.listdir(folder) if name.startswith("later-")]
    same(len(later), (count + 49) // 50, "transcripts that came meanwhile")


def test_a_file_that_is_open_behind_the_change_is_waited_for(box):
    mount, home = kept(box)
    home.keep("claude", mount.path)
    write(mount.at("claude", "projects.unfinished"), home.at(".claude", "projects").encode())
    path = home.at(".claude", "projects.before", "-home-me-project", "valid_session.jsonl")
    with open(path, "ab", buffering=0) as file:
        refused(home.keep("claude", mount.path, status=1), "valid_session.jsonl open")
        file.write(b'{"late": 1}\n')
    said_late = said(home.keep("claude", mount.path))
    assert "in 1 file" in said_late, said_late
    rows = mount.rows("claude:-home-me-project:valid_session", "transcript")
    same(rows[-1], b'{"late": 1}', "the line of a file that was open at the change")


def is_writing(pid, path):
    """Whether a process has a file open to write to it."""
    with contextlib.suppress(OSError):
        for fd in os.listdir(f"/proc/{pid}/fd"):
            if os.readlink(f"/proc/{pid}/fd/{fd}") == path:
                with open(f"/proc/{pid}/fdinfo/{fd}") as info:
                    return int(re.search(r"flags:\t0*([0-7]+)", info.read())[1], 8) & 3 != 0
    return False


def append_meanwhile(box, home, mount, path):
    """To what a run brings over: how many lines came before that was done, and what it said."""
    write(mount.at("claude", "projects.unfinished"), home.at(".claude", "projects").encode())
    keep = subprocess.Popen([box.program, "keep", "claude", mount.path],
                            env={**os.environ, **home.environment()},
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    count = 0
    while keep.poll() is None:
        if count or is_writing(keep.pid, path):
            if not count:
                keep.send_signal(signal.SIGSTOP)
            append(path, b'{"new": %d}\n' % count)
            if not count:
                # Once: a process that is continued all the time cannot be looked at for leaks.
                keep.send_signal(signal.SIGCONT)
            count += 1
    return count, keep.returncode, keep.communicate()[0].decode()


def test_what_a_client_appends_to_what_is_brought_over_stays(box):
    """It goes on behind the link, in a transcript of which the last lines are still to come."""
    mount, home = kept(box)
    home.keep("claude", mount.path)
    before = home.at(".claude", "projects.before", "-home-me-project")
    text = b"x" * 1000
    many = [b'{"old": %d, "text": "%s"}' % (i, text) for i in range(8000)]
    for names in (("valid_session", "session_b"), ("late", "later")):  # that were copied, and not
        for name in names:
            append(os.path.join(before, name + ".jsonl"), b"\n".join(many) + b"\n")
            path = mount.at("claude", "projects", "-home-me-project", name + ".jsonl")
            count, status, words = append_meanwhile(box, home, mount, path)
            if count:
                break
        same(count > 0, True, f"{name}: the client comes in time; {words}")
        lines = read(path).splitlines()
        got = [line for line in lines if line.startswith(b'{"new"')]
        same(got, [b'{"new": %d}' % n for n in range(count)], f"{name}: its lines; {words}")
        got = [line for line in lines if line.startswith(b'{"old"')]
        told = status == 1 and "compare the two" in words and f"/{name}.jsonl" in words
        same(told or got == many, True, f"{name}: the old lines are there, or it says so; {words}")


def test_what_was_rewritten_while_transcripts_moved_is_told(box):
    """The second half of an interrupted run does what the first does behind the change."""
    mount, home = kept(box)
    home.keep("claude", mount.path)
    before = home.at(".claude", "projects.before", "-home-me-project")
    write(os.path.join(before, "session_b.jsonl"), b"{}\n")
    append(os.path.join(before, "valid_session.jsonl"), b'{"late": 1}\n')
    append(os.path.join(before, "late.jsonl"), b'{"late": 2}\n')
    write(mount.at("claude", "projects.unfinished"), home.at(".claude", "projects").encode())
    assert "interrupted" in said(home.keep("--status", mount.path))
    gone_on = mount.at("claude", "projects", "-home-me-project", "todowrite_examples.jsonl")
    append(gone_on, b'{"after": 1}\n')
    done = home.keep("claude", mount.path, status=1)
    refused(done, "compare the two", "session_b.jsonl", "what came meanwhile, in 2 files")
    same(read(gone_on).splitlines()[-1], b'{"after": 1}', "what was written behind the change")
    same("todowrite" in said(done), False, "told as a conflict")
    same(read(os.path.join(before, "session_b.jsonl")), b"{}\n", "the old one stays")
    rows = mount.rows("claude:-home-me-project:valid_session", "transcript")
    same(rows[-1], b'{"late": 1}', "the line that came late")
    rows = mount.rows("claude:-home-me-project:late", "transcript")
    same(rows, [b'{"late": 2}'], "the transcript that came late")
    same(os.listdir(mount.at("claude")), ["projects"], "what is left")
    assert "already" in said(home.keep("claude", mount.path))


def test_what_the_folder_has_no_more_goes_from_an_unfinished_copy(box):
    mount, home = box.mount(options=[LAYOUT]), Home(box)
    folder = home.at(".claude", "projects")
    shutil.rmtree(folder)
    for name in ("same", "removed", "renamed", "was file"):
        os.makedirs(os.path.join(folder, "a"), exist_ok=True)
        write(os.path.join(folder, "a", name + ".jsonl"), b'{"n": 1}\n')
    for name in ("was folder", "was folder too", "goes"):
        os.makedirs(os.path.join(folder, name, "sub"))
        write(os.path.join(folder, name, "sub", "notes"), name.encode())
    os.symlink("same.jsonl", os.path.join(folder, "a", "latest"))
    os.mkfifo(os.path.join(folder, "z"))
    refused(home.keep("claude", mount.path, status=1), "neither a file nor a folder")
    os.unlink(os.path.join(folder, "z"))
    os.unlink(os.path.join(folder, "a", "removed.jsonl"))
    os.rename(os.path.join(folder, "a", "renamed.jsonl"), os.path.join(folder, "a", "new.jsonl"))
    os.unlink(os.path.join(folder, "a", "latest"))
    os.symlink("new.jsonl", os.path.join(folder, "a", "latest"))
    os.unlink(os.path.join(folder, "a", "was file.jsonl"))
    os.mkdir(os.path.join(folder, "a", "was file.jsonl"))
    for name in ("was folder", "was folder too", "goes"):
        shutil.rmtree(os.path.join(folder, name))
    write(os.path.join(folder, "was folder"), b"a file")
    os.symlink("a", os.path.join(folder, "was folder too"))
    before = tree(folder, times=True)
    assert "removed from the store: 7 files" in said(home.keep("claude", mount.path))
    same_trees(before, tree(mount.at("claude", "projects"), times=True))
    same(sorted(os.listdir(home.at(".claude"))), ["projects", "projects.before"], "beside it")


def test_what_was_removed_behind_the_change_does_not_come_back_with_another_run(box):
    mount, home = kept(box)
    home.keep("claude", mount.path)
    before = home.at(".claude", "projects.before", "-home-me-project")
    there = mount.at("claude", "projects", "-home-me-project")
    os.unlink(os.path.join(there, "session_b.jsonl"))
    with open(os.path.join(there, "valid_session.jsonl"), "r+b") as file:
        file.truncate(len(file.readline()))
    gone_on = tree(mount.at("claude", "projects"))
    write(mount.at("claude", "projects.unfinished"), home.at(".claude", "projects").encode())
    same("files" in said(home.keep("claude", mount.path)), True, "it is finished")
    same_trees(gone_on, tree(mount.at("claude", "projects")))
    shutil.rmtree(there)
    append(os.path.join(before, "late.jsonl"), b'{"late": 2}\n')
    os.symlink("late.jsonl", os.path.join(before, "latest"))
    write(mount.at("claude", "projects.unfinished"), home.at(".claude", "projects").encode())
    home.keep("claude", mount.path)
    same((sorted(os.listdir(there)), read(os.path.join(there, "late.jsonl")),
          os.readlink(os.path.join(there, "latest"))),
         (["late.jsonl", "latest"], b'{"late": 2}\n', "late.jsonl"), "what came late")


def test_what_is_finished_is_the_folder_that_was_moved_last(box):
    mount, home = kept(box)
    for number in ("", ".3"):
        older = home.at(".claude", f"projects.before{number}", "-home-me-project")
        os.makedirs(older)
        write(os.path.join(older, "older.jsonl"), b"{}\n")
    home.keep("claude", mount.path)
    path = home.at(".claude", "projects.before.2", "-home-me-project", "valid_session.jsonl")
    append(path, b'{"late": 1}\n')
    write(mount.at("claude", "projects.unfinished"), home.at(".claude", "projects").encode())
    home.keep("claude", mount.path)
    rows = mount.rows("claude:-home-me-project:valid_session", "transcript")
    same(rows[-1], b'{"late": 1}', "the line that came late")
    same(mount.rows("claude:-home-me-project:older", "transcript"), [], "what was never moved")


def test_a_run_that_is_killed_at_any_time_is_finished_by_another(box):
    mount, home = box.mount(options=[LAYOUT]), busy_home(box)
    seed = int(os.environ.get("SESSFS_SEED", time.time_ns() % 10**6))
    box.note(f"seed {seed}")
    dice, killed = random.Random(seed), 0
    begun = time.monotonic()
    home.keep("claude", mount.path)
    whole = time.monotonic() - begun
    home.keep("--undo", "claude", mount.path)
    shutil.rmtree(mount.at("claude"))
    runs = 0
    while runs < harness.rounds("SESSFS_ROUNDS", 6, 24) or not killed:
        for undo in (), ("--undo",):
            runs += 1
            command = [box.program, "keep", *undo, "claude", mount.path]
            run = subprocess.Popen(command, env={**os.environ, **home.environment()},
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(dice.uniform(0, whole))
            run.send_signal(dice.choice([signal.SIGKILL, signal.SIGTERM]))
            killed += run.wait() != 0
            done = box.sessfs(*command[1:], env=home.environment())
            same(done.returncode, 0, f"{command[1:]}, saying {said(done)!r}")
            same(os.path.islink(home.at(".claude", "projects")), not undo, "a link")
            same_trees(home.before, home.trees())
        shutil.rmtree(mount.at("claude"))
    box.note(f"{killed} of {runs} runs were interrupted")
    mount.check()


def test_transcripts_are_kept_by_a_bind_mount(box):
    need_root()
    mount, home = kept(box)
    folder = home.at(".claude", "projects")
    done = home.keep("--bind", "claude", mount.path)
    try:
        same((os.path.ismount(folder), os.path.islink(folder)), (True, False), "a mount, no link")
        line = f"{mount.at('claude', 'projects')} {folder} none bind"
        assert line in said(done), said(done)
        same_trees(home.before, home.trees(), "through the bind mount: ")
        claude = clients.ClaudeCode(folder)
        claude.append(claude.at("-home-me-project", "valid_session.jsonl"), {"n": 1})
        assert "already" in said(home.keep("--bind", "claude", mount.path))
        home.keep("--undo", "claude", mount.path)
    finally:
        while os.path.ismount(folder):
            tool("umount", folder)
    same(os.path.ismount(folder), False, "still a mount")
    lines = read(os.path.join(folder, "-home-me-project", "valid_session.jsonl")).splitlines()
    same(json.loads(lines[-1]), {"n": 1}, "what was appended comes back")


if __name__ == "__main__":
    harness.main(globals())
