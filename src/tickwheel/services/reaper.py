"""Ends attempts whose worker is gone: the run is claimed again under a new token, or dead-lettered.

Three ways lead here, all with a token to guard the write: a claim that met a run in flight (`watch`), a lease in
the store that ran out or whose worker is proved dead (`expired`), and an attempt of this process that outlived its
own lease (`watch` again). What is proved dead is not waited for. If the worker's own completion commits first, the
reaper's write finds another state and changes nothing. In a cluster each node looks only after the shards that it
holds.

A lease that ran out only because the machine's clock was set forward proves nothing: attempts of this process
whose lease holds on the monotonic clock are left alone (`held`), and the next heartbeat renews them.

A lost worker uses an attempt up, for the work may have happened; but the last allowed attempt counts only once
RUNNING was written, so a crash between its claim and its start hands it back.
"""

from collections.abc import Callable, Collection, Sequence, Set
from typing import Final, NamedTuple

import numpy as np

from tickwheel.domain.columns import COMPLETION, TIMER, CompletionCause, Rows
from tickwheel.domain.ids import shard_of
from tickwheel.domain.outcome import Outcome, OutcomeClass, decide
from tickwheel.domain.run import IN_FLIGHT, RunState
from tickwheel.ports.clock import Clock, Randomness
from tickwheel.ports.executor import Work
from tickwheel.ports.store import AttemptNote, Run, Store
from tickwheel.services.alarm import Alarm
from tickwheel.services.attempt_notes import failure_note, write_decision
from tickwheel.services.completion import Completions
from tickwheel.services.lost_attempts import lost_work
from tickwheel.services.ownership.unresolved import NEVER_MS
from tickwheel.services.plans import read_policy

CHECK_MS: Final = 500
GATHER_MS: Final = 20
"""After the first sign of a dead worker: the others of its runs come in the same moment."""
EXPIRED_LIMIT: Final = 1_000
READ_TOGETHER: Final = 256
LOST: Final = Outcome(
    outcome_class=OutcomeClass.LOST, error="the worker was lost: its lease ended without a result"
)

RunKey = tuple[bytes, int]


class Watched(NamedTuple):
    """An attempt to look at when `lease_ms` (wall clock; 0 = its worker is dead) is past.

    `due_ms` is that of its timer, `NEVER_MS` where a row in `leases` leads to the run as well.
    """

    fence: int
    lease_ms: int
    due_ms: int


