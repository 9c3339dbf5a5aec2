"""`--exec`: a command without a shell, on a verified copy, with the item's facts in its environment."""

import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from gateway.errors import ConfigurationError, DeliveryFailed
from gateway.handoff.execute import ToCommand, split_command
from protocol.rules import Rules, Signal
from tests.gateway.tools import Taken, consume, drop_at, hand_over, manifest, names, put, reason

STEM = "orders_0000000001"
SHOW = """
import json, os, sys
json.dump({"arguments": sys.argv[2:], "environment": dict(os.environ), "content": open(sys.argv[2], "rb").read().decode(),
           "cwd": os.getcwd(), "input": sys.stdin.read()}, open(sys.argv[1], "w"))
"""


def shown(folder: Path, *words: str, rules: Rules | None = None) -> dict[str, Any]:
    """What a command that shows everything got to see."""
    out = folder.parent / "shown.json"
    taken = Taken()
    consume(drop_at(folder, rules), taken, ToCommand((sys.executable, "-c", SHOW, str(out), *words)))
    assert taken.results == ["processed"]
    value: dict[str, Any] = json.loads(out.read_text())
    return value


def facts(seen: dict[str, Any]) -> dict[str, str]:
    return {name: value for name, value in seen["environment"].items() if name.startswith("DROPGATE_")}


class TestWords:
    @pytest.mark.parametrize(
        ("text", "words"),
        [
            ("import {}", ("import", "{}")),
            ("'my tool' --in={} \"a b\"", ("my tool", "--in={}", "a b")),
            ("echo $HOME *.csv `id` ; rm -rf /", ("echo", "$HOME", "*.csv", "`id`", ";", "rm", "-rf", "/")),
        ],
    )
    def test_a_line_is_split_and_nothing_in_it_is_expanded(self, text: str, words: tuple[str, ...]) -> None:
        assert split_command(text) == words

    @pytest.mark.parametrize(
        ("text", "message"), [("", "is empty"), ("  ", "is empty"), ("a 'b", "cannot be split into words")]
    )
    def test_what_is_no_command(self, text: str, message: str) -> None:
        with pytest.raises(ConfigurationError, match=message):
            split_command(text)


