#!/usr/bin/python3 -B
# SPDX-License-Identifier: MIT
"""What was removed through a mount, and comes back."""

import contextlib
import errno
import json
import os
import shutil
import stat
import time

import harness
from harness import (
    TABLE,
    append,
    errno_of,
    eventually,
    main,
    read,
    same,
    same_trees,
    tree,
    write,
)

NOBODY_SEES = 0.4  # seconds in which a file that is made again is the same one
LINE = b'{"role": "user", "content": "hello"}\n'


def do(box, *arguments, status=0):
    done = box.sessfs(*arguments)
    same(done.returncode, status, f"{arguments} (it says {done.stderr!r})")
    return done


def gc(box, store, *arguments, **named):
    """What it says of each path."""
    done = do(box, "gc", "--json", *arguments[:1], store, *arguments[1:], **named)
    return sorted((item["name"], item["action"]) for item in json.loads(done.stdout))


def paths(box, store):
    return [name for name, action in gc(box, store, "--list") if action == "trash"]


def times_of_rows(mount, session):
    query = "SELECT state_key, item_index, CAST(created_at AS TEXT), CAST(updated_at AS TEXT)"
    return mount.sql(f"{query} FROM {TABLE} WHERE session_id = ? ORDER BY 1, 2", (session,))


def fill(folder):
    """One of each kind, in a session."""
    os.makedirs(os.path.join(folder, "deep/er"))
    write(os.path.join(folder, "messages.jsonl"), LINE * 3 + b"no json\n" + LINE)
    write(os.path.join(folder, "state.json"), b'{"a": 1}')
    write(os.path.join(folder, "draft.json"), b'{"a": 1}')
    write(os.path.join(folder, "draft.json"), b'{"a": ')
    write(os.path.join(folder, "messages.hash"), b"0123abc")
    write(os.path.join(folder, "empty.jsonl"), b"")
    write(os.path.join(folder, "note.txt"), b"text\n" * 20000)
    write(os.path.join(folder, "deep/er/k.json"), b"[]")
    os.symlink("note.txt", os.path.join(folder, "link"))
    for name in ("messages.jsonl", "state.json", "note.txt", "deep"):
        os.setxattr(os.path.join(folder, name), "user.what", name.encode())
        os.chmod(os.path.join(folder, name), 0o750)
    for name in ("messages.jsonl", "state.json", "note.txt", "deep/er/k.json"):
        os.utime(os.path.join(folder, name), ns=(10**18, 10**18 + 7))


def rows_beside(mount):
    return [mount.sql(f"SELECT count(*) FROM sessfs_{name}")[0][0]
            for name in ("trash", "chunk", "xattr", "mark", "piece")]


def has_gone(mount):
    same(rows_beside(mount), [0] * 5, "what is left")
    same(mount.sql("SELECT ino FROM sessfs_node ORDER BY 1"), [(0,), (1,)], "nodes")
    mount.check()


def times_of_files(folder):
    result = {}
    for at, _, names in os.walk(folder):
        for name in names:
            st = os.lstat(os.path.join(at, name))
            result[name] = (st.st_mtime_ns, st.st_atime_ns, st.st_ino, st.st_nlink)
    return result


def test_a_session_that_was_removed_comes_back_as_it_was(box):
    mount, path = box.session("demo")
    fill(path)
    os.setxattr(path, "user.sessfs.ttl", b"90d")
    os.chmod(path, 0o700)
    before, rows, times = tree(mount.path), times_of_rows(mount, b"demo"), times_of_files(path)
    time.sleep(1.1)  # what is made anew would be of another second
    shutil.rmtree(path)
    same(os.listdir(mount.path), [], "what is left")
    eventually(lambda: times_of_rows(mount, b"demo") == [], "SQL sees no row")
    same(len(paths(box, mount.store)), 11, "paths in the trash")
    mount.check()
    done = gc(box, mount.store, "--undo", "demo")
    same({action for _, action in done}, {"undo"}, "what was done")
    same_trees(before, tree(mount.path))
    same(times_of_rows(mount, b"demo"), rows, "times of rows")
    same(times_of_files(path), times, "times and numbers of files")
    same(os.getxattr(path, "user.sessfs.ttl"), b"90d", "ttl")
    same(paths(box, mount.store), [], "the trash")
    mount.check()
    append(mount.at("demo/messages.jsonl"), LINE)
    mount.remount()
    same(read(mount.at("demo/messages.jsonl")), LINE * 3 + b"no json\n" + LINE * 2, "lines")


