"""The tables of a configuration file, each checked in itself: every key that is wrong, and every two that contradict."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self, get_origin

from pydantic import BaseModel, ConfigDict, Field, ModelWrapValidatorHandler, SecretStr, field_validator, model_validator

from gateway.faults import Faults, refused, with_faults
from gateway.handoff.heartbeat import DEFAULT_TTL, SHORTEST_TTL
from gateway.handoff.ordering import OnError, OnGap, Ordering
from gateway.handoff.probe import rivalry
from gateway.signing import check_public_key
from gateway.times import known_zone, parse_window, rate
from protocol.errors import InvalidName
from protocol.hashes import ALGORITHMS, DEFAULT_ALGORITHM
from protocol.layout import DEFAULT_FOLDERS, FolderLayout, Layout, PrefixLayout
from protocol.names import DEFAULT_WIDTH, Grammar, check_suffix
from protocol.recovery import Ages
from protocol.rules import Rules, Signal, Verify
from transports.paths import unsafe_because
from transports.urls import InvalidURL, Location, parse_url

_OF_SFTP = ("key_files", "key_passphrase", "host_key", "known_hosts", "engine")
_OF_SMB = ("encrypt",)


_Hours = Annotated[float, Field(ge=0, allow_inf_nan=False)] | None


class Section(BaseModel):
    """A table of the file. Every fault in it is told, not the first alone."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    @model_validator(mode="wrap")
    @classmethod
    def _whole(cls, given: Any, check: ModelWrapValidatorHandler[Self]) -> Self:
        return with_faults(cls.__name__, given, check, cls.contradictions)

    @classmethod
    def contradictions(cls, given: Mapping[str, Any]) -> Faults:
        """What is wrong between the keys of this table as it was given; its values may be of any type."""
        del given
        yield from ()


class EndpointSettings(Section):
    """`[endpoint.NAME]`: a URL, and how to log in there."""

    url: Annotated[str, Field(repr=False)]  # may hold a password
    password: SecretStr | None = None
    password_file: Path | None = None
    key_files: list[Path] = []
    key_passphrase: SecretStr | None = None
    host_key: Annotated[str, Field(pattern=r"^SHA256:[A-Za-z0-9+/]{43}=?$")] | None = None
    known_hosts: Path | None = None
    engine: Literal["paramiko", "openssh"] = "paramiko"
    encrypt: bool = False
    connect_timeout: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 15.0
    reply_timeout: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 60.0
    max_connections: Annotated[int, Field(ge=1)] | None = None

    @field_validator("url")
    @classmethod
    def _a_location(cls, url: str) -> str:
        parse_url(url)
        return url

    @classmethod
    def contradictions(cls, given: Mapping[str, Any]) -> Faults:
        location = _parsed(given.get("url"))
        if "password" in given and "password_file" in given:
            yield "password_file", "give password or password_file, not both"
        if location is not None and location.password is not None and ("password" in given or "password_file" in given):
            yield "url", "there is a password in it, and another beside it; give one"
        for keys, scheme in ((_OF_SFTP, "sftp"), (_OF_SMB, "smb")):
            for key in keys:
                if location is not None and location.scheme != scheme and key in given:
                    yield key, f"belongs to {scheme}:// endpoints, and the url is not of that kind"


class DropSettings(Section):
    """`[drop.NAME]`: either `endpoint` and `directory` below its URL, or a `url` of its own."""

    endpoint: str | None = None
    directory: str = ""
    url: Annotated[str | None, Field(repr=False)] = None
    layout: Literal["prefix", "folders"] = "prefix"
    folders: list[str] = list(DEFAULT_FOLDERS)
    width: Annotated[int, Field(ge=1, le=18)] = DEFAULT_WIDTH
    signal: Signal = Signal.MANIFEST
    verify: Verify = Verify.SIZE
    hash: str = DEFAULT_ALGORITHM
    groups: list[str] = []
    busy_patience: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 30.0
    trusted_keys: list[str] = []
    signing_key_file: Path | None = None
    before_max_age: _Hours = None
    ready_max_age: _Hours = None
    after_max_age: _Hours = None
    after_keep: Annotated[int, Field(ge=0)] | None = None
    receipts: bool = False

    @field_validator("url")
    @classmethod
    def _a_location(cls, url: str | None) -> str | None:
        if url is not None:
            parse_url(url)
        return url

    @field_validator("directory")
    @classmethod
    def _below(cls, directory: str) -> str:
        for part in directory.split("/") if directory else ():
            if reason := unsafe_because(part):
                raise ValueError(f"{directory!r} is no path below the endpoint's url: of one part, {reason}")
        return directory

    @field_validator("hash")
    @classmethod
    def _known_hash(cls, algorithm: str) -> str:
        if algorithm not in ALGORITHMS:
            raise ValueError(f"{algorithm!r} is not known; known are {', '.join(ALGORITHMS)}")
        return algorithm

    @field_validator("folders")
    @classmethod
    def _five_folders(cls, folders: list[str]) -> list[str]:
        with refused():
            FolderLayout(names=tuple(folders))
        return folders

    @field_validator("trusted_keys")
    @classmethod
    def _public_keys(cls, keys: list[str]) -> list[str]:
        for key in keys:
            check_public_key(key)
        return keys

    @classmethod
    def contradictions(cls, given: Mapping[str, Any]) -> Faults:
        signal, hashed, width = given.get("signal", "manifest"), given.get("hash", "sha256"), given.get("width", DEFAULT_WIDTH)
        if ("endpoint" in given) == ("url" in given):
            yield "", "give either endpoint (with directory) or url"
        elif "url" in given and "directory" in given:
            yield "directory", "belongs to endpoint; with url, put it into the url"
        if "folders" in given and given.get("layout") != "folders":
            yield "folders", "belongs to layout = 'folders'"
        if signal == "checksum" and hashed in ALGORITHMS and hashed != "sha256":
            yield "hash", "signal = 'checksum' is the format of sha256sum, so hash must be 'sha256'"
        for key in ("trusted_keys", "signing_key_file"):
            if signal in ("checksum", "none") and key in given:
                yield key, f"only a manifest can be signed, and this drop has signal = {signal!r}"
        yield from group_faults(given.get("groups"), width)

    def ages(self) -> Ages:
        """When a consumer's own sweeps act on what is too old; a key that is not there: never."""
        before, ready, after = (
            None if hours is None else hours * 3600 for hours in (self.before_max_age, self.ready_max_age, self.after_max_age)
        )
        return Ages(before, ready, after, self.after_keep)

    def rules(self) -> Rules:
        """The drop's rules, as procedures are given them."""
        grammar = Grammar(self.width)
        layout: Layout = PrefixLayout(grammar) if self.layout == "prefix" else FolderLayout(grammar, tuple(self.folders))
        return Rules(layout, self.signal, self.hash, self.verify, self.busy_patience, frozenset(self.trusted_keys))


