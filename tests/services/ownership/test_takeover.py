"""Deaths: how long shards are without an owner, and who is held to be dead."""

import pytest

from tickwheel.domain.ids import SHARD_COUNT
from tickwheel.ports.events import MemberLost, MembershipFrozen, ShardsTaken

from .cluster import Cluster, Node, clustered


def shares(nodes: list[Node]) -> list[int]:
    return [len(node.shards) for node in nodes]


@clustered
async def test_a_node_alone_takes_everything_at_once(cluster: Cluster) -> None:
    [a] = await cluster.start("a")
    took_ms = await cluster.until(lambda: len(a.shards) == SHARD_COUNT, 1_000)
    assert took_ms <= 300
    assert {taken.epoch for taken in a.intake.adopted} == {1}


@clustered
async def test_nodes_share_the_shards(cluster: Cluster) -> None:
    nodes = await cluster.settled("a", "b", "c")
    assert all(50 < share < 120 for share in shares(nodes))
    assert not any(node.told(MemberLost) for node in nodes)


@clustered
async def test_a_killed_node_is_replaced_within_600_ms(cluster: Cluster) -> None:
    """Its port refuses and its beats end: proved dead after two missing beats, not after a second."""
    a, b, c = await cluster.settled("a", "b", "c")
    await c.kill()
    took_ms = await cluster.until(cluster.is_shared, 2_000)
    assert took_ms <= 600
    assert cluster.is_dead(c.incarnation)
    assert [event for node in (a, b) for event in node.told(MemberLost) if event.proved]


@clustered
async def test_the_dead_are_cleared_away(cluster: Cluster) -> None:
    [a, b] = await cluster.settled("a", "b")
    await b.kill()
    await cluster.pass_ms(2_000)
    assert list(await cluster.coordinator.members()) == [a.incarnation]


@clustered
async def test_of_two_nodes_one_outlives_the_other(cluster: Cluster) -> None:
    """G2: the survivor does not wait for beats of others, because there are none."""
    a, b = await cluster.settled("a", "b")
    b.clock.stop()
    cluster.network.cut_off.add(b.ownership.process)
    took_ms = await cluster.until(lambda: len(a.shards) == SHARD_COUNT, 3_000)
    assert 1_000 <= took_ms <= 1_500


@clustered
async def test_a_stopped_process_is_deposed_but_not_held_to_be_dead(cluster: Cluster) -> None:
    """Its port still accepts: it may wake up, so what it started may still be running."""
    _, _, c = await cluster.settled("a", "b", "c")
    c.clock.stop()
    took_ms = await cluster.until(lambda: not c.shards - held_by_others(cluster, c), 3_000)
    assert 1_000 <= took_ms <= 1_500
    assert cluster.is_deposed(c.incarnation)
    assert not cluster.is_dead(c.incarnation)


def held_by_others(cluster: Cluster, one: Node) -> set[int]:
    return {shard for node in cluster.nodes if node is not one for shard in node.shards}


@clustered
async def test_a_silent_node_whose_process_ends_is_proved_dead_later(cluster: Cluster) -> None:
    _, b = await cluster.settled("a", "b")
    b.clock.stop()
    await cluster.pass_ms(3_000)
    assert not cluster.is_dead(b.incarnation)
    await b.peers.aclose()
    await cluster.pass_ms(1_200)
    assert cluster.is_dead(b.incarnation)
    b.clock.resume()


@clustered
async def test_a_node_that_can_not_be_reached_is_only_silent(cluster: Cluster) -> None:
    _, b = await cluster.settled("a", "b")
    cluster.network.cut_off.add(b.ownership.process)
    b.coordinator.away = True
    await cluster.pass_ms(2_000)
    assert cluster.is_deposed(f"{b.ownership.process}.1")
    assert not cluster.is_dead(f"{b.ownership.process}.1")


@clustered
async def test_a_closed_port_alone_kills_nobody(cluster: Cluster) -> None:
    """The peer port may break; the beats say that the node lives."""
    nodes = await cluster.settled("a", "b")
    await nodes[1].peers.aclose()
    await cluster.pass_ms(5_000)
    assert cluster.is_shared()
    assert not any(node.told(MemberLost) for node in nodes)


