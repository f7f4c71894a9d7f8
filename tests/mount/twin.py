# SPDX-License-Identifier: MIT
"""The same commands in a session of a mount and in a plain folder: twins that may not differ.

A test is a function of a Twin that on_both() wraps.  run() plays a script in both places and
compares the exit status, the outputs and then every file: bytes, mode, owner, times, extended
attributes, links.  When the test ends, the rows are compared with the files, `sessfs check` looks
at the store, and all is compared once more after mounting again.

Where the contract demands something else than a local filesystem does, a test plays different
scripts (plain=) or tells what differs; the reason stands there.
"""

import contextlib
import functools
import itertools
import os
import subprocess
import time

import harness
from harness import TOP, kind_of, need_tool, read, same, shorten, tool, tree, write
from manifest import describe
from test_roundtrip import age, expect_only_json, key_of, torn

SESSION = "s"

# Real transcripts, by the name that a test knows them by; and some that are no good.
TRANSCRIPTS = {
    "chat.jsonl": "claude-code/representative_messages.jsonl",
    "codex.jsonl": "codex/standard_session.jsonl",
    "sub/deep/list.jsonl": "pi/session.jsonl",
    "sub/todo.jsonl": "claude-code/todowrite_examples.jsonl",
    "state.json": "gemini/standard_session.json",
    "sub/tool calls.json": "gemini/tool_calls_with_results.json",
}
# What is appended to a last line without newline may be set on a line of its own: only some are so.
UNENDED = ("state.json", "sub/tool calls.json")
OTHERS = {
    "chat.hash": b"deadbeef",
    "mixed.jsonl": b'{"n": 1}\r\nnot json\n\n{"n": 2}\n{"n": "caf\xe9"}\n[3]',
    "torn.jsonl": b'{"n": 1}\n{"n": 2}\n{"n": ',
    "draft.json": b'{"a": [1, 2',
    "note.txt": b"one\ntwo\nthree\n" + b"".join(b"line %d\n" % n for n in range(4, 400)),
    "sub/data.bin": bytes(range(256)) * 300,
    "sub/empty": b"",
}


def transcripts():
    return os.path.join(TOP, "tests", "data", "agents")


def samples(folder):
    """Fills a folder with small state files and ordinary files, each with a time of its own."""
    for name, source in TRANSCRIPTS.items():
        os.makedirs(os.path.dirname(os.path.join(folder, name)), exist_ok=True)
        data = read(os.path.join(transcripts(), source))
        ended = data if name in UNENDED or data.endswith(b"\n") else data + b"\n"
        write(os.path.join(folder, name), ended)
    for name, data in OTHERS.items():
        write(os.path.join(folder, name), data)
    os.chmod(os.path.join(folder, "state.json"), 0o600)
    os.chmod(os.path.join(folder, "codex.jsonl"), 0o640)
    age(folder)


def differences(expected, seen):
    """Sentences about the first places where two surveys differ."""
    for path in sorted(expected.keys() | seen.keys()):
        if path not in seen:
            yield f"{path} is missing"
        elif path not in expected:
            yield f"{path} is too many"
        else:
            want, got = expected[path], seen[path]
            for what in sorted(want.keys() | got.keys()):
                if want.get(what) == got.get(what):
                    continue
                if what == "bytes":
                    yield f"{path}: {describe(want[what], got.get(what, b''))}"
                else:
                    yield f"{path}: {what} is {got.get(what)!r} instead of {want.get(what)!r}"


def expect_equal(expected, seen, hint):
    wrong = [*itertools.islice(differences(expected, seen), 6)]
    assert not wrong, f"{hint}: " + "; ".join(wrong)


class Side:
    """One of the two places.  Scripts get $ROOT, and $OUT for what shall not be compared."""

    def __init__(self, name, top, folder):
        self.name = name
        self.top = top
        self.root = os.path.join(top, SESSION)
        self.out = os.path.join(folder, "out-" + name)
        os.makedirs(os.path.join(self.out, "home"))
        os.makedirs(self.root, exist_ok=True)

    def environment(self, extra):
        names = {"ROOT": self.root, "OUT": self.out, "HOME": os.path.join(self.out, "home")}
        return {"TZ": "UTC", "LC_ALL": "C.UTF-8", "TERM": "dumb", **names, **extra}

    def masked(self, output):
        for path, word in ((self.top, b"<top>"), (self.out, b"<out>")):
            output = output.replace(os.fsencode(path), word)
        return output


def attributes(path):
    """Extended attributes that users have set."""
    names = [n for n in os.listxattr(path, follow_symlinks=False) if n.startswith("user.")]
    own = [name for name in names if not name.startswith("user.sessfs.")]
    return {name: os.getxattr(path, name, follow_symlinks=False) for name in own}


