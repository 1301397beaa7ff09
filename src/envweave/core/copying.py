"""Copy an environment with `deepcopy`, or say which field forbids it.

Refused: what `deepcopy` refuses (locks, files, sockets, generators, threads), and what it would share silently between
the two copies: functions that hold a mutable object, methods of objects written in C, weak references, finalizers.
Copied by their attributes: subclasses of `EzPickle`, which Gymnasium and PettingZoo use to pickle the arguments of an
environment in place of its state, so that `deepcopy` and `pickle` would begin anew.
Not covered: names of something outside of the object, such as file names, file descriptors, process IDs, module and
class attributes, and objects with a `__deepcopy__` of their own that shares something.
"""

from __future__ import annotations

import copyreg
import functools
import io
import pickle
import types
import weakref
from collections import deque
from collections.abc import Iterable, Iterator
from copy import deepcopy
from typing import Any

from envweave.errors import UnsupportedError

_ATOMS = frozenset(
    {str, int, float, bool, complex, bytes, type(None), type, range, types.ModuleType, type(...), type(NotImplemented)}
)
_WEAK = (*weakref.ProxyTypes, weakref.WeakKeyDictionary, weakref.WeakValueDictionary, weakref.WeakSet)
_CACHED = type(functools.cache(len))

HINT = "give the environment `snapshot` and `restore`, or a `fork`"


def copy_environment(env: Any, name: str, *, shared: Any = None, hint: str = HINT) -> Any:
    """An independent copy, except for the object `shared`. Raises `UnsupportedError` naming a field that forbids it."""
    walk = _Walk(shared)
    found = walk.obstacle(env)
    if found is None:
        try:
            return _deepcopy(env, shared, walk.without_state)
        except Exception as error:  # copying somebody's object may raise anything
            found = walk.refusing(), _reason(error)
    field, reason = found
    raise UnsupportedError(f"{name} cannot be copied: {field} ({reason})", hint)


def _deepcopy(env: Any, shared: Any, without_state: list[Any]) -> Any:
    empty = [object.__new__(type(old)) for old in without_state]
    memo = {id(shared): shared} | {id(old): new for old, new in zip(without_state, empty, strict=True)}
    for old, new in zip(without_state, empty, strict=True):
        vars(new).update({name: deepcopy(value, memo) for name, value in vars(old).items()})
    return deepcopy(env, memo)


def pickled(env: Any) -> bytes:
    """The environment with its whole state, for `pickle.loads`. Raises what `pickle` raises."""
    buffer = io.BytesIO()
    _StatePickler(buffer).dump(env)
    return buffer.getvalue()


class _StatePickler(pickle.Pickler):
    def reducer_override(self, value: Any) -> Any:
        if not _pickles_arguments(type(value)):
            return NotImplemented
        return copyreg.__newobj__, (type(value),), vars(value), None, None, _set_state  # type: ignore[attr-defined]


def _set_state(new: Any, state: dict[str, Any]) -> None:
    vars(new).update(state)


def _pickles_arguments(cls: type) -> bool:
    return any(base.__name__ == "EzPickle" for base in cls.__mro__)


