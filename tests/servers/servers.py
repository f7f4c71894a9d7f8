# SPDX-License-Identifier: MIT
"""Database servers for tests: one of each kind for a whole run, where each case has databases of
its own, and private ones for what has to be done to a server itself.

    import servers
    server = servers.start(box, "mysql")     # or "postgresql"; Skip when it is not installed
    base = server.database()                 # a new one, with a user of its own
    mount = box.mount(store=base.url)
    base.connect().query("SELECT ...")       # a foreign client; see foreign.py
    proxy = servers.proxy(box, server)       # stands before it; proxy.c has the commands
    mount = box.mount(store=proxy.url(base))
    proxy("delay 500"); proxy("cut after"); proxy.counts()

    server = servers.own(box, "mysql")       # private; takes tcp, tls, durable, extra, zone
    server.kill()                            # -9, all of its processes
    server.start()                           # on the same data
    server.freeze(); server.thaw()           # SIGSTOP, SIGCONT

    servers.main(globals())                  # at the end of a module, for harness.main()

The server of the run (shared.py) also serves others at the same time: a case looks at its own
databases and users only, whose names begin with server.prefix, and changes no setting for all.  It
listens on server.port, too.  What a case has in it is dropped at its end, after its mounts.

What was started in a box ends with it, after its mounts.  Elsewhere: with server(kind) as server.

The data of a private server lie in a folder below top_builddir (else TMPDIR, else /tmp: the path of
a socket has 107 bytes, and both servers refuse root, so root's tests run them as nobody, who must
get there).  A server listens on a socket in its folder, and with tcp=True on a port of 127.0.0.1,
too; only who has started it comes in without a password.  It dies with the process that has started
it.

No test cuts the power, so servers do not sync to the disk, but commit as they do by default; with
durable=True they do both.
"""

import contextlib
import ctypes
import glob
import json
import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(os.path.dirname(HERE), "mount"))

import foreign  # noqa: E402
import harness  # noqa: E402

SHARED = "SESSFS_TEST_SERVERS"  # the folder of the run's servers; see shared.py
HANG = harness.HANG  # a server that does not answer for as long never will
SOCKET_MAX = 100  # bytes of a socket's path, of 107
NOBODY = 65534
PDEATHSIG = 1


