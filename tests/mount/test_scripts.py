#!/usr/bin/python3 -B
# SPDX-License-Identifier: MIT
"""One open file, used by several descriptors and processes, is what it is on a disk: short scripts
run in an ordinary folder and on the mount, and what each step saw and the bytes in the end are
equal.

  SESSFS_SCRIPTS  how many scripts are made up for each kind of name; default 60
  SESSFS_SEED     of them, and of what is chosen in scripts by combination
  SESSFS_WAYS     how many such choices are made for each deed and end; default 2
"""

import contextlib
import fcntl
import itertools
import mmap
import os
import random
import resource
import shutil
import subprocess
import threading
import time

import harness
import sharing
from harness import eventually, read, same, shell, write
from test_files import fallocate

SCRIPTS = harness.rounds("SESSFS_SCRIPTS", 12, 60)
WAYS = harness.rounds("SESSFS_WAYS", 1, 2)
SEED = int(os.environ.get("SESSFS_SEED") or time.time_ns() % 1_000_000)

NAMES = ["x.json", "x.jsonl", "x.hash", "x.txt"]
OLD = {
    "x.json": b'{"old": [1, 2, 3]}\n',
    "x.jsonl": b'{"old": 1}\n{"old": 2}\n',
    "x.hash": b"old text\n",
    "x.txt": b"old\nlines\n",
}


# Scripts of shells.  $1 is the file, and what they print is compared, too.

SHELLS = [
    'printf \'{"a":1}\' > src; cp src /dev/stdout > "$1"',
    'printf \'{"a":1}\' > src; cat src > /dev/stdout > "$1"',
    'exec 3>"$1"; printf \'{"a":1}\' > "$1"; exec 3>&-',
    'exec 3>"$1"; exec 4>"$1"; printf \'{"a":1}\' >&4; exec 4>&-; exec 3>&-',
    '{ echo 1; sh -c "echo 2 >> /dev/stdout"; } >> "$1"',
    '{ sh -c "printf 2 >> /dev/stdout"; echo 1; } >> "$1"',
    '{ printf 1; sh -c "printf 2 >> /dev/stdout"; echo 3; } >> "$1"',
    '{ printf "[1,"; sh -c "printf 2, >> /dev/stdout"; printf "3]"; } >> "$1"',
    '{ printf "[1,"; dd if=/dev/zero count=0 oflag=append conv=notrunc 2>&-; printf "3]"; } > "$1"',
    '{ printf "[1,2"; stat -L -c %s /dev/fd/8 8>&1 >&2; printf ",3]"; } > "$1"',
    '{ printf "[1,2"; (printf ",3"; stat -L -c %s /dev/fd/8 8>&1 >&2); printf "]"; } > "$1"',
    '{ printf "[1,2"; wc -c < /dev/stdout >&2; printf ",3]"; } > "$1"',
    '{ printf "[1,2\\n"; cat /dev/fd/8 8>&1 >&2; printf ",3]\\n"; } 1<> "$1"',
    '{ printf abcdef; cat /dev/fd/8 8>&1 >&2; printf ghi; } > "$1"',
    'exec 3<>"$1"; printf "[1,2]\\n" >&3; cat /dev/fd/3 >&2; exec 3>&-',
    'exec 3<>"$1"; printf "[1,2]\\n" >&3; sh -c "cat /dev/fd/3 >&2" ; exec 3>&-',
    'exec 3>"$1"; sh -c "printf [1, >&3"; sh -c "printf 2] >&3"; exec 3>&-',
    'exec 3>>"$1"; sh -c "printf [1, >&3"; sh -c "printf 2] >&3"; exec 3>&-',
    'sh -c "exec 3>&1; printf [1, >&3; exec 3>&-; printf 2]" > "$1"',
    '{ printf "[1,"; (sleep 0.1; printf "2]") & wait; } > "$1"',
    '{ (sleep 0.2; printf "2]") & printf "[1,"; } > "$1"; wait',
    'printf "[1]" | tee /dev/stdout > "$1"',
    'printf "[1]" | tee -a /dev/stdout > "$1"',
    'printf "[1]" | dd of=/dev/stdout 2>&- > "$1"',
    'printf "[1]" | dd of=/dev/stdout conv=notrunc 2>&- > "$1"',
    'exec 3<>"$1"; printf "[1]" >&3; printf 9 | dd of=/dev/fd/3 bs=1 seek=1 conv=notrunc 2>&-',
    'printf "[1]" > "$1"; truncate -s 2 /dev/stdin 0<> "$1"; cat "$1" >&2',
    'exec 3>"$1"; printf "[1,2]" >&3; truncate -s 3 /proc/self/fd/3; printf "]" >&3; exec 3>&-',
    'exec 3>"$1"; printf "[1,2]" >&3; : > /dev/fd/3; printf "]" >&3; exec 3>&-',
    'exec 3>"$1" 4>&3; printf "[1," >&3; exec 3>&-; printf "2]" >&4; exec 4>&-',
    '{ printf "[1,"; exec 4>&1; printf "2," >&4; exec 4>&-; printf "3]"; } > "$1"',
    'tail -c 3 < "$1" >&2; { printf 1; tail -c 1 /dev/fd/8 8>&1 >&2; } 1<> "$1"',
    'exec 3>>"$1"; printf "x" >&3; cp /dev/fd/3 copy; cat copy >&2; exec 3>&-',
    'exec 3<>"$1"; printf "[7" >&3; cp /dev/fd/3 copy; cat copy >&2; printf "]" >&3; exec 3>&-',
    'rm -f "$1"; { printf "[1,"; wc -c < /dev/stdout >&2; printf "2]"; } > "$1"; cat "$1" >&2',
    '{ printf "[1,"; rm "$1"; printf "2]"; cat /dev/fd/8 8>&1 >&2; } 1<> "$1"; ls >&2',
    '{ printf "[1,"; mv "$1" "y$1"; printf "2]"; } > "$1"; cat "y$1" >&2; printf 4 > "$1"',
]


