"""What every buffer does: gives back exactly what was put, by bucket, in the order in which it was put."""

import numpy as np

from tickwheel.domain.columns import TIMER, Rows
from tickwheel.domain.ids import SHARD_COUNT, make_job_id
from tickwheel.domain.minutes import MINUTE_MS, SUB_COUNT, Bucket, by_bucket
from tickwheel.ports.buffer import PACK_COUNT, Buffer, Pack

MINUTE = 29_833_333


def timers(count: int, *, seed: int = 1, minute: int = MINUTE, minutes: int = 1) -> Rows:
    """Of all shards, with every byte of a row in use."""
    drawn = np.random.default_rng(seed)
    rows = np.zeros(count, dtype=TIMER)
    rows["due_ms"] = minute * MINUTE_MS + drawn.integers(0, minutes * MINUTE_MS, count)
    rows["scheduled_ms"], rows["gen"] = rows["due_ms"] - 7, drawn.integers(-(2**31), 2**31, count)
    rows["flags"] = drawn.integers(0, 256, count)
    for number in range(count):
        shard, random48 = int(drawn.integers(0, SHARD_COUNT)), drawn.bytes(6)
        made = make_job_id(created_ms=1, shard=shard, due_ms=None, random48=random48)
        rows["job_id"][number] = np.void(made)
    return rows


async def put(buffer: Buffer, rows: Rows, at: dict[Bucket, int]) -> None:
    packs = []
    for bucket, part in by_bucket(rows):
        for start in range(0, len(part), PACK_COUNT):
            packs.append(Pack(bucket, at.get(bucket, 0), part[start : start + PACK_COUNT]))
            at[bucket] = at.get(bucket, 0) + len(packs[-1].rows)
    await buffer.add(packs)


async def test_what_was_put_comes_back_in_order(buffer: Buffer) -> None:
    rows, at = timers(3_000, minutes=3), dict[Bucket, int]()
    await put(buffer, rows[:2_000], at)
    await put(buffer, rows[2_000:], at)
    assert len(at) == 3 * SUB_COUNT
    for bucket in at:
        parts = [part for half in (rows[:2_000], rows[2_000:]) for b, part in by_bucket(half) if b == bucket]
        assert (await buffer.read(bucket)).tobytes() == b"".join(part.tobytes() for part in parts)


async def test_a_bucket_of_many_packs_comes_back_whole(buffer: Buffer) -> None:
    """Single timers, so that it has more entries than are read at a time."""
    rows = timers(600)
    rows["job_id"] = rows["job_id"][0]
    [(bucket, part)] = by_bucket(rows)
    await buffer.add([Pack(bucket, at, part[at : at + 1]) for at in range(len(part))])
    assert (await buffer.read(bucket)).tobytes() == part.tobytes()
    await buffer.add([Pack(bucket, at, part[:1]) for at in range(600, 768)])
    assert len(await buffer.read(bucket)) == 768  # a whole number of pieces


async def test_equal_timers_are_kept_each(buffer: Buffer) -> None:
    one, at = timers(1), dict[Bucket, int]()
    await put(buffer, one, at)
    await put(buffer, one, at)
    [bucket] = at
    assert (await buffer.read(bucket)).tolist() == [*one.tolist(), *one.tolist()]


async def test_a_bucket_that_is_not_there_is_empty(buffer: Buffer) -> None:
    rows = await buffer.read(Bucket(MINUTE, 3))
    assert (len(rows), rows.dtype) == (0, TIMER)


async def test_dropped_buckets_are_gone_and_the_others_are_not(buffer: Buffer) -> None:
    rows, at = timers(500), dict[Bucket, int]()
    await put(buffer, rows, at)
    gone, *kept = at
    await buffer.drop([gone, Bucket(1, 1)])
    assert not len(await buffer.read(gone))
    assert [len(await buffer.read(bucket)) for bucket in kept] == [at[bucket] for bucket in kept]


async def test_adding_and_dropping_nothing_is_fine(buffer: Buffer) -> None:
    await buffer.add([])
    await buffer.drop([])


async def test_a_repeated_add_changes_nothing(buffer: Buffer) -> None:
    """Its answer was lost, and somebody below sent it again."""
    rows, at = timers(100), dict[Bucket, int]()
    await put(buffer, rows, at)
    await put(buffer, rows, {})
    assert sum([len(await buffer.read(bucket)) for bucket in at]) == 100