def test_files_come_back_one_by_one_and_make_their_directories(box):
    mount, path = box.session("demo")
    fill(path)
    rows = times_of_rows(mount, b"demo")
    shutil.rmtree(path)
    for name in ("messages.jsonl", "deep/er/k.json", "note.txt", "link", "state.json"):
        same(gc(box, mount.store, "--undo", "demo/" + name), [("demo/" + name, "undo")], name)
    same(read(mount.at("demo/deep/er/k.json")), b"[]", "the one below directories")
    kept = [row for row in rows if row[0] in (b"messages", b"deep/er/k", b"state")]
    same(times_of_rows(mount, b"demo"), kept, "rows")
    same(os.getxattr(mount.at("demo/state.json"), "user.what"), b"state.json", "an attribute")
    rest = ["demo/draft.json", "demo/empty.jsonl", "demo/messages.hash"]
    same(gc(box, mount.store, "--undo", "./demo//"), [(name, "undo") for name in rest], "the rest")
    same(sorted(os.listdir(path)), ["deep", "draft.json", "empty.jsonl", "link", "messages.hash",
                                    "messages.jsonl", "note.txt", "state.json"], "all of it")
    same(paths(box, mount.store), ["demo", "demo/deep", "demo/deep/er"], "there is one again")
    mount.check()


def test_a_session_comes_back_by_its_id(box):
    mount = box.mount()
    mount.insert("x/y", "k", 0, "1")
    eventually(lambda: os.path.exists(mount.at("x%2Fy/k.json")), "it is seen")
    shutil.rmtree(mount.at("x%2Fy"))
    wanted = [("x%2Fy", "undo"), ("x%2Fy/k.json", "undo")]
    same(gc(box, mount.store, "--undo", "x/y"), wanted, "what was removed file by file")
    same(read(mount.at("x%2Fy/k.json")), b"1", "content")
    do(box, "gc", "--name=x*", "--older-than=0s", mount.store)
    same(gc(box, mount.store, "--undo", "x/y"), wanted[:1], "what gc has removed")
    same(read(mount.at("x%2Fy/k.json")), b"1", "content")
    os.unlink(mount.at("x%2Fy/k.json"))
    same(gc(box, mount.store, "--undo", "x/y"), wanted[1:], "of one that is there")
    do(box, "gc", "--undo", mount.store, "x/z", status=1)
    mount.check()


def test_a_session_whose_id_reads_like_a_question_comes_back(box):
    mount = box.mount()
    mount.insert("@last=5", "k", 0, "1")
    eventually(lambda: os.path.exists(mount.at("@last=5/k.json")), "it is seen")
    shutil.rmtree(mount.at("@last=5"))
    wanted = [("@last=5/k.json", "undo")]
    same(gc(box, mount.store, "--undo", "@last=5/k.json"), wanted, "what is done")
    same(mount.rows("@last=5", "k"), [b"1"], "rows")
    same(read(mount.at("@last=5/k.json")), b"1", "content")


def test_names_of_our_own_are_not_kept(box):
    mount, path = box.session("demo")
    for name in ("demo/.sessfs-put-1-0", ".sessfs-keep-1", "demo/.sessfs"):
        write(mount.at(name), b"1")
        os.unlink(mount.at(name))
    same(paths(box, mount.store), ["demo/.sessfs"], "the trash")


