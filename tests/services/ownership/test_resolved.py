"""Rules C: from where another owner would go on, and what counts as resolved."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from tickwheel.domain.columns import Bools, ClaimVerdict, Rows
from tickwheel.domain.errors import OutcomeUnknown, StoreUnavailable
from tickwheel.domain.outcome import OK
from tickwheel.domain.run import RunState
from tickwheel.ports.executor import Work
from tickwheel.ports.store import AttemptNote, Completed
from tickwheel.services.changes.end import cancel
from tickwheel.services.tokens import SEQUENCE_LIMIT

from .fleet import SETTINGS, Fleet, shard_of_job, with_fleet


async def _refuse(*args: object, **options: object) -> None:
    raise StoreUnavailable("down")


refuse: Any = _refuse
"""In the place of any verb."""


@with_fleet
async def test_with_nothing_left_the_pair_reaches_as_far_as_what_is_loaded(fleet: Fleet) -> None:
    [a] = await fleet.start("a")
    await a.take()
    await fleet.pass_ms(60_000)
    assert a.pair(7).ack_ms == a.groups[0].hi_ms == fleet.stored_ack_ms(7)


@with_fleet
async def test_a_waiting_timer_holds_the_pair(fleet: Fleet) -> None:
    [a] = await fleet.start("a")
    await a.take()
    new = fleet.job(in_ms=40_000)
    await fleet.insert(new)
    await fleet.pass_ms(30_000)
    assert fleet.stored_ack_ms(shard_of_job(new)) <= (new.job.scheduled_ms or 0)
    await fleet.pass_ms(60_000)
    assert fleet.stored_ack_ms(shard_of_job(new)) > (new.job.scheduled_ms or 0)


@with_fleet
async def test_the_pair_goes_back_for_a_timer_that_was_committed_late(fleet: Fleet) -> None:
    """C2: a pair that only rose would say that the late one is resolved, for its snapshot sees it."""
    a, b = await fleet.start("a", "b")
    await a.take()
    late, hanging = fleet.job(in_ms=100), fleet.begin_insert()
    due_ms, shard = late.job.scheduled_ms or 0, shard_of_job(late)
    a.store.claim = refuse  # type: ignore[method-assign]
    await fleet.pass_ms(20_000)
    before_ms = fleet.stored_ack_ms(shard)
    hanging.commit(late)
    await fleet.pass_ms(3_000)
    assert fleet.stored_ack_ms(shard) <= due_ms < before_ms
    await a.kill()
    await fleet.depose(a, proved_dead=True)
    await b.take()
    await fleet.pass_ms(1_000)
    assert [call.work.job_id for call in b.calls] == [late.job.job_id]


@with_fleet
async def test_the_stored_snapshot_is_that_of_a_poll_whose_rows_are_armed(fleet: Fleet) -> None:
    """C1: a snapshot taken while storing would hide what was committed since the last poll."""
    a, b = await fleet.start("a", "b")
    await a.take()
    await fleet.pass_ms(2_000)
    a.store.feed = refuse  # type: ignore[method-assign]
    new = fleet.job(in_ms=-1_000)  # due already: only the feed can bring it, for the pair is past it
    await fleet.insert(new)
    await fleet.pass_ms(3_000)
    await a.kill()
    await fleet.depose(a, proved_dead=True)
    assert fleet.stored_ack_ms(shard_of_job(new)) > (new.job.scheduled_ms or 0)
    await b.take()
    await fleet.pass_ms(1_000)
    assert [call.work.job_id for call in b.calls] == [new.job.job_id]


@pytest.mark.parametrize("proved_dead", [True, False])
async def test_owner_and_worker_that_die_before_the_first_renewal_lose_nothing(proved_dead: bool) -> None:
    """C4: there is no row in `leases` yet, so nothing but the timer leads to the run."""
    fleet = Fleet()
    a, b = await fleet.start("a", "b")
    await a.take()
    a.behave = lambda work: None
    a.store.renew = refuse  # type: ignore[method-assign]
    new = fleet.job(in_ms=1_000)
    await fleet.insert(new)
    await fleet.pass_ms(6_000)
    assert len(a.calls) == 1
    assert fleet.stored_ack_ms(shard_of_job(new)) <= (new.job.scheduled_ms or 0)
    await a.kill()
    await fleet.depose(a, proved_dead=proved_dead)
    await b.take()
    await fleet.pass_ms(2_000 if proved_dead else 27_000)
    assert [(call.work.job_id, call.work.attempt) for call in b.calls] == [(new.job.job_id, 2)]
    await fleet.end()


@with_fleet
async def test_a_renewed_attempt_holds_nothing_back_and_is_found_by_its_lease(fleet: Fleet) -> None:
    """C3: in flight *with* a row in `leases` is resolved: the next owner finds it when the lease is over."""
    a, b = await fleet.start("a", "b")
    await a.take()
    a.behave = lambda work: None
    new = fleet.job(in_ms=1_000)
    await fleet.insert(new)
    await fleet.pass_ms(30_000)
    assert fleet.stored_ack_ms(shard_of_job(new)) > (new.job.scheduled_ms or 0)
    await a.kill()
    await fleet.depose(a, proved_dead=True)
    await b.take()
    await fleet.pass_ms(2_000)
    assert [(call.work.job_id, call.work.attempt) for call in b.calls] == [(new.job.job_id, 2)]


@with_fleet
async def test_an_uncommitted_end_holds_the_pair(fleet: Fleet) -> None:
    [a] = await fleet.start("a")
    await a.take()
    complete = a.store.complete
    a.store.complete = refuse  # type: ignore[method-assign]
    new = fleet.job(in_ms=100)
    await fleet.insert(new)
    await fleet.pass_ms(5_000)
    assert len(a.calls) == 1
    assert fleet.stored_ack_ms(shard_of_job(new)) <= (new.job.scheduled_ms or 0)
    a.store.complete = complete  # type: ignore[method-assign]
    await fleet.pass_ms(5_000)
    assert fleet.stored_ack_ms(shard_of_job(new)) > (new.job.scheduled_ms or 0)


@with_fleet
async def test_an_end_that_cannot_be_written_holds_the_pair_until_the_run_is_reaped(fleet: Fleet) -> None:
    [a] = await fleet.start("a")
    await a.take()
    complete, poisoned = a.store.complete, fleet.job(in_ms=100)

    async def choke(batch: Rows, notes: Mapping[int, AttemptNote]) -> Completed:
        if any(row["outcome"] == 0 and row["attempt"] == 1 for row in batch):
            raise ValueError("cannot be written")
        return await complete(batch, notes)

    a.store.complete = choke  # type: ignore[method-assign]
    await fleet.insert(poisoned)
    await fleet.pass_ms(10_000)
    assert fleet.stored_ack_ms(shard_of_job(poisoned)) <= (poisoned.job.scheduled_ms or 0)
    await fleet.pass_ms(60_000)
    run = fleet.run_of(poisoned)
    assert run is not None
    assert (run.state, run.attempt) == (RunState.SUCCEEDED, 2)
    assert fleet.stored_ack_ms(shard_of_job(poisoned)) > (poisoned.job.scheduled_ms or 0)


@with_fleet
async def test_a_handler_that_nothing_here_runs_holds_the_pair_of_its_shard_only(fleet: Fleet) -> None:
    """Its timer is dropped from memory; the next owner, which may serve it, has to find it."""
    a, b = await fleet.start("a", "b")
    a.serves = lambda target: target.name != "elsewhere"
    await a.take()
    new = fleet.job(in_ms=100, handler="elsewhere", shard=9)
    await fleet.insert(new, fleet.job(in_ms=200, shard=9), fleet.job(in_ms=200, shard=10))
    await fleet.pass_ms(60_000)
    assert fleet.stored_ack_ms(9) <= (new.job.scheduled_ms or 0)
    assert fleet.stored_ack_ms(10) > fleet.clock.now_ms()
    await a.kill()
    await fleet.depose(a, proved_dead=True)
    await b.take()
    await fleet.pass_ms(1_000)
    assert [call.work.job_id for call in b.calls] == [new.job.job_id]


@with_fleet
async def test_a_floor_goes_once_a_pass_over_the_overdue_no_longer_finds_the_timer(fleet: Fleet) -> None:
    [a] = await fleet.start("a")
    a.serves = lambda target: False
    await a.take()
    new, other = fleet.job(in_ms=100, handler="h", shard=9), fleet.job(in_ms=100, handler="h", shard=10)
    await fleet.insert(new, other)
    await fleet.pass_ms(60_000)
    await fleet.api.change_job("default", new.job.job_id, cancel)
    await fleet.pass_ms(60_000)
    assert fleet.stored_ack_ms(9) > fleet.clock.now_ms()
    assert fleet.stored_ack_ms(10) <= (other.job.scheduled_ms or 0)


@with_fleet
async def test_a_deposed_owner_drops_the_shard_and_resolves_nothing(fleet: Fleet) -> None:
    """C5: what it had in memory is the new owner's; its claims and pairs are refused."""
    a, b = await fleet.start("a", "b")
    await a.take()
    jobs = [fleet.job(in_ms=3_000 + n, shard=n % 256) for n in range(60)]
    await fleet.insert(*jobs)
    a.store.store_pairs = refuse  # type: ignore[method-assign]
    await fleet.pass_ms(2_000)
    await fleet.depose(a, proved_dead=False)
    await b.take()
    await fleet.pass_ms(5_000)
    assert a.verdict_count(ClaimVerdict.DEPOSED) > 0
    assert set(a.told_lost) == {shard_of_job(new) for new in jobs}
    assert a.calls == []
    assert sorted(call.work.job_id for call in b.calls) == sorted(new.job.job_id for new in jobs)


