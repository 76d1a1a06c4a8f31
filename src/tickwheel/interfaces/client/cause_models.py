"""What the dead-letter queue is full of, as clients see it."""

from datetime import datetime

import msgspec


class NamedJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job by its id and name."""

    job_id: str
    job_name: str | None


class CauseGroup(msgspec.Struct, frozen=True, kw_only=True):
    """The dead letters of one cause; of its jobs at most 20 are named."""

    cause: str
    count: int
    jobs: tuple[NamedJob, ...]
    oldest_failed_at: datetime
    newest_failed_at: datetime
    example_run_id: str


class CauseList(msgspec.Struct, frozen=True, kw_only=True):
    """Causes, the most frequent first; `is_whole` False: only the newest 20,000 letters were looked at."""

    causes: tuple[CauseGroup, ...]
    is_whole: bool
