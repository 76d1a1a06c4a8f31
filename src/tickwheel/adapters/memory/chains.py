"""Recurring jobs whose chain of timers is broken."""

from itertools import islice

from tickwheel.adapters.memory.tables import Tables
from tickwheel.domain.job import JobState
from tickwheel.ports.store import BrokenChain, ChainPage


def broken_chains(tables: Tables, after: bytes, limit: int) -> ChainPage:
    """See `TimerStore.broken_chains`."""
    active = (tables.jobs[job_id] for job_id in sorted(tables.jobs) if job_id > after)
    piece = list(islice((job for job in active if job.recurring and job.state is JobState.ACTIVE), limit))
    counts = [(job, len(tables.live_timers(job.job_id))) for job in piece]
    broken = tuple(BrokenChain(job.tenant_id, job.job_id, count) for job, count in counts if count != 1)
    return ChainPage(broken, piece[-1].job_id if len(piece) == limit else None)
