"""The fast half and the slow half of the parser agree, and the table of fields states the bounds of both."""

import json
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from tickwheel.domain.errors import FieldProblem, InvalidRequest
from tickwheel.domain.requests.fields import FIELDS, Kind
from tickwheel.domain.requests.request import parse_job_request
from tickwheel.domain.requests.request_problems import find_problems

from .samples import BILLING, ONCE, raw

EXAMPLES = settings().max_examples  # of the profile that tests/conftest.py loads
NUMBERS = st.one_of(
    st.sampled_from([0, 1, -1, 0.1, 0.0999, 3600, 3600.5, 86_400, 86_400.01, 1e22, 2**53, 2**64, True, 2.0]),
    st.floats(allow_nan=False, allow_infinity=False, width=32),
    st.integers(-5, 2000),
)
TEXTS = st.one_of(
    st.text(max_size=12),
    st.sampled_from(
        ["", "UTC", "Europe/Berlin", "* * * * *", "0 0 30 2 *", "skip", "HANDLER", "GET", "CRON", "HIGH"]
    ),
    st.sampled_from(
        ["https://a.example/x", "http://[::1]:8/", "2026-10-22T14:30:00Z", "2026-10-22T14:30:00.5+02:00"]
    ),
    st.sampled_from([1, 64, 65, 200, 201, 255, 256, 257, 2048, 2049]).map(lambda length: "x" * length),
)
VALUES = st.one_of(
    st.none(),
    NUMBERS,
    TEXTS,
    st.lists(TEXTS, max_size=3),
    st.dictionaries(TEXTS, st.one_of(TEXTS, NUMBERS), max_size=3),
)


def wholesome(kind: Kind, choices: tuple[str, ...]) -> st.SearchStrategy[Any]:
    match kind:
        case Kind.ENUM:
            return st.one_of(st.sampled_from(choices), VALUES)
        case Kind.INTEGER | Kind.NUMBER:
            return st.one_of(NUMBERS, NUMBERS, VALUES)
        case _:
            return VALUES


@st.composite
def requests(draw: st.DrawFn) -> bytes:
    """A good request with some fields replaced, dropped or added."""
    members: dict[str, Any] = json.loads(json.dumps(draw(st.sampled_from([BILLING, ONCE]))))
    for field in draw(st.lists(st.sampled_from(FIELDS), max_size=4)):
        holder = members
        if field.parent == "concurrency[]":
            items = members.setdefault("concurrency", [{"key": "a", "limit": 1}, {"scope": "tenant", "limit": 2}])
            if not isinstance(items, list) or not all(isinstance(item, dict) for item in items) or not items:
                continue
            holder = draw(st.sampled_from(items))
        elif field.parent:
            holder = members.setdefault(field.parent, {})
            if not isinstance(holder, dict):
                continue
        if draw(st.integers(0, 4)) == 0:
            holder.pop(field.name, None)
        else:
            holder[field.name] = draw(wholesome(field.kind, field.choices))
    text = json.dumps(members, indent=draw(st.sampled_from([None, 1])), ensure_ascii=draw(st.booleans()))
    return text.encode("utf-8", "surrogatepass")


def told(text: bytes) -> list[FieldProblem] | None:
    """The problems that the parser tells; None if it takes the text."""
    try:
        parse_job_request(text)
    except InvalidRequest as error:
        return error.problems
    return None


@settings(max_examples=10 * EXAMPLES)
@given(requests())
def test_the_slow_half_finds_something_exactly_where_the_fast_half_gives_up(text: bytes) -> None:
    problems = find_problems(text)
    assert (told(text) or []) == problems, "the fast half gave up and the slow half found nothing, or the reverse"
    assert all(problem.field for problem in problems)


@settings(max_examples=5 * EXAMPLES)
@given(st.binary(max_size=60), st.integers(0, 300))
def test_no_bytes_break_the_parser(noise: bytes, place: int) -> None:
    text = raw(BILLING)
    for broken in (noise, text[:place] + noise + text[place:], text[:place] + noise):
        assert told(broken) != []


@settings(max_examples=3 * EXAMPLES)
@given(
    st.recursive(
        VALUES,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    )
)
def test_any_payload_comes_back_byte_for_byte(payload: Any) -> None:
    written = json.dumps(payload).encode()
    request = parse_job_request(raw(ONCE)[:-1] + b',"payload":' + written + b"}")
    assert request.payload.encode() == (b"" if payload is None else written)


def test_every_field_of_the_table_is_a_field_of_the_decoder() -> None:
    from tickwheel.domain.requests.body import CatchUpBody, JobBody, LimitBody, RetryBody, TargetBody

    holders: dict[str, type[msgspec.Struct]] = {
        "": JobBody,
        "target": TargetBody,
        "retry_policy": RetryBody,
        "catch_up": CatchUpBody,
        "concurrency[]": LimitBody,
    }
    for parent, holder in holders.items():
        assert set(holder.__struct_fields__) == {field.name for field in FIELDS if field.parent == parent}
    required = {field.name for field in FIELDS if field.required}
    assert required == {"schedule_type", "target", "limit"}


def test_the_table_states_the_defaults_that_a_request_gets() -> None:
    bare = parse_job_request(
        b'{"schedule_type":"CRON","cron_expression":"0 0 * * *","target":{"endpoint":"http://a"},'
        b'"concurrency":[{"key":"a","limit":1}]}'
    )
    defaults = {field.path: field.default for field in FIELDS if field.default is not None}
    assert defaults == {
        "tenant_id": bare.tenant_id,
        "job_name": bare.name,
        "timezone": bare.spec.timezone,
        "priority": bare.lane.name,
        "target.type": bare.spec.target.type.value,
        "target.method": bare.spec.target.method,
        "target.timeout_seconds": bare.spec.target.timeout_ms / 1000,
        "retry_policy.max_retries": bare.spec.retry.max_retries,
        "retry_policy.when_exhausted": bare.spec.retry.when_exhausted,
        "retry_policy.initial_interval_sec": bare.spec.retry.initial_interval_ms / 1000,
        "retry_policy.backoff_multiplier": bare.spec.retry.multiplier,
        "retry_policy.max_interval_sec": bare.spec.retry.max_interval_ms / 1000,
        "catch_up.policy": bare.spec.catch_up.value,
        "catch_up.max": bare.spec.catch_up_max,
        "overlap": bare.spec.overlap.value,
        "concurrency[].scope": bare.spec.concurrency[0].scope.value,
    }
