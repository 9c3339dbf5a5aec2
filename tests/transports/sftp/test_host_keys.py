"""Which host key is taken: none silently, the pinned one of whatever type, and what known_hosts vouches for."""

import base64
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from testenv.servers import SftpServer
from tests.transports.sftp.helpers import ENGINES, Connect, names
from tests.transports.sftp.sshd import ScratchSshd, fingerprint_of, keygen
from transports.errors import HostKeyRejected
from transports.sftp import connect_sftp
from transports.sftp.host_keys import fingerprint, judge, known_keys

ALL_KINDS = ("ed25519", "ecdsa", "rsa")


@pytest.fixture
def known_hosts(tmp_path: Path) -> Path:
    return tmp_path / "known hosts"  # a path with a space, for ssh's own parser


@pytest.mark.parametrize("engine", ENGINES)
def test_a_key_that_known_hosts_knows_is_taken(connect: Connect, sftp_server: SftpServer, sftp_dir: str, engine: str) -> None:
    transport = connect(engine, sftp_dir, host_key=None, known_hosts=sftp_server.known_hosts)
    assert names(transport) == []
    assert "OpenSSH" in transport.capabilities.server


@pytest.mark.parametrize("engine", ENGINES)
def test_an_unknown_key_is_refused_and_shown_with_what_to_do(
    connect: Connect, sftp_server: SftpServer, known_hosts: Path, engine: str
) -> None:
    """Case fsspec-autoadd: unknown keys are accepted there."""
    known_hosts.write_text("other.example ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl\n")
    before = known_hosts.read_bytes()
    with pytest.raises(HostKeyRejected) as caught:
        connect(engine, "", host_key=None, known_hosts=known_hosts)
    assert f"--host-key {sftp_server.host_key}" in str(caught.value)
    assert "ssh-keyscan" in str(caught.value)
    assert "unknown" in str(caught.value)
    assert known_hosts.read_bytes() == before


@pytest.mark.parametrize("engine", ENGINES)
def test_a_changed_key_is_refused_and_told_as_changed(
    connect: Connect, sftp_server: SftpServer, known_hosts: Path, tmp_path: Path, engine: str
) -> None:
    other = keygen(tmp_path / "other").with_suffix(".pub").read_text(encoding="utf-8")
    known_hosts.write_text(f"[127.0.0.1]:{sftp_server.port} {other}", encoding="utf-8")
    with pytest.raises(HostKeyRejected, match=r"(?i)changed") as caught:
        connect(engine, "", host_key=None, known_hosts=known_hosts)
    assert sftp_server.host_key in str(caught.value)
    if engine == "paramiko":
        assert fingerprint_of(tmp_path / "other") in str(caught.value)
        assert f"{known_hosts}:1" in str(caught.value)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("kind", ALL_KINDS)
def test_the_pinned_key_is_taken_whatever_its_type(
    sshd: Callable[..., ScratchSshd], tmp_path: Path, opened: Any, engine: str, kind: str
) -> None:
    """Case hostkey-algo-order: the server offers a key of another type first."""
    server = sshd(kinds=ALL_KINDS)
    endpoint = server.endpoint(tmp_path, engine=engine, host_key=server.fingerprint(kind))
    assert "sshd" in names(opened.enter_context(connect_sftp(endpoint)))


@pytest.mark.parametrize("engine", ENGINES)
def test_no_other_key_is_taken_for_the_pinned_one(
    sshd: Callable[..., ScratchSshd], tmp_path: Path, known_hosts: Path, engine: str
) -> None:
    """Also where known_hosts would know it."""
    server = sshd(kinds=ALL_KINDS)
    pin = fingerprint_of(keygen(tmp_path / "other"))
    known_hosts.write_text("".join(server.known_hosts_line(kind) for kind in ALL_KINDS), encoding="utf-8")
    with pytest.raises(HostKeyRejected) as caught:
        connect_sftp(server.endpoint(tmp_path, engine=engine, host_key=pin, known_hosts=known_hosts))
    assert pin in str(caught.value)
    for kind in ALL_KINDS if engine == "paramiko" else ():
        assert server.fingerprint(kind) in str(caught.value)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("kind", ALL_KINDS)
def test_a_host_known_by_one_type_of_key_is_recognised(
    sshd: Callable[..., ScratchSshd], tmp_path: Path, known_hosts: Path, opened: Any, engine: str, kind: str
) -> None:
    """Case hostkey-algo-order: it is reported unknown, because another key is offered first."""
    server = sshd(kinds=ALL_KINDS)
    known_hosts.write_text(server.known_hosts_line(kind), encoding="utf-8")
    endpoint = server.endpoint(tmp_path, engine=engine, host_key=None, known_hosts=known_hosts)
    assert "sshd" in names(opened.enter_context(connect_sftp(endpoint)))


