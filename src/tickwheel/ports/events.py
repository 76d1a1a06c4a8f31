"""What happened, for whoever wants to know: logs, metrics, the console of `tickwheel dev`.

Events of the hot path are columnar, one per batch. A sink must be quick and must not raise; nothing waits for
it and no outcome depends on it.
"""

from collections.abc import Mapping, Sequence
from typing import Literal, Protocol, TypeAlias

import msgspec

from tickwheel.domain.columns import Bools, Ints, Rows
from tickwheel.ports.executor import Work
from tickwheel.ports.store import AttemptNote


class OfTenant(Protocol):
    """Whatever says whose it is."""

    @property
    def tenant_id(self) -> str: ...


class AttemptsStarted(msgspec.Struct, frozen=True):
    """Attempts handed to an executor. `lateness_ms` = start - due, `lane` as stored, one per attempt."""

    lateness_ms: Ints
    lane: Ints
    works: Sequence[OfTenant] = ()  # in the same order
    claim_ms: int = 0  # how long their claim took


class RunsQueued(msgspec.Struct, frozen=True):
    """Runs handed to workers elsewhere: claimed, and on their way to the queue. The columns are as above."""

    lateness_ms: Ints
    lane: Ints
    works: Sequence[OfTenant]
    timers: Rows | None = None
    fences: Ints | None = None
    claim_ms: int = 0


class AttemptsEnded(msgspec.Struct, frozen=True):
    """COMPLETION rows that are committed (`applied`, per row) or were refused as stale."""

    rows: Rows
    applied: Bools
    notes: Mapping[int, AttemptNote]
    works: Sequence[Work | None]  # what was attempted, per row; None for what never began

    @property
    def stale_count(self) -> int:
        """How many were refused."""
        return len(self.applied) - int(self.applied.sum())


class ClaimsAnswered(msgspec.Struct, frozen=True):
    """A claim batch came back; `verdicts[v]` counts `ClaimVerdict` v, `triggers[l]` first claims of lane l."""

    verdicts: Ints
    took_ms: int
    triggers: Ints


class TimersLoaded(msgspec.Struct, frozen=True):
    """A slice of waiting timers was read."""

    count: int
    until_ms: int
    took_ms: int


class BufferFailed(msgspec.Struct, frozen=True):
    """The buffer refused, was away, or lacks timers (`lost`): these buckets' minutes are read from the store."""

    what: Literal["add", "read", "drop", "lost"]
    buckets: int
    error: str


class LoopFailed(msgspec.Struct, frozen=True):
    """A loop met an error and goes on after a pause; `error` holds no payload and no secret."""

    loop: str
    error: str
    retry_in_ms: int


class ScheduleFailing(msgspec.Struct, frozen=True):
    """A recurring job could not be planned at all; it is tried again, and `/metrics` shows the count."""

    job_id: bytes
    error: str


class ChainMended(msgspec.Struct, frozen=True):
    """An active recurring job had not exactly one next timer, which must never be, and was given one."""

    job_id: bytes
    live_count: int


class RunsUnserved(msgspec.Struct, frozen=True):
    """Due runs of handlers that are not registered here, by handler name. They wait in the store, unclaimed."""

    counts: Mapping[str, int]


class HostOpened(msgspec.Struct, frozen=True):
    """Nothing is claimed for this host for a while: it answers nothing, or asked for it. Its runs wait."""

    host: str
    cause: str  # "failing" or "retry_after"
    pause_ms: int
    waiting_count: int


class HostClosed(msgspec.Struct, frozen=True):
    """The host answers again after `open_ms`; what waits for it is released bit by bit."""

    host: str
    open_ms: int
    waiting_count: int


class StoreRefusing(msgspec.Struct, frozen=True):
    """The store takes no writes from now on, and why; or it takes them again, after so long."""

    refuses: bool
    error: str = ""
    after_ms: int = 0


