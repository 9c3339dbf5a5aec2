"""A TOML file as text: read whole, its faults of syntax told with their line, and where in it each key stands.

`tomllib` tells neither the line of a key nor, at the end of a file, where the statement begins that does not end. Both are
found by giving it one statement after the other, so no second reading of the grammar is needed here.
"""

import difflib
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gateway.errors import ConfigurationError
from gateway.faults import KeyPath

_LARGEST = 1024 * 1024  # bytes: more than anybody writes, and little enough to be read at once
_LONGEST_STATEMENT = 500  # lines; a longer one is not looked into, since each line is parsed with all before it
_PLACE = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")
_SECRETS = ("password", "key_passphrase", "token", "webhook_secret", "password_hash")
_LIKE_A_SECRET = re.compile(r"pass|secret|token|phrase|pwd|\bpw\b|credential", re.IGNORECASE)
_IN_A_URL = re.compile(r"(://[^\s:/]*:)(?!\d{1,5}(?:[/\"'\s]|$)).*")  # what follows a user, unless it is a port

# What tomllib says, by its beginning, and what to do about it; what is not found here is told as tomllib says it.
_ADVICE = (
    ("Invalid value", 'a text needs quotes: key = "text"; numbers, true and false need none'),
    ("Expected '=' after a key", "write key = value; a key with a space or a special character in it needs quotes"),
    ("Cannot declare", "this table is in the file already, or a key of its name; keep its keys together in one place"),
    ("Cannot overwrite a value", "this key stands in its table already; keep one of the two"),
    ("Expected newline or end of document", "one key stands on a line; a text needs quotes around all of it"),
    ("Expected ']' at the end of a table", "a table is named [name], and an entry of a list of tables [[name]]"),
    ("Illegal character '\\n'", "the quote at the end of the text is missing"),
    ("Unterminated string", "the quotes at the end of the text are missing"),
    ('Expected "\'"', "the quote at the end of the text is missing"),
    ("Unclosed array", "between the entries of a list is a comma, and at its end a ']'"),
    ("Unclosed inline table", "between the entries of a {...} is a comma, and at its end a '}'"),
    ("Unescaped '\\'", "a backslash in \"...\" is written \\\\; in '...' it stands for itself"),
    ("Illegal character", "remove it; it cannot be seen in most editors"),
    ("Found invalid character", "remove it; it cannot be seen in most editors"),
    ("Invalid statement", "a line is a [table], key = value, or a comment that begins with #"),
)


class NotToml(ConfigurationError):
    """The file is not TOML. `reason` says why in one line; `line` is where, and `shown` that line without secrets, or None."""

    def __init__(self, path: Path, reason: str, line: int | None = None, column: int | None = None, shown: str | None = None):
        place = "" if line is None else f"line {line}: " if column is None else f"line {line}, column {column}: "
        text = f"{path} is not TOML: {place}{reason}"
        super().__init__(text if shown is None else f"{text}\n  {line} | {shown}")
        self.reason, self.line, self.column, self.shown = reason, line, column, shown


@dataclass(frozen=True, slots=True)
class TomlText:
    """A file that was read."""

    text: str
    values: dict[str, Any]

    def lines(self) -> dict[KeyPath, int]:
        """The line, from 1, of each table's heading and of each key; what is not found for sure is not in it."""
        found: dict[KeyPath, int] = {}
        table: KeyPath = ()
        numbers: dict[KeyPath, int] = {}
        lines = _split(self.text)
        for line, statement in _statements(self.text):
            if statement is None:
                break
            if lines[line - 1].lstrip().startswith("["):
                table = _table(statement, numbers)
                found.setdefault(table, line)
                continue
            for path, whole in _paths(statement):
                # `a.b = 1` is no heading of a; another line may be, and be meant.
                if whole or len(table + path) > 1:
                    found.setdefault(table + path, line)
        return found


def line_of(key: KeyPath, lines: Mapping[KeyPath, int]) -> int | None:
    """The line of a key; of a table without a heading, of the first line in it; of what is missing, of its table."""
    if key not in lines and (within := [line for path, line in lines.items() if path[: len(key)] == key]):
        return min(within)
    known = (key[:length] for length in range(len(key), 0, -1))
    return next((lines[part] for part in known if part in lines), None)


def read(path: Path) -> TomlText:
    """Reads a file. Raises NotToml, and ConfigurationError for one that cannot be read or is no configuration at all."""
    try:
        if path.is_dir():
            raise ConfigurationError(f"{path} is a folder, not a configuration file")
        with path.open("rb") as file:
            data = file.read(_LARGEST + 1)
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {error.strerror}") from error
    if len(data) > _LARGEST:
        raise ConfigurationError(f"{path} has more than {_LARGEST // 1024} KiB; that is no configuration file")
    return TomlText(text := _decoded(path, data), _parsed(path, text))


