"""`create_app`: from an environment to an application that any ASGI server runs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from fastapi import FastAPI, Response
from fastapi.middleware.cors import CORSMiddleware

from envweave.server.auth import Door
from envweave.server.http import Routes
from envweave.server.metrics import Metrics
from envweave.server.offer import Offer
from envweave.server.openapi import description
from envweave.server.sessions import Sessions
from envweave.server.settings import Settings
from envweave.server.stream import Stream
from envweave.server.web import HEADERS, PAGE


def create_app(
    env: Any,
    action_type: Any = None,
    observation_type: Any = None,
    *,
    env_name: str | None = None,
    state_type: Any = None,
    state_cls: Any = None,
    max_concurrent_envs: int | None = None,
    **settings: Any,
) -> FastAPI:
    """Serve an environment: a class, a function that makes one, an instance or an `EnvSpec`.

    Types are read off the environment where they are not given. `settings` are those of
    `envweave.server.settings.Settings`; `max_concurrent_envs` and `state_cls` are OpenEnv's words for `max_sessions`
    and `state_type`. An instance has one session at a time and is closed with the server.
    """
    if max_concurrent_envs is not None:
        settings.setdefault("max_sessions", max_concurrent_envs)
    offer = Offer.of(env, action_type, observation_type, state_type or state_cls, env_name)
    chosen = Settings.chosen(offer.preferred(settings))
    sessions = Sessions(offer, chosen, Metrics())
    routes = Routes(sessions)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        sessions.start()
        yield
        await routes.streamable.stop()
        await sessions.stop()

    app = FastAPI(title=f"envweave: {sessions.offer.name}", lifespan=lifespan)
    app.state.sessions = sessions
    app.openapi = partial(description, offer, chosen)  # type: ignore[method-assign]
    routes.add_to(app)
    _add_descriptions(app, sessions)
    app.add_middleware(Door, settings=chosen, stream=Stream(sessions, routes.json_rpc), shortcuts=routes.shortcuts)
    if chosen.origins:  # outermost: a browser asks with OPTIONS first, and sends no token with that
        app.add_middleware(
            CORSMiddleware, allow_origins=chosen.origins, allow_methods=["GET", "POST", "DELETE"], allow_headers=["*"]
        )
    return app


def _add_descriptions(app: FastAPI, sessions: Sessions) -> None:
    offer = sessions.offer
    get = partial(app.get, include_in_schema=False)  # `openapi` describes them, like all the others

    @get("/health")
    async def health() -> dict[str, str]:
        """Whether the server runs. Answers without a token."""
        return {"status": "healthy"}

    @get("/metadata")
    async def metadata() -> dict[str, Any]:
        """What is served."""
        named = {"name": offer.name, "description": offer.spec.description, "version": offer.spec.version or "1.0.0"}
        return {**named, "readme_content": None, "author": None, "documentation_url": None}

    @get("/schema")
    async def schema() -> dict[str, Any]:
        """The JSON Schemas of actions, observations and state."""
        return offer.schemas()

    @get("/web")
    async def web() -> Response:
        """A page to try the environment by hand."""
        return Response(PAGE, media_type="text/html", headers=HEADERS)

    @get("/metrics")
    async def metrics() -> Response:
        """Counters for Prometheus."""
        return Response(sessions.metrics.text(), media_type="text/plain; version=0.0.4")
