#!/usr/bin/python3 -B
# SPDX-License-Identifier: MIT
"""Stores that are named by a URL: what the program makes of them, whatever the server is.

The plugin is one that keeps everything in memory (plugin-memory.c), so a store is in its mount
alone, and a command that did not go through the mount would find nothing."""

import json
import os
import signal

import harness
from harness import (
    Skip,
    append,
    errno_of,
    eventually,
    mounts_below,
    need_root,
    need_tool,
    read,
    same,
    tool,
    write,
)
from test_guard import NOBODY, status_of, unguarded, use

BUILT = os.path.join(os.environ.get("top_builddir", ""), "tests/mount/.libs/plugin-memory.so")
SECRET = "geheim-8a7c"
NAME = "mysql://ann@127.0.0.1:3310/x"


def prepare(box):
    """A place for plugins with one in it, a home without passwords, and a file with one."""
    if not os.access(BUILT, os.R_OK):
        raise Skip(f"{BUILT} is not built")
    plugins = box.new_folder("plugins")
    os.symlink(BUILT, os.path.join(plugins, "sessfs-mysql.so"))
    os.environ.update({"SESSFS_PLUGINS": plugins, "HOME": box.new_folder("home")})
    for name in ("MYSQL_PWD", "PGPASSWORD"):
        os.environ.pop(name, None)
    passfile = box.new_path("pass")
    write(passfile, SECRET.encode() + b"\n")
    os.chmod(passfile, 0o600)
    return f"mariadb://ann@127.0.0.1:3310/x?tls=off&timeout=7&passfile={passfile}"


def run(box, *words, **named):
    done = box.sessfs(*words, **named)
    assert SECRET.encode() not in done.stdout + done.stderr, "the password is printed"
    return done


def refused(box, url, *parts):
    point = box.new_folder("mnt")
    done = run(box, "mount", url, point)
    same((done.returncode, mounts_below(point)), (1, []), f"status, and mounts of {url}")
    said = done.stderr.decode()
    for part in parts:
        assert part in said, f"{url}: {part!r} is not in {said!r}"


def test_a_mount_is_called_by_the_url_without_what_only_tells_how_to_connect(box):
    mount = box.mount(store=prepare(box))
    with open("/proc/self/mountinfo") as table:
        line = next(line for line in table if f" {mount.path} " in line)
    assert f" - fuse.sessfs {NAME} " in line, line
    assert "passfile" not in line and SECRET not in line, line
    listed = json.loads(run(box, "mounts", "--json").stdout)
    found = [entry for entry in listed if entry["directory"] == mount.path]
    same([(e["store"], e["process"]) for e in found], [(NAME, mount.pid)], "mounts")
    assert f"{NAME} is mounted on" in mount.log(), mount.log()


def test_verbs_go_through_the_mount_by_any_spelling_of_the_url(box):
    store = prepare(box)
    mount = box.mount(store=store)
    os.mkdir(mount.at("s"))
    append(mount.at("s", "l.jsonl"), b'{"n":1}\n')
    for url in (store, NAME, NAME.replace("mysql", "mariadb") + "?timeout=3", NAME + "?tls=off"):
        same(run(box, "cat", url, "s/l.jsonl", check=True).stdout, b'{"n":1}\n', f"cat {url}")
    run(box, "append", NAME, "s/l.jsonl", stdin=b'{"n":2}\n', check=True)
    run(box, "put", NAME, "s/a.json", stdin=b"{}", check=True)
    same(read(mount.at("s", "l.jsonl")), b'{"n":1}\n{"n":2}\n', "appended by a command")
    listed = run(box, "ls", NAME, "s", check=True).stdout
    same(sorted(listed.split()), [b"a.json", b"l.jsonl"], "ls")
    run(box, "rm", NAME, "s/a.json", check=True)
    same(os.listdir(mount.at("s")), ["l.jsonl"], "files after rm")
    folder = box.new_folder()
    run(box, "export", NAME, folder, check=True)
    same(read(os.path.join(folder, "s", "l.jsonl")), b'{"n":1}\n{"n":2}\n', "exported")
    write(os.path.join(folder, "s", "b.json"), b"[]")
    run(box, "import", NAME, folder, check=True)
    same(read(mount.at("s", "b.json")), b"[]", "imported")
    # Another database is another store, which nobody has mounted.
    done = run(box, "cat", NAME.replace("/x", "/y") + "?tls=off", "s/l.jsonl")
    same((done.returncode, done.stdout), (1, b""), "cat of another database")


def test_what_is_exported_into_the_mount_leaves_itself_out(box):
    store = prepare(box)
    mount = box.mount(store=store)
    os.makedirs(mount.at("s", "out"))
    done = run(box, "export", NAME + "?tls=off", mount.at("s", "out"))
    same(done.returncode, 1, "status")
    assert b"s/out: the export goes there" in done.stderr, done.stderr
    same(os.listdir(mount.at("s", "out", "s")), [], "what was exported")
    done = run(box, "export", "-f", store, mount.path)
    same(done.returncode, 1, "the status for the mount itself")
    assert b"is mounted; name another" in done.stderr, done.stderr


