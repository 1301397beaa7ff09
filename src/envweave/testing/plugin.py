"""The pytest plugin: the mark `conformance` and the fixture `env_server`.

pytest loads it by an entry point whenever it runs, so it imports nothing heavy. The suites are in
`envweave.testing.suites` and are imported by the tests that subclass them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

SUITES = "envweave.testing.suites"

pytest.register_assert_rewrite(SUITES)  # a failure shows the values that were compared


def pytest_configure(config: pytest.Config) -> None:
    """Declare the mark, so that `--strict-markers` accepts it and `-m` can select the suites."""
    config.addinivalue_line("markers", f"conformance: a test of a conformance suite from {SUITES}")


@pytest.fixture(scope="module")
def env_server() -> Iterator[Callable[..., str]]:
    """Return the URL of a server: `env_server(ID, *OPTIONS)` runs `envweave serve ID OPTIONS` on a free port.

    A server runs until the tests of the module have run. A second call with the same arguments returns the same URL.
    """
    from envweave.testing.serving import running_server  # loaded only if a test asks for a server
    from envweave.testing.suites.base import import_path

    urls: dict[tuple[str, ...], str] = {}
    with ExitStack() as servers:

        def url(id: str, *options: str, **variables: str) -> str:
            key = (id, *options, *(f"{name}={value}" for name, value in sorted(variables.items())))
            if key not in urls:
                env = {"PYTHONPATH": import_path(), **variables}
                urls[key] = servers.enter_context(running_server(id, *options, env=env)).url
            return urls[key]

        yield url
