#!/usr/bin/python3 -B
# SPDX-License-Identifier: MIT
"""The servers of a run, and private ones: what a test of a store on them relies on."""

import contextlib
import os
import signal
import stat
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import servers  # noqa: E402
from foreign import ServerError  # noqa: E402
from servers import harness  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
WITH_SERVER = os.path.join(HERE, "with-server")
WITH_SERVERS = os.path.join(HERE, "with-servers")
QUOTED = {"mysql": "?", "postgresql": "$1"}


def mentions(pid, folder):
    with contextlib.suppress(OSError):
        with open(f"/proc/{pid}/cmdline", "rb") as line:
            return os.fsencode(folder) + b"/" in line.read()
    return False


def processes_in(folder):
    """Those that have an argument below a folder, or work there."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        if harness.alive(pid) and mentions(pid, folder):
            found.append(int(pid))
    return found


def make_table(base):
    with base.connect() as client:
        client.query("CREATE TABLE t (n INT PRIMARY KEY)")


def numbers(base):
    with base.connect() as client:
        return [int(row[0]) for row in client.query("SELECT n FROM t ORDER BY n")]


def keeps_what_was_committed(box, kind):
    server = servers.own(box, kind)
    base = server.database()
    make_table(base)
    for i in range(3):
        with base.connect() as client, base.connect() as other:
            client.query(f"INSERT INTO t VALUES ({i})")
            other.query("BEGIN")
            other.query(f"INSERT INTO t VALUES ({100 + i})")
            server.kill()
            try:
                client.query("SELECT 1")
                raise AssertionError("a killed server answers")
            except ServerError:
                pass
        server.start()
        harness.same(numbers(base), list(range(i + 1)), f"rows after kill {i}")
    server.end()
    server.start()
    harness.same(numbers(base), [0, 1, 2], "rows after a good end")


def test_mariadb_keeps_over_kill_9_what_was_committed_and_nothing_else(box):
    keeps_what_was_committed(box, "mysql")


def test_postgresql_keeps_over_kill_9_what_was_committed_and_nothing_else(box):
    keeps_what_was_committed(box, "postgresql")


def waits_while_frozen(box, kind):
    server = servers.own(box, kind)
    base = server.database()
    answered = []
    with base.connect() as client:

        def ask():
            client.query("SELECT 1")
            answered.append(time.monotonic())

        server.freeze()
        thread = threading.Thread(target=ask)
        thread.start()
        time.sleep(0.3)
        harness.same(answered, [], "answers of a frozen server")
        thawed = time.monotonic()
        server.thaw()
        thread.join()
        assert answered and answered[0] >= thawed, "the server answers when it is thawed"


def test_a_frozen_mariadb_answers_when_it_is_thawed(box):
    waits_while_frozen(box, "mysql")


def test_a_frozen_postgresql_answers_when_it_is_thawed(box):
    waits_while_frozen(box, "postgresql")


def keeps_apart(box, kind):
    server = servers.start(box, kind)
    one, two = server.database(), server.database()
    make_table(one)
    make_table(two)
    with one.connect() as client:
        client.query("INSERT INTO t VALUES (1)")
    harness.same((numbers(one), numbers(two)), ([1], []), "rows of both")
    at = {"host": "127.0.0.1", "port": server.port}
    one.connect(**at).close()
    for wrong in ({"password": "wrong"}, {"password": "wrong", **at}, {"database": two.name}):
        try:
            with one.connect(**wrong) as client:
                client.query("SELECT n FROM t")
        except ServerError:
            continue
        raise AssertionError(f"let in with {wrong}")
    harness.same(stat.S_IMODE(os.stat(one.passfile).st_mode), 0o600, "mode of the password's file")


def test_databases_of_mariadb_are_apart_and_need_their_passwords(box):
    keeps_apart(box, "mysql")


def test_databases_of_postgresql_are_apart_and_need_their_passwords(box):
    keeps_apart(box, "postgresql")


def brings_bytes(box, kind):
    base = servers.start(box, kind).database()
    text = "ä 🙂 ' \" \\ \n ; -- % $1"
    with base.connect() as client:
        client.query("CREATE TABLE x (data TEXT)")
        client.query(f"INSERT INTO x VALUES ({QUOTED[kind]})", text)
        harness.same(client.changed, 1, "rows changed")
        client.query("INSERT INTO x VALUES (NULL)")
        found = sorted(client.query("SELECT data FROM x"), key=lambda row: row[0] is None)
        harness.same(found, [(text.encode(),), (None,)], "values")


def test_a_client_of_mariadb_gets_the_bytes_that_it_gave(box):
    brings_bytes(box, "mysql")


def test_a_client_of_postgresql_gets_the_bytes_that_it_gave(box):
    brings_bytes(box, "postgresql")


def leaves_nothing(box, kind):
    with servers.server(kind) as server:
        folder = server.path
        assert processes_in(folder), "the server's processes are seen"
        server.freeze()  # so that it takes more than asking
    harness.same((processes_in(folder), os.path.exists(folder)), ([], False), "what is left")


def test_nothing_is_left_of_mariadb(box):
    leaves_nothing(box, "mysql")


def test_nothing_is_left_of_postgresql(box):
    leaves_nothing(box, "postgresql")


def dies_along(box, kind):
    servers.need(kind)
    command = [WITH_SERVER, kind, "sh", "-c", f"echo $SESSFS_TEST_{kind.upper()}_SERVER; cat"]
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=alone())
    pid = int(child.stdout.readline())
    assert harness.alive(pid), "the server runs"
    with open(f"/proc/{pid}/cmdline", "rb") as words:
        folder = next(w for w in words.read().split(b"\0") if b"/server-" in w).decode()
    folder = folder[folder.index("/") :].rsplit("/data", 1)[0]
    child.send_signal(signal.SIGKILL)
    child.wait()
    harness.eventually(lambda: not processes_in(folder), "the server dies")
    child.stdin.close()
    servers.shutil.rmtree(folder)


def test_mariadb_dies_with_whoever_has_started_it(box):
    dies_along(box, "mysql")


def test_postgresql_dies_with_whoever_has_started_it(box):
    dies_along(box, "postgresql")


def hands_out(box, kind):
    servers.need(kind)
    name = f"SESSFS_TEST_{kind.upper()}"
    script = f'echo "${name}"; echo "${name}_ADMIN"; exit 3'
    done = harness.tool(WITH_SERVER, kind, "sh", "-c", script, check=False)
    url, admin = done.stdout.decode().split()
    harness.same(done.returncode, 3, "status")
    assert url.startswith(f"{kind}://case") and "passfile=/" in url, url
    assert admin.startswith(f"{kind}://"), admin
    usage = harness.tool(WITH_SERVER, "oracle", "true", check=False)
    harness.same(usage.returncode, 1, "status of a server that nobody knows")


def test_a_command_finds_the_url_of_a_mariadb_and_its_status_is_kept(box):
    hands_out(box, "mysql")


def test_a_command_finds_the_url_of_a_postgresql_and_its_status_is_kept(box):
    hands_out(box, "postgresql")


# The servers of a run


def left_of(server, prefix):
    with server.connect() as admin:
        return list(server.made(admin, prefix))


def clears_away(box, kind):
    """What a case has made goes with it, also when it is killed; that of others stays."""
    server = servers.start(box, kind)
    base = server.database()
    make_table(base)
    for is_killed in (False, True):
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                case = servers.start(box, kind)
                made = case.database()
                make_table(made)
                client = made.connect()
                os.write(writing, f"{case.prefix} {case.path} {case.home}".encode())
                while is_killed:
                    time.sleep(1)
                case.stop()
                os._exit(client is None)
            finally:
                os._exit(2)
        prefix, path, home = os.read(reading, 4096).decode().split()
        harness.same(home, server.home, "where the server is")
        if is_killed:
            harness.same(len(left_of(server, prefix)) >= 2, True, "what it has is seen")
            os.kill(child, signal.SIGKILL)
        harness.same(os.waitpid(child, 0)[1], signal.SIGKILL if is_killed else 0, "its status")
        if is_killed:
            harness.eventually(lambda: not os.path.exists(path), "its folder goes")
        # A client of MariaDB that was ended is listed until its thread has noticed.
        harness.eventually(lambda: not left_of(server, prefix), "what it had goes")
        harness.same((left_of(server, prefix), os.path.exists(path)), ([], False), "what is left")
        os.close(reading), os.close(writing)
    harness.same(numbers(base), [], "what another one has")


def test_what_a_case_has_on_mariadb_of_the_run_goes_with_it(box):
    clears_away(box, "mysql")


def test_what_a_case_has_on_postgresql_of_the_run_goes_with_it(box):
    clears_away(box, "postgresql")


def alone():
    """As if there was no run around this one."""
    return {name: value for name, value in os.environ.items() if name != servers.SHARED}


def begin_run(kind, script):
    """A run of its own, whose command asks for the server, and says where all is."""
    script = f"""
