"""The last hour as two charts: inline SVG for the eye, the same numbers as a table for everybody else.

The drawings hold shapes only and are stretched to the width there is; every word stands beside them as text.
"""

from gateway.service.web.history import MINUTES, Point, gaps_between
from gateway.service.web.markup import Element, each, h, when
from gateway.service.web.words import counted, size, span, utc

_WIDTH, _HEIGHT = 600.0, 100.0
_STEP = _WIDTH / MINUTES

Pieces = dict[str, Element]


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def _rounded_up(value: float) -> float:
    """The next of 1, 2, 5, 10, 20, ... so that a scale stays as it is for a while."""
    if value <= 0:
        return 1.0
    power = 10.0 ** (len(f"{int(value)}") - 1) if value >= 1 else 10.0 ** -_zeros(value)
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= value)


def _zeros(value: float) -> int:
    places = 1
    while value * 10**places < 1 and places < 9:
        places += 1
    return places


def throughput_bars(points: list[Point]) -> Pieces:
    """One group of bars a minute: what was forwarded, and on top of it, hatched, what failed."""
    top = _rounded_up(max((point.forwarded + point.failed for point in points), default=0))
    pieces: Pieces = {}
    for place, point in enumerate(points):
        x = place * _STEP
        good, bad = point.forwarded / top * _HEIGHT, point.failed / top * _HEIGHT
        bars = []
        if good:
            bars.append(_bar("bar", x, _HEIGHT - good, good))
        if bad:
            bars.append(_bar("bar failed", x, _HEIGHT - good - bad, bad))
        pieces[f"{point.start:.0f}"] = each("g", {}, bars)
    return pieces


def _bar(kind: str, x: float, y: float, height: float) -> Element:
    place = {"x": _number(x + _STEP * 0.12), "y": _number(y), "width": _number(_STEP * 0.76), "height": _number(height)}
    return h("rect", {"class": kind, **place})


def throughput_caption(points: list[Point]) -> Pieces:
    """What the bars say, in words."""
    forwarded, failed = sum(p.forwarded for p in points), sum(p.failed for p in points)
    top = _rounded_up(max((p.forwarded + p.failed for p in points), default=0))
    text = f"{counted(forwarded, 'item')} and {size(sum(p.bytes for p in points))} forwarded in the last hour"
    return {
        "text": h("span", {}, text + (f", {failed:,} failed." if failed else ", none failed.")),
        "top": h("span", {"class": "scale"}, f"top: {top:,.0f} a minute"),
    }


def latency_lines(points: list[Point]) -> Pieces:
    """The median as a line, and the band up to what 19 of 20 items were quicker than."""
    top = _latency_top(points)
    pieces: Pieces = {}
    for run in gaps_between(points):
        places = [((point.start - points[0].start) / 60 + 0.5) * _STEP for point in run]
        low = [_HEIGHT - (point.median or 0.0) / top * _HEIGHT for point in run]
        high = [_HEIGHT - (point.slowest or 0.0) / top * _HEIGHT for point in run]
        if len(run) == 1:  # a line of one point would not be seen
            places, low, high = [places[0] - _STEP / 3, places[0] + _STEP / 3], low * 2, high * 2
        edge = [*zip(places, high, strict=True), *reversed(list(zip(places, low, strict=True)))]
        pieces[f"{run[0].start:.0f}"] = h(
            "g",
            {},
            h("path", {"class": "band", "d": _path(edge) + "Z"}),
            h("path", {"class": "median", "d": _path(list(zip(places, low, strict=True)))}),
        )
    return pieces


def _latency_top(points: list[Point]) -> float:
    return _rounded_up(max((point.slowest or 0.0 for point in points), default=0.0))


def _path(places: list[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{_number(x)} {_number(y)}" for x, y in places)


def latency_caption(points: list[Point]) -> Pieces:
    """What the line says, in words."""
    timed = [point for point in points if point.median is not None]
    if not timed:
        text = "No item was timed in the last hour."
    else:
        middle = sorted(point.median or 0.0 for point in timed)[len(timed) // 2]
        slowest = max(point.slowest or 0.0 for point in timed)
        text = f"From made to forwarded: {span(middle)} in a usual minute, 19 of 20 within {span(slowest)} in the slowest."
    return {
        "text": h("span", {}, text),
        "top": h("span", {"class": "scale"}, f"top: {span(_latency_top(points))}" if timed else ""),
    }


def numbers(points: list[Point]) -> Pieces:
    """Both charts as rows of a table, the newest first, without minutes in which nothing happened."""
    return {
        f"{point.start:.0f}": h(
            "tr",
            {},
            h("th", {"scope": "row"}, when(utc(point.start))),
            h("td", {}, f"{point.forwarded:,}"),
            h("td", {}, f"{point.failed:,}"),
            h("td", {}, size(point.bytes)),
            h("td", {}, "" if point.median is None else span(point.median)),
            h("td", {}, "" if point.slowest is None else span(point.slowest)),
        )
        for point in reversed(points)
        if point.forwarded or point.failed
    }


def spark(points: list[Point]) -> Element:
    """A route's last hour as a small drawing, for the eye only: the numbers stand beside it."""
    top = max((point.forwarded for point in points), default=0) or 1
    bars = "".join(
        f"M{place * 2 + 0.2:.1f} 20v{-max(point.forwarded / top * 19, 1):.1f}h1.6V20z"
        for place, point in enumerate(points)
        if point.forwarded
    )
    return h(
        "svg",
        {"class": "spark", "viewBox": f"0 0 {MINUTES * 2} 20", "preserveAspectRatio": "none", "aria-hidden": "true"},
        h("path", {"class": "floor", "d": f"M0 19.5H{MINUTES * 2}"}),
        h("path", {"class": "bar", "d": bars or "M0 20"}),
    )
