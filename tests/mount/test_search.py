#!/usr/bin/python3 -B
# SPDX-License-Identifier: MIT
"""search: which items hold words.  SESSFS_WORDS: how many are looked for beside grep (soak-search:
10,000), SESSFS_SEARCH_MB: in so much (soak-search: 1024)."""

import collections
import io
import json
import os
import random
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import tarfile
import time

import harness
import places
import transcripts
from harness import TABLE, is_sanitized, need_root, read, same, tool, write
from places import Place

everywhere = places.everywhere(Place)
WORDS = harness.rounds("SESSFS_WORDS", 45, 300)
MEGABYTES = int(os.environ.get("SESSFS_SEARCH_MB", "1"))
SEED = os.environ.get("SESSFS_SEED", "20261125")


def line(text, role="user", **more):
    return json.dumps({"role": role, "content": text, **more}).encode() + b"\n"


def cache_of(place):
    return os.path.join(place.box.folder, "cache")


def search(place, *words, **named):
    named.setdefault("env", {**os.environ, "XDG_CACHE_HOME": cache_of(place)})
    return json.loads(place.do("search", "--json", "-n", "1000000", place.store, *words, **named))


def where(hits):
    return sorted((hit["path"], hit["item"]) for hit in hits)


def put(place, path, *lines):
    place.do("put", place.store, path, stdin=b"".join(lines))


def index_of(place):
    return place.store + "-search"


def forget_index(place):
    if "://" in place.store:
        shutil.rmtree(cache_of(place))
    else:
        os.unlink(index_of(place))


# What is found


@everywhere
def test_items_that_hold_all_words(place):
    put(place, "a/l.jsonl", line("The Red fox"), line("a green fox", role="ai"), line("nothing"))
    put(place, "b/d/k.json", line("red and green"))
    same(where(search(place, "fox")), [("a/l.jsonl", 0), ("a/l.jsonl", 1)], place.what)
    same(where(search(place, "RED")), [("a/l.jsonl", 0), ("b/d/k.json", None)], "in any case")
    same(where(search(place, "green", "red")), [("b/d/k.json", None)], "both")
    same(where(search(place, "gre*")), [("a/l.jsonl", 1), ("b/d/k.json", None)], "beginnings")
    same(search(place, "gre"), [], "no part of a word")
    same(search(place, "blue"), [], "none")
    same(search(place, "--", "--"), [], "what is no word")
    same(where(search(place, "fox red")), [], "words in one argument are next to each other")
    same(where(search(place, "red fox")), [("a/l.jsonl", 0)], "as these are")
    same(where(search(place, 'f"ox')), [], "what FTS5 would take for its own")


def scores(place, *words):
    """As search has them, and FTS5 itself."""
    found = {(os.path.splitext(hit["path"].split("/")[1])[0], hit["item"]): hit["score"]
             for hit in search(place, *words)}
    match = " ".join(f'"{word}"' for word in words)
    with sqlite3.connect(index_of(place)) as index:
        told = index.execute("SELECT key.key, item, -bm25(said) FROM said "
                             "JOIN item ON item.id = said.rowid JOIN key ON key.id = item.key "
                             "WHERE said MATCH ?", (match,))
        wanted = {(key.decode(), item): score for key, item, score in told}
    return found, wanted


def test_the_score_is_bm25(box):
    place = Place(box, False)
    words = "fox dog cat hen owl".split()
    rng = random.Random(1)
    said = (rng.choices(words, (9, 5, 3, 2, 1), k=rng.randrange(9)) for _ in range(500))
    put(place, "a/l.jsonl", *(line(" ".join(some)) for some in said))
    for asked in (["fox"], ["owl"], ["dog", "owl"], ["fox", "dog", "cat"], ["fox dog"]):
        found, wanted = scores(place, *asked)
        same(found.keys(), wanted.keys(), f"{asked}")
        for hit, score in wanted.items():
            assert abs(found[hit] - score) < 1e-9, (asked, hit, found[hit], score)


def test_the_score_of_a_word_that_is_in_many_items_is_about_bm25(box):
    place = Place(box, False)
    rng = random.Random(2)
    put(place, "a/l.jsonl", *(line("x" if rng.random() < .6 else "fox " * rng.randrange(1, 4))
                              for _ in range(80000)))
    found, wanted = scores(place, "fox")
    same(found.keys(), wanted.keys(), "items")
    for hit, score in wanted.items():
        assert abs(found[hit] - score) < score / 20, (hit, found[hit], score)


