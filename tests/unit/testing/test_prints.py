"""Two values that are the same have the same fingerprint."""

from dataclasses import dataclass, field

from envweave.sandbox import ExecutionResult
from envweave.testing.prints import fingerprint


@dataclass
class Timed:
    word: str
    seconds: float = field(default=0.0, compare=False)


def test_a_field_that_does_not_count_in_a_comparison_does_not_count_here():
    assert fingerprint(Timed("a", 1.0)) == fingerprint(Timed("a", 2.0))
    assert fingerprint(Timed("a")) != fingerprint(Timed("b"))
    assert fingerprint([Timed("a", 1.0)]) == fingerprint([Timed("a", 2.0)])


def test_two_runs_that_took_different_times_are_the_same():
    assert fingerprint(ExecutionResult(stdout="x", duration=1.0)) == fingerprint(ExecutionResult(stdout="x"))
    assert fingerprint(ExecutionResult(stdout="x")) != fingerprint(ExecutionResult(stdout="y"))
