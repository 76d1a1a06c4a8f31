"""What is stored under idempotency keys can be looked up without an insert."""

from typing import cast

from msgspec.structs import replace

from tickwheel.ports.keys import KeyedStore, KeyHolder

from .arena import Arena


async def test_keys_are_found_in_the_order_asked_for(arena: Arena) -> None:
    store = cast("KeyedStore", arena.store)
    new = arena.one_off(arena.now_ms + 1_000, tenant_id="a", idempotency_key="k")
    new = replace(new, request_hash=b"\1" * 16)
    await arena.insert(new)
    holder = KeyHolder(new.job.job_id, b"\1" * 16, arena.now_ms + 1_000, new.job.created_ms)
    assert list(await store.find_keys([("b", "k"), ("a", "k"), ("a", "l"), ("a", "k")])) == [
        None,
        holder,
        None,
        holder,
    ]
    assert list(await store.find_keys([])) == []
