"""The unit for systemd: systemd itself reads it, and finds that it may do little."""

import re
import subprocess
from pathlib import Path

import pytest

from gateway.overrides import from_secrets
from gateway.sections import LISTS
from gateway.settings import SINGLE
from testenv import packages
from tests.e2e.commands import DROPGATE

UNIT = Path(__file__).parents[2] / "deploy" / "dropgate.service"
LARGEST_EXPOSURE = 2.0  # of 10, as systemd counts; a unit without any hardening has 9.6


@pytest.fixture(scope="module")
def unit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The unit with the command of this environment; systemd wants it to be there."""
    packages.install(packages.DEPLOY)
    path = tmp_path_factory.mktemp("unit") / "dropgate.service"
    path.write_text(UNIT.read_text(encoding="utf-8").replace("/opt/dropgate/bin/dropgate", DROPGATE), encoding="utf-8")
    return path


def analyse(*words: str | Path) -> str:
    """What systemd-analyze says; it must be content."""
    done = subprocess.run(
        ["systemd-analyze", *map(str, words)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def test_systemd_understands_every_word_of_it(unit: Path) -> None:
    # Also what it would pass over: it tells each word that it does not know.
    assert analyse("--man=no", "verify", unit) == ""


def test_a_word_that_is_wrong_would_be_found(unit: Path, tmp_path: Path) -> None:
    wrong = tmp_path / "dropgate.service"
    wrong.write_text(unit.read_text().replace("ProtectHome=", "ProtectHoem="), encoding="utf-8")
    assert "ProtectHoem" in analyse("--man=no", "verify", wrong)


def test_it_may_do_little(unit: Path) -> None:
    told = analyse("security", "--offline=true", "--no-pager", unit)
    found = re.search(r"Overall exposure level for dropgate\.service: ([0-9.]+)", told)
    assert found is not None, told
    assert float(found[1]) <= LARGEST_EXPOSURE, told


def test_workers_of_other_accounts_can_be_seen_to_live() -> None:
    """A process that is not in /proc is taken for dead, and its items are taken over."""
    settings = [line.partition("=")[0] for line in UNIT.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    assert not {"ProtectProc", "ProcSubset", "PrivatePIDs"} & set(settings)


def test_the_credential_that_keeps_the_folder_there_sets_nothing(tmp_path: Path) -> None:
    names = re.findall(r"^SetCredential=(\w+):", UNIT.read_text(encoding="utf-8"), re.MULTILINE)
    assert names == ["unit"]
    (tmp_path / names[0]).write_text("dropgate")
    assert from_secrets({"DROPGATE_SECRETS_DIR": str(tmp_path)}, {}, LISTS, SINGLE) == {}
