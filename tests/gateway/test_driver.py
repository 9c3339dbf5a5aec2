"""The driver: what a procedure is told of each error, what is repeated and what never is, and that nothing is left behind."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from gateway.handoff.connection import Patience
from gateway.handoff.driver import Driver
from protocol.hashes import DEFAULT_ALGORITHM
from protocol.operations import (
    Claim,
    Content,
    Delete,
    Fetch,
    MakeFolder,
    Operation,
    Outcome,
    Pause,
    Publish,
    ReadSmall,
    Scan,
    Stat,
    Store,
    Stored,
)
from tests.gateway.faulty import DiesWhileReading, DiesWhileWriting, LosesReply, Passing, Refuses
from tests.gateway.tools import Waits, driver_over, sha256
from transports import errors
from transports.base import Transport
from transports.errors import TransportError
from transports.memory import MemoryStore, MemoryTransport

CHANGES: dict[str, Operation[Outcome]] = {
    "publish": Publish("here", "there"),
    "claim": Claim("here", "there"),
    "delete": Delete("here"),
    "make_dir": MakeFolder("folder"),
}
LOOKS: dict[str, Operation[Any]] = {"stat": Stat("here"), "scan": Scan(""), "open_read": ReadSmall("here", 100)}


@pytest.fixture
def store() -> MemoryStore:
    store = MemoryStore()
    store.put("here", b"content")
    return store


@dataclass
class Endpoint:
    """An endpoint that is connected to again and again, each time through a transport of the given kind."""

    make: Callable[[], Passing]
    opened: list[Passing]

    def open(self) -> Passing:
        self.opened.append(self.make())
        return self.opened[-1]

    def calls(self, operation: str) -> int:
        return sum(1 for transport in self.opened for called, _ in transport.calls if called == operation)


def endpoint(make: Callable[[], Passing]) -> Endpoint:
    return Endpoint(make, [])


def names(store: MemoryStore) -> list[str]:
    return sorted(entry.name for entry in MemoryTransport(store).scan())


async def asked(operation: Operation[Any]) -> Any:
    """A procedure of one step."""
    return await operation


def one_step(driver: Driver, operation: Operation[Any]) -> Any:
    return driver.run(asked(operation))


@dataclass
class Bytes(Content):
    data: bytes = b"x" * 1000
    failure: BaseException | None = None

    def chunks(self) -> Iterator[bytes]:
        yield self.data
        if self.failure is not None:
            raise self.failure


def cannot_go_on(below: Transport) -> Passing:
    """A server that does not let a file be gone on with."""
    return Refuses(below, operation="resume", error=errors.Unsupported)


class TestChanges:
    @pytest.mark.parametrize("operation", CHANGES)
    @pytest.mark.parametrize(
        ("error", "outcome"),
        [
            (errors.NotFound, Outcome.GONE),
            (errors.AlreadyExists, Outcome.EXISTS),
            (errors.Busy, Outcome.BUSY),
            (errors.OutcomeUnknown, Outcome.UNKNOWN),
        ],
    )
    def test_what_a_procedure_tells_apart_comes_back_as_a_value(
        self, store: MemoryStore, operation: str, error: type[TransportError], outcome: Outcome
    ) -> None:
        at = endpoint(lambda: Refuses(MemoryTransport(store), operation=operation, error=error))
        assert one_step(driver_over(at.open), CHANGES[operation]) is outcome
        assert at.calls(operation) == 1, "it is never repeated by itself"

    @pytest.mark.parametrize("operation", CHANGES)
    @pytest.mark.parametrize(
        "error",
        [
            errors.Denied,
            errors.NoSpace,
            errors.CrossVolume,
            errors.Unsupported,
            errors.UnsafePath,
            errors.ServerFailure,
            errors.AuthenticationFailed,
            errors.HostKeyRejected,
            errors.ShareNotFound,
        ],
    )
    def test_whatever_else_goes_wrong_passes_through_the_procedure(
        self, store: MemoryStore, operation: str, error: type[TransportError]
    ) -> None:
        at = endpoint(lambda: Refuses(MemoryTransport(store), operation=operation, error=error))
        with pytest.raises(error):
            one_step(driver_over(at.open), CHANGES[operation])
        assert at.calls(operation) == 1

    @pytest.mark.parametrize("operation", CHANGES)
    def test_a_change_that_was_never_begun_is_asked_again_over_a_new_connection(
        self, store: MemoryStore, operation: str
    ) -> None:
        times = [2]
        at = endpoint(lambda: Refuses(MemoryTransport(store), operation=operation, times=times))
        waits = Waits()
        assert one_step(driver_over(at.open, waits), CHANGES[operation]) is Outcome.DONE
        assert (len(at.opened), at.calls(operation), len(waits.asked)) == (3, 3, 2)
        assert [transport.closed for transport in at.opened] == [True, True, False]

    @pytest.mark.parametrize("operation", CHANGES)
    @pytest.mark.parametrize("before", [True, False], ids=["the request was lost", "the reply was lost"])
    def test_a_lost_reply_is_told_and_nothing_is_repeated(self, store: MemoryStore, operation: str, before: bool) -> None:
        at = endpoint(lambda: LosesReply(MemoryTransport(store), operation=operation, before=before))
        driver = driver_over(at.open)
        unchanged = names(store)
        assert one_step(driver, CHANGES[operation]) is Outcome.UNKNOWN
        assert at.calls(operation) == 1
        assert (names(store) == unchanged) is before
        assert at.opened[0].closed
        one_step(driver, Scan(""))
        assert len(at.opened) == 2, "the next look goes over a new connection"


class TestLooks:
    @pytest.mark.parametrize("operation", LOOKS)
    def test_a_look_is_repeated_over_a_new_connection(self, store: MemoryStore, operation: str) -> None:
        times = [3]
        at = endpoint(lambda: Refuses(MemoryTransport(store), operation=operation, times=times))
        assert one_step(driver_over(at.open), LOOKS[operation])
        assert len(at.opened) == 4

    @pytest.mark.parametrize("operation", LOOKS)
    def test_patience_ends(self, store: MemoryStore, operation: str) -> None:
        at = endpoint(lambda: Refuses(MemoryTransport(store), operation=operation))
        waits = Waits()
        with pytest.raises(errors.Unreachable):
            one_step(driver_over(at.open, waits, Patience(attempts=4)), LOOKS[operation])
        assert (len(at.opened), len(waits.asked)) == (4, 3)
        assert all(transport.closed for transport in at.opened)

    @pytest.mark.parametrize("operation", LOOKS)
    @pytest.mark.parametrize("error", [errors.Denied, errors.Busy, errors.AuthenticationFailed, errors.ServerFailure])
    def test_what_another_connection_cannot_mend_is_not_repeated(
        self, store: MemoryStore, operation: str, error: type[TransportError]
    ) -> None:
        at = endpoint(lambda: Refuses(MemoryTransport(store), operation=operation, error=error))
        with pytest.raises(error):
            one_step(driver_over(at.open), LOOKS[operation])
        assert at.calls(operation) == 1

    def test_what_is_not_there_is_no_error(self, store: MemoryStore) -> None:
        driver = driver_over(lambda: MemoryTransport(store))
        assert one_step(driver, Stat("nope")) is None
        assert one_step(driver, Scan("nope")) == ()
        assert one_step(driver, ReadSmall("nope", 10)) is None
        assert one_step(driver, Fetch("nope", DEFAULT_ALGORITHM)) is None

    def test_a_small_file_is_read_one_byte_beyond_its_limit(self, store: MemoryStore) -> None:
        store.put("large", b"y" * 5000)
        driver = driver_over(lambda: MemoryTransport(store))
        assert one_step(driver, ReadSmall("large", 1000)) == b"y" * 1001
        assert one_step(driver, ReadSmall("large", 5000)) == b"y" * 5000

    def test_pauses_grow_and_are_left_to_the_clock(self) -> None:
        waits = Waits()
        driver = driver_over(lambda: MemoryTransport(MemoryStore()), waits)
        for attempt in range(1, 40):
            one_step(driver, Pause(attempt))
        assert len(waits.asked) == 39
        assert max(waits.asked) <= 5
        assert max(waits.asked[:2]) <= 0.2


class TestStore:
    def test_what_was_stored_is_told_in_size_and_hash(self, store: MemoryStore) -> None:
        driver = driver_over(lambda: MemoryTransport(store))
        stored = one_step(driver, Store("new", Bytes(b"abc"), DEFAULT_ALGORITHM))
        assert stored == Stored(3, sha256(b"abc"))
        assert driver.made == {"new"}

    def test_a_name_that_is_taken_is_no_error_and_is_left_alone(self, store: MemoryStore) -> None:
        driver = driver_over(lambda: MemoryTransport(store))
        assert one_step(driver, Store("here", b"other", DEFAULT_ALGORITHM)) is None
        assert one_step(driver, ReadSmall("here", 100)) == b"content"
        assert driver.made == set()

    @pytest.mark.parametrize("failure", [OSError("the source"), errors.Denied("read"), KeyboardInterrupt()])
    def test_a_file_whose_source_fails_is_taken_away(self, store: MemoryStore, failure: BaseException) -> None:
        driver = driver_over(lambda: MemoryTransport(store))
        with pytest.raises(type(failure)):
            one_step(driver, Store("new", Bytes(failure=failure), DEFAULT_ALGORITHM))
        assert names(store) == ["here"]
        assert driver.made == set()

    def test_a_full_disk_leaves_nothing(self) -> None:
        store = MemoryStore(limit=100)
        driver = driver_over(lambda: MemoryTransport(store))
        with pytest.raises(errors.NoSpace):
            one_step(driver, Store("new", Bytes(), DEFAULT_ALGORITHM))
        assert names(store) == []

    def test_an_unfinished_file_is_taken_away_over_a_new_connection(self, store: MemoryStore) -> None:
        transports = iter([DiesWhileWriting(MemoryTransport(store)), cannot_go_on(MemoryTransport(store))])
        driver = driver_over(lambda: next(transports))
        with pytest.raises(errors.Unreachable) as caught:
            one_step(driver, Store("new", Bytes(), DEFAULT_ALGORITHM))
        assert names(store) == ["here"]
        assert driver.made == set()
        assert caught.value.__notes__ == ["and it could not be gone on with: resume 'new': so the test says"]

    def test_an_unfinished_file_that_stays_is_told_and_remembered(self, store: MemoryStore) -> None:
        no_delete = cannot_go_on(Refuses(MemoryTransport(store), operation="delete"))
        transports = iter([DiesWhileWriting(MemoryTransport(store)), *[no_delete] * 9])
        driver = driver_over(lambda: next(transports))
        with pytest.raises(errors.Unreachable) as caught:
            one_step(driver, Store("new", Bytes(), DEFAULT_ALGORITHM))
        assert "and the unfinished new could not be removed" in caught.value.__notes__[-1]
        assert driver.made == {"new"}, "what is there may be taken away later, and nothing else may"

    def test_after_an_interrupt_the_old_connection_is_not_used_again(self, store: MemoryStore) -> None:
        at = endpoint(lambda: Passing(MemoryTransport(store)))
        with pytest.raises(KeyboardInterrupt):
            one_step(driver_over(at.open), Store("new", Bytes(failure=KeyboardInterrupt()), DEFAULT_ALGORITHM))
        assert names(store) == ["here"]
        assert at.opened[0].calls == [("create", "new")]
        assert ("delete", "new") in at.opened[1].calls

    def test_a_request_to_make_a_file_that_was_lost_is_made_again(self, store: MemoryStore) -> None:
        strikes = [0]
        at = endpoint(lambda: LosesReply(MemoryTransport(store), operation="create", before=True, strikes=strikes))
        assert one_step(driver_over(at.open), Store("new", Bytes(), DEFAULT_ALGORITHM)) == Stored(1000, sha256(b"x" * 1000))
        assert len(at.opened) == 2

    def test_a_lost_reply_to_the_making_is_told_with_what_may_be_there(self, store: MemoryStore) -> None:
        strikes = [0]
        at = endpoint(lambda: LosesReply(MemoryTransport(store), operation="create", strikes=strikes))
        driver = driver_over(at.open)
        with pytest.raises(errors.OutcomeUnknown) as caught:
            one_step(driver, Store("new", Bytes(), DEFAULT_ALGORITHM))
        assert caught.value.__notes__ == ["an empty file new may be there; nobody reads it"]
        assert driver.made == set(), "it may be somebody else's, so it is not ours to take away"
        assert driver.doubtful == {"new"}

    def test_a_server_that_loses_every_reply_is_not_asked_for_ever(self, store: MemoryStore) -> None:
        at = endpoint(lambda: LosesReply(MemoryTransport(store), operation="create", before=True))
        with pytest.raises(errors.OutcomeUnknown):
            one_step(driver_over(at.open), Store("new", Bytes(), DEFAULT_ALGORITHM))
        assert at.calls("create") == 3


@dataclass
class Received:
    data: bytes = b""

    def write(self, data: bytes) -> None:
        self.data += data


class TestFetch:
    def test_a_hash_is_asked_for_again_over_a_new_connection(self, store: MemoryStore) -> None:
        times = [2]
        driver = driver_over(lambda: DiesWhileReading(MemoryTransport(store), times=times))
        assert one_step(driver, Fetch("here", DEFAULT_ALGORITHM)) == Stored(7, sha256(b"content"))

    def test_what_a_receiver_was_given_is_not_given_again(self, store: MemoryStore) -> None:
        received = Received()
        times = [1]
        driver = driver_over(lambda: DiesWhileReading(MemoryTransport(store), times=times))
        assert one_step(driver, Fetch("here", DEFAULT_ALGORITHM, received)) == Stored(7, sha256(b"content"))
        assert received.data == b"content"


class TestConnecting:
    def test_the_first_connection_is_tried_once(self) -> None:
        waits = Waits()

        def nobody() -> Passing:
            raise errors.Unreachable("connect", "", "refused")

        with pytest.raises(errors.Unreachable):
            one_step(driver_over(nobody, waits), Stat("here"))
        assert waits.asked == [], "a wrong address is told at once"

    def test_a_connection_is_made_when_it_is_needed_and_kept(self, store: MemoryStore) -> None:
        at = endpoint(lambda: Passing(MemoryTransport(store)))
        driver = driver_over(at.open)
        assert at.opened == []
        one_step(driver, Stat("here"))
        one_step(driver, Stat("here"))
        assert len(at.opened) == 1
        driver.connection.close()
        driver.connection.close()
        assert at.opened[0].closed

    def test_an_interrupt_is_thrown_into_the_procedure_and_ends_the_connection(self, store: MemoryStore) -> None:
        class Interrupts(Passing):
            """Ctrl-C comes while an answer is waited for."""

            def around(self, operation: str, path: str, call: Callable[[], object]) -> object:
                raise KeyboardInterrupt

        cleaned = []

        async def procedure() -> None:
            try:
                await Stat("here")
            finally:
                cleaned.append("up")

        at = endpoint(lambda: Interrupts(MemoryTransport(store)))
        with pytest.raises(KeyboardInterrupt):
            driver_over(at.open).run(procedure())
        assert cleaned == ["up"]
        assert at.opened[0].closed
