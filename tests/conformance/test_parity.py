"""One suite for every way to an environment: what is said in-process is said over each wire, byte for byte after JSON.

A test is a script. It is played in this process and over the wire, each call and its answer are written down as JSON
(keys in their order), and the two records must be the same: results, errors with their hints, requests, `pending`.
"""

import asyncio
import json
import os
import re
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

import envweave as ew
from envweave.client import HTTPEnvClient
from envweave.core.jsonable import to_json
from envweave.envs.counter import Increment
from envweave.envs.echo import EchoAction
from envweave.envs.lineworld import Move
from envweave.envs.nim import Take
from envweave.testing.serving import running_server

HERE = str(Path(__file__).parent)
if HERE not in sys.path:
    sys.path.append(HERE)

from parity_envs import nested  # noqa: E402  (found by the path above)

DESK, TOWN, TIDE = (f"pkg://parity_envs:{name}" for name in ("Desk", "Town", "Tide"))
GYM, MARKET, TURNS = (f"pkg://parity_envs:{name}" for name in ("spaces", "market", "turns"))

EPISODE_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
"""IDs differ from run to run; a record has numbers in their place."""

WAYS = ["http", "ws", "process"]
"""Plain HTTP; WebSocket; WebSocket to a server that gives each session a process. All are held against in-process."""


@pytest.fixture(scope="module")
def serving():
    """The URL of a server for an environment; one server for each, for as long as the module runs."""
    running = {}
    with ExitStack() as stack:

        def url(id, isolation):
            if (id, isolation) not in running:
                options = ("--allow-branching", "--isolation", isolation, "--log-level", "warning")
                path = os.pathsep.join([HERE, os.environ.get("PYTHONPATH", "")])
                server = running_server(id, *options, env={"PYTHONPATH": path})
                running[id, isolation] = stack.enter_context(server)
            return running[id, isolation].url

        yield url


@pytest.fixture(params=WAYS)
def reach(request, serving):
    """Make a handle over one of the wires, as `ew.make` makes one here."""

    def make(id, **options):
        url = serving(id, "process" if request.param == "process" else "thread")
        return (
            HTTPEnvClient(url, **options) if request.param == "http" else ew.make(url.replace("http", "ws"), **options)
        )

    return make


@pytest.fixture
def same(reach):
    """Play a script in-process and over the wire; gives what was said, as data."""

    def compare(id, script, **options):
        expected = played(lambda: ew.make(id, **options), script)
        found = played(lambda: reach(id, **options), script)
        for ours, theirs in zip(found, expected, strict=False):
            assert ours == theirs
        assert len(found) == len(expected)
        return [json.loads(line) for line in expected]

    return compare


def played(make, script):
    with make() as env:
        tape = Tape(env)
        script(tape)
        tape.close()
    return tape.lines


class Tape:
    """Drives a handle and writes down all that is said."""

    def __init__(self, env, lines=None, episodes=None):
        self.env = env
        self.lines = [] if lines is None else lines
        self.episodes = {} if episodes is None else episodes

    def __getattr__(self, name):
        def call(*arguments, **options):
            try:
                answer = getattr(self.env, name)(*arguments, **options)
            except ew.EnvWeaveError as error:
                self.write(name, error=error_data(error))
                return error
            self.write(name, answer=None if name in ("snapshot", "fork") else answer)
            return Tape(answer, self.lines, self.episodes) if name == "fork" else answer

        return call

    def write(self, name, **said):
        line = {"id": self.env.id, "call": name, **said, "pending": self.env.pending}
        self.lines.append(numbered(json.dumps(to_json(line), ensure_ascii=False), self.episodes))


def numbered(text, episodes):
    """The text with a number in place of each episode ID, in the order in which they came."""
    return EPISODE_ID.sub(lambda found: episodes.setdefault(found[0], f"episode {len(episodes)}"), text)


def error_data(error):
    said = {"class": type(error).__name__, "code": error.code, "message": error.message, "hint": error.hint}
    return {**said, "retryable": error.retryable, "requests": error.requests}


def kinds(line):
    return [request["kind"] for request in answer(line)["requests"]]


def ends(line):
    return [request["reason"] for request in answer(line)["requests"] if request["kind"] == "episode_end"]


def answer(line):
    """What a call gave, or the error it raised."""
    found = line.get("answer", line.get("error"))
    return {"requests": found} if isinstance(found, list) else found


# One agent.


