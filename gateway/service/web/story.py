"""The view of one item: where it stands, every step that the journal tells, its manifest, its files, its reason or receipt."""

import json
from collections.abc import Callable
from typing import Any

from gateway.service.board import DropView
from gateway.service.transitions import Transition
from gateway.service.web.drop_view import view_of
from gateway.service.web.live import Sections
from gateway.service.web.markup import Element, Node, each, h, when
from gateway.service.web.overview import SHAPES, progress
from gateway.service.web.pieces import actions, mark, state
from gateway.service.web.rows import Row
from gateway.service.web.site import Site, frame
from gateway.service.web.small_files import LARGEST, SmallFile
from gateway.service.web.words import clipped, counted, size, span, utc
from protocol.errors import InvalidManifest
from protocol.json_text import InvalidJson, parse_object
from protocol.manifest import FileRecord, parse_manifest
from protocol.names import FileKind, ItemId, Name
from protocol.snapshot import Listed
from protocol.states import State

_MOST_STEPS = 500
_LONGEST_RAW = 64 * 1024  # characters of a file that is shown as it is

Facts = dict[str, str]


class Story:
    """One item's page. Making it reads nothing; `sections` reads the journal once, and afterwards only listens."""

    def __init__(self, site: Site, drop: str, title: str, item: ItemId, csrf: str) -> None:
        self._site = site
        self._drop = drop
        self._title = title
        self._item = item
        self._csrf = csrf
        self._steps: list[Transition] = []
        self._trouble = ""
        self._told: int | None = None  # how many transitions were told when the steps were read

    def sections(self) -> Sections:
        """All sections of the page. Raises NoSuchView."""
        site, picture = self._site, self._site.context.board.picture()
        view = view_of(picture, self._drop)
        row = site.table(view).by_title.get(self._title)
        moving = [
            one for route in picture.routes if route.source == self._drop for one in route.moving if one.item == self._title
        ]
        steps = self._read_steps()
        return {
            **frame(site, picture),
            "item": {"item": self._standing(view, row), **({"moving": progress(moving[0])} if moving else {})},
            "actions": self._actions(view, row),
            "reason": self._reason(view, row),
            "steps": {f"{number}": _step(self._drop, step) for number, step in enumerate(steps)}
            or {"none": h("li", {"class": "faint"}, self._trouble or "The journal tells nothing of it.")},
            "files": _files(view, self._item, site.tables.clock_ahead(view)),
            "contents": self._contents(view),
        }

    def _read_steps(self) -> list[Transition]:
        history = self._site.history
        count = history.count
        fresh = None if self._told is None else history.since(self._told)
        if fresh is None:
            try:
                read = self._site.context.journal.read(item=self._title)
                self._steps = [step for step in read if self._is_ours(step)][-_MOST_STEPS:]
            except OSError as error:
                self._trouble = f"The journal cannot be read: {error.strerror or error}"
            # What is being written just now may be heard and not be read yet.
            fresh = history.since(max(count - 50, 0)) or []
        known = set(self._steps)
        self._steps += [step for step in fresh if self._is_ours(step) and step not in known]
        self._told = count
        return self._steps[-_MOST_STEPS:]

    def _is_ours(self, step: Transition) -> bool:
        return step.item == self._title and self._drop in (step.drop, step.destination)

    def _standing(self, view: DropView, row: Row | None) -> Element:
        if row is None:
            text = "is not in the drop" if view.snapshot is not None else "has not been looked for yet"
            return h("p", {"class": "standing"}, state("no token", f"{text} as it was last seen"))
        pressed = self._site.pending(view, row.title)
        return h(
            "div",
            {"class": "standing"},
            state(row.state),
            h("span", {}, f"{pressed} just now; the drop will be looked at again soon") if pressed else None,
            h("span", {}, size(row.size)),
            h("span", {}, when(utc(row.at), "day"), " (", when(utc(row.at), "age"), " ago)") if row.at is not None else None,
            h("span", {}, f"claimed by {row.owner}") if row.owner else None,
            each("ul", {"class": "trouble"}, [h("li", {}, clipped(problem, 500)) for problem in row.problems])
            if row.problems
            else None,
        )

    def _actions(self, view: DropView, row: Row | None) -> dict[str, Element]:
        if row is None or not self._csrf or self._site.pending(view, self._title):
            return {}
        if row.state not in (State.ERROR.word, State.AFTER.word):
            return {}
        suffixes = payload_suffixes(view, self._item)
        error = row.state == State.ERROR.word
        return {"actions": actions(self._drop, self._title, suffixes, self._csrf, back="story", error=error)}

    def _reason(self, view: DropView, row: Row | None) -> dict[str, Element]:
        if row is None or row.state != State.ERROR.word:
            return {}
        facts = reason_of(self._site, view, row)
        if not facts:
            return {"reason": h("p", {}, "Reading the reason …" if facts is None else "No reason is beside it.")}
        error = h("p", {"class": "reason"}, mark("error"), " ", h("bdi", {}, clipped(facts.get("error", ""))))
        return {"error": error, "facts": _facts({name: text for name, text in facts.items() if name != "error"})}

    def _contents(self, view: DropView) -> dict[str, Element]:
        pieces: dict[str, Element] = {}
        for kind, title, show in (
            (FileKind.MANIFEST, "Manifest", _manifest),
            (FileKind.CHECKSUM, "Checksum file", _as_it_is),
            (FileKind.RECEIPT, "Receipt", _receipt),
        ):
            listed = file_of(view, self._item, kind)
            if listed is None:
                continue
            found = self._site.files.get(self._drop, listed)
            pieces[kind.value] = each("section", {"class": "content"}, [h("h2", {}, title), *_content(found, show)])
        return pieces


