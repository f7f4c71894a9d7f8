#!/usr/bin/python3 -B
# SPDX-License-Identifier: MIT
"""The program itself: its command line, stores that it must refuse, signals, users."""

import contextlib
import errno
import itertools
import os
import random
import re
import signal
import sqlite3
import subprocess
import time

import harness
from harness import (
    AS_NOBODY,
    Skip,
    append,
    complaints,
    errno_of,
    eventually,
    mounts_below,
    need_root,
    read,
    same,
    tool,
    write,
)
from users import users


def refused(done, *words, status=1):
    """One clear sentence on stderr, and an exit status."""
    text = done.stderr.decode("utf-8", "replace")
    same(done.returncode, status, f"exit status (it says {text.strip()!r})")
    lines = [line for line in text.splitlines() if line.strip()]
    same(len(lines), 1, f"sentences in {text!r}")
    for word in words:
        assert word in lines[0], f"{lines[0]!r} does not say {word!r}"
    same(done.stdout, b"", "stdout")
    return lines[0]


def refuse_store(box, store, *words):
    """A store that cannot be mounted, checked or changed."""
    folder = box.new_folder("mnt")
    sentence = refused(box.sessfs("mount", "-f", store, folder), *words)
    refused(box.sessfs("mount", store, folder))
    same(mounts_below(folder), [], "mounts")
    return sentence


# The command line


def test_help_is_printed_on_request_and_names_the_commands(box):
    for arguments in (["--help"], ["help"], ["-h"]):
        done = box.sessfs(*arguments)
        same((done.returncode, done.stderr), (0, b""), f"{arguments}")
        for command in (b"mount", b"umount", b"check"):
            assert command in done.stdout, f"{arguments} does not name {command}"
    done = box.sessfs("mount", "--help")
    same(done.returncode, 0, "mount --help")
    assert b"STORE" in done.stdout and b"-f" in done.stdout, "mount --help"


def test_the_version_is_printed(box):
    done = box.sessfs("--version")
    same((done.returncode, done.stderr), (0, b""), "--version")
    assert done.stdout.startswith(b"sessfs "), done.stdout
    assert any(byte in b"0123456789" for byte in done.stdout), done.stdout
    assert re.search(rb"^libfuse 3\.\d+\S*, built with 3\.\d+\S*$", done.stdout, re.M), done.stdout
    assert re.search(rb"^SQLite 3\.\d+\.\d+$", done.stdout, re.M), done.stdout


def test_a_mount_says_once_that_its_sqlite_can_lose_what_others_commit(box):
    version = re.search(rb"^SQLite (\d+)\.(\d+)\.(\d+)$", box.sessfs("--version").stdout, re.M)
    major, minor, patch = map(int, version.groups())
    mended = {44: 6, 50: 7, 51: 3}.get(minor, 0 if minor > 51 else 99)
    flawed = major == 3 and minor >= 7 and patch < mended
    same(box.mount().log().count("WAL-reset bug"), int(flawed), f"of {version[0]}")


def test_wrong_command_lines_are_refused_with_a_sentence_and_a_status(box):
    folder = box.new_folder()
    store = os.path.join(folder, "store.db")
    for arguments in (
        [],
        ["nonsense"],
        ["--nonsense"],
        ["mount"],
        ["mount", store],
        ["mount", store, folder, "surplus"],
        ["mount", "--nonsense", store, folder],
        ["mount", "-o", "nonsense=1", store, folder],
        ["mount", "-o"],
        ["umount"],
        ["check"],
        ["check", "--nonsense", store],
    ):
        done = box.sessfs(*arguments)
        assert 0 < done.returncode < 100, f"{arguments}: status {done.returncode}"
        assert done.stderr.strip(), f"{arguments}: nothing is said"
        same(done.stdout, b"", f"{arguments}: stdout")
        assert b"Assertion" not in done.stderr, done.stderr
    same(os.listdir(folder), [], "files that were made")


