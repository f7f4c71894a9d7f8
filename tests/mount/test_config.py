#!/usr/bin/python3 -B
# SPDX-License-Identifier: MIT
"""What a store says for all its mounts, and which of several mounts does what one has to do."""

import contextlib
import errno
import os
import time

import harness
from harness import TABLE, append, errno_of, eventually, mounts_below, same, write
from test_keep import age, do, refuses, told

UNSET = {
    "strict": "no",
    "exact": "no",
    "max_size": "0",
    "quota": "0",
    "ttl": "never",
    "grace": "7d",
    "history": "7d",
    "history_size": "0",
    "pause": "1",
    "layout": "agentscope",
    "table": TABLE,
}


def config(box, store, *words):
    return do(box, "config", store, *words).stdout.decode()


def settings(**values):
    """What is printed when these are set."""
    lines = []
    for key, value in UNSET.items():
        default = " (default)" if key not in values else ""
        lines.append(f"{key}={values.get(key, value)}{default}\n")
    return "".join(lines)


def not_mounted(box, word, store, *options):
    """A mount with these options is refused, with the word, and nothing is mounted."""
    folder = box.new_folder("mnt")
    refuses(box, word, "mount", *(f"-o{option}" for option in options), store, folder)
    same(mounts_below(folder), [], "what is mounted")


def test_what_is_set_is_told_until_it_is_taken_back(box):
    store = box.new_path("store") + ".db"
    same(config(box, store, "ttl=90m", "max_size=1536K"), "", "what setting prints")
    same(config(box, store), settings(ttl="90m", max_size="1536K"), "all")
    same(config(box, store, "ttl", "grace"), "ttl=90m\ngrace=7d (default)\n", "two")
    same(config(box, store, "ttl=", "strict=yes", "ttl"), "ttl=never (default)\n", "one")
    same(config(box, store), settings(strict="yes", max_size="1536K"), "all again")
    same(config(box, store, "ttl=never", "grace=0", "pause=0", "exact=no", "max_size=0"), "", "")
    zeros = settings(strict="yes", ttl="never", grace="0", pause="0", exact="no", max_size="0")
    same(config(box, store), zeros, "what is set to nothing is set")
    copy = box.new_path("copy") + ".db"
    do(box, "backup", store, copy)
    same(config(box, copy), config(box, store), "in a backup")
    do(box, "put", store, "s/k.json", stdin=b"1")
    rescued = box.new_path("rescued") + ".db"
    do(box, "check", "--repair", store, rescued)
    same(config(box, rescued), config(box, store), "in what was rescued")


def test_what_is_not_understood_is_refused_and_changes_nothing(box):
    store = box.new_path("store") + ".db"
    config(box, store, "ttl=1d")
    for words in (["foo"], ["ttl=2d", "foo=1"], ["ttl=2d", "grace=x"], ["ttl=x"], ["strict=1"],
                  ["exact=true"], ["max_size=1X"], ["pause=1025"], ["ttl=2d,ro"], [""]):
        same(box.sessfs("config", store, *words).returncode, 2, f"{words}")
    same(config(box, store), settings(ttl="1d"), "settings")
    refuses(box, "no store", "config", store + "-not-there")
    refuses(box, "memory", "config", "memory:", "ttl=1d")
    refuses(box, "cannot be the table", "config", store, "table=sqlite_x")


def test_an_option_that_says_something_else_is_refused(box):
    store = box.new_path("store") + ".db"
    config(box, store, "strict=no", "exact=no", "max_size=1G", "ttl=30d", "grace=1d", "pause=3")
    for option, has in (("strict", "strict=no"), ("exact", "exact=no"), ("ttl=29d", "ttl=30d"),
                        ("max_size=2G", "max_size=1G"), ("max_size=0", "max_size=1G"),
                        ("ttl=never", "ttl=30d"), ("grace=0", "grace=1d"), ("pause=0", "pause=3")):
        not_mounted(box, f"which is {has}", store, option)
        not_mounted(box, "sessfs config STORE", store, option)
    for verb in ("append", "put"):
        refuses(box, "which is strict=no", verb, "-ostrict", store, "s/k.json", "/dev/null")
    same(do(box, "ls", store).stdout, b"", "what is in the store")
    # What is the same, or has no effect, contradicts nothing.
    mount = box.mount(store, options=["max_size=1024M", "ttl=720h", "grace=24h,pause=3"])
    mount.remount(options=["ro,strict,ttl=1d"])
    mount.remount(options=[])
    config(box, store, "ttl=")
    mount.remount(options=["ttl=1d"])