@everywhere
def test_who_asks_says_which(place):
    put(place, "a/l.jsonl", *(line(f"fox {number}") for number in range(30)))
    put(place, "b/l.jsonl", line("fox", role="assistant"), line("fox fox fox fox"))
    found = json.loads(place.do("search", "--json", place.store, "fox"))
    same(len(found), 10, f"{place.what}: unless somebody says so")
    scores = [hit["score"] for hit in found]
    same(scores, sorted(scores, reverse=True), "the best come first")
    one = json.loads(place.do("search", "--json", "-n", "1", place.store, "fox"))
    same(where(one), [("b/l.jsonl", 1)], "the best")
    options = {"--session=b*": 2, "--session=?": 32, "--session=c": 0, "--role=assistant": 1,
               "--role=user": 31, "--role=User": 31, "--role=human": 31, "--role=AI": 1,
               "--since=1d": 32, "--since=2099-01-01": 0}
    for option, count in options.items():
        found = json.loads(place.do("search", "--json", "-n99", option, place.store, "fox"))
        same(len(found), count, f"{place.what}: {option}")
    put(place, "c/l.jsonl", line("hen", timestamp="2025-03-01T12:00:00Z"), line("hen"))
    for option, count in (("2025-03-02", 1), ("2025-03-01T12:00", 2), ("7d", 1)):
        found = json.loads(place.do("search", "--json", "--since=" + option, place.store, "hen"))
        same(len(found), count, f"{place.what}: since {option}, as the record says")
    for option in ("1970-01-01", "2026-02-28T18:30", "2026-01-31 18:30:05Z"):
        option = "--since=" + option
        same(len(json.loads(place.do("search", "--json", option, place.store, "fox"))), 10, option)
    for option in ("--since=2026-13-01", "--since=2026-02-30", "--since=2026-01-31x",
                   "--since=2026-01-31T18", "--since=2026-01-31T25:00", "--since=x", "-n0",
                   "-nx", "--colour=red"):
        place.do("search", option, place.store, "fox", status=2)
    place.do("search", place.store, status=2)


@everywhere
def test_what_is_told_of_a_hit(place):
    put(place, "a/l.jsonl", line("Fix the bug"), line("x " * 100 + "fox " + "y " * 200, role="ai",
        name="planner", timestamp="2026-01-02T03:04:05Z"))
    hit = search(place, "fox")[0]
    wanted = {"path": "a/l.jsonl", "session": "a", "key": "l", "item": 1, "time": 1767323045.0,
              "role": "assistant", "agent": "planner", "title": "Fix the bug"}
    same({name: hit[name] for name in wanted}, wanted, place.what)
    same(bool(re.fullmatch(r"\.\.\. [x ]+ fox [y ]+ \.\.\.", hit["text"])), True, hit["text"])
    shown = place.do("search", place.store, "fox").decode().splitlines()
    same(shown[0], 'a/l.jsonl #1  2026-01-02 03:04:05  assistant (planner)  "Fix the bug"', "it")
    same(shown[1], "    " + hit["text"], "the surroundings")
    blocks = [{"type": "output_text", "text": "what the output was"}]
    put(place, "a/n.jsonl", line(blocks, role="assistant"))
    same([hit["text"] for hit in search(place, "output")], ["what the output was"], "no type")
    put(place, "a/o.jsonl", line("a short yak\nand its end", role="ai", id="i1", stop="end_turn"))
    same([hit["text"] for hit in search(place, "yak")], ["a short yak and its end"], "no ids")
    put(place, "a/m.jsonl", line("zoo \x1b[2J \x9b \u202e"))
    shown = place.do("search", place.store, "zoo")
    same(re.findall(rb"[\x00-\x09\x0b-\x1f\x7f]|\xc2[\x80-\x9f]|\xe2\x80\xae", shown), [], "tame")


@everywhere
def test_scripts_without_blanks(place):
    put(place, "a/l.jsonl", line("読んでください日本語の文章"), line("naïve Café"), line("日曜 本"),
        line("tiếng"))
    same(where(search(place, "日本")), [("a/l.jsonl", 0)], place.what)
    same(where(search(place, "文章")), [("a/l.jsonl", 0)], place.what)
    same(where(search(place, "日")), [("a/l.jsonl", 0), ("a/l.jsonl", 2)], place.what)
    same(where(search(place, "cafe")), [("a/l.jsonl", 1)], "without accents")
    same(where(search(place, "tieng")), [("a/l.jsonl", 3)], "also where a letter has two")
    same(where(search(place, "TI\u1ebeNG")), [("a/l.jsonl", 3)], "and in upper case")


