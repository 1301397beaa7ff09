"""A client that is going to be killed: `python doomed.py HOST PORT plain|woven CONNECTIONS SLEEP...`.

Nothing but sockets, so that it starts quickly. It says a word a round: in that moment all its steps are under way.
"""

import base64
import json
import os
import socket
import sys

MASK = b"\0\0\0\0"


def framed(message):
    text = json.dumps(message).encode()
    assert len(text) < 126
    return bytes((0x81, 0x80 | len(text))) + MASK + text


class Connection:
    def __init__(self, host, port, kind, action):
        self._socket = socket.create_connection((host, port), 60.0)
        self._buffer = b""
        self._number = 0
        self._kind = kind
        self._action = action
        key = base64.b64encode(os.urandom(16)).decode()
        lines = [
            "GET /ws HTTP/1.1",
            f"Host: {host}:{port}",
            "Upgrade: websocket",
            "Connection: Upgrade",
            f"Sec-WebSocket-Key: {key}",
            "Sec-WebSocket-Version: 13",
        ]
        if kind == "woven":
            lines.append("Sec-WebSocket-Protocol: envweave.v1")
        self._socket.sendall("\r\n".join((*lines, "", "")).encode())

    def greet(self):
        while b"\r\n\r\n" not in self._buffer:
            self._more()
        head, _, self._buffer = self._buffer.partition(b"\r\n\r\n")
        assert b" 101 " in head, head
        if self._kind == "woven":
            self._socket.sendall(framed({"type": "open", "data": {}}))

    def greeted(self):
        if self._kind == "woven":
            self.read()

    def say(self, kind):
        self._number += 1
        message = {"type": kind, "data": {} if kind == "reset" else self._action}
        if self._kind == "woven":
            message["id"] = self._number
        self._socket.sendall(framed(message))

    def read(self):
        while True:
            size, start = (self._buffer[1] if len(self._buffer) > 1 else 0), 2
            if size == 126 and len(self._buffer) >= 4:
                size, start = int.from_bytes(self._buffer[2:4], "big"), 4
            if len(self._buffer) >= start + size and start + size > 2:
                text, self._buffer = self._buffer[start : start + size], self._buffer[start + size :]
                return text
            self._more()

    def _more(self):
        data = self._socket.recv(65536)
        assert data, "the server hung up"
        self._buffer += data


def main():
    host, port, kind, count, *sleeps = sys.argv[1:]
    actions = [{"sleep": float(sleep)} if float(sleep) else {} for sleep in sleeps]
    connections = [Connection(host, int(port), kind, actions[n % len(actions)]) for n in range(int(count))]
    for one in connections:
        one.greet()
    for one in connections:
        one.greeted()
    for one in connections:
        one.say("reset")
    for one in connections:
        one.read()
    while True:
        for one in connections:
            one.say("step")
        print("stepping", flush=True)
        for one in connections:
            one.read()


if __name__ == "__main__":
    main()
