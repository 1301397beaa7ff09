"""Environments over WebSocket and HTTP. Needs the extra `server`."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from envweave.server.app import create_app
    from envweave.server.app import create_app as create_fastapi_app

__all__ = ["create_app", "create_fastapi_app"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'envweave.server' has no attribute {name!r}")
    from envweave.core.lookup import load

    return load("envweave.server.app:create_app", extra="server")  # fastapi, which a worker process does not need
