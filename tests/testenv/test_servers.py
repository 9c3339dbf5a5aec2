"""What the fixtures promise of the servers they give."""

from testenv.servers import SftpServer, SmbServer


def test_each_server_tells_its_version(sftp_server: SftpServer, smb_server: SmbServer) -> None:
    assert sftp_server.version.startswith("OpenSSH_")
    assert smb_server.version.startswith("Samba ")


def test_a_fresh_folder_is_empty_and_shown_by_both_servers(
    sftp_server: SftpServer, smb_server: SmbServer, sftp_dir: str, smb_dir: str
) -> None:
    assert sftp_dir != smb_dir
    for folder in (sftp_server.local(sftp_dir), smb_server.local("data", smb_dir)):
        assert folder is not None
        assert list(folder.iterdir()) == []
