"""Images in a real Docker daemon: their properties, their Dockerfiles, and `envweave build`."""

import io
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tarfile
import time
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from envweave.client.env_client import connect
from envweave.errors import ProviderError
from envweave.providers import running
from support.engine import connect as connect_engine

pytest.importorskip("docker")

from envweave.images import pip
from envweave.images.engine import build_image, image_labels, image_size_bytes
from envweave.providers.docker import LocalDockerProvider
from support.images import SECRET_HOST, quiet

ROOT = Path(__file__).parent.parent.parent
PLUGIN = ROOT / "tests" / "plugin"
pytestmark = pytest.mark.timeout(400)  # the first of these tests builds the images


@pytest.fixture
def engine(docker_engine):
    with closing(connect_engine(docker_engine)) as client:
        yield client


@pytest.fixture
def tag(engine, request):
    """Name of an image; the image is removed after the test."""
    name = f"envweave-test-{abs(hash(request.node.name)) % 10**8}-{os.getpid()}:latest"
    yield name
    if image_labels(name) is not None:
        engine.images.remove(name, force=True)


@contextmanager
def container(engine, image, *command, **options):
    """Start a container, and remove it afterwards."""
    started = engine.containers.run(image, list(command), detach=True, labels={"envweave.test": "images"}, **options)
    try:
        yield started
    finally:
        started.remove(force=True, v=True)


def append(path, text):
    path.write_text(path.read_text() + text)


def until(happens, seconds=60.0):
    end = time.monotonic() + seconds
    while not (found := happens()):
        assert time.monotonic() < end, "timeout"
        time.sleep(0.1)
    return found


def said(started, text):
    return until(lambda: text in started.logs().decode())


def envweave(*arguments, cwd=None, **variables):
    command = [sys.executable, "-m", "envweave", *arguments]
    env = {**os.environ, **variables}
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=cwd, env=env, timeout=300)


@pytest.fixture
def project(tmp_path):
    """As `envweave init` writes it."""
    assert envweave("init", "quiz", cwd=tmp_path).returncode == 0
    return tmp_path / "quiz"


# Properties of an image.


def test_a_client_connects_to_an_image(echo_image):
    with running(LocalDockerProvider(echo_image)) as url, connect(url) as env:
        env.reset()
        assert env.step({"message": "hello"}).reward == pytest.approx(0.5)


def test_the_server_is_process_1_and_not_root(engine, echo_image):
    with container(engine, echo_image) as started:
        said(started, "serving echo")
        assert started.exec_run("id -u").output.strip() == b"1000"
        assert started.exec_run("id -g").output.strip() == b"1000"
        words = started.exec_run("cat /proc/1/cmdline").output.split(b"\0")
        assert words[0].endswith(b"python3")
        assert b"serve" in words
        assert b"echo" in words
    assert engine.images.get(echo_image).attrs["Config"]["User"] == "1000:1000"


def test_the_healthcheck_succeeds(engine, echo_image):
    often = {"interval": 1_000_000_000}
    with container(engine, echo_image, healthcheck=often) as started:

        def health():
            started.reload()
            return started.attrs["State"]["Health"]["Status"] == "healthy"

        until(health)


def test_the_healthcheck_fails_if_the_server_does_not_answer(engine, echo_image):
    often = {"interval": 300_000_000, "retries": 1, "start_period": 1_000_000}
    with container(engine, echo_image, "30", entrypoint="sleep", healthcheck=often) as started:

        def health():
            started.reload()
            return started.attrs["State"]["Health"]["Status"] == "unhealthy"

        until(health)


def test_docker_stop_ends_the_server_with_exit_code_0(engine, echo_image):
    with container(engine, echo_image) as started:
        said(started, "serving echo")
        began = time.monotonic()
        started.stop(timeout=30)
        assert time.monotonic() - began < 3
        assert started.wait()["StatusCode"] == 0


