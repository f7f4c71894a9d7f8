#!/usr/bin/python3 -B
# SPDX-License-Identifier: MIT
"""What a daemon has given up, and what nobody gains from a mount.

Each test that says "cannot" has a control that can: the same thing without the measure."""

import contextlib
import errno
import os
import shutil
import signal
import sqlite3
import stat
import subprocess

import harness
from harness import (
    AS_NOBODY,
    Skip,
    append,
    complaints,
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
from users import users

NOBODY = 65534
GROUP = 4242


def status_of(path):
    with open(path) as file:
        return dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)


def threads(pid):
    """What the kernel says about every thread."""
    found = []
    for task in os.listdir(f"/proc/{pid}/task"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            found.append(status_of(f"/proc/{pid}/task/{task}/status"))
    return found


def unguarded(pid, user=0):
    """Which threads are not as they should be."""
    expected = {
        "Seccomp": "2",
        "NoNewPrivs": "1",
        "CapEff": "0" * 16,
        "CapPrm": "0" * 16,
        "CapInh": "0" * 16,
        "CapAmb": "0" * 16,
        "CapBnd": "0" * 16,
        "Uid": "\t".join([str(user)] * 4),
        "Gid": "\t".join([str(user)] * 4),
        "Groups": " ",
    }
    with open(f"/proc/{pid}/maps") as maps:
        if "libtsan" in maps.read():
            raise Skip("the thread sanitizer starts a thread before the program does")
    seen = threads(pid)
    assert len(seen) >= 4, f"{len(seen)} threads"
    if "Seccomp" not in seen[0]:
        raise Skip("the kernel has no seccomp")
    wrong = []
    for thread in seen:
        for name, value in expected.items():
            # A group of its own may be listed beside.
            ours = " " if name == "Groups" and thread[name].strip() == str(user) else thread[name]
            if ours != value:
                wrong.append((thread["Pid"], name, thread[name]))
    return wrong


def use(mount):
    """Makes workers start."""
    os.mkdir(mount.at("s"))
    readers = [
        subprocess.Popen(["sh", "-c", f"for i in 1 2 3 4 5; do echo 1 >> l{n}.jsonl; done"],
                         cwd=mount.at("s"))
        for n in range(6)
    ]
    for reader in readers:
        same(reader.wait(), 0, "a writer")


def test_no_thread_of_the_daemon_has_rights(box):
    need_root()
    for background in (False, True):
        mount = box.mount(background=background)
        use(mount)
        same(unguarded(mount.pid), [], "threads")
        mount.stop()
    ours = status_of("/proc/self/status")
    assert ours["Seccomp"] == "0" and ours["CapEff"] != "0" * 16, "the control sees nothing"


def test_the_daemon_holds_the_store_the_device_and_nothing_else(box):
    secret = os.open("/etc/hostname", os.O_RDONLY)
    os.set_inheritable(secret, True)
    mount = harness.Mount(box, box.new_path("store") + ".db", box.new_path("mnt"))
    os.dup2(secret, 77)
    popen = subprocess.Popen
    subprocess.Popen = lambda *args, **named: popen(*args, **named, close_fds=False)
    try:
        box.mounts.append(mount.start())
    finally:
        subprocess.Popen = popen
    use(mount)
    known = (mount.store, "/dev/fuse", "anon_inode:", "pipe:", "/dev/null")
    sockets, wrong = 0, []
    for name in os.listdir(f"/proc/{mount.pid}/fd"):
        with contextlib.suppress(FileNotFoundError):
            target = os.readlink(f"/proc/{mount.pid}/fd/{name}")
            sockets += target.startswith("socket:")
            if target == os.path.dirname(mount.store):
                continue  # where the store is looked for; it can only be searched
            if int(name) > 2 and not target.startswith((*known, "socket:")):
                wrong.append((name, target))
    same(wrong, [], "descriptors")
    assert sockets <= 2, f"{sockets} sockets"  # the aide's, and the log's
    same(os.readlink("/proc/self/fd/77"), "/etc/hostname", "the control")


def test_the_files_of_a_store_are_for_their_owner_whatever_the_umask(box):
    for mask in (0, 0o777, 0o022):
        before = os.umask(0o022)
        mount = harness.Mount(box, box.new_path("store") + ".db", box.new_path("mnt"))
        os.mkdir(mount.path)
        wrapped = ["sh", "-c", f'umask {mask:o}; exec "$@"', "sh"]
        mount.wrap = wrapped
        box.mounts.append(mount.start())
        os.umask(before)
        use(mount)
        folder, name = os.path.split(mount.store)
        modes = {
            file[len(name) :]: oct(os.stat(os.path.join(folder, file)).st_mode & 0o7777)
            for file in os.listdir(folder)
            if file.startswith(name)
        }
        expected = {end: "0o600" for end in ("", "-wal", "-shm", "-reserve", "-mounts")}
        same(modes, expected, f"modes with umask {mask:o}")
        mount.stop()


def test_links_beside_a_store_are_not_followed(box):
    """What somebody has put there before the store was mounted stays as it is."""
    target = box.new_path("target")
    write(target, b"")
    for end in ("-wal", "-shm", "-reserve", "-journal"):
        store = box.new_path("store") + ".db"
        os.symlink(target, store + end)
        folder = box.new_folder("mnt")
        done = box.sessfs("mount", store, folder)
        if done.returncode == 0:
            with contextlib.suppress(OSError):
                os.mkdir(os.path.join(folder, "s"))
                append(os.path.join(folder, "s", "l.jsonl"), b"1\n" * 1000)
            box.sessfs("umount", folder)
        same(read(target), b"", f"what {end} led to")
        same(os.readlink(store + end), target, end)
    os.symlink(target, box.new_path("control"))
    write(os.path.join(box.folder, f"control{box.count}"), b"x")
    same(read(target), b"x", "the control")


def test_a_store_behind_the_link_of_a_stranger_is_refused_to_root(box):
    need_root()
    os.chmod(box.folder, 0o755)
    mount, _ = box.session()
    mount.stop()
    theirs, ours = box.new_folder("theirs"), box.new_folder("ours")
    for folder in (theirs, ours):
        os.symlink(mount.store, os.path.join(folder, "link.db"))
    os.chown(theirs, NOBODY, NOBODY)
    os.chown(os.path.join(theirs, "link.db"), NOBODY, NOBODY, follow_symlinks=False)
    folder = box.new_folder("mnt")
    done = box.sessfs("mount", os.path.join(theirs, "link.db"), folder)
    same(done.returncode, 1, "status")
    assert b"65534" in done.stderr, done.stderr
    done = box.sessfs("mount", os.path.join(ours, "link.db"), folder)
    same((done.returncode, complaints(done)), (0, b""), "root's own link")
    box.sessfs("umount", folder, check=True)


def test_root_serves_the_store_of_a_user_as_that_user(box):
    need_root()
    os.chmod(box.folder, 0o755)
    home = box.new_folder("home")
    os.chown(home, NOBODY, NOBODY)
    store = os.path.join(home, "store.db")
    mount = box.mount(store)
    use(mount)
    same(unguarded(mount.pid, NOBODY), [], "threads")
    owners = {os.stat(os.path.join(home, name)).st_uid for name in os.listdir(home)}
    same(owners, {NOBODY}, "owners of the files")
    done = tool(*AS_NOBODY, "sqlite3", store, f"SELECT count(*) FROM {harness.TABLE}", check=False)
    same((done.stdout, done.stderr), (b"30\n", b""), "SQL of the owner beside the mount")
    os.kill(mount.pid, signal.SIGTERM)
    same(mount.wait_for_end(), 0, "status after SIGTERM")
    same(mounts_below(mount.path), [], "mounts")
    mount.forget()


def test_root_serves_a_store_that_its_owner_cannot_use_with_three_capabilities(box):
    need_root()
    mount, session = box.session()
    mount.stop()
    os.chown(mount.store, NOBODY, NOBODY)
    mount.start()
    append(os.path.join(session, "l.jsonl"), b"1\n")
    allowed = {f"{bits:016x}" for bits in (0xB, 0x3, 0x2, 0x0)}
    wrong = [thread["CapEff"] for thread in threads(mount.pid) if thread["CapEff"] not in allowed]
    same(wrong, [], "capabilities of threads")
    assert "stays root" in mount.log(), mount.log()
    same(os.stat(mount.store + "-wal").st_uid, NOBODY, "owner of the log")


IN_A_USER_NAMESPACE = """
cd "$2"
mkdir -p mnt
"$1" mount -o "$4" "$3" mnt
mkdir -p mnt/s
echo '{"n": 1}' >> mnt/s/l.jsonl
cat mnt/s/l.jsonl
"$1" umount mnt
rmdir mnt
"""


def in_a_user_namespace(box, space, store, options="rw", script=IN_A_USER_NAMESPACE):
    """As root of a namespace that has no number for anybody else, the system's root included."""
    script = ["sh", "-ec", script, "sh", box.program, space.home, store, options]
    done = space.as_nobody("unshare", "-Urm", *script)
    if b"unshare failed" in done.stderr:
        raise Skip("users may not make namespaces of users here")
    return done


def test_a_user_namespace_without_a_number_for_root_can_mount(box):
    with users(box) as space:
        for store in ("store.db", f"{space.home}/store.db"):
            done = in_a_user_namespace(box, space, store)
            same((done.stdout[-9:], done.returncode), (b'{"n": 1}\n', 0), done.stderr)
        same(os.stat(f"{space.home}/store.db").st_uid, NOBODY, "the owner of the store")


def test_in_a_user_namespace_a_stranger_s_link_is_refused_where_everybody_makes_files(box):
    with users(box) as space:
        same(in_a_user_namespace(box, space, "store.db").returncode, 0, "mount")
        public = os.path.join(space.folder, "public")
        os.mkdir(public)
        os.chmod(public, 0o1777)
        os.symlink(f"{space.home}/store.db", f"{public}/link.db")
        shutil.copy(f"{space.home}/store.db", f"{public}/copy.db")
        os.chmod(f"{public}/copy.db", 0o666)
        for name in ("link.db", "copy.db"):
            done = in_a_user_namespace(box, space, f"{public}/{name}")
            same(done.returncode, 1, name)
            assert b"belongs to a user outside of this user namespace" in done.stderr, done
        # A store of one's own is fine there.
        done = in_a_user_namespace(box, space, f"{public}/own.db")
        same(done.returncode, 0, done.stderr)


def test_tables_with_code_behind_them_are_not_touched(box):
    for module in ("fts5(session_id, state_key, item_index, state_data)", "dbstat"):
        for name in (harness.TABLE, "sessfs_meta"):
            store = box.new_path("virtual") + ".db"
            with contextlib.closing(sqlite3.connect(store)) as base:
                try:
                    base.execute(f"CREATE VIRTUAL TABLE {name} USING {module}")
                except sqlite3.OperationalError:
                    continue
                same(base.execute(f"SELECT count(*) >= 0 FROM {name}").fetchone(), (1,), "control")
            done = box.sessfs("mount", "-f", store, box.new_folder("mnt"))
            same(done.returncode, 1, f"status for {name} as {module}")
            assert b"no such module" in done.stderr, done.stderr
            done = box.sessfs("check", store)
            assert done.returncode in (1, 2) and b"no such module" in done.stderr, done.stderr


def test_functions_in_the_schema_that_are_not_safe_are_not_called(box):
    columns = "session_id TEXT, state_key TEXT, item_index INTEGER, state_data TEXT"
    unique = "PRIMARY KEY (session_id, state_key, item_index)"
    for call in ("rtreecheck('main', 'x') = 'ok'", "fts3_tokenizer('simple') IS NULL"):
        store = box.new_path("function") + ".db"
        with contextlib.closing(sqlite3.connect(store)) as base:
            try:
                base.execute(f"CREATE TABLE {harness.TABLE} ({columns}, CHECK ({call}), {unique})")
            except sqlite3.OperationalError:  # it has no such function
                continue
        done = box.sessfs("put", store, "s/k.json", stdin=b"1")
        same(done.returncode, 1, f"status for {call}: {done.stderr}")
        assert b"unknown function" in done.stderr, done.stderr


# Unmounting by who may not


def aides():
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            if harness.comm(name) == "sessfs-aide":
                found.append(int(name))
    return found


def aide_of(mount):
    for pid in aides():
        with contextlib.suppress(OSError):
            with open(f"/proc/{pid}/cmdline", "rb") as line:
                if os.fsencode(mount.path) in line.read().split(b"\0"):
                    return pid
    return None


def test_a_busy_mount_is_taken_away_at_sigterm(box):
    mount, session = box.session()
    helper = aide_of(mount)
    held = os.open(session, os.O_RDONLY)
    os.kill(mount.pid, signal.SIGTERM)
    same(mount.wait_for_end(), 0, "status")
    same(mounts_below(mount.path), [], "mounts")
    os.close(held)
    assert "rror" not in mount.log() and "ailed" not in mount.log(), mount.log()
    mount.forget()
    eventually(lambda: not harness.alive(helper), "the aide ends")


def test_the_aide_ends_with_a_daemon_that_is_killed_and_leaves_the_mount(box):
    mount = box.mount()
    helper = aide_of(mount)
    status = status_of(f"/proc/{helper}/status")
    if os.geteuid() == 0:
        same((status["NoNewPrivs"], status["CapEff"]), ("1", "0000000000280004"), "its rights")
    same(sorted(os.listdir(f"/proc/{helper}/fd")), ["0", "1", "2", "3"], "its descriptors")
    os.kill(helper, signal.SIGTERM)  # sent to whole groups
    os.kill(mount.pid, signal.SIGKILL)
    mount.wait_for_end()
    mount.forget()
    eventually(lambda: not harness.alive(helper), "the aide ends")
    same(errno_of(os.listdir, mount.path), errno.ENOTCONN, "the dead mount")
    same(mounts_below(mount.path), [mount.path], "mounts")
    mount.start()
    same(os.listdir(mount.path), [], "mounted again")


def test_with_auto_unmount_a_daemon_that_is_killed_leaves_no_mount(box):
    mount = box.mount(options=["auto_unmount"])
    held = os.open(mount.path, os.O_RDONLY)
    os.kill(mount.pid, signal.SIGKILL)
    eventually(lambda: not mounts_below(mount.path), "root's mount goes")
    os.close(held)
    mount.wait_for_end()
    mount.forget()
    with users(box) as space:
        folder, store = os.path.join(space.home, "mnt"), os.path.join(space.home, "store.db")
        space.as_nobody("mkdir", folder)
        done = space.as_nobody(box.program, "mount", "-o", "auto_unmount", store, folder)
        same((done.returncode, complaints(done)), (0, b""), "mount")
        [pid] = harness.processes_of(box.program, folder)
        os.kill(pid, signal.SIGKILL)

        def is_gone():
            table = space.as_nobody("cat", "/proc/self/mountinfo").stdout.decode()
            return f" {folder} " not in table

        eventually(is_gone, "the user's mount goes")


def test_a_save_is_published_at_each_close_when_the_aide_is_gone(box):
    mount, session = box.session()
    path = os.path.join(session, "k.json")
    with open(path, "w") as file:
        file.write("[1]")
    helper = aide_of(mount)
    for gone, expected in ((False, b"[1]"), (True, b"")):
        if gone:
            os.kill(helper, signal.SIGKILL)
        fd = os.open(path, os.O_WRONLY | os.O_TRUNC)
        os.close(os.dup(fd))
        same(read(path), expected, f"the aide is gone: {gone}; what others see after one close")
        os.write(fd, b"[1]")
        os.close(fd)
        same(read(path), b"[1]", "after the last close")
    assert "looks for descriptors does not answer" in mount.log(), mount.log()
    # Nobody can unmount for the daemon now.
    tool("fusermount3", "-u", mount.path)
    same(mount.wait_for_end(), 0, "status")
    mount.forget()


def test_the_aide_takes_nothing_else_away(box):
    need_root()
    folder = box.new_folder("moving")
    mount = box.mount(path=os.path.join(folder, "mnt"))
    other = box.new_folder("other")
    os.mkdir(os.path.join(other, "mnt"))
    tool("mount", "-t", "tmpfs", "tmpfs", os.path.join(other, "mnt"))
    try:
        os.rename(folder, folder + "-moved")
        os.symlink(other, folder)
        os.kill(mount.pid, signal.SIGTERM)
        same(mount.wait_for_end(), 0, "status")
        mount.forget()
        same(len(mounts_below(other)), 1, "the mount of somebody else")
    finally:
        harness.detach(os.path.join(folder + "-moved", "mnt"))
        harness.detach(os.path.join(other, "mnt"))


def test_a_user_s_daemon_has_no_rights_and_is_unmounted_at_sigterm(box):
    with users(box) as space:
        folder, store = os.path.join(space.home, "mnt"), os.path.join(space.home, "store.db")
        space.as_nobody("mkdir", folder)
        for busy in (False, True):
            done = space.as_nobody(box.program, "mount", store, folder)
            same((done.returncode, complaints(done)), (0, b""), "mount")
            [pid] = harness.processes_of(box.program, folder)
            holder = space.start_as_nobody("sleep", "60", cwd=folder) if busy else None
            if holder:
                eventually(lambda: harness.comm(holder.pid) == "sleep", "it works there")
            os.kill(pid, signal.SIGTERM)
            eventually(lambda: not harness.alive(pid), "the daemon ends")
            table = space.as_nobody("cat", "/proc/self/mountinfo").stdout.decode()
            assert f" {folder} " not in table, f"still mounted (busy: {busy})"
            if holder:
                holder.kill()
                holder.wait()
        space.as_nobody(box.program, "mount", store, folder)
        [pid] = harness.processes_of(box.program, folder)
        same(unguarded_user(pid), [], "threads")
        done = space.as_root("sh", "-c", 'ls "$1"', "sh", folder)
        same(b"Permission denied" in done.stderr, True, f"root is kept out: {done.stderr}")
        space.as_nobody(box.program, "umount", folder)
        eventually(lambda: not harness.alive(pid), "the daemon ends")


def test_the_name_of_a_store_is_no_option(box):
    with users(box) as space:
        folder = os.path.join(space.home, "mnt")
        space.as_nobody("mkdir", folder)
        for name in ("a,allow_other,b.db", "a\\,allow_other,b.db", "suid,dev\\\\,allow_other"):
            store = os.path.join(space.home, name)
            done = space.as_nobody(box.program, "mount", store, folder)
            same((done.returncode, complaints(done)), (0, b""), f"mount of {name}")
            table = space.as_nobody("cat", "/proc/self/mountinfo").stdout.decode()
            line = next(line for line in table.splitlines() if f" {folder} " in line)
            flags = line.split()[5].split(",") + line.split()[-1].split(",")
            same("allow_other" in flags, False, "the option that only the name has")
            assert "nosuid" in flags and "nodev" in flags, line
            same(space.as_nobody(box.program, "umount", folder).stderr, b"", "umount")
            assert os.path.exists(store), name


def unguarded_user(pid):
    return [entry for entry in unguarded(pid, NOBODY) if entry[1] != "CapBnd"]


# What a mount gives to nobody


def as_user(groups, *command):
    rights = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}"]
    rights.append(f"--groups={groups}" if groups else "--clear-groups")
    return tool(*rights, "--", *command, check=False)


