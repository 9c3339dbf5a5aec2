"""The process that owns the servers of one test process: starts each when first asked for it, and removes them all at the end.

It is a process of its own, in a session of its own, so that neither Ctrl-C nor a killed test run can end it first. It goes when
its standard input says anything or ends, as it does however its parent ended. What even a killed keeper leaves is removed by
the next one.

It prints one line, the path of a socket. Each connection there brings one request and takes one answer, both a line of JSON:

    {"do": "start", "server": "sftp"}           {"ok": {...}}, the facts of `Facts`; the second time the same answer, at once
    {"do": "restart", "server": "sftp"}         {"ok": {}}
    {"do": "kill_sessions", "server": "sftp"}   {"ok": {}}
                                                {"error": "why"}
"""

import json
import os
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypedDict

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from testenv import choice, daemon, engine, owner
from testenv.box import Box, CannotStart
from testenv.containers import ContainerBox
from testenv.processes import ProcessBox
from testenv.spec import SERVICES, Kind, Name, environment

_PREFIX = "dropgate-testenv-"
_FAILURES = (CannotStart, engine.EngineFailed, subprocess.SubprocessError)


class Facts(TypedDict):
    """What is told of a running server. `host_keys` are public key lines, of SFTP only."""

    kind: Kind
    why: str
    port: int
    version: str
    run: str
    host_keys: list[str]


def remove_stale_folders() -> None:
    """Removes the folders of keepers that are no more."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        try:
            dead = owner.is_dead((folder / "owner").read_text(encoding="ascii"))
        except OSError:
            continue  # another user's, or being made or removed just now
        if dead:
            shutil.rmtree(folder, ignore_errors=True)


class Keeper:
    """Starts servers, and removes all of them with `close`."""

    def __init__(self) -> None:
        self.mark = owner.mark_of(os.getpid())
        self.run = Path(tempfile.mkdtemp(prefix=_PREFIX))
        (self.run / "owner").write_text(self.mark, encoding="ascii")
        (self.run / "data").mkdir()
        (self.run / "readonly").mkdir()
        (self.run / "readonly" / "present.txt").write_text("This volume cannot be written to.\n", encoding="utf-8")
        self._environment = environment(self._make_key())
        self._boxes: dict[Name, Box] = {}
        self._answers: dict[Name, Facts | CannotStart] = {}
        self._chosen: tuple[Kind, str] | None = None

    def _make_key(self) -> str:
        """Makes the key that the account may log in with, and gives its public half."""
        key = Ed25519PrivateKey.generate()
        path = self.run / "user_key"
        path.touch(mode=0o600)
        path.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()))
        return key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode("ascii")

    def start(self, name: Name) -> Facts:
        """The facts of a server, which is started if it is not running. A failure is kept: it would only come again."""
        if name not in self._answers:
            try:
                self._answers[name] = self._start(name)
            except CannotStart as error:
                self._answers[name] = error
        answer = self._answers[name]
        if isinstance(answer, CannotStart):
            raise answer
        return answer

    def _start(self, name: Name) -> Facts:
        try:
            return self._start_once(name)
        except CannotStart:
            # Its port was free when it was picked, and somebody else may have been faster.
            if name in self._boxes:
                self._boxes.pop(name).remove()
            return self._start_once(name)

    def _start_once(self, name: Name) -> Facts:
        if self._chosen is None:
            self._chosen = choice.kind_of_servers()
        kind, why = self._chosen
        service = SERVICES[name]
        box: Box
        if kind == "container":
            box = ContainerBox(service, self.run, self._environment, self.mark)
        else:
            box = ProcessBox(service, self.run, self._environment)
        self._boxes[name] = box
        version = box.wait()
        host_keys = []
        if name == "smb":
            version = box.run(["/usr/sbin/smbd", "--version"]).strip().replace("Version", "Samba")
        else:
            host_keys = box.run(["sh", "-c", "cat /etc/ssh/drop/*.pub"]).splitlines()
        return Facts(kind=kind, why=why, port=box.port, version=version, run=str(self.run), host_keys=host_keys)

    def answer(self, request: dict[str, Any]) -> Facts | dict[str, str]:
        """Does what one request asks for. Raises `CannotStart`."""
        name: Name = request["server"]
        facts = self.start(name)
        match request["do"]:
            case "start":
                return facts
            case "restart":
                self._boxes[name].restart()
            case "kill_sessions":
                self._boxes[name].kill_sessions()
        return {}

    def close(self) -> None:
        """Removes every server and the folder of the run, whichever of them fails."""
        # A container that was made and did not start belongs to no box.
        for remove in (*(box.remove for box in self._boxes.values()), self._remove_containers):
            try:
                remove()
            except _FAILURES as error:
                sys.stderr.write(f"a test server was not removed: {error}\n")
        shutil.rmtree(self.run, ignore_errors=True)

    def _remove_containers(self) -> None:
        if engine.version() is not None:
            engine.remove([identity for identity, _ in engine.containers(owned_by=self.mark)])


def _serve_one(listener: socket.socket, answer: Callable[[dict[str, Any]], object]) -> None:
    connection, _ = listener.accept()
    with connection, connection.makefile("rwb") as stream:
        line = stream.readline()
        if not line:
            return  # the asker has given up
        try:
            reply: dict[str, object] = {"ok": answer(json.loads(line))}
        except _FAILURES as error:
            reply = {"error": str(error)}
        stream.write(json.dumps(reply).encode() + b"\n")


def main() -> None:
    """Serves until standard input ends or SIGTERM comes."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with daemon.in_use():
        _keep()


def _keep() -> None:
    remove_stale_folders()
    if engine.version() is not None:
        engine.remove_stale()
    keeper = Keeper()
    try:
        with socket.socket(socket.AF_UNIX) as listener, selectors.DefaultSelector() as ready:
            path = keeper.run / "control"
            listener.bind(str(path))
            listener.listen()
            sys.stdout.write(f"{path}\n")
            sys.stdout.flush()
            ready.register(listener, selectors.EVENT_READ)
            ready.register(sys.stdin, selectors.EVENT_READ)
            while True:
                asked = [key.fileobj for key, _ in ready.select()]
                if sys.stdin in asked:
                    break
                _serve_one(listener, keeper.answer)
    finally:
        keeper.close()


if __name__ == "__main__":
    main()
