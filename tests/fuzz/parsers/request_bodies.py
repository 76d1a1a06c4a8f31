"""JSON and the requests in it: jobs, batches, patches, the compact form, payloads, and the bodies of workers."""

import json
from typing import Any

import msgspec
from hypothesis import strategies as st
from msgspec.structs import replace

from tickwheel.domain.cron import parse_cron
from tickwheel.domain.errors import FieldProblem, InvalidRequest
from tickwheel.domain.job import Job, ScheduleType
from tickwheel.domain.requests.compact_request import COMPACT_FIELDS, parse_compact_request
from tickwheel.domain.requests.definition import definition_of
from tickwheel.domain.requests.fields import FIELDS, Kind
from tickwheel.domain.requests.job_request import JobRequest, request_hash
from tickwheel.domain.requests.patch import parse_patch, patched
from tickwheel.domain.requests.payload_scan import payload_problems
from tickwheel.domain.requests.request import parse_exactly, parse_job_request, parse_job_requests, split_batch
from tickwheel.domain.requests.request_problems import find_problems
from tickwheel.domain.requests.strict_json import JsonFault, NotJson, load

from ..parser import Parser
from ..strategies import DIGITS, NOISE, ODD_CHARACTERS
from .names import JOB

LARGEST_REFUSAL_BYTES = 64 << 10
"""What is wrong with a request is told within this, whatever the request is."""
WORDS = (
    *(
        b'"',
        b'\\"',
        b"\\u0000",
        b"\\ud800",
        b"\\",
        b"{",
        b"}",
        b"[",
        b"]",
        b",",
        b":",
        b"null",
        b"NaN",
        b"Infinity",
    ),
    *(
        b'"a":1,',
        b'"x":{}',
        b"[[",
        b"]]",
        b"{}",
        b'{"a":',
        b"1e400",
        b"-0",
        b"0.1",
        b"\xef\xbb\xbf",
        b"\xed\xa0\x80",
    ),
)

_BILLING = (
    b'{"tenant_id":"t1","job_name":"billing","schedule_type":"CRON","cron_expression":"0 2 1 * *",'
    b'"timezone":"America/New_York","priority":"HIGH","target":{"type":"HTTP_WEBHOOK","endpoint":'
    b'"https://billing.example/make","method":"POST","timeout_seconds":120,"headers":{"X-A":"b"}},'
    b'"payload":{"cycle":"2026-09"},"retry_policy":{"max_retries":3,"initial_interval_sec":10,'
    b'"backoff_multiplier":2.0,"max_interval_sec":300},"catch_up":{"policy":"fire_all","max":5},"overlap":"skip",'
    b'"concurrency":[{"key":"a","limit":1},{"scope":"tenant","limit":2}],"tags":["a","b"],'
    b'"start_at":"2026-01-01T00:00:00Z","end_at":"2027-01-01T00:00:00Z","deadline_seconds":60}'
)
_ONCE = (
    b'{"schedule_type":"ONE_OFF","execute_at":"2026-10-22T14:30:00Z","target":{"endpoint":"https://a.example/x"}}'
)
_DELAYED = (
    b'{"schedule_type":"DELAYED","delay_seconds":1.5,"target":{"type":"HANDLER","name":"send"},"payload":[1,"\\u00e9"],'
    b'"idempotency_key":"k-1","retry_policy":{"max_retries":0}}'
)
JOBS = (_BILLING, _ONCE, _DELAYED, b'{"schedule_type":"INSTANT","target":{"endpoint":"http://[::1]:8/"}}')


def told(error: InvalidRequest) -> list[FieldProblem]:
    """Its problems; each says something, and all together are no flood."""
    assert error.problems
    assert all(problem.message for problem in error.problems)
    assert len(msgspec.json.encode(error.problems)) <= LARGEST_REFUSAL_BYTES, "the refusal is a flood"
    return error.problems


def check_strict_json(data: bytes) -> bool:
    try:
        tree = load(data)
    except JsonFault as fault:
        assert str(fault)
        return False
    try:
        expected = json.loads(data)
    except (ValueError, RecursionError):
        return True  # bytes that are not UTF-8, numbers that Python does not read
    try:
        data.decode()
    except UnicodeDecodeError:
        return True
    if "NaN" not in str(expected) and "inf" not in str(expected) and len(str(expected)) < 10_000:
        assert _plain(tree) or tree == expected
    return True


def _plain(tree: Any) -> bool:
    """Whether something in the tree is kept in another way than an ordinary decoder keeps it."""
    if isinstance(tree, dict):
        return any(_plain(value) for value in tree.values())
    if isinstance(tree, list):
        return any(_plain(value) for value in tree)
    return isinstance(tree, NotJson) or (isinstance(tree, int) and abs(tree) >= 10**39)


