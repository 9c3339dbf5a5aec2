"""Logs that cannot be written stop nobody."""

import io
import os
from collections.abc import Iterator

import pytest
import structlog

from gateway.cli.logs import set_up_logs


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    kept = structlog.get_config()
    yield
    structlog.configure(**kept)


def test_a_stream_that_was_closed_takes_nothing_and_harms_nobody() -> None:
    stream = io.StringIO()
    set_up_logs(stream)
    structlog.get_logger("dropgate").info("first")
    assert '"first"' in stream.getvalue()
    stream.close()
    structlog.get_logger("dropgate").info("second")


def test_a_reader_that_has_gone_harms_nobody() -> None:
    reading, writing = os.pipe()
    with os.fdopen(writing, "w", buffering=1, encoding="utf-8") as stream:
        set_up_logs(stream)
        os.close(reading)
        structlog.get_logger("dropgate").info("nobody reads it")
        os.dup2(os.open(os.devnull, os.O_WRONLY), writing)  # so that closing it can flush
