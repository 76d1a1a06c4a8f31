"""The Idempotency-Key header."""

from typing import Final

from tickwheel.interfaces.http.resource import Call
from tickwheel.interfaces.http.wire import Refusal

_HEADER: Final = b"idempotency-key"


def header_key(call: Call) -> str | None:
    """The key in the header, None without one. The header twice with different keys is refused."""
    value = call.headers.get(_HEADER)
    if value is None:
        return None
    if any(other != value for other in call.repeated(_HEADER)):
        raise Refusal(
            "idempotency_key_mismatch", "The Idempotency-Key header is there twice, with different keys."
        )
    return value.decode("latin-1")
