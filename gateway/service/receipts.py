"""The carrier of a route: brings the receipts of its destinations back to its source, beside the items' after images.

    destination   list, read what is new                          A_x.receipt.json, E_x.receipt.json
    source        list, merge, write                              A_x.receipt.json: one entry a destination
    next round    what is there says all of it: it is noted in the book, and not looked at again until either end changes

Cut anywhere, the next round finds out what is there and goes on: a receipt that says the same is not written again. The
book only spares the reading; without it everything is read once more.
"""

import contextlib
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

import structlog

from gateway.drop import Drop
from gateway.errors import GatewayError
from gateway.handoff.clock import Backoff, Clock
from gateway.handoff.connection import Patience
from gateway.handoff.driver import Driver
from gateway.handoff.ledger.base import Ledger
from gateway.handoff.owner import new_owner
from gateway.service.answers import Answers, Images, merged, says_the_same, stamp
from gateway.service.telling import Teller
from protocol.errors import InvalidManifest, InvalidReceipt, ProtocolError
from protocol.ledger import LedgerState
from protocol.manifest import LARGEST as LARGEST_MANIFEST
from protocol.manifest import parse_manifest
from protocol.names import RECEIPT_SUFFIX, FileKind, ItemId, Name
from protocol.operations import ReadSmall
from protocol.procedures.look import snapshot
from protocol.procedures.write_receipt import Writing, Wrote, replace_receipt, write_receipt
from protocol.receipt import LARGEST, Answer, Receipt, format_receipt, parse_receipt
from protocol.rules import Signal
from protocol.states import State
from transports.errors import Busy, ServerFailure, TransportError

log: structlog.stdlib.BoundLogger = structlog.get_logger("dropgate")

_SHARE = 0.1  # of the time, at most, for looking at large drops in which nothing is new
_LONGEST_REST = 5.0  # seconds between two looks while nothing comes, unless the route itself looks less often
_MISSED = 60.0  # seconds after which an item that is not to be seen at the source is looked for by its name
_OF_ONE_ITEM = (Busy, ServerFailure, ProtocolError)