@pytest.mark.parametrize("typed", [False, True])
def test_episodes_of_lineworld(same, typed):
    def script(env):
        for seed in (0, 1, 7):
            observation = env.reset(seed=seed).observation
            goal = observation.goal if hasattr(observation, "goal") else observation["goal"]
            for move in [1, -1] + [1 if goal > 0 else -1] * 5:
                env.step(Move(move) if typed else {"move": move})
                env.state()
            env.render()
        env.reset(seed=3)
        for _ in range(20):
            env.step({"move": 1})

    said = same("lineworld", script)
    assert [
        ends(line) for line in said if line["call"] == "step" and answer(line)["requests"][0]["kind"] != "need_action"
    ]
    assert len({line["answer"]["observation"]["goal"] for line in said if line["call"] == "reset"}) == 2


def test_seeds_draw_the_same_chance_on_both_sides(same):
    def script(env):
        for seed in range(8):
            env.reset(seed=seed)
            env.step({"reply": None})
        env.reset()
        env.reset(seed=0)
        env.step({})
        env.reset()
        env.step({})

    same(DESK, script)


def test_episodes_of_counter_by_typed_and_plain_actions(same):
    def script(env):
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


def test_echo_says_the_same(same):
    def script(env):
        env.reset(episode_id="first")
        for message in ("Hello, World!", "", "ünïcode ☃ 𝄞", "line\nbreak\x00\u2028\x7f", "x" * 70_000):
            env.step({"message": message})
            env.step(EchoAction(message=message))
        env.state()
        env.reset(episode_id="second")
        env.state()

    said = same("echo", script)
    assert said[1]["answer"]["reward"] == 1.3


def test_a_reset_or_a_close_in_the_middle_ends_the_episode_as_closed(same):
    def script(env):
        env.reset(seed=1)
        env.step({"move": 1})
        env.reset(seed=2)

    said = same("lineworld", script)
    assert ends(said[2]) == ends(said[3]) == ["closed"]


def test_a_close_without_an_episode_has_nothing_to_say(same):
    assert same("counter", lambda env: env.state())[-1]["answer"] == []

    def script(env):
        env.reset()
        env.step({"delta": 9})
        env.close()
        env.close()
        for call in (env.reset, env.snapshot, env.fork, lambda: env.step({"delta": 1})):
            call()

    said = same("counter", script)
    assert said[2]["answer"] == []
    assert {line["error"]["class"] for line in said[4:8]} == {"ClosedError"}


def test_instances_have_the_name_they_were_given(serving, reach):
    expected = played(lambda: ew.make("counter", instance_id="mine#7"), lambda env: env.reset())
    try:
        handle = ew.make(serving("counter", "thread"), instance_id="mine#7")
    finally:
        found = played(lambda: handle, lambda env: env.reset())
    assert found == expected


# Autoreset and limits.


def test_autoreset_keeps_the_last_observation_and_begins_the_next_episode(same):
    def script(env):
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


def test_autoreset_goes_on_after_every_reason_but_a_failure(same):
    def script(env):
        env.reset(seed=1)
        env.step({"raise": "plain"})
        env.step({"reply": "after"})
        env.reset()
        env.step({"end": "terminated"})
        env.step({"end": "truncated"})
        env.step({"end": "invalid_action", "log": ["last words"]})

    said = same(DESK, script, autoreset=True)
    assert [kinds(said[number]) for number in (1, 6)] == [
        ["episode_end"],
        ["log_event", "episode_end", "autoreset_ready", "need_action"],
    ]


@pytest.mark.parametrize("autoreset", [False, True])
def test_a_length_limit_truncates(same, autoreset):
    def script(env):
        env.reset(seed=1)
        for number in range(7):
            env.step({"reply": number})
        env.state()

    said = same(DESK, script, autoreset=autoreset, max_episode_steps=3)
    assert ends(said[3]) == ["truncated"]
    assert said[3]["answer"]["truncated"] is True


# What is wrong changes nothing.


def test_wrong_actions_are_refused_and_change_nothing(same):
    wrong = [
        {"move": 2}, {"move": "1"}, {"move": None}, {}, {"move": 1, "speed": 2}, 1, "right", [1], {"move": 1.5},
        {"move": True}, [], {"move": {"move": 1}},
    ]  # fmt: skip

    def script(env):
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


