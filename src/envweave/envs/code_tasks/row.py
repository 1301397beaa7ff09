"""A task, read from its row and checked.

    prompt               what the agent is told
    function, tests      a function that the code must define, and hidden tests of it: [{"args": […], "expected": …}, …]
    answer               or the expected answer
    limits               limits of the sandbox, none of them wider than the environment's
    max_steps            how many runs of code the agent has
    max_seconds          how long all its runs may take together
    context              the text to work on, for the REPL

Other fields, such as a solution, are ignored. Errors name the task and the field and never show a value that may be an
answer.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from keyword import iskeyword
from math import isfinite
from typing import Any

from envweave.core.suggest import refuse_unknown
from envweave.core.task import Task
from envweave.errors import UsageError
from envweave.sandbox import Limits
from envweave.sandbox.guest.values import portray

_WRAPPED = 100
"""Bytes that a returned value takes beside itself."""


@dataclass(frozen=True)
class HiddenTest:
    """One call of the function. Only the arguments are sent into the sandbox."""

    arguments: str = field(repr=False)
    """A list, as JSON."""
    expected: Any = field(repr=False)


@dataclass(frozen=True, kw_only=True)
class CodeTask:
    """A task with either hidden tests or an expected answer."""

    id: str
    prompt: str
    function: str = ""
    tests: tuple[HiddenTest, ...] = field(default=(), repr=False)
    answer: Any = field(default=None, repr=False)
    limits: Limits | None = None
    """None if the task has no limits of its own."""
    max_steps: int | None = None
    max_seconds: float | None = None
    context: str = field(default="", repr=False)

    @classmethod
    def read(cls, row: Mapping[str, Any], limits: Limits) -> CodeTask:
        """`limits` are those of the environment. Raises `UsageError` for a row that cannot be played."""
        task = row if isinstance(row, Task) else Task(row)
        own = _limits(task, limits)
        has_tests, has_answer = (task.get(name) is not None for name in ("tests", "answer"))
        if has_tests == has_answer:
            problem = "both tests and an answer" if has_tests else "neither tests nor an answer"
            raise UsageError(f"the task {task.id!r:.200} has {problem}", "a task has one of the fields tests, answer")
        return cls(
            id=task.id,
            prompt=_text(task, "prompt"),
            function=_function(task) if has_tests else "",
            tests=_tests(task, (own or limits).return_bytes) if has_tests else (),
            answer=_answer(task) if has_answer else None,
            limits=own,
            max_steps=_positive(task, "max_steps", int),
            max_seconds=_positive(task, "max_seconds", (int, float)),
            context=_text(task, "context", required=False),
        )


def is_data(value: Any) -> bool:
    """Whether a value is JSON of exactly these types, so that it is the same after a way through JSON."""
    kind = type(value)
    if kind is list:
        return all(map(is_data, value))
    if kind is dict:
        return all(type(key) is str and is_data(inner) for key, inner in value.items())
    return value is None or kind in (bool, int, str) or (kind is float and isfinite(value))


def _wrong(task: Task, name: str, problem: str, hint: str) -> UsageError:
    return UsageError(f"the field {name!r} of the task {task.id!r:.200} {problem}", hint)


def _text(task: Task, name: str, *, required: bool = True) -> str:
    value = task.get(name)
    if value is None and not required:
        return ""
    if not isinstance(value, str) or (required and not value.strip()):
        raise _wrong(task, name, "is missing" if not value else f"is a {type(value).__name__}", "it must be text")
    return value


def _function(task: Task) -> str:
    name = _text(task, "function")
    if not name.isidentifier() or iskeyword(name):
        raise _wrong(task, "function", f"is {name!r:.80}", "it must be the name of a function")
    return name


def _tests(task: Task, most_bytes: int) -> tuple[HiddenTest, ...]:
    rows = task["tests"]
    if not isinstance(rows, Sequence) or isinstance(rows, str) or not rows:
        raise _wrong(task, "tests", "is not a list of tests", 'write [{"args": […], "expected": …}, …]')
    return tuple(_test(task, f"tests[{number}]", row, most_bytes) for number, row in enumerate(rows))


def _test(task: Task, where: str, row: Any, most_bytes: int) -> HiddenTest:
    if not isinstance(row, Mapping) or not {"args", "expected"} <= row.keys():
        raise _wrong(task, where, "is not a test", 'write {"args": […], "expected": …}')
    arguments, expected = row["args"], row["expected"]
    if type(arguments) is not list or not is_data(arguments):
        raise _wrong(task, f"{where}.args", "is not a list of JSON data", "tuples, sets and objects are no JSON data")
    if not is_data(expected):
        raise _wrong(task, f"{where}.expected", "is not JSON data", "tuples, sets and objects are no JSON data")
    if "data" not in portray(expected, most_bytes - _WRAPPED):
        raise _wrong(task, f"{where}.expected", "is too large or too deep to be returned", "raise limits.return_bytes")
    return HiddenTest(json.dumps(arguments), expected)


def _answer(task: Task) -> Any:
    answer = task["answer"]
    if not isinstance(answer, str | int | float | list | tuple | set | frozenset) or (
        isinstance(answer, str) and not answer.strip()
    ):
        raise _wrong(task, "answer", "is not an answer", "use text, a number, a truth value or a list of numbers")
    return answer


def _positive(task: Task, name: str, kind: Any) -> Any:
    value = task.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, kind) or not 0 < value < 1e9:
        raise _wrong(task, name, f"is {value!r:.80}", "it must be a positive number")
    return value


def _limits(task: Task, limits: Limits) -> Limits | None:
    given = task.get("limits")
    if given is None:
        return None
    if not isinstance(given, Mapping):
        raise _wrong(task, "limits", f"is a {type(given).__name__}", 'write {"wall": 5.0}')
    try:
        refuse_unknown(given, [each.name for each in fields(Limits)], "there is no limit", "limits")
        own = replace(limits, **given)
    except UsageError as error:
        raise _wrong(task, "limits", f"is wrong: {error.message}", error.hint) from None
    for name in given:
        value, bound = getattr(own, name), getattr(limits, name)
        if bound is not None and (value is None or value > bound):
            raise _wrong(
                task,
                f"limits.{name}",
                f"is {value}, and that of the environment is {bound}",
                "a task may only lower it",
            )
    return own
