#!/usr/bin/python3 -B
# SPDX-License-Identifier: MIT
"""What the program says: options that count for nothing are refused, names can be pasted back."""

import errno
import itertools
import json
import os
import pty
import re
import subprocess

import harness
from harness import (
    append,
    errno_of,
    eventually,
    need_namespace,
    need_root,
    need_tool,
    read,
    same,
    tool,
    write,
)
from users import let_all_run

ESCAPE = "esc\x1b[31mred"
NAMES = [ESCAPE, "two words", "new\nline", "it's", "caf\u00e9", "plain", "back\\slash", "$HOME"]


def said(done):
    return (done.stdout + done.stderr).decode("utf-8", "replace")


def refuses(box, *arguments, words, status=2):
    done = box.sessfs(*arguments, stdin=b"{}")
    same(done.returncode, status, (arguments, said(done)))
    for word in words:
        assert word in said(done), (arguments, word, said(done))


def test_options_that_a_verb_cannot_honour_are_refused(box):
    mount, session = box.session()
    write(f"{session}/k.json", b"1")
    mount.stop()
    store = mount.store
    for arguments, words in [
        (("append", "-o", "max_size=1G", store, "s/l.jsonl"), ["max_size=1G", "table=, strict"]),
        (("put", "-o", "ttl=1d", store, "s/k.json"), ["ttl=1d", "for mounts"]),
        (("import", "-o", "ro", store, box.folder), ["'ro'", "for mounts"]),
        (("import", "--from-table=t", store, box.folder), ["--from-table", "agentscope-rows"]),
        (("ls", "-o", "ro", store), ["'ro'", "takes table="]),
        (("cat", "-o", "strict", store, "s/k.json"), ["'strict'", "takes table="]),
        (("check", "-o", "exact", store), ["'exact'"]),
        (("mount", "-o", "threads=0", store, box.folder), ["threads=0", "from 1 to 1024"]),
        (("gc", "--list", "--undo", store), ["--undo", "--list"]),
        (("gc", "--list", "--older-than=1d", store), ["--older-than", "--list"]),
        (("gc", "--list", "-n", store), ["--dry-run", "--list"]),
        (("gc", "--undo", "--grace=1d", store), ["--grace", "--undo"]),
        (("export", "--json", store, "-"), ["--json", "stream"]),
        (("backup", "--force", store, "-"), ["--force", "standard output"]),
        (("umount", "-l", "-f", store), ["--lazy", "--force"]),
    ]:
        refuses(box, *arguments, words=words)
    same(box.sessfs("cat", store, "s/k.json").stdout, b"1", "the file")


def test_who_wrote_a_value_wrong_is_told_what_is_right(box):
    store = box.new_path("store")
    for arguments, words in [
        (("gc", "--older-than=5", store), ["'5'", "--older-than takes a time", "7d"]),
        (("gc", "--larger-than=x", store), ["'x'", "500M"]),
        (("gc", "--grace=never", store), ["'never'", "--grace takes a time", "7d"]),
        (("gc", "--keep-last=-1", store), ["'-1'", "a whole number"]),
        (("sessions", "--sort=name", store), ["'name'", "id, age, size and items"]),
        (("import", "--layout=x", store, box.folder), ["'x'", "tree", "agentscope-files"]),
        (("ls", "-zl", store), ["no option '-z'"]),
        (("ls", "-lz", store), ["no option '-z'"]),
        (("ls", "--all", store), ["no option '--all'"]),
        (("ls", ""), ["takes a store"]),
        (("mount", "", box.folder), ["takes a store"]),
        (("restore", "", store), ["takes a file"]),
    ]:
        refuses(box, *arguments, words=words)


