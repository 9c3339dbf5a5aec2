"""The configurations that are wrong, each with the whole of what `dropgate check` says of it beside it.

After a change of a message, write them anew and read what has changed:  .venv/bin/python -m tests.cli.golden_files
"""

import shutil
import tempfile
from pathlib import Path

from tests.cli.tools import Place

GOLDEN = Path(__file__).with_name("golden")
BAD = sorted(GOLDEN.glob("bad-*.toml"))


def said_of(bad: Path, place: Place) -> str:
    """What the command says of a copy of the file, and its exit code; where it was run is not told."""
    shutil.copy(bad, place.folder / bad.name)
    ended = place.call("check", bad.name)
    return f"$ dropgate check {bad.name}\n{ended.out}{ended.err}exit status {ended.code}\n".replace(str(place.folder), "FOLDER")


def _rewrite() -> None:
    with tempfile.TemporaryDirectory() as folder:
        place = Place(Path(folder) / "work", Path(folder) / "home")
        place.folder.mkdir()
        place.home.mkdir()
        for bad in BAD:
            bad.with_suffix(".txt").write_text(said_of(bad, place), encoding="utf-8")


if __name__ == "__main__":
    _rewrite()
