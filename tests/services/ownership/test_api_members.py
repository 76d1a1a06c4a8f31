"""Nodes with the role api alone: seen and counted by all, and without a say in who fires."""

import asyncio

import pytest

from tickwheel.domain.delays import Delay, DelayKind
from tickwheel.domain.ids import SHARD_COUNT
from tickwheel.domain.limits import CONCURRENCY_KEY_CHARS, TENANT_CHARS
from tickwheel.domain.scaling import LaneLoad
from tickwheel.domain.vitals import SECOND_COUNT, LaneVitals, Vitals
from tickwheel.domain.waits import MOST, find_waits
from tickwheel.ports.events import Deposed, MemberLost, ShardsLeft, ShardsTaken
from tickwheel.services.ownership.membership import Standing
from tickwheel.services.ownership.node_note import LARGEST_NOTE_BYTES, NodeNote, decode_note, encode_note

from .cluster import Cluster, Node, clustered

API = NodeNote(name="api", roles=("api",))


def names(node: Node, standing: Standing = Standing.ALIVE) -> list[str]:
    """Whom it holds to be so, itself left out."""
    return sorted(member.note.name for member in node.ownership.members() if member.standing is standing)


async def with_api(cluster: Cluster) -> tuple[Node, Node, Node]:
    """An API node that was there first, and two that fire and have shared all shards."""
    [api] = await cluster.start("api", note=API)
    await cluster.pass_ms(3_000)
    a, b = await cluster.settled("a", "b")
    return api, a, b


def moves(*nodes: Node) -> int:
    return sum(len(node.told(ShardsTaken)) + len(node.told(ShardsLeft)) for node in nodes)


@clustered
async def test_all_see_each_other_and_it_gets_nothing(cluster: Cluster) -> None:
    """G3: even while it is the only member, nobody else being there to lead or to own."""
    [api] = await cluster.start("api", note=API)
    await cluster.pass_ms(3_000)
    assert not api.ownership.leadership.is_leader()
    assert {state.owner for state in cluster.states()} == {None}
    a, b = await cluster.settled("a", "b")
    assert (names(api), names(a), names(b)) == (["a", "b"], ["api", "b"], ["a", "api"])
    assert not api.ownership.leadership.is_leader()
    assert not moves(api)


@clustered
async def test_what_nodes_that_fire_say_reaches_it(cluster: Cluster) -> None:
    api, a, _ = await with_api(cluster)
    a.ownership.say_vitals(Vitals(armed=7, starts=(3,)))
    await cluster.pass_ms(500)
    [seen] = [member.note for member in api.ownership.members() if member.note.name == "a"]
    assert (seen.vitals.armed, seen.vitals.starts) == (7, (3,))
    assert [member.note.leads for member in api.ownership.members()].count(True) == 1


@clustered
async def test_its_death_moves_no_shard(cluster: Cluster) -> None:
    api, a, b = await with_api(cluster)
    before = moves(a, b)
    await api.kill()
    await cluster.pass_ms(3_000)
    assert cluster.is_shared()
    assert moves(a, b) == before
    assert {event.fired for node in (a, b) for event in node.told(MemberLost)} == {False}
    assert (names(a), names(a, Standing.SILENT)) == (["b"], [])


@clustered
async def test_the_death_of_one_that_fires_is_told_as_such(cluster: Cluster) -> None:
    api, a, b = await with_api(cluster)
    await b.kill()
    await cluster.until(lambda: len(a.shards) == SHARD_COUNT, 3_000)
    assert [event.fired for event in a.told(MemberLost)] == [True]
    assert not api.told(MemberLost)


@clustered
async def test_it_deposes_nobody_and_sees_who_is_silent(cluster: Cluster) -> None:
    """All that fire are gone: there is nobody whom it could help by saying so in the store."""
    api, a, b = await with_api(cluster)
    for node in (a, b):
        node.clock.stop()
    await cluster.pass_ms(10_000)
    assert names(api, Standing.SILENT) == ["a", "b"]
    assert not cluster.is_deposed(a.incarnation)
    assert not api.told(MemberLost)
    assert not api.shards
    for node in (a, b):
        node.clock.resume()
    await cluster.pass_ms(1_000)
    assert names(api) == ["a", "b"]
    assert cluster.is_shared()


@clustered
async def test_one_that_hung_is_a_member_again(cluster: Cluster) -> None:
    api, a, b = await with_api(cluster)
    before, former = moves(a, b), api.incarnation
    api.clock.stop()
    await cluster.pass_ms(3_000)
    assert names(a, Standing.SILENT) == ["api"]
    api.clock.resume()
    await cluster.pass_ms(2_000)
    assert [event.incarnation for event in api.told(Deposed)] == [former]
    assert (names(a), names(api)) == (["api", "b"], ["a", "b"])
    assert moves(a, b) == before


@clustered
async def test_one_that_stops_is_gone_at_once_and_is_not_missed(cluster: Cluster) -> None:
    api, a, b = await with_api(cluster)
    ending = asyncio.ensure_future(api.shut_down())
    await cluster.pass_ms(600)
    assert ending.done()
    assert (names(a), names(a, Standing.SILENT)) == (["b"], [])
    assert not a.told(MemberLost) + b.told(MemberLost)


@pytest.mark.parametrize(
    ("roles", "fires"),
    [(("api",), False), (("worker",), False), (("api", "scheduler"), True), (("scheduler",), True), ((), True)],
)
def test_one_whose_roles_are_unknown_may_own_shards(roles: tuple[str, ...], fires: bool) -> None:
    assert NodeNote(roles=roles).fires is fires


def test_a_minute_of_many_starts_leaves_room_in_the_note() -> None:
    """A note that is too long would be that of a node which owns nothing."""
    many = (10**9,) * SECOND_COUNT
    vitals = Vitals((LaneVitals(*[10**12] * 6),) * 4, starts=many, failures=many)
    assert len(encode_note(NodeNote(name="n" * 64, vitals=vitals))) < LARGEST_NOTE_BYTES / 2


def test_the_longest_keys_that_runs_wait_for_leave_room_in_the_note() -> None:
    """Else a tenant with such keys would take its shards from every node that fires them."""
    many, tenant_id = (10**9,) * SECOND_COUNT, "𝔱" * TENANT_CHARS
    keys = [f"{number}{'𝔨' * (CONCURRENCY_KEY_CHARS - 1)}" for number in range(MOST)]
    crowds = [Delay(DelayKind.LIMIT, f"key\n{tenant_id}\n{key}", "node", 10**12, 10**12) for key in keys]
    waits = find_waits(crowds, 10**12)
    assert len(waits) == MOST
    vitals = Vitals((LaneVitals(*[10**12] * 6),) * 4, waits=waits, starts=many, failures=many)
    note = NodeNote(name="n" * 64, load=(LaneLoad(10**9, 10**9, 10**12),) * 4, vitals=vitals)
    assert decode_note(encode_note(note)) == note
