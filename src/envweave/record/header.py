"""What an `episode` line says of an environment: its name for `make`, its arguments, and a digest of its code."""

from __future__ import annotations

import hashlib
import inspect
import os
import sys
from collections.abc import Mapping
from functools import lru_cache
from os import PathLike
from typing import Any

from envweave.core.lookup import address
from envweave.core.spec import EnvSpec
from envweave.errors import EnvWeaveError


def header_of(source: Any, spec: EnvSpec | None, args: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """The fields that all episodes of an environment share. Those of `more` that are None are left out."""
    header: dict[str, Any] = {"env": name_of(source, spec)}
    if spec is not None and spec.version:
        header["version"] = spec.version
    given = {**(spec.kwargs if spec is not None and not isinstance(source, str) else {}), **args}
    if given:
        header["args"] = given
    header["env_digest"] = digest_of(source, spec)
    return header | {name: value for name, value in more.items() if value is not None}


def name_of(source: Any, spec: EnvSpec | None = None) -> str:
    """What `make` takes for the same environment, in another process if that is possible."""
    if isinstance(source, str):
        return source
    if isinstance(source, PathLike):
        return str(os.path.abspath(source))
    if isinstance(source, EnvSpec):
        spec, source = source, source.factory
    if spec is not None and (spec.url or spec.image or spec.source not in ("local", "pkg")):
        return spec.url or spec.id
    is_instance = hasattr(source, "step") and not isinstance(source, type)
    place = source if isinstance(source, str) else address(type(source) if is_instance else source)
    if place is None or place.startswith("__main__:"):
        return spec.id if spec is not None else type(source).__name__
    return place if place.partition(":")[0].endswith(".py") else f"pkg://{place}"


def digest_of(source: Any, spec: EnvSpec | None) -> str | None:
    """The SHA-256 of the file that defines the environment; None if it is not in this process."""
    if spec is not None and spec.factory is not None:
        try:
            source = spec.loaded()
        except EnvWeaveError:
            return None
    if isinstance(source, str | PathLike) or source is None:
        return None
    return _file_digest(getattr(source if callable(source) else type(source), "__module__", ""))


@lru_cache
def _file_digest(module: str) -> str | None:
    found = sys.modules.get(module)
    try:
        path = inspect.getsourcefile(found) if found is not None else None
        if path is None:
            return None
        with open(path, "rb") as file:
            return hashlib.sha256(file.read()).hexdigest()
    except (OSError, TypeError):
        return None


def plain(options: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, Any] | None:
    """Those of the options that are set; None if none is."""
    return {name: options[name] for name in names if options.get(name)} or None
