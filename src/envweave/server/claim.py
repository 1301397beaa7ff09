"""How the thread that runs a step and the loop that watches over it agree who tells of the outcome."""

from __future__ import annotations

from collections.abc import Callable


class Claim:
    """For one step. Whoever takes it, thread or loop, answers the client; the other keeps quiet."""

    __slots__ = ("_begun", "_token")

    def __init__(self, begun: Callable[[Claim], None]) -> None:
        self._begun = begun
        self._token = [None]

    def begin(self) -> None:
        """From now on the step runs, and may be taken over."""
        self._begun(self)

    def take(self) -> bool:
        """Only the first one gets it; taking from a list is one operation, also between threads."""
        try:
            self._token.pop()
        except IndexError:
            return False
        return True

    @property
    def free(self) -> bool:
        return bool(self._token)
