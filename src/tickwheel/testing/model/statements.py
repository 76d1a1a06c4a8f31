"""What the statements of the model do beside the memory store's, and what they leave undone without a rule."""

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from tickwheel.adapters.memory import changes
from tickwheel.adapters.memory.claims import ClaimTransaction, LooksNow
from tickwheel.adapters.memory.completions import CompletionTransaction
from tickwheel.adapters.memory.tables import LedgerRow
from tickwheel.adapters.memory.views import job_view
from tickwheel.domain.columns import FLAG_RECURRING, ClaimAction, ClaimVerdict, CompletionCause, Rows
from tickwheel.domain.concurrency import Counted, Used, counted
from tickwheel.domain.ids import shard_of
from tickwheel.domain.job import Job
from tickwheel.domain.ledger_moves import Claim, Claimed, Completion
from tickwheel.domain.run import FENCE_SEQUENCE_BITS, IN_FLIGHT, TERMINAL, RunState
from tickwheel.ports.store import AttemptNote, Changed, JobDecision, JobView, LedgerWrite, Run
from tickwheel.testing.model.row_locks import Wish
from tickwheel.testing.model.rules import Rules
from tickwheel.testing.model.tables import ModelTables


class LooksThen:
    """What a claim's statement read when it began; locks hold it still until the commit."""

    def __init__(self, tables: ModelTables, rules: Rules, worker: str | None, batch: Rows) -> None:
        now = LooksNow(tables, worker)
        ids = {bytes(job_id) for job_id in batch["job_id"].tolist()}
        fences = zip(batch["job_id"].tolist(), batch["fence"].tolist(), strict=True)
        pairs = {(shard_of(job_id), fence >> FENCE_SEQUENCE_BITS) for job_id, fence in fences}
        self._may = {pair: now.may_claim(*pair) for pair in pairs}
        self._jobs = {job_id: now.job(job_id) for job_id in ids}
        counted = frozenset(RunState) - TERMINAL if rules.hold("E7") else IN_FLIGHT
        self._open = {job_id: [run for run in now.open_runs(job_id) if run.state in counted] for job_id in ids}

        limits = limits_of(self._jobs.values(), batch)
        self._used = {
            limit.name: Used(now.used(limit.name).running, now.used(limit.name).waiting) for limit in limits
        }

    def may_claim(self, shard: int, epoch: int) -> bool:
        return self._may[shard, epoch]

    def job(self, job_id: bytes) -> Job | None:
        return self._jobs[job_id]

    def open_runs(self, job_id: bytes) -> Iterable[Run]:
        return self._open[job_id]

    def used(self, name: str) -> Used:
        return self._used[name]

    def claimed(self, job_id: bytes, run: Run) -> None:
        """The statement itself has changed this run of the job."""
        others = [other for other in self._open[job_id] if other.scheduled_ms != run.scheduled_ms]
        self._open[job_id] = others if run.state in TERMINAL else [*others, run]

    def completed(self, job: Job) -> None:
        """The statement itself has changed the job."""
        self._jobs[job.job_id] = job


class ModelClaims(ClaimTransaction):
    """One batch of claims."""

    def __init__(
        self,
        tables: ModelTables,
        rules: Rules,
        looks: LooksThen,
        *,
        worker: str | None,
        now_ms: int,
        lease_ms: int,
        queued: bool = False,
    ) -> None:
        super().__init__(tables, worker=worker, now_ms=now_ms, lease_ms=lease_ms, looks=looks, queued=queued)
        self._rules, self._seen = rules, looks

    def _claim(self, claim: Claim) -> Claimed:
        if claim.action == ClaimAction.SKIP and not self._rules.hold("E6"):
            return Claimed(ClaimVerdict.RESOLVED)
        if not self._rules.hold("F3"):
            claim = claim._replace(max_attempts=1 << 30)
        answer = super()._claim(claim)
        row = self._tables.ledger.get((claim.job_id, claim.scheduled_ms))
        if row is not None:
            self._seen.claimed(claim.job_id, row.run)
        return answer

    def _claim_row(self, claim: Claim, job: Job, row: LedgerRow) -> Claimed:
        if row.run.state is RunState.SCHEDULED and not self._rules.hold("D7"):
            return self._claim_waiting(claim, job, row)
        answer = super()._claim_row(claim, job, row)
        if claim.gen > 0 and claim.gen == job.version and not self._rules.hold("E2"):
            self._plant_next(claim, job)
        return answer

    def _plant_next(self, claim: Claim, job: Job) -> None:
        super()._plant_next(claim, job)
        current = self._tables.jobs.get(job.job_id)
        if current is not None and job.recurring and claim.next_ms < 0:
            self._seen.completed(current)


