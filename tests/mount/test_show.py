#!/usr/bin/python3 -B
# SPDX-License-Identifier: MIT
"""show: what was said, for people."""

import contextlib
import fcntl
import html.parser
import json
import os
import pty
import re
import signal
import struct
import subprocess
import termios

import harness
import places
from harness import eventually, is_sanitized, processor_time, read, same, write
from places import Place
from test_text import DATA, said, shown

everywhere = places.everywhere(Place)

HOSTILE = "\x1b[2J\x1b]0;owned\x07 \x9b31m \u202eabc\x7f \x00"


def fill(place, path, data):
    place.do("put", place.store, path, stdin=data)


@contextlib.contextmanager
def on_terminal(place, *arguments, columns=60, **environment):
    """The program with its standard output on a terminal; what it prints, so far."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    clean = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "LESS")}
    process = subprocess.Popen(
        [place.box.program, *arguments],
        stdout=theirs,
        stdin=subprocess.DEVNULL,
        env={**clean, "TERM": "xterm", "PAGER": "cat", **environment},
    )
    os.close(theirs)
    yield process, ours
    process.kill()
    process.wait()
    os.close(ours)


def read_all(fd, until=None):
    seen = b""
    while until is None or until not in seen:
        try:
            more = os.read(fd, 65536)
        except OSError:
            more = b""
        if not more:
            break
        seen += more
    return seen.replace(b"\r\n", b"\n")


def terminal(place, *arguments, **named):
    with on_terminal(place, "show", place.store, *arguments, **named) as (_, ours):
        return read_all(ours)


# What is shown


@everywhere
def test_a_list_a_document_and_numbered_documents(place):
    fill(place, "s/l.jsonl", said("one", "two"))
    for path in ("s/l.jsonl", "s/l", "./s//l/"):
        same(place.do("show", place.store, path), shown("one", "two"), f"{place.what}: {path}")
    text = b"==> s/l.jsonl <==\n\n" + shown("one", "two")
    same(place.do("show", place.store, "s"), text, f"{place.what}: the session")
    same(place.do("show", "--last=1", place.store, "s/l"), shown("two", first=1), "the last one")
    for path in ("s/l", "s"):
        same(place.do("show", "--last=0", place.store, path), b"", f"none of {path}")
    fill(place, "d/k.json", read(os.path.join(DATA, "agents", "gemini", "thinking_only.json")))
    wanted = read(os.path.join(DATA, "text", "gemini-thoughts.txt"))
    same(place.do("show", place.store, "d/k"), wanted, f"{place.what}: a document")
    wanted = b"==> d/k.json <==\n\n" + wanted
    same(place.do("show", place.store, "d"), wanted, f"{place.what}: one alone")
    for number in (10, 2):
        fill(place, f"n/m/message_{number}.json", said(f"m{number}"))
    fill(place, "n/agent.json", b"{}")
    wanted = b"==> n/m <==\n\n" + shown("m2", "m10")
    same(place.do("show", place.store, "n"), wanted, f"{place.what}: numbered documents")
    fill(place, "n/m/head.json", said("head"))
    wanted = b"==> n/m/head.json <==\n\n" + shown("head").replace(b"#0  ", b"") + wanted
    same(place.do("show", place.store, "n"), wanted, f"{place.what}: and those beside them")


@everywhere
def test_what_is_no_state_is_shown_too(place):
    fill(place, "old.json", b'{"messages": [{"role": "user", "content": "hi"}]}')
    same(place.do("show", place.store, "old"), b"#0  user\n    hi\n\n", place.what)
    fill(place, "old.jsonl", said("one", "two"))
    same(place.do("show", place.store, "old.jsonl"), shown("one", "two"), place.what)
    fill(place, "s/notes.txt", b"a \x1b[m b\n\xff\n")
    same(place.do("show", place.store, "s/notes.txt"), b"a ^[[m b\n\\xff\n", place.what)
    fill(place, "wide.txt", "é世".encode() * 50001)
    same(place.do("show", place.store, "wide.txt"), "é世".encode() * 50001, place.what)


@everywhere
def test_a_session_is_named_by_its_id_too(place):
    def shows(name):
        return place.do("show", place.store, name)

    fill(place, "s/l.jsonl", said("hi"))
    place.mount.insert("x/y", "k", 0, '{"role": "user", "content": "rows"}')
    if place.mount.pid:
        eventually(lambda: os.path.exists(place.mount.at("x%2Fy/k.json")), "it is seen")
    same(shows("x/y"), shows("x%2Fy"), "by its id")
    same(shows("x/y/k"), shows("x%2Fy/k.json"), "a key of it")
    place.do("show", place.store, "x/z", status=1)


UUID = "6f0d27b1-6f3c-4d0c-9a39-0d4ce2ffb0a9"


def test_a_transcript_is_named_by_its_session(box):
    mount = box.mount(options=["layout=claude+codex"])
    texts = {"claude/projects/-p/%s.jsonl" % UUID: "first",
             "claude/projects/-p/%s/subagents/a.jsonl" % UUID: "beside",
             "claude/projects/-p/other.jsonl": "other",
             "codex/sessions/2026/01/02/r.jsonl": "codex"}
    for path, text in texts.items():
        os.makedirs(os.path.dirname(mount.at(path)), exist_ok=True)
        write(mount.at(path), b'{"role": "user", "content": "%s"}\n' % text.encode())
    names = {f"claude:-p:{UUID}": ["first", "beside"],
             f"claude:-p:{UUID}/transcript": ["first"],
             f"claude:-p:{UUID}/subagents/a.jsonl": ["beside"],
             "claude:-p:other": ["other"], "claude:-p:other/transcript.jsonl": ["other"],
             "codex:2026/01/02:r": ["codex"], "claude/projects/-p/other": ["other"]}
    for mounted in (True, False):
        for name, wanted in names.items():
            shown = box.sessfs("show", mount.store, name, check=True).stdout.decode()
            same(re.findall("^    (.*)", shown, re.MULTILINE), wanted, name)
        same(box.sessfs("show", mount.store, "claude:-p:none").returncode, 1, "none")
        found = box.sessfs("search", "--json", "--session=claude:*", mount.store, "first", "other*")
        same(json.loads(found.stdout), [], "both words")
        found = box.sessfs("search", "--json", "--session=claude:*", mount.store, "other")
        same([hit["path"] for hit in json.loads(found.stdout)],
             ["claude/projects/-p/other.jsonl"], "by its id")
        said = box.sessfs("check", mount.store, check=True).stderr.decode()
        same("3 sessions, 4 files, 4 rows" in said, True, said)
        mount.stop()


def test_parts_are_shown_also_without_numbers(box):
    mount = box.mount(options=["layout=opencode"])
    words = {"msg_1/prt_1h": "asks", "msg_1/prt_2o": "more", "msg_2/prt_3": "says",
             "msg_2/prt_4l": ""}
    for name, text in words.items():
        path = mount.at(f"opencode/storage/part/{name}.json")
        os.makedirs(os.path.dirname(path), exist_ok=True)
        write(path, json.dumps({"id": name[6:], "sessionID": "s", "messageID": name[:5],
                                "type": "text", "text": text}).encode())
    for mounted in (True, False):
        shown = box.sessfs("show", mount.store, "opencode", check=True).stdout.decode()
        same(re.findall("^(?:    |==> .*/)(\\w+)", shown, re.MULTILINE),
             ["msg_1", "asks", "more", "msg_2", "says"], shown)
        if mounted:
            mount.stop()


def test_a_session_with_files_at_several_places_is_followed(box):
    mount = box.mount(options=["layout=claude"])
    files = [mount.at(f"claude/projects/-p/{UUID}{rest}")
             for rest in (".jsonl", "/subagents/a.jsonl")]
    for path in files:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        write(path, b'{"role": "user", "content": "old"}\n')
    write(mount.at("claude/projects/-p/other.jsonl"), b"{}\n")
    process = subprocess.Popen([box.program, "show", "-f", mount.store, f"claude:-p:{UUID}"],
                               stdout=subprocess.PIPE)
    seen = b""
    while seen.count(b"old\n") < 2:
        seen += read_all(process.stdout.fileno(), until=b"\n")
    for number, path in enumerate([mount.at("claude/projects/-p/other.jsonl"), *files]):
        harness.append(path, b'{"role": "user", "content": "new %d"}\n' % number)
    seen = read_all(process.stdout.fileno(), until=b"new 2\n")
    same((b"new 0" in seen, b"new 1" in seen), (False, True), f"{seen}")
    process.kill()
    process.wait()
    process.stdout.close()


def test_a_session_is_followed_however_its_path_is_written(box):
    place = Place(box, True)
    fill(place, "s/l.jsonl", said("old"))
    for number, path in enumerate(("/s", "./s//", "s/l", "//s/l.jsonl")):
        process = subprocess.Popen([box.program, "show", "-f", place.store, path],
                                   stdout=subprocess.PIPE)
        read_all(process.stdout.fileno(), until=b"old\n")
        place.do("append", place.store, "s/l.jsonl", stdin=said(f"new {number}"))
        read_all(process.stdout.fileno(), until=b"new %d\n" % number)
        process.kill()
        process.wait()
        process.stdout.close()


@everywhere
def test_what_is_not_there(place):
    fill(place, "s/l.jsonl", said("one"))
    for path in ("t", "s/m", "s/l.json/x"):
        failed = place.do("show", place.store, path, status=1)
        same(failed.startswith("sessfs: "), True, failed)
    place.do("show", place.store, status=2)
    place.do("show", "--last=x", place.store, "s", status=2)


@everywhere
def test_a_long_list_takes_little_memory_and_begins_at_once(place):
    data = said(*(f"w{number}" for number in range(30000)), "x" * (8 << 20))
    fill(place, "s/l.jsonl", data)
    command = [place.box.program, "show", place.store, "s/l"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    first = process.stdout.read(len(shown("w0")))
    begun = processor_time(process.pid)
    text = first + process.stdout.read()
    process.stdout.close()
    _, status, usage = os.wait4(process.pid, 0)
    same(status, 0, "the end")
    same(text.count(b"\n\n"), 30001, f"{place.what}: items")
    same(text.startswith(shown("w0", "w1")), True, "the first ones")
    same(text.endswith(b"  user\n    " + b"x" * (8 << 20) + b"\n\n"), True, "the large one")
    if place.what != "out of reach" and not is_sanitized(place.box.program):
        same(usage.ru_maxrss < 128 << 10, True, f"{usage.ru_maxrss} KiB")
        whole = usage.ru_utime + usage.ru_stime
        same(begun < whole / 2, True, f"{begun} s of {whole} s of a processor before the first")


# Which store


def test_a_store_may_be_named_by_its_mount_or_the_environment(box):
    place = Place(box, True)
    fill(place, "s/l.jsonl", said("one"))
    known, mounted = {"SESSFS_STORE": place.store}, {"SESSFS_STORE": place.mount.path}
    for words, env in (
        ((place.mount.path, "s/l"), {}),
        (("-", "s/l"), known),
        (("-", "s/l"), mounted),
        (("s/l",), known),
        ((place.store, "s/l"), {"SESSFS_STORE": "/nowhere"}),
    ):
        same(place.do("show", *words, env=env), shown("one"), f"{words}")
    for words, env in (((place.mount.path, "one"), {}), (("-", "one"), known), (("one",), known)):
        same(place.do("search", *words, env=env)[:12], b"s/l.jsonl #0", f"{words}")
    place.do("show", "s/l", status=2)
    place.do("show", env=known, status=2)
    place.do("show", "-", "s/l", status=1)


# On a terminal


@everywhere
def test_nothing_reaches_a_terminal_raw(place):
    fill(place, "s/l.jsonl", said(HOSTILE, role=HOSTILE) + HOSTILE.encode() + b"\n")
    fill(place, "s/k.txt", HOSTILE.encode())
    fill(place, "s/d.json", json.dumps({HOSTILE: HOSTILE}, ensure_ascii=False).encode())
    for path in ("s", "s/k.txt", "s/d", "s/l"):
        text = terminal(place, path)
        text = re.sub(rb"\x1b\[[0-9;]*m", b"", text)
        bad = re.findall(rb"[\x00-\x08\x0b-\x1f\x7f]|\xc2[\x80-\x9f]|\xe2\x80\xae", text)
        same(bad, [], f"{place.what}: {path}: {text}")
        plain = terminal(place, path, NO_COLOR="1")
        same(b"\x1b" in plain, False, f"{place.what}: {path}: without colours")


class Page(html.parser.HTMLParser):
    """What a browser makes of a page: its elements with their attributes, and its text."""

    def __init__(self, page):
        super().__init__()
        self.elements, self.text, self.open = [], "", []
        self.feed(page.decode())
        self.close()

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        self.open.append(tag)

    def handle_endtag(self, tag):
        while self.open and self.open.pop() != tag:
            pass

    def handle_data(self, data):
        if not self.open or self.open[-1] != "style":
            self.text += data


MARKUP = "</div></article><script>alert(1)</script><img src=x onerror=alert(1)>&lt;b&gt;\"'`"
ELEMENTS = {"html", "head", "meta", "style", "title", "body", "main", "h1", "h2", "b", "article",
            "div", "p", "pre", "details", "summary"}


@everywhere
def test_a_page_needs_nothing_and_no_byte_of_a_conversation_is_markup(place):
    lines = [
        {"role": "user", "content": MARKUP, "name": MARKUP},
        {"role": MARKUP[:20], "content": MARKUP + HOSTILE},
        {"role": "assistant", "tool_calls": [{"function": {"name": MARKUP, "arguments": MARKUP}}]},
        {"role": "tool", "content": (MARKUP + "\n") * 20},
        {"role": "user", "content": [{"type": "image", "name": MARKUP, "url": MARKUP}]},
        {MARKUP: MARKUP},
    ]
    fill(place, "demo/m.jsonl", "".join(json.dumps(line) + "\n" for line in lines).encode()
         + MARKUP.encode() + b"\n")
    fill(place, "demo/notes.txt", MARKUP.encode())
    for path in ("demo", "demo/m.jsonl", "demo/notes.txt"):
        page = Page(place.do("show", "--html", place.store, path))
        same({tag for tag, _ in page.elements} - ELEMENTS, set(), f"{path}: elements")
        names = {name for _, attrs in page.elements for name in attrs}
        same(names - {"lang", "charset", "name", "content", "http-equiv", "class"}, set(),
             f"{path}: attributes")
        policy = [attrs["content"] for tag, attrs in page.elements if "http-equiv" in attrs]
        same("default-src 'none'" in policy[0], True, f"{path}: {policy}")
        same("<script>alert(1)</script>" in page.text, True, f"{path}: what was said")
    page = Page(place.do("show", "--html", place.store, "demo"))
    same(sum(tag == "article" for tag, _ in page.elements), len(lines), "messages")
    same([tag for tag, _ in page.elements].count("details") >= 1, True, "long results are folded")


@everywhere
def test_a_page_has_all_of_a_long_list(place):
    count = 1000
    fill(place, "demo/m.jsonl", b"".join(
        json.dumps({"role": "user", "content": f"#{i} said"}).encode() + b"\n"
        for i in range(count)))
    page = Page(place.do("show", "--html", place.store, "demo/m.jsonl"))
    same(re.findall(r"#(\d+) said", page.text), [str(i) for i in range(count)], "each once")


@everywhere
def test_lines_fit_and_have_colours(place):
    fill(place, "s/l.jsonl", said("word " * 40, "世" * 50, "x" * 100))
    text = terminal(place, "s/l")
    same(text.startswith(b"\x1b[1;32m#0  2026-01-02 03:04:05  user\x1b[0m\n"), True, text[:60])
    plain = terminal(place, "s/l", NO_COLOR="1").decode()
    same(terminal(place, "s/l", TERM="dumb").decode(), plain, "a dumb terminal")
    lines = plain.splitlines()
    widths = [sum(2 if character == "世" else 1 for character in line) for line in lines]
    same(max(widths), 60, "the widest line")
    same(all(line.startswith("    ") for line in lines if line and line[0] != "#"), True, plain)
    same("".join(plain.split()).count("世"), 50, "nothing is lost")
    same(plain.count("word"), 40, "no word is cut")
    wide = terminal(place, "s/l", NO_COLOR="1", COLUMNS="200").decode()
    same(max(map(len, wide.splitlines())) > 150, True, "COLUMNS")


def test_a_pager_shows_it_on_a_terminal(box):
    place = Place(box, False)
    fill(place, "s/l.jsonl", said("one"))
    text = terminal(place, "s/l", PAGER="sed 's/^/paged: /'")
    same(text.startswith(b"paged: \x1b[1;32m#0"), True, text)
    # It need not read all.
    fill(place, "s/l.jsonl", said(*["x" * 1000] * 2000))
    same(terminal(place, "s/l", PAGER="head -c 3")[:3], b"\x1b[1", "what it has read")
    same(place.do("show", place.store, "s/l", env={**os.environ, "PAGER": "false"})[:3], b"#0 ",
         "not without a terminal")


# Following


def test_it_goes_on_with_what_is_added(box):
    for mounted in (True, False):
        place = Place(box, mounted)
        fill(place, "s/l.jsonl", said("one", "two"))
        command = [box.program, "show", "-f", "--last=1", place.store, "s"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, preexec_fn=reset_signals)
        ours = process.stdout.fileno()
        read_all(ours, shown("two", first=1))
        place.do("append", place.store, "s/l.jsonl", stdin=said("three"))
        same(read_all(ours, b"three\n\n"), shown("three", first=2), "what is appended")
        place.do("append", place.store, "s/m.jsonl", stdin=said("new"))
        wanted = b"==> s/m.jsonl <==\n\n" + shown("new")
        same(read_all(ours, b"new\n\n"), wanted, "another list")
        fill(place, "s/l.jsonl", said("one", "2"))
        wanted = b"==> s/l.jsonl <==\n\n" + shown("2", first=1)
        same(read_all(ours, b"2\n\n"), wanted, "what is rewritten")
        place.do("append", place.store, "t/l.jsonl", stdin=said("other"))
        place.do("append", place.store, "s/l.jsonl", stdin=said("four"))
        same(read_all(ours, b"four\n\n"), shown("four", first=2), "no other session")
        process.send_signal(signal.SIGINT)
        same(process.wait(), -signal.SIGINT, "the end")
        process.stdout.close()


def reset_signals():
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def test_who_reads_no_more_ends_it(box):
    place = Place(box, True)
    fill(place, "s/l.jsonl", said("one"))
    process = subprocess.Popen(
        [box.program, "show", "-f", place.store, "s/l"], stdout=subprocess.PIPE
    )
    read_all(process.stdout.fileno(), shown("one"))
    process.stdout.close()
    eventually(lambda: process.poll() is not None, "the end")


if __name__ == "__main__":
    harness.main(globals())
