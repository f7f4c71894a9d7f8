#!/usr/bin/python3 -B
# SPDX-License-Identifier: MIT
"""A mount that another mount namespace has, too: containers, sandboxes, services."""

import contextlib
import errno
import json
import os
import shlex
import signal
import subprocess

import harness
from harness import (
    AS_NOBODY,
    alive,
    append,
    errno_of,
    eventually,
    mounts_below,
    need_namespace,
    need_root,
    need_tool,
    read,
    same,
    tool,
    write,
)
from users import let_all_run

LINE = b'{"n": 1}\n'


def said(done):
    return (done.stdout + done.stderr).decode("utf-8", "replace")


def says(done, status, *words):
    same(done.returncode, status, said(done))
    for word in words:
        assert str(word) in said(done), (word, said(done))


def namespace_of(pid):
    return os.readlink(f"/proc/{pid}/ns/mnt").strip("mnt:[]")


class Sandbox:
    """A process in a mount namespace of its own, which has a copy of each mount."""

    def __init__(self, box, *command):
        need_root()
        need_namespace()
        self.process = subprocess.Popen(
            ["unshare", "-m", "--propagation", "private", *(command or ("sleep", "600"))],
            stdin=subprocess.DEVNULL,
        )
        self.pid = self.process.pid
        eventually(self.is_apart, "the namespace is made")
        self.space = namespace_of(self.pid)

    def is_apart(self):
        with contextlib.suppress(OSError), open(f"/proc/{self.pid}/cmdline", "rb") as line:
            begun = not line.read().startswith(b"unshare\0")
            return begun and namespace_of(self.pid) != namespace_of("self")
        return False

    def run(self, *command):
        return tool(*harness.entering(self.pid), "--", *command, check=False)

    def end(self):
        self.process.kill()
        self.process.wait()


@contextlib.contextmanager
def sandbox(box, *command):
    space = Sandbox(box, *command)
    try:
        yield space
    finally:
        space.end()


def listed(box, store):
    """What the list of mounts says about a store."""
    done = box.sessfs("mounts", "--json", check=True)
    return [entry for entry in json.loads(done.stdout) if entry["store"] == store]


def test_umount_names_the_namespace_that_still_has_the_mount(box):
    mount, session = box.session(background=True)
    append(f"{session}/l.jsonl", LINE)
    with sandbox(box) as space:
        done = box.sessfs("umount", mount.path)
        says(done, 1, mount.store, space.space, f"sleep ({space.pid})", "--force")
        same(mounts_below(mount.path), [], "mounts here")
        assert alive(mount.pid), "the daemon has ended under a mount"
        # Asked again, also by the name of the store, it says the same.
        says(box.sessfs("umount", mount.store), 1, space.space, f"sleep ({space.pid})")
        same(space.run("cat", f"{session}/l.jsonl").stdout, LINE, "the file in the sandbox")
    mount.wait_for_end()
    mount.forget()
    says(box.sessfs("umount", mount.store), 1, "is not mounted;")


def test_mounts_shows_a_mount_that_only_another_namespace_has(box):
    mount = box.mount(background=True)
    with sandbox(box) as space:
        here = listed(box, mount.store)
        same([entry["namespace"] for entry in here], [None], "the mount here")
        says(box.sessfs("umount", mount.path), 1)
        there = listed(box, mount.store)
        same(len(there), 1, "mounts of the store")
        same(there[0]["namespace"], int(space.space), "the namespace")
        same((there[0]["process"], there[0]["directory"]), (mount.pid, mount.path), "the mount")
        lines = [line for line in said(box.sessfs("mounts")).splitlines() if mount.store in line]
        same(len(lines), 1, "lines")
        for word in (str(mount.pid), mount.path, space.space, f"sleep ({space.pid})"):
            assert word in lines[0], (word, lines)
    mount.wait_for_end()
    mount.forget()
    same(listed(box, mount.store), [], "mounts of the store")


def test_mounts_shows_a_daemon_that_is_still_used_without_any_mount(box):
    mount, session = box.session(background=True)
    with open(f"{session}/notes.txt", "wb"):
        says(box.sessfs("umount", "--lazy", mount.path), 0)
        found = listed(box, mount.store)
        same([(e["process"], e["directory"]) for e in found], [(mount.pid, None)], "the daemon")
        assert str(mount.pid) in said(box.sessfs("mounts")), "the daemon is not in the list"
    mount.wait_for_end()
    mount.forget()


