"""Bytes carried between a socket and WebSocket frames, with a peer that speaks as the API server does."""

import os
import socket
import struct
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from envweave.providers.kubernetes.forwarding import Forward
from support.until import until

GREETING = b"\x82\x03\x00\x40\x1f\x82\x03\x01\x40\x1f"


def server_frame(channel, data):
    size = len(data) + 1
    head = b"\x82" + (bytes((size,)) if size <= 125 else b"\x7e" + struct.pack("!H", size))
    return head + bytes((channel,)) + data


def read_exactly(sock, size):
    held = b""
    while len(held) < size:
        if not (more := sock.recv(size - len(held))):
            raise EOFError
        held += more
    return held


def read_frame(sock):
    """The opcode and what a client's frame carries, without its mask."""
    first, second = read_exactly(sock, 2)
    size = second & 0x7F
    if size >= 126:
        size = int.from_bytes(read_exactly(sock, 2 if size == 126 else 8), "big")
    mask = read_exactly(sock, 4)
    payload = read_exactly(sock, size)
    return first & 0x0F, bytes(byte ^ mask[n % 4] for n, byte in enumerate(payload))


def echoing(sock):
    """A pod that gives everything back."""
    with sock:
        sock.sendall(GREETING)
        try:
            while True:
                opcode, payload = read_frame(sock)
                if opcode == 8:
                    return
                for start in range(1, len(payload), 30_000):
                    sock.sendall(server_frame(0, payload[start : start + 30_000]))
        except (EOFError, OSError):
            return


@pytest.fixture
def forward():
    """Makes forwards to a pod that behaves as told."""
    made, threads = [], []

    def make(pod):
        def dial():
            near, far = socket.socketpair()
            threads.append(threading.Thread(target=pod, args=(far,)))
            threads[-1].start()
            return near

        made.append(Forward(dial))
        return made[-1]

    yield make
    for each in made:
        each.close()
    for thread in threads:
        thread.join(10)
        assert not thread.is_alive()


def connected(forward):
    return socket.create_connection(("127.0.0.1", forward.port), timeout=30)


def test_what_is_sent_comes_back(forward):
    with connected(forward(echoing)) as sock:
        for message in (b"a", os.urandom(70_000)):
            sock.sendall(message)
            assert read_exactly(sock, len(message)) == message


def test_many_connections_do_not_mix(forward):
    there = forward(echoing)

    def talk(number):
        with connected(there) as sock:
            message = bytes((number,)) * 20_000
            sock.sendall(message)
            return read_exactly(sock, len(message)) == message

    with ThreadPoolExecutor(30) as pool:
        assert all(pool.map(talk, range(30)))


def test_a_client_that_does_not_read_holds_the_pod_up_and_loses_nothing(forward):
    total, sent = 20_000_000, []

    def talkative(sock):
        with sock:
            sock.sendall(GREETING)
            for _ in range(total // 20_000):
                sock.sendall(server_frame(0, bytes(20_000)))
                sent.append(20_000)
            sock.sendall(b"\x88\x00")

    with connected(forward(talkative)) as sock:
        while True:  # until nobody takes any more
            before = len(sent)
            time.sleep(0.3)
            if before and len(sent) == before:
                break
        assert sum(sent) < total
        assert sum(len(chunk) for chunk in iter(lambda: sock.recv(65536), b"")) == total


def test_the_end_of_the_pod_is_the_end_of_the_connection_after_all_is_read(forward):
    def brief(sock):
        with sock:
            sock.sendall(GREETING + server_frame(0, b"bye") + b"\x88\x00")

    with connected(forward(brief)) as sock:
        assert b"".join(iter(lambda: sock.recv(100), b"")) == b"bye"


def test_a_complaint_ends_the_connection_and_is_kept(forward):
    def refusing(sock):
        sock.sendall(GREETING + server_frame(1, b"nobody listens"))
        with sock:
            sock.recv(100)

    there = forward(refusing)
    with connected(there) as sock:
        assert sock.recv(1) == b""
    until(lambda: there.trouble)
    assert there.trouble == "nobody listens"


def test_a_client_that_has_said_all_hears_the_rest(forward):
    def slow(sock):
        with sock:
            sock.sendall(GREETING)
            read_frame(sock)
            time.sleep(0.5)
            sock.sendall(server_frame(0, b"late") + b"\x88\x00")

    with connected(forward(slow)) as sock:
        sock.sendall(b"x")
        sock.shutdown(socket.SHUT_WR)
        assert sock.recv(100) == b"late"
        assert sock.recv(100) == b""


def test_a_dial_that_fails_ends_that_connection_only():
    failing = [True]

    def dial():
        if failing:
            raise RuntimeError("the API server is away")
        near, far = socket.socketpair()
        far.sendall(GREETING + server_frame(0, b"here"))
        far.close()
        return near

    there = Forward(dial)
    with connected(there) as sock:
        assert sock.recv(1) == b""
    until(lambda: there.trouble)
    assert there.trouble == "the API server is away"
    failing.clear()
    with connected(there) as sock:
        assert sock.recv(100) == b"here"
    there.close()


def test_close_ends_connections_threads_and_the_port(forward):
    there = forward(echoing)
    before = threading.active_count()
    clients = [connected(there) for _ in range(20)]
    for client in clients:
        client.sendall(b"x")
        assert client.recv(1) == b"x"
    began = time.monotonic()
    there.close()
    there.close()
    assert time.monotonic() - began < 5
    assert [client.recv(1) for client in clients] == [b""] * 20
    for client in clients:
        client.close()
    with pytest.raises(ConnectionRefusedError):
        connected(there)
    assert threading.active_count() <= before + 20  # the pods are threads of the test
    assert not [thread for thread in threading.enumerate() if thread.name == f"envweave-forward-{there.port}"]
