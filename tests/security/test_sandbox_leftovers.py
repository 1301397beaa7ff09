"""After all of it: nothing of ours is left, however a host has ended. And all of it without being root."""
# ruff: noqa: E501  (an attack is one line, however long)

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from support.need import need

SRC = Path(__file__).parents[2] / "src"

BUSY = """
import gc, json, os, sys, tempfile, threading
from fnmatch import fnmatch
from pathlib import Path
from envweave.errors import EnvWeaveError
from envweave.sandbox import Limits, Sandbox

marker = sys.argv[1]

def descriptors():
    gc.collect()
    return len(os.listdir("/proc/self/fd"))

def mounts():
    # those that could be ours: others come and go on this machine
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    return sorted(line for line in lines if "agent" in line or "envweave" in line or " /tmp " in line or " proc proc " in line)

def folders():
    # Not rglob, which fails if somebody else's group goes away meanwhile.
    groups = [str(Path(top, name)) for top, names, _ in os.walk("/sys/fs/cgroup") for name in names if fnmatch(name, f"envweave-*-{os.getpid()}-*")]
    return groups + [str(each) for each in Path(tempfile.gettempdir()).glob(f"envweave-*-{os.getpid()}-*")]

seen = set()

def busy(sandbox):
    one, two = sandbox.start(), sandbox.start()
    seen.update(folders())
    for each in (one, two):
        each.run(f"import os, subprocess, signal, time, threading; subprocess.Popen(['{marker}', '600'], executable='/bin/sleep', start_new_session=True)\\nNone")
    with sandbox.start() as three:
        forks = [three.fork() for _ in range(3)]
        snapshot = three.snapshot()
        forks[0].run(f"import os, subprocess; subprocess.Popen(['{marker}', '600'], executable='/bin/sleep')\\nNone")
        forks[1].run("import os; os._exit(1)")
        three.run("import os; os.abort()")
        three.restore(snapshot)
        forks[2].fork().fork()
        forks[0].close()
        snapshot.start().run("1")
    one.run("import os; os.kill(os.getpid(), 9)")
    two.run("while True: pass", timeout=0.2)
    one.run("import threading, time; threading.Thread(target=time.sleep, args=(600,), daemon=True).start()")
    try:
        one.fork()
    except EnvWeaveError:
        pass
    two.run("while True:\\n try: os.fork()\\n except OSError: pass", timeout=0.3)
    two.run("x = bytearray(4 << 30)")
    two.run("import mmap\\nheld = []\\nwhile True: held.append(mmap.mmap(-1, 16 << 20)); held[-1].write(b'x' * (16 << 20))", timeout=20)
    slow = sandbox.start()
    slow.run("import time")
    timer = threading.Timer(0.1, slow.interrupt)
    timer.start()
    slow.run("time.sleep(30)")
    timer.join()
    sandbox.start().run("tool(1)")

def rounds():
    for options in ({}, {"after_kill": "rollback"}, {"pool": 2}, {"forks": True, "limits": Limits(memory_bytes=256 << 20)}):
        with Sandbox(tools={"tool": lambda x: x}, files={"a/b": b"c"}, **options) as sandbox:
            busy(sandbox)

rounds()  # what Python itself opens once and for all is open now
before = descriptors(), mounts(), threading.active_count()
rounds()
after = descriptors(), mounts(), threading.active_count()
children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
print(json.dumps({"descriptors": after[0] - before[0], "mounts": before[1] == after[1], "threads": after[2] - before[2], "children": children, "folders": folders(), "seen": len(seen)}))
"""

HOST = """
import sys, time
from envweave.sandbox import Sandbox
marker = sys.argv[1]
sandbox = Sandbox(pool=2)
sessions = [sandbox.start() for _ in range(3)]
sessions[0].run("x = 1")
sessions += [sessions[0].fork(), sessions[0].fork()]
sessions[0].snapshot()
for each in sessions:
    each.run(f"import subprocess; subprocess.Popen(['{marker}', '600'], executable='/bin/sleep', start_new_session=True)\\nNone")
print("ready", flush=True)
if len(sys.argv) > 2:
    sessions[1].run("while True: pass", timeout=600)
time.sleep(600)
"""


