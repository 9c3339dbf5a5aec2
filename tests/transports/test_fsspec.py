"""What fsspec file systems do that a hand-off must not suffer from: each fault is a small file system named by it."""

import errno
from pathlib import Path
from typing import Any

import fsspec
import pytest
from fsspec.implementations.local import LocalFileSystem
from fsspec.implementations.memory import MemoryFileSystem

from transports.base import Guarantee, Kind
from transports.connect import connect
from transports.contract.place import content, fill, names
from transports.endpoint import Endpoint
from transports.errors import (
    AlreadyExists,
    Busy,
    ChangedWhileReading,
    Denied,
    NoSpace,
    NotFound,
    OutcomeUnknown,
    ServerFailure,
    TransportError,
    Unreachable,
    Unsupported,
)
from transports.fsspec_bridge import FsspecTransport
from transports.urls import parse_url


class OwnMemory(MemoryFileSystem):  # type: ignore[misc]  # fsspec ships no types
    """A memory file system that no other test shares."""

    cachable = False

    def __init__(self, **options: Any) -> None:
        super().__init__(global_store=False, **options)
        self.mkdir("/drop")


def over(system: MemoryFileSystem) -> FsspecTransport:
    return FsspecTransport(system, "/drop")


class TestNames:
    @pytest.mark.parametrize("name", ["a*b", "a?b", "[ab]", "{a,b}", "**"])
    def test_a_wildcard_in_a_name_moves_and_removes_only_that_name(self, name: str) -> None:
        transport = over(OwnMemory())
        others = ["a", "aXb", "ab", "b"]
        for other in (name, *others):
            fill(transport, other, other.encode())
        transport.claim(name, "C_x")
        assert names(transport) == sorted(["C_x", *others])
        transport.publish("C_x", name)
        transport.delete(name)
        assert names(transport) == others

    def test_a_folder_told_with_a_slash_has_its_plain_name(self) -> None:
        class SlashAfterFolders(OwnMemory):
            """fsspec's SMB file system."""

            def ls(self, path: str, detail: bool = True, **options: Any) -> list[Any]:
                return [{**found, "name": f"{found['name']}/"} for found in super().ls(path, detail=True)]

        transport = over(SlashAfterFolders())
        transport.make_dir("folder")
        assert [(entry.name, entry.kind) for entry in transport.scan()] == [("folder", Kind.FOLDER)]

    def test_a_folder_that_lists_itself_is_not_in_itself(self) -> None:
        class MarksFolders(OwnMemory):
            """Object stores, where a folder is an empty object."""

            def ls(self, path: str, detail: bool = True, **options: Any) -> list[Any]:
                return [{"name": path, "size": 0, "type": "directory"}, *super().ls(path, detail=True)]

        transport = over(MarksFolders())
        fill(transport, "x")
        assert names(transport) == ["x"]

    def test_a_link_is_told_as_a_link_by_listing_and_stat(self, tmp_path: Path) -> None:
        (tmp_path / "target").write_bytes(b"x" * 41)
        (tmp_path / "link").symlink_to("target")
        transport = FsspecTransport(LocalFileSystem(), str(tmp_path))
        listed = {entry.name: entry.kind for entry in transport.scan()}
        assert listed == {"target": Kind.FILE, "link": Kind.LINK}
        assert transport.stat("link").kind is Kind.LINK


class TestListing:
    @pytest.mark.parametrize("error", [FileNotFoundError("/drop/gone"), KeyError("/drop/gone")])
    def test_an_entry_that_vanishes_inside_the_listing_hides_no_other(self, error: Exception) -> None:
        class AsksForEachEntry(OwnMemory):
            """fsspec's SMB file system: one that vanished, or is about to, ends its listing."""

            def ls(self, path: str, detail: bool = True, **options: Any) -> list[Any]:
                if detail:
                    raise error
                return [*super().ls(path, detail=False), "/drop/gone"]

        transport = over(AsksForEachEntry())
        fill(transport, "x")
        assert names(transport) == ["x"]

    def test_a_cached_listing_is_not_believed(self) -> None:
        class CachesListings(OwnMemory):
            """Most of them, unless they are told that something changed."""

            def __init__(self) -> None:
                self.cached: list[Any] | None = None
                super().__init__()

            def invalidate_cache(self, path: str | None = None) -> None:
                self.cached = None

            def ls(self, path: str, detail: bool = True, **options: Any) -> list[Any]:
                if self.cached is None:
                    self.cached = super().ls(path, detail=detail)
                return self.cached

        system = CachesListings()
        transport = over(system)
        assert names(transport) == []
        system.pipe_file("/drop/x", b"of another")
        assert names(transport) == ["x"]


