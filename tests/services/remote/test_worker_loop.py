"""A worker against an employer who gives runs, loses answers and ends sessions; on virtual time."""

import asyncio

import pytest

from tickwheel.domain.job import Lane
from tickwheel.domain.latency_gradient import LatencyGradient
from tickwheel.domain.outcome import OK, OutcomeClass, ProgressNote
from tickwheel.ports.events import SessionEnded, WorkerResized, WorkerStalled

from .employer import LEASE_MS, SESSION_MS, Workplace


async def test_what_is_taken_runs_and_is_reported() -> None:
    async with Workplace(slots=8) as place:
        given = place.employer.offer(20)
        await place.clock.advance(1_000)
        assert sorted(place.employer.of(OutcomeClass.SUCCESS)) == sorted(one.key for one in given)


async def test_it_never_takes_more_than_its_free_slots() -> None:
    async with Workplace(slots=8) as place:
        place.keep_going()
        place.employer.offer(100)
        await place.clock.advance(5_000)
        # Of 8 slots CRITICAL, HIGH and LOW have one each.
        assert len(place.executor.open) == len(place.employer.taken) == 5
        place.executor.finish(next(iter(place.executor.open)))
        await place.clock.advance(10)
        assert len(place.executor.open) == 5
        assert len(place.employer.taken) == 6


async def test_a_reserved_slot_is_there_for_its_lane() -> None:
    async with Workplace(slots=8) as place:
        place.keep_going()
        place.employer.offer(100, Lane.LOW)
        await place.clock.advance(100)
        assert len(place.executor.open) == 6
        place.employer.offer(3, Lane.CRITICAL)
        await place.clock.advance(10)
        assert sorted(work.lane for work in place.executor.open.values()) == [0, 0, 3, 3, 3, 3, 3, 3]


async def test_an_attempt_that_goes_on_is_renewed_and_keeps_going() -> None:
    async with Workplace(slots=8) as place:
        place.keep_going()
        place.employer.offer()
        await place.clock.advance(10 * LEASE_MS)
        assert not place.executor.cancelled
        assert 29 <= len(place.employer.beats) <= 31


async def test_progress_is_passed_on_within_a_second_and_once() -> None:
    async with Workplace(slots=8) as place:
        place.keep_going()
        place.employer.offer()
        await place.clock.advance(2_000)
        assert place.progress is not None
        slot = next(iter(place.executor.open))
        place.progress(slot, ProgressNote(progress=0.2))
        place.progress(slot, ProgressNote(progress=0.4, note="four of ten"))
        await place.clock.advance(4_000)
        assert [beat.progress for beat in place.employer.beats] == [ProgressNote(progress=0.4, note="four of ten")]


async def test_a_cancelled_run_is_aborted_and_nothing_is_reported_of_it() -> None:
    async with Workplace(slots=8) as place:
        place.keep_going()
        (given,) = place.employer.offer()
        await place.clock.advance(100)
        place.employer.stop([given.key])
        await place.clock.advance(100)
        assert place.executor.cancelled
        assert not place.employer.ends
        assert place.employer.forgotten == [given.key]


async def test_a_renewal_that_is_refused_aborts_that_attempt_only() -> None:
    async with Workplace(slots=8) as place:
        place.keep_going()
        given = place.employer.offer(2)
        place.employer.refuse_renewals = lambda beat: beat.assignment.key == given[0].key
        await place.clock.advance(LEASE_MS)
        assert [work.fence for work in place.executor.open.values()] == [given[1].fence]


async def test_an_attempt_stops_by_itself_before_its_lease_is_over() -> None:
    async with Workplace(slots=8) as place:
        place.keep_going()
        place.employer.offer()
        await place.clock.advance(100)
        place.employer.away = True
        await place.clock.advance(SESSION_MS - 3_000 - 1_000)
        assert not place.executor.cancelled
        await place.clock.advance(3_000)
        assert place.executor.cancelled, "others declare a worker dead that was silent for the length of a session"
        assert not place.employer.ends


async def test_a_process_that_was_suspended_stops_what_it_ran_at_once() -> None:
    async with Workplace(slots=8) as place:
        place.keep_going()
        place.employer.offer(3)
        await place.clock.advance(1_000)
        place.clock.step_ms(60_000)
        await place.clock.advance(0)
        assert len(place.executor.cancelled) == 3


async def test_it_goes_on_when_the_other_side_is_back() -> None:
    async with Workplace(slots=8) as place:
        place.employer.away = True
        given = place.employer.offer(3)
        await place.clock.advance(60_000)
        place.employer.away = False
        await place.clock.advance(25_000)
        assert sorted(place.employer.of(OutcomeClass.SUCCESS)) == sorted(one.key for one in given)


async def test_when_its_session_is_over_it_lets_go_of_everything_and_enlists_anew() -> None:
    async with Workplace(slots=8) as place:
        place.keep_going()
        given = place.employer.offer(3)
        await place.clock.advance(100)
        place.employer.session_is_over = True
        await place.clock.advance(4_000)
        assert place.employer.enlisted == 2
        assert sorted(place.employer.forgotten) == sorted(one.key for one in given)
        assert not place.employer.ends
        assert place.events.of(SessionEnded) == [SessionEnded(held_count=3)]
        place.behave = lambda work: OK
        place.employer.offer(2)
        await place.clock.advance(100)
        assert len(place.employer.ends) == 2


