"""A route publishes each item at its destination exactly once, whatever dies in between, and blames whom it should."""

import json
import os
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from gateway.drop import Drop
from gateway.errors import DeliveryFailed
from gateway.handoff.connection import Connection, Patience
from gateway.handoff.consumer import Delivery
from gateway.handoff.producer import Outgoing, Producer
from gateway.service.routes import Forward
from protocol.layout import FolderLayout
from protocol.names import Grammar, ItemId
from protocol.procedures.look import find_item
from protocol.rules import Rules, Signal
from protocol.states import State
from testenv.proxy import Proxy
from testenv.servers import SftpServer, SmbServer
from tests.gateway.faulty import LosesReply, Passing, Refuses, StoresOneByteLess
from tests.gateway.tools import (
    GROUP,
    Taken,
    consume,
    consumer_of,
    driver_over,
    drop_at,
    hand_over,
    manifest,
    names,
    put,
    reason,
    sha256,
)
from transports import errors
from transports.connect import connect
from transports.endpoint import Endpoint, Timeouts
from transports.local.transport import LocalTransport
from transports.memory import MemoryStore, MemoryTransport

STEM = "orders_0000000001"
CSV, TOKEN = f"{STEM}.csv", f"{STEM}.manifest.json"


@pytest.fixture
def there(tmp_path: Path) -> Path:
    """The destination's folder."""
    path = tmp_path / "there"
    path.mkdir()
    return path


def forward(source: Drop, destination: Drop, taken: Taken | None = None, **settings: Any) -> Taken:
    """One round of a route."""
    taken = taken or Taken()
    with destination.producer() as producer:
        consume(source, taken, Forward(producer), **settings)
    return taken


def over(transport: Callable[[], Passing]) -> Forward:
    """The handler of a route to an endpoint with a fault."""
    return Forward(Producer(driver_over(transport), Rules(), "host-1-abc"))


@dataclass
class CutAfter:
    """A gateway that dies between publishing at the destination and completing at the source."""

    forward: Forward
    died: bool = False

    def __call__(self, delivery: Delivery) -> None:
        self.forward(delivery)
        if not self.died:
            self.died = True
            raise SystemExit("killed")


def test_an_item_keeps_its_number_its_key_and_all_that_is_known_of_it(folder: Path, there: Path) -> None:
    record = manifest(CSV, b"content")["files"][0] | {"source_name": "März.csv", "records": 7}
    hand_over(folder, 1, b"content", files=[record], meta={"a": [1, {"b": None}]}, key="order 4711")
    taken = forward(drop_at(folder), drop_at(there))
    assert taken.results == ["processed"]
    assert taken.events[0].outcome == f"published as {TOKEN}"
    assert names(folder) == [f"A_{CSV}", f"A_{TOKEN}"]
    assert names(there) == [CSV, TOKEN]
    assert (there / CSV).read_bytes() == b"content"
    arrived = json.loads((there / TOKEN).read_bytes())
    sent = json.loads((folder / f"A_{TOKEN}").read_bytes())
    arrived.pop("created"), sent.pop("created")
    assert arrived == sent


def test_a_payload_is_read_once_and_never_again_to_be_hashed(folder: Path, there: Path) -> None:
    hand_over(folder, 1, b"x" * 1_000_000)
    with drop_at(there).producer() as producer, consumer_of(drop_at(folder), Taken(), Forward(producer)) as consumer:
        source, destination = Passing(consumer.driver.connection.use()), Passing(producer.driver.connection.use())
        consumer.driver.connection._transport, producer.driver.connection._transport = source, destination
        consumer.sweep_once(threading.Event())
    assert [path for operation, path in source.calls if operation == "open_read"].count(CSV) == 1
    assert [path for operation, path in destination.calls if operation == "open_read"] == []


