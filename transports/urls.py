"""The grammar of drop URLs: one string says which directory on which endpoint.

    sftp://user:password@host:port/absolute/path        sftp://host/~/below/the/home/folder
    smb://DOMAIN;user:password@host:port/share/folder
    file:///absolute/path                               or a plain path: /x, ./x, ../x, x, ~/x
    memory://name                                       fsspec+s3://bucket/prefix

Any character of a user, password, domain, share or path may be written percent-encoded; "%" must be, and so must "@", "/"
and (but in a password) ":" and ";" in the user info. There is no query and no fragment: "?" and "#" belong to the path.
A plain path is taken literally, and its ".." as a shell's `cd` takes it. Hosts are lower-cased.
"""

import os
import re
from dataclasses import dataclass
from ipaddress import IPv6Address
from typing import Literal
from urllib.parse import quote, unquote_to_bytes

from transports.paths import unsafe_because
from transports.secret import Secret

Scheme = Literal["memory", "file", "sftp", "smb", "fsspec"]


class InvalidURL(ValueError):
    """A text that is no drop URL. The message says why and shows a right one; it never repeats what was given."""


@dataclass(frozen=True, slots=True)
class Location:
    """A parsed drop URL. `str()` of it is the URL again, less the password.

    `path` is absolute ("/data/in") for file and sftp, relative to the home directory when `home` is set
    (`sftp://host/~/in`), and relative to the share for smb ("dir/sub"). For memory it is the name of the store, and a
    folder in it after the first "/". For fsspec, `protocol` names the file system and `path` is everything behind "://"
    but the user info (`fsspec+s3://bucket/in`: protocol "s3", path "bucket/in").
    """

    scheme: Scheme
    path: str
    host: str = ""
    port: int | None = None
    user: str = ""
    domain: str = ""
    password: Secret | None = None
    share: str = ""
    home: bool = False
    protocol: str = ""

    def __str__(self) -> str:
        match self.scheme:
            case "sftp":
                path = _encoded(self.path)
                # A folder that is really called "~" must not be read as the home folder.
                path = f"/~/{path}" if self.home else re.sub(r"^/~(?=/|$)", "/%7E", path)
                return f"sftp://{self._user_info()}{self._host_and_port()}{path.rstrip('/') or '/'}"
            case "smb":
                path = f"/{_encoded(self.share)}/{_encoded(self.path)}"
                return f"smb://{self._user_info()}{self._host_and_port()}{path.rstrip('/')}"
            case "file":
                return f"file://{_encoded(self.path)}"
            case "memory":
                return f"memory://{_encoded(self.path)}"
            case "fsspec":
                return f"fsspec+{self.protocol}://{self._user_info()}{_encoded(self.path)}"

    def _user_info(self) -> str:
        domain = f"{quote(self.domain, safe='')};" if self.domain else ""
        return f"{domain}{quote(self.user, safe='')}@" if self.user else ""

    def _host_and_port(self) -> str:
        host = f"[{self.host.replace('%', '%25')}]" if ":" in self.host else self.host
        return host if self.port is None else f"{host}:{self.port}"


def parse_url(text: str) -> Location:
    """The location that a drop URL or a plain path names. Nothing is looked up but the working and home directory.

    Raises InvalidURL.
    """
    scheme, mark, rest = text.partition("://")
    if not mark or not _SCHEME.fullmatch(scheme):
        return _plain(text)
    scheme = scheme.lower()
    if any(ord(character) < 32 or 0xD800 <= ord(character) <= 0xDFFF for character in rest):
        raise InvalidURL("refused: the URL holds a line break, a control character or a broken character")
    if scheme.startswith("fsspec+"):
        return _fsspec(scheme.removeprefix("fsspec+"), rest)
    match scheme:
        case "sftp":
            return _sftp(rest)
        case "smb":
            return _smb(rest)
        case "file":
            return _file(rest)
        case "memory":
            return _memory(rest)
    raise _invalid("sftp", f"unknown scheme '{scheme}'; known are sftp, smb, file, memory and fsspec+<protocol>")


_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*")
_HOST = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")  # a leading "-" would be an option on the command line of ssh
_ZONE = re.compile(r"[A-Za-z0-9._-]+")
_PORT = re.compile(r"[0-9]{1,5}")
_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")

_RIGHT_ONES = {
    "sftp": "sftp://user@host/absolute/path or sftp://user@host/~/below/home",
    "smb": "smb://user@host/share/folder or smb://DOMAIN;user@host/share/folder",
    "file": "file:///absolute/path or a plain path such as ./folder",
    "memory": "memory://name",
    "fsspec": "fsspec+s3://bucket/prefix",
}


def _invalid(scheme: Scheme, why: str) -> InvalidURL:
    return InvalidURL(f"not a drop URL: {why}. A right one: {_RIGHT_ONES[scheme]}")


def _sftp(rest: str) -> Location:
    authority, slash, path = rest.partition("/")
    host, port, user, _, password = _authority("sftp", authority)
    if not slash:
        raise _invalid("sftp", "a path is missing after the host")
    first, _, below = path.partition("/")
    home = first == "~"
    segments = _segments("sftp", below if home else path)
    return Location("sftp", segments if home else f"/{segments}", host, port, user, password=password, home=home)


def _smb(rest: str) -> Location:
    authority, _, path = rest.partition("/")
    host, port, user, domain, password = _authority("smb", authority)
    share, _, folder = _segments("smb", path).partition("/")
    if not share:
        raise _invalid("smb", "a share is missing after the host")
    return Location("smb", folder, host, port, user, domain, password, share)


