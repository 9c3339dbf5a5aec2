"""SMB 2 and 3, on smbprotocol's low level: own opens and set-info requests, one connection for each transport."""

from transports.smb.backend import SmbTransport
from transports.smb.connect import connect_smb

__all__ = ["SmbTransport", "connect_smb"]
