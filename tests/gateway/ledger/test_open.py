"""One URL says where a ledger is; what cannot be one is refused with what would be right, and without what was given."""

import sys
from contextlib import closing
from pathlib import Path

import pytest

from gateway.errors import ConfigurationError
from gateway.handoff.ledger.errors import LedgerUnavailable
from gateway.handoff.ledger.memory import MemoryLedger
from gateway.handoff.ledger.open import open_ledger
from testenv.postgres import Postgres
from tests.gateway.ledger.places import TEAM, entry, shown_secrets
from transports.local.volume import Volume

SECRET = "pa55word"


@pytest.mark.parametrize("url", ["memory:", "memory://", "MEMORY:"])
def test_memory_is_this_process(url: str) -> None:
    with closing(open_ledger(url, TEAM)) as ledger:
        assert isinstance(ledger, MemoryLedger)


@pytest.mark.parametrize("scheme", ["sqlite", "journal"])
def test_a_path_is_percent_encoded_and_its_folders_are_made(scheme: str, tmp_path: Path) -> None:
    with closing(open_ledger(f"{scheme}://{tmp_path}/a%20b/50%25/%23%3F@é", TEAM)) as ledger:
        assert ledger.compare_and_set("k", None, entry())
    assert (tmp_path / "a b" / "50%" / "#?@é").exists()


def test_a_password_is_percent_encoded(postgres: Postgres) -> None:
    assert "%2F" in postgres.url()
    with closing(open_ledger(postgres.empty_database() + "?sslmode=prefer&target_session_attrs=read-write", TEAM)) as ledger:
        assert ledger.compare_and_set("k", None, entry())
        assert postgres.password not in str(ledger)
        assert str(ledger) == f"the ledger postgresql://{postgres.user}@{postgres.host}:{postgres.port}/scratch"


def test_a_password_may_come_from_the_environment(postgres: Postgres, monkeypatch: pytest.MonkeyPatch) -> None:
    postgres.empty_database()
    monkeypatch.setenv("PGPASSWORD", postgres.password)
    with closing(open_ledger(f"postgresql://{postgres.user}@{postgres.host}:{postgres.port}/scratch", TEAM)) as ledger:
        assert ledger.read("k") is None


@pytest.mark.parametrize(
    "url",
    [
        *("", "memory", "memory:x", "redis://h/0", f"mysql://u:{SECRET}@h/d", f"u:{SECRET}@h/d"),
        *(
            "sqlite:",
            "sqlite://",
            "sqlite:///",
            "sqlite:ledger.db",
            "sqlite://ledger.db",
            "sqlite:///x?mode=ro",
            "sqlite:///x#y",
        ),
        *("journal:", "journal://", "journal:///", "journal:x", "journal://host/x", "journal:///a%00b"),
        *("postgresql:", "postgresql://", f"postgresql://u:{SECRET}@h", f"postgresql://u:{SECRET}@h/", "postgresql:///d"),
        *(f"postgresql://u:{SECRET}/x@h/d", f"postgresql://u:{SECRET}#x@h/d", f"postgresql://u:{SECRET}?x@h/d"),
        *(f"postgresql://u:1/{SECRET}@h/d", f"postgresql://u:1?{SECRET}@h/d", f"postgresql://u:{SECRET}@h:{SECRET}/d"),
        *(
            f"postgresql://u@h/d?password={SECRET}",
            f"postgresql://u@h/d?sslmode=disable&{SECRET}=1",
            f"postgresql://[{SECRET}/d",
        ),
    ],
)
def test_what_is_no_url_of_a_ledger_is_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(ConfigurationError, match="Right ones: memory:, sqlite:///") as refused:
        open_ledger(url, TEAM)
    assert not shown_secrets(refused.value, SECRET)


@pytest.mark.parametrize("name", ["", "x" * 101, "a\nb", "a\0b", "\ud800"])
def test_a_consumer_group_needs_a_name_that_people_can_read(name: str) -> None:
    with pytest.raises(ConfigurationError, match="1 to 100 printable characters"):
        open_ledger("memory:", name)


@pytest.mark.parametrize("scheme", ["sqlite", "journal"])
def test_a_folder_that_cannot_be_made_is_told_of(scheme: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(ConfigurationError, match=r"Not a directory|File exists"):
        open_ledger(f"{scheme}://{tmp_path}/file/deeper/x", TEAM)


def test_a_file_that_is_no_ledger_is_told_of(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("a letter to somebody, of more than a few words\n" * 100)
    with pytest.raises(LedgerUnavailable, match="file is not a database"):
        open_ledger(f"sqlite://{tmp_path}/x", TEAM)


@pytest.mark.parametrize("scheme", ["sqlite", "journal"])
@pytest.mark.parametrize("kind", ["nfs4", "cifs", "fuse.sshfs"])
def test_a_folder_that_other_hosts_share_is_refused(
    scheme: str, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.handoff.ledger.local_only.volume_of", lambda _: Volume(1, 1, kind))
    with pytest.raises(ConfigurationError, match=f"is on {kind}, which other hosts share.*postgresql:"):
        open_ledger(f"{scheme}://{tmp_path}/ledger", TEAM)
    assert list(tmp_path.iterdir()) == []


def test_a_missing_driver_is_told_of_with_the_extra_that_brings_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(ConfigurationError, match=r"pip install 'dropgate\[postgresql\]'"):
        open_ledger(f"postgresql://u:{SECRET}@127.0.0.1/d", TEAM)


def test_a_database_that_cannot_hold_every_name_is_refused(postgres: Postgres) -> None:
    postgres.sql("DROP DATABASE IF EXISTS latin")
    postgres.sql("CREATE DATABASE latin ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0")
    with pytest.raises(ConfigurationError, match="encoding LATIN1, and names need UTF8"):
        open_ledger(postgres.url("latin"), TEAM)


def test_an_account_that_may_not_create_tables_can_use_those_that_are_there(postgres: Postgres) -> None:
    open_ledger(postgres.empty_database(), TEAM).close()
    name, password = "reader", "reader"
    postgres.sql(f"DROP ROLE IF EXISTS {name}")
    postgres.sql(f"CREATE ROLE {name} LOGIN PASSWORD '{password}'")
    try:
        postgres.sql(f"GRANT USAGE ON SCHEMA public TO {name}", "scratch")
        url = f"postgresql://{name}:{password}@{postgres.host}:{postgres.port}/scratch"
        with pytest.raises(LedgerUnavailable, match="permission denied"):
            open_ledger(url, TEAM)
        postgres.sql(f"GRANT SELECT, INSERT, UPDATE ON ALL TABLES IN SCHEMA public TO {name}", "scratch")
        with closing(open_ledger(url, TEAM)) as ledger:
            assert ledger.compare_and_set("k", None, entry())
    finally:
        postgres.sql(f"DROP OWNED BY {name}; DROP ROLE {name}", "scratch")
