"""Telling of an alarm by HTTP: a POST of the CloudEvent, signed as Standard Webhooks says.

    webhook-id          the event's id, the same in every try
    webhook-timestamp   when this try was made, in whole seconds since the epoch
    webhook-signature   "v1," and the base64 of HMAC-SHA256(secret, id "." timestamp "." body)

One connection for each request, so that a deadline over the whole of it can shut its socket: a timeout of a library counts
from byte to byte, and a server that sends one now and then would hold the line up for ever.
"""

import base64
import binascii
import contextlib
import hashlib
import hmac
import socket
import ssl
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http.client import HTTPException
from urllib.parse import unquote
from urllib.request import getproxies, proxy_bypass

from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import HTTPError, LocationParseError
from urllib3.util import Url, make_headers, parse_url

from gateway.errors import ConfigurationError
from gateway.service.alarms import words
from gateway.service.alarms.channel import NotTold
from gateway.service.alarms.event import Event
from transports.secret import Secret

_DEADLINE = 20.0  # seconds, for one request from its beginning to the answer's head
_PREFIX = "whsec_"


def key_of(secret: Secret) -> bytes:
    """The key of a webhook's secret: "whsec_" and base64, as Standard Webhooks writes it, or any text as it stands.

    Raises ConfigurationError, without the secret.
    """
    text = secret.reveal()
    if not text.removeprefix(_PREFIX):
        raise ConfigurationError("alarms.webhook_secret: it is empty; make one: openssl rand -base64 32, with whsec_ before it")
    if not text.startswith(_PREFIX):
        return text.encode()
    try:
        return base64.b64decode(text.removeprefix(_PREFIX), validate=True)
    except (binascii.Error, ValueError):
        # Without its cause, which holds the text.
        raise ConfigurationError("alarms.webhook_secret: behind whsec_ it is no base64") from None


def signature(key: bytes, name: str, timestamp: int, body: bytes) -> str:
    """The value of `webhook-signature`."""
    signed = hmac.new(key, f"{name}.{timestamp}.".encode() + body, hashlib.sha256).digest()
    return f"v1,{base64.b64encode(signed).decode()}"


@dataclass(frozen=True, slots=True)
class Webhook:
    """Tells events to one URL. Its address is shown without what may be secret: user, path and query."""

    url: str = field(repr=False)
    instance: str
    utc: Callable[[], str]
    key: bytes | None = field(default=None, repr=False)
    context: ssl.SSLContext | None = field(default=None, repr=False)
    deadline: float = _DEADLINE

    def __call__(self, event: Event, stop: threading.Event) -> None:
        """Posts an event. Raises NotTold for whatever is not an answer of 200 to 299 within the deadline."""
        del stop
        body = event.as_json(self.instance)
        headers = {"content-type": "application/cloudevents+json; charset=utf-8", "user-agent": "dropgate"}
        headers["webhook-id"] = event.id
        # Of this try: a receiver refuses what is older than a few minutes.
        now = words.moment(self.utc())
        headers["webhook-timestamp"] = str(int(now.timestamp()))
        if self.key is not None:
            headers["webhook-signature"] = signature(self.key, event.id, int(now.timestamp()), body)
        status, asked = self._post(body, headers)
        if 200 <= status < 300:
            return
        told = f"{self.shown} answered {status}"
        if 300 <= status < 400:
            raise NotTold(f"{told}, and redirects are not followed: give the address that it leads to")
        raise NotTold(told, _pause(asked, now) if status in (429, 503) else None)

    @property
    def shown(self) -> str:
        """Where it posts to, for people."""
        url = _parsed(self.url)
        return f"{url.scheme}://{url.host}" + (f":{url.port}" if url.port else "")

    def _post(self, body: bytes, headers: dict[str, str]) -> tuple[int, str | None]:
        url = _parsed(self.url)
        if url.auth:
            headers |= make_headers(basic_auth=unquote(url.auth))
        connection = self._connection(url)
        cut = threading.Timer(self.deadline, _shut, (connection,))
        cut.daemon = True
        cut.start()
        try:
            connection.connect()
            connection.request("POST", url.request_uri, body=body, headers=headers, preload_content=False)
            answer = connection.getresponse()
            if cut.finished.is_set():
                # The head ended where its socket was shut, and was taken for whole.
                raise TimeoutError
            return answer.status, answer.headers.get("retry-after")
        except (HTTPError, HTTPException, OSError, ValueError) as error:
            late = f" within {self.deadline:g} s" if cut.finished.is_set() else ""
            raise NotTold(f"{self.shown} did not answer{late}: {_reason(error)}") from error
        finally:
            cut.cancel()
            connection.close()

    def _connection(self, url: Url) -> HTTPConnection | HTTPSConnection:
        host = (url.host or "").removeprefix("[").removesuffix("]")
        timeout = self.deadline / 2  # to connect, and between two parts of an answer
        if url.scheme != "https":
            return HTTPConnection(host, url.port, timeout=timeout)
        context = self.context or ssl.create_default_context()
        proxy = _proxy(host)
        if proxy is None:
            return HTTPSConnection(host, url.port, timeout=timeout, ssl_context=context)
        connection = HTTPSConnection(proxy.host or "", proxy.port or 80, timeout=timeout, ssl_context=context)
        login = make_headers(proxy_basic_auth=unquote(proxy.auth)) if proxy.auth else {}
        connection.set_tunnel(host, url.port or 443, login, "http")
        return connection


def check_url(url: str) -> None:
    """That a URL can be posted to. Raises ConfigurationError, without the URL."""
    try:
        parsed = _parsed(url)
    except LocationParseError:
        parsed = Url()
    if parsed.scheme not in ("http", "https") or not parsed.host:
        raise ConfigurationError("alarms.webhook: this is no URL to post to; write https://host/path")


def _parsed(url: str) -> Url:
    return parse_url(url)


def _proxy(host: str) -> Url | None:
    """The proxy that the environment names for HTTPS, as other programs take it."""
    named = getproxies().get("https")
    if not named or proxy_bypass(host):
        return None
    return parse_url(named if "://" in named else f"http://{named}")


def _shut(connection: HTTPConnection) -> None:
    # What waits for the socket is woken, and meets its end.
    with contextlib.suppress(OSError, AttributeError):
        connection.sock.shutdown(socket.SHUT_RDWR)


def _reason(error: BaseException) -> str:
    """Why, in words that hold no part of the URL."""
    cause = error.__cause__ or error.__context__ or error
    for one in (error, cause):
        if isinstance(one, ssl.SSLCertVerificationError):
            return f"its certificate is not accepted: {one.verify_message}"
        if isinstance(one, TimeoutError):
            return "nothing came in time"
        if isinstance(one, OSError) and one.strerror:
            return one.strerror
    return type(error).__name__


def _pause(asked: str | None, now: datetime) -> float | None:
    """Seconds of a Retry-After header: a number, or a date."""
    if asked is None:
        return None
    if asked.isascii() and asked.isdecimal():
        return float(asked[:9])
    try:
        until = parsedate_to_datetime(asked)
    except ValueError:
        return None
    return max(0.0, ((until if until.tzinfo else until.replace(tzinfo=UTC)) - now).total_seconds())
