"""Who owns a shard: epochs, deposing, releasing."""

from typing import Any

from tickwheel.domain.columns import ClaimVerdict, CompletionCause
from tickwheel.domain.outcome import OutcomeClass
from tickwheel.domain.run import RunState

from .processes import Processes


async def test_a_free_shard_is_taken_once(processes: Processes) -> None:
    """The compare-and-set on the epoch: of two that saw the same epoch, one owns."""
    first, second = await processes.start("a"), await processes.start("b")
    [state] = [s for s in await first.store.list_shards() if s.shard == 3]
    assert state.owner is None
    [taken] = await first.take(3, epoch=state.epoch)
    assert (taken.shard, taken.epoch, taken.pair) == (3, state.epoch + 1, None)
    assert await second.take(3, epoch=state.epoch) == []
    assert await second.take(3) == []  # the epoch of now, but its owner is not deposed
    assert await second.owner_of(3) == "a"


async def test_each_taking_raises_the_epoch_also_by_the_owner(processes: Processes) -> None:
    """D3: every acquisition raises the epoch, also by the same node, so that no token is given twice."""
    process = await processes.start("a")
    [first] = await process.take(3)
    [again] = await process.take(3)
    assert again.epoch == first.epoch + 1


async def test_only_the_shards_seen_right_are_taken(processes: Processes) -> None:
    first, second = await processes.start("a"), await processes.start("b")
    await first.take(4)
    states = await second.store.list_shards()
    taken = await second.store.take("b", {3: states[3].epoch, 4: states[4].epoch, 5: states[5].epoch + 1})
    assert [one.shard for one in taken] == [3]


async def test_a_released_shard_is_free(processes: Processes) -> None:
    first, second = await processes.start("a"), await processes.start("b")
    await first.take(3)
    await first.release(3)
    assert await second.owner_of(3) is None
    [taken] = await second.take(3)
    await first.release(3)  # the same again, late: it is not its own any more
    assert await second.owner_of(3) == "b"
    await second.store.release("b", {3: taken.epoch - 1})
    assert await second.owner_of(3) == "b"


async def test_a_deposed_owner_loses_its_shards_and_takes_none(processes: Processes) -> None:
    first, second = await processes.start("a"), await processes.start("b")
    await first.take(3)
    await second.store.depose("a", proved_dead=False)
    assert list(await second.store.deposed(["a", "b", "nobody"])) == ["a", "nobody"]
    assert await first.take(4) == []
    [taken] = await second.take(3)
    assert await second.owner_of(3) == "b"
    assert taken.epoch == 2


async def test_deposing_unknown_names_is_ignored(processes: Processes) -> None:
    process = await processes.start("a")
    await process.store.depose("nobody", proved_dead=True)
    assert [one.shard for one in await process.take(3)] == [3]


async def test_a_deposed_process_enlists_again_under_a_new_name(processes: Processes) -> None:
    process, other = await processes.start("a"), await processes.start("b")
    await process.take(3)
    await other.store.depose("a", proved_dead=False)
    process.worker = "a-again"
    await process.store.enlist("a-again")
    new = processes.jobs.one_off(shard=3)
    await processes.jobs.insert(new)
    assert (await process.claim(new)).verdict is ClaimVerdict.DEPOSED
    await process.take(3)
    held = await process.win(new)
    assert (await processes.jobs.run(new)).worker == "a-again"
    assert (await process.complete(held, RunState.SUCCEEDED)).applied


async def test_a_deposed_process_claims_nothing(processes: Processes) -> None:
    """D1, C5: before anybody has taken its shards, and though its epoch is the one of now."""
    first, second = await processes.start("a"), await processes.start("b")
    new = processes.jobs.one_off(shard=3)
    await processes.jobs.insert(new)
    await first.take(3)
    await second.store.depose("a", proved_dead=False)
    assert (await first.claim(new)).verdict is ClaimVerdict.DEPOSED
    assert (await second.claim(new)).verdict is ClaimVerdict.DEPOSED  # not taken yet
    await second.take(3)
    assert (await second.claim(new)).won


async def test_a_token_of_an_earlier_epoch_claims_nothing(processes: Processes) -> None:
    """D1: the epoch is checked by the claim itself."""
    process = await processes.start("a")
    new = processes.jobs.one_off(shard=3)
    await processes.jobs.insert(new)
    await process.take(3)
    old = process.token(new.job.job_id)
    await process.take(3)
    assert (await process.claim(new, fence=old)).verdict is ClaimVerdict.DEPOSED
    assert (await process.claim(new)).won


async def test_an_epoch_is_nothing_without_the_owner(processes: Processes) -> None:
    """D1: a second incarnation that reads the epoch of the first one is not its owner."""
    first, second = await processes.start("a"), await processes.start("a-2")
    new = processes.jobs.one_off(shard=3)
    await processes.jobs.insert(new)
    await first.take(3)
    second.epochs = list(first.epochs)
    assert (await second.claim(new)).verdict is ClaimVerdict.DEPOSED
    assert (await first.claim(new)).won


async def test_one_batch_may_hold_own_and_lost_shards(processes: Processes) -> None:
    first, second = await processes.start("a"), await processes.start("b")
    kept, lost = processes.jobs.one_off(shard=3), processes.jobs.one_off(shard=4)
    await processes.jobs.insert(kept, lost)
    await first.take(3, 4)
    await first.release(4)
    await second.take(4)
    answers = await first.claim_rows(first.claim_row(kept), first.claim_row(lost))
    assert [answer.verdict for answer in answers] == [ClaimVerdict.WON, ClaimVerdict.DEPOSED]


async def test_a_deposed_owners_attempt_still_completes(processes: Processes) -> None:
    """The token guards a completion, not ownership: what was started may end."""
    first, second = await processes.start("a"), await processes.start("b")
    new = processes.jobs.one_off(shard=3)
    await processes.jobs.insert(new)
    await first.take(3)
    held = await first.win(new)
    await second.store.depose("a", proved_dead=False)
    await second.take(3)
    assert (await first.complete(held, RunState.SUCCEEDED)).applied


async def test_a_run_in_flight_tells_whether_its_worker_is_dead(processes: Processes) -> None:
    """F5: proof of death is by incarnation; without it the lease has to run out."""
    first, second = await processes.start("a"), await processes.start("b")
    new = processes.jobs.one_off(shard=3)
    await processes.jobs.insert(new)
    await first.take(3)
    held = await first.win(new)
    await second.store.depose("a", proved_dead=False)
    await second.take(3)
    seen = await second.claim(new)
    assert (seen.verdict, seen.fence) == (ClaimVerdict.IN_FLIGHT, held.fence)
    assert seen.lease_ms == processes.jobs.now_ms + 30_000
    reap: dict[str, Any] = {
        "cause": CompletionCause.DEAD_OWNER,
        "outcome": OutcomeClass.LOST,
        "retry_ms": processes.jobs.now_ms,
    }
    assert not (await second.complete(held, RunState.SCHEDULED, **reap)).applied
    await second.store.depose("a", proved_dead=True)
    assert (await second.claim(new)).lease_ms == 0
    await second.store.depose("a", proved_dead=False)  # said once, it stays true
    assert (await second.complete(held, RunState.SCHEDULED, **reap)).applied
    assert not (await first.complete(held, RunState.SUCCEEDED)).applied
