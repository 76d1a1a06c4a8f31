"""The database server restarts, dies, hangs, turns read-only, fills its disk: nothing acknowledged is lost.

Meanwhile requests get 503 with Retry-After, and afterwards everything goes on by itself.
"""

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ..servers.postgresql import PostgresServer
from ..servers.waiting import wait_until
from .conftest import MakeCluster, Sink
from .load import SteadyLoad
from .proofs import BACK_S, half_claimed, refusals, verify, wait_until_acknowledged_again

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300), pytest.mark.xdist_group("processes")]


@pytest.mark.parametrize("manner", ["fast", "immediate"])
def test_nothing_is_lost_when_the_server_restarts(make_cluster: MakeCluster, sink: Sink, manner: str) -> None:
    cluster = make_cluster(nodes=2)
    with SteadyLoad(cluster.ports, sink.port) as load:
        wait_until(lambda: len(load.plan.kinds) > 50, BACK_S, "the load runs")
        cluster.server.restart(immediate=manner == "immediate")
        wait_until_acknowledged_again(load)
    refusals(load.answers)
    verify(load, sink)


def test_nothing_is_lost_when_the_server_is_killed(make_cluster: MakeCluster, sink: Sink, long: bool) -> None:
    cluster = make_cluster(nodes=2)
    with SteadyLoad(cluster.ports, sink.port) as load:
        for down_s in (0.2, 2, 8) if long else (1,):
            wait_until_acknowledged_again(load)
            cluster.server.kill()
            time.sleep(down_s)
            cluster.server.start()
            wait_until_acknowledged_again(load)
    assert refusals(load.answers), "no request met the dead server: the test proved nothing"
    verify(load, sink)


def test_nothing_is_lost_when_the_server_hangs(make_cluster: MakeCluster, sink: Sink, long: bool) -> None:
    cluster = make_cluster(nodes=2)
    with SteadyLoad(cluster.ports, sink.port) as load:
        for hang_s in (7, 12) if long else (7,):
            wait_until_acknowledged_again(load)
            cluster.server.freeze()
            time.sleep(hang_s)
            cluster.server.thaw()
            wait_until_acknowledged_again(load)
    assert refusals(load.answers), "no request met the hanging server: the test proved nothing"
    verify(load, sink)


@pytest.mark.pitfall(82)
def test_a_server_that_turns_read_only_leaves_nothing_half_claimed(
    make_cluster: MakeCluster, sink: Sink, long: bool
) -> None:
    cluster = make_cluster(nodes=2)
    with SteadyLoad(cluster.ports, sink.port) as load:
        wait_until(lambda: len(load.plan.kinds) > 50, BACK_S, "the load runs")
        cluster.server.set(default_transaction_read_only="on")
        wait_until(lambda: not any(node.answers_ready() for node in cluster.nodes), BACK_S, "no node is ready")
        time.sleep(30 if long else 2)
        cluster.server.execute("ALTER SYSTEM RESET default_transaction_read_only")
        cluster.server.execute("SELECT pg_reload_conf()")
        wait_until(lambda: all(node.answers_ready() for node in cluster.nodes), BACK_S, "all nodes are ready")
        wait_until_acknowledged_again(load)
    assert refusals(load.answers)
    verify(load, sink)
    assert not half_claimed(cluster)


@contextmanager
def small_disk(folder: Path, size_mb: int) -> Iterator[Path]:
    """A file system of its own; skips where this user may not mount one."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={size_mb}m", "tickwheel-test", str(folder)]
    if os.geteuid() != 0 or subprocess.run(command, check=False, capture_output=True).returncode:
        pytest.skip("a full disk needs a small file system, which only root may mount")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=False, capture_output=True)


def test_nothing_is_lost_when_the_disk_is_full(make_cluster: MakeCluster, sink: Sink, long: bool) -> None:
    # The write-ahead log is elsewhere: without room for that, PostgreSQL itself shuts down and needs a hand.
    with PostgresServer() as server, small_disk(server.folder / "small", 300) as disk:
        shutil.chown(disk, "postgres", "postgres")
        with server.connect() as connection:
            connection.execute(f"CREATE TABLESPACE small LOCATION '{disk}'".encode())
            connection.execute(b"ALTER DATABASE template1 SET TABLESPACE small")
        cluster = make_cluster(nodes=2, server=server)
        filling = disk / "filling"
        with SteadyLoad(cluster.ports, sink.port, pause_s=0.001) as load:
            wait_until_acknowledged_again(load)
            subprocess.run(["dd", "if=/dev/zero", f"of={filling}", "bs=64k"], check=False, capture_output=True)
            began = time.monotonic()
            wait_until(
                lambda: any(answer.status == 503 for answer in load.during(began, float("inf"))),
                BACK_S * 2,
                "a request finds the disk full",
            )
            time.sleep(10 if long else 1)
            filling.unlink()
            wait_until_acknowledged_again(load)
        assert refusals(load.answers)
        verify(load, sink)
