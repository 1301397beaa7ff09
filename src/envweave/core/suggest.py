"""Suggestions for mistyped names."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from envweave.errors import UsageError


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word that is most similar to this one, or None if none is similar."""
    import difflib  # only for names that are not found

    return next(iter(difflib.get_close_matches(word, list(known), n=1, cutoff=0.5)), None)


def refuse_unknown(given: Iterable[str], known: Sequence[str], complaint: str, listing: str) -> None:
    """Raise `UsageError` for the first unknown name; the hint is the nearest known name, or all of them."""
    for name in given:
        if name not in known:
            near = nearest(name, known)
            hint = f"did you mean {near!r}?" if near else f"{listing}: {', '.join(known)}"
            raise UsageError(f"{complaint} {name!r}", hint)
