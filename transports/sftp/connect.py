"""From an endpoint to a transport: which SSH engine, then the SFTP session over it."""

import random as random_module
import time
from collections.abc import Callable

from transports.endpoint import Endpoint
from transports.errors import HostKeyRejected, Unsupported
from transports.sftp.attempts import Pauses
from transports.sftp.backend import SftpTransport
from transports.sftp.host_keys import is_fingerprint
from transports.sftp.ssh_openssh import connect_openssh
from transports.sftp.ssh_paramiko import connect_paramiko


def connect_sftp(
    endpoint: Endpoint,
    *,
    sleep: Callable[[float], None] = time.sleep,
    random: Callable[[], float] = random_module.random,
) -> SftpTransport:
    """Connects, logs in, and opens the folder that the endpoint names.

    `sleep` and `random` (0 to 1) shape the pauses after a connection that was dropped before the server spoke; nothing else is
    tried again. Raises Unreachable, HostKeyRejected, AuthenticationFailed, Unsupported, NotFound (no such folder), Denied,
    ServerFailure.
    """
    location = endpoint.location
    if endpoint.host_key is not None and not is_fingerprint(endpoint.host_key):
        raise HostKeyRejected(
            "connect", "", f"the pinned key {endpoint.host_key!r} is no fingerprint: it is written SHA256:..."
        )
    if not location.host or location.host.startswith("-"):
        raise Unsupported("connect", "", f"{location.host!r} is not a host name")
    connect = connect_openssh if endpoint.engine == "openssh" else connect_paramiko
    client, server = connect(endpoint, Pauses(sleep, random))
    return SftpTransport.over_session(client, location.path, home=location.home, server=server)
