"""Workers that poll the API, on the memory store, a queue in memory and a virtual clock.

`tick` does what the owner of the shards does for workers elsewhere: it claims what is due, tells of it through the
queue, and ends attempts whose lease or worker is over.
"""

import asyncio
from collections.abc import Sequence
from typing import Any

import numpy as np

from tickwheel.adapters.memory.queue import MemoryQueue
from tickwheel.adapters.memory.store import MemoryStore
from tickwheel.domain.columns import CLAIM, FLAG_LANE_MASK, ClaimVerdict
from tickwheel.domain.ids import parse_run_id, shard_of
from tickwheel.domain.job import Lane
from tickwheel.domain.run import fencing_token
from tickwheel.interfaces.http.app import build_app
from tickwheel.interfaces.http.deps import Deps
from tickwheel.ports.queue import HINT, Topic, route_of, tenant_route
from tickwheel.ports.store import Run
from tickwheel.ports.vault import NO_VAULT, Vault
from tickwheel.services.authentication import Authentication
from tickwheel.services.completion import Completions
from tickwheel.services.dead_letters import DeadLetters
from tickwheel.services.jobs import Jobs
from tickwheel.services.plans import read_spec
from tickwheel.services.reaper import Reaper
from tickwheel.services.remote.desk import WorkerDesk
from tickwheel.services.runs import Runs
from tickwheel.services.sealing import Sealing
from tickwheel.services.signing_secrets import SigningSecrets
from tickwheel.testing.seeded_randomness import SeededRandomness
from tickwheel.testing.virtual_clock import VirtualClock

from ...services.world import Events
from .asgi_client import AsgiClient, Reply
from .bound_tokens import BoundTokens
from .served import IdleOwner

LEASE_MS = 30_000
TICK_MS = 100


