"""The tables of docs/configuration.md, from what the models say of each key.

After a change of a key, write them anew:  .venv/bin/python -m tests.e2e.configuration_page
"""

from pathlib import Path

from pydantic_core import PydanticUndefined

from gateway.settings import Settings
from gateway.starting_file import toml
from gateway.tables import Table, tables

PAGE = Path(__file__).parents[2] / "docs" / "configuration.md"
BEGIN = "## Every key\n"


def every_key() -> str:
    """What stands on the page from its last heading on."""
    return "\n".join([BEGIN, *(line for table in tables(Settings) for line in _lines(table))]).rstrip() + "\n"


def _lines(table: Table) -> list[str]:
    """One table: what its class says of it, and a row for each key."""
    about = " ".join((table.model.__doc__ or "").split()).partition(": ")[2]
    rows = []
    for name, field in table.model.model_fields.items():
        key = field.alias or name
        if key in table.keys:
            default = "" if field.default in (None, PydanticUndefined, "", [], {}) else f"`{toml(field.default)}`"
            must = "required" if field.is_required() else default
            rows.append(f"| `{key}` |{f' {must} ' if must else ' '}| {(field.description or '').replace('|', chr(92) + '|')} |")
    return [
        f"### `{table.heading}`\n",
        f"{about[:1].upper()}{about[1:]}\n",
        "| key | default | meaning |",
        "| --- | --- | --- |",
        *rows,
        "",
    ]


def _rewrite() -> None:
    PAGE.write_text(PAGE.read_text(encoding="utf-8").partition(BEGIN)[0] + every_key(), encoding="utf-8")


if __name__ == "__main__":
    _rewrite()
