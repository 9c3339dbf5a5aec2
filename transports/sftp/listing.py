"""Listing a folder: names as bytes until they are shown, and several questions under way."""

from collections import deque
from collections.abc import Iterator
from typing import Final

from transports.base import Entry, Kind
from transports.paths import unsafe_because
from transports.patterns import matches
from transports.sftp.edge import Edge, asking
from transports.sftp.packets import Attributes
from transports.sftp.wire import StatusError

_AHEAD: Final = 3  # questions under way; each answer holds about a hundred names


def listing(edge: Edge, folder: str, pattern: str) -> Iterator[Entry]:
    """The entries of a folder whose shown name fits the pattern. Other requests may be made between two of them.

    Nothing is sent before the first entry is asked for. Raises transport errors as `scan`.
    """
    client = edge.client
    with asking("scan", folder):
        handle = client.opendir(edge.reach_folder("scan", folder))
    requests: deque[int] = deque()
    done = False
    try:
        while True:
            with asking("scan", folder):
                while len(requests) < _AHEAD:
                    requests.append(client.start_readdir(handle))
                names = client.finish_readdir(requests.popleft())
            if not names:
                done = True
                break
            for name, attributes in names:
                if name in (b".", b".."):
                    continue
                entry = _entry(edge, folder, name, attributes)
                if entry is not None and matches(pattern, entry.name):
                    yield entry
    finally:
        # An abandoned iteration ends here too, in a finaliser and perhaps within another request: nothing is sent then.
        client.wire.drop(handle, requests)
        if done:
            with asking("scan", folder):
                client.wire.put_away()


def shown(name: bytes) -> str:
    """A name from a server as text that cannot be mistaken for another one that is safe to send, nor upset a terminal."""
    text = name.decode("utf-8", "backslashreplace")
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def _entry(edge: Edge, folder: str, name: bytes, attributes: Attributes) -> Entry | None:
    """None where the name has gone since."""
    try:
        text = name.decode("utf-8")
    except UnicodeDecodeError:
        return Entry(shown(name), Kind.OTHER, attributes.size, attributes.modified)
    if unsafe_because(text):
        return Entry(shown(name), Kind.OTHER, attributes.size, attributes.modified)
    if attributes.kind is None:
        with asking("scan", folder):
            try:
                attributes = edge.client.lstat(edge.at(f"{folder}/{text}" if folder else text))
            except StatusError:
                return None
    return Entry(text, attributes.kind or Kind.OTHER, attributes.size, attributes.modified)
