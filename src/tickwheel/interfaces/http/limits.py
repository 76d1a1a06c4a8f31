"""Reading a request body within bounds: how long, which type, and whole or not at all.

A body is read piece by piece and given up as soon as it is too long, so a client can't make the server hold more
than the bound. How *slowly* it may come is the connection's business (see `server.py`).
"""

from collections.abc import Mapping
from typing import Final

from starlette.types import Receive

from tickwheel.interfaces.http.wire import Refusal

_UTF8_NAMES: Final = frozenset({"utf-8", "utf8", '"utf-8"', '"utf8"'})


class ClientGone(Exception):
    """The client closed the connection before its request was whole: nobody is left to answer."""


def require_json(headers: Mapping[bytes, bytes]) -> None:
    """Refuse a body that doesn't call itself JSON in UTF-8, or that is compressed."""
    content_type = headers.get(b"content-type")
    if content_type != b"application/json":
        _check_media_type(content_type)
    if headers.get(b"content-encoding", b"identity").lower() != b"identity":
        raise Refusal("unsupported_media_type", "Content-Encoding is not supported: send the body as it is.")


def _check_media_type(content_type: bytes | None) -> None:
    if content_type is None:
        raise Refusal("unsupported_media_type", "Content-Type is missing; it must be application/json.")
    text = content_type.decode("latin-1")
    essence, _, parameters = text.partition(";")
    essence = essence.strip().lower()
    is_json = essence == "application/json" or (essence.startswith("application/") and essence.endswith("+json"))
    if not is_json:
        raise Refusal("unsupported_media_type", f"Content-Type is {text[:80]!r}; it must be application/json.")
    for parameter in parameters.split(";"):
        name, _, value = parameter.partition("=")
        if name.strip().lower() == "charset" and value.strip().lower() not in _UTF8_NAMES:
            raise Refusal("unsupported_media_type", "JSON is UTF-8: leave the charset out, or name utf-8.")


async def read_body(receive: Receive, headers: Mapping[bytes, bytes], limit_bytes: int) -> bytes:
    """The whole body; raises `Refusal` if it is too long and `ClientGone` if it never came."""
    announced = headers.get(b"content-length")
    if announced is not None and announced.isdigit() and int(announced[:20]) > limit_bytes:
        raise _too_large(limit_bytes)
    message = await receive()
    if message["type"] != "http.request":
        raise ClientGone
    body: bytes = message.get("body", b"")
    if not message.get("more_body", False) and len(body) <= limit_bytes:
        return body
    return await _read_pieces(receive, body, limit_bytes)


async def _read_pieces(receive: Receive, first: bytes, limit_bytes: int) -> bytes:
    pieces = bytearray(first)
    while len(pieces) <= limit_bytes:
        message = await receive()
        if message["type"] != "http.request":
            raise ClientGone
        pieces += message.get("body", b"")
        if not message.get("more_body", False) and len(pieces) <= limit_bytes:
            return bytes(pieces)
    raise _too_large(limit_bytes)


def _too_large(limit_bytes: int) -> Refusal:
    return Refusal("body_too_large", f"The body is longer than the {limit_bytes} bytes that this endpoint reads.")
