"""The Hugging Face Hub: where the image and the package of a Space are. Nothing is asked or fetched here."""

from __future__ import annotations

import os
import re

from envweave.errors import UsageError

ENDPOINT = "https://huggingface.co"
IMAGES = "registry.hf.space"
TRUST = "ENVWEAVE_TRUST_REMOTE_CODE"
_SPACE = re.compile(r"(?P<owner>[\w.-]+)/(?P<name>[\w.-]+)", re.ASCII)


class Space:
    """An environment on the Hub, `org/name`. `HF_ENDPOINT` and `HF_SPACES_REGISTRY` name mirrors."""

    def __init__(self, space: str) -> None:
        match = _SPACE.fullmatch(space) if isinstance(space, str) else None
        if match is None or ".." in space:
            raise UsageError(f"{space!r} is not a Space of the Hub", "write it as org/name")
        self.id = space
        self._slug = re.sub(r"[^a-z0-9]+", "-", f"{match['owner']}-{match['name']}".lower()).strip("-")

    def image(self, tag: str = "latest") -> str:
        return f"{os.environ.get('HF_SPACES_REGISTRY') or IMAGES}/{self._slug}:{tag}"

    def package(self, trust_remote_code: bool | None = None) -> str:
        """What uv installs. Raises `UsageError` without consent to run code from the Hub."""
        agreed = os.environ.get(TRUST, "") in ("1", "true") if trust_remote_code is None else trust_remote_code
        if not agreed:
            hint = f"read it, then pass trust_remote_code=True or set {TRUST}=1; its image runs behind a wall"
            raise UsageError(f"{self.id} is code from outside and would run here with your rights", hint)
        return f"git+{(os.environ.get('HF_ENDPOINT') or ENDPOINT).rstrip('/')}/spaces/{self.id}"
