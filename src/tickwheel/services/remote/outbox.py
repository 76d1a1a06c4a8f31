"""Publishes claimed runs and looks after them until somebody has begun them.

The ledger is the outbox of the queue: the claim is committed first, then its hint is published. A hint may get
lost with the queue, or with a worker between take and begin. So what was published is kept here until a look at
the ledger shows that it has begun or is over; what shows no start after `REPUBLISH_MS` is published again, under
the same token (F2: only what is queued, without a worker; duplicates meet at the begin). From the begin on a row
in `leases` leads to the run, whoever dies, so nothing more has to be remembered of it.

Publishing never holds up claims: a queue that hangs, or is away, gets its hints later. What it has not taken in
yet takes up room of its topic, else for a queue that tells its depth and takes nothing in all would be claimed.

Workers come and go meanwhile. What should have begun by now and is for others, because a tenant's own workers have
left or come, is published for these. Where no worker is left that could begin it, or this process could do it and
no worker takes work, it is handed back, without using an attempt up, and waits unclaimed like all the rest.

An owner that takes a shard over meets what was queued by the claims of the timers, and adopts it.
"""

import asyncio
from collections import Counter
from collections.abc import Collection, Sequence
from contextlib import suppress
from typing import Final

import numpy as np

from tickwheel.domain.columns import COMPLETION, FLAG_LANE_MASK, TIMER, Bools, CompletionCause, Ints, Rows, empty
from tickwheel.domain.errors import StoreUnavailable
from tickwheel.domain.id_columns import shards_of
from tickwheel.domain.job import Lane
from tickwheel.domain.outcome import OutcomeClass
from tickwheel.domain.run import RunState
from tickwheel.ports.clock import Clock
from tickwheel.ports.queue import HINT, Queue, Topic, route_of, shared_route
from tickwheel.ports.store import AttemptNote, Run, Store, WorkDefinition
from tickwheel.services.alarm import Alarm
from tickwheel.services.completion import Completions
from tickwheel.services.plans import read_spec
from tickwheel.services.remote.routes import Routes

REPUBLISH_MS: Final = 5_000
REPEAT_MS: Final = 60_000
"""The same while the queue holds as many hints of the topic as were not begun: most likely they wait there, for
workers that are busy. (The hints may be those of another owner, so it is not left at that.)"""
CHECK_MS: Final = 500
IDLE_MS: Final = 60_000
REFUSED_MS: Final = 500
"""Before the next try at a queue that did not take something in."""
READ_TOGETHER: Final = 1_000
SENT_TOGETHER: Final = 64
"""Topics that are published at a time: there may be very many, with a few hints each."""
UNBEGUN: Final = AttemptNote(error="not started: no worker is left that could do it", excerpt=None)

PUBLISHED: Final = np.dtype(
    [
        ("look_mono_ms", "<i8"),
        ("sent_mono_ms", "<i8"),
        ("due_ms", "<i8"),
        ("route_hash", "<i8"),
        *((n, HINT[n]) for n in HINT.names or ()),
    ]
)
"""A hint with the due time of its timer, when and where it was published, and when to look for its begin."""


