"""What an operator can choose, with its defaults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal

from envweave.core.suggest import refuse_unknown
from envweave.errors import UsageError

Isolation = Literal["thread", "process"]


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Durations are seconds; None is "no limit"."""

    max_sessions: int | None = None
    """None is 1 for an environment whose instances disturb each other, else 1024."""
    isolation: Isolation = "thread"
    idle_timeout: float | None = 3600.0
    """A session to which nobody speaks for this long is closed, connected or not."""
    resume_within: float = 60.0
    """How long a session waits for a client whose connection dropped."""
    step_timeout: float | None = 600.0
    """A call on an environment that takes longer ends its episode as `infra_error`."""
    close_timeout: float = 5.0
    """How long the teardown of one session may take."""
    max_threads: int = 512
    max_message_bytes: int = 16 * 2**20
    """A longer message is refused, and its session lives on."""
    max_frame_bytes: int = 128 * 2**20
    """A longer frame is not even read: its connection is closed."""
    ping_interval: float = 20.0
    """Seconds between pings; a client that does not answer within as many more is gone."""
    token: str | None = None
    origins: tuple[str, ...] = ()
    """Browser origins that are welcome besides the server's own; `*` is all."""
    allow_arguments: bool = False
    """Whether a client may pass arguments to the environment's factory."""
    allow_branching: bool = False
    """Whether a client may snapshot, restore and fork: one that may can try again until an answer is right."""
    debug: bool = False
    """Whether clients see tracebacks."""
    record: str | None = None
    """The folder of a run to which all episodes are written."""

    @classmethod
    def chosen(cls, given: Mapping[str, Any]) -> Settings:
        """Raises `UsageError` for a setting that there is not."""
        refuse_unknown(given, [field.name for field in fields(cls)], "there is no setting", "settings")
        return cls(**given)

    def __post_init__(self) -> None:
        for name in ("max_sessions", "idle_timeout", "step_timeout"):
            self._check_positive(name, getattr(self, name), optional=True)
        for name in ("close_timeout", "max_threads", "max_message_bytes", "max_frame_bytes", "ping_interval"):
            self._check_positive(name, getattr(self, name), optional=False)
        if not self.resume_within >= 0:
            raise UsageError(f"resume_within is {self.resume_within!r}", "use a number of seconds, 0 for no resuming")
        if self.isolation not in ("thread", "process"):
            raise UsageError(f"isolation is {self.isolation!r}", "use 'thread' or 'process'")
        if self.token is not None and not self.token.strip():
            raise UsageError("the token is empty", "leave it out, or use a long random one")

    def _check_positive(self, name: str, value: Any, *, optional: bool) -> None:
        if not ((optional and value is None) or (isinstance(value, int | float) and value > 0)):
            raise UsageError(f"{name} is {value!r}", "use a positive number")
