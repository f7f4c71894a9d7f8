#!/usr/bin/python3 -B
# SPDX-License-Identifier: MIT
"""Whole trees of real agents go in and come back, and their lines are rows."""

import os
import socket

import harness
from harness import need_tool, read, same, same_trees, shell, split_lines, tool, tree, write

STATE_ENDS = (".json", ".jsonl", ".hash")


def shared_data():
    """Folders of real input: the large collection if it is there, else the small one."""
    large = os.path.join(os.path.dirname(harness.TOP), "shared", "data")
    for candidate in (large, os.path.join(harness.TOP, "tests", "data")):
        if os.path.isdir(candidate) and os.listdir(candidate):
            return candidate
    return None


def awkward_session(folder):
    """A session with everything that a copy must keep and a parser may stumble on."""
    os.makedirs(os.path.join(folder, "sub", "deep er", "空"))
    os.makedirs(os.path.join(folder, "empty folder"))
    files = {
        "torn.jsonl": b'{"n": 1}\n{"n": 2}\n{"n": ',
        "malformed.jsonl": b'{"n": 1}\n{"n": \n{"n": 3}\n',
        "blank.jsonl": b'\n\n{"n": 1}\n\n  \n{"n": 2}\n\n',
        "crlf.jsonl": b'{"n": 1}\r\n{"n": 2}\r\nnope\r\n{"n": 3}',
        "nul.jsonl": b'{"n": 1}\n' + bytes(300) + b'\n{"n": 2}\n',
        "latin1.jsonl": b'{"n": "caf\xe9"}\n{"n": "caf\xc3\xa9"}\n',
        "bom.jsonl": b'\xef\xbb\xbf{"n": 1}\n{"n": 2}\n',
        "nan.jsonl": b'{"n": NaN}\n{"n": -0.0e+1}\n[Infinity]\n"x"\n7\nnull\n',
        "separators.jsonl": '{"a": "\u2028\u0085"}\n{"b": 1}\n'.encode(),
        "surrogate.jsonl": b'{"a": "\xed\xa0\x80"}\n{"a": "\\ud800"}\n',
        "empty.jsonl": b"",
        "newline.jsonl": b"\n",
        "long.jsonl": b'{"n": "' + b"x" * 300000 + b'"}\n{"n": 2}\n',
        "many.jsonl": b"".join(b'{"n": "%s"}\n' % (b"y" * (n % 97)) for n in range(3000)),
        "no bytes.json": b"",
        "half.json": b'{"a": [1, 2',
        "comment.json": b'{"a": 1} // no\n',
        "not a number.json": b'{"a": NaN}',
        "good.json": b' {"a" : 1}\n\n',
        "latin1 text.json": b'{"n": "caf\xe9"}',
        "list.hash": b"deadbeef",
        "list.jsonl": b'{"n": 1}\n',
        "plain.txt": os.urandom(70000),
        "zero": b"",
        ".json": b"not a key",
        "sub/deep er/空/k.json": b'{"deep": true}',
        "sub/deep er/空/k.hash": b"0badcafe",
        "sub/100%.jsonl": b"1\n2\n3\n",
    }
    for number, (name, data) in enumerate(files.items()):
        path = os.path.join(folder, name)
        write(path, data)
        os.chmod(path, (0o600, 0o644, 0o640, 0o755, 0o444)[number % 5])
    os.symlink("plain.txt", os.path.join(folder, "link"))
    os.symlink("/nowhere/to be/found", os.path.join(folder, "sub", "dangling.json"))
    os.mkfifo(os.path.join(folder, "fifo"), 0o620)
    with socket.socket(socket.AF_UNIX) as unix:
        here = os.getcwd()
        os.chdir(folder)
        unix.bind("socket")
        os.chdir(here)
    os.chmod(os.path.join(folder, "empty folder"), 0o711)


def age(folder):
    """Times in the past, each different: rsync takes those of one second for equal."""
    walk = os.walk(folder)
    paths = [os.path.join(top, name) for top, dirs, files in walk for name in dirs + files]
    for number, path in enumerate(sorted(paths, reverse=True) + [folder]):
        moment = 1_234_567_890_123_456_789 - 1_001_000_001_001 * number
        os.utime(path, ns=(10**9 * number, moment), follow_symlinks=False)


