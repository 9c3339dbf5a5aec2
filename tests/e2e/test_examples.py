"""The examples do what they say."""

import subprocess
from pathlib import Path

from tests.e2e.commands import dropgate

HAND_OVER = Path(__file__).parents[2] / "examples" / "shell-producer" / "hand-over.sh"


def hand_over(drop: Path, number: int, file: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [HAND_OVER, drop, "orders_", str(number), file], capture_output=True, text=True, timeout=60, check=False
    )


def test_a_shell_script_can_be_a_producer(tmp_path: Path) -> None:
    drop, received, file = tmp_path / "drop", tmp_path / "received", tmp_path / "today.csv"
    drop.mkdir()
    received.mkdir()
    file.write_bytes(b"order;amount\n1;10.00\n")
    assert hand_over(drop, 42, file).returncode == 0
    assert sorted(path.name for path in drop.iterdir()) == ["orders_0000000042.csv", "orders_0000000042.csv.sha256"]

    dropgate("receive", "./drop", "--signal", "checksum", "--group", "orders_", "--to", "received", "--once", cwd=tmp_path)
    assert (received / "orders_0000000042.csv").read_bytes() == file.read_bytes()
    after = ["A_orders_0000000042.csv", "A_orders_0000000042.csv.sha256"]
    assert sorted(path.name for path in drop.iterdir()) == after

    again = hand_over(drop, 42, file)
    assert again.returncode == 1, "a number is used once"
    assert "number 42 is in use" in again.stderr
    assert sorted(path.name for path in drop.iterdir()) == after


def test_a_shell_producer_that_fails_leaves_nothing(tmp_path: Path) -> None:
    drop = tmp_path / "drop"
    drop.mkdir()
    assert hand_over(drop, 1, tmp_path / "missing.csv").returncode != 0
    assert list(drop.iterdir()) == []
