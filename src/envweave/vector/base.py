"""What every vector does, whatever runs its environments: number the rows, keep order, mix nothing up."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from types import TracebackType
from typing import Any, NamedTuple, Self

from envweave.core.local import Blueprint, LocalEnv
from envweave.errors import (
    BusyError,
    ClosedError,
    EnvError,
    EnvWeaveError,
    ResetNeededError,
    UsageError,
    WaitTimeoutError,
)
from envweave.vector.batch import ResetBatch, StepBatch
from envweave.vector.slot import Slot


class Call(NamedTuple):
    """Something to run for one environment, and the row to give if no answer ever comes."""

    id: int
    env: LocalEnv
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
        self._in_flight: set[int] = set()
        """Environments whose answer nobody has received yet."""
        self._awaited: list[int] = []
        """Whom `step_wait` waits for."""
        self._closed = False
        try:
            for plan, id in plans:
                self._slots.append(Slot(plan, id))
        except BaseException:
            self._close_slots(range(len(self._slots)))
            raise

    # For a backend to fill in.

    @abstractmethod
    def _dispatch(self, call: Call) -> None:
        """Have the call run, now or soon."""

    @abstractmethod
    def _ready(self, wanted: set[int], count: int, timeout: float | None) -> list[Row]:
        """Wait until `count` of the wanted are ready or the time is over; take all wanted that are ready."""

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
        chosen = self._chosen(ids)
        self._send_reset(chosen, seed, options, own)
        return ResetBatch(*_columns(self._collect(chosen, None)))

    def step(
        self, actions: Sequence[Any] | dict[int, Any], ids: Sequence[int] | None = None, *, timeout: float | None = None
    ) -> StepBatch:
        """Step all environments, or those named, and wait for all of them; rows are in the order of `ids`.

        Raises `WaitTimeoutError` if they are not ready in time: nothing is lost, `step_wait` or `recv` gives it.
        """
        self.step_async(actions, ids)
        return self.step_wait(timeout=timeout)

    def step_async(self, actions: Sequence[Any] | dict[int, Any], ids: Sequence[int] | None = None) -> None:
        if self._awaited:
            raise BusyError(f"step_wait is due for {self._awaited}", "call step_wait first")
        chosen, listed = self._matched(actions, ids)
        self._send(chosen, listed)
        self._awaited = chosen

    def step_wait(self, *, timeout: float | None = None) -> StepBatch:
        """The batch of the last `step_async`; after a `WaitTimeoutError` it may be called again."""
        if not self._awaited:
            raise UsageError("step_wait without step_async", "call step_async(actions) first")
        rows = self._collect(self._awaited, timeout)
        self._awaited = []
        return StepBatch(*_columns(rows))

    # ... and ready-first.

    def send(self, actions: Sequence[Any] | dict[int, Any], ids: Sequence[int] | None = None) -> None:
        """Give each environment named its action, without waiting for it."""
        self._send(*self._matched(actions, ids))

    def send_reset(
        self,
        ids: Sequence[int] | None = None,
        *,
        seed: int | Sequence[int] | None = None,
        options: dict[str, Any] | None = None,
        **own: Any,
    ) -> None:
        """Have environments begin an episode, without waiting; `recv` gives a `ResetResult` for each."""
        self._send_reset(self._chosen(ids), seed, options, own)

    def recv(self, *, min_ready: int = 1, max_ready: int | None = None, timeout: float | None = None) -> StepBatch:
        """Wait until `min_ready` answers are there; take all that are, at most `max_ready`, in the order they came.

        When the time is over it returns what there is, perhaps nothing; the rest stays in flight and loses nothing.
        With nothing in flight it returns at once.
        """
        self._check_open()
        if min_ready < 0 or (max_ready is not None and max_ready < max(min_ready, 1)):
            raise UsageError(f"min_ready={min_ready}, max_ready={max_ready}", "use 0 ≤ min_ready ≤ max_ready")
        waiting = self._in_flight - set(self._awaited)
        rows = self._ready(waiting, min(min_ready, len(waiting)), timeout)
        if max_ready is not None:
            self._put_back(rows[max_ready:])
            rows = rows[:max_ready]
        self._in_flight.difference_update(row.id for row in rows)
        return StepBatch(*_columns(rows))

    @abstractmethod
    def _put_back(self, rows: list[Row]) -> None:
        """Keep rows that were ready but not asked for."""

    # The way of a call.

    def _send(self, chosen: list[int], actions: Sequence[Any]) -> None:
        natives = self._admitted(chosen, actions)
        self._in_flight.update(chosen)
        for id, native in zip(chosen, natives, strict=True):
            slot = self._slots[id]
            self._dispatch(Call(id, slot.env, partial(slot.step, native), slot.lose_step))

    def _send_reset(
        self, chosen: list[int], seed: int | Sequence[int] | None, options: dict[str, Any] | None, own: dict[str, Any]
    ) -> None:
        self._check_idle(chosen)
        if not (seed is None or isinstance(seed, int)) and len(seed) != len(chosen):
            raise UsageError(f"{len(seed)} seeds for {len(chosen)} environments", "give one seed, or one for each")
        calls = []
        for row, id in enumerate(chosen):
            slot = self._slots[id]
            own_seed = seed + id if isinstance(seed, int) else None if seed is None else seed[row]
            arguments = {"seed": own_seed, "options": options, **own}
            with _naming(id):
                slot.admit_reset(arguments)
            calls.append(Call(id, slot.env, partial(slot.reset, arguments), slot.lose_reset))
        self._in_flight.update(chosen)
        for call in calls:
            self._dispatch(call)

    def _admitted(self, chosen: list[int], actions: Sequence[Any]) -> list[Any]:
        """The actions as the environments take them; all are looked at before any is used."""
        self._check_idle(chosen)
        slots = self._slots
        try:
            return [slots[id].env.referee.admit(action) for id, action in zip(chosen, actions, strict=True)]
        except UsageError:  # once more, to say which one it was, or to find that all of them are recovering
            return [self._admit(id, action) for id, action in zip(chosen, actions, strict=True)]

    def _admit(self, id: int, action: Any) -> Any:
        with _naming(id):
            return self._slots[id].admit(action)

    def _collect(self, chosen: list[int], timeout: float | None) -> list[Row]:
        """All of the chosen, in their order."""
        rows = self._ready(set(chosen), len(chosen), timeout)
        if len(rows) < len(chosen):
            self._put_back(rows)
            missing = sorted(set(chosen) - {row.id for row in rows})
            raise WaitTimeoutError(f"{len(missing)} of {len(chosen)} environments have not answered: {missing[:8]}")
        self._in_flight.difference_update(chosen)
        by_id = {row.id: row for row in rows}
        return [by_id[id] for id in chosen]

    def _row(self, id: int, result: Any) -> Row:
        slot = self._slots[id]
        return Row(id, slot.incarnation, slot.env.referee.step_count, result)

    # What a caller may name.

    def _chosen(self, ids: Sequence[int] | None) -> list[int]:
        if ids is None:
            return list(range(len(self._slots)))
        chosen = [int(id) for id in ids]
        wrong = [id for id in chosen if not 0 <= id < len(self._slots)]
        if wrong or len(set(chosen)) != len(chosen):
            what = f"no environment {wrong[0]}" if wrong else f"an environment twice in {chosen}"
            raise UsageError(what, f"environments are numbered 0 to {len(self._slots) - 1}")
        return chosen

    def _matched(
        self, actions: Sequence[Any] | dict[int, Any], ids: Sequence[int] | None
    ) -> tuple[list[int], Sequence[Any]]:
        if isinstance(actions, dict) and ids is None:
            return self._chosen(list(actions)), list(actions.values())
        chosen = self._chosen(ids)
        if isinstance(actions, str | dict) or not hasattr(actions, "__len__"):
            raise UsageError(f"actions are a {type(actions).__name__}, not a list", "one action for each environment")
        if len(actions) != len(chosen):
            raise UsageError(
                f"{len(actions)} actions for {len(chosen)} environments", "one action for each environment"
            )
        return chosen, actions

    def _check_open(self) -> None:
        if self._closed:
            raise ClosedError("the vector is closed", "make a new one")

    def _check_idle(self, chosen: list[int]) -> None:
        self._check_open()
        if self._in_flight:
            busy = self._in_flight.intersection(chosen)
            if busy:
                raise BusyError(f"environments {sorted(busy)[:8]} have not answered yet", "receive their answers first")

    # The end.

    def close(self, *, timeout: float = 5.0) -> list[int]:
        """Close all environments within `timeout` seconds; twice is harmless.

        Returns those that could not be closed because a call on them does not return.
        """
        if self._closed:
            return []
        self._closed = True
        stuck = self._stop(timeout)
        self._close_slots(id for id in range(len(self._slots)) if id not in stuck)
        return sorted(stuck)

    def _stop(self, timeout: float) -> set[int]:
        """End what runs; give back the environments that are still in a call."""
        return set()

    def _close_slots(self, ids: Iterable[int]) -> None:
        for id in ids:
            try:
                self._slots[id].env.close()
            except EnvWeaveError as error:
                self._slots[id].complain(error)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.num_envs}: {self._slots[0].id} …>"


@contextmanager
def _naming(id: int) -> Iterator[None]:
    """Say in a usage error which environment it is about."""
    try:
        yield
    except UsageError as error:
        hint = f"reset(ids=[{id}]), or autoreset=True" if isinstance(error, ResetNeededError) else error.hint
        raise type(error)(f"environment {id}: {error.message}", hint) from None


def _columns(rows: list[Row]) -> tuple[list[int], list[int], list[int], list[Any]]:
    return [r.id for r in rows], [r.incarnation for r in rows], [r.step for r in rows], [r.result for r in rows]