def test_sentences_say_what_is_the_case(box):
    mount, session = box.session()
    write(f"{session}/k.json", b"1")
    store = mount.store
    folder = box.new_folder()
    for verb in ("ls", "check", "sessions", "stats", "gc", "config"):
        refuses(box, verb, session, words=[f"name the store itself, which is {store}"],
                status=2 if verb == "check" else 1)
    refuses(box, "put", session, "x.json", words=[f"which is {store}"], status=1)
    refuses(box, "backup", "--force", store, folder, words=["is a directory"], status=1)
    refuses(box, "gc", "--undo", store, "never", words=["never: nothing of that name"], status=1)
    mount.stop()
    refuses(box, "umount", store, words=[f"the store {store} is not mounted"], status=1)
    done = box.sessfs("put", "-o", "strict", store, "s/k.json", stdin=b"{")
    same(done.returncode, 1, said(done))
    assert "are kept" not in said(done) and "(-o strict)" in said(done), said(done)
    same(box.sessfs("cat", store, "s/k.json").stdout, b"1", "the file")
    assert ": 1 session, 1 file, 1 row; clean\n" in said(box.sessfs("check", store)), "plurals"
    copy = box.new_path("copy")
    done = box.sessfs("backup", store, copy)
    assert ": 1 session, 1 file, 1 item, " in said(done), said(done)


def test_a_store_is_named_by_its_mount_and_by_the_environment(box):
    mount, session = box.session()
    write(f"{session}/k.json", b"1")
    copy = box.new_path("copy")
    for command, printed in [
        (("ls", "s"), b"k.json\n"), (("cat", "s/k.json"), b"1"), (("config",), None),
        (("stats",), None), (("sessions",), None), (("check",), None), (("gc", "--list"), b""),
        (("put", "s/l.json"), b""), (("append", "s/m.jsonl"), b""), (("rm", "s/l.json"), b""),
        (("backup", copy), None),
    ]:
        options = [word for word in command[1:] if word.startswith("-")]
        others = command[1 + len(options):]
        done = box.sessfs(command[0], *options, mount.path, *others, stdin=b"2")
        same(done.returncode, 0, f"{command} by the mount: {said(done)!r}")
        same(printed in (None, done.stdout), True, f"what {command} prints: {done.stdout!r}")
    same(read(f"{session}/m.jsonl"), b"2", "what was appended")

    for name in (mount.store, mount.path):
        named = {"env": {"SESSFS_STORE": name}}
        same(box.sessfs("ls", **named).stdout, b"s/\n", f"{name}: ls")
        same(box.sessfs("cat", "s/k.json", **named).stdout, b"1", f"{name}: cat")
        for store in (mount.store, "-"):
            same(box.sessfs("ls", store, "s", **named).stdout, b"k.json\nm.jsonl\n", store)
        # What could be meant in two ways is a store, and nothing happens to anything else.
        done = box.sessfs("rm", "s/k.json", "s/m.jsonl", **named)
        same(done.returncode, 1, f"two paths: {said(done)!r}")
        same(sorted(os.listdir(session)), ["k.json", "m.jsonl"], "files")
    same(box.sessfs("ls", env={"SESSFS_STORE": ""}).returncode, 2, "an empty name")
    for words in (("ttl=1d",), ("ttl=1d", "pause=2")):
        for named in ({"env": {"SESSFS_STORE": mount.store}}, {}):
            done = box.sessfs("config", *words, cwd=box.folder, **named)
            same((done.returncode, done.stdout), (2, b""), said(done))
            assert b"a store is missing" in done.stderr, said(done)
    assert not os.path.exists(os.path.join(box.folder, "ttl=1d")), "a store was made"
    restored = {"env": {"SESSFS_STORE": box.new_path("restored")}}
    same(box.sessfs("restore", copy, **restored).returncode, 0, "a store to restore")
    same(box.sessfs("ls", **restored).stdout, b"s/\n", "what is in it")


def on_terminal(*command):
    """What a command prints to a terminal."""
    master, slave = pty.openpty()
    done = subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave)
    os.close(slave)
    shown = b""
    while True:
        try:
            block = os.read(master, 65536)
        except OSError:  # the other end is closed
            break
        if not block:
            break
        shown += block
    os.close(master)
    same(done.wait(), 0, shown)
    return shown.replace(b"\r\n", b"\n")


