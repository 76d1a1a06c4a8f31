"""Opaque cursors: the sort key of the last item seen, so that inserts never shift a page.

A cursor belongs to one list: of one kind, one tenant and one set of filters. It holds a digest of these, so one
that another tenant was given, or that was made for other filters, is refused.
"""

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from hashlib import blake2b
from typing import Any, Final

import msgspec

from tickwheel.domain.errors import BadCursor

_ID: Final = re.compile(r"[0-9a-f]{32}")
_DIGEST_BYTES: Final = 6


def bound_kind(kind: str, tenant_id: str, *filters: object) -> str:
    """The kind of a list, for `write_cursor` and `read_cursor`, as this tenant sees it through these filters."""
    text = repr((kind, tenant_id, *filters)).encode(errors="surrogatepass")
    return f"{kind}:{urlsafe_b64encode(blake2b(text, digest_size=_DIGEST_BYTES).digest()).decode()}"


def write_cursor(kind: str, *key: int | bytes) -> str:
    """A cursor of the list `kind` (`bound_kind`)."""
    parts = [part.hex() if isinstance(part, bytes) else part for part in key]
    return urlsafe_b64encode(msgspec.json.encode([kind, *parts])).decode().rstrip("=")


def read_cursor(kind: str, text: str, types: tuple[type, ...]) -> list[Any]:
    """The key in a cursor of that list, with values of these types (int or job id); raises `BadCursor`."""
    try:
        raw = urlsafe_b64decode(text.encode("ascii") + b"=" * (-len(text) % 4))
        found, *parts = msgspec.json.decode(raw, type=list[int | str])
        if found != kind or len(parts) != len(types):
            raise BadCursor("the cursor belongs to another list")
        return [_read(part, wanted) for part, wanted in zip(parts, types, strict=True)]
    except (ValueError, msgspec.MsgspecError):
        raise BadCursor("the cursor was not made by this server") from None


def _read(part: int | str, wanted: type) -> int | bytes:
    if wanted is bytes and isinstance(part, str) and _ID.fullmatch(part):
        return bytes.fromhex(part)
    if wanted is int and isinstance(part, int) and -(1 << 63) <= part < 1 << 63:
        return part
    raise BadCursor("the cursor was not made by this server")
