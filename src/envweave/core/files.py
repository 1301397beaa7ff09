"""Import a Python file by its path, and find the environment classes in one."""

from __future__ import annotations

import ast
import hashlib
import importlib
import importlib.util
import inspect
import os
import re
import sys
import threading
from pathlib import Path
from types import ModuleType
from typing import Any

_PATHS: dict[str, str] = {}
"""By module name: files that another process finds by their path only."""
_LOCK = threading.RLock()


def load_file(path: str) -> ModuleType:
    """Import a file under the name that `import` in its own folder would use, and return the module.

    A file inside a package becomes a submodule of that package. The folder is appended to `sys.path`, so that the file
    can import its neighbours. A module that was imported from the file before is returned as it is. If another module
    has the name already, a digest of the path is part of the name. Raises what the file raises.
    """
    with _LOCK:
        return _loaded_before(path) or _load(path)


def path_of(module: str) -> str | None:
    """The file of a module that `load_file` imported and that cannot be imported by its name in another process."""
    return _PATHS.get(module)


def environment_classes(module: ModuleType) -> list[str]:
    """The public classes defined in the module that have `reset` and `step`, in order of definition."""
    return [
        name
        for name, value in vars(module).items()
        if isinstance(value, type) and value.__module__ == module.__name__ and value.__qualname__ == name
        if not name.startswith("_") and not inspect.isabstract(value)
        if callable(getattr(value, "reset", None)) and callable(getattr(value, "step", None))
    ]


def classes_in_source(path: Path) -> list[str]:
    """The same, read from the source without running it: classes that define `reset` and `step` themselves."""
    try:
        tree = ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError):
        return []
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef) and not node.name.startswith("_")]
    return [node.name for node in classes if {"reset", "step"} <= _functions(node)]


def import_name(path: Path) -> tuple[Path, str]:
    """The folder that has to be on `sys.path` to import the file, and the dotted name of its module."""
    parts = [] if path.stem == "__init__" else [path.stem]
    folder = path.parent
    while (folder / "__init__.py").is_file():
        parts.insert(0, folder.name)
        folder = folder.parent
    return folder, ".".join(parts)


def _load(path: str) -> ModuleType:
    importlib.invalidate_caches()  # the file may be newer than what the import system remembers of its folder
    folder, name = import_name(Path(path))
    known = any(os.path.realpath(entry) == os.path.realpath(folder) for entry in sys.path)
    if not known:
        sys.path.append(str(folder))
    if _is_imported_from(name, path):
        module = importlib.import_module(name)
    else:
        known, module = False, _load_under_digest(path)
    if not known:
        _PATHS[module.__name__] = path
    return module


def _load_under_digest(path: str) -> ModuleType:
    digest = hashlib.sha256(path.encode(errors="surrogateescape")).hexdigest()[:8]
    name = re.sub(r"\W", "_", f"{Path(path).stem}_{digest}")
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        sys.modules.pop(name, None)
        raise
    return module


def _loaded_before(path: str) -> ModuleType | None:
    for module in list(sys.modules.values()):
        if isinstance(module, ModuleType) and vars(module).get("__file__") == path:
            return module
    return None


def _is_imported_from(name: str, path: str) -> bool:
    """True if `import name` imports this file."""
    if not all(part.isidentifier() for part in name.split(".")):
        return False
    try:
        spec: Any = importlib.util.find_spec(name)
    except (ModuleNotFoundError, ValueError):  # another package hides its parent, or `__main__` has no spec
        return False
    return spec is not None and bool(spec.origin) and os.path.realpath(spec.origin) == os.path.realpath(path)


def _functions(node: ast.ClassDef) -> set[str]:
    return {each.name for each in node.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)}