def test_none_is_an_action_like_any_other(same):
    def script(env):
        env.reset(seed=1)
        env.step(None)
        env.state()

    assert same(DESK, script)[1]["answer"]["observation"] is None
    assert same("lineworld", script)[1]["error"]["class"] == "InvalidActionError"


def test_a_step_before_the_reset_and_after_the_end_is_refused(same):
    def script(env):
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


def test_wrong_resets_are_refused_and_change_nothing(same):
    def script(env):
        env.reset(speed=3)
        env.reset(options={"speed": 3})
        env.reset(seed=4)
        env.step({"move": 1})
        env.reset(speed=3)
        env.step({"move": 1})
        env.state()

    said = same("lineworld", script)
    assert said[-2]["answer"]["step_count"] == 2


def test_options_reach_a_reset_by_name_and_in_a_dict(same):
    def script(env):
        env.reset(options={"a": 1, "b": [None]}, seed=1)
        env.reset(first={"reply": "hello"}, options={})
        env.reset(stranger=1)
        env.reset(options={"seed": 3}, first={"reply": 0, "log": ["begins"]})
        env.step({})

    same(DESK, script)


def test_an_option_of_none_is_an_option_too(same):
    def script(env):
        env.reset(stranger=None)
        env.reset(options={"a": None})
        env.reset(seed=None, options=None, episode_id=None)

    said = same(DESK, script)
    assert said[0]["answer"]["info"]["options"] == {"stranger": None}


def test_a_reset_that_the_author_refuses_is_a_usage_error(same):
    def script(env):
        env.reset()
        env.step({})
        env.reset(first={"refuse": "not like this"})
        env.step({})
        env.reset()

    said = same(DESK, script)
    assert said[2]["error"]["class"] == "UsageError"


def test_an_action_the_environment_refuses_leaves_the_episode_as_it_is(same):
    def script(env):
        env.reset()
        env.step({"refuse": "nö"})
        env.step({})
        env.step({"ask": [{"tool_name": "t"}]})
        env.respond(env.env.pending[0].request_id, {"refuse": "not that either"})
        env.respond(env.env.pending[0].request_id, {"reply": "ok"})
        env.step({})

    said = same(DESK, script)
    assert said[1]["error"]["class"] == said[4]["error"]["class"] == "InvalidActionError"


def test_a_second_call_while_one_runs_is_refused(same, tmp_path):
    gates = iter(range(10))

    def script(env):
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

    said = same(DESK, script)
    assert [line["error"]["class"] for line in said if "error" in line] == ["BusyError"] * 3


# The environment fails.


def test_a_step_that_raises_ends_the_episode_once_and_the_next_reset_works(same):
    def script(env):
        for how in ("plain", "text", "silent", "exit", "usage", "busy", "sandbox", "provider", "env", "unimplemented"):
            env.reset()
            env.step({"raise": how})
            env.step({})
            env.state()
            env.reset()
            env.step({})
            env.step({"ask": [{"tool_name": "t"}]})
            env.respond(env.env.pending[0].request_id, {"raise": how})
            env.respond("gone", 1)

    said = same(DESK, script)
    for first in range(0, len(said) - 1, 9):
        assert ends(said[first + 1]) == ends(said[first + 7]) == ["infra_error"]
        assert ends(said[first]) == ends(said[first + 4]) == []


def test_a_reset_that_raises_is_an_error_with_what_was_due(same):
    def script(env):
        for how in ("plain", "exit", "busy", "sandbox", "provider", "unimplemented"):
            env.reset(first={"raise": how})
            env.step({})
            env.reset()
            env.step({})
            env.reset(first={"raise": how})
            env.step({})
            env.reset()

    said = same(DESK, script)
    for first in range(0, len(said) - 1, 7):
        assert ends(said[first + 4]) == ["closed"]
        assert ends(said[first + 6]) == []


def test_other_members_that_raise_do_not_touch_the_episode(same):
    def script(env):
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

    said = same(DESK, script)
    assert [line["call"] for line in said if "error" in line].count("render") == 4


def test_a_close_that_raises_says_so_once_with_the_end_of_the_episode(same):
    def script(env):
        env.reset()
        env.step({"break": "close"})
        env.close()
        env.step({})

    said = same(DESK, script)
    assert ends(said[2]) == ["closed"]


