"""The messages of etcd's v3 JSON gateway, as far as they are needed.

The gateway is gRPC spelled in JSON: bytes are base64, 64-bit integers are strings, and fields that have their
default value are left out, so a key that was never created has no `create_revision`, an empty value no `value`,
and a transaction whose condition failed no `succeeded`.
"""

from base64 import b64encode
from typing import Final

import msgspec

NOT_FOUND: Final = 5
UNAUTHENTICATED: Final = 16
INVALID_ARGUMENT: Final = 3


class KeyValue(msgspec.Struct):
    key: str
    value: str = ""
    create_revision: str = "0"
    mod_revision: str = "0"


class Header(msgspec.Struct):
    revision: str = "0"


class RangeAnswer(msgspec.Struct):
    kvs: list[KeyValue] = []


class TxnAnswer(msgspec.Struct):
    header: Header
    succeeded: bool = False


class LeaseAnswer(msgspec.Struct):
    ID: str = "0"
    TTL: str = "0"


class KeepAliveAnswer(msgspec.Struct):
    result: LeaseAnswer


class TokenAnswer(msgspec.Struct):
    token: str = ""


class Fault(msgspec.Struct):
    """The body of an error. 3.4 says `error` and `code`, later versions `message` as well."""

    code: int = 0
    error: str = ""
    message: str = ""

    @property
    def text(self) -> str:
        return self.message or self.error


def text64(data: bytes) -> str:
    """Bytes as they stand in a message."""
    return b64encode(data).decode()


def prefix_end(prefix: bytes) -> bytes:
    """The first key after all that begin with `prefix` (which doesn't end in 0xff)."""
    return prefix[:-1] + bytes([prefix[-1] + 1])
