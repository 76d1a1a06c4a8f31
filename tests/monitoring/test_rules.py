"""Every alert fires when it should and is silent when it should, by Prometheus's own promtool."""

import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from tickwheel.adapters.telemetry.catalogue import FAMILIES, Kind
from tickwheel.domain.slo import LATE_LEAST
from tickwheel.domain.slo import RULES as SLO_RULES

from .alert_cases import CASES, Case
from .tools import DEPLOY, binary

RULES = DEPLOY / "prometheus"


def rules(name: str) -> Iterator[Mapping[str, Any]]:
    for group in yaml.safe_load((RULES / name).read_text())["groups"]:
        yield from group["rules"]


def promtool(*arguments: str) -> str:
    done = subprocess.run([binary("promtool"), *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def case_of(series: Mapping[str, str], alert: str, case: Case, *, fires: bool) -> dict[str, Any]:
    expected = [{"labels": "{}", "value": 1}] if fires else []
    end = case.steps * case.step_minutes
    query = f'max(ALERTS{{alertname="{alert}",alertstate="firing"}})'
    return {
        "interval": f"{case.step_minutes}m",
        "input_series": [{"series": in_job(name), "values": values} for name, values in series.items()],
        "promql_expr_test": [{"expr": query, "eval_time": f"{end}m", "exp_samples": expected}],
    }


def in_job(series: str) -> str:
    name, _, labels = series.partition("{")
    return f'{name}{{job="tickwheel",{labels}' if labels else f'{name}{{job="tickwheel"}}'


def test_the_files_are_well_formed() -> None:
    promtool("check", "rules", str(RULES / "alerts.yml"), str(RULES / "recording.yml"))
    promtool("check", "config", "--syntax-only", str(RULES / "prometheus.yml"))


def test_every_alert_has_its_cases() -> None:
    assert [rule["alert"] for rule in rules("alerts.yml")] == list(CASES)


@pytest.mark.parametrize("alert", CASES)
def test_alert_fires_when_it_should_and_not_before(alert: str, tmp_path: Path) -> None:
    case: Case = CASES[alert]
    document = {
        "rule_files": [str(RULES / "recording.yml"), str(RULES / "alerts.yml")],
        "evaluation_interval": f"{case.step_minutes}m",
        "tests": [
            case_of(case.bad, alert, case, fires=True),
            case_of(case.calm, alert, case, fires=False),
        ],
    }
    (tmp_path / "cases.yml").write_text(yaml.safe_dump(document))
    promtool("test", "rules", str(tmp_path / "cases.yml"))


def test_few_late_starts_alarm_nobody(tmp_path: Path) -> None:
    def stopped(late: int) -> Mapping[str, str]:
        """A calm hour, and then all that was due while the server was stopped is late."""
        return {
            'tickwheel_slo_target_ratio{objective="HIGH"}': "0.999x65",
            'tickwheel_slo_starts_total{objective="HIGH"}': f"0x60 {late}x5",
            'tickwheel_slo_late_total{objective="HIGH"}': f"0x60 {late}x5",
        }

    alert, case = "TickwheelBudgetBurnsFast", Case({}, {}, 62)
    few, many = LATE_LEAST // 2, LATE_LEAST * 2  # Prometheus extrapolates
    document = {
        "rule_files": [str(RULES / "recording.yml"), str(RULES / "alerts.yml")],
        "evaluation_interval": "1m",
        "tests": [
            case_of(stopped(few), alert, case, fires=False),
            case_of(stopped(many), alert, case, fires=True),
        ],
    }
    (tmp_path / "cases.yml").write_text(yaml.safe_dump(document))
    promtool("test", "rules", str(tmp_path / "cases.yml"))


def test_alerts_on_budgets_are_the_rules_of_the_server() -> None:
    found = {
        rule["labels"]["rule"]: (rule["labels"]["severity"], " ".join(rule["expr"].split()))
        for rule in rules("alerts.yml")
        if "rule" in rule["labels"]
    }
    assert found == {
        rule.name: (
            "page" if rule.page else "ticket",
            f"tickwheel:slo_burn:rate{rule.long.label} >= {rule.burn_tenths / 10:g} "
            f"and tickwheel:slo_burn:rate{rule.short.label} >= {rule.burn_tenths / 10:g} "
            f"and tickwheel:slo_late:increase{rule.long.label} >= {LATE_LEAST}",
        )
        for rule in SLO_RULES
    }


def test_alerts_say_how_bad_it_is_and_what_to_do() -> None:
    for rule in rules("alerts.yml"):
        assert rule["labels"]["severity"] in ("page", "ticket")
        assert rule["annotations"].keys() == {"summary", "description"}


def test_rules_ask_for_nothing_that_is_not_there() -> None:
    known = {family.shown for family in FAMILIES.values()}
    known |= {f"{family.shown}_bucket" for family in FAMILIES.values() if family.kind is Kind.HISTOGRAM}
    recorded = {rule["record"] for rule in rules("recording.yml")}
    for rule in (*rules("recording.yml"), *rules("alerts.yml")):
        names = set(re.findall(r"\btickwheel[\w:]*", re.sub(r'"[^"]*"', "", rule["expr"])))
        assert names <= known | recorded, rule
