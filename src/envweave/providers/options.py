"""What the options of providers have in common: they are chosen by name, and may be chosen again with a start."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Self

from envweave.core.suggest import refuse_unknown


@dataclass(frozen=True, kw_only=True)
class Options:
    """For a dataclass whose fields are the options."""

    what: ClassVar[str]
    """Whose options they are, for messages."""
    mappings: ClassVar[tuple[str, ...]] = ()
    """Fields that are dicts; None is an empty one."""

    @classmethod
    def chosen(cls, given: Mapping[str, Any], base: Self | None = None) -> Self:
        """The options, over those of `base`. Raises `UsageError` for one that there is not."""
        refuse_unknown(given, [each.name for each in fields(cls)], f"{cls.what} has no option", "options")
        cleaned = {name: ({} if value is None and name in cls.mappings else value) for name, value in given.items()}
        return cls(**cleaned) if base is None else replace(base, **cleaned)