class IngestShedding(msgspec.Struct, frozen=True):
    """New jobs are refused (429) from now on, or taken again. `why` is a value of `domain.shedding.Why`."""

    sheds: bool
    why: str


class ClockStepped(msgspec.Struct, frozen=True):
    """The machine's wall clock was set back; time is slewed until both agree."""

    behind_ms: int


class ClockDiffers(msgspec.Struct, frozen=True):
    """The machine's wall clock and the store's have come apart (or have come together again): positive = ahead."""

    difference_ms: int
    differs: bool


class AuditEnded(msgspec.Struct, frozen=True):
    """The standing check went over everything; `unaccounted` must be 0. `examples` are ids of some that are."""

    accepted: int
    unaccounted: int
    overdue: int
    examples: Sequence[str]


class ShardsTaken(msgspec.Struct, frozen=True):
    """This node owns more shards; each has a new epoch. `cause` is where they came from."""

    count: int
    held_count: int  # all that this node holds now
    cause: Literal["free", "takeover", "own"]  # nobody's; a dead node's; its own under an older epoch


class ShardsLeft(msgspec.Struct, frozen=True):
    """This node owns fewer shards: handed over, or lost (it was deposed, or somebody else owns them)."""

    count: int
    held_count: int
    cause: Literal["handed_over", "lost"]


class MemberLost(msgspec.Struct, frozen=True):
    """A node was declared dead and may claim no more. `proved`: its process is known to be gone.

    `fired` False: it could own no shards (the role api alone), so nothing is late because of it.
    """

    incarnation: str
    proved: bool
    silent_ms: int
    fired: bool = True


class WorkerLost(msgspec.Struct, frozen=True):
    """A worker's session was ended by an owner. `proved`: its process is known to be gone; else it was silent."""

    worker: str
    proved: bool
    silent_ms: int


class Deposed(msgspec.Struct, frozen=True):
    """This node was declared dead by another one and goes on under a new incarnation, without its shards."""

    incarnation: str
    successor: str


class MembershipFrozen(msgspec.Struct, frozen=True):
    """The coordinator can't be reached (or can again): nobody is declared dead meanwhile, firing goes on."""

    frozen: bool
    error: str = ""


class LeadershipChanged(msgspec.Struct, frozen=True):
    """This node does the chores that one node does for all, or does them no more."""

    leads: bool


class SessionEnded(msgspec.Struct, frozen=True):
    """The others had declared this worker dead; it let go of what it held and began a new session."""

    held_count: int


class WorkerStalled(msgspec.Struct, frozen=True):
    """What this worker takes does not begin, so it takes nothing more (or it does begin again)."""

    stalled: bool
    handed_back: int


class WorkerResized(msgspec.Struct, frozen=True):
    """This worker runs more or fewer attempts at a time, as the length of runs suggests."""

    slots: int
    before: int


class NotificationEnded(msgspec.Struct, frozen=True):
    """A message of a rule was sent, failed to arrive (it is tried again), or was dropped after many tries."""

    tenant_id: str  # "": a rule of the installation
    rule: str
    outcome: str
    error: str
    tries: int


Event: TypeAlias = (
    AttemptsStarted
    | RunsQueued
    | AttemptsEnded
    | ClaimsAnswered
    | TimersLoaded
    | BufferFailed
    | LoopFailed
    | ScheduleFailing
    | ChainMended
    | RunsUnserved
    | HostOpened
    | HostClosed
    | StoreRefusing
    | IngestShedding
    | ClockStepped
    | ClockDiffers
    | AuditEnded
    | ShardsTaken
    | ShardsLeft
    | MemberLost
    | WorkerLost
    | Deposed
    | MembershipFrozen
    | LeadershipChanged
    | SessionEnded
    | WorkerStalled
    | WorkerResized
    | NotificationEnded
)


class EventSink(Protocol):
    """Takes events."""

    def emit(self, event: Event) -> None: ...
