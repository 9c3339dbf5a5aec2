"""SFTP: a directory on an SSH server, over either SSH engine."""

from transports.sftp.backend import SftpTransport
from transports.sftp.connect import connect_sftp

__all__ = ["SftpTransport", "connect_sftp"]
