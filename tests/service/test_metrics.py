"""Metrics say what happened and what is, in names and numbers that a Prometheus server can keep."""

import gc
import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from prometheus_client import REGISTRY
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from gateway.service.alarms.alarm import Alarm
from gateway.service.board import Board, DropView, Moving, RouteState
from gateway.service.board_metrics import GROUPS
from gateway.service.journal import Journal
from gateway.service.metrics import Metrics
from gateway.service.transitions import Hub, What
from tests.service.boards import ROUTE, board_with, drop_view, snapshot_of
from tests.service.steps import EACH, step


def metrics_of(board: Board, alarms: Sequence[object] | None = None, journal: Journal | None = None) -> Metrics:
    return Metrics(board, None if alarms is None else lambda: alarms, "1.2.3", journal)


def samples(metrics: Metrics) -> list[Sample]:
    """What a scraper reads."""
    return [sample for family in text_string_to_metric_families(metrics.text().decode()) for sample in family.samples]


def value(metrics: Metrics, name: str, **labels: str) -> float | None:
    """One number; None where it is not told."""
    found = [sample.value for sample in samples(metrics) if sample.name == name and sample.labels == labels]
    assert len(found) < 2, "one series once"
    return found[0] if found else None


def test_what_becomes_of_items_is_counted_by_route_and_outcome() -> None:
    metrics = metrics_of(board_with())
    hub = Hub([metrics.listen])
    for one in [step(1, bytes=100), step(2, bytes=23), step(3), step(4, What.FAILED, bytes=7), step(5, route="other", bytes=1)]:
        hub.tell(one)
    assert value(metrics, "dropgate_items_total", route=ROUTE, outcome="forwarded") == 3
    assert value(metrics, "dropgate_bytes_total", route=ROUTE, outcome="forwarded") == 123
    assert value(metrics, "dropgate_items_total", route=ROUTE, outcome="failed") == 1
    assert value(metrics, "dropgate_items_total", route="other", outcome="forwarded") == 1
    assert value(metrics, "dropgate_items_total", route=ROUTE, outcome="lost") == 0, "begins with 0"


def test_publications_retries_conflicts_and_times_are_counted() -> None:
    metrics = metrics_of(board_with())
    for one in [
        step(1, What.BEGUN, attempt=1),
        step(1, What.BEGUN, attempt=2),
        step(1, What.PUBLISHED, destination="bank"),
        step(1, What.PUBLISHED, destination="archive"),
        step(1, What.KNOWN, destination="bank"),
        step(1, What.REFUSED, destination="bank"),
        step(2, What.LOST),
        step(3, What.WAITING),
        step(1, seconds=3.0),
        step(2, seconds=100_000.0),
        step(4, What.ACKNOWLEDGED, seconds=3.0),
    ]:
        metrics.listen(one)
    for result in ("published", "known", "refused"):
        assert value(metrics, "dropgate_publications_total", route=ROUTE, destination="bank", result=result) == 1
    assert value(metrics, "dropgate_publications_total", route=ROUTE, destination="archive", result="published") == 1
    assert value(metrics, "dropgate_retries_total", route=ROUTE) == 1
    assert value(metrics, "dropgate_conflicts_total", route=ROUTE) == 2
    assert value(metrics, "dropgate_ready_to_after_seconds_count", route=ROUTE) == 2
    assert value(metrics, "dropgate_ready_to_after_seconds_sum", route=ROUTE) == 100_003
    assert value(metrics, "dropgate_ready_to_after_seconds_bucket", route=ROUTE, le="2.5") == 0
    assert value(metrics, "dropgate_ready_to_after_seconds_bucket", route=ROUTE, le="5.0") == 1
    assert value(metrics, "dropgate_ready_to_after_seconds_bucket", route=ROUTE, le="+Inf") == 2


@pytest.mark.parametrize("one", EACH, ids=lambda one: one.what.value)
def test_every_kind_of_step_is_counted(one: Any) -> None:
    metrics = metrics_of(board_with())
    one = replace(one, route=ROUTE, attempt=2)

    def counters() -> dict[tuple[str, str], float]:
        counted = [sample for sample in samples(metrics) if sample.name.endswith("_total") and "route" in sample.labels]
        return {(sample.name, str(sorted(sample.labels.items()))): sample.value for sample in counted}

    before = counters()
    metrics.listen(one)
    changed = {name for (name, labels), now in counters().items() if now != before[name, labels]}
    if one.what is What.RECEIPT:
        assert changed == set(), "a receipt is no outcome"
    else:
        assert changed