class PullWorld:
    """`client` talks to one API node, `other` to another one of the same store."""

    def __init__(self, *, lease_ms: int = LEASE_MS, vaults: Sequence[Vault] = (NO_VAULT, NO_VAULT)) -> None:
        """`vaults` are those of the two nodes."""
        self.lease_ms, self._vaults = lease_ms, vaults
        self.clock = VirtualClock()
        self.store = MemoryStore(self.clock)
        self.queue = MemoryQueue(self.clock, visible_again_ms=30_000)
        self.events = Events()
        self.desks: list[WorkerDesk] = []
        self.with_own: set[str] = set()  # tenants that have workers of their own
        self._sequence = 0
        self._completions = Completions(
            ledger=self.store,
            clock=self.clock,
            events=self.events,
            arm=lambda rows: None,
            on_room=lambda: None,
            on_given_up=lambda rows: None,
        )
        self.reaper = Reaper(
            store=self.store,
            completions=self._completions,
            held=set,
            adopt=lambda run, due_ms: None,
            shards=lambda: None,
            clock=self.clock,
            randomness=SeededRandomness(5),
        )
        self._tasks: list[asyncio.Task[Any]] = []

    async def open(self, *tokens: str) -> "PullWorld":
        self._epochs = await self.store.acquire("owner-1")
        self.client, self.other = self._node(*tokens), self._node(*tokens)
        self._tasks += [asyncio.create_task(self._completions.run()), asyncio.create_task(self._own())]
        return self

    def _node(self, *tokens: str) -> AsgiClient:
        randomness = SeededRandomness(len(self.desks) + 1)
        desk = WorkerDesk(
            store=self.store,
            queue=self.queue,
            clock=self.clock,
            randomness=randomness,
            events=self.events,
            arm=lambda rows: None,
            lease_length_ms=self.lease_ms,
            on_dead=self.reaper.wake,
        )
        desk.start()
        self.desks.append(desk)
        parts = (self.store, IdleOwner(), self.clock)
        self.jobs = Jobs(*parts, SeededRandomness(3))
        vault = self._vaults[len(self.desks) - 1]
        self.signing_secrets = SigningSecrets(self.store, vault, self.clock, randomness)
        self.jobs.seal_by(Sealing(vault, self.signing_secrets.knows))
        deps = Deps(
            jobs=self.jobs,
            runs=Runs(*parts),
            dead_letters=DeadLetters(*parts),
            store=self.store,
            clock=self.clock,
            metrics=lambda: b"",
            authentication=Authentication(
                self.clock, tokens=tokens, verifier=BoundTokens(), required=bool(tokens)
            ),
            workers=desk,
            registry=self.store,
            vault=vault,
            signing_secrets=self.signing_secrets,
        )
        return AsgiClient(build_app(deps), *tokens[:1])

    async def close(self) -> None:
        for desk in self.desks:
            await desk.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _own(self) -> None:
        while True:
            await self.tick()
            await self.clock.sleep_ms(TICK_MS)

    async def tick(self) -> None:
        now_ms = self.clock.now_ms()
        await self.reaper.sweep()
        timers = await self.store.load_timers(0, now_ms + 1, 1_000)
        if not len(timers):
            return
        claims = np.zeros(len(timers), dtype=CLAIM)
        for name in ("due_ms", "job_id", "scheduled_ms", "gen", "flags"):
            claims[name] = timers[name]
        works = await self.store.load_work(timers["job_id"].tolist())
        known = [work for work in works if work is not None]
        specs = [read_spec(work.spec) for work in known]
        claims["max_attempts"] = [spec.retry.max_attempts for spec in specs]
        claims["next_ms"] = -1
        for claim in claims:
            self._sequence += 1
            claim["fence"] = fencing_token(int(self._epochs[shard_of(claim["job_id"].tobytes())]), self._sequence)
        answers = await self.store.claim(claims, now_ms, 0, queued=True)
        for claim, answer, spec, work in zip(claims, answers, specs, known, strict=True):
            if answer["verdict"] == ClaimVerdict.WON:
                hint = np.zeros(1, dtype=HINT)
                for name in ("job_id", "scheduled_ms", "fence", "flags"):
                    hint[name] = claim[name]
                lane = Lane(int(claim["flags"]) & FLAG_LANE_MASK)
                route = tenant_route(
                    work.tenant_id if work.tenant_id in self.with_own else None, route_of(spec.target)
                )
                await self.queue.publish(Topic(lane, route), hint)

    async def create(self, handler: str = "work", **fields: Any) -> str:
        """A job due at once; its run's id."""
        target = {"type": "HANDLER", "name": handler}
        body = {"schedule_type": "INSTANT", "target": target, **fields}
        reply = await self.client.post("/v1/jobs", body)
        assert reply.status == 201, reply.body
        await self.clock.advance(TICK_MS)
        job_id = reply.json["job_id"]
        [run] = (await self.client.get(f"/v1/jobs/{job_id}/runs?{tenant_of(fields)}")).json["runs"]
        run_id: str = run["run_id"]
        return run_id

    async def stored(self, run_id: str, tenant_id: str = "default") -> Run:
        """As the store knows it."""
        run = await self.store.get_run(tenant_id, *parse_run_id(run_id))
        assert run is not None
        return run

    async def run(self, run_id: str) -> dict[str, Any]:
        """As the API shows it."""
        reply = await self.client.get(f"/v1/runs/{run_id}")
        assert reply.status == 200, reply.body
        run: dict[str, Any] = reply.json
        return run

    async def poll(self, client: AsgiClient | None = None, **fields: Any) -> Reply:
        """One poll; by default of an unknown worker with two slots that doesn't wait."""
        return await (client or self.client).post("/v1/workers/poll", question(**fields))

    async def take(self, client: AsgiClient | None = None, **fields: Any) -> dict[str, Any]:
        """The answer of a poll that worked."""
        reply = await self.poll(client, **fields)
        assert reply.status == 200, reply.body
        answer: dict[str, Any] = reply.json
        return answer

    async def report(self, verb: str, worker_id: str, *runs: Any, client: AsgiClient | None = None) -> list[Any]:
        """A heartbeat, complete or fail; what became of each run."""
        body = {"worker_id": worker_id, "runs": list(runs)}
        reply = await (client or self.client).post(f"/v1/workers/{verb}", body)
        assert reply.status == 200, reply.body
        answers: list[Any] = reply.json["runs"]
        return answers

    async def workers(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = (await self.client.get("/v1/workers")).json["workers"]
        return found


def question(*, me: str | None = None, free: int = 2, wait: float = 0, **fields: Any) -> dict[str, Any]:
    worker = {"name": "w"} if me is None else {"name": "w", "id": me}
    return {
        "worker": worker,
        "handlers": ["work"],
        "slots": {"total": max(2, free), "free": free},
        "wait_seconds": wait,
        **fields,
    }


def named(run: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """The run as reports name it."""
    return {"run_id": run["run_id"], "fencing_token": run["fencing_token"], **fields}


def tenant_of(fields: dict[str, Any]) -> str:
    return f"tenant_id={fields['tenant_id']}" if "tenant_id" in fields else ""
