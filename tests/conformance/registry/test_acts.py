"""What each verb of the store writes into the audit log: in the transaction of the change, and only with one."""

import asyncio
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from tickwheel.domain.errors import Conflict
from tickwheel.domain.ids import job_id_text, run_id_text
from tickwheel.domain.job import JobState
from tickwheel.domain.run import IllegalTransition, RunState
from tickwheel.ports.registry import Act, AuditEntry
from tickwheel.ports.store import (
    AttemptNote,
    Change,
    InsertStatus,
    JobDecision,
    JobView,
    LedgerWrite,
    NamedDecision,
    NewJob,
)

from ..store import decisions
from ..store.decisions import cancel, cancel_run, delete, redrive
from ..store.owner import Owner
from .desk import ACT, Desk, told

SECRET = "planted-secret"
EDIT = Act("jwt:bob", "job.edit", "192.0.2.9")
DAY_MS = 86_400_000


def secretive(desk: Desk, new: NewJob) -> NewJob:
    """The job with secrets in its header values, its payload and the address of its target."""
    target = replace(
        new.job.spec.target,
        endpoint=f"https://u:{SECRET}@sink.example/?token={SECRET}&x=1",
        headers=(("Authorization", SECRET),),
    )
    spec = replace(new.job.spec, target=target)
    return replace(new, job=replace(new.job, spec=spec, payload=f'{{"p": "{SECRET}"}}'))


def one_off(desk: Desk, **fields: Any) -> NewJob:
    return secretive(desk, desk.arena.one_off(desk.now_ms + DAY_MS, **fields))


def recurring(desk: Desk, **fields: Any) -> NewJob:
    return secretive(desk, desk.arena.recurring(desk.now_ms + DAY_MS, **fields))


async def entry_of(desk: Desk, act: Act, new: NewJob, **filters: Any) -> AuditEntry:
    """The only entry of that act and job, with nothing secret in it."""
    entry = await desk.entry(action=act.action, subject=job_id_text(new.job.job_id), **filters)
    assert (entry.actor, entry.source, entry.tenant_id) == (act.actor, act.source, new.job.tenant_id)
    assert entry.at_ms == desk.now_ms
    assert entry.number > 0
    return entry


@pytest.fixture(autouse=True)
async def no_entry_holds_a_secret(desk: Desk) -> Any:
    """Looks through all entries after each test."""
    yield
    for entry in await desk.entries():
        assert SECRET not in repr(entry)


async def test_a_job_is_told_as_its_definition_without_secrets(desk: Desk) -> None:
    new = one_off(desk, tags=("t",), idempotency_key="k")
    await desk.store.insert_jobs([new], ACT)
    entry = await entry_of(desk, ACT, new)
    assert entry.before is None
    assert told(entry.after) == {
        "tenant_id": "default",
        "job_name": new.job.name,
        "schedule_type": "ONE_OFF",
        "priority": "DEFAULT",
        "target": {
            "type": "HTTP_WEBHOOK",
            "timeout_seconds": 30,
            "endpoint": "https://u:***@sink.example/?token=***&x=1",
            "method": "POST",
            "headers": {"Authorization": "[redacted]"},
        },
        "retry_policy": {
            "max_retries": 3,
            "initial_interval_sec": 10,
            "backoff_multiplier": 1.5,
            "max_interval_sec": 300,
        },
        "tags": ["t"],
        "idempotency_key": "k",
        "execute_at": "2026-09-22T14:13:20.000Z",
        "payload_bytes": len(new.job.payload),
        "status": "SCHEDULED",
        "version": 1,
    }


async def test_without_an_act_nothing_is_noted(desk: Desk, owner: Owner) -> None:
    new, often = one_off(desk), recurring(desk)
    await desk.store.insert_jobs([new, often])
    await desk.store.change_job("default", often.job.job_id, decisions.edit(desk.now_ms + 1))
    await desk.store.put_named("default", "n", lambda view, now_ms: recurring(desk, name="n", named=True))
    await desk.store.change_run("default", *await bury(desk, owner), redrive)
    await desk.store.drop_dead("default", *await bury(desk, owner))
    assert await desk.entries() == []


