"""The producer on servers that fail: nothing was handed over and nothing is left, or what was begun is finished."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gateway.errors import NotYet
from gateway.handoff.contents import LocalFile
from gateway.handoff.producer import Outgoing, Producer, producer_fact
from protocol.errors import (
    IntegrityError,
    PublishInterrupted,
)
from protocol.procedures.publish import Draft, DraftFile
from protocol.rules import Rules, Verify
from tests.gateway.faulty import DiesWhileWriting, LosesReply, Passing, Refuses, StoresOneByteLess
from tests.gateway.tools import GROUP, driver_over, drop_at, names
from transports import errors
from transports.memory import MemoryStore, MemoryTransport

RULES = Rules()


@pytest.fixture
def table(sources: Path) -> Path:
    path = sources / "table.csv"
    path.write_bytes(b"a;b\n1;2\n")
    return path


def send(producer: Producer, *paths: Path, **more: Any) -> str:
    """Sends the files as one item; the name of its token."""
    return producer.send([Outgoing(path) for path in paths], group=GROUP, **more).names[-1]


class TestFailingServers:
    """Whatever goes wrong before the first rename, nothing was handed over and nothing is left."""

    @pytest.fixture
    def store(self) -> MemoryStore:
        return MemoryStore()

    def over(self, *transports: Passing, rules: Rules = RULES) -> Producer:
        made = iter(transports)
        return Producer(driver_over(lambda: next(made)), rules, "host-1-abc")

    @staticmethod
    def there(store: MemoryStore) -> list[str]:
        return sorted(entry.name for entry in MemoryTransport(store).scan() if not entry.name.startswith("S_"))

    @pytest.mark.parametrize("verify", Verify)
    def test_a_server_that_stores_less_than_it_says(self, store: MemoryStore, table: Path, verify: Verify) -> None:
        producer = self.over(StoresOneByteLess(MemoryTransport(store)), rules=Rules(verify=verify))
        with pytest.raises(IntegrityError, match="8 bytes were written and acknowledged, and the server has 7 bytes"):
            send(producer, table, sequence=1)
        assert self.there(store) == []

    def test_a_readback_finds_what_a_size_does_not(self, folder: Path, table: Path) -> None:
        with drop_at(folder, Rules(verify=Verify.READBACK)).producer() as producer:
            corrupted = threading.Event()

            class Corrupted(LocalFile):
                """The server's disk turns a byte around after it was written."""

                def chunks(self) -> Iterator[bytes]:
                    yield from super().chunks()
                    corrupted.set()

            stat = producer.driver.connection.use().stat

            def corrupting(path: str) -> Any:
                if corrupted.is_set() and path.endswith(".csv") and (folder / path).exists():
                    (folder / path).write_bytes(b"X;b\n1;2\n")
                return stat(path)

            producer.driver.connection.use().stat = corrupting  # type: ignore[method-assign]  # the fault itself
            draft = Draft(GROUP, (DraftFile("csv", Corrupted(table)),), "key", producer_fact(), {})
            with pytest.raises(IntegrityError, match="what the server stored is not what was written"):
                producer.forward(draft, 1, {})
        assert names(folder) == []

    @pytest.mark.parametrize("operation", ["create", "publish"])
    @pytest.mark.parametrize("error", [errors.Denied, errors.NoSpace, errors.ServerFailure])
    def test_a_refusal_leaves_nothing(
        self, store: MemoryStore, table: Path, operation: str, error: type[errors.TransportError]
    ) -> None:
        producer = self.over(Refuses(MemoryTransport(store), operation=operation, error=error))
        with pytest.raises(error):
            send(producer, table, sequence=1)
        assert self.there(store) == []

    def test_a_connection_that_dies_while_writing(self, store: MemoryStore, table: Path) -> None:
        no_resume = Refuses(MemoryTransport(store), operation="resume", error=errors.Denied)
        with pytest.raises(errors.Unreachable):
            send(self.over(DiesWhileWriting(MemoryTransport(store)), no_resume), table, sequence=1)
        assert self.there(store) == []
        assert send(self.over(DiesWhileWriting(MemoryTransport(store)), Passing(MemoryTransport(store))), table, sequence=1)
        assert self.there(store) == ["orders_0000000001.csv", "orders_0000000001.manifest.json"]

    def test_a_full_server(self, table: Path) -> None:
        store = MemoryStore(limit=20)
        with pytest.raises(errors.NoSpace):
            send(self.over(Passing(MemoryTransport(store))), table, sequence=1)
        assert self.there(store) == []

    @pytest.mark.parametrize("before", [True, False], ids=["the request was lost", "the reply was lost"])
    @pytest.mark.parametrize("strike", [0, 1])
    def test_a_lost_reply_to_a_rename_hands_over_once(self, store: MemoryStore, table: Path, strike: int, before: bool) -> None:
        strikes = [strike]
        opened = []

        def connect() -> Passing:
            opened.append(LosesReply(MemoryTransport(store), operation="publish", before=before, strikes=strikes))
            return opened[-1]

        producer = Producer(driver_over(connect), RULES, "host-1-abc")
        assert send(producer, table, sequence=1) == "orders_0000000001.manifest.json"
        assert self.there(store) == ["orders_0000000001.csv", "orders_0000000001.manifest.json"]
        assert len(opened) == 2

    @pytest.mark.parametrize("before", [True, False], ids=["the request was lost", "the reply was lost"])
    def test_a_lost_reply_to_the_counter_costs_a_number_at_most(self, store: MemoryStore, table: Path, before: bool) -> None:
        store.put("S_orders_0000000007.next", b"")
        strikes = [0]
        producer = Producer(
            driver_over(lambda: LosesReply(MemoryTransport(store), operation="claim", before=before, strikes=strikes)),
            RULES,
            "host-1-abc",
        )
        number = 7 if before else 8
        assert send(producer, table) == f"orders_{number:010}.manifest.json"

    def test_what_was_cut_between_its_renames_says_so_and_is_finished_by_name_alone(
        self, store: MemoryStore, table: Path
    ) -> None:
        class DiesAfterTheFirst(Passing):
            """The server lets one rename through, and is gone."""

            def around(self, operation: str, path: str, call: Any) -> Any:
                if any(called == "publish" for called, _ in self.calls[:-1]):
                    raise errors.Unreachable(operation, path, "gone")
                return call()

        transports = iter([DiesAfterTheFirst(MemoryTransport(store))])

        def connect() -> Passing:
            try:
                return next(transports)
            except StopIteration:
                raise errors.Unreachable("connect", "", "gone") from None

        producer = Producer(driver_over(connect), RULES, "host-1-abc")
        with pytest.raises(PublishInterrupted, match="Do not send it again; once the drop is reachable, rename") as caught:
            send(producer, table, sequence=1, key="k")
        assert self.there(store) == ["B_orders_0000000001.manifest.json", "orders_0000000001.csv"]
        assert "B_orders_0000000001.manifest.json" in caught.value.left
        again = Producer(driver_over(lambda: Passing(MemoryTransport(store))), RULES, "host-1-def")
        draft = Draft(GROUP, (DraftFile("csv", LocalFile(table)),), "k", producer_fact(), {})
        assert again.forward(draft, 1, {}) is None, "it counts as published before"
        assert self.there(store) == ["orders_0000000001.csv", "orders_0000000001.manifest.json"]

    def test_unfinished_files_of_ours_are_taken_away_before_the_next_attempt(self, store: MemoryStore, table: Path) -> None:
        """A server that was away for longer than patience lasts."""
        gone = [errors.Unreachable("connect", "", "gone")] * 20
        transports: list[Any] = [DiesWhileWriting(MemoryTransport(store)), *gone, Passing(MemoryTransport(store))]

        def connect() -> Passing:
            found = transports.pop(0)
            if isinstance(found, Exception):
                raise found
            assert isinstance(found, Passing)
            return found

        producer = Producer(driver_over(connect), RULES, "host-1-abc")
        draft = Draft(GROUP, (DraftFile("csv", LocalFile(table)),), "k", producer_fact(), {})
        with pytest.raises(errors.Unreachable) as caught:
            producer.forward(draft, 1, {})
        assert "could not be removed" in "".join(caught.value.__notes__)
        assert self.there(store) == ["B_orders_0000000001.csv"]
        del transports[:-1]
        assert producer.forward(draft, 1, {}) is not None
        assert self.there(store) == ["orders_0000000001.csv", "orders_0000000001.manifest.json"]

    def test_somebody_else_s_unfinished_file_is_left_alone(self, folder: Path, table: Path) -> None:
        (folder / "B_orders_0000000001.csv").write_bytes(b"being written")
        draft = Draft(GROUP, (DraftFile("csv", LocalFile(table)),), "k", producer_fact(), {})
        with drop_at(folder).producer() as producer, pytest.raises(NotYet, match="Once its before files have stood still"):
            producer.forward(draft, 1, {})
        assert (folder / "B_orders_0000000001.csv").read_bytes() == b"being written"

    def test_a_full_disk_leaves_nothing(self, small_folder: Path, sources: Path) -> None:
        large = sources / "large.bin"
        large.write_bytes(b"x" * 400_000)
        with drop_at(small_folder).producer() as producer:
            with pytest.raises(errors.NoSpace):
                send(producer, large)
            assert names(small_folder) == []
            small = sources / "small.bin"
            small.write_bytes(b"x" * 1000)
            assert send(producer, small), "the drop is as good as before"
