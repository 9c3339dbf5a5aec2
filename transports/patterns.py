"""Listing patterns: `*` and `?`, by exact case, and nothing else is special."""

import re
from functools import lru_cache


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> re.Pattern[str]:
    parts = (".*" if c == "*" else "." if c == "?" else re.escape(c) for c in pattern)
    return re.compile("".join(parts), re.DOTALL)


def matches(pattern: str, name: str) -> bool:
    """Whether the whole name fits the pattern. Servers fold case and know more wildcards; this is the last word."""
    return pattern == "*" or _compiled(pattern).fullmatch(name) is not None
