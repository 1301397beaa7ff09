"""Hosts in trouble: what they do to their sandbox, and what it does to them."""

import os
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from envweave.errors import EnvWeaveError, SandboxError, SessionEndedError, UnsupportedError, UsageError
from envweave.sandbox import Limits, Sandbox, Session


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox(limits=Limits(grace=30)) as sandbox:
        yield sandbox


@pytest.fixture
def session(sandbox: Sandbox) -> Iterator[Session]:
    with sandbox.start() as session:
        yield session


def groups_of(pid: int) -> list[Path]:
    return [path for path in Path("/sys/fs/cgroup").glob("*/**/envweave-*") if path.name.split("-")[2] == str(pid)]


def host(code: str, **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, **options)  # type: ignore[call-overload,no-any-return]


def test_ctrl_c_stops_the_run_and_keeps_the_session() -> None:
    tools = {"strike": lambda: os.kill(os.getpid(), signal.SIGINT)}
    with Sandbox(limits=Limits(grace=30), tools=tools) as sandbox, sandbox.start() as session:
        session.run("x = 5")
        with pytest.raises(KeyboardInterrupt):
            session.run("strike()\nwhile True: pass")
        assert session.run("x").return_value == 5


def test_ctrl_c_at_any_moment_breaks_nothing() -> None:
    done = host("""
import os, random, signal, threading, time
from envweave.sandbox import Limits, Sandbox
with Sandbox(limits=Limits(grace=30)) as sandbox:
    session, dice, interrupted = sandbox.start(), random.Random(1), 0
    session.run("x = 5")
    for number in range(60):
        timer = threading.Timer(dice.random() * 0.02, os.kill, (os.getpid(), signal.SIGINT))
        try:
            timer.start()
            while True:
                session.run("y = 1")
                session.write_file("a", b"x" * 100_000)
                session.fork().close()
        except KeyboardInterrupt:
            interrupted += 1
        timer.join()
        assert session.run("x").return_value == 5
    print(interrupted)
""")
    assert (done.stdout, done.stderr) == ("60\n", "")


@pytest.mark.parametrize("last", ["pass", "import os; os.kill(os.getpid(), 15)"])
def test_a_host_that_ends_without_closing_leaves_nothing(last: str) -> None:
    done = host(f"""
import os
from envweave.sandbox import Sandbox
session = Sandbox(pool=1).start()
session.fork()
print(os.getpid(), flush=True)
{last}
""")
    pid = int(done.stdout)
    assert done.stderr == ""
    if last == "pass":
        assert done.returncode == 0
        assert groups_of(pid) == []
    else:  # the next host sweeps
        with Sandbox(preload=("wave",)) as sandbox:
            sandbox.report()
        assert groups_of(pid) == []


def test_a_host_without_standard_streams_has_a_sandbox(tmp_path: Path) -> None:
    code = """
from envweave.sandbox import Sandbox
with Sandbox() as sandbox, sandbox.start() as session:
    open("said", "w").write(str(session.run("1 + 1").return_value))
"""
    command = ["/bin/sh", "-c", 'exec "$0" -c "$1" <&- >&- 2>&-', sys.executable, code]
    subprocess.run(command, cwd=tmp_path, check=True, timeout=60)
    assert (tmp_path / "said").read_text() == "2"


def test_a_forked_copy_of_the_host_has_no_part_in_its_sessions(session: Session) -> None:
    session.run("x = 5")
    child = os.fork()
    if not child:
        try:
            session.run("x = 6")
        except UsageError:
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    assert session.run("x").return_value == 5


def test_a_fork_server_that_is_killed_is_told_and_replaced() -> None:
    with Sandbox(preload=("wave", "chunk")) as sandbox:
        session = sandbox.start()
        os.kill(sandbox.boundary().server._process.pid, signal.SIGKILL)  # type: ignore[attr-defined]
        ended = False
        while not ended:  # it takes a moment to die
            try:
                session.run("1")
            except SessionEndedError:
                ended = True
        with sandbox.start() as another:
            assert another.run("1").return_value == 1


