"""If-Match: change a job only if it is still as it was read."""

import re
from typing import Final

from tickwheel.domain.errors import FieldProblem, InvalidRequest
from tickwheel.interfaces.http.resource import Call

_HEADER: Final = b"if-match"
_ETAG: Final = re.compile(r'(?:W/)?"(\d{1,15})"', re.ASCII)


def expected_version(call: Call) -> int | None:
    """The version in If-Match; None without the header or with `*`, which any existing job matches."""
    value = call.headers.get(_HEADER)
    if value is None or value.strip() == b"*":
        return None
    found = _ETAG.fullmatch(value.decode("latin-1").strip())
    if found is None:
        raise InvalidRequest([FieldProblem("If-Match", 'must be one ETag as it was answered, such as "3", or *')])
    return int(found[1])


def refuse_precondition(call: Call) -> None:
    """Refuse If-Match where it can't be kept: ignoring it would do what the caller wanted to prevent."""
    if _HEADER in call.headers:
        raise InvalidRequest([FieldProblem("If-Match", "is not supported here; leave it out", "conflict")])
