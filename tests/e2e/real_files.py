"""Real files of this machine, of many kinds, as any Debian with Python has them, and two that are made."""

import hashlib
import os
import re
import stat
import sysconfig
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

LARGE = 300 * 1024 * 1024
_CHUNK = 1024 * 1024
_LARGEST = 2 * 1024 * 1024  # bytes, of one file that is found: the large one is made
_TOTAL = 100 * 1024 * 1024  # bytes, of all that are found
_EACH_KIND = 12  # files with one suffix that are kept in mind
_ENOUGH_SEEN = 150_000  # files; a search of a very full machine ends here

# Everything else is found by the way: these are the kinds that must be among it.
KINDS = {
    "sources": {".py", ".pyi", ".c", ".h", ".pl", ".pm", ".sh", ".js"},
    "images": {".png", ".gif", ".svg", ".jpg", ".xpm", ".ico"},
    "archives": {".gz", ".zip", ".whl", ".xz", ".bz2", ".jar", ".tar"},
    "documents": {".txt", ".html", ".md", ".rst", ".pdf", ".json", ".xml"},
}


@dataclass(frozen=True, slots=True)
class RealFile:
    """One file to be sent, and the SHA-256 it has before that."""

    path: Path
    digest: str

    @property
    def fits(self) -> bool:
        """Whether its own suffix can be a suffix in a drop; else the sender is told one."""
        parts = self.path.name.lstrip(".").split(".")
        return len(parts) > 1 and re.fullmatch("[A-Za-z0-9]+", parts[-1]) is not None and parts[-1].lower() != "sha256"


def find_files(count: int) -> list[RealFile]:
    """So many readable, non-empty files, of as many kinds as there are; the same ones at every call."""
    by_suffix: defaultdict[str, list[Path]] = defaultdict(list)
    for path in _candidates():
        kept = by_suffix[path.suffix.lower()]
        if len(kept) < _EACH_KIND:
            kept.append(path)
    found: list[Path] = []
    total = 0
    wanted = set().union(*KINDS.values())
    # One of each kind, then another of each: the kinds that must be there come first.
    suffixes = sorted(by_suffix, key=lambda suffix: (suffix not in wanted, suffix))
    for turn in range(_EACH_KIND):
        for suffix in suffixes:
            if turn < len(by_suffix[suffix]) and len(found) < count:
                path = by_suffix[suffix][turn]
                if total + path.stat().st_size <= _TOTAL:
                    total += path.stat().st_size
                    found.append(path)
    return [RealFile(path, digest_of(path)) for path in found]


def make_files(folder: Path) -> list[RealFile]:
    """What is seldom found: an empty file, one of 300 MiB, and a name as people write them."""
    empty = folder / "empty.dat"
    empty.touch()
    large = folder / "large.bin"
    with large.open("wb") as file:
        for number in range(LARGE // _CHUNK):
            file.write(hashlib.shake_128(str(number).encode()).digest(_CHUNK))
    named = folder / "Rechnung März 2026 (Kopie).csv"
    named.write_text("Nr;Betrag\n1;10,00 €\n", encoding="utf-8")
    return [RealFile(path, digest_of(path)) for path in (empty, large, named)]


def digest_of(path: Path) -> str:
    """The SHA-256 of a whole file, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _candidates() -> Iterator[Path]:
    seen = 0
    roots = [sysconfig.get_path("stdlib"), "/usr/lib/python3", "/usr/share", "/etc", sysconfig.get_path("purelib")]
    for root in dict.fromkeys(map(os.path.realpath, roots)):
        for folder, below, names in os.walk(root):
            # Caches are rewritten by whoever runs beside this test.
            below[:] = sorted(name for name in below if name not in ("__pycache__", ".git"))
            for name in sorted(names):
                seen += 1
                path = Path(folder, name)
                if _is_usable(path):
                    yield path
            if seen > _ENOUGH_SEEN:
                return


def _is_usable(path: Path) -> bool:
    try:
        about = path.lstat()
        str(path).encode()
    except (OSError, UnicodeEncodeError):
        return False
    # Readable by everybody: nobody's secrets are sent anywhere, not even to a test server.
    return stat.S_ISREG(about.st_mode) and bool(about.st_mode & stat.S_IROTH) and 0 < about.st_size <= _LARGEST