def source_tree(box):
    """A folder of sessions to copy from."""
    source = box.new_folder("source")
    data = shared_data()
    if data:
        for name in sorted(os.listdir(data)):
            path = os.path.join(data, name)
            if os.path.isdir(path):
                tool("cp", "-a", "--no-preserve=ownership", path, source)
    os.mkdir(os.path.join(source, "awkward"))
    awkward_session(os.path.join(source, "awkward"))
    shell('chmod -R u+rwX "$1"', source)
    age(source)
    return source


def without_sockets(source):
    """tar leaves them out."""
    for top, _, names in os.walk(source):
        if "socket" in names:
            os.unlink(os.path.join(top, "socket"))
    age(source)


def sessions_of(source):
    """Each folder that could be a session by itself: the second level of the tree."""
    for group in sorted(os.listdir(source)):
        for name in sorted(os.listdir(os.path.join(source, group))):
            path = os.path.join(source, group, name)
            if os.path.isdir(path):
                yield path


def key_of(path):
    """The key of a state file by its path below the session."""
    stem, end = os.path.splitext(path)
    if end not in STATE_ENDS or os.path.basename(path) in STATE_ENDS:
        return None, None
    return (stem + ":_hash" if end == ".hash" else stem), end


def torn(data):
    """Whether the last line is neither JSON nor ended."""
    return bool(data) and not data.endswith(b"\n") and not harness.is_json(split_lines(data)[-1])


def expect_rows(mount, session, folder, saved_by_rename=False):
    """The rows of a session are exactly the valid lines and documents of the folder."""
    expected = {}
    for top, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(top, name)
            key, end = key_of(os.path.relpath(path, folder))
            if key is None or not os.path.isfile(path) or os.path.islink(path):
                continue
            data = read(path)
            if end == ".jsonl":
                rows = harness.valid_lines(data)
                if saved_by_rename and torn(data):
                    rows = (rows, [])  # a draft: SQL may keep seeing what was there before
            elif end == ".json":
                rows = [data] if harness.is_json(data) else []
            else:
                rows = [data]
            expected[key] = rows
    for key, rows in expected.items():
        seen = mount.rows(session, key)
        if isinstance(rows, tuple):
            assert seen in rows, f"rows of {key!r}: {harness.shorten(seen)}"
        else:
            same(seen, rows, f"rows of {session!r} {key!r}")
            same(mount.indexes(session, key), list(range(len(rows))), f"indexes of {key!r}")
    keys = {os.fsdecode(key) for name, key in mount.keys() if os.fsdecode(name) == session}
    same(keys - expected.keys(), set(), f"keys of {session!r} that no file explains")


def expect_only_json(mount):
    query = f"SELECT session_id, state_key, item_index FROM {harness.TABLE}"
    query += " WHERE NOT json_valid(state_data) AND state_key NOT LIKE '%:\\_hash' ESCAPE '\\'"
    same(mount.sql(query), [], "rows that SQLite does not take for JSON")


def expect_same(source, target, hint):
    """diff finds nothing, and modes, owners, times and links agree."""
    difference = 'diff -r --no-dereference -x fifo -x socket "$1" "$2"'
    plain = shell(difference, source, target, check=False)
    same((plain.returncode, plain.stdout), (0, b""), f"{hint}: diff -r")
    same_trees(tree(source, times=True), tree(target, times=True), f"{hint}: ")


def cp(source, target):
    """The content of one folder into another, which exists."""
    shell('cp -a "$1/." "$2/"', source, target)


def tar(source, target):
    shell('tar -C "$1" --format=posix -cf - . | tar -C "$2" -xpf -', source, target)


def rsync(source, target):
    need_tool("rsync")
    tool("rsync", "-a", "--specials", source + "/", target + "/")


def expect_nothing_to_transfer(source, target, hint):
    need_tool("rsync")
    again = tool("rsync", "-a", "--checksum", "--itemize-changes", source + "/", target + "/")
    same(again.stdout, b"", f"{hint}: what a second rsync changes")


