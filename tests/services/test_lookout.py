"""What a node knows of all nodes, and what it says about them."""

import asyncio

import pytest

from tickwheel.adapters.memory.store import MemoryStore
from tickwheel.domain.vitals import Standing, Vitals
from tickwheel.ports.store import Counts
from tickwheel.services.live.overview import NOBODY_FIRES, PATIENCE_MS, Lookout
from tickwheel.services.live.pulse import Pulse
from tickwheel.services.live.recent import Recent
from tickwheel.services.ownership.node_note import NodeNote
from tickwheel.services.ownership.ownership import Ownership

from .ownership.cluster import Cluster, clustered

API = NodeNote(name="api", roles=("api",))


def lookout_of(cluster: Cluster, ownership: Ownership) -> Lookout:
    pulse = Pulse(
        Recent(cluster.clock),
        None,
        ownership=lambda: ownership,
        is_leader=ownership.leadership.is_leader,
        name="api",
        version="1.0",
        roles=ownership.note.roles,
    )
    return Lookout(pulse, MemoryStore(cluster.clock), cluster.clock)


@clustered
async def test_an_api_node_tells_of_all_that_fire(cluster: Cluster) -> None:
    [api] = await cluster.start("api", note=API)
    a, b = await cluster.settled("a", "b")
    a.ownership.say_vitals(Vitals(succeeded=3, armed=5, starts=(1, 2)))
    b.ownership.say_vitals(Vitals(succeeded=4, armed=6, starts=(4,)))
    await cluster.pass_ms(500)
    seen = await lookout_of(cluster, api.ownership).look()
    assert [node.name for node in seen.nodes] == ["api", "a", "b"]
    assert [node.is_this for node in seen.nodes] == [True, False, False]
    assert (seen.vitals.succeeded, seen.vitals.armed, seen.vitals.starts) == (7, 11, (1, 6))
    assert seen.standing is Standing.IDLE


@clustered
async def test_an_owner_that_the_coordinator_does_not_know_has_a_name(cluster: Cluster) -> None:
    """As where this node was given another coordinator than those that fire: it must not look like nobody."""
    [api] = await cluster.start("api", note=API)
    await cluster.pass_ms(500)
    cluster.tables.ownership.enlist("ghost.1")
    cluster.tables.ownership.shards[7].owner = "ghost.1"
    await cluster.pass_ms(3_000)
    seen = await lookout_of(cluster, api.ownership).look()
    assert (seen.silent_nodes, seen.standing) == (["ghost.1"], Standing.LATE)


@pytest.mark.parametrize("roles", [("api", "scheduler", "worker"), ("scheduler",)])
def test_one_that_fires_needs_no_other(roles: tuple[str, ...]) -> None:
    cluster = Cluster()
    pulse = Pulse(
        Recent(cluster.clock),
        None,
        ownership=lambda: None,
        is_leader=lambda: True,
        name="here",
        version="1.0",
        roles=roles,
    )
    assert [node.fires for node in pulse.nodes()] == [True]


@clustered
async def test_nothing_is_on_time_when_nobody_who_fires_is_left(cluster: Cluster) -> None:
    """Whoever could tell what is due and waits is gone: that nobody does is no good news."""
    [api] = await cluster.start("api", note=API)
    [a] = await cluster.settled("a")
    lookout = lookout_of(cluster, api.ownership)
    a.ownership.say_vitals(Vitals())  # and so, that it leads
    await cluster.pass_ms(1_000)
    seen = await lookout.look()
    assert (seen.standing, [node.is_leader for node in seen.nodes]) == (Standing.IDLE, [False, True])
    a.clock.stop()
    await cluster.pass_ms(2_000)
    seen = await lookout.look()
    assert (seen.standing, seen.says, seen.silent_nodes) == (Standing.LATE, NOBODY_FIRES, ["a"])
    assert not any(node.is_leader for node in seen.nodes)
    a.clock.resume()
    await cluster.pass_ms(2_000)
    assert (await lookout.look()).standing is Standing.IDLE


class Hanging(MemoryStore):
    """Never has counted."""

    asked = 0

    async def counts(self) -> Counts:
        self.asked += 1
        await asyncio.Event().wait()
        raise AssertionError


@clustered
async def test_a_store_that_hangs_is_asked_once_and_keeps_nobody_waiting(cluster: Cluster) -> None:
    [a] = await cluster.settled("a")
    lookout, store = lookout_of(cluster, a.ownership), Hanging(cluster.clock)
    lookout._store = store
    for _ in range(2):
        looking = asyncio.ensure_future(lookout.look())
        await cluster.pass_ms(PATIENCE_MS - 100)
        assert not looking.done()
        await cluster.pass_ms(200)
        seen = await looking
        assert (seen.standing, seen.counts) == (None, None)
        assert seen.says == "The store does not answer: it has said nothing for 2.0 s."
        await cluster.pass_ms(1_000)
    assert store.asked == 1
    lookout.close()


@clustered
async def test_whoever_looks_while_the_node_stops_is_answered(cluster: Cluster) -> None:
    [a] = await cluster.settled("a")
    lookout = lookout_of(cluster, a.ownership)
    lookout._store = Hanging(cluster.clock)
    looking = asyncio.ensure_future(lookout.look())
    await cluster.pass_ms(100)
    lookout.close()
    await cluster.pass_ms(100)
    assert looking.result().says == "The store does not answer: this node is stopping."
