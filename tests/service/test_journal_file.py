"""The journal's file: every step is a line, other processes and rotations lose none, and a full disk stops nobody."""

import fcntl
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from queue import Queue

import pytest
from structlog.testing import capture_logs

from gateway.service.board import Board
from gateway.service.journal import Journal, Wanted, default_journal, read_journal, tail_journal
from gateway.service.journal_file import numbered
from gateway.service.transitions import Hub, Transition, What
from testenv.spec import ROOT
from tests.gateway.ledger.full_disk import full_disk
from tests.service.steps import EACH, step

LARGE = 1 << 30
PATIENCE = 60.0  # seconds


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "state" / "journal.jsonl"


@pytest.fixture
def journal(file: Path) -> Iterator[Journal]:
    with closing(Journal(file, LARGE, 8)) as opened:
        yield opened


def small(file: Path, lines: int, keep: int = 8) -> Journal:
    """A journal whose files hold so many lines of `step`."""
    probe = Journal(file.with_name("probe"), LARGE, 1)
    probe.record(step())
    probe.close()
    return Journal(file, lines * probe.file.stat().st_size, keep)


def owners(found: Iterator[Transition]) -> list[str]:
    return [one.owner for one in found]


@pytest.mark.parametrize("one", EACH, ids=lambda one: one.what.value)
def test_every_kind_of_step_is_one_line_and_is_read_back_as_it_was(journal: Journal, file: Path, one: Transition) -> None:
    hub = Hub([journal.record])
    hub.tell(one)
    (line,) = file.read_bytes().splitlines()
    record = json.loads(line)
    assert record["what"] == one.what.value
    assert record["item"] == one.item
    assert record["text"] == one.text
    assert [*journal.read()] == [one]


def test_the_sparest_step_is_read_back_as_well(journal: Journal) -> None:
    journal.record(step(7))
    assert [*journal.read()] == [step(7)]


def test_a_journal_that_nobody_has_begun_is_empty(journal: Journal) -> None:
    assert [*journal.read()] == []


def test_only_what_is_asked_for_is_read(journal: Journal) -> None:
    for number in range(5):
        journal.record(step(number, route="one", destination="bank"))
        journal.record(step(number, route="two", drop="other"))
    item = "orders_0000000003"
    assert [one.route for one in journal.read(item=item)] == ["one", "two"]
    assert [one.item for one in journal.read(route="two", since="2026-11-30T10:00:03")] == [item, "orders_0000000004"]
    assert [one.item for one in journal.read(route="two", limit=2)] == [item, "orders_0000000004"]
    assert [*journal.read(since="2026-12-01")] == []
    assert [*journal.read(limit=0)] == []
    assert len([*read_journal(journal.file, Wanted(drop="bank"))]) == 5
    assert len([*read_journal(journal.file, Wanted(drop="other"))]) == 5


@pytest.mark.parametrize("limit", [1, 999, 2500, 3000, 9999])
def test_the_last_steps_are_read_over_files_and_whatever_their_length(file: Path, limit: int) -> None:
    with closing(Journal(file, 400_000, 8)) as journal:
        for number in range(3000):
            journal.record(step(number, text="x" * (number % 7) * 50))
        assert [one.sequence for one in journal.read(limit=limit)] == [f"{n:010}" for n in range(max(0, 3000 - limit), 3000)]
        assert numbered(file)


@pytest.mark.parametrize("limit", [0, 1, 5])
def test_following_may_begin_in_the_middle_of_a_line(
    journal: Journal, file: Path, follow: Callable[..., "Follower"], limit: int
) -> None:
    journal.record(step(1))
    line = file.read_bytes()
    with file.open("ab", buffering=0) as torn:
        torn.write(line[:-1])
        follower = follow(None, limit)
        assert follower.take(min(limit, 1)) == [step(1)] * min(limit, 1)
        assert follower.looked.acquire(timeout=PATIENCE)
        torn.write(b"\n")
    assert follower.take(1) == [step(1)], "once it is whole"


def test_an_item_is_not_another_whose_name_it_is_part_of(journal: Journal) -> None:
    journal.record(step(1, text='about "orders_0000000012"'))
    journal.record(step(12))
    assert [one.sequence for one in journal.read(item="orders_0000000012")] == ["0000000012"]


def test_lines_that_are_none_of_ours_are_passed_over(journal: Journal, file: Path) -> None:
    journal.record(step(1))
    with file.open("ab") as stranger:
        stranger.write(
            b'\n[]\n"text"\nnull\n\xff\xfe\n{"at":1,"what":"forwarded"}\n{"what":"of a later dropgate","at":"x"}\n{"at":"20'
        )
    journal.record(step(2))
    assert [*journal.read()] == [step(1), step(2)]
    assert file.read_bytes().count(b'{"at":"20\n') == 1, "a line that was cut spoils no other one"


