"""Walks the whole table of `domain.run`: what it allows happens, what it does not changes nothing."""

import contextlib
from collections.abc import Awaitable, Callable

import pytest
from msgspec.structs import replace

from tickwheel.domain.columns import ClaimAction, ClaimVerdict, CompletionCause
from tickwheel.domain.errors import Conflict
from tickwheel.domain.outcome import OutcomeClass
from tickwheel.domain.run import IN_FLIGHT, TERMINAL, TRANSITIONS, Cause, IllegalTransition, RunState, SkipReason
from tickwheel.ports.store import Change, FirstTimer, JobView, NewJob

from .arena import Arena
from .decisions import pause, write
from .owner import LEASE_MS, Held, Owner

_S = RunState
SOURCES = [
    None,
    _S.SCHEDULED,
    _S.DISPATCHED,
    _S.RUNNING,
    _S.SUCCEEDED,
    _S.FAILED,
    _S.CANCELLED,
    _S.SKIPPED,
    _S.PAUSED,
]
"""CLAIMED belongs to brokers: no verb of a store that hands its runs over itself leads there."""
MOVES = {
    CompletionCause.WORKER: (Cause.COMPLETE, Cause.RETRY, Cause.CANCEL),
    CompletionCause.REAPER: (Cause.REAP,),
    CompletionCause.DEAD_OWNER: (Cause.REAP,),
    CompletionCause.UNSTARTED: (Cause.UNSTARTED,),
}
CHANGE_CAUSES = (Cause.CANCEL, Cause.SKIP, Cause.PAUSE, Cause.RESUME, Cause.REDRIVE)


def name(value: object) -> str:
    return getattr(value, "name", "none")


class Stage:
    """Brings one run of one job into a state; `held` is the latest right to end an attempt of it."""

    def __init__(self, arena: Arena, owner: Owner) -> None:
        self.arena, self.owner = arena, owner
        self.new: NewJob = arena.one_off()
        self.held: Held | None = None

    async def bring_to(self, state: RunState | None) -> None:
        await self.arena.insert(self.new)
        steps: dict[RunState | None, Callable[[], Awaitable[object]]] = {
            None: self._nothing,
            _S.SCHEDULED: lambda: self._end(_S.SCHEDULED),
            _S.DISPATCHED: self._win,
            _S.RUNNING: self._run,
            _S.SUCCEEDED: lambda: self._end(_S.SUCCEEDED),
            _S.FAILED: lambda: self._end(_S.FAILED),
            _S.CANCELLED: lambda: self._end(_S.CANCELLED),
            _S.SKIPPED: self._skip,
            _S.PAUSED: self._pause,
        }
        await steps[state]()
        assert await self.state() is state

    async def _nothing(self) -> None:
        """The timer waits, there is no row."""

    async def _win(self) -> Held:
        self.held = await self.owner.win(self.new)
        return self.held

    async def _run(self) -> None:
        await self.owner.renew(await self._win(), mark_running=1)

    async def _end(self, state: RunState) -> None:
        assert (await self.owner.complete(await self._win(), state, retry_ms=self.arena.now_ms + 5)).applied

    async def _skip(self) -> None:
        await self.owner.claim(self.new, action=ClaimAction.SKIP, reason=SkipReason.DEADLINE)

    async def _pause(self) -> None:
        await self.arena.store.change_job(self.new.job.tenant_id, self.new.job.job_id, pause)

    def never_held(self) -> Held:
        """What a worker would hold that was never given a token."""
        assert self.new.timer is not None
        return Held(self.new.job.job_id, self.new.timer, 0, ClaimVerdict.UNRESOLVED, 1, 0, 1, 0, 0)

    async def state(self) -> RunState | None:
        last = (await self.arena.view(self.new)).last_run
        return None if last is None else last.state

    async def snapshot(self) -> tuple[object, ...]:
        return (await self.arena.view(self.new), await self.arena.timers(), await self.arena.store.counts())


@pytest.fixture
def stage(arena: Arena, owner: Owner) -> Stage:
    return Stage(arena, owner)


