"""Single rows of claim and completion batches, and the rules that every store applies to them.

The hot path of a store works on columns. What is not plain (a retry, a failure, an overlap) is decided row by row;
these are the rows, and the part of the decisions in which no store may differ from another.
"""

from typing import Final, NamedTuple

from tickwheel.domain.columns import ClaimVerdict, CompletionCause
from tickwheel.domain.outcome import OutcomeClass
from tickwheel.domain.run import TRANSITIONS, Cause, RunState

UNSTARTED_LIMIT: Final = 20
"""Returns without a start that are free; from then on each uses an attempt up."""
CAP_REASON: Final = f"handed back without a start more than {UNSTARTED_LIMIT} times"
LONG_MS: Final = 10_000
"""An attempt that ran longer than this is recorded though it succeeded."""
RECHECK_MS: Final = 1_000
"""How often a buffered run looks whether its turn has come."""
REPEATABLE: Final = frozenset({RunState.SUCCEEDED, RunState.FAILED, RunState.CANCELLED, RunState.SCHEDULED})
"""What a completion may find done already by its own first sending."""

_CHANGES: Final = (Cause.CANCEL, Cause.SKIP, Cause.PAUSE, Cause.RESUME, Cause.REDRIVE)
CHANGE_MOVES: Final = frozenset(
    {move for cause in _CHANGES for move in TRANSITIONS[cause]} | {(None, RunState.SCHEDULED)}
)
"""What people and policies may do to a run; (none, SCHEDULED) is an occurrence settled by an edit."""

_FAILURES: Final = frozenset(
    {OutcomeClass.RETRYABLE, OutcomeClass.PERMANENT, OutcomeClass.TIMEOUT, OutcomeClass.LOST}
)
_REAPS: Final = frozenset({CompletionCause.REAPER, CompletionCause.DEAD_OWNER})


class Claim(NamedTuple):
    """A CLAIM row, field by field."""

    due_ms: int
    job_id: bytes
    scheduled_ms: int
    gen: int
    flags: int
    action: int
    reason: int
    overlap: int
    max_attempts: int
    fence: int
    next_ms: int
    changes: int = 0
    armed_ms: int = 0
    limited: int = 0
    tenant_limit: int = 0

    @property
    def follow_up(self) -> int:
        """The `runs.gen` that this timer stands for; 0 for a first timer."""
        return max(0, -self.gen)


class Claimed(NamedTuple):
    """A CLAIMED row, field by field."""

    verdict: ClaimVerdict
    attempt: int = 0
    lost_count: int = 0
    version: int = 0
    fence: int = 0
    lease_ms: int = 0


class Completion(NamedTuple):
    """A COMPLETION row, field by field."""

    due_ms: int
    job_id: bytes
    scheduled_ms: int
    gen: int
    flags: int
    fence: int
    state: int
    cause: int
    outcome: int
    http_status: int
    attempt: int
    lost_count: int
    started_ms: int
    finished_ms: int
    retry_ms: int

    def may_move(self, source: RunState) -> bool:
        """Whether the table of transitions has this end of an attempt in state `source`."""
        state = RunState(self.state)
        return (source, state) in TRANSITIONS[self._cause_of(state)]

    def hands_back(self, state: int, last: bool) -> bool:
        """Whether the attempt had not begun: it says so, or it is a last one that was lost before RUNNING.

        `state` is the row's, `last` whether the attempt is the last one allowed.
        """
        lost_early = self.cause in _REAPS and last and state != RunState.RUNNING
        return self.cause == CompletionCause.UNSTARTED or lost_early

    def is_outdated(self, attempt: int) -> bool:
        """Whether this gives up an attempt that was not counted when that was decided, but is now.

        `attempt` is the row's. Example: the reaper reads a last attempt that has not written RUNNING, and means to
        hand it back; a commit that hung for seconds comes through meanwhile, and writes it. Applied all the same,
        the run would have one attempt more than its policy allows.
        """
        return self.cause in _REAPS and self.attempt < attempt

    def is_recorded(self, state: int) -> bool:
        """Whether the attempt gets a record of its own: it failed, took long, or was interrupted while RUNNING."""
        long = self.started_ms > 0 and self.finished_ms - self.started_ms > LONG_MS
        interrupted = self.outcome == OutcomeClass.UNSTARTED and state == RunState.RUNNING
        return self.outcome in _FAILURES or long or interrupted

    def _cause_of(self, state: RunState) -> Cause:
        if self.cause == CompletionCause.UNSTARTED:
            return Cause.UNSTARTED
        if self.cause in _REAPS:
            return Cause.REAP
        if state is RunState.CANCELLED:
            return Cause.CANCEL
        return Cause.RETRY if state is RunState.SCHEDULED else Cause.COMPLETE


def instant(value_ms: int) -> int | None:
    """An instant of a batch row, where 0 or less stands for none."""
    return value_ms if value_ms > 0 else None
