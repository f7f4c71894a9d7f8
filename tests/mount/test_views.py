#!/usr/bin/python3 -B
# SPDX-License-Identifier: MIT
"""Views: questions in paths."""

import errno
import fcntl
import json
import mmap
import os
import random
import signal
import subprocess
import sys
import tarfile
import threading
import time

import asked
import harness
from harness import TABLE, append, errno_of, eventually, processor_time, read, same, tool, write

ROLES = ("user", "assistant", "tool", "system")
AGENTS = ("planner", "coder", "critic")


def line_of(random_, number):
    words = {"role": random_.choice(ROLES), "n": number, "content": "x" * random_.randrange(60)}
    if random_.random() < 0.7:
        words["agent"] = random_.choice(AGENTS)
    return json.dumps(words).encode()


def view(path, question):
    """The path of a file, seen through a question in its directory."""
    return os.path.join(os.path.dirname(path), "@" + question, os.path.basename(path))


def lines(*numbers):
    return b"".join(b'{"n": %d}\n' % number for number in numbers)


def list_of(box, count, **named):
    mount, session = box.session(**named)
    path = os.path.join(session, "l.jsonl")
    append(path, lines(*range(count)))
    return mount, path


# Windows


def test_the_last_lines(box):
    _, path = list_of(box, 100)
    same(read(view(path, "last=3")), lines(97, 98, 99), "the last three")
    same(read(view(path, "last=0")), b"", "none")
    same(read(view(path, "last=1000")), read(path), "more than there are")
    same(read(view(path, "first=2")), lines(0, 1), "the first two")
    same(read(view(path, "items=5-7")), lines(5, 6, 7), "by index")
    same(read(view(path, "items=98-")), lines(98, 99), "from an index on")
    same(read(view(path, "bytes=25")), lines(98, 99), "by bytes")
    same(read(view(path, "first=5,bytes=20")), lines(3, 4), "the newest of the first five")


def test_what_is_no_row_is_not_shown(box):
    _, path = list_of(box, 2)
    append(path, b'\ngarbage\n{"n": 2}')
    same(read(view(path, "last=2")), lines(1, 2), "with a newline behind each")


def test_a_question_may_stand_in_any_directory(box):
    mount, path = list_of(box, 4)
    os.mkdir(mount.at("s", "d"))
    append(mount.at("s", "d", "k.jsonl"), lines(7, 8))
    same(read(mount.at("@last=1", "s", "l.jsonl")), lines(3), "of the root")
    same(read(mount.at("s", "@last=1", "d", "k.jsonl")), lines(8), "of a session")
    same(read(mount.at("s", "d", "@last=1", "k.jsonl")), lines(8), "of a directory in it")
    same(errno_of(os.stat, mount.at("@last=1", "s", "@first=1")), errno.ENOENT, "they do not nest")


def test_what_is_no_list_is_shown_as_it_is(box):
    mount, path = list_of(box, 4)
    write(mount.at("s", "agent.json"), b'{"a": 1}')
    write(mount.at("s", "l.hash"), b"abc")
    write(mount.at("s", "notes.txt"), b"text")
    os.symlink("agent.json", mount.at("s", "link"))
    seen = mount.at("s", "@last=2")
    same(sorted(os.listdir(seen)), ["agent.json", "l.jsonl", "link", "notes.txt"], "the names")
    same(read(os.path.join(seen, "agent.json")), b'{"a": 1}', "the document")
    same(read(os.path.join(seen, "notes.txt")), b"text", "an ordinary file")
    same(os.readlink(os.path.join(seen, "link")), "agent.json", "a symbolic link")
    same(errno_of(os.stat, os.path.join(seen, "l.hash")), errno.ENOENT, "a sidecar")


def test_what_is_named_as_a_sidecar_and_is_none_is_listed(box):
    mount, _ = list_of(box, 1)
    for name in ("l.hash", ".hash"):
        write(mount.at("s", name), b"abc")
    os.mkdir(mount.at("s", "d.hash"))
    os.symlink("l.jsonl", mount.at("s", "link.hash"))
    for clauses, name in (("last=1", "l.jsonl"), ("as=items", "l"), ("as=text", "l.txt")):
        seen = mount.at("s", "@" + clauses)
        same(sorted(os.listdir(seen)), [".hash", "d.hash", name, "link.hash"], clauses)
        for shown in os.listdir(seen):
            os.lstat(os.path.join(seen, shown))


def test_views_are_never_listed(box):
    mount, path = list_of(box, 4)
    read(view(path, "last=1"))
    found = tool("find", ".", cwd=mount.path).stdout.split()
    same(sorted(found), [b".", b"./s", b"./s/l.jsonl"], "find")
    tool("rm", "-r", mount.at("s"))
    same(os.listdir(mount.path), [], "rm -r")


def test_sizes_are_those_of_what_is_read(box):
    _, path = list_of(box, 50)
    for question in ("last=7", ".n=1+2+3", "bytes=100"):
        with open(view(path, question), "rb") as file:
            size = os.fstat(file.fileno()).st_size
            mapped = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
            same(bytes(mapped), file.read(), f"{question}: a mapping")
            mapped.close()
            same(os.lseek(file.fileno(), 0, os.SEEK_END), size, "its end")
        same(os.stat(view(path, question)).st_size, size, "stat")
        same(len(read(view(path, question))), size, "the bytes")
    same(os.stat(path).st_ino == os.stat(view(path, "last=7")).st_ino, False, "its number")


