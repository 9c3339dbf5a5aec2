"""What each command does for a user at a shell: results on standard output, everything else on standard error."""

import hashlib
import json
import subprocess
from pathlib import Path

import pytest

from tests.cli.tools import Place, names
from tests.e2e.commands import DROPGATE

ROUTE = """
[drop.here]
url = "here"
groups = ["orders_"]
[drop.there]
url = "there"
layout = "folders"
[[route]]
from = "here"
to = "there"
"""


def test_send_status_receive(place: Place) -> None:
    drop = place.drop()
    place.write("a.csv", "a;b\n")
    place.write("b.csv", "")
    sent = place.done("send", "./drop", "a.csv", "b.csv", "--group", "orders_")
    assert sent.out == "orders_0000000001  4 bytes  a.csv\norders_0000000002  0 bytes  b.csv\n"
    assert place.done("status", "./drop").out == (
        f"file://{drop}\n"
        "  ready          2 items           4 B\n"
        "    orders_0000000001           4 B\n"
        "    orders_0000000002           0 B\n"
        "  counter orders_: next is 0000000003\n"
    )
    (place.folder / "inbox").mkdir()
    received = place.done("receive", "./drop", "--group", "orders_", "--to", "inbox", "--once", "--ordering", "fifo")
    assert received.out == (
        "orders_0000000001  4 bytes  orders_0000000001.csv\norders_0000000002  0 bytes  orders_0000000002.csv\n"
    )
    assert (place.folder / "inbox" / "orders_0000000001.csv").read_bytes() == b"a;b\n"
    assert all(name.startswith("A_") for name in names(drop))
    assert not list(drop.glob("L_*")), "the lease is given up"
    assert place.done("receive", "./drop", "--group", "orders_", "--to", "inbox", "--once").out == ""


def test_json_is_one_object_a_line(place: Place) -> None:
    drop = place.drop()
    place.write("März 1.csv", "x")
    (sent,) = place.done("send", "./drop", "März 1.csv", "--group", "orders_", "--key", "k", "--json").objects
    assert sent == {
        "item": "orders_0000000001",
        "group": "orders_",
        "sequence": "0000000001",
        "key": "k",
        "files": ["März 1.csv"],
        "names": ["orders_0000000001.csv", "orders_0000000001.manifest.json"],
        "bytes": 1,
        "hashes": [f"sha256:{hashlib.sha256(b'x').hexdigest()}"],
    }
    (drop / "stranger").touch()
    item, foreign = place.done("status", "./drop", "--json").objects
    assert (item["item"], item["state"], item["bytes"]) == ("orders_0000000001", "ready", 1)
    assert foreign == {"foreign": "stranger"}
    (place.folder / "inbox").mkdir()
    words = ("receive", "./drop", "--group", "orders_", "--to", "inbox", "--original-names", "--once", "--json")
    (received,) = place.done(*words).objects
    assert received == {
        "item": "orders_0000000001",
        "group": "orders_",
        "sequence": "0000000001",
        "result": "processed",
        "attempt": 1,
        "bytes": 1,
        "outcome": "März 1.csv",
    }


def test_run_carries_everything_once(place: Place) -> None:
    here, there = place.drop("here"), place.drop("there")
    place.write("route.toml", ROUTE)
    place.write("a.csv", "a")
    place.done("send", "here", "a.csv", "a.csv", "--group", "orders_", "--config", "route.toml")
    ran = place.run("run", "route.toml", "--once")
    assert (ran.code, ran.out) == (0, "")
    events = [json.loads(line) for line in ran.err.splitlines()]
    assert [event["event"] for event in events] == ["started", "forwarded", "forwarded", "stopped"]
    assert {event.get("sequence") for event in events[1:3]} == {"0000000001", "0000000002"}
    assert len([name for name in names(here) if name.startswith("A_")]) == 4
    assert names(there) == sorted(
        f"incoming/orders_000000000{n}.{suffix}" for n in (1, 2) for suffix in ("csv", "manifest.json")
    )


