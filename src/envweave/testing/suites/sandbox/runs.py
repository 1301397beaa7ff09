"""What a run returns and what stays for the next one; timeouts, interrupts and kills."""

from __future__ import annotations

import threading
import time

import pytest

from envweave.errors import SessionEndedError, UnsupportedError
from envweave.sandbox import Limits, Sandbox, Session
from envweave.testing.suites.base import PATIENCE
from envweave.testing.suites.sandbox.base import DEAF, ENDLESS, Make, SandboxTests, in_thread


class RunTests(SandboxTests):
    """What a run returns, and what lasts until the next."""

    def test_printed_text_is_stdout(self, session: Session) -> None:
        assert session.run("print('one'); print('two')").stdout == "one\ntwo\n"

    def test_what_goes_to_stderr_is_kept_apart(self, session: Session) -> None:
        result = session.run("import sys; print('out'); print('err', file=sys.stderr)")
        assert (result.stdout, result.stderr) == ("out\n", "err\n")

    def test_what_a_descriptor_is_written_to_is_output(self, session: Session) -> None:
        result = session.run("import os; n = os.write(1, b'raw out'); n = os.write(2, b'raw err')")
        assert (result.stdout, result.stderr) == ("raw out", "raw err")

    def test_what_a_child_process_prints_is_output(self, session: Session) -> None:
        code = "import subprocess, sys; done = subprocess.run([sys.executable, '-c', 'print(5)'])"
        assert session.run(code).stdout == "5\n"

    def test_each_run_has_only_its_own_output(self, session: Session) -> None:
        session.run("print('before')")
        assert session.run("print('now')").stdout == "now\n"

    def test_a_run_that_ends_is_a_success(self, session: Session) -> None:
        result = session.run("1")
        assert (result.success, result.exit_code, result.exception, result.limit) == (True, 0, None, None)
        assert result.state == "kept"

    def test_an_exception_is_a_result(self, session: Session) -> None:
        result = session.run("raise ValueError('wrong')")
        assert (result.success, result.exit_code, result.state) == (False, 1, "kept")
        assert result.exception is not None
        assert (result.exception.type, result.exception.message) == ("ValueError", "wrong")
        assert str(result.exception) == "ValueError: wrong"

    def test_the_end_of_the_process_is_a_result(self, session: Session) -> None:
        result = session.run("import os; os._exit(7)")
        assert (result.success, result.exit_code, result.state) == (False, 7, "restarted")
        assert result.exception is not None
        assert result.exception.type == "SystemExit"

    def test_a_signal_is_a_result_and_named(self, session: Session) -> None:
        result = session.run("import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
        assert (result.success, result.exit_code, result.state) == (False, -9, "restarted")
        assert result.exception is not None
        assert "SIGKILL" in result.exception.message

    def test_after_the_end_of_the_process_the_session_goes_on(self, session: Session) -> None:
        session.run("import os; os._exit(7)")
        assert session.run("1 + 1").return_value == 2

    def test_the_duration_is_measured(self, session: Session) -> None:
        began = time.monotonic()
        result = session.run("import time; time.sleep(0.05)")
        assert 0.05 <= result.duration <= time.monotonic() - began

    def test_variables_last(self, session: Session) -> None:
        session.run("x = 41")
        assert session.run("x + 1").return_value == 42

    def test_functions_last_and_see_later_variables(self, session: Session) -> None:
        session.run("def f(): return factor * 2")
        session.run("factor = 21")
        assert session.run("f()").return_value == 42

    def test_imports_last(self, session: Session) -> None:
        session.run("import math as m")
        assert session.run("m.floor(2.5)").return_value == 2

    def test_the_work_folder_lasts(self, session: Session) -> None:
        session.run("open('notes.txt', 'w').write('kept')")
        assert session.run("open('notes.txt').read()").return_value == "kept"

    def test_a_change_of_folder_lasts(self, session: Session) -> None:
        session.run("import os\nos.mkdir('below')\nos.chdir('below')")
        assert session.run("os.path.basename(os.getcwd())").return_value == "below"

    def test_sessions_do_not_share_variables_or_files(self, sandbox: Sandbox) -> None:
        with sandbox.start() as one, sandbox.start() as other:
            one.run("x = 1\nopen('mine.txt', 'w').close()")
            assert other.variables() == {}
            assert other.list_files() == {}

    def test_sessions_draw_different_random_numbers(self, sandbox: Sandbox) -> None:
        with sandbox.start() as one, sandbox.start() as other:
            code = "import random; random.random()"
            assert one.run(code).return_value != other.run(code).return_value

    def test_the_environment_of_the_host_is_not_inside(self, make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("SECRET_OF_THE_HOST", "1")
        with make(preload=("colorsys",)).start() as session:  # another preload, so that a new fork server starts
            assert session.run("import os; 'SECRET_OF_THE_HOST' in os.environ").return_value is False


class TimeoutTests(SandboxTests):
    """A run that takes too long or is interrupted."""

    def test_a_timeout_interrupts_and_names_itself(self, make: Make) -> None:
        with make(limits=Limits(wall=0.3, grace=10)).start() as session:
            result = session.run(ENDLESS)
        assert (result.success, result.exit_code, result.state) == (False, 124, "kept")
        assert result.limit is not None
        assert (result.limit.name, result.limit.value) == ("wall", 0.3)
        assert result.exception is not None
        assert result.exception.type == "TimeoutError"
        assert result.duration >= 0.3

    def test_a_timeout_leaves_the_variables_alive(self, make: Make) -> None:
        with make(limits=Limits(wall=0.3, grace=10)).start() as session:
            session.run("x = 1")
            session.run("x = 2\n" + ENDLESS)
            assert session.run("x").return_value == 2

    def test_a_timeout_tells_where_the_code_was(self, make: Make) -> None:
        with make(limits=Limits(wall=0.3, grace=10)).start() as session:
            result = session.run("def spin():\n    while True:\n        pass\nspin()")
        assert result.exception is not None
        assert ", in spin" in result.exception.traceback

    def test_what_was_printed_before_a_timeout_is_kept(self, make: Make) -> None:
        with make(limits=Limits(wall=0.3, grace=10)).start() as session:
            assert session.run(f"print('begun')\n{ENDLESS}").stdout == "begun\n"

    def test_a_run_can_have_a_timeout_of_its_own(self, make: Make) -> None:
        with make(limits=Limits(wall=None, grace=10)).start() as session:
            result = session.run(ENDLESS, timeout=0.3)
        assert result.limit is not None
        assert (result.limit.name, result.limit.value) == ("wall", 0.3)

    def test_a_run_can_have_no_timeout(self, make: Make) -> None:
        with make(limits=Limits(wall=0.05)).start() as session:
            assert session.run("import time; time.sleep(0.3)", timeout=None).success

    def test_a_program_that_the_code_waits_for_is_interrupted_with_it(self, make: Make) -> None:
        with make(limits=Limits(wall=0.5, grace=10)).start() as session:
            session.run("x = 1")
            result = session.run("import subprocess\nsubprocess.run(['sleep', '300'])")
            assert (result.exit_code, result.state) == (124, "kept")
            assert session.get("x") == 1

    def test_code_that_catches_the_interrupt_may_still_end_well(self, make: Make) -> None:
        with make(limits=Limits(wall=0.3, grace=30)).start() as session:
            result = session.run("import time\ntry:\n    time.sleep(300)\nexcept KeyboardInterrupt:\n    x = 'tidy'\nx")
        assert result.success
        assert result.return_value == "tidy"
        assert result.limit is not None
        assert result.limit.name == "wall"

    def test_code_that_swallows_the_interrupt_is_killed_and_says_so(self, make: Make) -> None:
        with make(limits=Limits(wall=0.3)).start() as session:
            result = session.run(DEAF)
        assert (result.success, result.exit_code, result.state) == (False, -9, "restarted")
        assert result.limit is not None
        assert (result.limit.name, result.limit.value) == ("wall", 0.3)
        assert result.exception is not None
        assert result.exception.type == "TimeoutError"
        assert "did not stop when it was interrupted" in result.exception.message

    def test_what_was_printed_before_a_kill_is_kept(self, make: Make) -> None:
        with make(limits=Limits(wall=0.3)).start() as session:
            assert session.run(f"print('begun')\n{DEAF}").stdout == "begun\n"

    def test_an_interrupt_from_another_thread_stops_a_run(self, make: Make) -> None:
        begun = threading.Event()
        with make(tools={"begun": begun.set}).start() as session:
            session.run("x = 1")
            running = in_thread(lambda: session.run(f"begun()\n{ENDLESS}"))
            assert begun.wait(30)
            assert session.interrupt()
            result = running.result(PATIENCE)
            assert result.exception is not None
            assert (result.exception.type, result.limit, result.state) == ("KeyboardInterrupt", None, "kept")
            assert session.get("x") == 1

    def test_an_interrupt_that_was_taken_is_not_lost(self, session: Session) -> None:
        for _ in range(20):
            running = in_thread(lambda: session.run(ENDLESS))
            while not session.interrupt():
                time.sleep(0)
            result = running.result(20)
            assert result.exception is not None
            assert result.exception.type == "KeyboardInterrupt"

    def test_an_interrupt_of_nothing_does_nothing(self, session: Session) -> None:
        assert session.interrupt() is False
        assert session.run("1").return_value == 1

    def test_the_time_after_a_tool_is_the_time_of_the_code(self, make: Make) -> None:
        with make(tools={"quick": lambda: None}, limits=Limits(wall=0.5, grace=10)).start() as session:
            result = session.run(f"quick()\n{ENDLESS}")
        assert result.limit is not None
        assert result.limit.name == "wall"


class KillTests(SandboxTests):
    """What becomes of a session whose code had to be killed."""

    def test_a_restart_keeps_files_and_loses_variables(self, make: Make) -> None:
        with make(limits=Limits(wall=0.5), after_kill="restart").start() as session:
            session.run("x = 1\nopen('kept.txt', 'w').write('still here')")
            assert session.run(DEAF).state == "restarted"
            assert session.variables() == {}
            assert session.read_file("kept.txt") == b"still here"
            assert session.run("open('kept.txt').read()").return_value == "still here"

    def test_a_restart_brings_the_tools_back(self, make: Make) -> None:
        with make(tools={"double": lambda n: 2 * n}).start() as session:
            session.run("import os; os._exit(1)")
            assert session.run("double(21)").return_value == 42

    def test_a_restart_ends_what_the_code_had_started(self, session: Session) -> None:
        code = """
import os, subprocess, sys
child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(300)'])
open('child', 'w').write(str(child.pid))
os.kill(os.getpid(), 9)
"""
        assert session.run(code).state == "restarted"
        result = session.run("import os; os.kill(int(open('child').read()), 0)")
        assert result.exception is not None
        assert result.exception.type == "ProcessLookupError"

    def test_end_ends_the_session(self, make: Make) -> None:
        with make(limits=Limits(wall=0.5), after_kill="end").start() as session:
            assert session.run(DEAF).state == "ended"
            for use in (lambda: session.run("1"), session.variables, session.list_files, lambda: session.get("x")):
                with pytest.raises(SessionEndedError):
                    use()

    def test_a_run_that_is_not_killed_does_not_end_the_session(self, make: Make) -> None:
        with make(limits=Limits(wall=0.3, grace=10), after_kill="end").start() as session:
            assert session.run(ENDLESS).state == "kept"
            assert session.run("1").return_value == 1

    def test_a_rollback_brings_back_what_was_before_the_run(self, make: Make) -> None:
        with make(limits=Limits(wall=0.5), after_kill="rollback").start() as session:
            session.run("x = [1]\nopen('a.txt', 'w').write('before')", timeout=30)
            result = session.run(f"x.append(2)\nopen('a.txt', 'w').write('after')\nopen('b.txt', 'w').close()\n{DEAF}")
            if not self.forks:
                assert result.state == "restarted"
                assert session.variables() == {}
                return
            assert result.state == "rolled_back"
            assert session.get("x") == [1]
            assert session.read_file("a.txt") == b"before"
            assert session.list_files() == {"a.txt": 6}

    def test_a_run_that_ends_is_not_rolled_back(self, make: Make) -> None:
        with make(after_kill="rollback").start() as session:
            session.run("x = 1")
            session.run("x = 2\n1 / 0")
            assert session.get("x") == 2

    def test_a_fork_is_made_or_refused_with_a_reason(self, session: Session) -> None:
        if self.forks:
            session.fork().close()
            return
        for ask in (session.fork, session.snapshot):
            with pytest.raises(UnsupportedError) as caught:
                ask()
            assert caught.value.hint
        assert session.run("1").return_value == 1
