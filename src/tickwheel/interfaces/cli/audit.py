"""`tickwheel audit`: is every job that was accepted on its way, or has it ended?"""

import asyncio
import sys
from typing import TYPE_CHECKING, Final

import click

from tickwheel.interfaces.cli.failures import ExitCode
from tickwheel.interfaces.cli.output import print_fields, print_json
from tickwheel.interfaces.cli.settings_options import ALL, read_settings, settings_options
from tickwheel.ports.audit import Standing

if TYPE_CHECKING:
    from tickwheel.wiring import FullAudit

_WANTED = frozenset({"data", "store", "retention_days"})
_WORDS: Final = {
    Standing.WAITING: "waiting",
    Standing.OVERDUE: "overdue (due for over a minute)",
    Standing.IN_FLIGHT: "in flight",
    Standing.PAST_LEASE: "in flight past their lease",
    Standing.PAUSED: "paused",
    Standing.SUCCEEDED: "succeeded",
    Standing.FAILED: "failed",
    Standing.CANCELLED: "cancelled",
    Standing.SKIPPED: "skipped",
    Standing.ENDED: "ended otherwise",
}


@click.command(
    epilog="\b\nExamples:\n  tickwheel audit\n  tickwheel audit --store postgresql://app@db/jobs --json"
)
@settings_options(leave_out=frozenset(ALL) - _WANTED)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_context
def audit(context: click.Context, /, as_json: bool, **_: object) -> None:
    """Account for every job and run in the store.

    Each was accepted, comes due and ends. Reads the store itself, in small pieces, while servers run.
    `unaccounted` are jobs and runs that have neither a live timer nor an end: nothing will ever fire them. There
    must be none, nor slots of limits of concurrency without a run; the exit code is 1 if there are.
    """
    settings = read_settings(context)
    from tickwheel.wiring import audit_store

    shows = sys.stderr.isatty() and not as_json
    with click.progressbar(length=1, label="Looking", file=sys.stderr, hidden=not shows) as bar:

        def expect(count: int) -> None:
            bar.length = max(1, count)

        found = asyncio.run(audit_store(settings, bar.update, expect))
    if as_json:
        _print_json(found)
    else:
        _show(found)
    if not _is_well(found):
        raise SystemExit(ExitCode.FAILED)


def _is_well(found: "FullAudit") -> bool:
    return not (found.report.unaccounted or found.report.stray_slots)


def _print_json(found: "FullAudit") -> None:
    report = found.report
    print_json(
        {
            "ok": _is_well(found),
            "accepted": report.accepted,
            "jobs": {standing.value: report.jobs.get(standing, 0) for standing in Standing},
            "runs": {standing.value: report.runs.get(standing, 0) for standing in Standing},
            "dead_letters": found.dead_letters,
            "broken_chains": found.broken_chains,
            "old_partitions": dict(found.old_partitions),
            "unaccounted": report.unaccounted,
            "stray_slots": report.stray_slots,
            "examples": list(report.examples),
        }
    )


def _show(found: "FullAudit") -> None:
    report = found.report
    jobs = [(f"  {_WORDS[standing]}", report.jobs.get(standing)) for standing in _WORDS]
    runs = [(f"  {_WORDS[standing]}", report.runs.get(standing)) for standing in _WORDS]
    old = ", ".join(f"{count} of {table}" for table, count in sorted(found.old_partitions.items()))
    print_fields(
        [
            ("jobs accepted", f"{report.accepted:,}"),
            *((name, f"{count:,}") for name, count in jobs if count),
            ("runs of recurring jobs", f"{sum(report.runs.values()):,}"),
            *((name, f"{count:,}") for name, count in runs if count),
            ("dead letters", f"{found.dead_letters:,}"),
            ("broken chains", f"{found.broken_chains:,}"),
            ("partitions kept past their time", old),
            ("unaccounted", f"{report.unaccounted:,}"),
            ("slots of limits without a run", f"{report.stray_slots:,}"),
        ]
    )
    for example in report.examples:
        click.echo(f"  {example}")