def test_run_once_tells_by_its_exit_code_that_an_item_failed(place: Place) -> None:
    here, there = place.drop("here"), place.drop("there")
    place.write("route.toml", ROUTE)
    for name in ("orders_0000000001.csv", "orders_0000000001.manifest.json"):
        (here / name).write_text("{}")
    ran = place.call("run", "route.toml", "--once")
    assert ran.code == 1
    assert '"event": "failed"' in ran.err
    assert names(there) == []
    assert sorted(name[:2] for name in names(here)) == ["E_", "E_", "E_"]


class TestSend:
    def test_one_bad_file_of_many_is_told_and_the_rest_is_sent(self, place: Place) -> None:
        drop = place.drop()
        place.write("a.csv")
        place.write("no-suffix")
        (place.folder / "folder.csv").mkdir()
        sent = place.call("send", "./drop", "nope.csv", "no-suffix", "folder.csv", "a.csv", "--group", "orders_")
        assert sent.code == 1
        assert sent.out == "orders_0000000001  8 bytes  a.csv\n"
        assert sent.err == (
            "dropgate: nope.csv: No such file or directory\n"
            "dropgate: no-suffix: 'no-suffix' has no suffix that a drop can use; give one with --suffix, such as --suffix csv\n"
            "dropgate: folder.csv: folder.csv is a folder; send the files in it\n"
        )
        assert names(drop) == ["orders_0000000001.csv", "orders_0000000001.manifest.json"]

    def test_many_as_one_item(self, place: Place) -> None:
        drop = place.drop()
        for name in ("a.csv", "b.csv", "c.pdf"):
            place.write(name, name)
        sent = place.called("send", "./drop", "a.csv", "b.csv", "c.pdf", "--group", "orders_", "--bundle")
        assert sent.out == "orders_0000000001  15 bytes  a.csv, b.csv, c.pdf\n"
        suffixes = ("1.csv", "2.csv", "manifest.json", "pdf")
        assert names(drop) == [f"orders_0000000001.{suffix}" for suffix in suffixes]

    def test_numbers_facts_and_suffixes(self, place: Place) -> None:
        drop = place.drop()
        place.write("a.csv")
        words = ("--group", "orders_", "--sequence", "7", "--suffix", "txt", "--meta", "a=b", "--meta", "c=d=e")
        assert place.called("send", "./drop", "a.csv", "a.csv", *words).out.startswith("orders_0000000007  ")
        assert json.loads((drop / "orders_0000000008.manifest.json").read_bytes())["meta"] == {"a": "b", "c": "d=e"}
        again = place.call("send", "./drop", "a.csv", "--group", "orders_", "--sequence", "7")
        assert again.code == 1
        assert "number 0000000007 of group 'orders_' is in use" in again.err
        assert "leave --sequence out to get the next free number" in again.err

    def test_a_name_with_a_line_break_stays_in_one_line(self, place: Place) -> None:
        place.drop()
        place.write("a\nb\x1b[31m.csv")
        sent = place.done("send", "./drop", "a\nb\x1b[31m.csv", "--group", "orders_")
        assert sent.out == "orders_0000000001  8 bytes  a\\nb\\x1b[31m.csv\n"

    def test_a_terminal_of_another_encoding_is_no_hindrance(self, place: Place) -> None:
        drop = place.drop()
        place.write("€.csv")
        sent = place.done("send", "./drop", "€.csv", "--group", "orders_", PYTHONIOENCODING="latin-1")
        assert sent.out == "orders_0000000001  8 bytes  \\u20ac.csv\n"
        assert len(names(drop)) == 2

    def test_groups_that_differ_by_case_are_refused(self, place: Place) -> None:
        drop = place.drop()
        place.write("a.csv")
        place.called("send", "./drop", "a.csv", "--group", "orders_")
        sent = place.call("send", "./drop", "a.csv", "--group", "Orders_")
        assert sent.code == 3
        assert "differ only by case, and SMB takes them for one; rename one" in sent.err
        assert len(names(drop)) == 2


