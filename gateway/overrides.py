"""Values that stand over the configuration file: environment variables, and files of a secrets directory.

Each is named by the path of its key, DROPGATE_ENDPOINT__BANK__PASSWORD for `password` of `[endpoint.bank]`; a file is named
the same way, without the prefix: `endpoint__bank__password`. Case does not matter, and "_" also stands for the "-" and "."
of a name, since no shell can export those. Values are taken literally; of a list, the parts are separated by commas.
"""

import re
from collections.abc import Container, Iterator, Mapping
from pathlib import Path
from typing import Any

from gateway.errors import ConfigurationError

PREFIX = "DROPGATE_"
SECRETS_VARIABLE = "DROPGATE_SECRETS_DIR"

Section = Mapping[str, Any]
Lists = Mapping[str, frozenset[str]]


def from_environment(environment: Mapping[str, str], file: Section, named: Lists, single: Lists) -> dict[str, Any]:
    """What the environment sets, nested as the file is. `named` are the sections whose tables have names, `single` the others,
    each with those of its keys that hold lists.

    Other variables of our prefix are none of ours: DROPGATE_CONFIG, and what `--exec` tells its command.
    """
    texts = {
        name[len(PREFIX) :]: value for name, value in environment.items() if name.upper().startswith(PREFIX) and value != ""
    }
    return _nested(texts, file, named, single)


def from_secrets(environment: Mapping[str, str], file: Section, named: Lists, single: Lists) -> dict[str, Any]:
    """What the files of the secrets directory set, each less one newline at its end. Raises ConfigurationError."""
    place = environment.get(SECRETS_VARIABLE)
    if not place:
        return {}
    folder = Path(place)
    try:
        texts = dict(_secrets(folder, {*named, *single}))
    except OSError as error:
        raise ConfigurationError(f"{SECRETS_VARIABLE}: {error.filename or folder}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"{SECRETS_VARIABLE}: a file in {folder} is not UTF-8 text") from error
    return _nested(texts, file, named, single)


def _secrets(folder: Path, sections: Container[str]) -> Iterator[tuple[str, str]]:
    for path in sorted(folder.iterdir()):
        # Kubernetes keeps its own links beside the files; systemd may keep credentials of others there.
        if path.name.lower().partition("__")[0] in sections and path.is_file():
            yield path.name, path.read_bytes().decode().removesuffix("\n").removesuffix("\r")


def _nested(texts: Mapping[str, str], file: Section, named: Lists, single: Lists) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for text_name, text in texts.items():
        section, *path = text_name.lower().split("__")
        if not path or (section not in named and section not in single):
            continue
        if len(path) != 1 + (section in named) or not all(path):
            shape = f"{section.upper()}__NAME__KEY" if section in named else f"{section.upper()}__KEY"
            raise ConfigurationError(f"{text_name}: a key is named by its path, such as {shape}")
        table = found.setdefault(section, {})
        if section in named:
            table = table.setdefault(_as_written(path[0], section, file), {})
        lists = named[section] if section in named else single[section]
        table[path[-1]] = [part.strip() for part in text.split(",")] if path[-1] in lists else text
    return found


def _as_written(name: str, section: str, file: Section) -> str:
    """The name as the file writes it; itself, where the file has none like it."""
    known = file.get(section)
    like = [other for other in known if _folded(other) == _folded(name)] if isinstance(known, Mapping) else []
    if len(like) > 1:
        raise ConfigurationError(f"{section.upper()}__{name.upper()}: is it {' or '.join(sorted(like))}? Rename one of them")
    return like[0] if like else name


def _folded(name: str) -> str:
    return re.sub(r"[-.]", "_", name.lower())
