"""The fixtures of every test: real servers, started on first use."""

import signal

pytest_plugins = ["testenv.fixtures", "testenv.ledger_fixtures", "tests.crash.harm"]


def pytest_configure() -> None:
    # Started in the background of a script, a process ignores Ctrl-C, and so would all that it starts: the tests of what
    # Ctrl-C does would wait for ever.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