class Database:
    """A database of its own for a case, and its user."""

    def __init__(self, server, name, password):
        self.server = server
        self.name = name
        self.user = name
        self.password = password
        self.passfile = os.path.join(server.path, f"{name}.pass")
        fd = os.open(self.passfile, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(fd, "w") as file:
            file.write(password + "\n")

    @property
    def url(self):
        return self.url_with()

    def url_with(self, **parameters):
        """By socket unless host= and port= are given, which may be a proxy's; other parameters
        are those of the URL."""
        host, port = parameters.pop("host", ""), parameters.pop("port", None)
        words = {"passfile": self.passfile}
        words.update({"tls": "off"} if host else self.server.socket_words())
        words.update(parameters)
        port = port if host else self.server.socket_port()
        place = host + (f":{port}" if port else "")
        query = "&".join(f"{name}={value}" for name, value in words.items())
        return f"{self.server.scheme}://{self.user}@{place}/{self.name}?{query}"

    def connect(self, **named):
        """A foreign client as this user."""
        named = {"user": self.user, "password": self.password, "database": self.name, **named}
        return self.server.connect(**named)

    def admin(self):
        """A foreign client who may do anything."""
        return self.server.connect(database=self.name)


def is_stopped(pid):
    """Whether all threads of a process are stopped; one that has ended is."""
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/stat") as file:
                if file.read().rpartition(")")[2].split()[0] not in "TXZ":
                    return False
    except FileNotFoundError:
        pass
    return True


class Server:
    """Databases on a server, as a case has them: their names, and those of users, begin alike."""

    pid = None

    def __init__(self, home=None, port=None):
        self.path = make_folder()  # with passwords, and what stands before the server
        self.home = home or self.path  # with the server's socket
        self.port = port
        self.prefix = f"case{secrets.token_hex(5)}_" if home else "sessfs_"
        self.line = None
        self.count = 0

    @classmethod
    def of_the_run(cls):
        """None when there is no server of the run."""
        if SHARED not in os.environ:
            return None
        line, answer = ask(cls.kind, "server")
        found = cls(answer["home"], answer["port"])
        found.number = answer["pid"]
        found.leave(line, folder=found.path, prefix=found.prefix)
        return found

    def leave(self, line, **what):
        """What this process cannot take away itself goes when its end of the line has closed."""
        line.sendall(json.dumps(what).encode() + b"\n")
        self.line = line

    def database(self):
        self.count += 1
        base = Database(self, f"{self.prefix}{self.count}", secrets.token_hex(12))
        self.make_database(base)
        return base

    def made(self, admin, prefix):
        """The statements that take away what begins so: clients, databases, users."""
        for statement, query, name in self.LISTS:
            begins = f"LEFT({name}, {len(prefix)}) = '{prefix}'"
            for row in admin.query(query + begins):
                yield statement.format(*[word.decode() for word in row])

    def drop(self, prefix):
        with self.connect() as admin:
            admin.query(self.PATIENT)
            for statement in self.made(admin, prefix):
                try:
                    admin.query(statement)
                except foreign.ServerError as error:
                    if error.code not in self.GONE:  # by itself, meanwhile
                        raise

    def stop(self):
        """Drops what was made."""
        try:
            self.drop(self.prefix)
        except foreign.ServerError as error:
            ask(self.kind, "server")[0].close()  # fails, and tells why, when that has ended
            raise AssertionError(f"databases of a case stay on {self.title}: {error}") from error
        finally:
            shutil.rmtree(self.path, ignore_errors=True)
            if self.line:
                self.line.close()

    def log(self):
        return ""

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.stop()


class MariaDB(Server):
    kind = scheme = "mysql"
    title = "MariaDB"

    @staticmethod
    def missing():
        for name in ("mariadbd", "mariadb-install-db"):
            if not find(name):
                return f"{name} is not installed"
        return None if foreign.MariaDB.load() else "libmariadb is not installed"

    @property
    def socket(self):
        return os.path.join(self.home, "s")

    def socket_words(self):
        return {"socket": self.socket}

    def socket_port(self):
        return None

    def connect(self, **named):
        at = {"socket": self.socket} if "host" not in named else {}
        return foreign.MariaDB(**{"user": me(), **at, **named})

    def make_database(self, base):
        with self.connect() as admin:
            admin.query(f"CREATE DATABASE {base.name} CHARACTER SET utf8mb4")
            for host in ("localhost", "%"):
                admin.query(f"CREATE USER {base.user}@'{host}' IDENTIFIED BY ?", base.password)
                admin.query(f"GRANT ALL ON {base.name}.* TO {base.user}@'{host}'")

    def let_make_databases(self, base):
        with self.connect() as admin:
            for host in ("localhost", "%"):
                admin.query(f"GRANT ALL ON `{base.name}\\_%`.* TO {base.user}@'{host}'")

    def admin_url(self):
        return f"mysql://{me()}@/mysql?socket={self.socket}"

    LISTS = (
        ("KILL {}", "SELECT id FROM information_schema.processlist WHERE ", "user"),
        ("DROP DATABASE `{}`", "SELECT schema_name FROM information_schema.schemata WHERE ",
         "schema_name"),
        ("DROP USER '{}'@'{}'", "SELECT user, host FROM mysql.user WHERE ", "user"),
    )
    GONE = {1008, 1094, 1396}  # databases, clients, users
    PATIENT = "SET lock_wait_timeout = 60"


class PostgreSQL(Server):
    kind = scheme = "postgresql"
    title = "PostgreSQL"

    @staticmethod
    def missing():
        for name in ("initdb", "postgres"):
            if not find(name):
                return f"PostgreSQL's {name} is not installed"
        return None if foreign.PostgreSQL.load() else "libpq is not installed"

    @property
    def socket(self):
        return os.path.join(self.home, f".s.PGSQL.{self.socket_port()}")

    def socket_words(self):
        return {"socket": self.home}

    def socket_port(self):
        return self.port or 5432

    def connect(self, **named):
        at = {"socket": self.home, "port": self.socket_port()} if "host" not in named else {}
        named = {"user": "admin", "database": "postgres", **at, **named}
        return foreign.PostgreSQL(**named)

    def make_database(self, base):
        with self.connect() as admin:
            admin.query(f"CREATE ROLE {base.user} LOGIN PASSWORD '{base.password}'")
            admin.query(f"CREATE DATABASE {base.name} OWNER {base.user} {self.copying(admin)}")
            # Where AgentScope's services have their table, which name it in each statement.
            admin.query(f"ALTER DATABASE {base.name} SET search_path = agentscope, public")

    def copying(self, admin):
        """Files, which takes half of what their pages do; older ones do nothing else."""
        is_new = int(admin.query("SHOW server_version_num")[0][0]) >= 150000
        return "STRATEGY FILE_COPY" if is_new else ""

    def let_make_databases(self, base):
        with self.connect() as admin:
            admin.query(f"ALTER ROLE {base.user} CREATEDB")

    def admin_url(self):
        return f"postgresql://admin@:{self.socket_port()}/postgres?socket={self.home}"

    LISTS = (
        ('DROP DATABASE "{}" WITH (FORCE)', "SELECT datname FROM pg_database WHERE ", "datname"),
        ('DROP ROLE "{}"', "SELECT rolname FROM pg_roles WHERE ", "rolname"),
    )
    GONE = {"3D000", "42704"}
    PATIENT = "SET lock_timeout = 60000"


class Own:
    """A private server's processes; before a Server in the list of a class's bases."""

    def __init__(self, tcp=False, tls=False, durable=False, extra=(), zone=None):
        super().__init__()
        self.tcp = tcp or tls
        self.tls = tls
        self.durable = durable
        self.extra = list(extra)
        self.zone = {"TZ": zone} if zone else {}
        self.process = None
        self.began = False
        self.frozen = []

    @property
    def number(self):
        return self.pid

    def command(self, *words, **named):
        return self.popen(words, **named).wait(timeout=HANG)

    def popen(self, words, log="setup.log", **named):
        """As who may run a server; the process dies with this one."""
        named.update({"user": NOBODY, "group": NOBODY, "extra_groups": []} if is_root() else {})
        with open(os.path.join(self.path, log), "ab") as output:
            return subprocess.Popen(
                words,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=self.path,
                env=self.environment(),
                start_new_session=True,
                preexec_fn=die_with_parent,
                **named,
            )

    def environment(self):
        # A server that starts deletes the temporary files of all others in its folder for them.
        own = {"HOME": self.path, "TMPDIR": self.path, **self.zone}
        return {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", **own}

    def set_up(self):
        """Makes the data, or copies those that the run has for that."""
        words = self.set_up_words()
        if SHARED in os.environ:
            line, answer = ask(self.kind, "template")
            self.leave(line, folder=self.path)
            words = ["cp", "-a", answer["template"], f"{self.path}/data"]
        status = self.command(*words)
        if status != 0:
            raise AssertionError(f"{self.title} is not set up, {status}: {self.log('setup.log')}")
        self.configure()
        if self.tls:
            self.make_certificates()

    def make_certificates(self):
        """An authority of our own (self.ca), and a certificate of it for 127.0.0.1 and localhost,
        but not for 127.0.0.2."""
        harness.need_tool("openssl")
        key = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 30".split()
        names = "subjectAltName=IP:127.0.0.1,DNS:localhost"
        self.ca = os.path.join(self.path, "ca.pem")
        steps = (
            [*key, "-subj", "/CN=sessfs tests", "-keyout", "ca.key", "-out", self.ca],
            [*key, "-subj", "/CN=server", "-addext", names, "-addext", "basicConstraints=CA:FALSE"]
            + ["-CA", self.ca, "-CAkey", "ca.key", "-keyout", "tls.key", "-out", "tls.pem"],
        )
        for step in steps:
            status = self.command("openssl", *step)
            if status != 0:
                raise AssertionError(f"no certificate: {self.log('setup.log')}")
        os.chmod(self.ca, 0o644)

    def start(self):
        deadline = time.monotonic() + HANG
        while True:
            if self.tcp and not self.began:
                self.port = free_port()  # unless somebody else takes it meanwhile
            self.process = self.popen(self.words(), "server.log")
            self.pid = self.process.pid
            while self.process.poll() is None:
                with contextlib.suppress(foreign.ServerError):
                    self.connect().close()
                    self.began = True
                    return self
                if time.monotonic() > deadline:
                    break
                time.sleep(0.02)
            # After kill() the last of its processes may still be there for a moment.
            if time.monotonic() > deadline:
                log = self.log()
                self.stop()
                raise AssertionError(f"{self.title} does not start: {log[-2000:]}")
            time.sleep(0.1)

    def addresses(self):
        """The second one is not in the certificate."""
        return "127.0.0.1,127.0.0.2" if self.tls else "127.0.0.1"

    def processes(self):
        """The server and its children, itself first."""
        if self.process is None or self.process.poll() is not None:
            return []
        found = [self.pid]
        with contextlib.suppress(OSError):
            with open(f"/proc/{self.pid}/task/{self.pid}/children") as children:
                found += map(int, children.read().split())
        return found

    def signal(self, pids, number):
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def kill(self):
        """As kill -9, or the power for all that memory holds."""
        pids = self.processes()
        self.signal(pids, signal.SIGKILL)
        if self.process:
            self.process.wait()
        while any(harness.alive(pid) for pid in pids):
            time.sleep(0.005)
        self.process = self.pid = None
        self.frozen = []

    def freeze(self):
        """Returns when no thread of it runs any more."""
        self.frozen = self.processes()
        self.signal(self.frozen, signal.SIGSTOP)
        harness.eventually(lambda: all(map(is_stopped, self.frozen)), "it is frozen")

    def thaw(self):
        self.signal(self.frozen, signal.SIGCONT)
        self.frozen = []

    def end(self):
        """Ends the server well; its data stay, and start() goes on."""
        if self.process is None:
            return
        self.thaw()
        self.signal(self.processes()[:1], self.end_signal)
        try:
            self.process.wait(timeout=HANG)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"{self.title} does not end: {self.log()[-2000:]}") from None
        self.process = self.pid = None

    def stop(self):
        try:
            self.end()
        finally:
            self.kill()
            shutil.rmtree(self.path, ignore_errors=True)
            if self.line:
                self.line.close()

    def log(self, name="server.log"):
        with contextlib.suppress(OSError):
            with open(os.path.join(self.path, name), errors="replace") as file:
                return file.read()
        return ""


class OwnMariaDB(Own, MariaDB):
    end_signal = signal.SIGTERM
    QUICK = ()

    def set_up_words(self):
        return [
            find("mariadb-install-db"),
            "--no-defaults",
            f"--datadir={self.path}/data",
            "--auth-root-authentication-method=socket",
            f"--auth-root-socket-user={me()}",
            "--skip-test-db",
            "--innodb-log-file-size=16M",
        ]

    def configure(self):
        pass

    def words(self):
        listening = ["--skip-networking"]
        if self.port:
            listening = [f"--bind-address={self.addresses()}", f"--port={self.port}"]
        careless = [] if self.durable else ["--innodb-flush-method=nosync"]
        if self.tls:
            listening += [f"--ssl-cert={self.path}/tls.pem", f"--ssl-key={self.path}/tls.key"]
        return (
            [find("mariadbd"), "--no-defaults", f"--datadir={self.path}/data"]
            + [f"--socket={self.socket}", f"--pid-file={self.path}/pid"]
            + ["--innodb-log-file-size=16M", "--innodb-buffer-pool-size=64M"]
            + ["--skip-name-resolve", "--performance-schema=off", "--max-connections=500"]
            + ["--character-set-server=utf8mb4", "--lc-messages=en_US"]
            + listening
            + careless
            + self.extra
        )


class OwnPostgreSQL(Own, PostgreSQL):
    end_signal = signal.SIGINT  # without waiting for clients

    def set_up_words(self):
        words = [find("initdb"), "-D", f"{self.path}/data", "-U", "admin", "-E", "UTF8"]
        return words + ["--locale=C.UTF-8", "--auth=trust", "--no-sync"]

    # Half of what a client of the run's does would be iterations of SCRAM, one connection a
    # statement; private servers have it.
    QUICK = ("-c", "password_encryption=md5")

    # Who has started it is the administrator, by the socket, and needs no password.  Where md5 is
    # asked for, a password that is kept for SCRAM is asked for by that.
    RIGHTS = """local all admin peer map=us
local all all md5
host all all 127.0.0.0/8 md5
"""

    def configure(self):
        with open(f"{self.path}/data/pg_hba.conf", "w") as file:
            file.write(self.RIGHTS)
        with open(f"{self.path}/data/pg_ident.conf", "w") as file:
            file.write(f"us {me()} admin\n")

    def words(self):
        settings = {
            "unix_socket_directories": self.path,
            "port": self.socket_port(),
            "listen_addresses": self.addresses() if self.port else "",
            "max_connections": 400,
            "shared_buffers": "64MB",
            "max_wal_size": "128MB",
            # Below its data, and so gone with it when the server is killed.
            "dynamic_shared_memory_type": "mmap",
        }
        if self.tls:
            settings["ssl"] = "on"
            settings["ssl_cert_file"] = f"{self.path}/tls.pem"
            settings["ssl_key_file"] = f"{self.path}/tls.key"
        if not self.durable:
            settings.update({"fsync": "off", "full_page_writes": "off"})
        words = [find("postgres"), "-D", f"{self.path}/data"]
        for name, value in settings.items():
            words += ["-c", f"{name}={value}"]
        return words + self.extra


class Proxy:
    """What stands before a server: proxy("cut after") has it obey a command of proxy.c."""

    PROGRAM = os.path.join(os.environ.get("top_builddir", ""), "tests/servers/proxy")

    def __init__(self, server, number=1):
        self.server = server
        self.words = {"socket": os.path.join(server.path, f"p{number}")}
        listens = self.words["socket"]
        if server.kind == "postgresql":
            os.mkdir(listens, 0o755)
            listens = os.path.join(listens, os.path.basename(server.socket))
        self.path = os.path.join(server.path, f"c{number}")
        command = [self.PROGRAM, listens, self.path, server.socket]
        self.process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, preexec_fn=die_with_parent
        )
        self.pid = self.process.pid
        if self.process.stdout.readline() != b"ready\n":
            raise AssertionError(f"the proxy has ended with {self.process.wait()}")
        self.control = socket.socket(socket.AF_UNIX)
        self.control.connect(self.path)
        self.answers = self.control.makefile("r")

    def __call__(self, command):
        self.control.settimeout(HANG)
        self.control.sendall(command.encode() + b"\n")
        answer = self.answers.readline().strip()
        if answer == "what?" or not answer:
            raise AssertionError(f"the proxy does not understand {command!r}")
        return answer

    def counts(self):
        words = self("counts").split()
        return dict(zip(words[::2], map(int, words[1::2])))

    def url(self, base, **parameters):
        return base.url_with(**{**self.words, **parameters})

    def connect(self, base, **named):
        return base.connect(**{**self.words, "port": self.server.socket_port() or 0, **named})

    def log(self):
        return ""

    def stop(self):
        self.answers.close()
        self.control.close()
        self.process.stdout.close()
        self.process.kill()
        self.process.wait()


