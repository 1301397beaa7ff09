"""What clients send, read and checked."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

from envweave.chat import Chat
from envweave.errors import ProtocolError, UsageError
from envweave.server.session import Opening
from envweave.wire.codec import decode

LONGEST_ID = 200
"""Characters of the name that a client gives its environment."""


class Disconnected(Exception):  # noqa: N818  (no error: everybody leaves some time)
    """The other side is gone."""

    def __init__(self, code: int | None) -> None:
        super().__init__(code)
        self.for_good = code == 1000
        """It said goodbye; a connection that broke may come back."""


def read_frame(message: MutableMapping[str, Any], most: int) -> Any:
    """The data of a frame. Raises `ProtocolError`, or `Disconnected`."""
    return decode(read_text(message, most))


def read_text(message: MutableMapping[str, Any], most: int) -> str:
    """The text of a frame. Raises `ProtocolError`, or `Disconnected`."""
    if message["type"] == "websocket.disconnect":
        raise Disconnected(message.get("code"))
    text = message.get("text")
    if text is None:
        raise ProtocolError("a binary frame", "send JSON as text")
    if len(text) > most:
        raise ProtocolError(f"a message of {len(text)} characters, the limit is {most}")
    return text  # type: ignore[no-any-return]


def quick_step(text: bytes | None) -> dict[str, Any] | None:
    """The message, if it is a step as most of them are; whatever else it may be is None."""
    if text is None:  # several frames, a part of one, a control frame
        return None
    try:
        frame = decode(text)
    except ProtocolError:
        return None
    return frame if isinstance(frame, dict) and frame.get("type") == "step" else None


def read_opening(data: Any, default_id: str) -> Opening:
    """What a client chose for its session. Raises `ProtocolError`, naming the field."""
    if data is None:
        data = {}
    if not isinstance(data, dict):
        raise ProtocolError(f"`data` of open is a {type(data).__name__}, not an object")
    env_id = _field(data, "env_id", str, "text") or default_id
    if len(env_id) > LONGEST_ID:
        raise ProtocolError(f"env_id has {len(env_id)} characters", f"use no more than {LONGEST_ID}")
    return Opening(
        env_id=env_id,
        autoreset=_field(data, "autoreset", bool, "true or false") or False,
        chat=_chat(data.get("chat")),
        deadline=_positive(_field(data, "deadline", (int, float), "a number"), "deadline"),
        max_episode_steps=_positive(_whole(data, "max_episode_steps"), "max_episode_steps"),
        arguments=_field(data, "arguments", dict, "an object") or {},
    )


def _field(data: dict[str, Any], name: str, kinds: Any, wanted: str) -> Any:
    value = data.get(name)
    if value is None or (isinstance(value, kinds) and not (isinstance(value, bool) and kinds is not bool)):
        return value
    raise ProtocolError(f"{name} is {value!r:.80}", f"use {wanted}")


def _chat(given: Any) -> Chat | None:
    try:
        return Chat.of(given)
    except UsageError as error:
        raise ProtocolError(error.message, error.hint) from None


def _whole(data: dict[str, Any], name: str) -> Any:
    """3.0 is a whole number in JSON."""
    value = data.get(name)
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return _field(data, name, int, "a whole number")


def _positive(value: Any, name: str) -> Any:
    if value is not None and not 0 < value < 2**53:
        raise ProtocolError(f"{name} is {value!r:.80}", "use a positive number")
    return value
