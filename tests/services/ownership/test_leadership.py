"""The chores that one node does for all."""

import pytest

from tickwheel.ports.events import LeadershipChanged
from tickwheel.services.ownership.leadership import LOCK_NAME

from .cluster import Cluster, Node, clustered


def leaders(nodes: list[Node]) -> list[Node]:
    return [node for node in nodes if node.ownership.leadership.is_leader()]


@clustered
async def test_one_node_leads(cluster: Cluster) -> None:
    nodes = await cluster.settled("a", "b", "c")
    [leader] = leaders(nodes)
    assert await cluster.coordinator.lock_holder(LOCK_NAME) == leader.incarnation
    assert leader.told(LeadershipChanged) == [LeadershipChanged(leads=True)]
    await cluster.pass_ms(30_000)
    assert leaders(nodes) == [leader]


@clustered
async def test_a_killed_leader_is_followed_under_a_higher_token(cluster: Cluster) -> None:
    nodes = await cluster.settled("a", "b")
    [leader] = leaders(nodes)
    token = leader.ownership.leadership.token
    assert token is not None
    await leader.kill()
    await cluster.until(lambda: bool(leaders(cluster.nodes)), 3_000)
    following = leaders(cluster.nodes)[0].ownership.leadership.token
    assert following is not None
    assert following > token


@clustered
async def test_a_leader_that_stops_as_planned_is_followed_at_once(cluster: Cluster) -> None:
    nodes = await cluster.settled("a", "b")
    [leader] = leaders(nodes)
    leader.ownership.set_unfit("draining, so to say")
    assert await cluster.until(lambda: leaders(nodes) not in ([], [leader]), 2_000) <= 1_100


@pytest.mark.pitfall(49)
@clustered
async def test_an_error_while_taking_the_lock_leaves_no_half_leader(cluster: Cluster) -> None:
    """Whether it was taken is unknown: the node does not lead, asks again, and leads within 2 s."""
    [a] = await cluster.start("a")
    acquire = a.coordinator.acquire_lock
    lost = 0

    async def taken_but_not_answered(name: str, incarnation: str) -> int | None:
        nonlocal lost
        token = await acquire(name, incarnation)
        if token is not None and lost < 3:
            lost += 1
            assert not a.ownership.leadership.is_leader()
            raise ConnectionError("the answer was lost")
        return token

    a.coordinator.acquire_lock = taken_but_not_answered  # type: ignore[method-assign]  # the fault of this test
    assert await cluster.until(lambda: a.ownership.leadership.is_leader(), 4_000) <= 2_000
    assert lost == 3


@pytest.mark.pitfall(49)
@clustered
async def test_an_error_of_another_kind_ends_the_leadership_too(cluster: Cluster) -> None:
    [a] = await cluster.settled("a")
    calls = 0

    async def broken(name: str, incarnation: str) -> int | None:
        nonlocal calls
        calls += 1
        raise RuntimeError("a fault of ours")

    acquire = a.coordinator.acquire_lock
    a.coordinator.acquire_lock = broken  # type: ignore[method-assign]  # the fault of this test
    await cluster.pass_ms(1_000)
    assert calls
    assert not a.ownership.leadership.is_leader()
    a.coordinator.acquire_lock = acquire  # type: ignore[method-assign]  # it is mended
    await cluster.pass_ms(4_000)
    assert a.ownership.leadership.is_leader()


@clustered
async def test_a_leader_whose_question_fails_resigns_until_it_is_answered(cluster: Cluster) -> None:
    [a] = await cluster.settled("a")
    acquire = a.coordinator.acquire_lock

    async def refused(name: str, incarnation: str) -> int | None:
        raise ConnectionError("locks are away, beats are not")

    a.coordinator.acquire_lock = refused  # type: ignore[method-assign]  # the fault of this test
    await cluster.pass_ms(1_000)
    assert not a.ownership.leadership.is_leader()
    a.coordinator.acquire_lock = acquire  # type: ignore[method-assign]  # it is mended
    await cluster.pass_ms(1_000)
    assert a.ownership.leadership.is_leader()


@clustered
async def test_without_a_coordinator_nobody_leads(cluster: Cluster) -> None:
    """A leader that can't show its beats may have lost the lock already."""
    nodes = await cluster.settled("a", "b")
    for node in nodes:
        node.coordinator.away = True
    await cluster.pass_ms(1_200)
    assert leaders(nodes) == []
    for node in nodes:
        node.coordinator.away = False
    await cluster.pass_ms(4_000)
    assert len(leaders(nodes)) == 1


@clustered
async def test_a_leader_that_was_paused_does_not_lead_when_it_wakes_up(cluster: Cluster) -> None:
    nodes = await cluster.settled("a", "b")
    [leader] = leaders(nodes)
    leader.clock.stop()
    await cluster.pass_ms(10_000)
    assert not leader.ownership.leadership.is_leader()
    assert len(leaders(nodes)) == 1
    leader.clock.resume()
    await cluster.pass_ms(3_000)
    assert leaders(nodes) != [leader]
    assert len(leaders(nodes)) == 1


@pytest.mark.pitfall(50)
@clustered
async def test_whoever_leads_may_lead_again(cluster: Cluster) -> None:
    """Leadership carries no state of its own: each node leads in its turn when the one before leaves."""
    nodes = await cluster.settled("a", "b", "c")
    order = []
    while cluster.nodes:
        [leader] = leaders(cluster.nodes)
        order.append(leader)
        await leader.kill()
        if cluster.nodes:
            await cluster.until(lambda: len(leaders(cluster.nodes)) == 1, 4_000)
    assert sorted(node.name for node in order) == sorted(node.name for node in nodes)
