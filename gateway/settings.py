"""Settings: one TOML file, `DROPGATE_*` environment variables over it, and a clear error for each key that is wrong.

    [endpoint.NAME]   where, and how to log in
    [drop.NAME]       a directory on an endpoint, and its rules
    [[route]]         from one drop to another

A value of the environment is named by its path: DROPGATE_ENDPOINT__BANK__PASSWORD sets `password` of `[endpoint.bank]`.
Files of a secrets directory (DROPGATE_SECRETS_DIR) are named the same way, in lower case, and hold one value each.
"""

import os
import tomllib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, model_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from gateway.drop import Drop
from gateway.errors import ConfigurationError
from gateway.handoff.consumer import Ordering
from gateway.signing import load_signing_key
from protocol.errors import InvalidName
from protocol.hashes import ALGORITHMS, DEFAULT_ALGORITHM
from protocol.layout import DEFAULT_FOLDERS, FolderLayout, Layout, PrefixLayout
from protocol.names import DEFAULT_WIDTH, Grammar
from protocol.rules import Rules, Signal, Verify
from transports.endpoint import Endpoint, Timeouts
from transports.errors import UnsafePath
from transports.paths import checked
from transports.secret import Secret
from transports.urls import InvalidURL, Location, parse_url

FILE_NAME = "dropgate.toml"


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class EndpointSettings(_Section):
    """`[endpoint.NAME]`. Paths of files are relative to the configuration file's folder."""

    url: str
    password: SecretStr | None = None
    password_file: Path | None = None
    key_files: list[Path] = []
    key_passphrase: SecretStr | None = None
    host_key: Annotated[str, Field(pattern=r"^SHA256:[A-Za-z0-9+/]{43}=?$")] | None = None
    known_hosts: Path | None = None
    engine: Literal["paramiko", "openssh"] = "paramiko"
    encrypt: bool = False
    connect_timeout: Annotated[float, Field(gt=0)] = 15.0
    reply_timeout: Annotated[float, Field(gt=0)] = 60.0

    @model_validator(mode="after")
    def _one_password(self) -> "EndpointSettings":
        if self.password is not None and self.password_file is not None:
            raise ValueError("give password or password_file, not both")
        return self


class DropSettings(_Section):
    """`[drop.NAME]`: either `endpoint` and `directory` below its URL, or a `url` of its own."""

    endpoint: str | None = None
    directory: str = ""
    url: str | None = None
    layout: Literal["prefix", "folders"] = "prefix"
    folders: list[str] = list(DEFAULT_FOLDERS)
    width: Annotated[int, Field(ge=1, le=18)] = DEFAULT_WIDTH
    signal: Signal = Signal.MANIFEST
    verify: Verify = Verify.SIZE
    hash: str = DEFAULT_ALGORITHM
    groups: list[str] = []
    busy_patience: Annotated[float, Field(ge=0)] = 30.0
    trusted_keys: list[str] = []
    signing_key_file: Path | None = None

    @model_validator(mode="after")
    def _consistent(self) -> "DropSettings":
        if (self.endpoint is None) == (self.url is None):
            raise ValueError("give either endpoint (with directory) or url")
        if self.url is not None and self.directory:
            raise ValueError("directory belongs to endpoint; with url, put it into the url")
        if self.hash not in ALGORITHMS:
            raise ValueError(f"hash {self.hash!r} is not known; known are {', '.join(ALGORITHMS)}")
        if self.signal is Signal.CHECKSUM and self.hash != "sha256":
            raise ValueError("signal = 'checksum' is a sha256sum file; hash must be 'sha256'")
        try:
            for group in self.groups:
                Grammar(self.width).check_prefix(group)
            self.rules()
        except InvalidName as error:
            raise ValueError(str(error)) from error
        return self

    def rules(self) -> Rules:
        """The drop's rules, as procedures are given them."""
        grammar = Grammar(self.width)
        layout: Layout = PrefixLayout(grammar) if self.layout == "prefix" else FolderLayout(grammar, tuple(self.folders))
        return Rules(layout, self.signal, self.hash, self.verify, self.busy_patience, frozenset(self.trusted_keys))


