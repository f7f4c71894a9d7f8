#!/usr/bin/python3 -B
# SPDX-License-Identifier: MIT
"""Torn lines, bad input, -o strict, -o exact: what is kept, and what is said about it.

The file always holds the bytes that were written, the rows are its valid lines, and the rest is
told three times: by sessfs check, by the attribute user.sessfs.invalid, and in the log.
"""

import errno
import glob
import os
import re
import signal
import time

import harness
from harness import append, errno_of, is_json, put, read, same, split_lines, tool, write

AGENTS = os.path.join(harness.TOP, "tests", "data", "agents")
ATTRIBUTE = "user.sessfs.invalid"
FINDING = re.compile(
    r"session '(.*)', key '(.*)', line (\d+), column (\d+): not JSON: ([^(;]+?)"
    r"(?: \((a draft): .*\)|; (.*))?$"
)
REASONS = {
    "unexpected end",
    "expected a value",
    "expected a key",
    "expected ':'",
    "expected ',' or ']'",
    "expected ',' or '}'",
    "invalid number",
    "invalid escape",
    "control character in a string",
    "invalid UTF-8",
    "nested too deeply",
    "more than one value",
}


def bad_lines(data):
    """Numbers of the lines that are neither JSON nor blank."""
    return [
        number
        for number, line in enumerate(split_lines(data), 1)
        if not is_json(line) and line.strip(b" \t\r\n")
    ]


def findings_in(text):
    """(session, key) -> [(line, column, reason, rest of the sentence)]"""
    found = {}
    for line in text.splitlines():
        match = FINDING.search(line)
        if match:
            place = (int(match[3]), int(match[4]), match[5], match[6] or match[7])
            found.setdefault((match[1], match[2]), []).append(place)
    return found


def findings(mount):
    return findings_in(mount.check())


def told_by_attribute(path):
    """(how many, line, column, reason), or None when there is nothing to tell."""
    try:
        value = os.getxattr(path, ATTRIBUTE).decode()
    except OSError as error:
        same(error.errno, errno.ENODATA, f"{ATTRIBUTE} of {path}")
        return None
    match = re.fullmatch(r"(\d+) invalid, first at line (\d+), column (\d+): (.+)", value)
    if not match:
        raise AssertionError(f"{ATTRIBUTE} is {value!r}")
    return int(match[1]), int(match[2]), int(match[3]), match[4]


def tells_the_same(found, path):
    """The attribute counts what check lists, and tells the first one's place."""
    first = (len(found), *found[0][:3]) if found else None
    same(told_by_attribute(path), first, f"{ATTRIBUTE} of {os.path.basename(path)}")


def killed(function, *arguments):
    """Runs it in a process that is killed, with all that it has opened, when it has returned."""
    ready, say = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            kept = function(*arguments)
            os.write(say, b"x")
            while kept is not say:
                signal.pause()
        finally:
            os._exit(1)
    os.close(say)
    done = os.read(ready, 1)
    os.close(ready)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    same(done, b"x", f"{function.__name__} of a process that was to be killed")


def opens_and_writes(path, flags, *parts):
    fd = os.open(path, os.O_WRONLY | flags, 0o644)
    for part in parts:
        put(fd, part)
    return fd


def appends(path, *parts):
    return opens_and_writes(path, os.O_APPEND | os.O_CREAT, *parts)


def saves(path, *parts):
    return opens_and_writes(path, os.O_TRUNC | os.O_CREAT, *parts)


def flushes(path, *parts):
    fd = appends(path, *parts)
    os.fsync(fd)
    return fd


def key_of(path):
    return os.path.basename(path).rsplit(".", 1)[0]


def all_is_told(mount, contents):
    """path -> bytes: the files, their rows, and what is said about the rest."""
    found = findings(mount)
    for path, data in contents.items():
        name = os.path.basename(path)
        same(read(path), data, f"the bytes of {name}")
        same(os.stat(path).st_size, len(data), f"the size of {name}")
        same(mount.rows("s", key_of(path)), harness.valid_lines(data), f"the rows of {name}")
        places = found.pop(("s", key_of(path)), [])
        same([place[0] for place in places], bad_lines(data), f"bad lines of {name}")
        lines = split_lines(data)
        for number, column, reason, _ in places:
            assert 1 <= column <= len(lines[number - 1]) + 1, f"{name}: column {column}"
            assert reason in REASONS, f"{name}: {reason}"
        tells_the_same(places, path)
    same(found, {}, "what else is told")


# Appenders that die

