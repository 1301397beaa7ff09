"""`reset` is called with what its signature takes, once."""

import pytest

import envweave as ew
from envweave.errors import UsageError


class Remembers:
    def step(self, action):
        return action


def handle(reset):
    env = type("Env", (Remembers,), {"reset": reset})()
    return ew.adapt(env)


def test_a_reset_without_parameters_is_called_without():
    assert handle(lambda self: "plain").reset(seed=3, episode_id="e").obs == "plain"


def test_seed_and_episode_id_reach_a_reset_that_has_a_place_for_them():
    env = handle(lambda self, seed=None, episode_id=None: (seed, episode_id))
    assert env.reset(seed=3, episode_id="e").obs == (3, "e")
    assert env.state().episode_id == "e"


def test_gymnasium_options_collect_options_by_name():
    env = handle(lambda self, *, seed=None, options=None: {"seed": seed, "options": options})
    assert env.reset(seed=1, options={"a": 1}, b=2).obs == {"seed": 1, "options": {"a": 1, "b": 2}}
    assert env.reset().obs == {"seed": None, "options": None}


def test_open_options_take_anything_also_from_the_options_dict():
    env = handle(lambda self, *, seed=None, **options: {"seed": seed, **options})
    assert env.reset(seed=1, options={"a": 1}, b=2).obs == {"seed": 1, "a": 1, "b": 2}


def test_an_option_without_a_place_is_refused_by_name_and_the_episode_goes_on():
    env = handle(lambda self, *, seed=None, level=1: level)
    env.reset(level=2)
    env.step(0)
    with pytest.raises(UsageError, match="no option 'levle'") as caught:
        env.reset(levle=3)
    assert "level" in caught.value.hint
    assert env.state().step_count == 1


def test_a_missing_option_is_named():
    with pytest.raises(UsageError, match="reset needs 'task'"):
        handle(lambda self, task: task).reset()


def test_a_type_error_inside_reset_is_not_swallowed_and_not_tried_again():
    calls = []

    def reset(self, *, seed=None, options=None):
        calls.append(seed)
        raise TypeError("unexpected keyword argument 'seed'")

    with pytest.raises(ew.EnvError, match="TypeError: unexpected keyword") as caught:
        handle(reset).reset(seed=1)
    assert isinstance(caught.value.__cause__, TypeError)
    assert calls == [1]


def test_a_type_error_inside_step_is_not_swallowed_and_not_tried_again():
    calls = []

    class Env:
        def reset(self):
            return 0

        def step(self, action):
            calls.append(action)
            raise TypeError("step() missing 1 required positional argument")

    env = ew.adapt(Env())
    env.reset()
    with pytest.raises(ew.EnvError, match="TypeError"):
        env.step(1)
    assert calls == [1]


def test_an_old_seed_method_is_called_where_reset_takes_no_seed():
    class Old(Remembers):
        def seed(self, seed):
            self.seeded = seed

        def reset(self):
            return getattr(self, "seeded", None)

    assert ew.adapt(Old()).reset(seed=5).obs == 5