def test_a_full_device_for_the_output_is_an_error(box):
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [box.program, "--help"], stdout=full, stderr=subprocess.PIPE
        )
    assert done.returncode != 0, "the output was lost without a word"


def test_a_mount_point_that_is_missing_or_no_folder_is_refused(box):
    store = box.new_path("store") + ".db"
    missing = box.new_path("missing")
    refused(box.sessfs("mount", "-f", store, missing), os.path.basename(missing))
    plain = box.new_path("file")
    write(plain, b"")
    refused(box.sessfs("mount", "-f", store, plain), os.path.basename(plain))


def test_check_of_a_store_that_is_not_there_makes_none(box):
    store = box.new_path("store") + ".db"
    done = box.sessfs("check", store)
    assert done.returncode != 0 and done.stderr.strip(), done
    assert not os.path.exists(store), "check has made a store"


def test_umount_of_what_is_not_mounted_is_refused(box):
    refused(box.sessfs("umount", box.new_folder()))


# Mounting and ending


def test_mount_returns_when_the_mount_answers(box):
    mount = box.mount(background=True)
    os.mkdir(mount.at("s"))
    append(mount.at("s", "l.jsonl"), b"1\n")
    same(mount.rows("s", "l"), [b"1"], "rows")
    mount.stop()
    same(read(mount.store)[:15], b"SQLite format 3", "the store")


def test_the_daemon_leaves_the_terminal_and_the_folder_that_it_was_started_in(box):
    mount = box.mount(background=True)
    same(os.readlink(f"/proc/{mount.pid}/cwd"), "/", "working directory")
    same(os.getsid(mount.pid) == os.getsid(0), False, "the same session of processes")
    for number in (0, 1, 2):
        target = os.readlink(f"/proc/{mount.pid}/fd/{number}")
        assert not target.startswith("pipe:"), f"descriptor {number} is still {target}"


def test_relative_paths_are_those_of_the_caller(box):
    folder = box.new_folder()
    os.mkdir(os.path.join(folder, "mnt"))
    tool(box.program, "mount", "./store.db", "mnt", cwd=folder)
    try:
        os.mkdir(os.path.join(folder, "mnt", "s"))
        write(os.path.join(folder, "mnt", "s", "k.json"), b"1")
    finally:
        tool(box.program, "umount", "mnt", cwd=folder)
    assert os.path.exists(os.path.join(folder, "store.db")), "the store"
    eventually(lambda: not harness.processes_of(box.program, "mnt"), "the daemon ends")


def test_a_mount_may_hide_the_folder_for_temporary_files(box):
    hidden = box.new_folder("mnt")
    os.mkdir(os.path.join(hidden, "tmp"))
    for folder in (hidden, os.path.join(hidden, "tmp"), os.path.join(hidden, "not-there")):
        os.environ["TMPDIR"] = folder
        mount = box.mount(path=hidden, options=["nonempty"], background=True)
        os.mkdir(mount.at("s"))
        # It does not go into memory.
        large = b'"%s"\n' % (b"x" * 1000) * 20000
        for data in (b"1\n", large):
            write(mount.at("s", "l.jsonl"), data)
        same(read(mount.at("s", "l.jsonl")), large, "the list")
        mount.stop()


def test_sessfs_umount_unmounts_and_the_daemon_ends(box):
    for background in (True, False):
        mount = box.mount(background=background)
        os.mkdir(mount.at("s"))
        write(mount.at("s", "k.json"), b"1")
        box.sessfs("umount", mount.path, check=True)
        same(mounts_below(mount.path), [], "mounts")
        same(mount.wait_for_end() or 0, 0, "status of the daemon")
        same(mount.rows("s", "k"), [b"1"], "rows")


def test_umount_of_a_busy_mount_says_so(box):
    mount, session = box.session()
    with open(os.path.join(session, "file"), "wb"):
        refused(box.sessfs("umount", mount.path))
    same(mounts_below(mount.path), [mount.path], "mounts")


