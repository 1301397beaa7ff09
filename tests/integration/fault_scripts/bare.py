"""A WebSocket client whose every byte the test decides on."""

import json
import socket
import struct
from urllib.parse import urlsplit

from websockets.client import ClientProtocol
from websockets.frames import Frame, Opcode
from websockets.protocol import State
from websockets.uri import parse_uri

EXTENSION = "envweave.v1"


class Bare:
    """One connection. What is not sent by hand is the handshake; pings are answered only by `receive`."""

    def __init__(self, url, *, extended=False, timeout=30.0):
        parts = urlsplit(url)
        uri = parse_uri(f"ws://{parts.netloc}/ws")
        self.socket = socket.create_connection((parts.hostname, parts.port), timeout)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._protocol = ClientProtocol(uri, subprotocols=[EXTENSION] if extended else None, max_size=None)
        self._protocol.send_request(self._protocol.connect())
        self._events = []
        self._flush()
        while self._protocol.state is State.CONNECTING:
            self._read()
        self._parts = []
        self._messages = []
        self.frames = []
        """Control frames that came."""

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        """Say goodbye, unless the connection is gone."""
        try:
            self.write(self.framed((1000).to_bytes(2), opcode=Opcode.CLOSE))
        except OSError:
            pass
        self.socket.close()

    def cut(self):
        """Be gone, without a word."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()

    # Out.

    @staticmethod
    def framed(text, *, opcode=Opcode.TEXT, fin=True):
        data = text if isinstance(text, bytes) else (text if isinstance(text, str) else json.dumps(text)).encode()
        return Frame(opcode, data, fin).serialize(mask=True)

    def send(self, *messages):
        """Each message a frame, all frames in one segment."""
        self.write(b"".join(self.framed(message) for message in messages))

    def write(self, data):
        self.socket.sendall(data)

    # In.

    def receive(self):
        """The next message, as data. Raises EOFError at the end of the connection."""
        while True:
            while self._events:
                frame = self._events.pop(0)
                if not isinstance(frame, Frame):
                    continue
                if frame.opcode in (Opcode.TEXT, Opcode.CONT):
                    self._parts.append(bytes(frame.data))
                    if frame.fin:
                        text, self._parts = b"".join(self._parts), []
                        return json.loads(text)
                else:
                    self.frames.append(frame)
            self._read()

    def next_message(self):
        """The next message; several may come in one frame."""
        if not self._messages:
            found = self.receive()
            self._messages += found if isinstance(found, list) else [found]
        return self._messages.pop(0)

    def ask(self, message):
        self.send(message)
        return self.receive()

    def next_control(self):
        """The next control frame."""
        while not self.frames:
            while self._events:
                frame = self._events.pop(0)
                if isinstance(frame, Frame) and frame.opcode not in (Opcode.TEXT, Opcode.CONT):
                    self.frames.append(frame)
            if not self.frames:
                self._read()
        return self.frames.pop(0)

    def ends(self):
        """Read until the server hangs up; gives the messages that came before."""
        found = []
        while True:
            try:
                found.append(self.receive())
            except (EOFError, ConnectionError):
                return found

    def _read(self):
        data = self.socket.recv(65536)
        if not data:
            raise EOFError("the server hung up")
        self._protocol.receive_data(data)
        self._events += self._protocol.events_received()
        self._flush()

    def _flush(self):
        for data in self._protocol.data_to_send():
            if data:
                self.socket.sendall(data)


class PlainTalk(Bare):
    """OpenEnv's messages."""

    def __init__(self, url, **options):
        super().__init__(url, **options)

    def reset(self, **data):
        return self.ask({"type": "reset", "data": data})["data"]["observation"]

    def step_message(self, action):
        return {"type": "step", "data": action}

    def step(self, action):
        return seen(self.ask(self.step_message(action)))


class WovenTalk(Bare):
    """The extension's, with one session or several."""

    def __init__(self, url, *, resume=None, ref=0, data=None, **options):
        super().__init__(url, extended=True, **options)
        self.numbers = {}
        self.opened = self.open(ref, **({"resume": resume} if resume else data or {}))

    def open(self, ref, **data):
        reply = self.ask({"type": "open", "ref": ref, "data": data})
        if reply["type"] != "opened":
            self.socket.close()
            raise AssertionError(reply)
        self.numbers[ref] = reply["data"]["last_id"]
        return reply["data"]

    def message(self, kind, data=None, ref=0):
        self.numbers[ref] += 1
        return {"type": kind, "ref": ref, "id": self.numbers[ref], "data": data}

    def reset(self, **data):
        return self.ask(self.message("reset", data))["data"]["observation"]

    def step_message(self, action):
        return self.message("step", action)

    def step(self, action):
        return seen(self.ask(self.step_message(action)))


def seen(reply):
    assert reply["type"] == "observation", reply
    return reply["data"]["observation"]
