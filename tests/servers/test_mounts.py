#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: MIT
"""What mounts of stores in files are asked for, asked of stores on a server: cases of tests/mount,
each with databases of its own on one server.

  SESSFS_TEST_KIND     mysql (if not given) or postgresql
  SESSFS_MOUNTS_CASES  all: not only those that are named here
"""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import servers  # noqa: E402
from servers import harness  # noqa: E402
import test_files  # noqa: E402
import test_lines  # noqa: E402
import test_posix  # noqa: E402
import test_stress  # noqa: E402

KIND = os.environ.get("SESSFS_TEST_KIND", "mysql")
MODULES = (test_files, test_lines, test_posix, test_stress)

# What a server keeps in another way than a file, and its own cases are for.
OTHERS = {
}


class Mount(harness.Mount):
    """SQL is said as another client of the server says it."""

    def ask(self, query, *parameters):
        if KIND == "postgresql":
            for number in range(len(parameters)):
                query = query.replace("?", f"${number + 1}", 1)
        with self.box.bases[self.store].connect() as client:
            return client.query(query, *parameters)

    def sql(self, query, parameters=()):
        """Numbers, or statements that return nothing."""
        return [tuple(map(int, row)) for row in self.ask(query, *parameters)]

    def rows(self, session, key):
        where = "session_id = ? AND state_key = ? ORDER BY item_index"
        query = f"SELECT state_data FROM {harness.TABLE} WHERE {where}"
        return [row[0] for row in self.ask(query, session, key)]

    def stamps(self, session, key):
        where = "session_id = ? AND state_key = ? ORDER BY item_index"
        query = f"SELECT item_index, created_at, updated_at FROM {harness.TABLE} WHERE {where}"
        return self.ask(query, session, key)

    def keys(self):
        query = f"SELECT DISTINCT session_id, state_key FROM {harness.TABLE} ORDER BY 1, 2"
        return self.ask(query)


class Box(harness.Box):
    server = None

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.bases = {}

    def new_store(self):
        base = self.server.database(f"case_{os.getpid()}_{len(self.bases)}")
        self.bases[base.url] = base
        return base.url


def cases():
    everything = os.environ.get("SESSFS_MOUNTS_CASES") == "all"
    for module in MODULES:
        for name, function in vars(module).items():
            if name.startswith("test_") and name not in OTHERS and callable(function):
                yield name, function


def main():
    harness.Mount, harness.Box = Mount, Box
    try:
        with servers.server(KIND) as Box.server:
            harness.main(dict(cases()))
    except harness.Skip as reason:
        print(f"skipped: {reason}")
        sys.exit(77)


if __name__ == "__main__":
    main()
