"""Publishing over SFTP: a rename that never replaces, from requests that each promise only a part of it.

0. Version 3's RENAME, where it is known to be link(2) and unlink(2) inside the server: OpenSSH, a file system that has hard
   links, and a file that this account owns, which it may always link. A client that sleeps or dies in the middle changes
   nothing then; with two requests of its own it could wake up late and remove a name that has come back meanwhile.
1. hardlink@openssh.com, then REMOVE of the source. link(2) is one step and never replaces. A cut between the two leaves both
   names, of one file: sizes and contents agree, and the caller removes the source name.
2. Where the link is refused or not offered: the target is reserved, then the source is posix-renamed over the reservation.
   An account may not link what it neither owns nor may write, and some file systems have no links. The reservation is a
   symbolic link that leads to itself: made exclusively, taken for a file by no listing, and nobody reads or writes through
   it. A cut leaves it, and the source untouched; an operator deletes it. Where the server makes no symbolic links either, it
   is an empty file, made exclusively.
3. Without posix-rename: a look at the target, then version 3's RENAME. A rival between the two may not be noticed.

RENAME is not used where a link may be refused: inside it OpenSSH falls back, silently, to a look and rename(2) exactly there,
and then two publishers both win.

The guard of them all is the *target*. In 1 the source name is a second step: a rival that renames the source meanwhile is
not noticed. So a step whose guard is the source (a claim, a fence) is a `claim`.
"""

from transports.base import Kind
from transports.errors import OutcomeUnknown, ServerFailure
from transports.sftp.client import HARDLINK, POSIX_RENAME
from transports.sftp.edge import Edge, changing, refused, taken
from transports.sftp.packets import Code
from transports.sftp.wire import ConnectionLost, StatusError

_OPERATION = "publish"


def publish(edge: Edge, src: str, dst: str) -> None:
    """Renames `src` to `dst`, both checked, and never replaces `dst`. Raises as `Transport.publish`."""
    client = edge.client
    owned = _is_linked_by_rename(edge, src)
    with changing(_OPERATION, src):
        if owned:
            _rename_unseen(edge, src, dst)
        elif client.offers(HARDLINK):
            refusal = _link(edge, src, dst)
            if refusal is None:
                _drop_source(edge, src, dst)
            elif client.offers(POSIX_RENAME):
                _rename_over_reservation(edge, src, dst)
            else:
                # RENAME would do it, and two publishers could both win without a word.
                raise refused(_OPERATION, src, refusal) from refusal
        elif client.offers(POSIX_RENAME):
            _rename_over_reservation(edge, src, dst)
        else:
            _look_and_rename(edge, src, dst)


def _is_linked_by_rename(edge: Edge, src: str) -> bool:
    """Whether RENAME of this file is link and unlink, and nothing else."""
    if not (edge.links_inside_rename and edge.has_linked and edge.account is not None):
        return False
    there = edge.look(_OPERATION, src)
    return there is not None and there.kind is Kind.FILE and edge.account in (0, there.owner)


def _link(edge: Edge, src: str, dst: str) -> StatusError | None:
    """None where `dst` is a name of the file now; the refusal, where this file cannot be linked and nothing else is wrong.

    Raises what a rename would meet as well.
    """
    try:
        edge.client.hardlink(edge.at(src), edge.at(dst))
    except StatusError as error:
        if error.code in (Code.PERMISSION_DENIED, Code.OP_UNSUPPORTED):
            return error
        reason = edge.not_renamed(_OPERATION, src, dst, error)
        if error.code == Code.FAILURE and type(reason) is ServerFailure:
            return error
        raise reason from error
    edge.has_linked = True
    return None


def _drop_source(edge: Edge, src: str, dst: str) -> None:
    """The second step, after which `dst` is published already: nothing that happens here is a known "not done"."""
    try:
        edge.client.remove(edge.at(src))
    except StatusError as error:
        if error.code in (Code.NO_SUCH_FILE, Code.NO_SUCH_PATH):
            # Somebody saw both names and removed this one, as they should. To take `dst` back could remove the last name.
            return
        detail = f"{dst!r} is published, and the name {src!r} of the same file could not be removed: {error}"
        raise OutcomeUnknown(_OPERATION, src, detail) from error
    except ConnectionLost as error:
        raise OutcomeUnknown(
            _OPERATION, src, f"{dst!r} is published, and {src!r} may still be there: {error.reason}"
        ) from error


def _rename_over_reservation(edge: Edge, src: str, dst: str) -> None:
    client = edge.client
    _reserve(edge, src, dst)
    try:
        client.posix_rename(edge.at(src), edge.at(dst))
    except StatusError as error:
        _give_up_reservation(edge, dst, error)
        raise edge.not_renamed(_OPERATION, src, dst, error) from error
    except ConnectionLost as error:
        detail = f"{src!r} was renamed to {dst!r}, or {dst!r} is only reserved, by a link that leads to itself: {error.reason}"
        raise OutcomeUnknown(_OPERATION, src, detail) from error


def _reserve(edge: Edge, src: str, dst: str) -> None:
    """Makes `dst` exclusively. Raises AlreadyExists and whatever else a rename would meet there."""
    client = edge.client
    try:
        client.link_to_itself(edge.at(dst))
    except StatusError as no_link:
        if (found := edge.look(_OPERATION, dst)) is not None:
            raise taken(_OPERATION, dst, found) from no_link
        try:
            client.let_go(client.create(edge.at(dst)))
        except StatusError as error:
            raise edge.not_renamed(_OPERATION, src, dst, error) from error


def _give_up_reservation(edge: Edge, dst: str, refusal: StatusError) -> None:
    try:
        edge.client.remove(edge.at(dst))
    except (StatusError, ConnectionLost) as error:
        raise OutcomeUnknown(
            _OPERATION, dst, f"refused ({refusal}), and the reservation of the name could not be removed: {error}"
        ) from error


def _look_and_rename(edge: Edge, src: str, dst: str) -> None:
    if (found := edge.look(_OPERATION, dst)) is not None:
        raise taken(_OPERATION, dst, found)
    _rename_unseen(edge, src, dst)


def _rename_unseen(edge: Edge, src: str, dst: str) -> None:
    try:
        edge.client.rename(edge.at(src), edge.at(dst))
    except StatusError as error:
        raise edge.not_renamed(_OPERATION, src, dst, error) from error
