"""How this machine's pip finds packages, read when it is needed: what a build has to be told to find them as well."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

ARGUMENTS = {
    "index-url": "PIP_INDEX_URL",
    "extra-index-url": "PIP_EXTRA_INDEX_URL",
    "trusted-host": "PIP_TRUSTED_HOST",
    "proxy": "PIP_PROXY",
}
"""From a setting of pip to the build argument of our Dockerfiles."""
_SECTIONS = ("global", "install", ":env:")
"""A later one wins, as it does for pip."""


def settings() -> dict[str, str]:
    """What `pip config list` says, without sections; empty where there is no pip and nothing in the environment."""
    command = [sys.executable, "-m", "pip", "config", "list"]
    listed = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603  (ours)
    if listed.returncode:
        return {name: os.environ[key] for name, key in (*ARGUMENTS.items(), ("cert", "PIP_CERT")) if key in os.environ}
    return parsed(listed.stdout)


def parsed(listing: str) -> dict[str, str]:
    found: dict[str, dict[str, str]] = {section: {} for section in _SECTIONS}
    for line in listing.splitlines():
        key, equals, value = line.partition("=")
        section, dot, name = key.rpartition(".")
        if equals and dot and section in found:
            try:
                found[section][name] = str(ast.literal_eval(value))
            except (SyntaxError, ValueError):
                continue  # a form of the listing that we do not know is no reason to stop
    return {name: value for section in _SECTIONS for name, value in found[section].items()}


def build_arguments(settings: dict[str, str]) -> dict[str, str]:
    """For the build stage of our Dockerfiles. Folders of this machine are left out: the build does not have them."""
    found = {}
    for name, argument in ARGUMENTS.items():
        values = [each for each in settings.get(name, "").split() if not each.startswith(("file:", "/"))]
        if values:
            found[argument] = " ".join(values)
    return found


def authorities(settings: dict[str, str]) -> Path | None:
    """The file with the certificate authorities that are trusted here, where somebody has chosen one."""
    for name in (settings.get("cert"), os.environ.get("SSL_CERT_FILE")):
        if name and Path(name).is_file():
            return Path(name)
    return None