def test_sigterm_and_sigint_unmount_cleanly(box):
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        mount, session = box.session()
        write(os.path.join(session, "k.json"), b"1")
        append(os.path.join(session, "l.jsonl"), b'{"n": 1}\n')
        os.kill(mount.pid, number)
        same(mount.wait_for_end(), 0, f"status after {number!r}")
        same(mounts_below(mount.path), [], "mounts")
        same(mount.rows("s", "l"), [b'{"n": 1}'], "rows")
        mount.forget()
        mount.check()
        mount.start()
        same(read(os.path.join(session, "k.json")), b"1", "after mounting again")


def test_sigterm_of_a_daemon_in_the_background_unmounts_cleanly(box):
    mount = box.mount(background=True)
    os.mkdir(mount.at("s"))
    os.kill(mount.pid, signal.SIGTERM)
    mount.wait_for_end()
    same(mounts_below(mount.path), [], "mounts")


def children(pid):
    with open(f"/proc/{pid}/task/{pid}/children") as numbers:
        return [int(number) for number in numbers.read().split()]


def test_who_is_ended_by_a_signal_while_a_mount_gets_ready_has_none(box):
    folder = box.new_folder("mnt")
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        store = box.new_store()
        parent = subprocess.Popen([box.program, "mount", store, folder], stderr=subprocess.PIPE)
        eventually(lambda: children(parent.pid), "the daemon is there")
        # It finds both the signal and the word that the mount is ready.
        os.kill(parent.pid, signal.SIGSTOP)
        (daemon,) = children(parent.pid)
        eventually(lambda: mounts_below(folder), "the mount is there")
        eventually(lambda: os.getsid(daemon) == daemon, "it is ready")
        os.kill(parent.pid, number)
        os.kill(parent.pid, signal.SIGCONT)
        parent.communicate()
        same(parent.returncode, -number, "status")
        eventually(lambda: not mounts_below(folder), "the mount goes")
        eventually(lambda: not harness.alive(daemon), "the daemon ends")


def test_after_kill_9_mounting_again_on_the_same_folder_works_and_nothing_is_lost(box):
    for background in (False, True):
        mount = box.mount(background=background)
        os.mkdir(mount.at("s"))
        append(mount.at("s", "l.jsonl"), b'{"n": 1}\n{"n": 2}\n')
        write(mount.at("s", "k.json"), b'{"version": 1}')
        write(mount.at("s", "note.txt"), b"ordinary")
        held = os.open(mount.at("s", "k.json"), os.O_WRONLY | os.O_TRUNC)
        os.write(held, b'{"version": ')
        mount.kill_only()
        with contextlib.suppress(OSError):
            os.close(held)
        same(errno_of(os.listdir, mount.path), errno.ENOTCONN, "the dead mount")
        same(mount.rows("s", "k"), [b'{"version": 1}'], "the previous state")
        same(mount.rows("s", "l"), [b'{"n": 1}', b'{"n": 2}'], "the list")
        mount.check()
        harness.Mount(box, mount.store, mount.path)  # no folder is made: it is still mounted
        again = box.sessfs("mount", mount.store, mount.path)
        same((again.returncode, complaints(again)), (0, b""), "mounting over the dead mount")
        try:
            same(read(mount.at("s", "k.json")), b'{"version": 1}', "the document")
            same(read(mount.at("s", "note.txt")), b"ordinary", "the note")
            append(mount.at("s", "l.jsonl"), b'{"n": 3}\n')
            same(mount.indexes("s", "l"), [0, 1, 2], "indexes")
            same(len(mounts_below(mount.path)), 1, "mounts on the folder")
        finally:
            box.sessfs("umount", mount.path, check=True)
        eventually(
            lambda: not harness.processes_of(box.program, mount.path), "the daemon ends"
        )


def test_files_deleted_just_before_kill_9_stay_deleted_and_their_rows_go(box):
    mount, session = box.session()
    for name in ("k.json", "l.jsonl", "kept.jsonl"):
        append(os.path.join(session, name), b'{"n": 1}\n')
    os.unlink(os.path.join(session, "k.json"))
    os.unlink(os.path.join(session, "l.jsonl"))
    mount.kill9()
    mount.start()
    same(os.listdir(session), ["kept.jsonl"], "names")
    left = [(b"s", b"kept")]
    eventually(lambda: mount.keys() == left, "the rows of the deleted files go")
    same(os.listdir(session), ["kept.jsonl"], "names after the rows have gone")
    mount.check()


