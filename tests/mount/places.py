# SPDX-License-Identifier: MIT
"""A store that is mounted, or is not, or where the verbs cannot reach the mount, for tests of the
verbs; and a terminal for what they show."""

import contextlib
import copy
import fcntl
import os
import pty
import re
import shlex
import struct
import subprocess
import termios

import harness
from harness import Skip, eventually, need_namespace, need_root, same, write


# The program in a mount namespace that has not this mount
APART = """#!/bin/sh
exec unshare -m --propagation slave sh -c 'umount -l "$1"; shift; exec "$@"' sh %s %s "$@"
"""


class Place:
    """A store, mounted or not."""

    def __init__(self, box, mounted, **named):
        self.box = box
        self.what = "mounted" if mounted else "alone"
        self.mount = box.mount(**named)
        self.store = self.mount.store
        if not mounted:
            self.mount.stop()

    def part(self):
        """From here on the verbs do not reach the mount."""
        need_root()
        need_namespace()
        self.box, whole = copy.copy(self.box), self.box
        self.box.mount = whole.mount
        self.what = "out of reach"
        words = shlex.quote(self.mount.path), shlex.quote(self.box.program)
        self.box.program = self.box.new_path("apart")
        write(self.box.program, (APART % words).encode())
        os.chmod(self.box.program, 0o755)

    def do(self, verb, *arguments, status=0, **named):
        """What a verb prints, or where it fails what it says."""
        done = self.box.sessfs(verb, *arguments, **named)
        said = done.stderr.decode("utf-8", "replace")
        same(done.returncode, status, f"{self.what}: {verb} {arguments} (it says {said!r})")
        return done.stdout if not status else said

    @contextlib.contextmanager
    def mounted(self):
        """The mount; if there is none, for now."""
        if self.mount.pid:
            self.catch_up()
            yield self.mount
            return
        self.mount.start()
        yield self.mount
        self.mount.stop()

    def catch_up(self):
        """The mount shows what verbs have done elsewhere; it learns of that in its order."""
        if self.what == "out of reach":
            for verb, there in (("put", True), ("rm", False)):
                self.box.sessfs(verb, self.store, "done", check=True)
                eventually(lambda: ("done" in os.listdir(self.mount.path)) == there, "it is seen")


def everywhere(kind):
    """For tests on a store that is not mounted, beside a mount, and where that is out of reach."""

    def decorate(test):
        def run(box):
            for mounted in (False, True):
                test(kind(box, mounted))
            place = kind(box, True)
            try:
                place.part()
            except Skip as skip:
                box.note(f"not where the mount is out of reach: {skip}")
            else:
                test(place)

        return run

    return decorate


class Terminal:
    """The program with its stderr on a terminal; delay: seconds before it shows how far it is."""

    def __init__(self, box, *arguments, columns=80, delay=0, **named):
        self.ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        named.setdefault("stdout", subprocess.DEVNULL)
        self.process = subprocess.Popen(
            [box.program, *arguments],
            stderr=theirs,
            env=dict(os.environ, SESSFS_PROGRESS_DELAY=str(delay)),
            **named,
        )
        os.close(theirs)
        self.seen = b""

    def read_until(self, pattern):
        """What it shows from now on, until the pattern is in it; that has to come."""
        begun = len(self.seen)
        while not re.search(pattern, self.seen[begun:]):
            assert self.read_some(), (pattern, self.seen[begun:])
        return self.seen[begun:]

    def read_some(self):
        """False at the end of it."""
        more = b""
        with contextlib.suppress(OSError):
            more = os.read(self.ours, 4096)
        self.seen += more
        return bool(more)

    def end(self, status=0):
        """All that it has shown, when it has ended."""
        while self.read_some():
            pass
        same(self.process.wait(), status, "the end")
        os.close(self.ours)
        return self.seen
