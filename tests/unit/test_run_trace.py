"""Which spans an attempt has, and what its target is told."""

from tickwheel.domain.run_trace import run_trace
from tickwheel.domain.trace_context import TraceContext, stored_context

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
JOB = bytes(range(16))
OURS = TraceContext(TRACE, SPAN, sampled=True, state="a=1", told=True)
THEIRS = TraceContext(TRACE, SPAN, sampled=False, state="a=1")


def test_the_attempts_of_a_run_are_in_the_trace_of_the_request_with_spans_of_their_own() -> None:
    first = run_trace(stored_context(OURS), JOB, 1_000, 1, recurring=False)
    second = run_trace(stored_context(OURS), JOB, 1_000, 2, recurring=False)
    assert first is not None
    assert second is not None
    assert first.parent_id == second.parent_id == SPAN
    assert first.context.trace_id == first.called.trace_id == TRACE
    spans = {one.claim_id for one in (first, second)} | {one.context.span_id for one in (first, second)}
    assert len(spans | {first.called.span_id, second.called.span_id, SPAN}) == 7
    assert first.called.state == "a=1"


def test_whoever_asks_gets_the_same_spans() -> None:
    assert run_trace(stored_context(OURS), JOB, 1_000, 1, recurring=False) == run_trace(
        stored_context(OURS), JOB, 1_000, 1, recurring=False
    )


def test_each_run_of_a_recurring_job_begins_a_trace_and_names_the_request() -> None:
    first = run_trace(stored_context(OURS), JOB, 1_000, 1, recurring=True)
    second = run_trace(stored_context(OURS), JOB, 2_000, 2, recurring=True)
    again = run_trace(stored_context(OURS), JOB, 1_000, 3, recurring=True)
    assert first is not None
    assert second is not None
    assert again is not None
    assert len({TRACE, first.context.trace_id, second.context.trace_id}) == 3
    assert first.context.trace_id == again.context.trace_id
    assert (first.parent_id, first.link) == ("", OURS)


def test_what_is_not_exported_is_passed_on_as_it_came() -> None:
    trace = run_trace(stored_context(THEIRS), JOB, 1_000, 1, recurring=False)
    assert trace is not None
    assert trace.called == trace.context == THEIRS
    assert not trace.told


def test_runs_of_a_recurring_job_share_no_trace_that_nobody_exports_either() -> None:
    trace = run_trace(stored_context(THEIRS), JOB, 1_000, 1, recurring=True)
    assert trace is not None
    assert trace.called.trace_id != TRACE
    assert trace.link is None


def test_a_text_that_cannot_be_read_is_no_trace() -> None:
    assert run_trace("nonsense", JOB, 1_000, 1, recurring=False) is None
