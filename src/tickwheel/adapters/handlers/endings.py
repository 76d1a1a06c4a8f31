"""What a handler raises to say how its run goes on."""

from datetime import timedelta
from typing import Final, TypeAlias

from tickwheel.domain.limits import DELAY_SECONDS_MAX

Length: TypeAlias = float | timedelta
"""Seconds, or a timedelta."""
DEFAULT_SNOOZE_S: Final = 60


class Retry(Exception):
    """Raise it in a handler: the attempt failed, try again by the job's retry policy, but not before `after`.

    `after` is a number of seconds or a `timedelta`; `after_seconds` is the same.
    """

    def __init__(
        self,
        reason: str = "the handler asked for a retry",
        *,
        after: Length | None = None,
        after_seconds: float | None = None,
    ) -> None:
        super().__init__(reason)
        self.after_ms = _wait_ms(after, after_seconds)


class Snooze(Exception):
    """Raise it in a handler: not now, call me again after this time. Uses up no attempt.

    `Snooze(90)`, `Snooze(after=timedelta(minutes=5))` and `Snooze(after_seconds=90)`; without a length, a minute.
    """

    def __init__(self, after: Length | None = None, *, after_seconds: float | None = None) -> None:
        wait_ms = _wait_ms(after, after_seconds)
        self.after_ms: int = DEFAULT_SNOOZE_S * 1000 if wait_ms is None else wait_ms
        super().__init__(f"snoozed for {self.after_ms / 1000:g} s")


class Fail(Exception):
    """Raise it in a handler: trying again is no use; the run goes to the dead-letter queue at once.

    With `permanent=False` it is a failure like any other exception: tried again as the retry policy says.
    """

    def __init__(self, reason: str = "the handler gave up", *, permanent: bool = True) -> None:
        super().__init__(reason)
        self.permanent = permanent


class Cancel(Exception):
    """Raise it in a handler: this run is not wanted any more; it becomes CANCELLED, and is not tried again."""

    def __init__(self, reason: str = "the handler cancelled the run") -> None:
        super().__init__(reason)


def _wait_ms(after: Length | None, after_seconds: float | None) -> int | None:
    """At most what a job may be delayed: an instant beyond that has no date."""
    if after is not None and after_seconds is not None:
        raise TypeError("give after or after_seconds, not both")
    length = after_seconds if after is None else after
    if length is None:
        return None
    seconds = length.total_seconds() if isinstance(length, timedelta) else length
    return int(max(0, min(seconds, DELAY_SECONDS_MAX)) * 1000)
