"""Where a worker's runs come from and where their ends go: a store and a queue, or a server over HTTP.

A worker asks for as much as it can run and gets *assignments*: runs whose attempt has begun in the ledger under
this worker's name. It must execute each of them, or hand it back with the outcome UNSTARTED. What it does neither
with comes back when its lease or its session is over, and has used an attempt up.

Verbs raise `ConnectionError` or `StoreUnavailable` when the other side can't be reached, to be tried again, and
`SessionOver` when it does not know this worker any more: then nothing that the worker holds is its own.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol, TypeAlias, runtime_checkable

import msgspec

from tickwheel.domain.errors import TickwheelError
from tickwheel.domain.job import Target
from tickwheel.domain.outcome import Outcome, ProgressNote
from tickwheel.domain.run_trace import RunTrace
from tickwheel.ports.workers import WorkerNote

Key: TypeAlias = tuple[bytes, int, int]
"""Job id, scheduled ms, fencing token."""


class SessionOver(TickwheelError):
    """The worker was declared dead, or is unknown: it has to enlist again and let go of what it held."""

    code = "session_over"
    retryable = True


class Assignment(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A run to execute. `sent_mono_ms` is when it was asked for: the attempt's own clock starts there (F7)."""

    job_id: bytes
    scheduled_ms: int
    fence: int
    attempt: int
    max_attempts: int
    lane: int
    tenant_id: str
    target: Target
    payload: bytes
    idempotency_key: str | None
    job_name: str
    sent_mono_ms: int
    signing_keys: tuple[bytes, ...] | None = None  # None: the worker signs with its own, if it has any
    trace: RunTrace | None = None

    def __repr__(self) -> str:
        """Without what may be secret."""
        return f"Assignment(job_id={self.job_id.hex()}, fence={self.fence}, target={self.target!r})"

    @property
    def key(self) -> Key:
        """Names the attempt."""
        return self.job_id, self.scheduled_ms, self.fence


class Ended(msgspec.Struct, frozen=True, gc=False):
    """How an assignment ended; instants of this machine's clock."""

    assignment: Assignment
    outcome: Outcome
    started_ms: int
    finished_ms: int


class Beat(msgspec.Struct, frozen=True, gc=False):
    """An attempt that goes on, and the latest that it says of itself."""

    assignment: Assignment
    started_ms: int
    progress: ProgressNote | None


class Taken(NamedTuple):
    """What a take gave, and attempts that this worker holds and should stop: cancelled, or somebody else's."""

    assignments: Sequence[Assignment]
    stopped: Sequence[Key] = ()


@runtime_checkable
class Withdraws(Protocol):
    """An executor that can tell what has not begun."""

    def withdraw(self, slots: Sequence[int]) -> Sequence[int]:
        """Of these, take back those that have not begun: they never will, and are reported UNSTARTED."""
        ...


class Room(Protocol):
    """Free slots at the moment of a take. Taking one may leave fewer for other lanes."""

    @property
    def total(self) -> int:
        """How many runs may be given in all."""
        ...

    @property
    def busy(self) -> Sequence[int]:
        """Slots in use, by lane."""
        ...

    def free(self, lane: int) -> int:
        """How many of them may be of that lane."""
        ...

    def take(self, lane: int, count: int) -> None:
        """So many were given."""
        ...


class WorkSource(Protocol):
    """One session after another with the other side. Loop thread only."""

    @property
    def session_ms(self) -> int:
        """A session that was not renewed for so long is over."""
        ...

    @property
    def lease_ms(self) -> int:
        """An assignment that was not renewed for so long is somebody else's."""
        ...

    @property
    def pending(self) -> int:
        """Ends that the other side has not confirmed yet."""
        ...

    async def enlist(self, note: WorkerNote) -> None:
        """Begin a session, under a name that was never used before."""
        ...

    async def beat(self, note: WorkerNote) -> None:
        """Go on with it."""
        ...

    async def take(self, room: Room, wait_ms: int, note: WorkerNote) -> Taken:
        """Runs to execute, highest lane first; waits up to `wait_ms` for some to come, also when there is no room.

        May be cancelled, as when there is more room now. What it was given all the same is given by the next take
        or by `left_over`, or the other side has it back.
        """
        ...

    async def left_over(self) -> Sequence[Assignment]:
        """After the last take, if it was cancelled: what it was given."""
        ...

    async def renew(self, beats: Sequence[Beat]) -> Sequence[bool]:
        """Keep the leases; False where the attempt has to stop: cancelled, or somebody else's."""
        ...

    def report(self, ends: Sequence[Ended]) -> None:
        """Queue these ends; each is sent again until the other side has it."""
        ...

    def forget(self, assignments: Sequence[Assignment]) -> None:
        """These were aborted; nothing is reported of them."""
        ...

    async def run(self) -> None:
        """Send what is reported, for ever."""
        ...

    async def flushed(self) -> None:
        """Return when all that was reported before is confirmed, or refused."""
        ...

    async def leave(self) -> None:
        """End the session; everything was handed back. Raises nothing that matters: silence ends it as well."""
        ...
