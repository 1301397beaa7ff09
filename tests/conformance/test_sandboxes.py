"""One contract for every way to hold code. Where they differ, `FORKS` and `HOLDS` say how."""

import asyncio
import os
import shutil
import stat
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from envweave.errors import (
    BusyError,
    ClosedError,
    IsolationError,
    SandboxError,
    SessionEndedError,
    UnsupportedError,
    UsageError,
)
from envweave.sandbox import AsyncSession, Limits, Sandbox, Session
from support.need import need

Make = Callable[..., Sandbox]

WAYS = ("namespace", "landlock", "process", "local", "docker")
FORKS = ("namespace",)
HOLDS = ("namespace", "landlock", "process", "docker")
"""Where memory, files and processes are bounded; time and output are everywhere."""

MIB = 1 << 20
ENDLESS = "while True:\n    pass"
DEAF = """
import time
while True:
    try:
        while True:
            time.sleep(0.01)
    except BaseException:
        pass
"""
"""Code that swallows every interrupt."""


# How code is held here.


@pytest.fixture(scope="session")
def open_python() -> Iterator[str]:
    """A Python that every user of the machine can run, which one below somebody's home may not be."""
    if os.getuid() != 0 or _open_to_all(os.path.realpath(sys.executable), sys.prefix, sys.base_prefix):
        yield sys.executable
        return
    system = "/usr/bin/python3"
    asked = [system, "-c", "import sys; sys.exit(sys.version_info < (3, 11))"]
    if os.path.exists(system) and subprocess.run(asked, check=False).returncode == 0:
        yield system
        return
    folder = Path(tempfile.mkdtemp(prefix="python-for-all-"))
    try:
        ignore = shutil.ignore_patterns("site-packages", "__pycache__", "test", "tests")
        shutil.copytree(sys.base_prefix, folder / "python", symlinks=True, ignore=ignore)
        for path in (folder, *folder.rglob("*")):
            if not path.is_symlink():
                path.chmod(path.stat().st_mode | (0o055 if path.is_dir() or path.stat().st_mode & 0o100 else 0o044))
        yield str(folder / "python" / "bin" / f"python3.{sys.version_info.minor}")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _open_to_all(*paths: str) -> bool:
    def passable(path: Path) -> bool:
        return bool(path.stat().st_mode & stat.S_IXOTH)

    return all(
        passable(Path(path)) and Path(path).stat().st_mode & stat.S_IROTH and all(map(passable, Path(path).parents))
        for path in paths
    )


