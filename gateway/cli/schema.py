"""`dropgate schema`: the JSON Schema of a configuration file."""

import json
import sys

from gateway.cli.common import failures_end_well
from gateway.schema import schema as made


def schema() -> None:
    """Print the JSON Schema of a configuration file, for editors.

    An editor that knows TOML takes it by a first line such as: #:schema ./dropgate.schema.json
    """
    with failures_end_well():
        sys.stdout.write(json.dumps(made(), indent=2, ensure_ascii=False) + "\n")
        sys.stdout.flush()
