"""Why episodes ended, read from the replies that end them.

A reply in the extended form, and every error, holds an `episode_end` with the reason. OpenEnv's form has only `done`:
an episode that ends there counts as `terminated`, or as `truncated` if the observation's metadata say so.
"""

from __future__ import annotations

from typing import Any, get_args

from envweave.errors import ProtocolError
from envweave.requests import EndReason
from envweave.server.host import Reply
from envweave.wire.codec import decode
from envweave.wire.protocol import ERROR, RESULT

UNKNOWN = "unknown"
"""A reason that is not one of ours; it may come from a process that runs untrusted code."""

_REASONS = frozenset(get_args(EndReason))
_TELLING = frozenset({RESULT, ERROR, "closed"})
"""Types of replies whose `requests` are the framework's."""
_MARK = b'"episode_end"'


def end_reasons(call: str, episode: str | None, reply: Reply) -> list[str]:
    """The reasons of the episodes that a call ended. `episode` is the one that was under way before the call.

    Replies that end nothing are told apart without parsing them, except those that happen to contain "episode_end".
    """
    told = _told(reply.body) if reply.type in _TELLING and _MARK in reply.body else []
    if told or episode is None:
        return told
    if call == "close" or (call == "reset" and reply.type == RESULT):
        return ["closed"]
    if reply.type == RESULT and reply.episode != episode:
        return ["truncated" if _is_truncated(reply.body) else "terminated"]
    return []


def _told(body: bytes) -> list[str]:
    requests = _object(body).get("requests")
    ends = [each for each in requests if isinstance(each, dict)] if isinstance(requests, list) else []
    return [
        _known(end.get("reason"))
        for end in ends
        if end.get("kind") == "episode_end" and end.get("agent_id") is None  # else one agent left before the end
    ]


def _known(reason: Any) -> str:
    return reason if isinstance(reason, str) and reason in _REASONS else UNKNOWN


def _is_truncated(body: bytes) -> bool:
    metadata = _object(body).get("metadata")
    return isinstance(metadata, dict) and metadata.get("truncated") is True


def _object(body: bytes) -> dict[str, Any]:
    try:
        data = decode(body)
    except ProtocolError:
        return {}
    return data if isinstance(data, dict) else {}
