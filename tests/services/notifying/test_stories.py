"""What is told, how often, and to whom."""

from typing import Any

import pytest
from msgspec.structs import replace

from tickwheel.domain.ids import job_id_text, run_id_text
from tickwheel.domain.job import JobState
from tickwheel.domain.notifications.kinds import Kind
from tickwheel.domain.outcome import Outcome, OutcomeClass, WhenExhausted
from tickwheel.ports.events import LoopFailed
from tickwheel.ports.notices import Notice
from tickwheel.ports.registry import NO_TENANT
from tickwheel.ports.store import Change, JobView
from tickwheel.services.dead_letters import DeadLetters

from .stage import ACT, MINUTE_MS, Stage, Told, story
from .stores import Lagging

QUIET_MS = 15 * MINUTE_MS


@story
async def test_a_dead_letter_is_told_at_once(stage: Stage) -> None:
    await stage.rule(Kind.DEAD_LETTERED)
    stage.node()
    began_ms = stage.world.clock.now_ms()
    [job_id] = await stage.fail("report")
    await stage.wait(5_000)
    [told] = stage.told
    run = await stage.world.run_of(job_id)
    assert told.at_ms - began_ms <= 3_000
    assert told.message.title == "Run out of attempts: report"
    data: dict[str, Any] = told.body["data"]
    run_id = run_id_text(job_id, run.scheduled_ms)
    assert (told.kind, data["count"], data["rule"], data["tenant_id"]) == (
        "run.dead_lettered",
        1,
        "ops",
        "default",
    )
    [example] = data["examples"]
    assert (example["run_id"], example["job_name"]) == (run_id, "report")
    assert "no luck" in example["detail"]
    assert data["url"] == f"https://jobs.example/#/runs/{run_id}"
    assert run_id in told.message.text
    assert data["job_id"] == job_id_text(job_id)
    said, url = told.body["text"].split("\n")
    assert said.startswith("Run out of attempts: report (")
    assert ("no luck" in said, url) == (True, data["url"])


@story
async def test_what_follows_is_held_back_and_counted(stage: Stage) -> None:
    await stage.rule(Kind.DEAD_LETTERED)
    stage.node()
    await stage.fail("report")
    await stage.wait(5_000)
    for _ in range(4):
        await stage.fail("report")
        await stage.wait(MINUTE_MS)
    assert [told.count for told in stage.told] == [1]
    await stage.wait(QUIET_MS)
    assert [told.count for told in stage.told] == [1, 4]
    assert stage.told[1].message.title == "4 runs out of attempts: report"
    assert stage.told[1].body["data"]["url"] == "https://jobs.example/#/dead-letters"
    assert stage.told[1].at_ms - stage.told[0].at_ms >= QUIET_MS
    await stage.wait(4 * QUIET_MS)
    assert len(stage.told) == 2
    assert (await stage.world.store.notice_groups()).bodies == {}


@story
async def test_each_job_has_messages_of_its_own(stage: Stage) -> None:
    await stage.rule(Kind.DEAD_LETTERED)
    stage.node()
    await stage.fail("one", "two", "two")
    await stage.wait(5_000)
    by_title = {told.message.title: told.body for told in stage.told}
    assert by_title.keys() == {"Run out of attempts: one", "2 runs out of attempts: two"}
    assert by_title["2 runs out of attempts: two"]["data"]["job_id"] is None
    assert " (the last one: " in by_title["2 runs out of attempts: two"]["text"]


@story
async def test_a_flood_of_jobs_shares_a_message(stage: Stage) -> None:
    await stage.rule(Kind.DEAD_LETTERED)
    stage.node()
    await stage.fail(*(f"job-{number}" for number in range(200)))
    await stage.wait(MINUTE_MS)
    assert len(stage.told) == 21
    assert sum(told.count for told in stage.told) == 200
    assert "180 runs out of attempts: several others" in {told.message.title for told in stage.told}


async def told_of_failures(stage: Stage, **fields: Any) -> tuple[bytes, Told]:
    """A job fails each minute: its id, and what is told of it once, after the third time."""
    stage.broken.add("report")
    job_id = await stage.each_minute("report", **fields)
    await stage.wait(2 * MINUTE_MS + 10_000)
    assert stage.told == []
    await stage.wait(20 * MINUTE_MS)
    [told] = stage.told
    assert told.message.title == "Job failing: report"
    assert told.body["data"]["job_id"] == job_id_text(job_id)
    return job_id, told


@story
async def test_a_job_that_fails_so_many_times_in_a_row_is_told_once(stage: Stage) -> None:
    await stage.rule(Kind.FAILING, Kind.RECOVERED, failures=3, quiet_seconds=0)
    stage.node()
    job_id, told = await told_of_failures(stage)
    assert told.body["data"]["url"] == f"https://jobs.example/#/jobs/{job_id_text(job_id)}"
    assert "3 runs in a row failed" in told.message.text


