#!/usr/bin/python3 -B
# SPDX-License-Identifier: MIT
"""Sessions in and out of a bucket, and backups there: import, export, backup and restore with
s3://BUCKET, against a server of the tests' own (bucket.py)."""

import collections
import contextlib
import hashlib
import io
import itertools
import json
import os
import random
import re
import resource
import signal
import socketserver
import sqlite3
import ssl
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
import urllib.parse

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.path.append(os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "mount"))
import bucket  # noqa: E402
import clients  # noqa: E402
import harness  # noqa: E402
from bucket import Object  # noqa: E402
from places import Terminal  # noqa: E402
from harness import append, eventually, need_tool, read, rounds, same, soak, write  # noqa: E402

MESSAGES = "agents/agent_a/messages"


class Place:
    """A store that is not mounted, a bucket, and the program between them."""

    def __init__(self, box, server=None, store=None):
        self.box, self.server = box, server
        self.store = store or box.new_path("store.db")
        self.bucket = server.buckets["b"] if server else None

    def environment(self, **more):
        plain = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
        return plain | {"HOME": self.box.folder} | self.server.environment | more

    def do(self, verb, *arguments, status=0, stdin=b"", env=None, **named):
        done = self.box.sessfs(verb, *arguments, stdin=stdin, env=env or self.environment(),
                               **named)
        said = done.stderr.decode("utf-8", "replace")
        same(done.returncode, status, f"{verb} {arguments} (it says {said!r})")
        return done.stdout.decode() if not status else said

    def take(self, *arguments, url="s3://b", **named):
        return self.do("import", *arguments, self.store, url, **named)

    def send(self, *arguments, layout="strands", url="s3://b", **named):
        return self.do("export", f"--layout={layout}", *arguments, self.store, url, **named)

    def counts(self, run, *arguments, **named):
        """What a run tells, without the zeros and bytes."""
        told = json.loads(run("--json", *arguments, **named))
        return {name: count for name, count in told.items() if count and name != "bytes"}

    def put(self, path, data):
        self.do("put", self.store, path, stdin=data)

    def cat(self, path):
        return self.do("cat", self.store, path).encode()

    def files(self):
        """path -> bytes of all but what the program keeps for itself."""
        done = self.box.sessfs("export", self.store, "-", env=self.environment())
        same(done.returncode, 0, done.stderr)
        found = {}
        with tarfile.open(fileobj=io.BytesIO(done.stdout)) as tar:
            for entry in tar:
                if entry.isreg() and not entry.name.startswith(".sessfs-s3-"):
                    found[entry.name] = tar.extractfile(entry).read()
                tar.members = []
        return found

    def objects(self):
        return {key: found.data for key, found in self.bucket.items()}

    def operations(self):
        """What was asked since the last time."""
        found = [request.operation for request in self.server.requests]
        self.server.requests.clear()
        return found


@contextlib.contextmanager
def place_of(box, **named):
    with bucket.Server(**named) as server:
        yield Place(box, server)


def document(value):
    """As Strands writes it."""
    return json.dumps(value, indent=2, ensure_ascii=False).encode()


class Manager:
    """What Strands' S3SessionManager does with a bucket, call by call: HEAD before a new session,
    plain PUTs, GET before an update, a listing that is sorted by the number in the name."""

    def __init__(self, objects, prefix=""):
        self.objects, self.prefix = objects, prefix

    def at(self, session, *names):
        prefix = self.prefix.strip("/")
        return "/".join((*([prefix] if prefix else []), f"session_{session}", *names))

    def save(self, key, value):
        self.objects[key] = Object(document(value))

    def session(self, name, messages=0, agent="a"):
        assert self.at(name, "session.json") not in self.objects
        self.save(self.at(name, "session.json"),
                  {"session_id": name, "session_type": "AGENT", "created_at": "2026-01-01T00:00"})
        self.save(self.at(name, "agents", f"agent_{agent}", "agent.json"),
                  {"agent_id": agent, "state": {"\u00e4": [1.5, None]}})
        for number in range(messages):
            self.message(name, number, agent)

    def message(self, session, number, agent="a", text=None, redacted=None):
        self.save(self.key(session, number, agent),
                  {"message": {"role": "user", "content": [{"text": text or f"{number} \u65e5"}]},
                   "message_id": number, "redact_message": redacted,
                   "created_at": f"2026-01-01T00:00:{number % 60:02}+00:00"})

    def key(self, session, number, agent="a"):
        return self.at(session, "agents", f"agent_{agent}", "messages", f"message_{number}.json")

    def messages(self, session, agent="a"):
        """As its reader has them."""
        prefix = self.at(session, "agents", f"agent_{agent}", "messages", "")
        found = sorted((int(key.rsplit("/", 1)[1][len("message_") : -len(".json")]), key)
                       for key in self.objects if key.startswith(prefix))
        return [json.loads(self.objects[key].data) for _, key in found]


# Strands


def test_a_bucket_of_strands_becomes_files_and_rows_and_goes_back_as_it_was(box):
    with place_of(box) as place:
        manager = Manager(place.bucket)
        for name, count in (("one", 12), ("\u65e5 x", 2), ("100%", 1), ("empty", 0)):
            manager.session(name, count)
        place.bucket["session_one/multi_agents/multi_agent_g/multi_agent.json"] = Object(b"{}")
        place.bucket["/notes.txt"] = Object(b"something else")
        place.server.page = 2
        same(place.counts(place.take), {"created": 24, "left_out": 1}, "the first run")
        expected = {key: data for key, data in place.objects().items() if "notes" not in key}
        same(place.files(), expected, "files")
        same(sqlite3.connect(place.store).execute(
            "SELECT state_key FROM agentscope_sessions WHERE session_id = 'session_one' AND "
            "state_key LIKE '%message_1%' ORDER BY state_key").fetchall(),
            [(f"{MESSAGES}/message_{n}",) for n in ("1", "10", "11")], "rows")
        listed = place.do("ls", place.store, f"session_one/{MESSAGES}").split()
        same(listed, [f"message_{n}.json" for n in range(12)], "in the order of their numbers")
        place.operations()
        same(place.counts(place.take), {"unchanged": 24, "left_out": 1}, "the second run")
        same(set(place.operations()), {"LIST"}, "what the second run asks")
        place.server.page = 1000
        place.server.buckets["c"]
        same(place.counts(place.send, url="s3://c"), {"created": 24}, "to another bucket")
        same({key: found.data for key, found in place.server.buckets["c"].items()},
             expected, "that bucket")
        place.operations()
        same(place.counts(place.send, url="s3://c"), {"unchanged": 24}, "once more")
        same(set(place.operations()), {"LIST"}, "what it asks")


def test_what_changes_on_one_side_comes_to_the_other_and_a_redaction_travels(box):
    with place_of(box) as place:
        manager = Manager(place.bucket, "team/prod")
        manager.session("s", 3)
        url = "s3://b/team/prod"
        place.take(url=url)
        # On the files, as Strands' file sessions do it; past ten.
        with contextlib.ExitStack() as stack:
            mount = box.mount(store=place.store)
            stack.callback(mount.stop)
            files = clients.Strands(mount.path)
            for number in range(3, 12):
                files.save_document(files.message("s", "a", number), {"message_id": number})
            files.save_document(files.message("s", "a", 1),
                                {"message_id": 1, "redact_message": {"role": "user"}})
            same(place.counts(place.send, url=url),
                 {"created": 9, "replaced": 1, "unchanged": 4}, "from the mount")
            same([found["message_id"] for found in manager.messages("s")], list(range(12)),
                 "as its reader sorts them")
            same(manager.messages("s")[1]["redact_message"], {"role": "user"}, "the redaction")
            manager.message("s", 12)
            manager.message("s", 2, redacted={"role": "assistant"})
            same(place.counts(place.take, url=url),
                 {"created": 1, "replaced": 1, "unchanged": 13}, "from the bucket")
            same(json.loads(read(files.message("s", "a", 2)))["redact_message"],
                 {"role": "assistant"}, "the redaction there")
            same(read(files.message("s", "a", 12)), place.bucket[manager.key("s", 12)].data, "new")
        place.operations()
        same(place.counts(place.send, url=url), {"unchanged": 15}, "nothing is left to do")
        same(set(place.operations()), {"LIST"}, "what that asks")


def test_where_both_sides_changed_nothing_is_overwritten_and_the_key_is_named(box):
    with place_of(box) as place:
        manager = Manager(place.bucket)
        manager.session("s", 4)
        place.take()
        at = lambda number: f"session_s/{MESSAGES}/message_{number}.json"
        manager.message("s", 0, text="there")
        place.put(at(0), b'{"here": 0}')
        place.put(at(1), b'{"both": 1}')
        place.bucket[manager.key("s", 1)] = Object(b'{"both": 1}')
        place.put(at(2), b'{"here": 2}')
        del place.bucket[manager.key("s", 2)]
        manager.message("s", 9, text="there")
        place.put(at(9), b'{"here": 9}')
        before, files = place.objects(), place.files()
        for run in (place.take, place.send):
            said = run(status=1)
            for number in (0, 9) if run == place.take else (0, 2, 9):
                assert manager.key("s", number) in said, (number, said)
            assert manager.key("s", 1) not in said, said
            assert "changed here and in the bucket" in said, said
            same(place.objects(), before, "the bucket")
            same(place.files(), files, "the files")
        place.put(at(0), before[manager.key("s", 0)])
        place.put(at(9), before[manager.key("s", 9)])
        place.put(at(2), b'{"message_id": 2}')
        assert manager.key("s", 2) in place.send(status=1), "removed there, changed here"
        place.do("rm", place.store, at(2))
        same(place.counts(place.send), {"unchanged": 6}, "when it was settled")


