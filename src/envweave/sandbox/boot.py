"""Starting a fresh interpreter on the other side: it is sent its modules, and needs nothing of ours but Python."""

from __future__ import annotations

import functools
import json
import os
import struct
from pathlib import Path

from envweave.sandbox import guest
from envweave.sandbox.guest import plan

CODE = """
import importlib.abc, importlib.util, json, socket, struct, sys
where = sys.argv[1]
if where.isdigit():
    sock = socket.socket(fileno=int(where))
else:
    sock = socket.socket(socket.AF_UNIX)
    sock.connect(where)
def read(count):
    data = b""
    while len(data) < count:
        more = sock.recv(count - len(data))
        if not more:
            sys.exit("nobody has sent anything")
        data += more
    return data
sources = json.loads(read(struct.unpack("<I", read(4))[0]))
class Sent(importlib.abc.MetaPathFinder, importlib.abc.InspectLoader):
    def find_spec(self, name, path=None, target=None):
        if name in sources:
            return importlib.util.spec_from_loader(name, self, is_package=self.is_package(name))
    def is_package(self, name):
        return not sources[name][1]
    def get_source(self, name):
        return sources[name][1]
    def exec_module(self, module):
        path, source = sources[module.__name__]
        exec(compile(source, path, "exec"), module.__dict__)
sys.meta_path.insert(0, Sent())
import envweave.sandbox.guest.main as begin
sys.meta_path.pop(0)
begin.main(sock)
"""
"""Given with `-c`, and a descriptor or the path of a socket as its argument. The packages it is sent are empty."""

ARGUMENTS = ("-P", "-s", "-B", "-c", CODE)
"""For Python: no folder of the caller's on the path, none of the user's packages, no bytecode written."""

ENVIRONMENT = {**plan.ENVIRONMENT, "PYTHONHASHSEED": "0"}
"""Nothing of the host's. Hashes are the same in all sessions."""


@functools.cache
def modules() -> bytes:
    """What is sent first."""
    sources = {"envweave": ("", ""), "envweave.sandbox": ("", ""), guest.__name__: ("", "")}
    for path in sorted(Path(os.path.dirname(guest.__file__)).glob("*.py")):
        if path.stem != "__init__":
            sources[f"{guest.__name__}.{path.stem}"] = (f"<envweave {path.stem}>", path.read_text())
    data = json.dumps(sources).encode()
    return struct.pack("<I", len(data)) + data
