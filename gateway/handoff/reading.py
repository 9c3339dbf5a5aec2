"""One file read from a server, over as many connections as it takes: each byte is given once, and in order."""

from collections.abc import Callable, Iterator
from functools import partial

from gateway.handoff.connection import Connection
from transports.base import Source, Transport
from transports.errors import Unreachable


def read_through(connection: Connection, open_at: Callable[[Transport, int], Source]) -> Iterator[bytes]:
    """The bytes of a file that `open_at` opens from a byte on, where it was cut as often as that happens.

    Patience begins anew with every byte that comes. Raises what opening and reading raise; the loss of the connection where
    patience has ended, and where the file has another size or time than at first, since then nobody knows whose bytes follow.
    """
    attempts = connection.attempts()
    given = 0
    first: tuple[int, float | None] | None = None
    cut: Unreachable | None = None
    while True:
        try:
            with connection.retrying(partial(_opened, open_at, given), attempts) as source:
                now = (source.size, source.modified)
                if first is not None and cut is not None and now != first:
                    cut.add_note("and the file has changed since it was opened first")
                    raise cut
                first = now
                for data in source:
                    given += len(data)
                    attempts.anew()
                    yield data
                return
        except Unreachable as error:
            connection.lost()
            if error is cut or not attempts.again():
                raise
            cut = error


def _opened(open_at: Callable[[Transport, int], Source], start: int, transport: Transport) -> Source:
    return open_at(transport, start)