# What a writer leaves that is killed, what the next one appends, and what the file is then.
DEATHS = [
    ("sealed", b'{"n": 1}\n{"n": 2, "te', b'{"n": 3}\n', b'{"n": 1}\n{"n": 2, "te\n{"n": 3}\n'),
    ("glued", b'{"n": 1}\n{"n": 2, "te', b'xt": 3}\n', b'{"n": 1}\n{"n": 2, "text": 3}\n'),
    ("neither", b'{"n": 1}\n{"n": 2, "te', b"oops\n", b'{"n": 1}\n{"n": 2, "teoops\n'),
    ("either", b"[1,", b"2]\n", b"[1,2]\n"),
    ("number", b"12", b"34\n", b"1234\n"),
    ("whole", b'{"n": 1}', b'{"n": 2}\n', b'{"n": 1}\n{"n": 2}\n'),
    ("newline", b'{"n": 1}\n{"te', b'\n{"n": 2}\n', b'{"n": 1}\n{"te\n{"n": 2}\n'),
    ("torn again", b'{"n": 1}\n{"te', b'{"mo', b'{"n": 1}\n{"te{"mo'),
    ("character", '"caf\u00e9'.encode()[:-1], b'\xa9"\n', '"caf\u00e9"\n'.encode()),
    ("zeros", b"1\n" + bytes(4000), b"2\n", b"1\n" + bytes(4000) + b"\n2\n"),
    ("later", b'{"te', b'1\n{"no\n2\n', b'{"te\n1\n{"no\n2\n'),
]


def after_a_death(box, how, **named):
    mount, session = box.session(**named)
    contents = {}
    for name, left, then, expected in DEATHS:
        path = os.path.join(session, name + ".jsonl")
        killed(how, path, left)
        same(read(path), left, f"{name}: what the dead writer has left")
        yield mount, path, then
        contents[path] = left + then if "exact" in mount.options else expected
    all_is_told(mount, contents)


def test_what_a_killed_appender_leaves_is_closed_off_or_glued(box):
    for mount, path, then in after_a_death(box, appends):
        append(path, then)


def test_what_a_killed_appender_leaves_byte_for_byte_is_the_same(box):
    def bytewise(path, left):
        return appends(path, *(left[n : n + 1] for n in range(min(len(left), 30))), left[30:])

    for mount, path, then in after_a_death(box, bytewise):
        append(path, then)


def test_what_a_killed_writer_of_a_new_file_leaves_is_the_same(box):
    for mount, path, then in after_a_death(box, saves):
        append(path, then)


def test_what_is_left_is_closed_off_or_glued_in_another_mount_too(box):
    for mount, path, then in after_a_death(box, flushes):
        mount.remount()
        append(path, then)


def test_with_exact_a_file_is_what_was_written_whoever_dies(box):
    for mount, path, then in after_a_death(box, appends, options=["exact"]):
        killed(appends, path, then)


def test_the_rest_of_a_file_may_be_appended_by_cat(box):
    mount, session = box.session()
    path = os.path.join(session, "l.jsonl")
    data = b'{"n": 1, "text": "one"}\n[2, "two"]\n"three"\n'
    for cut in range(len(data) + 1):
        write(path, b"")
        for part in (data[:cut], data[cut:]):
            tool("sh", "-c", 'cat >> "$1"', "sh", path, stdin=part)
        same(read(path), data, f"the file that was cut at byte {cut}")
        same(mount.rows("s", "l"), data.splitlines(), f"rows of the file that was cut at {cut}")


def test_who_has_flushed_a_piece_of_a_line_goes_on_in_it(box):
    mount, session = box.session()
    contents = {}
    for flush in (os.fsync, os.fdatasync):
        path = os.path.join(session, f"l{len(contents)}.jsonl")
        fd = appends(path, b'{"n": 1}\n[2, ')
        flush(fd)
        same(read(path), b'{"n": 1}\n[2, ', "the piece is in the file")
        # Valid alone: behind a torn line of anybody else it would be a row.
        os.write(fd, b"3\n")
        flush(fd)
        os.write(fd, b"4")
        flush(fd)
        os.write(fd, b"5\n")
        os.close(fd)
        contents[path] = b'{"n": 1}\n[2, 3\n45\n'
    all_is_told(mount, contents)


def test_the_close_of_a_duplicate_is_no_end_of_a_line(box):
    mount, session = box.session()
    path = os.path.join(session, "l.jsonl")
    fd = appends(path, b'{"n": 1}\n[2, ')
    os.close(os.dup(fd))
    same(read(path), b'{"n": 1}\n', "the list")
    append(path, b'{"n": "another"}\n')
    os.write(fd, b"3]\n")
    os.close(fd)
    all_is_told(mount, {path: b'{"n": 1}\n{"n": "another"}\n[2, 3]\n'})


