"""A server from a package that uv installs for it, in an environment of its own: a folder, a name, a Git address."""

from __future__ import annotations

import os
import shutil
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from envweave.errors import UnavailableError, UsageError
from envweave.providers.subprocess import HOST, SubprocessProvider

OPENENV_SCRIPT = "server"
"""The command that OpenEnv's packages have."""


class UVProvider(SubprocessProvider):
    """`uv run` of a project's server, on this machine and without walls: install only what you trust.

    `project` is a folder with a pyproject.toml, or what `uv` can install (`my-env==1.2`, `git+https://…`);
    `project_path` is OpenEnv's name for it. A folder is served by the name under which it offers an environment to
    envweave; what offers none, or is no folder, by OpenEnv's command `server`. `env` names the environment where there
    are several, or where it cannot be seen; `command` says it all, with `{port}` where the port belongs.
    """

    def __init__(
        self,
        project: str | os.PathLike[str] = "",
        *,
        project_path: str | os.PathLike[str] | None = None,
        env: str = "",
        command: Sequence[str] | None = None,
        with_packages: Sequence[str] = (),
        python: str | None = None,
        env_vars: Mapping[str, str] | None = None,
        options: Sequence[str] = (),
        start_timeout: float = 600.0,
        stop_timeout: float = 5.0,
    ) -> None:
        super().__init__(
            os.fspath(project if project_path is None else project_path),
            options=options,
            env_vars=env_vars,
            start_timeout=start_timeout,
            stop_timeout=stop_timeout,
        )
        self._env = env
        self._inner = command
        self._with = tuple(with_packages)
        self._python = python

    def _command(self) -> Sequence[str]:
        if not self.id:
            raise UsageError("no project is named", "a folder with a pyproject.toml, or what uv can install")
        folder = Path(self.id)
        is_folder = folder.is_dir()
        if is_folder and not (folder / "pyproject.toml").is_file():
            raise UsageError(f"{self.id!r} has no pyproject.toml", "envweave init makes one")
        if not is_folder and (self.id.startswith((".", "/", "~")) or os.sep in self.id.partition("+")[0]):
            raise UsageError(f"there is no folder {self.id!r}")
        source = ["--project", str(folder.resolve())] if is_folder else ["--no-project", "--with", self.id]
        extra = [word for package in self._with for word in ("--with", package)]
        python = ["--python", self._python] if self._python else []
        head = [_uv(), "run", "--isolated", "--no-dev" if is_folder else "--quiet", *source, *extra, *python, "--"]
        return [*head, *self._serving(folder if is_folder else None)]

    def _serving(self, folder: Path | None) -> Sequence[str]:
        if self._inner is not None:
            return self._inner
        offered, scripts = _offers(folder) if folder is not None else ([], [OPENENV_SCRIPT])
        if self._env or offered:
            name = self._env or _only(offered, self.id)
            return ["envweave", "serve", name, "--port", "0", *self._options]
        if OPENENV_SCRIPT in scripts:
            return [OPENENV_SCRIPT, "--host", HOST, "--port", "{port}", *self._options]
        hint = 'add one under [project.entry-points."envweave.envs"], or say command=[…]'
        raise UsageError(f"{self.id!r} offers no environment", hint)

    def _variables(self) -> dict[str, str]:
        """Without the virtual environment that we run in, which is not the project's."""
        return {name: value for name, value in super()._variables().items() if name != "VIRTUAL_ENV"}


def _offers(folder: Path) -> tuple[list[str], list[str]]:
    """The environments and the commands of a project."""
    try:
        project: dict[str, Any] = tomllib.loads((folder / "pyproject.toml").read_text()).get("project", {})
    except (OSError, ValueError) as error:
        raise UsageError(f"the pyproject.toml of {str(folder)!r} cannot be read: {error}") from None
    return list(project.get("entry-points", {}).get("envweave.envs", {})), list(project.get("scripts", {}))


def _only(offered: Sequence[str], project: str) -> str:
    if len(offered) > 1:
        raise UsageError(f"{project!r} offers {', '.join(offered)}", "env=… names one of them")
    return offered[0]


def _uv() -> str:
    found = shutil.which("uv")
    if found:
        return found
    try:
        from uv import find_uv_bin
    except ModuleNotFoundError:
        raise UnavailableError("'uv' is not installed", "pip install uv") from None
    return str(find_uv_bin())
