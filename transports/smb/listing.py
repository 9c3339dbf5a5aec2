"""The entries of a folder, in bounded buffers, with the handle given back even when nobody asks for the rest."""

from collections.abc import Iterator

from transports.base import Entry, Kind
from transports.errors import TransportError
from transports.paths import shown
from transports.patterns import matches
from transports.smb import messages, names, replies
from transports.smb.errors import Lost, Refused, edge
from transports.smb.link import Link
from transports.smb.status import Nt

FIRST = 64 * 1024  # bytes of the first answer, which comes with the opening: one credit, as in every compound
ROOM = 256 * 1024  # bytes of each further answer: about 2000 names
_NO_MORE = (Nt.NO_MORE_FILES, Nt.NO_SUCH_FILE)  # the latter is the first answer where nothing matches


def scan(link: Link, folder: str, wire: str, pattern: str) -> Iterator[Entry]:
    """Yields entries; the server filters by the pattern, and the exact case is looked at here."""
    asked = names.pattern_on_wire(pattern)
    opening = messages.open_(wire, messages.READ_DATA | messages.READ_ATTRIBUTES, messages.SHARE_ALL, messages.FOLDER)
    with edge("scan", folder):
        try:
            opened, answers = link.enter(opening, messages.list_(messages.CHAINED, asked, FIRST))
        except Refused as refused:
            if refused.step and refused.status in _NO_MORE:
                return
            raise
    answer: bytes | None = answers[0]
    try:
        while answer is not None:
            for listed in replies.listed(replies.information(answer)):
                if listed.name not in (".", "..") and matches(pattern, listed.name):
                    yield _entry(listed)
            answer = _more(link, folder, opened.file_id, asked)
    except (GeneratorExit, TransportError):
        link.abandon(opened.file_id)
        raise
    _give_back(link, opened.file_id)


def _more(link: Link, folder: str, file_id: bytes, asked: str) -> bytes | None:
    room = link.piece(ROOM)
    with edge("scan", folder):
        try:
            return link.call(messages.list_(file_id, asked, room), room)
        except Refused as refused:
            if refused.status in _NO_MORE:
                return None
            raise


def _give_back(link: Link, file_id: bytes) -> None:
    try:
        link.call(messages.close(file_id))
    except (Refused, Lost):
        return  # everything was listed; a dead link has no handles


def _entry(listed: replies.Listed) -> Entry:
    if names.refused_because(listed.name):
        return Entry(shown(listed.name.encode("utf-8", "surrogatepass")), Kind.OTHER, listed.size, listed.modified)
    return Entry(listed.name, listed.kind, listed.size, listed.modified)
