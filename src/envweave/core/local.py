"""The handle on a sync environment in this process."""

from __future__ import annotations

from copy import copy
from typing import Any, TypeVar

from envweave.core.flows import Flow, Flows, Snapshot
from envweave.core.handle import AsyncEnvHandle, EnvHandle
from envweave.core.referee import BUSY, LATE, OVER
from envweave.core.transform import transformed
from envweave.requests import Request
from envweave.results import ResetResult, StepResult

T = TypeVar("T")


def run(flow: Flow[T]) -> T:
    """Do what a flow asks for, by calling."""
    try:
        call = next(flow)
        while True:
            try:
                value = call()
            except BaseException as error:
                call = flow.throw(error)
            else:
                call = flow.send(value)
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]


class LocalEnv(Flows, EnvHandle[Any]):
    """Calls go straight to the environment: no thread, no loop, no copy."""

    __slots__ = ()

    def reset(
        self,
        *,
        seed: int | None = None,
        options: dict[str, Any] | None = None,
        episode_id: str | None = None,
        **own: Any,
    ) -> ResetResult[Any]:
        return run(self.resetting(seed, options, episode_id, own))

    def step(self, action: Any) -> StepResult[Any]:
        native = self.referee.admit(action)
        if self.referee.phase is BUSY:  # another thread came first, while the action was looked at
            self.referee.admit_reset()
        result = self.advance(native)
        return result if self.failure is None else self.checked(result)

    def advance(self, native: Any) -> StepResult[Any]:
        """Step with an admitted action, as `stepping` does, without the microsecond that a generator costs."""
        referee = self.referee
        if native is LATE:
            return run(self.following(referee.expire()))
        referee.phase = BUSY
        try:
            raw = self._step(native)
            if referee.phase is not BUSY:
                self._check_open()
            if self._transforms and self.unwrapped.transform is not None:
                raw = transformed(self.unwrapped.transform, raw)
            result = referee.conclude(raw)
        except BaseException as error:
            return self._stopped("step", error)
        return run(self.following(result)) if referee.phase is OVER else result

    def renew(self) -> ResetResult[Any]:
        """Reset without arguments, as `resetting` does, for an episode that is over and owes nothing."""
        arguments = self._reset_call.arguments(None, None, None, {})
        self.referee.begin_reset()
        try:
            raw = self.unwrapped.reset(**arguments)
            return self.referee.open(raw)
        except BaseException as error:
            self.referee.phase = OVER
            self._raise("reset", error)

    def respond(self, request_id: str, value: Any) -> StepResult[Any]:
        return self.checked(run(self.responding(request_id, value)))

    def state(self) -> Any:
        return run(self.stating())

    def render(self) -> Any:
        return run(self.rendering())

    def snapshot(self) -> Snapshot:
        return run(self.snapshotting())

    def restore(self, snapshot: Snapshot) -> None:
        run(self.restoring(snapshot))

    def fork(self) -> LocalEnv:
        copied, episode = run(self.forking())
        if copied is not None:
            twin = LocalEnv(self._blueprint, self.fork_name(), copied)
            self._hand_down(twin)
            twin.referee.recall(episode)
            return twin
        snapshot = self.snapshot()
        twin = LocalEnv(self._blueprint, self.fork_name(), self._blueprint.build())
        self._hand_down(twin)
        twin.restore(snapshot)
        return twin

    def close(self) -> tuple[Request, ...]:
        return run(self.closing())

    def ghost(self) -> LocalEnv:
        """What is left of a handle that is lost in a call: its episode is over, and it shares nothing that changes."""
        ghost = copy(self)
        ghost.referee = copy(self.referee)
        ghost.referee.phase = OVER
        ghost.unwrapped = None
        return ghost

    @property
    def aio(self) -> AsyncEnvHandle[Any]:
        from envweave.core.faces import ThreadedEnv  # asyncio, loaded for those who await

        return ThreadedEnv(self)
