"""What is wrong with a request is named field by field, all of it at once."""

from typing import Any

import pytest

from tickwheel.domain import limits
from tickwheel.domain.errors import InvalidRequest
from tickwheel.domain.requests.request import MALFORMED, TOO_LARGE, parse_job_request, split_batch

from .samples import BILLING, ONCE, problems_of, raw, refused


def test_every_problem_is_named_at_once() -> None:
    found = refused(
        ONCE,
        schedule_type="cron",
        priority="URGENT",
        prioritty="HIGH",
        target={"endpoint": "ftp://x", "headers": {"Host": "a"}, "timeout_seconds": 0},
        retry_policy={"max_retries": -1},
        tags=["", "a", "a"],
    )
    assert set(found) == {
        "schedule_type",
        "priority",
        "prioritty",
        "target.endpoint",
        "target.headers.Host",
        "target.timeout_seconds",
        "retry_policy.max_retries",
        "tags[0]",
        "tags[2]",
    }
    assert "did you mean CRON?" in found["schedule_type"]
    assert "did you mean priority?" in found["prioritty"]


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("cron", "cron_expression"),
        ("run_at", "execute_at"),
        ("url", "target.endpoint"),
        ("endpoint", "target.endpoint"),
        ("max_retries", "retry_policy.max_retries"),
        ("Priority", "priority"),
    ],
)
def test_an_unknown_field_comes_with_the_one_that_was_meant(name: str, meant: str) -> None:
    assert f"did you mean {meant}?" in refused(ONCE, **{name: "x"})[name]


def test_unknown_fields_of_inner_objects_are_named_too() -> None:
    found = refused(
        ONCE,
        target={"endpoint": "https://a.example", "metod": "GET", "url": "https://b.example"},
        retry_policy={"retries": 3, "max": 3},
    )
    assert set(found) == {"target.metod", "target.url", "retry_policy.retries", "retry_policy.max"}
    assert "did you mean target.endpoint?" in found["target.url"]
    assert "did you mean retry_policy.max_retries?" in found["retry_policy.max"]


@pytest.mark.parametrize("missing", ["schedule_type", "target"])
def test_required_fields_are_asked_for(missing: str) -> None:
    assert refused(ONCE, **{missing: ...})[missing].startswith("is required")


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ({"execute_at": ...}, "execute_at"),
        ({"delay_seconds": 5}, "delay_seconds"),
        ({"run_at_epoch_ms": 1_792_679_400_000}, "run_at_epoch_ms"),
        ({"cron_expression": "* * * * *"}, "cron_expression"),
        ({"timezone": "UTC"}, "timezone"),
        ({"catch_up": {"policy": "skip"}}, "catch_up"),
        ({"overlap": "skip"}, "overlap"),
        ({"start_at": "2026-10-22T14:30:00Z"}, "start_at"),
        ({"schedule_type": "INSTANT"}, "execute_at"),
        ({"target": {"type": "HANDLER"}}, "target.name"),
        ({"target": {"type": "HANDLER", "name": "x", "method": "GET"}}, "target.method"),
        ({"target": {"endpoint": "https://a.example", "name": "x"}}, "target.name"),
        ({"target": {}}, "target.endpoint"),
        ({"retry_policy": {"initial_interval_sec": 20, "max_interval_sec": 10}}, "retry_policy.max_interval_sec"),
    ],
)
def test_fields_that_do_not_go_together(more: dict[str, Any], field: str) -> None:
    assert set(refused(ONCE, **more)) == {field}


@pytest.mark.parametrize(
    ("more", "field", "part"),
    [
        ({"cron_expression": "0 0 30 2 *"}, "cron_expression", "never fires"),
        ({"cron_expression": "0 0 * * 8"}, "cron_expression", "day-of-week"),
        ({"cron_expression": ...}, "cron_expression", "required"),
        ({"timezone": "Europe/Berln"}, "timezone", "Europe/Berlin"),
        ({"timezone": ""}, "timezone", ""),
        ({"execute_at": "2026-10-22T14:30:00Z"}, "execute_at", "ONE_OFF"),
        ({"start_at": "2026-10-22T14:30:00Z", "end_at": "2026-10-22T14:30:00Z"}, "end_at", "later"),
        ({"cron_expression": "* " * 200}, "cron_expression", "256"),
    ],
)
def test_bad_schedules(more: dict[str, Any], field: str, part: str) -> None:
    found = refused(BILLING, **more)
    assert set(found) == {field}
    assert part in found[field]


