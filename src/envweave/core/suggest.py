"""Did you mean …?"""

from __future__ import annotations

from collections.abc import Iterable


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word most like this one, or None if none is."""
    import difflib  # only for those who mistyped

    return next(iter(difflib.get_close_matches(word, list(known), n=1, cutoff=0.5)), None)
