"""The Debian packages that the test servers need, and their installing."""

import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

# For servers as plain processes, for sftp-server without SSH, and for the clients that tests compare with.
SERVERS = ("openssh-server", "openssh-sftp-server", "openssh-client", "samba", "smbclient", "postgresql")
# For the page: a browser, and a font, which it does not bring along.
BROWSER = ("chromium", "fonts-dejavu-core")
ENGINE = ("docker.io", "iptables")
# For deploy/: what reads the unit, and what brings the demonstration up.
DEPLOY = ("systemd",)
COMPOSE = ("docker-compose",)

_POLICY = Path("/usr/sbin/policy-rc.d")  # what the packages' scripts ask before they start a service
_DENIAL = "#!/bin/sh\n# Of dropgate's tests, for as long as they install packages.\nexit 101\n"
_UNITS = (
    "ssh.service",
    "ssh.socket",
    "smbd.service",
    "nmbd.service",
    "samba-ad-dc.service",
    "docker.service",
    "docker.socket",
    "postgresql.service",
)


class InstallFailed(Exception):
    """A package is missing and could not be installed. The text says which, and why."""


def os_release() -> dict[str, str]:
    """What this system says of itself; empty where it says nothing."""
    try:
        lines = Path("/etc/os-release").read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return {}
    return {name: value.strip('"') for name, _, value in (line.partition("=") for line in lines) if value}


def may_install() -> bool:
    """Whether packages can be installed here: as root, on Debian or its kin."""
    release = os_release()
    kin = [release.get("ID", ""), *release.get("ID_LIKE", "").split()]
    return os.geteuid() == 0 and "debian" in kin and shutil.which("apt-get") is not None


def missing(wanted: Sequence[str]) -> list[str]:
    """Those of the packages that are not installed."""
    query = ["dpkg-query", "--show", "--showformat=${Package} ${db:Status-Status}\n", *wanted]
    done = subprocess.run(query, capture_output=True, text=True, timeout=30, stdin=subprocess.DEVNULL, check=False)
    installed = {line.split()[0] for line in done.stdout.splitlines() if line.endswith(" installed")}
    return [package for package in wanted if package not in installed]


def _apt(*arguments: str, patience: float) -> None:
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    command = ["apt-get", "--quiet=2", "-o", "DPkg::Lock::Timeout=120", *arguments]
    try:
        done = subprocess.run(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=patience,
            stdin=subprocess.DEVNULL,
            env=environment,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise InstallFailed(f"apt-get {arguments[0]} did not end within {patience:g} s") from error
    if done.returncode:
        raise InstallFailed(f"apt-get {arguments[0]} failed:\n" + "\n".join(done.stdout.strip().splitlines()[-10:]))


@contextmanager
def _without_starting_services() -> Iterator[None]:
    """Keeps the packages' own servers from being started, now and at the next boot: the tests start theirs themselves."""
    before = {unit for unit in _UNITS if _is_known(unit)}
    # A run that was killed may have left it.
    ours = not _POLICY.exists() or _POLICY.read_text(encoding="utf-8", errors="replace") == _DENIAL
    if ours:
        _POLICY.write_text(_DENIAL, encoding="ascii")
        _POLICY.chmod(0o755)
    try:
        yield
    finally:
        if ours:
            _POLICY.unlink(missing_ok=True)
        added = [unit for unit in _UNITS if unit not in before and _is_known(unit)]
        if added and shutil.which("systemctl"):
            subprocess.run(["systemctl", "--quiet", "disable", *added], capture_output=True, timeout=60, check=False)


def _is_known(unit: str) -> bool:
    return any((Path(folder) / unit).exists() for folder in ("/lib/systemd/system", "/etc/systemd/system"))


def install(wanted: Sequence[str]) -> None:
    """Installs what is missing, with nothing that is only recommended. Raises `InstallFailed`."""
    lacking = missing(wanted)
    if not lacking:
        return
    if not may_install():
        raise InstallFailed(f"missing: {' '.join(lacking)}; installing takes root, on Debian")
    with _without_starting_services():
        try:
            _apt("install", "--yes", "--no-install-recommends", *lacking, patience=900)
        except InstallFailed:
            # Most often the lists are old, or not there at all.
            _apt("update", patience=300)
            _apt("install", "--yes", "--no-install-recommends", *lacking, patience=900)
