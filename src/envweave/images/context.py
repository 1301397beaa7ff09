"""What is sent to the daemon: folders like our repository, so that the same Dockerfiles serve both."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import Distribution, distribution
from pathlib import Path
from tempfile import TemporaryDirectory

from envweave.errors import ProviderError, UsageError
from envweave.images.target import OWN, Target, project_table
from envweave.images.wheel import pack, pack_package

_PACKAGE = Path(__file__).parent.parent
_ROOT = _PACKAGE.parent.parent
"""The repository, where envweave runs from one."""
_SHIPPED = ("docker", "pyproject.toml")
"""In a wheel they lie beside this file; in a repository at its root."""
_LEFT_OUT = shutil.ignore_patterns(
    *(".git", ".hg", ".venv", "venv", ".tox", ".nox", "__pycache__", "*.py[cod]", "*.egg-info", "node_modules", "dist"),
    *(".mypy_cache", ".pytest_cache", ".ruff_cache", ".env", ".envrc", ".DS_Store"),
)


@contextmanager
def context() -> Iterator[Path]:
    """An empty folder that is gone afterwards. Raises `ProviderError` if this machine cannot write it, or fill it."""
    try:
        with TemporaryDirectory(prefix="envweave-build-") as name:
            yield Path(name)
    except OSError as error:
        hint = "TMPDIR names another place for temporary files"
        raise ProviderError(f"what the build needs cannot be written: {error}", hint) from error


def shipped(name: str) -> Path:
    """A file or folder that comes with envweave for images. Raises `UsageError` if the installation lacks it."""
    for folder in (Path(__file__).parent, _ROOT):
        if (folder / name).exists():
            return folder / name
    raise UsageError(f"this installation of envweave has no {name!r}", "install it again")


def write_base(folder: Path, authorities: Path | None = None) -> dict[str, str]:
    """Fill the folder for `docker/base/Dockerfile`, and return the build arguments that go with it."""
    _copy_shipped(folder)
    installed = distribution(OWN)
    extra = {f"{OWN}/images/{name}": path for name, path in _shipped_files()}
    pack_package(installed, _PACKAGE, extra, folder / "source")
    digest = digest_of(folder)
    _copy_authorities(folder, authorities)
    return {"SOURCE": "source", "VERSION": installed.version, "DIGEST": digest}


def write_env(folder: Path, target: Target, authorities: Path | None = None) -> dict[str, str]:
    """Fill the folder for `docker/env/Dockerfile`, and return the build arguments that go with it."""
    _copy_shipped(folder)
    _copy_authorities(folder, authorities)
    added = folder / "added"
    added.mkdir()
    lines: list[str] = []
    if target.project is not None:
        lines = _needs_of_project(target.project)
        try:
            shutil.copytree(target.project, added / "project", symlinks=True, ignore=_LEFT_OUT)
        except (OSError, shutil.Error) as error:
            raise UsageError(f"{target.project} cannot be copied: {error}") from error
    elif target.distribution is not None:
        lines = _needs_of(target.distribution)
        pack(target.distribution, added)
    (added / "requirements.txt").write_text("".join(f"{line}\n" for line in lines))
    return {"ADDED": "added", "ENV_ID": target.env_id}


def digest_of(folder: Path) -> str:
    """Of names and contents of all files in it."""
    found = hashlib.sha256()
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        found.update(f"{path.relative_to(folder)}\0{hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return found.hexdigest()


def _needs_of(installed: Distribution) -> list[str]:
    """Without extras; never empty, so that the Dockerfile knows there is something to install."""
    return [OWN, *(line for line in installed.requires or () if "extra ==" not in line)]


def _needs_of_project(project: Path) -> list[str]:
    """Those that stand in its pyproject.toml; pip finds others when it installs the project."""
    return [OWN, *project_table(project).get("dependencies", ())]


def _copy_shipped(folder: Path) -> None:
    for name, path in _shipped_files():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, folder / name)


def _shipped_files() -> list[tuple[str, Path]]:
    """By their names below the root of the repository."""
    found = []
    for name in _SHIPPED:
        path = shipped(name)
        files = sorted(path.rglob("*")) if path.is_dir() else [path]
        found += [(str(Path(name, file.relative_to(path))), file) for file in files if file.is_file()]
    return [(name, path) for name, path in found if "__pycache__" not in path.parts]


def _copy_authorities(folder: Path, authorities: Path | None) -> None:
    if authorities is not None:
        shutil.copyfile(authorities, folder / "ca.pem")
