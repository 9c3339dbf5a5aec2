"""`dropgate init`: writes a configuration to begin with."""

import os
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from gateway.cli.common import failures_end_well, say
from gateway.errors import ConfigurationError
from gateway.settings import FILE_NAME
from gateway.starting_file import starting_file


def init(
    path: Annotated[Path, typer.Argument(metavar="PATH", help="The file to write.", readable=False)] = Path(FILE_NAME),
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there.")] = False,
) -> None:
    """Write a commented configuration to begin with: two folders and a route between them.

    Only this account can read it, since passwords may come into it.
    """
    with failures_end_well():
        if path.is_dir():
            raise ConfigurationError(f"{path} is a folder; name a file in it, such as {path / FILE_NAME}")
        if not path.parent.is_dir():
            raise ConfigurationError(f"there is no folder {path.parent}; make it first")
        _write(path, starting_file(path.name).encode(), replace=force)
        say(f"{path} is written; next: dropgate check {path}")


def _write(path: Path, data: bytes, *, replace: bool) -> None:
    if not replace:
        try:
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            raise ConfigurationError(f"{path} is there already; --force replaces it") from None
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        return
    # What is there stays whole until the new one is. Made with 0600, in the folder where it will be.
    handle, scratch = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.replace(scratch, path)
    except BaseException:
        Path(scratch).unlink(missing_ok=True)
        raise
