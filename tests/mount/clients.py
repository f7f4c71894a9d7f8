# SPDX-License-Identifier: MIT
"""The calls that real clients make, one by one.

Each client works below a root folder (a mount, or a plain folder to compare with) and keeps in seen
what it was told where it looks itself: sizes, bytes, names, errors.  The same play on two roots
must have seen the same.
"""

import base64
import json
import os
import re
import shutil
import zlib

CUT = 8192  # what a Java stream or a C library hands to write(2) at once


class Client:
    def __init__(self, root):
        self.root = root
        self.seen = []

    def at(self, *names):
        return os.path.join(self.root, *names)

    def see(self, label, *values):
        self.seen.append((label, *values))

    def write_cut(self, fd, data, cut=CUT):
        for start in range(0, len(data), cut):
            self.see("write", os.write(fd, data[start : start + cut]))

    def save(self, path, data, flags=os.O_TRUNC, mode=0o666, cut=CUT):
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | flags, mode)
        self.write_cut(fd, data, cut)
        os.close(fd)
        self.see("size after close", os.path.basename(path), os.stat(path).st_size)

    def read_to_size(self, path):
        """open, fstat, pread exactly up to st_size: no read at the end of the file."""
        fd = os.open(path, os.O_RDONLY)
        size = os.fstat(fd).st_size
        data = b""
        while len(data) < size:
            piece = os.pread(fd, min(CUT, size - len(data)), len(data))
            if not piece:
                break
            data += piece
        os.close(fd)
        self.see("read", os.path.basename(path), size, data)
        return data

    def make_folder(self, path):
        try:
            os.mkdir(path)
        except FileExistsError:
            self.see("mkdir says EEXIST")

    def names(self, path):
        found = sorted(entry.name for entry in os.scandir(path))
        self.see("names", found)
        return found


