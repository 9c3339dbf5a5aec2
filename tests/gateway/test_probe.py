"""Whether a directory can be a drop is asked at the start, on real servers, and told with what to do about it."""

import os
from pathlib import Path

import pytest
from fsspec.implementations.memory import MemoryFileSystem

from gateway.drop import Drop
from gateway.errors import UnfitDrop
from gateway.handoff.probe import probe
from protocol.errors import InvalidName
from protocol.layout import FolderLayout
from protocol.rules import Rules
from testenv.servers import BareSftp, SftpServer, SmbServer
from tests.gateway.faulty import Passing, Refuses
from tests.gateway.tools import Taken, consume, driver_over, drop_at, names
from transports import errors
from transports.endpoint import Endpoint
from transports.local.transport import LocalTransport
from transports.memory import MemoryStore, MemoryTransport
from transports.sftp.backend import SftpTransport
from transports.sftp.streams import PipeStream

FOLDERS = Rules(FolderLayout(names=("novye", "nowe", "v-rabote", "gotovo", "bityye")))


@pytest.mark.parametrize("rules", [Rules(), FOLDERS], ids=["prefix", "folders"])
def test_a_fit_directory_is_left_as_it_was(place: tuple[Endpoint, Path], rules: Rules) -> None:
    endpoint, folder = place
    with drop_at(endpoint, rules).producer():
        pass
    assert names(folder) == []
    assert sorted(path.name for path in folder.iterdir()) == sorted(rules.layout.folders)


@pytest.mark.parametrize("rules", [Rules(), FOLDERS], ids=["prefix", "folders"])
def test_a_read_only_sftp_drop(sftp_server: SftpServer, rules: Rules) -> None:
    expected = "may not make the layout's folders" if rules is FOLDERS else "may not create files in the drop"
    with pytest.raises(errors.Denied, match=f"this account {expected}"):
        drop_at(sftp_server.endpoint(sftp_server.readonly), rules).producer()


@pytest.mark.parametrize("rules", [Rules(), FOLDERS], ids=["prefix", "folders"])
def test_a_read_only_smb_drop(smb_server: SmbServer, rules: Rules) -> None:
    expected = "may not make the layout's folders" if rules is FOLDERS else "may not create files in the drop"
    with pytest.raises(errors.Denied, match=f"this account {expected}"):
        drop_at(smb_server.endpoint(smb_server.readonly), rules).producer()


def test_a_read_only_drop_can_be_looked_at(sftp_server: SftpServer, smb_server: SmbServer) -> None:
    for endpoint in (sftp_server.endpoint(sftp_server.readonly), smb_server.endpoint(smb_server.readonly)):
        assert [entry.path for entry in drop_at(endpoint).snapshot().foreign] == ["present.txt"]


@pytest.mark.parametrize("denied", ["rename,posix-rename", "rename,posix-rename,hardlink"])
def test_a_server_that_forbids_renames(bare_sftp: BareSftp, folder: Path, denied: str) -> None:
    driver = driver_over(
        lambda: SftpTransport.over_stream(PipeStream([*bare_sftp.command, "-P", denied]), str(folder), server=bare_sftp.version)
    )
    with driver.connection, pytest.raises((UnfitDrop, errors.Denied, errors.Unsupported), match=r"rename"):
        probe(driver.connection, Rules(), "host-1-abc")
    assert names(folder) == [], "the scratch file is gone, and nothing of anybody's was touched"


