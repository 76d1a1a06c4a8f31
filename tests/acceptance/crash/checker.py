"""The verdict: compares what was acknowledged with what the API says now and with what the sink saw.

Every list of the verdict must be empty:
lost (acknowledged, but without its end), double_committed (two runs of one instant, or two effects behind a
receiver that guards by token), early, after_cancel, after_edit (an instant that a job had been moved away from),
token_fell, uncalled (SUCCEEDED without a request in the sink's log), holes (a cron occurrence that has no run).

A frozen process that wakes up may send a request whose token is old by then. That is what the guard of a receiver
is for, so in a cluster such requests are only counted (`stale_requests`); one token twice is a finding always.
"""

import json
from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

from .api import Api
from .load import Plan

ENDS = {"never": {"FAILED"}, "once": {"SUCCEEDED", "FAILED"}}
SECOND_MS = 1_000
PROMISES = ("lost", "double_committed", "early", "after_cancel")
READERS = 6
Requests = dict[str, list[dict[str, Any]]]
Shown = tuple[dict[str, Any] | None, list[dict[str, Any]]]
"""A job, if it is there, and its runs."""


@dataclass
class Verdict:
    """Findings by kind, and how much was looked at."""

    findings: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    jobs: int = 0
    runs: int = 0
    requests: int = 0
    effects: int = 0
    cron_runs: int = 0
    cancelled: int = 0
    moved: int = 0
    states: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    repeated: int = 0
    stale_requests: int = 0
    quarantined: int = 0
    repeated_calls: int = 0
    longest_call_s: float = 0.0

    @property
    def clean(self) -> bool:
        return not any(self.findings.values())

    def counts(self) -> dict[str, Any]:
        """All of it, for machines."""
        found = {kind: len(self.findings.get(kind, ())) for kind in {*PROMISES, *self.findings}}
        looked = {name: value for name, value in vars(self).items() if name != "findings"}
        return {**found, **looked, "clean": self.clean}

    def __str__(self) -> str:
        found = {kind: items[:3] for kind, items in self.findings.items() if items}
        zeros = ", ".join(f"{kind} = {len(self.findings.get(kind, ()))}" for kind in PROMISES)
        return (
            f"{self.runs} runs {dict(self.states)}, {self.cron_runs} cron runs, {self.cancelled} cancels and"
            f" {self.moved} moves acknowledged, {self.requests} requests seen by the sink, {self.effects} effects"
            f" behind its guard, {self.repeated} runs called more than once, {self.stale_requests} stale requests,"
            f" {self.quarantined} quarantined; {self.repeated_calls} API calls repeated, the longest took"
            f" {self.longest_call_s:.1f} s; {zeros}; findings: {found or 'none'}"
        )


def check(api: Api, plan: Plan, log: Path, *, frozen: bool = False) -> Verdict:
    """Look at everything; the load has ended and all runs had time to finish. `frozen`: processes were."""
    verdict = Verdict(jobs=len(plan.kinds), cancelled=len(plan.cancelled_ms), moved=len(plan.moved_ms))
    verdict.repeated_calls, verdict.longest_call_s = plan.repeated, round(plan.longest_s, 1)
    verdict.findings["load"] = list(plan.faults)
    requests = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    verdict.requests = len(requests)
    by_run: Requests = defaultdict(list)
    for request in requests:
        by_run[request["webhook-id"]].append(request)
    _check_sink(by_run, verdict, frozen)
    _check_effects(by_run, plan, verdict)
    shown = _read_all(api, list(plan.kinds))
    for job_id, kind in plan.kinds.items():
        _check_job(api, plan, job_id, kind, shown[job_id], by_run, verdict)
    for job_id in plan.crons:
        _check_cron(api, job_id, by_run, verdict)
    return verdict


def _check_sink(by_run: Requests, verdict: Verdict, frozen: bool) -> None:
    for run_id, requests in by_run.items():
        verdict.repeated += len(requests) > 1
        tokens = [int(request["x-fencing-token"]) for request in requests]
        stale = sum(later <= max(tokens[:at]) for at, later in enumerate(tokens) if at)
        verdict.stale_requests += stale
        if len(set(tokens)) < len(tokens) or (stale and not frozen):
            verdict.findings["token_fell"].append(f"{run_id}: {tokens}")
        for request in requests:
            due_ms = _epoch_ms(request["x-scheduled-at"])
            if request["at_ms"] < due_ms:
                verdict.findings["early"].append(f"{run_id}: {due_ms - request['at_ms']} ms")


def _check_effects(by_run: Requests, plan: Plan, verdict: Verdict) -> None:
    """What a guarded receiver would have applied: per run id, once, with a token above all that it saw before."""
    instants: dict[str, list[str]] = defaultdict(list)
    for requests in by_run.values():
        highest, applied = -1, False
        for request in requests:
            token = int(request["x-fencing-token"])
            if token > highest and not applied and _answered_ok(request):
                applied = True
                instants[request["x-job-id"]].append(request["x-scheduled-at"])
            highest = max(highest, token)
    for job_id, applied_at in instants.items():
        verdict.effects += len(applied_at)
        if len(applied_at) != len(set(applied_at)) or (job_id in plan.kinds and len(applied_at) > 1):
            verdict.findings["double_committed"].append(f"{job_id}: effects at {applied_at}")


