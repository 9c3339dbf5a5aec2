"""Where commands are run."""

from pathlib import Path

import pytest

from tests.cli.tools import Place


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A folder of its own, and a home without settings."""
    for name in ("work", "home"):
        (tmp_path / name).mkdir()
    return Place(tmp_path / "work", tmp_path / "home")
