"""A whole server on PostgreSQL with every use of Redis, which is flushed, killed and stopped under it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import urlopen

import pytest

from ..interfaces.cli.server_process import ServerProcess, wait_until
from ..servers.redis import RedisServer
from .crash.api import Api

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("processes")]

FAR_S = 600


@pytest.fixture
def redis() -> Iterator[RedisServer]:
    with RedisServer() as server:
        yield server


def create(api: Api, key: str) -> tuple[int, Any]:
    body = {
        "schedule_type": "ONE_OFF",
        "delay_seconds": FAR_S,
        "target": {"endpoint": "https://example.com/"},
        "idempotency_key": key,
    }
    status, answer = api.call("POST", "/v1/jobs", body)
    return status, answer.get("job_id")


def metric(server: ServerProcess, name: str) -> float:
    with urlopen(f"{server.url}/metrics") as answer:
        lines = answer.read().decode().splitlines()
    return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(name))


def test_a_server_with_every_use_of_redis_minds_nothing_that_happens_to_it(
    tmp_path: Path, blank_postgresql: str, redis: RedisServer
) -> None:
    flags = [word for name in ("buffer", "key-cache", "lease-cache", "queue") for word in (f"--{name}", redis.url)]
    flags += ["--store", blank_postgresql, "--buffer-near-seconds", "30"]
    with ServerProcess(*flags, folder=tmp_path, command="serve") as server:
        port = urlsplit(server.url).port
        assert port is not None
        with Api(port) as api:
            first = {f"k{number}": create(api, f"k{number}") for number in range(20)}
            assert {status for status, _ in first.values()} == {201}
            wait_until(lambda: metric(server, "tickwheel_buffered_timers") == 20, within_s=30, why="all are put")
            assert metric(server, "tickwheel_armed_timers") == 0
            names = {name.split(b":")[2] for name in redis.ask("KEYS", "tickwheel:tickwheel:*")}
            assert {b"schedule", b"key"} <= names
            assert {key: create(api, key) for key in first} == first, "repeated"
            redis.ask("FLUSHALL")
            assert {key: create(api, key) for key in first} == first, "repeated after a flush"
            redis.kill()
            first |= {f"l{number}": create(api, f"l{number}") for number in range(5)}
            assert {key: create(api, key) for key in first} == first, "repeated while it is away"
            wait_until(
                lambda: metric(server, "tickwheel_buffer_failures_total") > 0, within_s=30, why="it is told"
            )
            redis.start()
            assert {key: create(api, key) for key in first} == first, "repeated when it is back, empty"
            redis.freeze()
            server.terminate()
            assert server.exit_code(within_s=30) == 0
