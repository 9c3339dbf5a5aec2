"""A server of Win32-OpenSSH: what it calls itself is known beforehand, and what is known of it is told."""

from pathlib import Path

from testenv.servers import BareSftp
from transports.base import Guarantee
from transports.contract.place import content, fill, names
from transports.sftp import SftpTransport
from transports.sftp.streams import PipeStream


def test_a_rename_that_deletes_its_target_first_is_not_taken_for_one_step(bare_sftp: BareSftp, tmp_path: Path) -> None:
    """Case win-posix-rename-not-atomic: only replacing is touched, since no other step has a target that exists."""
    stream = PipeStream(list(bare_sftp.command))
    with SftpTransport.over_stream(stream, str(tmp_path), server="OpenSSH_for_Windows_8.1") as transport:
        told = transport.capabilities
        assert told.replace.guarantee is Guarantee.CHECKED
        assert "deletes the target" in told.replace.evidence
        assert (told.claim.guarantee, told.publish.guarantee) == (Guarantee.ATOMIC, Guarantee.ATOMIC)
        for name in ("old", "new"):
            fill(transport, name, name.encode())
        transport.replace("new", "old")
        assert names(transport) == ["old"]
        assert content(transport, "old") == b"new"
