"""The container engine's command line, and the few things asked of it."""

import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import suppress

from testenv import owner

OWNER_LABEL = "dropgate.testenv.owner"  # on every container: who removes it


class EngineFailed(Exception):
    """The engine refused a command, or did not answer in time."""


def docker(*arguments: str, patience: float = 60) -> str:
    """The output of one `docker` command, within `patience` seconds. Raises `EngineFailed`."""
    # Without the buildx plug-in, which Debian packages apart, newer clients refuse to build at all.
    environment = {"DOCKER_BUILDKIT": "0", **os.environ}
    try:
        done = subprocess.run(
            ["docker", *arguments],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=patience,
            stdin=subprocess.DEVNULL,
            env=environment,
            check=False,
        )
    except FileNotFoundError as error:
        raise EngineFailed("no docker command") from error
    except subprocess.TimeoutExpired as error:
        raise EngineFailed(f"docker {arguments[0]} gave no answer for {patience:g} s") from error
    if done.returncode:
        said = "\n".join((done.stdout + done.stderr).strip().splitlines()[-15:])
        raise EngineFailed(f"docker {arguments[0]} failed: {said}")
    return done.stdout


def logs(identity: str) -> str:
    """The last lines that a container has written, on both of its streams."""
    done = subprocess.run(
        ["docker", "logs", "--tail", "15", identity],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        timeout=30,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    return done.stdout.strip()


def version() -> str | None:
    """The version of the engine that answers, or None."""
    if shutil.which("docker") is None:
        return None
    try:
        return docker("version", "--format", "{{.Server.Version}}", patience=30).strip()
    except EngineFailed:
        return None


def has_image(name: str) -> bool:
    """Whether the engine has an image of this name and tag."""
    return bool(docker("image", "ls", "--quiet", name).strip())


def containers(owned_by: str = "") -> Iterator[tuple[str, str]]:
    """Id and owner's mark of each container of any run, or of those of one owner."""
    wanted = f"label={OWNER_LABEL}={owned_by}" if owned_by else f"label={OWNER_LABEL}"
    listing = docker("ps", "--all", "--no-trunc", "--filter", wanted, "--format", f'{{{{.ID}}}} {{{{.Label "{OWNER_LABEL}"}}}}')
    for line in listing.splitlines():
        identity, _, mark = line.partition(" ")
        yield identity, mark


def remove(identities: Sequence[str]) -> None:
    """Ends and removes containers, with what they wrote."""
    if identities:
        docker("rm", "--force", "--volumes", *identities)


def remove_stale() -> None:
    """Removes the containers of runs that are no more, as far as that can be done."""
    for identity in [identity for identity, mark in containers() if owner.is_dead(mark)]:
        # Another run may be removing the same one just now; and what does stay is found by the next.
        with suppress(EngineFailed):
            remove([identity])
