"""Refuses a folder that other hosts share: what holds among the processes of one kernel does not hold there."""

import os
from pathlib import Path

from gateway.errors import ConfigurationError
from transports.local.volume import volume_of

# O_APPEND is "seek, then write" on these, two hosts' appends fall on each other, and SQLite's shared memory is not shared.
_SHARED = ("nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "ceph", "afs", "lustre", "gpfs", "gfs2", "ocfs2", "virtiofs", "vboxsf")
_SHARED_PROGRAMS = ("fuse.sshfs", "fuse.glusterfs", "fuse.ceph", "fuse.s3fs", "fuse.rclone", "fuse.juicefs", "fuse.davfs")


def prepare_local_folder(folder: Path) -> None:
    """Makes the folder where it is missing. Raises ConfigurationError where it cannot be, or is on a shared file system."""
    try:
        there = next(path for path in (folder, *folder.parents) if path.exists())
        handle = os.open(there, os.O_RDONLY | os.O_DIRECTORY)
        try:
            kind = volume_of(handle).kind
        finally:
            os.close(handle)
        if kind in _SHARED or kind in _SHARED_PROGRAMS:
            raise ConfigurationError(
                f"the ledger's folder {folder} is on {kind}, which other hosts share, and a file cannot be a ledger there: "
                "give it a folder of this host's own disk, or take a postgresql: ledger"
            )
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigurationError(f"the ledger's folder {folder} cannot be used: {error.strerror}") from error
