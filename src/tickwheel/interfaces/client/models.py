"""What the API answers, as typed values.

Names are those of the API, instants are `datetime` in UTC. Fields that a newer server adds are ignored, so an
older client keeps working.
"""

from datetime import datetime
from typing import Any

import msgspec

from tickwheel.domain.errors import FieldProblem


class CreatedJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job that is on disk. `replayed`: an earlier request with the same idempotency key made it."""

    job_id: str
    tenant_id: str
    status: str
    schedule_type: str
    next_run_time_epoch_ms: int | None
    next_run_time_iso: datetime | None
    created_at: datetime
    retry_policy: "RetryPolicy | None" = None
    catch_up: "CatchUp | None" = None
    warnings: tuple[str, ...] = ()
    replayed: bool = False


class RefusedJob(msgspec.Struct, frozen=True, kw_only=True):
    """An item of a batch that was not created, with every problem named; `limit`: the tenant's that is used up."""

    code: str
    detail: str
    errors: tuple[FieldProblem, ...] = ()
    limit: str | None = None


class BatchResult(msgspec.Struct, frozen=True, kw_only=True):
    """One result per item, in the order given."""

    results: tuple[CreatedJob | RefusedJob, ...]

    @property
    def created(self) -> tuple[CreatedJob, ...]:
        """The jobs that exist now, replayed ones too."""
        return tuple(result for result in self.results if isinstance(result, CreatedJob))

    @property
    def refused(self) -> tuple[tuple[int, RefusedJob], ...]:
        """(index of the item, why) of those that were not created."""
        return tuple((i, result) for i, result in enumerate(self.results) if isinstance(result, RefusedJob))


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """What a job calls; header values are redacted."""

    type: str
    endpoint: str | None = None
    method: str | None = None
    timeout_seconds: float | None = None
    headers: dict[str, str] | None = None
    signing_secret: str | None = None
    name: str | None = None


class RetryPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """The effective policy; `max_retries: 3` means four attempts."""

    max_retries: int
    initial_interval_sec: float
    backoff_multiplier: float
    max_interval_sec: float
    when_exhausted: str = "dead_letter"


class CatchUp(msgspec.Struct, frozen=True, kw_only=True):
    """What happens to missed occurrences."""

    policy: str
    max: int


class Limit(msgspec.Struct, frozen=True, kw_only=True):
    """A limit on runs in flight; `max_waiting` None: any number waits."""

    scope: str
    limit: int
    key: str | None = None
    max_waiting: int | None = None


class RunBrief(msgspec.Struct, frozen=True, kw_only=True):
    """A run, in short."""

    run_id: str
    scheduled_at: datetime
    status: str


class TriggeredRun(msgspec.Struct, frozen=True, kw_only=True):
    """The run that a trigger made, and the job of its own that it belongs to."""

    run_id: str
    job_id: str
    scheduled_at: datetime
    status: str


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """A job: definition, status, next and last run. `version` is what `if_version` compares."""

    job_id: str
    tenant_id: str
    status: str
    schedule_type: str
    priority: str
    target: Target
    retry_policy: RetryPolicy
    version: int
    created_at: datetime
    updated_at: datetime | None
    job_name: str | None
    payload: Any
    tags: tuple[str, ...]
    idempotency_key: str | None
    execute_at: datetime | None
    cron_expression: str | None
    timezone: str | None
    start_at: datetime | None
    end_at: datetime | None
    catch_up: CatchUp | None
    overlap: str | None
    concurrency: tuple[Limit, ...] | None = None  # no limits
    deadline_seconds: float | None
    next_run_time_epoch_ms: int | None
    next_run_time_iso: datetime | None
    overdue_seconds: int | None
    waits_for: str | None = None
    last_run: RunBrief | None
    current_attempt: int
    current_progress: float | None = None
    current_note: str | None = None
    current_lease_worker_id: str | None
    last_heartbeat_at: datetime | None
    fencing_token: int | None


class Timeline(msgspec.Struct, frozen=True, kw_only=True):
    """When a run passed each station. `lateness_ms`: how long after its instant the first attempt began."""

    armed: datetime | None
    claimed: datetime | None
    dispatched: datetime | None
    started: datetime | None
    finished: datetime | None
    lateness_ms: int | None


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """One try of a run."""

    attempt: int
    fencing_token: int
    worker_id: str
    outcome: str
    started_at: datetime | None
    finished_at: datetime | None
    http_status: int | None
    error: str | None
    excerpt: str | None


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """One occurrence of a job. What follows `timeline` is filled by reading one run, not in lists.

    `progress` (0 to 1) and `note` are what the attempt in flight says of itself. `result` is what the handler
    returned; `result_dropped` says why that was not kept.
    """

    run_id: str
    job_id: str
    tenant_id: str
    status: str
    scheduled_at: datetime
    priority: str
    attempt: int
    fencing_token: int | None
    worker_id: str | None
    skip_reason: str | None
    lost_count: int
    retry_at: datetime | None
    http_status: int | None
    error: str | None
    timeline: Timeline
    progress: float | None = None
    note: str | None = None
    result: Any = None
    result_dropped: str | None = None
    attempts: tuple[Attempt, ...] = ()

    @property
    def ended(self) -> bool:
        """Whether it is over: nothing but a redrive changes it any more."""
        return self.status in ENDED

    @property
    def succeeded(self) -> bool:
        """Whether it ended well."""
        return self.status == "SUCCEEDED"


