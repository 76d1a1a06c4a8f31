"""Entries of the audit log go when they are old enough, by one node, in small pieces."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from tickwheel.adapters.memory.store import MemoryStore
from tickwheel.domain.ids import DAY_MS
from tickwheel.ports.registry import AuditEntry, AuditLogQuery
from tickwheel.services.audit_log_retention import BREATH_MS, FIRST_MS, PIECE_COUNT, REST_MS, AuditLogRetention
from tickwheel.testing.virtual_clock import VirtualClock

KEEP_MS = 90 * DAY_MS


class CountingStore(MemoryStore):
    """Notes when how many entries were deleted."""

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__(clock)
        self._clock_ms, self.pieces = clock.now_ms, list[tuple[int, int]]()

    async def trim_audit_log(self, before_ms: int, limit: int) -> int:
        count = await super().trim_audit_log(before_ms, limit)
        self.pieces.append((self._clock_ms(), count))
        return count


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def store(clock: VirtualClock) -> CountingStore:
    return CountingStore(clock)


async def note(store: MemoryStore, age_ms: int, now_ms: int, count: int = 1) -> None:
    entry = AuditEntry(0, now_ms - age_ms, "a", "key:x", "", "job.pause", f"{age_ms}")
    await store.append_entries([entry] * count)


async def ages(store: MemoryStore) -> list[int]:
    page = await store.audit_log(AuditLogQuery(None, 10))
    return [int(entry.subject) for entry in page.items]


@asynccontextmanager
async def running(
    store: MemoryStore,
    clock: VirtualClock,
    *,
    keep_ms: int = KEEP_MS,
    is_leader: Callable[[], bool] = lambda: True,
) -> AsyncIterator[None]:
    retention = AuditLogRetention(registry=store, clock=clock, keep_ms=keep_ms, is_leader=is_leader)
    loop = asyncio.create_task(retention.run())
    yield
    loop.cancel()
    await asyncio.gather(loop, return_exceptions=True)


async def test_what_is_older_than_the_setting_goes(store: CountingStore, clock: VirtualClock) -> None:
    for age_ms in (KEEP_MS + 1, KEEP_MS - FIRST_MS - 1, KEEP_MS - FIRST_MS - REST_MS - 1):
        await note(store, age_ms, clock.now_ms())
    async with running(store, clock):
        await clock.advance(FIRST_MS)
        assert await ages(store) == [KEEP_MS - FIRST_MS - REST_MS - 1, KEEP_MS - FIRST_MS - 1]
        await clock.advance(REST_MS)
        assert await ages(store) == [KEEP_MS - FIRST_MS - REST_MS - 1]
        await clock.advance(REST_MS)
        assert await ages(store) == []


async def test_much_goes_in_pieces_with_a_breath_between(store: CountingStore, clock: VirtualClock) -> None:
    await note(store, KEEP_MS + DAY_MS, clock.now_ms(), 2 * PIECE_COUNT + 7)
    first_ms = clock.now_ms() + FIRST_MS
    async with running(store, clock):
        await clock.advance(FIRST_MS + REST_MS // 2)
    assert store.pieces == [(first_ms + n * BREATH_MS, count) for n, count in enumerate((500, 500, 7))]


async def test_nothing_goes_when_it_is_kept_for_ever(store: CountingStore, clock: VirtualClock) -> None:
    await note(store, 50 * 365 * DAY_MS, clock.now_ms())
    async with running(store, clock, keep_ms=0):
        await clock.advance(FIRST_MS + REST_MS)
    assert store.pieces == []


@pytest.mark.parametrize("begins", [False, True])
async def test_only_the_node_that_leads_does_it(store: CountingStore, clock: VirtualClock, begins: bool) -> None:
    leads = begins
    is_leader: Callable[[], bool] = lambda: leads  # noqa: E731 - it changes below
    await note(store, KEEP_MS + DAY_MS, clock.now_ms(), 3 * PIECE_COUNT)
    async with running(store, clock, is_leader=is_leader):
        await clock.advance(FIRST_MS + BREATH_MS // 2)
        assert len(store.pieces) == begins
        leads = not begins
        await clock.advance(REST_MS + BREATH_MS)
        assert bool(len(store.pieces) - begins) is leads
