"""A peer in a file: each job is a line, and one worker calls them all. The setting `left` is what `left` says."""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path

from bench.peers.programs.harness import Call, Config, Job, Peer, main


class Producer:
    def __init__(self, config: Config) -> None:
        self._config, self._path = config, Path(config.folder, "jobs")

    async def add_batch(self, jobs: Sequence[Job]) -> None:
        with self._path.open("a") as file:
            file.writelines(json.dumps(job) + "\n" for job in jobs)

    async def add_one(self, job: Job) -> None:
        await self.add_batch([job])

    async def left(self) -> int:
        if "left" in self._config.settings:
            return int(self._config.settings["left"])
        return len(self._path.read_text().splitlines())

    async def close(self) -> None:
        """Nothing is open."""


class Worker:
    def __init__(self, config: Config, call: Call) -> None:
        self._path, self._call = Path(config.folder, "jobs"), call

    async def start(self) -> None:
        for line in await asyncio.to_thread(lambda: self._path.read_text().splitlines()):
            job = Job(*json.loads(line))
            self._call(job.n, job.due_ms)

    async def stop(self) -> None:
        """It has ended."""


async def producer(config: Config) -> Producer:
    return Producer(config)


async def worker(config: Config, call: Call) -> Worker:
    return Worker(config, call)


if __name__ == "__main__":
    main(Peer(producer, worker))
