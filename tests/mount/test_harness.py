#!/usr/bin/python3 -B
# SPDX-License-Identifier: MIT
"""Cases that hang, are killed, or leave something behind: they fail, and nothing is left."""

import glob
import os
import re
import signal
import subprocess
import sys

import harness
from harness import HERE, eventually, mounts_below, same

BAD = """
import os, signal, subprocess, sys, time
sys.path.insert(0, sys.argv.pop(1))
import harness

def fill(box):
    "Mounts, one of them by a daemon of its own, and processes in and beside them."
    mount, session = box.session()
    other, there = box.session(background=True)
    harness.append(session + "/l.jsonl", b"1\\n")
    for words in (["sleep", "1000"], ["setsid", "sleep", "1000"]):
        subprocess.Popen(words, cwd=there)
    subprocess.run(["sh", "-c", "setsid sleep 1000 & exec 3<" + session])
    open("filled", "w").close()
    return mount, other

def test_hangs(box):
    fill(box)
    time.sleep(1000)

def test_hangs_and_takes_no_signal(box):
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM})
    fill(box)
    time.sleep(1000)

def test_waits_for_a_daemon_that_is_stopped(box):
    mount, _ = fill(box)
    os.kill(mount.pid, signal.SIGSTOP)
    os.listdir(mount.at("s"))

def test_is_killed(box):
    fill(box)
    os.kill(os.getpid(), signal.SIGKILL)

def test_fails(box):
    mount, _ = fill(box)
    box.file = open(mount.at("s", "l.jsonl"))
    assert False, "it has failed"

def test_leaves_a_mount(box):
    store, folder = box.new_store(), box.new_folder()
    box.sessfs("mount", store, folder, check=True)

def test_leaves_a_process(box):
    subprocess.run(["sh", "-c", "setsid sleep 1000 &"], cwd=box.folder)

def test_is_good(box):
    box.session(background=True)

harness.main(globals())
"""


class Run:
    """The module with the bad cases, of which one runs."""

    def __init__(self, box, name, seconds):
        self.home = box.new_folder("home")
        script = os.path.join(self.home, "bad.py")
        harness.write(script, BAD.encode())
        self.before = set(everything())
        self.process = subprocess.Popen(
            [sys.executable, "-B", script, HERE, "-k", name],
            cwd=self.home,
            env={**os.environ, "TMPDIR": self.home, "SESSFS_HANG": str(seconds)},
            stdout=subprocess.PIPE,
        )

    def fails(self, *words):
        """It fails and says why, and neither processes nor mounts nor files are left."""
        said = self.process.communicate()[0].decode()
        same(self.process.returncode, 1, f"status; it says {said}")
        for word in words:
            assert word in said, f"{word!r} is not in {said}"
        same(mounts_below(self.home), [], "mounts")
        same(glob.glob(self.home + "/sessfs-test-*"), [], "folders")
        same(set(everything()) - self.before - {self.process.pid}, set(), "processes")


def everything():
    return harness.below(harness.children(os.getppid()))


def test_a_case_that_hangs_leaves_nothing(box):
    Run(box, "test_hangs", 3).fails("the test takes too long")


def test_a_case_that_hangs_and_takes_no_signal_leaves_nothing(box):
    run = Run(box, "takes_no_signal", 3)
    run.process.wait()
    begun = os.path.exists(os.path.join(run.home, "filled"))
    run.fails("the test died or hung", *(["left a mount at mnt"] if begun else []))


def test_a_case_that_waits_for_a_daemon_leaves_nothing(box):
    # Whether the case itself or the harness ends the wait is chance.
    Run(box, "that_is_stopped", 3).fails("not ok - waits for a daemon that is stopped")


def test_a_case_that_is_killed_leaves_nothing(box):
    Run(box, "is_killed", 60).fails("the test died or hung", "left a mount at mnt")


def test_a_case_that_fails_leaves_nothing(box):
    Run(box, "test_fails", 60).fails("it has failed")


def test_a_case_that_leaves_a_mount_is_told(box):
    Run(box, "leaves_a_mount", 3).fails("left a mount at folder")


def test_a_case_that_leaves_a_process_is_told(box):
    Run(box, "leaves_a_process", 3).fails("left processes: sleep")


def test_a_module_that_is_ended_leaves_nothing(box):
    for number in (signal.SIGTERM, signal.SIGINT):
        run = Run(box, "test_hangs", 600)
        eventually(lambda home=run.home: os.path.exists(home + "/filled"), "the case is at work")
        run.process.send_signal(number)
        run.fails("stopped by a signal")


def test_a_case_that_cleans_up_is_good(box):
    run = Run(box, "is_good", 600)
    said = re.sub(rb" \([\d.]+ s\)", b"", run.process.communicate()[0])
    same((said, run.process.returncode),
         (b"ok - is good\n1 passed, 0 failed\n", 0), "what it says")


harness.main(globals())
