"""The same answers for less time: what is asked again and again in a simulation is worked out once.

Only what depends on nothing but its arguments is remembered, so no promise is checked less for it.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from unittest.mock import patch

from gateway.handoff import watch
from protocol.layout import FolderLayout, Layout, PrefixLayout
from protocol.lease import format_lease, parse_lease
from protocol.manifest import check_describes, format_manifest, parse_manifest
from protocol.names import FileKind, Name, Parsed
from protocol.procedures import adopt, claim, hold_lease, publish, sweep
from protocol.rules import Rules, Signal

_MANY = 4096

_paths: dict[tuple[str, Name], str] = {}
_parsed: dict[tuple[str, str], Parsed | None] = {}
_TOKENS = {
    Signal.MANIFEST: FileKind.MANIFEST,
    Signal.CHECKSUM: FileKind.CHECKSUM,
    Signal.NONE: FileKind.PAYLOAD,
}


def _remembered_path(kind: str, work: Callable[[Name], str], name: Name) -> str:
    known = _paths.get((kind, name))
    if known is None:
        if len(_paths) > _MANY:
            _paths.clear()
        known = _paths[kind, name] = work(name)
    return known


def _remembered_parse(kind: str, work: Callable[[str], Parsed | None], path: str) -> Parsed | None:
    try:
        return _parsed[kind, path]
    except KeyError:
        if len(_parsed) > _MANY:
            _parsed.clear()
        known = _parsed[kind, path] = work(path)
        return known


@dataclass(frozen=True)
class QuickPrefixLayout(PrefixLayout):
    """The prefix layout with a memory."""

    def path(self, name: Name) -> str:
        return _remembered_path("prefix", super().path, name)

    def parse(self, path: str) -> Parsed | None:
        return _remembered_parse("prefix", super().parse, path)


@dataclass(frozen=True)
class QuickFolderLayout(FolderLayout):
    """The folder layout with a memory."""

    def path(self, name: Name) -> str:
        return _remembered_path("folders", super().path, name)

    def parse(self, path: str) -> Parsed | None:
        return _remembered_parse("folders", super().parse, path)


@dataclass(frozen=True)
class QuickRules(Rules):
    """Rules that look their token's kind up once."""

    def is_token(self, kind: FileKind) -> bool:
        return self.token_kind is kind

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "token_kind", _TOKENS[self.signal])

    token_kind: FileKind = FileKind.MANIFEST


def quick_rules(layout: str, signal: Signal, patience: float) -> Rules:
    """Rules of a drop of the simulation."""
    layouts: dict[str, Layout] = {"prefix": QuickPrefixLayout(), "folders": QuickFolderLayout()}
    return QuickRules(layout=layouts[layout], signal=signal, busy_patience=patience)


@contextmanager
def remembering() -> Iterator[None]:
    """While this lasts, what manifests and leases say is worked out once for each of them."""
    parse: Any = lru_cache(_MANY)(parse_manifest)
    write: Any = lru_cache(_MANY)(format_lease)
    read: Any = lru_cache(_MANY)(parse_lease)
    described: dict[tuple[int, Any], Any] = {}

    def describes(manifest: Any, item: Any, grammar: Any) -> Any:
        key = (id(manifest), item)  # of manifests that `parse` remembers, so that no other gets the same id
        known = described.get(key)
        if known is None or known[0] is not manifest:
            known = described[key] = (manifest, check_describes(manifest, item, grammar))
        return known[1]

    with (
        patch.object(claim, "parse_manifest", parse),
        patch.object(claim, "check_describes", describes),
        patch.object(sweep, "parse_manifest", parse),
        patch.object(sweep, "check_describes", describes),
        patch.object(adopt, "parse_manifest", parse),
        patch.object(hold_lease, "format_lease", write),
        patch.object(watch, "parse_lease", read),
        patch.object(publish, "format_manifest", _written),
    ):
        yield


_manifests: dict[Any, bytes] = {}


def _written(manifest: Any) -> bytes:
    key = manifest.model_dump_json()
    known = _manifests.get(key)
    if known is None:
        if len(_manifests) > _MANY:
            _manifests.clear()
        known = _manifests[key] = format_manifest(manifest)
    return known
