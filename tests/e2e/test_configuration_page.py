"""docs/configuration.md: its tables are what the models say, its example can be used, and what it shows is what is printed."""

import re
import subprocess
from pathlib import Path

from gateway.settings import load
from tests.e2e.commands import DROPGATE, clean_environment
from tests.e2e.configuration_page import BEGIN, PAGE, every_key

TEXT = PAGE.read_text(encoding="utf-8")


def example() -> str:
    (block,) = re.findall(r"^```toml\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
    return str(block)


def test_its_tables_are_what_the_models_say() -> None:
    assert TEXT.partition(BEGIN)[1:] == (BEGIN, every_key().removeprefix(BEGIN)), (
        "write them anew: .venv/bin/python -m tests.e2e.configuration_page"
    )


def test_its_example_can_be_used(tmp_path: Path) -> None:
    path = tmp_path / "dropgate.toml"
    path.write_text(example(), encoding="utf-8")
    assert [route.title for route in load(path).route] == ["outbox -> bank-in"]


def test_its_check_prints_what_it_shows(tmp_path: Path) -> None:
    wrong = example().replace("password_file", "passwrod").replace('endpoint = "bank"', 'endpoint = "bnak"')
    (tmp_path / "dropgate.toml").write_text(wrong, encoding="utf-8")
    (shown,) = re.findall(r"^\$ (dropgate check .*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
    command, _, output = shown.partition("\n")
    done = subprocess.run(
        [DROPGATE, *command.split()[1:]],
        cwd=tmp_path,
        env=clean_environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout == output
