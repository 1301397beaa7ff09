"""A door for somebody who is let in once: a Unix socket in a folder of its own, gone as soon as it has been used."""

from __future__ import annotations

import os
import shutil
import socket
import struct
import tempfile
import time
from pathlib import Path

from envweave.core.process_identity import is_dead, machine_id
from envweave.errors import SandboxError
from envweave.sandbox.guest.frames import Hangup
from envweave.sandbox.waiting import Wait

_CREDENTIALS = struct.Struct("iII")
_PREFIX = "envweave-door"


class Door:
    """Anybody on this machine may knock, for we do not know who the other side runs as; one process is let in."""

    def __enter__(self) -> Door:
        self.folder = tempfile.mkdtemp(prefix=f"{_PREFIX}-{machine_id()}-{os.getpid()}-")
        self._listener = socket.socket(socket.AF_UNIX)
        try:
            os.chmod(self.folder, 0o711)  # noqa: S103
            self._listener.bind(f"{self.folder}/socket")
            os.chmod(f"{self.folder}/socket", 0o666)  # noqa: S103
            self._listener.listen()
            self._listener.setblocking(False)
        except BaseException:
            self.__exit__()
            raise
        return self

    async def let_in(self, wait: Wait, pid: int, timeout: float) -> socket.socket:
        """The line to this process. Raises `Hangup` if it ends before it has knocked."""
        until = time.monotonic() + timeout
        try:
            death = os.pidfd_open(pid)
        except OSError:
            raise Hangup from None
        try:
            while ready := set(await wait.readable([self._listener.fileno(), death], until - time.monotonic())):
                if self._listener.fileno() not in ready:
                    raise Hangup
                sock, _ = self._listener.accept()
                if _peer(sock) == pid:
                    return sock
                sock.close()
        finally:
            os.close(death)
        raise SandboxError(f"nobody has called for {timeout:g} s")

    def __exit__(self, *_: object) -> None:
        self._listener.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def sweep() -> None:
    """Folders of hosts that were killed while somebody was on the way."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}-{machine_id()}-*"):
        if is_dead(folder.name.split("-")[3]):
            shutil.rmtree(folder, ignore_errors=True)


def _peer(sock: socket.socket) -> int:
    """The process at the other end, as this side numbers it."""
    data = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return int(_CREDENTIALS.unpack(data)[0])