def test_a_writer_sees_its_own_unfinished_line(box):
    mount, session = box.session()
    for mode, before in (("w+b", b""), ("a+b", b""), ("a+b", b"1\n"), ("a+b", b'1\n{"torn')):
        path = os.path.join(session, f"{mode[0]}{len(before)}.jsonl")
        append(path, before)
        with open(path, mode, buffering=0) as file:
            file.write(b'{"half": ')
            data = before + b'{"half": '
            end = len(data)
            file.seek(0)
            same(file.read(), data, f"what the writer reads ({mode}, {before})")
            same(file.seek(-4, os.SEEK_CUR), end - 4, "a place in the line")
            same(file.read(2), data[-4:-2], "the middle of the line")
            same(os.fstat(file.fileno()).st_size, end, "the size that the writer sees")
            same(os.lseek(file.fileno(), 0, os.SEEK_END), end, "the end")
            same(os.lseek(file.fileno(), 0, os.SEEK_HOLE), end, "the first hole")
            same(os.lseek(file.fileno(), end - 1, os.SEEK_DATA), end - 1, "the last byte")
            error = errno_of(os.lseek, file.fileno(), end, os.SEEK_DATA)
            same(error, errno.ENXIO, "data behind the end")
            same(tool("cat", path).stdout, before, "what others read")
            same(tool("stat", "-c", "%s", path).stdout, b"%d\n" % len(before), "their size")
        same(read(path), data, "after close")


def test_another_writer_closes_off_a_piece_that_was_flushed(box):
    mount, session = box.session()
    path = os.path.join(session, "l.jsonl")
    first = flushes(path, b"1\n[2, ")
    append(path, b"3\n")
    os.write(first, b"4]\n")
    os.write(first, b"5\n")
    os.close(first)
    all_is_told(mount, {path: b"1\n[2, \n3\n4]\n5\n"})


# Savers that die


def test_a_killed_saver_of_a_document_leaves_a_draft_and_sql_the_last_valid_state(box):
    mount, session = box.session()
    old = b'{"v": "old"}'
    halves = {
        "half": [b'{"v": "new", "mo'],
        "nothing": [],
        "large": [b'{"v": "' + b"n" * 200_000],
        "zeros": [bytes(5000)],
    }
    for name, parts in halves.items():
        path = os.path.join(session, name + ".json")
        write(path, old)
        killed(saves, path, *parts)
        same(read(path), b"".join(parts), f"the draft of {name}")
        same(mount.rows("s", name), [old], f"{name} for SQL")
    found = findings(mount)
    same({key for _, key in found}, set(halves), "what check lists")
    for (_, key), places in found.items():
        same([place[3] for place in places], ["a draft"], f"what check says of {key}")
        tells_the_same(places, os.path.join(session, key + ".json"))
    mount.remount()
    for name, parts in halves.items():
        path = os.path.join(session, name + ".json")
        same(read(path), b"".join(parts), f"the draft of {name} after mounting again")
        write(path, b'{"v": "next"}')
        same(mount.rows("s", name), [b'{"v": "next"}'], f"{name} after the next save")
    same(findings(mount), {}, "what is told in the end")


def test_a_killed_saver_of_a_list_leaves_a_draft_when_a_line_is_torn(box):
    mount, session = box.session()
    old = b'{"v": 1}\n{"v": 2}\n'
    path = os.path.join(session, "l.jsonl")
    write(path, old)
    for count in range(3):
        killed(saves, path, b'{"w": 0}\n' * count + b'{"w": "')
        same(read(path), b'{"w": 0}\n' * count + b'{"w": "', "the draft")
        same(mount.rows("s", "l"), old.splitlines(), "rows")
        same([p[0] for p in findings(mount)[("s", "l")]], [count + 1], "the torn line")
    # given: what a killed saver has left may be whole by chance
    killed(saves, path, b'{"w": 0}\n{"w": 1}\n')
    all_is_told(mount, {path: b'{"w": 0}\n{"w": 1}\n'})


def test_a_saver_that_is_killed_before_its_rename_has_changed_nothing(box):
    mount, session = box.session()
    for name, old in (("k.json", b'{"v": 1}'), ("l.jsonl", b'{"v": 1}\n{"v": 2}\n')):
        path = os.path.join(session, name)
        write(path, old)
        killed(saves, path + ".tmp", b'{"v": 2, "mo')
        same(read(path), old, name)
        same(mount.rows("s", name[0]), old.splitlines(), f"rows of {name}")
        same(read(path + ".tmp"), b'{"v": 2, "mo', f"{name}.tmp")
    same(findings(mount), {}, "what is told")


def test_the_draft_of_a_list_ends_when_it_is_completed(box):
    mount, session = box.session()
    ways = {
        "append": (lambda path: append(path, b'": 3}\n4\n'), b'1\n2\n{"a": 3}\n4\n'),
        "sealed": (lambda path: append(path, b"3\n"), b'1\n2\n{"a\n3\n'),
        "newline": (lambda path: append(path, b"\n"), b'1\n2\n{"a\n'),
        "save": (lambda path: write(path, b"1\n2\n3\n"), b"1\n2\n3\n"),
        "cut": (lambda path: os.truncate(path, 4), b"1\n2\n"),
    }
    contents = {}
    for name, (complete, expected) in ways.items():
        path = os.path.join(session, name + ".jsonl")
        write(path, b"0\n")
        killed(saves, path, b'1\n2\n{"a')
        same(mount.rows("s", name), [b"0"], f"rows of the draft of {name}")
        complete(path)
        contents[path] = expected
    all_is_told(mount, contents)
    mount.remount()
    all_is_told(mount, contents)


