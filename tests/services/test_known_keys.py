"""A cache of idempotency keys that is right, wrong, stale or away: the store's answer is the answer."""

from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from tickwheel.adapters.memory.keys import MemoryKeys
from tickwheel.ports.keys import Key
from tickwheel.ports.registry import Act
from tickwheel.ports.store import Inserted, InsertStatus, NewJob
from tickwheel.services.known_keys import KnownKeys

from .world import World


class FaultyKeys(MemoryKeys):
    """Can be away, and can lie."""

    away = False
    says: bool | None = None
    asked = 0

    async def seen(self, keys: Sequence[Key]) -> Sequence[bool]:
        self.asked += 1
        if self.away:
            raise ConnectionError("away")
        return await super().seen(keys) if self.says is None else [self.says] * len(keys)

    async def note(self, keys: Sequence[Key]) -> None:
        if self.away:
            raise ConnectionError("away")
        await super().note(keys)


class Desk:
    """Counts inserts."""

    def __init__(self) -> None:
        self.world, self.cache = World(), FaultyKeys()
        self.keys = KnownKeys(self.world.memory, self.cache, self.world.clock)
        self.tried: list[NewJob] = []
        insert = self.world.memory.insert_jobs

        async def count(jobs: Sequence[NewJob], act: Act | None = None) -> Sequence[Inserted]:
            self.tried.extend(jobs)
            return await insert(jobs, act)

        self.world.memory.insert_jobs = count  # type: ignore[method-assign]

    def job(self, key: str | None, request: bytes = b"same", **kwargs: Any) -> NewJob:
        new = self.world.job(in_ms=1_000, **kwargs)
        return replace(new, job=replace(new.job, idempotency_key=key), request_hash=request)

    async def send(self, *jobs: NewJob) -> list[tuple[InsertStatus, bytes]]:
        return [(one.status, one.job_id) for one in await self.keys.insert_jobs(jobs)]


async def test_a_repeated_request_is_answered_by_the_store_without_an_insert() -> None:
    desk = Desk()
    first, again, other = desk.job("k"), desk.job("k"), desk.job("k", b"other")
    assert await desk.send(first) == [(InsertStatus.CREATED, first.job.job_id)]
    desk.tried.clear()
    plain = await desk.world.memory.insert_jobs([again])
    desk.tried.clear()
    assert list(await desk.keys.insert_jobs([again])) == list(plain), "the very same answer"
    assert await desk.send(other) == [(InsertStatus.KEY_CONFLICT, first.job.job_id)]
    assert not desk.tried
    assert desk.keys.saved_count == 2


@pytest.mark.parametrize("says", [True, False])
async def test_whatever_the_cache_says_the_outcome_is_the_same(says: bool) -> None:
    desk = Desk()
    desk.cache.says = says
    first, again = desk.job("k"), desk.job("k")
    assert await desk.send(first) == [(InsertStatus.CREATED, first.job.job_id)]
    assert await desk.send(again) == [(InsertStatus.REPLAYED, first.job.job_id)]
    fresh, plain = desk.job("l"), desk.job(None)
    assert await desk.send(fresh, again, plain) == [
        (InsertStatus.CREATED, fresh.job.job_id),
        (InsertStatus.REPLAYED, first.job.job_id),
        (InsertStatus.CREATED, plain.job.job_id),
    ]


async def test_a_key_that_the_store_has_forgotten_makes_a_new_job_though_the_cache_remembers_it() -> None:
    desk = Desk()
    first = desk.job("k")
    await desk.send(first)
    desk.world.memory._tables.keys.clear()
    new = desk.job("k")
    assert await desk.send(new) == [(InsertStatus.CREATED, new.job.job_id)]


async def test_a_cache_that_is_away_is_left_alone_for_a_while() -> None:
    desk = Desk()
    desk.cache.away = True
    for number in range(5):
        new = desk.job(f"k{number}")
        assert await desk.send(new) == [(InsertStatus.CREATED, new.job.job_id)]
    assert desk.cache.asked == 1
    desk.cache.away = False
    desk.world.clock.step_ms(6_000)
    again = desk.job("k0")
    [(status, _)] = await desk.send(again)
    assert (status, desk.cache.asked) == (InsertStatus.REPLAYED, 2)


async def test_requests_without_a_key_do_not_ask_the_cache() -> None:
    desk = Desk()
    await desk.send(desk.job(None), desk.job(None))
    assert desk.cache.asked == 0