@pytest.mark.parametrize("layout", ["prefix", "folders"])
@pytest.mark.parametrize("destination_signal", Signal)
@pytest.mark.parametrize("source_signal", Signal)
def test_cut_between_publishing_and_completing_it_is_published_once(
    folder: Path, there: Path, source_signal: Signal, destination_signal: Signal, layout: str
) -> None:
    source = drop_at(folder, Rules(signal=source_signal))
    rules = Rules(FolderLayout(), destination_signal) if layout == "folders" else Rules(signal=destination_signal)
    with source.producer() as producer:
        producer.send([Outgoing(put(folder.parent, "x.csv", b"content"))], group=GROUP)
    with drop_at(there, rules).producer() as producer:
        cut = CutAfter(Forward(producer))
        with pytest.raises(SystemExit):
            consume(source, Taken(), cut)
        published = {name: (there / name).stat().st_ino for name in names(there)}
        taken = Taken()
        consume(source, taken, cut)
    assert taken.results == ["processed"]
    assert taken.events[0].outcome == "was published before"
    assert {name: (there / name).stat().st_ino for name in names(there)} == published, "the very files of the first time"


@pytest.mark.parametrize("state", [State.CLAIMED, State.DONE, State.AFTER, State.ERROR])
def test_what_was_taken_on_meanwhile_counts_as_published(folder: Path, there: Path, state: State) -> None:
    hand_over(folder, 1)
    with drop_at(there).producer() as producer:
        cut = CutAfter(Forward(producer))
        with pytest.raises(SystemExit):
            consume(drop_at(folder), Taken(), cut)
        mark = "C_next-1-x_" if state is State.CLAIMED else f"{state.value}_"
        for name in (CSV, TOKEN):
            if name == TOKEN or state is not State.CLAIMED:
                (there / name).rename(there / f"{mark}{name}")
        before = names(there)
        taken = Taken()
        consume(drop_at(folder), taken, cut)
    assert taken.events[0].outcome == "was published before"
    assert names(there) == before


class TestNumberInUse:
    def test_another_item_under_the_number_is_left_alone(self, folder: Path, there: Path) -> None:
        hand_over(folder, 1, b"ours")
        hand_over(there, 1, b"somebody else's", key="another hand-off")
        before = {name: (there / name).read_bytes() for name in names(there)}
        taken = Taken()
        for _ in range(2):
            forward(drop_at(folder), drop_at(there), taken)
        assert taken.results == ["returned", "returned"]
        assert "number 0000000001 of group 'orders_' is in use at the destination by another item" in taken.events[0].error
        forward(drop_at(folder), drop_at(there), taken, max_attempts=1)
        assert taken.results[-1] == "failed"
        assert "in use at the destination" in reason(folder, STEM)["error"]
        assert {name: (there / name).read_bytes() for name in names(there)} == before

    @pytest.mark.parametrize("signal", [Signal.CHECKSUM, Signal.NONE])
    def test_without_keys_the_content_tells_them_apart(self, folder: Path, there: Path, signal: Signal) -> None:
        for place, content in ((folder, b"ours"), (there, b"other")):
            with drop_at(place, Rules(signal=signal)).producer() as producer:
                producer.send([Outgoing(put(folder.parent, "x.csv", content))], group=GROUP)
        taken = forward(drop_at(folder, Rules(signal=signal)), drop_at(there, Rules(signal=signal)))
        assert taken.results == ["returned"]
        assert (there / CSV).read_bytes() == b"other"

    def test_an_unfinished_one_of_somebody_else_is_left_alone(self, folder: Path, there: Path) -> None:
        hand_over(folder, 1)
        other = hand_over(folder, 2)
        put(there, f"B_{CSV}", b"being written")
        taken = Taken()
        for _ in range(3):
            forward(drop_at(folder), drop_at(there), taken, max_attempts=1)
        assert Counter(taken.results) == {"returned": 3, "processed": 1}, "waiting is no attempt, and others are not held up"
        assert names(there) == sorted([f"B_{CSV}", f"{other}.csv", f"{other}.manifest.json"])

    def test_a_number_that_does_not_fit_the_destination(self, folder: Path, there: Path) -> None:
        stem = hand_over(folder, 12345)
        taken = forward(drop_at(folder), drop_at(there, Rules(FolderLayout(Grammar(4)))))
        assert taken.results == ["returned"]
        assert "number 12345 does not fit 4 digits" in taken.events[0].error
        assert names(folder) == [f"{stem}.csv", f"{stem}.manifest.json"]


