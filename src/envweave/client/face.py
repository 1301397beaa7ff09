"""The sync side of a client: its async side, waited for."""

from __future__ import annotations

from typing import Any

from envweave.client.typed import TypedEnv
from envweave.core.faces import BridgedEnv
from envweave.core.loop import BACKGROUND
from envweave.results import StepResult


class ClientFace(BridgedEnv):
    """A sync handle that can also connect, and wait again for an answer."""

    def __init__(self, typed: TypedEnv) -> None:
        super().__init__(typed, BACKGROUND)
        self._typed = typed

    def connect(self) -> None:
        self._wait(self._typed.connect())

    def step(self, action: Any) -> StepResult[Any]:
        return self._typed.step_from_thread(action) or super().step(action)

    def last(self) -> Any:
        return self._wait(self._typed.last())

    def fork_typed(self) -> TypedEnv:
        return self._wait(self._typed.fork())