def _file(rest: str) -> Location:
    host, slash, path = rest.partition("/")
    if host.lower() not in ("", "localhost"):
        raise _invalid("file", "a file URL has no host; the path begins with a third slash")
    if not slash:
        raise _invalid("file", "the path is missing")
    return Location("file", f"/{_segments('file', path)}")


def _memory(rest: str) -> Location:
    path = _segments("memory", rest)
    if not path or rest.startswith("/"):
        raise _invalid("memory", "the name of the store is missing")
    return Location("memory", path)


def _fsspec(protocol: str, rest: str) -> Location:
    if not _SCHEME.fullmatch(protocol):
        raise _invalid("fsspec", "the protocol after 'fsspec+' is missing or is not one word")
    authority, slash, path = rest.partition("/")
    user_info, at, place = authority.rpartition("@")
    user, _, password = _credentials("fsspec", user_info) if at else ("", "", None)
    below = _segments("fsspec", place + slash + path)
    absolute = "/" if slash and not place else ""
    if not absolute + below:
        raise _invalid("fsspec", "the path is missing")
    return Location("fsspec", absolute + below, user=user, password=password, protocol=protocol)


def _plain(text: str) -> Location:
    if not text:
        raise _invalid("file", "it is empty")
    head = text.partition("/")[0]
    if ":" in head:
        # `host:path`, `sftp:/x`, `user:password@host/x`: a folder of such a name can still be written ./a:b
        raise _invalid("sftp", "a ':' before the first '/' and no '://'; a local folder of such a name is written ./name")
    absolute = os.path.abspath(os.path.expanduser(text) if head == "~" else text)
    return Location("file", f"/{_checked('file', absolute.split('/'))}")


def _authority(scheme: Scheme, text: str) -> tuple[str, int | None, str, str, Secret | None]:
    """Host, port, user, domain, password."""
    user_info, at, place = text.rpartition("@")
    user, domain, password = _credentials(scheme, user_info) if at else ("", "", None)
    if place.startswith("["):
        inside, bracket, after = place[1:].partition("]")
        if not bracket or (after and not after.startswith(":")):
            raise _invalid(scheme, "the bracket of the IPv6 address is not closed before the port")
        host, port = _ipv6(inside), after.removeprefix(":") if after else None
        if not host:
            raise _invalid(scheme, "what stands in brackets is no IPv6 address")
    else:
        host, colon, number = place.partition(":")
        port = number if colon else None
        if ":" in number:
            raise _invalid(scheme, "more than one ':' after the user info; an IPv6 address stands in brackets, [::1]")
        if not host:
            raise _invalid(scheme, "the host is missing")
        if not _HOST.fullmatch(host):
            raise _invalid(scheme, "the host may hold letters, digits, '.', '-' and '_' only (other names: their xn-- form)")
    if port is not None and not (_PORT.fullmatch(port) and 0 < int(port) < 65536):
        raise _invalid(scheme, "the port is not a number from 1 to 65535 (a '/' in a password is written %2F)")
    return host.lower(), None if port is None else int(port), user, domain, password


def _credentials(scheme: Scheme, text: str) -> tuple[str, str, Secret | None]:
    """User, domain, password."""
    if "@" in text:
        raise _invalid(scheme, "more than one '@' before the path; in a user or password it is written %40")
    name, colon, secret = text.partition(":")
    domain, semicolon, user = name.rpartition(";")
    if semicolon and (scheme != "smb" or ";" in domain):
        raise _invalid(scheme, "a ';' in the user name; only smb has a domain before it, and else it is written %3B")
    if not user or (semicolon and not domain):
        raise _invalid(scheme, "the user or the domain before the '@' is empty")
    password = Secret(_decoded(scheme, "password", secret)) if colon else None
    return _decoded(scheme, "user", user), _decoded(scheme, "domain", domain), password


def _ipv6(text: str) -> str:
    """The address in its short form, with its zone after "%"; "" where it is none."""
    address, percent, zone = text.partition("%25")  # RFC 6874
    if percent and not _ZONE.fullmatch(zone):
        return ""
    try:
        short = str(IPv6Address(address))
    except ValueError:
        return ""
    return f"{short}%{zone}" if percent else short


def _decoded(scheme: Scheme, part: str, text: str) -> str:
    raw = None if _BAD_ESCAPE.search(text) else unquote_to_bytes(text)
    if raw is None:
        raise _invalid(scheme, f"a '%' in the {part} is not followed by two hexadecimal digits; '%' itself is written %25")
    # Not by an exception: that would carry the bytes, which may be a password, along as its context.
    value = raw.decode("utf-8", "surrogateescape")
    if any(0xD800 <= ord(character) <= 0xDFFF for character in value):
        raise _invalid(scheme, f"the percent-encoded bytes of the {part} are not UTF-8")
    if "\0" in value:
        raise _invalid(scheme, f"the {part} holds a NUL character")
    return value


def _segments(scheme: Scheme, path: str) -> str:
    return _checked(scheme, [_decoded(scheme, "path", segment) for segment in path.split("/")])


def _checked(scheme: Scheme, segments: list[str]) -> str:
    """The segments joined, the empty ones left out: they come from doubled and trailing slashes."""
    kept = [segment for segment in segments if segment]
    for segment in kept:
        if reason := unsafe_because(segment):
            raise _invalid(scheme, f"a part of the path is refused, because {reason}")
    return "/".join(kept)


def _encoded(path: str) -> str:
    return quote(path, safe="/~:+,=!$&'()*;")
