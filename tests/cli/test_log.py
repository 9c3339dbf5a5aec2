"""`dropgate log`: the service's journal for people and programs, followed over a rotation, and what a ledger remembers."""

import json
import signal
from contextlib import closing
from datetime import UTC, datetime, timedelta

import pytest

from gateway.service.journal import Journal
from gateway.service.transitions import What
from testenv.postgres import Postgres
from tests.cli.tools import Place, ended, until
from tests.service.steps import EACH, step

LARGE = 1 << 30

CONFIG = """
[drop.out]
url = "out"
groups = ["orders_"]
[drop.bank]
url = "bank"
width = 4
[[route]]
from = "out"
to = "bank"
[journal]
file = "state/journal.jsonl"
"""


@pytest.fixture
def journal(place: Place) -> Journal:
    """The journal of a configuration, with four steps of two items in it."""
    place.write("dropgate.toml", CONFIG)
    journal = Journal(place.folder / "state" / "journal.jsonl", LARGE, 8)
    journal.record(step(1, What.BEGUN, attempt=1, owner="shop-1-abc", bytes=28))
    journal.record(step(1, What.PUBLISHED, destination="bank", attempt=1, owner="shop-1-abc", bytes=28))
    journal.record(step(1, What.FORWARDED, attempt=1, bytes=28, seconds=1.25, key="k"))
    journal.record(step(2, What.RETURNED, attempt=2, route="other", drop="elsewhere", text="Connection refused"))
    return journal


def test_people_read_one_step_a_line_oldest_first(place: Place, journal: Journal) -> None:
    assert place.done("log").out == (
        "2026-11-30T10:00:01.000000Z  orders_0000000001     begun         out -> bank  28 bytes  by shop-1-abc\n"
        "2026-11-30T10:00:01.000000Z  orders_0000000001     published     out -> bank  to bank  28 bytes  by shop-1-abc\n"
        "2026-11-30T10:00:01.000000Z  orders_0000000001     forwarded     out -> bank  28 bytes  1.2 s old\n"
        "2026-11-30T10:00:02.000000Z  orders_0000000002     returned      other  attempt 2  Connection refused\n"
    )


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (("--item", "orders_0000000001"), ["begun", "published", "forwarded"]),
        (("--item", "C_shop-1-abc_orders_0000000001.manifest.json"), ["begun", "published", "forwarded"]),
        (("--route", "other"), ["returned"]),
        (("--key", "k"), ["forwarded"]),
        (("out",), ["begun", "published", "forwarded"]),
        (("bank",), ["published"]),
        (("--since", "2026-11-30T10:00:02"), ["returned"]),
        (("--since", "2026-11-30T11:00:02+01:00"), ["returned"]),
        (("--since", "2026-11-30"), ["begun", "published", "forwarded", "returned"]),
        (("--since", "2026-12-01"), []),
        (("--last", "2"), ["forwarded", "returned"]),
    ],
)
def test_only_what_is_asked_for_is_told(place: Place, journal: Journal, words: tuple[str, ...], what: list[str]) -> None:
    assert [record["what"] for record in place.called("log", *words, "--json").objects] == what


def test_a_span_of_time_is_counted_from_now(place: Place, journal: Journal) -> None:
    for hours in (3, 1):
        at = datetime.now(UTC) - timedelta(hours=hours)
        journal.record(step(hours, at=at.isoformat().replace("+00:00", "Z")))
    told = place.called("log", "--since", "2h", "--json").objects
    assert [record["sequence"] for record in told] == ["0000000001"]


def test_programs_read_the_very_records(place: Place, journal: Journal) -> None:
    for one in EACH:
        journal.record(one)
    assert place.called("log", "--json", "--last", str(len(EACH))).objects == [one.as_record() for one in EACH]


def test_what_a_stranger_wrote_cannot_steer_the_terminal(place: Place, journal: Journal) -> None:
    journal.record(step(3, text="\x1b[2Jgone\nnew line"))
    assert place.called("log", "--last", "1").out.endswith("\\x1b[2Jgone\\nnew line\n")


def test_the_journal_is_this_users_own_where_none_is_configured(place: Place) -> None:
    with closing(Journal(place.home / "state" / "dropgate" / "journal.jsonl", LARGE, 8)) as own:
        own.record(step(1))
    assert [record["item"] for record in place.done("log", "--json").objects] == ["orders_0000000001"]


def test_that_there_is_no_journal_yet_is_said(place: Place) -> None:
    end = place.call("log")
    assert (end.code, end.out) == (0, "")
    assert f"there is no journal {place.home}/state/dropgate/journal.jsonl yet; `dropgate run` writes it" in end.err


def test_follow_goes_on_over_a_rotation_until_ctrl_c(place: Place, journal: Journal) -> None:
    small = Journal(journal.file, 600, 100)
    with place.started("log", "--follow", "--json") as process:
        assert process.stdout is not None
        told = [json.loads(process.stdout.readline()) for _ in range(4)]
        for sequence in range(10, 40):
            small.record(step(sequence))
        told += [json.loads(process.stdout.readline()) for _ in range(30)]
        process.send_signal(signal.SIGINT)
        end = ended(process)
    assert [record["sequence"][-2:] for record in told] == ["01", "01", "01", "02", *map(str, range(10, 40))]
    assert (end.code, end.out, end.err) == (0, "", "")


