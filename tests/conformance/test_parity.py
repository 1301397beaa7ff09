"""The transport suite for our own: plain HTTP, WebSocket, and WebSocket to a server with a process for each session.

Environments that need other packages are played here, in addition to those of the suite.
"""

import sys
from pathlib import Path

import pytest

import envweave as ew
from envweave.client import EnvClient, HTTPEnvClient
from envweave.testing.suites import TransportSuite
from envweave.testing.suites.record import ends, kinds, played

HERE = str(Path(__file__).parent)
if HERE not in sys.path:
    sys.path.append(HERE)

ARRAYS, TIDE, GYM, MARKET, TURNS = (
    f"pkg://parity_envs:{name}" for name in ("Arrays", "Tide", "spaces", "market", "turns")
)
OPTIONS = ("--allow-branching", "--log-level", "warning")


class OtherPackages(TransportSuite):
    """The suite, and environments that need other packages."""

    def test_a_pettingzoo_parallel_environment(self, same):
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

    def test_a_pettingzoo_turn_based_environment(self, same):
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

    def test_a_gymnasium_environment_with_arrays_and_every_kind_of_space(self, same):
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

    def test_an_async_environment_with_models_and_a_transform(self, same):
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

    @pytest.mark.parametrize("kind", ["floats", "integers"])
    def test_numbers_of_numpy_mean_the_same(self, same, kind):
        def script(env):
            env.reset()
            env.step({"return": kind})

        assert same(ARRAYS, script)[1]["answer"]["observation"]

    @pytest.mark.parametrize("other", [GYM, TIDE])
    def test_the_schema_of_other_actions_is_known_before_the_first_reset(self, same, other):
        self.test_the_schema_of_an_action_is_known_before_the_first_reset(same, other)


class TestHTTP(OtherPackages):
    @pytest.fixture
    def connect(self, env_server):
        return lambda name, **options: HTTPEnvClient(env_server(name, *OPTIONS), **options)


class TestWebSocket(OtherPackages):
    @pytest.fixture
    def connect(self, env_server):
        return lambda name, **options: ew.make(env_server(name, *OPTIONS).replace("http", "ws"), **options)


class TestProcess(OtherPackages):
    @pytest.fixture
    def connect(self, env_server):
        options = (*OPTIONS, "--isolation", "process")
        return lambda name, **others: ew.make(env_server(name, *options).replace("http", "ws"), **others)


def test_instances_have_the_name_they_were_given(env_server):
    expected = played(lambda: ew.make("counter", instance_id="mine#7"), lambda env: env.reset())
    url = env_server("counter", *OPTIONS)
    assert played(lambda: ew.make(url, instance_id="mine#7"), lambda env: env.reset()) == expected


@pytest.mark.parametrize("isolation", ["thread", "process"])
def test_a_client_with_types_plays_for_several_agents(env_server, isolation):
    from envweave.envs.rock_paper_scissors import Round, Throw

    def script(env):
        env.reset()
        env.step({"left": Throw("rock"), "right": Throw("paper")})
        env.step({"left": {"hand": "rock"}, "right": {"hand": "rock"}})

    url = env_server("rock-paper-scissors", *OPTIONS, *(("--isolation", "process") if isolation == "process" else ()))
    client = EnvClient(url, action_type=Throw, observation_type=Round)
    assert played(lambda: client, script) == played(lambda: ew.make("rock-paper-scissors"), script)
