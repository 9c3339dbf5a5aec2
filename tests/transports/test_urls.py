"""A drop URL names one directory on one endpoint, survives being written out again, and never shows its password."""

import os
import pickle
from dataclasses import replace
from ipaddress import IPv6Address
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transports.paths import unsafe_because
from transports.secret import Secret
from transports.urls import InvalidURL, Location, parse_url

PASSWORD = "p@ss:w/rd;%?#ü "


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("sftp://host/data/in", Location("sftp", "/data/in", "host")),
        ("SFTP://Host.Example:2222/", Location("sftp", "/", "host.example", 2222)),
        ("sftp://host/~/in/box", Location("sftp", "in/box", "host", home=True)),
        ("sftp://host/~", Location("sftp", "", "host", home=True)),
        ("sftp://host/%7E/in", Location("sftp", "/~/in", "host")),
        ("sftp://host//data//in/", Location("sftp", "/data/in", "host")),
        ("sftp://me@[::1]:22/x", Location("sftp", "/x", "::1", 22, "me")),
        ("sftp://[FE80::1%25eth0]/x", Location("sftp", "/x", "fe80::1%eth0")),
        ("sftp://host/a?b#c.csv", Location("sftp", "/a?b#c.csv", "host")),
        ("sftp://host/a%3Fb%23c.csv", Location("sftp", "/a?b#c.csv", "host")),
        ("smb://host/share", Location("smb", "", "host", share="share")),
        ("smb://host/c$/dir/sub", Location("smb", "dir/sub", "host", share="c$")),
        ("smb://FIRM;me:pw@host:4450/s/d", Location("smb", "d", "host", 4450, "me", "FIRM", Secret("pw"), "s")),
        ("smb://me:p;w:x@host/s", Location("smb", "", "host", user="me", password=Secret("p;w:x"), share="s")),
        ("smb://me:@host/s", Location("smb", "", "host", user="me", password=Secret(""), share="s")),
        ("file:///data/a%20b", Location("file", "/data/a b")),
        ("file://localhost/data", Location("file", "/data")),
        ("memory://name", Location("memory", "name")),
        ("memory://name/folder", Location("memory", "name/folder")),
        ("fsspec+s3://bucket/in", Location("fsspec", "bucket/in", protocol="s3")),
        ("fsspec+memory:///in", Location("fsspec", "/in", protocol="memory")),
        (
            "fsspec+ftp://me:s%2Fw@host:21/in",
            Location("fsspec", "host:21/in", user="me", password=Secret("s/w"), protocol="ftp"),
        ),
    ],
)
def test_each_form_names_its_place(text: str, expected: Location) -> None:
    assert parse_url(text) == expected


def test_a_plain_path_is_an_absolute_file_location(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/home/me")
    below = os.getcwd()
    assert parse_url("./x") == parse_url("x") == Location("file", f"{below}/x")
    assert parse_url(".") == Location("file", below)
    assert parse_url("../x").path == f"{os.path.dirname(below)}/x"
    assert parse_url("/srv/data/") == Location("file", "/srv/data")
    assert parse_url("~/x").path == "/home/me/x"
    assert parse_url("./50%41 a:b?c#d").path == f"{below}/50%41 a:b?c#d", "taken literally"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "empty"),
        ("ftp://me:PWPWPW@host/x", "unknown scheme 'ftp'"),
        ("sftp://host", "path is missing"),
        ("sftp:///x", "host is missing"),
        ("sftp://me:PWPWPW@/x", "host is missing"),
        ("sftp://me:PWPWPW@host:/x", "port"),
        ("sftp://me:PWPWPW@host:0/x", "port"),
        ("sftp://me:PWPWPW@host:65536/x", "port"),
        ("sftp://me:PWPWPW@host:\uff12\uff12/x", "port"),
        ("sftp://me:PWPWPW/2@host/x", "port"),
        ("sftp://me:PWPWPW@2@host/x", "%40"),
        ("sftp://-oProxyCommand=x/x", "host may hold"),
        ("sftp://hö.example/x", "xn--"),
        ("sftp://::1/x", "brackets"),
        ("sftp://[::1/x", "bracket"),
        ("sftp://[::1]22/x", "bracket"),
        ("sftp://[host]/x", "IPv6"),
        ("sftp://[fe80::1%25]/x", "IPv6"),
        ("sftp://@host/x", "is empty"),
        ("sftp://:PWPWPW@host/x", "is empty"),
        ("sftp://FIRM;me:PWPWPW@host/x", "only smb has a domain"),
        ("sftp://me:PWPWPW%zz@host/x", "two hexadecimal digits"),
        ("sftp://me:PWPWPW%ff@host/x", "not UTF-8"),
        ("sftp://me:PWPWPW%00@host/x", "NUL"),
        ("sftp://me:PWPWPW@host/a%", "two hexadecimal digits"),
        ("sftp://me:PWPWPW@host/a%C3", "not UTF-8"),
        ("sftp://me:PWPWPW@host/a%ED%A0%80", "not UTF-8"),
        ("sftp://me:PWPWPW@host/a%00b", "NUL"),
        ("sftp://me:PWPWPW@host/a/../b", "'..'"),
        ("sftp://me:PWPWPW@host/a/%2E%2E/b", "'..'"),
        ("sftp://me:PWPWPW@host/a%2Fb", "a slash"),
        ("sftp://me:PWPWPW@host/a%0Ab", "control character"),
        ("sftp://me:PWPWPW@host/a\n", "line break"),
        ("sftp://me:PWPWPW@host/\udcff", "broken character"),
        ("smb://host", "share is missing"),
        ("smb://me:PWPWPW@host/", "share is missing"),
        ("smb://;me:PWPWPW@host/s", "is empty"),
        ("smb://A;B;me:PWPWPW@host/s", "%3B"),
        ("smb://me:PWPWPW@host/s/a\\b", "backslash"),
        ("file://host/x", "no host"),
        ("file://", "path is missing"),
        ("memory://", "name of the store"),
        ("memory:///x", "name of the store"),
        ("fsspec+://x", "protocol"),
        ("fsspec+s3://", "path is missing"),
        ("fsspec+ftp://me:PWPWPW@2@host/x", "%40"),
        ("sftp:/host/x", "':' before the first '/'"),
        ("me:PWPWPW@host/x", "':' before the first '/'"),
        ("me@host:/x", "':' before the first '/'"),
        ("C:\\drop", "':' before the first '/'"),
        ("\\\\server\\share", "backslash"),
        ("a\0b", "control character"),
        ("\udcff", "not valid UTF-8"),
    ],
)
def test_what_is_wrong_is_said_and_the_password_is_not(text: str, why: str) -> None:
    with pytest.raises(InvalidURL) as caught:
        parse_url(text)
    assert why in str(caught.value)
    shown: BaseException | None = caught.value
    while shown is not None:
        assert "PWPWPW" not in repr(shown) + str(shown)
        shown = shown.__cause__ or shown.__context__