# Titles


@everywhere
def test_sessions_have_titles(place):
    put(place, "a/l.jsonl", line("sys", role="system"), line("Fix\n the \x1b bug"), line("more"))
    put(place, "b/k.json", b"{}")
    put(place, "c/chat.json", json.dumps({"messages": [json.loads(line("hello"))]}).encode())
    listed = json.loads(place.do("sessions", "--json", "--titles", place.store))
    titles = {entry["name"]: entry["title"] for entry in listed}
    same(titles, {"a": "Fix the ^[ bug", "b": None, "c": "hello"}, place.what)
    for order in ("id", "size"):
        shown = place.do("sessions", "-t", f"--sort={order}", place.store).decode().splitlines()
        ends = sorted(text[text.rindex("  ") + 2 :] for text in shown)
        same(ends, ['"Fix the ^[ bug"', '"hello"', "b"], f"{place.what}: {order}")


# Beside grep


def words_of(random_):
    """As many as a corpus of this size has."""
    known = sorted({"".join(random_.choices("abcdefgh", k=random_.randrange(2, 8)))
                    for _ in range(3000 * min(MEGABYTES, 100))})
    random_.shuffle(known)
    return known


def text_of(random_, known):
    """Few words are in many texts and most in few."""
    count = int(10 ** random_.uniform(0, 3))
    return [known[int(len(known) ** random_.random()) - 1] for _ in range(count)]


def make_corpus(folder, random_, known):
    """Lists of transcripts; the sessions, and in how many lines each word is."""
    counts, sessions, size = collections.Counter(), [], 0
    while size < MEGABYTES << 20:
        sessions.append(f"s{len(sessions)}")
        lines = []
        for _ in range(random_.randrange(1, 1000)):
            words = text_of(random_, known)
            counts.update(set(words))
            lines.append(line(" ".join(words), random_.choice(["user", "assistant"])))
        os.mkdir(os.path.join(folder, sessions[-1]))
        write(os.path.join(folder, sessions[-1], "l.jsonl"), b"".join(lines))
        size += sum(map(len, lines))
    return sessions, counts


# The memory of a process is at least that of the one that it came from: of a small one, here.
MEASURE = """import resource, subprocess, sys
status = subprocess.call(sys.argv[1:])
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(used.ru_utime + used.ru_stime, used.ru_maxrss, file=sys.stderr)
sys.exit(status)
"""


def measured(place, *words):
    """What a search prints, its seconds of a processor and its KiB of memory."""
    done = tool(sys.executable, "-c", MEASURE, place.box.program, "search", place.store, *words)
    seconds, memory = done.stderr.split()[-2:]
    return done.stdout, float(seconds), int(memory)


