"""What users of other schedulers reported of several processes on one database, on real processes."""

import json
import time
from collections import Counter, defaultdict
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from ..acceptance.crash.api import Api
from ..acceptance.crash.scenario import stop_crons
from ..servers.cluster import DATABASE, Cluster
from ..servers.waiting import wait_until
from ..servers.witness import SETTINGS, Witness, findings_in
from .conftest import MakeCluster, Sink
from .proofs import BACK_S, half_claimed

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600), pytest.mark.xdist_group("processes")]
LEASE_S = 5
RETRY = {"max_retries": 8, "initial_interval_sec": 1, "backoff_multiplier": 1.5, "max_interval_sec": 3}


def create_every_second(api: Api, sink: Sink, name: str) -> str:
    body = {
        "job_name": name,
        "schedule_type": "CRON",
        "cron_expression": "* * * * * *",
        "target": {"type": "HTTP_WEBHOOK", "endpoint": f"http://127.0.0.1:{sink.port}/ok"},
        "catch_up": {"policy": "fire_all", "max": 1_000},
        "retry_policy": RETRY,
    }
    status, answer = api.call("POST", "/v1/jobs", body)
    assert status == 201, answer
    job_id: str = answer["job_id"]
    return job_id


def create_now(api: Api, endpoint: str, count: int, **fields: Any) -> list[str]:
    job = {
        "schedule_type": "INSTANT",
        "target": {"type": "HTTP_WEBHOOK", "endpoint": endpoint, "timeout_seconds": 120},
        "retry_policy": RETRY,
        **fields,
    }
    ids: list[str] = []
    while len(ids) < count:
        status, answer = api.call("POST", "/v1/jobs/batch", [job] * min(500, count - len(ids)))
        assert status == 200, answer
        ids += [item["job_id"] for item in answer["results"]]
    return ids


def requests_by_job(log: Path) -> dict[str, list[dict[str, Any]]]:
    seen: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for line in log.read_text().splitlines():
        request = json.loads(line)
        seen[request["x-job-id"]].append(request)
    return seen


def epoch_ms(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1000)


def all_succeeded(api: Api, ids: list[str]) -> bool:
    return all(api.call("GET", f"/v1/jobs/{job_id}")[1]["status"] == "SUCCEEDED" for job_id in ids)


def instants_of(api: Api, job_id: str) -> list[int]:
    runs = api.pages(f"/v1/jobs/{job_id}/runs", "runs")
    return sorted(epoch_ms(run["scheduled_at"]) for run in runs)


@pytest.mark.pitfall(22)
def test_three_nodes_with_one_host_name_fire_each_occurrence_once(
    make_cluster: MakeCluster, sink: Sink, long: bool
) -> None:
    cluster = make_cluster(nodes=3)  # all of them on this machine, so under one name
    with Api(*cluster.ports) as api:
        jobs = [create_every_second(api, sink, f"job-{n}") for n in range(12)]
        time.sleep(60 if long else 6)
        stop_crons(api, jobs)
        seen = requests_by_job(sink.log)
        for job_id in jobs:
            calls = Counter(request["x-scheduled-at"] for request in seen[job_id])
            assert set(calls.values()) == {1}, calls
            instants = instants_of(api, job_id)
            assert all(later - earlier == 1_000 for earlier, later in pairwise(instants)), instants
            assert len(instants) >= 5


@pytest.mark.pitfall(47)
def test_no_second_is_missed_when_the_leader_is_killed(make_cluster: MakeCluster, sink: Sink, long: bool) -> None:
    cluster = make_cluster(nodes=3)
    with Api(*cluster.ports) as api:
        jobs = [create_every_second(api, sink, f"job-{n}") for n in range(8)]
        for _ in range(20 if long else 2):
            leader = wait_for_leader(cluster)
            cluster.nodes[leader].kill()
            time.sleep(3)
            cluster.nodes[leader].start()
            cluster.nodes[leader].wait_until_ready()
        stop_crons(api, jobs)
        seen, worst_ms = requests_by_job(sink.log), 0
        for job_id in jobs:
            instants = instants_of(api, job_id)
            assert all(later - earlier == 1_000 for earlier, later in pairwise(instants)), instants
            first = {epoch_ms(request["x-scheduled-at"]): request["at_ms"] for request in reversed(seen[job_id])}
            worst_ms = max(worst_ms, *(first[at] - at for at in instants if at in first))
    print(f"every second, leader killed: the latest run came after {worst_ms} ms")
    if long:
        assert worst_ms < 2_000