def file_of(view: DropView, item: ItemId, kind: FileKind) -> Listed | None:
    """An item's file of one kind, as the drop was last seen; never one of an earlier double."""
    one = view.snapshot.items.get(item) if view.snapshot is not None else None
    return next((listed for name, listed in one.files if name.kind is kind and not name.again), None) if one else None


def payload_suffixes(view: DropView, item: ItemId) -> list[str]:
    """The suffixes of an item's payloads."""
    one = view.snapshot.items.get(item) if view.snapshot is not None else None
    return sorted({name.suffix for name, _ in one.files if name.kind is FileKind.PAYLOAD}) if one else []


def reason_of(site: Site, view: DropView, row: Row) -> Facts | None:
    """Why an item is an error image: `error`, and what else is known. None: not read yet; empty: nobody says."""
    listed = file_of(view, row.item, FileKind.REASON)
    told = site.history.reason(view.name, row.title)
    if listed is None:
        return {"error": told} if told else {}
    found = site.files.get(view.name, listed)
    if found is None:
        return {"error": told} if told else None
    if found.trouble:
        return {"error": told or f"The reason is not known: {found.trouble}"}
    try:
        read = parse_object(found.data, limit=LARGEST)
    except InvalidJson as error:
        return {"error": f"Its reason file cannot be read: {error}"}
    facts = {name: f"{read[name]}" for name in ("error", "kind", "attempts", "host", "owner", "time") if read.get(name)}
    return facts if "error" in facts else {"error": told or "Its reason file says no reason."} | facts


def _step(drop: str, step: Transition) -> Element:
    details = []
    if step.route:
        details.append(f"route {step.route}")
    if step.destination:
        details.append(f"at {step.destination}")
    elif step.drop != drop:
        details.append(f"of {step.drop}")
    if step.attempt:
        details.append(f"attempt {step.attempt}")
    if step.bytes is not None:
        details.append(size(step.bytes))
    if step.seconds is not None:
        details.append(f"{span(step.seconds)} after it was made")
    if step.owner:
        details.append(f"by {step.owner}")
    return h(
        "li",
        {},
        when(step.at, "day"),
        state(SHAPES.get(step.what, "ready"), step.what.value),
        h("span", {"class": "faint"}, clipped(", ".join(details), 500)),
        h("p", {}, h("bdi", {}, clipped(step.text))) if step.text else None,
    )