def check_payload_scan(data: bytes) -> bool:
    try:
        tree = load(data)
    except JsonFault:
        return False
    problems = list(payload_problems(tree))
    assert len(problems) <= 40
    assert sum(len(problem.field) for problem in problems) < 20_000
    if problems:
        return False
    # What the scan lets through, every strict reader can decode.
    try:
        msgspec.json.decode(data)
    except msgspec.ValidationError as error:
        assert "out of range" in str(error).lower()
    return True


def check_job_request(data: bytes) -> bool:
    try:
        request = parse_job_request(data)
    except InvalidRequest as error:
        problems = told(error)
        assert all(problem.field for problem in problems) or len(problems) == 1
        assert find_problems(data) == problems
        return False
    assert not find_problems(data)
    exact = parse_exactly(data)
    assert exact == request
    assert request_hash(exact) == request_hash(request)
    _check_definition(request)
    return True


def _check_definition(request: JobRequest) -> None:
    """Read back and sent again, it is the same job; an empty change changes nothing."""
    job = job_of(request)
    again = parse_job_request(msgspec.json.encode(definition_of(job)))
    same = parse_job_request(msgspec.json.encode(definition_of(job_of(again))))
    assert request_hash(again) == request_hash(same)
    if request.delay_ms is None and request.at_ms is None and not request.spec.target.headers:
        assert replace(again, warnings=()) == replace(request, warnings=())
    assert patched(job, parse_patch(b"{}")) == again


def job_of(request: JobRequest) -> Job:
    """The job that is stored for it; its instant is some whole second."""
    at_ms = request.at_ms if request.delay_ms is None else 1_790_000_000_000 + request.delay_ms
    scheduled_ms = None if request.schedule_type is ScheduleType.CRON else at_ms
    if request.schedule_type is ScheduleType.CRON:
        parse_cron(request.spec.cron or "", request.spec.timezone)
    return Job(
        JOB,
        request.tenant_id,
        request.name,
        request.schedule_type,
        request.lane,
        request.spec,
        request.payload,
        1_790_000_000_000,
        effective_ms=1_790_000_000_000,
        scheduled_ms=scheduled_ms,
        tags=request.tags,
        idempotency_key=request.idempotency_key,
    )


def check_batch(data: bytes) -> bool:
    try:
        items = split_batch(data)
    except InvalidRequest as error:
        told(error)
        return False
    parsed = parse_job_requests(items)
    assert len(parsed) == len(items)
    for item, request in zip(items, parsed, strict=True):
        if isinstance(request, InvalidRequest):
            told(request)
        else:
            assert request == parse_exactly(item)
    return True


_STORED = [job_of(parse_job_request(raw)) for raw in JOBS]


def check_patch(data: bytes) -> bool:
    try:
        patch = parse_patch(data)
    except InvalidRequest as error:
        told(error)
        return False
    taken = False
    for job in _STORED:
        try:
            request = patched(job, patch)
        except InvalidRequest as error:
            told(error)
            continue
        taken = True
        assert request.tenant_id == job.tenant_id
        assert request_hash(patched(job_of(request), parse_patch(b"{}"))) == request_hash(
            parse_job_request(msgspec.json.encode(definition_of(job_of(request))))
        )
    return taken


def check_compact(data: bytes) -> bool:
    try:
        request = parse_compact_request(data)
    except InvalidRequest as error:
        told(error)
        return False
    _check_definition(request)
    return True


_LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-10, 10),
    st.sampled_from([0.1, 1e22, 2**53, 2**64, -1, 3_600, 86_400.5, 1e308]),
    st.text(st.one_of(st.sampled_from(ODD_CHARACTERS), st.characters()), max_size=12),
    st.sampled_from(
        ["UTC", "* * * * *", "CRON", "DELAYED", "HIGH", "skip", "HANDLER", "GET", "https://a.example/x"]
    ),
    st.sampled_from(["2026-10-22T14:30:00Z", "9999-12-31T23:59:59.9999Z", "x" * 65, "x" * 257, "[redacted]"]),
)
_KEYS = st.one_of(st.sampled_from(sorted({field.name for field in FIELDS})), st.text(max_size=6))
ANYTHING = st.recursive(
    _LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_KEYS, inner, max_size=4), max_leaves=12
)


def _value(kind: Kind, choices: tuple[str, ...]) -> st.SearchStrategy[Any]:
    if kind is Kind.ENUM and choices:
        return st.one_of(st.sampled_from(choices), st.sampled_from(choices), ANYTHING)
    if kind in (Kind.INTEGER, Kind.NUMBER):
        return st.one_of(st.integers(0, 100), st.floats(0, 1_000), ANYTHING)
    return ANYTHING


