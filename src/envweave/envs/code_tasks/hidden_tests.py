"""Run hidden tests of a function that an agent's code has defined.

Covered: (behind each line the test in tests/security/test_code_tasks.py that shows it)

    what is expected               no_expected_value_and_no_later_argument_is_in_the_memory_of_the_code
    results that are printed       code_that_cheats_earns_nothing[prints]
    values that equal everything   code_that_cheats_earns_nothing[equals-everything]
    changed builtins and modules   code_that_cheats_earns_nothing[patches-…]
    functions that do not return   code_that_cheats_earns_nothing[exits], [kills], [sleeps]
    what a test prints             what_a_hidden_test_prints_is_not_shown

The interpreter of the agent runs the tests, one at a time, and knows nothing but the arguments of the tests that it was
given so far. What it returns is data, whoever made it, and is compared here. So code that controls the interpreter can
return any value, but it has to find the right one.

Not covered: a task whose arguments give its answers away; code that recognizes a task and knows its answers.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from envweave.envs.code_tasks.row import CodeTask, HiddenTest
from envweave.sandbox import Session

TEST_SECONDS = 10.0
"""For one test; less if the limit `wall` is lower."""
ALL_SECONDS = 60.0
"""For all tests of a submission."""

_INSIDE = Path(__file__).with_name("inside.py").read_text(encoding="utf-8")


def count_passed(session: Session, task: CodeTask, wall: float | None) -> int:
    """How many tests are passed before the first one that fails, which ends the grading."""
    until = time.monotonic() + ALL_SECONDS
    longest = TEST_SECONDS if wall is None else min(wall, TEST_SECONDS)
    for number, test in enumerate(task.tests):
        left = until - time.monotonic()
        if left <= 0 or not _passes(session, task.function, test, min(longest, left)):
            return number
    return len(task.tests)


def _passes(session: Session, function: str, test: HiddenTest, seconds: float) -> bool:
    prepared = f"(lambda own: (__import__('builtins').exec({_INSIDE!r}, own), own['call'])[1])({{}})"
    result = session.run(f"{prepared}({function}, {test.arguments!r})", timeout=seconds)
    returned = result.success and result.state == "kept" and result.return_is_data
    return returned and same(result.return_value, ["returned", test.expected])


def same(left: Any, right: Any) -> bool:
    """Equality of JSON data, in which True is not 1 and 1 is not 1.0."""
    if type(left) is not type(right):
        return False
    if isinstance(left, list):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    return bool(left == right)
