"""The text file of a journal: cut anywhere, damaged, full, followed by the next one; and what is told of it then."""

import errno
import os
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from gateway.errors import ConfigurationError
from gateway.handoff.clock import Clock
from gateway.handoff.ledger.errors import LedgerUnavailable
from gateway.handoff.ledger.journal import JournalLedger
from gateway.handoff.ledger.journal_files import JournalFolder
from gateway.handoff.ledger.journal_lines import Head, Record, Seal, decoded, encoded
from protocol.ledger import Entry, LedgerState
from tests.gateway.ledger.full_disk import full_disk
from tests.gateway.ledger.places import TEAM, entry

STARTED = entry()
DONE = replace(STARTED, state=LedgerState.DONE, result="gespeichert für Zoë")
ARCHIVED = replace(DONE, state=LedgerState.ARCHIVED)


def open_journal(folder: Path, *, compact_at: int = 1 << 20, keep: int = 1 << 20) -> JournalLedger:
    """The journal in a folder."""
    return JournalLedger(folder, TEAM, Clock(), compact_at=compact_at, keep=keep)


def live_file(folder: Path) -> Path:
    """The file that is written to."""
    return max((folder / TEAM).glob("*.journal"))


def change(ledger: JournalLedger, key: str, times: int, first: int = 1) -> Entry:
    """Gives a key so many generations; the last entry."""
    before = ledger.read(key)
    for generation in range(first, first + times):
        after = entry(generation=generation)
        assert ledger.compare_and_set(key, before, after)
        before = after
    assert before is not None
    return before


@pytest.fixture
def written(tmp_path: Path) -> Path:
    """The folder of a journal in which the key went through three entries."""
    with closing(open_journal(tmp_path)) as ledger:
        for before, after in ((None, STARTED), (STARTED, DONE), (DONE, ARCHIVED)):
            assert ledger.compare_and_set("k", before, after)
    return tmp_path


def test_each_line_is_one_event_that_a_person_can_read(written: Path) -> None:
    lines = [line for line in live_file(written).read_text(encoding="ascii").splitlines() if line]
    assert len(lines) == 4
    assert all(f'"state":"{state}"' in line for state, line in zip(("started", "done", "archived"), lines[1:], strict=True))
    assert max(map(len, lines)) < 300, "short"


def test_a_last_line_that_is_cut_at_any_byte_counts_whole_or_not_at_all(written: Path) -> None:
    whole = live_file(written).read_bytes()
    begin = whole.rindex(b"\n", 0, -1)  # the newline before the last line is a part of it
    for cut in range(begin, len(whole) + 1):
        live_file(written).write_bytes(whole[:cut])
        with closing(open_journal(written)) as ledger, closing(open_journal(written)) as other:
            present = ledger.read("k")
            assert present == (ARCHIVED if cut == len(whole) else DONE)
            assert other.read("k") == present
            # Whoever writes next ends the fragment. Where only its newline was missing, that makes it a line, for all alike.
            assert ledger.compare_and_set("other", None, STARTED)
            present = ledger.read("k")
            assert present == (ARCHIVED if cut >= len(whole) - 1 else DONE)
            assert ledger.read("other") == STARTED
            assert [other.read("k"), other.read("other")] == [present, STARTED]
            assert ledger.compare_and_set("k", present, entry(generation=2))
            assert other.read("k") == entry(generation=2)
        with closing(open_journal(written)) as late:
            assert late.read("k") == entry(generation=2)
            assert len(list(late.history(key="k"))) == (4 if cut >= len(whole) - 1 else 3)


def test_a_tail_of_zeros_as_a_power_cut_leaves_it_is_no_line(written: Path) -> None:
    with live_file(written).open("ab") as file:
        file.write(bytes(5000))
    with closing(open_journal(written)) as ledger:
        assert ledger.read("k") == ARCHIVED
        assert ledger.compare_and_set("k", ARCHIVED, entry(generation=2))
    with closing(open_journal(written)) as ledger:
        assert ledger.read("k") == entry(generation=2)


def test_a_line_that_others_were_built_on_is_missed(written: Path) -> None:
    data = bytearray(live_file(written).read_bytes())
    data[data.index(b'"done"') + 1] ^= 1
    live_file(written).write_bytes(data)
    for _ in range(2):
        with pytest.raises(
            LedgerUnavailable, match=r"damaged: 0000000001.journal: a line of the key 'k' is missing before byte"
        ):
            open_journal(written)


