"""The pages for operators: what they list is what there is."""

import re
import shlex
import sys
from pathlib import Path

import pytest

from protocol.names import Grammar
from protocol.states import State
from tests.e2e.commands import dropgate

DOCS = Path(__file__).parents[2] / "docs"
OPERATIONS = (DOCS / "operations.md").read_text(encoding="utf-8")


def test_every_fact_that_a_command_is_told_is_explained(tmp_path: Path) -> None:
    (tmp_path / "drop").mkdir()
    (tmp_path / "today.csv").write_text("order;amount\n")
    show = "import os, sys; print(*sorted(n for n in os.environ if n.startswith('DROPGATE_')), file=open(sys.argv[1], 'w'))"
    dropgate("send", "./drop", "today.csv", "--group", "orders_", "--meta", "batch=7", cwd=tmp_path)
    dropgate(
        *("receive", "./drop", "--group", "orders_", "--once"),
        *("--exec", shlex.join([sys.executable, "-c", show, str(tmp_path / "told")])),
        cwd=tmp_path,
    )
    told = set((tmp_path / "told").read_text().split())
    section = OPERATIONS.split("## Commands for items\n", 1)[1].split("\n## ", 1)[0]
    explained = set(re.findall(r"`(DROPGATE_\w+)`", section))
    assert "DROPGATE_META_BATCH" in told
    assert explained == told - {"DROPGATE_META_BATCH"}


def test_every_state_is_explained() -> None:
    table = OPERATIONS.split("## What you see\n", 1)[1].split("\n## ", 1)[0]
    marks = {row.split("`")[1][:2] for row in table.splitlines() if row.startswith("| `")}
    assert {f"{state.value}_" for state in State if state.value} <= marks


def test_every_name_in_a_command_is_a_name_of_the_protocol() -> None:
    shown = re.findall(r"^(?:mv|rm) (.*)$", OPERATIONS, re.MULTILINE)
    names = [name for line in shown for name in line.split() if not name.startswith("-")]
    assert len(names) >= 10
    assert [name for name in names if Grammar().parse(name) is None] == []


@pytest.mark.parametrize("page", sorted(DOCS.glob("*.md")), ids=lambda page: page.name)
def test_every_link_leads_somewhere(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    headings = {_anchor(line) for line in text.splitlines() if line.startswith("#")}
    for target in re.findall(r"\]\(([^)]+)\)", text):
        path, _, anchor = target.partition("#")
        if "://" not in target:
            assert (page.parent / path).exists() if path else anchor in headings, f"{page.name}: {target}"


def _anchor(heading: str) -> str:
    words = heading.lstrip("#").strip().lower()
    return "".join(c for c in words.replace(" ", "-") if c.isalnum() or c in "-_")
