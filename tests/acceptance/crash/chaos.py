"""Three nodes on one PostgreSQL, two minutes of faults, and the verdict of the checker and of the witness."""

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...servers.cluster import DATABASE, Cluster
from ...servers.redis import RedisServer
from ...servers.remote_worker import RemoteWorker
from ...servers.witness import SETTINGS, Witness, findings_in
from .api import Api
from .checker import Verdict, check
from .faults import Faults, Woken
from .load import Load
from .scenario import settle, stop_crons
from .worker_faults import WorkerFaults

LEASE_S = 30
"""A process that slept longer may commit nothing at all; a deposed one may at least claim nothing."""


@dataclass
class ChaosVerdict:
    """Of the checker, and how much was done to the cluster."""

    verdict: Verdict
    network: str
    faults: dict[str, int]
    moves: int = 0
    woken_deposed: int = 0
    slept_longest_s: float = 0
    node_logs: list[str] = field(default_factory=list)

    @property
    def clean(self) -> bool:
        return self.verdict.clean

    def as_json(self) -> str:
        """One line."""
        looked = {name: value for name, value in vars(self).items() if name != "verdict"}
        return json.dumps({**self.verdict.counts(), **looked})

    def __str__(self) -> str:
        return (
            f"faults: {self.faults}, network by {self.network}; {self.moves} moves of runs witnessed,"
            f" {self.woken_deposed} processes woke up deposed, the longest slept {self.slept_longest_s:.0f} s\n"
            f"{self.verdict}"
        )


def chaos_test(
    folder: Path,
    *,
    jobs: int,
    seconds: float,
    longest_freeze_s: float,
    seed: int,
    private_network: bool,
    tell: Callable[[str], object],
    workers: bool = False,
) -> ChaosVerdict:
    """Run it; `folder` keeps the logs. `workers`: the nodes only fire, four workers and Redis do the rest."""
    network = "packet filter" if private_network else "proxies"
    with ExitStack() as stack:
        sink_port = stack.enter_context(sink_process(folder / "sink.jsonl"))
        redis = stack.enter_context(RedisServer()) if workers else None
        cluster = stack.enter_context(_cluster(folder, private_network, redis))
        cluster.start()
        crew = [] if redis is None else stack.enter_context(_crew(folder, cluster, redis))
        witness = Witness(cluster.server, DATABASE)
        witness.install()
        load = Load(cluster.ports, sink_port, jobs, seconds, seed)
        faults = (
            Faults(cluster, seconds, seed, longest_freeze_s, tell)
            if redis is None
            else WorkerFaults(cluster, crew, redis, seconds, seed, longest_freeze_s, tell)
        )
        loading = threading.Thread(target=load.run)
        loading.start()
        faults.run()
        loading.join()
        tell(f"{len(load.plan.kinds)} jobs acknowledged, {len(load.plan.cancelled_ms)} cancelled; settling")
        with Api(*cluster.ports) as api:
            stop_crons(api, load.plan.crons)
            tell("the schedules are paused")
            settle(api, load.plan)
            tell("settled; checking")
            verdict = check(api, load.plan, folder / "sink.jsonl", frozen=True)
        verdict.findings["faults"] = faults.problems
        moves = witness.moves()
        for kind, items in findings_in(moves).items():
            verdict.findings[kind] += items
        verdict.findings["woke_and_wrote"] = _written_by_woken(witness, faults.woken)
        return ChaosVerdict(
            verdict,
            network,
            dict(faults.met),
            moves=len(moves),
            woken_deposed=sum(woken.deposed for woken in faults.woken),
            slept_longest_s=max((woken.slept_s for woken in faults.woken), default=0),
        )


def _cluster(folder: Path, private_network: bool, redis: RedisServer | None) -> Cluster:
    flags = () if redis is None else ("--roles", "api,scheduler", "--queue", redis.url)
    return Cluster(folder, nodes=3, flags=flags, private_network=private_network, settings=SETTINGS)


@contextmanager
def _crew(folder: Path, cluster: Cluster, redis: RedisServer) -> Iterator[list[RemoteWorker]]:
    """Two workers inside the trust zone, two that come over HTTP."""
    inside = ("--store", cluster.server.url(DATABASE), "--queue", redis.url)
    outside = [word for port in cluster.ports for word in ("--server", f"http://127.0.0.1:{port}")]
    flags = ("--webhooks", "--concurrency", "50")
    crew = [
        RemoteWorker(folder, *(inside if number < 2 else outside), *flags, name=f"worker-{number}")
        for number in range(4)
    ]
    try:
        for worker in crew:
            worker.start()
        for worker in crew:
            worker.wait_until_ready()
        yield crew
    finally:
        for worker in crew:
            if worker.runs:
                worker.kill()


def _written_by_woken(witness: Witness, woken: list[Woken]) -> list[str]:
    found = []
    for one in woken:
        for move in witness.moves_by(one.worker, one.at_ms):
            claimed = move.new_fence > move.old_fence
            if one.slept_s > LEASE_S + 5 or (one.deposed and claimed):
                found.append(f"worker {one.worker} after {one.slept_s:.1f} s of sleep: {move}")
    return found


@contextmanager
def sink_process(log: Path) -> Iterator[int]:
    """The receiver of webhooks; gives its port."""
    command = [sys.executable, str(Path(__file__).with_name("sink.py")), str(log)]
    sink: subprocess.Popen[Any] = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert sink.stdout is not None
        yield int(sink.stdout.readline())
    finally:
        sink.kill()
        sink.wait()
        if sink.stdout is not None:
            sink.stdout.close()
