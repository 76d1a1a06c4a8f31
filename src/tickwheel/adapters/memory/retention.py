"""Deletes history that is over: a bounded piece each time, dead letters never.

A run goes when both its instant and its end are past: the row of a cancelled occurrence that is still to come
keeps it from being planned anew. A job goes with its last run. One that holds an idempotency key stays a day
longer than anything else, so that a late repeat of its request still finds it.
"""

from typing import Final

from tickwheel.adapters.memory.tables import Tables
from tickwheel.domain.ids import DAY_MS
from tickwheel.domain.job import Job, JobState
from tickwheel.domain.run import TERMINAL

SWEEP_ROWS: Final = 1_000
KEY_LIFE_MS: Final = DAY_MS

_OVER: Final = (JobState.CANCELLED, JobState.COMPLETED, JobState.DELETED)


def sweep(tables: Tables, now_ms: int, retention_ms: int) -> int:
    """Delete up to `SWEEP_ROWS` runs and the jobs that are over with them."""
    cutoff_ms = now_ms - retention_ms
    key_cutoff_ms = now_ms - max(retention_ms, KEY_LIFE_MS)
    deleted, touched = 0, set()
    for key, row in list(tables.ledger.items()):
        if deleted == SWEEP_ROWS:
            break
        run = row.run
        job = tables.jobs[run.job_id]
        keyed = job.idempotency_key is not None
        limit_ms = key_cutoff_ms if keyed and not job.recurring else cutoff_ms
        ended = run.state in TERMINAL and (run.finished_ms or 0) < limit_ms
        if ended and run.scheduled_ms < cutoff_ms and key not in tables.dead:
            tables.drop_run(key)
            touched.add(run.job_id)
            deleted += 1
    return deleted + _drop_jobs(tables, touched, cutoff_ms, key_cutoff_ms)


def _drop_jobs(tables: Tables, touched: set[bytes], cutoff_ms: int, key_cutoff_ms: int) -> int:
    deleted = 0
    for job in list(tables.jobs.values()):
        if tables.runs_of.get(job.job_id) or tables.timers_of.get(job.job_id):
            continue
        limit_ms = cutoff_ms if job.idempotency_key is None else key_cutoff_ms
        if (job.job_id in touched and not job.recurring) or _ended(job, limit_ms):
            tables.drop_job(job)
            deleted += 1
    return deleted


def _ended(job: Job, limit_ms: int) -> bool:
    return job.state in _OVER and max(job.updated_ms, job.created_ms) < limit_ms