def open_mount(box, allow_other=True):
    need_root()
    need_tool("setpriv")
    os.chmod(box.folder, 0o755)
    mount = box.mount(options=["allow_other"] if allow_other else [])
    os.mkdir(mount.at("s"))
    os.chmod(mount.at("s"), 0o777)
    return mount


def test_another_user_is_kept_out_unless_it_is_asked_for(box):
    for allowed in (False, True):
        mount = open_mount(box, allowed)
        write(mount.at("s", "k.json"), b"1")
        done = as_user(None, "cat", mount.at("s", "k.json"))
        same(done.stdout, b"1" if allowed else b"", f"allow_other: {allowed}")
        same(b"Permission denied" in done.stderr, not allowed, "EACCES")
        mount.stop()


def test_modes_hold_for_supplementary_groups(box):
    mount = open_mount(box)
    for name in ("k.json", "l.jsonl", "note.txt"):
        path = mount.at("s", name)
        write(path, b"1\n")
        os.chown(path, 0, GROUP)
        os.chmod(path, 0o640)
        same(as_user(GROUP, "cat", path).stdout, b"1\n", f"a member reads {name}")
        done = as_user(GROUP + 1, "cat", path)
        same(done.stdout, b"", f"somebody else reads {name}")
        # What the kernel has cached for one is not for all.
        same(as_user(GROUP, "cat", path).stdout, b"1\n", f"a member reads {name} again")
        assert as_user(GROUP, "sh", "-c", 'echo 2 > "$1"', "sh", path).returncode, "written"