def test_an_object_with_the_same_etag_and_another_size_was_changed(box):
    with place_of(box) as place:
        manager = Manager(place.bucket)
        manager.session("s", 3)
        place.server.etag = '"same"'
        same(place.counts(place.take), {"created": 5}, "the first run")
        place.operations()
        same(place.counts(place.take), {"unchanged": 5}, "nothing has changed")
        same(set(place.operations()), {"LIST"}, "what it asks")
        manager.message("s", 1, text="longer than it was")
        same(place.counts(place.take), {"replaced": 1, "unchanged": 4}, "one has another size")
        same(place.files()[f"session_s/{MESSAGES}/message_1.json"],
             place.bucket[manager.key("s", 1)].data, "its file")
        place.put(f"session_s/{MESSAGES}/message_2.json", b'{"message_id": 2}')
        same(place.counts(place.send), {"replaced": 1, "unchanged": 4}, "sent")
        manager.message("s", 2, text="there, and longer than what was sent")
        place.put(f"session_s/{MESSAGES}/message_2.json", b'{"message_id": 2, "here": true}')
        assert manager.key("s", 2) in place.send(status=1), "both have changed"
        # A weak one says that it is no more than a hint.
        manager.message("s", 2, text="there")
        place.put(f"session_s/{MESSAGES}/message_2.json", place.bucket[manager.key("s", 2)].data)
        place.take()
        place.server.etag = 'W/"weak"'
        place.take()
        place.put(f"session_s/{MESSAGES}/message_0.json", b'{"message_id": 0}')
        same(place.counts(place.send), {"replaced": 1, "unchanged": 4}, "sent without a condition")
        same(place.bucket[manager.key("s", 0)].data, b'{"message_id": 0}', "the object")


def test_what_is_removed_is_deleted_on_the_other_side_only_when_that_is_said(box):
    with place_of(box) as place:
        manager = Manager(place.bucket)
        manager.session("s", 4)
        manager.session("other", 1)
        place.take()
        at = lambda number: f"session_s/{MESSAGES}/message_{number}.json"
        place.do("rm", place.store, at(3))
        del place.bucket[manager.key("s", 2)]
        place.bucket["session_new/session.json"] = Object(b"{}")
        same(place.counts(place.send), {"unchanged": 7}, "left alone")
        assert manager.key("s", 2) not in place.bucket, "it is not sent again"
        plan = json.loads(place.send("-n", "--json", "--delete"))
        same(plan, [{"action": "delete", "key": manager.key("s", 3)}], "the plan")
        same(place.counts(place.send, "--delete"), {"deleted": 1, "unchanged": 7}, "there")
        assert manager.key("s", 3) not in place.bucket
        assert "session_new/session.json" in place.bucket, "what was never here stays"
        same(place.counts(place.take, "--delete"), {"created": 1, "deleted": 1, "unchanged": 7},
             "here")
        same(sorted(path for path in place.files() if "message" in path),
             [f"session_other/{MESSAGES}/message_0.json", at(0), at(1)], "files")


def test_an_object_that_is_replaced_at_the_last_moment_is_neither_overwritten_nor_deleted(box):
    with place_of(box) as place:
        manager = Manager(place.bucket)
        manager.session("s", 2)
        place.take()
        place.put(f"session_s/{MESSAGES}/message_0.json", b'{"here": 0}')
        place.do("rm", place.store, f"session_s/{MESSAGES}/message_1.json")

        def replace(request):
            if request.operation in ("PUT", "DELETE"):
                manager.message("s", int(request.key[-6]), text="there, at the last moment")

        place.server.before = replace
        said = place.send("--delete", status=1)
        for number in (0, 1):
            there = place.bucket[manager.key("s", number)].data
            assert f"{manager.key('s', number)}: it has changed here and in the bucket" in said
            assert b"last moment" in there, number


def test_a_prefix_that_begins_another_one_has_its_own_objects_alone(box):
    with place_of(box) as place:
        for prefix, count in (("prod-eu", 40), ("prod", 2), ("prod2", 1)):
            for number in range(count):
                place.bucket[f"{prefix}/notes/{number:04}"] = Object(b"x")
            Manager(place.bucket, prefix).session(prefix, 1)
        for number in range(1000):
            place.bucket[f"prod-eu/notes/more-{number:04}"] = Object(b"x")
        same(place.counts(place.take, url="s3://b/prod"), {"created": 3, "left_out": 2}, "import")
        same({path.split("/")[0] for path in place.files()}, {"session_prod"}, "sessions")
        before = place.objects()
        place.put("session_prod/session.json", b'{"session_id": "prod", "x": 1}')
        same(place.counts(place.send, url="s3://b/prod"),
             {"replaced": 1, "unchanged": 2, "left_out": 2}, "export")
        same([key for key, data in place.objects().items() if data != before[key]],
             ["prod/session_prod/session.json"], "what changed")


def test_slashes_around_the_prefix_of_strands_are_as_its_client_has_them(box):
    with place_of(box) as place:
        at = f"session_s/{MESSAGES}/message_0.json"
        place.put(at, b"{}")
        for number, (prefix, base) in enumerate([("", ""), ("/x", "x/"), ("/x/", "x/"),
                                                 ("/x/y/", "x/y/"), ("//x", "x/"), ("/", "")]):
            name = f"bucket{number}"
            place.server.buckets[name]
            same(place.counts(place.send, url=f"s3://{name}{prefix}"), {"created": 1}, prefix)
            same(list(place.server.buckets[name]), [base + at], f"with {prefix!r}")
        # As it was before its version 1.31: the bucket goes on as it is, unless both are there.
        for number, (prefix, base) in enumerate([("", "/"), ("/x/", "x//"), ("//x", "/x/")]):
            name = f"old{number}"
            objects = place.server.buckets[name]
            objects[base + at] = Object(b"{}")
            other = Place(box, place.server)
            other.take("--layout=strands", url=f"s3://{name}{prefix}")
            same(other.files(), {at: b"{}"}, f"from {base!r}")
            other.put("session_s/session.json", b'{"a": 1}')
            other.send(url=f"s3://{name}{prefix}")
            same(sorted(objects), [base + at, base + "session_s/session.json"], f"to {base!r}")
        for number in range(3):
            place.bucket[f"/session_old/agents/agent_{number}/agent.json"] = Object(b"{}")
        place.bucket["session_new/session.json"] = Object(b"{}")
        other = Place(box, place.server)
        other.take()
        same(list(other.files()), ["session_new/session.json"], "where both are")


def test_an_import_that_goes_on_knows_what_an_export_has_done_meanwhile(box):
    with place_of(box) as place:
        manager = Manager(place.bucket)
        manager.session("s", 1)
        at = f"session_s/{MESSAGES}/message_0.json"
        watcher = subprocess.Popen([box.program, "import", "--every=1s", place.store,
                                    "s3://b"], env=place.environment(), stdout=subprocess.PIPE)
        try:
            assert b"3 created" in watcher.stdout.readline(), "the first round"
            watcher.send_signal(signal.SIGSTOP)
            place.put(at, b'{"message_id": 0, "version": 1}')
            place.send()
            place.put(at, b'{"message_id": 0, "version": 2}')
            manager.message("s", 1)
            watcher.send_signal(signal.SIGCONT)
            said = watcher.stdout.readline()
            assert b"1 created" in said and b"changed on both sides" not in said, said
        finally:
            watcher.send_signal(signal.SIGTERM)
            watcher.communicate()
        same(place.files()[at], b'{"message_id": 0, "version": 2}', "the file")


def test_a_pattern_chooses_sessions_and_a_dry_run_changes_nothing(box):
    with place_of(box) as place:
        manager = Manager(place.bucket)
        for name in ("a1", "a2", "b1"):
            manager.session(name, 1)
        plan = place.take("-n", "--session=a*")
        same(sorted(re.findall(r"download +session_(\w+)/session.json", plan)), ["a1", "a2"], plan)
        assert not os.path.exists(place.store), "a dry run makes no store"
        place.take("--session=a*")
        same({path.split("/")[0] for path in place.files()}, {"session_a1", "session_a2"}, "some")
        place.take()
        for name in ("a1", "b1"):
            place.put(f"session_{name}/session.json", b'{"x": 1}')
        place.send("--session=b?")
        same(place.bucket["session_a1/session.json"].data == b'{"x": 1}', False, "not asked for")
        same(place.bucket["session_b1/session.json"].data, b'{"x": 1}', "asked for")
        # What is not asked for is not forgotten: what was removed here does not come back.
        place.do("rm", place.store, f"session_a2/{MESSAGES}/message_0.json")
        place.take("--session=b1")
        place.take()
        assert f"session_a2/{MESSAGES}/message_0.json" not in place.files(), "it came back"
        place.send("--delete")
        assert manager.key("a2", 0) not in place.bucket, "it is known that it was removed"


