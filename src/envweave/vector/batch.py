"""What a vector returns: one row for each environment that has answered."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, Self

from envweave.core.handle import ObsT
from envweave.requests import Request
from envweave.results import FlagT, ResetResult, RewardT, StepResult


@dataclass(slots=True)
class StepBatch(Generic[ObsT, RewardT, FlagT]):
    """Rows of a step: column `i` of each list belongs to environment `ids[i]`.

    Unpacks as in Gymnasium: `obs, reward, terminated, truncated, info = vector.step(actions)`.
    """

    ids: list[int]
    incarnations: list[int]
    """How often each environment has been rebuilt."""
    steps: list[int]
    """The number of each step within its episode; 0 for a reset."""
    results: list[Any]
    """A `StepResult` each; from `recv` also a `ResetResult` where a reset was sent."""

    @classmethod
    def of(cls, rows: Iterable[tuple[int, int, int, Any]]) -> Self:
        """A batch of rows: environment, incarnation, step, result."""
        columns = [list(column) for column in zip(*rows, strict=True)]
        return cls(*(columns or ([], [], [], [])))

    def rows(self) -> Iterator[tuple[int, int, int, Any]]:
        return zip(self.ids, self.incarnations, self.steps, self.results, strict=True)

    @property
    def obs(self) -> list[ObsT]:
        return [result.observation for result in self.results]

    observation = obs

    @property
    def reward(self) -> list[RewardT]:
        return [result.reward for result in self.results]

    @property
    def terminated(self) -> list[FlagT]:
        return [result.terminated for result in self.results]

    @property
    def truncated(self) -> list[FlagT]:
        return [result.truncated for result in self.results]

    @property
    def done(self) -> list[bool]:
        return [result.done for result in self.results]

    @property
    def info(self) -> list[dict[str, Any]]:
        return [result.info for result in self.results]

    @property
    def requests(self) -> list[tuple[Request, ...]]:
        return [result.requests for result in self.results]

    @property
    def failures(self) -> dict[int, dict[str, Any]]:
        """The rows without a score because something failed: environment number to error data."""
        rows = zip(self.ids, self.results, strict=True)
        found = ((id, result.info.get("error")) for id, result in rows)
        return {id: error for id, error in found if isinstance(error, dict) and {"code", "type"} <= error.keys()}

    def __len__(self) -> int:
        return len(self.results)

    def __getitem__(self, row: int) -> StepResult[Any] | ResetResult[Any]:
        return self.results[row]  # type: ignore[no-any-return]

    def __iter__(self) -> Iterator[Any]:
        return iter((self.obs, self.reward, self.terminated, self.truncated, self.info))


@dataclass(slots=True)
class ResetBatch(StepBatch[ObsT, RewardT, FlagT]):
    """Rows of a reset; unpacks as `obs, info = vector.reset()`."""

    def __iter__(self) -> Iterator[Any]:
        return iter((self.obs, self.info))
