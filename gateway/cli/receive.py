"""`dropgate receive`: claims items, verifies them, and delivers them into a folder or to a command."""

import contextlib
import shutil
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from gateway.cli.common import (
    DONE,
    SOME_FAILED,
    exit_code,
    failures_end_well,
    open_drop,
    say,
    say_json,
    warn,
)
from gateway.cli.ledgers import ConsumerOption, LedgerOption, open_ledger_of
from gateway.cli.options import Config, DropArgument, HostKey, Json, LayoutOption, SignalOption, Width
from gateway.cli.progress import receiving
from gateway.cli.signals import interrupted_by_sigterm, stop_on_signals
from gateway.drop import Drop
from gateway.errors import ConfigurationError, DeliveryFailed
from gateway.handoff.consumer import Consumer, Event, Handler, Ordering, Result
from gateway.handoff.contents import Progress
from gateway.handoff.deliver import ToFolder
from gateway.handoff.execute import ToCommand, split_command
from gateway.handoff.heartbeat import DEFAULT_TTL, SHORTEST_TTL
from gateway.handoff.ordering import OnError, OnGap, Strictness
from gateway.service.loop import Loop, interruptible, run_all
from transports.connect import connect
from transports.endpoint import Endpoint
from transports.errors import NotFound
from transports.urls import parse_url

_GOOD = (Result.PROCESSED, Result.ACKNOWLEDGED)


@dataclass(slots=True)
class _Tally:
    """Tells each outcome, from several threads, and remembers whether all went well."""

    drop: Drop
    show: Callable[[int], None]
    as_json: bool
    done: int = 0
    worst: int = DONE
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, event: Event) -> None:
        with self.lock:
            if event.result in _GOOD:
                self.done += 1
                self.show(self.done)
            else:
                self.worst = SOME_FAILED
            self._tell(event)

    def _tell(self, event: Event) -> None:
        digits = self.drop.rules.grammar.digits(event.item.number)
        size = sum(p.size or 0 for p in event.contents.payloads) if event.contents is not None else None
        if self.as_json:
            fields: dict[str, object] = {
                "item": event.item.group + digits,
                "group": event.item.group,
                "sequence": digits,
                "result": event.result.value,
                "attempt": event.attempt,
                "bytes": size,
                "outcome": event.outcome,
                "error": event.error,
                "left": list(event.left),
            }
            say_json({key: value for key, value in fields.items() if value not in ("", None, [])})
        elif event.result in _GOOD:
            say(f"{event.item.group}{digits}  {size} bytes  {event.outcome}")
        if event.result not in _GOOD:
            warn(f"{event.item.group}{digits}  {event.result.value} (attempt {event.attempt}): {event.error}")
        if event.left:
            warn(f"{event.item.group}{digits}  still to be put away: {', '.join(event.left)}")


def receive(
    drop: DropArgument,
    group: Annotated[
        list[str], typer.Option(metavar="PREFIX", help="Group prefix to take; may be repeated.", show_default=False)
    ],
    to: Annotated[
        Path | None, typer.Option("--to", metavar="DIR", help="Deliver into this folder.", show_default=False)
    ] = None,
    command: Annotated[
        str | None,
        typer.Option(
            "--exec", metavar="'COMMAND {}'", help="Run this for each item; {} is the file's path.", show_default=False
        ),
    ] = None,
    original_names: Annotated[bool, typer.Option("--original-names", help="With --to: the producer's file names.")] = False,
    once: Annotated[bool, typer.Option("--once", help="End when nothing is left.")] = False,
    workers: Annotated[int, typer.Option(metavar="N", min=1, max=64, help="Workers, each with its own connection.")] = 1,
    ordering: Annotated[Ordering, typer.Option(help="In which order items are taken.")] = Ordering.SHUFFLE,
    max_attempts: Annotated[int, typer.Option(metavar="N", min=1, help="After so many an item becomes an error image.")] = 5,
    poll: Annotated[float, typer.Option(metavar="SECONDS", min=0.05, help="Between two looks at an idle drop.")] = 1.0,
    ttl: Annotated[
        float,
        typer.Option(metavar="SECONDS", min=SHORTEST_TTL, help="So long after a worker's death others take its items over."),
    ] = DEFAULT_TTL,
    gap_timeout: Annotated[
        float, typer.Option(metavar="SECONDS", min=0, help="With strict: how long a missing number is waited for.")
    ] = 300.0,
    on_gap: Annotated[OnGap, typer.Option(help="With strict: go on waiting, or skip what is missing.")] = OnGap.ALERT,
    on_error: Annotated[OnError, typer.Option(help="With strict: an error image stops its group or not.")] = OnError.STOP,
    ledger: LedgerOption = None,
    consumer_name: ConsumerOption = None,
    layout: LayoutOption = None,
    signal: SignalOption = None,
    width: Width = None,
    host_key: HostKey = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Take items of a group out of DROP.

    Each is claimed, verified, delivered, and kept in DROP as an after image.
    """
    with failures_end_well(), interrupted_by_sigterm():
        if (to is None) == (command is None):
            raise ConfigurationError("say where items go: either --to DIR or --exec 'COMMAND {}'")
        if original_names and to is None:
            raise ConfigurationError("--original-names goes with --to")
        if ordering is Ordering.STRICT and workers != 1:
            raise ConfigurationError("--ordering strict takes one item at a time; leave --workers out")
        source = open_drop(drop, config, host_key, layout=layout, signal=signal, width=width)
        with contextlib.ExitStack() as stack:
            interrupted = threading.Event()
            advance, show = stack.enter_context(receiving())
            tally = _Tally(source, show, as_json)

            heartbeat = stack.enter_context(source.heartbeat(ttl))
            opened = stack.enter_context(open_ledger_of(source, ledger, consumer_name, config))

            def consumer() -> Consumer:
                handler = _handler(stack, to, command, interruptible(advance, interrupted), original_names=original_names)
                return stack.enter_context(
                    source.consumer(
                        tuple(group),
                        handler,
                        tally,
                        ledger=opened,
                        heartbeat=heartbeat,
                        notice=lambda text: warn(f"dropgate: {text}"),
                        ordering=ordering,
                        strictness=Strictness(gap_timeout, on_gap, on_error),
                        max_attempts=max_attempts,
                        once=once,
                    )
                )

            # Until all are connected nothing is claimed, and a signal may end everything at once.
            consumers = [consumer() for _ in range(workers)]
            stop = stack.enter_context(stop_on_signals())
            loop = Loop(stop, source.clock, lambda error: warn(f"dropgate: trying again soon: {error}"), poll)
            one = loop.run_once if once else loop.run
            failures = run_all([partial(one, consumer) for consumer in consumers], stop, interrupted)
        for failure in failures:
            if not isinstance(failure, DeliveryFailed):
                raise failure
            tally.worst = max(tally.worst, exit_code(failure))
        raise typer.Exit(tally.worst if once else DONE)


def _handler(
    stack: contextlib.ExitStack, to: Path | None, command: str | None, advance: Progress, *, original_names: bool
) -> Handler:
    if to is None:
        words = split_command(command or "")
        if shutil.which(words[0]) is None:
            # Told before anything is claimed for it.
            raise ConfigurationError(f"the command {words[0]!r} cannot be run: there is no such program on the PATH")
        return ToCommand(words, advance)
    try:
        folder = connect(Endpoint(parse_url(str((to.expanduser() if to.parts[:1] == ("~",) else to).absolute()))))
    except NotFound as error:
        raise ConfigurationError(f"--to {to}: there is no such folder; make it first") from error
    return ToFolder(stack.enter_context(folder), original_names, advance)