@pytest.mark.pitfall(74)
@pytest.mark.parametrize("value", [0, 5_000, 1_767_225_600, 99_999_999_999])
def test_seconds_or_a_delay_are_not_taken_for_epoch_milliseconds(value: int) -> None:
    found = refused(ONCE, execute_at=..., run_at_epoch_ms=value)
    assert "delay_seconds" in found["run_at_epoch_ms"]


@pytest.mark.pitfall(74)
@pytest.mark.parametrize("value", [1_500_000_000, limits.DELAY_SECONDS_MAX + 1, 1_792_679_400_000])
def test_an_instant_is_not_taken_for_a_delay(value: int) -> None:
    assert "execute_at" in refused(ONCE, execute_at=..., delay_seconds=value)["delay_seconds"]


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("2026-10-22T14:30:00", "offset"),
        ("2026-12-31T23:59:60Z", "leap second"),
        ("1969-12-31T23:59:59Z", "1970"),
        ("2026-02-30T00:00:00Z", "exists"),
        ("2026-10-22", "RFC 3339"),
        ("in 5 minutes", "RFC 3339"),
        ("2026-10-22T14:30:00+99:00", "exists"),
        ("٢٠٢٦-10-22T14:30:00Z", "RFC 3339"),
        ("", "RFC 3339"),
    ],
)
def test_bad_instants(text: str, part: str) -> None:
    assert part in refused(ONCE, execute_at=text)["execute_at"]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("job_name", 5),
        ("job_name", True),
        ("delay_seconds", "5"),
        ("delay_seconds", True),
        ("run_at_epoch_ms", 1_792_679_400_000.0),
        ("run_at_epoch_ms", "1792679400000"),
        ("target", "https://a.example"),
        ("target", []),
        ("retry_policy", 3),
        ("tags", "a"),
        ("tags", {"a": "b"}),
        ("catch_up", "skip"),
        ("priority", 1),
        ("execute_at", 1_792_679_400),
    ],
)
def test_wrong_types_are_named(field: str, value: Any) -> None:
    with pytest.raises(InvalidRequest) as caught:
        parse_job_request(raw(ONCE, **{field: value}))
    assert any(p.field == field and p.message.startswith("must be") for p in caught.value.problems)


@pytest.mark.parametrize("number", [2**53 + 1, 2**63, 10**400, -(2**70)])
def test_integers_beyond_exactness_are_refused(number: int) -> None:
    found = refused(ONCE, execute_at=..., run_at_epoch_ms=number, retry_policy={"max_retries": number})
    assert set(found) == {"run_at_epoch_ms", "retry_policy.max_retries"}
    assert "2^53" in found["retry_policy.max_retries"]


@pytest.mark.parametrize("token", [b"NaN", b"Infinity", b"-Infinity"])
@pytest.mark.parametrize("field", [b"delay_seconds", b"payload"])
def test_nan_and_infinity_are_named_where_they_are(token: bytes, field: bytes) -> None:
    found = problems_of(raw(ONCE, execute_at=...)[:-1] + b', "' + field + b'": ' + token + b"}")
    assert "JSON does not have" in found[field.decode()]


def test_a_number_too_large_for_a_double_is_out_of_range() -> None:
    assert set(problems_of(raw(ONCE, execute_at=...)[:-1] + b', "delay_seconds": 1e999}')) == {"delay_seconds"}


@pytest.mark.parametrize(
    ("members", "path"),
    [
        (b'"target":{"endpoint":"https://a.example"},"schedule_type":"INSTANT"', "schedule_type"),
        (b'"target":{"endpoint":"https://a.example","endpoint" : "https://b.example"}', "target.endpoint"),
        (b'"target":{"endpoint":"https://a.example","headers":{"A":"1","A":"1"}}', "target.headers.A"),
        (b'"target":{"endpoint":"https://a.example"},"payload":1,"payload":2', "payload"),
        (b'"target":{"endpoint":"https://a.example"},"job_name":null,"job_name":"x"', "job_name"),
        (
            b'"target":{"endpoint":"https://a.example"},"retry_policy":{"max_retries":1,"max_retri\\u0065s":2}',
            "retry_policy.max_retries",
        ),
    ],
)
def test_repeated_keys_are_refused(members: bytes, path: str) -> None:
    assert set(problems_of(b'{"schedule_type":"INSTANT",' + members + b"}")) == {path}


@pytest.mark.pitfall(70)
@pytest.mark.parametrize(
    ("payload", "path", "part"),
    [
        (b'{"a": ["x\\ud800"]}', "payload.a[0]", "lone surrogate"),
        (b'{"a": {"\\udc00k": 1}}', "payload.a['\\udc00k']", "lone surrogate"),
        (b'{"a": "x\x00y"}', "payload.a", "\\u0000"),
        (b'{"a": "x\x1fy"}', "payload.a", "\\u001f"),
        (b'{"a": {"b": "\xff"}}', "payload.a.b", "UTF-8"),
        (b'"\xed\xa0\x80"', "payload", "UTF-8"),
    ],
)
def test_what_is_no_text_is_refused_with_the_path(payload: bytes, path: str, part: str) -> None:
    found = problems_of(raw(ONCE)[:-1] + b', "payload": ' + payload + b"}")
    assert set(found) == {path}
    assert part in found[path]


