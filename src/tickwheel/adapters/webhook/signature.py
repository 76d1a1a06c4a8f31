"""Signatures of the Standard Webhooks specification, version 1 (symmetric).

Signed is `{webhook-id}.{webhook-timestamp}.{body}` with HMAC-SHA256. While keys rotate, the header holds one
signature per key; a receiver accepts the request when any of them fits.
"""

import base64
import hmac
from collections.abc import Sequence

from tickwheel.domain.signing_key import parse_secret

__all__ = ["parse_secret", "sign"]


def sign(keys: Sequence[bytes], message_id: str, timestamp_s: int, body: bytes) -> str:
    """The value of the `webhook-signature` header: one `v1,<base64>` per key, separated by spaces."""
    message = b"%b.%d.%b" % (message_id.encode(), timestamp_s, body)
    return " ".join("v1," + base64.b64encode(hmac.digest(key, message, "sha256")).decode("ascii") for key in keys)
