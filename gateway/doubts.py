"""What a configuration that can be loaded may still have wrong: the files it names, and what is allowed and hardly meant."""

import stat
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit

from gateway.errors import ConfigurationError
from gateway.faults import Fault, KeyPath
from gateway.sections import RouteSettings
from gateway.settings import Settings
from gateway.toml_text import read


def unusable_files(settings: Settings) -> list[Fault]:
    """Each file that the configuration names, and that this account cannot read or take for what it is meant to be."""
    found: dict[KeyPath, Fault] = {}
    for key, path in _named_files(settings):
        try:
            with settings.resolved(path).open("rb") as file:
                file.read(1)
        except OSError as error:
            found[key] = Fault(key, f"{settings.resolved(path)} cannot be read: {error.strerror}")
    for name, drop in settings.drop.items():
        key = ("drop", name, "signing_key_file")
        password: KeyPath = ("endpoint", drop.endpoint or "", "password_file")
        try:
            settings.open_drop(name)
        except ConfigurationError as error:
            begin = ".".join(map(str, password)) + ": "
            if str(error).startswith(begin):
                found.setdefault(password, Fault(password, str(error).removeprefix(begin)))
            else:
                found.setdefault(key, Fault(key, str(error)))
    return list(found.values())


def missing_extras(settings: Settings) -> list[Fault]:
    """Parts of the configuration that need libraries which are not installed here."""
    ledger = settings.ledger.url
    wanted: tuple[tuple[KeyPath, bool, tuple[str, ...], str], ...] = (
        (("web",), settings.web is not None, ("starlette", "uvicorn", "jinja2", "argon2", "itsdangerous"), "web"),
        (("tracing",), settings.tracing is not None, ("opentelemetry", "opentelemetry.sdk"), "otel"),
        (
            ("ledger", "url"),
            ledger is not None and ledger.get_secret_value().startswith("postgresql:"),
            ("psycopg",),
            "postgresql",
        ),
    )
    return [
        Fault(key, f"this needs the extra: pip install 'dropgate[{extra}]'")
        for key, asked, modules, extra in wanted
        # One after the other: a module within one that is not there cannot even be looked for.
        if asked and not all(find_spec(module) is not None for module in modules)
    ]


def _named_files(settings: Settings) -> Iterator[tuple[KeyPath, Path]]:
    for name, endpoint in settings.endpoint.items():
        for number, path in enumerate(endpoint.key_files):
            yield ("endpoint", name, "key_files", number), path
        for key in ("password_file", "known_hosts"):
            if (file := getattr(endpoint, key)) is not None:
                yield ("endpoint", name, key), file
    for name, drop in settings.drop.items():
        if drop.signing_key_file is not None:
            yield ("drop", name, "signing_key_file"), drop.signing_key_file
    if settings.web is not None and settings.web.token_file is not None:
        yield ("web", "token_file"), settings.web.token_file
    if settings.alarms.webhook_secret_file is not None:
        yield ("alarms", "webhook_secret_file"), settings.alarms.webhook_secret_file


def doubts(settings: Settings, file: Path) -> list[Fault]:
    """What works, and is probably not meant."""
    return [
        *_unused(settings),
        *(doubt for number, route in enumerate(settings.route) for doubt in _groups_that_do_not_meet(settings, number, route)),
        *_forgetful(settings),
        *_open_to_others(settings, file),
    ]


def _unused(settings: Settings) -> Iterator[Fault]:
    if not settings.route:
        yield Fault((), "there is no [[route]]: `dropgate run` has nothing to do, and the other commands can use the drops")
        return
    routed = {name for route in settings.route for name in (route.from_, *route.to)}
    for name in settings.drop:
        if name not in routed:
            yield Fault(("drop", name), "no route uses it")
    endpoints = {drop.endpoint for drop in settings.drop.values()}
    for name in settings.endpoint:
        if name not in endpoints:
            yield Fault(("endpoint", name), "no drop uses it")


def _groups_that_do_not_meet(settings: Settings, number: int, route: RouteSettings) -> Iterator[Fault]:
    """A drop that names its groups, and not one that a route carries: one of the two has a slip of the pen."""
    groups = route.groups or settings.drop[route.from_].groups
    key: KeyPath = ("route", number, "groups" if route.groups else "to")
    for words, name in (("takes {} from", route.from_), *(("brings {} to", to) for to in route.to)):
        known = settings.drop[name].groups
        for group in groups:
            if known and group not in known:
                yield Fault(key, f"it {words.format(group)} [drop.{name}], whose groups are {', '.join(known)}")


def _forgetful(settings: Settings) -> Iterator[Fault]:
    url = settings.ledger.url
    if settings.route and url is not None and url.get_secret_value().lower().startswith("memory:"):
        yield Fault(("ledger", "url"), "memory: is forgotten at each stop; what was cut before may then be processed twice")


def _open_to_others(settings: Settings, file: Path) -> Iterator[Fault]:
    """Secrets that other accounts of this host can read."""
    if _others_may_read(file):
        for key in _secrets_within(settings, file):
            yield Fault(key, f"other accounts can read this file, and so this secret: chmod 600 {file}, or use a file for it")
    for key, path in _named_files(settings):
        place = settings.resolved(path)
        if key[-1] != "known_hosts" and _others_may_read(place):
            yield Fault(key, f"other accounts can read this secret: chmod 600 {place}")


def _secrets_within(settings: Settings, file: Path) -> Iterator[KeyPath]:
    """The keys that hold a secret themselves; what the environment says is told elsewhere."""
    values = read(file).values
    for section, keys in (("web", ("token",)), ("alarms", ("webhook_secret",))):
        yield from ((section, key) for key in keys if key in values.get(section, {}))
    if _has_password(values.get("ledger", {}).get("url")):
        yield ("ledger", "url")
    for name in settings.endpoint:
        table = values.get("endpoint", {}).get(name, {})
        yield from (("endpoint", name, key) for key in ("password", "key_passphrase") if key in table)
        if _has_password(table.get("url")):
            yield ("endpoint", name, "url")
    for name in settings.drop:
        if _has_password(values.get("drop", {}).get(name, {}).get("url")):
            yield ("drop", name, "url")


def _has_password(url: object) -> bool:
    try:
        return isinstance(url, str) and "://" in url and urlsplit(url).password is not None
    except ValueError:
        return False  # told as what is wrong with its key


def _others_may_read(path: Path) -> bool:
    try:
        return bool(path.stat().st_mode & stat.S_IROTH)
    except OSError:
        return False  # told as a file that cannot be read