# Bytes that are not JSON

# Lines, and where and why each bad one is not JSON.
BAD_LISTS = {
    "zeros": (b'{"n": 1}\n' + bytes(40) + b'\n{"n": 2}\n', [(2, 1, "expected a value")]),
    "zeros before": (bytes(40) + b'{"n": 1}\n2\n', [(1, 1, "expected a value")]),
    "not UTF-8": (b'1\n2\n{"a": "b\xff"}\n', [(3, 9, "invalid UTF-8")]),
    "cut character": (b'1\n"\xe6\x97"\n', [(2, 2, "invalid UTF-8")]),
    "cr lf": (b'{"n": 1}\r\nbad\r\n\r\n2\r\n', [(2, 1, "expected a value")]),
    "cr alone": (b"1\r2\n", [(1, 3, "more than one value")]),
    "blank": (b"\n\n1\n \t\n\r\n2\n\n", []),
    "mark": (b"\xef\xbb\xbf1\n2\n", [(1, 1, "expected a value")]),
    "comments": (b"// one\n1 // two\n# three\n2\n", [
        (1, 1, "expected a value"),
        (2, 3, "more than one value"),
        (3, 1, "expected a value"),
    ]),
    "python": (b"{'a': 1}\nNaN\nTrue\n[1,]\n", [
        (1, 2, "expected a key"),
        (2, 1, "expected a value"),
        (3, 1, "expected a value"),
        (4, 4, "expected a value"),
    ]),
    "half": (b'{"a": 1}\n{"a": \n{"a"', [(2, 7, "unexpected end"), (3, 5, "unexpected end")]),
    "deep": (b"[" * 1001 + b"]" * 1001 + b"\n1\n", [(1, 1001, "nested too deeply")]),
    "far": (b'1\n"' + b"x" * 200_000 + b'\x01"\n', [(2, 200_002, "control character in a string")]),
    "text": (b"all\nof\n\nit\n", [
        (1, 1, "expected a value"),
        (2, 1, "expected a value"),
        (4, 1, "expected a value"),
    ]),
}


def bad_lists_are_told(box, store):
    """store(path, data) puts the bytes there; then all places are told, everywhere."""
    mount, session = box.session()
    for name, (data, _) in BAD_LISTS.items():
        path = os.path.join(session, name + ".jsonl")
        store(path, data)
        same(read(path), data, f"the bytes of {name}")
        same(mount.rows("s", name), harness.valid_lines(data), f"the rows of {name}")
    found = findings(mount)
    for name, (data, expected) in BAD_LISTS.items():
        places = [place[:3] for place in found.pop(("s", name), [])]
        same(places, expected, f"what check says of {name}")
        tells_the_same(places, os.path.join(session, name + ".jsonl"))
    same(found, {}, "what else check says")
    return mount


def logged(mount):
    """As findings(), by the log."""
    return findings_in(mount.log())


def test_bad_lines_are_told_with_line_column_and_reason(box):
    mount = bad_lists_are_told(box, append)
    # One sentence for each write, about its first bad line.
    for name, (data, expected) in BAD_LISTS.items():
        said = logged(mount).get(("s", name), [])
        if name != "half":
            same([place[:3] for place in said], expected[:1], f"what the log says of {name}")


def test_bad_lines_that_come_one_by_one_are_told_one_by_one(box):
    def one_by_one(path, data):
        fd = appends(path)
        for line in data.splitlines(keepends=True):
            put(fd, line)
        os.close(fd)

    mount = bad_lists_are_told(box, one_by_one)
    for name, (data, expected) in BAD_LISTS.items():
        if name not in ("cr lf", "cr alone", "far"):  # splitlines() cuts these elsewhere
            said = logged(mount).get(("s", name), [])
            same([place[:3] for place in said], expected, f"what the log says of {name}")


def test_bad_lines_of_a_save_are_told_once(box):
    def save_over(path, data):
        write(path, b"0\n")
        # A save that ends in a torn line would be a draft.
        write(path, data if data.endswith(b"\n") else data + b"\n")
        if not data.endswith(b"\n"):
            os.truncate(path, len(data))

    mount, session = box.session()
    for name, (data, expected) in BAD_LISTS.items():
        if name == "half":
            continue
        path = os.path.join(session, name + ".jsonl")
        save_over(path, data)
        same(mount.rows("s", name), harness.valid_lines(data), f"the rows of {name}")
        said = logged(mount).get(("s", name), [])
        same([place[:3] for place in said], expected[:1], f"what the log says of {name}")


