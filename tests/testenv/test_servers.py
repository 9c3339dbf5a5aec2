"""What both kinds of servers promise, seen through the clients that OpenSSH and Samba ship."""

import os
import pickle
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from testenv.servers import BareSftp, SftpServer, SmbServer
from tests.testenv.conftest import Servers

MANY = 60  # seconds for a client; it takes far less


def sftp(server: SftpServer, *lines: str) -> subprocess.CompletedProcess[str]:
    """OpenSSH's own client, logged in with the key; it stops at the first command that fails."""
    options = [
        f"-P{server.port}",
        f"-oIdentityFile={server.key_file}",
        f"-oUserKnownHostsFile={server.known_hosts}",
        "-oIdentitiesOnly=yes",
        "-oStrictHostKeyChecking=yes",
        "-oBatchMode=yes",
    ]
    return subprocess.run(
        ["sftp", "-F/dev/null", "-b-", *options, f"{server.user}@{server.host}"],
        input="\n".join(lines),
        capture_output=True,
        text=True,
        timeout=MANY,
        check=False,
    )


def smb(server: SmbServer, share: str, *lines: str, user: str = "", password: str = "") -> str:
    """What Samba's own client says of a few commands: its exit code tells little."""
    account = f"{server.domain}\\{user or server.user}"
    done = subprocess.run(
        ["smbclient", f"-p{server.port}", f"-U{account}", f"//{server.host}/{share}"],
        env={**os.environ, "PASSWD": password or server.password},
        input="".join(f"{line}\n" for line in lines),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=MANY,
        check=False,
    )
    return done.stdout


def volume(server: SftpServer | SmbServer) -> Path:
    """Volume 1 as this machine sees it."""
    folder = server.local()
    assert folder is not None
    return folder


@pytest.fixture
def payload(tmp_path: Path) -> Path:
    """Two MiB: more than the full volume takes."""
    path = tmp_path / "payload"
    path.write_bytes(os.urandom(2 << 20))
    return path


def test_they_tell_kind_and_version(servers: Servers, kind: str) -> None:
    assert (servers.sftp.kind, servers.smb.kind) == (kind, kind)
    assert servers.sftp.version.startswith("OpenSSH_")
    assert servers.smb.version.startswith("Samba ")


def test_both_serve_the_same_first_volume_which_this_machine_sees(servers: Servers, payload: Path) -> None:
    assert sftp(servers.sftp, f"put {payload} {servers.sftp.data}/shared").returncode == 0
    back = payload.with_name("back")
    smb(servers.smb, servers.smb.data, f"get shared {back}")
    assert back.read_bytes() == payload.read_bytes() == (volume(servers.sftp) / "shared").read_bytes()
    assert servers.sftp.local("shared") == servers.smb.local("data", "shared")
    assert servers.sftp.local(servers.sftp.other) is None
    assert servers.smb.local("other") is None


def test_a_rename_to_the_second_volume_is_refused(servers: Servers, payload: Path) -> None:
    data, other = servers.sftp.data, servers.sftp.other
    assert sftp(servers.sftp, f"put {payload} {data}/here").returncode == 0
    assert sftp(servers.sftp, f"rename {data}/here {other}/there").returncode != 0
    assert sftp(servers.sftp, f"put {payload} {other}/there").returncode == 0
    assert (volume(servers.sftp) / "here").exists()


def test_the_full_volume_takes_one_mebibyte(servers: Servers, payload: Path) -> None:
    full = servers.sftp.full
    assert sftp(servers.sftp, f"put {payload} {full}/big").returncode != 0
    assert sftp(servers.sftp, f"rm {full}/big", f"put /etc/hostname {full}/small", f"rm {full}/small").returncode == 0
    assert "NT_STATUS_DISK_FULL" in smb(servers.smb, servers.smb.full, f"put {payload} big")
    assert "NT_STATUS" not in smb(servers.smb, servers.smb.full, "rm big")


def test_the_readonly_volume_can_be_read_and_not_written(servers: Servers, tmp_path: Path, payload: Path) -> None:
    readonly = servers.sftp.readonly
    assert sftp(servers.sftp, f"get {readonly}/present.txt {tmp_path}/by-sftp").returncode == 0
    assert sftp(servers.sftp, f"put {payload} {readonly}/x").returncode != 0
    smb(servers.smb, servers.smb.readonly, f"get present.txt {tmp_path}/by-smb")
    assert "NT_STATUS_ACCESS_DENIED" in smb(servers.smb, servers.smb.readonly, f"put {payload} x")
    assert (tmp_path / "by-sftp").read_bytes() == (tmp_path / "by-smb").read_bytes() != b""