KINDS = {cls.kind: cls for cls in (MariaDB, PostgreSQL)}
OWN = {cls.kind: cls for cls in (OwnMariaDB, OwnPostgreSQL)}


def ask(kind, what):
    """The line to who keeps the run's server of a kind, and what was answered."""
    line = socket.socket(socket.AF_UNIX)
    line.settimeout(HANG)
    try:
        line.connect(os.path.join(os.environ[SHARED], kind))
        line.sendall(what.encode() + b"\n")
        with line.makefile("rb") as answers:
            answer = json.loads(answers.readline() or b"{}")
    except OSError as error:
        answer = {"wrong": f"the keeper of the run's {KINDS[kind].title} is silent: {error}"}
    if "home" not in answer and "template" not in answer:
        line.close()
        raise AssertionError(answer.get("wrong", f"the keeper of the run's {kind} has ended"))
    return line, answer


def is_root():
    return os.geteuid() == 0


def me():
    return pwd.getpwuid(os.geteuid()).pw_name


def die_with_parent():
    """In the child, when it has the rights that it will have: changing them would end this."""
    ctypes.CDLL(None).prctl(PDEATHSIG, signal.SIGKILL)


def find(name):
    """A program of a server, which no user has in his PATH."""
    folders = ["/usr/sbin", "/usr/libexec"]
    folders += sorted(glob.glob("/usr/lib/postgresql/*/bin"), reverse=True)
    return shutil.which(name, path=os.pathsep.join([os.environ["PATH"]] + folders))


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def is_reachable(folder):
    """Whether who runs a server gets there."""
    if not is_root():
        return os.access(folder, os.W_OK | os.X_OK)
    return all(
        os.stat(part).st_mode & 0o001
        for part in (folder[:i] or "/" for i in range(len(folder) + 1) if folder[i : i + 1] in "/")
    )


