"""Endpoints that refuse: told with what to do, exit code 3, nothing left behind, and no secret on any stream."""

import base64
import os
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from testenv import spec
from testenv.servers import SftpServer, SmbServer
from tests.cli.tools import Ended, Place, names
from tests.e2e.commands import DROPGATE
from tests.gateway.tools import put

WRONG = "ge/heim@51% #x"  # a wrong password that has to be encoded in a URL
ANOTHER_KEY = "ssh-ed25519 " + base64.b64encode(b"\0\0\0\x0bssh-ed25519\0\0\0 " + b"k" * 32).decode()
SECRETS = (spec.PASSWORD, quote(spec.PASSWORD, safe=""), WRONG, quote(WRONG, safe=""))


def refused(ended: Ended, *expected: str) -> None:
    """That a command ended as one should whose endpoint refuses."""
    assert ended.code == 3, ended
    assert ended.out == ""
    for text in expected:
        assert text in ended.err
    assert "Traceback" not in ended.err
    assert len(ended.err.splitlines()) == 1
    told = ended.out + ended.err
    assert not [secret for secret in SECRETS if secret in told]


@pytest.fixture
def send(place: Place) -> tuple[str, ...]:
    """What is asked of each endpoint."""
    return ("send", place.write("a.csv"), "--group", "orders_")


def asked(send: tuple[str, ...], drop: str, *more: str) -> tuple[str, ...]:
    command, file, *rest = send
    return (command, drop, file, *rest, *more)


class TestNobodyThere:
    @pytest.mark.parametrize("scheme", ["sftp", "smb"])
    def test_a_port_that_is_closed(self, place: Place, send: tuple[str, ...], scheme: str) -> None:
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            port = listener.getsockname()[1]
        url = f"{scheme}://u:{quote(WRONG, safe='')}@127.0.0.1:{port}/x"
        refused(place.run(*asked(send, url)), "127.0.0.1", str(port), "Connection refused")

    @pytest.mark.parametrize("scheme", ["sftp", "smb"])
    def test_a_host_that_nobody_knows(self, place: Place, send: tuple[str, ...], scheme: str) -> None:
        url = f"{scheme}://u:{quote(WRONG, safe='')}@no-such-host.invalid/x"
        refused(place.call(*asked(send, url)), "no-such-host.invalid")

    @pytest.mark.parametrize("scheme", ["sftp", "smb"])
    def test_a_server_that_says_nothing_is_given_up(self, place: Place, scheme: str) -> None:
        """It takes the connection, and that is all; every wait has its end."""
        with socket.create_server(("127.0.0.1", 0)) as silent:
            port = silent.getsockname()[1]
            place.write(
                "dropgate.toml",
                f"""
                [endpoint.silent]
                url = "{scheme}://u@127.0.0.1:{port}/x"
                password = '{WRONG}'
                connect_timeout = 1
                reply_timeout = 1
                [drop.silent]
                endpoint = "silent"
                """,
            )
            refused(place.call("status", "silent"), "127.0.0.1")

    @pytest.mark.parametrize("scheme", ["sftp", "smb"])
    def test_a_server_that_speaks_something_else(
        self, place: Place, send: tuple[str, ...], scheme: str, request: pytest.FixtureRequest
    ) -> None:
        port: int = request.getfixturevalue("web_server") if scheme == "sftp" else request.getfixturevalue("sftp_server").port
        refused(place.call(*asked(send, f"{scheme}://u:{quote(WRONG, safe='')}@127.0.0.1:{port}/x")))

    @pytest.fixture
    def web_server(self) -> Iterator[int]:
        """Something that answers at once, and not in SSH."""
        listener = socket.create_server(("127.0.0.1", 0))

        def serve() -> None:
            while True:
                try:
                    client, _ = listener.accept()
                except OSError:
                    return
                with client:
                    client.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(5)


