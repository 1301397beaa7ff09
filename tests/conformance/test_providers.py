"""What every provider does alike: one suite, and a server in a process, under uv and in a container."""

import gc
import json
import os
import re
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from envweave.client.env_client import connect
from envweave.core import process_identity
from envweave.errors import ProviderError, UsageError
from envweave.providers import Provider, running
from envweave.providers.base import health
from envweave.providers.process import LABEL, list_processes
from support.containers import envweave, of, script, until
from support.engine import connect as connect_engine
from support.need import need

ROOT = Path(__file__).parent.parent.parent
pytestmark = pytest.mark.timeout(400)

BREAKS = "print('no licence'); raise SystemExit(7)"
SICK = """
from http.server import BaseHTTPRequestHandler, HTTPServer
class Sick(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_error(503)
    def log_message(self, *words):
        pass
print("I do not feel well")
HTTPServer(("", PORT), Sick).serve_forever()
"""
LEAVES = """
import http.server
class Leaves(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        if self.path == "/leave":
            print("one last word")
            import os
            os._exit(7)
    def log_message(self, *words):
        pass
http.server.HTTPServer(("", PORT), Leaves).serve_forever()
"""


@dataclass
class Kind:
    """One implementation: how to make one in any process, and how to see what it has left."""

    where: str
    imports: str
    good: str
    """Makes a provider of a server with an environment."""
    runs: Callable[[str], str]
    """Makes a provider of a program that listens on PORT."""
    left: Callable[[int], list[str]]
    """What a process has started and is still there."""
    found: Callable[[], list]

    def made(self, expression: str = "") -> Provider:
        namespace: dict = {}
        exec(self.imports, namespace)
        return eval(expression or self.good, namespace)


def _processes(pid: int) -> list[str]:
    """By the variable that all of them carry, told apart from the look of `found`."""
    names = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            match = re.search(rb"(?:^|\0)%b=\S+ %d\." % (LABEL.encode(), pid), (folder / "environ").read_bytes())
        except OSError:
            continue
        if match:
            names.append(folder.name)
    return names


def _subprocess(_: pytest.FixtureRequest) -> Kind:
    return Kind(
        where="process",
        imports="from envweave.providers import SubprocessProvider",
        good="SubprocessProvider('echo')",
        runs=lambda text: (
            f"SubprocessProvider('it', command={[sys.executable, '-uc', text.replace('PORT', '{port}')]!r})"
        ),
        left=_processes,
        found=list_processes,
    )


def _uv(request: pytest.FixtureRequest) -> Kind:
    project = request.getfixturevalue("uv_project")
    return Kind(
        where="process",
        imports="from envweave.providers import UVProvider",
        good=f"UVProvider({project!r})",
        runs=lambda text: f"UVProvider({project!r}, command={['python', '-uc', text.replace('PORT', '{port}')]!r})",
        left=_processes,
        found=list_processes,
    )


def _docker(request: pytest.FixtureRequest) -> Kind:
    image = request.getfixturevalue("echo_image")
    url = request.getfixturevalue("docker_engine")
    from envweave.providers.docker import list_containers

    engine = connect_engine(url)
    request.addfinalizer(engine.close)

    def runs(text: str) -> str:
        entry = ["python3", "-uc", text.replace("PORT", "8000")]
        return f"LocalDockerProvider({image!r}, extra={{'entrypoint': {entry!r}}}, stop_timeout=0)"

    return Kind(
        where="docker",
        imports="from envweave.providers import LocalDockerProvider",
        good=f"LocalDockerProvider({image!r})",
        runs=runs,
        left=lambda pid: [each.name for each in of(engine, pid)],
        found=list_containers,
    )


@pytest.fixture(scope="module")
def uv_project(tmp_path_factory):
    """As `envweave init` writes it, with the envweave of this checkout."""
    try:
        import uv  # noqa: F401
    except ModuleNotFoundError:
        need("uv", "there is no `uv` package: pip install uv")
    folder = tmp_path_factory.mktemp("uv") / "quiz"
    done = envweave("init", "quiz", "--path", str(folder))
    assert done.returncode == 0, done.stderr
    with (folder / "pyproject.toml").open("a") as file:
        file.write(f'\n[tool.uv.sources]\nenvweave = {{ path = "{ROOT}" }}\n')
    return str(folder)


