#!/usr/bin/python3 -B
# SPDX-License-Identifier: MIT
"""Random operations of several processes on a mount, with the daemon unmounted and killed in
between, against the contract: tests/random/game.c, which also says how to play a seed again.

  SESSFS_RANDOM_GAME  the program that plays; otherwise tests/random/mount beside the program
  SESSFS_RANDOM_OPS   how many operations; otherwise those of two seeds
"""

import os
import subprocess

import harness
from harness import Skip

OPS = int(os.environ.get("SESSFS_RANDOM_OPS", "0"))


def game(box):
    below = os.path.join(os.path.dirname(box.program), "tests", "random", "mount")
    path = os.environ.get("SESSFS_RANDOM_GAME", below)
    if not os.access(path, os.X_OK):
        raise Skip(f"{path} is not built")
    return path


def test_random_operations_do_what_the_contract_says(box):
    environment = {
        **os.environ,
        "SESSFS": box.program,
        "SESSFS_RANDOM_FOLDER": box.new_folder("random"),
    }
    done = subprocess.run(
        [game(box)],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    text = done.stdout.decode("utf-8", "replace")
    for line in text.splitlines():
        if line.startswith("SESSFS_TEST_SEED=") or line.endswith(" operations"):
            box.note(line)
    if done.returncode:
        # What failed stands in front of the game that was played again.
        if len(text) > 12000:
            text = text[:4000] + "\n...\n" + text[-8000:]
        raise AssertionError(f"the game ended with {done.returncode}:\n{text}")


if __name__ == "__main__":
    harness.main(globals())
