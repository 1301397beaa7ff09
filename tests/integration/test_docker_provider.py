"""Each option of a container seen from inside, each failure by its cause: with a real daemon, Docker's and Podman's."""

import json
import logging
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import urlopen

import pytest

from envweave.client import EnvClient, HTTPEnvClient, connect
from envweave.errors import ProviderError, UsageError
from envweave.providers import running
from support.containers import names_of, script, until
from support.engine import connect as connect_engine
from support.need import need

pytest.importorskip("docker")

from envweave.docker_client import connected
from envweave.providers.docker import LocalDockerProvider, list_containers

pytestmark = pytest.mark.timeout(400)

MAIN = "from envweave.cli import main; main()"
SHOWS = """
import http.server, json, os, resource, socket, subprocess
from urllib.parse import unquote
class Shows(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        text = "" if self.path == "/health" else eval(unquote(self.path[1:]))
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(text).encode())
    def log_message(self, *words):
        pass
def read(*paths):
    return next(open(path).read().strip() for path in paths if os.path.exists(path))
def tried(path):
    try:
        open(path, "w").write("x" * 10)
        return "written"
    except OSError as error:
        return error.strerror
http.server.HTTPServer(("", int(os.environ.get("PORT", 8000))), Shows).serve_forever()
"""


class Inside:
    """Looks around inside a container."""

    def __init__(self, provider, url):
        self.provider, self.url = provider, url

    def __call__(self, expression):
        from urllib.parse import quote

        with urlopen(f"{self.url}/{quote(expression)}", timeout=30.0) as answer:
            return json.loads(answer.read())


@contextmanager
def inside(image, *, extra=None, **options):
    """A container that evaluates what it is asked in Python."""
    given = {"entrypoint": ["python3", "-uc", SHOWS], **(extra or {})}
    provider = LocalDockerProvider(image, extra=given, stop_timeout=0, **options)
    with running(provider) as url:
        yield Inside(provider, url)


@pytest.fixture
def engine(docker_engine):
    with closing(connect_engine(docker_engine)) as client:
        yield client


@pytest.fixture(autouse=True)
def nothing_is_left(docker_engine):
    yield
    assert until(lambda: not names_of(docker_engine))


@pytest.fixture(scope="module")
def image(python_image):
    """Nothing but Python: these tests are about the container."""
    return python_image


# Options.


def test_variables_reach_the_server(image):
    with inside(image, env_vars={"COLOUR": "blue", "COUNT": 3}) as look:
        assert look("[os.environ['COLOUR'], os.environ['COUNT']]") == ["blue", "3"]