def test_a_wrong_question_is_not_there_and_the_log_says_why(box):
    mount, path = list_of(box, 1)
    same(errno_of(read, view(path, "last=x")), errno.ENOENT, "no number")
    eventually(lambda: "last=" in mount.log(), "the sentence")
    same(errno_of(read, view(path, "last=" + "1" * 300)), errno.ENAMETOOLONG, "too long")
    same(errno_of(os.stat, os.path.join(os.path.dirname(path), "@types")), errno.ENOENT, "no view")
    os.mkdir(mount.at("s", "real"))
    os.rename(mount.at("s", "real"), mount.at("s", "@last=9"))
    same(os.listdir(mount.at("s", "@last=9")), [], "what is real wins")


def test_who_asks_wrong_questions_in_a_loop_does_not_fill_the_log(box):
    mount, path = list_of(box, 1)
    for number in range(1000):
        for question in ("last=x", f"first=x{number}", "as=texts", "colour=red"):
            same(errno_of(os.stat, view(path, question)), errno.ENOENT, question)
    said = [line for line in mount.log().splitlines() if "=" in line]
    same(len([line for line in said if "@last=x:" in line]), 1, "of equal ones")
    same(len(said) <= 40, True, f"{len(said)} sentences of 4,000")
    last = [line for line in said if "not logged for a minute" in line]
    same(len(last) >= 1, True, "the last one")


def test_lines_by_when_they_were_made(box):
    mount, path = list_of(box, 3)
    for day in range(3):
        mount.sql(
            f"UPDATE {TABLE} SET created_at = ? WHERE item_index = ?",
            (f"2020-01-0{day + 1} 00:00:00", day),
        )
    eventually(lambda: read(view(path, "since=2020-01-02")) == lines(1, 2), "since")
    same(read(view(path, "before=2020-01-02")), lines(0), "before")
    same(read(view(path, "since=2020-01-02,before=2020-01-03")), lines(1), "both")
    append(path, lines(3))
    same(read(view(path, "since=1h")), lines(3), "an age")
    same(read(view(path, "since=2020-01-02,last=1")), lines(3), "with a limit")
    copy = os.path.join(box.folder, "copy")
    tool("cp", view(path, "since=1h"), copy)
    same(read(copy), lines(3), "a copy, for which the number must stay")


def test_lines_of_no_known_time_are_asked_for_by_none(box):
    mount, path = list_of(box, 3)
    mount.sql(f"UPDATE {TABLE} SET created_at = '2020-01-01 00:00:00'")
    mount.sql(f"UPDATE {TABLE} SET created_at = 'some day' WHERE item_index = 1")
    eventually(lambda: read(view(path, "before=2020-01-03")) == lines(0, 2), "before")
    same(read(view(path, "since=1970-01-01")), lines(0, 2), "since")


# Time


SLOW_WORD = "aaaaaaaabaaaaaaa"


def rests(pid):
    """Whether a process does nothing for a while."""
    begin = processor_time(pid)
    time.sleep(0.3)
    return processor_time(pid) == begin


def slow_view(box):
    """One that takes seconds of a processor to find out."""
    mount, session = box.session()
    path = os.path.join(session, "l.jsonl")
    line = b'"' + b"a" * 4000 + SLOW_WORD.encode() + b'"\n'
    for _ in range(40):
        append(path, line * 500)
    return mount, view(path, "match=" + "+".join([SLOW_WORD] * 14))


def test_who_is_stopped_while_lines_are_looked_for_ends_at_once(box):
    mount, seen = slow_view(box)
    for what in (signal.SIGINT, signal.SIGKILL):
        begin = processor_time(mount.pid)
        reader = subprocess.Popen(["cat", seen], stdout=subprocess.DEVNULL)
        eventually(lambda: processor_time(mount.pid) > begin + 0.2, "the daemon looks")
        same(reader.poll(), None, "it waits")
        begin = processor_time(mount.pid)
        reader.send_signal(what)
        same(reader.wait(), -what, "it was stopped")
        eventually(lambda: rests(mount.pid), "the daemon rests")
        took = processor_time(mount.pid) - begin
        same(took < 1, True, f"{what.name}: the daemon went on for {took:.2f} s of a processor")
    same(read(view(os.path.join(mount.path, "s", "l.jsonl"), "last=0")), b"", "it goes on")


def call_often(end):
    while not end.wait(0.001):
        signal.pthread_kill(threading.main_thread().ident, signal.SIGUSR1)


def test_a_signal_that_ends_nobody_ends_no_request(box):
    _, session = box.session()
    path = os.path.join(session, "l.jsonl")
    for _ in range(5):
        append(path, (b'"' + b"a" * 4000 + SLOW_WORD.encode() + b'"\n') * 500)
    most = harness.rounds("SESSFS_ROUNDS", 6, 12)
    slow = [view(path, "match=" + "+".join([SLOW_WORD] * words)) for words in range(2, most)]
    heard = []
    signal.signal(signal.SIGUSR1, lambda *_: heard.append(1))
    try:
        while slow:
            process = subprocess.Popen(["stat", slow.pop()], stdout=subprocess.DEVNULL)
            while process.poll() is None:
                process.send_signal(signal.SIGSTOP)
                process.send_signal(signal.SIGCONT)
                time.sleep(0.001)
            same(process.returncode, 0, "stopped and continued")
            end = threading.Event()
            caller = threading.Thread(target=lambda: call_often(end))
            caller.start()
            try:
                os.stat(slow.pop())
            finally:
                end.set()
                caller.join()
    finally:
        signal.signal(signal.SIGUSR1, signal.SIG_DFL)
    assert heard, "no signal came"