def test_what_an_environment_returns_means_the_same(same):
    odd = [
        "none", "triple", "quadruple", "nan", "numpy", "integers", "dataclass", "done", "dict", "mapping", "text",
        "number", "list", "false", "bad reward", "bad info", "bad flag",
    ]  # fmt: skip

    def script(env):
        for kind in odd:
            env.reset()
            env.step({"return": kind})
            if kind != "nan":  # of a reset that would be an observation, which has no JSON form
                env.reset(first={"return": kind})

    same(DESK, script)


def test_an_environment_without_the_optional_members_says_so(same):
    def script(env):
        env.reset()
        env.render()
        env.respond("x", 1)
        env.step({"delta": 1})

    said = same("counter", script)
    assert said[1]["error"]["class"] == "UnsupportedError"
    assert said[2]["error"]["class"] == "UsageError"


# The request stream.


def test_log_events_come_in_their_order(same):
    def script(env):
        env.reset(first={"log": ["a", "b"]})
        env.step({"log": ["c"]})
        env.step({"log": ["c"]})
        env.step({})
        env.step({"log": ["d", "e"], "end": "terminated"})

    said = same(DESK, script)
    assert kinds(said[0]) == ["log_event", "log_event", "need_action"]
    assert kinds(said[4]) == ["log_event", "log_event", "episode_end"]


def test_the_authors_own_reason_ends_the_episode(same):
    reasons = ["agent_left", "invalid_action", "timeout", "infra_error", "closed", "truncated"]

    def script(env):
        for reason in reasons:
            env.reset()
            env.step({"end": reason, "log": ["bye"], "info": {"score": 3}})
            env.step({})

    assert [ends(line) for line in same(DESK, script)[1:-1:3]] == [[reason] for reason in reasons]


def test_tool_calls_are_answered_one_after_the_other(same):
    search = {"tool_name": "search", "arguments": {"q": "cats", "n": [1, {"x": None}]}}

    def script(env):
        env.reset()
        env.step({"ask": [search, {"tool_name": "read", "request_id": "mine", "agent_id": "agent"}], "log": ["asks"]})
        env.step({})
        env.respond("stranger", 1)
        first, second = env.env.pending
        env.respond(second.request_id, None)
        env.respond(second.request_id, None)
        env.respond(first.request_id, {"reply": "found", "ask": [search], "reward": 0.5})
        env.respond(env.env.pending[0].request_id, [1, {"two": 2.0}])
        env.step({})
        env.step({"ask": [search]})
        env.reset()
        env.reset(first={"ask": [search]})
        env.respond(env.env.pending[0].request_id, {"end": "terminated", "reward": 2})
        env.step({})

    said = same(DESK, script)
    assert kinds(said[1]) == ["log_event", "tool_call", "tool_call"]
    assert [request["request_id"] for request in said[1]["pending"]][1] == "mine"


def test_a_tool_call_and_an_action_may_be_open_together(same):
    def script(env):
        env.reset()
        env.step({"ask": [{"tool_name": "t"}], "need": {}})
        env.step({"reply": "acted first"})
        env.respond(env.env.pending[0].request_id, None)
        env.step({})

    said = same(DESK, script)
    assert kinds(said[1]) == ["tool_call", "need_action"]


def test_two_tool_calls_of_one_name_are_the_authors_mistake(same):
    def script(env):
        env.reset()
        env.step({"ask": [{"tool_name": "t", "request_id": "a"}, {"tool_name": "t", "request_id": "a"}]})
        env.reset()

    assert same(DESK, script)[1]["error"]["class"] == "BadResultError"


@pytest.mark.parametrize("autoreset", [False, True])
def test_a_request_may_have_a_deadline_of_its_own_and_it_is_kept(same, autoreset):
    passed = 1e-9

    def script(env):
        env.reset()
        env.step({"need": {"deadline": 3600.0}})
        env.step({"need": {"deadline": passed, "action_schema": {"type": "string"}}})
        env.step({"reply": "too late"})
        env.step({"reply": "after"})
        env.reset()
        env.step({"ask": [{"tool_name": "t", "deadline": passed}]})
        env.respond(env.env.pending[0].request_id, "too late")
        env.step({})

    said = same(DESK, script, autoreset=autoreset)
    assert ends(said[3]) == ends(said[7]) == ["timeout"]


def test_a_deadline_for_every_action(same):
    def script(env):
        env.reset()
        env.step({"reply": "too late"})
        env.reset()

    assert ends(same(DESK, script, deadline=1e-9)[1]) == ["timeout"]
    assert same(DESK, script, deadline=1800.5)[0]["pending"][0]["deadline"] == 1800.5


