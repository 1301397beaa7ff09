"""What every vector does, whatever runs its environments: number the rows, keep order, mix nothing up."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from inspect import iscoroutine
from types import TracebackType
from typing import Any, NamedTuple, Self

from envweave.core.flows import Blueprint
from envweave.errors import BusyError, ClosedError, EnvError, EnvWeaveError, UsageError, WaitTimeoutError, describe
from envweave.vector.arguments import chosen_ids, chosen_seeds, matched_actions, naming, seconds
from envweave.vector.batch import ResetBatch, StepBatch
from envweave.vector.slot import Slot, log

Actions = Sequence[Any] | dict[int, Any]


class Call(NamedTuple):
    """Something to run for one environment, and the row to give if no answer ever comes."""

    id: int
    slot: Slot
    run: Callable[[], Any]
    lost: Callable[[EnvError], Any]


class Row(NamedTuple):
    """One answer, with the identity that tells it from a late one."""

    id: int
    incarnation: int
    step: int
    result: Any


class VectorEnv(ABC):
    """`num_envs` independent environments. Two ways to drive it:

    barrier       `reset(seed=…)`, then `step(actions)`: lists of length `num_envs`
    ready-first   `send(actions, ids)`, then `recv(min_ready=…, timeout=…)`: whoever has finished

    A wrong call raises a `UsageError` before any environment has changed. An environment that fails costs its own row:
    `reward` None, `episode_end(reason="infra_error")`, the reason in `failures`; it is rebuilt for its next reset.
    There is one call under way for each environment at most. Call from one thread.
    """

    def __init__(self, plans: Sequence[tuple[Blueprint, str]]) -> None:
        self._slots: list[Slot] = []
        self._done: dict[int, Row] = {}
        """Answers that nobody has received yet, in the order they came."""
        self._in_flight: set[int] = set()
        """Environments whose answer nobody has received yet."""
        self._awaited: list[int] | None = None
        """Whom `step_wait` waits for."""
        self._closed = False
        # All environments first, then what we keep of each: side by side in memory, not scattered between the
        # environments' own objects, where stepping through hundreds of them misses the cache more often.
        built: list[Any] = []
        try:
            for plan, _ in plans:
                built.append(plan.build())
            self._slots = [Slot(plan, id, env) for (plan, id), env in zip(plans, built, strict=True)]
            self._timed = any(slot.env.referee.timed for slot in self._slots)
        except BaseException:
            for env in built:
                _close_quietly(env)
            raise

    # For a backend to fill in.

    @abstractmethod
    def _dispatch(self, call: Call) -> None:
        """Have the call run, now or soon."""

    @abstractmethod
    def _wait(self, wanted: set[int], count: int, timeout: float | None) -> None:
        """Return when `count` of the wanted are in `_done`, or the time is over."""

    def _stop(self, timeout: float) -> set[int]:
        """End what runs and close the environments; give back those that are stuck in a call."""
        self._close_slots(range(len(self._slots)))
        return set()

    @property
    def num_envs(self) -> int:
        return len(self._slots)

    @property
    def ids(self) -> list[str]:
        """The instance IDs, e.g. `counter-v0#3` for environment 3; the `env_id` of its requests."""
        return [slot.id for slot in self._slots]

    @property
    def in_flight(self) -> list[int]:
        """The environments that were sent something and whose answer was not received yet."""
        return sorted(self._in_flight)

    @property
    def transform(self) -> Any:
        """Each environment has its own, from when it is built: setting it here raises `UsageError`."""
        raise UsageError("a vector has no transform", "give it to each environment: make_vector(…, transform=…)")

    @transform.setter
    def transform(self, transform: Any) -> None:
        _ = self.transform

    # Barrier ...

    def reset(
        self,
        *,
        ids: Sequence[int] | None = None,
        seed: int | Sequence[int] | None = None,
        options: dict[str, Any] | None = None,
        **own: Any,
    ) -> ResetBatch:
        """Begin an episode in all environments or in those named; with `seed=s` environment `i` gets `s + i`."""
        chosen = chosen_ids(ids, len(self._slots))
        calls = self._reset_calls(chosen, seed, options, own)
        try:
            self._dispatch_all(calls)
        except BaseException:  # Ctrl-C in the middle: what has begun can be reset again
            self._received(self._done.keys() & set(chosen))
            raise
        return ResetBatch(*_columns(self._collect(chosen, None)))

    def step(self, actions: Actions, ids: Sequence[int] | None = None, *, timeout: float | None = None) -> StepBatch:
        """Step all environments, or those named, and wait for all of them; rows are in the order of `ids`.

        Raises `WaitTimeoutError` if they are not ready in time: nothing is lost, `step_wait` gives it.
        """
        self.step_async(actions, ids)
        return self.step_wait(timeout=timeout)

    def step_async(self, actions: Actions, ids: Sequence[int] | None = None) -> None:
        self._check_no_step_wait()
        chosen, listed = matched_actions(actions, ids, len(self._slots))
        self._dispatch_all(self._step_calls(chosen, listed))
        self._awaited = chosen

    def step_wait(self, *, timeout: float | None = None) -> StepBatch:
        """The batch of the last `step_async`; after a `WaitTimeoutError` it may be called again."""
        if self._awaited is None:
            raise UsageError("step_wait without step_async", "call step_async(actions) first")
        rows = self._collect(self._awaited, seconds(timeout))
        self._awaited = None
        return StepBatch(*_columns(rows))

    def respond(self, id: int, request_id: str, value: Any) -> StepBatch:
        """Answer a `tool_call` of one environment and wait for the rest of its step."""
        self.send_response(id, request_id, value)
        return StepBatch(*_columns(self._collect([id], None)))

    # ... and ready-first.

    def send(self, actions: Actions, ids: Sequence[int] | None = None) -> None:
        """Give each environment named its action, without waiting for it."""
        self._dispatch_all(self._step_calls(*matched_actions(actions, ids, len(self._slots))))

    def send_reset(
        self,
        ids: Sequence[int] | None = None,
        *,
        seed: int | Sequence[int] | None = None,
        options: dict[str, Any] | None = None,
        **own: Any,
    ) -> None:
        """Have environments begin an episode, without waiting; `recv` gives a `ResetResult` for each."""
        self._dispatch_all(self._reset_calls(chosen_ids(ids, len(self._slots)), seed, options, own))

    def send_response(self, id: int, request_id: str, value: Any) -> None:
        """Answer a `tool_call` of one environment, without waiting; `recv` gives the rest of its step."""
        (id,) = chosen_ids([id], len(self._slots))
        self._check_idle([id])
        slot = self._slots[id]
        with naming(id):
            slot.env.referee.admit_reply(request_id)
        self._dispatch_all([Call(id, slot, partial(slot.respond, request_id, value), slot.lose_step)])

    def recv(self, *, min_ready: int = 1, max_ready: int | None = None, timeout: float | None = None) -> StepBatch:
        """Wait until `min_ready` answers are there; take all that are, at most `max_ready`, in the order they came.

        When the time is over it returns what there is, perhaps nothing; the rest stays in flight and loses nothing.
        With nothing in flight it returns at once.
        """
        self._check_open()
        if not isinstance(min_ready, int) or min_ready < 0 or (max_ready is not None and max_ready < max(min_ready, 1)):
            raise UsageError(f"min_ready={min_ready!r}, max_ready={max_ready!r}", "use 0 ≤ min_ready ≤ max_ready")
        waiting = self._in_flight.difference(self._awaited or ())
        self._wait(waiting, min(min_ready, len(waiting)), seconds(timeout))
        ready = [id for id in self._done if id in waiting]
        return StepBatch(*_columns(self._received(ready[:max_ready])))

    # The way of a call.

    def _step_calls(self, chosen: list[int], actions: Sequence[Any]) -> list[Call]:
        slots = [self._slots[id] for id in chosen]
        calls = []
        for id, slot, native in zip(chosen, slots, self._admitted(chosen, slots, actions), strict=True):
            calls.append(Call(id, slot, partial(slot.step, native), slot.lose_step))
        return calls

    def _reset_calls(
        self, chosen: list[int], seed: int | Sequence[int] | None, options: dict[str, Any] | None, own: dict[str, Any]
    ) -> list[Call]:
        self._check_idle(chosen)
        calls = []
        for id, own_seed in zip(chosen, chosen_seeds(seed, chosen), strict=True):
            slot = self._slots[id]
            arguments = {"seed": own_seed, "options": options, **own}
            with naming(id):
                slot.admit_reset(arguments)
            calls.append(Call(id, slot, partial(slot.reset, arguments), slot.lose_reset))
        return calls

    def _admitted(self, chosen: list[int], slots: list[Slot], actions: Sequence[Any]) -> list[Any]:
        """The actions as the environments take them; all are looked at before any is used."""
        self._check_idle(chosen)
        try:
            return [slot.env.referee.admit(action) for slot, action in zip(slots, actions, strict=True)]
        except UsageError:  # once more, to say which one it was, or to find that all of them are recovering
            return [self._admit(id, action) for id, action in zip(chosen, actions, strict=True)]

    def _admit(self, id: int, action: Any) -> Any:
        with naming(id):
            return self._slots[id].admit(action)

    def _dispatch_all(self, calls: list[Call]) -> None:
        for call in calls:
            self._in_flight.add(call.id)
            try:
                self._dispatch(call)
            except BaseException:
                self._in_flight.discard(call.id)
                raise

    def _collect(self, chosen: list[int], timeout: float | None) -> list[Row]:
        """All of the chosen, in their order."""
        wanted = set(chosen)
        self._wait(wanted, len(chosen), timeout)
        missing = sorted(wanted - self._done.keys())
        if missing:
            raise WaitTimeoutError(f"{len(missing)} of {len(chosen)} environments have not answered: {missing[:8]}")
        return self._received(chosen)

    def _received(self, ids: Iterable[int]) -> list[Row]:
        """Hand out rows; the time for an answer counts from here."""
        rows = [self._done.pop(id) for id in ids]
        for row in rows:
            self._in_flight.discard(row.id)
            referee = self._slots[row.id].env.referee
            if referee.due is not None:
                referee.restart_clock()
        return rows

    def _row(self, id: int, result: Any) -> Row:
        slot = self._slots[id]
        return Row(id, slot.incarnation, slot.env.referee.step_count, result)

    def _check_no_step_wait(self) -> None:
        if self._awaited is not None:
            raise BusyError(f"step_wait is due for {self._awaited[:8]}", "call step_wait first")

    def _check_open(self) -> None:
        if self._closed:
            raise ClosedError("the vector is closed", "make a new one")

    def _check_idle(self, chosen: list[int]) -> None:
        self._check_open()
        busy = self._in_flight.intersection(chosen) if self._in_flight else ()
        if busy:
            raise BusyError(f"environments {sorted(busy)[:8]} have not answered yet", "receive their answers first")

    # The end.

    def close(self, *, timeout: float = 5.0) -> list[int]:
        """Close all environments; twice is harmless. Returns those that are stuck in a call and could not be closed.

        `inproc` closes them in your thread; `thread` waits `timeout` seconds at most.
        """
        if self._closed:
            return []
        self._closed = True
        return sorted(self._stop(seconds(timeout) or 0.0))

    def _close_slots(self, ids: Iterable[int]) -> None:
        interrupted = None
        for id in ids:
            try:
                self._slots[id].env.close()
            except EnvWeaveError as error:
                log.warning("%s did not close: %s", self._slots[id].id, error.message)
            except KeyboardInterrupt as error:
                interrupted = error
        if interrupted is not None:
            raise interrupted

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.num_envs}: {self._slots[0].id} …>"


def _close_quietly(env: Any) -> None:
    """Close an environment that never became part of a vector, whatever it says to that."""
    try:
        close = getattr(env, "close", None)
        answer = close() if callable(close) else None
        if iscoroutine(answer):  # nobody will wait for it
            answer.close()
    except Exception as error:
        log.warning("an environment did not close: %s", describe(error))


def _columns(rows: list[Row]) -> tuple[list[int], list[int], list[int], list[Any]]:
    return [r.id for r in rows], [r.incarnation for r in rows], [r.step for r in rows], [r.result for r in rows]
