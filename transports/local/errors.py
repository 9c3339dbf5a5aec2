"""The one edge where an errno of the local file system becomes an error of the contract."""

import errno
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from transports import errors
from transports.errors import TransportError

_CLASSES: Mapping[int, type[TransportError]] = {
    errno.ENOENT: errors.NotFound,
    errno.ENOTDIR: errors.NotFound,  # a part of the path is a file
    errno.ESTALE: errors.NotFound,  # NFS: another host removed it, and this one still knew it
    errno.EEXIST: errors.AlreadyExists,
    errno.EACCES: errors.Denied,
    errno.EPERM: errors.Denied,
    errno.EROFS: errors.Denied,
    errno.EISDIR: errors.Denied,
    errno.EBUSY: errors.Busy,
    errno.ETXTBSY: errors.Busy,
    errno.EAGAIN: errors.Busy,
    errno.ENOTEMPTY: errors.Busy,
    errno.ENOSPC: errors.NoSpace,
    errno.EDQUOT: errors.NoSpace,
    errno.EFBIG: errors.NoSpace,
    errno.EXDEV: errors.CrossVolume,
    errno.ELOOP: errors.UnsafePath,  # every open says O_NOFOLLOW: a symbolic link is in the way
    errno.ENAMETOOLONG: errors.Unsupported,
    errno.EINVAL: errors.Unsupported,  # a name, or a kind of call, that this file system does not have
    errno.EILSEQ: errors.Unsupported,
    errno.ENOSYS: errors.Unsupported,
    errno.EOPNOTSUPP: errors.Unsupported,
    errno.EMLINK: errors.Unsupported,
    # A network or FUSE file system that lost its server:
    errno.ETIMEDOUT: errors.Unreachable,
    errno.ENOTCONN: errors.Unreachable,
    errno.ECONNRESET: errors.Unreachable,
    errno.ECONNABORTED: errors.Unreachable,
    errno.EHOSTDOWN: errors.Unreachable,
    errno.EHOSTUNREACH: errors.Unreachable,
    errno.ENETDOWN: errors.Unreachable,
}

# After these the server may have done what was asked.
_LOST = frozenset(number for number, kind in _CLASSES.items() if kind is errors.Unreachable) | {errno.EIO, errno.EINTR}

_ADVICE: Mapping[int, str] = {
    errno.EROFS: "the file system is mounted read-only",
    errno.ELOOP: "a symbolic link is in the way, and none is followed",
    errno.EXDEV: "both names must be on one volume; nothing is copied",
}


def error_for(operation: str, path: str, error: OSError, *, change: bool = False) -> TransportError:
    """The contract's error for an OSError. `change`: the call renames, makes or removes, so a lost answer leaves it unknown."""
    number = error.errno or 0
    if change and number in _LOST:
        kind: type[TransportError] = errors.OutcomeUnknown
    else:
        kind = _CLASSES.get(number, errors.ServerFailure)
    text = error.strerror or str(error)
    advice = _ADVICE.get(number)
    return kind(operation, path, f"{text} ({advice})" if advice else text)


@contextmanager
def translated(operation: str, path: str, *, change: bool = False) -> Iterator[None]:
    """Inside, every OSError leaves as an error of the contract."""
    try:
        yield
    except OSError as error:
        raise error_for(operation, path, error, change=change) from error
