"""What the ends of attempts say about the host that was called."""

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from tickwheel.domain.columns import Bools, Ints, Rows
from tickwheel.domain.outcome import Outcome, OutcomeClass

PUSH_BACKS: Final = (429, 503)


class Ended(NamedTuple):
    """Attempts that ended, as their executor reported them: COMPLETION rows and the outcomes, in one order."""

    rows: Rows
    began_mono_ms: Ints
    outcomes: Sequence[Outcome]


class Evidence(NamedTuple):
    """Per end. What is none of these (cancelled, handed back, refused here) says nothing about the host."""

    good: Bools
    answered: Bools  # the host lives: any answer but 5xx
    failed: Bools  # no whole answer, or 5xx
    pushed: Bools  # it can't take so much: 429, 503, no whole answer


def read_evidence(rows: Rows, outcomes: Sequence[Outcome]) -> Evidence | None:
    """None: all ended well, which needs no look."""
    outcome, status = rows["outcome"], rows["http_status"]
    if not outcome.any():
        return None
    good = outcome == OutcomeClass.SUCCESS
    sent = np.fromiter((not one.unsent for one in outcomes), np.bool_, len(rows))
    passing = (outcome == OutcomeClass.RETRYABLE) & sent
    timed_out = outcome == OutcomeClass.TIMEOUT
    failed = timed_out | (passing & ((status == 0) | (status >= 500)))
    answered = good | ((passing | (outcome == OutcomeClass.PERMANENT)) & (status > 0) & ~failed)
    pushed = timed_out | (passing & ((status == 0) | (status == PUSH_BACKS[0]) | (status == PUSH_BACKS[1])))
    return Evidence(good, answered, failed, pushed)
