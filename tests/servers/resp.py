# SPDX-License-Identifier: MIT
"""Redis and Valkey for tests: a private server, and a foreign client of it.

    import resp
    server = resp.start(box)                     # or kind="valkey"; Skip when it is not installed
    mount = box.mount(store=server.url())        # server.url(prefix="x", host=..., port=...)
    client = server.connect()
    client("RPUSH", "key", "item")               # the answer: bytes, int, list or None
    server.kill(); server.start()                # -9, and again on the same data
    server.freeze(); server.thaw()               # SIGSTOP, SIGCONT

resp.start() takes durable=True (appendonly, appendfsync always), tcp=True, tls=True, and
extra=[...], words of the server's command line.  What was started in a box ends with it, after its
mounts.  SESSFS_REDIS_SERVER: the program that is started as Redis, say valkey-server.
"""

import os
import shutil
import signal
import socket
import subprocess
import time

import servers
from servers import harness

PROGRAMS = {"redis": os.environ.get("SESSFS_REDIS_SERVER", "redis-server"),
            "valkey": "valkey-server"}
HANG = servers.HANG


class ServerError(Exception):
    pass


class Client:
    """One connection."""

    def __init__(self, address, password=None, user=None):
        kind = socket.AF_UNIX if isinstance(address, str) else socket.AF_INET
        self.socket = socket.socket(kind)
        self.socket.settimeout(HANG)
        self.socket.connect(address)
        self.stream = self.socket.makefile("rb")
        if password:
            self(*(["AUTH", user, password] if user else ["AUTH", password]))

    def send(self, *words):
        data = [word if isinstance(word, bytes) else str(word).encode() for word in words]
        parts = [b"*%d\r\n" % len(data)]
        parts += [b"$%d\r\n%s\r\n" % (len(word), word) for word in data]
        self.socket.sendall(b"".join(parts))

    def read(self):
        line = self.stream.readline()
        if not line.endswith(b"\r\n"):
            raise ConnectionError("the server has closed the connection")
        kind, rest = line[:1], line[1:-2]
        if kind == b"-":
            raise ServerError(rest.decode())
        if kind == b":":
            return int(rest)
        if kind == b"$":
            if rest == b"-1":
                return None
            return self.stream.read(int(rest) + 2)[:-2]
        if kind == b"*":
            return None if rest == b"-1" else [self.read() for _ in range(int(rest))]
        return rest

    def __call__(self, *words):
        self.send(*words)
        return self.read()

    def close(self):
        self.stream.close()
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()


class Server:
    def __init__(self, kind="redis", durable=False, tcp=False, tls=False, extra=()):
        self.kind = kind
        self.extra = list(extra)
        self.path = servers.make_folder()
        self.socket = os.path.join(self.path, "s")
        self.port = servers.free_port() if tcp else 0
        self.tls_port = servers.free_port() if tls else 0
        self.process = None
        if durable:
            self.extra += ["--appendonly", "yes", "--appendfsync", "always"]
        if tls:
            self.make_certificate()

    @property
    def pid(self):
        return self.process.pid

    number = pid

    def make_certificate(self):
        name = os.path.join(self.path, "server")
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2",
             "-keyout", f"{name}.key", "-out", f"{name}.crt", "-subj", "/CN=localhost",
             "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"],
            check=True, capture_output=True)
        for part in ("key", "crt"):
            os.chmod(f"{name}.{part}", 0o644)
        self.ca = f"{name}.crt"
        self.extra += ["--tls-port", str(self.tls_port), "--tls-cert-file", f"{name}.crt",
                       "--tls-key-file", f"{name}.key", "--tls-auth-clients", "no"]

    def start(self, check=True):
        words = [servers.find(PROGRAMS[self.kind]), "--port", str(self.port), "--bind", "127.0.0.1",
                 "--unixsocket", self.socket, "--unixsocketperm", "777", "--dir", self.path,
                 "--save", "", "--daemonize", "no"]
        who = {"user": servers.NOBODY, "group": servers.NOBODY, "extra_groups": []}
        with open(os.path.join(self.path, "log"), "ab") as log:
            self.process = subprocess.Popen(
                words + self.extra, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                cwd=self.path, preexec_fn=servers.die_with_parent,
                **(who if servers.is_root() else {}))
        if check:
            self.wait()
        return self

    def wait(self):
        until = time.monotonic() + HANG
        while time.monotonic() < until:
            if self.process.poll() is not None:
                raise AssertionError(f"{self.kind} has ended: {self.log()[-1500:]}")
            try:
                with self.connect() as client:
                    client("PING")
                    return
            except (OSError, ServerError):
                time.sleep(0.01)
        raise AssertionError(f"{self.kind} does not answer")

    def connect(self, **named):
        return Client(self.socket, **named)

    def url(self, user="", database=0, **parameters):
        host, port = parameters.pop("host", ""), parameters.pop("port", None)
        words = {} if host else {"socket": self.socket}
        words.update(parameters)
        place = host + (f":{port}" if port else "")
        query = "&".join(f"{name}={value}" for name, value in words.items())
        return f"redis://{user + '@' if user else ''}{place}/{database}" + (query and "?" + query)

    def log(self):
        try:
            with open(os.path.join(self.path, "log"), errors="replace") as file:
                return file.read()
        except OSError:
            return ""

    def kill(self):
        self.process.kill()
        self.process.wait()

    def freeze(self):
        self.process.send_signal(signal.SIGSTOP)

    def thaw(self):
        self.process.send_signal(signal.SIGCONT)

    def stop(self):
        if self.process and self.process.poll() is None:
            self.thaw()
            self.kill()
        shutil.rmtree(self.path, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.stop()


class Sentinel(Server):
    """One that watches a server; its file is rewritten by it."""

    def __init__(self, path, port):
        self.kind = "redis"
        self.path = os.path.dirname(path)
        self.port = port
        self.process = subprocess.Popen(
            [servers.find(PROGRAMS["redis"]), path, "--sentinel"], stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, preexec_fn=servers.die_with_parent)
        self.wait()

    def connect(self, **named):
        return Client(("127.0.0.1", self.port), **named)

    def stop(self):
        self.kill()


def calls(client):
    """How often a script was called since CONFIG RESETSTAT."""
    for line in client("INFO", "commandstats").decode().splitlines():
        if line.startswith("cmdstat_evalsha:calls="):
            return int(line.split("=")[1].split(",")[0])
    return 0


def need(kind):
    if not servers.find(PROGRAMS[kind]):
        raise harness.Skip(f"{PROGRAMS[kind]} is not installed")


def make(kind="redis", **named):
    """To be used by with."""
    need(kind)
    server = Server(kind, **named)
    try:
        return server.start()
    except BaseException:
        server.stop()
        raise


def start(box, kind="redis", **named):
    server = make(kind, **named)
    box.mounts.append(server)
    return server
