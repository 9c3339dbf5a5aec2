"""`dropgate send --wait`: the sender stays until it is known what became of its item."""

import json
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.cli.tools import WITHIN, Ended, Place

RECEIVE = ("receive", "drop", "--group", "orders_", "--once", "--max-attempts", "1", "--exec")
SEND = ("send", "drop", "a.csv", "--group", "orders_", "--wait")


def _configured(place: Place, *, receipts: bool, layout: str = "prefix") -> Path:
    drop = place.drop()
    for name in ("temp", "incoming", "processing", "archive", "error") if layout == "folders" else ():
        (drop / name).mkdir()
    place.write("dropgate.toml", f'[drop.drop]\nurl = "drop"\nlayout = "{layout}"\nreceipts = {str(receipts).lower()}\n')
    place.write("a.csv")
    return drop


def _end(process: subprocess.Popen[str]) -> Ended:
    out, err = process.communicate(timeout=WITHIN)
    return Ended(process.returncode, out, err)


def _sent(process: subprocess.Popen[str]) -> str:
    """The line that is told once the item is published, while its fate is waited for."""
    assert process.stdout is not None
    return process.stdout.readline()


@pytest.mark.parametrize("layout", ["prefix", "folders"])
@pytest.mark.parametrize("receipts", [True, False], ids=["receipts", "images"])
def test_it_ends_with_0_once_the_item_was_processed(place: Place, receipts: bool, layout: str) -> None:
    _configured(place, receipts=receipts, layout=layout)
    with place.started(*SEND, "--json", "--timeout", "2m") as sender:
        item = json.loads(_sent(sender))["item"]
        place.done(*RECEIVE, "true {}")
        ended = _end(sender)
    assert (ended.code, ended.err) == (0, "")
    (told,) = ended.objects
    assert (told["item"], told["outcome"], told["state"], told["timed_out"]) == (item, "processed", "after", False)
    if receipts:
        receipt = told["receipt"]
        assert (receipt["item"], receipt["result"], receipt["attempts"]) == (item, "true: exit status 0", 1)
        assert list(receipt["hashes"]) == [f"{item}.csv"]


@pytest.mark.parametrize("receipts", [True, False], ids=["receipts", "images"])
def test_it_ends_with_1_and_the_reason_once_the_item_has_failed(place: Place, receipts: bool) -> None:
    _configured(place, receipts=receipts)
    with place.started(*SEND) as sender:
        _sent(sender)
        assert place.run(*RECEIVE, "grep -c nothing {}").code == 1
        ended = _end(sender)
    assert (ended.code, ended.err) == (1, "")
    assert ended.out == "orders_0000000001  failed  grep ended with exit status 1\n"


def test_it_ends_with_4_and_what_is_known_when_the_time_is_up(place: Place) -> None:
    drop = _configured(place, receipts=True)
    ended = place.call(*SEND, "--timeout", "1s", "--json")
    assert ended.code == 4
    assert ended.err == ("dropgate: orders_0000000001: not over yet when the time was up: ready, and nobody has taken it yet\n")
    assert ended.objects[-1] == {"item": "orders_0000000001", "outcome": "ready", "timed_out": True, "state": "ready"}
    assert (drop / "orders_0000000001.manifest.json").exists()


def test_an_image_without_its_receipt_is_waited_on_for(place: Place) -> None:
    """As one is whose receipt has yet to come from a drop further on."""
    drop = _configured(place, receipts=True)
    with place.started(*SEND, "--timeout", "2s") as sender:
        _sent(sender)
        (drop / "orders_0000000001.csv").rename(drop / "A_orders_0000000001.csv")
        (drop / "orders_0000000001.manifest.json").rename(drop / "A_orders_0000000001.manifest.json")
        ended = _end(sender)
    assert ended.code == 4
    assert "an after image, and its receipt is still to come" in ended.err


def test_interrupted_it_leaves_the_item_as_it_is_and_says_so(place: Place) -> None:
    drop = _configured(place, receipts=False)
    with place.started(*SEND) as sender:
        _sent(sender)
        time.sleep(0.3)  # it is waiting by now
        sender.send_signal(signal.SIGINT)
        ended = _end(sender)
    assert ended.code == 130
    assert "orders_0000000001: published, and left as it is; only the waiting has ended" in ended.err
    assert (drop / "orders_0000000001.manifest.json").exists()


def test_several_items_are_waited_for_and_the_worst_fate_is_the_exit_code(place: Place) -> None:
    _configured(place, receipts=True)
    place.write("b.csv", "nothing\n")
    with place.started("send", "drop", "a.csv", "b.csv", "--group", "orders_", "--wait") as sender:
        _sent(sender), _sent(sender)
        place.run(*RECEIVE, "grep -c nothing {}")
        ended = _end(sender)
    assert ended.code == 1
    assert ended.out == (
        "orders_0000000001  failed  grep ended with exit status 1\norders_0000000002  processed  grep: exit status 0\n"
    )


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--timeout", "10m"), "--timeout goes with --wait"),
        (("--wait", "--timeout", "soon"), "--timeout: 'soon' is no span of time; write 90s, 15m, 2h or 1d"),
    ],
)
def test_a_span_that_means_nothing_is_refused_before_anything_is_sent(place: Place, words: tuple[str, ...], told: str) -> None:
    drop = _configured(place, receipts=False)
    refused = place.call("send", "drop", "a.csv", "--group", "orders_", *words)
    assert (refused.code, refused.err) == (2, f"dropgate: {told}\n")
    assert list(drop.iterdir()) == []
