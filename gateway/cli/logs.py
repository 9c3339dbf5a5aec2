"""Logs: lines for people on a terminal, JSON objects everywhere else."""

import logging
from typing import TextIO

import structlog


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
        logger_factory=structlog.PrintLoggerFactory(stream),
        cache_logger_on_first_use=False,
    )
    # paramiko and smbprotocol log every lost connection with a traceback; it reaches the user as one error already.
    logging.getLogger("paramiko").setLevel(logging.CRITICAL)
    logging.getLogger("smbprotocol").setLevel(logging.CRITICAL)
