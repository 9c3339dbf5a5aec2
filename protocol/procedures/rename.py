"""One rename carried to a known end: busy files waited for, lost replies looked after (PROTOCOL sections 9 and 10).

Everything that can be known about a rename whose reply was lost stands in the two names:

    destination   source    so the rename
    there         gone      was made
    gone          there     was not made: ask again
    there         there     of one file: was cut between link and unlink; drop the source. Of two files: an anomaly
    gone          gone      was made, and somebody has moved the file on

A server may still be working on a request whose connection is gone, so "was not made" can change under our feet. Asking
again is safe all the same: the second request then fails on its source or on its destination, and we look once more.

One case the two names do not show: cut between link and unlink, and the destination moved on since. That looks like "was not
made", and asking again would make the file appear twice. Who publishes therefore looks for a later name first (`moved_on`).
"""

import hashlib
from collections.abc import Callable

from protocol.errors import OutcomeUnresolved
from protocol.hashes import DEFAULT_ALGORITHM
from protocol.operations import Claim, Delete, Fetch, Now, Outcome, Pause, Procedure, Publish, Stat

_LOOKS = 4  # at two names that somebody else is moving just now
_MOST_LOST = 5  # replies to one rename


async def same_file(first: str, second: str) -> bool:
    """Whether two names hold the same bytes: equal in size and hash. False where one of them is not there."""
    one, other = await Stat(first), await Stat(second)
    if one is None or other is None or not (one.regular and other.regular) or one.size != other.size:
        return False
    one_read = await Fetch(first, DEFAULT_ALGORITHM)
    other_read = await Fetch(second, DEFAULT_ALGORITHM)
    return one_read is not None and one_read == other_read


async def resolve_rename(src: str, dst: str) -> Outcome:
    """What became of a rename whose reply was lost.

    DONE, EXISTS (both names, of two files) or GONE (neither), and UNKNOWN where it was not made and may be asked again.
    Of one file under both names, the source is dropped; BUSY where somebody has it open, so that both are still there.
    """
    for _ in range(_LOOKS):
        # The source first: it can only go, and the destination only come. Asked the other way round, a rename made in
        # between would look like a file that vanished.
        source, destination = await Stat(src), await Stat(dst)
        if source is None:
            return Outcome.GONE if destination is None else Outcome.DONE
        if destination is None:
            return Outcome.UNKNOWN
        if await same_file(src, dst):
            return Outcome.DONE if await drop_twin(src, dst) else Outcome.BUSY
        if await Stat(src) == source and await Stat(dst) == destination:
            break
    return Outcome.EXISTS


async def drop_twin(src: str, keep: str) -> bool:
    """Takes away one of two names of one file; True once `src` is gone, False where somebody has it open.

    Between a look and a deletion by name, `keep` may be moved on and come back as `src`: a replay does that. The deletion
    would then hit the only name. So `src` is renamed to a scratch name first, which nobody else uses, and is deleted there
    once `keep` is seen to be of the same file still; else it is put back for the next one to look at. Cut in between, a
    scratch file is left, which is scratch in truth as long as `keep` has not moved in that very moment.
    """
    # At the top of the drop, which is one volume, and short: the names of claims may be as long as a name can be.
    aside = f"T_{hashlib.sha256(src.encode()).hexdigest()[:32]}.twin"
    outcome = await Claim(src, aside)
    if outcome is Outcome.EXISTS or (outcome is Outcome.UNKNOWN and await Stat(src) is not None):
        # Left by one who was cut here, or lost before it was done: once more, when it is out of the way.
        return await same_file(aside, keep) and await remove(aside) and await Stat(src) is None
    if outcome in (Outcome.GONE, Outcome.BUSY):
        return outcome is Outcome.GONE
    if await same_file(aside, keep):
        await remove(aside)  # held open, it is scratch that a sweep takes away: the name itself is gone
        return True
    await Publish(aside, src)
    return False


async def remove(path: str, *, patience: float = 0.0) -> bool:
    """Deletes a file of ours; True once it is known to be gone, False where somebody has it open for `patience` seconds."""
    begun = (await Now()).monotonic if patience else 0.0
    attempt = 0
    while True:
        attempt += 1
        outcome = await Delete(path)
        if outcome is Outcome.UNKNOWN and await Stat(path) is not None:
            outcome = await Delete(path)
        if outcome in (Outcome.DONE, Outcome.GONE) or await Stat(path) is None:
            return True
        if not patience or (await Now()).monotonic - begun >= patience:
            return False
        await Pause(attempt)


async def rename(
    step: type[Publish] | type[Claim],
    src: str,
    dst: str,
    *,
    patience: float,
    shared: bool = False,
    moved_on: Callable[[], Procedure[bool]] | None = None,
) -> Outcome:
    """Makes one rename, and returns DONE, GONE, EXISTS, or BUSY after `patience` seconds of it.

    `shared` says that others may be making this very rename at the same time, as when a finished item is put away: two
    names of one file are then completed as after a lost reply. `moved_on` is asked, after a lost reply and before the rename
    is asked for again, whether the file has reached a later name than `dst`; then the source is dropped and it is DONE.

    BUSY may also mean that both names are there, of one file, and that the source could not be dropped. Raises
    OutcomeUnresolved where the reply was lost and nobody could look, or was lost again and again; any other error that is
    raised means that the rename was not made.
    """
    begun = (await Now()).monotonic
    lost = 0
    unsure = twins = False  # whether an earlier request may have been carried out; whether both names were seen, of one file
    attempt = 0
    while True:
        attempt += 1
        try:
            # Twins are not renamed again: POSIX takes one onto the other for a success that changes nothing.
            answer = Outcome.UNKNOWN if twins else await step(src, dst)
            if answer is Outcome.UNKNOWN and not twins:
                unsure, lost = True, lost + 1
            outcome = await resolve_rename(src, dst) if _doubtful(answer, unsure=unsure, shared=shared) else answer
            twins = outcome is Outcome.BUSY and answer is not Outcome.BUSY
            if outcome is Outcome.UNKNOWN and moved_on is not None and await moved_on():
                outcome = Outcome.DONE if await remove(src, patience=patience) else Outcome.BUSY
        except Exception as error:
            if not unsure:
                raise
            raise OutcomeUnresolved(
                f"the connection was lost while {src} was renamed to {dst}, and it could not be looked up: {error}. "
                f"Either name may be there; look with `ls` before anything is done again"
            ) from error
        if outcome not in (Outcome.BUSY, Outcome.UNKNOWN):
            return outcome
        if outcome is Outcome.BUSY and (await Now()).monotonic - begun >= patience:
            return outcome
        if lost == _MOST_LOST:
            raise OutcomeUnresolved(f"renaming {src} to {dst} lost its reply {lost} times; the source is still there")
        await Pause(attempt)


def _doubtful(outcome: Outcome, *, unsure: bool, shared: bool) -> bool:
    """Whether an answer does not say by itself where the file is now."""
    if outcome is Outcome.UNKNOWN:
        return True
    return (outcome is Outcome.EXISTS and (unsure or shared)) or (outcome is Outcome.GONE and unsure)
