"""Pieces of the page as trees: one description, sent as HTML at first and as JSON for what changes afterwards.

Escaping is not left to whoever describes: `to_html` escapes every text and attribute, and the browser's half builds the tree
with `createElement` and text nodes. Either way a text is shown by `visible`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from html import escape
from typing import TypeAlias

from markupsafe import Markup

from gateway.service.web.words import epoch, exact, span, visible

_VOID = frozenset({"br", "img", "input", "link", "meta"})

Data: TypeAlias = "str | list[str | dict[str, str] | Data]"


@dataclass(frozen=True, slots=True)
class Element:
    """One element. A `time` has no children: its text is how long ago, or when, as its `data-show` says."""

    tag: str
    attributes: Mapping[str, str] = field(default_factory=dict)
    children: tuple["Node", ...] = ()


Node = Element | str


def h(tag: str, attributes: Mapping[str, str] | None = None, *children: Node | None) -> Element:
    """An element; None among the children is left out."""
    return Element(tag, attributes or {}, tuple(child for child in children if child is not None))


def each(tag: str, attributes: Mapping[str, str] | None, children: Iterable[Node]) -> Element:
    """An element of any number of children."""
    return Element(tag, attributes or {}, tuple(children))


def when(iso: str, show: str = "clock") -> Element:
    """A time: "clock" for when it was, "age" for how long ago, "day" with its date. The exact UTC is in the title."""
    return h("time", {"datetime": iso, "title": exact(iso), "data-show": show})


def to_html(node: Node, now: float) -> Markup:
    """The node as HTML. `now` is in seconds since the epoch: what ages are counted from."""
    parts: list[str] = []
    _write(node, now, parts)
    return Markup("".join(parts))  # noqa: S704 - `_write` escapes all that is not a word of ours


def _write(node: Node, now: float, parts: list[str]) -> None:
    # Plain strings, and escaped by hand: putting the same together out of safe pieces takes ten times as long.
    if isinstance(node, str):
        parts.append(escape(visible(node)))
        return
    parts.append(f"<{node.tag}")
    parts.extend(f' {name}="{escape(visible(value))}"' for name, value in node.attributes.items())
    parts.append(">")
    if node.tag in _VOID:
        return
    if node.tag == "time":
        parts.append(escape(_shown_time(node.attributes, now)))
    for child in node.children:
        _write(child, now, parts)
    parts.append(f"</{node.tag}>")


def to_data(node: Node) -> Data:
    """The node for JSON: a text, or a list of tag, attributes and children."""
    if isinstance(node, str):
        return visible(node)
    attributes = {name: visible(value) for name, value in node.attributes.items()}
    return [node.tag, attributes, *map(to_data, node.children)]


def _shown_time(attributes: Mapping[str, str], now: float) -> str:
    """What stands there until the browser, which knows its person's zone, says it better."""
    iso = attributes.get("datetime", "")
    moment = epoch(iso)
    if moment is None:
        return "unknown"
    if attributes.get("data-show") == "age":
        return span(max(now - moment, 0)) if now - moment >= 1 else "now"
    return exact(iso)
