"""What an image is asked for: an environment by its ID, or the project in a folder."""

from __future__ import annotations

import sys
import tomllib
from dataclasses import dataclass
from importlib.metadata import Distribution, PackageNotFoundError, distribution, packages_distributions
from pathlib import Path
from typing import Any

from envweave.core.ids import EnvID, image_name
from envweave.core.suggest import nearest
from envweave.errors import EnvNotFoundError, UsageError
from envweave.images.wheel import project_folder
from envweave.registry.make import spec
from envweave.registry.resolvers.entry_points import GROUP, offered

OWN = "envweave"
"""Its distribution is in the base image already."""


@dataclass(frozen=True)
class Target:
    """What is to be served, and what has to be in the image for that."""

    env_id: str
    tag: str
    project: Path | None = None
    """A folder that pip can install."""
    distribution: Distribution | None = None
    """One that is installed here, which is packed."""


def target_of(text: str, env: str = "") -> Target:
    """Of an ID, or of a folder; `env` chooses where a project has several. A name that is both is the ID."""
    if "://" not in text and ("/" in text or text in (".", "..")):
        return _of_project(Path(text), env)
    try:
        found = _of_id(text)
    except EnvNotFoundError:
        if Path(text).is_dir():
            return _of_project(Path(text), env)
        raise
    if env:
        raise UsageError(f"--env {env} beside the ID {text!r}", "--env chooses among the environments of a project")
    return found


def _of_id(text: str) -> Target:
    id = EnvID.parse(text)
    found = spec(text)
    if found.url:
        raise UsageError(f"{found.url} is served already", "an image is made from an ID or a folder")
    tag = image_name(f"envweave-{id.locator}")
    package = _distribution(id, found.source)
    if package.name == OWN:
        return Target(text, tag)
    project = project_folder(package)
    return Target(text, tag, project=project, distribution=None if project else package)


def _distribution(id: EnvID, source: str) -> Distribution:
    """The installed package that an environment comes from."""
    if id.scheme == "pkg":
        module = id.locator.partition(":")[0].partition(".")[0]
        source = (
            "" if module in sys.stdlib_module_names else next(iter(packages_distributions().get(module, ())), module)
        )
    elif id.scheme not in ("", "ep") and id.scheme in (points := offered("envweave.resolvers")):
        source = getattr(points[id.scheme].dist, "name", "")
    try:
        return distribution(source)
    except (PackageNotFoundError, ValueError):
        hint = "`envweave init` writes a project around it; then: envweave build path/to/it"
        raise UsageError(f"{id.locator!r} belongs to no installed package", hint) from None


def _of_project(folder: Path, env: str) -> Target:
    project = project_table(folder)
    name = project.get("name")
    if not isinstance(name, str):
        raise UsageError(f"{folder / 'pyproject.toml'} has no project.name")
    points = project.get("entry-points", {}).get(GROUP, {})
    return Target(_chosen(folder, list(points), env), image_name(name), project=folder.resolve())


def project_table(folder: Path) -> dict[str, Any]:
    if not folder.is_dir():
        raise UsageError(f"there is no folder {str(folder)!r}", "envweave init my_env writes one")
    try:
        found = tomllib.loads((folder / "pyproject.toml").read_text())
    except FileNotFoundError:
        raise UsageError(f"{str(folder)!r} has no pyproject.toml", "envweave init my_env writes a project") from None
    except (OSError, ValueError) as error:
        raise UsageError(f"{folder / 'pyproject.toml'} cannot be read: {error}") from error
    project = found.get("project", {})
    return project if isinstance(project, dict) else {}


def _chosen(folder: Path, names: list[str], env: str) -> str:
    if not names:
        hint = f'list it in its pyproject.toml: [project.entry-points."{GROUP}"] my-env = "my_env:MyEnv"'
        raise UsageError(f"the project in {str(folder)!r} offers no environment", hint)
    if env and env not in names:
        near = nearest(env, names)
        hint = f"did you mean {near!r}?" if near else f"it has {', '.join(names)}"
        raise UsageError(f"the project in {str(folder)!r} has no environment {env!r}", hint)
    if not env and len(names) > 1:
        hint = f"choose with --env: {', '.join(names)}"
        raise UsageError(f"the project in {str(folder)!r} has {len(names)} environments", hint)
    return env or names[0]