# Against a reference


COUNT = harness.rounds("SESSFS_QUESTIONS", 400, 2000)
DATA = os.path.join(harness.TOP, "tests", "data")


def made_at(index):
    return f"2026-01-{index // 24 % 28 + 1:02} {index % 24:02}:00:00"


def real_lists(folder):
    """The bytes of all lists that programs have left."""
    with tarfile.open(os.path.join(DATA, "clients.tar")) as packed:
        for entry in packed.getmembers():
            if entry.isfile() and entry.name.endswith(".jsonl"):
                yield packed.extractfile(entry).read()
    for place, _, names in sorted(os.walk(folder)):
        for name in sorted(names):
            if name.endswith(".jsonl"):
                yield read(os.path.join(place, name))


def encoded(value, random_):
    some = random_.random() < 0.2
    return "".join(
        chr(byte) if chr(byte).isalnum() and byte < 128 and not some else f"%{byte:02X}"
        for byte in value
    )


def values_of(lines_, random_):
    """A few values that are in the lines, and clauses that ask for them."""
    line = random_.choice(lines_)
    if not line.members:
        return
    path, found = random_.choice(sorted(line.members.items()))
    if path and all(path):
        yield "." + ".".join(encoded(key, random_) for key in path), random_.choice(found)[0]
    for name, paths in (("role", asked.ROLE), ("agent", asked.AGENT)):
        value = line.by(paths)
        if value is not None:
            yield name, value
    for role in asked.SPELLED:
        yield "role", role


def random_words(lines_, random_):
    texts = random_.choice(lines_).texts
    if texts:
        text = random_.choice(texts)
        begin = random_.randrange(len(text) + 1)
        yield text[begin : begin + random_.randrange(1, 12)]


def random_limits(lines_, random_):
    count = len(lines_)
    size = sum(len(line.line) for line in lines_)
    limit = random_.choice(("first", "last", ""))
    if limit:
        yield f"{limit}={random_.randrange(count + 2)}"
    if random_.random() < 0.3:
        yield f"bytes={random_.randrange(size + 100)}"


def random_places(lines_, random_):
    count = len(lines_)
    if random_.random() < 0.2:
        begin = random_.randrange(count + 1)
        yield f"items={begin}-" + random_.choice(("", str(begin + random_.randrange(count))))
    for name in ("since", "before"):
        if random_.random() < 0.15:
            yield f"{name}=" + made_at(random_.randrange(count))


def random_question(lines_, random_, placed=True):
    """placed: also by index, and by when they were made."""
    clauses = []
    for name, value in values_of(lines_, random_):
        if value and random_.random() < 0.25:
            prefix = random_.choice(("", "", "not-"))
            clauses.append(f"{prefix}{name}={encoded(value, random_)}")
    for word in random_words(lines_, random_):
        if word and random_.random() < 0.2:
            clauses.append("match=" + encoded(word, random_))
    clauses += random_limits(lines_, random_)
    if placed:
        clauses += random_places(lines_, random_)
    random_.shuffle(clauses)
    # Those of one name may be one clause.
    if len(clauses) > 1 and clauses[0].split("=")[0] == clauses[1].split("=")[0]:
        first = clauses.pop(0)
        clauses[0] = first + "+" + clauses[0].split("=", 1)[1]
    return ",".join(clauses)


