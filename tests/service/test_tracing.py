"""One trace for each item across hops, as a real collector receives it; without a collector nothing is held up."""

import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from structlog.testing import capture_logs

from gateway.service.otlp import OtlpTracing, traces_url
from gateway.service.tracing import NO_TRACING, Tracing, context_of, forwarded_meta, open_tracing, traceparent_of
from tests.service.collector import Collector, attributes

CARRIED = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
TRACE, PARENT = bytes.fromhex(CARRIED[3:35]), bytes.fromhex(CARRIED[36:52])
ITEM = ("out -> bank", "orders_0000000042", "the key")
CREATED = "2026-11-30T10:00:00.000000Z"
ERROR = 2  # of a span's status


@pytest.fixture
def collector() -> Iterator[Collector]:
    with closing(Collector()) as opened:
        yield opened


@pytest.fixture
def tracing(collector: Collector) -> Iterator[Tracing]:
    with closing(open_tracing(collector.url, "1.2.3")) as opened:
        yield opened


def test_a_span_tells_what_a_route_did_with_an_item(tracing: Tracing, collector: Collector) -> None:
    with tracing.item(*ITEM, CARRIED, CREATED) as span:
        assert span.traceparent == CARRIED
        span.published("bank")
        span.known("archive")
        span.refused("office", "Connection refused")
        span.ended("forwarded")
    (sent,) = collector.wait(1)
    assert (sent.trace_id, sent.parent_span_id, sent.name) == (TRACE, PARENT, "forward out -> bank")
    assert attributes(sent) == {
        "dropgate.route": "out -> bank",
        "dropgate.item": "orders_0000000042",
        "dropgate.key": "the key",
        "dropgate.created": CREATED,
        "dropgate.outcome": "forwarded",
    }
    assert [(event.name, attributes(event)) for event in sent.events] == [
        ("published", {"dropgate.destination": "bank"}),
        ("known", {"dropgate.destination": "archive"}),
        ("refused", {"dropgate.destination": "office", "dropgate.reason": "Connection refused"}),
    ]
    assert sent.status.code != ERROR
    assert 0 < sent.start_time_unix_nano <= sent.end_time_unix_nano
    assert collector.paths == {"/v1/traces"}
    assert (collector.resources[0]["service.name"], collector.resources[0]["service.version"]) == ("dropgate", "1.2.3")


def test_an_item_without_a_trace_gets_one_that_all_hops_and_runs_share(tracing: Tracing, collector: Collector) -> None:
    with pytest.raises(ValueError, match="cut"), tracing.item(*ITEM, ""):
        raise ValueError("cut")
    with tracing.item(*ITEM, "", CREATED) as span:  # the next run
        first = span.traceparent
        assert first == context_of({}, "the key")
        meta = forwarded_meta({"order": 7}, span.traceparent, signed=False)
    with tracing.item("bank -> books", *ITEM[1:], traceparent_of(meta), CREATED) as span:  # the next hop
        assert span.traceparent == first
        span.ended("forwarded")
    spans = {(sent.name, sent.status.code == ERROR): sent for sent in collector.wait(4)}
    root = spans["item of orders_", False]
    assert len({sent.trace_id for sent in spans.values()}) == 1
    assert first == f"00-{root.trace_id.hex()}-{root.span_id.hex()}-01"
    assert root.parent_span_id == b""
    assert root.start_time_unix_nano == 1_796_032_800_000_000_000, "from its creation on"
    children = [sent for sent in spans.values() if sent is not root]
    assert {sent.parent_span_id for sent in children} == {root.span_id}
    assert set(spans) == {
        ("item of orders_", False),
        ("forward out -> bank", True),
        ("forward out -> bank", False),
        ("forward bank -> books", False),
    }


def test_what_failed_is_marked_with_its_reason(tracing: Tracing, collector: Collector) -> None:
    with tracing.item(*ITEM, CARRIED) as span:
        span.ended("failed", "the hash is wrong")
    with pytest.raises(KeyboardInterrupt), tracing.item(*ITEM, CARRIED):
        raise KeyboardInterrupt
    told = {(sent.status.code, sent.status.message) for sent in collector.wait(2)}
    assert told == {(ERROR, "the hash is wrong"), (ERROR, "KeyboardInterrupt: ")}


def test_what_its_producer_does_not_want_traced_is_not(tracing: Tracing, collector: Collector) -> None:
    with tracing.item(*ITEM, f"{CARRIED[:-2]}00") as span:
        assert span.traceparent == f"{CARRIED[:-2]}00"
        span.ended("forwarded")
    with tracing.item(*ITEM, CARRIED) as span:
        span.ended("forwarded")
    tracing.close()
    assert len(collector.spans) == 1


