"""Lateness while somebody holds a snapshot, so that vacuum can't take anything away: 2,000 jobs/s for a while.

    python bench/long_reader.py --rate 2000 --seconds 600

Starts a PostgreSQL of its own, lets a session read all tables in one transaction that stays open, and runs
`tickwheel bench lateness` on the same database. Ends with that benchmark's line of JSON.
"""

import argparse
import subprocess
import sys
from pathlib import Path

import psycopg

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from tests.servers.postgresql import PostgresServer  # noqa: E402 - the path has to be set first

WARM_UP = ("lateness", "--rate", "100", "--seconds", "1")


def main() -> int:
    """Run it; the exit code is that of the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rate", type=int, default=2_000)
    parser.add_argument("--seconds", type=int, default=600)
    given = parser.parse_args()
    with PostgresServer() as server:
        store = server.create_database("bench")
        _bench(store, *WARM_UP)  # makes the tables
        with psycopg.connect(store) as reader:
            reader.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            reader.execute("SELECT count(*) FROM tickwheel.runs")
            done = _bench(store, "lateness", "--rate", str(given.rate), "--seconds", str(given.seconds))
    said = done.stdout.strip() or done.stderr.strip() or f"it ended with {done.returncode} and said nothing"
    print(said.splitlines()[-1])
    return done.returncode


def _bench(store: str, *words: str) -> "subprocess.CompletedProcess[str]":
    tickwheel = Path(sys.executable).with_name("tickwheel")
    command = [str(tickwheel), "bench", *words, "--store", store, "--json"]
    return subprocess.run(command, capture_output=True, text=True, check=False)


if __name__ == "__main__":
    sys.exit(main())