async def test_what_is_given_twice_runs_once() -> None:
    async with Workplace(slots=8) as place:
        place.keep_going()
        (given,) = place.employer.offer()
        await place.clock.advance(10)
        place.employer.backlog.append(given)  # the answer that it was taken was lost
        place.employer._more.set()
        await place.clock.advance(10)
        assert len(place.executor.calls) == 1


async def test_a_worker_that_leaves_finishes_within_the_grace_time_and_hands_back_the_rest() -> None:
    place = Workplace(slots=8, prefetch=2)
    await place.start()
    place.keep_going()
    place.employer.offer(30)
    await place.clock.advance(100)
    quick, *slow = list(place.executor.open)
    asyncio.get_running_loop().call_soon(place.executor.finish, quick)
    draining = asyncio.ensure_future(place.loop.drain(5_000))
    await place.clock.advance(10_000)
    await draining
    assert place.employer.left == 1
    assert len(place.employer.of(OutcomeClass.SUCCESS)) == 1
    assert len(place.employer.of(OutcomeClass.UNSTARTED)) >= len(slow)
    assert len(place.employer.ends) == len(place.employer.taken), "all that was taken is accounted for"


async def test_what_is_taken_ahead_is_handed_back_when_it_does_not_begin_soon() -> None:
    place = Workplace(slots=4, prefetch=3)
    await place.start()
    place.keep_going()
    place.employer.offer(4)
    await place.clock.advance(100)
    assert len(place.executor.open) == 1
    assert len(place.employer.taken) == 4
    await place.clock.advance(1_000)
    assert len(place.employer.of(OutcomeClass.UNSTARTED)) == 3
    await place.stop()


async def test_of_itself_it_takes_ahead_only_while_runs_are_short() -> None:
    place = Workplace(slots=4, prefetch=None)
    await place.start()
    place.employer.offer(200)
    await place.clock.advance(500)
    assert len(place.employer.of(OutcomeClass.SUCCESS)) == 200
    place.keep_going()
    assert place.employer.takes[0] != place.employer.takes[-1], "it takes more than it has slots for"
    await place.stop()


@pytest.mark.pitfall(43)
async def test_a_worker_whose_executor_begins_nothing_says_so_and_its_work_moves() -> None:
    async with Workplace(slots=8) as place:
        place.executor.blocked = True
        given = place.employer.offer(5)
        await place.clock.advance(11_000)
        assert sorted(place.employer.of(OutcomeClass.UNSTARTED)) == sorted(one.key for one in given)
        assert place.events.of(WorkerStalled) == [WorkerStalled(stalled=True, handed_back=5)]
        place.employer.offer(5)
        await place.clock.advance(15_000)
        assert place.employer.notes[-1].stalled
        assert len(place.employer.taken) == 5, "it takes nothing more"
        await place.clock.advance(25_000)
        assert len(place.employer.taken) == 6, "but a single one, to see whether it begins"
        assert len(place.employer.of(OutcomeClass.UNSTARTED)) == 6
        place.executor.blocked = False
        await place.clock.advance(40_000)
        assert not place.loop.note().stalled
        assert len(place.employer.of(OutcomeClass.SUCCESS)) == 4


async def test_a_stalled_worker_goes_on_when_an_attempt_ends() -> None:
    async with Workplace(slots=8) as place:
        place.keep_going()
        place.employer.offer()
        await place.clock.advance(100)
        place.executor.blocked = True
        place.employer.offer(2)
        await place.clock.advance(12_000)
        assert place.loop.note().stalled
        place.executor.blocked = False
        place.behave = lambda work: OK
        place.executor.finish(next(iter(place.executor.open)))
        place.employer.offer(2)
        await place.clock.advance(500)
        assert not place.loop.note().stalled
        assert len(place.employer.of(OutcomeClass.SUCCESS)) == 3


async def test_long_attempts_are_no_stall() -> None:
    async with Workplace(slots=8) as place:
        place.keep_going()
        place.employer.offer(3)
        await place.clock.advance(120_000)
        assert not place.loop.note().stalled
        assert len(place.executor.open) == 3


async def test_its_slots_follow_the_length_of_runs() -> None:
    place = Workplace(gradient=LatencyGradient(4, 64))
    await place.start()
    place.employer.offer(10_000)
    place.keep_going()
    for _ in range(200):
        await place.clock.advance(50)
        for slot in list(place.executor.open):
            place.executor.finish(slot)
    assert place.executor.most_open > 8
    assert place.events.of(WorkerResized)
    assert place.loop.note().slots > 8
    await place.stop()


async def test_it_tells_how_long_its_runs_take() -> None:
    async with Workplace() as place:
        assert place.loop.note().run_ms == 0
        place.keep_going()
        place.employer.offer()
        await place.clock.advance(2_000)
        [slot] = place.executor.open
        place.executor.finish(slot)
        await place.clock.advance(100)
        assert 1_800 <= place.loop.note().run_ms <= 2_100