@clustered
async def test_a_paused_node_that_wakes_up_after_40_s_owns_nothing_under_its_old_name(cluster: Cluster) -> None:
    a, b = await cluster.settled("a", "b")
    former, before = b.incarnation, set(b.shards)
    b.clock.stop()
    await cluster.pass_ms(40_000)
    assert len(a.shards) == SHARD_COUNT
    assert b.shards == before  # it knows nothing yet; the store would refuse its claims
    b.clock.resume()
    await cluster.pass_ms(3_000)
    assert b.incarnation != former
    assert cluster.is_deposed(former)
    assert cluster.is_shared()
    assert not a.told(MemberLost)[1:], "only the first incarnation died"
    assert not b.told(MemberLost), "the pause of one's own is no silence of others"


@clustered
async def test_its_former_name_can_own_nothing_any_more(cluster: Cluster) -> None:
    """D1: a take or a release of the old incarnation is refused by the store."""
    a, b = await cluster.settled("a", "b")
    former = b.incarnation
    b.clock.stop()
    await cluster.pass_ms(2_000)
    seen = {state.shard: state.epoch for state in cluster.states()}
    assert await b.store.take(former, seen) == []
    assert len(a.shards) == SHARD_COUNT


@clustered
async def test_everybody_is_dead_and_one_starts_alone(cluster: Cluster) -> None:
    nodes = await cluster.settled("a", "b", "c")
    for node in nodes:
        await node.kill()
    await cluster.pass_ms(60_000)
    [d] = await cluster.start("d")
    took_ms = await cluster.until(lambda: len(d.shards) == SHARD_COUNT, 3_000)
    assert took_ms <= 800
    assert all(cluster.is_dead(node.incarnation) for node in nodes)


@clustered
async def test_an_owner_that_the_coordinator_does_not_know_is_deposed_after_a_second(cluster: Cluster) -> None:
    a, b = await cluster.settled("a", "b")
    await b.kill()
    await cluster.coordinator.leave(b.incarnation)
    took_ms = await cluster.until(lambda: len(a.shards) == SHARD_COUNT, 3_000)
    assert 1_000 <= took_ms <= 3_000
    assert not cluster.is_dead(b.incarnation)


@clustered
async def test_a_coordinator_outage_freezes_membership_and_kills_nobody(cluster: Cluster) -> None:
    """G2: after one's own beats failed, all absences start anew."""
    nodes = await cluster.settled("a", "b", "c")
    before = [node.shards for node in nodes]
    for node in nodes:
        node.coordinator.away = True
    await cluster.pass_ms(30_000)
    assert [node.shards for node in nodes] == before
    for node in nodes:
        node.coordinator.away = False
        await cluster.pass_ms(300)  # one after the other
    await cluster.pass_ms(3_000)
    assert [node.shards for node in nodes] == before
    assert not any(node.told(MemberLost) for node in nodes)
    assert [event.frozen for event in nodes[0].told(MembershipFrozen)] == [True, False]


@clustered
async def test_an_old_view_of_the_beats_kills_nobody(cluster: Cluster) -> None:
    """G2: own beats must be *read back*. A stale replica shows all counters standing still, one's own as well."""
    nodes = await cluster.settled("a", "b", "c")
    before = [node.shards for node in nodes]
    nodes[0].coordinator.old_view = await cluster.coordinator.members()
    await cluster.pass_ms(10_000)
    nodes[0].coordinator.old_view = None
    await cluster.pass_ms(3_000)
    assert [node.shards for node in nodes] == before
    assert not any(node.told(MemberLost) for node in nodes)


@clustered
async def test_a_coordinator_that_comes_back_empty_kills_nobody(cluster: Cluster) -> None:
    nodes = await cluster.settled("a", "b", "c")
    for node in nodes:
        await cluster.coordinator.leave(node.incarnation)
    await cluster.pass_ms(5_000)
    assert cluster.is_shared()
    assert not any(node.told(MemberLost) for node in nodes)


