# SPDX-License-Identifier: MIT
"""Histories of several mounts of one store, each with a daemon of its own.

A round is: writers with files of their own, which work on a mount, or on any of them in turn, and
rivals with the same files (rivals.py); meanwhile a mount may be stopped for a while, or killed, and
then it is mounted again.  At rest nothing that was acknowledged is lost or there twice, and all
mounts show the same.
"""

import contextlib
import os
import random
import re
import shutil
import signal
import sqlite3
import time

import harness
import rivals
from harness import HANG, eventually
from manifest import look
from rounds import (
    EXPECTED,
    GENERATION,
    LOAD,
    Load,
    Rounds,
    Seen,
    compare,
    compare_rows,
    rows_expected,
    see_rows,
)
from writer import JOBS, Dead, Writer

STOPPED = 0.3  # seconds
PUT = f"{harness.INSERT} ON CONFLICT DO UPDATE SET state_data = excluded.state_data"


class SQLite:
    """A store that histories are played on.  Others have the same.

    name: what is mounted; None: a new one.  expected: what daemons may say.  lease: seconds after
    which a mount that is stopped, or was killed, is ended by the others; 0: it is not, or at once.
    """

    expected = EXPECTED
    lease = 0
    pause = 0.02  # seconds between two transactions of put(), as SQLite's lock is not a fair one
    share = 1  # of the writers and rivals that are at work in a round
    troubles = {}  # name -> a function that makes it while all are at work

    def __init__(self, name=None):
        self.name = name

    def put(self, rows):
        """Rows by another program, in one transaction: session, key, index, data."""
        with contextlib.closing(sqlite3.connect(self.name, timeout=HANG)) as base, base:
            base.executemany(PUT, rows)

    def rows(self, mount):
        """(session, key) -> indexes and data."""
        return see_rows(mount)

    def keep(self, rounds):
        Rounds.keep(rounds)


class Hopper(Writer):
    """A writer that makes each call by a name on any of its mounts.

    It ends in order when it is told to, but never in the middle of a line or a save."""

    def __init__(self, roots, over, *arguments):
        self.roots = roots
        self.over = over
        super().__init__(None, *arguments)
        self.hops = random.Random(self.prefix)

    def call(self, *words):
        between = all(h.keeps == "lines" and not h.piece for h in self.tree.handles.values())
        if between and self.over():
            for number in list(self.fds):
                super().call("close", number)
            raise Dead()
        self.root = self.hops.choice(self.roots)
        super().call(*words)