class RouteSettings(_Section):
    """`[[route]]`: every item of the groups goes from one drop to another, under its own number and key."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)

    from_: Annotated[str, Field(alias="from")]
    to: str
    name: str = ""
    groups: list[str] = []
    ordering: Ordering = Ordering.SHUFFLE
    workers: Annotated[int, Field(ge=1, le=64)] = 1
    max_attempts: Annotated[int, Field(ge=1)] = 5
    poll: Annotated[float, Field(gt=0)] = 1.0

    @model_validator(mode="after")
    def _strict_is_single(self) -> "RouteSettings":
        if self.ordering is Ordering.STRICT and self.workers != 1:
            raise ValueError("ordering = 'strict' takes one item at a time; workers must be 1")
        return self

    @property
    def title(self) -> str:
        """Its name, or its two ends."""
        return self.name or f"{self.from_} -> {self.to}"


class Settings(BaseSettings):
    """A whole configuration, checked in itself. `folder` is what relative paths in it are relative to."""

    model_config = SettingsConfigDict(env_prefix="DROPGATE_", env_nested_delimiter="__", extra="forbid")

    endpoint: dict[str, EndpointSettings] = {}
    drop: dict[str, DropSettings] = {}
    route: list[RouteSettings] = []
    folder: Annotated[Path, Field(exclude=True)] = Path()

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        # The file comes in as `init_settings`; the environment stands over it, as operators expect.
        return env_settings, init_settings

    @model_validator(mode="after")
    def _references(self) -> "Settings":
        faults = []
        for name, drop in self.drop.items():
            if drop.endpoint is not None and drop.endpoint not in self.endpoint:
                faults.append(f"drop.{name}.endpoint: there is no [endpoint.{drop.endpoint}]{_known(self.endpoint)}")
        for number, route in enumerate(self.route):
            for key, drop_name in (("from", route.from_), ("to", route.to)):
                if drop_name not in self.drop:
                    faults.append(f"route.{number}.{key}: there is no [drop.{drop_name}]{_known(self.drop)}")
            if route.from_ == route.to:
                faults.append(f"route.{number}: from and to are the same drop")
            source = self.drop.get(route.from_)
            if source is not None and not (route.groups or source.groups):
                faults.append(f"route.{number}.groups: say which groups, here or in [drop.{route.from_}]")
        if faults:
            raise ValueError("\n".join(faults))
        return self

    def open_drop(self, name: str) -> Drop:
        """A drop of this configuration by its name. Raises ConfigurationError for a file or URL that cannot be used."""
        settings = self.drop[name]
        rules = settings.rules()
        key = None if settings.signing_key_file is None else load_signing_key(self.folder / settings.signing_key_file)
        return Drop(self._endpoint(name, settings), rules, tuple(settings.groups), key)

    def _endpoint(self, name: str, drop: DropSettings) -> Endpoint:
        if drop.url is not None:
            return Endpoint(self._location(f"drop.{name}.url", drop.url))
        assert drop.endpoint is not None  # noqa: S101 - DropSettings has seen to it
        at = self.endpoint[drop.endpoint]
        location = self._location(f"endpoint.{drop.endpoint}.url", at.url)
        return Endpoint(
            self._below(name, location, drop.directory),
            password=self._password(drop.endpoint, at),
            key_files=tuple(self.folder / path.expanduser() for path in at.key_files),
            key_passphrase=Secret(at.key_passphrase.get_secret_value()) if at.key_passphrase else None,
            host_key=at.host_key,
            known_hosts=self.folder / at.known_hosts.expanduser() if at.known_hosts else None,
            engine=at.engine,
            encrypt=at.encrypt,
            timeouts=Timeouts(at.connect_timeout, at.reply_timeout),
        )

    def _password(self, name: str, at: EndpointSettings) -> Secret | None:
        if at.password is not None:
            return Secret(at.password.get_secret_value())
        if at.password_file is None:
            return None
        path = self.folder / at.password_file.expanduser()
        try:
            return Secret(path.read_text().removesuffix("\n"))
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigurationError(f"endpoint.{name}.password_file: {path} cannot be read: {error}") from error

    def _location(self, key: str, url: str) -> Location:
        try:
            return parse_url(url if "://" in url else str(self.folder / Path(url).expanduser()))
        except InvalidURL as error:
            raise ConfigurationError(f"{key}: {error}") from error

    def _below(self, name: str, location: Location, directory: str) -> Location:
        try:
            checked("directory", directory)
        except UnsafePath as error:
            raise ConfigurationError(f"drop.{name}.directory: {directory!r} is no path below its endpoint's URL") from error
        if not directory:
            return location
        return replace(location, path=f"{location.path.rstrip('/')}/{directory}" if location.path else directory)


def _known(section: Mapping[str, object]) -> str:
    return f"; there are {', '.join(sorted(section))}" if section else ""


def find_file(given: Path | None) -> Path | None:
    """The configuration file: the one given, else DROPGATE_CONFIG, else dropgate.toml here, or the user's, or the system's.

    Raises ConfigurationError where one was named and is not there.
    """
    named = given or (Path(os.environ["DROPGATE_CONFIG"]) if os.environ.get("DROPGATE_CONFIG") else None)
    if named is not None:
        if not named.is_file():
            raise ConfigurationError(f"there is no configuration file {named}")
        return named
    user = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    places = (Path(FILE_NAME), user / "dropgate" / FILE_NAME, Path("/etc/dropgate") / FILE_NAME)
    return next((place for place in places if place.is_file()), None)


def load(path: Path | None) -> Settings:
    """The settings of a file, or of the environment alone. Raises ConfigurationError with every fault, each with its key."""
    values: dict[str, Any] = {}
    if path is not None:
        try:
            values = tomllib.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise ConfigurationError(f"{path} cannot be read: {error.strerror}") from error
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise ConfigurationError(f"{path} is not TOML: {error}") from error
        if "folder" in values:
            raise ConfigurationError(f"{path}: folder: this key is not known")
    try:
        return Settings(**values, folder=path.parent.absolute() if path is not None else Path.cwd())
    except ValidationError as error:
        faults = "\n".join(f"  {_fault(fault)}" for fault in error.errors(include_input=False, include_url=False))
        raise ConfigurationError(f"{path or 'the environment'} cannot be used:\n{faults}") from None


def _fault(fault: Any) -> str:
    key = ".".join(str(part) for part in fault["loc"])
    message = str(fault["msg"]).removeprefix("Value error, ")
    if fault["type"] == "extra_forbidden":
        message = "this key is not known"
    return (f"{key}: {message}" if key else message).replace("\n", "\n  ")
