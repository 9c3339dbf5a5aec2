"""The grammar of names: what a file in a drop is called, and what a name says (PROTOCOL section 2).

    name = [ mark ] prefix sequence [ "+" 1*DIGIT ] "." suffix

Parsing is the inverse of formatting: `parse(format(x)) == x` for every name that can be formatted, and a text that is not
exactly what `format` would write is *foreign*. A prefix may hold dots and digits, so some prefixes could be cut in two ways;
such a prefix is refused (`Grammar.check_prefix`), which keeps the inverse exact.
"""

import re
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache

from protocol.errors import InvalidName, SequenceExhausted
from protocol.shown import shown
from protocol.states import State

DEFAULT_WIDTH = 10
LONGEST_NAME = 255  # bytes, on every file system and server that matters
LONGEST_OWNER = 32

MANIFEST_SUFFIX = "manifest.json"
CHECKSUM_SUFFIX = "sha256"
REASON_SUFFIX = "reason.json"
RECEIPT_SUFFIX = "receipt.json"

_PREFIX = re.compile(r"(?:(?=[A-Za-z0-9])[A-Za-z0-9._-]*[A-Za-z._-])?", re.ASCII)
_MARKED = re.compile(r"[A-Z]_", re.ASCII)
_SUFFIX = re.compile(r"[A-Za-z0-9]+(?:\.[A-Za-z0-9]+)*", re.ASCII)
_OWNER = re.compile(r"[a-z0-9-]{1,32}", re.ASCII)
_LEASE = re.compile(r"L_([a-z0-9-]{1,32})\.lease\.json", re.ASCII)
# "+" is in no prefix and no owner, so a seed can be read in one way only.
_SEED = re.compile(r"([^+]*)seed\+([a-z0-9-]{1,32})\+([0-9a-z]{1,10})", re.ASCII)
# Anyone may delete scratch, so only a name that can mean nothing else may be scratch.
_SCRATCH = re.compile(r"T_[A-Za-z0-9._+-]*[A-Za-z0-9_+-]", re.ASCII)
_MARKED_FOLDED = re.compile(r"(?:c_[a-z0-9-]{1,32}_|[a-z]_)(.*)", re.ASCII)
# A Windows server opens a device, whatever follows the first dot.
_DEVICES = frozenset({"con", "prn", "aux", "nul"} | {f"{port}{n}" for port in ("com", "lpt") for n in range(10)})


class FileKind(Enum):
    """What one file of an item is for, told by its suffix."""

    PAYLOAD = "payload"
    MANIFEST = "manifest"
    CHECKSUM = "checksum"
    REASON = "reason"
    RECEIPT = "receipt"


_RESERVED = {
    MANIFEST_SUFFIX: FileKind.MANIFEST,
    CHECKSUM_SUFFIX: FileKind.CHECKSUM,
    REASON_SUFFIX: FileKind.REASON,
    RECEIPT_SUFFIX: FileKind.RECEIPT,
}


def kind_of(suffix: str) -> FileKind:
    """What a suffix says; `csv.sha256` is a checksum file as well."""
    if suffix.endswith("." + CHECKSUM_SUFFIX):
        return FileKind.CHECKSUM
    return _RESERVED.get(suffix, FileKind.PAYLOAD)


def _is_suffix(text: str) -> bool:
    # A reserved suffix in another case is nobody's: SMB takes it for ours, and elsewhere it would be a second token.
    return _SUFFIX.fullmatch(text) is not None and kind_of(text) is kind_of(text.lower())


def is_marked(name: str) -> bool:
    """Whether a name begins as only names of this protocol may: one capital letter and "_"."""
    return _MARKED.match(name) is not None


def is_device(name: str) -> bool:
    """Whether a Windows server opens a device by this file or folder name."""
    return name.split(".", 1)[0].lower() in _DEVICES


@dataclass(frozen=True, slots=True, order=True)
class ItemId:
    """One item of a drop: its group's prefix and its number. Ordered by group, then by value, never by text."""

    group: str
    number: int


@dataclass(frozen=True, slots=True)
class Name:
    """A file of an item. `owner` is set exactly for claims; `again` counts doubles after `A_` and `E_` (section 7)."""

    item: ItemId
    suffix: str
    state: State = State.READY
    owner: str = ""
    again: int = 0

    @property
    def kind(self) -> FileKind:
        return kind_of(self.suffix)


@dataclass(frozen=True, slots=True)
class LeaseName:
    """`L_<owner>.lease.json`: a live worker (section 6)."""

    owner: str


@dataclass(frozen=True, slots=True)
class CounterName:
    """`S_<prefix><n>.next`: the next number of a group is `number` (section 4)."""

    group: str
    number: int


@dataclass(frozen=True, slots=True)
class OriginName:
    """`S_<prefix>origin`: a counter of this group was begun. Stays for ever (section 4)."""

    group: str


@dataclass(frozen=True, slots=True)
class SeedName:
    """`S_<prefix>seed+<owner>+<attempt>`: becomes the counter by one rename (docs/protocol.md, "The first number")."""

    group: str
    owner: str
    attempt: str