def test_objects_that_strands_adds_are_files_within_a_round_and_the_other_way_round(box):
    with place_of(box) as place:
        manager = Manager(place.bucket)
        manager.session("s", 1)
        mount = box.mount(store=place.store)
        for verb in (["import"], ["export", "--layout=strands"]):
            place.server.fault(lambda request: True, status=503, times=3)  # at the start
            watcher = subprocess.Popen([box.program, *verb, "--watch", "--every=1s", mount.store,
                                        "s3://b"], env=place.environment(AWS_MAX_ATTEMPTS="2"),
                                       stdout=subprocess.PIPE)
            try:
                assert b"unchanged" in watcher.stdout.readline(), "the first round"
                if verb[0] == "import":
                    manager.message("s", 1)
                    there = mount.at("session_s", MESSAGES, "message_1.json")
                    eventually(lambda: os.path.exists(there), "the object is a file")
                    same(read(there), place.bucket[manager.key("s", 1)].data, "its bytes")
                else:
                    place.server.fault(lambda request: True, status=503, times=3)
                    write(mount.at("session_s", MESSAGES, "message_2.json"), b'{"message_id": 2}')
                    eventually(lambda: manager.key("s", 2) in place.bucket, "the file is an object")
            finally:
                watcher.send_signal(signal.SIGTERM)
                said = watcher.communicate()
            same(watcher.returncode, -signal.SIGTERM, f"{verb} ends by a signal: {said}")


# The other layouts


def test_snapshots_of_strands_go_both_ways(box):
    with place_of(box) as place:
        base = "sess/s1/scopes/agent/default/snapshots/"
        place.bucket[base + "snapshot_latest.json"] = Object(b'{"v": 1}')
        place.bucket[base + "manifest.json"] = Object(b'{"schemaVersion":"1.0"}')
        place.bucket[base + "immutable_history/snapshot_0199-7.json"] = Object(b'{"v": 0}')
        same(place.counts(place.take, url="s3://b/sess"), {"created": 3}, "import")
        same(place.files(), {key[len("sess/") :]: data for key, data in place.objects().items()},
             "files")
        place.put("s1/scopes/agent/default/snapshots/snapshot_latest.json", b'{"v": 2}')
        same(place.counts(place.send, layout="strands-snapshots", url="s3://b/sess/"),
             {"replaced": 1, "unchanged": 2}, "export")
        same(place.bucket[base + "snapshot_latest.json"].data, b'{"v": 2}', "the snapshot")


def parts_of(place, prefix):
    return [place.bucket[key].data for key in sorted(place.bucket)
            if key.startswith(prefix) and "/" not in key[len(prefix) :]]


def test_parts_of_a_transcript_are_its_lines_and_new_lines_a_new_part(box):
    with place_of(box) as place:
        lines = [json.dumps({"uuid": n}).encode() + b"\n" for n in range(9)]
        for number, part in enumerate((lines[:3], lines[3:4], lines[4:6])):
            place.bucket[f"t/p/s/part-{1760000000000 + number}-00000{9 - number}.jsonl"] = Object(
                b"".join(part))
        place.bucket["t/p/s/subagents/agent-x/part-1760000000000-abcdef.jsonl"] = Object(b"1\n")
        run = lambda way, *more: place.counts(way, *more, url="s3://b/t",
                                              **({} if way == place.take
                                                 else {"layout": "claude-parts"}))
        same(run(place.take), {"created": 4}, "import")
        same(place.files(), {"p/s.jsonl": b"".join(lines[:6]),
                             "p/s/subagents/agent-x.jsonl": b"1\n"}, "files")
        mount = box.mount(store=place.store)
        append(mount.at("p", "s.jsonl"), lines[6] + lines[7] + b'{"unfinished')
        same(run(place.send), {"created": 1, "unchanged": 1}, "export of new lines")
        same(parts_of(place, "t/p/s/"), [b"".join(part) for part in
                                         (lines[:3], lines[3:4], lines[4:6], lines[6:8])], "parts")
        # A part by another writer, then the end of the line here.
        place.bucket["t/p/s/part-9000000000000-000000.jsonl"] = Object(b'{"other": 1}\n')
        same(run(place.take), {"created": 1, "unchanged": 1}, "import of a part")
        same(read(mount.at("p", "s.jsonl")),
             b"".join(lines[:8]) + b'{"other": 1}\n{"unfinished', "the file")
        mount.stop()
        # A redaction in the middle changes its part alone.
        text = place.files()["p/s.jsonl"].replace(b'{"unfinished', b"").replace(
            b'{"uuid": 3}', b'{"uuid": 3, "redacted": true}')
        place.put("p/s.jsonl", text)
        same(run(place.send), {"replaced": 1, "unchanged": 1}, "export of a redaction")
        same(parts_of(place, "t/p/s/")[1], b'{"uuid": 3, "redacted": true}\n', "that part")
        # Without what is kept, nothing comes twice.
        for way in (place.send, place.take):
            for name in place.do("ls", place.store).split():
                if name.startswith(".sessfs-s3-"):
                    place.do("rm", place.store, name)
            before = place.objects()
            same(run(way), {"unchanged": 2}, f"{way}")
        same(place.objects(), before, "no part comes twice")
        same(place.files()["p/s.jsonl"], text, "no line comes twice")


def test_lines_that_are_the_same_in_two_parts_are_two_lines(box):
    with place_of(box) as place:
        base = "t/p/s/part-176000000000"
        place.bucket[base + "5-000000.jsonl"] = Object(b"1\n")
        place.take(url="s3://b/t")
        place.do("append", place.store, "p/s.jsonl", stdin=b"2\n")
        place.bucket[base + "4-000000.jsonl"] = Object(b"1\n")
        place.take(url="s3://b/t")
        same(place.files(), {"p/s.jsonl": b"1\n1\n2\n"}, "the file")
        place.send(layout="claude-parts", url="s3://b/t")
        same(parts_of(place, "t/p/s/"), [b"1\n", b"1\n", b"2\n"], "the parts")
        # A part comes while another one has a change to be sent.
        place.put("p/s.jsonl", b"1\n3\n2\n")
        place.bucket["t/p/s/part-9000000000000-000000.jsonl"] = Object(b"4\n")
        place.take(url="s3://b/t")
        same(place.files(), {"p/s.jsonl": b"1\n3\n2\n4\n"}, "the file")
        place.send(layout="claude-parts", url="s3://b/t")
        same(parts_of(place, "t/p/s/"), [b"1\n", b"3\n", b"2\n", b"4\n"], "the parts")
        place.operations()
        place.send(layout="claude-parts", url="s3://b/t")
        same(set(place.operations()), {"LIST"}, "nothing is left to do")


def test_a_new_part_stands_behind_all_others_whatever_is_in_their_names(box):
    with place_of(box) as place:
        base = "t/part-7/p/s/part-"
        place.bucket[base + "9000000000000-000000.jsonl"] = Object(b"1\n")
        place.take(url="s3://b/t/part-7")
        place.do("append", place.store, "p/s.jsonl", stdin=b"2\n")
        run = lambda **named: place.send(layout="claude-parts", url="s3://b/t/part-7", **named)
        run()
        same(parts_of(place, "t/part-7/p/s/"), [b"1\n", b"2\n"], "parts")
        same([len(key) for key in place.bucket], 2 * [len(base) + 26], "their names")
        place.bucket[base + "9999999999999-000000.jsonl"] = Object(b"3\n")
        place.take(url="s3://b/t/part-7")
        place.do("append", place.store, "p/s.jsonl", stdin=b"4\n")
        said = run(status=1)
        assert "no part can stand behind" in said, said
        same(len(place.bucket), 3, "parts")


def test_a_store_with_claudes_layout_has_the_transcripts_where_that_has_them(box):
    with place_of(box) as place:
        box.mount(store=place.store, options=["layout=claude"]).stop()
        place.bucket["p/s/part-1760000000000-abcdef.jsonl"] = Object(b'{"a": 1}\n')
        same(place.counts(place.take), {"created": 1}, "import")
        same(place.files(), {"claude/projects/p/s.jsonl": b'{"a": 1}\n'}, "its place")
        same(sqlite3.connect(place.store).execute(
            "SELECT session_id, state_key, state_data FROM agentscope_sessions").fetchall(),
            [("claude:p:s", "transcript", '{"a": 1}')], "its row")


def test_states_of_agentscope_are_documents_lists_and_hashes(box):
    with place_of(box) as place:
        base = "agentscope/state/"
        place.bucket[base + "__anon__/s1/agent_state.json"] = Object(b'{"a":1}')
        place.bucket[base + "alice/s1/memory.list.json"] = Object(b'[{"n": 1},\n {"n": [2, 3]}]')
        place.bucket[base + "alice/s1/memory.list.hash"] = Object(b"0badcafe")
        place.bucket[base + "b\u00f6b the second/s/empty.list.json"] = Object(b"[]")
        place.bucket[base + "b\u00f6b/s/empty.list.json"] = Object(b"[]")
        assert "no file can have this name" in place.take(status=1), "a short name, not safe"
        del place.bucket[base + "b\u00f6b/s/empty.list.json"]
        same(place.counts(place.take), {"unchanged": 4}, "import")
        files = place.files()
        same(files["alice/s1/memory.jsonl"], b'{"n":1}\n{"n":[2,3]}\n', "the list")
        same(files["alice/s1/memory.hash"], b"0badcafe", "its hash")
        same(files["__anon__/s1/agent_state.json"], b'{"a":1}', "the document")
        assert not any("\u00f6" in path for path in files), "a user's name is safe in a path"
        same(place.counts(place.send, layout="agentscope"), {"unchanged": 4}, "nothing to send")
        place.do("append", place.store, "alice/s1/memory.jsonl", stdin=b'{"n": 4}\n')
        same(place.counts(place.send, layout="agentscope"), {"replaced": 1, "unchanged": 3}, "list")
        same(json.loads(place.bucket[base + "alice/s1/memory.list.json"].data),
             [{"n": 1}, {"n": [2, 3]}, {"n": 4}], "the array")
        place.server.buckets["c"]
        place.send(layout="agentscope", url="s3://c")
        same(sorted(place.server.buckets["c"]), sorted(place.bucket), "the same keys")