@pytest.mark.parametrize("count", [2, 63, 64, 300])
async def test_many_jobs_of_a_call_are_one_entry_for_each_tenant(desk: Desk, count: int) -> None:
    mine = [one_off(desk) for _ in range(count)]
    theirs = [one_off(desk, tenant_id="b") for _ in range(count - 1)]
    single = one_off(desk, tenant_id="c")
    await desk.store.insert_jobs([*mine, *theirs, single], ACT)
    assert len(await desk.entries()) == 3
    entry = await desk.entry(tenant_id="default")
    assert (entry.subject, entry.before) == (f"{count} jobs", None)
    ids = [job_id_text(new.job.job_id) for new in mine]
    assert entry.after == msgspec.json.encode({"job_count": count, "job_ids": ids}).decode()
    assert told((await desk.entry(tenant_id="c")).after)["job_name"] == single.job.name
    if count > 2:
        assert (await desk.entry(tenant_id="b")).subject == f"{count - 1} jobs"


async def test_only_what_was_created_is_noted(desk: Desk) -> None:
    first = one_off(desk, idempotency_key="k")
    await desk.store.insert_jobs([first])
    fresh, other = one_off(desk), one_off(desk, idempotency_key="other")
    again = replace(one_off(desk, idempotency_key="k"), request_hash=b"another")
    answers = await desk.store.insert_jobs(
        [one_off(desk, idempotency_key="k"), again, fresh, first, other, one_off(desk, idempotency_key="other")],
        ACT,
    )
    assert [one.status for one in answers].count(InsertStatus.CREATED) == 2
    entry = await desk.entry()
    ids = [job_id_text(new.job.job_id) for new in (fresh, other)]
    assert (entry.subject, told(entry.after)) == ("2 jobs", {"job_count": 2, "job_ids": ids})


@pytest.mark.parametrize("count", [1, 200])
async def test_a_repeated_request_is_not_noted(desk: Desk, count: int) -> None:
    keyed = [one_off(desk, idempotency_key=f"k{n}") for n in range(count)]
    plain = [one_off(desk) for n in range(count)]
    await desk.store.insert_jobs(keyed, ACT)
    await desk.store.insert_jobs(plain, ACT)
    entries = await desk.entries()
    assert len(entries) == 2
    again = [replace(one_off(desk), job=replace(one_off(desk).job, idempotency_key=f"k{n}")) for n in range(count)]
    await desk.store.insert_jobs(again, ACT)
    await desk.store.insert_jobs(plain, ACT)  # the answer was lost
    assert await desk.entries() == entries


async def test_the_one_that_is_left_of_several_is_the_subject(desk: Desk) -> None:
    stored, fresh = one_off(desk), one_off(desk)
    await desk.store.insert_jobs([stored])
    await desk.store.insert_jobs([stored, fresh], ACT)
    ids = [job_id_text(fresh.job.job_id)]
    assert told((await entry_of(desk, ACT, fresh)).after) == {"job_count": 1, "job_ids": ids}


async def test_calls_that_share_a_commit_are_noted_each(desk: Desk) -> None:
    acts = [None if n % 5 == 0 else Act(f"key:{n}", "job.create", "") for n in range(150)]
    jobs = [[one_off(desk) for _ in range(1 + (n % 7 == 3))] for n in range(150)]
    keyed = [[one_off(desk, idempotency_key=f"k{n}")] for n in range(20)]
    await asyncio.gather(
        *(desk.store.insert_jobs(some, act) for some, act in zip(jobs, acts, strict=True)),
        *(desk.store.insert_jobs(some, Act(f"key:k{n}", "job.create")) for n, some in enumerate(keyed)),
    )
    entries = {entry.actor: entry for entry in await desk.entries()}
    assert len(entries) == 140
    for n, (act, some) in enumerate(zip(acts, jobs, strict=True)):
        assert (f"key:{n}" in entries) is (act is not None)
        if act is not None and len(some) == 1:
            assert entries[act.actor].subject == job_id_text(some[0].job.job_id)
            assert told(entries[act.actor].after)["job_name"] == some[0].job.name
        elif act is not None:
            assert entries[act.actor].subject == "2 jobs"
            assert told(entries[act.actor].after)["job_ids"] == [job_id_text(new.job.job_id) for new in some]


