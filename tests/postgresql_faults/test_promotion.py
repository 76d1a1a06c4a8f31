"""The primary dies and its synchronous standby takes its place."""

import time
from pathlib import Path

import pytest

from ..servers.postgresql import PostgresServer
from ..servers.postgresql_binaries import NoPostgres, find_binaries
from ..servers.serve import Serve, start_all
from .conftest import Sink
from .load import SteadyLoad
from .proofs import refusals, verify, wait_until_acknowledged_again

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300), pytest.mark.xdist_group("processes")]
DATABASE = "cluster"
NOTICED_S = 1.5
"""So long it takes until somebody knows that the primary is dead."""


def url_of(primary: PostgresServer, standby: PostgresServer) -> str:
    """Whichever of the two takes writes."""
    hosts = f"127.0.0.1:{primary.port},127.0.0.1:{standby.port}"
    return f"postgresql://postgres@{hosts}/{DATABASE}?target_session_attrs=read-write"


def test_nothing_acknowledged_is_lost_in_a_promotion(tmp_path: Path, sink: Sink) -> None:
    try:
        find_binaries()
    except NoPostgres as error:
        pytest.skip(str(error))
    with PostgresServer() as primary:
        primary.create_database(DATABASE)
        standby = primary.add_standby()
        nodes = [Serve(tmp_path, store=url_of(primary, standby), name=f"node-{n}") for n in range(2)]
        try:
            start_all(nodes[:1])
            start_all(nodes[1:])
            with SteadyLoad([node.port for node in nodes], sink.port) as load:
                wait_until_acknowledged_again(load)
                began = time.monotonic()
                primary.kill()
                time.sleep(NOTICED_S)
                standby.promote()
                wait_until_acknowledged_again(load)
                back = time.monotonic()
            assert refusals(load.during(began, back)), "no request met the fault: the test proved nothing"
            print(f"promotion: {load.longest_outage_s():.1f} s without an acknowledged job")
            verify(load, sink)
        finally:
            for node in nodes:
                if node.runs:
                    node.kill()
            standby.close()