def test_bytes_that_are_not_json_are_refused_where_the_store_says_so(box):
    mount = box.mount()
    mount.stop()
    config(box, mount.store, "strict=yes")
    mount.start()
    os.mkdir(mount.at("s"))
    same(errno_of(append, mount.at("s", "l.jsonl"), b"{oops\n"), errno.EINVAL, "a line")
    refuses(box, "not JSON", "put", mount.store, "s/k.json", "/etc/passwd")
    mount.stop()
    refuses(box, "not JSON", "put", mount.store, "s/k.json", "/etc/passwd")
    config(box, mount.store, "strict=")
    do(box, "put", mount.store, "s/k.json", "/etc/passwd")


def test_a_torn_line_is_glued_where_the_store_says_so(box):
    store = box.new_path("store") + ".db"
    for exact, lines in (("no", b"[1\n2\n"), ("yes", b"[12\n")):
        config(box, store, f"exact={exact}")
        path = f"s/{exact}.jsonl"
        for part in (b"[1", b"2\n"):
            do(box, "append", store, path, stdin=part)
        same(do(box, "cat", store, path).stdout, lines, f"with exact={exact}")


def test_what_decides_what_bytes_mean_stays_while_the_store_is_mounted(box):
    mount = box.mount()
    for word in ("strict=yes", "exact=yes", "table=mine", "strict="):
        refuses(box, f"mounted on {mount.path}", "config", mount.store, "ttl=1d", word)
    same(config(box, mount.store), settings(), "settings")
    mount.stop()
    config(box, mount.store, "strict=yes", "exact=yes", "table=mine")
    same(config(box, mount.store), settings(strict="yes", exact="yes", table="mine"), "after it")


def test_the_table_can_be_another_one_while_there_are_no_rows(box):
    store = box.new_path("store") + ".db"
    config(box, store, "table=mine")
    mount = box.mount(store)
    os.mkdir(mount.at("s"))
    write(mount.at("s", "k.json"), b"1")
    same(mount.sql("SELECT state_data FROM mine"), [(b"1",)], "rows")
    mount.sql("INSERT INTO mine (session_id, state_key, state_data) VALUES ('t', 'k', '2')")
    eventually(lambda: os.path.exists(mount.at("t", "k.json")), "what SQL adds")
    mount.stop()
    refuses(box, "it has rows", "config", store, "table=other")
    refuses(box, "it has rows", "config", store, "table=")
    not_mounted(box, "the table mine, not in other", store, "table=other")
    box.mount(store, options=["table=mine"]).check()


def test_a_mount_takes_in_what_may_change_while_it_lives(box):
    mount, session = box.session(options=["ttl=30d"])
    other = box.mount(mount.store)
    path = os.path.join(session, "notes.txt")
    config(box, mount.store, "max_size=1M")
    for each in (mount, other):
        eventually(lambda: "max_size=1048576" in each.log(), "it is told")
    same(errno_of(write, path, b"x" * (4 << 20)), errno.ENOSPC, "above the quota")
    same(errno_of(write, other.at("s", "n.txt"), b"x" * (4 << 20)), errno.ENOSPC, "by the other")
    config(box, mount.store, "max_size=")
    for each in (mount, other):
        eventually(lambda: "no longer has the setting max_size" in each.log(), "it is told")
    write(path, b"x" * (4 << 20))
    write(other.at("s", "n.txt"), b"x" * (4 << 20))
    config(box, mount.store, "ttl=1s")
    eventually(lambda: os.listdir(mount.path) == [], "the session is removed")
    item = told(box, "gc", "--json", "--list", mount.store)[0]
    same(item["name"], "s", "what is in the trash")


def test_a_paused_save_is_published_when_the_store_says_so(box):
    mount, session = box.session()
    path = os.path.join(session, "k.json")
    write(path, b"1")
    config(box, mount.store, "pause=0")
    eventually(lambda: "pause=0" in mount.log(), "it is told")
    fd = os.open(path, os.O_WRONLY | os.O_TRUNC)
    os.write(fd, b"[2]")
    time.sleep(2)
    same(mount.rows("s", "k"), [b"1"], "while it is not closed")
    config(box, mount.store, "pause=1")
    eventually(lambda: mount.rows("s", "k") == [b"[2]"], "it is published")
    os.close(fd)


