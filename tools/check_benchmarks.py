"""Runs each benchmark once, as small as it gets, and looks at what it prints.

usage: python tools/check_benchmarks.py NAME...

The figures mean nothing at this size. What is held: the command works, and its last line is one flat JSON
object with the numbers that its name promises. What needs PostgreSQL gets a server of its own, and is left out
with one line where there is none.
"""

import json
import math
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

LIMIT_S = 120
ROOT = Path(__file__).parent.parent
ON_POSTGRESQL = {"failover", "takeover"}
PROMISED = {
    "ingest": ("jobs_per_s",),
    "ingest-single": ("jobs_per_s", "cpu_s_per_1k"),
    "trigger": ("triggers_per_s", "late_p50_ms", "late_p99_ms", "late_max_ms", "cpu_s_per_1k", "load_s"),
    "growth": (
        *("late_p50_ms", "late_p99_ms", "triggers_per_s", "claim_cpu_s_per_1k", "claim_us"),
        *("late_p99_ms_ratio", "triggers_per_s_ratio", "claim_cpu_s_per_1k_ratio", "claim_us_ratio"),
    ),
    "throughput": ("runs_per_s", "cpu_s_per_1k"),
    "pipeline": ("runs_per_s", "late_p50_ms", "late_p99_ms", "late_max_ms"),
    "lateness": ("late_p50_ms", "late_p99_ms", "late_max_ms"),
    "burst": ("runs_per_s", "late_max_ms"),
    "webhooks": ("runs_per_s", "late_p99_ms"),
    "startup": ("first_fire_ms", "start_armed_ms"),
    "takeover": ("on_time_first_ms", "on_time_all_ms", "all_armed_ms", "first_fire_ms"),
    "lists": ("first_max_ms", "walk_max_ms", "counts_max_ms"),
    "memory": ("bytes_per_timer", "rss_mb"),
    "failover": ("gap_worst_ms", "failed_requests"),
    "overload": (
        *("capacity_per_s", "offered_per_s", "refused", "errors", "calm_p99_ms", "flooded_p99_ms"),
        *("recovered_ms", "recovered_p99_ms", "rss_begin_mb", "rss_middle_mb", "rss_end_mb"),
    ),
    "lanes": ("critical_alone_p99_ms", "critical_flooded_p99_ms", "ratio", "low_runs_ended"),
    "fairness": ("alone_p99_ms", "flooded_p99_ms", "ratio", "worst_ratio"),
}


def find_problem(name: str, output: str) -> str | None:
    """What is wrong with the output of benchmark `name`, or None."""
    lines = output.strip().splitlines()
    try:
        answer = json.loads(lines[-1] if lines else "")
    except ValueError:
        return "the last line is not JSON"
    if not isinstance(answer, dict):
        return "the last line is not a JSON object"
    if nested := [key for key, value in answer.items() if isinstance(value, dict | list)]:
        return f"{nested[0]} is not flat"
    for key in PROMISED[name]:
        value = answer.get(key)
        if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value):
            return f"{key} is {value!r}, not a number"
    return None


@contextmanager
def store_for(name: str, directory: Path) -> Iterator[str | None]:
    """The URL of an empty store; None where there is no PostgreSQL for a benchmark that needs it."""
    if name not in ON_POSTGRESQL:
        yield f"sqlite:{directory / name}"
        return
    command = [sys.executable, "-m", "tests.servers.postgresql"]
    server = subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert server.stdout is not None
    try:
        yield server.stdout.readline().strip() or None
    finally:
        server.communicate()  # it ends with its input


def run_benchmark(name: str, directory: Path) -> str | None:
    """Run one in its smallest form; what is wrong with it, or None."""
    with store_for(name, directory) as store:
        if store is None:
            print(f"{name}: left out, there is no PostgreSQL here")
            return None
        return _run(name, store)


def _run(name: str, store: str) -> str | None:
    command = [
        str(Path(sys.executable).with_name("tickwheel")),
        *("bench", name, "--smoke", "--json", "--store", store),
    ]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired:
        return f"still running after {LIMIT_S} s"
    if done.returncode:
        return f"exit code {done.returncode}: {done.stderr.strip()[-400:]}"
    return find_problem(name, done.stdout)


def main(names: list[str]) -> int:
    """Run them in turn; the exit code says if all did what they promise."""
    failed = False
    with tempfile.TemporaryDirectory() as directory:
        for name in names:
            problem = run_benchmark(name, Path(directory))
            print(f"{name}: {problem or 'ok'}", file=sys.stderr if problem else sys.stdout)
            failed = failed or problem is not None
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