class TestReceive:
    def test_exec_runs_a_command_for_each_item(self, place: Place) -> None:
        drop = place.drop()
        place.write("a.csv", "content\n")
        place.done("send", "./drop", "a.csv", "--group", "orders_", "--meta", "colour=red")
        show = 'sh -c \'cat "$1"; echo "$DROPGATE_ITEM $DROPGATE_META_COLOUR $DROPGATE_SOURCE_NAME"\' show {}'
        received = place.run("receive", "./drop", "--group", "orders_", "--exec", show, "--once")
        assert (received.code, received.out) == (0, "orders_0000000001  8 bytes  sh: exit status 0\n")
        assert received.err == "content\norders_0000000001 red a.csv\n", "what a command prints is no result of ours"
        assert all(name.startswith("A_") for name in names(drop))

    def test_a_command_that_fails_gives_the_item_back_and_then_makes_an_error_image(self, place: Place) -> None:
        drop = place.drop()
        place.write("a.csv")
        place.done("send", "./drop", "a.csv", "--group", "orders_")
        words = ("receive", "./drop", "--group", "orders_", "--exec", "sh -c 'echo no customer >&2; exit 3'", "--once")
        first = place.run(*words, "--max-attempts", "2")
        assert (first.code, first.out) == (1, "")
        assert first.err == "orders_0000000001  returned (attempt 1): sh ended with exit status 3: no customer\n"
        assert not any(name.startswith(("E_", "C_")) for name in names(drop))
        second = place.run(*words, "--max-attempts", "2")
        assert second.code == 1
        assert second.err == "orders_0000000001  failed (attempt 2): sh ended with exit status 3: no customer\n"
        reason = json.loads((drop / "E_orders_0000000001.reason.json").read_bytes())
        assert (reason["error"], reason["attempts"]) == ("sh ended with exit status 3: no customer", 2)

    def test_workers_share_the_work(self, place: Place) -> None:
        drop = place.drop()
        files = [place.write(f"{number}.csv", str(number)) for number in range(20)]
        place.called("send", "./drop", *files, "--group", "orders_")
        (place.folder / "inbox").mkdir()
        words = ("receive", "./drop", "--group", "orders_", "--to", "inbox", "--once", "--workers", "4", "--json")
        received = place.call(*words)
        assert received.code == 0
        items = [told["item"] for told in received.objects if told["result"] == "processed"]
        assert sorted(items) == [f"orders_{number:010}" for number in range(1, 21)]
        assert len(names(place.folder / "inbox")) == 20
        assert all(name.startswith("A_") for name in names(drop))

    def test_a_damaged_item_is_an_error_image_and_exit_code_one(self, place: Place) -> None:
        drop = place.drop()
        place.write("a.csv")
        place.called("send", "./drop", "a.csv", "--group", "orders_")
        (drop / "orders_0000000001.csv").write_bytes(b"CONTENT\n")
        (place.folder / "inbox").mkdir()
        received = place.call("receive", "./drop", "--group", "orders_", "--to", "inbox", "--once")
        assert received.code == 1
        assert "the content was changed, or damaged on the way" in received.err
        assert names(place.folder / "inbox") == []
        assert all(name.startswith("E_") for name in names(drop))

    def test_an_item_without_its_payload_is_told_as_any_other(self, place: Place) -> None:
        drop = place.drop()
        (drop / "orders_0000000001.manifest.json").write_text("{}")
        (place.folder / "inbox").mkdir()
        received = place.call("receive", "./drop", "--group", "orders_", "--to", "inbox", "--once")
        assert received.code == 1
        assert received.err.startswith("orders_0000000001  failed (attempt 1): ")
        assert sorted(names(drop)) == ["E_orders_0000000001.manifest.json", "E_orders_0000000001.reason.json"]


