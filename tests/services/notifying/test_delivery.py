"""Nothing is lost or said twice: messages that don't arrive, nodes that die, are paused, or both lead."""

import asyncio
from itertools import pairwise

import pytest

from tickwheel.domain.errors import OutcomeUnknown, StoreUnavailable
from tickwheel.domain.notifications.groups import GIVE_UP_MS
from tickwheel.domain.notifications.kinds import Kind
from tickwheel.ports.events import LoopFailed, NotificationEnded
from tickwheel.services.notifying.notifier import END_MS, UNDER_WAY_OF_TENANT_MAX

from .stage import MINUTE_MS, Stage, story
from .stores import AnsweringLate, CutOff


@story
async def test_a_message_that_does_not_arrive_is_tried_later_and_later_under_the_same_id(stage: Stage) -> None:
    await stage.rule(Kind.DEAD_LETTERED)
    node = stage.node()
    stage.courier.answer = lambda message: "HTTP 503"
    await stage.fail("report")
    await stage.wait(10 * MINUTE_MS)
    tried = stage.courier.tried
    pauses_s = [(b.at_ms - a.at_ms) // 1_000 for a, b in pairwise(tried)]
    assert len(tried) == 6
    assert pauses_s == sorted(pauses_s)
    assert 10 <= pauses_s[0] <= 12
    await stage.fail("report")  # what happens meanwhile is for the next message
    await stage.wait(5 * MINUTE_MS)
    stage.courier.answer = lambda message: None
    await stage.wait(10 * MINUTE_MS)
    assert {one.message.id for one in tried if one.message != stage.told[-1].message} == {stage.told[0].message.id}
    assert {one.message.body for one in tried if one.message.id == stage.told[0].message.id} == {
        stage.told[0].message.body
    }
    assert [told.count for told in stage.told] == [1, 1]
    assert stage.told[0].message.id != stage.told[1].message.id
    assert node.outcomes().count("sent") == 2


@story
async def test_after_hours_a_message_is_dropped_with_a_word(stage: Stage) -> None:
    await stage.rule(Kind.DEAD_LETTERED)
    node = stage.node()
    stage.courier.answer = lambda message: "connection refused"
    await stage.fail("report")
    await stage.wait(GIVE_UP_MS + 30 * MINUTE_MS)
    last = node.events.of(NotificationEnded)[-1]
    assert (last.outcome, last.rule, last.error) == ("dropped", "ops", "connection refused")
    assert node.outcomes().count("dropped") == 1
    count = len(stage.courier.tried)
    await stage.wait(60 * MINUTE_MS)
    assert len(stage.courier.tried) == count
    assert (await stage.world.store.notice_groups()).bodies == {}


@story
async def test_a_restart_says_nothing_twice(stage: Stage) -> None:
    await stage.rule(Kind.DEAD_LETTERED)
    node = stage.node()
    await stage.fail("report")
    await stage.wait(5_000)
    for _ in range(3):
        await node.kill()
        node = stage.node()
        await stage.wait(5_000)
    assert [told.count for told in stage.told] == [1]
    await stage.fail("report")
    await stage.wait(5_000)
    assert len(stage.told) == 1, "the quiet time holds over restarts"


@story
async def test_what_happened_while_no_node_was_there_is_told(stage: Stage) -> None:
    await stage.rule(Kind.DEAD_LETTERED)
    node = stage.node()
    await stage.wait(2_000)
    await node.kill()
    await stage.fail("report")
    await stage.wait(3_600_000)
    stage.node()
    await stage.wait(5_000)
    assert [told.count for told in stage.told] == [1]


@story
async def test_a_message_that_was_under_way_at_a_crash_is_brought_again_as_it_was(stage: Stage) -> None:
    await stage.rule(Kind.DEAD_LETTERED)
    node = stage.node()
    stage.courier.hangs = lambda message: True
    await stage.fail("report")
    await stage.wait(5_000)
    await node.kill()
    await stage.fail("report")
    stage.courier.hangs = lambda message: False
    stage.node()
    await stage.wait(5_000)
    first, second = stage.courier.tried
    assert first.message == second.message


@story
async def test_of_two_nodes_one_sends(stage: Stage) -> None:
    await stage.rule(Kind.DEAD_LETTERED)
    leader, other = stage.node(), stage.node()
    other.leads = False
    await stage.fail("one")
    await stage.wait(5_000)
    assert (leader.outcomes(), other.outcomes()) == (["sent"], [])
    leader.leads, other.leads = False, True
    await stage.fail("two")
    await stage.wait(5_000)
    assert (leader.outcomes(), other.outcomes()) == (["sent"], ["sent"])
    assert [told.body["data"]["about"] for told in stage.told] == ["one", "two"]


@story
async def test_two_that_both_think_they_lead_count_everything_once(stage: Stage) -> None:
    await stage.rule(Kind.DEAD_LETTERED)
    stage.node()
    await stage.wait(500)
    stage.node()
    for _ in range(10):  # so now the one, now the other is the first to see it
        await stage.fail("report")
        await stage.wait(MINUTE_MS + 500)
    await stage.wait(15 * MINUTE_MS)
    by_id = {told.message.id: told.count for told in stage.told}
    assert sum(by_id.values()) == 10
    assert len(by_id) == 2


@story
async def test_a_leader_that_was_paused_writes_nothing_over(stage: Stage) -> None:
    await stage.rule(Kind.DEAD_LETTERED)
    cut = CutOff(stage.world.store)
    stage.node(cut)
    await stage.fail("report")
    await stage.wait(5_000)
    cut.pause()
    await stage.fail("report")
    await stage.wait(2_000)
    stage.node()
    await stage.wait(5_000)
    await stage.fail("report")
    cut.go_on()
    await stage.wait(20 * MINUTE_MS)
    assert [told.count for told in stage.told] == [1, 2]


@pytest.mark.parametrize("error", [StoreUnavailable("away"), OutcomeUnknown("who knows")])
@story
async def test_an_answer_of_the_store_that_is_lost_loses_and_repeats_nothing(
    stage: Stage, error: Exception
) -> None:
    await stage.rule(Kind.DEAD_LETTERED)
    late = AnsweringLate(stage.world.store, error)
    node = stage.node(late)
    for number in range(12):
        late.does_write = number % 2 == 1
        late.fails = True
        await stage.fail("report")
        await stage.wait(3_000)
        late.fails = False
        await stage.wait(2 * MINUTE_MS)
    await stage.wait(20 * MINUTE_MS)
    by_id = {told.message.id: told.count for told in stage.told}
    assert sum(by_id.values()) == 12
    assert node.events.of(LoopFailed)


@story
async def test_a_receiver_that_hangs_keeps_nobody_else_waiting(stage: Stage) -> None:
    await stage.rule(Kind.DEAD_LETTERED, tenant_id="slow")
    await stage.rule(Kind.DEAD_LETTERED, tenant_id="quick")
    stage.node()
    stage.courier.hangs = lambda message: message.tenant_id == "slow"
    await stage.fail(*(f"job-{number}" for number in range(10)), tenant_id="slow")
    await stage.wait(5_000)
    assert len(stage.courier.tried) == UNDER_WAY_OF_TENANT_MAX
    await stage.fail("own", tenant_id="quick")
    await stage.wait(3_000)
    assert [told.message.tenant_id for told in stage.told] == ["quick"]


@story
async def test_a_node_that_is_stopped_writes_down_what_arrived(stage: Stage) -> None:
    await stage.rule(Kind.DEAD_LETTERED)
    node = stage.node()
    stage.courier.hangs = lambda message: True
    await stage.fail("report")
    await stage.wait(3_000)
    stopping = asyncio.ensure_future(node.stop())
    await stage.wait(200)
    stage.courier.release.set()
    await stopping
    assert [told.count for told in stage.told] == [1]
    stage.node()
    await stage.wait(5_000)
    assert len(stage.courier.tried) == 1


@story
async def test_a_node_that_is_stopped_waits_a_moment_only(stage: Stage) -> None:
    await stage.rule(Kind.DEAD_LETTERED)
    node = stage.node()
    stage.courier.hangs = lambda message: True
    await stage.fail("report")
    await stage.wait(3_000)
    stopping = asyncio.ensure_future(node.stop())
    await stage.wait(END_MS)
    await stopping
    stage.courier.hangs = lambda message: False
    stage.node()
    await stage.wait(5_000)
    first, second = stage.courier.tried
    assert first.message == second.message
