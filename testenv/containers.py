"""The servers as containers, of images built from compose/."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from testenv import engine, images
from testenv.box import Box, CannotStart
from testenv.spec import DATA, FULL, HOST, OTHER, READONLY, Service, free_port


class ContainerBox(Box):
    """A server of compose/ in a container that bears the mark of its owner."""

    kind: Final = "container"
    scripts = Path("/usr/local/lib/drop")

    def __init__(self, service: Service, run: Path, environment: Mapping[str, str], mark: str) -> None:
        super().__init__(service, free_port())
        self._identity = ""
        settings = [f"--env={name}={value}" for name, value in environment.items()]
        try:
            self._identity = engine.docker(
                "run",
                "--detach",
                f"--label={engine.OWNER_LABEL}={mark}",
                # A port of our own choice: one that the engine picks would be another after a restart.
                f"--publish={HOST}:{self.port}:{service.port}",
                f"--volume={run / 'data'}:{DATA}",
                f"--volume={run / 'readonly'}:{READONLY}:ro",
                f"--tmpfs={OTHER}:mode=755",
                f"--tmpfs={FULL}:size=1m,mode=755",
                *settings,
                images.tag(service),
            ).strip()
        except engine.EngineFailed as error:
            raise CannotStart(f"the {service.name} container could not be started: {error}") from error

    def alive(self) -> bool:
        return engine.docker("inspect", "--format", "{{.State.Running}}", self._identity).strip() == "true"

    def run(self, command: Sequence[str]) -> str:
        try:
            return engine.docker("exec", self._identity, *command)
        except engine.EngineFailed as error:
            raise CannotStart(str(error)) from error

    def log(self) -> str:
        return engine.logs(self._identity)

    def restart(self) -> None:
        engine.docker("restart", "--time", "2", self._identity)
        self.wait()

    def remove(self) -> None:
        if not self._identity:
            return
        if os.getuid() != 0 and self.alive():
            # The other account's files in the bind-mounted folder are not ours to delete from outside.
            self.run(["find", DATA, "-mindepth", "1", "-delete"])
        engine.remove([self._identity])
        self._identity = ""