def make_folder():
    below = os.environ.get("top_builddir")
    for place in (below, os.environ.get("TMPDIR"), "/tmp"):
        place = place and os.path.realpath(place)
        longest = f"{place}/server-12345678/.s.PGSQL.65535"
        if place and len(longest) < SOCKET_MAX and os.path.isdir(place) and is_reachable(place):
            break
    folder = tempfile.mkdtemp(prefix="server-", dir=place)
    # A daemon has to reach the socket without root's rights.
    os.chmod(folder, 0o711)
    if is_root():
        os.chown(folder, NOBODY, NOBODY)
    return folder


def need(kind):
    missing = KINDS[kind].missing()
    if missing:
        raise harness.Skip(missing)


@contextlib.contextmanager
def server(kind, **named):
    """A private server that is stopped at the end, whatever happens."""
    need(kind)
    with OWN[kind](**named) as found:
        found.set_up()
        yield found.start()


def shared_or_private(kind):
    """To be used by with; it ends with what has been made in it."""
    need(kind)
    return KINDS[kind].of_the_run() or server(kind)


def start(box, kind):
    """Databases of a case on the server of the run, which are dropped at its end."""
    need(kind)
    found = KINDS[kind].of_the_run()
    if not found:
        return own(box, kind, tcp=True)
    box.mounts.append(found)
    return found


def own(box, kind, **named):
    """A private server that is stopped at the end of a case, after its mounts."""
    need(kind)
    found = OWN[kind](**named)
    box.mounts.append(found)
    found.set_up()
    found.start()
    return found


def proxy(box, server):
    """A proxy before a server, which is stopped at the end of a case."""
    if not os.access(Proxy.PROGRAM, os.X_OK):
        raise harness.Skip(f"{Proxy.PROGRAM} is not built")
    found = Proxy(server, number=sum(isinstance(one, Proxy) for one in box.mounts) + 1)
    box.mounts.append(found)
    return found


def main(namespace):
    """As harness.main(), with servers of the module's own where the run has none."""
    import shared  # which needs what stands here

    with shared.servers_of_the_run():
        harness.main(namespace)
