"""Environments for the vector suites. They are imported here and by servers, and steered by files in one folder."""

import os
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import envweave as ew

FOLDER = "ENVWEAVE_TEST_FOLDER"


def folder() -> Path:
    return Path(os.environ[FOLDER])


def fails(what: str) -> None:
    """Raise as often as the file of that name says; -1 means always."""
    file = folder() / what
    left = int(file.read_text()) if file.exists() else 0
    if left:
        file.write_text(str(left - 1 if left > 0 else left))
        raise OSError(f"{what} does not work")


def hangs(what: str) -> None:
    """Do not return as long as there is a file of that name. The file `hanging` says that it hangs."""
    while (folder() / what).exists():
        (folder() / "hanging").touch()
        time.sleep(0.02)


@dataclass(kw_only=True)
class Seen(ew.Observation):
    count: int
    start: int = 0


@dataclass
class Act:
    do: str = "go on"


class Trial(ew.Environment[Act, Seen]):
    """Does what the action says."""

    def __init__(self) -> None:
        fails("factory")
        self._count = self._start = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None, episode_id: str | None = None
    ) -> ew.ResetResult[Seen]:
        fails("reset")
        hangs("hang reset")
        self._count, self._start = 0, (options or {}).get("start", 0)
        info = {"seed": seed, "options": options, "episode_id": episode_id}
        return ew.ResetResult(Seen(count=0, start=self._start), info)

    def step(self, action: Act) -> ew.StepResult[Seen]:
        if action.do == "raise":
            raise ZeroDivisionError("as you say")
        if action.do == "refuse":
            raise ew.InvalidActionError("not now", "later")
        if action.do == "hang":
            hangs("hang step")
        self._count += 1
        seen = Seen(count=self._count, start=self._start)
        calls = [ew.ToolCall(tool_name="look")] if action.do == "ask" else []
        return ew.StepResult(seen, 1.0, action.do == "end", False, {}, tuple(calls))

    def respond(self, request_id: str, value: Any) -> ew.StepResult[Seen]:
        return ew.StepResult(Seen(count=self._count, start=value), 0.5)

    def close(self) -> None:
        fails("close")


class Locked(Trial):
    """Cannot be copied."""

    def __init__(self) -> None:
        super().__init__()
        self.lock = threading.Lock()
