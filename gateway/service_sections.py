"""The tables of the configuration that are about the service itself: [web], [metrics], [journal], [alarms], [[expect]], ...

Each is checked in itself; what one says of another is checked by `gateway.settings`.
"""

from collections.abc import Mapping
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, SecretStr, field_validator

from gateway.faults import Faults
from gateway.sections import Section
from gateway.times import clock_time, days, known_zone, span


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
    role: Literal["viewer", "operator"] = "viewer"


class WebSettings(_Listens):
    """`[web]`: the page. Without `token` and users it is bound to this host alone, and whoever is on it is an operator."""

    listen: str = "127.0.0.1:8080"
    token: SecretStr | None = None
    token_file: Path | None = None
    user: dict[str, UserSettings] = Field(default={})

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


class TracingSettings(Section):
    """`[tracing]`: OpenTelemetry traces, one for each item across hops, sent by OTLP over HTTP to `endpoint`."""

    endpoint: Annotated[str, Field(pattern=r"^https?://[^/\s]+")]


class JournalSettings(Section):
    """`[journal]`: every transition as a line of JSON, in a file that is rotated at `max_mib`, `keep` old ones being kept.

    With `database`, in the ledger's database as well.
    """

    file: Path | None = None
    max_mib: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 16.0
    keep: Annotated[int, Field(ge=1, le=1000)] = 8
    database: bool = False


class AlarmsSettings(Section):
    """`[alarms]`: when something is wrong, and who is told. A limit of 0 switches its alarm off."""

    before_age: str = "1h"  # a B_ older than this
    ready_age: str = "15m"  # a ready item that nobody has taken for so long
    errors: Annotated[int, Field(ge=0)] = 1  # so many error images or more
    gap_age: str = "15m"  # a missing number in a strict route
    away_age: str = "2m"  # an endpoint that does not answer for so long
    clock_offset: str = "1m"  # between a server and this host
    free_mib: Annotated[int, Field(ge=0)] = 512  # less than this is left
    webhook: Annotated[str | None, Field(pattern=r"^https?://[^/\s]+", repr=False)] = None
    webhook_secret: Annotated[SecretStr | None, Field(repr=False)] = None
    webhook_secret_file: Annotated[Path | None, Field(repr=False)] = None
    command: list[str] = Field(default=[])

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
    group: str
    every: str | None = None
    by: str | None = None
    after: str | None = None  # what counts for `by` came after this time of day; midnight, unless given
    on: list[str] = Field(default=["daily"])
    items: Annotated[int, Field(ge=1)] = 1
    timezone: str | None = None  # this host's, unless given

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

    @field_validator("timezone")
    @classmethod
    def _a_zone(cls, name: str | None) -> str | None:
        return name if name is None else known_zone(name)

    @classmethod
    def contradictions(cls, given: Mapping[str, Any]) -> Faults:
        if ("every" in given) == ("by" in given):
            yield "", "give either every (such as '15m') or by (such as '06:00')"
        for key in ("after", "on", "timezone"):
            if key in given and "by" not in given:
                yield key, "belongs to by"


class ServiceSettings(Section):
    """`[service]`: how the process behaves as a whole; spans are in seconds."""

    stop_timeout: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 60.0  # for items at hand; after it they are given back
    observe: Annotated[float, Field(ge=1, allow_inf_nan=False)] = 5.0  # between two looks at a drop
