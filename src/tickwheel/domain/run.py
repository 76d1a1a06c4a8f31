"""Run states as one table.

Every store guards each move in the WHERE clause of the write itself; this table says which moves exist. The
state diagram in the docs is generated from it, and the conformance suite walks it.
"""

from enum import IntEnum
from typing import Final


class RunState(IntEnum):
    """State of one run; the numbers are stored, so they never change."""

    SCHEDULED = 0
    CLAIMED = 1
    DISPATCHED = 2
    RUNNING = 3
    SUCCEEDED = 4
    FAILED = 5
    CANCELLED = 6
    SKIPPED = 7
    PAUSED = 8


IN_FLIGHT: Final = frozenset({RunState.CLAIMED, RunState.DISPATCHED, RunState.RUNNING})
FINAL: Final = frozenset({RunState.SUCCEEDED, RunState.CANCELLED, RunState.SKIPPED})
"""Never left again."""
TERMINAL: Final = FINAL | {RunState.FAILED}
"""No attempt to come; FAILED is left by a redrive only."""


class SkipReason(IntEnum):
    """Why a run ended as SKIPPED; stored."""

    NONE = 0
    PAUSED = 1
    OVERLAP = 2
    CATCH_UP = 3
    SUPERSEDED = 4
    DEADLINE = 5
    LIMIT = 6


class Cause(IntEnum):
    """What moves a run from one state to another."""

    CLAIM = 0
    START = 1
    COMPLETE = 2
    RETRY = 3
    UNSTARTED = 4
    REAP = 5
    CANCEL = 6
    SKIP = 7
    PAUSE = 8
    RESUME = 9
    REDRIVE = 10


_S = RunState
TRANSITIONS: Final[dict[Cause, tuple[tuple[RunState | None, RunState], ...]]] = {
    Cause.CLAIM: (
        (None, _S.DISPATCHED),
        (None, _S.CLAIMED),
        (_S.SCHEDULED, _S.DISPATCHED),
        (_S.SCHEDULED, _S.CLAIMED),
        (None, _S.SCHEDULED),  # buffered by overlap, or settled by an edit
    ),
    Cause.START: ((_S.CLAIMED, _S.RUNNING), (_S.DISPATCHED, _S.RUNNING), (_S.CLAIMED, _S.DISPATCHED)),
    Cause.COMPLETE: tuple((a, b) for a in sorted(IN_FLIGHT) for b in (_S.SUCCEEDED, _S.FAILED)),
    Cause.RETRY: tuple((a, _S.SCHEDULED) for a in sorted(IN_FLIGHT)),
    Cause.UNSTARTED: tuple((a, _S.SCHEDULED) for a in sorted(IN_FLIGHT)),
    Cause.REAP: tuple((a, b) for a in sorted(IN_FLIGHT) for b in (_S.SCHEDULED, _S.FAILED)),
    Cause.CANCEL: (
        (None, _S.CANCELLED),
        (_S.SCHEDULED, _S.CANCELLED),
        (_S.PAUSED, _S.CANCELLED),
        *((a, _S.CANCELLED) for a in sorted(IN_FLIGHT)),
    ),
    Cause.SKIP: ((None, _S.SKIPPED), (_S.SCHEDULED, _S.SKIPPED)),
    Cause.PAUSE: ((None, _S.PAUSED), (_S.SCHEDULED, _S.PAUSED)),
    Cause.RESUME: ((_S.PAUSED, _S.SCHEDULED), (_S.PAUSED, _S.SKIPPED)),
    Cause.REDRIVE: ((_S.FAILED, _S.SCHEDULED),),
}
"""Cause -> allowed (from, to); None is "no ledger row yet"."""


class IllegalTransition(ValueError):
    """A move that the table does not have; nothing was changed."""


def check_transition(cause: Cause, source: RunState | None, to: RunState) -> None:
    """Raise `IllegalTransition` unless the table allows `source` -> `to` by `cause`."""
    if (source, to) not in TRANSITIONS[cause]:
        raise IllegalTransition(
            f"{cause.name} may not move a run from {source.name if source is not None else 'none'} to {to.name}"
        )


SEED_A_WORD: Final[dict[RunState, str]] = {
    _S.SCHEDULED: "PENDING",
    _S.CLAIMED: "PENDING",
    _S.DISPATCHED: "DISPATCHED",
    _S.RUNNING: "DISPATCHED",
    _S.SUCCEEDED: "COMPLETED",
    _S.FAILED: "FAILED",
    _S.CANCELLED: "CANCELLED",
    _S.SKIPPED: "CANCELLED",
    _S.PAUSED: "PENDING",
}
"""The five words of the compact API and of the SQL view."""

FENCE_SEQUENCE_BITS: Final = 32
EPOCH_LEAP: Final = 1_024
"""How far epochs rise after a restore: over all takeovers that it may have forgotten."""


def fencing_token(epoch: int, sequence: int) -> int:
    """The token that orders all attempts of a job: shard epoch above, the owner's sequence below."""
    return (epoch << FENCE_SEQUENCE_BITS) | sequence
