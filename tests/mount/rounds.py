# SPDX-License-Identifier: MIT
"""Rounds of load, kill -9, mounting again and comparing, on one store.

The comparison itself (compare) works on what was seen only, so that it can be tried with things
that are wrong.
"""

import contextlib
import copy
import glob
import json
import os
import random
import re
import shutil
import signal
import subprocess
import time

import harness
from harness import eventually
from manifest import Node, Tree, judge, key_of, kind_of_state, look, read_log, rows_of
from writer import JOBS, Writer, run_calls, start

LOAD = 0.35  # seconds of load, at the most, once every writer has had an answer
GENERATION = 8  # rounds with the same names; they are compared for as many rounds afterwards
WHILE_MOUNTING = 0.2  # seconds within which a daemon that mounts is killed


# What a daemon says that has no troubles.
# The last is about torn lines, which some writers leave.
EXPECTED = re.compile(
    r"is mounted on|WAL-reset bug|removed a dead mount|not JSON: unexpected end; the bytes"
)


# Comparing


class Part:
    """What a writer was told. lists: whether its only file is one that it shares with others."""

    def __init__(self, prefix, tree, calls, lists):
        self.prefix = prefix
        self.tree = tree
        self.calls = calls
        self.lists = lists


class Seen:
    """What the mount shows and what SQL does."""

    def __init__(self, found, rows):
        self.found = found
        self.rows = rows


def owner_of(path, prefixes):
    top = path.partition("/")[0]
    for prefix in (top, top.partition("-")[0]):
        if prefix in prefixes:
            return prefix
    return None


def split_shared(data, prefixes):
    """The lines of each writer; what nobody has written is for the writer None."""
    lines = {}
    for line in data.splitlines(True):
        by = None
        with contextlib.suppress(ValueError, TypeError, KeyError):
            by = json.loads(line)["by"] if line.endswith(b"\n") else None
        by = by if by in prefixes else None
        lines[by] = lines.get(by, b"") + line
    return lines


def split(found, parts, shared, wrong):
    """prefix -> what look() has found of it."""
    result = {part.prefix: {} for part in parts}
    for path, seen in found.items():
        if path == shared:
            lines = split_shared(seen["data"], result)
            if None in lines:
                wrong.append(f"{path} holds what nobody wrote: {harness.shorten(lines[None])}")
            for part in parts:
                if part.lists:
                    result[part.prefix][path] = {"data": lines.get(part.prefix, b"")}
            continue
        owner = owner_of(path, result)
        if owner is None:
            wrong.append(f"{path} is too many")
        else:
            result[owner][path] = seen
    return result


def rows_expected(found):
    expected = {}
    for path, seen in found.items():
        if seen["kind"] == "file" and kind_of_state(path):
            rows = rows_of(path, seen["data"])
            if rows:
                expected[key_of(path)] = list(enumerate(rows))
    return expected


def compare_rows(seen):
    expected = rows_expected(seen.found)
    wrong = []
    for key in sorted(expected.keys() | seen.rows.keys()):
        want, got = expected.get(key, []), seen.rows.get(key, [])
        if want != got:
            differing = [pair for pair in zip(want, got) if pair[0] != pair[1]]
            first = harness.shorten(differing[0]) if differing else "none differs"
            wrong.append(f"rows of {key}: {len(got)} instead of {len(want)}, the first: {first}")
    return wrong


def compare(parts, seen, shared, died):
    """Judges every part; returns the judgements and all that is wrong."""
    wrong = []
    found = split(seen.found, parts, shared, wrong)
    judged = {}
    for part in parts:
        judgement = judge(copy.deepcopy(part.tree), part.calls, found[part.prefix], died)
        judged[part.prefix] = judgement
        wrong += [f"({part.prefix}) {sentence}" for sentence in judgement.wrong]
    return judged, wrong + compare_rows(seen)


def see_rows(mount):
    query = "SELECT session_id, state_key, item_index, CAST(state_data AS BLOB)"
    query += f" FROM {harness.TABLE} ORDER BY 1, 2, 3"
    rows = {}
    for session, key, index, data in mount.sql(query):
        rows.setdefault((session.decode(), key.decode()), []).append((index, data))
    return rows


def see(mount):
    return Seen(look(mount.path), see_rows(mount))


def see_settled(mount):
    """The rows of files that were unlinked just before the kill go within a moment."""
    keys = rows_expected(look(mount.path)).keys()
    eventually(lambda: not see_rows(mount).keys() - keys, "rows go")
    return see(mount)


# Rounds


class Load:
    """Writers at work in processes of their own."""

    def __init__(self):
        self.reading, self.writing = os.pipe()
        self.children = []

    def add(self, job, writer):
        self.children.append(start(job, writer, self.writing))

    def wait_until_all_are_at_work(self):
        said = b""
        while len(said) < len(self.children):
            said += os.read(self.reading, 4096)
            assert not said.strip(b"."), said.decode()

    def end(self):
        """They end by themselves when the daemon is dead."""
        statuses = [os.waitpid(child, 0)[1] for child in self.children]
        self.children = []
        os.close(self.writing)
        with os.fdopen(self.reading, "rb") as said:
            text = said.read().strip(b".").decode()
        assert not any(statuses), f"a writer failed: {text}"

    def kill(self):
        for child in self.children:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        self.children = []


