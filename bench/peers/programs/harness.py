"""The workloads for peers in Python, as `harness.mjs` has them for peers on Node.js.

A peer gives a `Producer` and a `Worker`. The main process creates the jobs and starts the workers as processes of
their own. Each of those appends (number, start - due in ms) as two 64-bit floats per call to a file of its own in
`Config.folder`, from which the driver checks the whole.
"""

import asyncio
import itertools
import json
import os
import sys
import time
from array import array
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol, TypeVar

RECORD_BYTES: Final = 16
FLUSH_S: Final = 0.02
CHECK_S: Final = 0.05
SLICE_MS: Final = 100
BATCHES_IN_FLIGHT: Final = 4
SINGLES_IN_FLIGHT: Final = 64
HOUR_MS: Final = 3_600_000
STOP_S: Final = 20

BEGAN_S: Final = time.monotonic()
Item = TypeVar("Item")


class Job(NamedTuple):
    """`due_ms` None: at once."""

    n: int
    due_ms: int | None
    pad: str


@dataclass(frozen=True)
class Config:
    """What the driver asks for; see `bench/peers/step.py`."""

    workload: str
    url: str
    folder: str
    jobs: int
    batch: int
    workers: int
    rate: int
    lead_ms: int
    limit_s: int
    pad: str
    settings: dict[str, Any]


class Producer(Protocol):
    """Creates jobs; `left` counts those in the store that have not ended."""

    async def add_batch(self, jobs: Sequence[Job]) -> None: ...
    async def add_one(self, job: Job) -> None: ...
    async def left(self) -> int: ...
    async def close(self) -> None: ...


class Worker(Protocol):
    """`stop`: take nothing more, end what runs, write all."""

    async def start(self) -> None: ...
    async def stop(self) -> None: ...


Call = Callable[[int, float | None], None]
"""Notes one call: the job's number, when it was due (epoch ms; None = at once)."""


@dataclass(frozen=True)
class Peer:
    """How to make its two sides."""

    producer: Callable[[Config], Awaitable[Producer]]
    worker: Callable[[Config, Call], Awaitable[Worker]]


class Notes:
    """The calls of this process, appended to its file in batches."""

    def __init__(self, folder: str) -> None:
        self._path = Path(folder, f"calls-{os.getpid()}.bin")
        self._noted = array("d")

    def call(self, n: int, due_ms: float | None) -> None:
        """Note a call that starts now."""
        self._noted.append(n)
        self._noted.append(0 if due_ms is None else time.time() * 1000 - due_ms)

    def flush(self) -> None:
        """Write what was noted."""
        noted, self._noted = self._noted, array("d")
        if not noted:
            return
        with self._path.open("ab") as file:
            file.write(noted.tobytes())

    async def flush_forever(self) -> None:
        """Write every now and then."""
        while True:
            await asyncio.sleep(FLUSH_S)
            self.flush()


def main(peer: Peer, run: Callable[[Any], Any] = asyncio.run) -> None:
    """Be what the command line says: `main CONFIG` or `worker CONFIG`."""
    role, config = sys.argv[1], Config(**json.loads(sys.argv[2]))
    run(_work(peer, config) if role == "worker" else _produce(peer, config))
    sys.stdout.flush()
    os._exit(0)  # whatever threads a peer has left behind


def _say(**line: Any) -> None:
    print(json.dumps(line), flush=True)


async def _work(peer: Peer, config: Config) -> None:
    notes = Notes(config.folder)
    flushing = asyncio.create_task(notes.flush_forever())
    worker = await peer.worker(config, notes.call)
    _say(mark="ready")
    await asyncio.to_thread(sys.stdin.readline)
    await worker.start()
    await asyncio.to_thread(sys.stdin.readline)
    with suppress(TimeoutError):
        await asyncio.wait_for(worker.stop(), STOP_S)
    flushing.cancel()
    notes.flush()


class _Workers:
    """The worker processes of one workload."""

    def __init__(self, processes: Sequence[asyncio.subprocess.Process]) -> None:
        self._processes = processes

    def start(self) -> None:
        self._order(b"start\n")

    async def stop(self) -> None:
        self._order(b"stop\n")
        await asyncio.gather(*(process.wait() for process in self._processes))

    def _order(self, line: bytes) -> None:
        for process in self._processes:
            assert process.stdin is not None
            process.stdin.write(line)


