"""The view of error images: of all drops, the newest first, each with its reason and what can be done."""

from gateway.service.board import DropView
from gateway.service.web.live import Sections
from gateway.service.web.markup import Element, h, when
from gateway.service.web.pieces import actions, drop_path, item_path, link, mark, state
from gateway.service.web.rows import Row
from gateway.service.web.site import Site, frame
from gateway.service.web.story import Facts, payload_suffixes, reason_of
from gateway.service.web.words import clipped, counted, size, utc
from protocol.states import State

PAGE = 50  # cards


def errors_sections(site: Site, page: int, csrf: str) -> Sections:
    """All sections of the page. `csrf` is "" for who may not press buttons."""
    picture = site.context.board.picture()
    found: list[tuple[DropView, Row]] = []
    for view in picture.drops:
        found += [(view, row) for row in site.table(view).rows if row.state == State.ERROR.word]
    found.sort(key=lambda pair: (pair[1].at or 0.0, pair[0].name, pair[1].item), reverse=True)
    pages = max(1, -(-len(found) // PAGE))
    page = min(max(page, 1), pages)
    shown = found[(page - 1) * PAGE : page * PAGE]
    return {
        **frame(site, picture),
        "found": {"found": h("p", {}, _found(len(found), page, pages))},
        "errors": {f"{view.name}/{row.title}": _card(site, view, row, csrf) for view, row in shown},
        "pages": _pages(page, pages),
    }


def _found(number: int, page: int, pages: int) -> str:
    if not number:
        return "No error images. Nothing has to be done."
    text = counted(number, "error image")
    return f"{text}, newest first" + (f", page {page} of {pages}." if pages > 1 else ".")


def _pages(page: int, pages: int) -> dict[str, Element]:
    links: dict[str, Element] = {}
    if page > 1:
        links["newer"] = h("a", {"class": "button", "href": f"/errors?page={page - 1}"}, "Newer")
    if page < pages:
        links["older"] = h("a", {"class": "button", "href": f"/errors?page={page + 1}"}, "Older")
    return links


def _card(site: Site, view: DropView, row: Row, csrf: str) -> Element:
    pressed = site.pending(view, row.title)
    buttons = None
    if csrf and not pressed:
        suffixes = payload_suffixes(view, row.item)
        buttons = actions(view.name, row.title, suffixes, csrf, back="errors", error=True)
    return h(
        "article",
        {"class": "card error"},
        h(
            "header",
            {},
            h("h2", {}, link(item_path(view.name, row.title), row.title, "name")),
            state("done", f"{pressed} just now") if pressed else state("error"),
            h("span", {"class": "faint"}, "in ", link(drop_path(view.name), view.name), f", {size(row.size)}, "),
            h("span", {"class": "faint"}, when(utc(row.at), "age"), " ago") if row.at is not None else None,
        ),
        _reason(reason_of(site, view, row)),
        buttons,
    )


def _reason(facts: Facts | None) -> Element:
    if facts is None:
        return h("p", {"class": "faint"}, "Reading the reason …")
    if not facts:
        return h("p", {"class": "faint"}, "No reason is beside it: it is still being put away.")
    more = ", ".join(f"{name} {value}" for name, value in facts.items() if name not in ("error", "time"))
    return h(
        "div",
        {"class": "reason"},
        h("p", {}, mark("error"), " ", h("bdi", {}, clipped(facts.get("error", "no text")))),
        h("p", {"class": "faint"}, h("bdi", {}, clipped(more, 300))) if more else None,
    )
