"""Who waits is woken by publications and by the end of the connection, and not by others who find no server."""

from contextlib import aclosing

from tickwheel.adapters.redis.address import read_address
from tickwheel.adapters.redis.wakes import Wakes

NOWHERE = read_address("redis://127.0.0.1:1", setting="queue")


async def test_who_finds_no_server_wakes_nobody() -> None:
    async with aclosing(Wakes(NOWHERE, lambda: NOWHERE.places[0])) as wakes:
        first = await wakes.listen([b"a"])
        second = await wakes.listen([b"a", b"b"])
        assert not first.is_set()
        assert not second.is_set()
