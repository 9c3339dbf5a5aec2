"""Who may see the page and press its buttons: nobody but this host, or whoever has the token or a password.

A session is a signed cookie: its id, the name that was logged in with, and a print of the credential, so that a token or
password that is changed ends the sessions made with it. Without token and users everybody on this host is an operator; his
session is only there to bind the forms to.
"""

import contextlib
import hashlib
import hmac
import os
import secrets
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError
from itsdangerous import BadSignature, URLSafeTimedSerializer

from gateway.errors import ConfigurationError
from gateway.service_sections import WebSettings, is_loopback

SESSION_AGE = 12 * 3600  # seconds: a shift, and not a holiday
_KEY_BYTES = 32
_MOST_ENDED = 10_000
_TOKEN_NAME = "token"  # noqa: S105 - how a session says that it was begun with the token


class Role(IntEnum):
    """What somebody may do."""

    NOBODY = 0
    VIEWER = 1
    OPERATOR = 2


@dataclass(frozen=True, slots=True)
class Visitor:
    """Who asks. `session` is "" where there is none; `bearer` says that the token came with the request itself."""

    role: Role = Role.NOBODY
    name: str = ""
    session: str = ""
    bearer: bool = False


def new_key() -> bytes:
    """A key to sign sessions with; those of an earlier start end."""
    return secrets.token_bytes(_KEY_BYTES)


def kept_key(path: Path) -> bytes:
    """The key in a file, so that sessions outlive a restart; made, for this user alone, where there is none.

    Raises ConfigurationError for a file that others may read, that is too short, or that cannot be used.
    """
    try:
        if not path.exists():
            _make_key(path)
        if path.stat().st_mode & 0o077:
            raise ConfigurationError(f"{path} may be read by others, and signs logins: chmod 600 {path}")
        key = path.read_bytes()
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be used for the key that signs logins: {error.strerror}") from error
    if len(key) < _KEY_BYTES:
        raise ConfigurationError(f"{path} is too short for a key that signs logins: delete it, and it is made anew")
    return key


def _make_key(path: Path) -> None:
    # Under its name only once it is whole, and never over another's: a second process may come at the same moment.
    fresh = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(new_key())
        with contextlib.suppress(FileExistsError):
            os.link(fresh, path)
    finally:
        fresh.unlink(missing_ok=True)


def token_of(settings: WebSettings, folder: Path) -> str:
    """The token, or "". `folder` is what a relative `token_file` is relative to. Raises ConfigurationError."""
    if settings.token is not None:
        token = settings.token.get_secret_value()
    elif settings.token_file is not None:
        path = folder / settings.token_file.expanduser()
        try:
            token = path.read_bytes().decode().strip()
        except OSError as error:
            raise ConfigurationError(f"web.token_file: {path} cannot be read: {error.strerror}") from error
        except UnicodeDecodeError:
            raise ConfigurationError(f"web.token_file: {path} is not UTF-8 text") from None
    else:
        return ""
    if not token:
        raise ConfigurationError("web.token: it is empty, so that everybody would have it")
    return token