def _decoded(path: Path, data: bytes) -> str:
    if b"\0" in data:
        line = data.count(b"\n", 0, data.index(b"\0")) + 1
        raise NotToml(path, "there is a NUL byte; this is a binary file, or UTF-16. Save it as UTF-8", line)
    try:
        # A byte order mark is what some editors save; TOML does not know it.
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        # Without its cause, which holds the bytes.
        raise NotToml(path, f"byte 0x{error.object[error.start]:02x} is not UTF-8; save the file as UTF-8", line) from None


def _parsed(path: Path, text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except RecursionError:
        # Nor with its cause: a thousand frames.
        raise NotToml(path, "lists or tables are nested too deeply") from None
    except tomllib.TOMLDecodeError as error:
        raise _fault(path, text, str(error)) from None
    except ValueError:
        # Of Python's own, which says what a programmer could do.
        raise _fault(path, text, "a number has too many digits, or a date is none (at end of document)") from None


def _fault(path: Path, text: str, message: str) -> NotToml:
    place = _PLACE.search(message)
    reason = _PLACE.sub("", message)
    advice = next((advice for begin, advice in _ADVICE if reason.startswith(begin)), None)
    told = reason if advice is None else f"{advice} ({reason})"
    lines = _split(text)
    begins = list(_statements(text))
    if place is not None and place[1] is not None:
        line, column = int(place[1]), int(place[2])
        begin = max((begin for begin, _ in begins if begin <= line), default=line)
        if re.search("[\u2018-\u201f]", lines[line - 1][column - 1 :][:1]):
            told = f"this is a quote of a word processor; TOML takes \" and ' ({reason})"
        if begin < line and begins[-1] == (begin, None):
            told += f"; what does not end begins in line {begin}"
        return NotToml(path, told, line, column, _shown(lines, line, begin))
    if reason == "Invalid value":
        told = f"the value that belongs here is not there, or has no end ({reason})"
    # At the end of the file, where it has seen that something is missing: told where that something begins.
    unended = next((begin for begin, statement in begins if statement is None), None)
    return NotToml(path, told, unended, None, None if unended is None else _shown(lines, unended, unended))


def _shown(lines: list[str], number: int, begin: int) -> str | None:
    """A line of a statement that begins with the line `begin`, for a person: with no secret in it, or nothing at all."""
    line, first = lines[number - 1], lines[begin - 1]
    word = re.split(r"[\s=:]", first.strip(), maxsplit=1)[0].strip("\"'")
    if _LIKE_A_SECRET.search(first) or difflib.get_close_matches(word.rpartition(".")[2], _SECRETS, 1):
        return f"{word} = ..." if number == begin else None
    if _LIKE_A_SECRET.search(line):
        return None
    text = _IN_A_URL.sub(r"\1...", line.rstrip())
    return text if len(text) <= 100 else text[:100] + " ..."


def _split(text: str) -> list[str]:
    # Not splitlines: that also splits at characters which are no line breaks in TOML.
    return text.replace("\r\n", "\n").split("\n")


def _statements(text: str) -> Iterator[tuple[int, dict[str, Any] | None]]:
    """Each statement's first line and what it says by itself; None for the first that does not end, which is the last."""
    begin, lines = 1, list[str]()
    for number, line in enumerate(_split(text), start=1):
        if not lines:
            begin = number
        lines.append(line)
        try:
            said = tomllib.loads("\n".join(lines))
        except (ValueError, RecursionError):
            if len(lines) >= _LONGEST_STATEMENT:
                break
            continue
        if said:
            yield begin, said
        lines = []
    if lines:
        yield begin, None


def _table(statement: dict[str, Any], numbers: dict[KeyPath, int]) -> KeyPath:
    """The path of a heading, which counts the [[tables]] in `numbers`."""
    path: KeyPath = ()
    value: Any = statement
    while isinstance(value, dict) and value:
        ((name, value),) = value.items()
        path = (*path, name)
        if isinstance(value, list):
            numbers[path] = numbers.get(path, -1) + 1
        if path in numbers:
            path = (*path, numbers[path])
    return path


def _paths(statement: dict[str, Any]) -> Iterator[tuple[KeyPath, bool]]:
    """Every key of a statement, and whether a value stands at it; the outer ones first."""
    waiting: list[tuple[KeyPath, Any]] = [((), statement)]
    while waiting:
        path, value = waiting.pop(0)
        if path:
            yield path, not isinstance(value, dict)
        if isinstance(value, dict):
            waiting += [((*path, name), inner) for name, inner in value.items()]
