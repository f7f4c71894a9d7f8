#!/usr/bin/python3 -B
# SPDX-License-Identifier: MIT
"""A store that is mounted by who wants it alone has one owner: who is refused, who comes next; and
how an owner ends."""

import contextlib
import ctypes
import errno
import os
import random
import signal
import sqlite3
import subprocess
import threading
import time

import harness
from harness import (
    INSERT,
    TABLE,
    Mount,
    Skip,
    alive,
    append,
    errno_of,
    eventually,
    mounts_below,
    need_namespace,
    need_root,
    need_tool,
    processes_of,
    read,
    same,
    tool,
    write,
)

LINE = b'{"n": 1}\n'


def sentence_of(done):
    text = done.stderr.decode("utf-8", "replace").strip()
    same(done.returncode, 1, f"exit status (it says {text!r})")
    same(len(text.splitlines()), 1, f"sentences in {text!r}")
    return text


def says(sentence, *words):
    for word in words:
        assert str(word) in sentence, f"{sentence!r} does not say {word!r}"


def alone(box, store, folder=None):
    """A mount that wants the store for itself."""
    return box.sessfs("mount", "-o", "exclusive", store, folder or box.new_folder("mnt"))


def filled(box, **named):
    """A mount with a document, a list and an ordinary file, and what they hold."""
    mount, session = box.session(**named)
    write(os.path.join(session, "k.json"), b'{"version": 1}')
    append(os.path.join(session, "l.jsonl"), LINE)
    write(os.path.join(session, "note.txt"), b"note")
    return mount, session


def is_filled(session):
    same(read(os.path.join(session, "k.json")), b'{"version": 1}', "the document")
    same(read(os.path.join(session, "l.jsonl")), LINE, "the list")
    same(read(os.path.join(session, "note.txt")), b"note", "the ordinary file")


def is_closed(mount, session="s"):
    """The daemon has ended in order: everything is in the one file of the store.  (Beside it may be
    the room that is kept for a full disk, and the log of a daemon that was killed.)"""
    same(mounts_below(mount.path), [], "mounts")
    name = os.path.basename(mount.store)
    left = sorted(n for n in os.listdir(os.path.dirname(mount.store)) if n.startswith(name))
    left = [n for n in left if n not in (name + "-reserve", name + ".log")]
    same(left, [name], "files of the store")
    same(mount.sql("PRAGMA integrity_check"), [(b"ok",)], "integrity_check")
    mount.check()


# Two at once


def test_who_holds_a_store_is_told_to_the_second_and_the_first_is_not_disturbed(box):
    mount, session = filled(box, background=True)
    other = box.new_folder("mnt")
    sentence = sentence_of(alone(box, mount.store, other))
    says(sentence, mount.store, f"process {mount.pid}", mount.path)
    link = box.new_path("link")
    os.symlink(mount.store, link)
    says(sentence_of(alone(box, link, other)), f"process {mount.pid}", mount.path)
    hard = box.new_path("hard")
    os.link(mount.store, hard)
    # SQLite looks for the WAL beside the other name, so the owner's name may not be there.
    says(sentence_of(box.sessfs("mount", hard, other)), "in use")
    same(mounts_below(other), [], "mounts")
    is_filled(session)
    append(os.path.join(session, "l.jsonl"), LINE)
    same(mount.rows("s", "l"), [LINE.strip()] * 2, "rows")


def test_the_holder_is_the_one_of_now(box):
    mount, _ = filled(box)
    first = mount.pid
    mount.stop()
    mount.path = box.new_path("second")
    mount.start()
    sentence = sentence_of(alone(box, mount.store))
    says(sentence, f"process {mount.pid}", mount.path)
    assert mount.pid == first or str(first) not in sentence, sentence


