"""What a check has to say: problems while it runs, findings and a report in the end."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, NamedTuple, TypeAlias

from envweave.errors import EnvError, EnvWeaveError

Severity: TypeAlias = Literal["error", "warning"]


class Problem(NamedTuple):
    """What a check yields; the name of the check makes it a finding."""

    message: str
    fix: str
    severity: Severity = "error"


Problems: TypeAlias = Iterator[Problem]


class SkippedError(Exception):
    """Raised in a check that has nothing to look at; the text is the reason."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing an environment does against the contract, and what to do about it."""

    check: str
    severity: Severity
    message: str
    fix: str

    def __str__(self) -> str:
        return f"{self.severity} {self.check}: {self.message}\n  fix: {self.fix}"

    def to_data(self) -> dict[str, str]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Report:
    """What came of all checks; each of them is in `findings`, `passed` or `skipped`."""

    id: str
    findings: tuple[Finding, ...] = ()
    passed: tuple[str, ...] = ()
    skipped: Mapping[str, str] = field(default_factory=dict)
    """The reason for each check that was left out."""

    @property
    def ok(self) -> bool:
        """No finding is an error; warnings may be there."""
        return not self.errors

    @property
    def errors(self) -> tuple[Finding, ...]:
        return tuple(finding for finding in self.findings if finding.severity == "error")

    def raise_if_failed(self) -> None:
        """Raise an `EnvError` that names each error with its fix, if there is one."""
        if not self.ok:
            listed = "\n".join(str(finding) for finding in self.errors)
            raise EnvError(f"{self.id} does not keep the contract\n{listed}", "check_env shows the whole report")

    def to_data(self) -> dict[str, Any]:
        """The report as JSON data."""
        return {
            "id": self.id,
            "ok": self.ok,
            "findings": [finding.to_data() for finding in self.findings],
            "passed": list(self.passed),
            "skipped": dict(self.skipped),
        }

    def __str__(self) -> str:
        lines = [str(finding) for finding in self.findings]
        lines += [f"passed {name}" for name in self.passed]
        lines += [f"skipped {name}: {reason}" for name, reason in self.skipped.items()]
        return "\n".join([f"{self.id}: {'ok' if self.ok else 'not ok'}", *lines])


def attempt(call: Callable[[], Any]) -> tuple[Any, BaseException | None]:
    """What a call into the author's code returns, or what it raises, `sys.exit()` included; Ctrl-C goes on up."""
    try:
        return call(), None
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        return None, error


def problem_of(error: BaseException, fix: str, *, what: str = "") -> Problem:
    """The problem that an exception is; an error of ours brings its own fix, its hint."""
    if isinstance(error, EnvWeaveError):
        message, fix = error.message, error.hint or fix
    else:
        message = f"{what or 'it'} raised {type(error).__name__}: {error}"
    return Problem(message, fix)
