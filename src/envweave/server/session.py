"""One environment, leased to one client: its calls are numbered, run one at a time, and each of them once."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from time import monotonic
from typing import Any, ClassVar

from envweave.chat import Chat
from envweave.core.referee import AFTER_END
from envweave.errors import BusyError, EnvError, EnvWeaveError, ProtocolError, ResetNeededError, SessionLostError
from envweave.requests import EpisodeEnd
from envweave.server.claim import Claim
from envweave.server.host import Form, Reply, fault
from envweave.server.metrics import Metrics
from envweave.server.outcomes import end_reasons
from envweave.server.runners import Runner, ThreadRunner, broken_off
from envweave.server.shelf import SessionShelf

log = logging.getLogger(__name__)

Receiver = Callable[[Reply], None]

TOOL_CALLS = frozenset({"tools", "call_tool"})
"""They come from beside the one who plays, have no numbers, and the first of them may begin an episode."""

MOST_WAITING = 1000
"""Calls that wait for their turn on one environment; one more is refused."""

BRISK = 0.05
"""Seconds; a client that steps more often is worth the short way."""


@dataclass(frozen=True, kw_only=True)
class Opening:
    """What a client may choose when it opens a session."""

    env_id: str
    autoreset: bool = False
    chat: Chat | None = None
    deadline: float | None = None
    max_episode_steps: int | None = None
    arguments: dict[str, Any]

    @property
    def limits(self) -> dict[str, Any]:
        return {"deadline": self.deadline, "max_episode_steps": self.max_episode_steps}


class Session:
    """But for `step_here`, all methods are for the loop's thread. A receiver gets its reply there, exactly once."""

    taken: ClassVar[Reply] = Reply("taken", b"")

    def __init__(
        self,
        id: str,
        opening: Opening,
        runner: Runner,
        shelf: SessionShelf,
        rebuild: Callable[[Session], Awaitable[Runner]],
        loop: asyncio.AbstractEventLoop,
        metrics: Metrics,
    ) -> None:
        self.id = id
        self.key = ""
        """The client's own name for the session."""
        self.opening = opening
        self.shelf = shelf
        self.owner: Any = None
        """The connection that uses the session; None if it waits for one."""
        self.lease: float | None = None
        """How long it may wait untouched; None for ever."""
        self.began: float | None = None
        """When the call that runs was begun, by the monotonic clock, which is finer than the loop's."""
        self.shared = False
        """Several clients use it: the server was given an instance, which is the only environment there is."""
        self.reserved_until = 0.0
        """By the loop's clock: until then it waits for the client whose connection dropped."""
        self.sharers = 0
        """Clients over HTTP that have not left; while there are any, nobody else's leaving closes the session."""
        self.closed = False
        self.extra = False
        """It takes none of the places for sessions."""
        self.closes_when_left = False
        """It is closed as soon as the connection that uses it leaves."""
        self.leaving = False
        """Closed, or about to be."""
        self.last_id = 0
        self._runner: Runner | None = runner
        self._rebuild = rebuild
        self._loop = loop
        self._metrics = metrics
        self._last: Reply | None = None
        self._number: int | None = None
        """Of the call that runs, or ran last; None if it had none."""
        self._episode: str | None = None
        self._call = ""
        self._turn = 0
        self._pause = BRISK
        """Seconds between the last two calls."""
        self._receivers: list[Receiver] = []
        self._queue: deque[Callable[[], None]] = deque()
        """The calls that wait for their turn, in the order in which they came."""
        self._waking = False
        self._idle = [None]
        """Empty while a call runs."""
        self.touched = loop.time()

    @property
    def env_id(self) -> str:
        return self.opening.env_id

    @property
    def runner(self) -> Runner | None:
        """None if the environment was lost; the next reset builds another."""
        return self._runner

    def call(
        self,
        name: str,
        data: Any,
        form: Form,
        receiver: Receiver,
        number: int | None = None,
        work: Callable[[], Awaitable[Reply]] | None = None,
    ) -> None:
        """Run a call. A number that was used already gives the answer of that call and runs nothing.

        `work` is what to do where the call takes more than the environment can do alone. Calls of tools wait for their
        turn, and others wait for them: who calls tools is not who plays, and neither knows of the other. So do calls
        without a number on a shared session.
        """
        patient = name in TOOL_CALLS or (self.shared and number is None)
        if number is not None and number == self.last_id == self._number:
            self._again(receiver)
            return
        if self.began is not None and not self.closed and (patient or self._call in TOOL_CALLS):
            self._wait_turn(partial(self.call, name, data, form, receiver, number, work), receiver)
            return
        refusal = self._refusal(number)
        if refusal is None and not self._acquire():  # the express came first
            if patient:
                self._loop.call_soon(partial(self.call, name, data, form, receiver, number, work))
                return
            refusal = self._busy()
        elif refusal is None and not self._is_next(number):  # and has even finished
            self._idle.append(None)
            self._again(receiver)
            return
        if refusal is not None:
            receiver(fault(refusal, episode=self._episode))
            return
        self._receivers = [receiver]
        self._begin(name, number)
        if self._runner is None and name != "reset":
            over = ResetNeededError(
                f"the episode of {self.env_id} is over",
                AFTER_END,
            )
            self._finish(self._turn, fault(over))
        elif work is not None:
            self._loop.create_task(self._do(work))
        elif self._runner is not None:
            self._runner.start(name, data, form, partial(self._finish, self._turn))
        else:
            self._loop.create_task(self._start_anew(name, data, form))

    def _begin(self, name: str, number: int | None) -> int:
        """A call starts; gives the turn by which its answer is known from a late one."""
        if number is not None:
            self.last_id = number
        if name not in TOOL_CALLS:  # in between, the answer of a numbered call is still there to be asked for again
            self._number, self._last = number, None
        self._call = name
        now = monotonic()
        self._pause, self.touched, self.began = now - self.touched, now, now
        self._turn += 1
        return self._turn

    def restart_numbers(self) -> None:
        """Another client has the session now, and numbers its calls from 1."""
        self.last_id, self._number = 0, None

    def _is_next(self, number: int | None) -> bool:
        return number is None or number == self.last_id + 1

    def refuse(self, number: int | None, error: EnvWeaveError) -> Reply:
        """Answer a call with an error without running anything. Its number counts as used."""
        reply = fault(error, episode=self._episode)
        if number.__class__ is int and self._is_next(number) and self.began is None:
            self.last_id = self._number = number
            self._last = reply
        return reply

    @property
    def is_quick(self) -> bool:
        """Whether the next step is expected at once, and its answer too."""
        return self._call == "step" and self._pause < BRISK and self.is_quick_here

    @property
    def is_quick_here(self) -> bool:
        """Whether a step can be run by `step_here`, and is expected to answer at once."""
        runner = self._runner
        return self.began is None and not self.closed and isinstance(runner, ThreadRunner) and runner.quick

    def step_here(self, action: Any, form: Form, claim: Claim, number: int | None = None) -> Reply | None:
        """Run a step in the caller's thread, which is the express's. None if it is not to be run this way.

        Where the loop takes the call over before it has ended, its reply goes to whoever waits there, and `taken`
        is returned.
        """
        runner = self._runner
        if not isinstance(runner, ThreadRunner) or not self._acquire():
            return None
        self.began = monotonic()
        if self.closed or not self._is_next(number):  # looked at last: whoever closes a session looks at `began` last
            self.began = None
            self._idle.append(None)
            return None
        turn = self._begin("step", number)
        claim.begin()
        try:
            answer: Reply | EnvWeaveError = runner.step_here(action, form)
        except BaseException as error:  # as on the usual way: whatever it was, the environment is lost
            answer = broken_off(error)
        if not claim.take():
            self._loop.call_soon_threadsafe(self._finish, turn, answer)
            return self.taken
        reply = self._lost(answer) if isinstance(answer, EnvWeaveError) else answer
        self._settle(reply)
        if self._receivers or self._queue:
            self._loop.call_soon_threadsafe(self._deliver, reply)
        return reply

    def wait(self, receiver: Receiver) -> None:
        """Have the reply of the step that runs, which was taken from `step_here`, or has run meanwhile."""
        if self._last is not None:
            receiver(self._last)
        else:
            self._receivers.append(receiver)

    def _wait_turn(self, call: Callable[[], None], receiver: Receiver) -> None:
        """Make a call when those before it have ended; the last may be the express's, and have ended meanwhile."""
        if len(self._queue) >= MOST_WAITING:
            error = BusyError(f"{MOST_WAITING} calls on {self.env_id} are waiting already", "make fewer at once")
            receiver(fault(error, episode=self._episode))
            return
        self._queue.append(call)
        self._wake()

    def _wake(self) -> None:
        """Let the next of those who wait begin; one that is refused does not keep the others waiting."""
        if self._waking:  # it has ended at once, and the loop below goes on
            return
        self._waking = True
        try:
            while self._queue and self.began is None:
                self._queue.popleft()()
        finally:
            self._waking = False

    def _again(self, receiver: Receiver) -> None:
        self.touched = monotonic()
        if self._last is not None:
            receiver(self._last)
        else:
            self._receivers.append(receiver)

    def _refusal(self, number: int | None) -> EnvWeaveError | None:
        if self.closed:
            return SessionLostError(f"the session of {self.env_id} is closed", "open another")
        if self.began is not None:
            return self._busy()
        if not self._is_next(number):
            return ProtocolError(f"call {number} after call {self.last_id}", "number calls 1, 2, 3, …")
        return None

    def _busy(self) -> BusyError:
        return BusyError(f"a call on {self.env_id} is still running", "one call at a time on one environment")

    def _acquire(self) -> bool:
        """One call at a time, also between threads: taking from a list is one operation."""
        try:
            self._idle.pop()
        except IndexError:
            return False
        return True

    async def _start_anew(self, name: str, data: Any, form: Form) -> None:
        """The environment was lost: build another, then run the call on it."""
        turn = self._turn
        try:
            runner = await self._rebuild(self)
        except EnvWeaveError as error:
            self._finish(turn, fault(error))
            return
        if self._turn == turn and not self.closed:
            self._runner = runner
            runner.start(name, data, form, partial(self._finish, turn))
        else:
            runner.abandon()
            self._finish(turn, fault(SessionLostError(f"the session of {self.env_id} is closed")))

    async def _do(self, work: Callable[[], Awaitable[Reply]]) -> None:
        turn = self._turn
        try:
            reply = await work()
        except EnvWeaveError as error:
            reply = fault(error, episode=self._episode)
        self._finish(turn, reply)

    def _finish(self, turn: int, answer: Reply | EnvWeaveError) -> None:
        if turn != self._turn or self.began is None:
            return  # the late answer of a call that was given up
        reply = self._lost(answer) if isinstance(answer, EnvWeaveError) else answer
        self._settle(reply)
        self._deliver(reply)

    def _settle(self, reply: Reply) -> None:
        """The call has ended."""
        self._metrics.called(self._call, monotonic() - (self.began or 0.0), reply.code)
        if reply.episode is None or reply.episode != self._episode or self._call == "reset":
            self.count_ends(self._call, reply)
        self._episode = reply.episode
        if self._call not in TOOL_CALLS:
            self._last = reply
        self.began = None
        self._idle.append(None)

    def count_ends(self, call: str, reply: Reply) -> None:
        """Count the episodes that a call ended. Call it for `close`; other calls are counted when they end."""
        for reason in end_reasons(call, self._episode, reply):
            self._metrics.episodes[reason] += 1

    def _deliver(self, reply: Reply) -> None:
        receivers, self._receivers = self._receivers, []
        for receiver in receivers:
            receiver(reply)
        self._wake()

    def _lost(self, error: EnvWeaveError) -> Reply:
        """The environment is gone in the middle of a call: its episode ends without a score."""
        self._runner = None
        log.warning("environment lost", extra={"session": self.id[:8], "env_id": self.env_id, "error": error.message})
        if self._episode is not None:
            info = {"error": error.to_data()}
            end = EpisodeEnd(env_id=self.env_id, reason="infra_error", final_info=info, episode_id=self._episode)
            error.requests = (end,)
        return fault(error)

    def resume_at(self, episode: str | None) -> None:
        """The environment was put into the middle of an episode."""
        self._episode = episode

    def give_up(self, reason: str) -> None:
        """Break off the call that runs, because it takes too long."""
        if self.began is None:
            return
        if self._runner is not None:
            self._runner.abandon()
        self._finish(self._turn, EnvError(f"{self._call} of {self.env_id} {reason}"))

    async def settled(self) -> None:
        """Wait for the call that runs."""
        if self.began is not None:
            done = self._loop.create_future()
            self._receivers.append(lambda reply: give(done, reply))
            await done

    @property
    def episode(self) -> str | None:
        """The episode under way."""
        return self._episode


def give(future: asyncio.Future[Any], answer: Any) -> None:
    """Resolve a future, unless whoever waited for it has gone."""
    if not future.done():
        future.set_result(answer)