class _Walk:
    """Looks at all parts that `deepcopy` would copy, in the same way, those nearest to the environment first."""

    def __init__(self, shared: Any) -> None:
        self._seen: dict[int, Any] = {id(shared): shared}
        """By identity. Holds the objects, because some are made for the walk and their identity could occur again."""
        self._copy_themselves: list[tuple[str, Any]] = []
        """Objects with a `__deepcopy__` of their own."""
        self.without_state: list[Any] = []
        """Objects that `deepcopy` would build anew."""

    def obstacle(self, env: Any) -> tuple[str, str] | None:
        """The first part that cannot be copied or would be shared, with the reason; None if there is none."""
        waiting: deque[tuple[str, Any]] = deque([("env", env)])
        while waiting:
            path, value = waiting.popleft()
            self._seen[id(value)] = value
            reason = _shared_reason(value)
            if reason is not None:
                return path, reason
            try:
                for name, part in self._parts(path, value):
                    if type(part) not in _ATOMS and id(part) not in self._seen:
                        self._seen[id(part)] = part
                        waiting.append((f"{path}{name}", part))
            except Exception as error:  # as `deepcopy` would raise it
                return path, _reason(error)
        return None

    def refusing(self) -> str:
        """The path of the object whose own `__deepcopy__` raises; the environment's if there is none."""
        for path, value in self._copy_themselves:
            try:
                deepcopy(value)
            except Exception:  # as above
                return path
        return "env"

    def _parts(self, path: str, value: Any) -> Iterable[tuple[str, Any]]:
        match value:
            case functools.partial():
                return [(".func", value.func), (".args", value.args), (".keywords", value.keywords)]
            case types.FunctionType() | types.BuiltinFunctionType() | type():
                return _held_by(value)
            case types.MethodType():
                return [(".__self__", value.__self__)]
        cls = type(value)
        if cls is _CACHED:  # shared by `deepcopy`
            return [("", value.__wrapped__)]
        if cls in (list, tuple, set, frozenset):
            return ((f"[{number}]", part) for number, part in enumerate(value))
        if cls is dict:
            return _items(value)
        if hasattr(cls, "__deepcopy__"):
            self._copy_themselves.append((path, value))
            return ()
        if _pickles_arguments(cls):
            self.without_state.append(value)
            return [(f".{name}", part) for name, part in vars(value).items()]
        reduce = copyreg.dispatch_table.get(cls)
        return _reduced(reduce(value) if reduce is not None else value.__reduce_ex__(4))


def _shared_reason(value: Any) -> str | None:
    """Why `deepcopy` would not make an independent copy of this object itself; None if it would."""
    if type(value) in _WEAK or isinstance(value, weakref.ReferenceType):
        return "a weak reference, which a copy would share"
    if isinstance(value, weakref.finalize):
        return "a finalizer, which belongs to the original"
    if isinstance(value, types.BuiltinFunctionType) and not isinstance(value.__self__, types.ModuleType | type | None):
        return f"a method of a {type(value.__self__).__name__}, which a copy would share"
    if isinstance(value, types.FunctionType):
        if any(not _is_constant(held) for _, held in _held_by(value)):
            return "a function that holds an object, which a copy would share"
        if value.__closure__ and _changes_outer_variable(value):
            return "a function that changes a variable of an outer function, which a copy would share"
    return None


def _changes_outer_variable(function: types.FunctionType) -> bool:
    import dis  # few environments hold closures

    stores = [each for each in dis.get_instructions(function) if each.opname in ("STORE_DEREF", "DELETE_DEREF")]
    return any(each.argval in function.__code__.co_freevars for each in stores)


def _held_by(function: Any) -> Iterator[tuple[str, Any]]:
    """What a function closes over, and its default arguments."""
    if not isinstance(function, types.FunctionType):
        return
    for cell in function.__closure__ or ():
        try:
            yield "", cell.cell_contents
        except ValueError:  # not assigned yet
            continue
    for default in (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()):
        yield "", default


def _is_constant(value: Any) -> bool:
    """Whether two copies may share it. A function that is held is looked at later, as a part."""
    if isinstance(value, tuple | frozenset):
        return all(_is_constant(part) for part in value)
    return type(value) in _ATOMS or isinstance(value, type | types.FunctionType | types.BuiltinFunctionType | _CACHED)


def _items(value: dict[Any, Any]) -> Iterator[tuple[str, Any]]:
    for key, part in value.items():
        yield f"[key {key!r:.40}]", key
        yield f"[{key!r:.40}]", part


def _reduced(reduced: Any) -> Iterator[tuple[str, Any]]:
    """The parts in what `__reduce_ex__` returned: arguments, state, list items, dict items."""
    if isinstance(reduced, str):  # a global name
        return
    arguments, state, items, pairs = (*reduced[1:5], *(None,) * 4)[:4]
    yield from ((".args", part) for part in arguments)
    slots: Any = None
    if isinstance(state, tuple) and len(state) == 2 and isinstance(state[1], dict):
        state, slots = state
    for attributes in (state, slots):
        if isinstance(attributes, dict):
            yield from ((f".{name}", part) for name, part in attributes.items())
        elif attributes is not None:
            yield ".state", attributes
    yield from ((f"[{number}]", part) for number, part in enumerate(items or ()))
    yield from ((f"[{key!r:.40}]", part) for key, part in pairs or ())


def _reason(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