# Snapshots.


def test_a_snapshot_is_gone_back_to_any_number_of_times(same):
    def script(env):
        env.reset(seed=3)
        env.step({"move": 1})
        here = env.snapshot()
        env.step({"move": 1})
        for _ in range(2):
            env.restore(here)
            env.step({"move": -1})
            env.state()
        env.reset(seed=4)
        env.restore(here)
        env.step({"move": 1})
        env.restore("something else")
        env.restore(None)
        for _ in range(20):
            env.step({"move": 1})
        env.restore(here)
        env.step({"move": 1})
        env.reset()

    same("lineworld", script)


def test_snapshots_of_an_open_tool_call_and_of_a_finished_episode(same):
    def script(env):
        empty = env.snapshot()
        env.reset(seed=1)
        env.step({"ask": [{"tool_name": "t"}]})
        asked = env.snapshot()
        env.respond(env.env.pending[0].request_id, {"end": "terminated"})
        over = env.snapshot()
        env.restore(asked)
        env.respond(env.env.pending[0].request_id, {"reply": "again"})
        env.restore(over)
        env.step({})
        env.restore(empty)
        env.step({})
        env.state()
        env.reset()
        env.step({"log": ["first call of its own"], "ask": [{"tool_name": "t"}]})

    same(DESK, script)


def test_a_fork_goes_its_own_way(same):
    def script(env):
        env.fork()
        env.reset(seed=3)
        env.step({"draw": 1})
        twin = env.fork()
        other = env.fork()
        for one in (twin, env, other, twin):
            one.step({})
            one.state()
        grandchild = twin.fork()
        grandchild.step({"ask": [{"tool_name": "t"}]})
        snapshot = twin.snapshot()
        env.restore(snapshot)
        env.step({})
        grandchild.close()
        twin.step({"end": "terminated"})
        twin.reset()
        twin.close()
        other.step({"raise": "plain"})
        other.close()
        env.step({})

    said = same(DESK, script)
    assert len({line["id"] for line in said}) == 4


def test_an_environment_without_snapshots_is_copied(same):
    def script(env):
        env.reset(seed=1)
        kept = env.snapshot()
        twin = env.fork()
        env.step({"alice": {"heap": 0, "count": 1}})
        twin.step({"alice": {"heap": 1, "count": 1}})
        env.restore(kept)
        env.step({"alice": {"heap": 2, "count": 1}})
        twin.close()

    said = same("nim", script)
    assert all("error" not in line for line in said)
    heaps = [line["answer"]["observation"]["alice"]["heaps"] for line in said if line["call"] == "step"]
    assert len({tuple(each) for each in heaps}) == 3


def test_a_fork_has_the_limits_of_its_origin(same):
    def script(env):
        env.reset()
        env.step({})
        twin = env.fork()
        for one in (twin, env):
            for _ in range(4):
                one.step({})
        twin.close()

    said = same(DESK, script, autoreset=True, max_episode_steps=2)
    assert any("autoreset_ready" in kinds(line) for line in said if line["id"].endswith(".1") and "answer" in line)


# Several agents.


def test_nim_is_played_in_turns(same):
    def script(env):
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
                env.step({player: Take(heap, stones)})
                env.step({player: {"heap": heap, "count": 1}})
                player, other = other, player
            env.render()
            env.action_schema("bob")
            env.action_schema()

    said = same("nim", script)
    errors = {line["error"]["class"] for line in said if "error" in line}
    assert {"WrongAgentError", "InvalidActionError", "ResetNeededError"} <= errors


@pytest.mark.parametrize("autoreset", [False, True])
def test_rock_paper_scissors_is_played_at_once(same, autoreset):
    hands = ["rock", "paper", "scissors"]

    def script(env):
        env.action_schema("left")
        env.reset()
        for number in range(7):
            env.step({"left": {"hand": hands[number % 3]}, "right": {"hand": hands[(number * 2) % 3]}})
        env.step({"left": {"hand": "rock"}})
        env.step({"left": {"hand": "stone"}, "right": {"hand": "rock"}})
        env.state()

    same("rock-paper-scissors", script, autoreset=autoreset)