@with_fleet
async def test_a_refused_pair_tells_that_the_shards_are_lost(fleet: Fleet) -> None:
    """C8: the pair is stored under the same check of the owner as a claim."""
    a, b = await fleet.start("a", "b")
    await a.take()
    await fleet.pass_ms(2_000)
    await fleet.depose(a, proved_dead=False)
    await b.take(range(100))
    await fleet.pass_ms(1_500)
    assert set(a.told_lost) == set(range(256))
    assert a.holdings.shards() == ()


@with_fleet
async def test_a_claim_whose_answer_is_lost_is_started_once(fleet: Fleet) -> None:
    """C5, unknown: a row with a token of that batch is ours and was never started."""
    [a] = await fleet.start("a")
    await a.take()
    claim, lost = a.store.claim, list[Rows]()

    async def lose(batch: Rows, now_ms: int, lease_ms: int, *, queued: bool = False) -> Rows:
        answers = await claim(batch, now_ms, lease_ms, queued=queued)
        if not lost:
            lost.append(answers)
            raise OutcomeUnknown("cut")
        return answers

    a.store.claim = lose  # type: ignore[method-assign]
    new = fleet.job(in_ms=100)
    await fleet.insert(new)
    await fleet.pass_ms(5_000)
    assert [(call.work.job_id, call.work.attempt) for call in a.calls] == [(new.job.job_id, 1)]


