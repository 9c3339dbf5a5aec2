"""No name that could reach something else than one file is ever sent."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transports.errors import UnsafePath
from transports.paths import checked, join, shown, split, unsafe_because


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("", "empty"),
        (".", "empty, '.' or '..'"),
        ("..", "empty, '.' or '..'"),
        ("a/b", "a slash"),
        ("a\\b", "a backslash"),
        ("a\0b", "0x00"),
        ("a\nb", "0x0a"),
        ("a\x7f", "0x7f"),
        ("a\udcffb", "not valid UTF-8"),
    ],
)
def test_an_unsafe_name_has_its_reason(name: str, reason: str) -> None:
    assert reason in unsafe_because(name)


@pytest.mark.parametrize("name", ["x", "B_x.csv", "...", "..x", "-rf", "Rechnung März.csv", "a b", "a:b", "%41", "💾"])
def test_a_safe_name_has_none(name: str) -> None:
    assert unsafe_because(name) == ""
    assert checked("stat", name) == name


@pytest.mark.parametrize("path", ["/x", "x/", "a//b", "../x", "a/../b", "a/./b", "a\0b", "a/b\\c"])
def test_one_unsafe_part_refuses_the_path(path: str) -> None:
    with pytest.raises(UnsafePath) as caught:
        checked("delete", path)
    assert caught.value.operation == "delete"
    assert caught.value.path == path


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b"x.csv", "x.csv"),
        ("März".encode(), "März"),
        (b"bad\xff\xfe", r"bad\xff\xfe"),
        (b"a\nb", r"a\nb"),
        (b"\x1b[31m", r"\x1b[31m"),
        ("\u202e".encode(), r"\u202e"),
    ],
)
def test_an_unsafe_name_is_shown_in_print(raw: bytes, text: str) -> None:
    assert shown(raw) == text


def test_the_empty_path_is_the_root() -> None:
    assert checked("scan", "") == ""


@given(st.lists(st.text(min_size=1, max_size=5).filter(lambda name: not unsafe_because(name)), min_size=1, max_size=4))
def test_split_undoes_join(segments: list[str]) -> None:
    path = ""
    for segment in segments:
        folder, path = path, join(path, segment)
        assert split(path) == (folder, segment)
    assert checked("stat", path) == path
