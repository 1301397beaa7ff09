"""Text that is too long for a message, handed over as a file that has no name."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def filed(text: str) -> Iterator[int]:
    """The descriptor of a file with the text in it, in memory where that can be had."""
    data = text.encode("utf-8", "surrogatepass")
    descriptor = os.memfd_create("text") if hasattr(os, "memfd_create") else _unnamed()
    try:
        with open(descriptor, "wb", closefd=False) as file:
            file.write(data)
        del data
        yield descriptor
    finally:
        os.close(descriptor)


def _unnamed() -> int:
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())
