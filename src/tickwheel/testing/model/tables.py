"""The memory store's tables, with the rules of inserts and somebody who watches the ledger."""

from collections.abc import Callable, Mapping
from typing import Final

from msgspec.structs import replace

from tickwheel.adapters.memory.ownership import Ownership
from tickwheel.adapters.memory.tables import LedgerRow, RunKey, Tables, TimerKey
from tickwheel.domain.ids import SHARD_COUNT
from tickwheel.domain.job import Job, JobState, Lane
from tickwheel.ports.shards import ShardState, Taken
from tickwheel.ports.store import FirstTimer, Run
from tickwheel.testing.model.rules import Rules

FAR_MS: Final = 3_000
"""A1 dropped: a timer that is further away than this at its insert carries no id."""

Watch = Callable[[Run | None, Run], None]
"""(run before, run after), for each write of a ledger row, in the order of the commits."""


class ModelOwnership(Ownership):
    """`states` is asked for all the time and seldom changes, so the answer is kept."""

    def __init__(self, rules: Rules) -> None:
        super().__init__(SHARD_COUNT)
        self._rules = rules
        self._states: list[ShardState] | None = None

    def states(self) -> list[ShardState]:
        if self._states is None:
            self._states = super().states()
        return self._states

    def take(self, incarnation: str, seen: Mapping[int, int]) -> list[Taken]:
        """D3: each taking raises the epoch."""
        self._states = None
        taken = super().take(incarnation, seen)
        if self._rules.hold("D3"):
            return taken
        for one in taken:
            self.shards[one.shard].epoch -= 1
        return [Taken(one.shard, one.epoch - 1, one.pair) for one in taken]

    def release(self, incarnation: str, held: Mapping[int, int]) -> None:
        self._states = None
        super().release(incarnation, held)


class ModelTables(Tables):
    """`clock_ms` is the server's clock at the statement that is being carried out."""

    def __init__(self, rules: Rules) -> None:
        super().__init__()
        self._rules = rules
        self.ownership = ModelOwnership(rules)
        self.clock_ms = 0
        self.watches: list[Watch] = []
        self.planted: set[bytes] = set()
        """Jobs that were given timers since somebody looked."""
        self._shown: dict[RunKey, Run] = {}
        self._ever: set[tuple[int, bytes, int]] = set()
        self.due_at_change: list[RunKey] = []
        self.sealed_ms = 0
        """Leaves of timers that ended up to here are dropped, or about to be."""

    def put_job(self, job: Job) -> None:
        """E5: occurrences that were due when their job was changed are remembered, to be asked for."""
        before = self.jobs.get(job.job_id)
        if before is not None and before.recurring and before.version != job.version:
            live = self.live_timers(job.job_id) if before.state is JobState.ACTIVE else []
            self.due_at_change += [(job.job_id, k.scheduled_ms) for k in live if k.scheduled_ms <= self.clock_ms]
        super().put_job(job)

    def put_timer(self, job: Job, timer: FirstTimer, now_ms: int, lane: Lane | None = None) -> None:
        """A2: a due time in the past is raised; so is what the key says (A3)."""
        if self._rules.hold("A2"):
            timer = replace(timer, due_ms=max(timer.due_ms, self.clock_ms))
        if not self._rules.hold("A3"):
            key = (timer.due_ms, job.job_id, timer.scheduled_ms)
            if key in self._ever:
                return
            self._ever.add(key)
        self.planted.add(job.job_id)
        xid = self.xid
        if not self._rules.hold("A1") and timer.due_ms - self.clock_ms > FAR_MS:
            self.xid = 0
        super().put_timer(job, timer, now_ms, lane)
        self.xid = xid

    def put_run(self, row: LedgerRow, run: Run) -> None:
        super().put_run(row, run)
        key = (run.job_id, run.scheduled_ms)
        before = self._shown.get(key)
        self._shown[key] = run
        for watch in self.watches:
            watch(before, run)

    def drop_leaves(self, until_ms: int) -> list[TimerKey]:
        """Drop the timers that are due before; gives those that were there."""
        gone = [key for key in self.timers if key.due_ms < until_ms]
        for key in gone:
            self.drop_timer(key)
        return gone
