"""What a docstring says about a function and each of its parameters."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any, NamedTuple

_SECTION = re.compile(r"^(args|arguments|parameters)\s*:\s*$", re.IGNORECASE)
_ENTRY = re.compile(r"^\*{0,2}(\w+)\s*(?:\([^)]*\))?\s*:\s*(.*)$")
_FIELD = re.compile(r"^:param\s+(?:[^:]*\s)?\*{0,2}(\w+)\s*:\s*(.*)$")


class Docs(NamedTuple):
    """The text without the descriptions of parameters, and these by name."""

    text: str
    parameters: dict[str, str]


def read_docs(function: Callable[..., Any]) -> Docs:
    """Parse a docstring: a section `Args:` with an indented entry per parameter, or lines `:param name: …`."""
    kept: list[str] = []
    found: dict[str, str] = {}
    name, in_section, entry_indent = "", False, -1
    for line in (inspect.getdoc(function) or "").splitlines():
        text, indent = line.strip(), len(line) - len(line.lstrip())
        if text and indent == 0:
            in_section = False
        if in_section:
            entry_indent = indent if text and entry_indent < 0 else entry_indent
            entry = _ENTRY.match(text) if indent == entry_indent else None
        else:
            entry = _FIELD.match(line)
        if entry:
            name = entry[1]
            found[name] = entry[2].strip()
        elif _SECTION.match(line):
            name, in_section, entry_indent = "", True, -1
        elif name and text and indent:
            found[name] = f"{found[name]} {text}".strip()
        elif not in_section:
            name = ""
            kept.append(line)
    return Docs(re.sub(r"\n{3,}", "\n\n", "\n".join(kept)).strip(), found)
