"""docs/cases.md: every case has its line, and every test that a line names is there."""

import importlib
import inspect
import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "cases.md").read_text(encoding="utf-8")
REPORTS = ROOT.parent / "shared" / "cases.jsonl"  # where the project keeps them beside the checkout; not a part of it

_ROW = re.compile(r"^\| `(?P<case>[a-z0-9-]+)` \| (?P<does>[^|]+) \| (?P<held>[^|]+) \|$", re.MULTILINE)
_TEST = re.compile(r"`(tests/[\w/]+\.py)::([\w:]+)`")


def rows() -> dict[str, str]:
    """The case of each line, and what holds it."""
    return {row["case"]: row["held"] for row in _ROW.finditer(PAGE)}


def find(path: str, name: str) -> object:
    """A test by its file and its name, also one that its class inherits. Raises AttributeError where there is none."""
    found: object = importlib.import_module(path.removesuffix(".py").replace("/", "."))
    for part in name.split("::"):
        found = getattr(found, part)
    return found


def test_every_line_of_the_tables_is_read_and_no_case_stands_twice() -> None:
    lines = [line for line in PAGE.splitlines() if line.startswith("| `")]
    assert len(lines) == len(rows()) >= 114


@pytest.mark.parametrize("case", sorted(rows()))
def test_a_case_is_held_by_tests_that_are_there_or_says_why_it_cannot_arise(case: str) -> None:
    held = rows()[case]
    tests = _TEST.findall(held)
    assert tests or held.startswith("cannot arise: ")
    for path, name in tests:
        test = find(path, name)
        assert inspect.isfunction(test), f"{path}::{name}"
        assert test.__name__.startswith("test_")


def test_every_report_has_its_line() -> None:
    if not REPORTS.is_file():
        # A checkout by itself: the lines are all there is.
        assert len(rows()) >= 114
        return
    reports = [json.loads(line)["id"] for line in REPORTS.read_text(encoding="utf-8").splitlines()]
    assert set(rows()) >= set(reports)


def test_every_case_that_a_test_cites_has_its_line() -> None:
    cited = {
        case
        for path in sorted((ROOT / "tests").rglob("test_*.py"))
        for sentence in re.findall(r'"""Cases? ([^:.]+)[:.]', path.read_text(encoding="utf-8"))
        for case in re.split(r", | and ", sentence)
    }
    assert len(cited) > 20
    assert {case for case in cited if case not in rows()} == set()
