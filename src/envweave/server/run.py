"""The process that listens: uvicorn, set up for many small messages.

Measured with a bare echo of one message over 1, 64 and 256 connections: uvicorn with its sans-I/O WebSocket beats
wsproto twofold; granian is as fast with many connections and less than half as fast with one. A
server on raw frames (picows) would halve the cost of a frame once more, but has no HTTP beside it; quick steps take
the short way of `express` instead. Compression of frames is off: it costs about 40 KiB a connection.
"""

from __future__ import annotations

import asyncio
import logging
import os
import resource
import socket
import sys
from collections.abc import Callable
from contextlib import closing, suppress
from typing import Any

import uvicorn

from envweave.errors import ProviderError
from envweave.server.lending import LendingConnection
from envweave.server.settings import Settings
from envweave.server.sockets import LendingSocket

log = logging.getLogger(__name__)


def serve(
    app: Any, settings: Settings, host: str, port: int, ready: Callable[[str], None], path: str | None = None
) -> None:
    """Listen until the process is told to stop, at `path` too, if that can be. `ready` gets the URL as soon as clients
    can connect.
    """
    _allow_many_files()
    with closing(_bound(host, port)) as listener:
        shown = f"[{host}]" if ":" in host else host
        ready(f"http://{shown}:{listener.getsockname()[1]}")
        Server(_config(app, settings), path).run(sockets=[listener])


class Server(uvicorn.Server):
    """Listens on the sockets that it is given, and at a path."""

    def __init__(self, config: uvicorn.Config, path: str | None) -> None:
        super().__init__(config)
        self._path = path
        self._listens = False

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self._path is None or self.should_exit:
            return
        try:
            server = await asyncio.get_running_loop().create_unix_server(self._connection, self._path)
            os.chmod(self._path, 0o666)  # noqa: S103  (who may come here is for the folder to say)
        except OSError as error:  # the other sockets are there
            log.warning("cannot listen at %s: %s", self._path, error)
        else:
            self.servers.append(server)
            self._listens = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await super().shutdown(sockets)
        if self._listens:
            with suppress(OSError):
                os.unlink(self._path or "")

    def _connection(self) -> Any:
        protocol: Any = self.config.http_protocol_class
        return protocol(config=self.config, server_state=self.server_state, app_state=self.lifespan.state)


def _config(app: Any, settings: Settings) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        loop="uvloop" if sys.platform != "win32" else "asyncio",
        http=LendingConnection,
        ws=LendingSocket,
        ws_max_size=settings.max_frame_bytes,
        ws_per_message_deflate=False,
        ws_ping_interval=settings.ping_interval,
        ws_ping_timeout=settings.ping_interval,
        backlog=4096,
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        lifespan="on",
        timeout_graceful_shutdown=1,
    )


def _bound(host: str, port: int) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, protocol)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(4096)
    except OSError as error:
        hint = "choose another port, or --port 0 for a free one"
        raise ProviderError(f"cannot listen on {host}:{port}: {error}", hint) from None
    return listener


def _allow_many_files() -> None:
    """Each connection is an open file; take as many as the system gives."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):  # not every system lets us
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
