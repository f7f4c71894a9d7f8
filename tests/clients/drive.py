# SPDX-License-Identifier: MIT
"""Clients that are asked otherwise than by words of a command: by JSON-RPC on their standard input
and output, by HTTP, and at a terminal."""

import contextlib
import json
import os
import pty
import re
import select
import subprocess
import threading
import urllib.request

SETTLES = 30  # seconds in which a client that was told to end does


def begun(words, where, **streams):
    return subprocess.Popen(words, start_new_session=True, **{**where, **streams})


def ended(process):
    process.terminate()
    try:
        process.wait(SETTLES)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def framed(value):
    data = json.dumps(value).encode()
    return b"Content-Length: %d\r\n\r\n" % len(data) + data


def next_frame(stream):
    size = 0
    while line := stream.readline().strip():
        name, _, value = line.partition(b":")
        size = int(value) if name.lower() == b"content-length" else size
    return stream.read(size)


def asked(words, where, requests, limit, frames=False):
    """The results of requests, each of them a method and what it is given: a message a line, or
    with its length before it."""
    results = []
    with begun(words, where, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
               stderr=subprocess.DEVNULL) as process:
        timer = threading.Timer(limit, process.kill)
        timer.start()
        try:
            for number, (method, params) in enumerate(requests):
                message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
                process.stdin.write(framed(message) if frames
                                    else json.dumps(message).encode() + b"\n")
                process.stdin.flush()
                answer = {}
                while answer.get("id") != number or "method" in answer:
                    data = next_frame(process.stdout) if frames else process.stdout.readline()
                    assert data, f"{words} has no answer to {method}"
                    answer = json.loads(data)
                assert "result" in answer, f"{method}: {answer}"
                results.append(answer["result"])
        finally:
            timer.cancel()
            ended(process)
    return results


def served(words, where, announced, requests, limit):
    """The bodies of a server's answers; it says at which address it is."""
    bodies = []
    with begun(words, where, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
               stderr=subprocess.STDOUT) as process:
        timer = threading.Timer(limit, process.kill)
        timer.start()
        try:
            said, found = "", None
            while not (found := re.search(announced, said)):
                line = process.stdout.readline().decode("utf-8", "replace")
                assert line, f"{words} serves nothing: {said}"
                said += line
            for method, path in requests:
                request = urllib.request.Request(found[1] + path, method=method)
                with urllib.request.urlopen(request, timeout=limit) as answer:
                    bodies.append(json.load(answer))
        finally:
            timer.cancel()
            ended(process)
    return bodies


# What a terminal is told and does not show.
CONTROLS = re.compile(r"\x1b(\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(\x07|\x1b\\)|[PX^_].*?\x1b\\|.)",
                      re.DOTALL)


def at_terminal(words, where, steps, limit, again=b""):
    """What a client shows.  Each step is a pattern and the keys that are pressed when it is seen
    behind what was seen before; it is ended after the last.  Some take no notice of a key that
    comes too early: the one named here is pressed again when nothing is shown for a second."""
    ours, theirs = pty.openpty()
    os.set_blocking(ours, True)
    process = begun(["sh", "-c", 'stty rows 40 cols 120; exec "$@"', "sh", *words], where,
                    stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    timer = threading.Timer(limit, process.kill)
    timer.start()
    raw, seen = b"", 0
    try:
        for pattern, keys in steps:
            while True:
                shown = CONTROLS.sub("", raw.decode("utf-8", "replace"))
                if found := re.compile(pattern).search(shown, seen):
                    break
                if again and not select.select([ours], [], [], 1)[0]:
                    os.write(ours, again)
                else:
                    raw += os.read(ours, 1 << 16)
            seen = found.end()
            os.write(ours, keys)
    except OSError as error:
        raise AssertionError(f"{words} ended before {pattern!r} was seen: {shown}") from error
    finally:
        timer.cancel()
        with contextlib.suppress(OSError):
            ended(process)
        os.close(ours)
    return shown
