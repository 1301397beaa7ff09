"""What a docstring says of a function and of each of its parameters."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any, NamedTuple

_SECTION = re.compile(r"^(args|arguments|parameters)\s*:\s*$", re.IGNORECASE)
_ENTRY = re.compile(r"^\*{0,2}(\w+)\s*(?:\([^)]*\))?\s*:\s*(.*)$")
_FIELD = re.compile(r"^:param\s+(?:[^:]*\s)?\*{0,2}(\w+)\s*:\s*(.*)$")


class Docs(NamedTuple):
    """The text without the part about parameters, and that part by name."""

    text: str
    parameters: dict[str, str]


def read_docs(function: Callable[..., Any]) -> Docs:
    """The docstring, taken apart: a section `Args:` with an indented entry for each parameter, or `:param name:`."""
    lines = (inspect.getdoc(function) or "").splitlines()
    kept: list[str] = []
    found: dict[str, str] = {}
    number = 0
    while number < len(lines):
        field = _FIELD.match(lines[number])
        if _SECTION.match(lines[number]):
            number = _read_section(lines, number + 1, found)
        elif field:
            number = _read_field(lines, number, field, found)
        else:
            kept.append(lines[number])
            number += 1
    return Docs(re.sub(r"\n{3,}", "\n\n", "\n".join(kept)).strip(), found)


def _read_section(lines: list[str], number: int, found: dict[str, str]) -> int:
    """Read entries until the indentation ends; gives the line after them."""
    depth = None
    name = ""
    while number < len(lines):
        line = lines[number]
        indent = len(line) - len(line.lstrip())
        if line.strip() and indent == 0:
            break
        entry = _ENTRY.match(line.strip())
        if line.strip() and depth is None:
            depth = indent
        if entry and indent == depth:
            name = entry[1]
            found[name] = entry[2].strip()
        elif name and line.strip():
            found[name] = f"{found[name]} {line.strip()}".strip()
        number += 1
    return number


def _read_field(lines: list[str], number: int, field: re.Match[str], found: dict[str, str]) -> int:
    found[field[1]] = field[2].strip()
    number += 1
    while number < len(lines) and lines[number].startswith(" ") and lines[number].strip():
        found[field[1]] += f" {lines[number].strip()}"
        number += 1
    return number