def round_trip(box, copy, saved_by_rename=False):
    """In as one session, checked, remounted, checked again, and back."""
    source = source_tree(box)
    if copy is tar:
        without_sockets(source)
    mount, session = box.session("all")
    copy(source, session)
    expect_same(source, session, "copied in")
    expect_rows(mount, "all", source, saved_by_rename)
    expect_only_json(mount)
    expect_nothing_to_transfer(source, session, "copied in")
    mount.check()
    mount.remount()
    expect_same(source, session, "after mounting again")
    expect_nothing_to_transfer(source, session, "after mounting again")
    expect_rows(mount, "all", source, saved_by_rename)
    back = box.new_folder("back")
    copy(session, back)
    expect_same(source, back, "copied back")
    mount.stop()
    mount.check()


def test_a_tree_copied_by_cp_comes_back_the_same(box):
    round_trip(box, cp)


def test_a_tree_copied_by_tar_comes_back_the_same(box):
    round_trip(box, tar)


def test_a_tree_copied_by_rsync_comes_back_the_same(box):
    round_trip(box, rsync, saved_by_rename=True)


def sessions_trip(box, copy, saved_by_rename=False):
    source = source_tree(box)
    mount = box.mount()
    for folder in sessions_of(source):
        # One level of the collection becomes the root's level: folder names are session names.
        target = mount.at(os.path.basename(folder))
        os.makedirs(target, exist_ok=True)
        copy(folder, target)
        shell('touch -r "$1" "$2"', folder, target)
    merged = box.new_folder("merged")
    for folder in sessions_of(source):
        target = os.path.join(merged, os.path.basename(folder))
        os.makedirs(target, exist_ok=True)
        copy(folder, target)
        shell('touch -r "$1" "$2"', folder, target)
    seen, expected = tree(mount.path, times=True), tree(merged, times=True)
    seen.pop(""), expected.pop("")
    same_trees(expected, seen, "sessions copied in: ")
    names = sorted(os.listdir(merged))
    same(sorted(os.listdir(mount.path)), names, "directories at the root")
    for name in names:
        if "%" not in name:
            expect_rows(mount, name, os.path.join(merged, name), saved_by_rename)
    expect_only_json(mount)
    mount.remount()
    seen = tree(mount.path, times=True)
    seen.pop("")
    same_trees(expected, seen, "after mounting again: ")
    mount.check()


def test_folders_copied_to_the_root_by_cp_are_sessions(box):
    sessions_trip(box, cp)


def test_folders_copied_to_the_root_by_tar_are_sessions(box):
    sessions_trip(box, tar)


def test_folders_copied_to_the_root_by_rsync_are_sessions(box):
    sessions_trip(box, rsync, saved_by_rename=True)


def test_torn_and_malformed_lines_are_in_the_file_and_not_among_the_rows(box):
    mount, session = box.session()
    data = b'{"n": 1}\n{"n": \n\n\xff\xfe\n{"n": 2}\r\n{"torn": '
    write(os.path.join(session, "log.jsonl"), data)
    same(read(os.path.join(session, "log.jsonl")), data, "the file")
    same(mount.rows("s", "log"), [b'{"n": 1}', b'{"n": 2}\r'], "the rows")
    mount.remount()
    same(read(os.path.join(session, "log.jsonl")), data, "the file after mounting again")
    mount.check()


def test_the_attribute_user_sessfs_invalid_tells_of_lines_that_are_not_json(box):
    mount, session = box.session()
    good, bad = os.path.join(session, "good.jsonl"), os.path.join(session, "bad.jsonl")
    write(good, b'{"n": 1}\n')
    write(bad, b'{"n": 1}\nnot json\n{"n": 2}\n{{{\n')
    assert harness.errno_of(os.getxattr, good, "user.sessfs.invalid") != 0
    assert b"2" in os.getxattr(bad, "user.sessfs.invalid")
    assert "bad" in mount.check(), "sessfs check does not list the file"


if __name__ == "__main__":
    harness.main(globals())
