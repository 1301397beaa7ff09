"""What is special to sessions in containers: their walls, what goes wrong with Docker, and what is left behind."""

import asyncio
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from envweave.core import process_identity
from envweave.errors import SandboxError, SessionEndedError, UnavailableError, UnsupportedError
from envweave.sandbox import Limits, Sandbox

MIB = 1 << 20
LABEL = "envweave.kind=sandbox"


@pytest.fixture(scope="module")
def client(docker_engine):
    docker = pytest.importorskip("docker")
    with closing(docker.from_env(version="auto", timeout=60)) as client:
        yield client


@pytest.fixture(scope="module")
def sandbox(python_image):
    with Sandbox("docker", image=python_image) as sandbox:
        yield sandbox


@pytest.fixture(scope="module")
def shared(sandbox):
    """A session for code that leaves nothing behind."""
    with sandbox.start() as session:
        yield session


@contextmanager
def session_with(image, **limits):
    with Sandbox("docker", image=image, limits=Limits(**limits)) as sandbox, sandbox.start() as session:
        yield session


def value(session, code):
    result = session.run(code)
    assert result.success, result
    return result.return_value


def status(session, field):
    code = f"dict(line.split(':', 1) for line in open('/proc/self/status'))[{field!r}].strip()"
    return value(session, code)


def owned(client, pid=None):
    """Containers of a host, dead or alive."""
    labels = [LABEL, f"envweave.owner={pid or os.getpid()}"]
    return {each.name for each in client.containers.list(all=True, filters={"label": labels}, ignore_removed=True)}


def doors(pid=None):
    return [
        path for path in Path(tempfile.gettempdir()).glob("envweave-door-*") if f"-{pid or os.getpid()}-" in path.name
    ]


def eventually(check, seconds=30.0):
    until = time.monotonic() + seconds
    while not (found := check()):
        assert time.monotonic() < until, "it did not happen"
        time.sleep(0.02)
    return found


def container_of(client, session):
    """Docker mounts files of a folder that has the container's ID for its name."""
    mounts = value(session, "open('/proc/self/mountinfo').read()")
    return next(each for each in client.containers.list(filters={"label": LABEL}) if each.id in mounts)


# The walls.


def test_the_code_has_no_network(shared):
    names = value(shared, "sorted(line.split(':')[0].strip() for line in open('/proc/net/dev').readlines()[2:])")
    assert [
        name for name in names if name not in ("lo", "sit0", "tunl0", "ip6tnl0", "gre0", "gretap0", "erspan0")
    ] == []


def test_the_loopback_of_the_host_is_not_reached(shared):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        result = shared.run(f"import socket\nsocket.create_connection(('127.0.0.1', {port}), timeout=5)")
    assert not result.success


@pytest.mark.parametrize(
    "path", ["/x", "/usr/local/lib/x", "/etc/x", "/home/x", "/run/envweave/x", "/var/tmp/x", "/dev/x"]
)
def test_the_root_is_read_only(shared, path):
    result = shared.run(f"open({path!r}, 'w')")
    assert result.exception.type in ("OSError", "PermissionError", "FileNotFoundError")


def test_the_mounts_themselves_are_read_only(shared):
    mounts = dict(line.split()[1:4:2] for line in value(shared, "open('/proc/mounts').read()").splitlines())
    assert mounts["/"].startswith("ro,")
    assert mounts["/run/envweave"].startswith("ro,")


def test_nothing_of_the_host_is_seen(shared, tmp_path):
    (tmp_path / "secret").write_text("told")
    assert value(shared, f"import os; os.path.exists({str(tmp_path)!r})") is False
    assert not shared.run("open('/run/envweave/socket')").success


def test_no_socket_of_the_daemon_is_seen(shared):
    assert value(shared, "import os; [os.path.exists(p) for p in ('/var/run/docker.sock', '/run/docker.sock')]") == [
        False,
        False,
    ]