class TestCutPublications:
    @pytest.mark.parametrize("renamed", [0, 1])
    def test_one_cut_between_its_renames_is_finished(self, folder: Path, there: Path, renamed: int) -> None:
        hand_over(folder, 1, b"content", key="k")
        hand_over(there, 1, b"content", key="k")
        for name in (CSV, TOKEN)[renamed:]:
            (there / name).rename(there / f"B_{name}")
        taken = forward(drop_at(folder), drop_at(there))
        assert taken.results == ["processed"]
        assert names(there) == [CSV, TOKEN]

    def test_one_that_was_cut_before_its_token_is_not_taken_for_complete(self, folder: Path, there: Path) -> None:
        hand_over(folder, 1, b"content", key="k")
        put(there, f"B_{CSV}", b"cont")
        put(there, f"B_{TOKEN}", json.dumps(manifest(CSV, b"content", key="k")).encode()[:-20])
        taken = forward(drop_at(folder), drop_at(there))
        assert taken.results == ["returned"]
        assert names(there) == [f"B_{CSV}", f"B_{TOKEN}"]


class TestHashes:
    @pytest.mark.parametrize(("source", "destination"), [("sha256", "blake2b"), ("sha512", "sha256"), ("sha256", "sha256")])
    def test_each_drop_has_its_own_algorithm(self, folder: Path, there: Path, source: str, destination: str) -> None:
        with drop_at(folder, Rules(algorithm=source)).producer() as producer:
            producer.send([Outgoing(put(folder.parent, "x.csv", b"content"))], group=GROUP)
        taken = forward(drop_at(folder, Rules(algorithm=source)), drop_at(there, Rules(algorithm=destination)))
        assert taken.results == ["processed"]
        assert json.loads((there / TOKEN).read_bytes())["files"][0]["hash"].startswith(f"{destination}:")

    @pytest.mark.parametrize("algorithm", ["sha256", "blake2b"])
    def test_a_damaged_item_stays_at_its_source(self, folder: Path, there: Path, algorithm: str) -> None:
        hand_over(folder, 1, b"damaged", files=[manifest(CSV, b"changed")["files"][0]])
        taken = forward(drop_at(folder), drop_at(there, Rules(algorithm=algorithm)))
        assert taken.results == ["failed"]
        assert names(folder) == [f"E_{CSV}", f"E_{TOKEN}", f"E_{STEM}.reason.json"]
        assert names(there) == []

    def test_a_payload_that_shrinks_while_it_is_read_stays_at_its_source(self, folder: Path, there: Path) -> None:
        hand_over(folder, 1, b"x" * 1_000_000)

        def shrink(_: int) -> None:
            os.truncate(folder / CSV, 300_000)

        taken = Taken()
        with drop_at(there).producer() as producer:
            consume(drop_at(folder), taken, Forward(producer, shrink))
        assert taken.results == ["failed"]
        assert "became shorter while it was read" in reason(folder, STEM)["error"]
        assert names(there) == []


