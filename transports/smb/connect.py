"""Reaching a server, logging in, and finding out what the share can promise."""

import time

from smbprotocol import Dialects
from smbprotocol.exceptions import SMBException, SMBResponseException
from smbprotocol.session import Session
from smbprotocol.tree import TreeConnect

from transports.base import Capabilities, Fact, Guarantee
from transports.endpoint import Endpoint
from transports.errors import AuthenticationFailed, Denied, NotFound, ShareNotFound, TransportError, Unreachable, Unsupported
from transports.smb import messages, names, renames, replies
from transports.smb.backend import SmbTransport, scratch_name
from transports.smb.errors import Refused, edge, from_status
from transports.smb.files import keep_heap
from transports.smb.link import CREDITS, BoundedConnection, Link, NoAnswerError, hang_up
from transports.urls import Location

_PORT = 445
_DIALECTS = {
    Dialects.SMB_2_0_2: "SMB 2.0.2",
    Dialects.SMB_2_1_0: "SMB 2.1",
    Dialects.SMB_3_0_0: "SMB 3.0",
    Dialects.SMB_3_0_2: "SMB 3.0.2",
    Dialects.SMB_3_1_1: "SMB 3.1.1",
}


def connect_smb(endpoint: Endpoint) -> SmbTransport:
    """A connection of its own, with a session and a share of its own: nothing is shared with any other transport.

    `timeouts.connect` bounds all of it, but for the resolving of the host's name. Raises Unreachable, AuthenticationFailed,
    ShareNotFound, Denied (the account may not use the share), NotFound (the directory), UnsafePath, and Unsupported where
    `encrypt` is set and the server has no encryption.
    """
    location = endpoint.location
    root = names.on_wire("connect", "", location.path.strip("/"))
    deadline = time.monotonic() + endpoint.timeouts.connect
    connection = BoundedConnection(location.host, location.port or _PORT, endpoint.timeouts.reply, deadline)
    try:
        _reach(connection, endpoint)
        session = _log_in(connection, endpoint)
        link = _mount(connection, session, location)
        transport = _look_around(link, root, location)
    except BaseException:
        hang_up(connection)
        raise
    connection.finish_by = None
    keep_heap()
    return transport


def _called(location: Location) -> str:
    """The endpoint, as messages name it."""
    host = f"[{location.host}]" if ":" in location.host else location.host
    port = f":{location.port}" if location.port else ""
    return f"//{host}{port}/{location.share}/{location.path.strip('/')}".rstrip("/")


def _reach(connection: BoundedConnection, endpoint: Endpoint) -> None:
    try:
        connection.connect(timeout=endpoint.timeouts.connect)
    except Exception as error:
        # Refused is a ValueError here, and whatever a peer that does not speak SMB2 sets off in the parser arrives as itself.
        raise Unreachable("connect", "", f"{_called(endpoint.location)} cannot be reached: {error}") from error
    if endpoint.encrypt and not connection.supports_encryption:
        spoken = _DIALECTS.get(connection.dialect, "an old dialect")
        raise Unsupported("connect", "", f"encryption is asked for, and the server ({spoken}) has none; nothing was sent")


def _log_in(connection: BoundedConnection, endpoint: Endpoint) -> Session:
    location = endpoint.location
    user = f"{location.domain}\\{location.user}" if location.domain else location.user
    secret = endpoint.password or location.password
    who = f"{user or 'nobody (the URL names no user)'} at {_called(location)}"
    session = Session(connection, user or None, secret.reveal() if secret else None, require_encryption=endpoint.encrypt)
    try:
        session.connect()
    except SMBResponseException as error:
        known = from_status("connect", "", error.status)
        raise type(known)("connect", "", f"{who}: {known.detail}") from error
    except Exception as error:
        # Whatever ended the receiving thread is raised in the waiting one, and need not be an error of smbprotocol.
        if isinstance(error, SMBException) and not isinstance(error, NoAnswerError) and connection.connected:
            # The connection lives, so it is the login: among them one as guest, which can neither sign nor encrypt.
            hint = "" if secret else "; no password is given"
            raise AuthenticationFailed("connect", "", f"{who}: {error}{hint}") from error
        raise Unreachable("connect", "", f"{_called(location)} ended the login: {error}") from error
    finally:
        session.password = None  # smbprotocol would keep it for as long as the session lives
    return session


