#!/usr/bin/python3 -B
# SPDX-License-Identifier: MIT
"""kill -9 of the daemon: what a call has acknowledged is there afterwards, and nothing is torn.

  SESSFS_KILL_ROUNDS  how many times the daemon is killed under load; 6, and 40 in a soak
  SESSFS_SEED         what the random numbers begin with; it is printed
  SESSFS_KEEP         a folder for the store of a round that has failed
"""

import contextlib
import copy
import os
import re

import harness
from harness import INSERT, TABLE, read, same, write
from manifest import Call
from rounds import Rounds, rows_expected, see, see_settled
from writer import make_names

ROUNDS = harness.rounds("SESSFS_KILL_ROUNDS", 6, 40)
SEED = int(os.environ.get("SESSFS_SEED", str(int.from_bytes(os.urandom(4), "big"))))


def test_kill_9_at_random_moments_loses_nothing_that_was_acknowledged(box):
    box.note(f"seed {SEED}, {ROUNDS} rounds")
    rounds = Rounds(box, SEED)
    for _ in range(ROUNDS):
        rounds.run()
    calls = ", ".join(f"{name} {count}" for name, count in sorted(rounds.returned.items()))
    box.note(f"acknowledged calls: {calls}")
    box.note(f"in flight: {rounds.happened[True]} are there, {rounds.happened[False]} are not")
    rounds.mount.stop()
    rounds.check()


# Each state of a save


def save_again(way, ending):
    """A job: a file that is saved in order, then again in one of the ways of clients."""

    def job(writer):
        writer.have_session()
        path, new = writer.own(f"k.{ending}"), writer.own(f"new.{ending}")
        many = [writer.lines(30) if ending == "jsonl" else writer.document() for _ in range(2)]
        writer.write_whole(path, many[0], cuts=1)
        if way == "unlink":
            writer.call("unlink", path)
        writer.write_whole({"plain": path + ".tmp", "state": new}.get(way, path), many[1], cuts=2)
        if way in ("plain", "state"):
            writer.call("rename", {"plain": path + ".tmp", "state": new}[way], path)

    return job


def append_again(writer):
    writer.have_session()
    path = writer.own("l.jsonl")
    number = writer.open(path, "a")
    line = writer.line()
    writer.call("write", number, writer.lines(2) + line[:7])
    writer.call("write", number, line[7:])
    writer.call("write", number, writer.lines(2) + '{"torn": ')
    writer.call("fsync", number)
    writer.call("write", number, "1}\n{")
    writer.call("close", number)
    writer.write_whole(path, writer.lines(2), "a")


WAYS = ("truncate", "plain", "state", "unlink")
ENDINGS = ("json", "jsonl")
STEPS = 10  # calls of the longest one


def test_kill_9_behind_each_call_of_a_save_leaves_the_old_content_or_the_new_one(box):
    jobs = {f"{way}{ending}": save_again(way, ending) for way in WAYS for ending in ENDINGS}
    jobs["append"] = append_again
    rounds = Rounds(box, 1)
    for step in range(1, STEPS + 1):
        for name, job in jobs.items():
            rounds.work_calls(job, rounds.add_part(f"step{step}{name}"), step + 2)
        rounds.kill()
        rounds.recover()
        rounds.verify()


# The comparison itself


def keep_names(writer):
    writer.have_session()
    make_names(writer, writer.own("folder"))


def told(box):
    """A store with a bit of everything, whose daemon was killed, and what was seen of it."""
    rounds = Rounds(box, 1)
    rounds.begin_generation()
    rounds.work(100)
    rounds.work_calls(keep_names, rounds.add_part("g0kept"), 100)
    rounds.kill()
    rounds.recover()
    rounds.read_logs()
    seen = see_settled(rounds.mount)
    harness.same(rounds.compare(seen)[1], [], "what is wrong with a sound store")
    return rounds, seen


def line_of(seen, by, place):
    """One of the lines of a writer in the list of all."""
    data = seen.found["g0shared/list.jsonl"]["data"]
    return [line for line in data.splitlines(True) if b'"by": "%s"' % by in line][place]


def change(seen, path, function):
    """Changes the bytes of a file and what SQL sees of it."""
    data = function(seen.found[path]["data"])
    seen.found[path]["data"] = data
    seen.rows.update(rows_expected({path: seen.found[path]}))


def change_line(place, function):
    def damage(seen):
        line = line_of(seen, b"g0lines", place)
        change(seen, "g0shared/list.jsonl", lambda data: data.replace(line, function(line)))

    return damage


