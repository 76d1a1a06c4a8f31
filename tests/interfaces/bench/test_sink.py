"""The benchmark's receiver notes each request once, however its bytes come in."""

from array import array

import pytest

from tickwheel.interfaces.bench.sink import ANSWER, Receiver


class Transport:
    def __init__(self) -> None:
        self.written: list[bytes] = []

    def write(self, data: bytes) -> None:
        self.written.append(data)


def request(text: str, body: bytes) -> bytes:
    head = f"POST /hook HTTP/1.1\r\nHost: x\r\nX-Scheduled-At: {text}\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


REQUESTS = [
    request("2026-01-01T00:00:00.250Z", b'{"a":"\r\n\r\nX-Scheduled-At: 2030"}'),
    request("2026-01-01T00:00:01.000Z", b""),
    b"GET /hook HTTP/1.1\r\nHost: x\r\nX-Scheduled-At: 2026-01-01T00:00:02.000Z\r\n\r\n",
]
INSTANTS = [1_767_225_600_250, 1_767_225_601_000, 1_767_225_602_000]


@pytest.mark.parametrize("size", [1, 7, 64, 1_000])
def test_each_request_is_noted_and_answered_once(size: int) -> None:
    calls, transport, data = array("q"), Transport(), b"".join(REQUESTS)
    receiver = Receiver(calls)
    receiver.connection_made(transport)  # type: ignore[arg-type]
    for start in range(0, len(data), size):
        receiver.data_received(data[start : start + size])
    assert list(calls)[::2] == INSTANTS
    assert all(received_ms > instant for instant, received_ms in zip(INSTANTS, list(calls)[1::2], strict=True))
    assert transport.written == [ANSWER] * 3


def test_a_request_is_not_answered_before_its_body_is_there() -> None:
    calls, transport = array("q"), Transport()
    receiver = Receiver(calls)
    receiver.connection_made(transport)  # type: ignore[arg-type]
    receiver.data_received(REQUESTS[0][:-1])
    assert (len(calls), transport.written) == (0, [])
