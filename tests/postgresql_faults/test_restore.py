"""A restore to an instant, from a base backup that was made under load and the archive of WAL."""

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ..acceptance.crash.api import Api
from ..acceptance.crash.load import Plan, now_ms
from ..servers.postgresql import PostgresServer
from ..servers.serve import Serve
from ..servers.waiting import wait_until
from .conftest import Sink
from .load import RETRY, SteadyLoad
from .proofs import wait_until_acknowledged_again
from .restored import RestoredServer, archive_all, back_up, make_archive

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300), pytest.mark.xdist_group("processes")]
DATABASE = "cluster"
LATER_MS = 15_000
LATER_JOBS = 30
LEAST_RISE = 1024
EPOCHS = "SELECT shard, epoch FROM tickwheel.shards ORDER BY shard"


def test_a_restored_database_has_what_was_acknowledged_and_its_tokens_go_on_rising(
    tmp_path: Path, sink: Sink
) -> None:
    """D8: all epochs rise by 1,024, or a takeover that the restore forgot has its epoch given out again."""
    server = PostgresServer()
    archive = make_archive(server)
    with server:
        store = server.create_database(DATABASE)
        node = start_node(tmp_path, store, "before")
        try:
            with SteadyLoad([node.port], sink.port) as load:
                wait_until_acknowledged_again(load)
                backup = back_up(server)
                later = create_later_jobs(node.port, sink)
                wait_until_acknowledged_again(load)
                with load.plan.lock:
                    kept = [*load.plan.kinds, *later]
                [(until,)] = server.execute("SELECT clock_timestamp()::text")
                at_target = dict(server.execute(EPOCHS, database=DATABASE))
                wait_until_acknowledged_again(load)
            for _ in range(2):  # takeovers that the restore forgets
                node.stop()
                node = start_node(tmp_path, store, "before")
            wait_until(
                lambda: set(later) <= called(sink), 60, "the later jobs have run, by epochs that are forgotten"
            )
            forgotten = dict(server.execute(EPOCHS, database=DATABASE))
        finally:
            node.kill()
        archive_all(server)
        with RestoredServer(backup, archive, until) as restored:
            server.kill()
            store = restored.url(DATABASE)
            assert dict(restored.execute(EPOCHS, database=DATABASE)) == at_target
            assert all(forgotten[shard] > epoch for shard, epoch in at_target.items())
            migrate_after_restore(store)
            raised = dict(restored.execute(EPOCHS, database=DATABASE))
            assert all(raised[shard] >= epoch + LEAST_RISE for shard, epoch in at_target.items())
            go_on(tmp_path, store, sink, kept, later)


def go_on(folder: Path, store: str, sink: Sink, kept: list[str], later: list[str]) -> None:
    """Everything that was acknowledged before the instant is there and ends; no token falls."""
    node = start_node(folder, store, "after")
    try:
        load = SteadyLoad([node.port], sink.port, prefix="after-")
        load.plan = Plan(kinds=dict.fromkeys(kept, "ok"))
        with load:
            wait_until_acknowledged_again(load)
        verdict = load.verdict(sink.log)
        assert verdict.clean, str(verdict)
        again = [tokens for job_id, tokens in tokens_by_job(sink).items() if job_id in later]
        assert len(again) == len(later)
        assert all(len(tokens) > 1 for tokens in again), "the restore forgot nothing: the test proved nothing"
    finally:
        node.kill()


def start_node(folder: Path, store: str, name: str) -> Serve:
    node = Serve(folder, store=store, name=name)
    node.start()
    node.wait_until_ready()
    return node


def create_later_jobs(port: int, sink: Sink) -> list[str]:
    """Jobs that are due when the instant of the restore is past."""
    due_ms = now_ms() + LATER_MS
    jobs = []
    with Api(port) as api:
        for _ in range(LATER_JOBS):
            status, job = api.call(
                "POST",
                "/v1/jobs",
                {
                    "schedule_type": "ONE_OFF",
                    "run_at_epoch_ms": due_ms,
                    "target": {"type": "HTTP_WEBHOOK", "endpoint": f"http://127.0.0.1:{sink.port}/ok"},
                    "retry_policy": RETRY,
                },
            )
            assert status == 201, job
            jobs.append(str(job["job_id"]))
    return jobs


def tokens_by_job(sink: Sink) -> dict[str, list[int]]:
    """In the order in which the sink saw them."""
    tokens: dict[str, list[int]] = {}
    for line in sink.log.read_text().splitlines():
        request = json.loads(line)
        tokens.setdefault(request["x-job-id"], []).append(int(request["x-fencing-token"]))
    return tokens


def called(sink: Sink) -> set[str]:
    return set(tokens_by_job(sink))


def migrate_after_restore(store: str) -> None:
    began = time.monotonic()
    command = [sys.executable, "-m", "tickwheel", "migrate", "--store", store, "--after-restore"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    print(f"after-restore took {time.monotonic() - began:.1f} s: {done.stdout.strip()}")
