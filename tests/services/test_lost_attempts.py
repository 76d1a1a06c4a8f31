"""Attempts whose worker was lost have a span and figures like others, made by the node that ends them."""

from itertools import pairwise

import msgspec
import numpy as np
import pytest

from tickwheel.adapters.telemetry.metrics import Metrics
from tickwheel.domain.columns import COMPLETION, empty
from tickwheel.domain.outcome import OK, OutcomeClass
from tickwheel.domain.run import RunState
from tickwheel.domain.run_trace import run_trace
from tickwheel.domain.trace_context import TraceContext, stored_context
from tickwheel.ports.events import AttemptsEnded, Event
from tickwheel.ports.executor import Work
from tickwheel.ports.spans import Span
from tickwheel.ports.store import NewJob
from tickwheel.services.scheduler import SchedulerSettings
from tickwheel.services.tracing.run_spans import RunSpans
from tickwheel.testing.virtual_clock import VirtualClock

from .world import Events, World

LEASE_MS = 30_000
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
REQUEST = TraceContext(TRACE, "00f067aa0ba902b7", sampled=True, told=True)


class Spans:
    """Keeps the spans of attempts."""

    def __init__(self) -> None:
        self.seen: list[Span] = []

    def add(self, span: Span) -> None:
        if span.name == "tickwheel.attempt":
            self.seen.append(span)


class Told(Events):
    """Tells spans and metrics of every event."""

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__()
        self.spans, self.metrics = Spans(), Metrics(tenants=("default",))
        self._made = RunSpans(self.spans, clock)

    def emit(self, event: Event) -> None:
        super().emit(event)
        self._made.emit(event)
        self.metrics.emit(event)


def told_world() -> tuple[World, Told]:
    world = World(settings=SchedulerSettings(webhook_slots=16, handler_slots=16, lease_ms=LEASE_MS))
    told = Told(world.clock)
    world.events = told
    world.behave = lambda work: None
    return world, told


def traced(new: NewJob, context: TraceContext = REQUEST) -> NewJob:
    spec = msgspec.structs.replace(new.job.spec, trace=stored_context(context))
    return msgspec.structs.replace(new, job=msgspec.structs.replace(new.job, spec=spec))


async def test_the_span_of_an_attempt_that_is_lost_ends_with_its_lease() -> None:
    world, told = told_world()
    scheduler = await world.start()
    (job_id,) = await world.add(scheduler, traced(world.job(in_ms=100)))
    await world.clock.advance(1_000)
    lease_ms = (await world.run_of(job_id)).lease_ms
    world.executors[0].obeys_cancel = False
    world.clock.step_ms(LEASE_MS + 10_000)  # everything stood still
    await world.clock.advance(1_000)
    (span,) = told.spans.seen
    (call, *_) = world.calls
    trace = call.work.trace
    assert trace is not None
    assert (span.trace_id, span.span_id, span.parent_id) == (TRACE, trace.context.span_id, trace.claim_id)
    assert (span.start_ms, span.end_ms) == (call.started_ms, lease_ms)
    assert span.failed == span.attributes["tickwheel.outcome"] == "lost"
    assert span.attributes["tickwheel.attempt"] == 1
    assert span.attributes["tickwheel.committed"] is True
    world.executors[0].finish(call.work.slot)  # too late
    await world.clock.advance(10)
    late = told.spans.seen[-1]
    assert (late.span_id, late.failed, late.attributes["tickwheel.committed"]) == (span.span_id, "", False)
    await world.crash(scheduler)


async def test_the_node_that_follows_tells_of_it_at_once_if_the_worker_is_proved_dead() -> None:
    world, told = told_world()
    first = await world.start()
    new = traced(world.job(in_ms=100))
    await world.add(first, new)
    await world.clock.advance(1_000)
    await world.crash(first)
    world.behave = lambda work: OK
    second = await world.start()
    await world.clock.advance(10_000)
    lost, done = told.spans.seen
    assert lost.failed == "lost"
    assert lost.start_ms < lost.end_ms <= world.calls[1].started_ms  # long before its lease is over
    assert [span.attributes["tickwheel.outcome"] for span in (lost, done)] == ["lost", "success"]
    assert lost.trace_id == done.trace_id == TRACE
    await second.drain(0)


async def test_each_of_several_lost_attempts_has_a_span_of_its_own() -> None:
    world, told = told_world()
    await world.add(None, traced(world.job(in_ms=100, retries=10)))
    await world.lose(3)
    scheduler = await world.start()
    await world.clock.advance(60_000)
    assert [span.attributes["tickwheel.attempt"] for span in told.spans.seen] == [1, 2, 3]
    assert len({span.span_id for span in told.spans.seen}) == 3
    assert all(earlier.end_ms <= later.start_ms for earlier, later in pairwise(told.spans.seen))
    await scheduler.drain(0)


async def test_what_is_not_traced_has_no_span_and_counts_for_its_tenant_all_the_same() -> None:
    world, told = told_world()
    first = await world.start()
    await world.add(first, world.job(in_ms=100))
    await world.clock.advance(1_000)
    await world.crash(first)
    second = await world.start()
    await world.clock.advance(10_000)
    assert told.spans.seen == []
    text = told.metrics.render().decode()
    assert 'tickwheel_tenant_attempts_total{outcome="lost",tenant="default"} 1.0' in text
    await second.drain(0)


@pytest.mark.parametrize("applied", [True, False])
def test_a_reaper_that_came_too_late_tells_nothing(applied: bool) -> None:
    new = traced(World().job())
    trace = run_trace(new.job.spec.trace, new.job.job_id, 1_000, 1, recurring=False)
    assert trace is not None
    trace.lost_ms = 9_000
    work = Work(-1, new.job.job_id, 1_000, 1, 1, 4, 2, "default", new.job.spec.target, b"", None, trace=trace)
    rows = empty(COMPLETION, 1)
    rows["state"], rows["outcome"], rows["due_ms"] = RunState.SCHEDULED, OutcomeClass.LOST, -1
    spans = Spans()
    RunSpans(spans, VirtualClock()).emit(AttemptsEnded(rows, np.array([applied]), {}, [work]))
    assert [span.end_ms for span in spans.seen] == ([9_000] if applied else [])
