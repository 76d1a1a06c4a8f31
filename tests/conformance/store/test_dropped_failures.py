"""Runs that opt out of the dead-letter queue: they end, and nothing of them waits for anybody."""

import pytest

from tickwheel.domain.outcome import OutcomeClass
from tickwheel.domain.run import RunState
from tickwheel.ports.store import AttemptNote

from .arena import Arena
from .owner import REAPED, Owner


@pytest.mark.pitfall(67)
@pytest.mark.parametrize("lost", [False, True])
async def test_a_run_that_opts_out_of_the_dead_letter_queue_is_in_the_history_only(
    arena: Arena, owner: Owner, lost: bool
) -> None:
    new = arena.one_off()
    await arena.insert(new)
    held = await owner.win(new)
    arena.clock.step_ms(60_000)
    note = AttemptNote(error="poison", excerpt=None, buries=False)
    fields = REAPED if lost else {"outcome": OutcomeClass.PERMANENT}
    assert (await owner.complete(held, RunState.FAILED, note, **fields)).applied
    run = await arena.run(new)
    assert (run.state, run.error) == (RunState.FAILED, "poison")
    assert [attempt.error for attempt in run.attempts] == ["poison"]
    assert not (await arena.store.list_dead("default", 10, None)).items
    assert (await arena.store.counts()).dead_letters == 0
