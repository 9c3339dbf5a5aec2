"""The page as an ASGI application, put together in one function."""

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import anyio.to_thread
import structlog
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Receive, Scope, Send

from gateway.service.web.access import Access, Role, new_key, token_of
from gateway.service.web.buttons import Buttons
from gateway.service.web.context import Context, Health
from gateway.service.web.guard import Guard, Handler, needs
from gateway.service.web.history import MINUTES
from gateway.service.web.logins import Logins
from gateway.service.web.pages import Pages
from gateway.service.web.render import Renderer
from gateway.service.web.site import Site
from gateway.service.web.words import utc
from gateway.service_sections import WebSettings

log: structlog.stdlib.BoundLogger = structlog.get_logger("dropgate")

_METRICS = "text/plain; version=0.0.4; charset=utf-8"


@dataclass(frozen=True, slots=True)
class WebApp:
    """What `create_app` makes: an ASGI application, and what its server tells it."""

    guarded: ASGIApp
    site: Site

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.guarded(scope, receive, send)

    async def close_streams(self) -> None:
        """Ends the streams of open pages, which would go on for ever."""
        await self.site.pulse.close()


def create_app(
    context: Context, settings: WebSettings, *, session_key: bytes | None = None, folder: Path | None = None
) -> WebApp:
    """The application. Its server has to run its lifespan: that is when it listens to the hub and reads the journal.

    `session_key` signs logins (`access.kept_key` keeps one in a file); without it they end with the process. `folder` is what
    a relative `token_file` is relative to. Raises ConfigurationError for a token file that cannot be used, and where the page
    would be open to other hosts.
    """
    access = Access(settings, session_key or new_key(), token_of(settings, folder or Path()))
    site = Site(context)
    renderer = Renderer(site, access)
    pages, buttons, logins = Pages(site, access, renderer), Buttons(site, renderer), Logins.of(access, renderer)

    def get(path: str, role: Role, handler: Handler) -> Route:
        route = Route(path, needs(role, access, handler), methods=["GET"])
        # A HEAD would have a whole file read, or a stream begun, for nothing.
        route.methods = {"GET"}
        return route

    def post(path: str, role: Role, handler: Handler) -> Route:
        return Route(path, needs(role, access, handler), methods=["POST"])

    routes = [
        get("/", Role.VIEWER, pages.overview),
        get("/errors", Role.VIEWER, pages.errors),
        get("/drops/{drop}", Role.VIEWER, pages.drop),
        get("/drops/{drop}/items/{item}", Role.VIEWER, pages.item),
        get("/drops/{drop}/items/{item}/files/{suffix}", Role.OPERATOR, buttons.download),
        post("/drops/{drop}/items/{item}/replay", Role.OPERATOR, buttons.replay),
        post("/drops/{drop}/items/{item}/discard", Role.OPERATOR, buttons.discard),
        get("/login", Role.NOBODY, logins.show),
        Route("/login", logins.login, methods=["POST"]),  # checks its form itself, to answer with the form
        post("/logout", Role.VIEWER, logins.logout),
        get("/metrics", Role.VIEWER, _metrics(context)),
        Route("/healthz", _health(context.healthz)),
        Route("/readyz", _health(context.readyz)),
        Mount("/static", _Static(directory=str(files("gateway.service.web") / "static"))),
    ]

    async def problem(request: Request, error: Exception) -> Response:
        status = error.status_code if isinstance(error, HTTPException) else 500
        text = error.detail if isinstance(error, HTTPException) else "Something went wrong. The log says more."
        what = _WORDS.get(status, "Not possible")
        return renderer.document(request, "problem.html", status, what=what, text=text, notes=[], back="/")

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        del app
        context.hub.listeners.append(site.history.listen)
        threading.Thread(target=_read_journal, args=(site,), name="dropgate-web-journal", daemon=True).start()
        pulse = asyncio.create_task(site.pulse.run())
        try:
            yield
        finally:
            pulse.cancel()
            site.files.close()
            with contextlib.suppress(ValueError):
                context.hub.listeners.remove(site.history.listen)

    inside = Starlette(routes=routes, exception_handlers={HTTPException: problem, 500: problem}, lifespan=lifespan)
    return WebApp(Guard(inside, access), site)


_WORDS = {404: "Not there", 405: "Not possible", 500: "Something went wrong"}


def _read_journal(site: Site) -> None:
    try:
        site.history.load(site.context.journal.read(since=utc(site.now - MINUTES * 60)))
    except OSError as error:
        # The page goes on without the past, and its charts fill as time goes by.
        log.error("the journal cannot be read", error=f"{error}")


def _metrics(context: Context) -> Handler:
    async def metrics(request: Request) -> Response:
        del request
        return Response(await anyio.to_thread.run_sync(context.metrics), headers={"Content-Type": _METRICS})

    return metrics


def _health(asked: Health) -> Handler:
    async def health(request: Request) -> Response:
        del request
        well, facts = await anyio.to_thread.run_sync(asked)
        return JSONResponse(dict(facts), 200 if well else 503)

    return health


class _Static(StaticFiles):
    """Files of the package. A browser asks whether they have changed, and is told in a few bytes that they have not."""

    def file_response(self, *given: Any, **more: Any) -> Response:
        response = super().file_response(*given, **more)
        response.headers["Cache-Control"] = "no-cache"
        return response