@pytest.mark.parametrize("engine", ENGINES)
def test_hashed_and_bare_names_are_known(
    sshd: Callable[..., ScratchSshd], tmp_path: Path, known_hosts: Path, opened: Any, engine: str
) -> None:
    server = sshd()
    for line in (server.known_hosts_line(), server.known_hosts_line(name="127.0.0.1")):
        known_hosts.write_text(line, encoding="utf-8")
        subprocess.run(["ssh-keygen", "-q", "-H", "-f", str(known_hosts)], check=True, timeout=30, capture_output=True)
        assert known_hosts.read_bytes().startswith(b"|1|")
        endpoint = server.endpoint(tmp_path, engine=engine, host_key=None, known_hosts=known_hosts)
        assert "sshd" in names(opened.enter_context(connect_sftp(endpoint)))


def test_the_accounts_own_known_hosts_is_used_where_none_is_named(
    sshd: Callable[..., ScratchSshd], tmp_path: Path, opened: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = sshd()
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(HostKeyRejected):
        connect_sftp(server.endpoint(tmp_path, host_key=None))
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh" / "known_hosts").write_text(server.known_hosts_line(), encoding="utf-8")
    assert "sshd" in names(opened.enter_context(connect_sftp(server.endpoint(tmp_path, host_key=None))))


def test_a_known_hosts_file_that_is_not_there_is_told(connect: Connect, tmp_path: Path) -> None:
    with pytest.raises(HostKeyRejected, match="absent does not exist"):
        connect("paramiko", "", host_key=None, known_hosts=tmp_path / "absent")


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    "pin", ["SHA256:short", "MD5:16:27:ac:a5", "", "SHA256:" + "a" * 43 + "\n", "SHA256:'; touch /tmp/x; '"]
)
def test_a_pin_that_is_no_fingerprint_is_refused_before_anything_is_sent(connect: Connect, engine: str, pin: str) -> None:
    with pytest.raises(HostKeyRejected, match="is no fingerprint"):
        connect(engine, "", host_key=pin, port=1)


def blob_of(key: Path) -> bytes:
    return base64.b64decode(key.with_suffix(".pub").read_text(encoding="utf-8").split()[1])


def test_lines_are_read_as_openssh_reads_them(tmp_path: Path) -> None:
    key = keygen(tmp_path / "key")
    blob, public = blob_of(key), key.with_suffix(".pub").read_text(encoding="utf-8").strip()
    assert fingerprint(blob) == fingerprint_of(key)
    file = tmp_path / "file"
    for names_field, known in {
        "files.example": True,
        "FILES.example": True,
        "other.example,files.example": True,
        "*.example": True,
        "file?.example": True,
        "!files.example,*.example": False,
        "*.example,!files.example": False,
        "[files.example]:22": False,
        "[files.example]:2222": False,
        "files.example.org": False,
        "[f]iles.example": False,
        "|1|bm90IGhleA==|bm90IGhleA==": False,
        "|1|broken": False,
    }.items():
        file.write_text(f"# files.example {public}\n\n{names_field} {public}\n", encoding="utf-8")
        assert judge(blob, known_keys([file], "files.example", 22), "files.example", 22).accepted is known, names_field
    file.write_text(f"[files.example]:2222 {public}\n", encoding="utf-8")
    assert judge(blob, known_keys([file], "files.example", 2222), "files.example", 2222).accepted


def test_a_revoked_key_is_refused_also_where_another_line_knows_it(tmp_path: Path) -> None:
    key = keygen(tmp_path / "key")
    public = key.with_suffix(".pub").read_text(encoding="utf-8").strip()
    file = tmp_path / "file"
    file.write_text(f"files.example {public}\n@revoked * {public}\n@cert-authority * {public}\n", encoding="utf-8")
    verdict = judge(blob_of(key), known_keys([file], "files.example", 22), "files.example", 22)
    assert not verdict.accepted
    assert f"revoked at {file}:2" in verdict.reason
    file.write_text(f"@cert-authority * {public}\n", encoding="utf-8")
    assert not judge(blob_of(key), known_keys([file], "files.example", 22), "files.example", 22).accepted


def test_a_key_of_the_bare_name_does_not_make_another_port_look_changed(tmp_path: Path) -> None:
    known, shown = keygen(tmp_path / "known"), keygen(tmp_path / "shown")
    file = tmp_path / "file"
    file.write_text(f"files.example {known.with_suffix('.pub').read_text(encoding='utf-8')}", encoding="utf-8")
    verdict = judge(blob_of(shown), known_keys([file], "files.example", 2222), "files.example", 2222)
    assert "unknown" in verdict.reason
    assert "CHANGED" not in verdict.reason
