"""What the end of an attempt writes, the same wherever the attempt was made: what was decided, and the words."""

import numpy as np

from tickwheel.domain.columns import CompletionCause
from tickwheel.domain.outcome import Decision, Outcome, OutcomeClass
from tickwheel.domain.run import RunState
from tickwheel.ports.store import AttemptNote


def write_decision(row: np.void, decision: Decision) -> None:
    """Into its COMPLETION row."""
    row["state"], row["lost_count"] = decision.state, decision.lost_count
    row["retry_ms"] = -1 if decision.retry_at_ms is None else decision.retry_at_ms
    if not decision.uses_attempt:
        row["cause"] = CompletionCause.UNSTARTED


def result_note(outcome: Outcome) -> AttemptNote | None:
    """Of a success: what was returned, or why that was not kept; None if nothing was."""
    if outcome.result is None and outcome.result_dropped is None:
        return None
    result = None if outcome.result is None else outcome.result.decode()
    return AttemptNote(error=None, excerpt=None, result=result, dropped=outcome.result_dropped)


def failure_note(outcome: Outcome, decision: Decision) -> AttemptNote:
    """Of any other end. Where a lost worker ends the run, the cause says how many were lost, too."""
    error = outcome.error
    if outcome.outcome_class is OutcomeClass.LOST and decision.state is RunState.FAILED:
        error = f"{error or 'the worker was lost'} ({decision.reason})"
    excerpt = None if outcome.excerpt is None else outcome.excerpt.decode("utf-8", "replace")
    return AttemptNote(error=error, excerpt=excerpt, buries=decision.buries)