def test_of_one_path_the_last_comes_back(box):
    mount, path = box.session("demo")
    for number in (b"1", b"2"):
        for name in ("k.json", "k.txt"):
            write(mount.at("demo", name), number)
            os.unlink(mount.at("demo", name))
        same(paths(box, mount.store), sorted(["demo/k.json", "demo/k.txt"] * int(number)), "trash")
        time.sleep(NOBODY_SEES)
    gc(box, mount.store, "--undo")
    same((read(mount.at("demo/k.json")), read(mount.at("demo/k.txt"))), (b"2", b"2"), "content")
    mount.check()


def test_a_directory_has_what_was_removed_from_it_since_it_was_made(box):
    mount, path = box.session("demo")
    write(mount.at("demo/first.json"), b"1")
    shutil.rmtree(path)
    time.sleep(NOBODY_SEES)
    os.mkdir(path)
    write(mount.at("demo/second.json"), b"2")
    shutil.rmtree(path)
    same(gc(box, mount.store, "--undo", "demo"),
         [("demo", "undo"), ("demo/second.json", "undo")], "undo")
    same(os.listdir(path), ["second.json"], "names")
    same(paths(box, mount.store), ["demo", "demo/first.json"], "the trash")


def ways_to_save(path, name):
    """Ends with the content 4."""
    at = os.path.join(path, name)
    write(at, b"1\n")
    os.unlink(at)
    write(at, b"2\n")
    write(at + ".tmp", b"3\n")
    os.rename(at + ".tmp", at)
    write(at + ".tmp", b"4\n")
    os.unlink(at)
    os.rename(at + ".tmp", at)


def test_a_save_leaves_nothing(box):
    mount, path = box.session("demo")
    for name in ("k.json", "l.jsonl", "l.hash", "plain", "plain.txt"):
        ways_to_save(path, name)
        same(read(os.path.join(path, name)), b"4\n", name)
    time.sleep(NOBODY_SEES)
    same(paths(box, mount.store), [], "the trash")
    eventually(lambda: mount.sql("SELECT count(*) FROM sessfs_node WHERE nlink = 0 OR "
                                 "parent = 0 AND ino > 1") == [(0,)], "no node is left")
    mount.check()


def test_a_save_while_the_old_file_is_open_leaves_nothing(box):
    mount, path = box.session("demo")
    for name in ("k.json", "plain"):
        at = os.path.join(path, name)
        write(at, b"1\n")
        with open(at, "rb") as file:
            os.unlink(at)
            write(at, b"2\n")
            same(file.read(), b"1\n", name)
    time.sleep(NOBODY_SEES)
    eventually(lambda: mount.sql("SELECT count(*) FROM sessfs_node WHERE nlink = 0") == [(0,)],
               "no orphan is left")
    same(paths(box, mount.store), [], "the trash")


def test_another_file_under_the_same_key_leaves_the_removed_one(box):
    mount, path = box.session("demo")
    write(mount.at("demo/k.json"), b"1")
    os.unlink(mount.at("demo/k.json"))
    write(mount.at("demo/k.jsonl"), b"2\n")
    same(paths(box, mount.store), ["demo/k.json"], "the trash")
    gc(box, mount.store, "--undo", "demo/k.json")
    same((read(mount.at("demo/k.json")), read(mount.at("demo/k.jsonl"))), (b"1", b"2\n"), "both")
    same(mount.rows("demo", "k.json"), [b"1"], "it has a key of its own")
    mount.check()


def test_what_sql_does_to_the_key_of_a_removed_file_counts(box):
    """Before the file has gone into the trash, and behind that."""
    mount, path = box.session("demo")
    name = os.path.join(path, "list.jsonl")
    insert = f"INSERT INTO {TABLE} (session_id, state_key, item_index, state_data) VALUES "
    write(name, LINE)
    os.unlink(name)
    mount.sql(insert + "('demo', 'list', 1, '2')")
    eventually(lambda: os.path.exists(name) and read(name) == LINE + b"2\n", "the rows stay")
    same(paths(box, mount.store), [], "what is in the trash")
    os.unlink(name)
    eventually(lambda: paths(box, mount.store) == ["demo/list.jsonl"], "it is in the trash")
    mount.sql(insert + "('demo', 'list', 0, '3')")
    single = os.path.join(path, "list.json")
    eventually(lambda: os.path.exists(single), "SQL has made another file of the key")
    do(box, "gc", "--undo", mount.store, "demo/list.jsonl")
    same(read(name), LINE + b"2\n", "the file that came back")
    same(read(single), b"3", "that of SQL")
    mount.check()


