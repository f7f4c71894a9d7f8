#!/usr/bin/python3 -B
# SPDX-License-Identifier: MIT
"""Connections to a server that are lost in the middle of an answer, behind any of its bytes: what
has come is never taken for all of it, and a mount asks again."""

import errno
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import servers  # noqa: E402
from servers import harness  # noqa: E402
from harness import append, errno_of, read, rounds, same, soak, write  # noqa: E402
from test_stores import start  # noqa: E402

PLAIN = b"plain bytes\n" * 3
DOCUMENT = b'{"a": [1, 2, 3]}'
LIST = b'{"n": 1}\n{"n": 2}\n'
LARGE = PLAIN * 3000
BLANK = LIST + b"\n[3]\n"  # the blank line is no row


def fill(folder, large):
    """One of some ten thousand, on a server that has a gigabyte."""
    os.mkdir(folder)
    for name, data in {"o.txt": PLAIN, "d.json": DOCUMENT, "l.jsonl": LIST,
                       "b.jsonl": BLANK, "large": large, "t.tmp": DOCUMENT}.items():
        write(os.path.join(folder, name), data)
    os.setxattr(os.path.join(folder, "o.txt"), "user.a", b"value")


def save_and_look(folder, direct):
    os.rename(os.path.join(folder, "t.tmp"), os.path.join(folder, "t.json"))
    return read(os.path.join(direct, "t.json"))


def append_and_look(folder, direct):
    append(os.path.join(folder, "l.jsonl"), b"3\n")
    return read(os.path.join(direct, "l.jsonl"))


# A commit answers with a few bytes for each of its statements.
COMMIT = "lane"
# A word of the question of which the answer is cut; what asks it, with the folder as this mount and
# as one that goes to the server directly has it; what that comes to.
CALLS = {
    "list": ("sessfs_entry", lambda folder, direct: sorted(os.listdir(folder)),
             ["b.jsonl", "d.json", "l.jsonl", "large", "o.txt", "t.tmp"]),
    "plain": ("sessfs_entry", lambda folder, direct: read(folder + "/o.txt"), PLAIN),
    "large": ("sessfs_chunk", lambda folder, direct: read(folder + "/large"), LARGE),
    "document": ("agentscope_sessions", lambda folder, direct: read(folder + "/d.json"), DOCUMENT),
    "lines": ("agentscope_sessions", lambda folder, direct: read(folder + "/l.jsonl"), LIST),
    "pieces": ("sessfs_piece", lambda folder, direct: read(folder + "/b.jsonl"), BLANK),
    "attribute": ("sessfs_xattr", lambda folder, direct: os.getxattr(folder + "/o.txt", "user.a"),
                  b"value"),
    "nothing": ("sessfs_entry", lambda folder, direct: errno_of(os.stat, folder + "/none"),
                errno.ENOENT),
    "size": ("sessfs_entry", lambda folder, direct: os.stat(folder + "/l.jsonl").st_size,
             len(LIST)),
    "save": (COMMIT, save_and_look, DOCUMENT),
    "append": (COMMIT, append_and_look, LIST + b"3\n"),
}


def is_cut(box, proxy, mount, direct, name, step):
    """Behind every step-th byte of the answer, until it is shorter."""
    word, call, expected = CALLS[name]
    step = step // 40 + 1 if word == COMMIT else step
    before = cuts = proxy.counts()["answers"]
    count = -1
    while cuts - before > count:
        count = cuts - before
        folder = f"{name}{count}"
        fill(direct.at(folder), LARGE if name == "large" else b"")
        os.stat(mount.at(folder))
        proxy(f"cut answer {count * step} {word}")
        try:
            seen = call(mount.at(folder), direct.at(folder))
        except OSError as error:
            seen = error
        proxy("go")
        same(seen, expected, f"{name}, cut behind {count * step} bytes")
        cuts = proxy.counts()["answers"]
    box.note(f"{name}: {count} cuts")
    assert count > 0, f"{name}: no answer was cut"


def are_cut(box, kind, step):
    server = start(box, kind)
    proxy, base = servers.proxy(box, server), server.database()
    direct, mount = box.mount(store=base.url), box.mount(store=proxy.url(base))
    for name in CALLS:
        is_cut(box, proxy, mount, direct, name, step)
    mount.check()


def test_an_answer_of_mariadb_that_is_cut_is_no_answer(box):
    are_cut(box, "mysql", rounds("SESSFS_CUT_STEP", 701, 701))


def test_an_answer_of_postgresql_that_is_cut_is_no_answer(box):
    are_cut(box, "postgresql", rounds("SESSFS_CUT_STEP", 701, 701))


@soak
def test_an_answer_of_mariadb_may_be_cut_behind_each_of_its_bytes(box):
    are_cut(box, "mysql", 1)


@soak
def test_an_answer_of_postgresql_may_be_cut_behind_each_of_its_bytes(box):
    are_cut(box, "postgresql", 1)


if __name__ == "__main__":
    servers.main(globals())
