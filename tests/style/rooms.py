#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Who includes whom, and who calls whom.

usage: rooms.py includes TREE FILE... | rooms.py calls TREE <SYMBOLS

The rooms are those that TREE/ARCHITECTURE.md lists, or the file that ROOMS names in the
environment: a room a line, with those that it may include behind it, in an order in which each
calls only what stands before it.  SYMBOLS are lines "FILE KIND NAME" as nm has them, of all
objects.  Prints what is wrong; the exit status is 0 when nothing is.
"""

import collections
import os
import re
import sys

CIRCLE_MAX = 3

# A library is known in these rooms only.
LIBRARIES = {
    r"fuse.*\.h": ["fs/kernel"],
    r"sqlite3.*\.h": ["backend/sqlite", "src/rows", "src/search"],
    r"jansson.*\.h": ["fs/base", "src"],
    r"mysql.*\.h|mariadb.*\.h|errmsg\.h": ["backend/mysql"],
    r"(libpq|postgres).*\.h": ["backend/postgresql"],
}


def rooms_of(tree):
    """Room to those that it may include, in their order."""
    path = os.environ.get("ROOMS", f"{tree}/ARCHITECTURE.md")
    with open(path, encoding="utf-8") as file:
        block = re.search(r"^```rooms\n(.*?)^```$", file.read(), re.M | re.S)
    lines = [line.split() for line in block.group(1).splitlines() if line.strip()]
    return {line[0]: line[1:] for line in lines}


class Rooms:
    def __init__(self, tree):
        self.tree = tree
        self.allowed = rooms_of(tree)
        self.order = list(self.allowed)

    def of(self, file):
        """The longest room that fits."""
        fits = [room for room in self.order if file.startswith(room + "/")]
        return max(fits, key=len, default="")

    def shows(self, room, header):
        """A room of fs/ that has a header of its own name shows others that one."""
        door = f"{room}/{os.path.basename(room)}.h"
        inside = room.startswith("fs/") and os.path.exists(f"{self.tree}/{door}")
        return header == door or not inside


def wrong_includes(rooms, file):
    room = rooms.of(file)
    if not room:
        yield f"{file} is in no room"
        return
    with open(f"{rooms.tree}/{file}", encoding="utf-8") as text:
        found = re.findall(r'^[ \t]*#[ \t]*include[ \t]*(["<])([^">]*)', text.read(), re.M)
    for mark, header in found:
        if mark == "<":
            for name, homes in LIBRARIES.items():
                if re.fullmatch(name, header) and not any(
                    f"{room}/".startswith(f"{home}/") for home in homes
                ):
                    yield f"{file} includes <{header}>"
            continue
        other = rooms.of(header)
        if other != room and other not in rooms.allowed[room]:
            yield f"{file} includes {header}"
        elif other != room and not rooms.shows(other, header):
            yield f"{file} includes {header}, which is inside of {other}"


def calls_of(lines):
    """File to the files that it calls, each with one of the names."""
    defined, wanted = {}, []
    for file, kind, name in (line.split() for line in lines):
        if kind == "U":
            wanted.append((file, name))
        elif kind.isupper():
            defined[name] = file
    calls = collections.defaultdict(dict)
    for file, name in wanted:
        other = defined.get(name, file)
        if other != file:
            calls[file][other] = name
    return calls


def circles(calls):
    """The strongly connected sets of files that are more than one (Tarjan's algorithm)."""
    number, low, stack, found = {}, {}, [], []

    def visit(file):
        number[file] = low[file] = len(number)
        stack.append(file)
        for other in calls.get(file, ()):
            if other not in number:
                visit(other)
            if other in stack:
                low[file] = min(low[file], low[other])
        if low[file] == number[file]:
            at = stack.index(file)
            found.append(sorted(stack[at:]))
            del stack[at:]

    sys.setrecursionlimit(10000)
    for file in sorted(calls):
        if file not in number:
            visit(file)
    return [circle for circle in found if len(circle) > 1]


def wrong_calls(rooms, lines):
    calls = calls_of(lines)
    for file in sorted(calls):
        for other, name in sorted(calls[file].items()):
            if rooms.order.index(rooms.of(file)) < rooms.order.index(rooms.of(other)):
                yield f"{file} calls {name}() of {other}"
    for circle in circles(calls):
        if len(circle) > CIRCLE_MAX:
            yield "a circle: " + " ".join(circle)


def main():
    rooms = Rooms(sys.argv[2])
    if sys.argv[1] == "calls":
        wrong = wrong_calls(rooms, (line for line in sys.stdin if line.strip()))
    else:
        wrong = (one for file in sys.argv[3:] for one in wrong_includes(rooms, file))
    sentences = list(wrong)
    print("\n".join(sentences))
    return 1 if sentences else 0


sys.exit(main())
