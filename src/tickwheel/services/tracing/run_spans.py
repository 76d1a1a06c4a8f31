"""From events to the spans of attempts: `tickwheel.claim`, `tickwheel.attempt`, and the call of a webhook.

Only runs whose trace is sampled have any. All others cost a look at one attribute each, and nothing at all where
no exporter is set up, for then nobody listens here.
"""

from collections.abc import Iterator, Sequence
from typing import Final
from urllib.parse import urlsplit

import numpy as np

from tickwheel.domain.columns import FLAG_RECURRING, Ints
from tickwheel.domain.ids import job_id_text, run_id_text
from tickwheel.domain.job import Lane, TargetType
from tickwheel.domain.outcome import OutcomeClass
from tickwheel.domain.run_trace import RunTrace, run_trace
from tickwheel.ports.clock import Clock
from tickwheel.ports.events import AttemptsEnded, AttemptsStarted, Event, OfTenant, RunsQueued
from tickwheel.ports.executor import Work
from tickwheel.ports.spans import Attribute, Span, SpanKind, SpanSink
from tickwheel.ports.store import WorkDefinition
from tickwheel.services.plans import read_spec

_NO_FAILURES: Final = frozenset({OutcomeClass.SUCCESS, OutcomeClass.UNSTARTED, OutcomeClass.SNOOZE})


class RunSpans:
    """An `EventSink` that makes spans."""

    def __init__(self, spans: SpanSink, clock: Clock) -> None:
        self._spans, self._clock = spans, clock

    def emit(self, event: Event) -> None:
        match event:
            case AttemptsStarted():
                self._claimed(event.works, event.lateness_ms, event.claim_ms)
            case AttemptsEnded():
                self._ended(event)
            case RunsQueued():
                self._queued(event)
            case _:
                pass

    def _claimed(self, works: Sequence[OfTenant], lateness_ms: Ints, claim_ms: int) -> None:
        for number, work in enumerate(works):
            if isinstance(work, Work) and work.trace is not None and _is_shown(work.trace):
                self._add_claim(work.trace, _about(work), int(lateness_ms[number]), claim_ms)

    def _queued(self, event: RunsQueued) -> None:
        if event.timers is None or event.fences is None:
            return
        for number, work in enumerate(event.works):
            if not isinstance(work, WorkDefinition) or not (stored := read_spec(work.spec).trace):
                continue
            timer = event.timers[number]
            job_id, scheduled_ms = timer["job_id"].tobytes(), int(timer["scheduled_ms"])
            recurring = bool(int(timer["flags"]) & FLAG_RECURRING)
            trace = run_trace(stored, job_id, scheduled_ms, int(event.fences[number]), recurring=recurring)
            if trace is not None and _is_shown(trace):
                about = _of_run(job_id, scheduled_ms, work.tenant_id)
                self._add_claim(trace, about, int(event.lateness_ms[number]), event.claim_ms)

    def _add_claim(self, trace: RunTrace, about: dict[str, Attribute], lateness_ms: int, claim_ms: int) -> None:
        now_ms = self._clock.now_ms()
        self._spans.add(
            Span(
                trace.context.trace_id,
                trace.claim_id,
                trace.parent_id,
                "tickwheel.claim",
                SpanKind.INTERNAL,
                now_ms - claim_ms,
                now_ms,
                {**about, "tickwheel.lateness_ms": lateness_ms},
                link=trace.link,
            )
        )

    def _ended(self, event: AttemptsEnded) -> None:
        for number, work in enumerate(event.works):
            if work is not None and work.trace is not None and _is_shown(work.trace):
                applied = bool(event.applied[number])
                if work.trace.lost_ms and not applied:
                    continue  # its worker lives, and has told of its end
                for span in _ends(work, work.trace, event.rows[number], applied):
                    self._spans.add(span)


def _is_shown(trace: RunTrace) -> bool:
    return trace.told and trace.context.sampled and bool(trace.claim_id)


def _about(work: Work) -> dict[str, Attribute]:
    about = _of_run(work.job_id, work.scheduled_ms, work.tenant_id)
    return about | {"tickwheel.attempt": work.attempt, "tickwheel.lane": Lane(work.lane).name}


def _of_run(job_id: bytes, scheduled_ms: int, tenant_id: str) -> dict[str, Attribute]:
    text = job_id_text(job_id)
    run_id = run_id_text(job_id, scheduled_ms)
    return {"tickwheel.job_id": text, "tickwheel.run_id": run_id, "tickwheel.tenant_id": tenant_id}


def _ends(work: Work, trace: RunTrace, row: np.void, applied: bool) -> Iterator[Span]:
    outcome = OutcomeClass(int(row["outcome"]))
    failed = "" if outcome in _NO_FAILURES else outcome.name.lower()  # not the words: they may hold anything
    about = {**_about(work), "tickwheel.outcome": outcome.name.lower(), "tickwheel.committed": applied}
    if int(row["due_ms"]) >= 0:
        about["tickwheel.lateness_ms"] = int(row["started_ms"]) - int(row["due_ms"])
    start_ms, end_ms = int(row["started_ms"]), trace.lost_ms or int(row["finished_ms"])
    yield Span(
        trace.context.trace_id,
        trace.context.span_id,
        trace.claim_id,
        "tickwheel.attempt",
        SpanKind.INTERNAL,
        start_ms,
        end_ms,
        about,
        failed,
    )
    if work.target.type is TargetType.HTTP_WEBHOOK and trace.sent_ms:
        yield _call(work, trace, int(row["http_status"]), failed)


def _call(work: Work, trace: RunTrace, status: int, failed: str) -> Span:
    target = urlsplit(work.target.endpoint)  # only its host: path and query may hold secrets
    host = target.hostname or ""
    about: dict[str, Attribute] = {"http.request.method": work.target.method, "server.address": host}
    if target.port is not None:
        about["server.port"] = target.port
    if status:
        about["http.response.status_code"] = status
    return Span(
        trace.context.trace_id,
        trace.call_id,
        trace.context.span_id,
        f"{work.target.method} {host}",
        SpanKind.CLIENT,
        trace.sent_ms,
        trace.answered_ms,
        about,
        failed,
    )
