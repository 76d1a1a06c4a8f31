"""What a tenant may have, made through the API by one of its own, with names that nothing else has."""

from dataclasses import dataclass, field
from typing import Any, Final

from tickwheel.domain.job import DEFAULT_TENANT

from .asgi_client import AsgiClient
from .pull_world import question
from .whole_world import WholeWorld

KINDS: Final = (
    *(
        "handler",
        "header",
        "job",
        "key",
        "label",
        "limit",
        "memo",
        "note",
        "path",
        "payload",
        "put",
        "secret",
        "tag",
    ),
    *("version", "worker", "rule", "hook"),
)
"""What has texts of its own."""
DAILY: Final[dict[str, Any]] = {"schedule_type": "CRON", "cron_expression": "17 3 * * *"}
EVERY_SECOND: Final[dict[str, Any]] = {"schedule_type": "CRON", "cron_expression": "* * * * * *"}
NOW: Final[dict[str, Any]] = {"schedule_type": "INSTANT"}
LATER: Final[dict[str, Any]] = {"schedule_type": "DELAYED", "delay_seconds": 86_400}


@dataclass
class Belongings:
    """`named` has the values that a request can name, by the parameter or member that names them, latest last."""

    tenant_id: str
    client: AsgiClient
    named: dict[str, list[Any]] = field(default_factory=dict)

    def word(self, kind: str) -> str:
        """A text that is in the tenant's things of that kind, and nowhere else."""
        assert kind in KINDS
        return f"{self.tenant_id}-{kind}-x7q"

    def note(self, name: str, value: Any) -> Any:
        """Keep a value by which something of the tenant can be named."""
        self.named.setdefault(name, []).append(value)
        return value

    @property
    def marks(self) -> set[str]:
        """Texts that nobody else may get to see."""
        found = {value for values in self.named.values() for value in values if isinstance(value, str)}
        found -= {DEFAULT_TENANT}  # a word in many texts
        return found | {self.word(kind) for kind in KINDS}


async def settle(world: WholeWorld, *tenant_ids: str) -> list[Belongings]:
    """Tenants with something of everything. The workers come last, for a silent one is soon given up."""
    tenants = [Belongings(tenant_id, await world.member(tenant_id)) for tenant_id in tenant_ids]
    for mine in tenants:
        await _records(world, mine)
        await _jobs(world, mine)
    for mine in tenants:
        await _worker(world, mine)
    return tenants


async def retire(mine: Belongings) -> None:
    """The worker ends its run and leaves."""
    worker_id = mine.named["worker_id"][-1]
    end = {"run_id": mine.named["run_id"][-1], "fencing_token": mine.named["fencing_token"][-1]}
    ended = await mine.client.post("/v1/workers/complete", {"worker_id": worker_id, "runs": [end]})
    assert ended.json["runs"][0]["accepted"]
    assert (await mine.client.post("/v1/workers/leave", {"worker_id": worker_id})).json["left"]


async def _records(world: WholeWorld, mine: Belongings) -> None:
    mine.note("tenant_id", mine.tenant_id)
    mine.note("actor", (await mine.client.get("/v1/whoami")).json["principal"])
    token = await _made(mine, "/v1/tokens", {"role": "reader", "label": mine.word("label")})
    mine.note("token_id", token["token_id"])
    memo = {"note": mine.word("memo"), "limits": {"max_jobs": 777}}
    assert (await world.client.request("PUT", f"/v1/tenants/{mine.tenant_id}", memo)).status == 200
    await _made(mine, "/v1/secrets", {"name": mine.note("secret_name", mine.word("secret"))})
    rule = {"events": ["job.failing"], "to": {"webhook": {"endpoint": f"https://a.example/{mine.word('hook')}"}}}
    name = mine.note("notification_name", mine.word("rule"))
    assert (await mine.client.request("PUT", f"/v1/notifications/{name}", rule)).status == 200