def test_follow_begins_with_the_last_ten(place: Place, journal: Journal) -> None:
    for sequence in range(10, 40):
        journal.record(step(sequence))
    with place.started("log", "--follow", "--json") as process:
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["sequence"] == "0000000030"


def test_a_reader_that_goes_away_ends_it_without_a_trace(place: Place, journal: Journal) -> None:
    with place.started("log", "--follow") as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.stdout.close()
        for sequence in range(10, 40):
            journal.record(step(sequence))
        until(lambda: process.poll() is not None, "it to end")
        assert process.stderr is not None
        assert process.stderr.read() == ""


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_the_database_tells_the_same_as_the_file(place: Place, kind: str, request: pytest.FixtureRequest) -> None:
    url = f"sqlite://{place.folder}/ledger.db"
    if kind == "postgresql":
        server: Postgres = request.getfixturevalue("postgres")
        url = server.empty_database()
    place.write("dropgate.toml", f'{CONFIG}database = true\n[ledger]\nurl = "{url}"\n')
    with closing(Journal(place.folder / "state" / "journal.jsonl", LARGE, 8, url)) as journal:
        for one in EACH:
            journal.record(one)
    assert place.called("log", "--json", "--database").objects == place.called("log", "--json").objects
    assert [record["what"] for record in place.called("log", "--json", "--database", "--last", "1").objects] == ["discarded"]


def test_a_ledger_tells_what_it_remembers_of_a_drop(place: Place) -> None:
    place.drop()
    place.write("a.csv")
    place.done("send", "./drop", "a.csv", "--group", "orders_", "--key", "k")
    place.done("receive", "./drop", "--group", "orders_", "--exec", "true {}", "--once")
    told = place.called("log", "./drop", "--json").objects
    assert [record["event"] for record in told] == ["started", "done", "archived"]
    assert {record["key"] for record in told} == {"k"}
    place.write("dropgate.toml", '[drop.out]\nurl = "drop"\n')
    ledger = f"sqlite://{place.home}/state/dropgate/ledger.db"
    assert place.called("log", "out", "--history", "--json").objects == told
    assert place.called("log", "out", "--ledger", ledger, "--json").objects == told
    assert place.called("log", "./drop", "--last", "1", "--since", "1h", "--json").objects == told[-1:]
    assert place.called("log", "./drop", "--item", "orders_0000000002").out == ""
    place.done("replay", "./drop", "orders_0000000001")
    place.done("receive", "./drop", "--group", "orders_", "--exec", "true {}", "--once")
    assert [bool(record.get("replayed")) for record in place.called("log", "./drop", "--json").objects] == [False] * 3 + [
        True
    ] * 3
    assert place.called("log", "./drop", "--last", "1").out.count(" of a replay ") == 1


WRONG: dict[str, tuple[tuple[str, ...], str]] = {
    "a time that is none": (
        ("--since", "yesterday"),
        "--since 'yesterday' is no time; write 90s, 15m, 2h, 1d, 2026-11-30 or 2026-11-30T10:00",
    ),
    "an hour that is none": (("--since", "2026-11-30T25:00"), "there is no such day or hour"),
    "an item that is none": (("--item", "orders"), "'orders' is no item; an item is called like orders_0000000042"),
    "a drop that is not configured": (
        ("other",),
        "'other' is no drop of the configuration: dropgate.toml has bank, out. For a folder here, write ./other",
    ),
    "a route of a ledger": (
        ("./out", "--route", "x"),
        "--route: belong to the journal, and a ledger is asked here",
    ),
    "a ledger that is followed": (
        ("out", "--history", "--follow", "--database"),
        "--follow, --database: belong to the journal, and a ledger is asked here",
    ),
    "a ledger and no drop": (("--history",), "a ledger is asked about one DROP: name it"),
    "a layout and no place": (("out", "--width", "4"), "--width: belong to a DROP that is a URL or a path"),
    "a database that is followed": (("--follow", "--database"), "--follow reads the file; leave --database out"),
    "no last one": (("--last", "0"), "Invalid value for '--last'"),
    "a configuration that is not there": (("--config", "nope.toml"), "there is no configuration file nope.toml"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_input_is_told_and_ends_with_2(place: Place, journal: Journal, case: str) -> None:
    words, answer = WRONG[case]
    end = place.call("log", *words)
    assert (end.code, end.out) == (2, "")
    assert answer in end.err


def test_a_ledger_that_is_no_database_has_no_journal(place: Place) -> None:
    place.write("dropgate.toml", f'[ledger]\nurl = "journal://{place.folder}/ledger"\n')
    end = place.call("log", "--database")
    assert (end.code, end.out) == (2, "")
    assert "a database is needed: sqlite:///absolute/path/ledger.db" in end.err
