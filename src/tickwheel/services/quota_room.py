"""Room for one job of which only the store's transaction says whether it is made or changed: putting by name."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from tickwheel.domain.errors import InvalidRequest, OutcomeUnknown, QuotaExceeded, TickwheelError
from tickwheel.ports.store import NewJob
from tickwheel.services.quotas import Quotas


class Room:
    """What the limits of the tenant say of it."""

    def __init__(self, error: TickwheelError | None) -> None:
        self._error = error
        self.makes = False

    def check(self, *, makes: bool) -> None:
        """Called under the lock. Raises what is in the way; a change uses no more of what is counted."""
        if self._error is not None and (makes or not isinstance(self._error, QuotaExceeded)):
            raise self._error
        self.makes = makes


@asynccontextmanager
async def room_for_one(quotas: Quotas | None, new_job: Callable[[], NewJob]) -> AsyncIterator[Room]:
    """Hold room for it, in case it is made."""
    if quotas is None or not quotas.bounds_jobs:
        yield Room(None)
        return
    try:
        jobs = [new_job()]
    except InvalidRequest:
        jobs = []  # it can't be made, so it needs no room
    admission = await quotas.admit(jobs)
    room = Room(admission.errors[0] if jobs else None)
    try:
        yield room
    except OutcomeUnknown:
        raise  # it may have been made; the next count of the store tells
    except BaseException:
        room.makes = False
        raise
    finally:
        quotas.settle(admission, [room.makes] * len(jobs))
