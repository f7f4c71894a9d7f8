#!/usr/bin/python3 -B
# SPDX-License-Identifier: MIT
"""Real coding agents on a mount, by sessfs keep: each asks a model on this machine, runs a command,
and its session is listed, resumed, shown, found, forked, deleted and had back (make check-clients).

They come by npm in the versions named here, into a folder that is theirs alone: SESSFS_CLIENTS,
which stays, or a temporary one, and so does a node for those that want a newer one than there is,
unless SESSFS_NODE names the folder of one.  With SESSFS_TRANSCRIPTS, what they wrote is left there.
Skipped where npm or a client is not to be had.
"""

import contextlib
import glob
import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
sys.path.insert(0, os.path.join(HERE, "..", "mount"))
import drive  # noqa: E402
import harness  # noqa: E402
from harness import Skip, need_tool, read, same, tool, write  # noqa: E402
from model import Model  # noqa: E402

TURN = 600  # seconds after which a client hangs
NODE = "24.9.0"


class Client:
    """name, package and layout; what it is told of the model; its commands."""

    modules = None  # where npm has put it
    wants_node = (0,)  # this version or a later one
    node = os.environ.get("SESSFS_NODE")  # the folder of the one it gets; None: there is one
    goes_on_without = False  # its database, which is an index of its transcripts
    keeps = True  # sessions are in files that sessfs keep knows
    said = None  # where what was said is, if not in the transcript
    last = None  # what is to be ended behind it, by the words of its command
    listed = "first question|answer"  # what is seen where it lists its sessions
    beside = ()  # what is a session by itself, for all of them
    own_id = 0  # so many characters at the end of the name are its id; 0: all
    lists_ids = True

    def __init__(self, home, model):
        self.home = home
        self.model = model
        self.prepare()

    def file(self, name, value):
        path = os.path.join(self.home, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        write(path, (value if isinstance(value, str) else json.dumps(value)).encode())

    def environment(self):
        return {}

    @classmethod
    def program(cls):
        return os.path.join(cls.modules, ".bin", cls.binary)

    def work(self):
        return os.path.join(self.home, "work")

    def where(self):
        """The folder and the environment that it is run in."""
        room = os.path.join(self.home, "tmp")
        for folder in (self.work(), room):
            os.makedirs(folder, exist_ok=True)
        kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
        if self.node:
            kept["PATH"] = self.node + ":" + kept["PATH"]
        return {"cwd": self.work(), "env": {**kept, "HOME": self.home, "TMPDIR": room,
                                            "NO_COLOR": "1", **self.environment()}}

    def run(self, *words):
        done = subprocess.run(
            [self.program(), *words],
            **self.where(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=TURN,
        )
        said = done.stdout.decode("utf-8", "replace")
        same(done.returncode, 0, f"{self.name} {words}: {said}")
        return said

    def ids(self, session):
        """What it knows a session by, and another such id."""
        old = re.split("[:/]", session["id"])[-1][-self.own_id :]
        return old, old[:-1] + ("1" if old[-1] == "0" else "0")

    def ask(self, words, *requests, frames=False):
        """The last of the results."""
        return drive.asked([self.program(), *words], self.where(), requests, TURN, frames)[-1]


class Claude(Client):
    name, package, binary = "claude", "@anthropic-ai/claude-code@2.1.332", "claude"
    transcripts = "claude/projects/*/*.jsonl"

    def prepare(self):
        pass

    def environment(self):
        return {"ANTHROPIC_BASE_URL": self.model.url, "ANTHROPIC_API_KEY": "none",
                "DISABLE_TELEMETRY": "1", "DISABLE_AUTOUPDATER": "1",
                "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"}

    def first(self, question):
        return self.run("-p", question, "--allowedTools", "Bash")

    def list(self):
        return self.run("purge", "--dry-run", ".")

    listed = "projects"
    lists_ids = False

    def resume(self, question):
        return self.run("-p", "-c", question)

    def go_on(self, one, question):
        return self.run("-p", "-r", one, question)

    def delete(self, path):
        return self.run("purge", "--yes", ".")


def uuid_of(path):
    return os.path.splitext(path)[0][-36:]


class Codex(Client):
    name, package, binary = "codex", "@openai/codex@0.171.0", "codex"
    folder = ".codex"
    goes_on_without = True
    transcripts = "codex/sessions/*/*/*/*.jsonl"
    archives = "codex/archived_sessions/*.jsonl"
    own_id = 36

    def prepare(self):
        self.file(".codex/config.toml", f"""
model = "m"
model_provider = "local"
[model_providers.local]
name = "local"
base_url = "{self.model.url}/v1"
wire_api = "responses"
env_key = "KEY"
""")

    def environment(self):
        return {"KEY": "none"}

    def first(self, question):
        return self.run("exec", "--skip-git-repo-check", "--sandbox", "danger-full-access",
                        question)

    def resume(self, question):
        return self.go_on("--last", question)

    def go_on(self, one, question):
        return self.run("exec", "--skip-git-repo-check", "resume", one, question)

    def list(self):
        return str(self.ask(["app-server"], ("initialize", {"clientInfo": {
            "name": "list", "version": "1"}}), ("thread/list", {"sourceKinds": ["exec"]})))

    def archive(self, path):
        return self.run("archive", uuid_of(path))

    def unarchive(self, path):
        return self.run("unarchive", uuid_of(path))

    def delete(self, path):
        return self.run("delete", "--force", uuid_of(path))


# The time is START when a process begins, and goes a tenth as fast.
CLOCK = """const System = Date, begun = System.now(), start = System.parse(process.env.START);
globalThis.Date = class extends System {
	constructor(...given) { given.length ? super(...given) : super(Date.now()); }
	static now() { return start + Math.floor((System.now() - begun) / 10); }
};
"""


# By which an agent is spoken to in the Agent Client Protocol.
INITIALIZE = ("initialize", {"protocolVersion": 1, "clientCapabilities": {}})


class Gemini(Client):
    name, package, binary = "gemini", "@google/gemini-cli@0.61.0", "gemini"
    transcripts = "gemini/tmp/*/chats/*.json*"
    start = "2026-01-02T12:00:00Z"  # by its clock: in another minute it goes on in another file

    def prepare(self):
        self.file("clock.cjs", CLOCK)
        self.file(".gemini/settings.json", {
            "security": {"auth": {"selectedType": "gemini-api-key"}},
            "general": {"disableAutoUpdate": True},
            "privacy": {"usageStatisticsEnabled": False},
            "telemetry": {"enabled": False},
        })

    def environment(self):
        return {"GEMINI_API_KEY": "none", "GOOGLE_GEMINI_BASE_URL": self.model.url,
                "NODE_OPTIONS": f"--require {self.home}/clock.cjs", "START": self.start}

    def first(self, question):
        return self.run("--skip-trust", "-m", "gemini-2.5-flash", "--yolo", "-p", question)

    def list(self):
        return self.run("--skip-trust", "--list-sessions")

    def resume(self, question):
        return self.go_on("latest", question)

    def go_on(self, one, question):
        return self.run("--skip-trust", "-m", "gemini-2.5-flash", "-r", one, "-p", question)

    def ids(self, session):
        """The name has only the beginning of the id."""
        found = read(glob.glob(os.path.join(self.home, ".gemini/tmp/*/chats/*"))[0])
        old = json.loads(found.split(b"\n")[0])["sessionId"]
        return old, f"{int(old[:8], 16) ^ 1:08x}{old[8:]}"

    def delete(self, path):
        return self.run("--skip-trust", "--delete-session", "1")


class Pi(Client):
    name, package, binary = "pi", "@earendil-works/pi-coding-agent@1.6.0", "pi"
    wants_node = (22, 19)
    transcripts = "pi/sessions/*/*.jsonl"
    own_id = 36
    lists_ids = False

    def prepare(self):
        self.file(".pi/agent/models.json", {"providers": {"local": {
            "baseUrl": self.model.url, "api": "anthropic-messages", "apiKey": "none",
            "models": [{"id": "m", "name": "m", "reasoning": False, "input": ["text"],
                        "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0},
                        "contextWindow": 100000, "maxTokens": 1000}],
        }}})

    def environment(self):
        return {"PI_OFFLINE": "1", "PI_TELEMETRY": "0"}

    def first(self, question):
        return self.run("--provider", "local", "--model", "m", "-p", question)

    def resume(self, question):
        return self.run("--provider", "local", "--model", "m", "-c", "-p", question)

    def go_on(self, one, question):
        return self.run("--provider", "local", "--model", "m", "--session", one, "-p", question)

    def pick(self, *steps):
        return drive.at_terminal([self.program(), "--provider", "local", "--model", "m", "-r"],
                                 self.where(), steps, TURN)

    def list(self):
        return self.pick(("first question", b"\x1b"))

    def delete(self, path):
        return self.pick(("first question", b"\x04"), (r"[Dd]elete.*\?", b"\r"),
                         ("Session (deleted|moved to trash)", b"\x1b"))


class Qwen(Client):
    name, package, binary = "qwen", "@qwen-code/qwen-code@0.24.4", "qwen"
    transcripts = "qwen/projects/*/chats/*.jsonl"

    def prepare(self):
        self.file(".qwen/settings.json", {
            "security": {"auth": {"selectedType": "openai"}},
            "general": {"disableAutoUpdate": True},
            "privacy": {"usageStatisticsEnabled": False},
            "telemetry": {"enabled": False},
        })

    def environment(self):
        return {"OPENAI_API_KEY": "none", "OPENAI_BASE_URL": f"{self.model.url}/v1",
                "OPENAI_MODEL": "m"}

    def first(self, question):
        return self.run("--yolo", "-p", question)

    def list(self):
        return self.run("sessions", "list")

    def resume(self, question):
        return self.run("-c", "-p", question)

    def go_on(self, one, question):
        return self.run("-r", one, "-p", question)

    def delete(self, path):
        done = self.ask(["--acp"], INITIALIZE, ("deleteSession", {
            "sessionId": uuid_of(path), "cwd": self.work()}))
        same(done["success"], True, "deleted")


class Kimi(Client):
    name, package, binary = "kimi", "@moonshot-ai/kimi-code@2.1.0", "kimi"
    wants_node = (22, 19)
    transcripts = "kimi/sessions/*/*/agents/main/wire.jsonl"

    def prepare(self):
        self.file(".kimi-code/config.toml", f"""
default_model = "m"
[providers.local]
type = "openai"
base_url = "{self.model.url}/v1"
api_key = "none"
[models.m]
provider = "local"
model = "m"
max_context_size = 100000
""")

    def first(self, question):
        return self.run("-p", question)

    def list(self):
        return self.run("session", "list")

    listed = "session_"

    def resume(self, question):
        return self.run("-c", "-p", question)

    def go_on(self, one, question):
        return self.run("-S", one, "-p", question)

    def delete(self, path):
        self.ask(["acp"], INITIALIZE, ("session/delete", {"sessionId": path.split("/")[-4]}))


class Copilot(Client):
    name, package, binary = "copilot", "@github/copilot@1.0.102", "copilot"
    transcripts = "copilot/session-state/*/events.jsonl"

    def prepare(self):
        pass

    def environment(self):
        return {"COPILOT_PROVIDER_BASE_URL": f"{self.model.url}/v1", "COPILOT_OFFLINE": "true",
                "COPILOT_PROVIDER_TYPE": "openai", "COPILOT_PROVIDER_API_KEY": "none",
                "COPILOT_MODEL": "m"}

    def first(self, question):
        return self.run("-p", question, "--allow-all-tools")

    def resume(self, question):
        return self.run("--continue", "-p", question, "--allow-all-tools")

    def go_on(self, one, question):
        return self.run(f"--resume={one}", "-p", question, "--allow-all-tools")

    def serve(self, *request):
        return self.ask(["--headless", "--no-auto-update", "--stdio"], request, frames=True)

    def list(self):
        return str(self.serve("session.list", {}))

    def delete(self, path):
        done = self.serve("session.delete", {"sessionId": path.split("/")[-2]})
        same(done["success"], True, done)


class Cline(Client):
    """It goes on with a session at a terminal alone; elsewhere, each question is one."""

    name, package, binary = "cline", "cline@3.0.65", "cline"
    transcripts = "cline/sessions/*/*.messages.json"
    last = "--cline-hub-daemon"
    many = True
    lists_ids = False

    def prepare(self):
        self.ready = False

    def environment(self):
        return {"CLINE_TELEMETRY_DISABLED": "1"}

    def first(self, question):
        if not self.ready:
            self.run("auth", "-p", "openai", "-k", "none", "-m", "m", "-b",
                     f"{self.model.url}/v1")
            self.ready = True
        return self.run(question)

    def list(self):
        return self.run("history")

    def resume(self, question):
        return self.first(question)

    def go_on(self, one, question):
        """What it has in its file then."""
        word = question.split("-")[-1]
        drive.at_terminal([self.program(), "--id", one], self.where(),
                          [("printed-amber", question.encode()), (f"question-{word}", b"\r"),
                           (rf"answer-{word}", b"")], TURN, again=b"\r")
        end_last(self)
        path = os.path.join(self.home, ".cline/data/sessions", one, f"{one}.messages.json")
        return read(path).decode()

    def delete(self, path):
        return self.run("history", "delete", "--session-id", os.path.basename(path).split(".")[0])


class OpenCode(Client):
    """The last that keeps its sessions in files, not in a database of its own."""

    name, package, binary = "opencode", "opencode-ai@1.1.65", "opencode"
    folder = ".local/share/opencode"
    transcripts = "opencode/storage/session/*/*.json"
    said = "opencode/storage/part/*/*.json"
    beside = ("opencode/storage/part",)

    @classmethod
    def program(cls):
        found = glob.glob(os.path.join(cls.modules, "opencode-linux-*", "bin", "opencode"))
        return min(found, key=len)

    def prepare(self):
        self.file(".config/opencode/opencode.json", {
            "autoupdate": False, "share": "disabled", "model": "local/m", "small_model": "local/m",
            "provider": {"local": {"npm": "@ai-sdk/openai-compatible", "name": "local",
                                   "options": {"baseURL": f"{self.model.url}/v1",
                                               "apiKey": "none"},
                                   "models": {"m": {"name": "m"}}}},
        })

    def environment(self):
        return {"OPENCODE_DISABLE_MODELS_FETCH": "1", "OPENCODE_DISABLE_AUTOUPDATE": "1",
                "OPENCODE_DISABLE_LSP_DOWNLOAD": "1"}

    def first(self, question):
        return self.run("run", question)

    def list(self):
        return self.run("session", "list")

    def resume(self, question):
        return self.run("run", "-c", question)

    def go_on(self, one, question):
        return self.run("run", "-s", one, question)

    def delete(self, path):
        name = os.path.splitext(os.path.basename(path))[0]
        drive.served([self.program(), "serve", "--port", "0"], self.where(),
                     r"listening on (http\S+)", [("DELETE", f"/session/{name}")], TURN)


class OpenCodeToday(OpenCode):
    """With a database of its own, and nothing to keep."""

    package = "opencode-ai@1.18.33"
    keeps = False


def npm_install(folder, package):
    # What the package's own installer leaves there stays beside it.
    room = os.path.join(folder, "tmp")
    os.makedirs(room, exist_ok=True)
    done = tool("npm", "install", "--prefix", folder, "--no-audit", "--no-fund", package,
                check=False, env={**os.environ, "TMPDIR": room})
    if done.returncode:
        raise Skip(f"{package} is not to be had: {done.stderr.decode()[-200:]}")


def node_for(client):
    """The folder of a node that is new enough."""
    said = tool(os.path.join(client.node or "", "node"), "--version").stdout.decode().strip()
    if tuple(map(int, re.findall(r"\d+", said))) >= client.wants_node:
        return client.node
    wanted = ".".join(map(str, client.wants_node))
    machine = {"x86_64": "x64", "aarch64": "arm64"}.get(os.uname().machine)
    if client.node or not machine:
        raise Skip(f"{client.package} wants node {wanted}, and here it is {said}")
    folder = os.path.join(os.environ["SESSFS_CLIENTS"], "node")
    found = os.path.join(folder, "node_modules", f"node-linux-{machine}", "bin")
    if not os.path.exists(os.path.join(found, "node")):
        npm_install(folder, f"node-linux-{machine}@{NODE}")
    return found


def install(client):
    need_tool("npm")
    need_tool("node")
    client.node = node_for(client)
    folder = os.path.join(os.environ["SESSFS_CLIENTS"], client.__name__.lower())
    client.modules = os.path.join(folder, "node_modules")
    if not os.path.isdir(client.modules):
        npm_install(folder, client.package)


def asked_texts(model):
    return json.dumps([asked for _, asked in model.asked])


def end_last(client):
    """What a client leaves running ends with it; its command tells whose it is."""
    for pid in filter(str.isdigit, os.listdir("/proc") if client.last else []):
        with contextlib.suppress(OSError):
            words = read(f"/proc/{pid}/cmdline").decode("utf-8", "replace").split("\0")
            if client.last in words and any(client.home in word for word in words):
                os.kill(int(pid), 15)


def sessions_of(box, mount):
    done = box.sessfs("sessions", "--json", "--titles", mount.store, check=True)
    return json.loads(done.stdout)


WORDS = ("question-amber", "answer-amber", "question-birch", "answer-birch")


def shows_talk(box, mount, names):
    """What was said, each message once."""
    shown = "".join(box.sessfs("show", mount.store, name, check=True).stdout.decode()
                    for name in names)
    lines = [line.strip() for line in shown.splitlines()]
    for said in ("first question-amber, please run-amber", "The answer is answer-amber.",
                 "second question-birch", "The answer is answer-birch."):
        same(lines.count(said), 1, f"{said} in {shown}")
    same("printed-amber" in shown, True, shown)
    for word in WORDS:
        found = json.loads(box.sessfs("search", "--json", mount.store, word, check=True).stdout)
        same(len(found) >= 1, True, f"{word} is found")
        roles = {hit["role"] for hit in found if hit["text"].startswith((f"second {word}",
                                                                        f"first {word}"))}
        same(roles - {"user", None}, set(), f"{word}: {found}")


def leave_transcripts(kind, mount):
    folder = os.environ.get("SESSFS_TRANSCRIPTS")
    for n, path in enumerate(sorted(glob.glob(mount.at(kind.transcripts))) if folder else []):
        shutil.copyfile(path, os.path.join(folder, f"{kind.name}-{n}{os.path.splitext(path)[1]}"))


def plays(box, kind):
    install(kind)
    home = box.new_folder("home")
    model = Model()
    mount = box.mount(options=[f"layout={kind.name}"])
    client = kind(home, model)
    kept = box.sessfs("keep", kind.name, mount.path, env={**os.environ, "HOME": home})
    same(kept.returncode, 0, kept.stderr.decode())
    try:
        plays_on(box, client, mount)
    finally:
        end_last(client)


def talks_of(box, mount, kind):
    """Those that hold something."""
    return [one for one in sessions_of(box, mount)
            if one["keys"] and one["name"] not in kind.beside]


def files_of(mount):
    return {name: entry.get("bytes") for name, entry in harness.tree(mount.path).items()}


def is_one(box, mount, kind):
    """To sessions, a ttl and gc, with all that is in it."""
    talks = talks_of(box, mount, kind)
    one, before = talks[0], files_of(mount)
    place = mount.at(one["name"])
    os.setxattr(place, "user.sessfs.ttl", b"30d")
    same([each["name"] for each in talks_of(box, mount, kind) if each["ttl"] == "30d"],
         [one["name"]], "what has the ttl")
    box.sessfs("gc", f"--name={one['name']}", "--older-than=0s", mount.store, check=True)
    harness.eventually(lambda: not os.path.exists(place), f"{place} has gone")
    same([each["name"] for each in talks_of(box, mount, kind)],
         [each["name"] for each in talks[1:]], "sessions without it")
    box.sessfs("gc", "--undo", mount.store, one["name"], check=True)
    harness.eventually(lambda: files_of(mount) == before, "all of it is had back")


def forks(box, client, mount):
    """To the client, a fork is a session of its own, with another id."""
    kind, talks = type(client), talks_of(box, mount, type(client))
    one, before = talks[0]["name"], files_of(mount)
    old, new = client.ids(talks[0])
    # The name of Gemini CLI's has the beginning of it.
    box.sessfs("fork", "--rewrite-id", mount.store, talks[0]["id"],
               new[:8] if kind is Gemini else new, check=True)
    said = client.list()
    same((old in said, new in said), (kind.lists_ids, kind.lists_ids), said)
    client.model.asked.clear()
    said = client.go_on(new, "third question-cedar")
    end_last(client)
    same("answer-cedar" in said, True, said)
    same("question-amber" in asked_texts(client.model), True, "what the fork remembers")
    # Gemini CLI notes at the end of each what it has made of it.
    for name, data in files_of(mount).items():
        if data and (name == one or name.startswith(one + "/")):
            same(data[: len(before[name])], before[name], f"{name}, of the other one")
            same(b"question-cedar" in data, False, f"{name}, of the other one")
    (fork,) = {each["name"] for each in talks_of(box, mount, kind)} - {t["name"] for t in talks}
    box.sessfs("gc", f"--name={fork}", "--older-than=0s", "--grace=0", mount.store, check=True)


def deletes(box, client, mount, path):
    """A session is put away and back, if the client can; and deleted, and had back."""
    kind = type(client)
    before, data = talks_of(box, mount, kind), read(path)
    if hasattr(client, "archive"):
        client.archive(path)
        same([read(one) for one in glob.glob(mount.at(client.archives))], [data], "put away")
        same(len(talks_of(box, mount, kind)), len(before), "sessions, with one that was put away")
        client.unarchive(path)
        same(talks_of(box, mount, kind), before, "sessions, with that one back")
    client.delete(path)
    end_last(client)
    harness.eventually(lambda: len(talks_of(box, mount, kind)) == len(before) - 1,
                       "sessions without it")
    has_back(box, mount, path, data)


def has_back(box, mount, path, data):
    same(os.path.exists(path), False, f"{path}, which was deleted")

    def restored():
        box.sessfs("gc", "--undo", mount.store, check=True)
        return os.path.exists(path)

    harness.eventually(restored, "it is had back")
    same(read(path), data, "its bytes")


def plays_on(box, client, mount):
    kind, model = type(client), client.model
    many = getattr(kind, "many", False)
    said = client.first("first question-amber, please run-amber")
    same("answer-amber" in said, True, said)
    found = glob.glob(mount.at(kind.transcripts))
    same(len(found), 1, f"transcripts in {sorted(harness.tree(mount.path))}")
    before = read(found[0])
    said = client.list()
    same(bool(re.search(kind.listed, said, re.IGNORECASE)), True, said)
    model.asked.clear()
    said = client.resume("second question-birch")
    same("answer-birch" in said, True, said)
    same("question-amber" in asked_texts(model) or many, True, "what it remembers")
    after = sorted(glob.glob(mount.at(kind.transcripts)))
    same(found[0] in after, True, "transcripts afterwards")
    same(len(after) == 1 or many, True, after)
    if not kind.said and len(after) == 1:
        same(len(read(found[0])) > len(before), True, "what was added")
    if found[0].endswith(".jsonl"):
        same(read(found[0])[: len(before)], before, "its beginning")
    leave_transcripts(kind, mount)
    end_last(client)
    talks = talks_of(box, mount, kind)
    same(len(talks), len(after), f"sessions: {talks}")
    for mounted in (True, False):
        if kind.said:
            paths = [os.path.relpath(path, mount.path)
                     for path in glob.glob(mount.at(kind.said))] if mounted else paths
            shown = "".join(box.sessfs("show", mount.store, path, check=True).stdout.decode()
                            for path in paths)
            for word in WORDS:
                same(word in shown, True, f"{word} in {shown}")
        else:
            same(any("first question-amber" in one["title"] for one in talks), True, talks)
            shows_talk(box, mount, [os.path.relpath(path, mount.path) for path in after])
        if mounted:
            mount.check()
            mount.stop()
    mount = box.mount(store=mount.store, path=mount.path)
    is_one(box, mount, kind)
    forks(box, client, mount)
    deletes(box, client, mount, found[0])
    mount.stop()
    # All of them at once, and back.
    box.sessfs("gc", "--name=*", "--older-than=0s", mount.store, check=True)
    same(sessions_of(box, mount), [], "they were removed")
    box.sessfs("gc", "--undo", mount.store, check=True)
    same(len(sessions_of(box, mount)) >= 1, True, "they are back")


def test_claude(box):
    plays(box, Claude)


def test_cline(box):
    plays(box, Cline)


def test_codex(box):
    plays(box, Codex)


def test_copilot(box):
    plays(box, Copilot)


def test_gemini(box):
    plays(box, Gemini)


def test_kimi(box):
    plays(box, Kimi)


def test_opencode(box):
    plays(box, OpenCode)


def test_pi(box):
    plays(box, Pi)


def test_qwen(box):
    plays(box, Qwen)


VERBS = [["check"], ["sessions"], ["stats"], ["search", "x"], ["gc", "--dry-run"]]


def rows_of(path):
    """Of all tables of a database, and whether it is sound."""
    with contextlib.closing(sqlite3.connect(path)) as db:
        same(db.execute("PRAGMA integrity_check").fetchall(), [("ok",)], path)
        names = db.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        return sum(db.execute(f'SELECT COUNT(*) FROM "{n}"').fetchone()[0] for (n,) in names)


def moves_in(client, mount):
    """Its folder lies in the store; the link that leads there."""
    os.makedirs(mount.at("client"))
    link = os.path.join(client.home, client.folder)
    if os.path.isdir(link):
        tool("cp", "-a", link + "/.", mount.at("client"))
        shutil.rmtree(link)
    os.makedirs(os.path.dirname(link), exist_ok=True)
    os.symlink(mount.at("client"), link)
    return link


def keeps_a_database(box, kind):
    """Its folder lies in a store that is mounted twice; its databases are the first mount's."""
    install(kind)
    model = Model()
    first = box.mount()
    second = box.mount(store=first.store)
    client = kind(box.new_folder("home"), model)
    link = moves_in(client, first)

    ended = threading.Event()

    def work():
        while not ended.is_set():
            for verb in VERBS:
                box.sessfs(verb[0], first.store, *verb[1:])

    worker = threading.Thread(target=work)
    worker.start()
    try:
        said = client.first("first question-amber")
        same("answer-amber" in said, True, said)
        said = client.resume("second question-birch")
        same("answer-birch" in said, True, said)
    finally:
        ended.set()
        worker.join()
    paths = [p for p in glob.glob(first.at("client/**"), recursive=True)
             if os.path.isfile(p) and read(p)[:15] == b"SQLite format 3"]
    same(paths != [], True, sorted(harness.tree(first.path)))
    rows = {path: rows_of(path) for path in paths}

    # While the first mount has them in use, the second one is told so, and harms nothing.
    with contextlib.ExitStack() as stack:
        for path in paths:
            db = stack.enter_context(contextlib.closing(sqlite3.connect(path)))
            db.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()
        os.unlink(link)
        os.symlink(second.at("client"), link)
        try:
            client.first("third question-cedar")
            done = True
        except AssertionError:
            done = False
        same(done, kind.goes_on_without, "whether it runs on the second mount")
    same({path: rows_of(path) for path in paths}, rows, "rows afterwards")
    for mount in (first, second):
        mount.check()


def test_gemini_deletes_by_itself_what_was_resumed_and_it_is_had_back(box):
    install(Gemini)
    mount = box.mount(options=["layout=gemini"])
    client = Gemini(box.new_folder("home"), Model())
    box.sessfs("keep", "gemini", mount.path, env={**os.environ, "HOME": client.home}, check=True)
    client.first("first question-amber, please run-amber")
    (path,) = glob.glob(mount.at(Gemini.transcripts))
    client.start = "2026-01-02T12:01:30Z"
    client.resume("second question-birch")
    data = read(path)
    client.start = "2026-01-02T12:03:00Z"
    client.first("third question-cedar")
    has_back(box, mount, path, data)
    shows_talk(box, mount, [os.path.relpath(path, mount.path)])
    mount.check()


def pack(path, days):
    """As Codex does with a session that nobody has gone on with for some days."""
    tool("zstd", "-q", path, "-o", path + ".tmp")
    old = time.time() - days * 86400
    os.utime(path + ".tmp", (old, old))
    os.rename(path + ".tmp", path + ".zst")
    os.unlink(path)


def test_codex_goes_on_with_a_session_that_is_packed_and_has_a_ttl(box):
    need_tool("zstd")
    install(Codex)
    mount = box.mount(options=["layout=codex"])
    model = Model()
    client = Codex(box.new_folder("home"), model)
    box.sessfs("keep", "codex", mount.path, env={**os.environ, "HOME": client.home}, check=True)
    client.first("first question-amber, please run-amber")
    (path,) = glob.glob(mount.at(Codex.transcripts))
    before = read(path)
    os.setxattr(path, "user.sessfs.ttl", b"30d")
    pack(path, 8)
    same([(one["title"], one["ttl"]) for one in sessions_of(box, mount)],
         [("first question-amber, please run-amber", "30d")], "packed")
    model.asked.clear()
    client.resume("second question-birch")
    same("question-amber" in asked_texts(model), True, "what it remembers")
    same(glob.glob(mount.at(Codex.transcripts)), [path], "plain again")
    same(os.path.exists(path + ".zst"), False, "the packed one")
    same(read(path)[: len(before)], before, "its beginning")
    same(os.getxattr(path, "user.sessfs.ttl"), b"30d", "its ttl")
    shows_talk(box, mount, [os.path.relpath(path, mount.path)])
    # Nobody goes on with it for longer than that.
    pack(path, 31)

    def collected():
        box.sessfs("gc", mount.store, check=True)
        return sessions_of(box, mount) == []

    harness.eventually(collected, "its time is over")
    box.sessfs("gc", "--undo", mount.store, check=True)
    same(len(sessions_of(box, mount)), 1, "had back")
    mount.check()


def test_codex_keeps_its_databases_on_one_of_two_mounts(box):
    keeps_a_database(box, Codex)


def test_opencode_of_today_goes_on_in_its_database_lists_and_deletes(box):
    install(OpenCodeToday)
    mount = box.mount()
    client = OpenCodeToday(box.new_folder("home"), Model())
    moves_in(client, mount)
    client.first("first question-amber")
    mount.check()
    mount.stop()
    mount = box.mount(store=mount.store, path=mount.path)
    (one,) = set(re.findall(r"ses_\w+", client.list()))
    client.model.asked.clear()
    said = client.resume("second question-birch")
    same("answer-birch" in said, True, said)
    same("question-amber" in asked_texts(client.model), True, "what it remembers")
    same(set(re.findall(r"ses_\w+", client.list())), {one}, "its list")
    same(rows_of(mount.at("client/opencode.db")) > 0, True, "rows")
    client.delete(one)
    same(re.findall(r"ses_\w+", client.list()), [], "its list without it")
    rows_of(mount.at("client/opencode.db"))
    mount.check()


def test_opencode_keeps_its_database_on_one_of_two_mounts(box):
    keeps_a_database(box, OpenCodeToday)


if __name__ == "__main__":
    own = None
    if "SESSFS_CLIENTS" not in os.environ:
        own = os.environ["SESSFS_CLIENTS"] = tempfile.mkdtemp(prefix="sessfs-clients-")
    try:
        harness.main(globals())
    finally:
        if own:
            shutil.rmtree(own, ignore_errors=True)
