"""Command line, order of steps, checks of calls, CPU accounts, and the protocol of the programs."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from bench.peers.__main__ import available, parse, plan
from bench.peers.calls import check_calls, lateness, read_calls
from bench.peers.catalogue import BASELINE, PEERS, WORKLOADS, Runtime, find_peer, version_of
from bench.peers.cpu import Process, parse_stat, processes, tree_ticks
from bench.peers.install import PROGRAMS, ROOT
from bench.peers.process import StepFailed, run_program
from bench.peers.step import Sizes, sizes_from


def program(text: str) -> list[str]:
    return [sys.executable, "-c", text]


def test_names_are_taken_with_commas() -> None:
    options = parse(["--peers", "pg-boss,tickwheel", "--workloads", "burst"])
    assert [peer.name for peer in options.peers] == ["pg-boss", "tickwheel"]
    assert options.workloads == ["burst"]


def test_an_unknown_peer_is_refused_with_the_known_ones(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse(["--peers", "cron"])
    assert "graphile-worker" in capsys.readouterr().err


def test_steps_are_interleaved_and_begin_with_another_peer_each_round() -> None:
    peers = [find_peer("tickwheel"), find_peer("pg-boss")]
    steps = [(number, workload, peer.name) for number, workload, peer in plan(peers, ["drain", "burst"], 2)]
    assert steps == [
        (1, "drain", "tickwheel"),
        (1, "drain", "pg-boss"),
        (1, "burst", "tickwheel"),
        (1, "burst", "pg-boss"),
        (2, "drain", "pg-boss"),
        (2, "drain", "tickwheel"),
        (2, "burst", "pg-boss"),
        (2, "burst", "tickwheel"),
    ]


def test_a_peer_is_left_out_of_what_it_does_not_do() -> None:
    peers = [find_peer("bullmq-always")]
    assert [workload for _, workload, _ in plan(peers, WORKLOADS, 1)] == ["drain", "ingest", "single"]


def test_every_peer_has_a_pinned_version_and_a_program() -> None:
    suffix = {Runtime.NODE: "", Runtime.PYTHON: ".py", Runtime.GO: ".go", Runtime.JAVA: ".java"}
    others = [peer for peer in PEERS if peer.name != BASELINE]
    assert len({peer.name for peer in PEERS}) == len(PEERS)
    assert all(version_of(peer) for peer in others)
    assert all((PROGRAMS / f"{peer.program}{suffix[peer.runtime]}").is_file() for peer in others)


def test_a_peer_without_its_runtime_is_left_out_with_a_line() -> None:
    peers = [find_peer("tickwheel"), find_peer("river")]
    assert available(peers, {Runtime.GO: "go is not installed"}) == (
        [find_peer("tickwheel")],
        ["River is left out: go is not installed"],
    )


def test_the_limit_of_a_step_and_the_counts_can_be_given() -> None:
    options = parse(["--limit", "40", "--jobs", "1000"])
    sizes = sizes_from(Sizes(), jobs=options.jobs, limit_s=options.limit, burst=options.burst)
    assert (sizes.limit_s, sizes.jobs, sizes.burst) == (40, 1_000, Sizes().burst)


def test_a_slow_peer_has_a_part_of_the_jobs_where_that_is_said() -> None:
    peer = find_peer("celery")
    assert peer.share("drain") > 1 == peer.share("single")
    assert Sizes(jobs=1_000).count("drain", 4) == 250
    assert Sizes(jobs=2, burst=3).count("burst", 4) == 1


def test_calls_of_all_workers_are_read(tmp_path: Path) -> None:
    np.array([(0, 1.5), (2, 3)]).tofile(tmp_path / "calls-1.bin")
    np.array([(1, 2.0)]).tofile(tmp_path / "calls-2.bin")
    calls = read_calls(tmp_path)
    check_calls(calls, 3)
    assert lateness(calls) == {"late_p50_ms": 2.0, "late_p99_ms": 3.0, "late_max_ms": 3.0, "early": 0}


@pytest.mark.parametrize(
    ("numbers", "told"),
    [
        ([], "3 were not called and 0 more than once"),
        ([0, 1], "1 were not called and 0 more than once"),
        ([0, 1, 2, 2], "0 were not called and 1 more than once"),
        ([0, 0, 1], "1 were not called and 1 more than once"),
        ([0, 1, 2, 3], "not created"),
    ],
)
def test_anything_but_once_each_fails(numbers: list[int], told: str) -> None:
    with pytest.raises(StepFailed, match=told):
        check_calls(np.array([(number, 0.0) for number in numbers]).reshape(-1, 2), 3)


def test_a_start_before_its_time_is_counted() -> None:
    assert lateness(np.array([(0, -20.0), (1, -0.4), (2, 5.0)]))["early"] == 1


def test_a_name_with_brackets_does_not_confuse_the_account() -> None:
    fields = ["S", "7", *["0"] * 9, "10", "20", "3", "4", *["0"] * 30]
    assert parse_stat(f"42 (a) b (c) {' '.join(fields)}") == Process(parent=7, ticks=37)


def test_a_tree_counts_descendants_and_nobody_else() -> None:
    among = {1: Process(0, 1), 2: Process(1, 10), 3: Process(2, 100), 4: Process(1, 1000)}
    assert tree_ticks(2, among) == 110
    assert tree_ticks(9, among) == 0
    assert processes()[os.getpid()].parent == os.getppid()


def test_a_program_waits_at_each_mark_and_gives_its_last_line() -> None:
    seen: list[str] = []
    text = """
