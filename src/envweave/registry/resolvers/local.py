"""`local://name`: environments that `register` has named in this process."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable
from typing import Any

from envweave.core.ids import EnvID, split_number
from envweave.core.spec import EnvSpec
from envweave.errors import DuplicateIDError, EnvNotFoundError, VersionError
from envweave.registry.resolvers.base import Resolver


class LocalResolver(Resolver):
    """The specs registered in this process, by name and version."""

    def __init__(self) -> None:
        self._specs: dict[str, dict[str, EnvSpec]] = {}
        self._lock = threading.Lock()

    def add(self, id: EnvID, spec: EnvSpec, *, overwrite: bool) -> None:
        with self._lock:
            versions = self._specs.setdefault(id.locator, {})
            if id.version in versions and not overwrite:
                hint = "choose another name or version, or pass overwrite=True"
                raise DuplicateIDError(f"{id.name!r} is registered already", hint)
            versions[id.version] = spec

    def remove(self, id: EnvID) -> None:
        with self._lock:
            spec = self._specs.get(id.locator, {}).pop(id.version, None)
            if not self._specs.get(id.locator):
                self._specs.pop(id.locator, None)
        if spec is None:
            raise EnvNotFoundError(f"{id.name!r} is not registered")

    def resolve(self, id: EnvID) -> EnvSpec:
        versions = self._specs.get(id.locator) or self._specs.get(self._newest(id.locator) or "")
        if not versions:
            self._refuse_number(id.locator)
            raise EnvNotFoundError(f"no environment named {id.locator!r}")
        if not id.version:
            return versions.get("") or versions[max(versions, key=version_key)]
        if id.version not in versions:
            there = ", ".join(version or "one without a version" for version in versions)
            raise VersionError(f"{id.locator!r} has no version {id.version!r}", f"versions: {there}")
        return versions[id.version]

    def _newest(self, name: str) -> str | None:
        """`counter` means the highest `counter-vN`."""
        numbered = [(number, key) for key in self._specs for base, number in [split_number(key)] if base == name]
        return max(((n, key) for n, key in numbered if n is not None), default=(0, None))[1]

    def _refuse_number(self, name: str) -> None:
        base, number = split_number(name)
        there = [key for key in self._specs if split_number(key)[0] == base]
        if number is not None and there:
            raise VersionError(f"{base!r} has no version v{number}", f"versions: {', '.join(sorted(there))}")

    def names(self) -> Iterable[str]:
        return [EnvID("", name, version).name for name, versions in self._specs.items() for version in versions]


def version_key(version: str) -> tuple[bool, Any]:
    """The order of PEP 440: `1.10` after `1.9`, `1.0-rc1` before `1.0`. Other texts come first, by their numbers."""
    from packaging.version import Version  # only for names that have versions

    try:
        return True, Version(version)
    except ValueError:  # also for numbers that are too long for an int
        parts = re.split(r"[.\-+]", version)
        return False, [(int(part), "") if re.fullmatch("[0-9]{1,9}", part) else (-1, part) for part in parts]


LOCAL = LocalResolver()