def test_all_who_share_a_store_are_told_to_who_wants_it_alone(box):
    one, _ = box.session()
    two = box.mount(store=one.store)
    both = [f"process {mount.pid}, mounted on {mount.path}" for mount in (one, two)]
    says(sentence_of(alone(box, one.store)), *both)
    append(two.at("s", "l.jsonl"), LINE)
    two.stop()
    sentence = sentence_of(alone(box, one.store))
    says(sentence, both[0])
    assert both[1] not in sentence, sentence
    two.start()
    one.stop()
    sentence = sentence_of(alone(box, one.store))
    says(sentence, f"process {two.pid}, mounted on {two.path}")
    assert both[0] not in sentence, sentence


RACERS = 6


def race(box, places):
    """Mounts all at once; returns the folders of who has won."""
    racers = [
        subprocess.Popen([box.program, "mount", "-o", "exclusive", *place], stderr=subprocess.PIPE)
        for place in places
    ]
    said = [racer.communicate()[1].decode() for racer in racers]
    for racer, text in zip(racers, said):
        if racer.returncode:
            # Where the winner takes long, SQLite's word comes before.
            words = [line for line in text.splitlines() if "database is locked" not in line]
            same((racer.returncode, len(words)), (1, 1), f"status and lines of {said}")
            says(words[0], "in use")
    return [folder for (_, folder), racer in zip(places, racers) if racer.returncode == 0]


def end_race(box, store, won, held):
    """The one that has won serves, and what was there before is there."""
    same(len(won), 1, "winners")
    same(mounts_below(won[0]), won, "mounts of who has won")
    try:
        if held:
            is_filled(os.path.join(won[0], "s"))
        os.makedirs(os.path.join(won[0], "t"), exist_ok=True)
        write(os.path.join(won[0], "t", "k.json"), b"2")
    finally:
        box.sessfs("umount", won[0], check=True)
    with contextlib.closing(sqlite3.connect(store)) as base:
        query = f"SELECT state_data FROM {harness.TABLE} WHERE session_id = 't'"
        same(base.execute(query).fetchall(), [("2",)], "the row")
    same(box.sessfs("check", store).returncode, 0, "check")
    eventually(lambda: not processes_of(box.program, won[0]), "the daemon ends")


def test_of_mounts_that_race_for_a_new_store_exactly_one_wins(box):
    for _ in range(8):
        store = box.new_path("store") + ".db"
        folders = [box.new_folder("mnt") for _ in range(RACERS)]
        won = race(box, [(store, folder) for folder in folders])
        same([folder for folder in folders if mounts_below(folder)], won, "mounts")
        end_race(box, store, won, False)


def test_of_mounts_that_race_for_the_store_of_a_dead_one_exactly_one_wins(box):
    for _ in range(4):
        mount, _ = filled(box)
        mount.kill9()
        folders = [box.new_folder("mnt") for _ in range(RACERS)]
        won = race(box, [(mount.store, folder) for folder in folders])
        same([folder for folder in folders if mounts_below(folder)], won, "mounts")
        end_race(box, mount.store, won, True)


def test_of_mounts_that_race_for_a_dead_mount_exactly_one_wins(box):
    for _ in range(4):
        mount, _ = filled(box)
        mount.kill_only()
        won = race(box, [(mount.store, mount.path)] * RACERS)
        end_race(box, mount.store, won, True)


# Readers beside a writer


def test_a_mount_for_reading_stands_beside_the_owner_and_follows_him(box):
    mount, session = filled(box)
    reader = box.mount(store=mount.store, options=["ro"])
    is_filled(reader.at("s"))
    append(os.path.join(session, "l.jsonl"), LINE)
    write(os.path.join(session, "k.json"), b'{"version": 2}')
    write(os.path.join(session, "new.json"), b"[]")
    eventually(lambda: read(reader.at("s", "l.jsonl")) == LINE * 2, "the reader sees the line")
    eventually(lambda: read(reader.at("s", "k.json")) == b'{"version": 2}', "and the save")
    eventually(lambda: "new.json" in os.listdir(reader.at("s")), "and the name")
    same(errno_of(append, reader.at("s", "l.jsonl"), LINE), errno.EROFS, "writing")
    same(errno_of(os.mkdir, reader.at("t")), errno.EROFS, "a new session")
    sentence = sentence_of(alone(box, mount.store))
    says(sentence, f"process {mount.pid}")
    reader.stop()
    append(os.path.join(session, "l.jsonl"), LINE)
    same(mount.rows("s", "l"), [LINE.strip()] * 3, "rows")


