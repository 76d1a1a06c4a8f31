"""What an explanation consists of."""

from enum import StrEnum

import msgspec


class Verdict(StrEnum):
    """In one word: what became of the instant."""

    ON_TIME = "on_time"
    LATE = "late"
    WAITING = "waiting"  # due, and nothing of it has begun
    UPCOMING = "upcoming"  # not due yet
    PAUSED = "paused"
    SKIPPED = "skipped"
    CANCELLED = "cancelled"  # before anything of it began
    NO_RUN = "no_run"  # there is no such run


class Code(StrEnum):
    """Why. Those of the first group say why it was late or waits, then why again, then why not at all."""

    NOT_RUNNING = "not_running"
    TAKEOVER = "takeover"
    STORE_AWAY = "store_away"
    TARGET_TROUBLED = "target_troubled"
    TARGET_BUSY = "target_busy"
    LIMIT = "limit"
    TENANT_LIMIT = "tenant_limit"
    TENANT_RATE = "tenant_rate"
    TENANT_DISABLED = "tenant_disabled"
    SLOTS_TAKEN = "slots_taken"
    WORKER_ABSENT = "worker_absent"
    OVERLAP = "overlap"
    CREATED_LATE = "created_late"
    CATCH_UP = "catch_up"
    PAUSED = "paused"
    QUEUED = "queued"
    LATE_CLAIM = "late_claim"

    RETRY = "retry"
    TIMEOUT = "timeout"
    WORKER_LOST = "worker_lost"
    HANDED_BACK = "handed_back"
    SNOOZED = "snoozed"
    REDRIVEN = "redriven"
    FAILED = "failed"

    SUPERSEDED = "superseded"
    DEADLINE = "deadline"
    MISSED_LIMIT = "missed_limit"
    CANCELLED = "cancelled"
    JOB_OVER = "job_over"
    NOT_IN_SCHEDULE = "not_in_schedule"
    CLOCK_CHANGE = "clock_change"
    BEFORE_START = "before_start"
    AFTER_END = "after_end"
    BEFORE_VERSION = "before_version"
    NOT_REACHED = "not_reached"
    FUTURE = "future"
    NO_RECORD = "no_record"


class Reached(StrEnum):
    """Whether an attempt's request got to its target."""

    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"


class Cause(msgspec.Struct, frozen=True):
    """One reason, as a code and as a sentence; the instants say when it held, where that is known."""

    code: Code
    sentence: str
    from_ms: int | None = None
    until_ms: int | None = None


class Step(msgspec.Struct, frozen=True):
    """A station of the run. `took_ms` is the time since the one before."""

    step: str
    at_ms: int
    took_ms: int | None = None
    attempt: int | None = None
    note: str = ""


class AttemptStory(msgspec.Struct, frozen=True):
    """One attempt. `why` says why it was made after another one."""

    attempt: int
    fence: int
    worker: str
    outcome: str
    reached: Reached
    started_ms: int | None = None
    finished_ms: int | None = None
    http_status: int = 0
    error: str | None = None
    excerpt: str | None = None
    why: Cause | None = None

    @property
    def took_ms(self) -> int | None:
        """How long it ran, once it has ended."""
        known = self.started_ms is not None and self.finished_ms is not None
        return (self.finished_ms or 0) - (self.started_ms or 0) if known else None


class Explanation(msgspec.Struct, frozen=True):
    """The answer. `headline` says it all in one or two sentences; the weightiest cause is the first."""

    verdict: Verdict
    headline: str
    lateness_ms: int | None = None
    causes: tuple[Cause, ...] = ()
    steps: tuple[Step, ...] = ()
    attempts: tuple[AttemptStory, ...] = ()
    before_ms: int | None = None  # the occurrences next to an instant that has none
    after_ms: int | None = None
