"""What each errno of the system means."""

import errno
import os

import pytest

from tests.transports.local.helpers import raising
from transports.contract.place import fill
from transports.errors import (
    AlreadyExists,
    Busy,
    CrossVolume,
    Denied,
    NoSpace,
    NotFound,
    OutcomeUnknown,
    ServerFailure,
    TransportError,
    Unreachable,
    UnsafePath,
    Unsupported,
)
from transports.local import transport as local_transport
from transports.local.errors import error_for
from transports.local.transport import LocalTransport


class TestErrors:
    @pytest.mark.parametrize(
        ("number", "kind"),
        [
            (errno.ENOENT, NotFound),
            (errno.ESTALE, NotFound),
            (errno.ENOTDIR, NotFound),
            (errno.EEXIST, AlreadyExists),
            (errno.EACCES, Denied),
            (errno.EPERM, Denied),
            (errno.EROFS, Denied),
            (errno.EBUSY, Busy),
            (errno.ETXTBSY, Busy),
            (errno.ENOTEMPTY, Busy),
            (errno.ENOSPC, NoSpace),
            (errno.EDQUOT, NoSpace),
            (errno.EFBIG, NoSpace),
            (errno.EXDEV, CrossVolume),
            (errno.ELOOP, UnsafePath),
            (errno.ENAMETOOLONG, Unsupported),
            (errno.ENOSYS, Unsupported),
            (errno.ETIMEDOUT, Unreachable),
            (errno.ENOTCONN, Unreachable),
            (errno.EIO, ServerFailure),
            (errno.EMFILE, ServerFailure),
        ],
    )
    def test_an_errno_has_its_class(self, number: int, kind: type[TransportError]) -> None:
        failure = error_for("stat", "x", OSError(number, os.strerror(number)))
        assert type(failure) is kind
        assert os.strerror(number) in str(failure)

    @pytest.mark.parametrize("number", [errno.EIO, errno.ETIMEDOUT, errno.ENOTCONN, errno.EINTR])
    def test_a_server_lost_inside_a_change_leaves_it_unknown(
        self, transport: LocalTransport, monkeypatch: pytest.MonkeyPatch, number: int
    ) -> None:
        fill(transport, "x")
        monkeypatch.setattr(os, "rename", raising(number))
        with pytest.raises(OutcomeUnknown) as caught:
            transport.claim("x", "C_x")
        assert isinstance(caught.value.__cause__, OSError), "the system's own error is kept"

    def test_sshfs_is_told_its_mount_option(self) -> None:
        refused = OSError(errno.EPERM, "Operation not permitted")
        failure = local_transport._rename_error("replace", "new", "old", refused, "fuse.sshfs on Linux")
        assert isinstance(failure, Denied)
        assert "-o workaround=rename" in str(failure)
