"""What goes over the wire: answers, problems (RFC 9457), and which error has which HTTP status.

This is the only place that knows statuses of errors. Every problem body has the same shape, so that a client can
show it without knowing the code: `type` points at its explanation on this server's own /docs page.
"""

from collections.abc import AsyncGenerator
from functools import lru_cache
from http import HTTPStatus
from typing import Any, Final

import msgspec

from tickwheel.domain.errors import FieldProblem, InvalidRequest, Overloaded, QuotaExceeded, TickwheelError
from tickwheel.domain.requests.instants import format_instant
from tickwheel.domain.requests.request import MALFORMED, TOO_LARGE

JSON_TYPE: Final = b"application/json"
PROBLEM_TYPE: Final = b"application/problem+json"

Header = tuple[bytes, bytes]


class ErrorKind(msgspec.Struct, frozen=True):
    """What every problem of one code has in common; `meaning` is its line in the documentation."""

    status: int
    title: str
    meaning: str
    retry_after_seconds: int | None = None


ERRORS: Final[dict[str, ErrorKind]] = {
    "invalid_request": ErrorKind(
        422, "The request is not valid", "One or more fields are wrong; `errors` names each of them."
    ),
    "malformed_json": ErrorKind(400, "The body is not JSON", "The body could not be read as JSON (RFC 8259)."),
    "incomplete_body": ErrorKind(
        400, "The body ended too early", "The connection stopped before the announced length had arrived."
    ),
    "malformed_request": ErrorKind(
        400, "The request is not HTTP", "The bytes sent are not a valid HTTP/1.1 request."
    ),
    "tls_needed": ErrorKind(
        400, "This port speaks TLS", "The request came in plain HTTP; its address begins with https://."
    ),
    "bad_cursor": ErrorKind(
        400, "The cursor is not valid", "`cursor` must be a `next_cursor` of the same list with the same filters."
    ),
    "idempotency_key_mismatch": ErrorKind(
        400,
        "Two different idempotency keys",
        "The Idempotency-Key header and the `idempotency_key` field are both given and differ.",
    ),
    "unauthorized": ErrorKind(
        401, "A token is needed", "Send `Authorization: Bearer <token>` with a known token."
    ),
    "forbidden": ErrorKind(
        403, "Not allowed", "The token does not have the scope or the reach that this needs; `detail` names it."
    ),
    "host_not_allowed": ErrorKind(
        403,
        "This host is not answered",
        "Without tokens the server answers only to localhost and to IP addresses.",
    ),
    "egress_refused": ErrorKind(
        403,
        "This target may not be called",
        "The tenant's egress policy, or the server's guard, refuses the address of the target; `detail` says why.",
    ),
    "secret_stays": ErrorKind(
        403,
        "A stored secret stays where it is",
        "The change would send a stored header value to another scheme, host or port than it was given for. Give "
        "the value of the header anew, or leave the header out.",
    ),
    "tenant_disabled": ErrorKind(
        403, "The tenant is disabled", "Requests of this tenant are refused and its runs wait until it is enabled."
    ),
    "not_found": ErrorKind(404, "Not found", "This tenant has no such job, run or dead letter."),
    "no_such_path": ErrorKind(404, "No such path", "The API has nothing at this path."),
    "method_not_allowed": ErrorKind(
        405, "Method not allowed", "The path exists, but not with this method; `Allow` lists those it has."
    ),
    "request_timeout": ErrorKind(408, "The request took too long", "The request did not arrive whole in time."),
    "conflict": ErrorKind(
        409, "Not possible in this state", "The job or run is in a state that does not allow this."
    ),
    "idempotency_key_in_flight": ErrorKind(
        409,
        "A request with this key is under way",
        "Another request with the same idempotency key has not ended yet; send it again after `Retry-After`.",
        1,
    ),
    "version_mismatch": ErrorKind(
        412, "The job has changed", "If-Match names another version than the stored one: read it again."
    ),
    "body_too_large": ErrorKind(413, "The body is too large", "The body is longer than this endpoint reads."),
    "unsupported_media_type": ErrorKind(
        415, "Unsupported media type", "The body must be `application/json` in UTF-8, without content coding."
    ),
    "idempotency_key_reused": ErrorKind(
        422,
        "The idempotency key was used for another request",
        "This key belongs to a different request; nothing was written.",
    ),
    "unsupported_filter": ErrorKind(
        422, "These filters do not go together", "No index answers this combination, and tables are never scanned."
    ),
    "overloaded": ErrorKind(
        429, "Too much is waiting", "Nothing was written; send it again after `Retry-After`.", 1
    ),
    "quota_exceeded": ErrorKind(
        429,
        "A limit of the tenant is used up",
        "`limit` names the limit. Nothing was written; send it again after `Retry-After`.",
        1,
    ),
    "headers_too_large": ErrorKind(431, "The headers are too large", "Request line and headers exceed the bound."),
    "internal": ErrorKind(500, "An internal error", "A fault of this server; its log has the details."),
    "store_unavailable": ErrorKind(
        503, "The store is not available", "Nothing was written; send it again after `Retry-After`.", 1
    ),
    "not_ready": ErrorKind(
        503, "Not ready", "This node lives, but should get no requests now: it is stopping, or unfit.", 1
    ),
    "too_many_connections": ErrorKind(
        503,
        "No place for another connection",
        "The server, or this client's address, has as many connections as it may; come again after `Retry-After`.",
        2,
    ),
    "outcome_unknown": ErrorKind(
        503,
        "The outcome is not known",
        "The store broke while committing. Read back, or repeat with the same idempotency key.",
        1,
    ),
}
"""Every code that a problem can carry. The documentation lists them from here."""


