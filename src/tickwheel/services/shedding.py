"""Refuses new jobs while there is too much (429), before the store is in trouble. Reads and cancels always go.

What is stored is under way for as long as the store takes, so a store that gets slow, or hangs, shows at once: by
the age of the oldest insert that has no answer, not only by those that came back.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final, NamedTuple

from tickwheel.domain.demand_shares import DemandShares
from tickwheel.domain.errors import Overloaded
from tickwheel.domain.lanes import LANE_COUNT
from tickwheel.domain.shedding import WORDS, Load, Shedder, Why
from tickwheel.ports.clock import Clock
from tickwheel.ports.events import EventSink, IngestShedding
from tickwheel.services.attempts import Pool
from tickwheel.services.ready import ReadyRing
from tickwheel.services.supervision import supervise

LOOK_MS: Final = 100
OVER_MS: Final = 10_000
"""It is told that refusing is over when nothing was refused for so long: in a flood it comes and goes."""
FEW_RUNS: Final = 2_000
"""Two batches of claims."""
BUSY_FACTOR: Final = 2
"""With more than half of the slots running, execution is what takes long."""
SAMPLES: Final = 64
SAMPLES_MS: Final = 5_000
"""Commits that are longer ago say nothing any more."""


class Behind(NamedTuple):
    """Due runs that wait although they could be executed: how many, and for how long there have been that many."""

    run_count: int = 0
    lasted_ms: int = 0


class BehindWatch:
    """Called again and again, it says how far claiming is behind.

    That is not how late the oldest run is: the backlog of a host that was down for an hour is late too, and comes
    in small parts. Attempts are counted, not slots: claims that are under way hold slots too.
    """

    def __init__(self, ready: ReadyRing, pools: Sequence[Pool], clock: Clock) -> None:
        self._ready, self._pools, self._clock = ready, pools, clock
        self._few_ms = clock.monotonic_ms()  # when there were few the last time

    def __call__(self) -> Behind:
        now_ms, count = self._clock.monotonic_ms(), 0
        for kind, pool in enumerate(self._pools):
            if len(pool.inflight) * BUSY_FACTOR <= pool.inflight.capacity:
                count += sum(self._ready.count(kind, lane) for lane in range(LANE_COUNT))
        if count <= FEW_RUNS:
            self._few_ms = now_ms
        return Behind(count, now_ms - self._few_ms)


class Shedding:
    """Asked before each new job; told of each insert."""

    def __init__(
        self,
        *,
        clock: Clock,
        events: EventSink,
        uncommitted: Callable[[], int] = lambda: 0,
        behind: Callable[[], Behind] = Behind,
    ) -> None:
        self._clock, self._events = clock, events
        self._uncommitted, self._behind = uncommitted, behind
        self._shedder, self._shares = Shedder(), DemandShares()
        self._under_way: dict[int, tuple[int, int]] = {}  # number of the insert: (since, jobs), oldest first
        self._number = self._waiting = 0
        self._took: deque[tuple[int, int]] = deque(maxlen=SAMPLES)
        self._lag_ms = self._shed_ms = 0
        self._told = False
        self._loop: asyncio.Task[None] | None = None
        self.refused: Counter[Why] = Counter()

    @property
    def why(self) -> Why | None:
        """For what new jobs are refused now."""
        return self._shedder.why

    def check(self) -> None:
        """Before a request for new jobs is read. Raises `Overloaded`.

        Runs that are late are those of whoever has many, so that reason is looked at when it is known who asks.
        """
        why = self._look()
        if why is not None and why is not Why.BEHIND:
            self._refuse(why)

    def check_tenants(self, counts: Mapping[str, int]) -> None:
        """Before so many new jobs of these tenants are stored. Raises `Overloaded`, and nothing was written."""
        self._shares.note(counts, self._clock.monotonic_ms())
        why = self._look()
        if why is not None and not (why is Why.BEHIND and self._shares.is_modest(counts)):
            self._refuse(why)

    def _refuse(self, why: Why) -> None:
        self.refused[why] += 1
        seconds = self._shedder.retry_after_s(self._clock.monotonic_ms())
        raise Overloaded(f"{WORDS[why]}; nothing was written, send it again in {seconds} s", seconds)

    @contextmanager
    def inserting(self, job_count: int) -> Iterator[None]:
        """While so many jobs are being stored."""
        self._number += 1
        number, began_ms = self._number, self._clock.monotonic_ms()
        self._under_way[number] = (began_ms, job_count)
        self._waiting += job_count
        try:
            yield
        finally:
            del self._under_way[number]
            self._waiting -= job_count
            now_ms = self._clock.monotonic_ms()
            self._took.append((now_ms, now_ms - began_ms))

    def start(self) -> None:
        """Begin to watch, on the running event loop."""
        loop = supervise("shedding", self.run, self._clock, self._events)
        self._loop = asyncio.create_task(loop, name="tickwheel-shedding")

    async def stop(self) -> None:
        """Watch no more."""
        if self._loop is not None:
            self._loop.cancel()
            await asyncio.gather(self._loop, return_exceptions=True)
            self._loop = None

    async def run(self) -> None:
        """Measure how late the event loop is, for ever."""
        while True:
            began_ms = self._clock.monotonic_ms()
            await self._clock.sleep_ms(LOOK_MS)
            late_ms = max(0, self._clock.monotonic_ms() - began_ms - LOOK_MS)
            # Half of it is what was seen last: a single short pause of the process is soon forgotten.
            self._lag_ms = (self._lag_ms + late_ms) // 2
            self._look()

    def _look(self) -> Why | None:
        now_ms = self._clock.monotonic_ms()
        behind = self._behind()
        load = Load(
            waiting_jobs=self._waiting,
            commit_ms=self._commit_ms(now_ms),
            uncommitted=self._uncommitted(),
            lag_ms=self._lag_ms,
            behind_ms=behind.lasted_ms,
            backlog=behind.run_count,
        )
        why = self._shedder.judge(load, now_ms)
        if why is not None:
            self._shed_ms = now_ms
            if not self._told:
                self._told = True
                self._events.emit(IngestShedding(sheds=True, why=why.value))
        elif self._told and now_ms - self._shed_ms >= OVER_MS:
            self._told = False
            self._events.emit(IngestShedding(sheds=False, why=""))
        return why

    def _commit_ms(self, now_ms: int) -> int:
        """The 90th percentile of late, or the age of the oldest that has no answer."""
        while self._took and self._took[0][0] < now_ms - SAMPLES_MS:
            self._took.popleft()
        lengths = sorted(took_ms for _, took_ms in self._took)
        p90_ms = lengths[len(lengths) * 9 // 10] if lengths else 0
        oldest = next(iter(self._under_way.values()), None)
        return p90_ms if oldest is None else max(p90_ms, now_ms - oldest[0])