def test_names_on_a_terminal_are_shown_so_that_a_shell_takes_them_back(box):
    need_tool("bash")
    mount, _ = box.session("plain")
    for name in NAMES:
        os.makedirs(mount.at(name), exist_ok=True)
        write(mount.at(name, "k.json"), b'"%s"' % name[:3].encode())
    # One that SQL has made has a name of its own in the mount.
    mount.insert("sql\x1bid", "k", 0, "1")
    eventually(lambda: os.path.exists(mount.at("sql%1Bid")), "the rows are seen")
    listing = on_terminal(box.program, "ls", mount.store)
    assert b"\x1b" not in listing, listing
    lines = listing.decode().splitlines()
    same(len(lines), len(NAMES) + 1, listing)
    sessions = on_terminal(box.program, "sessions", mount.store)
    assert b"\x1b" not in sessions, sessions
    shown = [line.split(maxsplit=5)[5] for line in sessions.decode().splitlines()[1:-1]]
    same(sorted(name + "/" for name in shown), sorted(lines), "the names of both")
    for word in lines:
        script = f'"$0" cat "$1" {word}k.json'
        done = tool("bash", "-c", script, box.program, mount.store, check=False)
        same(done.returncode, 0, (word, said(done)))
    # Not on a terminal they are what they are.
    piped = box.sessfs("ls", mount.store).stdout
    assert (ESCAPE + "/\n").encode() in piped, piped


STAMP = r"\d{4}-\d\d-\d\d \d\d:\d\d"
LISTINGS = [
    (
        "sessions",
        r"  KEYS     ITEMS    SIZE  CHANGED           SESSION",
        [r"     1         1    2\.0K  (STAMP)  a", r"     2         3       5  (STAMP)  b"],
        r"     3         4    2\.0K  (STAMP)  total: 2 sessions",
    ),
    (
        "ls -l - b",
        r"MODE               SIZE  CHANGED           NAME",
        [
            r"-rw-r--r--            3  (STAMP)  k\.json",
            r"-rw-r--r--            4  (STAMP)  m\.jsonl",
            r"drwxr-sr-t         4096  (STAMP)  d/",
        ],
        r"                      7                    total: 2 files, 1 directory",
    ),
    (
        "ls -lh - a",
        r"MODE               SIZE  CHANGED           NAME",
        [r"-rw-r--r--         2\.0K  (STAMP)  k\.json"],
        r"                   2\.0K                    total: 1 file",
    ),
    (
        "gc -n --older-than=0s",
        r"ACTION  WHY            SIZE  CHANGED           SESSION",
        [
            r"remove  older-than     2\.0K  (STAMP)  a",
            r"remove  older-than        5  (STAMP)  b",
        ],
        r"                       2\.0K                    total: 2 sessions would be removed",
    ),
    (
        "gc --older-than=0s --name=a",
        r"ACTION  WHY            SIZE  CHANGED           SESSION",
        [r"remove  older-than     2\.0K  (STAMP)  a"],
        r"                       2\.0K                    total: 1 session removed",
    ),
    (
        "gc --list",
        r"STATE   REMOVED           UNTIL             PATH",
        [r"trash   (STAMP)  (STAMP)  a"],
        r"                                            total: 1 path can be restored",
    ),
]


def test_on_a_terminal_a_heading_stands_above_a_list_and_sums_below_it(box):
    """Elsewhere there are lines alone, as many as there are things."""
    store = box.new_path("store")
    for path, data in (("a/k.json", b'"%2046d"' % 1), ("b/k.json", b"{}\n")):
        box.sessfs("put", store, path, stdin=data, check=True)
    box.sessfs("append", store, "b/m.jsonl", stdin=b"1\n2\n", check=True)
    mount = box.mount(store=store)
    os.mkdir(mount.at("b/d"))
    os.chmod(mount.at("b/d"), 0o3755)
    mount.stop()
    for command, heading, lines, sums in LISTINGS:
        words = command.split()
        words = [*words, store] if "-" not in words else [store if w == "-" else w for w in words]
        shown = on_terminal(box.program, *words).decode().splitlines()
        wanted = [heading, *sorted(lines), sums]
        shown[1:-1] = sorted(shown[1:-1])
        for pattern, line in itertools.zip_longest(wanted, shown, fillvalue=""):
            assert re.fullmatch(pattern.replace("STAMP", STAMP), line), (command, pattern, shown)
        if "gc" not in words:
            piped = box.sessfs(*words, check=True).stdout.decode().splitlines()
            same(sorted(piped), shown[1:-1], f"{command}: elsewhere")
    piped = box.sessfs("gc", "--list", store, check=True).stdout.decode()
    assert re.fullmatch(f"trash   removed {STAMP}  until {STAMP}  a\n", piped), piped
    same(on_terminal(box.program, "sessions", "--name=none", store), b"", "of nothing")
    told = on_terminal(box.program, "sessions", "--json", store)
    same([session["name"] for session in json.loads(told)], ["b"], "as JSON")


