"""The end of sessions and sandboxes; pools and preloaded modules."""

from __future__ import annotations

import threading
from contextlib import ExitStack

import pytest

from envweave.errors import BusyError, ClosedError, SandboxError, SessionEndedError
from envweave.sandbox import Sandbox, Session
from envweave.testing.suites.base import PATIENCE
from envweave.testing.suites.sandbox.base import ENDLESS, Make, SandboxTests, in_thread


class LifetimeTests(SandboxTests):
    """Closing sessions and sandboxes."""

    def test_a_session_can_be_closed_twice(self, sandbox: Sandbox) -> None:
        session = sandbox.start()
        session.close()
        session.close()

    def test_a_closed_session_cannot_be_used(self, sandbox: Sandbox) -> None:
        session = sandbox.start()
        session.close()
        for use in (
            lambda: session.run("1"),
            session.variables,
            lambda: session.get("x"),
            lambda: session.set("x", 1),
            lambda: session.read_file("a"),
            lambda: session.write_file("a", "b"),
            session.list_files,
            session.fork,
            session.snapshot,
        ):
            with pytest.raises(ClosedError):
                use()
        assert session.interrupt() is False

    def test_a_sandbox_can_be_closed_twice(self, make: Make) -> None:
        sandbox = make()
        sandbox.start()
        sandbox.close()
        sandbox.close()

    def test_sessions_end_with_their_sandbox(self, make: Make) -> None:
        sandbox = make()
        session = sandbox.start()
        sandbox.close()
        with pytest.raises(ClosedError):
            session.run("1")

    def test_a_closed_sandbox_starts_nothing(self, make: Make) -> None:
        sandbox = make()
        sandbox.close()
        with pytest.raises(ClosedError):
            sandbox.start()

    def test_the_end_of_one_sandbox_does_not_touch_another_with_the_same_options(self, make: Make) -> None:
        one, other = make(), make()
        with other.start() as session:
            session.run("x = 1")
            one.start()
            one.close()
            assert session.get("x") == 1

    def test_a_busy_session_refuses_a_second_call(self, make: Make) -> None:
        begun, release = threading.Event(), threading.Event()

        def hold() -> str:
            begun.set()
            return "held" if release.wait(60) else "lost"

        with make(tools={"hold": hold}).start() as session:
            running = in_thread(lambda: session.run("hold()"))
            assert begun.wait(30)
            for use in (lambda: session.run("1"), session.variables, session.list_files, lambda: session.set("x", 1)):
                with pytest.raises(BusyError):
                    use()
            release.set()
            assert running.result(PATIENCE).return_value == "held"
            assert session.run("2").return_value == 2

    def test_a_session_can_be_closed_while_it_runs(self, make: Make) -> None:
        begun = threading.Event()
        with make(tools={"begun": begun.set}).start() as session:
            running = in_thread(lambda: session.run(f"begun()\n{ENDLESS}"))
            assert begun.wait(30)
            session.close()
            try:
                assert running.result(PATIENCE).state == "ended"
            except (ClosedError, SessionEndedError):
                pass
            with pytest.raises(ClosedError):
                session.run("1")

    def test_the_report_is_text_and_data(self, sandbox: Sandbox) -> None:
        report = sandbox.report()
        for layer in report.layers:
            assert f"{'on ' if layer.on else 'off'} {layer.name}" in str(report)
            assert report.to_data()["layers"][layer.name] == {"on": layer.on, "why": layer.why}


class PoolTests(SandboxTests):
    """Sessions that are kept ready, and modules that are loaded in advance."""

    def test_a_pool_gives_sessions_that_work(self, make: Make) -> None:
        sandbox = make(pool=2, tools={"double": lambda n: 2 * n}, files={"a.txt": "text"})
        for number in range(5):
            with sandbox.start() as session:
                assert session.variables() == {}
                assert session.run(f"x = {number}\ndouble(x), open('a.txt').read()").return_value == [
                    2 * number,
                    "text",
                ]

    def test_a_pool_gives_each_session_once(self, make: Make) -> None:
        sandbox = make(pool=2)
        with ExitStack() as stack:
            sessions = [stack.enter_context(sandbox.start()) for _ in range(4)]
            for number, session in enumerate(sessions):
                session.run(f"x = {number}")
            assert [session.get("x") for session in sessions] == [0, 1, 2, 3]

    def test_a_module_that_is_preloaded_is_loaded_already(self, make: Make) -> None:
        code = "import sys; 'sqlite3' in sys.modules"
        with make(preload=["sqlite3"]).start() as session:
            assert session.run(code).return_value is True
            assert session.run("import sqlite3; sqlite3.connect(':memory:').execute('select 1').fetchone()").success

    def test_a_module_that_is_not_preloaded_is_not_loaded(self, session: Session) -> None:
        assert session.run("import sys; 'sqlite3' in sys.modules").return_value is False

    def test_a_module_that_cannot_be_preloaded_is_named(self, make: Make) -> None:
        with pytest.raises(SandboxError, match="no_such_module_here"):
            make(preload=["no_such_module_here"]).start()
