"""Signatures of the Standard Webhooks specification, version 1 (symmetric).

Signed is `{webhook-id}.{webhook-timestamp}.{body}` with HMAC-SHA256. While keys rotate, the header holds one
signature per key; a receiver accepts the request when any of them fits.
"""

import base64
import binascii
import hmac
from collections.abc import Sequence
from typing import Final

SCHEME: Final = "whsec_"
_KEY_BYTES_MIN: Final = 24
_KEY_BYTES_MAX: Final = 64


def parse_secret(text: str) -> bytes:
    """The key in a `whsec_<base64>` secret (24 to 64 bytes). Raises ValueError without quoting the secret."""
    try:
        key = base64.b64decode(text.removeprefix(SCHEME), validate=True)
    except (binascii.Error, ValueError):
        raise ValueError(f"a signing secret is base64 text, with or without {SCHEME} before it") from None
    if not _KEY_BYTES_MIN <= len(key) <= _KEY_BYTES_MAX:
        raise ValueError(f"a signing secret holds {_KEY_BYTES_MIN} to {_KEY_BYTES_MAX} bytes")
    return key


def sign(keys: Sequence[bytes], message_id: str, timestamp_s: int, body: bytes) -> str:
    """The value of the `webhook-signature` header: one `v1,<base64>` per key, separated by spaces."""
    message = b"%b.%d.%b" % (message_id.encode(), timestamp_s, body)
    return " ".join("v1," + base64.b64encode(hmac.digest(key, message, "sha256")).decode("ascii") for key in keys)