def _answered_ok(request: dict[str, Any]) -> bool:
    failed = request["path"] == "/never" or (request["path"] == "/flaky" and request["x-attempt"] == "1")
    return not failed


def _read_all(api: Api, job_ids: Sequence[str]) -> dict[str, Shown]:
    """What the API says of each job: the list of jobs, and of each its runs, asked for from several threads."""
    jobs = {job["job_id"]: job for job in api.pages("/v1/jobs", "jobs")}

    def read(turn: int) -> list[Shown]:
        with api.another(turn) as own:
            return [
                (jobs.get(job_id), own.pages(f"/v1/jobs/{job_id}/runs", "runs") if job_id in jobs else [])
                for job_id in job_ids[turn::READERS]
            ]

    shown: dict[str, Shown] = {}
    with ThreadPoolExecutor(READERS) as threads:
        for turn, found in enumerate(threads.map(read, range(READERS))):
            shown |= dict(zip(job_ids[turn::READERS], found, strict=True))
    return shown


def _check_job(
    api: Api, plan: Plan, job_id: str, kind: str, shown: Shown, by_run: Requests, verdict: Verdict
) -> None:
    job, runs = shown
    if job is None:
        verdict.findings["lost"].append(f"{job_id} ({kind}) is not in the list of jobs")
        return
    verdict.runs += len(runs)
    verdict.states[job["status"]] += 1
    cancelled = job_id in plan.cancelled_ms
    wanted = {"CANCELLED"} if cancelled else ENDS.get(kind, {"SUCCEEDED"})
    if job["status"] == "FAILED" and not cancelled and _is_quarantined(api, runs):
        verdict.quarantined += 1
    elif job["status"] not in wanted:
        name = "after_cancel" if cancelled else "lost"
        verdict.findings[name].append(f"{job_id} ({kind}) is {job['status']}, not {wanted}")
    if job_id in plan.moved_ms:
        _check_moved(plan.moved_ms[job_id], job_id, runs, by_run, verdict)
    elif len(runs) > 1:
        verdict.findings["double_committed"].append(job_id)
    if sum(run["status"] == "SUCCEEDED" for run in runs) > 1:
        verdict.findings["double_committed"].append(job_id)
    for run in runs:
        _check_success(run, by_run, verdict)


def _check_moved(
    to_ms: int, job_id: str, runs: Sequence[dict[str, Any]], by_run: Requests, verdict: Verdict
) -> None:
    for run in runs:
        if _epoch_ms(run["scheduled_at"]) < to_ms and (run["status"] != "SKIPPED" or by_run.get(run["run_id"])):
            calls = len(by_run.get(run["run_id"], ()))
            verdict.findings["after_edit"].append(
                f"{job_id} at {run['scheduled_at']}: {run['status']}, {calls} calls"
            )


def _is_quarantined(api: Api, runs: Sequence[dict[str, Any]]) -> bool:
    """Whether the run was in flight at three kills in a row: it is dead-lettered then, not lost."""
    for shown in runs:
        status, run = api.call("GET", f"/v1/runs/{shown['run_id']}")
        assert status == 200, run
        if [attempt["outcome"] for attempt in run["attempts"]][-3:] == ["lost"] * 3:
            return True
    return False


def _check_cron(api: Api, job_id: str, by_run: Requests, verdict: Verdict) -> None:
    runs = api.pages(f"/v1/jobs/{job_id}/runs", "runs")
    instants = sorted(_epoch_ms(run["scheduled_at"]) for run in runs)
    verdict.cron_runs += len(runs)
    if len(instants) != len(set(instants)):
        verdict.findings["double_committed"].append(f"cron {job_id}")
    for earlier, later in pairwise(instants):
        if later - earlier != SECOND_MS:
            verdict.findings["holes"].append(f"cron {job_id}: nothing between {earlier} and {later}")
    for run in runs:
        if run["status"] == "SUCCEEDED":
            _check_success(run, by_run, verdict)
        elif run["status"] not in ("FAILED", "SKIPPED"):
            verdict.findings["lost"].append(f"cron {job_id} at {run['scheduled_at']} is {run['status']}")


def _check_success(run: dict[str, Any], by_run: Requests, verdict: Verdict) -> None:
    if run["status"] != "SUCCEEDED":
        return
    tokens = {int(request["x-fencing-token"]) for request in by_run.get(run["run_id"], [])}
    if run["fencing_token"] not in tokens:
        verdict.findings["uncalled"].append(
            f"{run['run_id']}: token {run['fencing_token']}, the sink saw {tokens}"
        )


def _epoch_ms(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1000)
