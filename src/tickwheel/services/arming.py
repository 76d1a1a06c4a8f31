"""Timers that a commit has just written, as the rows that the owner's wheel takes."""

from collections.abc import Sequence

import numpy as np

from tickwheel.domain.columns import TIMER, Rows, empty
from tickwheel.domain.job import Job
from tickwheel.ports.store import FirstTimer


def timer_rows(job: Job, timers: Sequence[FirstTimer]) -> Rows:
    """TIMER rows of one job."""
    flags = job.timer_flags
    return np.array([(t.due_ms, job.job_id, t.scheduled_ms, t.gen, flags) for t in timers], dtype=TIMER)


def first_timer_rows(jobs: Sequence[tuple[Job, FirstTimer]]) -> Rows:
    """TIMER rows of the first timers of many jobs."""
    rows = empty(TIMER, len(jobs))
    rows["job_id"] = np.frombuffer(b"".join([job.job_id for job, _ in jobs]), TIMER["job_id"])
    rows["due_ms"] = [timer.due_ms for _, timer in jobs]
    rows["scheduled_ms"] = [timer.scheduled_ms for _, timer in jobs]
    rows["gen"] = [timer.gen for _, timer in jobs]
    rows["flags"] = [job.timer_flags for job, _ in jobs]
    return rows
