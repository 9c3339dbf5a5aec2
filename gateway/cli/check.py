"""`dropgate check`: whether a configuration can be used, and what is wrong with it, before it is used."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from gateway.cli.common import DONE, ENDPOINT, USAGE, failures_end_well, say, say_json
from gateway.cli.options import Json
from gateway.cli.probing import Answer, Job, ask_all, drop_job, endpoint_job, ledger_job
from gateway.cli.signals import interrupted_by_sigterm
from gateway.doubts import doubts, missing_extras, unusable_files
from gateway.errors import ConfigurationError
from gateway.faults import Fault, FaultyConfiguration
from gateway.handoff.ledger.open import is_database, open_ledger
from gateway.settings import Settings, find_file, load
from gateway.times import span
from gateway.toml_text import NotToml, line_of, read
from transports.base import Capabilities

_MIB = 1024 * 1024


def check(
    config: Annotated[
        Path | None,
        typer.Argument(
            metavar="CONFIG",
            readable=False,  # told by ourselves, as everything else that can be wrong with it
            help="The configuration; else DROPGATE_CONFIG, ./dropgate.toml, the user's, the system's.",
            show_default=False,
        ),
    ] = None,
    connect: Annotated[
        bool, typer.Option("--connect", help="Log in to every endpoint and try every drop; nothing stays in them.")
    ] = False,
    within: Annotated[
        float, typer.Option("--within", metavar="SECONDS", min=1, help="With --connect: how long all of it may take.")
    ] = 60.0,
    as_json: Json = False,
) -> None:
    """Tell everything that is wrong with CONFIG, each with its line, its key and what would be right.

    Exit 0: it can be used. 2: it cannot. 3: with --connect, an endpoint or a drop cannot be used.
    """
    with failures_end_well(), interrupted_by_sigterm():
        file = find_file(config)
        if file is None:
            raise ConfigurationError("there is no configuration file; name one, or make one: dropgate init")
        report = _Report(file, as_json=as_json)
        settings = report.loaded()
        if settings is None:
            raise typer.Exit(report.ended(None))
        report.tell_all("warning", doubts(settings, file))
        if connect:
            report.connected(settings, within)
        raise typer.Exit(report.ended(settings))


class _Report:
    """What is told of one file, line by line, and how often which kind of it."""

    def __init__(self, file: Path, *, as_json: bool) -> None:
        self._file = file
        self._as_json = as_json
        self._count = {"error": 0, "warning": 0, "failed": 0, "ok": 0}

    def loaded(self) -> Settings | None:
        """The settings; None where there are errors, which are told."""
        try:
            settings = load(self._file)
        except NotToml as error:
            self.tell("error", Fault((), error.reason, "syntax", error.line, error.column, error.shown))
        except FaultyConfiguration as error:
            self.tell_all("error", error.faults)
        except ConfigurationError as error:
            self.tell("error", Fault((), str(error)))
        else:
            faults = [*missing_extras(settings), *unusable_files(settings), *_ledger_faults(settings)]
            self.tell_all("error", faults)
            return None if faults else settings
        return None

    def tell_all(self, level: str, faults: Sequence[Fault]) -> None:
        """Faults or doubts, in the order of the file; first those that no line is known of."""
        placed = [fault if fault.line is not None else replace(fault, line=self._line_of(fault)) for fault in faults]
        for fault in sorted(placed, key=lambda fault: fault.line or 0):
            self.tell(level, fault)

    def tell(self, level: str, fault: Fault) -> None:
        """One fault or doubt."""
        self._count[level] += 1
        if self._as_json:
            facts = {"key": fault.name, "line": fault.line, "column": fault.column, "shown": fault.shown}
            say_json({"level": level, **{k: v for k, v in facts.items() if v not in (None, "")}, "text": fault.text})
            return
        place = (
            "" if fault.line is None else f"line {fault.line}" + ("" if fault.column is None else f", column {fault.column}")
        )
        say(f"{level:8} {place + ': ' if place else ''}{fault}")
        if fault.shown is not None:
            say(f"{'':8} {fault.line} | {fault.shown}")

    def _line_of(self, fault: Fault) -> int | None:
        if not fault.key or fault.text.endswith("(the environment sets it)"):
            return None
        try:
            lines = read(self._file).lines()
        except ConfigurationError:
            return None
        return line_of(fault.key, lines)

    def connected(self, settings: Settings, within: float) -> None:
        """Asks every endpoint and drop, and tells what each answers."""
        jobs = [drop_job(f"drop.{name}", settings.open_drop(name), _groups(settings, name)) for name in settings.drop]
        used = {drop.endpoint for drop in settings.drop.values()}
        jobs += [endpoint_job(f"endpoint.{n}", settings.open_endpoint(n)) for n in settings.endpoint if n not in used]
        url = settings.ledger.url.get_secret_value() if settings.ledger.url is not None else ""
        if url.lower().startswith("postgresql:"):
            jobs.append(ledger_job(url))
        for job, answer in ask_all(jobs, within, time.monotonic):
            level = "failed" if answer.trouble else "ok"
            self._count[level] += 1
            if self._as_json:
                say_json({"level": level, "key": job.name, "place": job.place, **_as_object(answer)})
            else:
                _show(level, job, answer)
            for text in _limits(answer, settings):
                self.tell("warning", Fault(tuple(job.name.split(".", 1)), text))

    def ended(self, settings: Settings | None) -> int:
        """The last line, and the exit code."""
        count = self._count
        if not self._as_json:
            parts = [f"{n} {word}{'s' if n != 1 else ''}" for word in ("error", "warning") if (n := count[word])]
            if settings is None:
                say(f"{self._file} cannot be used: {', '.join(parts)}")
            else:
                sizes = {"endpoint": len(settings.endpoint), "drop": len(settings.drop), "route": len(settings.route)}
                whole = [f"{size} {word}{'s' if size != 1 else ''}" for word, size in sizes.items()]
                asked = (
                    [f"{count['failed']} of {count['failed'] + count['ok']} places cannot be used"] if count["failed"] else []
                )
                say(f"{self._file} {'is right' if not asked else 'can be loaded'}: {', '.join([*whole, *asked, *parts])}")
        return USAGE if settings is None else ENDPOINT if count["failed"] else DONE


def _ledger_faults(settings: Settings) -> list[Fault]:
    url = settings.ledger.url.get_secret_value() if settings.ledger.url is not None else "memory:"
    try:
        # Those that are whole would be made here; a name that is no ledger's is refused before anything is made.
        if not is_database(url) and not url.lower().startswith("journal:"):
            open_ledger(url, "check").close()
    except ConfigurationError as error:
        return [Fault(("ledger", "url"), str(error))]
    return []


def _groups(settings: Settings, name: str) -> list[str]:
    """The groups that the drop has by itself, and that routes bring to it or take from it."""
    groups = list(settings.drop[name].groups)
    for route in settings.route:
        if name in (route.from_, *route.to):
            groups += route.groups or settings.drop[route.from_].groups
    return list(dict.fromkeys(groups))


def _show(level: str, job: Job, answer: Answer) -> None:
    if answer.trouble:
        say(f"{level:8} {job.name}  {job.place}: {answer.trouble}")
        return
    facts = answer.capabilities
    parts = [] if facts is None else [facts.server]
    if answer.clock_offset is not None:
        parts.append(f"clock {answer.clock_offset:+.1f} s")
    if answer.free_space is not None:
        parts.append(f"{answer.free_space / _MIB:,.0f} MiB free")
    if answer.missing:
        parts.append(f"the first use makes {', '.join(answer.missing)}")
    say(f"{level:8} {job.name}  {job.place}  {'; '.join(parts)}")
    for step, fact in _guarantees(facts).items():
        words = {"atomic": "yes", "checked": "partly", "none": "no"} if step == "durable" else {}
        say(f"{'':8}   {step:8} {words.get(fact['guarantee'], fact['guarantee']):8} {fact['evidence']}")


def _guarantees(facts: Capabilities | None) -> dict[str, dict[str, str]]:
    if facts is None:
        return {}
    steps = ("create", "publish", "claim", "replace", "durable")
    found = {step: getattr(facts, step) for step in steps}
    return {step: {"guarantee": fact.guarantee.value, "evidence": fact.evidence} for step, fact in found.items()}


def _as_object(answer: Answer) -> Mapping[str, Any]:
    if answer.trouble:
        return {"text": answer.trouble}
    facts: dict[str, Any] = {} if answer.capabilities is None else {"server": answer.capabilities.server}
    facts["clock_offset"], facts["free_space"] = answer.clock_offset, answer.free_space
    facts["missing"] = list(answer.missing)
    return {**{k: v for k, v in facts.items() if v not in (None, [])}, "guarantees": _guarantees(answer.capabilities)}


def _limits(answer: Answer, settings: Settings) -> list[str]:
    """What works, and what an alarm would be raised for at once."""
    found, alarms = [], settings.alarms
    limit = span(alarms.clock_offset)
    if answer.clock_offset is not None and limit and abs(answer.clock_offset) > limit:
        found.append(
            f"the server's clock is {abs(answer.clock_offset):.0f} s {'ahead of' if answer.clock_offset > 0 else 'behind'} ours"
        )
    if answer.free_space is not None and answer.free_space < alarms.free_mib * _MIB:
        found.append(f"only {answer.free_space / _MIB:,.0f} MiB are free")
    return found
