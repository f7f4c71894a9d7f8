#!/usr/bin/python3 -B
# SPDX-License-Identifier: MIT
"""Public suites on mounts: pjdfstest, and of xfstests fsx and fsstress.  Each is played on a store
in a file and on servers, so that what is asked of one is asked of all.

No package has them, so they are found by the environment, and skipped where it is silent:

  SESSFS_PJDFSTEST     a folder with pjdfstest, built, and its tests/
  SESSFS_FSX           the program
  SESSFS_FSSTRESS      the program
  SESSFS_SUITE_STEPS   operations of fsx, and of each process of fsstress; 400
  SESSFS_PJDFSTEST_OF  folders below tests/ that are played, such as "rename unlink"; all
  SESSFS_TEST_SEED     what the random numbers begin with; it is printed
"""

import hashlib
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import servers  # noqa: E402
from servers import harness  # noqa: E402
from harness import eventually, same, same_trees  # noqa: E402

SEED = int(os.environ.get("SESSFS_TEST_SEED") or int.from_bytes(os.urandom(3), "big"))
STEPS = int(os.environ.get("SESSFS_SUITE_STEPS", "400"))
SOAK = 3600


def named(variable, test):
    found = os.environ.get(variable, "")
    if not found or not test(found):
        raise harness.Skip(f"{variable} does not say where it is")
    return os.path.abspath(found)


def is_program(path):
    return os.access(path, os.X_OK)


def mount_of(box, kind, **options):
    store = None if kind == "file" else servers.start(box, kind).database().url
    return box.mount(store=store, **options)


def run(command, seconds, **more):
    return subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=seconds, **more)


def is_sound(mount):
    """What the store says of itself, while it is mounted."""
    done = mount.box.sessfs("check", mount.store)
    same(done.returncode, 0, f"check: {(done.stdout + done.stderr).decode()}")


def pjdfstest(box, kind):
    """Each assertion passes, but for those that the suite itself expects to fail."""
    harness.need_root()
    suite = named("SESSFS_PJDFSTEST", lambda path: is_program(os.path.join(path, "pjdfstest")))
    tests = os.path.join(suite, "tests")
    wanted = os.environ.get("SESSFS_PJDFSTEST_OF", "").split()
    mount = mount_of(box, kind, options=["allow_other"])
    os.chmod(box.folder, 0o755)
    place = mount.at("pjdfstest")
    os.mkdir(place)
    passed, failed = 0, []
    for folder in sorted(os.listdir(tests)):
        path = os.path.join(tests, folder)
        if not os.path.isdir(path) or (wanted and folder not in wanted):
            continue
        for name in sorted(n for n in os.listdir(path) if n.endswith(".t")):
            said = run(["sh", os.path.join(path, name)], 600, cwd=place).stdout.decode()
            passed += len(re.findall(r"^ok \d+", said, re.MULTILINE))
            wrong = re.findall(r"^not ok (?!.*# TODO).*", said, re.MULTILINE)
            plan = re.search(r"^1\.\.(\d+)", said, re.MULTILINE)
            seen = len(re.findall(r"^(?:not )?ok \d+", said, re.MULTILINE))
            if plan and int(plan[1]) != seen:
                wrong.append(f"{seen} of {plan[1]} assertions")
            failed += [f"{folder}/{name}: {line}" for line in wrong]
    box.note(f"{passed} passed, {len(failed)} failed")
    assert passed, "nothing was played"
    same(failed, [], "what failed")
    is_sound(mount)


def test_pjdfstest_on_a_file(box):
    pjdfstest(box, "file")


def test_pjdfstest_on_mariadb(box):
    pjdfstest(box, "mysql")


def test_pjdfstest_on_postgresql(box):
    pjdfstest(box, "postgresql")


# Reads and writes of every kind; large and small operations, with mappings and without, beginning
# again now and then, of which the file is closed and opened.
FSX = {
    "plain": [],
    "small": ["-l", "70000", "-o", "4000"],
    "large": ["-l", "4000000", "-o", "300000"],
    "without mappings": ["-R", "-W"],
    "closed and opened": ["-c", "7"],
    "within pages": ["-r", "4096", "-w", "4096", "-t", "4096"],
}


