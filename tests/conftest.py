"""What tests of every kind may ask for."""

import importlib.util
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

HERE = str(Path(__file__).parent)
if HERE not in sys.path:
    sys.path.append(HERE)

from support.need import need  # noqa: E402  (found by the path above)


def pytest_configure(config: pytest.Config) -> None:
    """Load the plugin of a checkout whose metadata was installed before it had one."""
    from envweave.testing import plugin

    if not config.pluginmanager.is_registered(plugin):
        config.pluginmanager.register(plugin, "envweave")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Where tests run in several processes, those that need the Docker daemon run in two, because each has its own.

    A test has the same name in all processes, so none may contain the address of an object.
    """
    for item in items:
        if " at 0x" in item.nodeid:
            raise pytest.UsageError(f"{item.nodeid}: choose `ids` without the address of an object")
        parameters = item.callspec.params if hasattr(item, "callspec") else {}
        if "gc" in item.name.split("_") or "stray" in item.name or item.path.name == "test_providers.py":
            item.add_marker(pytest.mark.xdist_group("docker 1"))  # `envweave gc` removes strays of the whole machine
        elif "docker_engine" in getattr(item, "fixturenames", ()) or _names_docker(parameters):
            second = "images" in item.path.name or "sandbox" in item.path.name
            item.add_marker(pytest.mark.xdist_group("docker 2" if second else "docker 1"))


def _names_docker(parameters: dict[str, object]) -> bool:
    return any(isinstance(value, str) and value == "docker" for value in parameters.values())


@pytest.fixture(scope="session")
def docker_engine() -> Iterator[str]:
    """The URL of a Docker daemon, which is also DOCKER_HOST until the tests end."""
    if importlib.util.find_spec("docker") is None:
        need("docker", "there is no `docker` package: pip install docker")
    from support.engine import EngineError, running_engine

    with ExitStack() as stack:
        try:
            url = stack.enter_context(running_engine())
        except EngineError as error:
            need("docker", str(error))
        stack.enter_context(pytest.MonkeyPatch.context()).setenv("DOCKER_HOST", url)
        yield url


@pytest.fixture(scope="session")
def python_image(docker_engine: str) -> str:
    """The tag of a local image with this machine's CPython in /usr/local."""
    from support.engine import connect
    from support.image import ensure_image

    with closing(connect(docker_engine)) as client:
        return ensure_image(client)


@pytest.fixture(scope="session")
def base_image(docker_engine: str, python_image: str) -> str:
    """The tag of an image with this envweave and its server, which is built if it is not there yet."""
    from support.images import ensure_base

    return ensure_base(python_image)


@pytest.fixture(scope="session")
def env_image(base_image: str) -> Callable[[str], str]:
    """From the ID of an environment to the tag of an image that serves it; nothing is built twice."""
    from support.images import ensure_env

    def image(id: str) -> str:
        return ensure_env(id, base_image)

    return image


@pytest.fixture(scope="session")
def echo_image(env_image: Callable[[str], str]) -> str:
    """The tag of an image that serves `echo`."""
    return env_image("echo")
