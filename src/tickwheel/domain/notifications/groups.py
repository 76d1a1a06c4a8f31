"""What a rule still has to say of one subject: gathered, held back for the quiet time, sent, tried again.

The first event is told at once. What follows within the quiet time is counted, and told in one message when that
time is over. A message that is being sent is fixed: its number, and so its id, and what it says stay the same over
all tries and restarts, and what happens meanwhile is gathered for the next one.

Example, with a quiet time of 15 minutes: a run fails at 12:00 (message: 1 run), three more by 12:10 (held back),
and at 12:15 the second message says 3 runs. With nothing more until 12:30 the group is forgotten.
"""

from typing import Final

import msgspec
from msgspec.structs import replace

from tickwheel.domain.notifications.kinds import Kind

EXAMPLE_COUNT: Final = 3
FIRST_PAUSE_MS: Final = 10_000
LONGEST_PAUSE_MS: Final = 600_000
GIVE_UP_MS: Final = 6 * 3_600_000
"""After this long without success a message is dropped."""


class Example(msgspec.Struct, frozen=True, omit_defaults=True):
    """One of the things that happened. Ids as they are printed."""

    at_ms: int
    job_id: str = ""
    job_name: str = ""
    run_id: str = ""
    scheduled_ms: int = 0
    detail: str = ""


class Gathered(msgspec.Struct, frozen=True):
    """Things of one kind that happened to one subject; the examples are the latest ones."""

    count: int
    first_ms: int
    last_ms: int
    examples: tuple[Example, ...]

    def with_one(self, example: Example) -> "Gathered":
        """These and one more."""
        return Gathered(
            self.count + 1,
            min(self.first_ms, example.at_ms),
            max(self.last_ms, example.at_ms),
            (*self.examples, example)[-EXAMPLE_COUNT:],
        )


class Group(msgspec.Struct, frozen=True, omit_defaults=True):
    """A subject of a rule. `is_open`: a job that was told to be failing has not succeeded since."""

    kind: Kind
    about: str  # of the subject, for people: a job's name or id, an objective's name
    tenant_id: str  # whose event it is; "": nobody's
    job_id: str = ""  # printed; empty where it is about several jobs or none
    waiting: Gathered | None = None
    sending: Gathered | None = None
    number: int = 0  # of the message that is or was sent
    began_ms: int | None = None  # when it was to be sent first
    tries: int = 0
    next_ms: int = 0
    is_open: bool = False

    def heard(self, example: Example) -> "Group":
        """One more thing happened."""
        if self.waiting is not None:
            return replace(self, waiting=self.waiting.with_one(example))
        return replace(self, waiting=Gathered(1, example.at_ms, example.at_ms, (example,)))

    def begun(self, now_ms: int, quiet_ms: int) -> "Group":
        """Fix the next message, if there is something to say, and its time has come."""
        if self.waiting is None or self.sending is not None or self.is_quiet(now_ms, quiet_ms):
            return self
        return replace(
            self,
            waiting=None,
            sending=self.waiting,
            number=self.number + 1,
            began_ms=now_ms,
            tries=0,
            next_ms=now_ms,
        )

    def is_quiet(self, now_ms: int, quiet_ms: int) -> bool:
        """Whether the last message is so fresh that the next has to wait."""
        return self.began_ms is not None and now_ms < self.began_ms + quiet_ms

    def is_due(self, now_ms: int) -> bool:
        """Whether a message is to be tried now."""
        return self.sending is not None and self.next_ms <= now_ms

    def delivered(self) -> "Group":
        """The message is over: it arrived, or was given up."""
        return replace(self, sending=None, tries=0)

    def failed(self, now_ms: int) -> "Group":
        """It did not arrive: it is tried again, later and later."""
        pause_ms = min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS << min(self.tries, 16))
        return replace(self, tries=self.tries + 1, next_ms=now_ms + pause_ms)

    def is_hopeless(self, now_ms: int) -> bool:
        """Whether it was tried for too long."""
        return self.began_ms is not None and now_ms >= self.began_ms + GIVE_UP_MS

    def is_over(self, now_ms: int, quiet_ms: int) -> bool:
        """Whether it can be forgotten."""
        is_silent = self.waiting is None and self.sending is None and not self.is_open
        return is_silent and not self.is_quiet(now_ms, quiet_ms)