def wait_for_leader(cluster: Cluster) -> int:
    """Which node holds the coordinator's lock, once one does."""
    found: list[int] = []

    def look() -> bool:
        rows = cluster.server.execute("SELECT holder FROM tickwheel.locks", database=DATABASE)
        for (holder,) in rows:
            found[:] = [n for n, node in enumerate(cluster.nodes) if holder and f"-{node.pid}-" in holder]
            if found:
                return True
        return False

    wait_until(look, BACK_S, "one of the running nodes leads")
    return found[0]


def test_a_node_that_wakes_up_after_its_leases_commits_nothing(
    make_cluster: MakeCluster, sink: Sink, long: bool
) -> None:
    flags = () if long else ("--lease-seconds", str(LEASE_S))
    cluster = make_cluster(nodes=3, settings=SETTINGS, flags=flags)
    witness = Witness(cluster.server, DATABASE)
    witness.install()
    with Api(*cluster.ports[:2]) as api, Api(cluster.ports[2]) as sleeper:
        held = create_now(sleeper, f"http://127.0.0.1:{sink.port}/slow", 50)
        jobs = [create_every_second(api, sink, f"job-{n}") for n in range(8)]
        node = cluster.nodes[2]
        worker = cluster.incarnation_number(node)
        assert worker is not None
        wait_until(lambda: bool(witness.moves_by(worker, 0)), BACK_S, "the node has claimed something")
        held += create_now(sleeper, f"http://127.0.0.1:{sink.port}/slow", 50)
        node.freeze()
        time.sleep(40 if long else LEASE_S * 2.5)
        woken_ms = time.time_ns() // 1_000_000
        assert cluster.is_deposed(worker)
        node.thaw()
        wait_until(node.answers_ready, BACK_S, "it takes part again")
        wait_until(lambda: cluster.incarnation_number(node) != worker, BACK_S, "it comes back under another name")
        wait_until(lambda: all_succeeded(api, held), BACK_S * 2, "what it held was done by others")
        stop_crons(api, jobs)
        moves = witness.moves()
    assert not witness_of(moves, worker, woken_ms)
    assert not findings_in(moves)["double_committed"]
    assert not findings_in(moves)["token_fell"]


def witness_of(moves: Any, worker: int, since_ms: int) -> list[Any]:
    return [move for move in moves if move.worker == worker and move.at_ms >= since_ms]


@pytest.mark.pitfall(40)
def test_a_run_that_ends_when_its_lease_does_stays_ended(
    make_cluster: MakeCluster, sink: Sink, long: bool
) -> None:
    cluster = make_cluster(nodes=2, settings=SETTINGS, flags=("--lease-seconds", str(LEASE_S)))
    witness = Witness(cluster.server, DATABASE)
    witness.install()
    with Api(*cluster.ports) as api:
        ids: list[str] = []
        for round_number in range(20 if long else 1):
            ids += create_now(api, f"http://127.0.0.1:{sink.port}/slow", 500)
            # Frozen until the leases of its runs end, give or take 50 ms: completions and reaper meet.
            cluster.nodes[0].freeze()
            time.sleep(LEASE_S + (round_number % 5 - 2) / 40)
            cluster.nodes[0].thaw()
        wait_until(lambda: all_succeeded(api, ids), 120, "all runs have succeeded")
    found = findings_in(witness.moves())
    assert not found["left_its_end"]
    assert not found["double_committed"]


@pytest.mark.pitfall(37)
def test_a_lease_record_that_was_deleted_comes_back_and_leads_to_the_run(
    make_cluster: MakeCluster, sink: Sink
) -> None:
    """The holder writes it anew with its next renewal. (Nobody finds a run whose record *and* worker are gone.)"""
    cluster = make_cluster(nodes=2, flags=("--lease-seconds", str(LEASE_S)))
    with Api(*cluster.ports) as api:
        ids = create_now(api, f"http://127.0.0.1:{sink.port}/long", 20)
        wait_until(lambda: leases(cluster) == 20, BACK_S, "the attempts have been renewed")
        cluster.server.execute("DELETE FROM tickwheel.leases", database=DATABASE)
        wait_until(lambda: leases(cluster) == 20, LEASE_S * 2 + BACK_S, "each run has its record again")
        workers = cluster.server.execute("SELECT DISTINCT worker FROM tickwheel.leases", database=DATABASE)
        node = next(n for n in cluster.nodes if (cluster.incarnation_number(n),) in workers)
        node.freeze()
        wait_until(
            lambda: sum(len(calls) > 1 for calls in requests_by_job(sink.log).values()) > 0,
            LEASE_S * 2 + BACK_S,
            "what the frozen node held is called by the other one",
        )
        assert requests_by_job(sink.log).keys() == set(ids)


