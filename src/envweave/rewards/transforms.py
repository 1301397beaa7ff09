"""The transforms and factories of EnvTorch's CodeAct, on the reward system of `rubric`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from envweave.core.parse_code import UnreadableError
from envweave.errors import UsageError
from envweave.rewards.grader import Expected, Grade
from envweave.rewards.observation import metadata_of, read_code, read_run, read_tree
from envweave.rewards.rubric import CompositeTransform, RewardTransform, checked_name, checked_number
from envweave.rewards.safety import Danger, find_dangers
from envweave.rewards.scores import Score

DANGEROUS_PATTERNS = (
    "import builtins", "import ctypes", "import importlib", "import multiprocessing", "import nt", "import os",
    "import posix", "import pty", "import shutil", "import socket", "import subprocess", "compile", "eval", "exec",
    "open", "__bases__", "__builtins__", "__code__", "__globals__", "__import__", "__loader__", "__mro__", "__spec__",
    "__subclasses__",
)  # fmt: skip
"""The default patterns. `import sys` is not among them: honest code reads `sys.maxsize` and `sys.argv`."""

STYLE_PAID = "style_paid"
"""The key of `metadata` under which environments pass on what style has earned in the episode so far."""

_PATTERN = re.compile(r"import [^\W\d]\w*(\.[^\W\d]\w*)*|[^\W\d]\w*")
_SHOWN = 200


class MathProblemTransform(RewardTransform):
    """`reward` for a right answer, 0.0 for a wrong one. Either ends the episode: the first answer counts.

    The answer is the value of the last expression, or if that is None the last printed line. `metadata["answer"]` has
    the verdict of `envweave.rewards.grader`. Code that fails and output that cannot be read as an answer (`invalid`)
    score 0.0, because the agent caused them, and do not end the episode. There is no score if nothing was run, or if
    the expected answer cannot be compared (`undecided`).
    """

    def __init__(
        self,
        expected_answer: Any,
        *,
        tolerance: float | None = None,
        reward: float = 1.0,
        name: str = "math_problem",
    ) -> None:
        """`tolerance` is how far off a number may be. Raises `UsageError` for an answer that nothing could match."""
        self.expected_answer = expected_answer
        self.tolerance = None if tolerance is None else checked_number("tolerance", tolerance, least=0)
        self.reward = checked_number("reward", reward)
        self.name = checked_name(name)
        try:
            self._expected = Expected.read(expected_answer)
        except ValueError as error:
            raise UsageError(
                f"expected_answer is {expected_answer!r:.80}: {error}",
                "give a finite number, a list of numbers, a bool or a text",
            ) from error

    def score(self, observation: Any) -> Score:
        run = read_run(observation)
        if not run.success:
            grade = Grade("invalid", "the code failed")
        elif run.answer is None:
            grade = Grade("invalid", "nothing was returned or printed")
        else:
            grade = self._expected.grade(run.answer, tolerance=self.tolerance)
        note: dict[str, str] = {"verdict": grade.verdict}
        note |= {"read": _shown(run.answer)} if run.success and run.answer is not None else {}
        note |= {"reason": grade.reason} if grade.reason else {}
        value = None if grade.score is None else self.reward * grade.score
        return Score(value, {"answer": note}, done=grade.verdict in ("right", "wrong"))


class CodeQualityTransform(RewardTransform):
    """Two metrics of the code that was run, each a contribution of its own.

        concise     +0.1 if it succeeded and has 1 to 100 characters, without outer space; once in an episode
        syntax      -0.2 if it is not Python, or too long or nested too deeply to be parsed

    The environments that run code pass on in `metadata["style_paid"]` what was paid before, so that trivial code is not
    paid again and again. There is no score without code in `metadata["last_code"]`, or without a result.
    """

    def __init__(
        self,
        *,
        concise_bonus: float = 0.1,
        max_length_threshold: int = 100,
        syntax_penalty: float = -0.2,
        name: str = "code_quality",
    ) -> None:
        self.concise_bonus = checked_number("concise_bonus", concise_bonus)
        self.max_length_threshold = checked_number("max_length_threshold", max_length_threshold, least=0)
        self.syntax_penalty = checked_number("syntax_penalty", syntax_penalty)
        self.name = checked_name(name)

    def score(self, observation: Any) -> Score:
        code, run = read_code(observation), read_run(observation)
        try:
            valid = read_tree(observation) is not None
        except UnreadableError:
            valid = False
        short = 0 < len(code.strip()) <= self.max_length_threshold
        earns = short and valid and run.success and not metadata_of(observation).get(STYLE_PAID)
        value = {
            "concise": self.concise_bonus if earns else 0.0,
            "syntax": 0.0 if valid else self.syntax_penalty,
        }
        return Score(value, {STYLE_PAID: self.concise_bonus} if earns else {})


class CodeSafetyTransform(RewardTransform):
    """The penalty, once, if the code that was run has a dangerous pattern; 0.0 if it has none.

    `metadata["safety_violation"]` has the first one as text, `import os (line 3)`, and `metadata["safety_violations"]`
    all of them; see `envweave.rewards.safety` for what is found. Code that is not Python never ran and is no violation.
    Code that is too long or nested too deeply to be parsed is one, `unreadable code`. There is no score without code in
    `metadata["last_code"]`.

    This shapes a reward and prevents nothing; the sandbox is the protection.
    """

    def __init__(
        self, penalty: float = -1.0, *, patterns: Iterable[str] = DANGEROUS_PATTERNS, name: str = "code_safety"
    ) -> None:
        """A pattern is `"import module"` or a name. Raises `UsageError` for anything else."""
        self.penalty = checked_number("penalty", penalty)
        self.patterns = _checked(patterns)
        self.name = checked_name(name)

    def score(self, observation: Any) -> Score:
        try:
            tree = read_tree(observation)
            dangers = [] if tree is None else find_dangers(tree, self.patterns)
        except UnreadableError:
            dangers = [Danger(1, "unreadable code")]
        if not dangers:
            return Score(0.0)
        found = [{"pattern": danger.pattern, "line": danger.line} for danger in dangers]
        return Score(self.penalty, {"safety_violation": str(dangers[0]), "safety_violations": found})


def create_math_env_transform(expected_answer: Any = 42, *, tolerance: float | None = None) -> CompositeTransform:
    """`MathProblemTransform` and `CodeQualityTransform`."""
    return CompositeTransform([MathProblemTransform(expected_answer, tolerance=tolerance), CodeQualityTransform()])


def create_safe_env_transform(*, penalty: float = -1.0) -> CompositeTransform:
    """`CodeSafetyTransform` and `CodeQualityTransform`."""
    return CompositeTransform([CodeSafetyTransform(penalty), CodeQualityTransform()])


def _shown(answer: Any) -> str:
    try:
        text = str(answer).encode(errors="backslashreplace").decode()  # half a character cannot cross the wire
    except (ValueError, RecursionError):  # more digits, or levels, than Python writes
        return f"a {type(answer).__name__} that is too large to be shown"
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"


def _checked(patterns: Iterable[str]) -> frozenset[str]:
    if isinstance(patterns, str) or not isinstance(patterns, Iterable):
        raise UsageError(f"patterns is {patterns!r}", "give a list: ['import os', 'eval']")
    found = tuple(patterns)
    for pattern in found:
        if not isinstance(pattern, str) or not _PATTERN.fullmatch(pattern):
            raise UsageError(f"{pattern!r} is not a pattern", "write 'import module', or a name such as 'eval'")
    return frozenset(found)
