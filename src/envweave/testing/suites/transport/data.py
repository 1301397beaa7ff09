"""Data of every kind, awaited calls and threads."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest

from envweave.core.jsonable import to_json
from envweave.errors import EnvWeaveError
from envweave.registry.make import make
from envweave.testing.suites.record import Recorder, error_data, numbered, played
from envweave.testing.suites.scripted import nested
from envweave.testing.suites.transport.base import AGENTS, SCRIPTED, Connect, Same, TransportTests

BIG = [2**63, -(2**63) - 1, 2**64, 10**40, -(10**40)]

VALUES = [
    2**53 + 1, -(2**63), 2**63 - 1, 0, -1, 0.1, -0.0, 1.0, 1e16, 1e308, 5e-324, 1e-7, 123456789.123456789, 3.0e22,
    "", "ünïcode ☃ 𝄞 👩‍👩‍👧", "\x00\x01\x1f\x7f\u2028\u2029\ufeff", "</script>", "\\\"'", "null",
    True, False, [], {}, [[]], [{}], {"": ""}, {"a": None},
    {"z": 1, "a": 2, "m": {"z": 1, "a": 2}},
    {"type": "error", "ref": 7, "id": 9, "data": {"resume": "x"}, "kind": "need_action", "__all__": True},
    {"done": False, "reward": 7, "metadata": {"truncated": True}, "observation": 1, "error": {"code": "usage"}},
    {"terminated": True, "truncated": True, "info": {}, "requests": [], "pending": []},
    [1, "two", 3.5, None, [True, {"four": []}]],
    "x" * 200_000, list(range(5000)), {str(number): number for number in range(2000)},
]  # fmt: skip  # fmt: skip


class DataTests(TransportTests):
    """All data that JSON can express."""

    @pytest.mark.parametrize("id", [SCRIPTED, AGENTS, "counter", "nim"])
    def test_the_schema_of_an_action_is_known_before_the_first_reset(self, same: Same, id: str) -> None:
        def script(env: Recorder) -> None:
            env.action_schema()
            env.reset(seed=1)
            env.action_schema()
            env.action_schema("agent")

        same(id, script)

    def test_all_of_json_crosses_in_both_directions(self, same: Same) -> None:
        def script(env: Recorder) -> None:
            env.reset()
            for value in VALUES:
                env.step({"reply": value, "info": {"value": value}, "reward": None})
            for value in VALUES:
                env.reset(first={"reply": value}, options={"value": value})
                env.step(value if not isinstance(value, dict) else [value])

        same(SCRIPTED, script)

    def test_whole_numbers_of_any_size_cross(self, same: Same) -> None:
        def script(env: Recorder) -> None:
            env.reset()
            for value in BIG:
                env.step(value)
                env.step({"reply": [value], "info": {"value": value}})
                env.reset(options={"value": value})

        said = same(SCRIPTED, script)
        assert said[1]["answer"]["observation"] == 2**63

    def test_data_that_is_nested_as_deeply_as_json_may_be_crosses(self, connect: Connect) -> None:
        deepest = 64  # of `to_json`
        with connect(SCRIPTED) as env, make(SCRIPTED) as here:
            env.reset()
            here.reset()
            for levels in range(deepest - 8, deepest + 1):
                assert to_json(env.step({"nest": levels}).observation) == to_json(
                    here.step({"nest": levels}).observation
                )
                assert env.step([nested(levels - 1)]).observation == [nested(levels - 1)]

    def test_tool_answers_and_log_payloads_carry_any_data(self, same: Same) -> None:
        def script(env: Recorder) -> None:
            env.reset()
            for value in VALUES[:40]:
                env.step({"ask": [{"tool_name": "t", "arguments": {"value": value}}]})
                env.respond(env.env.pending[0].request_id, {"reply": [value], "log": ["x"]})

        same(SCRIPTED, script)


class HandleTests(TransportTests):
    """Other ways to use a handle."""

    def test_awaited_calls_say_the_same(self, connect: Connect) -> None:
        assert asyncio.run(_awaited(connect(SCRIPTED))) == asyncio.run(_awaited(make(SCRIPTED)))

    def test_handles_from_many_threads_do_not_mix(self, connect: Connect) -> None:
        def play(env: Recorder, seed: int) -> None:
            env.reset(seed=seed)
            for number in range(20):
                env.step(number)

        def record(seed: int) -> list[str]:
            return played(lambda: connect(SCRIPTED), partial(play, seed=seed))

        with ThreadPoolExecutor(3) as threads:
            for seed, lines in enumerate(threads.map(record, range(3))):
                assert lines == played(lambda: make(SCRIPTED), partial(play, seed=seed))


async def _awaited(env: Any) -> list[str]:
    """The record of calls on `env.aio`."""
    lines: list[str] = []
    episodes: dict[str, str] = {}
    async with env.aio as handle:
        calls: list[Callable[[], Awaitable[Any]]] = [
            lambda: handle.step({}),
            lambda: handle.reset(seed=3),
            lambda: handle.step({"log": ["x"]}),
            handle.state,
            handle.render,
            lambda: handle.step({"ask": [{"tool_name": "t"}]}),
            lambda: handle.respond(handle.pending[0].request_id, {"reply": 1}),
            lambda: handle.step({"raise": "plain"}),
            handle.reset,
            handle.close,
            handle.close,
            lambda: handle.step({}),
        ]
        for call in calls:
            try:
                said = {"answer": await call()}
            except EnvWeaveError as error:
                said = {"error": error_data(error)}
            lines.append(numbered(json.dumps(to_json({**said, "pending": handle.pending})), episodes))
    return lines