def _files(view: DropView, item: ItemId, ahead: float) -> dict[str, Element]:
    one = view.snapshot.items.get(item) if view.snapshot is not None else None
    return {listed.path: _file(name, listed, ahead) for name, listed in one.files} if one is not None else {}


def _file(name: Name, listed: Listed, ahead: float) -> Element:
    at = None if listed.modified is None else utc(listed.modified - ahead)
    return h(
        "tr",
        {},
        h("th", {"scope": "row", "class": "name"}, listed.path),
        h("td", {}, name.kind.value),
        h("td", {"class": "number"}, size(listed.size)),
        h("td", {}, when(at, "day") if at else ""),
    )


def _content(found: SmallFile | None, show: Callable[[bytes], list[Node]]) -> list[Node]:
    if found is None:
        return [h("p", {"class": "faint"}, "Reading it …")]
    if found.trouble:
        return [h("p", {}, mark("warning"), " ", clipped(found.trouble, 500))]
    return show(found.data)


def _as_it_is(data: bytes) -> list[Node]:
    text = data[:_LONGEST_RAW].decode("utf-8", "backslashreplace").replace("\r\n", "\n")
    more = "\n…" if len(data) > _LONGEST_RAW else ""
    return [h("pre", {"tabindex": "0"}, text + more)]


def _pretty(value: dict[str, Any]) -> list[Node]:
    return _as_it_is(json.dumps(value, indent=2, ensure_ascii=False).encode("utf-8", "backslashreplace"))


def _whole(data: bytes, value: dict[str, Any]) -> Node:
    return h("details", {}, h("summary", {}, f"The whole file, {size(len(data))}"), *_pretty(value))


def _manifest(data: bytes) -> list[Node]:
    try:
        manifest = parse_manifest(data)
        value = parse_object(data, limit=LARGEST)
    except (InvalidManifest, InvalidJson) as error:
        return [h("p", {}, mark("warning"), " ", h("bdi", {}, clipped(f"{error}"))), *_as_it_is(data)]
    facts = {
        "key": manifest.key,
        "made": manifest.created,
        "by": ", ".join(part for part in (manifest.producer.host, manifest.producer.software) if part),
        "signature": "is there" if manifest.signature is not None else "none",
    }
    facts |= {f"meta: {name}": text if isinstance(text, str) else json.dumps(text) for name, text in manifest.meta.items()}
    head = each("tr", {}, [h("th", {"scope": "col"}, word) for word in ("File", "Original name", "Size", "Hash")])
    rows = [_record(record) for record in manifest.files[:100]]
    return [
        _facts(facts),
        h(
            "div",
            {"class": "scroll", "tabindex": "0", "role": "region", "aria-label": "Files of the manifest"},
            h("table", {}, h("thead", {}, head), each("tbody", {}, rows)),
        ),
        _whole(data, value),
    ]


def _record(record: FileRecord) -> Element:
    more = f", {counted(record.records, 'record')}" if record.records is not None else ""
    return h(
        "tr",
        {},
        h("th", {"scope": "row", "class": "name"}, clipped(record.name, 300)),
        h("td", {}, h("bdi", {}, clipped(record.source_name or "", 300))),
        h("td", {"class": "number"}, size(record.size) + more),
        h("td", {"class": "hash"}, record.hash),
    )


def _receipt(data: bytes) -> list[Node]:
    try:
        value = parse_object(data, limit=LARGEST)
    except InvalidJson as error:
        return [h("p", {}, mark("warning"), " ", h("bdi", {}, clipped(f"{error}"))), *_as_it_is(data)]
    facts = {name: f"{text}" for name, text in value.items() if isinstance(text, str | int | float)}
    return [_facts(facts), _whole(data, value)]


def _facts(facts: Facts) -> Element:
    pairs: list[Node] = []
    for name, text in list(facts.items())[:60]:
        if text:
            told = when(text, "day") if name in ("time", "made", "at") else h("bdi", {}, clipped(text, 500))
            pairs.append(h("div", {}, h("dt", {}, clipped(name, 100)), h("dd", {}, told)))
    return each("dl", {"class": "facts"}, pairs)
