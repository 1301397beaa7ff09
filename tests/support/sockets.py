"""What this process holds open."""

import os
from contextlib import suppress


def count_sockets() -> int:
    found = 0
    for descriptor in os.listdir("/proc/self/fd"):
        with suppress(OSError):  # that of the list itself is closed again
            found += os.readlink(f"/proc/self/fd/{descriptor}").startswith("socket:")
    return found