MAKE_IN_SETGID = """
import os, sys
os.chdir(sys.argv[1])
os.umask(0)
for name, mode in (("plain.json", 0o644), ("setgid", 0o2775), ("list.jsonl", 0o2666)):
    os.close(os.open(name, os.O_WRONLY | os.O_CREAT, mode))
os.mkdir("folder", 0o755)
os.mkdir("setgid-folder", 0o2755)
for name in sorted(os.listdir(".")):
    st = os.stat(name)
    print(name, oct(st.st_mode), st.st_uid, st.st_gid)
"""


def test_a_setgid_folder_gives_its_group_and_no_more(box):
    """As on any local filesystem, which is tried beside."""
    mount = open_mount(box)
    local = box.new_folder("local")
    for groups in (None, GROUP):
        seen = []
        for top in (mount.at("s"), local):
            folder = os.path.join(top, f"shared{groups}")
            os.mkdir(folder)
            os.chown(folder, 0, GROUP)
            os.chmod(folder, 0o2777)
            os.chmod(top, 0o755)
            done = as_user(groups, "/usr/bin/python3", "-c", MAKE_IN_SETGID, folder)
            same(done.stderr, b"", "making files")
            seen.append(done.stdout.decode())
        same(seen[0], seen[1], f"files of somebody in {groups or 'no'} group")
        modes = {line.split()[0]: line.split() for line in seen[0].splitlines()}
        same(modes["plain.json"][3], str(GROUP), "group of a new file")
        same(int(modes["folder"][1], 8) & stat.S_ISGID, stat.S_ISGID, "a new folder")
        setgid = int(modes["setgid"][1], 8) & stat.S_ISGID
        same(setgid != 0, groups == GROUP, "setgid of a file of a member only")


