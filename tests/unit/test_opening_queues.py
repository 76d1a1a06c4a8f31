"""Which queue a URL names, and what is said where its driver is missing."""

import sys
from contextlib import aclosing

import pytest

from tickwheel.adapters.memory.queue import MemoryQueue
from tickwheel.adapters.postgresql.queue import PostgresQueue
from tickwheel.adapters.redis.queue import RedisQueue
from tickwheel.adapters.system import SystemClock
from tickwheel.config import Settings
from tickwheel.domain.errors import ConfigError
from tickwheel.wiring.queues import open_queue, queue_url

STORE = "postgresql://app@127.0.0.1:1/jobs"


@pytest.mark.parametrize(
    ("given", "url"),
    [
        (Settings(), "memory:"),
        (Settings(store="sqlite:somewhere"), "memory:"),
        (Settings(store=STORE), STORE),
        (Settings(store=STORE, queue="redis://cache"), "redis://cache"),
    ],
)
def test_the_queue_goes_with_the_store_unless_it_is_named(given: Settings, url: str) -> None:
    assert queue_url(given) == url


@pytest.mark.parametrize(
    ("url", "kind"),
    [
        ("memory:", MemoryQueue),
        (STORE, PostgresQueue),
        ("postgres://app@127.0.0.1:1/jobs", PostgresQueue),
        ("redis://127.0.0.1:1", RedisQueue),
        ("rediss://127.0.0.1:1", RedisQueue),
        ("redis+cluster://127.0.0.1:1,127.0.0.1:2", RedisQueue),
        ("rediss+cluster://127.0.0.1:1", RedisQueue),
    ],
)
async def test_the_scheme_says_which(url: str, kind: type) -> None:
    async with aclosing(open_queue(url, Settings(), SystemClock())) as queue:
        assert isinstance(queue, kind)


@pytest.mark.parametrize(
    ("url", "module", "remedy"),
    [
        ("redis://127.0.0.1", "redis", "pip install 'tickwheel[redis]'"),
        ("redis+cluster://127.0.0.1", "redis", "pip install 'tickwheel[redis]'"),
        (STORE, "psycopg", "pip install 'tickwheel[postgresql]'"),
    ],
)
def test_a_missing_driver_is_told_with_its_remedy(
    url: str, module: str, remedy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ConfigError) as caught:
        open_queue(url, Settings(), SystemClock())
    [problem] = caught.value.problems
    assert (problem.field, problem.code) == ("queue", "missing_extra")
    assert remedy in problem.message


@pytest.mark.parametrize("url", ["", "kafka://b", "redis://u:s3cret@h:x"])
def test_what_names_no_queue_is_refused_without_its_password(url: str) -> None:
    with pytest.raises(ConfigError) as caught:
        open_queue(url, Settings(), SystemClock())
    [problem] = caught.value.problems
    assert problem.field == "queue"
    assert "s3cret" not in problem.message
