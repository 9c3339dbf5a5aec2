"""A stranger's text in a message for people: quoted, with nothing that a terminal would obey, and not at any length."""

_LONGEST = 100  # characters; more helps nobody to recognise it


def shown(text: str) -> str:
    """The text in quotes, its control characters escaped; of a long one its beginning and its length."""
    if len(text) <= _LONGEST:
        return repr(text)
    return f"{text[:_LONGEST]!r}... ({len(text)} characters)"