@story
async def test_dropped_runs_make_a_job_failing_and_are_no_dead_letters(stage: Stage) -> None:
    await stage.rule(Kind.DEAD_LETTERED, Kind.FAILING, Kind.RECOVERED, failures=3, quiet_seconds=0)
    node = stage.node()
    _, told = await told_of_failures(stage, drops=True)
    assert "3 runs in a row failed; the last one: no luck" in told.message.text
    stage.broken.clear()
    await stage.wait(2 * MINUTE_MS)
    assert stage.kinds == ["job.failing", "job.recovered"]
    assert await stage.world.store.notices(10) == []
    assert node.events.of(LoopFailed) == []


@story
async def test_dropped_and_buried_runs_count_together(stage: Stage) -> None:
    await stage.rule(Kind.FAILING, failures=3)
    stage.node()
    stage.broken.add("report")
    job_id = await stage.each_minute("report")
    await stage.wait(2 * MINUTE_MS + 10_000)

    def drop_from_now_on(view: JobView, now_ms: int) -> Change:
        retry = replace(view.job.spec.retry, when_exhausted=WhenExhausted.DROP)
        return Change(
            job=replace(view.job, spec=replace(view.job.spec, retry=retry), version=view.job.version + 1)
        )

    assert await stage.world.store.change_job("default", job_id, drop_from_now_on) is not None
    assert stage.told == []
    await stage.wait(MINUTE_MS)
    assert stage.kinds == ["job.failing"]


@story
async def test_a_recovery_is_told_and_failing_again_too(stage: Stage) -> None:
    await stage.rule(Kind.FAILING, Kind.RECOVERED, failures=2, quiet_seconds=0)
    stage.node()
    stage.broken.add("report")
    await stage.each_minute("report")
    await stage.wait(5 * MINUTE_MS)
    stage.broken.clear()
    await stage.wait(5 * MINUTE_MS)
    assert stage.kinds == ["job.failing", "job.recovered"]
    stage.broken.add("report")
    await stage.wait(5 * MINUTE_MS)
    assert stage.kinds == ["job.failing", "job.recovered", "job.failing"]


@story
async def test_a_success_in_between_begins_the_count_anew(stage: Stage) -> None:
    await stage.rule(Kind.FAILING, failures=3)
    stage.node()
    await stage.each_minute("report")
    for _ in range(4):
        stage.broken.add("report")
        await stage.wait(2 * MINUTE_MS)
        stage.broken.clear()
        await stage.wait(MINUTE_MS)
    assert stage.told == []


@story
async def test_redriving_what_failed_is_no_recovery_until_it_succeeds(stage: Stage) -> None:
    await stage.rule(Kind.FAILING, Kind.RECOVERED, failures=1)
    stage.node()
    stage.broken.add("report")
    job_id = await stage.each_minute("report")
    await stage.wait(MINUTE_MS + 5_000)
    assert stage.kinds == ["job.failing"]
    store, clock = stage.world.store, stage.world.clock
    await store.change_job("default", job_id, lambda view, now_ms: Change(drop_live=True))
    [run] = await stage.world.runs(job_id)
    stage.world.behave = lambda work: None
    redriven = await DeadLetters(store, stage.scheduler, clock).redrive("default", [(job_id, run.scheduled_ms)])
    assert redriven.refused == ()
    await stage.wait(MINUTE_MS)
    assert stage.kinds == ["job.failing"]
    for executor in stage.world.executors:
        for slot in list(executor.open):
            executor.finish(slot)
    await stage.wait(MINUTE_MS)
    assert stage.kinds == ["job.failing", "job.recovered"]


@story
async def test_a_one_off_is_never_called_failing(stage: Stage) -> None:
    await stage.rule(Kind.FAILING, failures=1)
    stage.node()
    await stage.fail("report", "report")
    await stage.wait(5_000)
    assert stage.told == []


@story
async def test_a_schedule_that_is_over_is_told(stage: Stage) -> None:
    await stage.rule(Kind.EXHAUSTED)
    stage.node()
    job_id = await stage.each_minute("report")
    await stage.wait(2 * MINUTE_MS)
    assert stage.told == []

    await stage.world.store.change_job(
        "default",
        job_id,
        lambda view, now_ms: Change(job=replace(view.job, state=JobState.COMPLETED), drop_live=True),
    )
    await stage.wait(5_000)
    [told] = stage.told
    assert told.message.title == "Schedule exhausted, it will never fire again: report"
    assert told.body["data"]["examples"][0]["run_id"] is None


@story
async def test_a_burning_objective_goes_to_the_installation_and_its_tenant_only(stage: Stage) -> None:
    await stage.rule(Kind.BURNING, name="own")
    await stage.rule(Kind.BURNING, name="all", tenant_id=NO_TENANT)
    stage.node()
    await stage.world.store.add_notices(
        [
            Notice(Kind.BURNING, NO_TENANT, subject="HIGH", detail="fast"),
            Notice(Kind.BURNING, "default", subject="tenant:default", detail="fast"),
            Notice(Kind.BURNING, "other", subject="tenant:other", detail="slow"),
        ]
    )
    await stage.wait(5_000)
    heard = {(told.body["data"]["rule"], told.body["data"]["about"]) for told in stage.told}
    assert heard == {
        ("all", "HIGH"),
        ("all", "tenant:default"),
        ("all", "tenant:other"),
        ("own", "tenant:default"),
    }
    assert stage.told[0].body["data"]["tenant_id"] is None


