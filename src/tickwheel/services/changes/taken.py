"""Instants of a job that have a ledger row already and so can't be planned again.

Example: the occurrence of 12:00 is cancelled (a CANCELLED row), then the job is edited at 11:00 with the same
expression. The next instant after now is 12:00 again; a timer for it would find its row taken, and as nobody else
plants a timer the job would never fire again. The same happens to a one-off moved from 10:00 to 11:00 and back.

A decision sees the job under its lock, but not the whole ledger, and it can't read. So it raises `TakenUnknown`,
the rows are read, and the decision is made again. What was read counts only for the version and live timer it was
read under: every write that adds such rows changes one of the two.
"""

from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from tickwheel.domain.errors import Conflict, TickwheelError
from tickwheel.domain.job import JobState
from tickwheel.ports.store import FirstTimer, JobView, Store

T = TypeVar("T")

_ATTEMPTS: Final = 8
_PAGE: Final = 200


class TakenUnknown(TickwheelError):
    """The decision needs to know the taken instants of this job; nothing was written."""

    def __init__(self, view: JobView, now_ms: int) -> None:
        super().__init__("the ledger has to be read first")
        self.view, self.now_ms = view, now_ms


class Taken:
    """What is known so far."""

    def __init__(self) -> None:
        self._instants: frozenset[int] = frozenset()
        self._state: tuple[bytes, int, FirstTimer | None] | None = None

    def of(self, view: JobView, now_ms: int) -> frozenset[int]:
        """Instants with a ledger row that could be planned again. Raises `TakenUnknown`."""
        if _surely_none(view, now_ms):
            return frozenset()
        if self._state != _state(view):
            raise TakenUnknown(view, now_ms)
        return self._instants

    def learn(self, view: JobView, instants: frozenset[int]) -> None:
        """Note what was read for the job as `view` shows it."""
        self._instants, self._state = instants, _state(view)


async def knowing_taken(store: Store, act: Callable[[Taken], Awaitable[T]]) -> T:
    """Do `act`, again after each time that it needs the taken instants of a job.

    Raises `Conflict` if the job never stands still in between.
    """
    taken = Taken()
    for _ in range(_ATTEMPTS):
        try:
            return await act(taken)
        except TakenUnknown as unknown:
            taken.learn(unknown.view, await _read(store, unknown.view, unknown.now_ms))
    raise Conflict("the job is being changed by others at the same time; try again")


async def _read(store: Store, view: JobView, now_ms: int) -> frozenset[int]:
    """Rows come latest first, so those that are too old to matter end the reading."""
    oldest_ms = _oldest_that_matters(view, now_ms)
    instants: set[int] = set()
    cursor: str | None = None
    while True:
        page = await store.list_runs(view.job.tenant_id, view.job.job_id, _PAGE, cursor)
        fresh = [run.scheduled_ms for run in page.items if run.scheduled_ms >= oldest_ms]
        instants.update(fresh)
        cursor = page.next_cursor
        if cursor is None or len(fresh) < len(page.items):
            return frozenset(instants)


def _oldest_that_matters(view: JobView, now_ms: int) -> int:
    """Nothing before this is planned again: a one-off may go anywhere, a recurring job settles what is due."""
    job = view.job
    if not job.recurring:
        return 0
    if job.state is JobState.PAUSED:
        return min(now_ms, job.effective_ms)
    return now_ms if view.live is None else min(now_ms, view.live.scheduled_ms)


def _surely_none(view: JobView, now_ms: int) -> bool:
    if not view.job.recurring:
        return view.job.version == 1 and view.last_run is None
    return view.last_run is None or view.last_run.scheduled_ms < _oldest_that_matters(view, now_ms)


def _state(view: JobView) -> tuple[bytes, int, FirstTimer | None]:
    return view.job.job_id, view.job.version, view.live