def test_the_number_of_a_line_counts_torn_ones(box):
    mount, session = box.session()
    path = os.path.join(session, "l.jsonl")
    append(path, b'1\n{"torn')
    append(path, b"3\nbad\n")
    append(path, b"5\nworse\n")
    said = [place[0] for place in logged(mount)[("s", "l")]]
    same(said, [2, 4, 6], "the lines that the log names")
    all_is_told(mount, {path: b'1\n{"torn\n3\nbad\n5\nworse\n'})


BAD_DOCUMENTS = {
    "empty": (b"", (1, 1, "unexpected end")),
    "half": (b'{\n  "a": [1,\n', (3, 1, "unexpected end")),
    "comment": (b'{\n  // why\n  "a": 1\n}\n', (2, 3, "expected a key")),
    "nan": (b'{"a": NaN}', (1, 7, "expected a value")),
    "mark": (b"\xef\xbb\xbf{}", (1, 1, "expected a value")),
    "zeros": (bytes(100), (1, 1, "expected a value")),
    "control": (b'["\n', (1, 3, "control character in a string")),
    "latin": (b'{"name":\n "caf\xe9"}', (2, 6, "invalid UTF-8")),
    "two": (b"{}\n{}\n", (2, 1, "more than one value")),
    "number": (b"[01]", (1, 3, "invalid number")),
}


def documents_are_told(mount, session):
    found = findings(mount)
    for name, (data, expected) in BAD_DOCUMENTS.items():
        path = os.path.join(session, name + ".json")
        same(read(path), data, f"the bytes of {name}")
        same(os.stat(path).st_size, len(data), f"the size of {name}")
        same(mount.rows("s", name), [b'{"last": "valid"}'], f"the row of {name}")
        places = found.pop(("s", name))
        same(places, [(*expected, "a draft")], f"what check says of {name}")
        tells_the_same(places, path)
    same(found, {}, "what else check says")


def test_a_document_that_is_not_json_is_a_draft(box):
    mount, session = box.session()
    for name, (data, expected) in BAD_DOCUMENTS.items():
        path = os.path.join(session, name + ".json")
        write(path, b'{"last": "valid"}')
        write(path, data)
        said = [place[:3] for place in logged(mount).get(("s", name), [])]
        same(said, [expected] if data else [], f"what the log says of {name}")
    documents_are_told(mount, session)
    mount.remount()
    documents_are_told(mount, session)
    for name, (data, _) in BAD_DOCUMENTS.items():
        path = os.path.join(session, name + ".json")
        write(path + ".new", b'{"next": 1}')
        os.rename(path + ".new", path)
        same(mount.rows("s", name), [b'{"next": 1}'], f"the row of {name} in the end")
    same(findings(mount), {}, "what is told in the end")


def test_a_document_that_was_never_valid_is_no_row(box):
    mount, session = box.session()
    for name, (data, expected) in BAD_DOCUMENTS.items():
        path = os.path.join(session, name + ".json")
        write(path + ".new", data)
        os.rename(path + ".new", path)
        same(read(path), data, f"the bytes of {name}")
        same(mount.rows("s", name), [], f"rows of {name}")


def test_a_sidecar_that_is_not_text_is_a_draft_and_told(box):
    mount, session = box.session()
    path = os.path.join(session, "l.hash")
    write(path, b"abc")
    write(path, b"a\0\xff")
    same(read(path), b"a\0\xff", "the bytes")
    same(mount.rows("s", "l:_hash"), [b"abc"], "the row")
    same(findings(mount)[("s", "l:_hash")], [(1, 1, "not text", "a draft")], "what check says")
    same(len(logged(mount)[("s", "l:_hash")]), 1, "sentences in the log")


def test_the_attribute_is_never_listed_stored_or_copied(box):
    mount, session = box.session()
    path = os.path.join(session, "l.jsonl")
    append(path, b"1\nbad\n")
    same(os.listxattr(path), [], "attributes that are listed")
    os.setxattr(path, ATTRIBUTE, b"all is well")
    same(told_by_attribute(path), (1, 2, 1, "expected a value"), "the attribute")
    tool("cp", "--preserve=all", path, path + ".copy")
    same(told_by_attribute(path + ".copy"), None, "the attribute of an ordinary copy")
    write(path, b"1\n")
    same(told_by_attribute(path), None, "the attribute after a good save")
    fd = os.open(path, os.O_RDONLY)
    os.unlink(path)
    append(path, b"bad\n")
    same(errno_of(os.getxattr, fd, ATTRIBUTE), errno.ENODATA, "of a file that is unlinked")
    os.close(fd)


# Truncation


def test_a_list_that_is_cut_in_the_middle_of_a_line_is_a_draft(box):
    mount, session = box.session()
    path = os.path.join(session, "l.jsonl")
    data = b'{"n": 1}\n{"n": 2}\n{"n": 3}\n'
    write(path, data)
    for size in (26, 20, 13):
        tool("truncate", "-s", str(size), path)
        same(read(path), data[:size], f"the file that was cut to {size} bytes")
    # 26 bytes end behind a whole value; the first cut into a line leaves the rows of that.
    same(mount.rows("s", "l"), data.splitlines(), "rows")
    same([p[0] for p in findings(mount)[("s", "l")]], [2], "the torn line")
    append(path, b": 4}\n")
    all_is_told(mount, {path: b'{"n": 1}\n{"n": 4}\n'})