@pytest.fixture(scope="module", params=WAYS)
def way(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def options(way: str, request: pytest.FixtureRequest) -> dict[str, Any]:
    if way == "docker":
        return {"backend": "docker", "image": request.getfixturevalue("python_image")}
    if way == "local":
        return {"backend": "local"}
    if way == "namespace":
        return {"isolation": "namespace"}
    return {"isolation": way, "python": request.getfixturevalue("open_python")}


@pytest.fixture(scope="module")
def sandbox(way: str, options: dict[str, Any]) -> Iterator[Sandbox]:
    """While this one lives, others with the same walls start at once."""
    with Sandbox(**options) as made:
        try:
            made.report()
        except IsolationError as error:
            need(way, str(error))
        yield made


@pytest.fixture
def make(sandbox: Sandbox, options: dict[str, Any]) -> Iterator[Make]:
    """Sandboxes with the same walls and something else about them, closed in the end."""
    with ExitStack() as stack:
        yield lambda **other: stack.enter_context(Sandbox(**{**options, **other}))


@pytest.fixture
def session(sandbox: Sandbox) -> Iterator[Session]:
    with sandbox.start() as started:
        yield started


@pytest.fixture(scope="module")
def forking() -> Iterator[Sandbox]:
    """A sandbox whose sessions can be forked."""
    with Sandbox(isolation="namespace") as made:
        try:
            made.report()
        except IsolationError as error:
            need("namespace", str(error))
        yield made


@pytest.fixture
def tree(forking: Sandbox) -> Iterator[Session]:
    """A session that can be forked."""
    with forking.start() as started:
        yield started


def in_thread(work: Callable[[], Any]) -> Future[Any]:
    """The work under way in a thread of its own."""
    pool = ThreadPoolExecutor(1)
    future = pool.submit(work)
    pool.shutdown(wait=False)
    return future


# What a run gives back.


def test_printed_text_is_stdout(session: Session) -> None:
    assert session.run("print('one'); print('two')").stdout == "one\ntwo\n"


def test_text_without_a_line_end_is_stdout_too(session: Session) -> None:
    assert session.run("print('half', end='')").stdout == "half"


def test_what_goes_to_stderr_is_kept_apart(session: Session) -> None:
    result = session.run("import sys; print('out'); print('err', file=sys.stderr)")
    assert (result.stdout, result.stderr) == ("out\n", "err\n")


def test_what_a_descriptor_is_written_to_is_output(session: Session) -> None:
    result = session.run("import os; n = os.write(1, b'raw out'); n = os.write(2, b'raw err')")
    assert (result.stdout, result.stderr) == ("raw out", "raw err")


def test_what_a_child_process_prints_is_output(session: Session) -> None:
    code = "import subprocess, sys; done = subprocess.run([sys.executable, '-c', 'print(5)'])"
    assert session.run(code).stdout == "5\n"


def test_each_run_has_only_its_own_output(session: Session) -> None:
    session.run("print('before')")
    assert session.run("print('now')").stdout == "now\n"


def test_bytes_that_are_no_text_are_shown_escaped(session: Session) -> None:
    assert session.run(r"import os; n = os.write(1, b'\xff\xfe')").stdout == r"\xff\xfe"


@pytest.mark.parametrize(
    "value",
    [
        True,
        0,
        -17,
        2.5,
        "text",
        "zwölf €🙂",
        "",
        [],
        {},
        [1, [2, [3]]],
        {"a": [1, {"b": None}], "c": "d"},
        "\0\x1b[31m",
        {"data": 1, "repr": 2},
    ],
    ids=repr,
)
def test_the_value_of_a_last_expression_comes_back_as_data(session: Session, value: Any) -> None:
    result = session.run(repr(value))
    assert result.return_value == value
    assert type(result.return_value) is type(value)
    assert result.return_is_data


def test_a_tuple_comes_back_as_a_list(session: Session) -> None:
    result = session.run("1, (2, 3)")
    assert result.return_value == [1, [2, 3]]
    assert result.return_is_data


def test_none_is_no_value(session: Session) -> None:
    assert session.run("None").return_value is None


def test_a_statement_has_no_value(session: Session) -> None:
    assert session.run("x = 5").return_value is None


def test_no_code_at_all_is_a_success(session: Session) -> None:
    assert session.run("").success


@pytest.mark.parametrize("code", ["{1}", "b'x'", "1j", "float('inf')", "{1: 2}", "range(3)", "...", "[b'x']"])
def test_a_value_that_is_no_data_comes_back_as_its_repr(session: Session, code: str) -> None:
    result = session.run(code)
    assert result.return_value == repr(eval(code))
    assert not result.return_is_data


def test_an_object_comes_back_as_its_repr(session: Session) -> None:
    result = session.run("class Thing:\n    def __repr__(self): return 'a thing'\nThing()")
    assert (result.return_value, result.return_is_data) == ("a thing", False)


def test_a_repr_that_raises_is_told_and_harms_nothing(session: Session) -> None:
    result = session.run("class Bad:\n    def __repr__(self): raise RuntimeError('no')\nBad()")
    assert result.success
    assert "Bad" in result.return_value
    assert session.run("1").return_value == 1


def test_a_subclass_of_a_data_type_is_not_taken_for_data(session: Session) -> None:
    result = session.run("class Sly(str): pass\nSly('x')")
    assert (result.return_value, result.return_is_data) == ("'x'", False)


def test_a_value_that_contains_itself_comes_back_as_text(session: Session) -> None:
    result = session.run("a = []\na.append(a)\na")
    assert not result.return_is_data
    assert result.return_value.startswith("[[")


def test_text_that_cannot_be_encoded_comes_back_escaped(session: Session) -> None:
    assert session.run(r"'\ud800'").return_value == r"\ud800"


def test_a_run_that_ends_is_a_success(session: Session) -> None:
    result = session.run("1")
    assert (result.success, result.exit_code, result.exception, result.limit) == (True, 0, None, None)
    assert result.state == "kept"


def test_an_exception_is_a_result(session: Session) -> None:
    result = session.run("raise ValueError('wrong')")
    assert (result.success, result.exit_code, result.state) == (False, 1, "kept")
    assert result.exception is not None
    assert (result.exception.type, result.exception.message) == ("ValueError", "wrong")
    assert str(result.exception) == "ValueError: wrong"


def test_what_was_printed_before_an_exception_is_kept(session: Session) -> None:
    assert session.run("print('first')\n1 / 0").stdout == "first\n"


def test_what_was_defined_before_an_exception_is_kept(session: Session) -> None:
    session.run("x = 1\n1 / 0")
    assert session.get("x") == 1


def test_a_traceback_has_the_lines_of_the_code_with_their_numbers(session: Session) -> None:
    result = session.run("def f():\n    return 1 / 0\n\n\nf()")
    assert result.exception is not None
    assert "line 5, in <module>" in result.exception.traceback
    assert "line 2, in f" in result.exception.traceback
    assert "return 1 / 0" in result.exception.traceback
    assert result.exception.traceback.rstrip().endswith("ZeroDivisionError: division by zero")


@pytest.mark.parametrize("code", ["1 / 0", "raise SystemExit(3)", "x = = 1", "await nothing", "import nothing_there"])
def test_a_traceback_has_no_line_of_ours(session: Session, code: str) -> None:
    result = session.run(code)
    assert result.exception is not None
    assert "envweave" not in result.exception.traceback
    assert "namespace" not in result.exception.traceback


def test_the_exception_of_a_tool_has_no_line_of_ours(make: Make) -> None:
    def fail() -> None:
        raise ValueError("from outside")

    with make(tools={"fail": fail}).start() as session:
        result = session.run("fail()")
    assert result.exception is not None
    assert "envweave" not in result.exception.traceback
    assert "line 1, in <module>" in result.exception.traceback


def test_an_exception_that_cannot_be_shown_is_still_named(session: Session) -> None:
    code = "class Bad(Exception):\n    def __str__(self): raise RuntimeError\nraise Bad"
    result = session.run(code)
    assert result.exception is not None
    assert result.exception.type == "Bad"


@pytest.mark.parametrize(("code", "exit_code"), [("3", 3), ("'words'", 1), ("0", 0), ("", 0)])
def test_an_exit_is_a_result_with_its_code(session: Session, code: str, exit_code: int) -> None:
    result = session.run(f"x = 1\nimport sys\nsys.exit({code})")
    assert (result.exit_code, result.success, result.state) == (exit_code, exit_code == 0, "kept")
    assert session.get("x") == 1


def test_the_end_of_the_process_is_a_result(session: Session) -> None:
    result = session.run("import os; os._exit(7)")
    assert (result.success, result.exit_code, result.state) == (False, 7, "restarted")
    assert result.exception is not None
    assert result.exception.type == "SystemExit"


def test_a_signal_is_a_result_and_named(session: Session) -> None:
    result = session.run("import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    assert (result.success, result.exit_code, result.state) == (False, -9, "restarted")
    assert result.exception is not None
    assert "SIGKILL" in result.exception.message


def test_after_the_end_of_the_process_the_session_goes_on(session: Session) -> None:
    session.run("import os; os._exit(7)")
    assert session.run("1 + 1").return_value == 2


def test_the_duration_is_measured(session: Session) -> None:
    began = time.monotonic()
    result = session.run("import time; time.sleep(0.05)")
    assert 0.05 <= result.duration <= time.monotonic() - began


# Variables.


def test_variables_are_listed_with_their_types(session: Session) -> None:
    session.run("a = 1\nb = 'x'\nclass C: pass\nc = C()\ndef f(): pass")
    assert session.variables() == {"a": "int", "b": "str", "C": "type", "c": "C", "f": "function"}


def test_modules_tools_and_private_names_are_not_listed(make: Make) -> None:
    with make(tools={"look": len}).start() as session:
        session.run("import os\n_hidden = 1\nshown = 2\nshown")
        assert session.variables() == {"shown": "int"}


def test_a_new_session_has_no_variables(session: Session) -> None:
    assert session.variables() == {}


def test_all_variables_are_listed_however_many(session: Session) -> None:
    session.run("globals().update({f'a_rather_long_name_{n}': n for n in range(5000)})")
    assert len(session.variables()) == 5000


def test_a_variable_can_be_read_as_data(session: Session) -> None:
    session.run("x = {'a': [1, 2]}")
    assert session.get("x") == {"a": [1, 2]}


def test_a_variable_that_is_no_data_is_read_as_its_repr(session: Session) -> None:
    session.run("x = {1, 2}")
    assert session.get("x") == "{1, 2}"


def test_a_variable_that_is_none_is_none(session: Session) -> None:
    session.run("x = None")
    assert session.get("x") is None


def test_reading_a_variable_that_is_not_there_is_the_callers_mistake(session: Session) -> None:
    with pytest.raises(UsageError, match="no variable named 'y'") as caught:
        session.get("y")
    assert caught.value.hint


@pytest.mark.parametrize("name", ["", "a b", "1a", "for", "a.b", "None", "x;y"])
def test_what_is_no_name_cannot_be_read_or_set(session: Session, name: str) -> None:
    with pytest.raises(UsageError):
        session.get(name)
    with pytest.raises(UsageError):
        session.set(name, 1)


def test_a_variable_can_be_set(session: Session) -> None:
    session.set("x", {"a": [1, 2.5, None, "é"]})
    assert session.run("x['a']").return_value == [1, 2.5, None, "é"]


@pytest.mark.parametrize("value", [{1, 2}, b"x", float("nan"), object(), {1: 2}])
def test_a_variable_takes_data_only(session: Session, value: Any) -> None:
    session.set("x", "before")
    with pytest.raises(UsageError):
        session.set("x", value)
    assert session.get("x") == "before"


def test_a_large_value_can_be_set(session: Session) -> None:
    session.set("x", "y" * (2 * MIB))
    assert session.run("len(x)").return_value == 2 * MIB


# What lasts from run to run.


def test_variables_last(session: Session) -> None:
    session.run("x = 41")
    assert session.run("x + 1").return_value == 42


def test_functions_last_and_see_later_variables(session: Session) -> None:
    session.run("def f(): return factor * 2")
    session.run("factor = 21")
    assert session.run("f()").return_value == 42


def test_imports_last(session: Session) -> None:
    session.run("import math as m")
    assert session.run("m.floor(2.5)").return_value == 2


def test_the_work_folder_lasts(session: Session) -> None:
    session.run("open('notes.txt', 'w').write('kept')")
    assert session.run("open('notes.txt').read()").return_value == "kept"


def test_a_change_of_folder_lasts(session: Session) -> None:
    session.run("import os\nos.mkdir('below')\nos.chdir('below')")
    assert session.run("os.path.basename(os.getcwd())").return_value == "below"


def test_sessions_do_not_share_variables_or_files(sandbox: Sandbox) -> None:
    with sandbox.start() as one, sandbox.start() as other:
        one.run("x = 1\nopen('mine.txt', 'w').close()")
        assert other.variables() == {}
        assert other.list_files() == {}


def test_sessions_do_not_share_their_dice(sandbox: Sandbox) -> None:
    with sandbox.start() as one, sandbox.start() as other:
        code = "import random; random.random()"
        assert one.run(code).return_value != other.run(code).return_value


def test_the_environment_of_the_host_is_not_inside(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_OF_THE_HOST", "1")
    with make(preload=("colorsys",)).start() as session:  # another preload, so that the walls are put up anew
        assert session.run("import os; 'SECRET_OF_THE_HOST' in os.environ").return_value is False


# Time.


def test_a_timeout_interrupts_and_names_itself(make: Make) -> None:
    with make(limits=Limits(wall=0.3, grace=10)).start() as session:
        result = session.run(ENDLESS)
    assert (result.success, result.exit_code, result.state) == (False, 124, "kept")
    assert result.limit is not None
    assert (result.limit.name, result.limit.value) == ("wall", 0.3)
    assert result.exception is not None
    assert result.exception.type == "TimeoutError"
    assert result.duration >= 0.3


def test_a_timeout_leaves_the_variables_alive(make: Make) -> None:
    with make(limits=Limits(wall=0.3, grace=10)).start() as session:
        session.run("x = 1")
        session.run("x = 2\n" + ENDLESS)
        assert session.run("x").return_value == 2


def test_a_timeout_tells_where_the_code_was(make: Make) -> None:
    with make(limits=Limits(wall=0.3, grace=10)).start() as session:
        result = session.run("def spin():\n    while True:\n        pass\nspin()")
    assert result.exception is not None
    assert ", in spin" in result.exception.traceback


def test_what_was_printed_before_a_timeout_is_kept(make: Make) -> None:
    with make(limits=Limits(wall=0.3, grace=10)).start() as session:
        assert session.run(f"print('begun')\n{ENDLESS}").stdout == "begun\n"


def test_a_run_can_have_a_timeout_of_its_own(make: Make) -> None:
    with make(limits=Limits(wall=None, grace=10)).start() as session:
        result = session.run(ENDLESS, timeout=0.3)
    assert result.limit is not None
    assert (result.limit.name, result.limit.value) == ("wall", 0.3)


def test_a_run_can_have_no_timeout(make: Make) -> None:
    with make(limits=Limits(wall=0.05)).start() as session:
        assert session.run("import time; time.sleep(0.3)", timeout=None).success


@pytest.mark.parametrize("timeout", [1e7, 1e12])
def test_a_timeout_may_be_very_long(session: Session, timeout: float) -> None:
    assert session.run("1", timeout=timeout).return_value == 1


@pytest.mark.parametrize("timeout", [0, -1, float("nan"), "5", True], ids=repr)
def test_a_timeout_that_is_none_is_the_callers_mistake(session: Session, timeout: Any) -> None:
    with pytest.raises(UsageError) as caught:
        session.run("1", timeout=timeout)
    assert caught.value.hint


def test_a_program_that_the_code_waits_for_is_interrupted_with_it(make: Make) -> None:
    with make(limits=Limits(wall=0.5, grace=10)).start() as session:
        session.run("x = 1")
        result = session.run("import subprocess\nsubprocess.run(['sleep', '300'])")
        assert (result.exit_code, result.state) == (124, "kept")
        assert session.get("x") == 1


def test_code_that_catches_the_interrupt_may_still_end_well(make: Make) -> None:
    with make(limits=Limits(wall=0.3, grace=30)).start() as session:
        result = session.run("import time\ntry:\n    time.sleep(300)\nexcept KeyboardInterrupt:\n    x = 'tidy'\nx")
    assert result.success
    assert result.return_value == "tidy"
    assert result.limit is not None
    assert result.limit.name == "wall"


def test_code_that_swallows_the_interrupt_is_killed_and_says_so(make: Make) -> None:
    with make(limits=Limits(wall=0.3)).start() as session:
        result = session.run(DEAF)
    assert (result.success, result.exit_code, result.state) == (False, -9, "restarted")
    assert result.limit is not None
    assert (result.limit.name, result.limit.value) == ("wall", 0.3)
    assert result.exception is not None
    assert result.exception.type == "TimeoutError"
    assert "did not stop when it was interrupted" in result.exception.message


def test_what_was_printed_before_a_kill_is_kept(make: Make) -> None:
    with make(limits=Limits(wall=0.3)).start() as session:
        assert session.run(f"print('begun')\n{DEAF}").stdout == "begun\n"


def test_an_interrupt_from_another_thread_stops_a_run(make: Make) -> None:
    begun = threading.Event()
    with make(tools={"begun": begun.set}).start() as session:
        session.run("x = 1")
        running = in_thread(lambda: session.run(f"begun()\n{ENDLESS}"))
        assert begun.wait(30)
        assert session.interrupt()
        result = running.result(30)
        assert result.exception is not None
        assert (result.exception.type, result.limit, result.state) == ("KeyboardInterrupt", None, "kept")
        assert session.get("x") == 1


def test_an_interrupt_that_was_taken_is_not_lost(session: Session) -> None:
    for _ in range(20):
        running = in_thread(lambda: session.run(ENDLESS))
        while not session.interrupt():
            time.sleep(0)
        result = running.result(20)
        assert result.exception is not None
        assert result.exception.type == "KeyboardInterrupt"


def test_an_interrupt_of_nothing_does_nothing(session: Session) -> None:
    assert session.interrupt() is False
    assert session.run("1").return_value == 1


# After a kill.


def test_a_restart_keeps_files_and_loses_variables(make: Make) -> None:
    with make(limits=Limits(wall=0.5), after_kill="restart").start() as session:
        session.run("x = 1\nopen('kept.txt', 'w').write('still here')")
        assert session.run(DEAF).state == "restarted"
        assert session.variables() == {}
        assert session.read_file("kept.txt") == b"still here"
        assert session.run("open('kept.txt').read()").return_value == "still here"


def test_a_restart_brings_the_tools_back(make: Make) -> None:
    with make(tools={"double": lambda n: 2 * n}).start() as session:
        session.run("import os; os._exit(1)")
        assert session.run("double(21)").return_value == 42


def test_a_restart_ends_what_the_code_had_started(session: Session) -> None:
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


def test_end_ends_the_session(make: Make) -> None:
    with make(limits=Limits(wall=0.5), after_kill="end").start() as session:
        assert session.run(DEAF).state == "ended"
        for use in (lambda: session.run("1"), session.variables, session.list_files, lambda: session.get("x")):
            with pytest.raises(SessionEndedError):
                use()


def test_a_run_that_is_not_killed_does_not_end_the_session(make: Make) -> None:
    with make(limits=Limits(wall=0.3, grace=10), after_kill="end").start() as session:
        assert session.run(ENDLESS).state == "kept"
        assert session.run("1").return_value == 1


def test_a_rollback_brings_back_what_was_before_the_run(make: Make, way: str) -> None:
    with make(limits=Limits(wall=0.5), after_kill="rollback").start() as session:
        session.run("x = [1]\nopen('a.txt', 'w').write('before')", timeout=30)
        result = session.run(f"x.append(2)\nopen('a.txt', 'w').write('after')\nopen('b.txt', 'w').close()\n{DEAF}")
        if way not in FORKS:
            assert result.state == "restarted"
            assert session.variables() == {}
            return
        assert result.state == "rolled_back"
        assert session.get("x") == [1]
        assert session.read_file("a.txt") == b"before"
        assert session.list_files() == {"a.txt": 6}


def test_a_run_that_ends_is_not_rolled_back(make: Make) -> None:
    with make(after_kill="rollback").start() as session:
        session.run("x = 1")
        session.run("x = 2\n1 / 0")
        assert session.get("x") == 2


def test_rollback_works_again_and_again(forking: Sandbox) -> None:
    with Sandbox(isolation="namespace", after_kill="rollback") as sandbox, sandbox.start() as session:
        for turn in range(5):
            session.run(f"x = {turn}")
            assert session.run("import os; x = None; os._exit(1)").state == "rolled_back"
            assert session.get("x") == turn


def test_tools_work_after_a_rollback(forking: Sandbox) -> None:
    tools = {"double": lambda n: 2 * n}
    with Sandbox(isolation="namespace", after_kill="rollback", tools=tools) as sandbox, sandbox.start() as session:
        session.run("import os; os._exit(1)")
        assert session.run("double(21)").return_value == 42


def test_what_cannot_be_rolled_back_is_restarted_and_says_so(forking: Sandbox) -> None:
    with Sandbox(isolation="namespace", after_kill="rollback") as sandbox, sandbox.start() as session:
        session.run("import os; ends = os.pipe()")
        assert session.run("os._exit(1)").state == "restarted"


# Files.


def test_files_are_there_at_the_start(make: Make) -> None:
    with make(files={"data.csv": b"a,b\n1,2\n", "deep/er/text.txt": "zwölf"}).start() as session:
        assert session.run("open('data.csv').read()").return_value == "a,b\n1,2\n"
        assert session.run("open('deep/er/text.txt', encoding='utf-8').read()").return_value == "zwölf"


def test_each_session_gets_the_files_anew(make: Make) -> None:
    sandbox = make(files={"data.txt": "fresh"})
    with sandbox.start() as one:
        one.run("open('data.txt', 'w').write('used')")
        with sandbox.start() as other:
            assert other.read_file("data.txt") == b"fresh"


@pytest.mark.parametrize("path", ["../out.txt", "/abs.txt", "", "a/../../b"])
def test_files_at_the_start_stay_in_the_work_folder(make: Make, path: str) -> None:
    with pytest.raises(UsageError):
        make(files={path: b"x"}).start()


def test_a_file_that_the_code_wrote_can_be_read(session: Session) -> None:
    session.run(r"open('out.bin', 'wb').write(bytes(range(256)))")
    assert session.read_file("out.bin") == bytes(range(256))


def test_a_file_that_we_write_can_be_read_inside(session: Session) -> None:
    session.write_file("in.bin", bytes(range(256)))
    assert session.run("open('in.bin', 'rb').read() == bytes(range(256))").return_value is True


def test_text_is_written_as_utf_8(session: Session) -> None:
    session.write_file("in.txt", "zwölf €")
    assert session.read_file("in.txt") == "zwölf €".encode()


def test_a_file_can_be_written_below_folders_that_are_not_there(session: Session) -> None:
    session.write_file("a/b/c.txt", "deep")
    assert session.run("open('a/b/c.txt').read()").return_value == "deep"


def test_a_file_that_we_wrote_can_be_changed_by_the_code(session: Session) -> None:
    session.write_file("a/b.txt", "ours")
    result = session.run("open('a/b.txt', 'a').write(' and theirs')\nopen('a/c.txt', 'w').close()")
    assert result.exception is None
    assert session.read_file("a/b.txt") == b"ours and theirs"


def test_a_file_can_be_overwritten_by_a_shorter_one(session: Session) -> None:
    session.write_file("a.txt", "long text")
    session.write_file("a.txt", "short")
    assert session.read_file("a.txt") == b"short"


def test_a_file_that_the_code_wrote_can_be_overwritten(session: Session) -> None:
    session.run("open('a.txt', 'w').write('theirs')")
    session.write_file("a.txt", "ours")
    assert session.run("open('a.txt').read()").return_value == "ours"


def test_an_empty_file_is_a_file(session: Session) -> None:
    session.write_file("empty", b"")
    assert session.read_file("empty") == b""
    assert session.list_files() == {"empty": 0}


def test_a_large_file_goes_in_and_out(session: Session) -> None:
    data = os.urandom(5 * MIB)
    session.write_file("large.bin", data)
    assert session.read_file("large.bin") == data


def test_files_are_listed_with_their_sizes(session: Session) -> None:
    session.write_file("b.txt", "12")
    session.run("import os\nos.makedirs('d/e')\nopen('d/e/f.txt', 'w').write('123')\nos.mkdir('nothing')")
    assert session.list_files() == {"b.txt": 2, "d/e/f.txt": 3}


def test_names_of_files_may_be_any_text(session: Session) -> None:
    session.write_file("zwölf €/a b\n.txt", "x")
    assert session.list_files() == {"zwölf €/a b\n.txt": 1}
    assert session.read_file("zwölf €/a b\n.txt") == b"x"


def test_names_that_are_no_text_do_not_break_the_list(session: Session) -> None:
    session.run(r"open(b'\xff\xfe', 'wb').close()")
    assert len(session.list_files()) == 1


def test_a_file_that_is_not_there_is_the_callers_mistake(session: Session) -> None:
    with pytest.raises(UsageError, match=r"missing\.txt"):
        session.read_file("missing.txt")


@pytest.mark.parametrize("path", ["../secret", "a/../../secret", "/etc/passwd", "", ".", "a\0b"])
def test_a_path_that_leads_out_is_refused(session: Session, path: str) -> None:
    with pytest.raises(UsageError):
        session.read_file(path)
    with pytest.raises(UsageError):
        session.write_file(path, "x")


def test_a_folder_cannot_be_read_as_a_file(session: Session) -> None:
    session.run("import os; os.mkdir('folder')")
    with pytest.raises(UsageError):
        session.read_file("folder")


def test_a_file_cannot_take_the_place_of_a_folder(session: Session) -> None:
    session.run("import os; os.mkdir('folder')")
    with pytest.raises(UsageError):
        session.write_file("folder", "x")
    assert session.run("os.path.isdir('folder')").return_value is True


def test_a_symbolic_link_is_not_read(session: Session) -> None:
    session.run("import os; os.symlink('/etc/hostname', 'link')")
    with pytest.raises(UsageError, match="symbolic link"):
        session.read_file("link")


def test_a_symbolic_link_to_a_folder_is_not_followed(session: Session, tmp_path: Path) -> None:
    session.run(f"import os; os.symlink({str(tmp_path)!r}, 'link')")
    with pytest.raises(UsageError):
        session.write_file("link/new.txt", "x")
    with pytest.raises(UsageError):
        session.read_file("link/new.txt")
    assert list(tmp_path.iterdir()) == []


def test_writing_to_a_symbolic_link_replaces_the_link(session: Session, tmp_path: Path) -> None:
    target = tmp_path / "target.txt"
    target.write_text("untouched")
    session.run(f"import os; os.symlink({str(target)!r}, 'link')")
    session.write_file("link", "x")
    assert target.read_text() == "untouched"
    assert session.read_file("link") == b"x"


def test_symbolic_links_are_not_listed(session: Session) -> None:
    session.run("import os; os.symlink('/etc', 'folder'); os.symlink('/etc/hostname', 'file')")
    assert session.list_files() == {}


def test_a_fifo_cannot_be_read(session: Session) -> None:
    session.run("import os; os.mkfifo('pipe')")
    with pytest.raises(UsageError):
        session.read_file("pipe")


@pytest.mark.parametrize("data", [5, None, ["a"]], ids=repr)
def test_contents_of_a_file_are_bytes_or_text(session: Session, data: Any) -> None:
    with pytest.raises(UsageError):
        session.write_file("a.txt", data)
    assert session.list_files() == {}


# Tools.


def test_a_tool_takes_arguments_and_gives_data_back(make: Make) -> None:
    def describe(*args: Any, **kwargs: Any) -> Any:
        return {"args": list(args), "kwargs": kwargs}

    with make(tools={"describe": describe}).start() as session:
        result = session.run("describe(1, 'zwölf', [None, 2.5], key={'a': True})")
    assert result.return_value == {"args": [1, "zwölf", [None, 2.5]], "kwargs": {"key": {"a": True}}}


def test_a_tool_can_be_called_many_times(make: Make) -> None:
    with make(tools={"double": lambda n: 2 * n}).start() as session:
        assert session.run("sum(double(n) for n in range(200))").return_value == 39800


def test_a_tool_can_be_called_from_a_function_of_an_earlier_run(make: Make) -> None:
    with make(tools={"double": lambda n: 2 * n}).start() as session:
        session.run("def f(n): return double(n) + 1")
        assert session.run("f(1)").return_value == 3


def test_a_tool_that_returns_nothing_gives_none(make: Make) -> None:
    seen: list[int] = []
    with make(tools={"note": seen.append}).start() as session:
        assert session.run("note(5) is None").return_value is True
    assert seen == [5]


def test_a_large_argument_and_a_large_result_cross(make: Make) -> None:
    with make(tools={"echo": lambda text: text}).start() as session:
        assert session.run("len(echo('x' * 500_000))").return_value == 500_000


def test_text_of_every_kind_crosses(make: Make) -> None:
    seen: list[str] = []

    def echo(text: str) -> str:
        seen.append(text)
        return text

    with make(tools={"echo": echo}).start() as session:
        assert session.run(r"t = '\0\n\x1b\u20ac🙂'; echo(t) == t").return_value is True
    assert seen == ["\0\n\x1b€🙂"]


def test_an_async_tool_is_awaited(make: Make) -> None:
    async def double(n: int) -> int:
        await asyncio.sleep(0)
        return 2 * n

    with make(tools={"double": double}).start() as session:
        assert session.run("double(21)").return_value == 42


@pytest.mark.parametrize("kind", [ValueError, KeyError, FileNotFoundError, TimeoutError, StopIteration, RuntimeError])
def test_an_exception_of_a_tool_arrives_as_the_same_builtin_exception(make: Make, kind: type[Exception]) -> None:
    def fail() -> None:
        raise kind("reason")

    code = f"try:\n    fail()\nexcept {kind.__name__} as error:\n    caught = str(error)\ncaught"
    with make(tools={"fail": fail}).start() as session:
        assert session.run(code).return_value == str(kind("reason"))


def test_an_exception_of_an_async_tool_arrives_too(make: Make) -> None:
    async def fail() -> None:
        raise ValueError("reason")

    with make(tools={"fail": fail}).start() as session:
        result = session.run("fail()")
    assert result.exception is not None
    assert (result.exception.type, result.exception.message) == ("ValueError", "reason")


def test_an_exception_of_a_type_of_our_own_arrives_as_a_tool_error(make: Make) -> None:
    class OurError(Exception):
        pass

    def fail() -> None:
        raise OurError("reason")

    with make(tools={"fail": fail}).start() as session:
        result = session.run("fail()")
    assert result.exception is not None
    assert (result.exception.type, result.exception.message) == ("ToolError", "OurError: reason")


@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt])
def test_a_tool_that_exits_ends_neither_side(make: Make, kind: type[BaseException]) -> None:
    def leave() -> None:
        raise kind("bye")

    with make(tools={"leave": leave}).start() as session:
        result = session.run("try:\n    leave()\nexcept Exception as error:\n    kind = type(error).__name__\nkind")
    assert result.return_value == "ToolError"


def test_a_tool_called_with_wrong_arguments_raises_type_error(make: Make) -> None:
    with make(tools={"double": lambda n: 2 * n}).start() as session:
        result = session.run("double(1, 2)")
    assert result.exception is not None
    assert result.exception.type == "TypeError"


def test_arguments_that_are_no_data_raise_type_error(make: Make) -> None:
    seen: list[Any] = []
    with make(tools={"note": seen.append}).start() as session:
        result = session.run("note(object())")
    assert result.exception is not None
    assert result.exception.type == "TypeError"
    assert seen == []


def test_a_result_that_is_no_data_raises_type_error(make: Make) -> None:
    with make(tools={"bad": lambda: object()}).start() as session:
        result = session.run("bad()")
    assert result.exception is not None
    assert result.exception.type == "TypeError"
    assert "the result" in result.exception.message


def test_a_result_becomes_data_where_it_can(make: Make) -> None:
    with make(tools={"pair": lambda: (1, (2, 3))}).start() as session:
        assert session.run("pair()").return_value == [1, [2, 3]]


def test_a_tool_that_takes_too_long_raises_timeout_error_inside(make: Make) -> None:
    release = threading.Event()
    with make(tools={"slow": lambda: release.wait(60)}, limits=Limits(tool_wall=0.3)).start() as session:
        result = session.run("try:\n    slow()\nexcept TimeoutError as error:\n    said = str(error)\nsaid")
        release.set()
    assert result.success
    assert "0.3" in result.return_value
    assert result.limit is not None
    assert (result.limit.name, result.limit.value) == ("tool_wall", 0.3)


def test_the_answer_of_a_tool_that_came_too_late_is_nobodys(make: Make) -> None:
    release = threading.Event()
    tools = {"slow": lambda: release.wait(60) and "late", "quick": lambda: "quick"}
    with make(tools=tools, limits=Limits(tool_wall=0.3)).start() as session:
        session.run("slow()")
        release.set()
        assert session.run("[quick() for _ in range(20)] == ['quick'] * 20").return_value is True


def test_the_time_of_a_tool_is_not_the_time_of_the_code(make: Make) -> None:
    release = threading.Event()
    with make(tools={"slow": lambda: release.wait(60)}, limits=Limits(wall=1, grace=10)).start() as session:
        timer = threading.Timer(2.5, release.set)
        timer.start()
        result = session.run("slow()")
        timer.join()
    assert result.return_value is True
    assert result.limit is None
    assert result.duration > 1


def test_the_time_after_a_tool_is_the_time_of_the_code(make: Make) -> None:
    with make(tools={"quick": lambda: None}, limits=Limits(wall=0.5, grace=10)).start() as session:
        result = session.run(f"quick()\n{ENDLESS}")
    assert result.limit is not None
    assert result.limit.name == "wall"


def test_tools_are_called_at_the_same_time_from_threads(make: Make) -> None:
    together = threading.Barrier(4)

    def meet(number: int) -> int:
        together.wait(60)
        return number * 10

    code = """
from concurrent.futures import ThreadPoolExecutor
with ThreadPoolExecutor(4) as pool:
    found = list(pool.map(meet, range(4)))
found
"""
    with make(tools={"meet": meet}).start() as session:
        assert session.run(code).return_value == [0, 10, 20, 30]


def test_many_calls_from_many_threads_get_their_own_answers(make: Make) -> None:
    code = """
from concurrent.futures import ThreadPoolExecutor
with ThreadPoolExecutor(8) as pool:
    found = list(pool.map(echo, range(200)))
found == list(range(200))
"""
    with make(tools={"echo": lambda n: n}).start() as session:
        assert session.run(code).return_value is True


def test_more_calls_than_the_limit_are_refused(make: Make) -> None:
    seen: list[int] = []
    with make(tools={"note": seen.append}, limits=Limits(tool_calls=3)).start() as session:
        result = session.run("for n in range(10): note(n)")
    assert seen == [0, 1, 2]
    assert result.limit is not None
    assert (result.limit.name, result.limit.value) == ("tool_calls", 3)
    assert result.exception is not None
    assert result.exception.type == "RuntimeError"


def test_the_limit_of_calls_holds_for_each_run(make: Make) -> None:
    with make(tools={"one": lambda: 1}, limits=Limits(tool_calls=3)).start() as session:
        for _ in range(3):
            assert session.run("one() + one() + one()").return_value == 3


def test_no_calls_at_all_can_be_the_limit(make: Make) -> None:
    with make(tools={"one": lambda: 1}, limits=Limits(tool_calls=0)).start() as session:
        result = session.run("one()")
    assert result.limit is not None
    assert result.limit.name == "tool_calls"


def test_help_tells_what_a_tool_does(make: Make) -> None:
    def search(query: str, most: int = 10) -> list[str]:
        """Find pages."""
        return []

    with make(tools={"search": search}).start() as session:
        said = session.run("help(search)").stdout
    assert "query: str, most: int = 10" in said
    assert "Find pages." in said


def test_an_interrupt_while_a_tool_is_under_way_leaves_the_session_alive(make: Make) -> None:
    begun, release = threading.Event(), threading.Event()

    def slow() -> bool:
        begun.set()
        return release.wait(60)

    with make(tools={"slow": slow, "quick": lambda: 7}).start() as session:
        running = in_thread(lambda: session.run("x = 1\nslow()"))
        assert begun.wait(30)
        session.interrupt()
        result = running.result(30)
        assert result.exception is not None
        assert result.exception.type == "KeyboardInterrupt"
        release.set()
        assert session.run("quick() + x").return_value == 8


def test_a_thread_that_still_waits_for_a_tool_when_the_run_ends_is_told(make: Make) -> None:
    begun, release = threading.Event(), threading.Event()

    def slow() -> None:
        begun.set()
        release.wait(60)

    code = """
import threading
said = []
def ask():
    try:
        slow()
    except RuntimeError as error:
        said.append(str(error))
thread = threading.Thread(target=ask)
thread.start()
begin()
"""
    with make(tools={"slow": slow, "begin": lambda: begun.wait(60)}).start() as session:
        assert session.run(code).return_value is True
        assert session.run("thread.join(30)\nsaid").return_value == ["the run has ended"]
        release.set()


# Output and values that are too large.


def test_output_keeps_its_head_and_its_tail_and_says_what_is_cut(make: Make) -> None:
    with make(limits=Limits(output_bytes=1000)).start() as session:
        result = session.run("print('HEAD' + 'x' * 100_000 + 'TAIL')")
    assert result.success
    assert result.stdout.startswith("HEADx")
    assert result.stdout.endswith("xTAIL\n")
    assert f"[{100_009 - 1000} bytes cut]" in result.stdout
    assert len(result.stdout) < 1100
    assert result.limit is not None
    assert (result.limit.name, result.limit.value) == ("output_bytes", 1000)


def test_stderr_is_cut_in_the_same_way(make: Make) -> None:
    with make(limits=Limits(output_bytes=1000)).start() as session:
        result = session.run("import sys; n = sys.stderr.write('x' * 5000)")
    assert "[4000 bytes cut]" in result.stderr
    assert result.limit is not None
    assert result.limit.name == "output_bytes"


def test_output_of_just_the_limit_is_not_cut(make: Make) -> None:
    with make(limits=Limits(output_bytes=1000)).start() as session:
        result = session.run("print('x' * 1000, end='')")
    assert result.stdout == "x" * 1000
    assert result.limit is None


def test_a_value_that_is_too_large_is_cut_and_said(make: Make) -> None:
    with make(limits=Limits(return_bytes=1000)).start() as session:
        result = session.run("'x' * 100_000")
    assert result.success
    assert not result.return_is_data
    assert "cut" in result.return_value
    assert len(result.return_value) < 1100
    assert result.limit is not None
    assert (result.limit.name, result.limit.value) == ("return_bytes", 1000)


def test_a_repr_that_is_too_large_is_cut_and_said(make: Make) -> None:
    with make(limits=Limits(return_bytes=1000)).start() as session:
        result = session.run("class Wide:\n    def __repr__(self): return 'w' * 5000\nWide()")
    assert len(result.return_value) < 1100
    assert result.limit is not None
    assert result.limit.name == "return_bytes"


def test_a_list_that_is_too_large_is_cut_and_said(make: Make) -> None:
    with make(limits=Limits(return_bytes=1000)).start() as session:
        result = session.run("list(range(100_000))")
    assert not result.return_is_data
    assert result.return_value.startswith("[0, 1, 2")
    assert len(result.return_value) < 1100
    assert result.limit is not None
    assert result.limit.name == "return_bytes"


def test_a_variable_that_is_too_large_is_read_cut(make: Make) -> None:
    with make(limits=Limits(return_bytes=1000)).start() as session:
        session.run("x = 'x' * 100_000")
        assert len(session.get("x")) < 1100


# Limits that the kernel keeps, or the host in its place.


def hit(make: Make, code: str, **limits: Any) -> tuple[str, float] | None:
    """The limit that the code runs into."""
    with make(limits=Limits(**{"wall": 60, **limits})).start() as session:
        result = session.run(code)
        assert session.run("1 + 1").return_value == 2  # whatever happened, it goes on
    return (result.limit.name, result.limit.value) if result.limit else None


def test_processor_time_is_limited(make: Make) -> None:
    assert hit(make, ENDLESS, cpu=0.4, grace=30) == ("cpu", 0.4)


def test_processor_time_is_counted_for_each_run(make: Make) -> None:
    with make(limits=Limits(cpu=1.5, wall=60)).start() as session:
        for _ in range(4):
            assert session.run(
                "import time\nend = time.process_time() + 0.5\nwhile time.process_time() < end: pass"
            ).success


def test_processor_time_of_children_counts(make: Make) -> None:
    code = "import subprocess, sys\nsubprocess.run([sys.executable, '-c', 'while True: pass'])"
    assert hit(make, code, cpu=0.5, grace=30) == ("cpu", 0.5)


def test_waiting_takes_no_processor_time(make: Make) -> None:
    with make(limits=Limits(cpu=0.5, wall=60)).start() as session:
        assert session.run("import time; time.sleep(1)").success


@pytest.fixture
def holding(way: str, make: Make) -> Make:
    if way not in HOLDS:
        pytest.skip(f"{way} has no walls")
    return make


def test_memory_is_limited(holding: Make) -> None:
    assert hit(holding, "x = bytearray(1 << 30)", memory_bytes=128 * MIB) == ("memory_bytes", 128 * MIB)


def test_memory_that_grows_slowly_is_limited(holding: Make) -> None:
    code = "x = []\nwhile True: x.append(bytearray(1 << 20))"
    assert hit(holding, code, memory_bytes=128 * MIB) == ("memory_bytes", 128 * MIB)


def test_memory_of_children_counts(holding: Make) -> None:
    code = """
import os, time
for _ in range(8):
    if not os.fork():
        x = bytearray(b'x') * (50 << 20)
        time.sleep(60)
os.wait()
"""
    assert hit(holding, code, memory_bytes=160 * MIB) == ("memory_bytes", 160 * MIB)


def test_threads_are_limited(holding: Make) -> None:
    code = """
import threading, time
stop = threading.Event()
for _ in range(100):
    threading.Thread(target=stop.wait, daemon=True).start()
time.sleep(60)
"""
    assert hit(holding, code, processes=16) == ("processes", 16)


def test_processes_are_limited(holding: Make) -> None:
    code = "import os, time\nfor _ in range(100):\n    if not os.fork():\n        time.sleep(60)\ntime.sleep(60)"
    assert hit(holding, code, processes=16) == ("processes", 16)


def test_open_files_are_limited(holding: Make) -> None:
    assert hit(holding, "f = [open('/dev/null') for _ in range(500)]", open_files=128) == ("open_files", 128)


def test_the_size_of_a_file_is_limited(holding: Make) -> None:
    assert hit(holding, f"open('x', 'wb').write(b'x' * {3 * MIB})", file_bytes=2 * MIB) == ("file_bytes", 2 * MIB)


def test_the_size_of_the_work_folder_is_limited(holding: Make) -> None:
    code = f"import time\nfor n in range(8):\n    open(str(n), 'wb').write(b'x' * {MIB})\ntime.sleep(60)"
    with holding(limits=Limits(wall=60, disk_bytes=4 * MIB)).start() as session:
        result = session.run(code)
    assert result.limit is not None
    assert (result.limit.name, result.limit.value) == ("disk_bytes", 4 * MIB)


def test_a_limit_that_is_none_does_not_hold(holding: Make) -> None:
    limits = Limits(memory_bytes=None, file_bytes=None, disk_bytes=None, processes=None, open_files=None, files=None)
    with holding(limits=limits).start() as session:
        assert session.run(f"open('x', 'wb').write(b'x' * {70 * MIB})").return_value == 70 * MIB


def test_a_limit_is_written_with_its_whole_value(make: Make) -> None:
    with make(limits=Limits(output_bytes=12_345_678, return_bytes=1_234_567)).start() as session:
        result = session.run("'x' * 2_000_000")
    assert str(result.limit) == "return_bytes=1234567"


# Forks and snapshots.


def test_a_fork_has_the_variables_and_the_files(tree: Session) -> None:
    tree.run("x = [1, 2]\nopen('a.txt', 'w').write('same')")
    with tree.fork() as fork:
        assert fork.get("x") == [1, 2]
        assert fork.read_file("a.txt") == b"same"
        assert fork.run("open('a.txt').read()").return_value == "same"


def test_a_fork_and_its_original_go_separate_ways(tree: Session) -> None:
    tree.run("x = [0]\nopen('a.txt', 'w').write('both')")
    with tree.fork() as fork:
        fork.run("x.append('fork')\nopen('a.txt', 'w').write('fork')\nopen('f.txt', 'w').close()")
        tree.run("x.append('original')\nopen('a.txt', 'w').write('original')\nopen('o.txt', 'w').close()")
        assert (fork.get("x"), tree.get("x")) == ([0, "fork"], [0, "original"])
        assert (fork.read_file("a.txt"), tree.read_file("a.txt")) == (b"fork", b"original")
        assert (set(fork.list_files()), set(tree.list_files())) == ({"a.txt", "f.txt"}, {"a.txt", "o.txt"})


def test_a_fork_has_the_temporary_files(tree: Session) -> None:
    tree.run("import tempfile, os\nname = tempfile.mkstemp()[1]\nopen(name, 'w').write('kept')")
    with tree.fork() as fork:
        tree.run("os.unlink(name)")
        assert fork.run("open(name).read()").return_value == "kept"


def test_a_fork_outlives_its_original(tree: Session) -> None:
    tree.run("x = 1\nopen('a.txt', 'w').write('kept')")
    with tree.fork() as fork:
        tree.close()
        assert fork.run("x + 1").return_value == 2
        assert fork.read_file("a.txt") == b"kept"


def test_the_original_outlives_its_fork(tree: Session) -> None:
    tree.run("x = 1")
    tree.fork().close()
    assert tree.run("x").return_value == 1


def test_forks_can_be_forked_forty_times_over(tree: Session) -> None:
    tree.run("depth = 0\nopen('depth.txt', 'w').write('0')")
    with ExitStack() as stack:
        line = [tree]
        for _ in range(40):
            line.append(stack.enter_context(line[-1].fork()))
            line[-1].run("depth += 1\nopen('depth.txt', 'w').write(str(depth))")
        assert [each.get("depth") for each in line] == list(range(41))
        assert [each.read_file("depth.txt") for each in line] == [b"%d" % depth for depth in range(41)]


def test_a_line_of_forks_may_close_behind_itself(tree: Session) -> None:
    tree.run("depth = 0")
    here = tree
    for _ in range(100):
        there = here.fork()
        here.close()
        here = there
        here.run("depth += 1")
    assert here.get("depth") == 100
    here.close()


def test_forks_run_at_the_same_time(tree: Session) -> None:
    together = threading.Barrier(3)
    sandbox = Sandbox(isolation="namespace", tools={"meet": lambda: together.wait(60) >= 0})
    with sandbox, sandbox.start() as one, one.fork() as two, two.fork() as three:
        running = [in_thread(lambda each=each: each.run("meet()")) for each in (one, two, three)]
        assert [each.result(60).return_value for each in running] == [True] * 3


def test_a_fork_has_the_tools(forking: Sandbox) -> None:
    sandbox = Sandbox(isolation="namespace", tools={"double": lambda n: 2 * n})
    with sandbox, sandbox.start() as session, session.fork() as fork:
        assert fork.run("double(21)").return_value == 42
        assert session.run("double(4)").return_value == 8


def test_a_fork_has_limits_of_its_own(forking: Sandbox) -> None:
    sandbox = Sandbox(isolation="namespace", limits=Limits(wall=0.3, grace=10))
    with sandbox, sandbox.start() as session, session.fork() as fork:
        result = fork.run(ENDLESS)
        assert result.limit is not None
        assert result.limit.name == "wall"
        assert session.run("1").return_value == 1


def test_the_death_of_a_fork_does_not_touch_the_original(tree: Session) -> None:
    tree.run("x = 1")
    with tree.fork() as fork:
        assert fork.run("import os; os._exit(3)").state == "restarted"
        assert tree.get("x") == 1


def test_the_death_of_the_original_does_not_touch_the_fork(tree: Session) -> None:
    tree.run("x = 1")
    with tree.fork() as fork:
        assert tree.run("import os; os._exit(3)").state == "restarted"
        assert fork.get("x") == 1


def test_a_fork_that_is_restarted_keeps_its_own_files(tree: Session) -> None:
    with tree.fork() as fork:
        fork.run("open('f.txt', 'w').write('fork')")
        fork.run("import os; os._exit(3)")
        assert fork.run("open('f.txt').read()").return_value == "fork"
        assert tree.list_files() == {}


def test_generators_go_on_from_where_they_were(tree: Session) -> None:
    tree.run("numbers = iter(n * n for n in range(100))\nnext(numbers), next(numbers)")
    with tree.fork() as fork:
        assert fork.run("next(numbers)").return_value == 4
        assert fork.run("next(numbers)").return_value == 9
        assert tree.run("next(numbers)").return_value == 4


def test_an_open_file_goes_on_from_where_it_was(tree: Session) -> None:
    tree.run("open('a.txt', 'w').write('0123456789')\nf = open('a.txt', 'rb', buffering=0)\nf.read(3)")
    with tree.fork() as fork:
        assert fork.run("f.read(2)").return_value == repr(b"34")
        assert tree.run("f.read(2)").return_value == repr(b"34")


def test_a_file_open_for_writing_writes_into_its_own_copy(tree: Session) -> None:
    tree.run("f = open('a.txt', 'w')\nf.write('both ')\nf.flush()")
    with tree.fork() as fork:
        fork.run("f.write('fork')\nf.close()")
        tree.run("f.write('original')\nf.close()")
        assert fork.read_file("a.txt") == b"both fork"
        assert tree.read_file("a.txt") == b"both original"


def test_what_was_written_and_not_flushed_is_in_both(tree: Session) -> None:
    tree.run("f = open('a.txt', 'w')\nf.write('buffered ')")
    with tree.fork() as fork:
        fork.run("f.write('fork')\nf.close()")
        tree.run("f.write('original')\nf.close()")
        assert fork.read_file("a.txt") == b"buffered fork"
        assert tree.read_file("a.txt") == b"buffered original"


def test_an_unnamed_temporary_file_is_carried(tree: Session) -> None:
    tree.run("import tempfile\nf = tempfile.TemporaryFile()\nf.write(b'0123456789')\nf.seek(4)")
    with tree.fork() as fork:
        fork.run("f.write(b'FORK')")
        assert tree.run("f.read().decode()").return_value == "456789"
        assert fork.run("f.seek(0); f.read().decode()").return_value == "0123FORK89"


def test_a_memory_file_is_carried(tree: Session) -> None:
    tree.run("import os\nf = os.memfd_create('m')\nos.write(f, b'abcdef')\nos.lseek(f, 2, 0)")
    with tree.fork() as fork:
        fork.run("os.write(f, b'XX')")
        assert tree.run("os.pread(f, 10, 0).decode()").return_value == "abcdef"
        assert fork.run("os.pread(f, 10, 0).decode()").return_value == "abXXef"


def test_a_database_is_carried(tree: Session) -> None:
    tree.run("import sqlite3\ndb = sqlite3.connect('a.db')\ndb.execute('create table t (n)')")
    tree.run("db.execute('insert into t values (1)')\ndb.commit()")
    with tree.fork() as fork:
        fork.run("db.execute('insert into t values (2)')\ndb.commit()")
        assert fork.run("db.execute('select count(*) from t').fetchone()[0]").return_value == 2
        assert tree.run("db.execute('select count(*) from t').fetchone()[0]").return_value == 1


def test_random_numbers_go_on_as_they_would_have(tree: Session) -> None:
    tree.run("import random; random.seed(7)")
    with tree.fork() as fork:
        assert fork.run("random.random()").return_value == tree.run("random.random()").return_value


def test_a_fork_has_the_current_folder(tree: Session) -> None:
    tree.run("import os\nos.mkdir('below')\nos.chdir('below')\nopen('here.txt', 'w').write('x')")
    with tree.fork() as fork:
        fork.run("open('fork.txt', 'w').write('x')")
        assert fork.run("sorted(os.listdir())").return_value == ["fork.txt", "here.txt"]
        assert tree.run("os.listdir()").return_value == ["here.txt"]


def test_a_fork_has_links_modes_and_times(tree: Session) -> None:
    tree.run("""
import os
open('a.sh', 'w').write('#!/bin/sh\\necho run')
os.chmod('a.sh', 0o755)
os.utime('a.sh', (1000, 2000))
os.symlink('a.sh', 'link')
os.mkdir('closed', 0o500)
""")
    with tree.fork() as fork:
        assert fork.run("os.readlink('link')").return_value == "a.sh"
        assert fork.run("os.stat('a.sh').st_mode & 0o777, os.stat('a.sh').st_mtime").return_value == [0o755, 2000]
        assert fork.run("os.stat('closed').st_mode & 0o777").return_value == 0o500
        assert fork.run("import subprocess; subprocess.run(['./a.sh'])").stdout == "run\n"


def test_a_fork_imports_modules_of_its_own_folder(tree: Session) -> None:
    with tree.fork() as fork:
        fork.write_file("helper.py", "ANSWER = 42")
        assert fork.run("import helper; helper.ANSWER").return_value == 42


def test_a_fork_has_top_level_await_after_the_original_had_it(tree: Session) -> None:
    code = "import asyncio\nawait asyncio.sleep(0)\n5"
    assert tree.run(code).return_value == 5
    with tree.fork() as fork:
        assert fork.run(code).return_value == 5
        assert tree.run(code).return_value == 5


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("import threading\nstop = threading.Event()\nthreading.Thread(target=stop.wait).start()", "thread"),
        ("import socket\nends = socket.socketpair()", "socket"),
        ("import os\nends = os.pipe()", "pipe"),
        ("import subprocess\nchild = subprocess.Popen(['sleep', '300'])", "child"),
        ("import mmap\nm = mmap.mmap(-1, 4096)", "memory shared"),
        ("import mmap\nf = open('m', 'w+b')\nf.truncate(4096)\nm = mmap.mmap(f.fileno(), 4096)", "memory shared"),
        ("import asyncio\nt = asyncio.create_task(asyncio.sleep(300))\nawait asyncio.sleep(0)", "asyncio tasks"),
        ("import select\ne = select.epoll()", "eventpoll"),
    ],
    ids=["threads", "sockets", "pipes", "children", "shared memory", "shared file", "tasks", "epoll"],
)
def test_what_cannot_be_in_two_places_is_refused_with_its_name(tree: Session, code: str, reason: str) -> None:
    assert tree.run(f"x = 1\n{code}").success
    with pytest.raises(UnsupportedError) as caught:
        tree.fork()
    assert reason in caught.value.hint
    with pytest.raises(UnsupportedError):
        tree.snapshot()
    assert tree.get("x") == 1


