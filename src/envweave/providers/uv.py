"""A server from a package that uv installs in an environment of its own: a folder, a name or a Git URL."""

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
"""The command of OpenEnv's packages."""


class UVProvider(SubprocessProvider):
    """`uv run` of a project's server, on this machine and without isolation: install only what you trust.

    `project` (OpenEnv: `project_path`) is a folder with a pyproject.toml, or what `uv` can install (`my-env==1.2`,
    `git+https://…`). A folder that lists an environment for envweave is served by `envweave serve`, anything else by
    OpenEnv's command `server`. `env` names the environment if there are several, or if the project is not a folder.
    `command` replaces all of this; `{port}` in it is replaced by a free port.
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
        self._inner_command = command
        self._packages = tuple(with_packages)
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
        extra = [word for package in self._packages for word in ("--with", package)]
        python = ["--python", self._python] if self._python else []
        head = [_uv(), "run", "--isolated", "--no-dev" if is_folder else "--quiet", *source, *extra, *python, "--"]
        return [*head, *self._server_command(folder if is_folder else None)]

    def _server_command(self, folder: Path | None) -> Sequence[str]:
        if self._inner_command is not None:
            return self._inner_command
        names, scripts = _read_project(folder) if folder is not None else ([], [OPENENV_SCRIPT])
        if len(names) > 1 and not self._env:
            raise UsageError(f"{self.id!r} offers {', '.join(names)}", "env=… names one of them")
        if self._env or names:
            return ["envweave", "serve", self._env or names[0], "--port", "0", *self._options]
        if OPENENV_SCRIPT in scripts:
            return [OPENENV_SCRIPT, "--host", HOST, "--port", "{port}", *self._options]
        hint = 'add one under [project.entry-points."envweave.envs"], or pass command=[…]'
        raise UsageError(f"{self.id!r} offers no environment", hint)

    def _variables(self) -> dict[str, str]:
        """Without our own virtual environment, which is not the project's."""
        return {name: value for name, value in super()._variables().items() if name != "VIRTUAL_ENV"}


def _read_project(folder: Path) -> tuple[list[str], list[str]]:
    """Return the environments and the commands of a project."""
    try:
        project: dict[str, Any] = tomllib.loads((folder / "pyproject.toml").read_text()).get("project", {})
    except (OSError, ValueError) as error:
        raise UsageError(f"the pyproject.toml of {str(folder)!r} cannot be read: {error}") from None
    return list(project.get("entry-points", {}).get("envweave.envs", {})), list(project.get("scripts", {}))


def _uv() -> str:
    found = shutil.which("uv")
    if found:
        return found
    try:
        from uv import find_uv_bin
    except ModuleNotFoundError:
        raise UnavailableError("'uv' is not installed", "pip install uv") from None
    return str(find_uv_bin())