def test_a_backup_to_the_standard_output_is_a_store(box):
    mount, session = box.session()
    append(f"{session}/l.jsonl", b'{"n": 1}\n')
    folder = box.new_folder()
    done = tool(box.program, "backup", mount.store, "-", cwd=folder)
    same(done.stdout[:15], b"SQLite format 3", "the beginning")
    same(os.listdir(folder), [], "files")
    copy = box.new_path("copy")
    write(copy, done.stdout)
    same(box.sessfs("cat", copy, "s/l.jsonl", check=True).stdout, b'{"n": 1}\n', "the list")
    script = '"$1" backup "$2" - > /dev/full'
    done = harness.shell(script, box.program, mount.store, check=False)
    same(done.returncode, 1, said(done))


def test_only_a_session_has_a_ttl(box):
    mount, session = box.session()
    write(f"{session}/k.json", b"1")
    write(mount.at("note.txt"), b"note")
    os.mkdir(f"{session}/folder")
    os.setxattr(session, "user.sessfs.ttl", b"7d")
    for path in (f"{session}/k.json", f"{session}/folder", mount.at("note.txt"), mount.path):
        error = errno_of(os.setxattr, path, "user.sessfs.ttl", b"7d")
        same(error, errno.EOPNOTSUPP, path)
    # It may be copied to where it means nothing.
    folder = box.new_folder()
    same(box.sessfs("export", mount.store, folder).returncode, 0, "export")
    done = box.sessfs("import", "--to=t/below", mount.store, folder)
    same(done.returncode, 0, said(done))
    same(read(mount.at("t", "below", "s", "k.json")), b"1", "the copy")


def torn(count, folder):
    """A folder with so many torn lists, and one that is whole."""
    for number in range(count):
        os.mkdir(f"{folder}/s{number}")
        write(f"{folder}/s{number}/l.jsonl", b'{"n": 1}\n{"n": \n' * 10 + b'{"n": ')
    os.mkdir(f"{folder}/whole")
    write(f"{folder}/whole/l.jsonl", b'{"n": 1}\n')
    return folder


def test_an_import_says_once_which_files_hold_lines_that_are_not_json(box):
    folder = torn(38, box.new_folder())
    write(f"{folder}/s37/k.json", b"{half")
    write(f"{folder}/s37/k.txt", b"{half")
    for mounted in (False, True):
        store = box.new_path("store")
        mount = box.mount(store=store) if mounted else None
        done = box.sessfs("import", store, folder)
        same(done.returncode, 0, said(done))
        wanted = (
            rf"sessfs: 39 files are not valid JSON, or have lines that are not: "
            rf"s\d+/[lk]\.jsonl?, s\d+/[lk]\.jsonl?, s\d+/[lk]\.jsonl? and 36 more; "
            rf"the bytes are kept, and 'sessfs check {store}' lists them\n"
        )
        assert re.fullmatch(wanted, done.stderr.decode()), (mounted, said(done))
        same(box.sessfs("import", store, folder).stderr, b"", f"{mounted}: what is unchanged")
        append(f"{folder}/s3/l.jsonl", b"oops\n")
        done = box.sessfs("import", "--json", store, folder)
        same(json.loads(done.stdout)["invalid"], 1, "as JSON")
        wanted = b"sessfs: 1 file is not valid JSON, or has lines that are not: s3/l.jsonl; the"
        assert done.stderr.startswith(wanted), done.stderr
        if mount:
            mount.stop()


def test_a_strict_import_does_not_repeat_a_warning_for_each_file(box):
    folder = torn(8, box.new_folder())
    done = box.sessfs("import", "-o", "strict", box.new_path("store"), folder)
    same(done.returncode, 1, said(done))
    lines = done.stderr.decode().splitlines()
    same(sum("line 2, column 7: not JSON" in line for line in lines), 5, said(done))
    same(lines[-1], "sessfs: 6 more warnings of this kind", said(done))


