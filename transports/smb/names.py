"""Paths and patterns as SMB takes them: backslashes, and no name that is a stream, a device or another name."""

from transports.errors import UnsafePath
from transports.paths import checked, unsafe_because

_RESERVED = frozenset('<>:"|?*')  # wildcards, and the colon that reaches another stream of the file
_DEVICES = frozenset(
    ["CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$", *(f"{port}{n}" for port in ("COM", "LPT") for n in range(10))]
)


def refused_because(name: str) -> str:
    """Why one path segment must not be sent to an SMB server, or "" where it may be.

    Samba takes some of these names and lists them under another one (`CSHOFG~F`); Windows drops the trailing dot.
    """
    if reason := unsafe_because(name):
        return reason
    if found := _RESERVED.intersection(name):
        return f"SMB gives {min(found)!r} another meaning"
    if name[-1] in ". ":
        return "it ends in a dot or a space, which is another name on SMB"
    if name.partition(".")[0].rstrip(" ").upper() in _DEVICES:
        return "it is the name of a device on Windows"
    return ""


def on_wire(operation: str, root: str, path: str) -> str:
    """The path below the root, as it is sent. Raises `UnsafePath`; nothing was sent."""
    checked(operation, path)
    for segment in path.split("/") if path else ():
        if reason := refused_because(segment):
            raise UnsafePath(operation, path, f"refused, because of a part of the path: {reason}")
    return "\\".join(part for part in (root, path.replace("/", "\\")) if part)


def named(operation: str, root: str, path: str) -> str:
    """As `on_wire`, for what is to be opened, made, renamed or removed: never the root itself."""
    if not path:
        raise UnsafePath(operation, path, "the root itself is not to be changed")
    return on_wire(operation, root, path)


def pattern_on_wire(pattern: str) -> str:
    """A pattern that lets at least the same names through; the answer is filtered again.

    Only `*` is sent: a `?` counts UTF-16 units on the server and characters here, and `<`, `>` and `"` are wildcards of DOS.
    """
    safe = "".join("*" if c in _RESERVED or (c != "." and unsafe_because(c)) else c for c in pattern)
    while "**" in safe:
        safe = safe.replace("**", "*")
    # A trailing dot or space is cut off by some servers, and would then match something else.
    return safe if safe and safe[-1] not in ". " else f"{safe}*"
