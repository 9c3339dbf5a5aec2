"""The error tree: what a class means to its caller, and what a message tells."""

import pickle
import re

import pytest

from transports import errors
from transports.errors import ConnectionFailed, TransportError

ALL = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, TransportError)]


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.__name__)
def test_each_error_tells_operation_path_and_detail(kind: type[TransportError]) -> None:
    error = kind("publish", "B_x.csv", "because of this")
    assert str(error) == "publish 'B_x.csv': because of this"
    assert str(kind("publish", "B_x.csv")) == f"publish 'B_x.csv': {error.summary}"
    assert str(kind("connect", detail="no answer")) == "connect: no answer"
    assert (error.operation, error.path, error.detail) == ("publish", "B_x.csv", "because of this")


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.__name__)
def test_each_error_crosses_a_process_boundary(kind: type[TransportError]) -> None:
    error = pickle.loads(pickle.dumps(kind("scan", "in", "detail")))  # noqa: S301  (our own bytes)
    assert type(error) is kind
    assert str(error) == "scan 'in': detail"


def test_the_drawing_at_the_top_is_the_tree() -> None:
    drawn = set(re.findall(r"(?:├|└)── (\w+)", errors.__doc__ or ""))
    assert drawn == {kind.__name__ for kind in ALL} - {"TransportError"}
    below = set(re.findall(r"^ {8}(?:├|└)── (\w+)", errors.__doc__ or "", re.MULTILINE))
    assert below == {kind.__name__ for kind in ALL if issubclass(kind, ConnectionFailed) and kind is not ConnectionFailed}
    for kind in ALL:
        assert kind.__base__ in (ConnectionFailed, TransportError, Exception)