class TestTwoVolumes:
    def test_an_sftp_drop_with_a_mount_in_it(self, bare_sftp: BareSftp, folder: Path) -> None:
        for name in FOLDERS.layout.folders:
            (folder / name).mkdir()
        # The server alone sees the mount, in a mount namespace of its own: that needs no rights on this machine.
        alone = ["unshare", "--mount", *([] if os.getuid() == 0 else ["--map-root-user"]), "sh", "-c"]
        command = [*alone, 'mount -t tmpfs tmpfs "$0/gotovo" && exec "$@"', str(folder), *bare_sftp.command]
        driver = driver_over(lambda: SftpTransport.over_stream(PipeStream(command), str(folder), server=bare_sftp.version))
        message = "folder 'v-rabote' and folder 'gotovo' are on different volumes.*put every folder of the drop on one volume"
        with driver.connection, pytest.raises(UnfitDrop, match=message):
            probe(driver.connection, FOLDERS, "host-1-abc")
        assert names(folder) == []

    def test_an_sftp_drop_whose_folder_leads_to_another_volume(self, sftp_server: SftpServer, sftp_dir: str) -> None:
        local = sftp_server.local(sftp_dir)
        assert local is not None
        (local / "gotovo").symlink_to(sftp_server.other)
        with pytest.raises(errors.UnsafePath, match="'gotovo' is a symbolic link, and none is followed"):
            drop_at(sftp_server.endpoint(sftp_dir), FOLDERS).producer()
        assert names(local) == ["gotovo"]

    @pytest.mark.parametrize("what", ["the server says so", "a rename says so"])
    def test_a_server_that_tells(self, what: str) -> None:
        """A mount inside an SMB share: one drop is one share, so a second volume can only be below it."""

        class AnotherVolume(Passing):
            """The folder `gotovo` is a mount."""

            def same_volume(self, first: str, second: str) -> bool | None:
                return "gotovo" not in (first, second) if what == "the server says so" else None

            def claim(self, src: str, dst: str) -> None:
                if dst.startswith("gotovo/"):
                    raise errors.CrossVolume("claim", src)
                super().claim(src, dst)

        store = MemoryStore()
        driver = driver_over(lambda: AnotherVolume(MemoryTransport(store)))
        with pytest.raises(UnfitDrop, match="'v-rabote' and folder 'gotovo' are on different volumes"):
            probe(driver.connection, FOLDERS, "host-1-abc")
        assert [entry.name for entry in MemoryTransport(store).scan("v-rabote")] == []


def test_a_bridge_that_cannot_say_who_won_is_refused() -> None:
    MemoryFileSystem().makedirs("/bucket/drop", exist_ok=True)
    with pytest.raises(UnfitDrop, match=r"its \w+ is not one step \(.+\), so two hosts could both believe that they won"):
        Drop.at("fsspec+memory://bucket/drop").producer()
    with pytest.raises(UnfitDrop):
        consume(Drop.at("fsspec+memory://bucket/drop"), Taken())


class TestGroups:
    @pytest.mark.parametrize("other", ["ORDERS_", "Orders_"])
    def test_a_group_that_differs_by_case_from_one_that_is_there(self, folder: Path, other: str) -> None:
        (folder / "A_orders_0000000001.manifest.json").touch()
        message = f"groups '{other}' and 'orders_' differ only by case, and SMB takes them for one; rename one"
        with pytest.raises(UnfitDrop, match=message):
            drop_at(folder, groups=(other,)).producer()
        with pytest.raises(UnfitDrop, match=message):
            drop_at(folder).consumer((other,), Taken(), Taken().report)

    def test_two_groups_of_one_consumer_that_differ_by_case(self, folder: Path) -> None:
        with pytest.raises(UnfitDrop, match="differ only by case"):
            drop_at(folder).consumer(("orders_", "Orders_"), Taken(), Taken().report)

    def test_a_group_whose_names_are_the_before_files_of_another(self, folder: Path) -> None:
        (folder / "A_b_orders_0000000001.manifest.json").touch()
        with pytest.raises(UnfitDrop, match="'orders_' and 'b_orders_' have names that differ only by case"):
            drop_at(folder, groups=("orders_",)).producer()

    def test_a_group_outside_the_grammar(self, folder: Path) -> None:
        with pytest.raises(InvalidName, match="group prefix 'B_orders_' does not fit"):
            drop_at(folder).consumer(("B_orders_",), Taken(), Taken().report)

    def test_a_group_whose_claims_would_not_fit(self, folder: Path) -> None:
        with pytest.raises((UnfitDrop, InvalidName), match="255"):
            drop_at(folder, groups=("x" * 230 + "_",)).producer()


@pytest.mark.parametrize("operation", ["create", "claim", "publish", "delete"])
def test_no_connection_is_left_open_by_a_refusal(operation: str) -> None:
    opened: list[Passing] = []

    def connect() -> Passing:
        opened.append(Refuses(MemoryTransport(MemoryStore()), operation=operation, error=errors.Denied))
        return opened[-1]

    driver = driver_over(connect)
    if operation == "delete":
        probe(driver.connection, Rules(), "host-1-abc")  # a scratch file that stays is nobody's
    else:
        with pytest.raises(errors.Denied):
            probe(driver.connection, Rules(), "host-1-abc")
    driver.connection.close()
    assert [transport.closed for transport in opened] == [True]


def test_a_probe_that_was_cut_is_no_hindrance(folder: Path) -> None:
    (folder / "T_host-1-abc.probe").write_bytes(b"left over")
    driver = driver_over(lambda: Passing(LocalTransport(str(folder))))
    with driver.connection:
        probe(driver.connection, Rules(), "host-1-abc")
    assert names(folder) == []