def test_a_mount_point_that_is_in_use_is_refused_for_another_store(box):
    mount = box.mount()
    other = box.new_path("other") + ".db"
    done = box.sessfs("mount", "-f", other, mount.path)
    refused(done)
    same(len(mounts_below(mount.path)), 1, "mounts on the folder")


def test_a_mount_that_wants_a_store_alone_is_refused_naming_the_holder(box):
    mount = box.mount()
    for flags in (["-f", "-o", "exclusive"], ["-o", "exclusive"]):
        done = box.sessfs("mount", *flags, mount.store, box.new_folder("mnt"))
        sentence = refused(done)
        assert str(mount.pid) in sentence or mount.path in sentence, sentence
    os.mkdir(mount.at("s"))
    done = box.sessfs("check", mount.store)
    same(done.returncode, 0, "check of a mounted store")
    mount.kill9()
    mount.start()


def test_a_store_in_memory_is_mounted_and_forgotten(box):
    folder = box.new_folder("mnt")
    process = subprocess.Popen(
        [box.program, "mount", "-f", "memory:", folder], stderr=subprocess.PIPE
    )
    try:
        eventually(lambda: mounts_below(folder), "the mount is there")
        os.mkdir(os.path.join(folder, "s"))
        append(os.path.join(folder, "s", "l.jsonl"), b"1\n2\n")
        same(read(os.path.join(folder, "s", "l.jsonl")), b"1\n2\n", "the list")
        tool("fusermount3", "-u", folder)
        same(process.wait(), 0, "status of the daemon")
    finally:
        process.kill()
        process.stderr.close()


def test_the_mount_table_shows_safe_flags(box):
    mount = box.mount()
    with open("/proc/self/mountinfo") as table:
        line = next(line for line in table if f" {mount.path} " in line)
    flags = line.split()[5].split(",") + line.split()[-1].split(",")
    for flag in ("nosuid", "nodev", "default_permissions"):
        assert flag in flags, f"{flag} is missing in {line.strip()}"
    assert "allow_other" not in flags, line
    assert "sessfs" in line, line


# Stores that must be refused


def test_a_file_that_is_not_a_database_is_refused_and_left_alone(box):
    for data in (b"just text\n" * 1000, os.urandom(8192), b"x", b"SQLite format 3\0" + bytes(84)):
        store = box.new_path("text")
        write(store, data)
        refuse_store(box, store, os.path.basename(store))
        same(read(store), data, "the file")


def test_the_database_of_somebody_else_is_refused_and_left_alone(box):
    store = box.new_path("foreign") + ".db"
    with contextlib.closing(sqlite3.connect(store)) as base:
        base.executescript("CREATE TABLE bookmarks (url TEXT); PRAGMA application_id = 1234567;")
    data = read(store)
    refuse_store(box, store)
    same(read(store), data, "the database")


def test_a_view_of_the_name_of_the_table_is_refused(box):
    store = box.new_path("view") + ".db"
    with contextlib.closing(sqlite3.connect(store)) as base:
        base.executescript(
            "CREATE TABLE t (a, b, c, d, e, f);"
            f"CREATE VIEW {harness.TABLE} AS SELECT a AS session_id, b AS state_key,"
            " c AS item_index, d AS state_data, e AS created_at, f AS updated_at FROM t;"
        )
    refuse_store(box, store)


def test_a_table_without_the_columns_is_refused(box):
    for columns in ("a, b", "session_id, state_key, item_index", "state_data"):
        store = box.new_path("columns") + ".db"
        with contextlib.closing(sqlite3.connect(store)) as base:
            base.execute(f"CREATE TABLE {harness.TABLE} ({columns})")
        refuse_store(box, store)


