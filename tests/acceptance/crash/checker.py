"""The verdict: compares what was acknowledged with what the API says now and with what the sink saw.

Every list of the verdict must be empty:
lost (acknowledged, but without its end), double_committed, early, after_cancel, token_fell (the sink saw a token
that is not above an earlier one of the run), uncalled (SUCCEEDED without a request in the sink's log), holes (a
cron occurrence that has no run).
"""

import json
from collections import defaultdict
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

from .api import Api
from .load import Plan

ENDS = {"never": {"FAILED"}, "once": {"SUCCEEDED", "FAILED"}}
SECOND_MS = 1_000


@dataclass
class Verdict:
    """Findings by kind, and how much was looked at."""

    findings: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    runs: int = 0
    requests: int = 0
    cron_runs: int = 0
    states: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    repeated: int = 0
    quarantined: int = 0

    @property
    def clean(self) -> bool:
        return not any(self.findings.values())

    def __str__(self) -> str:
        found = {kind: items[:3] for kind, items in self.findings.items() if items}
        return (
            f"{self.runs} runs {dict(self.states)}, {self.cron_runs} cron runs, {self.requests} requests seen by"
            f" the sink, {self.repeated} runs called more than once, {self.quarantined} quarantined;"
            f" findings: {found or 'none'}"
        )


def check(api: Api, plan: Plan, log: Path) -> Verdict:
    """Look at everything; the load has ended and all runs had time to finish."""
    verdict = Verdict()
    verdict.findings["load"] = list(plan.faults)
    requests = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    verdict.requests = len(requests)
    by_run: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for request in requests:
        by_run[request["webhook-id"]].append(request)
    _check_sink(by_run, verdict)
    for job_id, kind in plan.kinds.items():
        _check_job(api, plan, job_id, kind, by_run, verdict)
    for job_id in plan.crons:
        _check_cron(api, job_id, by_run, verdict)
    return verdict


def _check_sink(by_run: dict[str, list[dict[str, Any]]], verdict: Verdict) -> None:
    for run_id, requests in by_run.items():
        verdict.repeated += len(requests) > 1
        tokens = [int(request["x-fencing-token"]) for request in requests]
        if any(later <= earlier for earlier, later in pairwise(tokens)):
            verdict.findings["token_fell"].append(f"{run_id}: {tokens}")
        for request in requests:
            due_ms = _epoch_ms(request["x-scheduled-at"])
            if request["at_ms"] < due_ms:
                verdict.findings["early"].append(f"{run_id}: {due_ms - request['at_ms']} ms")


def _check_job(
    api: Api, plan: Plan, job_id: str, kind: str, by_run: dict[str, list[dict[str, Any]]], verdict: Verdict
) -> None:
    status, job = api.call("GET", f"/v1/jobs/{job_id}")
    if status != 200:
        verdict.findings["lost"].append(f"{job_id} ({kind}): GET answers {status}")
        return
    runs = api.pages(f"/v1/jobs/{job_id}/runs", "runs")
    verdict.runs += len(runs)
    verdict.states[job["status"]] += 1
    cancelled = job_id in plan.cancelled_ms
    wanted = {"CANCELLED"} if cancelled else ENDS.get(kind, {"SUCCEEDED"})
    if job["status"] == "FAILED" and not cancelled and _is_quarantined(api, runs[0]["run_id"]):
        verdict.quarantined += 1
    elif job["status"] not in wanted:
        name = "after_cancel" if cancelled else "lost"
        verdict.findings[name].append(f"{job_id} ({kind}) is {job['status']}, not {wanted}")
    if len([run for run in runs if run["status"] == "SUCCEEDED"]) > 1 or len(runs) > 1:
        verdict.findings["double_committed"].append(job_id)
    for run in runs:
        _check_success(run, by_run, verdict)


def _is_quarantined(api: Api, run_id: str) -> bool:
    """Whether the run was in flight at three kills in a row: it is dead-lettered then, not lost."""
    status, run = api.call("GET", f"/v1/runs/{run_id}")
    assert status == 200, run
    return [attempt["outcome"] for attempt in run["attempts"]][-3:] == ["lost"] * 3


def _check_cron(api: Api, job_id: str, by_run: dict[str, list[dict[str, Any]]], verdict: Verdict) -> None:
    runs = api.pages(f"/v1/jobs/{job_id}/runs", "runs")
    instants = sorted(_epoch_ms(run["scheduled_at"]) for run in runs)
    verdict.cron_runs += len(runs)
    if len(instants) != len(set(instants)):
        verdict.findings["double_committed"].append(f"cron {job_id}")
    for earlier, later in pairwise(instants):
        if later - earlier != SECOND_MS:
            verdict.findings["holes"].append(f"cron {job_id}: nothing between {earlier} and {later}")
    for run in runs:
        if run["status"] in ("SUCCEEDED",):
            _check_success(run, by_run, verdict)


def _check_success(run: dict[str, Any], by_run: dict[str, list[dict[str, Any]]], verdict: Verdict) -> None:
    if run["status"] != "SUCCEEDED":
        return
    tokens = {int(request["x-fencing-token"]) for request in by_run.get(run["run_id"], [])}
    if run["fencing_token"] not in tokens:
        verdict.findings["uncalled"].append(
            f"{run['run_id']}: token {run['fencing_token']}, the sink saw {tokens}"
        )


def _epoch_ms(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1000)