async def _jobs(world: WholeWorld, mine: Belongings) -> None:
    """In every state; runs in most of them. The last one has several."""
    key = mine.note("idempotency_key", mine.word("key"))
    for path, fields in (
        ("", LATER | {"idempotency_key": key}),
        ("", DAILY | {"concurrency": [{"key": mine.word("limit"), "limit": 1}]}),
        ("/slow", NOW),
        ("/never", NOW),
        ("/never", NOW),
        ("", NOW),
    ):
        job = await _made(mine, "/v1/jobs", _job(mine, path, **fields))
        await world.clock.advance(1_000)
        await _note_job(mine, job["job_id"])
    name = mine.note("name", mine.word("put"))
    put = await mine.client.request("PUT", f"/v1/jobs/by-name/{name}", _job(mine, job_name=name, **DAILY))
    assert put.status == 201, put.body
    await _note_job(mine, put.json["job_id"])
    for verb in ("cancel", "pause"):
        job = await _made(mine, "/v1/jobs", _job(mine, **DAILY))
        assert (await mine.client.post(f"/v1/jobs/{job['job_id']}/{verb}")).status == 200
        await _note_job(mine, job["job_id"])
    often = await _made(mine, "/v1/jobs", _job(mine, **EVERY_SECOND))
    await world.clock.advance(2_500)
    assert (await mine.client.post(f"/v1/jobs/{often['job_id']}/pause")).status == 200
    await _note_job(mine, often["job_id"])


async def _worker(world: WholeWorld, mine: Belongings) -> None:
    """One that holds a run."""
    me = {"name": mine.word("worker"), "version": mine.word("version")}
    asked = question(handlers=[mine.word("handler")], free=0) | {"worker": me}
    hired = await mine.client.post("/v1/workers/poll", asked)
    assert hired.status == 200, hired.body
    me["id"] = mine.note("worker_id", hired.json["worker_id"])
    await world.clock.advance(1_500)
    target = {"type": "HANDLER", "name": mine.word("handler")}
    job = await _made(mine, "/v1/jobs", _job(mine, **NOW) | {"target": target})
    runs: list[Any] = []
    asked["slots"]["free"] = 1
    while not runs:
        await world.clock.advance(100)
        runs = (await mine.client.post("/v1/workers/poll", asked)).json["runs"]
    await _note_job(mine, job["job_id"])
    mine.named["job_id"].insert(0, mine.named["job_id"].pop())
    token = mine.note("fencing_token", runs[0]["fencing_token"])
    beat = {"run_id": runs[0]["run_id"], "fencing_token": token, "note": mine.word("note")}
    kept = await mine.client.post("/v1/workers/heartbeat", {"worker_id": me["id"], "runs": [beat]})
    assert kept.json["runs"][0]["status"] == "held"


async def _note_job(mine: Belongings, job_id: str) -> None:
    mine.note("job_id", job_id)
    for run in (await mine.client.get(f"/v1/jobs/{job_id}/runs")).json["runs"]:
        mine.note("run_id", run["run_id"])


async def _made(mine: Belongings, path: str, body: Any) -> Any:
    reply = await mine.client.post(path, body)
    assert reply.status == 201, (path, reply.body)
    return reply.json


def _job(mine: Belongings, path: str = "", **fields: Any) -> dict[str, Any]:
    return {
        "job_name": mine.word("job"),
        "tags": [mine.word("tag")],
        "payload": {"told": mine.word("payload")},
        "target": {
            "endpoint": f"https://a.example{path or '/' + mine.word('path')}",
            "headers": {"X-Told": mine.word("header")},
        },
        **fields,
    }


def everything_of(world: WholeWorld, tenant_id: str) -> list[str]:
    """All that the store knows of a tenant."""
    tables = world.memory._tables
    jobs = {job_id: job for job_id, job in tables.jobs.items() if job.tenant_id == tenant_id}
    return [
        repr(jobs),
        repr([key for key in tables.timers if key.job_id in jobs]),
        repr({key: row for key, row in tables.ledger.items() if key[0] in jobs}),
        repr({key: letter for key, letter in tables.dead.items() if key[0] in jobs}),
        repr({key: slots for key, slots in tables.slots_of.items() if key[0] in jobs}),
        repr({key: row for key, row in tables.keys.items() if key[0] == tenant_id}),
        repr({key: job_id for key, job_id in tables.named.items() if key[0] == tenant_id}),
        repr([state for state in tables.sessions.values() if state.note.tenant_id == tenant_id]),
        repr({key: row for key, row in tables.records.items() if tenant_id in (key[1], key[2])}),
        repr([entry for entry in tables.audit_log.values() if entry.tenant_id == tenant_id]),
    ]