KINDS = {"subprocess": _subprocess, "docker": _docker, "uv": _uv}


@pytest.fixture(scope="module", params=["subprocess", "docker", "uv"])
def kind(request):
    return KINDS[request.param](request)


@pytest.fixture(scope="module", params=["subprocess", "docker"])
def quick(request):
    """Those whose start is cheap: uv's is the subprocess provider's own, with another command."""
    return KINDS[request.param](request)


@pytest.fixture(autouse=True)
def nothing_is_left(request):
    yield
    name = next((name for name in ("kind", "quick") if name in request.fixturenames), None)
    if name is not None:
        assert until(lambda: not request.getfixturevalue(name).left(os.getpid()))


# From start to stop.


def test_a_server_answers_once_it_is_ready_and_is_gone_when_it_was_stopped(kind):
    provider = kind.made()
    assert provider.url == ""
    assert provider.urls == ()
    url = provider.start()
    assert provider.url == url
    assert provider.urls == (url,)
    provider.wait_for_ready(60.0)
    assert health(url) == ""
    with connect(url) as env:
        env.reset()
    provider.check()
    assert kind.left(os.getpid())
    provider.stop()
    assert provider.url == ""
    assert kind.left(os.getpid()) == []
    assert health(url, 1.0)


def test_it_cannot_be_started_twice_and_goes_on(quick):
    provider = quick.made()
    with running(provider) as url:
        with pytest.raises(UsageError, match="started already"):
            provider.start()
        assert provider.url == url
        assert health(url) == ""


def test_stop_is_harmless_before_a_start_and_twice_and_then_it_starts_again(quick):
    provider = quick.made()
    provider.stop()
    first = provider.start()
    provider.stop()
    provider.stop()
    assert provider.start()
    provider.wait_for_ready(60.0)
    assert health(provider.url) == ""
    assert provider.url.startswith("http://")
    assert first.startswith("http://")
    provider.stop()


def test_before_a_start_there_is_nothing_to_check_to_read_or_to_wait_for(quick):
    provider = quick.made()
    assert provider.logs() == ""
    assert provider.logs(3) == ""
    with pytest.raises(ProviderError, match=r"there is no (process|container)"):
        provider.check()
    with pytest.raises(UsageError, match="no server to wait for"):
        provider.wait_for_ready()


def test_the_names_of_envtorch_do_the_same(quick):
    provider = quick.made()
    url = provider.start_container()
    provider.wait_for_ready(url, timeout_s=60.0)
    assert health(url) == ""
    provider.stop_container()
    assert provider.url == ""


def test_what_the_server_writes_can_be_read_whole_or_from_its_end(quick):
    provider = quick.made(quick.runs("for n in range(30): print('line', n)\n" + LEAVES))
    with running(provider):
        until(lambda: "line 29" in provider.logs())
        assert provider.logs().splitlines() == [f"line {number}" for number in range(30)]
        assert provider.logs(2).split("\n")[:2] == ["line 28", "line 29"]


# A server that fails.


def test_a_server_that_ends_at_once_is_reported_with_its_exit_code_and_last_words(kind):
    provider = kind.made(kind.runs(BREAKS))
    with pytest.raises(ProviderError, match=r"(?s)exit code 7.*no licence"), running(provider):
        pytest.fail("it runs")
    provider.stop()
    assert kind.left(os.getpid()) == []


def test_after_a_start_that_failed_nothing_is_left_and_it_can_be_tried_again(quick):
    provider = quick.made(quick.runs(BREAKS))
    for _ in range(2):
        with pytest.raises(ProviderError), running(provider):
            pass
        assert quick.left(os.getpid()) == []
        assert provider.url == ""