def test_once_the_obstacle_is_gone_a_fork_can_be_had(tree: Session) -> None:
    tree.run("import socket\nx = 1\none, other = socket.socketpair()")
    with pytest.raises(UnsupportedError):
        tree.fork()
    tree.run("one.close(); other.close()")
    with tree.fork() as fork:
        assert fork.get("x") == 1


def test_a_work_folder_that_cannot_be_copied_is_refused_with_its_name(tree: Session) -> None:
    tree.run("import os; os.mkfifo('a pipe')")
    with pytest.raises(UnsupportedError) as caught:
        tree.fork()
    assert "a pipe" in caught.value.hint
    tree.run("os.unlink('a pipe')")
    tree.fork().close()


def test_more_forks_than_the_limit_are_refused(forking: Sandbox) -> None:
    with Sandbox(isolation="namespace", limits=Limits(forks=2)) as sandbox, sandbox.start() as session:
        with session.fork(), session.fork() as second:
            for each in (session, second):
                with pytest.raises(UnsupportedError):
                    each.fork()
        session.fork().close()


def test_no_forks_can_be_the_rule(forking: Sandbox) -> None:
    with Sandbox(isolation="namespace", forks=False) as sandbox, sandbox.start() as session:
        with pytest.raises(UnsupportedError) as caught:
            session.fork()
        assert "forks=False" in caught.value.hint


