"""Waits for a run to end, by asking again and again.

Time is counted, not read: what requests took plus the pauses made. A request that hangs is bounded by the client's
own limit, so the wait ends at most that much later.
"""

from typing import Final, TypeVar

from tickwheel.domain.errors import NotFound
from tickwheel.domain.ids import RUN_PREFIX
from tickwheel.interfaces.client import calls
from tickwheel.interfaces.client.errors import WaitTimedOut
from tickwheel.interfaces.client.flow import Flow, NoReply, Outcome, Pause, Reply, exchange
from tickwheel.interfaces.client.models import ENDED, Job, Run

T = TypeVar("T")

FIRST_PAUSE_MS: Final = 20
LONGEST_PAUSE_MS: Final = 500
_OVER: Final = frozenset({"CANCELLED", "COMPLETED"})
"""States of a job after which there is no further run."""


class _Elapsed:
    """How long the steps of a flow have taken."""

    def __init__(self) -> None:
        self.ms = 0

    def count(self, flow: Flow[T]) -> Flow[T]:
        outcome: Outcome = None
        while True:
            try:
                step = flow.send(outcome)
            except StopIteration as done:
                result: T = done.value
                return result
            outcome = yield step
            if isinstance(step, Pause):
                self.ms += step.length_ms
            elif isinstance(outcome, Reply | NoReply):
                self.ms += outcome.took_ms


def wait_for(run_or_job_id: str, tenant_id: str | None, timeout_ms: int) -> Flow[Run]:
    """The run when it has ended; of a recurring job, the first that ends from now on."""
    elapsed = _Elapsed()
    pause_ms = FIRST_PAUSE_MS
    seen: Job | None = None
    while True:
        run: Run | None
        if run_or_job_id.startswith(RUN_PREFIX):
            run = yield from elapsed.count(exchange(calls.get_run(run_or_job_id, tenant_id)))
        else:
            job = yield from elapsed.count(exchange(calls.get_job(run_or_job_id, tenant_id)))
            seen = seen or job
            run = yield from elapsed.count(_ended_run(seen, job, tenant_id))
        if run is not None and run.ended:
            return run
        if elapsed.ms >= timeout_ms:
            raise WaitTimedOut(f"{run_or_job_id} has not ended within {timeout_ms / 1000:g} s; it goes on")
        yield Pause(min(pause_ms, timeout_ms - elapsed.ms))
        elapsed.ms += min(pause_ms, timeout_ms - elapsed.ms)
        pause_ms = min(LONGEST_PAUSE_MS, pause_ms * 2)


def _ended_run(before: Job, now: Job, tenant_id: str | None) -> Flow[Run | None]:
    """The run that ended since `before` was read; of a one-off, its run whenever it ended."""
    last = now.last_run
    if last is not None and last.status in ENDED:
        known = before.last_run
        fresh = known is None or known.run_id != last.run_id or known.status not in ENDED
        if fresh or now.schedule_type != "CRON":
            return (yield from exchange(calls.get_run(last.run_id, tenant_id)))
    if now.status in _OVER:
        raise NotFound(f"job {now.job_id} is {now.status}: there is no further run to wait for")
    return None
