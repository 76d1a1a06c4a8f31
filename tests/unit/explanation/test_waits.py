"""Why a run began late: the delays that lie over its wait, the weightiest first, and what nobody knows."""

from collections.abc import Sequence

import pytest

from tickwheel.domain.delays import Delay, DelayKind, shards_text
from tickwheel.domain.explanation import Circumstances, Code, Explanation, Held, Nearby, explain_run
from tickwheel.domain.job import Job, Lane, Overlap, ScheduleType, Spec, Target, TargetType
from tickwheel.domain.run import RunState, SkipReason
from tickwheel.ports.store import Run

DUE_MS = 1_790_000_000_000
SHARD = 7
SPEC = Spec(target=Target(TargetType.HTTP_WEBHOOK, "https://a.example/x"))
JOB = Job(
    b"\0" * 16, "default", "j", ScheduleType.ONE_OFF, Lane.HIGH, SPEC, "", DUE_MS - 60_000, scheduled_ms=DUE_MS
)


def delay(
    kind: DelayKind, from_ms: int, until_ms: int, subject: str = "s", detail: str = "", shards: str = ""
) -> Delay:
    return Delay(kind, subject, "node-2", DUE_MS + from_ms, DUE_MS + until_ms, detail, shards)


def told(
    late_ms: int,
    *delays: Delay,
    claimed_ms: int | None = None,
    armed_ms: int = -60_000,
    job: Job = JOB,
    pauses: Sequence[Held] = (),
    earlier: Sequence[Nearby] = (),
) -> Explanation:
    """Of a run that began so late and succeeded."""
    run = Run(
        job.job_id,
        "default",
        DUE_MS,
        RunState.SUCCEEDED,
        0,
        1,
        1,
        job.lane,
        armed_ms=DUE_MS + armed_ms,
        claimed_ms=DUE_MS + (late_ms if claimed_ms is None else claimed_ms),
        started_ms=DUE_MS + late_ms,
        finished_ms=DUE_MS + late_ms + 10,
    )
    return explain_run(run, Circumstances(job, DUE_MS + 100_000, SHARD, delays, pauses, earlier))


def codes(explanation: Explanation) -> list[Code]:
    return [cause.code for cause in explanation.causes]


def test_takeover_is_told_with_both_nodes() -> None:
    lost = delay(DelayKind.TAKEOVER, 400, 2_300, "node-1.1", "proved", shards_text({SHARD}))
    explanation = told(2_400, lost)
    assert explanation.headline == (
        "Ran 2.4 s late: the node that owned its shard, node-1.1, died; node-2 took over after 1.9 s. "
        "The first attempt succeeded."
    )
    assert codes(explanation) == [Code.TAKEOVER]


def test_takeover_of_other_shards_is_no_reason() -> None:
    lost = delay(DelayKind.TAKEOVER, 400, 2_300, shards=shards_text({SHARD + 1}))
    explanation = told(2_400, lost)
    assert codes(explanation) == [Code.LATE_CLAIM]
    assert "for 2.4 s it waited to be claimed, and nothing that is recorded says why" in explanation.headline


def test_half_a_second_is_on_time() -> None:
    held = delay(DelayKind.STORE, 0, 499)
    assert codes(told(499, held)) == []
    assert codes(told(500, held)) == [Code.STORE_AWAY]


def test_the_longest_part_of_a_wait_comes_first() -> None:
    explanation = told(
        10_000,
        delay(DelayKind.STORE, 0, 2_000),
        delay(DelayKind.SLOTS, 2_000, 10_000, "webhook/HIGH"),
        delay(DelayKind.TARGET, 20_000, 30_000, "a.example", "failing"),
    )
    assert codes(explanation) == [Code.SLOTS_TAKEN, Code.STORE_AWAY]
    slots, store = explanation.causes
    assert (store.from_ms, store.until_ms) == (DUE_MS, DUE_MS + 2_000)
    assert (slots.from_ms, slots.until_ms) == (DUE_MS + 2_000, DUE_MS + 10_000)


def test_what_is_left_over_is_said_to_be_unknown() -> None:
    assert codes(told(10_000, delay(DelayKind.STORE, 0, 4_000))) == [Code.LATE_CLAIM, Code.STORE_AWAY]
    assert codes(told(10_000, delay(DelayKind.STORE, 0, 6_000))) == [Code.STORE_AWAY]


def test_what_covers_next_to_nothing_is_no_cause() -> None:
    store, slots = delay(DelayKind.STORE, 0, 499), delay(DelayKind.SLOTS, 0, 9_900, "webhook/HIGH")
    assert codes(told(10_000, slots, store)) == [Code.SLOTS_TAKEN]
    assert codes(told(9_980, slots, store)) == [Code.SLOTS_TAKEN, Code.STORE_AWAY]


def test_delays_are_clipped_to_the_wait() -> None:
    [cause] = told(1_000, delay(DelayKind.STORE, -50_000, 50_000)).causes
    assert (cause.from_ms, cause.until_ms) == (DUE_MS, DUE_MS + 1_000)


