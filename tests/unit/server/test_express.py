"""The express, with sockets of this process in place of connections."""

import asyncio
import socket
import threading
from contextlib import ExitStack

import pytest

from envweave.server.express import AVAILABLE, Express, Returned

pytestmark = pytest.mark.skipif(not AVAILABLE, reason="this system has no epoll")


class Connections:
    """Pairs of sockets, one end of each lent to the express."""

    def __init__(self, express, stack):
        self.express = express
        self._stack = stack

    def lend(self, serve):
        """The client's end of a connection, and the future of its return."""
        server, client = socket.socketpair()
        for end in (server, client):
            self._stack.enter_context(end)
            end.setblocking(False)
        return client, self.express.lend(server.fileno(), serve)


def playing(play):
    """Run `play(connections)` on an express, and end it."""

    async def run():
        express = Express(asyncio.get_running_loop())
        with ExitStack() as stack:
            stack.callback(express.end)
            return await asyncio.wait_for(play(Connections(express, stack)), 30.0)

    return asyncio.run(run())


async def asked(client, message):
    loop = asyncio.get_running_loop()
    await loop.sock_sendall(client, message)
    return await loop.sock_recv(client, 1000)


def echo(data, claim):
    claim.begin()
    claim.take()
    return data


def unwritable(data, claim):
    """A reply that no socket takes: the express fails."""
    return "text" if data == b"fail" else echo(data, claim)


def test_messages_are_answered_until_one_is_not_for_the_express():
    async def play(connections):
        client, back = connections.lend(lambda data, claim: None if data == b"other" else echo(data, claim))
        answers = [await asked(client, message) for message in (b"one", b"two")]
        await asyncio.get_running_loop().sock_sendall(client, b"other")
        return answers, await back

    assert playing(play) == ([b"one", b"two"], Returned(unread=b"other"))


def test_if_the_express_fails_its_idle_connections_go_back_and_the_one_without_a_reply_is_lost(caplog):
    async def play(connections):
        (idle, idle_back), (failing, failing_back) = connections.lend(echo), connections.lend(unwritable)
        assert await asked(idle, b"one") == b"one"
        await asyncio.get_running_loop().sock_sendall(failing, b"fail")
        return await idle_back, await failing_back

    assert playing(play) == (Returned(), Returned(lost=True))
    assert "the express failed" in caplog.text
    assert "TypeError" in caplog.text


def test_a_reply_that_waits_behind_one_that_cannot_be_written_is_sent():
    async def play(connections):
        loop = asyncio.get_running_loop()
        begun, go = asyncio.Event(), threading.Event()

        def waiting(data, claim):
            loop.call_soon_threadsafe(begun.set)
            go.wait(30.0)  # and is not for the express

        holding, held = connections.lend(waiting)
        await loop.sock_sendall(holding, b"wait")
        await begun.wait()  # what comes now is read together
        failing, failing_back = connections.lend(unwritable)
        other, other_back = connections.lend(echo)
        await loop.sock_sendall(failing, b"fail")
        await loop.sock_sendall(other, b"hello")
        go.set()
        answer = await loop.sock_recv(other, 1000)
        return answer, await held, await failing_back, await other_back

    assert playing(play) == (b"hello", Returned(unread=b"wait"), Returned(lost=True), Returned())


def test_after_a_failure_connections_can_be_lent_again():
    async def play(connections):
        failing, back = connections.lend(unwritable)
        await asyncio.get_running_loop().sock_sendall(failing, b"fail")
        await back
        client, _ = connections.lend(unwritable)
        return await asked(client, b"hello")

    assert playing(play) == b"hello"


def test_without_a_thread_a_connection_goes_back_at_once(monkeypatch, caplog):
    def refuse(thread):
        raise RuntimeError("can't start new thread")

    async def play(connections):
        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", refuse)
            _, back = connections.lend(echo)
        returned = await back
        client, _ = connections.lend(echo)
        return returned, await asked(client, b"hello")

    assert playing(play) == (Returned(), b"hello")
    assert "can't start new thread" in caplog.text


def test_a_connection_whose_descriptor_cannot_be_copied_goes_back_at_once():
    async def play(connections):
        serving = socket.socket()
        number = serving.fileno()
        serving.close()
        return await connections.express.lend(number, echo)

    assert playing(play) == Returned()
