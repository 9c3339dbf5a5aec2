"""Settings: one TOML file, `DROPGATE_*` environment variables over it, and a clear error for each key that is wrong.

    [endpoint.NAME]   where, and how to log in
    [drop.NAME]       a directory on an endpoint, and its rules
    [[route]]         from one drop to others
    [ledger]          where it is kept what was processed
    [service], [web], [metrics], [tracing], [journal], [alarms], [[expect]]   the service, as `gateway.service_sections` says

Environment variables and secret files stand over every table but the lists, as `gateway.overrides` says. Relative paths, also
those of folders, are relative to the folder of the file.
"""

import difflib
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

from pydantic import BaseModel, ModelWrapValidatorHandler, PrivateAttr, ValidationError, model_validator
from pydantic_settings import BaseSettings, InitSettingsSource, PydanticBaseSettingsSource, SettingsConfigDict

from gateway.drop import Drop
from gateway.errors import ConfigurationError
from gateway.explained import explained
from gateway.faults import UNKNOWN, Fault, Faults, FaultyConfiguration, told, with_faults
from gateway.handoff.circuit import Circuit
from gateway.handoff.clock import Clock
from gateway.handoff.ledger.open import is_database
from gateway.handoff.slots import FEWEST, Slots
from gateway.overrides import from_environment, from_secrets
from gateway.sections import LISTS, DropSettings, EndpointSettings, LedgerSettings, RouteSettings, group_faults, list_keys
from gateway.service_sections import (
    AlarmsSettings,
    ExpectSettings,
    JournalSettings,
    MetricsSettings,
    ServiceSettings,
    TracingSettings,
    WebSettings,
)
from gateway.signing import load_signing_key
from gateway.toml_text import TomlText, read
from protocol.names import DEFAULT_WIDTH
from transports.endpoint import Endpoint, Timeouts
from transports.secret import Secret
from transports.urls import Location, parse_url

FILE_NAME = "dropgate.toml"

_SINGLE: dict[str, type[BaseModel]] = {
    "ledger": LedgerSettings,
    "service": ServiceSettings,
    "web": WebSettings,
    "metrics": MetricsSettings,
    "tracing": TracingSettings,
    "journal": JournalSettings,
    "alarms": AlarmsSettings,
}
SINGLE = {name: list_keys(section) for name, section in _SINGLE.items()}  # tables that stand alone, with their lists

NAME_PATTERN = r"[A-Za-z0-9](?:[A-Za-z0-9_.-]*[A-Za-z0-9])?"  # of endpoints and drops
_NAME = re.compile(NAME_PATTERN, re.ASCII)


