#!/usr/bin/python3 -B
# SPDX-License-Identifier: MIT
"""Full disks: a store on a small filesystem, and a store with a quota.

What was refused leaves the previous state, for files and for rows; whatever takes away works on the
full disk, too; and then there is room again."""

import contextlib
import errno
import os
import shutil
import sqlite3
import subprocess
import sys

import harness
from harness import TABLE, append, errno_of, eventually, main, need_root, read, same, tool, write

SIZE = 16 << 20
LINE = b'{"role": "user", "content": "' + b"x" * 260 + b'"}\n'
BLOCK = 32768


class Disk:
    """A small filesystem with a store and one session in it."""

    def __init__(self, box, folder, options):
        self.box = box
        self.folder = folder
        self.store = os.path.join(folder, "store.db")
        self.mount = box.mount(store=self.store, options=options)
        os.mkdir(self.mount.at("s"))

    def at(self, *names):
        return self.mount.at("s", *names)

    def end(self):
        """Unmounts; the store is sound."""
        self.mount.stop()
        self.mount.check()
        with contextlib.closing(sqlite3.connect(self.store)) as base:
            same(base.execute("PRAGMA integrity_check").fetchall(), [("ok",)], "the database")


@contextlib.contextmanager
def disk(box, options=(), prepare=None, size=SIZE):
    need_root()
    folder = box.new_folder("disk")
    tool("mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder)
    try:
        if prepare:
            prepare(folder)
        small = Disk(box, folder, options)
        yield small
        small.end()
    finally:
        if sys.exc_info()[0]:
            box.let_go()
        wrong = box.finish()
        tool("umount", folder)
        if wrong and not sys.exc_info()[0]:
            raise AssertionError("; ".join(wrong))


def lines(count, start=0):
    return b"".join(b'{"n": %d, ' % (start + i) + LINE[1:] for i in range(count))


def fill_list(path, step=800, smallest=1):
    """Appends whole lines until not even the smallest block goes in; returns what was taken."""
    taken, count = [], 0
    while step >= smallest:
        block = lines(step, count)
        error = errno_of(append, path, block)
        if error == 0:
            taken.append(block)
            count += step
            continue
        same(error, errno.ENOSPC, "an append on a full disk")
        step //= 4
    return b"".join(taken)


def fill_file(path):
    """The same with an ordinary file; returns how many bytes it has."""
    size, step = 0, 1 << 20
    while step >= BLOCK:
        error = errno_of(append, path, b"b" * step)
        if error:
            same(error, errno.ENOSPC, "a write to a full disk")
            size = os.stat(path).st_size
            step //= 2
    same(read(path), b"b" * os.stat(path).st_size, "the bytes of the file")
    return size


def same_list(small, name, expected):
    same(read(small.at(name + ".jsonl")), expected, f"the bytes of {name}")
    same(small.mount.rows("s", name), expected.split(b"\n")[:-1], f"the rows of {name}")


def goes_in(path, data):
    return errno_of(append, path, data) == 0


def has_room(small, name="after.jsonl"):
    """Room has come back: some hundred KB go in."""
    eventually(lambda: goes_in(small.at(name), lines(500)), "there is room again")


def test_appends_are_taken_or_refused_and_the_rows_stay(box):
    with disk(box) as small:
        append(small.at("other.jsonl"), LINE)
        taken = fill_list(small.at("l.jsonl"))
        assert len(taken) > SIZE // 3, f"only {len(taken)} bytes fitted"
        same(errno_of(append, small.at("other.jsonl"), lines(500)), errno.ENOSPC, "another list")
        same_list(small, "l", taken)
        same_list(small, "other", LINE)
        free = os.statvfs(small.mount.path)
        assert free.f_bavail * free.f_frsize < 2 << 20, "statfs tells of room that is not there"
        small.mount.check()
        os.unlink(small.at("l.jsonl"))
        has_room(small)
        same_list(small, "other", LINE)


def test_saves_on_a_full_disk_keep_the_previous_content(box):
    with disk(box) as small:
        old = lines(100)
        text = b'{"version": 1}'
        for name in ("doc.json", "renamed.json"):
            write(small.at(name), text)
        for name in ("list.jsonl", "edited.jsonl", "moved.jsonl"):
            write(small.at(name), old)
        write(small.at("k.hash"), b"cafe")
        fill_file(small.at("ballast"))
        large = b'"' + b"y" * (3 << 20) + b'"'
        many = lines(9000, 7)

        def renamed(name, data):
            write(box.folder + "/new", data)
            shutil.copyfile(box.folder + "/new", small.at("new.tmp"))
            os.rename(small.at("new.tmp"), small.at(name))

        def edited(name, data):
            with open(small.at(name), "r+b", buffering=0) as file:
                file.seek(5)
                file.write(data)
                os.fsync(file.fileno())

        same(errno_of(write, small.at("doc.json"), large), errno.ENOSPC, "a large document")
        same(errno_of(renamed, "renamed.json", large), errno.ENOSPC, "one that is renamed over")
        same(errno_of(write, small.at("list.jsonl"), many), errno.ENOSPC, "a large list")
        same(errno_of(edited, "edited.jsonl", many), errno.ENOSPC, "one that is edited")
        same(errno_of(renamed, "moved.jsonl", many), errno.ENOSPC, "one that is renamed over")
        same(read(small.at("doc.json")), text, "the document")
        same(read(small.at("renamed.json")), text, "the document that was to be replaced")
        same(small.mount.rows("s", "doc"), [text], "its row")
        same(small.mount.rows("s", "renamed"), [text], "its row")
        same(read(small.at("k.hash")), b"cafe", "the sidecar")
        for name in ("list", "edited", "moved"):
            same_list(small, name, old)
        os.unlink(small.at("ballast"))
        eventually(lambda: not errno_of(write, small.at("doc.json"), large), "room again")
        same(small.mount.rows("s", "doc"), [large], "the row that was saved then")


def test_names_are_refused_and_what_was_made_stays(box):
    with disk(box) as small:
        fill_file(small.at("ballast"))
        made = {"mkdir": 0, "symlink": 0, "create": 0, "xattr": 0}
        target = "t" * 1000
        calls = {
            "mkdir": lambda i: os.mkdir(small.at(f"dir{i}" + "d" * 200)),
            "symlink": lambda i: os.symlink(target, small.at(f"link{i}")),
            "create": lambda i: write(small.at(f"file{i}"), b"f" * 1000),
            "xattr": lambda i: os.setxattr(small.at("ballast"), f"user.a{i}", b"v" * 4000),
        }
        for what, call in calls.items():
            error = 0
            while not error and made[what] < 3000:
                error = errno_of(call, made[what])
                made[what] += not error
            same(error, errno.ENOSPC, what)
        same(sum(name.startswith("dir") for name in os.listdir(small.at())), made["mkdir"], "dirs")
        for i in range(made["symlink"]):
            same(os.readlink(small.at(f"link{i}")), target, "a link")
        for i in range(made["create"]):
            same(read(small.at(f"file{i}")), b"f" * 1000, "a file")
        # Whatever takes nothing works.
        os.chmod(small.at("ballast"), 0o600)
        os.utime(small.at("ballast"), (1, 2))
        if made["xattr"]:
            os.removexattr(small.at("ballast"), "user.a0")
        os.truncate(small.at("ballast"), 1 << 20)
        has_room(small)


def freeing(box, free, fill=fill_list, name="l.jsonl", options=(), prepare=None):
    """On a disk that is full of one file: this makes room."""
    with disk(box, options, prepare, SIZE // 2) as small:
        os.mkdir(small.at("kept"))
        write(small.at("kept", "list.jsonl"), LINE)
        fill(small.at(name))
        free(small, small.at(name))
        has_room(small)
        same(read(small.at("kept", "list.jsonl")), LINE, "another list")
        same(small.mount.rows("s", "kept/list"), [LINE[:-1]], "its row")
        return small


def test_a_list_that_fills_the_disk_is_unlinked(box):
    freeing(box, lambda small, path: os.unlink(path))


def test_a_list_that_fills_the_disk_is_truncated(box):
    def free(small, path):
        os.truncate(path, 0)
        same(read(path), b"", "the list")
        same(small.mount.rows("s", "l"), [], "its rows")

    freeing(box, free)


def test_a_list_that_fills_the_disk_is_opened_with_o_trunc(box):
    def free(small, path):
        write(path, b"")
        same(small.mount.rows("s", "l"), [], "its rows")
        append(path, LINE)
        same_list(small, "l", LINE)

    freeing(box, free)


def test_an_ordinary_file_that_fills_the_disk_is_unlinked_or_cut(box):
    freeing(box, lambda small, path: os.unlink(path), fill_file, "plain")
    freeing(box, lambda small, path: os.truncate(path, 100), fill_file, "plain")


def test_a_session_is_removed_from_a_full_disk(box):
    def fill(path):
        for i in range(20):
            write(path + f"{i}.json", b'"' + b"z" * 9000 + b'"')
            append(path + f"{i}.jsonl", lines(20))
        fill_list(path)

    def free(small, path):
        tool("rm", "-r", small.at())
        same(os.path.exists(small.at()), False, "the session")
        same(small.mount.sql(f"SELECT count(*) FROM {TABLE}"), [(0,)], "rows that are left")
        os.makedirs(small.at("kept"))
        write(small.at("kept", "list.jsonl"), LINE)

    freeing(box, free, fill)


def test_a_smaller_file_is_renamed_over_one_that_fills_the_disk(box):
    def fill(path):
        write(path + ".tmp", LINE)
        fill_file(path)

    freeing(box, lambda small, path: os.rename(path + ".tmp", path), fill, "plain")


def test_room_that_is_made_elsewhere_is_used(box):
    def prepare(folder):
        write(folder + "/elsewhere", b"e" * (4 << 20))

    def free(small, path):
        os.unlink(small.folder + "/elsewhere")

    freeing(box, free, prepare=prepare)


def fill_elsewhere(small):
    """Another program takes the rest of the disk, to the last byte."""
    with contextlib.suppress(OSError), open(small.folder + "/elsewhere", "wb", 0) as file:
        while file.write(b"e" * 4096):
            pass


def is_whole(store):
    """Whether all pages of the database are in its file, and none in the log only."""
    with contextlib.closing(sqlite3.connect(store)) as base:
        pages = base.execute("PRAGMA page_count").fetchone()[0]
        size = base.execute("PRAGMA page_size").fetchone()[0]
    return os.stat(store).st_size >= pages * size > 1 << 20


def test_a_disk_that_others_fill_to_the_last_byte_allows_deletions(box):
    def fill(path):
        append(path, lines(4000))

    def free(small, path):
        eventually(lambda: is_whole(small.store), "what was written comes into the database")
        fill_elsewhere(small)
        fill_list(small.at("more.jsonl"))
        os.unlink(path)

    freeing(box, free, fill)


class Other:
    """Another program: it runs CODE with a path, and ends with this process at the latest."""

    CODE = None

    def __init__(self, path):
        command = [sys.executable, "-c", self.CODE, path, str(os.getpid())]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE)
        self.process.stdout.readline()

    def end(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


class Greedy(Other):
    """Another program, which takes whatever room there is at any moment, and gives none back."""

    CODE = (
        "import os, sys\n"
        "fd = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_APPEND)\n"
        "print('it begins', flush=True)\n"
        "while os.getppid() == int(sys.argv[2]):\n"
        "    for size in (65536, 4096):\n"
        "        try:\n"
        "            while os.write(fd, b'e' * size):\n"
        "                pass\n"
        "        except OSError:\n"
        "            pass\n"
    )


def keeps_and_unlinks(box, count, is_kept):
    with disk(box, size=SIZE // 2) as small:
        same(errno_of(append, small.at("l.jsonl"), lines(count)), 0, "an append")
        os.truncate(small.at("l.jsonl"), 0)
        append(small.at("l.jsonl"), lines(1))
        question = "SELECT count(*) FROM {} WHERE state_key = 'l'"
        kept = small.mount.sql(question.format("sessfs_past"))[0][0]
        assert kept >= count or not is_kept, kept
        fill_list(small.at("more.jsonl"))
        greedy = Greedy(small.folder + "/elsewhere")
        try:
            os.unlink(small.at("l.jsonl"))
            for table in (TABLE, "sessfs_past"):
                eventually(lambda: small.mount.sql(question.format(table)) == [(0,)],
                           "the rows are deleted")
        finally:
            greedy.end()
        os.unlink(small.folder + "/elsewhere")
        if is_kept:
            has_room(small)


def test_deletions_need_no_room_for_what_was_kept_either(box):
    """The history of a list, which goes with it, is larger than the log may become; one that the
    database could not take any more is not kept."""
    keeps_and_unlinks(box, 3000, True)
    keeps_and_unlinks(box, 6000, False)


def test_what_was_kept_of_another_user_s_file_goes_also_then(box):
    with disk(box, size=SIZE // 2) as small:
        append(small.at("l.jsonl"), lines(3000))
        os.truncate(small.at("l.jsonl"), 0)
        append(small.at("l.jsonl"), lines(2))
        os.chmod(small.at("l.jsonl"), 0o600)
        os.chown(small.at("l.jsonl"), 1000, 1000)
        append(small.at("new.jsonl"), lines(1))
        fill_list(small.at("more.jsonl"))
        greedy = Greedy(small.folder + "/elsewhere")
        try:
            os.rename(small.at("new.jsonl"), small.at("l.jsonl"))
            same(small.mount.sql("SELECT count(*) FROM sessfs_past WHERE state_key = 'l' "
                                 "AND what = 0"), [(0,)], "rows that were kept")
        finally:
            greedy.end()
        os.unlink(small.folder + "/elsewhere")
        same(read(small.at("l.jsonl")), lines(1), "the list")


def test_a_database_that_is_longer_than_what_it_holds_is_cut(box):
    """As a checkpoint beside a writer leaves it, which must not cut."""
    mount, session = box.session("s")
    append(os.path.join(session, "l.jsonl"), lines(1))
    with open(mount.store, "r+b") as file:
        size = file.seek(0, os.SEEK_END)
        file.truncate(size + (16 << 20))
    append(os.path.join(session, "l.jsonl"), lines(1))
    eventually(lambda: os.stat(mount.store).st_size < size + (1 << 20), "it is cut")


def test_deletions_need_no_room_that_another_program_could_take(box):
    with disk(box, size=SIZE // 2) as small:
        fill_list(small.at("l.jsonl"))
        write_error = errno_of(append, small.at("more.jsonl"), lines(500))
        same(write_error, errno.ENOSPC, "an append on a full disk")
        greedy = Greedy(small.folder + "/elsewhere")
        try:
            os.unlink(small.at("l.jsonl"))
            count = f"SELECT count(*) FROM {TABLE} WHERE state_key = 'l'"
            eventually(lambda: small.mount.sql(count) == [(0,)], "the rows are deleted")
        finally:
            greedy.end()
        os.unlink(small.folder + "/elsewhere")
        has_room(small)


def is_filled(folder):
    return os.statvfs(folder).f_bavail == 0


def test_a_log_that_is_new_has_room_that_another_program_cannot_take(box):
    with disk(box, size=SIZE // 2) as small:
        for i in range(20):
            append(small.at(f"l{i}.jsonl"), lines(200))
        small.mount.stop()
        small.mount.start()
        greedy = Greedy(small.folder + "/elsewhere")
        try:
            eventually(lambda: is_filled(small.folder), "the disk is full")
            for i in range(20):
                os.unlink(small.at(f"l{i}.jsonl"))
            count = f"SELECT count(*) FROM {TABLE}"
            eventually(lambda: small.mount.sql(count) == [(0,)], "the rows are deleted")
        finally:
            greedy.end()
        os.unlink(small.folder + "/elsewhere")
        has_room(small)


def test_a_database_of_another_program_allows_deletions(box):
    def prepare(folder):
        with contextlib.closing(sqlite3.connect(folder + "/store.db")) as base:
            base.execute("PRAGMA journal_mode = DELETE")
            base.execute(
                f"CREATE TABLE {TABLE} (session_id TEXT NOT NULL, state_key TEXT NOT NULL,"
                " item_index INTEGER NOT NULL DEFAULT 0, state_data TEXT NOT NULL,"
                " created_at TIMESTAMP, updated_at TIMESTAMP,"
                " PRIMARY KEY (session_id, state_key, item_index))"
            )
            base.commit()

    freeing(box, lambda small, path: os.unlink(path), prepare=prepare)


def test_a_store_at_its_quota_allows_deletions(box):
    def free(small, path):
        assert os.stat(small.store).st_size <= 3 << 20, "the store is larger than its quota"
        os.unlink(path)

    freeing(box, free, options=["max_size=2M"])
    freeing(box, lambda small, path: os.truncate(path, 0), options=["max_size=2M"])


QUOTA = 1 << 20


def space(path):
    """Bytes in all, free, and free for users, as df shows them."""
    found = os.statvfs(path)
    return tuple(found.f_frsize * n for n in (found.f_blocks, found.f_bfree, found.f_bavail))


def until_refused(call, most=2000):
    """How often a call succeeds before the quota is full."""
    for i in range(most):
        error = errno_of(call, i)
        if error:
            same(error, errno.ENOSPC, "a call at the quota")
            return i
    raise AssertionError("nothing is refused")


def allocate(path, size):
    with open(path, "wb") as file:
        os.posix_fallocate(file.fileno(), 0, size)


def test_all_that_takes_room_is_refused_at_the_quota_and_nothing_is_lost(box):
    mount, path = box.session(options=[f"max_size={QUOTA}"])
    at = lambda name: os.path.join(path, name)
    old = lines(30)
    write(at("doc.json"), b'{"version": 1}')
    write(at("list.jsonl"), old)
    write(at("plain"), b"p" * 5000)
    os.setxattr(at("plain"), "user.kept", b"kept")
    os.mkdir(at("kept"))
    fill_file(at("ballast"))
    large = b'"' + b"y" * 200000 + b'"'
    made = {
        "append": until_refused(lambda i: append(at("l.jsonl"), lines(1, i))),
        "ordinary file": until_refused(lambda i: append(at("more"), b"m" * 4096)),
        "mkdir": until_refused(lambda i: os.mkdir(at(f"dir{i}" + "d" * 200))),
        "symlink": until_refused(lambda i: os.symlink("t" * 1000, at(f"link{i}"))),
        "xattr": until_refused(lambda i: os.setxattr(at("plain"), f"user.a{i}", b"v" * 4000)),
        "save": until_refused(lambda i: write(at("doc.json"), large)),
        "list": until_refused(lambda i: write(at("list.jsonl"), lines(2000, 7))),
        "fallocate": until_refused(lambda i: allocate(at("allocated"), QUOTA)),
    }
    for what in ("save", "list", "fallocate"):
        same(made[what], 0, what)
    assert os.stat(mount.store).st_size <= QUOTA, "the store is larger than its quota"
    same(read(at("doc.json")), b'{"version": 1}', "the document")
    same(mount.rows("s", "doc"), [b'{"version": 1}'], "its row")
    same(read(at("list.jsonl")), old, "the list")
    same(mount.rows("s", "list"), old.split(b"\n")[:-1], "its rows")
    same(read(at("plain")), b"p" * 5000, "the ordinary file")
    same(read(at("l.jsonl")), lines(made["append"]), "the lines that were taken")
    same(len(mount.rows("s", "l")), made["append"], "their rows")
    same(sum(name.startswith("dir") for name in os.listdir(path)), made["mkdir"], "directories")
    same(len(os.listxattr(at("plain"))), made["xattr"] + 1, "attributes")
    # Whatever takes nothing works, and what was deleted is room at once.
    os.chmod(at("plain"), 0o600)
    os.rename(at("plain"), at("renamed"))
    os.removexattr(at("renamed"), "user.kept")
    os.rmdir(at("kept"))
    os.unlink(at("ballast"))
    write(at("doc.json"), large)
    same(mount.rows("s", "doc"), [large], "the row that was saved then")
    os.truncate(at("more"), 0)
    mount.stop()
    mount.check()


def test_df_tells_of_the_quota(box):
    mount, path = box.session(options=[f"max_size={QUOTA}", "history=0"])
    at = lambda name: os.path.join(path, name)

    def sane(what):
        total, free, available = space(mount.path)
        same(total, QUOTA, f"{what}: all of it")
        same(free, available, f"{what}: what is free is free for users")
        return free

    empty = sane("empty")
    assert QUOTA * 3 // 4 < empty < QUOTA, f"{empty} bytes are free in the beginning"
    write(at("half"), b"h" * (QUOTA // 2))
    half = sane("half")
    assert abs(empty - half - QUOTA // 2) < QUOTA // 10, f"{half} bytes are free"
    size = fill_file(at("rest"))
    assert abs(size - half) < QUOTA // 10, f"{half} were said to be free, {size} fitted"
    assert sane("full") < 2 * BLOCK, "what is full is free"
    os.unlink(at("rest"))
    eventually(lambda: abs(sane("again") - half) < QUOTA // 10, "free again")


def test_a_quota_holds_after_remounting_with_another(box):
    mount, path = box.session(options=[f"max_size={2 * QUOTA}"])
    at = lambda name: os.path.join(path, name)
    write(at("kept.json"), b'{"kept": 1}')
    write(at("large"), b"l" * QUOTA)
    write(at("gone"), b"g" * (QUOTA // 2))
    os.unlink(at("gone"))
    mount.remount([f"max_size={QUOTA // 2}"])
    total, free, _ = space(mount.path)
    same((total, free), (QUOTA // 2, 0), "what df tells above the quota")
    assert until_refused(lambda i: append(at("more"), b"m" * 4096)) < 8, "room above the quota"
    assert until_refused(lambda i: append(at("l.jsonl"), lines(1, i))) < 100, "likewise for rows"
    same(errno_of(write, at("kept.json"), b'"' + b"k" * 100000 + b'"'), errno.ENOSPC, "a save")
    same(read(at("kept.json")), b'{"kept": 1}', "the document")
    same(mount.rows("s", "kept"), [b'{"kept": 1}'], "its row")
    os.truncate(at("large"), 1000)
    same(read(at("large")), b"l" * 1000, "the file that was cut")
    eventually(lambda: goes_in(at("more"), b"m" * 50000), "room below the quota")
    mount.remount([f"max_size={4 * QUOTA}"])
    write(at("large"), b"l" * (2 * QUOTA))
    same(space(mount.path)[0], 4 * QUOTA, "what df tells of a larger one")
    mount.remount([])
    assert space(mount.path)[0] > 4 * QUOTA, "there is no quota any more"
    mount.stop()
    mount.check()


def test_a_full_disk_is_mounted_again_after_a_kill(box):
    with disk(box, size=SIZE // 2) as small:
        taken = fill_list(small.at("l.jsonl"))
        small.mount.kill9()
        fill_elsewhere(small)
        small.mount.start()
        same_list(small, "l", taken)
        os.unlink(small.at("l.jsonl"))
        has_room(small)


def test_a_list_that_was_unlinked_before_a_kill_goes_at_the_next_mount(box):
    with disk(box, size=SIZE // 2) as small:
        fill_list(small.at("l.jsonl"))
        os.unlink(small.at("l.jsonl"))
        small.mount.kill9()
        small.mount.start()
        same(os.listdir(small.at()), [], "names")
        same(small.mount.rows("s", "l"), [], "its rows")
        has_room(small)


class Checkpointing(Other):
    """Another program, which empties the log again and again, and slowly: it takes SQLite's lock
    for that, and gives it back for moments only."""

    CODE = (
        "import fcntl, os, sys, time\n"
        "fd = os.open(sys.argv[1], os.O_RDWR)\n"
        "print('it begins', flush=True)\n"
        "while os.getppid() == int(sys.argv[2]):\n"
        "    fcntl.lockf(fd, fcntl.LOCK_EX, 1, 121)\n"
        "    time.sleep(0.05)\n"
        "    fcntl.lockf(fd, fcntl.LOCK_UN, 1, 121)\n"
        "    time.sleep(0.02)\n"
    )


def fill_with_lists(small, refusals=1):
    """Many lists of 100 KB, until so many were refused; returns how many went in."""
    line = b'{"k": "' + b"x" * 1000 + b'"}\n'
    count = 0
    for i in range(SIZE >> 10):
        with contextlib.suppress(OSError), open(small.at(f"l{i}.jsonl"), "wb", 0) as file:
            for _ in range(100):
                file.write(line)
            count += 1
            continue
        refusals -= 1
        if not refusals:
            return count
    raise AssertionError("nothing is refused")


def test_a_disk_is_full_of_rows_and_not_of_the_log(box):
    for _ in range(harness.rounds("SESSFS_ROUNDS", 1, 4)):
        # As large as this, the keeper is emptying the log when the disk becomes full.
        with disk(box, size=SIZE // 2 * 3) as small:
            count = fill_with_lists(small)
            assert count > 150, f"only {count} lists fitted"


def test_the_log_is_emptied_although_another_program_is_about_to(box):
    with disk(box) as small:
        busy = Checkpointing(small.store + "-shm")
        try:
            # The moments in which the lock is free may be missed for once, on a busy machine.
            count = fill_with_lists(small, refusals=10)
        finally:
            busy.end()
        assert count > 100, f"only {count} lists fitted"


def test_a_full_disk_is_said_now_and_then_and_by_its_name(box):
    with disk(box, size=SIZE // 2) as small:
        fill_list(small.at("l.jsonl"))
        block = lines(500)
        for _ in range(200):
            same(errno_of(append, small.at("other.jsonl"), block), errno.ENOSPC, "an append")
        said = small.mount.log()
        assert "not an error" not in said, said
        count = said.count("\n")
        assert count < 50, f"the log has {count} lines"


def test_a_check_beside_a_mount_leaves_the_reserve_alone(box):
    with disk(box, size=SIZE // 2) as small:
        fill_list(small.at("l.jsonl"))
        before = os.stat(small.store + "-reserve").st_blocks
        assert before > 0, "nothing is kept in reserve"
        small.mount.check()
        same(os.stat(small.store + "-reserve").st_blocks, before, "the reserve after a check")
        os.unlink(small.at("l.jsonl"))
        has_room(small)


def test_a_store_on_a_full_disk_is_read_without_a_mount(box):
    outside = box.new_folder("outside")
    with disk(box, size=SIZE // 2) as small:
        append(small.at("l.jsonl"), lines(500))
        small.mount.stop()
        fill_elsewhere(small)
        there = {name: os.stat(os.path.join(small.folder, name)).st_blocks
                 for name in os.listdir(small.folder)}
        verbs = [["ls", small.store], ["cat", small.store, "s/l.jsonl"], ["check", small.store],
                 ["show", "--last=1", small.store, "s"], ["sessions", small.store],
                 ["config", small.store], ["export", small.store, outside + "/files"],
                 ["backup", small.store, outside + "/copy.db"]]
        for verb in verbs:
            done = box.sessfs(*verb)
            same((done.returncode, b"error" in done.stderr), (0, False), f"{verb}: {done.stderr}")
            same({name: os.stat(os.path.join(small.folder, name)).st_blocks
                  for name in os.listdir(small.folder)}, there, f"what {verb[0]} leaves")
        done = box.sessfs("rm", small.store, "s/l.jsonl")
        same((done.returncode, b"I/O" in done.stderr), (0, False), f"rm: {done.stderr}")
        os.unlink(small.store + "-reserve")
        fill_elsewhere(small)
        done = box.sessfs("ls", small.store)
        same((done.returncode, b"filesystem is full" in done.stderr), (1, True),
             f"without the reserve: {done.stderr}")
        os.unlink(small.folder + "/elsewhere")
        small.mount.start()


def test_a_file_of_somebody_else_is_no_reserve(box):
    def prepare(folder):
        write(folder + "/store.db-reserve", b"mine" * 1000)

    with disk(box, prepare=prepare) as small:
        fill_list(small.at("l.jsonl"), smallest=50)
        errno_of(os.unlink, small.at("l.jsonl"))
        same(read(small.store + "-reserve"), b"mine" * 1000, "the file of that name")


def test_a_read_only_mount_makes_no_reserve(box):
    with disk(box) as small:
        small.mount.stop()
        os.unlink(small.store + "-reserve")
        small.mount.options = ["ro"]
        small.mount.start()
        same(os.listdir(small.mount.at()), ["s"], "names")
        small.mount.stop()
        same(os.path.exists(small.store + "-reserve"), False, "there is a reserve")


main(globals())
