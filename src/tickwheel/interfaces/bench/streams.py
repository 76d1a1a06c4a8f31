"""Steady streams of tagged jobs over HTTP, and what became of each: who shares a server with whom.

A tag is a number that no other job of the benchmark has; thousands of them belong to each stream, so that the log
of calls tells the streams apart and shows that every job was called exactly once.
"""

import threading
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np

from tickwheel.domain.columns import Ints
from tickwheel.interfaces.bench.outcome import BenchFailed
from tickwheel.interfaces.bench.poster import post_all
from tickwheel.interfaces.bench.progress import Progress
from tickwheel.ports.clock import Clock

TAGS: Final = 10_000_000
"""Of one stream in one phase."""
LEAD_MS: Final = 2_000
SLICE_MS: Final = 100


class Stream(NamedTuple):
    """Jobs of one tenant in one lane."""

    number: int
    tenant_id: str
    lane: str
    rate: int


def tagged_job(
    tag: int, due_ms: int, *, tenant_id: str, lane: str, handler: str = "tagged", hold_ms: int = 0
) -> dict[str, Any]:
    """A job for a handler of `tagged`."""
    return {
        "schedule_type": "ONE_OFF",
        "run_at_epoch_ms": due_ms,
        "tenant_id": tenant_id,
        "priority": lane,
        "target": {"type": "HANDLER", "name": handler},
        "payload": {"tag": tag, "hold_ms": hold_ms},
    }


def post_streams(
    port: int, streams: Sequence[Stream], first_ms: int, seconds: int, phase: int, clock: Clock, bar: Progress
) -> int:
    """Create the jobs of all streams, each `LEAD_MS` before it is due; gives how many."""

    def bodies() -> Iterator[bytes]:
        waited = threading.Event()
        for part in range(seconds * 1000 // SLICE_MS):
            from_ms = first_ms + part * SLICE_MS
            jobs = [job for stream in streams for job in _slice(stream, part, from_ms, phase)]
            waited.wait(max(0, from_ms - LEAD_MS - clock.now_ms()) / 1000)
            if jobs:
                yield msgspec.json.encode(jobs)

    created = post_all(port, bodies(), connections=1, on_sent=bar.update)
    wanted = sum(stream.rate for stream in streams) * seconds
    if created != wanted:
        raise BenchFailed(f"{created} of {wanted} jobs were created")
    return created


def _slice(stream: Stream, part: int, from_ms: int, phase: int) -> Iterator[dict[str, Any]]:
    """The jobs that are due within one slice, evenly spread, each stream at instants of its own."""
    before, after = (stream.rate * SLICE_MS * (part + n) // 1000 for n in (0, 1))
    base_tag = (stream.number * 100 + phase) * TAGS
    for number in range(before, after):
        at_ms = from_ms + (number - before) * SLICE_MS // (after - before) + stream.number * 7 % SLICE_MS
        yield tagged_job(base_tag + number, at_ms, tenant_id=stream.tenant_id, lane=stream.lane)


class Called:
    """The calls of all jobs, once each. `created` is how many there have to be."""

    def __init__(self, noted: Ints, created: int) -> None:
        self._tags, self._late_ms = noted[:, 0], noted[:, 2] - noted[:, 1]
        distinct = len(np.unique(self._tags))
        if len(self._tags) != created or distinct != created:
            raise BenchFailed(
                f"{created} jobs were created, {len(self._tags)} calls were made, for {distinct} jobs"
            )
        if int(self._late_ms.min()) < 0:
            raise BenchFailed("some runs started early")

    def late_ms(self, stream: int, phase: int) -> Ints:
        """How late the calls of that stream started."""
        late: Ints = self._late_ms[self._tags // TAGS == stream * 100 + phase]
        return late


def p99(late_ms: Ints) -> float:
    """The 99th of a hundred."""
    if not len(late_ms):
        raise BenchFailed("nothing was measured")
    return round(float(np.percentile(late_ms, 99)), 1)
