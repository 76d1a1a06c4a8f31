"""Columnar record types of the hot path.

Everything between a due timer and a committed completion travels as numpy structured arrays, one row per
run, so that arming, claiming and completing handle batches and never single runs.

A job id is 16 raw bytes (`V16`: numpy's `S16` would strip trailing NULs). Times are UTC epoch milliseconds.
"""

from enum import IntEnum
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Rows: TypeAlias = npt.NDArray[np.void]
"""A structured array with one of the dtypes below."""
Ints: TypeAlias = npt.NDArray[np.int64]
Bools: TypeAlias = npt.NDArray[np.bool_]

TIMER = np.dtype(
    [
        ("due_ms", "<i8"),  # never fires before this instant
        ("job_id", "V16"),
        ("scheduled_ms", "<i8"),  # names the run together with job_id; = due_ms for a first timer
        ("gen", "<i4"),  # first timer: jobs.version (>= 1); follow-up: -(runs.gen)
        ("flags", "<u2"),  # bits 0-1 lane, 2 recurring, 3 handler target, 4-14 bucket of the tenant
    ]
)
"""A stored "job J is due at T", as loaded from the store and held in the wheel (38 bytes)."""

FLAG_LANE_MASK = 0b0000_0011
FLAG_RECURRING = 0b0000_0100
FLAG_HANDLER = 0b0000_1000
FLAG_KIND_MASK = 0b0000_1111
"""What versions without buckets know of."""
FLAG_BUCKET_SHIFT = 4
FLAG_BUCKET_MASK = 0x7FF0
"""See `domain.tenants`. Bit 15 stays free: stores have signed columns of 16 bits."""


def empty(dtype: np.dtype[Any], count: int = 0) -> Rows:
    """A zeroed array of `count` rows of `dtype`."""
    return np.zeros(count, dtype=dtype)


CLAIM = np.dtype(
    [
        ("due_ms", "<i8"),  # of the timer; the store compares it with its own clock (never early)
        ("job_id", "V16"),
        ("scheduled_ms", "<i8"),
        ("gen", "<i4"),  # of the timer; < 0: a retry claim of the waiting row
        ("flags", "<u2"),  # as in TIMER
        ("action", "u1"),  # ClaimAction
        ("reason", "u1"),  # domain.run.SkipReason, for action SKIP
        ("overlap", "u1"),  # OverlapCode; what to do while an earlier run of the job is not terminal
        # Attempts that the policy allows. A claim that starts attempt number `max_attempts` is the last one: it
        # counts only once RUNNING is written (`renew` with mark_running), which precedes its first effect. (This
        # replaces a `last` flag: the attempt number of a retry is known to the store only.)
        ("max_attempts", "<i4"),
        ("fence", "<i8"),  # the new token
        ("next_ms", "<i8"),  # next occurrence of a recurring job to insert with a won first claim; -1 = none
        # Of a one-off that was ACTIVE, in the version of its timer, when its definition was read; else 0.
        ("changes", "<i8"),  # how many changes the jobs of its shard had had then (`WorkDefinition.changes`)
        ("armed_ms", "<i8"),  # when its timer was written
        ("limited", "u1"),  # 1: its job states limits of concurrency, or its tenant has one: it is no plain claim
        ("tenant_limit", "<i4"),  # how many runs of its tenant may be in flight; 0 = any number
    ]
)
"""One claim to try. Sorted by (job_id, scheduled_ms) by the store where it must be."""

CLAIMED = np.dtype(
    [
        ("verdict", "u1"),  # ClaimVerdict
        ("attempt", "<i4"),  # the attempt that a WON claim starts (from 1)
        ("lost_count", "<i4"),  # workers lost in a row before this attempt
        ("version", "<i4"),  # jobs.version at the claim: work prefetched for another version is read again
        ("fence", "<i8"),  # WON: the new token; IN_FLIGHT: the token of the attempt that holds the run
        ("lease_ms", "<i8"),  # IN_FLIGHT: when that lease ends (queued: now); 0 = its worker is proved dead
    ]
)
"""The answer to a claim, row by row in the order of the batch."""

BEGUN = np.dtype(
    [
        ("held", "u1"),  # 1: the run is RUNNING as this worker's; 0: somebody else's, over, or never queued
        ("attempt", "<i4"),  # the attempt that began (from 1)
        ("lost_count", "<i4"),  # workers lost in a row before it
    ]
)
"""The answer to a begin, row by row in the order of the hints."""

COMPLETION = np.dtype(
    [
        (
            "due_ms",
            "<i8",
        ),  # of the timer that the attempt was claimed by; -1 = unknown (a reaper's): the row knows
        ("job_id", "V16"),
        ("scheduled_ms", "<i8"),
        ("gen", "<i4"),  # of that timer
        ("flags", "<u2"),
        ("fence", "<i8"),  # the attempt's token: the guard
        ("state", "u1"),  # RunState to move to: SUCCEEDED, FAILED, SCHEDULED (retry or unstarted), CANCELLED
        ("cause", "u1"),  # CompletionCause
        ("outcome", "u1"),  # domain.outcome.OutcomeClass
        ("http_status", "<i2"),
        ("attempt", "<i4"),  # of this attempt
        ("lost_count", "<i4"),  # to store: workers lost in a row, this one included
        ("started_ms", "<i8"),
        ("finished_ms", "<i8"),
        ("retry_ms", "<i8"),  # due time of the follow-up timer when state is SCHEDULED, else -1
    ]
)
"""One attempt's end, to be committed under its token."""

RENEWAL = np.dtype(
    [
        ("job_id", "V16"),
        ("scheduled_ms", "<i8"),
        ("fence", "<i8"),
        ("started_ms", "<i8"),
        ("lease_ms", "<i8"),  # new end of the lease
        ("beat_ms", "<i8"),  # when the heartbeat was taken
        ("mark_running", "u1"),  # 1: also move DISPATCHED to RUNNING
    ]
)
"""A heartbeat: keeps the lease and, once, records that the attempt is running."""


class ClaimAction(IntEnum):
    """What a claim writes. A waiting run that has had an attempt before goes on whatever is asked for."""

    RUN = 0
    SKIP = 1  # a SKIPPED row with `reason`; for recurring jobs the next timer goes in with a first claim


class OverlapCode(IntEnum):
    """`job.Overlap` as a number."""

    ALLOW = 0
    SKIP = 1
    BUFFER_ONE = 2


class ClaimVerdict(IntEnum):
    """What became of a claim."""

    UNRESOLVED = 0  # nothing was learned; the timer stays
    WON = 1  # the row is ours under the new token: dispatch it
    RESOLVED = 2  # terminal, waiting for another gen, or the job is gone or edited: forget the timer
    IN_FLIGHT = 3  # another token holds the run: watch its lease
    NOT_DUE = 4  # the store's clock says it is early: arm it again
    DEPOSED = 5  # this process no longer owns the shard: drop it
    SKIPPED = 6  # a SKIPPED row was written (asked for, or by overlap); resolved
    BUFFERED = 7  # by overlap or limit: waits as a SCHEDULED row; `lease_ms` is the due time of its re-check timer
    LIMITED = 8  # a limit of concurrency leaves no slot; nothing was written, the timer stays


class CompletionCause(IntEnum):
    """Who ends the attempt; decides the guard beside the token."""

    WORKER = 0
    REAPER = 1  # the lease must be past by the store's clock
    DEAD_OWNER = 2  # the worker's incarnation is proved dead
    UNSTARTED = 3  # the attempt never began: it is handed back without using one up
