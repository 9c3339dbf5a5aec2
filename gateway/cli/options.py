"""Options that several commands share, so that they read the same everywhere."""

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from protocol.names import DEFAULT_WIDTH
from protocol.rules import Signal


class LayoutName(Enum):
    """The two layouts, as they are called in a configuration."""

    PREFIX = "prefix"
    FOLDERS = "folders"


DropArgument = Annotated[
    str,
    typer.Argument(
        metavar="DROP",
        help="A URL (sftp://, smb://, file://), a path such as ./drop, or the name of a drop in the configuration.",
        show_default=False,
    ),
]
Config = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        help="Configuration; else DROPGATE_CONFIG, ./dropgate.toml, the user's, the system's.",
        show_default=False,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="One JSON object a line on standard output.")]
HostKey = Annotated[
    str | None,
    typer.Option(
        "--host-key", metavar="SHA256:...", help="The key an SFTP server must show; else known_hosts says.", show_default=False
    ),
]
LayoutOption = Annotated[
    LayoutName | None, typer.Option("--layout", help="Marks or folders; prefix unless given.", show_default=False)
]
SignalOption = Annotated[
    Signal | None,
    typer.Option("--signal", help="What says that an item is complete; manifest unless given.", show_default=False),
]
Width = Annotated[
    int | None,
    typer.Option(
        "--width", metavar="N", min=1, max=18, help=f"Digits of a number; {DEFAULT_WIDTH} unless given.", show_default=False
    ),
]
