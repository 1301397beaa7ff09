"""Agents written for Gymnasium run on handles, here and on a server."""

import subprocess
import sys
import textwrap

import gymnasium
import numpy as np
import pytest

import envweave as ew
from envweave.client import EnvClient
from envweave.testing import running_server


def learn(env, episodes):
    """Tabular Q-learning, as it is written for Gymnasium. Returns the table and the returns of the last episodes."""
    table = np.zeros((env.observation_space.n, env.action_space.n))
    random = np.random.default_rng(0)
    returns = []
    for episode in range(episodes):
        state = env.reset(seed=episode)[0]
        total, over = 0.0, False
        while not over:
            greedy = int(random.choice(np.flatnonzero(table[state] == table[state].max())))
            action = int(random.integers(env.action_space.n)) if random.random() < 0.2 else greedy
            after, reward, terminated, truncated, _ = env.step(action)
            target = reward + 0.95 * (0.0 if terminated else table[after].max())
            table[state, action] += 0.5 * (target - table[state, action])
            state, over, total = after, terminated or truncated, total + reward
        returns.append(total)
    return table, returns


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    path = tmp_path_factory.mktemp("lake") / "lake.py"
    path.write_text(
        textwrap.dedent(
            """
            import gymnasium

            def lake():
                return gymnasium.make("FrozenLake-v1", is_slippery=False)
            """
        )
    )
    return f"{path}:lake"


def test_a_q_learning_agent_learns_the_same_table_on_gymnasium_on_a_handle_and_on_a_server(lake):
    plain = gymnasium.make("FrozenLake-v1", is_slippery=False)
    expected, returns = learn(plain, 150)
    assert sum(returns[-20:]) > 5
    with ew.adapt(gymnasium.make("FrozenLake-v1", is_slippery=False)) as env:
        assert np.array_equal(learn(env, 150)[0], expected)
    with running_server(lake) as server, ew.make(server.url) as env:
        assert np.array_equal(learn(env, 150)[0], expected)


def test_a_handle_has_what_agents_look_at_on_an_environment(lake):
    made = gymnasium.make("CartPole-v1")
    with ew.adapt(made) as env:
        assert env.unwrapped is made.unwrapped
        assert (env.action_space, env.observation_space) == (made.action_space, made.observation_space)
        assert env.metadata == made.metadata
        assert len(env.reset(seed=1)) == 2
        assert env.reset(seed=1)[0] in env.observation_space
        assert len(result := env.step(env.action_space.sample())) == 5
        assert result[0].shape == env.observation_space.shape
    with running_server(lake) as server, ew.make(server.url) as env:
        assert env.unwrapped is None
        assert (env.action_space.n, env.observation_space.n, env.action_space.shape) == (4, 16, ())
        assert isinstance(env.metadata, dict)
        assert env.reset(seed=1)[0] in env.observation_space
        assert len(result := env.step(env.action_space.sample())) == 5
        assert env.observation_space.contains(result[0])


def test_a_typed_environment_has_spaces_of_its_schemas():
    with running_server("counter") as server, ew.make(server.url) as remote, ew.make("counter") as local:
        for env in (local, remote, local.aio):
            action = env.action_space.sample()
            assert env.action_space.contains(action)
            assert env.action_space.contains({"delta": 1})
            assert not env.action_space.contains({"delta": "x"})
            assert hasattr(env, "observation_space")


def test_without_gymnasium_a_typed_environment_has_no_spaces():
    code = """
import sys
sys.modules["gymnasium"] = None
import envweave as ew
with ew.make("counter") as env:
    env.reset()
    print(hasattr(env, "action_space"), hasattr(env, "observation_space"), hasattr(env, "unwrapped"), env.metadata)
    try:
        env.action_space
    except AttributeError as error:
        print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    first, *rest = done.stdout.splitlines()
    assert first == "False False True {}"
    assert "envweave[gym]" in " ".join(rest)


def test_a_client_that_was_not_connected_by_hand_has_spaces_after_its_first_call(lake):
    with running_server(lake) as server:
        env = EnvClient(server.url)
        backend = env.backend
        env.reset()
        assert env.observation_space.n == 16
        assert backend.observation_schema() == env.backend.observation_schema()
        env.close()
