"""A listing pattern means the same on every server."""

import fnmatch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transports.patterns import matches


@pytest.mark.parametrize(
    ("pattern", "name", "expected"),
    [
        ("*", "", True),
        ("*", "anything\n", True),
        ("B_*", "B_x.csv", True),
        ("B_*", "b_x.csv", False),
        ("B_*", "xB_x.csv", False),
        ("*.csv", "x.csv", True),
        ("*.csv", "xcsv", False),
        ("*.csv", "x.csv.sha256", False),
        ("a?c", "abc", True),
        ("a?c", "ac", False),
        ("a?c", "aüc", True),
        ("[ab]", "a", False),
        ("[ab]", "[ab]", True),
        ("<.csv", "x.csv", False),
        ('x".csv', "x..csv", False),
        ("x", "x\n", False),
        ("", "x", False),
    ],
)
def test_only_star_and_question_mark_are_special(pattern: str, name: str, expected: bool) -> None:
    assert matches(pattern, name) is expected


@given(st.text("ab.*?", max_size=6), st.text("aAb.", max_size=8))
def test_it_agrees_with_the_shell(pattern: str, name: str) -> None:
    assert matches(pattern, name) is fnmatch.fnmatchcase(name, pattern)
