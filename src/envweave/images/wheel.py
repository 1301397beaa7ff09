"""Wheels of installed packages, written offline, so that a package that is on no index can be installed in an image.

`uv build` and other build tools need a source tree, which an installed package does not have. The same files give the
same bytes, so that a repeated build finds its layers in the cache.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import zipfile
from collections.abc import Mapping
from importlib.metadata import Distribution
from pathlib import Path, PurePath
from urllib.parse import unquote, urlsplit

from envweave.errors import UsageError

_INSTALLATION_FILES = {"INSTALLER", "RECORD", "REQUESTED", "direct_url.json"}
"""Files in `.dist-info` that describe the installation on this machine."""
_PURE_WHEEL = "Wheel-Version: 1.0\nGenerator: envweave\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
_TIMESTAMP = (1980, 1, 1, 0, 0, 0)


def pack_distribution(distribution: Distribution, folder: Path) -> Path:
    """Write the wheel of an installed, not editable, distribution. Raises `UsageError` if its files are not listed."""
    files = {str(path): Path(str(path.locate())) for path in distribution.files or () if ".." not in path.parts}
    contents = _read(files)
    if all(_is_metadata(name) for name in contents):
        message = f"the files of {distribution.name} {distribution.version} are unknown"
        raise UsageError(message, "install it with pip, or build from its folder: envweave build path/to/project")
    return _write(distribution, contents, folder)


def pack_package(distribution: Distribution, package: Path, extra: Mapping[str, Path], folder: Path) -> Path:
    """Write a wheel of the package in a folder, which may be an editable install.

    Name, version and entry points are those of the distribution; `extra` maps names in the wheel to further files.
    """
    files = {f"{package.name}/{path.relative_to(package)}": path for path in sorted(package.rglob("*"))}
    contents = _read({**files, **extra})
    for name in ("METADATA", "entry_points.txt"):
        contents[f"{_stem(distribution)}.dist-info/{name}"] = (distribution.read_text(name) or "").encode()
    return _write(distribution, contents, folder)


def editable_project(distribution: Distribution) -> Path | None:
    """Return the project folder of an editable install; None for any other distribution."""
    origin = json.loads(distribution.read_text("direct_url.json") or "{}")
    if not origin.get("dir_info", {}).get("editable"):
        return None
    return Path(unquote(urlsplit(origin["url"]).path))


def _read(files: Mapping[str, Path]) -> dict[str, bytes]:
    return {name: path.read_bytes() for name, path in files.items() if _is_packed(name) and path.is_file()}


def _is_packed(name: str) -> bool:
    path = PurePath(name)
    if "__pycache__" in path.parts or path.suffix == ".pyc":
        return False
    return not (_is_metadata(name) and path.name in _INSTALLATION_FILES)


def _is_metadata(name: str) -> bool:
    return PurePath(name).parts[0].endswith(".dist-info")


def _write(distribution: Distribution, contents: Mapping[str, bytes], folder: Path) -> Path:
    stem = _stem(distribution)
    metadata = f"{stem}.dist-info"
    members = {re.sub(r"^[^/]+\.dist-info/", f"{metadata}/", name): data for name, data in contents.items()}
    tags = _tags(members.setdefault(f"{metadata}/WHEEL", _PURE_WHEEL.encode()).decode())
    record = "".join(f'"{name}",sha256={_digest(data)},{len(data)}\n' for name, data in sorted(members.items()))
    members[f"{metadata}/RECORD"] = f"{record}{metadata}/RECORD,,\n".encode()
    folder.mkdir(parents=True, exist_ok=True)
    wheel = folder / f"{stem}-{tags}.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in sorted(members.items()):
            member = zipfile.ZipInfo(name, _TIMESTAMP)
            member.external_attr = 0o100644 << 16
            archive.writestr(member, data, zipfile.ZIP_DEFLATED)
    return wheel


def _digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def _tags(wheel: str) -> str:
    """Return the tags for a file name: `py2-none-any` and `py3-none-any` become `py2.py3-none-any`."""
    tags = [line.removeprefix("Tag:").strip().split("-") for line in wheel.splitlines() if line.startswith("Tag:")]
    return "-".join(".".join(sorted(set(part))) for part in zip(*tags, strict=True)) or "py3-none-any"


def _stem(distribution: Distribution) -> str:
    name = re.sub(r"[-_.]+", "_", distribution.name).lower()
    return f"{name}-{distribution.version}"
