"""Planned moves: a node joins, drains, becomes unfit; and what a look finds that went wrong before."""

import asyncio

import pytest

from tickwheel.domain.errors import StoreUnavailable
from tickwheel.domain.ids import SHARD_COUNT
from tickwheel.ports.events import Deposed, MemberLost, ShardsLeft, ShardsTaken
from tickwheel.services.ownership.node_note import NodeNote
from tickwheel.services.ownership.ownership import OwnershipSettings

from .cluster import PAIR, Cluster, Node, clustered


async def longest_gap_ms(cluster: Cluster, length_ms: int) -> int:
    """The longest time that a shard was held by nobody while the cluster went on."""
    gaps, longest = [0] * SHARD_COUNT, 0
    for _ in range(0, length_ms, 5):
        await cluster.pass_ms(5)
        held = {shard for node in cluster.nodes for shard in node.shards - node.intake.stopped}
        for shard in range(SHARD_COUNT):
            gaps[shard] = 0 if shard in held else gaps[shard] + 5
        longest = max(longest, *gaps)
    return longest


@clustered
async def test_a_newcomer_gets_its_part_without_a_gap(cluster: Cluster) -> None:
    a, b = await cluster.settled("a", "b")
    [c] = await cluster.start("c")
    assert await longest_gap_ms(cluster, 3_000) <= 50
    assert cluster.is_shared()
    assert all(node.shards for node in (a, b, c))
    assert not any(node.told(MemberLost) for node in cluster.nodes)


@clustered
async def test_without_nudges_the_gap_stays_under_200_ms(cluster: Cluster) -> None:
    """A nudge is a hint that may be lost."""
    nodes = await cluster.settled("a", "b")
    nodes += await cluster.start("c")
    for node in nodes:
        cluster.network.cut_off.add(node.ownership.process)
    assert await longest_gap_ms(cluster, 4_000) <= 200
    assert cluster.is_shared()


@clustered
async def test_a_planned_stop_leaves_no_gap(cluster: Cluster) -> None:
    _, _, c = await cluster.settled("a", "b", "c")
    stopping = asyncio.ensure_future(c.ownership.hand_over(5_000))
    assert await longest_gap_ms(cluster, 2_000) <= 50
    assert stopping.done()
    assert not c.shards
    ending = asyncio.ensure_future(c.shut_down())
    await cluster.pass_ms(500)
    assert ending.done()
    assert cluster.is_shared()
    assert cluster.is_dead(c.incarnation), "nothing of it runs: its runs need not wait for their leases"
    await cluster.pass_ms(3_000)
    assert sorted(await cluster.coordinator.members()) == sorted(node.incarnation for node in cluster.nodes)
    assert not any(node.told(MemberLost) for node in cluster.nodes)


@clustered
async def test_who_leaves_ends_under_all_of_its_names(cluster: Cluster) -> None:
    """What it claimed before it was deposed and joined again need not wait for its lease either."""
    a, b = await cluster.settled("a", "b")
    former = b.incarnation
    await a.store.depose(former, proved_dead=False)
    await cluster.pass_ms(5_000)
    ending = asyncio.ensure_future(b.shut_down())
    await cluster.pass_ms(2_000)
    assert ending.done()
    assert cluster.is_dead(former)
    assert cluster.is_dead(b.incarnation)


@clustered
async def test_a_draining_node_stays_a_member_until_it_leaves(cluster: Cluster) -> None:
    """Its attempts still run: nobody may hold it to be dead."""
    a, b = await cluster.settled("a", "b")
    stopping = asyncio.ensure_future(b.ownership.hand_over(5_000))
    await cluster.pass_ms(20_000)
    await stopping
    assert len(a.shards) == SHARD_COUNT
    assert not cluster.is_deposed(b.incarnation)


@clustered
async def test_the_last_node_gives_its_shards_up_too(cluster: Cluster) -> None:
    [a] = await cluster.settled("a")
    stopping = asyncio.ensure_future(a.shut_down())
    await cluster.pass_ms(2_000)
    await stopping
    assert all(state.owner is None for state in cluster.states())
    assert len(cluster.tables.ownership.pairs) == SHARD_COUNT
    [b] = await cluster.start("b")
    assert await cluster.until(lambda: len(b.shards) == SHARD_COUNT, 1_000) <= 300
    assert {event.cause for event in b.told(ShardsTaken)} == {"free"}


