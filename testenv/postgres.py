"""A real PostgreSQL for tests: Debian's server as a plain process on 127.0.0.1, with a data folder of its own.

It runs as the account `postgres` where the tests run as root, which it refuses, and as their own user else. It ends with
the thread that started it, however that ended; a folder that a killed run leaves is removed by the next one.
"""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

from testenv import owner, packages
from testenv.keeper import remove_stale_folders
from testenv.spec import HOST, PASSWORD, USER, free_port

_ACCOUNT = "postgres"
_SCRATCH = "scratch"
_PATIENCE = 60.0  # seconds to start or to stop
_SETTINGS = {
    "listen_addresses": HOST,
    "unix_socket_directories": "",
    "max_connections": "100",
    "shared_buffers": "32MB",
    "max_wal_size": "256MB",
    "autovacuum": "off",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "client_min_messages": "warning",
    "log_min_messages": "warning",
    # Left on, so that what a crash test finds is what a user would find.
    "fsync": "on",
    "synchronous_commit": "on",
}


class NoPostgres(Exception):
    """No PostgreSQL server can be run here. The text says why, and what can be done."""


def find_programs() -> Path:
    """The folder of the newest server's programs; installed first where that can be done. Raises `NoPostgres`."""
    found = _newest()
    if found is None and packages.may_install():
        try:
            packages.install(("postgresql",))
        except packages.InstallFailed as error:
            raise NoPostgres(str(error)) from error
        found = _newest()
    if found is None:
        raise NoPostgres("no PostgreSQL server in /usr/lib/postgresql: apt-get install postgresql")
    return found


def _newest() -> Path | None:
    folders = [path.parent for path in Path("/usr/lib/postgresql").glob("*/bin/postgres")]
    return max(folders, key=lambda path: int(path.parent.name), default=None)


class Postgres:
    """A server that runs from here on, until `close`."""

    host = HOST
    user = USER
    password = PASSWORD

    def __init__(self) -> None:
        """Raises `NoPostgres`."""
        self._programs = find_programs()
        remove_stale_folders()
        self._run = Path(tempfile.mkdtemp(prefix="dropgate-testenv-"))
        (self._run / "owner").write_text(owner.mark_of(os.getpid()), encoding="ascii")
        self._data = self._run / "data"
        self._log = self._run / "log"
        self._log.touch()
        if os.geteuid() == 0:
            account = pwd.getpwnam(_ACCOUNT)
            for path in (self._run, self._log):
                os.chown(path, account.pw_uid, account.pw_gid)
        self.port = free_port()
        self.version = (
            self._tool("postgres", "--version").strip().removeprefix("postgres ").replace("(PostgreSQL)", "PostgreSQL", 1)
        )
        self._process: subprocess.Popen[bytes] | None = None
        try:
            self._initialise()
            self.start()
        except BaseException:
            self.close()
            raise

    def _as_account(self, command: Sequence[str], *, bound: bool = False) -> list[str]:
        """The command, run as the account that may; `bound` ends it with our thread."""
        words: list[str] = []
        if os.geteuid() == 0:
            words += ["--reuid", _ACCOUNT, "--regid", _ACCOUNT, "--init-groups"]
        if bound:
            words += ["--pdeathsig", "QUIT"]  # at once; its children follow it
        return ["setpriv", *words, "--", *command] if words else list(command)

    def _tool(self, program: str, *arguments: str) -> str:
        command = self._as_account([str(self._programs / program), *arguments])
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_PATIENCE,
            check=False,
            cwd=self._run,
        )
        if done.returncode:
            raise NoPostgres(f"{program} failed: {done.stderr.strip() or done.stdout.strip()}")
        return done.stdout

    def _initialise(self) -> None:
        secret = self._run / "password"
        secret.write_text(PASSWORD + "\n", encoding="utf-8")
        secret.chmod(0o644)  # for the account; it is no secret, and the folder is closed to others
        self._tool(
            "initdb",
            *(f"--pgdata={self._data}", f"--username={USER}", f"--pwfile={secret}", "--auth=scram-sha-256"),
            *("--encoding=UTF8", "--locale=C.UTF-8", "--no-instructions", "--no-sync"),
        )

    def start(self) -> None:
        """Starts a server that is stopped, on the same port; it answers on return. Raises `NoPostgres`."""
        settings = [word for name, value in _SETTINGS.items() for word in ("-c", f"{name}={value}")]
        command = [str(self._programs / "postgres"), "-D", str(self._data), "-p", str(self.port), *settings]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._as_account(command, bound=True),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self._run,
                start_new_session=True,
            )
        deadline = time.monotonic() + _PATIENCE
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                last = self._log.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-5:]
                self.stop()
                raise NoPostgres("the PostgreSQL server did not start:\n" + "\n".join(last))
            time.sleep(0.05)

    def _answers(self) -> bool:
        command = [str(self._programs / "pg_isready"), "--quiet", f"--host={HOST}", f"--port={self.port}"]
        return subprocess.run(command, timeout=_PATIENCE, check=False).returncode == 0

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """Ends the server. SIGINT rolls back what runs; SIGQUIT is a crash, from which the next start recovers."""
        if self._process is None:
            return
        if self._process.poll() is None:
            self._process.send_signal(how)
        self._process.wait(timeout=_PATIENCE)
        self._process = None

    def restart(self, how: signal.Signals = signal.SIGINT) -> None:
        """Stops and starts it."""
        self.stop(how)
        self.start()

    def url(self, database: str = "postgres") -> str:
        """The URL of a database, with user and password."""
        return f"postgresql://{USER}:{quote(PASSWORD, safe='')}@{HOST}:{self.port}/{database}"

    def empty_database(self) -> str:
        """The URL of a database with nothing in it. It is the same each time: what the last test left is dropped."""
        if _SCRATCH not in self.sql("SELECT datname FROM pg_database").splitlines():
            self.sql(f"CREATE DATABASE {_SCRATCH}")
        # Much quicker than another database. A connection that a killed process has left may still hold a lock.
        self.sql(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{_SCRATCH}'")  # noqa: S608 - a constant
        self.sql("DROP SCHEMA public CASCADE; CREATE SCHEMA public", _SCRATCH)
        return self.url(_SCRATCH)

    def sql(self, statement: str, database: str = "postgres") -> str:
        """Runs one statement, and gives what it says, unaligned. Raises `NoPostgres`."""
        command = [
            *(str(self._programs / "psql"), "--no-psqlrc", "--quiet", "--tuples-only", "--no-align"),
            *(f"--host={HOST}", f"--port={self.port}", f"--username={USER}", f"--dbname={database}", f"--command={statement}"),
        ]
        environment = {"PATH": os.environ["PATH"], "PGPASSWORD": PASSWORD}
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_PATIENCE, check=False, env=environment
        )
        if done.returncode:
            raise NoPostgres(f"psql failed: {done.stderr.strip()}")
        return done.stdout.strip()

    def close(self) -> None:
        """Ends the server and removes its folder."""
        self.stop(signal.SIGQUIT)
        shutil.rmtree(self._run, ignore_errors=True)