def test_it_runs_on_a_read_only_file_system_with_tmp(echo_image):
    provider = LocalDockerProvider(echo_image, read_only=True, tmpfs={"/tmp": ""})
    with running(provider) as url, connect(url) as env:
        env.reset()
        assert env.step({"message": "ab"}).reward == pytest.approx(0.2)


def test_it_runs_without_capabilities_as_any_user(echo_image):
    extra = {"cap_drop": ["ALL"], "security_opt": ["no-new-privileges"]}
    with running(LocalDockerProvider(echo_image, user="4321:4321", extra=extra)) as url, connect(url) as env:
        env.reset()


def test_arguments_after_the_image_go_to_the_server(env_image):
    with running(LocalDockerProvider(env_image("lineworld"), command=["--arg", "size=7"])) as url, connect(url) as env:
        assert abs(env.reset(seed=1).obs.goal) == 7


def test_an_invalid_argument_ends_the_server_with_an_error(engine, echo_image):
    with container(engine, echo_image, "--nonsense") as started:
        assert started.wait(timeout=60)["StatusCode"] == 2
        assert b"no such option" in started.logs()


def test_every_module_is_compiled(engine, echo_image):
    code = """
import importlib.util, os, sys, sysconfig
from pathlib import Path
for name in ("envweave", "pydantic", "fastapi", "uvicorn", "typer", "http", "email", "asyncio"):
    folder = Path(importlib.util.find_spec(name).origin).parent
    for path in folder.rglob("*.py"):
        compiled = Path(importlib.util.cache_from_source(str(path)))
        if "test" in path.parts or "templates" in str(path): continue
        head = compiled.read_bytes()[:16] if compiled.exists() else b""
        if head[8:12] != (int(path.stat().st_mtime) & 0xFFFFFFFF).to_bytes(4, "little"): print(path)
"""
    command = ["-c", code]
    lines = engine.containers.run(echo_image, command, entrypoint="python3", remove=True).decode().split()
    assert lines == []


def test_an_image_has_its_own_labels_and_none_of_a_managed_container(echo_image):
    labels = image_labels(echo_image)
    assert labels["envweave.env_id"] == "echo"
    assert labels["org.opencontainers.image.title"] == "echo"
    assert not {"envweave.owner", "envweave.kind", "envweave.world"} & set(labels)


def test_settings_of_pip_are_not_in_the_image(engine, echo_image):
    image = engine.images.get(echo_image)
    assert SECRET_HOST not in json.dumps(image.history()) + json.dumps(image.attrs)
    made = engine.containers.create(echo_image)
    try:
        with tarfile.open(fileobj=Stream(made.export()), mode="r|") as tar:
            for member in tar:
                name = Path(member.name).name
                assert name not in ("pip.conf", "ca.pem"), member.name
                if member.isfile() and member.size < 1_000_000:
                    assert SECRET_HOST.encode() not in tar.extractfile(member).read(), member.name
    finally:
        made.remove()


class Stream(io.RawIOBase):
    """A file over an iterator of bytes."""

    def __init__(self, pieces):
        self.pieces, self.rest = iter(pieces), b""

    def read(self, size=-1):
        while len(self.rest) < size and (piece := next(self.pieces, None)) is not None:
            self.rest += piece
        found, self.rest = self.rest[:size], self.rest[size:]
        return found


def test_the_sandbox_works_inside_a_container(engine, env_image):
    image = env_image("coding")
    with running(LocalDockerProvider(image)) as url, connect(url) as env:
        env.reset()
        assert env.step({"code": "print(6 * 7)"}).obs.stdout == "42\n"
    report = json.loads(engine.containers.run(image, ["doctor", "--json"], entrypoint="envweave", remove=True))
    assert report["isolation"] in ("landlock", "namespace")


@pytest.mark.parametrize(
    ("id", "action", "shown"),
    [
        ("coding", {"code": "print(6 * 7)"}, "42"),
        ("codeact", {"code": "print(6 * 7)"}, "42"),
        ("repl", {"code": "print(6 * 7)"}, "42"),
    ],
)
def test_the_sandbox_works_on_a_read_only_file_system_with_tmp(env_image, id, action, shown):
    extra = {"cap_drop": ["ALL"], "security_opt": ["no-new-privileges"]}
    provider = LocalDockerProvider(env_image(id), read_only=True, tmpfs={"/tmp": ""}, extra=extra)
    with running(provider) as url, connect(url) as env:
        env.reset()
        assert shown in repr(env.step(action).obs)


