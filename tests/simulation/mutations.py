"""The rules of the procedures, each broken on purpose: what the simulator must find if it is worth anything.

A mutation is a patch of one procedure, in force while its context lasts. `seeds` are schedules that are known to find it.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import patch

from protocol.ledger import Entry, LedgerState
from protocol.names import CounterName, Name
from protocol.operations import Claim, Delete, Now, Outcome, Publish, ReadLedger, Scan, Stat, Store, WriteLedger
from protocol.procedures import claim as claiming
from protocol.procedures import consume as consuming
from protocol.procedures import finish, publish, rename, replay, sweep, take_number
from protocol.procedures.look import find_item
from protocol.recovery import FinishPublish, Unfinished
from protocol.rules import Rules
from protocol.states import State
from tests.simulation import actors, engine, simulation, world

Patches = Iterator[tuple[object, str, Any]]


@dataclass(frozen=True, slots=True)
class Mutation:
    """One rule broken. `rule` says which; `promises` are those of `promises.py` (or the world's) that it costs."""

    name: str
    rule: str
    patches: Callable[[], Patches]

    @contextmanager
    def applied(self) -> Iterator[None]:
        """While this lasts, the procedures are wrong."""
        with ExitStack() as stack:
            for target, name, value in self.patches():
                stack.enter_context(patch.object(target, name, value))
            yield


# More of what most rules are for: sleepers that wake up, lost replies, and people who ask again.
HARSH = simulation.Odds(lost=0.04, busy=0.02, killed=0.008, frozen=0.03, leap=0.006, replay=0.03, failing=0.15, most_kills=3)
# Nothing but sleepers, and people who ask again.
SLEEPY = simulation.Odds(lost=0.0, died=0.0, busy=0.0, killed=0.002, frozen=0.06, leap=0.0, jump=0.0, replay=0.06, failing=0.0)

_KNOWN: list[Mutation] = []


def _mutation(rule: str) -> Callable[[Callable[[], Patches]], Callable[[], Patches]]:
    def add(patches: Callable[[], Patches]) -> Callable[[], Patches]:
        _KNOWN.append(Mutation(patches.__name__.strip("_").replace("_", " "), rule, patches))
        return patches

    return add


@_mutation("every way out of a claim starts from exactly one's own claim name")
def _complete_without_fence() -> Patches:
    fence = finish._fence

    async def by_any_claim(rules: Rules, claimed: Name, to: Name) -> None:
        held = [n for n in await find_item(rules, claimed.item) if n.state is State.CLAIMED and n.suffix == claimed.suffix]
        await fence(rules, held[0] if held else claimed, to)

    yield finish, "_fence", by_any_claim


@_mutation("expiry never compares the clocks of two hosts")
def _reap_by_comparing_host_clocks() -> Patches:
    def by_host_clock(*, lease_modified: float, just_written: float, ttl: float, resolution: float) -> bool:
        return just_written - lease_modified + 5000.0 > ttl + resolution  # as a reader whose clock is ahead would reckon

    yield actors, "expired_by_server_clock", by_host_clock


@_mutation("payloads are renamed before the manifest, which is the publication")
def _manifest_published_before_payload() -> Patches:
    async def backwards(rules: Rules, draft: Any, item: Any, stored: Any, made: list[Name], sign: Any) -> None:
        await write(rules, draft, item, stored, made, sign)
        made.reverse()

    write = publish._write_token
    yield publish, "_write_token", backwards


@_mutation("a mutation whose reply was lost is looked after before it is repeated")
def _blind_retry_after_a_lost_reply() -> Patches:
    async def again(src: str, dst: str) -> Outcome:
        return Outcome.UNKNOWN  # "not made": it is asked for once more

    yield rename, "resolve_rename", again
    yield rename, "_doubtful", lambda outcome, *, unsure, shared: outcome is Outcome.UNKNOWN


@_mutation("a lost reply is no success")
def _lost_reply_read_as_success() -> Patches:
    async def success(src: str, dst: str) -> Outcome:
        return Outcome.DONE

    yield rename, "resolve_rename", success


@_mutation("a number is taken by the rename of the counter, which one of a crowd wins")
def _counter_by_list_and_add() -> Patches:
    async def list_and_add(rules: Rules, group: str, owner: str, *, count: int = 1, hint: int | None = None) -> int:
        found = [rules.grammar.parse_helper(entry.path) for entry in await Scan("", f"S_{group}*")]
        number = max((f.number for f in found if isinstance(f, CounterName)), default=1)
        await Store(rules.layout.counter(group, number + 1), b"", rules.algorithm)
        await Delete(rules.layout.counter(group, number))
        return number

    yield actors, "take_numbers", list_and_add


@_mutation("a lost reply to the counter's rename costs a number")
def _number_taken_although_the_reply_was_lost() -> Patches:
    class Optimist(Claim):
        __slots__ = ()

        def __await__(self) -> Any:
            outcome = yield Claim(self.src, self.dst)
            return Outcome.DONE if outcome is Outcome.UNKNOWN else outcome

    yield take_number, "Claim", Optimist


@_mutation("after the ledger was read, the worker looks whether the claim is still its own")
def _no_look_at_the_claim_after_reading_the_ledger() -> Patches:
    class Blind(Stat):
        __slots__ = ()

        def __await__(self) -> Any:
            yield from ()
            return True

    yield consuming, "Stat", Blind


@_mutation("the ledger is only written over what was read")
def _ledger_without_compare_and_set() -> Patches:
    def write(self: Any, drop: Any, operation: WriteLedger) -> bool:
        before = drop.promises.ledger.get(operation.key)
        drop.promises.ledger[operation.key] = operation.after
        drop.promises.wrote(operation.key, before, operation.after)
        return True

    yield engine.Engine, "_write_ledger", write


@_mutation("`done` is recorded before the item is completed")
def _no_done_record_before_completing() -> Patches:
    class Forgetful(WriteLedger):
        __slots__ = ()

        def __await__(self) -> Any:
            if self.after.state is LedgerState.DONE:
                yield from ()
                return True
            return (yield WriteLedger(self.key, self.before, self.after))

    yield consuming, "WriteLedger", Forgetful


@_mutation("no consumer renames a payload out of an after image")
def _payload_renamed_back_on_replay() -> Patches:
    locate = claiming._locate

    async def back(rules: Rules, name: Name, *rest: Any) -> Any:
        payload = await locate(rules, name, *rest)
        ready = rules.layout.path(name)
        if payload.path != ready and await Publish(payload.path, ready) is Outcome.DONE:
            payload = replace(payload, path=ready)
        return payload

    yield claiming, "_locate", back


@_mutation("a replay is begun in the ledger before its token is claimed")
def _replay_claimed_without_being_begun() -> Patches:
    async def claim_at_once(rules: Rules, token: Name, worker: Any, dead: Any) -> Any:
        claimed = await claiming.claim(rules, token, worker.owner)
        return claimed if isinstance(claimed, Outcome) else (claimed, None)

    yield actors, "claim_replay", claim_at_once


@_mutation("a replay that was begun is still ours when its token is claimed")
def _begun_replay_not_looked_after() -> Patches:
    with_ledger = consuming._with_ledger

    async def trusting(rules: Rules, claimed: Name, contents: Any, worker: Any, begun: Any, *, taken_over: bool) -> Any:
        if begun is not None:
            key = consuming.item_key(rules, claimed.item, contents)
            consumed = await consuming._run(rules, claimed, contents, worker, key, begun.read, begun.started)
            if consumed is not None:
                return consumed
        return await with_ledger(rules, claimed, contents, worker, None, taken_over=taken_over)

    yield consuming, "_with_ledger", trusting


@_mutation("of several claimers of one name one wins: the server's part of the contract")
def _claim_that_is_not_exclusive() -> Patches:
    rename_by_handle = world.World._claim
    winners: dict[tuple[int, str], Any] = {}

    def shared(self: Any, operation: Claim) -> Outcome:
        # A client that opened the source a moment ago still renames it, whatever it is called by now.
        file = self.files.get(operation.src)
        if file is None and (loser := winners.get((id(self), operation.src))) is not None:
            now = next((path for path, other in self.files.items() if other is loser[0]), None)
            if now is not None and loser[1] >= self.time - 0.5:
                operation = Claim(now, operation.dst)
        elif file is not None:
            winners[id(self), operation.src] = (file, self.time)
        return rename_by_handle(self, operation)

    yield world.World, "_claim", shared


@_mutation("a publication never replaces: the server's part of the contract")
def _publish_that_replaces() -> Patches:
    def replacing(self: Any, operation: Publish) -> Any:
        yield from ()
        if operation.src not in self.files:
            return Outcome.GONE
        self._link(operation.src, operation.dst)
        del self.files[operation.src]
        return Outcome.DONE

    yield world.World, "_publish", replacing


@_mutation("after a lost lease a worker takes a new owner id")
def _same_owner_id_after_a_lost_lease() -> Patches:
    yield actors, "lease_is_lost", lambda setting: False


@_mutation("`archived` is recorded once an item is put away")
def _archived_never_written() -> Patches:
    class Forgetful(WriteLedger):
        __slots__ = ()

        def __await__(self) -> Any:
            if self.after.state is LedgerState.ARCHIVED:
                yield from ()
                return True
            return (yield WriteLedger(self.key, self.before, self.after))

    async def never(rules: Rules, worker: Any = None) -> int:
        return 0

    yield consuming, "WriteLedger", Forgetful
    yield replay, "WriteLedger", Forgetful
    yield actors, "archive_ledger", never


@_mutation("what is archived is the entry that was read before the look")
def _archived_by_an_old_listing() -> Patches:
    async def late(rules: Rules, key: str, entry: Entry | None, claimed: Name) -> None:
        known = await ReadLedger(key)
        if known is not None and known.state is LedgerState.DONE:
            await WriteLedger(key, known, replace(known, state=LedgerState.ARCHIVED, at=(await Now()).utc))

    complete = consuming._complete

    async def early(rules: Rules, claimed: Name, contents: Any, key: str, known: Any) -> Any:
        await late(rules, key, None, claimed)  # before the fence, so of an item that may yet have to be completed
        return await complete(rules, claimed, contents, key, known)

    yield consuming, "_complete", early


@_mutation("a before manifest whose payload is ready is never deleted")
def _sweep_deletes_a_before_token_whose_payload_is_ready() -> Patches:
    carry_out = sweep.carry_out

    async def tidy(rules: Rules, action: Any, worker: Any, unwanted: Any = sweep.Unwanted.REPORT) -> Any:
        if isinstance(action, FinishPublish):
            action = Unfinished(action.token.item, (action.token,))
        return await carry_out(rules, action, worker, unwanted)

    yield actors, "carry_out", tidy


@_mutation("a payload is put away only while its token is seen to be done")
def _payload_put_away_without_a_look() -> Patches:
    async def put_away(rules: Rules, done: Name, payloads: Any, writing: Any = None) -> finish.PutAway:
        left: list[str] = []
        for name in (*map(finish._ready, payloads), done):
            await finish._keep(rules, name, State.AFTER, 0, left)
        return finish.PutAway(rules.layout.path(done), tuple(left))

    yield finish, "put_away", put_away
    yield sweep, "put_away", put_away


@_mutation("a worker that has given an item up says so in the ledger before it becomes an error image")
def _given_up_without_a_record() -> Patches:
    class Forgetful(WriteLedger):
        __slots__ = ()

        def __await__(self) -> Any:
            if self.after.given_up:
                yield from ()
                return True
            return (yield WriteLedger(self.key, self.before, self.after))

    yield consuming, "WriteLedger", Forgetful


MUTATIONS: dict[str, Mutation] = {mutation.name: mutation for mutation in _KNOWN}
