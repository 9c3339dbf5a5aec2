"""Claiming an item and learning what it holds (PROTOCOL sections 6 and 7)."""

from dataclasses import replace

from protocol.checksum_file import LARGEST as LARGEST_CHECKSUM_FILE
from protocol.checksum_file import parse_checksums
from protocol.contents import Contents, Payload
from protocol.errors import Anomaly, ClaimLost, IntegrityError
from protocol.hashes import parse_hash
from protocol.manifest import LARGEST as LARGEST_MANIFEST
from protocol.manifest import check_describes, parse_manifest
from protocol.names import Name
from protocol.operations import Claim, MakeFolder, Outcome, ReadSmall, Stat
from protocol.procedures.rename import rename
from protocol.rules import Rules, Signal
from protocol.signature import check_signature
from protocol.snapshot import Listed
from protocol.states import State


async def prepare_owner(rules: Rules, owner: str) -> None:
    """Makes what an owner needs before its first claim: its own folder, in the folder layout.

    Raises Anomaly where the folder is not there afterwards: every claim would look like one that somebody else won.
    """
    if rules.layout.claims_folder is None:
        return
    folder = rules.layout.folder_of(State.CLAIMED, owner)
    if await MakeFolder(folder) is Outcome.UNKNOWN:
        await MakeFolder(folder)
    listed = await Stat(folder)
    if listed is None or not listed.folder:
        raise Anomaly(f"{folder} could not be made; are the folders of the drop's layout there?")


async def claim(rules: Rules, token: Name, owner: str) -> Name | Outcome:
    """One rename: the claimed name, or GONE (another worker won, or it was never there) or BUSY (somebody has it open).

    A busy token is not waited for: there are others. Raises Anomaly where the claim's name is taken by another file.
    """
    claimed = replace(token, state=State.CLAIMED, owner=owner)
    src, dst = rules.layout.path(token), rules.layout.path(claimed)
    # The claim's name is ours alone, so two names of one file can only be an attempt of ours that was cut in two.
    outcome = await rename(Claim, src, dst, patience=0, shared=True)
    if outcome is Outcome.EXISTS:
        raise Anomaly(f"{src} cannot be claimed: {dst} is there already, and is another file")
    return claimed if outcome is Outcome.DONE else outcome


async def read_contents(rules: Rules, claimed: Name) -> Contents:
    """What the item consists of, checked as far as names and sizes go; its bytes are checked as they are read.

    Raises InvalidManifest, InvalidChecksumFile, SignatureRejected or IntegrityError for an item that must not be processed,
    and ClaimLost where the token is no longer under the claim's name.
    """
    path = rules.layout.path(claimed)
    if rules.signal is Signal.NONE:
        listed = await Stat(path)
        if listed is None:
            raise _lost(path)
        _check_regular(listed, None)
        ready = replace(claimed, state=State.READY, owner="")
        return Contents((Payload(ready, path, listed.size, rules.algorithm, ""),))
    limit = LARGEST_MANIFEST if rules.signal is Signal.MANIFEST else LARGEST_CHECKSUM_FILE
    data = await ReadSmall(path, limit)
    if data is None:
        raise _lost(path)
    if rules.signal is Signal.CHECKSUM:
        hashes = parse_checksums(data, claimed.item, rules.grammar)
        return Contents(tuple([await _locate(rules, name, None, "sha256", digest) for name, digest in hashes.items()]))
    manifest = parse_manifest(data)
    names = check_describes(manifest, claimed.item, rules.grammar)
    if rules.trusted_keys:
        check_signature(manifest, rules.trusted_keys)
    payloads = []
    for record in manifest.files:
        algorithm, digest = parse_hash(record.hash)
        payloads.append(await _locate(rules, names[record.name], record.size, algorithm, digest, record.source_name))
    return Contents(tuple(payloads), manifest)


async def _locate(
    rules: Rules, name: Name, size: int | None, algorithm: str, digest: str, source_name: str | None = None
) -> Payload:
    # Only the token may have been brought back; the payload is then read where it is, and never renamed (section 8).
    for state in (State.READY, State.AFTER, State.ERROR):
        path = rules.layout.path(replace(name, state=state))
        listed = await Stat(path)
        if listed is not None:
            _check_regular(listed, size)
            return Payload(name, path, listed.size if size is None else size, algorithm, digest, source_name)
    raise IntegrityError(f"{rules.layout.path(name)} is missing: its manifest is there and the payload is not")


def _check_regular(listed: Listed, size: int | None) -> None:
    if not listed.regular:
        raise IntegrityError(f"{listed.path} is not a regular file, and is not followed")
    if None not in (size, listed.size) and listed.size != size:
        raise IntegrityError(f"{listed.path} has {listed.size} bytes, and its manifest says {size}")


def _lost(path: str) -> ClaimLost:
    return ClaimLost(f"{path} is no longer there: the claim was taken away, or an operator moved it")