def test_without_trash_nothing_is_kept(box):
    mount, path = box.session("demo", options=["history=0"])
    fill(path)
    shutil.rmtree(path)
    same(paths(box, mount.store), [], "the trash")
    same(mount.sql("SELECT count(*) FROM sessfs_node"), [(1,)], "nodes")
    do(box, "config", mount.store, "history=")
    mount.remount([])
    do(box, "config", mount.store, "history=0")
    os.mkdir(path)
    eventually(lambda: "history=0" in mount.log(), "it is taken in")
    write(mount.at("demo/k.json"), b"1")
    os.unlink(mount.at("demo/k.json"))
    same(paths(box, mount.store), [], "with the setting")


def test_it_goes_when_its_time_is_over(box):
    mount, path = box.session("demo", options=["history=4s"])
    fill(path)
    write(os.path.join(path, "long.jsonl"), LINE * 5000)
    shutil.rmtree(path)
    assert "demo/note.txt" in paths(box, mount.store), "it is there first"
    same(0 in rows_beside(mount), False, "all of it")
    eventually(lambda: paths(box, mount.store) == [], "it goes")
    has_gone(mount)


def test_many_that_are_over_go_together(box):
    mount, path = box.session("demo", options=["history=4s"])
    for i in range(640):
        write(os.path.join(path, f"{i}.txt"), b"text")
    write(os.path.join(path, "state.json"), b"1")
    shutil.rmtree(path)
    same(len(paths(box, mount.store)) > 600, True, "they are there first")
    eventually(lambda: paths(box, mount.store) == [], "they go")
    has_gone(mount)


def test_what_gc_has_removed_goes_whole(box):
    mount, path = box.session("demo")
    fill(path)
    write(os.path.join(path, "long.jsonl"), LINE * 5000)
    time.sleep(1.1)
    do(box, "gc", "--older-than=1s", mount.store)
    same(0 in rows_beside(mount), False, "it is there first")
    do(box, "gc", "--undo", mount.store)
    do(box, "gc", "--older-than=0s", "--grace=0", mount.store)
    has_gone(mount)


def test_what_is_open_is_read_on_and_comes_back_when_it_is_closed(box):
    mount, path = box.session("demo")
    for name in ("l.jsonl", "plain"):
        with open(mount.at("demo", name), "w+b", buffering=0) as file:
            file.write(b"1\n")
            os.unlink(mount.at("demo", name))
            time.sleep(NOBODY_SEES)
            file.seek(0)
            same(file.read(), b"1\n", name)
            gc(box, mount.store, "--undo", "demo/" + name, status=1)
    eventually(lambda: paths(box, mount.store) == ["demo/l.jsonl", "demo/plain"], "the trash")
    gc(box, mount.store, "--undo")
    same((read(mount.at("demo/l.jsonl")), read(mount.at("demo/plain"))), (b"1\n", b"1\n"), "both")
    mount.check()


def test_what_never_had_a_name_and_what_has_another_is_not_kept(box):
    mount, path = box.session("demo")
    with contextlib.suppress(OSError):
        os.close(os.open(path, os.O_TMPFILE | os.O_RDWR))
    write(mount.at("demo/a"), b"1")
    os.link(mount.at("demo/a"), mount.at("demo/b"))
    os.mkfifo(mount.at("demo/fifo"))
    os.unlink(mount.at("demo/a"))
    os.unlink(mount.at("demo/fifo"))
    time.sleep(NOBODY_SEES)
    same(paths(box, mount.store), [], "the trash")
    os.unlink(mount.at("demo/b"))
    same(paths(box, mount.store), ["demo/b"], "with its last name")
    mount.check()


