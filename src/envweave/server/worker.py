"""A process that holds one environment, and what the server says to it.

What comes back is msgpack and never pickle: the process may run code that nobody trusts, and unpickling what it sends
would run that code in the server. Covered by this boundary: a crash, `os._exit`, a hung or leaking environment, its
memory and threads. Not covered: files, network and other processes of the same user. That takes a sandbox.
"""

from __future__ import annotations

import os
import pickle
import queue
import signal
import threading
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

import msgspec

from envweave.core.branching import EpisodeSnapshot
from envweave.core.flow import Flow, call_it, run, run_async
from envweave.core.local import AsyncLocalBackend, open_local
from envweave.core.loop import BACKGROUND
from envweave.errors import EnvWeaveError, UnsupportedError, UsageError, describe
from envweave.plan import EnvPlan
from envweave.server.host import Form, Host, Reply, fault
from envweave.wire.codec import decode, encode

to_bytes = msgspec.msgpack.encode


class Question(msgspec.Struct, array_like=True):
    """From the server: a call on the environment."""

    call: str
    data: bytes
    """JSON, whose whole numbers may be larger than msgpack's."""
    form: str
    snapshot: bytes = b""


class Answer(msgspec.Struct, array_like=True):
    """From the worker: a reply, and the snapshot if it made one."""

    type: str
    body: bytes
    episode: str | None
    code: str
    snapshot: bytes = b""


read_question = msgspec.msgpack.Decoder(Question).decode
read_answer = msgspec.msgpack.Decoder(Answer).decode


@dataclass(frozen=True)
class Recipe:
    """What a process needs to know to build the environment. Has to be picklable."""

    plan: EnvPlan
    env_id: str
    debug: bool
    record: str | None = None
    secret: str = ""
    """The server's token, which is not recorded."""


def main(connection: Connection, recipe: Recipe) -> None:
    """The whole life of the process: build, answer until the server hangs up."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the server, which then closes us
    questions: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(connection, questions), daemon=True).start()
    shelf = TravellingShelf()
    try:
        host = _built(recipe, shelf)
        facts = host.facts
    except EnvWeaveError as error:
        connection.send_bytes(to_bytes(_answer(fault(error, debug=recipe.debug))))
        return
    connection.send_bytes(to_bytes(Answer("ready", encode(facts), None, "")))
    while True:
        question = read_question(questions.get())
        data = decode(question.data)
        shelf.arrived = question.snapshot
        if question.call == "admit":
            reply = host.admitted(data)
        else:
            reply = _run(host.handling(question.call, data, Form(question.form)), host)
        connection.send_bytes(to_bytes(_answer(reply, shelf.leaving())))
        if question.call == "close":
            return


def _built(recipe: Recipe, shelf: TravellingShelf) -> Host:
    if recipe.record is None:
        return Host(open_local(recipe.plan, recipe.env_id), shelf, debug=recipe.debug)
    from envweave.record import Recorder  # loaded if it is asked for
    from envweave.record.local import open_recorded
    from envweave.record.recording import Recording

    recorder = Recorder(recipe.record, secrets=[recipe.secret])
    recording = Recording(recorder, served_header(recipe.plan), owned=True)
    return Host(open_recorded(recipe.plan, recipe.env_id, recipe.plan.build(), recording), shelf, debug=recipe.debug)


def served_header(plan: EnvPlan) -> dict[str, Any]:
    """What the record of a server says of an environment."""
    from envweave.record.header import header_of, plain  # loaded if it is asked for

    limits = {"deadline": plan.spec.deadline, "max_episode_steps": plan.spec.max_episode_steps}
    rules = {"autoreset": plan.autoreset, "chat": plan.chat, **limits}
    return header_of(plan.spec, plan.spec, plan.arguments, rules=plain(rules, tuple(rules)), backend="server")


def _run(flow: Flow[Reply], host: Host) -> Reply:
    if isinstance(host.flows, AsyncLocalBackend):
        return BACKGROUND.run(run_async(flow, call_it))
    return run(flow, call_it)


def _listen(connection: Connection, questions: queue.SimpleQueue[bytes]) -> None:
    """Read in a thread of its own, to notice the end of the server even in the middle of a step."""
    while True:
        try:
            questions.put(connection.recv_bytes())
        except (EOFError, OSError):
            os._exit(0)


def _answer(reply: Reply, snapshot: bytes = b"") -> Answer:
    return Answer(reply.type, reply.body, reply.episode, reply.code, snapshot)


class TravellingShelf:
    """Snapshots go to the server with the answer, and come back with the question."""

    def __init__(self) -> None:
        self.arrived = b""
        self._leaving = b""

    def put(self, snapshot: EpisodeSnapshot) -> str:
        try:
            self._leaving = pickle.dumps(snapshot)
        except Exception as error:  # anything may stand in the way of pickling somebody's object
            message = f"this snapshot cannot leave its process: {describe(error)}"
            raise UnsupportedError(message, "let `snapshot` return plain data, or use isolation='thread'") from None
        finally:
            snapshot.discard()  # a live copy has left as data
        return ""

    def get(self, name: Any) -> EpisodeSnapshot:
        if not self.arrived:
            raise UsageError(f"no snapshot {name!r:.80}")
        return pickle.loads(self.arrived)  # type: ignore[no-any-return]  # noqa: S301  (made by `put`, in a worker)

    def leaving(self) -> bytes:
        snapshot, self._leaving = self._leaving, b""
        return snapshot