def test_a_terminal_shows_how_far_it_is(box):
    with place_of(box) as place:
        for number in range(8):
            Manager(place.bucket).session(f"s{number}", 5)
        place.server.latency = 0.05
        os.environ.update(place.environment())
        for verb in (["import", place.store], ["export", "--layout=strands", place.store],
                     ["backup", place.store]):
            url = "s3://c/name" if verb[0] == "backup" else f"s3://{'bc'[verb[0] == 'export']}"
            place.server.buckets["c"]
            terminal = Terminal(box, *verb, url)
            seen = terminal.end()
            counts = re.findall(rb"(\d+) of (\d+) files", seen)
            if verb[0] != "backup":
                assert counts and all(int(done) <= int(total) == 56 for done, total in counts), seen


# What goes wrong


def test_busy_servers_and_cut_answers_are_asked_again(box):
    with place_of(box) as place:
        manager = Manager(place.bucket)
        manager.session("s", 9)
        fault = place.server.fault
        fault(lambda r: r.operation == "LIST", status=503, times=2)
        fault(lambda r: r.operation == "LIST", status=429, headers={"Retry-After": "0"})
        fault(lambda r: r.operation == "LIST", cut=100)
        fault(lambda r: r.operation == "GET", cut=7, times=4)
        fault(lambda r: r.operation == "GET", status=500, code="InternalError", times=3)
        fault(lambda r: r.operation == "GET", cut=0, pause=0.3)
        place.take()
        expected = place.objects()
        same(place.files(), expected, "files")
        place.server.buckets["c"]
        # An answer that is lost: the second try finds what the first has done.
        fault(lambda r: r.operation == "PUT", lose=True, times=5)
        fault(lambda r: r.operation == "PUT", status=503, times=5)
        same(place.counts(place.send, url="s3://c").get("conflicts"), None, "lost answers")
        same({key: found.data for key, found in place.server.buckets["c"].items()}, expected,
             "the other bucket")


def test_a_server_that_stays_away_is_given_up_with_a_sentence(box):
    with place_of(box) as place:
        Manager(place.bucket).session("s", 1)
        env = place.environment(AWS_MAX_ATTEMPTS="2")
        place.server.fault(lambda r: True, status=503, times=99)
        said = place.take(status=1, env=env)
        assert "503" in said and "SlowDown" in said, said
        said = place.take(status=1, env=env | {
            "AWS_ENDPOINT_URL_S3": f"http://localhost:{bucket.closed_port()}"})
        assert "cannot reach http://localhost" in said, said


def test_bad_buckets_get_a_sentence_each_and_nothing_half_done(box):
    with place_of(box) as place:
        place.server.buckets["b"]["session_s/session.json"] = Object(b"{}")

        def refused(*words, verb=place.take, status=1, **env):
            said = verb(status=status, env=place.environment(**env))
            same(said.count("\n"), 1, f"one sentence: {said!r}")
            for word in words:
                assert word in said, (word, said)
            assert bucket.SECRET not in said and "falsch" not in said, said

        refused("does not know this access key", AWS_ACCESS_KEY_ID="AKWRONG")
        refused("secret key", AWS_SECRET_ACCESS_KEY="falsch")
        refused("another region", "us-east-1", AWS_REGION="eu-central-1")
        refused("no such bucket", verb=lambda **named: place.take(url="s3://none", **named))
        # The answer to a HEAD has no text that says what is wrong.
        restore = lambda **named: place.do("restore", "s3://b/x", box.new_path("back.db"), **named)
        refused("another region", "us-east-1", verb=restore, AWS_REGION="eu-central-1")
        for minutes in (20, -20):
            place.server.ahead = minutes * 60
            refused("clock", "20 minutes")
            refused("clock", "20 minutes", verb=restore)
        place.server.ahead = 0
        place.server.denied = {"LIST", "HEAD"}
        refused("no right")
        refused("no right", verb=restore)
        place.server.denied = set()
        refused("endpoint", AWS_ENDPOINT_URL_S3="ftp://x")
        place.take("--region=", "-n")
        refused("no credentials", AWS_ACCESS_KEY_ID="")
        same(set(place.operations()) - {"LIST", "HEAD"}, set(), "what was asked")
        place.server.buckets["empty"]
        refused("name the prefix", verb=lambda **named: place.take(url="s3://empty", **named))
        same(os.path.exists(place.store), False, "no store was made")
        assert "no bucket" in place.do("import", place.store, "s3:///x", status=1)
        for url in ("s3://b/x?y", "s3://B!"):
            place.do("import", place.store, url, status=1)


def test_bad_objects_are_left_out_with_a_sentence_and_the_rest_comes(box):
    with place_of(box) as place:
        manager = Manager(place.bucket)
        manager.session("s", 2)
        bad = {
            "session_s/agents/agent_a/messages/message_5.json": b"{no json",
            "session_../agents/../agent_a/agent.json": b"{}",
            "session_s/agents/agent_\n/agent.json": b"{}",
            "session_" + "x" * 300 + "/session.json": b"{}",
        }
        for key, data in bad.items():
            place.bucket[key] = Object(data)
        place.bucket["session_@role=user/session.json"] = Object(b"{}")
        large = place.bucket["session_s/agents/agent_big/agent.json"] = Object(b"{}")
        large.size = 5 << 30
        manager.message("s", 4)
        place.server.fault(lambda r: r.operation == "GET" and r.key.endswith("_4.json"), status=403,
                           code="InvalidObjectState")
        said = place.take(status=1)
        for words in ("message_4.json: GET: it is archived", "message_5.json: it is not JSON",
                      "agent_big/agent.json: it is larger"):
            assert words in said, said
        same(said.count("no file can have this name"), 2, said)
        same(sorted(path for path in place.files() if "@" not in path),
             sorted(key for key in place.bucket
                    if key not in bad and "_4." not in key and "big" not in key
                    and "@" not in key), "the rest")
        # And files that no reader could take.
        del place.bucket["session_s/agents/agent_a/messages/message_5.json"]
        place.put(f"session_s/{MESSAGES}/message_7.json", b"{not yet")
        place.put(f"session_s/{MESSAGES}/message_x.json", b"{}")
        said = place.send(status=1)
        assert "message_7.json: its file is not JSON" in said, said
        assert not {manager.key("s", 7), manager.key("s", "x")} & set(place.bucket), "not sent"


def test_an_object_that_may_not_be_read_is_named_and_the_rest_comes_unless_that_is_none(box):
    with place_of(box) as place:
        manager = Manager(place.bucket)
        manager.session("s", 60)
        denied = [manager.key("s", 7)]
        place.server.fault(lambda r: r.operation == "GET" and (not denied or r.key in denied),
                           status=403, code="AccessDenied", times=10 ** 6)
        said = place.take(status=1)
        assert "message_7.json: GET: these credentials have no right to do that" in said, said
        same(said.count("no right"), 1, said)
        same(len(place.files()), 61, "the rest")
        denied.clear()
        manager.session("t", 400)
        place.operations()
        said = place.take(status=1)
        assert said.count("no right") <= 33, said
        assert place.operations().count("GET") < 100, "it does not go on"
        same(len(place.files()), 61, "nothing has come")


def test_what_is_left_out_is_fetched_once_and_named_once_in_each_command(box):
    with place_of(box) as place:
        manager = Manager(place.bucket)
        manager.session("s", 2)
        bad, name = manager.key("s", 5), f"session_{'x' * 300}/session.json"
        place.bucket[bad] = Object(b"{no json")
        place.bucket[name] = Object(b"{}")
        place.bucket["session_big/session.json"] = Object(b"{}")
        place.bucket["session_big/session.json"].size = 5 << 30
        place.put(f"session_s/{MESSAGES}/message_7.json", b"{not yet")
        manager.message("s", 8, text="there")
        place.put(f"session_s/{MESSAGES}/message_8.json", b'{"here": 8}')
        for verb, words in (("import", ("_5.json: it is not JSON", name + ": no file can",
                                        "larger than 256 MiB", "_8.json: it has changed here")),
                            ("export", (name + ": no file can", "_7.json: its file is not JSON",
                                        "_8.json: it has"))):
            for again in range(2):
                place.operations()
                watcher = subprocess.Popen(
                    [box.program, verb, "--layout=strands", "--watch", "--every=1s", place.store,
                     "s3://b"], env=place.environment(), stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE)
                eventually(lambda: place.server.count("LIST") > 3, "some rounds")
                asked = collections.Counter(r.key for r in place.server.requests
                                            if r.operation == "GET")
                same(asked[bad], 0 if again or verb == "export" else 1, f"{verb}: {asked}")
                manager.message("s", 20 + 2 * again + (verb == "export"))
                if verb == "export":
                    place.put(f"session_s/{MESSAGES}/message_{30 + again}.json", b"{}")
                    eventually(lambda: manager.key("s", 30 + again) in place.bucket, "it goes on")
                else:
                    eventually(lambda: f"message_{20 + 2 * again}" in place.do(
                        "ls", place.store, f"session_s/{MESSAGES}"), "it goes on")
                watcher.send_signal(signal.SIGTERM)
                told, said = (text.decode() for text in watcher.communicate())
                for word in words:
                    same(said.count(word), 1, f"{verb}, run {again}: {word!r} in {said}")
                assert len(told.splitlines()) <= 2, told
        # It is good now, and the next one is bad.
        place.bucket[bad] = Object(b'{"json": 1}')
        place.bucket[manager.key("s", 6)] = Object(b"{nor this")
        said = place.take(status=1)
        assert "_6.json: it is not JSON" in said and "_5.json" not in said, said
        same(place.files()[f"session_s/{MESSAGES}/message_5.json"], b'{"json": 1}', "the file")
        del place.bucket[manager.key("s", 6)]
        assert "_6.json" not in place.take(status=1), "it is gone"
        place.bucket[manager.key("s", 6)] = Object(b"{nor this")
        place.take(status=1)
        # What never came is not deleted there, and its name is free here.
        place.send("--delete", status=1)
        assert manager.key("s", 6) in place.bucket
        place.put(f"session_s/{MESSAGES}/message_6.json", b'{"here": 6}')
        assert "_6.json: it is not JSON" in place.send(status=1)
        same(place.bucket[manager.key("s", 6)].data, b"{nor this", "the object")


