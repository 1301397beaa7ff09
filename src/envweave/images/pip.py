"""Settings of pip on this machine, which a build needs to reach the same package index."""

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
"""Build argument of the Dockerfiles for each setting."""
_SECTIONS = ("global", "install", ":env:")
"""In increasing priority, as in pip."""


def read_settings() -> dict[str, str]:
    """Return what `pip config list` shows, without sections. Without pip, the environment variables of pip are read."""
    command = [sys.executable, "-m", "pip", "config", "list"]
    listing = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603  (fixed command)
    if listing.returncode:
        variables = {**ARGUMENTS, "cert": "PIP_CERT"}
        return {name: os.environ[variable] for name, variable in variables.items() if variable in os.environ}
    return parse_settings(listing.stdout)


def parse_settings(listing: str) -> dict[str, str]:
    """Parse the output of `pip config list`. Lines in an unknown form are ignored."""
    sections: dict[str, dict[str, str]] = {section: {} for section in _SECTIONS}
    for line in listing.splitlines():
        key, equals, value = line.partition("=")
        section, dot, name = key.rpartition(".")
        if equals and dot and section in sections:
            try:
                sections[section][name] = str(ast.literal_eval(value))
            except (SyntaxError, ValueError):
                continue
    return {name: value for section in _SECTIONS for name, value in sections[section].items()}


def build_arguments(settings: dict[str, str]) -> dict[str, str]:
    """Return build arguments for the Dockerfiles. Local folders are left out, because the build cannot read them."""
    arguments = {}
    for name, argument in ARGUMENTS.items():
        values = [value for value in settings.get(name, "").split() if not value.startswith(("file:", "/"))]
        if values:
            arguments[argument] = " ".join(values)
    return arguments


def ca_bundle(settings: dict[str, str]) -> Path | None:
    """Return the file with trusted certificate authorities that pip or `SSL_CERT_FILE` names, if it exists."""
    for name in (settings.get("cert"), os.environ.get("SSL_CERT_FILE")):
        if name and Path(name).is_file():
            return Path(name)
    return None
