"""The consumer: claims, what each outcome of a handler leaves behind, order, sharing work, and replays."""

import platform
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
import smbclient

from gateway.errors import DeliveryFailed, HandlerFailed, SourceFailed
from gateway.handoff.consumer import Delivery, Ordering
from gateway.handoff.producer import Outgoing
from protocol.errors import IntegrityError
from protocol.layout import FolderLayout
from protocol.rules import Rules
from testenv.servers import SmbServer
from tests.gateway.tools import GROUP, Taken, consume, consumer_of, drop_at, hand_over, names, put, reason
from transports import errors

FOLDERS = Rules(FolderLayout())


def of_item(stem: str, mark: str = "", *, folder: str = "") -> list[str]:
    return sorted(f"{folder}{mark}{stem}.{suffix}" for suffix in ("csv", "manifest.json"))


@pytest.mark.parametrize("ordering", [Ordering.SHUFFLE, Ordering.FIFO, Ordering.STRICT])
def test_what_was_processed_is_kept_as_after_images(folder: Path, ordering: Ordering) -> None:
    made = [hand_over(folder, number, f"content {number}".encode()) for number in (1, 2, 3)]
    taken = Taken()
    assert consume(drop_at(folder), taken, ordering=ordering) == 3
    assert sorted(taken.contents) == [(f"{stem}.csv", f"content {n}".encode()) for n, stem in enumerate(made, 1)]
    assert taken.results == ["processed"] * 3
    assert names(folder) == sorted(name for stem in made for name in of_item(stem, "A_"))
    if ordering is not Ordering.SHUFFLE:
        assert [name for name, _ in taken.contents] == [f"{stem}.csv" for stem in made]


def test_numbers_are_ordered_by_value_whatever_their_text(folder: Path) -> None:
    for number in (10, 9, 100, 2):
        hand_over(folder, number)
    taken = Taken()
    consume(drop_at(folder), taken, ordering=Ordering.FIFO)
    assert [event.item.number for event in taken.events] == [2, 9, 10, 100]


def test_shuffled_workers_do_not_all_begin_at_the_head(folder: Path) -> None:
    for number in range(1, 41):
        hand_over(folder, number)
    taken = Taken()
    consume(drop_at(folder), taken)
    numbers = [event.item.number for event in taken.events]
    assert sorted(numbers) == list(range(1, 41))
    assert numbers != sorted(numbers)


@pytest.mark.parametrize("rules", [Rules(), FOLDERS], ids=["prefix", "folders"])
def test_a_claim_says_whose_it_is_and_leaves_the_payload_where_it_was(folder: Path, rules: Rules) -> None:
    with drop_at(folder, rules).producer() as producer:
        producer.send([Outgoing(put(folder.parent, "x.csv", b"x"))], group=GROUP)
    seen: list[str] = []

    def look(delivery: Delivery) -> None:
        seen.extend(names(folder))

    with consumer_of(drop_at(folder, rules), taken := Taken(), look) as consumer:
        owner = consumer.owner
        consumer.sweep_once(threading.Event())
    stem = "orders_0000000001"
    if rules is FOLDERS:
        assert seen == [f"incoming/{stem}.csv", f"processing/{owner}/{stem}.manifest.json"]
        assert names(folder) == of_item(stem, folder="archive/")
    else:
        assert seen == [f"C_{owner}_{stem}.manifest.json", f"{stem}.csv"]
        assert names(folder) == of_item(stem, "A_")
    assert taken.results == ["processed"]


def test_an_item_is_not_taken_before_its_token_is_there(folder: Path) -> None:
    for name in ("B_orders_0000000001.csv", "B_orders_0000000001.manifest.json", "orders_0000000002.csv"):
        put(folder, name, b"x")
    before = names(folder)
    taken = Taken()
    assert consume(drop_at(folder), taken) == 0
    assert names(folder) == before


