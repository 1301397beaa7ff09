"""A provider: a server with a low priority."""

import sys

from envweave.providers import SubprocessProvider


class NiceProvider(SubprocessProvider):
    """Serves an environment, or runs a Python program that listens on PORT, at `nice -n 5`."""

    def __init__(self, id="", *, program=None):
        serve = [sys.executable, "-m", "envweave", "serve", id, "--port", "0"]
        run = [sys.executable, "-uc", (program or "").replace("PORT", "{port}")]
        super().__init__(id, command=["nice", "-n", "5", *(serve if program is None else run)])
