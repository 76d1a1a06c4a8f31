"""Connections break while statements are under way: whether they were committed is unknown, and is found out."""

import random
import time
from collections import Counter

import psycopg
import pytest

from ..servers.cluster import DATABASE
from ..servers.waiting import wait_until
from .conftest import MakeCluster, Sink
from .load import SteadyLoad
from .proofs import BACK_S, refusals, verify, wait_until_acknowledged_again

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300), pytest.mark.xdist_group("processes")]
COMMITS = {
    "jobs are created": b"INSERT INTO tickwheel.jobs ",
    "runs are claimed": b"INSERT INTO tickwheel.runs",
    "runs have succeeded": b"SET state = 4,",
}
"""What the statements hold that write all the time. Each is a transaction of its own: its answer says COMMIT."""


def test_a_commit_whose_answer_is_lost_is_neither_lost_nor_doubled(
    make_cluster: MakeCluster, sink: Sink, long: bool
) -> None:
    cluster = make_cluster(nodes=2)
    rng = random.Random(3)
    met: Counter[str] = Counter()
    with SteadyLoad(cluster.ports, sink.port) as load:
        wait_until_acknowledged_again(load)
        for _ in range(20 if long else 4):
            for what, statement in COMMITS.items():
                proxy = rng.choice(cluster.proxies)
                (proxy.lose_answer_to if rng.random() < 0.7 else proxy.lose_request)(statement)
                met[what] += proxy.wait_until_lost(5)
                time.sleep(rng.random() / 2)  # so that the next is cut anywhere in what the node does then
        wait_until_acknowledged_again(load)
    print(f"cut: {met}")
    assert all(met[what] for what in COMMITS), f"some commits were never cut: {met}"
    refusals(load.answers)
    verify(load, sink)


def test_connections_that_are_reset_again_and_again_lose_nothing(
    make_cluster: MakeCluster, sink: Sink, long: bool
) -> None:
    cluster = make_cluster(nodes=2)
    rng = random.Random(4)
    with SteadyLoad(cluster.ports, sink.port) as load:
        wait_until_acknowledged_again(load)
        for _ in range(100 if long else 12):
            proxy = rng.choice(cluster.proxies)
            if rng.random() < 0.5:
                proxy.reset()
            else:
                proxy.limit(rng.randint(0, 20_000))
            time.sleep(rng.random() * 0.6)
        wait_until_acknowledged_again(load)
    refusals(load.answers)
    verify(load, sink)


def test_half_open_connections_are_noticed(make_cluster: MakeCluster, sink: Sink, long: bool) -> None:
    cluster = make_cluster(nodes=2)
    with SteadyLoad(cluster.ports, sink.port) as load:
        for fault in ("swallow", "mute", "stall"):
            wait_until_acknowledged_again(load)
            for proxy in cluster.proxies:
                getattr(proxy, fault)()
            time.sleep(10 if long else 4)
            for proxy in cluster.proxies:
                proxy.heal()
            wait_until(lambda: all(node.answers_ready() for node in cluster.nodes), BACK_S, "all nodes are ready")
        wait_until_acknowledged_again(load)
    assert refusals(load.answers), "no request met the cut network: the test proved nothing"
    verify(load, sink)


def test_slow_answers_of_the_store_lose_nothing(make_cluster: MakeCluster, sink: Sink) -> None:
    cluster = make_cluster(nodes=2)
    for proxy in cluster.proxies:
        proxy.latency_s = 0.03
    with SteadyLoad(cluster.ports, sink.port) as load:
        wait_until(lambda: len(load.plan.kinds) > 60, BACK_S * 2, "the load runs")
    wait_until(lambda: requests_in(sink) >= len(load.plan.kinds), BACK_S * 2, "every job is called")
    for proxy in cluster.proxies:
        proxy.latency_s = 0  # what is read of it all takes long enough
    verify(load, sink)


def requests_in(sink: Sink) -> int:
    """How many requests the sink has seen."""
    return len(sink.log.read_text().splitlines())


@pytest.mark.pitfall(53)
def test_a_transaction_of_somebody_else_that_stays_open_holds_nothing_up(
    make_cluster: MakeCluster, sink: Sink, long: bool
) -> None:
    cluster = make_cluster(nodes=2)
    with (
        psycopg.connect(cluster.server.url(DATABASE)) as other,
        SteadyLoad(cluster.ports, sink.port) as load,
    ):
        # It has a snapshot and a transaction id, so nothing newer can be vacuumed and every snapshot names it.
        other.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        other.execute("CREATE TABLE public.somebody_elses (n int)")
        other.execute("SELECT count(*) FROM tickwheel.timers")
        began = time.monotonic()
        wait_until_acknowledged_again(load)
        time.sleep(60 if long else 6)
        assert not refusals(load.during(began, float("inf")))
        wait_until(lambda: requests_in(sink) > 100, BACK_S, "jobs fire meanwhile")
    verify(load, sink)
