"""What the worker hears and says: orders from the host, and calls to functions on the host's side.

Any thread may call, and the main thread waits for orders; whoever waits first reads for all, and hands out what is not
its own.
"""

from __future__ import annotations

import builtins
import json
import select
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from envweave.sandbox.guest.code import TOOLS
from envweave.sandbox.guest.frames import Channel, Frame, Message
from envweave.sandbox.guest.interrupts import Interrupts

_SHORT = 0.05
"""Seconds after which one who waits for another looks whether it has been interrupted."""


class ToolError(Exception):
    """A tool on the other side raised something that is no built-in exception."""


class Mail:
    """The worker's end of the conversation."""

    def __init__(self, channel: Channel, gate: Interrupts, most: int) -> None:
        """`most` are the bytes that the arguments of a call may take."""
        self.channel = channel
        self._most = most
        self._gate = gate
        self._step: str | None = None
        self._changed = threading.Condition(threading.Lock())
        self._orders: deque[Frame] = deque()
        self._answers: dict[int, Message] = {}
        self._waiting: set[int] = set()
        self._last = 0
        self._reading = False
        self._interrupted: str | None = None

    def order(self) -> Frame:
        """Wait for the next order."""
        while not self._orders:
            if self._reading or self._waiting:  # by threads that the code has left behind
                self._wait_for(lambda: bool(self._orders), torn=False)
            else:
                self._sort()
        return self._orders.popleft()

    def interrupted(self, step: str) -> bool:
        """Has the host said that an interrupt is meant for this step? It says so before it sends one."""
        with self._gate.shield():
            while select.select([self.channel.sock], [], [], 0)[0]:
                self._sort()
        return self._interrupted == step

    def begin(self, step: str) -> None:
        """From here on there is somebody to answer calls."""
        self._step = step

    def end(self) -> None:
        """Nobody answers calls any more; threads that still wait for an answer are told so."""
        with self._changed:
            self._step = None
            for number in self._waiting:
                self._answers[number] = {"error": {"type": "RuntimeError", "message": "the run has ended"}}
            self._changed.notify_all()

    def call(self, name: str, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        """Ask the other side to call a tool, and wait."""
        try:
            size = len(json.dumps([arguments, keywords], allow_nan=False))
        except (TypeError, ValueError, RecursionError) as error:
            raise TypeError(f"the arguments of {name} are not data: {error}") from None
        if size > self._most:
            raise ValueError(f"the arguments of {name} take {size} bytes, and {self._most} is the most")
        with self._gate.shield():
            number = self._ask({"op": "call", "name": name, "args": arguments, "kwargs": keywords})
        try:
            self._wait_for(lambda: number in self._answers, torn=True)
            answer = self._answers.pop(number)
        finally:
            self._waiting.discard(number)
        if "error" in answer:
            raise _exception(answer["error"])
        return answer.get("value")

    def _ask(self, question: Message) -> int:
        with self._changed:
            if self._step is None:
                raise RuntimeError("nobody is there to answer: no code is being run")
            self._last += 1
            self._waiting.add(self._last)
            self.channel.send({**question, "id": self._step, "call": self._last})
            return self._last

    def _wait_for(self, arrived: Callable[[], bool], *, torn: bool) -> None:
        """Until it has arrived. An interrupt is let in only where nothing can be lost by it."""
        with self._gate.shield():
            while not self._try_for(arrived):
                if torn:
                    with self._gate.window():
                        pass

    def _try_for(self, arrived: Callable[[], bool]) -> bool:
        """Read for all, or wait a little for the one who does."""
        with self._changed:
            if arrived():
                return True
            if self._reading:
                self._changed.wait(_SHORT)
                return arrived()
            self._reading = True
        try:
            if self._step is not None:
                with self._gate.window():
                    self.channel.wait()
            self._sort()
        finally:
            with self._changed:
                self._reading = False
                self._changed.notify_all()
        return False

    def _sort(self) -> None:
        self.channel.fill()
        while (frame := self.channel.ready()) is not None:
            message = frame[0]
            if message.get("op") == "interrupt":
                self._interrupted = message.get("id")
            elif message.get("op") != "answer":
                self._orders.append(frame)
            elif message.get("call") in self._waiting:
                self._answers[message["call"]] = message


def stub(mail: Mail, name: str, about: str) -> Callable[..., Any]:
    """What the code sees of a tool."""

    def tool(*arguments: Any, **keywords: Any) -> Any:
        return mail.call(name, arguments, keywords)

    tool.__name__ = tool.__qualname__ = name
    tool.__module__ = TOOLS
    tool.__doc__ = about
    return tool


def _exception(error: Message) -> BaseException:
    kind, text = str(error.get("type")), str(error.get("message"))
    known = getattr(builtins, kind, None)
    if isinstance(known, type) and issubclass(known, Exception):
        try:
            return known(text)
        except TypeError:  # UnicodeDecodeError and its like take more than a text
            pass
    if kind == ToolError.__name__:
        return ToolError(text)
    return ToolError(f"{kind}: {text}" if text else kind)