class Settings(BaseSettings):
    """A whole configuration, checked in itself. Making one reads the environment; `load` is the way in."""

    model_config = SettingsConfigDict(extra="forbid", hide_input_in_errors=True)

    endpoint: dict[str, EndpointSettings] = {}
    drop: dict[str, DropSettings] = {}
    route: list[RouteSettings] = []
    ledger: LedgerSettings = LedgerSettings()
    service: ServiceSettings = ServiceSettings()
    web: WebSettings | None = None
    metrics: MetricsSettings | None = None
    tracing: TracingSettings | None = None
    journal: JournalSettings = JournalSettings()
    alarms: AlarmsSettings = AlarmsSettings()
    expect: list[ExpectSettings] = []
    _folder: Path = PrivateAttr(default_factory=Path.cwd)
    _circuits: dict[tuple[str, str, int | None], Circuit] = PrivateAttr(default_factory=dict)
    _slots: dict[tuple[str, int], Slots] = PrivateAttr(default_factory=dict)  # by endpoint and limit

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        # The library's own would read a password that looks like JSON as JSON, and not find names with a "-" in them.
        file = init_settings()
        return (
            InitSettingsSource(settings_cls, init_kwargs=from_environment(os.environ, file, LISTS, SINGLE)),
            InitSettingsSource(settings_cls, init_kwargs=from_secrets(os.environ, file, LISTS, SINGLE)),
            init_settings,
        )

    @model_validator(mode="wrap")
    @classmethod
    def _whole(cls, given: Any, check: ModelWrapValidatorHandler[Self]) -> Self:
        return with_faults("Settings", given, check, _references)

    def open_drop(self, name: str) -> Drop:
        """A drop of this configuration by its name. Raises ConfigurationError for a file that cannot be used."""
        settings = self.drop[name]
        key = None if settings.signing_key_file is None else load_signing_key(self.resolved(settings.signing_key_file))
        endpoint, clock = self._endpoint(settings), Clock()
        # Who is away is away for all drops of one host.
        circuit = self._circuits.setdefault(
            (endpoint.location.scheme, endpoint.location.host, endpoint.location.port), Circuit(clock)
        )
        rules = replace(settings.rules(), forwards=self._forwards(name), awaits=self._awaits(name))
        return Drop(endpoint, rules, tuple(settings.groups), key, clock, circuit, self._slots_of(settings.endpoint))

    def _forwards(self, name: str) -> frozenset[str]:
        """The groups of a drop that a route takes further."""
        return frozenset(
            group for route in self.route if route.from_ == name for group in route.groups or self.drop[name].groups
        )

    def _awaits(self, name: str, *seen: str) -> frozenset[str]:
        """Those of them whose receipts wait for the answer of a drop further on, be it of the next or of one behind it."""
        return frozenset(
            group
            for route in self.route
            if route.from_ == name and not route.original_names
            for group in route.groups or self.drop[name].groups
            if any(self.drop[to].receipts or (to not in seen and group in self._awaits(to, name, *seen)) for to in route.to)
        )

    def _slots_of(self, name: str | None) -> Slots | None:
        limit = self.endpoint[name].max_connections if name is not None else None
        return None if name is None or limit is None else self._slots.setdefault((name, limit), Slots(limit))

    @property
    def folder(self) -> Path:
        """What relative paths are relative to: the folder of the file."""
        return self._folder

    def share_circuits_with(self, earlier: "Settings") -> None:
        """Goes on with what is known of endpoints that are away: routes that a reload leaves alone know it as well."""
        self._circuits, self._slots = earlier._circuits, earlier._slots

    def open_endpoint(self, name: str) -> Endpoint:
        """An endpoint by its name, for one that no drop uses. Raises ConfigurationError for a file that cannot be used."""
        return self._endpoint(DropSettings(endpoint=name))

    def _endpoint(self, drop: DropSettings) -> Endpoint:
        location = self._place(drop)
        if drop.endpoint is None:
            return Endpoint(location)
        at = self.endpoint[drop.endpoint]
        return Endpoint(
            location,
            password=self._password(drop.endpoint, at),
            key_files=tuple(map(self.resolved, at.key_files)),
            key_passphrase=Secret(at.key_passphrase.get_secret_value()) if at.key_passphrase else None,
            host_key=at.host_key,
            known_hosts=self.resolved(at.known_hosts) if at.known_hosts else None,
            engine=at.engine,
            encrypt=at.encrypt,
            timeouts=Timeouts(at.connect_timeout, at.reply_timeout),
        )

    def _place(self, drop: DropSettings) -> Location:
        url = self.endpoint[drop.endpoint].url if drop.endpoint is not None else drop.url or ""
        literal = "://" in url or url == "~" or url.startswith("~/")
        location = parse_url(url if literal else str(self._folder / url))
        if not drop.directory:
            return location
        below = f"{location.path.rstrip('/')}/{drop.directory}" if location.path else drop.directory
        return replace(location, path=below)

    def _directory(self, name: str) -> Location:
        """Where a drop is, whoever logs in there."""
        return replace(self._place(self.drop[name]), user="", domain="", password=None)

    def _password(self, name: str, at: EndpointSettings) -> Secret | None:
        if at.password is not None:
            return Secret(at.password.get_secret_value())
        if at.password_file is None:
            return None
        path = self.resolved(at.password_file)
        try:
            return Secret(path.read_bytes().decode().removesuffix("\n").removesuffix("\r"))
        except OSError as error:
            raise ConfigurationError(f"endpoint.{name}.password_file: {path} cannot be read: {error.strerror}") from error
        except UnicodeDecodeError:
            # Without its cause, which holds the bytes.
            raise ConfigurationError(f"endpoint.{name}.password_file: {path} is not UTF-8 text") from None

    def resolved(self, path: Path) -> Path:
        """A path of the file, which is relative to the file's folder."""
        return self._folder / (path.expanduser() if path.parts[:1] == ("~",) else path)

    def _at(self, folder: Path) -> Self:
        """Sets what relative paths are relative to, and checks what can only be known then. Raises ConfigurationError."""
        self._folder = folder
        faults = [
            Fault(("route", number, "to"), f"[drop.{to}] is the same directory as [drop.{other}]")
            for number, route in enumerate(self.route)
            for place, to in enumerate(route.to)
            for other in (route.from_, *route.to[:place])
            if self._directory(other) == self._directory(to)
        ]
        if faults:
            raise FaultyConfiguration("", faults)
        return self


