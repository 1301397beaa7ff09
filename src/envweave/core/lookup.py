"""Turn `module:name` into the thing itself; the only place where a missing package becomes advice."""

from __future__ import annotations

import importlib
from typing import Any

from envweave.errors import EnvError, UnavailableError, UsageError, describe


def load(target: str, *, extra: str = "") -> Any:
    """Import `module:attribute`, dots allowed on both sides.

    Raises `UnavailableError` with the install command if a third party is missing and belongs to an extra;
    what the module itself raises when imported is an `EnvError`.
    """
    module_name, _, attribute = target.partition(":")
    if not module_name or not attribute or not all(part.isidentifier() for part in module_name.split(".")):
        raise UsageError(f"{target!r} is not of the form 'module:attribute'")
    try:
        found: Any = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        missing = error.name or ""
        if missing and (module_name == missing or module_name.startswith(missing + ".")):
            raise UnavailableError(f"there is no module {module_name!r}", "is its package installed here?") from error
        if extra and not missing.startswith("envweave"):
            raise UnavailableError(
                f"{missing.partition('.')[0]!r} is not installed", f"pip install 'envweave[{extra}]'"
            ) from error
        raise
    except UnavailableError:  # it says better than we what it lacks
        raise
    except Exception as error:
        raise EnvError(f"module {module_name!r} cannot be imported: {describe(error)}") from error
    for name in attribute.split("."):
        try:
            found = getattr(found, name)
        except AttributeError:
            raise UnavailableError(f"module {module_name!r} has no {attribute!r}") from None
    return found


def address(thing: Any) -> str | None:
    """The `module:name` that `load` would find again, or None for a lambda, a local or an instance."""
    module, name = getattr(thing, "__module__", None), getattr(thing, "__qualname__", None)
    if not module or not name or "<" in name:
        return None
    try:
        return f"{module}:{name}" if load(f"{module}:{name}") is thing else None
    except (UsageError, ImportError):
        return None