def test_nothing_is_lost_or_doubled_when_the_daemon_is_killed(box):
    """Right after the removal, and when the rows have been put apart."""
    for wait in (0, NOBODY_SEES):
        mount, path = box.session("demo")
        fill(path)
        before, rows = tree(mount.path), times_of_rows(mount, b"demo")
        with open(mount.at("demo/note.txt"), "rb"):
            for name in ("messages.jsonl", "state.json", "draft.json", "note.txt", "link"):
                os.unlink(mount.at("demo", name))
            time.sleep(wait)
            mount.kill_only()
        harness.detach(mount.path)
        mount.check()
        mount.start()
        mount.check()
        same(len(gc(box, mount.store, "--undo")), 5, "undone")
        same_trees(before, tree(mount.path))
        same(times_of_rows(mount, b"demo"), rows, "rows")
        mount.check()
        mount.stop()


def test_a_file_that_is_there_already_goes_there_once(box):
    """As when a mount that was gone for a while writes what it knew of the file."""
    mount, path = box.session("demo")
    for name, data in (("list.jsonl", LINE * 3), ("note.txt", b"text")):
        write(os.path.join(path, name), data)
        os.unlink(os.path.join(path, name))
    eventually(lambda: len(paths(box, mount.store)) == 2, "both are in the trash")
    mount.stop()
    mount.sql("UPDATE sessfs_node SET nlink = 0, entry = entry + 1000, kind = "
              "CASE WHEN state_key IS NULL THEN kind ELSE 3 END, target = (SELECT substr(name, "
              "instr(name, x'2f') + 1) FROM sessfs_entry e WHERE e.ino = sessfs_node.ino) "
              "WHERE parent = 0 AND ino > 1")
    mount.start()
    same(paths(box, mount.store), ["demo/list.jsonl", "demo/note.txt"], "what is in the trash")
    same("cannot be deleted" in mount.log(), False, "the log")
    do(box, "gc", "--undo", mount.store)
    same(read(os.path.join(path, "list.jsonl")), LINE * 3, "a list")
    same(read(os.path.join(path, "note.txt")), b"text", "an ordinary file")
    mount.check()


def test_of_two_mounts_each_brings_back_what_the_other_has_removed(box):
    first, path = box.session("demo")
    second = box.mount(store=first.store)
    fill(path)
    before, rows = tree(first.path), times_of_rows(first, b"demo")
    for _ in range(2):
        eventually(lambda: tree(second.path) == before, "the other sees it")
        shutil.rmtree(second.at("demo"))
        eventually(lambda: os.listdir(first.path) == [], "it is gone")
        eventually(lambda: len(paths(box, first.store)) == 11, "all of it is in the trash")
        gc(box, first.store, "--undo", "demo")
        same_trees(before, tree(first.path))
        eventually(lambda: tree(second.path) == before, "the other sees it")
        same(times_of_rows(first, b"demo"), rows, "rows")
        first, second = second, first
    first.check()
    with open(second.at("demo/note.txt"), "rb") as file:
        os.unlink(first.at("demo/note.txt"))
        eventually(lambda: not os.path.exists(second.at("demo/note.txt")), "it is gone")
        gc(box, first.store, "--undo", "demo/note.txt", status=1)
        same(len(file.read()), 100000, "what the other has open")
    eventually(lambda: paths(box, first.store) == ["demo/note.txt"], "it comes to be there")
    gc(box, first.store, "--undo", "demo/note.txt")
    eventually(lambda: tree(second.path) == before, "the other sees it")
    first.check()


def test_a_full_store_has_the_room_of_what_was_removed(box):
    mount, path = box.session("demo", options=["max_size=4M"])
    part = os.urandom(1 << 20)
    names = []
    for number in range(12):
        name = "plain%d" % number
        write(mount.at("demo", name), part)
        os.unlink(mount.at("demo", name))
        names.append("demo/" + name)
        eventually(lambda: names[-1] in paths(box, mount.store), "it comes to be there")
    left = paths(box, mount.store)
    assert 1 <= len(left) <= 3, left
    same(left, sorted(names[-len(left):]), "the last ones")
    gc(box, mount.store, "--undo", names[-1])
    same(read(mount.at(names[-1])) == part, True, "what comes back")
    text = b'"%s"' % (b"x" * (1 << 20))
    for number in range(8):
        write(mount.at("demo", "state%d.json" % number), text)
        os.unlink(mount.at("demo", "state%d.json" % number))
        time.sleep(NOBODY_SEES)
    mount.check()
    same(read(mount.at(names[-1])) == part, True, "what is no longer in the trash")