def measures(place, known, counts):
    """An index, and searches for words; not in more memory than is promised."""
    _, seconds, memory = measured(place, "zz")
    place.box.note(f"an index of {MEGABYTES} MB: {seconds:.1f} s, {memory} KiB, "
                   f"{os.stat(index_of(place)).st_size >> 20} MB")
    for word in ("zz", *known[:: len(known) // 3]):
        _, times, sizes = zip(*(measured(place, word) for _ in range(10)))
        fastest, most = min(times), max(sizes)
        place.box.note(f"of {counts[word]} items: {fastest * 1000:.0f} ms, {most} KiB")
        memory = max(memory, most)
        # 50 ms, and twice that beside others on the same processor: a promise for a quiet machine.
        if harness.SOAK and not is_sanitized(place.box.program):
            same(fastest < 0.1, True, f"{fastest} s for {word}")
    if not is_sanitized(place.box.program):
        same(memory < 64 << 10, True, f"{memory} KiB")


def finds(place, need, counts, folder, *options):
    """As many as were counted, and as grep finds."""
    for number, word in enumerate(need):
        found = search(place, *options, word)
        same(len(found), counts[word], word)
        if folder and number % max(20, WORDS // 100) == 0:
            done = tool("grep", "-rhwc", word, folder, check=False).stdout.split()
            same(len(found), sum(map(int, done)), f"grep -c {word}")


def needed(random_, known, counts):
    some = [word for word in known if counts[word] <= 10000]
    return [*random_.choices(some, k=WORDS * 9 // 10), *("zz%d" % n for n in range(WORDS // 10))]


def test_random_words_are_found_as_grep_finds_them(box):
    random_ = random.Random(SEED)
    place = Place(box, True)
    known = words_of(random_)
    folder = box.new_folder("lists")
    _, counts = make_corpus(folder, random_, known)
    place.do("import", place.store, folder)
    measures(place, known, counts)
    finds(place, needed(random_, known, counts), counts, folder)


def test_random_words_of_what_clients_write_are_found_once_where_they_are_talk(box):
    harness.need_tool("zstd")
    random_ = random.Random(SEED)
    place = Place(box, True, options=[f"layout={transcripts.LAYOUT}"])
    known = words_of(random_)
    folder = box.new_folder("transcripts")
    paths, records, talk = transcripts.make(folder, MEGABYTES << 20, random_,
                                            lambda: text_of(random_, known))
    place.do("import", place.store, folder)
    for path in [place.mount.at(path) for path in paths if path.startswith("codex/")][::2]:
        tool("zstd", "-q", "--rm", path)
    measures(place, known, talk)
    need = needed(random_, known, records)
    finds(place, need[::2], talk, None)
    finds(place, need[1::2], records, folder, "--all")


# What has changed since


def files_of(place):
    """Path to lines, of all lists and documents."""
    stream = io.BytesIO(place.do("export", place.store, "-"))
    with tarfile.open(fileobj=stream) as tar:
        files = [entry for entry in tar.getmembers() if entry.isfile()]
        return {file.name: tar.extractfile(file).read().splitlines(True) for file in files}


def reference(files):
    """Words to where they are, by what the files say."""
    found = {}
    for path, lines in files.items():
        for number, text in enumerate(lines):
            item = number if path.endswith("l") else None
            for word in re.findall(r"\w+", json.loads(text)["content"]):
                found.setdefault(word, set()).add((path, item))
    return found


def by_sql(place, session, text):
    place.mount.sql(
        f"UPDATE {TABLE} SET state_data = ? WHERE session_id = ? AND state_key = ? "
        "AND item_index = 0",
        (text.decode().rstrip(), session, "l"),
    )


def change(place, random_, some, files):
    """Something that changes a file."""
    session = f"s{random_.randrange(4)}"
    path = f"{session}/{random_.choice(['l.jsonl', 'l.jsonl', 'k.json'])}"
    is_list, what = path.endswith("l"), random_.randrange(7)
    if what < 2 and is_list:
        place.do("append", place.store, path, stdin=some() + some())
    elif what < 4 or path not in files:
        put(place, path, *(some() for _ in range(5 if is_list else 1)))
    elif what == 4:
        place.do("rm", place.store, path)
    elif what == 5 and is_list:
        files[path][random_.randrange(len(files[path]))] = some()
        put(place, path, *files[path])
    else:
        by_sql(place, session, some())


def test_whatever_changes_is_known_to_who_asks(box):
    random_ = random.Random(SEED)
    words = [f"w{number}" for number in range(40)]

    recent = []

    def some():
        recent[:] = random_.choices(words, k=4)
        return line(" ".join(recent))

    for mounted in (False, True):
        place = Place(box, mounted)
        files = {}
        for _ in range(harness.rounds("SESSFS_ROUNDS", 6, 20)):
            change(place, random_, some, files)
            files = files_of(place)
            known = reference(files)
            for word in {*recent, random_.choice(words)}:
                wanted = sorted(known.get(word, ()), key=str)
                seen = sorted(where(search(place, word)), key=str)
                same(seen, wanted, f"{place.what}: {word}")
        forget_index(place)
        for word in words[:10]:
            wanted = sorted(known.get(word, ()), key=str)
            same(sorted(where(search(place, word)), key=str), wanted, "anew")


def test_rows_of_sql_that_nobody_has_taken_in(box):
    place = Place(box, False)
    put(place, "a/l.jsonl", line("one"))
    search(place, "one")
    db = sqlite3.connect(place.store)
    insert = f"INSERT INTO {TABLE} (session_id, state_key, item_index, state_data) VALUES (?,?,?,?)"
    with db:
        db.execute(insert, ("a", "l", 1, '{"content": "two"}'))
        db.execute(insert, ("b", "k", 0, '{"content": "two"}'))
    same(where(search(place, "two")), [("a/l.jsonl", 1), ("b/k.json", None)], "what is new")
    with db:
        db.execute(f"DELETE FROM {TABLE} WHERE session_id = 'b'")
        db.execute(f"UPDATE {TABLE} SET state_data = '1' WHERE session_id = 'a'")
    db.close()
    same(search(place, "two"), [], "what is gone")
    same(search(place, "one"), [], "what is otherwise now")


def test_what_is_in_the_trash_is_not_found(box):
    place = Place(box, False)
    put(place, "a/l.jsonl", line("fox"))
    put(place, "b/l.jsonl", line("fox"))
    same(len(search(place, "fox")), 2, "both")
    time.sleep(1.1)
    place.do("gc", "--older-than=1s", "--name=a", place.store)
    same(where(search(place, "fox")), [("b/l.jsonl", 0)], "it has gone")
    place.do("gc", "--undo", place.store, "a")
    same(len(search(place, "fox")), 2, "it is back")


def test_what_has_gone_hides_nothing_older(box):
    """Of a word in many items the newest are looked at, which may all have gone."""
    place = Place(box, False)
    put(place, "a/l.jsonl", *(line(f"fox {number}") for number in range(100)))
    search(place, "fox")
    put(place, "b/l.jsonl", *(line(f"fox {number}") for number in range(20050)))
    search(place, "fox")
    place.do("rm", "-r", place.store, "b")
    for most in ("3", "10"):
        found = json.loads(place.do("search", "--json", "-n", most, place.store, "fox"))
        same([hit["session"] for hit in found], ["a"] * int(most), "what is there still")


def test_what_clients_note_takes_no_place_among_the_newest_that_are_looked_at(box):
    place = Place(box, False)
    put(place, "a/l.jsonl", *(line("fox fox fox") for _ in range(5)))
    note = {"sessionId": "s", "isMeta": True}
    put(place, "b/l.jsonl", *(line("", type="user", message={"content": "fox"}, **note)
                              for _ in range(10010)))
    put(place, "d/l.jsonl", *(line("fox and what else was said of it") for _ in range(10)))
    env = {**os.environ, "XDG_CACHE_HOME": cache_of(place)}
    found = json.loads(place.do("search", "--json", place.store, "fox", env=env))
    same([hit["session"] for hit in found], ["a"] * 5 + ["d"] * 5, "the best of what was said")
    same(len(search(place, "fox")), 15, "all that was said")
    same(len(search(place, "--all", "fox")), 10025, "all of it")
    same({hit["session"] for hit in json.loads(place.do("search", "--json", "--all", place.store,
                                                        "fox", env=env))}, {"b"}, "the newest")


# The index


def test_an_index_that_is_damaged_is_made_anew(box):
    place = Place(box, False)
    random_ = random.Random(SEED)
    lines = [line(f"fox w{number}") for number in range(500)]
    put(place, "a/l.jsonl", *lines)
    other = Place(box, False)
    put(other, "a/l.jsonl", *(line(f"hen w{number}") for number in range(500)))
    search(other, "hen")
    same(len(search(place, "fox")), 500, "before")
    whole = read(index_of(place))

    def damage(data):
        write(index_of(place), data)

    damages = [lambda: os.unlink(index_of(place)), lambda: shutil.copy2(index_of(other),
               index_of(place)), lambda: damage(b""), lambda: damage(b"x" * 100000)]
    damages += [lambda: damage(whole[: len(whole) // 2]), lambda: damage(whole[:4096]),
                lambda: damage(whole[:100]), lambda: damage(whole[:100] + b"x" * 100000)]
    for page in range(len(whole) // 4096):
        # But for the header, by which it is known that it is an index.
        at, end = max(100, page * 4096), (page + 1) * 4096
        for other_bytes in (random_.randbytes(end - at), bytes(end - at)):
            damages.append(lambda data=whole[:at] + other_bytes + whole[end:]: damage(data))
    for number, step in enumerate(damages):
        step()
        same(len(search(place, "fox")), 500, f"damage {number}")
        same(len(search(place, f"w{number}")), 1, f"damage {number}")
        same(search(place, "hen"), [], f"damage {number}")


def test_what_is_no_index_is_left_alone(box):
    place = Place(box, False)
    put(place, "a/l.jsonl", line("fox"))
    for content in (b"notes", b"SQLite format 3\0" + b"x" * 5000):
        write(index_of(place), content)
        same(len(search(place, "fox")), 1, "what is found")
        same(read(index_of(place)), content, "what was there")
    os.unlink(index_of(place))
    with sqlite3.connect(index_of(place)) as other:
        other.execute("CREATE TABLE said (words)")
    content = read(index_of(place))
    same(len(search(place, "fox")), 1, "what is found beside a database of that name")
    same(read(index_of(place)), content, "what was there")
    os.unlink(index_of(place))
    box.sessfs("append", index_of(place), "b/l.jsonl", stdin=line("hen"), check=True)
    same(len(search(place, "fox")), 1, "what is found beside a store of that name")
    same(box.sessfs("cat", index_of(place), "b/l.jsonl", check=True).stdout, line("hen"), "it")
    same(len(os.listdir(os.path.join(cache_of(place), "sessfs"))), 1, "in the cache")
    write(os.path.join(cache_of(place), "sessfs", os.listdir(
        os.path.join(cache_of(place), "sessfs"))[0]), b"x" * 5000)
    same(len(search(place, "fox")), 1, "whatever lies in the cache")


def test_a_full_disk_has_its_room_back(box):
    need_root()
    folder = box.new_folder("disk")
    tool("mount", "-t", "tmpfs", "-o", "size=32m", "tmpfs", folder)
    try:
        store = os.path.join(folder, "s.db")
        random_ = random.Random(SEED)
        lines = [line(" ".join("%x" % random_.randrange(1 << 32) for _ in range(200)))
                 for _ in range(4000)]
        box.sessfs("put", store, "a/l.jsonl", stdin=b"".join(lines), check=True)
        filler = os.path.join(folder, "filler")
        write(filler, b"x" * ((os.statvfs(folder).f_bavail << 12) - (2 << 20)))
        free = os.statvfs(folder).f_bavail
        done = box.sessfs("search", store, "fox")
        same((done.returncode, b"No space left" in done.stderr), (1, True), f"{done.stderr}")
        same(os.stat(store + "-search").st_size <= 1 << 16, True, "what is left of it")
        same(os.statvfs(folder).f_bavail + 32 >= free, True, "the room")
        os.unlink(filler)
        box.sessfs("put", store, "a/l.jsonl", stdin=line("fox"), check=True)
        found = box.sessfs("search", "--json", store, "fox", check=True)
        same(len(json.loads(found.stdout)), 1, "with room")
    finally:
        tool("umount", folder)


def test_a_store_that_nobody_may_write_beside(box):
    need_root()
    place = Place(box, False)
    folder = box.new_folder("read-only")
    put(place, "a/l.jsonl", line("fox"))
    shutil.copy(place.store, os.path.join(folder, "s.db"))
    tool("mount", "--bind", folder, folder)
    try:
        tool("mount", "-o", "remount,ro,bind", folder)
        place.store = os.path.join(folder, "s.db")
        for _ in range(2):
            same(len(search(place, "fox")), 1, "what is found")
        same(len(os.listdir(os.path.join(cache_of(place), "sessfs"))), 1, "in the cache")
    finally:
        tool("umount", folder)


def test_a_store_of_the_same_name_has_another_index(box):
    place = Place(box, False)
    put(place, "a/l.jsonl", line("fox"))
    box.sessfs("backup", place.store, place.store + ".old", check=True)
    place.do("append", place.store, "a/l.jsonl", stdin=line("hen"))
    same(len(search(place, "hen")), 1, "before")
    box.sessfs("restore", "--force", place.store + ".old", place.store, check=True)
    same(search(place, "hen"), [], "the older store")
    place.do("append", place.store, "a/l.jsonl", stdin=line("cow"))
    same(search(place, "hen"), [], "the older store")
    same(len(search(place, "cow")), 1, "what is new")


def test_who_is_killed_leaves_nothing_wrong(box):
    place = Place(box, False)
    put(place, "a/l.jsonl", *(line(f"fox w{number}") for number in range(20000)))
    for wait in (0.02, 0.05, 0.1, 0.2, 0.4):
        for number in (signal.SIGKILL, signal.SIGTERM):
            process = subprocess.Popen([box.program, "search", place.store, "fox"],
                                       stdout=subprocess.DEVNULL)
            time.sleep(wait)
            process.send_signal(number)
            process.wait()
        same(len(search(place, "w77")), 1, f"after {wait} s")
        os.unlink(index_of(place))


def has_read(pid):
    """How many bytes a process has read so far."""
    with open(f"/proc/{pid}/io", encoding="ascii") as counts:
        return int(re.search(r"rchar: (\d+)", counts.read())[1])


def test_who_is_ended_in_the_middle_of_a_list_that_has_grown_finds_each_item_once(box):
    place = Place(box, False)
    journal = index_of(place) + "-journal"
    for number in (signal.SIGTERM, signal.SIGKILL):
        put(place, "a/l.jsonl", line("first"))
        same(len(search(place, "first")), 1, "before")
        place.do("append", place.store, "a/l.jsonl",
                 stdin=b"".join(line(f"fox w{number}") for number in range(30000)))
        process = subprocess.Popen([box.program, "search", place.store, "fox"],
                                   stdout=subprocess.DEVNULL)
        harness.eventually(lambda: has_read(process.pid) > 1 << 20, "rows are read")
        process.send_signal(number)
        same(process.wait(), -number, "it has ended in the middle")
        same(os.path.exists(journal), number == signal.SIGKILL, "a transaction is left")
        same(where(search(place, "w5")), [("a/l.jsonl", 6)], "one that was read")
        same(len(search(place, "fox")), 30000, "all of them")
        same(os.path.exists(journal), False, "a transaction is left")


def test_an_index_that_is_deleted_without_its_journal(box):
    place = Place(box, False)
    put(place, "a/l.jsonl", line("fox"))
    search(place, "fox")
    with sqlite3.connect(index_of(place), isolation_level=None) as index:
        index.execute("PRAGMA cache_size = 1")
        index.execute("PRAGMA journal_mode = PERSIST")
        index.execute("BEGIN")
        index.execute("UPDATE item SET item = 77")
        index.execute("CREATE TABLE more AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL "
                      "SELECT i + 1 FROM n LIMIT 1000) SELECT i, randomblob(100) FROM n")
        left = read(index_of(place) + "-journal")
        index.execute("ROLLBACK")
    index.close()
    os.unlink(index_of(place))
    write(index_of(place) + "-journal", left)
    same(where(search(place, "fox")), [("a/l.jsonl", 0)], "what is found")


def test_many_ask_at_once(box):
    place = Place(box, True)
    put(place, "a/l.jsonl", *(line(f"fox w{number}") for number in range(5000)))
    command = [box.program, "search", "--json", "-n", "100000", place.store, "fox"]
    for _ in range(2):
        asking = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(6)]
        for process in asking:
            out, _ = process.communicate()
            same(len(json.loads(out)), 5000, "all of them")


def test_a_store_in_memory_has_no_index(box):
    done = box.sessfs("search", "memory:", "fox")
    same((done.returncode, b"in memory" in done.stderr), (1, True), f"{done.stderr}")


def test_without_a_place_beside_the_store_it_is_in_the_cache(box):
    need_root()
    place = Place(box, False)
    put(place, "a/l.jsonl", line("fox"))
    os.mkdir(index_of(place))
    cache = box.new_folder("cache")
    found = search(place, "fox", env={**os.environ, "XDG_CACHE_HOME": cache})
    same(len(found), 1, "what is found")
    os.rmdir(index_of(place))
    os.symlink("/etc/passwd", index_of(place))
    found = search(place, "fox", env={**os.environ, "XDG_CACHE_HOME": cache})
    same(len(found), 1, "what is found")
    names = os.listdir(os.path.join(cache, "sessfs"))
    same(len(names) == 1 and names[0].endswith("-search"), True, f"{names}")
    same(os.stat(os.path.join(cache, "sessfs", names[0])).st_mode & 0o777, 0o600, "its mode")


def test_the_first_time_takes_little_memory_and_shows_how_far_it_is(box):
    place = Place(box, False)
    words = [f"w{number}" for number in range(5000)]
    random_ = random.Random(SEED)
    for session in range(8):
        put(place, f"s{session}/l.jsonl",
            *(line(" ".join(random_.choices(words, k=200))) for _ in range(1000)))
    put(place, "big/l.jsonl", line("fox " * (3 << 20)))
    _, _, memory = measured(place, "fox")
    if not is_sanitized(box.program):
        same(memory < 128 << 10, True, f"{memory} KiB")
    os.unlink(index_of(place))
    shown = places.Terminal(box, "search", place.store, "fox").end()
    same(bool(re.search(rb"\rindex\b[^\r]*\d items?  \S+ of \S+", shown)), True, f"{shown}")


if __name__ == "__main__":
    harness.main(globals())