class Problem(msgspec.Struct, frozen=True):
    """The body of every answer that is not a success."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    errors: list[FieldProblem] = []
    limit: str | msgspec.UnsetType = msgspec.UNSET  # which one of the tenant's is used up


class Answer(msgspec.Struct, frozen=True):
    """A complete HTTP answer; the content length is added when it is sent. With `pieces` they are the body."""

    status: int
    body: bytes = b""
    headers: tuple[Header, ...] = ()
    pieces: AsyncGenerator[bytes, None] | None = None


class Refusal(Exception):
    """A request that the HTTP layer itself refuses; `code` is a key of `ERRORS`."""

    def __init__(
        self,
        code: str,
        detail: str,
        *,
        errors: list[FieldProblem] | None = None,
        headers: tuple[Header, ...] = (),
    ) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail
        self.errors = errors or []
        self.headers = headers


_WHOLE_BODY_CODES: Final = {MALFORMED: "malformed_json", TOO_LARGE: "body_too_large"}
_ENCODER: Final = msgspec.json.Encoder()
_JSON_HEADERS: Final[tuple[Header, ...]] = ((b"content-type", JSON_TYPE),)

encode = _ENCODER.encode


def ok(body: Any, *, status: int = 200, headers: tuple[Header, ...] = ()) -> Answer:
    """A success with `body` encoded as JSON."""
    return Answer(status, _ENCODER.encode(body), _JSON_HEADERS + headers)


def problem_body(
    code: str,
    detail: str,
    errors: list[FieldProblem] | None = None,
    limit: str | msgspec.UnsetType = msgspec.UNSET,
) -> Problem:
    """The problem object of one code."""
    kind = ERRORS[code]
    return Problem(
        type=f"/docs#problem-{code}",
        title=kind.title,
        status=kind.status,
        detail=detail,
        code=code,
        errors=errors or [],
        limit=limit,
    )


def problem(
    code: str,
    detail: str,
    *,
    errors: list[FieldProblem] | None = None,
    headers: tuple[Header, ...] = (),
    retry_after_s: int | None = None,
    limit: str | msgspec.UnsetType = msgspec.UNSET,
) -> Answer:
    """The answer for one code; 429 and 503 say when to come again."""
    kind = ERRORS[code]
    all_headers: list[Header] = [(b"content-type", PROBLEM_TYPE), *headers]
    if kind.retry_after_seconds is not None:
        all_headers.append((b"retry-after", str(retry_after_s or kind.retry_after_seconds).encode()))
    return Answer(kind.status, _ENCODER.encode(problem_body(code, detail, errors, limit)), tuple(all_headers))


def refused(error: TickwheelError | Refusal) -> Answer:
    """The answer to a request that failed with this error."""
    if isinstance(error, Refusal):
        return problem(error.code, error.detail, errors=error.errors, headers=error.headers)
    wait_s = error.retry_after_s if isinstance(error, Overloaded | QuotaExceeded) else None
    return problem(
        code_of(error), detail_of(error), errors=errors_of(error), retry_after_s=wait_s, limit=limit_of(error)
    )


def problem_of(error: TickwheelError | Refusal) -> Problem:
    """The same as an object, for one item of a batch."""
    if isinstance(error, Refusal):
        return problem_body(error.code, error.detail, error.errors)
    return problem_body(code_of(error), detail_of(error), errors_of(error), limit_of(error))


def code_of(error: TickwheelError) -> str:
    """The problem code of an error; a code that is not documented is an internal one."""
    if isinstance(error, InvalidRequest) and error.problems and not error.problems[0].field:
        # What is wrong with the body as a whole is no matter of fields: it has codes and statuses of its own.
        return _WHOLE_BODY_CODES.get(error.problems[0].code, error.code)
    return error.code if error.code in ERRORS else "internal"


def detail_of(error: TickwheelError) -> str:
    """The sentence for people: what is wrong, by field where there are several."""
    return str(error) or ERRORS[code_of(error)].meaning


def errors_of(error: TickwheelError) -> list[FieldProblem]:
    """The fields that are wrong; empty for errors that are not about fields."""
    return list(error.problems) if isinstance(error, InvalidRequest) else []


def limit_of(error: TickwheelError) -> str | msgspec.UnsetType:
    """The name of the tenant's limit that is used up, if that is what is the matter."""
    return error.limit if isinstance(error, QuotaExceeded) else msgspec.UNSET


def status_line(status: int) -> bytes:
    """`HTTP/1.1 408 Request Timeout`, for answers that the server writes by itself."""
    return f"HTTP/1.1 {status} {HTTPStatus(status).phrase}".encode()


def iso(instant_ms: int | None) -> str | None:
    """UTC with milliseconds and `Z`, or None."""
    if instant_ms is None:
        return None
    return iso_text(instant_ms)


def iso_text(instant_ms: int) -> str:
    """UTC with milliseconds and `Z`."""
    seconds, millis = divmod(instant_ms, 1000)
    return f"{_second_text(seconds)}.{millis:03d}Z"


@lru_cache(maxsize=4096)
def _second_text(seconds: int) -> str:
    # Jobs of a batch share few seconds, and formatting a date costs more than the rest of an item's answer.
    return format_instant(seconds * 1000)[:19]
