"""Where a session's environment runs: on a thread of the pool, on the loop, or in a process of its own.

A runner is for one environment and one call at a time. `start` returns at once; `done` is called on the loop, exactly
once.
"""

from __future__ import annotations

import asyncio
import multiprocessing
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from time import perf_counter
from typing import Any

from envweave.core.flow import call_it, run, run_async
from envweave.errors import EnvError, EnvWeaveError, ProviderError, UsageError, describe
from envweave.server.host import CheckedAction, Form, Host, Reply, fault
from envweave.server.shelf import SessionShelf
from envweave.server.threads import Threads
from envweave.server.worker import Question, Recipe, main, read_answer, to_bytes
from envweave.wire.codec import decode, encode
from envweave.wire.faults import fault_from_data
from envweave.wire.protocol import ERROR

Done = Callable[[Reply | EnvWeaveError], None]
"""Gets the reply, or why there is none and never will be: the environment is lost."""

Checked = Callable[[EnvWeaveError | None], None]
"""Gets the refusal of an action, or None."""

QUICK = 0.001
"""Seconds; an environment that answered faster is expected to do so again."""


class Runner(ABC):
    """Runs the calls on one environment."""

    @property
    @abstractmethod
    def multi_agent(self) -> bool: ...

    @property
    @abstractmethod
    def facts(self) -> dict[str, Any]:
        """What clients are told about the environment: its schemas, and whether it has several agents."""

    @abstractmethod
    def start(self, call: str, data: Any, form: Form, done: Done) -> None:
        """Run a call; `done` gets the reply, also that of a failure."""

    @abstractmethod
    def abandon(self) -> None:
        """Give the environment up, with the call that runs on it; its answer does not matter any more."""


class HostRunner(Runner):
    """For an environment in this process."""

    _host: Host

    @property
    def multi_agent(self) -> bool:
        return self._host.multi_agent

    @property
    def facts(self) -> dict[str, Any]:
        return self._host.facts

    def check(self, action: Any) -> CheckedAction:
        """Check an action without using it. Raises `UsageError`."""
        return self._host.check(action)


class ThreadRunner(HostRunner):
    """On the pool of threads, or on one thread that nothing else runs on."""

    quick = False
    """Whether the last call has answered at once."""

    def __init__(self, threads: Threads, host: Host, *, alone: bool = False) -> None:
        """`alone` says that the threads are this runner's own: they end with its environment."""
        self._threads = threads
        self._host = host
        self._alone = alone
        self._abandoned = False

    def start(self, call: str, data: Any, form: Form, done: Done) -> None:
        self._threads.submit(partial(self.run_here, call, data, form), partial(_deliver, done), quick=self.quick)
        if self._alone and call == "close":
            self._threads.end()

    def run_here(self, call: str, data: Any, form: Form) -> Reply:
        """Run a call in the caller's thread."""
        if call == "step":
            return self.step_here(data, form)
        began = perf_counter()
        reply = run(self._host.handling(call, data, form), call_it)
        self.quick = perf_counter() - began < QUICK and not self._alone
        if self._abandoned and call != "close":
            self._close_abandoned(form)
        return reply

    def step_here(self, action: Any, form: Form) -> Reply:
        """Run a step in the caller's thread."""
        began = perf_counter()
        reply = self._host.step(action, form)
        self.quick = perf_counter() - began < QUICK and not self._alone
        if self._abandoned:
            self._close_abandoned(form)
        return reply

    def _close_abandoned(self, form: Form) -> None:
        run(self._host.handling("close", None, form), call_it)

    def abandon(self) -> None:
        """A thread cannot be stopped: it goes on alone until its call returns, and closes the environment then."""
        self._abandoned = True
        if self._alone:
            self._threads.end()