class ModelCompletions(CompletionTransaction):
    """One batch of completions."""

    def __init__(self, tables: ModelTables, rules: Rules, *, now_ms: int) -> None:
        super().__init__(tables, now_ms=now_ms)
        self._rules = rules

    def _complete(self, end: Completion, note: AttemptNote) -> bool:
        row = self._tables.ledger.get((end.job_id, end.scheduled_ms))
        if row is None or row.run.fence != end.fence:
            return False
        over = row.run.state not in IN_FLIGHT
        if over and row.run.state != end.state and not self._rules.hold("F6"):
            row.run = replace(row.run, state=RunState.RUNNING)
        applied = super()._complete(end, note)
        lost = end.cause in (CompletionCause.REAPER, CompletionCause.DEAD_OWNER)
        if applied and not over and lost and not self._rules.hold("D4"):
            self._tables.put_run(row, replace(row.run, fence=row.run.fence + 1))
        return applied


def limits_of(jobs: Iterable[Job | None], batch: Rows) -> list[Counted]:
    """What the limits of these jobs count, and those of their tenants that the claims bring along."""
    pairs = zip(batch["job_id"].tolist(), batch["tenant_limit"].tolist(), strict=True)
    tenant_limits = {bytes(job_id): tenant_limit for job_id, tenant_limit in pairs}
    return [
        limit
        for job in jobs
        if job is not None
        for limit in counted(job.spec.concurrency, job.tenant_id, job.name, tenant_limits[job.job_id])
    ]


def claim_wishes(tables: ModelTables, batch: Rows, worker: str | None, rules: Rules) -> list[Wish]:
    """The rows that a batch of claims locks: its node's (D1), those of recurring jobs (E1), its counts (L1)."""
    wishes = [Wish(("node", worker), exclusive=False)] if rules.hold("D1") else []
    if rules.hold("E1"):
        columns = zip(batch["job_id"].tolist(), batch["flags"].tolist(), strict=True)
        recurring = {bytes(job_id) for job_id, flags in columns if flags & FLAG_RECURRING}
        wishes += [Wish(("job", job_id), exclusive=False) for job_id in recurring]
    if rules.hold("L1"):
        jobs = (tables.jobs.get(bytes(job_id)) for job_id in set(batch["job_id"].tolist()))
        names = {limit.name for limit in limits_of(jobs, batch)}
        wishes += [Wish(("limit", name), exclusive=True) for name in names]
    return wishes


class LatentChange:
    """A change of a job that looked before it waited for the lock: E8 dropped."""

    def __init__(self, tables: ModelTables, tenant_id: str, job_id: bytes) -> None:
        job = changes.find_job(tables, tenant_id, job_id)
        self._view = None if job is None else job_view(tables, job)

    def apply(self, tables: ModelTables, decide: JobDecision, now_ms: int) -> Changed | None:
        """Write what was decided upon the old view."""
        view = self._view
        if view is None:
            return None
        change = decide(view, now_ms)
        if change.cancel_open:
            seen = _still_open(tables, view)
            writes = tuple(LedgerWrite(scheduled_ms, RunState.CANCELLED) for scheduled_ms in seen)
            change = replace(change, cancel_open=False, runs=(*writes, *change.runs))
        return changes.apply(tables, view.job, change, now_ms)


def _still_open(tables: ModelTables, view: JobView) -> Sequence[int]:
    rows = tables.runs_of.get(view.job.job_id, {})
    return [run.scheduled_ms for run in view.open_runs if rows[run.scheduled_ms].run.state not in TERMINAL]
