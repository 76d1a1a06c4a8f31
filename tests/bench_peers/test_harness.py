"""The workloads of the harness in Python, with a peer that keeps its jobs in a file."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from bench.peers.calls import check_calls, read_calls
from bench.peers.process import StepFailed, run_program

STUB = [sys.executable, "-m", "tests.bench_peers.stub_peer"]


def run(folder: Path, workload: str, *, jobs: int = 25, limit_s: int = 20, **settings: int) -> dict[str, Any]:
    config = {
        "workload": workload,
        "url": "",
        "folder": str(folder),
        "jobs": jobs,
        "batch": 10,
        "workers": 1,
        "rate": 100,
        "lead_ms": 500,
        "limit_s": limit_s,
        "pad": "x",
        "settings": settings,
    }
    return run_program([*STUB, "main", json.dumps(config)], limit_s=60)


def test_drain_calls_each_job_once(tmp_path: Path) -> None:
    assert run(tmp_path, "drain", left=0)["took_ms"] > 0
    check_calls(read_calls(tmp_path), 25)


@pytest.mark.parametrize("workload", ["ingest", "single"])
def test_what_was_stored_while_the_clock_ran_is_told(tmp_path: Path, workload: str) -> None:
    assert run(tmp_path, workload)["stored"] == 25


def test_a_step_over_its_limit_says_how_far_it_got(tmp_path: Path) -> None:
    with pytest.raises(StepFailed, match="25 of 25 jobs in 3 s"):
        run(tmp_path, "drain", limit_s=3, left=1)