@story
async def test_several_nodes_that_burn_share_a_message(stage: Stage) -> None:
    await stage.rule(Kind.BURNING, tenant_id=NO_TENANT)
    stage.node()
    notices = [Notice(Kind.BURNING, NO_TENANT, subject="HIGH", detail=f"node {n}") for n in range(3)]
    await stage.world.store.add_notices(notices)
    await stage.wait(5_000)
    assert [told.count for told in stage.told] == [3]


@story
async def test_rules_see_their_own_tenant_and_no_other(stage: Stage) -> None:
    await stage.rule(Kind.DEAD_LETTERED, tenant_id="acme")
    await stage.rule(Kind.DEAD_LETTERED, tenant_id=NO_TENANT, name="all")
    stage.node()
    await stage.fail("theirs", tenant_id="other")
    await stage.fail("own", tenant_id="acme")
    await stage.wait(5_000)
    heard = sorted((told.body["data"]["rule"], told.body["data"]["about"]) for told in stage.told)
    assert heard == [("all", "own"), ("all", "theirs"), ("ops", "own")]


@story
async def test_filters_choose_jobs_by_name_and_tag(stage: Stage) -> None:
    await stage.rule(Kind.DEAD_LETTERED, name="bills", job_name_prefix="bill-")
    await stage.rule(Kind.DEAD_LETTERED, name="tagged", tag="money")
    stage.node()
    await stage.fail("bill-1", "report")
    await stage.wait(5_000)
    assert [(told.body["data"]["rule"], told.body["data"]["about"]) for told in stage.told] == [
        ("bills", "bill-1")
    ]


@story
async def test_a_rule_that_was_made_later_hears_nothing_of_before(stage: Stage) -> None:
    stage.node()
    await stage.fail("report")
    await stage.wait(5_000)
    await stage.rule(Kind.DEAD_LETTERED)
    await stage.wait(MINUTE_MS)
    assert stage.told == []


@story
async def test_what_a_deleted_rule_had_to_say_is_not_said(stage: Stage) -> None:
    rules = await stage.rule(Kind.DEAD_LETTERED)
    stage.node()
    await stage.fail("report")
    await stage.wait(5_000)
    await stage.fail("report")
    await stage.wait(5_000)
    await rules.delete("default", "ops", ACT)
    await stage.wait(2 * QUIET_MS)
    assert len(stage.told) == 1
    assert (await stage.world.store.notice_groups()).bodies == {}
    assert list(await stage.world.store.notices(10)) == []


@pytest.mark.parametrize("names", [["a\r\nBcc: x@y.example", "b\x00"]])
@story
async def test_no_name_breaks_out_of_its_line(stage: Stage, names: list[str]) -> None:
    await stage.rule(Kind.DEAD_LETTERED)
    stage.node()
    await stage.fail(*names)
    await stage.wait(5_000)
    assert len(stage.told) == 2
    for told in stage.told:
        assert told.message.title.isprintable()
        assert "\nBcc" not in told.message.text


@story
async def test_a_job_that_a_replica_does_not_have_yet_is_waited_for(stage: Stage) -> None:
    await stage.rule(Kind.DEAD_LETTERED, job_name_prefix="rep")
    lagging = Lagging(stage.world.store)
    stage.node(jobs=lagging)
    lagging.lags = True
    await stage.fail("report")
    await stage.wait(20_000)
    assert stage.told == []
    lagging.lags = False
    await stage.wait(5_000)
    assert [told.count for told in stage.told] == [1]


@story
async def test_a_job_that_is_gone_is_told_to_who_takes_all_jobs(stage: Stage) -> None:
    await stage.rule(Kind.DEAD_LETTERED)
    await stage.rule(Kind.DEAD_LETTERED, name="some", job_name_prefix="rep")
    lagging = Lagging(stage.world.store)
    stage.node(jobs=lagging)
    lagging.lags = True
    [job_id] = await stage.fail("report")
    await stage.wait(2 * MINUTE_MS)
    [told] = stage.told
    assert (told.body["data"]["rule"], told.body["data"]["about"]) == ("ops", job_id_text(job_id))
    assert list(await stage.world.store.notices(10)) == []


@story
async def test_an_odd_error_is_told_and_stops_nothing(stage: Stage) -> None:
    await stage.rule(Kind.DEAD_LETTERED)
    stage.node()
    odd = Outcome(outcome_class=OutcomeClass.PERMANENT, error="\ud800\x00\x1b[31m" + "x" * 5_000)
    stage.world.behave = lambda work: odd
    await stage.fail("report")
    await stage.wait(5_000)
    [told] = stage.told
    assert len(told.message.body) < 3_000
    assert "\x1b" not in told.message.text
