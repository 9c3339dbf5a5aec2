"""The command that makes a password's hash."""

import subprocess
from pathlib import Path

import pytest
from argon2 import PasswordHasher

from gateway.service_sections import UserSettings
from tests.e2e.commands import DROPGATE, clean_environment


def hash_password(tmp_path: Path, given: str) -> subprocess.CompletedProcess[str]:
    """Runs it, with a line on its standard input."""
    return subprocess.run(
        [str(DROPGATE), "hash-password"],
        input=given,
        cwd=tmp_path,
        env=clean_environment(),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_what_it_prints_goes_into_the_configuration(tmp_path: Path) -> None:
    done = hash_password(tmp_path, "correct horse\n")
    assert done.returncode == 0, done.stderr
    made = done.stdout.strip()
    assert UserSettings(password_hash=made).role == "viewer"
    assert PasswordHasher().verify(made, "correct horse")
    assert "correct" not in done.stdout + done.stderr


@pytest.mark.parametrize("given", ["", "short\n"])
def test_a_password_that_is_too_short_is_refused(tmp_path: Path, given: str) -> None:
    done = hash_password(tmp_path, given)
    assert done.returncode == 2
    assert done.stdout == ""
    assert "8 or more" in done.stderr
