"""What an ID that is not found may have meant. Reads files and folders, imports nothing."""

from __future__ import annotations

import os
import re
import sys
import tomllib
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any

from envweave.core.files import classes_in_source

_MOST_FILES = 50
"""Files of a folder that are read for a suggestion."""


def instead_of(name: str) -> str:
    """The hint for a bare name that is a file, a folder, a module with an environment or a server; else empty."""
    file = f"{name.replace('.', '/')}.py"
    if os.path.isfile(file):
        return f"did you mean {_dotted(file)!r}?"
    if os.path.isdir(name) and (hint := in_folder(name)):
        return hint
    if re.fullmatch(r"[\w.-]+:[0-9]+(/.*)?", name):
        return f"a server is named by its URL: http://{name}"
    source = _source(name)
    classes = classes_in_source(source) if source else []
    return f"did you mean '{name}:{classes[0]}'?" if classes else ""


def in_folder(folder: str) -> str:
    """The hint for a folder: the environments that its project lists, or that its files define; else empty."""
    found = _listed(Path(folder)) or _defined(Path(folder))
    shown = [_dotted(each) if folder in ("", ".") else os.path.join(folder, each) for each in found]
    if not shown:
        return ""
    return f"did you mean {shown[0]!r}?" if len(shown) == 1 else f"name one of its environments: {', '.join(shown)}"


def module_form(name: str) -> str:
    """The hint for the name of a module whose source shows no environment class; empty if there is no such module."""
    return f"an environment in a module is named '{name}:Class'" if _source(name) else ""


def _listed(folder: Path) -> list[str]:
    """The entry points of the project in a folder, as `file.py:Class` below the folder."""
    from envweave.registry.resolvers.entry_points import GROUP

    try:
        project: Any = tomllib.loads((folder / "pyproject.toml").read_text())
        targets = project["project"]["entry-points"][GROUP].values()
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return []
    found = []
    for target in map(str, targets):
        module, _, attribute = target.partition(":")
        path = module.strip().replace(".", "/")
        forms = [f"{root}{path}{end}" for root in ("", "src/") for end in (".py", "/__init__.py")]
        found += [f"{form}:{attribute.strip()}" for form in forms if (folder / form).is_file()][:1]
    return found


def _defined(folder: Path) -> list[str]:
    try:
        paths = sorted(folder.glob("*.py"))[:_MOST_FILES]
    except OSError:
        return []
    found = []
    for path in paths:
        classes = classes_in_source(path)
        found += [path.name] if len(classes) == 1 else [f"{path.name}:{name}" for name in classes]
    return found


def _source(module: str) -> Path | None:
    """The file of a module that is not of the standard library."""
    parts = module.split(".")
    if not all(part.isidentifier() for part in parts) or parts[0] in sys.stdlib_module_names:
        return None
    folders, origin = None, None
    for number in range(len(parts)):
        spec = PathFinder.find_spec(".".join(parts[: number + 1]), folders)
        if spec is None:
            return None
        folders, origin = list(spec.submodule_search_locations or ()), spec.origin
    return Path(origin) if origin and origin.endswith(".py") else None


def _dotted(path: str) -> str:
    return path if path.startswith(("/", "./", "../")) else f"./{path}"
