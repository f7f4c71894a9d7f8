#!/usr/bin/python3 -B
# SPDX-License-Identifier: MIT
"""What lists and documents say, as text for people: as=text."""

import errno
import json
import os

import harness
from harness import append, errno_of, read, same, write
from test_views import list_of

DATA = os.path.join(harness.TOP, "tests", "data")


def said(*words, role="user"):
    return b"".join(
        json.dumps({"role": role, "content": word, "timestamp": "2026-01-02T03:04:05Z"}).encode()
        + b"\n"
        for word in words
    )


def shown(*words, first=0, role="user"):
    return b"".join(
        b"#%d  2026-01-02 03:04:05  %s\n    %s\n\n" % (first + i, role.encode(), word.encode())
        for i, word in enumerate(words)
    )


def talk(box, *words):
    mount, session = box.session()
    append(os.path.join(session, "l.jsonl"), said(*words))
    return mount, session


def test_a_list_is_a_text(box):
    mount, session = talk(box, "one", "two", "three")
    text = mount.at("s", "@as=text", "l.txt")
    same(read(text), shown("one", "two", "three"), "all of it")
    same(os.stat(text).st_size, len(read(text)), "its size")
    same(read(mount.at("@as=text", "s", "l.txt")), read(text), "by a question at the root")
    same(read(mount.at("s", "@as=text", "l.jsonl")), read(text), "by its own name")
    append(os.path.join(session, "l.jsonl"), said("four"))
    same(read(text), shown("one", "two", "three", "four"), "with what was added")


def test_the_other_clauses_say_which_lines(box):
    mount, session = talk(box, "one", "two", "three")
    append(os.path.join(session, "l.jsonl"), said("four", role="assistant"))
    for question, text in (
        ("last=2", shown("three", first=2) + shown("four", first=3, role="assistant")),
        ("first=1", shown("one")),
        ("items=1-1", shown("two", first=1)),
        ("role=user,last=1", shown("three", first=2)),
        ("match=TWO", shown("two", first=1)),
        ("since=1d,last=1", shown("four", first=3, role="assistant")),
        ("before=1d", b""),
        ("bytes=80", shown("four", first=3, role="assistant")),
        ("first=2,bytes=80", shown("two", first=1)),
    ):
        same(read(mount.at("s", "@as=text," + question, "l.txt")), text, question)
        same(read(mount.at("s", f"@{question},as=text", "l.txt")), text, question)


def test_a_document_is_a_text(box):
    mount, session = box.session()
    path = os.path.join(DATA, "agents", "gemini", "tool_calls_with_results.json")
    write(os.path.join(session, "chat.json"), read(path))
    wanted = read(os.path.join(DATA, "text", "gemini.txt"))
    same(read(mount.at("s", "@as=text", "chat.txt")), wanted, "messages")
    for question in ("last=0", "first=0", "bytes=1", "items=5-", "role=nobody", "match=no-such",
                     "before=2000-01-01", "role=nobody,last=1", "before=9d,first=1,bytes=1"):
        same(read(mount.at("s", "@as=text," + question, "chat.txt")), wanted, question)
    write(os.path.join(session, "chat.json"), said("one"))
    same(read(mount.at("s", "@as=text", "chat.txt")), shown("one")[len("#0  "):], "a message")
    write(os.path.join(session, "chat.json"), b'{"torn": ')
    same(read(mount.at("s", "@as=text", "chat.txt")), shown("one")[len("#0  "):], "the last valid")


def test_numbered_documents_are_one_text(box):
    mount, session = box.session()
    for number in (10, 9, 1):
        write(os.path.join(session, f"message_{number}.json"), said(f"m{number}"))
    same(read(mount.at("s", "@as=text.txt")), shown("m1", "m9", "m10"), "in their order")
    same(read(mount.at("s", "@as=text,last=1.txt")), shown("m10", first=2), "the last one")


def test_what_has_the_name_already_wins(box):
    mount, session = talk(box, "one")
    write(os.path.join(session, "l.json"), said("two"))
    same(sorted(os.listdir(mount.at("s", "@as=text"))), ["l.json", "l.txt"], "both are there")
    same(read(mount.at("s", "@as=text", "l.txt")), shown("one"), "the list comes first")
    same(read(mount.at("s", "@as=text", "l.json")), shown("two")[4:], "the document")
    write(os.path.join(session, "l.txt"), b"real\n")
    names = sorted(os.listdir(mount.at("s", "@as=text")))
    same(names, ["l.json", "l.jsonl", "l.txt"], "what is real")
    same(read(mount.at("s", "@as=text", "l.txt")), b"real\n", "it is shown as it is")
    same(read(mount.at("s", "@as=text", "l.jsonl")), shown("one"), "and the list by its name")
    same(errno_of(os.stat, mount.at("s", "@as=text", "m.txt")), errno.ENOENT, "nothing")


def test_a_text_is_only_read(box):
    mount, session = talk(box, "one")
    text = mount.at("s", "@as=text", "l.txt")
    for flags in (os.O_WRONLY, os.O_WRONLY | os.O_APPEND, os.O_RDWR, os.O_RDONLY | os.O_TRUNC):
        same(errno_of(os.open, text, flags), errno.EROFS, f"{flags:o}")
    same(read(os.path.join(session, "l.jsonl")), said("one"), "it is as it was")


def test_a_text_that_is_open_does_not_change(box):
    mount, path = list_of(box, 3)
    with open(mount.at("s", "@as=text", "l.txt"), "rb", buffering=0) as text:
        before = text.read()
        write(path, b"[]\n" * 100)
        text.seek(0)
        same(text.read(), before, "what was opened")
    same(read(mount.at("s", "@as=text", "l.txt")) != before, True, "who opens it now")


def test_large_lines_and_many(box):
    mount, session = box.session()
    path = os.path.join(session, "l.jsonl")
    write(path, said(*(f"w{number}" for number in range(20000)), "x" * (3 << 20)))
    text = read(mount.at("s", "@as=text", "l.txt"))
    same(text.count(b"\n#") + 1, 20001, "headings")
    same(text.endswith(b"    " + b"x" * (3 << 20) + b"\n\n"), True, "the large one")


if __name__ == "__main__":
    harness.main(globals())