ENDED = frozenset({"SUCCEEDED", "FAILED", "CANCELLED", "SKIPPED"})
"""Statuses of runs that are over."""


class DeadLetter(msgspec.Struct, frozen=True, kw_only=True):
    """A run that is out of attempts."""

    run_id: str
    job_id: str
    tenant_id: str
    job_name: str | None
    scheduled_at: datetime
    failed_at: datetime
    attempts: int
    cause: str
    error: str | None
    http_status: int | None


class JobPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of jobs; `next_cursor` is None on the last one."""

    jobs: tuple[Job, ...]
    next_cursor: str | None


class RunPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of runs, latest first."""

    runs: tuple[Run, ...]
    next_cursor: str | None


class DeadLetterPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of the dead-letter queue, newest first."""

    dead_letters: tuple[DeadLetter, ...]
    next_cursor: str | None


class RefusedRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run that was not redriven, and why."""

    run_id: str
    code: str
    detail: str


class Redriven(msgspec.Struct, frozen=True, kw_only=True):
    """What a redrive did: run ids, those that are no dead letters, and those that were refused otherwise."""

    redriven_count: int
    redriven: tuple[str, ...]
    not_found: tuple[str, ...]
    refused: tuple[RefusedRun, ...] = ()


class Preview(msgspec.Struct, frozen=True, kw_only=True):
    """When an expression fires: in UTC, and on the zone's own clock."""

    next: tuple[datetime, ...]
    local: tuple[datetime, ...]
    notes: tuple[str, ...]
    warnings: tuple[str, ...]


class LiveWorker(msgspec.Struct, frozen=True, kw_only=True):
    """A worker with a session. `via`: `store` (it uses the database itself) or `http`.

    `tenant_id`: whose runs it gets; None: those of all tenants.
    """

    worker_id: str
    name: str
    tenant_id: str | None = None
    via: str
    version: str
    handlers: tuple[str, ...]
    webhooks: bool
    slots: int
    busy: int
    enlisted_at: datetime
    seen_at: datetime
    draining: bool
    stalled: bool


class WorkerList(msgspec.Struct, frozen=True, kw_only=True):
    """All live workers."""

    workers: tuple[LiveWorker, ...]


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """Who answers."""

    status: str
    version: str
    tzdata_version: str


class Token(msgspec.Struct, frozen=True, kw_only=True):
    """An API key; `tenant_id` None: for all tenants. Only the answer that made it has the `token`."""

    token_id: str
    tenant_id: str | None
    label: str
    role: str
    scopes: tuple[str, ...]
    created_at: datetime
    expires_at: datetime | None
    last_used_at: datetime | None
    old_secret_until: datetime | None
    token: str | None = None


class TokenList(msgspec.Struct, frozen=True, kw_only=True):
    """API keys, oldest first."""

    tokens: tuple[Token, ...]


class SigningKey(msgspec.Struct, frozen=True, kw_only=True):
    """A key of a signing secret, without its value; `until` None: until the secret is rotated."""

    id: str
    created_at: datetime
    until: datetime | None


class Secret(msgspec.Struct, frozen=True, kw_only=True):
    """A signing secret. Only the answer that made a key has its `value`, which no repr shows."""

    name: str
    tenant_id: str
    keys: tuple[SigningKey, ...]
    value: str | None = None

    def __repr__(self) -> str:
        return f"Secret(name={self.name!r}, tenant_id={self.tenant_id!r}, keys={self.keys!r})"


class SecretList(msgspec.Struct, frozen=True, kw_only=True):
    """Signing secrets, by name."""

    secrets: tuple[Secret, ...]


class AuditEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One change: who did what to what, from which address; how it was before and after."""

    number: int
    at: datetime
    tenant_id: str
    actor: str
    actor_label: str | None = None
    source: str
    action: str
    subject: str
    before: Any = None
    after: Any = None


class AuditLogPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page, newest first."""

    entries: tuple[AuditEntry, ...]
    next_cursor: str | None = None
