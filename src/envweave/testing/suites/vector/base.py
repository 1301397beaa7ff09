"""The fixtures of the vector suite."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar, TypeAlias

import pytest

from envweave.registry.vectors import make_vector as make_reference
from envweave.testing.suites.base import Suite, missing, shared
from envweave.testing.suites.record import VectorRecorder, compared, vector_played
from envweave.testing.suites.transport.base import SCRIPTED

MakeVector: TypeAlias = Callable[..., Any]
"""Takes an ID, the number of environments, and the options `autoreset` and `step_timeout`."""

SameRows: TypeAlias = Callable[..., list[dict[str, Any]]]
"""Takes an ID, the number of environments, a script and the options of a vector. Returns what was said, as data."""

_MODULE = "envweave.testing.suites.vector.environments"
WALK_NAME, STEERED_NAME = f"{_MODULE}:WalkEnv", f"{_MODULE}:SteeredEnv"
WALK = f"pkg://{WALK_NAME}"
GO = {"do": "go on"}

__all__ = ["GO", "SCRIPTED", "STEERED_NAME", "WALK", "WALK_NAME", "MakeVector", "SameRows", "VectorTests", "counts"]


class VectorTests(Suite):
    """What a subclass says about its vectors, and the vectors that the tests use."""

    timeouts: ClassVar[bool] = True
    """`step_timeout` is supported: a step that takes longer is given up."""

    @pytest.fixture
    def make_vector(self, request: pytest.FixtureRequest) -> MakeVector:
        """To be defined: a function that makes a vector; the tests close it.

        The environments run on this machine, and branching is allowed.
        """
        missing(request, "return a function of an ID, a number and options from it")

    @pytest.fixture
    def vector(self, make_vector: MakeVector, files: Path) -> Iterator[MakeVector]:
        """Make vectors, which are closed after the test."""
        made: list[Any] = []

        def make(id: str, num_envs: int, **options: Any) -> Any:
            made.append(make_vector(id, num_envs, **options))
            return made[-1]

        yield make
        for file in files.iterdir():
            file.unlink()
        for one in made:
            one.close()

    @pytest.fixture
    def files(self, request: pytest.FixtureRequest) -> Path:
        """The folder whose files steer the environments, wherever they run."""
        return shared(request, "files", _folder)

    @pytest.fixture
    def steered(self, files: Path) -> str:
        """The ID of an environment that does what actions and files say."""
        return f"pkg://{STEERED_NAME}?folder={files}"

    @pytest.fixture
    def uncopyable(self, files: Path) -> str:
        """The ID of an environment that cannot be forked."""
        return f"pkg://{_MODULE}:UncopyableEnv?folder={files}"

    @pytest.fixture
    def same_rows(self, make_vector: MakeVector) -> SameRows:
        """Play a script on a vector of this process and on the one under test, and compare what was said."""

        def compare(id: str, num_envs: int, script: Callable[[VectorRecorder], Any], **options: Any) -> Any:
            expected = vector_played(make_reference(id, num_envs, backend="inproc", **options), script)
            return compared(vector_played(make_vector(id, num_envs, **options), script), expected)

        return compare

    def needs_timeouts(self) -> None:
        if not self.timeouts:
            pytest.skip("it does not support step_timeout")


def counts(batch: Any) -> list[int]:
    """How many steps each row of `SteeredEnv` has made."""
    return [observation.count for observation in batch.obs]


@contextmanager
def _folder() -> Iterator[Path]:
    with TemporaryDirectory(prefix="envweave-suite-") as folder:
        yield Path(folder)
