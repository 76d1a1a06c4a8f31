"""What workers and the server say to each other: bodies as types, decoded and described by the same types."""

from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from tickwheel.domain.limits import (
    BATCH_BODY_BYTES,
    BODY_BYTES,
    DELAY_SECONDS_MAX,
    HANDLER_NAME_CHARS,
    NAME_CHARS,
    SAFE_INTEGER,
)
from tickwheel.domain.outcome import PROGRESS_NOTE_LIMIT_CHARS

RUNS_MAX: Final = 1_000
HANDLERS_MAX: Final = 500
HOLDING_MAX: Final = 10_000
SLOTS_MAX: Final = 100_000
WAIT_SECONDS_MAX: Final = 30
WAIT_SECONDS_DEFAULT: Final = 10
ERROR_CHARS: Final = 16_384
RUN_ID_CHARS: Final = 64
POLL_BYTES: Final = BODY_BYTES
BEATS_BYTES: Final = 4 * BODY_BYTES
ENDS_BYTES: Final = BATCH_BODY_BYTES

_RunId = Annotated[str, Meta(min_length=1, max_length=RUN_ID_CHARS)]
_WorkerId = Annotated[str, Meta(min_length=1, max_length=NAME_CHARS)]
_Token = Annotated[int, Meta(ge=0, le=SAFE_INTEGER)]
_Seconds = Annotated[float, Meta(ge=0, le=DELAY_SECONDS_MAX)]
_Status = Annotated[int, Meta(ge=100, le=599)]
_Busy = Annotated[int, Meta(ge=0, le=SLOTS_MAX)]


