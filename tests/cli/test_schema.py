"""`dropgate schema` prints what an editor needs: it takes what the settings take, and refuses what they refuse by shape."""

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from gateway.errors import ConfigurationError
from gateway.faults import FaultyConfiguration
from gateway.settings import Settings, load
from gateway.starting_file import starting_file
from gateway.tables import tables
from tests.cli.golden_files import BAD
from tests.cli.tools import Place

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def validator(tmp_path_factory: pytest.TempPathFactory) -> Draft202012Validator:
    """What the command prints, as an editor uses it."""
    folder = tmp_path_factory.mktemp("schema")
    printed = json.loads(Place(folder, folder).called("schema").out)
    Draft202012Validator.check_schema(printed)
    return Draft202012Validator(printed)


def paths(validator: Draft202012Validator, values: dict[str, Any]) -> set[tuple[str | int, ...]]:
    """Where it finds something wrong: the values themselves, and keys that are not known or missing."""
    found: set[tuple[str | int, ...]] = set()
    for error in validator.iter_errors(values):
        at = tuple(error.absolute_path)
        found.add(at)
        if error.validator == "additionalProperties" and isinstance(error.instance, dict):
            known = error.schema["properties"] if isinstance(error.schema, dict) else {}
            found |= {(*at, key) for key in error.instance if key not in known}
        if error.validator == "required" and isinstance(error.instance, dict):
            found |= {(*at, key) for key in error.validator_value if key not in error.instance}
    return found


def right_ones() -> dict[str, str]:
    """Every configuration that the documents and examples show."""
    texts = {"init": starting_file("dropgate.toml")}
    for path in (*ROOT.glob("examples/**/*.toml"), *ROOT.glob("deploy/**/*.toml")):
        texts[str(path.relative_to(ROOT))] = path.read_text(encoding="utf-8")
    for page in (ROOT / "README.md", *ROOT.glob("docs/*.md")):
        blocks = re.findall(r"^```toml\n(.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
        texts |= {f"{page.name} {number}": block for number, block in enumerate(blocks)}
    return texts


@pytest.mark.parametrize(("name", "text"), right_ones().items(), ids=right_ones().keys())
def test_what_is_shown_is_right(validator: Draft202012Validator, name: str, text: str) -> None:
    assert paths(validator, tomllib.loads(text)) == set(), name


@pytest.mark.parametrize("bad", BAD, ids=lambda path: path.stem)
def test_what_is_refused_by_shape_is_refused_by_the_schema(validator: Draft202012Validator, bad: Path) -> None:
    try:
        load(bad)
    except FaultyConfiguration as error:
        # Not what one key says of another, nor texts that are read by a grammar of their own.
        by_shape = [fault for fault in error.faults if fault.kind not in ("fault", "value_error", "finite_number")]
        found = paths(validator, tomllib.loads(bad.read_text(encoding="utf-8")))
        assert [fault.name for fault in by_shape if fault.key not in found] == []
    except ConfigurationError:
        pass  # it is no TOML at all


@pytest.mark.parametrize(
    ("section", "key", "right", "wrong"),
    [
        ("route", "bandwidth", ["2 MiB/s", "500kB/s", "1.5 GB/s"], ["2 megabytes", "2", "fast"]),
        ("route", "windows", ["22:00-06:00", "mon-fri 08:00-12:00", "weekend 00:00-24:00"], ["night", "26:00-27:00", "8-12"]),
        ("route", "suffixes", ["csv", "tar.gz"], [".csv", "a/b", "a..b"]),
        ("expect", "every", ["90s", "15m", "15 min", "2h", "1d"], ["an hour", "1.5h", "1w"]),
        ("expect", "by", ["06:00", "23:59"], ["6 am", "24:00", "6:00"]),
        ("expect", "on", ["mon", "mon-fri", "weekdays", "weekend", "daily"], ["holidays", "mo"]),
        ("alarms", "before_age", ["1h"], ["later"]),
        ("drop", "hash", ["sha256", "blake2b"], ["md5"]),
    ],
)
def test_its_patterns_say_what_the_settings_say(
    validator: Draft202012Validator, tmp_path: Path, section: str, key: str, right: list[str], wrong: list[str]
) -> None:
    base = '[drop.a]\nurl = "a"\ngroups = ["x_"]\n[drop.b]\nurl = "b"\n'
    tops = {
        "route": base + '[[route]]\nfrom = "a"\nto = "b"\n',
        "expect": base + '[[expect]]\ndrop = "a"\ngroup = "x_"\n' + ('by = "06:00"\n' if key == "on" else ""),
        "alarms": base + "[alarms]\n",
        "drop": base,
    }
    path = tmp_path / "dropgate.toml"
    for text, good in [*((text, True) for text in right), *((text, False) for text in wrong)]:
        value = json.dumps([text] if key in ("windows", "suffixes", "on") else text)
        path.write_text(f"{tops[section]}{key} = {value}\n", encoding="utf-8")
        assert (paths(validator, tomllib.loads(path.read_text())) == set()) is good, text
        if good:
            load(path)
        else:
            with pytest.raises(FaultyConfiguration):
                load(path)


def test_every_key_is_described(validator: Draft202012Validator) -> None:
    assert isinstance(validator.schema, dict)
    models = validator.schema["$defs"]
    for table in tables(Settings):
        properties = models[table.model.__name__]["properties"]
        assert set(table.keys) <= set(properties)
        for key in table.keys:
            assert len(properties[key].get("description", "")) > 10, f"{table.heading} {key}"
    assert "from" in models["RouteSettings"]["properties"], "as the file writes it"
    assert '"null"' not in json.dumps(validator.schema), "TOML has none"