class TestSftp:
    def pinned(self, server: SftpServer) -> tuple[str, str]:
        return ("--host-key", server.host_key)

    def test_an_unknown_host_key_is_shown_with_the_option_that_accepts_it(
        self, place: Place, send: tuple[str, ...], sftp_server: SftpServer, sftp_dir: str
    ) -> None:
        url = sftp_server.url(sftp_dir)
        refused(place.run(*asked(send, url)), "the host key is unknown", f"--host-key {sftp_server.host_key}")
        again = place.run(*asked(send, url, *self.pinned(sftp_server)))
        assert (again.code, again.err) == (0, "")

    def test_a_host_key_that_known_hosts_knows(
        self, place: Place, send: tuple[str, ...], sftp_server: SftpServer, sftp_dir: str
    ) -> None:
        (place.home / ".ssh").mkdir()
        (place.home / ".ssh" / "known_hosts").write_bytes(sftp_server.known_hosts.read_bytes())
        assert place.call(*asked(send, sftp_server.url(sftp_dir))).code == 0

    def test_a_changed_host_key_is_never_accepted(
        self, place: Place, send: tuple[str, ...], sftp_server: SftpServer, sftp_dir: str
    ) -> None:
        (place.home / ".ssh").mkdir()
        (place.home / ".ssh" / "known_hosts").write_text(f"[{sftp_server.host}]:{sftp_server.port} {ANOTHER_KEY}\n")
        url = sftp_server.url(sftp_dir)
        refused(place.call(*asked(send, url)), "the host key has CHANGED", sftp_server.host_key, "known_hosts:1")
        local = sftp_server.local(sftp_dir)
        assert local is not None
        assert names(local) == []

    def test_another_key_than_the_pinned_one(
        self, place: Place, send: tuple[str, ...], sftp_server: SftpServer, sftp_dir: str
    ) -> None:
        other = "SHA256:" + "A" * 43
        refused(place.call(*asked(send, sftp_server.url(sftp_dir), "--host-key", other)), other, sftp_server.host_key)

    def test_a_wrong_password(self, place: Place, send: tuple[str, ...], sftp_server: SftpServer) -> None:
        url = f"sftp://drop:{quote(WRONG, safe='')}@{sftp_server.host}:{sftp_server.port}/srv/data"
        refused(place.run(*asked(send, url, *self.pinned(sftp_server))), "does not let 'drop' in", "the password")

    def test_no_password_at_all(self, place: Place, send: tuple[str, ...], sftp_server: SftpServer) -> None:
        url = f"sftp://drop@{sftp_server.host}:{sftp_server.port}/srv/data"
        refused(place.call(*asked(send, url, *self.pinned(sftp_server))), "does not let 'drop' in", "it takes publickey")

    def test_a_directory_that_is_not_there(self, place: Place, send: tuple[str, ...], sftp_server: SftpServer) -> None:
        url = sftp_server.url("/srv/nope")
        refused(place.call(*asked(send, url, *self.pinned(sftp_server))), "/srv/nope", "make it, or correct the path")

    def test_a_read_only_drop(self, place: Place, send: tuple[str, ...], sftp_server: SftpServer) -> None:
        url = sftp_server.url(sftp_server.readonly)
        refused(place.call(*asked(send, url, *self.pinned(sftp_server))), "this account may not create files in the drop")

    def test_a_full_disk(self, place: Place, sftp_server: SftpServer) -> None:
        place.write("large.bin", os.urandom(2 * 1024 * 1024))
        url = sftp_server.url(sftp_server.full)
        words = ("send", url, "large.bin", "--group", "orders_", *self.pinned(sftp_server))
        refused(place.run(*words), "the volume is full")
        status = place.call("status", url, *self.pinned(sftp_server))
        assert status.out.endswith("  no items\n"), "the before file is gone"


