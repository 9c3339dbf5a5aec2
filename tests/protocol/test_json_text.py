"""JSON from strangers: what two readers could see differently, or stumble over, is refused with a reason."""

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.json_text import DEEPEST, InvalidJson, format_object, parse_object

LIMIT = 1000

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**30), 10**30)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(max_size=8), values, max_size=4))
def test_what_is_written_is_read_back(value: dict[str, object]) -> None:
    assert parse_object(format_object(value), limit=100_000) == value


def test_it_is_written_as_people_read_it() -> None:
    assert format_object({"a": 1, "ü": [True]}) == '{\n  "a": 1,\n  "ü": [\n    true\n  ]\n}\n'.encode()


def test_a_byte_order_mark_is_tolerated_and_never_written() -> None:
    assert parse_object(b'\xef\xbb\xbf{"a": 1}', limit=LIMIT) == {"a": 1}
    assert not format_object({}).startswith(b"\xef\xbb\xbf")


REFUSED = [
    (b"", "cut short"),
    (b"{", "cut short"),
    (b'{"a": 1', "cut short"),
    (b'{"a": 1}x', "not JSON"),
    (b'{"a": 1}{}', "not JSON"),
    (b'\xef\xbb\xbf\xef\xbb\xbf{"a": 1}', "not JSON"),
    (b"[]", "not an object"),
    (b"1", "not an object"),
    (b"null", "not an object"),
    (b'{"a": 1, "a": 1}', "'a' stands twice"),
    (b'{"a": 1, "\\u0061": 2}', "'a' stands twice"),
    (b'{"x": {"a": 1, "a": 2}}', "'a' stands twice"),
    (b'{"a": NaN}', "NaN"),
    (b'{"a": Infinity}', "Infinity"),
    (b'{"a": -Infinity}', "Infinity"),
    (b'{"a": 1e999}', "too large"),
    (b'{"a": ' + b"9" * 41 + b"}", "too large"),
    (b'{"a": ' + b"9" * 900 + b"}", "too large"),
    (b'{"a": "\\ud800"}', "surrogate"),
    (b'{"\\udc00": 1}', "surrogate"),
    (b'{"a": ["\\ude00\\ud83d"]}', "surrogate"),
    (b'{"a": "\xff"}', "not UTF-8 at byte 7"),
    (b'{"a": "\xed\xa0\x80"}', "not UTF-8"),
    ('{"a": 1}'.encode("utf-16"), "not UTF-8"),
    (b'{"a": "\x00"}', "not JSON"),
    (b'{"a": "\n"}', "not JSON"),
    (b'{"a": 01}', "not JSON"),
    (b"{'a': 1}", "not JSON"),
    (b'{"a": 1,}', "not JSON"),
    (b'{"a": ' + b"[" * 64 + b"]" * 64 + b"}", "nested"),
    (b'{"a": ' + b"[" * 400 + b"]" * 400 + b"}", "nested"),
    (b" " * 1001, "larger than 1000 bytes"),
]


@pytest.mark.parametrize(("data", "why"), REFUSED)
def test_what_is_not_one_plain_object_is_refused(data: bytes, why: str) -> None:
    with pytest.raises(InvalidJson, match=why):
        parse_object(data, limit=LIMIT)


def test_a_hundred_thousand_brackets_are_an_error_like_any_other() -> None:
    with pytest.raises(InvalidJson, match="nested"):
        parse_object(b'{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", limit=1_000_000)


def test_as_deep_as_is_allowed_is_read() -> None:
    data = b'{"a": ' + b"[" * (DEEPEST - 1) + b"]" * (DEEPEST - 1) + b"}"
    assert json.dumps(parse_object(data, limit=LIMIT)).count("[") == DEEPEST - 1


@given(st.binary(max_size=60))
def test_random_bytes_are_one_object_or_refused_with_a_reason(data: bytes) -> None:
    with contextlib.suppress(InvalidJson):
        assert isinstance(parse_object(data, limit=LIMIT), dict)


@given(st.dictionaries(st.text(min_size=1, max_size=4), values, min_size=1, max_size=2), st.data())
def test_an_object_that_is_cut_anywhere_is_refused(value: dict[str, object], data: st.DataObject) -> None:
    whole = format_object(value).rstrip()
    with pytest.raises(InvalidJson):
        parse_object(whole[: data.draw(st.integers(0, len(whole) - 1))], limit=100_000)


@pytest.mark.parametrize("value", [{"a": float("nan")}, {"a": float("inf")}, {"a": "\ud800"}, {"a": b"bytes"}])
def test_what_no_reader_would_take_is_not_written(value: dict[str, object]) -> None:
    with pytest.raises((InvalidJson, TypeError)):
        format_object(value)


def test_a_message_quotes_little_of_what_a_stranger_wrote() -> None:
    key = "k" * 900
    with pytest.raises(InvalidJson) as caught:
        parse_object(f'{{"{key}": 1, "{key}": 2}}'.encode(), limit=10_000)
    assert "(900 characters)" in str(caught.value)
    assert len(str(caught.value)) < 250
