"""The console of `tickwheel dev`: one line per attempt, and a summary when they come faster than anyone reads."""

from collections.abc import Callable
from datetime import datetime
from typing import Final

import numpy as np

from tickwheel.domain.outcome import OutcomeClass
from tickwheel.domain.run import RunState
from tickwheel.ports.clock import Clock
from tickwheel.ports.events import AttemptsEnded, Event
from tickwheel.ports.executor import Work

LINES_PER_SECOND: Final = 20
ERROR_CHARS: Final = 100
_GREEN, _RED, _YELLOW, _PLAIN = "\x1b[32m", "\x1b[31m", "\x1b[33m", "\x1b[0m"


class Console:
    """An `EventSink` that prints through `write` (one line per call, without the newline)."""

    def __init__(self, *, write: Callable[[str], None], clock: Clock, colors: bool) -> None:
        self._write, self._clock, self._colors = write, clock, colors
        self._second = 0
        self._written = self._held_back = 0

    def emit(self, event: Event) -> None:
        if isinstance(event, AttemptsEnded):
            self._show(event)

    def _show(self, event: AttemptsEnded) -> None:
        second = self._clock.monotonic_ms() // 1000
        if second != self._second:
            if self._held_back:
                self._write(f"  … and {self._held_back:,} more runs")
            self._second, self._written, self._held_back = second, 0, 0
        room = max(0, LINES_PER_SECOND - self._written)
        ends = np.flatnonzero(event.applied).tolist()  # of what was refused, another line tells, or has told
        for number in ends[:room]:
            note = event.notes.get(number)
            self._write(self._line(event.rows[number], event.works[number], note.error if note else None))
        self._written += min(room, len(ends))
        self._held_back += max(0, len(ends) - room)

    def _line(self, row: np.void, work: Work | None, error: str | None) -> str:
        late_ms = max(0, int(row["started_ms"]) - int(row["due_ms"])) if int(row["due_ms"]) >= 0 else 0
        took_ms = max(0, int(row["finished_ms"]) - int(row["started_ms"]))
        at = datetime.fromtimestamp(int(row["finished_ms"]) / 1000).astimezone()
        state, outcome = RunState(int(row["state"])), OutcomeClass(int(row["outcome"]))
        mark, color, word = _summary(state, outcome)
        status = f" HTTP {int(row['http_status'])}" if int(row["http_status"]) else ""
        unserved = "(worker lost)" if outcome is OutcomeClass.LOST else "(not started)"
        what = unserved if work is None else work.target.endpoint or f"handler {work.target.name}"
        name = "" if work is None else f"{_printable(work.job_name) or work.job_id_text}  "
        text = f"{at:%H:%M:%S}.{at.microsecond // 1000:03d}  {mark} {word}{status}  {name}{what}"
        text += f"  attempt {int(row['attempt'])}, {late_ms} ms late, took {took_ms} ms"
        if error:
            text += f"  ({_printable(error[:ERROR_CHARS])})"
        if state is RunState.SCHEDULED and int(row["retry_ms"]) > 0:
            text += f"  next try in {max(0, int(row['retry_ms']) - int(row['finished_ms'])) / 1000:.1f} s"
        return f"{color}{text}{_PLAIN}" if self._colors else text


def _summary(state: RunState, outcome: OutcomeClass) -> tuple[str, str, str]:
    if state is RunState.SUCCEEDED:
        return "✓", _GREEN, "SUCCEEDED"
    if state is RunState.FAILED:
        return "✗", _RED, "FAILED"
    if state is RunState.CANCELLED:
        return "-", _YELLOW, "CANCELLED"
    return "↻", _YELLOW, f"{outcome.name}, again"


def _printable(text: str) -> str:
    """Names and answers come from others: no escape sequence of theirs may reach the terminal."""
    return "".join(char if char.isprintable() else "\N{MIDDLE DOT}" for char in text)