class TestBlame:
    """Whose fault a failure is decides what becomes of the item."""

    @pytest.mark.parametrize("operation", ["create", "publish", "scan", "stat"])
    @pytest.mark.parametrize("error", [errors.Denied, errors.NoSpace, errors.Unreachable, errors.AuthenticationFailed])
    def test_a_destination_that_fails_gives_the_item_back(
        self, folder: Path, operation: str, error: type[errors.TransportError]
    ) -> None:
        hand_over(folder, 1)
        handler = over(lambda: Refuses(MemoryTransport(MemoryStore()), operation=operation, error=error))
        taken = Taken()
        for _ in range(2):
            with pytest.raises(DeliveryFailed, match=r"the destination failed: .*so the test says"):
                consume(drop_at(folder), taken, handler, max_attempts=1)
        assert taken.results == ["returned"] * 2
        assert names(folder) == [CSV, TOKEN]

    def test_a_file_that_is_held_open_at_the_destination_gives_the_item_back(self, folder: Path) -> None:
        hand_over(folder, 1)
        store = MemoryStore()
        busy = Refuses(MemoryTransport(store), operation="publish", error=errors.Busy)
        producer = Producer(driver_over(lambda: busy), Rules(busy_patience=1), "host-1-abc")
        with pytest.raises(DeliveryFailed, match="is held open by somebody, for longer than 1 s"):
            consume(drop_at(folder), Taken(), Forward(producer), max_attempts=1)
        assert names(folder) == [CSV, TOKEN]
        assert [entry.name for entry in MemoryTransport(store).scan()] == []

    def test_a_destination_that_stores_less_than_it_says_gives_the_item_back(self, folder: Path) -> None:
        hand_over(folder, 1)
        store = MemoryStore()
        with pytest.raises(DeliveryFailed, match="were written and acknowledged, and the server has"):
            consume(drop_at(folder), Taken(), over(lambda: StoresOneByteLess(MemoryTransport(store))), max_attempts=1)
        assert names(folder) == [CSV, TOKEN]
        assert [entry.name for entry in MemoryTransport(store).scan()] == []

    @pytest.mark.parametrize("before", [True, False], ids=["the request was lost", "the reply was lost"])
    @pytest.mark.parametrize("strike", [0, 1])
    def test_a_lost_reply_at_the_destination(self, folder: Path, there: Path, strike: int, before: bool) -> None:
        hand_over(folder, 1)
        strikes = [strike]
        handler = over(lambda: LosesReply(LocalTransport(str(there)), operation="publish", before=before, strikes=strikes))
        taken = Taken()
        consume(drop_at(folder), taken, handler)
        assert taken.results == ["processed"]
        assert names(there) == [CSV, TOKEN]

    @pytest.mark.parametrize("kind", ["sftp", "smb"])
    def test_a_full_destination_keeps_nothing_and_the_item_goes_back(
        self, request: pytest.FixtureRequest, folder: Path, kind: str
    ) -> None:
        server: SftpServer | SmbServer = request.getfixturevalue(f"{kind}_server")
        endpoint = server.endpoint(server.full)
        hand_over(folder, 1, os.urandom(2 * 1024 * 1024))
        taken = Taken()
        with pytest.raises(DeliveryFailed, match="the destination failed"):
            forward(drop_at(folder), drop_at(endpoint), taken)
        assert taken.results == ["returned"]
        snapshot = drop_at(endpoint).snapshot()
        assert snapshot.items == {}
        assert names(folder) == [CSV, TOKEN]


@dataclass
class Through:
    """A server with a proxy before it, and an empty folder on it."""

    proxy: Proxy
    endpoint: Endpoint
    local: Path


@pytest.fixture(params=["sftp", "smb"])
def through(request: pytest.FixtureRequest, proxy_factory: Callable[[str, int], Proxy]) -> Through:
    server: SftpServer | SmbServer = request.getfixturevalue(f"{request.param}_server")
    path: str = request.getfixturevalue(f"{request.param}_dir")
    proxy = proxy_factory(server.host, server.port)
    if isinstance(server, SftpServer):
        endpoint, local = server.endpoint(path, port=proxy.port), server.local(path)
    else:
        endpoint, local = server.endpoint("data", path, port=proxy.port), server.local("data", path)
    assert local is not None
    return Through(proxy, replace(endpoint, timeouts=Timeouts(5, 5)), local)


