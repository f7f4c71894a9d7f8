# SPDX-License-Identifier: MIT
"""A place where every user may mount."""

import contextlib
import os
import shutil
import subprocess

from harness import (
    AS_NOBODY,
    entering,
    eventually,
    in_private_namespace,
    need_namespace,
    need_root,
    need_tool,
    tool,
)


def let_all_run(box, folder):
    """The program may lie in a directory that is closed to others, as a home directory may be."""
    os.chmod(folder, 0o755)
    if tool(*AS_NOBODY, "test", "-x", box.program, check=False).returncode != 0:
        box.program = shutil.copy(box.program, os.path.join(folder, "sessfs"))


class Users:
    """A namespace of mounts in which every user may mount, entered as root or as nobody."""

    def __init__(self, box):
        need_root()
        need_namespace()
        for name in ("setpriv", "nsenter"):
            need_tool(name)
        self.folder = box.new_folder("users")
        for path in (box.folder, self.folder):
            os.chmod(path, 0o755)
        self.home = os.path.join(self.folder, "home")
        os.mkdir(self.home)
        os.chown(self.home, 65534, 65534)
        let_all_run(box, self.folder)
        holder = in_private_namespace(self.folder, ["sleep", "600"])
        self.holder = subprocess.Popen(holder, start_new_session=True)
        inside = [*entering(self.holder.pid), f"--wd={self.home}"]
        self.as_root = lambda *command: tool(*inside, *command, check=False)
        self.as_nobody = lambda *command: tool(*inside, *AS_NOBODY, *command, check=False)

        def start_as_nobody(*command, cwd):
            inside = entering(self.holder.pid)
            # As nobody, since nobody else may enter the mount.
            script = 'cd "$1" && shift && exec "$@"'
            return subprocess.Popen(
                inside + AS_NOBODY + ["sh", "-c", script, "sh", cwd, *command],
                stdin=subprocess.DEVNULL,
            )

        self.start_as_nobody = start_as_nobody

        def ready():
            with contextlib.suppress(OSError):
                with open(f"/proc/{self.holder.pid}/cmdline", "rb") as line:
                    return line.read().startswith(b"sleep\0")

        eventually(ready, "the namespace is made")

    def end(self):
        self.holder.kill()
        self.holder.wait()


@contextlib.contextmanager
def users(box):
    space = Users(box)
    try:
        yield space
    finally:
        space.end()
