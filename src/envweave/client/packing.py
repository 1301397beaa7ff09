"""What a caller passes, as the JSON that is sent."""

from __future__ import annotations

from typing import Any

from envweave.core.jsonable import to_json
from envweave.errors import NotJSONableError, UsageError
from envweave.wire.codec import encode


def packed(value: Any, where: str, refusal: type[UsageError] = UsageError) -> bytes:
    """The value as JSON. What cannot cross is the caller's mistake, so it is a `UsageError`."""
    try:
        return encode(to_json(value, where=where))
    except NotJSONableError as error:
        raise refusal(f"cannot be sent: {error.message}", error.hint) from None
