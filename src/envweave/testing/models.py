"""A language model whose answers are written beforehand, behind a real socket of this machine."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from envweave.errors import describe
from envweave.testing.completions import Said, answer
from envweave.testing.misbehaviour import Failure, Wire, close_wire

Scripted = Said | Sequence[Said] | Failure
"""A text, a `Reply`, several of them for a request with `n`, or something that is not a reply."""
Script = Callable[[list[dict[str, Any]], str], Scripted]
"""Given the messages and the name of the model, what is answered. Calls may come at the same time."""


@dataclass(frozen=True)
class Asked:
    """One request as it came."""

    model: str
    messages: list[dict[str, Any]]
    authorization: str | None
    body: dict[str, Any]
    headers: dict[str, str] = field(repr=False)


class ScriptedModel:
    """What a test holds. All of it may be read while requests are under way."""

    def __init__(self, port: int, script: Script) -> None:
        self.url = f"http://127.0.0.1:{port}/v1"
        self.requests: list[Asked] = []
        self.most_at_once = 0
        """The largest number of requests that waited for the first byte of their answer at the same time."""
        self.released = threading.Event()
        self.abandoned = threading.Event()
        """Set when a client has gone without waiting for its answer."""
        self._script = script
        self._now = 0
        self._changed = threading.Condition()

    def release(self) -> None:
        """Let everything that hangs or drips go on to its end."""
        self.released.set()

    def wait_for(self, requests: int, timeout: float = 30.0) -> None:
        """Return when so many requests have come. Raises `TimeoutError`."""
        with self._changed:
            if not self._changed.wait_for(lambda: len(self.requests) >= requests, timeout):
                raise TimeoutError(f"{len(self.requests)} of {requests} requests came in {timeout:g} s")

    @contextmanager
    def asking(self, asked: Asked) -> Iterator[Failure]:
        """Note the request and follow the script; the request is under way until the block is left."""
        with self._changed:
            self.requests.append(asked)
            self._now += 1
            self.most_at_once = max(self.most_at_once, self._now)
            self._changed.notify_all()
        try:
            yield self._reply(asked)
        finally:
            with self._changed:
                self._now -= 1

    def _reply(self, asked: Asked) -> Failure:
        """What the script says. What it raises is refused with a status that is not tried again."""
        try:
            reply = self._script(asked.messages, asked.model)
        except Exception as error:  # a script is code of a test
            return Failure(400, _error(f"the script failed: {describe(error)}"))
        return reply if isinstance(reply, Failure) else answer(asked.body, reply)


@contextmanager
def scripted_model(replies: Sequence[Scripted] | Script) -> Iterator[ScriptedModel]:
    """Answer `POST /v1/chat/completions` on a free port of loopback until the block is left.

    `replies` are given in order, each once, or are a function of the messages and the model. When they are used up,
    requests are refused with HTTP 400. Requests with `stream`, `n`, `logprobs` and `return_token_ids` get what they ask
    for. Failures are in `envweave.testing.misbehaviour`, and `half_stream` in `envweave.testing.completions`. At the
    end what hangs is released and every connection is cut.
    """
    server = _Server(("127.0.0.1", 0), _Handler)
    server.model = ScriptedModel(server.server_port, replies if callable(replies) else _in_order(replies))
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), name="scripted-model", daemon=True)
    thread.start()
    try:
        yield server.model
    finally:
        server.model.release()
        server.shutdown()
        server.server_close()
        thread.join()


def _in_order(replies: Sequence[Scripted]) -> Script:
    left, lock = iter(list(replies)), threading.Lock()
    over = Failure(400, _error(f"the script has only {len(replies)} replies"))

    def next_reply(messages: list[dict[str, Any]], model: str) -> Scripted:  # noqa: ARG001  (a Script)
        with lock:
            return next(left, over)

    return next_reply


class _Server(ThreadingHTTPServer):
    daemon_threads = True  # a script that never returns does not hold up the test's end
    request_queue_size = 128
    model: ScriptedModel

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._open: set[Wire] = set()
        self._lock = threading.Lock()

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._lock:
            self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            self._open.discard(request)
        super().shutdown_request(request)

    def server_close(self) -> None:
        with self._lock:
            for wire in self._open:
                close_wire(wire)
        super().server_close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that has gone is nothing to write to stderr about."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def do_POST(self) -> None:
        model, data = self.server.model, self._data()
        if self.path != "/v1/chat/completions" or data is None:
            self._send(Failure(404, _error(f"there is nothing to POST at {self.path}, or its body is not JSON")))
            return
        headers = {key.lower(): value for key, value in self.headers.items()}
        messages = list(data.get("messages") or ())
        asked = Asked(str(data.get("model")), messages, headers.get("authorization"), data, headers)
        with model.asking(asked) as reply:
            held = self._hold(reply)
        if held:
            self._send(reply)  # no more under way: who has the answer may ask again before we know that it was sent

    def _data(self) -> dict[str, Any] | None:
        try:
            data = json.loads(self.rfile.read(int(self.headers.get("content-length") or 0)))
        except ValueError:
            return None
        return data if isinstance(data, dict) else None

    def _hold(self, reply: Failure) -> bool:
        try:
            reply.hold(self.connection, self.server.model.released)
        except OSError:
            self._abandon()
            return False
        return True

    def _send(self, reply: Failure) -> None:
        try:
            if not reply.send(self.connection, self.server.model.released):
                self.close_connection = True
        except OSError:
            self._abandon()

    def _abandon(self) -> None:
        self.close_connection = True
        self.server.model.abandoned.set()

    def log_message(self, format: str, *args: Any) -> None:
        """A test does not want to read it."""


def _error(message: str) -> str:
    return json.dumps({"error": {"message": message, "type": "scripted"}})