def _mount(connection: BoundedConnection, session: Session, location: Location) -> Link:
    # [MS-SMB2] has no form for an IPv6 address in a share name but the one that Windows invented.
    host = f"{location.host.replace(':', '-')}.ipv6-literal.net" if ":" in location.host else location.host
    tree = TreeConnect(session, rf"\\{host}\{location.share}")
    try:
        tree.connect()
        # A path below a DFS root would have to name the server and the share again, and could lead to another server.
        tree.is_dfs_share = False
        connection.echo(sid=session.session_id, credit_request=CREDITS)
    except SMBResponseException as error:
        known = from_status("connect", "", error.status)
        if isinstance(known, ShareNotFound):
            detail = f"the server has no share {location.share!r}: {_called(location)}; correct the URL or make the share"
        elif isinstance(known, Denied):
            detail = f"this account may not use the share: {_called(location)}"
        else:
            detail = f"{_called(location)}: {known.detail}"
        raise type(known)("connect", "", detail) from error
    except Exception as error:
        # As in `_log_in`.
        raise Unreachable("connect", "", f"{_called(location)}: {error}") from error
    return Link(connection, session.session_id, tree.tree_connect_id)


def _look_around(link: Link, root: str, location: Location) -> SmbTransport:
    opening = messages.open_(root, messages.READ_ATTRIBUTES, messages.SHARE_ALL, messages.FOLDER)
    with edge("connect"):
        try:
            _, answers = link.visit(opening, messages.query_volume(messages.FS_ATTRIBUTE_INFORMATION))
        except Refused as refused:
            raise _no_root(refused, location) from refused
        system = replies.file_system(replies.information(answers[0]))
        hard_links, evidence = _hard_links(link, root, system)
    facts = _capabilities(link, system, hard_links=hard_links, evidence=evidence)
    return SmbTransport(link, root, facts, hard_links=hard_links)


def _no_root(refused: Refused, location: Location) -> TransportError:
    known = from_status("connect", "", refused.status)
    if isinstance(known, NotFound):
        return NotFound("connect", "", f"there is no directory {_called(location)}: make it, or correct the URL")
    return type(known)("connect", "", f"{_called(location)}: {known.detail}")


def _hard_links(link: Link, root: str, system: replies.FileSystem) -> tuple[bool, str]:
    if system.hard_links:
        return True, f"the file system ({system.name}) says that it has hard links"
    first, second = ("\\".join(part for part in (root, scratch_name()) if part) for _ in range(2))
    return renames.try_hard_link(link, first, second)


def _capabilities(link: Link, system: replies.FileSystem, *, hard_links: bool, evidence: str) -> Capabilities:
    if hard_links:
        publish = Fact(
            Guarantee.ATOMIC,
            f"a hard link, which makes the name or finds it taken, then the old name is removed; {evidence}. "
            "A file that this account may not link goes as where there are no hard links",
        )
    else:
        publish = Fact(
            Guarantee.CHECKED,
            f"an exclusive empty file, then a replacing rename: one winner, but the empty file is seen meanwhile; {evidence}",
        )
    dialect = _DIALECTS.get(link.dialect, f"SMB {link.dialect:#06x}")
    return Capabilities(
        server=f"{dialect}{', encrypted' if link.encrypted else ''}",
        create=Fact(Guarantee.ATOMIC, "CREATE with disposition FILE_CREATE"),
        publish=publish,
        claim=Fact(Guarantee.ATOMIC, "a rename on a handle with DELETE access and without shared delete: one opener at a time"),
        replace=Fact(Guarantee.ATOMIC, "FileRenameInformation with ReplaceIfExists"),
        durable=Fact(
            Guarantee.ATOMIC,
            "FLUSH is sent and its answer checked; whether the server then syncs is its own setting (Samba: strict sync)",
        ),
        pattern=True,
        notification=True,
        resume=True,
        longest_name=min(255, system.longest_name) if system.longest_name > 0 else 255,
        time_resolution=0.01,  # the form has 100 ns; but Linux stamps what is new with the time of its last tick
    )


__all__ = ["connect_smb"]
