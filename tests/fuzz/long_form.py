"""The long form: every parser, in several processes. Prints a table; `main` gives 1 if anything was found."""

import argparse
import sys
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

from .all_parsers import all_parsers
from .parser import Parser
from .running import Report, Runner

FOUND = Path("build/fuzz")


def run_one(name: str, count: int, number: int, until_s: float) -> Report:
    """In one of the processes; to import everything anew for each parser would take longer than the inputs."""
    [parser] = [parser for parser in all_parsers() if parser.name == name]
    try:
        return Runner(parser, until_s).run(count, number)
    finally:
        parser.close()


def main() -> int:
    """Fuzz as the command line says, and tell."""
    options = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    options.add_argument("--inputs", type=int, default=200_000, help="How many in all (default: 200000).")
    options.add_argument(
        "--seconds", type=int, default=480, help="Nothing new begins after so long (default: 480)."
    )
    options.add_argument("--workers", type=int, default=2, help="Processes (default: 2).")
    options.add_argument("--seed", type=int, default=0, help="Other inputs for each number (default: 0).")
    options.add_argument("--only", default="", help="Parsers whose names hold this text.")
    given = options.parse_args()
    parsers = [parser for parser in all_parsers() if given.only in parser.name]
    until_s = time.monotonic() + given.seconds
    per_share = given.inputs / sum(parser.share for parser in parsers)
    reports: dict[str, Report] = {}
    with ProcessPoolExecutor(given.workers) as pool:
        # The largest first, so that none is left alone at the end.
        ordered = sorted(parsers, key=lambda parser: -parser.share)
        futures = [
            pool.submit(run_one, parser.name, int(per_share * parser.share), given.seed, until_s)
            for parser in ordered
        ]
        for future in as_completed(futures):
            report = future.result()
            reports[report.name] = report
            _tell(report)
    print_table(parsers, reports)
    return 1 if any(report.findings for report in reports.values()) else 0


def _tell(report: Report) -> None:
    for number, finding in enumerate(report.findings.values()):
        FOUND.mkdir(parents=True, exist_ok=True)
        kept = FOUND / f"{report.name}-{number}.txt"
        kept.write_bytes(finding.data)
        print(f"\nFOUND in {report.name}: {finding.kind}; the input is in {kept}: {finding.data[:200]!r}")
        print(finding.text[-3_000:])
    sys.stdout.flush()


def print_table(parsers: list[Parser], reports: dict[str, Report]) -> None:
    """As Markdown. Inputs are counted once each, however often they came."""
    print("\n| parser | inputs | by grammar | mutated | taken | refused | slowest | findings |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|")
    rows = [reports[parser.name] for parser in parsers]
    for row in rows:
        print(
            f"| `{row.name}` | {row.tried:,} | {row.grammar:,} | {row.mutated:,} | {row.taken:,} "
            f"| {row.refused:,} "
            f"| {row.slowest_s * 1000:.1f} ms | {len(row.findings)} |"
        )
    sums = [
        sum(getattr(row, name) for row in rows) for name in ("tried", "grammar", "mutated", "taken", "refused")
    ]
    slowest = max(row.slowest_s for row in rows)
    found = sum(len(row.findings) for row in rows)
    print(f"| all {len(rows)} | {' | '.join(f'{one:,}' for one in sums)} | {slowest * 1000:.1f} ms | {found} |")
