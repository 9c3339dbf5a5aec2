"""The ways a name changes hands: claim, publish, replace, delete. Each is done on the handle of the old name.

A handle with DELETE access and a share mode without delete is the lock: the server gives it to one opener at a time, and
whoever opens next finds the old name gone. smbprotocol's own `smbclient.rename` shares delete, so a second caller renames the
winner's file once more.

Every function raises `Refused` and `Lost`, and errors of the contract where more than the status had to be looked at.
"""

from contextlib import suppress
from dataclasses import dataclass

from transports.errors import AlreadyExists, Busy, OutcomeUnknown, TransportError, UnsafePath
from transports.smb import messages
from transports.smb.errors import Lost, Refused, from_status
from transports.smb.link import Link
from transports.smb.messages import Message
from transports.smb.status import Nt, name_of

# Link refused for one of these: the server has no hard links, or not for this account (Linux refuses a link to a file that one
# neither owns nor may write). Samba gives EPERM of the file system below as ACCESS_DENIED.
_NO_LINK = {
    Nt.ACCESS_DENIED,
    Nt.NOT_SUPPORTED,
    Nt.NOT_IMPLEMENTED,
    Nt.INVALID_DEVICE_REQUEST,
    Nt.INVALID_INFO_CLASS,
    Nt.INVALID_PARAMETER,
    Nt.TOO_MANY_LINKS,
}

HIDDEN = (
    "the name is taken by something that the server shows to nobody: a symbolic link that leads nowhere or out of the share; "
    "remove it on the server"
)


@dataclass(frozen=True, slots=True)
class Names:
    """An old and a new name, as the caller gave them and as they are sent."""

    operation: str
    src: str
    dst: str
    src_wire: str
    dst_wire: str


def _owning(wire: str, share: int) -> Message:
    """Opens a file, or a link itself, to rename or remove it."""
    return messages.open_(wire, messages.DELETE, share, messages.FILE | messages.ITSELF)


def _looked(link: Link, opening: Message) -> int:
    """What the server says of a name that is only opened and closed: nothing was changed, whatever happens."""
    try:
        link.visit(opening)
    except Refused as refused:
        return refused.status
    except Lost as lost:
        raise Lost(str(lost), sent=False) from lost
    return Nt.SUCCESS


def status_of(link: Link, wire: str) -> int:
    """Whether a name is there: SUCCESS, or why it cannot be looked at."""
    return _looked(link, messages.open_(wire, messages.READ_ATTRIBUTES, messages.SHARE_ALL, messages.ITSELF))


def taken(link: Link, operation: str, path: str, wire: str) -> TransportError:
    """Why a name cannot be made: it is there, or it is not quite gone (Samba says COLLISION for both)."""
    if status_of(link, wire) == Nt.DELETE_PENDING:
        return from_status(operation, path, Nt.DELETE_PENDING)
    return AlreadyExists(operation, path)


def _new_name_refused(link: Link, names: Names, refused: Refused) -> TransportError | None:
    """The error of a rename or link that was refused after the old name had been opened; None where the status says it all."""
    if refused.status == Nt.OBJECT_NAME_COLLISION:
        if status_of(link, names.src_wire) == Nt.OBJECT_NAME_NOT_FOUND:
            # Samba looks up the old name before it waits for its turn: this turn came after another one's rename.
            return from_status(names.operation, names.src, Nt.OBJECT_NAME_NOT_FOUND)
        return taken(link, names.operation, names.dst, names.dst_wire)
    if refused.status in (Nt.OBJECT_PATH_NOT_FOUND, Nt.OBJECT_NAME_INVALID, Nt.NAME_TOO_LONG):
        return from_status(names.operation, names.dst, refused.status)
    if refused.status == Nt.OBJECT_NAME_NOT_FOUND and status_of(link, names.src_wire) == Nt.SUCCESS:
        # The old name is still there, so it is the new one that cannot be reached.
        kind = UnsafePath if names.operation == "replace" else AlreadyExists
        return kind(names.operation, names.dst, HIDDEN)
    return None


def _rename(link: Link, names: Names, *, replace: bool) -> None:
    opening = _owning(names.src_wire, messages.SHARE_READ)
    try:
        link.visit(opening, messages.rename(names.dst_wire, replace=replace))
    except Refused as refused:
        if refused.step and (error := _new_name_refused(link, names, refused)):
            raise error from refused
        raise


def claim(link: Link, names: Names) -> None:
    """One round trip. Of several claimers one holds the handle; the others are told Busy, and NotFound from then on.

    After an outcome that is unknown the file has one of the two names: the server renames in one step.
    """
    _rename(link, names, replace=False)


def replace(link: Link, names: Names) -> None:
    """Two round trips. After an outcome that is unknown the file has one of the two names.

    A new name whose deletion is pending is refused first: Samba would let us replace it, and delete our file in its place
    once the last reader of the old one closes.
    """
    if status_of(link, names.dst_wire) == Nt.DELETE_PENDING:
        raise from_status(names.operation, names.dst, Nt.DELETE_PENDING)
    try:
        _rename(link, names, replace=True)
    except Refused as refused:
        if refused.step and (error := _target_open(link, names, refused)):
            raise error from refused
        raise


