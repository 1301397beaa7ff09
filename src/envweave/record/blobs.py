"""Large values of a record, in files of their own: `blobs/<first two digits>/<SHA-256>`, once each.

A line has `{"$blob": "<SHA-256>", "bytes": n}` in place of such a value. The file holds the value as JSON.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from envweave.errors import RecordError
from envweave.record.encoding import decode, encode

LARGE = 64 * 1024
"""Bytes of JSON. A longer value is moved to a file."""

KEY = "$blob"
_DIGEST = re.compile(r"[0-9a-f]{64}")


class Blobs:
    """The large values of one record. Several processes may add to it."""

    def __init__(self, folder: Path, redact: Callable[[bytes], bytes] = bytes) -> None:
        self._folder = folder
        self._redact = redact

    def without_large(self, line: dict[str, Any]) -> dict[str, Any]:
        """A line whose large fields, or the large parts of them, are files now."""
        return {name: self._smaller(value) for name, value in line.items()}

    def _smaller(self, value: Any) -> Any:
        data = decode(encode(value))
        return self._moved(data) if len(encode(data)) > LARGE else data

    def _moved(self, data: Any) -> Any:
        """The innermost parts that are large by themselves are moved; if there is none, the whole."""
        if isinstance(data, dict):
            smaller: Any = {key: self._smaller(inner) for key, inner in data.items()}
        elif isinstance(data, list):
            smaller = [self._smaller(inner) for inner in data]
        else:
            return self._put(encode(data))
        return smaller if len(encode(smaller)) <= LARGE else self._put(encode(data))

    def _put(self, data: bytes) -> dict[str, Any]:
        data = self._redact(data)
        digest = hashlib.sha256(data).hexdigest()
        path = self._path(digest)
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            new = path.with_name(f"{digest}.{os.getpid()}.new")
            new.write_bytes(data)
            new.replace(path)
        return {KEY: digest, "bytes": len(data)}

    def get(self, digest: Any) -> Any:
        """Raises `RecordError` if the file is missing."""
        if not isinstance(digest, str) or not _DIGEST.fullmatch(digest):
            raise RecordError(f"{digest!r:.80} does not name a large value")
        try:
            return decode(self._path(digest).read_bytes())
        except OSError as error:
            raise RecordError(f"a large value of the record is missing: {error}") from None

    def resolved(self, data: Any) -> Any:
        """The data with large values in their places."""
        if isinstance(data, dict):
            if KEY in data and set(data) == {KEY, "bytes"}:
                return self.get(data[KEY])
            return {key: self.resolved(value) for key, value in data.items()}
        return [self.resolved(value) for value in data] if isinstance(data, list) else data

    def _path(self, digest: str) -> Path:
        return self._folder / digest[:2] / digest
