"""The same for `await`."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from envweave.errors import ClosedError, SandboxError
from envweave.sandbox import AsyncSession, Limits, Sandbox, Session
from envweave.testing.suites.sandbox.base import DEAF, ENDLESS, Make, SandboxTests


class AsyncTests(SandboxTests):
    """Sessions on an event loop."""

    def test_all_that_a_session_does_can_be_awaited(self, sandbox: Sandbox) -> None:
        async def use() -> None:
            async with started(sandbox) as session:
                assert (await session.run("x = 1\nprint('out')\nx + 1")).return_value == 2
                assert await session.variables() == {"x": "int"}
                await session.set("y", [1])
                assert await session.get("y") == [1]
                await session.write_file("a.txt", "text")
                assert await session.read_file("a.txt") == b"text"
                assert await session.list_files() == {"a.txt": 4}
                assert await session.interrupt() is False

        asyncio.run(use())

    def test_the_sync_and_the_async_session_are_one(self, session: Session) -> None:
        session.run("x = 1")

        async def use() -> Any:
            return (await session.aio.run("x + 1")).return_value

        assert asyncio.run(use()) == 2
        assert session.aio.sync.get("x") == 1

    def test_twenty_sessions_run_at_once(self, make: Make) -> None:
        count = self.at_once

        async def use() -> list[Any]:
            together = asyncio.Event()
            arrived = 0

            async def meet() -> None:
                nonlocal arrived
                arrived += 1
                if arrived == count:
                    together.set()
                await together.wait()

            sandbox = make(tools={"meet": meet})

            async def one(number: int) -> Any:
                async with started(sandbox) as session:
                    return (await session.run(f"meet()\n{number} * 2")).return_value

            return await asyncio.gather(*(one(number) for number in range(count)))

        assert asyncio.run(use()) == [number * 2 for number in range(count)]

    def test_a_run_that_is_cancelled_leaves_the_session_usable(self, make: Make) -> None:
        async def use() -> None:
            begun = asyncio.Event()

            async def begin() -> None:
                begun.set()

            async with started(make(tools={"begin": begin}, limits=Limits(grace=10))) as session:
                await session.run("x = 1")
                running = asyncio.create_task(session.run(f"begin()\n{ENDLESS}"))
                await asyncio.wait_for(begun.wait(), 30)
                running.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await running
                assert (await session.run("x + 1")).return_value == 2

        asyncio.run(use())

    def test_a_run_that_is_cancelled_and_swallows_it_is_killed(self, make: Make) -> None:
        async def use() -> None:
            begun = asyncio.Event()

            async def begin() -> None:
                begun.set()

            async with started(make(tools={"begin": begin})) as session:
                running = asyncio.create_task(session.run(f"begin()\n{DEAF}"))
                await asyncio.wait_for(begun.wait(), 30)
                running.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await running
                with suppress(SandboxError):  # if it had to be killed that is told once, as its variables are gone
                    await session.run("5")
                assert (await session.run("begin()\n5")).return_value == 5

        asyncio.run(use())

    def test_a_cancelled_run_ends_with_its_session(self, make: Make) -> None:
        async def use() -> None:
            begun = asyncio.Event()

            async def begin() -> None:
                begun.set()

            async with started(make(tools={"begin": begin})) as session:
                running = asyncio.create_task(session.run(f"begin()\n{ENDLESS}"))
                await asyncio.wait_for(begun.wait(), 30)
                running.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await running

        asyncio.run(use())

    def test_a_message_that_is_cut_short_does_not_garble_the_next(self, make: Make) -> None:
        async def use() -> None:
            async with started(make(limits=Limits(grace=30))) as session:
                await session.run("x = 1")
                await cut_short(session.write_file("large", b"x" * (8 << 20)))
                await cut_short(session.run("y = '" + "y" * (8 << 20) + "'"))
                await session.write_file("small", "text")
                assert (await session.run("x, open('small').read()")).return_value == [1, "text"]

        asyncio.run(use())

    def test_a_close_that_is_cut_short_is_finished_by_the_next(self, make: Make) -> None:
        async def use() -> None:
            sandbox = make()
            session = await sandbox.aio.start()
            await cut_short(session.close())
            with pytest.raises(ClosedError):
                await session.run("1")
            await session.close()
            sandbox.close()

        asyncio.run(use())

    def test_the_loop_is_free_while_code_runs(self, make: Make) -> None:
        async def use() -> Any:
            free = asyncio.Event()

            async def wait() -> bool:
                await free.wait()
                return True

            async with started(make(tools={"wait": wait})) as session:
                running = asyncio.create_task(session.run("wait()"))
                await asyncio.sleep(0)
                free.set()
                return (await running).return_value

        assert asyncio.run(use()) is True

    def test_an_async_tool_runs_on_the_loop_of_the_caller(self, make: Make) -> None:
        async def use() -> None:
            here = asyncio.get_running_loop()
            loops: list[object] = []

            async def where() -> None:
                loops.append(asyncio.get_running_loop())

            async with started(make(tools={"where": where})) as session:
                await session.run("where()")
            assert loops == [here]

        asyncio.run(use())

    def test_a_plain_tool_does_not_block_the_loop(self, make: Make) -> None:
        async def use() -> Any:
            release = threading.Event()
            async with started(make(tools={"slow": lambda: release.wait(60)})) as session:
                running = asyncio.create_task(session.run("slow()"))
                await asyncio.sleep(0.05)
                release.set()
                return (await running).return_value

        assert asyncio.run(use()) is True

    def test_an_async_sandbox_closes_what_it_started(self, make: Make) -> None:
        async def use() -> None:
            async with make().aio as sandbox:
                session = await sandbox.start()
                await session.run("1")
            with pytest.raises(ClosedError):
                await session.run("1")

        asyncio.run(use())


@asynccontextmanager
async def started(sandbox: Sandbox) -> AsyncIterator[AsyncSession]:
    async with await sandbox.aio.start() as session:
        yield session


async def cut_short(work: Coroutine[Any, Any, Any]) -> None:
    """Begin something, let it come as far as its first wait, and cancel it."""
    task = asyncio.create_task(work)
    await asyncio.sleep(0)
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
