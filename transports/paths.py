"""Which paths may be sent to a file server, and how they are joined.

Names come from strangers: a listing, a manifest, a configuration file. A path that could reach something else than the one
file it names is refused here, before anything is sent. A NUL ends a whole OpenSSH session; `..` leaves the drop; a name
with a trailing dot or space is another name on SMB.
"""

import re

from transports.errors import UnsafePath

_FORBIDDEN = {"/": "a slash", "\\": "a backslash"}
# Asked of every name of every listing: one search, and the reason only where there is one.
_UNSAFE = re.compile(r"[\x00-\x1f\x7f/\\\ud800-\udfff]")


def unsafe_because(name: str) -> str:
    """Why one path segment must not be sent, or "" where it may be."""
    if name in ("", ".", ".."):
        return "it is empty, '.' or '..'"
    found = _UNSAFE.search(name)
    if found is None:
        return ""
    character = found[0]
    if character in _FORBIDDEN:
        return f"it holds {_FORBIDDEN[character]}"
    if ord(character) <= 0x7F:
        return f"it holds the control character {ord(character):#04x}"
    return "it is not valid UTF-8"


def shown(name: bytes) -> str:
    """A name that may be unsafe, as text that can be printed: no terminal is upset by it, and nothing is sent to it."""
    text = name.decode("utf-8", "backslashreplace")
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def checked(operation: str, path: str) -> str:
    """The path itself, where every segment of it is safe. The empty path is the root.

    Raises `UnsafePath` otherwise; nothing was sent.
    """
    if path:
        for segment in path.split("/"):
            if reason := unsafe_because(segment):
                raise UnsafePath(operation, path, f"refused, because of a part of the path: {reason}")
    return path


def join(folder: str, name: str) -> str:
    """`folder/name`, where an empty folder is the root."""
    return f"{folder}/{name}" if folder else name


def split(path: str) -> tuple[str, str]:
    """The folder and the last segment; the folder of a top-level name is ""."""
    folder, _, name = path.rpartition("/")
    return folder, name