TAKE_NAME = """
import os, sys
folder, name, way = sys.argv[1:]
os.chdir(folder)
os.umask(0)
flags = {"create": os.O_RDWR, "append": os.O_RDWR | os.O_APPEND, "write": os.O_WRONLY}
if way == "rename":
    os.close(os.open("mine", os.O_WRONLY | os.O_CREAT, 0o666))
print("ready", flush=True)
while True:
    try:
        if way == "rename":
            if os.path.lexists(name):
                continue
            os.rename("mine", name)
            break
        kept = os.open(name, os.O_CREAT | os.O_EXCL | flags[way], 0o666)
        break
    except FileExistsError:
        pass
assert os.stat(name).st_uid == os.getuid(), "somebody else's"
with open(name, "rb") as file:
    print(os.stat(name).st_size, file.read())
"""


def test_nobody_reads_what_another_user_has_just_deleted(box):
    mount = open_mount(box)
    os.chmod(mount.at("s"), 0o1777)
    for name in ("k.json", "l.jsonl", "h.hash", "note.txt"):
        for way in ("create", "append", "write", "rename"):
            path = mount.at("s", name)
            write(path, b'{"token": "secret"}\n')
            os.chmod(path, 0o600)
            command = AS_NOBODY + ["/usr/bin/python3", "-c", TAKE_NAME, mount.at("s"), name, way]
            taker = subprocess.Popen(command, stdout=subprocess.PIPE)
            same(taker.stdout.readline(), b"ready\n", "the other user")
            same(as_user(None, "cat", path).stdout, b"", "while it is there")
            os.unlink(path)
            said = taker.communicate()[0]
            same((said, taker.returncode), (b"0 b''\n", 0), f"{name}, {way}")
            os.unlink(path)