def test_a_reader_outlives_the_owner_and_does_not_keep_the_next_one_out(box):
    mount, session = filled(box)
    reader = box.mount(store=mount.store, options=["ro"])
    mount.kill_only()
    is_filled(reader.at("s"))
    mount.start()
    append(os.path.join(session, "l.jsonl"), LINE)
    eventually(lambda: read(reader.at("s", "l.jsonl")) == LINE * 2, "the reader sees the line")
    mount.stop()
    same(read(reader.at("s", "l.jsonl")), LINE * 2, "the list")
    reader.stop()
    mount.check()


def test_a_reader_that_was_there_first_does_not_end_the_store_of_others(box):
    mount, _ = filled(box)
    mount.stop()
    reader = box.mount(store=mount.store, options=["ro"])
    says(sentence_of(alone(box, mount.store)), "in use")
    is_filled(reader.at("s"))
    reader.stop()
    is_closed(mount)


def test_a_writer_that_has_ended_is_not_named_for_the_reader_that_is_there(box):
    mount, _ = filled(box, options=["exclusive"])
    writer = "process 1 of nobody"
    for end in (mount.kill_only, mount.stop):
        # SQLite looks for the WAL beside the other name, and finds the name of before.
        hard = box.new_path("hard")
        os.link(mount.store, hard)
        sentence = sentence_of(alone(box, hard))
        says(sentence, "in use")
        assert writer not in sentence, sentence
        os.unlink(hard)
        writer = f"process {mount.pid}"
        says(sentence_of(alone(box, mount.store)), writer, mount.path)
        end()
        reader = box.mount(store=mount.store, options=["ro"])
        for option in ("exclusive", "rw"):
            sentence = sentence_of(
                box.sessfs("mount", "-o", option, mount.store, box.new_folder("mnt"))
            )
            says(sentence, f"{mount.store} is in use")
            assert writer not in sentence and mount.path not in sentence, sentence
        reader.stop()
        mount.start()
    is_filled(mount.at("s"))


def test_check_works_on_a_mounted_store_and_while_it_is_written(box):
    mount, session = filled(box)
    stop = threading.Event()

    def load():
        count = 0
        while not stop.is_set():
            append(os.path.join(session, "l.jsonl"), LINE * 20)
            write(os.path.join(session, "k.json"), b'{"version": %d}' % count)
            write(os.path.join(session, f"new{count % 7}.json"), b"[]")
            with contextlib.suppress(FileNotFoundError):
                os.unlink(os.path.join(session, f"new{(count + 3) % 7}.json"))
            count += 1

    writer = threading.Thread(target=load)
    writer.start()
    try:
        for _ in range(8):
            mount.check()
    finally:
        stop.set()
        writer.join()
    lines = read(os.path.join(session, "l.jsonl")).splitlines()
    same(mount.rows("s", "l"), lines, "rows")


# The next owner


def test_after_kill_9_the_next_owner_may_come_at_once_on_any_folder(box):
    mount, _ = filled(box)
    dead = mount.path
    for path in (box.new_path("other"), dead, dead, box.new_path("third")):
        mount.kill_only()
        same(errno_of(os.listdir, mount.path), errno.ENOTCONN, "the dead mount")
        mount.path = path
        mount.start()
        is_filled(mount.at("s"))
        same(len(mounts_below(path)), 1, "mounts on the folder")
    mount.stop()
    for left in mounts_below(box.folder):
        box.sessfs("umount", left, check=True)
    is_closed(mount)