async def _start_workers(config: Config) -> _Workers:
    command = [*sys.orig_argv[:-2], "worker", sys.argv[2]]
    pipe = asyncio.subprocess.PIPE
    processes = [
        await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe) for _ in range(config.workers)
    ]
    for process in processes:
        assert process.stdout is not None
        if not await process.stdout.readline():
            raise RuntimeError("a worker ended before it was ready")
    return _Workers(processes)


async def _produce(peer: Peer, config: Config) -> None:
    workloads = {"drain": _drain, "ingest": _ingest, "single": _single, "burst": _burst, "steady": _steady}
    producer = await peer.producer(config)
    _say(**await workloads[config.workload](producer, config))
    await producer.close()


def _batches(config: Config, due_ms: int | None, count: int | None = None) -> Iterator[list[Job]]:
    numbers = iter(range(config.jobs if count is None else count))
    while part := list(itertools.islice(numbers, config.batch)):
        yield [Job(n, due_ms, config.pad) for n in part]


async def _add_all(items: Iterable[Item], add: Callable[[Item], Awaitable[None]], in_flight: int) -> None:
    waiting = iter(items)

    async def lane() -> None:
        for item in waiting:
            await add(item)

    await asyncio.gather(*(lane() for _ in range(in_flight)))


def _called(folder: str) -> int:
    return sum(path.stat().st_size for path in Path(folder).glob("calls-*")) // RECORD_BYTES


async def _until_done(producer: Producer, config: Config) -> None:
    while _called(config.folder) < config.jobs or await producer.left() > 0:
        if time.monotonic() > BEGAN_S + config.limit_s:
            raise RuntimeError(f"{_called(config.folder)} of {config.jobs} jobs in {config.limit_s} s")
        await asyncio.sleep(CHECK_S)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


async def _drain(producer: Producer, config: Config) -> dict[str, float]:
    await _add_all(_batches(config, None), producer.add_batch, BATCHES_IN_FLIGHT)
    workers = await _start_workers(config)
    _say(mark="loaded")
    await asyncio.to_thread(sys.stdin.readline)
    began = time.monotonic()
    workers.start()
    await _until_done(producer, config)
    took_ms = (time.monotonic() - began) * 1000
    _say(mark="done")
    await asyncio.to_thread(sys.stdin.readline)
    await workers.stop()
    return {"took_ms": took_ms}


async def _ingest(producer: Producer, config: Config) -> dict[str, float]:
    due_ms = _now_ms() + HOUR_MS
    await producer.add_batch(next(_batches(config, due_ms, config.batch)))
    began = time.monotonic()
    await _add_all(_batches(config, due_ms), producer.add_batch, BATCHES_IN_FLIGHT)
    took_ms = (time.monotonic() - began) * 1000
    return {"took_ms": took_ms, "stored": await producer.left() - config.batch}


async def _single(producer: Producer, config: Config) -> dict[str, float]:
    due_ms = _now_ms() + HOUR_MS
    jobs = [Job(n, due_ms, config.pad) for n in range(config.jobs)]
    await producer.add_one(jobs[0])
    began = time.monotonic()
    await _add_all(jobs, producer.add_one, SINGLES_IN_FLIGHT)
    took_ms = (time.monotonic() - began) * 1000
    return {"took_ms": took_ms, "stored": await producer.left() - 1}


async def _burst(producer: Producer, config: Config) -> dict[str, float]:
    workers = await _start_workers(config)
    workers.start()
    due_ms = _now_ms() + config.lead_ms
    await _add_all(_batches(config, due_ms), producer.add_batch, BATCHES_IN_FLIGHT)
    if _now_ms() > due_ms - 1_000:
        raise RuntimeError("creating the jobs took until they were due")
    await _until_done(producer, config)
    await workers.stop()
    return {}


async def _steady(producer: Producer, config: Config) -> dict[str, float]:
    workers = await _start_workers(config)
    workers.start()
    first_ms, size = _now_ms() + config.lead_ms + 500, config.rate * SLICE_MS // 1000
    for start in range(0, config.jobs, size):
        numbers = range(start, min(start + size, config.jobs))
        due = [Job(n, first_ms + n * 1000 // config.rate, config.pad) for n in numbers]
        await asyncio.sleep(max(0, first_ms + start * 1000 // config.rate - config.lead_ms - _now_ms()) / 1000)
        await producer.add_batch(due)
    await _until_done(producer, config)
    await workers.stop()
    return {}
