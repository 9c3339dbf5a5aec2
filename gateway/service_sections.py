"""The tables of the configuration that are about the service itself: [web], [metrics], [journal], [alarms], [[expect]], ...

Each is checked in itself; what one says of another is checked by `gateway.settings`.
"""

from collections.abc import Mapping
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, SecretStr, field_validator

from gateway.faults import Faults
from gateway.sections import Section, Zone
from gateway.times import clock_time, days, span


def listen_address(text: str) -> tuple[str, int]:
    """Host and port of "127.0.0.1:8080" or "[::1]:8080". Raises ValueError."""
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not host or not port.isdecimal() or not 0 <= int(port) <= 65535:
        raise ValueError(f"{text!r} is no address to listen on; write 127.0.0.1:8080")
    try:
        ip_address(host)
    except ValueError:
        if host != "localhost":
            raise ValueError(f"{host!r} is no IP address; write one of this host's, or 0.0.0.0 for all of them") from None
    return host, int(port)


def is_loopback(text: str) -> bool:
    """Whether an address to listen on is reached from this host alone."""
    host, _ = listen_address(text)
    return host == "localhost" or ip_address(host).is_loopback


class _Listens(Section):
    @field_validator("listen", check_fields=False)
    @classmethod
    def _an_address(cls, text: str) -> str:
        listen_address(text)
        return text


class UserSettings(Section):
    """`[web.user.NAME]`: somebody who may see the page; an operator may also press its buttons."""

    password_hash: Annotated[str, Field(pattern=r"^\$argon2id\$", repr=False)]
    """The argon2id hash of the password."""
    role: Literal["viewer", "operator"] = "viewer"
    """An operator may also press buttons."""


class WebSettings(_Listens):
    """`[web]`: the page. Without `token` and users it is bound to this host alone, and whoever is on it is an operator."""

    listen: str = "127.0.0.1:8080"
    """Address and port of the page."""
    token: SecretStr | None = None
    """A secret that opens the page to whoever gives it."""
    token_file: Path | None = None
    """A file that holds the token, in place of `token`."""
    user: dict[str, UserSettings] = Field(default={})
    """Who may see the page, by name."""

    @classmethod
    def contradictions(cls, given: Mapping[str, Any]) -> Faults:
        if "token" in given and "token_file" in given:
            yield "token_file", "give token or token_file, not both"
        listen = given.get("listen", "127.0.0.1:8080")
        try:
            open_to_all = isinstance(listen, str) and not is_loopback(listen)
        except ValueError:
            return  # told as the fault of its own key
        if open_to_all and not ("token" in given or "token_file" in given or given.get("user")):
            yield "listen", "is not on this host alone, so give token, token_file or [web.user.NAME]"


class MetricsSettings(_Listens):
    """`[metrics]`: Prometheus text at /metrics, and /healthz and /readyz, on an address of their own."""

    listen: str = "127.0.0.1:9464"
    """Address and port of /metrics, /healthz and /readyz."""


class TracingSettings(Section):
    """`[tracing]`: OpenTelemetry traces, one for each item across hops, sent by OTLP over HTTP to `endpoint`."""

    endpoint: Annotated[str, Field(pattern=r"^https?://[^/\s]+")]
    """Where traces are sent by OTLP over HTTP, such as http://127.0.0.1:4318."""


class JournalSettings(Section):
    """`[journal]`: every transition as a line of JSON, in a file that is rotated at `max_mib`, `keep` old ones being kept.

    With `database`, in the ledger's database as well.
    """

    file: Path | None = None
    """The file that every transition is written to; unless given, one in the account's state folder."""
    max_mib: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 16.0
    """MiB after which a new file is begun."""
    keep: Annotated[int, Field(ge=1, le=1000)] = 8
    """So many old files are kept."""
    database: bool = False
    """Write it into the ledger's database as well."""


class AlarmsSettings(Section):
    """`[alarms]`: when something is wrong, and who is told. A limit of 0 switches its alarm off."""

    before_age: str = "1h"
    """Unfinished files that are older."""
    ready_age: str = "15m"
    """Ready items that nobody has taken for so long."""
    errors: Annotated[int, Field(ge=0)] = 1
    """So many error images in a group, or more."""
    gap_age: str = "15m"
    """A number that has been missing in strict order for so long."""
    away_age: str = "2m"
    """An endpoint that has not answered for so long."""
    clock_offset: str = "1m"
    """A difference between a server's clock and this host's."""
    free_mib: Annotated[int, Field(ge=0)] = 512
    """MiB that a server has left, or less."""
    webhook: Annotated[str | None, Field(pattern=r"^https?://[^/\s]+", repr=False)] = None
    """A URL that each alarm is sent to, as a CloudEvent in JSON."""
    webhook_secret: Annotated[SecretStr | None, Field(repr=False)] = None
    """Signs what is sent there (HMAC)."""
    webhook_secret_file: Annotated[Path | None, Field(repr=False)] = None
    """A file that holds that secret, in place of `webhook_secret`."""
    command: list[str] = Field(default=[])
    """A program and its arguments, run for each alarm."""

    @field_validator("before_age", "ready_age", "gap_age", "away_age", "clock_offset")
    @classmethod
    def _a_span(cls, text: str) -> str:
        span(text)
        return text

    @classmethod
    def contradictions(cls, given: Mapping[str, Any]) -> Faults:
        if "webhook_secret" in given and "webhook_secret_file" in given:
            yield "webhook_secret_file", "give webhook_secret or webhook_secret_file, not both"
        for key in ("webhook_secret", "webhook_secret_file"):
            if key in given and "webhook" not in given:
                yield key, "belongs to webhook, and there is none"


class ExpectSettings(Section):
    """`[[expect]]`: what should come into a group of a drop: `items` by a time of day, or every so often."""

    drop: str
    """The drop that something should come into."""
    group: str
    """The group that it should come in."""
    every: str | None = None
    """So often, such as 15m."""
    by: str | None = None
    """By this time of day, such as 06:00, in place of `every`."""
    after: str | None = None
    """What counts for `by` came after this time of day; unless given, after midnight."""
    on: list[str] = Field(default=["daily"])
    """On these days: mon to sun, mon-fri, weekdays, weekend, daily."""
    items: Annotated[int, Field(ge=1)] = 1
    """So many items, or more."""
    timezone: Zone | None = None
    """The time zone of `by`, such as Europe/Berlin; unless given, this host's."""

    @field_validator("every")
    @classmethod
    def _a_span(cls, text: str | None) -> str | None:
        if text is not None and span(text) <= 0:
            raise ValueError("a span of time that is not 0")
        return text

    @field_validator("by", "after")
    @classmethod
    def _a_time(cls, text: str | None) -> str | None:
        if text is not None:
            clock_time(text)
        return text

    @field_validator("on")
    @classmethod
    def _some_days(cls, texts: list[str]) -> list[str]:
        if not days(texts):
            raise ValueError("name at least one day")
        return texts

    @classmethod
    def contradictions(cls, given: Mapping[str, Any]) -> Faults:
        if ("every" in given) == ("by" in given):
            yield "", "give either every (such as '15m') or by (such as '06:00')"
        for key in ("after", "on", "timezone"):
            if key in given and "by" not in given:
                yield key, "belongs to by"


class ServiceSettings(Section):
    """`[service]`: how the process behaves as a whole; spans are in seconds."""

    stop_timeout: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 60.0
    """Seconds for the items at hand when it is stopped; after that they are given back."""
    observe: Annotated[float, Field(ge=1, allow_inf_nan=False)] = 5.0
    """Seconds between two looks at a drop, for page, metrics and alarms."""
