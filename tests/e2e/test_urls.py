"""A URL alone is enough to reach a drop, with any character in its password; and no output shows that password."""

import subprocess
from pathlib import Path

from testenv.servers import SftpServer, SmbServer
from tests.e2e.commands import DROPGATE, clean_environment, dropgate


def hand_over(place: Path, url: str, *options: str) -> str:
    """Sends, looks, receives; all that was said."""
    (place / "today.csv").write_text("order;amount\n")
    (place / "received").mkdir()
    said = [
        dropgate("send", url, "today.csv", "--group", "orders_", *options, cwd=place),
        dropgate("status", url, *options, cwd=place),
        dropgate("receive", url, "--group", "orders_", "--to", "received", "--once", *options, cwd=place),
    ]
    assert (place / "received" / "orders_0000000001.csv").read_bytes() == (place / "today.csv").read_bytes()
    return "".join(said)


def test_an_sftp_url_with_its_password_is_enough(tmp_path: Path, sftp_server: SftpServer, sftp_dir: str) -> None:
    said = hand_over(tmp_path, sftp_server.url(sftp_dir), "--host-key", sftp_server.host_key)
    assert f"sftp://{sftp_server.user}@{sftp_server.host}:{sftp_server.port}{sftp_server.data}/{sftp_dir}" in said
    assert sftp_server.password not in said


def test_an_smb_url_with_its_password_is_enough(tmp_path: Path, smb_server: SmbServer, smb_dir: str) -> None:
    said = hand_over(tmp_path, smb_server.url("data", smb_dir))
    assert f"@{smb_server.host}:{smb_server.port}/data/{smb_dir}" in said
    assert smb_server.password not in said


def test_a_wrong_password_is_told_and_not_shown(tmp_path: Path, sftp_server: SftpServer, smb_server: SmbServer) -> None:
    for url, options in (
        (f"sftp://drop:not-it@{sftp_server.host}:{sftp_server.port}{sftp_server.data}", ["--host-key", sftp_server.host_key]),
        (f"smb://drop:not-it@{smb_server.host}:{smb_server.port}/data", []),
    ):
        done = subprocess.run(
            [DROPGATE, "status", url, *options],
            cwd=tmp_path,
            env=clean_environment(),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 3
        assert "refused" in done.stderr
        assert "not-it" not in done.stdout + done.stderr
