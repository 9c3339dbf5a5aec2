"""How bytes and renames reach a directory: memory, local disk, SFTP, SMB, fsspec. Knows nothing of drops."""