def test_gc_goes_by_the_ttl_and_the_grace_of_the_store(box):
    mount = box.mount()
    for name in ("old", "kept", "new"):
        os.mkdir(mount.at(name))
        write(mount.at(name, "k.json"), b"1")
    os.setxattr(mount.at("kept"), "user.sessfs.ttl", b"never")
    mount.stop()
    for name in ("old", "kept"):
        age(mount, name, 40)
    same(told(box, "gc", "--json", mount.store), [], "without a ttl")
    config(box, mount.store, "ttl=30d", "grace=1h")
    gone = told(box, "gc", "--json", mount.store)
    same([(one["name"], one["why"]) for one in gone], [("old", "ttl")], "with one")
    item = told(box, "gc", "--json", "--list", mount.store)[0]
    assert 3500 < item["until"] - item["removed"] < 3700, item
    do(box, "gc", "--undo", mount.store)
    told(box, "gc", "--json", "--older-than=0s", "--name=old", "--grace=2h", mount.store)
    item = told(box, "gc", "--json", "--list", mount.store)[0]
    assert 7100 < item["until"] - item["removed"] < 7300, item


def test_a_setting_that_somebody_has_spoilt_keeps_out_who_writes_until_it_is_taken_back(box):
    mount, session = box.session()
    write(os.path.join(session, "k.json"), b"1")
    mount.stop()
    config(box, mount.store, "ttl=1d")
    mount.sql("UPDATE sessfs_meta SET value = 'a while' WHERE key = 'setting:ttl'")
    not_mounted(box, "ttl=a while", mount.store)
    refuses(box, "ttl=a while", "put", mount.store, "s/k.json", "/dev/null")
    refuses(box, "'sessfs config STORE ttl='", "config", mount.store)
    same(do(box, "cat", mount.store, "s/k.json").stdout, b"1", "who reads")
    config(box, mount.store, "ttl=")
    mount.start()
    mount.check()


# Who is on duty


def has_lock(mount, ending, byte):
    """Whether the daemon has the lock of a byte of a file beside its store."""
    number = os.stat(mount.store + ending).st_ino
    folder = f"/proc/{mount.pid}/fdinfo"
    for fd in os.listdir(folder):
        with contextlib.suppress(FileNotFoundError), open(f"{folder}/{fd}") as info:
            for words in map(str.split, info):
                if words[0] == "lock:" and words[-3].endswith(f":{number}") and \
                        int(words[-2]) <= byte and words[-1] in ("EOF", str(byte)):
                    return True
    return False


def on_duty(mount):
    return has_lock(mount, "-mounts", 2)


def has_reserve(mount):
    return has_lock(mount, "-reserve", 0)


def split(mounts, condition):
    """The one of several mounts for which it holds, and the others."""
    eventually(lambda: any(map(condition, mounts)), condition.__name__)
    held = [mount for mount in mounts if condition(mount)]
    same(len(held), 1, f"mounts with {condition.__name__}")
    return held[0], [mount for mount in mounts if mount is not held[0]]


def test_of_two_mounts_one_removes_what_is_old_and_when_it_is_killed_the_other(box):
    one = box.mount()
    first, [second] = split([one, box.mount(one.store)], on_duty)
    for removed, mount, by in (("a", second, first), ("b", second, second)):
        os.mkdir(mount.at(removed))
        write(mount.at(removed, "k.json"), b"1")
        os.mkdir(mount.at(f"{removed}-stays"))
        os.setxattr(mount.at(removed), "user.sessfs.ttl", b"1s")
        eventually(lambda: not os.path.exists(mount.at(removed)), "it is removed")
        eventually(lambda: f"session {removed} was removed" in by.log(), "by who is on duty")
        assert os.path.exists(mount.at(f"{removed}-stays"))
        if mount is not by:
            assert f"session {removed} was removed" not in mount.log(), mount.log()
            first.kill9()
    assert on_duty(second), "nobody is on duty"
    second.check()


def test_what_one_frees_is_given_back_by_who_is_on_duty(box):
    one = box.mount()
    _, [other] = split([one, box.mount(one.store)], on_duty)
    # Who is on duty has been at work since its mount; by the second time it is idle.
    for which in ("first", "second"):
        write(other.at("notes.txt"), b"x" * (16 << 20))
        eventually(lambda: os.stat(one.store).st_size > 12 << 20, "it is in the database")
        write(other.at("notes.txt"), b"")
        eventually(lambda: os.stat(one.store).st_size < 4 << 20, f"given back, {which}")


def test_the_reserve_of_a_killed_mount_is_another_s(box):
    one = box.mount()
    mounts = [one, box.mount(one.store), box.mount(one.store)]
    killed, others = split(mounts, has_reserve)
    killed.kill9()
    write(others[0].at("notes.txt"), b"x")
    write(others[1].at("more.txt"), b"x")
    split(others, has_reserve)


if __name__ == "__main__":
    harness.main(globals())
