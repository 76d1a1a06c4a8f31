"""Why a delivery is turned away, and with which status.

Tickwheel retries after 425 and gives a run up after 400, 401, 409 and 413. So 425 stands where the next attempt
may well fit: it carries a new timestamp and a higher token.
"""

from enum import StrEnum
from typing import Final

RETRY_AFTER_S: Final = 1


class Reason(StrEnum):
    """What is wrong with a delivery."""

    MISSING_HEADER = "missing_header"
    REPEATED_HEADER = "repeated_header"
    MALFORMED_HEADER = "malformed_header"
    CONTRADICTION = "contradiction"  # a header says something else than the signed run id
    TOO_OLD = "too_old"
    TOO_NEW = "too_new"
    WRONG_SIGNATURE = "wrong_signature"
    BODY_TOO_LARGE = "body_too_large"
    STALE = "stale"
    IN_PROGRESS = "in_progress"


_STATUSES: Final = {
    Reason.TOO_OLD: 425,
    Reason.TOO_NEW: 425,
    Reason.WRONG_SIGNATURE: 401,
    Reason.BODY_TOO_LARGE: 413,
    Reason.STALE: 409,
    Reason.IN_PROGRESS: 425,
}


class RefusedDelivery(Exception):
    """A delivery that must have no effect here.

    `status` is the HTTP status to answer, `retry_after_s` a length in seconds for `Retry-After`, or None. The text
    holds no secret, no signature and nothing of the body, so it may be the answer.
    """

    def __init__(self, reason: Reason, text: str, retry_after_s: int | None = None) -> None:
        super().__init__(text)
        self.reason = reason
        self.status = _STATUSES.get(reason, 400)
        self.retry_after_s = retry_after_s


class UnverifiedDelivery(RefusedDelivery):
    """It isn't proved that Tickwheel has sent this, and just now."""


class OversizedDelivery(RefusedDelivery):
    """The body is larger than this receiver takes."""

    def __init__(self, limit_bytes: int) -> None:
        super().__init__(Reason.BODY_TOO_LARGE, f"the body is larger than {limit_bytes} bytes")


class StaleDelivery(RefusedDelivery):
    """A later attempt of the run was here already; this one was given up by Tickwheel long ago."""

    def __init__(self, token: int, seen_token: int | None = None) -> None:
        seen = "" if seen_token is None else f": {seen_token} was here before"
        super().__init__(Reason.STALE, f"the fencing token {token} is stale{seen}")


class DeliveryInProgress(RefusedDelivery):
    """Another delivery of the run is being worked on. Never answer 2xx to this: that one may still fail."""

    def __init__(self, retry_after_s: int = RETRY_AFTER_S) -> None:
        super().__init__(Reason.IN_PROGRESS, "another delivery of this run is in progress", retry_after_s)
