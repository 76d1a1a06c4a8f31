"""`tickwheel slo`: how the objectives of lateness stand."""

import click

from tickwheel.interfaces.cli.api import Api, server_options
from tickwheel.interfaces.cli.instants import short
from tickwheel.interfaces.cli.output import print_table
from tickwheel.interfaces.client import calls
from tickwheel.interfaces.client.slo_models import Objective, Slo


@click.command()
@server_options
def slo(api: Api) -> None:
    """Show how late starts are, and what of the error budget is left.

    Objectives are set with --slo of the server, by lane and by tenant. BUDGET is what is left of the late starts
    that 30 days allow ("spent 3.0x": three times as many were late); a burn rate of 1 uses it up in just that
    time. Counted is what the node that answers has started since it runs; of a cluster, Prometheus has the sum. An
    alert takes ten late starts. --tenant shows a tenant's own.
    """
    api.show(calls.slo(api.tenant), _show)


def _show(found: Slo) -> None:
    print_table(
        (
            "OBJECTIVE",
            "TARGET",
            "WITHIN",
            "STARTS",
            "LATE",
            "ON TIME",
            "BUDGET",
            "BURN 5m",
            "1h",
            "6h",
            "3d",
            "ALERT",
        ),
        [_row(one) for one in found.objectives],
        empty="There is no objective; `tickwheel serve --slo HIGH=99.9%@1s` sets one.",
    )
    click.echo(f"Node {found.node}, since {short(found.counted_since)}.", err=True)


def _row(one: Objective) -> tuple[str, ...]:
    rates = one.burn_rates
    return (
        one.name,
        f"{one.target_percent:g} %",
        _length(one.bound_ms),
        f"{one.starts:,}",
        f"{one.late:,}",
        "-" if one.on_time_percent is None else f"{one.on_time_percent:.2f} %",
        budget_text(one.budget_left_percent),
        *(f"{rates[window]:.1f}" for window in ("5m", "1h", "6h", "3d")),
        one.alert or "-",
    )


def budget_text(left_percent: float) -> str:
    """What is left of an error budget, or how many times it is spent."""
    if left_percent >= 0:
        return f"{left_percent:.1f} %"
    times = 1 - left_percent / 100
    return f"spent {times:,.{0 if times >= 100 else 1}f}x"


def _length(length_ms: int) -> str:
    for unit, unit_ms in (("h", 3_600_000), ("m", 60_000), ("s", 1_000)):
        if length_ms % unit_ms == 0:
            return f"{length_ms // unit_ms} {unit}"
    return f"{length_ms} ms"
