"""From what a client asked for to an environment that runs: on threads, on the loop, or in a process."""

from __future__ import annotations

import asyncio
import logging
import multiprocessing
import pickle
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

from envweave.core.local import AsyncLocalBackend, is_async, open_local
from envweave.errors import EnvError, UsageError
from envweave.plan import EnvPlan
from envweave.record import Recorder
from envweave.record.local import open_recorded
from envweave.record.recording import Recording
from envweave.server.host import Host
from envweave.server.offer import Offer
from envweave.server.runners import LoopRunner, ProcessRunner, Runner, ThreadRunner
from envweave.server.session import Opening
from envweave.server.settings import Settings
from envweave.server.shelf import SessionShelf
from envweave.server.threads import Threads
from envweave.server.worker import Recipe, served_header

log = logging.getLogger(__name__)


class Builder:
    """Builds the environments of one server. What comes too late for its client is closed again."""

    def __init__(self, offer: Offer, settings: Settings, loop: asyncio.AbstractEventLoop, threads: Threads) -> None:
        self._offer = offer
        self._settings = settings
        self._loop = loop
        self._threads = threads
        self._recorder: Recorder | None = None
        if settings.record is not None and settings.isolation == "thread":
            self._recorder = Recorder(settings.record, secrets=[settings.token or ""])
        if settings.isolation == "process":
            factory = offer.spec.loaded()
            preload = ["__main__", "envweave.server.worker", getattr(factory, "__module__", "envweave.server.worker")]
            multiprocessing.get_context("forkserver").set_forkserver_preload(preload)

    async def build(self, opening: Opening, shelf: SessionShelf) -> Runner:
        """An environment of its own for a session."""
        if self._settings.isolation == "process":
            runner = await self._in_process(opening, shelf)
            if opening.chat is None:  # else the facts are about messages
                self._offer.learn_facts(runner.facts)
            return runner
        return await self._here(opening, shelf)

    async def _in_process(self, opening: Opening, shelf: SessionShelf) -> ProcessRunner:
        plan = EnvPlan(self._offer.limited(opening.limits), opening.arguments, opening.autoreset, chat=opening.chat)
        record, token = self._settings.record, self._settings.token or ""
        recipe = Recipe(plan=plan, env_id=opening.env_id, debug=self._settings.debug, record=record, secret=token)
        _check_travels(recipe)
        start = partial(ProcessRunner, self._threads, recipe, shelf, timeout=self._settings.step_timeout)
        return await self._threads.run(start, late=lambda runner: runner.abandon())  # type: ignore[no-any-return]

    async def _here(self, opening: Opening, shelf: SessionShelf) -> Runner:
        plan = self._offer.plan(opening.arguments, autoreset=opening.autoreset, chat=opening.chat, **opening.limits)
        threads = self._threads
        if self._offer.single_thread is not False:  # a function does not tell before it has made one
            threads = Threads(self._loop, 1, retire_after=threading.TIMEOUT_MAX)
        alone = False
        try:
            env = await self._in_time(plan, threads)
            self._offer.learn(plan.played(env))
            alone = bool(self._offer.single_thread)
        finally:
            if threads is not self._threads and not alone:
                threads.end()
                threads = self._threads
        if self._recorder is None:
            backend = open_local(plan, opening.env_id, env)
        else:
            recording = Recording(self._recorder, served_header(plan))
            backend = open_recorded(plan, opening.env_id, env, recording)
        host = Host(backend, shelf, owned=self._offer.instance is None, debug=self._settings.debug)
        if isinstance(backend, AsyncLocalBackend):
            return LoopRunner(self._loop, host)
        return ThreadRunner(threads, host, alone=alone)

    def close(self) -> None:
        """The end of the server: no environment is built any more."""
        if self._recorder is not None:
            self._recorder.close()

    async def _in_time(self, plan: EnvPlan, threads: Threads) -> Any:
        timeout = self._settings.step_timeout
        try:
            return await asyncio.wait_for(threads.run(plan.build, late=partial(self._close_late, threads)), timeout)
        except TimeoutError:
            raise EnvError(f"{self._offer.name} was not built in {timeout:g} s") from None

    def _close_late(self, threads: Threads, env: Any) -> None:
        """Nobody waits any more for this environment."""
        close: Callable[[], Any] | None = getattr(env, "close", None)
        if close is None or self._offer.instance is not None:
            return
        if is_async(env):
            self._loop.create_task(env.close())
        else:
            threads.submit(close, _ignore)


def _ignore(answer: Any) -> None:
    if isinstance(answer, BaseException):
        log.warning("an environment that came too late did not close: %r", answer)


def _check_travels(recipe: Recipe) -> None:
    try:
        pickle.dumps(recipe)
    except Exception as error:  # pickling somebody's object may raise anything
        message = f"{recipe.plan.spec.id} cannot be sent to a process: {error}"
        raise UsageError(message, "use a class or function at the top of a module, not a lambda") from None