class TestWriting:
    def test_an_exclusive_mode_that_is_not_known_is_not_used(self) -> None:
        class ExclusiveModeMakesAnEmptyFile(OwnMemory):
            """fsspec's SFTP file system: "xb" creates, and then cannot be written to."""

            def _open(self, path: str, mode: str = "rb", **options: Any) -> Any:
                if "x" in mode:
                    super()._open(path, "wb", **options)
                    raise OSError("write: file not open for writing")
                return super()._open(path, mode, **options)

        transport = over(ExclusiveModeMakesAnEmptyFile())
        fill(transport, "x", b"data")
        assert content(transport, "x") == b"data"
        assert transport.capabilities.create.guarantee is Guarantee.CHECKED
        with pytest.raises(AlreadyExists):
            transport.create("x")

    def test_bytes_that_did_not_arrive_are_missed(self) -> None:
        class LosesTheEnd(OwnMemory):
            """A store that says yes to an upload and keeps a part."""

            def info(self, path: str, **options: Any) -> Any:
                found = super().info(path, **options)
                return {**found, "size": found["size"] // 2} if found["type"] == "file" else found

        sink = over(LosesTheEnd()).create("x")
        sink.write(b"data")
        with pytest.raises(ServerFailure, match="4 bytes were written and 2 are there"):
            sink.commit()

    def test_a_store_without_empty_folders_says_so(self) -> None:
        class MakesNoFolders(OwnMemory):
            """Object stores: mkdir below a bucket does nothing, and says nothing."""

            def mkdir(self, path: str, create_parents: bool = True, **options: Any) -> None:
                if path == "/drop":
                    super().mkdir(path)

        with pytest.raises(Unsupported, match="no empty folders"):
            over(MakesNoFolders()).make_dir("folder")


class TestReading:
    def test_a_file_that_shrinks_is_no_whole_file(self) -> None:
        system = OwnMemory()
        transport = over(system)
        fill(transport, "x", b"x" * 1000)
        with transport.open_read("x") as source:
            source.read(100)
            system.pipe_file("/drop/x", b"x" * 50)
            with pytest.raises(ChangedWhileReading):
                source.read()

    def test_a_file_of_unknown_size_is_not_read(self) -> None:
        class TellsNoSize(OwnMemory):
            """HTTP servers without Content-Length: an early end could not be seen."""

            def info(self, path: str, **options: Any) -> Any:
                return {**super().info(path, **options), "size": None}

        system = TellsNoSize()
        system.pipe_file("/drop/x", b"data")
        with pytest.raises(Unsupported, match="size"):
            over(system).open_read("x")

    def test_two_readers_of_one_file_do_not_disturb_each_other(self) -> None:
        # The memory file system gives both the same object, with one position.
        transport = over(OwnMemory())
        fill(transport, "x", b"abcdef")
        with transport.open_read("x") as one, transport.open_read("x") as other:
            assert (one.read(2), other.read(3), one.read(2)) == (b"ab", b"abc", b"cd")


class Failing(OwnMemory):
    """A file system whose calls fail as they are told."""

    failure: Exception | None = None

    def _fail(self) -> None:
        if self.failure is not None:
            raise self.failure

    def rm_file(self, path: str) -> None:
        self._fail()
        super().rm_file(path)

    def ls(self, path: str, detail: bool = True, **options: Any) -> list[Any]:
        self._fail()
        return list(super().ls(path, detail=detail))


class TestErrors:
    @pytest.mark.parametrize(
        ("failure", "of_a_look", "of_a_change"),
        [
            (PermissionError(errno.EACCES, "no"), Denied, Denied),
            (OSError(errno.ENOSPC, "full"), NoSpace, NoSpace),
            (OSError(errno.EBUSY, "busy"), Busy, Busy),
            (NotImplementedError(), Unsupported, Unsupported),
            (ValueError("mode not supported"), Unsupported, Unsupported),
            (TimeoutError(errno.ETIMEDOUT, "timed out"), Unreachable, OutcomeUnknown),
            (ConnectionResetError(errno.ECONNRESET, "reset"), Unreachable, OutcomeUnknown),
            (OSError("without a number"), ServerFailure, OutcomeUnknown),
            (RuntimeError("of a driver"), ServerFailure, OutcomeUnknown),
        ],
    )
    def test_a_driver_error_becomes_one_of_the_contract(
        self, failure: Exception, of_a_look: type[TransportError], of_a_change: type[TransportError]
    ) -> None:
        system = Failing()
        transport = over(system)
        fill(transport, "x")
        system.failure = failure
        with pytest.raises(of_a_look) as looked:
            list(transport.scan())
        with pytest.raises(of_a_change) as changed:
            transport.delete("x")
        assert type(looked.value) is of_a_look
        assert type(changed.value) is of_a_change
        assert changed.value.__cause__ is failure

    def test_a_source_that_cannot_be_removed_after_the_link_is_told(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        transport = FsspecTransport(LocalFileSystem(), str(tmp_path))
        fill(transport, "B_x", b"data")

        def refuse(self: LocalFileSystem, path: str) -> None:
            raise PermissionError(errno.EACCES, "Permission denied")

        monkeypatch.setattr(LocalFileSystem, "rm_file", refuse)
        with pytest.raises(OutcomeUnknown, match="the target is made"):
            transport.publish("B_x", "x")
        assert names(transport) == ["B_x", "x"]

    def test_a_file_system_without_times_has_no_clock(self) -> None:
        class TellsNoTime(OwnMemory):
            def modified(self, path: str) -> None:
                raise NotImplementedError

        transport = over(TellsNoTime())
        with pytest.raises(Unsupported):
            transport.server_time()
        assert names(transport) == []


class TestConnecting:
    @pytest.fixture
    def needs_login(self) -> list[dict[str, Any]]:
        """A protocol that takes its host and account from the URL, and what it was given."""
        given: list[dict[str, Any]] = []

        class NeedsLogin(OwnMemory):
            @staticmethod
            def _get_kwargs_from_urls(path: str) -> dict[str, Any]:
                return {"host": path.split("/")[2]}

            def __init__(self, **options: Any) -> None:
                given.append(options)
                super().__init__()

        fsspec.register_implementation("needs-login", NeedsLogin, clobber=True)
        return given

    def test_account_and_host_reach_the_driver_and_the_path_is_what_is_left(self, needs_login: list[dict[str, Any]]) -> None:
        with connect(Endpoint(parse_url("fsspec+needs-login://me:s%2Fecret@host:21/drop"))) as transport:
            fill(transport, "x", b"data")
        assert needs_login[0]["host"] == "host:21"
        assert (needs_login[0]["username"], needs_login[0]["password"]) == ("me", "s/ecret")

    def test_no_message_shows_the_password(self, needs_login: list[dict[str, Any]]) -> None:
        with pytest.raises(NotFound) as caught:
            connect(Endpoint(parse_url("fsspec+needs-login://me:s%2Fecret@host:21/not-there")))
        assert "ecret" not in f"{caught.value}{caught.value!r}"

    def test_a_root_that_is_a_file_is_refused(self) -> None:
        system = OwnMemory()
        system.pipe_file("/drop/file", b"data")
        with pytest.raises(NotFound, match="is not a folder"):
            FsspecTransport(system, "/drop/file")