def test_a_way_that_cannot_fork_says_why(session: Session, way: str) -> None:
    if way in FORKS:
        session.fork().close()
        return
    for ask in (session.fork, session.snapshot):
        with pytest.raises(UnsupportedError) as caught:
            ask()
        assert caught.value.hint
    assert session.run("1").return_value == 1


def test_a_snapshot_can_be_restored_many_times(tree: Session) -> None:
    tree.run("x = [0]\nopen('a.txt', 'w').write('before')")
    with tree.snapshot() as snapshot:
        for turn in range(10):
            tree.run(f"x.append({turn})\nopen('a.txt', 'w').write('after')\nopen('new.txt', 'w').close()")
            tree.restore(snapshot)
            assert tree.get("x") == [0]
            assert tree.read_file("a.txt") == b"before"
            assert tree.list_files() == {"a.txt": 6}


def test_a_snapshot_starts_new_sessions(tree: Session) -> None:
    tree.run("x = 5")
    with tree.snapshot() as snapshot:
        tree.run("x = 6")
        with snapshot.start() as one, snapshot.start() as two:
            one.run("x += 10")
            assert (one.get("x"), two.get("x"), tree.get("x")) == (15, 5, 6)


def test_a_snapshot_outlives_its_session(tree: Session) -> None:
    tree.run("x = 5")
    with tree.snapshot() as snapshot:
        tree.close()
        with snapshot.start() as session:
            assert session.get("x") == 5


