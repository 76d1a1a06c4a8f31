"""What a handler sees of its run, and how it tells of itself while it runs."""

from collections.abc import Generator
from datetime import UTC, datetime
from typing import Any, Final

from tickwheel.domain.job import Lane
from tickwheel.domain.outcome import PROGRESS_NOTE_LIMIT_CHARS, ProgressNote
from tickwheel.ports.executor import Work


class Heartbeat:
    """What `ctx.heartbeat()` gives. In an async handler await it; in a plain one the call alone is all."""

    __slots__ = ()

    def __await__(self) -> Generator[None, None, None]:
        yield  # lets others run; a handler that was cancelled is interrupted here


_HEARTBEAT: Final = Heartbeat()


class HandlerContext:
    """What a handler knows of its run. `cancelled` turns true when the run was cancelled or lost its lease."""

    __slots__ = ("_beat", "_work", "cancelled")

    _beat: ProgressNote  # there once something was said

    def __init__(self, work: Work) -> None:
        self._work = work
        self.cancelled = False

    def __repr__(self) -> str:
        return f"<HandlerContext {self.run_id} attempt {self.attempt} of {self.max_attempts}>"

    @property
    def run_id(self) -> str:
        """The same for every attempt of the run: use it as the idempotency key of your side effects."""
        return self._work.run_id

    @property
    def job_id(self) -> str:
        """The job, as the API names it."""
        return self._work.job_id_text

    @property
    def tenant_id(self) -> str:
        """The tenant that the job belongs to."""
        return self._work.tenant_id

    @property
    def lane(self) -> str:
        """The job's priority: CRITICAL, HIGH, DEFAULT or LOW."""
        return Lane(self._work.lane).name

    @property
    def attempt(self) -> int:
        """This try's number, from 1."""
        return self._work.attempt

    @property
    def max_attempts(self) -> int:
        """Tries that the job's retry policy allows."""
        return self._work.max_attempts

    @property
    def fencing_token(self) -> int:
        """Rises with every attempt of the job: let your database refuse a lower one than it has seen."""
        return self._work.fence

    @property
    def scheduled_at(self) -> datetime:
        """The instant that this run was scheduled for (UTC)."""
        return datetime.fromtimestamp(self._work.scheduled_ms / 1000, UTC)

    @property
    def scheduled_ms(self) -> int:
        """The same as UTC epoch milliseconds."""
        return self._work.scheduled_ms

    @property
    def idempotency_key(self) -> str | None:
        """The job's own key, if it was created with one."""
        return self._work.idempotency_key

    @property
    def traceparent(self) -> str | None:
        """W3C trace context of this attempt, for the calls that you make; None: its job is part of no trace."""
        return None if self._work.trace is None else self._work.trace.context.traceparent

    @property
    def tracestate(self) -> str | None:
        """What goes with it, if anything does."""
        return None if self._work.trace is None else self._work.trace.context.state or None

    @property
    def deadline(self) -> datetime | None:
        """When the target's timeout ends this attempt (UTC); None without a timeout."""
        deadline_ms = self.deadline_ms
        return None if deadline_ms is None else datetime.fromtimestamp(deadline_ms / 1000, UTC)

    @property
    def deadline_ms(self) -> int | None:
        """The same as UTC epoch milliseconds."""
        return None

    def heartbeat(self, progress: float | None = None, note: str | None = None) -> Heartbeat:
        """Tell how far the work is: `progress` from 0 to 1 and a line of text, both shown on the run.

        In an async handler `await` it, in a plain one just call it. What is left out stays as it was said before.
        Call it as often as you like: the latest counts, and it is stored once a second at most. It never fails a
        handler: `progress` is moved into 0 to 1 (left out if it is no number), a note is cut at 256 characters.
        Leases are kept without it too.
        """
        beat: ProgressNote | None = getattr(self, "_beat", None)
        said = ProgressNote(
            _fraction(progress, None if beat is None else beat.progress),
            _line(note, None if beat is None else beat.note),
        )
        if said != beat:
            self._beat = said
            self._tell()
        return _HEARTBEAT

    def _tell(self) -> None:
        """Somebody may want to know what was said."""


def _fraction(progress: Any, before: float | None) -> float | None:
    try:
        value = float(progress)
    except Exception:  # a type of the user's may raise anything
        return before
    return before if value != value else min(1.0, max(0.0, value))


def _line(note: object, before: str | None) -> str | None:
    if note is None:
        return before
    try:
        text = str(note)
    except Exception:  # as above
        return before
    return text[:PROGRESS_NOTE_LIMIT_CHARS].encode("utf-8", "replace").decode()
