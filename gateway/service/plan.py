"""From settings to routes: what a configuration says, as the daemon runs it. Nothing is opened here."""

from dataclasses import replace
from functools import partial

from gateway.drop import Drop
from gateway.handoff.ordering import Strictness
from gateway.ledgers import open_configured
from gateway.sections import RouteSettings
from gateway.service.runner import End, Route
from gateway.service.tracing import NO_TRACING, Tracing
from gateway.settings import Settings
from gateway.times import parse_window, rate


def routes_of(settings: Settings, tracing: Tracing = NO_TRACING) -> list[Route]:
    """Every route, traced by `tracing`. Raises ConfigurationError for a file, such as a key, that cannot be used."""
    drops = {name: settings.open_drop(name) for route in settings.route for name in (route.from_, *route.to)}
    return [replace(_route(settings, route, drops), tracing=tracing) for route in settings.route]


def _route(settings: Settings, route: RouteSettings, drops: dict[str, Drop]) -> Route:
    source = drops[route.from_]
    used = (route.from_, *route.to)
    return Route(
        title=route.title,
        source=source,
        ends=tuple(_end(settings, route, source, name, drops[name]) for name in route.to),
        groups=tuple(route.groups or settings.drop[route.from_].groups),
        source_name=route.from_,
        ordering=route.ordering,
        workers=route.workers,
        max_attempts=route.max_attempts,
        poll=route.poll,
        lease_ttl=route.lease_ttl,
        strictness=Strictness(route.gap_timeout, route.on_gap, route.on_error),
        ledger=partial(open_configured, settings.ledger, source),
        book=partial(open_configured, settings.ledger, source, f"receipts of {route.title}"),
        ages=settings.drop[route.from_].ages(),
        suffixes=frozenset(route.suffixes),
        meta=route.meta,
        counter=route.numbering == "counter",
        original_names=route.original_names,
        bandwidth=None if route.bandwidth is None else rate(route.bandwidth),
        windows=tuple(map(parse_window, route.windows)),
        timezone=route.timezone,
        settings=(
            route,
            settings.ledger,
            # With what their files say: a password that was changed in its file is another setting.
            *((settings.drop[name], drops[name].endpoint, drops[name].slots, drops[name].signing_key_id) for name in used),
        ),
    )


def _end(settings: Settings, route: RouteSettings, source: Drop, name: str, drop: Drop) -> End:
    if route.verify is not None:
        drop = replace(drop, rules=replace(drop.rules, verify=route.verify))
    return End(name, drop, partial(open_configured, settings.ledger, source, name))
