"""Many workers on one server: each item once, and no connection is shared."""

import json
from pathlib import Path

import pytest

from testenv.servers import SftpServer, SmbServer
from tests.e2e.commands import clean_environment, dropgate

ITEMS = 40
WORKERS = 6


def send_and_receive(place: Path, drop: str, environment: dict[str, str]) -> None:
    files = [f"file_{number:02}.dat" for number in range(ITEMS)]
    for number, name in enumerate(files):
        (place / name).write_bytes(name.encode() * number * 1000)
    (place / "received").mkdir()
    dropgate("send", drop, *files, "--group", "many_", cwd=place, environment=environment)
    output = dropgate(
        *("receive", drop, "--group", "many_", "--to", "received", "--original-names", "--once"),
        *("--workers", str(WORKERS), "--json"),
        cwd=place,
        environment=environment,
    )
    told = [json.loads(line) for line in output.splitlines()]
    assert {line["result"] for line in told} == {"processed"}
    assert sorted(line["item"] for line in told) == [f"many_{number:010}" for number in range(1, ITEMS + 1)]
    assert sorted(path.name for path in (place / "received").iterdir()) == files
    assert all((place / "received" / name).read_bytes() == (place / name).read_bytes() for name in files)


@pytest.mark.timeout(180)
def test_each_item_is_taken_once_over_sftp(tmp_path: Path, sftp_server: SftpServer, sftp_dir: str) -> None:
    """Case paramiko-threads-hang: every worker has a connection of its own."""
    (tmp_path / "dropgate.toml").write_text(
        f"""
        [endpoint.bank]
        url = "sftp://{sftp_server.user}@{sftp_server.host}:{sftp_server.port}{sftp_server.data}"
        host_key = "{sftp_server.host_key}"

        [drop.many]
        endpoint = "bank"
        directory = "{sftp_dir}"
        """
    )
    send_and_receive(tmp_path, "many", clean_environment(DROPGATE_ENDPOINT__BANK__PASSWORD=sftp_server.password))


@pytest.mark.timeout(180)
def test_each_item_is_taken_once_over_smb(tmp_path: Path, smb_server: SmbServer, smb_dir: str) -> None:
    """Cases smb-register-race and smb-credits: the same over SMB."""
    send_and_receive(tmp_path, smb_server.url("data", smb_dir), clean_environment())
