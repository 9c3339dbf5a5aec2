"""Which host key a server must show: known_hosts as OpenSSH reads it, and pinned fingerprints.

Keys are compared as bytes, so a type that nothing here knows is no problem. Read from the files: plain and hashed names,
`[host]:port`, `*` and `?`, negation, @revoked. @cert-authority lines are passed over: they speak of certificates.
"""

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from transports.patterns import matches

SYSTEM_FILES: Final = (Path("/etc/ssh/ssh_known_hosts"), Path("/etc/ssh/ssh_known_hosts2"))
DEFAULT_PORT: Final = 22

_FINGERPRINT: Final = re.compile(r"SHA256:[A-Za-z0-9+/]{43}")


@dataclass(frozen=True, slots=True)
class KnownKey:
    """One line that speaks of the host."""

    kind: str
    blob: bytes
    revoked: bool
    exact: bool  # the line names the port too, where that is not the usual one
    where: str  # file:line


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a key is accepted, and if not, why and what to do."""

    accepted: bool
    reason: str = ""


def fingerprint(blob: bytes) -> str:
    """As OpenSSH shows it."""
    return "SHA256:" + base64.b64encode(hashlib.sha256(blob).digest()).decode("ascii").rstrip("=")


def is_fingerprint(text: str) -> bool:
    """Whether the text is a SHA256 fingerprint as OpenSSH shows it."""
    return _FINGERPRINT.fullmatch(text) is not None


def kind_of(blob: bytes) -> str:
    """The type that a public key says it is, such as "ssh-ed25519"."""
    length = int.from_bytes(blob[:4], "big")
    return blob[4 : 4 + length].decode("ascii", "backslashreplace")


def user_files(home: Path) -> tuple[Path, ...]:
    """The known_hosts files of the account with this home."""
    return home / ".ssh" / "known_hosts", home / ".ssh" / "known_hosts2"


def written(host: str, port: int) -> str:
    """A host as known_hosts has it."""
    return host if port == DEFAULT_PORT else f"[{host}]:{port}"


def known_keys(files: Iterable[Path], host: str, port: int) -> list[KnownKey]:
    """Every key that the files hold for the host; files that are not there hold none.

    As OpenSSH does, a key known for the bare name is also good on another port of the host; it is not `exact` then.
    Raises OSError for a file that cannot be read.
    """
    found = []
    for file in files:
        try:
            lines = file.read_text("utf-8", "replace").splitlines()
        except FileNotFoundError:
            continue
        for number, line in enumerate(lines, start=1):
            key = _parse(line, host.lower(), port, f"{file}:{number}")
            if key is not None:
                found.append(key)
    return found


def judge(blob: bytes, known: Sequence[KnownKey], host: str, port: int) -> Verdict:
    """Whether known_hosts vouches for the key that a server has shown."""
    offered = f"the server shows {kind_of(blob)} {fingerprint(blob)}"
    if revoked := [key for key in known if key.revoked and key.blob == blob]:
        return Verdict(accepted=False, reason=f"{offered}, which is marked revoked at {revoked[0].where}")
    valid = [key for key in known if not key.revoked]
    if any(key.blob == blob for key in valid):
        return Verdict(accepted=True)
    if exact := [key for key in valid if key.exact]:
        expected = ", ".join(f"{key.kind} {fingerprint(key.blob)} ({key.where})" for key in exact)
        return Verdict(
            accepted=False,
            reason=f"the host key has CHANGED, or somebody is in between: {offered}, and known for it is {expected}. "
            f"Ask its administrator; only if the new key is right, replace the old line, or use {pin_hint(blob)}",
        )
    return Verdict(
        accepted=False,
        reason=f"the host key is unknown: {offered}. Compare it with what its administrator says, then use {pin_hint(blob)}, "
        f"or add it to known_hosts (ssh-keyscan{'' if port == DEFAULT_PORT else f' -p {port}'} {host})",
    )


def pin_hint(blob: bytes) -> str:
    """How this key is pinned on the command line."""
    return f"--host-key {fingerprint(blob)}"


def _parse(line: str, host: str, port: int, where: str) -> KnownKey | None:
    """The key of one line, where the line speaks of the host."""
    fields = line.split()
    marker = fields.pop(0) if fields and fields[0].startswith("@") else ""
    if len(fields) < 3 or fields[0].startswith("#") or marker not in ("", "@revoked"):
        return None
    exact = _speaks_of(fields[0], written(host, port))
    if not exact and not _speaks_of(fields[0], host):
        return None
    try:
        blob = base64.b64decode(fields[2], validate=True)
    except binascii.Error:
        return None
    return KnownKey(fields[1], blob, marker == "@revoked", exact, where)


def _speaks_of(patterns: str, name: str) -> bool:
    if patterns.startswith("|"):
        return _is_hash_of(patterns, name)
    matched = False
    for pattern in patterns.lower().split(","):
        if pattern.startswith("!"):
            if matches(pattern[1:], name):
                return False  # a negation is final, wherever it stands
        elif matches(pattern, name):
            matched = True
    return matched


def _is_hash_of(pattern: str, name: str) -> bool:
    """`|1|salt|hash`: HMAC-SHA1 of the name."""
    try:
        _, version, salt, digest = pattern.split("|")
        wanted = base64.b64decode(digest, validate=True)
        actual = hmac.digest(base64.b64decode(salt, validate=True), name.encode(), hashlib.sha1)
    except ValueError:
        return False
    return version == "1" and hmac.compare_digest(wanted, actual)