def test_a_drop_is_told_as_it_was_last_seen() -> None:
    names = [f"orders_{n:010}.manifest.json" for n in (1, 2)] + [f"orders_{n:010}.csv" for n in (1, 2, 3)]
    view = drop_view("out", [*names, "E_orders_0000000004.manifest.json", "B_orders_0000000005.csv", "x y"], age=90)
    metrics = metrics_of(board_with(RouteState.RUNNING, view, DropView("bank", "sftp://h/x", trouble="Connection refused")))
    items = {
        sample.labels["state"]: sample.value
        for sample in samples(metrics)
        if sample.name == "dropgate_drop_items" and sample.labels["drop"] == "out" and sample.labels["group"] == "orders_"
    }
    assert items == {"ready": 2, "error": 1, "before": 1, "none": 1, "claimed": 0, "done": 0, "after": 0}
    age = "dropgate_oldest_item_age_seconds"
    assert value(metrics, age, drop="out", group="orders_", state="ready") == 90
    assert value(metrics, age, drop="out", group="orders_", state="claimed") is None, "there is none"
    assert value(metrics, "dropgate_drop_up", drop="out") == 1
    assert value(metrics, "dropgate_drop_up", drop="bank") == 0
    assert value(metrics, "dropgate_drop_look_seconds", drop="out") == 0.25
    assert value(metrics, "dropgate_free_bytes", drop="out") == 10**12
    assert value(metrics, "dropgate_clock_offset_seconds", drop="out") == -1.5
    assert value(metrics, "dropgate_clock_offset_seconds", drop="bank") is None


def test_an_item_is_as_old_as_the_last_that_was_written_of_it() -> None:
    old = snapshot_of(["orders_0000000001.csv"], 500)
    young = snapshot_of(["orders_0000000001.manifest.json"], 20)
    (item, view), (_, other) = *old.items.items(), *young.items.items()
    view.files += other.files
    view.state = other.state
    both = replace(drop_view("out"), snapshot=old)
    assert item in old.items
    metrics = metrics_of(board_with(RouteState.RUNNING, both))
    assert value(metrics, "dropgate_oldest_item_age_seconds", drop="out", group="orders_", state="ready") == 20


def test_a_drop_that_nobody_has_looked_at_is_neither_up_nor_down() -> None:
    metrics = metrics_of(board_with(RouteState.RUNNING, DropView("out", "file:///srv/out")))
    assert value(metrics, "dropgate_drop_up", drop="out") is None


def groups_shown(metrics: Metrics) -> set[str]:
    return {s.labels["group"] for s in samples(metrics) if s.name == "dropgate_drop_items" and s.labels["drop"] == "out"}


def test_groups_of_strangers_do_not_make_series_without_end() -> None:
    board = board_with()
    metrics = metrics_of(board)
    board.set_drop(drop_view("out", ["mine_0000000001.csv"]))
    assert groups_shown(metrics) == {"orders_", "mine_"}
    flood = [f"a{n:05}x_0000000001.csv" for n in range(5000)]
    board.set_drop(drop_view("out", ["mine_0000000001.csv", "orders_0000000001.csv", *flood], age=10))
    shown = groups_shown(metrics)
    assert len(shown) == GROUPS + 2, "those of routes, so many others, and the rest as one"
    assert {"orders_", "mine_", "other"} <= shown, "who was shown before the flood stays"
    assert value(metrics, "dropgate_drop_items", drop="out", group="other", state="none") == 5000 - (GROUPS - 1)
    assert value(metrics, "dropgate_oldest_item_age_seconds", drop="out", group="other", state="none") == 10
    assert len(samples(metrics)) < 5000
    board.set_drop(drop_view("out"))
    assert groups_shown(metrics) == {"orders_"}


def test_a_group_that_is_called_other_is_told_once() -> None:
    flood = [f"a{n:05}x_0000000001.csv" for n in range(GROUPS + 10)]
    metrics = metrics_of(board_with(RouteState.RUNNING, drop_view("out", [*flood, "other0000000001.csv"])))
    assert value(metrics, "dropgate_drop_items", drop="out", group="other", state="none") == 11