async def test_of_an_edit_what_differs_is_told(desk: Desk) -> None:
    new = recurring(desk)
    await desk.store.insert_jobs([new])

    def decide(view: JobView, now_ms: int) -> Change:
        spec = replace(view.job.spec, timezone="UTC")
        return Change(job=replace(view.job, spec=spec, version=2, tags=("new",)))

    await desk.store.change_job("default", new.job.job_id, decide, EDIT)
    entry = await entry_of(desk, EDIT, new)
    assert told(entry.before) == {"timezone": "Europe/Helsinki", "version": 1}
    assert told(entry.after) == {"timezone": "UTC", "version": 2, "tags": ["new"]}


async def test_a_hidden_value_that_changed_shows_as_its_member(desk: Desk) -> None:
    new = recurring(desk)
    await desk.store.insert_jobs([new])

    def decide(view: JobView, now_ms: int) -> Change:
        target = replace(view.job.spec.target, headers=(("Authorization", SECRET * 2),))
        spec = replace(view.job.spec, target=target)
        return Change(job=replace(view.job, spec=spec, payload=view.job.payload.replace("p", "q", 1)))

    await desk.store.change_job("default", new.job.job_id, decide, EDIT)
    entry = await entry_of(desk, EDIT, new)
    assert set(told(entry.before)) == {"target", "payload_bytes"}
    assert entry.before == entry.after


async def test_pause_resume_and_cancel_are_told_by_their_status(desk: Desk) -> None:
    for new in (one_off(desk), recurring(desk)):
        await desk.store.insert_jobs([new])
        steps: list[tuple[JobDecision, str, str]] = [
            (decisions.pause, "SCHEDULED", "PAUSED"),
            (decisions.resume(desk.now_ms + 5), "PAUSED", "SCHEDULED"),
            (cancel, "SCHEDULED", "CANCELLED"),
        ]
        for number, (decide, was, now) in enumerate(steps):
            act = Act("key:alice", f"job.step{number}")
            await desk.store.change_job("default", new.job.job_id, decide, act)
            entry = await entry_of(desk, act, new)
            assert (told(entry.before)["status"], told(entry.after)["status"]) == (was, now)


async def test_a_deleted_job_has_nothing_afterwards(desk: Desk) -> None:
    new = recurring(desk)
    await desk.store.insert_jobs([new])
    await desk.store.change_job("default", new.job.job_id, delete, EDIT)
    entry = await entry_of(desk, EDIT, new)
    assert entry.after is None
    assert told(entry.before)["job_name"] == new.job.name
    assert told(entry.before)["status"] == "SCHEDULED"


async def test_what_changes_nothing_is_not_noted(desk: Desk) -> None:
    new = recurring(desk, name="n", named=True)
    await desk.store.put_named("default", "n", lambda view, now_ms: new)
    await desk.store.change_job("default", new.job.job_id, decisions.nothing, EDIT)
    await desk.store.put_named("default", "n", lambda view, now_ms: Change(), EDIT)
    await desk.store.change_run("default", new.job.job_id, first_ms(new), lambda *_: Change(), EDIT)
    await desk.store.change_job("b", new.job.job_id, cancel, EDIT)
    await desk.store.change_run("default", new.job.job_id, 5, cancel_run, EDIT)
    assert not await desk.store.drop_dead("default", new.job.job_id, first_ms(new), EDIT)
    assert await desk.entries() == []


async def test_a_decision_that_raises_leaves_no_entry(desk: Desk) -> None:
    new = recurring(desk, name="n", named=True)
    await desk.store.insert_jobs([new])

    def refuse(*_: object) -> Change:
        raise Conflict("no")

    def impossible(view: JobView, now_ms: int) -> Change:
        job = replace(view.job, state=JobState.PAUSED)
        return Change(job=job, runs=(LedgerWrite(now_ms, RunState.SUCCEEDED),))

    for decide, error in ((refuse, Conflict), (impossible, IllegalTransition)):
        with pytest.raises(error):
            await desk.store.change_job("default", new.job.job_id, decide, EDIT)
    with pytest.raises(Conflict):
        await desk.store.change_run("default", new.job.job_id, first_ms(new), refuse, EDIT)
    with pytest.raises(Conflict):
        await desk.store.put_named("default", "n", refuse, EDIT)
    assert (await desk.arena.view(new)).job == new.job
    assert await desk.entries() == []


