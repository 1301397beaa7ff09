"""Options of a provider: given by name when it is made, replaced by name when it starts, then checked by pydantic."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Self

from envweave.core.schema import adapter, explain
from envweave.core.suggest import refuse_unknown
from envweave.errors import UsageError


@dataclass(frozen=True, kw_only=True)
class Options:
    """Base of dataclasses whose fields are options. Messages do not show the values of fields with `repr=False`."""

    __pydantic_config__: ClassVar[Any] = {"strict": True, "allow_inf_nan": False, "revalidate_instances": "always"}
    subject: ClassVar[str]
    """Whose options they are, for messages."""

    @classmethod
    def chosen(cls, given: Mapping[str, Any], base: Self | None = None) -> Self:
        """Return `base` with the given options. None means an empty dict. Raises `UsageError` for an unknown name."""
        known = {each.name: each.default_factory for each in fields(cls)}
        refuse_unknown(given, list(known), f"{cls.subject} has no option", "options")
        cleaned = {name: {} if value is None and known[name] is dict else value for name, value in given.items()}
        return cls(**cleaned) if base is None else replace(base, **cleaned)

    def check(self) -> None:
        """Raise `UsageError` for values of a wrong type or range."""
        own_type: Any = type(self)
        hidden = [each.name for each in fields(self) if not each.repr]
        try:
            adapter(own_type).validate_python(self)
        except ValueError as error:
            raise UsageError(f"invalid option of {self.subject}: {explain(error, hidden)}") from None
