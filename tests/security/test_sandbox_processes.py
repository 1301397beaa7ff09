"""Exits, signals, crashes, children and threads, and a timeout that is not welcome."""
# ruff: noqa: E501  (an attack is one line, however long)

import os
import signal
import time
from pathlib import Path

import pytest

from envweave.errors import EnvWeaveError
from envweave.sandbox import ExecutionResult, Limits, Sandbox


@pytest.mark.parametrize(
    ("code", "exit_code"),
    [
        ("os._exit(0)", 0),
        ("os._exit(7)", 7),
        ("os.abort()", -signal.SIGABRT),
        ("ctypes.string_at(0)", -signal.SIGSEGV),
        ("os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL),
        ("os.kill(os.getpid(), signal.SIGTERM)", -signal.SIGTERM),
        ("os.killpg(0, signal.SIGKILL)", -signal.SIGKILL),
        ("signal.raise_signal(signal.SIGSYS)", -signal.SIGSYS),
        ("threading.Thread(target=os._exit, args=(9,)).start(); time.sleep(60)", 9),
        ("os.execv('/bin/true', ['true'])", 0),
        ("os.execv('/bin/false', ['false'])", 1),
    ],
)
def test_code_that_ends_its_process_is_a_result_and_the_session_goes_on(session, code, exit_code):
    session.write_file("kept", b"x")
    result = session.run(code, timeout=30)
    assert not result.success
    assert (result.exit_code, result.state) == (exit_code, "restarted")
    assert session.run("1 + 1").return_value == 2
    assert session.read_file("kept") == b"x"


@pytest.mark.parametrize(
    ("code", "exit_code"),
    [("sys.exit(3)", 3), ("sys.exit()", 0), ("raise SystemExit('why')", 1), ("sys.exit(2**70)", 0)],
)
def test_sys_exit_ends_the_run_only(session, code, exit_code):
    result = session.run(f"x = 5\n{code}")
    assert (result.exit_code, result.state) == (exit_code, "kept")
    assert session.run("x").return_value == 5


def test_code_that_stops_itself_is_killed_at_the_time_limit(session):
    result = session.run("os.kill(os.getpid(), signal.SIGSTOP)", timeout=0.5)
    assert result.limit.name == "wall"
    assert session.run("1").return_value == 1


def test_no_signal_reaches_the_first_process(session, value):
    value(session, "x = 5")
    value(session, "for number in range(1, 65): attempt(os.kill, 1, number)")
    assert session.read_file is not None
    session.write_file("still", b"served")
    assert value(session, "x, open('still').read()") == [5, "served"]


def test_everybody_at_once_cannot_be_signalled(session, value):
    assert value(session, "attempt(os.kill, -1, signal.SIGKILL)") == "EPERM"


@pytest.mark.parametrize(
    "swallow",
    [
        "def go():\n while True:\n  try:\n   while True: time.sleep(0.01)\n  except BaseException: pass\ngo()",
        "signal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: time.sleep(0.01)",
        "signal.signal(signal.SIGINT, lambda *_: None)\nwhile True: pass",
        "signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())\nwhile True: pass",
        "class Stubborn:\n def __del__(self):\n  while True: time.sleep(1)\nx = Stubborn()\ndel x",
        "sum(range(10**15))",
        "import re; re.match(r'(a+)+$', 'a' * 60 + 'b')",
        "threading.Lock().acquire() or (l := threading.Lock()).acquire()\nwhile True:\n try: l.acquire()\n except BaseException: pass",
        "import sys\nsys.settrace(lambda *_: time.sleep(60))\nf = lambda: 1\nf()",
        "try:\n time.sleep(60)\nfinally:\n while True:\n  try: time.sleep(60)\n  except BaseException: pass",
        "async def go():\n while True:\n  try: await asyncio.sleep(1)\n  except BaseException: pass\nimport asyncio\nawait go()",
        "subprocess.run(['/bin/sh', '-c', 'trap \"\" INT; while :; do :; done'])",
    ],
)
def test_code_that_does_not_want_to_stop_is_stopped_and_the_session_goes_on(session, swallow):
    result = session.run(swallow, timeout=0.3)
    assert result.limit.name == "wall"
    assert session.run("1 + 1", timeout=30).return_value == 2


def test_code_that_takes_the_interrupt_keeps_its_session(make):
    session = make(limits=Limits(grace=10))
    session.run("x = 5")
    result = session.run("while True: time.sleep(0.01)", timeout=0.3)
    assert (result.state, result.limit.name) == ("kept", "wall")
    assert session.run("x").return_value == 5


def test_a_stuck_step_takes_no_variables_with_it_where_runs_are_transactions(make):
    session = make(after_kill="rollback")
    session.run("x = 5")
    result = session.run("x = 6\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass", timeout=0.3)
    assert result.state == "rolled_back"
    assert session.run("x").return_value == 5


def test_a_session_that_ends_with_a_kill_says_so(make):
    session = make(after_kill="end")
    assert session.run("os._exit(1)").state == "ended"
    with pytest.raises(EnvWeaveError):
        session.run("1")


@pytest.mark.parametrize(
    "daemon",
    [
        "subprocess.Popen([MARKER, '600'], executable='/bin/sleep')",
        "subprocess.Popen([MARKER, '600'], executable='/bin/sleep', start_new_session=True)",
        "subprocess.run(['/bin/sh', '-c', 'setsid nohup /bin/sleep 600.0 ' + MARKER + ' & exec >/dev/null'])\n"
        "subprocess.Popen([MARKER, '600'], executable='/bin/sleep', start_new_session=True)",
        "subprocess.Popen([MARKER, '600'], executable='/bin/sleep', preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65)))",
        "subprocess.Popen([MARKER, '600'], executable='/bin/sleep', preexec_fn=lambda: call('unshare', 0x48020000))",
    ],
    ids=["child", "daemon", "orphan", "deaf", "apart"],
)
def test_no_process_outlives_its_session(sandbox, arm, marker, marked, eventually, daemon):
    session = arm(sandbox.start())
    session.set("MARKER", marker)
    assert session.run(daemon).success
    assert eventually(lambda: marked(marker))
    session.close()
    assert not marked(marker)


def test_a_fork_bomb_ends_with_its_session(sandbox, arm, marker, marked):
    session = arm(sandbox.start())
    result = session.run("while True:\n try: os.fork()\n except OSError: pass", timeout=0.5)
    assert isinstance(result, ExecutionResult)
    assert not result.success
    assert session.run("1 + 1", timeout=30).return_value == 2
    assert arm(session).run("strangers()").return_value == []
    session.close()


def test_processes_are_as_many_as_the_limit_says(make, value):
    session = make(limits=Limits(processes=16))
    result = session.run("""
children = []
for _ in range(200):
    child = os.fork()
    if not child:
        time.sleep(600)
    children.append(child)
""")
    assert result.limit.name == "processes"
    assert value(session, "len(children)") <= 16


def test_threads_are_as_many_as_the_limit_says(make, value):
    session = make(limits=Limits(processes=16))
    result = session.run("""
threads = []
for _ in range(200):
    threads.append(threading.Thread(target=time.sleep, args=(600,), daemon=True))
    threads[-1].start()
""")
    assert result.limit.name == "processes"
    assert value(session, "threading.active_count()") <= 17


def test_a_worker_is_no_root_of_the_host(session, marker, marked, value, eventually):
    session.set("MARKER", marker)
    value(session, "child = subprocess.Popen([MARKER, '600'], executable='/bin/sleep')\nNone")
    assert eventually(lambda: marked(marker))
    (pid,) = marked(marker)
    status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    assert "0" not in (status["Uid"] + status["Gid"]).split()
    assert not status["Groups"].split()


def test_a_worker_killed_by_its_child_at_any_moment_is_a_result(sandbox, session, marker, eventually):
    for delay in (0.0, 0.001, 0.003, 0.01, 0.03):
        session.set("MARKER", marker[-12:])
        session.set("delay", delay)
        result = session.run(
            """
ctypes.CDLL(None).prctl(15, MARKER.encode())
os.fork() or (time.sleep(delay), os.kill(os.getppid(), signal.SIGKILL), os._exit(0))
for _ in range(200): print('x' * 1000, flush=True); time.sleep(0.001)
time.sleep(60)
"""
            if delay
            else "os.kill(os.getpid(), 9)",
            timeout=30,
        )
        assert isinstance(result, ExecutionResult)
        assert session.run("1", timeout=30).return_value == 1
        session.run("import os, signal, time, ctypes")


def _first_process_of(marked, marker, eventually):
    assert eventually(lambda: marked(marker))  # a process that has just begun has no command line for a moment
    (pid,) = marked(marker)
    return int(
        next(
            line.split()[1] for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("PPid")
        )
    )


def test_a_supervisor_that_is_gone_is_told_and_nothing_hangs(sandbox, arm, marker, marked, eventually):
    session = arm(sandbox.start())
    session.set("MARKER", marker)
    session.run("subprocess.Popen([MARKER, '600'], executable='/bin/sleep')\nNone")
    worker = _first_process_of(marked, marker, eventually)
    supervisor = int(Path(f"/proc/{worker}/stat").read_text().rpartition(")")[2].split()[1])
    os.kill(supervisor, signal.SIGKILL)
    for ask in (lambda: session.run("1", timeout=5), lambda: session.read_file("x"), session.fork, session.variables):
        try:
            assert not ask().success
        except EnvWeaveError:
            pass
    session.close()
    assert not marked(marker)


def test_a_fork_server_that_is_gone_is_told_and_nothing_hangs(marker, marked, eventually, sandbox):
    with Sandbox(preload=["colorsys"]) as mine:  # a fork-server of its own
        session = mine.start()
        started = session.run(
            f"import subprocess; subprocess.Popen(['{marker}', '600'], executable='/bin/sleep')\nNone"
        )
        assert started.success, started.exception
        assert eventually(lambda: marked(marker))
        pid = _first_process_of(marked, marker, eventually)
        for _ in range(2):
            pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        os.kill(pid, signal.SIGKILL)
        assert eventually(lambda: not marked(marker))
        for ask in (lambda: session.run("1", timeout=5), session.list_files, mine.start):
            try:
                assert not getattr(ask(), "success", False)
            except EnvWeaveError:
                pass
        session.close()
    with Sandbox(preload=["colorsys"]) as again, again.start() as session:
        assert session.run("2").return_value == 2


def test_closing_does_not_wait_for_exit_handlers_and_finalizers(sandbox, arm):
    session = arm(sandbox.start())
    session.run("""
import atexit, weakref
atexit.register(time.sleep, 600)
class Last:
    def __del__(self): time.sleep(600)
last = Last(); weakref.finalize(last, time.sleep, 600)
signal.signal(signal.SIGTERM, signal.SIG_IGN)
""")
    began = time.monotonic()
    session.close()
    assert time.monotonic() - began < 30


def test_interrupting_children_of_the_code_reaches_programs_too(make, value):
    session = make(limits=Limits(grace=10))
    result = session.run("subprocess.run(['/bin/sleep', '600'])", timeout=0.3)
    assert result.limit.name == "wall"
    assert value(session, "len(strangers())") == 0


def test_many_zombies_do_not_fill_the_session(make, value):
    session = make(limits=Limits(processes=16))
    result = session.run(
        """
for _ in range(100):
    if not os.fork():
        if not os.fork():
            os._exit(0)
        os._exit(0)
    os.wait()
""",
        timeout=60,
    )
    assert result.success, result.exception
