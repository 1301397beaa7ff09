"""`Task`: one problem for one episode, and `ListedTask`: what may be told about it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from envweave.core.jsonable import to_json
from envweave.errors import NotJSONableError, UsageError, describe

_PLAIN = frozenset({str, int, float, bool, bytes, type(None)})
"""Types whose values cannot be changed."""


class Task(Mapping[str, Any]):
    """The fields of one task. It cannot be changed, pickles, and is equal to a mapping with the same fields.

    Each task has the field `id`, which is text. A row without one is given the ID that is passed, or else one that
    is made from its content. Tasks may have answers and tests among their fields: `repr` shows none of them.
    """

    __slots__ = ("_fields",)

    def __init__(self, row: Mapping[str, Any], *, id: str | None = None, split: str = "") -> None:
        """`id` and `split` are for a row that has none. Raises `UsageError` for a row that is not a task."""
        fields = _fields_of(row)
        own_id, own_split = checked_id(fields.get("id")), checked_split(fields.get("split"))
        fields["id"] = own_id or id or content_id(fields)
        if own_split or split:
            fields["split"] = own_split or split
        self._fields = fields

    @property
    def id(self) -> str:
        text: str = self._fields["id"]
        return text

    @property
    def split(self) -> str:
        """Empty if the task belongs to no split."""
        text: str = self._fields.get("split") or ""
        return text

    @property
    def prompt(self) -> str:
        """The field `prompt`; empty if there is none, or if it is not text."""
        text = self._fields.get("prompt")
        return text if isinstance(text, str) else ""

    def __getitem__(self, name: str) -> Any:
        return self._fields[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields)

    def __len__(self) -> int:
        return len(self._fields)

    def __hash__(self) -> int:
        return hash(self.id)

    def __eq__(self, other: object) -> bool:
        return self._fields == other._fields if isinstance(other, Task) else super().__eq__(other)

    def __reduce__(self) -> Any:
        return Task, (self._fields,)

    def __repr__(self) -> str:
        return f"Task({self.id!r}, split={self.split!r})" if self.split else f"Task({self.id!r})"


@dataclass(frozen=True, slots=True)
class ListedTask:
    """What a server tells about a task. `reset(task=…)` takes it in place of the ID."""

    id: str
    split: str = ""
    prompt: str = ""


def copied(row: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a row, which its new owner may change. Raises `UsageError` for one that cannot be copied."""
    fields = dict(row)
    for name, value in row.items():
        if value.__class__ not in _PLAIN:
            try:
                fields[name] = deepcopy(value)
            except Exception as error:  # copying somebody's object may raise anything
                message = f"the field {name!r} of a task cannot be copied: {describe(error)}"
                raise UsageError(message, "use plain data") from None
    return fields


def content_id(row: Mapping[str, Any]) -> str:
    """An ID that is the same wherever the fields are the same. Raises `UsageError` for fields without a JSON form."""
    try:
        fields = {name: value for name, value in to_json(row, where="task").items() if name != "id"}
    except NotJSONableError as error:
        raise UsageError(f"a task without an id: {error.message}", "give it an id") from None
    text = json.dumps(fields, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return sha256(text.encode()).hexdigest()[:16]


def checked_id(id: Any) -> str:
    """The ID as text; empty if there is none. Raises `UsageError` unless it is text or a whole number."""
    if id.__class__ is str:
        if id:
            return id
        raise UsageError("a task has an empty id", "leave the id out, or give it a name")
    if id is None:
        return ""
    if isinstance(id, str) or (isinstance(id, int) and not isinstance(id, bool)):
        return str(id)
    raise UsageError(f"the id of a task is {id!r:.80}", "use text or a whole number")


def checked_split(split: Any) -> str:
    """The split of a row; empty if there is none. Raises `UsageError` unless it is text."""
    if split is None or isinstance(split, str):
        return split or ""
    raise UsageError(f"the split of a task is {split!r:.80}", "use text")


def _fields_of(row: Any) -> dict[str, Any]:
    if row.__class__ is Task:
        return dict(row._fields)
    if not isinstance(row, Mapping):
        raise UsageError(f"a task is a {type(row).__name__}, not a mapping", 'write {"id": …, "prompt": …}')
    fields = dict(row)
    for name in fields:
        if not isinstance(name, str):
            raise UsageError(f"a task has the field {name!r:.80}", "fields are named by text")
    return fields