@dataclass(slots=True)
class Access:
    """Judges visitors. For any number of threads."""

    settings: WebSettings
    key: bytes
    token: str = ""
    _hasher: PasswordHasher = field(default_factory=PasswordHasher)
    _nobody: str = field(init=False)
    _signer: URLSafeTimedSerializer = field(init=False)
    _ended: OrderedDict[str, None] = field(default_factory=OrderedDict)

    def __post_init__(self) -> None:
        if self.open and not is_loopback(self.settings.listen):
            raise ConfigurationError("web.listen: is not on this host alone, so give token, token_file or [web.user.NAME]")
        # Somebody who is not known is checked against this, and so takes as long as somebody who is.
        self._nobody = self._hasher.hash(secrets.token_hex(16)) if self.settings.user else ""
        signing = {"key_derivation": "hmac", "digest_method": hashlib.sha256}
        self._signer = URLSafeTimedSerializer(self.key, salt="dropgate session", signer_kwargs=signing)

    @property
    def open(self) -> bool:
        """Whether there is no login: everybody on this host is an operator."""
        return not self.token and not self.settings.user

    @property
    def cookie(self) -> str:
        """The cookie's name. Cookies know no ports, so that of two pages on one host each has its own."""
        return f"dropgate-{self.settings.listen.rpartition(':')[2]}"

    def begin(self, visitor: Visitor) -> tuple[Visitor, str]:
        """A new session for a visitor, and its cookie's value."""
        begun = Visitor(visitor.role, visitor.name, secrets.token_urlsafe(18))
        return begun, str(self._signer.dumps([begun.session, begun.name, self._print_of(begun.name)]))

    def end(self, visitor: Visitor) -> None:
        """Ends a session before its time."""
        self._ended[visitor.session] = None
        while len(self._ended) > _MOST_ENDED:
            self._ended.popitem(last=False)

    def visitor(self, cookies: Mapping[str, str], authorization: str) -> Visitor:
        """Who asks, by what came with the request."""
        kind, _, given = authorization.partition(" ")
        if kind.lower() == "bearer":
            return Visitor(Role.OPERATOR, _TOKEN_NAME, bearer=True) if self._is_token(given.strip()) else Visitor()
        try:
            session, name, credential = self._signer.loads(cookies.get(self.cookie, ""), max_age=SESSION_AGE)
        except (BadSignature, ValueError, TypeError):
            return Visitor(Role.OPERATOR if self.open else Role.NOBODY)
        if session in self._ended or not hmac.compare_digest(credential, self._print_of(name)):
            return Visitor(Role.OPERATOR if self.open else Role.NOBODY)
        return Visitor(self._role(name), name, session)

    def login(self, name: str, secret: str) -> Visitor | None:
        """Who logs in with this, or None. Takes as long for a name that is not known; blocks for a good part of a second."""
        if not name:
            return Visitor(Role.OPERATOR, _TOKEN_NAME) if self._is_token(secret) else None
        user = self.settings.user.get(name)
        try:
            if self._nobody:
                self._hasher.verify(self._nobody if user is None else user.password_hash, secret)
        except (VerificationError, InvalidHashError):
            return None
        return None if user is None else Visitor(self._role(f"user {name}"), f"user {name}")

    def form_token(self, visitor: Visitor) -> str:
        """What every form of a session has to bring along."""
        return hmac.new(self.key, f"form {visitor.session}".encode(), hashlib.sha256).hexdigest() if visitor.session else ""

    def is_form_token(self, visitor: Visitor, given: str) -> bool:
        """Whether a form was made for this session."""
        wanted = self.form_token(visitor)
        return bool(wanted) and hmac.compare_digest(wanted.encode(), given.encode("utf-8", "replace"))

    def _is_token(self, given: str) -> bool:
        # Hashed first, so that not even the length can be found out by the clock.
        def digest(text: str) -> bytes:
            return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()

        return bool(self.token) and hmac.compare_digest(digest(given), digest(self.token))

    def _role(self, name: str) -> Role:
        if self.open:
            return Role.OPERATOR
        if name == _TOKEN_NAME and self.token:
            return Role.OPERATOR
        user = self.settings.user.get(name.removeprefix("user ")) if name.startswith("user ") else None
        if user is None:
            return Role.NOBODY
        return Role.OPERATOR if user.role == "operator" else Role.VIEWER

    def _print_of(self, name: str) -> str:
        """A print of the credential that a session was begun with, which says nothing of it to whoever lacks the key."""
        user = self.settings.user.get(name.removeprefix("user ")) if name.startswith("user ") else None
        credential = user.password_hash if user is not None else self.token if name == _TOKEN_NAME else ""
        return hmac.new(self.key, f"{name}\n{credential}".encode(), hashlib.sha256).hexdigest()[:32]
