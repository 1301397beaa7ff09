"""Functions of this side that the code calls: each call in a thread of its own, answered in data, in its own time."""

from __future__ import annotations

import asyncio
import builtins
import inspect
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from typing import Any

from envweave.core.jsonable import to_json
from envweave.core.loop import BACKGROUND, run_on
from envweave.errors import NotJSONableError
from envweave.sandbox.guest.frames import Message, close_all, encode
from envweave.sandbox.limits import LimitHit, Limits
from envweave.sandbox.line import pipe

_MESSAGE = 4_000
_AT_ONCE = 64

Tools = Mapping[str, Callable[..., Any]]


class Calls:
    """The calls of one session. Threads do the work and ring; whoever waits for the code collects the answers."""

    def __init__(self, tools: Tools, limits: Limits) -> None:
        self.tools = dict(tools)
        self.limits = limits
        self._under_way: dict[int, float] = {}
        """By number, when each began."""
        self._threads: set[threading.Thread] = set()
        """Also those whose answer nobody waits for any more: a tool that hangs takes a place until it ends."""
        self._answers: deque[tuple[object, Message]] = deque()
        self._run = object()
        self._count = 0
        self._ringing = threading.Lock()
        self._bell, self._clapper = pipe() if tools else (-1, -1)
        if tools:
            os.set_blocking(self._clapper, False)
        self._loop: asyncio.AbstractEventLoop | None = None
        self.hit: LimitHit | None = None
        """The limit that fired in this run."""

    @property
    def descriptors(self) -> list[int]:
        """What to wait for."""
        return [self._bell] if self._bell >= 0 else []

    def rung(self, ready: Collection[int]) -> bool:
        """Has a tool answered, if only one that nobody waits for any more?"""
        return self._bell in ready

    @property
    def waiting(self) -> bool:
        """The code has asked for something and has no answer yet."""
        return bool(self._under_way)

    def begin(self, loop: asyncio.AbstractEventLoop | None) -> None:
        """A new run: answers to older questions are nobody's any more. Async tools run on the loop, if there is one."""
        self._run = object()
        self._under_way.clear()
        self._count = 0
        self._loop = loop
        self.hit = None

    def start(self, question: Message) -> Message | None:
        """Begin a call. The answer, if there is one at once."""
        number, name = question.get("call"), question.get("name")
        arguments, keywords = question.get("args"), question.get("kwargs")
        if type(number) is not int or not isinstance(arguments, list) or not isinstance(keywords, dict):
            return None
        self._count += 1
        tool = self.tools.get(name) if isinstance(name, str) else None
        if tool is None:
            return _failure(number, "NameError", f"no tool named {name!r}"[:_MESSAGE])
        if self.limits.tool_calls is not None and self._count > self.limits.tool_calls:
            self.hit = LimitHit("tool_calls", self.limits.tool_calls)
            return _failure(number, "RuntimeError", f"more than {self.limits.tool_calls} calls of tools in one run")
        worker = threading.Thread(
            target=self._call, args=(self._run, number, tool, arguments, keywords), name=f"tool {name}", daemon=True
        )
        with self._ringing:
            if len(self._threads) >= _AT_ONCE:
                return _failure(number, "RuntimeError", f"more than {_AT_ONCE} calls of tools at once")
            self._threads.add(worker)
        try:
            worker.start()
        except RuntimeError as error:  # this process has no room for another
            self._threads.discard(worker)
            return _failure(number, "RuntimeError", str(error))
        self._under_way[number] = time.monotonic()
        return None

    def finished(self) -> list[Message]:
        """Answers that are ready, and those that come too late to be waited for."""
        found = []
        if self._bell >= 0:
            try:
                os.read(self._bell, 4096)
            except BlockingIOError:
                pass
        while self._answers:
            run, answer = self._answers.popleft()
            if run is self._run and self._under_way.pop(answer["call"], None) is not None:
                found.append(answer)
        late = self.limits.tool_wall
        for number, began in list(self._under_way.items()):
            if late is not None and time.monotonic() - began >= late:
                del self._under_way[number]
                self.hit = LimitHit("tool_wall", late)
                found.append(_failure(number, "TimeoutError", f"the tool did not answer within {late:g} s"))
        return found

    def next_end(self) -> float | None:
        """When the next call is late."""
        if self.limits.tool_wall is None or not self._under_way:
            return None
        return min(self._under_way.values()) + self.limits.tool_wall

    def _call(
        self, run: object, number: int, tool: Callable[..., Any], arguments: list[Any], keywords: dict[str, Any]
    ) -> None:
        try:
            value = tool(*arguments, **keywords)
            if inspect.isawaitable(value):
                value = run_on(self._loop or BACKGROUND.loop, _awaited(value))
            answer: Message = {"op": "answer", "call": number, "value": to_json(value, where="the result")}
            encode(answer)  # a number may have more digits than Python writes
        except NotJSONableError as error:
            answer = _failure(number, "TypeError", error.message)
        except BaseException as error:  # a tool may raise anything, and the code shall see it
            known = isinstance(getattr(builtins, type(error).__name__, None), type)
            answer = _failure(number, type(error).__name__, _text(error, known))
        with self._ringing:
            self._threads.discard(threading.current_thread())
            self._answers.append((run, answer))
            if self._clapper >= 0:
                with suppress(BlockingIOError):  # it rings already
                    os.write(self._clapper, b"!")

    def close(self) -> None:
        with self._ringing:
            ends, self._bell, self._clapper = (self._bell, self._clapper), -1, -1
            close_all(end for end in ends if end >= 0)


async def _awaited(value: Any) -> Any:
    return await value


def _text(error: BaseException, known: bool) -> str:
    try:
        text = str(error.args[0]) if known and isinstance(error, KeyError) and error.args else str(error)
    except Exception:  # anything may happen in somebody's __str__
        text = ""
    return text[:_MESSAGE]


def _failure(number: int, kind: str, message: str) -> Message:
    return {"op": "answer", "call": number, "error": {"type": kind, "message": message}}


def about(tool: Callable[..., Any], name: str) -> str:
    """Signature and docstring of a tool, for `help` inside."""
    try:
        head = f"{name}{inspect.signature(tool)}"
    except (TypeError, ValueError):
        head = f"{name}(…)"
    doc = inspect.getdoc(tool)
    return f"{head}\n\n{doc}" if doc else head