def fsx(box, kind):
    program = named("SESSFS_FSX", is_program)
    mount = mount_of(box, kind)
    os.mkdir(mount.at("s"))
    beside = box.new_folder("fsx")
    for number, (what, words) in enumerate(FSX.items()):
        path = mount.at("s", f"file-{number}")
        command = [program, "-q", "-N", str(STEPS), "-S", str(SEED + number), "-P", beside]
        done = run([*command, *words, path], SOAK)
        said = done.stdout.decode("utf-8", "replace")
        same(done.returncode, 0, f"fsx, {what}, seed {SEED + number}: {said[-1500:]}")
        size, digest = content(path)
        mount.remount()
        same(content(path), (size, digest), f"what fsx has left, {what}, mounted again")
    box.note(f"{len(FSX)} configurations of {STEPS} operations, seed {SEED}")
    is_sound(mount)


def content(path):
    data = harness.read(path)
    return len(data), hashlib.sha256(data).hexdigest()


def test_fsx_on_a_file(box):
    fsx(box, "file")


def test_fsx_on_mariadb(box):
    fsx(box, "mysql")


def test_fsx_on_postgresql(box):
    fsx(box, "postgresql")


def begin_fsstress(box, mount, seed):
    program = named("SESSFS_FSSTRESS", is_program)
    # Settings of the files of XFS, which no other file system has.
    without = ["-f", "bulkstat=0", "-f", "bulkstat1=0", "-f", "resvsp=0", "-f", "unresvsp=0"]
    command = [program, "-d", mount.at("s"), "-n", str(STEPS), "-p", "3", "-s", str(seed)]
    return subprocess.Popen([*command, *without], cwd=box.folder, stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def end_fsstress(process, seed):
    said = process.communicate(timeout=SOAK)[0].decode("utf-8", "replace")
    same(process.returncode, 0, f"fsstress, seed {seed}: {said[-1500:]}")


def fsstress(box, kind):
    """Three processes at once in one folder; the tree is the same when mounted again."""
    mount = mount_of(box, kind)
    os.mkdir(mount.at("s"))
    end_fsstress(begin_fsstress(box, mount, SEED), SEED)
    before = harness.tree(mount.path, times=True)
    assert len(before) > 10, f"only {len(before)} files"
    mount.remount()
    same_trees(before, harness.tree(mount.path, times=True), f"mounted again, seed {SEED}: ")
    box.note(f"{len(before)} files of 3 processes with {STEPS} operations each, seed {SEED}")
    is_sound(mount)


def fsstress_on_two(box, kind):
    """Three processes on each of two mounts, at once in one folder, with the same names: the mounts
    show the same tree, also when they are mounted again."""
    mount = mount_of(box, kind)
    other = box.mount(mount.store)
    os.mkdir(mount.at("s"))
    seeds = (SEED, SEED + 1)
    begun = [begin_fsstress(box, at, seed) for at, seed in zip((mount, other), seeds)]
    for process, seed in zip(begun, seeds):
        end_fsstress(process, seed)
    wanted = harness.tree(mount.path, times=True)
    assert len(wanted) > 10, f"only {len(wanted)} files"

    def is_same():
        return harness.tree(other.path, times=True) == harness.tree(mount.path, times=True)

    eventually(is_same, f"the mounts show the same, seeds {seeds}")
    wanted = harness.tree(mount.path, times=True)
    for again in (mount, other):
        again.remount()
        same_trees(wanted, harness.tree(again.path, times=True), f"mounted again, seeds {seeds}: ")
    box.note(f"{len(wanted)} files of 2 × 3 processes with {STEPS} operations each, seeds {seeds}")
    is_sound(mount)


def test_fsstress_on_two_mounts_of_a_file(box):
    fsstress_on_two(box, "file")


def test_fsstress_on_two_mounts_on_mariadb(box):
    fsstress_on_two(box, "mysql")


def test_fsstress_on_a_file(box):
    fsstress(box, "file")


def test_fsstress_on_mariadb(box):
    fsstress(box, "mysql")


def test_fsstress_on_postgresql(box):
    fsstress(box, "postgresql")


if __name__ == "__main__":
    servers.main(globals())
