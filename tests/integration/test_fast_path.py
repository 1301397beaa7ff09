"""Quick steps, on systems and web servers with which the fast path does not work, or breaks."""

import sys
from contextlib import contextmanager

import pytest

import envweave as ew
from envweave.providers.base import running
from envweave.providers.subprocess import SubprocessProvider

ENVIRONMENT = """
import threading

class Counting:
    "Counts its steps, and says which thread ran the last one."
    def reset(self):
        self._count = 0
        return {"count": 0, "thread": ""}
    def step(self, action):
        self._count += 1
        return {"count": self._count, "thread": threading.current_thread().name}
    def state(self):
        return {"count": self._count}
"""

OTHER_UVICORN = """
import inspect
from uvicorn.protocols.websockets import websockets_sansio_impl as module
source = inspect.getsource(module)
for name in ("disconnected", "frames", "schedule_ping"):
    source = source.replace(f"self.{name}", f"self.other_{name}").replace(f"def {name}", f"def other_{name}")
exec(compile(source, module.__file__, "exec"), vars(module))
"""
"""A version whose WebSocket calls some of its attributes differently."""

NO_EPOLL = """
import select
del select.epoll
"""

FAILING_POLL = """
import asyncio, select
class FailingPoll:
    def __init__(self):
        self._poll, self._polls = epoll(), 0
    def __getattr__(self, name):
        return getattr(self._poll, name)
    def poll(self, timeout):
        self._polls += 1
        if self._polls == 5:
            raise OSError("the poll failed")
        return self._poll.poll(timeout)
epoll, select.epoll = select.epoll, FailingPoll
"""

FAILING_RETURN = """
import asyncio, select, threading
class FailingReturn:
    def __init__(self):
        self._poll, self._failed = epoll(), False
    def __getattr__(self, name):
        return getattr(self._poll, name)
    def unregister(self, fd):
        if not self._failed and threading.current_thread() is not threading.main_thread():
            self._failed = True
            raise MemoryError("the connection cannot be given back")
        self._poll.unregister(fd)
epoll, select.epoll = select.epoll, FailingReturn
"""

FAILING_SEND = """
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
send, messages = WebSocketsSansIOProtocol.send, []
async def failing_send(self, message):
    messages.append(message["type"])
    if messages.count("websocket.send") == 2:
        messages.append("websocket.send")
        raise TypeError("the web server failed")
    await send(self, message)
WebSocketsSansIOProtocol.send = failing_send
"""

STEPS = 300
FAST = "envweave-express"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("environments")
    (path / "mine.py").write_text(ENVIRONMENT)
    return path


@contextmanager
def serving(folder, prelude=""):
    """A server in a process that runs some code before it loads envweave."""
    code = f"{prelude}\nfrom envweave.cli import main\nmain()\n"
    command = [sys.executable, "-c", code, "serve", "pkg://mine:Counting", "--port", "0"]
    provider = SubprocessProvider(command=command, cwd=folder, stop_timeout=0.0)
    with running(provider):
        yield provider


def threads_of_steps(env):
    """The threads that have run the steps of an episode; each step is run once."""
    env.reset()
    seen = [env.step(0).observation for _ in range(STEPS)]
    assert [each["count"] for each in seen] == list(range(1, STEPS + 1))
    return {each["thread"] for each in seen}


@pytest.fixture(params=["ws", "http"])
def scheme(request):
    return request.param


@contextmanager
def playing(provider, scheme="ws"):
    with ew.make(provider.url.replace("http", scheme, 1)) as env:
        yield env


def test_quick_steps_take_the_fast_path(folder, scheme):
    with serving(folder) as provider, playing(provider, scheme) as env:
        assert FAST in threads_of_steps(env)


def test_with_a_uvicorn_that_lacks_what_the_fast_path_needs_steps_take_the_usual_one_and_the_log_says_so(folder):
    with serving(folder, OTHER_UVICORN) as provider:
        with playing(provider) as env:
            assert FAST not in threads_of_steps(env)
        with playing(provider) as env:
            assert FAST not in threads_of_steps(env)
        assert provider.logs().count("lacks disconnected, frames, schedule_ping") == 1


def test_without_epoll_steps_take_the_usual_path(folder, scheme):
    with serving(folder, NO_EPOLL) as provider, playing(provider, scheme) as env:
        assert FAST not in threads_of_steps(env)


def test_when_the_fast_path_fails_the_steps_go_on_and_the_log_says_why(folder, scheme):
    with serving(folder, FAILING_POLL) as provider, playing(provider, scheme) as env:
        assert FAST in threads_of_steps(env)
        assert "the express failed" in provider.logs()
        assert "OSError: the poll failed" in provider.logs()


def test_a_client_whose_message_was_lost_with_the_fast_path_asks_again(folder):
    with serving(folder, FAILING_RETURN) as provider, playing(provider) as env:
        assert FAST in threads_of_steps(env)
        assert env.state()["count"] == STEPS
        assert "MemoryError: the connection cannot be given back" in provider.logs()
        assert FAST in threads_of_steps(env)


def test_a_connection_that_cannot_be_written_to_is_closed_and_its_client_resumes(folder):
    with serving(folder, FAILING_SEND) as provider, playing(provider) as env:
        threads_of_steps(env)
        assert "a connection cannot be written to and is closed" in provider.logs()
        assert "TypeError: the web server failed" in provider.logs()
