"""The one edge where the server's status codes and smbprotocol's errors become the errors of the contract.

smbprotocol gives most of them no errno and none the class that Python would expect, so the number alone decides.
"""

import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from transports import errors
from transports.errors import TransportError
from transports.smb.status import Nt, name_of


class Refused(Exception):  # not an error of the contract: it never leaves the package
    """The server answered a request with an error status. `step` is its place in a compound; 0 is the opening."""

    def __init__(self, status: int) -> None:
        self.status = status
        self.step = 0
        super().__init__(name_of(status))


class Lost(Exception):  # not an error of the contract: it never leaves the package
    """The connection is of no more use. `sent` says whether the request can have reached the server."""

    def __init__(self, reason: str, *, sent: bool) -> None:
        self.sent = sent
        super().__init__(reason)


Meanings = Mapping[int, type[TransportError]]

MEANING: Meanings = {
    Nt.NO_SUCH_FILE: errors.NotFound,
    Nt.OBJECT_NAME_NOT_FOUND: errors.NotFound,
    Nt.OBJECT_PATH_NOT_FOUND: errors.NotFound,
    Nt.OBJECT_PATH_INVALID: errors.NotFound,  # a file where a folder was expected on the way
    Nt.NOT_A_DIRECTORY: errors.NotFound,
    Nt.NOT_FOUND: errors.NotFound,
    Nt.FILE_DELETED: errors.NotFound,
    Nt.FILE_RENAMED: errors.NotFound,
    Nt.OBJECT_NAME_COLLISION: errors.AlreadyExists,
    Nt.ACCESS_DENIED: errors.Denied,
    Nt.PRIVILEGE_NOT_HELD: errors.Denied,
    Nt.NETWORK_ACCESS_DENIED: errors.Denied,
    Nt.MEDIA_WRITE_PROTECTED: errors.Denied,
    Nt.CANNOT_DELETE: errors.Denied,  # the file is marked read-only
    Nt.FILE_IS_A_DIRECTORY: errors.Denied,
    Nt.SHARING_VIOLATION: errors.Busy,
    Nt.FILE_LOCK_CONFLICT: errors.Busy,
    Nt.DELETE_PENDING: errors.Busy,
    Nt.DIRECTORY_NOT_EMPTY: errors.Busy,
    Nt.DISK_FULL: errors.NoSpace,
    Nt.QUOTA_EXCEEDED: errors.NoSpace,
    Nt.FILE_TOO_LARGE: errors.NoSpace,
    Nt.NOT_SAME_DEVICE: errors.CrossVolume,
    Nt.NOT_SUPPORTED: errors.Unsupported,
    Nt.NOT_IMPLEMENTED: errors.Unsupported,
    Nt.INVALID_DEVICE_REQUEST: errors.Unsupported,
    Nt.INVALID_INFO_CLASS: errors.Unsupported,
    Nt.PATH_NOT_COVERED: errors.Unsupported,
    Nt.TOO_MANY_LINKS: errors.Unsupported,
    Nt.OBJECT_NAME_INVALID: errors.UnsafePath,
    Nt.OBJECT_PATH_SYNTAX_BAD: errors.UnsafePath,
    Nt.NAME_TOO_LONG: errors.UnsafePath,
    Nt.STOPPED_ON_SYMLINK: errors.UnsafePath,
    Nt.END_OF_FILE: errors.ChangedWhileReading,
    Nt.USER_SESSION_DELETED: errors.Unreachable,
    Nt.NETWORK_NAME_DELETED: errors.Unreachable,
    Nt.NETWORK_SESSION_EXPIRED: errors.Unreachable,
    Nt.CONNECTION_DISCONNECTED: errors.Unreachable,
    Nt.REQUEST_NOT_ACCEPTED: errors.Unreachable,  # too many sessions
    Nt.INSUFF_SERVER_RESOURCES: errors.Unreachable,
    Nt.INSUFFICIENT_RESOURCES: errors.Unreachable,
    Nt.LOGON_FAILURE: errors.AuthenticationFailed,
    Nt.WRONG_PASSWORD: errors.AuthenticationFailed,
    Nt.NO_SUCH_USER: errors.AuthenticationFailed,
    Nt.ACCOUNT_RESTRICTION: errors.AuthenticationFailed,
    Nt.ACCOUNT_DISABLED: errors.AuthenticationFailed,
    Nt.ACCOUNT_LOCKED_OUT: errors.AuthenticationFailed,
    Nt.INVALID_LOGON_HOURS: errors.AuthenticationFailed,
    Nt.INVALID_WORKSTATION: errors.AuthenticationFailed,
    Nt.LOGON_TYPE_NOT_GRANTED: errors.AuthenticationFailed,
    Nt.PASSWORD_EXPIRED: errors.AuthenticationFailed,
    Nt.PASSWORD_MUST_CHANGE: errors.AuthenticationFailed,
    Nt.BAD_NETWORK_NAME: errors.ShareNotFound,
    Nt.BAD_DEVICE_TYPE: errors.ShareNotFound,
}