def until_settled(source: Drop, destination: Drop, disturb: Callable[[], None] | None = None) -> Taken:
    """Rounds of a route, by one process, until nothing is left to do; a service does the same."""
    taken = Taken()
    with destination.producer() as producer:
        if disturb is not None:
            disturb()
        with consumer_of(source, taken, Forward(producer), once=False) as consumer:
            for _ in range(12):
                try:
                    if not consumer.sweep_once(threading.Event()):
                        break
                except (DeliveryFailed, errors.ConnectionFailed, errors.OutcomeUnknown):
                    consumer.driver.connection.lost()
    return taken


class TestDyingServers:
    def test_a_destination_that_dies_midway_and_comes_back(self, folder: Path, through: Through) -> None:
        data = os.urandom(3_000_000)
        hand_over(folder, 1, data)
        through.proxy.cut_reply_after(1_000_000)
        taken = until_settled(drop_at(folder), drop_at(through.endpoint))
        assert through.proxy.replies_cut == 1, "the transfer was cut indeed"
        assert taken.results[-1] == "processed"
        assert names(through.local) == [CSV, TOKEN]
        assert (through.local / CSV).read_bytes() == data
        assert names(folder) == [f"A_{CSV}", f"A_{TOKEN}"]

    @pytest.mark.parametrize("patient", [True, False], ids=["goes on", "given back"])
    def test_a_source_that_dies_midway_and_comes_back(self, there: Path, through: Through, patient: bool) -> None:
        data = os.urandom(20_000_000)  # far more than is read ahead: the cut falls into the midst of it
        hand_over(through.local, 1, data)
        cut = threading.Event()

        def once(_: int) -> None:
            if not cut.is_set():
                cut.set()
                through.proxy.cut()

        taken = Taken()
        with drop_at(there).producer() as producer:
            source = drop_at(through.endpoint)
            with consumer_of(source, taken, Forward(producer, once), once=False) as consumer:
                if not patient:
                    at_once = Patience(attempts=1)
                    consumer.driver.connection = Connection(lambda: connect(source.endpoint), source.clock, at_once)
                    with pytest.raises(errors.ConnectionFailed):
                        consumer.sweep_once(threading.Event())
                    assert names(there) == []
                    assert names(through.local) == [CSV, TOKEN], "given back over a new connection"
                consumer.sweep_once(threading.Event())
        assert cut.is_set()
        assert taken.results == (["processed"] if patient else ["returned", "processed"])
        assert (there / CSV).read_bytes() == data

    def test_wherever_a_destination_is_cut_the_item_arrives_once(self, folder: Path, through: Through) -> None:
        """Bytes sent before the reply is lost: while logging in again, while writing, in the renames."""
        drop = drop_at(through.endpoint)
        for number, sent in enumerate((50, 400, 900, 1_400, 2_000, 2_600, 3_500, 5_000), start=1):
            hand_over(folder, number, b"content %d" % number, key=f"key {number}")
            taken = until_settled(drop_at(folder), drop, partial(through.proxy.cut_reply_after, sent))
            through.proxy.heal()
            assert taken.results[-1] == "processed", sent
        with drop.driver() as driver:
            for number in range(1, 9):
                found = driver.run(find_item(drop.rules, ItemId(GROUP, number)))
                assert {(name.suffix, name.state) for name in found} == {("csv", State.READY), ("manifest.json", State.READY)}
        for number in range(1, 9):
            assert sha256((through.local / f"orders_{number:010}.csv").read_bytes()) == sha256(b"content %d" % number)

    def test_an_item_crosses_volumes(self, sftp_server: SftpServer, sftp_dir: str) -> None:
        local = sftp_server.local(sftp_dir)
        assert local is not None
        hand_over(local, 1, b"content")
        other = drop_at(sftp_server.endpoint(sftp_server.other))
        taken = forward(drop_at(sftp_server.endpoint(sftp_dir)), other)
        assert taken.results == ["processed"]
        with other.consumer((GROUP,), taken, taken.report, once=True) as consumer:
            consumer.sweep_once(threading.Event())
        assert taken.contents == [(CSV, b"content")]
