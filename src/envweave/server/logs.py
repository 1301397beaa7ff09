"""Log lines for people, or one JSON object a line for machines."""

from __future__ import annotations

import json
import logging
import os
import sys
import time
from typing import Any

_STANDARD = frozenset(vars(logging.makeLogRecord({})))


class Lines(logging.Formatter):
    """`12:00:00 info  session ended  session=ab12 why=idle`"""

    def format(self, record: logging.LogRecord) -> str:
        own = "".join(f" {key}={_one_word(value)}" for key, value in _own(record).items())
        line = f"{self.formatTime(record, '%H:%M:%S')} {record.levelname.lower():7} {record.getMessage()}{own}"
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


class JSONLines(logging.Formatter):
    """`{"time": …, "level": …, "logger": …, "message": …}` and whatever else the line has to say."""

    def format(self, record: logging.LogRecord) -> str:
        utc = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        data = {
            "time": f"{utc}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **_own(record),
        }
        if record.exc_info:
            data["exception"] = self.formatException(record.exc_info)
        return json.dumps(data, default=str)


def _one_word(value: Any) -> str:
    """Clients name their environments: what they write must not look like lines of ours."""
    text = str(value)
    return text if text.isprintable() and " " not in text else repr(text)


def _own(record: logging.LogRecord) -> dict[str, Any]:
    return {key: value for key, value in vars(record).items() if key not in _STANDARD and key not in _NOT_OURS}


_NOT_OURS = {"message", "asctime", "color_message", "websocket", "taskName"}


class HideFrames(logging.Filter):
    """Drops what the websockets package logs at debug level: headers and frames, which hold tokens and session ids."""

    def filter(self, record: logging.LogRecord) -> bool:
        return record.levelno > logging.DEBUG or f"{os.sep}websockets{os.sep}" not in record.pathname


_HIDE_FRAMES = HideFrames()


def hide_frames() -> None:
    """Keep tokens out of the log of a uvicorn that somebody else runs, at any level. A second call is harmless."""
    logging.getLogger("uvicorn.error").addFilter(_HIDE_FRAMES)


def configure(level: str, *, as_json: bool) -> None:
    """Send what the server and its web server say to stderr.

    Of uvicorn only warnings, at any level: it would write down the token, and session ids, which are keys too.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JSONLines() if as_json else Lines())
    uvicorn = logging.getLogger("uvicorn")
    for logger in (logging.getLogger("envweave"), uvicorn):
        logger.handlers = [handler]
        logger.setLevel(level.upper())
        logger.propagate = False
    if uvicorn.level < logging.WARNING:
        uvicorn.setLevel(logging.WARNING)