print('{"mark": "loaded"}', flush=True)
went = input()
print('{"mark": "done"}', flush=True)
went += input()
print('noise')
print('{"went": "%s"}' % went, flush=True)
"""
    assert run_program(program(text), limit_s=30, on_mark=lambda mark, pid: seen.append(mark)) == {"went": "gogo"}
    assert seen == ["loaded", "done"]


def test_a_program_that_fails_tells_why() -> None:
    with pytest.raises(StepFailed, match="ValueError: no luck"):
        run_program(program("raise ValueError('no luck')"), limit_s=30)


def test_a_program_without_a_result_fails() -> None:
    with pytest.raises(StepFailed, match="no result"):
        run_program(program("print('hello')"), limit_s=30)


def test_a_program_that_hangs_is_ended_with_its_children() -> None:
    text = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
print('{"mark": "%d"}' % child.pid, flush=True)
child.wait()
"""
    children: list[int] = []
    with pytest.raises(StepFailed, match="still running"):
        run_program(program(text), limit_s=3, on_mark=lambda mark, pid: children.append(int(mark)))
    assert len(children) == 1
    assert _is_gone(children[0])


def test_a_driver_that_is_ended_takes_its_programs_along() -> None:
    text = """
import sys
from bench.peers.process import end_in_order_on_sigterm, run_program
end_in_order_on_sigterm()
sleeping = [sys.executable, "-c", "import os, time; print('{\\"mark\\": 1}', flush=True); time.sleep(60)"]
run_program(sleeping, limit_s=60, on_mark=lambda mark, pid: print(pid, flush=True))
"""
    with subprocess.Popen(program(text), cwd=ROOT, stdout=subprocess.PIPE, text=True) as driver:
        assert driver.stdout is not None
        child = int(driver.stdout.readline())
        driver.terminate()
        assert driver.wait(20) == 128 + signal.SIGTERM
    assert _is_gone(child)


def _is_gone(pid: int) -> bool:
    for _ in range(500):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return True
        if state == "Z":
            return True
        time.sleep(0.01)
    return False


def test_tickwheel_itself_stops_before_and_after_draining(tmp_path: Path) -> None:
    seen: list[str] = []
    config = json.dumps({"url": f"sqlite:{tmp_path / 'bench.db'}", "jobs": 300})
    command = [sys.executable, "-m", "bench.peers.programs.tickwheel_drain", "main", config]
    figures = run_program(command, limit_s=100, on_mark=lambda mark, pid: seen.append(mark))
    assert seen == ["loaded", "done"]
    assert figures["runs"] == 300