def test_the_oldest_lines_go_when_the_files_are_full(file: Path) -> None:
    journal = small(file, lines=10, keep=2)
    for number in range(55):
        journal.record(step(number))
    assert [path.name for _, path in numbered(file)] == ["journal.jsonl.1", "journal.jsonl.2"]
    assert [one.sequence for one in journal.read()] == [f"{number:010}" for number in range(30, 55)]
    assert [one.sequence for one in journal.read(limit=12)] == [f"{number:010}" for number in range(43, 55)]
    assert all(path.stat().st_size <= journal.max_bytes for _, path in numbered(file))


def test_fewer_files_are_kept_from_the_next_rotation_on(file: Path) -> None:
    journal = small(file, lines=1, keep=5)
    for number in range(9):
        journal.record(step(number))
    with closing(Journal(file, journal.max_bytes, 2)) as later:
        later.record(step(9))
        assert [one.sequence[-1] for one in later.read()] == ["7", "8", "9"]


def test_files_of_other_names_are_left_alone(file: Path) -> None:
    journal = small(file, lines=1, keep=1)
    others = [file.with_name(name) for name in ("journal.jsonl.bak", "journal.jsonl.1.gz", "journal.jsonl.01")]
    for other in others:
        other.write_text("x")
    for number in range(5):
        journal.record(step(number))
    assert [other.read_text() for other in others] == ["x", "x", "x"]


def test_a_line_larger_than_a_file_is_written_all_the_same(file: Path) -> None:
    with closing(Journal(file, 10, 3)) as journal:
        journal.record(step(1))
        journal.record(step(2))
        assert [*journal.read()] == [step(1), step(2)]


