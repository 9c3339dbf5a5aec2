"""A drop whose folder goes away under those who use it is away: it never looks empty."""

import pytest

from protocol.procedures import look
from tests.crash.conftest import make_place
from transports.errors import NotFound, Unreachable


@pytest.mark.parametrize("kind", ["local", "sftp", "smb"])
@pytest.mark.parametrize("layout", ["prefix", "folders"])
def test_a_drop_that_was_moved_away_is_not_empty(request: pytest.FixtureRequest, kind: str, layout: str) -> None:
    place = make_place(request, kind).with_layout(layout)
    with place.drop().driver() as driver:
        assert driver.run(look.snapshot(place.rules)).items == {}
        elsewhere = place.seen.with_name(place.seen.name + "-elsewhere")
        place.seen.rename(elsewhere)
        try:
            with pytest.raises((NotFound, Unreachable)):
                driver.run(look.snapshot(place.rules))
            with pytest.raises((NotFound, Unreachable)):
                driver.run(look.ready_tokens(place.rules, "orders_"))
        finally:
            elsewhere.rename(place.seen)
        assert driver.run(look.snapshot(place.rules)).items == {}