class TestStatus:
    def test_every_state_is_shown_with_its_owner_and_its_problems(self, place: Place) -> None:
        drop = place.drop()
        for name in (
            "B_orders_0000000001.csv",
            "orders_0000000002.csv",
            "orders_0000000002.manifest.json",
            "orders_0000000003.csv",
            "C_host-1-x_orders_0000000003.manifest.json",
            "D_orders_0000000004.manifest.json",
            "A_orders_0000000005.csv",
            "A_orders_0000000005.manifest.json",
            "E_orders_0000000006.csv",
            "E_orders_0000000006.manifest.json",
            "orders_0000000007.csv",
            "T_host-1-x.probe",
            "odd\nname\x1b[2J",
            "S_orders_0000000009.next",
        ):
            (drop / name).write_bytes(b"12345")
        shown = place.called("status", "./drop").out
        assert shown == (
            f"file://{drop}\n"
            "  before         1 item            5 B\n"
            "    orders_0000000001           5 B\n"
            "  ready          1 item            5 B\n"
            "    orders_0000000002           5 B\n"
            "  claimed        1 item            5 B\n"
            "    orders_0000000003           5 B  by host-1-x\n"
            "  done           1 item            0 B\n"
            "    orders_0000000004           0 B\n"
            "  after          1 item            5 B\n"
            "    orders_0000000005           5 B\n"
            "  error          1 item            5 B\n"
            "    orders_0000000006           5 B\n"
            "  no token       1 item            5 B\n"
            "    orders_0000000007           5 B\n"
            "  counter orders_: next is 0000000009\n"
            "  foreign        1 name: odd\\nname\\x1b[2J\n"
            "  scratch        1 name: T_host-1-x.probe\n"
            "  ! orders_0000000007: payload without its token: unsignalled, or being renamed just now\n"
        )

    def test_of_many_the_first_waiting_and_the_last_finished_are_shown(self, place: Place) -> None:
        drop = place.drop()
        for number in range(1, 6):
            (drop / f"orders_{number:010}.manifest.json").touch()
            (drop / f"A_bills_{number:010}.manifest.json").touch()
        shown = place.called("status", "./drop", "--limit", "2").out
        assert [line.split()[0] for line in shown.splitlines() if line.startswith("    ")] == [
            *("orders_0000000001", "orders_0000000002", "and"),
            *("bills_0000000004", "bills_0000000005", "and"),
        ]

    def test_an_empty_drop(self, place: Place) -> None:
        place.drop()
        assert place.called("status", "./drop").out.endswith("\n  no items\n")


class TestPipes:
    @pytest.mark.parametrize("command", ["send", "status"])
    def test_a_reader_that_has_enough_is_no_error(self, place: Place, command: str) -> None:
        drop = place.drop()
        if command == "status":
            for number in range(3000):
                (drop / f"orders_{number:010}.manifest.json").touch()
            words = "status ./drop --limit 0"
        else:
            for number in range(30):
                place.write(f"{number}.csv")
            words = "send ./drop *.csv --group orders_"
        done = subprocess.run(
            ["bash", "-c", f"{DROPGATE} {words} | head -1; echo ${{PIPESTATUS[0]}}"],
            cwd=place.folder,
            env=place.environment(),
            capture_output=True,
            text=True,
            timeout=90,
            check=False,
        )
        first, code = done.stdout.splitlines()
        assert first.startswith("orders_" if command == "send" else "file://")
        assert done.stderr == ""
        assert code in ("0", "1")
        assert not [name for name in names(drop) if name.startswith("B_")]


def test_the_version_is_that_of_the_package(place: Place, request: pytest.FixtureRequest) -> None:
    project = (Path(request.config.rootpath) / "pyproject.toml").read_text()
    shown = place.done("--version").out
    assert shown == f"dropgate {project.partition('version = ')[2].partition(chr(10))[0].strip(chr(34))}\n"
