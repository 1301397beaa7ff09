"""The provider suite for a server in a process, under uv and in a container; `envweave ps` and `gc` for each."""

import json
import os
import re
import signal
import sys
from contextlib import closing
from pathlib import Path

import pytest

from envweave.core import process_identity
from envweave.errors import ProviderError
from envweave.providers import running
from envweave.providers.base import health
from envweave.testing.suites import ProviderSuite
from envweave.testing.suites.base import until
from envweave.testing.suites.provider import HEALTHY, ProviderTests, ServerTests, owner_process
from support.containers import envweave, of
from support.engine import connect as connect_engine
from support.need import need

ROOT = Path(__file__).parent.parent.parent
pytestmark = pytest.mark.timeout(400)


class Listed(ProviderTests):
    """`envweave ps` lists what was started, and `envweave gc` removes what a killed process left."""

    where = "process"

    def test_a_server_with_another_command_is_listed_with_its_url(self, make_provider):
        provider = make_provider(HEALTHY)
        with running(provider):
            assert [each["url"] for each in listed()] == [provider.url]

    def test_an_interpreter_that_exits_stops_its_server(self, owner_code, left_behind):
        ProviderSuite.test_an_interpreter_that_exits_stops_its_server(self, owner_code, left_behind)

    def test_gc_removes_what_a_killed_owner_left_and_nothing_else(
        self, make_provider, owner_code, left_behind, tmp_path
    ):
        with running(make_provider(HEALTHY), timeout=120.0) as url:
            pid = killed_owner(owner_code, tmp_path)
            assert left_behind(pid)
            strays = {each["owner"] for each in json.loads(envweave("ps", "--strays", "--json").stdout)}
            assert str(pid) in strays
            assert str(os.getpid()) not in strays
            assert str(pid) in owners(envweave("gc", "--dry-run", "--json"))
            assert left_behind(pid)
            done = envweave("gc", "--json")
            assert done.returncode == 0, done.stderr
            assert str(pid) in owners(done)
            assert left_behind(pid) == []
            assert list(tmp_path.glob("envweave-*")) == []
            assert health(url) == ""
        assert str(pid) not in owners(envweave("gc", "--json"))


class Whole(ProviderSuite, Listed):
    """For providers whose start is cheap."""

    def kill(self, provider):
        """Kill the server, as the kernel would, and wait until that is known."""
        raise NotImplementedError

    def test_a_server_that_was_killed_is_reported_as_killed(self, make_provider):
        provider = make_provider()
        with running(provider):
            self.kill(provider)
            with pytest.raises(ProviderError, match="killed"):
                provider.check()

    def test_what_was_started_is_listed_with_its_owner(self, make_provider):
        provider = make_provider()
        with running(provider):
            (one,) = listed()
            assert (one["where"], one["kind"], one["state"], one["stray"]) == (self.where, "server", "running", False)
            assert "echo" in one["what"]
            assert re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", one["since"])
            assert one["url"] == provider.url
            assert str(os.getpid()) in envweave("ps").stdout
        assert listed() == []


class TestSubprocess(Whole):
    @pytest.fixture
    def make_provider(self):
        from envweave.providers import SubprocessProvider

        def make(program=None):
            if program is None:
                return SubprocessProvider("echo")
            return SubprocessProvider("it", command=[sys.executable, "-uc", program.replace("PORT", "{port}")])

        return make

    @pytest.fixture
    def owner_code(self):
        return "from envweave.providers import SubprocessProvider\nprovider = SubprocessProvider('echo')"

    def kill(self, provider):
        os.kill(provider.process.pid, signal.SIGKILL)
        until(lambda: provider.process.exit_code is not None)


class TestDocker(Whole):
    where = "docker"

    @pytest.fixture
    def make_provider(self, echo_image):
        from envweave.providers import LocalDockerProvider

        def make(program=None):
            if program is None:
                return LocalDockerProvider(echo_image)
            entry = ["python3", "-uc", program.replace("PORT", "8000")]
            return LocalDockerProvider(echo_image, extra={"entrypoint": entry}, stop_timeout=0)

        return make

    @pytest.fixture
    def owner_code(self, echo_image):
        return f"from envweave.providers import LocalDockerProvider\nprovider = LocalDockerProvider({echo_image!r})"

    @pytest.fixture
    def left_behind(self, docker_engine):
        with closing(connect_engine(docker_engine)) as engine:
            yield lambda pid: [each.name for each in of(engine, pid)]

    def kill(self, provider):
        with closing(connect_engine(os.environ["DOCKER_HOST"])) as engine:
            engine.containers.get(provider.name).kill()
            until(lambda: engine.containers.get(provider.name).status == "exited")


class TestUV(ServerTests, Listed):
    """Its start is slow, and apart from the command it is the subprocess provider's."""

    @pytest.fixture
    def make_provider(self, uv_project):
        from envweave.providers import UVProvider

        def make(program=None):
            if program is None:
                return UVProvider(uv_project)
            return UVProvider(uv_project, command=["python", "-uc", program.replace("PORT", "{port}")])

        return make

    @pytest.fixture
    def owner_code(self, uv_project):
        return f"from envweave.providers import UVProvider\nprovider = UVProvider({uv_project!r})"


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


def listed():
    """What `envweave ps` lists as started by this process."""
    every = json.loads(envweave("ps", "--json").stdout)
    return [each for each in every if each["owner"] == str(os.getpid())]


def owners(answer):
    """The owners of what `envweave gc` has removed."""
    return {each["owner"] for each in json.loads(answer.stdout)["removed"]}


def killed_owner(code, folder):
    """The ID of a process that has started a server and was killed. The folder is for its temporary files."""
    wait = "provider.start()\nprovider.wait_for_ready()\nprint(provider.url)\ntime.sleep(600)"
    owner = owner_process(f"import time\n{code}\n{wait}", TMPDIR=str(folder))
    assert owner.stdout.readline().startswith("http")
    owner.kill()
    owner.wait()
    owner.stdout.close()
    return owner.pid


# Labels of containers.


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
