"""The handlers of what can be pressed: replay, discard, download."""

from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from urllib.parse import urlencode

import anyio
import anyio.to_thread
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from gateway.errors import GatewayError
from gateway.handoff.ledger.errors import LedgerUnavailable
from gateway.service.transitions import Transition, What
from gateway.service.web.flow import Flow
from gateway.service.web.guard import visitor_of
from gateway.service.web.pieces import item_path
from gateway.service.web.places import NoSuchDrop, OpenFile, TooBusy, item_of
from gateway.service.web.render import Renderer
from gateway.service.web.site import Site
from protocol.errors import Anomaly, ProtocolError
from protocol.names import FileKind, ItemId, kind_of
from transports.errors import NotFound, TransportError

_TROUBLES = (TransportError, ProtocolError, GatewayError, LedgerUnavailable, TooBusy)


@dataclass(frozen=True, slots=True)
class Buttons:
    """Each method answers one address."""

    site: Site
    renderer: Renderer

    async def replay(self, request: Request) -> Response:
        """Has an item processed again."""
        return await self._press(request, "replay", What.REPLAYED, self.site.places.replay)

    async def discard(self, request: Request) -> Response:
        """Moves an error image into the quarantine folder."""
        return await self._press(request, "discard", What.DISCARDED, self.site.places.discard)

    async def _press(self, request: Request, verb: str, what: What, act: Callable[[str, ItemId], tuple[str, ...]]) -> Response:
        drop, title = request.path_params["drop"], request.path_params["item"]
        item = self._item(drop, title)
        back = "errors" if request.state.form.get("back") == "errors" else "story"
        if request.state.form.get("sure") != "yes":
            # A browser with our script has asked by itself.
            return self.renderer.document(request, "confirm.html", drop=drop, item=title, verb=verb, back=back)
        try:
            paths = await anyio.to_thread.run_sync(act, drop, item)
        except NoSuchDrop:
            raise HTTPException(404, f"There is no drop {drop}.") from None
        except _TROUBLES as error:
            return self._problem(request, drop, title, f"{title}: no {verb}", error)
        self._tell(request, what, drop, item, title, paths)
        end = urlencode({"did": verb, "item": title})
        return RedirectResponse(f"/errors?{end}" if back == "errors" else f"{item_path(drop, title)}?{end}", 303)

    def _tell(self, request: Request, what: What, drop: str, item: ItemId, title: str, paths: tuple[str, ...]) -> None:
        site, visitor = self.site, visitor_of(request)
        who = visitor.name or "somebody on this host"
        routes = site.context.board.picture().routes
        # The route that took it: of several with this source, the one whose group it is.
        route = next((r.title for r in routes if r.source == drop and (not r.groups or item.group in r.groups)), "")
        text = f"by {who}: {', '.join(paths)}"
        sequence = title.removeprefix(item.group)
        site.context.hub.tell(Transition(site.context.clock.utc(), what, route, drop, item.group, sequence, text=text))
        site.pressed(drop, title, what.value)

    async def download(self, request: Request) -> Response:
        """One payload, as it stands in the drop, in pieces."""
        drop, title, suffix = (request.path_params[name] for name in ("drop", "item", "suffix"))
        item = self._item(drop, title)
        if kind_of(suffix) is not FileKind.PAYLOAD:
            raise HTTPException(404, "Only payloads can be downloaded.")
        try:
            file = await anyio.to_thread.run_sync(self.site.places.open_file, drop, item, suffix)
        except NoSuchDrop:
            raise HTTPException(404, f"There is no drop {drop}.") from None
        except _TROUBLES as error:
            return self._problem(request, drop, title, f"{title}.{suffix}: no download", error)
        headers = {
            # The name in the drop is of letters, digits, '.', '_', '-' and '+'. The original name is a stranger's text.
            "Content-Disposition": f'attachment; filename="{file.name}"',
            "Content-Length": f"{file.source.size}",
            "Content-Security-Policy": "sandbox; default-src 'none'",
        }
        return Flow(_pieces(file), "application/octet-stream", headers)

    def _item(self, drop: str, title: str) -> ItemId:
        item = item_of(self.site.places.grammar(drop), title)
        if item is None:
            raise HTTPException(404, f"{title} is no item of the drop {drop}.")
        return item

    def _problem(self, request: Request, drop: str, title: str, what: str, error: Exception) -> Response:
        status = 404 if isinstance(error, NotFound) else 409 if isinstance(error, Anomaly) else 502
        notes = list(getattr(error, "__notes__", ()))
        back = item_path(drop, title)
        return self.renderer.document(request, "problem.html", status, what=what, text=f"{error}", notes=notes, back=back)


async def _pieces(file: OpenFile) -> AsyncGenerator[str | bytes, None]:
    """The file's bytes. A file that changes meanwhile cuts the response short of its length, which no browser overlooks."""
    try:
        while data := await anyio.to_thread.run_sync(file.source.read):
            yield data
    finally:
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(file.close)
