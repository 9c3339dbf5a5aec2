"""The handlers of what can be looked at."""

from dataclasses import dataclass

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from gateway.service.web.access import Access, Role, Visitor
from gateway.service.web.drop_view import NoSuchView, drop_sections, groups_of
from gateway.service.web.errors_view import errors_sections
from gateway.service.web.guard import visitor_of
from gateway.service.web.live import Sections, View
from gateway.service.web.overview import overview
from gateway.service.web.places import item_of
from gateway.service.web.render import Renderer
from gateway.service.web.rows import Query
from gateway.service.web.site import Site
from gateway.service.web.story import Story

_PATIENCE = 0.4  # seconds that a first document waits for small files: a drop that is near has them by then
_LONG_PATIENCE = 10.0  # where a browser without our script asks for them

_DONE = {
    "replay": "is ready again.",
    "discard": "was moved into the quarantine folder of its drop.",
}


@dataclass(frozen=True, slots=True)
class Pages:
    """Each method answers one address."""

    site: Site
    access: Access
    renderer: Renderer

    async def overview(self, request: Request) -> Response:
        """How everything stands."""
        return await self.renderer.live(request, "overview.html", lambda: overview(self.site))

    async def drop(self, request: Request) -> Response:
        """The items of one drop."""
        name, query = request.path_params["drop"], Query.of(request.query_params)
        try:
            groups = groups_of(self.site, name)
            return await self.renderer.live(
                request, "drop.html", lambda: drop_sections(self.site, name, query), drop=name, query=query, groups=groups
            )
        except NoSuchView:
            raise HTTPException(404, f"There is no drop {name}.") from None

    async def errors(self, request: Request) -> Response:
        """Error images of all drops."""
        page = request.query_params.get("page", "1")
        number = int(page) if page.isascii() and page.isdecimal() and len(page) < 9 else 1
        csrf = self._csrf(request)
        view = self._with_files(request, lambda: errors_sections(self.site, number, csrf))
        return await self.renderer.live(request, "errors.html", view, **_did(request))

    async def item(self, request: Request) -> Response:
        """The story of one item."""
        name, title = request.path_params["drop"], request.path_params["item"]
        item = item_of(self.site.places.grammar(name), title)
        if item is None:
            raise HTTPException(404, f"{title} is no item of the drop {name}.")
        story = Story(self.site, name, title, item, self._csrf(request))
        try:
            view = self._with_files(request, story.sections)
            return await self.renderer.live(request, "item.html", view, drop=name, item=title, **_did(request))
        except NoSuchView:
            raise HTTPException(404, f"There is no drop {name}.") from None

    def _with_files(self, request: Request, view: View) -> View:
        """The view, which has waited a little for the files that it asks for where it is made for a document."""
        if "live" in request.query_params:
            return view
        patience = _LONG_PATIENCE if "wait" in request.query_params else _PATIENCE

        def waited() -> Sections:
            view()
            self.site.files.wait(patience)
            return view()

        return waited

    def _csrf(self, request: Request) -> str:
        """The token for buttons of this visitor; "" for who may not press them, or has no session yet."""
        visitor: Visitor = visitor_of(request)
        return self.access.form_token(visitor) if visitor.role is Role.OPERATOR else ""


def _did(request: Request) -> dict[str, str]:
    """What the button has done that led here, in words."""
    what, item = request.query_params.get("did", ""), request.query_params.get("item", "")
    return {"did": f"{item[:300]} {_DONE[what]}"} if what in _DONE and item else {}
