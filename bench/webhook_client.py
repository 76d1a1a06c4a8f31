"""How much the webhook executor costs: POSTs to a receiver in another process.

    python bench/webhook_client.py --posts 20000

The last line is one flat JSON object: `posts_per_s`, `cpu_us_per_post` (this process only), `failed`.
"""

import argparse
import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import cast

import uvloop

from tickwheel.adapters.system import SystemClock
from tickwheel.adapters.webhook.address import AddressPolicy
from tickwheel.adapters.webhook.executor import WebhookExecutor
from tickwheel.adapters.webhook.settings import WebhookSettings
from tickwheel.domain.job import Target, TargetType
from tickwheel.domain.outcome import Outcome, OutcomeClass
from tickwheel.ports.executor import Work

ANSWER = b"HTTP/1.1 204 No Content\r\nServer: sink\r\nDate: Thu, 01 Jan 2026 00:00:00 GMT\r\n\r\n"
PAYLOAD = b'{"filler":"' + b"x" * 487 + b'"}'


class SinkProtocol(asyncio.Protocol):
    """Answers 204 to every complete request; knows just enough HTTP for that."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._buffer = b""

    def data_received(self, data: bytes) -> None:
        buffer = self._buffer + data
        while (end := buffer.find(b"\r\n\r\n")) >= 0:
            start = buffer.find(b"Content-Length: ") + len(b"Content-Length: ")
            size = end + 4 + int(buffer[start : buffer.find(b"\r", start)])
            if len(buffer) < size:
                break
            buffer = buffer[size:]
            self._transport.write(ANSWER)
        self._buffer = buffer


async def serve_sink() -> None:
    server = await asyncio.get_running_loop().create_server(SinkProtocol, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


class Load:
    """Keeps `width` attempts in flight until `posts` have ended."""

    def __init__(self, endpoint: str, posts: int, width: int, keys: Sequence[bytes]) -> None:
        settings = WebhookSettings(addresses=AddressPolicy(allow_loopback=True), signing_keys=keys)
        self._executor = WebhookExecutor(self._report, SystemClock(), settings)
        self._target = Target(type=TargetType.HTTP_WEBHOOK, endpoint=endpoint, timeout_ms=10_000)
        self._unstarted, self._open, self._width = posts, posts, width
        self._done = asyncio.Event()
        self.failed = 0

    def _work(self, slot: int) -> Work:
        number = self._unstarted
        self._unstarted -= 1
        return Work(
            slot=slot,
            job_id=number.to_bytes(16, "big"),
            scheduled_ms=1_791_000_000_000 + number,
            fence=(1 << 32) | number,
            attempt=1,
            max_attempts=4,
            lane=2,
            tenant_id="default",
            target=self._target,
            payload=PAYLOAD,
            idempotency_key=None,
        )

    def _report(self, slots: Sequence[int], outcomes: Sequence[Outcome]) -> None:
        self.failed += sum(outcome.outcome_class is not OutcomeClass.SUCCESS for outcome in outcomes)
        self._open -= len(slots)
        self._executor.start([self._work(slot) for slot in slots[: self._unstarted]])
        if not self._open:
            self._done.set()

    async def run(self) -> None:
        self._executor.start([self._work(slot) for slot in range(min(self._width, self._unstarted))])
        await self._done.wait()
        await self._executor.aclose(0)


async def measure(port: int, posts: int, width: int, keys: Sequence[bytes]) -> dict[str, float]:
    load = Load(f"http://127.0.0.1:{port}/hook", posts, width, keys)
    began_s, began_cpu_s = time.perf_counter(), time.process_time()
    await load.run()
    took_s, took_cpu_s = time.perf_counter() - began_s, time.process_time() - began_cpu_s
    return {
        "posts": posts,
        "posts_per_s": round(posts / took_s),
        "cpu_us_per_post": round(took_cpu_s / posts * 1e6, 1),
        "failed": load.failed,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--posts", type=int, default=20_000)
    parser.add_argument("--width", type=int, default=64, help="attempts in flight")
    parser.add_argument("--sign", action="store_true", help="sign every request")
    parser.add_argument("--sink", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.sink:
        uvloop.run(serve_sink())
        return
    keys = (b"k" * 32,) if arguments.sign else ()
    sink = subprocess.Popen([sys.executable, __file__, "--sink"], stdout=subprocess.PIPE, text=True)
    try:
        assert sink.stdout is not None
        port = int(sink.stdout.readline())
        print(json.dumps(uvloop.run(measure(port, arguments.posts, arguments.width, keys))))
    finally:
        sink.kill()
        sink.communicate()


if __name__ == "__main__":
    main()