def test_a_server_that_never_is_healthy_is_given_up_with_what_it_did_instead(quick):
    provider = quick.made(quick.runs(SICK))
    provider.start()
    with pytest.raises(ProviderError, match=r"(?s)within 1\.5 s.*503.*I do not feel well"):
        provider.wait_for_ready(1.5)
    assert quick.left(os.getpid())  # what to do about it is the caller's choice
    provider.stop()


def test_a_server_that_ends_later_is_missed_by_check_which_has_its_last_words(quick):
    from urllib.request import urlopen

    provider = quick.made(quick.runs(LEAVES))
    with running(provider) as url:
        provider.check()
        with urlopen(f"{url}/leave", timeout=30.0) as answer:
            answer.read()

        def missed():
            try:
                provider.check()
            except ProviderError as error:
                return error.message
            return None

        assert re.search(r"(?s)exit code 7.*one last word", until(missed))
        with pytest.raises(ProviderError, match="exit code 7"):
            provider.wait_for_ready(30.0)


def test_a_server_that_was_killed_is_said_to_be(quick):
    provider = quick.made()
    with running(provider):
        end_from_outside(provider)
        with pytest.raises(ProviderError, match="killed"):
            provider.check()


def end_from_outside(provider):
    """As the kernel or somebody else would, and wait until that is known."""
    if hasattr(provider, "process"):
        os.kill(provider.process.pid, signal.SIGKILL)
        until(lambda: provider.process.exit_code is not None)
        return
    from contextlib import closing

    with closing(connect_engine(os.environ["DOCKER_HOST"])) as engine:
        engine.containers.get(provider.name).kill()
        until(lambda: engine.containers.get(provider.name).status == "exited")


@pytest.mark.parametrize("failure", [RuntimeError, KeyboardInterrupt, SystemExit])
def test_a_block_that_is_left_by_an_exception_stops_the_server(quick, failure):
    provider = quick.made(quick.runs(LEAVES))
    with pytest.raises(failure), running(provider):
        raise failure if quick.left(os.getpid()) else AssertionError("nothing was started")
    assert quick.left(os.getpid()) == []


# Owners that come and go.


def test_a_provider_that_nobody_has_any_more_stops_its_server(quick):
    provider = quick.made()
    provider.start()
    assert quick.left(os.getpid())
    del provider
    gc.collect()
    assert quick.left(os.getpid()) == []


def test_an_interpreter_that_exits_takes_its_server_along(kind):
    program = f"{kind.imports}\nimport os\nprovider = {kind.good}\nprovider.start()\nprint(os.getpid())"
    owner = script(program)
    out, _ = owner.communicate(timeout=100)
    assert owner.returncode == 0
    assert int(out) == owner.pid
    assert kind.left(owner.pid) == []


@pytest.mark.parametrize("end", ["os._exit(0)", "sys.exit(0)", "provider.stop(); sys.exit(0)", "del provider"])
def test_a_forked_child_that_ends_leaves_the_server_to_its_parent(quick, end):
    program = f"""
import os, sys
{quick.imports}
from envweave.providers.base import health
provider = {quick.good}
url = provider.start()
provider.wait_for_ready()
child = os.fork()
if child == 0:
    {end}
    sys.exit(0)
os.waitpid(child, 0)
provider.check()
print(health(url) or "healthy")
"""
    owner = script(program)
    out, _ = owner.communicate(timeout=100)
    assert out.strip() == "healthy"
    assert owner.returncode == 0
    assert quick.left(owner.pid) == []


# Who owns what.


def mine(kind):
    return [each for each in kind.found() if each.owner == str(os.getpid())]


def test_what_was_started_is_found_with_its_owner(quick):
    provider = quick.made()
    with running(provider):
        (one,) = mine(quick)
        assert one.where == quick.where
        assert one.kind == "server"
        assert "echo" in one.what
        assert one.state == "running"
        assert re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", one.since)
        assert not one.stray
        assert one.url == provider.url
        listed = json.loads(envweave("ps", "--json").stdout)
        own = [(each["name"], each["url"]) for each in listed if each["owner"] == str(os.getpid())]
        assert own == [(one.name, provider.url)]
        assert str(os.getpid()) in envweave("ps").stdout
    assert mine(quick) == []


