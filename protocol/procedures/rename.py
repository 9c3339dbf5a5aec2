"""One rename carried to a known end: busy files waited for, lost replies looked after (PROTOCOL sections 9 and 10).

Everything that can be known about a rename whose reply was lost stands in the two names:

    destination   source    so the rename
    there         gone      was made
    gone          there     was not made: ask again
    there         there     of one file: was cut between link and unlink; drop the source. Of two files: an anomaly
    gone          gone      was made, and somebody has moved the file on

A server may still be working on a request whose connection is gone, so "was not made" can change under our feet. Asking
again is safe all the same: the second request then fails on its source or on its destination, and we look once more.
"""

from protocol.errors import OutcomeUnresolved
from protocol.hashes import DEFAULT_ALGORITHM
from protocol.operations import Claim, Delete, Fetch, Now, Outcome, Pause, Publish, Stat


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
    Of one file under both names, the source is dropped.
    """
    # The source first: it can only go, and the destination only come. Asked the other way round, a rename made in
    # between would look like a file that vanished.
    source, destination = await Stat(src), await Stat(dst)
    if source is None:
        return Outcome.GONE if destination is None else Outcome.DONE
    if destination is None:
        return Outcome.UNKNOWN
    if not await same_file(src, dst):
        return Outcome.EXISTS if await Stat(src) is not None else Outcome.DONE
    await remove(src)
    return Outcome.DONE


async def remove(path: str) -> bool:
    """Deletes a file of ours; True once it is known to be gone, False where somebody has it open."""
    outcome = await Delete(path)
    if outcome is Outcome.UNKNOWN and await Stat(path) is not None:
        outcome = await Delete(path)
    return outcome in (Outcome.DONE, Outcome.GONE) or await Stat(path) is None


async def rename(step: type[Publish] | type[Claim], src: str, dst: str, *, patience: float, shared: bool = False) -> Outcome:
    """Makes one rename, and returns DONE, GONE, EXISTS, or BUSY after `patience` seconds of it.

    `shared` says that others may be making this very rename at the same time, as when a finished item is put away: two
    names of one file are then completed as after a lost reply. Raises OutcomeUnresolved where the reply was lost and
    nobody could look; any other error that is raised means that the rename was not made.
    """
    begun = (await Now()).monotonic
    unsure = False
    attempt = 0
    while True:
        attempt += 1
        try:
            outcome = await step(src, dst)
            if outcome is Outcome.UNKNOWN:
                unsure = True
            doubtful = {Outcome.UNKNOWN} | ({Outcome.EXISTS} if shared else set())
            if outcome in (doubtful | {Outcome.GONE, Outcome.EXISTS} if unsure else doubtful):
                outcome = await resolve_rename(src, dst)
        except Exception as error:
            if not unsure:
                raise
            raise OutcomeUnresolved(
                f"the connection was lost while {src} was renamed to {dst}, and it could not be looked up: {error}. "
                f"Either name may be there; look with `ls` before anything is done again"
            ) from error
        if outcome not in (Outcome.BUSY, Outcome.UNKNOWN):
            return outcome
        if (await Now()).monotonic - begun > patience:
            if outcome is Outcome.BUSY:
                return outcome
            raise OutcomeUnresolved(f"renaming {src} to {dst} lost its reply {attempt} times; the source is still there")
        await Pause(attempt)