def test_a_session_that_has_ended_can_be_restored(forking: Sandbox) -> None:
    with Sandbox(isolation="namespace", after_kill="end") as sandbox, sandbox.start() as session:
        session.run("x = 5")
        with session.snapshot() as snapshot:
            assert session.run("import os; os._exit(1)").state == "ended"
            session.restore(snapshot)
            assert session.get("x") == 5


def test_tools_work_after_a_restore(forking: Sandbox) -> None:
    sandbox = Sandbox(isolation="namespace", tools={"double": lambda n: 2 * n})
    with sandbox, sandbox.start() as session, session.snapshot() as snapshot:
        session.restore(snapshot)
        assert session.run("double(21)").return_value == 42


def test_a_closed_snapshot_cannot_be_restored(tree: Session) -> None:
    tree.run("x = 5")
    snapshot = tree.snapshot()
    snapshot.close()
    with pytest.raises(ClosedError):
        tree.restore(snapshot)
    with pytest.raises(ClosedError):
        snapshot.start()
    assert tree.get("x") == 5


def test_a_closed_session_cannot_be_restored(tree: Session) -> None:
    with tree.snapshot() as snapshot:
        tree.close()
        with pytest.raises(ClosedError):
            tree.restore(snapshot)


# Ends.


def test_a_session_can_be_closed_twice(sandbox: Sandbox) -> None:
    session = sandbox.start()
    session.close()
    session.close()