def test_an_object_that_is_larger_than_its_listing_says_is_fetched_once(box):
    with place_of(box) as place:
        manager = Manager(place.bucket)
        manager.session("s", 3)
        odd, large, grown = (manager.key("s", number) for number in range(3))
        answer, small = place.server.answer, place.bucket[grown]
        place.bucket[odd].size += 7  # as a server counts it that lists something else
        swollen = {large, grown}

        def replace(request):
            if request.operation == "GET" and request.key == grown and grown in swollen:
                place.bucket[grown] = Object(b"{}")

        def swell(request):
            status, headers, data = answer(request)
            if request.operation == "GET" and request.key in swollen:
                headers = headers | {"Content-Length": (256 << 20) + 1}
            return status, headers, data

        place.server.before, place.server.answer = replace, swell
        said = place.take(status=1)
        for key in swollen:
            assert f"{key}: it is larger than 256 MiB, so it is left out" in said, said
        same(sorted(place.files()), sorted(set(place.bucket) - swollen), "files")
        # It is as it was, and another one is not known by its listing.
        swollen.discard(grown)
        place.bucket[grown] = small
        place.operations()
        said = place.take(status=1)
        assert f"{large}: it is larger" in said and grown not in said, said
        same(place.operations().count("GET"), 1, "what has changed")
        same(place.files()[grown], small.data, "the file")
        same(place.take(status=1), said, "again")
        same(set(place.operations()), {"LIST"}, "what is asked")
        place.bucket[large] = Object(b'{"small": 1}')
        swollen.clear()
        place.take()
        same(place.files(), place.objects(), "in the end")
        place.operations()
        place.send()
        same(set(place.operations()), {"LIST"}, "what an export asks")


def test_a_list_that_ends_too_early_is_none_although_its_answer_is_whole(box):
    with place_of(box) as place:
        Manager(place.bucket).session("s", 3)
        place.take()
        files, answer = place.files(), place.server.answer

        def cut(request):
            status, headers, data = answer(request)
            return status, headers, data[:-20] if request.operation == "LIST" else data

        place.server.answer = cut
        said = place.take("--delete", status=1)
        assert "no list of objects" in said, said
        same(place.files(), files, "files")


def test_a_folder_that_has_the_name_of_a_file_stays_and_is_named(box):
    with place_of(box) as place:
        Manager(place.bucket).session("s")
        place.put("session_s/session.json/x", b"1")
        said = place.take(status=1)
        assert "session_s/session.json: it is a directory" in said, said
        same(sorted(place.files()), ["session_s/agents/agent_a/agent.json",
                                     "session_s/session.json/x"], "files")


def test_a_streamed_upload_that_an_emulator_has_kept_in_its_frame_is_read(box):
    with place_of(box) as place:
        body = b"".join([b"9;chunk-signature=aa\r\n", b'{"framed"', b"\r\n5\r\n: 12}\r\n",
                         b"0;x=y\r\nz:1\r\n\r\n"])
        place.bucket["session_s/session.json"] = Object(body, {"Content-Encoding": "aws-chunked"})
        plain = place.bucket["session_t/session.json"] = Object(b"{}")
        plain.headers["Content-Encoding"] = "aws-chunked"
        place.take()
        same(place.files(), {"session_s/session.json": b'{"framed": 12}',
                             "session_t/session.json": b"{}"}, "files")


def test_credentials_come_from_files_and_tokens_and_are_seen_nowhere(box):
    with place_of(box) as place:
        Manager(place.bucket).session("s", 1)
        env = {name: value for name, value in place.environment().items()
               if not name.startswith("AWS_")}
        folder = os.path.join(box.folder, ".aws")
        os.mkdir(folder)
        write(os.path.join(folder, "credentials"),
              f"[default]\naws_access_key_id=wrong\n\n[work]\n# comment\naws_access_key_id = "
              f"{bucket.ID}\naws_secret_access_key={bucket.SECRET}\n".encode())
        write(os.path.join(folder, "config"),
              f"[profile work]\nregion = us-east-1\nendpoint_url = {place.server.url}\n".encode())
        place.take(env=env | {"AWS_PROFILE": "work"})
        place.server.keys["ASIA"] = (bucket.SECRET, "session-token")
        place.take(env=place.environment(AWS_ACCESS_KEY_ID="ASIA",
                                         AWS_SESSION_TOKEN="session-token"))
        token = box.new_path("token")
        write(token, b"a.web/token+1\n")
        web = {"AWS_WEB_IDENTITY_TOKEN_FILE": token, "AWS_ROLE_ARN": "arn:aws:iam::1:role/x",
               "AWS_ENDPOINT_URL_STS": place.server.url, "AWS_ENDPOINT_URL_S3": place.server.url}
        place.take(env=env | web)
        place.server.lifetime = 60  # soon over: asked for again before each request
        place.take(env=env | web)
        assert place.server.assumed > 2, place.server.assumed
        write(token, b"stolen")
        said = place.take(env=env | web, status=1)
        assert "no credentials for the token" in said and "stolen" not in said, said
        said = place.take("--endpoint=http://id:pass@localhost:1", status=1)
        assert "pass@" not in said, said


PLAIN = "aws_access_key_id = {0}\naws_secret_access_key = {1}\n"


def test_credentials_and_the_region_are_looked_for_in_the_order_of_awss_own_tools(box):
    """What was signed with, by what is in the environment, ~/.aws/credentials and ~/.aws/config;
    WEB stands for a key that a token was exchanged for."""
    with place_of(box) as place:
        Manager(place.bucket).session("s", 1)
        token = box.new_path("token")
        write(token, b"a.web/token+1\n")
        for key in ("ENV", "SHARED", "CONFIG", "OTHER"):
            place.server.keys[key] = (bucket.SECRET, None)
        place.server.keys["TOKEN"] = (bucket.SECRET, "t")
        secret, url = bucket.SECRET, place.server.url
        env = {"AWS_ACCESS_KEY_ID": "ENV", "AWS_SECRET_ACCESS_KEY": secret}
        web = {"AWS_WEB_IDENTITY_TOKEN_FILE": token, "AWS_ROLE_ARN": "arn:aws:iam::1:role/x"}
        keys = {key: PLAIN.format(key, secret) for key in place.server.keys}
        shared, config = f"[default]\n{keys['SHARED']}", f"[default]\n{keys['CONFIG']}"
        web_config = f"web_identity_token_file = {token}\nrole_arn = arn:aws:iam::1:role/y\n"
        other = f"[profile other]\n{keys['OTHER']}region = eu-west-3\n"
        use = {"AWS_PROFILE": "other"}
        for given, in_shared, in_config, key, region in (
                (env, shared, config, "ENV", None),
                (env | web | use, shared, other, "ENV", "eu-west-3"),
                (web, shared, config, "WEB", None),
                ({}, shared, f"[default]\n{web_config}", "WEB", None),
                ({}, shared + web_config, "", "WEB", None),
                (use, shared, other + web_config, "WEB", "eu-west-3"),
                ({}, shared, config, "SHARED", None),
                ({}, shared, config + "aws_session_token = not of these keys\n", "SHARED", None),
                ({}, f"[default]\n{keys['TOKEN']}aws_session_token = t\n", "", "TOKEN", None),
                (use, "[other]\n" + keys["SHARED"], other, "SHARED", "eu-west-3"),
                (use, shared, other, "OTHER", "eu-west-3"),
                (use, shared, other.replace("other]", '"other" ]'), "OTHER", "eu-west-3"),
                (use, shared, "[other]\n" + keys["CONFIG"] + other, "OTHER", "eu-west-3"),
                ({}, "", config.replace("[", "[profile "), "CONFIG", None),
                ({}, shared, "[default]\ns3 =\n  region = x\n  endpoint_url = http://x\n"
                 "region = eu-west-1\n[profile x]\nregion = y\n", "SHARED", "eu-west-1"),
                ({}, "[default]\n  " + keys["SHARED"].replace("\n", "\n  "),
                 "\r\n[default]\r\nregion=eu-west-1 \r\n", "SHARED", "eu-west-1"),
                (env | {"AWS_DEFAULT_REGION": "a-1"}, "", other + "[default]\nregion=b-1", "ENV",
                 "a-1"),
                (env | {"AWS_DEFAULT_REGION": "a-1", "AWS_REGION": "c-1"}, "", "", "ENV", "c-1"),
                (env | {"AWS_DEFAULT_REGION": "", "AWS_REGION": ""}, "", "[default]\nregion=b-1",
                 "ENV", "b-1")):
            what = f"{given} {in_shared!r} {in_config!r}"
            folder = os.path.join(box.new_folder("home"), ".aws")
            os.mkdir(folder)
            write(os.path.join(folder, "credentials"), in_shared.encode())
            write(os.path.join(folder, "config"), in_config.encode())
            place.server.region = region or "us-east-1"
            place.operations()
            place.take(env={name: value for name, value in place.environment().items()
                            if not name.startswith("AWS_")}
                       | {"HOME": os.path.dirname(folder), "AWS_ENDPOINT_URL": url} | given)
            signed = place.server.requests[-1].headers["authorization"]
            found = re.search(r"Credential=([^/]+)/", signed)[1]
            same("WEB" if found.startswith("ASIA") else found, key, what)
        said = place.take(status=1, env=place.environment(AWS_SECRET_ACCESS_KEY=""))
        assert "no AWS_SECRET_ACCESS_KEY beside it" in said, said
        # Other files, and what is said beats all.
        for name, text in (("shared", shared), ("config", other)):
            write(os.path.join(box.folder, name), text.encode())
        place.server.region = "d-1"
        place.take("--region=d-1", env=place.environment(
            AWS_SHARED_CREDENTIALS_FILE=os.path.join(box.folder, "shared"), AWS_PROFILE="other",
            AWS_CONFIG_FILE=os.path.join(box.folder, "config"), AWS_ACCESS_KEY_ID=""))
        same("Credential=OTHER/" in place.server.requests[-1].headers["authorization"], True, "")
        # Who asks for a role has a name.
        for name, more in (("sessfs", {}), ("me", {"AWS_ROLE_SESSION_NAME": "me"})):
            place.operations()
            place.take(env=place.environment(AWS_ACCESS_KEY_ID="", AWS_ENDPOINT_URL_STS=url, **web,
                                             **more))
            same(f"RoleSessionName={name}&" in place.server.requests[0].body.decode(), True, name)


