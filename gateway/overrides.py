"""Values that stand over the configuration file: environment variables, and files of a secrets directory.

Each is named by the path of its key, DROPGATE_ENDPOINT__BANK__PASSWORD for `password` of `[endpoint.bank]`; a file is named
the same way, without the prefix: `endpoint__bank__password`. Case does not matter, and "_" also stands for the "-" and "."
of a name, since no shell can export those. Values are taken literally; of a list, the parts are separated by commas.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from gateway.errors import ConfigurationError

PREFIX = "DROPGATE_"
SECRETS_VARIABLE = "DROPGATE_SECRETS_DIR"

Section = Mapping[str, Any]


def from_environment(environment: Mapping[str, str], file: Section, lists: Mapping[str, frozenset[str]]) -> dict[str, Any]:
    """What the environment sets, nested as the file is. `lists` says which keys of each section hold lists.

    Other variables of our prefix are none of ours: DROPGATE_CONFIG, and what `--exec` tells its command.
    """
    texts = {
        name[len(PREFIX) :]: value for name, value in environment.items() if name.upper().startswith(PREFIX) and value != ""
    }
    return _nested(texts, file, lists)


def from_secrets(environment: Mapping[str, str], file: Section, lists: Mapping[str, frozenset[str]]) -> dict[str, Any]:
    """What the files of the secrets directory set, each less one newline at its end. Raises ConfigurationError."""
    named = environment.get(SECRETS_VARIABLE)
    if not named:
        return {}
    folder = Path(named)
    try:
        texts = dict(_secrets(folder, lists))
    except OSError as error:
        raise ConfigurationError(f"{SECRETS_VARIABLE}: {error.filename or folder}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"{SECRETS_VARIABLE}: a file in {folder} is not UTF-8 text") from error
    return _nested(texts, file, lists)


def _secrets(folder: Path, lists: Mapping[str, frozenset[str]]) -> Iterator[tuple[str, str]]:
    for path in sorted(folder.iterdir()):
        # Kubernetes keeps its own links beside the files; systemd may keep credentials of others there.
        if path.name.lower().partition("__")[0] in lists and path.is_file():
            yield path.name, path.read_bytes().decode().removesuffix("\n").removesuffix("\r")


def _nested(texts: Mapping[str, str], file: Section, lists: Mapping[str, frozenset[str]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for text_name, text in texts.items():
        section, *path = text_name.lower().split("__")
        if section not in lists or not path:
            continue
        if len(path) != 2 or not all(path):
            raise ConfigurationError(f"{text_name}: a key is named by its path, such as {section.upper()}__NAME__KEY")
        name = _as_written(path[0], section, file)
        value = [part.strip() for part in text.split(",")] if path[1] in lists[section] else text
        found.setdefault(section, {}).setdefault(name, {})[path[1]] = value
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
