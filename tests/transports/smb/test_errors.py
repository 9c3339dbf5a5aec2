"""What the server's numbers become; its words, and smbprotocol's errno, decide nothing."""

import pytest
from smbprotocol.exceptions import SMBResponseException
from smbprotocol.header import SMB2HeaderResponse

from transports import errors
from transports.errors import TransportError
from transports.smb.errors import CLAIM_MEANING, Lost, Refused, edge, from_status
from transports.smb.status import Nt


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (Nt.LOGON_FAILURE, errors.AuthenticationFailed),
        (Nt.PASSWORD_EXPIRED, errors.AuthenticationFailed),
        (Nt.ACCOUNT_LOCKED_OUT, errors.AuthenticationFailed),
        (Nt.BAD_NETWORK_NAME, errors.ShareNotFound),
        (Nt.SHARING_VIOLATION, errors.Busy),
        (Nt.DELETE_PENDING, errors.Busy),
        (Nt.DIRECTORY_NOT_EMPTY, errors.Busy),
        (Nt.DISK_FULL, errors.NoSpace),
        (Nt.QUOTA_EXCEEDED, errors.NoSpace),
        (Nt.NOT_SAME_DEVICE, errors.CrossVolume),
        (Nt.OBJECT_NAME_COLLISION, errors.AlreadyExists),
        (Nt.OBJECT_NAME_INVALID, errors.UnsafePath),
        (Nt.STOPPED_ON_SYMLINK, errors.UnsafePath),
        (Nt.END_OF_FILE, errors.ChangedWhileReading),
        (Nt.ACCESS_DENIED, errors.Denied),
        (Nt.USER_SESSION_DELETED, errors.Unreachable),
        (Nt.REQUEST_NOT_ACCEPTED, errors.Unreachable),
        (0xC0DEF00D, errors.ServerFailure),
    ],
)
def test_a_status_has_one_meaning(status: int, kind: type[TransportError]) -> None:
    """smb-exceptions-not-subclassed: half of these have no errno, and none is the class that Python would expect."""
    error = from_status("stat", "x", status)
    assert type(error) is kind
    assert "STATUS_" in str(error) or f"{status:#010x}" in str(error)


def test_a_link_of_a_distributed_file_system_says_what_to_do() -> None:
    """smb-dfs: a path that another server holds is not followed."""
    error = from_status("connect", "", Nt.PATH_NOT_COVERED)
    assert type(error) is errors.Unsupported
    assert "use the address it stands for" in str(error)


def test_what_is_being_deleted_is_gone_for_a_claim() -> None:
    assert type(from_status("claim", "x", Nt.DELETE_PENDING, CLAIM_MEANING)) is errors.NotFound


def test_the_cause_is_the_error_of_the_driver() -> None:
    header = SMB2HeaderResponse()
    header["status"] = Nt.SHARING_VIOLATION
    driver = SMBResponseException(header)
    with pytest.raises(errors.Busy) as caught, edge("claim", "x", changes=True):
        raise Refused(Nt.SHARING_VIOLATION) from driver
    assert caught.value.__cause__ is driver
    assert (caught.value.operation, caught.value.path) == ("claim", "x")


@pytest.mark.parametrize(
    ("changes", "sent", "kind"),
    [
        (True, True, errors.OutcomeUnknown),
        (True, False, errors.Unreachable),
        (False, True, errors.Unreachable),
        (False, False, errors.Unreachable),
    ],
)
def test_a_lost_connection_leaves_a_change_unknown_only_once_it_was_sent(
    *, changes: bool, sent: bool, kind: type[TransportError]
) -> None:
    with pytest.raises(TransportError) as caught, edge("claim", "x", changes=changes):
        raise Lost("cut", sent=sent)
    assert type(caught.value) is kind