def test_agents_join_leave_and_die(same):
    days = [
        {"ann": "wait", "bob": "invite dan eve", "cyd": "log"},
        {"ann": "die", "bob": "leave", "cyd": "tire", "dan": "win", "eve": "wait"},
        {"eve": "invite ann zoe"},
        {"eve": "next zoe", "zoe": "unscored"},
        {"zoe": "quit"},
        {"eve": "ghost"},
    ]

    def script(env):
        for seed in (1, 2):
            env.reset(seed=seed)
            for day in days:
                env.step({agent: day.get(agent, "wait") for agent in [need.agent_id for need in env.env.pending]})
            env.state()

    said = same(TOWN, script)
    assert any(request.get("agent_id") for line in said for request in answer(line).get("requests", ()))


@pytest.mark.parametrize("autoreset", [False, True])
def test_what_one_agent_does_ends_or_stops_all(same, autoreset):
    def everybody(env, said):
        return {need.agent_id: said for need in env.env.pending if need.kind == "need_action"}

    def script(env):
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

    same(TOWN, script, autoreset=autoreset, max_episode_steps=4)


def test_an_episode_of_several_agents_is_branched(same):
    def script(env):
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

    same(TOWN, script)


def test_a_pettingzoo_parallel_environment(same):
    def script(env):
        for seed in (1, 2):
            env.reset(seed=seed)
            env.action_schema("thief")
            env.step({"buyer": 1, "seller": 2, "thief": 4})
            env.step({"buyer": 1, "seller": 2})
            env.step({"buyer": 1, "seller": 2, "thief": 3})
            for _ in range(20):
                env.step({"buyer": 2, "seller": 2})
            env.render()
            env.state()

    said = same(MARKET, script)
    assert any(ends(line) == ["terminated"] for line in said if line["call"] == "step")


def test_a_pettingzoo_turn_based_environment(same):
    def script(env):
        for seed in (0, 1):
            env.reset(seed=seed)
            env.step({"second": 1})
            for _ in range(4):
                env.step({"first": 1})
                env.step({"second": 1})
            env.state()

    said = same(TURNS, script, autoreset=True)
    assert any("autoreset_ready" in kinds(line) for line in said if "answer" in line and line["call"] == "step")


# Gymnasium, async environments, data.


def test_a_gymnasium_environment_with_arrays_and_every_kind_of_space(same):
    import numpy as np

    good = {"turn": -1, "push": [0.5, -1.0], "flags": [0, 1, 1], "many": [1, 2], "both": [1, "ab"]}
    arrays = {
        "push": np.array([0.5, 0.25], np.float32),
        "flags": np.array([1, 0, 0], np.int8),
        "many": np.array([0, 0]),
    }

    def script(env):
        env.reset(seed=4, options={"a": 1})
        env.step(good)
        env.step({**good, **arrays, "turn": np.int64(1), "many": np.array([0, 0])})
        env.render()
        env.state()
        for key, wrong in {"turn": 2, "push": [0.5], "flags": [0, 2, 1], "many": [2, 2], "both": [1]}.items():
            env.step({**good, key: wrong})
        env.step({key: value for key, value in good.items() if key != "turn"})
        env.step({**good, "flags": [1, 1, 1]})
        env.step(good)

    said = same(GYM, script, autoreset=True)
    assert said[1]["answer"]["info"]["dtype"] == "float32"
    assert any("autoreset_ready" in kinds(line) for line in said if line["call"] == "step" and "answer" in line)


@pytest.mark.parametrize("id", [GYM, DESK, TIDE, TOWN, "counter", "nim"])
def test_the_schema_of_an_action_is_known_before_the_first_reset(same, id):
    def script(env):
        env.action_schema()
        env.reset(seed=1)
        env.action_schema()
        env.action_schema("agent")

    same(id, script)


def test_an_async_environment_with_models_and_a_transform(same):
    def script(env):
        env.action_schema()
        env.reset(seed=1, episode_id="one")
        for height in (1, 2.5, 11, -1):
            env.step({"height": height})
        env.step({"height": 1, "note": "refuse"})
        env.step({"height": 1, "note": "fail"})
        env.reset(seed=2)
        env.step({"height": 1, "colour": "blue"})
        here = env.snapshot()
        twin = env.fork()
        for one in (env, twin):
            one.step({"height": 10})
            one.state()
            one.render()
            one.step({"height": 10})
            one.step({"height": 10, "note": "last"})
        env.restore(here)
        env.step({"height": 3})
        twin.close()

    said = same(TIDE, script)
    assert said[1]["pending"][0]["deadline"] == 3600.0


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
]  # fmt: skip


