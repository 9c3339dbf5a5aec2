"""`dropgate sweep`: heals a drop once."""

from typing import Annotated

import typer

from gateway.cli.common import DONE, SOME_FAILED, failures_end_well, open_drop, say, say_json
from gateway.cli.ledgers import ConsumerOption, LedgerOption, open_ledger_of
from gateway.cli.options import Config, DropArgument, HostKey, Json, LayoutOption, SignalOption, Width
from gateway.drop import Drop
from gateway.errors import ConfigurationError
from gateway.handoff.owner import new_owner
from gateway.handoff.sweeper import Sweeper
from protocol.names import ItemId, Name
from protocol.procedures.sweep import Unwanted
from protocol.recovery import Action, Ages, Tell

_HOUR = 3600.0


def sweep(
    drop: DropArgument,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only tell what would be done.")] = False,
    before_max_age: Annotated[
        float, typer.Option(metavar="HOURS", min=0, help="Unfinished files that are older are told of.")
    ] = 24.0,
    ready_max_age: Annotated[
        float | None, typer.Option(metavar="HOURS", min=0, help="Ready items that are older are told of.", show_default=False)
    ] = None,
    archive_after: Annotated[
        float | None, typer.Option(metavar="HOURS", min=0, help="After images that are older are archived.", show_default=False)
    ] = None,
    keep: Annotated[
        int | None, typer.Option(metavar="N", min=0, help="So many after images of a group stay.", show_default=False)
    ] = None,
    delete: Annotated[bool, typer.Option("--delete", help="Delete unfinished files that are too old.")] = False,
    quarantine: Annotated[bool, typer.Option("--quarantine", help="Move them into the folder quarantine.")] = False,
    ledger: LedgerOption = None,
    consumer: ConsumerOption = None,
    layout: LayoutOption = None,
    signal: SignalOption = None,
    width: Width = None,
    host_key: HostKey = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Heal DROP, once.

    What dead workers left is finished or given back, what is half put away is put away, and the rest is told.
    """
    with failures_end_well():
        if delete and quarantine:
            raise ConfigurationError("--delete and --quarantine exclude each other")
        source = open_drop(drop, config, host_key, layout=layout, signal=signal, width=width)
        ages = Ages(
            before_max_age * _HOUR,
            None if ready_max_age is None else ready_max_age * _HOUR,
            None if archive_after is None else archive_after * _HOUR,
            keep,
        )
        unwanted = Unwanted.DELETE if delete else Unwanted.QUARANTINE if quarantine else Unwanted.REPORT
        worst = DONE
        with open_ledger_of(source, ledger, consumer, config) as opened, source.driver(opened) as driver:
            sweeper = Sweeper(driver, source.rules, new_owner(source.clock), ages, unwanted)
            actions = sweeper.plan()
            if dry_run:
                for action in actions:
                    _tell(source, action, None, action.text if isinstance(action, Tell) else "would be done", as_json=as_json)
            else:
                for swept in sweeper.sweep(actions):
                    _tell(source, swept.action, swept.done, swept.text, as_json=as_json)
                    if not swept.done:
                        worst = SOME_FAILED
        raise typer.Exit(worst)


def _tell(drop: Drop, action: Action, done: bool | None, text: str, *, as_json: bool) -> None:
    what = _words(type(action).__name__)
    about = _about(drop, action)
    if as_json:
        fields = {"action": what, "about": about, "done": done, "text": text}
        say_json({key: value for key, value in fields.items() if value is not None})
    else:
        mark = {True: "done", False: "left", None: "plan"}[done]
        say(f"{mark}  {what:16}  {about}: {text}")


def _words(name: str) -> str:
    return "".join(f" {c.lower()}" if c.isupper() else c for c in name).strip()


def _about(drop: Drop, action: Action) -> str:
    for value in (getattr(action, field) for field in action.__dataclass_fields__):
        if isinstance(value, Name):
            return drop.rules.layout.path(value)
        if isinstance(value, ItemId):
            return value.group + drop.rules.grammar.digits(value.number)
        if isinstance(value, str):
            return value
    return ""
