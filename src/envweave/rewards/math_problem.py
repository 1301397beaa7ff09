"""One for the right answer, nothing for a wrong one."""

from __future__ import annotations

from typing import Any

from envweave.errors import UsageError
from envweave.rewards.answers import answer_part, matches, read_list, read_number
from envweave.rewards.base import RewardTransform, checked_name, checked_number
from envweave.rewards.numerals import Number
from envweave.rewards.run import Run, read_run
from envweave.rewards.scores import Score

_SHOWN = 200


class MathProblemTransform(RewardTransform):
    """`reward` for a right answer, 0.0 for a wrong one.

    The answer is the value of the last expression, or if that is None the last line that was printed. The verdict
    stands in `metadata["answer"]`: `right`, `wrong`, or `invalid` with the reason, where the code failed or gave
    nothing that can be read as such an answer; that is the agent's doing and scores 0.0. Where nothing was run there is
    no score.

    What is expected may be a number, a numeral as text (`"1,000"`, `"3/4"`), a bool, a list of numbers, or any other
    text, which has to be the same but for space at both ends. `numerals` and `answers` say which forms are read.
    """

    def __init__(
        self,
        expected_answer: Any,
        *,
        tolerance: float | None = None,
        reward: float = 1.0,
        name: str = "math_problem",
    ) -> None:
        """`tolerance` is how far off an answer may be.

        Without one, whole numbers must be the same, and others within a billionth of the expected one. Raises
        `UsageError` for an expected answer that no answer could match.
        """
        self.expected_answer = expected_answer
        self.tolerance = None if tolerance is None else checked_number("tolerance", tolerance, least=0)
        self.reward = checked_number("reward", reward)
        self.name = checked_name(name)
        self._expected = _expectation(expected_answer)

    def score(self, observation: Any) -> Score:
        run = read_run(observation)
        note: dict[str, str] = {"verdict": "invalid"}
        try:
            answer = _answer(run)
            note["read"] = _shown(answer)
            note["verdict"] = "right" if self._is_right(answer) else "wrong"
        except ValueError as error:  # there is nothing to compare
            note["reason"] = str(error)
        return Score(self.reward if note["verdict"] == "right" else 0.0, {"answer": note})

    def _is_right(self, answer: Any) -> bool:
        """Raises `ValueError`, with the reason, for an answer that cannot be read as one of this kind."""
        expected = self._expected
        if isinstance(expected, bool):
            return _read_bool(answer) is expected
        if isinstance(expected, str):
            text = str(answer).strip()
            return expected in (text, answer_part(text))
        if isinstance(expected, Number):
            return matches(read_number(answer), expected, tolerance=self.tolerance)
        found = read_list(answer)
        return len(found) == len(expected) and all(
            matches(one, other, tolerance=self.tolerance) for one, other in zip(found, expected, strict=True)
        )


def _expectation(given: Any) -> bool | str | Number | list[Number]:
    if callable(getattr(given, "tolist", None)):  # numpy's and torch's
        given = given.tolist()
    try:
        if isinstance(given, bool):
            return given
        if isinstance(given, list | tuple):
            return [read_number(element, words=False) for element in given]
        return read_number(given, words=False)
    except ValueError as error:
        if isinstance(given, str) and given.strip():
            return given.strip()
        raise UsageError(
            f"expected_answer is {given!r}: {error}", "give a finite number, a list of numbers, a bool or a text"
        ) from error


def _answer(run: Run) -> Any:
    if not run.success:
        raise ValueError("the code failed")
    if run.value is not None:
        return run.value
    line = run.stdout.rstrip().rpartition("\n")[2].strip()
    if not line:
        raise ValueError("nothing was returned or printed")
    return line


def _read_bool(answer: Any) -> bool:
    text = str(answer).strip().lower() if isinstance(answer, bool | str) else ""
    if text not in ("true", "false"):
        raise ValueError("not a truth value")
    return text == "true"


def _shown(answer: Any) -> str:
    try:
        text = str(answer).encode(errors="backslashreplace").decode()  # half a character could not cross the wire
    except (ValueError, RecursionError):  # more digits, or levels, than Python writes
        return f"a {type(answer).__name__} that is too large to be shown"
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"
