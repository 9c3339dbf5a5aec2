"""An SSH server that asks: for what OpenSSH asks only with PAM behind it. It serves no files; it is there to log in to."""

import socket
import threading
from types import TracebackType
from typing import Self

import paramiko
from paramiko.common import AUTH_FAILED, AUTH_PARTIALLY_SUCCESSFUL, AUTH_SUCCESSFUL, OPEN_SUCCEEDED
from paramiko.server import InteractiveQuery


class Asking(paramiko.ServerInterface):
    """Takes the password only in a dialogue, and asks again after a wrong one, as PAM does."""

    allowed = "keyboard-interactive"

    def __init__(self, password: str) -> None:
        self._password = password
        self.answers: list[list[str]] = []

    def get_allowed_auths(self, username: str) -> str:
        return self.allowed

    def check_auth_interactive(self, username: str, submethods: str) -> InteractiveQuery:
        return InteractiveQuery("", "Who is there?", ("Password: ", False))

    def check_auth_interactive_response(self, responses: list[str]) -> int | InteractiveQuery:
        self.answers.append(responses)
        if responses == [self._password]:
            return self.passed()
        if len(self.answers) < 2:
            return InteractiveQuery("", "Again", ("Password: ", False))
        return AUTH_FAILED

    def passed(self) -> int:
        return AUTH_SUCCESSFUL

    def check_channel_request(self, kind: str, chanid: int) -> int:
        return OPEN_SUCCEEDED

    def check_channel_subsystem_request(self, channel: paramiko.Channel, name: str) -> bool:
        return False


class WantsTwo(Asking):
    """Wants a key, and then the dialogue as well."""

    allowed = "publickey"

    def check_auth_publickey(self, username: str, key: paramiko.PKey) -> int:
        self.allowed = "keyboard-interactive"
        return AUTH_PARTIALLY_SUCCESSFUL


class HangsUp(Asking):
    """Ends the connection at the second attempt, as OpenSSH does after too many."""

    allowed = "password"

    def __init__(self, password: str) -> None:
        super().__init__(password)
        self.attempts = 0
        self.transport: paramiko.Transport | None = None

    def check_auth_password(self, username: str, password: str) -> int:
        self.attempts += 1
        return AUTH_FAILED


class AskingServer:
    """Serves one connection on a free port of 127.0.0.1."""

    def __init__(self, interface: Asking, host_key: paramiko.PKey) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._interface = interface
        self._host_key = host_key
        self._transports: list[paramiko.Transport] = []
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            transport = paramiko.Transport(connection)
            transport.add_server_key(self._host_key)
            transport.start_server(event=threading.Event(), server=self._interface)
            self._transports.append(transport)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        # To close a listener does not wake the thread that waits on it.
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(5)
        for transport in self._transports:
            transport.close()
            transport.join(5)
