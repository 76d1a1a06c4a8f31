"""python -m tests.acceptance.crash sqlite|cluster|workers; `--help` tells the rest."""

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

from .running import kill_while_running
from .scenario import crash_test

STARTED = time.monotonic()


def main() -> int:
    parser = argparse.ArgumentParser(description="Break servers again and again under load; nothing may be lost.")
    kinds = parser.add_subparsers(dest="kind", required=True)
    alone = kinds.add_parser("sqlite", help="one server on SQLite, killed again and again")
    alone.add_argument("--jobs", type=int, default=5_000)
    alone.add_argument("--kills", type=int, default=25)
    alone.add_argument("--seconds", type=float, default=60)
    alone.add_argument("--running", type=int, default=5_000, help="runs under way at one more kill; 0 = none")
    cluster = kinds.add_parser("cluster", help="three nodes on one PostgreSQL, and all that can happen to them")
    workers = kinds.add_parser("workers", help="three nodes that only fire, four workers and Redis")
    for one in (cluster, workers):
        one.add_argument("--jobs", type=int, default=6_000)
        one.add_argument("--seconds", type=float, default=120)
        one.add_argument("--longest-freeze", type=float, default=40, help="seconds")
        one.add_argument("--proxies", action="store_true", help="no packet filter, even where there is one")
    for one in (alone, cluster, workers):
        one.add_argument("--seed", type=int, default=1)
        one.add_argument("--keep", type=Path, help="folder for data and logs (default: a temporary one)")
        one.add_argument("--json", action="store_true", help="the counts as one line of JSON, last")
    given = parser.parse_args()
    if given.keep is not None:
        given.keep.mkdir(parents=True, exist_ok=True)
        return _run(given, given.keep)
    with tempfile.TemporaryDirectory() as folder:
        return _run(given, Path(folder))


def _run(given: argparse.Namespace, folder: Path) -> int:
    return (_alone if given.kind == "sqlite" else _cluster)(given, folder)


def _alone(given: argparse.Namespace, folder: Path) -> int:
    verdict = crash_test(
        folder, jobs=given.jobs, kills=given.kills, seconds=given.seconds, seed=given.seed, tell=_tell
    )
    print(verdict)
    clean = verdict.clean
    if given.running:
        recovery = kill_while_running(folder / "running", runs=given.running, tell=_tell)
        print(recovery)
        clean = clean and recovery.clean
    if given.json:
        print(json.dumps(verdict.counts()))
    return 0 if clean else 1


def _cluster(given: argparse.Namespace, folder: Path) -> int:
    # Only this form needs PostgreSQL and its driver.
    from ...servers.private_network import enter_private_network
    from .chaos import chaos_test

    private = not given.proxies and enter_private_network()
    if not private:
        print(
            "No packet filter (it needs root, iptables and namespaces): the network is cut by proxies, store only."
        )
    verdict = chaos_test(
        folder,
        jobs=given.jobs,
        seconds=given.seconds,
        longest_freeze_s=given.longest_freeze,
        seed=given.seed,
        private_network=private,
        tell=_tell,
        workers=given.kind == "workers",
    )
    print(verdict)
    if given.json:
        print(verdict.as_json())
    return 0 if verdict.clean else 1


def _tell(line: str) -> None:
    print(f"{time.monotonic() - STARTED:6.1f} s  {line}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