def test_a_region_is_in_the_domain_of_its_partition(box):
    """Where a proxy would connect to, for a bucket and for a token of web identity."""
    token, asked = box.new_path("token"), []
    write(token, b"x")

    class Proxy(socketserver.StreamRequestHandler):
        def handle(self):
            asked.append(self.rfile.readline().decode().split()[1])
            self.wfile.write(b"HTTP/1.1 403 X\r\nContent-Length: 0\r\n\r\n")

    with (place_of(box) as place,
          socketserver.ThreadingTCPServer(("127.0.0.1", 0), Proxy) as proxy):
        threading.Thread(target=proxy.serve_forever, args=(0.05,), daemon=True).start()
        env = {name: value for name, value in place.environment().items()
               if not name.startswith("AWS_")} | {
            "https_proxy": "http://127.0.0.1:%d" % proxy.server_address[1], "AWS_MAX_ATTEMPTS": "1"}
        keys = {"AWS_ACCESS_KEY_ID": bucket.ID, "AWS_SECRET_ACCESS_KEY": bucket.SECRET}
        web = {"AWS_WEB_IDENTITY_TOKEN_FILE": token, "AWS_ROLE_ARN": "arn:aws:iam::1:role/x"}
        for region, domain in (("eu-west-1", "amazonaws.com"), ("us-gov-west-1", "amazonaws.com"),
                               ("cn-north-1", "amazonaws.com.cn"),
                               ("cn-northwest-1", "amazonaws.com.cn"),
                               ("eusc-de-east-1", "amazonaws.eu"), ("us-iso-east-1", "c2s.ic.gov"),
                               ("us-isob-east-1", "sc2s.sgov.gov"),
                               ("us-isof-south-1", "csp.hci.ic.gov"),
                               ("eu-isoe-west-1", "cloud.adc-e.uk")):
            for url, more, host in (("s3://b", keys, "b.s3"), ("s3://b.c", keys, "s3"),
                                    ("s3://b", web, "sts")):
                asked.clear()
                said = place.take(f"--region={region}", url=url, status=1, env=env | more)
                same(asked, [f"{host}.{region}.{domain}:443"], said)
        proxy.shutdown()


def test_no_dump_of_the_process_has_the_secret(box):
    with place_of(box) as place:
        Manager(place.bucket).session("s", 1)
        place.server.fault(lambda r: r.operation == "GET", cut=0, pause=20)
        folder = box.new_folder("dumps")
        process = subprocess.Popen([box.program, "import", place.store, "s3://b"], cwd=folder,
                                   env=place.environment(), preexec_fn=lambda:
                                   resource.setrlimit(resource.RLIMIT_CORE, (-1, -1)))
        eventually(lambda: place.server.count("GET"), "it is in the middle")
        limits = read(f"/proc/{process.pid}/limits").decode()
        assert bucket.SECRET.encode() not in read(f"/proc/{process.pid}/cmdline")
        assert re.search(r"Max core file size +1 +1 ", limits), limits
        process.send_signal(signal.SIGABRT)
        process.wait()
        same(os.listdir(folder), [], "dumps")


def test_https_is_verified(box):
    need_tool("openssl")
    key, cert = box.new_path("key"), box.new_path("cert")
    harness.tool("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out",
                 cert, "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost",
                 "-days", "30")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    with place_of(box, tls=context) as place:
        Manager(place.bucket).session("s", 1)
        said = place.take(status=1)
        assert "cannot reach https://localhost" in said, said
        place.take(env=place.environment(AWS_CA_BUNDLE=cert))
        assert place.files(), "with its certificate"


def test_keys_of_any_bytes_are_signed_in_both_styles(box):
    with place_of(box) as place:
        names = ["a b", "a+b", "a%2Fb", "~-_.", "\u65e5\u672c", "a&b=c", "'()*!", "q?x#y", "a;b",
                 "a:b@c", "[x]", "a,$", "\\", '"', "<&>", "`^{|}"]
        for name in names:
            place.bucket[f"session_{name}/session.json"] = Object(document({"id": name}))
        place.server.page = 3
        same(place.counts(place.take), {"created": len(names)}, "by path")
        for name in names:
            same(json.loads(place.files()[f"session_{name}/session.json"]), {"id": name}, name)
        place.server.buckets["c"]
        same(place.counts(place.send, "--style=host", url="s3://c"), {"created": len(names)},
             "by host")
        same({key: found.data for key, found in place.server.buckets["c"].items()},
             place.objects(), "the same bucket")
        assert all(request.headers["host"].startswith("c.localhost:")
                   for request in place.server.requests[-5:]), "by host"


def test_keys_and_objects_of_no_size_and_of_odd_names_are_taken_or_named(box):
    with place_of(box) as place:
        base = "agentscope/state/"
        put = lambda key, data: place.bucket.__setitem__(base + key, Object(data))
        put("u/s/", b"")
        put("u/s/a+b 100%.json", b"1")
        put("u/s/deep/er/k.json", b"2")
        put("u/s//k.json", b"3")
        put("u/s/k.json/", b"4")
        put("u/s/empty.list.hash", b"")
        put("u/s/empty.json", b"")
        put("u/s/l.list.json", b"")
        said = place.take("--layout=agentscope", status=1)
        for words in ("empty.json: it is not JSON", "l.list.json: it is not JSON",
                      "u/s//k.json: no file can have this name"):
            assert words in said, (words, said)
        same(place.files(), {"u/s/a+b 100%.json": b"1", "u/s/deep/er/k.json": b"2",
                             "u/s/empty.hash": b""}, "files")
        for key in ("u/s//k.json", "u/s/empty.json", "u/s/l.list.json"):
            del place.bucket[base + key]
        same(place.counts(place.take), {"unchanged": 3, "left_out": 2}, "once more")
        same(place.counts(place.send, layout="agentscope"), {"unchanged": 3, "left_out": 2}, "back")
        place.server.buckets["c"]
        same(place.counts(place.send, layout="agentscope", url="s3://c"), {"created": 3}, "another")
        same({key: found.data for key, found in place.server.buckets["c"].items()},
             {base + "u/s/a+b 100%.json": b"1", base + "u/s/deep/er/k.json": b"2",
              base + "u/s/empty.list.hash": b""}, "objects")
        same(place.counts(place.send, layout="agentscope", url="s3://c"), {"unchanged": 3}, "again")
        # Parts without a line.
        place.bucket["t/p/s/part-1760000000000-000000.jsonl"] = Object(b"")
        place.bucket["t/p/s/part-1760000000001-000000.jsonl"] = Object(b"1\n")
        place.bucket["t/p/e/part-1760000000001-000000.jsonl"] = Object(b"")
        other = Place(box, place.server)
        same(other.counts(other.take, url="s3://b/t"), {"created": 3}, "parts")
        same(other.files(), {"p/s.jsonl": b"1\n", "p/e.jsonl": b""}, "files")
        for run, named in ((other.take, {}), (other.send, {"layout": "claude-parts"})):
            same(other.counts(run, url="s3://b/t", **named), {"unchanged": 2}, "nothing to do")


def test_a_bucket_that_changes_while_it_is_listed_is_right_after_the_next_run(box):
    with place_of(box) as place:
        manager = Manager(place.bucket)
        manager.session("s", 8)
        place.server.page = 3
        place.take()
        lists = []

        def change(request):
            if request.operation == "LIST" and "continuation-token" in request.query:
                lists.append(request)
                if len(lists) == 2:
                    del place.bucket[manager.key("s", 7)]
                    del place.bucket[manager.key("s", 0)]
                    manager.message("s", 1, text="replaced")
                    manager.session("a", 1)
                    manager.session("z", 1)

        place.server.before = change
        place.take("--delete")
        place.take("--delete")
        same(place.files(), place.objects(), "files")


def test_large_documents_come_whole_also_when_answers_are_cut_off(box):
    with place_of(box) as place:
        data = json.dumps({"text": "x" * (9 << 20)}).encode()
        place.bucket["session_s/session.json"] = Object(data)
        place.server.fault(lambda r: r.operation == "GET", cut=1000, times=2)
        place.take()
        same(place.files(), {"session_s/session.json": data}, "the file")
        place.server.buckets["c"]
        place.send(url="s3://c")
        same(place.server.buckets["c"]["session_s/session.json"].data, data, "the object")


