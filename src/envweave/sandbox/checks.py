"""What a caller may hand in."""

from __future__ import annotations

import keyword
from typing import Any

from envweave.errors import UsageError
from envweave.sandbox.calls import Tools


def check_name(name: str) -> str:
    if not isinstance(name, str) or not name.isidentifier() or keyword.iskeyword(name):
        raise UsageError(f"{name!r} is not a name of a variable")
    return name


def contents(path: str, data: Any) -> bytes:
    """What is to be in a file, as bytes."""
    if isinstance(data, str):
        return data.encode()
    if not isinstance(data, bytes | bytearray | memoryview):
        raise UsageError(f"the contents of {str(path)!r} are a {type(data).__name__}", "they are bytes or text")
    return bytes(data)


def check_tools(tools: Tools) -> None:
    """Names that code can call, and things that can be called."""
    for name, tool in tools.items():
        if not callable(tool):
            raise UsageError(f"the tool {check_name(name)!r} cannot be called: it is a {type(tool).__name__}")
        check_name(name)
