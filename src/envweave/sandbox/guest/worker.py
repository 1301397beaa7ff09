"""The process that runs the agent's code. After the first run nothing it says is more than data."""

from __future__ import annotations

import io
import json
import mmap
import os
import random
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

from envweave.sandbox.guest import branch
from envweave.sandbox.guest.code import Namespace, account_for, exit_code_of
from envweave.sandbox.guest.frames import CHUNK, Channel, Frame, Hangup, Message, close_all, frame_bytes
from envweave.sandbox.guest.interrupts import Interrupts
from envweave.sandbox.guest.mail import Mail, stub
from envweave.sandbox.guest.values import bounded_repr, portray, type_name, within


class Worker:
    """One session's interpreter. `serve` returns never."""

    def __init__(self, channel: Channel, *, value_bytes: int, unshare_flags: int) -> None:
        self.channel = channel
        self.interrupts = Interrupts()
        self._most = frame_bytes(value_bytes) - CHUNK
        self.mail = Mail(channel, self.interrupts, self._most)
        self.namespace = Namespace()
        self.value_bytes = value_bytes
        self.unshare_flags = unshare_flags
        self._orders = {
            "run": self._run,
            "get": self._get,
            "set": self._set,
            "variables": self._variables,
            "describe": self._describe,
            "inspect": self._inspect,
            "tools": self._tools,
            "define": self._define,
        }
        self._pid = os.getpid()
        self._branching = False

    def serve(self) -> None:
        """Follow orders until the host hangs up."""
        self.interrupts.install()
        open_streams()
        start_chance_anew()
        os.register_at_fork(after_in_child=self._forked)
        self.channel.send({"op": "hello"})
        while True:
            try:
                self._follow(self.mail.order())
            except KeyboardInterrupt:  # one that came too late for the code it was meant for
                continue
            except Hangup:
                os._exit(0)

    def _forked(self) -> None:
        """A child that the code has made never speaks for the session."""
        if not self._branching:
            self.channel.sock.close()

    def _follow(self, order: Frame) -> None:
        message, blob = order
        op = message["op"]
        if op == "branch":
            self._branch(message)
            return
        if "text" in message:  # taken in any case, so that it is not taken for that of another order
            (message["descriptor"],) = self.channel.take(1)
        answer = self._guarded(message["id"], self._orders[op], message, blob)
        if os.getpid() != self._pid:  # a child of the code that ran off the end of it
            os._exit(0 if "error" not in answer else 1)
        self.channel.send({"op": "result", "id": message["id"], **answer})
        if "then" in message:
            streams = sys.stdout, sys.stderr
            sys.stdout = sys.stderr = _Discard()  # what the run has printed is complete
            self._follow((message["then"], b""))
            sys.stdout, sys.stderr = streams

    def _guarded(self, step: str, call: Any, message: Message, blob: bytes) -> Message:
        """Whatever the code does comes out as an answer."""
        answer: Message = {}
        try:
            self.mail.begin(step)
            try:
                if self.interrupts.let_in() and self.mail.interrupted(step):
                    raise KeyboardInterrupt
                answer = call(message, blob)
                flush()
            finally:
                self.interrupts.shut()
        except BaseException as error:  # the code may raise anything
            self.interrupts.shut()
            answer = {"error": account_for(error), "exit_code": exit_code_of(error)}
            flush()
        self.mail.end()
        close_all([message["descriptor"]] if "descriptor" in message else ())
        return answer

    def _run(self, message: Message, blob: bytes) -> Message:
        value = self.namespace.run(blob.decode("utf-8", "surrogatepass"))
        return {} if value is None else {"value": portray(value, self.value_bytes)}

    def _get(self, message: Message, blob: bytes) -> Message:
        name = message["name"]
        if name not in self.namespace.names:
            return {"missing": True}
        return {"value": portray(self.namespace.names[name], self.value_bytes)}

    def _set(self, message: Message, blob: bytes) -> Message:
        self.namespace.names.update(message["values"])
        if "text" in message:
            self.namespace.names[message["text"]] = read_text(message["descriptor"])
        return {}

    def _variables(self, message: Message, blob: bytes) -> Message:
        return {"variables": within(self._most, self.namespace.variables(), type_name)}

    def _describe(self, message: Message, blob: bytes, room: int | None = None) -> Message:
        tell = partial(self._told, message["id"], lambda value: bounded_repr(value, message["longest"])[0])
        room = self._most if room is None else room
        return {"variables": within(room, self.namespace.variables(message["most"]), tell)}

    def _told(self, step: str, tell: Callable[[Any], Any], value: Any) -> Any:
        """What `tell` returns for a value, or a text if a `__repr__` raises what the host has not caused."""
        try:
            return tell(value)
        except (KeyboardInterrupt, MemoryError) as error:
            if self.mail.interrupted(step):
                raise
            return f"<{type_name(value)} whose repr raises {type_name(error)}>"

    def _inspect(self, message: Message, blob: bytes) -> Message:
        """An expression, `get` for some names, and `describe`. If that fails, the variables come with their types."""
        values: Message = {}
        found: Message = {"values": values}
        room = self._most
        try:
            if message["expression"] is not None:
                room -= self._evaluate(message, found)
            for name in message["names"]:
                values[name] = self._told(message["id"], lambda name: self._get({"name": name}, b"").get("value"), name)
            return {**found, **self._describe(message, b"", room)}
        except BaseException:  # a __repr__ may raise anything
            self.interrupts.shut()  # the rest runs no code of the session
            return {**found, "variables": within(room, self.namespace.variables(message["most"]), type_name)}

    def _evaluate(self, message: Message, found: Message) -> int:
        """Evaluate an expression of the host's, whose value must be data. Returns how many bytes it takes."""
        try:
            code = compile(message["expression"], "<envweave expression>", "eval", dont_inherit=True)
            value = eval(code, self.namespace.names)  # noqa: S307  (as in `Namespace.run`)
            size = len(json.dumps(value, allow_nan=False))
            if size > self._most - CHUNK:
                raise ValueError(f"it takes {size} bytes, and {self._most - CHUNK} is the most")
            found["value"] = value
            return size
        except BaseException as error:  # as above
            found["error_of_value"] = account_for(error)
            if self.mail.interrupted(message["id"]):
                raise
            return 0

    def _define(self, message: Message, blob: bytes) -> Message:
        self.namespace.define(blob.decode("utf-8", "surrogatepass"))
        return {}

    def _tools(self, message: Message, blob: bytes) -> Message:
        for name, about in message["tools"].items():
            self.namespace.names[name] = stub(self.mail, name, about)
        return {}

    def _branch(self, message: Message) -> None:
        """Become two. The other one answers on the channel that came with the order."""
        descriptors = self.channel.take(3)
        reason = self.namespace.settle() or branch.obstacle({0, 1, 2, self.channel.sock.fileno(), *descriptors})
        if reason is None:
            try:
                copied = not self._split()
            except OSError as error:
                reason = f"no room for another process ({error.strerror})"
            else:
                if copied:
                    self._settle_in(descriptors)
                    return
        close_all(descriptors)
        self.channel.send({"op": "result", "id": message["id"], **({"refused": reason} if reason else {})})

    def _settle_in(self, descriptors: list[int]) -> None:
        """In the copy. If it fails it must not speak, for it might be heard as the original."""
        try:
            branch.settle_in(self.mail, descriptors, self.unshare_flags)
        except BaseException:
            os._exit(71)

    def _split(self) -> int:
        """Fork, and have the same dice on both sides: `random` would throw them anew in a child."""
        flush()
        chance = random.getstate()
        self._branching = True
        try:
            pid = branch.split()
        finally:
            self._branching = False
        if not pid:
            random.setstate(chance)
            self._pid = os.getpid()
        return pid


