"""The desk that serves workers over HTTP, on a node that fires timers or on one that does not."""

from tickwheel.adapters.system import SystemRandomness
from tickwheel.adapters.webhook.settings import PolicyOf
from tickwheel.config import Settings
from tickwheel.domain.columns import Rows
from tickwheel.ports.clock import Clock
from tickwheel.ports.events import EventSink
from tickwheel.ports.queue import Queue
from tickwheel.ports.store import Store
from tickwheel.services.remote.desk import WorkerDesk
from tickwheel.services.scheduler import Scheduler
from tickwheel.wiring.executors import policy_guard
from tickwheel.wiring.nobody import Nobody


def build_desk(
    settings: Settings,
    store: Store,
    queue: Queue,
    clock: Clock,
    events: EventSink,
    scheduler: Scheduler | None,
    policy_of: PolicyOf,
) -> WorkerDesk:
    """It hands out no run whose target the policy of its tenant refuses."""
    desk = WorkerDesk(
        store=store,
        queue=queue,
        clock=clock,
        randomness=SystemRandomness(),
        events=events,
        arm=(scheduler or Nobody()).arm,
        lease_length_ms=settings.lease_seconds * 1000,
        on_dead=_nothing if scheduler is None else scheduler.elsewhere.on_dead,
        on_committed=_ignore if scheduler is None else scheduler.limits.committed,
    )
    desk.refuse_by(policy_guard(settings, policy_of))
    return desk


def _nothing() -> None:
    """Whoever fires looks after the runs of a worker that died."""


def _ignore(ends: Rows) -> None:
    """Whoever fires hears of ends elsewhere when it tries again."""
