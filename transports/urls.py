"""The grammar of drop URLs: one string says which directory on which endpoint."""

from dataclasses import dataclass
from typing import Literal

from transports.secret import Secret

Scheme = Literal["memory", "file", "sftp", "smb", "fsspec"]


@dataclass(frozen=True, slots=True)
class Location:
    """A parsed drop URL. `str()` of it is the URL again, less the password.

    `path` is absolute ("/data/in") for file and sftp, relative to the home directory when `home` is set
    (`sftp://host/~/in`), and relative to the share for smb ("dir/sub"). For fsspec, `protocol` names the file system
    (`fsspec+s3://bucket/in`: protocol "s3", path "bucket/in").
    """

    scheme: Scheme
    path: str
    host: str = ""
    port: int | None = None
    user: str = ""
    domain: str = ""
    password: Secret | None = None
    share: str = ""
    home: bool = False
    protocol: str = ""
