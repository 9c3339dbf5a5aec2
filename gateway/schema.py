"""The JSON Schema of a configuration file, for editors: made from the models, and fitted to what TOML can say.

It refuses by shape: keys, kinds of values, limits, and what can be said by a pattern. What one part of a file says of another
is for `dropgate check`.
"""

from typing import Any

from gateway.settings import NAME_PATTERN, Settings

_TITLE = "dropgate configuration"
_CLOCK = r"(?:[01]\d|2[0-3]):[0-5]\d"
_DAY = r"(?:[Mm]on|[Tt]ue|[Ww]ed|[Tt]hu|[Ff]ri|[Ss]at|[Ss]un)"
_DAYS = rf"(?:{_DAY}(?:-{_DAY})?|weekdays|weekend|daily)"
_SPAN = r"^\s*\d+\s*(?:s|m|min|h|d)\s*$"

# Of texts that `gateway.times` reads, by model and key; a list has the pattern for each of its parts.
PATTERNS = {
    ("RouteSettings", "bandwidth"): r"^\s*\d+(?:\.\d+)?\s*(?:B|kB|MB|GB|KiB|MiB|GiB)/s\s*$",
    ("RouteSettings", "windows"): rf"^\s*(?:{_DAYS}\s+)?(?:{_CLOCK}|24:00)-(?:{_CLOCK}|24:00)\s*$",
    ("RouteSettings", "suffixes"): r"^[A-Za-z0-9]+(?:\.[A-Za-z0-9]+)*$",
    ("ExpectSettings", "every"): _SPAN,
    ("ExpectSettings", "by"): rf"^{_CLOCK}$",
    ("ExpectSettings", "after"): rf"^{_CLOCK}$",
    ("ExpectSettings", "on"): rf"^{_DAYS}$",
    **{("AlarmsSettings", key): _SPAN for key in ("before_age", "ready_age", "gap_age", "away_age", "clock_offset")},
    **{(model, "listen"): r":\d+$" for model in ("WebSettings", "MetricsSettings")},
    ("DropSettings", "hash"): r"^(?:sha256|sha384|sha512|sha3-256|blake2b)$",
}

# What the keys of one table say of each other.
_EITHER = {"DropSettings": ("endpoint", "url"), "ExpectSettings": ("every", "by")}
_NOT_BOTH = {
    "EndpointSettings": ("password", "password_file"),
    "WebSettings": ("token", "token_file"),
    "AlarmsSettings": ("webhook_secret", "webhook_secret_file"),
}
_NEEDS = {"DropSettings": {"directory": ["endpoint"]}, "ExpectSettings": {"on": ["by"], "after": ["by"], "timezone": ["by"]}}


def schema() -> dict[str, Any]:
    """The schema, draft 2020-12, as JSON takes it."""
    made = _fitted(Settings.model_json_schema(by_alias=True))
    models = made["$defs"]
    for (model, key), pattern in PATTERNS.items():
        field = models[model]["properties"][key]
        (field["items"] if field.get("type") == "array" else field)["pattern"] = pattern
    for model, keys in _EITHER.items():
        models[model]["oneOf"] = [{"required": [key]} for key in keys]
    for model, keys in _NOT_BOTH.items():
        models[model]["not"] = {"required": list(keys)}
    for model, needed in _NEEDS.items():
        models[model]["dependentRequired"] = needed
    to = models["RouteSettings"]["properties"]["to"]
    several = {"type": "array", "items": to.pop("items"), "minItems": 1, "uniqueItems": True}
    to["anyOf"] = [{"type": "string"}, several]
    del to["type"]
    models["DropSettings"]["properties"]["folders"] |= {"minItems": 5, "maxItems": 5}
    for section in ("endpoint", "drop"):
        made["properties"][section]["propertyNames"] = {"pattern": f"^{NAME_PATTERN}$"}
    about = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": _TITLE}
    return {**about, **made, "description": "Settings of dropgate, one TOML file."}


def _fitted(part: Any, *, names: bool = False) -> Any:
    """The part less what TOML cannot say, which is null, and less the titles that only repeat the keys.

    `names`: the part is a table of names, and one of them may be called "title".
    """
    if isinstance(part, list):
        return [_fitted(one) for one in part]
    if not isinstance(part, dict):
        return part
    if names:
        return {name: _fitted(inner) for name, inner in part.items()}
    kept = {word: inner for word, inner in part.items() if word not in ("title", "writeOnly")}
    if kept.get("default", 0) in (None, [], {}, "") or isinstance(kept.get("default"), dict):
        del kept["default"]
    if "anyOf" in kept:
        several = [one for one in kept["anyOf"] if one != {"type": "null"}]
        if len(several) == 1:
            del kept["anyOf"]
            # Its own description comes from the class, and ours says what the key means.
            kept = {**several[0], **kept}
        else:
            kept["anyOf"] = several
    return {word: _fitted(inner, names=word in ("properties", "$defs")) for word, inner in kept.items()}
