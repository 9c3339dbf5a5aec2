"""`dropgate hash-password`: what stands in the configuration in place of a password."""

import getpass
import sys

import typer

from gateway.cli.common import DONE, failures_end_well, say
from gateway.errors import ConfigurationError

_SHORTEST = 8  # characters; what is shorter is guessed however slowly it may be tried


def hash_password() -> None:
    """Make the password_hash of a [web.user.NAME].

    The password is asked for twice at a terminal; elsewhere it is the first line of standard input.
    """
    with failures_end_well():
        try:
            from argon2 import PasswordHasher
        except ModuleNotFoundError:
            raise ConfigurationError("the page is not installed here: pip install 'dropgate[web]'") from None
        password = _asked() if sys.stdin.isatty() else sys.stdin.readline().removesuffix("\n").removesuffix("\r")
        if len(password) < _SHORTEST:
            raise ConfigurationError(f"the password has {len(password)} characters; take {_SHORTEST} or more")
        say(PasswordHasher().hash(password))
        raise typer.Exit(DONE)


def _asked() -> str:
    password = getpass.getpass("Password: ")
    if getpass.getpass("Again: ") != password:
        raise ConfigurationError("the two are not the same; nothing was made")
    return password
