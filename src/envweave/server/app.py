"""`create_app`: from an environment to a FastAPI application, which any ASGI server runs and anybody can add to."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI

from envweave.server.assembly import Assembly
from envweave.server.offer import Offer


def create_app(
    env: Any,
    action_type: Any = None,
    observation_type: Any = None,
    *,
    env_name: str | None = None,
    state_type: Any = None,
    action_cls: Any = None,
    observation_cls: Any = None,
    state_cls: Any = None,
    max_concurrent_envs: int | None = None,
    **settings: Any,
) -> FastAPI:
    """Serve an environment: a class, a function that makes one, an instance or an `EnvSpec`.

    Types are read off the environment where they are not given. `settings` are those of
    `envweave.server.settings.Settings`. `action_cls`, `observation_cls`, `state_cls` and `max_concurrent_envs` are
    OpenEnv's words for `action_type`, `observation_type`, `state_type` and `max_sessions`. An instance has one session
    at a time and is closed with the server.
    """
    if max_concurrent_envs is not None:
        settings.setdefault("max_sessions", max_concurrent_envs)
    types = (action_type or action_cls, observation_type or observation_cls, state_type or state_cls)
    offer = Offer.of(env, *types, env_name)
    assembly = Assembly(offer, settings)
    app = FastAPI(
        title=assembly.title,
        routes=assembly.routes,
        middleware=assembly.middleware,
        lifespan=assembly.lifespan,
    )
    app.state.sessions = assembly.sessions
    app.openapi = assembly.openapi  # type: ignore[method-assign]
    return app
