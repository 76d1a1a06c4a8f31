"""What somebody may want to be told. The values are stored, and are the types of the messages."""

from enum import StrEnum
from typing import Final


class Kind(StrEnum):
    """An event that rules can name."""

    DEAD_LETTERED = "run.dead_lettered"  # a run went to the dead-letter queue
    FAILING = "job.failing"  # so many runs of a recurring job in a row did
    RECOVERED = "job.recovered"  # a run of a job succeeded that was told to be failing
    EXHAUSTED = "schedule.exhausted"  # a recurring job has no occurrence left
    BURNING = "objective.burning"  # the error budget of an objective of lateness burns too fast


DROPPED: Final = "run.dropped"
"""A run of a recurring job failed, and is kept out of the dead-letter queue: its job may be failing. No rule can
name it."""
TRIAL: Final = "notification.trial"
"""The type of the message that is sent to try a rule out; no rule can name it."""
