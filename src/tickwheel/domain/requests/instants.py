"""Instants as text: RFC 3339 in, RFC 3339 with milliseconds and Z out."""

import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final

from tickwheel.domain.limits import EPOCH_MS_MAX

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_FORM: Final = re.compile(
    r"(\d{4}-\d\d-\d\d)[Tt ](\d\d:\d\d:(\d\d))(?:\.(\d{1,9}))?([Zz]|[+-]\d\d:\d\d)?", re.ASCII
)
_EXAMPLE: Final = "2026-10-22T14:30:00Z"


class InstantError(ValueError):
    """Not an instant; the message says what is wrong and how to write it."""


def parse_instant(text: str) -> int:
    """UTC epoch milliseconds of an RFC 3339 text; a part below a millisecond is rounded up (never early).

    Raises `InstantError`: no offset, a leap second, before 1970, after 9999, an impossible date, any other form.
    """
    found = _FORM.fullmatch(text)
    if found is None:
        raise InstantError(f"expected an RFC 3339 instant such as {_EXAMPLE}")
    day, time_of_day, second, fraction, offset = found.groups()
    if offset is None:
        raise InstantError(f"has no offset from UTC; end it with Z or with an offset such as +02:00 ({_EXAMPLE})")
    if second == "60":
        raise InstantError("is a leap second, which has no instant of its own; use second 59 or the next minute")
    try:
        moment = datetime.fromisoformat(f"{day}T{time_of_day}{'+00:00' if offset in 'Zz' else offset}")
        since = moment - EPOCH
    except (ValueError, OverflowError) as error:
        raise InstantError(f"is not a date and time that exists ({error})") from error
    epoch_ms = since.days * 86_400_000 + since.seconds * 1000
    if fraction:
        epoch_ms -= -int(fraction.ljust(9, "0")) // 1_000_000
    if epoch_ms < 0:
        raise InstantError("lies before 1970-01-01T00:00:00Z")
    if epoch_ms > EPOCH_MS_MAX:  # it was rounded up
        raise InstantError("lies after 9999-12-31T23:59:59.999Z")
    return epoch_ms


def format_instant(epoch_ms: int) -> str:
    """Such as `2026-10-01T02:00:00.000Z`."""
    return f"{_second(epoch_ms // 1000)}.{epoch_ms % 1000:03d}Z"


@lru_cache(maxsize=4_096)
def _second(epoch_s: int) -> str:
    """Many instants of an answer, and of new jobs, lie in few seconds."""
    return f"{EPOCH + timedelta(seconds=epoch_s):%Y-%m-%dT%H:%M:%S}"
