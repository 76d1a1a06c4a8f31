"""What was noted was seen."""

from tickwheel.ports.keys import KeyCache


async def test_what_was_noted_was_seen_and_nothing_else(cache: KeyCache) -> None:
    keys = [("t", f"k{number}") for number in range(9)]
    assert list(await cache.seen(keys)) == [False] * 9
    await cache.note(keys[::2])
    assert list(await cache.seen(keys)) == [number % 2 == 0 for number in range(9)]


async def test_tenants_are_apart_whatever_their_keys_look_like(cache: KeyCache) -> None:
    await cache.note([("t", "u|k"), ("a", "{b}")])
    assert list(await cache.seen([("t|u", "k"), ("a", "b"), ("a", "{b}")])) == [False, False, True]


async def test_none_is_fine(cache: KeyCache) -> None:
    await cache.note([])
    assert list(await cache.seen([])) == []
