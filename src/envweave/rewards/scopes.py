"""Which names of a piece of code are its own: `open = 5` makes `open` a variable, and not the built-in.

An approximation by position: at the top of a module and of a class a name is its own once it was bound further up; in a
function, if it is bound anywhere in it or around it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TypeAlias

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_ASSIGNMENTS = (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.NamedExpr)

Position: TypeAlias = tuple[int, int]


class Scope:
    """The names that a module, class, function or comprehension binds, with where it first does so."""

    def __init__(self, node: ast.AST, parent: Scope | None = None) -> None:
        self.node = node
        self.parent = parent
        self.bound: dict[str, Position] = {}
        for name, position in _bindings(node):
            self.bound[name] = min(position, self.bound.get(name, position))

    def owns(self, name: str, position: Position) -> bool:
        """True if a name used here means something that the code itself has made."""
        scope: Scope | None = self
        in_order = True
        while scope is not None:
            found = scope.bound.get(name)
            in_function = not isinstance(scope.node, ast.Module | ast.ClassDef)
            seen = not isinstance(scope.node, ast.ClassDef) or scope is self  # methods do not see their class's names
            if found is not None and seen and (in_function or not in_order or found <= position):
                return True
            in_order = in_order and not in_function
            scope = scope.parent
        return False


def inside(node: ast.AST) -> list[ast.AST]:
    """The children of a node that live in the scope it opens; all of its children if it opens none."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return list(node.body)
    if isinstance(node, ast.Lambda):
        return [node.body]
    return list(ast.iter_child_nodes(node))


def outside(node: ast.AST) -> list[ast.AST]:
    """The children of a node that opens a scope that live around it: decorators, defaults, bases."""
    within = {id(child) for child in inside(node)}
    return [child for child in ast.iter_child_nodes(node) if id(child) not in within]


def opens_scope(node: ast.AST) -> bool:
    return isinstance(node, (*FUNCTIONS, *COMPREHENSIONS, ast.ClassDef))


def _bindings(scope: ast.AST) -> Iterator[tuple[str, Position]]:
    if isinstance(scope, FUNCTIONS):
        arguments = scope.args
        every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
        yield from ((each.arg, (0, 0)) for each in every if each is not None)
    waiting: list[tuple[ast.AST, ast.AST | None]] = [(child, None) for child in inside(scope)]
    elsewhere: set[str] = set()
    found: list[tuple[str, Position]] = []
    while waiting:
        node, statement = waiting.pop()
        if isinstance(node, ast.Global | ast.Nonlocal):
            elsewhere.update(node.names)
        found.extend((name, _end(statement or node)) for name in _names(node))
        if opens_scope(node):
            waiting.extend((child, statement) for child in outside(node))
        else:
            around = node if isinstance(node, _ASSIGNMENTS) else statement
            waiting.extend((child, around) for child in ast.iter_child_nodes(node))
    yield from ((name, position) for name, position in found if name not in elsewhere)


def _names(node: ast.AST) -> list[str]:
    """What this node binds."""
    match node:
        case ast.Name(id=name, ctx=ast.Store()):
            return [name]
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return [name]
        case ast.alias(name=name, asname=other):
            return [other or name.partition(".")[0]]
        case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
            return [name]
        case ast.MatchMapping(rest=str(name)):
            return [name]
    return []


def _end(node: ast.AST) -> Position:
    """Where a binding is done. A handler binds before its body, so it counts from its beginning."""
    if isinstance(node, ast.ExceptHandler):
        return node.lineno, node.col_offset
    return getattr(node, "end_lineno", 0) or 0, getattr(node, "end_col_offset", 0) or 0