import os, signal, sys, time
sys.path.insert(0, {HERE!r})
import servers
server = servers.KINDS[{kind!r}].of_the_run()
print(server.number, server.home, os.environ[servers.SHARED], flush=True)
{script}
"""
    command = [WITH_SERVERS, sys.executable, "-B", "-c", script]
    run = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=alone(), text=True
    )
    number, *folders = run.stdout.readline().split()
    return run, int(number), folders


def tells_of_its_end(box, kind):
    """Whoever asks for a server that has ended is told so at once."""
    servers.need(kind)
    run, number, folders = begin_run(kind, f"""
os.kill(server.number, signal.SIGKILL)
while servers.harness.alive(server.number):
    time.sleep(0.01)
for _ in range(2):
    try:
        servers.KINDS[{kind!r}].of_the_run()
    except AssertionError as error:
        print(str(error).splitlines()[0], flush=True)
sys.exit(7)
""")
    said = run.stdout.read().splitlines()  # communicate() would miss what readline() has buffered
    run.stdin.close()
    run.wait()
    title = servers.KINDS[kind].title
    expected = f"the run's {title} has ended in the middle"
    harness.same([line.partition(":")[0] for line in said], [expected] * 2, "what is said")
    harness.same(run.returncode, 7, "status of the run")
    harness.same([os.path.exists(folder) for folder in folders], [False] * 2, "what is left")


@harness.soak
def test_a_mariadb_of_the_run_that_has_ended_is_told_of(box):
    tells_of_its_end(box, "mysql")


def test_a_postgresql_of_the_run_that_has_ended_is_told_of(box):
    tells_of_its_end(box, "postgresql")


def ends_along(box, kind):
    """With the run, however it ends; and it is not the server of another run."""
    server = servers.start(box, kind)
    run, number, folders = begin_run(kind, "sys.stdin.read()")
    assert harness.alive(number), "the server runs"
    assert number != server.number and server.home not in folders, "each run has its own"
    run.send_signal(signal.SIGKILL)
    run.wait()
    for folder in folders:
        harness.eventually(lambda: not processes_in(folder), f"what works in {folder} ends")
        harness.eventually(lambda: not os.path.exists(folder), f"{folder} goes")
    run.stdin.close()


def test_the_mariadb_of_a_run_ends_with_it(box):
    ends_along(box, "mysql")


@harness.soak
def test_the_postgresql_of_a_run_ends_with_it(box):
    ends_along(box, "postgresql")


# The proxy


def proxied(box, kind):
    """A table behind a proxy, and a client of it who has connected by it."""
    server = servers.start(box, kind)
    base = server.database()
    proxy = servers.proxy(box, server)
    make_table(base)
    return base, proxy, proxy.connect(base)


def insert(client, number):
    client.query(f"INSERT INTO t VALUES ({number})")


def commit(client, number):
    """One transaction; whether it was acknowledged."""
    try:
        client.query("BEGIN")
        insert(client, number)
        client.query("COMMIT")
        return True
    except ServerError:
        return False


def delays(box, kind):
    base, proxy, client = proxied(box, kind)
    times = {}
    for delay in (0, 20000, 0):
        proxy(f"delay {delay}")
        client.query("SELECT 1")
        start = time.monotonic()
        for _ in range(5):
            client.query("SELECT 1")
        times[delay] = (time.monotonic() - start) / 5
    assert 0.04 <= times[20000], times

    def is_quick():
        start = time.monotonic()
        client.query("SELECT 1")
        return time.monotonic() - start < 0.04

    harness.eventually(is_quick, "an answer without delay")


def test_a_proxy_delays_both_directions_of_mariadb(box):
    delays(box, "mysql")


def test_a_proxy_delays_both_directions_of_postgresql(box):
    delays(box, "postgresql")


def cuts(box, kind):
    base, proxy, client = proxied(box, kind)
    for number, (when, kept) in enumerate((("before", False), ("after", True))):
        for which in (1, 3):
            proxy(f"cut {when} {which}")
            first = 100 * number + 10 * which
            for more in range(which - 1):
                assert commit(client, first + more), "a COMMIT before the one that is meant"
            harness.same(commit(client, first + 9), False, f"acknowledged although cut {when}")
            proxy("wait")
            client.close()
            client = proxy.connect(base)
            harness.same(first + 9 in numbers(base), kept, f"committed, cut {when}")
            harness.same(proxy.counts()["open"], 1, "connections that are open")
    proxy("cut during")
    harness.same(commit(client, 900), False, "acknowledged although cut during it")
    client = proxy.connect(base)
    proxy("cut")
    harness.same(commit(client, 901), False, "acknowledged although cut")
    assert 901 not in numbers(base), "committed although cut before"


def test_a_proxy_cuts_before_and_after_a_commit_of_mariadb(box):
    cuts(box, "mysql")


def test_a_proxy_cuts_before_and_after_a_commit_of_postgresql(box):
    cuts(box, "postgresql")


def holds(box, kind):
    base, proxy, client = proxied(box, kind)
    for number, when in enumerate(("before", "after", "")):
        proxy(f"hold {when}")
        done = []
        thread = threading.Thread(target=lambda: done.append(commit(client, number)))
        thread.start()
        if when:
            proxy("wait")
        time.sleep(0.2)
        harness.same(done, [], f"answers while held {when}")
        harness.same(number in numbers(base), when == "after", f"committed while held {when}")
        proxy("go")
        thread.join()
        harness.same((done, number in numbers(base)), ([True], True), f"after holding {when}")


def test_a_proxy_holds_before_and_after_a_commit_of_mariadb(box):
    holds(box, "mysql")


def test_a_proxy_holds_before_and_after_a_commit_of_postgresql(box):
    holds(box, "postgresql")


def counts(box, kind):
    base, proxy, client = proxied(box, kind)
    before = proxy.counts()
    for i in range(7):
        insert(client, i)
    commit(client, 7)
    seen = {name: value - before[name] for name, value in proxy.counts().items()}
    harness.same((seen["trips"], seen["commits"], seen["connections"]), (10, 1, 0), "counted")
    proxy("refuse")
    try:
        proxy.connect(base)
        raise AssertionError("let in")
    except ServerError:
        pass
    proxy("go")
    proxy.connect(base).close()
    harness.same(proxy.counts()["connections"] - before["connections"], 1, "connections")


def test_a_proxy_counts_round_trips_and_turns_clients_of_mariadb_away(box):
    counts(box, "mysql")


def test_a_proxy_counts_round_trips_and_turns_clients_of_postgresql_away(box):
    counts(box, "postgresql")


if __name__ == "__main__":
    servers.main(globals())
