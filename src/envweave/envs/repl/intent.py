"""What the strings of a piece of code say about an answer: does it mean to print one?

A string counts if a line of it begins as an answer does, and if it is not for a language model: neither an argument of
`llm_query` and its kin, nor the value of a variable that becomes one.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

BEGINS = re.compile(r"^[ \t]*FINAL(?:_VAR)?\(", re.MULTILINE)

_ASKING = {"llm_query", "llm_query_batched", "llm_batch", "rlm_query", "rlm_query_batched"}
_LONGEST = 100_000
"""Characters of code that are looked at closely: a tree takes a hundred times the room."""
_NAME = "<code of the REPL>"

warnings.filterwarnings("ignore", module=_NAME)  # what is odd about it was said where it ran


@dataclass(frozen=True)
class Intent:
    """Of one piece of code."""

    meant: bool
    """One of its strings begins an answer."""
    literals: tuple[str, ...] = ()
    """Strings that it prints as they stand."""


def intent_of(code: str) -> Intent:
    """Code that cannot be looked at closely means what it has anywhere in it."""
    if "FINAL" not in code:
        return Intent(False)
    try:
        tree = _parsed(code) if len(code) <= _LONGEST else None
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # it has run, but there
        tree = None
    if tree is None:
        return Intent("FINAL(" in code or "FINAL_VAR(" in code)
    own = list(_outside_of_questions(tree))
    strings = (node.value for node in own if isinstance(node, ast.Constant) and isinstance(node.value, str))
    return Intent(any(BEGINS.search(text) for text in strings), tuple(_printed(own)))


def _parsed(code: str) -> ast.AST:
    flags = ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    tree: ast.AST = compile(code, _NAME, "exec", flags, dont_inherit=True)
    return tree


def _printed(nodes: Iterable[ast.AST]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.Call) and _name_of(node.func) in ("print", "write"):
            for given in node.args:
                if isinstance(given, ast.Constant) and isinstance(given.value, str):
                    yield given.value


def _outside_of_questions(tree: ast.AST) -> Iterator[ast.AST]:
    """All of the code but for what goes to a language model."""
    flows = {id(node): flow for node in ast.walk(tree) if (flow := _flow(node)) is not None}
    asked = _asked(tree, flows.values())
    todo = [tree]
    while todo:
        node = todo.pop()
        if _is_question(node):
            continue
        yield node
        targets, value = flows.get(id(node), ((), None))
        kept = ast.iter_child_nodes(node)
        todo.extend(each for each in kept if each is not value or not asked.intersection(targets))


def _asked(tree: ast.AST, flows: Iterable[tuple[tuple[str, ...], ast.AST]]) -> set[str]:
    """Names whose values reach a language model, by way of others too."""
    sources: defaultdict[str, set[str]] = defaultdict(set)
    for targets, value in flows:
        for target in targets:
            sources[target] |= _names_in(value)
    todo = [name for node in ast.walk(tree) if _is_question(node) for name in _names_in(node)]
    asked: set[str] = set()
    while todo:
        name = todo.pop()
        if name not in asked:
            asked.add(name)
            todo += sources[name]
    return asked


def _flow(node: ast.AST) -> tuple[tuple[str, ...], ast.AST] | None:
    """Where a node is one that gives names a value: the names, and the value."""
    match node:
        case ast.Assign(targets=targets, value=value):
            return tuple(name for target in targets for name in _names_in(target)), value
        case (
            ast.AugAssign(target=target, value=value)
            | ast.AnnAssign(target=target, value=ast.AST() as value)
            | ast.NamedExpr(target=target, value=value)
        ):
            return tuple(_names_in(target)), value
        case ast.For(target=target, iter=value) | ast.comprehension(target=target, iter=value):
            return tuple(_names_in(target)), value
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name)), args=[*_, value]):  # prompts.append(…)
            return (name,), value
    return None


def _is_question(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and _name_of(node.func) in _ASKING


def _name_of(function: ast.AST) -> str:
    return function.id if isinstance(function, ast.Name) else getattr(function, "attr", "")


def _names_in(tree: ast.AST) -> set[str]:
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
