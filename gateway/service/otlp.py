"""Spans of items, made by OpenTelemetry and sent by OTLP over HTTP. Needs the extra `otel`, so `tracing` imports it late."""

import contextlib
import logging
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from urllib.parse import urlsplit

import structlog
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExportResult
from opentelemetry.trace import (
    NonRecordingSpan,
    Span,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    set_span_in_context,
)

from gateway.service.tracing import ItemSpan, fresh, parts

log: structlog.stdlib.BoundLogger = structlog.get_logger("dropgate")

_TIMEOUT = 10.0  # seconds for one request to the collector
_DELAY = 1000  # milliseconds that a finished span waits for others, to be sent with them


class _Recorded:
    """A span of the library's, and what dropgate calls it."""

    def __init__(self, span: Span, traceparent: str) -> None:
        self.traceparent = traceparent
        self.failed = False
        self._span = span

    def published(self, destination: str) -> None:
        self._span.add_event("published", {"dropgate.destination": destination})

    def known(self, destination: str) -> None:
        self._span.add_event("known", {"dropgate.destination": destination})

    def refused(self, destination: str, why: str) -> None:
        self._span.add_event("refused", {"dropgate.destination": destination, "dropgate.reason": _sendable(why)})

    def ended(self, outcome: str, error: str = "") -> None:
        self._span.set_attribute("dropgate.outcome", outcome)
        if error:
            self.fail(error)

    def fail(self, error: str) -> None:
        """Marks the span."""
        self.failed = True
        self._span.set_status(Status(StatusCode.ERROR, _sendable(error)))


class OtlpTracing:
    """Sends spans to a collector, in batches and in the background. One that is away holds nothing up: its spans are lost.

    `endpoint` is the collector's URL, to which "/v1/traces" is added where it is not there. The environment variables of
    OpenTelemetry add to it, such as OTEL_EXPORTER_OTLP_HEADERS for a login.
    """

    def __init__(self, endpoint: str, version: str) -> None:
        # What it knows of a collector that is away comes from `_Exporter`, once and not for each batch.
        logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)
        self._resource = Resource.create({"service.name": "dropgate", "service.version": version})
        self._provider = TracerProvider(resource=self._resource, shutdown_on_exit=False)
        self._processor = BatchSpanProcessor(
            _Exporter(endpoint=traces_url(endpoint), timeout=_TIMEOUT),
            schedule_delay_millis=_DELAY,
            export_timeout_millis=_TIMEOUT * 1000,
        )
        self._provider.add_span_processor(self._processor)
        self._tracer = self._provider.get_tracer("dropgate", version)

    @contextlib.contextmanager
    def item(self, route: str, item: str, key: str, traceparent: str, created: str = "") -> Iterator[ItemSpan]:
        """As in `Tracing`. Where the item came without a trace, this gateway also sends the trace's first span."""
        carried = traceparent if parts(traceparent) is not None else fresh(key)
        parent = _context(carried)
        facts = {"dropgate.route": route, "dropgate.item": item, "dropgate.key": key, "dropgate.created": created}
        attributes = {name: _sendable(value) for name, value in facts.items() if value}
        span = self._tracer.start_span(
            _sendable(f"forward {route}"),
            context=set_span_in_context(NonRecordingSpan(parent)),
            kind=SpanKind.CONSUMER,
            attributes=attributes,
        )
        recorded = _Recorded(span, carried)
        try:
            yield recorded
        except BaseException as error:
            recorded.fail(f"{type(error).__name__}: {error}")
            raise
        finally:
            span.end()
            if carried != traceparent and not recorded.failed and span.get_span_context().trace_flags.sampled:
                self._first(parent, item, attributes, created)

    def _first(self, context: SpanContext, item: str, attributes: Mapping[str, str], created: str) -> None:
        """The span that all others of an item hang from, from its creation on; its id is given, so no tracer can begin it."""
        now = time.time_ns()
        begun = _nanoseconds(created) or now
        self._processor.on_end(
            ReadableSpan(
                f"item of {item.rstrip('0123456789') or 'a drop'}",
                context,
                resource=self._resource,
                attributes=attributes,
                kind=SpanKind.INTERNAL,
                start_time=min(begun, now),
                end_time=now,
            )
        )

    def close(self, timeout: float = 5.0) -> None:
        """Sends what is left, for `timeout` seconds at most."""
        # The library would go on trying for longer than anybody wants to wait for a stop.
        ending = threading.Thread(target=self._provider.shutdown, name="tracing", daemon=True)
        ending.start()
        ending.join(timeout)


def traces_url(endpoint: str) -> str:
    """Where a collector takes traces."""
    path = urlsplit(endpoint).path.rstrip("/")
    return endpoint if path.endswith("/v1/traces") else f"{endpoint.rstrip('/')}/v1/traces"


def _context(traceparent: str) -> SpanContext:
    trace, span, flags = parts(traceparent) or (0, 0, 0)
    return SpanContext(trace, span, is_remote=True, trace_flags=TraceFlags(flags & TraceFlags.SAMPLED))


def _sendable(text: str) -> str:
    """A text that protobuf takes: with half a character in one, a whole batch would be lost."""
    return text.encode("utf-8", "replace").decode()


def _nanoseconds(utc: str) -> int | None:
    try:
        return int(datetime.fromisoformat(utc).timestamp() * 1e9)
    except (ValueError, OverflowError):
        return None


class _Exporter(OTLPSpanExporter):
    """Tells when the collector stops taking spans, and when it takes them again: once each."""

    works = True

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """As the library does."""
        result = super().export(spans)
        works = result is SpanExportResult.SUCCESS
        if works and not self.works:
            log.info("traces are taken again")
        elif self.works and not works:
            log.warning("traces are not taken by their collector, and are lost meanwhile")
        self.works = works
        return result