@pytest.mark.parametrize("bad", ["a\x00b", "a\nb", "a\x7f", "a\u2028b"])
@pytest.mark.parametrize("field", ["job_name", "tenant_id", "idempotency_key", "cron_expression", "timezone"])
def test_control_characters_in_our_own_texts_are_refused(field: str, bad: str) -> None:
    assert field in refused(BILLING, **{field: bad})


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("   ", "shows nothing"),
        ("\u3164", "shows nothing"),
        ("\u200d\u200d", "shows nothing"),
        ("a\u202eb", "direction character (U+202E) at character 2"),
        ("\u2066a", "direction character"),
    ],
)
def test_a_name_must_be_seen_and_read_in_one_way(name: str, part: str) -> None:
    assert part in refused(BILLING, job_name=name)["job_name"]


@pytest.mark.parametrize(
    "name",
    [
        "nightly report",
        " a ",
        "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",
        "\U0001f468\u200d\U0001f469",
        "*",
        "..",
    ],
)
def test_names_of_all_scripts_are_taken(name: str) -> None:
    assert parse_job_request(raw({**ONCE, "job_name": name})).name == name


@pytest.mark.parametrize(
    ("tenant_id", "part"),
    [
        ("..", "means something else"),
        (".", "means something else"),
        ("*", "all tenants"),
        ("  ", "shows nothing"),
        (" acme", "blank at an end"),
        ("acme\u00a0", "blank at an end"),
        ("ac\u00a0me", "invisible character (U+00A0) at character 3"),
        ("ac\u202eme", "invisible character (U+202E) at character 3"),
        ("ac\u3164me", "invisible character (U+3164)"),
    ],
)
def test_a_tenant_that_would_mislead_gets_nothing(tenant_id: str, part: str) -> None:
    assert part in refused(ONCE, tenant_id=tenant_id)["tenant_id"]


@pytest.mark.parametrize("tenant_id", ["acme", "Acme Inc.", "a/b", "Zürich", "株式会社", "***"])
def test_tenants_of_all_scripts_are_taken(tenant_id: str) -> None:
    assert parse_job_request(raw({**ONCE, "tenant_id": tenant_id})).tenant_id == tenant_id


def test_a_lone_surrogate_in_our_own_text_is_refused() -> None:
    assert "lone surrogate" in problems_of(raw(ONCE)[:-1] + b', "job_name": "a\\ud800"}')["job_name"]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("job_name", "x" * (limits.NAME_CHARS + 1)),
        ("tenant_id", "x" * (limits.TENANT_CHARS + 1)),
        ("tenant_id", ""),
        ("idempotency_key", "x" * (limits.IDEMPOTENCY_KEY_CHARS + 1)),
        ("idempotency_key", ""),
        ("idempotency_key", "schlüssel"),
        ("tags", [f"t{i}" for i in range(limits.TAG_COUNT + 1)]),
        ("deadline_seconds", 0.5),
    ],
)
def test_lengths_and_counts_are_bounded(field: str, value: Any) -> None:
    assert set(refused(ONCE, **{field: value})) == {field}


def test_a_long_tag_is_named_by_its_place() -> None:
    assert set(refused(ONCE, tags=["a", "x" * (limits.TAG_CHARS + 1)])) == {"tags[1]"}


@pytest.mark.parametrize(
    ("headers", "path"),
    [
        ({"X-A": "a\r\nX-B: b"}, "target.headers.X-A"),
        ({"X A": "a"}, "target.headers['X A']"),
        ({"": "a"}, "target.headers['']"),
        ({"Content-Length": "1"}, "target.headers.Content-Length"),
        ({"Transfer-Encoding": "chunked"}, "target.headers.Transfer-Encoding"),
        ({"X-Fencing-Token": "1"}, "target.headers.X-Fencing-Token"),
        ({"webhook-id": "1"}, "target.headers.webhook-id"),
        ({"X-A": "a", "x-a": "b"}, "target.headers.x-a"),
        ({"X-A": "a" * (limits.HEADER_VALUE_CHARS + 1)}, "target.headers.X-A"),
        ({"X-" + "a" * limits.HEADER_NAME_CHARS: "a"}, None),
        ({f"X-{i}": "a" for i in range(limits.HEADER_COUNT + 1)}, "target.headers"),
        ({f"X-{i}": "a" * 4000 for i in range(5)}, "target.headers"),
        ({"X-A": 1}, "target.headers.X-A"),
        ({"X-A": " a"}, "target.headers.X-A"),
        ({"X-A": "tw-sealed:k1:AAAA"}, "target.headers.X-A"),
    ],
)
def test_headers_that_cannot_be_sent(headers: dict[str, Any], path: str | None) -> None:
    found = refused(ONCE, target={"endpoint": "https://a.example/x", "headers": headers})
    assert len(found) == 1
    assert path is None or path in found


