"""Keys that are looked up give the answers that inserts give."""

from msgspec.structs import replace

from tickwheel.adapters.memory.keys import MemoryKeys
from tickwheel.adapters.postgresql.store import PostgresqlStore
from tickwheel.ports.store import InsertStatus
from tickwheel.services.known_keys import KnownKeys

from ...conformance.store.arena import Arena


async def test_what_a_look_up_answers_is_what_an_insert_answers(arena: Arena) -> None:
    store, cache = arena.store, MemoryKeys()
    assert isinstance(store, PostgresqlStore)
    known = KnownKeys(store, cache, arena.clock)
    first = [arena.one_off(idempotency_key=f"k{number}", tenant_id="a") for number in range(5)]
    assert {one.status for one in await known.insert_jobs(first)} == {InsertStatus.CREATED}
    again = [arena.one_off(idempotency_key=f"k{number}", tenant_id="a") for number in range(5)]
    again[3] = replace(again[3], request_hash=b"other")
    looked_up = await known.insert_jobs(again)
    assert known.saved_count == 5
    assert list(looked_up) == list(await store.insert_jobs(again))
    assert [one.status for one in looked_up].count(InsertStatus.KEY_CONFLICT) == 1


async def test_keys_that_are_not_there_are_none_and_keep_their_places(arena: Arena) -> None:
    store = arena.store
    assert isinstance(store, PostgresqlStore)
    [new] = [arena.one_off(idempotency_key="k", tenant_id="a")]
    await store.insert_jobs([new])
    found = await store.find_keys([("b", "k"), ("a", "k"), ("a", "l"), ("a", "k")])
    assert [holder and holder.job_id for holder in found] == [None, new.job.job_id, None, new.job.job_id]
    assert await store.find_keys([]) == []
