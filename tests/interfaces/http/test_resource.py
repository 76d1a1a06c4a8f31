"""What every path has in common: methods, tokens, bodies, media types, faults of our own."""

import base64
from typing import Any

import pytest
from starlette.types import ASGIApp

from tickwheel.domain.errors import (
    Conflict,
    FieldProblem,
    InvalidRequest,
    KeyInFlight,
    NotFound,
    OutcomeUnknown,
    Overloaded,
    StoreUnavailable,
)
from tickwheel.interfaces.http.resource import Call, Resource
from tickwheel.interfaces.http.wire import Answer, ok
from tickwheel.services.authentication import Authentication
from tickwheel.testing.virtual_clock import VirtualClock

from .asgi_client import AsgiClient


def resource(*tokens: str, error: Exception | None = None) -> ASGIApp:
    async def handler(call: Call) -> Answer:
        if error is not None:
            raise error
        return ok({"hello": "you"})

    async def length(call: Call) -> Answer:
        return ok({"bytes": len(await call.json_body(100))})

    return Resource({"GET": handler, "POST": length}, Authentication(VirtualClock(), tokens=tokens))


async def test_head_is_get_without_the_body() -> None:
    whole = await AsgiClient(resource()).get("/")
    head = await AsgiClient(resource()).request("HEAD", "/")
    assert head.status == 200
    assert head.body == b""
    assert head.headers == whole.headers


async def test_options_lists_the_methods_and_grants_no_other_origin_anything() -> None:
    reply = await AsgiClient(resource()).request("OPTIONS", "/", headers={"origin": "https://evil.example"})
    assert reply.status == 204
    assert reply.headers["allow"] == "GET, HEAD, OPTIONS, POST"
    assert not [name for name in reply.headers if name.startswith("access-control")]


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "TRACE", "FOO", "CONNECT"])
async def test_another_method_is_405_with_the_ones_that_exist(method: str) -> None:
    reply = await AsgiClient(resource()).request(method, "/")
    assert reply.status == 405
    assert reply.code == "method_not_allowed"
    assert reply.headers["allow"] == "GET, HEAD, OPTIONS, POST"


@pytest.mark.parametrize(
    ("error", "status", "code", "retry_after"),
    [
        (NotFound("there is no such job"), 404, "not_found", None),
        (Conflict("the run has ended"), 409, "conflict", None),
        (KeyInFlight("another request"), 409, "idempotency_key_in_flight", "1"),
        (Overloaded("too much"), 429, "overloaded", "1"),
        (StoreUnavailable("disk full"), 503, "store_unavailable", "1"),
        (OutcomeUnknown("broken pipe"), 503, "outcome_unknown", "1"),
        (RuntimeError("secret detail"), 500, "internal", None),
    ],
)
async def test_errors_become_problems(error: Exception, status: int, code: str, retry_after: str | None) -> None:
    reply = await AsgiClient(resource(error=error)).get("/")
    assert (reply.status, reply.code) == (status, code)
    assert reply.headers.get("retry-after") == retry_after
    assert b"secret" not in reply.body


async def test_every_wrong_field_is_in_the_problem() -> None:
    error = InvalidRequest([FieldProblem("a.b", "is wrong", "range"), FieldProblem("c", "is missing", "required")])
    reply = await AsgiClient(resource(error=error)).get("/")
    assert reply.status == 422
    assert reply.json == {
        "type": "/docs#problem-invalid_request",
        "title": "The request is not valid",
        "status": 422,
        "detail": "a.b: is wrong; c: is missing",
        "code": "invalid_request",
        "errors": [
            {"field": "a.b", "message": "is wrong", "code": "range"},
            {"field": "c", "message": "is missing", "code": "required"},
        ],
    }


@pytest.mark.parametrize("token", ["first-token", "second-token"])
async def test_each_configured_token_opens_the_api(token: str) -> None:
    app = resource("first-token", "second-token")
    assert (await AsgiClient(app, token).get("/")).status == 200


def basic(text: str) -> str:
    return "Basic " + base64.b64encode(text.encode()).decode()