def test_routes_are_told_with_their_state_and_what_moves() -> None:
    board = board_with(RouteState.AWAY)
    board.set_away(ROUTE, ("bank",))
    board.set_moving(ROUTE, "orders_0000000001", Moving("orders_0000000001", "w", "", 1))
    metrics = metrics_of(board)
    states = {s.labels["state"]: s.value for s in samples(metrics) if s.name == "dropgate_route_state"}
    assert states == {state.value: float(state is RouteState.AWAY) for state in RouteState}
    assert value(metrics, "dropgate_moving_items", route=ROUTE) == 1
    assert value(metrics, "dropgate_destination_up", route=ROUTE, destination="bank") == 0
    board.set_away(ROUTE, ())
    board.set_moving(ROUTE, "orders_0000000001", None)
    assert value(metrics, "dropgate_moving_items", route=ROUTE) == 0
    assert value(metrics, "dropgate_destination_up", route=ROUTE, destination="bank") == 1


def test_alarms_are_counted_by_kind_and_go_back_to_zero() -> None:
    alarms = [Alarm(str(n), kind, "out", "", "", "") for n, kind in enumerate(["gap", "gap", "away"])]
    metrics = metrics_of(board_with(), alarms)
    assert value(metrics, "dropgate_alarms", kind="gap") == 2
    alarms.clear()
    assert value(metrics, "dropgate_alarms", kind="gap") == 0
    assert value(metrics, "dropgate_alarms", kind="away") == 0


def test_lines_that_the_journal_lost_are_counted(tmp_path: Any) -> None:
    (tmp_path / "file").write_text("")
    journal = Journal(tmp_path / "file" / "journal.jsonl", 1000, 1)
    metrics = metrics_of(board_with(), journal=journal)
    assert value(metrics, "dropgate_journal_errors_total", journal="file") == 0
    journal.record(step())
    assert value(metrics, "dropgate_journal_errors_total", journal="file") == 1
    assert value(metrics, "dropgate_journal_errors_total", journal="database") is None


def test_the_process_and_its_version_are_told() -> None:
    metrics = metrics_of(board_with())
    assert value(metrics, "dropgate_build_info", version="1.2.3") == 1
    assert (value(metrics, "process_resident_memory_bytes") or 0) > 1_000_000
    assert (value(metrics, "process_open_fds") or 0) > 2


def test_whatever_a_name_holds_it_can_be_read_back() -> None:
    board = board_with()
    metrics = metrics_of(board)
    route = 'a "quoted"\\ name\nof two lines, €'
    metrics.listen(step(route=route))
    assert value(metrics, "dropgate_items_total", route=route, outcome="forwarded") == 1


def test_names_follow_the_conventions_of_prometheus() -> None:
    board = board_with(RouteState.RUNNING, drop_view("out", ["orders_0000000001.csv"]))
    metrics = metrics_of(board, [Alarm("1", "gap", "out", "", "", "")])
    for one in EACH:
        metrics.listen(one)
    for family in text_string_to_metric_families(metrics.text().decode()):
        assert family.documentation
        if family.type == "counter":
            assert all(sample.name.endswith("_total") for sample in family.samples)
        else:
            assert not family.name.endswith("_total")
        words = family.name.split("_")
        for unit in ("seconds", "bytes"):
            assert unit not in words[:-2], f"{family.name}: a unit stands at the end"
        assert not any(sample.name.endswith("_created") for sample in family.samples)


def test_nothing_is_left_in_what_the_whole_process_shares() -> None:
    before = {family.name for family in REGISTRY.collect()}
    metrics_of(board_with()).text()
    metrics_of(board_with()).text()
    gc.collect()
    assert {family.name for family in REGISTRY.collect()} == before


def test_it_is_scraped_while_things_happen() -> None:
    board = board_with(RouteState.RUNNING, drop_view("out", [f"orders_{n:010}.csv" for n in range(500)]))
    metrics = metrics_of(board)
    failures: list[BaseException] = []

    def scrape() -> None:
        try:
            for _ in range(20):
                metrics.text()
        except BaseException as error:  # noqa: BLE001 - told below
            failures.append(error)

    def happen() -> None:
        for number in range(2000):
            metrics.listen(step(number, route=f"route {number % 50}"))
            if number % 50 == 0:
                board.set_drop(drop_view("out", [f"g{number}x_{n:010}.csv" for n in range(100)]))

    threads = [threading.Thread(target=job) for job in (scrape, scrape, happen, happen)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert failures == []
    total = sum(s.value for s in samples(metrics) if s.name == "dropgate_items_total")
    assert total == 4000