@with_fleet
async def test_a_store_whose_clock_is_behind_is_asked_again_after_a_pause(fleet: Fleet) -> None:
    """D6: the store's clock decides; asking without a pause would be a storm of claims."""
    [a] = await fleet.start("a")
    await a.take()
    claim = a.store.claim

    async def claim_behind(batch: Rows, now_ms: int, lease_ms: int, *, queued: bool = False) -> Rows:
        return await claim(batch, now_ms - 400, lease_ms, queued=queued)

    a.store.claim = claim_behind  # type: ignore[method-assign]
    new = fleet.job(in_ms=1_000)
    await fleet.insert(new)
    await fleet.pass_ms(3_000)
    [call] = a.calls
    assert 400 <= call.started_ms - call.work.scheduled_ms <= 500
    assert a.claim_count <= 12


@with_fleet
async def test_a_reap_that_the_store_refuses_is_tried_again(fleet: Fleet) -> None:
    """C3: that a reap was sent resolves nothing. (Here the lease is not past by the clock of the store.)"""
    a, b = await fleet.start("a", "b")
    await a.take()
    a.behave = lambda work: None
    a.store.renew = refuse  # type: ignore[method-assign]
    new = fleet.job(in_ms=1_000)
    await fleet.insert(new)
    await fleet.pass_ms(3_000)
    await a.kill()
    await fleet.depose(a, proved_dead=False)
    complete, refused = b.store.complete, list[int]()

    async def too_early(batch: Rows, notes: Mapping[int, AttemptNote]) -> Completed:
        if len(refused) < 3:
            refused.append(len(batch))
            nothing: Bools = np.zeros(len(batch), dtype=np.bool_)
            return Completed(nothing, batch[:0])
        return await complete(batch, notes)

    b.store.complete = too_early  # type: ignore[method-assign]
    await b.take()
    await fleet.pass_ms(35_000)
    assert len(refused) == 3
    assert [(call.work.job_id, call.work.attempt) for call in b.calls] == [(new.job.job_id, 2)]


