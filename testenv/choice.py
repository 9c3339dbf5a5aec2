"""Whether the servers run in containers or as plain processes.

`DROPGATE_TEST_SERVERS` says `container`, `process`, or `auto` (the default): containers where an engine answers and has the
images, else processes. Which it was, and why, is told at the end of the test run.
"""

import os

from testenv import engine, images, processes
from testenv.box import CannotStart
from testenv.spec import SERVICES, Kind

VARIABLE = "DROPGATE_TEST_SERVERS"


def possible_kinds() -> list[Kind]:
    """All kinds that both servers could be started as, here and now."""
    kinds: list[Kind] = []
    if engine.version() and not images.missing():
        kinds.append("container")
    if not any(processes.impossible_because(service) for service in SERVICES.values()):
        kinds.append("process")
    return kinds


def kind_of_servers() -> tuple[Kind, str]:
    """The kind, and why. Raises `CannotStart` where containers are demanded and cannot be had."""
    wanted = os.environ.get(VARIABLE, "auto") or "auto"
    if wanted not in ("auto", "container", "process"):
        raise CannotStart(f"{VARIABLE}={wanted}: it can be auto, container or process")
    if wanted == "process":
        return "process", f"{VARIABLE}=process"
    version = engine.version()
    lacking = "" if version else "no container engine answers"
    if version and (absent := images.missing()):
        names = " and ".join(service.folder for service in absent)
        lacking = f"the image of {names} is not built; `make test` does that"
    if not lacking:
        return "container", f"Docker {version}"
    if wanted == "container":
        raise CannotStart(f"{VARIABLE}=container, but {lacking}")
    return "process", lacking
