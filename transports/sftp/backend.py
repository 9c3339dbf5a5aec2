"""The transport contract over one SFTP session.

How the renames are made, and what a crash between two requests leaves:

    claim     posix-rename: rename(2), one step. Without it version 3's RENAME, which OpenSSH does as link + unlink: one
              claimer wins all the same, and a server that dies inside leaves both names.
    replace   posix-rename, or Unsupported: to remove the target first could leave neither.
    publish   see `transports.sftp.publish`.
"""

import secrets
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Final, Self

from transports.base import Capabilities, Entry, Kind, Sink, Source, Transport, check_before, check_left
from transports.endpoint import Timeouts
from transports.errors import Busy, Denied, NotFound, TransportError, UnsafePath, Unsupported
from transports.paths import checked, join, split
from transports.sftp.abilities import find_capabilities
from transports.sftp.client import POSIX_RENAME, Client
from transports.sftp.edge import Edge, asking, changing, refused, same_volume
from transports.sftp.listing import listing
from transports.sftp.packets import Attributes, Code
from transports.sftp.publish import publish
from transports.sftp.streams import Stream
from transports.sftp.transfer import SftpSink, SftpSource
from transports.sftp.wire import ConnectionLost, StatusError, Wire

_SCRATCH: Final = "T_"


class SftpTransport(Transport):
    """One directory over one SFTP session. After a lost connection every call raises Unreachable, at once."""

    def __init__(self, client: Client, root: bytes, server: str) -> None:
        """`root` is absolute and is a folder: `over_stream` looks. `server` is what it called itself."""
        self._client = client
        self._edge = Edge(client, root, server)
        with asking("connect", ""):
            self.capabilities: Capabilities = find_capabilities(self._edge, server)

    @classmethod
    def over_stream(
        cls, stream: Stream, root: str, *, home: bool = False, server: str = "", timeouts: Timeouts | None = None
    ) -> Self:
        """Opens a session on a connected stream. The stream is closed with it, and where this raises.

        `root` is absolute, or relative to the login directory with `home`. Raises NotFound (no such folder, or not a
        folder), Denied, UnsafePath, Unreachable, ServerFailure (no SFTP version 3).
        """
        timeouts = timeouts or Timeouts()
        try:
            with asking("connect", ""):
                client = Client(Wire(stream, reply_timeout=timeouts.reply), timeout=timeouts.connect)
        except BaseException:
            stream.close()
            raise
        return cls.over_session(client, root, home=home, server=server)

    @classmethod
    def over_session(cls, client: Client, root: str, *, home: bool, server: str) -> Self:
        """As `over_stream`, on a session that is open."""
        try:
            with asking("connect", ""):
                place = _located(client, root, home=home)
            return cls(client, place, server)
        except BaseException:
            client.close()
            raise

    # ---- files

    def create(self, path: str) -> Sink:
        target = self._edge.reach_name("create", path)
        with changing("create", path):
            try:
                handle = self._client.create(target)
            except StatusError as error:
                raise self._edge.not_made("create", path, error) from error
        sink = SftpSink(self._edge, path, handle)
        if self._edge.links_inside_rename and self._edge.account is None:
            # Once in a connection: who owns what is made here is who this account is.
            try:
                seen = self._edge.look("create", path)
            except BaseException:
                sink.abort()
                raise
            self._edge.account = None if seen is None else seen.owner
        return sink

    def resume(self, path: str, at: int, before: bytes = b"") -> Sink:
        """The type is looked at first, as in `open_read`: version 3 cannot open without following links."""
        target = self._edge.reach_name("resume", path)
        with asking("resume", path):
            seen = self._client.lstat(target)
            _require_file("resume", path, seen)
            handle = self._client.open_again(target)
            try:
                size = self._client.finish_fstat(self._client.start_fstat(handle)).size
                if size is None:
                    raise Unsupported("resume", path, "the server does not tell how long the file is")
                check_left(path, at, size)
                check_before(path, at, before, self._client.read(handle, at - len(before), len(before)))
            except BaseException:
                with suppress(ConnectionLost):
                    self._client.let_go(handle)
                raise
        return SftpSink(self._edge, path, handle, at)

    def open_read(self, path: str, start: int = 0) -> Source:
        """Version 3 cannot open without following links, nor keep writers out: the type is looked at before and after.

        A pipe or a device is never opened: opening a pipe would hang the server's process.
        """
        target = self._edge.reach("open_read", path)
        with asking("open_read", path):
            seen = self._client.lstat(target)
            _require_file("open_read", path, seen)
            source = SftpSource(self._edge, path, self._client.open_read(target), start)
            try:
                source.start(seen.size)
            except BaseException:
                source.close()
                raise
        return source

    def delete(self, path: str) -> None:
        target = self._edge.reach_name("delete", path)
        with changing("delete", path):
            try:
                self._client.remove(target)
            except StatusError as error:
                found = self._edge.look("delete", path) if error.code != Code.NO_SUCH_FILE else None
                if found and found.kind is Kind.FOLDER:
                    raise Denied("delete", path, "it is a folder, and only files and links are deleted") from error
                raise

    # ---- renames

    def publish(self, src: str, dst: str) -> None:
        self._edge.reach_name("publish", src)
        self._edge.reach_name("publish", dst)
        publish(self._edge, src, dst)

    def claim(self, src: str, dst: str) -> None:
        self._rename("claim", src, dst)

    def replace(self, src: str, dst: str) -> None:
        if not self._client.offers(POSIX_RENAME):
            raise Unsupported(
                "replace", dst, "the server has no posix-rename, and to remove the old file first could lose both"
            )
        self._rename("replace", src, dst)

    # ---- looking

    def scan(self, folder: str = "", pattern: str = "*") -> Iterator[Entry]:
        checked("scan", folder)
        return listing(self._edge, folder, pattern)

    def stat(self, path: str) -> Entry:
        target = self._edge.reach("stat", path)
        with asking("stat", path):
            # The root is where the configuration says, also through a link; what is in it is taken as it stands.
            seen = self._client.lstat(target) if path else self._client.stat(target)
        return Entry(split(path)[1], seen.kind or Kind.OTHER, seen.size, seen.modified)

    def same_volume(self, first: str, second: str) -> bool | None:
        volumes = []
        for folder in (first, second):
            self._edge.reach_folder("same_volume", folder)
            with asking("same_volume", folder):
                volumes.append(self._edge.measure(folder))
        return same_volume(*volumes)

    def free_space(self, folder: str = "") -> int | None:
        self._edge.reach_folder("free_space", folder)
        with asking("free_space", folder):
            volume = self._edge.measure(folder)
        return volume.available * volume.fragment if volume else None

    def server_time(self, folder: str = "") -> float:
        """By a scratch file `T_<random>`; a cut can leave it, empty, and anyone may remove it."""
        path = join(folder, _SCRATCH + secrets.token_hex(8))
        target = self._edge.reach("server_time", path)
        with asking("server_time", folder):
            try:
                handle = self._client.create(target)
            except StatusError as error:
                raise self._edge.not_made("server_time", path, error) from error
            try:
                modified = self._client.finish_fstat(self._client.start_fstat(handle)).modified
            finally:
                self._client.let_go(handle)
                self._client.remove(target)
        if modified is None:
            raise Unsupported("server_time", folder, "the server gives files no time")
        return float(modified)

    def wait_for_change(self, folder: str, timeout: float) -> None:
        """Version 3 has no notification: this sleeps."""
        checked("wait_for_change", folder)
        with asking("wait_for_change", folder):
            self._client.wire.require_alive()
        time.sleep(max(timeout, 0.0))

    # ---- folders

    def make_dir(self, path: str) -> None:
        target = self._edge.reach_name("make_dir", path)
        with changing("make_dir", path):
            try:
                self._client.mkdir(target)
            except StatusError as error:
                raise self._edge.not_made("make_dir", path, error) from error

    def remove_dir(self, path: str) -> None:
        target = self._edge.reach_name("remove_dir", path)
        with changing("remove_dir", path):
            try:
                self._client.rmdir(target)
            except StatusError as error:
                raise self._not_removed(path, error) from error
        self._edge.forget_folder(path)

    def close(self) -> None:
        self._client.close()

    # ---- below

    def _rename(self, operation: str, src: str, dst: str) -> None:
        source, target = self._edge.reach_name(operation, src), self._edge.reach_name(operation, dst)
        rename = self._client.posix_rename if self._client.offers(POSIX_RENAME) else self._client.rename
        with changing(operation, src):
            try:
                rename(source, target)
            except StatusError as error:
                raise self._edge.not_renamed(operation, src, dst, error) from error

    def _not_removed(self, path: str, error: StatusError) -> TransportError:
        found = self._edge.look("remove_dir", path)
        if found and found.kind is not Kind.FOLDER:
            return Denied("remove_dir", path, "it is not a folder")
        if found and error.code == Code.FAILURE and any(listing(self._edge, path, "*")):
            return Busy("remove_dir", path, "it is not empty")
        return refused("remove_dir", path, error)


def _require_file(operation: str, path: str, seen: Attributes) -> None:
    if seen.kind is Kind.LINK:
        raise UnsafePath(operation, path, "refused: it is a symbolic link, and could lead anywhere")
    if seen.kind not in (Kind.FILE, None):
        raise Denied(operation, path, "it is not a regular file")


def _located(client: Client, root: str, *, home: bool) -> bytes:
    """The absolute path of a root that exists and is a folder, also through a link."""
    if "\0" in root:
        raise UnsafePath("connect", root, "refused: it holds a NUL, which would end the session")
    place = root.encode()
    if home:
        place = client.realpath(b".").rstrip(b"/") + b"/" + place.strip(b"/")
    name = place.decode("utf-8", "backslashreplace")
    try:
        seen: Attributes = client.stat(place)
    except StatusError as error:
        if error.code == Code.NO_SUCH_FILE:
            raise NotFound("connect", name, "there is no such folder on the server: make it, or correct the path") from error
        raise refused("connect", name, error) from error
    if seen.kind not in (Kind.FOLDER, None):
        raise NotFound("connect", name, "it is on the server, and is not a folder: correct the path")
    return place