def leases(cluster: Cluster) -> int:
    return int(cluster.server.execute("SELECT count(*) FROM tickwheel.leases", database=DATABASE)[0][0])


@pytest.mark.pitfall(41)
def test_many_healthy_runs_do_not_hide_a_dead_one(make_cluster: MakeCluster, sink: Sink, long: bool) -> None:
    healthy = 10_001 if long else 1_001
    folder = sink.log.parent
    (folder / "nodes").mkdir(exist_ok=True)
    (folder / "nodes" / "holders.py").write_text(HOLDERS)
    flags = ("--app", "holders", "--handler-slots", str(healthy * 2), "--lease-seconds", str(LEASE_S))
    cluster = make_cluster(nodes=2, flags=flags)
    first, second = (node.pid for node in cluster.nodes)
    wait_until(lambda: shards_of(cluster, 1) > 0, BACK_S, "the second node holds shards")
    with Api(cluster.ports[0]) as dying, Api(cluster.ports[1]) as other:
        create_held(other, healthy)
        create_held(dying, 1)

        def held() -> int:
            return len(held_by(folder, first) | held_by(folder, second))

        wait_until(lambda: held() == healthy + 1, BACK_S * 2, "all runs are under way")
        assert held_by(folder, first)
        cluster.nodes[0].kill()
        wait_until(
            lambda: len(held_by(folder, second)) == healthy + 1,
            LEASE_S * 2 + BACK_S,
            "what the dead one held is recovered",
        )
        (folder / "nodes" / "go").touch()


def shards_of(cluster: Cluster, node: int) -> int:
    number = cluster.incarnation_number(cluster.nodes[node])
    return int(
        cluster.server.execute(
            "SELECT count(*) FROM tickwheel.shards WHERE owner = %s", number, database=DATABASE
        )[0][0]
    )


HOLDERS = """
import asyncio
import os
from pathlib import Path

from tickwheel import handler

HERE = Path(__file__).parent


@handler("hold")
async def hold(payload, ctx):
    with (HERE / "calls.log").open("a") as log:
        log.write(f"{os.getpid()} {ctx.run_id}\\n")
    while not (HERE / "go").exists():
        await asyncio.sleep(0.5)
"""


def create_held(api: Api, count: int) -> None:
    job = {"schedule_type": "INSTANT", "target": {"type": "HANDLER", "name": "hold"}}
    for start in range(0, count, 500):
        status, answer = api.call("POST", "/v1/jobs/batch", [job] * min(500, count - start))
        assert status == 200, answer


def held_by(folder: Path, pid: int) -> set[str]:
    """The runs that the process has begun; on a busy machine it may lose one for a moment and begin it again."""
    log = folder / "nodes" / "calls.log"
    lines = log.read_text().splitlines() if log.exists() else []
    return {line.split(" ")[1] for line in lines if line.startswith(f"{pid} ")}


@pytest.mark.pitfall(31)
def test_kills_between_claim_and_start_leave_no_slot_held(
    make_cluster: MakeCluster, sink: Sink, long: bool
) -> None:
    cluster = make_cluster(nodes=2)
    with Api(*cluster.ports) as api:
        ids: list[str] = []
        for number in range(100 if long else 6):
            ids += create_now(api, f"http://127.0.0.1:{sink.port}/ok", 150)
            ids += create_now(api, f"http://127.0.0.1:{sink.port}/ok", 30, concurrency=KEY_OF_TWO)
            assert in_flight_under_limits(cluster) <= 2
            node = cluster.nodes[number % 2]
            node.kill()  # with claims of these jobs under way
            node.start()
            node.wait_until_ready()
        wait_until(lambda: all_succeeded(api, ids), 120, "all runs have succeeded")
        wait_until(
            lambda: not any(slots_in_use(node.port) for node in cluster.nodes), BACK_S, "all slots are free"
        )
    assert not half_claimed(cluster)
    assert cluster.server.execute("SELECT count(*) FROM tickwheel.limit_slots", database=DATABASE) == [(0,)]


KEY_OF_TWO = [{"key": "k", "limit": 2}]


def in_flight_under_limits(cluster: Cluster) -> int:
    query = "SELECT count(*) FROM tickwheel.runs WHERE limited AND state IN (1, 2, 3)"
    return int(cluster.server.execute(query, database=DATABASE)[0][0])


def slots_in_use(port: int) -> float:
    import urllib.request

    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as reply:
        lines = reply.read().decode().splitlines()
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith("tickwheel_in_flight"))