def test_the_code_runs_as_user_1000(shared):
    assert value(shared, "import os; list(os.getresuid()) + list(os.getresgid()) + os.getgroups()") == [1000] * 7


@pytest.mark.parametrize("kind", ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"])
def test_the_code_has_no_capability(shared, kind):
    assert int(status(shared, kind), 16) == 0


def test_the_code_cannot_gain_privileges(shared):
    assert status(shared, "NoNewPrivs") == "1"


def test_the_code_runs_under_a_filter_of_system_calls(shared):
    assert status(shared, "Seccomp") == "2"
    assert int(status(shared, "Seccomp_filters")) == 2  # Docker's and ours


def test_the_code_cannot_make_namespaces(shared):
    code = "import ctypes\nlibc = ctypes.CDLL(None)\n[libc.unshare(flag) for flag in (0x10000000, 0x20000, 0x40000000)]"
    assert value(shared, code) == [-1, -1, -1]


def test_the_environment_holds_nothing_of_the_host(python_image, monkeypatch):
    monkeypatch.setenv("A_SECRET_OF_THE_HOST", "told")
    with session_with(python_image) as session:
        names = value(session, "import os; sorted(os.environ)")
        raw = value(session, "open('/proc/self/environ').read()")
    assert "A_SECRET_OF_THE_HOST" not in names
    assert "told" not in raw


def test_the_environment_of_the_image_is_not_taken_over(client, python_image):
    with made_image(client, python_image, "ENV A_KEY=of-the-image") as image, session_with(image) as session:
        assert "of-the-image" not in value(session, "import os; open('/proc/self/environ').read() + str(os.environ)")


def test_the_proxy_of_the_host_is_not_told(python_image, monkeypatch, tmp_path):
    config = '{"proxies": {"default": {"httpProxy": "http://user:password@proxy:3128"}}}'
    (tmp_path / "config.json").write_text(config)
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    with session_with(python_image) as session:
        assert "password" not in value(session, "import os; open('/proc/self/environ').read() + str(os.environ)")


def test_a_volume_of_the_image_is_not_writable(client, python_image):
    with made_image(client, python_image, "VOLUME /data") as image, session_with(image) as session:
        assert session.run("open('/data/x', 'w')").exception.type in ("OSError", "PermissionError")
        mounts = dict(line.split()[1:4:2] for line in value(session, "open('/proc/mounts').read()").splitlines())
        assert mounts["/data"].startswith("ro,")


def test_programs_can_be_run_from_the_work_folder(shared):
    code = "import os, subprocess\nopen('it', 'w').write('#!/bin/sh\\necho ran')\nos.chmod('it', 0o755)\n"
    assert value(shared, code + "subprocess.check_output('./it', text=True)") == "ran\n"


@pytest.mark.parametrize("number", ["SIGKILL", "SIGSTOP", "SIGTERM", "SIGINT", "SIGHUP"])
def test_the_code_cannot_end_its_supervisor(shared, number):
    shared.run(f"import os, signal\nos.kill(1, signal.{number})")
    assert value(shared, "1 + 1") == 2
    assert isinstance(shared.list_files(), dict)  # the supervisor's answer


def test_the_code_cannot_look_into_its_supervisor(shared):
    for path in ("/proc/1/mem", "/proc/1/environ", "/proc/1/fd/0", "/proc/1/root/etc/passwd"):
        assert shared.run(f"open({path!r}, 'rb').read(1)").exception.type in ("PermissionError", "OSError"), path


def test_orphans_are_reaped(shared):
    code = """
import os, time
for _ in range(20):
    if os.fork() == 0:
        if os.fork() == 0:
            os._exit(0)
        os._exit(0)
for _ in range(20):
    os.wait()
"""
    assert shared.run(code).success
    dead = "[n for n in os.listdir('/proc') if n.isdigit() and ') Z ' in open(f'/proc/{n}/stat').read()]"
    eventually(lambda: value(shared, f"import os; {dead}") == [])


# Limits.


def test_memory_is_bounded_for_one_process(python_image):
    with session_with(python_image, memory_bytes=128 * MIB) as session:
        result = session.run("x = bytearray(300 << 20)")
        assert result.exception.type == "MemoryError"
        assert value(session, "1 + 1") == 2


def test_memory_is_bounded_for_all_processes_together(python_image):
    code = """
import os, time
for _ in range(8):
    if os.fork() == 0:
        x = bytearray(b"x") * (60 << 20)
        time.sleep(600)
os.waitstatus_to_exitcode(os.wait()[1])
"""
    with session_with(python_image, memory_bytes=128 * MIB, wall=60) as session:
        assert value(session, code) == -signal.SIGKILL


def test_a_session_that_is_killed_for_its_memory_says_so(python_image):
    with session_with(python_image, memory_bytes=64 * MIB) as session:
        result = session.run("import mmap\nx = mmap.mmap(-1, 512 << 20)\nwhile x.write(b'x' * (1 << 20)): pass")
        assert not result.success
        assert result.limit is not None
        assert result.limit.name == "memory_bytes"
        assert result.limit.value == 64 * MIB
        assert result.state == "restarted"
        again = session.run("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)")
        assert again.limit is None  # the kernel's count is not held against the next


def test_processes_and_threads_are_bounded(python_image):
    code = """
import os, time
made = 0
try:
    while made < 200:
        if os.fork() == 0:
            time.sleep(60)
            os._exit(0)
        made += 1
except OSError as error:
    print(error.errno)
made
"""
    with session_with(python_image, processes=10) as session:
        result = session.run(code)
        assert result.return_value == 9
        assert result.stdout == "11\n"


def test_the_work_folder_is_bounded(python_image):
    code = "import os\nwith open('x', 'wb') as f:\n    for _ in range(64): f.write(b'x' * (1 << 20))"
    with session_with(python_image, disk_bytes=8 * MIB) as session:
        result = session.run(code)
        assert result.exception.type == "OSError"
        assert "No space left" in result.exception.message
        assert session.list_files()["x"] <= 8 * MIB


@pytest.mark.parametrize("folder", ["/tmp", "/dev/shm"])
def test_temporary_folders_are_bounded(python_image, folder):
    code = f"with open('{folder}/x', 'wb') as f:\n    for _ in range(64): f.write(b'x' * (1 << 20))"
    with session_with(python_image) as session:
        assert "No space left" in session.run(code).exception.message


def test_the_number_of_files_is_bounded(python_image):
    with session_with(python_image, files=100) as session:
        result = session.run("for i in range(1000): open(str(i), 'w').close()")
        assert "No space left" in result.exception.message


def test_a_session_may_keep_one_processor_busy(client, sandbox):
    with sandbox.start() as session:
        assert container_of(client, session).attrs["HostConfig"]["NanoCpus"] == 1_000_000_000


def test_limits_that_are_not_set_are_not_kept(python_image):
    none = {"memory_bytes": None, "processes": None, "disk_bytes": None, "files": None}
    with session_with(python_image, **none) as session:
        assert value(session, "len(bytearray(600 << 20))") == 600 << 20


# One and another.


def test_two_sessions_do_not_see_each_other(sandbox):
    with sandbox.start() as one, sandbox.start() as other:
        one.run("import os, time, socket\nopen('/tmp/x', 'w').write('1')\nopen('/dev/shm/x', 'w').write('1')")
        one.run("open('x', 'w').write('1')\ns = socket.socket(socket.AF_UNIX); s.bind('\\0x'); s.listen()")
        assert value(other, "import os; [os.path.exists(p) for p in ('x', '/tmp/x', '/dev/shm/x')]") == [False] * 3
        assert not other.run("import socket\nsocket.socket(socket.AF_UNIX).connect('\\0x')").success
        assert value(other, "sorted(int(n) for n in os.listdir('/proc') if n.isdigit())[0]") == 1
        assert len(value(other, "[n for n in os.listdir('/proc') if n.isdigit()]")) == 2


def test_a_session_cannot_be_forked_and_the_reason_is_told(shared):
    with pytest.raises(UnsupportedError, match="container"):
        shared.fork()


def test_modules_are_preloaded(python_image):
    with Sandbox("docker", image=python_image, preload=["decimal"]) as sandbox, sandbox.start() as session:
        assert value(session, "import sys; 'decimal' in sys.modules") is True


def test_the_report_says_which_walls_stand(sandbox):
    report = sandbox.report()
    assert report.isolation == "container"
    off = [layer.name for layer in report.layers if not layer.on]
    assert set(off) <= {"user namespace", "landlock", "memory cgroup", "pids cgroup", "cpu cgroup"}
    assert "an allowlist" in report.layer("seccomp").why


# On a loop.


def test_sessions_work_on_an_event_loop(sandbox):
    async def use():
        async with await sandbox.aio.start() as session:
            return (await session.run("6 * 7")).return_value

    assert asyncio.run(use()) == 42


def test_a_loop_goes_on_while_sessions_start_and_end(sandbox):
    async def use():
        ticks = 0

        async def tick():
            nonlocal ticks
            while True:
                await asyncio.sleep(0.001)
                ticks += 1

        ticking = asyncio.create_task(tick())
        sessions = await asyncio.gather(*(sandbox.aio.start() for _ in range(3)))
        results = await asyncio.gather(*(session.run("6 * 7") for session in sessions))
        await asyncio.gather(*(session.close() for session in sessions))
        ticking.cancel()
        return ticks, [result.return_value for result in results]

    ticks, values = asyncio.run(use())
    assert values == [42] * 3
    assert ticks > 50  # of some hundreds; a dozen if the calls to Docker held it up


def test_a_start_that_is_cancelled_leaves_nothing(client, sandbox):
    before = owned(client)

    async def use():
        starting = asyncio.create_task(sandbox.aio.start())
        while owned(client) == before:
            await asyncio.sleep(0.005)
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting

    sandbox.boundary()
    asyncio.run(use())
    assert owned(client) == before
    assert doors() == []


# What goes wrong.


def test_without_the_package_it_says_how_to_install_it():
    code = """
import sys
sys.modules["docker"] = None
from envweave.sandbox import Sandbox
Sandbox("docker").start()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert "UnavailableError" in done.stderr
    assert "hint: pip install 'envweave[docker]'" in done.stderr


def test_without_a_daemon_it_says_where_it_has_looked(docker_engine, python_image, monkeypatch, tmp_path):
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nobody.sock")
    with (
        Sandbox("docker", image=python_image, preload=["string"]) as sandbox,
        pytest.raises(UnavailableError, match=r"nobody\.sock") as caught,
    ):
        sandbox.start()
    assert "DOCKER_HOST" in caught.value.hint


def test_a_daemon_that_says_nonsense_is_none(docker_engine, monkeypatch, tmp_path):
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"{tmp_path}/d.sock")
        listener.listen()

        def hang_up():
            while True:
                try:
                    listener.accept()[0].close()
                except OSError:
                    return

        thread = threading.Thread(target=hang_up)
        thread.start()
        monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/d.sock")
        try:
            with Sandbox("docker") as sandbox, pytest.raises(UnavailableError, match="no Docker daemon"):
                sandbox.start()
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()


@pytest.mark.parametrize("url", ["tcp://127.0.0.1:2375", "ssh://somebody@somewhere"])
def test_a_daemon_elsewhere_is_refused(docker_engine, monkeypatch, url):
    monkeypatch.setenv("DOCKER_HOST", url)
    with Sandbox("docker") as sandbox, pytest.raises(UnavailableError, match=re.escape(url)) as caught:
        sandbox.start()
    assert "on this machine" in caught.value.hint


def test_without_the_image_it_says_how_to_get_it(docker_engine):
    with Sandbox("docker", image="envweave-no-such:1") as sandbox, pytest.raises(UnavailableError) as caught:
        sandbox.start()
    assert caught.value.hint == "docker pull envweave-no-such:1"


@contextmanager
def made_image(client, base, *changes, command=("python3", "-c", "1")):
    """An image on top of another, which is gone afterwards."""
    name = f"envweave-test-docker-{os.getpid()}"
    container = client.containers.create(base, list(command), network_mode="none")
    try:
        container.commit(name, "1", changes=list(changes) or None)
    finally:
        container.remove(force=True)
    try:
        yield f"{name}:1"
    finally:
        client.images.remove(f"{name}:1", force=True)


def empty_image(client):
    """One without Python, or anything else."""
    import io
    import tarfile

    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as tar:
        member = tarfile.TarInfo("nothing")
        tar.addfile(member, io.BytesIO())
    data.seek(0)
    client.api.import_image_from_data(data.read(), repository="envweave-test-empty", tag=str(os.getpid()))
    return f"envweave-test-empty:{os.getpid()}"


def test_an_image_without_python_is_named_and_nothing_is_left(client):
    image = empty_image(client)
    before = owned(client)
    try:
        with Sandbox("docker", image=image) as sandbox:
            with pytest.raises(SandboxError, match="python3") as caught:
                sandbox.start()
            assert owned(client) == before
            assert doors() == []
    finally:
        client.images.remove(image, force=True)
    assert "3.11" in caught.value.hint


def test_a_container_that_dies_at_once_says_why_and_leaves_nothing(client, python_image):
    before = owned(client)
    with Sandbox("docker", image=python_image, preload=["no_such_module"]) as sandbox:
        with pytest.raises(SandboxError, match="No module named 'no_such_module'"):
            sandbox.start()
        assert owned(client) == before
        assert doors() == []


def test_a_container_killed_from_outside_ends_the_session(client, python_image):
    found = []
    tools = {"end": lambda: found[0].kill()}
    with Sandbox("docker", image=python_image, tools=tools) as sandbox, sandbox.start() as session:
        found.append(container_of(client, session))
        result = session.run("import time\nprint('begun')\nend()\ntime.sleep(60)")
        assert not result.success
        assert result.stdout == "begun\n"
        assert result.state == "ended"
        assert result.limit is None
        with pytest.raises(SessionEndedError):
            session.run("1")
        with pytest.raises(SessionEndedError):
            session.list_files()


def test_a_container_removed_between_two_runs_ends_the_session(client, sandbox):
    with sandbox.start() as session:
        container_of(client, session).remove(force=True)
        try:
            assert session.run("1").state == "ended"
        except SessionEndedError:
            pass
        with pytest.raises(SessionEndedError):
            session.run("1")


def test_a_session_goes_on_and_closes_without_its_daemon(client, python_image, docker_engine, tmp_path):
    """The daemon seems to die: it is reached through a socket that goes away."""
    then = """
sys.stdin.readline()
print(session.run("6 * 7").return_value)  # the line to it does not go through the daemon
try:
    sandbox.start()
except Exception as error:
    print(type(error).__name__)
session.close()
sandbox.close()
print("closed", flush=True)
"""
    url = f"unix://{tmp_path}/d.sock"
    with relay(docker_engine, tmp_path / "d.sock") as stop, start_host(python_image, then, DOCKER_HOST=url) as host:
        assert host.stdout.readline() == "ready\n"
        (name,) = owned(client, host.pid)
        stop()
        assert host.communicate("go on\n", timeout=60)[0].split() == ["42", "SandboxError", "closed"]
    eventually(lambda: client.containers.get(name).status == "exited")
    client.containers.get(name).remove()


@contextmanager
def relay(url, path):
    """Another way to the daemon, which can be cut."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen()
    socks, threads = [], []

    def copy(source, target):
        try:
            while data := source.recv(1 << 16):
                target.sendall(data)
        except OSError:
            pass
        for sock in (source, target):
            try:
                sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def serve():
        while True:
            try:
                near, _ = listener.accept()
            except OSError:
                return
            far = socket.socket(socket.AF_UNIX)
            far.connect(url.removeprefix("unix://"))
            socks.extend((near, far))
            for pair in ((near, far), (far, near)):
                threads.append(threading.Thread(target=copy, args=pair))
                threads[-1].start()

    threads.append(threading.Thread(target=serve))
    threads[-1].start()

    def stop():
        path.unlink(missing_ok=True)
        for sock in (listener, *socks):
            try:
                sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    try:
        yield stop
    finally:
        stop()
        for thread in threads:
            thread.join()
        for sock in (listener, *socks):
            sock.close()


# What is left.


def test_nothing_is_left_after_close(client, python_image):
    before = owned(client)
    with Sandbox("docker", image=python_image) as sandbox:
        one, two = sandbox.start(), sandbox.start()
        assert len(owned(client) - before) == 2
        assert doors() == []  # used, and gone
        one.close()
        assert len(owned(client) - before) == 1
        two.run("import os, time\nif os.fork() == 0:\n    os.setsid(); time.sleep(600)")
    assert owned(client) == before
    with pytest.raises(Exception, match="closed"):
        two.run("1")


def test_no_descriptor_is_left_after_close(python_image):
    with Sandbox("docker", image=python_image) as sandbox:
        sandbox.start().close()
        before = len(os.listdir("/proc/self/fd"))
        for _ in range(5):
            sandbox.start().close()
        assert len(os.listdir("/proc/self/fd")) < before + 5  # a few others come and go; five would be a leak


def start_host(image, then, **environment):
    """A process of its own with a session; what it prints first is that it has one."""
    code = f"""
import os, signal, sys
from envweave.sandbox import Sandbox
sandbox = Sandbox("docker", image={image!r})
session = sandbox.start()
session.run("import os, time\\nif os.fork() == 0:\\n    os.setsid(); time.sleep(600)")
print("ready", flush=True)
{then}
"""
    return subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
    )


