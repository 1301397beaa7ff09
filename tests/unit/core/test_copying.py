"""`deepcopy` as the default of `fork` and `snapshot`: where it is sound, and what is refused."""

import asyncio
import functools
import io
import logging
import pickle
import random
import socket
import tempfile
import threading
import weakref
from collections import OrderedDict, defaultdict, deque

import gymnasium
import numpy as np
import pytest

import envweave as ew
from envweave.errors import UnsupportedError, UsageError


class Holds(ew.Environment[int, int]):
    """Has one field, which the test chooses."""

    def __init__(self, make=None):
        self.field = None if make is None else make(self)
        self.closed = 0

    def reset(self):
        return 0

    def step(self, action):
        return action

    def close(self):
        self.closed += 1


class Slotted:
    __slots__ = ("inner",)

    def __init__(self, inner):
        self.inner = inner


class Refuses:
    def __deepcopy__(self, memo):
        raise ValueError("not me")


class Parent:
    pass


def child_of(env):
    child = Parent()
    child.parent, child.lock = env, threading.Lock()
    return child


def counting():
    number = 0

    def count():
        nonlocal number
        number += 1
        return number

    return count


def numbers():
    yield 1


REFUSED = {
    "lock": (lambda env: threading.Lock(), "env.field (TypeError: cannot pickle"),
    "lock in a cycle": (child_of, "env.field.lock (TypeError"),
    "lock in a list": (lambda env: [1, {"key": threading.Lock()}], "env.field[1]['key'] (TypeError"),
    "lock in slots": (lambda env: Slotted(threading.Lock()), "env.field.inner (TypeError"),
    "thread": (lambda env: threading.Thread(target=print), "env.field._"),
    "generator": (lambda env: numbers(), "env.field (TypeError"),
    "closure": (lambda env: lambda: env.field, "env.field (a function that holds an object"),
    "default argument": (lambda env: lambda self=env: self, "env.field (a function that holds an object"),
    "closure in a partial": (lambda env: functools.partial(lambda x: env), "env.field.func (a function that holds"),
    "closure in a deque": (lambda env: deque([lambda: env]), "env.field[0] (a function that holds"),
    "closure in a subclass of dict": (lambda env: OrderedDict(a=lambda: env), "env.field['a'] (a function that"),
    "closure as a default factory": (lambda env: defaultdict(lambda: env), "env.field.args (a function that"),
    "cached closure": (lambda env: functools.cache(lambda: env), "env.field (a function that holds"),
    "nonlocal": (lambda env: counting(), "env.field (a function that changes a variable"),
    "method of a generator of numbers": (lambda env: random.Random(1).random, "env.field (a method of a Random"),
    "weak reference": (lambda env: weakref.ref(env), "env.field (a weak reference"),
    "proxy": (lambda env: weakref.proxy(env), "env.field (a weak reference"),
    "weak dictionary": (lambda env: weakref.WeakValueDictionary(env=env), "env.field (a weak reference"),
    "object that refuses": (lambda env: [Refuses()], "env.field[0] (ValueError: not me)"),
}


