# SPDX-License-Identifier: MIT
"""Many processes at once, and readers of every sort that judge what they see.

A reader is a function that returns all bytes of a file, read in its own way.  None may ever see a
NUL, a mixed line, or a size that is not the end of a line.
"""

import contextlib
import ctypes
import mmap
import os
import shutil
import signal
import subprocess
import tempfile
import time

import harness

BLOCK = 128 * 1024


def run_together(workers, others=()):
    """Each worker in a process of its own; fails with what the first one says.

    The others run until all workers have ended: each of them is called with a function more, which
    tells whether to go on."""
    reading, writing = os.pipe()
    going, stop = os.pipe()
    children = []
    for function, *arguments in list(workers) + [(*other, None) for other in others]:
        child = os.fork()
        if child == 0:
            os.close(stop)
            status = 0
            try:
                if arguments and arguments[-1] is None:
                    arguments[-1] = lambda: not ended(going)
                function(*arguments)
            except BaseException as error:
                os.write(writing, f"{function.__name__}: {harness.describe(error)}\n".encode())
                status = 1
            os._exit(status)
        children.append(child)
    os.close(writing)
    os.close(going)
    statuses = [os.waitpid(child, 0)[1] for child in children[: len(workers)]]
    os.close(stop)
    statuses += [os.waitpid(child, 0)[1] for child in children[len(workers) :]]
    with os.fdopen(reading) as said:
        text = said.read()
    codes = [os.waitstatus_to_exitcode(status) for status in statuses if status]
    if codes:
        raise AssertionError(f"processes ended with {codes}: {text.strip()}")


def rest(begun):
    """As a client that has more to do than this: pauses for some times what it has taken since
    `begun`, so that others come to their turn on a slow machine as on a quick one."""
    time.sleep(max(0.02, 3 * (time.monotonic() - begun)))


def ended(pipe):
    """Whether the other end of a pipe is closed."""
    os.set_blocking(pipe, False)
    try:
        return os.read(pipe, 1) == b""
    except BlockingIOError:
        return False


# Ways to read a file


def by_read(path, size=BLOCK):
    with open(path, "rb", buffering=0) as file:
        return b"".join(iter(lambda: file.read(size), b""))


def by_small_reads(path):
    return by_read(path, 8192)


def by_mmap(path):
    """A shared mapping of as many bytes as fstat tells."""
    with open(path, "rb") as file:
        if not os.fstat(file.fileno()).st_size:
            return b""
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapping:
            return bytes(mapping)


def by_private_mmap(path):
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        if not size:
            return b""
        with mmap.mmap(file.fileno(), size, mmap.MAP_PRIVATE, mmap.PROT_READ) as mapping:
            return bytes(mapping)


def by_exact_reads(path):
    """As many bytes as fstat tells, and no more."""
    with open(path, "rb", buffering=0) as file:
        left = os.fstat(file.fileno()).st_size
        parts = []
        while left:
            parts.append(file.read(left))
            assert parts[-1], f"the file ends {left} bytes early"
            left -= len(parts[-1])
        return b"".join(parts)


def by_sendfile(path):
    """To its end, without a look at the size."""
    with open(path, "rb") as source, tempfile.TemporaryFile() as copy:
        while os.sendfile(copy.fileno(), source.fileno(), None, BLOCK):
            pass
        return os.pread(copy.fileno(), os.fstat(copy.fileno()).st_size, 0)


def by_splice(path):
    reading, writing = os.pipe()
    parts = []
    try:
        with open(path, "rb") as file:
            while size := os.splice(file.fileno(), writing, 65536):
                parts.append(os.read(reading, size))
    finally:
        os.close(reading)
        os.close(writing)
    return b"".join(parts)


def by_copy(path):
    """Python's copy, which uses sendfile."""
    with tempfile.NamedTemporaryFile() as copy:
        shutil.copyfile(path, copy.name)
        return by_read(copy.name)


def by_cp(path):
    with tempfile.NamedTemporaryFile() as copy:
        while True:
            command = ["cp", "--reflink=never", path, copy.name]
            done = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False)
            if done.returncode == 0:
                return by_read(copy.name)
            # cp looks twice, and a rename over the file may come in between.
            if "replaced while being copied" not in done.stderr:
                raise AssertionError(done.stderr)


def by_copy_file_range(path):
    """The kernel copies by itself, into another file of the mount."""
    copy = f"{path}.{os.getpid()}.copy"
    with open(path, "rb") as source, open(copy, "w+b") as target:
        size = os.fstat(source.fileno()).st_size
        while size:
            done = os.copy_file_range(source.fileno(), target.fileno(), size)
            if not done:
                break
            size -= done
    data = by_read(copy)
    os.unlink(copy)
    return data


def by_one_descriptor():
    """A reader that keeps its descriptor and reads again from the start."""
    descriptors = {}

    def by_seek(path):
        fd = descriptors.setdefault(path, None) or os.open(path, os.O_RDONLY)
        descriptors[path] = fd
        data, at = b"", 0
        while True:
            part = os.pread(fd, BLOCK, at)
            if not part:
                return data
            data += part
            at += len(part)

    return by_seek


WAYS = (
    by_read,
    by_small_reads,
    by_exact_reads,
    by_sendfile,
    by_splice,
    by_mmap,
    by_private_mmap,
    by_copy,
    by_cp,
    by_copy_file_range,
    by_one_descriptor(),
)


def die_with_parent():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


@contextlib.contextmanager
def tail_follows(path, into):
    """tail -f into a file; it is ended behind the block, when the file has been quiet a while."""
    with open(into, "wb") as out:
        tail = subprocess.Popen(
            ["tail", "-c", "+1", "-f", "-s", "0.1", path],
            stdout=out,
            preexec_fn=die_with_parent,
        )
        try:
            yield
            seen = -1
            while os.path.getsize(into) != seen:
                seen = os.path.getsize(into)
                time.sleep(1)
        finally:
            tail.kill()
            tail.wait()
