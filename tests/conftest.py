"""The fixtures of every test: real servers, started on first use."""

pytest_plugins = ["testenv.fixtures", "testenv.ledger_fixtures", "tests.crash.harm"]
