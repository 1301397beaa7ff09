"""Where a fresh interpreter begins, once it has been sent these modules."""

from __future__ import annotations

import os
import socket

from envweave.sandbox.guest import linux, walls
from envweave.sandbox.guest.forkserver import ForkServer
from envweave.sandbox.guest.frames import Channel
from envweave.sandbox.guest.plan import HOME, Bounds, Plan
from envweave.sandbox.guest.supervisor import Supervisor
from envweave.sandbox.guest.warmth import warm_up


def main(sock: socket.socket) -> None:
    """Be what the first message says: a fork-server, or the one supervisor of a container."""
    message, _ = Channel(sock, limit=1 << 20).receive()
    plan = Plan.read(message["plan"])
    if message["op"] == "forkserver":
        ForkServer(sock, plan).serve()
        return
    warm_up(plan.preload)
    linux.become_subreaper()
    linux.set_dumpable(False)
    Supervisor(sock, plan, Bounds.read(message["bounds"]), HOME, walls.filter_program(plan)).serve()
    os._exit(0)