def test_all_of_json_crosses_in_both_directions(same):
    def script(env):
        env.reset()
        for value in VALUES:
            env.step({"reply": value, "info": {"value": value}, "reward": None})
        for value in VALUES:
            env.reset(first={"reply": value}, options={"value": value})
            env.step(value if not isinstance(value, dict) else [value])

    same(DESK, script)


def test_whole_numbers_of_any_size_cross(same):
    def script(env):
        env.reset()
        for value in BIG:
            env.step(value)
            env.step({"reply": [value], "info": {"value": value}})
            env.reset(options={"value": value})

    said = same(DESK, script)
    assert said[1]["answer"]["observation"] == 2**63


def test_data_that_is_nested_as_deeply_as_json_may_be_crosses(reach):
    deepest = 64  # of `to_json`
    with reach(DESK) as env, ew.make(DESK) as here:
        env.reset()
        here.reset()
        for levels in range(deepest - 8, deepest + 1):
            assert to_json(env.step({"nest": levels}).observation) == to_json(here.step({"nest": levels}).observation)
            assert env.step([nested(levels - 1)]).observation == [nested(levels - 1)]


def test_tool_answers_and_log_payloads_carry_any_data(same):
    def script(env):
        env.reset()
        for value in VALUES[:40]:
            env.step({"ask": [{"tool_name": "t", "arguments": {"value": value}}]})
            env.respond(env.env.pending[0].request_id, {"reply": [value], "log": ["x"]})

    same(DESK, script)


# The other face.


def test_awaited_calls_say_the_same(reach):
    async def script(env):
        lines, episodes = [], {}
        async with env.aio as handle:
            for call in (
                lambda: handle.step({}),
                lambda: handle.reset(seed=3),
                lambda: handle.step({"log": ["x"]}),
                lambda: handle.state(),
                lambda: handle.render(),
                lambda: handle.step({"ask": [{"tool_name": "t"}]}),
                lambda: handle.respond(handle.pending[0].request_id, {"reply": 1}),
                lambda: handle.step({"raise": "plain"}),
                lambda: handle.reset(),
                lambda: handle.close(),
                lambda: handle.close(),
                lambda: handle.step({}),
            ):
                try:
                    said = {"answer": await call()}
                except ew.EnvWeaveError as error:
                    said = {"error": error_data(error)}
                lines.append(numbered(json.dumps(to_json({**said, "pending": handle.pending})), episodes))
        return lines

    assert asyncio.run(script(reach(DESK))) == asyncio.run(script(ew.make(DESK)))


def test_handles_from_many_threads_do_not_mix(reach):
    def play(number):
        lines = played(lambda: reach(DESK), lambda env: [env.reset(seed=number), *(env.step(n) for n in range(20))])
        return number, lines

    with ThreadPoolExecutor(3) as threads:
        for number, lines in threads.map(play, range(3)):
            script = lambda env, seed=number: [env.reset(seed=seed), *(env.step(n) for n in range(20))]  # noqa: E731
            assert lines == played(lambda: ew.make(DESK), script)


# Clients with types, for one agent and for several.


@pytest.mark.parametrize("isolation", ["thread", "process"])
def test_a_client_with_types_plays_for_several_agents(serving, isolation):
    from envweave.client import EnvClient
    from envweave.envs.rock_paper_scissors import Round, Throw

    def script(env):
        env.reset()
        env.step({"left": Throw("rock"), "right": Throw("paper")})
        env.step({"left": {"hand": "rock"}, "right": {"hand": "rock"}})

    client = EnvClient(serving("rock-paper-scissors", isolation), action_type=Throw, observation_type=Round)
    assert played(lambda: client, script) == played(lambda: ew.make("rock-paper-scissors"), script)


# Vectors.


@pytest.fixture
def same_rows(serving):
    """Play a script on a vector in-process and on one over the wire, in both isolations."""

    def compare(id, count, script, **options):
        expected = vector_played(ew.make_vector(id, count, **options), script)
        for isolation in ("thread", "process"):
            url = serving(id, isolation).replace("http", "ws")
            found = vector_played(ew.make_vector(url, count, **options), script)
            for ours, theirs in zip(found, expected, strict=False):
                assert ours == theirs
            assert len(found) == len(expected)
        return [json.loads(line) for line in expected]

    return compare


def vector_played(vector, script):
    with vector:
        tape = VectorTape(vector)
        script(tape)
    return tape.lines


