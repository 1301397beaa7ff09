"""Numpy arrays. Numpy is imported with the first of them."""

from __future__ import annotations

import typing
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

_SAFE_KINDS = {"b": "b", "i": "biu", "u": "biu", "f": "biuf"}
"""For each kind of dtype, the kinds that may be cast to it, if their values fit."""


def has_numpy() -> bool:
    return find_spec("numpy") is not None


def to_array(value: Any, dtype: Any, shape: Sequence[int | None]) -> Any:
    """The value as an array of this dtype and shape; a size of None is free.

    Floats may be rounded to a smaller type of float. Raises `ValueError` or `TypeError` for any other change of value
    and for another shape. An array that fits already is returned itself.
    """
    import numpy as np  # only those who have arrays have numpy

    dtype = np.dtype(dtype)
    found = np.asarray(value)
    if found.dtype == dtype and found.shape == shape:  # nearly always
        return found
    if found.dtype.kind == "f" and dtype.kind in "iu" and not isinstance(value, np.ndarray):
        found = np.asarray(value, dtype=object)  # numpy makes floats of [1, 2**63], and of an empty list
        if not all(isinstance(one, int) for one in found.flat):
            raise ValueError("not all values are whole numbers")
    elif found.size and found.dtype.kind not in _SAFE_KINDS.get(dtype.kind, ""):
        raise ValueError(f"values are {found.dtype}, not {dtype}")
    if found.size == 0 and found.ndim < len(shape):  # [] is all that JSON has for an array of shape (0, 3)
        found = found.reshape(*found.shape, *(size or 0 for size in shape[found.ndim :]))
    if not _has_shape(found.shape, shape):
        wanted = tuple("n" if size is None else size for size in shape)
        raise ValueError(f"shape is {found.shape}, not {wanted}".replace("'", ""))
    if found.dtype == dtype:
        return found
    with np.errstate(over="ignore"):  # a float that is too large becomes infinite
        cast = found.astype(dtype)
    if dtype.kind in "iu" and not np.array_equal(cast, found):
        raise ValueError(f"not all values fit into {dtype}")
    return cast


def _has_shape(actual: tuple[int, ...], wanted: Sequence[int | None]) -> bool:
    return len(actual) == len(wanted) and all(size in (None, found) for found, size in zip(actual, wanted, strict=True))


def all_finite(array: Any) -> bool:
    import numpy as np

    return bool(np.isfinite(array).all())


def as_array(value: Any, dtype: Any = None) -> Any:
    """The numpy array of nested lists. Raises `ValueError` if they are ragged, `TypeError` for text and dicts."""
    import numpy as np

    if not isinstance(value, list | int | float):
        raise TypeError(f"a {type(value).__name__} is no array")
    return np.asarray(value, dtype)


def is_array_type(type_: Any) -> bool:
    """True for `np.ndarray`, `NDArray[…]` and numpy's scalars."""
    cls = typing.get_origin(type_) or type_
    if not isinstance(cls, type) or cls.__module__.partition(".")[0] != "numpy":
        return False
    return any(base.__name__ in ("ndarray", "generic") for base in cls.__mro__)


def is_scalar_type(type_: Any) -> bool:
    """True for numpy's scalars, such as `np.float32`."""
    return is_array_type(type_) and typing.get_origin(type_) is None and type_.__name__ != "ndarray"


def array_dtype(type_: Any) -> Any:
    """The scalar type that `np.float32` or `NDArray[np.float32]` names; None if it names no particular one."""
    import numpy as np

    if is_scalar_type(type_):
        named = type_
    else:
        _, dtype = typing.get_args(type_) or (None, None)
        (named,) = typing.get_args(dtype) or (None,)
    return named if named in np.sctypeDict.values() else None
