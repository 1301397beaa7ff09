"""Vectors that treat rows wrongly."""

import pytest

import envweave as ew
from envweave.testing.suites import VectorSuite


class SameSeed(ew.VectorEnv):
    """All rows get the seed of the first."""

    def reset(self, *, seed=None, **options):
        return super().reset(seed=[seed] * self.num_envs if isinstance(seed, int) else seed, **options)


class OneTask(ew.VectorEnv):
    """All tasks are taken for the first."""

    def reset(self, *, task=None, **options):
        return super().reset(task=0 if task is not None else None, **options)


class WrongRows(ew.VectorEnv):
    """The answers of a subset come in the order of the rows."""

    def step(self, actions, *, ids=None, **options):
        ids = sorted(ids) if ids else ids
        return super().step(actions, ids=ids, **options)


class Unclosed(ew.VectorEnv):
    """A call after the close works."""

    def close(self, timeout=0.0):
        return []


class RaisesFailures(ew.VectorEnv):
    """One row that fails loses the others."""

    def step(self, *arguments, **options):
        batch = super().step(*arguments, **options)
        if batch.failures:
            raise ew.EnvError("a row has failed")
        return batch


def made(cls):
    """Vectors of another class on the slots of a real one."""

    def make(name, num_envs, **options):
        vector = ew.make_vector(name, num_envs, backend="thread", **options)
        vector.__class__ = cls
        return vector

    return make


class TestSameSeed(VectorSuite):
    @pytest.fixture
    def make_vector(self):
        return made(SameSeed)


class TestOneTask(VectorSuite):
    @pytest.fixture
    def make_vector(self):
        return made(OneTask)


class TestWrongRows(VectorSuite):
    @pytest.fixture
    def make_vector(self):
        return made(WrongRows)


class TestUnclosed(VectorSuite):
    @pytest.fixture
    def make_vector(self):
        return made(Unclosed)


class TestRaisesFailures(VectorSuite):
    @pytest.fixture
    def make_vector(self):
        return made(RaisesFailures)


class TestIgnoresAutoreset(VectorSuite):
    @pytest.fixture
    def make_vector(self):
        def make(name, num_envs, autoreset=False, **options):
            return ew.make_vector(name, num_envs, backend="thread", **options)

        return make
