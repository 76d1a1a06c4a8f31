"""How long shards stand still when their node is killed and etcd is the coordinator, alone or with etcd's leader.

    python bench/failover_etcd.py --times 20
    python bench/failover_etcd.py --times 20 --with-leader

Starts PostgreSQL, three members of etcd (`--heartbeat-interval 50 --election-timeout 500`) and three nodes, and
measures as `tickwheel bench failover` does. The last line is one flat JSON object; `gap_*_ms` is what anybody
waited for a run, `resumed_*_ms` the time from the kill to the first run of a shard that the dead node had owned.
"""

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.servers.etcd import EtcdCluster, EtcdServer
from tests.servers.postgresql import PostgresServer

from tickwheel.interfaces.bench import failover, nodes
from tickwheel.interfaces.bench.progress import progress


def nodes_beside(etcd: EtcdCluster, *, with_leader: bool) -> type[nodes.Nodes]:
    """Nodes whose fault is a kill, that of etcd's leader included if so wished."""

    class NodesBeside(nodes.Nodes):
        _killed: EtcdServer | None = None

        def break_one(self, number: int) -> None:
            if with_leader:
                self._killed = etcd.leader()
                self._killed.kill()
            super().break_one(number)

        def mend(self, number: int) -> None:
            if self._killed is not None:
                self._killed.start()
                etcd.wait()
            super().mend(number)

    return NodesBeside


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--times", type=int, default=20, help="how often")
    parser.add_argument("--rate", type=int, default=500, help="jobs per second")
    parser.add_argument("--fault", default="kill", choices=nodes.FAULTS, help="what is done to the node")
    parser.add_argument("--with-leader", action="store_true", help="kill the leader of etcd at the same moment")
    options = parser.parse_args()
    with (
        PostgresServer(durable=True) as server,
        EtcdCluster(3) as etcd,
        tempfile.TemporaryDirectory() as folder,
        progress("failover", options.times, quiet=not sys.stderr.isatty()) as bar,
    ):
        os.environ["TICKWHEEL_COORDINATOR"] = etcd.url  # the nodes inherit it
        figures = failover.failover(
            server.create_database("bench"),
            Path(folder),
            fault=options.fault,
            times=options.times,
            rate=options.rate,
            nodes=3,
            bar=bar,
            nodes_type=nodes_beside(etcd, with_leader=options.with_leader),
        )
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
