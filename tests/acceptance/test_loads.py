"""What is heavy for one is not felt by the others, with a real server; the long forms run in `tickwheel bench`."""

import threading
from pathlib import Path

import numpy as np
import pytest

from tickwheel.interfaces.bench.poster import handler_jobs, post_all, webhook_jobs
from tickwheel.interfaces.bench.server import BenchServer
from tickwheel.wiring import system_clock

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("processes")]

JOBS = 3_000
SPAN_MS = 1_500
AHEAD_MS = 2_000
LARGEST = '"' + "x" * (256 * 1024 - 2) + '"'
NOBODY = "http://127.0.0.1:9/"


@pytest.mark.pitfall(73)
def test_one_payload_of_the_largest_size_makes_none_of_the_others_late(tmp_path: Path) -> None:
    clock = system_clock()
    with BenchServer(f"sqlite:{tmp_path / 'data'}", tmp_path) as server:
        due_ms = clock.now_ms() + AHEAD_MS
        # Nobody answers there, so it is tried again meanwhile; the other one just runs.
        post_all(server.port, [webhook_jobs(NOBODY, [due_ms], LARGEST)], connections=1, on_sent=ignore)
        post_all(server.port, [handler_jobs("noop", [due_ms], LARGEST)], connections=1, on_sent=ignore)
        due = due_ms + np.arange(JOBS) * SPAN_MS // JOBS
        bodies = [handler_jobs("record", due[part::4].tolist(), "1") for part in range(4)]
        assert post_all(server.port, bodies, connections=2, on_sent=ignore) == JOBS
        threading.Event().wait((due_ms + SPAN_MS + 1_500 - clock.now_ms()) / 1000)
    scheduled_ms, called_ms = server.calls()
    late = called_ms - scheduled_ms
    assert len(late) == JOBS
    assert late.min() >= 0
    assert np.percentile(late, 99) < 1_000, "measured: as without it, some 0.1 s on a busy machine"


@pytest.mark.pitfall(58)
def test_lateness_stays_flat_when_more_comes_due_each_second_than_a_page_holds(tmp_path: Path) -> None:
    clock = system_clock()
    with BenchServer(f"sqlite:{tmp_path / 'data'}", tmp_path) as server:
        due_ms = clock.now_ms() + AHEAD_MS
        due = due_ms + np.arange(JOBS) * SPAN_MS // JOBS  # 2,000 a second
        bodies = [handler_jobs("record", part.tolist(), "1") for part in np.array_split(due, 4)]
        assert post_all(server.port, bodies, connections=2, on_sent=ignore) == len(due)
        threading.Event().wait((due_ms + SPAN_MS + 1_500 - clock.now_ms()) / 1000)
    scheduled_ms, called_ms = server.calls()
    late = (called_ms - scheduled_ms)[np.argsort(scheduled_ms, kind="stable")]
    assert len(late) == len(due)
    first, last = np.median(late[: len(late) // 4]), np.median(late[-len(late) // 4 :])
    assert last < first + 500, f"it grew from {first} to {last} ms"


def ignore(count: int) -> None:
    """Nobody watches the progress."""
