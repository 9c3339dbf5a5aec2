"""The pytest plug-in of the ledgers' tests: a PostgreSQL server, started on first use, and named at the end of the run."""

from collections.abc import Iterator
from typing import Any

import pytest

from testenv.postgres import NoPostgres, Postgres

_USED = pytest.StashKey[list[str]]()
_WORKER_KEY = "dropgate_databases"  # in what an xdist worker tells its controller


def pytest_configure(config: pytest.Config) -> None:
    """Makes room for what is told at the end."""
    config.stash[_USED] = []


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Tells the controller of a worker which servers it used."""
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        output[_WORKER_KEY] = session.config.stash[_USED]


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    """Takes what a worker used."""
    del error
    node.config.stash[_USED].extend(getattr(node, "workeroutput", {}).get(_WORKER_KEY, []))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Says which databases the tests ran against."""
    used = terminalreporter.config.stash[_USED]
    if used:
        terminalreporter.section("databases")
        for line in sorted(used):
            terminalreporter.write_line(line)


@pytest.fixture(scope="session")
def postgres(pytestconfig: pytest.Config) -> Iterator[Postgres]:
    """A real PostgreSQL server of this test process."""
    try:
        server = Postgres()
    except NoPostgres as error:
        pytestconfig.stash[_USED].append(f"postgresql NOT AVAILABLE: {str(error).splitlines()[0]}")
        pytest.fail(f"the PostgreSQL test server is not available: {error}", pytrace=False)
    pytestconfig.stash[_USED].append(f"{server.version}, process, 127.0.0.1:{server.port}")
    yield server
    server.close()