class AgentScope1(Client):
    """The file session of AgentScope Java 1.x."""

    def __init__(self, root):
        super().__init__(root)
        self.loaded = set()  # lists that this process has not written itself yet

    @staticmethod
    def folder_of(session):
        if re.fullmatch(r"[a-zA-Z0-9_\-.]+", session):
            return session
        return base64.urlsafe_b64encode(session.encode()).rstrip(b"=").decode()

    def open_session(self, session):
        path = self.at(self.folder_of(session))
        self.make_folder(path)
        return path

    def save_single(self, session, key, value):
        folder = self.open_session(session)
        path = os.path.join(folder, key + ".json")
        if "/" in key:
            self.make_folder(os.path.dirname(path))
        self.save(path, json.dumps(value, ensure_ascii=False).encode())

    def preamble(self, path):
        """Before it saves a list it looks at the hash, and how many items there are."""
        stem = path[: -len(".jsonl")]
        try:
            self.read_to_size(stem + ".hash")
        except FileNotFoundError:
            self.see("no hash")
        try:
            data = self.read_to_size(path)
        except FileNotFoundError:
            self.see("no list")
            return 0
        count = sum(1 for line in data.split(b"\n") if line.strip())
        self.see("items", count)
        return count

    def write_hash(self, path, text):
        self.save(path[: -len(".jsonl")] + ".hash", text)

    @staticmethod
    def text_of(items):
        return b"".join(json.dumps(item, ensure_ascii=False).encode() + b"\n" for item in items)

    @staticmethod
    def sampled(count):
        """The items that the hash of so many is made of."""
        if count <= 5:
            return list(range(count))
        return sorted({0, count // 4, count // 2, count * 3 // 4, count - 1})

    @classmethod
    def hash_of(cls, items):
        if not items:
            return b"empty:0"
        return b"%08x" % zlib.crc32(cls.text_of([items[i] for i in cls.sampled(len(items))]))

    def save_list(self, session, key, items):
        folder = self.open_session(session)
        path = os.path.join(folder, key + ".jsonl")
        if not items:
            self.write_hash(path, b"empty:0")
            return
        count = self.preamble(path)
        if count and (path in self.loaded or count > len(items)):
            os.unlink(path)
            self.save(path, self.text_of(items), flags=0)
        else:
            self.save(path, self.text_of(items[count:]), flags=os.O_APPEND)
        self.loaded.discard(path)
        self.write_hash(path, self.hash_of(items))

    def load_list(self, session, key):
        path = self.at(self.folder_of(session), key + ".jsonl")
        self.loaded.add(path)
        return [json.loads(line) for line in self.read_to_size(path).splitlines() if line.strip()]

    def list_sessions(self):
        self.see("sessions", sorted(e.name for e in os.scandir(self.root) if e.is_dir()))

    def delete_session(self, session):
        found = []
        for top, folders, files in os.walk(self.at(self.folder_of(session))):
            found.append(top)
            found += [os.path.join(top, name) for name in files]
        for path in sorted(found, reverse=True):
            os.rmdir(path) if os.path.isdir(path) else os.unlink(path)
        self.see("deleted", len(found))


class AgentScope2(AgentScope1):
    """The file store of AgentScope Java 2.x: one level deeper, saves by X.tmp and rename."""

    def __init__(self, root, user=None):
        super().__init__(root)
        self.user = user or "__anon__"

    def open_session(self, session):
        self.make_folder(self.at(self.user))
        path = self.at(self.user, self.folder_of(session))
        self.make_folder(path)
        return path

    def save(self, path, data, flags=os.O_TRUNC, mode=0o666, cut=CUT):
        if flags & os.O_APPEND:
            super().save(path, data, flags, mode, cut)
            return
        super().save(path + ".tmp", data, os.O_TRUNC, mode, cut)
        os.rename(path + ".tmp", path)
        self.see("size after rename", os.path.basename(path), os.stat(path).st_size)

    def save_list(self, session, key, items):
        path = os.path.join(self.open_session(session), key + ".jsonl")
        if not items:
            self.write_hash(path, b"empty:0")
            return
        count = self.preamble(path)
        if count and (path in self.loaded or count > len(items)):
            self.save(path, self.text_of(items))
        else:
            self.save(path, self.text_of(items[count:]), flags=os.O_APPEND)
        self.loaded.discard(path)
        self.write_hash(path, self.hash_of(items))

    def load_list(self, session, key):
        path = self.at(self.user, self.folder_of(session), key + ".jsonl")
        self.loaded.add(path)
        return [json.loads(line) for line in self.read_to_size(path).splitlines() if line.strip()]


class Strands(Client):
    """The file sessions of Strands Agents."""

    def folder(self, session):
        return self.at(f"session_{session}")

    def save_document(self, path, value, cut=CUT):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        data = json.dumps(value, indent=2, ensure_ascii=False).encode()
        self.save(path + ".tmp", data, cut=cut)
        os.replace(path + ".tmp", path)
        self.see("size after rename", os.path.basename(path), os.stat(path).st_size)

    def load_document(self, path):
        os.stat(path)
        fd = os.open(path, os.O_RDONLY)
        size = os.fstat(fd).st_size
        data = os.read(fd, size + 1)
        self.see("document", os.path.basename(path), size, data, os.read(fd, 1))
        os.close(fd)
        return data

    def create_session(self, session):
        folder = self.folder(session)
        self.save_document(os.path.join(folder, "session.json"), {"session_id": session})
        for name in ("agents", "multi_agents"):
            os.makedirs(os.path.join(folder, name), exist_ok=True)

    def create_agent(self, session, agent):
        folder = os.path.join(self.folder(session), "agents", f"agent_{agent}")
        os.makedirs(os.path.join(folder, "messages"), exist_ok=True)
        self.save_document(os.path.join(folder, "agent.json"), {"agent_id": agent, "state": {}})

    def message(self, session, agent, number):
        folder = os.path.join(self.folder(session), "agents", f"agent_{agent}", "messages")
        return os.path.join(folder, f"message_{number}.json")

    def list_messages(self, session, agent):
        folder = os.path.dirname(self.message(session, agent, 0))
        found = [name for name in os.listdir(folder) if name.startswith("message_")]
        order = sorted(found, key=lambda name: int(name[len("message_") : -len(".json")]))
        self.see("messages", order)
        return [self.load_document(os.path.join(folder, name)) for name in order]

    def delete_session(self, session):
        """shutil.rmtree with descriptors: lstat and fstat must tell the same inode."""
        before = os.lstat(self.folder(session))
        fd = os.open(self.folder(session), os.O_RDONLY | os.O_NOFOLLOW | os.O_DIRECTORY)
        after = os.fstat(fd)
        os.close(fd)
        self.see("the same inode", os.path.samestat(before, after))
        shutil.rmtree(self.folder(session))
        self.see("gone", not os.path.exists(self.folder(session)))


class ClaudeCode(Client):
    """One open, write, fsync, close a message; large ones are written in two pieces."""

    SPLIT = 524288

    def append(self, path, record):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        data = json.dumps(record, ensure_ascii=False).encode() + b"\n"
        fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self.write_cut(fd, data, self.SPLIT)
        os.fsync(fd)
        os.close(fd)
        self.see("size", os.stat(path).st_size)

    def rewrite_tail(self, path, lines):
        """Cuts the last lines off and writes others in their place."""
        data = self.read_to_size(path)
        kept = b"\n".join(data.split(b"\n")[: -len(lines) - 1]) + b"\n"
        fd = os.open(path, os.O_RDWR)
        os.ftruncate(fd, len(kept))
        self.see("size after ftruncate", os.fstat(fd).st_size)
        os.lseek(fd, 0, os.SEEK_END)
        for line in lines:
            os.write(fd, json.dumps(line).encode() + b"\n")
        os.close(fd)
        self.read_to_size(path)


class Codex(Client):
    """One descriptor for the whole session, no fsync."""

    def start(self, day, name):
        os.makedirs(self.at(*day), exist_ok=True)
        self.path = self.at(*day, name + ".jsonl")
        self.fd = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)

    def record(self, value):
        os.write(self.fd, json.dumps(value).encode() + b"\n")
        self.see("size", os.stat(self.path).st_size, os.fstat(self.fd).st_size)

    def end(self):
        os.close(self.fd)


class Gemini(Client):
    """mkdir -p and append for each record; repair by rename, a .tmp-PID, rename."""

    def record(self, path, value):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        self.save(path, json.dumps(value).encode() + b"\n", flags=os.O_APPEND)

    def repair(self, path):
        os.rename(path, path + ".broken")
        good = []
        for line in self.read_to_size(path + ".broken").split(b"\n"):
            try:
                json.loads(line)
                good.append(line + b"\n")
            except ValueError:
                self.see("dropped", line)
        temporary = f"{path}.tmp-4242"
        self.save(temporary, b"".join(good))
        os.rename(temporary, path)
        os.unlink(path + ".broken")
        self.read_to_size(path)


def vim_write(client, path, data, backup_copy=False):
    """vim with 'writebackup': renames the old file away, or copies it and writes over it."""
    status = os.stat(path)
    probe = os.path.join(os.path.dirname(path), "4913")
    os.close(os.open(probe, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o100644))
    os.unlink(probe)
    backup = path + "~"
    if backup_copy:
        client.save(backup, client.read_to_size(path))
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    else:
        os.rename(path, backup)
        fd = os.open(path, os.O_WRONLY | os.O_CREAT, 0o644)
    client.write_cut(fd, data)
    os.fsync(fd)
    client.see("size before close", os.fstat(fd).st_size)
    os.close(fd)
    os.chmod(path, status.st_mode & 0o7777)
    client.read_to_size(path)
    os.unlink(backup)
    client.names(os.path.dirname(path))


def old_layout(client, session, state):
    """One file at the root that holds everything, as older versions wrote it."""
    client.save(client.at(session + ".json"), state)
    client.read_to_size(client.at(session + ".json"))
