"""A Unix socket of a server in a container, in a folder that is ours: the short way in, past Docker's proxy.

The folder is mounted into the container, and a server of ours that finds `ENVWEAVE_SOCKET` listens there as well. Only
we can enter the folder on this side, and only a socket that lies in it is taken, no link to another, so whoever answers
is the container. Where nobody does, as with servers of others, daemons of other machines and virtual ones, the
published port is the way.
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

VARIABLE = "ENVWEAVE_SOCKET"
LABEL = "envweave.socket"
_INSIDE = "/run/envweave"
_PREFIX = "envweave-socket-"


class Door:
    """Made before the container and removed after it."""

    def __init__(self) -> None:
        self.folder = tempfile.mkdtemp(prefix=_PREFIX)  # nobody else may enter it
        self._shared = Path(self.folder, "in")
        self._shared.mkdir()
        self._shared.chmod(0o1777)  # the server is another user
        self._way = ""

    @property
    def path(self) -> str:
        return str(self._shared / "socket")

    @property
    def volume(self) -> dict[str, dict[str, str]]:
        """As the Docker SDK takes it."""
        return {str(self._shared): {"bind": _INSIDE, "mode": "rw"}}

    @property
    def variables(self) -> dict[str, str]:
        return {VARIABLE: f"{_INSIDE}/socket"}

    @property
    def labels(self) -> dict[str, str]:
        return {LABEL: self.folder}

    def way_in(self) -> str:
        """A path that leads to the socket for as long as this door lives; empty if nobody listens.

        It is the socket itself, held open: what the container puts in its place later leads nobody astray.
        """
        if not self._way:
            with suppress(OSError):
                held = os.open(self.path, os.O_PATH | os.O_NOFOLLOW)
                closing = weakref.finalize(self, os.close, held)
                if stat.S_ISSOCK(os.fstat(held).st_mode):
                    self._way = f"/proc/self/fd/{held}"
                else:
                    closing()
        return self._way if self._way and _listens(self._way) else ""


def _listens(path: str) -> bool:
    try:
        with socket.socket(socket.AF_UNIX) as visitor:
            visitor.settimeout(1.0)
            visitor.connect(path)
        return True
    except OSError:
        return False


def remove(folder: str) -> None:
    """Remove a door by the folder in its label, which has to look like one."""
    if os.path.basename(folder).startswith(_PREFIX) and not os.path.islink(folder):
        shutil.rmtree(folder, ignore_errors=True)
