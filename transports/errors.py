"""What can go wrong between a caller and a directory: one tree, the same for every backend.

    TransportError                    operation, path, and what is known
    ├── NotFound                      the source, or a folder on the way, is not there
    ├── AlreadyExists                 the name to be made is taken; nothing was changed
    ├── Denied                        permissions, a read-only share or file system
    ├── Busy                          somebody holds the file open, or its deletion is pending; later it may work
    ├── NoSpace                       disk or quota is full; also a file larger than the server takes
    ├── CrossVolume                   the two names are on different volumes; never answered by copy and delete
    ├── Unsupported                   the server cannot do this at all
    ├── UnsafePath                    refused before anything was sent: the path could reach something else
    ├── ChangedWhileReading           the file grew shorter, or vanished, between opening and its end
    ├── ServerFailure                 the server answered, and the answer fits nothing above
    ├── OutcomeUnknown                the connection died inside a change; it was made or it was not: look
    └── ConnectionFailed              no change was begun by this call
        ├── Unreachable               no route, refused, reset, timed out, server restarting
        ├── AuthenticationFailed      user, password or key refused
        ├── HostKeyRejected           the server's key is unknown, or is not the one that is expected
        └── ShareNotFound             the server answers, and has no such share

A driver's own error is translated at one edge in each backend and kept as `__cause__`. What a class means for the caller
is fixed here: after every class but `OutcomeUnknown` a rename, create or delete is known not to have happened.
Messages name the operation and the path, never a secret.
"""


class TransportError(Exception):
    """An operation on a directory failed.

    `operation` is the contract's member (`publish`, `scan`, ...). `path` is the path it was given, relative to the
    transport's root, or "" where the whole connection is meant. `detail` says what is known and what to do.
    """

    def __init__(self, operation: str, path: str = "", detail: str = "") -> None:
        self.operation = operation
        self.path = path
        self.detail = detail
        super().__init__(operation, path, detail)

    def __str__(self) -> str:
        where = f"{self.operation} {self.path!r}" if self.path else self.operation
        return f"{where}: {self.detail or self.summary}"

    @property
    def summary(self) -> str:
        """What the class means, in a few words: the detail of an error that has none of its own."""
        return (type(self).__doc__ or type(self).__name__).split("\n", maxsplit=1)[0].rstrip(".")


class NotFound(TransportError):
    """No such file or folder."""


class AlreadyExists(TransportError):
    """The name is taken, and nothing was replaced."""


class Denied(TransportError):
    """Permission denied, or read-only."""


class Busy(TransportError):
    """Somebody has the file open; try again later."""


class NoSpace(TransportError):
    """The disk or the quota is full."""


class CrossVolume(TransportError):
    """The two names are on different volumes."""


class Unsupported(TransportError):
    """The server cannot do this."""


class UnsafePath(TransportError):
    """The path is not safe to send to a file server."""


class ChangedWhileReading(TransportError):
    """The file became shorter, or vanished, while it was read."""


class ServerFailure(TransportError):
    """The server refused without a reason that is known here."""


class OutcomeUnknown(TransportError):
    """The connection died inside the change: it was made, or it was not; look before anything else."""


class ConnectionFailed(TransportError):
    """No connection to the endpoint."""


class Unreachable(ConnectionFailed):
    """The endpoint does not answer."""


class AuthenticationFailed(ConnectionFailed):
    """The endpoint refused the login."""


class HostKeyRejected(ConnectionFailed):
    """The server's host key is unknown or not the expected one."""


class ShareNotFound(ConnectionFailed):
    """The server has no such share."""
