"""The servers as plain processes of this machine, each in a mount and PID namespace of its own.

Nothing on the machine is changed: accounts, configuration and volumes exist only in the namespace, and end with it. That takes
root and the right to mount, and the Debian packages openssh-server and samba.
"""

import os
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from testenv.box import Box, CannotStart
from testenv.spec import COMPOSE, HOST, Service, free_port

_LAUNCHER = Path(__file__).with_name("private_root.sh")
_PROGRAM: Final = {"sftp": "/usr/sbin/sshd", "smb": "/usr/sbin/smbd"}
_PACKAGE: Final = {"sftp": "openssh-server", "smb": "samba"}


class ProcessBox(Box):
    """A server of compose/ run without an engine.

    The processes die with the thread that started them, so this is to be used from a thread that lives as long as they shall.
    """

    kind: Final = "process"
    scripts = Path("/etc/drop")

    def __init__(self, service: Service, run: Path, environment: Mapping[str, str]) -> None:
        super().__init__(service, free_port())
        self._run = run
        self._log = run / f"{service.name}.log"
        self._environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LISTEN": HOST, "PORT": str(self.port), **environment}
        self._process: subprocess.Popen[bytes] | None = None
        self._start()

    def _start(self) -> None:
        why = impossible_because(self.service)
        if why:
            raise CannotStart(f"the {self.service.name} server cannot run as a plain process: {why}")
        command = ["setpriv", "--pdeathsig", "KILL", "unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [*command, "sh", str(_LAUNCHER), str(COMPOSE), str(self._run), self.service.folder],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=self._environment,
                start_new_session=True,
            )

    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def _init(self) -> int:
        """The process that is number 1 in the namespace: the one child of `unshare`."""
        if self._process is None:
            raise CannotStart(f"the {self.service.name} server was removed")
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text(encoding="ascii").split()
        if not children:
            raise CannotStart(f"the {self.service.name} server has ended\n{self.log()}")
        return int(children[0])

    def run(self, command: Sequence[str]) -> str:
        enter = ["nsenter", "--target", str(self._init()), "--mount", "--pid", "--root", "--"]
        done = subprocess.run(
            [*enter, *command], capture_output=True, text=True, timeout=30, stdin=subprocess.DEVNULL, check=False
        )
        if done.returncode:
            raise CannotStart(f"{' '.join(command)} failed: {done.stderr.strip()}")
        return done.stdout

    def log(self) -> str:
        return "\n".join(self._log.read_text(encoding="utf-8", errors="replace").splitlines()[-15:])

    def restart(self) -> None:
        self.remove()
        self._start()
        self.wait()

    def remove(self) -> None:
        if self._process is None:
            return
        if self._process.poll() is None:
            # The kernel kills the namespace's first process with this one, and all the others with the first.
            self._process.send_signal(signal.SIGKILL)
        self._process.wait(timeout=30)
        self._process = None


def impossible_because(service: Service) -> str:
    """Why this server cannot run as a plain process here, or "" where nothing speaks against it."""
    if os.geteuid() != 0:
        return "only root can start one; run the tests as root, or start a container engine"
    if not Path(_PROGRAM[service.name]).exists():
        return f"{_PROGRAM[service.name]} is missing: apt-get install {_PACKAGE[service.name]}"
    for tool in ("setpriv", "unshare", "nsenter"):
        if shutil.which(tool) is None:
            return f"{tool} is missing: apt-get install util-linux"
    trial = subprocess.run(
        ["unshare", "--mount", "--pid", "--fork", "--mount-proc", "mount", "-t", "tmpfs", "tmpfs", "/srv"],
        capture_output=True,
        text=True,
        timeout=30,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    return f"no right to mount: {trial.stderr.strip()}" if trial.returncode else ""
