"""What other packages log about a server, without its secrets.

Covered: log lines and tracebacks of the HTTP library and of the `mcp` package's HTTP client, at all levels, as far as
`Server.censored` knows a secret. Not covered: what handlers of others do with a request that is not logged.
"""

from __future__ import annotations

import logging
from contextvars import ContextVar

from envweave.tools.mcp.servers import Server

LOGGERS = (
    "httpx2",
    *(f"httpcore2.{part}" for part in ("connection", "http11", "http2", "proxy", "socks")),
    "mcp.client.streamable_http",
)

IN_USE: ContextVar[Server | None] = ContextVar("envweave_mcp_server_in_use", default=None)
"""The server that is being talked to here."""


class _HidingFilter(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        if server := IN_USE.get():
            record.msg, record.args = server.censored(record.getMessage()), ()
            if record.exc_info:
                record.exc_text = server.censored(_FORMATTER.formatException(record.exc_info))
                record.exc_info = None
        return True


_FORMATTER = logging.Formatter()


def guard_logs() -> None:
    """Hide the secrets of a server in what is logged about it. Once is enough, more does no harm."""
    for name in LOGGERS:
        logger = logging.getLogger(name)
        if not any(isinstance(one, _HidingFilter) for one in logger.filters):
            logger.addFilter(_HidingFilter())
