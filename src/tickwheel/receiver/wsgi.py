"""A receiver as a WSGI application: to mount beside Flask, Django and their like, or to call from a view."""

from collections.abc import Callable, Iterable, Sequence
from http import HTTPStatus
from typing import Any

from tickwheel.receiver.clock import machine_s
from tickwheel.receiver.delivery import TOLERANCE_S, Headers
from tickwheel.receiver.reception import (
    BODY_LIMIT_BYTES,
    Checks,
    Connect,
    Effect,
    Reception,
    header_pairs,
    refused,
)
from tickwheel.receiver.refusals import OversizedDelivery, Reason, UnverifiedDelivery
from tickwheel.receiver.turns import Answer, Guard

_CHUNK_BYTES = 65_536


class WsgiReceiver:
    """As `WebhookReceiver`, with the same arguments, for effects that are plain functions."""

    def __init__(
        self,
        effect: Effect,
        *,
        secrets: str | Sequence[str],
        guard: Guard,
        connect: Connect,
        body_limit_bytes: int = BODY_LIMIT_BYTES,
        tolerance_s: float = TOLERANCE_S,
        now_s: Callable[[], float] = machine_s,
    ) -> None:
        self._checks = Checks(secrets, body_limit_bytes=body_limit_bytes, tolerance_s=tolerance_s, now_s=now_s)
        self._reception = Reception(effect, guard, connect, self._checks)

    def receive(self, headers: Headers, body: bytes) -> Answer:
        """What to answer to this request, for a view of your own. Errors of the effect are passed on."""
        return self._reception.receive(headers, body)

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., object]) -> Iterable[bytes]:
        """Serve one request."""
        try:
            body = self._read(environ)
        except (OversizedDelivery, UnverifiedDelivery) as refusal:
            answer = refused(refusal)
        else:
            answer = self.receive(_headers(environ), body)
        try:
            phrase = HTTPStatus(answer.status).phrase
        except ValueError:
            phrase = "Unknown"
        start_response(f"{answer.status} {phrase}", header_pairs(answer))
        return [] if environ["REQUEST_METHOD"] == "HEAD" else [answer.body]

    def _read(self, environ: dict[str, Any]) -> bytes:
        stream = environ["wsgi.input"]
        announced = environ.get("CONTENT_LENGTH") or "0"
        if not (announced.isascii() and announced.isdigit()):
            raise UnverifiedDelivery(Reason.MALFORMED_HEADER, "content-length is malformed")
        ends = environ.get("wsgi.input_terminated", False)  # then a body without a length can be read to its end
        left = self._checks.body_limit_bytes + 1 if ends else int(announced[:20])
        self._checks.check_size(0 if ends else left)
        parts = []
        while left and (part := stream.read(min(left, _CHUNK_BYTES))):
            parts.append(part)
            left -= len(part)
        body = b"".join(parts)
        self._checks.check_size(len(body))
        return body


def _headers(environ: dict[str, Any]) -> list[tuple[str, str]]:
    return [
        (name[5:].replace("_", "-"), value)
        for name, value in environ.items()
        if name.startswith("HTTP_") and isinstance(value, str)
    ]