def test_what_its_owner_has_just_deleted_is_not_shown_to_more_by_a_new_file(box):
    mount = open_mount(box)
    for name in ("k.json", "l.jsonl", "h.hash"):
        path = mount.at("s", name)
        for wide in ("when it is made", "later"):
            write(path, b'{"token": "secret"}\n')
            os.chmod(path, 0o600)
            os.unlink(path)
            fd = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600 if wide == "later" else 0o644)
            os.fchmod(fd, 0o644)
            same(as_user(None, "cat", path).stdout, b"", f"{name}, with a mode that is {wide}")
            os.write(fd, b"[]\n")
            os.close(fd)
            same(as_user(None, "cat", path).stdout, b"[]\n", f"{name}, saved")
            os.unlink(path)


MAKE_SET_ID = """
import os, sys
os.chdir(sys.argv[1])
os.umask(0o022 if sys.argv[2] == "umask" else 0)


def by_open(flags):
    def make(name, mode):
        os.close(os.open(name, os.O_WRONLY | os.O_CREAT | flags, mode))

    return make


def and_write(name, mode):
    fd = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    show(name + " made", os.fstat(fd))
    os.write(fd, b"1")
    os.close(fd)


def and_open_again(name, mode):
    os.close(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode))
    show(name + " made", os.stat(name))
    os.close(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode))


def and_change_mode(name, mode):
    os.close(os.open(name, os.O_WRONLY | os.O_CREAT, 0o600))
    os.chmod(name, mode)


def show(name, st):
    print(name, oct(st.st_mode), st.st_uid, st.st_gid)


ways = {
    "trunc": by_open(os.O_TRUNC),
    "creat": by_open(0),
    "excl": by_open(os.O_EXCL | os.O_TRUNC),
    "mknod": os.mknod,
    "mkfifo": os.mkfifo,
    "mkdir": os.mkdir,
    "write": and_write,
    "again": and_open_again,
    "chmod": and_change_mode,
}
for suffix in ("", ".json", ".jsonl", ".hash"):
    for way, make in ways.items():
        for mode in (0o2755, 0o4755, 0o6777, 0o1755, 0o2644, 0o6666, 0o7777):
            name = f"{way}-{mode:o}{suffix}"
            try:
                make(name, mode)
            except OSError as error:
                print(name, error.strerror)
                continue
            show(name, os.lstat(name))
"""


