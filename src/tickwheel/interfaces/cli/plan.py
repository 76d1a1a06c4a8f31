"""`tickwheel plan`: what a load needs of machines. Needs no server."""

from math import isnan
from typing import Any, Final

import click

from tickwheel.domain.capacity import BUSY_SHARE, PRIMARY_PER_S, Load, Needs, needs
from tickwheel.interfaces.cli.output import print_fields, print_json

DEFAULT_PEAK_SHARE: Final = 4.0
_UNITS: Final = ("B", "KB", "MB", "GB", "TB", "PB")
_STEP: Final = 1_000
_MOST: Final = 10**12
"""Far more than anybody has of anything, and little enough for the sums."""


class _Amount(click.FloatRange):
    """Without "nan", which lies in every range."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        amount = super().convert(value, param, ctx)
        if isnan(amount):
            self.fail(f"{value!r} is no amount", param, ctx)
        return amount


@click.command(
    epilog="\b\nExamples:\n"
    "  tickwheel plan --jobs 1000000 --peak 500\n"
    "  tickwheel plan --jobs 500000000 --peak 50000 --mean 5000 --retention-days 3 --json"
)
@click.option("--jobs", type=click.IntRange(0, _MOST), required=True, help="Jobs that wait at a time.")
@click.option("--peak", type=_Amount(0, _MOST), required=True, help="Runs per second at the peak.")
@click.option("--mean", type=_Amount(0, _MOST), help="On average (default: a quarter of the peak).")
@click.option(
    "--payload-bytes", type=click.IntRange(0, _MOST), default=200, show_default=True, help="Length of a payload."
)
@click.option(
    "--horizon-days",
    type=_Amount(0.05, _MOST),
    default=30.0,
    show_default=True,
    help="Over how many days what waits is due.",
)
@click.option(
    "--retention-days",
    type=_Amount(1, _MOST),
    default=7.0,
    show_default=True,
    help="How long history is kept.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def plan(
    jobs: int,
    peak: float,
    mean: float | None,
    payload_bytes: int,
    horizon_days: float,
    retention_days: float,
    as_json: bool,
) -> None:
    """Show what a load needs of machines.

    Cores, memory, disk and log of a cluster on PostgreSQL: arithmetic from prices that were measured on two cores
    of a server's processor. Measure yours with `tickwheel bench`.
    """
    mean = peak / DEFAULT_PEAK_SHARE if mean is None else mean
    needed = needs(Load(jobs, peak, mean, payload_bytes, horizon_days, retention_days))
    if as_json:
        print_json(needed._asdict())
        return
    print_fields(
        [
            ("PostgreSQL", f"{needed.database_cores:,} cores, {BUSY_SHARE:.0%} busy at the peak"),
            ("primaries", _primaries(needed.primaries)),
            ("Tickwheel", f"{needed.processes:,} processes of one core, {BUSY_SHARE:.0%} busy at the peak"),
            ("timers in memory", f"{needed.armed_timers:,} within the hour"),
            ("memory", f"{_sized(needed.armed_bytes)} over all processes"),
            ("buffer", f"{_sized(needed.buffered_bytes)} of Redis for {_buffered(needed)}"),
            ("disk, waiting jobs", _sized(needed.waiting_bytes)),
            ("disk, history", f"{_sized(needed.history_bytes)} in {retention_days:g} days"),
            ("write-ahead log", f"{_sized(needed.log_bytes_per_s)} per second at the peak"),
            ("log archive", f"{_sized(needed.log_bytes_per_day)} per day"),
        ]
    )


def _primaries(count: int) -> str:
    if count == 1:
        return "1"
    return f"{count:,}, each with a cluster of its own: more than {PRIMARY_PER_S:,}/s on one was not measured yet"


def _buffered(needed: Needs) -> str:
    return f"{needed.buffered_timers:,} timers within two hours, if one is used"


def _sized(count: float) -> str:
    for unit in _UNITS[:-1]:
        if count < _STEP:
            return f"{count:,.3g} {unit}"
        count /= _STEP
    return f"{count:,.3g} {_UNITS[-1]}"
