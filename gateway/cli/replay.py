"""`dropgate replay`: asks for items again."""

from typing import Annotated

import typer

from gateway.cli.common import DONE, SOME_FAILED, complain, failures_end_well, open_drop, say, say_json
from gateway.cli.ledgers import ConsumerOption, LedgerOption, open_ledger_of
from gateway.cli.options import Config, DropArgument, HostKey, Json, LayoutOption, SignalOption, Width
from gateway.errors import ConfigurationError
from protocol.errors import Anomaly
from protocol.names import ItemId, Name
from protocol.procedures.replay import replay as replay_item
from protocol.rules import Rules


def replay(
    drop: DropArgument,
    names: Annotated[
        list[str], typer.Argument(metavar="NAME", help="Items, such as orders_0000000042, or any file of theirs.")
    ],
    ledger: LedgerOption = None,
    consumer: ConsumerOption = None,
    layout: LayoutOption = None,
    signal: SignalOption = None,
    width: Width = None,
    host_key: HostKey = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Have items of DROP processed again.

    Their after or error images are renamed back to ready, and their handler is told.
    """
    with failures_end_well():
        source = open_drop(drop, config, host_key, layout=layout, signal=signal, width=width)
        items = [item_of(source.rules, name) for name in names]
        worst = DONE
        with open_ledger_of(source, ledger, consumer, config) as opened, source.driver(opened) as driver:
            for item in items:
                try:
                    moved = driver.run(replay_item(source.rules, item))
                except Anomaly as error:
                    complain(error)
                    worst = SOME_FAILED
                    continue
                title = item.group + source.rules.grammar.digits(item.number)
                if as_json:
                    say_json({"item": title, "names": list(moved)})
                else:
                    say(f"{title}  ready again: {', '.join(moved)}")
        raise typer.Exit(worst)


def item_of(rules: Rules, text: str) -> ItemId:
    """An item by its title or by the name of one of its files, in any state and without its folder."""
    last = text.rpartition("/")[2]
    for candidate in (last, f"{last}.x"):
        parsed = rules.grammar.parse(candidate)
        if isinstance(parsed, Name):
            return parsed.item
    raise ConfigurationError(f"{text!r} is no item of this drop; an item is called like orders_{rules.grammar.digits(42)}")