class Rounds:
    """A store with writers whose daemon dies.

    It is a round each time: writers have written (their logs are in logs), kill(), recover(),
    verify()."""

    def __init__(self, box, seed, store=None):
        self.box = box
        self.seed = seed
        self.rng = random.Random(seed)
        self.mount = box.mount(store=store)
        self.number = 0
        self.parts = []  # of this generation
        self.older = []
        self.shared = None
        self.logs = {}
        self.writers = []  # that work in this process
        self.died = 0
        self.returned = {}
        self.happened = {True: 0, False: 0}

    # Writers

    def add_part(self, prefix, lists=False):
        part = Part(prefix, Tree(), [], lists)
        if lists:
            part.tree.nodes[self.shared] = Node("file")
        self.parts.append(part)
        return part

    def add_shared(self, prefix):
        """A list that several writers append to; its folder is a part that nobody writes to."""
        self.shared = f"{prefix}/list.jsonl"
        os.mkdir(self.mount.at(prefix))
        harness.write(self.mount.at(self.shared), b"")
        self.add_part(prefix).tree.nodes[prefix] = Node("directory", mode=0o755)

    def writer(self, part):
        log = self.logs[part.prefix] = self.box.new_path("notes")
        tree = copy.deepcopy(part.tree)
        shared = self.shared if part.lists else None
        seed = self.rng.random()
        return Writer(self.mount.path, part.prefix, tree, log, self.number, seed, shared)

    # A round

    def kill(self):
        self.died = time.monotonic()
        self.mount.kill_only()
        said = [line for line in self.mount.log().splitlines() if not EXPECTED.search(line)]
        assert not said, f"the daemon said: {said}"
        while self.writers:
            self.writers.pop().drop()

    def recover(self):
        """Mounts again over the dead mount, perhaps at the second attempt only.

        Other programs may look at the store before, and then they recover its WAL; or not."""
        if self.number % 2:
            self.check()
        if self.rng.random() < 0.25:
            self.kill_while_mounting()
        self.mount.background = self.rng.random() < 0.2
        self.mount.start()
        harness.same(len(harness.mounts_below(self.mount.path)), 1, "mounts on the folder")
        if not self.number % 2:
            self.check()

    def kill_while_mounting(self):
        self.mount.background = False
        process = subprocess.Popen(
            self.mount.command(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        time.sleep(self.rng.uniform(0, WHILE_MOUNTING))
        process.kill()
        process.wait()

    def check(self):
        self.mount.check()
        harness.same(self.mount.sql("PRAGMA integrity_check"), [(b"ok",)], "integrity_check")

    def read_logs(self):
        for part in self.parts:
            if part.prefix in self.logs:
                log = self.logs.pop(part.prefix)
                part.calls = read_log(log)
                os.unlink(log)
                assert any(call.returned for call in part.calls), "nothing was acknowledged"

    def compare(self, seen):
        return compare(self.parts + self.older, seen, self.shared, self.died)

    def verify(self):
        """Raises when anything was lost or torn; what is there is what the next round has."""
        self.read_logs()
        judged, wrong = self.compare(see_settled(self.mount))
        if wrong:
            more = f"\n  and {len(wrong) - 6} more" if len(wrong) > 6 else ""
            raise AssertionError("\n  ".join(wrong[:6]) + more)
        for part in self.parts:
            self.take(part, judged[part.prefix])
        self.number += 1

    def take(self, part, judgement):
        part.tree, part.calls = judgement.tree, []
        name = part.prefix.lstrip("g0123456789")
        self.returned[name] = self.returned.get(name, 0) + judgement.returned
        if judgement.in_flight:
            self.happened[judgement.happened] += 1

    # Rounds with random load

    def run(self):
        try:
            if self.number % GENERATION == 0:
                self.begin_generation()
            self.load_and_kill()
            self.recover()
            self.verify()
        except Exception as error:
            self.keep()
            raise AssertionError(f"round {self.number} of seed {self.seed}: {error}") from error

    def keep(self):
        """For who wants to look at a store that failed."""
        folder = os.environ.get("SESSFS_KEEP")
        if folder:
            for name in glob.glob(glob.escape(self.mount.store) + "*"):
                shutil.copy(name, folder)

    def begin_generation(self):
        """New names.  Those of the last generation stay as they are, older ones go."""
        for part in self.older:
            for path in [path for path in part.tree.nodes if "/" not in path]:
                whole = self.mount.at(path)
                shutil.rmtree(whole) if os.path.isdir(whole) else os.unlink(whole)
        self.older = [part for part in self.parts if not part.lists]
        for part in self.older:
            if self.shared and self.shared.startswith(part.prefix + "/"):
                data = harness.read(self.mount.at(self.shared))
                part.tree.nodes[self.shared] = Node("file", data)
        generation = f"g{self.number // GENERATION}"
        self.parts = []
        self.add_shared(f"{generation}shared")
        for name, (_, lists) in JOBS.items():
            self.add_part(generation + name, lists)

    def job_of(self, part):
        return JOBS.get(part.prefix.lstrip("g0123456789"), (None, False))[0]

    def load_and_kill(self):
        load = Load()
        try:
            for part in self.parts:
                if self.job_of(part):
                    writer = self.writer(part)
                    load.add(self.job_of(part), writer)
                    writer.drop()
            load.wait_until_all_are_at_work()
            time.sleep(self.rng.uniform(0, LOAD))
            self.kill()
            load.end()
        finally:
            load.kill()

    def work(self, calls):
        """Instead of a load: as many calls of each job, one job after the other."""
        for part in self.parts:
            if self.job_of(part):
                self.work_calls(self.job_of(part), part, calls)

    def work_calls(self, job, part, calls):
        writer = self.writer(part)
        self.writers.append(writer)
        run_calls(job, writer, calls)