def test_set_id_bits_of_what_a_user_makes_are_as_on_any_local_filesystem(box):
    """In folders of all sorts, of whose group he is and is not."""
    mount = open_mount(box)
    local = box.new_folder("local")
    for folder_mode in (0o777, 0o2777, 0o1777, 0o3777):
        for groups in (None, GROUP):
            for umask in ("umask", "none"):
                seen = []
                for top in (mount.at("s"), local):
                    folder = os.path.join(top, f"{folder_mode:o}-{groups}-{umask}")
                    os.mkdir(folder)
                    os.chown(folder, 0, GROUP)
                    os.chmod(folder, folder_mode)
                    os.chmod(top, 0o755)
                    command = ("/usr/bin/python3", "-c", MAKE_SET_ID, folder, umask)
                    done = as_user(groups, *command)
                    same(done.stderr, b"", "making files")
                    seen.append(done.stdout.decode().splitlines())
                assert len(seen[1]) > 250, "too little was made"
                harness.same_lists(seen[1], seen[0], f"{folder_mode:o}, group {groups}, {umask}")


def test_setuid_files_of_a_mount_run_as_who_runs_them(box):
    mount = open_mount(box)
    program = shutil.which("id")
    if os.statvfs(box.folder).f_flag & os.ST_NOSUID:
        raise Skip("temporary files are on a nosuid mount, so there is no control")
    control = box.new_path("id")
    for path in (mount.at("s", "id"), control):
        shutil.copy(program, path)
        os.chmod(path, 0o4755)
    same(as_user(None, control, "-u").stdout, b"0\n", "the control")
    same(os.stat(mount.at("s", "id")).st_mode & 0o7777, 0o4755, "mode")
    same(as_user(None, mount.at("s", "id"), "-u").stdout, b"%d\n" % NOBODY, "on the mount")