class TestFailures:
    def test_a_handler_that_fails_gives_the_item_back(self, folder: Path) -> None:
        stem = hand_over(folder, 1)

        def fail(delivery: Delivery) -> None:
            raise HandlerFailed("the data base is away")

        taken = Taken()
        consume(drop_at(folder), taken, fail)
        assert taken.results == ["returned"]
        assert taken.events[0].error == "the data base is away"
        assert names(folder) == of_item(stem)
        assert consume(drop_at(folder), taken) == 1
        assert names(folder) == of_item(stem, "A_")

    def test_after_its_last_attempt_it_is_an_error_image_with_its_reason(self, folder: Path) -> None:
        stem = hand_over(folder, 1, b"poison")
        good = hand_over(folder, 2)

        def choosy(delivery: Delivery) -> None:
            if delivery.item.number == 1:
                raise HandlerFailed(f"no, for the {delivery.attempt}. time")

        taken = Taken()
        with consumer_of(drop_at(folder), taken, choosy, once=False, max_attempts=3) as consumer:
            owner = consumer.owner
            for _ in range(4):
                consumer.sweep_once(threading.Event())
        assert Counter(taken.results) == {"returned": 2, "failed": 1, "processed": 1}
        assert names(folder) == sorted([*of_item(stem, "E_"), f"E_{stem}.reason.json", *of_item(good, "A_")])
        why = reason(folder, stem)
        assert (why["error"], why["kind"], why["attempts"]) == ("no, for the 3. time", "HandlerFailed", 3)
        assert (why["owner"], why["host"]) == (owner, platform.node())
        assert why["time"].endswith("Z")

    @pytest.mark.parametrize("error", [RuntimeError("a bug"), KeyboardInterrupt(), SystemExit(3), MemoryError()])
    def test_a_handler_that_crashes_gives_the_claim_back(self, folder: Path, error: BaseException) -> None:
        stem = hand_over(folder, 1)

        def crash(delivery: Delivery) -> None:
            raise error

        with pytest.raises(type(error)):
            consume(drop_at(folder), Taken(), crash)
        assert names(folder) == of_item(stem)

    def test_a_target_that_fails_is_no_attempt_of_the_item(self, folder: Path) -> None:
        stem = hand_over(folder, 1)

        def refuse(delivery: Delivery) -> None:
            raise DeliveryFailed("the disk is full")

        taken = Taken()
        for _ in range(3):
            with pytest.raises(DeliveryFailed, match="the disk is full"):
                consume(drop_at(folder), taken, refuse, max_attempts=1)
        assert taken.results == ["returned"] * 3
        assert names(folder) == of_item(stem)

    def test_a_source_that_fails_is_no_attempt_of_the_item(self, folder: Path) -> None:
        stem = hand_over(folder, 1)

        def unlucky(delivery: Delivery) -> None:
            raise SourceFailed("away") from errors.Unreachable("read", "", "away")

        with pytest.raises(errors.Unreachable, match="away"):
            consume(drop_at(folder), Taken(), unlucky, max_attempts=1)
        assert names(folder) == of_item(stem)

    def test_an_item_that_a_handler_finds_damaged_is_not_tried_again(self, folder: Path) -> None:
        stem = hand_over(folder, 1)

        def strict(delivery: Delivery) -> None:
            raise IntegrityError("not what it says")

        taken = Taken()
        consume(drop_at(folder), taken, strict)
        assert taken.results == ["failed"]
        assert reason(folder, stem)["kind"] == "IntegrityError"

    def test_an_item_that_failed_is_due_again_after_a_pause_and_the_others_go_on(self, folder: Path) -> None:
        bad, good = hand_over(folder, 1), hand_over(folder, 2)

        def choosy(delivery: Delivery) -> None:
            if delivery.item.number == 1:
                raise HandlerFailed("no")

        taken = Taken()
        drop = drop_at(folder)
        with drop.consumer((GROUP,), choosy, taken.report, ordering=Ordering.FIFO) as consumer:
            assert consumer.sweep_once(threading.Event()) == 2
        assert taken.results == ["returned", "processed"]
        assert names(folder) == sorted([*of_item(bad), *of_item(good, "A_")])


class TestFence:
    def test_a_claim_that_was_taken_away_is_reported_and_nothing_is_put_away(self, folder: Path) -> None:
        stem = hand_over(folder, 1)

        def robbed(delivery: Delivery) -> None:
            (token,) = folder.glob("C_*")
            token.rename(folder / f"C_another-1-x_{stem}.manifest.json")

        taken = Taken()
        consume(drop_at(folder), taken, robbed)
        assert taken.results == ["lost"]
        assert "is no longer there" in taken.events[0].error
        assert names(folder) == [f"C_another-1-x_{stem}.manifest.json", f"{stem}.csv"]

    def test_a_failure_after_the_claim_was_taken_away_makes_no_error_image(self, folder: Path) -> None:
        stem = hand_over(folder, 1)

        def robbed(delivery: Delivery) -> None:
            (token,) = folder.glob("C_*")
            token.rename(folder / f"{stem}.manifest.json")
            raise HandlerFailed("and failed")

        taken = Taken()
        consume(drop_at(folder), taken, robbed, max_attempts=1)
        assert taken.results == ["lost"]
        assert names(folder) == of_item(stem)


