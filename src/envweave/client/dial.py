"""Connect a WebSocket. With `socket` and `openenv`, the door to the websockets package."""

from __future__ import annotations

import asyncio
import logging
import random
import ssl
from typing import Any, NoReturn

from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus, WebSocketException
from websockets.typing import Subprotocol

from envweave.client.settings import Settings
from envweave.client.socket import Socket
from envweave.errors import EnvWeaveError, TransportError, UnauthorizedError, describe
from envweave.wire.protocol import SUBPROTOCOL

FIRST_PAUSE, LONGEST_PAUSE = 0.05, 2.0
"""Seconds between two attempts: twice as long each time, by chance up to half of it shorter."""

_QUIET = logging.getLogger("envweave.client.socket")
_QUIET.setLevel(logging.INFO)
"""The package would log the headers and both ends of each frame at DEBUG, and there are tokens in them."""

CLOSE_TIMEOUT = 2.0
"""Seconds a peer has to agree to the end of a connection."""


async def dial(settings: Settings, *, extended: bool = True) -> Socket:
    """A connection to the server; its `subprotocol` is None if that is an OpenEnv server.

    What may pass is tried again for `connect_timeout_s`. Raises `UnauthorizedError`, else `TransportError`, or
    `ProviderError` if the server was started for us and is gone.
    """
    loop = asyncio.get_running_loop()
    end = loop.time() + settings.connect_timeout_s
    attempt = 0
    while True:
        try:
            return await _connect(settings, extended, max(end - loop.time(), FIRST_PAUSE))
        except InvalidStatus as error:
            status = error.response.status_code
            if status < 500:  # of a server that starts, or of a proxy before it
                raise _refused(settings, status) from None
            reason = f"it answers with HTTP {status}"
        except ssl.SSLCertVerificationError as error:
            raise TransportError(f"cannot trust {settings.address.ws}: {error.verify_message}") from error
        except (OSError, WebSocketException, EOFError) as error:
            reason = describe(error)
        away = await settings.look()
        reason = f"{reason}; {away}" if away else reason
        pause = pause_before(attempt)
        attempt += 1
        if loop.time() + pause >= end:
            _unreachable(settings, reason)
        await asyncio.sleep(pause)


def pause_before(attempt: int) -> float:
    return min(FIRST_PAUSE * 2.0 ** min(attempt, 16), LONGEST_PAUSE) * random.uniform(0.5, 1.0)


async def _connect(settings: Settings, extended: bool, timeout: float) -> Socket:
    way: dict[str, Any] = {"unix": True, "path": settings.address.socket} if settings.address.socket else {}
    return await connect(  # type: ignore[return-value]
        settings.address.ws,
        **way,
        subprotocols=[Subprotocol(SUBPROTOCOL)] if extended else None,
        additional_headers=settings.all_headers,
        compression=None,
        max_size=settings.max_message_bytes,
        ping_interval=settings.ping_interval_s,
        ping_timeout=settings.ping_timeout_s,
        open_timeout=timeout,
        close_timeout=CLOSE_TIMEOUT,
        create_connection=Socket,
        logger=_QUIET,
    )


def _refused(settings: Settings, status: int) -> EnvWeaveError:
    url = settings.address.ws
    if status in (401, 403):
        hint = "pass token=…, or set ENVWEAVE_TOKEN; is this the address of an environment server?"
        return UnauthorizedError(f"{url} refuses the connection (HTTP {status})", hint)
    if status == 404:
        return TransportError(f"no environment server at {url}", "check the path of the address")
    return TransportError(f"{url} refuses the connection (HTTP {status})")


def _unreachable(settings: Settings, reason: str) -> NoReturn:
    port = settings.address.name.rpartition(":")[2]
    hint = f"is the server running? envweave serve <id> --port {port if port.isdigit() else '…'}; "
    raise TransportError(f"cannot reach {settings.address.http}: {reason}", hint + "check host, port and firewall")
