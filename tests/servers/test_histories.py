#!/usr/bin/python3 -B
# SPDX-License-Identifier: MIT
"""Histories of several mounts (tests/mount/histories.py) of a store on a server, by a proxy that
delays and cuts; the server is killed, and mounts are killed, or sleep for longer than their lease.

  SESSFS_HISTORY_ROUNDS  rounds with each number of mounts; 1 unless told, 3 in a soak
  SESSFS_SEED            what the random numbers begin with
"""

import os
import re
import signal
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import servers  # noqa: E402
from foreign import ServerError  # noqa: E402
from servers import harness  # noqa: E402
from histories import Histories  # noqa: E402
from rounds import EXPECTED  # noqa: E402
from test_stores import own  # noqa: E402

ROUNDS = harness.rounds("SESSFS_HISTORY_ROUNDS", 1, 3)
SEED = int(os.environ.get("SESSFS_SEED") or "1")
TABLE = harness.TABLE

PUT = {
    "mysql": f"INSERT INTO {TABLE} (session_id, state_key, item_index, state_data) VALUES"
    " (?, ?, ?, ?) ON DUPLICATE KEY UPDATE state_data = VALUES(state_data)",
    "postgresql": f"INSERT INTO {TABLE} (session_id, state_key, item_index, state_data) VALUES"
    " ($1, $2, $3, $4) ON CONFLICT (session_id, state_key, item_index) DO UPDATE SET"
    " state_data = excluded.state_data",
}


def kill_server(store, rng, victim):
    store.server.kill()
    time.sleep(rng.uniform(0, 0.5))
    store.server.start()
    time.sleep(0.5)


def cut(store, rng, victim):
    for _ in range(rng.randrange(3, 12)):
        when = rng.choice(["cut before", "cut during", "cut after", "cut"])
        store.proxy(when if when == "cut" else f"{when} {rng.randrange(1, 6)}")
        time.sleep(rng.uniform(0.02, 0.2))
    store.proxy("go")


def delay(store, rng, victim):
    store.proxy(f"delay {rng.choice([500, 2000, 10000])}")
    time.sleep(1)
    store.proxy("delay 0")


def sleep(store, rng, victim):
    """The others go on without it, and it does when it wakes up."""
    os.kill(victim.pid, signal.SIGSTOP)
    time.sleep(store.lease + 3)
    os.kill(victim.pid, signal.SIGCONT)
    time.sleep(0.5)
    return [victim]


class Server:
    """As SQLite in histories.py."""

    expected = re.compile(
        EXPECTED.pattern + "|the server may lose commits when|did not hear from this mount"
        "|its program has lost a lock"
    )
    lease = 15
    share = 0.35
    pause = 0.3
    troubles = {"server": kill_server, "cut": cut, "delay": delay}
    if "SESSFS_HISTORY_ROUNDS" in os.environ:
        troubles["sleep"] = sleep

    def __init__(self, box, kind):
        self.kind = kind
        self.server = own(box, kind)
        self.base = self.server.database()
        self.proxy = servers.proxy(box, self.server)
        self.name = self.proxy.url(self.base)

    def put(self, rows):
        """What is in doubt is said again, which does no harm."""
        while True:
            try:
                with self.base.connect() as client:
                    client.query("BEGIN")
                    for row in rows:
                        client.query(PUT[self.kind], *row)
                    client.query("COMMIT")
                    return
            except ServerError:
                time.sleep(0.05)

    def rows(self, mount):
        query = f"SELECT session_id, state_key, item_index, state_data FROM {TABLE}"
        found = {}
        with self.base.connect() as client:
            for session, key, index, data in client.query(query):
                found.setdefault((session.decode(), key.decode()), []).append((int(index), data))
        return {key: sorted(found[key]) for key in sorted(found)}

    def keep(self, rounds):
        pass


def play(box, kind, count):
    histories = Histories(box, SEED, count, Server(box, kind))
    begun = time.monotonic()
    for _ in range(ROUNDS):
        histories.run()
    calls = sum(histories.returned.values())
    box.note(f"seed {SEED}: {calls} calls of writers, {histories.turns} notes of rivals")
    box.note(f"{histories.troubles_made}, {time.monotonic() - begun:.0f} s")


for number in (2, 4, 8) if "SESSFS_HISTORY_ROUNDS" in os.environ else (2,):
    for name, kind in (("mariadb", "mysql"), ("postgresql", "postgresql")):
        sentence = f"test_a_history_of_{number}_mounts_on_{name}"
        globals()[sentence] = lambda box, kind=kind, number=number: play(box, kind, number)


if __name__ == "__main__":
    servers.main(globals())