class TestNothingIsReplaced:
    def test_a_number_that_came_twice_keeps_both_images(self, folder: Path) -> None:
        stem = hand_over(folder, 1, b"first")
        consume(drop_at(folder), Taken())
        hand_over(folder, 1, b"second", key="another hand-off")
        taken = Taken()
        consume(drop_at(folder), taken)
        assert taken.contents == [(f"{stem}.csv", b"second")]
        assert names(folder) == sorted([*of_item(stem, "A_"), f"A_{stem}+1.csv", f"A_{stem}+1.manifest.json"])
        assert (folder / f"A_{stem}.csv").read_bytes() == b"first"
        assert (folder / f"A_{stem}+1.csv").read_bytes() == b"second"

    def test_an_error_image_is_not_replaced_by_the_next(self, folder: Path) -> None:
        stem = hand_over(folder, 1, b"first", key="")
        consume(drop_at(folder), Taken())
        hand_over(folder, 1, b"second", key="")
        consume(drop_at(folder), Taken())
        assert (folder / f"E_{stem}.csv").read_bytes() == b"first"
        assert (folder / f"E_{stem}+1.csv").read_bytes() == b"second"


class TestOrder:
    def test_strict_waits_for_a_lower_number_that_failed(self, folder: Path) -> None:
        first, second = hand_over(folder, 1), hand_over(folder, 2)

        def fail(delivery: Delivery) -> None:
            raise HandlerFailed("not yet")

        taken = Taken()
        consume(drop_at(folder), taken, fail, ordering=Ordering.STRICT)
        assert [event.item.number for event in taken.events] == [1]
        assert names(folder) == sorted([*of_item(first), *of_item(second)])

    def test_strict_takes_nothing_while_a_lower_number_is_claimed(self, folder: Path) -> None:
        first, second = hand_over(folder, 1), hand_over(folder, 2)
        (folder / f"{first}.manifest.json").rename(folder / f"C_another-1-x_{first}.manifest.json")
        taken = Taken()
        assert consume(drop_at(folder), taken, ordering=Ordering.STRICT) == 0
        assert f"{second}.manifest.json" in names(folder)

    def test_strict_goes_on_item_by_item(self, folder: Path) -> None:
        for number in (1, 2, 3):
            hand_over(folder, number)
        under_way: list[int] = []

        def look(delivery: Delivery) -> None:
            under_way.append(len(list(folder.glob("C_*"))))

        taken = Taken()
        consume(drop_at(folder), taken, look, ordering=Ordering.STRICT)
        assert [event.item.number for event in taken.events] == [1, 2, 3]
        assert under_way == [1, 1, 1]


class TestSharedWork:
    @pytest.mark.parametrize("ordering", [Ordering.SHUFFLE, Ordering.FIFO])
    def test_each_item_is_taken_by_one_of_many(self, folder: Path, ordering: Ordering) -> None:
        made = [hand_over(folder, number) for number in range(1, 61)]
        barrier = threading.Barrier(4)

        def work(_: int) -> Taken:
            taken = Taken()
            with consumer_of(drop_at(folder), taken, ordering=ordering) as consumer:
                barrier.wait()
                consumer.sweep_once(threading.Event())
            return taken

        with ThreadPoolExecutor(4) as pool:
            crew = list(pool.map(work, range(4)))
        assert Counter(event.item.number for taken in crew for event in taken.events) == dict.fromkeys(range(1, 61), 1)
        assert {result for taken in crew for result in taken.results} == {"processed"}
        assert names(folder) == sorted(name for stem in made for name in of_item(stem, "A_"))

    def test_each_group_is_its_own(self, folder: Path) -> None:
        hand_over(folder, 1)
        put(folder, "bills_0000000001.csv", b"")
        put(folder, "bills_0000000001.manifest.json", b"none of ours")
        taken = Taken()
        assert consume(drop_at(folder), taken) == 1
        assert "bills_0000000001.manifest.json" in names(folder)

    def test_a_group_whose_name_begins_as_another_s_is_its_own(self, folder: Path) -> None:
        stem = "orders_new_0000000001"
        put(folder, f"{stem}.csv", b"")
        put(folder, f"{stem}.manifest.json", b"none of ours")
        assert consume(drop_at(folder), Taken()) == 0
        assert names(folder) == of_item(stem)