def test_a_store_of_a_newer_version_is_refused_and_left_alone(box):
    mount, session = box.session()
    write(os.path.join(session, "k.json"), b"1")
    mount.stop()
    with contextlib.closing(sqlite3.connect(mount.store)) as base:
        version = base.execute("PRAGMA user_version").fetchone()[0]
        identity = base.execute("PRAGMA application_id").fetchone()[0]
        assert version > 0 and identity != 0, (version, identity)
        base.execute(f"PRAGMA user_version = {version + 1000}")
    data = read(mount.store)
    sentence = refuse_store(box, mount.store)
    assert "newer" in sentence, sentence
    same(read(mount.store), data, "the store")


def test_a_folder_a_fifo_and_a_missing_parent_are_refused_as_stores(box):
    folder = box.new_folder()
    refuse_store(box, folder)
    fifo = box.new_path("fifo")
    os.mkfifo(fifo)
    refuse_store(box, fifo)
    refuse_store(box, os.path.join(box.new_path("missing"), "store.db"))
    refuse_store(box, os.path.join(box.folder, "n" * 300, "store.db"))


def filled_store(box):
    mount, session = box.session()
    for number in range(60):
        write(os.path.join(session, f"{number}.json"), b'{"n": %d}' % number)
        append(os.path.join(session, "l.jsonl"), b'{"pad": "%s"}\n' % (b"y" * 50 * number))
        write(os.path.join(session, f"{number}.txt"), os.urandom(100 * number))
    mount.stop()
    return mount.store


def use_damaged(box, store):
    """Whatever the store is, the daemon refuses with a sentence or serves errors; it never dies."""
    folder = box.new_folder("mnt")
    log = open(box.new_path("log"), "w+b")
    process = subprocess.Popen(
        [box.program, "mount", "-f", store, folder], stdout=log, stderr=log
    )
    try:
        eventually(lambda: mounts_below(folder) or process.poll() is not None, "an answer")
        if process.poll() is None:
            # Damage may make a file huge, or a folder its own: a part of it tells enough.
            for top, _, names in itertools.islice(os.walk(folder), 200):
                for name in names[:50]:
                    with contextlib.suppress(OSError):
                        with open(os.path.join(top, name), "rb") as file:
                            file.read(1 << 20)
            for call in (
                lambda: append(os.path.join(folder, "s", "l.jsonl"), b"1\n"),
                lambda: write(os.path.join(folder, "s", "new.json"), b"1"),
                lambda: os.rename(os.path.join(folder, "s"), os.path.join(folder, "t")),
            ):
                with contextlib.suppress(OSError):
                    call()
            assert process.poll() is None, f"the daemon died with {process.poll()}"
            tool("fusermount3", "-u", folder)
        status = process.wait()
        log.seek(0)
        said = log.read().decode("utf-8", "replace")
        assert status >= 0 and status < 90, f"ended with {status}: {said[-2000:]}"
        if status:
            assert said.strip(), "refused without a word"
        done = box.sessfs("check", store)
        assert 0 <= done.returncode < 90, f"check ended with {done.returncode}"
    finally:
        process.kill()
        process.wait()
        log.close()