def test_umount_takes_the_url_and_ends_all_its_mounts(box):
    store = prepare(box)
    mounts = [box.mount(store=store, background=True) for _ in range(2)]
    other = box.mount(store=store.replace("/x?", "/y?"))
    pids = [mount.pid for mount in mounts]
    same(run(box, "umount", NAME).returncode, 0, "status")
    same([mounts_below(mount.path) for mount in mounts], [[], []], "mounts")
    same([pid for pid in pids if harness.alive(pid)], [], "daemons")
    same(mounts_below(other.path), [other.path], "the mount of another database")
    done = run(box, "umount", NAME)
    same(done.returncode, 1, "status where nothing is mounted")
    assert b"the store mysql://ann@127.0.0.1:3310/x is not mounted" in done.stderr, done.stderr


def test_what_is_no_url_of_a_store_is_told(box):
    store = prepare(box)
    refused(box, f"mysql://ann:{SECRET}@h/x", "passfile=", "MYSQL_PWD")
    refused(box, f"mysql://ann@h/x?password={SECRET}", "passfile=")
    refused(box, "mongodb://h/0", "mysql://", "postgresql://")
    refused(box, "mysql://h/x?tabel=t", "'tabel'")
    refused(box, "postgresql://ann@h/x", "install", "sessfs-postgresql")
    passfile = store.split("passfile=")[1]
    os.chmod(passfile, 0o640)
    refused(box, store, f"chmod 600 {passfile}")
    os.unlink(passfile)
    refused(box, store, passfile, "No such file")
    for verb in ("ls", "check", "stats", "backup"):
        words = [box.new_path("copy")] if verb == "backup" else []
        done = run(box, verb, f"mysql://ann:{SECRET}@h/x", *words)
        assert done.returncode in (1, 2), f"{verb}: {done.returncode}"


def test_the_password_is_nowhere_to_be_seen(box):
    store = prepare(box)
    mount = box.mount(store=store, options=["debug"])
    use(mount)
    said = mount.log()
    assert SECRET not in said and "OPEN" in said.upper(), "the log"
    for name in ("cmdline", "environ", "comm", "mountinfo"):
        with open(f"/proc/{mount.pid}/{name}", "rb") as file:
            assert SECRET.encode() not in file.read(), name
    quiet = box.mount(store=store)
    with open(f"/proc/{quiet.pid}/limits") as limits:
        core = next(line for line in limits if line.startswith("Max core file size"))
    # 1 byte: the kernel hands a dump to no program either, as it would with 0.
    same(core.split()[4:6], ["1", "1"], "the limit of core dumps")


def test_no_thread_of_the_daemon_has_rights(box):
    need_root()
    mount = box.mount(store=prepare(box))
    use(mount)
    same(unguarded(mount.pid), [], "threads")


def test_root_serves_a_store_on_a_server_as_the_owner_of_the_mount_point(box):
    need_root()
    store = prepare(box)
    os.chmod(box.folder, 0o755)
    point = box.new_folder("mnt")
    os.chown(point, NOBODY, NOBODY)
    mount = box.mount(store=store, path=point)
    use(mount)
    same(unguarded(mount.pid, NOBODY), [], "threads")
    same(status_of("/proc/self/status")["Uid"].split()[0], "0", "the control")


def test_mount_8_and_remount_take_a_url(box):
    need_root()
    need_tool("mount.fuse3")
    store = prepare(box)
    mount = box.mount(store=store, path=box.new_path("first"))
    mount.stop()
    folder = box.new_path("bin")
    os.mkdir(folder)
    os.symlink(box.program, os.path.join(folder, "sessfs"))
    point = box.new_folder("mnt")
    path = {"PATH": folder + os.pathsep + os.environ["PATH"]}
    tool("mount.fuse3", store, point, "-t", "fuse.sessfs", "-o", "rw,noatime,_netdev", env=path)
    try:
        os.mkdir(os.path.join(point, "s"))
        tool(box.program, "mount", "-o", "remount,ro", store, point)
        same(errno_of(os.mkdir, os.path.join(point, "t")), 30, "a read-only mount")
        same(os.listdir(point), ["s"], "what is there")
    finally:
        run(box, "umount", point)
    same(mounts_below(point), [], "mounts")


def test_a_daemon_that_was_killed_leaves_a_mount_that_the_next_command_takes_away(box):
    store = prepare(box)
    mount = box.mount(store=store, background=True)
    os.kill(mount.pid, signal.SIGKILL)
    eventually(lambda: not harness.alive(mount.pid), "the daemon ends")
    done = run(box, "mount", store, mount.path)
    same(done.returncode, 0, f"status: {done.stderr}")
    same(os.listdir(mount.path), [], "a new store")
    same(run(box, "umount", mount.path).returncode, 0, "status of umount")
    mount.forget()


if __name__ == "__main__":
    harness.main(globals())