def run_shell(script, folder, name, old):
    path = os.path.join(folder, name)
    if old:
        harness.write(path, OLD[name])
    done = shell(f"cd '{folder}' || exit 9\n" + script, name, check=False)
    seen = {"said": done.stderr, "status": done.returncode}
    for made in sorted(os.listdir(folder)):
        seen[made] = read(os.path.join(folder, made))
    return seen


def test_shells_leave_and_see_what_they_would_on_a_disk(box):
    mount, disk = box.mount(), box.new_folder("disk")
    wrong = []
    for number, script in enumerate(SHELLS):
        for name in NAMES:
            for old in (False, True):
                sides = []
                for top in (disk, mount.path):
                    folder = os.path.join(top, "s")
                    os.makedirs(folder, exist_ok=True)
                    sides.append(run_shell(script, folder, name, old))
                    shutil.rmtree(folder)
                if sides[0] != sides[1]:
                    wrong.append(f"{name}, old {old}: {script}\n  {sides[0]}\n  {sides[1]}")
    assert not wrong, "\n".join([f"{len(wrong)} differ, disk and mount:"] + wrong)


def test_what_a_child_wrote_is_there_when_its_parent_has_closed_the_file(box):
    mount, session = box.session()
    for name in ("x.json", "x.jsonl", "x.hash"):
        path = os.path.join(session, name)
        for number in range(50):
            fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            text = b"[%d]" % number
            child = os.fork()
            if not child:
                harness.put(fd, text)
                os._exit(0)
            os.waitpid(child, 0)
            os.close(fd)
            same(read(path), text, f"{name} {number}")
    mount.check()


def test_a_mapping_shows_and_changes_a_line_that_is_not_finished(box):
    mount, session = box.session()
    path = os.path.join(session, "x.jsonl")
    fd = os.open(path, os.O_RDWR | os.O_CREAT)
    harness.put(fd, b"[1]\n[2")
    with mmap.mmap(fd, 6) as view:
        same(view[:], b"[1]\n[2", "the mapping")
        view[1:2], view[5:6] = b"7", b"9"
        view.flush()
    same(os.pread(fd, 20, 0), b"[7]\n[9", "the file to its writer")
    harness.put(fd, b"]\n")
    os.close(fd)
    same(read(path), b"[7]\n[9]\n", "the file")
    mount.check()


def test_each_of_nine_hundred_writers_keeps_its_line(box):
    mount, session = box.session()
    path = os.path.join(session, "x.jsonl")
    resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))
    writers = [os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND) for _ in range(900)]
    for number, fd in enumerate(writers):
        harness.put(fd, b"[%d" % number)
    # The kernel learns a moment later that the name does not lead to the last writer.
    eventually(lambda: os.stat(path).st_size == 0, "nobody else sees a piece of a line")
    for fd in writers:
        harness.put(fd, b"]\n")
    for fd in writers:
        os.close(fd)
    same(read(path), b"".join(b"[%d]\n" % number for number in range(900)), "the lines")
    mount.check()


