"""A Unix socket of a server in a container, in a folder that is ours: the short way in, past Docker's proxy.

The folder is mounted into the container, and a server of ours that finds `ENVWEAVE_SOCKET` listens there as well. Only
we can enter the folder on this side, so whoever answers is the container. Where nobody does, as with servers of others,
daemons of other machines and virtual ones, its published port is the way.
"""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
from pathlib import Path

VARIABLE = "ENVWEAVE_SOCKET"
LABEL = "envweave.door"
_INSIDE = "/run/envweave"
_PREFIX = "envweave-door-"
_LONGEST = 100
"""The path of a socket has room for 107 bytes."""


class Door:
    """Made before the container and removed after it."""

    def __init__(self) -> None:
        self.folder = tempfile.mkdtemp(prefix=_PREFIX)  # nobody else may enter it
        self._shared = Path(self.folder, "in")
        self._shared.mkdir()
        self._shared.chmod(0o1777)  # the server is another user

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

    def is_open(self) -> bool:
        """Somebody listens."""
        if len(self.path) > _LONGEST:
            return False
        try:
            with socket.socket(socket.AF_UNIX) as visitor:
                visitor.settimeout(1.0)
                visitor.connect(self.path)
            return True
        except OSError:
            return False


def remove(folder: str) -> None:
    """Remove a door by the folder in its label, which has to look like one."""
    if os.path.basename(folder).startswith(_PREFIX) and not os.path.islink(folder):
        shutil.rmtree(folder, ignore_errors=True)
