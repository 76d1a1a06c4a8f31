"""The messages of Consul's HTTP API, as far as they are needed. Values are base64, revisions are numbers."""

from base64 import b64encode
from typing import Final

import msgspec

CONFLICT: Final = 409
"""A transaction was rolled back; nothing was written."""
NOT_FOUND: Final = 404
INVALID_SESSION: Final = "invalid session"


class Pair(msgspec.Struct):
    Key: str
    CreateIndex: int
    ModifyIndex: int
    Value: str | None = None


class Result(msgspec.Struct):
    KV: Pair | None = None


class Failure(msgspec.Struct):
    What: str = ""


class TxnAnswer(msgspec.Struct):
    Results: list[Result] | None = None
    Errors: list[Failure] | None = None


class SessionAnswer(msgspec.Struct):
    ID: str


def operation(verb: str, key: str, value: bytes | None = None, **others: object) -> dict[str, object]:
    """One step of a transaction."""
    fields: dict[str, object] = {"Verb": verb, "Key": key, **others}
    if value is not None:
        fields["Value"] = b64encode(value).decode()
    return {"KV": fields}