def test_a_hole_behind_the_end_is_kept_as_zeros(box):
    mount, session = box.session()
    path = os.path.join(session, "l.jsonl")
    for grow in (os.truncate, lambda path, size: tool("truncate", "-s", str(size), path)):
        write(path, b"1\n2\n")
        grow(path, 5000)
        same(read(path), b"1\n2\n" + bytes(4996), "the file that grew")
        same(mount.rows("s", "l"), [b"1", b"2"], "rows")
        append(path, b"3\n")
        all_is_told(mount, {path: b"1\n2\n" + bytes(4996) + b"\n3\n"})


def test_a_hole_that_the_writer_leaves_is_kept_as_zeros(box):
    mount, session = box.session()
    path = os.path.join(session, "l.jsonl")
    write(path, b"1\n2\n")
    fd = os.open(path, os.O_RDWR)
    os.ftruncate(fd, 100)
    same(os.pread(fd, 200, 0), b"1\n2\n" + bytes(96), "what the writer sees")
    os.pwrite(fd, b"\n3\n", 200)
    os.close(fd)
    all_is_told(mount, {path: b"1\n2\n" + bytes(196) + b"\n3\n"})


CUTS = [
    ("to a line's end", b"", 9),
    ("of a torn line", b'{"n": 3', 18),
    ("of a line without its end", b'{"n": 3}', 18),
    ("to nothing", b"", 0),
    ("to its own size", b"", 18),
    ("by opening", b"", None),
]


def cut_beside_an_append(path, tail, size, synced):
    """One process cuts the end off, and another appends and is told that it has."""
    write(path, b'{"n": 1}\n{"n": 2}\n' + tail)
    fd = os.open(path, os.O_RDWR | (os.O_TRUNC if size is None else 0))
    if size is not None:
        os.ftruncate(fd, size)
    script = 'printf \'{"n": 9}\\n\' >> "$1"' + ('; sync "$1"' if synced else "")
    tool("sh", "-c", script, "sh", path)
    os.close(fd)
    return read(path)


def test_a_line_that_was_appended_stays_when_another_process_cuts_the_file(box):
    mount, session = box.session()
    plain = box.new_folder("plain")
    for name in ("l.jsonl", "d.json", "o.log"):
        for what, tail, size in CUTS:
            for synced in (False, True):
                same(
                    cut_beside_an_append(os.path.join(session, name), tail, size, synced),
                    cut_beside_an_append(os.path.join(plain, name), tail, size, synced),
                    f"{name}, cut {what}, synced: {synced}",
                )
    same(mount.rows("s", "l"), [b'{"n": 9}'], "rows")


# Real transcripts


def transcripts():
    found = sorted(glob.glob(os.path.join(AGENTS, "**", "*"), recursive=True))
    found = [path for path in found if os.path.isfile(path)]
    assert len(found) > 30, f"only {len(found)} files in {AGENTS}"
    return found


def by_cp(source, path):
    tool("cp", source, path)


def by_cat_in_pieces(source, path):
    """cat part >> list, three times."""
    data = read(source)
    step = len(data) // 3 + 1
    for start in (0, step, 2 * step):
        tool("sh", "-c", 'cat >> "$1"', "sh", path, stdin=data[start : start + step])


def by_lines(source, path):
    with open(source, "rb") as lines, open(path, "ab") as file:
        for line in lines:
            file.write(line)
            file.flush()


def by_a_small_buffer(source, path):
    with open(source, "rb") as lines, open(path, "wb", buffering=100) as file:
        for line in lines:
            file.write(line)


def copies_keep_their_bytes(box, copy, fits=lambda data: True, **named):
    mount, session = box.session(**named)
    contents = {}
    for number, source in enumerate(transcripts()):
        data = read(source)
        # All as lists: also what is text, or one document in many lines.
        path = os.path.join(session, f"{number}.jsonl")
        if fits(data):
            copy(source, path)
            contents[path] = data
    all_is_told(mount, contents)
    return sum(map(bool, map(bad_lines, contents.values())))


def test_real_transcripts_keep_their_bytes_by_cp(box):
    bad = copies_keep_their_bytes(box, by_cp)
    assert bad >= 10, f"only {bad} lists have bad lines"


def test_real_transcripts_keep_their_bytes_line_by_line(box):
    copies_keep_their_bytes(box, by_lines)


def test_real_transcripts_keep_their_bytes_through_a_small_buffer(box):
    copies_keep_their_bytes(box, by_a_small_buffer)


