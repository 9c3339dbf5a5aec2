"""The tables of a configuration file, each checked in itself: every key that is wrong, and every two that contradict."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self, get_origin

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    SecretStr,
    field_validator,
    model_validator,
)

from gateway.faults import Faults, refused, with_faults
from gateway.handoff.heartbeat import DEFAULT_TTL, SHORTEST_TTL
from gateway.handoff.ordering import OnError, OnGap, Ordering
from gateway.handoff.probe import rivalry
from gateway.handoff.slots import FEWEST
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


Zone = Annotated[str, AfterValidator(known_zone)]
_Hours = Annotated[float, Field(ge=0, allow_inf_nan=False)] | None


class Section(BaseModel):
    """A table of the file. Every fault in it is told, not the first alone."""

    # The text below each key says what it means: to editors, in the documents, and in the file that `dropgate init` writes.
    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True, use_attribute_docstrings=True)

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

    url: Annotated[str, Field(repr=False)]
    """Where it is: sftp://user@host:port/path, sftp://host/~/below-home, smb://DOMAIN;user@host/share/path, or a path."""
    password: SecretStr | None = None
    """The password of the user in the URL. Without a password and a key: SSH agent and default keys."""
    password_file: Path | None = None
    """A file that holds the password, in place of `password`."""
    key_files: list[Path] = []
    """Private keys for SFTP, tried in order; a certificate beside a key is used."""
    key_passphrase: SecretStr | None = None
    """Opens the private keys."""
    host_key: Annotated[str, Field(pattern=r"^SHA256:[A-Za-z0-9+/]{43}=?$")] | None = None
    """Pins the SFTP server's key, as `ssh-keygen -l` shows it: SHA256:..."""
    known_hosts: Path | None = None
    """The file that must know the server's key; unless given, the user's and the system's."""
    engine: Literal["paramiko", "openssh"] = "paramiko"
    """The SSH layer; `openssh` runs the program ssh, with its configuration, ProxyJump and security keys; no passwords."""
    encrypt: bool = False
    """SMB: refuse a session without encryption."""
    connect_timeout: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 15.0
    """Seconds to reach the server and log in."""
    reply_timeout: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 60.0
    """Seconds for each single answer."""
    max_connections: Annotated[int, Field(ge=FEWEST)] | None = None
    """At most so many connections to this endpoint at once, fairly shared; unless given, as many as the routes use."""

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
    """The endpoint that it is on, by its name."""
    directory: str = ""
    """The directory below the endpoint's URL."""
    url: Annotated[str | None, Field(repr=False)] = None
    """A URL or a path of its own, in place of `endpoint` and `directory`."""
    layout: Literal["prefix", "folders"] = "prefix"
    """`prefix`: marks before the names; `folders`: a folder for each state."""
    folders: list[str] = list(DEFAULT_FOLDERS)
    """The five folders of that layout: unfinished, ready, claimed, after and error images."""
    width: Annotated[int, Field(ge=1, le=18)] = DEFAULT_WIDTH
    """Digits of a number."""
    signal: Signal = Signal.MANIFEST
    """What says that an item is complete: its manifest, a `checksum` file (sha256sum), or `none`: its own rename."""
    verify: Verify = Verify.SIZE
    """`readback` reads again what the server has stored, and compares the hash, before it is published."""
    hash: str = DEFAULT_ALGORITHM
    """The hash in manifests: sha256, sha384, sha512, sha3-256 or blake2b."""
    groups: list[str] = []
    """Group prefixes, such as orders_."""
    busy_patience: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 30.0
    """Seconds that a file which somebody has open is waited for."""
    trusted_keys: list[str] = []
    """Ed25519 public keys in base64: what is not signed by one of them becomes an error image."""
    signing_key_file: Path | None = None
    """An Ed25519 key in PEM (openssl genpkey -algorithm ed25519) that signs the manifests of what is sent."""
    before_max_age: _Hours = None
    """Hours after which a worker's sweep tells of unfinished files."""
    ready_max_age: _Hours = None
    """Hours after which a worker's sweep tells of ready items that nobody takes."""
    after_max_age: _Hours = None
    """Hours after which after images are moved into archive/DAY/."""
    after_keep: Annotated[int, Field(ge=0)] | None = None
    """So many after images of a group stay; the older ones are moved into archive/DAY/."""
    receipts: bool = False
    """Write what became of each item beside its after or error image, and carry it back to the source."""

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
        trusted = frozenset(self.trusted_keys)
        return Rules(layout, self.signal, self.hash, self.verify, self.busy_patience, trusted, self.receipts)


class RouteSettings(Section):
    """`[[route]]`: every item of the groups goes from one drop to another, under its own number and key."""

    model_config = ConfigDict(populate_by_name=True)

    from_: Annotated[str, Field(alias="from")]
    """The drop that items are taken from."""
    to: list[str]
    """The drop that they are brought to, or a list of drops."""
    name: str = ""
    """What log, page and metrics call it; unless given, its ends."""
    groups: list[str] = []
    """Which groups it carries; unless given, those of the drop it takes from."""
    suffixes: list[str] = []
    """Only items with a file of one of these suffixes, such as csv."""
    meta: dict[str, str | int | float | bool] = {}
    """Only items whose manifest says the same in its meta, such as { country = "DE" }."""
    ordering: Ordering = Ordering.SHUFFLE
    """`fifo`: ascending, may run in parallel; `strict`: one at a time, none before a lower one is settled."""
    workers: Annotated[int, Field(ge=1, le=64)] = 1
    """So many items at once, each over connections of its own."""
    max_attempts: Annotated[int, Field(ge=1)] = 5
    """After so many failures an item becomes an error image."""
    poll: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1.0
    """Seconds between two looks at a source that is empty."""
    lease_ttl: Annotated[float, Field(ge=SHORTEST_TTL, allow_inf_nan=False)] = DEFAULT_TTL
    """Seconds after a worker's death until others take its items over."""
    gap_timeout: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 300.0
    """Strict order: seconds that a missing number is waited for."""
    on_gap: OnGap = OnGap.ALERT
    """Strict order, after that: `alert` tells, and goes on waiting; `skip` goes on with the next."""
    on_error: OnError = OnError.STOP
    """Strict order: an error image stops its group until somebody deals with it, or is passed."""
    numbering: Literal["same", "counter"] = "same"
    """`same`: items keep their number; `counter`: the destination gives them a new one."""
    original_names: bool = False
    """Publish under the names that the producer knew, without number and manifest, for a reader that knows nothing of drops."""
    verify: Verify | None = None
    """As `verify` of the drop, for what this route publishes."""
    bandwidth: str | None = None
    """At most so much, such as 2 MiB/s."""
    windows: list[str] = []
    """Only at these times, such as 22:00-06:00 or mon-fri 08:00-12:00."""
    timezone: Zone | None = None
    """The time zone of the windows, such as Europe/Berlin; unless given, this host's."""

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
    """Where it is kept: memory:, sqlite:///, journal:/// or postgresql://; unless given, a file of the account."""
    consumer: Annotated[str, Field(min_length=1, max_length=40)] | None = None
    """Whose work it is: a name that all workers share."""


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