class Reaper:
    """The lease watch of one process. `shards` gives those to look after; None: all.

    `adopt` takes runs that are queued for workers elsewhere, with the due time of their timer: they have no lease.
    """

    def __init__(
        self,
        *,
        store: Store,
        completions: Completions,
        held: Callable[[], Set[tuple[bytes, int, int]]],
        shards: Callable[[], Sequence[int] | None],
        adopt: Callable[[Run, int], None],
        clock: Clock,
        randomness: Randomness,
    ) -> None:
        self._store, self._completions, self._held, self._shards = store, completions, held, shards
        self._adopt = adopt
        self._clock, self._randomness = clock, randomness
        self._watched: dict[RunKey, Watched] = {}
        self._alarm = Alarm(clock)

    def watch(self, job_id: bytes, scheduled_ms: int, fence: int, lease_ms: int, due_ms: int) -> None:
        """Look at this run again when its lease is past."""
        known = self._watched.get((job_id, scheduled_ms))
        if known is not None:
            due_ms = min(due_ms, known.due_ms)
        self._watched[job_id, scheduled_ms] = Watched(fence, lease_ms, due_ms)
        if not lease_ms:
            self.wake()

    def watch_given_up(self, ends: Rows, lease_ms: int) -> None:
        """Ends that can't be written: their runs are lost with their leases."""
        for end in ends[ends["due_ms"] >= 0]:
            key = end["job_id"].tobytes(), int(end["scheduled_ms"])
            self.watch(*key, int(end["fence"]), lease_ms, int(end["due_ms"]))

    def wake(self) -> None:
        """Somebody is dead: look now."""
        self._alarm.ring()

    def watched(self) -> Collection[RunKey]:
        """The runs that are watched."""
        return self._watched.keys()

    def rows(self) -> Rows:
        """As TIMER rows, those to which nothing but their timer leads."""
        rows = np.zeros(len(self._watched), dtype=TIMER)
        for number, (key, one) in enumerate(self._watched.items()):
            rows[number] = (one.due_ms, *key, 0, 0)
        return rows

    def forget(self, shards: Sequence[int]) -> None:
        """These shards have left: their new owner meets the runs by their timers and leases."""
        gone = set(shards)
        self._watched = {key: one for key, one in self._watched.items() if shard_of(key[0]) not in gone}

    async def run(self) -> None:
        """Reap for ever."""
        while True:
            await self.sweep()
            if await self._alarm.sleep_ms(CHECK_MS):
                await self._clock.sleep_ms(GATHER_MS)

    async def sweep(self) -> None:
        """Reap all that has run out by now."""
        now_ms = self._clock.now_ms()
        due = [(key, one) for key, one in self._watched.items() if one.lease_ms <= now_ms]
        for start in range(0, len(due), READ_TOGETHER):
            part = due[start : start + READ_TOGETHER]
            runs = await self._store.find_runs([key for key, _ in part])
            for (key, one), run in zip(part, runs, strict=True):
                if (run is None or run.state not in IN_FLIGHT) and self._watched.get(key) == one:
                    del self._watched[key]
            found = [run for run in runs if run is not None]
            await self._reap(found, proved={(*key, one.fence) for key, one in part if not one.lease_ms})
        shards = self._shards()
        if shards is None or shards:
            await self._reap_expired(now_ms, shards)

    async def _reap_expired(self, now_ms: int, shards: Sequence[int] | None) -> None:
        runs = await self._store.expired(now_ms, EXPIRED_LIMIT, *(() if shards is None else (shards,)))
        dead = {(run.job_id, run.scheduled_ms, run.fence) for run in runs if (run.lease_ms or 0) > now_ms}
        await self._reap(runs, proved=dead)

    async def _reap(self, runs: Sequence[Run], proved: set[tuple[bytes, int, int]]) -> None:
        """End the attempts whose lease is over or whose worker is proved dead; watch the others."""
        now_ms, held = self._clock.now_ms(), self._held()
        due = []
        for run in runs:
            attempt = (run.job_id, run.scheduled_ms, run.fence)
            if run.state not in IN_FLIGHT:
                continue
            if run.state is RunState.CLAIMED:  # nobody has begun it, so nobody can be lost with it
                known = self._watched.pop((run.job_id, run.scheduled_ms), None)
                self._adopt(run, NEVER_MS if known is None else known.due_ms)
            elif attempt in held:
                self._watched.pop((run.job_id, run.scheduled_ms), None)  # it runs here, and is renewed
            elif attempt in proved or (run.lease_ms or 0) <= now_ms:
                due.append(run)
                self._watch_on(run, now_ms + CHECK_MS)  # until a read shows that it has ended
            else:
                self._watch_on(run, run.lease_ms or 0)
        if not due:
            return
        definitions = await self._store.load_work([run.job_id for run in due])
        rows = np.zeros(len(due), dtype=COMPLETION)
        notes: dict[int, AttemptNote] = {}
        works: list[Work | None] = []
        for number, (run, definition) in enumerate(zip(due, definitions, strict=True)):
            self._fill(rows, number, run, now_ms, (run.job_id, run.scheduled_ms, run.fence) in proved)
            note = AttemptNote(error=LOST.error, excerpt=None)
            if definition is not None:
                policy = read_policy(definition.spec)
                decision = decide(LOST, run.attempt, run.lost_count, policy, self._randomness.fraction(), now_ms)
                write_decision(rows[number], decision)
                note = failure_note(LOST, decision)
            notes[number] = note
            works.append(None if definition is None else lost_work(run, definition, now_ms))
        self._completions.add(rows, notes, works)
        await self._completions.flushed()  # else the next look would find and reap the same runs again

    def _watch_on(self, run: Run, look_ms: int) -> None:
        """Look at a run that is watched again then; what leads to it is known better by now."""
        known = self._watched.get((run.job_id, run.scheduled_ms))
        if known is None:
            return
        leads = run.beat_ms is not None or run.fence != known.fence  # a lease row, or a later timer, leads to it
        due_ms = NEVER_MS if leads else known.due_ms
        self._watched[run.job_id, run.scheduled_ms] = Watched(run.fence, look_ms, due_ms)

    def _fill(self, rows: Rows, number: int, run: Run, now_ms: int, dead: bool) -> None:
        row = rows[number]
        row["due_ms"], row["gen"] = -1, 0
        row["job_id"], row["scheduled_ms"], row["fence"] = np.void(run.job_id), run.scheduled_ms, run.fence
        row["state"], row["outcome"] = RunState.FAILED, OutcomeClass.LOST
        row["cause"] = CompletionCause.DEAD_OWNER if dead else CompletionCause.REAPER
        row["attempt"], row["lost_count"], row["retry_ms"] = run.attempt, run.lost_count, -1
        row["started_ms"], row["finished_ms"] = run.started_ms or run.claimed_ms or 0, now_ms
        row["flags"] = int(run.lane)
