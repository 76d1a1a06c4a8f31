"""What the owner of the shards is told once a change is committed; all of it only makes things happen sooner."""

from tickwheel.domain.run import IN_FLIGHT
from tickwheel.ports.owner import Owner
from tickwheel.ports.store import Changed, JobView
from tickwheel.services.arming import timer_rows


class Seen:
    """Holds the job as a decision saw it under the lock; None: it did not exist, or nothing was decided."""

    view: JobView | None = None


class Aftermath:
    """Arms new timers, drops prefetched work, stops attempts of runs that are no longer in flight."""

    def __init__(self, owner: Owner) -> None:
        self._owner = owner

    def of(self, seen: Seen, changed: Changed) -> JobView:
        """Tell the owner what `changed` did to the job that was seen; gives the view after it."""
        job, before = changed.view.job, seen.view
        if before is not None:
            self._owner.forget_work(job.job_id)
            open_still = {run.scheduled_ms for run in changed.view.open_runs}
            stopped = [
                (job.job_id, run.scheduled_ms)
                for run in before.open_runs
                if run.state in IN_FLIGHT and run.scheduled_ms not in open_still
            ]
            if stopped:
                self._owner.abort(stopped)
        if changed.timers:
            self._owner.arm(timer_rows(job, changed.timers))
        return changed.view