def test_what_sql_writes_to_an_unlinked_file_after_kill_9_stays(box):
    mount, session = box.session()
    path = os.path.join(session, "l.jsonl")
    write(path, b'{"old": 0}\n')
    os.unlink(path)
    mount.kill9()
    # Within 300 ms the rows are there still, for a save that may follow.
    mount.sql(f"DELETE FROM {TABLE} WHERE session_id = 's' AND state_key = 'l'")
    mount.sql(INSERT, ("s", "l", 0, '{"new": 0}'))
    mount.sql(INSERT, ("s", "l", 1, '{"new": 1}'))
    again = box.mount(mount.store)
    same(read(again.at("s", "l.jsonl")), b'{"new": 0}\n{"new": 1}\n', "the list")
    same(again.rows("s", "l"), [b'{"new": 0}', b'{"new": 1}'], "its rows")


def test_a_dead_mount_with_open_files_and_somebody_in_it_is_taken_away(box):
    mount, session = filled(box)
    inside = subprocess.Popen(["sleep", "600"], cwd=session)
    held = os.open(os.path.join(session, "l.jsonl"), os.O_WRONLY | os.O_APPEND)
    try:
        mount.kill_only()
        mount.start()
        is_filled(mount.at("s"))
        same(errno_of(os.write, held, LINE), errno.ENOTCONN, "writing to the dead mount")
        same(read(mount.at("s", "l.jsonl")), LINE, "the list")
    finally:
        inside.kill()
        inside.wait()
        with contextlib.suppress(OSError):
            os.close(held)


def test_a_dead_mount_is_taken_away_by_umount(box):
    mount, _ = filled(box)
    mount.kill_only()
    box.sessfs("umount", mount.path, check=True)
    same(mounts_below(mount.path), [], "mounts")
    same(os.listdir(mount.path), [], "the folder")


def test_several_dead_mounts_on_each_other_are_taken_away(box):
    mount, _ = filled(box)
    other = box.mount(options=["nonempty"])
    other.kill_only()
    mount.kill_only()
    tool("mount", "--bind", other.path, mount.path, check=False)
    mount.start()
    is_filled(mount.at("s"))
    same(len(mounts_below(mount.path)), 1, "mounts on the folder")
    harness.detach(other.path)