# To a claimer a file that is being deleted is gone: no waiting brings it back.
CLAIM_MEANING: Meanings = {**MEANING, Nt.DELETE_PENDING: errors.NotFound}

_ADVICE: Mapping[int, str] = {
    Nt.SHARING_VIOLATION: "somebody has it open; try again later",
    Nt.DELETE_PENDING: "it is deleted, and somebody still has it open",
    Nt.DIRECTORY_NOT_EMPTY: "the folder is not empty",
    Nt.FILE_IS_A_DIRECTORY: "it is a folder",
    Nt.NOT_A_DIRECTORY: "it, or a part of the path before it, is not a folder",
    Nt.OBJECT_PATH_NOT_FOUND: "a folder on the way is not there",
    Nt.OBJECT_NAME_INVALID: "the server does not take this name",
    Nt.STOPPED_ON_SYMLINK: "it is a symbolic link, which is never followed",
    Nt.PATH_NOT_COVERED: "it is a DFS link to another server; use the address it stands for",
    Nt.END_OF_FILE: "the file became shorter while it was read",
    Nt.MEDIA_WRITE_PROTECTED: "the share is read-only",
    Nt.CANNOT_DELETE: "the file is marked read-only",
    Nt.LOGON_FAILURE: "the server refused the user name or the password",
    Nt.PASSWORD_EXPIRED: "the password has expired",
    Nt.PASSWORD_MUST_CHANGE: "the password must be changed first",
    Nt.ACCOUNT_LOCKED_OUT: "the account is locked out",
    Nt.ACCOUNT_DISABLED: "the account is disabled",
    Nt.REQUEST_NOT_ACCEPTED: "the server takes no more sessions now",
}


def from_status(operation: str, path: str, status: int, meanings: Meanings = MEANING) -> TransportError:
    """The contract's error for a status. One that is not in the table is a ServerFailure."""
    error = meanings.get(status, errors.ServerFailure)
    words = _ADVICE.get(status) or error(operation, path).summary
    return error(operation, path, f"{words} ({name_of(status)})")


@contextmanager
def edge(operation: str, path: str = "", *, changes: bool = False, meanings: Meanings = MEANING) -> Iterator[None]:
    """Translates what a link raises. `changes` says that a request which got no answer may have been carried out."""
    try:
        yield
    except Refused as refused:
        raise from_status(operation, path, refused.status, meanings) from (refused.__cause__ or refused)
    except Lost as lost:
        kind = errors.OutcomeUnknown if changes and lost.sent else errors.Unreachable
        raise kind(operation, path, f"{kind(operation, path).summary} ({lost})") from (lost.__cause__ or lost)
    except (struct.error, UnicodeError) as error:
        raise errors.ServerFailure(operation, path, f"the server's answer cannot be read: {error}") from error
