"""The limits of the configuration as numbers, and what every rule is given."""

from collections.abc import Callable
from dataclasses import dataclass

from gateway.service.alarms.alarm import Alarm
from gateway.service.alarms.memory import Memory
from gateway.service.board import Picture
from gateway.service_sections import AlarmsSettings, ExpectSettings
from gateway.times import span

MOST_GROUPS = 50  # of one drop have alarms of their own: their names are a stranger's


@dataclass(frozen=True, slots=True)
class Limits:
    """Spans in seconds, space in bytes. A limit of 0 switches its rule off."""

    before_age: float
    ready_age: float
    errors: int
    gap_age: float
    away_age: float
    clock_offset: float
    free_space: int
    expectations: tuple[ExpectSettings, ...] = ()


def limits_of(settings: AlarmsSettings, expectations: tuple[ExpectSettings, ...] = ()) -> Limits:
    """The limits that a configuration sets."""
    return Limits(
        before_age=span(settings.before_age),
        ready_age=span(settings.ready_age),
        errors=settings.errors,
        gap_age=span(settings.gap_age),
        away_age=span(settings.away_age),
        clock_offset=span(settings.clock_offset),
        free_space=settings.free_mib * 2**20,
        expectations=expectations,
    )


# A rule looks at the picture, and says what is wrong now. It changes nothing but the memory. The last is the time, in seconds
# since the epoch, by this host's clock.
Judge = Callable[[Picture, Memory, Limits, float], list[Alarm]]


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule, and the kinds of alarms that it alone finds."""

    kinds: frozenset[str]
    judge: Judge
