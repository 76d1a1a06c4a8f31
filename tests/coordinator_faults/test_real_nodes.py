"""Real nodes on PostgreSQL with another coordinator: what a user sees when it breaks, or dies with a node."""

import time
from pathlib import Path

import pytest

# The servers of tests are not installed, so they have no absolute name.
from ..postgresql_faults.conftest import Sink
from ..postgresql_faults.load import SteadyLoad
from ..postgresql_faults.proofs import verify, wait_until_acknowledged_again
from ..servers.cluster import DATABASE, Cluster
from ..servers.etcd import EtcdCluster
from ..servers.fake_consul import FakeConsul
from ..servers.serve import Serve
from ..servers.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300), pytest.mark.xdist_group("processes")]
FIRED = 60
PATIENCE_S = 60
PAUSE_S = 0.05
OWNERS = """SELECT DISTINCT n.incarnation FROM tickwheel.shards AS s
  LEFT JOIN tickwheel.nodes AS n ON n.number = s.owner"""


def wait_until_fired(sink: Sink, more: int) -> None:
    """Until the receiver has been called so often from now on."""
    before = _calls(sink)
    wait_until(lambda: _calls(sink) >= before + more, PATIENCE_S, f"{more} more runs have been fired")


def _calls(sink: Sink) -> int:
    return len(sink.log.read_bytes().splitlines())


def test_firing_goes_on_while_all_of_etcd_is_gone(tmp_path: Path, sink: Sink, etcd: EtcdCluster) -> None:
    """The coordinator only says who is alive; who owns stands in the store."""
    flags = ("--coordinator", etcd.url)
    with Cluster(tmp_path / "nodes", nodes=2, flags=flags) as cluster:
        cluster.start()
        with SteadyLoad(cluster.ports, sink.port, pause_s=PAUSE_S) as load:
            wait_until_acknowledged_again(load)
            for server in etcd.servers:
                server.kill()
            began = time.monotonic()
            wait_until_fired(sink, FIRED)
            wait_until_acknowledged_again(load)
            assert all(answer.status == 201 for answer in load.during(began, time.monotonic()))
            for server in etcd.servers:
                server.start()
            etcd.wait()
            wait_until_fired(sink, FIRED)
        verify(load, sink)


def test_nothing_is_lost_when_a_node_dies_with_the_leader_of_etcd(
    tmp_path: Path, sink: Sink, etcd: EtcdCluster
) -> None:
    flags = ("--coordinator", etcd.url)
    with Cluster(tmp_path / "nodes", nodes=2, flags=flags) as cluster:
        cluster.start()
        victim, survivor = cluster.nodes
        with SteadyLoad([survivor.port], sink.port, pause_s=PAUSE_S) as load:
            wait_until_acknowledged_again(load)
            etcd.leader().kill()
            victim.kill()
            wait_until_owned_by(survivor, cluster)
            wait_until_fired(sink, FIRED)
        verify(load, sink)


def test_nodes_find_and_miss_each_other_through_the_fake_consul(tmp_path: Path, sink: Sink) -> None:
    """What Consul would say, as far as a fake can tell; its leader is away for a while, too."""
    with FakeConsul() as consul:
        flags = ("--coordinator", consul.url)
        with Cluster(tmp_path / "nodes", nodes=2, flags=flags) as cluster:
            cluster.start()
            victim, survivor = cluster.nodes
            with SteadyLoad([survivor.port], sink.port, pause_s=PAUSE_S) as load:
                wait_until(lambda: len(_owners(cluster)) == 2, PATIENCE_S, "both nodes own shards")
                consul.has_leader = False
                wait_until_fired(sink, FIRED)
                consul.has_leader = True
                victim.kill()
                wait_until_owned_by(survivor, cluster)
                wait_until_fired(sink, FIRED)
            verify(load, sink)


def wait_until_owned_by(node: Serve, cluster: Cluster) -> None:
    """Every shard, as the store says."""

    def owns_all() -> bool:
        return all(f"-{node.pid}-" in str(owner) for (owner,) in _owners(cluster))

    wait_until(owns_all, PATIENCE_S, f"{node.name} owns every shard")


def _owners(cluster: Cluster) -> list[tuple[object, ...]]:
    return cluster.server.execute(OWNERS, database=DATABASE)