def test_half_a_character_loses_no_span(tracing: Tracing, collector: Collector) -> None:
    with tracing.item("route \udc80", "x_1", "key \ud800", CARRIED) as span:
        span.refused("bank", "why \udfff")
        span.ended("failed", "because \udfff")
    (sent,) = collector.wait(1)
    assert attributes(sent)["dropgate.key"] == "key ?"


@pytest.mark.parametrize(
    "value",
    [
        *("", "x", CARRIED.upper(), f" {CARRIED}", f"{CARRIED}-more", f"ff{CARRIED[2:]}", f"{CARRIED}\n"),
        f"00-{'0' * 32}-00f067aa0ba902b7-01",
        f"00-4bf92f3577b34da6a3ce929d0e0e4736-{'0' * 16}-01",
        *(7, None, ["x"], {}),
    ],
)
def test_what_is_no_traceparent_is_taken_for_none_and_goes_on_as_it_is(value: object) -> None:
    meta: dict[str, Any] = {"traceparent": value}
    assert traceparent_of(meta) == ""
    assert context_of(meta, "k") == context_of({}, "k")
    assert forwarded_meta(meta, CARRIED, signed=False) == meta


def test_a_later_version_of_the_format_is_understood() -> None:
    later = f"01{CARRIED[2:]}-and-more"
    assert traceparent_of({"traceparent": later}) == later


def test_meta_is_only_added_to_where_nobody_signed_it() -> None:
    meta = {"order": 7}
    assert forwarded_meta(meta, CARRIED, signed=False) == {"order": 7, "traceparent": CARRIED}
    assert forwarded_meta(meta, CARRIED, signed=True) == {"order": 7}
    assert forwarded_meta(meta, "", signed=False) == {"order": 7}
    assert meta == {"order": 7}


def test_fresh_traces_differ_by_key_and_without_one_each_time() -> None:
    made = {context_of({}, key) for key in ("a", "b", "", "")}
    assert len(made) == 4
    assert all(re.fullmatch(r"00-[0-9a-f]{32}-[0-9a-f]{16}-01", one) for one in made)


def test_without_tracing_nothing_is_added_and_what_is_carried_goes_on() -> None:
    tracing = open_tracing(None, "1.2.3")
    assert tracing is NO_TRACING
    for carried in ("", CARRIED):
        with tracing.item(*ITEM, carried, CREATED) as span:
            assert span.traceparent == carried
            span.published("a")
            span.known("b")
            span.refused("c", "why")
            span.ended("forwarded")
    with pytest.raises(ValueError, match="passes"), tracing.item(*ITEM, ""):
        raise ValueError("passes")
    tracing.close()


def test_a_collector_that_is_away_holds_nothing_up_and_is_told_once() -> None:
    with closing(Collector()) as gone:
        port = gone.port
    tracing = OtlpTracing(f"http://127.0.0.1:{port}", "1.2.3")
    with capture_logs() as logs:
        for _ in range(3000):  # more than are kept for later
            with tracing.item(*ITEM, CARRIED) as span:
                span.ended("forwarded")
        deadline = time.monotonic() + 60
        while not logs and time.monotonic() < deadline:
            time.sleep(0.05)
        with closing(Collector(port)) as back:
            deadline = time.monotonic() + 60
            while not back.spans and time.monotonic() < deadline:
                with tracing.item(*ITEM, CARRIED) as span:
                    span.ended("forwarded")
                time.sleep(0.1)
            assert back.spans
            while len(logs) < 2 and time.monotonic() < deadline:
                time.sleep(0.05)
            tracing.close()
    assert [entry["event"] for entry in logs] == [
        "traces are not taken by their collector, and are lost meanwhile",
        "traces are taken again",
    ]


def test_closing_sends_what_is_left(collector: Collector) -> None:
    tracing = OtlpTracing(collector.url, "1")
    with tracing.item(*ITEM, CARRIED) as span:
        span.ended("forwarded")
    tracing.close()
    assert len(collector.spans) == 1


@pytest.mark.parametrize(
    ("endpoint", "url"),
    [
        ("http://host:4318", "http://host:4318/v1/traces"),
        ("http://host:4318/", "http://host:4318/v1/traces"),
        ("https://host/otlp", "https://host/otlp/v1/traces"),
        ("https://host/otlp/v1/traces", "https://host/otlp/v1/traces"),
    ],
)
def test_the_collectors_url_may_be_short(endpoint: str, url: str) -> None:
    assert traces_url(endpoint) == url


def test_nothing_of_it_is_loaded_where_it_is_not_configured() -> None:
    code = (
        "import sys; from gateway.service.tracing import open_tracing; open_tracing(None, '1');"
        "sys.exit(any(name.startswith(('opentelemetry', 'requests')) for name in sys.modules))"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
