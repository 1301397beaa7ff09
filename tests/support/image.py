"""A local image with this machine's own CPython, laid out like the official `python:…-slim`, made without a network.

It holds CPython with its standard library (no pip, but `python3 -m ensurepip` works), the libraries that these and
manylinux wheels want, a shell, a few tools, and the users root, nobody and agent (1000). It has no package manager.
"""

import hashlib
import io
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import docker
from docker.errors import ImageNotFound

VERSION = ".".join(map(str, sys.version_info[:3]))
TAG = f"envweave-test-base:{VERSION}"
LABELS = {
    "envweave.test-base": VERSION,
    "envweave.test-base.recipe": hashlib.sha256(Path(__file__).read_bytes()).hexdigest()[:12],
}
CHANGES = [
    "ENV PATH=/usr/local/bin:/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin",
    "ENV LANG=C.UTF-8",
    'CMD ["python3"]',
    *(f"LABEL {name}={value}" for name, value in LABELS.items()),
]

TOOLS = "sh ls cat cp mv rm mkdir chmod chown touch head tail grep env id sleep timeout true false"
# What manylinux wheels may ask of any machine (PEP 600), though CPython itself does not link all of it.
CORE = (
    "libanl.so.1 libatomic.so.1 libcrypt.so.1 libdl.so.2 libexpat.so.1 libgcc_s.so.1 libm.so.6 libmvec.so.1 "
    "libnsl.so.1 libpthread.so.0 libresolv.so.2 librt.so.1 libstdc++.so.6 libutil.so.1 libz.so.1"
)
FOLDERS = "dev etc home proc root run sys usr/bin usr/lib usr/lib64 usr/local/bin var"
LINKS = {
    **{name: f"usr/{name}" for name in ("bin", "lib", "lib64")},
    "sbin": "usr/bin",
    "usr/local/bin/python3": f"python{sys.version_info[0]}.{sys.version_info[1]}",
    "usr/local/bin/python": "python3",
}
TEXTS = {
    "etc/passwd": """root:x:0:0:root:/root:/bin/sh
nobody:x:65534:65534:nobody:/nonexistent:/bin/false
agent:x:1000:1000:agent:/home/agent:/bin/sh
""",
    "etc/group": "root:x:0:\nnogroup:x:65534:\nagent:x:1000:\n",
    "etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
}
SKIPPED = {"test", "tests", "idlelib", "tkinter", "turtledemo", "lib2to3", "site-packages", "dist-packages"}


def ensure_image(client: docker.DockerClient) -> str:
    """The tag of the image in the client's daemon; it is made there unless the same recipe has made it before."""
    try:
        if client.images.get(TAG).labels.items() >= LABELS.items():
            return TAG
    except ImageNotFound:
        pass
    with tempfile.TemporaryFile() as file:
        write_root(file)
        file.seek(0)
        repository, tag = TAG.split(":")
        answer = client.api.import_image_from_data(file, repository=repository, tag=tag, changes=CHANGES)
    if '"error"' in answer:  # the status was sent before the tar was read
        raise RuntimeError(f"the image was not imported: {answer}")
    return TAG


def write_root(file: BinaryIO) -> None:
    """Writes the root file system as a tar. All belongs to root and may be read by everybody, whatever it is here."""
    files = dict(python_files())
    files |= {f"usr/bin/{tool}": tool_path(tool) for tool in TOOLS.split()}
    files |= libraries([path for name, path in files.items() if ".so" in path.suffixes or "/bin/" in name])
    with tarfile.open(fileobj=file, mode="w") as tar:
        parents = {str(parent) for name in files for parent in Path(name).parents} - {"."}
        stdlib = f"usr/local/lib/{Path(sysconfig.get_path('stdlib')).name}"
        folders = {parent for folder in FOLDERS.split() for parent in (folder, *map(str, Path(folder).parents))} - {"."}
        for name in sorted({*parents, *folders, f"{stdlib}/site-packages"}):
            add(tar, name, type=tarfile.DIRTYPE, mode=0o755)
        for name in ("tmp", "var/tmp"):
            add(tar, name, type=tarfile.DIRTYPE, mode=0o1777)
        add(tar, "home/agent", type=tarfile.DIRTYPE, mode=0o755, uid=1000, gid=1000)
        for name, target in LINKS.items():
            add(tar, name, type=tarfile.SYMTYPE, linkname=target)
        for name, text in TEXTS.items():
            add(tar, name, io.BytesIO(text.encode()), size=len(text))
        for name, path in files.items():
            with path.open("rb") as source:
                stat = os.fstat(source.fileno())
                mode = 0o755 if stat.st_mode & 0o100 else 0o644
                # The time is kept, as it is what makes a .pyc valid.
                add(tar, name, source, size=stat.st_size, mode=mode, mtime=int(stat.st_mtime))


def add(tar: tarfile.TarFile, name: str, source: BinaryIO | None = None, **fields: object) -> None:
    member = tarfile.TarInfo(name)
    for field, value in fields.items():
        setattr(member, field, value)
    tar.addfile(member, source)


def python_files() -> Iterator[tuple[str, Path]]:
    """CPython as it is below `sys.base_prefix`, by its name below /usr/local."""
    python = "python{}.{}".format(*sys.version_info)
    yield f"usr/local/bin/{python}", Path(sys.base_prefix, "bin", python)
    stdlib = Path(sysconfig.get_path("stdlib"))
    for folder, folders, names in os.walk(stdlib):
        folders[:] = [name for name in folders if name not in SKIPPED and not name.startswith("config-")]
        for name in names:
            path = Path(folder, name)
            foreign = name.endswith(".pyc") and not name.endswith(f".{sys.implementation.cache_tag}.pyc")
            if path.is_file() and not foreign and not name.startswith("_tkinter") and path.suffix not in (".a", ".exe"):
                yield f"usr/local/lib/{stdlib.name}/{path.relative_to(stdlib)}", path


def tool_path(tool: str) -> Path:
    path = shutil.which(tool, path="/usr/bin:/bin")
    if path is None:
        raise FileNotFoundError(f"no {tool!r} in /usr/bin and /bin")
    return Path(path).resolve()


def libraries(programs: list[Path]) -> dict[str, Path]:
    """All that the loader wants for `programs`, and CORE: the loader at its own path, the others beside libc."""
    listing = subprocess.run(["ldd", *programs], capture_output=True, text=True, check=False).stdout
    found = {Path(path) for path in re.findall(r"(/\S+) \(0x", listing)}
    home = next(path.parent for path in found if path.name.startswith("libc.so"))
    found |= {home / name for name in CORE.split() if (home / name).exists()}
    places = {path: path if path.name.startswith("ld-") else home / path.name for path in found}
    # /lib and /lib64 are links into /usr in the image, whatever they are here.
    return {f"usr/{str(place).removeprefix('/usr').lstrip('/')}": path for path, place in places.items()}
