"""What this node has handed to workers over HTTP: so that an end is committed without reading its run first.

An accelerator. A worker may poll one node and report to another, which then reads the run; the token in the ledger
decides in any case. What a worker does not name in its next poll never reached it (`undelivered`), and is handed
back at once instead of waiting for its lease.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import Final, TypeAlias

import msgspec

from tickwheel.domain.columns import FLAG_LANE_MASK
from tickwheel.domain.outcome import RetryPolicy
from tickwheel.domain.run_trace import RunTrace
from tickwheel.ports.executor import Work
from tickwheel.ports.store import Run
from tickwheel.services.remote.taking import Begun
from tickwheel.services.told_attempts import attempt_trace, told_work

RunKey: TypeAlias = tuple[bytes, int]
"""(job_id, scheduled_ms)."""
FORGET_AFTER_MS: Final = 60_000
"""So long after its lease, as far as it is known here, a run is no business of its worker any more."""


class HeldRun(msgspec.Struct, gc=False):
    """An attempt that a worker has, as far as its end needs it. `policy` None: to be read."""

    fence: int
    attempt: int
    lost_count: int
    flags: int
    started_ms: int
    lease_ms: int
    policy: RetryPolicy | None = None
    work: Work | None = None  # for whoever is told of the end

    @classmethod
    def of_begun(cls, begun: Begun, now_ms: int) -> "HeldRun":
        """Just begun."""
        counts = begun.fence, begun.attempt, begun.lost_count, begun.flags
        return cls(*counts, now_ms, begun.lease_ms, begun.spec.retry, _work(begun))

    @classmethod
    def of_run(cls, run: Run) -> "HeldRun":
        """As the ledger knows it."""
        started_ms = run.started_ms or run.claimed_ms or 0
        return cls(run.fence, run.attempt, run.lost_count, int(run.lane), started_ms, run.lease_ms or 0)


def _work(begun: Begun) -> Work:
    return told_work(
        job_id=begun.job_id,
        scheduled_ms=begun.scheduled_ms,
        fence=begun.fence,
        attempt=begun.attempt,
        lane=begun.flags & FLAG_LANE_MASK,
        definition=begun.definition,
        spec=begun.spec,
    )


def trace_of(begun: Begun) -> RunTrace | None:
    """Of that attempt."""
    return attempt_trace(begun.spec, begun.job_id, begun.scheduled_ms, begun.fence)


class HeldRuns:
    """By worker and run."""

    def __init__(self) -> None:
        self._of: dict[str, dict[RunKey, HeldRun]] = {}
        self._ending: dict[RunKey, int] = {}  # an end is being committed: how many of them

    def count(self, worker: str) -> int:
        """How many this worker has from here."""
        return len(self._of.get(worker, ()))

    def add(self, worker: str, key: RunKey, held: HeldRun) -> None:
        """The answer that carries it is about to be written."""
        self._of.setdefault(worker, {})[key] = held

    def get(self, worker: str, key: RunKey, fence: int) -> HeldRun | None:
        """The attempt with that token, if this node handed it out."""
        held = self._of.get(worker, {}).get(key)
        return held if held is not None and held.fence == fence else None

    def undelivered(self, worker: str, holding: Collection[RunKey]) -> Sequence[tuple[RunKey, HeldRun]]:
        """What the worker should have and does not name; it is forgotten here."""
        mine = self._of.get(worker, {})
        missing = [(key, held) for key, held in mine.items() if key not in holding and key not in self._ending]
        self.drop(worker, [key for key, _ in missing])
        return missing

    def begin_end(self, keys: Iterable[RunKey]) -> None:
        """Their ends are being committed: no poll may hand them back meanwhile."""
        for key in keys:
            self._ending[key] = self._ending.get(key, 0) + 1

    def finish_end(self, keys: Iterable[RunKey]) -> None:
        """It is known what became of them."""
        for key in keys:
            left = self._ending[key] - 1
            if left:
                self._ending[key] = left
            else:
                del self._ending[key]

    def drop(self, worker: str, keys: Iterable[RunKey]) -> None:
        """They have ended, or are somebody else's."""
        mine = self._of.get(worker)
        if mine is None:
            return
        for key in keys:
            mine.pop(key, None)
        if not mine:
            del self._of[worker]

    def forget(self, worker: str) -> None:
        """Its session is over."""
        self._of.pop(worker, None)

    def forget_old(self, now_ms: int) -> None:
        """Drop what was never heard of again."""
        for worker in list(self._of):
            old = [key for key, held in self._of[worker].items() if held.lease_ms + FORGET_AFTER_MS < now_ms]
            self.drop(worker, old)
