"""Discarding an error image: moved aside whole, in both layouts and for every signal, and only then."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from gateway.drop import Drop, Rules
from protocol.errors import Anomaly
from protocol.layout import FolderLayout
from protocol.names import ItemId
from protocol.operations import Procedure
from protocol.procedures.discard import discard
from protocol.procedures.replay import replay
from protocol.rules import Signal
from tests.web.world import GROUP, error_image, item, put, title

ITEM = ItemId(GROUP, 1)


def files(folder: Path) -> list[str]:
    """All files, below the drop."""
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def run(
    folder: Path, procedure: Callable[[Rules, ItemId], Procedure[tuple[str, ...]]], rules: Rules | None = None
) -> tuple[str, ...]:
    """One procedure on the item."""
    drop = Drop.at(str(folder), rules=rules)
    with drop.driver() as driver:
        return driver.run(procedure(drop.rules, ITEM))


def test_every_file_is_moved_and_says_where(tmp_path: Path) -> None:
    error_image(tmp_path, 1, "why")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    moved = run(tmp_path, discard)
    assert moved[0] == f"quarantine/E_{title(1)}.manifest.json", "the token first"
    assert moved[-1].endswith("reason.json"), "why it failed stays longest"
    assert {path.name: path.read_bytes() for path in (tmp_path / "quarantine").iterdir()} == before
    assert Drop.at(str(tmp_path)).snapshot().items == {}


def test_an_earlier_one_of_the_same_number_is_not_replaced(tmp_path: Path) -> None:
    for content in (b"first", b"second"):
        error_image(tmp_path, 1, "why", data=content)
        run(tmp_path, discard)
    kept = tmp_path / "quarantine"
    assert (kept / f"E_{title(1)}.csv").read_bytes() == b"first"
    assert (kept / f"E_{title(1)}+1.csv").read_bytes() == b"second"


def test_the_folder_layout_has_its_quarantine_beside_its_folders(tmp_path: Path) -> None:
    rules = Rules(FolderLayout())
    for folder in rules.layout.folders:
        (tmp_path / folder).mkdir()
    error_image(tmp_path, 1, "why")
    for path in list(tmp_path.glob("E_*")):
        path.rename(tmp_path / "error" / path.name.removeprefix("E_"))
    run(tmp_path, discard, rules)
    assert files(tmp_path) == [f"quarantine/E_{title(1)}.{end}" for end in ("csv", "manifest.json", "reason.json")]
    assert Drop.at(str(tmp_path), rules=rules).snapshot().foreign == []


def test_where_the_payload_is_the_token(tmp_path: Path) -> None:
    put(tmp_path, f"E_{title(1)}.csv", b"x")
    put(tmp_path, f"E_{title(1)}.reason.json", b"{}")
    run(tmp_path, discard, Rules(signal=Signal.NONE))
    assert files(tmp_path) == [f"quarantine/E_{title(1)}.csv", f"quarantine/E_{title(1)}.reason.json"]


@pytest.mark.parametrize("mark", ["", "B_", "A_", "D_", "C_gate-1-1_"])
def test_nothing_but_an_error_image_is_discarded(tmp_path: Path, mark: str) -> None:
    item(tmp_path, 1, mark, payload_mark="" if mark[:1] in ("C", "D") else mark)
    before = files(tmp_path)
    with pytest.raises(Anomaly, match="only an error image can be discarded"):
        run(tmp_path, discard)
    assert files(tmp_path) == before


def test_one_that_is_still_being_put_away_is_left_alone(tmp_path: Path) -> None:
    item(tmp_path, 1, "E_")
    before = files(tmp_path)
    with pytest.raises(Anomaly, match="still being put away"):
        run(tmp_path, discard)
    assert files(tmp_path) == before


def test_asked_again_after_a_cut_it_goes_on(tmp_path: Path) -> None:
    error_image(tmp_path, 1, "why")
    (tmp_path / "quarantine").mkdir()
    token = f"E_{title(1)}.manifest.json"
    os.rename(tmp_path / token, tmp_path / "quarantine" / token)  # as far as it came
    with pytest.raises(Anomaly):
        run(tmp_path, replay)  # nobody can ask for it again from here
    run(tmp_path, discard)
    assert len(files(tmp_path)) == 3
    assert all(name.startswith("quarantine/") for name in files(tmp_path))


def test_of_a_replay_and_a_discard_one_wins(tmp_path: Path) -> None:
    error_image(tmp_path, 1, "why")
    run(tmp_path, replay)
    with pytest.raises(Anomaly):
        run(tmp_path, discard)
    assert files(tmp_path) == [f"{title(1)}.csv", f"{title(1)}.manifest.json"]
