"""Taking sequence numbers from a group's counter (PROTOCOL section 4).

The counter is a file whose *name* is the next number, and a rename of it is compare-and-swap: exactly one of any crowd
wins, and a lost reply costs a number and nothing else.

    S_orders_0000000043.next  ──rename──>  S_orders_0000000044.next        number 43 is ours

The first number is the hard one: a second counter would hand numbers out twice, and whoever begins one may die, or sleep
for an hour, between any two steps. So the right to make the counter is a file as well, the *seed*, and only one counts:

    1. create  S_orders_seed+<owner>+<attempt>   a seed of one's own, by a name that is used once; nothing points to it
    2. publish S_orders_origin                   its content is the seed's name. It never replaces and stays for ever:
                                                 from here on it is settled which seed counts, for everybody
    3. rename  that seed -> S_orders_0000000001.next   by anyone, any number of times: a file can be renamed away once

Who dies after 1 leaves litter; after 2, anyone does step 3. Who sleeps before 3 finds the seed gone. A seed's name must
never be made twice, or a sleeper could make a second seed after the first became the counter: hence the attempt in it.
"""

from protocol.errors import Anomaly, OutcomeUnresolved, StillBusy
from protocol.names import CounterName, SeedName
from protocol.operations import Claim, Delete, Now, Outcome, Pause, Publish, ReadSmall, Scan, Stat, Store
from protocol.procedures.look import list_drop
from protocol.procedures.rename import remove, rename
from protocol.rules import Rules
from protocol.snapshot import take_snapshot

# A listing taken during a rename may show no counter. Concluding so costs time before the first number only, and
# calling a person because of it would be worse still.
_LOOKS = 3
_LOOKS_BEFORE_ALARM = 12
_MOST_ATTEMPTS = 10_000  # every lost attempt is somebody else's success, so this is never reached by a crowd alone
_MOST_LOST = 20  # replies; each may have cost a number
_ORIGIN_LIMIT = 1024  # bytes
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


async def take_numbers(rules: Rules, group: str, owner: str, *, count: int = 1, hint: int | None = None) -> int:
    """Takes `count` numbers in a row and returns the first.

    `hint` is where the counter was last seen; a right one saves the listing. Raises SequenceExhausted, StillBusy (somebody
    holds the counter open), OutcomeUnresolved (reply after reply was lost), and Anomaly where the counter itself was lost.
    After any error some numbers may have been taken, and are never given to anybody.
    """
    if count < 1:
        raise ValueError(f"{count} numbers cannot be taken")
    number = hint
    lost = 0
    busy_since: float | None = None
    for attempt in range(1, _MOST_ATTEMPTS):
        if number is None:
            number = await _find(rules, group, _LOOKS)
        if number is None:
            await _begin(rules, group, owner)
            continue
        outcome = await Claim(rules.layout.counter(group, number), rules.layout.counter(group, number + count))
        if outcome is Outcome.DONE:
            return number
        # GONE: another producer took it. UNKNOWN: perhaps we did, but nobody can tell. BUSY: somebody looks at the file.
        if outcome is Outcome.UNKNOWN and (lost := lost + 1) == _MOST_LOST:
            raise OutcomeUnresolved(f"taking a number of group {group!r} lost its reply {lost} times; is the server at fault?")
        busy_since = await _still_busy(rules, group, number, busy_since) if outcome is Outcome.BUSY else None
        if attempt > 1 or outcome is Outcome.BUSY:
            await Pause(min(attempt, 8))
        number = None
    raise Anomaly(f"the counter of group {group!r} could not be renamed in {_MOST_ATTEMPTS} attempts; look at its S_ file")


async def _still_busy(rules: Rules, group: str, number: int, since: float | None) -> float:
    now = (await Now()).monotonic
    if since is not None and now - since > rules.busy_patience:
        raise StillBusy(
            f"{rules.layout.counter(group, number)} is held open by somebody, for longer than {rules.busy_patience:g} s; "
            f"no number was taken"
        )
    return now if since is None else since


