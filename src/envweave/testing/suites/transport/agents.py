"""Environments for several agents."""

from __future__ import annotations

from typing import Literal

import pytest

from envweave.envs.nim import Take
from envweave.testing.suites.record import Recorder, answer
from envweave.testing.suites.transport.base import AGENTS, Same, TransportTests

HEAPS: tuple[Literal[0], Literal[1], Literal[2]] = (0, 1, 2)


class AgentTests(TransportTests):
    """Several agents, who may join and leave."""

    def test_nim_is_played_in_turns(self, same: Same) -> None:
        def script(env: Recorder) -> None:
            for seed in (1, 2):
                heaps = env.reset(seed=seed).requests and env.env.reset(seed=seed).observation["alice"]
                heaps = list(heaps.heaps if hasattr(heaps, "heaps") else heaps["heaps"])
                player, other = "alice", "bob"
                env.step({other: {"heap": 0, "count": 1}})
                env.step({player: {"heap": 0, "count": 9}})
                env.step({player: {"heap": 0, "count": 1}, other: {"heap": 0, "count": 1}})
                env.step({})
                env.step([])
                env.step({"eve": {"heap": 0, "count": 1}})
                for heap, stones in enumerate(heaps):
                    env.step({player: Take(HEAPS[heap], stones)})
                    env.step({player: {"heap": heap, "count": 1}})
                    player, other = other, player
                env.render()
                env.action_schema("bob")
                env.action_schema()

        said = same("nim", script)
        errors = {line["error"]["class"] for line in said if "error" in line}
        assert {"WrongAgentError", "InvalidActionError", "ResetNeededError"} <= errors

    @pytest.mark.parametrize("autoreset", [False, True])
    def test_rock_paper_scissors_is_played_at_once(self, same: Same, autoreset: bool) -> None:
        hands = ["rock", "paper", "scissors"]

        def script(env: Recorder) -> None:
            env.action_schema("left")
            env.reset()
            for number in range(7):
                env.step({"left": {"hand": hands[number % 3]}, "right": {"hand": hands[(number * 2) % 3]}})
            env.step({"left": {"hand": "rock"}})
            env.step({"left": {"hand": "stone"}, "right": {"hand": "rock"}})
            env.state()

        same("rock-paper-scissors", script, autoreset=autoreset)

    def test_agents_join_leave_and_die(self, same: Same) -> None:
        days = [
            {"ann": "wait", "bob": "invite dan eve", "cyd": "log"},
            {"ann": "die", "bob": "leave", "cyd": "tire", "dan": "win", "eve": "wait"},
            {"eve": "invite ann zoe"},
            {"eve": "next zoe", "zoe": "unscored"},
            {"zoe": "quit"},
            {"eve": "ghost"},
        ]

        def script(env: Recorder) -> None:
            for seed in (1, 2):
                env.reset(seed=seed)
                for day in days:
                    env.step({agent: day.get(agent, "wait") for agent in [need.agent_id for need in env.env.pending]})
                env.state()

        said = same(AGENTS, script)
        assert any(request.get("agent_id") for line in said for request in answer(line).get("requests", ()))

    @pytest.mark.parametrize("autoreset", [False, True])
    def test_what_one_agent_does_ends_or_stops_all(self, same: Same, autoreset: bool) -> None:
        def everybody(env: Recorder, said: str) -> dict[str, str]:
            return {need.agent_id: said for need in env.env.pending if need.kind == "need_action"}

        def script(env: Recorder) -> None:
            for word in ("end", "stop", "fail", "refuse", "call search", "leave", "die", "quit", "ghost"):
                env.reset(seed=3)
                env.step({**everybody(env, "wait"), "bob": word})
                for request in env.env.pending:
                    if request.kind == "tool_call":
                        env.step({"ann": "wait"})
                        env.respond(request.request_id, {"found": [1]})
                env.step(everybody(env, "wait"))
                env.step(everybody(env, word))
                env.reset(seed=13)
                env.reset(seed=4)
                env.step(everybody(env, "wait"))

        same(AGENTS, script, autoreset=autoreset, max_episode_steps=4)

    def test_an_episode_of_several_agents_is_branched(self, same: Same) -> None:
        def script(env: Recorder) -> None:
            env.reset(seed=1)
            env.step({"ann": "wait", "bob": "invite dan", "cyd": "die"})
            here = env.snapshot()
            twin = env.fork()
            everybody = {"ann": "leave", "bob": "wait", "dan": "wait"}
            for one in (env, twin):
                one.step(everybody)
                one.step(everybody)
            env.restore(here)
            env.step(everybody)
            twin.close()

        same(AGENTS, script)