def test_nothing_is_left_after_a_host_that_did_not_close(client, python_image):
    with start_host(python_image, "") as host:
        assert host.stdout.readline() == "ready\n"
        assert host.wait(60) == 0
    assert owned(client, host.pid) == set()


def test_what_a_killed_host_left_is_gone_once_another_has_begun(client, python_image):
    with start_host(python_image, "sys.stdin.read()") as host:
        assert host.stdout.readline() == "ready\n"
        (name,) = owned(client, host.pid)
        folder = Path(tempfile.mkdtemp(prefix=f"envweave-door-{process_identity.machine_id()}-{host.pid}-"))
        (folder / "socket").touch()
        host.kill()
    eventually(lambda: has_ended(client, name))  # its processes end without anybody's help
    with Sandbox("docker", image=python_image, preload=["string"]) as sandbox:
        sandbox.boundary()
        assert owned(client, host.pid) == set()
        assert not folder.exists()


def has_ended(client, name):
    """A sandbox in another test process may have removed it."""
    from docker.errors import NotFound

    try:
        return client.containers.get(name).status == "exited"
    except NotFound:
        return True


def test_what_a_living_host_has_is_left_alone(client, python_image):
    with start_host(python_image, "sys.stdin.read()\nprint(session.run('6 * 7').return_value)") as host:
        assert host.stdout.readline() == "ready\n"
        with Sandbox("docker", image=python_image, preload=["json"]) as sandbox:
            sandbox.boundary()
        assert len(owned(client, host.pid)) == 1
        assert host.communicate(timeout=60)[0] == "42\n"
    assert owned(client, host.pid) == set()


