"""Small pieces that several views share: states with their marks, links, buttons."""

from urllib.parse import quote

from gateway.service.web.markup import Element, h

# Each state has a shape of its own beside its word, so that colour is never what tells two apart. On a field of 12 by 12.
_MARKS = {
    "before": "M6 1.5a4.5 4.5 0 1 0 0 9a4.5 4.5 0 1 0 0-9M6 3.4v2.8l1.9 1.2",
    "ready": "M6 1.5a4.5 4.5 0 1 0 0 9a4.5 4.5 0 1 0 0-9",
    "claimed": "M2 6h7M6 2.6L9.5 6L6 9.4",
    "done": "M6 1.5a4.5 4.5 0 1 0 0 9a4.5 4.5 0 1 0 0-9M4 6.2l1.5 1.5L8.2 4.6",
    "after": "M2 6.4l2.8 2.8L10 3",
    "error": "M2.5 2.5l7 7M9.5 2.5l-7 7",
    "no token": "M6 1.5v1.2M6 9.3v1.2M1.5 6h1.2M9.3 6h1.2M2.8 2.8l.9.9M8.3 8.3l.9.9M2.8 9.2l.9-.9M8.3 3.7l.9-.9",
    "running": "M2 6h7M6 2.6L9.5 6L6 9.4",
    "starting": "M6 1.5a4.5 4.5 0 1 0 0 9a4.5 4.5 0 1 0 0-9M6 3.4v2.8l1.9 1.2",
    "away": "M1.5 6h2.2M8.3 6h2.2M4.6 3.4l2.8 5.2",
    "paused": "M4.2 2.5v7M7.8 2.5v7",
    "failed": "M6 1.6L11 10.2H1zM6 5v2.2M6 8.6v.4",
    "stopped": "M2.5 2.5h7v7h-7z",
    "warning": "M6 1.6L11 10.2H1zM6 5v2.2M6 8.6v.4",
    "critical": "M4 1.5h4L10.5 4v4L8 10.5H4L1.5 8V4zM6 3.6v3M6 8v.4",
    "well": "M2 6.4l2.8 2.8L10 3",
}


def mark(kind: str) -> Element:
    """The shape of a state, for the eye only: its word stands beside it."""
    drawing = h("path", {"d": _MARKS.get(kind, _MARKS["ready"])})
    return h("svg", {"class": "mark", "viewBox": "0 0 12 12", "aria-hidden": "true", "focusable": "false"}, drawing)


def state(word: str, text: str = "") -> Element:
    """A state: its shape and its word, or a text of it."""
    return h("span", {"class": f"state {word.replace(' ', '-')}"}, mark(word), h("span", {}, text or word))


def drop_path(drop: str, end: str = "") -> str:
    """The address of a drop's page."""
    return f"/drops/{quote(drop, safe='')}{end}"


def item_path(drop: str, title: str, end: str = "") -> str:
    """The address of an item's page, or of something below it."""
    return f"/drops/{quote(drop, safe='')}/items/{quote(title, safe='')}{end}"


def link(path: str, text: str, kind: str = "") -> Element:
    """A link within the page."""
    return h("a", {"href": path} | ({"class": kind} if kind else {}), text)


def button(action: str, text: str, about: str, csrf: str, *, back: str, kind: str, ask: str) -> Element:
    """A form of one button. `ask` is what has to be confirmed first; `back` where to go afterwards, "story" or "errors"."""
    form = {"method": "post", "action": action, "class": "act", "data-ask": ask, "data-verb": text}
    return h(
        "form",
        form,
        h("input", {"type": "hidden", "name": "csrf", "value": csrf}),
        h("input", {"type": "hidden", "name": "back", "value": back}),
        h("button", {"type": "submit", "class": kind, "aria-label": f"{text} {about}"}, text),
    )


def actions(drop: str, title: str, payloads: list[str], csrf: str, *, back: str, error: bool) -> Element:
    """What an operator may do with an error image, or with an after image: replay, discard, download."""
    found: list[Element] = [
        button(
            item_path(drop, title, "/replay"),
            "Replay",
            title,
            csrf,
            back=back,
            kind="main" if error else "",
            ask=f"Have {title} processed again? Its files are renamed back to ready.",
        )
    ]
    if error:
        found.append(
            button(
                item_path(drop, title, "/discard"),
                "Discard",
                title,
                csrf,
                back=back,
                kind="danger",
                ask=f"Discard {title}? Its files are moved into the folder quarantine/ of the drop. Nothing is deleted.",
            )
        )
    for suffix in payloads[:4]:
        text = "Download" if len(payloads) == 1 else f"Download .{suffix}"
        found.append(
            h(
                "a",
                {"class": "button", "href": item_path(drop, title, f"/files/{quote(suffix, safe='')}"), "download": ""},
                text,
            )
        )
    return Element("div", {"class": "actions"}, tuple(found))