@dataclass(frozen=True, slots=True)
class ScratchName:
    """`T_...`: left over from a probe; anyone may delete an old one."""

    text: str


Parsed = Name | LeaseName | CounterName | OriginName | SeedName | ScratchName


def check_owner(owner: str) -> str:
    """The owner id itself, if it fits the grammar. Raises InvalidName."""
    if not _OWNER.fullmatch(owner):
        raise InvalidName(f"owner {shown(owner)} is not 1 to 32 of a-z, 0-9 and '-'")
    if is_device(owner):
        raise InvalidName(f"owner {owner!r} is the name of a Windows device, and could not have a folder there")
    return owner


def _is_owner(text: str) -> bool:
    return _OWNER.fullmatch(text) is not None and not is_device(text)


def check_suffix(suffix: str) -> str:
    """A payload's suffix itself, if it may be one. Raises InvalidName."""
    if not _SUFFIX.fullmatch(suffix):
        raise InvalidName(f"suffix {shown(suffix)} is not letters and digits joined by single dots, such as 'csv' or 'tar.gz'")
    if kind_of(suffix.lower()) is not FileKind.PAYLOAD:
        raise InvalidName(f"suffix {suffix!r} is reserved for dropgate's own files; choose another, such as 'json' or 'txt'")
    return suffix


@dataclass(frozen=True, slots=True)
class Grammar:
    """Names of one drop: its sequence numbers are written with `width` digits."""

    width: int = DEFAULT_WIDTH

    def __post_init__(self) -> None:
        if not 1 <= self.width <= 18:
            raise InvalidName(f"width {self.width} is not between 1 and 18 digits")

    @property
    def largest(self) -> int:
        """The last number that fits."""
        return int(10**self.width) - 1

    def digits(self, number: int) -> str:
        """A number at the drop's width. Raises SequenceExhausted where it does not fit."""
        if not 0 <= number <= self.largest:
            raise SequenceExhausted(
                f"number {number} does not fit {self.width} digits, and `ls` order would break; begin a new group prefix"
            )
        return f"{number:0{self.width}d}"

    def check_prefix(self, prefix: str) -> str:
        """A group prefix itself, if names made from it can be read back. Raises InvalidName."""
        if fault := _prefix_fault(self, prefix):
            raise InvalidName(f"group prefix {shown(prefix)} {fault}")
        return prefix

    def check_fits(self, prefix: str, suffix: str) -> None:
        """That the longest name an item can take fits a file system (section 2). Raises InvalidName."""
        item = ItemId(prefix, self.largest)
        longest_owner = "x" * LONGEST_OWNER
        suffixes = (MANIFEST_SUFFIX, f"{suffix}.{CHECKSUM_SUFFIX}")
        longest = max(len(f"C_{longest_owner}_{self._bare(Name(item, s))}") for s in suffixes)
        if longest > LONGEST_NAME:
            raise InvalidName(
                f"names of group {shown(prefix)} with suffix {shown(suffix)} grow to {longest} bytes while claimed, "
                f"{LONGEST_NAME} is the limit; shorten the prefix or the suffix"
            )
        self.check_prefix(prefix)
        check_suffix(suffix)

    def format(self, name: Name) -> str:
        """The name as it stands in a drop of the prefix layout. Raises InvalidName for what the grammar has no name for."""
        if name.state is State.CLAIMED:
            mark = f"C_{check_owner(name.owner)}_"
        else:
            mark = f"{name.state.value}_" if name.state.value else ""
        text = mark + self.format_bare(name)
        if len(text) > LONGEST_NAME:
            raise InvalidName(f"{shown(text)} would be {len(text)} bytes long, {LONGEST_NAME} is the limit")
        if (name.owner and name.state is not State.CLAIMED) or self.parse(text) != name:
            raise InvalidName(f"no name of a drop says exactly {name}")
        return text

    def format_bare(self, name: Name) -> str:
        """The name without its mark, as the folder layout writes it. Raises InvalidName."""
        self.check_prefix(name.item.group)
        if not _is_suffix(name.suffix):
            raise InvalidName(f"suffix {shown(name.suffix)} is not letters and digits joined by single dots, or is reserved")
        if name.again and name.state not in (State.AFTER, State.ERROR):
            raise InvalidName(f"only an after or error image is kept twice, not {name}")
        text = self._bare(name)
        if is_device(text):
            raise InvalidName(f"{text!r} is the name of a Windows device")
        return text

    def _bare(self, name: Name) -> str:
        double = f"+{name.again}" if name.again else ""
        return f"{name.item.group}{self.digits(name.item.number)}{double}.{name.suffix}"

    def cut(self, text: str) -> tuple[str, int, int, str] | None:
        """Prefix, number, double and suffix: the first cut from the left that fits."""
        start = 0
        while (dot := text.find(".", start)) >= 0:
            start = dot + 1
            head, suffix = text[:dot], text[dot + 1 :]
            head, plus, double = head.partition("+")
            prefix, digits = head[: -self.width], head[-self.width :]
            if plus and (not double.isdecimal() or not double.isascii() or double.startswith("0")):
                continue
            if len(digits) != self.width or not digits.isascii() or not digits.isdecimal():
                continue
            if not _PREFIX.fullmatch(prefix) or _MARKED.match(prefix) or not _is_suffix(suffix):
                continue
            return prefix, int(digits), int(double or 0), suffix
        return None

    def parse_bare(self, text: str) -> Name | None:
        """A name without a mark, as state READY; None where it is foreign. A double is kept in `again`."""
        if len(text) > LONGEST_NAME or (cut := self.cut(text)) is None:
            return None
        prefix, number, again, suffix = cut
        if _prefix_fault(self, prefix) or is_device(text):
            return None
        return Name(ItemId(prefix, number), suffix, again=again)

    def parse(self, text: str) -> Parsed | None:
        """What a name in a drop of the prefix layout says; None where it is foreign."""
        if len(text) > LONGEST_NAME:
            return None
        if not _MARKED.match(text):
            bare = self.parse_bare(text)
            return bare if bare is not None and not bare.again else None
        mark, rest = text[0], text[2:]
        if mark in "BDAE":
            bare = self.parse_bare(rest)
            if bare is None or (bare.again and mark in "BD"):
                return None
            return Name(bare.item, bare.suffix, State(mark), again=bare.again)
        if mark == "C":
            owner, _, rest = rest.partition("_")
            bare = self.parse_bare(rest)
            if bare is None or bare.again or not _is_owner(owner):
                return None
            return Name(bare.item, bare.suffix, State.CLAIMED, owner)
        return self.parse_helper(text)

    def format_counter(self, counter: CounterName) -> str:
        return f"S_{self.check_prefix(counter.group)}{self.digits(counter.number)}.next"

    def format_origin(self, origin: OriginName) -> str:
        return f"S_{self.check_prefix(origin.group)}origin"

    def format_seed(self, seed: SeedName) -> str:
        text = f"S_{self.check_prefix(seed.group)}seed+{check_owner(seed.owner)}+{seed.attempt}"
        if self.parse_helper(text) != seed:
            raise InvalidName(f"no name of a drop says exactly {seed}")
        return text

    def format_lease(self, lease: LeaseName) -> str:
        return f"L_{check_owner(lease.owner)}.lease.json"

    def parse_helper(self, text: str) -> LeaseName | CounterName | OriginName | SeedName | ScratchName | None:
        """Names that are no file of an item: they stand at the top of a drop in every layout."""
        if len(text) > LONGEST_NAME:
            return None
        if text.startswith("T_"):
            return ScratchName(text) if _SCRATCH.fullmatch(text) else None
        if match := _LEASE.fullmatch(text):
            return LeaseName(match[1]) if _is_owner(match[1]) else None
        return self._parse_sequence_file(text[2:]) if text.startswith("S_") else None

    def _parse_sequence_file(self, rest: str) -> CounterName | OriginName | SeedName | None:
        parsed: CounterName | OriginName | SeedName | None = None
        if rest.endswith(".next"):
            stem = rest[: -len(".next")]
            prefix, digits = stem[: -self.width], stem[-self.width :]
            if len(digits) == self.width and digits.isascii() and digits.isdecimal():
                parsed = CounterName(prefix, int(digits))
        elif match := _SEED.fullmatch(rest):
            parsed = SeedName(match[1], match[2], match[3]) if _is_owner(match[2]) else None
        elif rest.endswith("origin"):
            parsed = OriginName(rest[: -len("origin")])
        return None if parsed is None or _prefix_fault(self, parsed.group) else parsed


