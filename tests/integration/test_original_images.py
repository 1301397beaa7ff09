"""The Dockerfiles and `docker build` lines of the original documents, in a real Docker daemon."""

import os
import shutil
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

pytest.importorskip("docker")

from envweave.client import HTTPEnvClient
from envweave.client.env_client import connect
from envweave.images import pip
from envweave.images.engine import build_image
from envweave.providers import running
from envweave.providers.docker import LocalDockerProvider
from support.engine import connect as connect_engine
from support.images import built, quiet
from support.until import until

ROOT = Path(__file__).parent.parent.parent
pytestmark = pytest.mark.timeout(400)  # the first of these tests builds images

PRINTED = """
FROM envweave-base:latest
COPY src/ /app/src/
ENV PYTHONPATH=/app/src
HEALTHCHECK --interval=1s --timeout=3s --start-period=5s --retries=30 \\
    CMD curl -f http://localhost:8000/health || exit 1
CMD ["uvicorn", "my_env.server.app:app", "--host", "0.0.0.0", "--port", "8000"]
"""
APP = """
from my_env.models import MyAction, MyEnvironment, MyObservation
from envweave.server import create_fastapi_app

env = MyEnvironment()
app = create_fastapi_app(env, MyAction, MyObservation)
"""


@pytest.fixture(scope="module")
def engine(docker_engine):
    with closing(connect_engine(docker_engine)) as client:
        yield client


@contextmanager
def image(engine, folder, dockerfile, **arguments):
    """Build an image, and remove it afterwards."""
    tag = f"envweave-test-document-{os.getpid()}:latest"
    try:
        built(lambda: build_image(folder, dockerfile, tag, arguments, network="host", progress=quiet))
        yield tag
    finally:
        for found in engine.images.list(tag):
            engine.images.remove(found.id, force=True)


@pytest.fixture(scope="module")
def my_image(engine, base_image, tmp_path_factory):
    """The document's own Dockerfile, from `FROM` on, with the document's server."""
    folder = tmp_path_factory.mktemp("my_env")
    (folder / "Dockerfile").write_text(PRINTED.replace("envweave-base:latest", base_image))
    server = folder / "src" / "my_env" / "server"
    server.mkdir(parents=True)
    (server / "app.py").write_text(APP)
    shutil.copy(ROOT / "tests" / "support" / "my_env.py", server.parent / "models.py")
    with image(engine, folder, "Dockerfile") as tag:
        yield tag


def test_002_the_printed_dockerfile_serves_with_its_own_command(my_image):
    with running(LocalDockerProvider(my_image)) as url, HTTPEnvClient(url) as env:
        env.reset()
        assert env.step({"message": "hello"}).observation.response == "HELLO"


def test_002_the_printed_health_check_with_curl_succeeds(engine, my_image):
    started = engine.containers.run(my_image, detach=True, labels={"envweave.test": "documents"})
    try:

        def is_healthy():
            started.reload()
            return started.attrs["State"]["Health"]["Status"] == "healthy"

        until(is_healthy)
        assert started.exec_run("curl -f http://localhost:8000/health").exit_code == 0
        assert started.exec_run("curl -f http://localhost:8000/nothing").exit_code == 22
        assert started.exec_run("curl -f http://localhost:1/health").exit_code == 7
    finally:
        started.remove(force=True, v=True)


def test_000_the_printed_build_of_lineworld_works_on_a_fresh_machine(engine, python_image, tmp_path):
    for name in ("docker", "src"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE", ".dockerignore"):
        shutil.copyfile(ROOT / name, tmp_path / name)
    settings = pip.read_settings()
    if found := pip.ca_bundle(settings):  # only because of where the tests run
        shutil.copyfile(found, tmp_path / "ca.pem")
        (tmp_path / ".dockerignore").write_text((tmp_path / ".dockerignore").read_text() + "!ca.pem\n")
    arguments = {"PYTHON": python_image, **pip.build_arguments(settings)}
    with (
        image(engine, tmp_path, "docker/lineworld_env_server/Dockerfile", **arguments) as tag,
        running(LocalDockerProvider(tag, command=["--arg", "size=3"])) as url,
        connect(url) as env,
    ):
        assert abs(env.reset(seed=1).obs.goal) == 3
