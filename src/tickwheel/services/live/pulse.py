"""How this node does now, and how all nodes do together."""

from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from tickwheel.domain.lanes import LANE_COUNT
from tickwheel.domain.scaling import LaneLoad
from tickwheel.domain.vitals import Vitals, sum_vitals
from tickwheel.domain.waits import Wait, find_waits
from tickwheel.services.delay_book import DelayBook
from tickwheel.services.live.recent import Recent
from tickwheel.services.ownership.membership import Standing
from tickwheel.services.ownership.node_note import SCHEDULER_ROLE
from tickwheel.services.ownership.ownership import Ownership
from tickwheel.services.ready import KIND_HANDLER, KIND_WEBHOOK
from tickwheel.services.scheduler import Scheduler

_KINDS: Final = (KIND_WEBHOOK, KIND_HANDLER)
LOOK_MS: Final = 1_000
"""So often at most it is looked for the oldest of what is held: it may be very many."""


def oldest_held_ms(scheduler: Scheduler) -> int | None:
    """When the oldest came due that waits for its target, a limit or its tenant; it looks at all that do."""
    gates = (scheduler.gate, scheduler.limits, scheduler.tenants)
    return min((due_ms for gate in gates if (due_ms := gate.lowest_due_ms()) is not None), default=None)


class NodeView(msgspec.Struct, frozen=True):
    """One node as this one sees it. `standing`: alive, new (not judged yet) or silent (for `silent_ms`)."""

    name: str
    incarnation: str
    standing: str
    silent_ms: int
    version: str
    roles: tuple[str, ...]
    unfit: str
    draining: bool
    clock_difference_ms: int
    is_this: bool
    is_leader: bool
    vitals: Vitals

    @property
    def fires(self) -> bool:
        """Whether due runs may begin because of it, as far as is known here."""
        return self.standing != Standing.SILENT.value and SCHEDULER_ROLE in self.roles


class Pulse:
    """Asked once a second or so, by people who look on and by the beats of the node."""

    def __init__(
        self,
        recent: Recent,
        scheduler: Scheduler | None,
        *,
        ownership: Callable[[], Ownership | None],
        is_leader: Callable[[], bool],
        name: str,
        version: str,
        roles: Sequence[str],
    ) -> None:
        self.recent = recent
        self._scheduler, self._ownership, self._is_leader = scheduler, ownership, is_leader
        self._name, self._version, self._roles = name, version, tuple(roles)
        self.book: DelayBook | None = None
        """What is known of what runs wait for."""
        self._held: tuple[int, tuple[Wait, ...]] = (0, ())
        self._looked_ms = -LOOK_MS

    def vitals(self) -> Vitals:
        """Of this node."""
        scheduler = self._scheduler
        backlog, oldest_due_ms = [0] * LANE_COUNT, [0] * LANE_COUNT
        starts, failures = (tuple(counts) if any(counts) else () for counts in self.recent.by_second())
        if scheduler is None:
            lanes = self.recent.lanes(backlog, oldest_due_ms)
            return Vitals(lanes, *self.recent.ends(), starts=starts, failures=failures)
        for kind in _KINDS:
            for lane, due_ms in enumerate(scheduler.ready.oldest_due_ms(kind)):
                backlog[lane] += scheduler.ready.count(kind, lane)
                if due_ms is not None:
                    oldest_due_ms[lane] = min(due_ms, oldest_due_ms[lane] or due_ms)
        elsewhere = scheduler.elsewhere.load()
        held_due_ms, waits = self._look_at_held(scheduler, elsewhere)
        return Vitals(
            self.recent.lanes(backlog, oldest_due_ms),
            *self.recent.ends(),
            in_flight=sum(len(pool.inflight) for pool in scheduler.pools),
            armed=len(scheduler.wheel),
            held=scheduler.gate.held_count + len(scheduler.limits) + len(scheduler.tenants),
            held_due_ms=held_due_ms,
            elsewhere=sum(load.backlog for load in elsewhere),
            waits=waits,
            starts=starts,
            failures=failures,
        )

    def _look_at_held(self, scheduler: Scheduler, elsewhere: Sequence[LaneLoad]) -> tuple[int, tuple[Wait, ...]]:
        clock = self.recent.clock
        if clock.monotonic_ms() - self._looked_ms >= LOOK_MS:
            self._looked_ms = clock.monotonic_ms()
            loads = (load.oldest_due_ms for load in elsewhere)
            known = [due_ms for due_ms in (oldest_held_ms(scheduler), *loads) if due_ms]
            waits = () if self.book is None else find_waits(self.book.lately(), clock.now_ms())
            self._held = min(known, default=0), waits
        return self._held

    def nodes(self) -> list[NodeView]:
        """This node, then the others by name."""
        own, ownership = self.vitals(), self._ownership()
        this = NodeView(
            name=self._name,
            incarnation="",
            standing=Standing.ALIVE.value,
            silent_ms=0,
            version=self._version,
            roles=self._roles,
            unfit="",
            draining=False,
            clock_difference_ms=0,
            is_this=True,
            is_leader=self._is_leader(),
            vitals=own,
        )
        if ownership is None:
            return [this]
        note = ownership.note
        this = msgspec.structs.replace(
            this,
            incarnation=ownership.incarnation,
            unfit=note.unfit,
            draining=note.draining,
            clock_difference_ms=note.clock_difference_ms,
        )
        others = [
            NodeView(
                name=member.note.name or member.incarnation,
                incarnation=member.incarnation,
                standing=member.standing.value,
                silent_ms=member.silent_ms,
                version=member.note.version,
                roles=member.note.roles,
                unfit=member.note.unfit,
                draining=member.note.draining,
                clock_difference_ms=member.note.clock_difference_ms,
                is_this=False,
                is_leader=member.note.leads and member.standing is not Standing.SILENT,
                vitals=member.note.vitals,
            )
            for member in ownership.members()
        ]
        return [this, *sorted(others, key=lambda node: (node.name, node.incarnation))]

    def all(self) -> Vitals:
        """Of all nodes that are alive, together."""
        return sum_vitals(node.vitals for node in self.nodes() if node.standing == Standing.ALIVE.value)
