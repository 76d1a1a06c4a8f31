"""Jobs that exist: list, read, change, hold, end, run now."""

from collections.abc import Mapping
from typing import Final

from tickwheel.domain.errors import FieldProblem, InvalidRequest
from tickwheel.domain.job import JobState
from tickwheel.domain.limits import BODY_BYTES
from tickwheel.domain.requests.patch import parse_patch
from tickwheel.interfaces.http.answers import CancelledBody, JobList
from tickwheel.interfaces.http.created_views import triggered_body
from tickwheel.interfaces.http.deps import Deps
from tickwheel.interfaces.http.endpoints import Key
from tickwheel.interfaces.http.idempotency import header_key
from tickwheel.interfaces.http.job_filters import job_query
from tickwheel.interfaces.http.job_views import etag, job_body
from tickwheel.interfaces.http.path_ids import job_id_of
from tickwheel.interfaces.http.preconditions import expected_version, refuse_precondition
from tickwheel.interfaces.http.read_back import change_in, definition_in, names_fixed_fields
from tickwheel.interfaces.http.resource import Call, Handler
from tickwheel.interfaces.http.routes.new_jobs import created_headers
from tickwheel.interfaces.http.tenants import tenant_of
from tickwheel.interfaces.http.wire import Answer, ok
from tickwheel.ports.store import JobView

_CANCELLED: Final = CancelledBody(JobState.CANCELLED.name)
_EMPTY_BODIES: Final = frozenset({b"", b"{}", b"null"})


class JobRoutes:
    """What is done to a job by its id, and the list."""

    def __init__(self, deps: Deps) -> None:
        self._jobs, self._clock, self._waits_for = deps.jobs, deps.clock, deps.waits_for

    def endpoints(self) -> Mapping[Key, Handler]:
        """(method, path) -> handler."""
        return {
            ("GET", "/v1/jobs"): self.list,
            ("GET", "/v1/jobs/{job_id}"): self.get,
            ("PATCH", "/v1/jobs/{job_id}"): self.edit,
            ("DELETE", "/v1/jobs/{job_id}"): self.delete,
            ("POST", "/v1/jobs/{job_id}/cancel"): self.cancel,
            ("POST", "/v1/jobs/{job_id}/pause"): self.pause,
            ("POST", "/v1/jobs/{job_id}/resume"): self.resume,
            ("POST", "/v1/jobs/{job_id}/trigger"): self.trigger,
        }

    async def list(self, call: Call) -> Answer:
        """A page of jobs."""
        page = await self._jobs.list(job_query(call))
        now_ms = self._clock.now_ms()
        return ok(JobList([job_body(view, now_ms) for view in page.items], page.next_cursor))

    async def get(self, call: Call) -> Answer:
        """One job."""
        tenant_id = tenant_of(call)
        call.query.done()
        view = await self._jobs.get(tenant_id, job_id_of(call))
        body = job_body(view, self._clock.now_ms(), self._waits_for)
        return ok(body, headers=((b"etag", etag(view.job)),))

    async def edit(self, call: Call) -> Answer:
        """Change the definition."""
        tenant_id = tenant_of(call)
        call.query.done()
        job_id, version = job_id_of(call), expected_version(call)
        raw = await call.json_body(BODY_BYTES)
        if names_fixed_fields(raw):
            raw = change_in(raw, (await self._jobs.get(tenant_id, job_id)).job)
        patch = parse_patch(definition_in(raw))
        return self._shown(await self._jobs.edit(tenant_id, job_id, patch, version, act=call.act("job.edit")))

    async def delete(self, call: Call) -> Answer:
        """Take it away."""
        tenant_id = tenant_of(call)
        call.query.done()
        refuse_precondition(call)
        await self._jobs.delete(tenant_id, job_id_of(call), act=call.act("job.delete"))
        return Answer(204)

    async def cancel(self, call: Call) -> Answer:
        """End it."""
        tenant_id = tenant_of(call)
        call.query.done()
        refuse_precondition(call)
        await _no_body(call)
        await self._jobs.cancel(tenant_id, job_id_of(call), act=call.act("job.cancel"))
        return ok(_CANCELLED)

    async def pause(self, call: Call) -> Answer:
        """Hold it."""
        tenant_id, job_id, version = await _held(call)
        return self._shown(await self._jobs.pause(tenant_id, job_id, version, act=call.act("job.pause")))

    async def resume(self, call: Call) -> Answer:
        """Go on."""
        tenant_id, job_id, version = await _held(call)
        return self._shown(await self._jobs.resume(tenant_id, job_id, version, act=call.act("job.resume")))

    async def trigger(self, call: Call) -> Answer:
        """Run it now."""
        self._jobs.check_room()
        tenant_id = tenant_of(call)
        call.query.done()
        refuse_precondition(call)
        await _no_body(call)
        created = await self._jobs.trigger(
            tenant_id, job_id_of(call), header_key(call), act=call.act("job.trigger")
        )
        body = triggered_body(created)
        call.job_id = body.job_id
        return ok(body, status=201, headers=created_headers(created, body.job_id))

    def _shown(self, view: JobView) -> Answer:
        return ok(job_body(view, self._clock.now_ms()), headers=((b"etag", etag(view.job)),))


async def _held(call: Call) -> tuple[str, bytes, int | None]:
    """Tenant, job and expected version of a request without a body."""
    tenant_id = tenant_of(call)
    call.query.done()
    await _no_body(call)
    return tenant_id, job_id_of(call), expected_version(call)


async def _no_body(call: Call) -> None:
    body = await call.optional_json_body(BODY_BYTES)
    if body.strip() not in _EMPTY_BODIES:
        raise InvalidRequest([FieldProblem("body", "takes no fields; send none", "unexpected")])
