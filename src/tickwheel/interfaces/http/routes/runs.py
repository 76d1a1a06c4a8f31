"""Runs: list, read, cancel."""

from collections.abc import Mapping

from tickwheel.interfaces.http.answers import CancelledBody, RunList
from tickwheel.interfaces.http.deps import Deps
from tickwheel.interfaces.http.endpoints import Key
from tickwheel.interfaces.http.paging import paging
from tickwheel.interfaces.http.path_ids import job_id_of, run_id_of
from tickwheel.interfaces.http.resource import Call, Handler
from tickwheel.interfaces.http.run_views import run_body
from tickwheel.interfaces.http.tenants import tenant_of
from tickwheel.interfaces.http.wire import Answer, ok


class RunRoutes:
    """The runs of jobs."""

    def __init__(self, deps: Deps) -> None:
        self._runs = deps.runs

    def endpoints(self) -> Mapping[Key, Handler]:
        """(method, path) -> handler."""
        return {
            ("GET", "/v1/jobs/{job_id}/runs"): self.list,
            ("GET", "/v1/runs/{run_id}"): self.get,
            ("POST", "/v1/runs/{run_id}/cancel"): self.cancel,
        }

    async def list(self, call: Call) -> Answer:
        """A page of a job's runs."""
        tenant_id, (limit, after) = tenant_of(call), paging(call.query)
        call.query.done()
        page = await self._runs.list(tenant_id, job_id_of(call), limit, after)
        return ok(RunList([run_body(run) for run in page.items], page.next_cursor))

    async def get(self, call: Call) -> Answer:
        """One run with its attempts."""
        tenant_id = tenant_of(call)
        call.query.done()
        run = await self._runs.get(tenant_id, *run_id_of(call))
        return ok(run_body(run, with_attempts=True))

    async def cancel(self, call: Call) -> Answer:
        """Cancel one run."""
        tenant_id = tenant_of(call)
        call.query.done()
        await self._runs.cancel(tenant_id, *run_id_of(call), act=call.act("run.cancel"))
        return ok(CancelledBody("CANCELLED"))
