"""python -m tests.acceptance.crash --jobs 5000 --kills 25 --seconds 60 --running 5000"""

import argparse
import sys
import tempfile
from pathlib import Path

from .running import kill_while_running
from .scenario import crash_test


def main() -> int:
    parser = argparse.ArgumentParser(description="Kill a server again and again under load; nothing may be lost.")
    parser.add_argument("--jobs", type=int, default=5_000)
    parser.add_argument("--kills", type=int, default=25)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--running", type=int, default=5_000, help="runs under way at one more kill; 0 = none")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, help="folder for data and logs (default: a temporary one)")
    given = parser.parse_args()

    def run(folder: Path) -> int:
        verdict = crash_test(
            folder, jobs=given.jobs, kills=given.kills, seconds=given.seconds, seed=given.seed, tell=print
        )
        print(verdict)
        if not given.running:
            return 0 if verdict.clean else 1
        recovery = kill_while_running(folder / "running", runs=given.running, tell=print)
        print(recovery)
        return 0 if verdict.clean and recovery.clean else 1

    if given.keep is not None:
        given.keep.mkdir(parents=True, exist_ok=True)
        return run(given.keep)
    with tempfile.TemporaryDirectory() as folder:
        return run(Path(folder))


if __name__ == "__main__":
    sys.exit(main())
