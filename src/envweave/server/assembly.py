"""The parts of an application that serves an environment, and the application of them that `envweave serve` runs.

Without FastAPI, which takes as long to load as all the rest: the routes go around its machinery anyway. `app` has the
same for those who want a FastAPI application to build on.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from envweave.core.spec import EnvSpec
from envweave.server.auth import AccessControl
from envweave.server.http import Routes
from envweave.server.logs import hide_frames
from envweave.server.metrics import Metrics
from envweave.server.offer import Offer
from envweave.server.openapi import description
from envweave.server.sessions import Sessions
from envweave.server.settings import Settings
from envweave.server.stream import Stream
from envweave.server.web import HEADERS, PAGE


class Assembly:
    """What any application of ours has: its sessions, routes and middleware, and what happens at its start and end."""

    def __init__(self, offer: Offer, given: dict[str, Any]) -> None:
        hide_frames()
        self.offer = offer
        self.settings = settings = Settings.chosen(offer.preferred(given))
        self.sessions = Sessions(offer, settings, Metrics())
        self._calls = Routes(self.sessions)
        self.routes: list[BaseRoute] = [*self._calls.all(), *self._descriptions()]
        self.middleware = [
            Middleware(
                AccessControl,
                settings=settings,
                stream=Stream(self.sessions, self._calls.json_rpc),
                shortcuts=self._calls.shortcuts,
            )
        ]
        if settings.origins:  # outermost: a browser asks with OPTIONS first, and sends no token with that
            methods = ["GET", "POST", "DELETE"]
            cors = Middleware(
                CORSMiddleware, allow_origins=settings.origins, allow_methods=methods, allow_headers=["*"]
            )
            self.middleware.insert(0, cors)

    @property
    def title(self) -> str:
        return f"envweave: {self.offer.name}"

    @asynccontextmanager
    async def lifespan(self, _: Any) -> AsyncIterator[None]:
        self.sessions.start()
        yield
        await self._calls.streamable.stop()
        await self.sessions.stop()

    def openapi(self) -> dict[str, Any]:
        return description(self.offer, self.settings)

    def _descriptions(self) -> list[Route]:
        """All of them answer to GET; `openapi` describes them, like all the others."""
        pages = (self.health, self.metadata, self.schema, self.web, self.metrics)
        return [Route(f"/{page.__name__}", page, methods=["GET"]) for page in pages]

    async def health(self, _: Request) -> Response:
        """Whether the server runs. Answers without a token."""
        return JSONResponse({"status": "healthy"})

    async def metadata(self, _: Request) -> Response:
        """What is served."""
        spec = self.offer.spec
        named = {"name": self.offer.name, "description": spec.description, "version": spec.version or "1.0.0"}
        return JSONResponse({**named, "readme_content": None, "author": None, "documentation_url": None})

    async def schema(self, _: Request) -> Response:
        """The JSON Schemas of actions, observations and state."""
        return JSONResponse(self.offer.schemas())

    async def web(self, _: Request) -> Response:
        """A page to try the environment by hand."""
        return Response(PAGE, media_type="text/html", headers=HEADERS)

    async def metrics(self, _: Request) -> Response:
        """Counters for Prometheus."""
        return Response(self.sessions.metrics.text(), media_type="text/plain; version=0.0.4")


def create_bare_app(spec: EnvSpec, **settings: Any) -> Starlette:
    """The application without FastAPI, which is loaded with the first look at `/docs`."""
    assembly = Assembly(Offer(spec), settings)

    async def openapi(_: Request) -> Response:
        return JSONResponse(assembly.openapi())

    async def docs(_: Request) -> Response:
        from fastapi.openapi.docs import get_swagger_ui_html

        return get_swagger_ui_html(openapi_url="/openapi.json", title=assembly.title)

    async def redoc(_: Request) -> Response:
        from fastapi.openapi.docs import get_redoc_html

        return get_redoc_html(openapi_url="/openapi.json", title=assembly.title)

    app = Starlette(
        routes=[*assembly.routes, Route("/openapi.json", openapi), Route("/docs", docs), Route("/redoc", redoc)],
        middleware=assembly.middleware,
        lifespan=assembly.lifespan,
        exception_handlers={HTTPException: _refuse},
    )
    app.state.sessions = assembly.sessions
    return app


async def _refuse(_: Request, error: Exception) -> Response:
    """No such page, or not by this method; in FastAPI's form."""
    assert isinstance(error, HTTPException)
    return JSONResponse({"detail": error.detail}, status_code=error.status_code, headers=error.headers)