def test_the_password_is_asked_for_and_the_stranger_is_somebody_else(servers: Servers, payload: Path) -> None:
    server = servers.smb
    stranger = {"user": server.foreign_user, "password": server.foreign_password}
    assert "NT_STATUS_LOGON_FAILURE" in smb(server, server.data, "ls", password="wrong")
    assert "NT_STATUS" not in smb(server, server.data, f"put {payload} {server.foreign}/by-stranger", **stranger)
    assert "NT_STATUS_ACCESS_DENIED" in smb(server, server.data, f"put {payload} by-stranger", **stranger)
    owners = {path.name: path.stat().st_uid for path in (volume(server) / server.foreign).iterdir()}
    assert owners["by-stranger"] != volume(server).stat().st_uid


def test_a_restart_keeps_address_keys_logins_and_the_first_volume(servers: Servers) -> None:
    assert sftp(servers.sftp, f"put /etc/hostname {servers.sftp.data}/kept").returncode == 0
    servers.sftp.restart()
    servers.smb.restart()
    assert sftp(servers.sftp, f"ls {servers.sftp.data}/kept").returncode == 0
    assert "NT_STATUS" not in smb(servers.smb, servers.smb.data, "ls kept")


def test_killing_the_sessions_cuts_who_is_connected_and_nobody_else(servers: Servers) -> None:
    server = servers.sftp
    command = ["ssh", "-F/dev/null", f"-p{server.port}", f"-oIdentityFile={server.key_file}", "-oIdentitiesOnly=yes"]
    command += [f"-oUserKnownHostsFile={server.known_hosts}", "-oBatchMode=yes", f"{server.user}@{server.host}", "-s", "sftp"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as client:
        assert client.stdin is not None
        assert client.stdout is not None
        client.stdin.write(b"\0\0\0\5\1\0\0\0\3")  # SSH_FXP_INIT, version 3
        client.stdin.flush()
        assert len(client.stdout.read(9)) == 9
        server.kill_sessions()
        assert client.wait(timeout=MANY) == 255
    assert sftp(server, f"ls {server.data}").returncode == 0


def test_killing_the_sessions_of_samba_cuts_who_is_connected_and_nobody_else(servers: Servers, tmp_path: Path) -> None:
    server, pause = servers.smb, tmp_path / "pause"
    script = tmp_path / "script"
    script.write_text(f"touch {pause}\nwhile [ -e {pause} ]; do sleep 0.02; done\n", encoding="ascii")
    with ThreadPoolExecutor(1) as one:
        # The client runs the script between two requests of one connection.
        client = one.submit(smb, server, server.data, "ls", f"!sh {script}", "ls")
        while not pause.exists():
            assert not client.done(), client.result()
            time.sleep(0.02)
        server.kill_sessions()
        pause.unlink()
        assert "NT_STATUS_CONNECTION" in client.result()
    assert "NT_STATUS" not in smb(server, server.data, "ls")


def test_they_can_be_handed_to_another_process(servers: Servers) -> None:
    assert pickle.loads(pickle.dumps((servers.sftp, servers.smb))) == (servers.sftp, servers.smb)  # noqa: S301  our own


def test_urls_and_endpoints_name_the_same_place(sftp_server: SftpServer, smb_server: SmbServer) -> None:
    assert sftp_server.url("a b") == f"sftp://drop:in%2Fout%40home%3A50%25%20%231@127.0.0.1:{sftp_server.port}/srv/data/a%20b"
    assert sftp_server.endpoint("a b").location.path == "/srv/data/a b"
    assert sftp_server.endpoint("/srv/other").location.path == "/srv/other"
    assert smb_server.url("other", "a/b").endswith(f"@127.0.0.1:{smb_server.port}/other/a/b")
    assert smb_server.endpoint("other", "a/b").location.path == "a/b"


def test_an_endpoint_can_differ_from_its_server(sftp_server: SftpServer) -> None:
    changed = sftp_server.endpoint(
        "x", port=1, user="nobody", password="wrong", host_key=None, known_hosts=sftp_server.known_hosts
    )
    assert (changed.location.port, changed.location.user, changed.host_key) == (1, "nobody", None)
    assert changed.password is not None
    assert changed.password.reveal() == "wrong"


def test_each_test_has_a_fresh_folder_of_its_own(
    sftp_server: SftpServer, smb_server: SmbServer, sftp_dir: str, smb_dir: str
) -> None:
    assert sftp_dir != smb_dir
    for folder in (sftp_server.local(sftp_dir), smb_server.local("data", smb_dir)):
        assert folder is not None
        assert list(folder.iterdir()) == []
    assert sftp(sftp_server, f"put /etc/hostname {sftp_server.path(sftp_dir)}/mine").returncode == 0


def test_the_bare_server_speaks_over_its_pipe(bare_sftp: BareSftp, tmp_path: Path) -> None:
    with bare_sftp.open(folder=tmp_path) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write(b"\0\0\0\5\1\0\0\0\3")
        length = int.from_bytes(server.stdout.read(4), "big")
        assert server.stdout.read(length)[:5] == b"\2\0\0\0\3"
        server.stdin.close()
        assert server.wait(timeout=10) == 0