def _references(given: Mapping[str, Any]) -> Faults:
    endpoints, drops = (_table(given.get(section)) for section in ("endpoint", "drop"))
    for section, table in (("endpoint", endpoints), ("drop", drops)):
        for name in table:
            if not _NAME.fullmatch(name):
                yield section, f"{name!r} cannot be a name; letters and digits can, with '_', '-' and '.' between them"
    for name, drop in drops.items():
        wanted = _table(drop).get("endpoint")
        if isinstance(wanted, str) and wanted not in endpoints:
            yield ("drop", name, "endpoint"), f"there is no [endpoint.{wanted}]{_known(wanted, endpoints)}"
    routes = given.get("route")
    for number, route in enumerate(routes if isinstance(routes, list) else ()):
        for key in ("from", "to"):
            named = _table(route).get(key)
            for wanted in named if isinstance(named, list) else [named]:
                if isinstance(wanted, str) and wanted not in drops:
                    yield ("route", number, key), f"there is no [drop.{wanted}]{_known(wanted, drops)}"
        yield from _route_groups(number, _table(route), drops)
        yield from _route_needs(number, _table(route), drops, endpoints)
    yield from _rivals([_table(route) for route in routes] if isinstance(routes, list) else [], drops)
    expected = given.get("expect")
    for number, expect in enumerate(expected if isinstance(expected, list) else ()):
        wanted = _table(expect).get("drop")
        if isinstance(wanted, str) and wanted not in drops:
            yield ("expect", number, "drop"), f"there is no [drop.{wanted}]{_known(wanted, drops)}"
    yield from _journal_database(given)


def _journal_database(given: Mapping[str, Any]) -> Faults:
    ledger = _table(given.get("ledger")).get("url")
    if _table(given.get("journal")).get("database") and isinstance(ledger, str) and not is_database(ledger):
        yield ("journal", "database"), "needs an sqlite: or postgresql: ledger, and [ledger] url names another kind"


def _route_needs(number: int, route: Mapping[str, Any], drops: Mapping[str, Any], endpoints: Mapping[str, Any]) -> Faults:
    """What a route needs of its ends that they do not have."""
    name = route.get("from")
    source = _table(drops.get(name)) if isinstance(name, str) else {}
    if route.get("meta") and source.get("signal", "manifest") != "manifest":
        text = f"looks into manifests, and [drop.{name}] has signal = {source.get('signal')!r}"
        yield ("route", number, "meta"), text
    to = route.get("to")
    for end in [to] if isinstance(to, str) else to if isinstance(to, list) else []:
        there = _table(drops.get(end)).get("endpoint") if isinstance(end, str) else None
        if there is None or there != source.get("endpoint"):
            continue
        limit = _table(endpoints.get(there)).get("max_connections")
        if isinstance(limit, int) and limit == FEWEST:
            text = f"a route has both ends here (route {number + 1}), so it needs {FEWEST + 1}: one each, and one for leases"
            yield ("endpoint", there, "max_connections"), text


def _route_groups(number: int, route: Mapping[str, Any], drops: Mapping[str, Any]) -> Faults:
    name = route.get("from")
    source = _table(drops.get(name)) if isinstance(name, str) else {}
    if source and not (route.get("groups") or source.get("groups")):
        yield ("route", number, "groups"), f"say which groups, here or in [drop.{name}]"
    for _, text in group_faults(route.get("groups"), source.get("width", DEFAULT_WIDTH)):
        yield ("route", number, "groups"), text


