"""The view of one drop: its items as a table, by state, group and text."""

from collections.abc import Mapping

from gateway.service.board import DropView, Moving, Picture
from gateway.service.web.live import Sections
from gateway.service.web.markup import Element, h, when
from gateway.service.web.overview import progress, seen
from gateway.service.web.pieces import drop_path, item_path, link, mark, state
from gateway.service.web.rows import STATES, Query, Row, Selection, Table
from gateway.service.web.site import Site, frame
from gateway.service.web.words import clipped, counted, size, utc

_MOST_TROUBLES = 20


class NoSuchView(Exception):
    """The board knows no drop of this name."""


def view_of(picture: Picture, name: str) -> DropView:
    """A drop as it was last seen. Raises NoSuchView."""
    view = picture.drop(name)
    if view is None:
        raise NoSuchView(name)
    return view


def drop_sections(site: Site, name: str, query: Query) -> Sections:
    """All sections of a drop's page. Raises NoSuchView."""
    picture = site.context.board.picture()
    view = view_of(picture, name)
    table = site.table(view)
    found = table.select(query)
    moving = {one.item: one for route in picture.routes if route.source == name for one in route.moving}
    return {
        **frame(site, picture),
        "seen": {"seen": h("p", {"class": "faint"}, h("bdi", {"class": "place"}, view.place), " · ", *seen(view))},
        "states": _states(name, query, found),
        "rows": {row.title: _row(site, view, row, moving.get(row.title)) for row in found.rows},
        "found": {"found": _found(view, query, found)},
        "pages": _pages(name, query, found),
        "troubles": _troubles(view),
    }


def groups_of(site: Site, name: str) -> list[str]:
    """The groups of a drop, for the list to choose from. Raises NoSuchView."""
    return list(site.table(view_of(site.context.board.picture(), name)).groups)


def _states(name: str, query: Query, found: Selection) -> Mapping[str, Element]:
    total = sum(found.states.values())
    entries: dict[str, Element] = {"all": _state_link(name, query, "", f"{total:,} in all")}
    for word in STATES:
        if found.states[word] or word == query.state:
            entries[word] = _state_link(name, query, word, f"{found.states[word]:,} {word}")
    return entries


def _state_link(name: str, query: Query, word: str, text: str) -> Element:
    here = {"aria-current": "true"} if query.state == word else {}
    inside = state(word, text) if word else h("span", {"class": "state"}, text)
    return h("li", {}, h("a", {"href": drop_path(name, query.address(state=word)), "data-state": word, **here}, inside))


# Said outright, since on a phone the rows are laid out otherwise, and a browser then no longer takes them for a table.
_ROW, _CELL, _HEADER = {"role": "row"}, {"role": "cell"}, {"scope": "row", "role": "rowheader"}


def _row(site: Site, view: DropView, row: Row, moving: Moving | None) -> Element:
    pressed = site.pending(view, row.title)
    return h(
        "tr",
        _ROW,
        h(
            "th",
            _HEADER,
            link(item_path(view.name, row.title), row.title, "name"),
            h("div", {"class": "trouble"}, mark("warning"), " ", clipped("; ".join(row.problems), 300))
            if row.problems
            else None,
        ),
        h("td", _CELL, state(row.state), h("div", {"class": "faint"}, f"{pressed} just now") if pressed else None),
        h("td", {"class": "number", **_CELL}, when(utc(row.at), "age") if row.at is not None else "unknown"),
        h("td", {"class": "number", **_CELL}, size(row.size)),
        h("td", _CELL, progress(moving) if moving is not None else ""),
        h("td", {"class": "owner", **_CELL}, row.owner),
    )


def _problems(problems: tuple[str, ...]) -> Element | None:
    if not problems:
        return None
    return h("div", {"class": "trouble"}, mark("warning"), " ", clipped("; ".join(problems), 300))


def _found(view: DropView, query: Query, found: Selection) -> Element:
    if view.snapshot is None:
        return h("p", {}, "The drop has not been looked at yet." if not view.trouble else "The drop does not answer.")
    if not found.total:
        filtered = query.state or query.text or query.group is not None
        return h("p", {}, "No item fits this." if filtered else "No items.")
    text = counted(found.total, "item")
    if found.pages > 1:
        text += f", page {found.page:,} of {found.pages:,}"
    return h("p", {}, f"{text}, {'oldest' if query.oldest else 'newest'} first.")


def _pages(name: str, query: Query, found: Selection) -> Mapping[str, Element]:
    if found.pages < 2:
        return {}
    links: dict[str, Element] = {}
    for key, text, page, there in (
        ("first", "First", 1, found.page > 1),
        ("previous", "Previous", found.page - 1, found.page > 1),
        ("next", "Next", found.page + 1, found.page < found.pages),
        ("last", "Last", found.pages, found.page < found.pages),
    ):
        if there:
            links[key] = h("a", {"class": "button", "href": drop_path(name, query.address(page=page))}, text)
        else:
            links[key] = h("span", {"class": "button off", "aria-hidden": "true"}, text)
    return links


def _troubles(view: DropView) -> Mapping[str, Element]:
    snapshot = view.snapshot
    if snapshot is None:
        return {}
    lines = [clipped(problem, 300) for problem in snapshot.problems]
    if snapshot.foreign:
        names = ", ".join(clipped(listed.path, 80) for listed in snapshot.foreign[:5])
        more = ", …" if len(snapshot.foreign) > 5 else ""
        lines.append(f"{counted(len(snapshot.foreign), 'foreign name')}, never touched: {names}{more}")
    return {line: h("li", {}, mark("warning"), " ", h("bdi", {}, line)) for line in lines[:_MOST_TROUBLES]}


def row_of(table: Table, title: str) -> Row | None:
    """An item's row, if the drop shows it."""
    return table.by_title.get(title)
