"""The whole API over a real firing side, the memory store and a virtual clock; targets do as they are told."""

from typing import Any

from tickwheel.domain.job import Target
from tickwheel.interfaces.http.app import build_app
from tickwheel.interfaces.http.deps import Deps
from tickwheel.services.api_keys import ApiKeys
from tickwheel.services.authentication import Authentication
from tickwheel.services.dead_letters import DeadLetters
from tickwheel.services.explanations import Explanations
from tickwheel.services.jobs import Jobs
from tickwheel.services.quotas import Quotas
from tickwheel.services.runs import Runs
from tickwheel.services.scheduler import Scheduler
from tickwheel.services.tenants import Tenants
from tickwheel.testing.seeded_randomness import SeededRandomness

from ...planted import SECRET_HEADERS
from ...services.world import World
from .asgi_client import AsgiClient, Reply

ENDPOINT = "https://example.com/hook"
TARGET = {"endpoint": ENDPOINT, "headers": SECRET_HEADERS}


class HttpWorld(World):
    """`client` talks to the API; `clock.advance` lets time pass, and what is due run."""

    scheduler: Scheduler
    client: AsgiClient
    deps: Deps
    keys: ApiKeys
    tenants: Tenants
    quotas: Quotas

    async def open(self, *tokens: str) -> "HttpWorld":
        self.tenants = Tenants(self.store, self.clock)
        await self.tenants.refresh()
        self.scheduler = await self.start()
        self.scheduler.follow(self.tenants)
        deps = (self.store, self.scheduler, self.clock)
        self.keys = ApiKeys(self.store, self.clock, SeededRandomness(9))
        self.quotas = Quotas(self.tenants, self.store, self.clock)
        jobs = Jobs(*deps, SeededRandomness(3))
        jobs.limit_by(self.quotas)
        self.deps = Deps(
            jobs=jobs,
            runs=Runs(*deps),
            dead_letters=DeadLetters(*deps),
            store=self.store,
            clock=self.clock,
            metrics=lambda: b"# HELP up x\nup 1\n",
            authentication=Authentication(self.clock, tokens=tokens, keys=self.keys),
            waits_for=self._waits_for,
            api_keys=self.keys,
            registry=self.store,
            tenants=self.tenants,
            quotas=self.quotas,
            explanations=Explanations(self.store, self.clock, self._waits_for),
        )
        app = build_app(self.deps)
        self.app = app
        self.client = AsgiClient(app)
        return self

    def _waits_for(self, target: Target, tenant_id: str) -> str | None:
        return self.scheduler.waits_for(tenant_id) or self.scheduler.gate.waits_for(target)

    async def close(self) -> None:
        """A test that lets time pass calls it at its end: the firing side leaves sleepers behind."""
        await self.crash(self.scheduler)

    async def create(self, **fields: Any) -> dict[str, Any]:
        """A job, by default one in a minute; the created answer."""
        reply = await self.client.post("/v1/jobs", one_off(**fields))
        assert reply.status == 201, reply.body
        answer: dict[str, Any] = reply.json
        return answer

    async def cron(self, expression: str = "*/5 * * * *", **fields: Any) -> dict[str, Any]:
        body = {"schedule_type": "CRON", "cron_expression": expression, "target": TARGET, **fields}
        reply = await self.client.post("/v1/jobs", body)
        assert reply.status == 201, reply.body
        answer: dict[str, Any] = reply.json
        return answer

    async def get(self, job_id: str, query: str = "") -> Reply:
        return await self.client.get(f"/v1/jobs/{job_id}{query}")


def one_off(**fields: Any) -> dict[str, Any]:
    """The body of a valid request."""
    body: dict[str, Any] = {"schedule_type": "DELAYED", "target": TARGET, **fields}
    if not {"delay_seconds", "execute_at", "run_at_epoch_ms"} & body.keys() and body["schedule_type"] != "INSTANT":
        body["delay_seconds"] = 60
    return body