def beside(box, flags, play):
    """play(fd) sees and leaves the same on a disk and on a mount, for each kind of name."""
    mount, disk = box.mount(), box.new_folder("disk")
    for name in NAMES:
        sides = []
        for top in (disk, mount.at("s")):
            os.makedirs(top, exist_ok=True)
            path = os.path.join(top, name)
            fd = os.open(path, flags | os.O_CREAT)
            seen = play(fd)
            os.close(fd)
            sides.append((seen, read(path)))
        same(sides[1], sides[0], name)
    mount.check()


def test_a_descriptor_appends_as_long_as_fcntl_says_so(box):
    def play(fd):
        flags = fcntl.fcntl(fd, fcntl.F_GETFL)
        os.write(fd, b'{"a": 1}\n')
        fcntl.fcntl(fd, fcntl.F_SETFL, flags & ~os.O_APPEND)
        os.pwrite(fd, b"2", 6)
        fcntl.fcntl(fd, fcntl.F_SETFL, flags)
        os.pwrite(fd, b"[3]\n", 0)
        return os.fstat(fd).st_size, os.pread(fd, 100, 0)

    beside(box, os.O_RDWR | os.O_APPEND, play)


def test_truncate_of_a_descriptors_path_cuts_what_was_written_through_it(box):
    def play(fd):
        os.write(fd, b"[1, 2, 3]")
        os.truncate(f"/proc/self/fd/{fd}", 5)
        return os.fstat(fd).st_size, os.pread(fd, 100, 0), os.write(fd, b"]")

    beside(box, os.O_RDWR, play)


def test_a_reader_that_comes_to_an_open_save_publishes_nothing(box):
    mount, session = box.session()
    for name, begun in (("k.json", b"12"), ("l.jsonl", b"[1]\n[2"), ("m.hash", b"a")):
        path = os.path.join(session, name)
        write(path, b"[0]\n")
        with open(path, "wb", buffering=0) as file:
            file.write(begun)
            same(read(f"/proc/self/fd/{file.fileno()}"), begun, f"{name} by its descriptor")
            # The kernel tells of a close some time later.
            for _ in range(200):
                same(read(path), b"[0]\n", f"{name} by its name")
        same(read(path), begun, name)


def test_who_comes_by_a_descriptor_sees_one_version_and_then_what_is_new(box):
    mount, session = box.session()
    for name in ("k.json", "l.jsonl", "m.hash", "f.txt"):
        path = os.path.join(session, name)
        old, new = b"[1]\n", b"[22, 23]\n"
        write(path, old)
        with open(path, "rb", buffering=0) as reader:
            same(reader.read(2), b"[1", name)
            write(path, new)
            with open(f"/proc/self/fd/{reader.fileno()}", "rb", buffering=0) as again:
                first = new if name == "f.txt" else old
                same(os.fstat(again.fileno()).st_size, len(first), f"the size of {name}")
                same(again.read(99), first, f"{name} by its descriptor")
                same(os.pread(again.fileno(), 99, 0), new, f"{name} read again")


def test_who_has_read_to_the_end_reads_what_is_appended(box):
    mount, session = box.session()
    for name in ("k.json", "l.jsonl", "m.hash", "f.txt"):
        path = os.path.join(session, name)
        write(path, b"[1]\n")
        with open(path, "rb", buffering=0) as reader:
            same((reader.read(99), reader.read(99)), (b"[1]\n", b""), name)
            for line in (b"2\n", b"3\n"):
                with open(path, "ab", buffering=0) as writer:
                    writer.write(line)
                same((reader.read(99), reader.read(99)), (line, b""), f"{name} after an append")


def test_holes_are_made_in_what_is_not_published(box):
    keep_size, punch_hole, zero_range = 1, 2, 16

    def play(fd):
        os.write(fd, b"[1, 2, 3]\n")
        fallocate(fd, punch_hole | keep_size, 1, 5)
        fallocate(fd, zero_range, 8, 10)
        fallocate(fd, punch_hole | keep_size, 17, 1 << 40)
        fallocate(fd, punch_hole | keep_size, 1 << 40, 1 << 20)
        return os.fstat(fd).st_size, os.pread(fd, 100, 0)

    beside(box, os.O_RDWR, play)


