"""A retry whose time is past when it is written: it is due at once, and the row names the timer that it has."""

from typing import cast

from tickwheel.domain.run import RunState
from tickwheel.ports.audit import Audited

from .arena import Arena
from .owner import Owner


async def test_a_retry_that_is_due_before_it_is_written_is_accounted_for(arena: Arena, owner: Owner) -> None:
    new = arena.one_off()
    await arena.insert(new)
    held = await owner.win(new)
    assert (await owner.complete(held, RunState.SCHEDULED, retry_ms=arena.now_ms - 50)).applied
    audited = await cast(Audited, arena.store).audit_jobs("", 100, arena.now_ms)
    assert not audited.unaccounted
