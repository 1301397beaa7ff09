"""Providers that forget something."""

import sys

import pytest

from envweave.providers import SubprocessProvider
from envweave.testing.suites import ProviderSuite


class KeepsLog(SubprocessProvider):
    def logs(self, tail=None):
        return super().logs()


class StartsTwice(SubprocessProvider):
    def start(self, *arguments, **options):
        if self.url:
            return self.url
        return super().start(*arguments, **options)


class SeesNoEnd(SubprocessProvider):
    def check(self):
        pass


class KeepsURL(SubprocessProvider):
    def stop(self):
        url = self.url
        super().stop()
        self.url = url


class Plain(ProviderSuite):
    provider = SubprocessProvider
    patience = 3.0

    @pytest.fixture
    def make_provider(self):
        def make(program=None):
            if program is None:
                return self.provider("echo")
            return self.provider("it", command=[sys.executable, "-uc", program.replace("PORT", "{port}")])

        return make


class TestKeepsLog(Plain):
    provider = KeepsLog


class TestStartsTwice(Plain):
    provider = StartsTwice


class TestSeesNoEnd(Plain):
    provider = SeesNoEnd


class TestKeepsURL(Plain):
    provider = KeepsURL
