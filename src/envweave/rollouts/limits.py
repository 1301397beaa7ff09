"""The budgets of a rollout."""

from __future__ import annotations

from dataclasses import dataclass, fields

from envweave.errors import UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one episode may use; None is no limit. Raises `UsageError` for what is not a positive number."""

    max_turns: int | None = None
    """Steps of the environment. The episode ends as `max_turns`, scored by what it earned so far."""
    max_tokens: int | None = None
    """Tokens of one reply."""
    max_episode_tokens: int | None = None
    """Tokens of all replies of an episode, which then ends as `max_tokens`, scored by what it earned so far."""
    step_timeout: float | None = None
    """Seconds for a reset or a step. The attempt fails as `step_timeout`; it is repeated on a fresh environment."""
    episode_timeout: float | None = None
    """Seconds for an attempt. It fails as `wall_time`, which is not repeated: it would take as long again."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            kinds = (int, float) if field.name.endswith("timeout") else (int,)
            if value is not None and (not isinstance(value, kinds) or isinstance(value, bool) or not value > 0):
                raise UsageError(f"{field.name} is {value!r}", "use a positive number, or None for no limit")
