"""`dropgate log`: what became of each item, as the service's journal tells it, or as a ledger remembers it."""

import re
import time
from collections import deque
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any

import typer

from gateway.cli.common import failures_end_well, open_drop, say, say_json, warn
from gateway.cli.ledgers import ConsumerOption, LedgerOption, open_ledger_of
from gateway.cli.options import Config, Json, LayoutName, LayoutOption, SignalOption, Width
from gateway.cli.replay import item_of
from gateway.errors import ConfigurationError
from gateway.handoff.ledger.base import Event
from gateway.ledgers import default_ledger
from gateway.service.journal import Wanted, default_journal, read_journal, tail_journal
from gateway.service.journal_table import read_table
from gateway.service.transitions import Transition
from gateway.settings import Settings, find_file, load
from gateway.times import span
from protocol.ledger import Ended
from protocol.names import DEFAULT_WIDTH, Grammar, Name
from protocol.rules import Rules, Signal

_LOOK = 0.25  # seconds between two looks of --follow
_FIRST = 10  # steps that --follow begins with, as `tail -f` does
_TIME = re.compile(r"\d{4}(-\d\d(-\d\d([T ]\d\d:\d\d(:\d\d(\.\d{1,6})?)?(Z|[+-]\d\d:\d\d)?)?)?)?", re.ASCII)