class TestTheCommand:
    def test_it_gets_a_copy_by_the_drop_s_name_and_nothing_on_its_input(self, folder: Path) -> None:
        hand_over(folder, 1, b"content\n")
        seen = shown(folder, "{}")
        (path,) = seen["arguments"]
        assert Path(path).name == f"{STEM}.csv"
        assert Path(path).parent != folder
        assert (seen["content"], seen["input"]) == ("content\n", "")
        assert not Path(path).exists(), "the copy is gone afterwards"

    def test_the_facts_in_its_environment(self, folder: Path) -> None:
        record = manifest(f"{STEM}.csv", b"x")["files"][0] | {"source_name": "März.csv"}
        meta = {"batch": 7, "rate": 1.5, "customer": "a b", "nul": "a\0b", "list": [1], "not-a-name": "x", "flag": True}
        hand_over(folder, 1, b"x", files=[record], meta=meta, key="order 4711")
        seen = shown(folder, "{}")
        (path,) = seen["arguments"]
        assert facts(seen) == {
            "DROPGATE_ITEM": STEM,
            "DROPGATE_GROUP": "orders_",
            "DROPGATE_SEQUENCE": "0000000001",
            "DROPGATE_KEY": "order 4711",
            "DROPGATE_ATTEMPT": "1",
            "DROPGATE_FILE": path,
            "DROPGATE_FILES": path,
            "DROPGATE_SOURCE_NAME": "März.csv",
            "DROPGATE_META_BATCH": "7",
            "DROPGATE_META_RATE": "1.5",
            "DROPGATE_META_CUSTOMER": "a b",
            "DROPGATE_META_NUL": "ab",
            "DROPGATE_META_FLAG": "true",
            "DROPGATE_REDELIVERED": "",
            "DROPGATE_REPLAY": "",
        }
        assert seen["environment"]["PATH"] == os.environ["PATH"]

    def test_without_a_manifest_the_facts_are_those_of_its_name(self, folder: Path) -> None:
        put(folder, f"{STEM}.csv", b"x")
        seen = facts(shown(folder, "{}", rules=Rules(signal=Signal.NONE)))
        assert (seen["DROPGATE_ITEM"], seen["DROPGATE_SOURCE_NAME"]) == (STEM, "")
        assert seen["DROPGATE_KEY"].startswith(STEM)

    def test_the_place_of_the_file_in_the_words(self, folder: Path) -> None:
        hand_over(folder, 1)
        seen = shown(folder, "{}", "--in={}", "{}.bak", "{")
        first, second, third, fourth = seen["arguments"]
        assert (second, third, fourth) == (f"--in={first}", f"{first}.bak", "{")

    def test_all_files_of_an_item(self, folder: Path) -> None:
        files = [manifest(f"{STEM}.{suffix}", b"x")["files"][0] for suffix in ("pdf", "csv")]
        put(folder, f"{STEM}.pdf", b"x")
        hand_over(folder, 1, b"x", files=files)
        seen = shown(folder, "{}", "first={}")
        *paths, first = seen["arguments"]
        assert [Path(path).name for path in paths] == [f"{STEM}.pdf", f"{STEM}.csv"]
        assert first == f"first={paths[0]}"
        assert facts(seen)["DROPGATE_FILES"] == "\n".join(paths)

    def test_no_shell_reads_its_words(self, folder: Path) -> None:
        hand_over(folder, 1)
        taken = Taken()
        consume(drop_at(folder), taken, ToCommand(split_command(f"/bin/echo ; touch {folder}/pwned; $(touch {folder}/pwned)")))
        assert taken.results == ["processed"]
        assert not (folder / "pwned").exists()

    def test_a_damaged_item_never_reaches_it(self, folder: Path) -> None:
        hand_over(folder, 1, b"damaged", files=[manifest(f"{STEM}.csv", b"changed")["files"][0]])
        taken = Taken()
        consume(drop_at(folder), taken, ToCommand(("touch", str(folder / "ran"))))
        assert taken.results == ["failed"]
        assert not (folder / "ran").exists()

    def test_its_output_is_no_result_of_ours(self, folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
        hand_over(folder, 1, b"content\n")
        consume(drop_at(folder), Taken(), ToCommand(("cat", "{}")))
        assert capfd.readouterr() == ("", "content\n")


class TestItsEnd:
    def run(self, folder: Path, script: str, **more: Any) -> Taken:
        hand_over(folder, 1)
        taken = Taken()
        consume(drop_at(folder), taken, ToCommand(("sh", "-c", script)), **more)
        return taken

    def test_zero_means_processed(self, folder: Path) -> None:
        assert self.run(folder, "exit 0").results == ["processed"]

    @pytest.mark.parametrize(
        ("script", "message"),
        [
            ("exit 1", "sh ended with exit status 1"),
            ("echo first >&2; echo no such customer >&2; exit 75", "sh ended with exit status 75: first\nno such customer"),
            ("kill -9 $$", "sh ended with signal SIGKILL"),
            ("kill -TERM $$", "sh ended with signal SIGTERM"),
        ],
    )
    def test_anything_else_gives_the_item_back_and_says_why(self, folder: Path, script: str, message: str) -> None:
        taken = self.run(folder, script)
        assert taken.results == ["returned"]
        assert taken.events[0].error == message
        assert names(folder) == [f"{STEM}.csv", f"{STEM}.manifest.json"]

    def test_the_last_attempt_makes_an_error_image(self, folder: Path) -> None:
        taken = self.run(folder, "echo no such customer >&2; exit 1", max_attempts=1)
        assert taken.results == ["failed"]
        assert reason(folder, STEM)["error"] == "sh ended with exit status 1: no such customer"

    def test_of_many_complaints_the_last_are_kept(self, folder: Path) -> None:
        taken = self.run(folder, "seq 100000 >&2; exit 1", max_attempts=1)
        assert taken.events[0].error.endswith("\n99999\n100000")
        assert len(taken.events[0].error) < 2100

    @pytest.mark.parametrize("command", ["/nowhere/tool", "no-such-tool-anywhere", "/etc/passwd"])
    def test_a_command_that_cannot_be_run_is_a_fault_of_ours(self, folder: Path, command: str) -> None:
        hand_over(folder, 1)
        taken = Taken()
        with pytest.raises(ConfigurationError, match=f"the command '{command}' cannot be run"):
            consume(drop_at(folder), taken, ToCommand((command, "{}")), max_attempts=1)
        assert names(folder) == [f"{STEM}.csv", f"{STEM}.manifest.json"]

    def test_no_room_for_the_copy_is_no_fault_of_the_item(
        self, folder: Path, small_folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        hand_over(folder, 1, b"x" * 400_000)
        monkeypatch.setattr("tempfile.tempdir", str(small_folder))
        with pytest.raises(DeliveryFailed, match="no copy for the command can be made at"):
            consume(drop_at(folder), Taken(), ToCommand(("true", "{}")), max_attempts=1)
        assert names(folder) == [f"{STEM}.csv", f"{STEM}.manifest.json"]
        assert names(small_folder) == []

    def test_a_second_ctrl_c_ends_it_and_gives_the_item_back(self, folder: Path) -> None:
        hand_over(folder, 1)
        pid = folder.parent / "pid"
        interrupted = threading.Event()

        def progress(_: int) -> None:
            if interrupted.is_set():
                raise KeyboardInterrupt
            if pid.exists():
                interrupted.set()

        command = ToCommand(("sh", "-c", f"echo $$ > {pid}; exec sleep 60"), progress)
        begun = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            consume(drop_at(folder), Taken(), command)
        assert time.monotonic() - begun < 20
        assert not Path(f"/proc/{pid.read_text().strip()}").exists(), "the command is gone as well"
        assert names(folder) == [f"{STEM}.csv", f"{STEM}.manifest.json"]