class LoopRunner(HostRunner):
    """On the event loop, for environments that await."""

    def __init__(self, loop: asyncio.AbstractEventLoop, host: Host) -> None:
        self._loop = loop
        self._host = host
        self._task: asyncio.Task[Reply] | None = None

    def start(self, call: str, data: Any, form: Form, done: Done) -> None:
        self._task = self._loop.create_task(run_async(self._host.handling(call, data, form), call_it))
        self._task.add_done_callback(lambda task: _deliver(done, _outcome(task)))

    def abandon(self) -> None:
        if self._task is not None and not self._task.done():
            self._task.cancel()
            self._task.add_done_callback(self._close)

    def _close(self, _: asyncio.Task[Reply]) -> None:
        self._task = self._loop.create_task(run_async(self._host.handling("close", None, Form.EXTENDED), call_it))


class ProcessRunner(Runner):
    """In a process; a thread of the pool waits for its answer."""

    multi_agent = False
    facts: dict[str, Any] = {}  # noqa: RUF012  (replaced, never changed)

    def __init__(self, threads: Threads, recipe: Recipe, shelf: SessionShelf, *, timeout: float | None = None) -> None:
        """Start the process and wait until its environment is built. Blocks; raises what the factory raised."""
        self._threads = threads
        self._shelf = shelf
        self._env_id = recipe.env_id
        context = multiprocessing.get_context("forkserver")
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=main, args=(theirs, recipe), daemon=True)
        self._process.start()
        theirs.close()
        self._episode: str | None = None
        try:
            if not self._connection.poll(timeout):
                self._process.kill()
                self._end()
                raise EnvError(f"{recipe.plan.spec.id} was not built in {timeout:g} s")
            answer = read_answer(self._connection.recv_bytes())
        except (EOFError, OSError):
            self._end()
            raise ProviderError(f"the process of {self._env_id} died while it was built{self._how()}") from None
        if answer.type != "ready":
            self._end()
            raise fault_from_data(decode(answer.body))
        self.facts = decode(answer.body)
        self.multi_agent = self.facts["multi_agent"]

    def start(self, call: str, data: Any, form: Form, done: Done) -> None:
        self._threads.submit(partial(self._ask, call, data, form), partial(_deliver, done))

    def check_soon(self, action: Any, done: Checked) -> None:
        """Have the process check an action without using it. One that is lost refuses nothing: the step will tell."""

        def told(reply: Reply | EnvWeaveError) -> None:
            refused = isinstance(reply, Reply) and reply.type == ERROR
            done(fault_from_data(decode(reply.body)) if refused else None)  # type: ignore[union-attr]

        self.start("admit", action, Form.EXTENDED, told)

    def _ask(self, call: str, data: Any, form: Form) -> Reply:
        try:
            snapshot = self._shelf.get(data.get("snapshot")) if call == "restore" and isinstance(data, dict) else b""
            self._connection.send_bytes(to_bytes(Question(call, encode(data), form.value, snapshot)))
            answer = read_answer(self._connection.recv_bytes())
            body = answer.body
            if answer.snapshot:
                body = encode({**decode(body), "snapshot": self._shelf.put(answer.snapshot)})
        except UsageError as error:  # of the shelf; the process is sound
            return fault(error, episode=self._episode)
        except (EOFError, OSError):
            self._process.join(1.0)
            self._end()
            raise ProviderError(f"the process of {self._env_id} died in {call}{self._how()}") from None
        self._episode = answer.episode
        if call == "close":
            self._end()
        return Reply(answer.type, body, answer.episode, answer.code)

    def abandon(self) -> None:
        self._process.kill()

    def _end(self) -> None:
        self._connection.close()
        self._process.join(1.0)
        if self._process.exitcode is None:
            self._process.kill()
            self._process.join()

    def _how(self) -> str:
        code = self._process.exitcode
        if code is None:
            return ""
        return f" (signal {-code})" if code < 0 else f" (exit code {code})"


def _outcome(task: asyncio.Task[Reply]) -> Any:
    if task.cancelled():
        return asyncio.CancelledError()
    return task.exception() or task.result()


def _deliver(done: Done, answer: Any) -> None:
    """A host raises nothing of an environment's, so what is no reply is a lost process, Ctrl-C or a cancelled task."""
    done(answer if isinstance(answer, Reply) else broken_off(answer))


def broken_off(error: BaseException) -> EnvWeaveError:
    """Why a call has no reply."""
    return error if isinstance(error, EnvWeaveError) else EnvError(f"the call was broken off: {describe(error)}")