class WorkerSelf(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Who polls: `id` is the `worker_id` of the last answer, left out at first."""

    name: Annotated[str, Meta(max_length=NAME_CHARS)] = ""
    id: _WorkerId | None = None
    version: Annotated[str, Meta(max_length=64)] = ""
    draining: bool = False
    stalled: bool = False


class BusySlots(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Attempts under way by lane."""

    CRITICAL: _Busy = 0
    HIGH: _Busy = 0
    DEFAULT: _Busy = 0
    LOW: _Busy = 0


class SlotsBody(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """What the worker can take: `free` runs, of `total` at a time. `busy` keeps slots reserved for lanes."""

    total: Annotated[int, Meta(ge=1, le=SLOTS_MAX)]
    free: Annotated[int, Meta(ge=0, le=RUNS_MAX)]
    busy: BusySlots | None = None


class PollRequest(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A worker asks for runs. `holding` are all runs whose ends it has not reported, with the answer, yet."""

    slots: SlotsBody
    worker: WorkerSelf = WorkerSelf()
    handlers: Annotated[
        tuple[Annotated[str, Meta(min_length=1, max_length=HANDLER_NAME_CHARS)], ...],
        Meta(max_length=HANDLERS_MAX),
    ] = ()
    webhooks: bool = False
    wait_seconds: Annotated[float, Meta(ge=0, le=WAIT_SECONDS_MAX)] = WAIT_SECONDS_DEFAULT
    holding: Annotated[tuple[_RunId, ...], Meta(max_length=HOLDING_MAX)] | None = None


class WebhookBody(msgspec.Struct):
    """What to call, for a worker that makes webhooks.

    `signing_secrets` (`whsec_…`, newest first) are the tenant's; the request gets a signature by each of them.
    Empty: the worker signs with its own, if it has any; those of the server do not travel.
    """

    endpoint: str
    method: str
    headers: dict[str, str]
    signing_secrets: list[str] = []

    def __repr__(self) -> str:
        return f"WebhookBody({self.method} {self.endpoint}, headers={list(self.headers)!r})"  # no values


class AssignedRun(msgspec.Struct):
    """An attempt that has begun and is this worker's: to be executed, or handed back."""

    run_id: str
    job_id: str
    job_name: str | None
    fencing_token: int
    attempt: int
    max_attempts: int
    lane: str
    tenant_id: str
    handler: str | None
    target: WebhookBody | None
    payload: Any
    scheduled_at: str
    lease_expires_at: str
    timeout_ms: int
    idempotency_key: str | None
    traceparent: str | msgspec.UnsetType = msgspec.UNSET  # of the request that made the job, if it had one
    tracestate: str | msgspec.UnsetType = msgspec.UNSET


class PollAnswer(msgspec.Struct):
    """Runs to execute, and runs to stop: `cancelled`, or `lost` to another attempt.

    A `worker_id` that is not the one that was sent: that session was over, and nothing is held any more.
    """

    worker_id: str
    session_seconds: float
    lease_seconds: float
    runs: list[AssignedRun]
    cancelled: list[str]
    lost: list[str]


class BeatBody(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """An attempt that goes on."""

    run_id: _RunId
    fencing_token: _Token
    progress: Annotated[float, Meta(ge=0, le=1)] | None = None
    note: Annotated[str, Meta(max_length=PROGRESS_NOTE_LIMIT_CHARS)] | None = None


class HeartbeatRequest(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Keeps the worker's session, and the leases of its runs."""

    worker_id: _WorkerId
    runs: Annotated[tuple[BeatBody, ...], Meta(max_length=RUNS_MAX)] = ()


class BeatAnswer(msgspec.Struct):
    """`held` with the end of the new lease; else stop: `cancelled`, `lost`, `ended` or `unknown`."""

    run_id: str
    status: str
    lease_expires_at: str | None


class HeartbeatAnswer(msgspec.Struct):
    """Per run, in the order given. `session_open` false: poll anew."""

    session_open: bool
    runs: list[BeatAnswer]


class CompletedRun(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A success. `result` is kept with the run up to 64 KiB; `result_dropped`: why it is not sent."""

    run_id: _RunId
    fencing_token: _Token
    result: msgspec.Raw = msgspec.field(default_factory=lambda: msgspec.Raw(b""))
    result_dropped: Annotated[str, Meta(max_length=ERROR_CHARS)] | None = None
    http_status: _Status | None = None


class CompleteRequest(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Attempts that succeeded."""

    worker_id: _WorkerId
    runs: Annotated[tuple[CompletedRun, ...], Meta(min_length=1, max_length=RUNS_MAX)]


class FailedRun(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """An attempt that did not succeed.

    At most one of `snooze_seconds`, `unstarted`, `cancelled`, `timed_out`, `lost`.
    `lost`: the process that made it died, and what it did is not known; three times in a row quarantine the run.
    """

    run_id: _RunId
    fencing_token: _Token
    error: Annotated[str, Meta(max_length=ERROR_CHARS)] | None = None
    retryable: bool = True
    retry_after_seconds: _Seconds | None = None
    snooze_seconds: _Seconds | None = None
    unstarted: bool = False
    cancelled: bool = False
    timed_out: bool = False
    lost: bool = False
    http_status: _Status | None = None


class FailRequest(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Attempts that did not succeed."""

    worker_id: _WorkerId
    runs: Annotated[tuple[FailedRun, ...], Meta(min_length=1, max_length=RUNS_MAX)]


class EndAnswer(msgspec.Struct):
    """Whether the end was taken; if not, `reason`: `cancelled`, `lost`, `ended`, `unknown` or `unwritten`."""

    run_id: str
    accepted: bool
    reason: str | None


class EndsAnswer(msgspec.Struct):
    """Per run, in the order given."""

    runs: list[EndAnswer]


class LeaveRequest(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """The worker goes. What it holds all the same is lost, and starts elsewhere."""

    worker_id: _WorkerId
    holding: Annotated[tuple[_RunId, ...], Meta(max_length=HOLDING_MAX)] = ()


class LeaveAnswer(msgspec.Struct):
    """Whether the session is over by this request."""

    left: bool


class WorkerBody(msgspec.Struct):
    """A live worker. `via`: `store` (it uses the database itself) or `http`.

    `tenant_id`: whose runs it gets; null: those of all tenants.
    """

    worker_id: str
    name: str
    tenant_id: str | None
    via: str
    version: str
    handlers: tuple[str, ...]
    webhooks: bool
    slots: int
    busy: int
    enlisted_at: str
    seen_at: str
    draining: bool
    stalled: bool


class WorkerList(msgspec.Struct):
    """Live workers, by id."""

    workers: list[WorkerBody]


class LaneScaling(msgspec.Struct):
    """What one lane needs."""

    needed_workers: int
    needed_slots: float
    backlog: int
    arrivals_per_second: float
    oldest_due_age_ms: int


class ScalingBody(msgspec.Struct):
    """What there is to do for workers, in all and by lane, and who there is to do it."""

    needed_workers: int
    needed_slots: float
    backlog: int
    arrivals_per_second: float
    oldest_due_age_ms: int
    workers: int
    slots: int
    in_flight: int
    slots_per_worker: float
    mean_run_ms: float
    drain_seconds: int
    lanes: dict[str, LaneScaling]


WORKER_TYPES: Final[tuple[Any, ...]] = (
    PollRequest,
    PollAnswer,
    HeartbeatRequest,
    HeartbeatAnswer,
    CompleteRequest,
    FailRequest,
    EndsAnswer,
    LeaveRequest,
    LeaveAnswer,
    WorkerList,
    ScalingBody,
)
"""What the OpenAPI document describes from here."""