def test_what_a_host_of_another_world_has_is_left_alone(client, python_image):
    """Where processes are numbered differently, a number that is free here says nothing."""
    labels = {"envweave.kind": "sandbox", "envweave.world": "1", "envweave.owner": "999999999"}
    container = client.containers.create(python_image, ["python3", "-c", "1"], labels=labels, network_mode="none")
    try:
        with Sandbox("docker", image=python_image, preload=["string"]) as sandbox:
            sandbox.boundary()
        assert owned(client, 999999999) == {container.name}
    finally:
        container.remove(force=True)


def test_a_forked_copy_of_the_host_ends_nothing(client, python_image):
    with Sandbox("docker", image=python_image) as sandbox, sandbox.start() as session:
        pid = os.fork()
        if not pid:
            try:
                sandbox.boundary().close()
            except BaseException:
                pass
            os._exit(0)
        os.waitpid(pid, 0)
        assert value(session, "6 * 7") == 42


def test_only_the_container_is_let_in(sandbox):
    """Somebody else of this machine who finds the socket first gets nothing."""
    boundary, stop, heard = sandbox.boundary(), threading.Event(), []

    def intrude():
        while not stop.is_set():
            for folder in doors():
                with socket.socket(socket.AF_UNIX) as sock:
                    try:
                        sock.connect(f"{folder}/socket")
                        sock.settimeout(10)
                        heard.append(sock.recv(100))
                    except OSError:
                        continue

    thread = threading.Thread(target=intrude)
    thread.start()
    try:
        assert boundary.alive
        with sandbox.start() as session:
            assert value(session, "6 * 7") == 42
    finally:
        stop.set()
        thread.join()
    assert heard
    assert set(heard) == {b""}


