"""What a provider must do: start a server, report its URL, stop it, and leave nothing behind, whatever happens."""

from __future__ import annotations

import gc
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias
from urllib.request import urlopen

import pytest

from envweave.client.env_client import connect
from envweave.errors import ProviderError, UsageError
from envweave.providers.base import Provider, health, running
from envweave.providers.process import LABEL
from envweave.testing.suites.base import PATIENCE, Suite, import_path, missing, until

MakeProvider: TypeAlias = Callable[..., Provider]
"""Returns a provider of a server with an environment; given the text of a Python program, one that runs the program."""

LeftBehind: TypeAlias = Callable[[int], list[str]]
"""From the ID of a process to what it has started and what still exists."""

ENDS_AT_ONCE = "print('no licence'); raise SystemExit(7)"
_SERVER = """
import http.server, os
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(STATUS)
        self.end_headers()
        if self.path == "/leave":
            print("one last word")
            os._exit(7)
    def log_message(self, *words):
        pass
print("started")
http.server.HTTPServer(("", PORT), Handler).serve_forever()
"""
HEALTHY = _SERVER.replace("STATUS", "200")
UNHEALTHY = _SERVER.replace("STATUS", "503")


class ProviderTests(Suite):
    """What a subclass defines; after each test, nothing may be left."""

    @pytest.fixture
    def make_provider(self, request: pytest.FixtureRequest) -> MakeProvider:
        """To be defined: a function that returns a provider that is not started.

        Without an argument, its server has an environment. With the text of a Python program, it runs
        `python -u -c PROGRAM`; the word PORT in it stands for the port on which the program must listen.
        """
        missing(request, "return a function of an optional program from it")

    @pytest.fixture
    def left_behind(self) -> LeftBehind:
        """To be defined for a provider that starts something other than processes with our labels."""
        return started_processes

    @pytest.fixture
    def owner_code(self) -> str:
        """To be defined for the tests of `OwnerTests`: the text of a program that sets `provider`."""
        pytest.skip("owner_code is not defined")

    @pytest.fixture(autouse=True)
    def nothing_is_left(self, left_behind: LeftBehind) -> Iterator[None]:
        yield
        until(lambda: not left_behind(os.getpid()))


class ServerTests(ProviderTests):
    """A server from start to stop."""

    def test_a_server_answers_once_it_is_ready_and_is_gone_after_stop(
        self, make_provider: MakeProvider, left_behind: LeftBehind
    ) -> None:
        provider = make_provider()
        assert (provider.url, provider.urls) == ("", ())
        url = provider.start()
        assert (provider.url, provider.urls[0]) == (url, url)
        provider.wait_for_ready(PATIENCE)
        assert health(url) == ""
        with connect(url) as env:
            env.reset()
        provider.check()
        assert left_behind(os.getpid())
        provider.stop()
        assert provider.url == ""
        assert left_behind(os.getpid()) == []
        assert health(url, 1.0)

    def test_a_server_that_ends_at_once_is_reported_with_its_exit_code_and_its_log(
        self, make_provider: MakeProvider, left_behind: LeftBehind
    ) -> None:
        provider = make_provider(ENDS_AT_ONCE)
        with pytest.raises(ProviderError, match=r"(?s)exit code 7.*no licence"), running(provider):
            pytest.fail("it runs")
        provider.stop()
        assert left_behind(os.getpid()) == []


class RepeatedStartTests(ProviderTests):
    """Calls out of order."""

    def test_it_cannot_be_started_twice_and_goes_on(self, make_provider: MakeProvider) -> None:
        provider = make_provider()
        with running(provider) as url:
            with pytest.raises(UsageError):
                provider.start()
            assert provider.url == url
            assert health(url) == ""

    def test_stop_is_harmless_before_a_start_and_twice_and_then_it_starts_again(
        self, make_provider: MakeProvider
    ) -> None:
        provider = make_provider()
        provider.stop()
        assert provider.start().startswith("http")
        provider.stop()
        provider.stop()
        assert provider.start().startswith("http")
        provider.wait_for_ready(PATIENCE)
        assert health(provider.url) == ""
        provider.stop()

    def test_before_a_start_there_is_nothing_to_check_to_read_or_to_wait_for(self, make_provider: MakeProvider) -> None:
        provider = make_provider()
        assert provider.logs() == ""
        assert provider.logs(3) == ""
        with pytest.raises(ProviderError):
            provider.check()
        with pytest.raises(UsageError):
            provider.wait_for_ready()

    def test_the_names_of_envtorch_do_the_same(self, make_provider: MakeProvider) -> None:
        provider = make_provider()
        url = provider.start_container()
        provider.wait_for_ready(url, timeout_s=PATIENCE)
        assert health(url) == ""
        provider.stop_container()
        assert provider.url == ""


