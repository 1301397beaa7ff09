"""Where an environment runs, behind one method: `call(kind, data)`, and `acall` for `await`.

    kind        data                                    reply
    reset       {"seed", "task", "episode_id", …}       ResetResult
    step        the action                              StepResult
    advance     what `admit` returned for an action     StepResult
    respond     {"request_id", "value"}                 StepResult
    state       None                                    the environment's state
    render      None                                    what the environment shows
    snapshot    None                                    a snapshot, for `restore`
    restore     a snapshot                              None
    fork        None                                    another Backend, at the same point of the episode
    tasks       {"first", "count", "split", …}          {"number", "splits", "tasks"}: a part of the list of tasks
    last        None                                    the reply to a call that timed out, from a server
    close       None                                    the requests that were not delivered yet

A backend implements one of the two methods and derives the other: `SyncBackend` runs `call` on a thread, `AsyncBackend`
waits for `acall` on the background loop. Middleware (`middleware.py`) wraps both.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from envweave.errors import EnvWeaveError, UsageError
from envweave.requests import Request

if TYPE_CHECKING:
    from envweave.core.selection import TaskList


class EpisodeView(Protocol):
    """What is known of the current episode without a call."""

    episode_id: str | None
    pending: tuple[Request, ...]
    """The requests that wait for an answer: `need_action`s or `tool_call`s."""
    last_obs: Any
    step_count: int

    @property
    def due(self) -> float | None:
        """When the earliest deadline ends; None without one."""

    def restart_clock(self) -> None:
        """Count deadlines from now."""

    def keep_ends(self, requests: tuple[Request, ...]) -> None:
        """Deliver the `episode_end`s among these requests later, because their receiver is gone."""

    def take_undelivered(self) -> tuple[Request, ...]:
        """The ends that `keep_ends` kept, once."""

    def unscored(self, error: EnvWeaveError, *, over: bool) -> Any:
        """The result of a step that failed: the last observation, no reward, the error in `info`."""


class Backend(ABC):
    """One environment, wherever it runs. One call at a time."""

    id: str
    """The instance, e.g. `counter-v0#0`."""
    env: Any = None
    """The environment if it is in this process, else None."""

    @property
    @abstractmethod
    def episode(self) -> EpisodeView:
        """What is known of the current episode."""

    @property
    def multi_agent(self) -> bool:
        """Whether actions and results are dicts by agent."""
        return False

    @abstractmethod
    def call(self, kind: str, data: Any = None) -> Any:
        """Make a call and wait for the reply."""

    @abstractmethod
    async def acall(self, kind: str, data: Any = None) -> Any:
        """Make a call and await the reply."""

    def drop(self, reply: Any) -> None:
        """Handle the reply of a call whose caller was cancelled: deliver its ends later, close a fork."""
        if isinstance(reply, Backend):
            from envweave.core.threads import start

            start(partial(reply.call, "close"))
        requests = reply if isinstance(reply, tuple) else getattr(reply, "requests", ())
        self.episode.keep_ends(requests)

    @abstractmethod
    def admit(self, action: Any) -> Any:
        """Check an action and return it in the form that `advance` takes. Raises `UsageError`; changes nothing."""

    def advance(self, admitted: Any) -> Any:
        """Step with an admitted action and wait for the result."""
        return self.call("advance", admitted)

    def check_reset(self, arguments: dict[str, Any]) -> None:
        """Raise the `UsageError` that a reset with these arguments would raise, as far as that can be told here."""

    def check_response(self, request_id: str) -> None:
        """Raise the `UsageError` that `respond` would raise for a request that is not open."""

    @abstractmethod
    def action_schema(self, agent_id: str | None = None) -> dict[str, Any] | None:
        """The JSON Schema of an action, or None if the environment takes anything."""

    def observation_schema(self) -> dict[str, Any] | None:
        """The JSON Schema of an observation, or None if it is not known."""
        return None

    @property
    def tasks(self) -> TaskList | None:
        """The environment's tasks, or a list of a server's. None if it has none."""
        return None

    @property
    def transform(self) -> Callable[[Any], Any] | None:
        """The transform of an environment in this process."""
        return None

    @transform.setter
    def transform(self, transform: Callable[[Any], Any] | None) -> None:
        raise UsageError(f"the transform of {self.id} is the server's", "set it where the environment runs")


class SyncBackend(Backend):
    """Implements `call`. `acall` runs it on a thread of its own, so that a slow step does not block the loop."""

    async def acall(self, kind: str, data: Any = None) -> Any:
        from envweave.core.threads import run_in_thread  # loaded only for callers that await

        return await run_in_thread(partial(self.call, kind, data), self.drop)


class AsyncBackend(Backend):
    """Implements `acall`. `call` waits for it on the background loop."""

    def call(self, kind: str, data: Any = None) -> Any:
        from envweave.core.loop import BACKGROUND, refuse_blocking

        refuse_blocking(self.home)
        return BACKGROUND.run(self.acall(kind, data))

    @property
    def home(self) -> Any:
        """The event loop that owns the environment or its connection, or None."""
        return None
