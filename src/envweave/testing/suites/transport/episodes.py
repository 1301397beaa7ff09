"""Episodes of one agent: what is right, what is refused and what fails."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Literal

import pytest

from envweave.envs.counter import Increment
from envweave.envs.echo import EchoAction
from envweave.envs.lineworld import Move
from envweave.testing.suites.record import Recorder, answer, ends, kinds
from envweave.testing.suites.transport.base import SCRIPTED, Same, TransportTests


class EpisodeTests(TransportTests):
    """Episodes from reset to end, with and without `autoreset`."""

    @pytest.mark.parametrize("typed", [False, True])
    def test_episodes_of_lineworld(self, same: Same, typed: bool) -> None:
        def script(env: Recorder) -> None:
            for seed in (0, 1, 7):
                observation = env.reset(seed=seed).observation
                goal = observation.goal if hasattr(observation, "goal") else observation["goal"]
                toward: Literal[-1, 1] = 1 if goal > 0 else -1
                moves: list[Literal[-1, 1]] = [1, -1, *[toward] * 5]
                for move in moves:
                    env.step(Move(move) if typed else {"move": move})
                    env.state()
                env.render()
            env.reset(seed=3)
            for _ in range(20):
                env.step({"move": 1})

        said = same("lineworld", script)
        assert [
            ends(line)
            for line in said
            if line["call"] == "step" and answer(line)["requests"][0]["kind"] != "need_action"
        ]
        assert len({line["answer"]["observation"]["goal"] for line in said if line["call"] == "reset"}) == 2

    def test_seeds_draw_the_same_chance_on_both_sides(self, same: Same) -> None:
        def script(env: Recorder) -> None:
            for seed in range(8):
                env.reset(seed=seed)
                env.step({"reply": None})
            env.reset()
            env.reset(seed=0)
            env.step({})
            env.reset()
            env.step({})

        same(SCRIPTED, script)

    def test_episodes_of_counter_by_typed_and_plain_actions(self, same: Same) -> None:
        def script(env: Recorder) -> None:
            env.reset()
            env.step({"delta": 1})
            env.step(Increment(delta=1))
            env.step({"delta": 1, "metadata": {"why": "because"}})
            env.reset(episode_id="my-episode")
            env.step(Increment(delta=10, metadata={"a": [1]}))
            env.state()
            env.action_schema()

        said = same("counter", script)
        assert [ends(line) for line in said if line["call"] == "step"] == [[], [], ["terminated"], ["terminated"]]

    def test_echo_says_the_same(self, same: Same) -> None:
        def script(env: Recorder) -> None:
            env.reset(episode_id="first")
            for message in ("Hello, World!", "", "ünïcode ☃ 𝄞", "line\nbreak\x00\u2028\x7f", "x" * 70_000):
                env.step({"message": message})
                env.step(EchoAction(message=message))
            env.state()
            env.reset(episode_id="second")
            env.state()

        said = same("echo", script)
        assert said[1]["answer"]["reward"] == 1.3

    def test_a_reset_or_a_close_in_the_middle_ends_the_episode_as_closed(self, same: Same) -> None:
        def script(env: Recorder) -> None:
            env.reset(seed=1)
            env.step({"move": 1})
            env.reset(seed=2)

        said = same("lineworld", script)
        assert ends(said[2]) == ends(said[3]) == ["closed"]

    def test_a_close_without_an_episode_has_nothing_to_say(self, same: Same) -> None:
        assert same("counter", lambda env: env.state())[-1]["answer"] == []

        def script(env: Recorder) -> None:
            env.reset()
            env.step({"delta": 9})
            env.close()
            env.close()
            env.reset()
            env.snapshot()
            env.fork()
            env.step({"delta": 1})

        said = same("counter", script)
        assert said[2]["answer"] == []
        assert {line["error"]["class"] for line in said[4:8]} == {"ClosedError"}

    def test_autoreset_keeps_the_last_observation_and_begins_the_next_episode(self, same: Same) -> None:
        def script(env: Recorder) -> None:
            env.reset(seed=5)
            for _ in range(25):
                env.step({"move": 1})
            env.state()

        said = same("lineworld", script, autoreset=True)
        finished = [line for line in said if line["call"] == "step" and "autoreset_ready" in kinds(line)]
        assert finished
        assert kinds(finished[0]) == ["episode_end", "autoreset_ready", "need_action"]
        assert abs(finished[0]["answer"]["observation"]["pos"]) == 5
        assert finished[0]["answer"]["requests"][1]["initial_obs"]["pos"] == 0

    def test_autoreset_goes_on_after_every_reason_but_a_failure(self, same: Same) -> None:
        def script(env: Recorder) -> None:
            env.reset(seed=1)
            env.step({"raise": "plain"})
            env.step({"reply": "after"})
            env.reset()
            env.step({"end": "terminated"})
            env.step({"end": "truncated"})
            env.step({"end": "invalid_action", "log": ["last words"]})

        said = same(SCRIPTED, script, autoreset=True)
        assert [kinds(said[number]) for number in (1, 6)] == [
            ["episode_end"],
            ["log_event", "episode_end", "autoreset_ready", "need_action"],
        ]

    @pytest.mark.parametrize("autoreset", [False, True])
    def test_a_length_limit_truncates(self, same: Same, autoreset: bool) -> None:
        def script(env: Recorder) -> None:
            env.reset(seed=1)
            for number in range(7):
                env.step({"reply": number})
            env.state()

        said = same(SCRIPTED, script, autoreset=autoreset, max_episode_steps=3)
        assert ends(said[3]) == ["truncated"]
        assert said[3]["answer"]["truncated"] is True


class RefusalTests(TransportTests):
    """Calls that are refused change nothing."""

    def test_wrong_actions_are_refused_and_change_nothing(self, same: Same) -> None:
        wrong = [
            {"move": 2}, {"move": "1"}, {"move": None}, {}, {"move": 1, "speed": 2}, 1, "right", [1], {"move": 1.5},
            {"move": True}, [], {"move": {"move": 1}},
        ]  # fmt: skip

        def script(env: Recorder) -> None:
            env.step({"move": 1})
            env.reset(seed=1)
            for action in wrong:
                env.step(action)
            env.step({"move": 1})
            env.state()

        said = same("lineworld", script)
        assert said[0]["error"]["class"] == "ResetNeededError"
        refused = [line["error"]["class"] for line in said if line["call"] == "step" and "error" in line]
        assert refused.count("InvalidActionError") >= 11
        assert said[-2]["answer"]["step_count"] == len(wrong) + 2 - len(refused)

    def test_none_is_an_action_like_any_other(self, same: Same) -> None:
        def script(env: Recorder) -> None:
            env.reset(seed=1)
            env.step(None)
            env.state()

        assert same(SCRIPTED, script)[1]["answer"]["observation"] is None
        assert same("lineworld", script)[1]["error"]["class"] == "InvalidActionError"

    def test_a_step_before_the_reset_and_after_the_end_is_refused(self, same: Same) -> None:
        def script(env: Recorder) -> None:
            env.step({"delta": 1})
            env.respond("nobody", 1)
            env.snapshot()
            env.state()
            env.reset()
            env.step({"delta": 5})
            env.step({"delta": 1})
            env.respond("nobody", 1)
            env.reset()
            env.step({"delta": 1})

        said = same("counter", script)
        assert [line["error"]["class"] for line in said if "error" in line].count("ResetNeededError") == 4

    def test_wrong_resets_are_refused_and_change_nothing(self, same: Same) -> None:
        def script(env: Recorder) -> None:
            env.reset(speed=3)
            env.reset(options={"speed": 3})
            env.reset(seed=4)
            env.step({"move": 1})
            env.reset(speed=3)
            env.step({"move": 1})
            env.state()

        said = same("lineworld", script)
        assert said[-2]["answer"]["step_count"] == 2

    def test_options_reach_a_reset_by_name_and_in_a_dict(self, same: Same) -> None:
        def script(env: Recorder) -> None:
            env.reset(options={"a": 1, "b": [None]}, seed=1)
            env.reset(first={"reply": "hello"}, options={})
            env.reset(stranger=1)
            env.reset(options={"seed": 3}, first={"reply": 0, "log": ["begins"]})
            env.step({})

        same(SCRIPTED, script)

    def test_an_option_of_none_is_an_option_too(self, same: Same) -> None:
        def script(env: Recorder) -> None:
            env.reset(stranger=None)
            env.reset(options={"a": None})
            env.reset(seed=None, options=None, episode_id=None)

        said = same(SCRIPTED, script)
        assert said[0]["answer"]["info"]["options"] == {"stranger": None}

    def test_a_reset_that_the_author_refuses_is_a_usage_error(self, same: Same) -> None:
        def script(env: Recorder) -> None:
            env.reset()
            env.step({})
            env.reset(first={"refuse": "not like this"})
            env.step({})
            env.reset()

        said = same(SCRIPTED, script)
        assert said[2]["error"]["class"] == "UsageError"

    def test_an_action_the_environment_refuses_leaves_the_episode_as_it_is(self, same: Same) -> None:
        def script(env: Recorder) -> None:
            env.reset()
            env.step({"refuse": "nö"})
            env.step({})
            env.step({"ask": [{"tool_name": "t"}]})
            env.respond(env.env.pending[0].request_id, {"refuse": "not that either"})
            env.respond(env.env.pending[0].request_id, {"reply": "ok"})
            env.step({})

        said = same(SCRIPTED, script)
        assert said[1]["error"]["class"] == said[4]["error"]["class"] == "InvalidActionError"

    def test_a_second_call_while_one_runs_is_refused(self, same: Same, tmp_path: Path) -> None:
        gates = iter(range(10))

        def script(env: Recorder) -> None:
            env.reset()
            path = tmp_path / f"gate-{next(gates)}"
            os.mkfifo(path)
            with ThreadPoolExecutor(1) as aside:
                slow = aside.submit(env.env.step, {"wait": str(path), "reply": "waited"})
                with open(path, "w"):  # the environment reads: its step runs
                    env.step({})
                    env.reset()
                    env.snapshot()
                env.write("slow", answer=slow.result())
            env.step({})

        said = same(SCRIPTED, script)
        assert [line["error"]["class"] for line in said if "error" in line] == ["BusyError"] * 3


class FailureTests(TransportTests):
    """An environment that raises or returns something unusual."""

    def test_a_step_that_raises_ends_the_episode_once_and_the_next_reset_works(self, same: Same) -> None:
        def script(env: Recorder) -> None:
            for how in (
                "plain",
                "text",
                "silent",
                "exit",
                "usage",
                "busy",
                "sandbox",
                "provider",
                "env",
                "unimplemented",
            ):
                env.reset()
                env.step({"raise": how})
                env.step({})
                env.state()
                env.reset()
                env.step({})
                env.step({"ask": [{"tool_name": "t"}]})
                env.respond(env.env.pending[0].request_id, {"raise": how})
                env.respond("gone", 1)

        said = same(SCRIPTED, script)
        for first in range(0, len(said) - 1, 9):
            assert ends(said[first + 1]) == ends(said[first + 7]) == ["infra_error"]
            assert ends(said[first]) == ends(said[first + 4]) == []

    def test_a_reset_that_raises_is_an_error_with_what_was_due(self, same: Same) -> None:
        def script(env: Recorder) -> None:
            for how in ("plain", "exit", "busy", "sandbox", "provider", "unimplemented"):
                env.reset(first={"raise": how})
                env.step({})
                env.reset()
                env.step({})
                env.reset(first={"raise": how})
                env.step({})
                env.reset()

        said = same(SCRIPTED, script)
        for first in range(0, len(said) - 1, 7):
            assert ends(said[first + 4]) == ["closed"]
            assert ends(said[first + 6]) == []

    def test_other_members_that_raise_do_not_touch_the_episode(self, same: Same) -> None:
        def script(env: Recorder) -> None:
            env.reset()
            snapshot = env.snapshot()
            for how in ("plain", "exit", "usage", "unimplemented"):
                for member in ("state", "render", "snapshot", "restore"):
                    env.step({"break": member, "how": how})
                env.state()
                env.render()
                env.snapshot()
                env.fork()
                env.restore(snapshot)
                env.step({})

        said = same(SCRIPTED, script)
        assert [line["call"] for line in said if "error" in line].count("render") == 4

    def test_a_close_that_raises_says_so_once_with_the_end_of_the_episode(self, same: Same) -> None:
        def script(env: Recorder) -> None:
            env.reset()
            env.step({"break": "close"})
            env.close()
            env.step({})

        said = same(SCRIPTED, script)
        assert ends(said[2]) == ["closed"]

    def test_what_an_environment_returns_means_the_same(self, same: Same) -> None:
        odd = [
            "none", "triple", "quadruple", "nan", "dataclass", "done", "dict", "mapping", "text",
            "number", "list", "false", "bad reward", "bad info", "bad flag",
        ]  # fmt: skip

        def script(env: Recorder) -> None:
            for kind in odd:
                env.reset()
                env.step({"return": kind})
                if kind != "nan":  # of a reset that would be an observation, which has no JSON form
                    env.reset(first={"return": kind})

        same(SCRIPTED, script)

    def test_an_environment_without_the_optional_members_says_so(self, same: Same) -> None:
        def script(env: Recorder) -> None:
            env.reset()
            env.render()
            env.respond("x", 1)
            env.step({"delta": 1})

        said = same("counter", script)
        assert said[1]["error"]["class"] == "UnsupportedError"
        assert said[2]["error"]["class"] == "UsageError"
