"""A configuration that is right, and how the tests write one and see what is wrong with it."""

from pathlib import Path

import pytest

from gateway.errors import ConfigurationError
from gateway.settings import load

GOOD = """
[endpoint.bank]
url = "sftp://orders@files.example:2222/srv/data"

[drop.in]
endpoint = "bank"
directory = "in"
groups = ["orders_"]

[drop.out]
url = "smb://DOM;user@host/share/out"

[[route]]
from = "in"
to = "out"
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "dropgate.toml"
    path.write_text(text, encoding="utf-8")
    return path


def faults(folder: Path, text: str) -> list[str]:
    """The lines of the error that a configuration causes, less its title."""
    with pytest.raises(ConfigurationError) as caught:
        load(written(folder, text))
    title, *lines = str(caught.value).splitlines()
    assert title == f"{folder / 'dropgate.toml'} cannot be used:"
    assert all(line.startswith("  ") for line in lines)
    return [line.strip() for line in lines]