def test_real_transcripts_that_are_not_torn_may_be_appended_in_pieces(box):
    # The rest of a torn line may be valid alone, and the torn one is closed off then.
    copies_keep_their_bytes(box, by_cat_in_pieces, fits=lambda data: not bad_lines(data))


def test_with_exact_any_real_transcript_may_be_appended_in_pieces(box):
    bad = copies_keep_their_bytes(box, by_cat_in_pieces, options=["exact"])
    assert bad >= 10, f"only {bad} lists have bad lines"


def test_real_documents_are_rows_or_drafts(box):
    mount, session = box.session()
    drafts = set()
    for number, source in enumerate(transcripts()):
        data = read(source)
        path = os.path.join(session, f"{number}.json")
        tool("cp", source, path)
        same(read(path), data, source)
        same(mount.rows("s", str(number)), [data] if is_json(data) else [], f"the row of {source}")
        if not is_json(data):
            drafts.add(("s", str(number)))
    assert len(drafts) > 5, "the transcripts are no documents"
    found = findings(mount)
    same(set(found), drafts, "drafts that check lists")
    for (_, key), places in found.items():
        tells_the_same(places, os.path.join(session, key + ".json"))


# Strict


def strict_session(box):
    return box.session(options=["strict"])


def test_strict_says_in_the_log_what_it_refuses(box):
    mount, session = strict_session(box)
    path = os.path.join(session, "l.jsonl")
    fd = appends(path, b"1\n\n2\n")
    same(os.write(fd, b"3\n[4,]\n5\n"), 2, "bytes that were taken")
    same(errno_of(os.write, fd, b"[4,]\n5\n"), errno.EINVAL, "the bad line")
    same(errno_of(os.write, fd, b"oops\n"), errno.EINVAL, "another bad line")
    os.close(fd)
    said = [place[:3] for place in logged(mount)[("s", "l")]]
    same(said, [(5, 4, "expected a value"), (5, 1, "expected a value")], "what the log says")
    all_is_told(mount, {path: b"1\n\n2\n3\n"})


def test_strict_judges_a_line_with_the_piece_that_it_goes_on(box):
    mount, session = strict_session(box)
    flushes = {"close": lambda fd: os.close(os.dup(fd)), "fsync": os.fsync, "not": lambda fd: None}
    contents = {}
    for name, flush in flushes.items():
        path = os.path.join(session, name + ".jsonl")
        fd = appends(path, b'1\n{"a":')
        flush(fd)
        same(errno_of(os.write, fd, b'{"b":2}\n'), errno.EINVAL, f"{name}: a value in the middle")
        same(errno_of(os.write, fd, b"\n"), errno.EINVAL, f"{name}: a newline in the middle")
        os.write(fd, b"3}\n")
        os.close(fd)
        contents[path] = b'1\n{"a":3}\n'
    all_is_told(mount, contents)


def test_strict_and_exact_judge_a_line_with_the_torn_one_before_it(box):
    mount, session = box.session(options=["strict", "exact"])
    path = os.path.join(session, "l.jsonl")
    killed(appends, path, b'1\n{"a":')
    fd = appends(path)
    same(errno_of(os.write, fd, b'{"b":2}\n'), errno.EINVAL, "a value in the middle")
    os.write(fd, b"3}\n")
    os.close(fd)
    all_is_told(mount, {path: b'1\n{"a":3}\n'})


def test_strict_refuses_a_saved_list_with_a_bad_line_at_close(box):
    mount, session = strict_session(box)
    path = os.path.join(session, "l.jsonl")
    write(path, b"1\n2\n")
    for data in (b"1\nbad\n2\n3\n", b'1\n{"torn', bytes(10), b"bad"):
        fd = saves(path, data)
        same(errno_of(os.fsync, fd), errno.EINVAL, "fsync")
        same(read(path), data, "the refused bytes are the draft")
        same(mount.rows("s", "l"), [b"1", b"2"], "rows")
        os.write(fd, b"x\n")
        same(errno_of(os.close, fd), errno.EINVAL, "close")
        same(read(path), data + b"x\n", "the refused bytes are the draft")
        same(mount.rows("s", "l"), [b"1", b"2"], "rows")
        assert ("s", "l") in findings(mount), "check does not list the draft"
    write(path, b"1\n2\n3\n")
    all_is_told(mount, {path: b"1\n2\n3\n"})


def test_strict_refuses_a_rename_that_would_be_a_bad_save(box):
    mount, session = strict_session(box)
    for name, old in (("k.json", b"[1]"), ("l.jsonl", b"1\n2\n"), ("new.json", None)):
        path = os.path.join(session, name)
        if old:
            write(path, old)
        for data in (b"[1", b"1\nbad\n"):
            write(path + ".tmp", data)
            same(errno_of(os.rename, path + ".tmp", path), errno.EINVAL, f"rename to {name}")
            same(read(path + ".tmp"), data, "the bytes under the old name")
            same(os.path.exists(path), bool(old), f"{name} is there")
            if old:
                same(read(path), old, name)
        same(mount.rows("s", name.split(".")[0]), old.split() if old else [], f"rows of {name}")
        write(path + ".tmp", b"[3]")
        os.rename(path + ".tmp", path)
        same(mount.rows("s", name.split(".")[0]), [b"[3]"], f"rows of {name} in the end")
    same(findings(mount), {}, "what check says")
    assert "refused" in mount.log(), "the log does not say that something was refused"