class VectorTape:
    """Drives a vector and writes down all that is said."""

    def __init__(self, vector):
        self.vector = vector
        self.lines = [json.dumps({"ids": vector.ids})]
        self.episodes = {}

    def __getattr__(self, name):
        def call(*arguments, **options):
            try:
                answer = getattr(self.vector, name)(*arguments, **options)
            except ew.EnvWeaveError as error:
                said = {"error": error_data(error)}
                answer = error
            else:
                said = {"answer": sorted_rows(answer) if name == "recv" else answer}
            self.lines.append(numbered(json.dumps(to_json({"call": name, **said}), ensure_ascii=False), self.episodes))
            return answer

        return call


def sorted_rows(batch):
    """Answers come in any order; a row is the same whenever it comes."""
    rows = zip(batch.ids, batch.incarnations, batch.steps, batch.results, strict=True)
    return sorted(rows, key=lambda row: row[0])


@pytest.mark.parametrize("autoreset", [False, True])
def test_a_vector_steps_as_one_in_process(same_rows, autoreset):
    def script(vector):
        vector.reset(seed=7)
        for number in range(6):
            vector.step([{"move": 1 if (number + row) % 3 else -1} for row in range(3)])
        vector.step({0: {"move": 1}, 2: {"move": -1}})
        vector.step([{"move": 1}], ids=[1])
        vector.reset(ids=[1], seed=3)
        vector.step([{"move": 1}] * 3)
        for _ in range(22):
            vector.step([{"move": 1}] * 3)
        vector.reset(ids=[2, 0], seed=[5, 6])
        vector.step([{"move": 1}, {"move": 1}], ids=[0, 2])

    said = same_rows("lineworld", 3, script, autoreset=autoreset)
    assert [row["requests"][0]["env_id"] for row in said[1]["answer"]["results"]] == [
        f"lineworld#{n}" for n in range(3)
    ]


def test_one_failing_row_costs_only_itself(same_rows):
    def script(vector):
        vector.reset(seed=1)
        vector.step([{}, {"raise": "plain"}, {}])
        vector.step([{}, {}, {}])
        vector.step([{}, {}], ids=[0, 2])
        vector.reset(ids=[1], seed=2)
        vector.step([{}, {}, {"refuse": "no"}])
        vector.step([{}, {}, {}])

    said = same_rows(DESK, 3, script)
    assert said[2]["answer"]["results"][1]["reward"] is None


def test_one_failing_row_with_autoreset_goes_on(same_rows):
    def script(vector):
        vector.reset(seed=1)
        vector.step([{}, {"raise": "plain"}])
        vector.step([{"end": "terminated"}, {"reply": "again"}])
        vector.step([{}, {}])

    same_rows(DESK, 2, script, autoreset=True)


def test_a_wrong_action_in_a_vector_is_refused_before_anything_steps(same_rows):
    def script(vector):
        vector.reset(seed=1)
        vector.step([{"move": 1}, {"move": 7}, {"move": 1}])
        vector.step([{"move": 1}])
        vector.step({5: {"move": 1}})
        vector.reset(ids=[9])
        vector.reset(speed=1)
        vector.step([{"move": 1}] * 3)

    said = same_rows("lineworld", 3, script)
    assert next(line["error"]["class"] for line in said if "error" in line) == "InvalidActionError"
    assert said[-1]["answer"]["steps"] == [1, 1, 1]


def test_ready_first_gives_every_row(same_rows):
    def script(vector):
        vector.send_reset(seed=3)
        vector.recv(min_ready=3)
        for _ in range(5):
            vector.send([{"reply": 1}, {"log": ["x"]}, {}])
            vector.recv(min_ready=3)
        vector.send([{"ask": [{"tool_name": "t"}]}], ids=[1])
        call = vector.recv().requests[0][0]
        vector.step([{}, {}, {}])
        vector.respond(1, call.request_id, {"reply": "answered"})
        vector.step([{}, {}, {}])

    same_rows(DESK, 3, script)


def test_several_agents_in_a_vector(same_rows):
    hands = {"left": {"hand": "rock"}, "right": {"hand": "paper"}}

    def script(vector):
        vector.reset()
        for _ in range(7):
            vector.step([hands, {"left": {"hand": "paper"}, "right": {"hand": "paper"}}])
        vector.step([hands, {"left": {"hand": "paper"}}])

    same_rows("rock-paper-scissors", 2, script, autoreset=True)
