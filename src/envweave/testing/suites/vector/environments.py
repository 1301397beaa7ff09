"""The environments of the vector suite. They may run in another process; `SteeredEnv` is steered by files."""

from __future__ import annotations

import random
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from envweave.core.environment import Environment
from envweave.errors import InvalidActionError
from envweave.requests import ToolCall
from envweave.results import ResetResult, StepResult
from envweave.types import Observation


class WalkEnv:
    """Draws its start by the seed, ends at 5, and fails on demand."""

    def reset(self, *, seed: int | None = None, start: float | None = None) -> float:
        self.at = random.Random(seed).randrange(1000) / 1000 if start is None else start
        return self.at

    def step(self, action: int) -> tuple[float, float, bool, bool, dict[str, Any]]:
        if action == 13:
            raise ZeroDivisionError("thirteen")
        if action == 14:
            raise SystemExit("fourteen")
        if action == 15:
            raise InvalidActionError("fifteen is refused")
        self.at += action
        return self.at, float(action), self.at >= 5, False, {}


@dataclass(kw_only=True)
class SteeredObservation(Observation):
    """How many steps were made, and where the episode started."""

    count: int
    start: int = 0


@dataclass
class SteeredAction:
    """One of: go on, raise, refuse, hang, ask, end."""

    do: str = "go on"


class SteeredEnv(Environment[SteeredAction, SteeredObservation]):
    """Does what the action says, and fails or hangs as the files in `folder` say."""

    def __init__(self, *, folder: str) -> None:
        self._folder = Path(folder)
        self._count = self._start = 0
        self._fail("factory")

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None, episode_id: str | None = None
    ) -> ResetResult[SteeredObservation]:
        self._fail("reset")
        self._hang("hang reset")
        self._count, self._start = 0, (options or {}).get("start", 0)
        info = {"seed": seed, "options": options, "episode_id": episode_id}
        return ResetResult(SteeredObservation(count=0, start=self._start), info)

    def step(self, action: SteeredAction) -> StepResult[SteeredObservation]:
        if action.do == "raise":
            raise ZeroDivisionError("as you say")
        if action.do == "refuse":
            raise InvalidActionError("not now", "later")
        if action.do == "hang":
            self._hang("hang step")
        self._count += 1
        seen = SteeredObservation(count=self._count, start=self._start)
        calls = (ToolCall(tool_name="look"),) if action.do == "ask" else ()
        return StepResult(seen, 1.0, action.do == "end", False, {}, calls)

    def respond(self, request_id: str, value: Any) -> StepResult[SteeredObservation]:
        if value == "fail":
            raise OSError("no")
        return StepResult(SteeredObservation(count=self._count, start=value), 0.5)

    def close(self) -> None:
        self._fail("close")

    def _fail(self, what: str) -> None:
        """Raise as often as the file of that name says; -1 means always."""
        file = self._folder / what
        left = int(file.read_text()) if file.exists() else 0
        if left:
            file.write_text(str(left - 1 if left > 0 else left))
            raise OSError(f"{what} does not work")

    def _hang(self, what: str) -> None:
        """Wait as long as there is a file of that name. The file `hanging` says that it waits."""
        while (self._folder / what).exists():
            (self._folder / "hanging").touch()
            time.sleep(0.02)


class UncopyableEnv(SteeredEnv):
    """Holds a lock, which cannot be copied."""

    def __init__(self, *, folder: str) -> None:
        super().__init__(folder=folder)
        self.lock = threading.Lock()
