"""What tokens, tenants, limits and the audit log cost: a server without against a server with, in turn.

Both get the same jobs: webhooks with two header values to keep secret. The bare server asks nobody for a token.
The secured one is used with the API key of a tenant whose limits are set, all beyond what is sent. Header values
are sealed on both, since there is always a key on SQLite; compare with a version without a vault to see what that
costs. Each round measures both, the order changing from round to round, each on a store of its own.
"""

import asyncio
import http.client
import secrets
import threading
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from statistics import median
from typing import Final, NamedTuple

import msgspec
import numpy as np

from tickwheel.config import Settings
from tickwheel.domain.access import Role
from tickwheel.interfaces.bench.outcome import BenchFailed, Figures
from tickwheel.interfaces.bench.poster import post_all, webhook_jobs
from tickwheel.interfaces.bench.progress import Progress
from tickwheel.interfaces.bench.server import BenchServer, bearer, wait_until_quiet
from tickwheel.interfaces.bench.singles import post_singles
from tickwheel.interfaces.bench.webhooks import Sink
from tickwheel.interfaces.bench.workloads import PAYLOAD
from tickwheel.ports.registry import Act
from tickwheel.wiring import open_api_keys, system_clock

BATCH: Final = 1_000
CONNECTIONS: Final = 4
SINGLE_CONNECTIONS: Final = 64
TENANT: Final = "bench"
LIMITS: Final = {
    "max_jobs": 100_000_000,
    "max_payload_bytes": 100_000,
    "payload_bytes_per_second": 1_000_000_000,
    "requests_per_second": 1_000_000,
    "due_per_second": 1_000_000,
}
HEADERS: Final = {"Authorization": "Bearer 0123456789abcdef0123456789abcdef", "X-Api-Key": "a-key-of-the-target"}
LATER_MS: Final = 1_800_000
"""Within the window that a server loads, whenever it started."""


class Measured(NamedTuple):
    """Rates per second, and the server's CPU per 1,000 jobs."""

    batch_jobs_per_s: float
    single_jobs_per_s: float
    webhooks_per_s: float
    cpu_s_per_1k_batch: float
    cpu_s_per_1k_webhooks: float


def secured(store: str, folder: Path, *, jobs: int, rounds: int, bar: Progress) -> Figures:
    """Medians of both kinds, and the ratios secured to bare."""
    if not store.startswith("sqlite:"):
        raise BenchFailed("it makes a store of its own for each measurement; leave --store out")
    found: dict[bool, list[Measured]] = {False: [], True: []}
    for number in range(rounds):
        for is_secured in (False, True) if number % 2 == 0 else (True, False):
            place = folder / f"round-{number}-{int(is_secured)}"
            place.mkdir()
            found[is_secured].append(_measure(f"sqlite:{place / 'store'}", place, is_secured, jobs, bar))
    figures: Figures = {"jobs": jobs, "rounds": rounds}
    for name in Measured._fields:
        bare, locked = (median(getattr(one, name) for one in found[which]) for which in (False, True))
        ratio = median(getattr(b, name) / getattr(a, name) for a, b in zip(found[False], found[True], strict=True))
        figures[f"bare_{name}"], figures[f"secured_{name}"] = round(bare, 3), round(locked, 3)
        figures[f"ratio_{name}"] = round(ratio, 3)
    return figures


def _measure(store: str, folder: Path, is_secured: bool, jobs: int, bar: Progress) -> Measured:
    admin = secrets.token_urlsafe(24) if is_secured else ""
    headers = bearer(asyncio.run(_make_key(store)) if is_secured else "")
    clock, sink = system_clock(), Sink(folder)
    try:
        with BenchServer(store, folder, token=admin) as server:
            if is_secured:
                _set_limits(server.port, bearer(admin))
            later = [clock.now_ms() + LATER_MS] * BATCH
            body = webhook_jobs(sink.endpoint, later, PAYLOAD, HEADERS)
            _post(server, [body], headers, lambda count: None)
            used_ms, began_ms = server.cpu_ms(), clock.monotonic_ms()
            created = _post(server, [body] * max(1, jobs // BATCH), headers, bar.update)
            batch_ms, batch_cpu_ms = clock.monotonic_ms() - began_ms, server.cpu_ms() - used_ms
            single = msgspec.json.encode(msgspec.json.decode(body)[0])
            began_ms = clock.monotonic_ms()
            singles = post_singles(
                server.port,
                single,
                jobs=jobs // 10,
                connections=SINGLE_CONNECTIONS,
                on_sent=lambda count: None,
                headers=headers,
            )
            single_ms = clock.monotonic_ms() - began_ms
            first_ms = clock.now_ms() + 2_000 + jobs // 20
            due = webhook_jobs(sink.endpoint, [first_ms] * BATCH, PAYLOAD, HEADERS)
            fired = _post(server, [due] * max(1, jobs // 4 // BATCH), headers, lambda count: None)
            if clock.now_ms() > first_ms - 200:
                raise BenchFailed("the machine is too slow to create that many jobs ahead of time")
            threading.Event().wait((first_ms - clock.now_ms()) / 1000)
            used_ms = server.cpu_ms()
            wait_until_quiet(server.port, armed=created + singles + BATCH, ended=fired, token=admin)
            fire_cpu_ms = server.cpu_ms() - used_ms
    finally:
        received_ms = sink.received()[:, 1]
    if len(received_ms) != fired or len(np.unique(received_ms)) == 0:
        raise BenchFailed(f"{fired} webhooks were due and {len(received_ms)} arrived")
    took_ms = max(1, int(received_ms.max()) - first_ms)
    return Measured(
        created / batch_ms * 1000,
        singles / single_ms * 1000,
        fired / took_ms * 1000,
        batch_cpu_ms / created,
        fire_cpu_ms / fired,
    )


def _post(
    server: BenchServer, bodies: Iterable[bytes], headers: Mapping[str, str], on_sent: Callable[[int], None]
) -> int:
    return post_all(server.port, bodies, connections=CONNECTIONS, on_sent=on_sent, headers=headers)


async def _make_key(store: str) -> str:
    async with open_api_keys(Settings(store=store)) as keys:
        return (await keys.create(tenant_id=TENANT, role=Role.SCHEDULER, act=Act("bench", "token.create"))).text


def _set_limits(port: int, headers: Mapping[str, str]) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    body = msgspec.json.encode({"limits": LIMITS})
    connection.request("PUT", f"/v1/tenants/{TENANT}", body, {"Content-Type": "application/json", **headers})
    response = connection.getresponse()
    answer = response.read()
    connection.close()
    if response.status not in (200, 201):
        raise BenchFailed(f"the limits were answered with {response.status}: {answer[:300].decode()}")
