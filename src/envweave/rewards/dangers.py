"""Find dangerous patterns in a syntax tree.

    "import os"     the module or anything in it, however it is imported
    "eval"          the built-in, called or passed on; not a variable, a parameter or a method of that name
    "__globals__"   with two underscores at both ends: as a name, as an attribute, and as a text that is looked up

Not found: what is only put together while the code runs, and what is reached through a module that is not on the list.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Set
from typing import NamedTuple

from envweave.rewards.scopes import Scope, inside, opens_scope, outside

_LOOKUPS = frozenset({"getattr", "attrgetter", "methodcaller", "__getattribute__"})


class Danger(NamedTuple):
    """A pattern, and the line that it was found in."""

    line: int
    pattern: str

    def __str__(self) -> str:
        return f"{self.pattern} (line {self.line})"


def find_dangers(tree: ast.Module, patterns: Set[str]) -> list[Danger]:
    """All dangers, by line. Walks without recursion, however deep the tree is."""
    found: set[Danger] = set()
    waiting: list[tuple[ast.AST, Scope]] = [(tree, Scope(tree))]
    while waiting:
        node, scope = waiting.pop()
        for pattern in _patterns(node, scope, patterns):
            found.add(Danger(getattr(node, "lineno", 0), pattern))
        if opens_scope(node):
            waiting.extend((child, scope) for child in outside(node))
            scope = Scope(node, scope)
        waiting.extend((child, scope) for child in inside(node))
    return sorted(found)


def _patterns(node: ast.AST, scope: Scope, patterns: Set[str]) -> Iterator[str]:
    match node:
        case ast.Import(names=names):
            for alias in names:
                yield from _modules(alias.name, patterns)
        case ast.ImportFrom(module=str(module), names=names, level=0):
            for alias in names:
                yield from _modules(f"{module}.{alias.name}", patterns)
        case ast.Name(id=name, ctx=ast.Load(), lineno=line, col_offset=column) if name in patterns:
            if _is_special(name) or not scope.owns(name, (line, column)):
                yield name
        case ast.Attribute(attr=name):
            yield from _special(name, patterns)
        case ast.Subscript(slice=key):
            yield from _special(_text(key), patterns)
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), args=arguments) if name in _LOOKUPS:
            for argument in arguments:
                yield from _special(_text(argument), patterns)


def _modules(name: str, patterns: Set[str]) -> Iterator[str]:
    """`os.path` is `import os.path` and `import os`."""
    while name:
        if f"import {name}" in patterns:
            yield f"import {name}"
        name = name.rpartition(".")[0]


def _special(name: str, patterns: Set[str]) -> Iterator[str]:
    if _is_special(name) and name in patterns:
        yield name


def _is_special(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")


def _text(node: ast.AST) -> str:
    """The text that an expression of constants makes, such as `"__sub" + "classes__"`; "" if it makes none."""
    parts, waiting = [], [node]
    while waiting:
        match waiting.pop():
            case ast.Constant(value=str(part)):
                parts.append(part)
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                waiting += [right, left]
            case ast.JoinedStr(values=values):
                waiting += reversed(values)
            case _:
                return ""
    return "".join(parts)