def test_folders_are_mounted_read_only_or_not_as_they_say(image, tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    (tmp_path / "a" / "note").write_text("hello")
    volumes = {str(tmp_path / "a"): "/a:ro", tmp_path / "b": "/b"}
    with inside(image, volumes=volumes) as look:
        assert look("read('/a/note')") == "hello"
        assert look("tried('/a/note')") == "Read-only file system"
        assert look("tried('/b/note')") == "written"
    assert (tmp_path / "b" / "note").read_text() == "x" * 10


def test_a_named_volume_outlives_the_container(image, engine):
    name = f"envweave-test-{os.getpid()}"
    try:
        with inside(image, volumes={name: "/data"}) as look:
            assert look("tried('/data/note')") == "written"
        with inside(image, volumes={name: "/data:ro"}) as look:
            assert look("read('/data/note')") == "x" * 10
    finally:
        engine.volumes.get(name).remove()


def test_memory_cpus_and_pids_are_limited(image, engine):
    with inside(image, memory="96m", cpus=0.5, pids=40) as look:
        files = "'/sys/fs/cgroup/memory/memory.limit_in_bytes', '/sys/fs/cgroup/memory.max'"
        assert int(look(f"read({files})")) == 96 * 2**20
        assert look("read('/sys/fs/cgroup/pids/pids.max', '/sys/fs/cgroup/pids.max')") == "40"
        if look("os.path.exists('/sys/fs/cgroup/cpu/cpu.cfs_quota_us')"):
            period = int(look("read('/sys/fs/cgroup/cpu/cpu.cfs_period_us')"))
            assert int(look("read('/sys/fs/cgroup/cpu/cpu.cfs_quota_us')")) * 2 == period
        config = engine.containers.get(look.provider.name).attrs["HostConfig"]
        assert config["NanoCpus"] == 500_000_000
        assert config["MemorySwap"] == config["Memory"]


def test_a_user_by_name_or_number(image):
    with inside(image, user=4321) as look:
        assert look("os.getuid()") == 4321
    with inside(image, user="agent") as look:
        assert look("[os.getuid(), os.getgid()]") == [1000, 1000]


def test_nothing_can_be_written_but_what_is_in_memory(image):
    with inside(image, read_only=True, tmpfs={"/scratch": "size=1m"}) as look:
        assert look("tried('/tmp/note')") == "Read-only file system"
        assert look("tried('/scratch/note')") == "written"
        assert look("os.statvfs('/scratch').f_blocks * os.statvfs('/scratch').f_frsize") == 2**20


def test_a_command_takes_the_place_of_the_image_s_own(image):
    with inside(image, command=["one", "two three"]) as look:
        assert look("__import__('sys').argv[1:]") == ["one", "two three"]


def test_further_arguments_of_the_sdk_are_passed_on_and_our_labels_stay(image, engine):
    extra = {
        "hostname": "somewhere",
        "shm_size": "8m",
        "labels": {"team": "blue", "envweave.owner": "me"},
        "init": True,
        "cap_drop": ["ALL"],
    }
    with inside(image, extra=extra) as look:
        assert look("socket.gethostname()") == "somewhere"
        assert look("os.statvfs('/dev/shm').f_blocks * os.statvfs('/dev/shm').f_frsize") == 8 * 2**20
        assert look("[line for line in open('/proc/self/status') if 'CapEff' in line]")[0].split()[1] == "0" * 16
        labels = engine.containers.get(look.provider.name).labels
        assert labels["team"] == "blue"
        assert labels["envweave.owner"].startswith(f"{os.getpid()}.")


def test_a_server_that_listens_on_another_port(image):
    with inside(image, port=9123, env_vars={"PORT": "9123"}) as look:
        assert look("os.environ['PORT']") == "9123"
    with inside(image, port=9123, env_vars={"PORT": "9123"}, direct=False) as look:
        assert look("os.environ['PORT']") == "9123"
        assert urlsplit(look.url).port != 9123


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def test_a_port_of_this_machine_can_be_chosen(image):
    port = free_port()
    with inside(image, host_port=port) as look:
        assert look.url == f"http://127.0.0.1:{port}"
        assert look("1") == 1


def test_published_is_for_this_machine_only(image, engine):
    with inside(image, direct=False) as look:
        assert urlsplit(look.url).hostname == "127.0.0.1"
        assert look("1") == 1
        (bound,) = engine.containers.get(look.provider.name).attrs["NetworkSettings"]["Ports"]["8000/tcp"]
        assert bound["HostIp"] == "127.0.0.1"


def test_the_short_way_leads_to_the_same_container(image, engine):
    with inside(image) as look:
        assert look("socket.gethostname()") == engine.containers.get(look.provider.name).id[:12]


@pytest.fixture
def network(engine):
    made = engine.networks.create(f"envweave-test-{os.getpid()}", labels={"envweave.test": "1"})
    yield made.name
    made.remove()


def test_a_network_by_its_name(image, engine, network):
    with inside(image, network=network) as look:
        networks = engine.containers.get(look.provider.name).attrs["NetworkSettings"]["Networks"]
        assert list(networks) == [network]
        assert look("1") == 1
    with inside(image, network=network, direct=False) as look:
        assert look("1") == 1


def test_the_network_of_the_machine(image):
    port = free_port()
    with inside(image, network="host", port=port, env_vars={"PORT": str(port)}) as look:
        assert look.url == f"http://127.0.0.1:{port}"
        assert look("socket.gethostname()") == socket.gethostname()
        assert [each.url for each in list_containers() if each.name == look.provider.name] == [look.url]


def test_options_of_a_start_win_over_those_of_the_provider(image):
    given = {"entrypoint": ["python3", "-uc", SHOWS]}
    provider = LocalDockerProvider("nothing:here", extra=given, env_vars={"A": "1"}, stop_timeout=0)
    try:
        url = provider.start_container(image, env_vars={"A": "2"})
        provider.wait_for_ready(url, timeout_s=60.0)
        assert Inside(provider, url)("os.environ['A']") == "2"
    finally:
        provider.stop_container()


# Failures that name their cause.


def failure(image, **options):
    with pytest.raises(ProviderError) as caught, running(LocalDockerProvider(image, **options), timeout=60.0):
        pytest.fail("it has started")
    return str(caught.value)


@pytest.mark.parametrize(
    ("host", "said"),
    [
        ("unix:///nowhere/docker.sock", "No such file"),
        ("tcp://127.0.0.1:1", "refused"),
        ("unix:///etc/passwd", "refused"),
        ("nonsense", "nonsense"),
    ],
)
def test_a_daemon_that_does_not_answer_is_named(host, said):
    message = failure("any", docker_host=host)
    assert f"no Docker daemon at {host}" in message
    assert said in message
    assert "DOCKER_HOST" in message


def test_a_missing_package_says_how_to_install_it():
    program = """
import sys
sys.modules["docker"] = None
import envweave as ew
try:
    ew.make("docker://echo")
except ew.errors.UnavailableError as error:
    print(error)
from envweave.envs.echo import EchoEnv
try:
    EchoEnv.from_docker_image("echo")
except ew.errors.UnavailableError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60)
    assert done.stdout.count("pip install 'envweave[docker]'") == 2, done.stderr
    ps = f"import sys; sys.modules['docker'] = None; sys.argv = ['envweave', 'ps']; {MAIN}"
    done = subprocess.run([sys.executable, "-c", ps], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("pull", ["never", "missing", "always"])
def test_an_image_that_is_not_there_is_named_and_how_to_make_it(docker_engine, pull):
    message = failure("localhost:1/envweave-nothing:1", pull=pull)
    assert "no image 'localhost:1/envweave-nothing:1' here" in message
    assert ("cannot be pulled" in message) == (pull != "never")
    assert "envweave build" in message


@pytest.mark.parametrize("image", ["UPPER/Case", "a b", "x:y:z", "--help"])
def test_what_is_no_name_of_an_image_is_refused_by_name(docker_engine, image):
    assert repr(image) in failure(image)


def test_a_port_that_is_taken_is_named(image):
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        message = failure(image, host_port=port)
    assert f"port {port} of this machine is taken" in message
    assert "leave out host_port" in message
    with inside(image) as look:
        first = int(urlsplit(look.url).port) if look.url.startswith("http://127") else None
    assert first != port


def test_two_containers_that_want_the_same_port_clash_by_name(image):
    port = free_port()
    with inside(image, host_port=port):
        assert f"port {port} of this machine is taken" in failure(image, host_port=port)


def test_a_container_that_ends_at_once_is_reported_with_its_last_words(image):
    extra = {"entrypoint": ["python3", "-c", "print('no licence'); raise SystemExit(3)"]}
    message = failure(image, extra=extra)
    assert "exit code 3" in message
    assert "no licence" in message


def test_a_container_that_never_listens_is_given_up(image):
    provider = LocalDockerProvider(image, extra={"entrypoint": ["sleep", "600"]}, stop_timeout=0)
    with pytest.raises(ProviderError, match=r"no healthy server at .* within 1 s: .*"), running(provider, timeout=1.0):
        pytest.fail("it is healthy")


def test_a_program_that_the_image_does_not_have_is_named(image):
    message = failure(image, extra={"entrypoint": ["nosuchthing"]})
    assert "cannot be run" in message
    assert "nosuchthing" in message


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"memory": "lots"}, "lots"),
        ({"memory": "1"}, "memory limit"),
        ({"memory": -5}, "memory"),
        ({"cpus": 4000.0}, "CPUs"),
        ({"user": "nobody-here"}, "nobody-here"),
        ({"network": "no-such-network"}, "no-such-network"),
        ({"volumes": {"/tmp": "relative"}}, "relative"),
        ({"volumes": {"not/absolute": "/x"}}, "not/absolute"),
        ({"volumes": {"/tmp": ""}}, "mount"),
        ({"tmpfs": {"/x": "nonsense"}}, "nonsense"),
        ({"port": 70000}, "70000"),
        ({"host_port": 70000}, "70000"),
        ({"extra": {"no_such_argument": 1}}, "no_such_argument"),
        ({"extra": {"runtime": "no-such-runtime"}}, "no-such-runtime"),
        ({"env_vars": {"": "x"}}, "env_vars"),
        ({"env_vars": {"A=B": "x"}}, "A=B"),
    ],
)
def test_an_option_that_cannot_be_met_is_named_and_leaves_nothing(image, options, said):
    with pytest.raises((ProviderError, UsageError)) as caught, running(LocalDockerProvider(image, **options)):
        pytest.fail("it has started")
    assert said in str(caught.value)


def test_secrets_are_in_no_text(image, docker_engine, caplog):
    secret = "hunter2-hunter2"
    caplog.set_level(logging.DEBUG)
    provider = LocalDockerProvider(image, env_vars={"KEY": secret}, extra={"entrypoint": ["nosuchthing"]})
    texts = [repr(provider), repr(provider.options), str(provider.options)]
    with pytest.raises(ProviderError) as caught, running(provider):
        pass
    texts += [str(caught.value), repr(caught.value), json.dumps(caught.value.to_data())]
    with inside(image, env_vars={"KEY": secret}) as look:
        (one,) = [each for each in list_containers() if each.owner == str(os.getpid())]
        texts += [repr(one), json.dumps(one.to_data()), look.provider.logs()]
    texts += [record.getMessage() for record in caplog.records if record.name.startswith("envweave")]
    assert not [text for text in texts if secret in text]


# What others do to a container.


def test_a_container_that_is_paused_is_said_to_be(image, engine):
    with inside(image) as look:
        container = engine.containers.get(look.provider.name)
        container.pause()
        with pytest.raises(ProviderError, match="is paused"):
            look.provider.check()
        container.unpause()
        look.provider.check()


def test_a_container_that_somebody_restarted_is_not_the_one_we_knew(image, engine):
    with inside(image) as look:
        engine.containers.get(look.provider.name).restart(timeout=0)
        with pytest.raises(ProviderError, match="restarted"):
            look.provider.check()


def test_a_container_that_somebody_removed_is_said_to_be_gone(image, engine):
    with inside(image) as look:
        engine.containers.get(look.provider.name).remove(force=True)
        with pytest.raises(ProviderError, match="someone else removed it"):
            look.provider.check()
        assert look.provider.logs() == ""


def test_a_container_that_ran_out_of_memory_is_said_to_have(image, engine):
    extra = {"entrypoint": ["python3", "-uc", "print('eating'); a = bytearray(10**9); a[::4096] = a[::4096]"]}
    provider = LocalDockerProvider(image, memory="48m", extra=extra)
    with pytest.raises(ProviderError, match=r"(?s)out of memory.*eating") as caught, running(provider):
        pass
    assert "memory=" in str(caught.value)


# A daemon that is asked to start something and is not waited for.


@contextmanager
def slow_daemon(docker_engine, folder):
    """A socket in front of the daemon that holds back what is created, until it is told to go on."""
    asked, go = threading.Event(), threading.Event()
    path = folder / "slow.sock"
    target = docker_engine.removeprefix("unix://")

    def carry(source, sink, gate):
        with source, sink:
            while True:
                try:
                    data = source.recv(65536)
                except OSError:
                    break
                if gate and b"/containers/create" in data:
                    asked.set()
                    go.wait(60.0)
                if not data:
                    break
                try:
                    sink.sendall(data)
                except OSError:
                    break
            if not gate:
                return
            try:
                sink.shutdown(socket.SHUT_WR)
                source.recv(1)
            except OSError:
                pass

    def serve(listener):
        while True:
            try:
                near, _ = listener.accept()
            except OSError:
                return
            far = socket.socket(socket.AF_UNIX)
            far.connect(target)
            threading.Thread(target=carry, args=(near.dup(), far.dup(), True), daemon=True).start()
            threading.Thread(target=carry, args=(far, near, False), daemon=True).start()

    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        thread = threading.Thread(target=serve, args=(listener,), daemon=True)
        thread.start()
        yield f"unix://{path}", asked, go
        go.set()
        listener.shutdown(socket.SHUT_RDWR)
        thread.join(10.0)


INTERRUPTED = """
import sys
from envweave.providers import LocalDockerProvider, running
try:
    with running(LocalDockerProvider(sys.argv[1], docker_host=sys.argv[2], stop_timeout=0)):
        print("it runs")
except KeyboardInterrupt:
    print("interrupted")
"""


def test_ctrl_c_while_the_daemon_creates_a_container_leaves_none(image, docker_engine, tmp_path):
    with slow_daemon(docker_engine, tmp_path) as (url, asked, go):
        owner = script(INTERRUPTED, image, url)
        assert asked.wait(60.0)
        owner.send_signal(signal.SIGINT)
        try:
            owner.wait(2.0)  # the one who does not wait for the daemon is gone by now, and nobody removes what comes
        except subprocess.TimeoutExpired:
            pass
        go.set()
        out, _ = owner.communicate(timeout=60)
        assert out.split() == ["interrupted"]
        assert until(lambda: not names_of(docker_engine, owner.pid))


# The short way, past Docker's proxy.


def test_a_server_of_ours_is_reached_through_a_socket_that_nobody_else_can_enter(echo_image):
    provider = LocalDockerProvider(echo_image)
    with running(provider) as url:
        path = provider.shortcut(url)
        folder = provider._direct.folder
        assert os.stat(folder).st_mode & 0o777 == 0o700
        with socket.socket(socket.AF_UNIX) as visitor:
            visitor.connect(path)
            visitor.sendall(b"GET /health HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
            assert b"200" in visitor.recv(100)
        assert provider.shortcut("http://127.0.0.1:1") == ""
        with connect(url) as env:  # the port that Docker has published is there too
            env.reset()
    assert not os.path.exists(folder)
    assert provider.shortcut(url) == ""


@pytest.mark.parametrize("client", [EnvClient, HTTPEnvClient])
def test_a_client_takes_the_socket_and_not_the_port(echo_image, client):
    with client(LocalDockerProvider(echo_image)) as env:
        address = env.backend.session._endpoint.address if client is HTTPEnvClient else _endpoint(env).address
        assert address.socket
        assert env.reset().observation.echoed_message
        assert env.step({"message": "x" * 1_000_000}).observation.message_length == 1_000_000


def _endpoint(env):
    return env.backend.session.connection.endpoint


def test_without_direct_there_is_no_socket(echo_image):
    provider = LocalDockerProvider(echo_image, direct=False)
    with EnvClient(provider) as env:
        assert not _endpoint(env).address.socket
        assert env.reset().observation.echoed_message


def test_a_server_of_others_has_no_socket_and_is_reached_by_its_port(image):
    with inside(image) as look:
        assert look.provider.shortcut(look.url) == ""
        assert look("'ENVWEAVE_SOCKET' in os.environ") is True


def test_a_server_that_cannot_open_the_socket_serves_by_its_port(echo_image):
    provider = LocalDockerProvider(echo_image, env_vars={"ENVWEAVE_SOCKET": "/proc/nowhere/socket"})
    with EnvClient(provider) as env:
        assert not _endpoint(env).address.socket
        assert env.reset().observation.echoed_message
        assert "cannot listen at /proc/nowhere/socket" in provider.logs()


# Podman, by its socket that speaks Docker's language.


@pytest.fixture(scope="module")
def podman(docker_engine, python_image):
    """The URL of a service with a storage of its own and our image in it."""
    if shutil.which("podman") is None or os.geteuid() != 0:
        need("podman", "there is no podman, or we are not root")
    folder = Path(tempfile.mkdtemp(prefix="ewp", dir="/tmp"))  # podman takes at most 50 characters
    hard = __import__("resource").getrlimit(__import__("resource").RLIMIT_NOFILE)[1]
    (folder / "containers.conf").write_text(
        f'[containers]\ndefault_ulimits = ["nofile={hard}:{hard}", "nproc=20000:20000"]\nlog_driver = "k8s-file"\n'
        '[engine]\ncgroup_manager = "cgroupfs"\nevents_logger = "file"\nruntime = "runc"\n'
    )
    command = ["podman", "--root", str(folder / "root"), "--runroot", str(folder / "run")]
    environment = {**os.environ, "CONTAINERS_CONF": str(folder / "containers.conf")}
    url = f"unix://{folder}/podman.sock"
    with ExitStack() as stack:
        log = stack.enter_context((folder / "log").open("wb"))
        service = subprocess.Popen(
            [*command, "system", "service", "--time=0", url], stdout=log, stderr=log, env=environment
        )
        stack.callback(service.wait)
        stack.callback(service.terminate)
        until(lambda: os.path.exists(f"{folder}/podman.sock") or service.poll() is not None)
        if service.poll() is not None:
            need("podman", f"its service ends: {(folder / 'log').read_text()[-500:]}")
        with closing(connect_engine(docker_engine)) as engine, closing(connect_engine(url)) as other:
            chunks = engine.images.get(python_image).save(named=python_image)
            other.images.load(b"".join(chunks))
        yield url
        subprocess.run([*command, "rm", "--all", "--force"], env=environment, capture_output=True, check=False)
        subprocess.run([*command, "system", "reset", "--force"], env=environment, capture_output=True, check=False)
    shutil.rmtree(folder, ignore_errors=True)


def test_podman_starts_a_container_with_all_its_options_and_stops_it(podman, image, tmp_path):
    tmp_path.chmod(0o755)  # for the user inside
    (tmp_path / "note").write_text("hello")
    options = {
        "docker_host": podman,
        "env_vars": {"COLOUR": "blue"},
        "volumes": {str(tmp_path): "/data:ro"},
        "memory": "96m",
        "cpus": 0.5,
        "pids": 40,
        "user": "agent",
        "read_only": True,
        "tmpfs": {"/scratch": "size=1m"},
    }
    with inside(image, **options) as look:
        assert look("os.environ['COLOUR']") == "blue"
        assert look("read('/data/note')") == "hello"
        assert look("tried('/data/other')") == "Read-only file system"
        files = "'/sys/fs/cgroup/memory/memory.limit_in_bytes', '/sys/fs/cgroup/memory.max'"
        assert int(look(f"read({files})")) == 96 * 2**20
        assert look("os.getuid()") == 1000
        (one,) = [each for each in list_containers(podman) if each.owner == str(os.getpid())]
        assert (one.name, one.state, one.stray) == (look.provider.name, "running", False)
        look.provider.check()
    assert names_of(podman) == set()


def test_podman_s_containers_say_why_they_ended(podman, image):
    extra = {"entrypoint": ["python3", "-c", "print('no licence'); raise SystemExit(3)"]}
    message = failure(image, docker_host=podman, extra=extra)
    assert "exit code 3" in message
    assert "no licence" in message
    assert "no image 'localhost/nothing'" in failure("localhost/nothing", docker_host=podman, pull="never")
    assert names_of(podman) == set()


def test_gc_removes_podman_s_strays(podman, image):
    program = """
import sys, time
from envweave.providers import LocalDockerProvider
provider = LocalDockerProvider(sys.argv[1], extra={"entrypoint": ["sleep", "600"]}, stop_timeout=0)
print(provider.start(), flush=True)
time.sleep(600)
"""
    owner = script(program, image, env={**os.environ, "DOCKER_HOST": podman})
    assert owner.stdout.readline().startswith("http")
    owner.kill()
    owner.communicate()
    assert names_of(podman, owner.pid)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DOCKER_HOST", podman)
        for each in list_containers():
            if each.stray and each.owner == str(owner.pid):
                each.remove()
    assert names_of(podman, owner.pid) == set()


def test_a_client_of_podman_plays(podman, docker_engine, echo_image):
    with closing(connect_engine(docker_engine)) as engine, closing(connect_engine(podman)) as other:
        other.images.load(b"".join(engine.images.get(echo_image).save(named=echo_image)))
    with connect(LocalDockerProvider(echo_image, docker_host=podman)) as env:
        env.reset()
        assert env.step({"message": "hello"}).reward == pytest.approx(0.5)
    assert names_of(podman) == set()


def test_connected_leaves_no_socket_open(docker_engine):
    def sockets():
        return [name for name in os.listdir("/proc/self/fd") if "socket" in _target(name)]

    before = len(sockets())
    for _ in range(5):
        with connected():
            pass
        with pytest.raises(ProviderError), connected("unix:///nowhere"):
            pass
    assert len(sockets()) <= before


def _target(name):
    try:
        return os.readlink(f"/proc/self/fd/{name}")
    except OSError:
        return ""