def test_a_session_that_goes_has_the_room_of_what_was_removed_before(box):
    mount, path = box.session("old", options=["max_size=6M"])
    append(os.path.join(path, "l.jsonl"), b'"%s"\n' % (b"x" * 1000) * 1500)
    for number in range(12):
        write(mount.at("plain%d" % number), os.urandom(1 << 20))
        os.unlink(mount.at("plain%d" % number))
    assert len(paths(box, mount.store)) > 1
    do(box, "gc", "--older-than=0s", mount.store)
    same(os.listdir(mount.path), [], "what is left")
    same("old" in paths(box, mount.store), True, "it can come back")
    mount.check()


def test_a_session_goes_from_a_full_store_if_it_is_not_kept(box):
    mount, path = box.session("old", options=["max_size=12M"])
    part = b'"%s"\n' % (b"x" * 1000) * 200
    for _ in range(25):
        append(os.path.join(path, "l.jsonl"), part)
    os.mkdir(mount.at("new"))
    while not errno_of(append, mount.at("new/l.jsonl"), part):
        pass
    done = do(box, "gc", "--older-than=0s", "--name=old", mount.store, status=1)
    same(b"no space left to keep it; --grace=0 removes" in done.stderr, True, done.stderr)
    do(box, "gc", "--older-than=0s", "--name=old", "--grace=0", mount.store)
    same(os.listdir(mount.path), ["new"], "what is left")
    same(gc(box, mount.store, "--list"), [], "the trash")
    append(mount.at("new/l.jsonl"), part * 10)
    mount.check()


def test_a_session_whose_time_is_over_leaves_a_full_store(box):
    mount, path = box.session("old", options=["max_size=12M"])
    part = b'"%s"\n' % (b"x" * 1000) * 200
    while not errno_of(append, os.path.join(path, "l.jsonl"), part):
        pass
    os.setxattr(path, "user.sessfs.ttl", b"1s")
    eventually(lambda: not os.path.exists(path), "it goes")
    eventually(lambda: "there was no room to keep it" in mount.log(), "the mount says it")
    eventually(lambda: gc(box, mount.store, "--list") == [], "its rows go, too")
    os.mkdir(mount.at("new"))
    append(mount.at("new/l.jsonl"), part * 10)
    mount.check()


def test_rm_without_a_mount_leaves_it_as_well(box):
    mount, path = box.session("demo")
    fill(path)
    before = tree(mount.path)
    mount.stop()
    do(box, "rm", "-r", mount.store, "demo")
    same(len(paths(box, mount.store)), 11, "the trash")
    do(box, "gc", "--undo", mount.store, "demo")
    mount.start()
    same_trees(before, tree(mount.path))


def test_what_is_listed(box):
    mount, path = box.session("demo", options=["history=1d"])
    write(mount.at("demo/k.json"), b"1")
    before = time.time()
    os.unlink(mount.at("demo/k.json"))
    item = json.loads(do(box, "gc", "--json", "--list", mount.store).stdout)[0]
    same((item["name"], item["action"]), ("demo/k.json", "trash"), "what")
    text = do(box, "gc", "--list", mount.store).stdout.decode()
    assert text.startswith("trash   removed ") and text.endswith("  demo/k.json\n"), text
    name = mount.sql("SELECT CAST(name AS TEXT) FROM sessfs_entry WHERE parent = 0")[0][0]
    removed, until = map(int, name.split()[:2])
    assert abs(removed / 1e9 - before) < 60, name
    same(until - removed, 86400 * 10**9, "how long it stays")
    do(box, "gc", "--undo", mount.store, "demo/other", status=1)


if __name__ == "__main__":
    main(globals())
