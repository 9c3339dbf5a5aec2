"""One way from an endpoint to a connection: picks the backend by the location's scheme."""

from transports.base import Transport
from transports.endpoint import Endpoint


def connect(endpoint: Endpoint) -> Transport:
    """A new connection, rooted at the endpoint's directory. The caller closes it.

    A backend and the libraries under it are imported when they are first used: a local hand-off loads no SSH.

    Raises NotFound (the directory is not there), Denied, ConnectionFailed and its kinds, Unsupported (no such fsspec protocol).
    """
    location = endpoint.location
    match location.scheme:
        case "memory":
            from transports.memory import MemoryTransport, named_store

            name, _, folder = location.path.partition("/")
            return MemoryTransport(named_store(name), folder)
        case "file":
            from transports.local.transport import LocalTransport

            return LocalTransport(location.path)
        case "sftp":
            from transports.sftp.connect import connect_sftp

            return connect_sftp(endpoint)
        case "smb":
            from transports.smb.connect import connect_smb

            return connect_smb(endpoint)
        case "fsspec":
            from transports.fsspec_bridge import connect_fsspec

            return connect_fsspec(endpoint)