def _table(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _rivals(routes: list[Mapping[str, Any]], drops: Mapping[str, Any]) -> Faults:
    """Two routes that take the same items, each of which would go to only one of them; and two of one name."""
    seen: dict[str, int] = {}
    for number, route in enumerate(routes):
        title = _title(route)
        if title in seen and (route.get("name") or title):
            yield ("route", number, "name"), f"route.{seen[title]} is called {title!r} as well; give each a name of its own"
        seen.setdefault(title, number)
        for earlier, other in enumerate(routes[:number]):
            shared = _groups_of(route, drops) & _groups_of(other, drops)
            apart = any(r.get("suffixes") or r.get("meta") for r in (route, other))
            if route.get("from") == other.get("from") and shared and not apart:
                yield (
                    ("route", number, "groups"),
                    f"route.{earlier} takes {', '.join(sorted(shared))} of [drop.{route.get('from')}] already, and each item "
                    f"goes along one route; for several destinations write one route with to = [...], or tell the routes apart "
                    f"by suffixes or meta",
                )


def _title(route: Mapping[str, Any]) -> str:
    if isinstance(name := route.get("name"), str) and name:
        return name
    to = route.get("to")
    named = [to] if isinstance(to, str) else to if isinstance(to, list) else []
    return f"{route.get('from')} -> {', '.join(map(str, named))}"


def _groups_of(route: Mapping[str, Any], drops: Mapping[str, Any]) -> set[str]:
    name = route.get("from")
    groups = route.get("groups") or (_table(drops.get(name)).get("groups") if isinstance(name, str) else None)
    return {group for group in groups if isinstance(group, str)} if isinstance(groups, list) else set()


def _known(wanted: str, section: Iterable[str]) -> str:
    names = sorted(section)
    like = difflib.get_close_matches(wanted, names, 1)
    if like:
        return f"; is {like[0]} meant?"
    return f"; there are {', '.join(names)}" if names else ""


def find_file(given: Path | None) -> Path | None:
    """The configuration file: the one given, else DROPGATE_CONFIG, else dropgate.toml here, or the user's, or the system's.

    Raises ConfigurationError where one was named and is not there.
    """
    named = given or (Path(os.environ["DROPGATE_CONFIG"]) if os.environ.get("DROPGATE_CONFIG") else None)
    if named is not None:
        try:
            there = named.exists()
        except OSError as error:
            raise ConfigurationError(f"{named} cannot be read: {error.strerror}") from error
        if not there:
            raise ConfigurationError(f"there is no configuration file {named}")
        return named
    user = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    places = (Path(FILE_NAME), user / "dropgate" / FILE_NAME, Path("/etc/dropgate") / FILE_NAME)
    return next((place for place in places if place.is_file()), None)


def load(path: Path | None) -> Settings:
    """The settings of a file, or of the environment alone.

    Raises FaultyConfiguration with every fault, each with its key, NotToml, and ConfigurationError where it cannot be read.
    """
    file = TomlText("", {}) if path is None else read(path)
    # What begins with "_" would be taken for a parameter of the library.
    faults = [Fault((key,), "this key is not known", UNKNOWN) for key in file.values if key.startswith("_")]
    try:
        settings = Settings(**{key: value for key, value in file.values.items() if not key.startswith("_")})
        if not faults:
            return settings._at(path.parent.absolute() if path is not None else Path.cwd())
    except ValidationError as error:
        faults += told(error)
    except FaultyConfiguration as error:
        faults += error.faults
    except ConfigurationError as error:
        # Of the names in the environment, which no key can be found for.
        faults += [Fault((), line) for line in str(error).splitlines()]
    where = str(path) if path is not None else "the environment"
    # Without its cause, which holds the values.
    raise FaultyConfiguration(f"{where} cannot be used:", _explained(faults, file)) from None


def _explained(faults: list[Fault], file: TomlText) -> list[Fault]:
    try:
        over = [read_them(os.environ, file.values, LISTS, SINGLE) for read_them in (from_environment, from_secrets)]
    except ConfigurationError:
        over = []  # told already
    return explained(faults, file, over, Settings)
