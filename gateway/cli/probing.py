"""What `dropgate check --connect` finds out: each endpoint logged in to, each drop tried, side by side and bounded in time."""

import datetime
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from gateway.drop import Drop
from gateway.errors import GatewayError
from gateway.handoff.connection import Connection, Patience
from gateway.handoff.driver import Driver
from gateway.handoff.ledger.open import open_database
from gateway.handoff.owner import new_owner
from gateway.handoff.probe import check_groups, probe
from protocol.errors import ProtocolError
from protocol.layout import PrefixLayout
from protocol.procedures import look
from transports.base import Capabilities, Kind, Transport
from transports.connect import connect
from transports.endpoint import Endpoint
from transports.errors import TransportError, Unreachable

_AT_ONCE = 4  # logins at one host: a crowd of them looks like an attack to a server


@dataclass(frozen=True, slots=True)
class Answer:
    """What an endpoint or a drop answered. `trouble` says what is wrong and what to do, "" where nothing is.

    `clock_offset` is the server's clock less ours, in seconds; `free_space` is in bytes. `missing` are folders of the layout
    that are not there yet.
    """

    trouble: str = ""
    capabilities: Capabilities | None = None
    clock_offset: float | None = None
    free_space: int | None = None
    missing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Job:
    """Something to be asked: its name, its place without a secret, its host, and how it is asked."""

    name: str
    place: str
    host: tuple[str, str, int | None]
    ask: Callable[[], Answer]


def drop_job(name: str, drop: Drop, groups: Sequence[str]) -> Job:
    """A drop, which is tried with a scratch file. Nothing of it stays."""
    return Job(name, str(drop), _host(drop.endpoint), lambda: _ask_drop(drop, tuple(groups)))


def endpoint_job(name: str, endpoint: Endpoint) -> Job:
    """An endpoint that no drop uses, which is logged in to."""

    def ask() -> Answer:
        with connect(endpoint) as transport:
            return Answer("", transport.capabilities)

    return Job(name, str(endpoint.location), _host(endpoint), ask)


def ledger_job(url: str) -> Job:
    """A ledger's server, which is logged in to; its tables are neither looked at nor made."""
    from sqlalchemy.exc import SQLAlchemyError  # which takes a while to import

    from gateway.handoff.ledger.engines import reason_of

    database = open_database(url)

    def ask() -> Answer:
        try:
            with database.reads.connect() as connection:
                connection.exec_driver_sql("SELECT 1")
        except SQLAlchemyError as error:
            return Answer(f"{reason_of(error)}; {database.advice}")
        return Answer()

    return Job("ledger", database.name, ("postgresql", database.name, None), ask)


def ask_all(jobs: Sequence[Job], within: float, monotonic: Callable[[], float]) -> Iterator[tuple[Job, Answer]]:
    """The answers, in the order of the jobs; who has not answered `within` seconds has not answered at all."""
    hosts = {job.host: threading.Semaphore(_AT_ONCE) for job in jobs}
    answers: dict[int, Answer] = {}
    answered = threading.Condition()

    def run(number: int, job: Job) -> None:
        with hosts[job.host]:
            answer = _answer(job)
        with answered:
            answers[number] = answer
            answered.notify()

    deadline = monotonic() + within
    for number, job in enumerate(jobs):
        # A daemon: one that hangs in a call must not keep the command from ending.
        threading.Thread(target=run, args=(number, job), daemon=True).start()
    for number, job in enumerate(jobs):
        with answered:
            while number not in answers and (left := deadline - monotonic()) > 0:
                answered.wait(left)
            yield (
                job,
                answers.get(number) or Answer(f"no answer within {within:g} s; a firewall may swallow it, or the server hangs"),
            )


def _answer(job: Job) -> Answer:
    try:
        return job.ask()
    except (GatewayError, ProtocolError, TransportError, OSError) as error:
        advice = ["is the server running, and are address, port and firewall right?"] if isinstance(error, Unreachable) else []
        return Answer("; ".join([str(error), *getattr(error, "__notes__", ()), *advice]))


def _ask_drop(drop: Drop, groups: tuple[str, ...]) -> Answer:
    clock, rules = drop.clock, drop.rules
    # Not its circuit: that is for those who come back, and here each is asked once.
    with Connection(lambda: connect(drop.endpoint), clock, Patience(attempts=1)) as connection:
        transport = connection.use()
        missing = tuple(folder for folder in rules.layout.folders if not _is_there(transport, folder))
        # To make the folders, as a first use does, would leave something behind.
        tried = replace(rules, layout=PrefixLayout(rules.grammar)) if missing else rules
        probe(connection, tried, new_owner(clock), groups)
        check_groups(Driver(connection, clock).run(look.snapshot(tried)), groups)
        before = _now(clock.utc())
        server = transport.server_time()
        offset = server - (before + _now(clock.utc())) / 2
        return Answer("", transport.capabilities, offset, transport.free_space(), missing)


def _is_there(transport: Transport, folder: str) -> bool:
    return any(entry.name == folder and entry.kind is Kind.FOLDER for entry in transport.scan("", folder))


def _now(utc: str) -> float:
    return datetime.datetime.fromisoformat(utc).timestamp()


def _host(endpoint: Endpoint) -> tuple[str, str, int | None]:
    return endpoint.location.scheme, endpoint.location.host, endpoint.location.port
