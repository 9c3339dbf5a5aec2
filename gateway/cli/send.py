"""`dropgate send`: hands files over to a drop, each as an item, or all as one."""

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from gateway.cli.common import (
    DONE,
    SOME_FAILED,
    complain,
    exit_code,
    failures_end_well,
    open_drop,
    say,
    say_json,
)
from gateway.cli.options import Config, DropArgument, HostKey, Json, LayoutOption, SignalOption, Width
from gateway.cli.progress import sending
from gateway.cli.signals import interrupted_by_sigterm
from gateway.cli.waiting import wait_for
from gateway.errors import ConfigurationError, GatewayError
from gateway.handoff.producer import Outgoing, Producer, suffix_of
from gateway.times import span
from protocol.errors import ProtocolError, SequenceTaken
from protocol.procedures.publish import Published
from transports.errors import ConnectionFailed, Denied, NoSpace, TransportError


def send(
    drop: DropArgument,
    files: Annotated[list[Path], typer.Argument(metavar="FILE", help="Files of this host.", show_default=False)],
    group: Annotated[
        str, typer.Option(metavar="PREFIX", help="Group prefix of the items, such as orders_.", show_default=False)
    ],
    suffix: Annotated[
        str | None, typer.Option(metavar="SUFFIX", help="Suffix in the drop; the file's own unless given.", show_default=False)
    ] = None,
    sequence: Annotated[
        int | None,
        typer.Option(metavar="N", min=0, help="Number of the (first) item; else the group's counter.", show_default=False),
    ] = None,
    key: Annotated[
        str | None,
        typer.Option(metavar="KEY", help="Idempotency key of the hand-off; else a fresh one.", show_default=False),
    ] = None,
    meta: Annotated[
        list[str] | None, typer.Option(metavar="K=V", help="For the manifest; may be repeated.", show_default=False)
    ] = None,
    bundle: Annotated[bool, typer.Option("--bundle", help="All files as one item.")] = False,
    wait: Annotated[bool, typer.Option("--wait", help="Wait for what becomes of each item, and tell it.")] = False,
    timeout: Annotated[
        str | None, typer.Option(metavar="SPAN", help="With --wait: at most so long, such as 10m.", show_default=False)
    ] = None,
    layout: LayoutOption = None,
    signal: SignalOption = None,
    width: Width = None,
    host_key: HostKey = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Publish each FILE as an item in DROP.

    No other program sees anything of it before it is complete. With --wait the exit code is 0 once each item was processed,
    1 where one failed, 4 where the time was up before.
    """
    with failures_end_well(), interrupted_by_sigterm():
        facts = _meta(meta or [])
        _check_texts(key, suffix)
        if key is not None and len(files) > 1 and not bundle:
            raise ConfigurationError("--key names one hand-off; send one file, or several with --bundle")
        target = open_drop(drop, config, host_key, layout=layout, signal=signal, width=width)
        grammar = target.rules.grammar
        grammar.check_prefix(group)
        target = replace(target, groups=tuple(dict.fromkeys((*target.groups, group))))
        batches = [_bundled(files, suffix)] if bundle else [[Outgoing(path, suffix)] for path in files]
        if sequence is not None and sequence + len(batches) - 1 > grammar.largest:
            raise ConfigurationError(f"--sequence {sequence} is too large: a number has {grammar.width} digits here (--width)")
        patience = _patience(timeout, wait=wait)
        sizes = {path: path.stat().st_size if path.is_file() else 0 for path in files}
        worst, sent = DONE, list[Published]()
        with target.producer() as producer:
            with sending(sum(sizes.values()), len(files)) as (advance, show):
                for number, batch in enumerate(batches):
                    show(batch[0].path.name)
                    outgoing = [Outgoing(o.path, o.suffix, advance) for o in batch]
                    given = None if sequence is None else sequence + number
                    try:
                        published = producer.send(outgoing, group=group, sequence=given, key=key, meta=facts)
                    except (GatewayError, ProtocolError, TransportError, OSError) as error:
                        if isinstance(error, ConnectionFailed | Denied | NoSpace):
                            raise  # the next file would meet the same
                        if isinstance(error, SequenceTaken) and given is not None:
                            error.add_note("leave --sequence out to get the next free number")
                        complain(error, f"{', '.join(str(o.path) for o in batch)}: ")
                        worst = max(worst, SOME_FAILED if len(batches) > 1 else exit_code(error))
                    else:
                        sent.append(published)
                        _tell(producer, published, outgoing, as_json=as_json)
            if wait:
                worst = max(worst, wait_for(producer, sent, patience, as_json=as_json))
        raise typer.Exit(worst)


def _patience(timeout: str | None, *, wait: bool) -> float | None:
    """Seconds to wait; None: as long as it takes."""
    if timeout is None:
        return None
    if not wait:
        raise ConfigurationError("--timeout goes with --wait")
    try:
        return span(timeout)
    except ValueError as error:
        raise ConfigurationError(f"--timeout: {error}") from error


def _check_texts(key: str | None, suffix: str | None) -> None:
    if key == "":
        raise ConfigurationError("--key is empty; leave it out to get a fresh one")
    if suffix == "":
        raise ConfigurationError("--suffix is empty; leave it out to keep the file's own")
    if key is not None and not key.isprintable():
        raise ConfigurationError("--key holds a line break, a control character or a broken character")


def _meta(pairs: list[str]) -> dict[str, object]:
    facts: dict[str, object] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise ConfigurationError(f"--meta {pair!r} is not of the form k=v")
        if any("\ud800" <= character <= "\udfff" for character in pair):
            raise ConfigurationError(f"--meta {pair!r} is not valid UTF-8")
        if name in facts:
            raise ConfigurationError(f"--meta {name} is given twice")
        facts[name] = value
    return facts


def _bundled(files: list[Path], suffix: str | None) -> list[Outgoing]:
    """One item's files are told apart by suffix alone: where two would have the same one, they are numbered, `1.csv`."""
    suffixes = [suffix or suffix_of(path) for path in files]
    counts = Counter(s.lower() for s in suffixes)
    return [
        Outgoing(path, f"{index}.{own}" if counts[own.lower()] > 1 else own)
        for index, (path, own) in enumerate(zip(files, suffixes, strict=True), start=1)
    ]


def _tell(producer: Producer, published: Published, files: list[Outgoing], *, as_json: bool) -> None:
    grammar = producer.rules.grammar
    if as_json:
        say_json(
            {
                "item": published.item.group + grammar.digits(published.item.number),
                "group": published.item.group,
                "sequence": grammar.digits(published.item.number),
                "key": published.key,
                "files": [str(file.path) for file in files],
                "names": list(published.names),
                "bytes": published.size,
                "hashes": list(published.hashes),
            }
        )
    else:
        sources = ", ".join(str(file.path) for file in files)
        say(f"{published.item.group}{grammar.digits(published.item.number)}  {published.size} bytes  {sources}")
