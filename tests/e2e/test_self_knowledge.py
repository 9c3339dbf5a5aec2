"""A running service tells of itself: journal, metrics, health and traces over two hops, as programs outside read them."""

import json
import time
import urllib.request
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from urllib.error import HTTPError

from prometheus_client.parser import text_string_to_metric_families

from testenv.spec import free_port
from tests.e2e.commands import clean_environment, dropgate, service
from tests.service.collector import Collector, attributes

PATIENCE = 90.0  # seconds

CONFIG = """
[drop.out]
url = "out"
groups = ["orders_"]
[drop.middle]
url = "middle"
groups = ["orders_"]
[drop.bank]
url = "bank"
[[route]]
from = "out"
to = "middle"
poll = 0.1
[[route]]
name = "second hop"
from = "middle"
to = "bank"
poll = 0.1
[ledger]
url = "sqlite://{folder}/ledger.db"
[journal]
file = "state/journal.jsonl"
database = true
[metrics]
listen = "127.0.0.1:{port}"
[tracing]
endpoint = "{collector}"
[service]
observe = 1
"""


def get(port: int, path: str) -> tuple[int, str]:
    """Status and text of a page."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=PATIENCE) as answer:
            return answer.status, answer.read().decode()
    except HTTPError as error:
        with error:
            return error.code, error.read().decode()
    except OSError:
        return 0, ""  # it does not listen yet


def number(port: int, name: str, **labels: str) -> float | None:
    """One metric's value."""
    families = text_string_to_metric_families(get(port, "/metrics")[1])
    found = [s.value for family in families for s in family.samples if s.name == name and s.labels == labels]
    return found[0] if found else None


def until(true: Callable[[], object], what: str, tail: Callable[[], str]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < deadline, f"waited in vain for {what}: {tail()}"
        time.sleep(0.1)


def test_what_happened_is_in_the_journal_the_metrics_and_one_trace(tmp_path: Path) -> None:
    for name in ("out", "middle", "bank", "home"):
        (tmp_path / name).mkdir()
    (tmp_path / "today.csv").write_text("order;amount\n")
    port, home = free_port(), {"HOME": str(tmp_path / "home"), "XDG_STATE_HOME": str(tmp_path / "home")}
    config = tmp_path / "dropgate.toml"
    with closing(Collector()) as collector:
        config.write_text(CONFIG.format(folder=tmp_path, port=port, collector=collector.url))
        with service(config, **home) as running:
            until(lambda: get(port, "/readyz")[0] == 200, "it to be ready", running.tail)
            assert get(port, "/healthz")[0] == 200
            dropgate("send", "./out", "today.csv", "--group", "orders_", cwd=tmp_path)
            item = {"group": "orders_", "state": "ready"}
            until(lambda: number(port, "dropgate_drop_items", drop="bank", **item) == 1, "the item to be seen", running.tail)
            for route, destination in (("out -> middle", "middle"), ("second hop", "bank")):
                assert number(port, "dropgate_items_total", route=route, outcome="forwarded") == 1
                assert number(port, "dropgate_bytes_total", route=route, outcome="forwarded") == 13
                assert (
                    number(port, "dropgate_publications_total", route=route, destination=destination, result="published") == 1
                )
            spans = collector.wait(3)
            (tmp_path / "bank").rename(tmp_path / "moved")
            until(lambda: number(port, "dropgate_drop_up", drop="bank") == 0, "the drop to be missed", running.tail)
            (tmp_path / "moved").rename(tmp_path / "bank")
            until(lambda: number(port, "dropgate_drop_up", drop="bank") == 1, "the drop to be back", running.tail)
            assert running.stop() == 0
    # One trace: both hops below the item's first span.
    assert len({span.trace_id for span in spans}) == 1
    (root,) = (span for span in spans if span.parent_span_id == b"")
    hops = [span for span in spans if span is not root]
    assert {span.parent_span_id for span in hops} == {root.span_id}
    assert {attributes(span)["dropgate.route"] for span in hops} == {"out -> middle", "second hop"}
    # Its story, the same in the file and in the database.
    words = ("log", "--config", str(config), "--item", "orders_0000000001", "--json")
    environment = clean_environment(**home)
    story = [json.loads(line) for line in dropgate(*words, cwd=tmp_path, environment=environment).splitlines()]
    for route in ("out -> middle", "second hop"):  # the second may begin before the first has put its image away
        assert [step["what"] for step in story if step["route"] == route] == ["begun", "published", "forwarded"]
    assert len(story) == 6
    assert {step["key"] for step in story} == {story[0]["key"]}
    assert {step["trace"].split("-")[1] for step in story if step["route"] == "second hop"} == {root.trace_id.hex()}
    kept = dropgate(*words, "--database", cwd=tmp_path, environment=environment).splitlines()
    assert [json.loads(line) for line in kept] == story