def swap_lines(seen):
    one, two = line_of(seen, b"g0lines", 3), line_of(seen, b"g0lines", 4)
    swap = {one: two, two: one}
    pattern = re.compile(b"|".join(map(re.escape, swap)))
    change(seen, "g0shared/list.jsonl", lambda data: pattern.sub(lambda m: swap[m[0]], data))


def at_list(function):
    return lambda seen: change(seen, "g0lists/list0.jsonl", function)


def at_document(function):
    return lambda seen: change(seen, "g0truncates/doc0.json", function)


def at_entry(what, function):
    """Changes something of a file that has it."""

    def damage(seen):
        for path, entry in seen.found.items():
            if path.startswith("g0kept") and what(entry):
                function(seen, path, entry)
                return
        raise AssertionError("there is no such file")

    return damage


def is_link(entry):
    return entry["kind"] == "symlink"


def is_marked(entry):
    return entry["xattrs"]


def is_linked(entry):
    return entry["kind"] == "file" and entry["links"] > 1


def lose(seen, path, entry):
    del seen.found[path]


def in_rows(function):
    """What only SQL sees."""

    def damage(seen):
        function(seen.rows[("g0shared", "list")])

    return damage


# What happens to the things seen.  Each must be noticed.
DAMAGES = {
    "the last line is lost": change_line(-1, lambda line: b""),
    "a line is lost": change_line(5, lambda line: b""),
    "a line is there twice": change_line(5, lambda line: line * 2),
    "a line is torn": change_line(5, lambda line: line[:9] + b"\n"),
    "two lines are glued": change_line(5, lambda line: line[:-1]),
    "a line holds NULs": change_line(5, lambda line: line.replace(b"x", b"\0")),
    "a line is another": change_line(5, lambda line: line.replace(b'"n"', b'"N"')),
    "lines have changed places": swap_lines,
    "a line that nobody wrote": change_line(5, lambda line: line + b'{"n": 1}\n'),
    "a list is empty": at_list(lambda data: b""),
    "a list is half": at_list(lambda data: data[: len(data) // 2]),
    "a list has lost its end": at_list(lambda data: data[: data.rfind(b"\n", 0, -1) + 1]),
    "a list is mixed": at_list(lambda data: data[:99] + data[:99].lower() + data[198:]),
    "a document is empty": at_document(lambda data: b""),
    "a document is half": at_document(lambda data: data[: len(data) // 2]),
    "a document is another": at_document(lambda data: b"{}"),
    "a row is lost": in_rows(lambda rows: rows.pop()),
    "a row has another number": in_rows(lambda rows: rows.append((rows.pop()[0] + 1, b"1"))),
    "a row is torn": in_rows(lambda rows: rows.append((rows[-1][0], rows.pop()[1][:5]))),
    "a row is too many": in_rows(lambda rows: rows.append((len(rows), b"1"))),
    "a symlink is lost": at_entry(is_link, lose),
    "a symlink leads elsewhere": at_entry(is_link, lambda s, p, e: e.update(data=b"x")),
    "a hard link is lost": at_entry(is_linked, lose),
    "an attribute is lost": at_entry(is_marked, lambda s, p, e: e.update(xattrs={})),
    "an attribute is another": at_entry(is_marked, lambda s, p, e: e["xattrs"].update(a="b")),
    "a mode is another": at_entry(is_marked, lambda s, p, e: e.update(mode=0o100)),
    "a time is another": at_entry(is_linked, lambda s, p, e: e.update(mtime=1)),
    "a file is too many": at_entry(is_link, lambda s, p, e: s.found.update({p + "x": e})),
    "a session is too many": at_entry(is_link, lambda s, p, e: s.found.update({"x": e})),
    "rows of no file": lambda seen: seen.rows.update({("g0lists", "gone"): [(0, b"1")]}),
}


def test_the_comparison_notices_what_is_lost_torn_or_too_many(box):
    rounds, seen = told(box)
    missed = []
    for name, damage in DAMAGES.items():
        damaged = copy.deepcopy(seen)
        damage(damaged)
        assert (damaged.found, damaged.rows) != (seen.found, seen.rows), f"{name}: no damage"
        if not rounds.compare(damaged)[1]:
            missed.append(name)
    harness.same(missed, [], "damage that was not noticed")


def acknowledged(*words):
    call = Call(list(words), 0)
    call.succeed(None, 0)
    return call


def test_the_comparison_notices_a_log_that_is_wrong(box):
    rounds, seen = told(box)
    for part in [part for part in rounds.parts if part.calls]:
        part.calls.append(acknowledged("mkdir", part.prefix + "-never"))
        assert rounds.compare(seen)[1], f"{part.prefix}: a directory was never made"
        part.calls.pop()
        if not part.lists:
            continue
        place = next(n for n, call in enumerate(part.calls) if call.words[0] == "write")
        call = part.calls[place]
        part.calls.insert(place, acknowledged("write", call.words[1], '{"by": 1}\n'))
        assert rounds.compare(seen)[1], f"{part.prefix}: a line was never written"
        part.calls.pop(place)
        part.calls.remove(call)
        assert rounds.compare(seen)[1], f"{part.prefix}: a line was written, and not noted"
        part.calls.insert(place, call)
        harness.same(rounds.compare(seen)[1], [], "what is wrong with the right log")


# SQL that loses what was acknowledged, between the kill and the next mount.
LOSSES = {
    "a line": f"DELETE FROM {TABLE} WHERE session_id = 'g0lists' AND item_index = 9",
    "the last line": f"DELETE FROM {TABLE} WHERE session_id = 'g0shared' AND item_index ="
    f" (SELECT max(item_index) FROM {TABLE} WHERE session_id = 'g0shared')",
    "a document": f"UPDATE {TABLE} SET state_data = '1' WHERE session_id = 'g0truncates'",
    "a name": "DELETE FROM sessfs_entry WHERE name = CAST('list0.jsonl' AS BLOB)"
    " OR name = 'list0.jsonl'",
    "a chunk": "DELETE FROM sessfs_chunk",
    "the attributes": "DELETE FROM sessfs_xattr",
}


def test_the_comparison_notices_a_store_that_has_lost_something(box):
    rounds, _ = told(box)
    mount = rounds.mount
    mount.background = False
    mount.kill9()
    mount.sql("PRAGMA wal_checkpoint(TRUNCATE)")
    whole = read(mount.store)
    for name, query in LOSSES.items():
        write(mount.store, whole)
        with contextlib.closing(mount.connect()) as base:
            assert base.execute(query).rowcount > 0, f"{name}: nothing is lost"
        mount.start()
        assert rounds.compare(see(mount))[1], f"{name} was lost, and nothing is said"
        mount.kill9()
        mount.sql("PRAGMA wal_checkpoint(TRUNCATE)")


# The log


def append_synced(path, line):
    with open(path, "ab", buffering=0) as file:
        file.write(line)
        os.fsync(file.fileno())


def test_a_log_that_is_synced_grows_ahead_and_is_read_as_before_after_a_kill(box):
    mount, session = box.session()
    path = os.path.join(session, "l.jsonl")
    lines = [b'{"n": %d}\n' % number for number in range(200)]
    sizes = []
    for line in lines:
        append_synced(path, line)
        sizes.append(os.stat(mount.store + "-wal").st_size)
    grown = sum(before != after for before, after in zip(sizes, sizes[1:]))
    assert grown < len(lines) // 5, f"the log has grown {grown} times"
    mount.kill9()
    mount.remount()
    same(read(path), b"".join(lines), "the file")
    append_synced(path, lines[0])
    mount.unmount()
    mount.check()
    same(mount.rows("s", "l"), [line[:-1] for line in lines + lines[:1]], "rows")


# Nobody hangs

CONTROL = "/sys/fs/fuse/connections"


def change_the_root(path):
    """A process that makes and removes directories until the daemon is gone."""
    child = os.fork()
    if child == 0:
        with contextlib.suppress(OSError):
            while True:
                os.mkdir(path)
                os.rmdir(path)
        os._exit(0)
    return child


def test_who_changes_a_directory_when_the_daemon_is_killed_hears_of_it(box):
    """The kernel may let a thread of the daemon wait for the lock of a directory, to forget a name
    in it, and there is no way to end that wait; who has that lock waits for the daemon."""
    if os.geteuid() != 0 and not os.path.ismount(CONTROL):
        raise harness.Skip(f"only root, or who finds fusectl on {CONTROL}, can end that wait")
    for i in range(8):
        mount = box.mount()
        children = [change_the_root(mount.at(f"d{number}")) for number in range(3)]
        with contextlib.closing(mount.connect()) as base:
            for number in range(20 + i):
                base.execute(INSERT, (f"s{number}", "k", 0, b"1"))
                base.execute(f"DELETE FROM {TABLE} WHERE session_id = ?", (f"s{number - 3}",))
        mount.kill_only()
        for child in children:
            os.waitpid(child, 0)
        harness.detach(mount.path)
        mount.check()


if __name__ == "__main__":
    harness.main(globals())
