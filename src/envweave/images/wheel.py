"""Wheels of what is installed here, made without a network: so what no index has gets into an image all the same.

The same files make the same bytes: a build that sends them again finds its layers in the cache.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import zipfile
from collections.abc import Iterator, Mapping
from importlib.metadata import Distribution
from pathlib import Path
from urllib.parse import unquote, urlsplit

from envweave.errors import UsageError

_NOT_SENT = {"INSTALLER", "RECORD", "REQUESTED", "direct_url.json"}
"""What pip writes about an installation; the next one has its own."""
_ANY = "Wheel-Version: 1.0\nGenerator: envweave\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
_EPOCH = (1980, 1, 1, 0, 0, 0)


def pack(distribution: Distribution, folder: Path) -> Path:
    """Write the wheel of a distribution that was installed for good. Raises `UsageError` if its files are not known."""
    files = {str(path): Path(str(path.locate())) for path in distribution.files or () if ".." not in path.parts}
    contents = {name: path.read_bytes() for name, path in files.items() if _is_sent(name) and path.is_file()}
    if not any(not _in_metadata(name) for name in contents):
        message = f"the files of {distribution.name} {distribution.version} are not known"
        raise UsageError(message, "install it with pip, or build from its folder: envweave build path/to/it")
    return _write(distribution, contents, folder)


def pack_package(distribution: Distribution, package: Path, extra: Mapping[str, Path], folder: Path) -> Path:
    """Write the wheel of one package as it lies in a folder, installed for editing or not.

    Name, version and entry points are those of the distribution; `extra` are further files by their names inside.
    """
    files = {f"{package.name}/{path.relative_to(package)}": path for path in sorted(package.rglob("*"))} | dict(extra)
    contents = {name: path.read_bytes() for name, path in files.items() if _is_sent(name) and path.is_file()}
    for name in ("METADATA", "entry_points.txt"):
        contents[f"{_stem(distribution)}.dist-info/{name}"] = (distribution.read_text(name) or "").encode()
    return _write(distribution, contents, folder)


def project_folder(distribution: Distribution) -> Path | None:
    """The project of a distribution that was installed for editing; None for any other."""
    origin = json.loads(distribution.read_text("direct_url.json") or "{}")
    if not origin.get("dir_info", {}).get("editable"):
        return None
    return Path(unquote(urlsplit(origin["url"]).path))


def _write(distribution: Distribution, contents: dict[str, bytes], folder: Path) -> Path:
    stem = _stem(distribution)
    about = f"{stem}.dist-info"
    contents = {re.sub(r"^[^/]+\.dist-info/", f"{about}/", name): data for name, data in contents.items()}
    text = contents.setdefault(f"{about}/WHEEL", _ANY.encode()).decode()
    contents[f"{about}/RECORD"] = "".join(_records(contents, f"{about}/RECORD")).encode()
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / f"{stem}-{_tags(text)}.whl"
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in sorted(contents.items()):
            member = zipfile.ZipInfo(name, _EPOCH)
            member.external_attr = 0o100644 << 16
            archive.writestr(member, data, zipfile.ZIP_DEFLATED)
    return target


def _records(contents: Mapping[str, bytes], own: str) -> Iterator[str]:
    for name, data in sorted(contents.items()):
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        yield f'"{name}",sha256={digest},{len(data)}\n'
    yield f"{own},,\n"


def _tags(wheel: str) -> str:
    """`py2-none-any` and `py3-none-any` are `py2.py3-none-any` in the name of a file."""
    tags = [line.removeprefix("Tag:").strip().split("-") for line in wheel.splitlines() if line.startswith("Tag:")]
    return "-".join(".".join(sorted(set(part))) for part in zip(*tags, strict=True)) or "py3-none-any"


def _stem(distribution: Distribution) -> str:
    name = re.sub(r"[-_.]+", "_", distribution.name).lower()
    return f"{name}-{distribution.version}"


def _is_sent(name: str) -> bool:
    path = Path(name)
    return (
        "__pycache__" not in path.parts
        and path.suffix != ".pyc"
        and not (_in_metadata(name) and path.name in _NOT_SENT)
    )


def _in_metadata(name: str) -> bool:
    return Path(name).parts[0].endswith(".dist-info")
