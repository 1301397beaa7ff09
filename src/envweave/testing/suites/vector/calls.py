"""Rows with arguments of their own, forks and `await`."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from envweave.errors import BusyError, ClosedError, UnsupportedError, UsageError
from envweave.testing.suites.vector.base import (
    GO,
    MakeVector,
    VectorTests,
    counts,
)


class VectorCallTests(VectorTests):
    """Arguments of single rows, forks of rows, awaited calls."""

    def test_each_row_gets_its_own_seed_options_and_episode_id(self, vector: MakeVector, steered: str) -> None:
        vec = vector(steered, 3)
        reset = vec.reset(seed=[5, None, 7], options=[{"start": 1}, None, {"start": 3}], episode_id=["a", None, "c"])
        assert [info["seed"] for info in reset.info] == [5, None, 7]
        assert [info["options"] for info in reset.info] == [{"start": 1}, None, {"start": 3}]
        assert [observation.start for observation in reset.obs] == [1, 0, 3]
        told = [info["episode_id"] for info in reset.info]
        assert (told[0], told[2]) == ("a", "c")
        assert told[1] not in ("a", "c", None)

    def test_rows_that_are_named_get_the_values_in_the_order_of_their_names(
        self, vector: MakeVector, steered: str
    ) -> None:
        vec = vector(steered, 3)
        vec.reset()
        vec.send_reset([2, 0], seed=[8, 9], options=[{"start": 2}, {"start": 4}], episode_id=["two", "zero"])
        batch = vec.recv(min_ready=2, timeout=60)
        told = {
            id: (info["seed"], info["options"], info["episode_id"])
            for id, info in zip(batch.ids, batch.info, strict=True)
        }
        assert told == {2: (8, {"start": 2}, "two"), 0: (9, {"start": 4}, "zero")}

    def test_one_value_is_for_all_rows_and_one_episode_id_for_a_single_row(
        self, vector: MakeVector, steered: str
    ) -> None:
        vec = vector(steered, 3)
        reset = vec.reset(seed=5, options={"start": 2})
        assert [info["seed"] for info in reset.info] == [5, 6, 7]
        assert [observation.start for observation in reset.obs] == [2, 2, 2]
        assert vec.reset(ids=[1], episode_id="mine").info[0]["episode_id"] == "mine"

    def test_a_fork_goes_its_own_way_and_the_row_goes_on(self, vector: MakeVector, steered: str) -> None:
        vec = vector(steered, 2)
        vec.reset(options=[{"start": 1}, {"start": 2}])
        vec.step([GO, GO])
        with vec.fork(1) as fork:
            assert fork.id not in vec.ids
            assert [request.kind for request in fork.pending] == ["need_action"]
            for _ in range(3):
                seen = fork.step(GO).observation
            assert (seen.count, seen.start) == (4, 2)
            assert counts(vec.step([GO, GO])) == [2, 2]
            assert fork.step({"do": "end"}).done
            assert counts(vec.step([GO, GO])) == [3, 3]
            assert fork.reset().observation.count == 0

    def test_a_fork_outlives_its_vector(self, vector: MakeVector, steered: str) -> None:
        vec = vector(steered, 2)
        vec.reset()
        fork = vec.fork(0)
        assert vec.close() == []
        with fork:
            assert fork.step(GO).observation.count == 1

    def test_a_fork_of_a_row_in_flight_is_refused(self, vector: MakeVector, steered: str) -> None:
        vec = vector(steered, 2)
        vec.reset()
        vec.send([GO], [1])
        with pytest.raises(BusyError, match=r"\[1\]"):
            vec.fork(1)
        with vec.fork(0) as fork:
            assert fork.step(GO).observation.count == 1
        assert counts(vec.recv(timeout=60)) == [1]

    def test_a_fork_that_cannot_be_made_names_the_field_and_the_row_goes_on(
        self, vector: MakeVector, uncopyable: str
    ) -> None:
        vec = vector(uncopyable, 2)
        vec.reset()
        with pytest.raises(UnsupportedError, match=r"environment 1: .*env\.lock"):
            vec.fork(1)
        assert counts(vec.step([GO, GO])) == [1, 1]

    def test_every_call_can_be_awaited(self, vector: MakeVector, steered: str) -> None:
        async def play() -> Any:
            async with vector(steered, 2).aio as vec:
                assert (vec.num_envs, vec.in_flight) == (2, [])
                reset = await vec.reset(options=[{"start": 1}, {"start": 2}])
                assert [observation.start for observation in reset.obs] == [1, 2]
                assert counts(await vec.step([GO, GO])) == [1, 1]
                await vec.send([GO], [1])
                assert counts(await vec.recv(timeout=60)) == [2]
                await vec.send_reset([1], seed=[4])
                assert (await vec.recv(timeout=60)).info[0]["seed"] == 4
                fork = await vec.fork(0)
                assert (await fork.step(GO)).observation.count == 2
                await fork.close()
                call = (await vec.step([{"do": "ask"}], ids=[0])).requests[0][0]
                assert (await vec.respond(0, call.request_id, 7)).obs[0].start == 7
                with pytest.raises(UsageError):
                    await vec.step([GO])
            with pytest.raises(ClosedError):
                await vec.recv()

        asyncio.run(play())

    @pytest.mark.parametrize("call", ["recv", "step", "reset"])
    def test_a_call_that_is_cancelled_loses_no_row(
        self, vector: MakeVector, steered: str, files: Path, call: str
    ) -> None:
        vec = vector(steered, 2)
        vec.reset()
        (files / "hang step").touch()
        (files / "hang reset").touch()

        async def play() -> Any:
            hung = [{"do": "hang"}, {"do": "hang"}]
            calls = {
                "recv": lambda: sent_and_received(hung),
                "step": lambda: vec.aio.step(hung),
                "reset": vec.aio.reset,
            }
            waiting = asyncio.create_task(calls[call]())
            while not (files / "hanging").exists():
                await asyncio.sleep(0.01)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            (files / "hang step").unlink()
            (files / "hang reset").unlink()
            return await vec.aio.recv(min_ready=2, timeout=60)

        async def sent_and_received(actions: list[Any]) -> None:
            await vec.aio.send(actions)
            await vec.aio.recv(min_ready=2)

        batch = asyncio.run(play())
        assert sorted(batch.ids) == [0, 1]
        assert counts(batch) == ([0, 0] if call == "reset" else [1, 1])
        assert vec.in_flight == []
        assert counts(vec.step([GO, GO])) == ([1, 1] if call == "reset" else [2, 2])

    def test_a_second_call_at_the_same_time_is_refused_and_close_ends_the_first(
        self, vector: MakeVector, steered: str, files: Path
    ) -> None:
        (files / "hang step").touch()

        async def play() -> Any:
            vec = vector(steered, 2)
            await vec.aio.reset()
            first = asyncio.create_task(vec.aio.step([{"do": "hang"}, {"do": "hang"}]))
            await asyncio.sleep(0)
            with pytest.raises(BusyError):
                await vec.aio.recv()
            closing = asyncio.create_task(vec.aio.close(timeout=30))
            await asyncio.sleep(0)
            (files / "hang step").unlink()
            assert await closing == []
            with pytest.raises(ClosedError):
                await first

        asyncio.run(play())

    def test_a_cancelled_call_is_over_even_if_its_event_loop_has_ended(
        self, vector: MakeVector, steered: str, files: Path
    ) -> None:
        vec = vector(steered, 2)
        vec.reset()

        async def cancelled() -> None:
            task = asyncio.create_task(vec.aio.step([GO, GO]))
            await asyncio.sleep(0)
            task.cancel()

        asyncio.run(cancelled())

        async def received() -> Any:
            return await vec.aio.recv(min_ready=2, timeout=60)

        batch = asyncio.run(received())
        after = vec.step([GO, GO])
        assert (counts(batch), counts(after)) in (([1, 1], [2, 2]), ([], [1, 1]))  # received, or never sent
