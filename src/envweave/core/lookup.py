"""Turn `module:name` or `file.py:name` into the object itself. A missing package is reported in one line."""

from __future__ import annotations

import importlib
import os
from types import ModuleType
from typing import Any

from envweave.core.suggest import nearest
from envweave.errors import EnvError, UnavailableError, UsageError, describe


def load(target: str, *, extra: str = "") -> Any:
    """Import `module:attribute`, dots allowed on both sides, or `path/to/file.py:attribute`.

    Raises `UnavailableError` if the module, the file or the attribute does not exist, or if a package is missing that
    `extra` installs; `EnvError` for what the module itself raises, a missing import of its own included.
    """
    place, _, attribute = target.rpartition(":")
    is_file = place.endswith(".py")
    if not place or not attribute or not (is_file or all(part.isidentifier() for part in place.split("."))):
        raise UsageError(f"{target!r} is not of the form 'module:attribute'", "or path/to/file.py:attribute")
    try:
        module = _load_file(place) if is_file else importlib.import_module(place)
    except ModuleNotFoundError as error:
        raise _missing(place, error, extra) from None
    except UnavailableError:  # says already what is missing
        raise
    except Exception as error:
        raise EnvError(f"{_described(place)} cannot be imported: {describe(error)}") from error
    found: Any = module
    for name in attribute.split("."):
        try:
            found = getattr(found, name)
        except AttributeError:
            near = nearest(name, [each for each in dir(found) if not each.startswith("_")])
            hint = f"did you mean {near!r}?" if near else ""
            raise UnavailableError(f"{_described(place)} has no {attribute!r}", hint) from None
    return found


def address(thing: Any) -> str | None:
    """The `module:name` that `load` would find again, or None for a lambda, a local or an instance.

    `path/to/file.py:name` for a file that is not importable by name in another process.
    """
    module, name = getattr(thing, "__module__", None), getattr(thing, "__qualname__", None)
    if not module or not name or "<" in name:
        return None
    from envweave.core.files import path_of

    place = path_of(module) or module
    try:
        return f"{place}:{name}" if load(f"{place}:{name}") is thing else None
    except (UsageError, EnvError):
        return None


def distribution_name(module: str) -> str:
    """The distribution of a top-level module; an editable install is expected to have the module's name."""
    import sys
    from importlib.metadata import packages_distributions  # slow to import

    if module in sys.stdlib_module_names:
        return ""
    return next(iter(packages_distributions().get(module, ())), module)


def _load_file(path: str) -> ModuleType:
    from envweave.core.files import load_file  # only for environments that are named by a file

    where = os.path.abspath(os.path.expanduser(path))
    if not os.path.isfile(where):
        raise UnavailableError(f"there is no file {path!r}")
    return load_file(where)


def _missing(place: str, error: ModuleNotFoundError, extra: str) -> UnavailableError | EnvError:
    """The error for a module that was not found: the one asked for, or one that it imports."""
    missing = error.name
    if not missing:
        return EnvError(f"{_described(place)} cannot be imported: {describe(error)}")
    if place == missing or place.startswith(f"{missing}."):
        return UnavailableError(f"there is no module {place!r}", "is its package installed here?")
    package = missing.partition(".")[0]
    if extra and package != "envweave":
        return UnavailableError(f"{package!r} is not installed", f"pip install 'envweave[{extra}]'")
    hint = "install its package here, or correct the import"
    return EnvError(f"{_described(place)} cannot be imported: there is no module {missing!r}", hint)


def _described(place: str) -> str:
    return repr(place) if place.endswith(".py") else f"module {place!r}"