class TestSmb:
    def test_a_wrong_password(self, place: Place, send: tuple[str, ...], smb_server: SmbServer) -> None:
        url = f"smb://{smb_server.domain};{smb_server.user}:{quote(WRONG, safe='')}@{smb_server.host}:{smb_server.port}/data"
        refused(place.run(*asked(send, url)), "the server refused the user name or the password")

    def test_a_share_that_is_not_there(self, place: Place, send: tuple[str, ...], smb_server: SmbServer) -> None:
        refused(place.call(*asked(send, smb_server.url("nope"))), "no share 'nope'", "correct the URL or make the share")

    def test_a_directory_that_is_not_there(self, place: Place, send: tuple[str, ...], smb_server: SmbServer) -> None:
        refused(
            place.call(*asked(send, smb_server.url("data", "nope"))), "there is no directory", "make it, or correct the URL"
        )

    def test_a_read_only_share(self, place: Place, send: tuple[str, ...], smb_server: SmbServer) -> None:
        url = smb_server.url(smb_server.readonly)
        refused(place.call(*asked(send, url)), "this account may not create files in the drop")

    def test_a_full_disk(self, place: Place, smb_server: SmbServer) -> None:
        place.write("large.bin", os.urandom(2 * 1024 * 1024))
        url = smb_server.url(smb_server.full)
        refused(place.run("send", url, "large.bin", "--group", "orders_"), "The disk or the quota is full")
        assert place.call("status", url).out.endswith("  no items\n")


class TestLocal:
    def test_a_folder_that_is_not_there(self, place: Place, send: tuple[str, ...]) -> None:
        refused(place.call(*asked(send, "./nope")), "nope' is not there; make the folder, or mount its disk, and start again")

    def test_a_folder_that_is_a_file(self, place: Place, send: tuple[str, ...]) -> None:
        refused(place.call(*asked(send, "./a.csv")), "a.csv' is not a folder")

    def test_two_volumes(self, place: Place, send: tuple[str, ...]) -> None:
        """A real mount, seen by the command alone, in a mount namespace of its own: that needs no rights on this machine."""
        drop = place.drop()
        (drop / "archive").mkdir()
        alone = ["unshare", "--mount", *([] if os.getuid() == 0 else ["--map-root-user"]), "sh", "-c"]
        script = 'mount -t tmpfs tmpfs drop/archive && exec "$@"'
        words = asked(send, "./drop", "--layout", "folders")
        done = subprocess.run(
            [*alone, script, "sh", DROPGATE, *words],
            cwd=place.folder,
            env=place.environment(),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        ended = Ended(done.returncode, done.stdout, done.stderr)
        refused(
            ended, "'processing' and folder 'archive' are on different volumes", "put every folder of the drop on one volume"
        )
        assert names(drop) == []


class TestEveryErrorPath:
    """A password of a configuration is on no stream, whatever goes wrong, also in the log of a service."""

    def configuration(self, server: SftpServer, password: str, **drops: str) -> str:
        tables = "".join(f"[drop.{name}]\nendpoint = 'server'\ndirectory = '{path}'\n" for name, path in drops.items())
        return f"""
            [endpoint.server]
            url = "sftp://drop@{server.host}:{server.port}/srv/data"
            password = '{password}'
            host_key = "{server.host_key}"
            {tables}
            [[route]]
            from = "a"
            to = "b"
            groups = ["orders_"]
        """

    @pytest.mark.parametrize(("password", "b"), [(WRONG, "x"), (spec.PASSWORD, "nope")])
    def test_a_service(self, place: Place, sftp_server: SftpServer, sftp_dir: str, password: str, b: str) -> None:
        place.write("route.toml", self.configuration(sftp_server, password, a=sftp_dir, b=b))
        ended = place.run("run", "route.toml", "--once")
        assert ended.code == 3
        assert not [secret for secret in SECRETS if secret in ended.out + ended.err]

    def test_an_error_image_and_a_ledger_hold_no_secret(self, place: Place, sftp_server: SftpServer, sftp_dir: str) -> None:
        local = sftp_server.local(sftp_dir)
        assert local is not None
        for suffix in ("csv", "manifest.json"):
            put(local, f"orders_0000000001.{suffix}", b"{}")
        words = ("--group", "orders_", "--exec", "true", "--once", "--host-key", sftp_server.host_key)
        assert place.call("receive", sftp_server.url(sftp_dir), *words).code == 1
        written = [*local.iterdir(), *(path for path in place.home.rglob("*") if path.is_file())]
        assert len(written) >= 3
        for path in written:
            content = path.read_bytes() + os.fsencode(Path(path))
            assert not [secret for secret in SECRETS if secret.encode() in content], path
