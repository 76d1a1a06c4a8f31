"""Making jobs: one, many, by name, in the compact form."""

from collections.abc import Mapping

from tickwheel.domain.errors import FieldProblem, InvalidRequest
from tickwheel.domain.ids import job_id_text
from tickwheel.domain.job import DEFAULT_TENANT
from tickwheel.domain.limits import BATCH_BODY_BYTES, BODY_BYTES, NAME_CHARS
from tickwheel.domain.requests.compact_request import parse_compact_request
from tickwheel.domain.requests.job_request import JobRequest
from tickwheel.domain.requests.request import parse_job_request, split_batch
from tickwheel.domain.requests.tenancy import check_new_tenant, own
from tickwheel.domain.requests.text_rules import name_fault
from tickwheel.interfaces.http.admission import admit_for
from tickwheel.interfaces.http.answers import CompactBody
from tickwheel.interfaces.http.created_views import batch_body, created_body, location
from tickwheel.interfaces.http.deps import Deps
from tickwheel.interfaces.http.endpoints import Key
from tickwheel.interfaces.http.idempotency import header_key
from tickwheel.interfaces.http.job_views import etag, job_body
from tickwheel.interfaces.http.preconditions import refuse_precondition
from tickwheel.interfaces.http.read_back import definition_in
from tickwheel.interfaces.http.resource import Call, Handler
from tickwheel.interfaces.http.tenants import tenant_filter
from tickwheel.interfaces.http.wire import Answer, Header, ok
from tickwheel.services.ingest import Created
from tickwheel.services.jobs import PutOutcome

_REPLAYED: Header = (b"idempotent-replayed", b"true")


class NewJobRoutes:
    """What ends in a new job."""

    def __init__(self, deps: Deps) -> None:
        self._jobs, self._clock, self._quotas = deps.jobs, deps.clock, deps.quotas

    def endpoints(self) -> Mapping[Key, Handler]:
        """(method, path) -> handler."""
        return {
            ("POST", "/v1/jobs"): self.create,
            ("POST", "/v1/jobs/batch"): self.create_many,
            ("POST", "/v1/jobs/schedule"): self.create_compact,
            ("PUT", "/v1/jobs/by-name/{name}"): self.put_named,
        }

    async def create(self, call: Call) -> Answer:
        """One job."""
        self._jobs.check_room()
        call.query.done()
        request = own(parse_job_request(await call.json_body(BODY_BYTES), _tenant(call)), call.principal.tenant_id)
        admit_for(call, self._quotas, request.tenant_id)
        created = await self._jobs.create(request, header_key(call), act=call.act("job.create"))
        body = created_body(created)
        call.job_id = body.job_id
        return ok(body, status=201, headers=created_headers(created, body.job_id))

    async def create_many(self, call: Call) -> Answer:
        """An array of jobs in one commit."""
        self._jobs.check_room()
        call.query.done()
        items = split_batch(await call.json_body(BATCH_BODY_BYTES))
        act = call.act("job.create")
        answers = await self._jobs.create_many(items, bound_tenant=call.principal.tenant_id, act=act)
        body = batch_body(answers)
        return ok(body, status=207 if body.failed_count else 200)

    async def create_compact(self, call: Call) -> Answer:
        """One job in the compact form."""
        self._jobs.check_room()
        call.query.done()
        request = own(
            parse_compact_request(await call.json_body(BODY_BYTES), _tenant(call)), call.principal.tenant_id
        )
        admit_for(call, self._quotas, request.tenant_id)
        created = await self._jobs.create(request, header_key(call), act=call.act("job.create"))
        body = CompactBody(job_id_text(created.job_id), "SCHEDULED")
        call.job_id = body.job_id
        return ok(body, status=201, headers=created_headers(created, body.job_id))

    async def put_named(self, call: Call) -> Answer:
        """Create or replace by name."""
        self._jobs.check_room()
        tenant_id = tenant_filter(call)
        call.query.done()
        refuse_precondition(call)
        if tenant_id is not None and call.principal.tenant_id is None:
            check_new_tenant(tenant_id)
        name = _name(call)
        request = await self._named_request(call, tenant_id)
        admit_for(call, self._quotas, request.tenant_id)
        put = await self._jobs.put_named(name, request, act=call.act("job.put"))
        headers: tuple[Header, ...] = ((b"etag", etag(put.view.job)),)
        body = job_body(put.view, self._clock.now_ms())
        if put.outcome is not PutOutcome.CREATED:
            return ok(body, headers=headers)
        where = location(job_id_text(put.view.job.job_id), put.view.job.tenant_id)
        return ok(body, status=201, headers=(*headers, where))

    async def _named_request(self, call: Call, tenant_id: str | None) -> JobRequest:
        raw = definition_in(await call.json_body(BODY_BYTES))
        return own(parse_job_request(raw, tenant_id or DEFAULT_TENANT), tenant_id)


def created_headers(created: Created, job_id: str) -> tuple[Header, ...]:
    """Where the job is, and whether it was there before; `job_id` is its printed id."""
    where = location(job_id, created.tenant_id)
    return (where, _REPLAYED) if created.replayed else (where,)


def _tenant(call: Call) -> str:
    """Of a request whose body names none."""
    return call.principal.tenant_id or DEFAULT_TENANT


def _name(call: Call) -> str:
    name = call.path("name")
    fault = name_fault(name)
    if not 1 <= len(name) <= NAME_CHARS:
        fault = f"has {len(name)} characters; 1 to {NAME_CHARS} are allowed"
    if fault is not None:
        raise InvalidRequest([FieldProblem("name", fault)])
    return name
