"""Many sessions on one connection a server: one message for all its actions of a step, and answers as they come."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Coroutine, Sequence
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple

from envweave.client.call import Call
from envweave.client.crew import Crew
from envweave.client.slot import RemoteSlot, Work
from envweave.client.stream import StreamSession, batch_message
from envweave.core.loop import BACKGROUND
from envweave.errors import (
    BatchRefusedError,
    ClosedError,
    EnvWeaveError,
    SessionLostError,
    UsageError,
    describe,
)
from envweave.vector import base
from envweave.vector.arguments import naming
from envweave.vector.base import VectorEnv

log = logging.getLogger(__name__)


class Refusal(NamedTuple):
    """A batch of which nothing was used."""

    ids: tuple[int, ...]
    id: int
    error: UsageError


class Batch:
    """What was sent together. Refused is the whole of it or nothing: a single refusal is the row of its environment."""

    def __init__(self, works: list[tuple[int, RemoteSlot, Work]]) -> None:
        self.works = works
        self.accepted = False
        self.refused: dict[int, UsageError] = {}

    def refusal(self) -> Refusal | None:
        """Why nothing of this was used, once that is sure."""
        if self.accepted or len(self.refused) < sum(work.kind != "recover" for _, _, work in self.works):
            return None
        order = [id for id, _, _ in self.works if id in self.refused]
        guilty = [id for id in order if not isinstance(self.refused[id], BatchRefusedError)]
        id = (guilty or order)[0]
        return Refusal(tuple(id for id, _, _ in self.works), id, self.refused[id])


class RemoteVector(VectorEnv):
    """Environments on one server or several, which step them side by side.

    A refused action is found by the server: `step` and `recv` raise it, and then no environment of that batch has
    changed; with several servers that holds for those of one, and where others went on it is the row's own failure. A
    session that is lost costs its row and is opened anew for its next reset, on a server that is started again if it
    was started for us and is gone.
    """

    def __init__(self, crew: Crew, *, autoreset: bool) -> None:
        super().__init__([])
        self._crew = crew
        self._pid = os.getpid()
        self._answers: SimpleQueue[list[tuple[int, Any] | Refusal]] = SimpleQueue()
        self._gathered: list[tuple[int, Any] | Refusal] = []
        self._autoreset = autoreset
        self._refusals: list[Refusal] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._remote = [RemoteSlot(session, autoreset=autoreset) for session in crew.sessions]
        self._slots = self._remote  # type: ignore[assignment]  # they have all members that the base wants

    def _check_open(self) -> None:
        super()._check_open()
        if self._pid != os.getpid():
            raise ClosedError("the connection of this vector is in another process", "make a vector after the fork")

    def _dispatch_all(self, calls: list[base.Call]) -> None:
        works = [(call.id, self._remote[call.id], call.run()) for call in calls]
        self._in_flight.update(call.id for call in calls)
        if works:
            BACKGROUND.loop.call_soon_threadsafe(self._begin, Batch(works))

    def _dispatch(self, call: base.Call) -> None:
        self._dispatch_all([call])

    def _wait(self, wanted: set[int], count: int, timeout: float | None) -> None:
        """Only ever waits for the queue; an answer that comes after the time stays there."""
        end = None if timeout is None else time.monotonic() + timeout
        while True:
            self._drain()
            if self._refusals:
                refusal = self._refusals.pop(0)
                with naming(refusal.id):
                    raise refusal.error
            left = None if end is None else end - time.monotonic()
            if len(wanted & self._done.keys()) >= count or (left is not None and left <= 0):
                return
            try:
                self._take(self._answers.get(timeout=left))
            except Empty:
                pass

    def _drain(self) -> None:
        try:
            while True:
                self._take(self._answers.get_nowait())
        except Empty:
            pass

    def _take(self, answers: list[tuple[int, Any] | Refusal]) -> None:
        for answer in answers:
            if not isinstance(answer, Refusal):
                self._done[answer[0]] = self._row(*answer)
                continue
            self._refusals.append(answer)
            self._in_flight.difference_update(answer.ids)
            if set(answer.ids).intersection(self._awaited or ()):
                self._awaited = None

    def _stop(self, timeout: float) -> set[int]:
        if self._pid != os.getpid():
            return set()
        return BACKGROUND.run(self._close_all(timeout))

    # On the loop.

    def _begin(self, batch: Batch) -> None:
        steps: list[tuple[StreamSession, Call]] = []
        for id, slot, work in batch.works:
            if work.kind == "reset":
                self._spawn(self._reset(batch, id, slot, work))
            elif work.kind != "recover":
                call = Call(work.kind, work.body)
                call.then = partial(self._answered, batch, id, slot)
                try:
                    slot.session.enlist(call)
                    steps.append((slot.session, call))
                except SessionLostError as error:
                    call.fail(error)
        for group in self._crew.by_server(steps):
            self._send(group)
        if all(work.kind == "recover" for _, _, work in batch.works):
            self._accept(batch)

    def _send(self, calls: Sequence[tuple[StreamSession, Call]]) -> None:
        if len(calls) == 1:
            ((session, call),) = calls
            message = session.message(call)
        else:
            for _, call in calls:
                call.companions = calls
            message = batch_message(calls)
        if all(session.up for session, _ in calls):  # else they are sent when all are up again
            calls[0][0].channel.say(message)

    def _answered(self, batch: Batch, id: int, slot: RemoteSlot, call: Call) -> None:
        try:
            result = slot.read(call)
        except UsageError as error:
            self._refuse(batch, id, error)
        except EnvWeaveError as error:
            self._accept(batch)
            result = slot.failed(error)
            self._follow(id, slot, result)
        else:
            self._accept(batch)
            if slot.recovering:
                self._follow(id, slot, result)
            else:
                self._emit((id, result))

    def _follow(self, id: int, slot: RemoteSlot, result: Any) -> None:
        """After a failure, the next episode if it is to begin by itself."""
        if self._autoreset:
            self._spawn(self._emit_later(id, slot.begin_next(result)))
        else:
            self._emit((id, result))

    async def _reset(self, batch: Batch, id: int, slot: RemoteSlot, work: Work) -> None:
        try:
            result = await slot.reset_row(work.options)
        except UsageError as error:
            self._refuse(batch, id, error)
        else:
            self._accept(batch)
            self._emit((id, result))

    async def _emit_later(self, id: int, row: Coroutine[Any, Any, Any]) -> None:
        self._emit((id, await row))

    def _refuse(self, batch: Batch, id: int, error: UsageError) -> None:
        batch.refused[id] = error
        refusal = batch.refusal()
        if refusal is not None:
            self._emit(refusal)
        elif batch.accepted:
            self._emit_refused(batch)

    def _accept(self, batch: Batch) -> None:
        """Something of the batch was used: rows that wait for that can go on."""
        if batch.accepted:
            return
        batch.accepted = True
        for id, slot, work in batch.works:
            if work.kind == "recover":
                self._spawn(self._emit_later(id, slot.recover()))
        self._emit_refused(batch)

    def _emit_refused(self, batch: Batch) -> None:
        refused, batch.refused = batch.refused, {}
        works = {id: (slot, work) for id, slot, work in batch.works}
        for id, error in refused.items():
            slot, work = works[id]
            self._emit((id, slot.lose_reset(error) if work.kind == "reset" else slot.failed(error)))

    def _emit(self, answer: tuple[int, Any] | Refusal) -> None:
        """Hand over what has come in this turn of the loop all at once: the caller is woken once."""
        if not self._gathered:
            BACKGROUND.loop.call_soon(self._hand_over)
        self._gathered.append(answer)

    def _hand_over(self) -> None:
        gathered, self._gathered = self._gathered, []
        self._answers.put(gathered)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        self._tasks.add(task := BACKGROUND.loop.create_task(_logged(work)))
        task.add_done_callback(self._tasks.discard)

    async def _close_all(self, timeout: float) -> set[int]:
        closing = {asyncio.ensure_future(slot.close()): id for id, slot in enumerate(self._remote)}
        _, stuck = await asyncio.wait(closing, timeout=timeout)
        for task in (*stuck, *self._tasks):
            task.cancel()
        await self._crew.leave()
        return {closing[task] for task in stuck}


async def _logged(work: Coroutine[Any, Any, None]) -> None:
    try:
        await work
    except Exception as error:  # nobody waits for the task itself
        log.exception("a row was lost: %s", describe(error))
