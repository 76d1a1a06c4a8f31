"""Cuts a batch of new jobs where it changes its kind, so that a store writes what is equal in all rows once.

Most batches are of one kind: one tenant, one target, one policy. Only ids, instants and payloads differ.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from tickwheel.ports.store import NewJob

FEW_ROWS: Final = 8


def is_plain(new: NewJob) -> bool:
    """Whether it is a new one-off job with a timer, without an idempotency key, tags, or a name of its own."""
    job = new.job
    return (
        job.idempotency_key is None
        and new.timer is not None
        and job.scheduled_ms is not None
        and not job.tags
        and not job.named
        and not job.spec.cron
    )


def alike_stretches(jobs: Sequence[NewJob]) -> list[Sequence[NewJob]]:
    """`jobs` in stretches of plain ones that differ in id, instants and payload only.

    Empty where one is not plain, or where most stretches would have few rows: then there is nothing to gain.
    """
    cuts = [0]
    most = 1 + len(jobs) // FEW_ROWS
    before = jobs[0] if jobs else None
    for number, new in enumerate(jobs):
        if not is_plain(new):
            return []
        if before is not None and not _alike(before, new):
            cuts.append(number)
            if len(cuts) > most:
                return []
        before = new
    cuts.append(len(jobs))
    return [jobs[start:end] for start, end in pairwise(cuts) if end > start]


def _alike(one: NewJob, other: NewJob) -> bool:
    """Specs are compared by identity: parsing gives the same object for the same text."""
    a, b = one.job, other.job
    return (
        a.spec is b.spec
        and a.tenant_id == b.tenant_id
        and a.name == b.name
        and a.schedule_type is b.schedule_type
        and a.lane is b.lane
        and a.state is b.state
        and a.version == b.version
        and a.updated_ms == b.updated_ms
        and one.timer is not None
        and other.timer is not None
        and one.timer.gen == other.timer.gen
    )
