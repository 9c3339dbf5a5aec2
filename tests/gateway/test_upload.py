"""Transfers go on where they were cut: from what the server has, with the hash continued, and never into another's file."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest

from gateway.errors import SourceFailed
from gateway.handoff.connection import Connection, Patience
from gateway.handoff.contents import DropPayload
from gateway.handoff.driver import Driver
from protocol.contents import Payload
from protocol.errors import IntegrityError
from protocol.hashes import DEFAULT_ALGORITHM
from protocol.names import ItemId, Name
from protocol.operations import Operation, Procedure, Store, Stored
from protocol.rules import Rules
from tests.gateway.faulty import DiesWhileReading, Passing, Refuses
from tests.gateway.tools import Waits, driver_over, sha256
from transports import errors
from transports.base import Sink, Transport
from transports.contract.place import some_bytes
from transports.memory import MemoryStore, MemoryTransport

PIECE = 50_000
DATA = some_bytes(1_000_000)
PATH = "B_orders_0000000001.csv"


@dataclass
class Network:
    """What lies between a driver and a store, shared by all its connections.

    Each connection carries `lasts` calls of `write`, of which the last `unanswered` are done and never answered; then it is
    dead. `meanwhile` happens in the time until the next connection. `away`: connections that are refused after that.
    """

    store: MemoryStore
    lasts: list[int]
    unanswered: int = 0
    meanwhile: Callable[[], None] = lambda: None
    away: int = 0
    sent: int = 0  # bytes
    calls: list[str] = field(default_factory=list)
    refused: int = 0

    def connect(self) -> Transport:
        if self.refused:
            self.refused -= 1
            raise errors.Unreachable("connect", "", "refused")
        return _Mortal(MemoryTransport(self.store), network=self)

    def driver(self, patience: Patience | None = None) -> Driver:
        return driver_over(self.connect, Waits(), patience)


@dataclass
class _Mortal(Passing):
    network: Network = None  # type: ignore[assignment]  # always given; a field after those with defaults needs one too

    def around(self, operation: str, path: str, call: Callable[[], object]) -> object:
        self.network.calls.append(operation)
        made = call()
        if isinstance(made, Sink):
            left = self.network.lasts.pop(0) if self.network.lasts else 1_000_000
            return _MortalSink(self.network, made, left)
        return made


@dataclass
class _MortalSink(Sink):
    network: Network
    below: Sink
    left: int

    def __post_init__(self) -> None:
        self._acknowledged = self.below.acknowledged

    @property
    def acknowledged(self) -> int:
        return self._acknowledged

    def write(self, data: bytes) -> None:
        self._use()
        self.network.sent += len(data)
        self.below.write(data)
        if self.left >= self.network.unanswered:
            self._acknowledged = self.below.acknowledged

    def commit(self) -> None:
        self._use()
        self.below.commit()
        if self.left < self.network.unanswered:
            self._die("commit")
        self._acknowledged = self.below.acknowledged

    def abort(self) -> None:
        self.below.abort()

    def leave(self) -> None:
        self.below.leave()

    def _use(self) -> None:
        if self.left == 0:
            self._die("write")
        self.left -= 1

    def _die(self, operation: str) -> None:
        self.network.refused = self.network.away
        self.network.meanwhile()
        raise errors.Unreachable(operation, "", "the connection was lost")


@dataclass
class Once:
    """Bytes that can be had once only."""

    data: bytes = DATA
    given: int = 0

    def chunks(self) -> Iterator[bytes]:
        for at in range(0, len(self.data), PIECE):
            assert at == self.given, "what was given is not asked for again"
            self.given = at + len(self.data[at : at + PIECE])
            yield self.data[at : at + PIECE]


async def asked(operation: Operation[Stored | None]) -> Stored | None:
    return await operation


def storing(data: bytes = DATA) -> Procedure[Stored | None]:
    return asked(Store(PATH, Once(data), DEFAULT_ALGORITHM))


def there(store: MemoryStore) -> dict[str, bytes]:
    transport = MemoryTransport(store)
    return {entry.name: b"".join(transport.open_read(entry.name)) for entry in transport.scan()}


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


class TestUploads:
    @pytest.mark.parametrize("lasts", [[0], [1], [16], [19], [20], [5, 0, 3, 0, 0, 9], [0, 0, 0, 0]], ids=str)
    @pytest.mark.parametrize("unanswered", [0, 1, 3])
    def test_a_file_arrives_whole_however_often_it_is_cut(self, store: MemoryStore, lasts: list[int], unanswered: int) -> None:
        """20 pieces, and the commit; cut after each number of them, of which the last were stored and not acknowledged."""
        network = Network(store, list(lasts), unanswered)
        driver = network.driver()
        assert driver.run(storing()) == Stored(len(DATA), sha256(DATA))
        assert there(store) == {PATH: DATA}
        assert driver.made == {PATH}
        assert network.sent <= len(DATA) + len(lasts) * unanswered * PIECE, "what was acknowledged is not sent again"

    def test_a_lost_answer_to_the_commit_is_no_loss(self, store: MemoryStore) -> None:
        network = Network(store, [20 + 1], unanswered=1)
        assert network.driver().run(storing()) == Stored(len(DATA), sha256(DATA))
        assert there(store) == {PATH: DATA}
        assert network.calls.count("resume") == 1

    def test_a_manifest_of_a_few_bytes_goes_on_too(self, store: MemoryStore) -> None:
        network = Network(store, [1, 0], unanswered=1)
        stored = network.driver().run(asked(Store(PATH, b"{}", DEFAULT_ALGORITHM)))
        assert stored == Stored(2, sha256(b"{}"))
        assert there(store) == {PATH: b"{}"}

    def test_patience_begins_anew_with_what_comes_through(self, store: MemoryStore) -> None:
        network = Network(store, [1] * 12, away=3)
        assert network.driver(Patience(attempts=5)).run(storing()) == Stored(len(DATA), sha256(DATA))
        assert network.calls.count("resume") == 12

    def test_without_progress_patience_ends_and_nothing_is_left(self, store: MemoryStore) -> None:
        network = Network(store, [7, *[0] * 50])
        driver = network.driver(Patience(attempts=5))
        with pytest.raises(errors.Unreachable):
            driver.run(storing())
        assert network.calls.count("resume") == 4
        assert there(store) == {}
        assert driver.made == set()

    def test_a_full_disk_after_a_cut_is_told_as_that(self, store: MemoryStore) -> None:
        def fill_up() -> None:
            store.limit = store.used + PIECE

        network = Network(store, [7], meanwhile=fill_up)
        with pytest.raises(errors.NoSpace):
            network.driver().run(storing())
        assert there(store) == {}

    def test_a_dead_session_of_ours_that_holds_the_file_is_waited_for(self, store: MemoryStore) -> None:
        times = [3]
        network = Network(store, [7])
        driver = driver_over(lambda: Refuses(network.connect(), operation="resume", error=errors.Busy, times=times))
        assert driver.run(storing()) == Stored(len(DATA), sha256(DATA))
        assert there(store) == {PATH: DATA}


class TestAnotherHasTheName:
    """A sweeper put our file away, or a rival who took us for dead removed it and began his own."""

    def run(self, store: MemoryStore, meanwhile: Callable[[], None], unanswered: int = 2) -> list[str]:
        """An upload that is cut after 10 pieces, 8 of them acknowledged; the notes on its error."""
        network = Network(store, [10], unanswered, meanwhile)
        driver = network.driver()
        with pytest.raises(errors.Unreachable) as caught:
            driver.run(storing())
        assert driver.made == set(), "what is there is not taken away later either"
        assert "delete" not in network.calls
        return caught.value.__notes__

    def replaced_by(self, store: MemoryStore, data: bytes) -> Callable[[], None]:
        def replace() -> None:
            transport = MemoryTransport(store)
            transport.delete(PATH)
            store.put(PATH, data)

        return replace

    @pytest.mark.parametrize(
        "data",
        [b"", DATA[: 8 * PIECE - 1], DATA[: 11 * PIECE + 1], b"y" * 9 * PIECE, DATA[: 8 * PIECE - 1] + b"y" * 10],
        ids=["empty", "not as far", "further", "other content", "other content at the cut"],
    )
    def test_his_file_is_neither_written_to_nor_removed(self, store: MemoryStore, data: bytes) -> None:
        notes = self.run(store, self.replaced_by(store, data))
        assert there(store) == {PATH: data}
        assert "could not be gone on with" in notes[0]

    def test_his_small_file_is_not_either_where_nothing_of_ours_was_acknowledged(self, store: MemoryStore) -> None:
        driver = Network(store, [1], 1, self.replaced_by(store, b"[]")).driver()
        with pytest.raises(errors.Unreachable):
            driver.run(asked(Store(PATH, b"{ }", DEFAULT_ALGORITHM)))
        assert there(store) == {PATH: b"[]"}

    def test_a_file_that_was_put_away_is_left_where_it_is(self, store: MemoryStore) -> None:
        self.run(store, lambda: MemoryTransport(store).publish(PATH, "quarantined"))
        assert there(store) == {"quarantined": DATA[: 10 * PIECE]}

    def test_who_has_come_as_far_with_the_same_content_gets_what_he_writes_himself(self, store: MemoryStore) -> None:
        network = Network(store, [10], 2, self.replaced_by(store, DATA[: 9 * PIECE]))
        assert network.driver().run(storing()) == Stored(len(DATA), sha256(DATA))
        assert there(store) == {PATH: DATA}


class TestReadings:
    @pytest.fixture
    def payload(self, store: MemoryStore) -> Payload:
        store.put("orders_0000000001.csv", DATA)
        name = Name(ItemId("orders_", 1), "csv")
        return Payload(name, "orders_0000000001.csv", len(DATA), DEFAULT_ALGORITHM, sha256(DATA))

    def read(self, payload: Payload, connect: Callable[[], Transport], patience: Patience | None = None) -> bytes:
        connection = Connection(connect, Waits().clock(), patience)
        return b"".join(DropPayload(connection, Rules(), payload).chunks())

    def test_a_payload_is_read_on_where_it_was_cut(self, store: MemoryStore, payload: Payload) -> None:
        times = [30]
        transports: list[Passing] = []

        def connect() -> Transport:
            transports.append(DiesWhileReading(MemoryTransport(store), times=times))
            return transports[-1]

        assert self.read(payload, connect, Patience(attempts=3)) == DATA, "each cut came after some bytes: patience began anew"
        assert len(transports) == 31

    def test_a_source_that_gives_nothing_more_ends_patience(self, store: MemoryStore, payload: Payload) -> None:
        connections = iter(
            [DiesWhileReading(MemoryTransport(store)), *[Refuses(MemoryTransport(store), operation="open_read")] * 9]
        )
        with pytest.raises(SourceFailed):
            self.read(payload, lambda: next(connections), Patience(attempts=4))

    def test_what_was_changed_between_two_connections_is_not_mixed(self, store: MemoryStore, payload: Payload) -> None:
        def connect() -> Transport:
            if opened:
                store.put(payload.path, DATA[: PIECE * 4])
            opened.append(True)
            return DiesWhileReading(MemoryTransport(store), times=[1])

        opened: list[bool] = []
        with pytest.raises(SourceFailed):
            self.read(payload, connect)

    def test_a_damaged_payload_is_found_across_a_cut(self, store: MemoryStore, payload: Payload) -> None:
        store.put(payload.path, DATA[:-1] + b"?")
        times = [1]
        with pytest.raises(IntegrityError):
            self.read(payload, lambda: DiesWhileReading(MemoryTransport(store), times=times))