def _target_open(link: Link, names: Names, refused: Refused) -> TransportError | None:
    """Busy where a replacing rename was denied because somebody has the target open, which has no status of its own.

    It is told by an open that tolerates nobody beside it.
    """
    if (
        refused.status == Nt.ACCESS_DENIED
        and _looked(link, _owning(names.dst_wire, messages.SHARE_NONE)) == Nt.SHARING_VIOLATION
    ):
        return Busy(names.operation, names.dst, "somebody has the file that is to be replaced open; try again later")
    return None


def publish(link: Link, names: Names, *, hard_links: bool) -> None:
    """A hard link under the new name, then the old name is removed through its own handle. Two round trips.

    Samba's own rename looks whether the new name is free and then renames, so two publishers may both succeed. A hard link
    either makes the name or finds it taken. The handle is exclusive: nobody opens the file before both steps are done.

    Cut after the link: both names are there, of one file, and the new one counts.
    """
    if hard_links:
        try:
            _publish_by_link(link, names)
        except Refused as refused:
            if not refused.step or refused.status not in _NO_LINK:
                raise
        else:
            return
    _publish_by_reservation(link, names)


def _publish_by_link(link: Link, names: Names) -> None:
    try:
        opened, _ = link.enter(_owning(names.src_wire, messages.SHARE_NONE), messages.link(names.dst_wire))
    except Refused as refused:
        if refused.step and (error := _new_name_refused(link, names, refused)):
            raise error from refused
        raise
    try:
        link.leave(opened.file_id, messages.remove(opened.file_id), removes=True)
    except (Refused, Lost) as error:
        raise OutcomeUnknown(
            names.operation, names.src, f"it is published as {names.dst!r}, and the old name could not be removed ({error})"
        ) from error


def _publish_by_reservation(link: Link, names: Names) -> None:
    """An empty file is made under the new name, exclusively, and then replaced by the real one. Three round trips.

    Where there are no hard links this still has one winner, but the empty file is seen meanwhile. Cut after the reservation:
    the old name is whole, and an empty file has the new one. Cut after the rename: done.
    """
    source, _ = link.enter(_owning(names.src_wire, messages.SHARE_READ))
    try:
        _reserve(link, names)
    except TransportError:
        with suppress(Refused, Lost):
            link.leave(source.file_id)
        raise
    try:
        link.leave(source.file_id, messages.rename(names.dst_wire, source.file_id, replace=True))
    except Refused as refused:
        error = _target_open(link, names, refused) or from_status(names.operation, names.src, refused.status)
        try:
            _withdraw(link, names.dst_wire)
        except (Refused, Lost) as left:
            raise _reserved(names, left) from refused
        raise error from refused
    except Lost as lost:
        raise _reserved(names, lost) from lost


def _reserved(names: Names, reason: Exception) -> OutcomeUnknown:
    return OutcomeUnknown(names.operation, names.src, f"an empty file may have been left as {names.dst!r} ({reason})")


def _reserve(link: Link, names: Names) -> None:
    # Access to write is asked for as well: without it a read-only share says "not found" of a new name.
    access = messages.WRITE_DATA | messages.READ_ATTRIBUTES
    try:
        link.visit(messages.open_(names.dst_wire, access, messages.SHARE_ALL, messages.FILE, new=True))
    except Refused as refused:
        raise new_name_error(link, names.operation, names.dst, names.dst_wire, refused) from refused


def _withdraw(link: Link, wire: str) -> None:
    """Removes a reservation, unless something else has the name by now."""
    opened, _ = link.enter(messages.open_(wire, messages.DELETE | messages.READ_ATTRIBUTES, messages.SHARE_NONE, messages.FILE))
    if opened.size:
        link.leave(opened.file_id)
    else:
        link.leave(opened.file_id, messages.remove(opened.file_id), removes=True)


def new_name_error(link: Link, operation: str, path: str, wire: str, refused: Refused) -> TransportError:
    """The error of a CREATE that should have made a new name."""
    if refused.status in (Nt.OBJECT_NAME_COLLISION, Nt.FILE_IS_A_DIRECTORY):
        return taken(link, operation, path, wire)
    if refused.status == Nt.OBJECT_NAME_NOT_FOUND:
        # A new name cannot be missing, and a missing folder is PATH_NOT_FOUND.
        return AlreadyExists(operation, path, HIDDEN)
    return from_status(operation, path, refused.status)


def delete(link: Link, wire: str) -> None:
    """One round trip. Nobody else may have the file open, so that the name is free when this returns."""
    link.visit(_owning(wire, messages.SHARE_NONE), messages.remove(), removes=True)


def remove_dir(link: Link, wire: str) -> None:
    """One round trip. Nobody else may have the folder open, as above."""
    opening = messages.open_(wire, messages.DELETE, messages.SHARE_NONE, messages.FOLDER | messages.ITSELF)
    link.visit(opening, messages.remove(), removes=True)


def try_hard_link(link: Link, first: str, second: str) -> tuple[bool, str]:
    """Tries a hard link with two scratch names, which it removes. Gives what is known, and from where."""
    try:
        link.visit(messages.scratch(first), messages.link(second))
    except Refused as refused:
        if refused.step:
            return False, f"a trial hard link was refused with {name_of(refused.status)}"
        return True, f"not tried, since no scratch file can be made here ({name_of(refused.status)})"
    delete(link, second)
    return True, "a trial hard link was made"