@clustered
async def test_a_stop_ends_in_time_without_the_store(cluster: Cluster) -> None:
    _, b = await cluster.settled("a", "b")
    b.store.away = b.coordinator.away = True
    stopping = asyncio.ensure_future(b.shut_down())
    await cluster.pass_ms(9_000)
    assert stopping.done()


@clustered
async def test_giving_up_ends_the_claims_first_and_stores_the_pair(cluster: Cluster) -> None:
    """G6: stop claims, wait for open ones, store the pair, forget, release."""
    [a] = await cluster.settled("a")
    a.intake.acts.clear()
    await cluster.start("b")
    await cluster.pass_ms(3_000)
    kinds = [kind for kind, _ in a.intake.acts]
    assert kinds == ["quiesce", "drop"] * (len(kinds) // 2)
    given = {shard for kind, shards in a.intake.acts if kind == "drop" for shard in shards}
    assert {shard: cluster.tables.ownership.pairs[shard].ack_ms for shard in given} == dict.fromkeys(
        given, PAIR.ack_ms
    )
    assert given == cluster.nodes[1].shards


@clustered
async def test_groups_are_small_so_that_each_shard_waits_for_few_others(cluster: Cluster) -> None:
    [a] = await cluster.settled("a")
    a.intake.claim_ms = 40
    a.intake.acts.clear()
    await cluster.start("b", "c")
    assert await longest_gap_ms(cluster, 3_000) <= 100
    assert cluster.is_shared()
    groups = [shards for kind, shards in a.intake.acts if kind == "quiesce"]
    heirs = [[node.name for node in cluster.nodes if set(group) <= node.shards] for group in groups]
    assert all(len(group) <= OwnershipSettings().group_shards for group in groups)
    assert all(heirs), "a group goes to one node, which loads it as one"


@clustered
async def test_an_unfit_node_gives_its_shards_to_fit_ones_and_takes_them_back(cluster: Cluster) -> None:
    """G3: it says so in its beat, so it is not ranked; a node that is top-ranked and refuses would block."""
    a, b = await cluster.settled("a", "b")
    b.ownership.set_unfit("its clock is 7 s off")
    assert await longest_gap_ms(cluster, 2_000) <= 50
    assert len(a.shards) == SHARD_COUNT
    assert a.ownership.members()[0].note.unfit == "its clock is 7 s off"
    b.ownership.set_unfit("")
    await cluster.pass_ms(2_000)
    assert cluster.is_shared()
    assert b.shards


@clustered
async def test_shards_are_kept_while_nobody_is_fit(cluster: Cluster) -> None:
    nodes = await cluster.settled("a", "b")
    for node in nodes:
        node.ownership.set_unfit("its clock is off")
    await cluster.pass_ms(5_000)
    assert cluster.is_shared()


@clustered
async def test_a_node_of_another_role_owns_nothing(cluster: Cluster) -> None:
    [a] = await cluster.settled("a")
    [w] = await cluster.start("w", note=NodeNote(name="w", roles=("worker",)))
    await cluster.pass_ms(3_000)
    assert (len(a.shards), len(w.shards)) == (SHARD_COUNT, 0)
    assert not w.ownership.leadership.is_leader()


@clustered
async def test_a_take_whose_answer_was_lost_is_taken_again_under_a_higher_epoch(cluster: Cluster) -> None:
    """G5: the shards stand under our name without being held; a higher-ranked node would wait for ever."""
    [a] = await cluster.start("a")
    a.store.loses_answer_of = "take"
    await cluster.pass_ms(3_000)
    assert cluster.is_shared()
    assert {taken.epoch for taken in a.intake.adopted} == {2}
    assert {event.cause for event in a.told(ShardsTaken)} == {"own"}


@clustered
async def test_a_take_whose_answer_was_lost_is_released_when_somebody_else_should_own(cluster: Cluster) -> None:
    """G5, the other half: by the time it is found, another node is top-ranked."""
    [a] = await cluster.start("a")
    a.store.loses_answer_of = "take"
    await cluster.start("b")
    await cluster.pass_ms(4_000)
    assert cluster.is_shared()


@clustered
async def test_a_release_that_failed_is_made_up_for(cluster: Cluster) -> None:
    [a] = await cluster.settled("a")
    a.store.loses_answer_of = "release"
    await cluster.start("b")
    await cluster.pass_ms(5_000)
    assert cluster.is_shared()
    assert a.store.loses_answer_of is None


@clustered
async def test_a_shard_that_is_somebody_elses_in_the_store_is_dropped_within_a_second(cluster: Cluster) -> None:
    [a] = await cluster.settled("a")
    cluster.tables.ownership.enlist("ghost")
    row = cluster.tables.ownership.shards[7]
    row.epoch, row.owner = row.epoch + 1, "ghost"
    await cluster.pass_ms(1_100)
    assert 7 not in a.intake.loaded
    assert [event.cause for event in a.told(ShardsLeft)] == ["lost"]
    await cluster.pass_ms(5_000)
    assert cluster.is_shared(), "the ghost never beats, so it is deposed and its shard taken"


@clustered
async def test_a_refused_claim_drops_the_shard_at_once(cluster: Cluster) -> None:
    """C5: deposed means drop it and everything in memory about it; it may be ours again under a new epoch."""
    [a] = await cluster.settled("a")
    epoch = int(a.holdings.epochs[3])
    a.ownership.lost({3: epoch, 4: epoch - 1})
    assert 3 not in a.intake.loaded
    assert 4 in a.shards, "that claim was made under an older epoch"
    await cluster.pass_ms(500)
    assert a.holdings.epochs[3] == epoch + 1


@clustered
async def test_who_finds_itself_deposed_drops_all_and_starts_again_under_a_new_name(cluster: Cluster) -> None:
    a, b = await cluster.settled("a", "b")
    former = b.incarnation
    await a.store.depose(former, proved_dead=False)
    shard = min(b.shards)
    b.ownership.lost({shard: int(b.holdings.epochs[shard])})
    await cluster.pass_ms(50)
    assert b.told(Deposed) == [Deposed(incarnation=former, successor=f"{b.ownership.process}.2")]
    await cluster.pass_ms(3_000)
    assert cluster.is_shared()
    assert former not in await cluster.coordinator.members()


@clustered
async def test_a_process_is_not_dead_because_its_former_incarnation_is(cluster: Cluster) -> None:
    """It still answers at its port, under the same process name."""
    a, b = await cluster.settled("a", "b")
    former = b.incarnation
    await a.store.depose(former, proved_dead=False)
    await cluster.pass_ms(10_000)
    assert cluster.is_shared()
    assert not cluster.is_dead(former)
    await b.kill()
    await cluster.pass_ms(1_000)
    assert cluster.is_dead(former), "its process is gone, so all of its names are"


@clustered
async def test_tokens_that_run_out_are_followed_by_a_new_epoch(cluster: Cluster) -> None:
    """D5: the owner ends its open claims and takes a new epoch from itself."""
    [a] = await cluster.settled("a")
    before = int(a.holdings.epochs[9])
    a.intake.acts.clear()
    a.ownership.exhausted([9])
    await cluster.pass_ms(500)
    assert a.holdings.epochs[9] == before + 1
    assert a.intake.acts == [("quiesce", (9,)), ("drop", (9,)), ("adopt", (9,))]


@clustered
async def test_epochs_that_were_raised_by_hand_are_noticed(cluster: Cluster) -> None:
    """D8: after a failover that lost commits all epochs rise by 1024, and nobody claims under the old ones."""
    [a] = await cluster.settled("a")
    for row in cluster.tables.ownership.shards:
        row.epoch += 1_024
    await cluster.pass_ms(3_000)
    assert cluster.is_shared()
    assert min(a.holdings.epochs) > 1_024


@clustered
async def test_a_look_that_fails_is_repeated(cluster: Cluster) -> None:
    nodes = await cluster.settled("a", "b")
    nodes[0].store.away = True
    await cluster.pass_ms(700)
    nodes[0].store.away = False
    await nodes[1].kill()
    await cluster.until(lambda: len(nodes[0].shards) == SHARD_COUNT, 3_000)


@clustered
async def test_start_says_what_is_wrong_with_the_store(cluster: Cluster) -> None:
    node = Node(cluster, "a", NodeNote(name="a"), seed=1, skew_ms=0)
    node.store.away = True
    with pytest.raises(StoreUnavailable):
        await node.ownership.start()
    assert not cluster.network.listeners