class Histories(Rounds):
    def __init__(self, box, seed, count, store=None):
        self.store = store or SQLite()
        super().__init__(box, seed, self.store.name)
        self.store.name = self.mount.store
        self.mounts = [self.mount]
        self.mounts += [box.mount(store=self.mount.store) for _ in range(count - 1)]
        self.killed = []
        self.ended = []  # by the others, as they were stopped
        self.troubles_made = {}
        self.on = {}  # of writers and rivals: their mounts
        self.rivals = {}
        self.turns = 0

    def begin_generation(self):
        """As of one mount, and with an appender to the shared list on each."""
        super().begin_generation()
        lists = [part for part in self.parts if part.lists]
        for number in range(len(self.mounts)):
            self.add_part(f"{lists[number % len(lists)].prefix}x{number}", lists=True)

    def job_of(self, part):
        return JOBS.get(part.prefix.lstrip("g0123456789").partition("x")[0], (None, False))[0]

    # A round

    def run(self):
        try:
            if self.number % GENERATION == 0:
                self.begin_generation()
            self.load()
            self.recover()
            self.verify()
        except Exception as error:
            self.keep()
            raise AssertionError(f"round {self.number} of seed {self.seed}: {error}") from error

    def load(self):
        stop = self.box.new_path("stop")
        over = lambda: os.path.exists(stop)
        trouble = self.choose_trouble()
        victim = self.rng.choice(self.mounts)
        load = Load()
        try:
            rivals.prepare(self.mount.at(f"r{self.number}"))
            self.add_writers(load, over, victim)
            self.add_rivals(load, over)
            load.wait_until_all_are_at_work()
            time.sleep(self.rng.uniform(0, LOAD))
            self.make_trouble(trouble, victim)
            harness.write(stop, b"")
            load.end()
        finally:
            load.kill()

    def add_writers(self, load, over, victim):
        """Who works on any mount does so on those that live on: who dies closes what he has open,
        and nobody notes that."""
        working = self.some([part for part in self.parts if self.job_of(part)])
        for number, part in enumerate(working):
            mounts = [self.mounts[number % len(self.mounts)]]
            if number % 3 == 0:
                mounts = [mount for mount in self.mounts if mount is not victim]
            self.on[part.prefix] = mounts
            writer = self.hopper(part, [mount.path for mount in mounts], over)
            load.add(self.job_of(part), writer)
            writer.drop()

    def some(self, all):
        return self.rng.sample(all, max(1, round(len(all) * self.store.share)))

    def hopper(self, part, roots, over):
        writer = self.writer(part)
        writer.drop()
        shared = self.shared if part.lists else None
        log, seed = self.logs[part.prefix], self.rng.random()
        return Hopper(roots, over, part.prefix, writer.tree, log, self.number, seed, shared)

    def add_rivals(self, load, over):
        folder = f"r{self.number}"
        self.rivals = {}
        count = len(self.mounts)
        jobs = [(job, n) for job in rivals.EVERYWHERE for n in range(max(count, 2))]
        jobs += [(job, self.rng.randrange(count)) for job in rivals.ALONE]
        for job, n in self.some(jobs):
            name, log = f"{job.__name__}{n}", self.box.new_path("rival")
            self.on[name] = [self.mounts[n % count], self.mounts[(n + 1) % count]]
            self.rivals[name] = log
            places = [mount.at(folder) for mount in self.on[name]]
            seed = self.rng.random()
            rival = rivals.Rival(name, *places, self.store, log, seed, over)
            load.add(job, rival)
            rival.drop()

    def keep(self):
        self.store.keep(self)

    def choose_trouble(self):
        """Those of the store are had once a generation at least, as far as there are rounds."""
        own = list(self.store.troubles)
        if own and self.rng.random() < 0.6:
            least = min(self.troubles_made.get(name, 0) for name in own)
            own = [name for name in own if self.troubles_made.get(name, 0) == least]
            return self.rng.choice(own)
        return self.rng.choice(["none", "stop", "kill", "kill"])

    def make_trouble(self, trouble, victim):
        self.killed, self.ended = [], []
        self.troubles_made[trouble] = self.troubles_made.get(trouble, 0) + 1
        self.died = time.monotonic()
        if trouble in self.store.troubles:
            self.ended = self.store.troubles[trouble](self.store, self.rng, victim) or []
        elif trouble == "stop":
            os.kill(victim.pid, signal.SIGSTOP)
            time.sleep(STOPPED)
            os.kill(victim.pid, signal.SIGCONT)
        elif trouble == "kill":
            self.killed = [victim]
            victim.kill_only()
            time.sleep(self.rng.uniform(0, LOAD))
        self.died = self.died if self.killed else time.monotonic()

    def recover(self):
        for mount in self.killed:
            mount.start()

    # Judging

    def verify(self):
        self.read_logs()
        wrong = self.unlike() + self.troubles() + self.failed()
        found = look(self.rng.choice(self.mounts).path)
        wrong += sizes(found)
        seen = self.settled(found)
        wrong += compare_rows(seen) + self.judge_rivals(found)
        own = Seen(*(without(part, self.number) for part in (seen.found, seen.rows)))
        judged, more = compare(self.parts + self.older, own, self.shared, self.died)
        wrong += more
        if wrong:
            more = f"\n  and {len(wrong) - 6} more" if len(wrong) > 6 else ""
            raise AssertionError("\n  ".join(wrong[:6]) + more)
        self.mount.check()
        for part in self.parts:
            self.take(part, judged[part.prefix])
        self.clear()
        self.number += 1

    def settled(self, found):
        """What SQL has, when the rows of files that were unlinked have gone."""
        keys = rows_expected(found).keys()
        with contextlib.suppress(AssertionError):
            eventually(lambda: not self.store.rows(self.mount).keys() - keys, "rows go")
        return Seen(found, self.store.rows(self.mount))

    def unlike(self):
        """Mounts that do not show the same names, kinds, modes, times, bytes, attributes, links."""
        return unlike({mount.path: mount.path for mount in self.mounts})

    def troubles(self):
        """What the daemons have said that has no place in a history."""
        lines = [line for mount in self.mounts for line in mount.log().splitlines()]
        expected = self.store.expected
        return [f"a daemon said: {line}" for line in lines if not expected.search(line)]

    def failed(self):
        """Calls that were not acknowledged although no mount of theirs was killed."""
        wrong = []
        for part in self.parts:
            for call in part.calls:
                if not call.returned and not self.may_die(part.prefix):
                    wrong.append(f"{call} of {part.prefix}: {os.strerror(call.failed)}")
        return wrong

    def may_die(self, name):
        """Who had a lock on a mount that was ended has lost it, and is told when he writes."""
        dead = self.killed + self.ended * (re.match(r"counts\d", name) is not None)
        return any(mount in dead for mount in self.on[name])

    def judge_rivals(self, found):
        notes = {name: rivals.read_notes(log) for name, log in self.rivals.items()}
        wrong = []
        for name, lines in notes.items():
            self.turns += len(lines)
            if lines and lines[-1]["what"] == "dead" and not self.may_die(name):
                wrong.append(f"{name} was told that its mount is dead")
        prefix = f"r{self.number}"
        theirs = [path for path in found if path.startswith((f"{prefix}/", f"{prefix}-sql/"))]
        found = {path[len(prefix) :].lstrip("/"): found[path] for path in theirs}
        return wrong + rivals.judge(notes, found)

    def clear(self):
        """What rivals have left goes, by any mount, and from all of them."""
        for name in (f"r{self.number}", f"r{self.number}-sql"):
            if os.path.exists(self.mount.at(name)):
                shutil.rmtree(self.mount.at(name))
            for mount in self.mounts:
                eventually(lambda at=mount.at(name): not os.path.lexists(at), f"{name} goes")


def sizes(found):
    return [
        f"{path} has the size {seen['size']} and {len(seen['data'])} bytes"
        for path, seen in found.items()
        if seen["kind"] == "file" and seen["size"] != len(seen["data"])
    ]


def without(seen, number):
    """What rivals have not to do with."""
    foreign = f"r{number}", f"r{number}-sql"
    top = lambda key: key[0] if isinstance(key, tuple) else key.partition("/")[0]
    return {key: value for key, value in seen.items() if top(key) not in foreign}


def unlike(roots, waits=True):
    """root: name -> folder.  Sentences about where the others are not like the first, after a
    while."""
    first, *others = roots
    wrong = []
    for other in others:
        alike = lambda at=roots[other]: look(roots[first]) == look(at)
        with contextlib.suppress(AssertionError):
            if waits:
                eventually(alike, "the same")
        one, another = look(roots[first]), look(roots[other])
        for path in sorted(one.keys() | another.keys()):
            if one.get(path) != another.get(path):
                shown = harness.shorten(one.get(path)), harness.shorten(another.get(path))
                wrong.append(f"{path} is {shown[0]} on {first}, and on {other} {shown[1]}")
    return wrong