def behind_mark(prefix: str) -> str | None:
    """What a server that folds case would read behind a mark: "orders_" of the prefix "b_orders_"; None without such a mark."""
    match = _MARKED_FOLDED.fullmatch(prefix.lower())
    return match[1] if match else None


def rivals(first: str, second: str) -> bool:
    """Whether two groups cannot share a drop on a server that folds case, such as SMB (section 2).

    Either they differ only by case, or a marked name of one is a bare name of the other: `B_orders_` and `b_orders_`.
    """
    if first.lower() == second.lower():
        return first != second
    return behind_mark(first) == second.lower() or behind_mark(second) == first.lower()


@lru_cache(maxsize=1024)  # a listing names few groups, and each of them many times
def _prefix_fault(grammar: Grammar, prefix: str) -> str:
    """Why names made from this prefix could not be read back; "" where they can."""
    if not _PREFIX.fullmatch(prefix) or _MARKED.match(prefix):
        return (
            "does not fit: letters, digits, '.', '_', '-', beginning with a letter or digit, "
            "not ending in a digit, and not beginning with one capital letter and '_'; for example 'orders_'"
        )
    if "." in prefix and is_device(prefix):
        return "begins with the name of a Windows device"
    # Which number and suffix are tried is of no consequence: only a cut within the prefix could come before ours.
    if grammar.cut(f"{prefix}{grammar.largest}.{MANIFEST_SUFFIX}") != (prefix, grammar.largest, 0, MANIFEST_SUFFIX):
        return f"holds a run of {grammar.width} digits that reads like a sequence number"
    return ""