@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        "Bearer",
        "Bearer ",
        "Bearer first-toke",
        "Bearer first-tokenx",
        "Bearer first-token second-token",
        "bearerfirst-token",
        "Token first-token",
        "Bearer f\xefrst-token",
        basic("user:first-token"),
        "Basic ===",
    ],
)
async def test_anything_else_is_401_with_a_challenge(header: str | None) -> None:
    headers = {} if header is None else {"authorization": header}
    reply = await AsgiClient(resource("first-token", "second-token")).get("/", headers=headers)
    assert (reply.status, reply.code) == (401, "unauthorized")
    assert reply.headers["www-authenticate"] == 'Bearer realm="tickwheel"'


async def test_without_tokens_the_api_is_open() -> None:
    assert (await AsgiClient(resource()).get("/", headers={"authorization": "Bearer any"})).status == 200


async def test_methods_are_not_told_without_a_token() -> None:
    assert (await AsgiClient(resource("t")).request("PUT", "/")).status == 401
    assert (await AsgiClient(resource("t")).request("OPTIONS", "/")).status == 401


@pytest.mark.parametrize(
    "content_type",
    [
        "application/json",
        "application/json; charset=utf-8",
        'application/json;charset="UTF-8"',
        "Application/JSON",
        "application/merge-patch+json",
    ],
)
async def test_json_by_any_of_its_names_is_read(content_type: str) -> None:
    reply = await AsgiClient(resource()).post("/", {}, content_type=content_type)
    assert (reply.status, reply.json) == (200, {"bytes": 2})


@pytest.mark.parametrize(
    ("content_type", "headers"),
    [
        (None, {}),
        ("text/plain", {}),
        ("application/x-www-form-urlencoded", {}),
        ("multipart/form-data; boundary=x", {}),
        ("application/json; charset=latin-1", {}),
        ("application/json; charset=utf-16", {}),
        ("application/jsonp", {}),
        ("text/json", {}),
        ("json", {}),
        ("", {}),
        ("application/json", {"content-encoding": "gzip"}),
    ],
)
async def test_what_does_not_call_itself_json_is_415(content_type: str | None, headers: dict[str, str]) -> None:
    reply = await AsgiClient(resource()).post("/", {}, content_type=content_type, headers=headers)
    assert (reply.status, reply.code) == (415, "unsupported_media_type")


@pytest.mark.parametrize("pieces", [[b"x" * 101], [b"x" * 60, b"x" * 60], [b"x"] * 101, [b"", b"x" * 200]])
async def test_a_body_over_the_bound_is_413_without_reading_it_whole(pieces: list[bytes]) -> None:
    reply = await AsgiClient(resource()).post("/", pieces=pieces)
    assert (reply.status, reply.code) == (413, "body_too_large")


async def test_an_announced_length_over_the_bound_is_413_before_anything_is_read() -> None:
    reply = await AsgiClient(resource()).post("/", {}, headers={"content-length": "101"})
    assert (reply.status, reply.code) == (413, "body_too_large")


async def test_a_body_in_pieces_is_put_together() -> None:
    reply = await AsgiClient(resource()).post("/", pieces=[b"{", b"", b'"a":1', b"}"])
    assert reply.json == {"bytes": 7}


@pytest.mark.parametrize("pieces", [[b""], [b'{"a'], [b"{}", b""]])
async def test_a_client_that_is_gone_is_not_answered(pieces: list[bytes]) -> None:
    reply = await AsgiClient(resource()).post("/", pieces=pieces, cut=True)
    assert reply.status == 0


async def test_every_answer_forbids_sniffing() -> None:
    for reply in (await AsgiClient(resource()).get("/"), await AsgiClient(resource("t")).get("/")):
        assert reply.headers["x-content-type-options"] == "nosniff"


async def test_tokens_are_compared_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """All of them, whatever the first ones say: an early exit would tell the position of a token."""
    compared: list[bytes] = []

    def compare(a: bytes, b: bytes) -> bool:
        compared.append(a)
        return a == b

    monkeypatch.setattr("hmac.compare_digest", compare)
    await Authentication(VirtualClock(), tokens=["one", "two", "three"]).find(b"one")
    assert compared == [b"one", b"two", b"three"]


def test_an_unknown_error_code_is_internal() -> None:
    from tickwheel.interfaces.http.wire import ERRORS, refused

    class Odd(NotFound):
        code = "nobody_documented_this"

    answer: Any = refused(Odd("x"))
    assert answer.status == ERRORS["internal"].status
