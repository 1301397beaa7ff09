import asyncio
import os
import socket
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import suppress
from typing import Any

import pytest

from envweave.sandbox.waiting import BLOCKING, LOOPING, Wait, drive

Run = Callable[[Callable[[Wait], Coroutine[Any, Any, Any]]], Any]


def here_and_now(work: Callable[[Wait], Coroutine[Any, Any, Any]]) -> Any:
    return drive(work(BLOCKING))


def on_a_loop(work: Callable[[Wait], Coroutine[Any, Any, Any]]) -> Any:
    return asyncio.run(work(LOOPING))


@pytest.fixture(params=[here_and_now, on_a_loop], ids=["blocking", "looping"])
def run(request: pytest.FixtureRequest) -> Run:
    found: Run = request.param
    return found


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    one, other = socket.socketpair()
    one.setblocking(False)
    with one, other:
        yield one, other


def readable(run: Run, *descriptors: int, timeout: float | None) -> set[int]:
    async def work(wait: Wait) -> set[int]:
        return set(await wait.readable(descriptors, timeout))

    found: set[int] = run(work)
    return found


def test_what_can_be_read_is_found(run: Run, ends: tuple[socket.socket, socket.socket]) -> None:
    ends[1].send(b"x")
    assert readable(run, ends[0].fileno(), timeout=None) == {ends[0].fileno()}


def test_what_has_ended_can_be_read(run: Run, ends: tuple[socket.socket, socket.socket]) -> None:
    ends[1].close()
    assert readable(run, ends[0].fileno(), timeout=None) == {ends[0].fileno()}


def test_the_end_of_a_pipe_can_be_read(run: Run) -> None:
    reader, writer = os.pipe()
    os.close(writer)
    try:
        assert readable(run, reader, timeout=None) == {reader}
    finally:
        os.close(reader)


@pytest.mark.parametrize("timeout", [0, 0.01, -1])
def test_after_the_timeout_nothing_is_found(
    run: Run, ends: tuple[socket.socket, socket.socket], timeout: float
) -> None:
    assert readable(run, ends[0].fileno(), timeout=timeout) == set()


def test_only_those_that_can_be_read_are_found(run: Run, ends: tuple[socket.socket, socket.socket]) -> None:
    one, other = socket.socketpair()
    with one, other:
        other.send(b"x")
        assert readable(run, ends[0].fileno(), one.fileno(), timeout=None) == {one.fileno()}


def test_it_wakes_when_something_comes(run: Run, ends: tuple[socket.socket, socket.socket]) -> None:
    timer = threading.Timer(0.05, ends[1].send, [b"x"])
    timer.start()
    assert readable(run, ends[0].fileno(), timeout=60) == {ends[0].fileno()}
    timer.join()


@pytest.mark.parametrize("timeout", [1e7, 1e12])
def test_a_very_long_timeout_is_no_error(run: Run, ends: tuple[socket.socket, socket.socket], timeout: float) -> None:
    ends[1].send(b"x")
    assert readable(run, ends[0].fileno(), timeout=timeout) == {ends[0].fileno()}


def test_a_socket_with_room_can_be_written(run: Run, ends: tuple[socket.socket, socket.socket]) -> None:
    assert run(lambda wait: wait.writable(ends[0].fileno(), 60)) is True


def test_a_full_socket_cannot_be_written(run: Run, ends: tuple[socket.socket, socket.socket]) -> None:
    with suppress(BlockingIOError):
        while True:
            ends[0].send(b"x" * 65536)
    assert run(lambda wait: wait.writable(ends[0].fileno(), 0.01)) is False


def test_sleeping_ends(run: Run) -> None:
    assert run(lambda wait: wait.sleep(0.001)) is None


def test_a_cancelled_wait_leaves_no_reader_behind(ends: tuple[socket.socket, socket.socket]) -> None:
    async def work() -> bool:
        loop = asyncio.get_running_loop()
        waiting = asyncio.create_task(LOOPING.readable([ends[0].fileno()], None))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        return loop.remove_reader(ends[0].fileno())

    assert asyncio.run(work()) is False


def test_many_waits_share_one_loop() -> None:
    async def work() -> list[set[int]]:
        pairs = [socket.socketpair() for _ in range(20)]
        try:
            waits = [asyncio.create_task(LOOPING.readable([one.fileno()], 60)) for one, _ in pairs]
            await asyncio.sleep(0)
            for _, other in pairs:
                other.send(b"x")
            found = [set(each) for each in await asyncio.gather(*waits)]
            return [] if found == [{one.fileno()} for one, _ in pairs] else found
        finally:
            for pair in pairs:
                for end in pair:
                    end.close()

    assert asyncio.run(work()) == []


def test_drive_gives_what_the_coroutine_returns() -> None:
    async def work() -> int:
        await BLOCKING.sleep(0)
        return 5

    assert drive(work()) == 5


def test_drive_raises_what_the_coroutine_raises() -> None:
    async def work() -> None:
        raise ValueError("inside")

    with pytest.raises(ValueError, match="inside"):
        drive(work())


def test_drive_refuses_a_coroutine_that_waits_for_a_loop() -> None:
    tidied = []

    async def work() -> None:
        try:
            await asyncio.sleep(0)
        finally:
            tidied.append(True)

    with pytest.raises(RuntimeError, match="suspended"):
        drive(work())
    assert tidied == [True]
