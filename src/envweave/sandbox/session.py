"""A session: variables, functions, imports and files that last from run to run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from envweave.sandbox.base import ExecutionResult, Inspection
from envweave.sandbox.calls import Tools
from envweave.sandbox.core import UNSET, Core
from envweave.sandbox.waiting import BLOCKING, LOOPING, drive


class Session:
    """Code runs here, one run after the other. Not for two threads at once; `interrupt` may come from any."""

    def __init__(self, core: Core) -> None:
        self._core = core

    def run(self, code: str, timeout: float | None = UNSET) -> ExecutionResult:
        """Run code to its end, or to the limit it hits; without a timeout of its own, `limits.wall` holds."""
        return drive(self._core.run(BLOCKING, code, timeout))

    def run_and_inspect(
        self,
        code: str,
        timeout: float | None = UNSET,
        *,
        names: Sequence[str] = (),
        expression: str | None = None,
        longest: int = 500,
        most: int | None = None,
    ) -> tuple[ExecutionResult, Inspection | None]:
        """Run code, and look at what it leaves, in one exchange with the process. The result is that of the run.

        The second is the value of `expression`, which is code of yours, what `get` returns for `names`, and
        `describe(longest, most)`. It is None if the run, or a `__repr__` after it, ended the process; `state` of the
        result says what became of the session. The look has the time of a run, can call no tools, and what it prints is
        discarded.
        """
        return drive(self._core.run_and_inspect(BLOCKING, code, timeout, names, expression, longest, most))

    def variables(self) -> dict[str, str]:
        """Names that the code has defined, with the type of each."""
        return drive(self._core.variables(BLOCKING))

    def get(self, name: str) -> Any:
        """The value of a variable: as data where it is JSON, else as a bounded `repr`."""
        return drive(self._core.get(BLOCKING, name))

    def describe(self, longest: int = 500, most: int | None = None) -> dict[str, str]:
        """Names that the code has defined, the first so many, with the `repr` of each, cut to so many characters."""
        return drive(self._core.describe(BLOCKING, longest, most))

    def define(self, code: str) -> None:
        """Run code of yours: what it defines is at hand inside, is no variable, and in no traceback."""
        drive(self._core.define(BLOCKING, code))

    @property
    def births(self) -> int:
        """How many interpreters it has had: one more after each run whose state is `restarted`."""
        return self._core.births

    def set(self, name: str, value: Any) -> None:
        """Give a variable a value, which must be data. A long text is not copied on its way."""
        drive(self._core.set(BLOCKING, name, value))

    def interrupt(self) -> bool:
        """Stop what is being run, as Ctrl-C would. False if nothing is."""
        return drive(self._core.interrupt(BLOCKING))

    def fork(self, *, tools: Tools | None = None) -> Session:
        """An independent session with the same live state. Raises `UnsupportedError` with what stands in the way.

        `tools` are other functions of yours for it, under the names that the code knows already.
        """
        return Session(drive(self._core.fork(BLOCKING, tools)))

    def snapshot(self) -> Snapshot:
        """The state as it is now, to come back to any number of times. It takes the place of a fork until closed."""
        return Snapshot(drive(self._core.fork(BLOCKING)))

    def restore(self, snapshot: AsyncSnapshot | Snapshot) -> None:
        """Be as the snapshot is, variables and files. What has happened since is gone."""
        drive(self._core.restore(BLOCKING, snapshot._core))

    def read_file(self, path: str) -> bytes:
        """A file of the work folder. No symbolic link is followed."""
        return drive(self._core.read_file(BLOCKING, path))

    def write_file(self, path: str, data: bytes | str) -> None:
        """Write a file of the work folder, and the folders it lies in."""
        drive(self._core.write_file(BLOCKING, path, data))

    def list_files(self) -> dict[str, int]:
        """The files of the work folder by path, with their sizes; at most 100,000."""
        return drive(self._core.list_files(BLOCKING))

    def close(self) -> None:
        """End it, with all its processes and files. Safe to call twice."""
        drive(self._core.close(BLOCKING))

    @property
    def aio(self) -> AsyncSession:
        """The same session for `await`."""
        return AsyncSession(self._core)

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AsyncSession:
    """A session on an event loop; each method is as on `Session`."""

    def __init__(self, core: Core) -> None:
        self._core = core

    async def run(self, code: str, timeout: float | None = UNSET) -> ExecutionResult:
        return await self._core.run(LOOPING, code, timeout)

    async def run_and_inspect(
        self,
        code: str,
        timeout: float | None = UNSET,
        *,
        names: Sequence[str] = (),
        expression: str | None = None,
        longest: int = 500,
        most: int | None = None,
    ) -> tuple[ExecutionResult, Inspection | None]:
        return await self._core.run_and_inspect(LOOPING, code, timeout, names, expression, longest, most)

    async def variables(self) -> dict[str, str]:
        return await self._core.variables(LOOPING)

    async def get(self, name: str) -> Any:
        return await self._core.get(LOOPING, name)

    async def describe(self, longest: int = 500, most: int | None = None) -> dict[str, str]:
        return await self._core.describe(LOOPING, longest, most)

    async def define(self, code: str) -> None:
        await self._core.define(LOOPING, code)

    @property
    def births(self) -> int:
        return self._core.births

    async def set(self, name: str, value: Any) -> None:
        await self._core.set(LOOPING, name, value)

    async def interrupt(self) -> bool:
        return await self._core.interrupt(LOOPING)

    async def fork(self, *, tools: Tools | None = None) -> AsyncSession:
        return AsyncSession(await self._core.fork(LOOPING, tools))

    async def snapshot(self) -> AsyncSnapshot:
        return AsyncSnapshot(await self._core.fork(LOOPING))

    async def restore(self, snapshot: AsyncSnapshot | Snapshot) -> None:
        await self._core.restore(LOOPING, snapshot._core)

    async def read_file(self, path: str) -> bytes:
        return await self._core.read_file(LOOPING, path)

    async def write_file(self, path: str, data: bytes | str) -> None:
        await self._core.write_file(LOOPING, path, data)

    async def list_files(self) -> dict[str, int]:
        return await self._core.list_files(LOOPING)

    async def close(self) -> None:
        await self._core.close(LOOPING)

    @property
    def sync(self) -> Session:
        return Session(self._core)

    async def __aenter__(self) -> AsyncSession:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


class Snapshot:
    """A parked fork. It runs nothing and costs little, and lasts as long as its sandbox, or until it is closed."""

    def __init__(self, core: Core) -> None:
        self._core = core

    def start(self, *, tools: Tools | None = None) -> Session:
        """A new session that begins here; `tools` as for `Session.fork`."""
        return Session(drive(self._core.fork(BLOCKING, tools)))

    def close(self) -> None:
        drive(self._core.close(BLOCKING))

    @property
    def aio(self) -> AsyncSnapshot:
        """The same snapshot for `await`."""
        return AsyncSnapshot(self._core)

    def __enter__(self) -> Snapshot:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AsyncSnapshot:
    """A snapshot on an event loop."""

    def __init__(self, core: Core) -> None:
        self._core = core

    async def start(self, *, tools: Tools | None = None) -> AsyncSession:
        return AsyncSession(await self._core.fork(LOOPING, tools))

    async def close(self) -> None:
        await self._core.close(LOOPING)

    async def __aenter__(self) -> AsyncSnapshot:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