@st.composite
def job_bodies(draw: st.DrawFn) -> bytes:
    """A good request with a few members replaced, dropped, added or repeated, as some JSON text."""
    members: dict[str, Any] = json.loads(draw(st.sampled_from(JOBS)))
    for field in draw(st.lists(st.sampled_from(FIELDS), max_size=3)):
        holder: Any = members
        if field.parent == "concurrency[]":
            items = members.setdefault("concurrency", [{"key": "a", "limit": 1}])
            holder = draw(st.sampled_from(items)) if isinstance(items, list) and items else None
        elif field.parent:
            holder = members.setdefault(field.parent, {})
        if isinstance(holder, dict):
            if draw(st.integers(0, 4)) == 0:
                holder.pop(field.name, None)
            else:
                holder[field.name] = draw(_value(field.kind, field.choices))
    return written(draw, members)


def written(draw: st.DrawFn, value: Any) -> bytes:
    """As JSON, in one of its spellings, now and then with a fault."""
    text = json.dumps(value, indent=draw(st.sampled_from([None, None, 1])), ensure_ascii=draw(st.booleans()))
    raw = text.encode("utf-8", "surrogatepass")
    match draw(st.integers(0, 9)):
        case 0:
            at = draw(st.integers(0, len(raw)))
            return raw[:at] + draw(st.sampled_from(WORDS)) + raw[at:]
        case 1 if raw.startswith(b"{") and len(raw) > 2:
            return raw[:-1] + b"," + raw[1:]  # every key twice
        case 2:
            return raw[: draw(st.integers(0, len(raw)))]
        case _:
            return raw


@st.composite
def json_texts(draw: st.DrawFn) -> bytes:
    """Any JSON, and what is nearly JSON."""
    if draw(st.integers(0, 9)) == 0:
        return draw(st.one_of(DIGITS, NOISE)).encode("utf-8", "surrogatepass")
    return written(draw, draw(ANYTHING))


@st.composite
def _batches(draw: st.DrawFn) -> bytes:
    items = draw(st.lists(st.one_of(job_bodies(), st.sampled_from(JOBS), json_texts()), max_size=6))
    return (
        b"["
        + draw(st.sampled_from([b",", b" , ", b",,"])).join(items)
        + draw(st.sampled_from([b"]", b"]", b"]]", b""]))
    )


@st.composite
def _patches(draw: st.DrawFn) -> bytes:
    changeable = [field for field in FIELDS if "[]" not in field.path]
    members: dict[str, Any] = {}
    for field in draw(st.lists(st.sampled_from(changeable), min_size=1, max_size=3)):
        value = draw(st.one_of(st.none(), _value(field.kind, field.choices)))
        if field.parent:
            holder = members.setdefault(field.parent, {})
            if isinstance(holder, dict):
                holder[field.name] = value
        else:
            members[field.name] = value
    return written(draw, members)


@st.composite
def _compact_bodies(draw: st.DrawFn) -> bytes:
    members: dict[str, Any] = json.loads(draw(st.sampled_from(_COMPACT)))
    for name, field in draw(st.lists(st.sampled_from(sorted(COMPACT_FIELDS.items())), max_size=3)):
        members[name] = draw(_value(field.kind, field.choices))
    return written(draw, members)


_COMPACT = (
    b'{"target_endpoint":"https://a.example/x","trigger_type":"DELAYED","execute_at":"2026-10-22T14:30:00Z",'
    b'"payload":{"a":1},"max_retries":3,"idempotency_key":"k"}',
    b'{"target_endpoint":"http://a.example","trigger_type":"CRON","cron_expression":"0 2 * * *","timezone":"GMT"}',
)

PARSERS = (
    Parser(name="strict_json", check=check_strict_json, grammar=json_texts, examples=JOBS, words=WORDS),
    Parser(
        name="payload_scan",
        check=check_payload_scan,
        grammar=json_texts,
        examples=(
            b'{"a":[1,"\\u0000",null],"b":{"c":"\xc3\xa9"}}',
            b"[1e2,-0,12345678901234567890]",
            b'"\\ud83d\\ude00"',
        ),
        words=WORDS,
    ),
    Parser(name="job_request", check=check_job_request, grammar=job_bodies, examples=JOBS, words=WORDS, share=2),
    Parser(
        name="batch",
        check=check_batch,
        grammar=_batches,
        examples=(b"[]", b"[" + b",".join(JOBS) + b"]", b'[{"a":"],"},' + _ONCE + b"]"),
        words=WORDS,
    ),
    Parser(
        name="job_patch",
        check=check_patch,
        grammar=_patches,
        examples=(
            *(
                b"{}",
                b'{"priority":"LOW"}',
                b'{"payload":null}',
                b'{"target":{"headers":{"A":null,"X-A":"[redacted]"}}}',
            ),
            b'{"retry_policy":{"max_retries":5},"tags":["x"],"cron_expression":"0 0 * * *"}',
        ),
        words=WORDS,
    ),
    Parser(name="compact_request", check=check_compact, grammar=_compact_bodies, examples=_COMPACT, words=WORDS),
)