def test_a_delay_that_was_noted_just_now_may_go_on() -> None:
    run = Run(JOB.job_id, "default", DUE_MS, RunState.SCHEDULED, 0, 0, 0, JOB.lane)
    held = delay(DelayKind.STORE, 0, 1_000)
    for now_ms, code in ((14_000, Code.STORE_AWAY), (14_001, Code.LATE_CLAIM)):
        explanation = explain_run(run, Circumstances(JOB, DUE_MS + now_ms, SHARD, [held]))
        assert codes(explanation)[0] is code


def test_many_delays_of_a_kind_are_one_cause() -> None:
    held = [delay(DelayKind.TARGET, n * 1_000, n * 1_000 + 900, "a.example", "full") for n in range(5)]
    explanation = told(5_000, *held)
    assert codes(explanation) == [Code.TARGET_BUSY]


def test_a_claimed_run_that_no_worker_took_lay_in_the_queue() -> None:
    explanation = told(3_000, claimed_ms=10)
    assert codes(explanation) == [Code.QUEUED]
    assert "it was claimed, and for 2.9 s no worker began it" in explanation.headline


@pytest.mark.parametrize(
    ("found", "code", "words"),
    [
        (delay(DelayKind.START, -9_000, 3_000), Code.NOT_RUNNING, "no server was running from "),
        (delay(DelayKind.TARGET, 0, 3_000, "a.example", "failing"), Code.TARGET_TROUBLED, "answered nothing"),
        (delay(DelayKind.TARGET, 0, 3_000, "a.example", "retry_after"), Code.TARGET_TROUBLED, "to be left alone"),
        (delay(DelayKind.TARGET, 0, 3_000, "a.example", "slowed"), Code.TARGET_TROUBLED, "pushed back"),
        (delay(DelayKind.TARGET, 0, 3_000, "a.example", "rate"), Code.TARGET_BUSY, "the rate that is set for"),
        (delay(DelayKind.LIMIT, 0, 3_000, "tenant\ndefault\n"), Code.TENANT_LIMIT, "its tenant may use"),
        (
            delay(DelayKind.LIMIT, 0, 3_000, "job_name\ndefault\nj"),
            Code.LIMIT,
            "the limit of all jobs of its name",
        ),
        (delay(DelayKind.TENANT, 0, 3_000, "default", "disabled"), Code.TENANT_DISABLED, "was disabled for 3 s"),
        (delay(DelayKind.TENANT, 0, 3_000, "default", "due_per_second"), Code.TENANT_RATE, "in a second as may"),
        (delay(DelayKind.SLOTS, 0, 3_000, "worker/HIGH"), Code.SLOTS_TAKEN, "of the workers elsewhere"),
        (delay(DelayKind.WORKER, 0, 200, "send"), Code.WORKER_ABSENT, "no worker that lived did it"),
        (delay(DelayKind.STORE, 0, 3_000, "claims"), Code.STORE_AWAY, "could not work with the store for 3 s"),
    ],
)
def test_each_kind_of_delay_has_its_words(found: Delay, code: Code, words: str) -> None:
    explanation = told(3_000, found)
    assert codes(explanation) == [code]
    assert words in explanation.headline


def test_a_pause_and_a_late_creation_are_told() -> None:
    assert codes(told(5_000, pauses=[Held(DUE_MS - 1_000, DUE_MS + 5_000)])) == [Code.PAUSED]
    assert codes(told(5_000, pauses=[Held(DUE_MS - 9_000, DUE_MS - 1_000)])) == [Code.LATE_CLAIM]
    assert codes(told(5_000, armed_ms=4_900)) == [Code.CREATED_LATE]


def test_an_earlier_run_that_overlaps_is_told() -> None:
    spec = Spec(target=SPEC.target, cron="* * * * *", overlap=Overlap.BUFFER_ONE)
    job = Job(b"\0" * 16, "default", "j", ScheduleType.CRON, Lane.HIGH, spec, "", DUE_MS - 600_000)
    before = Nearby(DUE_MS - 60_000, RunState.SUCCEEDED, DUE_MS - 60_000, DUE_MS + 4_800)
    explanation = told(5_000, job=job, earlier=[before])
    assert codes(explanation) == [Code.OVERLAP]
    assert "they may not overlap" in explanation.headline


@pytest.mark.parametrize(
    ("reason", "code"),
    [
        (SkipReason.SUPERSEDED, Code.SUPERSEDED),
        (SkipReason.LIMIT, Code.LIMIT),
        (SkipReason.PAUSED, Code.PAUSED),
        (SkipReason.OVERLAP, Code.OVERLAP),
        (SkipReason.NONE, Code.NO_RECORD),
    ],
)
def test_each_reason_for_a_skip_has_its_code(reason: SkipReason, code: Code) -> None:
    run = Run(JOB.job_id, "default", DUE_MS, RunState.SKIPPED, 0, 0, 0, JOB.lane, reason, finished_ms=DUE_MS)
    explanation = explain_run(run, Circumstances(JOB, DUE_MS + 1, SHARD))
    assert codes(explanation) == [code]
    assert explanation.headline.startswith("Did not run: ")
