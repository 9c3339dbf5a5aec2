"""`dropgate log`: what became of each item, as the ledger remembers it."""

from typing import Annotated

import typer

from gateway.cli.common import failures_end_well, open_drop, say, say_json
from gateway.cli.ledgers import ConsumerOption, LedgerOption, open_ledger_of
from gateway.cli.options import Config, DropArgument, Json, LayoutOption, SignalOption, Width
from gateway.cli.replay import item_of
from protocol.ledger import Ended


def log(
    drop: DropArgument,
    item: Annotated[str | None, typer.Option(metavar="NAME", help="Only this item, such as orders_0000000042.")] = None,
    key: Annotated[str | None, typer.Option(help="Only this idempotency key.")] = None,
    since: Annotated[str | None, typer.Option(metavar="TIME", help="Only from this time (UTC) on, such as 2026-11-30.")] = None,
    ledger: LedgerOption = None,
    consumer: ConsumerOption = None,
    layout: LayoutOption = None,
    signal: SignalOption = None,
    width: Width = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Tell the story of DROP's items.

    Oldest first: when each was begun, by whom, how it ended. Only the ledger is asked, not the server.
    """
    with failures_end_well():
        source = open_drop(drop, config, layout=layout, signal=signal, width=width)
        wanted = item_of(source.rules, item) if item is not None else None
        with open_ledger_of(source, ledger, consumer, config) as opened:
            for event in opened.history(wanted, key, since):
                entry = event.entry
                title = entry.item.group + source.rules.grammar.digits(entry.item.number)
                word = entry.ended.value if entry.ended is not Ended.OPEN else entry.state.value
                if as_json:
                    fields = {
                        "at": event.at,
                        "item": title,
                        "key": event.key,
                        "event": word,
                        "attempt": entry.attempts,
                        "generation": entry.generation,
                        "owner": entry.owner,
                        "hash": entry.hash,
                        "result": entry.result,
                    }
                    say_json({name: value for name, value in fields.items() if value != ""})
                else:
                    say(f"{event.at}  {title}  {word:9} attempt {entry.attempts}  {entry.owner}  {entry.result}".rstrip())
