"""A name server on loopback that answers what the test tells it to, and a resolver that asks it.

The system's resolver can't be pointed at a port, so the test's own one speaks the few bytes of DNS (RFC 1035)
that a question for addresses needs.
"""

import asyncio
import socket
import struct
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from ipaddress import IPv4Address
from typing import cast

_HEADER = struct.Struct(">HHHHHH")
_RECORD = struct.Struct(">HHHIH")  # pointer to the name, type, class, time to live, length
_A, _IN = 1, 1
_POINTER_TO_QUESTION = 0xC00C
_ANSWER_FLAGS = 0x8180


class NameServer(asyncio.DatagramProtocol):
    """Answers each question with the addresses that `choose` gives for its number (from 0)."""

    def __init__(self, choose: Callable[[int], Sequence[str]]) -> None:
        self._choose = choose
        self.asked: list[str] = []
        self.port = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.DatagramTransport, transport)
        self.port = transport.get_extra_info("sockname")[1]

    def datagram_received(self, data: bytes, address: tuple[str, int]) -> None:
        number = len(self.asked)
        name, end = _read_name(data)
        self.asked.append(name)
        found = self._choose(number)
        (query_id, *_) = _HEADER.unpack_from(data)
        answer = _HEADER.pack(query_id, _ANSWER_FLAGS, 1, len(found), 0, 0) + data[_HEADER.size : end]
        for text in found:
            answer += _RECORD.pack(_POINTER_TO_QUESTION, _A, _IN, 0, 4) + IPv4Address(text).packed
        self._transport.sendto(answer, address)

    def resolve(self, host: str) -> Sequence[str]:
        """Blocking, from any thread but the server's: what it says about `host`."""
        labels = b"".join(bytes([len(label)]) + label.encode() for label in host.split("."))
        question = _HEADER.pack(4242, 0x0100, 1, 0, 0, 0) + labels + b"\0" + struct.pack(">HH", _A, _IN)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
            asking.settimeout(20)
            asking.connect(("127.0.0.1", self.port))
            asking.send(question)
            answer = asking.recv(4096)
        (query_id, _, _, answer_count, _, _) = _HEADER.unpack_from(answer)
        assert query_id == 4242
        _, place = _read_name(answer)
        found = []
        for _ in range(answer_count):
            *_, length = _RECORD.unpack_from(answer, place)
            place += _RECORD.size + length
            found.append(str(IPv4Address(answer[place - length : place])))
        return found


def _read_name(message: bytes) -> tuple[str, int]:
    """The name in the question, and where the question ends."""
    place, labels = _HEADER.size, []
    while length := message[place]:
        labels.append(message[place + 1 : place + 1 + length].decode())
        place += 1 + length
    return ".".join(labels), place + 1 + 4


@asynccontextmanager
async def running_name_server(choose: Callable[[int], Sequence[str]]) -> AsyncIterator[NameServer]:
    """One on a free port of loopback."""
    loop = asyncio.get_running_loop()
    transport, server = await loop.create_datagram_endpoint(
        lambda: NameServer(choose), local_addr=("127.0.0.1", 0)
    )
    try:
        yield server
    finally:
        transport.close()