class FailedServerTests(ProviderTests):
    """A server that fails, and its log."""

    def test_the_log_can_be_read_whole_or_from_its_end(self, make_provider: MakeProvider) -> None:
        provider = make_provider("for number in range(30): print('line', number)\n" + HEALTHY)
        expected = [*(f"line {number}" for number in range(30)), "started"]
        with running(provider):
            until(lambda: "started" in provider.logs())
            assert provider.logs().splitlines() == expected
            assert provider.logs(2).splitlines() == expected[-2:]

    def test_after_a_start_that_failed_nothing_is_left_and_it_can_be_tried_again(
        self, make_provider: MakeProvider, left_behind: LeftBehind
    ) -> None:
        provider = make_provider(ENDS_AT_ONCE)
        for _ in range(2):
            with pytest.raises(ProviderError), running(provider):
                pass
            assert left_behind(os.getpid()) == []
            assert provider.url == ""

    def test_a_server_that_is_never_healthy_is_reported_with_its_answer_and_its_log(
        self, make_provider: MakeProvider, left_behind: LeftBehind
    ) -> None:
        provider = make_provider(UNHEALTHY)
        provider.start()
        until(lambda: "started" in provider.logs())
        with pytest.raises(ProviderError, match=r"(?s)within 1\.5 s.*503.*started"):
            provider.wait_for_ready(1.5)
        assert left_behind(os.getpid())  # what to do about it is the caller's choice
        provider.stop()

    def test_check_reports_a_server_that_has_ended_with_its_exit_code_and_its_log(
        self, make_provider: MakeProvider
    ) -> None:
        provider = make_provider(HEALTHY)

        def reported() -> str:
            try:
                provider.check()
            except ProviderError as error:
                return error.message
            return ""

        with running(provider) as url:
            provider.check()
            with urlopen(f"{url}/leave", timeout=PATIENCE) as answer:
                answer.read()
            assert re.search(r"(?s)exit code 7.*one last word", until(reported))
            with pytest.raises(ProviderError, match="exit code 7"):
                provider.wait_for_ready(PATIENCE)

    @pytest.mark.parametrize("failure", [RuntimeError, KeyboardInterrupt, SystemExit])
    def test_an_exception_in_the_block_stops_the_server(
        self, make_provider: MakeProvider, left_behind: LeftBehind, failure: type[BaseException]
    ) -> None:
        with pytest.raises(failure), running(make_provider(HEALTHY)):
            raise failure if left_behind(os.getpid()) else AssertionError("nothing was started")
        assert left_behind(os.getpid()) == []


class OwnerTests(ProviderTests):
    """A provider that is dropped, or whose process exits or forks, stops its server once and no other."""

    def test_a_provider_that_is_dropped_stops_its_server(
        self, make_provider: MakeProvider, left_behind: LeftBehind
    ) -> None:
        provider = make_provider()
        provider.start()
        assert left_behind(os.getpid())
        del provider
        gc.collect()
        assert left_behind(os.getpid()) == []

    def test_an_interpreter_that_exits_stops_its_server(self, owner_code: str, left_behind: LeftBehind) -> None:
        owner = owner_process(f"{owner_code}\nprint(provider.start())")
        out, _ = owner.communicate(timeout=PATIENCE * 2)
        assert owner.returncode == 0
        assert out.startswith("http")
        assert left_behind(owner.pid) == []

    @pytest.mark.parametrize("end", ["os._exit(0)", "sys.exit(0)", "provider.stop(); sys.exit(0)", "del provider"])
    def test_a_forked_child_that_ends_leaves_the_server_to_its_parent(
        self, owner_code: str, left_behind: LeftBehind, end: str
    ) -> None:
        owner = owner_process(f"""
import os, sys
from envweave.providers.base import health
{owner_code}
url = provider.start()
provider.wait_for_ready()
child = os.fork()
if child == 0:
    {end}
    sys.exit(0)
os.waitpid(child, 0)
provider.check()
print(health(url) or "healthy")
""")
        out, _ = owner.communicate(timeout=PATIENCE * 2)
        assert out.strip() == "healthy"
        assert owner.returncode == 0
        assert left_behind(owner.pid) == []


class ProviderSuite(ServerTests, RepeatedStartTests, FailedServerTests, OwnerTests):
    """For a subclass of `envweave.providers.Provider`."""


def owner_process(program: str, **variables: str) -> subprocess.Popen[str]:
    """Run a program in another interpreter that can import what this one can."""
    env = {**os.environ, "PYTHONPATH": import_path(), **variables}
    return subprocess.Popen([sys.executable, "-u", "-c", program], stdout=subprocess.PIPE, text=True, env=env)


def started_processes(pid: int) -> list[str]:
    """The processes that a process has started by our own providers, found by the variable that they carry."""
    marked = re.compile(rb"(?:^|\0)%b=\S+ %d\." % (LABEL.encode(), pid))
    names = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if marked.search((folder / "environ").read_bytes()):
                names.append(folder.name)
        except OSError:  # it has ended, or belongs to another user
            continue
    return names