WITHOUT_A_LOG = """
if [ -e /dev/log ]; then
	mount --bind /dev/null /dev/log
fi
exec "$@"
"""


def test_a_mount_without_a_system_log_says_where_it_logs(box):
    need_root()
    need_namespace()
    apart = ["unshare", "-m", "--propagation", "slave", "sh", "-ec", WITHOUT_A_LOG, "sh"]
    store, path = box.new_path("store") + ".db", box.new_folder("mnt")
    script = '"$0" mount "$1" "$2" && mkdir "$2/s" && printf "{}\\n{" > "$2/s/l.jsonl"'
    script += ' && "$0" umount "$2"'
    done = tool(*apart, "sh", "-c", script, box.program, store, path, check=False)
    same(done.returncode, 0, said(done))
    assert f"logs to {store}.log" in said(done), said(done)
    text = read(f"{store}.log").decode()
    assert "is mounted on" in text and "session 's', key 'l', line 2" in text, text
    same(os.stat(f"{store}.log").st_mode & 0o777, 0o600, "the mode of the log")
    # One in which nobody is warned of anything goes with the mount.
    os.unlink(f"{store}.log")
    script = '"$0" mount "$1" "$2" && test -e "$1.log" && "$0" umount "$2"'
    done = tool(*apart, "sh", "-c", script, box.program, store, path, check=False)
    same(done.returncode, 0, said(done))
    same(os.path.exists(f"{store}.log"), False, "a log without a warning")


def test_the_log_of_several_mounts_stays_for_all_of_them(box):
    need_root()
    need_namespace()
    apart = ["unshare", "-m", "--propagation", "slave", "sh", "-ec", WITHOUT_A_LOG, "sh"]
    store = box.new_path("store") + ".db"
    one, other = box.new_folder("mnt"), box.new_folder("mnt")
    script = """
        "$0" mount "$1" "$2"
        "$0" mount "$1" "$3"
        eval "$4"
        "$0" umount "$2"
        eval "$5"
        "$0" umount "$3"
    """
    warned = 'mkdir "$3/s" && echo { >> "$3/s/l.jsonl"', 'echo { >> "$3/s/k.jsonl"'
    for first, then in ((warned[0], ":"), (":", " && ".join(warned))):
        command = (script, box.program, store, one, other, first, then)
        done = tool(*apart, "sh", "-ec", *command, check=False)
        same(done.returncode, 0, said(done))
        text = read(f"{store}.log").decode()
        assert "session 's', key 'l', line 1" in text, text
        os.unlink(f"{store}.log")
        os.unlink(store)


def test_a_name_that_somebody_has_laid_beside_the_store_is_not_logged_to(box):
    need_root()
    need_namespace()
    apart = ["unshare", "-m", "--propagation", "slave", "sh", "-ec", WITHOUT_A_LOG, "sh"]
    store, path = box.new_path("store") + ".db", box.new_folder("mnt")
    victim = box.new_path("victim")
    write(victim, b"precious")
    for make in (os.symlink, os.link):
        make(victim, f"{store}.log")
        script = '"$0" mount "$1" "$2" && "$0" umount "$2"'
        done = tool(*apart, "sh", "-c", script, box.program, store, path, check=False)
        same(done.returncode, 0, said(done))
        assert f"{store}.log cannot be written" in said(done), said(done)
        same(read(victim), b"precious", make.__name__)
        os.unlink(f"{store}.log")


def test_what_fusermount3_says_is_repeated(box):
    need_root()
    need_tool("setpriv")
    folder = box.new_folder("home")
    for path in (box.folder, folder):
        os.chmod(path, 0o777)
    let_all_run(box, box.new_folder("program"))
    if tool(*harness.AS_NOBODY, "test", "-w", "/dev/fuse", check=False).returncode == 0:
        raise harness.Skip("everybody may mount here")
    os.mkdir(f"{folder}/mnt")
    os.chmod(f"{folder}/mnt", 0o777)
    done = tool(*harness.AS_NOBODY, box.program, "mount", f"{folder}/store", f"{folder}/mnt",
                check=False)
    same(done.returncode, 1, said(done))
    assert "cannot mount on" in said(done) and ": fuse" in said(done), said(done)
    assert "is /dev/fuse there" not in said(done), said(done)


if __name__ == "__main__":
    harness.main(globals())