def test_damage_is_told_again_and_again_and_never_read_over(written: Path) -> None:
    with closing(open_journal(written)) as ledger:
        with live_file(written).open("ab") as file:
            file.write(encoded(Record(9, "1.x.1", "k", STARTED)) + encoded(Record(1, "1.x.2", "other", STARTED)))
        for _ in range(2):
            with pytest.raises(LedgerUnavailable, match="is damaged"):
                ledger.read("other")
        with pytest.raises(LedgerUnavailable, match="is damaged"):
            ledger.compare_and_set("third", None, STARTED)
        with pytest.raises(LedgerUnavailable, match="is damaged"):
            list(ledger.history())


@pytest.mark.parametrize("harm", ["unlink", "truncate", "replace"])
def test_a_file_that_is_taken_away_under_a_running_worker_is_noticed(written: Path, harm: str) -> None:
    with closing(open_journal(written)) as ledger:
        live = live_file(written)
        match harm:
            case "unlink":
                live.unlink()
            case "truncate":
                live.write_bytes(b"")
            case "replace":
                copy = live.with_suffix(".copy")
                copy.write_bytes(live.read_bytes())
                copy.rename(live)
        with pytest.raises(LedgerUnavailable, match=r"removed|cut short or replaced"):
            ledger.compare_and_set("k", ARCHIVED, entry(generation=2))


def test_a_folder_whose_files_were_all_taken_away_is_not_begun_anew_by_a_running_worker(written: Path) -> None:
    with closing(open_journal(written)) as ledger:
        with live_file(written).open("ab") as file:
            file.write(encoded(Seal("1.x.1")))
        for path in (written / TEAM).iterdir():
            path.unlink()
        with pytest.raises(LedgerUnavailable, match="it and what followed it were removed"):
            ledger.read("k")


def test_a_file_system_without_hard_links_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(src: Path, dst: Path) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM), src, None, dst)

    monkeypatch.setattr(os, "link", refuse)  # what vfat says
    with pytest.raises(ConfigurationError, match="without hard links"):
        open_journal(tmp_path)
    assert list((tmp_path / TEAM).iterdir()) == []


def test_another_groups_file_is_not_taken_for_ones_own(written: Path) -> None:
    (written / TEAM).rename(written / "others")
    with pytest.raises(LedgerUnavailable, match="its beginning is not that of this consumer group's file"):
        JournalLedger(written, "others", Clock())


def test_a_later_format_is_left_to_a_later_dropgate(tmp_path: Path) -> None:
    (tmp_path / TEAM).mkdir()
    (tmp_path / TEAM / "0000000001.journal").write_bytes(encoded(Head(2, 1, TEAM)))
    with pytest.raises(ConfigurationError, match="format 2, and this dropgate knows 1"):
        open_journal(tmp_path)


@pytest.mark.parametrize("left", [0, 1, 20, 120])
def test_a_full_disk_is_told_of_and_leaves_a_journal_that_goes_on(written: Path, left: int) -> None:
    with closing(open_journal(written)) as ledger:
        with full_disk(live_file(written).stat().st_size + left), pytest.raises(LedgerUnavailable, match="has space"):
            ledger.compare_and_set("k", ARCHIVED, entry(generation=2))
        assert ledger.read("k") == ARCHIVED
        assert ledger.compare_and_set("k", ARCHIVED, entry(generation=2))
    with closing(open_journal(written)) as ledger:
        assert ledger.read("k") == entry(generation=2)


def test_a_disk_that_is_too_full_to_compact_does_not_fail_the_change(tmp_path: Path) -> None:
    with closing(open_journal(tmp_path)) as ledger:
        change(ledger, "k", 1)
        size = live_file(tmp_path).stat().st_size
        change(ledger, "k", 1, first=2)
        line = live_file(tmp_path).stat().st_size - size
    with closing(open_journal(tmp_path, compact_at=1)) as eager:
        with full_disk(size + 2 * line + 20):  # there is room for a change, and not for a seal
            assert eager.compare_and_set("k", entry(generation=2), entry(generation=3))
        assert live_file(tmp_path).name == "0000000001.journal"
        assert eager.compare_and_set("k", entry(generation=3), entry(generation=4))
        assert live_file(tmp_path).name == "0000000002.journal", "with space again it is made up for"
    with closing(open_journal(tmp_path)) as ledger:
        assert ledger.read("k") == entry(generation=4)
        assert [event.entry.generation for event in ledger.history()] == [1, 2, 3, 4]


def test_a_journal_stays_short_however_often_a_key_changes(tmp_path: Path) -> None:
    with closing(open_journal(tmp_path, compact_at=4000, keep=0)) as ledger:
        last = change(ledger, "k", 300)
    files = sorted((tmp_path / TEAM).iterdir())
    assert len(files) == 2, "the live one, and the one before it"
    assert sum(file.stat().st_size for file in files) < 12_000
    with closing(open_journal(tmp_path)) as ledger:
        assert ledger.read("k") == last


