"""Why a run did not run, ran late or ran twice."""

from collections.abc import Mapping

from tickwheel.interfaces.http.deps import Deps
from tickwheel.interfaces.http.endpoints import Key
from tickwheel.interfaces.http.explanation_bodies import explanation_body
from tickwheel.interfaces.http.path_ids import job_id_of, run_id_of
from tickwheel.interfaces.http.resource import Call, Handler
from tickwheel.interfaces.http.tenants import tenant_of
from tickwheel.interfaces.http.wire import Answer, Refusal, ok
from tickwheel.services.explanations import Explanations


class ExplanationRoutes:
    """Explanations of runs, and of instants of a job."""

    def __init__(self, deps: Deps) -> None:
        self._explanations = deps.explanations

    def endpoints(self) -> Mapping[Key, Handler]:
        """(method, path) -> handler."""
        return {
            ("GET", "/v1/runs/{run_id}/explain"): self.of_run,
            ("GET", "/v1/jobs/{job_id}/explain"): self.of_job,
        }

    async def of_run(self, call: Call) -> Answer:
        """One run, also one that never was."""
        tenant_id = tenant_of(call)
        call.query.done()
        return ok(explanation_body(await self._use_case().of_run(tenant_id, *run_id_of(call))))

    async def of_job(self, call: Call) -> Answer:
        """What became of a job at a time."""
        tenant_id, at = tenant_of(call), call.query.text("at")
        call.query.done()
        return ok(explanation_body(await self._use_case().of_instant(tenant_id, job_id_of(call), at)))

    def _use_case(self) -> Explanations:
        if self._explanations is None:
            raise Refusal("not_ready", "This node explains nothing; ask one with the role api.")
        return self._explanations
