"""Sandboxes that leave something out."""

from dataclasses import replace

import pytest

from envweave.sandbox import Sandbox, Session
from envweave.testing.suites import BoundarySuite


def without(option):
    """Sandboxes that ignore an option."""
    return lambda **options: Sandbox("local", **{name: value for name, value in options.items() if name != option})


class TestWithoutFiles(BoundarySuite):
    @pytest.fixture
    def make_sandbox(self):
        return without("files")


class TestWithoutTools(BoundarySuite):
    @pytest.fixture
    def make_sandbox(self):
        return without("tools")


class MixedOutput(Session):
    """stderr is part of stdout."""

    def run(self, code, **options):
        result = super().run(code, **options)
        return replace(result, stdout=result.stdout + result.stderr, stderr="")


class MixedSandbox(Sandbox):
    def start(self, **options):
        session = super().start(**options)
        session.__class__ = MixedOutput
        return session


class TestMixedOutput(BoundarySuite):
    @pytest.fixture
    def make_sandbox(self):
        return lambda **options: MixedSandbox("local", **options)
