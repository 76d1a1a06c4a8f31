"""What the client raises: the errors of the domain by their code, and a few of its own."""

from typing import Final

import msgspec

from tickwheel.domain import errors as domain
from tickwheel.domain.errors import FieldProblem, InvalidRequest, TickwheelError


class ServerUnreachable(TickwheelError):
    """No server answered at that address."""

    code = "server_unreachable"
    retryable = True


class RequestTimedOut(TickwheelError):
    """No whole answer came in time; whether the request was carried out is not known."""

    code = "timed_out"
    retryable = True


class WaitTimedOut(TickwheelError):
    """`wait_for` gave up; the run goes on."""

    code = "wait_timed_out"
    retryable = True


class Unauthorized(TickwheelError):
    """The server wants a token, or another one."""

    code = "unauthorized"


class RequestRefused(TickwheelError):
    """The server refused for a reason that has no class of its own; `code` and `status` say which."""

    code = "request_refused"

    def __init__(self, message: str, *, code: str, status: int) -> None:
        super().__init__(message)
        self.code = code  # type: ignore[misc]  # a constant of the other classes; here it is the server's
        self.status = status


class UnexpectedAnswer(TickwheelError):
    """What answered does not speak Tickwheel's API."""

    code = "unexpected_answer"


class Problem(msgspec.Struct):
    """A problem+json body, as far as it is used."""

    code: str = ""
    title: str = ""
    detail: str = ""
    errors: list[FieldProblem] = []


_PLAIN: Final = (
    domain.NotFound,
    domain.Conflict,
    domain.VersionMismatch,
    domain.EgressRefused,
    domain.SecretStays,
    domain.IdempotencyConflict,
    domain.KeyInFlight,
    domain.UnsupportedFilter,
    domain.BadCursor,
    domain.StoreUnavailable,
    domain.OutcomeUnknown,
    domain.Overloaded,
    domain.QuotaExceeded,
    domain.TenantDisabled,
    Unauthorized,
)
_BY_CODE: Final[dict[str, type[TickwheelError]]] = {kind.code: kind for kind in _PLAIN}
_SHOWN_BYTES: Final = 200


def error_of(status: int, content_type: str, body: bytes, url: str) -> TickwheelError:
    """The exception for an answer that is no success."""
    problem = _problem(content_type, body)
    if problem is None:
        start = body[:_SHOWN_BYTES].decode("utf-8", "replace").strip()
        return UnexpectedAnswer(f"{url} answered {status}, and not in the words of Tickwheel's API: {start!r}")
    message = problem.detail or problem.title
    if problem.code == InvalidRequest.code:
        return InvalidRequest(problem.errors or [FieldProblem("body", message)])
    known = _BY_CODE.get(problem.code)
    if known is not None:
        return known(message)
    return RequestRefused(message, code=problem.code, status=status)


def _problem(content_type: str, body: bytes) -> Problem | None:
    if not content_type.startswith("application/problem+json"):
        return None
    try:
        problem = msgspec.json.decode(body, type=Problem)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return problem if problem.code else None
