"""From one name to the names of a project, its module and its classes."""

from __future__ import annotations

import keyword
import os
import re
import sys
from dataclasses import dataclass
from importlib.machinery import PathFinder

from envweave.errors import UsageError
from envweave.registry.resolvers.entry_points import GROUP, offered

_TAKEN_BY_PYTEST = ("conftest", "tests")


@dataclass(frozen=True)
class Names:
    """`my-env` and `my_env` differ in the ID only."""

    id: str
    """As it was given."""
    module: str
    project: str
    stem: str
    """What its classes begin with: `My` of `MyAction`, `MyObservation`, `MyEnv`."""

    def filled(self, text: str) -> str:
        """A text of the template, with these names in it."""
        text = text.replace("MY_ID", self.id).replace("my_env", self.module).replace("my-env", self.project)
        return re.sub(r"\bMy(?=Action\b|Observation\b|Env\b)", self.stem, text)


def names_of(name: str) -> Names:
    """Raises `UsageError` for a name that could not be imported, or that would hide something else."""
    module = name.replace("-", "_")
    if not re.fullmatch(r"[a-z](?:[a-z0-9]|[-_](?=[a-z0-9]))*", name):
        wish = re.sub(r"[^a-z0-9]+", "_", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()).strip("_")
        wish = wish if wish[:1].isalpha() else "my_env"
        raise UsageError(f"{name!r} is no name for a module", f"small letters, digits, - and _: {wish}")
    if keyword.iskeyword(module):
        raise UsageError(f"{name!r} is a word of Python", f"{name}_env is not")
    if module in sys.stdlib_module_names:
        raise UsageError(f"{name!r} would hide Python's own module of that name", f"{name}_env would not")
    if module in _TAKEN_BY_PYTEST or _is_installed(module):
        raise UsageError(f"{name!r} would hide a module that is installed here", f"choose another: my_{module}")
    if name in offered(GROUP):
        raise UsageError(f"there is an environment {name!r} already", f"choose another: my_{module}")
    words = module.split("_")
    stem = "".join(word.capitalize() for word in (words[:-1] if words[-1] == "env" and len(words) > 1 else words))
    return Names(id=name, module=module, project=module.replace("_", "-"), stem=stem)


def _is_installed(module: str) -> bool:
    """A folder of that name where we stand does not count: it may be what was written before."""
    elsewhere = [path for path in sys.path if path and os.path.realpath(path) != os.getcwd()]
    return PathFinder.find_spec(module, elsewhere) is not None
