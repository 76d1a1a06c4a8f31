"""Medians and the page's section."""

from pathlib import Path

import pytest
from bench.peers.report import BEGIN, END, Outcome, medians_of, render, write_section
from bench.peers.step import Sizes

VERSIONS = {"PostgreSQL": "15.0", "Redis": ""}


def outcome(peer: str, workload: str = "drain", **figures: float) -> Outcome:
    return Outcome(peer, workload, 1, figures)


def rendered(*outcomes: Outcome) -> str:
    return render(outcomes, sizes=Sizes(), rounds=3, versions=VERSIONS, load=0.5)


def row_of(section: str, title: str) -> list[str]:
    lines = [line for line in section.splitlines() if line.startswith(f"| {title} |")]
    return [cell.strip() for cell in lines[0].split("|")[2:-1]]


def test_the_median_of_the_rounds_counts() -> None:
    rounds = [Outcome("tickwheel", "drain", n, {"per_s": value}) for n, value in enumerate((1, 9, 5))]
    assert medians_of(rounds) == {("tickwheel", "drain", "per_s"): 5}


def test_a_failed_round_does_not_count() -> None:
    failed = Outcome("tickwheel", "drain", 2, {}, "it broke")
    assert medians_of([outcome("tickwheel", per_s=7), failed]) == {("tickwheel", "drain", "per_s"): 7}


def test_more_runs_and_less_cpu_are_ahead() -> None:
    section = rendered(
        outcome("tickwheel", per_s=10_000, cpu_s_per_1k=0.05), outcome("pg-boss", per_s=20_000, cpu_s_per_1k=0.1)
    )
    assert row_of(section, "pg-boss") == ["**20,000 (×2.00)**", "0.100 (×2.00)"]
    assert "- pg-boss: drain, runs/s (20,000 against 10,000)" in section


def test_less_lateness_is_ahead() -> None:
    section = rendered(
        outcome("tickwheel", "steady", late_p50_ms=10, late_p99_ms=40),
        outcome("pgqueuer", "steady", late_p50_ms=20, late_p99_ms=30),
    )
    assert row_of(section, "PgQueuer") == ["20 (×2.00)", "**30 (×0.75)**"]


def test_an_equal_figure_is_not_ahead() -> None:
    section = rendered(outcome("tickwheel", per_s=500), outcome("pg-boss", per_s=500))
    assert row_of(section, "pg-boss") == ["500 (×1.00)", "–"]
    assert "No peer is ahead" in section


def test_without_tickwheel_there_are_no_ratios() -> None:
    section = rendered(outcome("pg-boss", per_s=500))
    assert row_of(section, "pg-boss")[0] == "500"
    assert "ahead of Tickwheel" not in section.lower().replace("**bold**", "")


def test_a_part_of_the_jobs_is_told_beside_the_figure() -> None:
    section = rendered(outcome("tickwheel", per_s=500), outcome("celery", per_s=250))
    assert row_of(section, "Celery, fsync each second")[0] == "250 (×0.50, 1/40 of the jobs)"


def test_a_smaller_burst_is_not_compared() -> None:
    section = rendered(
        outcome("tickwheel", "burst", late_p50_ms=100, late_p99_ms=200),
        outcome("procrastinate", "burst", late_p50_ms=50, late_p99_ms=70),
    )
    assert row_of(section, "Procrastinate") == ["50 (1/10 of the jobs)", "70 (1/10 of the jobs)"]
    assert "No peer is ahead" in section


def test_who_was_left_out_is_told() -> None:
    section = render(
        [outcome("tickwheel", per_s=1)],
        sizes=Sizes(),
        rounds=1,
        versions=VERSIONS,
        load=0.5,
        left_out=["River is left out: go is not installed"],
    )
    assert "- River is left out: go is not installed" in section


def test_a_failure_and_an_early_start_are_told() -> None:
    early = outcome("celery", "steady", late_p50_ms=1, late_p99_ms=2, early=3)
    section = rendered(Outcome("pg-boss", "burst", 1, {}, "Error: a | b"), early)
    assert "- pg-boss, burst: Error: a   b" in section
    assert "- Celery, fsync each second, steady: 3 started before they were due" in section


def test_only_the_marked_section_is_replaced(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"# Before\n{BEGIN}\nold\n{END}\nafter\n")
    write_section(page, "new")
    assert page.read_text() == f"# Before\n{BEGIN}\nnew\n{END}\nafter\n"


def test_a_page_without_marks_is_left_alone(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"{BEGIN} and no end\n")
    with pytest.raises(ValueError, match="no section"):
        write_section(page, "new")
    assert page.read_text() == f"{BEGIN} and no end\n"


def test_the_page_of_benchmarks_has_the_section() -> None:
    text = (Path(__file__).parents[2] / "docs" / "benchmarks.md").read_text()
    assert text.count(BEGIN) == text.count(END) == 1