OVERLAY = """
cd "$1" && mkdir up work all &&
mount -t overlay -o "lowerdir=$2,upperdir=$1/up,workdir=$1/work" overlay all || exit 9
test -e all/id || exit 8
touch all/id; mv all/id all/moved; stat -c "%u %a" up/* 2>/dev/null
exit 0
"""


def test_setuid_files_of_root_in_a_user_s_store_do_not_come_out_through_an_overlay(box):
    """A user writes into his own store what he likes, also that a file is root's and setuid."""
    need_namespace()
    with users(box) as space:
        folder, store = os.path.join(space.home, "mnt"), os.path.join(space.home, "store.db")
        layers = os.path.join(space.home, "layers")
        space.as_nobody("mkdir", folder, layers)
        space.as_nobody(box.program, "mount", store, folder)
        try:
            done = space.as_nobody("cp", shutil.which("id"), os.path.join(folder, "id"))
            same(done.stderr, b"", "copy")
        finally:
            space.as_nobody(box.program, "umount", folder)
        change = "UPDATE sessfs_node SET uid = 0, gid = 0, mode = 0x89ed"
        change += " WHERE mode & 0x8000 = 0x8000"
        eventually(
            lambda: space.as_nobody("sqlite3", store, change).returncode == 0, "changing it"
        )
        done = space.as_nobody(box.program, "mount", store, folder)
        try:
            seen = space.as_nobody("stat", "-c", "%u %a", os.path.join(folder, "id")).stdout
            same(seen, b"0 4755\n", "the file of root")
            inside = ("unshare", "-Urm", "sh", "-c", OVERLAY, "sh", layers, folder)
            done = space.as_nobody(*inside)
            if done.returncode == 9 or b"unshare" in done.stderr:
                raise Skip("a user can make no overlay here")
            same(done.returncode, 0, f"the overlay shows the file: {done.stderr}")
            for top, _, names in os.walk(os.path.join(layers, "up")):
                for name in names:
                    st = os.lstat(os.path.join(top, name))
                    assert st.st_uid != 0, f"{name} is root's: {done.stdout}"
        finally:
            space.as_nobody(box.program, "umount", folder)


