"""The names of the protocol."""

from __future__ import annotations

SUBPROTOCOL = "envweave.v1"
"""A WebSocket that agrees on it speaks the extension; one that does not speaks OpenEnv's protocol."""

SESSION_HEADER = "x-envweave-session"
CALL_HEADER = "x-envweave-call"
"""Numbers a call over plain HTTP, and asks for the extended result."""

RESULT = "observation"
"""The reply to `reset`, `step` and `respond`."""
ERROR = "error"

BRANCHING = frozenset({"snapshot", "restore", "fork"})
"""Calls that need a server with `allow_branching`."""
CALLS = ("reset", "step", "respond", "state", "render", "tasks", "snapshot", "restore", "fork", "close")
"""What a client may ask of a session."""