@with_fleet
async def test_an_owner_whose_tokens_run_out_asks_for_a_new_epoch_and_keeps_its_timers(fleet: Fleet) -> None:
    """D5: the sequence counts per shard; another one goes on meanwhile."""
    [a] = await fleet.start("a")
    await a.take()
    before, after, other = (fleet.job(in_ms=at, shard=shard) for at, shard in ((100, 3), (500, 3), (500, 4)))
    await fleet.insert(before, after, other)
    await fleet.pass_ms(300)
    a.scheduler._claims._tokens._drawn[3] = SEQUENCE_LIMIT
    await fleet.pass_ms(1_000)
    assert set(a.told_exhausted) == {3}
    assert {call.work.job_id for call in a.calls} == {before.job.job_id, other.job.job_id}
    assert a.pair(3).ack_ms <= (after.job.scheduled_ms or 0)
    await a.scheduler.intake.quiesce([3])
    a.drop([3])
    await a.take([3])
    await fleet.pass_ms(1_000)
    fences = [call.work.fence for call in a.calls if call.work.job_id == after.job.job_id]
    assert fences == [(2 << 32) + 1]


@with_fleet
async def test_a_hand_over_leaves_no_gap_and_starts_nothing_twice(fleet: Fleet) -> None:
    """G6: stop claiming, wait for open claims, forget, release; the next owner goes on from the pair."""
    a, b = await fleet.start("a", "b")
    await a.take()
    jobs = [fleet.job(in_ms=1_000 + 20 * n) for n in range(200)]
    await fleet.insert(*jobs)
    await fleet.pass_ms(2_500)
    await a.hand_over(range(256))
    await b.take()
    await fleet.pass_ms(5_000)
    calls = sorted(a.calls + b.calls, key=lambda call: call.started_ms)
    assert sorted(call.work.job_id for call in calls) == sorted(new.job.job_id for new in jobs)
    assert max(call.started_ms - call.work.scheduled_ms for call in calls) <= 100
    assert a.calls
    assert b.calls


@with_fleet
async def test_a_silenced_shard_claims_nothing_and_forgets_nothing(fleet: Fleet) -> None:
    """G6: between the last claim and the release its timers are still counted."""
    [a] = await fleet.start("a")
    await a.take()
    quiet, loud = fleet.job(in_ms=1_000, shard=1), fleet.job(in_ms=1_000, shard=2)
    await fleet.insert(quiet, loud)
    await fleet.pass_ms(500)
    await a.scheduler.intake.quiesce([1])
    await fleet.pass_ms(20_000)
    assert [call.work.job_id for call in a.calls] == [loud.job.job_id]
    assert a.pair(1).ack_ms <= (quiet.job.scheduled_ms or 0)


@with_fleet
async def test_a_shard_that_comes_back_at_once_is_loaded_anew(fleet: Fleet) -> None:
    """What was armed just before the drop must not count as armed after it."""
    [a] = await fleet.start("a")
    await a.take()
    await fleet.pass_ms(2_000)
    new = fleet.job(in_ms=200, shard=1)
    await fleet.insert(new)
    a.arm(new)
    await fleet.pass_ms(100)
    a.drop([1])
    await fleet.pass_ms(500)
    assert a.calls == []
    await a.take([1])
    await fleet.pass_ms(500)
    assert [call.work.job_id for call in a.calls] == [new.job.job_id]


