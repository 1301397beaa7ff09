"""Docker build contexts. They have the layout of the envweave repository, so the same Dockerfiles work for both."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import distribution
from pathlib import Path
from tempfile import TemporaryDirectory

from envweave.errors import ProviderError, UsageError
from envweave.images.target import ENVWEAVE, BuildTarget, project_table
from envweave.images.wheel import pack_distribution, pack_package

_PACKAGE = Path(__file__).parent.parent
_REPOSITORY = _PACKAGE.parent.parent
"""Root of the repository, if envweave runs from a checkout."""
_DATA = ("docker", "pyproject.toml")
"""Files for images: in an installed wheel next to this file, in a checkout at the root of the repository."""
_IGNORED = shutil.ignore_patterns(
    *(".git", ".hg", ".venv", "venv", ".tox", ".nox", "__pycache__", "*.py[cod]", "*.egg-info", "node_modules", "dist"),
    *(".mypy_cache", ".pytest_cache", ".ruff_cache", ".env", ".envrc", ".DS_Store"),
)


@contextmanager
def temporary_context() -> Iterator[Path]:
    """Yield an empty folder, and delete it afterwards. Raises `ProviderError` if files cannot be written there."""
    try:
        with TemporaryDirectory(prefix="envweave-build-") as name:
            yield Path(name)
    except OSError as error:
        hint = "set TMPDIR to use another folder for temporary files"
        raise ProviderError(f"cannot write the build context: {error}", hint) from error


def write_base_context(folder: Path, ca_bundle: Path | None = None) -> dict[str, str]:
    """Write the context of `docker/base/Dockerfile`, and return its build arguments.

    The digest does not depend on the certificate authorities.
    """
    data = _data_files()
    _copy_data(data, folder)
    installed = distribution(ENVWEAVE)
    extra = {f"{ENVWEAVE}/images/{name}": path for name, path in data.items()}
    pack_package(installed, _PACKAGE, extra, folder / "source")
    digest = folder_digest(folder)
    _copy_ca_bundle(ca_bundle, folder)
    return {"SOURCE": "source", "VERSION": installed.version, "DIGEST": digest}


def write_env_context(folder: Path, target: BuildTarget, ca_bundle: Path | None = None) -> dict[str, str]:
    """Write the context of `docker/env/Dockerfile`, and return its build arguments."""
    _copy_data(_data_files(), folder)
    _copy_ca_bundle(ca_bundle, folder)
    packages = folder / "packages"
    packages.mkdir()
    requirements: list[str] = []  # empty: the Dockerfile installs nothing
    if target.project is not None:
        requirements = [ENVWEAVE, *project_table(target.project).get("dependencies", ())]
        try:
            shutil.copytree(target.project, packages / "project", symlinks=True, ignore=_IGNORED)
        except (OSError, shutil.Error) as error:
            raise UsageError(f"cannot copy {target.project}: {error}") from error
    elif target.distribution is not None:
        required = (line for line in target.distribution.requires or () if "extra ==" not in line)
        requirements = [ENVWEAVE, *required]
        pack_distribution(target.distribution, packages)
    (packages / "requirements.txt").write_text("".join(f"{line}\n" for line in requirements))
    return {"PACKAGES": "packages", "ENV_ID": target.env_id}


def folder_digest(folder: Path) -> str:
    """Return a digest of the names and contents of all files in a folder."""
    digest = hashlib.sha256()
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        digest.update(f"{path.relative_to(folder)}\0{hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return digest.hexdigest()


def _data_files() -> dict[str, Path]:
    """Return the files for images, by their paths relative to the root of the repository."""
    files = {}
    for name in _DATA:
        path = _data_path(name)
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if file.is_file() and "__pycache__" not in file.parts:
                files[str(Path(name, file.relative_to(path)))] = file
    return files


def _data_path(name: str) -> Path:
    for folder in (Path(__file__).parent, _REPOSITORY):
        if (folder / name).exists():
            return folder / name
    raise UsageError(f"this installation of envweave has no {name!r}", "reinstall envweave")


def _copy_data(files: dict[str, Path], folder: Path) -> None:
    for name, path in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, folder / name)


def _copy_ca_bundle(ca_bundle: Path | None, folder: Path) -> None:
    if ca_bundle is not None:
        shutil.copyfile(ca_bundle, folder / "ca.pem")
