"""The error of a tool that gave no result."""

from __future__ import annotations

from typing import Literal

from envweave.errors import EnvError

Kind = Literal["not_found", "invalid_arguments", "failed", "timeout", "server_gone", "bad_answer"]
"""No such tool · wrong arguments · the tool failed · no answer in time · the server ended or cannot be reached · the
answer of the server is not valid."""


class ToolError(EnvError):
    """A tool gave no result. The message begins with its name, after that of its MCP server if it has one.

    On the wire it is an `EnvError` with the same message.
    """

    def __init__(self, message: str, hint: str = "", *, kind: Kind = "failed") -> None:
        super().__init__(message, hint)
        self.kind: Kind = kind
