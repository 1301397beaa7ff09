"""Why a tool has given no result."""

from __future__ import annotations

from typing import Literal

from envweave.errors import EnvError

Kind = Literal["not_found", "invalid_arguments", "failed", "timeout", "server_gone", "bad_answer"]
"""Stable names: no such tool · the arguments do not fit · the tool itself failed · no answer in time · its server
died or cannot be reached · what the server answered has no meaning."""


class ToolError(EnvError):
    """A tool gave no result. The message begins with its name, behind that of its server where it has one.

    On the wire it is an `EnvError` with the same message.
    """

    def __init__(self, message: str, hint: str = "", *, kind: Kind = "failed") -> None:
        super().__init__(message, hint)
        self.kind: Kind = kind
