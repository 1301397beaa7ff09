"""Write a project: all of it, or nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from envweave.errors import UsageError
from envweave.scaffold.name import Names

_SUFFIX = ".txt"
"""Of all files of the template, so that nobody takes them for code or projects."""


def write_project(names: Names, folder: Path) -> list[Path]:
    """The files that were written into the folder, which is new or empty. Raises `UsageError`, and leaves nothing."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        state = "is not empty" if folder.is_dir() else "is a file"
        raise UsageError(f"{str(folder)!r} {state}", "choose another with --path, or clear it away")
    made: list[Path] = []
    written: list[Path] = []
    try:
        for name, text in _template(names):
            path = folder / name
            _make_folders(path.parent, made)
            with path.open("x", encoding="utf-8") as file:
                written.append(path)
                file.write(text)
    except BaseException as error:
        _undo(written, made)
        if isinstance(error, OSError):
            reason = (error.strerror or str(error)).lower()
            raise UsageError(f"{str(folder)!r} cannot be written: {reason}", "--path names another place") from error
        raise
    return written


def _template(names: Names) -> Iterator[tuple[str, str]]:
    for path, file in _walk(files("envweave.scaffold") / "project", ""):
        yield names.filled(path).removesuffix(_SUFFIX).replace("dot-", "."), names.filled(file.read_text("utf-8"))


def _walk(folder: Traversable, prefix: str) -> Iterator[tuple[str, Traversable]]:
    for each in sorted(folder.iterdir(), key=lambda each: each.name):
        if each.is_dir():
            yield from _walk(each, f"{prefix}{each.name}/")
        elif each.name.endswith(_SUFFIX):
            yield f"{prefix}{each.name}", each


def _make_folders(folder: Path, made: list[Path]) -> None:
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    for each in reversed(missing):
        each.mkdir()
        made.append(each)


def _undo(written: list[Path], made: list[Path]) -> None:
    for path in written:
        with suppress(OSError):
            path.unlink()
    for folder in reversed(made):
        with suppress(OSError):
            folder.rmdir()
