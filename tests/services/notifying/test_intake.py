"""What the node that leads takes in: also with many tenants, and beside nodes of a newer version."""

from tickwheel.domain.notifications.kinds import Kind
from tickwheel.ports.events import LoopFailed
from tickwheel.ports.notices import Notice

from .stage import Stage, story


@story
async def test_a_kind_that_only_a_newer_version_knows_keeps_nothing_else_waiting(stage: Stage) -> None:
    await stage.rule(Kind.DEAD_LETTERED)
    node = stage.node()
    await stage.world.store.add_notices([Notice("run.of_a_later_kind", "default", subject="x")])
    await stage.fail("report")
    await stage.wait(5_000)
    assert stage.kinds == [Kind.DEAD_LETTERED]
    assert node.events.of(LoopFailed) == []
    assert await stage.world.store.notices(10) == []


@story
async def test_the_rules_of_an_event_are_those_of_its_tenant_and_of_the_installation_as_they_are_now(
    stage: Stage,
) -> None:
    rules = await stage.rule(Kind.DEAD_LETTERED)
    assert [*rules.for_events_of("default")] == [("default", "ops")]
    assert rules.for_events_of("other") == rules.for_events_of("") == {}
    await stage.rule(Kind.EXHAUSTED, tenant_id="")
    await stage.rule(Kind.EXHAUSTED)
    await rules.refresh()
    assert [*rules.for_events_of("other")] == [*rules.for_events_of("")] == [("", "ops")]
    assert {rule.events for rule in rules.for_events_of("default").values()} == {(Kind.EXHAUSTED,)}
