"""Reading W3C trace context from anybody, and keeping it with a job."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tickwheel.domain.trace_context import TraceContext, parse_trace_context, read_context, stored_context

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
GOOD = f"00-{TRACE}-{SPAN}-01".encode()


@pytest.mark.parametrize(
    ("flags", "sampled"), [("00", False), ("01", True), ("02", False), ("03", True), ("ff", True)]
)
def test_only_the_last_bit_of_the_flags_says_sampled(flags: str, sampled: bool) -> None:
    context = parse_trace_context(f"00-{TRACE}-{SPAN}-{flags}".encode())
    assert context == TraceContext(TRACE, SPAN, sampled)


def test_a_later_version_may_say_more_and_is_answered_in_ours() -> None:
    context = parse_trace_context(f"cc-{TRACE}-{SPAN}-01-what-comes".encode())
    assert context is not None
    assert context.traceparent.encode() == GOOD


@pytest.mark.parametrize(
    "hostile",
    [
        b"",
        b"00",
        GOOD + b"-more",
        GOOD.upper(),
        GOOD[:-1],
        b"ff" + GOOD[2:],
        f"00-{'0' * 32}-{SPAN}-01".encode(),
        f"00-{TRACE}-{'0' * 16}-01".encode(),
        GOOD + b"\r\nX-Evil: 1",
        GOOD + b"," + GOOD,
        "00-\u0664".encode(),
        b"cc" + GOOD[2:] + b"-" + b"x" * 10_000,
    ],
)
def test_what_breaks_the_rules_is_nothing(hostile: bytes) -> None:
    assert parse_trace_context(hostile) is None


@pytest.mark.parametrize(
    ("state", "kept"),
    [
        (b"a=1", "a=1"),
        (b"a=1 , b@c=2,", "a=1,b@c=2"),
        (b"1a/*-_=x y", "1a/*-_=x y"),
        (b"a=1,a=2", ""),
        (b"a", ""),
        (b"A=1", ""),
        (b"a=1\r\nX-Evil: 1", ""),
        (b"a=\xc3\xa9", ""),
        (b",".join(b"k%d=v" % n for n in range(32)), ",".join(f"k{n}=v" for n in range(32))),
        (b",".join(b"k%d=v" % n for n in range(33)), ""),
        (b"a=" + b"x" * 600, ""),
    ],
)
def test_a_broken_tracestate_is_left_out_alone(state: bytes, kept: str) -> None:
    context = parse_trace_context(GOOD, state)
    assert context is not None
    assert context.state == kept


@given(st.binary(max_size=300), st.binary(max_size=600))
def test_whatever_is_read_can_be_sent_in_a_header(traceparent: bytes, tracestate: bytes) -> None:
    for context in (parse_trace_context(traceparent, tracestate), parse_trace_context(GOOD, tracestate)):
        if context is not None:
            assert len(context.traceparent) == 55
            assert f"{context.traceparent}{context.state}".isprintable()
            assert f"{context.traceparent}{context.state}".isascii()


@pytest.mark.parametrize("told", [False, True])
@pytest.mark.parametrize("state", ["", "a=1", "a=x y,b=2"])
def test_what_is_kept_with_a_job_comes_back(told: bool, state: str) -> None:
    context = TraceContext(TRACE, SPAN, sampled=True, state=state, told=told)
    assert read_context(stored_context(context)) == context


@pytest.mark.parametrize("broken", ["", "+", "x", "+ a=1", "00-1-2-3"])
def test_what_was_never_stored_is_nothing(broken: str) -> None:
    assert read_context(broken) is None