def test_strict_never_publishes_a_bad_line_of_a_writer_that_pauses(box):
    mount, session = strict_session(box)
    kept = []
    for name, old, new in (
        ("bad.jsonl", b"1\n", b"2\nbad\n3\n"),
        ("good.jsonl", b"1\n", b"2\n3\n"),
        ("k.json", b"1", b"[2"),
    ):
        path = os.path.join(session, name)
        write(path, old)
        kept.append((path, old, saves(path, new)))
    good = os.path.join(session, "good.jsonl")
    harness.eventually(lambda: read(good) == b"2\n3\n", "a good list is published")
    time.sleep(0.5)
    for path, old, fd in kept:
        if path != good:
            same(read(path), old, f"{os.path.basename(path)} while its writer pauses")
            same(mount.rows("s", key_of(path)), [old.strip()], "the row")
        same(errno_of(os.close, fd), 0 if path == good else errno.EINVAL, "close")


def test_a_strict_mount_goes_on_with_what_another_one_has_kept(box):
    mount, session = box.session()
    files = {
        "bad": b"1\nbad\n\n2\n",
        "torn": b'1\n{"a":',
        "zeros": b"1\n" + bytes(10) + b"\n",
        "last": b"1\nbad",
    }
    for name, data in files.items():
        append(os.path.join(session, name + ".jsonl"), data)
    draft = os.path.join(session, "draft.jsonl")
    write(draft, b"0\n")
    write(draft, b'1\nbad\n{"a":')
    document = os.path.join(session, "k.json")
    write(document, b"[1")
    mount.remount(options=["strict"])
    for name in files:
        append(os.path.join(session, name + ".jsonl"), b"3\n")
    all_lists = {
        "bad": b"1\nbad\n\n2\n3\n",
        "torn": b'1\n{"a":\n3\n',
        "zeros": b"1\n" + bytes(10) + b"\n3\n",
        "last": b"1\nbad\n3\n",
    }
    for name, data in all_lists.items():
        path = os.path.join(session, name + ".jsonl")
        same(read(path), data, name)
        same(mount.rows("s", name), harness.valid_lines(data), f"rows of {name}")
    append(draft, b"2}\n")
    same(read(draft), b'1\nbad\n{"a":2}\n', "the draft of a list, which is still bad")
    same(mount.rows("s", "draft"), [b"0"], "its rows")
    same(read(document), b"[1", "the draft of a document")
    write(document, b"[1]")
    same(mount.rows("s", "k"), [b"[1]"], "its row")
    mount.remount(options=[])
    append(draft, b"4\n")
    same(read(draft), b'1\nbad\n{"a":2}\n4\n', "the draft in a mount that is not strict")
    same(mount.rows("s", "draft"), [b"1", b'{"a":2}', b"4"], "its rows")


# What check says


def test_many_torn_lines_of_one_list_take_as_long_as_they_are_long(box):
    mount, session = box.session()
    path = os.path.join(session, "l.jsonl")
    torn = b'{"text": "' + b"x" * (1 << 20)
    fds = [os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND) for _ in range(100)]
    for fd in fds:
        put(fd, torn)
    for fd in fds:
        os.close(fd)
    mount.stop()
    mount.start()
    same(os.stat(path).st_size, len(fds) * len(torn), "bytes of the list")
    append(path, b"1\n")
    same(mount.rows("s", "l"), [b"1"], "rows behind it")


def test_check_ends_with_0_whatever_users_have_written_and_with_1_when_a_row_is_bad(box):
    mount, session = box.session()
    append(os.path.join(session, "l.jsonl"), b"1\nbad\nworse\n")
    write(os.path.join(session, "k.json"), b"[1")
    done = box.sessfs("check", mount.store)
    same(done.returncode, 0, "check of a store with kept bytes")
    same(len(done.stdout.splitlines()), 3, "lines that check prints")
    assert b"clean, 3 notes" in done.stderr, done.stderr
    mount.stop()
    same(box.sessfs("check", mount.store).stdout, done.stdout, "check without a mount")
    mount.insert("s", "l", 1, "{not json")
    done = box.sessfs("check", mount.store)
    same(done.returncode, 1, "check of a store with a row that is not JSON")
    assert b"session 's', key 'l', item 1: the row is not JSON" in done.stdout, done.stdout
    same(box.sessfs("check", mount.store + ".none").returncode, 2, "check of nothing")


harness.main(globals())
