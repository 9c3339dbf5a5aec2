"""`SmbTransport`: the transport contract over one SMB share."""

import secrets
import time
from collections.abc import Iterator
from dataclasses import replace as changed

from transports.base import Capabilities, Entry, Sink, Source, Transport
from transports.paths import split
from transports.smb import listing, messages, names, renames, replies
from transports.smb.errors import CLAIM_MEANING, Refused, edge
from transports.smb.files import SmbSink, SmbSource
from transports.smb.link import Link
from transports.smb.watch import Watch


def scratch_name() -> str:
    """A name nobody else uses; one that is left behind may be deleted by anyone."""
    return f"T_{secrets.token_hex(8)}"


class SmbTransport(Transport):
    """One share, rooted at one of its folders. Made by `connect_smb`.

    Where it differs from a local folder: Samba follows symbolic links that stay within the share by itself and shows what they
    lead to; those that lead elsewhere are not shown to anybody, and their names are nevertheless taken. It shows pipes and
    devices as empty files. Share modes keep out SMB clients only: whoever reaches the same folder over SFTP or on the server
    may rename or shorten an open file.
    """

    def __init__(self, link: Link, root: str, capabilities: Capabilities, *, hard_links: bool) -> None:
        self._link = link
        self._root = root
        self._hard_links = hard_links
        self._watched: Watch | None = None
        self.capabilities = capabilities

    def _wire(self, operation: str, path: str) -> str:
        return names.on_wire(operation, self._root, path)

    def _named(self, operation: str, path: str) -> str:
        return names.named(operation, self._root, path)

    def _names(self, operation: str, src: str, dst: str) -> renames.Names:
        return renames.Names(operation, src, dst, self._named(operation, src), self._named(operation, dst))

    # --- files

    def create(self, path: str) -> Sink:
        wire = self._named("create", path)
        with edge("create", path, changes=True):
            try:
                return SmbSink(self._link, path, wire)
            except Refused as refused:
                raise renames.new_name_error(self._link, "create", path, wire, refused) from refused

    def resume(self, path: str, at: int, before: bytes = b"") -> Sink:
        wire = self._named("resume", path)
        with edge("resume", path):
            return SmbSink(self._link, path, wire, (at, before))

    def open_read(self, path: str, start: int = 0) -> Source:
        wire = self._named("open_read", path)
        with edge("open_read", path):
            return SmbSource(self._link, path, wire, start)

    # --- names

    def publish(self, src: str, dst: str) -> None:
        both = self._names("publish", src, dst)
        with edge("publish", src, changes=True):
            renames.publish(self._link, both, hard_links=self._hard_links)

    def claim(self, src: str, dst: str) -> None:
        both = self._names("claim", src, dst)
        with edge("claim", src, changes=True, meanings=CLAIM_MEANING):
            renames.claim(self._link, both)

    def replace(self, src: str, dst: str) -> None:
        both = self._names("replace", src, dst)
        with edge("replace", src, changes=True):
            renames.replace(self._link, both)

    def delete(self, path: str) -> None:
        wire = self._named("delete", path)
        with edge("delete", path, changes=True):
            renames.delete(self._link, wire)

    # --- looking

    def scan(self, folder: str = "", pattern: str = "*") -> Iterator[Entry]:
        return listing.scan(self._link, folder, self._wire("scan", folder), pattern)

    def stat(self, path: str) -> Entry:
        wire = self._wire("stat", path)
        opening = messages.open_(wire, messages.READ_ATTRIBUTES, messages.SHARE_ALL, messages.ITSELF)
        with edge("stat", path):
            opened, _ = self._link.visit(opening)
            tag = 0
            if opened.attributes & replies.REPARSE_POINT:
                _, answers = self._link.visit(opening, messages.query_file(messages.ATTRIBUTE_TAG_INFORMATION))
                tag = replies.reparse_tag(replies.information(answers[0]))
        return Entry(split(path)[1], replies.kind_of(opened.attributes, tag), opened.size, opened.modified)

    # --- folders

    def make_dir(self, path: str) -> None:
        wire = self._named("make_dir", path)
        with edge("make_dir", path, changes=True):
            opening = messages.open_(wire, messages.READ_ATTRIBUTES, messages.SHARE_ALL, messages.FOLDER, new=True)
            try:
                self._link.visit(opening)
            except Refused as refused:
                raise renames.new_name_error(self._link, "make_dir", path, wire, refused) from refused

    def remove_dir(self, path: str) -> None:
        wire = self._named("remove_dir", path)
        with edge("remove_dir", path, changes=True):
            if self._watched and self._watched.folder == path:
                self._unwatch()
            renames.remove_dir(self._link, wire)

    def same_volume(self, first: str, second: str) -> bool | None:
        """By volume ids; Samba takes them from the device, so a file system mounted within the share is another volume."""
        volumes = []
        for folder in (first, second):
            opening = messages.open_(
                self._wire("same_volume", folder), messages.READ_ATTRIBUTES, messages.SHARE_ALL, messages.FOLDER, volume=True
            )
            with edge("same_volume", folder):
                volumes.append(self._link.visit(opening)[0].volume)
        return None if None in volumes else volumes[0] == volumes[1]

    def server_time(self, folder: str = "") -> float:
        """From a scratch file that is gone once it is made; one round trip."""
        wire = "\\".join(part for part in (self._wire("server_time", folder), scratch_name()) if part)
        with edge("server_time", folder):
            return self._link.visit(messages.scratch(wire))[0].modified

    def free_space(self, folder: str = "") -> int | None:
        opening = messages.open_(
            self._wire("free_space", folder), messages.READ_ATTRIBUTES, messages.SHARE_ALL, messages.FOLDER
        )
        with edge("free_space", folder):
            _, answers = self._link.visit(opening, messages.query_volume(messages.FS_FULL_SIZE_INFORMATION))
        return replies.caller_free_bytes(replies.information(answers[0]))

    # --- waiting

    def wait_for_change(self, folder: str, timeout: float) -> None:
        """CHANGE_NOTIFY. The first call for a folder begins to watch it and returns at once: nobody knows what was before.

        The watch is kept from call to call, so that a change between two calls ends the next one; there is one at a time.
        Where the server has no notification it sleeps, and `capabilities.notification` becomes false.
        """
        wire = self._wire("wait_for_change", folder)
        with edge("wait_for_change", folder):
            if not self.capabilities.notification:
                self._link.check()
                time.sleep(timeout)
            elif self._watched is None or self._watched.folder != folder:
                self._unwatch()
                self._watched = Watch(self._link, folder, wire)
            elif not self._listen(self._watched, timeout):
                self.capabilities = changed(self.capabilities, notification=False)

    def _listen(self, watch: Watch, timeout: float) -> bool:
        """False where the server has no notification. A watch that was refused once is not asked again."""
        try:
            told = watch.wait(timeout)
        except Refused:
            self._unwatch()
            raise
        if not told:
            self._unwatch()
        return told

    def _unwatch(self) -> None:
        if self._watched is not None:
            watch, self._watched = self._watched, None
            watch.close()

    def close(self) -> None:
        self._link.close()
