"""The three ways out of a claim: complete, release, fail (PROTOCOL sections 6 and 7).

Each begins with one rename from exactly the owner's claim name: that rename is the fence, and for `complete` it is the
commit as well. Whoever lost the claim finds the name gone, has changed nothing, and is told `ClaimLost`.

    complete   C_<owner>_x -> D_x   then payloads -> A_, then D_x -> A_x      anyone may finish what was cut
    fail       C_<owner>_x -> E_x   then payloads -> E_, then a reason file   an E_ token without it is still being put away
    release    C_<owner>_x -> x     ready again

In a drop with receipts the receipt comes between the payloads and the last of these steps, so that an item which is put away
has one. With `signal = "none"` there is no step between: it comes after, and the ledger says `archived` only then.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from protocol.errors import Anomaly, ClaimLost, StillBusy
from protocol.json_text import format_object
from protocol.names import REASON_SUFFIX, RECEIPT_SUFFIX, FileKind, Name
from protocol.operations import Claim, Now, Outcome, Publish, Stat, Store
from protocol.procedures.rename import remove, rename, same_file
from protocol.procedures.write_receipt import Writing, Wrote, write_receipt
from protocol.rules import Rules, Signal
from protocol.states import State

_MOST_DOUBLES = 1000


@dataclass(frozen=True, slots=True)
class PutAway:
    """How far an item was put away. `left` are paths that somebody has open: a sweep finishes them, nothing is lost.

    `seen` is False where the token went on meanwhile, so that nobody here knows whether the payloads are away.
    """

    token: str
    left: tuple[str, ...] = ()
    seen: bool = True


@dataclass(frozen=True, slots=True)
class Reason:
    """Why an item became an error image, for the person who finds it."""

    kind: str
    error: str
    attempts: int
    host: str
    owner: str


async def complete(rules: Rules, claimed: Name, payloads: Iterable[Name], writing: Writing | None = None) -> PutAway:
    """Commits the claim as processed, and puts the item away.

    Raises ClaimLost (nothing was changed), StillBusy (still claimed: call again, do not process again) and OutcomeUnresolved
    (claimed or done: nobody could look). Once this has returned, or raised anything else after the fence, the item is done
    and needs only to be put away.
    """
    if rules.signal is Signal.NONE:
        free = await _free_name(rules, replace(claimed, state=State.AFTER, owner=""))
        await _fence(rules, claimed, free)
        return await add_receipt(rules, free, writing)
    done = replace(claimed, state=State.DONE, owner="")
    await _fence(rules, claimed, done)
    return await put_away(rules, done, payloads, writing)


async def add_receipt(rules: Rules, token: Name, writing: Writing | None) -> PutAway:
    """The receipt beside a token that is an image already. May be called by anyone, any number of times, also at once."""
    path = rules.layout.path(token)
    if writing is None or await write_receipt(rules, token, writing) is not Wrote.BUSY:
        return PutAway(path)
    return PutAway(path, (rules.layout.path(replace(token, suffix=RECEIPT_SUFFIX)),))


async def put_away(rules: Rules, done: Name, payloads: Iterable[Name], writing: Writing | None = None) -> PutAway:
    """Payloads to after names, then the token. May be called by anyone, any number of times, also at once.

    Before each payload the token is looked at: once that is an after image, a payload under its ready name is one that a
    person has brought back, and a worker that comes late must not take it away again.
    """
    left: list[str] = []
    again = 0
    for payload in payloads:
        if await Stat(rules.layout.path(done)) is None:
            return PutAway(rules.layout.path(replace(done, state=State.AFTER)), seen=False)
        again = await _keep(rules, _ready(payload), State.AFTER, again, left)
    if left:
        # The token stays D_: that is how everybody sees that something is still to be done.
        return PutAway(rules.layout.path(done), tuple(left))
    if writing is not None:
        double = await _receipt_of_done(rules, done, again, writing, left)
        if double is None:
            return PutAway(rules.layout.path(replace(done, state=State.AFTER)), seen=False)
        if left:
            return PutAway(rules.layout.path(done), tuple(left))
        again = double
    again = await _keep(rules, done, State.AFTER, again, left)
    return PutAway(rules.layout.path(replace(done, state=State.AFTER, again=again)), tuple(left))


async def _receipt_of_done(rules: Rules, done: Name, again: int, writing: Writing, left: list[str]) -> int | None:
    """Writes the receipt under the double's number that the token is about to get, and returns that.

    None where the token went on meanwhile: whoever did that has seen to the receipt.
    """
    for double in range(again, _MOST_DOUBLES):
        after = replace(done, state=State.AFTER, again=double)
        taken = await Stat(rules.layout.path(after)) is not None
        if await Stat(rules.layout.path(done)) is None:
            return None
        if taken and not await same_file(rules.layout.path(done), rules.layout.path(after)):
            continue
        wrote = await write_receipt(rules, after, writing)
        if wrote is Wrote.TAKEN:
            continue
        if wrote is Wrote.BUSY:
            left.append(rules.layout.path(replace(after, suffix=RECEIPT_SUFFIX)))
        return double
    raise Anomaly(f"{rules.layout.path(done)} cannot be put away: {_MOST_DOUBLES} receipts of its name are there")


async def put_payloads_away(rules: Rules, payloads: Iterable[Name]) -> None:
    """Payloads to after names where the token is one already: a late worker has renamed the token of a later run."""
    left: list[str] = []
    for payload in payloads:
        await _keep(rules, _ready(payload), State.AFTER, 0, left)


async def release(rules: Rules, claimed: Name) -> None:
    """Gives an item back, to be claimed again by anyone. Raises ClaimLost, StillBusy."""
    await _fence(rules, claimed, replace(claimed, state=State.READY, owner=""))


async def put_back(rules: Rules, claimed: Name, origin: Name) -> None:
    """Gives an after or error token back that should not have been claimed. Raises ClaimLost, StillBusy."""
    await _fence(rules, claimed, origin)


async def fail(
    rules: Rules, claimed: Name, payloads: Iterable[Name], reason: Reason, writing: Writing | None = None
) -> PutAway:
    """Makes the item an error image with its reason beside it.

    Raises ClaimLost and StillBusy (nothing was changed), OutcomeUnresolved (claimed or an error image: nobody could look).
    Once it has returned, or raised anything else after the fence, the item is an error image and needs only to be put away.
    """
    # A reason that an operator left behind when he replayed the item would say that this one is put away already.
    beside = (REASON_SUFFIX,) if writing is None else (REASON_SUFFIX, RECEIPT_SUFFIX)
    error = await _free_name(rules, replace(claimed, state=State.ERROR, owner=""), *beside)
    await _fence(rules, claimed, error)
    return await put_away_error(rules, error, payloads, reason, writing)


async def put_away_error(
    rules: Rules, error: Name, payloads: Iterable[Name], reason: Reason, writing: Writing | None = None
) -> PutAway:
    """Payloads to error names, then the reason. May be called by anyone, any number of times, also at once.

    Before each payload the reason is looked for: once that is there, a payload under its ready name is one that a person has
    brought back.
    """
    left: list[str] = []
    for payload in payloads:
        if await Stat(rules.layout.path(replace(error, suffix=REASON_SUFFIX))) is not None:
            return PutAway(rules.layout.path(error))
        if not rules.is_token(payload.kind) and payload.state is not State.ERROR:
            await _keep(rules, _ready(payload), State.ERROR, error.again, left)
    if writing is not None and not left:
        if await Stat(rules.layout.path(replace(error, suffix=REASON_SUFFIX))) is not None:
            return PutAway(rules.layout.path(error))
        left.extend((await add_receipt(rules, error, writing)).left)
    if not left:
        content = {
            "item": rules.grammar.format(replace(error, state=State.READY, again=0)),
            "error": _encodable(reason.error),
            "kind": reason.kind,
            "attempts": reason.attempts,
            "host": _encodable(reason.host),
            "owner": reason.owner,
            "time": (await Now()).utc,
        }
        # Taken by somebody who is putting this item away as well: his reason is as good.
        await Store(rules.layout.path(replace(error, suffix=REASON_SUFFIX)), format_object(content), rules.algorithm)
    return PutAway(rules.layout.path(error), tuple(left))


async def _fence(rules: Rules, claimed: Name, to: Name) -> None:
    src, dst = rules.layout.path(claimed), rules.layout.path(to)
    # A claim's rename may replace its target on some servers, and nothing is ever replaced.
    if await Stat(dst) is not None:
        if await Stat(src) is None:
            raise ClaimLost(f"{src} is no longer there, and {dst} is: another worker took the claim and finished it")
        if not await same_file(src, dst):
            raise Anomaly(f"{src} cannot become {dst}: that name is taken, by another item of the same number")
        # One file under both names: an earlier attempt of ours was cut between link and unlink.
        if not await remove(src, patience=rules.busy_patience):
            raise StillBusy(f"{src} is held open by somebody, for longer than {rules.busy_patience:g} s; call again")
        return
    outcome = await rename(Claim, src, dst, patience=rules.busy_patience)
    if outcome is Outcome.GONE:
        raise ClaimLost(f"{src} is no longer there: the claim was taken away, or an operator moved it")
    if outcome is Outcome.EXISTS:
        raise Anomaly(f"{src} cannot become {dst}: that name is taken, by another item of the same number")
    if outcome is Outcome.BUSY:
        raise StillBusy(f"{src} is held open by somebody, for longer than {rules.busy_patience:g} s; it stays claimed")


async def _free_name(rules: Rules, name: Name, *beside: str) -> Name:
    """The name itself, or with the first "+n" that is free, also with the suffixes `beside` it.

    So a number that came twice keeps both images.
    """
    for again in range(_MOST_DOUBLES):
        candidate = replace(name, again=again)
        wanted = (candidate, *(replace(candidate, suffix=suffix) for suffix in beside))
        if not any([await Stat(rules.layout.path(one)) for one in wanted]):
            return candidate
    raise Anomaly(f"{rules.layout.path(name)} is there {_MOST_DOUBLES} times over; something uses one number again and again")


def _ready(name: Name) -> Name:
    """Where a payload is put away from: its ready name, or that of an error image whose token alone was brought back."""
    return replace(name, state=State.ERROR if name.state is State.ERROR else State.READY, owner="", again=0)


def _encodable(text: str) -> str:
    # The text of an error may quote a local file name, and those are bytes that need not be UTF-8.
    return text.encode("utf-8", "backslashreplace").decode()


async def _keep(rules: Rules, name: Name, state: State, again: int, left: list[str]) -> int:
    """Renames one file into its last state, beside what is there, and returns the double's number that it got.

    A file that is not there was put away by somebody else, or never came; both are settled. A busy one goes to `left`.
    """
    src = rules.layout.path(name)
    for double in range(again, _MOST_DOUBLES):
        dst = rules.layout.path(replace(name, state=state, again=double))
        # One open file is waited for; with several, the worker would be gone for minutes.
        outcome = await rename(Publish, src, dst, patience=0 if left else rules.busy_patience, shared=True)
        if outcome is Outcome.BUSY:
            left.append(src)
        if outcome is not Outcome.EXISTS:
            return double
    raise Anomaly(f"{src} cannot be put away: {_MOST_DOUBLES} files of its name are there")


def payload_names(names: Iterable[Name]) -> list[Name]:
    """Of an item's names in any state, its payloads as ready names: what to put away when no manifest can say it."""
    found = {replace(n, state=State.READY, owner="", again=0) for n in names if n.kind is FileKind.PAYLOAD}
    return sorted(found, key=lambda n: n.suffix)