# Many


def fill(objects, sessions, messages):
    manager = Manager(objects)
    for number in range(sessions):
        manager.session(f"s{number:05}", messages)


def peak_of(process):
    """The most memory that it had so far, in MiB.  wait4(2) would count that of this process, too,
    from which it was forked."""
    found = re.search(r"VmHWM:\s+(\d+)", read(f"/proc/{process.pid}/status").decode())
    return int(found[1]) >> 10 if found else 0


def watched(place, *arguments):
    """What a command prints, and the most memory that it had, in MiB."""
    peak = 0
    with tempfile.TemporaryFile() as told, subprocess.Popen(
            [place.box.program, *arguments], env=place.environment(), stdout=told) as process:
        while process.poll() is None:
            peak = max(peak, peak_of(process))
            time.sleep(0.01)
        same(process.returncode, 0, arguments)
        told.seek(0)
        found = json.load(told)
    if isinstance(found, list):
        return found, peak
    return {name: count for name, count in found.items() if count and name != "bytes"}, peak


def test_many_sessions_go_with_requests_in_flight_and_the_second_run_lists_only(box):
    sessions, messages = rounds("SESSFS_S3_SESSIONS", 60, 10000), 20
    with place_of(box) as place:
        fill(place.bucket, sessions, messages)
        place.server.latency = rounds("SESSFS_S3_LATENCY", 0.02, 0.004)
        count = sessions * (messages + 2)
        told, memory = watched(place, "import", "--json", place.store, "s3://b")
        same(told, {"created": count}, "import")
        same(place.server.most > 16, True, f"{place.server.most} requests at a time")
        pages = -(-count // 1000)
        place.operations()
        same(place.counts(place.take), {"unchanged": count}, "the second import")
        same(place.operations(), ["LIST"] * (pages + 1), "what it asks")
        target = Place(box, place.server, place.store)
        target.bucket = place.server.buckets["c"]
        place.server.most = 0
        told, more = watched(place, "export", "--json", "--layout=strands", place.store, "s3://c")
        same(told, {"created": count}, "export")
        memory = max(memory, more)
        if not harness.is_sanitized(box.program):
            assert memory < 64, f"{memory} MiB"
        same(place.server.most > 16, True, f"{place.server.most} requests at a time")
        box.note(f"{place.server.most} requests at a time, {memory} MiB")
        place.operations()
        same(place.counts(place.send, url="s3://c"), {"unchanged": count}, "the second export")
        same(place.operations(), ["LIST"] * (pages + 1), "what it asks")
        assert target.objects() == place.objects(), "the buckets are the same"


def write_rows(place, objects):
    """What files of these objects are in the store, by SQL."""
    place.put("first/k.json", b"1")
    with contextlib.closing(sqlite3.connect(place.store)) as db, db:
        db.executemany("INSERT INTO agentscope_sessions (session_id, state_key, state_data) "
                       "VALUES (?, ?, ?)",
                       ((key.split("/")[0], key.split("/", 1)[1][: -len(".json")],
                         found.data.decode()) for key, found in objects.items()))


def test_many_files_take_no_more_memory_than_a_batch_of_them(box):
    with place_of(box) as place:
        objects = {}
        fill(objects, 300, 20)
        write_rows(place, objects)
        plan, memory = watched(place, "export", "-n", "--json", "--layout=strands", place.store,
                               "s3://b")
        same(len(plan), len(objects), "what it would send")
        box.note(f"{memory} MiB")
        if not harness.is_sanitized(box.program):
            assert memory < 26, f"{memory} MiB"


def run_and_cut(place, chance, verb, most):
    """One run that is killed, or ends by itself, after so many requests at the most; the most
    memory that it had, in MiB."""
    process = subprocess.Popen([place.box.program, *verb], env=place.environment(),
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wanted = len(place.server.requests) + chance.randrange(1, most)
    peak = 0
    while process.poll() is None and len(place.server.requests) < wanted:
        peak = max(peak, peak_of(process))
        time.sleep(0.005)
    process.send_signal(chance.choice([signal.SIGKILL, signal.SIGKILL, signal.SIGTERM,
                                       signal.SIGINT]))
    process.wait()
    return peak


def cut_and_complete(place, verb, operation, count):
    """Many runs that are cut off, and one that is not; what is asked twice is what was under way at
    a cut."""
    chance = random.Random(int(os.environ.get("SESSFS_SEED") or 46))
    cuts = rounds("SESSFS_S3_CUTS", 6, 20)
    place.operations()
    peak = max(run_and_cut(place, chance, verb, 2 * count // cuts) for _ in range(cuts))
    done = sum(request.operation == operation for request in place.server.requests)
    told, more = watched(place, *verb, "--json")
    same(told.get("conflicts"), None, "conflicts")
    asked = collections.Counter(place.operations())
    again = asked[operation] - count
    place.box.note(f"{cuts} cuts after {done} of {count} objects; {again} asked again, "
                   f"{asked['LIST']} lists, {max(peak, more)} MiB")
    if not harness.is_sanitized(place.box.program):
        assert max(peak, more) < 64, f"{peak} and {more} MiB"
    place.do(*verb)
    same(set(place.operations()), {"LIST"}, "then nothing is left to do")
    place.do("check", place.store)


def cut_sessions():
    return rounds("SESSFS_S3_CUT_SESSIONS", 12, 10000)


def test_imports_that_are_cut_off_at_random_complete_each_other(box):
    with place_of(box) as place:
        fill(place.bucket, cut_sessions(), 20)
        cut_and_complete(place, ["import", place.store, "s3://b"], "GET", len(place.bucket))
        same(place.files() == place.objects(), True,
             "the files")


def test_exports_that_are_cut_off_at_random_complete_each_other(box):
    with place_of(box) as place:
        expected = {}
        fill(expected, cut_sessions(), 20)
        write_rows(place, expected)
        cut_and_complete(place, ["export", "--layout=strands", place.store, "s3://b"], "PUT",
                         len(expected))
        same(place.objects() == {key: found.data for key, found in expected.items()}, True,
             "the bucket")


def test_two_runs_at_once_from_two_machines_lose_nothing(box):
    with place_of(box) as place:
        one, two = place, Place(box, place.server)
        shared = {}
        for who, at in (("one", one), ("two", two)):
            folder = box.new_folder(who)
            for session in (who, "both"):
                for number in range(rounds("SESSFS_S3_BOTH", 15, 2000)):
                    path = f"session_{session}/{MESSAGES}/message_{number}.json"
                    os.makedirs(os.path.join(folder, os.path.dirname(path)), exist_ok=True)
                    data = document({"by": who if number % 3 == 0 else session, "n": number})
                    write(os.path.join(folder, path), data)
                    shared.setdefault(path, {})[who] = data
            at.do("import", at.store, folder)
        runs = [subprocess.Popen([box.program, "export", "--layout=strands", at.store, "s3://b"],
                                 env=at.environment(), stderr=subprocess.PIPE)
                for at in (one, two)]
        said = b"".join(run.communicate()[1] for run in runs).decode()
        for path, datas in shared.items():
            there = place.bucket[path].data
            assert there in datas.values(), path
            if len(set(datas.values())) > 1:
                assert path in said, f"{path} is named by the one that came second: {said}"
        for at, who in ((one, "one"), (two, "two")):
            files = at.files()
            for path, datas in shared.items():
                if who in datas:
                    same(files[path], datas[who], "files")


class Three:
    """What both runs do with one key, by three states: here, there, and when both were the same."""

    here = there = known = None

    def carry(self, source, target, drop):
        """Whether it is a conflict."""
        at, to = getattr(self, source), getattr(self, target)
        if at is None and to is not None and not drop:
            return False
        if at == self.known:
            return False
        if to == self.known:
            setattr(self, target, at)
        elif at != to:
            return True
        self.known = at
        return False


def test_random_changes_on_both_sides_are_carried_over_as_three_states_say(box):
    chance = random.Random(7)
    with place_of(box) as place:
        paths = [f"session_{name}/session.json" for name in "abcd"]
        model = {path: Three() for path in paths}
        place.take("--layout=strands")
        for step in range(rounds("SESSFS_S3_STEPS", 14, 400)):
            for path in chance.sample(paths, chance.randrange(3)):
                data = chance.choice([None, *(b'{"v": %d}' % n for n in range(3))])
                if chance.randrange(2):
                    model[path].there = data
                    place.bucket.pop(path, None)
                    if data:
                        place.bucket[path] = Object(data)
                elif data or model[path].here:
                    model[path].here = data
                    if data:
                        place.put(path, data)
                    else:
                        place.do("rm", place.store, path)
            wrong = chance.choice(["GET", "PUT", "DELETE", "LIST"])
            place.server.fault(lambda request, wrong=wrong: request.operation == wrong,
                               **chance.choice([{"lose": True}, {"status": 503}, {"cut": 20}]))
            up, drop = chance.randrange(2), chance.randrange(2)
            sides = ("here", "there") if up else ("there", "here")
            conflicts = sorted(path for path in paths if model[path].carry(*sides, drop))
            verb = ["export"] if up else ["import"]
            done = box.sessfs(*verb, "--layout=strands", *["--delete"][:drop], place.store,
                              "s3://b", env=place.environment())
            said = sorted(re.findall(r"s3://b/(\S+): it has changed", done.stderr.decode()))
            same(said, conflicts, f"step {step}: {verb} {drop}")
            same(place.files(), {p: m.here for p, m in model.items() if m.here}, f"step {step}")
            same(place.objects(),
                 {p: m.there for p, m in model.items() if m.there}, f"step {step}")


def test_random_lines_and_parts_come_together_and_none_is_lost(box):
    chance = random.Random(11)
    with place_of(box) as place:
        take = lambda: place.take("--layout=claude-parts", url="s3://b/t")
        send = lambda: place.send(layout="claude-parts", url="s3://b/t")
        count, made = itertools.count(), set()

        def line():
            made.add(b'{"n": %d}' % next(count))
            return b'{"n": %d}\n' % max(int(text[6:-1]) for text in made)

        place.put("p/s.jsonl", line())
        send()
        for step in range(rounds("SESSFS_S3_STEPS", 14, 400)):
            what = chance.randrange(4)
            if what == 0:
                place.do("append", place.store, "p/s.jsonl", stdin=line() + line())
            elif what == 1:
                key = f"t/p/s/part-{chance.randrange(10 ** 12, 3 * 10 ** 12)}-{step:06x}.jsonl"
                place.bucket[key] = Object(line() + line())
            elif what == 2:
                take()
            else:
                send()
        send()
        take()
        send()
        lines = place.cat("p/s.jsonl").splitlines()
        same(sorted(lines), sorted(made), "each line is there once")
        same(b"".join(parts_of(place, "t/p/s/")).splitlines(), lines, "in the same order")
        place.operations()
        take()
        send()
        same(set(place.operations()), {"LIST"}, "nothing is left to do")


# Backups


def make_store(place, size=0):
    place.put("s/k.json", b'{"a": 1}')
    place.put("s/l.jsonl", b"1\n2\n")
    if size:
        place.put("s/large.bin", random.Random(1).randbytes(size))


def test_a_backup_comes_back_as_it_was(box):
    with place_of(box) as place:
        make_store(place)
        place.do("backup", place.store, "s3://b/nightly/store.db")
        found = place.bucket["nightly/store.db"]
        same(list(place.bucket), ["nightly/store.db"], "objects")
        same(found.headers["x-amz-meta-sha256"], hashlib.sha256(found.data).hexdigest(), "its hash")
        said = place.do("backup", place.store, "s3://b/nightly/store.db", status=1)
        assert "exists already" in said, said
        same(place.bucket["nightly/store.db"] is found, True, "it stays")
        place.do("backup", "--force", place.store, "s3://b/nightly/store.db")
        back = Place(box, place.server)
        back.do("restore", "s3://b/nightly/store.db", back.store)
        same(back.files(), place.files(), "files")
        said = back.do("restore", "s3://b/nightly/store.db", back.store, status=1)
        assert "exists already" in said, said
        assert "no backup" in back.do("restore", "--force", "s3://b/none", back.store, status=1)
        found = place.bucket["nightly/store.db"]
        found.data = found.data[:-1] + b"!"
        said = back.do("restore", "--force", "s3://b/nightly/store.db", back.store, status=1)
        assert "SHA-256" in said, said
        same(back.files(), place.files(), "the store is unchanged")


def test_the_latest_backups_are_kept_and_nothing_else_is_touched(box):
    with place_of(box) as place:
        make_store(place)
        others = ["n-20200101T000000Z.db.txt", "n-latest.db", "nn-20200101T000000Z.db", "n"]
        for day in range(1, 6):
            place.bucket[f"n-2020010{day}T000000Z.db"] = Object(b"old")
        for name in others:
            place.bucket[name] = Object(b"x")
        place.do("backup", "--keep=3", place.store, "s3://b/n")
        left = sorted(set(place.bucket) - set(others))
        same(left[:2], ["n-20200104T000000Z.db", "n-20200105T000000Z.db"], "two old ones")
        same(len(left), 3, "and the new one")
        assert re.fullmatch(r"n-\d{8}T\d{6}Z\.db", left[2]), left
        same(set(others) < set(place.bucket), True, "others")
        del place.bucket["n"]
        back = Place(box, place.server)
        back.do("restore", "s3://b/n", back.store)
        same(back.files(), place.files(), "the latest one")


def test_a_backup_is_the_latest_also_when_the_clock_was_ahead_before(box):
    with place_of(box) as place:
        make_store(place)
        place.bucket["n-20990101T000000Z.db"] = Object(b"old")
        place.do("backup", "--keep=1", place.store, "s3://b/n")
        same(list(place.bucket), ["n-20990101T000001Z.db"], "the one that was made last")
        back = Place(box, place.server)
        back.do("restore", "s3://b/n", back.store)
        same(back.files(), place.files(), "files")


def test_a_backup_whose_answer_was_lost_is_not_taken_for_anothers(box):
    with place_of(box) as place:
        make_store(place)
        place.server.fault(lambda r: r.operation == "PUT" and r.key == "n", lose=True)
        place.do("backup", place.store, "s3://b/n")
        place.put("s/large.bin", random.Random(1).randbytes(66 << 20))
        place.server.fault(lambda r: r.operation == "POST uploadId", lose=True)
        place.do("backup", place.store, "s3://b/large")
        same(sorted(place.bucket), ["large", "n"], "objects")
        same(place.server.uploads, {}, "no upload is left")


def test_a_backup_that_ends_before_it_was_compared_leaves_nothing(box):
    with place_of(box) as place:
        make_store(place)
        process = None

        def end(request):
            if request.operation == "GET":
                process.send_signal(signal.SIGTERM)
                time.sleep(0.3)

        place.server.before = end
        place.server.fault(lambda r: r.operation == "DELETE" and r.key == "n", status=503)
        process = subprocess.Popen([box.program, "backup", place.store, "s3://b/n"],
                                   env=place.environment(), stderr=subprocess.PIPE)
        said = process.communicate()[1].decode()
        same(process.returncode, -signal.SIGTERM, said)
        same(list(place.bucket), [], "objects")


def test_a_large_backup_goes_in_parts_and_gets_its_name_when_it_is_whole(box):
    with place_of(box) as place:
        make_store(place, 66 << 20)
        place.server.fault(lambda r: "partNumber" in r.query, status=503, times=2)
        place.server.fault(lambda r: "partNumber" in r.query, lose=True)
        place.server.fault(lambda r: "range" in r.headers, cut=5000, times=2)
        place.do("backup", place.store, "s3://b/large")
        same(re.fullmatch(r"[0-9a-f]{32}-\d+", place.bucket["large"].etag) is not None, True, "")
        same(place.server.uploads, {}, "no upload is left")
        back = Place(box, place.server)
        back.do("restore", "s3://b/large", back.store)
        same(back.do("cat", back.store, "s/k.json"), '{"a": 1}', "a file")
        same(sqlite3.connect(back.store).execute("PRAGMA integrity_check").fetchone(), ("ok",), "")
        # Another one takes its place while it is read: its bytes are not mixed with these.
        def replace(request):
            if request.headers.get("range", "").startswith("bytes=8388608-"):
                place.bucket["large"] = Object(place.bucket["large"].data[::-1])

        place.server.before = replace
        said = back.do("restore", "--force", "s3://b/large", back.store, status=1)
        assert "not as it was" in said, said
        same(back.do("cat", back.store, "s/k.json"), '{"a": 1}', "the store is unchanged")
        place.server.before = None
        # It is cut off in the middle: no name, no upload that costs.
        place.server.fault(lambda r: r.operation == "DELETE uploadId", status=503, times=2)
        process = subprocess.Popen([box.program, "backup", place.store, "s3://b/cut"],
                                   env=place.environment(), stderr=subprocess.DEVNULL)
        eventually(lambda: any(parts for parts, _ in list(place.server.uploads.values())),
                   "it is in the middle")
        process.send_signal(signal.SIGTERM)
        process.wait()
        assert "cut" not in place.bucket, list(place.bucket)
        same(place.server.uploads, {}, "no upload is left")


def test_a_server_without_conditions_is_named_and_one_with_them_keeps_the_first(box):
    with place_of(box) as place:
        make_store(place)
        place.server.conditions = False
        done = box.sessfs("backup", place.store, "s3://b/n", env=place.environment())
        assert b"If-None-Match" in done.stderr, done.stderr
        place.server.conditions = True
        # Another one comes between the question and the upload.
        place.server.fault(lambda r: r.operation == "HEAD", status=404, code="NoSuchKey")
        before = place.bucket["n"]
        said = place.do("backup", place.store, "s3://b/n", status=1)
        assert "not as it was" in said or "exists" in said, said
        same(place.bucket["n"] is before, True, "the first stays")
        same(sorted(place.bucket), ["n"], "nothing else is left")


# The program


def test_without_the_plugin_it_says_what_to_install(box):
    with place_of(box) as place:
        empty = box.new_folder("plugins")
        said = place.take(status=1, env=place.environment(SESSFS_PLUGINS=empty))
        assert "sessfs-s3" in said, said
        said = place.do("export", place.store, "s3://b", status=2)
        assert "--layout" in said, said
        same("libcurl" in harness.tool("ldd", box.program).stdout.decode(), False, "is not linked")
        for arguments in (("import", place.store, "folder", "--watch"),
                          ("export", place.store, "folder", "--layout=strands"),
                          ("import", place.store, "s3://b", "--to=x"),
                          ("export", place.store, "s3://b", "x", "--layout=strands"),
                          ("export", place.store, "s3://b", "--layout=tree"),
                          ("backup", place.store, "file", "--keep=3"),
                          ("backup", place.store, "s3://b/x", "--keep=0"),
                          ("restore", "file", place.store, "--region=x")):
            place.do(*arguments, status=2)


if __name__ == "__main__":
    harness.main(globals())