def test_what_runs_another_command_is_found_with_its_url(kind):
    provider = kind.made(kind.runs(LEAVES))
    with running(provider):
        assert [each.url for each in mine(kind)] == [provider.url]


DOOMED = """
import time
{imports}
provider = {good}
provider.start()
provider.wait_for_ready()
print(provider.url)
time.sleep(600)
"""


def killed_owner(kind, folder):
    """The number of a process that has started a server and was killed. The folder is for its temporary files."""
    program = DOOMED.format(imports=kind.imports, good=kind.good)
    owner = script(program, env={**os.environ, "TMPDIR": str(folder)})
    assert owner.stdout.readline().startswith("http")
    owner.kill()
    owner.wait()
    owner.stdout.close()
    return owner.pid


def removed(answer):
    return {each["owner"] for each in json.loads(answer.stdout)["removed"]}


def test_gc_removes_what_a_killed_owner_left_and_nothing_else(kind, tmp_path):
    own = kind.made(kind.runs(LEAVES))
    with running(own, timeout=120.0) as url:
        pid = killed_owner(kind, tmp_path)
        assert kind.left(pid)
        strays = json.loads(envweave("ps", "--strays", "--json").stdout)
        assert str(pid) in {each["owner"] for each in strays}
        assert str(os.getpid()) not in {each["owner"] for each in strays}
        assert str(pid) in removed(envweave("gc", "--dry-run", "--json"))
        assert kind.left(pid)
        done = envweave("gc", "--json")
        assert done.returncode == 0, done.stderr
        assert str(pid) in removed(done)
        assert kind.left(pid) == []
        assert list(tmp_path.glob("envweave-*")) == []
        assert health(url) == ""
    assert str(pid) not in removed(envweave("gc", "--json"))


def labelled(image, owner, world):
    """A container that carries other labels than we would give it; removed by the caller."""
    import docker

    client = docker.from_env()
    labels = {"envweave.kind": "server", "envweave.owner": owner, "envweave.world": world}
    try:
        return client.containers.create(image, labels=labels).name
    finally:
        client.close()


@pytest.fixture
def containers(docker_engine, echo_image):
    made = []

    def make(owner, world=None):
        made.append(labelled(echo_image, owner, process_identity.machine_id() if world is None else world))
        return made[-1]

    yield make
    from contextlib import closing

    from docker.errors import NotFound

    with closing(connect_engine(docker_engine)) as engine:
        for name in made:
            try:
                engine.containers.get(name).remove(force=True, v=True)
            except NotFound:
                pass


def swept(*options):
    done = envweave("gc", "--json", *options)
    assert done.returncode == 0, done.stdout + done.stderr
    return {each["name"] for each in json.loads(done.stdout)["removed"]}


def test_gc_knows_an_owner_whose_number_another_process_has_now(containers):
    pid = os.getpid()
    reused = containers(f"{pid}.{process_identity.start_time(pid) + 1}")
    own = containers(process_identity.own_identity())
    gone = swept()
    assert reused in gone
    assert own not in gone


def test_gc_leaves_what_belongs_to_another_machine_unless_it_is_told_to_take_all(containers):
    dead = "4194304.1"
    foreign = containers(dead, "4026531836.0123456789ab")
    unknown = containers(dead, "")
    stray = containers(dead)
    gone = swept()
    assert stray in gone
    assert not {foreign, unknown} & gone
    would = {each["name"] for each in json.loads(envweave("gc", "--all", "--dry-run", "--json").stdout)["removed"]}
    assert {foreign, unknown} <= would


@pytest.mark.parametrize("owner", ["self.1", "1.x", "", ".", "-1.5", "one.two", "²"])
def test_labels_that_say_nothing_do_not_stop_ps_and_gc(containers, owner):
    name = containers(owner)
    done = envweave("ps", "--json")
    assert done.returncode == 0, done.stderr
    assert name in {each["name"] for each in json.loads(done.stdout)}
    assert name not in swept()
