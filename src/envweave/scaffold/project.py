"""Files of a new project: all of them are written, or none."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from envweave.errors import UsageError
from envweave.scaffold.names import ProjectNames

_SUFFIX = ".txt"
"""Suffix of all files of the template, so that tools do not treat them as code or as a project."""


def write_project(names: ProjectNames, folder: Path) -> list[Path]:
    """Write the project to a new or empty folder, and return its files. Raises `UsageError` and leaves no file."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        state = "is not empty" if folder.is_dir() else "is a file"
        raise UsageError(f"{str(folder)!r} {state}", "choose another folder with --path")
    created: list[Path] = []
    written: list[Path] = []
    try:
        for name, text in _template(names):
            path = folder / name
            _create_folders(path.parent, created)
            with path.open("x", encoding="utf-8") as file:
                written.append(path)
                file.write(text)
    except BaseException as error:
        _undo(written, created)
        if isinstance(error, OSError):
            reason = (error.strerror or str(error)).lower()
            raise UsageError(f"cannot write {str(folder)!r}: {reason}", "choose another folder with --path") from error
        raise
    return written


def _template(names: ProjectNames) -> Iterator[tuple[str, str]]:
    """Yield the path and the text of each file."""
    for path, file in _walk(files("envweave.scaffold") / "template", ""):
        yield names.fill(path).removesuffix(_SUFFIX).replace("dot-", "."), names.fill(file.read_text("utf-8"))


def _walk(folder: Traversable, prefix: str) -> Iterator[tuple[str, Traversable]]:
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.is_dir():
            yield from _walk(entry, f"{prefix}{entry.name}/")
        elif entry.name.endswith(_SUFFIX):
            yield f"{prefix}{entry.name}", entry


def _create_folders(folder: Path, created: list[Path]) -> None:
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    for path in reversed(missing):
        path.mkdir()
        created.append(path)


def _undo(written: list[Path], created: list[Path]) -> None:
    for path in written:
        with suppress(OSError):
            path.unlink()
    for folder in reversed(created):
        with suppress(OSError):
            folder.rmdir()