def test_umount_by_force_ends_the_daemon_and_keeps_what_was_written(box):
    mount, session = box.session(background=True)
    append(f"{session}/l.jsonl", LINE)
    script = 'exec 3>>"$1"; echo "{}" >&3; exec sleep 600'
    with sandbox(box, "sh", "-c", script, "sh", f"{session}/l.jsonl") as space:
        eventually(lambda: read(f"{session}/l.jsonl") == LINE + b"{}\n", "it is written")
        says(box.sessfs("umount", mount.path), 1)
        says(box.sessfs("umount", "--force", mount.store), 0)
        assert not alive(mount.pid), "the daemon goes on"
        assert space.run("ls", mount.path).returncode, "the sandbox still has a mount"
        same(os.path.exists(mount.store + "-wal"), False, "a log beside the store")
        mount.forget()
        again = box.mount(store=mount.store, background=True)
        same(read(again.at("s", "l.jsonl")), LINE + b"{}\n", "the list")


def test_umount_by_force_takes_a_mount_away_under_who_uses_it(box):
    mount, session = box.session(background=True)
    write(f"{session}/k.json", b'{"version": 1}')
    lines = os.open(f"{session}/l.jsonl", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(lines, LINE + b'{"n": ')
    says(box.sessfs("umount", mount.path), 1, "busy")
    says(box.sessfs("umount", "--force", mount.path), 0)
    assert not alive(mount.pid), "the daemon goes on"
    same(mounts_below(mount.path), [], "mounts")
    same(errno_of(os.write, lines, LINE), errno.ENOTCONN, "writing after the end")
    same(errno_of(os.close, lines), errno.ENOTCONN, "closing after the end")
    mount.forget()
    # A torn line is kept as at any other end.
    same(box.sessfs("cat", mount.store, "s/l.jsonl").stdout, LINE + b'{"n": ', "the list")
    same(box.sessfs("cat", mount.store, "s/k.json").stdout, b'{"version": 1}', "the document")


def test_umount_in_a_sandbox_says_that_the_mount_lives_on_outside(box):
    mount = box.mount(background=True)
    with sandbox(box) as space:
        done = space.run(box.program, "umount", mount.path)
        says(done, 1, namespace_of("self"), "--force")
        same(mounts_below(mount.path), [mount.path], "mounts here")
        assert alive(mount.pid), "the daemon has ended under a mount"


def takes_number(space, box, number):
    """Mounts another store where the kernel gives the mount this number, if it is still free."""
    for folder in (box.new_folder("fill") for _ in range(200)):
        space.run("mount", "-t", "tmpfs", "none", folder)
        if int(space.run("stat", "-c", "%d", folder).stdout) == number:
            space.run("umount", folder)
            says(space.run(box.program, "mount", box.new_store(), folder), 0)
            if int(space.run("stat", "-c", "%d", folder).stdout) == number:
                return folder
            says(space.run(box.program, "umount", folder), 0)
    return None


@contextlib.contextmanager
def number_taken(box):
    """A mount whose daemon is stopped before its end, a namespace, and the mount there that has the
    number of its connection: the kernel gives the lowest that is free."""
    need_root()
    need_namespace()
    other = None
    while not other:
        mount = box.mount(background=True)
        number = os.stat(mount.path).st_dev
        os.kill(mount.pid, signal.SIGSTOP)
        assert harness.detach(mount.path)
        with sandbox(box) as space:
            other = takes_number(space, box, number)
            try:
                if other:
                    yield mount, space, other
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(mount.pid, signal.SIGCONT)
        mount.wait_for_end()
        mount.forget()


def test_umount_waits_also_when_another_mount_has_got_the_number_of_the_connection(box):
    with number_taken(box) as (mount, space, other):
        umount = subprocess.Popen([box.program, "umount", mount.store], stderr=subprocess.PIPE)
        with contextlib.suppress(subprocess.TimeoutExpired):
            umount.wait(3)
        os.kill(mount.pid, signal.SIGCONT)
        same((umount.communicate()[1], umount.returncode), (b"", 0), "the end of umount")
        says(space.run(box.program, "umount", other), 0)


def test_umount_of_a_deleted_store_knows_its_daemon_though_another_one_had_its_number(box):
    with number_taken(box) as (_, space, other):
        store = tool("findmnt", "-n", "-o", "SOURCE", "-N", str(space.pid), other)
        store = store.stdout.decode().strip()
        os.unlink(store)
        done = space.run(box.program, "umount", other)
        same(said(done).count("\n"), 1, said(done))
        says(done, 1, f"last changes may not be in the store {store}: ")


def test_a_mount_is_listed_with_its_own_process_though_another_one_had_its_number(box):
    with number_taken(box) as (mount, space, other):
        listed = json.loads(space.run(box.program, "mounts", "--json").stdout)
        os.kill(mount.pid, signal.SIGCONT)
        found = [each["process"] for each in listed if each["directory"] == other]
        same(len(found), 1, "mounts there")
        assert found[0] != mount.pid, "the process of the mount that was there before"
        before = [each["store"] for each in listed if each["process"] == mount.pid]
        same(before, [mount.store], "what that one still has")
        os.kill(found[0], 0)
        says(space.run(box.program, "umount", other), 0)


def test_a_mount_that_is_refused_says_how_the_other_one_is_ended(box):
    mount = box.mount(background=True)
    with sandbox(box):
        says(box.sessfs("umount", mount.path), 1)
        done = box.sessfs("mount", "-o", "exclusive", mount.store, box.new_folder("mnt"))
        says(done, 1, mount.pid, f"sessfs umount --force {mount.store}")
    mount.wait_for_end()
    mount.forget()


@contextlib.contextmanager
def only_elsewhere(box):
    """A store of which only a sandbox has the mount, and where it shows that."""
    mount, _ = box.session(background=True)
    with sandbox(box) as space:
        says(box.sessfs("umount", mount.path), 1, space.space)
        yield mount, f"/proc/{space.pid}/root{mount.path}"
    mount.wait_for_end()
    mount.forget()


def test_each_verb_that_writes_does_so_beside_a_mount_that_only_a_sandbox_has(box):
    source = box.new_folder()
    write(f"{source}/note", b"taken in")
    with only_elsewhere(box) as (mount, root):

        def does(verb, *arguments, path, data, stdin=b""):
            """A verb, after which the mount and another verb show this at the path, or nothing."""
            options = [word for word in arguments if word.startswith("-")]
            rest = [word for word in arguments if word not in options]
            box.sessfs(verb, *options, mount.store, *rest, check=True, stdin=stdin)
            done = box.sessfs("cat", mount.store, path)
            same((done.returncode, done.stdout), (data is None, data or b""), f"cat after {verb}")
            box.seen(verb, eventually(lambda: shown(f"{root}/{path}") == data, verb))

        does("put", "s/k.json", path="s/k.json", data=b"1", stdin=b"1")
        does("put", "s/k.json", path="s/k.json", data=b"2", stdin=b"2")
        with open(f"{root}/s/l.jsonl", "ab", buffering=0) as file:
            file.write(b"1\n")
            does("append", "s/l.jsonl", path="s/l.jsonl", data=b"1\n2\n", stdin=b"2\n")
            file.write(b"3\n")
        same(mount.rows("s", "l"), [b"1", b"2", b"3"], "rows")
        does("append", "t/l.jsonl", path="t/l.jsonl", data=b"{}\n", stdin=b"{}\n")
        does("import", "--to=s", source, path="s/note", data=b"taken in")
        does("rm", "s/note", path="s/note", data=None)
        does("gc", "--undo", path="s/note", data=b"taken in")
        does("rm", "s/note", path="s/note", data=None)
        does("gc", "--name=t", "--older-than=0m", path="t/l.jsonl", data=None)
        same(mount.rows("t", "l"), [], "rows in the trash")
        does("gc", "--undo", "t", path="t/l.jsonl", data=b"{}\n")
        does("rm", "-r", "t", path="t/l.jsonl", data=None)
        eventually(lambda: mount.rows("t", "l") == [], "no rows")
        eventually(lambda: sorted(os.listdir(root)) == ["s"], "the sessions are shown")
        same(sorted(os.listdir(f"{root}/s")), ["k.json", "l.jsonl"], "files")
        mount.check()
    same(os.path.exists(f"{mount.store}-mounts"), False, "who is there is still written down")


def test_gc_leaves_what_is_open_on_a_mount_that_only_a_sandbox_has(box):
    with only_elsewhere(box) as (mount, root):

        def collects(action):
            done = box.sessfs("gc", "--older-than=0s", mount.store, check=True)
            return done.stdout.split()[:1] == [action]

        with open(f"{root}/s/note.txt", "ab", buffering=0) as file:
            file.write(b"1\n")
            assert collects(b"keep"), "it was removed"
            file.write(b"2\n")
        eventually(lambda: collects(b"remove"), "it is removed")
        eventually(lambda: os.listdir(root) == [], "it is gone")
        box.sessfs("gc", "--undo", mount.store, check=True)
        eventually(lambda: shown(f"{root}/s/note.txt") == b"1\n2\n", "it is back")
        mount.check()


def test_what_the_mount_holds_back_and_what_a_verb_appends_are_both_there(box):
    """The mount was alone when it was written to, and so holds small writes in memory."""
    with only_elsewhere(box) as (mount, root):
        for number in range(5):
            path = f"s/note{number}.txt"
            with open(f"{root}/{path}", "ab", buffering=0) as file:
                for n in range(30):
                    file.write(b"%d\n" % n)
                box.sessfs("append", mount.store, path, check=True, stdin=b"verb\n")
                for n in range(30, 33):
                    file.write(b"%d\n" % n)
            lines = [b"%d" % n for n in range(30)] + [b"verb"] + [b"%d" % n for n in range(30, 33)]
            same(read(f"{root}/{path}").split(), lines, path)
        mount.check()


def shown(path):
    try:
        return read(path)
    except FileNotFoundError:
        return None


def test_a_verb_that_is_killed_beside_a_mount_elsewhere_needs_no_hand(box):
    with only_elsewhere(box) as (mount, root):
        write(f"{root}/s/k.json", b"1")
        for number, verb in enumerate(("put", "append", "import") * 3):
            kill_in_the_middle(box, mount, verb, f"n{number}")
            same(read(f"{root}/s/k.json"), b"1", f"the document after {verb}")
            done = box.sessfs("put", mount.store, "s/k.json", stdin=b"1")
            says(done, 0)
            write(f"{root}/s/after", b"%d" % number)
        lines = read(f"{root}/s/l.jsonl").splitlines()
        same(mount.rows("s", "l"), lines, "rows")
        same(mount.indexes("s", "l"), list(range(len(lines))), "indexes")
        mount.check()


def kill_in_the_middle(box, mount, verb, name):
    """Ends it while it works, when it has joined the store and has more to do."""
    words = {"put": ["s/k.json"], "append": ["s/l.jsonl"], "import": [box.new_folder("many")]}[verb]
    if verb == "import":
        os.mkdir(f"{words[0]}/{name}")
        for number in range(2000):
            write(f"{words[0]}/{name}/{number}.json", b"{}")
    command = [box.program, verb, mount.store, *words]
    process = subprocess.Popen(command, stdin=subprocess.PIPE)
    process.stdin.write(b'{"half": 1}\n' * 1000 + b'{"ha')
    process.stdin.flush()
    begun = {
        "put": lambda: mount.sql("SELECT 1 FROM sessfs_node WHERE nlink = 0"),
        "append": lambda: len(mount.rows("s", "l")) % 1000 == 0 < len(mount.rows("s", "l")),
        "import": lambda: len(mount.keys()) > 3 and mount.rows(name, "0"),
    }
    eventually(begun[verb], f"{verb} has begun")
    process.kill()
    same(process.wait(), -9, f"the end of {verb}")
    process.stdin.close()


def test_only_who_may_end_the_daemon_does_so_by_force(box):
    need_tool("setpriv")
    need_root()
    mount, _ = box.session(options=["allow_other"])
    for path in (box.folder, os.path.dirname(mount.path)):
        os.chmod(path, 0o755)
    let_all_run(box, box.new_folder("program"))
    command = " ".join(map(shlex.quote, [box.program, "umount", "--force", mount.path]))
    done = tool(*AS_NOBODY, "sh", "-c", command, check=False)
    same(done.returncode, 1, said(done))
    same(mounts_below(mount.path), [mount.path], "mounts")
    assert alive(mount.pid), "the daemon has ended"


if __name__ == "__main__":
    harness.main(globals())
