"""`./file.py`, `path/to/file.py:Class`, `file://…`: an environment in a Python file."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from envweave.core.files import environment_classes, load_file
from envweave.core.ids import EnvID, split_file
from envweave.core.lookup import load
from envweave.core.spec import EnvSpec
from envweave.core.suggest import nearest
from envweave.errors import EnvNotFoundError, UnavailableError, UsageError, VersionError
from envweave.registry.resolvers.base import Resolver
from envweave.registry.resolvers.entry_points import spec_of
from envweave.registry.resolvers.suggestions import in_folder


class FileResolver(Resolver):
    """The spec's `id` and `factory` are the absolute path and the name, which any process of this machine can load."""

    def resolve(self, id: EnvID) -> EnvSpec:
        typed, attribute = split_file(id.locator)
        path = os.path.abspath(os.path.expanduser(typed))
        if id.version:
            raise VersionError(f"a file has no version {id.version!r}", "leave out @…")
        if os.path.isdir(path):
            hint = in_folder(typed) or "name the file, and the class if it has several: ./file.py or ./file.py:Class"
            raise EnvNotFoundError(f"{typed!r} is a folder, not an environment", hint)
        if not os.path.isfile(path) or not path.endswith(".py"):
            raise EnvNotFoundError(f"there is no Python file {typed!r}", _near(typed))
        target = f"{path}:{attribute or _only_class(path, typed)}"
        try:
            found = load(target)
        except UnavailableError as error:
            raise EnvNotFoundError(error.message, error.hint or "check the name of its class") from None
        if not callable(found) and not isinstance(found, EnvSpec):
            raise UsageError(f"{id.locator!r} is a {type(found).__name__}, not a class or function")
        spec = spec_of(found, id=target, version="", source="file", target=target)
        return replace(spec, factory=target) if spec.factory is found else spec


def _only_class(path: str, typed: str) -> str:
    """The environment class of a file that has one."""
    load(f"{path}:__name__")  # what the file raises becomes an error that names the file
    names = environment_classes(load_file(path))
    if len(names) == 1:
        return names[0]
    if not names:
        hint = f"a class with reset and step is one; a function that makes one is named: {typed}:function"
        raise EnvNotFoundError(f"{typed!r} has no environment class", hint)
    forms = ", ".join(f"{typed}:{name}" for name in names)
    raise UsageError(f"{typed!r} has {len(names)} environment classes", f"name one: {forms}")


def _near(typed: str) -> str:
    """What to use in place of a path that does not exist."""
    folder, name = os.path.split(typed)
    files = [path.name for path in Path(folder or ".").expanduser().glob("*.py")]
    near = f"{name}.py" if f"{name}.py" in files else nearest(name, files)
    return f"did you mean {os.path.join(folder, near)!r}?" if near else f"relative paths begin at {os.getcwd()}"
