"""Why a run did not run, ran late or ran twice, as typed values."""

from collections.abc import Mapping
from datetime import datetime

import msgspec


class Cause(msgspec.Struct, frozen=True, kw_only=True):
    """One reason: a stable code and a sentence. The instants say when it held, where that is known."""

    code: str
    sentence: str
    from_at: datetime | None = None
    until_at: datetime | None = None


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """A station of the run; `took_ms` is the time since the one before."""

    step: str
    at: datetime
    took_ms: int | None = None
    attempt: int | None = None
    note: str | None = None


class AttemptCall(msgspec.Struct, frozen=True, kw_only=True):
    """What an attempt sends, by the definition that the job has now; values of its own headers are hidden."""

    method: str | None = None
    endpoint: str | None = None
    headers: Mapping[str, str] | None = None
    handler: str | None = None
    payload_bytes: int = 0


class AttemptStory(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt. `reached_target`: "yes", "no" or "unknown"; `why`: why it was made after another one."""

    attempt: int
    fencing_token: int
    worker_id: str
    outcome: str
    reached_target: str
    started_at: datetime | None
    finished_at: datetime | None
    took_ms: int | None
    request: AttemptCall
    http_status: int | None = None
    error: str | None = None
    excerpt: str | None = None
    why: Cause | None = None


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """The answer. `headline` says it all; the weightiest of the causes is the first.

    `verdict`: on_time, late, waiting, upcoming, paused, skipped, cancelled or no_run. `see_also` has ids of runs.
    """

    run_id: str
    job_id: str
    tenant_id: str
    scheduled_at: datetime
    verdict: str
    headline: str
    lateness_ms: int | None
    causes: tuple[Cause, ...] = ()
    timeline: tuple[Step, ...] = ()
    attempts: tuple[AttemptStory, ...] = ()
    edited_since: bool = False
    occurrence_before: datetime | None = None
    occurrence_after: datetime | None = None
    see_also: tuple[str, ...] = ()