def test_a_closed_session_cannot_be_used(sandbox: Sandbox) -> None:
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


def test_a_sandbox_can_be_closed_twice(make: Make) -> None:
    sandbox = make()
    sandbox.start()
    sandbox.close()
    sandbox.close()


def test_sessions_end_with_their_sandbox(make: Make) -> None:
    sandbox = make()
    session = sandbox.start()
    sandbox.close()
    with pytest.raises(ClosedError):
        session.run("1")


def test_a_closed_sandbox_starts_nothing(make: Make) -> None:
    sandbox = make()
    sandbox.close()
    with pytest.raises(ClosedError):
        sandbox.start()


def test_the_end_of_one_sandbox_does_not_touch_another_with_the_same_walls(make: Make) -> None:
    one, other = make(), make()
    with other.start() as session:
        session.run("x = 1")
        one.start()
        one.close()
        assert session.get("x") == 1


def test_a_busy_session_refuses_a_second_call(make: Make) -> None:
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
        assert running.result(30).return_value == "held"
        assert session.run("2").return_value == 2


def test_a_session_can_be_closed_while_it_runs(make: Make) -> None:
    begun = threading.Event()
    with make(tools={"begun": begun.set}).start() as session:
        running = in_thread(lambda: session.run(f"begun()\n{ENDLESS}"))
        assert begun.wait(30)
        session.close()
        try:
            assert running.result(30).state == "ended"
        except (ClosedError, SessionEndedError):
            pass
        with pytest.raises(ClosedError):
            session.run("1")


# The face for event loops.


@asynccontextmanager
async def started(sandbox: Sandbox) -> AsyncIterator[AsyncSession]:
    async with await sandbox.aio.start() as session:
        yield session


def test_all_that_a_session_does_can_be_awaited(sandbox: Sandbox) -> None:
    async def use() -> None:
        async with started(sandbox) as session:
            assert (await session.run("x = 1\nprint('out')\nx + 1")).return_value == 2
            assert await session.variables() == {"x": "int"}
            await session.set("y", [1])
            assert await session.get("y") == [1]
            await session.write_file("a.txt", "text")
            assert await session.read_file("a.txt") == b"text"
            assert await session.list_files() == {"a.txt": 4}
            assert await session.interrupt() is False

    asyncio.run(use())


def test_both_faces_are_of_one_session(session: Session) -> None:
    session.run("x = 1")

    async def use() -> Any:
        return (await session.aio.run("x + 1")).return_value

    assert asyncio.run(use()) == 2
    assert session.aio.sync.get("x") == 1


def test_twenty_sessions_run_at_once(make: Make, way: str) -> None:
    count = 4 if way == "docker" else 20

    async def use() -> list[Any]:
        together = asyncio.Event()
        arrived = 0

        async def meet() -> None:
            nonlocal arrived
            arrived += 1
            if arrived == count:
                together.set()
            await together.wait()

        sandbox = make(tools={"meet": meet})

        async def one(number: int) -> Any:
            async with started(sandbox) as session:
                return (await session.run(f"meet()\n{number} * 2")).return_value

        return await asyncio.gather(*(one(number) for number in range(count)))

    assert asyncio.run(use()) == [number * 2 for number in range(count)]


def test_a_run_that_is_cancelled_leaves_the_session_usable(make: Make) -> None:
    async def use() -> None:
        begun = asyncio.Event()

        async def begin() -> None:
            begun.set()

        async with started(make(tools={"begin": begin}, limits=Limits(grace=10))) as session:
            await session.run("x = 1")
            running = asyncio.create_task(session.run(f"begin()\n{ENDLESS}"))
            await asyncio.wait_for(begun.wait(), 30)
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
            assert (await session.run("x + 1")).return_value == 2

    asyncio.run(use())


def test_a_run_that_is_cancelled_and_swallows_it_is_killed(make: Make) -> None:
    async def use() -> None:
        begun = asyncio.Event()

        async def begin() -> None:
            begun.set()

        async with started(make(tools={"begin": begin})) as session:
            running = asyncio.create_task(session.run(f"begin()\n{DEAF}"))
            await asyncio.wait_for(begun.wait(), 30)
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
            with suppress(SandboxError):  # if it had to be killed that is told once, as its variables are gone
                await session.run("5")
            assert (await session.run("begin()\n5")).return_value == 5

    asyncio.run(use())


def test_a_cancelled_run_ends_with_its_session(make: Make) -> None:
    async def use() -> None:
        begun = asyncio.Event()

        async def begin() -> None:
            begun.set()

        async with started(make(tools={"begin": begin})) as session:
            running = asyncio.create_task(session.run(f"begin()\n{ENDLESS}"))
            await asyncio.wait_for(begun.wait(), 30)
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running

    asyncio.run(use())


async def cut_short(work: Coroutine[Any, Any, Any]) -> None:
    """Begin something, let it come as far as its first wait, and cancel it."""
    task = asyncio.create_task(work)
    await asyncio.sleep(0)
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


def test_a_message_that_is_cut_short_does_not_garble_the_next(make: Make) -> None:
    async def use() -> None:
        async with started(make(limits=Limits(grace=30))) as session:
            await session.run("x = 1")
            await cut_short(session.write_file("large", b"x" * (8 << 20)))
            await cut_short(session.run("y = '" + "y" * (8 << 20) + "'"))
            await session.write_file("small", "text")
            assert (await session.run("x, open('small').read()")).return_value == [1, "text"]

    asyncio.run(use())


def test_a_close_that_is_cut_short_is_finished_by_the_next(make: Make) -> None:
    async def use() -> None:
        sandbox = make()
        session = await sandbox.aio.start()
        await cut_short(session.close())
        with pytest.raises(ClosedError):
            await session.run("1")
        await session.close()
        sandbox.close()

    asyncio.run(use())


def test_the_loop_is_free_while_code_runs(make: Make) -> None:
    async def use() -> Any:
        free = asyncio.Event()

        async def wait() -> bool:
            await free.wait()
            return True

        async with started(make(tools={"wait": wait})) as session:
            running = asyncio.create_task(session.run("wait()"))
            await asyncio.sleep(0)
            free.set()
            return (await running).return_value

    assert asyncio.run(use()) is True


def test_an_async_tool_runs_on_the_loop_of_the_caller(make: Make) -> None:
    async def use() -> None:
        here = asyncio.get_running_loop()
        loops: list[object] = []

        async def where() -> None:
            loops.append(asyncio.get_running_loop())

        async with started(make(tools={"where": where})) as session:
            await session.run("where()")
        assert loops == [here]

    asyncio.run(use())


def test_a_plain_tool_does_not_block_the_loop(make: Make) -> None:
    async def use() -> Any:
        release = threading.Event()
        async with started(make(tools={"slow": lambda: release.wait(60)})) as session:
            running = asyncio.create_task(session.run("slow()"))
            await asyncio.sleep(0.05)
            release.set()
            return (await running).return_value

    assert asyncio.run(use()) is True


def test_forks_and_snapshots_can_be_awaited(forking: Sandbox) -> None:
    async def use() -> None:
        async with started(forking) as session:
            await session.run("x = 1")
            snapshot = await session.snapshot()
            async with await session.fork() as fork:
                await fork.run("x = 2")
                await session.run("x = 3")
                await session.restore(snapshot)
                assert (await session.get("x"), await fork.get("x")) == (1, 2)
            async with snapshot, await snapshot.start() as another:
                assert await another.get("x") == 1

    asyncio.run(use())


def test_an_async_sandbox_closes_what_it_started(make: Make) -> None:
    async def use() -> None:
        async with make().aio as sandbox:
            session = await sandbox.start()
            await session.run("1")
        with pytest.raises(ClosedError):
            await session.run("1")

    asyncio.run(use())


# Pools and preloaded modules.


def test_a_pool_gives_sessions_that_work(make: Make) -> None:
    sandbox = make(pool=2, tools={"double": lambda n: 2 * n}, files={"a.txt": "text"})
    for number in range(5):
        with sandbox.start() as session:
            assert session.variables() == {}
            assert session.run(f"x = {number}\ndouble(x), open('a.txt').read()").return_value == [2 * number, "text"]


def test_a_pool_gives_each_session_once(make: Make) -> None:
    sandbox = make(pool=2)
    with ExitStack() as stack:
        sessions = [stack.enter_context(sandbox.start()) for _ in range(4)]
        for number, session in enumerate(sessions):
            session.run(f"x = {number}")
        assert [session.get("x") for session in sessions] == [0, 1, 2, 3]


