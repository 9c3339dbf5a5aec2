"""The README: its tour is run and its output compared, its names are read, its configuration is loaded, its program runs."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from gateway.settings import load
from protocol.layout import PrefixLayout
from protocol.names import Name
from protocol.states import State
from tests.e2e.commands import DROPGATE, clean_environment

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")

# What differs from run to run, on either side of the comparison.
VOLATILE = (
    (re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"), "KEY"),
    (re.compile(r"\d{4}-\d{2}-\d{2}T[0-9:.]+Z"), "TIME"),
    (re.compile(r'"host": "[^"]*"'), '"host": "HOST"'),
    (re.compile(r"file://\S*/out"), "DROP"),
)


def blocks(kind: str) -> list[str]:
    """The fenced blocks of one kind, in order."""
    return re.findall(rf"^```{kind}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


def steady(text: str) -> str:
    for pattern, word in VOLATILE:
        text = pattern.sub(word, text)
    return text


@pytest.fixture
def environment() -> dict[str, str]:
    """This Python's `dropgate` is the one that is found; `ls` sorts as the README says."""
    folder = str(Path(DROPGATE).parent)
    return clean_environment(PATH=f"{folder}{os.pathsep}{os.environ['PATH']}", LC_ALL="C")


@pytest.mark.timeout(180)
def test_the_tour_shows_what_the_readme_says(tmp_path: Path, environment: dict[str, str]) -> None:
    tour = "".join(blocks("console"))
    commands = [line.removeprefix("$ ") for line in tour.splitlines() if line.startswith("$ ")]
    assert len(commands) >= 15
    script = "\n".join(f"printf '%s\\n' {shlex.quote(f'$ {command}')}\n{command}" for command in commands)
    done = subprocess.run(
        ["sh", "-c", script],
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=150,
        check=False,
    )
    assert steady(done.stdout) == steady(tour)


def test_the_names_of_the_listing_mean_what_it_says() -> None:
    listing = blocks("text")[0].splitlines()
    names = [line.split()[0] for line in listing]
    assert names == sorted(names), "as `ls -1` shows them"
    parsed = [PrefixLayout().parse(name) for name in names]
    assert None not in parsed
    states = {parsed_name.state for parsed_name in parsed if isinstance(parsed_name, Name)}
    assert states == set(State) - {State.DONE}


def test_the_configuration_can_be_loaded(tmp_path: Path) -> None:
    (configuration,) = blocks("toml")
    path = tmp_path / "dropgate.toml"
    path.write_text(configuration, encoding="utf-8")
    settings = load(path)
    assert [route.title for route in settings.route] == ["outbox -> bank-in", "outbox -> office-in"]
    assert set(settings.drop) == {"outbox", "bank-in", "office-in"}


def test_the_program_runs(tmp_path: Path, environment: dict[str, str]) -> None:
    (program,) = blocks("python")
    (tmp_path / "out").mkdir()
    (tmp_path / "today.csv").write_text("order;amount\n")
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout == "orders_0000000001.manifest.json\n", done.stderr


def test_every_page_that_is_linked_is_there() -> None:
    pages = re.findall(r"\]\(([^)#:]+)\)", README)
    assert len(pages) >= 7
    assert [page for page in pages if not (ROOT / page).is_file()] == []