def test_random_questions_show_what_a_reference_says(box):
    seed = int(os.environ.get("SESSFS_SEED") or "1")
    random_ = random.Random(seed)
    made = [line_of(random_, number) for number in range(500)]
    lists = []
    mount, session = box.session()
    for data in [b"\n".join(made) + b"\n", *real_lists(os.path.join(DATA, "agents"))]:
        path = os.path.join(session, f"{len(lists)}.jsonl")
        append(path, data)
        lines_ = [line for line in map(asked.facts, data.split(b"\n")) if line]
        for index, line in enumerate(lines_):
            line.made = made_at(index)
        if lines_:
            lists.append((path, lines_))
    mount.sql(
        f"UPDATE {TABLE} SET created_at = printf('2026-01-%02d %02d:00:00',"
        " item_index / 24 % 28 + 1, item_index % 24)"
    )
    eventually(lambda: read(view(lists[0][0], "before=2026-01-02")).count(b"\n") == 24, "times")
    wrong, empty, asked_for = [], 0, 0

    def ask(part):
        nonlocal empty, asked_for
        random_ = random.Random(f"{seed} {part}")
        while asked_for < COUNT and not wrong:
            path, lines_ = random_.choice(lists)
            question = random_question(lines_, random_)
            if not question or len(question) > 254:
                continue
            asked_for += 1
            shown = read(view(path, question))
            empty += not shown
            if shown != asked.asked(question, lines_):
                wrong.append(f"seed {seed}: {os.path.basename(path)}: {question}: {shown[:300]}")

    readers = [threading.Thread(target=ask, args=(part,)) for part in range(4)]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join()
    same(wrong, [], "what was shown")
    same(asked_for >= COUNT and empty < asked_for * 3 // 4, True, f"{empty} of {asked_for} empty")
    box.note(f"{asked_for} questions of {len(lists)} lists, {empty} without an answer")


# Programs


def test_tools_read_views(box):
    mount, path = list_of(box, 100)
    seen = view(path, "last=3")
    same(tool("cat", seen).stdout, lines(97, 98, 99), "cat")
    same(tool("tail", "-n", "2", seen).stdout, lines(98, 99), "tail")
    same(tool("tail", "-c", "+10", seen).stdout, lines(97, 98, 99)[9:], "tail from a byte on")
    same(tool("head", "-n", "1", seen).stdout, lines(97), "head")
    same(tool("wc", "-lc", seen).stdout.split()[:2], [b"3", b"30"], "wc")
    same(tool("stat", "-c", "%s", seen).stdout, b"30\n", "stat")
    copy = box.new_path("copy")
    tool("cp", seen, copy)
    same(read(copy), lines(97, 98, 99), "cp")
    done = subprocess.run(["cp", path, seen], capture_output=True, check=False)
    same(done.returncode != 0 and b"are the same file" not in done.stderr, True, "cp into it")
    same(tool("cmp", copy, seen).returncode, 0, "cmp")


def test_jq_reads_views(box):
    harness.need_tool("jq")
    _, path = list_of(box, 100)
    same(tool("jq", "-c", ".n", view(path, ".n=3+7")).stdout, b"3\n7\n", "jq")
    same(tool("jq", "-s", "length", view(path, "first=5")).stdout, b"5\n", "jq of all")


def test_grep_finds_in_views_what_they_show_and_beside_them_no_view(box):
    mount, session = box.session()
    for name in ("a", "b"):
        for role in ("user", "tool"):
            append(os.path.join(session, f"{name}.jsonl"), b'{"role": "%s"}\n' % role.encode())
    read(view(os.path.join(session, "a.jsonl"), "role=user"))
    found = tool("grep", "-r", "role", "s/@role=user/", cwd=mount.path).stdout.splitlines()
    same(
        sorted(found),
        [b's/@role=user/%s.jsonl:{"role": "user"}' % name for name in (b"a", b"b")],
        "below a view",
    )
    found = tool("grep", "-rc", "role", ".", cwd=mount.path).stdout.split()
    same(sorted(found), [b"./s/a.jsonl:2", b"./s/b.jsonl:2"], "below the root")


PROGRAMS = {
    "node": (
        "view.js",
        """
const fs = require('fs');
const data = fs.readFileSync(process.argv[2]);
const lines = data.toString().trim().split('\\n').map(JSON.parse);
console.log(data.length, fs.statSync(process.argv[2]).size, lines.map(line => line.n).join());
fs.appendFileSync(process.argv[2], '{"n": 100}\\n');
""",
    ),
    "java": (
        "View.java",
        """
import java.nio.file.*;
class View {
    public static void main(String[] words) throws Exception {
        Path path = Path.of(words[0]);
        String numbers = String.join(",",
            Files.readAllLines(path).stream().map(line -> line.replaceAll("\\\\D", "")).toList());
        int read = Files.readAllBytes(path).length;
        System.out.println(read + " " + Files.size(path) + " " + numbers);
        Files.writeString(path, "{\\"n\\": 100}\\n", StandardOpenOption.APPEND);
    }
}
""",
    ),
    sys.executable: (
        "view.py",
        """
import json, os, sys
data = open(sys.argv[1], "rb").read()
numbers = [json.loads(line)["n"] for line in open(sys.argv[1])]
print(len(data), os.path.getsize(sys.argv[1]), ",".join(map(str, numbers)))
print('{"n": 100}', file=open(sys.argv[1], "a"))
""",
    ),
}


def read_and_append_by(box, program):
    harness.need_tool(program)
    _, path = list_of(box, 100)
    name, text = PROGRAMS[program]
    script = os.path.join(box.new_folder("program"), name)
    write(script, text.encode())
    done = tool(program, script, view(path, "last=2"), check=True)
    same(done.stdout.split(), [b"20", b"20", b"98,99"], "sizes and numbers")
    same(read(view(path, "last=2")), lines(99, 100), "what it has added")


def test_python_reads_and_appends(box):
    read_and_append_by(box, sys.executable)


def test_node_reads_and_appends(box):
    read_and_append_by(box, "node")


def test_java_reads_and_appends(box):
    read_and_append_by(box, "java")


def test_sizes_in_a_long_listing_are_those_of_what_is_read(box):
    mount, session = box.session()
    for name in range(20):
        append(os.path.join(session, f"{name}.jsonl"), lines(*range(name * 7)))
    for question in ("last=3", ".n=1+5+77", "first=50,bytes=111", "match=x"):
        seen = mount.at("s", "@" + question)
        for line in tool("ls", "-ln", seen).stdout.splitlines()[1:]:
            size, name = int(line.split()[4]), line.split()[-1].decode()
            same(len(read(os.path.join(seen, name))), size, f"{question}: {name}")


def test_copies_of_a_tree_meet_no_view(box):
    harness.need_tool("rsync")
    mount, path = list_of(box, 20)
    with open(view(path, "last=5"), "rb") as held, open(mount.at("@first=1", "s", "l.jsonl"), "rb"):
        for name, command in (
            ("rsync", ["rsync", "-a", mount.path + "/"]),
            ("cp", ["cp", "-a", mount.path + "/."]),
        ):
            copy = box.new_folder(name)
            tool(*command, copy, check=True)
            found = tool("find", ".", cwd=copy).stdout.split()
            same(sorted(found), [b".", b"./s", b"./s/l.jsonl"], name)
        tool("rm", "-r", mount.at("s"), check=True)
        same(os.listdir(mount.path), [], "rm -r")
        same(held.read(), lines(15, 16, 17, 18, 19), "what is open")


# Writing


def test_what_is_appended_through_a_view_goes_to_the_list(box):
    mount, path = list_of(box, 3)
    seen = view(path, "last=1")
    append(seen, lines(3))
    same(read(path), lines(0, 1, 2, 3), "the list")
    same(read(seen), lines(3), "the view")
    append(view(path, "last=0"), b'{"n": ')
    append(view(path, "last=0"), b"4}\n")
    same(len(mount.rows("s", "l")), 5, "a line in two writes")
    with open(seen, "ab", buffering=0) as file:
        file.write(lines(5))
        os.fsync(file.fileno())
    same(mount.rows("s", "l")[-1], b'{"n": 5}', "the row")


def test_nothing_else_is_written_through_a_view(box):
    mount, path = list_of(box, 3)
    write(mount.at("s", "agent.json"), b"1")
    seen = mount.at("s", "@last=1")
    inside = os.path.join(seen, "l.jsonl")
    for deed in (
        lambda: write(inside, b"1\n"),
        lambda: write(os.path.join(seen, "agent.json"), b"2"),
        lambda: write(os.path.join(seen, "new.jsonl"), b"2\n"),
        lambda: os.truncate(inside, 0),
        lambda: os.unlink(inside),
        lambda: os.mkdir(os.path.join(seen, "d")),
        lambda: os.rmdir(os.path.join(seen, "d")),
        lambda: os.rename(inside, os.path.join(seen, "m.jsonl")),
        lambda: os.rename(inside, mount.at("s", "m.jsonl")),
        lambda: os.rename(path, os.path.join(seen, "m.jsonl")),
        lambda: os.chmod(inside, 0o600),
        lambda: os.utime(inside),
        lambda: os.symlink("x", os.path.join(seen, "link")),
        lambda: os.setxattr(inside, "user.a", b"1"),
    ):
        same(errno_of(deed) in (errno.EROFS, errno.ENOENT), True, "a deed")
    same(read(path), lines(0, 1, 2), "the list")
    same(read(mount.at("s", "agent.json")), b"1", "the document")
    same(sorted(os.listdir(mount.at("s"))), ["agent.json", "l.jsonl"], "the names")


def test_what_is_no_append_any_more_is_refused(box):
    _, path = list_of(box, 3)
    fd = os.open(view(path, "last=1"), os.O_WRONLY | os.O_APPEND)
    fcntl.fcntl(fd, fcntl.F_SETFL, 0)
    same(errno_of(os.pwrite, fd, b"[7]", 0), errno.EROFS, "without O_APPEND")
    fcntl.fcntl(fd, fcntl.F_SETFL, os.O_APPEND)
    os.write(fd, lines(3))
    same(errno_of(os.ftruncate, fd, 0), errno.EROFS, "a cut")
    os.close(fd)
    same(read(path), lines(0, 1, 2, 3), "the list")


def test_a_shared_mapping_of_a_view_changes_nothing(box):
    _, path = list_of(box, 3)
    seen = view(path, "last=1")
    with open(seen, "rb", buffering=0) as other:
        fd = os.open(seen, os.O_RDWR | os.O_APPEND)
        mapped = mmap.mmap(fd, 0, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)
        mapped[0:1] = b"X"
        same(other.read(), lines(2), "who had it open before")
        same(read(seen), lines(2), "who opens it meanwhile")
        # The kernel tells of it at one of these or at each, as EIO when it has forgotten why.
        told = {errno_of(mapped.flush), errno_of(mapped.close), errno_of(os.close, fd)}
        same(bool(told & {errno.EROFS, errno.EIO}), True, "an error")
    same(read(path), lines(0, 1, 2), "the list")
    same(read(seen), lines(2), "who opens it afterwards")


def test_an_unfinished_line_is_its_writers_until_the_last_descriptor_is_closed(box):
    _, path = list_of(box, 1)
    script = """
        exec 3>> "$1"
        printf '{"half": ' >&3
        echo '{"n": 1}' >> "$2"
        echo '2}' >&3
    """
    subprocess.run(["sh", "-c", script, "sh", view(path, "last=1"), path], check=True)
    same(read(path), lines(0, 1) + b'{"half": 2}\n', "the list")


def test_a_view_has_the_owner_and_the_mode_of_what_it_shows(box):
    harness.need_root()
    mount, path = list_of(box, 1)
    os.chmod(path, 0o604)
    os.chown(path, 12, 34)
    os.chmod(mount.at("s"), 0o710)
    for seen, shown in ((view(path, "last=1"), path), (mount.at("@last=1", "s"), mount.at("s"))):
        one, other = os.stat(seen), os.stat(shown)
        same((one.st_mode, one.st_uid), (other.st_mode, other.st_uid), seen)


def test_a_lock_through_a_view_is_one_of_the_list(box):
    _, path = list_of(box, 3)
    with open(path, "rb") as file, open(view(path, "last=1"), "rb") as seen:
        fcntl.flock(file, fcntl.LOCK_EX)
        same(errno_of(fcntl.flock, seen, fcntl.LOCK_EX | fcntl.LOCK_NB), errno.EAGAIN, "a lock")


# What changes meanwhile


def test_an_open_window_shows_what_it_showed(box):
    _, path = list_of(box, 10)
    with open(view(path, "last=2"), "rb", buffering=0) as file:
        append(path, lines(10))
        same(file.read(5), lines(8)[:5], "its beginning")
        write(path, lines(77))
        same(file.read(), (lines(8) + lines(9))[5:], "the rest")
        same(os.fstat(file.fileno()).st_size, len(lines(8, 9)), "its size")
    same(read(view(path, "last=2")), lines(77), "the next one")


READ = """
import sys
path, count = sys.argv[1], int(sys.argv[2])
for _ in range(count):
    data = open(path, "rb").read()
    numbers = [int(line[6:-1]) for line in data.splitlines()]
    assert data.endswith(b"\\n") and len(numbers) <= 20, data
    assert numbers == list(range(numbers[0], numbers[-1] + 1)), numbers
"""


def test_windows_beside_who_appends_and_saves_are_whole(box):
    _, path = list_of(box, 100)
    readers = [
        subprocess.Popen([sys.executable, "-c", READ, view(path, "last=20"), "300"])
        for _ in range(2)
    ]
    first, number = 0, 100
    while any(reader.poll() is None for reader in readers):
        append(path, lines(number))
        number += 1
        if number % 10 == 0:
            first = number - 50
            write(path + ".tmp", lines(*range(first, number)))
            os.rename(path + ".tmp", path)
    same([reader.wait() for reader in readers], [0, 0], "the readers")


def test_views_of_two_mounts(box):
    one, path = list_of(box, 3)
    two = box.mount(store=one.store)
    same(read(two.at("s", "@last=1", "l.jsonl")), lines(2), "before")
    append(one.at("s", "@last=1", "l.jsonl"), lines(3))
    same(read(two.at("s", "@last=1", "l.jsonl")), lines(3), "at once")
    write(path, lines(9))
    same(read(two.at("s", "@last=1", "l.jsonl")), lines(9), "a save")


# Versions


def version(path):
    return os.getxattr(path, "user.sessfs.version").decode()


def has_version(path, expected):
    try:
        return version(path) == expected
    except OSError:
        return False


def rename_and_back(path):
    os.rename(path, path[:-7] + "m.jsonl")
    os.rename(path[:-7] + "m.jsonl", path)


def rename_over(path):
    write(path + ".tmp", lines(7))
    os.rename(path + ".tmp", path)


def unlink_and_write(path):
    os.unlink(path)
    write(path, lines(0, 1, 2))


def write_inside(path):
    with open(path, "r+b") as file:
        file.seek(6)
        file.write(b"9")


def test_the_version_of_a_list_moves_with_each_change_but_an_append(box):
    mount, path = list_of(box, 3)
    other = box.mount(store=mount.store)
    table, where = TABLE, "WHERE session_id = 's' AND state_key = 'l'"
    deeds = {
        "a line": (False, lambda: append(path, lines(3))),
        "one by another mount": (False, lambda: append(other.at("s", "l.jsonl"), lines(4))),
        "one by SQL": (False, lambda: mount.insert("s", "l", 5, b'{"n": 5}')),
        "one through a view": (False, lambda: append(view(path, "last=1"), lines(6))),
        "a torn line": (False, lambda: append(path, b'{"n": ')),
        "its end": (False, lambda: append(path, b"7}\n")),
        "a rename and back": (False, lambda: rename_and_back(path)),
        "a save": (True, lambda: write(path, lines(0, 1, 2))),
        "a save by another mount": (True, lambda: write(other.at("s", "l.jsonl"), lines(1, 2))),
        "a write in it": (True, lambda: write_inside(path)),
        "a cut": (True, lambda: os.truncate(path, len(lines(0)))),
        "a rename over it": (True, lambda: rename_over(path)),
        "another file": (True, lambda: unlink_and_write(path)),
        "an update": (True, lambda: mount.sql(f"UPDATE {table} SET state_data = '[7]' {where}")),
        "a deletion": (True, lambda: mount.sql(f"DELETE FROM {table} {where} AND item_index = 2")),
        "a gap that is filled": (True, lambda: mount.insert("s", "l", -1, b"[0]")),
    }
    for what, (moves, deed) in deeds.items():
        before = version(path)
        deed()
        same(version(path) != before, moves, what)
        now = version(path)
        # A name that leads to another file is so within 0.1 s.
        eventually(lambda: has_version(other.at("s", "l.jsonl"), now), f"{what}: elsewhere")
    before = version(path)
    mount.remount()
    same(version(path), before, "after it was mounted again")


def test_a_view_has_the_version_of_the_rows_that_it_shows(box):
    _, path = list_of(box, 3)
    seen = view(path, "first=1")
    same(version(seen), version(path), "the same")
    with open(seen, "rb") as file:
        before = os.getxattr(file.fileno(), "user.sessfs.version").decode()
        write(path, lines(7))
        same(os.getxattr(file.fileno(), "user.sessfs.version").decode(), before, "which is open")
        same(file.read(), lines(0), "its rows")
    same(version(seen), version(path), "looked up again")
    same(version(seen) != before, True, "it has moved")


def test_the_version_is_of_lists_alone_and_goes_nowhere_else(box):
    mount, path = list_of(box, 3)
    write(mount.at("s", "k.json"), b"{}")
    for other in ("", "s", "s/k.json", "s/@last=1", "s/@last=1/k.json"):
        same(errno_of(version, mount.at(*other.split("/"))), errno.ENODATA, other)
    same(os.listxattr(path), [], "it is not listed")
    before = version(path)
    os.setxattr(path, "user.sessfs.version", b"1")
    same(errno_of(os.removexattr, path, "user.sessfs.version"), errno.ENODATA, "removed")
    same(version(path), before, "as it was")
    folder = box.new_folder()
    tool("cp", "-a", path, folder)
    tool("rsync", "-aX", path, mount.at("s", "copy.jsonl"))
    same(os.listxattr(os.path.join(folder, "l.jsonl")), [], "a copy outside")
    same(version(mount.at("s", "copy.jsonl")) != before, True, "a copy inside")


def test_a_question_of_a_version_is_stale_when_that_has_moved(box):
    mount, path = list_of(box, 3)
    other = box.mount(store=mount.store)
    word = version(path)
    seen = view(path, f"first=1,if={word}")
    elsewhere = view(other.at("s", "l.jsonl"), f"first=1,if={word}")
    same(read(seen), lines(0), "as long as it is that")
    append(seen, lines(3))
    same(read(elsewhere), lines(0), "beside an append, on another mount")
    with open(seen, "rb", buffering=0) as file:
        write(other.at("s", "l.jsonl"), lines(7, 8))
        same(errno_of(read, seen), errno.ESTALE, "behind a save by another mount")
        same(errno_of(append, elsewhere, lines(9)), errno.ESTALE, "an append as well")
        same(file.read(), lines(0), "who has it open")
    same(os.stat(seen).st_size, len(lines(7)), "it can be looked at")
    same(read(view(path, f"first=1,if={version(seen)}")), lines(7), "of the new one")
    mount.sql(f"UPDATE {TABLE} SET state_data = '[7]' WHERE item_index = 0")
    same(errno_of(read, view(path, f"if={version(path)[:-1]}z")), errno.ESTALE, "no version")
    same(errno_of(read, view(path, f"if={word},if={word}")), errno.ENOENT, "twice")
    same(read(path), b"[7]\n" + lines(8), "the list")


def test_a_session_that_comes_back_has_lists_of_other_versions(box):
    mount, path = list_of(box, 3)
    before = version(path)

    def removed():
        """The kernel tells a moment later that nobody has the list open."""
        box.sessfs("gc", "--older-than=0s", mount.store, check=True)
        return not os.path.exists(path)

    eventually(removed, "it is in the trash")
    box.sessfs("gc", "--undo", mount.store, check=True)
    eventually(lambda: os.path.exists(path), "it is back")
    same(read(path), lines(0, 1, 2), "the list")
    same(version(path) != before, True, "its version")


# Mounts that are views


def said(**words):
    return json.dumps(words).encode() + b"\n"


def test_each_agent_of_a_team_has_a_memory_of_its_own(box):
    planner = box.mount(options=[r"view=agent=planner+critic\,last=2"])
    coder = box.mount(store=planner.store, options=[r"rw,view=.for=coder\,not-role=tool,nodev"])
    whole = box.mount(store=planner.store)
    os.mkdir(whole.at("s"))
    append(whole.at("s", "l.jsonl"), b"".join(said(agent="planner", n=n) for n in range(3)))
    append(planner.at("s", "l.jsonl"), said(agent="planner", n=3, **{"for": "coder"}))
    same(
        read(planner.at("s", "l.jsonl")),
        said(agent="planner", n=2) + said(agent="planner", n=3, **{"for": "coder"}),
        "the planner's",
    )
    append(coder.at("s", "l.jsonl"), said(agent="coder", role="tool", **{"for": "coder"}))
    same(
        read(coder.at("s", "l.jsonl")),
        said(agent="planner", n=3, **{"for": "coder"}),
        "the coder's",
    )
    append(coder.at("s", "l.jsonl"), said(agent="critic", n=5))
    heard = said(agent="planner", n=3, **{"for": "coder"}) + said(agent="critic", n=5)
    same(read(planner.at("s", "l.jsonl")), heard, "the planner hears of it")
    same(len(read(whole.at("s", "l.jsonl")).splitlines()), 6, "all")
    with open(planner.at("s", "l.jsonl"), "rb", buffering=0) as file:
        write(whole.at("s", "l.jsonl"), said(agent="planner", n=9))
        same(file.read(), heard, "who has it open")
    same(read(planner.at("s", "l.jsonl")), said(agent="planner", n=9), "a save elsewhere")
    same(read(coder.at("s", "l.jsonl")), b"", "for both")
    same(version(planner.at("s", "l.jsonl")), version(whole.at("s", "l.jsonl")), "the version")


def test_a_mount_that_is_a_view_is_a_view_everywhere(box):
    mount = box.mount()
    os.makedirs(mount.at("s", "d"))
    append(mount.at("s", "l.jsonl"), lines(*range(5)))
    append(mount.at("s", "d", "m.jsonl"), lines(*range(5)))
    write(mount.at("s", "k.json"), b"{}")
    write(mount.at("s", "k.hash"), b"abc")
    write(mount.at("notes.txt"), b"text")
    seen = box.mount(store=mount.store, options=["view=last=2"])
    same(sorted(os.listdir(seen.path)), ["notes.txt", "s"], "the root")
    same(sorted(os.listdir(seen.at("s"))), ["d", "k.json", "l.jsonl"], "a session")
    same(read(seen.at("s", "l.jsonl")), lines(3, 4), "a list")
    same(read(seen.at("s", "d", "m.jsonl")), lines(3, 4), "one further below")
    same(read(seen.at("s", "k.json")), b"{}", "a document")
    same(read(seen.at("notes.txt")), b"text", "an ordinary file")
    size = f"-{len(lines(3, 4)) + 1}c"
    found = tool("find", ".", "-name", "*.jsonl", "-size", size, cwd=seen.path).stdout
    same(sorted(found.split()), [b"./s/d/m.jsonl", b"./s/l.jsonl"], "find goes by their sizes")
    same(os.stat(seen.path).st_ino, 1, "the number of the root")
    same(os.statvfs(seen.path).f_blocks, os.statvfs(mount.path).f_blocks, "df")
    for name in ("@last=1", "s/@last=1", "s/@first=1/l.jsonl"):
        same(errno_of(os.stat, seen.at(*name.split("/"))), errno.ENOENT, name)
    for what, deed in {
        "a session": lambda: os.mkdir(seen.at("t")),
        "a file": lambda: write(seen.at("new.txt"), b"1"),
        "a list": lambda: append(seen.at("s", "new.jsonl"), lines(1)),
        "a save": lambda: write(seen.at("s", "l.jsonl"), lines(1)),
        "a removal": lambda: os.unlink(seen.at("notes.txt")),
        "a rename": lambda: os.rename(seen.at("notes.txt"), seen.at("other.txt")),
        "a link": lambda: os.link(seen.at("notes.txt"), seen.at("other.txt")),
        "a mode": lambda: os.chmod(seen.path, 0o700),
        "an attribute": lambda: os.setxattr(seen.path, "user.a", b"1"),
        "a file without a name": lambda: os.open(seen.path, os.O_TMPFILE | os.O_WRONLY),
    }.items():
        same(errno_of(deed) in (errno.EROFS, errno.EOPNOTSUPP), True, what)
    append(seen.at("s", "l.jsonl"), lines(5))
    same(mount.rows("s", "l")[-1], b'{"n": 5}', "an append")
    os.mkdir(mount.at("t"))
    eventually(lambda: "t" in os.listdir(seen.path), "a session that is made elsewhere")
    os.rename(mount.at("s"), mount.at("u"))
    eventually(lambda: os.path.exists(seen.at("u", "l.jsonl")), "and one that is renamed")
    same(read(seen.at("u", "l.jsonl")), lines(4, 5), "its list")
    seen.remount()
    same(read(seen.at("u", "l.jsonl")), lines(4, 5), "mounted again")
    mount.check()


def test_a_mount_that_is_a_view_may_be_the_only_one_and_read_only(box):
    mount, path = list_of(box, 3)
    mount.remount(options=["ro,view=last=1"])
    same(read(path), lines(2), "its list")
    same(errno_of(append, path, lines(3)), errno.EROFS, "an append")
    mount.remount(options=["view=last=1"])
    append(path, lines(3))
    same(read(path), lines(3), "an append")


def test_verbs_go_by_what_the_store_has_and_not_by_a_view(box):
    mount, path = list_of(box, 3)
    mount.remount(options=["view=last=1"])
    same(read(path), lines(2), "the mount")
    same(box.sessfs("cat", mount.store, "s/l.jsonl", check=True).stdout, lines(0, 1, 2), "cat")
    box.sessfs("append", mount.store, "s/l.jsonl", stdin=lines(3), check=True)
    same(read(path), lines(3), "append")
    whole = box.mount(store=mount.store)
    seen = box.mount(store=mount.store, options=["view=first=1"])
    same(box.sessfs("cat", mount.store, "s/l.jsonl", check=True).stdout, lines(0, 1, 2, 3), "cat")
    box.sessfs("gc", "--older-than=0s", mount.store, check=True)
    same(os.listdir(whole.path), [], "gc")
    box.sessfs("gc", "--undo", mount.store, check=True)
    eventually(lambda: os.path.exists(seen.at("s", "l.jsonl")), "it is back")
    same(read(seen.at("s", "l.jsonl")), lines(0), "in a view")


def test_a_wrong_question_mounts_nothing_and_makes_no_store(box):
    store, folder = box.new_path("store") + ".db", box.new_folder()
    for question, word in {
        "last=x": "last=",
        "@last=1": "@last=",
        "as=list": ".jsonl",
        "as=events": ".jsonl",
        r"last=1\,last=2": "twice",
        "": "clauses",
        "last=1,role=user": "role=user",
    }.items():
        done = box.sessfs("mount", "-o", f"view={question}", store, folder)
        same(done.returncode != 0, True, question)
        same(word in done.stderr.decode(), True, f"{question}: {done.stderr.decode()}")
        same(os.path.exists(store), False, "the store")


def test_verbs_take_paths_with_questions(box):
    mount, path = list_of(box, 5)
    write(mount.at("s", "agent.json"), b"[1]")
    for place in ("by the mount", "without one"):
        out = box.sessfs("cat", mount.store, "s/@last=2/l.jsonl", check=True).stdout
        same(out, lines(3, 4), f"cat {place}")
        out = box.sessfs("ls", "-l", mount.store, "s/@last=2", check=True).stdout
        sizes = {line.split()[-1]: line.split()[1] for line in out.splitlines()}
        same(sizes, {b"l.jsonl": b"18", b"agent.json": b"3"}, f"ls -l {place}")
        same(box.sessfs("rm", mount.store, "s/@last=2/l.jsonl").returncode, 1, f"rm {place}")
        mount.stop()


if __name__ == "__main__":
    harness.main(globals())
