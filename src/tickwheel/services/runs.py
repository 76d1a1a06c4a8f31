"""The use cases of runs."""

from tickwheel.domain.errors import Conflict, NotFound
from tickwheel.domain.ids import job_id_text, run_id_text
from tickwheel.ports.clock import Clock
from tickwheel.ports.owner import Owner
from tickwheel.ports.registry import Act
from tickwheel.ports.store import Change, JobView, Run, RunPage, Store
from tickwheel.services.aftermath import Aftermath, Seen
from tickwheel.services.changes.occurrence import cancel_run
from tickwheel.services.changes.taken import Taken, knowing_taken


class Runs:
    """Look at runs and cancel them. `tenant_id` bounds every look-up."""

    def __init__(self, store: Store, owner: Owner, clock: Clock) -> None:
        self._store, self._clock = store, clock
        self._aftermath = Aftermath(owner)

    async def get(self, tenant_id: str, job_id: bytes, scheduled_ms: int) -> Run:
        """The run with all its attempts. Raises `NotFound`."""
        run = await self._store.get_run(tenant_id, job_id, scheduled_ms)
        if run is None:
            raise NotFound(f"there is no run {run_id_text(job_id, scheduled_ms)}")
        return run

    async def list(self, tenant_id: str, job_id: bytes, limit: int, after: str | None = None) -> RunPage:
        """A page of a job's runs, latest first. Raises `NotFound` and `BadCursor`."""
        if await self._store.get_job(tenant_id, job_id) is None:
            raise NotFound(f"there is no job {job_id_text(job_id)}")
        return await self._store.list_runs(tenant_id, job_id, limit, after)

    async def cancel(self, tenant_id: str, job_id: bytes, scheduled_ms: int, *, act: Act | None = None) -> Run:
        """End one run: no attempt of it commits after this. Repeatable.

        Of a recurring job only the next occurrence and those with a ledger row can be cancelled. Raises
        `NotFound` and `Conflict`. With an `act` it is in the audit log, by the same commit.
        """
        seen = Seen()

        async def change(taken: Taken) -> None:
            def decide(view: JobView, run: Run, now_ms: int) -> Change:
                seen.view = view
                return cancel_run(view, run, now_ms, taken)

            changed = await self._store.change_run(tenant_id, job_id, scheduled_ms, decide, act)
            if changed is None:
                await self._refuse(tenant_id, job_id, scheduled_ms)
            else:
                self._aftermath.of(seen, changed)

        await knowing_taken(self._store, change)
        return await self.get(tenant_id, job_id, scheduled_ms)

    async def _refuse(self, tenant_id: str, job_id: bytes, scheduled_ms: int) -> None:
        view = await self._store.get_job(tenant_id, job_id)
        if view is not None and view.job.recurring and scheduled_ms > self._clock.now_ms():
            raise Conflict("only the next occurrence of a job can be cancelled; pause the job for more of them")
        raise NotFound(f"there is no run {run_id_text(job_id, scheduled_ms)}")