@pytest.mark.parametrize("source", SOURCES, ids=name)
@pytest.mark.parametrize("cause", list(CompletionCause), ids=name)
async def test_ends_of_attempts(arena: Arena, cause: CompletionCause, source: RunState | None) -> None:
    for to in RunState:
        stage = Stage(arena, await Owner(arena).acquire())
        await stage.bring_to(source)
        arena.clock.step_ms(LEASE_MS)
        await Owner(arena, "worker-2").acquire()
        before = await stage.snapshot()
        ended = await stage.owner.complete(
            stage.held or stage.never_held(),
            to,
            cause=cause,
            outcome=OutcomeClass.SUCCESS if to is _S.SUCCEEDED else OutcomeClass.LOST,
            retry_ms=arena.now_ms + 77 if to is _S.SCHEDULED else -1,
        )
        if source in IN_FLIGHT and any((source, to) in TRANSITIONS[move] for move in MOVES[cause]):
            assert ended.applied, to
            assert await stage.state() is to
        else:
            repeat = source is to and source in TERMINAL and stage.held is not None
            assert ended.applied is repeat, f"{to}: only a repeat of what the row already shows counts as applied"
            assert await stage.snapshot() == before, to


@pytest.mark.parametrize("source", SOURCES, ids=name)
async def test_changes_by_people_and_policies(arena: Arena, source: RunState | None) -> None:
    for to in RunState:
        stage = Stage(arena, await Owner(arena).acquire())
        await stage.bring_to(source)
        before = await stage.snapshot()
        key = (stage.new.job.tenant_id, stage.new.job.job_id)
        fields = {"follow_up_ms": arena.now_ms + 9} if to is _S.SCHEDULED else {}
        settled = (source, to) == (None, _S.SCHEDULED)  # of CLAIM: an occurrence settled by an edit
        if settled or any((source, to) in TRANSITIONS[cause] for cause in CHANGE_CAUSES):
            changed = await arena.store.change_job(*key, write(to, **fields))
            assert changed is not None
            assert await stage.state() is to
            follow_up_count = 1 if to is _S.SCHEDULED else 0
            assert len(await arena.timers(stage.new)) == len(changed.timers) == follow_up_count, to
        else:
            with contextlib.suppress(IllegalTransition):
                await arena.store.change_job(*key, write(to, **fields))
            assert await stage.snapshot() == before, to


@pytest.mark.parametrize("source", SOURCES, ids=name)
async def test_only_a_dispatched_or_running_attempt_is_marked_running(
    stage: Stage, source: RunState | None
) -> None:
    await stage.bring_to(source)
    held = stage.held or stage.never_held()
    before = await stage.snapshot()
    if source in IN_FLIGHT:
        assert await stage.owner.renew(held, mark_running=1)
        assert await stage.state() is _S.RUNNING
    else:
        assert not await stage.owner.renew(held, mark_running=1)
        assert await stage.snapshot() == before


async def test_an_illegal_move_takes_the_rest_of_its_change_with_it(stage: Stage) -> None:
    await stage.bring_to(_S.SUCCEEDED)
    before = await stage.snapshot()

    def decide(view: JobView, now_ms: int) -> Change:
        renamed = replace(view.job, name="renamed", version=2)
        return replace(write(_S.CANCELLED)(view, now_ms), job=renamed, timer=FirstTimer(now_ms, now_ms, 2))

    with contextlib.suppress(IllegalTransition):
        await stage.arena.store.change_job(stage.new.job.tenant_id, stage.new.job.job_id, decide)
    assert await stage.snapshot() == before


async def test_a_decision_that_refuses_writes_nothing(stage: Stage) -> None:
    await stage.bring_to(None)
    before = await stage.snapshot()

    def refuse(view: JobView, now_ms: int) -> Change:
        raise Conflict("no")

    with pytest.raises(Conflict, match="no"):
        await stage.arena.store.change_job(stage.new.job.tenant_id, stage.new.job.job_id, refuse)
    assert await stage.snapshot() == before
