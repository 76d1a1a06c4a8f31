"""An owner's watch over sessions: who is proved dead, who is silent, and who only has another name."""

from collections.abc import Callable, Mapping

import pytest

from tickwheel.adapters.memory import MemoryStore
from tickwheel.ports.events import WorkerLost
from tickwheel.ports.queue import handler_route
from tickwheel.ports.workers import SESSION_MS, WorkerNote
from tickwheel.services.remote.routes import KEPT_MS, Routes
from tickwheel.services.remote.watch import PROOF_MS, READ_MS, WorkerWatch
from tickwheel.testing.virtual_clock import VirtualClock

from ..world import Events

NOTE = WorkerNote(name="w", handlers=("far",), slots=4, address="somewhere")


class FakePeers:
    """Links of which the test says which have ended."""

    def __init__(self) -> None:
        self.gone: set[str] = set()
        self.watched: Mapping[str, str] = {}

    async def open(self, process: str, on_nudge: Callable[[], None]) -> str:
        return ""

    def watch(self, addresses: Mapping[str, str]) -> None:
        self.watched = addresses

    def is_gone(self, process: str) -> bool:
        return process in self.gone and process in self.watched

    def nudge(self) -> None:
        return

    async def aclose(self) -> None:
        return


class Bench:
    """A watch over sessions in memory."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.store, self.peers, self.events = MemoryStore(self.clock), FakePeers(), Events()
        self.routes = Routes(self.clock)
        self.fresh: list[str] = []
        self.deaths = 0
        self.watch = WorkerWatch(
            store=self.store,
            routes=self.routes,
            peers=self.peers,
            clock=self.clock,
            events=self.events,
            on_routes=lambda fresh, gone: self.fresh.extend(fresh),
            on_dead=self._count_death,
        )

    def _count_death(self) -> None:
        self.deaths += 1

    async def pass_ms(self, length_ms: int, *, step_ms: int = PROOF_MS, renewing: str = "") -> None:
        for _ in range(length_ms // step_ms):
            self.clock.step_ms(step_ms)
            if renewing:
                await self.store.renew_worker(renewing, NOTE)
            await self.watch.look()

    async def alive(self) -> list[str]:
        return [state.incarnation for state in await self.store.workers()]


async def test_a_process_that_is_gone_is_ended_at_once() -> None:
    bench = Bench()
    await bench.store.enlist_worker("a.1", NOTE)
    await bench.watch.look()
    assert bench.watch.has_read
    assert bench.fresh == [handler_route("far")]
    bench.peers.gone.add("a")
    await bench.pass_ms(PROOF_MS)
    assert await bench.alive() == []
    assert bench.deaths == 1
    assert [(lost.worker, lost.proved) for lost in bench.events.of(WorkerLost)] == [("a.1", True)]
    assert bench.routes.slots(handler_route("far")) == 0


async def test_a_process_that_goes_on_under_another_name_is_the_same_process() -> None:
    """Its listener says the name of the process, whatever its latest session is called."""
    bench = Bench()
    await bench.store.enlist_worker("a.2", NOTE)
    await bench.watch.look()
    assert bench.peers.watched == {"a": "somewhere"}
    await bench.pass_ms(3 * READ_MS, renewing="a.2")
    assert await bench.alive() == ["a.2"]


async def test_silence_ends_a_session_and_renewals_keep_it() -> None:
    bench = Bench()
    await bench.store.enlist_worker("a.1", NOTE)
    await bench.store.enlist_worker("b.1", NOTE)
    await bench.watch.look()
    await bench.pass_ms(SESSION_MS - READ_MS, renewing="b.1")
    assert await bench.alive() == ["a.1", "b.1"]
    await bench.pass_ms(3 * READ_MS, renewing="b.1")
    assert await bench.alive() == ["b.1"]
    assert [lost.proved for lost in bench.events.of(WorkerLost)] == [False]


@pytest.mark.parametrize("gap_ms", [4_000, SESSION_MS, 10 * SESSION_MS])
async def test_a_time_in_which_nothing_could_be_read_proves_nothing(gap_ms: int) -> None:
    bench = Bench()
    await bench.store.enlist_worker("a.1", NOTE)
    await bench.pass_ms(SESSION_MS - 2_000)
    bench.clock.step_ms(gap_ms)
    await bench.pass_ms(SESSION_MS - READ_MS)
    assert await bench.alive() == ["a.1"]
    await bench.pass_ms(3 * READ_MS)
    assert await bench.alive() == []


async def test_a_renewal_after_the_reading_saves_the_session() -> None:
    bench = Bench()
    await bench.store.enlist_worker("a.1", NOTE)
    await bench.watch.look()
    [state] = await bench.store.workers()
    bench.clock.step_ms(SESSION_MS)
    await bench.store.renew_worker("a.1", NOTE)
    assert not await bench.store.end_worker("a.1", unseen_since_ms=state.seen_ms)
    assert await bench.alive() == ["a.1"]


async def test_workers_that_drain_or_stall_count_for_no_slots() -> None:
    bench = Bench()
    for name, note in (
        ("a.1", NOTE),
        ("b.1", WorkerNote(handlers=("far",), slots=4, draining=True)),
        ("c.1", WorkerNote(handlers=("far",), slots=4, stalled=True)),
    ):
        await bench.store.enlist_worker(name, note)
    await bench.watch.look()
    assert bench.routes.slots(handler_route("far")) == 4
    assert bench.routes.cover([handler_route("far")])
    assert not bench.routes.cover([handler_route("far"), handler_route("other")])


async def test_a_route_is_known_for_a_while_after_its_last_worker() -> None:
    bench = Bench()
    await bench.store.enlist_worker("a.1", NOTE)
    await bench.watch.look()
    await bench.store.end_worker("a.1")
    await bench.pass_ms(KEPT_MS - READ_MS, step_ms=READ_MS)
    assert bench.routes.known(handler_route("far"))
    await bench.pass_ms(2 * READ_MS, step_ms=READ_MS)
    assert not bench.routes.known(handler_route("far"))
