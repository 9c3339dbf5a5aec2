"""Transitions as a route tells them, made up."""

from typing import Any

from gateway.service.transitions import Transition, What


def step(number: int = 1, what: What = What.FORWARDED, **more: Any) -> Transition:
    """One step of an item of the group `orders_`."""
    values: dict[str, Any] = {
        "at": f"2026-11-30T10:{number // 60 % 60:02}:{number % 60:02}.000000Z",
        "route": "out -> bank",
        "drop": "out",
        "group": "orders_",
        "sequence": f"{number:010}",
    }
    return Transition(what=what, **values | more)


# One of each kind, with all that a route may say.
EACH = [
    step(
        number,
        what,
        key=f"key {number}",
        attempt=number,
        owner="shop-4711-9f3a2c",
        destination="bank",
        bytes=10**12 + number,
        seconds=number / 8,
        text='Ein "Grund", \\ mit \n Zeilen \x00 und \udc80',
        trace=f"00-{number + 1:032x}-{number + 1:016x}-01",
    )
    for number, what in enumerate(What)
]
