"""A firing side without its limits, for measuring what comes before it."""

import os
from collections.abc import Callable

from tickwheel.adapters.system import SystemRandomness
from tickwheel.adapters.telemetry.fanout import Fanout
from tickwheel.ports.clock import Clock
from tickwheel.ports.executor import Executor, Report
from tickwheel.ports.store import Store
from tickwheel.services.ownership.holdings import Holdings
from tickwheel.services.scheduler import Scheduler, SchedulerSettings


async def start_with_unlimited_credits(
    store: Store, clock: Clock, build_executor: Callable[[Report], Executor], *, slots: int
) -> Scheduler:
    """A firing side whose executor takes all, for measuring what comes before it. Starts at once."""
    worker = f"bench-{os.getpid()}"
    scheduler = Scheduler(
        store=store,
        clock=clock,
        randomness=SystemRandomness(),
        events=Fanout([]),
        build_webhooks=build_executor,
        build_handlers=build_executor,
        serves=lambda target: True,
        holdings=Holdings(await store.acquire(worker)),
        worker=worker,
        settings=SchedulerSettings(webhook_slots=slots, webhook_host_limit=slots, handler_slots=1),
    )
    scheduler.start()
    return scheduler
