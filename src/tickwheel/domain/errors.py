"""The error tree: one stable code each, and whether trying again can help.

HTTP statuses are not here: `interfaces/http` maps codes to statuses, the CLI maps them to exit codes.
"""

from typing import ClassVar, Final

import msgspec

MOST_PROBLEMS: Final = 100
"""So many problems of one request are told; one that has more has the first of them to mend anyway."""


class FieldProblem(msgspec.Struct, frozen=True):
    """One thing wrong with a request: where (a dotted path such as `target.endpoint`), what, and the remedy."""

    field: str
    message: str
    code: str = "invalid"


class TickwheelError(Exception):
    """Base of all errors that Tickwheel raises on purpose."""

    code: ClassVar[str] = "internal"
    retryable: ClassVar[bool] = False


class InvalidRequest(TickwheelError):
    """The request is wrong; every problem is named."""

    code = "invalid_request"

    def __init__(self, problems: list[FieldProblem]) -> None:
        super().__init__("; ".join(f"{p.field}: {p.message}" if p.field else p.message for p in problems))
        self.problems = problems


class NotFound(TickwheelError):
    """There is no such job, run or dead letter for this tenant."""

    code = "not_found"


class Conflict(TickwheelError):
    """The thing is not in a state that allows this."""

    code = "conflict"


class VersionMismatch(TickwheelError):
    """If-Match named another version of the job."""

    code = "version_mismatch"


class EgressRefused(TickwheelError):
    """The target is not one that this tenant's webhooks may call; the text says which rule is in the way."""

    code = "egress_refused"


class IdempotencyConflict(TickwheelError):
    """The idempotency key was used for another request; nothing was written."""

    code = "idempotency_key_reused"


class KeyInFlight(TickwheelError):
    """Another request with the same idempotency key is being written right now; nothing was written."""

    code = "idempotency_key_in_flight"
    retryable = True


class UnsupportedFilter(TickwheelError):
    """No index answers this combination of filters, and tables are never scanned."""

    code = "unsupported_filter"


class SecretStays(TickwheelError):
    """A stored header value would go to another server than the one that it was given for; nothing was written."""

    code = "secret_stays"


class BadCursor(TickwheelError):
    """The cursor was not made by this list."""

    code = "bad_cursor"


class StoreUnavailable(TickwheelError):
    """The store did not take the request; nothing was written."""

    code = "store_unavailable"
    retryable = True


class OutcomeUnknown(StoreUnavailable):
    """The connection broke while committing: it may or may not have happened. Read back before repeating."""

    code = "outcome_unknown"


class Overloaded(TickwheelError):
    """Too much is waiting already; nothing was written. `retry_after_s`: when it may be worth trying again."""

    code = "overloaded"
    retryable = True

    def __init__(self, message: str = "", retry_after_s: int = 1) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class QuotaExceeded(TickwheelError):
    """The tenant has used up one of its limits; nothing was written.

    `limit` names it as its record does, `allowed` says how much that is and `used` how much of it is used.
    """

    code = "quota_exceeded"
    retryable = True

    def __init__(
        self, message: str = "", *, limit: str = "", retry_after_s: int = 1, used: int = 0, allowed: int = 0
    ) -> None:
        super().__init__(message)
        self.limit, self.retry_after_s, self.used, self.allowed = limit, retry_after_s, used, allowed


class TenantDisabled(TickwheelError):
    """The tenant is disabled: no request of it is served, and its runs are held back."""

    code = "tenant_disabled"


class ConfigError(TickwheelError):
    """Settings are wrong; every problem names its setting."""

    code = "config"

    def __init__(self, problems: list[FieldProblem]) -> None:
        super().__init__("\n".join(f"{p.field}: {p.message}" for p in problems))
        self.problems = problems
