"""Progress on a terminal: rate and time left. On a pipe there is none, and nothing is printed."""

import contextlib
import sys
from collections.abc import Callable, Iterator

from rich.progress import (
    BarColumn,
    DownloadColumn,
    FileSizeColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from gateway.cli.common import errors, readable


def _bar(*columns: ProgressColumn) -> Progress:
    # Results are taken through the bar's console where both share a terminal; else they must stay on standard output.
    together = sys.stdout.isatty()
    return Progress(*columns, console=errors, disable=not errors.is_terminal, transient=True, redirect_stdout=together)


@contextlib.contextmanager
def sending(total_bytes: int, files: int) -> Iterator[tuple[Callable[[int], None], Callable[[str], None]]]:
    """A bar over all bytes of a command: `advance(bytes)`, and `show(name)` for the file at hand."""
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        DownloadColumn(binary_units=True),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    with _bar(*columns) as progress:
        task = progress.add_task(f"{files} file{'s' if files != 1 else ''}", total=total_bytes)
        yield (
            lambda count: progress.advance(task, count),
            lambda name: progress.update(task, description=readable(name)),
        )


@contextlib.contextmanager
def receiving() -> Iterator[tuple[Callable[[int], None], Callable[[int], None]]]:
    """Bytes whose total nobody knows: `advance(bytes)`, and `show(items)` for how many items have come."""
    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), FileSizeColumn(), TransferSpeedColumn())
    with _bar(*columns) as progress:
        task = progress.add_task("waiting", total=None)
        yield (
            lambda count: progress.advance(task, count),
            lambda items: progress.update(task, description=f"{items} item{'s' if items != 1 else ''}"),
        )
