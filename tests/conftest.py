"""What tests of every kind may ask for."""

import importlib.util
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

FIRST = (
    "test_container_faults",
    "test_openenv_mcp",
    "test_openenv_client",
    "test_images",
    "strays",
    "test_containers",
    "test_sandboxes.py::TestDocker",
    "test_original_images",
    "test_sandbox_docker",
    "test_docker_provider",
    "test_same_types",
    "test_plugin",
    "test_checkers",
    "test_repl.py",
    "test_openenv",
)
"""Parts of the names of the groups of tests that take longest, in the order in which they begin.

The first of them builds the images of the others, so the second and third do not need any: with two to three processes,
nobody waits.
"""

HERE = str(Path(__file__).parent)
if HERE not in sys.path:
    sys.path.append(HERE)

from support.need import need  # noqa: E402  (found by the path above)


def pytest_configure(config: pytest.Config) -> None:
    """Load the plugin of a checkout whose metadata was installed before it had one, and start what processes share."""
    from envweave.testing import plugin

    if not config.pluginmanager.is_registered(plugin):
        config.pluginmanager.register(plugin, "envweave")
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a shell ignores it in the background, and so would tests
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if getattr(config.option, "numprocesses", None) and not hasattr(config, "workerinput"):
        _share_engine(config)


def _share_engine(config: pytest.Config) -> None:
    """Start one Docker daemon for all test processes, which find it by DOCKER_HOST; without one, each looks itself."""
    if importlib.util.find_spec("docker") is None:
        return
    from support.engine import EngineError, running_engine

    stack = ExitStack()
    try:
        url = stack.enter_context(running_engine())
    except EngineError:
        return
    stack.enter_context(pytest.MonkeyPatch.context()).setenv("DOCKER_HOST", url)
    config.add_cleanup(stack.close)


def pytest_itemcollected(item: pytest.Item) -> None:
    """A test has the same name in all processes, so none may contain the address of an object."""
    if " at 0x" in item.nodeid:
        raise pytest.UsageError(f"{item.nodeid}: choose `ids` without the address of an object")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Those that take longest begin."""
    items.sort(key=lambda item: place_of(group_of(item.nodeid)))


def place_of(group: str) -> int:
    return next((place for place, name in enumerate(FIRST) if name in group), len(FIRST))


@pytest.hookimpl(optionalhook=True)  # where xdist is installed
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Where tests run in several processes, those of one file or class run in one: what they share is started once.

    Tests that remove strays of the whole machine are one group. (`--dist loadgroup` groups nothing with pytest 9.2: the
    scheduler reads groups from the IDs of tests, which xdist 3.8 can no longer change.)
    """
    from xdist.scheduler import LoadScopeScheduling

    class GroupScheduling(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return group_of(nodeid)

    return GroupScheduling(config, log) if config.getvalue("dist") == "loadscope" else None


def group_of(nodeid: str) -> str:
    """The name of the group of tests that run in one process."""
    scope, _, name = nodeid.partition("[")[0].rpartition("::")
    if "gc" in name.split("_") or "stray" in name or "/test_providers.py" in scope:
        return "strays"
    return scope


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
    from support.images import one_at_a_time

    with closing(connect(docker_engine)) as client, one_at_a_time():
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
