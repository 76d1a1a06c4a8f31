"""How long the store takes, how much it is given at a time, and how often it commits; by verb."""

from collections import Counter
from typing import Final

from tickwheel.adapters.telemetry.catalogue import FAMILIES
from tickwheel.adapters.telemetry.histogram import CALL_BOUNDS_MS, ROWS_BOUNDS, Histogram
from tickwheel.adapters.telemetry.metrics import Metrics

WRITES: Final = ("insert", "claim", "begin", "complete", "renew")
READS: Final = ("load", "feed", "work")
VERBS: Final = (*WRITES, *READS)
_ROWS: Final = {verb: row for row, verb in enumerate(VERBS)}


class StoreCalls:
    """Told of each call. A verb stands for one method of the store."""

    def __init__(self, metrics: Metrics) -> None:
        self._seconds = Histogram(FAMILIES["store_seconds"], VERBS, CALL_BOUNDS_MS, 1000)
        self._batches = Histogram(FAMILIES["store_batch_rows"], VERBS, ROWS_BOUNDS, 1)
        self._commits = Counter[str](dict.fromkeys(WRITES, 0))
        metrics.show_histogram(self._seconds)
        metrics.show_histogram(self._batches)
        metrics.show("commits", lambda: self._commits)

    def answered(self, verb: str, row_count: int, took_ms: int) -> None:
        """It came back. Rows are those that were sent, or of a read those that came."""
        row = _ROWS[verb]
        self._seconds.add_one(row, took_ms)
        self._batches.add_one(row, row_count)
        if verb in self._commits:
            self._commits[verb] += 1

    def failed(self, verb: str, took_ms: int) -> None:
        """It raised an error, or was given up."""
        self._seconds.add_one(_ROWS[verb], took_ms)
