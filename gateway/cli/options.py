"""Options that several commands share, so that they read the same everywhere."""

from pathlib import Path
from typing import Annotated

import typer

DropArgument = Annotated[
    str,
    typer.Argument(
        metavar="DROP",
        help="A URL (sftp://, smb://, file://), a path, or the name of a drop in the configuration.",
        show_default=False,
    ),
]
Config = Annotated[
    Path | None,
    typer.Option("--config", help="Configuration file; else DROPGATE_CONFIG, ./dropgate.toml, the user's, the system's."),
]
Json = Annotated[bool, typer.Option("--json", help="One JSON object a line on standard output.")]
HostKey = Annotated[
    str | None,
    typer.Option("--host-key", help="The SFTP server's key, SHA256:..., instead of known_hosts.", show_default=False),
]
LayoutOption = Annotated[str | None, typer.Option("--layout", help="prefix (default) or folders.", show_default=False)]
SignalOption = Annotated[str | None, typer.Option("--signal", help="manifest (default), checksum or none.", show_default=False)]
Width = Annotated[int | None, typer.Option("--width", help="Digits of a sequence number; 10 unless set.", show_default=False)]