@pytest.mark.parametrize(
    "endpoint",
    [
        "",
        "a.example/x",
        "file:///etc/passwd",
        "gopher://a.example",
        "https://",
        "https:///x",
        "https://user:pass@a.example/",
        "https://a.example/#part",
        "https://a.example:0/",
        "https://a.example:99999/",
        "https://a.example:x/",
        "https://a.example/ x",
        "https://ä.example/",
        "https://a.example/\r\nX: y",
        'https://a.example/"',
        "https://[::1/",
        "https://a.example\\@b.example/",
        "https://a.example/" + "x" * limits.ENDPOINT_CHARS,
    ],
)
def test_addresses_that_are_none(endpoint: str) -> None:
    assert set(refused(ONCE, target={"endpoint": endpoint})) == {"target.endpoint"}


def test_a_payload_over_the_limit_is_told_apart() -> None:
    with pytest.raises(InvalidRequest) as caught:
        parse_job_request(raw(ONCE, payload="x" * (limits.PAYLOAD_BYTES - 1)))
    (problem,) = caught.value.problems
    assert (problem.field, problem.code) == ("payload", TOO_LARGE)


@pytest.mark.parametrize("depth", [limits.PAYLOAD_DEPTH + 1, 400])
def test_a_payload_may_not_nest_without_end(depth: int) -> None:
    found = problems_of(raw(ONCE)[:-1] + b', "payload": ' + b"[" * depth + b"]" * depth + b"}")
    assert all("128" in message for message in found.values())


@pytest.mark.parametrize("depth", [65, 501, 100_000])
@pytest.mark.parametrize("place", [b"job_name", b"payload", b"unknown"])
def test_deep_nesting_never_breaks_the_parser(depth: int, place: bytes) -> None:
    text = raw(ONCE)[:-1] + b', "' + place + b'": ' + b'{"a":' * depth + b"1" + b"}" * depth + b"}"
    if (depth, place) == (65, b"payload"):
        parse_job_request(text)
    else:
        assert problems_of(text)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"  ",
        b"null",
        b"[]",
        b'"x"',
        b"5",
        b"{",
        b'{"a":1',
        b"{]",
        b"{'a':1}",
        b"\xff",
        b"{}x",
        b"\xef\xbb\xbf{}",
    ],
)
def test_what_is_no_json_object_is_malformed(text: bytes) -> None:
    with pytest.raises(InvalidRequest) as caught:
        parse_job_request(text)
    assert [problem.code for problem in caught.value.problems] == [MALFORMED]


def test_a_body_cut_off_at_any_byte_is_malformed() -> None:
    text = raw(BILLING)
    for length in range(1, len(text)):
        with pytest.raises(InvalidRequest):
            parse_job_request(text[:length])


@pytest.mark.parametrize("text", [b"{}", b"[1,", b"", b"[\xff", b"nope"])
def test_a_batch_that_is_no_array_is_malformed(text: bytes) -> None:
    with pytest.raises(InvalidRequest) as caught:
        split_batch(text)
    assert caught.value.problems[0].code == MALFORMED


def test_a_batch_is_bounded() -> None:
    assert len(split_batch(b"[" + b",".join([b"1"] * limits.BATCH_COUNT) + b"]")) == limits.BATCH_COUNT
    with pytest.raises(InvalidRequest) as caught:
        split_batch(b"[" + b",".join([b"1"] * (limits.BATCH_COUNT + 1)) + b"]")
    assert caught.value.problems[0].code == TOO_LARGE


@pytest.mark.parametrize("name", ["", ".hidden", "a/b", "with blank", "ü", "x" * 65, 5])
def test_names_of_signing_secrets_that_could_be_no_path(name: object) -> None:
    target = {"endpoint": "https://a.example/x", "signing_secret": name}
    assert set(refused(ONCE, target=target)) == {"target.signing_secret"}


def test_a_handler_is_not_signed() -> None:
    target = {"type": "HANDLER", "name": "x", "signing_secret": "billing"}
    assert set(refused(ONCE, target=target)) == {"target.signing_secret"}
