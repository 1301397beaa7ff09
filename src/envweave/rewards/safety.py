"""Find dangerous patterns in a syntax tree.

    "import os"     the module or anything in it, however it is imported
    "eval"          the built-in, called or passed on; not a variable, a parameter or a method of that name
    "__globals__"   with two underscores at both ends: as a name, as an attribute, and as a string that is looked up

Not found: names that are put together while the code runs, and what is reached through a module that is not listed. A
name is the code's own in a function that binds it, and elsewhere once a statement above has bound it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Set
from typing import NamedTuple

_LOOKUPS = frozenset({"getattr", "attrgetter", "methodcaller", "__getattribute__"})
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_SCOPES = (*_FUNCTIONS, ast.ClassDef, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_ASSIGNMENTS = (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.NamedExpr)
_DEEPEST = 20
"""Parts of a dotted name that are compared."""


class Danger(NamedTuple):
    """A pattern, and the line that it was found in."""

    line: int
    pattern: str

    def __str__(self) -> str:
        return f"{self.pattern} (line {self.line})"


def find_dangers(tree: ast.Module, patterns: Set[str]) -> list[Danger]:
    """All dangers, by line. Takes time in proportion to the tree, and does not recurse."""
    found: set[Danger] = set()
    scopes: list[tuple[ast.AST, Set[str]]] = [(tree, frozenset())]
    for scope, around in scopes:  # grows while it is walked: what a scope contains comes after it
        own = set(around)
        if not isinstance(scope, ast.Module | ast.ClassDef):
            own |= _local_names(scope) & patterns
        for node in _walk(scope):
            named = patterns & set(_named(node, own))
            found.update(Danger(getattr(node, "lineno", 0), pattern) for pattern in named)
            own |= set() if isinstance(node, ast.arg) else _bound(node) & patterns
            if isinstance(node, _SCOPES):
                scopes.append((node, around if isinstance(scope, ast.ClassDef) else own))
    return sorted(found)


def _walk(scope: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a scope in the order in which they run; of scopes within it, what runs around them."""
    waiting = [child for child in _children(scope) if _is_inside(child, scope)]
    while waiting:
        node = waiting.pop()
        yield node
        within = isinstance(node, _SCOPES)
        waiting += [child for child in _children(node) if not within or not _is_inside(child, node)]


def _children(node: ast.AST) -> list[ast.AST]:
    """In reverse, for a stack; the value of an assignment runs before its targets."""
    children = list(ast.iter_child_nodes(node))[::-1]
    if isinstance(node, _ASSIGNMENTS):
        children.sort(key=lambda child: not isinstance(getattr(child, "ctx", None), ast.Store))
    return children


def _is_inside(child: ast.AST, scope: ast.AST) -> bool:
    """Whether a child belongs to the new scope. Decorators, defaults and bases run around it."""
    if isinstance(scope, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return isinstance(child, ast.stmt)
    return not isinstance(scope, ast.Lambda) or child is scope.body


def _local_names(scope: ast.AST) -> set[str]:
    nodes = [*_walk(scope), *(ast.walk(scope.args) if isinstance(scope, _FUNCTIONS) else ())]
    elsewhere = {name for node in nodes if isinstance(node, ast.Global | ast.Nonlocal) for name in node.names}
    return {name for node in nodes for name in _bound(node)} - elsewhere


def _bound(node: ast.AST) -> set[str]:
    """The names that this node binds."""
    match node:
        case (
            ast.Name(id=str(name), ctx=ast.Store())
            | ast.arg(arg=str(name))
            | ast.FunctionDef(name=str(name))
            | ast.AsyncFunctionDef(name=str(name))
            | ast.ClassDef(name=str(name))
            | ast.alias(asname=str(name))
            | ast.ExceptHandler(name=str(name))
            | ast.MatchAs(name=str(name))
            | ast.MatchStar(name=str(name))
            | ast.MatchMapping(rest=str(name))
        ):
            return {name}
        case ast.alias(name=name):
            return {name.partition(".")[0]}
    return set()


def _named(node: ast.AST, own: Set[str]) -> Iterable[str]:
    """The patterns that a node matches, where `own` are names of the code itself."""
    match node:
        case ast.Import(names=names):
            return [pattern for alias in names for pattern in _imports(alias.name)]
        case ast.ImportFrom(module=str(module), names=names, level=0):
            return [pattern for alias in names for pattern in _imports(f"{module}.{alias.name}")]
        case ast.Name(id=name, ctx=ast.Load()) if _is_special(name) or name not in own:
            return [name]
        case ast.Attribute(attr=name) | ast.Subscript(slice=ast.Constant(value=str(name))) if _is_special(name):
            return [name]
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), args=arguments) if name in _LOOKUPS:
            texts = [argument.value for argument in arguments if isinstance(argument, ast.Constant)]
            return [text for text in texts if isinstance(text, str) and _is_special(text)]
    return ()


def _imports(name: str) -> list[str]:
    """`os.path` is `import os.path` and `import os`."""
    parts = name.split(".")[:_DEEPEST]
    return [f"import {'.'.join(parts[:count])}" for count in range(1, len(parts) + 1)]


def _is_special(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")