class Outbox:
    """What this owner has claimed for workers elsewhere and has not seen begun.

    What travels by `local_routes` this process could do itself.
    """

    def __init__(
        self,
        *,
        queue: Queue | None,
        store: Store,
        routes: Routes,
        local_routes: Collection[str] = (),
        completions: Completions,
        clock: Clock,
    ) -> None:
        self._queue, self._store, self._routes = queue, store, routes
        self._completions, self._clock, self._local = completions, clock, local_routes
        self._chunks: list[Rows] = []
        self._unsent: dict[Topic, list[Rows]] = {}
        self._alarm, self._kept = Alarm(clock), Alarm(clock)

    def __len__(self) -> int:
        return sum(map(len, self._chunks))

    def unsent(self, topic: Topic) -> int:
        """Hints of this topic that the queue has not taken in yet."""
        return sum(map(len, self._unsent.get(topic, ())))

    def rows(self) -> Rows:
        """As TIMER rows: their timers are not resolved yet."""
        return _as_timers(np.concatenate(self._chunks)) if self._chunks else empty(TIMER)

    def publish(self, topics: Sequence[Topic], timers: Rows, fences: Ints) -> None:
        """These claims are won: TIMER rows, each with its topic and token. They are sent in the background."""
        rows = empty(PUBLISHED, len(timers))
        for name in ("due_ms", "job_id", "scheduled_ms", "flags"):
            rows[name] = timers[name]
        rows["fence"], rows["route_hash"] = fences, _route_hashes(topics)
        rows["sent_mono_ms"] = mono_ms = self._clock.monotonic_ms()
        rows["look_mono_ms"] = mono_ms + REPUBLISH_MS
        self._chunks.append(rows)
        self._kept.ring()
        self._send(topics, rows)

    def adopt(self, run: Run, due_ms: int) -> None:
        """A queued run that this owner did not publish: its claimer is gone, or its answer was lost."""
        if any(self._is_of(chunk, run).any() for chunk in self._chunks):
            return
        if len(self._chunks) > 2:  # thousands come one by one; the first chunk may be under a look
            self._chunks[1:] = [np.concatenate(self._chunks[1:])]
        row = empty(PUBLISHED, 1)
        row["look_mono_ms"], row["due_ms"] = self._clock.monotonic_ms(), due_ms
        row["sent_mono_ms"] = row["look_mono_ms"] - REPEAT_MS
        row["job_id"], row["scheduled_ms"] = np.void(run.job_id), run.scheduled_ms
        row["fence"], row["flags"] = run.fence, int(run.lane)
        self._chunks.append(row)
        self._kept.ring()

    def _is_of(self, rows: Rows, run: Run) -> Bools:
        same = (rows["scheduled_ms"] == run.scheduled_ms) & (rows["fence"] == run.fence)
        found: Bools = same & (rows["job_id"] == np.void(run.job_id))
        return found

    def forget(self, shards: Sequence[int]) -> None:
        """These shards have left: their new owner adopts what is queued."""
        if self._chunks:
            rows = np.concatenate(self._chunks)
            kept = rows[~np.isin(shards_of(rows["job_id"]), list(shards))]
            self._chunks = [kept] if len(kept) else []

    async def run(self) -> None:
        """Look after them for ever."""
        while True:
            if not self._chunks:
                await self._kept.sleep_ms(IDLE_MS)
            await self._clock.sleep_ms(CHECK_MS)
            await self.check()

    async def check(self) -> None:
        """Publish again, or hand back, what should have begun by now; let go of what has."""
        if not self._chunks:
            return
        rows, now_ms = np.concatenate(self._chunks), self._clock.monotonic_ms()
        due = rows["look_mono_ms"] <= now_ms
        self._chunks = [rows]
        late, seen = rows[due], list[Rows]()
        for start in range(0, len(late), READ_TOGETHER):
            seen.append(await self._look(late[start : start + READ_TOGETHER]))
        if len(late):
            self._keep(rows, due, seen)

    def _keep(self, rows: Rows, due: Bools, seen: Sequence[Rows]) -> None:
        """What came in during the check stays, as what was not due; of the rest what was not seen to be over."""
        came = [chunk for chunk in self._chunks if chunk is not rows]
        here = self._chunks and self._chunks[0] is rows  # else shards have left meanwhile: what is here is right
        kept = [rows[~due], *seen] if here else []
        self._chunks = [chunk for chunk in (*kept, *came) if len(chunk)]

    async def _look(self, rows: Rows) -> Rows:
        """What of it is still to be looked after."""
        keys = list(zip(rows["job_id"].tolist(), rows["scheduled_ms"].tolist(), strict=True))
        runs = await self._store.find_runs(keys)
        fences = rows["fence"].tolist()
        waiting = np.array(
            [
                run is not None and run.state is RunState.CLAIMED and run.fence == fence
                for run, fence in zip(runs, fences, strict=True)
            ],
            dtype=np.bool_,
        )
        left = rows[waiting].copy()
        if not len(left):
            return left
        works = await self._store.load_work(left["job_id"].tolist())
        found = [self._route_of(work) for work in works]
        served = np.array([route is not None for route in found], dtype=np.bool_)
        returned = left[~served]  # looked at once more: until it is seen to have left, nothing else leads to it
        if len(returned):
            await self._hand_back(returned, [run for run, waits in zip(runs, waiting, strict=True) if waits])
        left = left[served]
        left["look_mono_ms"] = self._clock.monotonic_ms() + REPUBLISH_MS
        lanes = (left["flags"] & FLAG_LANE_MASK).tolist()
        routes = [route for route in found if route is not None]
        topics = [Topic(Lane(lane), route) for lane, route in zip(lanes, routes, strict=True)]
        hashes = _route_hashes(topics)
        moved = (left["route_hash"] != hashes).tolist()
        left["route_hash"] = hashes
        waits = await self._still_waiting(topics)
        mono_ms = self._clock.monotonic_ms()
        old = (left["sent_mono_ms"] <= mono_ms - REPEAT_MS).tolist()
        again = [
            number
            for number, topic in enumerate(topics)
            if topic not in self._unsent and (old[number] or moved[number] or topic not in waits)
        ]
        left["sent_mono_ms"][again] = mono_ms
        others = [number for number, topic in enumerate(topics) if topic in self._unsent]
        left["look_mono_ms"][others] += CHECK_MS - REPUBLISH_MS  # most of them are on their way still
        self._send([topics[number] for number in again], left[again])
        return np.concatenate((left, returned))

    async def _still_waiting(self, topics: Sequence[Topic]) -> set[Topic]:
        """Those of which the queue holds as many hints as are looked for."""
        wanted = Counter(topics)
        try:
            depths = [] if self._queue is None or not wanted else await self._queue.depth(list(wanted))
        except ConnectionError:
            return set()
        return {topic for topic, depth in zip(wanted, depths, strict=False) if depth >= wanted[topic]}

    def _route_of(self, work: WorkDefinition | None) -> str | None:
        """None: nobody elsewhere serves it."""
        if work is None or self._queue is None:
            return None
        try:
            route = self._routes.pick(route_of(read_spec(work.spec).target), work.tenant_id)
        except ValueError:  # msgspec's and Unicode's errors are both
            return None
        if not self._routes.slots(route) and shared_route(route) in self._local:
            return None
        return route if self._routes.known(route) else None

    def _send(self, topics: Sequence[Topic], rows: Rows) -> None:
        by_topic: dict[Topic, list[int]] = {}
        for number, topic in enumerate(topics):
            by_topic.setdefault(topic, []).append(number)
        for topic, numbers in by_topic.items():
            hints = empty(HINT, len(numbers))
            for name in HINT.names or ():
                hints[name] = rows[name][numbers]
            self._unsent.setdefault(topic, []).append(hints)
        self._alarm.ring()

    async def send(self) -> None:
        """Publish for ever what is to be published."""
        while True:
            await self._alarm.sleep_ms(REFUSED_MS if self._unsent else IDLE_MS)
            topics = sorted(self._unsent)
            for start in range(0, len(topics), SENT_TOGETHER):
                together = topics[start : start + SENT_TOGETHER]
                answers = await asyncio.gather(*map(self._publish, together), return_exceptions=True)
                for failure in filter(None, answers):
                    raise failure

    async def _publish(self, topic: Topic) -> None:
        parts = self._unsent[topic].copy()
        try:
            if self._queue is not None:
                await self._queue.publish(topic, np.concatenate(parts))
        except ConnectionError:
            return  # it stays, and is sent again
        except Exception:  # repeating this would not cure it; the looks publish it again
            self._unsent.pop(topic)
            raise
        del self._unsent[topic][: len(parts)]  # what came meanwhile is next
        if not self._unsent[topic]:
            del self._unsent[topic]

    async def _hand_back(self, rows: Rows, runs: Sequence[Run | None]) -> None:
        by_key = {(run.job_id, run.scheduled_ms): run for run in runs if run is not None}
        ends = np.zeros(len(rows), dtype=COMPLETION)
        for name in ("due_ms", "job_id", "scheduled_ms", "flags", "fence"):
            ends[name] = rows[name]
        now_ms = self._clock.now_ms()
        for number, key in enumerate(zip(rows["job_id"].tolist(), rows["scheduled_ms"].tolist(), strict=True)):
            ends["attempt"][number] = by_key[key].attempt + 1
            ends["lost_count"][number] = by_key[key].lost_count
        ends["state"], ends["cause"] = RunState.SCHEDULED, CompletionCause.UNSTARTED
        ends["outcome"], ends["finished_ms"], ends["retry_ms"] = OutcomeClass.UNSTARTED, now_ms, now_ms
        ends["due_ms"], ends["gen"] = -1, 0
        self._completions.add(ends, dict.fromkeys(range(len(ends)), UNBEGUN), [None] * len(ends))
        with suppress(StoreUnavailable):
            await self._completions.flushed()


def _route_hashes(topics: Sequence[Topic]) -> list[int]:
    """Of this process: they tell one route from another, and a text keeps its hash."""
    return [hash(topic.route) for topic in topics]


def _as_timers(rows: Rows) -> Rows:
    timers = empty(TIMER, len(rows))
    for name in ("due_ms", "job_id", "scheduled_ms", "flags"):
        timers[name] = rows[name]
    return timers