def test_a_right_url_is_shown_with_the_wrong_one() -> None:
    with pytest.raises(InvalidURL, match=r"smb://user@host/share/folder"):
        parse_url("smb://host")


def test_the_password_is_in_neither_text_form() -> None:
    location = parse_url(f"smb://me:{quote(PASSWORD, safe='')}@host/share/a")
    assert location.password == Secret(PASSWORD)
    assert location.password is not None
    assert location.password.reveal() == PASSWORD
    for shown in (str(location), repr(location), f"{location}"):
        assert PASSWORD not in shown
        assert quote(PASSWORD, safe="") not in shown
    with pytest.raises(TypeError, match="not written anywhere"):
        pickle.dumps(location)


# Letters, every kind of delimiter, and whatever else Unicode has; what unsafe_because() refuses is left out.
_text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=12)
_segment = st.one_of(st.sampled_from(["~", "a:b", "%41", "a?b", "#", "@", " ", "üß", "x;y"]), _text).filter(
    lambda segment: not unsafe_because(segment)
)
_path = st.lists(_segment, max_size=4).map("/".join)
_filled_path = st.lists(_segment, min_size=1, max_size=4).map("/".join)
_host = st.one_of(
    st.sampled_from(["localhost", "files.example", "a-b_c", "10.0.0.1", "fe80::1%eth0"]),
    st.ip_addresses(v=6).map(lambda address: str(IPv6Address(int(address)))),
)
_port = st.none() | st.integers(1, 65535)
_user = st.just("") | _text
_absolute = _path.map(lambda path: f"/{path}")
_protocol = st.sampled_from(["s3", "gs", "memory", "abfs"])

_locations = st.one_of(
    st.builds(Location, st.just("sftp"), _absolute, _host, _port, _user),
    st.builds(Location, st.just("sftp"), _path, _host, _port, _user, home=st.just(True)),
    st.builds(Location, st.just("smb"), _path, _host, _port, _user, share=_segment),
    st.builds(Location, st.just("smb"), _path, _host, _port, _text, _text, share=_segment),
    st.builds(Location, st.just("file"), _absolute),
    st.builds(Location, st.just("memory"), _filled_path),
    st.builds(Location, st.just("fsspec"), st.one_of(_filled_path, _absolute), user=_user, protocol=_protocol),
)


@given(_locations)
def test_a_location_written_out_is_read_back_the_same(location: Location) -> None:
    assert parse_url(str(location)) == location


@given(_locations.filter(lambda location: bool(location.user)), _text)
def test_any_password_comes_through_and_is_dropped_from_the_text(location: Location, password: str) -> None:
    info, at, place = str(location).rpartition("@")
    parsed = parse_url(f"{info}:{quote(password, safe='')}{at}{place}")
    assert parsed == replace(location, password=Secret(password))
    assert str(parsed) == str(location)


@given(st.text(max_size=40))
def test_any_text_is_a_location_or_an_invalid_url(text: str) -> None:
    for candidate in (text, f"sftp://{text}", f"smb://{text}", f"fsspec+{text}"):
        try:
            location = parse_url(candidate)
        except InvalidURL:
            continue
        assert parse_url(str(location)) == replace(location, password=None)
