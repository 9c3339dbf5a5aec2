"""Logs: lines for people on a terminal, JSON objects everywhere else."""

import contextlib
import logging
from typing import TextIO, cast

import structlog


class _Harmless:
    """A stream for logs whose failures are nobody's: whoever read it has gone, its disk is full, or it was closed.

    There is no other place to tell of it, and the hand-off goes on without a log.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        with contextlib.suppress(OSError, ValueError):
            return self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            self._stream.flush()


def set_up_logs(stream: TextIO) -> None:
    """Sends the service's events to a stream. The libraries' own loggers stay silent: what they know comes as errors."""
    people = stream.isatty()
    renderer: structlog.typing.Processor = (
        structlog.dev.ConsoleRenderer() if people else structlog.processors.JSONRenderer(ensure_ascii=False)
    )
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="%H:%M:%S" if people else "iso", utc=not people),
            renderer,
        ],
        logger_factory=structlog.PrintLoggerFactory(cast(TextIO, _Harmless(stream))),
        cache_logger_on_first_use=False,
    )
    # paramiko and smbprotocol log every lost connection with a traceback; it reaches the user as one error already.
    logging.getLogger("paramiko").setLevel(logging.CRITICAL)
    logging.getLogger("smbprotocol").setLevel(logging.CRITICAL)
