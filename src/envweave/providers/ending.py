"""What a container's state says of its end, and an error of its start."""

from __future__ import annotations

import time
from typing import Any

from envweave.providers.container import ContainerOptions
from envweave.providers.daemon import reason

_KILLED = 137
_LOOKS, _LOOK_PAUSE = 10, 0.05


def settled(container: Any) -> dict[str, Any]:
    """Its state. That memory was the reason of a death is known a moment after it."""
    for _ in range(_LOOKS):
        state: dict[str, Any] = container.attrs["State"]
        limited = container.attrs["HostConfig"].get("Memory")
        if not limited or state.get("Running") or state.get("OOMKilled") or state.get("ExitCode") != _KILLED:
            break
        time.sleep(_LOOK_PAUSE)
        container.reload()
    return state


def ending(state: dict[str, Any]) -> str:
    code = state.get("ExitCode")
    if state.get("Paused"):
        return "is paused"
    if state.get("OOMKilled"):
        return f"ran out of memory and was killed (exit code {code})"
    if state.get("Status") == "created":
        return f"did not start: {state.get('Error') or 'no reason given'}"
    if code == _KILLED:
        return f"was killed (exit code {code})"
    return f"has ended with exit code {code}" + (f" ({state['Error']})" if state.get("Error") else "")


def advice(state: dict[str, Any]) -> str:
    if state.get("Paused"):
        return "docker unpause lets it go on"
    return "memory=… gives it more" if state.get("OOMKilled") else ""


def why_not_started(chosen: ContainerOptions, error: Exception) -> tuple[str, str]:
    said = reason(error)
    if "port is already allocated" in said or "address already in use" in said:
        return f"port {chosen.host_port} of this machine is taken: {said}", "leave out host_port: Docker finds one"
    if "executable file not found" in said or "no command specified" in said.lower():
        return f"the image {chosen.image!r} cannot be run: {said}", "does it have a command that serves?"
    return f"no container of {chosen.image!r}: {said}", ""