def test_a_daemon_that_dies_while_it_opens_leaves_nothing_that_needs_a_hand(box):
    seed = int(os.environ.get("SESSFS_SEED", "1"))
    box.note(f"seed {seed}")
    rng = random.Random(seed)
    mount, session = filled(box)
    once = time.monotonic()
    mount.remount()
    once = time.monotonic() - once
    mount.kill_only()
    ends = {"mounted": 0, "not mounted": 0}
    for _ in range(25):
        process = subprocess.Popen(
            mount.command(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        time.sleep(rng.uniform(0, 1.2 * once))
        process.kill()
        process.wait()
        ends["mounted" if mounts_below(mount.path) else "not mounted"] += 1
    box.note(f"died {ends}")
    mount.start()
    is_filled(session)
    same(len(mounts_below(mount.path)), 1, "mounts on the folder")
    mount.stop()
    is_closed(mount)


def test_a_daemon_that_dies_while_it_makes_a_store_leaves_one_that_can_be_used(box):
    seed = int(os.environ.get("SESSFS_SEED", "1"))
    box.note(f"seed {seed}")
    rng = random.Random(seed)
    found = {}
    for _ in range(12):
        mount = Mount(box, box.new_path("store") + ".db", box.new_folder("mnt"))
        process = subprocess.Popen(
            mount.command(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        time.sleep(rng.uniform(0, 0.25))
        process.kill()
        process.wait()
        size = os.path.getsize(mount.store) if os.path.exists(mount.store) else "none"
        found[size] = found.get(size, 0) + 1
        box.mounts.append(mount)
        mount.start()
        os.mkdir(mount.at("s"))
        append(mount.at("s", "l.jsonl"), LINE)
        mount.stop()
        is_closed(mount)
    box.note(f"sizes of what was left: {found}")


def test_a_store_in_a_directory_that_was_renamed_is_mounted_again(box):
    folder = box.new_folder("old")
    mount, _ = filled(box, store=os.path.join(folder, "store.db"))
    mount.stop()
    for end in (mount.stop, mount.kill_only):
        moved = box.new_path("moved")
        os.rename(os.path.dirname(mount.store), moved)
        mount.store = os.path.join(moved, "store.db")
        mount.start()
        is_filled(mount.at("s"))
        end()
    mount.start()
    is_filled(mount.at("s"))
    sentence = sentence_of(alone(box, mount.store))
    says(sentence, mount.pid, mount.path)
    mount.stop()
    is_closed(mount)


def test_a_directory_may_be_renamed_while_its_store_is_mounted(box):
    folder = box.new_folder("old")
    mount, session = filled(box, store=os.path.join(folder, "store.db"))
    moved = box.new_path("moved")
    os.rename(folder, moved)
    mount.store = os.path.join(moved, "store.db")
    is_filled(session)
    append(os.path.join(session, "l.jsonl"), LINE)
    write(os.path.join(session, "k.json"), b'{"version": 2}')
    sentence = sentence_of(alone(box, mount.store))
    says(sentence, mount.pid, mount.path)
    mount.kill_only()
    mount.start()
    same(read(os.path.join(session, "l.jsonl")), LINE * 2, "the list")
    same(read(os.path.join(session, "k.json")), b'{"version": 2}', "the document")
    mount.stop()
    is_closed(mount)


# How an owner ends


def by_signal(number):
    def end(mount):
        os.kill(mount.pid, number)

    return end


def by_fusermount(mount):
    tool("fusermount3", "-u", mount.path)


def by_umount(mount):
    mount.box.sessfs("umount", mount.path, check=True)


ENDS = {
    "SIGTERM": by_signal(signal.SIGTERM),
    "SIGINT": by_signal(signal.SIGINT),
    "fusermount3 -u": by_fusermount,
    "sessfs umount": by_umount,
}


def test_an_owner_that_ends_in_order_leaves_one_clean_file(box):
    for name, end in ENDS.items():
        for background in (False, True):
            mount, session = filled(box, background=background)
            for number in range(50):
                append(os.path.join(session, "l2.jsonl"), LINE)
                write(os.path.join(session, f"{number}.json"), b"1")
            os.unlink(os.path.join(session, "1.json"))
            end(mount)
            same(mount.wait_for_end() or 0, 0, f"status after {name}")
            is_closed(mount)
            same(mount.rows("s", "l2"), [LINE.strip()] * 50, "rows")
            same(mount.rows("s", "1"), [], "rows of a file that was unlinked")
            mount.forget()


def test_sigterm_keeps_unfinished_lines_and_drops_unfinished_saves(box):
    for background in (False, True):
        mount, session = filled(box, background=background)
        appended = os.open(os.path.join(session, "l.jsonl"), os.O_WRONLY | os.O_APPEND)
        os.write(appended, LINE + b'{"n": ')
        saved = os.open(os.path.join(session, "k.json"), os.O_WRONLY | os.O_TRUNC)
        os.write(saved, b'{"version": 2')
        lists = os.path.join(session, "l2.jsonl")
        write(lists, LINE * 3)
        truncated = os.open(lists, os.O_WRONLY | os.O_TRUNC)
        os.write(truncated, LINE + b'{"n": ')
        plain = os.open(os.path.join(session, "note.txt"), os.O_WRONLY)
        os.write(plain, b"NO")
        os.kill(mount.pid, signal.SIGTERM)
        same(mount.wait_for_end() or 0, 0, "status")
        for fd in (appended, saved, truncated, plain):
            with contextlib.suppress(OSError):
                os.close(fd)
        is_closed(mount)
        same(mount.rows("s", "k"), [b'{"version": 1}'], "the row of the document")
        mount.forget()
        mount.start()
        same(read(os.path.join(session, "l.jsonl")), LINE * 2 + b'{"n": ', "the list")
        same(read(os.path.join(session, "k.json")), b'{"version": 1}', "the document")
        same(read(lists), LINE * 3, "the list that was saved")
        same(read(os.path.join(session, "note.txt")), b"NOte", "the ordinary file")
        mount.stop()


def busy(mount, session, count):
    """Starts writers that end when the daemon does; each tells what was acknowledged."""
    reading, writing = os.pipe()
    children = []
    for writer in range(count):
        child = os.fork()
        if child:
            children.append(child)
            continue
        path, done = os.path.join(session, f"busy{writer}.jsonl"), 0
        with contextlib.suppress(OSError):
            fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
            while True:
                os.write(fd, b'{"n": %d}\n' % done)
                done += 1
                if done == 20:
                    os.write(writing, b".")
        os.write(writing, b"%d %d\n" % (writer, done))
        os._exit(0)
    for _ in range(count):
        os.read(reading, 1)
    return children, reading, writing


def test_sigterm_while_writers_are_busy_loses_nothing_that_was_acknowledged(box):
    for background in (False, True):
        mount, session = filled(box, background=background)
        children, reading, writing = busy(mount, session, 4)
        time.sleep(0.1)
        os.kill(mount.pid, signal.SIGTERM)
        same(mount.wait_for_end() or 0, 0, "status")
        for child in children:
            os.waitpid(child, 0)
        os.close(writing)
        with os.fdopen(reading) as said:
            done = dict(map(int, line.split()) for line in said.read().strip(".").splitlines())
        is_closed(mount)
        for writer, count in done.items():
            rows = mount.rows("s", f"busy{writer}")
            same(rows[:count], [b'{"n": %d}' % n for n in range(count)], "acknowledged lines")
            assert len(rows) <= count + 1, f"{len(rows)} rows of {count} lines"
        same(len(done), 4, "writers")
        mount.forget()


def test_unmounting_a_busy_mount_says_so_and_changes_nothing(box):
    mount, session = filled(box, background=True)
    held = os.open(os.path.join(session, "l.jsonl"), os.O_WRONLY | os.O_APPEND)
    os.write(held, b'{"n": ')
    sentence = sentence_of(box.sessfs("umount", mount.path))
    says(sentence, mount.path, "busy")
    same(mounts_below(mount.path), [mount.path], "mounts")
    assert alive(mount.pid), "the daemon has ended"
    os.write(held, b"1}\n")
    os.close(held)
    same(read(os.path.join(session, "l.jsonl")), LINE * 2, "the list")
    inside = subprocess.Popen(["sleep", "600"], cwd=session)
    try:
        says(sentence_of(box.sessfs("umount", mount.path)), "busy")
    finally:
        inside.kill()
        inside.wait()
    box.sessfs("umount", mount.path, check=True)
    eventually(lambda: not alive(mount.pid), "the daemon ends")
    mount.forget()
    is_closed(mount)


def test_unmounting_a_bind_mount_of_a_mount_waits_for_nobody(box):
    private_mounts()
    mount, session = filled(box, background=True)
    folder, whole = box.new_folder("folder"), box.new_folder("whole")

    def bind():
        tool("mount", "--bind", session, folder)
        tool("mount", "--bind", mount.path, whole)

    bind()
    box.sessfs("umount", folder, check=True)
    same(mounts_below(folder), [], "the folder")
    says(sentence_of(box.sessfs("umount", whole)), "also mounted on", mount.path)
    same(read(os.path.join(session, "l.jsonl")), LINE, "the list")
    assert alive(mount.pid), "the daemon has ended"
    bind()
    box.sessfs("umount", mount.store, check=True)
    same(mounts_below(box.folder), [], "all mounts of the store")
    eventually(lambda: not alive(mount.pid), "the daemon ends")
    mount.forget()


# mount(8)


def private_mounts():
    """From here on, what this process mounts is seen by it and its children only."""
    need_root()
    need_namespace()
    library = ctypes.CDLL(None, use_errno=True)
    if library.unshare(0x20000) != 0:  # CLONE_NEWNS
        raise Skip("no namespace of mounts can be made")
    tool("mount", "--make-rprivate", "/")


def test_mount_8_finds_the_program_and_umount_8_ends_it(box):
    need_tool("mount.fuse3")
    private_mounts()
    # mount(8) hands no $PATH on, and then the shell looks into the usual folders.
    tool("mount", "-t", "tmpfs", "tmpfs", "/usr/local/sbin")
    os.symlink(box.program, "/usr/local/sbin/sessfs")
    mount = Mount(box, box.new_path("store") + ".db", box.new_folder("mnt"))

    def start(options, folder=mount.path, **named):
        done = tool("mount", "-t", "fuse.sessfs", mount.store, folder, "-o", options, **named)
        if done.returncode == 0:
            found = processes_of(box.program, mount.path)
            same(len(found), 1, "daemons")
            mount.pid = found[0]
        return done

    def end():
        tool("umount", mount.path)
        mount.wait_for_end()
        mount.pid = None
        is_closed(mount)

    start("allow_other,noatime,nofail,x-systemd.automount")
    os.mkdir(mount.at("s"))
    write(mount.at("s", "k.json"), b'{"version": 1}')
    append(mount.at("s", "l.jsonl"), LINE)
    write(mount.at("s", "note.txt"), b"note")
    end()
    start("rw,user")
    is_filled(mount.at("s"))
    mount.kill_only()
    start("noexec")
    is_filled(mount.at("s"))
    done = start("rw,exclusive", box.new_folder("mnt"), check=False)
    assert done.returncode, "two owners"
    says(done.stderr.decode(), "in use", mount.pid)
    end()
    assert start("nonsense", check=False).returncode, "an unknown option was taken"
    start("ro")
    is_filled(mount.at("s"))
    same(errno_of(os.mkdir, mount.at("t")), errno.EROFS, "writing")
    end()
    # A comma in a value has a backslash before it, which mount(8) hands on, as it does from fstab.
    start(r"noatime,view=last=1\,.a=1,nofail")
    same(read(mount.at("s", "l.jsonl")), b"", "a view")
    append(mount.at("s", "l.jsonl"), b'{"a": 1}\n' * 2)
    same(read(mount.at("s", "l.jsonl")), b'{"a": 1}\n', "by both clauses")
    end()


def test_mount_fuse3_finds_the_program_by_path(box):
    need_tool("mount.fuse3")
    folder = box.new_folder("bin")
    os.symlink(box.program, os.path.join(folder, "sessfs"))
    mount = Mount(box, box.new_path("store") + ".db", box.new_folder("mnt"))
    path = {"PATH": f"{folder}:{os.environ['PATH']}"}
    for source in (mount.store, f"sessfs#{mount.store}"):
        words = ["-t", "fuse.sessfs"] if source == mount.store else []
        tool("mount.fuse3", source, mount.path, *words, "-o", "rw,noatime", env=path)
        os.makedirs(mount.at("s"), exist_ok=True)
        append(mount.at("s", "l.jsonl"), LINE)
        box.sessfs("umount", mount.path, check=True)
    same(mount.rows("s", "l"), [LINE.strip()] * 2, "rows")
    is_closed(mount)


if __name__ == "__main__":
    harness.main(globals())