def log(
    drop: Annotated[
        str | None,
        typer.Argument(
            metavar="[DROP]",
            help="Only what came from this drop of the configuration, or went to it. With a ledger, the drop it is about: a "
            "name, a URL, or a path.",
            show_default=False,
        ),
    ] = None,
    item: Annotated[
        str | None, typer.Option(metavar="NAME", help="Only this item, such as orders_0000000042.", show_default=False)
    ] = None,
    key: Annotated[str | None, typer.Option(help="Only this idempotency key.", show_default=False)] = None,
    route: Annotated[
        str | None, typer.Option(metavar="NAME", help="Only this route: its name, or 'from -> to'.", show_default=False)
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Only from here on: 90s, 2h, 1d ago, or 2026-11-30 (UTC).", show_default=False),
    ] = None,
    last: Annotated[int | None, typer.Option(metavar="N", min=1, help="Only the last so many.", show_default=False)] = None,
    follow: Annotated[bool, typer.Option("--follow", help="Go on with what happens from now on, until Ctrl-C.")] = False,
    database: Annotated[
        bool, typer.Option("--database", help="Read the journal in the ledger's database, and not the file.")
    ] = False,
    history: Annotated[
        bool, typer.Option("--history", help="Ask the ledger of DROP and not the journal. So do --ledger and --consumer.")
    ] = False,
    ledger: LedgerOption = None,
    consumer: ConsumerOption = None,
    layout: LayoutOption = None,
    signal: SignalOption = None,
    width: Width = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Tell the story of items, oldest first.

    Without a ledger: every step in the journal of the configuration's service. With --history, --ledger or --consumer, and for
    a DROP that is a URL or a path: when each run was begun, by whom, and how it ended, as the ledger remembers. No server is
    asked but that of a database.
    """
    with failures_end_well():
        begin = None if since is None else since_text(since, datetime.now(UTC))
        if history or ledger is not None or consumer is not None or _is_place(drop):
            _refuse("belong to the journal, and a ledger is asked here", route=route, follow=follow, database=database)
            if drop is None:
                raise ConfigurationError("a ledger is asked about one DROP: name it")
            _tell_history(drop, item, key, begin, last, ledger, consumer, layout, signal, width, config, as_json=as_json)
            return
        _refuse("belong to a DROP that is a URL or a path", layout=layout, signal=signal, width=width)
        path = find_file(config)
        settings = load(path)
        if drop is not None and drop not in settings.drop:
            known = ", ".join(sorted(settings.drop)) or "none"
            raise ConfigurationError(
                f"{drop!r} is no drop of the configuration: {path or 'the environment'} has {known}. "
                f"For a folder here, write ./{drop}"
            )
        wanted = Wanted(None if item is None else _title(settings, drop, item), route, begin, drop, key)
        try:
            for one in _steps(settings, wanted, last, follow=follow, database=database):
                if as_json:
                    say_json(one.as_record())
                else:
                    say(_line(one))
        except KeyboardInterrupt:
            if not follow:  # which one ends so
                raise


def since_text(text: str, now: datetime) -> str:
    """The time that --since means, as times are written in a journal: so many characters of it as were given.

    Raises ConfigurationError.
    """
    try:
        then = now - timedelta(seconds=span(text))
    except (ValueError, OverflowError):
        pass
    else:
        return _utc(then)
    if not _TIME.fullmatch(text):
        raise ConfigurationError(f"--since {text!r} is no time; write 90s, 15m, 2h, 1d, 2026-11-30 or 2026-11-30T10:00")
    if len(text) <= len("2026-11-30"):
        return text
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ConfigurationError(f"--since {text!r} is no time: there is no such day or hour") from None
    return text.replace(" ", "T") if moment.tzinfo is None else _utc(moment)


def _utc(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def _is_place(drop: str | None) -> bool:
    return drop is not None and ("/" in drop or drop.startswith((".", "~")))


def _refuse(why: str, **given: object) -> None:
    if chosen := [f"--{name}" for name, value in given.items() if value]:
        raise ConfigurationError(f"{', '.join(chosen)}: {why}")


def _title(settings: Settings, drop: str | None, text: str) -> str:
    """An item as the journal calls it, of its title or the name of one of its files."""
    widths = [settings.drop[drop].width] if drop is not None else [d.width for d in settings.drop.values()]
    name = text.rpartition("/")[2]
    for width in dict.fromkeys((*widths, DEFAULT_WIDTH)):
        grammar = Grammar(width)
        for candidate in (name, f"{name}.x"):
            parsed = grammar.parse(candidate)
            if isinstance(parsed, Name):
                return parsed.item.group + grammar.digits(parsed.item.number)
    raise ConfigurationError(
        f"{text!r} is no item; an item is called like orders_{Grammar(widths[0] if widths else 10).digits(42)}"
    )


def _steps(settings: Settings, wanted: Wanted, last: int | None, *, follow: bool, database: bool) -> Iterable[Transition]:
    if database:
        if follow:
            raise ConfigurationError("--follow reads the file; leave --database out")
        url = settings.ledger.url
        return read_table(url.get_secret_value() if url is not None else default_ledger(), wanted, last)
    configured = settings.journal.file
    file = default_journal() if configured is None else settings.resolved(configured)
    _see(file)
    if not follow:
        return read_journal(file, wanted, last)
    if last is None and wanted.since is None and wanted.item is None and wanted.key is None:
        last = _FIRST
    return _followed(file, wanted, last)


def _see(file: Path) -> None:
    if not file.exists():
        warn(
            f"dropgate: there is no journal {file} yet; `dropgate run` writes it, and [journal] of the configuration says where"
        )


def _followed(file: Path, wanted: Wanted, last: int | None) -> Iterable[Transition]:
    def wait() -> bool:
        time.sleep(_LOOK)
        return True

    return tail_journal(file, wanted, last, wait=wait)


def _line(one: Transition) -> str:
    facts = [
        f"to {one.destination}" if one.destination else "",
        f"attempt {one.attempt}" if one.attempt > 1 else "",
        f"{one.bytes} bytes" if one.bytes is not None else "",
        f"{one.seconds:.1f} s old" if one.seconds is not None else "",
        f"by {one.owner}" if one.owner else "",
        one.text,
    ]
    return "  ".join([one.at, f"{one.item:20}", f"{one.what.value:12}", one.route, *filter(None, facts)])


def _tell_history(
    drop: str,
    item: str | None,
    key: str | None,
    since: str | None,
    last: int | None,
    ledger: str | None,
    consumer: str | None,
    layout: LayoutName | None,
    signal: Signal | None,
    width: int | None,
    config: Path | None,
    *,
    as_json: bool,
) -> None:
    source = open_drop(drop, config, layout=layout, signal=signal, width=width)
    wanted = item_of(source.rules, item) if item is not None else None
    with open_ledger_of(source, ledger, consumer, config) as opened:
        events: Iterable[Event] = opened.history(wanted, key, since)
        for event in events if last is None else deque(events, last):
            if as_json:
                say_json(_fields(source.rules, event))
            else:
                entry = event.entry
                title, word = _item(source.rules, event), _word(event)
                attempt = f"attempt {entry.attempts}{' of a replay' if entry.replayed else ''}"
                say(f"{event.at}  {title}  {word:9} {attempt}  {entry.owner}  {entry.result}".rstrip())


def _item(rules: Rules, event: Event) -> str:
    return event.entry.item.group + rules.grammar.digits(event.entry.item.number)


def _word(event: Event) -> str:
    return event.entry.ended.value if event.entry.ended is not Ended.OPEN else event.entry.state.value


def _fields(rules: Rules, event: Event) -> dict[str, Any]:
    entry = event.entry
    fields = {
        "at": event.at,
        "item": _item(rules, event),
        "key": event.key,
        "event": _word(event),
        "attempt": entry.attempts,
        "generation": entry.generation,
        "owner": entry.owner,
        "hash": entry.hash,
        "result": entry.result,
        "replayed": entry.replayed,
    }
    return {name: value for name, value in fields.items() if value != ""}