def test_a_module_that_is_preloaded_is_loaded_already(make: Make) -> None:
    code = "import sys; 'sqlite3' in sys.modules"
    with make(preload=["sqlite3"]).start() as session:
        assert session.run(code).return_value is True
        assert session.run("import sqlite3; sqlite3.connect(':memory:').execute('select 1').fetchone()").success


def test_a_module_that_is_not_preloaded_is_not_loaded(session: Session) -> None:
    assert session.run("import sys; 'sqlite3' in sys.modules").return_value is False


def test_a_module_that_cannot_be_preloaded_is_named(make: Make) -> None:
    with pytest.raises(SandboxError, match="no_such_module_here"):
        make(preload=["no_such_module_here"]).start()


# What holds it, and what was asked for.


def test_the_report_says_which_walls_stand_and_why_not(sandbox: Sandbox, way: str) -> None:
    report = sandbox.report()
    assert report.isolation == {"local": "unsafe", "docker": "container"}.get(way, way)
    assert report.why
    assert report.layers
    assert all(layer.name and layer.why for layer in report.layers)


def test_the_report_is_text_and_data(sandbox: Sandbox) -> None:
    report = sandbox.report()
    for layer in report.layers:
        assert f"{'on ' if layer.on else 'off'} {layer.name}" in str(report)
        assert report.to_data()["layers"][layer.name] == {"on": layer.on, "why": layer.why}


def test_a_way_without_walls_says_so(sandbox: Sandbox, way: str) -> None:
    on = {layer.name for layer in sandbox.report().layers if layer.on}
    assert ("network namespace" in on) == (way in ("namespace", "docker"))
    assert ("seccomp" in on) == (way in ("namespace", "landlock", "docker"))


def test_auto_takes_the_strongest(forking: Sandbox) -> None:
    with Sandbox() as sandbox:
        assert sandbox.report().isolation == "namespace"


@pytest.mark.parametrize("isolation", ["landlock", "process", "unsafe"])
def test_less_than_the_least_isolation_is_refused(isolation: Any) -> None:
    with pytest.raises(IsolationError) as caught:
        Sandbox(isolation=isolation, min_isolation="namespace")
    assert "'namespace'" in caught.value.message
    assert caught.value.hint


def test_a_backend_without_walls_does_not_pass_for_isolation() -> None:
    with pytest.raises((IsolationError, UsageError)), Sandbox("local", min_isolation="namespace") as sandbox:
        sandbox.start()


def test_the_least_isolation_lets_more_pass(forking: Sandbox) -> None:
    with Sandbox(min_isolation="process") as sandbox, sandbox.start() as session:
        assert session.run("1").return_value == 1


@pytest.mark.parametrize(
    "wrong",
    [
        {"backend": "dokcer"},
        {"isolation": "strong"},
        {"min_isolation": "strong"},
        {"after_kill": "cry"},
        {"pool": -1},
        {"preload": "numpy"},
        {"readable": "/usr"},
        {"files": {"a.txt": 5}},
    ],
    ids=str,
)
def test_a_wrong_argument_is_the_callers_mistake_and_has_a_hint(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError) as caught:
        Sandbox(**wrong)
    assert caught.value.hint


@pytest.mark.parametrize("tools", [{"a b": len}, {"for": len}, {"": len}, {"x": 3}, {"1": len}], ids=str)
def test_a_tool_has_a_name_and_can_be_called(tools: Any) -> None:
    with pytest.raises(UsageError):
        Sandbox(tools=tools)


@pytest.mark.parametrize("code", [None, 5, b"1", ["1"]], ids=repr)
def test_code_is_text(session: Session, code: Any) -> None:
    with pytest.raises(UsageError):
        session.run(code)


def test_a_python_that_is_none_is_named() -> None:
    with Sandbox(python="/nowhere/python") as sandbox, pytest.raises(SandboxError, match="/nowhere/python"):
        sandbox.start()


# What a session is given of its own.


def test_tools_and_files_of_one_session_come_to_those_of_the_sandbox(make: Make) -> None:
    sandbox = make(tools={"who": lambda: "sandbox", "shared": lambda: 1}, files={"a": "1", "b": "1"})
    with sandbox.start(tools={"who": lambda: "session", "own": lambda: 2}, files={"b": b"2", "c/d": "3"}) as session:
        assert session.run("who(), shared(), own()").return_value == ["session", 1, 2]
        assert session.run("[open(path).read() for path in ('a', 'b', 'c/d')]").return_value == ["1", "2", "3"]
    with sandbox.start() as session:
        assert session.run("who()").return_value == "sandbox"
        assert session.run("own()").exception.type == "NameError"  # type: ignore[union-attr]
        assert set(session.list_files()) == {"a", "b"}


@pytest.mark.parametrize("wrong", [{"tools": {"a b": len}}, {"tools": {"x": 3}}, {"files": {"a": 5}}], ids=str)
def test_wrong_tools_and_files_of_a_session_are_refused_before_it_starts(sandbox: Sandbox, wrong: Any) -> None:
    with pytest.raises(UsageError):
        sandbox.start(**wrong)


def test_a_file_outside_of_the_work_folder_is_refused_and_no_session_is_left(sandbox: Sandbox) -> None:
    with pytest.raises(UsageError):
        sandbox.start(files={"../outside": "x"})
    with sandbox.start() as session:
        assert session.run("1").return_value == 1


def test_tools_of_a_session_are_there_after_a_kill(sandbox: Sandbox) -> None:
    with sandbox.start(tools={"own": lambda: 2}) as session:
        assert session.run("import os; os._exit(1)").state == "restarted"
        assert session.run("own()").return_value == 2


async def _async_members(sandbox: Sandbox) -> list[Any]:
    async with await sandbox.aio.start(tools={"own": lambda: 2}, files={"a": "1"}) as session:
        await session.define("def helper(): return 3")
        await session.run("x = 'text'")
        found = [(await session.run("own() + helper()")).return_value, await session.describe(), session.births]
        await session.run("import os; os._exit(1)")
        return [*found, session.births, await session.describe(3)]


def test_the_async_face_has_the_same_members(sandbox: Sandbox) -> None:
    assert asyncio.run(_async_members(sandbox)) == [5, {"x": "'text'"}, 1, 2, {}]


def test_what_is_defined_is_at_hand_and_no_variable(session: Session) -> None:
    session.define("import json\nfrom math import pi\ndef helper(n):\n    '''Helps.'''\n    return json.dumps(n)")
    assert session.run("helper([1]), helper.__doc__, helper.__module__").return_value == ["[1]", "Helps.", "tools"]
    assert session.run("__name__").return_value == "__main__"
    assert set(session.variables()) == {"pi"}, "only functions and modules are furniture"


def test_lines_of_what_is_defined_are_in_no_traceback(session: Session) -> None:
    session.define("def helper():\n    raise ValueError('inside')")
    result = session.run("helper()")
    assert result.exception is not None
    assert result.exception.message == "inside"
    assert "helper()" in result.exception.traceback
    assert "definitions" not in result.exception.traceback


def test_definitions_that_fail_are_an_error_with_their_reason(session: Session) -> None:
    for code, reason in (
        ("1 / 0", "ZeroDivisionError"),
        ("def", "SyntaxError"),
        ("import no_such_thing", "no_such_thing"),
    ):
        with pytest.raises(SandboxError, match=reason):
            session.define(code)
    assert session.run("__name__").return_value == "__main__"


@pytest.mark.parametrize("code", [None, 5, b"1"], ids=repr)
def test_definitions_are_text(session: Session, code: Any) -> None:
    with pytest.raises(UsageError):
        session.define(code)


def test_definitions_are_lost_with_their_interpreter_and_can_be_made_again(session: Session) -> None:
    session.define("def helper(): return 1")
    session.run("import os; os._exit(1)")
    assert not session.run("helper()").success
    session.define("def helper(): return 1")
    assert session.run("helper()").return_value == 1


# What a session tells of itself.


def test_variables_are_described_by_a_repr_of_bounded_length(session: Session) -> None:
    session.run("import os\nn, text, many, _hidden = 1, 'x' * 1000, [0] * 10**6, 2\ndef f(): pass")
    found = session.describe(50)
    assert set(found) == {"n", "text", "many", "f"}
    assert found["n"] == "1"
    assert all(len(text) < 120 for text in found.values())
    assert len(session.describe()["text"]) < 600


@pytest.mark.parametrize("longest", [0, -1, 1.5, True, None, 1 << 40], ids=repr)
def test_the_length_of_a_description_is_a_number_within_bounds(session: Session, longest: Any) -> None:
    with pytest.raises(UsageError) as caught:
        session.describe(longest)
    assert caught.value.hint


@pytest.mark.parametrize("kind", ["ValueError", "KeyboardInterrupt", "MemoryError", "SystemExit", "RecursionError"])
def test_a_repr_that_raises_is_described_and_the_others_are_too(session: Session, kind: str) -> None:
    session.run(f"class Bad:\n    def __repr__(self): raise {kind}\nbad, good = Bad(), 1")
    found = session.describe()
    assert found["bad"] == f"<Bad whose repr raises {kind}>"
    assert found["good"] == "1"


def test_more_variables_than_fit_are_cut_off(session: Session) -> None:
    session.run("for n in range(100_000): globals()[f'name_{n}'] = 'x' * 100")
    assert 1000 < len(session.describe()) < 100_000
    assert 1000 < len(session.variables()) <= 100_000
    assert session.run("name_99999[:1]").return_value == "x"


def test_a_hostile_class_or_name_does_not_keep_variables_from_being_told(session: Session) -> None:
    session.run(
        "class Bad:\n    @property\n    def __class__(self): raise ValueError\n"
        "class Name(str):\n    def startswith(self, *_): raise SystemExit\n    __hash__ = str.__hash__\n"
        "bad, good = Bad(), 1\nglobals()[Name('odd')] = 1\nglobals()[5] = 1"
    )
    assert session.variables()["good"] == "int"
    assert session.variables()["bad"] == "Bad"


def test_a_repr_that_does_not_end_is_stopped_and_the_session_lives(make: Make) -> None:
    with make(limits=Limits(wall=0.3)).start() as session:
        session.run("class Slow:\n    def __repr__(self):\n        while True: pass\nslow, kept = Slow(), 1")
        with pytest.raises(SandboxError):
            session.describe()
        assert session.run("kept").return_value == 1


def test_births_count_interpreters(session: Session) -> None:
    assert session.births == 1
    session.run("1 / 0")
    session.run("exit(3)")
    assert session.births == 1
    for count in (2, 3):
        assert session.run("import os; os._exit(1)").state == "restarted"
        assert session.births == count
    session.run("class Bad:\n    def __repr__(self):\n        import os\n        os._exit(1)\nbad = Bad()")
    with pytest.raises(SandboxError):
        session.describe()
    assert session.births == 4


def test_a_run_that_is_undone_is_no_birth(forking: Sandbox) -> None:
    with Sandbox(isolation="namespace", after_kill="rollback") as sandbox, sandbox.start() as session:
        assert session.run("import os; os._exit(1)").state == "rolled_back"
        assert session.births == 1


# Long texts, and long arguments.


@pytest.mark.parametrize("text", ["x" * 65_535, "x" * 65_536, "ü€😀" * 500_000, "\ud800" * 70_000, "\0" * 70_000])
def test_a_text_of_any_length_and_kind_can_be_set(session: Session, text: str) -> None:
    session.set("text", text)
    found = session.run("len(text), hash(text[:3]) == hash(text[-3:]), type(text) is str").return_value
    assert found is not None
    assert found[0] == len(text)
    assert found[2] is True
    session.set("text", "short")
    assert session.get("text") == "short"


