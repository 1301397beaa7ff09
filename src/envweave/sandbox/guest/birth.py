"""From a fork of the supervisor to a worker: what is its own is taken, all else is let go, and the walls go up."""

from __future__ import annotations

import os
import socket
import sys
from typing import NoReturn

from envweave.sandbox.guest import linux, walls
from envweave.sandbox.guest.bell import disconnect
from envweave.sandbox.guest.frames import Channel
from envweave.sandbox.guest.plan import Bounds, Plan
from envweave.sandbox.guest.warmth import forget_ourselves
from envweave.sandbox.guest.worker import Worker

CONTROL = 100
"""The worker's descriptor of its channel, out of the way of those that code opens."""

_LARGEST = 1 << 30


def become_worker(
    plan: Plan, bounds: Bounds, home: str, program: bytes, mounts: int | None, descriptors: list[int]
) -> NoReturn:
    """In the new process. Nothing of the supervisor is left but its memory, and that is no secret.

    `mounts` is the mount namespace it belongs to, if not all share one. The descriptors are the worker's channel and
    outputs, and those through which it joins its control groups.
    """
    try:
        disconnect()
        os.setsid()
        if sys.platform == "linux":
            linux.set_dumpable(True)  # its own /proc is its own again
        if mounts is not None:
            linux.setns(mounts, linux.NEWNS)
        for group in descriptors[3:]:
            os.write(group, b"0")
        sock = _take(descriptors[:3])
        work = f"{home}/work"
        os.chdir(work)
        os.environ["HOME"] = work
        os.environ["TMPDIR"] = f"{home}/tmp"  # noqa: S108
        sys.path.insert(0, work)
        forget_ourselves()
        walls.confine(plan, bounds, home, program)
        flags = walls.BRANCH if plan.namespaces and plan.forks else 0
        Worker(Channel(sock, limit=_LARGEST), value_bytes=bounds.return_bytes, unshare_flags=flags).serve()
    except BaseException as error:
        os.write(2, f"the worker did not start: {error!r}\n".encode())
    finally:
        os._exit(70)


def _take(descriptors: list[int]) -> socket.socket:
    """The channel and the two outputs, and no other descriptor of any kind."""
    control, out, err = descriptors
    null = os.open(os.devnull, os.O_RDONLY)
    moved = os.dup2(control, CONTROL, inheritable=False)
    for number, source in enumerate((null, out, err)):
        os.dup2(source, number)
    os.closerange(3, CONTROL)
    os.closerange(CONTROL + 1, 1 << 20)
    return socket.socket(fileno=moved)