@pytest.mark.parametrize(("make", "said"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_copied_soundly_is_refused_by_the_path_of_the_field(make, said):
    with ew.adapt(Holds(make), id="held") as env:
        env.reset()
        for copying in (env.fork, env.snapshot):
            with pytest.raises(UnsupportedError) as caught:
                copying()
            assert caught.value.message.startswith(f"held cannot be copied: {said}")
            assert "`fork`" in caught.value.hint
        assert env.step(1).obs == 1


def test_open_files_sockets_and_temporary_folders_are_refused(tmp_path):
    with open(tmp_path / "file", "w") as file, socket.socket() as talk, tempfile.TemporaryDirectory() as _:
        folder = tempfile.TemporaryDirectory()
        for resource, path in ((file, "env.field"), (talk, "env.field"), (folder, "env.field._finalizer")):
            with ew.adapt(Holds(lambda _, resource=resource: resource)) as env:
                with pytest.raises(UnsupportedError) as caught:
                    env.fork()
                assert f"cannot be copied: {path} (" in caught.value.message
        folder.cleanup()


def twice(function):
    @functools.wraps(function)
    def call(*arguments):
        return function(*arguments), function(*arguments)

    return call


def double(number):
    return number * 2


ALLOWED = {
    "method": lambda env: env.reset,
    "function": lambda env: double,
    "decorated function": lambda env: twice(double),
    "cached function": lambda env: functools.cache(double),
    "built-in function": lambda env: [len, dict.fromkeys, int],
    "logger": lambda env: logging.getLogger(__name__),
    "iterator": lambda env: iter([1, 2]),
    "memory file": lambda env: io.BytesIO(b"text"),
    "lock of asyncio": lambda env: asyncio.Lock(),
    "itself": lambda env: [env],
    "method of a numpy generator": lambda env: np.random.default_rng(1).random,
}


@pytest.mark.parametrize("make", ALLOWED.values(), ids=ALLOWED)
def test_what_can_be_copied_soundly_is_not_refused(make):
    with ew.adapt(Holds(make)) as env:
        env.reset()
        env.restore(env.snapshot())
        with env.fork() as twin:
            assert twin.step(3).obs == 3


class Chance(ew.Environment[int, list]):
    """Draws from three generators of random numbers, one of them by a bound method."""

    def __init__(self):
        self.python = random.Random(1)
        self.numpy = np.random.default_rng(2)
        self.old = np.random.RandomState(3)
        self.draw = self.numpy.random

    def reset(self):
        return []

    def step(self, action):
        return [self.python.random(), float(self.numpy.random()), float(self.old.rand()), float(self.draw())]


class AsyncChance(Chance):
    async def reset(self):
        return super().reset()

    async def step(self, action):
        return super().step(action)


@pytest.mark.parametrize("kind", [Chance, AsyncChance])
def test_a_copy_draws_the_same_numbers_and_does_not_disturb_the_original(kind):
    with ew.adapt(kind()) as env, ew.adapt(kind()) as untouched:
        env.reset()
        untouched.reset()
        expected = [untouched.step(0).obs for _ in range(3)]
        kept = env.snapshot()
        with env.fork() as twin:
            assert [twin.step(0).obs for _ in range(3)] == expected
        assert [env.step(0).obs for _ in range(3)] == expected
        for _ in range(2):
            env.restore(kept)
            assert [env.step(0).obs for _ in range(3)] == expected


def test_a_gymnasium_environment_with_its_wrappers_is_copied():
    with ew.adapt(gymnasium.make("CartPole-v1")) as env, ew.adapt(gymnasium.make("CartPole-v1")) as other:
        for each in (env, other):
            each.reset(seed=3)
            each.step(1)
        expected = [other.step(0).obs.tolist() for _ in range(3)]
        kept = env.snapshot()
        with env.fork() as twin:
            assert twin.unwrapped is not env.unwrapped
            assert [twin.step(0).obs.tolist() for _ in range(3)] == expected
        env.step(1)
        env.restore(kept)
        assert [env.step(0).obs.tolist() for _ in range(3)] == expected


def test_a_turn_based_pettingzoo_environment_is_copied():
    from pettingzoo.classic.tictactoe import tictactoe

    with ew.adapt(tictactoe.env()) as env:
        env.reset(seed=0)
        env.step({"player_1": 0})
        with env.fork() as twin:
            twin.step({"player_2": 4})
            assert [request.agent_id for request in twin.pending] == ["player_1"]
            assert [request.agent_id for request in env.pending] == ["player_2"]
            env.step({"player_2": 4})


class Argued(gymnasium.Env, gymnasium.utils.EzPickle):
    """Pickles its arguments in place of its state, as many environments of Gymnasium and PettingZoo do."""

    action_space = observation_space = gymnasium.spaces.Discrete(100)

    def __init__(self, start=0):
        gymnasium.utils.EzPickle.__init__(self, start)
        self.at = start

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.at, {}

    def step(self, action):
        self.at += action
        return self.at, 0.0, False, False, {}


def test_an_environment_that_pickles_only_its_arguments_is_copied_with_its_state():
    with ew.adapt(gymnasium.wrappers.OrderEnforcing(Argued(3))) as env:
        env.reset(seed=1)
        env.step(2)
        kept = env.snapshot()
        with env.fork() as twin:
            assert (twin.step(1).obs, twin.step(1).obs, env.step(4).obs) == (6, 7, 9)
        env.restore(pickle.loads(pickle.dumps(kept)))
        assert env.step(1).obs == 6
        env.restore(kept)
        assert env.step(2).obs == 7


def test_a_transform_of_the_handle_is_shared_by_its_forks_and_stays_after_restore():
    seen = []

    def note(observation):
        seen.append(observation)
        return observation

    with ew.adapt(Holds()) as env:
        env.reset()
        kept = env.snapshot()
        env.transform = note
        with env.fork() as twin:
            twin.step(1)
        env.restore(kept)
        env.step(2)
        assert seen == [1, 2]


def test_restore_closes_the_environment_that_it_replaces():
    made = Holds()
    with ew.adapt(made) as env:
        env.reset()
        env.restore(env.snapshot())
        assert made.closed == 1
        assert env.unwrapped is not made
        assert env.unwrapped.closed == 0


def test_a_snapshot_of_another_kind_of_environment_is_refused():
    with ew.adapt(Holds()) as env, ew.adapt(Chance()) as other:
        env.reset()
        other.reset()
        with pytest.raises(UsageError, match="a snapshot of a Chance, not of a Holds"):
            env.restore(other.snapshot())
        assert env.step(1).obs == 1


class Saved(Holds):
    def snapshot(self):
        return {}

    def restore(self, snapshot):
        pass


def test_an_instance_with_snapshots_that_cannot_be_copied_is_to_be_made_from_its_class():
    def locked():
        return Saved(lambda env: threading.Lock())

    with ew.adapt(locked()) as env:
        env.reset()
        env.restore(env.snapshot())
        with pytest.raises(UnsupportedError, match=r"env\.field") as caught:
            env.fork()
        assert "class" in caught.value.hint
    with ew.make(locked) as env:
        env.reset()
        with env.fork() as twin:
            assert twin.step(1).obs == 1


def test_an_environment_built_for_a_fork_that_fails_is_closed():
    built = []

    class Fails(Saved):
        def __init__(self):
            super().__init__()
            self.done = threading.Event()
            built.append(self)

        def restore(self, snapshot):
            raise OSError("damaged")

        def close(self):
            self.done.set()

    with ew.make(Fails) as env:
        env.reset()
        with pytest.raises(ew.EnvError, match="damaged"):
            env.fork()
        assert built[1].done.wait(60)
        assert not built[0].done.is_set()


def test_a_fork_that_returns_no_environment_is_the_authors_error():
    class Forgets(Holds):
        def fork(self):
            return None

    with ew.adapt(Forgets()) as env:
        env.reset()
        with pytest.raises(ew.EnvError, match="fork of Forgets returned a NoneType"):
            env.fork()
        assert env.step(1).obs == 1