@clustered
async def test_deaths_in_an_outage_are_found_after_it(cluster: Cluster) -> None:
    nodes = await cluster.settled("a", "b", "c")
    for node in nodes:
        node.coordinator.away = True
    await cluster.pass_ms(500)
    await nodes[2].kill()
    await cluster.pass_ms(5_000)
    assert not cluster.is_shared()
    for node in nodes:
        node.coordinator.away = False
    await cluster.until(cluster.is_shared, 2_000)


@clustered
async def test_a_node_that_loses_only_the_store_gives_its_place_up(cluster: Cluster) -> None:
    """G4: no beat without a recent answer from the store, or it would live for ever and fire nothing."""
    a, b = await cluster.settled("a", "b")
    b.store.away = True
    took_ms = await cluster.until(lambda: len(a.shards) == SHARD_COUNT, 5_000)
    assert took_ms <= 2_500
    b.store.away = False
    await cluster.pass_ms(5_000)
    assert cluster.is_shared()


@clustered
async def test_a_store_that_is_away_for_all_moves_nothing(cluster: Cluster) -> None:
    nodes = await cluster.settled("a", "b")
    before = [node.shards for node in nodes]
    for node in nodes:
        node.store.away = True
    await cluster.pass_ms(30_000)
    for node in nodes:
        node.store.away = False
    await cluster.pass_ms(5_000)
    assert [node.shards for node in nodes] == before
    assert not any(node.told(MemberLost) for node in nodes)


@pytest.mark.pitfall(44)
@pytest.mark.pitfall(46)
@clustered
async def test_a_wrong_clock_declares_nobody_dead(cluster: Cluster) -> None:
    [a] = await cluster.start("a")
    [b] = await cluster.start("b", skew_ms=120_000)
    [c] = await cluster.start("c")
    await cluster.pass_ms(3_000)
    b.clock.skew_ms = -3_600_000
    await cluster.pass_ms(10_000)
    b.clock.skew_ms = 0
    await cluster.pass_ms(10_000)
    assert cluster.is_shared()
    assert not any(node.told(MemberLost) for node in (a, b, c))


@pytest.mark.pitfall(22)
@clustered
async def test_nodes_of_one_name_are_three_nodes(cluster: Cluster) -> None:
    """G1: an owner is one start of one process; three with the same host name share the shards."""
    nodes = await cluster.settled("same", "same", "same")
    assert len({node.incarnation for node in nodes}) == 3
    assert all(50 < share < 120 for share in shares(nodes))


@clustered
async def test_a_second_process_under_the_name_of_a_stopped_one_is_somebody_else(cluster: Cluster) -> None:
    """G1: the supervisor starts it again while the first hangs; both would pass one epoch."""
    [first] = await cluster.settled("a")
    first.clock.stop()
    [second] = await cluster.start("a")
    await cluster.pass_ms(3_000)
    assert len(second.shards) == SHARD_COUNT
    first.clock.resume()
    await cluster.pass_ms(5_000)
    assert cluster.is_shared()


@pytest.mark.pitfall(47)
@clustered
async def test_twenty_deaths_in_a_row_leave_no_shard_without_an_owner_for_a_second(cluster: Cluster) -> None:
    nodes = await cluster.settled("a", "b", "c")
    for number in range(20):
        leader = next(node for node in nodes if node.ownership.leadership.is_leader())
        nodes.remove(leader)
        await leader.kill()
        assert await cluster.until(cluster.is_shared, 2_000) <= 1_000
        nodes += await cluster.start(f"node-{number}")
        await cluster.pass_ms(4_000)
        assert cluster.is_shared()
        assert sum(node.ownership.leadership.is_leader() for node in nodes) == 1


@clustered
async def test_every_acquisition_has_a_new_epoch(cluster: Cluster) -> None:
    """D3: also one by the same node."""
    nodes = await cluster.settled("a", "b")
    for node in nodes:
        await node.kill()
    nodes = await cluster.settled("a", "b")
    for node in nodes:
        epochs: dict[int, int] = {}
        for taken in node.intake.adopted:
            assert taken.epoch > epochs.get(taken.shard, 1)
            epochs[taken.shard] = taken.epoch
    assert {event.cause for node in nodes for event in node.told(ShardsTaken)} == {"takeover"}