@with_fleet
async def test_a_takeover_fires_what_is_near_before_a_long_past(fleet: Fleet) -> None:
    a, b = await fleet.start("a", "b")
    past = [fleet.job(in_ms=-60_000 - n) for n in range(30)]
    near = [fleet.job(in_ms=3_000 + n) for n in range(5)]
    await fleet.insert(*past, *near)
    await fleet.depose(a, proved_dead=True)
    froms = list[int]()
    load = b.store.load_timers

    async def note(from_ms: int, until_ms: int, limit: int, shards: Sequence[int] | None = None) -> Rows:
        froms.append(from_ms - fleet.clock.now_ms())
        return await load(from_ms, until_ms, limit, shards)

    b.store.load_timers = note  # type: ignore[method-assign]
    await b.take()
    await fleet.pass_ms(10_000)
    assert froms[0] == -2_000
    assert min(froms) < -1_000_000  # no pair: from the oldest timer on
    assert len(b.calls) == 35
    assert {call.started_ms - call.work.scheduled_ms for call in b.calls if call.work.scheduled_ms > 0} >= {0}


@with_fleet
async def test_only_the_leader_sweeps_and_checks_chains(fleet: Fleet) -> None:
    """Pitfall 50's other half: chores are the leader's, firing is everybody's."""
    a, b = await fleet.start("a", "b")
    a.leads = False
    calls = {"a": 0, "b": 0}

    def counting(name: str) -> Any:
        async def count(*args: object) -> int:
            calls[name] += 1
            return 0

        return count

    for name, process in (("a", a), ("b", b)):
        process.store.maintain = process.store.sweep = counting(name)  # type: ignore[method-assign]
    await fleet.pass_ms(130_000)
    assert calls["a"] == 0
    assert calls["b"] >= 4


@with_fleet
async def test_slots_come_back_after_an_executor_failed_to_start(fleet: Fleet) -> None:
    """The failed ones are lost with their lease and run again; the other executor's start at once."""
    [a] = await fleet.start("a", settings=SETTINGS)
    await a.take()
    webhooks = a.executors[0]
    start, failed = webhooks.start, list[Work]()

    def fail(works: Sequence[Work]) -> None:
        if not failed:
            failed.extend(works)
            raise OSError("no more threads")
        start(works)

    webhooks.start = fail  # type: ignore[method-assign]
    a.behave = lambda work: OK
    jobs = [fleet.job(in_ms=1_000) for _ in range(3)] + [fleet.job(in_ms=1_000, handler="h")]
    await fleet.insert(*jobs)
    await fleet.pass_ms(2_000)
    assert [call.work.job_id for call in a.calls] == [jobs[3].job.job_id]
    assert fleet.stored_ack_ms(shard_of_job(jobs[0])) <= (jobs[0].job.scheduled_ms or 0)
    await fleet.pass_ms(40_000)
    assert sum(a.scheduler.pools[0].slots.used) == 0
    assert len(a.scheduler.pools[0].inflight) == 0
    assert sorted(call.work.job_id for call in a.calls) == sorted(new.job.job_id for new in jobs)


@with_fleet
async def test_a_run_that_waits_for_a_lost_lease_outlives_its_second_owner_too(fleet: Fleet) -> None:
    """C3, C5: a claim that met a run in flight resolves nothing; the watch for it is in memory only."""
    a, b, c = await fleet.start("a", "b", "c")
    await a.take()
    a.behave = lambda work: None
    a.store.renew = refuse  # type: ignore[method-assign]
    new = fleet.job(in_ms=1_000)
    await fleet.insert(new)
    await fleet.pass_ms(2_000)
    await a.kill()
    await fleet.depose(a, proved_dead=False)
    await b.take()
    await fleet.pass_ms(10_000)
    assert b.verdict_count(ClaimVerdict.IN_FLIGHT) >= 1
    await b.kill()
    await fleet.depose(b, proved_dead=True)
    await c.take()
    await fleet.pass_ms(25_000)
    assert [(call.work.job_id, call.work.attempt) for call in c.calls] == [(new.job.job_id, 2)]