def test_as_much_of_the_history_is_kept_as_was_asked_for(tmp_path: Path) -> None:
    with closing(open_journal(tmp_path, compact_at=4000, keep=20_000)) as ledger:
        change(ledger, "quiet", 2)
        change(ledger, "k", 300)
        generations = [event.entry.generation for event in ledger.history(key="k")]
        assert generations == list(range(301 - len(generations), 301)), "the newest, without a gap"
        assert 60 < len(generations) < 200
        assert [event.entry.generation for event in ledger.history(key="quiet")] == [2], "what is older is summed up"
    assert sum(file.stat().st_size for file in (tmp_path / TEAM).iterdir()) < 30_000


def test_one_that_was_away_while_many_files_came_and_went_catches_up(tmp_path: Path) -> None:
    with closing(open_journal(tmp_path)) as away, closing(open_journal(tmp_path, compact_at=2000, keep=0)) as ledger:
        assert away.read("k") is None
        last = change(ledger, "k", 100)
        assert away.read("k") == last
        assert away.compare_and_set("k", last, entry(generation=101))
        assert ledger.read("k") == entry(generation=101)


def test_a_file_whose_sealer_died_is_followed_all_the_same(written: Path) -> None:
    with closing(open_journal(written)) as ledger:
        with live_file(written).open("ab") as file:
            # What is behind a seal does not count, whoever has written it.
            file.write(encoded(Seal("1.x.1")) + encoded(Record(4, "1.x.2", "k", entry(generation=9))))
        assert ledger.read("k") == ARCHIVED
        assert ledger.compare_and_set("k", ARCHIVED, entry(generation=2))
    assert live_file(written).name == "0000000002.journal"
    with closing(open_journal(written)) as ledger:
        assert ledger.read("k") == entry(generation=2)
        assert [event.entry.generation for event in ledger.history()] == [1, 1, 1, 2]


@pytest.mark.parametrize("number", [1, 2])
def test_a_file_that_a_process_prepares_too_late_is_not_wanted(tmp_path: Path, number: int) -> None:
    with closing(open_journal(tmp_path, compact_at=2000, keep=0)) as ledger:
        change(ledger, "k", 60)
        folder = JournalFolder(tmp_path / TEAM)
        assert number < min(folder.numbers())
        late = folder.prepare(number, "late")
        late.link()
        late.close()
        assert number not in folder.numbers()


@pytest.mark.parametrize("number", [1, 2])
def test_a_process_that_freezes_right_before_its_link_cannot_link_late(
    tmp_path: Path, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / TEAM).mkdir()
    folder = JournalFolder(tmp_path / TEAM)
    frozen = folder.prepare(number, "frozen")
    with closing(open_journal(tmp_path, compact_at=2000, keep=0)) as ledger:
        change(ledger, "k", 60)
        assert number < min(folder.numbers())
        monkeypatch.setattr(frozen, "_is_wanted", lambda: True)  # it had looked in time
        frozen.link()
        frozen.close()
        assert number not in folder.numbers()
        assert len(list((tmp_path / TEAM).iterdir())) == 2, "and nothing that was prepared is left"


def test_what_an_interrupt_cuts_short_is_read_anew(written: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(open_journal(written)) as ledger, closing(open_journal(written)) as other:
        assert other.compare_and_set("k", ARCHIVED, entry(generation=2))
        with monkeypatch.context() as patch:
            patch.setattr(ledger._replay, "take", interrupted)
            with pytest.raises(KeyboardInterrupt):
                ledger.read("k")
        assert ledger.read("k") == entry(generation=2)
        assert ledger.compare_and_set("k", entry(generation=2), entry(generation=3))


def interrupted(data: bytes, offset: int) -> None:
    """Ctrl-C, after a line was read and before it was taken."""
    del data, offset
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    "line", [Head(1, 7, "é"), Record(3, "1.a.2", "k\n\0\ud800", DONE), Record(3, "", "", STARTED), Seal("1.a.2")]
)
def test_a_line_comes_back_as_it_was_written_and_no_part_of_it_does(line: Head | Record | Seal) -> None:
    written = encoded(line)
    assert written.startswith(b"\n")
    assert written.endswith(b"\n")
    text = written[1:-1]
    assert b"\n" not in text
    assert decoded(text) == line
    assert all(decoded(text[:cut]) is None for cut in range(len(text)))
    assert all(decoded(text[cut:]) is None for cut in range(1, len(text)))
    assert all(decoded(text[:at] + bytes([text[at] ^ 1]) + text[at + 1 :]) is None for at in range(len(text)))
