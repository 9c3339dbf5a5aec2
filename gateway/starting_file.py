"""The configuration that `dropgate init` writes: small, usable as it stands, with every other key explained and commented out.

What each key means is taken from the models. A line of prose begins with "# ", a line that can be uncommented with "#" alone.
"""

import json
from collections.abc import Iterator
from enum import Enum
from typing import Any

from pydantic_core import PydanticUndefined

from gateway.settings import Settings
from gateway.tables import Table, tables

_BEGIN = """\
# Settings of dropgate: two folders, and a route that carries orders_ from one to the other.
#
#   mkdir outbox inbox        relative paths begin in the folder of this file
#   dropgate check            whether the file is right; --connect also tries every place
#   dropgate run {name}
#
# What begins with "#" and no space after it can be uncommented; its value is the default, or an example.
# Every key can also come from the environment: DROPGATE_ENDPOINT__BANK__PASSWORD sets password of [endpoint.bank].
# An editor that knows TOML helps, after `dropgate schema > dropgate.schema.json`, by a first line that says:
# #:schema ./dropgate.schema.json
"""

# Each table that the file shows: how it is headed, what stands in it for real, and whether its other keys are shown with it.
_SHOWN: tuple[tuple[str, dict[str, Any], bool], ...] = (
    ("[drop.outbox]", {"url": "outbox", "groups": ["orders_"]}, True),
    ("[drop.inbox]", {"url": "inbox"}, False),
    ("[[route]]", {"from": "outbox", "to": "inbox"}, True),
    ("#[endpoint.bank]", {"url": "sftp://orders@files.example/srv/drops"}, True),
    ("#[drop.bank-in]", {"endpoint": "bank", "directory": "in"}, False),
    ("#[ledger]", {}, True),
    ("#[service]", {}, True),
    ("#[journal]", {}, True),
    ("#[web]", {}, True),
    ("#[web.user.anna]", {"password_hash": "$argon2id$v=19$m=65536,t=3,p=4$c2FsdHNhbHQ$aGFzaA"}, True),
    ("#[metrics]", {}, True),
    ("#[tracing]", {"endpoint": "http://127.0.0.1:4318"}, True),
    ("#[alarms]", {}, True),
    ("#[[expect]]", {"drop": "outbox", "group": "orders_", "by": "06:00"}, True),
)

# Of keys that have no default, or one that shows nothing.
_EXAMPLES: dict[str, dict[str, Any]] = {
    "[endpoint.NAME]": {
        "password": "...",
        "password_file": "secrets/bank",
        "key_files": ["keys/bank_ed25519"],
        "key_passphrase": "...",
        "host_key": "SHA256:Lc5EoYzeX0ZYzI7B7CQpch2WlUqAfrY/8XOb2jG3lFg",
        "known_hosts": "keys/known_hosts",
        "max_connections": 8,
    },
    "[drop.NAME]": {
        "trusted_keys": ["11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo="],
        "signing_key_file": "keys/sign.pem",
        "before_max_age": 24,
        "ready_max_age": 4,
        "after_max_age": 720,
        "after_keep": 1000,
    },
    "[[route]]": {
        "name": "orders",
        "groups": ["orders_"],
        "suffixes": ["csv"],
        "meta": {"country": "DE"},
        "verify": "readback",
        "bandwidth": "2 MiB/s",
        "windows": ["mon-fri 22:00-06:00"],
        "timezone": "Europe/Berlin",
    },
    "[ledger]": {"url": "sqlite:///var/lib/dropgate/ledger.db", "consumer": "orders"},
    "[web]": {"token": "...", "token_file": "secrets/token"},
    "[journal]": {"file": "journal.jsonl"},
    "[alarms]": {
        "webhook": "https://alarms.example/dropgate",
        "webhook_secret": "...",
        "webhook_secret_file": "secrets/webhook",
        "command": ["/usr/local/bin/tell-somebody"],
    },
    "[[expect]]": {"every": "15m", "after": "00:00", "timezone": "Europe/Berlin"},
}

# What has to be said with a key for it to be right, in the words of the file.
_NEEDS = {
    ("[endpoint.NAME]", "encrypt"): "an smb:// URL",
    ("[drop.NAME]", "folders"): 'layout = "folders"',
    ("[[route]]", "gap_timeout"): 'ordering = "strict"',
    ("[[route]]", "on_gap"): 'ordering = "strict"',
    ("[[route]]", "on_error"): 'ordering = "strict"',
    ("[[route]]", "timezone"): "windows",
    ("[alarms]", "webhook_secret"): "webhook",
    ("[alarms]", "webhook_secret_file"): "webhook",
}


def starting_file(name: str) -> str:
    """The text of a file of this name. It is right as it stands."""
    return "\n".join([_BEGIN.format(name=name), *(line for shown in _SHOWN for line in _section(*shown))]).rstrip() + "\n"


def kind_of(heading: str) -> Table:
    """The kind of table that a heading of the file begins."""
    inner = heading.lstrip("#").strip("[]").split(".")
    return next(
        table for table in tables(Settings) if len(table.path) - ("[[" in heading) == len(inner) and _fits(table, inner)
    )


def _fits(table: Table, inner: list[str]) -> bool:
    return all(own in ("*", part) for own, part in zip(table.path, inner, strict=False))


def _section(heading: str, given: dict[str, Any], whole: bool) -> Iterator[str]:
    table, mark = kind_of(heading), "#" if heading.startswith("#") else ""
    if whole:
        yield f"# {(table.model.__doc__ or '').splitlines()[0].replace('`', '')}"
    yield heading
    for key, value in given.items():
        if whole or mark:
            yield f"# {_meaning(table, key)}" + (
                f" Needs [endpoint.{value}]." if key == "endpoint" and "drop." in heading else ""
            )
        yield f"{mark}{key} = {toml(value)}"
    for key in table.keys if whole else ():
        # A drop of its own URL has no endpoint; another one shows that.
        if key not in given and not ("url" in given and key in ("endpoint", "directory")):
            need = _NEEDS.get((table.heading, key))
            yield f"# {_meaning(table, key)}" + (f" Needs {need}." if need else "")
            yield f"#{key} = {toml(_value(table, key))}"
    yield ""


def _meaning(table: Table, key: str) -> str:
    fields = table.model.model_fields.items()
    return next(field.description or "" for name, field in fields if (field.alias or name) == key)


def _value(table: Table, key: str) -> Any:
    example = _EXAMPLES.get(table.heading, {}).get(key)
    default = table.model.model_fields[key].default
    return default if example is None and default is not PydanticUndefined else example


def toml(value: Any) -> str:
    """A value as the file writes it."""
    match value:
        case bool():
            return str(value).lower()
        case Enum():
            return toml(value.value)
        case int() | float():
            return f"{value:g}"
        case list():
            return f"[{', '.join(map(toml, value))}]"
        case dict():
            return "{ " + ", ".join(f"{key} = {toml(inner)}" for key, inner in value.items()) + " }"
        case _:
            return json.dumps(str(value), ensure_ascii=False)