def _environment():
    return {**os.environ, "PYTHONPATH": str(SRC)}


@pytest.fixture(scope="module")
def after_busy(sandbox, tmp_path_factory):
    """What a host that was busy with sandboxes and has closed them all says of itself."""
    marker = f"envweave-busy-{os.getpid()}-{tmp_path_factory.mktemp('m').name}"
    done = subprocess.run(
        [sys.executable, "-c", BUSY, marker], capture_output=True, text=True, timeout=110, env=_environment()
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return {**json.loads(done.stdout), "marker": marker, "stderr": done.stderr}


def test_no_child_is_left_of_a_host_that_has_closed_its_sandboxes(after_busy):
    assert after_busy["children"] == []


def test_no_process_is_left_on_the_machine(after_busy, marked, eventually):
    assert eventually(lambda: not marked(after_busy["marker"]))


def test_no_mount_is_left(after_busy):
    assert after_busy["mounts"]


def test_no_control_group_and_no_temporary_folder_is_left(after_busy):
    assert after_busy["folders"] == []
    if not after_busy["seen"]:
        need("cgroups", "sessions have no control groups here")


def test_no_descriptor_is_left(after_busy):
    assert after_busy["descriptors"] == 0


def test_no_thread_is_left(after_busy):
    assert after_busy["threads"] == 0


def test_no_warning_was_given(after_busy):
    assert after_busy["stderr"] == ""


@pytest.mark.parametrize("mode", ["idle", "running"])
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT], ids=lambda each: each.name)
def test_nothing_is_left_of_a_host_that_is_killed(sandbox, marker, marked, eventually, mode, number):
    arguments = [marker] if mode == "idle" else [marker, "run"]
    with subprocess.Popen(
        [sys.executable, "-c", HOST, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=_environment(),
    ) as host:
        try:
            assert host.stdout.readline() == "ready\n"
            assert eventually(lambda: len([pid for pid in marked(marker) if pid != host.pid]) == 5)
        finally:
            host.send_signal(number)
            host.wait(60)
    assert eventually(lambda: not marked(marker))


def test_a_forked_copy_of_the_host_ends_nothing_of_it(sandbox):
    code = """
import os
from envweave.errors import EnvWeaveError
from envweave.sandbox import Sandbox
sandbox = Sandbox()
session = sandbox.start()
session.run("x = 5")
if not os.fork():
    try:
        session.run("x = 6")
    except EnvWeaveError:
        pass
    session.close(); sandbox.close()
    raise SystemExit
os.wait()
print(session.run("x").return_value)
session.close(); sandbox.close()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, env=_environment())
    assert done.stdout == "5\n", done.stderr


ORDINARY = """
import json, os
from envweave.errors import EnvWeaveError
from envweave.sandbox import Limits, Sandbox
found = {"uid": os.getuid()}
with Sandbox(min_isolation="namespace", limits=Limits(memory_bytes=256 << 20, grace=5)) as sandbox:
    found["isolation"] = sandbox.report().isolation
    session = sandbox.start()
    found["run"] = session.run("x = 5; x + 1").return_value
    found["ids"] = session.run("import os; [os.getuid(), os.geteuid()]").return_value
    with session.fork() as fork:
        found["fork"] = fork.run("x += 1; x").return_value
    found["kept"] = session.run("x").return_value
    found["wall"] = str(session.run("while True: pass", timeout=0.3).limit)
    found["memory"] = session.run("y = bytearray(1 << 30)").limit.name
    found["shared memory"] = session.run("import mmap\\nheld = []\\nwhile True: held.append(mmap.mmap(-1, 16 << 20)); held[-1].write(b'x' * (16 << 20))", timeout=30).limit.name
    found["disk"] = session.run("for n in range(10): open(f'{n}', 'wb').write(bytes(20 << 20))").limit.name
    session.close()
    session = sandbox.start()
    found["processes"] = session.run("import os, time\\nfor _ in range(300):\\n if not os.fork(): time.sleep(600)").limit.name
    found["hidden"] = session.run("import os; [os.path.exists(each) for each in ('/etc/shadow', '/run', '/sys', '/var')]").return_value
    found["network"] = session.run("import socket; socket.socket(socket.AF_INET)").exception.type
    found["mount"] = session.run("import ctypes; ctypes.CDLL(None).mount(b'none', b'/home/agent/work', b'tmpfs', 0, None)").return_value
    found["write"] = session.run("open('/usr/probe', 'w')").exception.type
    found["others"] = session.run("import os; max(map(int, filter(str.isdigit, os.listdir('/proc')))) < 1000").return_value
    found["after kill"] = session.run("import os; os.kill(os.getpid(), 9)").state
    session.write_file("a", b"b")
    found["file"] = session.read_file("a").decode()
found["children"] = open(f"/proc/self/task/{os.getpid()}/children").read().split()
print(json.dumps(found))
"""


def _bare(folder, names):
    return {
        name
        for name in names
        if name in ("site-packages", "test", "__pycache__", "idlelib", "tkinter", "ensurepip", "lib2to3")
    }


def test_an_ordinary_user_has_the_same_walls(sandbox):
    """Without root, in a copy of Python that this user can read."""
    if os.getuid():
        pytest.skip("the other tests are run as an ordinary user already")
    if shutil.which("setpriv") is None:
        pytest.skip("there is no setpriv")
    folder = Path(tempfile.mkdtemp(prefix="ordinary-"))
    try:
        folder.chmod(0o755)
        version = f"python{sys.version_info.major}.{sys.version_info.minor}"
        shutil.copytree(
            Path(sys.base_prefix) / "lib" / version, folder / "python/lib" / version, ignore=_bare, symlinks=True
        )
        for library in (Path(sys.base_prefix) / "lib").glob("libpython*"):
            shutil.copy(library, folder / "python/lib")
        (folder / "python/bin").mkdir()
        shutil.copy(os.path.realpath(sys.executable), folder / "python/bin" / version)
        shutil.copytree(SRC / "envweave", folder / "src/envweave", ignore=shutil.ignore_patterns("__pycache__"))
        for needed in (
            "pydantic",
            "pydantic_core",
            "typing_extensions.py",
            "annotated_types",
            "typing_inspection",
            "msgspec",
        ):
            for place in (
                each for each in map(Path, sys.path) if each.name == "site-packages" and (each / needed).exists()
            ):
                copy = shutil.copytree if (place / needed).is_dir() else shutil.copy
                copy(place / needed, folder / "src" / needed)
                break
        subprocess.run(["chmod", "-R", "a+rX", str(folder)], check=True)
        done = subprocess.run(
            [
                "setpriv",
                "--reuid=12345",
                "--regid=12345",
                "--clear-groups",
                str(folder / "python/bin" / version),
                "-c",
                ORDINARY,
            ],
            capture_output=True,
            text=True,
            timeout=110,
            cwd="/",
            env={
                "PATH": "/usr/bin:/bin",
                "PYTHONPATH": str(folder / "src"),
                "HOME": "/nonexistent",
                "PYTHONDONTWRITEBYTECODE": "1",
            },
        )
    finally:
        shutil.rmtree(folder)
    assert done.returncode == 0, done.stderr[-3000:]
    assert json.loads(done.stdout) == {
        "uid": 12345,
        "isolation": "namespace",
        "run": 6,
        "ids": [1000, 1000],
        "fork": 6,
        "kept": 5,
        "wall": "wall=0.3",
        "memory": "memory_bytes",
        "shared memory": "memory_bytes",
        "disk": "disk_bytes",
        "processes": "processes",
        "hidden": [False] * 4,
        "network": "OSError",
        "mount": -1,
        "write": "OSError",
        "others": True,
        "after kill": "restarted",
        "file": "b",
        "children": [],
    }