async def test_a_put_by_name_is_noted_when_it_creates_and_when_it_changes(desk: Desk) -> None:
    new = recurring(desk, name="n", named=True)

    def put(payload: str) -> NamedDecision:
        def decide(view: JobView | None, now_ms: int) -> NewJob | Change:
            if view is None:
                return new
            return Change(job=replace(view.job, payload=payload, version=view.job.version + 1))

        return decide

    await desk.store.put_named("default", "n", put(""), ACT)
    created = await entry_of(desk, ACT, new)
    assert created.before is None
    assert told(created.after)["cron_expression"] == "*/10 * * * *"
    await desk.store.put_named("default", "n", put("12345"), EDIT)
    changed = await entry_of(desk, EDIT, new)
    assert told(changed.before) == {"payload_bytes": len(new.job.payload), "version": 1}
    assert told(changed.after) == {"payload_bytes": 5, "version": 2}


async def test_puts_of_one_name_at_once_are_noted_each(desk: Desk) -> None:
    def put(number: int) -> NamedDecision:
        new = recurring(desk, name="n", named=True)

        def decide(view: JobView | None, now_ms: int) -> NewJob | Change:
            return new if view is None else Change(job=replace(view.job, version=view.job.version + 1))

        return decide

    await asyncio.gather(*(desk.store.put_named("default", "n", put(n), EDIT) for n in range(10)))
    entries = await desk.entries()
    assert sorted(told(entry.after)["version"] for entry in entries) == list(range(1, 11))
    assert [entry.before for entry in entries].count(None) == 1


async def test_changes_of_runs_are_noted_under_their_ids(desk: Desk, owner: Owner) -> None:
    key = await bury(desk, owner)
    act = Act("key:alice", "dead_letter.redrive")
    await desk.store.change_run("default", *key, redrive, act)
    entry = await desk.entry()
    assert (entry.action, entry.subject, entry.tenant_id) == (act.action, run_id_text(*key), "default")
    assert (told(entry.before), told(entry.after)) == ({"status": "FAILED"}, {"status": "SCHEDULED"})
    stop = Act("key:alice", "run.cancel")
    await desk.store.change_run("default", *key, cancel_run, stop)
    entry = await desk.entry(action="run.cancel")
    assert (told(entry.before), told(entry.after)) == ({"status": "SCHEDULED"}, {"status": "CANCELLED"})


async def test_a_one_off_that_is_cancelled_by_its_run_is_noted_as_the_run(desk: Desk) -> None:
    new = one_off(desk)
    await desk.store.insert_jobs([new])
    await desk.store.change_run(
        "default", new.job.job_id, first_ms(new), lambda view, _, now: cancel(view, now), EDIT
    )
    entry = await desk.entry()
    assert entry.subject == run_id_text(new.job.job_id, first_ms(new))
    assert (told(entry.before), told(entry.after)) == ({"status": "SCHEDULED"}, {"status": "CANCELLED"})


async def test_a_dropped_dead_letter_is_noted_once(desk: Desk, owner: Owner) -> None:
    key = await bury(desk, owner)
    assert not await desk.store.drop_dead("b", *key, EDIT)
    assert await desk.store.drop_dead("default", *key, EDIT)
    assert not await desk.store.drop_dead("default", *key, EDIT)
    entry = await desk.entry()
    assert (entry.subject, entry.at_ms) == (run_id_text(*key), desk.now_ms)
    assert (told(entry.before), told(entry.after)) == ({"dead_letter": True}, {"dead_letter": False})


@pytest.fixture
def owner(desk: Desk, runner: asyncio.Runner) -> Owner:
    """A process that has acquired all shards."""
    return runner.run(Owner(desk.arena).acquire())


def first_ms(new: NewJob) -> int:
    assert new.timer is not None
    return new.timer.scheduled_ms


async def bury(desk: Desk, owner: Owner) -> tuple[bytes, int]:
    """The key of a run that is in the dead-letter queue."""
    new = secretive(desk, desk.arena.one_off(desk.now_ms))
    await desk.store.insert_jobs([new])
    held = await owner.win(new)
    assert (await owner.complete(held, RunState.FAILED, AttemptNote("refused", SECRET))).applied
    return new.job.job_id, first_ms(new)
