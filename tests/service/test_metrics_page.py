"""docs/metrics.md: what it lists is what there is."""

import json
import re
from dataclasses import fields
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from gateway.service.alarms.alarm import Alarm
from gateway.service.board import RouteState
from gateway.service.board_metrics import STATES
from gateway.service.journal import Journal
from gateway.service.metrics import OUTCOMES, PUBLICATIONS, Metrics
from gateway.service.transitions import Transition, What
from tests.service.boards import board_with, drop_view
from tests.service.steps import step

PAGE = (Path(__file__).parents[2] / "docs" / "metrics.md").read_text(encoding="utf-8")


def rows(heading: str) -> list[list[str]]:
    """The cells of the table rows below a heading."""
    part = PAGE.split(f"{heading}\n", 1)[1].split("\n## ", 1)[0].split("\n### ", 1)[0]
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in part.splitlines() if line.startswith("| `")]


def words(text: str) -> set[str]:
    return set(re.findall(r"`([a-z_]+)`", text))


def test_every_metric_is_explained_with_its_labels(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.jsonl", 1000, 1)
    board = board_with(RouteState.RUNNING, drop_view("out", ["orders_0000000001.csv"]))
    metrics = Metrics(board, lambda: [Alarm("1", "gap", "out", "", "", "")], "1", journal)
    metrics.listen(step(seconds=1.0))
    told: dict[str, set[str]] = {}
    process = set()
    for family in text_string_to_metric_families(metrics.text().decode()):
        name = f"{family.name}_total" if family.type == "counter" else family.name
        if name.startswith("dropgate_"):
            told[name] = set().union(*(sample.labels for sample in family.samples)) - {"le"}
        else:
            process.add(name)
    explained = {row[0].strip("`"): words(row[1]) for row in rows("### What happened") + rows("### What is")}
    assert explained == told
    assert process <= words(PAGE)


def test_every_value_of_a_label_is_explained() -> None:
    table = {row[0].strip("`"): words(row[2]) for row in rows("### What happened") + rows("### What is")}
    assert table["dropgate_items_total"] == {what.value for what in OUTCOMES}
    assert table["dropgate_publications_total"] == {what.value for what in PUBLICATIONS}
    assert table["dropgate_route_state"] == {state.value for state in RouteState}
    assert table["dropgate_drop_items"] == set(STATES)
    assert table["dropgate_journal_errors_total"] == {"file", "database"}


def test_every_key_and_every_step_of_the_journal_is_explained() -> None:
    listed = rows("## The journal")
    keys = {key for row in listed for key in words(row[0])}
    assert keys == {field.name for field in fields(Transition)} | {"item"} | {what.value for what in What}
    example = json.loads(re.findall(r"```json\n(.*)\n```", PAGE)[0])
    transition = Transition.of_record(example)
    assert transition is not None
    assert list(transition.as_record()) == list(example)