def test_a_link_in_a_mount_leads_only_who_follows_it(box):
    mount = open_mount(box)
    secret = box.new_path("secret")
    write(secret, b"secret")
    os.chmod(secret, 0o600)
    fifo = box.new_path("fifo")
    os.mkfifo(fifo)  # who opened it would hang
    for name, target in (("k.json", secret), ("l.jsonl", fifo), ("x", "../../../../etc/shadow")):
        os.symlink(target, mount.at("s", name))
        same(os.readlink(mount.at("s", name)), target, "target")
        same(as_user(None, "cat", mount.at("s", "k.json")).stdout, b"", "with a user's rights")
    same(read(mount.at("s", "k.json")), b"secret", "with root's rights")
    same(mount.keys(), [], "rows")
    mount.remount()
    same(os.readlink(mount.at("s", "l.jsonl")), fifo, "after a remount")
    mount.stop()
    mount.check()


def test_the_program_is_not_setuid_and_takes_no_helper_from_the_environment(box):
    need_root()
    same(os.stat(box.program).st_mode & 0o6000, 0, "setuid bits")
    fake = box.new_folder("bin")
    marker = box.new_path("marker")
    for name in ("fusermount3", "fusermount", "mount", "umount"):
        write(os.path.join(fake, name), b'#!/bin/sh\necho "$0" >> "%s"\nexit 1\n' % marker.encode())
        os.chmod(os.path.join(fake, name), 0o755)
    environment = {"PATH": fake + ":" + os.environ["PATH"], "LIBMOUNT_MTAB": marker}
    folder, store = box.new_folder("mnt"), box.new_path("store") + ".db"
    for end in ("umount", "signal"):
        box.sessfs("mount", store, folder, env=environment, check=True)
        [pid] = harness.processes_of(box.program, folder)
        if end == "umount":
            box.sessfs("umount", folder, env=environment, check=True)
        else:
            os.kill(pid, signal.SIGTERM)
        eventually(lambda: not harness.alive(pid), "the daemon ends")
        same(mounts_below(folder), [], "mounts")
    same(os.path.exists(marker), False, "helpers of somebody else")
    tool("sh", "-c", "umount nothing || true", env=environment)
    same(os.path.exists(marker), True, "the control")


if __name__ == "__main__":
    harness.main(globals())
