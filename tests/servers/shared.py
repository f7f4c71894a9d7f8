# SPDX-License-Identifier: MIT
"""The servers of a run, one of each kind, for all of its tests: started when they are first asked
for, and stopped with the run, whatever happens.

Each has a keeper, a process that listens on a socket (named as the kind) in the folder that
SESSFS_TEST_SERVERS names.  servers.py asks it, a line a question:

  template   for data of a server that was never started, which a private one copies
  server     for the server, which is started unless it runs

and is told in the next line which folder it is for, and what the names of databases and users begin
with: what is still there of them when the line is closed, as whoever asked was killed, goes then.

It answers a line of JSON, with "wrong" when it cannot.  A server that has ended is not started
again: tests that come later are told so, as whatever has ended it is a defect.
"""

import contextlib
import ctypes
import json
import os
import selectors
import shutil
import signal
import socket
import sys
import time

import foreign
import servers

CLONE_NEWNS = 0x20000
MS_REC, MS_SLAVE = 1 << 14, 1 << 19
MNT_DETACH = 2


class Keeper:
    def __init__(self, kind, listening):
        self.server = None
        self.kind = kind
        self.listening = listening
        self.ready = selectors.DefaultSelector()
        self.ready.register(self.listening, selectors.EVENT_READ)
        self.wrong = None
        self.template = None

    def make_template(self):
        if not self.template:
            own = servers.OWN[self.kind]
            self.server = own(tcp=True, extra=own.QUICK)
            keep_in_memory(os.path.join(self.server.path, "data"))
            self.server.set_up()
            self.template = os.path.join(self.server.path, "template")
            if self.server.command("cp", "-a", f"{self.server.path}/data", self.template) != 0:
                raise AssertionError(self.server.log("setup.log"))
        return {"template": self.template}

    def find_server(self):
        self.make_template()
        if not self.server.began:
            self.server.start()
        if self.server.process.poll() is not None:
            log = self.server.log()[-1500:]
            raise AssertionError(f"the run's {self.server.title} has ended in the middle: {log}")
        return {"home": self.server.path, "port": self.server.port, "pid": self.server.pid}

    def answer(self, question):
        try:
            if self.wrong:
                raise AssertionError(self.wrong)
            return {b"template": self.make_template, b"server": self.find_server}[question]()
        except Exception as error:
            self.wrong = str(error) or repr(error)
            return {"wrong": self.wrong}

    def lines_of(self, line, state):
        """What has come; none when it has been closed."""
        try:
            data = line.recv(4096)
        except OSError:
            data = b""
        *found, state["rest"] = (state["rest"] + data).split(b"\n")
        return found if data else None

    def hear(self, line, state):
        """One that asks."""
        found = self.lines_of(line, state)
        for word in found or []:
            if state["asked"]:
                state["left"] = json.loads(word)
                continue
            state["asked"] = True
            with contextlib.suppress(OSError):
                line.sendall(json.dumps(self.answer(word)).encode() + b"\n")
        if found is None:
            self.ready.unregister(line)
            line.close()
            self.clear(**state["left"])

    def clear(self, folder=None, prefix=None):
        """What a case has left: nothing, unless it was killed."""
        # A private server of it may still be about to end.
        for _ in range(100):
            if not folder or not os.path.exists(folder):
                break
            shutil.rmtree(folder, ignore_errors=True)
            time.sleep(0.01)
        if prefix and self.server.process.poll() is None:
            try:
                self.server.drop(prefix)
            except foreign.ServerError as error:
                print(f"shared.py: {prefix}: {error}", file=sys.stderr)

    def serve(self):
        while True:
            for key, _ in self.ready.select():
                if key.fileobj is self.listening:
                    line, _ = self.listening.accept()
                    line.settimeout(servers.HANG)
                    state = {"asked": False, "left": {}, "rest": b""}
                    self.ready.register(line, selectors.EVENT_READ, state)
                else:
                    self.hear(key.fileobj, key.data)

    def stop(self):
        """With the folders of cases that have not ended yet, or only just now."""
        for key in list(self.ready.get_map().values()):
            if key.data:
                key.fileobj.setblocking(False)
                for word in self.lines_of(key.fileobj, key.data) or []:
                    if word.startswith(b"{"):
                        key.data["left"] = json.loads(word)
                self.clear(key.data["left"].get("folder"))
        if self.server:
            try:
                self.server.end()
            finally:
                ctypes.CDLL(None).umount2(os.fsencode(f"{self.server.path}/data"), MNT_DETACH)
                self.server.stop()


def keep_in_memory(folder):
    """What is written there, as far as only this process and its children see it: a disk takes a
    third of what the servers do.  Without the right to mount, it is on the disk."""
    library = ctypes.CDLL(None)
    if os.geteuid() != 0 or library.unshare(CLONE_NEWNS) != 0:
        return
    os.mkdir(folder)
    library.mount(None, b"/", None, MS_REC | MS_SLAVE, None)
    owner = f"size=1g,mode=700,uid={servers.NOBODY},gid={servers.NOBODY}"
    if library.mount(b"none", os.fsencode(folder), b"tmpfs", 0, owner.encode()) != 0:
        os.rmdir(folder)


def keep(kind, listening, parent):
    """In a process of its own, until its parent ends it, or ends."""
    os.setsid()  # whoever interrupts the run from a terminal interrupts its tests first
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(0))
    ctypes.CDLL(None).prctl(servers.PDEATHSIG, signal.SIGTERM)
    os.environ.pop(servers.SHARED, None)
    keeper = Keeper(kind, listening)
    try:
        if os.getppid() == parent:
            keeper.serve()
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        keeper.stop()
        with contextlib.suppress(OSError):
            path = listening.getsockname()
            os.unlink(path)
            os.rmdir(os.path.dirname(path))  # by the last one


def begin(kind, path):
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(path)
    listening.listen(64)
    parent = os.getpid()
    sys.stdout.flush()
    child = os.fork()
    if child:
        listening.close()
        return child
    status = 1
    try:
        keep(kind, listening, parent)
    except SystemExit:
        status = 0
    finally:
        os._exit(status)


@contextlib.contextmanager
def servers_of_the_run():
    """Unless a run around this one has them."""
    if servers.SHARED in os.environ:
        yield
        return
    folder = servers.make_folder()
    keepers = []
    try:
        for kind, server in servers.KINDS.items():
            if not server.missing():
                keepers.append(begin(kind, os.path.join(folder, kind)))
        os.environ[servers.SHARED] = folder
        yield
    finally:
        os.environ.pop(servers.SHARED, None)
        for child in keepers:
            os.kill(child, signal.SIGTERM)
        for child in keepers:
            os.waitpid(child, 0)
        shutil.rmtree(folder, ignore_errors=True)