class RouteSettings(Section):
    """`[[route]]`: every item of the groups goes from one drop to another, under its own number and key."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True, populate_by_name=True)

    from_: Annotated[str, Field(alias="from")]
    to: list[str]
    name: str = ""
    groups: list[str] = []
    suffixes: list[str] = []
    meta: dict[str, str | int | float | bool] = {}
    ordering: Ordering = Ordering.SHUFFLE
    workers: Annotated[int, Field(ge=1, le=64)] = 1
    max_attempts: Annotated[int, Field(ge=1)] = 5
    poll: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1.0
    lease_ttl: Annotated[float, Field(ge=SHORTEST_TTL, allow_inf_nan=False)] = DEFAULT_TTL
    gap_timeout: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 300.0
    on_gap: OnGap = OnGap.ALERT
    on_error: OnError = OnError.STOP
    numbering: Literal["same", "counter"] = "same"
    original_names: bool = False
    verify: Verify | None = None
    bandwidth: str | None = None
    windows: list[str] = []
    timezone: str | None = None

    @field_validator("to", mode="before")
    @classmethod
    def _one_or_several(cls, to: object) -> object:
        return [to] if isinstance(to, str) else to

    @field_validator("suffixes")
    @classmethod
    def _suffixes(cls, suffixes: list[str]) -> list[str]:
        for suffix in suffixes:
            with refused():
                check_suffix(suffix)
        return suffixes

    @field_validator("bandwidth")
    @classmethod
    def _a_rate(cls, text: str | None) -> str | None:
        if text is not None:
            rate(text)
        return text

    @field_validator("windows")
    @classmethod
    def _time_windows(cls, texts: list[str]) -> list[str]:
        for text in texts:
            parse_window(text)
        return texts

    @field_validator("timezone")
    @classmethod
    def _a_zone(cls, name: str | None) -> str | None:
        return name if name is None else known_zone(name)

    @classmethod
    def contradictions(cls, given: Mapping[str, Any]) -> Faults:
        if given.get("ordering") == "strict" and given.get("workers", 1) != 1:
            yield "workers", "ordering = 'strict' takes one item at a time, so workers must be 1"
        for key in ("gap_timeout", "on_gap", "on_error"):
            if key in given and given.get("ordering") != "strict":
                yield key, "belongs to ordering = 'strict'"
        if given.get("ordering") == "strict" and (given.get("suffixes") or given.get("meta")):
            yield "ordering", "'strict' takes every item of a group, so suffixes and meta cannot be given with it"
        to = given.get("to")
        named = [to] if isinstance(to, str) else to if isinstance(to, list) else []
        if to == []:
            yield "to", "name at least one drop"
        for number, name in enumerate(named):
            if name == given.get("from"):
                yield "to", "from and to are the same drop"
            if name in named[:number]:
                yield "to", f"{name!r} stands there twice"
        if given.get("original_names") and given.get("numbering") == "counter":
            yield "numbering", "with original_names no number is written at the destination"
        if "timezone" in given and not given.get("windows"):
            yield "timezone", "belongs to windows"

    @property
    def title(self) -> str:
        """Its name, or its ends."""
        return self.name or f"{self.from_} -> {', '.join(self.to)}"


class LedgerSettings(Section):
    """`[ledger]`: where it is kept what was processed, and whose work it is."""

    url: SecretStr | None = None
    consumer: Annotated[str, Field(min_length=1, max_length=40)] | None = None


def _parsed(url: object) -> Location | None:
    try:
        return parse_url(url) if isinstance(url, str) else None
    except InvalidURL:
        return None  # told as the fault of its own key


def group_faults(groups: object, width: object) -> Faults:
    """What is wrong with a list of group prefixes, which may be of any type, as `width` may."""
    known = [group for group in groups if isinstance(group, str)] if isinstance(groups, list) else []
    for number, group in enumerate(known):
        if isinstance(width, int) and 1 <= width <= 18:
            try:
                Grammar(width).check_prefix(group)
            except InvalidName as error:
                yield "groups", str(error)
        for other in known[:number]:
            if fault := rivalry(other, group):
                yield "groups", fault
            elif group == other:
                yield "groups", f"{group!r} stands there twice"


def list_keys(section: type[BaseModel]) -> frozenset[str]:
    """The keys of a table that hold lists."""
    return frozenset(name for name, field in section.model_fields.items() if get_origin(field.annotation) is list)


# Which keys hold lists, for the environment, which has none.
LISTS = {"endpoint": list_keys(EndpointSettings), "drop": list_keys(DropSettings)}
