"""What an image is built from: an environment ID or a project folder."""

from __future__ import annotations

import os
import tomllib
from dataclasses import dataclass
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from envweave.core.ids import EnvID, image_name
from envweave.core.lookup import distribution_name
from envweave.core.suggest import nearest
from envweave.errors import EnvNotFoundError, UsageError
from envweave.images.wheel import editable_project
from envweave.registry.make import spec
from envweave.registry.resolvers.entry_points import GROUP, offered

ENVWEAVE = "envweave"
"""The distribution that is already in the base image."""


@dataclass(frozen=True)
class BuildTarget:
    """The environment that an image serves, and the package that must be installed for it."""

    env_id: str
    tag: str
    project: Path | None = None
    """Folder that pip can install."""
    distribution: Distribution | None = None
    """Installed distribution, which is packed into a wheel."""


def resolve_target(text: str, env: str = "") -> BuildTarget:
    """Resolve an ID or a project folder; `env` selects one of several environments of a project.

    A bare name that is both an ID and a folder is the ID. Raises `UsageError` with the form to use instead.
    """
    is_uri = "://" in text
    file, _, attribute = text.partition(":")
    if not is_uri and "?" not in file and file.endswith(".py"):
        raise _file_error(Path(file), attribute or "MyEnv")
    if not is_uri and ("/" in text or text in (".", "..")):
        return _from_project(Path(text), env)
    try:
        target = _from_id(text)
    except EnvNotFoundError as error:
        if Path(text).is_dir():
            return _from_project(Path(text), env)
        if not is_uri and attribute:
            raise EnvNotFoundError(error.message, _class_hint(EnvID.parse(text).locator)) from error
        raise
    if env:
        raise UsageError(f"--env {env} cannot be used with the ID {text!r}", "--env is for project folders")
    return target


def project_table(folder: Path) -> dict[str, Any]:
    """Return the table `project` of a pyproject.toml. Raises `UsageError` if the file is missing or invalid."""
    if not folder.is_dir():
        raise UsageError(f"there is no folder {str(folder)!r}", "envweave init my_env creates a project")
    try:
        data = tomllib.loads((folder / "pyproject.toml").read_text())
    except FileNotFoundError:
        raise UsageError(f"{str(folder)!r} has no pyproject.toml", "envweave init my_env creates a project") from None
    except (OSError, ValueError) as error:
        raise UsageError(f"cannot read {folder / 'pyproject.toml'}: {error}") from error
    project = data.get("project", {})
    return project if isinstance(project, dict) else {}


def _from_id(text: str) -> BuildTarget:
    id = EnvID.parse(text)
    found = spec(text)
    if found.url or found.image:
        message = f"{text} is already served" if found.url else f"{text} is already an image"
        raise UsageError(message, "an image is built from an ID or a project folder")
    tag = image_name(f"envweave-{id.locator}")
    package = _find_distribution(id, found.source)
    if package.name == ENVWEAVE:
        return BuildTarget(text, tag)
    project = editable_project(package)
    return BuildTarget(text, tag, project=project, distribution=None if project else package)


def _find_distribution(id: EnvID, source: str) -> Distribution:
    """Return the installed distribution that an environment comes from."""
    name = source
    if id.scheme == "pkg":
        name = distribution_name(_top_level(id.locator))
    elif id.scheme not in ("", "ep") and id.scheme in (points := offered("envweave.resolvers")):
        name = getattr(points[id.scheme].dist, "name", "")
    try:
        return distribution(name)
    except (PackageNotFoundError, ValueError):
        hint = "build from its project folder: envweave build path/to/project"
        if id.scheme == "pkg":
            hint = _project_hint(_module_file(id.locator), id.locator)
        raise UsageError(f"{id.locator!r} is not in an installed package", hint) from None


def _from_project(folder: Path, env: str) -> BuildTarget:
    project = project_table(folder)
    name = project.get("name")
    if not isinstance(name, str):
        raise UsageError(f"{folder / 'pyproject.toml'} has no project.name")
    points = project.get("entry-points", {}).get(GROUP, {})
    return BuildTarget(_select_env(folder, list(points), env), image_name(name), project=folder.resolve())


def _select_env(folder: Path, names: list[str], env: str) -> str:
    if not names:
        hint = f"add an entry point to pyproject.toml, e.g. {_entry_point('my-env', 'my_env:MyEnv')}"
        raise UsageError(f"the project in {str(folder)!r} lists no environment", hint)
    if env and env not in names:
        near = nearest(env, names)
        hint = f"did you mean {near!r}?" if near else f"its environments are {', '.join(names)}"
        raise UsageError(f"the project in {str(folder)!r} has no environment {env!r}", hint)
    if not env and len(names) > 1:
        hint = f"choose one with --env: {', '.join(names)}"
        raise UsageError(f"the project in {str(folder)!r} has {len(names)} environments", hint)
    return env or names[0]


def _file_error(file: Path, attribute: str) -> UsageError:
    if not file.is_file():
        return UsageError(f"there is no file {str(file)!r}", "an image is built from an ID or a project folder")
    message = f"{str(file)!r} is a file; an image is built from an ID or a project folder"
    return UsageError(message, _project_hint(file, f"{file.stem}:{attribute}"))


def _class_hint(locator: str) -> str:
    """How to build `module:Class`."""
    file = _module_file(locator)
    if file is None:
        return f"there is no module {_top_level(locator)!r}; a class of an installed package is pkg://module:Class"
    try:
        distribution(distribution_name(_top_level(locator)))
    except (PackageNotFoundError, ValueError):
        return _project_hint(file, locator)
    return f"envweave build pkg://{locator}"


def _project_hint(file: Path | None, locator: str) -> str:
    """How to build a class that is in no installed package: from the project that its file belongs to, or a new one."""
    project = None if file is None else _project_folder(file)
    if project is not None:
        return f"build its project: envweave build {os.path.relpath(project)}"
    entry_point = _entry_point(_top_level(locator), locator)
    return (
        f"put it in a folder with a pyproject.toml that has {entry_point}, then: envweave build FOLDER "
        "(envweave init my_env writes such a project with an example class)"
    )


def _entry_point(name: str, locator: str) -> str:
    return f'{name} = "{locator}" under [project.entry-points."{GROUP}"]'


def _project_folder(file: Path) -> Path | None:
    """Return the folder with the pyproject.toml of a module, in the flat or the `src` layout."""
    folder = file.resolve().parent
    while (folder / "__init__.py").is_file():
        folder = folder.parent
    folder = folder.parent if folder.name == "src" else folder
    return folder if (folder / "pyproject.toml").is_file() else None


def _module_file(locator: str) -> Path | None:
    try:
        found = find_spec(_top_level(locator))
    except (ImportError, ValueError):
        return None
    return Path(found.origin) if found and found.origin else None


def _top_level(locator: str) -> str:
    """`package` of `package.module:Class`."""
    return locator.partition(":")[0].partition(".")[0]
