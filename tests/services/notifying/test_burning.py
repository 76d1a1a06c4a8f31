"""A budget that begins to burn is noted once, and again only when it burns faster."""

import numpy as np

from tickwheel.adapters.memory.store import MemoryStore
from tickwheel.domain.job import Lane
from tickwheel.domain.notifications.kinds import Kind
from tickwheel.domain.notifications.rule import NotificationRule
from tickwheel.domain.slo import parse_objectives
from tickwheel.ports.events import AttemptsStarted
from tickwheel.ports.registry import NO_TENANT
from tickwheel.services.notifying.burning import BurnWatch
from tickwheel.services.notifying.rules import NotificationRules
from tickwheel.services.punctuality import Punctuality
from tickwheel.testing.virtual_clock import VirtualClock

from .stage import ACT, HERE, FakeCourier

HOUR_MS = 3_600_000


class Of:
    tenant_id = "acme"


class Scene:
    """A node with objectives, and a rule that listens."""

    def __init__(self, *objectives: str) -> None:
        self.clock = VirtualClock()
        self.store = MemoryStore(self.clock)
        self.punctuality = Punctuality(parse_objectives(objectives), self.clock, "node-1")
        self.clock.step_ms(72 * HOUR_MS)  # all windows are watched from end to end
        self.watch = BurnWatch(self.punctuality, self.store, self.clock)

    async def open(self) -> "Scene":
        rules = NotificationRules(self.store, FakeCourier(self.clock.now_ms), self.clock)
        await rules.put(NO_TENANT, "ops", NotificationRule(events=(Kind.BURNING,), webhook=HERE), ACT)
        return self

    def starts(self, count: int, late: int) -> None:
        lateness = np.zeros(count, dtype=np.int64)
        lateness[:late] = 60_000
        lane = np.full(count, Lane.HIGH, dtype=np.int64)
        self.punctuality.emit(AttemptsStarted(lateness_ms=lateness, lane=lane, works=[Of()] * count))

    async def noted(self) -> list[tuple[str, str, str]]:
        await self.watch.look()
        return [(n.tenant_id, n.subject, n.detail.split(":")[0]) for n in await self.store.notices(100)]


async def test_a_budget_that_burns_is_noted_once() -> None:
    scene = await Scene("HIGH=99.9%@1s", "LOW=99.9%@1s").open()
    scene.starts(1_000, 0)
    assert await scene.noted() == []
    scene.starts(1_000, 100)
    assert await scene.noted() == [("", "HIGH", "fast")]
    assert await scene.noted() == [("", "HIGH", "fast")]


async def test_it_is_noted_again_when_it_burns_faster_or_anew() -> None:
    scene = await Scene("HIGH=99%@1s").open()
    scene.clock.step_ms(48 * HOUR_MS)
    scene.starts(10_000, 700)
    scene.clock.step_ms(2 * HOUR_MS)
    scene.starts(1_000, 100)
    first = await scene.noted()
    assert [how for _, _, how in first] == ["medium"]
    scene.starts(1_000, 900)
    assert [how for _, _, how in await scene.noted()] == ["medium", "fast"]
    scene.clock.step_ms(31 * 24 * HOUR_MS)
    assert len(await scene.noted()) == 2
    scene.starts(10, 10)
    assert len(await scene.noted()) == 3


async def test_an_objective_of_a_tenant_is_noted_as_the_tenants() -> None:
    scene = await Scene("tenant:acme=99.9%@1s").open()
    scene.starts(10, 10)
    assert await scene.noted() == [("acme", "tenant:acme", "fast")]


async def test_what_is_noted_says_how_fast_and_where() -> None:
    scene = await Scene("HIGH=99%@1s").open()
    scene.starts(100, 50)
    await scene.watch.look()
    [notice] = await scene.store.notices(1)
    assert notice.detail == (
        "fast: 50.0 times too fast in 1h and 50.0 times in 5m, 50 late starts, "
        "as node node-1 counts; nothing of the budget is left"
    )


async def test_without_a_rule_nothing_is_kept() -> None:
    scene = Scene("HIGH=99%@1s")
    scene.starts(100, 50)
    assert await scene.noted() == []
