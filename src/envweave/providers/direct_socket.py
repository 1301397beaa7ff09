"""A Unix socket that a server in a container listens on, beside its published port: faster than Docker's proxy.

Its folder is mounted into the container, and our server listens at `ENVWEAVE_SOCKET`. Only this user can enter the
folder on the host, and links in it are not followed, so only the container can answer. Servers of others and
daemons on other machines leave the folder empty; then clients use the published port.
"""

from __future__ import annotations

import os
import shutil
import socket
import stat
import tempfile
import weakref
from contextlib import suppress
from pathlib import Path

LABEL = "envweave.socket"
_INSIDE = "/run/envweave"
_PREFIX = "envweave-socket-"


class DirectSocket:
    """Created before the container; `remove_folder` removes it afterwards."""

    def __init__(self) -> None:
        self.folder = tempfile.mkdtemp(prefix=_PREFIX)  # no other user may enter it
        shared = Path(self.folder, "in")
        shared.mkdir()
        shared.chmod(0o1777)  # the server runs as another user
        self.path = str(shared / "socket")
        self.volume = {str(shared): {"bind": _INSIDE, "mode": "rw"}}
        self.variables = {"ENVWEAVE_SOCKET": f"{_INSIDE}/socket"}
        self.labels = {LABEL: self.folder}
        self._held_path = ""

    def address(self) -> str:
        """Return a path to connect to, valid while this object lives; empty if no server listens.

        The path refers to an open descriptor of the socket, so the container cannot put a link in its place.
        """
        if not self._held_path:
            with suppress(OSError):
                held = os.open(self.path, os.O_PATH | os.O_NOFOLLOW)
                closing = weakref.finalize(self, os.close, held)
                if stat.S_ISSOCK(os.fstat(held).st_mode):
                    self._held_path = f"/proc/self/fd/{held}"
                else:
                    closing()
        return self._held_path if self._held_path and _accepts(self._held_path) else ""


def _accepts(path: str) -> bool:
    with suppress(OSError), socket.socket(socket.AF_UNIX) as client:
        client.settimeout(1.0)
        client.connect(path)
        return True
    return False


def remove_folder(folder: str) -> None:
    """Remove the folder that a label names, if it has the name of one."""
    if os.path.basename(folder).startswith(_PREFIX) and not os.path.islink(folder):
        shutil.rmtree(folder, ignore_errors=True)