@dataclass(slots=True)
class Carrier:
    """Carries receipts for one route, in a thread of its own once it is started; or round by round, by its caller's.

    `others` are the destinations that send none. `open_now` says whether receipts may be carried just now.
    """

    source: Drop
    sending: tuple[Answers, ...]
    others: tuple[str, ...]
    groups: tuple[str, ...]
    ledger: Ledger
    teller: Teller
    clock: Clock
    poll: float = 1.0
    opens_in: Callable[[], float] = lambda: 0.0
    backoff: Backoff = field(default_factory=lambda: Backoff(base=1.0, largest=60.0))
    _drivers: dict[str, Driver] = field(default_factory=dict)
    _stack: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)
    _stop: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None
    _images: Images | None = None
    _owner: str = ""
    _missed: dict[ItemId, float] = field(default_factory=dict)
    _troubles: dict[str, str] = field(default_factory=dict)

    def start(self) -> None:
        """Begins, in the background. Whatever its ends meet, it goes on until `close`."""
        self._thread = threading.Thread(target=self._run, name=f"receipts {self.teller.route}", daemon=True)
        self._thread.start()

    def close(self, timeout: float = 10.0) -> None:
        """Ends it, and its connections. One that waits for a server is left behind after `timeout` seconds."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(timeout)
            if self._thread.is_alive():
                return
        self._stack.close()
        self._drivers.clear()

    def _run(self) -> None:
        idle = failures = 0
        while not self._stop.is_set():
            if (closed := self.opens_in()) > 0:
                self._stop.wait(min(closed, _LONGEST_REST))
                continue
            begun = self.clock.monotonic()
            carried = self.round()
            took = self.clock.monotonic() - begun
            failures = failures + 1 if self._troubles else 0
            idle = 0 if carried else idle + 1
            rest = min(self.poll * 2.0 ** min(idle, 10), max(self.poll, _LONGEST_REST))
            if failures:
                rest = max(rest, self.backoff.delay(failures, self.clock))
            self._stop.wait(rest if carried else max(rest, took / _SHARE))

    def round(self) -> int:
        """One look at every end, and what follows from it; how many receipts were written or settled. Raises nothing.

        An end that is away is told of once, and does not keep the others' receipts waiting.
        """
        for answers in self.sending:
            self._guarded(answers.name, answers.drop, answers.look)
        carried = 0

        def write(driver: Driver) -> None:
            nonlocal carried
            carried = self._carry(driver)

        self._guarded("", self.source, write)
        return carried

    def _guarded(self, name: str, drop: Drop, work: Callable[[Driver], None]) -> None:
        """Runs work over the connection to one end, and tells of trouble once while it lasts. `name` "" is the source."""
        where = name or self.teller.source
        try:
            if name not in self._drivers:
                self._drivers[name] = self._stack.enter_context(drop.driver(self.ledger, Patience(attempts=2)))
            work(self._drivers[name])
            # Two ends may be one server that takes only so many connections.
            self._drivers[name].connection.rest()
        except Exception as error:  # noqa: BLE001 - told; a carrier that ends would leave producers waiting for good
            if name in self._drivers:
                self._drivers[name].connection.lost()
            if self._troubles.get(where) != str(error):
                known = isinstance(error, TransportError | ProtocolError | GatewayError)
                text = str(error) if known else f"a fault of dropgate itself, please report it: {type(error).__name__}: {error}"
                log.warning("receipts cannot be carried, trying again", route=self.teller.route, drop=where, error=text)
            self._troubles[where] = str(error)
        else:
            self._troubles.pop(where, None)

    # At the source.

    def _carry(self, driver: Driver) -> int:
        """Writes what has come, settles what is there, and finds out whose receipts were replaced since."""
        rules = self.source.rules
        tokens: set[ItemId] = set()
        receipts: dict[ItemId, str] = {}
        self._images = self._images or Images(rules, self.groups)
        for name, listed in driver.run(self._images.listed("*", State.AFTER)):
            if rules.is_token(name.kind) and not name.again:
                tokens.add(name.item)
            elif name.kind is FileKind.RECEIPT and not name.again:
                receipts[name.item] = stamp(listed)
        for answers in self.sending:
            changed = {of for _, of, was in answers.known.values() if of in tokens and receipts.get(of) != was}
            for item in changed:
                if item is not None:
                    answers.again(item)
        carried = 0
        came = self._by_source()
        self._settle_gone(driver, {source: answered for source, answered in came.items() if source not in tokens})
        for source, answered in came.items():
            if source not in tokens:
                continue
            try:
                carried += self._write(driver, source, answered, receipts.get(source, ""))
            except _OF_ONE_ITEM as error:
                log.warning(
                    "a receipt could not be carried", route=self.teller.route, item=self._title(source), error=str(error)
                )
        return carried

    def _by_source(self) -> dict[ItemId, list[tuple[Answers, ItemId]]]:
        """What has come, by the item of the source that it belongs to; what is not of this route is settled."""
        found: dict[ItemId, list[tuple[Answers, ItemId]]] = {}
        for answers in self.sending:
            for item, told in list(answers.news.items()):
                source = answers.source_of(item, self.ledger)
                if source is None:
                    answers.settled(item, None, "", self.clock.utc())
                elif not any(receipt.complete for receipt in told.answers.values()):
                    # Not answered yet, or not to be read just now: it changes when it is.
                    answers.settled(item, None, "", self.clock.utc(), for_good=False)
                else:
                    found.setdefault(source, []).append((answers, item))
        return found

    def _settle_gone(self, driver: Driver, missing: dict[ItemId, list[tuple[Answers, ItemId]]]) -> None:
        """Items that are no after image now: on their way, or failed at the source; or nowhere, and nobody waits for them."""
        now = self.clock.monotonic()
        self._missed = {source: self._missed.get(source, now) for source in missing}
        due = [source for source, since in self._missed.items() if now - since >= _MISSED]
        if not due:
            return
        there = driver.run(snapshot(self.source.rules)).items
        for source in due:
            self._missed[source] = now
            for answers, item in missing[source] if source not in there else ():
                answers.settled(item, None, "", self.clock.utc())

    def _write(self, driver: Driver, source: ItemId, answered: list[tuple[Answers, ItemId]], seen: str) -> int:
        rules = self.source.rules
        at = Name(source, RECEIPT_SUFFIX, State.AFTER)
        data = driver.run(_read(rules.layout.path(at)))
        there = _parsed(data)
        key = there.key if there is not None else self._key(driver, source)
        new: dict[str, Receipt] = {}
        for answers, item in answered:
            receipt = self._answer(answers, item, key)
            if receipt is None:
                answers.settled(item, None, "", self.clock.utc())
            else:
                new[answers.name] = receipt
        if not new:
            return 0
        base = there or Receipt(item=self._title(source), key=key, outcome="forwarded", time=self.clock.utc())
        base = base.model_copy(update={"run": max(base.run, self._run_of(key))})
        names = tuple(answers.name for answers in self.sending)
        entries: dict[str, Answer] = {name: receipt.answer for name, receipt in new.items()}
        # As it will be read: a file holds only so much of a text.
        wanted = parse_receipt(format_receipt(merged(base, entries, names, self.others)))
        if there is not None and says_the_same(there, wanted):
            return self._settle(source, answered, seen)
        wanted = wanted.model_copy(update={"time": self.clock.utc()})
        writing = Writing(wanted, self._me())
        if data is None or there is None:
            wrote = driver.run(write_receipt(rules, at, writing)) is Wrote.THERE
        else:
            wrote = driver.run(replace_receipt(rules, at, writing, data))
        if not wrote:
            return 0  # somebody has it open, or writes there: the next round looks again
        for name, receipt in new.items():
            if there is None or there.destinations.get(name) != entries[name]:
                text = receipt.error if receipt.outcome == "failed" else receipt.result
                self.teller.receipt(source, key, name, f"{receipt.outcome}: {text}".removesuffix(": "))
        return 1

    def _settle(self, source: ItemId, answered: list[tuple[Answers, ItemId]], seen: str) -> int:
        if not seen:
            return 0  # written since the listing
        for answers, item in answered:
            if item in answers.news:
                answers.settled(item, source, seen, self.clock.utc())
        for answers in self.sending:
            answers.noted(source, seen)  # the other answers in it were noted with what it was before
        return 1

    def _answer(self, answers: Answers, item: ItemId, key: str) -> Receipt | None:
        """The answer to this hand-off among those of an item's number; None where the number is another item's there."""
        told = answers.news[item].answers
        if answers.drop.rules.signal is Signal.MANIFEST is self.source.rules.signal:
            receipt = told.get(key)
        else:
            receipt = next(iter(told.values()), None)  # one of the ends cannot say a key: the number tells
        return receipt if receipt is not None and receipt.complete else None

    def _key(self, driver: Driver, source: ItemId) -> str:
        """The key of an item at the source, by its manifest, where it has no receipt that could say it."""
        rules = self.source.rules
        if rules.signal is not Signal.MANIFEST:
            return ""
        token = Name(source, rules.token_suffix(""), State.AFTER)
        try:
            return parse_manifest(driver.run(_read(rules.layout.path(token), LARGEST_MANIFEST)) or b"").key
        except InvalidManifest:
            return ""

    def _run_of(self, key: str) -> int:
        """The run that the ledger knows to be over: a receipt that tells of an earlier one was replaced in a race."""
        entry = self.ledger.read(key) if key else None
        return 0 if entry is None or entry.state is LedgerState.STARTED else entry.generation

    def _me(self) -> str:
        self._owner = self._owner or new_owner(self.clock)
        return self._owner

    def _title(self, item: ItemId) -> str:
        return f"{item.group}{self.source.rules.grammar.digits(item.number)}"


async def _read(path: str, limit: int = LARGEST) -> bytes | None:
    return await ReadSmall(path, limit)


def _parsed(data: bytes | None) -> Receipt | None:
    try:
        return None if data is None else parse_receipt(data)
    except InvalidReceipt as error:
        if not error.torn:
            raise  # of a later version: it is left alone
        return None
