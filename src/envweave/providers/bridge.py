"""The short way to a container: its own address on a bridge of this machine, past Docker's proxy.

Only where it is sure that the address is the container's: the daemon speaks over a Unix socket, is neither rootless nor
a virtual machine, keeps the container's network namespace where we can see it, and the bridge with the container's
gateway is one of our own interfaces. Then the container must answer there, if only to refuse.
"""

from __future__ import annotations

import os
import socket
import sys
from typing import Any

PATIENCE = 0.25
"""Seconds for an answer of a container on this machine, which takes microseconds."""


def address(client: Any, container: Any, port: int) -> str | None:
    """`host:port` of a container that runs; None where there is no sure way but its published port."""
    settings = container.attrs["NetworkSettings"]
    if sys.platform != "linux" or not os.path.exists(settings.get("SandboxKey") or "/nowhere"):
        return None
    if not client.api.base_url.startswith("http+docker://") or _is_elsewhere(client.info()):
        return None
    for name, network in (settings.get("Networks") or {}).items():
        host, gateway = network.get("IPAddress"), network.get("Gateway")
        if host and gateway and _is_ours(_bridge(client, name), gateway) and _answers(host, port):
            return f"{host}:{port}"
    return None


def _is_elsewhere(daemon: dict[str, Any]) -> bool:
    rootless = any("rootless" in option for option in daemon.get("SecurityOptions") or ())
    return rootless or "Desktop" in (daemon.get("OperatingSystem") or "") or daemon.get("Name") != socket.gethostname()


def _bridge(client: Any, name: str) -> str:
    """The interface of a network, as the daemon names it; empty if it has none."""
    network = client.networks.get(name).attrs
    if network.get("Driver") != "bridge":
        return ""
    return (network.get("Options") or {}).get("com.docker.network.bridge.name") or f"br-{network['Id'][:12]}"


def _is_ours(interface: str, gateway: str) -> bool:
    """There is such an interface here, and the gateway is an address of this machine."""
    if not interface or not os.path.exists(f"/sys/class/net/{interface}/bridge"):
        return False
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.bind((gateway, 0))
        return True
    except OSError:
        return False


def _answers(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), timeout=PATIENCE).close()
    except ConnectionRefusedError:
        return True  # it is there, and does not listen yet
    except OSError:
        return False
    return True
