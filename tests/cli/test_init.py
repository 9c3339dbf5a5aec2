"""`dropgate init` writes a configuration that works as it stands, and in which whatever is uncommented works too."""

import re
from pathlib import Path

import pytest

from gateway.settings import Settings, load
from gateway.starting_file import kind_of, starting_file
from gateway.tables import tables
from tests.cli.tools import Place

TEXT = starting_file("dropgate.toml")
LINES = TEXT.splitlines()
KEY = re.compile(r"^#?([a-z_]+) = ")
COMMENTED = [number for number, line in enumerate(LINES) if line.startswith("#") and KEY.match(line)]


def heading_of(number: int) -> int:
    """The line of the heading that a line stands under."""
    return next(n for n in range(number, -1, -1) if re.match(r"^#?\[", LINES[n]))


def key_of(line: str) -> str:
    found = KEY.match(line)
    assert found is not None
    return found[1]


def required(heading: int) -> list[int]:
    """The lines of a table that is commented out as a whole, without which it cannot be: its first keys, up to a default."""
    model = kind_of(LINES[heading]).model
    must = {field.alias or name for name, field in model.model_fields.items() if field.is_required()}
    must |= {"endpoint", "directory"} if "bank-in" in LINES[heading] else {"by"} if "expect" in LINES[heading] else set()
    return [n for n in COMMENTED if heading_of(n) == heading and key_of(LINES[n]) in must]


def uncommented(numbers: set[int]) -> str:
    return "\n".join(line[1:] if n in numbers and line.startswith("#") else line for n, line in enumerate(LINES)) + "\n"


def block(heading: str) -> set[int]:
    """A table that is commented out: its heading, and what it cannot be without."""
    number = LINES.index(f"#{heading}")
    return {number, *required(number)}


def with_needs(number: int) -> str:
    """The file with one more key: its line is uncommented, its table, and what its own comment says that it needs."""
    heading, comment = heading_of(number), LINES[number - 1]
    wanted = {number} | (block(LINES[heading][1:]) if LINES[heading].startswith("#") else set())
    text_needed = re.search(r' Needs ([a-z_]+) = ("[a-z]+")', comment)
    if need := re.search(r" Needs ([a-z_]+)", comment):
        wanted |= {n for n in COMMENTED if heading_of(n) == heading and key_of(LINES[n]) == need[1]}
    if "bank-in" in LINES[heading]:
        assert " Needs [endpoint.bank]" in "".join(LINES[heading : heading + 4])
        wanted |= block("[endpoint.bank]")
    if key_of(LINES[number]) == "every":
        wanted -= {n for n in wanted if "in place of `every`" in LINES[n - 1]}
    text = uncommented(wanted)
    if text_needed:
        text = re.sub(rf"^{text_needed[1]} = .*$", f"{text_needed[1]} = {text_needed[2]}", text, flags=re.MULTILINE)
    return text.replace("sftp://", "smb://") if " Needs an smb:// URL" in comment else text


def test_it_is_right_as_it_stands_and_carries_an_item(place: Place) -> None:
    ended = place.called("init")
    assert ended.out == "dropgate.toml is written; next: dropgate check dropgate.toml\n"
    assert place.called("check").out == "dropgate.toml is right: 0 endpoints, 2 drops, 1 route\n", "and nothing to doubt"
    place.drop("outbox")
    place.drop("inbox")
    place.write("today.csv")
    place.done("check", "--connect")
    place.done("send", "outbox", "today.csv", "--group", "orders_")
    assert place.run("run", "dropgate.toml", "--once").code == 0
    assert (place.folder / "inbox" / "orders_0000000001.csv").exists()


def test_every_key_of_every_table_is_in_it_and_explained() -> None:
    shown: dict[str, set[str]] = {}
    for number, line in enumerate(LINES):
        if KEY.match(line):
            shown.setdefault(kind_of(LINES[heading_of(number)]).heading, set()).add(key_of(line))
    assert shown == {table.heading: set(table.keys) for table in tables(Settings)}
    for number in COMMENTED:
        assert LINES[number - 1].startswith("# "), LINES[number]
        assert len(LINES[number - 1]) > 10


@pytest.mark.parametrize(
    "number", COMMENTED, ids=lambda number: f"{LINES[heading_of(number)].strip('#')}{key_of(LINES[number])}"
)
def test_each_example_can_be_uncommented(tmp_path: Path, number: int) -> None:
    path = tmp_path / "dropgate.toml"
    path.write_text(with_needs(number), encoding="utf-8")
    load(path)


def test_all_tables_can_be_uncommented_together(tmp_path: Path) -> None:
    headings = {n for n, line in enumerate(LINES) if line.startswith("#[")}
    path = tmp_path / "dropgate.toml"
    path.write_text(uncommented(headings | {n for heading in headings for n in required(heading)}), encoding="utf-8")
    settings = load(path)
    assert list(settings.endpoint) == ["bank"]
    assert settings.web is not None
    assert list(settings.web.user) == ["anna"]
    assert len(settings.expect) == 1


def test_what_is_said_to_be_a_default_is_one(tmp_path: Path) -> None:
    path = tmp_path / "dropgate.toml"
    path.write_text(TEXT, encoding="utf-8")
    plain = load(path)
    for key in ("layout", "width", "signal", "verify", "hash", "busy_patience", "receipts"):
        number = next(n for n in COMMENTED if key_of(LINES[n]) == key and heading_of(n) < 100)
        path.write_text(uncommented({number}), encoding="utf-8")
        assert load(path).drop == plain.drop, key


class TestNeverOverWhatIsThere:
    """A configuration that somebody wrote is not lost."""

    def test_without_force(self, place: Place) -> None:
        place.write("mine.toml", "mine")
        ended = place.call("init", "mine.toml")
        assert ended.code == 2
        assert ended.err == "dropgate: mine.toml is there already; --force replaces it\n"
        assert (place.folder / "mine.toml").read_text() == "mine"

    def test_a_link_that_leads_nowhere_is_something_that_is_there(self, place: Place) -> None:
        (place.folder / "mine.toml").symlink_to("elsewhere.toml")
        assert place.call("init", "mine.toml").code == 2
        assert not (place.folder / "elsewhere.toml").exists()

    def test_with_force(self, place: Place) -> None:
        place.write("mine.toml", "mine")
        (place.folder / "mine.toml").chmod(0o644)
        place.called("init", "mine.toml", "--force")
        assert (place.folder / "mine.toml").read_text() == starting_file("mine.toml")
        assert (place.folder / "mine.toml").stat().st_mode & 0o777 == 0o600
        assert [path.name for path in place.folder.iterdir()] == ["mine.toml"]

    def test_nobody_else_can_read_it(self, place: Place) -> None:
        place.called("init")
        assert (place.folder / "dropgate.toml").stat().st_mode & 0o777 == 0o600

    @pytest.mark.parametrize(
        ("path", "text"), [("there", "there is a folder; name a file in it"), ("no/x", "there is no folder no")]
    )
    def test_a_place_that_cannot_be(self, place: Place, path: str, text: str) -> None:
        place.drop("there")
        ended = place.call("init", path, "--force")
        assert ended.code == 2
        assert text in ended.err
