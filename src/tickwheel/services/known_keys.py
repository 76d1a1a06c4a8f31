"""Answers a request under an idempotency key that was seen before without trying to insert it.

A client that never got its answer sends the request again, and so may a thousand clients after an outage. An
insert finds each key taken, but only after it has tried to write and waited for its turn. A cache tells which keys
are likely to be taken; those are looked up **in the store**, and what is found there is the answer, a replay or a
conflict, as the insert would give it. What the store doesn't have goes the normal way, whatever the cache says,
and so does everything while the cache is away: it decides which way is tried first, and nothing else.
"""

from collections.abc import Sequence
from typing import Final

from tickwheel.ports.clock import Clock
from tickwheel.ports.keys import Key, KeyCache, KeyedStore, KeyHolder
from tickwheel.ports.registry import Act
from tickwheel.ports.store import Inserted, InsertStatus, NewJob

AWAY_MS: Final = 5_000
"""After a failure the cache is left alone for so long."""


class KnownKeys:
    """`insert_jobs` of a store, with a cache in front."""

    def __init__(self, store: KeyedStore, cache: KeyCache, clock: Clock) -> None:
        self._store, self._cache, self._clock = store, cache, clock
        self._away_until_ms = 0
        self.saved_count = 0
        """Requests that were answered without an insert."""

    async def insert_jobs(self, jobs: Sequence[NewJob], act: Act | None = None) -> Sequence[Inserted]:
        """As `ports.store.JobStore.insert_jobs`."""
        keys = [_key(new) for new in jobs]
        if not any(keys):
            return await self._store.insert_jobs(jobs, act)
        answers = await self._look_up(jobs, keys)
        left = [number for number, answer in enumerate(answers) if answer is None]
        if left:
            inserted = await self._store.insert_jobs([jobs[number] for number in left], act)
            for number, answer in zip(left, inserted, strict=True):
                answers[number] = answer
            await self._note([key for number in left if (key := keys[number]) is not None])
        return [answer for answer in answers if answer is not None]

    async def aclose(self) -> None:
        """Let go of the cache."""
        await self._cache.aclose()

    async def _look_up(self, jobs: Sequence[NewJob], keys: Sequence[Key | None]) -> list[Inserted | None]:
        answers: list[Inserted | None] = [None] * len(jobs)
        likely = await self._likely(keys)
        if likely:
            found = await self._store.find_keys([key for _, key in likely])
            for (number, _), holder in zip(likely, found, strict=True):
                answers[number] = None if holder is None else _answer(jobs[number], holder)
            self.saved_count += sum(holder is not None for holder in found)
        return answers

    async def _likely(self, keys: Sequence[Key | None]) -> list[tuple[int, Key]]:
        if self._clock.monotonic_ms() < self._away_until_ms:
            return []
        asked = [(number, key) for number, key in enumerate(keys) if key is not None]
        try:
            seen = await self._cache.seen([key for _, key in asked])
        except ConnectionError:
            self._away_until_ms = self._clock.monotonic_ms() + AWAY_MS
            return []
        return [one for one, was_seen in zip(asked, seen, strict=True) if was_seen]

    async def _note(self, keys: Sequence[Key]) -> None:
        if not keys or self._clock.monotonic_ms() < self._away_until_ms:
            return
        try:
            await self._cache.note(keys)
        except ConnectionError:
            self._away_until_ms = self._clock.monotonic_ms() + AWAY_MS


def _key(new: NewJob) -> Key | None:
    key = new.job.idempotency_key
    return None if key is None else (new.job.tenant_id, key)


def _answer(new: NewJob, holder: KeyHolder) -> Inserted:
    if holder.request_hash != new.request_hash:
        return Inserted(InsertStatus.KEY_CONFLICT, holder.job_id)
    return Inserted(InsertStatus.REPLAYED, holder.job_id, holder.next_ms, holder.created_ms)
