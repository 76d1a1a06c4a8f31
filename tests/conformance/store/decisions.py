"""Decisions as the services make them, reduced to what the store has to carry out."""

from msgspec.structs import replace

from tickwheel.domain.job import Job, JobState
from tickwheel.domain.run import RunState, SkipReason
from tickwheel.ports.store import Change, FirstTimer, JobDecision, JobView, LedgerWrite, Run


def nothing(view: JobView, now_ms: int) -> Change:
    """Look, and write nothing."""
    return Change()


def raise_version(job: Job, now_ms: int, state: JobState = JobState.ACTIVE) -> Job:
    return replace(job, state=state, version=job.version + 1, updated_ms=now_ms, effective_ms=now_ms)


def cancel(view: JobView, now_ms: int) -> Change:
    """Cancel the job with all that is open."""
    runs: tuple[LedgerWrite, ...] = ()
    if view.live is not None and not view.job.recurring:
        runs = (LedgerWrite(view.live.scheduled_ms, RunState.CANCELLED),)
    job = replace(view.job, state=JobState.CANCELLED, updated_ms=now_ms)
    return Change(job=job, drop_live=True, cancel_open=True, runs=runs)


def delete(view: JobView, now_ms: int) -> Change:
    """Cancel and hide the job, and free its idempotency key."""
    change = cancel(view, now_ms)
    assert change.job is not None
    return replace(change, job=replace(change.job, state=JobState.DELETED), forget_key=True)


def edit(next_ms: int, *runs: LedgerWrite) -> JobDecision:
    """A recurring job's new version, next due at `next_ms`."""

    def decide(view: JobView, now_ms: int) -> Change:
        job = raise_version(view.job, now_ms)
        timer = FirstTimer(next_ms, next_ms, job.version)
        return Change(job=job, drop_live=True, timer=timer, runs=runs)

    return decide


def move_one_off(due_ms: int) -> JobDecision:
    """A one-off gets another instant; the old one ends as superseded."""

    def decide(view: JobView, now_ms: int) -> Change:
        assert view.live is not None
        job = replace(raise_version(view.job, now_ms), scheduled_ms=due_ms)
        old = LedgerWrite(view.live.scheduled_ms, RunState.SKIPPED, SkipReason.SUPERSEDED)
        return Change(job=job, runs=(old,), timer=FirstTimer(due_ms, due_ms, 1))

    return decide


def pause(view: JobView, now_ms: int) -> Change:
    """A one-off's run waits PAUSED, a recurring job has no live timer."""
    job = raise_version(view.job, now_ms, JobState.PAUSED)
    if view.job.recurring:
        return Change(job=job, drop_live=True)
    assert view.live is not None
    return Change(job=job, runs=(LedgerWrite(view.live.scheduled_ms, RunState.PAUSED),))


def resume(next_ms: int) -> JobDecision:
    """The inverse of `pause`; due at `next_ms`."""

    def decide(view: JobView, now_ms: int) -> Change:
        job = raise_version(view.job, now_ms)
        if job.recurring:
            return Change(job=job, timer=FirstTimer(next_ms, next_ms, job.version))
        paused = next(run for run in view.open_runs if run.state is RunState.PAUSED)
        return Change(job=job, runs=(LedgerWrite(paused.scheduled_ms, RunState.SCHEDULED, follow_up_ms=next_ms),))

    return decide


def redrive(view: JobView, run: Run, now_ms: int) -> Change:
    """A dead run gets all its attempts again, at once."""
    return Change(
        runs=(LedgerWrite(run.scheduled_ms, RunState.SCHEDULED, follow_up_ms=now_ms, reset_attempts=True),)
    )


def cancel_run(view: JobView, run: Run, now_ms: int) -> Change:
    """Cancel one run that has a ledger row."""
    return Change(runs=(LedgerWrite(run.scheduled_ms, RunState.CANCELLED),))


def write(state: RunState, **fields: object) -> "JobDecision":
    """A bare ledger write at the live or only instant."""

    def decide(view: JobView, now_ms: int) -> Change:
        scheduled_ms = view.last_run.scheduled_ms if view.last_run else view.live.scheduled_ms  # type: ignore[union-attr]  # one of the two
        return Change(runs=(LedgerWrite(scheduled_ms, state, **fields),))  # type: ignore[arg-type]  # passed through

    return decide