@pytest.mark.timeout(120)
def test_four_processes_that_append_and_rotate_lose_no_line(file: Path) -> None:
    count, names = 1500, ["a", "b", "c", "d"]
    command = [sys.executable, "-m", "tests.service.journal_writer", str(file), "20000", "1000"]
    writers = [
        subprocess.Popen([*command, name, str(count)], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for name in names
    ]
    try:
        for writer in writers:
            assert writer.stdout is not None
            assert writer.stdout.readline() == "ready\n"
        for writer in writers:
            assert writer.stdin is not None
            writer.stdin.write("go\n")
            writer.stdin.flush()
        assert [writer.wait(PATIENCE) for writer in writers] == [0, 0, 0, 0]
    finally:
        for writer in writers:
            writer.kill()
            writer.communicate()
    found = [*read_journal(file)]
    for name in names:
        mine = [one.sequence for one in found if one.owner == name]
        assert mine == [f"{number:010}" for number in range(count)], "each once, in order"
    assert len(numbered(file)) > 20
    assert all(path.stat().st_size <= 20000 for _, path in numbered(file))


def test_threads_of_one_process_lose_no_line(file: Path) -> None:
    journal = small(file, lines=20, keep=1000)

    def write(name: str) -> None:
        for number in range(300):
            journal.record(step(number, owner=name))

    threads = [threading.Thread(target=write, args=(name,)) for name in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert sorted(owners(journal.read())) == ["a"] * 300 + ["b"] * 300


def test_a_file_that_was_moved_away_or_deleted_is_made_anew(journal: Journal, file: Path) -> None:
    journal.record(step(1))
    file.rename(file.with_name("moved"))
    journal.record(step(2))
    assert [*journal.read()] == [step(2)]
    file.unlink()
    journal.record(step(3))
    assert [*journal.read()] == [step(3)]


def test_a_process_that_is_frozen_with_the_lock_stops_nobody(journal: Journal, file: Path) -> None:
    journal.record(step(1))
    with file.open("rb") as frozen:
        fcntl.flock(frozen, fcntl.LOCK_EX)
        journal.record(step(2))
    assert [*journal.read()] == [step(1), step(2)]


def test_a_full_disk_is_told_once_and_recording_goes_on_when_there_is_room(file: Path) -> None:
    board = Board(utc=lambda: "")
    journal = Journal(file, LARGE, 8, board=board)
    journal.record(step(1))
    hub, heard = Hub([journal.record]), list[Transition]()
    hub.listeners.append(heard.append)
    with capture_logs() as logs:
        with full_disk(file.stat().st_size + 40):
            for number in range(2, 5):
                hub.tell(step(number))
            (trouble,) = board.picture().troubles
        assert trouble[0] == "journal"
        assert str(file) in trouble[1]
        hub.tell(step(5))
    assert [one.sequence[-1] for one in heard] == ["2", "3", "4", "5"], "nobody else is held up"
    assert journal.errors == 3
    assert [*journal.read()] == [step(1), step(5)], "no part of a line is left"
    assert file.read_bytes().count(b"\n") == 2
    assert board.picture().troubles == ()
    assert [(entry["log_level"], entry["event"]) for entry in logs] == [
        ("error", "the journal cannot be written"),
        ("warning", "the journal is written again"),
    ]
    assert logs[1]["lines_missing"] == 3


def test_a_place_where_no_file_can_be_is_told_and_stops_nobody(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    board = Board(utc=lambda: "")
    journal = Journal(tmp_path / "file" / "journal.jsonl", LARGE, 8, board=board)
    journal.record(step(1))
    assert journal.errors == 1
    assert "Not a directory" in dict(board.picture().troubles)["journal"]


class Follower:
    """Follows a journal in a thread of its own."""

    def __init__(self, file: Path, wanted: Wanted | None = None, limit: int | None = None) -> None:
        self.found: Queue[Transition] = Queue()
        self._stop = threading.Event()
        self.looked = threading.Semaphore(0)
        self._thread = threading.Thread(target=self._run, args=(file, wanted, limit))
        self._thread.start()

    def _run(self, file: Path, wanted: Wanted | None, limit: int | None) -> None:
        for one in tail_journal(file, wanted, limit, wait=self._wait):
            self.found.put(one)

    def _wait(self) -> bool:
        self.looked.release()
        return not self._stop.wait(0.005)

    def take(self, count: int) -> list[Transition]:
        return [self.found.get(timeout=PATIENCE) for _ in range(count)]

    def close(self) -> None:
        self._stop.set()
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive()


@pytest.fixture
def follow(file: Path) -> Iterator[Callable[..., Follower]]:
    followers: list[Follower] = []

    def begin(wanted: Wanted | None = None, limit: int | None = None) -> Follower:
        followers.append(Follower(file, wanted, limit))
        return followers[-1]

    yield begin
    for follower in followers:
        follower.close()


def test_following_tells_what_was_and_what_comes_over_rotations(file: Path, follow: Callable[..., Follower]) -> None:
    journal = small(file, lines=3, keep=100)
    for number in range(5):
        journal.record(step(number))
    follower = follow()
    assert follower.take(5) == [step(number) for number in range(5)]
    for number in range(5, 60):  # some of it rotated more than once between two looks
        journal.record(step(number))
    assert follower.take(55) == [step(number) for number in range(5, 60)]


def test_following_may_begin_before_the_journal(file: Path, follow: Callable[..., Follower]) -> None:
    follower = follow()
    assert follower.looked.acquire(timeout=PATIENCE)
    with closing(Journal(file, LARGE, 8)) as journal:
        journal.record(step(1))
        assert follower.take(1) == [step(1)]


def test_following_tells_only_what_is_asked_for(journal: Journal, follow: Callable[..., Follower]) -> None:
    for number in range(9):
        journal.record(step(number % 3))
    follower = follow(Wanted(item="orders_0000000002"), 2)
    assert follower.take(2) == [step(2), step(2)]
    journal.record(step(1))
    journal.record(step(2, What.FAILED))
    assert follower.take(1) == [step(2, What.FAILED)]


@pytest.mark.parametrize("limit", [None, 5])
def test_following_waits_for_the_end_of_a_line(
    journal: Journal, file: Path, follow: Callable[..., Follower], limit: int | None
) -> None:
    journal.record(step(1))
    follower = follow(None, limit)
    assert follower.take(1) == [step(1)]
    line = file.read_bytes()
    with file.open("ab", buffering=0) as torn:
        torn.write(line[:20])
        for _ in range(5):
            assert follower.looked.acquire(timeout=PATIENCE)
        torn.write(line[20:])
    assert follower.take(1) == [step(1)]


def test_one_item_among_a_hundred_thousand_lines_is_found(file: Path) -> None:
    with closing(Journal(file, LARGE, 8)) as journal:
        journal.record(step(1))
        line = file.read_bytes()
        with file.open("ab") as bulk:
            bulk.writelines(line.replace(b"0000000001", b"%010d" % number) for number in range(2, 100_001))
        parsed: list[bytes] = []

        def counted(text: bytes, real: Callable[[bytes], object] = json.loads) -> object:
            parsed.append(text)
            return real(text)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("gateway.service.journal.json.loads", counted)
            found = [*journal.read(item="orders_0000077777")]
    assert [one.sequence for one in found] == ["0000077777"]
    assert len(parsed) == 1, "nothing else is parsed"


def test_the_journal_is_nobody_elses_to_read(journal: Journal, file: Path) -> None:
    journal.record(step(1))
    assert os.stat(file).st_mode & 0o007 == 0


def test_the_default_is_where_programs_keep_their_state(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert default_journal() == tmp_path / "dropgate" / "journal.jsonl"
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert default_journal() == tmp_path / ".local" / "state" / "dropgate" / "journal.jsonl"