def test_a_thread_that_reads_and_closes_duplicates_takes_nothing_from_one_that_writes(box):
    mount, session = box.session()
    for name in NAMES:
        path, wrong = os.path.join(session, name), []
        fd = os.open(path, os.O_RDWR | os.O_CREAT)
        pieces = [b"[%d,\n" % number for number in range(300)]
        whole, written = b"".join(pieces), 0

        def follow():
            known = 0
            while known < len(whole) and not wrong:
                copy, known = os.dup(fd), written
                size, seen = os.fstat(copy).st_size, os.pread(copy, len(whole), 0)
                os.close(copy)
                if not whole.startswith(seen) or not known <= min(size, len(seen)):
                    wrong.append((known, size, seen))

        thread = threading.Thread(target=follow)
        thread.start()
        for piece in pieces:
            written += os.write(fd, piece)
        thread.join()
        os.close(fd)
        assert not wrong, f"{name}: {wrong}"
        same(read(path), whole, name)
    mount.check()


def test_commands_of_a_shell_are_one_save_beside_another_writer(box):
    mount, session = box.session()
    for name, echo in itertools.product(NAMES[:3], ("echo", shutil.which("echo"))):
        path = os.path.join(session, name)
        write(path, b'["old"]\n')
        other = os.open(path, os.O_WRONLY)
        os.write(other, b"[")
        command = subprocess.Popen(
            ["sh", "-c", '{ $2 "{"; echo written >&2; read go; $2 "}"; } >"$1"', "-", path, echo],
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        same(command.stderr.readline(), b"written\n", f"{name}: the command")
        same(read(path), b'["old"]\n', f"{name} while the command runs")
        command.communicate(b"\n")
        same(read(path), b"{\n}\n", f"{name} when it has ended")
        os.close(other)
    mount.check()


# Scripts that are made up: one open by name, and what comes of it.

WORDS = [b"1", b"[1,", b"2]", b'{"a": ', b"3}\n", b"\n", b'"text"\n', b"[]\n{}\n", b"x" * 40]
FLAGS = [os.O_RDONLY, os.O_WRONLY, os.O_RDWR]
MORE = [0, os.O_APPEND, os.O_TRUNC, os.O_APPEND | os.O_TRUNC]


def make_script(rng, deep=0):
    """Steps (what, slot, argument ...) over eight slots."""
    steps = []
    for _ in range(rng.randrange(3, 12 if deep == 0 else 6)):
        slot = rng.randrange(8)
        what = rng.choice(
            "write write write append pwrite read pread seek end size dup reopen close sync cut "
            "copy map child child thread".split()
        )
        if what in ("write", "append"):
            steps.append((what, slot, rng.choice(WORDS)))
        elif what == "pwrite":
            steps.append((what, slot, rng.choice(WORDS), rng.randrange(40)))
        elif what in ("read", "pread"):
            steps.append((what, slot, rng.randrange(1, 60), rng.randrange(30)))
        elif what in ("seek", "cut"):
            steps.append((what, slot, rng.randrange(40)))
        elif what == "dup":
            steps.append((what, slot, rng.randrange(8)))
        elif what == "reopen":
            flags = rng.choice(FLAGS) | rng.choice(MORE)
            steps.append((what, slot, rng.randrange(8), flags))
        elif what == "child" or what == "thread":
            if deep < 2:
                steps.append((what, slot, make_script(rng, deep + 1)))
        else:
            steps.append((what, slot))
    return steps


def descriptor(slots, slot):
    return slots[slot] if slot in slots else slots[min(slots)]


def run_steps(slots, steps, log):
    for step in steps:
        what, slot = step[0], step[1]
        fd = descriptor(slots, slot)
        try:
            log.append((what, run_step(slots, fd, step, log)))
        except OSError as error:
            log.append((what, error.errno))


def run_child(slots, steps):
    out, into = os.pipe()
    pid = os.fork()
    if pid == 0:
        log = []
        try:
            run_steps(dict(slots), steps, log)
        finally:
            harness.put(into, repr(log).encode())
            os._exit(0)
    os.close(into)
    said = b""
    while part := os.read(out, 65536):
        said += part
    os.close(out)
    os.waitpid(pid, 0)
    return said


def run_step(slots, fd, step, log):
    what, rest = step[0], step[2:]
    if what in ("write", "append"):
        return os.write(fd, rest[0])
    if what == "pwrite":
        return os.pwrite(fd, rest[0], rest[1])
    if what == "read":
        return os.read(fd, rest[0])
    if what == "pread":
        return os.pread(fd, rest[0], rest[1])
    if what == "seek":
        return os.lseek(fd, rest[0], os.SEEK_SET)
    if what == "end":
        return os.lseek(fd, 0, os.SEEK_END)
    if what == "size":
        return os.fstat(fd).st_size
    if what == "dup":
        new = os.dup(fd)
    elif what == "reopen":
        new = os.open(f"/proc/self/fd/{fd}", rest[1])
    if what in ("dup", "reopen"):
        old = slots.pop(rest[0], None)
        if old is not None:
            os.close(old)
        slots[rest[0]] = new
        return None
    if what == "close":
        if len(slots) > 1:
            number = min(slot for slot in slots if slots[slot] == fd)
            os.close(slots.pop(number))
        return None
    if what == "sync":
        return os.fsync(fd)
    if what == "cut":
        return os.ftruncate(fd, rest[0])
    if what == "copy":
        return copy_of(fd)
    if what == "map":
        return map_of(fd)
    if what == "child":
        return run_child(slots, rest[0])
    thread = threading.Thread(target=run_steps, args=(slots, rest[0], log))
    thread.start()
    thread.join()
    return None


def copy_of(fd):
    """By sendfile(2), which reads through the page cache."""
    into = os.memfd_create("copy")
    at, size = 0, os.fstat(fd).st_size
    while at < size:
        done = os.sendfile(into, fd, at, size - at)
        if not done:
            break
        at += done
    data = os.pread(into, at + 1, 0)
    os.close(into)
    return data


def map_of(fd):
    size = os.fstat(fd).st_size
    if not size:
        return b""
    with mmap.mmap(fd, size, mmap.MAP_PRIVATE, mmap.PROT_READ) as view:
        return view[:]


def run_script(folder, name, old, flags, steps):
    path = os.path.join(folder, name)
    if old:
        harness.write(path, OLD[name])
    log = []
    slots = {0: os.open(path, flags | os.O_CREAT, 0o644)}
    run_steps(slots, steps, log)
    for fd in slots.values():
        os.close(fd)
    return log


def readable(steps, indent="    "):
    lines = []
    for step in steps:
        if step[0] in ("child", "thread"):
            lines += [indent + step[0]] + [readable(step[2], indent + "  ")]
        else:
            lines.append(indent + repr(step))
    return "\n".join(lines)


def differ(disk, mount, name, seed):
    rng = random.Random(f"{seed} {name}")
    old = rng.random() < 0.6
    flags = rng.choice(FLAGS[1:]) | rng.choice(MORE)
    steps = make_script(rng)
    sides = []
    for top in (disk, mount.path):
        folder = os.path.join(top, f"s{seed}")
        os.makedirs(folder)
        log = run_script(folder, name, old, flags, steps)
        sides.append((log, read(os.path.join(folder, name))))
        shutil.rmtree(folder)
    if sides[0] == sides[1]:
        return None
    report = [f"seed {seed}, {name}, old {old}, flags {flags:o}:", readable(steps)]
    for (what, disk), (_, seen) in zip(sides[0][0], sides[1][0]):
        if disk != seen:
            report.append(f"  {what}: disk {disk}, mount {seen}")
            break
    report.append(f"  in the end: disk {sides[0][1]}, mount {sides[1][1]}")
    return "\n".join(report)


def test_scripts_that_are_made_up_leave_and_see_what_they_would_on_a_disk(box):
    mount, disk = box.mount(), box.new_folder("disk")
    wrong = []
    for seed in range(SEED, SEED + SCRIPTS):
        for name in NAMES:
            report = differ(disk, mount, name, seed)
            if report:
                wrong.append(report)
    assert not wrong, "\n".join([f"{len(wrong)} of {SCRIPTS * len(NAMES)} differ:"] + wrong[:5])


# Scripts by combination (sharing.py).  What the contract promises beyond a disk, of a state file:


def in_the_middle(name, versions, seen):
    """Until a writer closes, everybody else sees the previous content, whole; of a list that grows,
    whole lines."""
    shown = set(versions)
    if name.endswith(".jsonl"):
        shown |= {version[: version.rfind(b"\n") + 1] for version in versions}
    return seen in [(len(version), version) for version in shown]


def refused(name, versions, seen):
    """A state file has one name."""
    return seen == "EPERM"


PROMISES = {"by name": in_the_middle, "link": refused}


def is_promised(way, step, name, versions, seen):
    if name.endswith(".txt"):
        return False
    # Who has opened a file to read keeps the version of that open, and so sees nothing of what is
    # written when the other one opens it again; only what is there in the end is the same.
    if way == "<":
        return True
    return step in PROMISES and PROMISES[step](name, versions, seen)


AGED = [(age, f"{age}-{name[2:]}.{name[2:]}") for name in NAMES for age in ("new", "old")]


def fill(folder):
    os.makedirs(folder)
    for age, name in AGED:
        if age == "old":
            harness.write(os.path.join(folder, name), OLD["x." + name.rsplit(".")[1]])
    return [os.path.join(folder, name) for _, name in AGED]


def combined(disk, mount, number, way, share, hold, words, deed, end):
    """Plays one script; returns sentences about what differs."""
    folders = [os.path.join(top, str(number)) for top in (disk, mount.path)]
    ours, theirs = map(fill, folders)
    watched = [os.open(path, os.O_RDONLY | os.O_CREAT, 0o644) for path in ours]
    versions = [[] for _ in AGED]

    def watch():
        for fd, known in zip(watched, versions):
            known.append(os.pread(fd, 4096, 0))

    watch()
    steps = sharing.script(words, deed, end)
    log = sharing.play(ours + theirs, way, share, hold, steps, watch)
    for fd in watched:
        os.close(fd)
    title = f"{number}: {way}, {share}, {hold}, {words}, {deed}, {end}"
    for at, (_, name) in enumerate(AGED):
        for (_, step, *_), seen in zip(steps, log):
            want, got = seen[at], seen[at + len(AGED)]
            if want != got and not is_promised(way, step, name, versions[at], got):
                yield f"{title}: {name}: {step}: disk {want}, mount {got}"
                break
    # When a process ends, the kernel tells the last close of a file only after all others.
    if end in ("other ends last", "other is killed last"):
        with contextlib.suppress(AssertionError):
            eventually(lambda: not list(unequal(title, *folders)), "what it had open is published")
    yield from unequal(title, *folders)


def contents(folder):
    return {name: read(os.path.join(folder, name)) for name in os.listdir(folder)}


def unequal(title, disk, mount):
    ours, theirs = contents(disk), contents(mount)
    for name in sorted(ours.keys() | theirs.keys()):
        want, got = ours.get(name), theirs.get(name)
        if want != got:
            yield f"{title}: {name} in the end: disk {want}, mount {got}"


def combinations(shares):
    """Each deed and end, a third of them unless in a soak, each with WAYS choices of all else."""
    rng = random.Random(SEED)
    tables = sharing.OPENS, shares, sharing.HOLDS, sharing.WORDS
    pairs = list(itertools.product(sharing.DEEDS, sharing.ENDS))
    for deed, end in pairs if harness.SOAK else rng.sample(pairs, len(pairs) // 3):
        for _ in range(WAYS):
            way, share, hold, words = (rng.choice(list(table)) for table in tables)
            # A thread does not end alone; and who opens a reader's file again, to write, is told
            # the reader's size by the kernel, which knows one for both.
            if share == "a thread" and ("ends" in end or "killed" in end):
                share = "a child"
            if way == "<":
                hold = "as it is"
            yield way, share, hold, words, deed, end


def test_two_who_share_an_open_file_leave_and_see_what_they_would_on_a_disk(box):
    mount, disk = box.mount(), box.new_folder("disk")
    shares = dict(sharing.SHARES)
    if not sharing.namespaces_work():
        box.note("no other pid namespaces: they cannot be made here")
        shares = {share: way for share, way in shares.items() if "namespace" not in share}
    if os.geteuid() != 0:
        box.note("no other /proc: its mount namespace would keep the mounts of other tests")
        shares = {share: way for share, way in shares.items() if "/proc" not in share}
    wrong, scripts = [], list(combinations(shares))
    for number, combination in enumerate(scripts):
        wrong += combined(disk, mount, number, *combination)
    box.note(f"{len(scripts)} scripts of {len(AGED)} files, seed {SEED}")
    assert not wrong, "\n".join([f"{len(wrong)} differ:"] + wrong[:10])
    mount.remount()
    for number in os.listdir(disk):
        wrong += unequal(number, os.path.join(disk, number), mount.at(number))
    assert not wrong, "\n".join(["after mounting again:"] + wrong[:10])
    mount.check()


if __name__ == "__main__":
    harness.main(globals())