def test_interrupts_reach_the_code_and_leave_the_session_alive(python_image):
    with session_with(python_image, wall=0.3, grace=10) as session:
        result = session.run("x = 1\nimport time\ntime.sleep(60)")
        assert result.limit.name == "wall"
        assert result.state == "kept"
        assert session.get("x") == 1


def test_code_that_ignores_signals_is_killed(python_image):
    with session_with(python_image, wall=0.3) as session:
        result = session.run(
            f"import signal, time\nsignal.signal({int(signal.SIGINT)}, signal.SIG_IGN)\ntime.sleep(60)"
        )
        assert result.limit.name == "wall"
        assert result.state == "restarted"


HOST_IN_A_CONTAINER = """
from envweave.sandbox import Sandbox
with Sandbox() as sandbox, sandbox.start() as session:
    print(sandbox.report().isolation)
    print(session.run("import os; os.getuid()").return_value)
    print(session.run("open('/etc/passwd')").exception.type)
    print(session.run("import socket; socket.socket()").exception.type)
    print(session.run("while True: pass", timeout=0.2).limit.name, session.run("1").success)
"""


@pytest.mark.parametrize("user", ["0:0", "1000:1000"])
def test_a_host_inside_an_ordinary_container_has_landlock(client, python_image, user):
    """There the kernel refuses namespaces: the strongest walls are the next ones, and they hold."""
    import pydantic

    import envweave

    source, packages = Path(envweave.__file__).parent.parent, Path(pydantic.__file__).parent.parent
    said = client.containers.run(
        python_image,
        ["python3", "-c", HOST_IN_A_CONTAINER],
        user=user,
        network_mode="none",
        remove=True,
        environment={"PYTHONPATH": "/source:/packages"},
        volumes={str(source): {"bind": "/source", "mode": "ro"}, str(packages): {"bind": "/packages", "mode": "ro"}},
    )
    uid = "65534" if user == "0:0" else "1000"
    assert said.decode().split() == ["landlock", uid, "PermissionError", "OSError", "wall", "True"]
