import envweave as ew
from envweave.envs.echo import EchoAction, EchoEnv, EchoEnvironment, EchoObservation
from envweave.testing.check import check_env
from envweave.types import State


def test_it_says_that_it_is_ready_and_echoes():
    with ew.adapt(EchoEnvironment(), id="echo") as env:
        ready = env.reset().observation
        assert ready == EchoObservation("Echo environment ready!", 0, reward=0.0)
        result = env.step(EchoAction("Hello, World!"))
        assert result.reward == 1.3
        assert result.observation.echoed_message == "Hello, World!"
        assert result.observation.message_length == 13
        assert result.info == {"original_message": "Hello, World!", "step": 1}
        assert not result.done
        assert env.step({"message": ""}).reward == 0.0


def test_its_state_counts_steps_and_has_the_episodes_name():
    with ew.adapt(EchoEnvironment(), id="echo") as env:
        env.reset(episode_id="mine")
        env.step({"message": "a"})
        assert env.state() == State(episode_id="mine", step_count=1)
        env.reset()
        state = env.state()
        assert state.step_count == 0
        assert state.episode_id not in (None, "mine")


def test_it_keeps_the_contract():
    assert check_env(EchoEnvironment()).ok


def test_its_client_knows_its_types():
    client = EchoEnv()
    assert (client.action_type, client.observation_type, client.state_type) == (EchoAction, EchoObservation, State)
