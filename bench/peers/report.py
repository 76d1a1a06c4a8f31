"""Medians of the rounds, and the Markdown that says them."""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Final, NamedTuple

from bench.peers.catalogue import BASELINE, Peer, find_peer, version_of
from bench.peers.step import Figures, Sizes

BEGIN: Final = "<!-- bench-peers: begin -->"
END: Final = "<!-- bench-peers: end -->"


class Column(NamedTuple):
    """One figure of the table; of what counts in `less`, less is better."""

    workload: str
    figure: str
    title: str
    less: bool


COLUMNS: Final = (
    Column("drain", "per_s", "drain, runs/s", False),
    Column("drain", "cpu_s_per_1k", "CPU s per 1,000", True),
    Column("ingest", "per_s", "batch ingest, jobs/s", False),
    Column("single", "per_s", "single ingest, jobs/s", False),
    Column("burst", "late_p50_ms", "burst p50, ms", True),
    Column("burst", "late_p99_ms", "burst p99, ms", True),
    Column("steady", "late_p50_ms", "steady p50, ms", True),
    Column("steady", "late_p99_ms", "steady p99, ms", True),
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """Of one step: figures, or why there are none."""

    peer: str
    workload: str
    round: int
    figures: Figures
    problem: str = ""
    skipped: bool = False


Medians = dict[tuple[str, str, str], float]
"""By peer, workload and figure."""


def medians_of(outcomes: Iterable[Outcome]) -> Medians:
    """Over the rounds that gave a figure."""
    values: defaultdict[tuple[str, str, str], list[float]] = defaultdict(list)
    for outcome in outcomes:
        for name, value in outcome.figures.items():
            values[outcome.peer, outcome.workload, name].append(value)
    return {key: median(found) for key, found in values.items()}


def is_ahead(column: Column, value: float, ours: float) -> bool:
    """Whether a peer's figure is better than Tickwheel's."""
    return value < ours if column.less else value > ours


def is_comparable(column: Column, share: int) -> bool:
    """Rates and costs are, whatever the number of jobs; how late a burst is hangs on its size."""
    return share == 1 or not column.figure.startswith("late_")


def shown(column: Column, value: float) -> str:
    """With as many digits as mean something."""
    if column.figure == "cpu_s_per_1k":
        return f"{value:.3f}"
    return f"{value:,.0f}" if value >= 10 else f"{value:.1f}"


def _cell(column: Column, value: float | None, ours: float | None, share: int) -> str:
    if value is None:
        return "–"
    text = shown(column, value)
    comparable = ours if is_comparable(column, share) else None
    notes = [f"×{value / comparable:.2f}"] if comparable else []
    if share > 1:
        notes.append(f"1/{share} of the jobs")
    if notes:
        text += f" ({', '.join(notes)})"
    return f"**{text}**" if comparable and is_ahead(column, value, comparable) else text


def render(
    outcomes: Sequence[Outcome],
    *,
    sizes: Sizes,
    rounds: int,
    versions: Mapping[str, str],
    load: float,
    left_out: Sequence[str] = (),
) -> str:
    """The whole section between the marks. `left_out`: a line for each peer that can't be had here."""
    medians = medians_of(outcomes)
    peers = [find_peer(name) for name in dict.fromkeys(outcome.peer for outcome in outcomes)]
    workloads = {outcome.workload for outcome in outcomes}
    columns = [column for column in COLUMNS if column.workload in workloads]
    parts = [
        _conditions(sizes, rounds, versions, load),
        _table(peers, columns, medians),
        _ahead(peers, columns, medians),
        _problems(outcomes, left_out),
        _settings(peers),
    ]
    return "\n\n".join(part for part in parts if part)


def _conditions(sizes: Sizes, rounds: int, versions: Mapping[str, str], load: float) -> str:
    servers = ", ".join(f"{name} {version}" for name, version in versions.items() if version)
    times = "round" if rounds == 1 else "rounds"
    return (
        f"{servers}. Medians of {rounds} interleaved {times}, load average {load:.1f} at the start."
        f" Drain: {sizes.count('drain'):,} due jobs; batch ingest {sizes.count('ingest'):,}; single"
        f" ingest {sizes.count('single'):,}, 64 in flight; burst {sizes.count('burst'):,} for one instant; steady"
        f" {sizes.rate}/s for {sizes.seconds} s. In brackets the ratio to Tickwheel (**bold**: ahead of it), and"
        " which part of the jobs a slow peer had; a smaller burst isn't compared."
    )


def _table(peers: Sequence[Peer], columns: Sequence[Column], medians: Medians) -> str:
    lines = ["| | " + " | ".join(column.title for column in columns) + " |", "|---" * (len(columns) + 1) + "|"]
    for peer in peers:
        cells = [
            _cell(
                column,
                medians.get((peer.name, column.workload, column.figure)),
                None if peer.name == BASELINE else medians.get((BASELINE, column.workload, column.figure)),
                peer.share(column.workload),
            )
            for column in columns
        ]
        lines.append(f"| {peer.title} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _ahead(peers: Sequence[Peer], columns: Sequence[Column], medians: Medians) -> str:
    lines = []
    for peer in peers:
        better = [
            f"{column.title} ({shown(column, value)} against {shown(column, ours)})"
            for column in columns
            if (value := medians.get((peer.name, column.workload, column.figure))) is not None
            and (ours := medians.get((BASELINE, column.workload, column.figure))) is not None
            and is_comparable(column, peer.share(column.workload))
            and is_ahead(column, value, ours)
        ]
        if better:
            lines.append(f"- {peer.title}: {'; '.join(better)}")
    if lines:
        return "Ahead of Tickwheel:\n\n" + "\n".join(lines)
    if not any(name == BASELINE for name, _, _ in medians):
        return ""
    return "No peer is ahead of Tickwheel in any of these columns."


def _problems(outcomes: Iterable[Outcome], left_out: Iterable[str]) -> str:
    found: dict[str, None] = {f"- {_plain(line)}": None for line in left_out}
    for outcome in outcomes:
        title = find_peer(outcome.peer).title
        if outcome.problem:
            found[f"- {title}, {outcome.workload}: {_plain(outcome.problem)}"] = None
        elif early := outcome.figures.get("early"):
            found[f"- {title}, {outcome.workload}: {early:,.0f} started before they were due"] = None
    return "Without a figure, or with a fault:\n\n" + "\n".join(found) if found else ""


def _plain(problem: str) -> str:
    """Without what Markdown would take for itself."""
    return re.sub(r"[<>|*_\[\]]", " ", problem)


def _settings(peers: Sequence[Peer]) -> str:
    lines = ["| | version | store | settings |", "|---|---|---|---|"]
    for peer in peers:
        version = version_of(peer) or "this one"
        lines.append(f"| {peer.title} | {version} | {peer.server.value} | {peer.said} |")
    return "\n".join(lines)


def write_section(page: Path, section: str) -> None:
    """Replace what stands between the marks; ValueError where a page does not have both."""
    text = page.read_text()
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{page} has no section between {BEGIN} and {END}")
    page.write_text(f"{before}{BEGIN}\n{section}\n{END}{after}")