def test_a_text_that_does_not_fit_into_memory_is_refused_and_the_session_lives(make: Make, way: str) -> None:
    if way not in HOLDS:
        pytest.skip("memory is not bounded")
    with make(limits=Limits(memory_bytes=128 * MIB)).start() as session:
        with pytest.raises(SandboxError):
            session.set("text", "x" * (200 * MIB))
        assert session.run("1").return_value == 1


def test_no_descriptor_is_left_by_long_texts(session: Session) -> None:
    count = "import os\nlen(os.listdir('/dev/fd'))"
    before = session.run(count).return_value
    for _ in range(5):
        session.set("text", "x" * 100_000)
    assert session.run(count).return_value == before


def test_a_long_text_whose_setting_is_cancelled_leaves_nothing_behind(session: Session) -> None:
    async def cancel() -> None:
        for delay in range(8):
            task = asyncio.create_task(session.aio.set("text", "é" * 1_000_000))
            for _ in range(delay):
                await asyncio.sleep(0)
            task.cancel()
            with suppress(asyncio.CancelledError, SandboxError):
                await task

    count = "import os\nlen(os.listdir('/dev/fd'))"
    before = session.run(count).return_value
    asyncio.run(cancel())
    session.set("text", "y" * 100_000)
    assert session.run("text[0], len(text)").return_value == ["y", 100_000]
    assert session.run(count).return_value == before


def test_a_session_can_be_forked_after_a_long_text_was_cancelled(forking: Sandbox) -> None:
    async def cancel(session: Session) -> None:
        task = asyncio.create_task(session.aio.set("text", "é" * 1_000_000))
        await asyncio.sleep(0)
        task.cancel()
        with suppress(asyncio.CancelledError, SandboxError):
            await task

    with forking.start() as session:
        asyncio.run(cancel(session))
        with session.fork() as twin:
            assert twin.run("1").return_value == 1


def test_arguments_of_a_tool_that_are_too_long_are_refused_inside(make: Make) -> None:
    calls: list[int] = []

    def measure(text: str) -> int:
        calls.append(len(text))
        return len(text)

    with make(tools={"measure": measure}).start() as session:
        result = session.run("measure('x' * 10_000_000)")
        assert result.exception is not None
        assert result.exception.type == "ValueError"
        assert "the most" in result.exception.message
        assert not calls
        assert session.run("measure('x' * 1_000_000)").return_value == 1_000_000
        assert session.run("measure('\\ud800' * 10)").return_value == 10


# Tools of forks.


def test_a_fork_has_tools_of_its_own_under_the_names_it_knows(forking: Sandbox) -> None:
    with forking.start(tools={"who": lambda: "original", "same": lambda: 1}) as session:
        with session.fork(tools={"who": lambda: "fork"}) as twin, twin.fork() as third:
            assert session.run("who(), same()").return_value == ["original", 1]
            assert twin.run("who(), same()").return_value == ["fork", 1]
            assert third.run("who(), same()").return_value == ["fork", 1]
            assert third.run("import os; os._exit(1)").state == "restarted"
            assert third.run("who()").return_value == "fork"
        assert session.run("who()").return_value == "original"


def test_a_snapshot_is_started_with_tools_of_ones_own(forking: Sandbox) -> None:
    with (
        forking.start(tools={"who": lambda: "original"}) as session,
        session.snapshot() as snapshot,
        snapshot.start(tools={"who": lambda: "first"}) as first,
        snapshot.start() as second,
    ):
        assert [each.run("who()").return_value for each in (first, second)] == ["first", "original"]


@pytest.mark.parametrize("tools", [{"stranger": len}, {"who": 5}], ids=str)
def test_a_fork_knows_no_tool_that_its_original_did_not(forking: Sandbox, tools: Any) -> None:
    with forking.start(tools={"who": lambda: "original"}) as session, session.snapshot() as snapshot:
        for fork in (session.fork, snapshot.start):
            with pytest.raises(UsageError):
                fork(tools=tools)
        assert session.run("who()").return_value == "original"


def test_a_fork_counts_its_births_from_those_of_its_original(forking: Sandbox) -> None:
    with forking.start() as session:
        session.run("import os; os._exit(1)")
        with session.fork() as twin:
            assert twin.births == 2
            twin.run("import os; os._exit(1)")
            assert (twin.births, session.births) == (3, 2)


def test_an_async_fork_has_tools_of_its_own(forking: Sandbox) -> None:
    async def play() -> list[Any]:
        async with (
            await forking.aio.start(tools={"who": lambda: "original"}) as session,
            await session.fork(tools={"who": lambda: "fork"}) as twin,
            await session.snapshot() as snapshot,
            await snapshot.start(tools={"who": lambda: "start"}) as third,
        ):
            return [(await each.run("who()")).return_value for each in (session, twin, third)]

    assert asyncio.run(play()) == ["original", "fork", "start"]


def test_a_module_that_fails_is_no_reason_to_do_with_less_isolation(forking: Sandbox) -> None:
    with Sandbox(preload=["no_such_module_here"]) as sandbox, pytest.raises(SandboxError) as caught:
        sandbox.start()
    assert "no_such_module_here" in caught.value.message
    assert not isinstance(caught.value, IsolationError)


def test_a_whole_number_of_any_size_is_told(session: Session) -> None:
    for power in (30, 5000):
        assert str(session.run(f"10 ** {power}").return_value) == "1" + "0" * power
    session.run("big = [10 ** 5000]")
    assert session.get("big") == "[1" + "0" * 5000 + "]"


def test_nobody_answers_input(session: Session) -> None:
    assert session.run("input('name? ')").exception.type == "EOFError"
    assert session.run("import sys\nsys.stdin.read()").return_value == ""


def test_so_many_variables_are_described_and_no_more(session: Session) -> None:
    session.run("globals().update({f'name_{n}': n for n in range(100_000)})")
    assert session.describe(most=2) == {"name_0": "0", "name_1": "1"}
    with pytest.raises(UsageError, match="most is -1"):
        session.describe(most=-1)


# A run, and what it leaves.


def test_a_run_and_what_it_leaves_come_together(session: Session) -> None:
    result, found = session.run_and_inspect("import os\nn, text, _hidden = 1, 'x' * 1000, 2\nprint('said')\nn + 1")
    assert (result.stdout, result.return_value, result.state) == ("said\n", 2, "kept")
    assert found is not None
    assert (found.variables["n"], set(found.variables), found.values) == ("1", {"n", "text"}, {})
    result, found = session.run_and_inspect("pair = [n, {}]\n1 / 0", names=["pair", "missing"], longest=5, most=1)
    assert result.exception is not None
    assert result.exception.type == "ZeroDivisionError"
    assert found is not None
    assert (found.variables, found.values) == ({"n": "1"}, {"pair": [1, {}]})


@pytest.mark.parametrize("wrong", [{"longest": 0}, {"most": -1}, {"names": ["a b"]}, {"names": [5]}], ids=str)
def test_a_look_that_cannot_be_had_is_refused_before_the_run(session: Session, wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        session.run_and_inspect("x = 1", **wrong)
    assert session.variables() == {}


@pytest.mark.parametrize("name", ["shown", "other"], ids=["asked for", "described"])
@pytest.mark.parametrize(
    "body", ["import os; os._exit(0)", "import os; os.kill(os.getpid(), 9)", DEAF], ids=["exits", "dies", "is deaf"]
)
def test_a_repr_that_ends_the_process_does_not_lose_the_result_of_the_run(make: Make, name: str, body: str) -> None:
    hostile = f"class Bad:\n    def __repr__(self):\n{textwrap.indent(body.strip(), ' ' * 8)}\n{name} = Bad()"
    with make(limits=Limits(wall=0.5)).start() as session:
        result, found = session.run_and_inspect(f"print('said')\n{hostile}\n5", names=["shown"])
        assert (result.success, result.stdout, result.return_value) == (True, "said\n", 5)
        assert (result.limit, result.state, found, session.births) == (None, "restarted", None, 2)
        assert session.run_and_inspect("1", names=["shown"])[1] is not None


def test_a_repr_that_does_not_end_is_stopped_and_the_names_are_told(make: Make) -> None:
    slow = f"class Slow:\n    def __repr__(self):\n{textwrap.indent(ENDLESS, ' ' * 8)}\nslow = Slow()"
    with make(limits=Limits(grace=10)).start() as session:
        result, found = session.run_and_inspect(f"kept = 1\n{slow}", 0.5, names=["kept"])
        assert (result.success, result.limit, result.state) == (True, None, "kept")
        assert found is not None
        assert (found.variables, found.values) == ({"kept": "int", "Slow": "type", "slow": "Slow"}, {"kept": 1})
        assert session.run("kept").return_value == 1


def test_a_run_at_its_limit_is_looked_at_all_the_same(make: Make) -> None:
    with make(limits=Limits(grace=10)).start() as session:
        result, found = session.run_and_inspect(f"kept = 1\n{ENDLESS}", 0.5)
        assert result.limit is not None
        assert (result.limit.name, result.state) == ("wall", "kept")
        assert found is not None
        assert found.variables == {"kept": "1"}


@pytest.mark.parametrize("kind", ["ValueError", "KeyboardInterrupt", "MemoryError", "SystemExit", "RecursionError"])
def test_a_repr_that_raises_is_told_after_a_run_too(session: Session, kind: str) -> None:
    bad = f"class Bad:\n    def __repr__(self): raise {kind}\nbad, good = Bad(), 1"
    result, found = session.run_and_inspect(bad, names=["bad", "good"])
    assert (result.success, result.state) == (True, "kept")
    assert found is not None
    assert (found.variables["bad"], found.variables["good"]) == (f"<Bad whose repr raises {kind}>", "1")
    assert found.values["good"] == 1


def test_a_repr_after_a_run_calls_no_tools_and_prints_nothing(make: Make) -> None:
    called: list[str] = []
    with make(tools={"ask": called.append}).start() as session:
        loud = "class Loud:\n    def __repr__(self):\n        print('loud')\n        ask('me')\n        return 'x'"
        result, found = session.run_and_inspect(f"{loud}\nloud = Loud()\nprint('before')\nask('run')", names=["loud"])
        assert (result.stdout, called) == ("before\n", ["run"])
        assert found is not None
        assert found.variables["loud"] == "<Loud whose repr raises NameError>"
        assert session.run("print('after'); ask('again')").stdout == "after\n"
        assert called == ["run", "again"]


def test_what_a_repr_writes_after_a_run_is_not_output_of_the_next_one(session: Session) -> None:
    session.run("import os\nclass Loud:\n    def __repr__(self): return str(os.write(1, b'loud'))\nloud = Loud()")
    for number in range(20):
        session.run_and_inspect("1")
        assert session.run(f"print({number})").stdout == f"{number}\n"


@pytest.mark.parametrize("place", ["run", "repr"])
def test_a_run_and_a_look_that_are_cancelled_leave_the_session_usable(make: Make, place: str) -> None:
    slow = f"class Slow:\n    def __repr__(self):\n{textwrap.indent(ENDLESS, ' ' * 8)}\nslow = Slow()\n"

    async def use() -> None:
        async with started(make(limits=Limits(grace=10))) as session:
            await session.run("x = 1")
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(session.run_and_inspect(slow + (ENDLESS if place == "run" else "")), 0.5)
            result = await session.run("x + 1")
            assert (result.return_value, result.limit) == (2, None), "it did not wait for the repr"

    asyncio.run(use())


def test_a_repr_that_ends_the_process_undoes_the_run_where_that_is_the_policy(forking: Sandbox) -> None:
    with Sandbox(isolation="namespace", after_kill="rollback") as sandbox, sandbox.start() as session:
        session.run("x = 1")
        bad = "class Bad:\n    def __repr__(self):\n        import os\n        os._exit(1)\nx = Bad()\n5"
        result, found = session.run_and_inspect(bad)
        assert (result.return_value, result.state, found) == (5, "rolled_back", None)
        assert session.run("x").return_value == 1