def test_truncated_stores_do_no_harm(box):
    store = filled_store(box)
    data = read(store)
    for size in (100, 4096, 5000, len(data) // 2, len(data) - 4096, len(data) - 1):
        cut = box.new_path("cut") + ".db"
        write(cut, data[:size])
        use_damaged(box, cut)


def test_damaged_stores_do_no_harm(box):
    store = filled_store(box)
    data = read(store)
    for seed in range(12):
        rng = random.Random(seed)
        broken = bytearray(data)
        for _ in range(rng.choice((1, 10, 200))):
            broken[rng.randrange(100, len(broken))] = rng.randrange(256)
        damaged = box.new_path("damaged") + ".db"
        write(damaged, bytes(broken))
        use_damaged(box, damaged)


def test_tables_of_ours_with_hostile_content_do_no_harm(box):
    store = filled_store(box)
    with contextlib.closing(sqlite3.connect(store)) as base:
        tables = [
            row[0]
            for row in base.execute(
                "SELECT name FROM sqlite_schema WHERE type = 'table' AND name LIKE 'sessfs\\_%'"
                " ESCAPE '\\' ORDER BY 1"
            )
        ]
    assert tables, "no tables of ours"
    values = ("NULL", "-1", "0", "9223372036854775807", "x'ff00'", "'../../x'", "1e308")
    values += ("zeroblob(70000)",)
    rng = random.Random(5)
    for table in tables:
        for _ in range(3):
            copy = box.new_path("hostile") + ".db"
            write(copy, read(store))
            with contextlib.closing(sqlite3.connect(copy)) as base:
                columns = [row[1] for row in base.execute(f"PRAGMA table_info({table})")]
                for column in rng.sample(columns, min(2, len(columns))):
                    with contextlib.suppress(sqlite3.Error):
                        base.execute(
                            f"UPDATE OR IGNORE {table} SET {column} = {rng.choice(values)}"
                            f" WHERE random() % 3 = 0"
                        )
                base.commit()
            use_damaged(box, copy)


def test_a_listing_ends_whatever_the_numbers_of_its_entries_are(box):
    store = filled_store(box)
    for number in ("'x'", "0", "-1", "9223372036854775807", "1e300"):
        copy = box.new_path("numbers") + ".db"
        write(copy, read(store))
        with contextlib.closing(sqlite3.connect(copy)) as base:
            base.execute(f"UPDATE OR IGNORE sessfs_entry SET id = {number} WHERE id % 2 = 0")
            base.commit()
        # Behind the last number nothing can be made.
        options = ["ro"] if number in ("9223372036854775807", "1e300") else []
        if options:
            refused = box.sessfs("mount", copy, box.new_folder("mnt"))
            assert refused.returncode and b"check --repair" in refused.stderr, refused.stderr
        mount = box.mount(copy, options=options)
        for top, _, names in os.walk(mount.path):
            assert len(names) < 1000, f"{len(names)} names with the number {number}"
        mount.unmount()


# A full disk


def test_a_full_disk_in_the_middle_of_a_save_keeps_the_previous_state(box):
    need_root()
    folder = box.new_folder("small")
    tool("mount", "-t", "tmpfs", "-o", "size=6m", "tmpfs", folder)
    try:
        mount = box.mount(store=os.path.join(folder, "store.db"))
        os.mkdir(mount.at("s"))
        path = mount.at("s", "k.json")
        write(path, b'{"version": 1}')
        append(mount.at("s", "l.jsonl"), b'{"n": 1}\n')
        same(errno_of(write, path, b'"' + b"x" * (12 << 20) + b'"'), errno.ENOSPC, "a large save")
        same(mount.rows("s", "k"), [b'{"version": 1}'], "the row")
        same(read(path), b'{"version": 1}', "the file")
        error = errno_of(append, mount.at("s", "l.jsonl"), b'"' + b"y" * (12 << 20) + b'"\n')
        same(error, errno.ENOSPC, "a large line")
        same(mount.rows("s", "l"), [b'{"n": 1}'], "the list")
        write(path, b'{"version": 2}')
        same(mount.rows("s", "k"), [b'{"version": 2}'], "the row after room was made")
        mount.stop()
        mount.check()
    finally:
        box.finish()
        tool("umount", folder)


# Other users


def test_an_ordinary_user_mounts_through_fusermount3(box):
    with users(box) as space:
        folder = os.path.join(space.home, "mnt")
        space.as_nobody("mkdir", folder)
        store = os.path.join(space.home, "store.db")
        done = space.as_nobody(box.program, "mount", store, folder)
        same((done.returncode, complaints(done)), (0, b""), "mount")
        try:
            script = 'cd "$1" && mkdir s && echo \'{"a":1}\' >> s/l.jsonl && cat s/l.jsonl && id -u'
            done = space.as_nobody("sh", "-c", script, "sh", folder)
            same(done.stdout, b'{"a":1}\n65534\n', f"as the user ({done.stderr})")
            done = space.as_nobody("stat", "-c", "%u %g", folder + "/s/l.jsonl")
            same(done.stdout, b"65534 65534\n", "owner")
            same(space.as_root("ls", folder).returncode != 0, True, "root is kept out")
        finally:
            done = space.as_nobody(box.program, "umount", folder)
        same((done.returncode, done.stderr), (0, b""), "umount")
        eventually(lambda: not harness.processes_of(box.program, folder), "the daemon ends")
        done = space.as_nobody(box.program, "check", store)
        same(done.returncode, 0, "check")
        same(os.stat(store).st_uid, 65534, "owner of the store")
        same(os.stat(store).st_mode & 0o077 & ~0o044, 0, "nobody else may write the store")


CARELESS = """
import os, signal, sys
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
os.execv(sys.argv[1], sys.argv[1:])
"""


def test_who_does_not_care_how_its_children_end_mounts_and_unmounts(box):
    with users(box) as space:
        folder, store = (os.path.join(space.home, name) for name in ("mnt", "store.db"))
        space.as_nobody("mkdir", folder)
        for arguments in (("mount", store, folder), ("umount", folder)):
            careless = ("/usr/bin/python3", "-c", CARELESS, box.program)
            done = space.as_nobody(*careless, *arguments)
            same((done.returncode, complaints(done)), (0, b""), arguments[0])


def test_a_store_that_the_user_may_not_read_is_refused(box):
    with users(box) as space:
        folder = os.path.join(space.home, "mnt")
        space.as_nobody("mkdir", folder)
        store = os.path.join(space.folder, "secret.db")
        with contextlib.closing(sqlite3.connect(store)) as base:
            base.execute("CREATE TABLE t (a)")
        os.chmod(store, 0o600)
        refused(space.as_nobody(box.program, "mount", "-f", store, folder), "secret.db")
        refused(space.as_nobody(box.program, "check", store), status=2)
        closed = os.path.join(space.folder, "new.db")
        refused(space.as_nobody(box.program, "mount", "-f", closed, folder))
        assert not os.path.exists(closed), "a store was made where the user may not write"


def test_allow_other_is_refused_to_a_user_where_the_system_does_not_allow_it(box):
    with contextlib.suppress(FileNotFoundError):
        with open("/etc/fuse.conf") as configuration:
            if any(line.strip() == "user_allow_other" for line in configuration):
                raise Skip("the system allows it")
    with users(box) as space:
        folder = os.path.join(space.home, "mnt")
        space.as_nobody("mkdir", folder)
        store = os.path.join(space.home, "store.db")
        done = space.as_nobody(box.program, "mount", "-f", "-o", "allow_other", store, folder)
        same(done.returncode, 1, "exit status")
        assert b"allow_other" in done.stderr, done.stderr


def test_modes_are_enforced_for_other_users_when_root_allows_them(box):
    need_root()
    mount = box.mount(options=["allow_other"])
    os.chmod(box.folder, 0o755)
    os.mkdir(mount.at("open"))
    os.chmod(mount.at("open"), 0o777)
    os.mkdir(mount.at("closed"))
    os.chmod(mount.at("closed"), 0o700)
    write(mount.at("open", "mine.json"), b"1")
    write(mount.at("closed", "k.json"), b"1")
    script = """
cd "$1"
echo 2 > open/theirs.json && cat open/mine.json && stat -c %u open/theirs.json
echo 3 > open/mine.json && echo wrong
cat closed/k.json && echo wrong
mkdir new && echo wrong
chmod 777 open/mine.json && echo wrong
rm open/mine.json
"""
    done = tool(*AS_NOBODY, "sh", "-c", script, "sh", mount.path, check=False)
    same(done.stdout, b"165534\n", f"what another user may do ({done.stderr})")
    same(os.listdir(mount.at("open")), ["theirs.json"], "names")


if __name__ == "__main__":
    harness.main(globals())
