"""The load that comes, where not everything that is stored can be read."""

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from tickwheel.ports.store import WorkDefinition
from tickwheel.services.live.forecasting import Forecasting

from .world import World


async def test_a_job_that_cannot_be_read_keeps_no_other_from_being_forecast(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World()
    scheduler = await world.start()
    first_ms = world.next_minute_ms()
    good, odd = (world.job(cron="* * * * *", first_ms=first_ms) for _ in range(2))
    [_, damaged] = await world.add(scheduler, good, odd)
    load_work = world.store.load_work

    async def damaging(job_ids: Sequence[bytes]) -> Sequence[WorkDefinition | None]:
        works = await load_work(job_ids)
        return [
            replace(work, spec=b"{") if work is not None and job_id == damaged else work
            for job_id, work in zip(job_ids, works, strict=True)
        ]

    monkeypatch.setattr(world.store, "load_work", damaging)
    forecast = await Forecasting(world.store, world.clock).look()
    await world.crash(scheduler)
    assert forecast.counts.sum(axis=0)[:4].tolist() == [0, 1, 1, 1]
