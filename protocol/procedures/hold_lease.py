"""A worker's lease: taken before its first claim, renewed while it lives, given up on a clean end (PROTOCOL section 6)."""

from protocol.errors import Anomaly
from protocol.lease import Lease, format_lease
from protocol.operations import Delete, Outcome, Publish, Replace, Store
from protocol.procedures.rename import remove, rename
from protocol.rules import Rules

# A lease may be an empty file, where a full disk has room for nothing else: it lives as long as its file is written anew.
EMPTY = b""

_LEAVING = 2.0  # seconds that a lease is tried to be removed, while another worker reads it


async def take_lease(rules: Rules, lease: Lease, *, empty: bool = False) -> None:
    """Makes the lease's file, exclusively. Raises Anomaly where the owner id is in use."""
    path = rules.layout.lease(lease.owner)
    if await Store(path, EMPTY if empty else format_lease(lease), rules.algorithm) is None:
        raise Anomaly(f"{path} is there already: another worker has this owner id")


async def renew_lease(rules: Rules, lease: Lease, *, empty: bool = False) -> bool:
    """Puts a newer beat in place of the older one; a reader sees one or the other, or for a moment none.

    False: it is not known to be there, so that others may see the lease stand still; the next renewal is soon. After a
    failure the same, and a scratch file of ours may be left, which the next renewal takes away.
    """
    path, scratch = rules.layout.lease(lease.owner), f"T_{lease.owner}.lease"
    content = EMPTY if empty else format_lease(lease)
    if await Store(scratch, content, rules.algorithm) is None:
        await remove(scratch)
        if await Store(scratch, content, rules.algorithm) is None:
            raise Anomaly(f"{scratch} cannot be removed, so that the lease is not renewed")
    outcome = await Replace(scratch, path)
    if outcome is Outcome.EXISTS:
        # This server cannot replace. Without its file for a moment, the lease is only missing: that has a grace.
        await Delete(path)
        outcome = await rename(Publish, scratch, path, patience=0)
    elif outcome is not Outcome.DONE:
        # Somebody reads the old one just now, or the reply was lost.
        await remove(scratch)
    return outcome is Outcome.DONE


async def give_up_lease(rules: Rules, owner: str) -> bool:
    """Removes the lease's file. If that fails it expires, which is as good.

    False: somebody has it open, and goes on reading it. Most readers are other workers, who look at a lease for a moment.
    """
    gone = await remove(rules.layout.lease(owner), patience=min(rules.busy_patience, _LEAVING))
    await remove(f"T_{owner}.lease")
    return gone
