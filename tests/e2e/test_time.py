"""Time decides nothing: neither the age of a file, nor a clock, nor a time zone, nor a change of daylight saving."""

import json
import os
from pathlib import Path

from tests.e2e.commands import clean_environment, dropgate

YEAR = 365 * 24 * 3600.0


def receive(place: Path, zone: str) -> list[str]:
    """The items that one run takes, in a process of that time zone."""
    output = dropgate(
        *("receive", "./drop", "--group", "orders_", "--to", "received", "--once", "--ordering", "fifo", "--json"),
        cwd=place,
        environment=clean_environment(TZ=zone),
    )
    return [json.loads(line)["item"] for line in output.splitlines()]


def test_files_of_any_age_are_taken_once_whatever_the_time_zone(tmp_path: Path) -> None:
    """Cases airflow-timezone, dst-relisted, nifi-window and mtime-preserved."""
    drop = tmp_path / "drop"
    drop.mkdir()
    (tmp_path / "received").mkdir()
    files = [f"file_{number}.csv" for number in range(4)]
    for name in files:
        (tmp_path / name).write_text(name)
    dropgate("send", "./drop", *files, "--group", "orders_", cwd=tmp_path)
    now = (drop / "orders_0000000001.csv").stat().st_mtime
    for path in drop.iterdir():
        # As a copy that keeps times, a server whose clock is ahead, and one that has just changed to summer time show it.
        age = {"1": -YEAR, "2": YEAR, "3": 3600.0, "4": -3600.0}.get(path.name.partition(".")[0][-1], 0.0)
        os.utime(path, (now + age, now + age))

    assert receive(tmp_path, "America/New_York") == [f"orders_{number:010}" for number in range(1, 5)]
    for path in drop.iterdir():
        os.utime(path)
    assert receive(tmp_path, "Asia/Tokyo") == [], "what looks newer is not another item"
    assert receive(tmp_path, "UTC") == []


def test_a_file_without_its_manifest_is_not_taken_however_old_it_is(tmp_path: Path) -> None:
    """Cases mtime-preserved and manifest-before-data: readiness is a name, never an age."""
    drop = tmp_path / "drop"
    drop.mkdir()
    (tmp_path / "received").mkdir()
    payload = drop / "orders_0000000001.csv"
    payload.write_text("half a fi")
    os.utime(payload, (1.0, 1.0))
    assert receive(tmp_path, "UTC") == []
    assert [path.name for path in drop.iterdir()] == [payload.name]
