"""The images of the test servers: named by a hash of what they are built from, so that each is built once."""

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

from testenv import engine, packages
from testenv.spec import COMPOSE, SERVICES, Service

_PREFIX = "dropgate-testenv"
_OWN_BASE = f"{_PREFIX}-base"
_PUBLIC_BASE = "debian:bookworm-slim"  # what compose/*/Dockerfile names
_PULL_PATIENCE = 60.0  # seconds; debootstrap takes less than this
_BUILD_PATIENCE = 900.0

Say = Callable[[str], None]


class CannotBuild(Exception):
    """An image could not be made. The text says why."""


def tag(service: Service) -> str:
    """The name of the image that the present files of compose/ make."""
    digest = hashlib.sha256()
    for path in sorted([COMPOSE / "accounts.sh", *(COMPOSE / service.folder).iterdir()]):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return f"{_PREFIX}-{service.folder}:{digest.hexdigest()[:16]}"


def missing() -> list[Service]:
    """The services whose image the engine does not have yet."""
    return [service for service in SERVICES.values() if not engine.has_image(tag(service))]


def build_missing(say: Say) -> None:
    """Builds the images that are missing, on a base that is pulled or, where nothing can be pulled, made here.

    Raises `CannotBuild`, `packages.InstallFailed`.
    """
    for service in missing():
        build(tag(service), COMPOSE / service.folder / "Dockerfile", COMPOSE, say)


def build(name: str, dockerfile: Path, context: Path, say: Say) -> None:
    """Builds one image, on a base that is pulled or made here; what is as it was is not built again.

    Raises `CannotBuild`, `packages.InstallFailed`.
    """
    base = _base(say)
    say(f"building the image {name}")
    try:
        engine.docker(
            "build",
            # The host's own network: a bridge may have no way out, or no name server.
            "--network=host",
            f"--build-arg=BASE={base}",
            *_proxy_arguments(),
            f"--tag={name}",
            f"--file={dockerfile}",
            str(context),
            patience=_BUILD_PATIENCE,
        )
    except engine.EngineFailed as error:
        raise CannotBuild(f"the image {name} cannot be built: {error}") from error


def _base(say: Say) -> str:
    codename = packages.os_release().get("VERSION_CODENAME", "")
    own = f"{_OWN_BASE}:{codename}"
    for name in (_PUBLIC_BASE, own):
        if engine.has_image(name):
            return name
    say(f"pulling {_PUBLIC_BASE}")
    try:
        engine.docker("pull", "--quiet", _PUBLIC_BASE, patience=_PULL_PATIENCE)
    except engine.EngineFailed as error:
        if not packages.may_install():
            raise CannotBuild(f"no base image: {error}") from error
        say(f"it cannot be pulled; building a base of {codename} with debootstrap")
        packages.install(("debootstrap",))
        _bootstrap(codename, own)
        return own
    return _PUBLIC_BASE


def _bootstrap(codename: str, name: str) -> None:
    """Makes a minimal system from the mirror that this one uses, and imports it."""
    sources = _apt_sources(codename)
    with tempfile.TemporaryDirectory(prefix=f"{_PREFIX}-base-") as folder:
        root = Path(folder) / "root"
        log = Path(folder) / "log"
        # ca-certificates, since a mirror may speak HTTPS.
        command = ["debootstrap", "--variant=minbase", "--include=ca-certificates", codename, str(root)]
        if sources:
            command.append(sources[0][0])
        with log.open("wb") as output:
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                timeout=_BUILD_PATIENCE,
                env={**os.environ, **_proxies()},
                check=False,
            )
        if done.returncode:
            said = "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-5:])
            raise CannotBuild(f"debootstrap failed: {said}")
        _copy_apt_settings(root, sources)
        with subprocess.Popen(["tar", "--create", f"--directory={root}", "."], stdout=subprocess.PIPE) as archive:
            imported = subprocess.run(
                ["docker", "import", "-", name], stdin=archive.stdout, capture_output=True, text=True, timeout=300, check=False
            )
        if imported.returncode or archive.returncode:
            raise CannotBuild(f"docker import failed: {imported.stderr.strip()}")


def _apt_sources(codename: str) -> list[tuple[str, str]]:
    """Address and suite of each Debian archive that this machine takes packages from, the main one first."""
    query = ["apt-get", "indextargets", "--format", "$(COMPONENT) $(RELEASE) $(REPO_URI)", "Created-By: Packages"]
    done = subprocess.run(query, capture_output=True, text=True, timeout=30, stdin=subprocess.DEVNULL, check=False)
    found = [line.split() for line in done.stdout.splitlines()]
    sources = {(uri, suite) for component, suite, uri in found if component == "main" and suite.startswith(codename)}
    main = [source for source in sources if source[1] == codename]
    return main + sorted(sources.difference(main)) if main else []


def _apt_settings() -> dict[str, str]:
    """How this machine's apt reaches its archives: each setting with its value."""
    done = subprocess.run(
        ["apt-config", "dump"], capture_output=True, text=True, timeout=30, stdin=subprocess.DEVNULL, check=False
    )
    settings = (line.rstrip(";").split(" ", 1) for line in done.stdout.splitlines())
    return {name: value.strip('"') for name, value in settings if value != '""'}


def _copy_apt_settings(root: Path, sources: list[tuple[str, str]]) -> None:
    """Lets the new system fetch packages as this one does."""
    if sources:
        lines = [f"deb {uri} {suite} main\n" for uri, suite in sources]
        (root / "etc/apt/sources.list").write_text("".join(lines), encoding="utf-8")
    wanted = ("Acquire::http::", "Acquire::https::", "Acquire::Check-")
    settings = [f'{name} "{value}";\n' for name, value in _apt_settings().items() if name.startswith(wanted)]
    (root / "etc/apt/apt.conf.d/90host").write_text("".join(settings), encoding="utf-8")
    # Some networks sign for the mirror themselves.
    certificates = Path("/etc/ssl/certs/ca-certificates.crt")
    if certificates.exists():
        shutil.copy(certificates, root / "etc/ssl/certs/ca-certificates.crt")


def _proxies() -> dict[str, str]:
    """The web proxies of this machine, from the environment or else from apt."""
    settings = {} if shutil.which("apt-config") is None else _apt_settings()
    found = {}
    for name, setting in (("http_proxy", "Acquire::http::Proxy"), ("https_proxy", "Acquire::https::Proxy"), ("no_proxy", "")):
        value = os.environ.get(name) or os.environ.get(name.upper()) or settings.get(setting, "")
        if value:
            found[name] = value
    return found


def _proxy_arguments() -> list[str]:
    return [f"--build-arg={name}={value}" for name, value in _proxies().items()]
