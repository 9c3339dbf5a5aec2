"""Metrics in the text format of Prometheus: what was counted since the start, and what the board shows now.

The names and what they mean are in docs/metrics.md.
"""

import threading
from collections.abc import Callable, Iterator, Sequence

from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.metrics_core import Metric

from gateway.service.board import Board
from gateway.service.board_metrics import BoardMetrics
from gateway.service.journal import Journal
from gateway.service.transitions import Transition, What

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4

OUTCOMES = (
    *(What.FORWARDED, What.ACKNOWLEDGED, What.RETURNED, What.WAITING, What.FAILED, What.LOST, What.UNSETTLED, What.HELD),
    *(What.REPLAYED, What.DISCARDED),
)
PUBLICATIONS = (What.PUBLISHED, What.KNOWN, What.REFUSED)
CONFLICTS = (What.LOST, What.WAITING)
# From what a local route takes to what a night without its server does.
_BUCKETS = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0, 14400.0, 86400.0)


class Metrics:
    """`listen` is a listener of the hub; `text` is what is scraped. For any number of threads.

    `alarms` gives those that are on; `journal` the one whose lost lines are counted.
    """

    def __init__(
        self, board: Board, alarms: Callable[[], Sequence[object]] | None, version: str, journal: Journal | None = None
    ) -> None:
        self._board = board
        self._journal = journal
        self._version = version
        self._registry = CollectorRegistry()  # of our own: nothing that a library registers for itself is shown
        self._seen = BoardMetrics(board, alarms)
        self._lock = threading.Lock()  # for it: it remembers what it has counted
        self._items = self._counter("items", "Items by what became of them.", "route", "outcome")
        self._bytes = self._counter("bytes", "Bytes of those items' payloads.", "route", "outcome")
        self._publications = self._counter("publications", "Publications at a destination.", "route", "destination", "result")
        self._retries = self._counter("retries", "Items that were begun again.", "route")
        self._conflicts = self._counter("conflicts", "Items that another worker had, or whose key it had.", "route")
        self._duration = Histogram(
            "dropgate_ready_to_after_seconds",
            "Time from an item's creation, by its producer's clock, to its after image.",
            ("route",),
            buckets=_BUCKETS,
            registry=self._registry,
        )
        ProcessCollector(registry=self._registry)

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(f"dropgate_{name}", text, labels, registry=self._registry)

    def listen(self, transition: Transition) -> None:
        """Counts one step."""
        route, what = transition.route, transition.what
        if what in OUTCOMES:
            self._items.labels(route, what.value).inc()
            if transition.bytes is not None:
                self._bytes.labels(route, what.value).inc(transition.bytes)
        if what in PUBLICATIONS:
            self._publications.labels(route, transition.destination, what.value).inc()
        if what is What.BEGUN and transition.attempt > 1:
            self._retries.labels(route).inc()
        if what in CONFLICTS:
            self._conflicts.labels(route).inc()
        if what is What.FORWARDED and transition.seconds is not None:
            self._duration.labels(route).observe(transition.seconds)

    def text(self) -> bytes:
        """All metrics as they are now, of the content type CONTENT_TYPE."""
        with self._lock:
            self._begin_routes()
            return generate_latest(self)  # it asks for `collect` and nothing else

    def _begin_routes(self) -> None:
        """Zeros for what has not happened yet: a rate needs a value to begin with."""
        for route in self._board.picture().routes:
            for outcome in OUTCOMES:
                self._items.labels(route.title, outcome.value)
                self._bytes.labels(route.title, outcome.value)
            for destination in route.destinations:
                for result in PUBLICATIONS:
                    self._publications.labels(route.title, destination, result.value)
            self._retries.labels(route.title)
            self._conflicts.labels(route.title)
            self._duration.labels(route.title)

    def collect(self) -> Iterator[Metric]:
        """What `text` writes. Without the times at which counters began, which would double their number."""
        for metric in self._registry.collect():
            metric.samples = [sample for sample in metric.samples if not sample.name.endswith("_created")]
            yield metric
        yield from self._seen.collect()
        build = GaugeMetricFamily("dropgate_build_info", "The version that runs; always 1.", labels=("version",))
        build.add_metric((self._version,), 1.0)
        yield build
        if self._journal is not None:
            errors = CounterMetricFamily("dropgate_journal_errors", "Steps that are missing in a journal.", labels=("journal",))
            errors.add_metric(("file",), self._journal.errors)
            if self._journal.database is not None:
                errors.add_metric(("database",), self._journal.lost_rows)
            yield errors
