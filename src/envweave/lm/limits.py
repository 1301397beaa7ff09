"""How much, how long and how often: the numbers of a model."""

from __future__ import annotations

from typing import Any

from envweave.errors import UsageError


def check_limits(timeout: Any, *, at_once: Any, retries: Any, max_tokens: Any, temperature: Any) -> None:
    """Raises `UsageError` with the first that is not a number, or that no call fits."""
    for name, value, good, hint in (
        ("timeout", timeout, _is_number(timeout) and 0 < timeout < float("inf"), "use a positive number of seconds"),
        ("at_once", at_once, _is_whole(at_once, 1), "use a whole number, 1 or more"),
        ("retries", retries, _is_whole(retries, 0), "use a whole number, 0 or more"),
        ("max_tokens", max_tokens, max_tokens is None or _is_whole(max_tokens, 1), "use a whole number, or None"),
        ("temperature", temperature, temperature is None or _is_number(temperature), "use a number, or None"),
    ):
        if not good:
            raise UsageError(f"{name} is {value!r:.80}", hint)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_whole(value: Any, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least
