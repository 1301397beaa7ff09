"""Connect a WebSocket and hand on what it receives at once. Only this module and `openenv` use the websockets package.

The usual way, a task that awaits `recv` and wakes another one, costs two turns of the event loop for each reply.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import ssl
from collections.abc import Callable
from random import Random
from typing import Any, NoReturn, TypeAlias

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidStatus, WebSocketException
from websockets.frames import DATA_OPCODES, Frame
from websockets.protocol import State
from websockets.typing import Subprotocol

from envweave.client.endpoint import ServerEndpoint
from envweave.errors import EnvWeaveError, TransportError, UnauthorizedError, describe
from envweave.wire.protocol import SUBPROTOCOL

FIRST_PAUSE, LONGEST_PAUSE = 0.05, 2.0
"""Seconds between two attempts: doubled each time, then shortened by up to half at random."""

_RANDOM = Random()  # the module's own generator may be seeded by the program, which expects its own numbers of it

CLOSE_TIMEOUT = 2.0
"""Seconds a peer has to agree to the end of a connection."""

_LOGGER = logging.getLogger("envweave.client.websocket")
_LOGGER.setLevel(logging.INFO)
"""At DEBUG the package would log headers and frames, which contain tokens."""

Listener: TypeAlias = Callable[[bytes], None]


class WebSocket(ClientConnection):
    """A connection whose messages go to a function after `listen`, instead of to `recv`."""

    _listener: Listener | None = None

    def listen(self, listener: Listener) -> None:
        """Give each further message to `listener`, which must not raise."""
        self._listener = listener
        self._parts: list[bytes] = []

    def process_event(self, event: Any) -> None:
        """Called by the package for each frame as it arrives."""
        if self._listener is None or not isinstance(event, Frame) or event.opcode not in DATA_OPCODES:
            super().process_event(event)
            return
        data = event.data if isinstance(event.data, bytes) else bytes(event.data)
        if not event.fin or self._parts:
            self._parts.append(data)
            if not event.fin:
                return
            data, self._parts = b"".join(self._parts), []
        self._listener(data)

    def write(self, data: bytes) -> None:
        """Send a text message without waiting; nothing is sent on a connection that is closing.

        There is no back pressure: each session has one call at a time, so little can pile up.
        """
        if self.protocol.state is State.OPEN:
            self.protocol.send_text(data)
            self.send_data()

    async def ended(self) -> tuple[frozenset[int], str]:
        """Wait for the end of the connection; returns the close codes of both sides and the reason."""
        await self.wait_closed()
        end = self.protocol.close_exc
        closes = [close for close in (end.rcvd, end.sent) if close is not None]
        return frozenset(int(close.code) for close in closes), next((c.reason for c in closes if c.reason), "")


async def open_websocket(endpoint: ServerEndpoint, *, extended: bool = True, first: bool = False) -> WebSocket:
    """A connection to the server; its `subprotocol` is None if that is an OpenEnv server.

    Failures that may pass are retried for `connect_timeout_s`, or for `endpoint.refused_timeout_s` if it is refused
    and this is the `first` connection. Raises `UnauthorizedError`, else `TransportError`, or `ProviderError` if
    the server was started for us and is gone.
    """
    loop = asyncio.get_running_loop()
    began = loop.time()
    end = began + endpoint.connect_timeout_s
    attempt = 0
    while True:
        try:
            return await _connect(endpoint, extended, max(end - loop.time(), FIRST_PAUSE))
        except InvalidStatus as error:
            status = error.response.status_code
            if status < 500:  # else the server is starting, or a proxy in front of it cannot reach it
                raise _refused(endpoint, status) from None
            reason = f"it answers with HTTP {status}"
        except ssl.SSLCertVerificationError as error:
            raise TransportError(f"cannot trust {endpoint.address.ws}: {error.verify_message}") from error
        except (OSError, WebSocketException, EOFError) as error:
            reason = describe(error)
            if first and _is_refusal(error):
                end = min(end, began + endpoint.refused_timeout_s)
        unknown = await endpoint.check_alive()
        reason = f"{reason}; {unknown}" if unknown else reason
        pause = pause_before(attempt)
        attempt += 1
        if loop.time() + pause >= end:
            _unreachable(endpoint, reason)
        await asyncio.sleep(pause)


def _is_refusal(error: BaseException) -> bool:
    """Whether the connection was refused; a name with several addresses raises one `OSError` for all of them."""
    return isinstance(error, ConnectionRefusedError) or f"[Errno {errno.ECONNREFUSED}]" in str(error)


def pause_before(attempt: int) -> float:
    """Seconds to wait before an attempt; the first is number 0."""
    return min(FIRST_PAUSE * 2.0 ** min(attempt, 16), LONGEST_PAUSE) * _RANDOM.uniform(0.5, 1.0)


async def _connect(endpoint: ServerEndpoint, extended: bool, timeout: float) -> WebSocket:
    unix: dict[str, Any] = {"unix": True, "path": endpoint.address.socket} if endpoint.address.socket else {}
    return await connect(  # type: ignore[return-value]
        endpoint.address.ws,
        **unix,
        subprotocols=[Subprotocol(SUBPROTOCOL)] if extended else None,
        additional_headers=endpoint.all_headers,
        compression=None,
        max_size=endpoint.max_message_bytes,
        ping_interval=endpoint.ping_interval_s,
        ping_timeout=endpoint.ping_timeout_s,
        open_timeout=timeout,
        close_timeout=CLOSE_TIMEOUT,
        create_connection=WebSocket,
        logger=_LOGGER,
    )


def _refused(endpoint: ServerEndpoint, status: int) -> EnvWeaveError:
    url = endpoint.address.ws
    if status in (401, 403):
        hint = "pass token=…, or set ENVWEAVE_TOKEN; is this the address of an environment server?"
        return UnauthorizedError(f"{url} refuses the connection (HTTP {status})", hint)
    if status == 404:
        return TransportError(f"no environment server at {url}", "check the path of the address")
    return TransportError(f"{url} refuses the connection (HTTP {status})")


def _unreachable(endpoint: ServerEndpoint, reason: str) -> NoReturn:
    port = endpoint.address.name.rpartition(":")[2]
    hint = f"is the server running? envweave serve <id> --port {port if port.isdigit() else '…'}; "
    raise TransportError(f"cannot reach {endpoint.address.http}: {reason}", hint + "check host, port and firewall")