def test_the_openenv_client_starts_and_drives_an_image(docker_engine, echo_image):
    pytest.importorskip("openenv")
    if shutil.which("docker") is None:
        pytest.skip("openenv needs the `docker` command")
    script = Path(__file__).parent / "openenv_client" / "image.py"
    done = subprocess.run(
        [sys.executable, str(script), echo_image], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {"echoed_message": "hello", "reward": 0.5}


# The Dockerfiles of the repository.


def test_a_change_of_the_source_does_not_reinstall_dependencies(engine, python_image, tmp_path, tag):
    for name in ("docker", "src"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE", ".dockerignore"):
        shutil.copyfile(ROOT / name, tmp_path / name)
    settings = pip.read_settings()
    if found := pip.ca_bundle(settings):
        shutil.copyfile(found, tmp_path / "ca.pem")
    append(tmp_path / ".dockerignore", "!ca.pem\n")
    arguments = {"PYTHON": python_image, **pip.build_arguments(settings)}

    def layers():
        build_image(tmp_path, "docker/base/Dockerfile", tag, arguments, network="host", progress=quiet)
        return engine.images.get(tag).attrs["RootFS"]["Layers"]

    before = layers()
    append(tmp_path / "src/envweave/envs/echo.py", "# changed\n")
    after = layers()
    shared = [layer for layer in after if layer in before]
    python = engine.images.get(python_image).attrs["RootFS"]["Layers"]
    assert after != before
    assert len(shared) >= len(python) + 2  # the compiled standard library and the dependencies


@pytest.mark.parametrize(("id", "line"), [("ehco", "did you mean 'echo'?"), ("", "ENV_ID=… is missing")])
def test_an_unknown_id_fails_the_build_with_the_reason(docker_engine, base_image, tag, id, line):
    arguments = {"BASE": base_image, "ENV_ID": id}
    with pytest.raises(ProviderError, match="failed") as caught:
        build_image(ROOT, "docker/env/Dockerfile", tag, arguments, network=None, progress=quiet)
    assert line in str(caught.value)


# `envweave build`.


def test_build_builds_and_tests_an_image_of_an_id(docker_engine, base_image, tag):
    done = envweave("build", "nim", "--base", base_image, "-t", tag, "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["tag"] == tag
    assert found["env_id"] == "nim"
    assert found["size_bytes"] == image_size_bytes(tag) > 0
    assert 0 < found["healthy_seconds"] < 60
    assert f"{tag} 1/" in done.stderr


def test_a_project_of_init_is_built_and_served(docker_engine, base_image, project, tag):
    done = envweave("build", ".", "--base", base_image, "-t", tag, "--network", "host", cwd=project)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"{tag}  ")
    assert "healthy in" in done.stdout
    with running(LocalDockerProvider(tag, command=["--arg", "highest=1"])) as url, connect(url) as env:
        assert env.reset(seed=1).obs.feedback == "start"
        result = env.step({"guess": 1})
        assert result.terminated
        assert result.reward == 1.0


def test_dependencies_of_a_project_override_those_of_the_base(engine, base_image, project, tag):
    """The base has a newer `rich`, and no `iniconfig`."""
    toml = project / "pyproject.toml"
    toml.write_text(toml.read_text().replace('"envweave[server]"', '"envweave[server]", "iniconfig", "rich==13.7.1"'))
    done = envweave("build", ".", "--base", base_image, "-t", tag, "--network", "host", cwd=project)
    assert done.returncode == 0, done.stderr
    code = "import iniconfig, importlib.metadata as m; print(m.version('rich'))"
    assert engine.containers.run(tag, ["-c", code], entrypoint="python3", remove=True).strip() == b"13.7.1"


def test_an_installed_package_is_packed_into_the_image(docker_engine, base_image, tmp_path, tag):
    source, site = tmp_path / "plugin", tmp_path / "site"
    shutil.copytree(PLUGIN, source)
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-build-isolation", "--no-deps"]
    subprocess.run([*install, "--target", str(site), str(source)], check=True, capture_output=True)
    path = os.pathsep.join([str(site), os.environ.get("PYTHONPATH", "")])
    done = envweave("build", "demo-coin", "--base", base_image, "-t", tag, PYTHONPATH=path)
    assert done.returncode == 0, done.stderr
    with running(LocalDockerProvider(tag)) as url, connect(url) as env:
        assert env.reset(seed=1).obs == {"sides": 2}


def test_a_failed_build_shows_the_step_and_its_last_lines(docker_engine, base_image, project, tag):
    append(project / "pyproject.toml", "[tool.hatch.nonsense\n")
    done = envweave("build", str(project), "--base", base_image, "-t", tag, "--network", "host")
    assert done.returncode == 2
    assert "cannot read" in done.stderr
    toml = (project / "pyproject.toml").read_text().replace("[tool.hatch.nonsense\n", "")
    (project / "pyproject.toml").write_text(toml.replace('"hatchling.build"', '"hatchling.no_such_backend"'))
    done = envweave("build", str(project), "--base", base_image, "-t", tag, "--network", "host")
    lines = done.stderr.splitlines()
    assert done.returncode == 1
    assert lines[-1].startswith("step ")
    assert "failed: RUN for package" in lines[-1]
    assert "no_such_backend" in done.stderr
    assert done.stdout == ""


def test_a_build_that_fails_leaves_no_socket_open(docker_engine, python_image, tmp_path, tag):
    (tmp_path / "Dockerfile").write_text(f"FROM {python_image}\nRUN false\n")
    before = sockets()
    with pytest.raises(ProviderError, match="step 2/2") as caught:
        build_image(tmp_path, "Dockerfile", tag, {}, network="none", progress=quiet)
    assert caught.tb  # the frames of the error live as long as this
    assert sockets() == before


def sockets():
    """The sockets of this process."""
    names = (Path("/proc/self/fd") / name for name in os.listdir("/proc/self/fd"))
    return {target for name in names if name.is_symlink() and (target := os.readlink(name)).startswith("socket:")}


def test_a_server_that_exits_fails_the_build_with_its_last_lines(docker_engine, base_image, project, tag):
    code = (project / "quiz.py").read_text()
    (project / "quiz.py").write_text(f"{code}\n\nimport os\nif os.getuid():\n    raise OSError('not for such users')\n")
    done = envweave("build", str(project), "--base", base_image, "-t", tag, "--network", "host")
    assert done.returncode == 1
    assert "has ended with exit code" in done.stderr
    assert "not for such users" in done.stderr


def test_a_reset_that_raises_fails_the_build(docker_engine, base_image, project, tag):
    code, line = (project / "quiz.py").read_text(), "self._guesses_left = self._max_guesses\n"
    assert line in code
    (project / "quiz.py").write_text(code.replace(line, "raise OSError('no numbers left')\n"))
    done = envweave("build", str(project), "--base", base_image, "-t", tag, "--network", "host")
    assert done.returncode == 1
    assert "is healthy, but reset failed" in done.stderr
    assert "no numbers left" in done.stderr


def test_two_concurrent_builds_succeed(docker_engine, base_image, tag):
    command = [sys.executable, "-m", "envweave", "build", "counter", "--base", base_image, "-t", tag]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    ends = [(process.communicate(timeout=300), process.returncode) for process in both]
    assert [code for _, code in ends] == [0, 0], ends


def test_an_up_to_date_base_is_not_built_again(docker_engine, python_image, base_image, tag):
    from envweave.images.build import BuildOptions, ensure_base_image
    from support.images import ARGUMENTS

    options = BuildOptions(python_image=python_image, network="host", arguments=ARGUMENTS)
    first = ensure_base_image(options, pip.read_settings(), quiet, tag)
    steps = []
    assert ensure_base_image(options, pip.read_settings(), steps.append, tag) == first
    assert steps == []
    assert image_labels(tag)["envweave.python"] == python_image


@pytest.mark.parametrize(
    ("arguments", "code", "first", "second"),
    [
        (("ehco",), 2, "no environment named 'ehco'", "hint: did you mean 'echo'?"),
        (("./nowhere",), 2, "there is no folder 'nowhere'", "hint: envweave init"),
        (("http://127.0.0.1:1",), 2, "http://127.0.0.1:1 is already served", "hint: an image is built"),
        (
            ("pkg://json:JSONDecoder",),
            2,
            "'json:JSONDecoder' is not in an installed package",
            "hint: put it in a folder",
        ),
        (("wordgame:WordGame",), 2, "there is no module 'wordgame'", "hint:"),
        (("./wordgame.py",), 2, "there is no file 'wordgame.py'", "hint: an image is built"),
        (("echo", "--build-arg", "x"), 2, "'x' is not a build argument", "hint: write --build-arg"),
        (("echo", "--build-arg", "BASE=x"), 2, "the build argument BASE is reserved", "hint: use the ID or path"),
        (("echo", "--env", "echo"), 2, "--env echo cannot be used with the ID 'echo'", "hint: --env is for"),
        (("echo",), 1, "no Docker daemon at unix:///nowhere", "hint: is Docker installed"),
    ],
)
def test_an_error_is_two_lines(arguments, code, first, second):
    done = envweave("build", *arguments, DOCKER_HOST="unix:///nowhere")
    lines = done.stderr.strip().splitlines()
    assert done.returncode == code, done.stderr
    assert len(lines) == 2, done.stderr
    assert lines[0].startswith(first)
    assert lines[1].startswith(second)


@pytest.mark.parametrize(("package", "extra"), [("docker", "docker"), ("msgspec", "client"), ("websockets", "client")])
def test_a_missing_extra_is_reported_before_the_build(tmp_path, package, extra):
    missing = f"raise ModuleNotFoundError(\"No module named '{package}'\", name='{package}')"
    (tmp_path / f"{package}.py").write_text(missing)
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    done = envweave("build", "echo", PYTHONPATH=path)
    assert done.returncode == 2
    assert done.stderr.splitlines() == [f"'{package}' is not installed", f"hint: pip install 'envweave[{extra}]'"]


@pytest.mark.skipif(os.getuid() != 0, reason="only root can change the user")
def test_a_daemon_without_access_is_an_error(tmp_path):
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "sock"))
        (tmp_path / "sock").chmod(0o600)
        code = (
            "import os, sys; from envweave.images.engine import image_id; from envweave.errors import ProviderError\n"
            "os.setuid(65534)\n"
            "try: image_id('x')\n"
            "except ProviderError as error: print(error)"
        )
        env = {**os.environ, "DOCKER_HOST": f"unix://{tmp_path}/sock"}
        done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False)
    assert "Permission denied" in done.stdout, done.stderr
    assert "may you use it?" in done.stdout


def test_an_interrupted_build_leaves_no_container(engine, base_image, project, tag):
    append(project / "quiz.py", "\n\nimport time\n\ntime.sleep(60)\n")
    command = [sys.executable, "-m", "envweave", "build", ".", "--base", base_image, "-t", tag, "--network", "host"]
    process = subprocess.Popen(command, cwd=project, stderr=subprocess.PIPE, text=True)
    for line in process.stderr:
        if "RUN /opt/env/bin/python check_id.py" in line:
            break
    process.send_signal(signal.SIGINT)
    rest = process.communicate(timeout=30)[1]
    assert process.returncode == 130
    assert "Traceback" not in rest

    def sleeping():
        listed = engine.containers.list(ignore_removed=True)
        return [each for each in listed if "check_id.py" in str(each.attrs["Config"]["Cmd"]) + str(each.attrs["Args"])]

    until(lambda: not sleeping())
    assert image_labels(tag) is None
