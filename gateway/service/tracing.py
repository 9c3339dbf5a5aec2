"""Traces: one for each item across all hops, sent by OTLP over HTTP. Without `[tracing]`, `NO_TRACING` does nothing.

The trace is named by the W3C traceparent in the manifest's meta, under the key `traceparent`. An item that carries none gets
one that follows from its key: whichever run, and whichever gateway, makes it makes the same. So a route that is cut between
two destinations gives both the same, and a signed manifest, whose meta nobody may change, is followed all the same.
"""

import contextlib
import hashlib
import importlib.util
import re
import secrets
from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from gateway.errors import ConfigurationError

META_KEY = "traceparent"
_TRACEPARENT = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?", re.ASCII)
_SAMPLED = "01"


def traceparent_of(meta: Mapping[str, object]) -> str:
    """The traceparent that an item carries; "" where it has none, or what stands there is none. A stranger wrote it."""
    value = meta.get(META_KEY)
    return value if isinstance(value, str) and parts(value) is not None else ""


def context_of(meta: Mapping[str, object], key: str) -> str:
    """The traceparent that an item carries, or the one that follows from its key; without a key, a random one."""
    return traceparent_of(meta) or fresh(key)


def forwarded_meta(meta: Mapping[str, Any], traceparent: str, *, signed: bool) -> dict[str, Any]:
    """The meta that goes on with an item: with the traceparent, where it had no key of this name and nobody has signed it."""
    if signed or not traceparent or META_KEY in meta:
        return dict(meta)
    return {**meta, META_KEY: traceparent}


def fresh(key: str) -> str:
    """The traceparent of an item that carries none: it follows from the key; without one, it is random."""
    digest = (
        hashlib.sha256(f"dropgate trace {key}".encode("utf-8", "surrogatepass")).hexdigest() if key else secrets.token_hex(32)
    )
    return f"00-{digest[:32]}-{digest[32:48]}-{_SAMPLED}"


def parts(text: str) -> tuple[int, int, int] | None:
    """Trace, span and flags of a traceparent; None: it is none."""
    found = _TRACEPARENT.fullmatch(text)
    if found is None or found[1] == "ff" or (found[1] == "00" and found[5]):
        return None
    trace, span = int(found[2], 16), int(found[3], 16)
    return (trace, span, int(found[4], 16)) if trace and span else None


class ItemSpan(Protocol):
    """What is told of one item while a route has it. Nothing here raises, or waits for anybody."""

    @property
    def traceparent(self) -> str:
        """What goes on with the item; "" where it carried none and tracing is off."""

    def published(self, destination: str) -> None:
        """One destination has it, by this run."""

    def known(self, destination: str) -> None:
        """One destination has it, by an earlier run."""

    def refused(self, destination: str, why: str) -> None:
        """One destination could not take it now."""

    def ended(self, outcome: str, error: str = "") -> None:
        """What became of it; with an error, the span is marked as failed."""


class Tracing(Protocol):
    """Where spans go to."""

    def item(
        self, route: str, item: str, key: str, traceparent: str, created: str = ""
    ) -> "contextlib.AbstractContextManager[ItemSpan]":
        """A span of one item in one route, from now until the block is left. An exception marks it as failed, and passes;
        without one, and without an error told to `ended`, the route has done what it is for.

        `traceparent` is what the item carries, "" for none; `created` its creation, as ISO 8601.
        """

    def close(self, timeout: float = 5.0) -> None:
        """Sends what is left, for `timeout` seconds at most."""


class _Silent:
    """No trace: what the item carries is passed on."""

    def __init__(self, traceparent: str) -> None:
        self.traceparent = traceparent

    def published(self, destination: str) -> None:
        pass

    def known(self, destination: str) -> None:
        pass

    def refused(self, destination: str, why: str) -> None:
        pass

    def ended(self, outcome: str, error: str = "") -> None:
        pass


class NoTracing:
    """Where no tracing is configured."""

    @contextlib.contextmanager
    def item(self, route: str, item: str, key: str, traceparent: str, created: str = "") -> Iterator[ItemSpan]:
        """Does nothing."""
        del route, item, key, created
        yield _Silent(traceparent)

    def close(self, timeout: float = 5.0) -> None:
        """Does nothing."""


NO_TRACING = NoTracing()


def open_tracing(endpoint: str | None, version: str) -> Tracing:
    """Sends spans to the collector at `endpoint`, or nowhere. Raises ConfigurationError without the extra that this needs."""
    if endpoint is None:
        return NO_TRACING
    if any(importlib.util.find_spec(name) is None for name in ("opentelemetry", "requests")):
        raise ConfigurationError("[tracing] needs the extra: pip install 'dropgate[otel]'")
    from gateway.service.otlp import OtlpTracing  # which takes a while to import

    return OtlpTracing(endpoint, version)
