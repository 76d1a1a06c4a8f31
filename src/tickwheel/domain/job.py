"""The definition of a job: what to call, when, with which policy.

`Spec` is the part that is the same for many jobs (target, policies, recurrence) and is stored as one JSON
text, so that decoding is cached by its bytes; what differs per job (name, payload, tags, instants) has columns
of its own in every store.
"""

from enum import IntEnum, StrEnum
from typing import Final

import msgspec

from tickwheel.domain.columns import FLAG_HANDLER, FLAG_RECURRING
from tickwheel.domain.concurrency import Limit
from tickwheel.domain.lane import Lane as Lane
from tickwheel.domain.outcome import RetryPolicy
from tickwheel.domain.tenants import bucket_flags

DEFAULT_TENANT: Final = "default"


class ScheduleType(StrEnum):
    """How a job says when."""

    ONE_OFF = "ONE_OFF"
    DELAYED = "DELAYED"
    CRON = "CRON"
    INSTANT = "INSTANT"


class JobState(IntEnum):
    """State of the definition; a one-off's *status* is its run's state instead. Stored."""

    ACTIVE = 0
    PAUSED = 1
    CANCELLED = 2
    COMPLETED = 3  # recurring, no occurrence left
    DELETED = 4  # gone for readers; history stays until retention ends


class CatchUp(StrEnum):
    """What happens to occurrences that came due while nobody could fire them."""

    FIRE_ONCE = "fire_once"
    FIRE_ALL = "fire_all"
    SKIP = "skip"


class Overlap(StrEnum):
    """What happens when an occurrence is due while an earlier run of the job is not terminal."""

    ALLOW = "allow"
    SKIP = "skip"
    BUFFER_ONE = "buffer_one"


class TargetType(StrEnum):
    """Who does the work."""

    HTTP_WEBHOOK = "HTTP_WEBHOOK"
    HANDLER = "HANDLER"


class Target(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """What an attempt calls. `name` is for handlers, the rest for webhooks.

    Values of headers are sealed once they are stored (`domain.sealed`), and no repr shows them. `signing_secret`
    names one of the tenant's; empty: the one called `default`, if there is one.
    """

    type: TargetType
    endpoint: str = ""
    method: str = "POST"
    timeout_ms: int = 30_000
    headers: tuple[tuple[str, str], ...] = ()
    name: str = ""
    signing_secret: str = ""

    def __repr__(self) -> str:
        what = self.name if self.type is TargetType.HANDLER else f"{self.method} {self.endpoint}"
        return f"Target({what!r}, headers={[name for name, _ in self.headers]!r})"


class Spec(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Target, policies and recurrence: what many jobs have in common."""

    target: Target
    retry: RetryPolicy = RetryPolicy()
    cron: str = ""
    timezone: str = "UTC"
    catch_up: CatchUp = CatchUp.FIRE_ONCE
    catch_up_max: int = 100
    overlap: Overlap = Overlap.ALLOW
    deadline_ms: int | None = None  # length after scheduled_ms; later than that the run is SKIPPED
    start_ms: int | None = None  # no occurrence before
    end_ms: int | None = None  # no occurrence at or after
    concurrency: tuple[Limit, ...] = ()
    trace: str = ""  # of the request that made the job (`domain.trace_context`); no part of the definition


class Job(msgspec.Struct, frozen=True, gc=False):
    """One stored definition. `payload` is the raw JSON text as it was sent ("" = none)."""

    job_id: bytes
    tenant_id: str
    name: str
    schedule_type: ScheduleType
    lane: Lane
    spec: Spec
    payload: str
    created_ms: int
    state: JobState = JobState.ACTIVE
    version: int = 1  # raised by edit, pause, resume
    updated_ms: int = 0
    effective_ms: int = 0  # occurrences of this version lie after it
    scheduled_ms: int | None = None  # the instant of a one-off; None for recurring jobs
    tags: tuple[str, ...] = ()
    idempotency_key: str | None = None
    named: bool = False  # created by name: at most one live such job per tenant and name

    @property
    def recurring(self) -> bool:
        """Whether the job has occurrences rather than one instant."""
        return self.schedule_type is ScheduleType.CRON

    @property
    def timer_flags(self) -> int:
        """The flags of the job's timers (see `domain.columns`)."""
        flags = int(self.lane) | bucket_flags(self.tenant_id)
        if self.recurring:
            flags |= FLAG_RECURRING
        if self.spec.target.type is TargetType.HANDLER:
            flags |= FLAG_HANDLER
        return flags


_SPEC_ENCODER: Final = msgspec.json.Encoder(order="deterministic")
_SPEC_DECODER: Final = msgspec.json.Decoder(Spec)


def encode_spec(spec: Spec) -> bytes:
    """The stored form: the same spec always gives the same bytes in one version of the program."""
    return _SPEC_ENCODER.encode(spec)


def decode_spec(data: bytes | str) -> Spec:
    """The inverse of `encode_spec`."""
    return _SPEC_DECODER.decode(data)
