"""From views to documents: templates for what stands still, pieces for what changes."""

import contextlib
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from typing import Any

import anyio.to_thread
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from gateway.service.web.access import Access, Role
from gateway.service.web.flow import Flow
from gateway.service.web.guard import set_session, visitor_of
from gateway.service.web.live import View, shown
from gateway.service.web.markup import Element, to_html
from gateway.service.web.site import Site
from gateway.service.web.words import visible


def _finalize(value: object) -> object:
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


@dataclass(slots=True)
class Renderer:
    """Makes responses. Whoever has no session yet is given one with the first document."""

    site: Site
    access: Access
    _templates: Environment = field(init=False)

    def __post_init__(self) -> None:
        loader = PackageLoader("gateway.service.web")
        self._templates = Environment(
            loader=loader, autoescape=True, finalize=_finalize, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
        )

    def document(self, request: Request, template: str, status: int = 200, **facts: Any) -> Response:
        """A document that stands still."""
        visitor = visitor_of(request)
        facts = {"cursor": "", "query": None, "did": ""} | facts
        text = self._templates.get_template(template).render(
            visitor=visitor,
            operator=visitor.role is Role.OPERATOR,
            open=self.access.open,
            csrf=self.access.form_token(visitor),
            path=request.url.path,
            version=self.site.context.version,
            now=self.site.context.clock.utc(),
            **facts,
        )
        response = HTMLResponse(text, status)
        if request.state.cookie:
            set_session(request, response, self.access, request.state.cookie)
        return response

    async def live(self, request: Request, template: str, view: View, **facts: Any) -> Response:
        """A document that changes: itself, or with `live=CURSOR` in its address the stream of its changes."""
        if "live" in request.query_params:
            return self._stream(request, view)
        sections = await anyio.to_thread.run_sync(view)
        cursor = self.site.pulse.remembered.keep(shown(sections))
        facts |= {"live": {name: self._html(pieces) for name, pieces in sections.items()}, "cursor": cursor}
        return self.document(request, template, **facts)

    def _stream(self, request: Request, view: View) -> Response:
        if self.site.pulse.full:
            return Response("too many pages are open\n", 503, {"Retry-After": "10"}, "text/plain")
        cursor = request.headers.get("last-event-id", "") or request.query_params["live"]
        events = self._while_allowed(request, self.site.pulse.stream(view, cursor, self.site.context.clock.utc))
        return Flow(events, "text/event-stream", {"X-Accel-Buffering": "no"})

    async def _while_allowed(self, request: Request, events: AsyncGenerator[str, None]) -> AsyncGenerator[str | bytes, None]:
        """The events, until the session ends that asked for them."""
        authorization = request.headers.get("authorization", "")
        async with contextlib.aclosing(events):
            async for event in events:
                if not self.access.visitor(request.cookies, authorization).role:
                    return
                yield event

    def _html(self, pieces: Mapping[str, Element]) -> Markup:
        now = self.site.now
        return Markup("").join(
            to_html(Element(piece.tag, {"data-key": key, **piece.attributes}, piece.children), now)
            for key, piece in pieces.items()
        )
