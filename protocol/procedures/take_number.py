"""Taking sequence numbers from a group's counter (PROTOCOL section 4).

The counter is a file whose *name* is the next number, and a rename of it is compare-and-swap: exactly one of any crowd
wins, and a lost reply costs a number and nothing else.

    S_orders_0000000043.next  ──rename──>  S_orders_0000000044.next        number 43 is ours

The first number is the hard one: a second counter would hand numbers out twice, and whoever begins one may die, or sleep
for an hour, between any two steps. So the right to make the counter is a file as well, the *seed*, and there is only one:

    1. create  S_orders_seed+<owner>      a seed of one's own; harmless, as nothing points to it
    2. publish S_orders_origin            its content is the seed's name. It never replaces and stays for ever:
                                          from here on it is settled which seed counts, for everybody
    3. rename  that seed -> S_orders_0000000001.next      by anyone, any number of times: a file can be renamed away once

Who dies after 1 leaves litter; after 2, anyone does step 3. Who sleeps before 3 finds the seed gone.
"""

from protocol.errors import Anomaly
from protocol.names import CounterName, SeedName
from protocol.operations import Claim, Outcome, Pause, Publish, ReadSmall, Scan, Store
from protocol.procedures.look import list_drop
from protocol.procedures.rename import remove, rename
from protocol.rules import Rules
from protocol.snapshot import take_snapshot

_LOOKS = 5  # a listing taken during a rename may show no counter; more looks only save work, safety is the origin's
_MOST_ATTEMPTS = 10_000  # every lost attempt is somebody else's success, so this is never reached by a crowd alone
_ORIGIN_LIMIT = 1024  # bytes


async def take_numbers(rules: Rules, group: str, owner: str, *, count: int = 1, hint: int | None = None) -> int:
    """Takes `count` numbers in a row and returns the first.

    `hint` is where the counter was last seen; a right one saves the listing. Raises SequenceExhausted, and Anomaly where
    the counter was lost. After any other error some numbers may have been taken, and are never given to anybody.
    """
    number = hint
    for attempt in range(1, _MOST_ATTEMPTS):
        if number is None:
            number = await _find(rules, group)
        if number is None:
            await _begin(rules, group, owner)
            continue
        outcome = await Claim(rules.layout.counter(group, number), rules.layout.counter(group, number + count))
        if outcome is Outcome.DONE:
            return number
        # GONE: another producer took it. UNKNOWN: perhaps we did, but nobody can tell. BUSY: somebody looks at the file.
        number = None
        if attempt > 1 or outcome is Outcome.BUSY:
            await Pause(min(attempt, 8))
    raise Anomaly(f"the counter of group {group!r} could not be renamed in {_MOST_ATTEMPTS} attempts; look at its S_ file")


async def _find(rules: Rules, group: str) -> int | None:
    """The group's next number; None where no counter was seen. Of two counters the higher counts."""
    for look in range(1, _LOOKS + 1):
        found = [rules.grammar.parse_helper(entry.path) for entry in await Scan("", f"S_{group}*") if entry.regular]
        numbers = [f.number for f in found if isinstance(f, CounterName) and f.group == group]
        if numbers:
            return max(numbers)
        if not found:
            return None
        await Pause(look)
    return None


async def _begin(rules: Rules, group: str, owner: str) -> None:
    """Makes the group's counter, or helps whoever is making it. May find that it exists, which is as good."""
    origin = rules.layout.origin(group)
    official = await ReadSmall(origin, _ORIGIN_LIMIT)
    if official is None:
        own_seed = rules.layout.seed(group, owner)
        scratch = f"T_{own_seed}"
        await Store(own_seed, b"", rules.algorithm)
        if await Store(scratch, own_seed.encode(), rules.algorithm) is None:
            # Left by an attempt of our own that was cut, so perhaps not whole; nobody else uses this name.
            await remove(scratch)
            await Store(scratch, own_seed.encode(), rules.algorithm)
        if await rename(Publish, scratch, origin, patience=rules.busy_patience) is not Outcome.DONE:
            await remove(scratch)
        official = await ReadSmall(origin, _ORIGIN_LIMIT)
        if official is not None and official != own_seed.encode():
            await remove(own_seed)
    seed = (official or b"").decode("ascii", "replace")
    parsed = rules.grammar.parse_helper(seed)
    if not isinstance(parsed, SeedName) or parsed.group != group:
        raise Anomaly(
            f"{origin} is there and names no seed, and group {group!r} has no counter: whoever began it did not finish. "
            f"If no producer of another make is at it just now, make the file {rules.layout.counter(group, 1)} by hand, "
            f"with a number above every number in use"
        )
    highest = take_snapshot(await list_drop(rules), rules).highest(group)
    if await Claim(seed, rules.layout.counter(group, (highest or 0) + 1)) is not Outcome.GONE:
        return
    if await _find(rules, group) is None:
        raise Anomaly(
            f"the counter of group {group!r} is gone: {origin} says that there was one. Put it back by hand as "
            f"{rules.layout.counter(group, (highest or 0) + 1)}, or higher if later numbers were ever used"
        )
