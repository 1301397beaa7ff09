"""`VectorEnv`: many environments at once. It checks arguments and makes batches; a dispatcher runs the calls."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Self, TypeAlias

from envweave.core.flow import run
from envweave.core.handle import ActT, EnvHandle, ObsT, TaskChoice, reset_arguments
from envweave.core.referee import OVER
from envweave.errors import BusyError, ClosedError, EnvWeaveError, UsageError, WaitTimeoutError
from envweave.results import FlagT, RewardT
from envweave.vector.arguments import (
    chosen_episode_ids,
    chosen_ids,
    chosen_options,
    chosen_seeds,
    chosen_tasks,
    label_errors,
    matched_actions,
    ready_counts,
    seconds,
)
from envweave.vector.batch import ResetBatch, StepBatch
from envweave.vector.dispatcher import Dispatcher, RowJob, RowValues
from envweave.vector.executor import Executor
from envweave.vector.slot import RECOVER, Slot, SlotFlow

if TYPE_CHECKING:
    from envweave.record import Recorder
    from envweave.vector.aio import AsyncVectorEnv

Actions: TypeAlias = "Sequence[ActT | Mapping[str, Any]] | dict[int, Any]"


class VectorEnv(Generic[ActT, ObsT, RewardT, FlagT]):
    """`num_envs` independent environments. Two ways to drive it:

    barrier       `reset(seed=…)`, then `step(actions)`: lists of length `num_envs`
    ready-first   `send(actions, ids)`, then `recv(min_ready=…, timeout=…)`: those that have finished

    A wrong call raises a `UsageError` before any environment has changed. A failure affects only its own row: `reward`
    None, `episode_end(reason="infra_error")`, the reason in `failures`; the environment is rebuilt for its next reset.
    Each environment runs at most one call at a time. Call from one thread; `aio` is the same vector for `await`.
    """

    def __init__(self, slots: Sequence[Slot], recorder: Recorder | None = None) -> None:
        """The slots are open. The vector owns them, and the recorder of their episodes."""
        self._recorder = recorder
        self._slots = list(slots)
        self._executors: dict[Executor, list[Slot]] = {}
        for slot in self._slots:
            self._executors.setdefault(slot.executor, []).append(slot)
        self._dispatcher = Dispatcher(self._executors)
        self._awaited: list[int] | None = None
        """The environments of the last `step_async`."""
        self._pid = os.getpid()
        self._closed = False
        self._inline = all(executor.inline for executor in self._executors)
        self._timed = any(getattr(slot.episode, "timed", False) for slot in self._slots)

    @property
    def num_envs(self) -> int:
        return len(self._slots)

    @property
    def ids(self) -> list[str]:
        """The instance IDs, e.g. `counter-v0#3` for environment 3; the `env_id` of its requests."""
        return [slot.id for slot in self._slots]

    @property
    def in_flight(self) -> list[int]:
        """The environments that were sent something and whose row was not received yet."""
        return sorted(self._dispatcher.in_flight)

    @property
    def abandoned(self) -> int:
        """The number of threads left behind in calls that did not return in time."""
        return sum(getattr(executor, "abandoned", 0) for executor in self._executors)

    @property
    def transform(self) -> Any:
        """Each environment has its own, from when it is built: there is none here, and setting it is refused."""
        raise AttributeError("a vector has no transform")

    @transform.setter
    def transform(self, transform: Any) -> None:
        raise UsageError("a vector has no transform", "give it to each environment: make_vector(…, transform=…)")

    @cached_property
    def aio(self) -> AsyncVectorEnv[ActT, ObsT, RewardT, FlagT]:
        """The same vector for `await`."""
        from envweave.vector.aio import AsyncVectorEnv  # asyncio, loaded for those who await

        return AsyncVectorEnv(self, self._dispatcher)

    # Barrier ...

    def reset(
        self,
        *,
        ids: Sequence[int] | None = None,
        seed: int | Sequence[int | None] | None = None,
        options: dict[str, Any] | Sequence[dict[str, Any] | None] | None = None,
        episode_id: str | Sequence[str | None] | None = None,
        task: TaskChoice | Sequence[TaskChoice | None] | None = None,
        **own: Any,
    ) -> ResetBatch[ObsT, RewardT, FlagT]:
        """Begin an episode in all environments or in those named; with `seed=s` environment `i` gets `s + i`.

        `seed`, `options`, `episode_id` and `task` may be lists with one value for each environment.
        """
        chosen = chosen_ids(ids, len(self._slots))
        jobs = self._reset_jobs(chosen, seed, options, episode_id, task, own)
        try:
            self._dispatcher.send(jobs)
        except KeyboardInterrupt:  # what has begun can be reset again
            self._dispatcher.take_answers()
            self._received(self._dispatcher.ready.keys() & set(chosen))
            raise
        return ResetBatch.of(self._collect(chosen, None))

    def step(
        self, actions: Actions[ActT], ids: Sequence[int] | None = None, *, timeout: float | None = None
    ) -> StepBatch[ObsT, RewardT, FlagT]:
        """Step all environments, or those named, and wait for all of them; rows are in the order of `ids`.

        Raises `WaitTimeoutError` if they are not ready in time: nothing is lost, `step_wait` returns it.
        """
        limit = seconds(timeout)
        if not self._inline or self._dispatcher.in_flight:
            self.step_async(actions, ids)
            return self.step_wait(timeout=limit)
        self._check_no_step_wait()
        chosen, listed = matched_actions(actions, ids, len(self._slots))
        everything = ids is None and listed is actions
        return self._step_inline(chosen, self._slots if everything else [self._slots[id] for id in chosen], listed)

    def _step_inline(
        self, chosen: list[int], slots: list[Slot], actions: Sequence[Any]
    ) -> StepBatch[ObsT, RewardT, FlagT]:
        """Step without a queue, for environments that run in this very thread."""
        results = []
        for slot, action in zip(slots, self._admitted(chosen, slots, actions), strict=True):
            if action is RECOVER:
                result = _run_inline(slot, slot.recover())
            else:
                try:
                    result = slot.advance(action)
                    if result.terminated or result.truncated:
                        result = self._followed_inline(slot, result)
                except EnvWeaveError as error:
                    result = _run_inline(slot, slot.failed(error))
            results.append(result)
        if self._timed:
            _restart_clocks(slots)
        incarnations, steps = [slot.incarnation for slot in slots], [slot.episode.step_count for slot in slots]
        return StepBatch(chosen, incarnations, steps, results)

    @staticmethod
    def _followed_inline(slot: Slot, result: Any) -> Any:
        """The last result of an episode, with the next one unless that has begun."""
        episode: Any = slot.episode
        return _run_inline(slot, slot.followed(result)) if slot.autoreset and episode.phase is OVER else result

    def step_async(self, actions: Actions[ActT], ids: Sequence[int] | None = None) -> None:
        """Send the actions without waiting; `step_wait` returns the batch."""
        self._check_no_step_wait()
        chosen, listed = matched_actions(actions, ids, len(self._slots))
        self._dispatcher.send(self._step_jobs(chosen, listed))
        self._awaited = chosen

    def step_wait(self, *, timeout: float | None = None) -> StepBatch[ObsT, RewardT, FlagT]:
        """The batch of the last `step_async`; after a `WaitTimeoutError` it may be called again."""
        if self._awaited is None:
            raise UsageError("step_wait without step_async", "call step_async(actions) first")
        limit = seconds(timeout)
        try:
            rows = self._collect(self._awaited, limit)
        except UsageError:  # the actions were refused: there is nothing to wait for
            self._awaited = None
            raise
        self._awaited = None
        return StepBatch.of(rows)

    def respond(self, id: int, request_id: str, value: Any) -> StepBatch[ObsT, RewardT, FlagT]:
        """Answer a `tool_call` of one environment and wait for the rest of its step."""
        self.send_response(id, request_id, value)
        return StepBatch.of(self._collect([id], None))

    # ... and ready-first.

    def send(self, actions: Actions[ActT], ids: Sequence[int] | None = None) -> None:
        """Give each environment named its action, without waiting for it."""
        self._dispatcher.send(self._step_jobs(*matched_actions(actions, ids, len(self._slots))))

    def send_reset(
        self,
        ids: Sequence[int] | None = None,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: dict[str, Any] | Sequence[dict[str, Any] | None] | None = None,
        episode_id: str | Sequence[str | None] | None = None,
        task: TaskChoice | Sequence[TaskChoice | None] | None = None,
        **own: Any,
    ) -> None:
        """Begin episodes as `reset` does, without waiting; `recv` returns a `ResetResult` for each."""
        chosen = chosen_ids(ids, len(self._slots))
        self._dispatcher.send(self._reset_jobs(chosen, seed, options, episode_id, task, own))

    def send_response(self, id: int, request_id: str, value: Any) -> None:
        """Answer a `tool_call` of one environment, without waiting; `recv` returns the rest of its step."""
        (id,) = chosen_ids([id], len(self._slots))
        self._check_idle([id])
        slot = self._slots[id]
        with label_errors(id):
            slot.backend.check_response(request_id)
        self._dispatcher.send([RowJob(id, slot, "respond", slot.respond(request_id, value))])

    def recv(
        self, *, min_ready: int = 1, max_ready: int | None = None, timeout: float | None = None
    ) -> StepBatch[ObsT, RewardT, FlagT]:
        """Wait until `min_ready` rows are there; return all that are, at most `max_ready`, in the order they came.

        When the time is over it returns what there is, perhaps nothing; the rest stays in flight and loses nothing.
        With nothing in flight it returns at once. Raises the `UsageError` of actions that a server has refused.
        """
        self._check_open()
        least, most = ready_counts(min_ready, max_ready)
        waiting = self._dispatcher.in_flight.difference(self._awaited or ())
        self._dispatcher.wait(waiting, min(least, len(waiting)), seconds(timeout))
        ready = [id for id in self._dispatcher.ready if id in waiting]
        return StepBatch.of(self._received(ready[:most]))

    def fork(self, id: int) -> EnvHandle[ActT, ObsT, RewardT, FlagT]:
        """An independent handle on the episode of one environment, which goes on. Raises `UnsupportedError`.

        The caller closes it. On a server that was started for the vector it ends with the vector.
        """
        (id,) = chosen_ids([id], len(self._slots))
        self._check_idle([id])
        slot = self._slots[id]
        with label_errors(id):
            return EnvHandle(slot.executor.fork(slot))

    # Jobs.

    def _step_jobs(self, chosen: list[int], actions: Sequence[Any]) -> list[RowJob]:
        slots = [self._slots[id] for id in chosen]
        admitted = self._admitted(chosen, slots, actions)
        return [
            RowJob(id, slot, "recover", slot.recover())
            if action is RECOVER
            else RowJob(id, slot, "step", action=action)
            for id, slot, action in zip(chosen, slots, admitted, strict=True)
        ]

    def _admitted(self, chosen: list[int], slots: list[Slot], actions: Sequence[Any]) -> list[Any]:
        """The actions as the environments take them; all are checked before any is used."""
        self._check_idle(chosen)
        try:
            return [slot.admit(action) for slot, action in zip(slots, actions, strict=True)]
        except UsageError:  # once more, to name the environment
            for id, slot, action in zip(chosen, slots, actions, strict=True):
                with label_errors(id):
                    slot.admit(action)
            raise

    def _reset_jobs(
        self, chosen: list[int], seed: Any, options: Any, episode_id: Any, task: Any, own: dict[str, Any]
    ) -> list[RowJob]:
        self._check_idle(chosen)
        seeds, every_options = chosen_seeds(seed, chosen), chosen_options(options, chosen)
        episode_ids, tasks = chosen_episode_ids(episode_id, chosen), chosen_tasks(task, chosen)
        jobs = []
        for row, id in enumerate(chosen):
            slot = self._slots[id]
            arguments = reset_arguments(seeds[row], every_options[row], episode_ids[row], tasks[row], dict(own))
            with label_errors(id):
                slot.check_reset(arguments)
            jobs.append(RowJob(id, slot, "reset", slot.reset(arguments)))
        return jobs

    # Rows.

    def _collect(self, chosen: list[int], timeout: float | None) -> list[RowValues]:
        """The rows of all of the chosen, in their order."""
        wanted = set(chosen)
        self._dispatcher.wait(wanted, len(chosen), timeout)
        missing = sorted(wanted - self._dispatcher.ready.keys())
        if missing:
            raise WaitTimeoutError(f"{len(missing)} of {len(chosen)} environments have not answered: {missing[:8]}")
        return self._received(chosen)

    def _received(self, ids: Iterable[int]) -> list[RowValues]:
        rows = self._dispatcher.receive(ids)
        _restart_clocks([self._slots[row[0]] for row in rows])
        return rows

    def return_rows(self, batch: StepBatch[ObsT, RewardT, FlagT] | None) -> None:
        """After a call whose caller is gone: the next `recv` returns its rows, those of a step that runs included."""
        self._awaited = None
        if batch is not None:
            self._dispatcher.give_back(batch.rows())

    # Checks.

    def _check_no_step_wait(self) -> None:
        if self._awaited is not None:
            raise BusyError(f"step_wait is due for {self._awaited[:8]}", "call step_wait first")

    def _check_open(self) -> None:
        if self._closed:
            raise ClosedError("the vector is closed", "make a new one")
        if self._pid != os.getpid() and not self._inline:
            raise ClosedError("this vector belongs to another process", "make a vector after the fork")

    def _check_idle(self, chosen: list[int]) -> None:
        self._check_open()
        in_flight = self._dispatcher.in_flight
        busy = in_flight.intersection(chosen) if in_flight else ()
        if busy:
            raise BusyError(f"environments {sorted(busy)[:8]} have not answered yet", "receive their answers first")

    # The end.

    def close(self, *, timeout: float = 5.0) -> list[int]:
        """Close all environments; a second call does nothing. Returns those that are stuck in a call.

        Environments in this thread are closed without a time limit, all others within `timeout` seconds.
        """
        limit = seconds(timeout) or 0.0
        if self._closed:
            return []
        self._closed = True
        stuck: set[Slot] = set()
        for executor, slots in self._executors.items():
            stuck |= executor.close(slots, limit)
        if self._recorder is not None:
            self._recorder.close()
        return [id for id, slot in enumerate(self._slots) if slot in stuck]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.num_envs}: {self._slots[0].id} …>"


def _run_inline(slot: Slot, flow: SlotFlow[Any]) -> Any:
    executor: Any = slot.executor
    return run(flow, lambda call: executor.perform(slot, slot.backend, *call))


def _restart_clocks(slots: Iterable[Slot]) -> None:
    """Deadlines count from when the rows are handed out."""
    for slot in slots:
        if slot.episode.due is not None:
            slot.episode.restart_clock()
