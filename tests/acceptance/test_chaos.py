"""Short chaos runs on three nodes; the long ones are `make chaos`."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ..servers.postgresql_binaries import NoPostgres, find_binaries
from ..servers.redis import NoRedis, find_redis

ROOT = Path(__file__).parents[2]
LIMIT_S = 230


@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.xdist_group("processes")
@pytest.mark.pitfall(31)
def test_three_nodes_lose_and_double_nothing_whatever_is_done_to_them(tmp_path: Path) -> None:
    counts, said = _chaos("cluster", tmp_path)
    assert counts["cancelled"] + counts["moved"] > 0, said


@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.xdist_group("processes")
def test_workers_and_redis_lose_and_double_nothing_whatever_is_done_to_them(tmp_path: Path) -> None:
    """Three nodes that only fire, two workers inside the trust zone, two over HTTP, hints through Redis."""
    try:
        find_redis()
    except NoRedis as error:
        pytest.skip(str(error))
    counts, said = _chaos("workers", tmp_path)
    met = counts["faults"]
    assert any(kind.startswith("worker") for kind in met), said
    assert any(kind.startswith("redis") for kind in met), said


def _chaos(kind: str, folder: Path) -> tuple[dict[str, Any], str]:
    try:
        find_binaries()
    except NoPostgres as error:
        pytest.skip(str(error))
    # A process of its own: it moves into a private network where it may.
    command = [sys.executable, "-m", "tests.acceptance.crash", kind, "--seconds", "20", "--jobs", "600"]
    command += ["--longest-freeze", "6", "--seed", "7", "--keep", str(folder), "--json"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    said = f"{done.stdout[-4_000:]}\n{done.stderr[-4_000:]}"
    assert done.stdout.strip().endswith("}"), said
    counts: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    assert counts["clean"], said
    assert counts["lost"] == counts["double_committed"] == counts["early"] == counts["after_cancel"] == 0
    assert counts["jobs"] == 600
    assert counts["moves"] > 1_000, "the witness saw the runs"
    assert sum(counts["faults"].values()) >= 5, "too little was broken to prove anything"
    return counts, said
