"""The quickstart: what `make run ONCE=1` runs."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.commands import clean_environment

SCRIPT = Path(__file__).parents[2] / "examples" / "quickstart" / "run.py"


@pytest.mark.timeout(180)
def test_the_quickstart_hands_everything_over_and_ends(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(SCRIPT)],
        cwd=tmp_path,
        env=clean_environment(ONCE="1"),
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "All 9 files were handed over, each exactly once." in done.stdout
    source = sorted(path.name for path in (tmp_path / "quickstart" / "source").iterdir())
    destination = sorted(path.name for path in (tmp_path / "quickstart" / "destination").iterdir())
    assert [name for name in source if not name.startswith("A_")] == ["S_orders_0000000010.next", "S_orders_origin"]
    assert [name.removeprefix("A_") for name in source if name.startswith("A_")] == destination
