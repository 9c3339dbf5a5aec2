"""A producer at one server hears what the consumer at another one made of its file: SFTP to SMB, and back."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from testenv.servers import SftpServer, SmbServer
from tests.e2e.commands import DROPGATE, clean_environment, dropgate, service

_FAILS = "import sys; sys.exit('line 3: no such customer')"


def _configuration(place: Path, sftp: SftpServer, sftp_dir: str, smb: SmbServer, smb_dir: str, *, back: bool) -> dict[str, str]:
    """The configuration of producer, gateway and consumer in one file; the secrets are in the environment."""
    ends = {"near": "smb", "far": "sftp"} if back else {"near": "sftp", "far": "smb"}
    drops = {
        "sftp": f"sftp://{sftp.user}@{sftp.host}:{sftp.port}{sftp.data}/{sftp_dir}",
        "smb": smb.url("data", smb_dir),
    }
    text = f"""
        [endpoint.sftp]
        url = "{drops["sftp"]}"
        host_key = "{sftp.host_key}"

        [drop.near]
        {_place(ends["near"], drops)}
        groups = ["orders_"]
        receipts = true

        [drop.far]
        {_place(ends["far"], drops)}
        groups = ["orders_"]
        receipts = true

        [[route]]
        from = "near"
        to = "far"
        poll = 0.3
        """
    (place / "dropgate.toml").write_text("\n".join(line.strip() for line in text.splitlines()))
    return clean_environment(DROPGATE_ENDPOINT__SFTP__PASSWORD=sftp.password, XDG_STATE_HOME=str(place))


def _place(kind: str, drops: dict[str, str]) -> str:
    return 'endpoint = "sftp"' if kind == "sftp" else f'url = "{drops["smb"]}"'


@pytest.mark.timeout(300)
@pytest.mark.parametrize("back", [False, True], ids=["sftp-to-smb", "smb-to-sftp"])
def test_a_sender_waits_for_the_consumer_behind_the_gateway(
    tmp_path: Path, sftp_server: SftpServer, sftp_dir: str, smb_server: SmbServer, smb_dir: str, back: bool
) -> None:
    environment = _configuration(tmp_path, sftp_server, sftp_dir, smb_server, smb_dir, back=back)
    (tmp_path / "a.csv").write_text("a;b\n1;2\n")
    send = ("send", "near", "a.csv", "--group", "orders_", "--wait", "--timeout", "3m", "--json")
    receive = ("receive", "far", "--group", "orders_", "--max-attempts", "1", "--poll", "0.3", "--exec")
    started = {"cwd": tmp_path, "env": environment, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with service(tmp_path / "dropgate.toml", **_own(environment)) as gateway:
        fates = []
        for command in ("true {}", f'{sys.executable} -c "{_FAILS}"'):
            with subprocess.Popen([DROPGATE, *receive, command], process_group=0, **started) as consumer:  # type: ignore[call-overload] # as a dict
                sender = subprocess.run(
                    [DROPGATE, *send], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=200, check=False
                )
                consumer.terminate()
                consumer.communicate(timeout=60)
            assert sender.stdout, f"{sender.stderr}\n{gateway.tail()}"
            fates.append((sender.returncode, json.loads(sender.stdout.splitlines()[-1]), sender.stderr))
    (good, told, _), (bad, why, _) = fates
    assert (good, told["outcome"]) == (0, "processed"), fates
    assert told["receipt"]["destinations"]["far"]["result"] == "true: exit status 0"
    assert (bad, why["outcome"]) == (1, "failed"), fates
    assert "line 3: no such customer" in why["error"]
    # At the source it was handed over, whatever became of it.
    states = [
        json.loads(line) for line in dropgate("status", "near", "--json", cwd=tmp_path, environment=environment).splitlines()
    ]
    assert [item["state"] for item in states if "item" in item] == ["after", "after"]


def _own(environment: dict[str, str]) -> dict[str, str]:
    names = ("DROPGATE_ENDPOINT__SFTP__PASSWORD", "XDG_STATE_HOME")
    return {name: environment[name] for name in names}
