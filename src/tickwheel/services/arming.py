"""Timers that a commit has just written, as the rows that the owner's wheel takes."""

from collections.abc import Sequence

import numpy as np

from tickwheel.domain.columns import TIMER, Rows
from tickwheel.domain.job import Job
from tickwheel.ports.store import FirstTimer


def timer_rows(job: Job, timers: Sequence[FirstTimer]) -> Rows:
    """TIMER rows of one job."""
    flags = job.timer_flags
    return np.array([(t.due_ms, job.job_id, t.scheduled_ms, t.gen, flags) for t in timers], dtype=TIMER)


def first_timer_rows(jobs: Sequence[tuple[Job, FirstTimer]]) -> Rows:
    """TIMER rows of the first timers of many jobs."""
    return np.array(
        [(t.due_ms, job.job_id, t.scheduled_ms, t.gen, job.timer_flags) for job, t in jobs], dtype=TIMER
    )
