"""Names of a new project, its module and its classes."""

from __future__ import annotations

import keyword
import os
import re
import sys
from dataclasses import dataclass
from importlib.machinery import PathFinder

from envweave.errors import UsageError
from envweave.registry.resolvers.entry_points import GROUP, offered

_PYTEST_NAMES = ("conftest", "tests")


@dataclass(frozen=True)
class ProjectNames:
    """Names derived from one name. For `my-env` and `my_env`, only the ID differs."""

    id: str
    """The name as given."""
    module: str
    project: str
    class_prefix: str
    """`My` in `MyAction`, `MyObservation` and `MyEnv`."""

    def fill(self, text: str) -> str:
        """Replace the placeholders in a text of the template."""
        text = text.replace("MY_ID", self.id).replace("my_env", self.module).replace("my-env", self.project)
        return re.sub(r"\bMy(?=Action\b|Observation\b|Env\b)", self.class_prefix, text)


def derive_names(name: str) -> ProjectNames:
    """Raise `UsageError` if the module could not be imported, or would shadow another module or environment."""
    module = name.replace("-", "_")
    if not re.fullmatch(r"[a-z](?:[a-z0-9]|[-_](?=[a-z0-9]))*", name):
        hint = f"use lower-case letters, digits, - and _, e.g. {_suggestion(name)}"
        raise UsageError(f"{name!r} is not a valid module name", hint)
    if keyword.iskeyword(module):
        raise UsageError(f"{name!r} is a Python keyword", f"use another name, e.g. {name}_env")
    if module in sys.stdlib_module_names:
        raise UsageError(
            f"{name!r} would shadow a module of the standard library", f"use another name, e.g. {name}_env"
        )
    if module in _PYTEST_NAMES or _is_installed(module):
        raise UsageError(f"{name!r} would shadow an installed module", f"use another name, e.g. my_{module}")
    if name in offered(GROUP):
        raise UsageError(f"an environment {name!r} already exists", f"use another name, e.g. my_{module}")
    words = module.split("_")
    if words[-1] == "env" and len(words) > 1:
        words.pop()
    prefix = "".join(word.capitalize() for word in words)
    return ProjectNames(id=name, module=module, project=module.replace("_", "-"), class_prefix=prefix)


def _suggestion(name: str) -> str:
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
    suggestion = re.sub(r"[^a-z0-9]+", "_", words).strip("_")
    return suggestion if suggestion[:1].isalpha() else "my_env"


def _is_installed(module: str) -> bool:
    """The current folder does not count: it may contain a project of that name from an earlier run."""
    elsewhere = [path for path in sys.path if path and os.path.realpath(path) != os.getcwd()]
    return PathFinder.find_spec(module, elsewhere) is not None
