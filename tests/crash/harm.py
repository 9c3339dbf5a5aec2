"""The pytest plug-in that counts the harm done by the crash tests, and tells it at the end of the run."""

from collections import Counter
from typing import Any

import pytest

_DONE = pytest.StashKey[Counter[str]]()
_WORKER_KEY = "dropgate_harm"  # in what an xdist worker tells its controller


def pytest_configure(config: pytest.Config) -> None:
    """Makes room for what is counted."""
    config.stash[_DONE] = Counter[str]()


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Tells the controller of a worker what was done."""
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        done: Counter[str] = session.config.stash[_DONE]
        output[_WORKER_KEY] = dict(done)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    """Takes what a worker has counted."""
    del error
    node.config.stash[_DONE].update(getattr(node, "workeroutput", {}).get(_WORKER_KEY, {}))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Says what was done, in one line."""
    done = terminalreporter.config.stash[_DONE]
    if done:
        terminalreporter.section("crashes")
        terminalreporter.write_line(", ".join(f"{kind} {done[kind]}" for kind in sorted(done)))


@pytest.fixture(scope="session")
def harm(pytestconfig: pytest.Config) -> Counter[str]:
    """What is done to processes, connections and servers: count it by kind."""
    return pytestconfig.stash[_DONE]