def survey(top, since):
    """tree() with attributes, links and times; a time since the test began is only "now"."""
    found = tree(top, times=True)
    found.pop("")
    first_names = {}
    for path, entry in sorted(found.items()):
        whole = os.fsencode(top) + b"/" + path.encode("utf-8", "surrogateescape")
        status = os.lstat(whole)
        entry["attributes"] = attributes(whole) if entry["type"] in ("file", "directory") else {}
        entry["first name"] = first_names.setdefault(status.st_ino, path)
        if entry["mtime"] >= since:
            late = entry["mtime"] > time.time_ns() + 10**9
            entry["mtime"] = "in the future" if late else "now"
    return found


class Twin:
    def __init__(self, box, fill=samples, options=()):
        self.box = box
        self.mount = box.mount(options=options)
        self.since = time.time_ns() - 10**9
        self.plain = Side("plain", box.new_folder("plain"), box.folder)
        self.mounted = Side("mounted", self.mount.path, box.folder)
        self.sides = (self.plain, self.mounted)
        source = box.new_folder("source")
        fill(source)
        for side in self.sides:
            tool("cp", "-a", source + "/.", side.root)
        self.compare("filling")

    def play(self, side, script, env=None):
        """Runs a script of bash at one side: exit status, output, errors."""
        done = tool(
            "bash",
            "-c",
            script,
            check=False,
            cwd=side.root,
            env=side.environment(env or {}),
        )
        return done.returncode, side.masked(done.stdout), side.masked(done.stderr)

    def run(self, script, status=0, plain=None, compare=True, **named):
        """Plays the script at both sides; it has to end with this status.  Returns its output.

        plain: the script for the plain folder, when the contract demands a difference."""
        expected = self.play(self.plain, plain or script, **named)
        same(expected[0], status, f"{shorten(script)} in a plain folder: {expected[1:]}: status")
        seen = self.play(self.mounted, script, **named)
        for what, want, got in zip(("exit status", "output", "errors"), expected, seen):
            if want == got:
                continue
            if what == "exit status":
                same(got, want, f"{shorten(script)}: it said {shorten(seen[2])}: status")
            raise AssertionError(f"{shorten(script)}: {what}: {describe(want, got)}")
        if compare:
            self.compare(script)
        return seen[1]

    def compare(self, what):
        expected = survey(self.plain.top, self.since)
        seen = survey(self.mounted.top, self.since)
        expect_equal(expected, seen, shorten(what))
        return seen

    def data(self, name):
        return read(os.path.join(self.mounted.root, name))

    def rows(self, key):
        return self.mount.rows(SESSION, key)

    def expect_rows(self):
        """The rows are the valid lines and documents of the files, and none is left over."""
        explained = set()
        for session in sorted(os.listdir(self.plain.top)):
            folder = os.path.join(self.plain.top, session)
            if not os.path.isdir(folder) or os.path.islink(folder):
                continue
            for top, _, names in os.walk(folder):
                for name in names:
                    self.expect_rows_of(session, folder, os.path.join(top, name), explained)
        left = lambda: {(os.fsdecode(s), os.fsdecode(k)) for s, k in self.mount.keys()} - explained
        harness.eventually(lambda: not left(), f"no file explains {sorted(left())}")
        expect_only_json(self.mount)

    def expect_rows_of(self, session, folder, path, explained):
        key, end = key_of(os.path.relpath(path, folder))
        if key is None or kind_of(os.lstat(path).st_mode) != "file":
            return
        if (session, key) in explained:  # K.json beside K.jsonl
            key += end
        explained.add((session, key))
        data = read(path)
        if end == ".json" and not harness.is_json(data) or end == ".jsonl" and torn(data):
            return  # a draft: SQL sees what was valid before
        rows = harness.valid_lines(data) if end == ".jsonl" else [data] if data else []
        same(self.mount.rows(session, key), rows, f"rows of {session!r} {key!r}")
        same(self.mount.indexes(session, key), list(range(len(rows))), f"indexes of {key!r}")

    def finish(self):
        """Files, rows and store; and again after mounting again."""
        before = self.compare("at the end")
        self.expect_rows()
        self.mount.remount()
        after = self.compare("after mounting again")
        expect_equal(before, after, "mounting again")
        self.expect_rows()
        self.mount.stop()
        self.mount.check()


def on_both(*tools, **named):
    """For a test that is a function of a Twin; it is skipped where one of the tools is missing."""

    def wrap(function):
        @functools.wraps(function)
        def test(box):
            for name in tools:
                need_tool(name)
            twin = Twin(box, **named)
            function(twin)
            twin.finish()

        del test.__wrapped__
        return test

    return wrap


@contextlib.contextmanager
def running(*command, **named):
    """A process that runs meanwhile and is ended afterwards."""
    process = subprocess.Popen(command, **named)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
