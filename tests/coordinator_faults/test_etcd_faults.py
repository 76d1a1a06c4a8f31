"""What happens to membership, ownership and locks when etcd breaks: real servers, real time.

Ownership is an epoch in the store, so the worst that a coordinator can do is to delay a takeover. These tests see
that it also starts none: nobody is declared dead because etcd has a bad moment.
"""

import pytest

from tickwheel.adapters.etcd import open_etcd_coordinator
from tickwheel.adapters.system import SystemClock

# The servers of tests are not installed, so they have no absolute name.
from ..servers.etcd import EtcdCluster
from .nodes import Cluster, wait_until

pytestmark = pytest.mark.slow

BEATS = 15
"""Three seconds: twice the silence after which somebody is declared dead."""


async def test_nobody_is_declared_dead_when_the_leader_of_etcd_is_killed(etcd: EtcdCluster) -> None:
    """G2: silence counts only while one's own beats are written and read back."""
    async with Cluster(etcd.url) as cluster:
        before = cluster.epochs()
        etcd.leader().kill()
        await cluster.beat_on(BEATS)
        await wait_until(cluster.all_see_all, "everybody is seen alive through the new leader")
        assert not cluster.accusations()
        assert cluster.epochs() == before


async def test_nobody_is_declared_dead_when_the_leader_of_an_etcd_with_default_timing_is_killed() -> None:
    """Its election takes about as long as the silence after which somebody is declared dead."""
    with EtcdCluster(3, election_ms=1_000) as etcd:
        async with Cluster(etcd.url) as cluster:
            before = cluster.epochs()
            etcd.leader().kill()
            await cluster.beat_on(BEATS)
            await wait_until(cluster.all_see_all, "everybody is seen alive through the new leader")
            assert not cluster.accusations()
            assert cluster.epochs() == before


async def test_nobody_is_declared_dead_when_a_member_of_etcd_hangs(etcd: EtcdCluster) -> None:
    """It accepts requests and answers none: each node moves on to another member after one try."""
    async with Cluster(etcd.url) as cluster:
        before = cluster.epochs()
        leader = etcd.leader()
        leader.freeze()
        try:
            await cluster.beat_on(BEATS)
            await wait_until(cluster.all_see_all, "everybody is seen alive without the member that hangs")
            assert not cluster.accusations()
            assert cluster.epochs() == before
        finally:
            leader.thaw()


async def test_membership_is_frozen_without_a_quorum_and_goes_on_with_it(etcd: EtcdCluster) -> None:
    async with Cluster(etcd.url) as cluster:
        before = cluster.epochs()
        lost = etcd.servers[:2]
        for server in lost:
            server.kill()
        await wait_until(lambda: all(node.is_frozen for node in cluster.nodes), "all know that etcd is away")
        coordinator = cluster.nodes[0].coordinator
        me = cluster.nodes[0].ownership.incarnation
        for verb in (
            coordinator.members(),
            coordinator.beat(me, 10_000, b""),
            coordinator.leave(me),
            coordinator.acquire_lock("other", me),
            coordinator.release_lock("other", me),
            coordinator.lock_holder("other"),
        ):
            with pytest.raises(ConnectionError):
                await verb
        assert cluster.all_held()
        for server in lost:
            server.start()
        etcd.wait()
        await cluster.beat_on(BEATS)
        await wait_until(cluster.all_see_all, "membership goes on")
        assert not cluster.accusations()
        assert cluster.epochs() == before


async def test_shards_stay_where_they_are_while_all_of_etcd_is_gone(etcd: EtcdCluster) -> None:
    """A restart with the data of before, as after a power cut."""
    async with Cluster(etcd.url) as cluster:
        before = cluster.epochs()
        for server in etcd.servers:
            server.kill()
        await wait_until(lambda: all(node.is_frozen for node in cluster.nodes), "all know that etcd is away")
        assert cluster.all_held()
        for server in etcd.servers:
            server.start()
        etcd.wait()
        await cluster.beat_on(BEATS)
        await wait_until(cluster.all_see_all, "membership goes on")
        assert not cluster.accusations()
        assert cluster.epochs() == before


async def test_the_shards_of_a_node_that_dies_with_the_leader_of_etcd_are_taken(etcd: EtcdCluster) -> None:
    async with Cluster(etcd.url) as cluster:
        victim = cluster.nodes[0]
        etcd.leader().kill()
        await cluster.kill(victim)
        await wait_until(cluster.all_held, "the survivors hold everything")
        assert victim.ownership.incarnation not in {owner for _, owner in cluster.epochs()}


async def test_the_lock_survives_the_leader_of_etcd_and_tokens_go_on_rising(etcd: EtcdCluster) -> None:
    clock = SystemClock()
    coordinator = open_etcd_coordinator(etcd.url, clock)
    try:
        await coordinator.beat("a", 1, b"")
        token = await coordinator.acquire_lock("sweep", "a")
        assert token is not None
        etcd.leader().kill()
        etcd.wait()
        await coordinator.beat("a", 2, b"")
        again = await coordinator.acquire_lock("sweep", "a")
        assert again is not None
        assert again >= token  # another one only if the election took as long as the lapse
        await coordinator.release_lock("sweep", "a")
        later = await coordinator.acquire_lock("sweep", "a")
        assert later is not None
        assert later > again
    finally:
        await coordinator.aclose()