class _Discard(io.TextIOBase):
    """A stream that keeps nothing."""

    def write(self, text: str) -> int:
        return len(text)


def read_text(descriptor: int) -> str:
    """A text that is too long for a message: what lies in a file, without a second copy of it."""
    with mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ) as data:
        return str(data, "utf-8", "surrogatepass")


def open_streams() -> None:
    """`print` goes to the descriptors 1 and 2, line by line, so that what was said before a kill is known.

    Nobody types: `input` finds the end at once.
    """
    keys = io.TextIOWrapper(io.BufferedReader(io.FileIO(0, "r", closefd=False)), "utf-8")
    for name in ("stdin", "__stdin__"):
        setattr(sys, name, keys)
    for name, descriptor in (("stdout", 1), ("stderr", 2)):
        raw = io.FileIO(descriptor, "w", closefd=False)
        stream = io.TextIOWrapper(io.BufferedWriter(raw), "utf-8", "backslashreplace", line_buffering=True)
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


def flush() -> None:
    """What was printed is on its way before the answer is."""
    streams = [sys.stdout, sys.stderr]
    if sys.stdout is not sys.__stdout__ or sys.stderr is not sys.__stderr__:
        streams += [sys.__stdout__, sys.__stderr__]
    for stream in streams:
        try:
            stream.flush()
        except BaseException:  # noqa: S110  (closed, or something else by now)
            pass


def start_chance_anew() -> None:
    """Sessions are copies of one process; their dice are not."""
    random.seed()
    numpy_random: Any = sys.modules.get("numpy.random")
    if numpy_random is not None:
        numpy_random.seed()