def test_a_sandbox_that_is_closed_under_use_ends_all_and_raises_only_what_is_ours() -> None:
    wrong: list[BaseException] = []
    before, groups = len(os.listdir("/proc/self/fd")), set(groups_of(os.getpid()))
    for _ in range(5):
        sandbox = Sandbox(tools={"tool": lambda: 1})
        begun = threading.Barrier(5, timeout=60)

        def use(sandbox: Sandbox = sandbox, begun: threading.Barrier = begun) -> None:
            try:
                session = sandbox.start()
                begun.wait()
                while True:
                    session.run("tool()")
                    session.fork()
                    sandbox.start()
            except EnvWeaveError:
                pass
            except BaseException as error:
                wrong.append(error)

        threads = [threading.Thread(target=use) for _ in range(4)]
        for thread in threads:
            thread.start()
        begun.wait()
        sandbox.close()
        for thread in threads:
            thread.join()
    assert wrong == []
    assert len(os.listdir("/proc/self/fd")) == before
    assert set(groups_of(os.getpid())) <= groups


def test_too_few_descriptors_are_an_error_with_a_name_and_cost_none() -> None:
    with Sandbox() as sandbox, sandbox.start() as session:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        before = len(os.listdir("/proc/self/fd"))
        try:
            for free in range(1, 14, 3):
                resource.setrlimit(resource.RLIMIT_NOFILE, (before + free, hard))
                for call in (sandbox.start, session.fork):
                    try:
                        call().close()
                    except SandboxError:
                        pass
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        assert len(os.listdir("/proc/self/fd")) == before
        assert session.run("1").return_value == 1


def test_a_snapshot_of_another_sandbox_is_refused(session: Session) -> None:
    refused = pytest.raises(UsageError, match="another sandbox")
    with Sandbox() as another, another.start() as stranger, stranger.snapshot() as snapshot, refused:
        session.restore(snapshot)


def test_descriptors_that_share_a_place_share_it_in_a_fork(session: Session) -> None:
    session.run("import os\nf = os.open('a', os.O_RDWR | os.O_CREAT)\ng = os.dup(f)\nos.write(f, b'one')\nNone")
    with session.fork() as fork:
        fork.run("os.write(g, b'two')\nos.write(f, b'three')\nNone")
        assert fork.run("open('a').read()").return_value == "onetwothree"
    assert session.run("os.lseek(g, 0, 1), open('a').read()").return_value == [3, "one"]


def test_a_file_that_cannot_be_opened_twice_is_named(session: Session) -> None:
    session.run("import os\nf = open('a', 'w')\nos.chmod('a', 0)\nNone")
    with pytest.raises(UnsupportedError, match="cannot be opened a second time"):
        session.fork()


def test_a_write_that_fails_leaves_what_was_there(session: Session) -> None:
    session.write_file("a", "old")
    session.run("open('filler', 'wb').write(b'x' * (60 << 20))")
    with pytest.raises(UsageError, match="No space"):
        session.write_file("a", b"x" * (10 << 20))
    assert session.read_file("a") == b"old"
    assert sorted(session.list_files()) == ["a", "filler"]


def test_an_exception_class_that_interrupts_its_own_report_is_answered(session: Session) -> None:
    result = session.run("""
class M(type):
    @property
    def __name__(cls): raise KeyboardInterrupt
class E(Exception, metaclass=M): pass
raise E
""")
    assert result.exception is not None
    assert (result.exception.type, result.state) == ("E", "kept")


def test_a_measure_of_one_run_is_not_held_against_the_next() -> None:
    with Sandbox(limits=Limits(cpu=1.0, grace=30)) as sandbox, sandbox.start() as session:
        for _ in range(12):
            assert session.run(
                "import time\nend = time.process_time() + 0.15\nwhile time.process_time() < end: pass"
            ).success
