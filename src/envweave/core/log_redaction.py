"""Hide secrets in what other packages log."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

_FORMATTER = logging.Formatter()


class RedactingFilter(logging.Filter):
    """Rewrites the messages and tracebacks of log records."""

    def __init__(self, redact: Callable[[str], str]) -> None:
        super().__init__()
        self.redact = redact

    def filter(self, record: logging.LogRecord) -> bool:
        record.msg, record.args = self.redact(record.getMessage()), ()
        if record.exc_info:
            record.exc_text = self.redact(_FORMATTER.formatException(record.exc_info))
            record.exc_info = None
        return True


def redact_logs(loggers: Iterable[str], redact: Callable[[str], str]) -> None:
    """Apply `redact` to everything these loggers log. Repeated calls with the same function have no effect."""
    for logger in map(logging.getLogger, loggers):
        if not any(isinstance(one, RedactingFilter) and one.redact == redact for one in logger.filters):
            logger.addFilter(RedactingFilter(redact))
