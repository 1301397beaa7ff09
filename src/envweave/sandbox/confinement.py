"""The walls of a container: what is asked of Docker for a session, and what then stands."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from envweave.sandbox import boot
from envweave.sandbox.cgroup import SLACK
from envweave.sandbox.guest.frames import Message
from envweave.sandbox.guest.plan import AGENT, HOME
from envweave.sandbox.limits import MIB, Limits
from envweave.sandbox.report import Layer

_SUPERVISOR_BYTES = 32 * MIB
_SMALL = 16 * MIB
_DOOR = "/run/envweave"


def options(limits: Limits, cpus: float | None, image: dict[str, Any], folder: str) -> dict[str, Any]:
    """For `docker.containers.create`; `image` is what is known of the image, `folder` has the socket to call at."""
    memory = None if limits.memory_bytes is None else limits.memory_bytes + SLACK + _SUPERVISOR_BYTES
    unset = {line.partition("=")[0] for line in image["Config"].get("Env") or ()} - set(boot.ENVIRONMENT)
    return {
        "image": image["Id"],
        "entrypoint": ["python3"],
        "command": [*boot.ARGUMENTS, f"{_DOOR}/socket"],
        "environment": [*(f"{name}={value}" for name, value in boot.ENVIRONMENT.items()), *unset],
        "use_config_proxy": False,  # the host's settings, perhaps with a password
        "working_dir": "/",
        "hostname": "sandbox",
        "user": f"{AGENT}:{AGENT}",
        "network_mode": "none",
        "ipc_mode": "private",
        "read_only": True,
        "cap_drop": ["ALL"],
        "security_opt": ["no-new-privileges"],
        "mem_limit": memory,
        "memswap_limit": memory,
        "pids_limit": None if limits.processes is None else limits.processes + 1,  # the supervisor is one
        "nano_cpus": None if cpus is None else int(cpus * 1e9),
        "tmpfs": {
            **dict.fromkeys(image["Config"].get("Volumes") or (), "ro,size=4k"),  # else writable, and without a bound
            HOME: _bounds(limits.disk_bytes, limits.files),
            "/tmp": _bounds(_SMALL, limits.files),  # noqa: S108
        },
        "shm_size": _SMALL,
        "mounts": [{"Type": "bind", "Source": folder, "Target": _DOOR, "ReadOnly": True}],
        "healthcheck": {"test": ["NONE"]},
        "log_config": {"type": "json-file", "config": {"max-size": "64k", "max-file": "1"}},
    }


def _bounds(size: int | None, files: int | None) -> str:
    """Of a file system in memory."""
    bounds = {"uid": AGENT, "gid": AGENT, "mode": "0700", "size": size, "nr_inodes": files}
    return ",".join(["exec", *(f"{name}={value}" for name, value in bounds.items() if value is not None)])


def unkept(daemon: dict[str, Any]) -> frozenset[str]:
    """Limits without a wall: a daemon that has no control group only warns, and lets containers have what they like."""
    kept = {"memory_bytes": daemon.get("MemoryLimit"), "processes": daemon.get("PidsLimit")}
    return frozenset(name for name, on in kept.items() if not on)


def layers(daemon: dict[str, Any], hello: Message, cpus: float | None) -> Iterable[Layer]:
    """By what the daemon says of itself, and a supervisor of what it found inside."""
    security = dict(each.removeprefix("name=").partition(",")[::2] for each in daemon.get("SecurityOptions") or ())
    mapped = bool({"userns", "rootless"} & set(security))
    filters = ["an allowlist of system calls"] * bool(hello.get("seccomp"))
    filters += [f"Docker's, {security['seccomp']}"] * ("seccomp" in security)
    abi = hello.get("landlock")
    yield Layer("process", True, "a container of its own, with an empty environment and no descriptor of ours")
    yield Layer("user", True, f"as user {AGENT}, never as root")
    yield Layer("user namespace", mapped, "the daemon's" if mapped else "the daemon does not map its users")
    yield Layer("mount namespace", True, "the image, read-only, and nothing of the host")
    yield Layer("pid namespace", True, "it sees and signals its own processes only, and all end with it")
    yield Layer("network namespace", True, "no network, not even the host's loopback")
    yield Layer("ipc namespace", True, "no shared memory or queues of others")
    yield Layer("uts namespace", True, "a host name of its own")
    yield Layer("no_new_privs", True, "set-uid programs gain nothing")
    yield Layer("capabilities", True, "none left")
    yield Layer("seccomp", bool(filters), "; ".join(filters) or "neither ours nor Docker's")
    yield Layer("landlock", bool(abi), f"ABI {abi}" if abi else "not in this kernel, or kept from containers")
    yield Layer("rlimits", True, "memory, files, open files, core")
    for name, key in (("memory", "MemoryLimit"), ("pids", "PidsLimit"), ("cpu", "CpuCfsQuota")):
        on = bool(daemon.get(key)) and (name != "cpu" or cpus is not None)
        yield Layer(f"{name} cgroup", on, "for each session" if on else "not kept here")
    yield Layer("work folder", True, "in memory, of bounded size")