async def _find(rules: Rules, group: str, looks: int) -> int | None:
    """The group's next number; None where no counter was seen. Of two counters the higher counts, and the lower goes."""
    for look in range(1, looks + 1):
        found = [rules.grammar.parse_helper(entry.path) for entry in await Scan("", f"S_{group}*") if entry.regular]
        numbers = sorted(f.number for f in found if isinstance(f, CounterName) and f.group == group)
        for stale in numbers[:-1]:
            # Numbers only grow, so a lower one was renamed while we listed, or was left by a rename that was cut in two.
            # Left there, it would be all that a later listing shows, and hand its numbers out again.
            await Delete(rules.layout.counter(group, stale))
        if numbers:
            return numbers[-1]
        if look < looks:
            await Pause(look)
    return None


async def _begin(rules: Rules, group: str, owner: str) -> None:
    """Makes the group's counter, or helps whoever is making it. May find that it exists, which is as good."""
    origin = rules.layout.origin(group)
    official = await ReadSmall(origin, _ORIGIN_LIMIT)
    if official is None:
        official = await _settle(rules, group, owner, origin)
    if official is None:
        await Pause(1)
        return
    seed = official.decode("ascii", "replace")
    parsed = rules.grammar.parse_helper(seed)
    if not isinstance(parsed, SeedName) or parsed.group != group:
        raise Anomaly(
            f"{origin} is there and names no seed, and group {group!r} has no counter: whoever began it did not finish. "
            f"If no producer of another make is at it just now, make the file {rules.layout.counter(group, 1)} by hand, "
            f"with a number above every number in use"
        )
    if await Stat(seed) is not None and await _sow(rules, group, seed):
        return
    if await _find(rules, group, _LOOKS_BEFORE_ALARM) is None:
        first, _ = await _first_number(rules, group)
        raise Anomaly(
            f"the counter of group {group!r} is gone: {origin} says that there was one. Put it back by hand as "
            f"{rules.layout.counter(group, first)}, or higher if later numbers were ever used"
        )


async def _sow(rules: Rules, group: str, seed: str) -> bool:
    """Renames the seed to the counter, or away where there is a counter. False: the seed is gone, somebody else did it."""
    first, exists = await _first_number(rules, group)
    if exists:
        # Somebody put a counter there by hand. The seed must not become a second one later.
        return await remove(seed, patience=rules.busy_patience)
    outcome = await rename(Claim, seed, rules.layout.counter(group, first), patience=rules.busy_patience)
    if outcome is Outcome.BUSY:
        raise StillBusy(f"{seed} is held open by somebody, for longer than {rules.busy_patience:g} s; no number was taken")
    return outcome is not Outcome.GONE


async def _settle(rules: Rules, group: str, owner: str, origin: str) -> bytes | None:
    """Has the origin name a seed, ours if nobody was faster, and returns what it says; None: not settled, begin again."""
    seed = rules.layout.seed(group, owner, _base36(int((await Now()).monotonic * 1e6)))
    scratch = f"T_{seed[2:]}"
    if await Store(seed, b"", rules.algorithm) is None or await Store(scratch, seed.encode(), rules.algorithm) is None:
        return None  # somebody uses our owner id at this very moment; what he made is his
    outcome = await rename(Publish, scratch, origin, patience=rules.busy_patience)
    if outcome is not Outcome.DONE:
        await remove(scratch)
    official = await ReadSmall(origin, _ORIGIN_LIMIT)
    if official is None and outcome is Outcome.BUSY:
        raise StillBusy(f"{scratch} is held open by somebody, for longer than {rules.busy_patience:g} s; no number was taken")
    if official is not None and official != seed.encode():
        await remove(seed)
    return official


async def _first_number(rules: Rules, group: str) -> tuple[int, bool]:
    """The number to begin with, after every one in use; and whether there is a counter already."""
    highest = 0
    exists = False
    for _ in range(2):  # a file that is renamed during the one listing is seen by the other
        found = take_snapshot(await list_drop(rules, f"*{group}*"), rules)
        highest = max(highest, found.highest(group) or 0)
        exists = exists or group in found.counters
    return highest + 1, exists


def _base36(number: int) -> str:
    """The last ten digits of a number to the base of 36: more than a century of microseconds."""
    digits = ""
    while len(digits) < 10 and (number or not digits):
        number, digit = divmod(number, 36)
        digits = _DIGITS[digit] + digits
    return digits