class TestStopping:
    def test_it_stops_between_two_items(self, folder: Path) -> None:
        for number in (1, 2, 3):
            hand_over(folder, number)
        stop = threading.Event()
        taken = Taken()
        with consumer_of(drop_at(folder), taken, lambda delivery: stop.set()) as consumer:
            assert consumer.sweep_once(stop) == 1
        assert taken.results == ["processed"]
        assert not list(folder.glob("C_*"))
        assert len(list(folder.glob("orders_*.manifest.json"))) == 2


@pytest.mark.parametrize("what", ["the token alone", "the payload and the token"])
def test_an_operator_replays_by_mv(folder: Path, what: str) -> None:
    stem = hand_over(folder, 1, b"once more")
    consume(drop_at(folder), Taken())
    for name in of_item(stem) if what != "the token alone" else [f"{stem}.manifest.json"]:
        (folder / f"A_{name}").rename(folder / name)
    taken = Taken()
    consume(drop_at(folder), taken)
    assert taken.contents == [(f"{stem}.csv", b"once more")]
    assert names(folder) == of_item(stem, "A_"), "and everything is as it was"


def test_an_operator_replays_an_error_image_by_mv(folder: Path) -> None:
    stem = hand_over(folder, 1, b"good after all")

    def fail(delivery: Delivery) -> None:
        raise HandlerFailed("no")

    consume(drop_at(folder), Taken(), fail, max_attempts=1)
    for name in of_item(stem):
        (folder / f"E_{name}").rename(folder / name)
    taken = Taken()
    consume(drop_at(folder), taken)
    assert taken.contents == [(f"{stem}.csv", b"good after all")]


class TestHeldOpen:
    """SMB: somebody else has a file open, and the server keeps it from being renamed."""

    @pytest.fixture
    def local(self, smb_server: SmbServer, smb_dir: str) -> Path:
        local = smb_server.local("data", smb_dir)
        assert local is not None
        return local

    @contextmanager
    def holding(self, server: SmbServer, path: str) -> Iterator[None]:
        cache: dict[str, object] = {}
        how = {"port": server.port, "connection_cache": cache}
        smbclient.register_session(server.host, server.user, server.password, **how)
        try:
            with smbclient.open_file(rf"\\{server.host}\data\{path}", mode="rb", share_access="r", **how):
                yield
        finally:
            smbclient.reset_connection_cache(connection_cache=cache)

    def test_a_token_that_is_held_open_is_passed_over_and_taken_later(
        self, smb_server: SmbServer, smb_dir: str, local: Path
    ) -> None:
        held, free = hand_over(local, 1), hand_over(local, 2)
        drop = drop_at(smb_server.endpoint("data", smb_dir))
        taken = Taken()
        with self.holding(smb_server, rf"{smb_dir}\{held}.manifest.json"):
            begun = time.monotonic()
            assert consume(drop, taken) == 1
            assert time.monotonic() - begun < 10, "it is not waited for: there are others"
        assert names(local) == sorted([*of_item(held), *of_item(free, "A_")])
        assert consume(drop, taken) == 1
        assert names(local) == sorted([*of_item(held, "A_"), *of_item(free, "A_")])

    def test_a_payload_that_is_held_open_is_put_away_later_and_not_processed_twice(
        self, smb_server: SmbServer, smb_dir: str, local: Path
    ) -> None:
        stem = hand_over(local, 1)
        drop = drop_at(smb_server.endpoint("data", smb_dir), Rules(busy_patience=0.2))
        taken = Taken()
        with self.holding(smb_server, rf"{smb_dir}\{stem}.csv"):
            assert consume(drop, taken) == 1
            assert taken.results == ["processed"]
            assert taken.events[0].left == (f"{stem}.csv",)
            assert names(local) == [f"D_{stem}.manifest.json", f"{stem}.csv"]
            assert consume(drop, taken) == 0
        assert len(taken.contents) == 1
